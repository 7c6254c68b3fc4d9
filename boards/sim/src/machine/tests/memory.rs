//! Memory: what is refused, what host and GPU see of it, and between GPUs.

use super::*;

#[test]
fn allocations_that_the_kernel_refuses() {
    let rig = Rig::new("amd-gfx1100,vram=256,ram=1024");
    let va = reserve(1 << 20);
    let table: &[(u64, u64, AllocMemFlags, u64, i32)] = &[
        // `kfd_ioctl_alloc_memory_of_gpu`.
        (va, 0, GTT, 0, libc::EINVAL),
        (va, 4096, F::DOORBELL | F::WRITABLE, 0, libc::EINVAL),
        (va, 8192, F::MMIO_REMAP | F::WRITABLE, 0, libc::EINVAL),
        // `amdgpu_amdkfd_gpuvm_alloc_memory_of_gpu`: no kind; a `USERPTR` without an address; half of it is nothing.
        (va, 4096, F::WRITABLE, 0, libc::EINVAL),
        (va, 4096, F::USERPTR | F::WRITABLE, 0, libc::EINVAL),
        (va, 1, GTT | F::AQL_QUEUE_MEM, 0, libc::EINVAL),
        // `amdgpu_ttm_tt_get_user_pages`.
        (va, 4096, F::USERPTR | F::WRITABLE, 0x1000, libc::EFAULT),
        (va, 4096, F::USERPTR | F::WRITABLE, va, libc::EFAULT),
        (
            va,
            u64::MAX - 4096,
            F::USERPTR | F::WRITABLE,
            1 << 20,
            libc::ENOMEM,
        ),
        // `amdgpu_amdkfd_reserve_mem_limit`: all of the video memory but what page tables need; half of the host's.
        (va, 256 << 20, VRAM, 0, libc::ENOMEM),
        (va, (512 << 20) + 1, GTT, 0, libc::ENOMEM),
        (va, u64::MAX, GTT, 0, libc::ENOMEM),
    ];
    for &(va_addr, size, flags, mmap_offset, errno) in table {
        let mut args = kfd_ioctl_alloc_memory_of_gpu_args {
            va_addr,
            size,
            mmap_offset,
            gpu_id: rig.ids[0],
            flags,
            handle: 77,
        };
        assert_eq!(
            rig.call(&mut args),
            Err(errno),
            "{size:#x} {flags:?} {mmap_offset:#x}"
        );
        assert_eq!(args.handle, 77);
        args.gpu_id = 1;
        assert_eq!(rig.call(&mut args), Err(libc::EINVAL), "no such GPU");
    }
}

#[test]
fn memory_runs_out_and_comes_back() {
    let rig = Rig::new("amd-gfx1100,vram=256");
    let available = || {
        let mut args = kfd_ioctl_get_available_memory_args {
            gpu_id: rig.ids[0],
            ..Default::default()
        };
        rig.call(&mut args).expect("a number");
        args.available
    };
    let all = available();
    assert_eq!(all, 248 << 20, "8 MiB are for page tables");
    let (handle, _) = rig.alloc(0, 1 << 30, 4096, VRAM).expect("fits");
    assert_eq!(available(), all - (2 << 20));
    let (rest, _) = rig
        .alloc(0, 2 << 30, (248 << 20) - 4096, VRAM)
        .expect("fits");
    assert_eq!(available(), 0);
    assert_eq!(rig.alloc(0, 3 << 30, 4096, VRAM), Err(libc::ENOMEM));
    rig.free(rest).expect("freed");
    rig.free(handle).expect("freed");
    assert_eq!(available(), all);
    assert_eq!(rig.free(handle), Err(libc::EINVAL));
    rig.alloc(0, 3 << 30, 248 << 20, VRAM).expect("fits again");
}

