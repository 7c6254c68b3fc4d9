/* The stock kernels of the behaviour list, for NVIDIA GPUs: C for clang's NVPTX target, without CUDA. */

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;

#define KERNEL __attribute__((nvptx_kernel)) void
#define GLOBAL __attribute__((address_space(1)))
#define SHARED __attribute__((address_space(3)))

/* Shared memory that the launch adds. */
extern volatile SHARED u32 tile[];

static u32 item(void) {
  return __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x();
}

KERNEL empty(void) {}

KERNEL fill(GLOBAL u32 *out, u32 value, u32 n) {
  u32 i = item();
  if (i < n) out[i] = value;
}

KERNEL copy(const GLOBAL u32 *a, GLOBAL u32 *out, u32 n) {
  u32 i = item();
  if (i < n) out[i] = a[i];
}

KERNEL add(const GLOBAL u32 *a, const GLOBAL u32 *b, GLOBAL u32 *out, u32 n) {
  u32 i = item();
  if (i < n) out[i] = a[i] + b[i];
}

KERNEL scale(float a, float b, const GLOBAL float *x, GLOBAL float *y, u32 n) {
  u32 i = item();
  if (i < n) y[i] = __builtin_fmaf(a, x[i], b);
}

KERNEL step(GLOBAL u32 *data, u32 factor, u32 add, u32 n) {
  u32 i = item();
  if (i < n) data[i] = data[i] * factor + add;
}

KERNEL dims(GLOBAL u32 *out) {
  u32 lx = __nvvm_read_ptx_sreg_ntid_x(), ly = __nvvm_read_ptx_sreg_ntid_y(), lz = __nvvm_read_ptx_sreg_ntid_z();
  u32 nx = __nvvm_read_ptx_sreg_nctaid_x(), ny = __nvvm_read_ptx_sreg_nctaid_y(), nz = __nvvm_read_ptx_sreg_nctaid_z();
  u32 gx = __nvvm_read_ptx_sreg_ctaid_x(), gy = __nvvm_read_ptx_sreg_ctaid_y(), gz = __nvvm_read_ptx_sreg_ctaid_z();
  u32 x = gx * lx + __nvvm_read_ptx_sreg_tid_x();
  u32 y = gy * ly + __nvvm_read_ptx_sreg_tid_y();
  u32 z = gz * lz + __nvvm_read_ptx_sreg_tid_z();
  u64 i = 4 * (x + (u64)(nx * lx) * (y + (u64)(ny * ly) * z));
  out[i] += 1;
  out[i + 1] = gx | gy << 10 | gz << 20;
  out[i + 2] = nx | ny << 10 | nz << 20;
  out[i + 3] = lx | ly << 10 | lz << 20;
}

KERNEL reduce(const GLOBAL u32 *in, GLOBAL u32 *out, u32 n) {
  u32 g = __nvvm_read_ptx_sreg_ctaid_x(), t = __nvvm_read_ptx_sreg_tid_x();
  for (u32 i = t; i < n; i += __nvvm_read_ptx_sreg_ntid_x()) tile[i] = in[(u64)g * n + i];
  __syncthreads();
  if (t == 0) {
    u32 sum = 0;
    for (u32 i = n; i > 0; i--) sum += tile[i - 1];
    out[2 * (u64)g] = sum;
    out[2 * (u64)g + 1] = (u32)(u64)tile % 64;
  }
}

KERNEL scalars(i8 a, i16 b, i32 c, i64 d, u8 e, u16 f, u32 g, u64 h, float i, double j, GLOBAL u64 *out) {
  if (item() != 0) return;
  out[0] = (i64)a;
  out[1] = (i64)b;
  out[2] = (i64)c;
  out[3] = d;
  out[4] = e;
  out[5] = f;
  out[6] = g;
  out[7] = h;
  out[8] = __builtin_bit_cast(u32, i);
  out[9] = __builtin_bit_cast(u64, j);
}

KERNEL spin(GLOBAL u32 *out, u32 turns, u32 seed) {
  if (__nvvm_read_ptx_sreg_tid_x() != 0) return;
  u32 g = __nvvm_read_ptx_sreg_ctaid_x();
  u32 x = seed + g;
  for (u32 i = 0; i < turns; i++) x = x * 1664525 + 1013904223;
  out[g] = x;
}

/* The programs of examples/gpu. */

KERNEL vadd(GLOBAL float *out, const GLOBAL float *a, const GLOBAL float *b) {
  u32 i = item();
  out[i] = a[i] + b[i];
}

KERNEL saxpy(GLOBAL float *y, const GLOBAL float *x, float alpha, i32 n, u64 off) {
  u32 i = item();
  if ((i32)i < n) y[i + off] = __builtin_fmaf(alpha, x[i], y[i + off]);
}
