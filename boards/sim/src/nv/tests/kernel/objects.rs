//! The tree of objects: handles, parents, parameters, commands.

use super::*;

const CHIPS: [&str; 4] = ["nv-ampere", "nv-ada", "nv-hopper", "nv-blackwell"];

#[test]
fn a_process_learns_what_its_gpu_is() {
    for name in CHIPS {
        let rig = Rig::new(&format!("{name},pace=manual"));
        let (gpu, chip) = (rig.gpus[0], chip(&rig));
        let mut list = NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS::default();
        let ask = |list: &mut NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS| {
            rig.control(gpu.device, NV0080_CTRL_CMD_GPU_GET_CLASSLIST, list)
        };
        ask(&mut list).expect("how many");
        let mut classes = vec![0u32; list.numClasses as usize];
        list.classList = classes.as_mut_ptr().expose_provenance() as u64;
        ask(&mut list).expect("which");
        for class in [
            chip.compute,
            chip.copy,
            KEPLER_CHANNEL_GROUP_A,
            FERMI_VASPACE_A,
        ] {
            assert!(classes.contains(&class), "{name}: {class:#x}");
        }
        list.numClasses -= 1;
        assert_eq!(ask(&mut list), Err(NV_ERR_INVALID_PARAM_STRUCT));

        let mut questions = [
            NV2080_CTRL_GR_INFO_INDEX_SM_VERSION,
            NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_GPCS,
            NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_TPC_PER_GPC,
            NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_SM_PER_TPC,
            NV2080_CTRL_GR_INFO_INDEX_MAX_WARPS_PER_SM,
        ]
        .map(|index| NVXXXX_CTRL_XXX_INFO { index, data: 0 });
        let mut args = NV2080_CTRL_GR_GET_INFO_PARAMS {
            grInfoListSize: 5,
            grInfoList: questions.as_mut_ptr().expose_provenance() as u64,
            ..Default::default()
        };
        rig.control(gpu.subdevice, NV2080_CTRL_CMD_GR_GET_INFO, &mut args)
            .expect("answers");
        let [version, gpcs, tpcs, sms, warps] = questions.map(|answer| answer.data);
        assert_eq!((version, warps), (chip.sm_version, chip.warps_per_sm));
        assert!(gpcs * tpcs * sms >= chip.sms, "{name}");
        args.grInfoListSize = 0x3b;
        assert_eq!(
            rig.control(gpu.subdevice, NV2080_CTRL_CMD_GR_GET_INFO, &mut args),
            Err(NV_ERR_INVALID_ARGUMENT)
        );

        let mut info = NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS {
            gpuId: rig.cards()[0].gpu_id,
            ..Default::default()
        };
        let cmd = NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2;
        rig.control(rig.client, cmd, &mut info).expect("is there");
        assert_eq!((info.deviceInstance, info.numaId), (0, -1));
        info.gpuId += 1;
        assert_eq!(
            rig.control(rig.client, cmd, &mut info),
            Err(NV_ERR_INVALID_ARGUMENT)
        );

        let mut text = NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS::new_zeroed();
        rig.control(
            gpu.subdevice,
            NV2080_CTRL_CMD_GPU_GET_NAME_STRING,
            &mut text,
        )
        .expect("a name");
        assert!(
            text.gpuNameString.starts_with(chip.card.as_bytes()),
            "{name}"
        );
        assert_eq!(rig.reports(), "", "{name}");
    }
}

