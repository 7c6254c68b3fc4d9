//! Files, numbers of requests, sizes of arguments.

use super::*;

#[test]
fn paths_that_are_not_there_and_files_that_are_not_open() {
    let machine = Machine::new("amd-gfx1100,gpus=2".parse().expect("config")).expect("starts");
    let open = |path: &str| machine.open(Path::new(path), true);
    let kfd = open("/dev/kfd").expect("is there");
    let node = open("/dev/dri/renderD129").expect("is there");
    assert_ne!(kfd, node);
    for path in [
        "/dev/dri/renderD130",
        "/dev/dri/renderD127",
        "/dev/dri/card0",
        "/dev/kfd/",
        "/etc/passwd",
        "",
    ] {
        assert_eq!(open(path), Err(libc::ENOENT), "{path}");
    }
    let none = std::ptr::null_mut();
    // SAFETY: refused before the argument is looked at.
    let closed = unsafe { machine.ioctl(99, AMDKFD_IOC_GET_VERSION.into(), none) };
    assert_eq!(closed, Err(libc::EBADF));
    // SAFETY: as above.
    let wrong = unsafe { machine.ioctl(node, AMDKFD_IOC_GET_VERSION.into(), none) };
    assert_eq!(wrong, Err(libc::ENOTTY));
    assert_eq!(machine.poll(99, Duration::ZERO), Err(libc::EBADF));
    assert_eq!(machine.poll(kfd, Duration::from_secs(60)), Ok(true));
    assert_eq!(machine.poll(node, Duration::from_millis(1)), Ok(false));
    machine.close(kfd);
    machine.close(kfd);
    assert_eq!(machine.poll(kfd, Duration::ZERO), Err(libc::EBADF));
    assert_eq!(open("/dev/kfd"), Ok(kfd), "the lowest number is used again");
    assert!(machine.now_ns() > 0);
}

#[test]
fn kfd_may_be_missing_or_denied() {
    for (config, errno) in [
        ("amd-gfx1100,kfd=missing", libc::ENOENT),
        ("amd-gfx1100,kfd=denied", libc::EACCES),
    ] {
        let machine = Machine::new(config.parse().expect(config)).expect("starts");
        assert_eq!(machine.open(Path::new("/dev/kfd"), true), Err(errno));
        let there = machine
            .list(Path::new("/dev"))
            .expect("is there")
            .contains(&"kfd".to_owned());
        assert_eq!(there, errno == libc::EACCES);
    }
}

#[test]
fn only_number_and_size_of_a_request_count() {
    let rig = Rig::on("amd-gfx1100,kfd_version=1.9");
    let mut version = kfd_ioctl_get_version_args::default();
    rig.call(&mut version).expect("a version");
    assert_eq!((version.major_version, version.minor_version), (1, 9));
    // A caller of half the size gets half of it; one of twice the size too much of nothing.
    let mut words = [7u32; 4];
    let address = words.as_mut_ptr().expose_provenance() as u64;
    let request = |bytes| hcq_uapi::ioctl::ior(b'K', 1, bytes);
    rig.raw(request(4), address).expect("half");
    assert_eq!(words, [1, 7, 7, 7]);
    rig.raw(request(16), address).expect("twice");
    assert_eq!(words, [1, 9, 7, 7]);
    // `kfd_ioctl` looks at neither letter nor direction.
    words = [7; 4];
    rig.raw(hcq_uapi::ioctl::iow(b'X', 1, 8), address)
        .expect("answers");
    assert_eq!(words, [1, 9, 7, 7]);
    for (request, errno) in [
        (hcq_uapi::ioctl::io(b'K', 0), libc::ENOTTY),
        (hcq_uapi::ioctl::io(b'K', 0x27), libc::ENOTTY),
        (hcq_uapi::ioctl::io(b'K', 0x80), libc::ENOTTY),
        (hcq_uapi::ioctl::iowr(b'K', 0x0d, 16), libc::EPERM),
        (hcq_uapi::ioctl::iowr(b'K', 0x10, 16), libc::EPERM),
        (hcq_uapi::ioctl::iowr(b'K', 0x22, 16), libc::EACCES),
        (hcq_uapi::ioctl::iowr(b'K', 0x26, 16), libc::EINVAL),
    ] {
        assert_eq!(rig.raw(request, address), Err(errno), "{request:#x}");
    }
    for wrong in [0, 8, u64::MAX - 3] {
        assert_eq!(rig.raw(AMDKFD_IOC_GET_VERSION, wrong), Err(libc::EFAULT));
        assert_eq!(rig.raw(AMDKFD_IOC_CREATE_EVENT, wrong), Err(libc::EFAULT));
    }
}

