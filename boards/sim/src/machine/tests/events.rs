//! Events: their page, their waits, across threads.

use super::*;

const SIGNAL: u32 = KFD_IOC_EVENT_SIGNAL;
const NONE: u32 = u32::MAX;

#[test]
fn the_first_event_brings_the_page() {
    let rig = Rig::new("amd-gfx1100");
    let small = rig.buffer(0, 16384, GTT);
    let page = rig.buffer(0, 32768, GTT | F::UNCACHED);
    // `kfd_kmap_event_page`, `kfd_event_page_set`.
    assert_eq!(
        rig.event(SIGNAL, true, 5 << 32),
        Err(libc::EINVAL),
        "no such GPU"
    );
    assert_eq!(
        rig.event(SIGNAL, true, page.handle + 9),
        Err(libc::EINVAL),
        "no such memory"
    );
    assert_eq!(
        rig.event(SIGNAL, true, small.handle),
        Err(libc::EINVAL),
        "too small"
    );
    let first = rig.event(SIGNAL, true, page.handle).expect("an event");
    assert_eq!(
        (
            first.event_id,
            first.event_slot_index,
            first.event_trigger_data
        ),
        (1, 1, 1)
    );
    assert_eq!(
        first.event_page_offset,
        mmap_offset(MmapType::Events, 0, 0).expect("fits")
    );
    assert_eq!(word(page.address + 8).load(Ordering::Acquire), u64::MAX);
    assert_eq!(
        rig.event(SIGNAL, true, page.handle),
        Err(libc::EINVAL),
        "there is one"
    );
    assert_eq!(rig.unmap(page.handle, &[0]), Ok(1));
    assert_eq!(
        rig.free(page.handle),
        Err(libc::EPERM),
        "it stays with the process"
    );
    assert_eq!(rig.event(SIGNAL, true, 0).expect("an event").event_id, 2);
    let memory = rig.event(KFD_IOC_EVENT_MEMORY, true, 0).expect("an event");
    assert_eq!(memory.event_id, 0x4000_0000);
    assert_eq!(
        rig.event(KFD_IOC_EVENT_HW_EXCEPTION, true, 0)
            .expect("an event")
            .event_id,
        0x4000_0001
    );
    // Slot 0 is nobody's.
    for number in 3..4096 {
        assert_eq!(
            rig.event(SIGNAL, false, 0).expect("an event").event_id,
            number
        );
    }
    assert_eq!(rig.event(SIGNAL, false, 0), Err(libc::ENOSPC));
    rig.call(&mut kfd_ioctl_destroy_event_args {
        event_id: 77,
        pad: 0,
    })
    .expect("is there");
    assert_eq!(rig.event(SIGNAL, false, 0).expect("an event").event_id, 77);
}

#[test]
fn the_kernels_own_page_has_few_slots_until_it_is_mapped() {
    let rig = Rig::readers("amd-gfx1201");
    for number in 1..256 {
        assert_eq!(
            rig.event(SIGNAL, true, 0).expect("an event").event_id,
            number
        );
    }
    assert_eq!(rig.event(SIGNAL, true, 0), Err(libc::ENOSPC));
    let offset = mmap_offset(MmapType::Events, 0, 0).expect("fits");
    let map = |len| {
        // SAFETY: no fixed address.
        unsafe { rig.machine.mmap(None, len, true, true, rig.kfd, offset) }
    };
    assert_eq!(map(65536), Err(libc::EINVAL));
    let page = map(32768).expect("mapped").as_ptr().expose_provenance() as u64;
    let last = rig.event(SIGNAL, true, 0).expect("an event");
    assert_eq!(last.event_id, 256);
    // The engine writes its slot through memory that it sees; here the host does it for it.
    let queue = rig.queue(0, KFD_IOC_QUEUE_TYPE_COMPUTE);
    word(page + 256 * 8).store(256, Ordering::Release);
    queue.push(&[Packet::Interrupt(256)]);
    let mut events = [wanted(256)];
    assert_eq!(
        rig.wait(&mut events, false, 20_000),
        Ok(KFD_IOC_WAIT_RESULT_COMPLETE)
    );
    assert_eq!(
        word(page + 256 * 8).load(Ordering::Acquire),
        u64::MAX,
        "taken"
    );
}

