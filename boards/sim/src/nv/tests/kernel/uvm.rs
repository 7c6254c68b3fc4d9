//! Unified memory: who joins, ranges, and RM's memory in them.

use super::*;

fn unmap(rig: &Rig, gpu: usize, base: u64, length: u64) -> Result<(), u32> {
    let mut args = UVM_UNMAP_EXTERNAL_PARAMS {
        base,
        length,
        gpuUuid: rig.gpus[gpu].uuid,
        ..Default::default()
    };
    rig.ask(rig.uvm, &mut args)
}

fn free(rig: &Rig, base: u64, length: u64) -> Result<(), u32> {
    let mut args = UVM_FREE_PARAMS_580 {
        base,
        length,
        ..Default::default()
    };
    rig.ask(rig.uvm, &mut args)
}

fn peers(rig: &Rig, a: usize, b: usize) -> Result<(), u32> {
    let mut args = UVM_ENABLE_PEER_ACCESS_PARAMS {
        gpuUuidA: rig.gpus[a].uuid,
        gpuUuidB: rig.gpus[b].uuid,
        ..Default::default()
    };
    rig.ask(rig.uvm, &mut args)
}

fn initialize(rig: &Rig, file: i32, flags: u64) -> Result<(), u32> {
    let mut args = UVM_INITIALIZE_PARAMS {
        flags,
        ..Default::default()
    };
    rig.ask(file, &mut args)
}

fn keep(rig: &Rig, file: i32, of: i32) -> Result<(), u32> {
    let mut args = UVM_MM_INITIALIZE_PARAMS {
        uvmFd: of,
        ..Default::default()
    };
    rig.ask(file, &mut args)
}

#[test]
fn nothing_goes_before_the_file_is_initialized() {
    let rig = Rig::new("nv-ampere,pace=manual");
    assert_eq!(rig.join(0), Err(NV_ERR_ILLEGAL_ACTION));
    assert_eq!(rig.range(DATA, 4096), Err(NV_ERR_ILLEGAL_ACTION));
    assert_eq!(rig.map(&[0], 1, DATA, 4096), Err(NV_ERR_ILLEGAL_ACTION));
    assert_eq!(unmap(&rig, 0, DATA, 4096), Err(NV_ERR_ILLEGAL_ACTION));
    assert_eq!(free(&rig, DATA, 4096), Err(NV_ERR_ILLEGAL_ACTION));
    assert_eq!(initialize(&rig, rig.uvm, 8), Err(NV_ERR_INVALID_ARGUMENT));
    assert_eq!(initialize(&rig, rig.uvm, 0), Ok(()));
    assert_eq!(initialize(&rig, rig.uvm, 0), Ok(()), "the same once more");
    assert_eq!(initialize(&rig, rig.uvm, 1), Err(NV_ERR_INVALID_ARGUMENT));
    assert_eq!(rig.raw(rig.uvm, UVM_DEINITIALIZE, 0), Ok(0));
    // SAFETY: the machine refuses.
    let mapped = unsafe { rig.machine.mmap(None, 4096, true, true, rig.uvm, 0) };
    assert_eq!(mapped.map(|_| ()), Err(libc::EINVAL));
    assert!(rig.reports().contains("managed memory"));
}

#[test]
fn a_second_file_keeps_the_memory_and_ends_it() {
    let rig = Rig::new("nv-ampere,pace=manual");
    let open = || {
        rig.machine
            .open(Path::new("/dev/nvidia-uvm"), true)
            .expect("opens")
    };
    let (second, third) = (open(), open());
    for wrong in [rig.uvm, rig.control, 99] {
        assert_eq!(keep(&rig, second, wrong), Err(NV_ERR_INVALID_ARGUMENT));
    }
    let spaces = rig.spaces();
    assert_eq!(keep(&rig, second, rig.uvm), Ok(()));
    assert_eq!(keep(&rig, second, rig.uvm), Err(NV_ERR_IN_USE));
    assert_eq!(keep(&rig, third, rig.uvm), Err(NV_ERR_INVALID_STATE));
    assert_eq!(initialize(&rig, second, 0), Err(NV_ERR_INVALID_ARGUMENT));
    let group = rig
        .group(0, spaces[0], NV2080_ENGINE_TYPE_GRAPHICS)
        .expect("a group");
    let channel = rig.channel(0, 0, group, spaces[0]);
    rig.schedule(group, true).expect("runs");
    rig.machine.close(second);
    channel.release(channel.result_at(0), 1);
    channel.ring();
    rig.run();
    assert_eq!(channel.result(0), 0, "its channels have stopped");
    assert_eq!(keep(&rig, third, rig.uvm), Err(NV_ERR_PAGE_TABLE_NOT_AVAIL));
    let space = rig.external(0);
    assert_eq!(rig.join_space(0, space), Err(NV_ERR_PAGE_TABLE_NOT_AVAIL));
    // What several processes share has no memory of one to keep.
    let (shared, keeper) = (open(), open());
    assert_eq!(
        initialize(&rig, shared, UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE),
        Ok(())
    );
    assert_eq!(keep(&rig, keeper, shared), Err(0x1_0006));
}

