/* y = a * x + y, and a check sum over blocks of the result. */
#include "hcq.h"

/* One work-item per element. */
HCQ_KERNEL(saxpy, float a; const float *x; float *y; uint32_t n;)
{
    const float a = args->a;
    const float *restrict x = args->x;
    float *restrict y = args->y;

    HCQ_FOR_ITEMS(i, group, 0, args->n)
        y[i] = a * x[i] + y[i];
}

/* One work-group per block: sums[block] is the sum of the elements that its items cover. */
HCQ_KERNEL(block_sums, const float *v; double *sums; uint32_t n;)
{
    const float *restrict v = args->v;
    double sum = 0.0;

    HCQ_FOR_ITEMS(i, group, 0, args->n)
        sum += v[i];
    args->sums[group->group[0]] = sum;
}
