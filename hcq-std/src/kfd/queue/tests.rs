use super::*;
use crate::kfd::Process;
use crate::kfd::fake::{Fake, GPU};

fn gpu(fake: &Arc<Fake>) -> Arc<Gpu> {
    let process = Process::open(&fake.system()).expect("there");
    Gpu::open(&process, 0).expect("there")
}

fn words(bo: &Bo, count: usize) -> Vec<u32> {
    let cpu = bo.cpu().expect("host-visible").cast::<u32>();
    // SAFETY: mapped, at least a page.
    unsafe { std::slice::from_raw_parts(cpu.as_ptr(), count) }.to_vec()
}

#[test]
fn each_kind_has_what_the_kernel_wants() {
    let fake = Fake::new(&[GPU]);
    let gpu = gpu(&fake);
    let create = |kind| {
        gpu.create_queue(&QueueRequest::new(kind, 8192))
            .expect("room")
    };
    let asked = |queue: &HwQueue| fake.state().queues[&queue.id()];
    let pm4 = create(QueueType::Pm4);
    let a = asked(&pm4);
    assert_eq!(a.queue_type, kfd::KFD_IOC_QUEUE_TYPE_COMPUTE);
    assert_eq!(
        (a.ring_base_address, a.ring_size),
        (pm4.ring().address(), 8192)
    );
    assert_eq!(a.write_pointer_address, pm4.pointers().address() + 56);
    assert_eq!(a.read_pointer_address, pm4.pointers().address() + 128);
    assert_eq!((a.queue_percentage, a.queue_priority), (100, 7));
    assert_eq!(a.eop_buffer_size, 4096);
    let node = gpu.node();
    assert_eq!(
        (a.ctx_save_restore_size, a.ctl_stack_size),
        (node.cwsr_bytes, node.ctl_stack_bytes)
    );
    assert_ne!(a.ctx_save_restore_address, 0);
    // AQL queues of this chip have no end-of-pipe buffer.
    let aql = create(QueueType::Aql);
    let a = asked(&aql);
    assert_eq!(a.queue_type, kfd::KFD_IOC_QUEUE_TYPE_COMPUTE_AQL);
    assert_eq!((a.eop_buffer_address, a.eop_buffer_size), (0, 0));
    let sdma = create(QueueType::Sdma { engine: Some(1) });
    let a = asked(&sdma);
    assert_eq!(
        (a.queue_type, a.sdma_engine_id),
        (kfd::KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, 1)
    );
    assert_eq!((a.ctx_save_restore_address, a.eop_buffer_address), (0, 0));
    let xgmi = create(QueueType::SdmaXgmi);
    assert_eq!(asked(&xgmi).queue_type, kfd::KFD_IOC_QUEUE_TYPE_SDMA_XGMI);
    // All doorbells lie in one mapping, each at its own place.
    let at = |queue: &HwQueue| queue.doorbell().as_ptr().addr() - 8 * queue.id() as usize;
    for queue in [&aql, &sdma, &xgmi] {
        assert_eq!(at(queue), at(&pm4));
    }
    assert_eq!(at(&pm4) % page_bytes(), 0);
    assert_eq!(fake.state().queues.len(), 4);
    drop((pm4, aql, sdma, xgmi));
    assert_eq!(fake.state().queues.len(), 0);
}

