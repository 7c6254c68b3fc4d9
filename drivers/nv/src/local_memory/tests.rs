use super::*;
use hcq_nostd::value::Misfit;

const GA102: Topology = Topology {
    gpcs: 7,
    tpcs_per_gpc: 6,
    sms_per_tpc: 2,
    warps_per_sm: 48,
};

fn chip() -> &'static Chip {
    Chip::named("ga10x").expect("a chip")
}

#[test]
fn sizes_are_rounded_up_per_thread_processor_and_in_all() {
    let need = Need::new(&GA102, 1).expect("a size");
    assert_eq!((need.thread_bytes, need.tpc_bytes), (32, 0x1_8000));
    assert_eq!(need.bytes, 0x40_0000);
    let none = Need::new(&GA102, 0).expect("a size");
    assert_eq!((none.thread_bytes, none.bytes), (0, 0));
}

#[test]
fn what_cannot_be_is_refused() {
    let empty = Topology { gpcs: 0, ..GA102 };
    assert_eq!(Need::new(&empty, 64), Err(LocalMemoryError::Topology));
    let bytes = MAX_THREAD;
    assert_eq!(
        Need::new(&GA102, bytes),
        Err(LocalMemoryError::Thread { bytes })
    );
    assert_eq!(
        Need::new(&GA102, u32::MAX),
        Err(LocalMemoryError::Thread { bytes: u32::MAX })
    );
    let huge = Topology {
        gpcs: u32::MAX,
        tpcs_per_gpc: u32::MAX,
        sms_per_tpc: u32::MAX,
        warps_per_sm: u32::MAX,
    };
    assert_eq!(Need::new(&huge, 64), Err(LocalMemoryError::Topology));
    let wide = Topology {
        warps_per_sm: 1 << 20,
        ..GA102
    };
    assert!(matches!(
        Need::new(&wide, 1 << 20),
        Err(LocalMemoryError::Memory(Misfit::TooLarge { bits: 40, .. }))
    ));
}

#[test]
fn memory_lies_where_its_methods_reach() {
    let need = Need::new(&GA102, 0x240).expect("a size");
    assert!(LocalMemory::new(chip(), 0x2_0000, &need).is_ok());
    assert!(LocalMemory::new(chip(), 0x2_0100, &need).is_err());
    let end = 1u64 << 49;
    assert!(LocalMemory::new(chip(), end, &need).is_err());
    let last = (end - need.bytes) / TOTAL_UNIT * TOTAL_UNIT;
    assert!(LocalMemory::new(chip(), last, &need).is_ok());
    assert!(LocalMemory::new(chip(), last + TOTAL_UNIT, &need).is_err());
}