#[test]
fn events_that_the_kernel_does_not_know() {
    let rig = Rig::new("amd-gfx1100");
    let memory = rig
        .event(KFD_IOC_EVENT_MEMORY, true, 0)
        .expect("an event")
        .event_id;
    let set = |event_id| rig.call(&mut kfd_ioctl_set_event_args { event_id, pad: 0 });
    let reset = |event_id| rig.call(&mut kfd_ioctl_reset_event_args { event_id, pad: 0 });
    let destroy = |event_id| rig.call(&mut kfd_ioctl_destroy_event_args { event_id, pad: 0 });
    for number in [0, 1, NONE] {
        assert_eq!(
            (set(number), reset(number), destroy(number)),
            (Err(libc::EINVAL), Err(libc::EINVAL), Err(libc::EINVAL))
        );
        assert_eq!(
            rig.wait(&mut [wanted(memory), wanted(number)], false, 0),
            Err(libc::EINVAL)
        );
    }
    assert_eq!(
        (set(memory), reset(memory)),
        (Err(libc::EINVAL), Err(libc::EINVAL)),
        "not the host's to signal"
    );
    let mut args = kfd_ioctl_wait_events_args {
        num_events: 1,
        wait_result: 99,
        ..Default::default()
    };
    assert_eq!(rig.call(&mut args), Err(libc::EFAULT));
    assert_eq!(args.wait_result, KFD_IOC_WAIT_RESULT_FAIL);
    args.num_events = u32::MAX;
    assert_eq!(rig.call(&mut args), Err(libc::ENOMEM));
    assert_eq!(rig.wait(&mut [], true, 0), Ok(KFD_IOC_WAIT_RESULT_COMPLETE));
    assert_eq!(destroy(memory), Ok(()));
}

#[test]
fn any_all_and_what_resets_itself() {
    let rig = Rig::new("amd-gfx1100");
    let (a, b) = (
        rig.event(SIGNAL, true, 0).expect("a"),
        rig.event(SIGNAL, false, 0).expect("b"),
    );
    let (a, b) = (a.event_id, b.event_id);
    let set = |event_id| {
        rig.call(&mut kfd_ioctl_set_event_args { event_id, pad: 0 })
            .expect("is there")
    };
    let (complete, timeout) = (
        Ok(KFD_IOC_WAIT_RESULT_COMPLETE),
        Ok(KFD_IOC_WAIT_RESULT_TIMEOUT),
    );
    let both = || [wanted(a), wanted(b)];
    let start = Instant::now();
    assert_eq!(rig.wait(&mut both(), false, 0), timeout);
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(rig.wait(&mut both(), false, 20), timeout);
    assert!(start.elapsed() >= Duration::from_millis(20));
    set(b);
    assert_eq!(rig.wait(&mut both(), false, NONE), complete);
    assert_eq!(rig.wait(&mut both(), true, 0), timeout);
    assert_eq!(
        rig.wait(&mut [wanted(b)], false, 0),
        complete,
        "it stays signaled"
    );
    set(a);
    assert_eq!(rig.wait(&mut both(), true, 0), complete);
    assert_eq!(
        rig.wait(&mut [wanted(a)], false, 0),
        timeout,
        "it has reset itself"
    );
    rig.call(&mut kfd_ioctl_reset_event_args {
        event_id: b,
        pad: 0,
    })
    .expect("is there");
    assert_eq!(rig.wait(&mut [wanted(b)], false, 0), timeout);
    // Ages: a count that the caller has not seen ends the wait, whoever took the signal.
    let mut aged = [wanted(a)];
    aged[0].data = kfd_hsa_signal_event_data { last_event_age: 1 }.into();
    assert_eq!(rig.wait(&mut aged, false, 0), complete);
    assert_eq!(aged[0].data.signal_event_data().last_event_age, 2);
    assert_eq!(rig.wait(&mut aged, false, 0), timeout);
}

