use super::*;

#[test]
fn a_gpu_is_opened_and_given_back() {
    let fake = Fake::new(1);
    let (nv, port) = opened(&fake);
    let info = nv.info();
    assert_eq!(
        (info.name.as_str(), info.target.as_str()),
        ("3090", "sm_86")
    );
    assert_eq!((info.memory_bytes, info.compute_units), (24 << 30, 84));
    assert_eq!(nv.queue_counts(), (2, 1));
    assert_eq!(nv.width(), Width::W64);
    {
        let state = fake.state();
        assert_eq!(state.of_class(0xc56f).len(), 3);
        assert_eq!(state.of_class(0xc7c0).len(), 2);
        assert_eq!(state.of_class(0xc7b5).len(), 1);
        assert_eq!(state.of_class(uapi::GT200_DEBUGGER).len(), 2);
        let groups = state.of_class(uapi::KEPLER_CHANNEL_GROUP_A);
        assert!(groups.len() == 1 && state.running.contains(&groups[0]));
        // The client's file, UVM's, and the GPU's: what maps is closed again.
        assert_eq!(state.open_files.len(), 3);
    }
    drop((nv, port));
    is_empty(&fake);
}

#[test]
fn the_order_of_calls_is_the_drivers() {
    let fake = Fake::new(1);
    let opened = opened(&fake);
    let state = fake.state();
    let calls = state.calls.to_vec();
    let at = |call: Counted| calls.iter().position(|c| *c == call).expect("made");
    let last = |call: Counted| calls.iter().rposition(|c| *c == call).expect("made");
    let alloc = |class| Counted::Rm(uapi::NV_ESC_RM_ALLOC, class);
    let control = |command| Counted::Rm(uapi::NV_ESC_RM_CONTROL, command);
    let order = [
        at(Counted::Uvm(uapi::UVM_INITIALIZE)),
        at(Counted::Rm(uapi::NV_ESC_CARD_INFO, 0)),
        at(alloc(uapi::NV01_ROOT_CLIENT)),
        at(Counted::Rm(uapi::NV_ESC_REGISTER_FD, 0)),
        at(alloc(uapi::NV01_DEVICE_0)),
        at(alloc(uapi::NV20_SUBDEVICE_0)),
        at(control(uapi::NV0080_CTRL_CMD_GPU_GET_CLASSLIST)),
        at(Counted::Uvm(uapi::UVM_REGISTER_GPU)),
        at(alloc(uapi::FERMI_VASPACE_A)),
        at(Counted::Uvm(uapi::UVM_REGISTER_GPU_VASPACE)),
        at(alloc(uapi::AMPERE_USERMODE_A)),
        at(alloc(uapi::KEPLER_CHANNEL_GROUP_A)),
        at(alloc(uapi::FERMI_CONTEXT_SHARE_A)),
        at(alloc(uapi::AMPERE_CHANNEL_GPFIFO_A)),
        at(alloc(uapi::AMPERE_COMPUTE_B)),
        at(control(uapi::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN)),
        at(Counted::Uvm(uapi::UVM_REGISTER_CHANNEL)),
        last(Counted::Uvm(uapi::UVM_REGISTER_CHANNEL)),
        at(control(uapi::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE)),
    ];
    assert!(order.is_sorted(), "{order:?}");
    drop(state);
    drop(opened);
}

#[test]
fn every_call_may_fail_once() {
    let borne = each_call_fails(2, |fake| open_as(fake, None).map(drop));
    // What there can be without: a second UVM file, a name, the mode, debuggers, queues after the first.
    assert!(borne > 4, "{borne}");
}

#[test]
fn a_gpu_is_shared_by_its_devices() {
    let fake = Fake::new(2);
    let first = opened(&fake);
    let devices = fake.state().of_class(uapi::NV01_DEVICE_0);
    let second = opened(&fake);
    assert_eq!(fake.state().of_class(uapi::NV01_DEVICE_0), devices);
    assert_eq!(fake.state().of_class(uapi::NV01_ROOT_CLIENT).len(), 1);
    drop(first);
    assert_eq!(fake.state().of_class(0xc56f).len(), 3);
    drop(second);
    is_empty(&fake);
    drop(opened(&fake));
    is_empty(&fake);
}

#[test]
fn unknown_versions_are_refused_before_anything_is_made() {
    let fake = Fake::new(1);
    fake.state().version("610.12.01");
    let e = open_as(&fake, None)
        .map(drop)
        .expect_err("unknown")
        .to_string();
    assert!(
        e.contains("the nvidia driver is 610.12.01") && e.contains("HCQDEV_NV_ABI"),
        "{e}"
    );
    assert_eq!(
        *fake.state().calls,
        [Counted::Open],
        "only its version was looked for"
    );
    is_empty(&fake);
    // Whoever says so takes another branch's.
    drop(open_as(&fake, Some("580")).expect("at one's own risk"));
    is_empty(&fake);
    for wrong in ["610", "fresh", ""] {
        let e = open_as(&fake, Some(wrong))
            .map(drop)
            .expect_err(wrong)
            .to_string();
        assert!(e.contains("HCQDEV_NV_ABI"), "{e}");
    }
}

#[test]
fn a_version_that_proc_does_not_say_is_asked_for() {
    let fake = Fake::new(1);
    fake.state().files.remove("/proc/driver/nvidia/version");
    drop(opened(&fake));
    let calls = &fake.state().calls;
    assert!(calls.contains(&Counted::Rm(uapi::NV_ESC_CHECK_VERSION_STR, 0)));
}

