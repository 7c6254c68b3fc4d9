//! Scratch sizes, COMPUTE_TMPRING_SIZE, and queue descriptors.

use hcq_amd::aql::QueueDescriptor;
use hcq_amd::aql::descriptor::Units;
use hcq_amd::scratch::{Need, Scratch, Topology};
use zerocopy::IntoBytes;

use super::amd;
use super::json::{self, Json, list, number, number32};

/// One case of the scratch file.
pub(crate) fn run(case: &Json) {
    let (name, i, want) = (json::name(case), &case["inputs"], &case["expected"]);
    let topology = Topology {
        xccs: number32(&i["xccs"]),
        ses_per_xcc: number32(&i["se_cnt_per_xcc"]),
        cus_per_xcc: number32(&i["cu_cnt_per_xcc"]),
        slots_per_cu: number32(&i["max_slots_scratch_cu"]),
    };
    let need = Need::new(
        amd::chip(&i["arch"]),
        &topology,
        number32(&i["private_segment_size"]),
    );
    let need = need.unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(need.bytes, number(&want["scratch_size"]), "{name}");
    assert_eq!(need.tmpring_size, number32(&want["tmpring_size"]), "{name}");
    // And back.
    assert_eq!(
        need.tmpring_size & 0xfff,
        number32(&want["waves"]),
        "{name}"
    );
    assert_eq!(
        need.tmpring_size >> 12,
        number32(&want["wavesize"]),
        "{name}"
    );
    assert!(
        need.lane_bytes >= number32(&i["private_segment_size"]),
        "{name}"
    );
}

/// One case of the file of queue descriptors.
pub(crate) fn descriptor(case: &Json) {
    let (name, i) = (json::name(case), &case["inputs"]);
    let s = &i["scratch"];
    let need = Need {
        bytes: number(&s["scratch_size"]),
        lane_bytes: number32(&s["max_private_segment_size"]),
        tmpring_size: number32(&s["tmpring_size"]),
    };
    let scratch = Scratch::new(number(&s["scratch_addr"]), &need).expect("scratch memory");
    let units = Units {
        xccs: number32(&i["xccs"]) as u8,
        cus_per_xcc: number32(&i["cu_cnt_per_xcc"]),
        waves_per_cu: number32(&i["waves_per_cu"]),
    };
    let descriptor = QueueDescriptor::new(amd::chip(&i["arch"]), units, &scratch);
    let descriptor = descriptor.unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(
        QueueDescriptor::READ_DISPATCH_ID as u64,
        number(&case["expected"]["rptr_offset"])
    );
    assert_eq!(
        QueueDescriptor::WRITE_DISPATCH_ID as u64,
        number(&case["expected"]["wptr_offset"])
    );
    let [run] = list(&case["expected_memory"]) else {
        panic!("{name}: one run of bytes");
    };
    let want = json::bytes(&run["bytes"]);
    assert_eq!(descriptor.as_bytes(), want, "{name}");
    let back: QueueDescriptor = zerocopy::FromBytes::read_from_bytes(&want).expect("256 bytes");
    assert_eq!(back, descriptor, "{name}");
}
