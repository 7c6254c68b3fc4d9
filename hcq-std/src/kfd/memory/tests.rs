#![allow(unsafe_code, reason = "writes device memory")]

use super::*;
use crate::kfd::fake::{Fake, GPU};
use crate::kfd::{Gpu, Process};

fn gpu(fake: &Arc<Fake>) -> Arc<Gpu> {
    let process = Process::open(&fake.system()).expect("there");
    Gpu::open(&process, 0).expect("there")
}

/// Flags and size of the last object.
fn last(fake: &Fake) -> (AllocMemFlags, u64) {
    let state = fake.state();
    let (_, bo) = state.bos.last_key_value().expect("one");
    (bo.flags, bo.size)
}

#[test]
fn each_request_has_its_flags() {
    let fake = Fake::new(&[GPU]);
    let gpu = gpu(&fake);
    let always = AllocMemFlags::WRITABLE | AllocMemFlags::NO_SUBSTITUTE;
    let vram = MemoryRequest::vram(1);
    let contiguous = MemoryRequest {
        contiguous: true,
        ..vram
    };
    let coherent = MemoryRequest {
        coherent: true,
        ..vram
    };
    let cases = [
        (vram, AllocMemFlags::VRAM),
        (
            vram.host_visible(),
            AllocMemFlags::VRAM | AllocMemFlags::PUBLIC,
        ),
        (
            vram.executable().exact(),
            AllocMemFlags::VRAM | AllocMemFlags::EXECUTABLE,
        ),
        (contiguous, AllocMemFlags::VRAM | AllocMemFlags::CONTIGUOUS),
        (coherent, AllocMemFlags::VRAM | AllocMemFlags::COHERENT),
        (
            MemoryRequest::gtt(1),
            AllocMemFlags::GTT | AllocMemFlags::COHERENT | AllocMemFlags::UNCACHED,
        ),
    ];
    for (request, flags) in cases {
        let bo = gpu.allocate(&request).expect("room");
        assert_eq!(last(&fake), (flags | always, 4096), "{request:?}");
        assert_eq!(bo.cpu().is_some(), request.host_visible);
        assert_eq!(bo.len(), 4096);
    }
    // Flags of later kernels are not shown to earlier ones.
    let old = Fake::new(&[GPU]);
    old.state().version = (1, 15);
    let gpu = self::gpu(&old);
    let bo = gpu.allocate(&contiguous).expect("room");
    assert_eq!(last(&old).0, AllocMemFlags::VRAM | always);
    drop(bo);
}

#[test]
fn addresses_are_the_hosts_and_aligned() {
    let fake = Fake::new(&[GPU]);
    let gpu = gpu(&fake);
    for (bytes, align) in [
        (1, 4096),
        (65536, 65536),
        (100_000, 65536),
        (2 << 20, 2 << 20),
        (5 << 20, 2 << 20),
    ] {
        let bo = gpu.allocate(&MemoryRequest::gtt(bytes)).expect("room");
        let cpu = bo.cpu().expect("host memory");
        assert_eq!(cpu.as_ptr().addr() as u64, bo.address());
        assert_eq!(bo.address() % align, 0, "{bytes}");
        // SAFETY: mapped, and as long.
        let last = unsafe { cpu.add(bo.len() - 1) };
        // SAFETY: as above.
        unsafe { last.write_volatile(7) };
    }
}

#[test]
fn sizes_that_no_memory_has_are_refused() {
    let fake = Fake::new(&[GPU]);
    let gpu = gpu(&fake);
    for bytes in [usize::MAX, isize::MAX as usize, 1 << 62, 1 << 44] {
        let e = gpu
            .allocate(&MemoryRequest::gtt(bytes))
            .expect_err("too large");
        assert!(
            matches!(e, Error::OutOfMemory { .. } | Error::Address { .. }),
            "{e}"
        );
    }
    // Device memory that is not free is told with the number.
    let e = gpu
        .allocate(&MemoryRequest::vram(1 << 30))
        .expect_err("too large");
    assert!(e.to_string().contains("1048576 are free"), "{e}");
    assert_eq!(fake.state().bos.len(), 1, "the event page");
}

#[test]
fn a_small_window_is_explained() {
    let fake = Fake::new(&[GPU]);
    let bank = format!("{}/1/mem_banks/0/properties", crate::kfd::topology::NODES);
    fake.put(bank, "heap_type 2\nsize_in_bytes 25753026560\n");
    fake.put(
        "/sys/class/drm/renderD128/device/mem_info_vis_vram_total",
        "268435456\n",
    );
    fake.state().small_bar = true;
    let gpu = gpu(&fake);
    let e = gpu
        .allocate(&MemoryRequest::vram(4096).host_visible())
        .expect_err("no window");
    let text = e.to_string();
    assert!(
        text.contains("256 of 24560 MiB") && text.contains("Resizable BAR"),
        "{text}"
    );
    gpu.allocate(&MemoryRequest::vram(4096))
        .expect("what the host does not see is there");
    // The context area of a queue goes without the host.
    let request = crate::kfd::QueueRequest::new(crate::kfd::QueueType::Pm4, 4096);
    gpu.create_queue(&request).expect("room");
}

#[test]
fn caller_memory_is_registered_by_pages() {
    let fake = Fake::new(&[GPU]);
    let gpu = gpu(&fake);
    let mut host = vec![0u8; 20_000];
    let cpu = NonNull::from(host.as_mut_slice()).cast::<u8>();
    let address = cpu.as_ptr().addr() as u64;
    let bo = gpu.register(cpu, 10_000, true).expect("room");
    assert_eq!(
        (bo.address(), bo.len(), bo.cpu()),
        (address, 10_000, Some(cpu))
    );
    let (flags, size) = last(&fake);
    assert!(flags.contains(AllocMemFlags::USERPTR | AllocMemFlags::WRITABLE));
    assert_eq!(
        size,
        (address + 10_000).next_multiple_of(4096) - (address & !4095)
    );
    // The same pages again have another address on the GPU.
    // SAFETY: inside the vector.
    let inside = unsafe { cpu.add(100) };
    let again = gpu.register(inside, 50, false).expect("room");
    assert_ne!(again.address(), address + 100);
    assert_eq!(again.address() % 4096, (address + 100) % 4096);
    assert!(!last(&fake).0.contains(AllocMemFlags::WRITABLE));
    drop((bo, again));
    let bo = gpu.register(cpu, 1, true).expect("room");
    assert_eq!(bo.address(), address);
    // SAFETY: never accessed: it is refused.
    let end = unsafe { NonNull::new_unchecked(std::ptr::without_provenance_mut(usize::MAX - 10)) };
    assert!(matches!(
        gpu.register(end, 4096, true),
        Err(Error::Address { .. })
    ));
}
