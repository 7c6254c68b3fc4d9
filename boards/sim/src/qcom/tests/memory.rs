//! Objects: what they turn out to be, what is refused, when they go.

use super::*;
use crate::qcom::iommu::{SVM, VA};

/// Freed when a context comes to a time stamp.
fn free_at(rig: &Rig, id: u32, context: u32, timestamp: u32) -> Result<i32, i32> {
    let mut event = kgsl_gpu_event_timestamp {
        context_id: context,
        timestamp,
    };
    rig.call(&mut kgsl_gpuobj_free {
        flags: KGSL_GPUOBJ_FREE_ON_EVENT.into(),
        r#priv: at(&mut event),
        id,
        r#type: KGSL_GPU_EVENT_TIMESTAMP,
        len: size_of::<kgsl_gpu_event_timestamp>() as u32,
        ..Default::default()
    })
}

#[test]
fn objects_are_rounded_and_their_flags_told() {
    let wanted = CACHED | MemFlags::IOCOHERENT | MemFlags::align(3);
    for (name, coherent) in [("a630", false), ("a650", true), ("a660", true)] {
        let rig = Rig::on(&format!("qcom-{name},pace=manual"));
        let made = rig.alloc(PAGE + 1, wanted).expect("memory");
        assert_eq!((made.size, made.mmapsize), (2 * PAGE, 2 * PAGE));
        assert_eq!(made.flags.alignment(), 12);
        assert_eq!(
            made.flags.contains(MemFlags::IOCOHERENT),
            coherent,
            "{name}"
        );
        // What is not cached cannot be snooped.
        let made = rig.alloc(1, MemFlags::IOCOHERENT).expect("memory");
        assert!(!made.flags.contains(MemFlags::IOCOHERENT));
        let plain = rig.alloc(1, CACHED).expect("memory");
        assert_eq!(plain.flags.contains(MemFlags::IOCOHERENT), name == "a660");
    }
    let rig = Rig::new(1);
    let through = MemFlags::cache_mode(CacheMode::WriteThrough);
    let made = rig.alloc(1, through | MemFlags::align(60)).expect("memory");
    assert_eq!(made.flags.caches(), CacheMode::WriteBack);
    assert_eq!(made.flags.alignment(), 25, "32 MiB at most");
    assert!(
        rig.info(made.id)
            .expect("there")
            .gpuaddr
            .is_multiple_of(32 << 20)
    );
    // Unknown flags are dropped.
    let odd = MemFlags::from_bits_retain(1 << 60) | MemFlags::SPARSE_PHYS;
    assert_eq!(
        rig.alloc(1, odd).expect("memory").flags,
        MemFlags::align(12)
    );
    let guarded = rig.alloc(PAGE, MemFlags::GUARD_PAGE).expect("memory");
    assert_eq!((guarded.size, guarded.mmapsize), (PAGE, 2 * PAGE));
    let low = rig.alloc(PAGE, MemFlags::FORCE_32BIT).expect("memory");
    assert!(rig.info(low.id).expect("there").gpuaddr < 1 << 32);
    assert!(VA.contains(&rig.info(guarded.id).expect("there").gpuaddr));
}

#[test]
fn what_cannot_be_made_is_refused() {
    let rig = Rig::on("qcom-a650,pace=manual,ram=64");
    for (bytes, flags, errno) in [
        (0, MemFlags::empty(), libc::EINVAL),
        (1 << 32, MemFlags::empty(), libc::EINVAL),
        ((1 << 32) - 1, MemFlags::empty(), libc::EINVAL),
        (u64::MAX, MemFlags::empty(), libc::EINVAL),
        (PAGE, MemFlags::SECURE, libc::EOPNOTSUPP),
        (PAGE, MemFlags::VBO, libc::EOPNOTSUPP),
        (65 << 20, MemFlags::empty(), libc::ENOMEM),
    ] {
        assert_eq!(rig.alloc(bytes, flags), Err(errno), "{bytes:#x} {flags:?}");
    }
    let all = rig.alloc(64 << 20, MemFlags::empty()).expect("memory");
    assert_eq!(rig.alloc(1, MemFlags::empty()), Err(libc::ENOMEM));
    assert_eq!(rig.free(all.id), Ok(0));
    assert!(rig.alloc(1, MemFlags::empty()).is_ok());
}

