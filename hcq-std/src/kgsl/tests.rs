//! The driver's calls on a fake kernel.
#![allow(unsafe_code, reason = "stores words")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use hcq_nostd::fault::{Access, FaultKind};
use hcq_uapi::kgsl::{self, CacheMode, ContextFlags, MemFlags};

use super::fake::Fake;
use super::{Device, candidate};
use crate::Error;
use crate::backend::Piece;
use crate::calls::Counted;
use crate::qcom::driver::{Block, Caching, Driver, Refusal};
use crate::seam::{Errno, Owner};

/// CP_WAIT_FOR_IDLE.
const IDLE: u32 = 0x7026_8000;

fn open(fake: &Arc<Fake>) -> Device {
    Device::open(&fake.system()).expect("the fake GPU")
}

fn fill(block: &dyn Block, words: &[u32]) -> Piece {
    let to = block.cpu().cast::<u32>();
    for (index, word) in words.iter().enumerate() {
        // SAFETY: mapped, and larger than the words.
        unsafe { to.as_ptr().wrapping_add(index).write_volatile(*word) };
    }
    Piece {
        address: block.address(),
        words: words.len(),
    }
}

#[test]
fn what_the_gpu_is() {
    let fake = Fake::new();
    let device = open(&fake);
    assert_eq!(device.facts().name.as_deref(), Some("Adreno650v3"));
    assert_eq!(
        (device.facts().chip, device.facts().tile_bytes),
        (0x0605_0002, 1 << 20)
    );
    drop(device);
    // Older kernels have no name.
    fake.state().model = None;
    assert_eq!(open(&fake).facts().name, None);
    assert!(fake.state().left().ends_with("mappings 0, files []"));
}

#[test]
fn memory_is_cached_where_the_gpu_snoops_and_gathered_where_it_does_not() {
    let fake = Fake::new();
    let device = open(&fake);
    let flags = |id: u32| fake.state().objects[&id].flags;
    let blocks = [
        device.allocate(5000, Caching::Cached).expect("memory"),
        device.allocate(1 << 20, Caching::Gathered).expect("memory"),
        device.allocate(1, Caching::Uncached).expect("memory"),
    ];
    assert_eq!(blocks.each_ref().map(|b| b.len()), [5000, 1 << 20, 1]);
    assert!(device.snoops() && blocks.iter().all(|b| b.is_coherent()));
    let ids: Vec<u32> = fake.state().objects.keys().copied().collect();
    let [cached, gathered, uncached] = [flags(ids[0]), flags(ids[1]), flags(ids[2])];
    assert!(cached.contains(MemFlags::IOCOHERENT));
    assert_eq!(
        [cached, gathered, uncached].map(|f| (f.caches(), f.alignment())),
        [
            (CacheMode::WriteBack, 12),
            (CacheMode::WriteCombine, 20),
            (CacheMode::Uncached, 12)
        ]
    );
    assert_eq!(fake.state().objects[&ids[0]].size, 8192, "whole pages");
    drop(blocks);
    fake.state().snoops = false;
    let calls = |fake: &Fake| {
        let state = fake.state();
        let allocs = state.calls.iter().filter(|c| **c == Counted::Ioctl(0x45));
        allocs.count()
    };
    let before = calls(&fake);
    let block = device.allocate(4096, Caching::Cached).expect("memory");
    assert!(block.is_coherent());
    assert_eq!(calls(&fake) - before, 2, "asked once, and then as it is");
    let _more = device.allocate(4096, Caching::Cached).expect("memory");
    assert_eq!(calls(&fake) - before, 3, "not asked again");
    assert!(!device.snoops());
    for (bytes, errno) in [
        (1 << 30, Errno::NOMEM),
        (usize::MAX, Errno::NOMEM),
        (5 << 30, Errno::NOMEM),
    ] {
        let refused = device
            .allocate(bytes, Caching::Cached)
            .expect_err("too much");
        assert!(
            matches!(refused, Error::OutOfMemory { errno: e, .. } if e == errno),
            "{refused}"
        );
    }
}

