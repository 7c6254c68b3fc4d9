//! The structs, requests and numbers of [`hcq_uapi::nv`] are those of the recorded facts, in every branch that is known.
//!
//! Both directions: what is here is recorded with the same layout, and every recorded struct is here.

#![allow(missing_docs)]

use std::collections::BTreeSet;

use hcq_uapi::ioctl::{self, Argument};
use hcq_uapi::layout::Struct;
use hcq_uapi::nv::{self, ABIS, Abi, Params, Version};
use serde_json::Value;

fn facts() -> Value {
    let path = format!(
        "{}/../../tests/vectors/abi-nv.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read(path).expect("recorded facts");
    serde_json::from_slice(&text).expect("JSON")
}

fn number(value: &Value) -> usize {
    usize::try_from(value.as_u64().expect("a number")).expect("small")
}

/// The struct that a branch has under a C name, and its bytes.
fn ours(abi: &Abi, name: &str) -> (&'static Struct, usize) {
    fn len<T: Params>(abi: &Abi) -> usize {
        T::len(abi)
    }
    let older = match name {
        "NVOS46_PARAMETERS" if !abi.map_dma_flags2 => Some("NVOS46_PARAMETERS_575"),
        "NVOS47_PARAMETERS" if !abi.unmap_dma_size => Some("NVOS47_PARAMETERS_545"),
        "UVM_MAP_EXTERNAL_ALLOCATION_PARAMS" if abi.map_external_gpus == 32 => {
            Some("UVM_MAP_EXTERNAL_ALLOCATION_PARAMS_545")
        }
        "UVM_FREE_PARAMS" if abi.free_length => Some("UVM_FREE_PARAMS_580"),
        "UVM_UNREGISTER_CHANNEL_PARAMS" if abi.unregister_uuid => {
            Some("UVM_UNREGISTER_CHANNEL_PARAMS_580")
        }
        _ => None,
    };
    let found = nv::structs()
        .find(|s| s.name == older.unwrap_or(name))
        .unwrap_or_else(|| panic!("struct {name} is missing"));
    let bytes = match name {
        "NV0000_ALLOC_PARAMETERS" => len::<nv::NV0000_ALLOC_PARAMETERS>(abi),
        "NV_VASPACE_ALLOCATION_PARAMETERS" => len::<nv::NV_VASPACE_ALLOCATION_PARAMETERS>(abi),
        "NV_CHANNEL_ALLOC_PARAMS" => len::<nv::NV_CHANNEL_ALLOC_PARAMS>(abi),
        "NV_MEMORY_ALLOCATION_PARAMS" => len::<nv::NV_MEMORY_ALLOCATION_PARAMS>(abi),
        "NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS" => len::<nv::NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS>(abi),
        "NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS" => len::<nv::NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS>(abi),
        "NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS" => {
            len::<nv::NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS>(abi)
        }
        _ => found.size,
    };
    (found, bytes)
}

#[test]
fn every_branch_has_its_structs() {
    let facts = facts();
    let versions = facts["versions"].as_array().expect("a list");
    assert_eq!(versions.len(), ABIS.len());
    let mut seen = BTreeSet::new();
    for version in versions {
        let version = version.as_str().expect("text");
        let abi = Abi::of(version.parse::<Version>().expect("a version")).expect("known");
        assert_eq!(abi.read, version);
        for recorded in facts["structs"].as_array().expect("a list") {
            let name = recorded["name"].as_str().expect("a name");
            let forms = recorded["forms"].as_array().expect("a list");
            let form = forms
                .iter()
                .find(|f| {
                    f["versions"]
                        .as_array()
                        .expect("a list")
                        .contains(&version.into())
                })
                .unwrap_or_else(|| panic!("{name} is not recorded for {version}"));
            let (have, bytes) = ours(abi, name);
            seen.insert(have.name);
            let told = (number(&form["size"]), number(&form["align"]));
            // A struct whose last field is left out may be aligned less.
            let align = if bytes < have.size {
                told.1
            } else {
                have.align
            };
            assert_eq!((bytes, align), told, "{name} of {version}");
            let fields = form["fields"].as_array().expect("a list");
            for field in fields {
                let (f, offset) = (field[0].as_str().expect("a name"), number(&field[1]));
                let have = have.fields.iter().find(|h| h.name == f);
                let have = have.unwrap_or_else(|| panic!("{name}.{f} of {version} is missing"));
                assert_eq!(have.offset, offset, "{name}.{f} of {version}");
                let size = number(&field[2]).min(have.size);
                assert_eq!(size, number(&field[2]), "{name}.{f} of {version}");
            }
            for f in have
                .fields
                .iter()
                .filter(|f| f.offset < bytes && !f.name.starts_with("pad"))
            {
                let known = fields.iter().any(|r| r[0] == f.name);
                assert!(known, "{name}.{} is not in {version}", f.name);
            }
        }
    }
    for s in nv::structs() {
        // The argument of a request is a list of structs, which C does not name.
        let named = s.name != "nv_ioctl_card_info_list";
        assert!(
            !named || seen.contains(s.name),
            "{} is in no branch",
            s.name
        );
    }
}

#[test]
fn numbers_are_the_recorded_ones() {
    let facts = facts();
    let recorded = facts["constants"].as_object().expect("a table");
    for ours in nv::constants() {
        let told = recorded
            .get(ours.name)
            .unwrap_or_else(|| panic!("{} is not recorded", ours.name));
        assert_eq!(Some(ours.value), told.as_u64(), "{}", ours.name);
    }
    for named in nv::bits() {
        for (end, have) in [("LO", named.bits.low), ("HI", named.bits.high)] {
            let name = format!("{}_{end}", named.name);
            assert_eq!(Some(u64::from(have)), recorded[&name].as_u64(), "{name}");
        }
    }
    // The statuses of requests are all there.
    for name in recorded.keys().filter(|n| n.starts_with("NV_ERR_")) {
        let later = name.contains("NVSWITCH_FABRIC") || name.contains("NVLINK_FABRIC");
        let known =
            nv::constants().any(|c| c.name == name) || later || name == "NV_ERR_OPERATION_ABORTED";
        assert!(known, "{name} is missing");
    }
}

#[test]
fn requests_are_numbers_of_linux_for_rm_and_plain_ones_for_uvm() {
    assert_eq!(nv::NVOS21_PARAMETERS::REQUEST, 0xc020_462b);
    assert_eq!(nv::NVOS54_PARAMETERS::REQUEST, 0xc020_462a);
    assert_eq!(nv::nv_ioctl_nvos33_parameters_with_fd::REQUEST, 0xc038_464e);
    assert_eq!(ioctl::number(nv::nv_ioctl_card_info_list::REQUEST), 200);
    assert_eq!(
        ioctl::size(nv::nv_ioctl_card_info_list::REQUEST),
        72 * nv::NV_MAX_DEVICES
    );
    assert_eq!(nv::UVM_INITIALIZE_PARAMS::REQUEST, 0x3000_0001);
    assert_eq!(nv::UVM_MAP_EXTERNAL_ALLOCATION_PARAMS_545::REQUEST, 33);
}

#[test]
fn statuses_have_names() {
    assert_eq!(nv::status_name(0), "NV_OK");
    assert_eq!(nv::status_name(0x51), "NV_ERR_NO_MEMORY");
    assert_eq!(nv::status_name(0x1234_5678), "NV_ERR_?");
}
