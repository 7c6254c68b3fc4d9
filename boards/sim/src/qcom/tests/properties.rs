//! Properties, sysfs, the node.

use super::*;
use crate::machine::{Call, Script};

fn get<T>(rig: &Rig, kind: u32, value: &mut T) -> Result<i32, i32> {
    let bytes = size_of::<T>() as u64;
    rig.call(&mut kgsl_device_getproperty {
        r#type: kind,
        value: at(value),
        sizebytes: bytes,
        ..Default::default()
    })
}

fn set<T>(rig: &Rig, kind: u32, value: &mut T) -> Result<i32, i32> {
    rig.call(&mut kgsl_device_setproperty {
        r#type: kind,
        value: at(value),
        sizebytes: size_of::<T>() as u64,
        ..Default::default()
    })
}

#[test]
fn a_device_says_what_it_is() {
    for (name, chip, gmem, base, model, gpu) in [
        ("a630", 0x0603_0001, 1 << 20, 1 << 20, "Adreno630v2", 630),
        ("a650", 0x0605_0002, 1152 << 10, 0, "Adreno650v3", 650),
        ("a660", 0x0606_0001, 1536 << 10, 0, "Adreno660v2", 0),
    ] {
        let rig = Rig::on(&format!("qcom-{name},pace=manual"));
        let mut info = kgsl_devinfo::default();
        assert_eq!(get(&rig, KGSL_PROP_DEVICE_INFO, &mut info), Ok(0));
        assert_eq!(
            (info.device_id, info.chip_id, info.mmu_enabled),
            (1, chip, 1)
        );
        assert_eq!((info.gmem_sizebytes, info.gpu_id), (gmem, gpu));
        let mut address = 7u64;
        assert_eq!(get(&rig, KGSL_PROP_UCHE_GMEM_VADDR, &mut address), Ok(0));
        assert_eq!(address, base);
        let mut text = kgsl_gpu_model::default();
        assert_eq!(get(&rig, KGSL_PROP_GPU_MODEL, &mut text), Ok(0));
        assert!(text.gpu_model.starts_with(format!("{model}\0").as_bytes()));
        let path = Path::new("/sys/class/kgsl/kgsl-3d0/gpu_model");
        assert_eq!(rig.machine.read(path, 99), Ok(model.into()));
        let path = Path::new("/sys/class/kgsl/kgsl-3d0/gpu_available_frequencies");
        let clocks = rig.machine.read(path, 4096).expect("there");
        let spaces = clocks.iter().filter(|&&byte| byte == b' ').count();
        assert_eq!(spaces, if name == "a660" { 10 } else { 7 });
    }
}

#[test]
fn every_property_that_is_listed_is_there() {
    let rig = Rig::new(1);
    let mut list = [0u32; 40];
    let mut all = kgsl_capabilities_properties {
        list: 0,
        count: 0,
        hole0: 0,
    };
    let ask = |all: &mut kgsl_capabilities_properties| {
        let mut query = kgsl_capabilities {
            data: at(all),
            size: size_of::<kgsl_capabilities_properties>() as u64,
            querytype: KGSL_QUERY_CAPS_PROPERTIES,
            hole0: 0,
        };
        get(&rig, KGSL_PROP_QUERY_CAPABILITIES, &mut query)
    };
    assert_eq!(ask(&mut all), Ok(0));
    assert_eq!(all.count, 30);
    (all.list, all.count) = (at(&mut list), 40);
    assert_eq!(ask(&mut all), Ok(0));
    assert_eq!(all.count, 30);
    for kind in list.into_iter().take(30) {
        let answers = [4, 8, 16, 24, 32, 40].map(|bytes| {
            let mut room = [0u64; 8];
            rig.call(&mut kgsl_device_getproperty {
                r#type: kind,
                value: at(&mut room),
                sizebytes: bytes,
                ..Default::default()
            })
        });
        assert!(!answers.contains(&Err(libc::ENODEV)), "{kind:#x}");
        let refused = [KGSL_PROP_GPU_RESET_STAT, KGSL_PROP_QUERY_CAPABILITIES];
        let other = [KGSL_PROP_CONTEXT_PROPERTY, 0x26, 0x2F];
        if !refused.contains(&kind) && !other.contains(&kind) {
            assert!(answers.contains(&Ok(0)), "{kind:#x}: {answers:?}");
        }
    }
    for unknown in [0, 3, 0x12, 0x33, u32::MAX] {
        assert_eq!(
            get(&rig, unknown, &mut 0u64),
            Err(libc::ENODEV),
            "{unknown:#x}"
        );
    }
}

