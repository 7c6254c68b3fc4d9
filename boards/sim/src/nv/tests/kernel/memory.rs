//! Memory: what it may be, how much there is, and mappings of the host and of RM's own address spaces.

use super::*;

type Params = NV_MEMORY_ALLOCATION_PARAMS;

fn make(rig: &Rig, class: u32, change: impl FnOnce(&mut Params)) -> Result<(u32, Params), u32> {
    let location = match class {
        NV01_MEMORY_SYSTEM => NVOS32_ATTR_LOCATION_PCI,
        _ => NVOS32_ATTR_LOCATION_VIDMEM,
    };
    let mut params = Params {
        owner: 1,
        attr: NVOS32_ATTR_LOCATION.put(location),
        size: 1,
        ..Default::default()
    };
    change(&mut params);
    let handle = rig.alloc(rig.gpus[0].device, 0, class, &mut params)?;
    Ok((handle, params))
}

#[test]
fn memory_is_rounded_up_to_the_pages_that_it_gets() {
    let rig = Rig::new("nv-hopper,pace=manual");
    for (class, size, asked, told, bytes) in [
        (
            NV01_MEMORY_LOCAL_USER,
            1,
            0,
            NVOS32_ATTR_PAGE_SIZE_BIG,
            64 << 10,
        ),
        (
            NV01_MEMORY_LOCAL_USER,
            3 << 20,
            0,
            NVOS32_ATTR_PAGE_SIZE_HUGE,
            4 << 20,
        ),
        (
            NV01_MEMORY_LOCAL_USER,
            5000,
            1,
            NVOS32_ATTR_PAGE_SIZE_4KB,
            8192,
        ),
        (
            NV01_MEMORY_LOCAL_USER,
            5000,
            2,
            NVOS32_ATTR_PAGE_SIZE_BIG,
            64 << 10,
        ),
        (
            NV01_MEMORY_LOCAL_USER,
            5000,
            3,
            NVOS32_ATTR_PAGE_SIZE_HUGE,
            2 << 20,
        ),
        (NV01_MEMORY_SYSTEM, 5000, 0, NVOS32_ATTR_PAGE_SIZE_4KB, 8192),
        (
            NV01_MEMORY_SYSTEM,
            5000,
            3,
            NVOS32_ATTR_PAGE_SIZE_HUGE,
            2 << 20,
        ),
    ] {
        let (_, params) = make(&rig, class, |params| {
            params.size = size;
            params.attr |= NVOS32_ATTR_PAGE_SIZE.put(asked);
        })
        .expect("memory");
        assert_eq!((params.size, params.limit), (bytes, bytes - 1));
        assert_eq!(NVOS32_ATTR_PAGE_SIZE.get(params.attr), told);
    }
    let (_, aligned) = make(&rig, NV01_MEMORY_LOCAL_USER, |params| {
        params.flags = AllocFlags::ALIGNMENT_FORCE;
        params.alignment = 16 << 20;
    })
    .expect("memory");
    assert_eq!(aligned.offset % (16 << 20), 0);
}

#[test]
fn what_memory_cannot_be_is_refused() {
    let rig = Rig::new("nv-ampere,pace=manual");
    let refused = |class, status, change: fn(&mut Params)| {
        let made = make(&rig, class, change).map(|(handle, _)| handle);
        assert_eq!(made, Err(status));
    };
    for class in [NV01_MEMORY_LOCAL_USER, NV01_MEMORY_SYSTEM] {
        refused(class, NV_ERR_INVALID_ARGUMENT, |params| params.size = 0);
        refused(class, NV_ERR_INVALID_ARGUMENT, |params| {
            params.internalflags = 1
        });
        refused(class, NV_ERR_INVALID_ARGUMENT, |params| params.rangeHi = 1);
        refused(class, NV_ERR_INVALID_OWNER, |params| params.owner = 0);
        refused(class, NV_ERR_INVALID_OWNER, |params| {
            params.owner = u32::MAX
        });
        refused(class, NV_ERR_INVALID_ARGUMENT, |params| {
            params.attr ^= NVOS32_ATTR_LOCATION.put(1);
        });
        refused(class, NV_ERR_INVALID_ARGUMENT, |params| {
            params.flags = AllocFlags::ALIGNMENT_FORCE;
            params.alignment = 0x3000;
            params.attr |= NVOS32_ATTR_PAGE_SIZE.put(NVOS32_ATTR_PAGE_SIZE_BIG);
        });
        refused(class, NV_ERR_INVALID_ARGUMENT, |params| {
            params.attr |= NVOS32_ATTR_PAGE_SIZE.put(NVOS32_ATTR_PAGE_SIZE_HUGE);
            params.attr2 |= NVOS32_ATTR2_PAGE_SIZE_HUGE.put(2);
        });
        refused(class, NV_ERR_NO_MEMORY, |params| params.size = u64::MAX);
        refused(class, NV_ERR_NO_MEMORY, |params| params.size = 1 << 50);
    }
}

