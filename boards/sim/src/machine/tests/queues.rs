//! Queues: what is refused, doorbells, limits.

use super::*;

const COMPUTE: u32 = KFD_IOC_QUEUE_TYPE_COMPUTE;
const AQL: u32 = KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
const SDMA: u32 = KFD_IOC_QUEUE_TYPE_SDMA;
/// The kernel's `ENOTSUPP`.
const ENOTSUPP: i32 = 524;

type Change = fn(&mut kfd_ioctl_create_queue_args);
type Update = fn(&mut kfd_ioctl_update_queue_args);

#[test]
fn queues_that_the_kernel_refuses() {
    let rig = Rig::new("amd-gfx942");
    let mut queue = rig.ring(0, COMPUTE);
    let good = queue.args;
    let table: &[(&str, i32, Change)] = &[
        // `set_queue_properties_from_user`.
        ("percentage", libc::EINVAL, |a| a.queue_percentage = 101),
        ("priority", libc::EINVAL, |a| a.queue_priority = 16),
        ("ring outside", libc::EFAULT, |a| {
            a.ring_base_address = 1 << 63
        }),
        ("ring size", libc::EINVAL, |a| a.ring_size = 4095),
        ("read pointer outside", libc::EFAULT, |a| {
            a.read_pointer_address = 1 << 63
        }),
        ("write pointer outside", libc::EFAULT, |a| {
            a.write_pointer_address = u64::MAX
        }),
        ("end-of-pipe outside", libc::EFAULT, |a| {
            a.eop_buffer_address = 1 << 63
        }),
        ("save area outside", libc::EFAULT, |a| {
            a.ctx_save_restore_address = 1 << 63
        }),
        ("type", ENOTSUPP, |a| a.queue_type = 5),
        // `kfd_ioctl_create_queue`.
        ("GPU", libc::EINVAL, |a| a.gpu_id = 0),
        ("copy engine", libc::EINVAL, |a| {
            (a.queue_type, a.sdma_engine_id) = (KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, 16);
        }),
        // `kfd_queue_acquire_buffers`.
        ("ring not mapped", libc::EINVAL, |a| {
            a.ring_base_address = 0x10_0000
        }),
        ("ring longer than its memory", libc::EINVAL, |a| {
            a.ring_size = 8192
        }),
        ("ring not at its start", libc::EINVAL, |a| {
            a.ring_base_address += 4096
        }),
        ("no read pointer", libc::EINVAL, |a| {
            a.read_pointer_address = 0
        }),
        ("no write pointer", libc::EINVAL, |a| {
            a.write_pointer_address = 0
        }),
        ("end-of-pipe too small", libc::EINVAL, |a| {
            a.eop_buffer_size = 2048
        }),
        ("end-of-pipe longer than its memory", libc::EINVAL, |a| {
            a.eop_buffer_size = 8192
        }),
        ("control stack", libc::EINVAL, |a| a.ctl_stack_size += 4096),
        ("save area too small", libc::EINVAL, |a| {
            a.ctx_save_restore_size -= 1
        }),
        ("save area longer than its memory", libc::EINVAL, |a| {
            a.ctx_save_restore_size += 4096
        }),
        ("no save area", libc::EINVAL, |a| {
            a.ctx_save_restore_address = 0
        }),
    ];
    for (what, errno, change) in table {
        queue.args = good;
        change(&mut queue.args);
        assert_eq!(rig.create(&mut queue), Err(*errno), "{what}");
    }
    queue.args = good;
    assert_eq!(
        rig.create(&mut queue),
        Ok(0),
        "nothing was kept of what was refused"
    );
    // A ring of less than the least is made the least; the size in the argument says so.
    let mut small = rig.ring(0, SDMA);
    small.args.ring_size = 0;
    assert_eq!(rig.create(&mut small), Ok(1));
    assert_eq!(small.args.ring_size, 1024);
    // Without an address space.
    let bare = Rig::on("amd-gfx942");
    let mut args = good;
    args.gpu_id = bare.ids[0];
    assert_eq!(bare.call(&mut args), Err(libc::ESRCH));
}