#[test]
fn sizes_count_where_the_kernel_counts_them() {
    let rig = Rig::new(1);
    let mut version = kgsl_version::default();
    assert_eq!(get(&rig, KGSL_PROP_VERSION, &mut version), Ok(0));
    assert_eq!((version.drv_major, version.drv_minor), (3, 14));
    assert_eq!(get(&rig, KGSL_PROP_VERSION, &mut 0u64), Err(libc::EINVAL));
    assert_eq!(
        get(&rig, KGSL_PROP_GPU_VA64_SIZE, &mut 0u32),
        Err(libc::EINVAL)
    );
    // A part of a property.
    let mut half = [0u32; 2];
    assert_eq!(get(&rig, KGSL_PROP_DEVICE_INFO, &mut half), Ok(0));
    assert_eq!(half, [1, 0x0603_0001]);
    // Sizes that are asked for come back in the argument.
    for (kind, bytes) in [
        (KGSL_PROP_QUERY_CAPABILITIES, size_of::<kgsl_capabilities>()),
        (
            KGSL_PROP_CONTEXT_PROPERTY,
            size_of::<kgsl_context_property>(),
        ),
    ] {
        let mut args = kgsl_device_getproperty {
            r#type: kind,
            ..Default::default()
        };
        assert_eq!(rig.call(&mut args), Ok(0));
        assert_eq!(args.sizebytes, bytes as u64);
    }
    let mut args = kgsl_device_getproperty {
        r#type: KGSL_PROP_DEVICE_INFO,
        value: 8,
        sizebytes: 4,
        ..Default::default()
    };
    assert_eq!(rig.call(&mut args), Err(libc::EFAULT));
    let mut wrong = kgsl_capabilities {
        querytype: 2,
        ..Default::default()
    };
    let kind = KGSL_PROP_QUERY_CAPABILITIES;
    assert_eq!(get(&rig, kind, &mut wrong), Err(libc::EOPNOTSUPP));
    assert_eq!(
        get(&rig, kind, &mut kgsl_capabilities::default()),
        Err(libc::EINVAL)
    );
}

#[test]
fn constraints_are_looked_at() {
    let rig = Rig::new(1);
    let context = rig.context(ContextFlags::PWR_CONSTRAINT);
    let constrain = |context: u32, kind: u32, level: u32, bytes: u64, null: bool| {
        let mut wish = kgsl_device_constraint_pwrlevel { level };
        let mut constraint = kgsl_device_constraint {
            r#type: kind,
            context_id: context,
            data: if null { 0 } else { at(&mut wish) },
            size: bytes,
        };
        set(&rig, KGSL_PROP_PWR_CONSTRAINT, &mut constraint)
    };
    const LEVEL: u32 = KGSL_CONSTRAINT_PWRLEVEL;
    for (answer, context, kind, level, bytes, null) in [
        (Ok(0), context, LEVEL, KGSL_CONSTRAINT_PWR_MAX, 4, false),
        (Ok(0), context, KGSL_CONSTRAINT_NONE, 0, 0, true),
        (Ok(0), context, 3, 9, 4, false),
        (Ok(0), context, 2, 0, 0, true),
        (Err(libc::EINVAL), context, LEVEL, 2, 4, false),
        (Err(libc::EINVAL), context, LEVEL, 1, 8, false),
        (Err(libc::EFAULT), context, LEVEL, 1, 4, true),
        (Err(libc::EINVAL), context, 4, 1, 4, false),
        (Err(libc::EINVAL), context + 1, LEVEL, 1, 4, false),
    ] {
        assert_eq!(
            constrain(context, kind, level, bytes, null),
            answer,
            "{kind} {level}"
        );
    }
    assert_eq!(
        set(&rig, KGSL_PROP_PWR_CONSTRAINT, &mut 0u32),
        Err(libc::EINVAL)
    );
    assert_eq!(set(&rig, KGSL_PROP_PWRCTRL, &mut 0u32), Ok(0));
    assert_eq!(set(&rig, KGSL_PROP_PWRCTRL, &mut 0u64), Err(libc::EINVAL));
    assert_eq!(set(&rig, KGSL_PROP_VERSION, &mut 0u32), Err(libc::ENODEV));
}