#[test]
fn what_is_missing_is_explained() {
    let refused = |change: &dyn Fn(&mut State)| {
        let fake = Fake::new(1);
        change(&mut fake.state());
        let e = open_as(&fake, None)
            .map(drop)
            .expect_err("refused")
            .to_string();
        is_empty(&fake);
        e
    };
    let e = refused(&|s| s.files.clear());
    assert!(
        e.contains("open /dev/nvidiactl") && e.contains("nvidia driver is not loaded"),
        "{e}"
    );
    let e = refused(&|s| drop(s.files.remove("/dev/nvidiactl")));
    assert!(e.contains("is loaded, but there is no such node"), "{e}");
    let e = refused(&|s| drop(s.files.remove("/dev/nvidia-uvm")));
    assert!(
        e.contains("its part for compute is not") && e.contains("nvidia-modprobe -u"),
        "{e}"
    );
    for (errno, words) in [
        (Errno::ACCES, "NVreg_DeviceFileMode"),
        (Errno::PERM, "cgroup"),
        (Errno::IO, "fell off the bus"),
        (Errno(9999), "dmesg"),
    ] {
        let e = refused(&|s| {
            s.opens.insert("/dev/nvidia0".into(), errno);
        });
        assert!(e.contains("open /dev/nvidia0") && e.contains(words), "{e}");
    }
    let e = refused(&|s| drop(s.files.remove("/dev/nvidia0")));
    assert!(e.contains("no GPU that this process sees"), "{e}");
    let e = refused(&|s| s.classes.retain(|c| *c != 0xc7c0));
    assert!(e.contains("generation that is not known"), "{e}");
}

#[test]
fn modes_are_explained() {
    let fake = Fake::new(1);
    fake.state().rules = uapi::NV2080_CTRL_GPU_COMPUTE_MODE_RULES_COMPUTE_PROHIBITED;
    let e = open_as(&fake, None)
        .map(drop)
        .expect_err("prohibited")
        .to_string();
    assert!(e.contains("nvidia-smi -c 0"), "{e}");
    is_empty(&fake);
    // Exclusive is no obstacle to the one who has it.
    fake.state().rules = uapi::NV2080_CTRL_GPU_COMPUTE_MODE_RULES_EXCLUSIVE_COMPUTE_PROCESS;
    drop(opened(&fake));
    fake.state().channels_left = 0;
    let e = open_as(&fake, None)
        .map(drop)
        .expect_err("no channel")
        .to_string();
    assert!(
        e.contains("exclusive mode") && e.contains("NV_ERR_INSUFFICIENT_RESOURCES"),
        "{e}"
    );
    is_empty(&fake);
}

#[test]
fn as_many_queues_as_there_are() {
    let fake = Fake::new(1);
    fake.state().channels_left = 2;
    let (nv, _port) = opened(&fake);
    assert_eq!(nv.queue_counts(), (2, 0));
    drop((nv, _port));
    fake.state().channels_left = 0;
    let e = open_as(&fake, None)
        .map(drop)
        .expect_err("none")
        .to_string();
    assert!(e.contains("nvidia-smi"), "{e}");
    is_empty(&fake);
}

#[test]
fn gpus_are_counted_along_the_bus() {
    let fake = Fake::new(3);
    let list = list::candidates_as(&*fake.system(), None);
    is_empty(&fake);
    let told: Vec<_> = list
        .iter()
        .map(|c| (c.name.as_str(), c.ready, c.description.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("nv:0", true, "NVIDIA GeForce RTX 3090 at 0000:7e:00.0"),
            ("nv:1", true, "NVIDIA GeForce RTX 3090 at 0000:7f:00.0"),
            ("nv:2", true, "NVIDIA GeForce RTX 3090 at 0000:80:00.0"),
        ]
    );
    // The first is the last that the driver lists.
    let process = Process::open_as(&fake.system(), None).expect("all is there");
    let gpu = process.gpu(0).expect("there");
    assert_eq!(gpu.uuid().uuid[15], 2);
    let e = process.gpu(3).expect_err("three").to_string();
    assert!(e.contains("there are 3 NVIDIA GPUs, nv:0 to nv:2"), "{e}");
    // One whose node a container does not have has no number.
    fake.state().files.remove("/dev/nvidia2");
    assert_eq!(list::candidates_as(&*fake.system(), None).len(), 2);
}

#[test]
fn lists_say_what_is_in_the_way() {
    let listed = |change: &dyn Fn(&mut State)| {
        let fake = Fake::new(1);
        change(&mut fake.state());
        let list = list::candidates_as(&*fake.system(), None);
        is_empty(&fake);
        assert!(list.len() == 1 && !list[0].ready);
        let attempts: Vec<String> = list[0].attempts.iter().map(ToString::to_string).collect();
        (list[0].description.clone(), attempts.join("\n"))
    };
    let (text, attempts) = listed(&|s| s.files.clear());
    assert_eq!(
        text,
        "NVIDIA GPU through the nvidia driver: /dev/nvidiactl not found"
    );
    assert!(attempts.contains("lspci | grep -i nvidia"), "{attempts}");
    let (text, attempts) = listed(&|s| s.version("999.1"));
    assert!(text.contains("the nvidia driver is 999.01"), "{text}");
    assert!(attempts.contains("HCQDEV_NV_ABI"), "{attempts}");
    let (text, _) = listed(&|s| {
        s.opens.insert("/dev/nvidia0".into(), Errno::ACCES);
    });
    assert!(
        text.contains("/dev/nvidia0 cannot be opened: Permission denied"),
        "{text}"
    );
    let (text, _) = listed(&|s| s.cards.clear());
    assert_eq!(
        text,
        "NVIDIA GPU through the nvidia driver: no GPU is visible to this process"
    );
    let (text, _) = listed(&|s| drop(s.files.remove("/dev/nvidia-uvm")));
    assert!(text.contains("/dev/nvidia-uvm not found"), "{text}");
}
