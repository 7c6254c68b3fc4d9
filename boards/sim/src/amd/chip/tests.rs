//! The table of chips.

use super::*;

#[test]
fn save_areas_are_those_that_the_kernel_tells() {
    // `cwsr_size` and `ctl_stack_size` of a Radeon AI PRO R9700, which is a gfx1201 with 64 compute units.
    let area = find("gfx1201").expect("known").save_area();
    assert_eq!((area.bytes, area.control_stack), (30_699_520, 28_672));
    // 38 compute units in an XCC: 1520 waves of 8 bytes.
    let area = find("gfx942").expect("known").save_area();
    assert_eq!(area.control_stack, 12_288);
    assert_eq!(
        area.bytes,
        12_288 + 38 * (0x8_0000 + 0x4000 + 0x1_0000 + 0x1000)
    );
    assert_eq!(area.debug, 1520 * 32);
}

#[test]
fn the_kernels_own_copy_queues_are_not_for_processes() {
    assert_eq!(
        find("gfx1100").expect("known").copy_queue_bits(),
        (0xFFF0, 0)
    );
    let (host, links) = find("gfx942").expect("known").copy_queue_bits();
    assert_eq!((host, links), (0xFFFF, (1 << 112) - 1));
    assert_eq!(find("gfx1151").expect("known").copy_queue_bits().0, 0xFC);
}

#[test]
fn counts_fit_each_other() {
    for chip in CHIPS {
        assert_eq!(chip.units % chip.xccs, 0, "{}", chip.name);
        assert!(chip.xcc_units() <= chip.engines * chip.arrays * chip.array_units);
        assert!(chip.blocks.iter().any(|block| block.id == 11));
    }
}
