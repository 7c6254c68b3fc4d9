//! Hosts that sleep, and what wakes them.

use std::sync::atomic::AtomicUsize;

use super::*;

const CHANNELS: u32 = uapi::NV2080_NOTIFIERS_FIFO_EVENT_MTHD
    | uapi::NV01_EVENT_NONSTALL_INTR
    | uapi::NV01_EVENT_WITHOUT_EVENT_DATA;
const ERRORS: u32 = uapi::NV2080_NOTIFIERS_RC_ERROR | uapi::NV01_EVENT_WITHOUT_EVENT_DATA;
/// Longer than any of this takes.
const LONG: Duration = Duration::from_secs(60);

/// Waits until a thread does what it should.
fn until(ready: impl Fn() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < LONG, "it never does");
        std::thread::yield_now();
    }
}

#[test]
fn a_gpus_file_takes_events_as_long_as_the_gpu_is_open() {
    let fake = Fake::new(2);
    let first = opened(&fake);
    {
        let state = fake.state();
        let told: Vec<u32> = state.events.values().map(|(_, index)| *index).collect();
        assert_eq!(told, [CHANNELS, ERRORS]);
        let subdevices = state.of_class(uapi::NV20_SUBDEVICE_0);
        let asked: Vec<_> = state.asked.iter().copied().collect();
        assert_eq!(
            asked,
            [(subdevices[0], uapi::NV2080_NOTIFIERS_RC_ERROR)],
            "errors are told each time"
        );
        let files: Vec<&String> = state
            .os_events
            .values()
            .map(|file| &state.open_files[file])
            .collect();
        assert_eq!(files, ["/dev/nvidia1"], "the first on the bus");
    }
    // Devices of one GPU share its events.
    let second = opened(&fake);
    assert_eq!(fake.state().events.len(), 2);
    drop(first);
    assert_eq!(fake.state().events.len(), 2);
    drop(second);
    is_empty(&fake);
}

#[test]
fn an_interrupt_ends_a_sleep() {
    let fake = Fake::new(1);
    let (backend, _port) = opened(&fake);
    let events = inside(&backend)
        .gpu
        .events()
        .expect("a driver that has them");
    let is_set = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let start = Instant::now();
            let came = events.sleep(LONG, || is_set.load(Ordering::Acquire));
            (came, start.elapsed())
        });
        until(|| fake.state().polls == 1);
        is_set.store(true, Ordering::Release);
        fake.state().raise(CHANNELS);
        let (came, slept) = sleeper.join().expect("wakes");
        assert_eq!(came, Ok(true));
        assert!(slept < LONG);
    });
    assert_eq!(fake.state().polls, 1);
    // Who sees what it waits for does not sleep at all.
    assert_eq!(events.sleep(LONG, || true), Ok(true));
    assert_eq!(fake.state().polls, 1);
    // Less than a millisecond is not nothing.
    assert_eq!(events.sleep(Duration::from_micros(1), || false), Ok(false));
    assert_eq!(events.sleep(Duration::ZERO, || false), Ok(false));
}

#[test]
fn one_poll_wakes_all_who_sleep() {
    const SLEEPERS: usize = 4;
    let fake = Fake::new(1);
    let (backend, _port) = opened(&fake);
    let events = inside(&backend)
        .gpu
        .events()
        .expect("a driver that has them");
    let value = AtomicUsize::new(0);
    let gone = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for wanted in 1..=SLEEPERS {
            let (value, gone) = (&value, &gone);
            scope.spawn(move || {
                let is_over = || value.load(Ordering::Acquire) >= wanted;
                let start = Instant::now();
                while !is_over() {
                    assert!(events.sleep(LONG, is_over).is_ok());
                }
                assert!(start.elapsed() < LONG);
                gone.fetch_add(1, Ordering::Release);
            });
        }
        // Each interrupt is reported to one of them, whoever it is, and is another's.
        for done in 1..=SLEEPERS {
            value.store(done, Ordering::Release);
            fake.state().raise(CHANNELS);
            until(|| gone.load(Ordering::Acquire) == done);
        }
    });
    // For each interrupt one that takes it, one that waits for the next; not one after the other all the time.
    let polls = fake.state().polls;
    assert!((1..=3 * SLEEPERS).contains(&polls), "{polls}");
}

