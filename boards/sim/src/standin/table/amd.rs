//! AMD's.
//!
//! Generated from the code objects in `tests/conformance/kernels/amd` and `tests/vectors/objects`; a test reads those again and
//! compares. `HCQ_WRITE_TABLE=1 cargo test -p hcq-sim the_table` writes this file.

use super::super::object::Descriptor;
use super::super::{Known, Needs, StandIn, stock};

/// Symbol, bytes of code, hash of code, group, private and argument bytes, the three resource registers, properties, stand-in.
type Row = (&'static str, u32, u64, [u32; 3], [u32; 3], u16, StandIn);

pub(super) fn known() -> impl Iterator<Item = Known> {
    TABLE.iter().flat_map(|&(target, rows)| {
        rows.iter().map(
            move |&(symbol, code_bytes, code_hash, sizes, rsrc, properties, run)| {
                let [group_bytes, private_bytes, kernarg_bytes] = sizes;
                let [rsrc1, rsrc2, rsrc3] = rsrc;
                Known {
                    target: target.into(),
                    symbol: symbol.into(),
                    code_bytes,
                    code_hash,
                    needs: Needs::Amd(Descriptor {
                        group_bytes,
                        private_bytes,
                        kernarg_bytes,
                        rsrc1,
                        rsrc2,
                        rsrc3,
                        properties,
                    }),
                    run,
                }
            },
        )
    })
}

// The rows begin here.
#[rustfmt::skip]
static TABLE: &[(&str, &[Row])] = &[
    ("gfx1100", &[
        ("empty", 4, 0x4b3cc77f9c2f79a8, [0, 0, 0], [0x60af0000, 0x0000009e, 0x00000000], 0x0400, stock::empty),
        ("fill", 120, 0xca3f192685ef7e9f, [0, 0, 16], [0x60af0080, 0x0000009e, 0x00000000], 0x040a, stock::fill),
        ("copy", 144, 0x8966b0dbb996d364, [0, 0, 20], [0x60af0080, 0x0000009e, 0x00000000], 0x040a, stock::copy),
        ("add", 180, 0xcaf994aa361935d5, [0, 0, 28], [0x60af0080, 0x0000009e, 0x00000000], 0x040a, stock::add),
        ("scale", 164, 0xae36fd0f0a49817d, [0, 0, 28], [0x60af0080, 0x0000009e, 0x00000000], 0x040a, stock::scale),
        ("step", 144, 0x7b728aa795a8bfa4, [0, 0, 20], [0x60af0080, 0x0000009e, 0x00000000], 0x040a, stock::step),
        ("dims", 572, 0xa4bf512aa6330f0a, [0, 0, 8], [0x60af0081, 0x0000139a, 0x00000000], 0x040a, stock::dims),
        ("reduce", 376, 0xf1f7f606c84c592b, [0, 0, 20], [0x60af0080, 0x0000009e, 0x00000000], 0x040a, stock::reduce),
        ("scalars", 276, 0xc2f90ef2d21ea393, [0, 0, 56], [0x60af0081, 0x0000009e, 0x00000000], 0x040a, stock::scalars),
        ("spin", 124, 0x875023d97228fdf5, [0, 0, 16], [0x60af0040, 0x0000009e, 0x00000000], 0x0408, stock::spin),
        ("empty", 4, 0x4b3cc77f9c2f79a8, [0, 0, 0], [0x60af0000, 0x00000080, 0x00000000], 0x0000, stock::empty),
        ("fill", 124, 0x3a1a54a6615662bc, [0, 0, 16], [0x60af0000, 0x00000088, 0x00000000], 0x000a, stock::fill),
        ("copy", 140, 0x094a3cd483dc985c, [0, 0, 20], [0x60af0000, 0x00000088, 0x00000000], 0x000a, stock::copy),
        ("add", 176, 0x327785eedb29d21d, [0, 0, 28], [0x60af0041, 0x00000088, 0x00000000], 0x000a, stock::add),
        ("scale", 160, 0x8be8d42a9b29d645, [0, 0, 28], [0x60af0040, 0x00000088, 0x00000000], 0x000a, stock::scale),
        ("step", 144, 0x693f27b26b2eb8c9, [0, 0, 20], [0x60af0041, 0x00000088, 0x00000000], 0x000a, stock::step),
        ("dims", 572, 0x7e124243fa11d11b, [0, 0, 8], [0x60af0042, 0x00001388, 0x00000000], 0x000a, stock::dims),
        ("reduce", 376, 0xc7b2ae16858d04cf, [0, 0, 20], [0x60af0041, 0x00000088, 0x00000000], 0x000a, stock::reduce),
        ("scalars", 276, 0x864e15cdcff5e093, [0, 0, 56], [0x60af0082, 0x00000088, 0x00000000], 0x000a, stock::scalars),
        ("spin", 120, 0x46c6c76ad5cef1ba, [0, 0, 16], [0x60af0000, 0x00000084, 0x00000000], 0x0008, stock::spin),
        ("reduce", 984, 0x0e104e2f9fa7305d, [1024, 36, 20], [0x60af0080, 0x0000009f, 0x00000000], 0x0408, stock::reduce_tree),
        ("saxpy", 176, 0xaa31eb955aa8a619, [0, 0, 32], [0x60af0080, 0x0000009e, 0x00000000], 0x040a, stock::saxpy),
        ("vadd", 132, 0x2f716e49c903fad7, [0, 0, 24], [0x60af0041, 0x00000084, 0x00000000], 0x0008, stock::vadd),
        ("vadd", 132, 0x630a34a6e3d12f5e, [0, 0, 24], [0x60af0080, 0x0000009e, 0x00000000], 0x0408, stock::vadd),
    ]),
    ("gfx1151", &[
        ("empty", 4, 0x4b3cc77f9c2f79a8, [0, 0, 0], [0x60af0000, 0x00000080, 0x00000000], 0x0400, stock::empty),
        ("fill", 120, 0x47bd06d093f86f7e, [0, 0, 16], [0x60af0000, 0x00000088, 0x00000000], 0x040a, stock::fill),
        ("copy", 144, 0xb40f73b2e728fdd4, [0, 0, 20], [0x60af0000, 0x00000088, 0x00000000], 0x040a, stock::copy),
        ("add", 180, 0x94efdd23e9b04d65, [0, 0, 28], [0x60af0040, 0x00000088, 0x00000000], 0x040a, stock::add),
        ("scale", 164, 0x7e09d79b122e41ed, [0, 0, 28], [0x60af0040, 0x00000088, 0x00000000], 0x040a, stock::scale),
        ("step", 144, 0xb3062e5ce16ff1d5, [0, 0, 20], [0x60af0040, 0x00000088, 0x00000000], 0x040a, stock::step),
        ("dims", 576, 0xc0e255a40ba3f104, [0, 0, 8], [0x60af0040, 0x00001388, 0x00000000], 0x040a, stock::dims),
        ("reduce", 376, 0xe0c83454aca96630, [0, 0, 20], [0x60af0040, 0x00000088, 0x00000000], 0x040a, stock::reduce),
        ("scalars", 276, 0x030a7405f701bbf4, [0, 0, 56], [0x60af0081, 0x00000088, 0x00000000], 0x040a, stock::scalars),
        ("spin", 120, 0x6304eb2423cdda46, [0, 0, 16], [0x60af0000, 0x00000084, 0x00000000], 0x0408, stock::spin),
    ]),
    ("gfx1201", &[
        ("empty", 4, 0x4b3cc77f9c2f79a8, [0, 0, 0], [0x600f0000, 0x00000080, 0x00000000], 0x0400, stock::empty),
        ("fill", 120, 0x74010d68ef2603f7, [0, 0, 16], [0x600f0000, 0x00000088, 0x00000000], 0x040a, stock::fill),
        ("copy", 148, 0x63542fbe4349974a, [0, 0, 20], [0x600f0000, 0x00000088, 0x00000000], 0x040a, stock::copy),
        ("add", 188, 0x845f7ad45348bea9, [0, 0, 28], [0x600f0040, 0x00000088, 0x00000000], 0x040a, stock::add),
        ("scale", 168, 0x3e74ef760541f839, [0, 0, 28], [0x600f0040, 0x00000088, 0x00000000], 0x040a, stock::scale),
        ("step", 148, 0x1f2ed7265f5c80e2, [0, 0, 20], [0x600f0040, 0x00000088, 0x00000000], 0x040a, stock::step),
        ("dims", 596, 0x573a46ba3fbc9110, [0, 0, 8], [0x600f0040, 0x00001388, 0x00000000], 0x040a, stock::dims),
        ("reduce", 352, 0x53f9a9dd0ef71cd7, [0, 0, 20], [0x600f0040, 0x00000088, 0x00000000], 0x040a, stock::reduce),
        ("scalars", 296, 0x69b315401508d6f8, [0, 0, 56], [0x600f0081, 0x00000088, 0x00000000], 0x040a, stock::scalars),
        ("spin", 124, 0x51d489f3d25368ee, [0, 0, 16], [0x600f0000, 0x00000084, 0x00000000], 0x0408, stock::spin),
        ("reduce", 1232, 0x550699baed69a27f, [1024, 36, 20], [0x600f0040, 0x00000085, 0x00000000], 0x0408, stock::reduce_tree),
        ("saxpy", 180, 0xf80f98981ba5bf17, [0, 0, 32], [0x600f0040, 0x00000088, 0x00000000], 0x040a, stock::saxpy),
        ("vadd", 140, 0x42e1b86748cd21ba, [0, 0, 24], [0x600f0040, 0x00000084, 0x00000000], 0x0408, stock::vadd),
    ]),
    ("gfx942", &[
        ("empty", 4, 0x4b6ec77f9c592041, [0, 0, 0], [0x00af0000, 0x00000080, 0x00000000], 0x0000, stock::empty),
        ("fill", 88, 0x909568c469734c00, [0, 0, 16], [0x00af0040, 0x00000088, 0x00000000], 0x000a, stock::fill),
        ("copy", 112, 0xa3f401f676cd6523, [0, 0, 20], [0x00af0040, 0x00000088, 0x00000000], 0x000a, stock::copy),
        ("add", 140, 0xf892133eadea8bcb, [0, 0, 28], [0x00af0040, 0x00000088, 0x00000001], 0x000a, stock::add),
        ("scale", 132, 0x8a2b9fbf9ba8ddab, [0, 0, 28], [0x00af0040, 0x00000088, 0x00000000], 0x000a, stock::scale),
        ("step", 108, 0x43c6780f05065f1d, [0, 0, 20], [0x00af0080, 0x00000088, 0x00000000], 0x000a, stock::step),
        ("dims", 484, 0x3ce085027f4529a1, [0, 0, 8], [0x00af0080, 0x00001388, 0x00000001], 0x000a, stock::dims),
        ("reduce", 256, 0xd324ddf0b445c2d0, [0, 0, 20], [0x00af0080, 0x00000088, 0x00000001], 0x000a, stock::reduce),
        ("scalars", 260, 0x5a5d64cd83e06b58, [0, 0, 56], [0x00af0080, 0x00000088, 0x00000001], 0x000a, stock::scalars),
        ("spin", 112, 0xe453c56be098e4aa, [0, 0, 16], [0x00af0040, 0x00000084, 0x00000000], 0x0008, stock::spin),
        ("reduce", 824, 0x925dd1696236688a, [1024, 36, 20], [0x00af0040, 0x00000085, 0x00000001], 0x0008, stock::reduce_tree),
        ("saxpy", 144, 0x284d253521a8092f, [0, 0, 32], [0x00af0080, 0x00000088, 0x00000001], 0x000a, stock::saxpy),
        ("vadd", 100, 0x3af63a621865ef3b, [0, 0, 24], [0x00af0040, 0x00000084, 0x00000001], 0x0008, stock::vadd),
    ]),
    ("gfx950", &[
        ("empty", 4, 0x4b6ec77f9c592041, [0, 0, 0], [0x00af0000, 0x00000080, 0x00000000], 0x0000, stock::empty),
        ("fill", 88, 0x909568c469734c00, [0, 0, 16], [0x00af0040, 0x00000088, 0x00000000], 0x000a, stock::fill),
        ("copy", 112, 0xa3f401f676cd6523, [0, 0, 20], [0x00af0040, 0x00000088, 0x00000000], 0x000a, stock::copy),
        ("add", 140, 0xf892133eadea8bcb, [0, 0, 28], [0x00af0040, 0x00000088, 0x00000001], 0x000a, stock::add),
        ("scale", 132, 0x8a2b9fbf9ba8ddab, [0, 0, 28], [0x00af0040, 0x00000088, 0x00000000], 0x000a, stock::scale),
        ("step", 108, 0x43c6780f05065f1d, [0, 0, 20], [0x00af0080, 0x00000088, 0x00000000], 0x000a, stock::step),
        ("dims", 484, 0x3ce085027f4529a1, [0, 0, 8], [0x00af0080, 0x00001388, 0x00000001], 0x000a, stock::dims),
        ("reduce", 256, 0xd324ddf0b445c2d0, [0, 0, 20], [0x00af0080, 0x00000088, 0x00000001], 0x000a, stock::reduce),
        ("scalars", 260, 0x5a5d64cd83e06b58, [0, 0, 56], [0x00af0080, 0x00000088, 0x00000001], 0x000a, stock::scalars),
        ("spin", 112, 0xe453c56be098e4aa, [0, 0, 16], [0x00af0040, 0x00000084, 0x00000000], 0x0008, stock::spin),
    ]),
];