#[test]
fn gpus_and_their_address_spaces_join_once_and_leave() {
    let rig = Rig::new("nv-ampere,pace=manual,gpus=2");
    assert_eq!(initialize(&rig, rig.uvm, 0), Ok(()));
    let space = rig.external(0);
    assert_eq!(
        rig.join_space(0, space),
        Err(NV_ERR_INVALID_DEVICE),
        "its GPU has not joined"
    );
    let mut nobody = UVM_REGISTER_GPU_PARAMS::default();
    assert_eq!(
        rig.ask(rig.uvm, &mut nobody),
        Err(NV_ERR_GPU_UUID_NOT_FOUND)
    );
    assert_eq!(rig.join(0), Ok(()));
    assert_eq!(rig.join(0), Err(NV_ERR_INVALID_DEVICE));
    assert_eq!(rig.join(1), Ok(()));
    // Not an address space, another GPU's, RM's own, nothing.
    assert_eq!(
        rig.join_space(0, rig.gpus[0].device),
        Err(NV_ERR_INVALID_OBJECT)
    );
    assert_eq!(rig.join_space(1, space), Err(NV_ERR_OTHER_DEVICE_FOUND));
    assert_eq!(rig.join_space(0, 0xDEAD), Err(NV_ERR_OBJECT_NOT_FOUND));
    let mut params = NV_VASPACE_ALLOCATION_PARAMETERS::default();
    let own = rig.alloc(rig.gpus[0].device, 0, FERMI_VASPACE_A, &mut params);
    assert_eq!(
        rig.join_space(0, own.expect("a space")),
        Err(NV_ERR_INVALID_FLAGS)
    );
    assert_eq!(rig.join_space(0, space), Ok(()));
    assert_eq!(
        rig.join_space(0, rig.external(0)),
        Err(NV_ERR_INVALID_DEVICE),
        "it has one"
    );
    let leave = |gpu: usize| {
        let mut args = UVM_UNREGISTER_GPU_VASPACE_PARAMS {
            gpuUuid: rig.gpus[gpu].uuid,
            ..Default::default()
        };
        rig.ask(rig.uvm, &mut args)
    };
    assert_eq!(leave(1), Err(NV_ERR_INVALID_DEVICE));
    assert_eq!(leave(0), Ok(()));
    assert_eq!(leave(0), Err(NV_ERR_INVALID_DEVICE));
    assert_eq!(rig.join_space(0, space), Ok(()));
    let part = |gpu: usize| {
        let mut args = UVM_UNREGISTER_GPU_PARAMS {
            gpu_uuid: rig.gpus[gpu].uuid,
            ..Default::default()
        };
        rig.ask(rig.uvm, &mut args)
    };
    assert_eq!((part(0), part(0)), (Ok(()), Err(NV_ERR_INVALID_DEVICE)));
    assert_eq!(rig.join(0), Ok(()));
    // An address space belongs to one file's.
    assert_eq!(rig.join_space(0, space), Ok(()));
    let other = rig
        .machine
        .open(Path::new("/dev/nvidia-uvm"), true)
        .expect("opens");
    assert_eq!(initialize(&rig, other, 0), Ok(()));
    let mut join = UVM_REGISTER_GPU_PARAMS {
        gpu_uuid: rig.gpus[0].uuid,
        ..Default::default()
    };
    assert_eq!(rig.ask(other, &mut join), Ok(()));
    let mut join = UVM_REGISTER_GPU_VASPACE_PARAMS {
        gpuUuid: rig.gpus[0].uuid,
        hClient: rig.client,
        hVaSpace: space,
        ..Default::default()
    };
    assert_eq!(rig.ask(other, &mut join), Err(NV_ERR_INVALID_STATE));
}