#[test]
fn mappings_that_the_kernel_refuses() {
    let rig = Rig::new("amd-gfx1100");
    let va = reserve(1 << 20);
    let (handle, _) = rig.alloc(0, va, 8192, GTT).expect("memory");
    assert_eq!(handle >> 32, u64::from(rig.ids[0]));
    assert_eq!(handle & 0xFFFF_FFFF, 0, "numbers begin at 0");
    let mut args = kfd_ioctl_map_memory_to_gpu_args {
        handle,
        ..Default::default()
    };
    // `kfd_ioctl_map_memory_to_gpu`, in its order.
    assert_eq!(rig.call(&mut args), Err(libc::EINVAL), "no GPUs");
    (args.n_devices, args.n_success) = (1, 2);
    assert_eq!(
        rig.call(&mut args),
        Err(libc::EINVAL),
        "more done than asked"
    );
    args.n_success = 0;
    assert_eq!(rig.call(&mut args), Err(libc::EFAULT), "no array");
    args.n_devices = u32::MAX;
    assert_eq!(rig.call(&mut args), Err(libc::ENOMEM), "an array too long");
    assert_eq!(
        rig.map(handle + 1, &[0]),
        Err((libc::ENOMEM, 0)),
        "no such memory"
    );
    assert_eq!(
        rig.map(1 << 32, &[0]),
        Err((libc::EINVAL, 0)),
        "no such GPU"
    );
    assert_eq!(
        rig.unmap(handle, &[0]),
        Err((libc::EINVAL, 0)),
        "not mapped"
    );
    assert_eq!(rig.map(handle, &[0]), Ok(1));
    assert_eq!(rig.map(handle, &[0]), Ok(1), "mapped already is fine");
    assert_eq!(rig.free(handle), Err(libc::EBUSY), "still mapped");
    // `amdgpu_vm_bo_map`, `kfd_mem_attach`.
    for (address, what) in [
        (va + 4096, "its end overlaps"),
        (va - 4096, "its start overlaps"),
        (va + 0x10_0001, "no page begins there"),
        ((1 << 48) - 4096, "past the last address"),
        (u64::MAX - 4095, "wraps"),
        (0, "no address"),
    ] {
        let (other, _) = rig.alloc(0, address, 8192, GTT).expect("not looked at yet");
        assert_eq!(rig.map(other, &[0]), Err((libc::EINVAL, 0)), "{what}");
        rig.free(other).expect("freed");
    }
    assert_eq!(rig.unmap(handle, &[0]), Ok(1));
    assert_eq!(rig.unmap(handle, &[0]), Err((libc::EINVAL, 0)));
    assert_eq!(rig.free(handle), Ok(()));
    let gone = kfd_ioctl_free_memory_of_gpu_args { handle: 5 << 32 }.handle;
    assert_eq!(rig.free(gone), Err(libc::EINVAL), "no such GPU");
}

#[test]
fn a_call_that_fails_half_way_says_how_far_it_came() {
    let rig = Rig::new("amd-gfx1100,gpus=3,p2p=off");
    let (vram, _) = rig.alloc(0, 1 << 40, 4096, VRAM).expect("memory");
    assert_eq!(
        rig.map(vram, &[0, 1]),
        Err((libc::EINVAL, 1)),
        "no way between"
    );
    let (gtt, _) = rig.alloc(1, 1 << 41, 4096, GTT).expect("memory");
    assert_eq!(
        rig.map(gtt, &[0, 2, 1]),
        Ok(3),
        "the host's memory is everybody's"
    );
    assert_eq!(rig.unmap(gtt, &[0, 0, 1]), Err((libc::EINVAL, 1)));
    let ids = [rig.ids[2], 12345, rig.ids[1]];
    let mut args = kfd_ioctl_unmap_memory_from_gpu_args {
        handle: gtt,
        device_ids_array_ptr: ids.as_ptr().expose_provenance() as u64,
        n_devices: 3,
        n_success: 2,
    };
    rig.call(&mut args).expect("only the last is looked at");
    assert_eq!(args.n_success, 3);
    (args.n_devices, args.n_success) = (2, 0);
    assert_eq!(rig.call(&mut args), Err(libc::EINVAL));
    assert_eq!(args.n_success, 1);
    rig.free(gtt).expect("mapped nowhere");
}