#[test]
fn waits_end_from_other_threads() {
    let rig = Rig::new("amd-gfx1100");
    let a = rig.event(SIGNAL, true, 0).expect("a").event_id;
    let b = rig.event(SIGNAL, true, 0).expect("b").event_id;
    std::thread::scope(|scope| {
        let waits: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| rig.wait(&mut [wanted(a)], false, NONE)))
            .collect();
        let fails = scope.spawn(|| rig.wait(&mut [wanted(b)], false, NONE));
        std::thread::sleep(Duration::from_millis(30));
        rig.call(&mut kfd_ioctl_set_event_args {
            event_id: a,
            pad: 0,
        })
        .expect("is there");
        for wait in waits {
            assert_eq!(
                wait.join().expect("no panic"),
                Ok(KFD_IOC_WAIT_RESULT_COMPLETE),
                "all who wait are woken"
            );
        }
        rig.call(&mut kfd_ioctl_destroy_event_args {
            event_id: b,
            pad: 0,
        })
        .expect("is there");
        assert_eq!(fails.join().expect("no panic"), Err(libc::EIO));
        // The process ends under a wait.
        let ended = scope.spawn(|| rig.wait(&mut [wanted(a)], false, NONE));
        std::thread::sleep(Duration::from_millis(30));
        rig.machine.close(rig.kfd);
        assert_eq!(ended.join().expect("no panic"), Err(libc::EIO));
    });
}

#[test]
fn interrupts_find_their_event_by_its_slot() {
    for kind in [KFD_IOC_QUEUE_TYPE_COMPUTE, KFD_IOC_QUEUE_TYPE_SDMA] {
        let rig = Rig::readers("amd-gfx942");
        let page = rig.buffer(0, 32768, GTT);
        let a = rig.event(SIGNAL, true, page.handle).expect("a").event_id;
        let b = rig.event(SIGNAL, true, 0).expect("b").event_id;
        let queue = rig.queue(0, kind);
        let slot = |event: u32| page.address + u64::from(event) * 8;
        // Without its slot written an interrupt says nothing.
        queue.push(&[Packet::Interrupt(a)]);
        soon("the interrupt", || queue.read() == 1);
        assert_eq!(
            rig.wait(&mut [wanted(a)], false, 0),
            Ok(KFD_IOC_WAIT_RESULT_TIMEOUT)
        );
        // With it, the event is found; with another's number, by the slot.
        queue.push(&[Packet::Store(slot(a), a.into()), Packet::Interrupt(a)]);
        assert_eq!(
            rig.wait(&mut [wanted(a)], false, 20_000),
            Ok(KFD_IOC_WAIT_RESULT_COMPLETE)
        );
        queue.push(&[Packet::Store(slot(b), 7), Packet::Interrupt(3000)]);
        assert_eq!(
            rig.wait(&mut [wanted(a), wanted(b)], false, 20_000),
            Ok(KFD_IOC_WAIT_RESULT_COMPLETE)
        );
        assert_eq!(word(slot(b)).load(Ordering::Acquire), u64::MAX);
        // A compute queue's 0 is dropped; a copy queue's 0 makes the kernel look at all slots.
        queue.push(&[Packet::Store(slot(a), 7), Packet::Interrupt(0)]);
        soon("the interrupt", || queue.read() == 7);
        let expected = if kind == KFD_IOC_QUEUE_TYPE_SDMA {
            KFD_IOC_WAIT_RESULT_COMPLETE
        } else {
            KFD_IOC_WAIT_RESULT_TIMEOUT
        };
        assert_eq!(rig.wait(&mut [wanted(a)], false, 0), Ok(expected));
    }
}