#[test]
fn a_process_has_one_address_space_on_each_gpu() {
    let rig = Rig::on("amd-gfx1100,gpus=2");
    let acquire = |drm_fd: i32, gpu_id| {
        rig.call(&mut kfd_ioctl_acquire_vm_args {
            drm_fd: drm_fd as u32,
            gpu_id,
        })
    };
    let [first, second] = [rig.nodes[0], rig.nodes[1]];
    // `kfd_ioctl_acquire_vm`: `fget`, `kfd_process_device_data_by_id`, `amdgpu_file_to_fpriv`.
    assert_eq!(acquire(99, rig.ids[0]), Err(libc::EINVAL));
    assert_eq!(acquire(-1, rig.ids[0]), Err(libc::EINVAL));
    assert_eq!(acquire(first, 0), Err(libc::EINVAL));
    assert_eq!(acquire(rig.kfd, rig.ids[0]), Err(libc::EINVAL));
    assert_eq!(acquire(second, rig.ids[0]), Err(libc::EINVAL));
    assert_eq!(acquire(first, rig.ids[0]), Ok(()));
    assert_eq!(acquire(first, rig.ids[0]), Ok(()), "the same file again");
    let again = rig
        .machine
        .open(Path::new("/dev/dri/renderD128"), true)
        .expect("opens");
    assert_eq!(acquire(again, rig.ids[0]), Err(libc::EBUSY));
    // Without an address space: `kfd_bind_process_to_device`.
    assert_eq!(rig.alloc(1, 1 << 30, 4096, GTT), Err(libc::ENODEV));
    assert_eq!(rig.alloc(0, 1 << 30, 4096, GTT).map(|_| ()), Ok(()));
    // The file may go; the address space stays with the process.
    rig.machine.close(first);
    assert_eq!(rig.alloc(0, 1 << 31, 4096, GTT).map(|_| ()), Ok(()));
}

#[test]
fn the_process_is_asked_about() {
    let rig = Rig::new("amd-gfx942,gpus=2");
    let mut clocks = kfd_ioctl_get_clock_counters_args {
        gpu_id: rig.ids[1],
        ..Default::default()
    };
    rig.call(&mut clocks).expect("clocks");
    assert_eq!(clocks.system_clock_freq, 1_000_000_000);
    assert!(
        clocks.gpu_clock_counter > 0 && clocks.cpu_clock_counter / 10 >= clocks.gpu_clock_counter
    );
    let mut later = clocks;
    std::thread::sleep(Duration::from_millis(2));
    rig.call(&mut later).expect("clocks");
    assert!(later.gpu_clock_counter - clocks.gpu_clock_counter >= 200_000 - 1000);
    let mut unknown = kfd_ioctl_get_clock_counters_args::default();
    rig.call(&mut unknown).expect("clocks");
    assert_eq!(unknown.gpu_clock_counter, 0);

    let mut seven = kfd_ioctl_get_process_apertures_args::default();
    rig.call(&mut seven).expect("apertures");
    assert_eq!(seven.num_of_nodes, 2);
    let mut count = kfd_ioctl_get_process_apertures_new_args::default();
    rig.call(&mut count).expect("a count");
    assert_eq!(count.num_of_nodes, 2);
    let mut all = [kfd_process_device_apertures::default(); 3];
    let mut args = kfd_ioctl_get_process_apertures_new_args {
        kfd_process_device_apertures_ptr: all.as_mut_ptr().expose_provenance() as u64,
        num_of_nodes: 3,
        pad: 0,
    };
    rig.call(&mut args).expect("apertures");
    assert_eq!(args.num_of_nodes, 2);
    assert_eq!(all[..2], seven.process_apertures[..2]);
    assert_eq!(all[2], Default::default());
    assert_eq!(all[1].gpu_id, rig.ids[1]);
    assert_eq!((all[0].lds_base, all[0].scratch_base), (1 << 48, 2 << 48));
    assert_eq!(
        (all[0].gpuvm_base, all[0].gpuvm_limit),
        (0x1_0000, 0x7FFF_FFFF_FFFF)
    );
    args.num_of_nodes = 4;
    assert_eq!(rig.call(&mut args), Err(libc::EINVAL));
    args = kfd_ioctl_get_process_apertures_new_args {
        num_of_nodes: 1,
        ..Default::default()
    };
    assert_eq!(rig.call(&mut args), Err(libc::EFAULT));
}