#[test]
fn rings_and_pointers_are_whole_allocations_since_6_12() {
    for (config, old) in [
        ("amd-gfx1100", false),
        ("amd-gfx1100,exact_queues=off", true),
    ] {
        let rig = Rig::new(config);
        let mut queue = rig.ring(0, SDMA);
        let big = rig.buffer(0, 1 << 20, GTT);
        queue.args.ring_base_address = big.address;
        queue.args.read_pointer_address = big.address + 0x8000;
        queue.args.write_pointer_address = big.address + 0x8008;
        let made = rig.create(&mut queue);
        assert_eq!(
            made,
            if old { Ok(0) } else { Err(libc::EINVAL) },
            "{config}"
        );
    }
}

#[test]
fn what_a_queue_uses_stays_mapped() {
    let rig = Rig::new("amd-gfx1201");
    let mut queue = rig.ring(0, AQL);
    rig.create(&mut queue).expect("a queue");
    let parts = [
        queue.ring,
        queue.pointers,
        queue.eop.expect("has one"),
        queue.area.expect("has one"),
    ];
    for part in parts {
        assert_eq!(rig.unmap(part.handle, &[0]), Err((libc::EBUSY, 0)));
        assert_eq!(rig.free(part.handle), Err(libc::EBUSY));
    }
    rig.destroy(queue.args.queue_id).expect("is there");
    assert_eq!(rig.destroy(queue.args.queue_id), Err(libc::EINVAL));
    for part in parts {
        assert_eq!(rig.unmap(part.handle, &[0]), Ok(1));
        assert_eq!(rig.free(part.handle), Ok(()));
    }
}

#[test]
fn doorbells_lie_where_the_kernel_puts_them() {
    // Compute queues from 0; copy engines at 0x100, ten apart, the second queue of an engine 512 on.
    let rig = Rig::new("amd-gfx1100");
    let place = |queue: &Ring| {
        let (kind, id, bytes) = mmap_parts(queue.args.doorbell_offset);
        assert_eq!((kind, id), (MmapType::Doorbell, rig.ids[0]));
        bytes / 8
    };
    let (first, second) = (rig.queue(0, COMPUTE), rig.queue(0, AQL));
    assert_eq!((place(&first), place(&second)), (0, 1));
    // Four queues of each engine's eight are the kernel's: queues 2 and 3 of engine 0 come first.
    let copies: Vec<u64> = (0..6).map(|_| place(&rig.queue(0, SDMA))).collect();
    assert_eq!(copies, [0x101, 0x10B, 0x301, 0x30B, 0x102, 0x10C]);
    rig.destroy(first.args.queue_id).expect("is there");
    assert_eq!(place(&rig.queue(0, COMPUTE)), 0, "used again");

    let rig = Rig::new("amd-gfx942");
    let place = |kind, engine| {
        let mut queue = rig.ring(0, kind);
        queue.args.sdma_engine_id = engine;
        rig.create(&mut queue).expect("a queue");
        mmap_parts(queue.args.doorbell_offset).2 / 8
    };
    // Engine 1 would begin at 0x10A: rounded up to four.
    assert_eq!(
        (place(SDMA, 0), place(SDMA, 0), place(SDMA, 0)),
        (0x100, 0x10C, 0x300)
    );
    assert_eq!(place(KFD_IOC_QUEUE_TYPE_SDMA_XGMI, 0), 0x114);
    assert_eq!(place(KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, 15), 0x198);
    assert_eq!(place(KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, 1), 0x30C);
}

#[test]
fn copy_engines_have_only_so_many_queues() {
    let rig = Rig::new("amd-gfx1151");
    let mut queues: Vec<Ring> = (0..6).map(|_| rig.queue(0, SDMA)).collect();
    let mut more = rig.ring(0, SDMA);
    assert_eq!(rig.create(&mut more), Err(libc::ENOMEM));
    more.args.queue_type = KFD_IOC_QUEUE_TYPE_SDMA_XGMI;
    assert_eq!(
        rig.create(&mut more),
        Err(libc::ENOMEM),
        "no links between GPUs"
    );
    more.args.queue_type = KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID;
    assert_eq!(rig.create(&mut more), Err(libc::ENOMEM));
    let last = queues.pop().expect("six");
    rig.destroy(last.args.queue_id).expect("is there");
    assert_eq!(rig.create(&mut more), Ok(last.args.queue_id));
}