#[test]
fn memory_and_time_are_told() {
    let rig = Rig::new("nv-ada,pace=manual,vram=512,cpu_visible_vram=small");
    let mut questions = [
        NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE,
        NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE,
        NV2080_CTRL_FB_INFO_INDEX_BAR1_SIZE,
    ]
    .map(|index| NVXXXX_CTRL_XXX_INFO { index, data: 0 });
    rig.memory(0, true, 64 << 20).expect("memory");
    let mut args = NV2080_CTRL_FB_GET_INFO_PARAMS {
        fbInfoListSize: 3,
        fbInfoList: questions.as_mut_ptr().expose_provenance() as u64,
        ..Default::default()
    };
    rig.control(
        rig.gpus[0].subdevice,
        NV2080_CTRL_CMD_FB_GET_INFO,
        &mut args,
    )
    .expect("answers");
    assert_eq!(questions.map(|answer| answer.data >> 10), [512, 448, 256]);
    let time = || {
        let mut args = NV2080_CTRL_TIMER_GET_TIME_PARAMS::default();
        rig.control(
            rig.gpus[0].subdevice,
            NV2080_CTRL_CMD_TIMER_GET_TIME,
            &mut args,
        )
        .expect("a time");
        args.time_nsec
    };
    let before = time();
    let mut args = NV2080_CTRL_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO_PARAMS::new_zeroed();
    (args.cpuClkId, args.sampleCount) = (1, 2);
    let cmd = NV2080_CTRL_CMD_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO;
    let subdevice = rig.gpus[0].subdevice;
    rig.control(subdevice, cmd, &mut args).expect("pairs");
    let [first, second, third, ..] = args.samples;
    assert!(before <= first.gpuTime && first.gpuTime <= second.gpuTime);
    assert!(second.gpuTime <= time() && first.cpuTime > 1_000_000_000_000_000);
    assert_eq!(third.gpuTime, 0);
    args.sampleCount = 17;
    assert_eq!(
        rig.control(subdevice, cmd, &mut args),
        Err(NV_ERR_INVALID_ARGUMENT)
    );
    // The page of doorbells shows the time too.
    let page = rig.doorbells(0);
    rig.machine.step();
    let low = half(page + 0x80).load(Ordering::Relaxed);
    let shown = u64::from(half(page + 0x84).load(Ordering::Relaxed)) << 32 | u64::from(low);
    assert!(before <= shown + 0x1F && shown <= time());
}

#[test]
fn handles_are_unique_within_a_client_and_free_again_after() {
    let rig = Rig::new("nv-ampere,pace=manual");
    let mut params = NV2080_ALLOC_PARAMETERS::default();
    let device = rig.gpus[0].device;
    let mut make = |handle| rig.alloc(device, handle, NV20_SUBDEVICE_0, &mut params);
    assert_eq!(make(0x5555), Ok(0x5555));
    assert_eq!(make(0x5555), Err(NV_ERR_INSERT_DUPLICATE_NAME));
    assert_eq!(make(rig.client), Err(NV_ERR_INVALID_OBJECT_PARENT));
    let chosen = make(0).expect("a handle of RM's");
    assert_eq!(chosen & 0xFFF8_0000, 0xCAF0_0000);
    assert_ne!(make(0), Ok(chosen));
    assert_eq!(rig.free(0x5555), Ok(()));
    assert_eq!(rig.free(0x5555), Err(NV_ERR_OBJECT_NOT_FOUND));
    assert_eq!(make(0x5555), Ok(0x5555));
    // Another client has handles of its own.
    let other = rig.root(rig.control).expect("a client");
    assert_eq!(other & 0xFFF0_0000, 0xC1D0_0000);
    let mut args = NVOS21_PARAMETERS {
        hRoot: other,
        hObjectParent: other,
        hObjectNew: 0x5555,
        hClass: NV01_DEVICE_0,
        ..Default::default()
    };
    assert_eq!(rig.ask(rig.control, &mut args), Ok(()));
}