#[test]
fn pages_of_the_process_are_imported_whole_and_flushed_by_lines() {
    let fake = Fake::new();
    fake.state().snoops = false;
    let device = open(&fake);
    let mut memory = vec![0u64; 3 * 512];
    let base = memory.as_mut_ptr().expose_provenance();
    let start = base.next_multiple_of(4096) + 100;
    let cpu = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(start)).expect("not null");
    let block = device.import(cpu, 1000, false).expect("pages");
    {
        let state = fake.state();
        let object = state.objects.values().next().expect("one");
        assert!(object.is_user && object.flags.contains(MemFlags::GPUREADONLY));
        assert_eq!((object.cpu, object.size), (start - 100, 4096));
        assert_eq!((block.address(), block.len()), (object.gpu + 100, 1000));
    }
    assert!(!block.is_coherent());
    block.flush(0, 1000).expect("flushed");
    block.flush(28, 1).expect("flushed");
    block.flush(5, 0).expect("nothing to do");
    let ranges: Vec<(u64, u64)> = fake
        .state()
        .syncs
        .iter()
        .map(|s| (s.offset, s.length))
        .collect();
    assert_eq!(ranges, [(64, 1088), (128, 64)]);
    drop(block);
    assert!(fake.state().objects.is_empty());
    // With a GPU that snoops there is nothing to flush.
    fake.state().snoops = true;
    let block = device.import(cpu, 1000, true).expect("pages");
    block.flush(0, 1000).expect("nothing to do");
    assert_eq!(fake.state().syncs.len(), 2);
}

#[test]
fn submissions_count_across_the_roll_over() {
    let fake = Fake::new();
    fake.state().first_timestamp = u32::MAX - 2;
    let device = open(&fake);
    let block = device.allocate(4096, Caching::Gathered).expect("memory");
    let context = device.context(false).expect("a context");
    let piece = fill(&*block, &[IDLE, IDLE]);
    let first = context.submit(&[piece]).expect("submitted");
    assert_eq!(first, 1);
    fake.state().hangs = true;
    let numbers: Vec<u64> = (0..4)
        .map(|_| context.submit(&[piece, piece]).expect("submitted"))
        .collect();
    assert_eq!(numbers, [first + 1, first + 2, first + 3, first + 4]);
    assert_eq!((context.submitted(), context.retired()), (first + 4, first));
    // Neither a number that was never submitted, nor one that is not done.
    assert!(!context.wait(first + 5, Duration::from_millis(1)));
    assert!(!context.wait(first + 3, Duration::from_millis(1)));
    assert!(context.wait(first, Duration::ZERO));
    fake.state().hangs = false;
    // Timestamp 1 is after 0xffffffff.
    assert!(context.wait(first + 3, Duration::from_secs(1)));
    assert_eq!((context.known(), context.retired()), (first + 3, first + 4));
    let sizes: Vec<usize> = fake.state().submitted.iter().map(Vec::len).collect();
    assert_eq!(sizes, [1, 2, 2, 2, 2]);
}

#[test]
fn what_the_kernel_has_no_room_for_waits_its_turn() {
    let fake = Fake::new();
    fake.state().first_timestamp = u32::MAX - 30;
    let device = open(&fake);
    let block = device.allocate(4096, Caching::Gathered).expect("memory");
    let context = device.context(false).expect("a context");
    let piece = fill(&*block, &[IDLE, IDLE]);
    fake.state().hangs = true;
    let many: Vec<u64> = (0..200)
        .map(|_| context.submit(&[piece]).expect("submitted"))
        .collect();
    assert_eq!(many, (1..=200).collect::<Vec<_>>());
    assert_eq!(fake.state().submitted.len(), 48);
    assert_eq!((context.submitted(), context.retired()), (200, 0));
    assert!(!context.wait(1, Duration::from_millis(1)));
    fake.state().hangs = false;
    assert!(context.wait(200, Duration::from_secs(10)));
    assert_eq!((context.known(), context.retired()), (200, 200));
    assert_eq!(fake.state().submitted.len(), 200);
    // What waits when the context ends is given up.
    fake.state().hangs = true;
    for _ in 0..60 {
        context.submit(&[piece]).expect("submitted");
    }
    context.end();
    assert!(matches!(context.submit(&[piece]), Err(Refusal::Fault)));
    assert!(!context.wait(260, Duration::from_secs(10)));
    assert!(fake.state().contexts.is_empty());
    assert_eq!(fake.state().submitted.len(), 248);
}

