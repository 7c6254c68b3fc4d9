//! Objects: handles, addresses, maps, names.

use super::*;

#[test]
fn objects_that_cannot_be_made_are_refused() {
    let msm = Msm::on("qcom-a650,msm=present,pace=manual,ram=64");
    let (wc, both) = (BoFlags::WC, BoFlags::WC | BoFlags::CACHED);
    for (size, flags, errno) in [
        (0, wc, libc::EINVAL),
        // What is above 32 bits is cut off.
        (1 << 32, wc, libc::EINVAL),
        ((1 << 32) - 1, wc, libc::EINVAL),
        (PAGE, BoFlags::empty(), libc::EINVAL),
        (PAGE, BoFlags::SCANOUT, libc::EINVAL),
        (PAGE, BoFlags::UNCACHED, libc::EINVAL),
        (PAGE, both, libc::EINVAL),
        (PAGE, wc | BoFlags::from_bits_retain(4), libc::EINVAL),
        (PAGE, wc | BoFlags::from_bits_retain(1 << 31), libc::EINVAL),
        (65 << 20, wc, libc::ENOMEM),
    ] {
        assert_eq!(msm.alloc(size, flags), Err(errno), "{size:#x} {flags:?}");
    }
    let all = msm.alloc(64 << 20, wc).expect("memory");
    assert_eq!(msm.alloc(1, wc), Err(libc::ENOMEM));
    assert_eq!(msm.close(all), Ok(0));
    for flags in [wc, BoFlags::CACHED, BoFlags::CACHED_COHERENT] {
        assert!(msm.alloc(1, flags | BoFlags::GPU_READONLY).is_ok());
    }
    assert!(msm.alloc((1 << 32) + 1, wc).is_ok(), "a page");
}

#[test]
fn handles_are_used_again_and_unknown_ones_refused() {
    let msm = Msm::new(1);
    let handles = [(); 3].map(|()| msm.alloc(PAGE, BoFlags::WC).expect("memory"));
    assert_eq!(handles, [1, 2, 3]);
    assert_eq!(msm.close(2), Ok(0));
    for wrong in [0, 2, 4, u32::MAX] {
        assert_eq!(msm.close(wrong), Err(libc::EINVAL), "{wrong}");
        let info = msm.info(wrong, MSM_INFO_GET_IOVA, 0);
        assert_eq!(info, Err(libc::ENOENT), "{wrong}");
        let prep = msm.prep(wrong, MSM_PREP_READ, PAST);
        assert_eq!(prep, Err(libc::ENOENT), "{wrong}");
        let mut fini = drm_msm_gem_cpu_fini { handle: wrong };
        assert_eq!(msm.call(&mut fini), Err(libc::ENOENT), "{wrong}");
    }
    assert_eq!(msm.alloc(PAGE, BoFlags::WC), Ok(2));
    for op in [8, 0x10, u32::MAX] {
        assert_eq!(msm.prep(1, op, PAST), Err(libc::EINVAL), "{op:#x}");
    }
    let advise = |handle, madv| {
        let mut args = drm_msm_gem_madvise {
            handle,
            madv,
            retained: 7,
        };
        msm.call(&mut args).map(|_| args.retained)
    };
    assert_eq!(advise(1, MSM_MADV_DONTNEED), Ok(1));
    assert_eq!(advise(1, 3), Err(libc::EINVAL));
    assert_eq!(advise(9, MSM_MADV_WILLNEED), Err(libc::ENOENT));
    let uses = Bo {
        handle: 1,
        ..msm.bo(PAGE, BoFlags::WC)
    };
    let refused = msm.submit(0, &[nothing()], &[uses]);
    assert_eq!(refused, Err(libc::EBUSY), "its pages may go");
}

#[test]
fn objects_are_mapped_from_their_offset_by_their_file_alone() {
    let msm = Msm::new(1);
    let handle = msm.alloc(2 * PAGE, BoFlags::WC).expect("memory");
    let offset = msm.info(handle, MSM_INFO_GET_OFFSET, 0).expect("there");
    assert_eq!(msm.0.map(offset + PAGE, PAGE, true), Err(libc::EINVAL));
    assert_eq!(msm.0.map(offset, 3 * PAGE, true), Err(libc::EINVAL));
    assert_eq!(msm.0.map(0, PAGE, true), Err(libc::EINVAL));
    let file = msm.0.machine.open(Path::new(NODE), true).expect("there");
    // SAFETY: no fixed address.
    let stolen = unsafe { msm.0.machine.mmap(None, 4096, true, true, file, offset) };
    assert_eq!(stolen.map(drop), Err(libc::EACCES));
    let start = msm.0.map(offset, PAGE, true).expect("mapped");
    assert_eq!(msm.close(handle), Ok(0));
    // It is there as long as somebody sees it.
    // SAFETY: mapped.
    unsafe { pointer(start).as_ptr().write_volatile(7) };
    msm.0.unmap(start, PAGE);
    assert_eq!(msm.0.map(offset, PAGE, true), Err(libc::EINVAL));
}

