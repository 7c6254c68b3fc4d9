use super::*;
use crate::mem::Region;
use crate::patch::{Derived, Patcher, RegionId, Site};
use crate::testing::cases;
use crate::value::{Affine, Misfit};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const FILL: u64 = 0xa5a5_a5a5_a5a5_a5a5;

/// Runs `write` over a block of `len` bytes and a list with room; the block's bytes, and sites filed.
fn with_block<T>(
    len: usize,
    write: impl FnOnce(&mut Block<'_, '_>, &mut PatchList<'_>) -> T,
) -> (T, Vec<u8>, usize) {
    let (mut sites, mut derived) = (vec![Site::EMPTY; 64], [Derived::EMPTY; 2]);
    let mut list = PatchList::new(&mut sites, &mut derived);
    let mut memory = vec![FILL; len.div_ceil(8) + 1];
    let mut region = Region::from_words(&mut memory, 0);
    let mut block = Block::new(&mut region, RegionId(0), 0, len).expect("inside");
    let result = write(&mut block, &mut list);
    let used = list.used().sites;
    let bytes = zerocopy::IntoBytes::as_bytes(memory.as_slice()).to_vec();
    assert!(
        bytes[len..].iter().all(|&b| b == 0xa5),
        "stored outside the block"
    );
    (result, bytes[..len].to_vec(), used)
}

#[test]
fn arguments_take_their_natural_size() {
    for (arg, size, bits) in [
        (Arg::from(-1i8), 1, 0xff),
        (Arg::from(0xfeu8), 1, 0xfe),
        (Arg::from(-2i16), 2, 0xfffe),
        (Arg::from(0xbeefu16), 2, 0xbeef),
        (Arg::from(i32::MIN), 4, 1 << 31),
        (Arg::from(7u32), 4, 7),
        (Arg::from(-1i64), 8, u64::MAX),
        (Arg::from(1u64 << 63), 8, 1 << 63),
        (Arg::from(1.0f32), 4, 0x3f80_0000),
        (Arg::from(-0.0f64), 8, 1 << 63),
    ] {
        assert_eq!(
            arg,
            Arg::Scalar {
                value: Value::Imm(bits),
                size
            }
        );
        assert_eq!(
            (arg.size(), arg.align()),
            (usize::from(size), usize::from(size))
        );
    }
    assert_eq!(
        (
            Arg::Buffer(0u64.into()).size(),
            Arg::Bytes(&[1, 2, 3]).size(),
            Arg::Bytes(&[]).align()
        ),
        (8, 3, 1)
    );
}

#[test]
fn a_layout_takes_its_own_arguments_only() {
    let slots = [
        ArgSlot::buffer(0),
        ArgSlot::scalar(8, 4),
        ArgSlot {
            offset: 12,
            size: 3,
            kind: ArgKind::Bytes,
        },
        ArgSlot {
            offset: 16,
            size: 8,
            kind: ArgKind::ConstBuffer,
        },
        ArgSlot::scalar(24, 8),
    ];
    let layout = ArgLayout {
        slots: &slots,
        size: 32,
        align: 8,
    };
    let v = |n| Value::from(Var::new(n));
    let good = [
        Arg::Buffer(v(0)),
        Arg::from(1.5f32),
        Arg::Bytes(b"abc"),
        Arg::Buffer(9u64.into()),
        Arg::var(Var::new(1), 8),
    ];
    let write = |args: &[Arg<'_>], len| {
        with_block(len, |b, l| {
            let vars = (l.var().is_ok(), l.var().is_ok());
            (layout.write(args, b, l), vars).0
        })
    };
    let (result, bytes, sites) = write(&good, 32);
    assert_eq!((result, sites), (Ok(()), 2));
    assert_eq!(
        bytes[8..24],
        [
            0, 0, 0xc0, 0x3f, b'a', b'b', b'c', 0xa5, 9, 0, 0, 0, 0, 0, 0, 0
        ]
    );
    assert_eq!(bytes[..8], bytes[24..]);

    for n in 0..5 {
        let (result, _, sites) = write(&good[..n], 32);
        assert_eq!(
            (result, sites),
            (Err(RecordError::ArgumentCount { need: 5, have: n }), 0)
        );
    }
    let (result, bytes, sites) = write(&good, 31);
    assert_eq!(
        (result, sites),
        (Err(RecordError::KernargsTooSmall { need: 32, have: 31 }), 0)
    );
    assert!(bytes.iter().all(|&b| b == 0xa5));
    // One argument of another kind or size at each place.
    for (index, bad) in [
        (0, Arg::from(1u64)),
        (0, Arg::Bytes(&[0; 8])),
        (1, Arg::from(1u64)),
        (1, Arg::from(1u16)),
        (1, Arg::Bytes(&[0; 4])),
        (2, Arg::Bytes(&[0; 4])),
        (2, Arg::from(1u32)),
        (3, Arg::from(1u64)),
        (4, Arg::Buffer(v(0))),
        (4, Arg::var(Var::new(1), 4)),
    ] {
        let mut args = good;
        args[usize::from(index)] = bad;
        let (result, _, sites) = write(&args, 32);
        assert_eq!(
            (result, sites),
            (Err(RecordError::ArgumentKind { index }), 0),
            "{bad:?}"
        );
    }
    // A number that its size cannot hold, after arguments whose sites must go again.
    let mut args = good;
    args[1] = Arg::Scalar {
        value: Value::Imm(1 << 32),
        size: 4,
    };
    let misfit = Misfit::TooLarge {
        value: 1 << 32,
        bits: 32,
    };
    let (result, _, sites) = write(&args, 32);
    assert_eq!(
        (result, sites),
        (
            Err(RecordError::Misfit {
                operand: Operand::Argument(1),
                misfit
            }),
            0
        )
    );
}

#[test]
fn a_layout_from_a_hostile_file_stays_in_the_block() {
    for slot in [
        ArgSlot::scalar(u32::MAX, 4),
        ArgSlot::scalar(13, 4),
        ArgSlot::buffer(9),
    ] {
        let slots = [ArgSlot::scalar(0, 4), slot];
        let layout = ArgLayout {
            slots: &slots,
            size: 4,
            align: 1,
        };
        let arg = if slot.kind == ArgKind::Buffer {
            Arg::Buffer(1u64.into())
        } else {
            Arg::from(1u32)
        };
        let (result, ..) = with_block(16, |b, l| layout.write(&[Arg::from(5u32), arg], b, l));
        assert!(
            matches!(result, Err(RecordError::KernargsTooSmall { have: 16, .. })),
            "{result:?}"
        );
    }
    let odd = ArgLayout {
        slots: &[ArgSlot::scalar(0, 3)],
        size: 3,
        align: 1,
    };
    let arg = Arg::Scalar {
        value: Value::Imm(1),
        size: 3,
    };
    let (result, ..) = with_block(16, |b, l| odd.write(&[arg], b, l));
    assert_eq!(result, Err(RecordError::ArgumentKind { index: 0 }));
}

#[test]
fn more_arguments_than_an_index_counts_are_only_many() {
    const N: usize = if cfg!(miri) { 300 } else { 70_000 };
    let args = vec![Arg::from(7u8); N];
    let slots: Vec<ArgSlot> = (0..N as u32).map(|i| ArgSlot::scalar(i, 1)).collect();
    let layout = ArgLayout {
        slots: &slots,
        size: N as u32,
        align: 1,
    };
    let (result, bytes, _) = with_block(N, |b, l| layout.write(&args, b, l));
    assert_eq!(result, Ok(()));
    let (packed, same, _) = with_block(N, |b, l| write_packed(&args, b, l));
    assert_eq!((packed, same == bytes), (Ok(N), true));
    let mut bad = args;
    bad[N - 1] = Arg::from(7u16);
    let (result, ..) = with_block(N, |b, l| layout.write(&bad, b, l));
    let index = u16::try_from(N - 1).unwrap_or(u16::MAX);
    assert_eq!(result, Err(RecordError::ArgumentKind { index }));
}

#[test]
fn packed_arguments_need_all_their_bytes() {
    let args = [Arg::from(1u8), Arg::from(2u64), Arg::from(3u8)];
    assert_eq!(packed_size(&args), 17);
    let (result, bytes, _) = with_block(16, |b, l| write_packed(&args, b, l));
    assert_eq!(
        result,
        Err(RecordError::KernargsTooSmall { need: 17, have: 16 })
    );
    assert!(bytes.iter().all(|&b| b == 0xa5), "nothing was stored");
    let (result, ..) = with_block(17, |b, l| write_packed(&args, b, l));
    assert_eq!(result, Ok(17));
    let odd = [
        Arg::var(Var::new(0), 4),
        Arg::Scalar {
            value: Value::Imm(1),
            size: 0,
        },
    ];
    let (result, _, sites) = with_block(17, |b, l| write_packed(&odd, b, l));
    assert_eq!(
        (result, sites),
        (Err(RecordError::ArgumentKind { index: 1 }), 0)
    );
    assert_eq!(packed_size(&[]), 0);
}

#[derive(Clone, Debug)]
enum Spec {
    Buffer(u64),
    Scalar(u8, u64),
    Bytes(Vec<u8>),
}

fn spec() -> impl Strategy<Value = Spec> {
    prop_oneof![
        any::<u64>().prop_map(Spec::Buffer),
        (0u32..4, any::<u64>())
            .prop_map(|(log2, v)| Spec::Scalar(1 << log2, v >> (64 - (8 << log2)))),
        prop::collection::vec(any::<u8>(), 0..12).prop_map(Spec::Bytes),
    ]
}

#[test]
fn a_narrow_argument_behind_wide_ones_is_not_taken_for_one() {
    let number = ArgSlot {
        offset: 8,
        size: 4,
        kind: ArgKind::Scalar,
    };
    let slots = [ArgSlot::buffer(0), number];
    let layout = ArgLayout {
        slots: &slots,
        size: 16,
        align: 8,
    };
    for value in [Arg::from(7u64), Arg::from(7u32)] {
        let args = [Arg::Buffer(Value::Imm(1)), value];
        let by_layout = with_block(16, |b, l| layout.write(&args, b, l));
        let prepared = PreparedLayout::new(layout);
        assert_eq!(
            with_block(16, |b, l| prepared.write(&args, b, l)).0,
            by_layout.0
        );
        assert_eq!(by_layout.0.is_ok(), value.size() == 4);
    }
}

/// What takes the short way: 64-bit arguments one after the other.
fn wide() -> impl Strategy<Value = (ArgKind, u32)> {
    let kinds = [ArgKind::Buffer, ArgKind::ConstBuffer, ArgKind::Scalar];
    prop::sample::select(kinds.to_vec()).prop_map(|kind| (kind, 8))
}

/// And what does not.
fn slot() -> impl Strategy<Value = (ArgKind, u32)> {
    prop_oneof![
        8 => wide(),
        1 => (Just(ArgKind::Scalar), prop_oneof![Just(4u32), Just(1)]),
        1 => (Just(ArgKind::Bytes), 0u32..9),
    ]
}

proptest! {
    #![proptest_config(cases(500))]

    /// What is written, what is filed and what is refused are the same.
    #[test]
    fn a_prepared_layout_is_the_layout(
        slots in prop_oneof![
            2 => prop::collection::vec(wide(), 0..5),
            1 => prop::collection::vec(wide(), 0..70),
            1 => prop::collection::vec(slot(), 0..5),
            1 => prop::collection::vec(slot(), 0..70),
        ],
        first in prop_oneof![Just(0u32), 0u32..64, Just(u32::MAX - 16)],
        gap in prop_oneof![8 => Just(None), 1 => (0usize..70).prop_map(Some)],
        numbers in prop::collection::vec(any::<u64>(), 70),
        change in prop_oneof![3 => Just(None), 2 => (0usize..70, 0u8..4).prop_map(Some)],
        short_by in prop_oneof![4 => Just(0usize), 1 => 1usize..16],
        behind in prop_oneof![2 => Just(0u32), 1 => 1u32..16],
    ) {
        let (mut offset, mut placed) = (first, vec![]);
        for (n, (kind, size)) in slots.into_iter().enumerate() {
            offset = offset.saturating_add(if gap == Some(n) { 8 } else { 0 });
            placed.push(ArgSlot { offset, size, kind });
            offset = offset.saturating_add(size);
        }
        let size = if offset > 1 << 16 { 64 } else { offset + behind };
        let layout = ArgLayout { slots: &placed, size, align: 8 };
        let blob = [0x5a; 9];
        let mut args: Vec<Arg<'_>> = placed
            .iter()
            .zip(&numbers)
            .map(|(slot, number)| match slot.kind {
                ArgKind::Scalar => {
                    let value = Value::Imm(number >> (64 - 8 * slot.size));
                    Arg::Scalar { value, size: slot.size as u8 }
                }
                ArgKind::Bytes => Arg::Bytes(&blob[..slot.size as usize]),
                _ => Arg::Buffer(Value::Imm(*number)),
            })
            .collect();
        if let Some((n, how)) = change {
            // One that is there, mostly, and else one more.
            let n = if n < 60 { n % args.len().max(1) } else { n };
            match (args.get_mut(n), how) {
                (Some(arg @ Arg::Buffer(_)), 0) => *arg = Arg::Buffer(Var::new(0).into()),
                (Some(arg), 1) => *arg = Arg::from(7u64),
                (Some(arg), 2) => *arg = Arg::Bytes(&blob[..3]),
                (Some(arg), _) => *arg = Arg::Buffer(Value::Imm(7)),
                (None, _) => args.push(Arg::from(7u64)),
            }
        }
        let len = (size as usize).saturating_sub(short_by);
        let by_layout = with_block(len, |b, l| (l.var(), layout.write(&args, b, l)));
        let prepared = PreparedLayout::new(layout);
        let by_prepared = with_block(len, |b, l| (l.var(), prepared.write(&args, b, l)));
        if by_layout.0.1.is_ok() {
            prop_assert_eq!(by_layout, by_prepared);
        } else {
            // The block's bytes may have changed.
            prop_assert_eq!((by_layout.0, by_layout.2), (by_prepared.0, by_prepared.2));
        }
    }

    /// Written at once, or written with variables and patched: the bytes of a C struct.
    #[test]
    fn packed_arguments_are_a_c_struct(specs in prop::collection::vec((spec(), any::<bool>()), 0..20)) {
        let (mut want, mut align) = (vec![], 1);
        for (spec, _) in &specs {
            let (bytes, natural) = match spec {
                Spec::Buffer(v) => (v.to_le_bytes().to_vec(), 8),
                Spec::Scalar(size, v) => (v.to_le_bytes()[..usize::from(*size)].to_vec(), usize::from(*size)),
                Spec::Bytes(b) => (b.clone(), 1),
            };
            want.resize(want.len().next_multiple_of(natural), 0xa5);
            want.extend(bytes);
            align = align.max(natural);
        }
        let len = want.len();
        let value = |list: &mut PatchList<'_>, variable: bool, v: u64| {
            if variable { Value::from(Affine { var: list.var().expect("room"), scale: 1, add: 1 }) } else { Value::Imm(v) }
        };
        let (table, bytes, _) = with_block(len, |block, list| {
            let mut given = vec![];
            let args: Vec<Arg<'_>> = specs
                .iter()
                .map(|(spec, variable)| match spec {
                    Spec::Buffer(v) => {
                        given.extend(variable.then_some(*v));
                        Arg::Buffer(value(list, *variable, *v))
                    }
                    Spec::Scalar(size, v) => {
                        given.extend(variable.then_some(*v));
                        Arg::Scalar { value: value(list, *variable, *v), size: *size }
                    }
                    Spec::Bytes(b) => Arg::Bytes(b),
                })
                .collect();
            assert_eq!(packed_size(&args), len);
            assert_eq!(write_packed(&args, block, list), Ok(len));
            let sizes = [len as u64];
            let mut table = vec![0; list.table_words(&sizes).expect("complete")];
            list.build(&sizes, &mut table).expect("room");
            (table, given)
        });
        let (table, given) = table;
        let table = crate::patch::PatchTable::parse(zerocopy::IntoBytes::as_bytes(table.as_slice())).expect("built");
        let mut state = vec![0; table.state_words()];
        let mut patcher = Patcher::new(table, &mut state).expect("room");
        // The sites add one; 64-bit values wrap, narrower ones must not go below zero.
        let mut zero = false;
        for (n, v) in (0..).zip(&given) {
            zero |= *v == 0;
            patcher.set(Var::new(n), v.wrapping_sub(1)).expect("an input");
        }
        if zero {
            return Ok(());
        }
        let mut memory = vec![0u64; len.div_ceil(8)];
        let mut region = Region::from_words(&mut memory, 0);
        region.write(0, &bytes).expect("inside");
        prop_assert_eq!(patcher.apply(&mut [region]), Ok(given.len()));
        prop_assert_eq!(&zerocopy::IntoBytes::as_bytes(memory.as_slice())[..len], want.as_slice());
    }
}
