//! Adreno's.
//!
//! Generated from the programs in `tests/conformance/kernels/qcom`; a test reads those again and compares.
//! `HCQ_WRITE_TABLE=1 cargo test -p hcq-sim the_qcom_table` writes this file.

use super::super::adreno::{Needs, Place};
use super::super::{Known, StandIn, stock, texel};

/// Symbol, bytes of code, hash of code; full and half registers, bytes of local memory, of a fiber's own and of the arguments in C;
/// each argument's byte among the constants, in C, and its bytes; where the group's size and the number of groups are; textures,
/// samplers, images; numbers of the compiler's; stand-in.
type Row = (
    &'static str,
    u32,
    u64,
    [u32; 5],
    &'static [Place],
    (Option<u32>, Option<u32>),
    [u32; 3],
    &'static [(u32, u32)],
    StandIn,
);

const fn p(constant: u32, offset: u32, bytes: u32) -> Place {
    Place {
        constant,
        offset,
        bytes,
    }
}

pub(super) fn known() -> impl Iterator<Item = Known> {
    TABLE.iter().flat_map(|&(target, rows)| {
        rows.iter().map(
            move |&(
                symbol,
                code_bytes,
                code_hash,
                sums,
                arguments,
                sizes,
                descriptors,
                immediates,
                run,
            )| {
                let [full, half, local_bytes, fiber_bytes, argument_bytes] = sums;
                Known {
                    target: target.into(),
                    symbol: symbol.into(),
                    code_bytes,
                    code_hash,
                    needs: super::super::Needs::Adreno(Needs {
                        registers: (full, half),
                        local_bytes,
                        fiber_bytes,
                        argument_bytes,
                        arguments,
                        sizes,
                        descriptors,
                        immediates,
                    }),
                    run,
                }
            },
        )
    })
}

#[cfg(test)]
mod tests;

