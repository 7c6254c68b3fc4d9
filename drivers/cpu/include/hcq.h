/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * hcq.h - write a kernel for the CPU device in C or C++.
 *
 * A kernel is a function in a shared object. The device calls it once per
 * work-group; the work-items of the group are a loop that the kernel writes:
 *
 *     #include "hcq.h"
 *
 *     HCQ_KERNEL(scale, float factor; const float *in; float *out; uint32_t n;)
 *     {
 *         HCQ_FOR_ITEMS(i, group, 0, args->n)
 *             args->out[i] = args->factor * args->in[i];
 *     }
 *
 *     cc -O3 -march=native -shared -fPIC -I drivers/cpu/include scale.c -o scale.so
 *
 * Rules for a kernel:
 *   - Groups of one launch run in any order and on several threads at once, so
 *     two groups must not write the same word, except with hcq_atomic_add_u32.
 *   - A barrier between the items of a group is the end of a loop: what all items
 *     must finish first is one loop over the items, what comes after is the next.
 *   - Nothing outlives the call but what was written to the buffers. A kernel keeps
 *     no state, blocks on nothing, and returns.
 *   - What the launch wrote is seen by whatever waits for it; no fence is needed.
 *
 * Needs C99 or C++11 with GNU attributes and atomics (GCC, Clang); no library, and no
 * header beyond the freestanding ones. Launch sizes have three dimensions, 0 to 2.
 */
#ifndef HCQ_H
#define HCQ_H

#include <stddef.h>
#include <stdint.h>

#if !defined(__GNUC__)
#error "hcq.h needs a compiler with GNU attributes and atomics, such as GCC or Clang"
#endif

#ifdef __cplusplus
#define HCQ_EXTERN_C extern "C"
#else
#define HCQ_EXTERN_C extern
#endif

/* Visible to the loader, also under -fvisibility=hidden. */
#define HCQ_EXPORT __attribute__((visibility("default")))

/* What a kernel is told about the work-group that it runs. Read only. */
struct hcq_group {
    uint32_t group[3];    /* which work-group this is, each below groups[] */
    uint32_t groups[3];   /* work-groups in the launch */
    uint32_t local[3];    /* work-items per work-group */
    uint32_t local_size;  /* bytes at local_memory */
    void *local_memory;   /* this group's own memory for the length of the call: 64-byte
                             aligned, contents undefined at the start, NULL if local_size is 0 */
    uint64_t reserved;    /* zero */
};

/* The layout is shared with the device, so it is proven wherever pointers have 64 bits. */
#if UINTPTR_MAX == UINT64_MAX
#define HCQ_ASSERT_(what, condition) typedef char hcq_assert_##what[(condition) ? 1 : -1]
HCQ_ASSERT_(group, offsetof(struct hcq_group, group) == 0);
HCQ_ASSERT_(groups, offsetof(struct hcq_group, groups) == 12);
HCQ_ASSERT_(local, offsetof(struct hcq_group, local) == 24);
HCQ_ASSERT_(local_size, offsetof(struct hcq_group, local_size) == 36);
HCQ_ASSERT_(local_memory, offsetof(struct hcq_group, local_memory) == 40);
HCQ_ASSERT_(reserved, offsetof(struct hcq_group, reserved) == 48);
HCQ_ASSERT_(size, sizeof(struct hcq_group) == 56);
#undef HCQ_ASSERT_
#endif

/*
 * HCQ_KERNEL(name, fields) { body }
 *
 * Defines the kernel `name`. `fields` are struct members, each with its semicolon, in
 * the order in which a launch gives the arguments:
 *   - scalars: float, double, int8_t to int64_t, uint8_t to uint64_t, int, unsigned
 *   - buffers: a pointer to one of these; a pointer to const says that the kernel
 *     only reads the buffer, and kernels that only read it may run at the same time
 * One member per semicolon, no arrays, no nested structs. The body sees
 *   - args:  const struct <name>_args *, laid out as C lays out that struct
 *   - group: const struct hcq_group *
 *
 * Exports the function `name` and the text of `fields` as the string `<name>_hcq_args`,
 * with which a launch is checked.
 *
 * Copy a buffer's pointer into a local variable before a loop that writes, or the
 * compiler must assume that the write changes the pointer.
 */
#define HCQ_KERNEL(name, ...)                                                              \
    struct name##_args {                                                                   \
        __VA_ARGS__                                                                        \
    };                                                                                     \
    HCQ_EXTERN_C HCQ_EXPORT const char name##_hcq_args[];                                  \
    const char name##_hcq_args[] = #__VA_ARGS__;                                           \
    HCQ_EXTERN_C HCQ_EXPORT void name(const struct name##_args *args,                      \
                                      const struct hcq_group *group);                      \
    void name(const struct name##_args *args __attribute__((unused)),                      \
              const struct hcq_group *group __attribute__((unused)))

/*
 * HCQ_KERNEL_NO_ARGS(name) { body }
 *
 * A kernel that takes nothing, which HCQ_KERNEL cannot say: C has no structs without
 * members. `args` points to nothing.
 */
#define HCQ_KERNEL_NO_ARGS(name)                                                           \
    HCQ_EXTERN_C HCQ_EXPORT const char name##_hcq_args[];                                  \
    const char name##_hcq_args[] = "";                                                     \
    HCQ_EXTERN_C HCQ_EXPORT void name(const void *args, const struct hcq_group *group);    \
    void name(const void *args __attribute__((unused)),                                    \
              const struct hcq_group *group __attribute__((unused)))

/* Position in the whole launch of work-item `item` of this group, in dimension `dim`. */
static inline uint64_t hcq_global_id(const struct hcq_group *group, uint32_t item, unsigned dim)
{
    uint64_t index = group->group[dim];
    return index * group->local[dim] + item;
}

/* Work-items in the whole launch, in dimension `dim`. */
static inline uint64_t hcq_global_size(const struct hcq_group *group, unsigned dim)
{
    uint64_t groups = group->groups[dim];
    return groups * group->local[dim];
}

/* First position that this group covers, but at most `n`. */
static inline uint64_t hcq_begin(const struct hcq_group *group, unsigned dim, uint64_t n)
{
    uint64_t begin = hcq_global_id(group, 0, dim);
    return begin < n ? begin : n;
}

/* One past the last position that this group covers, but at most `n`. */
static inline uint64_t hcq_end(const struct hcq_group *group, unsigned dim, uint64_t n)
{
    uint64_t end = hcq_global_id(group, group->local[dim], dim);
    return end < n ? end : n;
}

/*
 * Loops over this group's work-items in dimension `dim`; `i`, a uint64_t, is the item's
 * position in the whole launch. Items at or past `n` are left out, so a launch may be
 * rounded up to whole groups. The bounds are fixed before the loop: it vectorizes.
 */
#define HCQ_FOR_ITEMS(i, group, dim, n)                                                    \
    for (uint64_t hcq_n_##i = (n), i = hcq_begin(group, dim, hcq_n_##i),                   \
                  hcq_end_##i = hcq_end(group, dim, hcq_n_##i);                            \
         i < hcq_end_##i; ++i)

/*
 * Adds to a word that other groups of the same launch may add to as well; returns the
 * value before. It orders nothing else.
 */
static inline uint32_t hcq_atomic_add_u32(uint32_t *word, uint32_t amount)
{
    return __atomic_fetch_add(word, amount, __ATOMIC_RELAXED);
}

#endif /* HCQ_H */
