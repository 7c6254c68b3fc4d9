/* The least a graph launch can do: one 8-byte store per pointer, through a table of (offset, slot). */
#include <stddef.h>
#include <stdint.h>

struct site {
    uint32_t offset; /* bytes from the base */
    uint32_t slot;   /* which input */
};

__attribute__((noinline)) void hcq_baseline_stores(uint8_t *base, const struct site *sites, size_t n,
                                                   const uint64_t *inputs)
{
    for (size_t i = 0; i < n; i++)
        *(volatile uint64_t *)(base + sites[i].offset) = inputs[sites[i].slot];
}
