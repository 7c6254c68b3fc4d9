//! Files that events make readable.

use super::*;

const CHANNELS: u32 = NV2080_NOTIFIERS_FIFO_EVENT_MTHD | NV01_EVENT_NONSTALL_INTR;
const QUIET: u32 = NV01_EVENT_WITHOUT_EVENT_DATA;

/// Two GPUs, and an address space of the first.
fn rig() -> (Rig, u32) {
    let rig = Rig::new("nv-ampere,pace=manual,gpus=2");
    let space = rig.spaces()[0];
    (rig, space)
}

fn poll(rig: &Rig, file: i32) -> bool {
    rig.machine.poll(file, Duration::ZERO).expect("open")
}

fn allow(rig: &Rig, file: i32, client: u32, fd: u32) -> Result<(), u32> {
    let mut args = nv_ioctl_alloc_os_event {
        hClient: client,
        fd,
        ..Default::default()
    };
    rig.ask(file, &mut args)
}

fn forbid(rig: &Rig, client: u32, fd: u32) -> Result<(), u32> {
    let mut args = nv_ioctl_free_os_event {
        hClient: client,
        fd,
        ..Default::default()
    };
    rig.ask(rig.control, &mut args)
}

fn event(rig: &Rig, source: u32, index: u32, data: u64) -> Result<u32, u32> {
    let mut params = NV0005_ALLOC_PARAMETERS {
        hSrcResource: source,
        notifyIndex: index,
        data,
        ..Default::default()
    };
    rig.alloc(source, 0, NV01_EVENT_OS_EVENT, &mut params)
}

fn data(rig: &Rig, file: i32) -> Result<(NvUnixEvent, u32), u32> {
    let mut told = NvUnixEvent::default();
    let mut args = NVOS41_PARAMETERS {
        pEvent: at(&mut told),
        ..Default::default()
    };
    rig.ask(file, &mut args)?;
    Ok((told, args.MoreEvents))
}

/// `NON_STALL_INTERRUPT` of the host engine.
const HOST: [u32; 2] = [1 << 29 | 1 << 16 | 0x20 >> 2, 0];

/// A channel of the first GPU that runs on this engine.
fn channel<'a>(rig: &'a Rig, space: u32, number: u64, engine: u32) -> Channel<'a> {
    let group = rig.group(0, space, engine).expect("a group");
    let channel = rig.channel(0, number, group, space);
    rig.schedule(group, true).expect("runs");
    channel
}

fn interrupt(rig: &Rig, channel: &Channel<'_>) {
    channel.write(&HOST);
    channel.ring();
    rig.run();
}

#[test]
fn interrupts_make_files_readable_and_a_look_takes_that_back() {
    let (rig, space) = rig();
    let channel = channel(&rig, space, 0, NV2080_ENGINE_TYPE_GRAPHICS);
    let subdevice = rig.gpus[0].subdevice;
    let open = |path: &str| rig.machine.open(Path::new(path), true).expect(path);
    // Any file of the driver's will do, whether it is registered with the client's or not.
    let files = [
        open("/dev/nvidiactl"),
        open("/dev/nvidia0"),
        open("/dev/nvidia1"),
    ];
    for (fd, &file) in (70..).zip(&files) {
        assert_eq!(allow(&rig, file, rig.client, fd), Ok(()));
        assert!(event(&rig, subdevice, CHANNELS | QUIET, fd.into()).is_ok());
        assert!(!poll(&rig, file));
    }
    // Only what is asked for is told.
    channel.release(channel.result_at(0), 1);
    channel.ring();
    rig.run();
    assert_eq!(channel.result(0), 1);
    assert_eq!(files.map(|file| poll(&rig, file)), [false; 3]);
    for _ in 0..2 {
        interrupt(&rig, &channel);
        interrupt(&rig, &channel);
        assert_eq!(files.map(|file| poll(&rig, file)), [true; 3]);
        assert_eq!(files.map(|file| poll(&rig, file)), [false; 3]);
    }
    assert!(!poll(&rig, rig.control));
    // Without data there is none to be had.
    assert_eq!(data(&rig, files[0]), Err(NV_ERR_OPERATING_SYSTEM));
}