#[test]
fn ranges_are_whole_pages_and_do_not_overlap() {
    let rig = Rig::new("nv-ampere,pace=manual");
    rig.spaces();
    let invalid = Err(NV_ERR_INVALID_ADDRESS);
    for (base, length) in [
        (DATA + 1, 4096),
        (DATA, 4095),
        (DATA, 0),
        (0, 4096),
        (u64::MAX - 4095, 4096),
        (u64::MAX - 4095, 8192),
    ] {
        assert_eq!(rig.range(base, length), invalid, "{base:#x} {length:#x}");
    }
    assert_eq!(rig.range(DATA, 0x4000), Ok(()));
    for (base, length) in [
        (DATA, 0x4000),
        (DATA - 0x1000, 0x2000),
        (DATA + 0x3000, 0x1000),
        (DATA - 0x1000, 0x10000),
    ] {
        assert_eq!(rig.range(base, length), Err(NV_ERR_UVM_ADDRESS_IN_USE));
    }
    assert_eq!(rig.range(DATA - 0x1000, 0x1000), Ok(()));
    assert_eq!(rig.range(DATA + 0x4000, 0x1000), Ok(()));
    assert_eq!(free(&rig, DATA, 0x3000), invalid);
    assert_eq!(free(&rig, DATA + 0x1000, 0x3000), invalid);
    assert_eq!(free(&rig, DATA, 0x4000), Ok(()));
    assert_eq!(free(&rig, DATA, 0x4000), invalid);
    assert_eq!(rig.range(DATA, 0x4000), Ok(()));
}

#[test]
fn mappings_are_checked_one_by_one() {
    let rig = Rig::new("nv-ampere,pace=manual,gpus=2");
    rig.spaces();
    let video = rig.memory(0, true, 0x2_0000).expect("memory");
    let system = rig.memory(0, false, 0x4000).expect("memory");
    rig.range(DATA, 0x4_0000).expect("a range");
    let map = |gpus: &[usize], memory, place| rig.map_as(gpus, memory, place, 0);
    for (memory, place, status) in [
        (video, (DATA, 0x1001, 0), NV_ERR_INVALID_ADDRESS),
        (video, (DATA - 0x1000, 0x1000, 0), NV_ERR_INVALID_ADDRESS),
        (video, (DATA, 0x4_1000, 0), NV_ERR_INVALID_ADDRESS),
        (video, (DATA, 0x1000, 0x800), NV_ERR_INVALID_ADDRESS),
        (video, (DATA, 0x3_0000, 0), NV_ERR_INVALID_OFFSET),
        (video, (DATA, 0x1_0000, 0x1_8000), NV_ERR_INVALID_OFFSET),
        (
            video,
            (DATA, 0x1_0000, u64::MAX - 0xFFFF),
            NV_ERR_INVALID_OFFSET,
        ),
        (0xDEAD, (DATA, 0x1000, 0), NV_ERR_OBJECT_NOT_FOUND),
        (
            rig.gpus[0].device,
            (DATA, 0x1000, 0),
            NV_ERR_INVALID_OBJECT_HANDLE,
        ),
    ] {
        assert_eq!(map(&[0], memory, place), Err(status), "{place:x?}");
    }
    assert_eq!(
        map(&[], video, (DATA, 0x1000, 0)),
        Err(NV_ERR_INVALID_ARGUMENT)
    );
    assert_eq!(
        rig.map_as(&[0], video, (DATA, 0x1000, 0), 4),
        Err(NV_ERR_INVALID_ARGUMENT)
    );
    // Another GPU's memory needs peers; system memory does not. A failure leaves nothing behind on those before it.
    assert_eq!(
        map(&[0, 1], video, (DATA, 0x1_0000, 0)),
        Err(NV_ERR_INVALID_DEVICE)
    );
    assert_eq!(map(&[0, 1], system, (DATA, 0x4000, 0)), Ok(()));
    assert_eq!(peers(&rig, 0, 0), Err(NV_ERR_INVALID_DEVICE));
    assert_eq!(peers(&rig, 0, 1), Ok(()));
    assert_eq!(peers(&rig, 1, 0), Err(NV_ERR_INVALID_DEVICE));
    assert_eq!(map(&[0, 1], video, (DATA, 0x2_0000, 0)), Ok(()));
    let mut apart = UVM_DISABLE_PEER_ACCESS_PARAMS {
        gpuUuidA: rig.gpus[1].uuid,
        gpuUuidB: rig.gpus[0].uuid,
        ..Default::default()
    };
    assert_eq!(rig.ask(rig.uvm, &mut apart), Ok(()));
    assert_eq!(rig.ask(rig.uvm, &mut apart), Err(NV_ERR_INVALID_DEVICE));
    let rig = Rig::new("nv-ampere,pace=manual,gpus=2,p2p=off");
    rig.spaces();
    assert_eq!(peers(&rig, 0, 1), Err(NV_ERR_NOT_SUPPORTED));
}

