/* The report for programs. Keys are promises: they may be added, and not changed. */
#include "doctor.h"
#include "mechanism.h"

#include <stdio.h>

static void put_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
    fputc('"', file);
}

static void put_text(FILE *file, const char *key, const char *text)
{
    fprintf(file, "\"%s\": ", key);
    put_string(file, text);
}

static const char *truth(bool is)
{
    return is ? "true" : "false";
}

/* Without a limit: null. */
static void put_limit(FILE *file, const char *key, uint64_t limit)
{
    if (limit == UINT64_MAX)
        fprintf(file, "\"%s\": null", key);
    else
        fprintf(file, "\"%s\": %llu", key, (unsigned long long)limit);
}

static void put_system(const struct doctor *doctor, FILE *file)
{
    const struct system *system = &doctor->system;
    fprintf(file, "  \"system\": {");
    put_text(file, "host", system->host);
    fprintf(file, ", ");
    put_text(file, "container", system->container);
    fprintf(file, ", ");
    put_text(file, "cuda_visible_devices", system->visible_devices);
    fprintf(file, ",\n    ");
    put_limit(file, "memlock", system->memlock);
    fprintf(file, ", ");
    put_limit(file, "files", system->descriptors);
    fprintf(file, ", \"shm_bytes\": %llu, \"device_files\": %d,\n    ", (unsigned long long)system->shm_bytes,
            system->device_files);
    put_text(file, "arch", doctor->topology->arch);
    fprintf(file, ", ");
    put_text(file, "cpu", doctor->topology->cpu);
    fprintf(file, ", \"nvswitches\": %d},\n", doctor->topology->nvswitches);
}

static void put_link(FILE *file, const struct rondo_pci_link *link)
{
    fprintf(file, "{\"gts\": %.1f, \"width\": %u, \"max_gts\": %.1f, \"max_width\": %u}", link->speed * 0.1,
            link->width, link->max_speed * 0.1, link->max_width);
}

static void put_devices(const struct doctor *doctor, FILE *file)
{
    char path[16];
    fprintf(file, "  \"device\": ");
    put_string(file, doctor->seen->row);
    fprintf(file, ",\n  \"devices\": [");
    for (int d = 0; d < doctor->seen->count; d++) {
        const struct rondo_device_info *info = &doctor->seen->infos[d];
        const struct rondo_topology_gpu none = {.numa = -1};
        const struct rondo_topology_gpu *gpu =
            doctor->places[d] < 0 ? &none : &doctor->topology->gpus[doctor->places[d]];
        fprintf(file, "%s\n    {\"ordinal\": %d, ", d ? "," : "", d);
        put_text(file, "name", info->name);
        fprintf(file, ", ");
        put_text(file, "bus_id", info->bus_id);
        fprintf(file, ", \"capability\": %d, \"mig\": %s, \"located\": %s, \"numa\": %d, \"pcie\": ", info->capability,
                truth(info->mig), truth(gpu->located), gpu->numa);
        put_link(file, &gpu->link);
        fprintf(file, ", \"paths\": [");
        for (int b = 0; b < doctor->seen->count; b++) {
            path_text(doctor, d, b, path, sizeof path);
            fprintf(file, "%s\"%s\"", b ? ", " : "", path);
        }
        fprintf(file, "]}");
    }
    fprintf(file, "\n  ],\n");
}

static void put_outcome(const struct outcome *outcome, int m, FILE *file)
{
    static const char *const kinds[] = {"works", "unavailable", "broken", "inconclusive"};
    fprintf(file, "{\"mechanism\": \"%s\", \"result\": \"%s\", \"maps\": %s, ", mechanisms[m].name,
            kinds[outcome->kind], truth(outcome->copies || outcome->kernels || outcome->kind == OUTCOME_BROKEN));
    put_text(file, "why", outcome->why);
    fprintf(file, ",\n       \"copies_verified\": %s, \"kernels_verified\": %s, \"latency_us\": %.3f,",
            truth(outcome->copies), truth(outcome->kernels), outcome->latency_us);
    fprintf(file, " \"write_gbs\": [%.2f, %.2f], \"read_gbs\": [%.2f, %.2f]}", outcome->write_gbs[0],
            outcome->write_gbs[1], outcome->read_gbs[0], outcome->read_gbs[1]);
}

static void put_pairs(const struct doctor *doctor, FILE *file)
{
    char path[16];
    fprintf(file, "  \"pairs\": [");
    for (int i = 0; i < doctor->pair_count; i++) {
        const struct pair *pair = &doctor->pairs[i];
        path_text(doctor, pair->a, pair->b, path, sizeof path);
        fprintf(file, "%s\n    {\"a\": %d, \"b\": %d, \"path\": \"%s\", \"verdict\": \"%s\", ", i ? "," : "", pair->a,
                pair->b, path, verdict_name(pair->verdict));
        fprintf(file, "\"driver_access\": %s, \"p2p_allowed\": %s, \"p2p_read\": %s, ",
                truth(doctor->seen->peers[pair->a][pair->b].access), truth(pair->p2p.allowed), truth(pair->p2p.read));
        put_text(file, "p2p_why", pair->p2p.why ? pair->p2p.why : "");
        fprintf(file, ",\n     \"mechanisms\": [");
        for (int m = 0; m < mechanism_count; m++) {
            fprintf(file, "%s\n      ", m ? "," : "");
            put_outcome(&pair->outcomes[m], m, file);
        }
        fprintf(file, "]}");
    }
    fprintf(file, "\n  ],\n");
}

static void put_findings(const struct findings *findings, FILE *file)
{
    fprintf(file, "  \"findings\": [");
    for (int i = 0; i < findings->count; i++) {
        fprintf(file, "%s\n    {\"severity\": \"%s\", ", i ? "," : "", severity_name(findings->list[i].severity));
        put_text(file, "text", findings->list[i].text);
        fprintf(file, ", ");
        put_text(file, "advice", findings->list[i].advice);
        fputc('}', file);
    }
    fprintf(file, "\n  ],\n");
}

void report_json(const struct doctor *doctor, FILE *file)
{
    fprintf(file, "{\n  \"rondo_doctor\": \"%d.%d.%d\",\n", RONDO_MAJOR, RONDO_MINOR, RONDO_PATCH);
    fprintf(file, "  \"verdict\": \"%s\", \"seconds\": %.2f, \"quick\": %s, ", verdict_name(doctor->verdict),
            doctor->seconds, truth(doctor->options.quick));
    put_text(file, "no_device", doctor->seen->text);
    fprintf(file, ",\n");
    put_system(doctor, file);
    put_devices(doctor, file);
    put_pairs(doctor, file);
    put_findings(&doctor->findings, file);
    fprintf(file, "  \"findings_left_out\": %d\n}\n", doctor->findings.left_out);
}