#[test]
fn what_does_not_fit_is_refused_with_its_own_status() {
    let rig = Rig::new("nv-ampere,pace=manual");
    let (client, device) = (rig.client, rig.gpus[0].device);
    let mut sub = NV2080_ALLOC_PARAMETERS::default();
    // Parents: of the wrong class, missing.
    let below_client = rig.alloc(client, 0, NV20_SUBDEVICE_0, &mut sub);
    assert_eq!(below_client, Err(NV_ERR_INVALID_OBJECT_PARENT));
    let nowhere = rig.alloc(0xDEAD, 0, NV20_SUBDEVICE_0, &mut sub);
    assert_eq!(nowhere, Err(NV_ERR_OBJECT_NOT_FOUND));
    let mut dev = NV0080_ALLOC_PARAMETERS::default();
    assert_eq!(
        rig.alloc(device, 0, NV01_DEVICE_0, &mut dev),
        Err(NV_ERR_INVALID_OBJECT_PARENT)
    );
    dev.deviceId = 1;
    assert_eq!(
        rig.alloc(client, 0, NV01_DEVICE_0, &mut dev),
        Err(NV_ERR_INVALID_CLASS)
    );
    sub.subDeviceId = 1;
    assert_eq!(
        rig.alloc(device, 0, NV20_SUBDEVICE_0, &mut sub),
        Err(NV_ERR_INVALID_CLASS)
    );
    // Classes: unknown, of another GPU.
    assert_eq!(rig.plain(device, 0, 0x1234), Err(NV_ERR_INVALID_CLASS));
    assert!(rig.reports().contains("class 0x1234 is not simulated"));
    let subdevice = rig.gpus[0].subdevice;
    assert_eq!(rig.plain(subdevice, 0, 0xC661), Err(NV_ERR_INVALID_CLASS));
    // Parameters: missing, where none are taken, of a wrong size, not there.
    assert_eq!(
        rig.plain(device, 0, FERMI_VASPACE_A),
        Err(NV_ERR_INVALID_ARGUMENT)
    );
    let mut raw = NVOS21_PARAMETERS {
        hRoot: client,
        hObjectParent: subdevice,
        hClass: AMPERE_USERMODE_A,
        pAllocParms: at(&mut sub),
        ..Default::default()
    };
    assert_eq!(rig.ask(rig.control, &mut raw), Err(NV_ERR_INVALID_ARGUMENT));
    raw = NVOS21_PARAMETERS {
        hObjectParent: device,
        hClass: NV20_SUBDEVICE_0,
        paramsSize: 8,
        ..raw
    };
    assert_eq!(rig.ask(rig.control, &mut raw), Err(NV_ERR_INVALID_ARGUMENT));
    (raw.paramsSize, raw.pAllocParms) = (4, 0x1000);
    assert_eq!(rig.ask(rig.control, &mut raw), Err(NV_ERR_INVALID_ADDRESS));
    // Clients: unknown, another file's.
    raw.hRoot = 0xC1D0_FFFF;
    assert_eq!(rig.ask(rig.control, &mut raw), Err(NV_ERR_INVALID_CLIENT));
    let stranger = rig
        .machine
        .open(Path::new("/dev/nvidiactl"), true)
        .expect("opens");
    (raw.hRoot, raw.pAllocParms) = (client, 0);
    assert_eq!(rig.ask(stranger, &mut raw), Err(NV_ERR_INVALID_CLIENT));
    let mut free = NVOS00_PARAMETERS {
        hRoot: client,
        hObjectOld: device,
        ..Default::default()
    };
    assert_eq!(rig.ask(stranger, &mut free), Err(NV_ERR_INVALID_CLIENT));
    // Address spaces.
    let space = |change: fn(&mut NV_VASPACE_ALLOCATION_PARAMETERS)| {
        let mut params = NV_VASPACE_ALLOCATION_PARAMETERS::default();
        change(&mut params);
        rig.alloc(device, 0, FERMI_VASPACE_A, &mut params)
            .map(|_| params)
    };
    let all = space(|_| {}).expect("as much as there is");
    assert_eq!(all.vaBase + all.vaSize, 1 << 49);
    type Change = fn(&mut NV_VASPACE_ALLOCATION_PARAMETERS);
    let table: [Change; 4] = [
        |params| params.bigPageSize = 0x8000,
        |params| params.index = 9,
        |params| (params.vaBase, params.vaSize) = (0x1000, u64::MAX),
        |params| (params.vaBase, params.vaSize) = (0x1000, 1 << 49),
    ];
    for change in table {
        assert_eq!(space(change).map(|_| ()), Err(NV_ERR_INVALID_ARGUMENT));
    }
    assert_eq!(
        space(|params| params.flags = VaspaceFlags::ENABLE_NVLINK_ATS).map(|_| ()),
        Err(NV_ERR_NOT_SUPPORTED)
    );
}