#[test]
fn addresses_are_given_or_chosen() {
    let msm = Msm::new(1);
    let handles = [(); 3].map(|()| msm.alloc(2 * PAGE, BoFlags::WC).expect("memory"));
    let get = |handle| msm.info(handle, MSM_INFO_GET_IOVA, 0);
    let set = |handle, address| msm.info(handle, MSM_INFO_SET_IOVA, address);
    let space = 1u64 << 32..(1 << 32) + (16 << 30);
    assert_eq!(get(1), Ok(space.start));
    assert_eq!(get(1), Ok(space.start), "it stays");
    assert_eq!(set(1, space.start), Ok(space.start));
    assert_eq!(
        set(1, space.start + PAGE),
        Err(libc::EBUSY),
        "and another one is refused"
    );
    let chosen = space.start + (1 << 30);
    assert_eq!(set(handles[1], chosen), Ok(chosen));
    assert_eq!(get(handles[1]), Ok(chosen));
    for (address, errno) in [
        (chosen, libc::ENOSPC),
        (chosen + PAGE, libc::ENOSPC),
        (space.end - PAGE, libc::ENOSPC),
        (space.start - PAGE, libc::ENOSPC),
        (chosen + 0x10_0004, libc::ENOSPC),
        (u64::MAX, libc::ENOSPC),
    ] {
        assert_eq!(set(handles[2], address), Err(errno), "{address:#x}");
    }
    assert_eq!(set(handles[1], 0), Ok(0), "taken away");
    assert_eq!(set(handles[2], chosen), Ok(chosen));
    assert_eq!(msm.close(handles[2]), Ok(0));
    assert_eq!(set(handles[1], chosen), Ok(chosen));
    // Another file has addresses of its own.
    let other = Msm(Rig {
        machine: Arc::clone(&msm.0.machine),
        file: msm.0.machine.open(Path::new(NODE), true).expect("there"),
        commands: Vec::new(),
    });
    let theirs = other.alloc(PAGE, BoFlags::WC).expect("memory");
    assert_eq!(other.info(theirs, MSM_INFO_SET_IOVA, chosen), Ok(chosen));
}

#[test]
fn what_is_asked_of_objects_is_checked() {
    let msm = Msm::new(1);
    let handle = msm.alloc(PAGE, BoFlags::WC).expect("memory");
    let ask = |args: drm_msm_gem_info| {
        let mut args = drm_msm_gem_info { handle, ..args };
        msm.call(&mut args).map(|_| args.len)
    };
    let plain = drm_msm_gem_info::default();
    for wrong in [
        drm_msm_gem_info { pad: 1, ..plain },
        drm_msm_gem_info { len: 1, ..plain },
        drm_msm_gem_info {
            len: 1,
            info: MSM_INFO_GET_IOVA,
            ..plain
        },
        drm_msm_gem_info {
            len: 1,
            info: MSM_INFO_SET_IOVA,
            ..plain
        },
        drm_msm_gem_info { info: 5, ..plain },
        drm_msm_gem_info {
            info: u32::MAX,
            ..plain
        },
        drm_msm_gem_info {
            info: MSM_INFO_SET_NAME,
            len: 32,
            ..plain
        },
    ] {
        assert_eq!(ask(wrong), Err(libc::EINVAL), "{wrong:?}");
    }
    let (mut name, mut told) = (*b"a buffer\x01beyond", [b'?'; 32]);
    let (info, value) = (MSM_INFO_SET_NAME, at(&mut name));
    let set = drm_msm_gem_info {
        info,
        value,
        len: 15,
        ..plain
    };
    assert!(ask(set).is_ok());
    assert_eq!(ask(drm_msm_gem_info { value: 8, ..set }), Err(libc::EFAULT));
    assert!(ask(set).is_ok());
    let (info, value) = (MSM_INFO_GET_NAME, at(&mut told));
    let get = drm_msm_gem_info {
        info,
        value,
        ..plain
    };
    assert_eq!(ask(drm_msm_gem_info { value: 0, ..get }), Ok(8));
    assert_eq!(ask(drm_msm_gem_info { len: 7, ..get }), Err(libc::EINVAL));
    assert_eq!(ask(drm_msm_gem_info { len: 32, ..get }), Ok(8));
    assert_eq!(&told[..9], b"a buffer?");
}
