//! The driver's calls on a fake kernel.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use hcq_nostd::fault::FaultKind;
use hcq_uapi::msm::{self, BoFlags};

use super::fake::Fake;
use super::{Device, candidate, is_loaded, is_there};
use crate::Error;
use crate::backend::Piece;
use crate::calls::Counted;
use crate::qcom::driver::{Block, Caching, Clocks, Driver, Refusal};
use crate::seam::{Errno, Owner};

const NOTHING: &str = "objects [], queues [], mappings 0, files []";

fn open(fake: &Arc<Fake>) -> Device {
    Device::open(&fake.system()).expect("the fake GPU")
}

fn piece(block: &dyn Block, from: u64, words: usize) -> Piece {
    Piece {
        address: block.address() + from,
        words,
    }
}

#[test]
fn what_the_gpu_is() {
    let fake = Fake::new();
    let device = open(&fake);
    let facts = device.facts();
    assert_eq!(
        (&facts.name, facts.chip, facts.tile_bytes),
        (&None, 0x0605_0002, 1 << 20),
        "without the speed bin"
    );
    let Some(Clocks { ticks: 1000, .. }) = device.clocks() else {
        panic!("{:?}", device.clocks())
    };
    assert!(device.runs_on() && !device.snoops());
    drop(device);
    assert_eq!(fake.state().left(), NOTHING);
}

#[test]
fn memory_is_cached_where_the_gpu_snoops_and_gathered_where_it_does_not() {
    let fake = Fake::new();
    let device = open(&fake);
    let blocks = [
        device.allocate(5000, Caching::Cached).expect("memory"),
        device.allocate(1 << 20, Caching::Gathered).expect("memory"),
        device.allocate(1, Caching::Uncached).expect("memory"),
    ];
    assert_eq!(blocks.each_ref().map(|b| b.len()), [5000, 1 << 20, 1]);
    assert!(blocks.iter().all(|b| b.is_coherent()));
    let flags = |fake: &Fake| -> Vec<(BoFlags, u64)> {
        let state = fake.state();
        state.objects.values().map(|o| (o.flags, o.size)).collect()
    };
    assert_eq!(
        flags(&fake),
        [
            (BoFlags::CACHED_COHERENT, 8192),
            (BoFlags::WC, 1 << 20),
            (BoFlags::WC, 4096)
        ]
    );
    drop(blocks);
    assert!(fake.state().objects.is_empty());
    // Where the GPU cannot it is asked once; an old driver is not asked at all.
    for (version, tries) in [((1, 9), 3), ((1, 7), 2)] {
        let fake = Fake::new();
        fake.state().snoops = false;
        fake.state().version = version;
        let device = open(&fake);
        let _both = [(); 2].map(|()| device.allocate(1, Caching::Cached).expect("memory"));
        assert_eq!(flags(&fake), [(BoFlags::WC, 4096); 2]);
        assert_eq!(fake.state().count_of(msm::DRM_MSM_GEM_NEW), tries);
    }
    for bytes in [1 << 30, usize::MAX, 5 << 30] {
        let refused = device.allocate(bytes, Caching::Cached).expect_err("no");
        assert!(
            matches!(
                refused,
                Error::OutOfMemory {
                    errno: Errno::NOMEM,
                    ..
                }
            ),
            "{refused}"
        );
    }
}

#[test]
fn host_and_gpu_have_one_address_where_they_can() {
    let same = |block: &dyn Block| block.cpu().as_ptr().addr() as u64 == block.address();
    let fake = Fake::new();
    let device = open(&fake);
    let blocks = [4096, 70_000, 1].map(|n| device.allocate(n, Caching::Cached).expect("memory"));
    assert!(blocks.iter().all(|block| same(&**block)));
    assert!(blocks.iter().all(|block| block.address() >= 1 << 32));
    // Kernels without a choice, or with one address space for all.
    for errno in [None, Some(Errno::OPNOTSUPP), Some(Errno::BUSY)] {
        let fake = Fake::new();
        match errno {
            None => drop(fake.state().params.remove(&msm::MSM_PARAM_VA_SIZE)),
            errno => fake.state().no_choice = errno,
        }
        let device = open(&fake);
        let block = device.allocate(100, Caching::Cached).expect("memory");
        assert_eq!(block.address(), 0x5_0000_0000);
        assert!(!same(&*block));
    }
}