#[test]
fn parts_of_mappings_end_where_a_page_does() {
    let rig = Rig::new("nv-ampere,pace=manual");
    let spaces = rig.spaces();
    let group = rig
        .group(0, spaces[0], NV2080_ENGINE_TYPE_GRAPHICS)
        .expect("a group");
    let channel = rig.channel(0, 0, group, spaces[0]);
    rig.schedule(group, true).expect("runs");
    let video = rig.memory(0, true, 0x4_0000).expect("memory");
    let seen = rig.see(0, video, true, 0x4_0000);
    rig.range(DATA, 0x4_0000).expect("a range");
    rig.map(&[0], video, DATA, 0x4_0000).expect("mapped");
    // Pages of 64 KiB: a hole may not be smaller, and not lie across.
    for (base, length) in [
        (DATA, 0x1000),
        (DATA + 0x1000, 0x1_0000),
        (DATA + 0x1_0000, 0x1000),
    ] {
        assert_eq!(
            unmap(&rig, 0, base, length),
            Err(NV_ERR_INVALID_ADDRESS),
            "{base:#x}"
        );
    }
    assert_eq!(unmap(&rig, 0, DATA + 0x1_0000, 0x1_0000), Ok(()));
    assert_eq!(
        unmap(&rig, 0, DATA + 0x1_0000, 0x1_0000),
        Ok(()),
        "nothing there is fine"
    );
    for place in [0xFFFC, 0x2_0000, 0x3_FFFC] {
        channel.release(DATA + place, place as u32);
    }
    channel.ring();
    rig.run();
    for place in [0xFFFC, 0x2_0000, 0x3_FFFC] {
        assert_eq!(half(seen + place).load(Ordering::Relaxed), place as u32);
    }
    // Memory that is freed stays while it is mapped, and the hole may be filled with something else.
    assert_eq!(rig.free(video), Ok(()));
    let small = rig.memory(0, false, 0x1000).expect("memory");
    let other = rig.see(0, small, false, 0x1000);
    rig.map(&[0], small, DATA + 0x1_5000, 0x1000)
        .expect("mapped");
    channel.release(DATA + 0x1_5000, 5);
    channel.release(DATA + 0x2_0004, 6);
    channel.ring();
    rig.run();
    assert_eq!(half(other).load(Ordering::Relaxed), 5);
    assert_eq!(half(seen + 0x2_0004).load(Ordering::Relaxed), 6);
    assert_eq!(rig.reports(), "");
    channel.release(DATA + 0x1_0000, 7);
    channel.ring();
    rig.run();
    assert!(rig.reports().contains("NotPresent"), "{}", rig.reports());
}

#[test]
fn channels_join_with_room_for_what_they_need() {
    let rig = Rig::new("nv-ampere,pace=manual,gpus=2");
    let spaces = rig.spaces();
    let group = rig
        .group(0, spaces[0], NV2080_ENGINE_TYPE_GRAPHICS)
        .expect("a group");
    // `channel` has joined it already.
    let channel = rig.channel(0, 0, group, spaces[0]);
    let window = 0x50_0000_0000;
    let join = |gpu, handle, length| rig.register(gpu, handle, window, length);
    assert_eq!(
        join(0, channel.handle, 4 << 20),
        Err(NV_ERR_INVALID_CHANNEL),
        "twice"
    );
    assert_eq!(
        join(1, channel.handle, 4 << 20),
        Err(NV_ERR_OTHER_DEVICE_FOUND)
    );
    assert_eq!(join(0, 0xDEAD, 4 << 20), Err(NV_ERR_INVALID_OBJECT_HANDLE));
    assert_eq!(join(0, group, 4 << 20), Err(NV_ERR_INVALID_OBJECT_HANDLE));
    let leave = |handle| {
        let mut args = UVM_UNREGISTER_CHANNEL_PARAMS_580 {
            gpuUuid: rig.gpus[0].uuid,
            hClient: rig.client,
            hChannel: handle,
            ..Default::default()
        };
        rig.ask(rig.uvm, &mut args)
    };
    assert_eq!(leave(group), Err(NV_ERR_INVALID_CHANNEL));
    assert_eq!(leave(channel.handle), Ok(()));
    assert_eq!(leave(channel.handle), Err(NV_ERR_INVALID_CHANNEL));
    for length in [0, 4095, 4096, (2 << 20) - 4096] {
        assert_eq!(
            join(0, channel.handle, length),
            Err(NV_ERR_INVALID_ADDRESS),
            "{length}"
        );
    }
    // A range in the way.
    rig.range(window, 4 << 20).expect("a range");
    assert_eq!(
        join(0, channel.handle, 4 << 20),
        Err(NV_ERR_INVALID_ADDRESS)
    );
    assert_eq!(join(0, channel.handle, 6 << 20), Ok(()));
    let taken = rig.range(window + (5 << 20), 4096);
    assert_eq!(taken, Err(NV_ERR_UVM_ADDRESS_IN_USE));
    assert_eq!(rig.free(channel.handle), Ok(()));
    assert_eq!(rig.range(window + (5 << 20), 4096), Ok(()));
}
