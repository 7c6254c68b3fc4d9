"""The programs, as functions that write NIR: the stock kernels (`kinds::Stock`), those of `examples/gpu`, and some with images."""


def item(k):
    """The work-item's number in the launch, dimension 0."""
    if k.opencl:
        # What ir3 takes to be the group's number is the number of its first work-item.
        return k.iadd(k.vector("workgroup_id")[0], k.vector("local_invocation_id")[0])
    return k.iadd(k.imul(k.vector("workgroup_id")[0], k.vector("workgroup_size")[0]), k.vector("local_invocation_id")[0])


def first(k):
    """Whether this is the group's first work-item, in dimension 0."""
    return k.ieq(k.vector("local_invocation_id")[0], k.imm(0))


def empty(k):
    pass


def fill(k):
    out, value, n, i = k.argument(0), k.argument(1), k.argument(2), item(k)
    k.when(k.ult(i, n), lambda: k.store(out, i, value))


def copy(k):
    a, out, n, i = k.argument(0), k.argument(1), k.argument(2), item(k)
    k.when(k.ult(i, n), lambda: k.store(out, i, k.load(a, i)))


def add(k):
    a, b, out, n, i = k.argument(0), k.argument(1), k.argument(2), k.argument(3), item(k)
    k.when(k.ult(i, n), lambda: k.store(out, i, k.iadd(k.load(a, i), k.load(b, i))))


def scale(k):
    a, b, x, y, n, i = k.argument(0), k.argument(1), k.argument(2), k.argument(3), k.argument(4), item(k)
    k.when(k.ult(i, n), lambda: k.store(y, i, k.fadd(k.fmul(a, k.load(x, i)), b)))


def step(k):
    data, factor, plus, n, i = k.argument(0), k.argument(1), k.argument(2), k.argument(3), item(k)
    k.when(k.ult(i, n), lambda: k.store(data, i, k.iadd(k.imul(k.load(data, i), factor), plus)))


def dims(k):
    out = k.argument(0)
    group, groups, size, local = (k.vector(v) for v in (
        "workgroup_id", "num_workgroups", "workgroup_size", "local_invocation_id"))
    x, y, z = (k.iadd(k.imul(group[d], size[d]), local[d]) for d in range(3))
    all_x, all_y = (k.imul(groups[d], size[d]) for d in range(2))
    i = k.ishl(k.iadd(x, k.imul(all_x, k.iadd(y, k.imul(all_y, z)))), k.imm(2))

    def pack(v):
        return k.ior(v[0], k.ior(k.ishl(v[1], k.imm(10)), k.ishl(v[2], k.imm(20))))

    k.store(out, i, k.iadd(k.load(out, i), k.imm(1)))
    for at, value in enumerate((group, groups, size), 1):
        k.store(out, k.iadd(i, k.imm(at)), pack(value))


def reduce(k, parallel=True):
    source, out, n = k.argument(0), k.argument(1), k.argument(2)
    g, t = k.vector("workgroup_id")[0], k.vector("local_invocation_id")[0]
    begin = k.imul(g, n)

    def fetch(start, every):
        k.count(start, n, every, lambda i: k.set_local(i, k.load(source, k.iadd(begin, i))))

    if parallel:
        fetch(t, k.vector("workgroup_size")[0])
        k.barrier()

    def total():
        if not parallel:
            fetch(k.imm(0), k.imm(1))
        get, put = k.variable("sum", k.imm(0))
        k.count(k.imm(0), n, k.imm(1), lambda i: put(k.iadd(get(), k.local(k.isub(k.isub(n, i), k.imm(1))))))
        at = k.ishl(g, k.imm(1))
        k.store(out, at, get())
        # The launch's local memory begins at 0: the program has none of its own.
        k.store(out, k.iadd(at, k.imm(1)), k.imm(0))

    k.when(first(k), total)


def scalars(k):
    def all():
        out = k.argument(10)
        low = [k.word(at) for at in (0, 4, 8, 12, 16, 20, 24, 28, 32, 40, 44)]
        ab, c, d0, d1, ef, g, h0, h1, f, j0, j1 = low

        def signed(value):
            return value, k.ishr(value, k.imm(31))

        a = k.ishr(k.ishl(ab, k.imm(24)), k.imm(24))
        values = [signed(a), signed(k.ishr(ab, k.imm(16))), signed(c), (d0, d1), (k.iand(ef, k.imm(0xFF)), k.imm(0)),
                  (k.ushr(ef, k.imm(16)), k.imm(0)), (g, k.imm(0)), (h0, h1), (f, k.imm(0)), (j0, j1)]
        for at, words in enumerate(values):
            for half, word in enumerate(words):
                k.store(out, k.imm(2 * at + half), word)

    k.when(k.ieq(item(k), k.imm(0)), all)


def spin(k):
    out, turns, seed, g = k.argument(0), k.argument(1), k.argument(2), k.vector("workgroup_id")[0]

    def all():
        get, put = k.variable("x", k.iadd(seed, g))
        k.count(k.imm(0), turns, k.imm(1), lambda i: put(k.iadd(k.imul(get(), k.imm(1664525)), k.imm(1013904223))))
        k.store(out, g, get())

    k.when(first(k), all)