#[test]
fn policies_traps_scratch_and_retries() {
    let rig = Rig::on("amd-gfx942");
    let gpu_id = rig.ids[0];
    let policy = |gpu_id, default_policy, alternate_policy| {
        rig.call(&mut kfd_ioctl_set_memory_policy_args {
            gpu_id,
            default_policy,
            alternate_policy,
            ..Default::default()
        })
    };
    let trap = |gpu_id| {
        rig.call(&mut kfd_ioctl_set_trap_handler_args {
            gpu_id,
            tba_addr: 4096,
            ..Default::default()
        })
    };
    let scratch = |gpu_id| {
        rig.call(&mut kfd_ioctl_set_scratch_backing_va_args {
            gpu_id,
            va_addr: 4096,
            pad: 0,
        })
    };
    assert_eq!(policy(gpu_id, 2, 0), Err(libc::EINVAL));
    assert_eq!(policy(gpu_id, 0, 2), Err(libc::EINVAL));
    assert_eq!(policy(1, 0, 0), Err(libc::EINVAL));
    assert_eq!(policy(gpu_id, 0, 1), Err(libc::ESRCH));
    assert_eq!(
        (trap(1), trap(gpu_id)),
        (Err(libc::EINVAL), Err(libc::ESRCH))
    );
    assert_eq!(
        (scratch(1), scratch(gpu_id)),
        (Err(libc::EINVAL), Err(libc::ENODEV))
    );
    let mut acquire = kfd_ioctl_acquire_vm_args {
        drm_fd: rig.nodes[0] as u32,
        gpu_id,
    };
    rig.call(&mut acquire).expect("address space");
    assert_eq!(
        (policy(gpu_id, 0, 1), trap(gpu_id), scratch(gpu_id)),
        (Ok(()), Ok(()), Ok(()))
    );

    let xnack = |rig: &Rig, xnack_enabled| {
        let mut args = kfd_ioctl_set_xnack_mode_args { xnack_enabled };
        rig.call(&mut args).map(|()| args.xnack_enabled)
    };
    assert_eq!(
        (xnack(&rig, -1), xnack(&rig, 1), xnack(&rig, -1)),
        (Ok(0), Ok(1), Ok(1))
    );
    let other = Rig::new("amd-gfx1100");
    assert_eq!(
        (xnack(&other, 0), xnack(&other, 1)),
        (Ok(0), Err(libc::EPERM))
    );
    let queue = other.queue(0, KFD_IOC_QUEUE_TYPE_SDMA);
    assert_eq!(xnack(&other, 0), Err(libc::EBUSY));

    // `runtime_enable`: not twice, not with queues.
    let runtime = |mode_mask| {
        other.call(&mut kfd_ioctl_runtime_enable_args {
            mode_mask,
            ..Default::default()
        })
    };
    assert_eq!(runtime(1), Err(libc::EEXIST));
    other.destroy(queue.args.queue_id).expect("is there");
    assert_eq!(
        (runtime(1), runtime(1), runtime(0), runtime(3)),
        (Ok(()), Err(libc::EBUSY), Ok(()), Ok(()))
    );
}

#[test]
fn what_is_not_simulated_says_so() {
    let rig = Rig::new("amd-gfx1201");
    let mut svm = kfd_ioctl_svm_args {
        nattr: 1,
        ..Default::default()
    };
    assert_eq!(
        rig.call(&mut svm),
        Err(libc::EINVAL),
        "an attribute is missing"
    );
    svm.nattr = 0;
    assert_eq!(rig.call(&mut svm), Err(libc::EPERM));
    let mut smi = kfd_ioctl_smi_events_args::default();
    assert_eq!(rig.call(&mut smi), Err(libc::EINVAL));
    smi.gpuid = rig.ids[0];
    assert_eq!(rig.call(&mut smi), Err(libc::EOPNOTSUPP));
    assert_eq!(
        rig.call(&mut kfd_ioctl_export_dmabuf_args::default()),
        Err(libc::EOPNOTSUPP)
    );
    assert_eq!(
        rig.call(&mut kfd_ioctl_import_dmabuf_args::default()),
        Err(libc::EOPNOTSUPP)
    );
    let mut tiles = kfd_ioctl_get_tile_config_args {
        num_tile_configs: 9,
        ..Default::default()
    };
    assert_eq!(rig.call(&mut tiles), Err(libc::EINVAL));
    tiles.gpu_id = rig.ids[0];
    assert_eq!(rig.call(&mut tiles), Ok(()));
    assert_eq!(tiles.num_tile_configs, 0);
}