#[test]
fn numbers_are_used_again_and_unknown_ones_refused() {
    let rig = Rig::new(1);
    let ids: Vec<u32> = (0..3)
        .map(|_| rig.alloc(PAGE, CACHED).expect("memory").id)
        .collect();
    assert_eq!(ids, [1, 2, 3]);
    assert_eq!(rig.free(2), Ok(0));
    for wrong in [0, 2, 4, u32::MAX] {
        assert_eq!(rig.free(wrong), Err(libc::EINVAL), "{wrong}");
        assert_eq!(rig.info(wrong), Err(libc::EINVAL), "{wrong}");
        assert_eq!(rig.sync(wrong, CacheOps::CLEAN, None), Err(libc::EINVAL));
        assert_eq!(
            rig.map(u64::from(wrong) * PAGE, PAGE, true),
            Err(libc::EINVAL)
        );
    }
    assert_eq!(rig.alloc(PAGE, CACHED).expect("memory").id, 2);
}

#[test]
fn types_and_labels_are_set() {
    let rig = Rig::new(1);
    let id = rig.alloc(PAGE, CACHED).expect("memory").id;
    let set = |id, kind| {
        rig.call(&mut kgsl_gpuobj_set_info {
            flags: (KGSL_GPUOBJ_SET_INFO_TYPE | KGSL_GPUOBJ_SET_INFO_METADATA).into(),
            id,
            r#type: kind,
            metadata_len: 9,
            metadata: 8,
            ..Default::default()
        })
    };
    assert_eq!(
        set(id, KGSL_MEMTYPE_COMMAND),
        Ok(0),
        "a label that is not there is none"
    );
    let kind = rig.info(id).expect("there").flags.bits() & u64::from(KGSL_MEMTYPE_MASK);
    assert_eq!(kind, u64::from(KGSL_MEMTYPE_COMMAND) << KGSL_MEMTYPE_SHIFT);
    assert_eq!(set(id, 256), Err(libc::EINVAL));
    assert_eq!(set(9, 1), Err(libc::EINVAL));
    assert_eq!(set(0, 1), Err(libc::EINVAL));
}

#[test]
fn an_object_lives_while_it_is_mapped() {
    let mut rig = Rig::new(4);
    let context = rig.context(PLAIN);
    let data = rig.buffer(2 * PAGE, WRITE_COMBINED);
    assert_eq!(rig.free(data.id), Ok(0));
    assert_eq!(rig.info(data.id), Err(libc::EINVAL), "nobody finds it");
    assert_eq!(rig.free(data.id), Err(libc::EINVAL));
    // The GPU still has it.
    rig.submit(context, &[write(data.gpu, 3)]).expect("taken");
    rig.run();
    assert_eq!(data.get(0), 3);
    rig.unmap(data.cpu, PAGE);
    assert_ne!(rig.alloc(PAGE, CACHED).expect("memory").id, data.id);
    rig.unmap(data.cpu + PAGE, PAGE);
    assert_eq!(rig.alloc(PAGE, CACHED).expect("memory").id, data.id);
    assert!(rig.machine.reports().is_empty());
}

#[test]
fn memory_that_is_freed_too_early_is_a_page_fault() {
    let mut rig = Rig::new(4);
    let context = rig.context(ContextFlags::INVALIDATE_ON_FAULT);
    let data = rig.alloc(PAGE, WRITE_COMBINED).expect("memory").id;
    let address = rig.info(data).expect("there").gpuaddr;
    let done = rig.submit(context, &[write(address, 3)]).expect("taken");
    assert_eq!(rig.free(data), Ok(0), "nobody says that it is in use");
    rig.run();
    assert_eq!(rig.wait(context, done, 1), Err(libc::EDEADLK));
    let report = rig.machine.reports().join("\n");
    assert!(report.contains(&format!("{address:#x}")), "{report}");
}

#[test]
fn memory_is_freed_when_its_time_has_come() {
    let mut rig = Rig::new(5);
    let context = rig.context(PLAIN);
    let data = rig.alloc(PAGE, WRITE_COMBINED).expect("memory").id;
    let address = rig.info(data).expect("there").gpuaddr;
    let done = rig.submit(context, &[write(address, 3)]).expect("taken");
    assert_eq!(
        free_at(&rig, data, context, done + 1),
        Err(libc::EINVAL),
        "the future"
    );
    assert_eq!(free_at(&rig, data, context + 1, done), Err(libc::EINVAL));
    assert_eq!(free_at(&rig, data, 0, done), Err(libc::EINVAL));
    assert_eq!(free_at(&rig, data, context, done), Ok(0));
    assert_eq!(rig.info(data), Err(libc::EINVAL));
    let other = rig.alloc(PAGE, WRITE_COMBINED).expect("memory").id;
    assert_ne!(other, data, "it is still there");
    rig.run();
    assert_eq!(rig.alloc(PAGE, CACHED).expect("memory").id, data);
    assert!(
        rig.machine.reports().is_empty(),
        "{:?}",
        rig.machine.reports()
    );
    // A time that has come frees at once.
    assert_eq!(free_at(&rig, data, context, done), Ok(0));
    assert_eq!(rig.alloc(PAGE, CACHED).expect("memory").id, data);
    // So does the end of the context, whatever the time.
    let own = rig.context(ContextFlags::USER_GENERATED_TS);
    assert_eq!(
        free_at(&rig, data, own, 1000),
        Ok(0),
        "who makes times knows the future"
    );
    assert_eq!(rig.destroy(own), Ok(0));
    assert_eq!(rig.alloc(PAGE, CACHED).expect("memory").id, data);
}

