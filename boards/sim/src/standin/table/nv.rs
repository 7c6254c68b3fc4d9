//! NVIDIA's.
//!
//! Generated from the cubins in `tests/conformance/kernels/nv` and `tests/vectors/objects`; a test reads those again and
//! compares. `HCQ_WRITE_TABLE=1 cargo test -p hcq-sim the_nv_table` writes this file.

use super::super::nv::Needs;
use super::super::{Known, StandIn, stock};

/// Symbol, bytes of code, hash of code; registers, barriers, bytes of shared and of an item's own memory; where the parameters
/// begin in bank 0, and their bytes; where the sizes of the group and of the grid are there; constant banks, stand-in.
type Row = (
    &'static str,
    u32,
    u64,
    [u32; 4],
    (u32, u32),
    (u32, u32),
    u8,
    StandIn,
);

pub(super) fn known() -> impl Iterator<Item = Known> {
    TABLE.iter().flat_map(|&(target, rows)| {
        rows.iter().map(
            move |&(symbol, code_bytes, code_hash, needs, parameters, sizes, banks, run)| {
                let [registers, barriers, shared_bytes, thread_bytes] = needs;
                Known {
                    target: target.into(),
                    symbol: symbol.into(),
                    code_bytes,
                    code_hash,
                    needs: super::super::Needs::Nv(Needs {
                        registers,
                        barriers,
                        shared_bytes,
                        thread_bytes,
                        parameters,
                        sizes: Some(sizes),
                        banks,
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
    ("sm_120", &[
        ("add", 512, 0xebd65136f24ff249, [12, 0, 0, 0], (0x380, 28), (0x360, 0x370), 0x0, stock::add),
        ("copy", 512, 0xc34e3e6619eca0fc, [10, 0, 0, 0], (0x380, 20), (0x360, 0x370), 0x0, stock::copy),
        ("dims", 896, 0x05cec7001e16993e, [14, 0, 0, 0], (0x380, 8), (0x360, 0x370), 0x0, stock::dims),
        ("empty", 256, 0x3b1cc6e743ac0554, [4, 0, 0, 0], (0x0, 0), (0x360, 0x370), 0x0, stock::empty),
        ("fill", 384, 0x988378773e4af412, [10, 0, 0, 0], (0x380, 16), (0x360, 0x370), 0x0, stock::fill),
        ("reduce", 1024, 0x4fb2ef3d6ec71e53, [16, 1, 0, 0], (0x380, 20), (0x360, 0x370), 0x0, stock::reduce),
        ("saxpy", 512, 0xbd9549a6ee43910d, [12, 0, 0, 0], (0x380, 32), (0x360, 0x370), 0x0, stock::saxpy),
        ("scalars", 1024, 0x6cb04f151493d1de, [24, 0, 0, 0], (0x380, 56), (0x360, 0x370), 0x0, stock::scalars),
        ("scale", 512, 0x02619f8858b1ea02, [12, 0, 0, 0], (0x380, 28), (0x360, 0x370), 0x0, stock::scale),
        ("spin", 512, 0x2eb4046a729752c6, [8, 0, 0, 0], (0x380, 16), (0x360, 0x370), 0x0, stock::spin),
        ("step", 512, 0x3aabe1a7c86df5c7, [8, 0, 0, 0], (0x380, 20), (0x360, 0x370), 0x0, stock::step),
        ("vadd", 512, 0xf23165c7c867e7e9, [12, 0, 0, 0], (0x380, 24), (0x360, 0x370), 0x0, stock::vadd_sized),
        ("reduce", 1664, 0x59f7fa0aeca4dbf5, [28, 1, 1024, 512], (0x380, 24), (0x360, 0x370), 0x0, stock::reduce_one),
        ("saxpy", 640, 0xd2bd74ad2f839291, [12, 0, 0, 0], (0x380, 33), (0x360, 0x370), 0x8, stock::saxpy_scaled),
        ("vadd", 512, 0xf23165c7c867e7e9, [12, 0, 0, 0], (0x380, 24), (0x360, 0x370), 0x0, stock::vadd_sized),
    ]),
    ("sm_86", &[
        ("add", 512, 0x7beb29cde19d96f6, [12, 0, 0, 0], (0x160, 28), (0x0, 0xc), 0x0, stock::add),
        ("copy", 384, 0x135074b9c7e7e8d1, [8, 0, 0, 0], (0x160, 20), (0x0, 0xc), 0x0, stock::copy),
        ("dims", 896, 0xbae06152766e4700, [15, 0, 0, 0], (0x160, 8), (0x0, 0xc), 0x0, stock::dims),
        ("empty", 256, 0x19577663fb50e112, [4, 0, 0, 0], (0x0, 0), (0x0, 0xc), 0x0, stock::empty),
        ("fill", 384, 0xacb2183106d60113, [8, 0, 0, 0], (0x160, 16), (0x0, 0xc), 0x0, stock::fill),
        ("reduce", 896, 0xc0135946e2a6b811, [12, 1, 0, 0], (0x160, 20), (0x0, 0xc), 0x0, stock::reduce),
        ("saxpy", 512, 0x9fa84c789f46dca0, [10, 0, 0, 0], (0x160, 32), (0x0, 0xc), 0x0, stock::saxpy),
        ("scalars", 1024, 0xf30ee26cb96d03b4, [18, 0, 0, 0], (0x160, 56), (0x0, 0xc), 0x0, stock::scalars),
        ("scale", 384, 0xbc9b81b42eae0496, [10, 0, 0, 0], (0x160, 28), (0x0, 0xc), 0x0, stock::scale),
        ("spin", 512, 0x737c7f0ba03b618f, [8, 0, 0, 0], (0x160, 16), (0x0, 0xc), 0x0, stock::spin),
        ("step", 384, 0xb223eaf90e9d44ee, [8, 0, 0, 0], (0x160, 20), (0x0, 0xc), 0x0, stock::step),
        ("vadd", 384, 0xbf2c490db563e40a, [12, 0, 0, 0], (0x160, 24), (0x0, 0xc), 0x0, stock::vadd_sized),
        ("reduce", 1664, 0xae4ec8f740e3270d, [24, 1, 1024, 512], (0x160, 24), (0x0, 0xc), 0x0, stock::reduce_one),
        ("saxpy", 640, 0x53be0faf53898f1b, [10, 0, 0, 0], (0x160, 33), (0x0, 0xc), 0x8, stock::saxpy_scaled),
        ("vadd", 384, 0xbf2c490db563e40a, [12, 0, 0, 0], (0x160, 24), (0x0, 0xc), 0x0, stock::vadd_sized),
    ]),
    ("sm_89", &[
        ("add", 512, 0x7beb29cde19d96f6, [12, 0, 0, 0], (0x160, 28), (0x0, 0xc), 0x0, stock::add),
        ("copy", 384, 0x135074b9c7e7e8d1, [8, 0, 0, 0], (0x160, 20), (0x0, 0xc), 0x0, stock::copy),
        ("dims", 896, 0xbae06152766e4700, [15, 0, 0, 0], (0x160, 8), (0x0, 0xc), 0x0, stock::dims),
        ("empty", 256, 0x19577663fb50e112, [4, 0, 0, 0], (0x0, 0), (0x0, 0xc), 0x0, stock::empty),
        ("fill", 384, 0xacb2183106d60113, [8, 0, 0, 0], (0x160, 16), (0x0, 0xc), 0x0, stock::fill),
        ("reduce", 896, 0xc0135946e2a6b811, [12, 1, 0, 0], (0x160, 20), (0x0, 0xc), 0x0, stock::reduce),
        ("saxpy", 512, 0x9fa84c789f46dca0, [10, 0, 0, 0], (0x160, 32), (0x0, 0xc), 0x0, stock::saxpy),
        ("scalars", 1024, 0xf30ee26cb96d03b4, [18, 0, 0, 0], (0x160, 56), (0x0, 0xc), 0x0, stock::scalars),
        ("scale", 384, 0xbc9b81b42eae0496, [10, 0, 0, 0], (0x160, 28), (0x0, 0xc), 0x0, stock::scale),
        ("spin", 512, 0x737c7f0ba03b618f, [8, 0, 0, 0], (0x160, 16), (0x0, 0xc), 0x0, stock::spin),
        ("step", 384, 0xb223eaf90e9d44ee, [8, 0, 0, 0], (0x160, 20), (0x0, 0xc), 0x0, stock::step),
        ("vadd", 384, 0xbf2c490db563e40a, [12, 0, 0, 0], (0x160, 24), (0x0, 0xc), 0x0, stock::vadd_sized),
        ("reduce", 1664, 0xae4ec8f740e3270d, [24, 1, 1024, 512], (0x160, 24), (0x0, 0xc), 0x0, stock::reduce_one),
        ("saxpy", 640, 0x53be0faf53898f1b, [10, 0, 0, 0], (0x160, 33), (0x0, 0xc), 0x8, stock::saxpy_scaled),
        ("vadd", 384, 0xbf2c490db563e40a, [12, 0, 0, 0], (0x160, 24), (0x0, 0xc), 0x0, stock::vadd_sized),
    ]),
    ("sm_90", &[
        ("add", 512, 0x0c4abdb3825111e9, [12, 0, 0, 0], (0x210, 28), (0x0, 0xc), 0x0, stock::add),
        ("copy", 512, 0xf2c0867a6da1748e, [10, 0, 0, 0], (0x210, 20), (0x0, 0xc), 0x0, stock::copy),
        ("dims", 896, 0x21a3b0ac7cb4e70c, [14, 0, 0, 0], (0x210, 8), (0x0, 0xc), 0x0, stock::dims),
        ("empty", 256, 0x1d3fa222786ee86f, [4, 0, 0, 0], (0x0, 0), (0x0, 0xc), 0x0, stock::empty),
        ("fill", 384, 0x488f1cd452de2ac4, [10, 0, 0, 0], (0x210, 16), (0x0, 0xc), 0x0, stock::fill),
        ("reduce", 1024, 0x9170f876eb4a6b57, [16, 1, 0, 0], (0x210, 20), (0x0, 0xc), 0x0, stock::reduce),
        ("saxpy", 512, 0x9b60da7e1625a926, [12, 0, 0, 0], (0x210, 32), (0x0, 0xc), 0x0, stock::saxpy),
        ("scalars", 1024, 0x1d6f2f92f5873b3b, [20, 0, 0, 0], (0x210, 56), (0x0, 0xc), 0x0, stock::scalars),
        ("scale", 512, 0x8806da5970aa8d95, [12, 0, 0, 0], (0x210, 28), (0x0, 0xc), 0x0, stock::scale),
        ("spin", 512, 0x11e8aac7699af4b3, [8, 0, 0, 0], (0x210, 16), (0x0, 0xc), 0x0, stock::spin),
        ("step", 512, 0xb70e9b726cff3a7d, [8, 0, 0, 0], (0x210, 20), (0x0, 0xc), 0x0, stock::step),
        ("vadd", 512, 0xe9c85b4a7123ca67, [12, 0, 0, 0], (0x210, 24), (0x0, 0xc), 0x0, stock::vadd_sized),
        ("reduce", 1664, 0xa951a82dea43d79f, [28, 1, 1024, 512], (0x210, 24), (0x0, 0xc), 0x0, stock::reduce_one),
        ("saxpy", 640, 0xcc38f262f7d661df, [12, 0, 0, 0], (0x210, 33), (0x0, 0xc), 0x8, stock::saxpy_scaled),
        ("vadd", 512, 0xe9c85b4a7123ca67, [12, 0, 0, 0], (0x210, 24), (0x0, 0xc), 0x0, stock::vadd_sized),
    ]),
];
