/* A listener to NVTX, as a profiler is one: loaded by NVTX_INJECTION64_PATH, it writes the names of ranges to the file that
 * RONDO_TEST_NVTX names, indented by their depth. */
#include <nvtx3/nvToolsExt.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local int depth;
static int domain;

static void note(const char *name, unsigned long long bytes)
{
    FILE *file = fopen(getenv("RONDO_TEST_NVTX"), "ae");
    if (!file)
        abort();
    fprintf(file, "%*s%s %llu\n", 2 * depth, "", name, bytes);
    fclose(file);
}

static nvtxDomainHandle_t create(const char *name)
{
    if (strcmp(name, "rondo"))
        abort();
    return (nvtxDomainHandle_t)&domain;
}

static int push(nvtxDomainHandle_t in, const nvtxEventAttributes_t *attributes)
{
    if (in != (nvtxDomainHandle_t)&domain)
        abort();
    note(attributes->message.ascii, attributes->payload.ullValue);
    return depth++;
}

static int pop(nvtxDomainHandle_t in)
{
    if (in != (nvtxDomainHandle_t)&domain || depth == 0)
        abort();
    return --depth;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get)
{
    const NvtxExportTableCallbacks *callbacks = get(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned size = 0;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) ||
        size <= NVTX_CBID_CORE2_DomainCreateA)
        return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
    return 1;
}