#[test]
fn context_areas_say_where_the_debuggers_part_is() {
    let fake = Fake::new(&[GPU]);
    let gpu = gpu(&fake);
    let queue = gpu
        .create_queue(&QueueRequest::new(QueueType::Pm4, 4096))
        .expect("room");
    let area = queue.context.as_ref().expect("a compute queue has one");
    let cpu = area.cpu().expect("the window is large");
    let die = gpu.node().cwsr_bytes as usize;
    for index in 0..8 {
        // SAFETY: inside the area.
        let header = unsafe { cpu.add(index * die) };
        // SAFETY: written when the queue was made.
        let header = unsafe {
            header
                .cast::<kfd::kfd_context_save_area_header>()
                .read_unaligned()
        };
        assert_eq!(header.debug_offset as usize, (8 - index) * die);
        assert_eq!(header.debug_size, gpu.node().debug_bytes * 8);
        assert_eq!(header.err_payload_addr, queue.pointers().address() + 1024);
        assert_eq!(header.err_event_id, gpu.event().id);
    }
    // The kernel tells exceptions there.
    assert_eq!(queue.fault(), None);
    let cell = queue.pointers().cpu().expect("host memory");
    for (code, kind) in [
        (kfd::EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION, FaultKind::Program),
        (kfd::EC_QUEUE_WAVE_MEMORY_VIOLATION, FaultKind::Memory),
        (kfd::EC_QUEUE_PACKET_UNSUPPORTED, FaultKind::Command),
        (kfd::EC_QUEUE_PREEMPTION_ERROR, FaultKind::Hardware),
    ] {
        // SAFETY: inside the page.
        let word = unsafe { cell.add(1024) };
        // SAFETY: mapped and aligned.
        unsafe { word.cast::<u64>().write(kfd::kfd_ec_mask(code)) };
        let fault = queue.fault().expect("told");
        assert_eq!((fault.kind, u32::from(fault.engine)), (kind, queue.id()));
        assert_eq!(fault.detail, kfd::kfd_ec_mask(code));
    }
}

#[test]
fn rings_are_filled_before_the_kernel_sees_them() {
    let fake = Fake::new(&[GPU]);
    let gpu = gpu(&fake);
    let fill = [1u32, 0, 0];
    let request = QueueRequest {
        fill: &fill,
        ..QueueRequest::new(QueueType::Aql, 4096)
    };
    let queue = gpu.create_queue(&request).expect("room");
    assert_eq!(words(queue.ring(), 7), [1, 0, 0, 1, 0, 0, 1]);
    assert_eq!(words(queue.pointers(), 1024), [0; 1024]);
}

#[test]
fn requests_that_no_kernel_takes_are_refused() {
    let fake = Fake::new(&[GPU]);
    let gpu = gpu(&fake);
    let before = fake.state().calls.len();
    let good = QueueRequest::new(QueueType::Pm4, 4096);
    for (request, part) in [
        (
            QueueRequest {
                ring_bytes: 0,
                ..good
            },
            "ring bytes is 0",
        ),
        (
            QueueRequest {
                ring_bytes: 1024,
                ..good
            },
            "at least a page",
        ),
        (
            QueueRequest {
                ring_bytes: 12288,
                ..good
            },
            "a power of two",
        ),
        (
            QueueRequest {
                ring_bytes: 1 << 32,
                ..good
            },
            "less than 4 GiB",
        ),
        (
            QueueRequest {
                percentage: 0,
                ..good
            },
            "1 to 100",
        ),
        (
            QueueRequest {
                percentage: 101,
                ..good
            },
            "1 to 100",
        ),
        (
            QueueRequest {
                priority: 16,
                ..good
            },
            "0 to 15",
        ),
    ] {
        let e = Error::from(gpu.create_queue(&request).expect_err(part));
        assert!(e.to_string().contains(part), "{e}");
    }
    assert_eq!(fake.state().calls.len(), before, "no call is made");
    // Engines by number came with a later kernel.
    let old = Fake::new(&[GPU]);
    old.state().version = (1, 16);
    let gpu = self::gpu(&old);
    let request = QueueRequest::new(QueueType::Sdma { engine: Some(0) }, 4096);
    let e = Error::from(gpu.create_queue(&request).expect_err("too old"));
    assert!(e.to_string().contains("Linux 6.12"), "{e}");
}

#[test]
fn a_doorbell_that_is_none_is_refused() {
    let fake = Fake::new(&[GPU]);
    let gpu = gpu(&fake);
    let request = QueueRequest::new(QueueType::Sdma { engine: None }, 4096);
    fake.state().doorbell_base += 3;
    let e = Error::from(gpu.create_queue(&request).expect_err("crooked"));
    assert!(e.to_string().contains("does not lie on 8 bytes"), "{e}");
    assert_eq!(fake.state().queues.len(), 0);
    fake.state().doorbell_base += 5 + 8192;
    let e = Error::from(gpu.create_queue(&request).expect_err("elsewhere"));
    assert!(e.to_string().contains("two places"), "{e}");
    let state = fake.state();
    assert_eq!((state.queues.len(), state.bos.len()), (0, 1));
}