#[test]
fn requests_are_known_by_their_number() {
    let rig = Rig::new(1);
    let ioctl = |request: u32, args: &mut kgsl_device_getproperty| {
        // SAFETY: the largest argument of these requests.
        unsafe {
            rig.machine
                .ioctl(rig.file, request.into(), (&raw mut *args).cast())
        }
    };
    let mut model = [0u8; 32];
    let fresh = |model: &mut [u8; 32]| kgsl_device_getproperty {
        r#type: KGSL_PROP_GPU_MODEL,
        value: at(model),
        sizebytes: 32,
        ..Default::default()
    };
    let request = kgsl_device_getproperty::REQUEST;
    // Another letter is the same.
    let mut args = fresh(&mut model);
    assert_eq!(ioctl(request & !0xFF00, &mut args), Ok(0));
    // Without the direction nothing is copied in: property 0.
    assert_eq!(ioctl(request & 0x3FFF_FFFF, &mut args), Err(libc::ENODEV));
    // A shorter argument: the size is missing, so nothing is written.
    model = [1; 32];
    let mut args = fresh(&mut model);
    assert_eq!(
        ioctl(request & !(0x3FFF << 16) | 16 << 16, &mut args),
        Ok(0)
    );
    assert_eq!(model, [1; 32]);
    for number in [0x00, 0x10, 0x15, 0x38, 0x3D, 0x61, 0xFF] {
        let unknown = request & !0xFF | number;
        assert_eq!(ioctl(unknown, &mut args), Err(libc::ENOTTY), "{number:#x}");
    }
    let mut clocks = kgsl_read_calibrated_timestamps::default();
    assert_eq!(rig.call(&mut clocks), Err(libc::EOPNOTSUPP));
    // SAFETY: an address that is not there is an error.
    let null = unsafe {
        let nothing = std::ptr::null_mut();
        rig.machine.ioctl(rig.file, request.into(), nothing)
    };
    assert_eq!(null, Err(libc::EFAULT));
}

#[test]
fn the_node_can_be_missing_or_closed() {
    for (option, errno) in [("missing", libc::ENOENT), ("denied", libc::EACCES)] {
        let config = format!("qcom-a650,kgsl={option}");
        let machine = Machine::new(config.parse().expect("known")).expect("starts");
        let opened = machine.open(Path::new("/dev/kgsl-3d0"), true);
        assert_eq!(opened, Err(errno), "{option}");
        let names = machine.list(Path::new("/dev")).unwrap_or_default();
        assert_eq!(names.contains(&"kgsl-3d0".to_owned()), option == "denied");
    }
    let rig = Rig::new(1);
    assert_eq!(
        rig.machine.open(Path::new("/dev/kgsl-2d0"), true),
        Err(libc::ENOENT)
    );
    assert_eq!(
        rig.machine.open(Path::new("/dev/kfd"), true),
        Err(libc::ENOENT)
    );
}

#[test]
fn scripts_make_calls_fail() {
    let rig = Rig::new(1);
    rig.machine.inject(Script::Fail {
        call: Call::Ioctl(0x45),
        nth: 2,
        times: 1,
        errno: libc::ENOMEM,
    });
    let results = [(); 3].map(|()| rig.alloc(PAGE, CACHED).map(|made| made.id));
    assert_eq!(results, [Ok(1), Err(libc::ENOMEM), Ok(2)]);
    rig.machine.inject(Script::Fail {
        call: Call::Mmap,
        nth: 1,
        times: 1,
        errno: libc::EAGAIN,
    });
    assert_eq!(rig.map(PAGE, PAGE, true), Err(libc::EAGAIN));
    assert!(rig.map(PAGE, PAGE, true).is_ok());
}