#[test]
fn events_that_are_wrong_leave_the_object() {
    let rig = Rig::new(5);
    let id = rig.alloc(PAGE, CACHED).expect("memory").id;
    let mut words = [1u32, 0, 0, 7];
    let mut event = |kind, len, null| {
        rig.call(&mut kgsl_gpuobj_free {
            flags: KGSL_GPUOBJ_FREE_ON_EVENT.into(),
            r#priv: if null { 0 } else { at(&mut words) },
            id,
            r#type: kind,
            len,
            ..Default::default()
        })
    };
    assert_eq!(event(0, 8, false), Err(libc::EINVAL));
    assert_eq!(event(3, 8, false), Err(libc::EINVAL));
    assert_eq!(event(KGSL_GPU_EVENT_TIMESTAMP, 8, true), Err(libc::EFAULT));
    assert_eq!(
        event(KGSL_GPU_EVENT_TIMESTAMP, 16, false),
        Err(libc::EFAULT),
        "not zero"
    );
    assert_eq!(
        event(KGSL_GPU_EVENT_TIMESTAMP, 12, false),
        Err(libc::EINVAL),
        "no context"
    );
    assert_eq!(event(KGSL_GPU_EVENT_FENCE, 4, false), Err(libc::EINVAL));
    assert!(rig.info(id).is_ok());
}

#[test]
fn maps_are_whole() {
    let rig = Rig::new(1);
    let id = u64::from(rig.alloc(2 * PAGE, CACHED).expect("memory").id);
    assert_eq!(rig.map(id * PAGE, PAGE, true), Err(libc::ERANGE));
    assert_eq!(rig.map(id * PAGE, 3 * PAGE, true), Err(libc::ERANGE));
    let twice: Vec<u64> = (0..2)
        .map(|_| rig.map(id * PAGE, 2 * PAGE, true).expect("mapped"))
        .collect();
    // SAFETY: mapped above.
    let word = |at: u64| unsafe { AtomicU64::from_ptr(pointer(at).as_ptr().cast()) };
    word(twice[0]).store(9, Ordering::Relaxed);
    assert_eq!(word(twice[1]).load(Ordering::Relaxed), 9);
    // By address, too.
    let address = rig.info(id as u32).expect("there").gpuaddr;
    assert!(rig.map(address, 2 * PAGE, true).is_ok());
    assert_eq!(rig.map(address - PAGE, 2 * PAGE, true), Err(libc::EINVAL));
}

#[test]
fn the_memory_of_time_stamps_can_be_read() {
    let mut rig = Rig::new(1);
    let mut shadow = kgsl_shadowprop::default();
    let value = at(&mut shadow);
    let mut args = kgsl_device_getproperty {
        r#type: KGSL_PROP_DEVICE_SHADOW,
        value,
        sizebytes: size_of::<kgsl_shadowprop>() as u64,
        ..Default::default()
    };
    assert_eq!(rig.call(&mut args), Ok(0));
    assert_eq!(rig.map(shadow.gpuaddr, shadow.size, true), Err(libc::EPERM));
    assert_eq!(rig.map(shadow.gpuaddr, PAGE, false), Err(libc::EINVAL));
    let base = rig.map(shadow.gpuaddr, shadow.size, false).expect("mapped");
    let context = rig.context(PLAIN);
    let done = rig.submit(context, &[nothing()]).expect("taken");
    rig.run();
    let entry = base + u64::from(context) * size_of::<kgsl_devmemstore>() as u64;
    // SAFETY: in the mapping, which is never written here.
    let entry = unsafe { pointer(entry).cast::<kgsl_devmemstore>().read_volatile() };
    assert_eq!((entry.soptimestamp, entry.eoptimestamp), (done, done));
    // SAFETY: as above.
    let global = unsafe { pointer(base).cast::<kgsl_devmemstore>().read_volatile() };
    assert_eq!(global.current_context, context);
}