#[test]
fn contexts_are_what_the_kernel_takes() {
    let fake = Fake::new();
    let device = open(&fake);
    let plain = device.context(false).expect("a context");
    let flags = |fake: &Fake| fake.state().contexts.values().next().expect("one").flags;
    assert!(flags(&fake).contains(
        ContextFlags::PREAMBLE
            | ContextFlags::NO_GMEM_ALLOC
            | ContextFlags::NO_FAULT_TOLERANCE
            | ContextFlags::FAULT_INFO
    ));
    assert!(!flags(&fake).contains(ContextFlags::PWR_CONSTRAINT));
    plain.end();
    plain.end();
    drop(plain);
    assert!(fake.state().contexts.is_empty());
    let _fast = device.context(true).expect("a context");
    assert!(flags(&fake).contains(ContextFlags::PWR_CONSTRAINT));
    assert_eq!(
        fake.state().constraints,
        [(
            kgsl::KGSL_CONSTRAINT_PWRLEVEL,
            kgsl::KGSL_CONSTRAINT_PWR_MAX
        )]
    );
}

#[test]
fn a_page_fault_is_a_record() {
    let fake = Fake::new();
    let device = open(&fake);
    let block = device.allocate(4096, Caching::Gathered).expect("memory");
    let context = device.context(false).expect("a context");
    let piece = fill(&*block, &[IDLE]);
    context.submit(&[piece]).expect("submitted");
    assert_eq!((context.fault(), context.look()), (None, None));
    let id = *fake.state().contexts.keys().next().expect("one");
    fake.state().fault(id, 0xdead_0000);
    assert_eq!(context.fault(), None, "not asked yet");
    let fault = context.look().expect("guilty");
    assert_eq!(
        (fault.kind, fault.access, fault.address),
        (FaultKind::Memory, Access::Write, 0xdead_0000)
    );
    assert_eq!(context.fault(), Some(fault));
    assert_eq!(context.look(), Some(fault), "the kernel tells it once");
    assert_eq!(context.submit(&[piece]), Err(Refusal::Fault));
    assert!(!context.wait(2, Duration::from_millis(1)));
}

#[test]
fn a_context_that_became_invalid_is_a_fault_however_it_shows() {
    for by_submission in [true, false] {
        let fake = Fake::new();
        let device = open(&fake);
        let block = device.allocate(4096, Caching::Gathered).expect("memory");
        let context = device.context(false).expect("a context");
        let piece = fill(&*block, &[IDLE]);
        fake.state().hangs = true;
        let number = context.submit(&[piece]).expect("submitted");
        {
            let mut state = fake.state();
            let context = state.contexts.values_mut().next().expect("one");
            context.is_invalid = true;
        }
        if by_submission {
            assert_eq!(context.submit(&[piece]), Err(Refusal::Fault));
        } else {
            assert!(!context.wait(number, Duration::from_millis(1)));
        }
        let fault = context.fault().expect("in error");
        assert_eq!(
            (fault.kind, fault.detail),
            (FaultKind::Hardware, libc::EDEADLK as u64)
        );
    }
}

#[test]
fn others_faults_are_none() {
    let fake = Fake::new();
    let device = open(&fake);
    let context = device.context(false).expect("a context");
    for (status, is_fault) in [
        (kgsl::KGSL_CTX_STAT_INNOCENT_CONTEXT_RESET_EXT, false),
        (kgsl::KGSL_CTX_STAT_UNKNOWN_CONTEXT_RESET_EXT, true),
    ] {
        fake.state()
            .contexts
            .values_mut()
            .next()
            .expect("one")
            .reset = status;
        assert_eq!(context.look().is_some(), is_fault, "{status}");
    }
}