#[test]
fn queues_are_changed_and_asked() {
    let rig = Rig::readers("amd-gfx1100");
    let queue = rig.queue(0, COMPUTE);
    let queue_id = queue.args.queue_id;
    let good = kfd_ioctl_update_queue_args {
        ring_base_address: queue.ring.address,
        queue_id,
        ring_size: 4096,
        queue_percentage: 100,
        queue_priority: 15,
    };
    let table: &[(&str, i32, Update)] = &[
        // `kfd_ioctl_update_queue`, `pqm_update_queue_properties`.
        ("percentage", libc::EINVAL, |a| a.queue_percentage = 0xFF),
        ("priority", libc::EINVAL, |a| a.queue_priority = 16),
        ("ring outside", libc::EFAULT, |a| {
            a.ring_base_address = 1 << 63
        }),
        ("ring size", libc::EINVAL, |a| a.ring_size = 12),
        ("ring not mapped", libc::EFAULT, |a| {
            a.ring_base_address = 0x10_0000
        }),
        ("ring longer than its memory", libc::EFAULT, |a| {
            a.ring_size = 8192
        }),
        ("number", libc::EFAULT, |a| a.queue_id = 9),
    ];
    for (what, errno, change) in table {
        let mut args = good;
        change(&mut args);
        assert_eq!(rig.call(&mut args), Err(*errno), "{what}");
    }
    let told = rig.buffer(0, 4096, GTT);
    queue.push(&[Packet::Store(told.address, 1)]);
    soon("the first", || {
        word(told.address).load(Ordering::Acquire) == 1
    });
    // A share of nothing stops it; what is rung meanwhile is not lost.
    let mut args = kfd_ioctl_get_queue_wave_state_args {
        queue_id,
        ..Default::default()
    };
    assert_eq!(rig.call(&mut args), Err(libc::EINVAL), "it runs");
    let mut stop = good;
    stop.queue_percentage = 0;
    rig.call(&mut stop).expect("stopped");
    queue.push(&[Packet::Store(told.address, 2)]);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(word(told.address).load(Ordering::Acquire), 1);
    rig.call(&mut args).expect("it does not run");
    args.queue_id = 9;
    assert_eq!(rig.call(&mut args), Err(libc::EFAULT));
    rig.call(&mut { good }).expect("runs");
    soon("the second", || {
        word(told.address).load(Ordering::Acquire) == 2
    });

    let mut mask = [0xFFFF_FFFFu32, 0x3];
    let cu = |queue_id, num_cu_mask, mask: &[u32]| {
        rig.call(&mut kfd_ioctl_set_cu_mask_args {
            queue_id,
            num_cu_mask,
            cu_mask_ptr: mask.as_ptr().expose_provenance() as u64,
        })
    };
    assert_eq!(cu(queue_id, 64, &mask), Ok(()));
    assert_eq!(cu(queue_id, 0, &mask), Err(libc::EINVAL));
    assert_eq!(cu(queue_id, 33, &mask), Err(libc::EINVAL));
    assert_eq!(cu(9, 64, &mask), Err(libc::EFAULT));
    mask[1] = 0x4;
    assert_eq!(cu(queue_id, 64, &mask), Err(libc::EINVAL), "half of a pair");
    let mut gws = kfd_ioctl_alloc_queue_gws_args {
        queue_id,
        ..Default::default()
    };
    assert_eq!(rig.call(&mut gws), Err(libc::ENODEV));
    gws.queue_id = 9;
    assert_eq!(rig.call(&mut gws), Err(libc::EINVAL));
}

#[test]
fn a_new_queue_does_not_hear_what_was_rung_before_it() {
    for kind in [COMPUTE, AQL, SDMA] {
        let rig = Rig::readers("amd-gfx1100");
        let queue = rig.queue(0, kind);
        queue.push(&[Packet::Interrupt(0); 3]);
        soon("three packets", || queue.read() == 3);
        rig.destroy(queue.args.queue_id).expect("is there");
        let next = rig.queue(0, kind);
        assert_eq!(
            mmap_parts(next.args.doorbell_offset),
            mmap_parts(queue.args.doorbell_offset)
        );
        std::thread::sleep(Duration::from_millis(3));
        assert_eq!(next.read(), 0);
        next.push(&[Packet::Interrupt(0)]);
        soon("one packet", || next.read() == 1);
    }
}

#[test]
fn this_crates_engines_are_behind_every_kind() {
    for chip in crate::amd::chip::names() {
        let rig = Rig::new(&format!("amd-{chip}"));
        for kind in [COMPUTE, AQL, SDMA] {
            rig.queue(0, kind);
        }
        assert_eq!(rig.machine.reports(), [] as [String; 0], "{chip}");
    }
}