#[test]
fn each_engine_tells_its_own_events() {
    let (rig, space) = rig();
    let graphics = channel(&rig, space, 0, NV2080_ENGINE_TYPE_GRAPHICS);
    let copies = channel(&rig, space, 1, NV2080_ENGINE_TYPE_COPY0 + 2);
    let [subdevice, other] = [0, 1].map(|gpu| rig.gpus[gpu].subdevice);
    let told = [
        (subdevice, NV2080_NOTIFIERS_GRAPHICS, [true, false]),
        (subdevice, NV2080_NOTIFIERS_CE0 + 2, [false, true]),
        (subdevice, NV2080_NOTIFIERS_CE0, [false, false]),
        (subdevice, NV2080_NOTIFIERS_FIFO_EVENT_MTHD, [true, true]),
        (other, NV2080_NOTIFIERS_FIFO_EVENT_MTHD, [false, false]),
    ];
    let files: Vec<i32> = (1u32..)
        .zip(&told)
        .map(|(fd, &(source, index, _))| {
            let file = rig
                .machine
                .open(Path::new("/dev/nvidia0"), true)
                .expect("opens");
            assert_eq!(allow(&rig, file, rig.client, fd), Ok(()));
            let index = index | NV01_EVENT_NONSTALL_INTR | QUIET;
            assert!(event(&rig, source, index, fd.into()).is_ok());
            file
        })
        .collect();
    for (which, channel) in [&graphics, &copies].into_iter().enumerate() {
        interrupt(&rig, channel);
        for (file, (_, index, heard)) in files.iter().zip(&told) {
            assert_eq!(poll(&rig, *file), heard[which], "{index}, channel {which}");
        }
    }
    // The copy engine beside graphics has an event of its own, and the interrupt of its launches is what tells it.
    assert!(rig.plain(graphics.handle, 0, chip(&rig).copy).is_ok());
    let beside = 1 << 29 | 1 << 16 | 4 << 13;
    graphics.write(&[beside, chip(&rig).copy]);
    for (interrupt, heard) in [(0, false), (2, true)] {
        // `LAUNCH_DMA` that moves nothing and releases nothing.
        graphics.write(&[beside | 0x300 >> 2, interrupt << 5]);
        graphics.ring();
        rig.run();
        assert_eq!(poll(&rig, files[2]), heard, "{}", rig.reports());
        assert_eq!(poll(&rig, files[3]), heard);
        assert!(!poll(&rig, files[0]) && !poll(&rig, files[1]));
    }
    // Without the flag the event is no interrupt's.
    let file = files[0];
    assert!(event(&rig, subdevice, NV2080_NOTIFIERS_FIFO_EVENT_MTHD, 1).is_ok());
    interrupt(&rig, &copies);
    assert!(!poll(&rig, file));
}

#[test]
fn calls_are_checked_in_the_kernels_order() {
    let (rig, _) = rig();
    let (control, client) = (rig.control, rig.client);
    let subdevice = rig.gpus[0].subdevice;
    // Nobody looks whether the client is there; a number is a client's once.
    assert_eq!(allow(&rig, control, 7, 3), Ok(()));
    assert_eq!(allow(&rig, control, client, 3), Ok(()));
    assert_eq!(
        allow(&rig, rig.gpus[0].file, client, 3),
        Err(NV_ERR_INSUFFICIENT_RESOURCES)
    );
    assert_eq!(forbid(&rig, client, 4), Err(NV_ERR_INVALID_EVENT));

    let mut params = NV0005_ALLOC_PARAMETERS {
        hParentClient: 9,
        hSrcResource: 9,
        notifyIndex: CHANNELS,
        data: 9,
        ..Default::default()
    };
    let mut made = |change: &dyn Fn(&mut NV0005_ALLOC_PARAMETERS), class| {
        change(&mut params);
        rig.alloc(subdevice, 0, class, &mut params)
    };
    let os = NV01_EVENT_OS_EVENT;
    assert_eq!(made(&|_| {}, os), Err(NV_ERR_INVALID_OBJECT_HANDLE));
    let named = made(&|params| params.hParentClient = client, NV01_EVENT);
    assert_eq!(named, Err(NV_ERR_INVALID_CLASS));
    assert_eq!(made(&|_| {}, os), Err(NV_ERR_INVALID_OBJECT));
    let device = rig.gpus[0].device;
    let of_device = made(&|params| params.hSrcResource = device, os);
    assert_eq!(of_device, Err(NV_ERR_INVALID_OBJECT), "no notifier");
    let of_client = made(&|params| params.hSrcResource = client, os);
    assert_eq!(of_client, Err(NV_ERR_OBJECT_NOT_FOUND));
    let of_client = made(&|params| params.data = 3, os);
    assert_eq!(of_client, Err(NV_ERR_INVALID_ARGUMENT), "no subdevice");
    let wrong = made(
        &|params| {
            params.hSrcResource = subdevice;
            params.notifyIndex = NV2080_NOTIFIERS_RC_ERROR | NV01_EVENT_NONSTALL_INTR;
        },
        os,
    );
    assert_eq!(wrong, Err(NV_ERR_NOT_SUPPORTED), "no engine");
    // Of the file's number 32 bits count, of the class in the parameters none.
    let fine = made(
        &|params| (params.notifyIndex, params.data) = (CHANNELS, 0xFFFF_0000_0003),
        os,
    );
    assert!(fine.is_ok(), "{fine:?}");
}

