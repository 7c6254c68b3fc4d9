/* Three kernels in one object, a constant in front of their descriptors, hidden arguments, and group memory. */
__constant const uint table[4] = {1, 2, 3, 4};

kernel void first(global uint *out, global const uint *in, uint n) {
  uint i = __builtin_amdgcn_workitem_id_x();
  if (i < n) out[i] = in[i] + table[i & 3];
}

kernel void second(global ulong *out, local uint *scratch, ushort k, struct { uint a, b, c; } s) {
  out[0] = k + s.a + s.b + s.c;
}

kernel void third(global uint *out, char c, double d) {
  constant uint *implicit = (constant uint *)__builtin_amdgcn_implicitarg_ptr();
  out[0] = implicit[0] + implicit[16] + c + (uint)d;
}