/// Hosts wait on memory, so that the kernel may be done with all that it is known to have.
#[test]
fn a_kernel_is_asked_before_a_thread_waits_for_it() {
    let submitted = |failure: Option<Errno>| {
        let fake = Fake::new();
        let device = open(&fake);
        let block = device.allocate(4096, Caching::Gathered).expect("memory");
        let context = device.context(false).expect("a context");
        let piece = fill(&*block, &[IDLE]);
        for n in 1..=48 {
            assert_eq!(context.submit(&[piece]), Ok(n));
        }
        if let Some(errno) = failure {
            fake.state().calls.fail_next(1, errno);
        }
        let results: Vec<_> = (49..200).map(|_| context.submit(&[piece])).collect();
        let waits = !format!("{context:?}").contains("feeder: Mutex { data: None");
        (results, waits, fake.state().submitted.len())
    };
    let all: Vec<_> = (49..200).map(Ok).collect();
    assert_eq!(submitted(None), (all.clone(), false, 199));
    // What cannot be asked now can be asked later.
    let (results, waits, _) = submitted(Some(Errno::NOMEM));
    assert_eq!((results, waits), (all.clone(), true));
    let lost = submitted(Some(Errno(libc::EDEADLK)));
    assert_eq!(lost, (vec![Err(Refusal::Fault); all.len()], false, 48));
}

#[test]
fn a_refused_submission_changes_nothing() {
    let fake = Fake::new();
    let device = open(&fake);
    let block = device.allocate(4096, Caching::Gathered).expect("memory");
    let context = device.context(false).expect("a context");
    let piece = fill(&*block, &[IDLE]);
    fake.state().calls.fail_next(1, Errno::NOMEM);
    assert_eq!(context.submit(&[piece]), Err(Refusal::Driver(Errno::NOMEM)));
    assert_eq!((context.submitted(), context.fault()), (0, None));
    assert_eq!(context.submit(&[piece]), Ok(1));
}

#[test]
fn host_and_gpu_have_one_address_where_they_can() {
    for far in [false, true] {
        let fake = Fake::new();
        fake.state().far = far;
        let device = open(&fake);
        let blocks: Vec<_> = [Caching::Cached, Caching::Gathered, Caching::Uncached]
            .into_iter()
            .map(|caching| device.allocate(5000, caching).expect("memory"))
            .collect();
        for block in &blocks {
            let same = block.address() == block.cpu().as_ptr().addr() as u64;
            assert_eq!(same, !far);
        }
        let maps = fake
            .state()
            .calls
            .iter()
            .filter(|c| **c == Counted::Mmap)
            .count();
        assert_eq!(maps, if far { 4 } else { 3 }, "it is tried once");
    }
}

/// Everything that the driver does, once.
fn everything(fake: &Arc<Fake>) -> Result<(), Error> {
    let device = Device::open(&fake.system())?;
    let block = device.allocate(8192, Caching::Cached)?;
    let uncached = device.allocate(100, Caching::Uncached)?;
    let mut memory = vec![0u8; 8192];
    let cpu = NonNull::new(memory.as_mut_ptr()).expect("not null");
    let import = device.import(cpu, 5000, true)?;
    import.flush(0, 10).map_err(|errno| Error::System {
        operation: "flush",
        errno,
    })?;
    let context = device.context(true)?;
    let piece = fill(&*block, &[IDLE]);
    let refused = |refusal| match refusal {
        Refusal::Fault => Error::Internal("in error"),
        Refusal::Driver(errno) => Error::System {
            operation: "submit",
            errno,
        },
    };
    let number = context.submit(&[piece]).map_err(refused)?;
    if !context.wait(number, Duration::from_millis(5)) || context.look().is_some() {
        return Err(Error::Internal("not done"));
    }
    context.end();
    drop(uncached);
    Ok(())
}

#[test]
fn every_call_that_fails_once_leaves_nothing_behind() {
    for snoops in [true, false] {
        let whole = {
            let fake = Fake::new();
            fake.state().snoops = snoops;
            everything(&fake).expect("nothing fails");
            let state = fake.state();
            assert_eq!(
                state.left(),
                "objects [], contexts [], mappings 0, files []"
            );
            state.calls.to_vec()
        };
        assert!(whole.len() > 20, "{whole:?}");
        for (at, call) in whole.iter().enumerate() {
            for errno in [Errno::NOMEM, Errno::INVAL, Errno::IO, Errno(libc::EDEADLK)] {
                let fake = Fake::new();
                fake.state().snoops = snoops;
                fake.state().calls.fail(at, 1, errno);
                // What gives back is tried again, what only looks may do without.
                let _ = everything(&fake);
                let left = fake.state().left();
                assert_eq!(
                    left, "objects [], contexts [], mappings 0, files []",
                    "call {at}, {call:?}, {errno}"
                );
            }
        }
    }
}

