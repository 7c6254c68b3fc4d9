//! Channels: what they take, when they run, and doorbells.

use super::*;

/// A rig with a group on the graphics engine and so many channels, scheduled.
fn with_channels<R>(config: &str, count: u64, then: impl FnOnce(&Rig, &[Channel<'_>]) -> R) -> R {
    let rig = Rig::new(config);
    let spaces = rig.spaces();
    let group = rig
        .group(0, spaces[0], NV2080_ENGINE_TYPE_GRAPHICS)
        .expect("a group");
    let channels: Vec<_> = (0..count)
        .map(|number| rig.channel(0, number, group, spaces[0]))
        .collect();
    rig.schedule(group, true).expect("runs");
    then(&rig, &channels)
}

#[test]
fn work_runs_on_every_gpu() {
    for name in ["nv-ampere", "nv-ada", "nv-hopper", "nv-blackwell"] {
        with_channels(&format!("{name},pace=manual"), 1, |rig, channels| {
            let channel = &channels[0];
            for class in [chip(rig).compute, chip(rig).copy] {
                rig.plain(channel.handle, 0, class).expect("an object");
            }
            for number in 1..200u32 {
                channel.used.set(0);
                channel.release(channel.result_at(0), number);
                assert_eq!(channel.result(0), number - 1, "{name}: not before the ring");
                channel.ring();
                rig.run();
                assert_eq!(channel.result(0), number, "{name}: {}", rig.reports());
                // Blackwell's classes have no word for it.
                if *chip(rig).gpfifo.last().expect("has one") < 0xC96F {
                    assert_eq!(channel.get(), number % ENTRIES);
                }
            }
            assert_eq!(channel.error(), (0, 0, 0));
        });
    }
}

#[test]
fn work_runs_on_a_copy_engine_and_beside_a_thread() {
    let rig = Rig::new("nv-ampere,gpus=2");
    let spaces = rig.spaces();
    let group = rig
        .group(1, spaces[1], NV2080_ENGINE_TYPE_COPY0 + 2)
        .expect("a group");
    let channel = rig.channel(1, 0, group, spaces[1]);
    rig.schedule(group, true).expect("runs");
    assert_eq!(channel.token >> 16, 3, "its runlist");
    assert_eq!(
        rig.plain(channel.handle, 0, chip(&rig).compute),
        Err(NV_ERR_INVALID_CLASS)
    );
    let mut params = NVB0B5_ALLOCATION_PARAMETERS {
        version: NVB0B5_ALLOCATION_PARAMETERS_VERSION_1,
        engineType: NV2080_ENGINE_TYPE_COPY0 + 99,
    };
    let copy = chip(&rig).copy;
    let made = rig.alloc(channel.handle, 0, copy, &mut params);
    assert_eq!(made, Err(NV_ERR_INVALID_ARGUMENT));
    params.engineType = NV2080_ENGINE_TYPE_COPY0 + 2;
    assert!(rig.alloc(channel.handle, 0, copy, &mut params).is_ok());
    channel.release(channel.result_at(8), 77);
    channel.ring();
    soon("the release", || channel.result(8) == 77);
}

#[test]
fn what_a_channel_cannot_be_is_refused() {
    let rig = Rig::new("nv-ampere,pace=manual,gpus=2");
    let spaces = rig.spaces();
    let graphics = NV2080_ENGINE_TYPE_GRAPHICS;
    for engine in [0, 2, NV2080_ENGINE_TYPE_COPY0 + 5] {
        assert_eq!(
            rig.group(0, spaces[0], engine),
            Err(NV_ERR_INVALID_ARGUMENT)
        );
    }
    assert_eq!(rig.group(0, 0xDEAD, graphics), Err(NV_ERR_OBJECT_NOT_FOUND));
    assert_eq!(
        rig.group(0, spaces[1], graphics),
        Err(NV_ERR_INVALID_OBJECT_HANDLE)
    );
    let group = rig.group(0, spaces[0], graphics).expect("a group");
    let other = rig.group(0, spaces[0], graphics).expect("another");
    let mut bad = NV_CTXSHARE_ALLOCATION_PARAMETERS {
        hVASpace: spaces[0],
        flags: 3,
        ..Default::default()
    };
    let made = rig.alloc(group, 0, FERMI_CONTEXT_SHARE_A, &mut bad);
    assert_eq!(made, Err(NV_ERR_INVALID_ARGUMENT));
    let share = rig.share(group, spaces[0]).expect("a context");
    assert_eq!(
        rig.share(group, 0),
        Err(NV_ERR_INVALID_STATE),
        "the device has no space"
    );
    let foreign = rig.share(other, spaces[0]).expect("a context");
    let memory = rig.memory(0, false, 0x1_0000).expect("memory");
    let device = rig.gpus[0].device;
    let make = |parent, class, change: &dyn Fn(&mut NV_CHANNEL_ALLOC_PARAMS)| {
        let mut params = NV_CHANNEL_ALLOC_PARAMS {
            gpFifoOffset: RING,
            gpFifoEntries: 64,
            hContextShare: share,
            ..NV_CHANNEL_ALLOC_PARAMS::new_zeroed()
        };
        (params.hUserdMemory[0], params.userdOffset[0]) = (memory, 0x800);
        change(&mut params);
        rig.alloc(parent, 0, class, &mut params)
    };
    let class = AMPERE_CHANNEL_GPFIFO_A;
    type Change<'a> = dyn Fn(&mut NV_CHANNEL_ALLOC_PARAMS) + 'a;
    let table: [(u32, &Change<'_>); 14] = [
        (NV_ERR_NOT_SUPPORTED, &|params| params.flags = 1),
        (NV_ERR_INVALID_ARGUMENT, &|params| params.gpFifoEntries = 0),
        (NV_ERR_INVALID_ARGUMENT, &|params| params.gpFifoEntries = 63),
        (NV_ERR_INVALID_ARGUMENT, &|params| {
            params.gpFifoOffset = RING + 4
        }),
        (NV_ERR_INVALID_ARGUMENT, &|params| {
            params.gpFifoOffset = u64::MAX - 7
        }),
        (NV_ERR_INVALID_ARGUMENT, &|params| {
            params.hVASpace = spaces[0]
        }),
        (NV_ERR_INVALID_ARGUMENT, &|params| {
            params.engineType = NV2080_ENGINE_TYPE_COPY0;
        }),
        (NV_ERR_INVALID_OBJECT_PARENT, &|params| {
            params.hContextShare = foreign
        }),
        (NV_ERR_INVALID_OBJECT, &|params| {
            params.hContextShare = memory
        }),
        (NV_ERR_OBJECT_NOT_FOUND, &|params| {
            params.hUserdMemory[0] = 0xDEAD
        }),
        (NV_ERR_INVALID_ADDRESS, &|params| {
            params.userdOffset[0] = 0x100
        }),
        (NV_ERR_INVALID_ADDRESS, &|params| {
            params.userdOffset[0] = 0x1_0000
        }),
        (NV_ERR_OBJECT_NOT_FOUND, &|params| {
            params.hObjectError = 0xDEAD
        }),
        (NV_ERR_INVALID_OBJECT, &|params| {
            params.hObjectError = device
        }),
    ];
    for (number, (status, change)) in table.into_iter().enumerate() {
        assert_eq!(make(group, class, change), Err(status), "{number}");
    }
    assert_eq!(
        make(group, HOPPER_CHANNEL_GPFIFO_A, &|_| {}),
        Err(NV_ERR_INVALID_CLASS)
    );
    // Outside of a group there are no contexts, and an engine must be named.
    assert_eq!(make(device, class, &|_| {}), Err(NV_ERR_INVALID_ARGUMENT));
    let alone = |params: &mut NV_CHANNEL_ALLOC_PARAMS| {
        (params.hContextShare, params.hVASpace) = (0, spaces[0]);
    };
    assert_eq!(make(device, class, &alone), Err(NV_ERR_INVALID_ARGUMENT));
    // All channels of a group have contexts of the process's, or none has.
    assert!(make(group, class, &|_| {}).is_ok());
    assert_eq!(
        make(group, class, &|params| params.hContextShare = 0),
        Err(NV_ERR_INVALID_ARGUMENT)
    );
    assert!(make(other, class, &|params| params.hContextShare = 0).is_ok());
    assert_eq!(rig.token(group), Err(NV_ERR_NOT_SUPPORTED));
}

#[test]
fn a_context_must_be_bound_before_it_is_scheduled() {
    let rig = Rig::new("nv-ampere,pace=manual");
    let spaces = rig.spaces();
    let group = rig
        .group(0, spaces[0], NV2080_ENGINE_TYPE_GRAPHICS)
        .expect("a group");
    let channel = rig.channel(0, 0, group, spaces[0]);
    let share = rig.share(group, spaces[0]).expect("a context");
    let memory = rig.memory(0, false, 4096).expect("memory");
    let mut params = NV_CHANNEL_ALLOC_PARAMS {
        gpFifoOffset: RING,
        gpFifoEntries: 64,
        hContextShare: share,
        ..NV_CHANNEL_ALLOC_PARAMS::new_zeroed()
    };
    params.hUserdMemory[0] = memory;
    let second = rig
        .alloc(group, 0, AMPERE_CHANNEL_GPFIFO_A, &mut params)
        .expect("a channel");
    assert_eq!(rig.schedule(group, true), Err(NV_ERR_INVALID_STATE));
    assert_eq!(rig.register(0, second, 0x50_0000_0000, 4 << 20), Ok(()));
    channel.release(channel.result_at(0), 5);
    channel.ring();
    rig.run();
    assert_eq!(channel.result(0), 0, "not scheduled");
    assert_eq!(rig.schedule(group, true), Ok(()));
    rig.run();
    assert_eq!(channel.result(0), 5);
    // Nor after it was taken off again.
    assert_eq!(rig.schedule(group, false), Ok(()));
    channel.release(channel.result_at(0), 6);
    channel.ring();
    rig.run();
    assert_eq!(channel.result(0), 5);
    assert_eq!(rig.schedule(group, true), Ok(()));
    rig.run();
    assert_eq!(channel.result(0), 6);
}

#[test]
fn step_by_step_a_ring_reaches_the_channel_whose_token_it_is() {
    with_channels("nv-ampere,pace=manual", 2, |rig, channels| {
        let [first, second] = channels else {
            panic!("two");
        };
        first.release(first.result_at(0), 1);
        second.release(second.result_at(0), 2);
        second.ring();
        rig.run();
        assert_eq!((first.result(0), second.result(0)), (0, 2));
        // What is written after the ring waits for the next.
        second.release(second.result_at(0), 3);
        rig.run();
        assert_eq!(second.result(0), 2);
        first.ring();
        rig.run();
        assert_eq!((first.result(0), second.result(0)), (1, 2));
        assert_eq!(rig.reports(), "");
    });
}

#[test]
fn with_a_thread_no_ring_is_lost() {
    with_channels("nv-ampere,seed=5", 4, |rig, channels| {
        for number in 1..50u32 {
            for channel in channels {
                channel.used.set(0);
                channel.release(channel.result_at(0), number);
                // The next channel's token takes its place at once.
                channel.ring();
            }
            for channel in channels {
                soon("all rings are heard", || channel.result(0) == number);
            }
        }
        assert_eq!(rig.reports(), "");
    });
}

#[test]
fn a_token_that_nobody_has_is_told_once() {
    with_channels("nv-ampere,pace=manual", 1, |rig, channels| {
        for _ in 0..3 {
            let register = half(channels[0].doorbells + 0x90);
            register.store(0xABC, Ordering::Relaxed);
            rig.run();
        }
        let reports = rig.reports();
        assert_eq!(reports, "GPU 0: nobody has the token 0xabc that was rung");
    });
}

#[test]
fn a_channel_without_a_group_runs_in_an_address_space_of_rm() {
    let rig = Rig::new("nv-ampere,pace=manual");
    let device = rig.gpus[0].device;
    let mut params = NV_VASPACE_ALLOCATION_PARAMETERS::default();
    let space = rig
        .alloc(device, 0, FERMI_VASPACE_A, &mut params)
        .expect("a space");
    let mut params = NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS {
        hVASpace: space,
        ..Default::default()
    };
    let virt = rig
        .alloc(device, 0, NV01_MEMORY_VIRTUAL, &mut params)
        .expect("addresses");
    let memory = rig.memory(0, false, RING_BYTES).expect("memory");
    let host = rig.see(0, memory, false, RING_BYTES);
    let mut map = NVOS46_PARAMETERS {
        hClient: rig.client,
        hDevice: device,
        hDma: virt,
        hMemory: memory,
        length: RING_BYTES,
        ..Default::default()
    };
    rig.ask(rig.control, &mut map).expect("mapped");
    // USERD is RM's here.
    let mut params = NV_CHANNEL_ALLOC_PARAMS {
        gpFifoOffset: map.dmaOffset,
        gpFifoEntries: ENTRIES,
        hVASpace: space,
        engineType: NV2080_ENGINE_TYPE_GRAPHICS,
        ..NV_CHANNEL_ALLOC_PARAMS::new_zeroed()
    };
    let handle = rig
        .alloc(device, 0, AMPERE_CHANNEL_GPFIFO_A, &mut params)
        .expect("a channel");
    let mut bind = NVA06F_CTRL_BIND_PARAMS {
        engineType: NV2080_ENGINE_TYPE_COPY0,
    };
    let wrong = rig.control(handle, NVA06F_CTRL_CMD_BIND, &mut bind);
    assert_eq!(wrong, Err(NV_ERR_INVALID_ARGUMENT));
    bind.engineType = NV2080_ENGINE_TYPE_GRAPHICS;
    assert_eq!(rig.control(handle, NVA06F_CTRL_CMD_BIND, &mut bind), Ok(()));
    let mut run = NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS {
        bEnable: 1,
        ..Default::default()
    };
    let cmd = NVA06F_CTRL_CMD_GPFIFO_SCHEDULE;
    assert_eq!(rig.control(handle, cmd, &mut run), Ok(()));
    let beyond = rig.prepare(0, "/dev/nvidia0", handle, 0, 4096, 0);
    assert_eq!(beyond.map(|_| ()), Err(NV_ERR_INVALID_LIMIT));
    let file = rig
        .prepare(0, "/dev/nvidia0", handle, 0, 512, 0)
        .expect("prepared");
    let userd = rig.mmap(file, 4096).expect("mapped");
    let doorbells = rig.doorbells(0);
    let target = map.dmaOffset + RESULTS;
    for (place, value) in [
        1 << 29 | 5 << 16 | 0x5C >> 2,
        target as u32,
        (target >> 32) as u32,
        9,
        0,
        1,
    ]
    .into_iter()
    .enumerate()
    {
        half(host + WORDS + place as u64 * 4).store(value, Ordering::Relaxed);
    }
    word(host).store((map.dmaOffset + WORDS) | (6 << 42), Ordering::Relaxed);
    half(userd + 0x8C).store(1, Ordering::Release);
    half(doorbells + 0x90).store(rig.token(handle).expect("a token"), Ordering::Release);
    rig.run();
    assert_eq!(
        half(host + RESULTS).load(Ordering::Relaxed),
        9,
        "{}",
        rig.reports()
    );
    assert_eq!(half(userd + 0x88).load(Ordering::Relaxed), 1);
}

#[test]
fn a_freed_channel_does_nothing_more_and_its_token_is_given_again() {
    with_channels("nv-ampere,pace=manual", 2, |rig, channels| {
        let [first, second] = channels else {
            panic!("two");
        };
        first.release(first.result_at(0), 1);
        assert_eq!(rig.free(first.handle), Ok(()));
        first.ring();
        rig.run();
        assert_eq!(first.result(0), 0);
        assert!(
            rig.reports().contains("nobody has the token"),
            "{}",
            rig.reports()
        );
        let spaces = rig.external(0);
        let group = rig
            .group(0, spaces, NV2080_ENGINE_TYPE_GRAPHICS)
            .expect("a group");
        let mut params = NV_CHANNEL_ALLOC_PARAMS {
            gpFifoOffset: RING,
            gpFifoEntries: 64,
            ..NV_CHANNEL_ALLOC_PARAMS::new_zeroed()
        };
        let class = AMPERE_CHANNEL_GPFIFO_A;
        let again = rig.alloc(group, 0, class, &mut params).expect("a channel");
        assert_eq!(rig.token(again), Ok(first.token));
        second.release(second.result_at(0), 2);
        second.ring();
        rig.run();
        assert_eq!(second.result(0), 2);
    });
}
