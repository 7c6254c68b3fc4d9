/* The stock kernels of the behaviour list, for AMD GPUs: OpenCL C without a device library.
 *
 * Sizes come from the dispatch packet (hsa_kernel_dispatch_packet_t: work-group sizes as 16-bit numbers from byte 4 on,
 * the grid in items from byte 12 on), so that no hidden argument is needed. */

#pragma OPENCL EXTENSION cl_khr_fp64 : enable

#define KERNEL __attribute__((amdgpu_flat_work_group_size(1, 1024))) kernel void

static uint local_size(uint dimension) { return ((constant ushort *)__builtin_amdgcn_dispatch_ptr())[2 + dimension]; }

static uint grid_size(uint dimension) { return ((constant uint *)__builtin_amdgcn_dispatch_ptr())[3 + dimension]; }

static uint item(void) {
  return __builtin_amdgcn_workgroup_id_x() * local_size(0) + __builtin_amdgcn_workitem_id_x();
}

KERNEL empty(void) {}

KERNEL fill(global uint *out, uint value, uint n) {
  uint i = item();
  if (i < n) out[i] = value;
}

KERNEL copy(const global uint *a, global uint *out, uint n) {
  uint i = item();
  if (i < n) out[i] = a[i];
}

KERNEL add(const global uint *a, const global uint *b, global uint *out, uint n) {
  uint i = item();
  if (i < n) out[i] = a[i] + b[i];
}

KERNEL scale(float a, float b, const global float *x, global float *y, uint n) {
  uint i = item();
  if (i < n) y[i] = a * x[i] + b;
}

KERNEL step(global uint *data, uint factor, uint add, uint n) {
  uint i = item();
  if (i < n) data[i] = data[i] * factor + add;
}

KERNEL dims(global uint *out) {
  uint lx = local_size(0), ly = local_size(1), lz = local_size(2);
  uint gx = __builtin_amdgcn_workgroup_id_x(), gy = __builtin_amdgcn_workgroup_id_y(), gz = __builtin_amdgcn_workgroup_id_z();
  uint x = gx * lx + __builtin_amdgcn_workitem_id_x();
  uint y = gy * ly + __builtin_amdgcn_workitem_id_y();
  uint z = gz * lz + __builtin_amdgcn_workitem_id_z();
  uint all_x = grid_size(0), all_y = grid_size(1);
  ulong i = 4 * (x + (ulong)all_x * (y + (ulong)all_y * z));
  out[i] += 1;
  out[i + 1] = gx | gy << 10 | gz << 20;
  out[i + 2] = all_x / lx | all_y / ly << 10 | grid_size(2) / lz << 20;
  out[i + 3] = lx | ly << 10 | lz << 20;
}

KERNEL reduce(const global uint *in, global uint *out, uint n) {
  /* Local memory that the launch adds begins where the program's own ends. */
  uint at = __builtin_amdgcn_groupstaticsize();
  volatile local uint *tile = (volatile local uint *)at;
  uint g = __builtin_amdgcn_workgroup_id_x(), t = __builtin_amdgcn_workitem_id_x();
  for (uint i = t; i < n; i += local_size(0)) tile[i] = in[(ulong)g * n + i];
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  if (t == 0) {
    uint sum = 0;
    for (uint i = n; i > 0; i--) sum += tile[i - 1];
    out[2 * (ulong)g] = sum;
    out[2 * (ulong)g + 1] = at % 64;
  }
}

KERNEL scalars(char a, short b, int c, long d, uchar e, ushort f, uint g, ulong h, float i, double j, global ulong *out) {
  if (item() != 0) return;
  out[0] = (long)a;
  out[1] = (long)b;
  out[2] = (long)c;
  out[3] = d;
  out[4] = e;
  out[5] = f;
  out[6] = g;
  out[7] = h;
  out[8] = __builtin_astype(i, uint);
  out[9] = __builtin_astype(j, ulong);
}

KERNEL spin(global uint *out, uint turns, uint seed) {
  if (__builtin_amdgcn_workitem_id_x() != 0) return;
  uint g = __builtin_amdgcn_workgroup_id_x();
  uint x = seed + g;
  for (uint i = 0; i < turns; i++) x = x * 1664525 + 1013904223;
  out[g] = x;
}
