//! Nodes, sizes of requests, and errors on demand.

use super::*;

#[test]
fn nodes_are_there_and_nothing_else_is() {
    let rig = Rig::new("nv-ampere,gpus=2,pace=manual");
    let names = rig.machine.list(Path::new("/dev")).expect("a directory");
    assert_eq!(names, ["nvidia-uvm", "nvidia0", "nvidia1", "nvidiactl"]);
    for missing in ["/dev/nvidia2", "/dev/kfd", "/dev/nvidia-modeset"] {
        assert_eq!(
            rig.machine.open(Path::new(missing), true),
            Err(libc::ENOENT)
        );
    }
    let cards = rig.cards();
    assert_eq!(cards.len(), 2);
    assert_ne!(cards[0].gpu_id, cards[1].gpu_id);
    for (index, card) in cards.iter().enumerate() {
        let path = format!(
            "/proc/driver/nvidia/gpus/0000:{:02x}:00.0/information",
            card.pci_info.bus
        );
        let text = rig.machine.read(Path::new(&path), 4096).expect("is there");
        let text = String::from_utf8(text).expect("text");
        assert!(
            text.contains(&format!("Device Minor: \t {index}")),
            "{text}"
        );
        assert_eq!(card.pci_info.vendor_id, 0x10DE);
    }
}

#[test]
fn requests_have_one_size_and_one_kind_of_file() {
    let rig = Rig::new("nv-ampere,pace=manual");
    let mut bytes = [0u64; 64];
    let address = at(&mut bytes);
    let card = rig.gpus[0].file;
    let invalid = Err(libc::EINVAL);
    let sizes = [
        (NV_ESC_RM_ALLOC, 32),
        (NV_ESC_RM_FREE, 16),
        (NV_ESC_RM_CONTROL, 32),
        (NV_ESC_RM_MAP_MEMORY, 56),
        (NV_ESC_RM_UNMAP_MEMORY, 32),
        (NV_ESC_RM_MAP_MEMORY_DMA, 64),
        (NV_ESC_RM_UNMAP_MEMORY_DMA, 48),
        (NV_ESC_CHECK_VERSION_STR, 72),
    ];
    for (number, size) in sizes {
        let request = |size| ioctl::iowr(NV_IOCTL_MAGIC, number, size);
        for wrong in [0, size - 4, size + 4] {
            assert_eq!(
                rig.raw(rig.control, request(wrong), address),
                invalid,
                "{number:#x}"
            );
        }
        assert_eq!(
            rig.raw(card, request(size), address),
            invalid,
            "{number:#x} of a card"
        );
    }
    // The caller's memory is described on the card's file.
    let described = ioctl::iowr(NV_IOCTL_MAGIC, NV_ESC_RM_ALLOC_MEMORY, 56);
    assert_eq!(rig.raw(rig.control, described, address), invalid);
    assert_eq!(rig.raw(rig.control, described, 0x1000), Err(libc::EFAULT));
    // Too short a list, and one that is long enough.
    let list = |size| ioctl::iowr(NV_IOCTL_MAGIC, NV_ESC_CARD_INFO, size);
    assert_eq!(rig.raw(rig.control, list(71), address), invalid);
    assert_eq!(rig.raw(rig.control, list(72), address), Ok(0));
    // Nobody knows these.
    let unknown = ioctl::iowr(NV_IOCTL_MAGIC, 0x7F, 8);
    assert_eq!(rig.raw(rig.control, unknown, address), invalid);
    assert_eq!(rig.raw(rig.uvm, 999, address), invalid);
    assert_eq!(rig.raw(rig.uvm, UVM_INITIALIZE, 0x1000), Err(libc::EFAULT));
    let reports = rig.reports();
    assert!(
        reports.contains("request 0x7f of the resource manager"),
        "{reports}"
    );
    assert!(
        reports.contains("request 0x3e7 of unified memory"),
        "{reports}"
    );
}

#[test]
fn long_arguments_go_by_reference() {
    let rig = Rig::new("nv-ampere,pace=manual");
    let mut args = NVOS54_PARAMETERS {
        hClient: rig.client,
        hObject: rig.client,
        status: 7,
        ..Default::default()
    };
    let mut xfer = [u64::from(NV_ESC_RM_CONTROL) | 32 << 32, at(&mut args)];
    let request = ioctl::iowr(NV_IOCTL_MAGIC, 211, 16);
    assert_eq!(rig.raw(rig.control, request, at(&mut xfer)), Ok(0));
    assert_eq!(args.status, NV_OK);
    for wrong in [
        u64::from(NV_ESC_RM_CONTROL) | 31 << 32,
        0x100 | 32 << 32,
        16385 << 32,
    ] {
        xfer[0] = wrong;
        assert_eq!(
            rig.raw(rig.control, request, at(&mut xfer)),
            Err(libc::EINVAL)
        );
    }
    let short = ioctl::iowr(NV_IOCTL_MAGIC, 211, 8);
    assert_eq!(
        rig.raw(rig.control, short, at(&mut xfer)),
        Err(libc::EINVAL)
    );
}

