/*
 * The floor of a CPU command queue: a ring of 64-byte commands, each a function and up to seven argument words, consumed
 * by one worker thread that looks for work for a while, at least 64 times, before it sleeps on a futex.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define relax() _mm_pause()
#elif defined(__aarch64__)
#define relax() __asm__ volatile("yield")
#else
#define relax() ((void)0)
#endif

#define SLOTS 16384

typedef void (*command_fn)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

struct command {
    command_fn run;
    uint64_t args[7];
} __attribute__((aligned(64)));

struct hcq_baseline_queue {
    struct command *ring;
    _Atomic uint64_t put __attribute__((aligned(128)));
    _Atomic uint64_t done __attribute__((aligned(128)));
    _Atomic uint32_t wakes __attribute__((aligned(128)));
    _Atomic uint32_t sleeping;
    _Atomic int stop;
    uint64_t spin_ns;
    uint64_t next;
    pthread_t worker;
};

static float to[64], from[64];

static void tiny(uint64_t d, uint64_t s, uint64_t n, uint64_t x, uint64_t y, uint64_t z, uint64_t w)
{
    float *dst = (float *)d;
    const float *src = (const float *)s;
    (void)x, (void)y, (void)z, (void)w;
    for (uint64_t i = 0; i < n; i++)
        dst[i] = src[i] + 1.f;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int has_work(struct hcq_baseline_queue *q, uint64_t at)
{
    return atomic_load_explicit(&q->put, memory_order_acquire) != at;
}

static void wait_for_work(struct hcq_baseline_queue *q, uint64_t at)
{
    for (;;) {
        uint64_t since = q->spin_ns ? now_ns() : 0;
        do {
            for (int i = 0; i < 64; i++) {
                if (has_work(q, at) || atomic_load(&q->stop))
                    return;
                relax();
            }
        } while (q->spin_ns && now_ns() - since < q->spin_ns);
        uint32_t seen = atomic_load(&q->wakes);
        atomic_store(&q->sleeping, 1);
        if (!has_work(q, at) && !atomic_load(&q->stop))
            syscall(SYS_futex, &q->wakes, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        atomic_store(&q->sleeping, 0);
    }
}

static void *work(void *arg)
{
    struct hcq_baseline_queue *q = arg;
    uint64_t at = 0;
    for (;;) {
        wait_for_work(q, at);
        if (atomic_load(&q->stop))
            return NULL;
        uint64_t put = atomic_load_explicit(&q->put, memory_order_acquire);
        for (; at < put; at++) {
            struct command *c = &q->ring[at % SLOTS];
            c->run(c->args[0], c->args[1], c->args[2], c->args[3], c->args[4], c->args[5], c->args[6]);
        }
        atomic_store_explicit(&q->done, at, memory_order_release);
    }
}

struct hcq_baseline_queue *hcq_baseline_queue_start(uint64_t spin_ns)
{
    struct hcq_baseline_queue *q = aligned_alloc(128, (sizeof *q + 127) / 128 * 128);
    if (!q)
        return NULL;
    memset(q, 0, sizeof *q);
    q->spin_ns = spin_ns;
    q->ring = aligned_alloc(4096, sizeof(struct command) * SLOTS);
    if (!q->ring) {
        free(q);
        return NULL;
    }
    memset(q->ring, 0, sizeof(struct command) * SLOTS);
    if (pthread_create(&q->worker, NULL, work, q)) {
        free(q->ring);
        free(q);
        return NULL;
    }
    return q;
}

/* Encodes n tiny commands, publishes them at once and waits for all. */
void hcq_baseline_queue_run(struct hcq_baseline_queue *q, int n)
{
    for (int i = 0; i < n; i++) {
        struct command *c = &q->ring[(q->next + i) % SLOTS];
        c->run = tiny;
        c->args[0] = (uint64_t)(uintptr_t)to;
        c->args[1] = (uint64_t)(uintptr_t)from;
        c->args[2] = 2;
        c->args[3] = i;
        c->args[4] = c->args[5] = c->args[6] = 0;
    }
    q->next += n;
    atomic_store(&q->put, q->next);
    if (atomic_load(&q->sleeping)) {
        atomic_fetch_add(&q->wakes, 1);
        syscall(SYS_futex, &q->wakes, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
    while (atomic_load_explicit(&q->done, memory_order_acquire) != q->next)
        relax();
}

/* What the kernels stored into: 64 floats, all of them 0 at first. */
const float *hcq_baseline_queue_result(void)
{
    return to;
}

void hcq_baseline_queue_stop(struct hcq_baseline_queue *q)
{
    atomic_store(&q->stop, 1);
    atomic_fetch_add(&q->wakes, 1);
    syscall(SYS_futex, &q->wakes, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    pthread_join(q->worker, NULL);
    free(q->ring);
    free(q);
}
