/* As much of libcuda as cuda_graph.py calls, by the prototypes of cuda.h, with the two kernels as functions of the host: so
 * that the script is tested where there is no GPU. FAKE_CUDA says what goes wrong: `init`, `launch`, `result`. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID_VALUE = 1, NO_DEVICE = 100, LAUNCH_FAILED = 719, NODES = 8, PARAMS = 6 };

struct function { int is_vadd; };
struct node {
    struct function *function; /* none: a copy */
    unsigned items;
    uint64_t to, from, bytes;
    unsigned char params[PARAMS][8];
};
static struct graph { int count; struct node nodes[NODES]; } captured;
static struct function saxpy = {0}, vadd = {1};
static int is_capturing, stream;
static const size_t SIZES[2][PARAMS] = {{8, 8, 4, 4, 8, 1}, {8, 8, 8, 0, 0, 0}};

static int goes_wrong(const char *what) {
    const char *said = getenv("FAKE_CUDA");
    return said && strcmp(said, what) == 0;
}

static struct node *next(void) {
    return is_capturing && captured.count < NODES ? &captured.nodes[captured.count++] : NULL;
}

int cuInit(unsigned flags) {
    const char *order = getenv("CUDA_DEVICE_ORDER");
    if (flags || !order || strcmp(order, "PCI_BUS_ID")) return INVALID_VALUE;
    return goes_wrong("init") ? NO_DEVICE : OK;
}

int cuGetErrorName(int error, const char **name) {
    *name = error == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : error == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : NULL;
    return *name ? OK : INVALID_VALUE;
}

int cuDriverGetVersion(int *version) { return *version = 13000, OK; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, ordinal ? INVALID_VALUE : OK; }

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    if (device || (attribute != 75 && attribute != 76)) return INVALID_VALUE;
    return *value = attribute == 75 ? 9 : 0, OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = &captured, device; }
int cuCtxSetCurrent(void *context) { return context == &captured ? OK : INVALID_VALUE; }

int cuModuleLoadData(void **module, const void *image) {
    if (memcmp(image, "\177ELF", 4)) return INVALID_VALUE;
    return *module = &stream, OK;
}

int cuModuleGetFunction(struct function **function, void *module, const char *name) {
    if (module != &stream) return INVALID_VALUE;
    *function = strcmp(name, "saxpy") == 0 ? &saxpy : strcmp(name, "vadd") == 0 ? &vadd : NULL;
    return *function ? OK : INVALID_VALUE;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    *address = (uint64_t)(uintptr_t)calloc(1, bytes);
    return *address ? OK : 2;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
    return memcpy((void *)(uintptr_t)to, from, bytes), OK;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
    return memcpy(to, (const void *)(uintptr_t)from, bytes), OK;
}

int cuStreamCreate(void **out, unsigned flags) { return *out = &stream, flags == 1 ? OK : INVALID_VALUE; }

int cuStreamBeginCapture_v2(void *of, int mode) {
    if (of != &stream || mode) return INVALID_VALUE;
    return is_capturing = 1, OK;
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *on) {
    struct node *node = on == &stream ? next() : NULL;
    if (!node) return INVALID_VALUE;
    return *node = (struct node){.to = to, .from = from, .bytes = bytes}, OK;
}

int cuLaunchKernel(struct function *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *on, void **params, void **extra) {
    struct node *node = on == &stream && !extra && !shared && y * z * by * bz == 1 ? next() : NULL;
    if (!node) return INVALID_VALUE;
    *node = (struct node){.function = function, .items = x * bx};
    for (int n = 0; n < PARAMS; n++)
        if (SIZES[function->is_vadd][n]) memcpy(node->params[n], params[n], SIZES[function->is_vadd][n]);
    return OK;
}

int cuStreamEndCapture(void *of, void **graph) {
    if (of != &stream || !is_capturing) return INVALID_VALUE;
    return is_capturing = 0, *graph = &captured, OK;
}

int cuGraphInstantiateWithFlags(void **launch, void *graph, unsigned long long flags) {
    return *launch = graph, graph == &captured && !flags ? OK : INVALID_VALUE;
}

static float *floats(const struct node *node, int n) {
    uint64_t address;
    memcpy(&address, node->params[n], 8);
    return (float *)(uintptr_t)address;
}

static void run(const struct node *node) {
    if (!node->function) {
        memcpy((void *)(uintptr_t)node->to, (const void *)(uintptr_t)node->from, node->bytes);
        return;
    }
    float *out = floats(node, 0), *a = floats(node, 1), alpha = 0;
    int32_t n = (int32_t)node->items;
    uint64_t off = 0;
    if (!node->function->is_vadd) {
        memcpy(&alpha, node->params[2], 4);
        memcpy(&n, node->params[3], 4);
        memcpy(&off, node->params[4], 8);
    }
    for (uint32_t i = 0; i < node->items; i++) {
        if (node->function->is_vadd) out[i] = a[i] + floats(node, 2)[i];
        else if ((int32_t)i < n) out[i + off] = alpha * a[i] + out[i + off];
    }
}

int cuGraphLaunch(struct graph *launch, void *on) {
    if (launch != &captured || on != &stream) return INVALID_VALUE;
    if (goes_wrong("launch")) return LAUNCH_FAILED;
    for (int n = goes_wrong("result"); n < launch->count; n++) run(&launch->nodes[n]);
    return OK;
}

int cuStreamSynchronize(void *of) { return of == &stream ? OK : INVALID_VALUE; }