#[test]
fn lists_say_why_not() {
    let attempt = |fake: &Arc<Fake>| {
        let candidate = candidate(&**fake);
        let last = candidate.attempts.last().expect("tried").clone();
        (candidate.ready, candidate.description, last)
    };
    let fake = Fake::new();
    let (ready, description, _) = attempt(&fake);
    assert_eq!(
        (ready, &*description),
        (true, "Adreno650v3, driven as a650")
    );
    assert!(
        fake.state().left().ends_with("files []"),
        "nothing stays open"
    );

    fake.state().board = Some("qcom,qrb5165-rb5\0qcom,sm8250\0");
    let (_, description, _) = attempt(&fake);
    assert_eq!(
        description,
        "Adreno650v3 of a Thundercomm RB5 (QRB5165, Adreno 650 up to 670 MHz, 8 GiB LPDDR5), driven as a650"
    );
    fake.state().board = Some("somebody,elses\0");
    assert_eq!(attempt(&fake).1, "Adreno650v3, driven as a650");

    fake.state().chip = 0x0703_0001;
    let (ready, description, last) = attempt(&fake);
    assert!(
        !ready && description.contains("newer than A6xx"),
        "{description}"
    );
    assert!(
        last.hint.contains("a630") && last.hint.contains("a690"),
        "{last}"
    );

    let node = "/dev/kgsl-3d0".to_owned();
    for (errno, folders, owner, words) in [
        (
            Errno::NOENT,
            vec![],
            None,
            "neither the kgsl driver is there",
        ),
        (
            Errno::NOENT,
            vec!["/sys/class/kgsl"],
            None,
            "add the device /dev/kgsl-3d0",
        ),
        (
            Errno::NOENT,
            vec!["/sys/bus/platform/drivers/adreno"],
            None,
            "mainline driver `msm`",
        ),
        (Errno::ACCES, vec![], None, "run as shell or root"),
        (
            Errno::ACCES,
            vec![],
            Some(Owner {
                user: 0,
                group: 44,
                mode: 0o660,
            }),
            "number 44",
        ),
        (
            Errno::ACCES,
            vec![],
            Some(Owner {
                user: 0,
                group: 0,
                mode: 0o600,
            }),
            "(600)",
        ),
        (Errno::PERM, vec![], None, "SELinux"),
        (Errno::BUSY, vec![], None, "another process"),
        (Errno::IO, vec![], None, "dmesg"),
    ] {
        let fake = Fake::new();
        let mut state = fake.state();
        state.opens.insert(node.clone(), errno);
        (state.folders, state.owner) = (folders, owner);
        drop(state);
        let (ready, description, last) = attempt(&fake);
        assert!(!ready && last.errno == Some(errno), "{description}");
        assert!(last.hint.contains(words), "{}", last.hint);
        let error = Device::open(&fake.system()).expect_err("refused");
        assert!(error.to_string().contains(words), "{error}");
    }
    // A node that is another driver's.
    let fake = Fake::new();
    fake.state().calls.fail(1, 1, Errno(libc::ENOTTY));
    let (ready, _, last) = attempt(&fake);
    assert!(!ready && last.hint.contains("not kgsl"), "{last}");
    let at = fake.state().calls.len() + 1;
    fake.state().calls.fail(at, 1, Errno(libc::ENOTTY));
    let error = Device::open(&fake.system()).expect_err("refused");
    assert!(error.to_string().contains("not kgsl"), "{error}");
}

#[test]
fn both_clocks_are_read_where_the_kernel_can() {
    let fake = Fake::new();
    let device = open(&fake);
    let clocks = device.clocks().expect("both");
    let later = device.clocks().expect("both");
    assert!(clocks.ticks > 0 && later.ns >= clocks.ns && later.ticks >= clocks.ticks);
    fake.state().clock = None;
    assert_eq!(device.clocks(), None);
}

#[test]
fn every_board_has_a_chip_that_is_driven() {
    for board in hcq_boards::qcom::BOARDS {
        let chip = hcq_qcom::chips::Chip::find(hcq_qcom::chips::ChipId(board.gpu.chip_id));
        assert_eq!(
            chip.expect("driven").number,
            board.gpu.number,
            "{}",
            board.name
        );
    }
}
