/* C = A * B, one tile of C per work-group, through tiles in group-local memory. */
#include "hcq.h"

/*
 * A is m x k, B is k x n, C is m x n, all row-major. A group computes the tile of C that
 * its items cover: local[0] columns by local[1] rows. It walks along k in steps as deep
 * as the tile is wide. Needs three tiles of local memory:
 *     4 * local[0] * (2 * local[1] + local[0]) bytes
 *
 * No size need be a multiple of the tile: what lies outside a matrix is loaded as zero
 * and never stored. Each pair of loops over the items ends in what would be a barrier.
 */
HCQ_KERNEL(matmul,
           const float *a; const float *b; float *c;
           uint32_t m; uint32_t n; uint32_t k;)
{
    const float *restrict a = args->a;
    const float *restrict b = args->b;
    float *restrict c = args->c;
    const uint32_t m = args->m, n = args->n, k = args->k;
    const uint32_t width = group->local[0], height = group->local[1], depth = width;
    const size_t row0 = (size_t)group->group[1] * height;
    const size_t col0 = (size_t)group->group[0] * width;

    float *memory = group->local_memory;
    float *restrict tile_a = memory;                           /* height x depth */
    float *restrict tile_b = memory + (size_t)height * depth;  /* depth x width */
    float *restrict tile_c = tile_b + (size_t)depth * width;   /* height x width */

    for (uint32_t y = 0; y < height; ++y)
        for (uint32_t x = 0; x < width; ++x)
            tile_c[(size_t)y * width + x] = 0.0f;

    for (size_t k0 = 0; k0 < k; k0 += depth) {
        for (uint32_t y = 0; y < height; ++y)
            for (uint32_t z = 0; z < depth; ++z) {
                const int inside = row0 + y < m && k0 + z < k;
                tile_a[(size_t)y * depth + z] = inside ? a[(row0 + y) * k + k0 + z] : 0.0f;
            }
        for (uint32_t z = 0; z < depth; ++z)
            for (uint32_t x = 0; x < width; ++x) {
                const int inside = k0 + z < k && col0 + x < n;
                tile_b[(size_t)z * width + x] = inside ? b[(k0 + z) * n + col0 + x] : 0.0f;
            }

        /* z outside x: the innermost loop runs along rows of B and C and vectorizes. */
        for (uint32_t y = 0; y < height; ++y)
            for (uint32_t z = 0; z < depth; ++z) {
                const float factor = tile_a[(size_t)y * depth + z];
                for (uint32_t x = 0; x < width; ++x)
                    tile_c[(size_t)y * width + x] += factor * tile_b[(size_t)z * width + x];
            }
    }

    for (size_t y = 0; y < height && row0 + y < m; ++y)
        for (size_t x = 0; x < width && col0 + x < n; ++x)
            c[(row0 + y) * n + col0 + x] = tile_c[y * width + x];
}