#[test]
fn events_with_data_wait_in_a_list() {
    let (rig, space) = rig();
    let channel = channel(&rig, space, 0, NV2080_ENGINE_TYPE_GRAPHICS);
    let (file, subdevice) = (rig.gpus[0].file, rig.gpus[0].subdevice);
    assert_eq!(allow(&rig, file, rig.client, 3), Ok(()));
    let handle = event(&rig, subdevice, CHANNELS, 3).expect("an event");
    interrupt(&rig, &channel);
    interrupt(&rig, &channel);
    assert!(poll(&rig, file) && poll(&rig, file), "a look leaves it");
    for more in [1, 0] {
        let told = NvUnixEvent {
            hObject: handle,
            NotifyIndex: NV2080_NOTIFIERS_FIFO_EVENT_MTHD,
            ..Default::default()
        };
        assert_eq!(data(&rig, file), Ok((told, more)));
    }
    assert!(!poll(&rig, file));
    assert_eq!(data(&rig, file), Err(NV_ERR_OPERATING_SYSTEM));
    interrupt(&rig, &channel);
    let mut args = NVOS41_PARAMETERS::default();
    assert_eq!(rig.ask(file, &mut args), Err(NV_ERR_INVALID_ADDRESS));
    assert!(!poll(&rig, file), "taken all the same");
}

#[test]
fn what_goes_takes_its_events_along() {
    let (rig, space) = rig();
    let channel = channel(&rig, space, 0, NV2080_ENGINE_TYPE_GRAPHICS);
    let (file, subdevice) = (rig.gpus[0].file, rig.gpus[0].subdevice);
    let quiet = |fd: u32| event(&rig, subdevice, CHANNELS | QUIET, fd.into());
    let told = |_: &str| {
        interrupt(&rig, &channel);
        poll(&rig, file)
    };
    assert_eq!(allow(&rig, file, rig.client, 3), Ok(()));
    let one = quiet(3).expect("an event");
    assert!(told("an event"));
    assert_eq!(rig.free(one), Ok(()));
    assert!(!told("nothing"));
    // Without the file's name, the event object tells nobody; the name is free for another file.
    let two = quiet(3).expect("an event");
    assert_eq!(forbid(&rig, rig.client, 3), Ok(()));
    assert_eq!(allow(&rig, rig.control, rig.client, 3), Ok(()));
    assert!(!told("another file"));
    assert!(!poll(&rig, rig.control), "it is tied to the first");
    assert_eq!(rig.free(two), Ok(()));
    // A file that is closed takes its names along.
    let closed = rig
        .machine
        .open(Path::new("/dev/nvidia0"), true)
        .expect("opens");
    assert_eq!(allow(&rig, closed, rig.client, 4), Ok(()));
    let three = quiet(4).expect("an event");
    rig.machine.close(closed);
    assert_eq!(quiet(4), Err(NV_ERR_OBJECT_NOT_FOUND));
    assert_eq!(forbid(&rig, rig.client, 4), Err(NV_ERR_INVALID_EVENT));
    interrupt(&rig, &channel);
    assert_eq!(rig.free(three), Ok(()));
    // An object that goes leaves its events without a source; below it they go with it.
    let mut params = NV2080_ALLOC_PARAMETERS::default();
    let device = rig.gpus[0].device;
    let second = rig
        .alloc(device, 0x77, NV20_SUBDEVICE_0, &mut params)
        .expect("a subdevice");
    assert_eq!(allow(&rig, file, rig.client, 5), Ok(()));
    let mut params = NV0005_ALLOC_PARAMETERS {
        hSrcResource: second,
        notifyIndex: CHANNELS | QUIET,
        data: 5,
        ..Default::default()
    };
    let beside = rig.alloc(device, 0, NV01_EVENT_OS_EVENT, &mut params);
    let beside = beside.expect("an event");
    let below = rig.alloc(second, 0, NV01_EVENT_OS_EVENT, &mut params);
    let below = below.expect("an event");
    assert!(told("two"));
    assert_eq!(rig.free(second), Ok(()));
    assert_eq!(rig.free(below), Err(NV_ERR_OBJECT_NOT_FOUND));
    let mut params = NV2080_ALLOC_PARAMETERS::default();
    rig.alloc(device, 0x77, NV20_SUBDEVICE_0, &mut params)
        .expect("the handle is free");
    assert!(!told("the new one's is not the old one"));
    assert_eq!(rig.free(beside), Ok(()));
}