#[test]
fn memory_that_is_freed_can_be_had_again() {
    let rig = Rig::new("nv-ampere,pace=manual,vram=64,ram=64");
    for video in [true, false] {
        let size = 32 << 20;
        let (one, two) = (rig.memory(0, video, size), rig.memory(0, video, size));
        assert!(one.is_ok() && two.is_ok());
        assert_eq!(rig.memory(0, video, 4096), Err(NV_ERR_NO_MEMORY));
        assert_eq!(rig.free(one.expect("is there")), Ok(()));
        assert!(rig.memory(0, video, size).is_ok());
    }
}

#[test]
fn the_host_sees_memory_through_files_that_were_prepared() {
    let rig = Rig::new("nv-ampere,pace=manual,gpus=2");
    let video = rig.memory(0, true, 128 << 10).expect("memory");
    let system = rig.memory(0, false, 128 << 10).expect("memory");
    let prepare = |path: &str, memory, offset, length| {
        rig.prepare(0, path, memory, offset, length, 0).map(|_| ())
    };
    for (path, memory, offset, length, status) in [
        ("/dev/nvidiactl", video, 0, 4096, NV_ERR_INVALID_ARGUMENT),
        ("/dev/nvidia1", video, 0, 4096, NV_ERR_INVALID_ARGUMENT),
        ("/dev/nvidia0", system, 0, 4096, NV_ERR_INVALID_ARGUMENT),
        ("/dev/nvidia-uvm", system, 0, 4096, NV_ERR_INVALID_ARGUMENT),
        ("/dev/nvidia0", video, 128 << 10, 4096, NV_ERR_INVALID_BASE),
        ("/dev/nvidia0", video, 0, 0, NV_ERR_INVALID_LIMIT),
        ("/dev/nvidia0", video, 4096, 128 << 10, NV_ERR_INVALID_LIMIT),
        ("/dev/nvidia0", video, 4096, u64::MAX, NV_ERR_INVALID_LIMIT),
        ("/dev/nvidia0", 0xDEAD, 0, 4096, NV_ERR_OBJECT_NOT_FOUND),
        (
            "/dev/nvidia0",
            rig.gpus[0].device,
            0,
            4096,
            NV_ERR_NOT_SUPPORTED,
        ),
    ] {
        assert_eq!(
            prepare(path, memory, offset, length),
            Err(status),
            "{path} {offset:#x}"
        );
    }
    // Nothing is prepared: no mapping; once prepared, it is so for good.
    let bare = rig
        .machine
        .open(Path::new("/dev/nvidiactl"), true)
        .expect("opens");
    assert_eq!(rig.mmap(bare, 4096), Err(libc::EINVAL));
    let file = rig
        .prepare(0, "/dev/nvidia0", video, 0x1_0800, 0x800, 0)
        .expect("prepared");
    let mut again = nv_ioctl_nvos33_parameters_with_fd {
        params: NVOS33_PARAMETERS {
            hClient: rig.client,
            hDevice: rig.gpus[0].device,
            hMemory: video,
            length: 4096,
            ..Default::default()
        },
        fd: file,
        pad: 0,
    };
    assert_eq!(rig.ask(rig.control, &mut again), Err(NV_ERR_STATE_IN_USE));
    // Of a card's memory all must be mapped that was prepared: here the page that the bytes are in.
    assert_eq!(rig.mmap(file, 8192), Err(libc::ENXIO));
    let part = rig.mmap(file, 4096).expect("mapped");
    let whole = rig.see(0, video, true, 128 << 10);
    word(whole + 0x1_0808).store(42, Ordering::Relaxed);
    assert_eq!(word(part + 0x808).load(Ordering::Relaxed), 42);
    // Of system memory less may be.
    let file = rig
        .prepare(0, "/dev/nvidiactl", system, 0, 8192, 0)
        .expect("prepared");
    assert_eq!(rig.mmap(file, 12288), Err(libc::ERANGE));
    assert!(rig.mmap(file, 4096).is_ok() && rig.mmap(file, 8192).is_ok());
    // What is only to be read cannot be written.
    let file = rig
        .prepare(0, "/dev/nvidiactl", system, 0, 4096, 1)
        .expect("prepared");
    assert_eq!(rig.mmap(file, 4096), Err(libc::EACCES));
    // Mappings have names, each of which ends once.
    let mut args = nv_ioctl_nvos33_parameters_with_fd {
        fd: bare,
        params: NVOS33_PARAMETERS {
            hMemory: system,
            ..again.params
        },
        ..again
    };
    rig.ask(rig.control, &mut args).expect("prepared");
    let mut end = NVOS34_PARAMETERS {
        hClient: rig.client,
        hDevice: rig.gpus[0].device,
        hMemory: system,
        pLinearAddress: args.params.pLinearAddress,
        ..Default::default()
    };
    assert_eq!(rig.ask(rig.control, &mut end), Ok(()));
    assert_eq!(rig.ask(rig.control, &mut end), Err(NV_ERR_OBJECT_NOT_FOUND));
    // A file of another process's kind: not of this driver, not open.
    args.fd = 77;
    assert_eq!(
        rig.ask(rig.control, &mut args),
        Err(NV_ERR_INVALID_ARGUMENT)
    );
}

