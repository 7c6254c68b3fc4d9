//! The structs, requests and numbers of [`hcq_uapi::kfd`] are those of C: of this machine's headers, and of recorded facts.
//!
//! Both directions: what is here is in C with the same layout, and what C has is here or named as left out.
//! `HCQ_UAPI_INCLUDE` is a folder to look for headers in first.

#![allow(missing_docs)]

mod header;
mod recorded;

use hcq_uapi::kfd;

/// Where C and Rust differ by necessity: a field of ours, and what stands at its place in C.
/// Unnamed unions and structs of C have a name here; words that were padding once have their newer name.
const STAND_INS: &[(&str, &str, &[&str])] = &[
    (
        "kfd_event_data",
        "data",
        &[
            "memory_exception_data",
            "hw_exception_data",
            "signal_event_data",
        ],
    ),
    (
        "kfd_ioctl_create_queue_args",
        "metadata_ring_size",
        &["metadata_ring_size", "pad"],
    ),
    (
        "kfd_ioctl_set_memory_policy_args",
        "misc_process_flag",
        &["misc_process_flag", "pad"],
    ),
];

/// Structs that only name what C has no name for.
const UNNAMED: &[&str] = &["kfd_event_data_union", "kfd_context_save_area_wave_state"];

/// Numbers that the headers' age decides.
const BY_AGE: &[&str] = &["KFD_IOCTL_MINOR_VERSION"];

/// Whether a name of C belongs to what [`kfd`] says it leaves out: checkpoints and the debugger.
fn left_out(name: &str) -> bool {
    const PREFIXES: &[&str] = &[
        "kfd_criu_",
        "kfd_ioctl_criu_",
        "kfd_dbg_",
        "kfd_ioctl_dbg_",
        "kfd_queue_snapshot_entry",
        "KFD_CRIU_",
        "KFD_DBG_",
        "KFD_EC_MASK",
        "KFD_EVENT_FMT_",
        "AMDKFD_IOC_CRIU_OP",
        "AMDKFD_IOC_DBG_",
        // Only in AMD's own kernel tree.
        "kfd_ioctl_cross_memory_copy",
        "kfd_ioctl_ipc_",
        "kfd_ioctl_pc_sample",
        "kfd_memory_range",
        "kfd_pc_sample_info",
        "kfd_ioctl_spm_",
        "AMDKFD_IOC_CROSS_MEMORY_COPY",
        "AMDKFD_IOC_IPC_",
        "AMDKFD_IOC_PC_SAMPLE",
        "AMDKFD_IOC_RLC_SPM",
        "KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS_BEST_EFFORT",
    ];
    PREFIXES.iter().any(|p| name.starts_with(p))
}

/// A value as C prints it: a signed `1 << 31` is sign-extended.
fn same(ours: u64, c: u64) -> bool {
    ours == c || c == ours as u32 as i32 as i64 as u64
}

/// The names of a field's place in C.
fn c_names(structure: &str, field: &'static str) -> Vec<&'static str> {
    let stand_in = STAND_INS
        .iter()
        .find(|(s, f, _)| (*s, *f) == (structure, field));
    stand_in.map_or(vec![field], |(.., names)| names.to_vec())
}

#[test]
fn names_are_unique_and_fields_fill_their_struct() {
    let mut names: Vec<&str> = kfd::structs().map(|s| s.name).collect();
    names.extend(kfd::constants().map(|c| c.name));
    names.extend(kfd::structs().filter_map(|s| s.request).map(|r| r.name));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "a name stands for two things");
    for s in kfd::structs() {
        let mut end = 0;
        for f in s.fields {
            assert_eq!(f.offset, end, "{}.{}: a hole before it", s.name, f.name);
            end = f.offset + f.size;
        }
        assert_eq!(end, s.size, "{}: a hole at its end", s.name);
        if let Some(request) = s.request {
            assert_eq!(
                hcq_uapi::ioctl::size(request.number),
                s.size,
                "{}",
                request.name
            );
            assert_eq!(
                hcq_uapi::ioctl::letter(request.number),
                b'K',
                "{}",
                request.name
            );
        }
    }
}

#[test]
fn event_data_is_a_union() {
    let memory = kfd::kfd_hsa_memory_exception_data {
        failure: kfd::kfd_memory_exception_failure {
            NotPresent: 1,
            ReadOnly: 2,
            NoExecute: 3,
            imprecise: 4,
        },
        va: 0x1122_3344_5566_7788,
        gpu_id: 5,
        ErrorType: 6,
    };
    let data = kfd::kfd_event_data_union::from(memory);
    assert_eq!(data.memory_exception_data(), memory);
    // The first two words are the first four numbers of the two other kinds as well.
    assert_eq!(data.hw_exception_data().memory_lost, 3);
    assert_eq!(data.signal_event_data().last_event_age, 0x2_0000_0001);
    let hw = kfd::kfd_hsa_hw_exception_data {
        reset_type: 1,
        reset_cause: 2,
        memory_lost: 3,
        gpu_id: 4,
    };
    assert_eq!(kfd::kfd_event_data_union::from(hw).hw_exception_data(), hw);
    let age = kfd::kfd_hsa_signal_event_data {
        last_event_age: u64::MAX,
    };
    assert_eq!(
        kfd::kfd_event_data_union::from(age).words,
        [u64::MAX, 0, 0, 0]
    );
}

#[test]
fn flags_have_names_and_keep_unknown_bits() {
    let flags = kfd::AllocMemFlags::VRAM | kfd::AllocMemFlags::WRITABLE;
    assert_eq!(format!("{flags:?}"), "AllocMemFlags(VRAM | WRITABLE)");
    let flags = kfd::AllocMemFlags::from_bits_retain(1 << 12 | 2);
    assert_eq!(format!("{flags:?}"), "AllocMemFlags(GTT | 0x1000)");
    assert_eq!(flags.bits(), 0x1002);
}

#[test]
fn masks_of_numbers() {
    use kfd::{kfd_ec_mask, kfd_smi_event_mask_from_index};
    assert_eq!(kfd_ec_mask(kfd::EC_QUEUE_WAVE_ABORT), 1);
    assert_eq!(kfd_ec_mask(kfd::EC_PROCESS_RUNTIME), 1 << 47);
    assert_eq!(
        (kfd_ec_mask(0), kfd_ec_mask(65), kfd_ec_mask(64)),
        (0, 0, 1 << 63)
    );
    assert_eq!(
        kfd_smi_event_mask_from_index(kfd::KFD_SMI_EVENT_ALL_PROCESS),
        1 << 63
    );
    assert_eq!(
        (
            kfd_smi_event_mask_from_index(0),
            kfd_smi_event_mask_from_index(u32::MAX)
        ),
        (0, 0)
    );
}

#[test]
fn offsets_to_map_have_room_for_every_gpu_and_no_more() {
    use kfd::{MmapType, mmap_offset, mmap_parts};
    for kind in [
        MmapType::Mmio,
        MmapType::ReservedMem,
        MmapType::Events,
        MmapType::Doorbell,
    ] {
        for (gpu, bytes) in [(0, 0), (0xffff, (1 << 46) - 1), (0x8001, 0x2000)] {
            let offset = mmap_offset(kind, gpu, bytes).expect("room");
            assert_eq!(mmap_parts(offset), (kind, gpu, bytes));
        }
    }
    assert_eq!(mmap_offset(MmapType::Mmio, 0x1_0000, 0), None);
    assert_eq!(mmap_offset(MmapType::Doorbell, 0, 1 << 46), None);
}