#[test]
fn the_host_sees_what_was_made_for_it() {
    let rig = Rig::new("amd-gfx1100");
    let va = reserve(8192);
    let (handle, offset) = rig.alloc(0, va, 8192, VRAM).expect("memory");
    assert_eq!(offset, 1 << 32);
    // `drm_gem_mmap`: from the start, not more than there is; whose address space it is.
    assert_eq!(rig.see(0, 0, 8192, offset + 4096), Err(libc::EINVAL));
    assert_eq!(rig.see(0, 0, 8193, offset), Err(libc::EINVAL));
    assert_eq!(rig.see(0, 0, 0, offset), Err(libc::EINVAL));
    assert_eq!(rig.see(0, 0, 4096, offset + 8), Err(libc::EINVAL));
    assert_eq!(rig.see(0, va + 8, 4096, offset), Err(libc::EINVAL));
    let other = rig
        .machine
        .open(Path::new("/dev/dri/renderD128"), false)
        .expect("opens");
    let mmap = |write| {
        // SAFETY: no fixed address.
        unsafe { rig.machine.mmap(None, 4096, true, write, other, offset) }
    };
    assert_eq!(
        (mmap(false), mmap(true)),
        (Err(libc::EACCES), Err(libc::EACCES))
    );
    assert_eq!(rig.see(0, va, 8192, offset), Ok(va));
    let twin = rig.see(0, 0, 4096, offset).expect("mapped twice");
    word(va + 8).store(0x1234, Ordering::Relaxed);
    assert_eq!(word(twin + 8).load(Ordering::Relaxed), 0x1234);
    // Freed memory stays as long as it can be seen, and is not used for anything else.
    rig.free(handle).expect("freed");
    let (_, next) = rig.alloc(0, 1 << 40, 8192, VRAM).expect("memory");
    let fresh = rig.see(0, 0, 8192, next).expect("mapped");
    word(fresh + 8).store(1, Ordering::Relaxed);
    assert_eq!(word(va + 8).load(Ordering::Relaxed), 0x1234);
    assert_eq!(word(fresh).load(Ordering::Relaxed), 0, "memory is cleared");
    // SAFETY: mapped above, not used any more.
    unsafe { rig.machine.munmap(pointer(twin), 4096) }.expect("mapped");
    // SAFETY: not a page's address; nothing happens.
    let odd = unsafe { rig.machine.munmap(pointer(va + 1), 4096) };
    assert_eq!(odd, Err(libc::EINVAL));

    // `amdgpu_gem_object_mmap`: not what is not for the host, not the process's own.
    let (_, hidden) = rig
        .alloc(0, 1 << 41, 4096, F::VRAM | F::WRITABLE)
        .expect("memory");
    assert_eq!(rig.see(0, 0, 4096, hidden), Err(libc::EPERM));
    let mine = Box::new([0u8; 8192]);
    let mut args = kfd_ioctl_alloc_memory_of_gpu_args {
        va_addr: 1 << 42,
        size: 4096,
        mmap_offset: mine.as_ptr().expose_provenance() as u64,
        gpu_id: rig.ids[0],
        flags: F::USERPTR | F::WRITABLE,
        ..Default::default()
    };
    rig.call(&mut args).expect("memory");
    assert_eq!(rig.see(0, 0, 4096, args.mmap_offset), Err(libc::EPERM));
}

#[test]
fn a_small_bar_hides_video_memory() {
    for config in [
        "amd-gfx1100,cpu_visible_vram=small",
        "amd-gfx1100,cpu_visible_vram=none",
    ] {
        let rig = Rig::new(config);
        assert_eq!(
            rig.alloc(0, 1 << 40, 4096, VRAM),
            Err(libc::EINVAL),
            "{config}"
        );
        let (_, offset) = rig
            .alloc(0, 1 << 40, 4096, F::VRAM | F::WRITABLE)
            .expect(config);
        assert_eq!(rig.see(0, 0, 4096, offset), Err(libc::EPERM));
        rig.buffer(0, 4096, GTT | F::PUBLIC);
    }
}

#[test]
fn pages_of_dev_kfd() {
    let rig = Rig::new("amd-gfx1100");
    let map = |offset, len| {
        // SAFETY: no fixed address.
        unsafe { rig.machine.mmap(None, len, true, true, rig.kfd, offset) }.map(|_| ())
    };
    let of = |kind, id| mmap_offset(kind, id, 0).expect("fits");
    let id = rig.ids[0];
    // `kfd_mmap`, `kfd_doorbell_mmap`, `kfd_event_mmap`, `kfd_mmio_mmap`.
    assert_eq!(map(of(MmapType::Doorbell, 0), 8192), Err(libc::ENODEV));
    assert_eq!(map(of(MmapType::Doorbell, id), 4096), Err(libc::EINVAL));
    assert_eq!(map(of(MmapType::Doorbell, id), 8192), Ok(()));
    assert_eq!(
        map(of(MmapType::Events, 0), 32768),
        Err(libc::EINVAL),
        "no page yet"
    );
    assert_eq!(map(of(MmapType::Mmio, id), 8192), Err(libc::EINVAL));
    assert_eq!(map(of(MmapType::Mmio, id), 4096), Ok(()));
    assert_eq!(map(of(MmapType::Mmio, 0), 4096), Err(libc::ENODEV));
    assert_eq!(map(of(MmapType::ReservedMem, id), 8192), Err(libc::EINVAL));
    let (_, offset) = rig
        .alloc(0, 1 << 40, 4096, F::MMIO_REMAP | F::WRITABLE)
        .expect("registers");
    assert_eq!(offset, of(MmapType::Mmio, id));
    rig.alloc(0, 1 << 41, 8192, F::DOORBELL | F::WRITABLE)
        .expect("doorbells");
}