#[test]
fn one_address_for_both() {
    let mut rig = Rig::new(1);
    let context = rig.context(PLAIN);
    let made = rig.alloc(PAGE, MemFlags::USE_CPU_MAP).expect("memory");
    assert_eq!(
        rig.info(made.id).expect("there").gpuaddr,
        0,
        "not mapped yet"
    );
    let offset = u64::from(made.id) * PAGE;
    let cpu = rig.map(offset, PAGE, true).expect("mapped");
    assert!(SVM.contains(&cpu), "{cpu:#x}");
    assert_eq!(rig.info(made.id).expect("there").gpuaddr, cpu);
    assert_eq!(rig.map(offset, PAGE, true), Err(libc::EBUSY), "once");
    rig.submit(context, &[write(cpu + 8, 5)]).expect("taken");
    rig.run();
    // SAFETY: mapped above.
    let word = unsafe { AtomicU64::from_ptr(pointer(cpu + 8).as_ptr().cast()) };
    assert_eq!(word.load(Ordering::Acquire), 5);
    // Addresses that the process insists on are its range's, and aligned.
    let big = MemFlags::USE_CPU_MAP | MemFlags::align(20);
    let made = rig.alloc(PAGE, big).expect("memory");
    let fixed = |start: u64| {
        let (file, offset) = (rig.file, u64::from(made.id) * PAGE);
        // SAFETY: nothing is there.
        let mapped = unsafe {
            rig.machine
                .mmap(Some(pointer(start)), 4096, true, true, file, offset)
        };
        mapped.map(|at| at.as_ptr().expose_provenance() as u64)
    };
    assert_eq!(fixed(SVM.start + PAGE), Err(libc::EINVAL));
    assert_eq!(
        fixed(0x50_0000_0000),
        Err(libc::ENOMEM),
        "not the range for that"
    );
    assert_eq!(fixed(0x20_0000_0000), Ok(0x20_0000_0000));
    assert_eq!(rig.free(made.id), Ok(0));
    rig.unmap(0x20_0000_0000, PAGE);
    assert!(rig.machine.reports().is_empty());
}

#[test]
fn a_guard_page_may_be_read_and_what_may_not_be_written_is_not() {
    for (flags, offset, allowed) in [
        (MemFlags::GUARD_PAGE, 0, true),
        (MemFlags::GUARD_PAGE, PAGE, false),
        (MemFlags::empty(), 1 << 30, false),
        (MemFlags::GPUREADONLY, 0, false),
    ] {
        let mut rig = Rig::new(1);
        let context = rig.context(ContextFlags::INVALIDATE_ON_FAULT);
        let made = rig.alloc(PAGE, flags).expect("memory");
        let address = rig.info(made.id).expect("there").gpuaddr;
        let done = rig
            .submit(context, &[write(address + offset, 1)])
            .expect("taken");
        rig.run();
        let result = if allowed { Ok(0) } else { Err(libc::EDEADLK) };
        assert_eq!(rig.wait(context, done, 1), result, "{flags:?} {offset:#x}");
    }
}