#[test]
fn the_process_has_pages_for_copies_alone() {
    let fake = Fake::new();
    let device = open(&fake);
    let mut memory = vec![0u8; 8192];
    let cpu = NonNull::new(memory.as_mut_ptr()).expect("not null");
    let refused = device.import(cpu, 5000, true).expect_err("refused");
    assert!(refused.to_string().contains("takes no memory"), "{refused}");
    let pages = device.import(cpu, 5000, false).expect("to be read");
    assert_eq!((pages.cpu(), pages.len()), (cpu, 5000));
    assert!(pages.address() > 1 << 49, "no GPU has that");
    assert!(fake.state().objects.is_empty());
    let context = device.context(false).expect("a queue");
    let missing = context.submit(&[piece(&*pages, 0, 1)]);
    assert_eq!(missing, Err(Refusal::Driver(Errno::FAULT)));
}

#[test]
fn submissions_name_all_memory() {
    let fake = Fake::new();
    let device = open(&fake);
    let blocks = [0; 3].map(|_| device.allocate(8192, Caching::Gathered).expect("memory"));
    let context = device.context(false).expect("a queue");
    let pieces = [piece(&*blocks[1], 64, 3), piece(&*blocks[0], 4096, 1024)];
    assert_eq!(context.submit(&pieces), Ok(1));
    {
        let state = fake.state();
        let submission = state.submitted.last().expect("one");
        assert_eq!(submission.handles.len(), 3);
        // Of lists that are by address.
        let index = |block: &dyn Block| {
            let lower = blocks.iter().filter(|b| b.address() < block.address());
            lower.count() as u32
        };
        assert_eq!(
            submission.commands,
            [
                (index(&*blocks[1]), 64, 12),
                (index(&*blocks[0]), 4096, 4096)
            ]
        );
        assert_eq!(state.queues.values().next().expect("one").prio, 1);
    }
    assert!(context.wait(1, Duration::from_secs(1)));
    for wrong in [piece(&*blocks[0], 8188, 2), piece(&*blocks[0], 0, 4000)] {
        let refused = context.submit(&[wrong]);
        assert_eq!(refused, Err(Refusal::Driver(Errno::FAULT)));
    }
    let many = vec![pieces[0]; 1025];
    let refused = context.submit(&many);
    assert_eq!(refused, Err(Refusal::Driver(Errno(libc::E2BIG))));
    assert_eq!((context.submitted(), context.retired()), (1, 1));
    let fast = device.context(true).expect_err("no such thing");
    assert!(fast.to_string().contains("fastest clock"), "{fast}");
}

#[test]
fn memory_in_flight_is_given_back_later() {
    let fake = Fake::new();
    let device = open(&fake);
    let words = device.allocate(4096, Caching::Gathered).expect("memory");
    let mut data = device.allocate(4096, Caching::Cached).expect("memory");
    let context = device.context(false).expect("a queue");
    fake.state().holds = true;
    assert_eq!(context.submit(&[piece(&*words, 0, 4)]), Ok(1));
    // The kernel's call would wait for the submission: the fake says so.
    let first = data.address();
    drop(data);
    assert_eq!(fake.state().objects.len(), 2);
    data = device.allocate(4096, Caching::Cached).expect("memory");
    assert_ne!(data.address(), first, "it is not free yet");
    assert_eq!(context.submit(&[piece(&*words, 0, 4)]), Ok(2));
    assert_eq!(
        fake.state().submitted[1].handles.len(),
        2,
        "not the old one"
    );
    fake.state().finish(false);
    fake.state().finish(false);
    let again = device.allocate(4096, Caching::Cached).expect("memory");
    assert_eq!(again.address(), first);
    assert_eq!(fake.state().objects.len(), 3);
    drop((data, again, words));
    context.end();
    assert_eq!(fake.state().objects.len(), 0);
}