// The rows begin here.
#[rustfmt::skip]
static TABLE: &[(&str, &[Row])] = &[
    ("a630", &[
        ("empty", 128, 0x8bcde9fe0e7cef2c, [0, 0, 0, 0, 0], &[], (None, None), [0, 0, 0], &[], stock::empty),
        ("fill", 256, 0xa2011015bb43cf87, [3, 0, 0, 0, 16], &[p(64, 0, 8), p(72, 8, 4), p(76, 12, 4)], (Some(32), None), [0, 0, 0], &[], stock::fill),
        ("copy", 384, 0xcac4b9e40a7eb7e2, [5, 0, 0, 0, 20], &[p(64, 0, 8), p(72, 8, 8), p(80, 16, 4)], (Some(32), None), [0, 0, 0], &[], stock::copy),
        ("add", 384, 0x523fb4593729de24, [6, 0, 0, 0, 28], &[p(64, 0, 8), p(72, 8, 8), p(80, 16, 8), p(88, 24, 4)], (Some(32), None), [0, 0, 0], &[], stock::add),
        ("scale", 384, 0x5f3aa1aab89cac1c, [5, 0, 0, 0, 28], &[p(64, 0, 4), p(68, 4, 4), p(72, 8, 8), p(80, 16, 8), p(88, 24, 4)], (Some(32), None), [0, 0, 0], &[], stock::scale),
        ("step", 384, 0x0633a85c8bb943ab, [4, 0, 0, 0, 20], &[p(64, 0, 8), p(72, 8, 4), p(76, 12, 4), p(80, 16, 4)], (Some(32), None), [0, 0, 0], &[], stock::step),
        ("dims", 768, 0x197329cfd7face86, [11, 0, 0, 0, 8], &[p(64, 0, 8)], (Some(32), Some(0)), [0, 0, 0], &[], stock::dims),
        ("reduce", 640, 0x904a03a401c644c1, [8, 0, 0, 0, 20], &[p(64, 0, 8), p(72, 8, 8), p(80, 16, 4)], (Some(32), None), [0, 0, 0], &[], stock::reduce),
        ("scalars", 1152, 0x1e2a93bee54d2627, [12, 0, 0, 0, 56], &[p(64, 0, 1), p(66, 2, 2), p(68, 4, 4), p(72, 8, 8), p(80, 16, 1), p(82, 18, 2), p(84, 20, 4), p(88, 24, 8), p(96, 32, 4), p(104, 40, 8), p(112, 48, 8)], (Some(32), None), [0, 0, 0], &[], stock::scalars),
        ("spin", 256, 0x142cef44c28c47f7, [4, 0, 0, 0, 16], &[p(0, 0, 8), p(8, 8, 4), p(12, 12, 4)], (None, None), [0, 0, 0], &[(64, 0x19660d), (68, 0x3c6ef35f)], stock::spin),
        ("vadd", 384, 0x65e7515a9a386a43, [6, 0, 0, 0, 24], &[p(64, 0, 8), p(72, 8, 8), p(80, 16, 8)], (Some(32), None), [0, 0, 0], &[], stock::vadd),
        ("saxpy", 384, 0x720a298f498d1bda, [6, 0, 0, 0, 32], &[p(64, 0, 8), p(72, 8, 8), p(80, 16, 4), p(84, 20, 4), p(88, 24, 8)], (Some(32), None), [0, 0, 0], &[], stock::saxpy),
        ("read_image", 640, 0xc1bdd43378e4c6de, [10, 0, 0, 0, 16], &[p(64, 0, 8), p(72, 8, 4), p(76, 12, 4)], (Some(32), None), [1, 1, 0], &[], texel::read_image),
        ("write_image", 640, 0x131f1475743cf343, [10, 0, 0, 0, 16], &[p(64, 0, 8), p(72, 8, 4), p(76, 12, 4)], (Some(32), None), [0, 0, 1], &[], texel::write_image),
        ("copy_image", 256, 0xc3692493de54f22d, [4, 0, 0, 0, 8], &[p(64, 0, 4), p(68, 4, 4)], (Some(32), None), [1, 1, 1], &[], texel::copy_image),
        ("copy_image_uint", 256, 0x3eba16be97667a19, [4, 0, 0, 0, 8], &[p(64, 0, 4), p(68, 4, 4)], (Some(32), None), [1, 1, 1], &[], texel::copy_image_uint),
        ("sample_image", 640, 0x48edf75f5c8ef148, [11, 0, 0, 0, 32], &[p(64, 0, 8), p(72, 8, 4), p(76, 12, 4), p(80, 16, 4), p(84, 20, 4), p(88, 24, 4), p(92, 28, 4)], (Some(32), None), [1, 1, 0], &[], texel::sample_image),
        ("fill", 256, 0x7bb55ad1fecedd64, [2, 1, 0, 0, 16], &[p(0, 0, 8), p(8, 8, 4), p(12, 12, 4)], (None, None), [0, 0, 0], &[], stock::fill),
        ("copy", 256, 0xf4b878610cdf89a7, [4, 1, 0, 0, 20], &[p(0, 0, 8), p(8, 8, 8), p(16, 16, 4)], (None, None), [0, 0, 0], &[], stock::copy),
        ("add", 384, 0x3f77488324b344da, [5, 1, 0, 0, 28], &[p(0, 0, 8), p(8, 8, 8), p(16, 16, 8), p(24, 24, 4)], (None, None), [0, 0, 0], &[], stock::add),
        ("scale", 256, 0xfc1aa9c1a2232769, [3, 1, 0, 0, 28], &[p(0, 0, 4), p(4, 4, 4), p(8, 8, 8), p(16, 16, 8), p(24, 24, 4)], (None, None), [0, 0, 0], &[], stock::scale),
        ("step", 256, 0xbebc16c1bd221720, [3, 1, 0, 0, 20], &[p(0, 0, 8), p(8, 8, 4), p(12, 12, 4), p(16, 16, 4)], (None, None), [0, 0, 0], &[], stock::step),
        ("reduce", 640, 0x149ea7b1ddfcb80c, [7, 1, 0, 0, 20], &[p(0, 0, 8), p(8, 8, 8), p(16, 16, 4)], (None, None), [0, 0, 0], &[], stock::reduce),
        ("spin", 256, 0x73a3cb667957b04c, [3, 1, 0, 0, 16], &[p(0, 0, 8), p(8, 8, 4), p(12, 12, 4)], (None, None), [0, 0, 0], &[(64, 0x19660d), (68, 0x3c6ef35f)], stock::spin),
        ("read_image", 512, 0x4e9ebaf92cb4087a, [8, 1, 0, 0, 16], &[p(0, 0, 8), p(8, 8, 4), p(12, 12, 4)], (None, None), [1, 1, 0], &[], texel::read_image),
        ("write_image", 512, 0x44c4932e3c1ab70d, [8, 1, 0, 0, 16], &[p(0, 0, 8), p(8, 8, 4), p(12, 12, 4)], (None, None), [0, 0, 1], &[], texel::write_image),
        ("copy_image", 128, 0x9209c5ff901a3b6b, [3, 0, 0, 0, 8], &[p(0, 0, 4), p(4, 4, 4)], (None, None), [1, 1, 1], &[], texel::copy_image),
    ]),
    ("a650", &[
        ("empty", 128, 0x8bcde9fe0e7cef2c, [0, 0, 0, 0, 0], &[], (None, None), [0, 0, 0], &[], stock::empty),
        ("fill", 256, 0xc1449aad609641b1, [3, 0, 0, 0, 16], &[p(64, 0, 8), p(72, 8, 4), p(76, 12, 4)], (Some(32), None), [0, 0, 0], &[], stock::fill),
        ("copy", 384, 0x965ab8ad91c1601a, [4, 0, 0, 0, 20], &[p(64, 0, 8), p(72, 8, 8), p(80, 16, 4)], (Some(32), None), [0, 0, 0], &[], stock::copy),
        ("add", 384, 0xfe5e754d0e14784d, [5, 0, 0, 0, 28], &[p(64, 0, 8), p(72, 8, 8), p(80, 16, 8), p(88, 24, 4)], (Some(32), None), [0, 0, 0], &[], stock::add),
        ("scale", 384, 0x21d33215ffdec6a7, [4, 0, 0, 0, 28], &[p(64, 0, 4), p(68, 4, 4), p(72, 8, 8), p(80, 16, 8), p(88, 24, 4)], (Some(32), None), [0, 0, 0], &[], stock::scale),
        ("step", 384, 0xba9733a5554006d9, [3, 0, 0, 0, 20], &[p(64, 0, 8), p(72, 8, 4), p(76, 12, 4), p(80, 16, 4)], (Some(32), None), [0, 0, 0], &[], stock::step),
        ("dims", 1024, 0xb7705c79765fede9, [8, 0, 0, 0, 8], &[p(64, 0, 8)], (Some(32), Some(0)), [0, 0, 0], &[], stock::dims),
        ("reduce", 640, 0x10c3afe2d4ff6a1f, [6, 0, 0, 0, 20], &[p(64, 0, 8), p(72, 8, 8), p(80, 16, 4)], (Some(32), None), [0, 0, 0], &[], stock::reduce),
        ("scalars", 1536, 0xdc3c19e141ca4922, [8, 0, 0, 0, 56], &[p(64, 0, 1), p(66, 2, 2), p(68, 4, 4), p(72, 8, 8), p(80, 16, 1), p(82, 18, 2), p(84, 20, 4), p(88, 24, 8), p(96, 32, 4), p(104, 40, 8), p(112, 48, 8)], (Some(32), None), [0, 0, 0], &[], stock::scalars),
        ("spin", 384, 0x206e09b8e191b855, [2, 0, 0, 0, 16], &[p(0, 0, 8), p(8, 8, 4), p(12, 12, 4)], (None, None), [0, 0, 0], &[(64, 0x19660d), (68, 0x3c6ef35f)], stock::spin),
        ("vadd", 384, 0x45bc7f18012691d8, [5, 0, 0, 0, 24], &[p(64, 0, 8), p(72, 8, 8), p(80, 16, 8)], (Some(32), None), [0, 0, 0], &[], stock::vadd),
        ("saxpy", 512, 0x6b22ed975202fe9c, [4, 0, 0, 0, 32], &[p(64, 0, 8), p(72, 8, 8), p(80, 16, 4), p(84, 20, 4), p(88, 24, 8)], (Some(32), None), [0, 0, 0], &[], stock::saxpy),
        ("read_image", 640, 0x4d85b7e6afce5256, [8, 0, 0, 0, 16], &[p(64, 0, 8), p(72, 8, 4), p(76, 12, 4)], (Some(32), None), [1, 1, 0], &[], texel::read_image),
        ("write_image", 640, 0xb71d0d5d6f042d52, [8, 0, 0, 0, 16], &[p(64, 0, 8), p(72, 8, 4), p(76, 12, 4)], (Some(32), None), [0, 0, 1], &[], texel::write_image),
        ("copy_image", 256, 0xd7efde33394b9fdc, [3, 0, 0, 0, 8], &[p(64, 0, 4), p(68, 4, 4)], (Some(32), None), [1, 1, 1], &[], texel::copy_image),
        ("copy_image_uint", 256, 0x6efed4c5e59d9308, [3, 0, 0, 0, 8], &[p(64, 0, 4), p(68, 4, 4)], (Some(32), None), [1, 1, 1], &[], texel::copy_image_uint),
        ("sample_image", 640, 0x9329f4e8936c0e6e, [8, 0, 0, 0, 32], &[p(64, 0, 8), p(72, 8, 4), p(76, 12, 4), p(80, 16, 4), p(84, 20, 4), p(88, 24, 4), p(92, 28, 4)], (Some(32), None), [1, 1, 0], &[], texel::sample_image),
        ("fill", 256, 0x7bb55ad1fecedd64, [2, 1, 0, 0, 16], &[p(0, 0, 8), p(8, 8, 4), p(12, 12, 4)], (None, None), [0, 0, 0], &[], stock::fill),
        ("copy", 256, 0xf4b878610cdf89a7, [4, 1, 0, 0, 20], &[p(0, 0, 8), p(8, 8, 8), p(16, 16, 4)], (None, None), [0, 0, 0], &[], stock::copy),
        ("add", 384, 0x3f77488324b344da, [5, 1, 0, 0, 28], &[p(0, 0, 8), p(8, 8, 8), p(16, 16, 8), p(24, 24, 4)], (None, None), [0, 0, 0], &[], stock::add),
        ("scale", 256, 0xfc1aa9c1a2232769, [3, 1, 0, 0, 28], &[p(0, 0, 4), p(4, 4, 4), p(8, 8, 8), p(16, 16, 8), p(24, 24, 4)], (None, None), [0, 0, 0], &[], stock::scale),
        ("step", 256, 0xbebc16c1bd221720, [3, 1, 0, 0, 20], &[p(0, 0, 8), p(8, 8, 4), p(12, 12, 4), p(16, 16, 4)], (None, None), [0, 0, 0], &[], stock::step),
        ("reduce", 640, 0x149ea7b1ddfcb80c, [7, 1, 0, 0, 20], &[p(0, 0, 8), p(8, 8, 8), p(16, 16, 4)], (None, None), [0, 0, 0], &[], stock::reduce),
        ("spin", 256, 0x73a3cb667957b04c, [3, 1, 0, 0, 16], &[p(0, 0, 8), p(8, 8, 4), p(12, 12, 4)], (None, None), [0, 0, 0], &[(64, 0x19660d), (68, 0x3c6ef35f)], stock::spin),
        ("read_image", 512, 0x4e9ebaf92cb4087a, [8, 1, 0, 0, 16], &[p(0, 0, 8), p(8, 8, 4), p(12, 12, 4)], (None, None), [1, 1, 0], &[], texel::read_image),
        ("write_image", 512, 0x44c4932e3c1ab70d, [8, 1, 0, 0, 16], &[p(0, 0, 8), p(8, 8, 4), p(12, 12, 4)], (None, None), [0, 0, 1], &[], texel::write_image),
        ("copy_image", 128, 0x9209c5ff901a3b6b, [3, 0, 0, 0, 8], &[p(0, 0, 4), p(4, 4, 4)], (None, None), [1, 1, 1], &[], texel::copy_image),
    ]),
    ("a660", &[
        ("empty", 128, 0x8bcde9fe0e7cef2c, [0, 0, 0, 0, 0], &[], (None, None), [0, 0, 0], &[], stock::empty),
        ("fill", 256, 0x7280339d5f8928df, [3, 0, 0, 0, 16], &[p(64, 0, 8), p(72, 8, 4), p(76, 12, 4)], (Some(32), None), [0, 0, 0], &[], stock::fill),
        ("copy", 384, 0xb20e9d41ed486ee3, [4, 0, 0, 0, 20], &[p(64, 0, 8), p(72, 8, 8), p(80, 16, 4)], (Some(32), None), [0, 0, 0], &[], stock::copy),
        ("add", 384, 0x46a1f620b02e2d65, [5, 0, 0, 0, 28], &[p(64, 0, 8), p(72, 8, 8), p(80, 16, 8), p(88, 24, 4)], (Some(32), None), [0, 0, 0], &[], stock::add),
        ("scale", 384, 0x8f2c7905dea8aa48, [4, 0, 0, 0, 28], &[p(64, 0, 4), p(68, 4, 4), p(72, 8, 8), p(80, 16, 8), p(88, 24, 4)], (Some(32), None), [0, 0, 0], &[], stock::scale),
        ("step", 384, 0x3e9f76091bd429c0, [3, 0, 0, 0, 20], &[p(64, 0, 8), p(72, 8, 4), p(76, 12, 4), p(80, 16, 4)], (Some(32), None), [0, 0, 0], &[], stock::step),
        ("dims", 896, 0x1a3ebf8fea2e2289, [8, 0, 0, 0, 8], &[p(64, 0, 8)], (Some(32), Some(0)), [0, 0, 0], &[(128, 0x4), (132, 0x8), (136, 0xc)], stock::dims),
        ("reduce", 640, 0x5cc4325ef3604ed8, [6, 0, 0, 0, 20], &[p(64, 0, 8), p(72, 8, 8), p(80, 16, 4)], (Some(32), None), [0, 0, 0], &[], stock::reduce),
        ("scalars", 1536, 0xdc3c19e141ca4922, [8, 0, 0, 0, 56], &[p(64, 0, 1), p(66, 2, 2), p(68, 4, 4), p(72, 8, 8), p(80, 16, 1), p(82, 18, 2), p(84, 20, 4), p(88, 24, 8), p(96, 32, 4), p(104, 40, 8), p(112, 48, 8)], (Some(32), None), [0, 0, 0], &[], stock::scalars),
        ("spin", 384, 0x2adff8abb0131671, [2, 0, 0, 0, 16], &[p(0, 0, 8), p(8, 8, 4), p(12, 12, 4)], (None, None), [0, 0, 0], &[(64, 0x19660d), (68, 0x3c6ef35f)], stock::spin),
        ("vadd", 384, 0x9793a4b809a31303, [5, 0, 0, 0, 24], &[p(64, 0, 8), p(72, 8, 8), p(80, 16, 8)], (Some(32), None), [0, 0, 0], &[], stock::vadd),
        ("saxpy", 384, 0xb799485b75587266, [4, 0, 0, 0, 32], &[p(64, 0, 8), p(72, 8, 8), p(80, 16, 4), p(84, 20, 4), p(88, 24, 8)], (Some(32), None), [0, 0, 0], &[], stock::saxpy),
        ("read_image", 640, 0xc1ceda6cd8d13260, [8, 0, 0, 0, 16], &[p(64, 0, 8), p(72, 8, 4), p(76, 12, 4)], (Some(32), None), [1, 1, 0], &[(128, 0x4), (132, 0x8), (136, 0xc)], texel::read_image),
        ("write_image", 640, 0x4d708e2574582a72, [8, 0, 0, 0, 16], &[p(64, 0, 8), p(72, 8, 4), p(76, 12, 4)], (Some(32), None), [0, 0, 1], &[(128, 0x4), (132, 0x8), (136, 0xc)], texel::write_image),
        ("copy_image", 256, 0xd7efde33394b9fdc, [3, 0, 0, 0, 8], &[p(64, 0, 4), p(68, 4, 4)], (Some(32), None), [1, 1, 1], &[], texel::copy_image),
        ("copy_image_uint", 256, 0x6efed4c5e59d9308, [3, 0, 0, 0, 8], &[p(64, 0, 4), p(68, 4, 4)], (Some(32), None), [1, 1, 1], &[], texel::copy_image_uint),
        ("sample_image", 640, 0x0543edbcbdca74a3, [8, 0, 0, 0, 32], &[p(64, 0, 8), p(72, 8, 4), p(76, 12, 4), p(80, 16, 4), p(84, 20, 4), p(88, 24, 4), p(92, 28, 4)], (Some(32), None), [1, 1, 0], &[(128, 0x4), (132, 0x8), (136, 0xc)], texel::sample_image),
        ("fill", 256, 0x7bb55ad1fecedd64, [2, 1, 0, 0, 16], &[p(0, 0, 8), p(8, 8, 4), p(12, 12, 4)], (None, None), [0, 0, 0], &[], stock::fill),
        ("copy", 256, 0xf4b878610cdf89a7, [4, 1, 0, 0, 20], &[p(0, 0, 8), p(8, 8, 8), p(16, 16, 4)], (None, None), [0, 0, 0], &[], stock::copy),
        ("add", 384, 0x3f77488324b344da, [5, 1, 0, 0, 28], &[p(0, 0, 8), p(8, 8, 8), p(16, 16, 8), p(24, 24, 4)], (None, None), [0, 0, 0], &[], stock::add),
        ("scale", 256, 0xfc1aa9c1a2232769, [3, 1, 0, 0, 28], &[p(0, 0, 4), p(4, 4, 4), p(8, 8, 8), p(16, 16, 8), p(24, 24, 4)], (None, None), [0, 0, 0], &[], stock::scale),
        ("step", 256, 0xbebc16c1bd221720, [3, 1, 0, 0, 20], &[p(0, 0, 8), p(8, 8, 4), p(12, 12, 4), p(16, 16, 4)], (None, None), [0, 0, 0], &[], stock::step),
        ("reduce", 640, 0x149ea7b1ddfcb80c, [7, 1, 0, 0, 20], &[p(0, 0, 8), p(8, 8, 8), p(16, 16, 4)], (None, None), [0, 0, 0], &[], stock::reduce),
        ("spin", 256, 0x73a3cb667957b04c, [3, 1, 0, 0, 16], &[p(0, 0, 8), p(8, 8, 4), p(12, 12, 4)], (None, None), [0, 0, 0], &[(64, 0x19660d), (68, 0x3c6ef35f)], stock::spin),
        ("read_image", 512, 0x4e9ebaf92cb4087a, [8, 1, 0, 0, 16], &[p(0, 0, 8), p(8, 8, 4), p(12, 12, 4)], (None, None), [1, 1, 0], &[], texel::read_image),
        ("write_image", 512, 0x44c4932e3c1ab70d, [8, 1, 0, 0, 16], &[p(0, 0, 8), p(8, 8, 4), p(12, 12, 4)], (None, None), [0, 0, 1], &[], texel::write_image),
        ("copy_image", 128, 0x9209c5ff901a3b6b, [3, 0, 0, 0, 8], &[p(0, 0, 4), p(4, 4, 4)], (None, None), [1, 1, 1], &[], texel::copy_image),
    ]),
];
