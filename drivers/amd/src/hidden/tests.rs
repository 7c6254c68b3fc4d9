//! Every hidden argument of code objects, filled in from numbers and from variables.

use super::*;
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{Patcher, RegionId, Site};
use hcq_nostd::value::Misfit;

/// Offsets of version 5, behind the kernel's own arguments.
const V5: [(&str, u32, u8); 24] = [
    ("hidden_block_count_x", 0, 4),
    ("hidden_block_count_y", 4, 4),
    ("hidden_block_count_z", 8, 4),
    ("hidden_group_size_x", 12, 2),
    ("hidden_group_size_y", 14, 2),
    ("hidden_group_size_z", 16, 2),
    ("hidden_remainder_x", 18, 2),
    ("hidden_remainder_y", 20, 2),
    ("hidden_remainder_z", 22, 2),
    ("hidden_global_offset_x", 40, 8),
    ("hidden_global_offset_y", 48, 8),
    ("hidden_global_offset_z", 56, 8),
    ("hidden_grid_dims", 64, 2),
    ("hidden_printf_buffer", 72, 8),
    ("hidden_hostcall_buffer", 80, 8),
    ("hidden_multigrid_sync_arg", 88, 8),
    ("hidden_heap_v1", 96, 8),
    ("hidden_default_queue", 104, 8),
    ("hidden_completion_action", 112, 8),
    ("hidden_dynamic_lds_size", 120, 4),
    ("hidden_private_base", 192, 4),
    ("hidden_shared_base", 196, 4),
    ("hidden_queue_ptr", 200, 8),
    ("hidden_none", 208, 8),
];

fn slots() -> [HiddenSlot; 24] {
    V5.map(|(name, offset, size)| {
        let (kind, bytes) = HiddenKind::named(name).expect("a known kind");
        assert_eq!(bytes, u32::from(size), "{name}");
        HiddenSlot { kind, offset, size }
    })
}

const FILLER: u64 = u64::from_ne_bytes([0xa5; 8]);
const APERTURES: Apertures = Apertures {
    private_base_hi: Value::Imm(0x1_0000),
    shared_base_hi: Value::Imm(0x2_0000),
    queue: Value::Imm(0x7f00_0000_0040),
};

fn write_all(
    memory: &mut [u64],
    list: &mut PatchList<'_>,
    groups: [Value; 3],
    local: [Value; 3],
) -> Result<(), RecordError> {
    let mut region = Region::from_words(memory, 0);
    let len = region.len();
    let mut block = Block::new(&mut region, RegionId(0), 0, len).expect("all of it");
    write(
        &slots(),
        list,
        &mut block,
        (&groups, &local),
        0x1234,
        &APERTURES,
    )
}

fn numbers(n: [u64; 3]) -> [Value; 3] {
    n.map(Value::from)
}

#[test]
fn every_hidden_argument_is_filled_in() {
    let mut memory = [FILLER; 27];
    let sizes = (numbers([7, 8, 1]), numbers([64, 2, 1]));
    write_all(&mut memory, &mut PatchList::none(), sizes.0, sizes.1).expect("room");
    let filler16 = FILLER & 0xffff;
    assert_eq!(memory[..3], [8 << 32 | 7, 64 << 32 | 1 | 2 << 48, 1]);
    assert_eq!(memory[3..5], [FILLER; 2]);
    assert_eq!(memory[5..8], [0; 3], "global offsets");
    assert_eq!(memory[8] & 0xffff, 3, "dimensions");
    assert_eq!(memory[8] >> 16 & 0xffff, filler16);
    assert_eq!(memory[9..15], [0; 6], "services that are not there");
    assert_eq!(memory[15] & 0xffff_ffff, 0x1234);
    assert_eq!(memory[24..27], [0x2_0000_0001_0000, 0x7f00_0000_0040, 0]);
}

#[test]
fn sizes_known_at_launch_are_patched() {
    let mut sites = [Site::EMPTY; 8];
    let mut list = PatchList::new(&mut sites, &mut []);
    let (groups, local) = (list.var().expect("one"), list.var().expect("two"));
    let one = Value::Imm(1);
    let mut patched = [FILLER; 27];
    write_all(
        &mut patched,
        &mut list,
        [groups.into(), one, one],
        [one, local.into(), one],
    )
    .expect("room");
    let mut table = [0; 64];
    let table = list.build(&[27 * 8], &mut table).expect("a table");
    let mut state = [0; 8];
    let mut patcher = Patcher::new(table, &mut state).expect("room");
    for (g, l, fits) in [
        (9, 33, true),
        (u64::from(u32::MAX), 0xffff, true),
        (0, 1, false),
        (1, 0x1_0000, false),
    ] {
        patcher.set(groups, g).expect("a variable");
        patcher.set(local, l).expect("a variable");
        let mut regions = [Region::from_words(&mut patched, 0)];
        assert_eq!(patcher.apply(&mut regions).is_ok(), fits, "{g} {l}");
        if fits {
            let mut fresh = [FILLER; 27];
            write_all(
                &mut fresh,
                &mut PatchList::none(),
                numbers([g, 1, 1]),
                numbers([1, l, 1]),
            )
            .expect("room");
            assert_eq!(fresh, patched);
        }
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let mut memory = [FILLER; 27];
    let mut write = |groups, local| {
        write_all(
            &mut memory,
            &mut PatchList::none(),
            numbers(groups),
            numbers(local),
        )
    };
    let misfit = |operand, misfit| Err(RecordError::Misfit { operand, misfit });
    let zero = Misfit::TooSmall { value: 0, least: 1 };
    assert_eq!(write([1, 0, 1], [1; 3]), misfit(Operand::Groups(1), zero));
    let large = Misfit::TooLarge {
        value: 0x1_0000,
        bits: 16,
    };
    assert_eq!(
        write([1; 3], [1, 1, 0x1_0000]),
        misfit(Operand::Local(2), large)
    );
}

#[test]
fn other_names_are_no_hidden_arguments() {
    for name in [
        "",
        "_x",
        "by_value",
        "hidden_",
        "hidden_block_count_w",
        "hidden_block_count_",
        "hidden_grid_dims_x",
    ] {
        assert_eq!(HiddenKind::named(name), None, "{name}");
    }
}
