/*
 * Tiny kernels through OpenCL, for the goals bench: N plain enqueues of a kernel whose arguments are set, and a finish.
 * Says `ready VERSION, DEVICE` or `absent REASON`; then, for every line that it reads, runs N kernels once untimed and
 * once timed and prints `ns_per_kernel FIGURE`.
 *
 *     cc -O2 opencl.c -lOpenCL -o opencl && yes '' | head -n 20 | POCL_DEVICES=basic ./opencl 1000
 */
#define _POSIX_C_SOURCE 200809L
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LENGTH 64

static const char *source = "kernel void tiny(global float *to, global const float *from, ulong n) {\n"
                            "    for (ulong i = 0; i < n; i++)\n"
                            "        to[i] = from[i] + 1.0f;\n"
                            "}\n";

static void need(cl_int status, const char *what)
{
    if (status == CL_SUCCESS)
        return;
    printf("absent %s gives %d\n", what, (int)status);
    fflush(stdout);
    exit(0);
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The platform of PoCL, among those that are installed. */
static cl_platform_id platform(char *version, size_t size)
{
    cl_platform_id all[16];
    cl_uint count = 0;
    need(clGetPlatformIDs(16, all, &count), "clGetPlatformIDs");
    for (cl_uint i = 0; i < count && i < 16; i++) {
        char name[128] = "";
        clGetPlatformInfo(all[i], CL_PLATFORM_NAME, sizeof name, name, NULL);
        if (strcmp(name, "Portable Computing Language") == 0) {
            clGetPlatformInfo(all[i], CL_PLATFORM_VERSION, size, version, NULL);
            return all[i];
        }
    }
    need(CL_DEVICE_NOT_FOUND, "the search for PoCL's platform");
    return NULL;
}

static void run(cl_command_queue queue, cl_kernel kernel, int n)
{
    const size_t one = 1;
    for (int i = 0; i < n; i++)
        need(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL), "clEnqueueNDRangeKernel");
    need(clFinish(queue), "clFinish");
}

int main(int argc, char **argv)
{
    const int n = argc > 1 ? atoi(argv[1]) : 1000;
    char version[256] = "", name[256] = "", line[64];
    float from[LENGTH], to[LENGTH] = {0};
    const cl_ulong two = 2;
    cl_device_id device;
    cl_int status;
    if (n < 1 || n > 1000000) {
        printf("absent a number of kernels from 1 to 1000000\n");
        return 0;
    }
    /* Whatever hangs ends some time. */
    alarm(120);
    cl_platform_id pocl = platform(version, sizeof version);
    need(clGetDeviceIDs(pocl, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL);
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    need(status, "clCreateContext");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
    need(status, "clCreateCommandQueue");
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &status);
    need(status, "clCreateProgramWithSource");
    need(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    cl_kernel kernel = clCreateKernel(program, "tiny", &status);
    need(status, "clCreateKernel");
    for (int i = 0; i < LENGTH; i++)
        from[i] = (float)i;
    cl_mem in = clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof from, from, &status);
    need(status, "clCreateBuffer");
    cl_mem out = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof to, to, &status);
    need(status, "clCreateBuffer");
    need(clSetKernelArg(kernel, 0, sizeof out, &out), "clSetKernelArg");
    need(clSetKernelArg(kernel, 1, sizeof in, &in), "clSetKernelArg");
    need(clSetKernelArg(kernel, 2, sizeof two, &two), "clSetKernelArg");

    run(queue, kernel, n);
    need(clEnqueueReadBuffer(queue, out, CL_TRUE, 0, sizeof to, to, 0, NULL, NULL), "clEnqueueReadBuffer");
    if (to[0] != 1.0f || to[1] != 2.0f || to[2] != 0.0f) {
        printf("absent a kernel that adds: it gave %g %g %g\n", to[0], to[1], to[2]);
        return 0;
    }
    /* Without what it was built with. */
    version[strcspn(version, ",")] = '\0';
    if (strstr(version, "  "))
        *strstr(version, "  ") = '\0';
    printf("ready %s, device %s\n", version, name);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        run(queue, kernel, n);
        const double start = now_ns();
        run(queue, kernel, n);
        printf("ns_per_kernel %.1f\n", (now_ns() - start) / n);
        fflush(stdout);
    }
    return 0;
}
