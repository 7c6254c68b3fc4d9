//! Queues that stop: who is told what.

use super::*;

const SDMA: u32 = KFD_IOC_QUEUE_TYPE_SDMA;
const COMPUTE: u32 = KFD_IOC_QUEUE_TYPE_COMPUTE;

fn memory_event(rig: &Rig) -> kfd_event_data {
    wanted(
        rig.event(KFD_IOC_EVENT_MEMORY, true, 0)
            .expect("an event")
            .event_id,
    )
}

#[test]
fn a_memory_fault_is_told_and_stops_the_process_on_that_gpu() {
    let rig = Rig::readers("amd-gfx1100,gpus=2");
    let reading = rig.buffer(0, 4096, F::GTT);
    type Told = fn(&kfd_memory_exception_failure) -> u32;
    let table: [(Packet, u64, Told); 3] = [
        (Packet::Store(0x7_1234_5678, 1), 0x7_1234_5000, |failure| {
            failure.NotPresent
        }),
        (
            Packet::Store(reading.address + 8, 1),
            reading.address,
            |failure| failure.ReadOnly,
        ),
        (Packet::Run(reading.address), reading.address, |failure| {
            failure.NoExecute
        }),
    ];
    for (index, (packet, va, told)) in table.into_iter().enumerate() {
        // A fault cannot be undone within a process: each case has its own.
        let rig = Rig::readers("amd-gfx1100,gpus=2");
        let own = rig.buffer(0, 4096, F::GTT);
        let packet = match packet {
            Packet::Store(address, value) if index == 1 => {
                Packet::Store(address - reading.address + own.address, value)
            }
            Packet::Run(_) => Packet::Run(own.address),
            other => other,
        };
        let va = if index == 0 { va } else { own.address };
        let mut event = [memory_event(&rig)];
        let (bad, other) = (rig.queue(0, SDMA), rig.queue(0, COMPUTE));
        let elsewhere = rig.queue(1, SDMA);
        bad.push(&[Packet::Interrupt(0), packet, Packet::Interrupt(0)]);
        assert_eq!(
            rig.wait(&mut event, false, 20_000),
            Ok(KFD_IOC_WAIT_RESULT_COMPLETE)
        );
        let data = event[0].data.memory_exception_data();
        assert_eq!(
            (data.gpu_id, data.va, data.ErrorType),
            (rig.ids[0], va, KFD_MEM_ERR_NO_RAS)
        );
        assert_eq!(told(&data.failure), 1);
        let failure = data.failure;
        assert_eq!(
            failure.NotPresent + failure.ReadOnly + failure.NoExecute + failure.imprecise,
            1
        );
        assert_eq!(bad.read(), 1, "the packet at fault is not done");
        // Nothing of the process runs on that GPU any more, new queues neither; the other GPU goes on.
        other.push(&[Packet::Interrupt(0)]);
        let new = rig.queue(0, SDMA);
        new.push(&[Packet::Interrupt(0)]);
        elsewhere.push(&[Packet::Interrupt(0)]);
        soon("the other GPU's packet", || elsewhere.read() == 1);
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!((other.read(), new.read()), (0, 0));
        let reports = rig.machine.reports();
        assert!(reports[0].contains("memory violation"), "{reports:?}");
        assert!(
            reports[0].contains("packet 1"),
            "the packet is named: {reports:?}"
        );
        assert!(reports[1].contains("evicted"), "{reports:?}");
        for queue in [&bad, &other, &new] {
            rig.destroy(queue.args.queue_id).expect("still there");
        }
        // A new process is a new start.
        rig.machine.close(rig.kfd);
        let again = Rig {
            kfd: rig
                .machine
                .open(Path::new("/dev/kfd"), true)
                .expect("opens"),
            machine: Arc::clone(&rig.machine),
            nodes: rig.nodes.clone(),
            ids: rig.ids.clone(),
        };
        let mut acquire = kfd_ioctl_acquire_vm_args {
            drm_fd: again.nodes[0] as u32,
            gpu_id: again.ids[0],
        };
        again.call(&mut acquire).expect("address space");
        let fresh = again.queue(0, SDMA);
        fresh.push(&[Packet::Interrupt(0)]);
        soon("a packet", || fresh.read() == 1);
    }
}

