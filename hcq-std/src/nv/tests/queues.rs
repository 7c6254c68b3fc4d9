#![allow(unsafe_code, reason = "plays the GPU in channels' memory")]

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

use hcq_nostd::fault::Access;
use hcq_nv::dump::Dump;
use hcq_nv::gpfifo::{Entry, GP_PUT, NOTIFY_CHANNEL_PENDING};

use super::*;
use crate::backend::{Body, Piece, PushError};

const COMPUTE: QueueId = QueueId {
    kind: QueueKind::Compute,
    index: 0,
};
const COPY: QueueId = QueueId {
    kind: QueueKind::Copy,
    index: 0,
};
const NOP: u32 = 0;

/// A channel as the GPU sees it.
struct Seen {
    ring: usize,
    put: usize,
    entries: u64,
    read: u64,
    token: u32,
    doorbell: usize,
    /// Where words of the host's memory are: GPU's address, host's address, bytes.
    words: Vec<(u64, usize, u64)>,
}

impl Seen {
    fn new(fake: &Fake, nv: &Nv, queue: QueueId) -> Self {
        let index = nv.rings.flat(queue);
        let (handle, ring, entries, userd) = nv.rings.with_live(|live| {
            let c = &live[index];
            let cpu = c.ring().cpu().expect("mapped").as_ptr().expose_provenance();
            (c.handle(), cpu, c.plan.entries as u64, c.userd())
        });
        let state = fake.state();
        let usermode = state.of_class(uapi::AMPERE_USERMODE_A)[0];
        let beside = &nv.rings.queues[index].words;
        let host = beside.cpu().expect("mapped").as_ptr().expose_provenance();
        Self {
            ring,
            put: ring + userd + GP_PUT,
            entries,
            read: 0,
            token: handle ^ 0xffff,
            doorbell: state.mapped[&usermode] + NOTIFY_CHANNEL_PENDING,
            words: vec![(beside.address(), host, beside.len() as u64)],
        }
    }

    fn u32_at(address: usize) -> &'static AtomicU32 {
        // SAFETY: an aligned word of a mapping that the test keeps.
        unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(address)) }
    }

    /// What was submitted since the last time: the words of each entry that are in the channel's own memory, and else where
    /// they are.
    fn take(&mut self) -> Vec<Result<Vec<u32>, (u64, u32)>> {
        let put = u64::from(Self::u32_at(self.put).load(Ordering::Acquire));
        let mut all = Vec::new();
        while self.read % self.entries != put {
            let at = self.ring + 8 * (self.read % self.entries) as usize;
            // SAFETY: an entry of the ring.
            let bits = unsafe { AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(at)) }
                .load(Ordering::Relaxed);
            let entry = Entry::decode(bits).expect("an entry");
            let near = self
                .words
                .iter()
                .find(|(base, _, len)| (*base..base + len).contains(&entry.address()));
            all.push(match near {
                Some((base, host, _)) => {
                    let start = host + (entry.address() - base) as usize;
                    Ok((0..entry.words() as usize)
                        .map(|n| Self::u32_at(start + 4 * n).load(Ordering::Relaxed))
                        .collect())
                }
                None => Err((entry.address(), entry.words())),
            });
            self.read += 1;
        }
        all
    }

    fn was_rung(&self) -> bool {
        Self::u32_at(self.doorbell).swap(0, Ordering::Relaxed) == self.token
    }

    /// Everything that was submitted is done.
    fn finish(&self, nv: &Nv, queue: QueueId) {
        let (word, _) = nv.rings.progress(nv.rings.flat(queue)).expect("there");
        word.store(self.read);
    }
}

fn text(words: &[u32]) -> String {
    Dump::new(words).to_string()
}

#[test]
fn a_submission_is_one_entry_behind_what_the_channel_is_told_first() {
    let fake = Fake::new(1);
    let (backend, mut port) = opened(&fake);
    let nv = inside(&backend);
    for (queue, class) in [(COMPUTE, 0xc7c0), (COPY, 0xc7b5)] {
        let mut seen = Seen::new(&fake, nv, queue);
        port.push(queue, Body::Words(&[NOP, NOP]), &[NOP])
            .expect("room");
        assert!(seen.was_rung());
        let entries = seen.take();
        let [Ok(words)] = &entries[..] else {
            panic!("{entries:x?}");
        };
        let told = text(words);
        assert!(
            told.contains(&format!("SET_OBJECT CLASS_ID={class:#x}")),
            "{told}"
        );
        assert!(
            told.ends_with("RELEASE ADDR=") || told.contains("RELEASE ADDR="),
            "{told}"
        );
        // Told once.
        port.push(queue, Body::Words(&[NOP, NOP]), &[NOP])
            .expect("room");
        let entries = seen.take();
        let [Ok(words)] = &entries[..] else {
            panic!("{entries:x?}");
        };
        assert!(words.len() == 9 && words[..3] == [NOP; 3], "{words:x?}");
        assert_eq!(words[6..8], [2, 0], "the second entry");
        assert!(seen.was_rung());
    }
}