#[test]
fn a_small_window_to_video_memory_is_full_before_the_memory_is() {
    let rig = Rig::new("nv-ampere,pace=manual,cpu_visible_vram=small");
    let (one, two) = (
        rig.memory(0, true, 200 << 20),
        rig.memory(0, true, 200 << 20),
    );
    let (one, two) = (one.expect("memory"), two.expect("memory"));
    let prepare = |memory| {
        rig.prepare(0, "/dev/nvidia0", memory, 0, 200 << 20, 0)
            .map(|_| ())
    };
    assert_eq!(prepare(one), Ok(()));
    assert_eq!(prepare(two), Err(NV_ERR_NO_MEMORY));
    assert_eq!(rig.free(one), Ok(()));
    assert_eq!(prepare(two), Ok(()));
    let rig = Rig::new("nv-ampere,pace=manual,cpu_visible_vram=none");
    let memory = rig.memory(0, true, 4096).expect("memory");
    let prepared = rig.prepare(0, "/dev/nvidia0", memory, 0, 4096, 0);
    assert_eq!(prepared.map(|_| ()), Err(NV_ERR_NO_MEMORY));
}

/// The caller's memory, described.
fn describe(rig: &Rig, change: impl FnOnce(&mut NVOS02_PARAMETERS)) -> Result<u32, u32> {
    let mut args = nv_ioctl_nvos02_parameters_with_fd {
        params: NVOS02_PARAMETERS {
            hRoot: rig.client,
            hObjectParent: rig.gpus[0].device,
            hClass: NV01_MEMORY_SYSTEM_OS_DESCRIPTOR,
            flags: NVOS02_FLAGS_MAPPING.put(NVOS02_FLAGS_MAPPING_NO_MAP)
                | NVOS02_FLAGS_COHERENCY.put(NVOS02_FLAGS_COHERENCY_CACHED),
            ..Default::default()
        },
        fd: -1,
        pad: 0,
    };
    change(&mut args.params);
    rig.ask(rig.gpus[0].file, &mut args)?;
    Ok(args.params.hObjectNew)
}