#[test]
fn scripted_calls_fail_once_and_leave_nothing_behind() {
    let rig = Rig::new("amd-gfx1100");
    let fail = |call, nth, errno| {
        rig.machine.inject(Script::Fail {
            call,
            nth,
            times: 1,
            errno,
        });
    };
    fail(Call::Ioctl(0x16), 2, libc::ENOMEM);
    let (first, _) = rig.alloc(0, 1 << 30, 4096, GTT).expect("the first works");
    assert_eq!(rig.alloc(0, 1 << 31, 4096, GTT), Err(libc::ENOMEM));
    let (second, offset) = rig.alloc(0, 1 << 31, 4096, GTT).expect("the third works");
    assert_eq!(second, first + 1);
    fail(Call::Mmap, 1, libc::EAGAIN);
    assert_eq!(rig.see(0, 0, 4096, offset), Err(libc::EAGAIN));
    assert!(rig.see(0, 0, 4096, offset).is_ok());
    fail(Call::Open("/dev/kfd".into()), 1, libc::EMFILE);
    let open = || rig.machine.open(Path::new("/dev/kfd"), true);
    assert_eq!(open(), Err(libc::EMFILE));
    assert!(open().is_ok());
}

/// Numbers that calls are made of, some of which mean something.
fn numbers(rig: &Rig, pages: u64) -> Vec<u64> {
    let ids = rig
        .ids
        .iter()
        .flat_map(|&id| [u64::from(id), u64::from(id) << 32, u64::from(id) << 32 | 1]);
    let plain = [
        0,
        1,
        2,
        3,
        7,
        8,
        64,
        100,
        4095,
        4096,
        8192,
        32768,
        1 << 31,
        1 << 40,
        1 << 47,
        1 << 63,
        u64::MAX,
    ];
    let kinds = [
        F::VRAM,
        F::GTT,
        F::USERPTR,
        F::DOORBELL,
        F::MMIO_REMAP,
        F::VRAM | F::PUBLIC,
        F::GTT | F::AQL_QUEUE_MEM,
    ];
    let flags = kinds.into_iter().flat_map(|kind| {
        let bits = u64::from((kind | F::WRITABLE).bits());
        [bits, bits << 32]
    });
    ids.chain(plain)
        .chain(flags)
        .chain([pages, pages + 8, pages + 4096])
        .collect()
}

#[test]
fn no_call_breaks_the_kernel() {
    let mut random = fastrand::Rng::with_seed(7);
    for config in [
        "amd-gfx942,gpus=2,vram=64,ram=256",
        "amd-gfx1151,vram=64,ram=256,pace=manual",
    ] {
        let rig = Rig::new(config);
        // The only memory that any number points to.
        let pages = rig.buffer(0, 16384, GTT);
        let numbers = numbers(&rig, pages.address);
        let mut accepted = [0u32; 0x27];
        for _ in 0..20_000 {
            let mut argument = [0u64; 16];
            for word in &mut argument {
                let pick = |random: &mut fastrand::Rng| numbers[random.usize(..numbers.len())];
                *word = match random.u32(..4) {
                    0 => pick(&mut random) & 0xFFFF_FFFF | pick(&mut random) << 32,
                    1 => u64::from(random.u32(..8)) << 32 | u64::from(random.u32(..8)),
                    _ => pick(&mut random),
                };
            }
            let number = random.u8(1..0x27);
            if number == 0x16 && random.bool() {
                argument[4] = u64::from(rig.ids[0]) | argument[4] & 0xFFFF_FFFF << 32;
                argument[1] = 4096 << random.u32(..4);
            }
            if (0x17..0x1A).contains(&number) && random.bool() {
                argument[0] = u64::from(rig.ids[0]) << 32 | random.u64(..8);
            }
            if (number == 0x18 || number == 0x19) && random.bool() {
                // An array that is there, and few of it: else no call comes far.
                word(pages.address).store(rig.ids[0].into(), Ordering::Relaxed);
                (argument[1], argument[2]) = (pages.address, 1);
            }
            if number == 0x0C {
                // A wait without a limit is one.
                argument[2] &= 0xFFFF_FFFF << 32;
            }
            let request = hcq_uapi::ioctl::iowr(b'K', number, random.usize(..129));
            let result = rig.raw(request, argument.as_mut_ptr().expose_provenance() as u64);
            if result.is_ok() {
                accepted[usize::from(number)] += 1;
            }
            rig.machine.step();
        }
        for number in [0x01, 0x02, 0x03, 0x05, 0x08, 0x16, 0x17, 0x18, 0x19] {
            let known = accepted[number];
            // Queues need more luck than there is.
            assert!(
                known > 0 || number == 0x02 || number == 0x03,
                "{number:#x} is never accepted"
            );
        }
        assert!(
            rig.event(KFD_IOC_EVENT_MEMORY, false, 0).is_ok(),
            "it still answers"
        );
    }
}
