//! The core under SDMA: golden words of four versions, and their rings.

mod fit;

use fit::amd;
use fit::golden::{self, Json, Operands, list, number, number32};
use fit::lab::{Recording as _, Sketch, Space, dense, symbolic};
use fit::pm4::Interrupt;
use fit::sdma::{SdmaQueue, V4, V5, V6, Version, submit, submit_bound};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchError, PatchList, Patcher, Site};
use hcq_nostd::queue::CopyQueue;
use hcq_nostd::record::{Operand, RecordError};
use hcq_nostd::ring::{Ring, RingError, WouldBlock};
use hcq_nostd::value::Misfit;

struct Sdma;

fn version(case: &Json) -> &'static Version {
    match case["inputs"]["device"]["arch"].as_str() {
        Some("gfx942") => &V4,
        Some("gfx1030") => &V5,
        Some("gfx1100" | "gfx1201") => &V6,
        other => panic!("no chip {other:?}"),
    }
}

impl Sketch for Sdma {
    fn spaces(&self, _: &Json) -> Vec<Space> {
        Vec::new()
    }

    fn record<'m>(
        &self,
        case: &Json,
        operands: Operands<'_>,
        words: &'m mut [u32],
        patches: PatchList<'m>,
        _: &mut [Region<'_>],
    ) -> Result<(usize, PatchList<'m>), RecordError> {
        let d = &case["inputs"]["device"];
        let interrupt = Interrupt {
            mailbox: number(&d["queue_event_mailbox_ptr"]),
            event: number32(&d["queue_event_id"]),
        };
        let interrupt = (d["interface"] == "kfd").then_some(interrupt);
        let mut q = SdmaQueue::new(
            version(case),
            number(&d["max_copy_size"]),
            interrupt,
            words,
            patches,
        );
        for op in list(&case["inputs"]["ops"]) {
            if !amd::common(&mut q, &operands, op)? {
                assert_eq!(op["op"], "copy");
                let [to, from, bytes] =
                    ["dest", "src", "size"].map(|n| operands.value(q.list(), &op[n]));
                q.copy(to, from, bytes)?;
            }
        }
        Ok(q.finish())
    }
}

#[test]
fn symbolic_cases() {
    symbolic("sdma", &Sdma, &["amd-sdma"], |_| true);
}

#[test]
fn immediates() {
    for (version, largest) in [
        (4, "copy_16mib"),
        (5, "copy_16mib"),
        (6, "copy_5gib"),
        (7, "copy_5gib"),
    ] {
        let names = [
            "copy_1",
            "copy_max",
            "copy_max_plus_1",
            "copy_three_max_minus_7",
            largest,
            "copy_zero",
            "signal_plain",
            "signal_timeline_kfd",
            "signal_timeline_am",
            "wait",
            "timestamp",
            "write32",
            "write64",
            "chain_copy",
        ];
        let names: Vec<_> = names.iter().map(|n| format!("sdma{version}_{n}")).collect();
        dense(
            "sdma",
            &Sdma,
            "amd-sdma",
            &names.iter().map(String::as_str).collect::<Vec<_>>(),
        );
    }
}

