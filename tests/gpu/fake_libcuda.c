/* A stand-in for NVIDIA's driver library on host memory, for tests of the calls that go through cuda-python.
 * Work is done at once.  The only kernel is "axpy": y[i] += a * x[i].  Modules whose text has no ".entry axpy" are
 * refused with a text in the error log. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Types and numbers of cuda.h, which need not be installed. */
typedef int CUresult, CUdevice, CUdevice_attribute, CUmemPool_attribute, CUpointer_attribute, CUjit_option, CUstreamCaptureMode;
typedef unsigned long long CUdeviceptr, cuuint64_t;
typedef void *CUcontext, *CUstream, *CUevent, *CUmemoryPool, *CUmodule, *CUfunction, *CUgraph, *CUgraphExec;
enum { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_INVALID_CONTEXT = 201,
       CUDA_ERROR_INVALID_PTX = 218, CUDA_ERROR_NOT_FOUND = 500,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
       CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4, CU_JIT_ERROR_LOG_BUFFER = 5, CUDA_VERSION = 13000 };

static size_t stack = 1024;
static int live, handles, recording, count;
static struct { double a; CUdeviceptr y, x; long long n; } recorded[16];

CUresult cuInit(unsigned flags) { return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int *v) { *v = CUDA_VERSION; return 0; }
CUresult cuDeviceGetCount(int *n) { *n = 1; return 0; }
CUresult cuDeviceGet(CUdevice *d, int ordinal) { *d = ordinal; return 0; }
CUresult cuDeviceGetName(char *name, int n, CUdevice d) { snprintf(name, n, "Fake H100"); return 0; }
CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice d) {
    *v = a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0 : 1;
    return 0;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) { *c = (CUcontext)0x10; return 0; }
CUresult cuCtxSetCurrent(CUcontext c) { return c == (CUcontext)0x10 ? 0 : CUDA_ERROR_INVALID_CONTEXT; }
CUresult cuCtxGetLimit(size_t *size, int limit) { *size = stack; return limit; }
CUresult cuCtxSetLimit(int limit, size_t size) { stack = size; return limit; }
CUresult cuStreamCreate(CUstream *s, unsigned flags) { *s = (CUstream)(long)(0x100 + ++handles); return 0; }
CUresult cuStreamSynchronize(CUstream s) { return 0; }
CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags) { return 0; }
CUresult cuEventCreate(CUevent *e, unsigned flags) { *e = (CUevent)0x20; return flags == 2 ? 0 : CUDA_ERROR_INVALID_VALUE; }
CUresult cuEventRecord(CUevent e, CUstream s) { return 0; }
CUresult cuEventQuery(CUevent e) { return 0; }
CUresult cuEventDestroy_v2(CUevent e) { return 0; }
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *p, CUdevice d) { *p = (CUmemoryPool)0x30; return 0; }
CUresult cuMemPoolSetAttribute(CUmemoryPool p, CUmemPool_attribute a, void *v) {
    return a == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && *(cuuint64_t *)v == ~0ull ? 0 : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemPoolTrimTo(CUmemoryPool p, size_t keep) { return 0; }
CUresult cuMemAllocAsync(CUdeviceptr *p, size_t n, CUstream s) {
    if (n > 1 << 24) return CUDA_ERROR_OUT_OF_MEMORY;
    *p = (CUdeviceptr)malloc(n);
    live++;
    return 0;
}
CUresult cuMemFreeAsync(CUdeviceptr p, CUstream s) { live--; free((void *)p); return 0; }
CUresult cuMemHostAlloc(void **p, size_t n, unsigned flags) { *p = malloc(n); return 0; }
CUresult cuMemFreeHost(void *p) { free(p); return 0; }
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream s) { memcpy((void *)to, from, n); return 0; }
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream s) { memcpy(to, (void *)from, n); return 0; }
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
    memcpy((void *)to, (void *)from, n); return 0;
}
CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char c, size_t n, CUstream s) { memset((void *)p, c, n); return 0; }
CUresult cuPointerGetAttribute(void *v, CUpointer_attribute a, CUdeviceptr p) {
    if (p < 4096) return CUDA_ERROR_INVALID_VALUE;
    *(int *)v = 0;
    return 0;
}
CUresult cuModuleLoadDataEx(CUmodule *m, const void *image, unsigned n, CUjit_option *options, void **values) {
    if (strstr(image, ".entry axpy")) { *m = (CUmodule)0x40; return 0; }
    for (unsigned i = 0; i < n; i++)
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER) strcpy(values[i], "line 1; fatal: no axpy");
    return CUDA_ERROR_INVALID_PTX;
}
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
    *f = (CUfunction)0x50;
    return strcmp(name, "axpy") ? CUDA_ERROR_NOT_FOUND : 0;
}
CUresult cuModuleUnload(CUmodule m) { return 0; }

static void axpy(CUdeviceptr y, CUdeviceptr x, double a, long long n) {
    for (long long i = 0; i < n; i++) ((double *)y)[i] += a * ((double *)x)[i];
}
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream s, void **p, void **extra) {
    if (f != (CUfunction)0x50 || gy != 1 || gz != 1 || by != 1 || bz != 1 || bx != 128 || extra) return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr y = *(CUdeviceptr *)p[1], x = *(CUdeviceptr *)p[2];
    double a = *(double *)p[3];
    long long n = *(long long *)p[4];
    if (recording) {
        recorded[count].y = y, recorded[count].x = x, recorded[count].a = a, recorded[count++].n = n;
        return 0;
    }
    axpy(y, x, a, n);
    return 0;
}
CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode) { recording = 1; count = 0; return 0; }
CUresult cuStreamEndCapture(CUstream s, CUgraph *g) { recording = 0; *g = (CUgraph)0x60; return 0; }
CUresult cuGraphInstantiateWithFlags(CUgraphExec *e, CUgraph g, unsigned long long flags) { *e = (CUgraphExec)0x70; return 0; }
CUresult cuGraphLaunch(CUgraphExec e, CUstream s) {
    for (int i = 0; i < count; i++) axpy(recorded[i].y, recorded[i].x, recorded[i].a, recorded[i].n);
    return 0;
}
CUresult cuGraphDestroy(CUgraph g) { return 0; }
CUresult cuGraphExecDestroy(CUgraphExec e) { return 0; }
CUresult cuGetErrorName(CUresult r, const char **text) {
    *text = r == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : r == CUDA_ERROR_INVALID_PTX ? "CUDA_ERROR_INVALID_PTX" : "CUDA_ERROR_OTHER";
    return 0;
}
CUresult cuGetErrorString(CUresult r, const char **text) { *text = "told by the stand-in"; return 0; }

/* cuda-python asks for each function by its name without a version. */
CUresult cuGetProcAddress_v2(const char *name, void **f, int version, cuuint64_t flags, int *q) {
    static const char *suffixes[] = {"_v2", "WithFlags", ""};
    char full[256];
    *f = NULL;
    for (int i = 0; i < 3 && !*f; i++) {
        snprintf(full, sizeof full, "%s%s", name, suffixes[i]);
        *f = dlsym(RTLD_DEFAULT, full);
    }
    if (!*f) {
        void *self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
        for (int i = 0; i < 3 && self && !*f; i++) {
            snprintf(full, sizeof full, "%s%s", name, suffixes[i]);
            *f = dlsym(self, full);
        }
    }
    if (q) *q = !*f;
    return CUDA_SUCCESS;
}
int fake_live(void) { return live; }