#[test]
fn what_runs_by_reference_is_an_entry_each() {
    let fake = Fake::new(1);
    let (backend, mut port) = opened(&fake);
    let nv = inside(&backend);
    let mut seen = Seen::new(&fake, nv, COMPUTE);
    let pieces = [0x20_0000_0000, 0x20_0001_0000].map(|address| Piece {
        address,
        words: 100,
    });
    port.push(COMPUTE, Body::Launch(&[], &pieces), &[NOP])
        .expect("room");
    let entries = seen.take();
    let [Ok(first), Err(a), Err(b), Ok(end)] = &entries[..] else {
        panic!("{entries:x?}");
    };
    assert!(
        text(first).contains("SET_OBJECT"),
        "the introduction comes first"
    );
    assert_eq!([*a, *b], [(0x20_0000_0000, 100), (0x20_0001_0000, 100)]);
    assert_eq!(end.len(), 7);
    assert_eq!(end[4], 4, "four entries by then");
}

#[test]
fn a_full_ring_takes_nothing_and_room_comes_with_progress() {
    let fake = Fake::new(1);
    let (backend, mut port) = opened(&fake);
    let nv = inside(&backend);
    let mut seen = Seen::new(&fake, nv, COPY);
    let mut pushed = 0;
    let full = loop {
        match port.push(COPY, Body::Words(&[NOP]), &[NOP]) {
            Ok(()) => pushed += 1,
            Err(e) => break e,
        }
    };
    assert_eq!(pushed, 63, "one entry stays free");
    assert!(
        matches!(
            full,
            PushError::Full {
                need: 1,
                free: 0,
                get: 0
            }
        ),
        "{full:?}"
    );
    assert_eq!(seen.take().len(), 63);
    assert!(!backend.relax_room(1, COPY, 0, Duration::from_micros(10)));
    seen.finish(nv, COPY);
    assert!(backend.relax_room(1, COPY, 0, Duration::from_micros(10)));
    for _ in 0..63 {
        port.push(COPY, Body::Words(&[NOP]), &[NOP])
            .expect("room again");
    }
    assert_eq!(seen.take().len(), 63);
    // A count that cannot be makes no room.
    let (word, _) = nv.rings.progress(nv.rings.flat(COPY)).expect("there");
    word.store(1 << 40);
    let full = port
        .push(COPY, Body::Words(&[NOP]), &[NOP])
        .expect_err("full");
    assert!(matches!(full, PushError::Full { get: 63, .. }), "{full:?}");
}

#[test]
fn words_wrap_in_one_piece_and_lose_nothing() {
    let fake = Fake::new(1);
    let (backend, mut port) = opened(&fake);
    let nv = inside(&backend);
    let mut seen = Seen::new(&fake, nv, COPY);
    // 64 entries have 1024 words.
    let mut random = 3u32;
    let mut next = 0u32;
    port.push(COPY, Body::Words(&[]), &[NOP]).expect("room");
    seen.take();
    for _ in 0..500 {
        random = random.wrapping_mul(1664525).wrapping_add(1013904223);
        let len = 1 + (random >> 16) % 300;
        let words: Vec<u32> = (0..len).map(|n| next.wrapping_add(n)).collect();
        while let Err(e) = port.push(COPY, Body::Words(&words), &[!next]) {
            assert!(matches!(e, PushError::Full { need: 1, .. }), "{e:?}");
            seen.finish(nv, COPY);
        }
        let entries = seen.take();
        let [Ok(read)] = &entries[..] else {
            panic!("{entries:x?}");
        };
        assert_eq!(read[..words.len()], words);
        assert_eq!(read[words.len()], !next);
        next = next.wrapping_add(len);
    }
    for words in [600, 2000] {
        let long = vec![NOP; words];
        let e = port
            .push(COPY, Body::Words(&long), &[NOP])
            .expect_err("long");
        assert_eq!(e, PushError::TooLarge);
    }
}