/// Ring contents and pointers after golden submits, packets whole and indirect buffers aligned.
#[test]
fn rings() {
    const WORDS: usize = 1024;
    let mut done = 0;
    for case in golden::cases("amd-sdma")
        .iter()
        .filter(|c| c["inputs"]["ring"].is_object())
    {
        let (name, inputs) = (golden::name(case), &case["inputs"]);
        // The reference waits for room here, and moves whole submits over USB.
        if name.ends_with("overrun") || inputs["device"]["interface"] == "usb" {
            continue;
        }
        let mut words = [0; WORDS];
        let (len, _) = Sdma
            .record(
                case,
                Operands::Fixed(&golden::Vars::new()),
                &mut words,
                PatchList::none(),
                &mut [],
            )
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(
            words[..len],
            golden::words(&case["expected_words"]),
            "{name}"
        );

        let (base, bytes) = (
            number(&inputs["ring"]["ring_addr"]),
            number(&inputs["ring"]["ring_bytes"]),
        );
        let mut memory = vec![u64::from_ne_bytes([0xa5; 8]); bytes as usize / 8];
        // The pointers count bytes.
        let mut rung = number(&inputs["ring"]["put_bytes_before"]);
        let ring = Ring::resume(Region::from_words(&mut memory, base), 4, rung / 4);
        let mut ring = ring.expect("whole words");
        for after in list(&case["after_submit"]) {
            let mut doorbell = |put: u64| rung = put * 4;
            match inputs["indirect_buffer_addr"].as_str() {
                Some(_) => submit_bound(
                    &mut ring,
                    number(&inputs["indirect_buffer_addr"]),
                    len,
                    &mut doorbell,
                ),
                None => submit(&mut ring, &words[..len], &mut doorbell),
            }
            .unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(rung, number(&after["put_bytes_after"]), "{name}");
            ring.consumed(ring.put()).expect("just published");
        }

        let mut want = vec![0xa5; bytes as usize];
        for run in list(&case["expected_memory"])
            .iter()
            .filter(|r| r["region"] == "ring")
        {
            let (at, bytes) = (
                number(&run["offset"]) as usize,
                golden::bytes(&run["bytes"]),
            );
            want[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        let got: Vec<u8> = memory.iter().flat_map(|w| w.to_ne_bytes()).collect();
        assert_eq!(got, want, "{name}");
        done += 1;
    }
    println!("fit sdma: {done} rings");
    assert!(done > 40);
}

#[test]
fn room_counts_padding_and_a_full_ring_is_left_alone() {
    let mut memory = [0; 16];
    let mut ring = Ring::new(Region::from_words(&mut memory, 0), 4).expect("whole words");
    let fence = [5, 0, 0, 7];
    for _ in 0..7 {
        submit(&mut ring, &fence, &mut |_| ()).expect("room");
    }
    let full = submit(&mut ring, &fence, &mut |_| panic!("nothing to ring for"));
    assert_eq!(full, Err(RingError::Full(WouldBlock { need: 8, free: 4 })));
    assert_eq!(ring.put(), 28);
}

#[test]
fn a_length_known_at_launch_is_checked_there() {
    let (mut words, mut sites) = ([0; 16], [Site::EMPTY; 8]);
    let mut patches = PatchList::new(&mut sites, &mut []);
    let length = patches.var().expect("a variable");
    let mut q = SdmaQueue::new(&V4, 1 << 22, None, &mut words, patches);
    q.copy(0x1000u64.into(), 0x2000u64.into(), length.into())
        .expect("recorded");
    let too_high = q.copy((1u64 << 48).into(), 0u64.into(), 1u64.into());
    let misfit = Misfit::TooLarge {
        value: 1 << 48,
        bits: 48,
    };
    assert_eq!(
        too_high.err(),
        Some(RecordError::Misfit {
            operand: Operand::Destination,
            misfit
        })
    );

    let (len, mut patches) = q.finish();
    assert_eq!(len, 7);
    let mut table = [0; 64];
    let table = patches.build(&[28], &mut table).expect("a table");
    let mut state = [0; 8];
    let mut patcher = Patcher::new(table, &mut state).expect("room");
    let mut memory = [0; 4];
    let mut regions = [Region::from_words(&mut memory, 0)];
    for (bytes, fits) in [
        (0, false),
        (1, true),
        (1 << 22, true),
        ((1 << 22) + 1, false),
    ] {
        patcher.set(length, bytes).expect("a variable");
        let applied = patcher.apply(&mut regions);
        assert_eq!(applied.is_ok(), fits, "{bytes}: {applied:?}");
        assert!(fits || matches!(applied, Err(PatchError::Misfit { var, .. }) if var == length));
    }
    assert_eq!(regions[0].load_u32(4), Ok((1 << 22) - 1));
}