#[test]
fn freeing_an_object_frees_what_hangs_below_and_what_needs_it() {
    let rig = Rig::new("nv-ampere,pace=manual");
    let spaces = rig.spaces();
    let group = rig
        .group(0, spaces[0], NV2080_ENGINE_TYPE_GRAPHICS)
        .expect("a group");
    let channel = rig.channel(0, 0, group, spaces[0]);
    let compute = rig
        .plain(channel.handle, 0, chip(&rig).compute)
        .expect("compute");
    // The group needs the address space, the channel hangs below the group, the object below the channel.
    assert_eq!(rig.free(spaces[0]), Ok(()));
    for gone in [group, channel.handle, compute, spaces[0]] {
        assert_eq!(rig.free(gone), Err(NV_ERR_OBJECT_NOT_FOUND), "{gone:#x}");
    }
    assert_eq!(rig.free(rig.client), Ok(()));
    assert_eq!(rig.free(rig.client), Err(NV_ERR_INVALID_CLIENT));
    assert!(!rig.machine.step(), "nothing is left to run");
}

#[test]
fn commands_are_for_one_kind_of_object_and_exactly_as_long_as_they_are() {
    let rig = Rig::new("nv-ampere,pace=manual");
    let (client, device) = (rig.client, rig.gpus[0].device);
    let mut time = NV2080_CTRL_TIMER_GET_TIME_PARAMS::default();
    let cmd = NV2080_CTRL_CMD_TIMER_GET_TIME;
    assert_eq!(
        rig.control(device, cmd, &mut time),
        Err(NV_ERR_NOT_SUPPORTED)
    );
    assert_eq!(
        rig.control(0xDEAD, cmd, &mut time),
        Err(NV_ERR_OBJECT_NOT_FOUND)
    );
    let mut args = NVOS54_PARAMETERS {
        hClient: client,
        hObject: rig.gpus[0].subdevice,
        cmd,
        params: at(&mut time),
        paramsSize: 8,
        ..Default::default()
    };
    assert_eq!(rig.ask(rig.control, &mut args), Ok(()));
    for (params, size) in [(args.params, 7), (args.params, 9), (args.params, 0), (0, 8)] {
        let mut args = NVOS54_PARAMETERS {
            params,
            paramsSize: size,
            ..args
        };
        assert_eq!(
            rig.ask(rig.control, &mut args),
            Err(NV_ERR_INVALID_ARGUMENT),
            "{size}"
        );
    }
    let mut raised = NVOS54_PARAMETERS { flags: 1, ..args };
    assert_eq!(
        rig.ask(rig.control, &mut raised),
        Err(NV_ERR_INVALID_ARGUMENT)
    );
    let mut nobody = NVOS54_PARAMETERS { hClient: 1, ..args };
    assert_eq!(
        rig.ask(rig.control, &mut nobody),
        Err(NV_ERR_INVALID_CLIENT)
    );
    // The command that does nothing, and one that nobody knows.
    let mut null = NVOS54_PARAMETERS {
        cmd: 0x2080_0000,
        params: 0,
        paramsSize: 0,
        ..args
    };
    assert_eq!(rig.ask(rig.control, &mut null), Ok(()));
    null.cmd = 0x2080_7777;
    assert_eq!(rig.ask(rig.control, &mut null), Err(NV_ERR_NOT_SUPPORTED));
    assert!(
        rig.reports().contains("command 0x20807777"),
        "{}",
        rig.reports()
    );
}
