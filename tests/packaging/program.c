/* A user's first program: a comm of one rank on the host device, and one all-reduce. */
#include <rondo/host.h>
#include <rondo/rondo.h>

#include <stdio.h>

#define CHECK(call)                                                                                        \
    do {                                                                                                   \
        rondoResult_t result_ = (call);                                                                    \
        if (result_ != rondoSuccess) {                                                                     \
            fprintf(stderr, "%s: %s: %s\n", #call, rondoGetErrorString(result_), rondoGetLastError(NULL)); \
            return 1;                                                                                      \
        }                                                                                                  \
    } while (0)

int main(void)
{
    enum { COUNT = 1000 };
    int version = 0, ranks = 0;
    rondoUniqueId id;
    rondoComm_t comm;
    rondoHostStream_t stream;
    void *memory;

    CHECK(rondoGetVersion(&version));
    if (version != RONDO_VERSION_CODE) {
        fprintf(stderr, "the library's version is %d, the header's %d\n", version, RONDO_VERSION_CODE);
        return 1;
    }
    CHECK(rondoGetUniqueId(&id));
    CHECK(rondoCommInitRank(&comm, 1, id, 0));
    CHECK(rondoCommCount(comm, &ranks));
    CHECK(rondoHostStreamCreate(&stream));
    CHECK(rondoHostMalloc(&memory, COUNT * sizeof(float)));
    float *x = memory;
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)i;
    CHECK(rondoAllReduce(x, x, COUNT, rondoFloat32, rondoSum, comm, stream));
    CHECK(rondoHostStreamSynchronize(stream));
    for (int i = 0; i < COUNT; i++) {
        if (x[i] != (float)i) {
            fprintf(stderr, "element %d is %f\n", i, (double)x[i]);
            return 1;
        }
    }
    CHECK(rondoHostFree(memory));
    CHECK(rondoHostStreamDestroy(stream));
    CHECK(rondoCommDestroy(comm));
    printf("version %d, %d rank, all right\n", version, ranks);
    return 0;
}