#[test]
fn an_illegal_packet_resets_the_gpu() {
    let rig = Rig::readers("amd-gfx1100");
    let mut event = [wanted(
        rig.event(KFD_IOC_EVENT_HW_EXCEPTION, false, 0)
            .expect("an event")
            .event_id,
    )];
    let (bad, other) = (rig.queue(0, COMPUTE), rig.queue(0, SDMA));
    bad.push(&[Packet::Illegal]);
    assert_eq!(
        rig.wait(&mut event, false, 20_000),
        Ok(KFD_IOC_WAIT_RESULT_COMPLETE)
    );
    let data = event[0].data.hw_exception_data();
    let expected = kfd_hsa_hw_exception_data {
        reset_type: KFD_HW_EXCEPTION_WHOLE_GPU_RESET,
        reset_cause: KFD_HW_EXCEPTION_GPU_HANG,
        memory_lost: 1,
        gpu_id: rig.ids[0],
    };
    assert_eq!(data, expected);
    other.push(&[Packet::Interrupt(0)]);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(other.read(), 0, "every queue of the GPU has stopped");
    assert!(rig.machine.reports()[0].contains("illegal packet: no packet is 9"));
    // Queues made after the reset run.
    let new = rig.queue(0, SDMA);
    new.push(&[Packet::Interrupt(0)]);
    soon("a packet", || new.read() == 1);
}

#[test]
fn the_runtime_is_told_through_the_save_area() {
    let rig = Rig::readers("amd-gfx942");
    let mut runtime = kfd_ioctl_runtime_enable_args {
        mode_mask: KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK,
        ..Default::default()
    };
    rig.call(&mut runtime).expect("enabled");
    let signal = rig
        .event(KFD_IOC_EVENT_SIGNAL, true, 0)
        .expect("an event")
        .event_id;
    let queue = rig.queue(0, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL);
    let payload = rig.buffer(0, 4096, GTT);
    let area = queue.area.expect("has one").address;
    // `kfd_context_save_area_header`: the payload's address at 24, the event at 32.
    word(area + 24).store(payload.address, Ordering::Relaxed);
    word(area + 32).store(signal.into(), Ordering::Relaxed);
    queue.push(&[Packet::Illegal]);
    assert_eq!(
        rig.wait(&mut [wanted(signal)], false, 20_000),
        Ok(KFD_IOC_WAIT_RESULT_COMPLETE)
    );
    let bits = word(payload.address).load(Ordering::Acquire);
    assert_eq!(bits, kfd_ec_mask(EC_QUEUE_PACKET_UNSUPPORTED));
    assert!(rig.machine.reports()[1].contains("no event for hardware exceptions"));
}

#[test]
fn a_panic_in_an_engine_is_a_fault_and_not_the_end() {
    struct Broken;
    impl Engine for Broken {
        fn step(&mut self, _: &mut dyn Host) -> Step {
            panic!("this engine is broken")
        }
    }
    let rig = Rig::new("amd-gfx1100");
    let event = rig
        .event(KFD_IOC_EVENT_HW_EXCEPTION, false, 0)
        .expect("an event")
        .event_id;
    rig.machine.engines(Box::new(|_| Some(Box::new(Broken))));
    let queue = rig.queue(0, SDMA);
    assert_eq!(
        rig.wait(&mut [wanted(event)], false, 20_000),
        Ok(KFD_IOC_WAIT_RESULT_COMPLETE)
    );
    let reports = rig.machine.reports();
    assert_eq!(reports, ["the engines have stopped: this engine is broken"]);
    rig.destroy(queue.args.queue_id).expect("still there");
    // Better engines run.
    rig.machine.engines(Box::new(|request| {
        Some(Box::new(Reader {
            request: *request,
            read: 0,
        }))
    }));
    let queue = rig.queue(0, SDMA);
    queue.push(&[Packet::Interrupt(0)]);
    soon("a packet", || queue.read() == 1);
}
