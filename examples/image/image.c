/* Three kernels over a grey picture: blur it, then find its edges and count its brightness. */
#include <math.h>

#include "hcq.h"

/* `i` moved into 0..n, so that the outermost pixels repeat beyond the border. */
static inline size_t clamp(ptrdiff_t i, size_t n)
{
    return i < 0 ? 0 : (size_t)i < n ? (size_t)i : n - 1;
}

/*
 * A 5 x 5 Gaussian, (1 4 6 4 1) / 16 in each direction. A group blurs the pixels that its
 * items cover in two steps: along the rows into local memory, two rows more above and
 * below than it owns, then down the columns. Needs 4 * local[0] * (local[1] + 4) bytes of
 * local memory.
 *
 * The weights are binary fractions and a pixel has 8 bits, so every float here is exact.
 */
HCQ_KERNEL(blur, const uint8_t *image; float *blurred; uint32_t width; uint32_t height;)
{
    const size_t width = args->width, height = args->height;
    const size_t x0 = hcq_begin(group, 0, width), x1 = hcq_end(group, 0, width);
    const size_t y0 = hcq_begin(group, 1, height), y1 = hcq_end(group, 1, height);
    const size_t columns = x1 - x0, rows = y1 - y0;
    float *restrict along = group->local_memory; /* (rows + 4) x columns; its row 0 is y0 - 2 */

    for (size_t y = 0; y < rows + 4; ++y) {
        const uint8_t *in = args->image + clamp((ptrdiff_t)(y0 + y) - 2, height) * width;
        for (size_t x = 0; x < columns; ++x) {
            const ptrdiff_t at = (ptrdiff_t)(x0 + x);
            const int sum = in[clamp(at - 2, width)] + 4 * in[clamp(at - 1, width)] + 6 * in[at]
                          + 4 * in[clamp(at + 1, width)] + in[clamp(at + 2, width)];
            along[y * columns + x] = (float)sum / 16.0f;
        }
    }

    for (size_t y = 0; y < rows; ++y) {
        const float *restrict in = along + y * columns;
        float *restrict out = args->blurred + (y0 + y) * width + x0;
        for (size_t x = 0; x < columns; ++x)
            out[x] = (in[x] + 4.0f * in[x + columns] + 6.0f * in[x + 2 * columns]
                      + 4.0f * in[x + 3 * columns] + in[x + 4 * columns]) / 16.0f;
    }
}

/*
 * The strength of the edge at each pixel of the blurred picture: the length of the Sobel
 * gradient, rounded, at most 255. One work-item per pixel.
 */
HCQ_KERNEL(sobel, const float *blurred; uint8_t *edges; uint32_t width; uint32_t height;)
{
    const size_t width = args->width, height = args->height;

    HCQ_FOR_ITEMS(y, group, 1, height) {
        const float *restrict above = args->blurred + clamp((ptrdiff_t)y - 1, height) * width;
        const float *restrict here = args->blurred + y * width;
        const float *restrict below = args->blurred + clamp((ptrdiff_t)y + 1, height) * width;
        uint8_t *restrict out = args->edges + y * width;

        HCQ_FOR_ITEMS(x, group, 0, width) {
            const size_t l = clamp((ptrdiff_t)x - 1, width), r = clamp((ptrdiff_t)x + 1, width);
            const float gx = (above[r] + 2.0f * here[r] + below[r])
                           - (above[l] + 2.0f * here[l] + below[l]);
            const float gy = (below[l] + 2.0f * below[x] + below[r])
                           - (above[l] + 2.0f * above[x] + above[r]);
            const float length = sqrtf(gx * gx + gy * gy);
            out[x] = length < 255.0f ? (uint8_t)(length + 0.5f) : 255;
        }
    }
}

/*
 * Counts the pixels of the blurred picture by whole brightness, 0 to 255. Adds to `bins`,
 * which must be zero before. Each group takes an equal slice of the pixels, whatever the
 * number of groups, counts in 1024 bytes of local memory, and adds its counts at the end.
 */
HCQ_KERNEL(histogram, const float *blurred; uint32_t *bins; uint32_t n;)
{
    const uint64_t begin = (uint64_t)args->n * group->group[0] / group->groups[0];
    const uint64_t end = (uint64_t)args->n * (group->group[0] + 1u) / group->groups[0];
    const float *restrict blurred = args->blurred;
    uint32_t *restrict counts = group->local_memory;

    for (unsigned bin = 0; bin < 256; ++bin)
        counts[bin] = 0;

    for (uint64_t i = begin; i < end; ++i)
        ++counts[(uint8_t)blurred[i]];

    for (unsigned bin = 0; bin < 256; ++bin)
        if (counts[bin] != 0)
            hcq_atomic_add_u32(&args->bins[bin], counts[bin]);
}