#[test]
fn local_memory_grows_and_is_told_once() {
    let fake = Fake::new(1);
    let (backend, mut port) = opened(&fake);
    let nv = inside(&backend);
    let mut seen = Seen::new(&fake, nv, COMPUTE);
    assert!(!nv.rings.has_local(0, 32));
    // The first is nobody's to wait for.
    assert!(nv.rings.grow_local(0, 600, false).expect("memory"));
    assert!(
        nv.rings.has_local(0, 608) && !nv.rings.has_local(0, 609) && !nv.rings.has_local(1, 32)
    );
    port.push(COMPUTE, Body::Words(&[]), &[NOP]).expect("room");
    let told = seen.take().remove(0).expect("words");
    let told = text(&told);
    assert!(
        told.contains("SET_OBJECT") && told.contains("SET_SHADER_LOCAL_MEMORY_NON_THROTTLED SIZE="),
        "{told}"
    );
    // Launches in flight may use it.
    let before = fake.state().of_class(uapi::NV01_MEMORY_LOCAL_USER).len();
    assert!(!nv.rings.grow_local(0, 5000, false).expect("nothing"));
    assert!(nv.rings.grow_local(0, 5000, true).expect("memory"));
    assert!(nv.rings.has_local(0, 8192));
    assert_eq!(
        fake.state().of_class(uapi::NV01_MEMORY_LOCAL_USER).len(),
        before,
        "the old one is gone"
    );
    port.push(COMPUTE, Body::Words(&[]), &[NOP]).expect("room");
    let told = text(&seen.take().remove(0).expect("words"));
    assert!(
        told.contains("WFI") && !told.contains("SET_OBJECT"),
        "{told}"
    );
    port.push(COMPUTE, Body::Words(&[]), &[NOP]).expect("room");
    assert!(!text(&seen.take().remove(0).expect("words")).contains("LOCAL_MEMORY"));
    let e = nv
        .rings
        .grow_local(0, 1 << 24, true)
        .expect_err("too much")
        .to_string();
    assert!(e.contains("local memory"), "{e}");
}

#[test]
fn what_a_channel_was_not_told_is_told_with_the_next_submission() {
    let fake = Fake::new(1);
    let (backend, mut port) = opened(&fake);
    let nv = inside(&backend);
    let mut seen = Seen::new(&fake, nv, COMPUTE);
    let long = vec![NOP; 2000];
    assert_eq!(
        port.push(COMPUTE, Body::Words(&long), &[]),
        Err(PushError::TooLarge)
    );
    port.push(COMPUTE, Body::Words(&[]), &[NOP]).expect("room");
    let told = text(&seen.take().remove(0).expect("words"));
    assert!(told.contains("SET_OBJECT"), "{told}");
}

/// The driver notes an error of a channel.
pub(super) fn note(fake: &Fake, nv: &Nv, index: usize, code: u32) {
    let handle = nv.rings.with_live(|live| live[index].handle());
    let state = fake.state();
    let memory = state.channel_params[&handle].hObjectError;
    let notes = state.mapped[&memory];
    Seen::u32_at(notes + 8).store(code, Ordering::Relaxed);
    // SAFETY: an aligned half of a word of the notifier.
    let status = unsafe { AtomicU16::from_ptr(std::ptr::with_exposed_provenance_mut(notes + 14)) };
    status.store(0xffff, Ordering::Release);
}

fn fault_of(nv: &Nv) -> FaultRecord {
    nv.last_look.store(0, Ordering::Relaxed);
    nv.fault().expect("a fault")
}

#[test]
fn faults_are_records() {
    let fake = Fake::new(1);
    let (backend, mut port) = opened(&fake);
    let nv = inside(&backend);
    assert_eq!(nv.fault(), None);
    fake.state().mmu.count = 1;
    fake.state().mmu.mmuFaultInfoList[0] = uapi::NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_ENTRY {
        faultAddress: 0x1234_5000,
        faultType: 2,
        accessType: 1,
    };
    // The copy channel went with the compute channel.
    note(&fake, nv, 0, uapi::ROBUST_CHANNEL_PREEMPTIVE_REMOVAL);
    note(&fake, nv, 2, uapi::ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT);
    let fault = fault_of(nv);
    assert_eq!(
        (fault.kind, fault.access, fault.engine),
        (FaultKind::Memory, Access::Write, 2)
    );
    assert_eq!((fault.address, fault.detail), (0x1234_5000, 2 << 32 | 31));
    assert_eq!(nv.fault(), Some(fault), "it stays");

    let channels = fake.state().of_class(0xc56f);
    nv.recover(Duration::ZERO).expect("new channels");
    assert_eq!(nv.fault(), Some(fault), "until the port has them");
    assert_ne!(fake.state().of_class(0xc56f), channels);
    // No GPU runs them here.
    let e = port
        .renew(Duration::from_millis(1))
        .expect_err("nothing runs")
        .to_string();
    assert!(e.contains("a new compute channel did nothing"), "{e}");
    assert_eq!(
        port.push(COMPUTE, Body::Words(&[]), &[NOP]),
        Err(PushError::Stopped)
    );
    nv.recovered();
    assert_eq!(nv.fault(), None);
}