def vadd(k):
    out, a, b, i = k.argument(0), k.argument(1), k.argument(2), item(k)
    k.store(out, i, k.fadd(k.load(a, i), k.load(b, i)))


def saxpy(k):
    y, x, alpha, n, off, i = k.argument(0), k.argument(1), k.argument(2), k.argument(3), k.argument(4), item(k)

    def all():
        base = k.iadd(y, k.ishl(off, k.imm(2)))
        k.store(base, i, k.ffma(alpha, k.load(x, i), k.load(base, i)))

    k.when(k.ilt(i, n), all)


def place(k):
    """Column and row of the work-item."""
    if k.opencl:
        first_item, local = k.vector("workgroup_id"), k.vector("local_invocation_id")
        return [k.iadd(first_item[d], local[d]) for d in range(2)]
    group, size, local = (k.vector(v) for v in ("workgroup_id", "workgroup_size", "local_invocation_id"))
    return [k.iadd(k.imul(group[d], size[d]), local[d]) for d in range(2)]


def within(k, x, y, width, height, then):
    k.when(k.iand(k.ult(x, width), k.ult(y, height)), then)


def read_image(k):
    out, width, height = k.argument(1), k.argument(2), k.argument(3)
    x, y = place(k)

    def all():
        at = k.ishl(k.iadd(x, k.imul(y, width)), k.imm(2))
        for c, value in enumerate(k.fetch(0, x, y)):
            k.store(out, k.iadd(at, k.imm(c)), value)

    within(k, x, y, width, height, all)


def write_image(k):
    source, width, height = k.argument(0), k.argument(2), k.argument(3)
    x, y = place(k)

    def all():
        at = k.ishl(k.iadd(x, k.imul(y, width)), k.imm(2))
        k.put(0, x, y, [k.load(source, k.iadd(at, k.imm(c))) for c in range(4)])

    within(k, x, y, width, height, all)


def copy_image(k):
    x, y = place(k)
    within(k, x, y, k.argument(2), k.argument(3), lambda: k.put(0, x, y, k.fetch(0, x, y)))


def copy_image_uint(k):
    x, y = place(k)
    within(k, x, y, k.argument(2), k.argument(3), lambda: k.put(0, x, y, k.fetch(0, x, y, "uint"), "uint"))


def sample_image(k):
    out, width, height, *numbers = (k.argument(i) for i in range(2, 9))
    x, y = place(k)

    def all():
        u, v = (k.fadd(start, k.fmul(k.u2f32(i), step)) for i, start, step in zip((x, y), numbers, numbers[2:]))
        at = k.ishl(k.iadd(x, k.imul(y, width)), k.imm(2))
        for c, value in enumerate(k.sample(0, 0, u, v)):
            k.store(out, k.iadd(at, k.imm(c)), value)

    within(k, x, y, width, height, all)


PROGRAMS = {
    empty: "",
    fill: "uint32_t *out; uint32_t value; uint32_t n;",
    copy: "const uint32_t *a; uint32_t *out; uint32_t n;",
    add: "const uint32_t *a; const uint32_t *b; uint32_t *out; uint32_t n;",
    scale: "float a; float b; const float *x; float *y; uint32_t n;",
    step: "uint32_t *data; uint32_t factor; uint32_t add; uint32_t n;",
    dims: "uint32_t *out;",
    reduce: "const uint32_t *in; uint32_t *out; uint32_t n;",
    scalars: "int8_t a; int16_t b; int32_t c; int64_t d; uint8_t e; uint16_t f; uint32_t g; uint64_t h; float i; double j; "
             "uint64_t *out;",
    spin: "uint32_t *out; uint32_t turns; uint32_t seed;",
    vadd: "float *out; const float *a; const float *b;",
    saxpy: "float *y; const float *x; float alpha; int32_t n; uint64_t off;",
    read_image: "texture float in; float *out; uint32_t width; uint32_t height;",
    write_image: "const float *in; storage float out; uint32_t width; uint32_t height;",
    copy_image: "texture float in; storage float out; uint32_t width; uint32_t height;",
    copy_image_uint: "texture uint in; storage uint out; uint32_t width; uint32_t height;",
    sample_image: "texture float in; sampler by; float *out; uint32_t width; uint32_t height; float x; float y; float dx; float dy;",
}

# Programs that there are in OpenCL's container too, and what they know of their group. `dims` is not among them: nobody knows
# where such programs find the number of groups; nor is `scalars`: arguments lie at words.
OPENCL = {
    empty: "offset", fill: "offset", copy: "offset", add: "offset", scale: "offset", step: "offset", reduce: "group",
    spin: "group", read_image: "offset", write_image: "offset", copy_image: "offset",
}
# The work-group's size is in registers of its own, so that the first work-item does all.
OPENCL_FORMS = {reduce: lambda k: reduce(k, parallel=False)}
