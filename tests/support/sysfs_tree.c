#include "support/sysfs_tree.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 1024 };

static void need(int well, const char *what)
{
    if (well)
        return;
    perror(what);
    abort();
}

static void make_dirs(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    mkdir(path, 0755);
}

static void write_bytes(const char *dir, const char *file, const void *bytes, size_t count)
{
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    FILE *out = fopen(path, "w");
    need(out != NULL, path);
    need(fwrite(bytes, 1, count, out) == count && fclose(out) == 0, path);
}

static void write_text(const char *dir, const char *file, const char *text)
{
    char line[512];
    snprintf(line, sizeof line, "%s\n", text);
    write_bytes(dir, file, line, strlen(line));
}

void tree_create(struct sysfs_tree *tree, const char *cpu_vendor)
{
    char path[PATH_BYTES], text[256];
    snprintf(tree->root, sizeof tree->root, "/tmp/rondo-tree-XXXXXX");
    need(mkdtemp(tree->root) != NULL, tree->root);
    snprintf(tree->sys, sizeof tree->sys, "%s/sys", tree->root);
    snprintf(tree->proc, sizeof tree->proc, "%s/proc", tree->root);
    snprintf(path, sizeof path, "%s/bus/pci/devices", tree->sys);
    make_dirs(path);
    make_dirs(tree->proc);
    snprintf(text, sizeof text, "processor\t: 0\nvendor_id\t: %s\ncpu family\t: 6", cpu_vendor);
    write_text(tree->proc, "cpuinfo", text);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

void tree_destroy(const struct sysfs_tree *tree)
{
    nftw(tree->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void tree_add_numa(const struct sysfs_tree *tree, int number, const char *cpus)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/devices/system/node/node%d", tree->sys, number);
    make_dirs(path);
    write_text(path, "cpulist", cpus);
}

static void device_dir(const struct sysfs_tree *tree, const char *path, char *dir)
{
    snprintf(dir, PATH_BYTES, "%s/devices/%s", tree->sys, path);
}

static void add_device(const struct sysfs_tree *tree, const char *path, int numa, const char *vendor, const char *kind)
{
    char dir[PATH_BYTES], link[PATH_BYTES], target[PATH_BYTES], number[16];
    device_dir(tree, path, dir);
    make_dirs(dir);
    snprintf(number, sizeof number, "%d", numa);
    write_text(dir, "vendor", vendor);
    write_text(dir, "class", kind);
    write_text(dir, "numa_node", number);
    write_text(dir, "current_link_speed", "32.0 GT/s PCIe");
    write_text(dir, "max_link_speed", "32.0 GT/s PCIe");
    write_text(dir, "current_link_width", "16");
    write_text(dir, "max_link_width", "16");
    snprintf(link, sizeof link, "%s/bus/pci/devices/%s", tree->sys, strrchr(path, '/') + 1);
    snprintf(target, sizeof target, "../../../devices/%s", path);
    need(symlink(target, link) == 0, link);
}

void tree_add_bridge(const struct sysfs_tree *tree, const char *path, int numa)
{
    add_device(tree, path, numa, "0x8086", "0x060400");
    tree_set_acs(tree, path, 0);
}

void tree_add_gpu(const struct sysfs_tree *tree, const char *path, int numa)
{
    add_device(tree, path, numa, "0x10de", "0x030200");
}

void tree_add_nvswitch(const struct sysfs_tree *tree, const char *path)
{
    add_device(tree, path, 0, "0x10de", "0x068000");
}

void tree_set(const struct sysfs_tree *tree, const char *path, const char *file, const char *text)
{
    char dir[PATH_BYTES], whole[PATH_BYTES + 64], *slash;
    device_dir(tree, path, dir);
    snprintf(whole, sizeof whole, "%s/%s", dir, file);
    if ((slash = strrchr(whole, '/')) != NULL) {
        *slash = '\0';
        make_dirs(whole);
    }
    write_text(dir, file, text);
}

static void put(unsigned char *at, unsigned value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

void tree_set_acs(const struct sysfs_tree *tree, const char *path, unsigned control)
{
    enum { AER_AT = 0x100, ACS_AT = 0x148 };
    char dir[PATH_BYTES];
    unsigned char space[4096] = {0};
    device_dir(tree, path, dir);
    put(space + AER_AT, 0x0001u | 1u << 16 | (unsigned)ACS_AT << 20);
    put(space + ACS_AT, 0x000du | 1u << 16);
    put(space + ACS_AT + 4, 0x5fu | control << 16);
    write_bytes(dir, "config", space, sizeof space);
}

void tree_cut_config(const struct sysfs_tree *tree, const char *path, unsigned bytes)
{
    char dir[PATH_BYTES], file[PATH_BYTES + 64];
    device_dir(tree, path, dir);
    snprintf(file, sizeof file, "%s/config", dir);
    need(truncate(file, bytes) == 0, file);
}