#[test]
fn fences_count_across_the_roll_over() {
    for last in [i32::MAX as u32 - 1, u32::MAX] {
        let fake = Fake::new();
        fake.state().last_fence = last;
        fake.state().first_fence = last - 2;
        let device = open(&fake);
        let block = device.allocate(4096, Caching::Gathered).expect("memory");
        let context = device.context(false).expect("a queue");
        let words = [piece(&*block, 0, 8)];
        assert_eq!(context.submit(&words), Ok(1));
        fake.state().holds = true;
        let more: Vec<_> = (0..20).map(|_| context.submit(&words)).collect();
        assert_eq!(more, (2..=21).map(Ok).collect::<Vec<_>>());
        // The kernel has eight; the rest waits here. Of 31 bits, it tells of none from before until one from after is done.
        let known = u64::from(last == u32::MAX);
        assert_eq!(fake.state().submitted.len() as u64, 8 + known);
        assert_eq!((context.submitted(), context.retired()), (21, known));
        assert!(!context.wait(22, Duration::from_millis(1)));
        assert!(!context.wait(3, Duration::from_millis(1)));
        for _ in 0..3 {
            fake.state().finish(false);
        }
        assert!(context.wait(3, Duration::from_secs(10)), "{last:#x}");
        fake.state().holds = false;
        while fake.state().submitted.len() < 21 || context.retired() < 21 {
            let mut state = fake.state();
            if state.left_in_flight() {
                state.finish(false);
            }
        }
        assert!(context.wait(21, Duration::from_secs(10)));
        assert_eq!((context.known(), context.fault()), (21, None));
    }
}

#[test]
fn a_submission_that_hung_is_a_fault_however_it_shows() {
    for way in 0..3 {
        let fake = Fake::new();
        let device = open(&fake);
        let block = device.allocate(4096, Caching::Gathered).expect("memory");
        let context = device.context(false).expect("a queue");
        let words = [piece(&*block, 0, 8)];
        fake.state().holds = true;
        context.submit(&words).expect("submitted");
        context.submit(&words).expect("submitted");
        assert_eq!(context.look(), None);
        fake.state().finish(true);
        fake.state().finish(false);
        let record = match way {
            0 => context.look(),
            1 => {
                assert!(!context.wait(2, Duration::from_secs(1)));
                context.fault()
            }
            _ => {
                assert_eq!(context.retired(), 0);
                context.fault()
            }
        };
        let record = record.expect("a fault");
        assert_eq!((record.kind, record.address), (FaultKind::Hardware, 0));
        assert_eq!(record.detail, 1 << 32 | 1);
        assert_eq!(context.submit(&words), Err(Refusal::Fault));
        context.end();
        // The next queue has none of it, and others' faults are none of its own.
        fake.state().holds = false;
        let next = device.context(false).expect("a queue");
        fake.state().params.insert(msm::MSM_PARAM_FAULTS, 9);
        let number = next.submit(&words).expect("submitted");
        assert!(next.wait(number, Duration::from_secs(1)));
        assert_eq!((next.look(), next.fault()), (None, None));
    }
}

#[test]
fn what_waits_when_a_queue_ends_is_given_up() {
    let fake = Fake::new();
    let device = open(&fake);
    let block = device.allocate(4096, Caching::Gathered).expect("memory");
    let context = device.context(false).expect("a queue");
    let words = [piece(&*block, 0, 8)];
    fake.state().holds = true;
    for _ in 0..10 {
        context.submit(&words).expect("submitted");
    }
    context.end();
    context.end();
    assert!(matches!(context.submit(&words), Err(Refusal::Fault)));
    assert!(!context.wait(10, Duration::from_secs(10)));
    assert_eq!(fake.state().submitted.len(), 8);
    assert!(fake.state().queues.is_empty());
}