#[test]
fn get_mmu_fault_info_tells_which_channel_and_where() {
    let mmu = uapi::ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT;
    let entry = |address| uapi::NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_ENTRY {
        faultAddress: address,
        faultType: 6,
        accessType: 1,
    };
    // What channels say, what the debugger says; engine, address, access, reason.
    type Case<'a> = (&'a [(usize, u64)], &'a [u64], (u16, u64, Access, u64));
    let cases: [Case<'_>; 5] = [
        // A copy: no debugger knows of it.
        (
            &[(2, 0x77_1234_5678)],
            &[],
            (2, 0x77_1234_5678, Access::Unknown, 2),
        ),
        // A program: the debugger has the page, and what for.
        (
            &[(1, 0x5678)],
            &[0x9000, 0x5000],
            (1, 0x5678, Access::Write, 2),
        ),
        // Of an older fault it does not help.
        (&[(1, 0x5678)], &[0x9000], (1, 0x5678, Access::Unknown, 2)),
        // Firmware that knows nothing of channels.
        (&[], &[0x9000, 0x5000], (0, 0x9000, Access::Write, 6)),
        (&[], &[], (0, 0, Access::Unknown, 0)),
    ];
    for (own, debugged, (engine, address, access, reason)) in cases {
        let fake = Fake::new(1);
        let (backend, _port) = opened(&fake);
        let nv = inside(&backend);
        // All of a group are told.
        let handles: Vec<u32> = nv
            .rings
            .with_live(|live| live.iter().map(|c| c.handle()).collect());
        for index in 0..handles.len() {
            note(&fake, nv, index, mmu);
        }
        for &(index, address) in own {
            fake.state().own_faults.insert(handles[index], (address, 2));
        }
        for (n, &address) in debugged.iter().enumerate() {
            fake.state().mmu.mmuFaultInfoList[n] = entry(address);
            fake.state().mmu.count += 1;
        }
        let fault = fault_of(nv);
        assert_eq!((fault.kind, fault.engine), (FaultKind::Memory, engine));
        assert_eq!((fault.address, fault.access), (address, access));
        assert_eq!(fault.detail, reason << 32 | u64::from(mmu));
        assert_eq!(nv.fault(), Some(fault), "told once, and kept");
    }
}

#[test]
fn errors_of_programs_tell_where() {
    let fake = Fake::new(1);
    let (backend, _port) = opened(&fake);
    let nv = inside(&backend);
    let state = uapi::NV83DE_SM_ERROR_STATE_REGISTERS {
        hwwWarpEsr: 0x40_0006,
        hwwWarpEsrPc64: 0x7f00_1230,
        ..Default::default()
    };
    fake.state().sm = Some((70, state));
    note(&fake, nv, 1, uapi::ROBUST_CHANNEL_GR_EXCEPTION);
    let fault = fault_of(nv);
    assert_eq!((fault.kind, fault.engine), (FaultKind::Program, 1));
    assert_eq!((fault.address, fault.detail), (0x7f00_1230, 6 << 32 | 13));
}

#[test]
fn every_call_of_a_recovery_may_fail_once() {
    let borne = each_call_fails(1, |fake| {
        let (backend, mut port) = open_as(fake, None)?;
        let nv = inside(&backend);
        note(fake, nv, 0, uapi::ROBUST_CHANNEL_PBDMA_ERROR);
        assert_eq!(fault_of(nv).kind, FaultKind::Command);
        let recovered = nv.recover(Duration::ZERO);
        // Whatever happens, what is gone is not used any more.
        let _ = port.renew(Duration::ZERO);
        recovered
    });
    assert!(borne > 0);
}