#[test]
fn the_callers_memory_is_lent_where_it_is() {
    let rig = Rig::new("nv-ampere,pace=manual");
    let spaces = rig.spaces();
    let group = rig
        .group(0, spaces[0], NV2080_ENGINE_TYPE_GRAPHICS)
        .expect("a group");
    let channel = rig.channel(0, 0, group, spaces[0]);
    rig.schedule(group, true).expect("runs");
    let page = std::alloc::Layout::from_size_align(4096, 4096).expect("a page");
    // SAFETY: not of size 0.
    let own = unsafe { std::alloc::alloc_zeroed(page) };
    let address = own.expose_provenance() as u64;
    let lend = |change: fn(&mut NVOS02_PARAMETERS)| {
        describe(&rig, |params| {
            (params.pMemory, params.limit) = (address, 4095);
            change(params);
        })
    };
    for (change, status) in [
        (
            (|params| params.flags = 0) as fn(&mut NVOS02_PARAMETERS),
            NV_ERR_INVALID_FLAGS,
        ),
        (
            |params| params.flags |= NVOS02_FLAGS_LOCATION.put(2),
            NV_ERR_INVALID_FLAGS,
        ),
        (
            |params| params.flags |= NVOS02_FLAGS_COHERENCY.put(3),
            NV_ERR_INVALID_FLAGS,
        ),
        (|params| params.pMemory += 8, NV_ERR_NOT_SUPPORTED),
        (|params| params.limit = u64::MAX, NV_ERR_INVALID_LIMIT),
        (|params| params.pMemory = 0x1000, NV_ERR_INVALID_ADDRESS),
        (
            |params| params.hObjectParent = params.hRoot,
            NV_ERR_INVALID_OBJECT_PARENT,
        ),
        (|params| params.hObjectParent = 5, NV_ERR_OBJECT_NOT_FOUND),
        (|params| params.hRoot = 5, NV_ERR_INVALID_CLIENT),
        (
            |params| params.hClass = NV01_MEMORY_SYSTEM,
            NV_ERR_NOT_SUPPORTED,
        ),
    ] {
        assert_eq!(lend(change), Err(status));
    }
    let lent = lend(|_| {}).expect("lent");
    let prepared = rig.prepare(0, "/dev/nvidiactl", lent, 0, 4096, 0);
    assert_eq!(prepared.map(|_| ()), Err(NV_ERR_NOT_SUPPORTED));
    rig.range(DATA, 4096).expect("a range");
    rig.map(&[0], lent, DATA, 4096).expect("mapped");
    channel.release(DATA + 16, 99);
    channel.ring();
    rig.run();
    assert_eq!(
        half(address + 16).load(Ordering::Relaxed),
        99,
        "{}",
        rig.reports()
    );
    // What a device may only read stays so, however it is mapped.
    let lent = lend(|params| {
        params.flags |= NVOS02_FLAGS_ALLOC_DEVICE_READ_ONLY.put(1);
    });
    rig.map(&[0], lent.expect("lent"), DATA, 4096)
        .expect("mapped over the other");
    channel.release(DATA + 16, 100);
    channel.ring();
    rig.run();
    assert_eq!(half(address + 16).load(Ordering::Relaxed), 99);
    assert!(rig.reports().contains("ReadOnly"), "{}", rig.reports());
}

