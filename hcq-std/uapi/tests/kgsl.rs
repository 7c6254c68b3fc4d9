//! The structs, requests and numbers of [`hcq_uapi::kgsl`] are those of C, by recorded facts: the header is Qualcomm's and in no
//! package of a distribution.
//!
//! Both directions: what is here was recorded with the same layout, and what was recorded is here or named as left out.

#![allow(missing_docs)]

use std::collections::BTreeMap;

use hcq_uapi::kgsl::{self, CacheMode, ContextFlags, MemFlags};
use serde_json::Value;

/// The struct that C has no name of its own for, and the one that it uses.
const SET: (&str, &str) = ("kgsl_device_setproperty", "kgsl_device_getproperty");

/// Whether a name of C belongs to what [`kgsl`] says it leaves out.
fn left_out(name: &str) -> bool {
    const PREFIXES: &[&str] = &[
        // Replaced by newer requests.
        "IOCTL_KGSL_RINGBUFFER_ISSUEIBCMDS",
        "kgsl_ringbuffer_issueibcmds",
        "IOCTL_KGSL_CMDSTREAM_FREEMEMONTIMESTAMP",
        "kgsl_cmdstream_freememontimestamp",
        "IOCTL_KGSL_SUBMIT_COMMANDS",
        "kgsl_submit_commands",
        "IOCTL_KGSL_MAP_USER_MEM",
        "kgsl_map_user_mem",
        "IOCTL_KGSL_SHAREDMEM_",
        "kgsl_sharedmem_",
        "IOCTL_KGSL_GPUMEM_ALLOC",
        "kgsl_gpumem_alloc",
        "IOCTL_KGSL_GPUMEM_FREE_ID",
        "kgsl_gpumem_free_id",
        "IOCTL_KGSL_GPUMEM_GET_INFO",
        "kgsl_gpumem_get_info",
        "IOCTL_KGSL_TIMESTAMP_EVENT_OLD",
        "KGSL_MEMFLAGS_USERMEM_PMEM",
        "KGSL_MEMFLAGS_USERMEM_ASHMEM",
        // Drawing and the emulator.
        "IOCTL_KGSL_DRAWCTXT_BIND_GMEM_SHADOW",
        "kgsl_bind_gmem_shadow",
        "IOCTL_KGSL_DRAWCTXT_SET_BIN_BASE_OFFSET",
        "kgsl_drawctxt_set_bin_base_offset",
        "IOCTL_KGSL_CMDWINDOW_WRITE",
        "kgsl_cmdwindow_write",
        "IOCTL_KGSL_CFF_",
        "kgsl_cff_",
        // Whole parts of the interface.
        "IOCTL_KGSL_SPARSE_",
        "IOCTL_KGSL_GPU_SPARSE_COMMAND",
        "kgsl_sparse_",
        "kgsl_gpu_sparse_command",
        "IOCTL_KGSL_GPUMEM_BIND_RANGES",
        "kgsl_gpumem_bind_ranges",
        "IOCTL_KGSL_TIMELINE_",
        "kgsl_timeline_",
        "IOCTL_KGSL_SYNCSOURCE_",
        "kgsl_syncsource_",
        "IOCTL_KGSL_RECURRING_COMMAND",
        "kgsl_recurring_command",
        "IOCTL_KGSL_GPU_AUX_COMMAND",
        "kgsl_gpu_aux_command",
        "IOCTL_KGSL_PERFCOUNTER_",
        "kgsl_perfcounter_",
        "IOCTL_KGSL_PREEMPTIONCOUNTER_QUERY",
        "kgsl_preemption_counters_query",
        // Types of memory for drawing, and properties that compute does not ask for.
        "KGSL_MEMTYPE_",
        "KGSL_PROP_",
    ];
    const EXACT: &[&str] = &[
        "IOCTL_KGSL_DEVICE_WAITTIMESTAMP",
        "kgsl_device_waittimestamp",
        "IOCTL_KGSL_CMDSTREAM_READTIMESTAMP",
        "IOCTL_KGSL_CMDSTREAM_READTIMESTAMP_OLD",
        "kgsl_cmdstream_readtimestamp",
    ];
    EXACT.contains(&name) || PREFIXES.iter().any(|p| name.starts_with(p))
}

struct Facts {
    structs: Vec<Value>,
    numbers: BTreeMap<String, u64>,
}

impl Facts {
    fn read() -> Self {
        let mut all = Self {
            structs: Vec::new(),
            numbers: BTreeMap::new(),
        };
        for file in ["abi-kgsl.json", "abi-kgsl-more.json"] {
            let path = format!("{}/../../tests/vectors/{file}", env!("CARGO_MANIFEST_DIR"));
            let facts: Value =
                serde_json::from_slice(&std::fs::read(path).expect("recorded facts"))
                    .expect("JSON");
            all.structs
                .extend(facts["structs"].as_array().expect("a list").iter().cloned());
            let constants = facts["constants"].as_object().expect("a table");
            all.numbers
                .extend(constants.iter().map(|(n, v)| (n.clone(), number(v))));
            for request in facts["ioctls"].as_array().expect("a list") {
                let name = request["name"].as_str().expect("a name").to_owned();
                all.numbers.insert(name, number(&request["request"]));
            }
        }
        all
    }
}

fn number(value: &Value) -> u64 {
    let text = value.as_str().expect("a number in text");
    u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("a hexadecimal number")
}