#[test]
fn memory_of_the_process_is_lent() {
    let mut rig = Rig::new(1);
    let mut own = vec![0u8; 3 * PAGE as usize];
    let start = at(own.as_mut_slice()).next_multiple_of(PAGE);
    let import = |address: u64, bytes: u64, flags: MemFlags, kind: u32| {
        let mut from = kgsl_gpuobj_import_useraddr { virtaddr: address };
        let mut args = kgsl_gpuobj_import {
            r#priv: at(&mut from),
            priv_len: bytes,
            flags,
            r#type: kind,
            id: 0,
        };
        rig.call(&mut args).map(|_| args)
    };
    const ADDR: u32 = KGSL_USER_MEM_TYPE_ADDR;
    for (address, bytes, flags, kind, errno) in [
        (0, PAGE, CACHED, ADDR, libc::EINVAL),
        (start + 8, PAGE, CACHED, ADDR, libc::EINVAL),
        (start, 0, CACHED, ADDR, libc::EINVAL),
        (start, PAGE + 8, CACHED, ADDR, libc::EINVAL),
        (start, PAGE, MemFlags::VBO, ADDR, libc::EINVAL),
        (0x1000, PAGE, CACHED, ADDR, libc::EFAULT),
        (start, 1 << 40, CACHED, ADDR, libc::EFAULT),
        (u64::MAX - PAGE + 1, PAGE, CACHED, ADDR, libc::EFAULT),
        (
            start,
            PAGE,
            CACHED | MemFlags::USE_CPU_MAP,
            ADDR,
            libc::ENOMEM,
        ),
        (start, PAGE, CACHED, 0, 524),
        (start, PAGE, CACHED, 7, 524),
        (5, 4, CACHED, KGSL_USER_MEM_TYPE_DMABUF, libc::EBADF),
        (
            0xFFFF_FFFF,
            4,
            CACHED,
            KGSL_USER_MEM_TYPE_DMABUF,
            libc::EINVAL,
        ),
        (
            5 | 1 << 32,
            8,
            CACHED,
            KGSL_USER_MEM_TYPE_DMABUF,
            libc::EFAULT,
        ),
        (5, 4, MemFlags::SECURE, KGSL_USER_MEM_TYPE_DMABUF, 524),
    ] {
        let made = import(address, bytes, flags, kind);
        assert_eq!(made, Err(errno), "{address:#x} {bytes:#x} {flags:?} {kind}");
    }
    let made = import(start, 2 * PAGE, CACHED, ADDR).expect("lent");
    assert_eq!(
        made.flags.bits() & 0xE0,
        u64::from(KGSL_MEMFLAGS_USERMEM_ADDR)
    );
    let offset = u64::from(made.id) * PAGE;
    assert_eq!(
        rig.map(offset, 2 * PAGE, true),
        Err(libc::EINVAL),
        "no mmap of it"
    );
    let context = rig.context(PLAIN);
    let address = rig.info(made.id).expect("there").gpuaddr;
    rig.submit(context, &[write(address + 16, 77)])
        .expect("taken");
    rig.run();
    assert_eq!(rig.sync(made.id, CacheOps::INV, None), Ok(0));
    // SAFETY: `own` is alive.
    let word = unsafe { AtomicU64::from_ptr(pointer(start + 16).as_ptr().cast()) };
    assert_eq!(word.load(Ordering::Acquire), 77);
    // What is the driver's already is not lent to it.
    let buffer = rig.buffer(PAGE, CACHED);
    let import = |address: u64| {
        let mut from = kgsl_gpuobj_import_useraddr { virtaddr: address };
        rig.call(&mut kgsl_gpuobj_import {
            r#priv: at(&mut from),
            priv_len: PAGE,
            flags: CACHED,
            r#type: ADDR,
            id: 0,
        })
    };
    assert_eq!(import(buffer.cpu), Err(libc::EFAULT));
    assert_eq!(rig.free(made.id), Ok(0));
    drop(own);
}

/// The kernel pins the pages of an object, so that a process may unmap them before it frees it, and map others there.
#[test]
fn memory_of_the_process_may_go_before_the_object() {
    for seed in 0..20 {
        let mut rig = Rig::new(seed);
        let own = Pages::new(4 * PAGE);
        let mut from = kgsl_gpuobj_import_useraddr {
            virtaddr: own.start(),
        };
        let mut made = kgsl_gpuobj_import {
            r#priv: at(&mut from),
            priv_len: 4 * PAGE,
            flags: CACHED,
            r#type: KGSL_USER_MEM_TYPE_ADDR,
            id: 0,
        };
        assert_eq!(rig.call(&mut made), Ok(0));
        drop(own);
        for _ in 0..20 {
            assert!(rig.info(made.id).is_ok());
        }
        // The GPU has them still.
        let context = rig.context(PLAIN);
        let address = rig.info(made.id).expect("there").gpuaddr;
        let words = [write(address + 16, 77)];
        rig.submit(context, &words).expect("taken");
        rig.run();
        for op in [CacheOps::CLEAN, CacheOps::INV] {
            assert_eq!(rig.sync(made.id, op, None), Ok(0));
        }
        assert_eq!(rig.free(made.id), Ok(0));
    }
}

#[test]
fn the_last_file_takes_everything_with_it() {
    let mut rig = Rig::new(1);
    let second = rig
        .machine
        .open(Path::new("/dev/kgsl-3d0"), true)
        .expect("again");
    let id = rig.alloc(PAGE, CACHED).expect("memory").id;
    rig.machine.close(rig.file);
    rig.file = second;
    assert!(rig.info(id).is_ok(), "objects are the process's");
    rig.machine.close(second);
    rig.file = rig
        .machine
        .open(Path::new("/dev/kgsl-3d0"), true)
        .expect("again");
    assert_eq!(rig.info(id), Err(libc::EINVAL));
    assert_eq!(rig.alloc(PAGE, CACHED).expect("memory").id, 1);
}