/// Everything that the driver does, once.
fn everything(fake: &Arc<Fake>) -> Result<(), Error> {
    let device = Device::open(&fake.system())?;
    let block = device.allocate(8192, Caching::Cached)?;
    let uncached = device.allocate(100, Caching::Uncached)?;
    let context = device.context(false)?;
    let refused = |refusal| match refusal {
        Refusal::Fault => Error::Internal("in error"),
        Refusal::Driver(errno) => Error::System {
            operation: "submit",
            errno,
        },
    };
    let words = [piece(&*block, 0, 1)];
    let number = context.submit(&words).map_err(refused)?;
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
            assert_eq!(state.left(), NOTHING);
            state.calls.to_vec()
        };
        assert!(whole.len() > 20, "{whole:?}");
        assert!(whole.contains(&Counted::Mmap) && whole.contains(&Counted::Open));
        for (at, call) in whole.iter().enumerate() {
            for errno in [Errno::NOMEM, Errno::INVAL, Errno::IO, Errno(libc::EDEADLK)] {
                let fake = Fake::new();
                fake.state().snoops = snoops;
                fake.state().calls.fail(at, 1, errno);
                // What gives back is tried again, what only looks may do without.
                let _ = everything(&fake);
                let left = fake.state().left();
                assert_eq!(left, NOTHING, "call {at}, {call:?}, {errno}");
            }
        }
    }
}

#[test]
fn lists_say_why_not() {
    let fake = Fake::new();
    let list = |fake: &Arc<Fake>| {
        let candidate = candidate(&**fake);
        let last = candidate.attempts.last().cloned();
        (candidate.ready, candidate.description, last)
    };
    let (ready, description, _) = list(&fake);
    assert!(
        ready && description.contains("through msm, driven as a650"),
        "{description}"
    );
    assert!(
        fake.state().left().ends_with("files []"),
        "nothing stays open"
    );
    fake.state()
        .params
        .insert(msm::MSM_PARAM_CHIP_ID, 0x0703_0001);
    let (ready, description, last) = list(&fake);
    assert!(
        !ready && description.contains("newer than A6xx"),
        "{description}"
    );
    let last = last.expect("tried");
    assert!(
        last.hint.contains("a630") && last.hint.contains("a690"),
        "{last}"
    );

    let group = |mode| {
        Some(Owner {
            user: 0,
            group: 44,
            mode,
        })
    };
    for (errno, owner, words) in [
        (Errno::NOENT, None, "add the device /dev/dri/renderD128"),
        (Errno::ACCES, None, "join the group `render`"),
        (Errno::ACCES, group(0o660), "number 44"),
        (Errno::ACCES, group(0o600), "(600)"),
        (Errno::PERM, None, "security policy"),
        (Errno::IO, None, "dmesg"),
    ] {
        let fake = Fake::new();
        fake.state()
            .opens
            .insert("/dev/dri/renderD128".into(), errno);
        fake.state().owner = owner;
        let (ready, description, last) = list(&fake);
        let last = last.expect("tried");
        assert!(!ready && last.errno == Some(errno), "{description}");
        assert!(last.hint.contains(words), "{}", last.hint);
        let error = Device::open(&fake.system()).expect_err("refused");
        assert!(error.to_string().contains(words), "{error}");
    }
    // An old driver, and one without firmware.
    for (version, refused, words) in [((1, 4), 0, "Linux 5.3"), ((1, 9), 1, "firmware")] {
        let fake = Fake::new();
        fake.state().version = version;
        if refused > 0 {
            fake.state().calls.fail(2, 1, Errno::NXIO);
        }
        let error = Device::open(&fake.system()).expect_err("refused");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn nodes_of_others_are_left_alone() {
    let fake = Fake::new();
    fake.state().driver = "amdgpu";
    assert!(is_there(&*fake) && !candidate(&*fake).ready);
    let error = Device::open(&fake.system()).expect_err("refused");
    assert!(error.to_string().contains("no GPU behind"), "{error}");
    // The one behind a foreign one, and in the kernel's list if there is no folder of nodes.
    let fake = Fake::new();
    let foreign = "/dev/dri/renderD12".to_owned();
    fake.state().opens.insert(foreign, Errno::ACCES);
    fake.state().folders.insert(
        "/sys/class/drm",
        vec!["renderD128", "renderD12", "card0-HDMI-A-1"],
    );
    fake.state().folders.remove("/dev/dri");
    drop(open(&fake));
    fake.state()
        .folders
        .remove("/sys/bus/platform/drivers/adreno");
    assert!(!is_loaded(&*fake) && !is_there(&*fake));
    let before = fake.state().calls.len();
    assert!(candidate(&*fake).attempts.is_empty());
    assert_eq!(fake.state().calls.len(), before, "nothing is opened");
}