#[test]
fn recorded_numbers_are_ours() {
    let facts = Facts::read();
    let ours: BTreeMap<&str, u64> = kgsl::constants()
        .map(|c| (c.name, c.value))
        .chain(
            kgsl::structs()
                .filter_map(|s| s.request)
                .map(|r| (r.name, u64::from(r.number))),
        )
        .collect();
    for (name, value) in &facts.numbers {
        match ours.get(name.as_str()) {
            Some(have) => assert_eq!(have, value, "{name}"),
            None => assert!(left_out(name), "{name} = {value:#x} is missing"),
        }
    }
    for name in ours.keys() {
        assert!(facts.numbers.contains_key(*name), "{name} is not recorded");
    }
    assert!(ours.len() > 130, "only {}", ours.len());
}

#[test]
fn recorded_structs_are_ours() {
    let facts = Facts::read();
    for recorded in &facts.structs {
        let name = recorded["name"].as_str().expect("a name");
        let Some(ours) = kgsl::structs().find(|s| s.name == name) else {
            assert!(left_out(name), "struct {name} is missing");
            continue;
        };
        assert_eq!(
            (ours.size as u64, ours.align as u64),
            (number(&recorded["size"]), number(&recorded["align"])),
            "{name}"
        );
        let c: Vec<(&str, u64)> = recorded["fields"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|f| (f["name"].as_str().expect("a name"), number(&f["offset"])))
            .collect();
        let rust: Vec<(&str, u64)> = ours
            .fields
            .iter()
            .filter(|f| !f.name.starts_with("hole"))
            .map(|f| (f.name, f.offset as u64))
            .collect();
        assert_eq!(rust, c, "{name}");
    }
    for s in kgsl::structs() {
        let c = if s.name == SET.0 { SET.1 } else { s.name };
        assert!(
            facts.structs.iter().any(|r| r["name"] == c),
            "{c} is not recorded"
        );
        let twin = kgsl::structs().find(|t| t.name == c).expect("here");
        assert_eq!((s.size, s.fields), (twin.size, twin.fields), "{}", s.name);
    }
}

#[test]
fn names_are_unique_and_fields_fill_their_struct() {
    let mut names: Vec<&str> = kgsl::structs().map(|s| s.name).collect();
    names.extend(kgsl::constants().map(|c| c.name));
    names.extend(kgsl::structs().filter_map(|s| s.request).map(|r| r.name));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "a name stands for two things");
    let mut numbers = Vec::new();
    for s in kgsl::structs() {
        let mut end = 0;
        for f in s.fields {
            assert_eq!(f.offset, end, "{}.{}: a hole before it", s.name, f.name);
            end = f.offset + f.size;
        }
        assert_eq!(end, s.size, "{}: a hole at its end", s.name);
        if let Some(request) = s.request {
            assert_eq!(hcq_uapi::ioctl::size(request.number), s.size);
            assert_eq!(hcq_uapi::ioctl::letter(request.number), kgsl::KGSL_IOC_TYPE);
            numbers.push(hcq_uapi::ioctl::number(request.number));
        }
    }
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(
        numbers.len(),
        count,
        "a kernel tells requests apart by number"
    );
}

#[test]
fn numbers_inside_flags() {
    let flags = (ContextFlags::PREAMBLE | ContextFlags::PWR_CONSTRAINT)
        .with_type(kgsl::KGSL_CONTEXT_TYPE_CL)
        .with_priority(8)
        .with_preempt_style(kgsl::KGSL_CONTEXT_PREEMPT_STYLE_FINEGRAIN);
    assert_eq!(flags.bits(), 0x0420_8810);
    let again = flags
        .with_type(0)
        .with_priority(0x1f)
        .with_preempt_style(0xff);
    assert_eq!(again.bits(), 0x0e00_f810, "cut off, and replaced");

    for (mode, bits) in [
        (CacheMode::WriteCombine, 0),
        (CacheMode::Uncached, 0x0400_0000),
        (CacheMode::WriteThrough, 0x0800_0000),
        (CacheMode::WriteBack, 0x0c00_0000),
    ] {
        let flags = MemFlags::cache_mode(mode) | MemFlags::SECURE;
        assert_eq!(flags.bits(), bits | 8);
        assert_eq!(flags.caches(), mode);
    }
    let flags = MemFlags::align(21) | MemFlags::kind(kgsl::KGSL_MEMTYPE_COMMAND);
    assert_eq!(flags.bits(), 0x15_1000);
    assert_eq!(
        (flags.alignment(), MemFlags::kind(0x1ff).bits()),
        (21, 0xff00)
    );
    assert_eq!(
        format!("{:?}", MemFlags::USE_CPU_MAP | MemFlags::align(12)),
        "MemFlags(USE_CPU_MAP | 0xc0000)"
    );
}

#[test]
fn timestamps_roll_over() {
    use kgsl::timestamp_passed;
    let mut now = u32::MAX - 3;
    for _ in 0..8 {
        assert!(timestamp_passed(now, now));
        assert!(timestamp_passed(now, now.wrapping_sub(1)));
        assert!(!timestamp_passed(now, now.wrapping_add(1)));
        assert!(timestamp_passed(now, now.wrapping_sub(0x7fff_ffff)));
        assert!(!timestamp_passed(now, now.wrapping_add(0x7fff_ffff)));
        now = now.wrapping_add(1);
    }
}

#[test]
fn an_object_is_mapped_at_its_id_in_pages() {
    assert_eq!(kgsl::mmap_offset(1, 12), Some(0x1000));
    assert_eq!(kgsl::mmap_offset(u32::MAX, 12), Some(0xfff_ffff_f000));
    assert_eq!(kgsl::mmap_offset(3, 16), Some(0x3_0000));
    assert_eq!(kgsl::mmap_offset(1, 33), None);
}