#[test]
fn versions_are_compared_as_asked() {
    let rig = Rig::bare("nv-ampere,pace=manual,driver=570.211.01");
    let check = |cmd, text: &str| {
        let mut args = nv_ioctl_rm_api_version {
            cmd,
            ..nv_ioctl_rm_api_version::new_zeroed()
        };
        args.versionString[..text.len()].copy_from_slice(text.as_bytes());
        let result = rig.call(rig.control, &mut args);
        let end = args
            .versionString
            .iter()
            .position(|&b| b == 0)
            .expect("ends");
        let told = String::from_utf8_lossy(&args.versionString[..end]).into_owned();
        assert_eq!(args.reply, NV_RM_API_VERSION_REPLY_RECOGNIZED);
        (result, told)
    };
    let own = || "570.211.01".to_owned();
    assert_eq!(check(NV_RM_API_VERSION_CMD_QUERY, ""), (Ok(()), own()));
    assert_eq!(
        check(NV_RM_API_VERSION_CMD_STRICT, "570.211.01"),
        (Ok(()), own())
    );
    let relaxed = check(NV_RM_API_VERSION_CMD_RELAXED, "570.1");
    assert_eq!(relaxed, (Ok(()), "570.1".into()));
    for (cmd, text) in [
        (NV_RM_API_VERSION_CMD_STRICT, "570.211.1"),
        (NV_RM_API_VERSION_CMD_STRICT, "570.211.010"),
        (NV_RM_API_VERSION_CMD_RELAXED, "57.211.01"),
    ] {
        assert_eq!(check(cmd, text), (Err(libc::EINVAL), own()), "{text}");
    }
}

#[test]
fn files_are_registered_once_and_with_a_control_file() {
    let rig = Rig::bare("nv-ampere,pace=manual");
    let open = |path: &str| rig.machine.open(Path::new(path), true).expect(path);
    let (card, other) = (open("/dev/nvidia0"), open("/dev/nvidia0"));
    let register = |file, ctl_fd| rig.call(file, &mut nv_ioctl_register_fd { ctl_fd });
    for wrong in [other, card, rig.uvm, 99, -1] {
        assert_eq!(register(card, wrong), Err(libc::EINVAL), "{wrong}");
    }
    assert_eq!(register(card, rig.control), Ok(()));
    assert_eq!(register(card, rig.control), Err(libc::EINVAL), "twice");
    assert_eq!(
        register(rig.control, rig.control),
        Err(libc::EINVAL),
        "itself"
    );
    let linked = open("/dev/nvidiactl");
    assert_eq!(register(linked, rig.control), Ok(()));
    assert_eq!(register(other, linked), Err(libc::EINVAL), "a chain");
    // Objects of the control file are there until the last file that is registered with it is closed too.
    let client = rig.root(rig.control).expect("a client");
    let mut args = NVOS54_PARAMETERS {
        hClient: client,
        hObject: client,
        ..Default::default()
    };
    rig.machine.close(rig.control);
    rig.machine.close(card);
    args.cmd = NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2;
    assert_eq!(
        rig.ask(linked, &mut args),
        Err(NV_ERR_INVALID_ARGUMENT),
        "still there"
    );
    rig.machine.close(linked);
    let fresh = open("/dev/nvidiactl");
    assert_eq!(rig.ask(fresh, &mut args), Err(NV_ERR_INVALID_CLIENT));
}

#[test]
fn what_a_script_says_fails_and_does_nothing() {
    let rig = Rig::new("nv-ampere,pace=manual");
    let fail = |call, errno| {
        rig.machine.inject(Script::Fail {
            call,
            nth: 1,
            times: 1,
            errno,
        });
    };
    let mut params = NV2080_ALLOC_PARAMETERS::default();
    let mut args = NVOS21_PARAMETERS {
        hRoot: rig.client,
        hObjectParent: rig.gpus[0].device,
        hObjectNew: 0x77,
        hClass: NV20_SUBDEVICE_0,
        pAllocParms: at(&mut params),
        ..Default::default()
    };
    fail(Call::Ioctl(NV_ESC_RM_ALLOC), libc::EINTR);
    assert_eq!(rig.call(rig.control, &mut args), Err(libc::EINTR));
    fail(Call::Command(NV20_SUBDEVICE_0), libc::ENOMEM);
    assert_eq!(rig.call(rig.control, &mut args), Err(libc::ENOMEM));
    assert_eq!(rig.free(0x77), Err(NV_ERR_OBJECT_NOT_FOUND));
    assert_eq!(rig.ask(rig.control, &mut args), Ok(()));
    fail(Call::Command(NV2080_CTRL_CMD_TIMER_GET_TIME), libc::EAGAIN);
    let mut time = NV2080_CTRL_TIMER_GET_TIME_PARAMS::default();
    let mut ask = NVOS54_PARAMETERS {
        hClient: rig.client,
        hObject: 0x77,
        cmd: NV2080_CTRL_CMD_TIMER_GET_TIME,
        params: at(&mut time),
        paramsSize: 8,
        ..Default::default()
    };
    assert_eq!(rig.call(rig.control, &mut ask), Err(libc::EAGAIN));
    assert_eq!(rig.ask(rig.control, &mut ask), Ok(()));
    fail(Call::Request(UVM_INITIALIZE), libc::ENODEV);
    let mut init = UVM_INITIALIZE_PARAMS::default();
    assert_eq!(rig.call(rig.uvm, &mut init), Err(libc::ENODEV));
    let mut early = UVM_CREATE_EXTERNAL_RANGE_PARAMS::default();
    assert_eq!(rig.ask(rig.uvm, &mut early), Err(NV_ERR_ILLEGAL_ACTION));
    fail(Call::Open("/dev/nvidia0".into()), libc::EACCES);
    assert_eq!(
        rig.machine.open(Path::new("/dev/nvidia0"), true),
        Err(libc::EACCES)
    );
    let memory = rig.memory(0, false, 4096).expect("memory");
    let file = rig
        .prepare(0, "/dev/nvidiactl", memory, 0, 4096, 0)
        .expect("prepared");
    fail(Call::Mmap, libc::ENOMEM);
    assert_eq!(rig.mmap(file, 4096), Err(libc::ENOMEM));
    assert!(rig.mmap(file, 4096).is_ok());
}