#[test]
fn rm_fills_the_address_spaces_that_are_its_own() {
    let rig = Rig::new("nv-ampere,pace=manual,gpus=2");
    let device = rig.gpus[0].device;
    let mut params = NV_VASPACE_ALLOCATION_PARAMETERS::default();
    let space = rig
        .alloc(device, 0, FERMI_VASPACE_A, &mut params)
        .expect("a space");
    let mut params = NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS {
        limit: (1 << 40) - 1,
        hVASpace: space,
        ..Default::default()
    };
    let virt = rig
        .alloc(device, 0, NV01_MEMORY_VIRTUAL, &mut params)
        .expect("addresses");
    let memory = rig.memory(0, true, 128 << 10).expect("memory");
    let map = |change: &dyn Fn(&mut NVOS46_PARAMETERS)| {
        let mut args = NVOS46_PARAMETERS {
            hClient: rig.client,
            hDevice: device,
            hDma: virt,
            hMemory: memory,
            length: 128 << 10,
            ..Default::default()
        };
        change(&mut args);
        rig.ask(rig.control, &mut args)?;
        Ok(args.dmaOffset)
    };
    let first = map(&|_| {}).expect("mapped somewhere");
    let second = map(&|_| {}).expect("and elsewhere");
    assert!(first != second && first % (64 << 10) == 0);
    let fixed = |args: &mut NVOS46_PARAMETERS, place| {
        (args.flags, args.dmaOffset) = (1 << 15, place);
    };
    assert_eq!(map(&|args| fixed(args, 1 << 32)), Ok(1 << 32));
    let foreign = rig.memory(1, true, 128 << 10).expect("memory");
    for (status, change) in [
        (
            NV_ERR_NO_MEMORY,
            &(|args: &mut NVOS46_PARAMETERS| fixed(args, 1 << 32)) as &dyn Fn(&mut _),
        ),
        (NV_ERR_INVALID_OFFSET, &|args| fixed(args, (1 << 32) + 4096)),
        (NV_ERR_INVALID_OFFSET, &|args| fixed(args, 1 << 40)),
        (NV_ERR_INVALID_LIMIT, &|args| args.length = 0),
        (NV_ERR_INVALID_LIMIT, &|args| args.offset = 4096),
        (NV_ERR_INVALID_LIMIT, &|args| args.length = u64::MAX),
        (NV_ERR_INVALID_ARGUMENT, &|args| args.flags = 3),
        (NV_ERR_INVALID_OBJECT_HANDLE, &|args| args.hDma = memory),
        (NV_ERR_INVALID_OBJECT_HANDLE, &|args| args.hMemory = virt),
        (NV_ERR_INVALID_OBJECT_PARENT, &|args| args.hDevice = memory),
        (NV_ERR_OBJECT_NOT_FOUND, &|args| args.hMemory = 3),
    ] {
        assert_eq!(map(change), Err(status));
    }
    assert!(
        map(&|args| args.hMemory = foreign).is_ok(),
        "peers reach each other"
    );
    let unmap = |place, handle, size| {
        let mut args = NVOS47_PARAMETERS {
            hClient: rig.client,
            hDevice: device,
            hDma: virt,
            hMemory: handle,
            dmaOffset: place,
            size,
            ..Default::default()
        };
        rig.ask(rig.control, &mut args)
    };
    assert_eq!(unmap(first, foreign, 0), Err(NV_ERR_OBJECT_NOT_FOUND));
    assert_eq!(unmap(first, memory, 4096), Err(NV_ERR_INVALID_ARGUMENT));
    assert_eq!(unmap(first, memory, 0), Ok(()));
    assert_eq!(unmap(first, memory, 0), Err(NV_ERR_OBJECT_NOT_FOUND));
    assert_eq!(unmap(second, memory, 128 << 10), Ok(()));
    // With the memory its mappings go.
    assert_eq!(rig.free(memory), Ok(()));
    let memory = rig.memory(0, true, 128 << 10).expect("memory");
    assert!(
        map(&|args| {
            fixed(args, 1 << 32);
            args.hMemory = memory;
        })
        .is_ok()
    );
    // An address space that is somebody else's is not for RM to fill.
    let mut params = NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS {
        hVASpace: rig.external(0),
        ..Default::default()
    };
    let other = rig
        .alloc(device, 0, NV01_MEMORY_VIRTUAL, &mut params)
        .expect("addresses");
    let mapped = map(&|args| (args.hDma, args.hMemory) = (other, memory));
    assert_eq!(mapped, Err(NV_ERR_NOT_SUPPORTED));
}
