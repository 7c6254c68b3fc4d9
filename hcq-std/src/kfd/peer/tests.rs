use super::*;
use crate::kfd::fake::{Fake, GPU, PEER};
use crate::kfd::{MemoryRequest, Process};

#[test]
fn peers_need_a_way() {
    let fake = Fake::new(&[GPU, PEER]);
    let process = Process::open(&fake.system()).expect("there");
    let (gpu, peer) = (
        Gpu::open(&process, 0).expect("there"),
        Gpu::open(&process, 1).expect("there"),
    );
    let vram = gpu.allocate(&MemoryRequest::vram(1)).expect("room");
    let e = gpu.share(&vram, &peer).expect_err("no link").to_string();
    assert!(
        e.contains("sharing memory with amd:1") && e.contains("no way from node 2 to node 1"),
        "{e}"
    );
    // Host memory needs none.
    let gtt = gpu.allocate(&MemoryRequest::gtt(1)).expect("room");
    gpu.share(&gtt, &peer).expect("host memory");
    gpu.share(&gtt, &peer).expect("twice is once");
    let mapped = fake
        .state()
        .bos
        .last_key_value()
        .expect("one")
        .1
        .mapped
        .clone();
    assert_eq!(mapped.into_iter().collect::<Vec<_>>(), [GPU, PEER]);
    gpu.unmap(&gtt);
    assert!(
        fake.state()
            .bos
            .last_key_value()
            .expect("one")
            .1
            .mapped
            .is_empty()
    );
    // A machine of its own is no peer.
    let other = Fake::new(&[GPU, PEER]);
    let stranger = Process::open(&other.system()).expect("there");
    let stranger = Gpu::open(&stranger, 0).expect("there");
    assert!(matches!(
        gpu.share(&gtt, &stranger),
        Err(Error::OtherDevice { .. })
    ));

    let fake = Fake::new(&[GPU, PEER]);
    fake.link(2, "io_links", 1, 1, 11, 15);
    let process = Process::open(&fake.system()).expect("there");
    let gpu = Gpu::open(&process, 0).expect("there");
    let vram = gpu.allocate(&MemoryRequest::vram(1)).expect("room");
    let peer = Gpu::open(&process, 1).expect("there");
    gpu.share(&vram, &peer).expect("linked");
    assert!(peer.reaches(&gpu) && !gpu.reaches(&peer));
}
