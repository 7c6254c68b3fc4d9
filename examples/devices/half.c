/* Half of every element. */
#include "hcq.h"

HCQ_KERNEL(half, const float *in; float *out; uint32_t n;)
{
    const float *restrict in = args->in;
    float *restrict out = args->out;

    HCQ_FOR_ITEMS(i, group, 0, args->n)
        out[i] = in[i] * 0.5f;
}