fn notify(rig: &Rig, subdevice: u32, event: u32, action: u32) -> Result<(), u32> {
    let mut params = NV2080_CTRL_EVENT_SET_NOTIFICATION_PARAMS {
        event,
        action,
        ..Default::default()
    };
    rig.control(
        subdevice,
        NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION,
        &mut params,
    )
}

#[test]
fn errors_are_told_by_subdevices_that_were_asked_to() {
    let (rig, space) = rig();
    let (file, subdevice) = (rig.gpus[0].file, rig.gpus[0].subdevice);
    let (error, once) = (
        NV2080_NOTIFIERS_RC_ERROR,
        NV2080_CTRL_EVENT_SET_NOTIFICATION_ACTION_SINGLE,
    );
    let (always, never) = (
        NV2080_CTRL_EVENT_SET_NOTIFICATION_ACTION_REPEAT,
        NV2080_CTRL_EVENT_SET_NOTIFICATION_ACTION_DISABLE,
    );
    assert_eq!(
        notify(&rig, subdevice, error, always),
        Err(NV_ERR_INVALID_STATE),
        "no event"
    );
    assert_eq!(allow(&rig, file, rig.client, 3), Ok(()));
    let handle = event(&rig, subdevice, error, 3).expect("an event");
    assert_eq!(
        notify(&rig, rig.gpus[0].device, error, always),
        Err(NV_ERR_NOT_SUPPORTED)
    );
    for (event, action) in [(500, always), (NV2080_NOTIFIERS_TIMER, always), (error, 3)] {
        assert_eq!(
            notify(&rig, subdevice, event, action),
            Err(NV_ERR_INVALID_ARGUMENT),
            "{event}"
        );
    }
    let fail = |number: u64| {
        let channel = channel(&rig, space, number, NV2080_ENGINE_TYPE_GRAPHICS);
        channel.release(0x33_0000_1000, 1);
        channel.ring();
        rig.run();
        assert_ne!(channel.error().2, 0);
        poll(&rig, file)
    };
    assert!(!fail(0), "nobody has asked");
    assert_eq!(notify(&rig, subdevice, error, once), Ok(()));
    assert_eq!(
        notify(&rig, subdevice, error, always),
        Err(NV_ERR_INVALID_STATE),
        "asked already"
    );
    assert!(fail(1));
    let told = NvUnixEvent {
        hObject: handle,
        NotifyIndex: error,
        info32: ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT,
        ..Default::default()
    };
    assert_eq!(data(&rig, file), Ok((told, 0)));
    assert!(!fail(2), "once");
    assert_eq!(notify(&rig, subdevice, error, always), Ok(()));
    assert!(fail(3) && fail(4));
    assert_eq!(notify(&rig, subdevice, error, never), Ok(()));
    assert_eq!(data(&rig, file).map(|(_, more)| more), Ok(1));
    assert_eq!(data(&rig, file).map(|(_, more)| more), Ok(0));
    assert!(!fail(5));
}