#[test]
fn engines_see_the_same_bytes_as_the_host() {
    for chip in ["gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201"] {
        let rig = Rig::readers(&format!("amd-{chip}"));
        let queue = rig.queue(0, KFD_IOC_QUEUE_TYPE_SDMA);
        let mut packets = Vec::new();
        let buffers = [
            rig.buffer(0, 4096, VRAM),
            rig.buffer(0, 4096, GTT),
            rig.buffer(0, 4096, GTT | F::COHERENT),
        ];
        for (index, buffer) in (1u64..).zip(buffers) {
            word(buffer.address).store(index, Ordering::Release);
            packets.push(Packet::Wait(buffer.address, index));
            packets.push(Packet::Store(buffer.address + 8, index * 100));
        }
        // The process's own memory, seen elsewhere.
        let mine = rig.buffer(0, 4096, GTT);
        let va_addr = reserve(4096);
        let mut args = kfd_ioctl_alloc_memory_of_gpu_args {
            va_addr,
            size: 4096,
            mmap_offset: mine.address,
            gpu_id: rig.ids[0],
            flags: F::USERPTR | F::WRITABLE,
            ..Default::default()
        };
        rig.call(&mut args).expect("memory");
        assert_eq!(rig.map(args.handle, &[0]), Ok(1));
        packets.push(Packet::Store(va_addr + 16, 5));
        queue.push(&packets);
        soon("the last packet", || queue.read() == packets.len() as u64);
        for (index, buffer) in (1u64..).zip(buffers) {
            assert_eq!(
                word(buffer.address + 8).load(Ordering::Acquire),
                index * 100,
                "{chip}"
            );
        }
        assert_eq!(word(mine.address + 16).load(Ordering::Acquire), 5);
        assert_eq!(rig.machine.reports(), [] as [String; 0]);
    }
}

#[test]
fn gpus_reach_each_other() {
    for (config, reached) in [
        ("amd-gfx942,gpus=2", true),
        ("amd-gfx1100,gpus=2", true),
        ("amd-gfx942,gpus=2,cpu_visible_vram=small", true),
        ("amd-gfx1100,gpus=2,cpu_visible_vram=small", false),
        ("amd-gfx942,gpus=2,p2p=off", false),
        ("amd-gfx1151,gpus=2,p2p=off", true),
    ] {
        let rig = Rig::readers(config);
        let address = reserve(4096);
        let (handle, _) = rig
            .alloc(1, address, 4096, F::VRAM | F::WRITABLE)
            .expect(config);
        let mapped = rig.map(handle, &[1, 0]);
        assert_eq!(
            mapped,
            if reached {
                Ok(2)
            } else {
                Err((libc::EINVAL, 1))
            },
            "{config}"
        );
        if !reached {
            continue;
        }
        // One stores into the other's memory, which waits for it and tells the host.
        let told = rig.buffer(1, 4096, GTT);
        let (first, second) = (
            rig.queue(0, KFD_IOC_QUEUE_TYPE_SDMA),
            rig.queue(1, KFD_IOC_QUEUE_TYPE_SDMA),
        );
        second.push(&[Packet::Wait(address, 41), Packet::Store(told.address, 42)]);
        first.push(&[Packet::Store(address, 41)]);
        soon("the answer", || {
            word(told.address).load(Ordering::Acquire) == 42
        });
        assert_eq!(rig.unmap(handle, &[0, 1]), Ok(2));
        rig.free(handle).expect("freed");
    }
}

#[test]
fn a_doubled_ring_is_seen_twice() {
    let rig = Rig::readers("amd-gfx1100");
    let queue = rig.queue(0, KFD_IOC_QUEUE_TYPE_SDMA);
    let address = reserve(8192);
    let (handle, offset) = rig
        .alloc(0, address, 8192, GTT | F::AQL_QUEUE_MEM)
        .expect("memory");
    assert_eq!(
        rig.see(0, 0, 8192, offset),
        Err(libc::EINVAL),
        "there is one page"
    );
    let seen = rig.see(0, 0, 4096, offset).expect("mapped");
    rig.map(handle, &[0]).expect("mapped");
    queue.push(&[
        Packet::Store(address + 4096 + 8, 3),
        Packet::Wait(address + 8, 3),
    ]);
    soon("both packets", || queue.read() == 2);
    assert_eq!(word(seen + 8).load(Ordering::Acquire), 3);
    rig.unmap(handle, &[0]).expect("mapped");
    rig.free(handle).expect("freed");
}
