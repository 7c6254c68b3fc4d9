//! Whatever fails, and wherever: nothing is left, and the error has words.
#![allow(unsafe_code, reason = "writes device memory")]

use std::ptr::NonNull;
use std::time::Duration;

use super::*;
use crate::calls::Counted;
use crate::kfd::fake::{Fake, GPU, PEER};
use crate::kfd::{HwQueue, MemoryRequest, NoQueue, QueueRequest, QueueType};

/// All that a device does, once.
fn everything(fake: &Arc<Fake>) -> Result<(), Error> {
    let process = Process::open(&fake.system())?;
    let (gpu, peer) = (Gpu::open(&process, 0)?, Gpu::open(&process, 1)?);
    let vram = gpu.allocate(&MemoryRequest::vram(3 << 20))?;
    let gtt = gpu.allocate(&MemoryRequest::gtt(5000))?;
    gpu.share(&vram, &peer)?;
    gpu.share(&gtt, &peer)?;
    let mut host = vec![0u8; 10_000];
    let cpu = NonNull::from(host.as_mut_slice()).cast::<u8>();
    let first = gpu.register(cpu, 5000, true)?;
    let second = gpu.register(cpu, 10_000, false)?;
    let mut queues = Vec::<HwQueue>::new();
    for kind in [
        QueueType::Pm4,
        QueueType::Aql,
        QueueType::Sdma { engine: None },
    ] {
        queues.push(gpu.create_queue(&QueueRequest::new(kind, 65536))?);
    }
    let _ = gpu.wait(Duration::from_millis(1))?;
    gpu.calibrate()?;
    gpu.unmap(&gtt);
    drop(gtt);
    gpu.destroy_queue(queues.remove(0));
    drop((first, second));
    Ok(())
}

fn machine() -> Arc<Fake> {
    let fake = Fake::new(&[GPU, PEER]);
    fake.link(2, "p2p_links", 0, 1, 2, 40);
    fake
}

#[test]
fn whatever_call_fails_nothing_is_left() {
    let fake = machine();
    everything(&fake).expect("nothing fails");
    let calls = fake.state().calls.to_vec();
    assert!(calls.len() > 60, "{}", calls.len());
    let (mut refused, mut tolerated) = (0, 0);
    for late_map in [false, true] {
        for (at, call) in calls.iter().enumerate() {
            for errno in [Errno::NOMEM, Errno::INVAL, Errno::IO] {
                let fake = machine();
                fake.state().calls.fail(at, 1, errno);
                fake.state().late_map = late_map;
                let result = everything(&fake);
                let left = fake.state().left();
                let rest = left.strip_prefix("bos [], events {}, queues [], pages 0, files [");
                let rest = rest.unwrap_or_else(|| panic!("call {at} {call:?} {errno}: {left}"));
                assert!(rest.matches("/dev/").count() <= 3, "{left}");
                match result {
                    Ok(()) => tolerated += 1,
                    Err(e) => {
                        refused += 1;
                        let text = e.to_string();
                        assert!(
                            text.len() > 40 && text.contains(&errno.words()),
                            "{call:?}: {text}"
                        );
                    }
                }
                // And the next open works.
                fake.state().calls.succeed();
                everything(&fake)
                    .unwrap_or_else(|e| panic!("after call {at} {call:?} {errno}: {e}"));
            }
        }
    }
    assert!(refused > 100 && tolerated > 0, "{refused} {tolerated}");
}

#[test]
fn what_is_never_freed_keeps_its_addresses() {
    let fake = Fake::new(&[GPU]);
    let process = Process::open(&fake.system()).expect("there");
    let gpu = Gpu::open(&process, 0).expect("there");
    let bo = gpu.allocate(&MemoryRequest::vram(8192)).expect("room");
    let pages = fake.state().memory.pages();
    fake.state().calls.fail_next(usize::MAX, Errno::IO);
    drop(bo);
    fake.state().calls.succeed();
    assert_eq!(
        fake.state().bos.len(),
        2,
        "the page and what could not be freed"
    );
    assert_eq!(
        fake.state().memory.pages(),
        pages,
        "the GPU may still reach these"
    );
}

#[test]
fn a_queue_that_does_not_stop_keeps_its_memory() {
    let fake = Fake::new(&[GPU]);
    let process = Process::open(&fake.system()).expect("there");
    let gpu = Gpu::open(&process, 0).expect("there");
    let queue = gpu
        .create_queue(&QueueRequest::new(QueueType::Pm4, 4096))
        .expect("room");
    let before = fake.state().calls.len();
    fake.state().calls.fail_next(2, Errno::NODEV);
    drop(queue);
    assert_eq!(
        fake.state().calls.len(),
        before + 2,
        "nothing but the two tries"
    );
    assert_eq!(fake.state().bos.len(), 5);
    // One that hung and was taken away is gone.
    fake.state().calls.succeed();
    let queue = gpu
        .create_queue(&QueueRequest::new(QueueType::Sdma { engine: None }, 4096))
        .expect("room");
    fake.state().calls.fail_next(1, Errno::TIME);
    drop(queue);
    assert_eq!(fake.state().bos.len(), 5);
}

#[test]
fn calls_are_made_in_the_order_that_frees() {
    let fake = Fake::new(&[GPU]);
    let process = Process::open(&fake.system()).expect("there");
    let gpu = Gpu::open(&process, 0).expect("there");
    let bo = gpu.allocate(&MemoryRequest::gtt(1)).expect("room");
    fake.state().calls.clear();
    drop(bo);
    assert_eq!(
        *fake.state().calls,
        [Counted::Ioctl(0x19), Counted::Ioctl(0x17)]
    );
    let queue = gpu.create_queue(&QueueRequest::new(QueueType::Sdma { engine: None }, 4096));
    let queue = queue.map_err(Error::from).expect("room");
    fake.state().calls.clear();
    drop(queue);
    let calls = fake.state().calls.to_vec();
    assert_eq!(
        calls[0],
        Counted::Ioctl(0x03),
        "the queue goes before its memory"
    );
    assert_eq!(calls.len(), 5);
}

#[test]
fn no_queue_is_left_is_said() {
    let fake = Fake::new(&[GPU]);
    fake.state().sdma_left = 1;
    let process = Process::open(&fake.system()).expect("there");
    let gpu = Gpu::open(&process, 0).expect("there");
    let request = QueueRequest::new(QueueType::Sdma { engine: None }, 4096);
    let _first = gpu.create_queue(&request).expect("one");
    match gpu.create_queue(&request) {
        Err(NoQueue::Exhausted(e)) => {
            assert!(
                e.to_string()
                    .contains("no SDMA queue is left: 2 engines have 8 each"),
                "{e}"
            );
        }
        other => panic!("{other:?}"),
    }
}