#[test]
fn a_wait_looks_for_errors_when_it_is_woken() {
    let fake = Fake::new(1);
    let (backend, _port) = opened(&fake);
    let nv = inside(&backend);
    let now = nv.now_ns();
    // Somebody has just looked, and does so all the time.
    nv.last_look
        .store(now + LONG.as_nanos() as u64, Ordering::Relaxed);
    assert_eq!(nv.fault(), None);
    super::queues::note(&fake, nv, 0, uapi::ROBUST_CHANNEL_PBDMA_ERROR);
    assert_eq!(nv.fault(), None, "it is too soon");
    fake.state().raise(ERRORS);
    assert!(!nv.pass_time(1, LONG, || false));
    assert!(nv.fault().is_some());
}

#[test]
fn hosts_nap_where_no_event_wakes_them() {
    let naps = |fake: &Arc<Fake>| {
        let (backend, _port) = opened(fake);
        let nv = inside(&backend);
        for round in [0, 1, 2, 3, 31, u32::MAX] {
            assert!(!nv.pass_time(round, LONG, || false));
            assert!(nv.pass_time(round, LONG, || true));
        }
        nv.gpu.events().is_some()
    };
    // An interrupt of anybody's, all the time; none at all; none to be had; a file that cannot be polled.
    let fake = Fake::new(1);
    assert!(naps(&fake));
    assert_eq!(fake.state().polls, 5);
    fake.state().poll_fails = Some(Errno::NODEV);
    assert!(naps(&fake));
    assert_eq!(fake.state().polls, 10);
    let fake = Fake::new(1);
    // The opened GPU asks for a file's name, and is refused.
    let calls = {
        let probe = Fake::new(1);
        drop(opened(&probe));
        probe.state().calls.to_vec()
    };
    let call = Counted::Rm(uapi::NV_ESC_ALLOC_OS_EVENT, 0);
    let at = calls.iter().position(|c| *c == call).expect("asked for");
    fake.state()
        .calls
        .fail(at, 1, Failure::Status(uapi::NV_ERR_NOT_SUPPORTED));
    assert!(!naps(&fake));
    assert_eq!(fake.state().polls, 0);
    is_empty(&fake);
}

#[cfg(feature = "sim")]
mod simulated {
    use super::*;
    use crate::{Commands, Device};

    /// Every generation, every branch of the driver.
    const NAMES: [&str; 7] = [
        "sim:nv-ampere,driver=535.288.01",
        "sim:nv-ada,driver=550.163.01",
        "sim:nv-hopper,driver=565.77",
        "sim:nv-hopper,driver=570.211.01",
        "sim:nv-hopper",
        "sim:nv-blackwell,driver=590.48.01",
        "sim:nv-blackwell,driver=595.45.04",
    ];

    fn nv(device: &Device) -> &Nv {
        inside(&device.inner.backend)
    }

    /// Sleeps until nothing but an event ends it.
    fn sleep(device: &Device, limit: Duration) -> bool {
        let events = nv(device).gpu.events().expect("a driver that has them");
        events.sleep(limit, || false).expect("a file")
    }

    /// A queue of each kind, each with an index of its own in faults.
    fn recordings(device: &Device) -> [(u16, Commands); 2] {
        let (compute, copy) = (device.compute_queue(1), device.copy_queue(0));
        assert_eq!(device.queue_counts(), (2, 1));
        [
            (1, compute.expect("a queue").record()),
            (2, copy.expect("a queue").record()),
        ]
    }

    #[test]
    fn every_submission_ends_with_an_interrupt() {
        for name in NAMES {
            let device = Device::open(name).expect(name);
            let cell = device.alloc::<u32>(1).expect("memory");
            for (queue, mut commands) in recordings(&device) {
                for round in 1..4u32 {
                    while sleep(&device, Duration::ZERO) {}
                    commands.write32(cell.address(), round).expect("a word");
                    let point = commands.submit().expect("room");
                    assert!(sleep(&device, LONG), "{name}, queue {queue}");
                    assert!(point.is_done().expect("no fault"), "{name}, queue {queue}");
                }
            }
        }
    }

    #[test]
    fn an_error_wakes_and_tells_its_address() {
        for name in NAMES {
            let device = Device::open(name).expect(name);
            for (queue, mut commands) in recordings(&device) {
                while sleep(&device, Duration::ZERO) {}
                assert_eq!(device.fault(), None);
                commands.write32(0x1000u64, 1u32).expect("a word");
                let _point = commands.submit().expect("room");
                assert!(sleep(&device, LONG), "{name}, queue {queue}");
                nv(&device).last_look.store(0, Ordering::Relaxed);
                let fault = device.fault().expect("told by now");
                let told = (fault.kind, fault.engine, fault.address & !0xfff);
                assert_eq!(told, (FaultKind::Memory, queue, 0x1000), "{name}");
                device.recover().expect("new channels");
            }
        }
    }
}
