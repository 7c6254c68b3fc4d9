//! The device on a fake kernel, whose GPU runs the packets of queues.
#![allow(unsafe_code, reason = "launches kernels, wraps memory")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use hcq_nostd::fault::{Access, FaultKind};
use hcq_uapi::kgsl as uapi;

use crate::kgsl::fake::Fake;
use crate::seam::Errno;
use crate::{Arg, Device, Error, Grid, Options};

/// Programs that Mesa's compiler made, with what it says of them.
const ADD: &[u8] = include_bytes!("../../../tests/vectors/objects/add-a630-ir3.bin");
const REDUCE: &[u8] = include_bytes!("../../../tests/vectors/objects/reduce-a630-ir3.bin");

fn options(fake: &Arc<Fake>) -> Options {
    Options::default()
        .system(fake.system())
        .wait_timeout_ms(2000)
        .ring_packets(64)
}

fn open(fake: &Arc<Fake>) -> Device {
    Device::open_with("qcom", &options(fake)).expect("the fake GPU")
}

fn bundle() -> Vec<u8> {
    let add = "hcq-ir3 1\nkernel add\narguments const float *a; const float *b; float *out;\nmax_reg 6\nmax_half_reg 0\n\
               work_group_id 0xc0\nlocal_invocation_id 0\nconstlen 4\nmax_const_offset 4\ncode 384\n";
    let reduce = "kernel reduce\narguments const float *a; float *out;\nmax_reg 10\nmax_half_reg 0\nshared_bytes 64\n\
                  local_invocation_id 0\nconstlen 8\nimmediates 0x40400000\nmax_const_offset 4\ncode 640\n";
    [add.as_bytes(), ADD, reduce.as_bytes(), REDUCE].concat()
}

const NOTHING: &str = "objects [], contexts [], mappings 0, files []";

#[test]
fn a_device_is_opened_and_leaves_nothing() {
    let fake = Fake::new();
    let device = open(&fake);
    let info = device.info();
    assert_eq!((&*info.name, &*info.target), ("Adreno650v3", "a650"));
    assert_eq!(
        (info.compute_units, info.local_memory_bytes, info.max_group),
        (3, 32 << 10, Some(1024))
    );
    assert_eq!(device.queue_counts(), (1, 1));
    drop(device);
    assert_eq!(fake.state().left(), NOTHING);
    for (name, words) in [
        ("qcom:1", "a board has one GPU"),
        ("qcom,aql", "an Adreno device takes `fast`"),
        ("qcom,fast,fast", "twice"),
    ] {
        let error = Device::open_with(name, &options(&fake)).expect_err(name);
        assert!(error.to_string().contains(words), "{error}");
    }
    fake.state().chip = 0x0301_0000;
    let error = Device::open_with("qcom", &options(&fake)).expect_err("an old chip");
    assert!(error.to_string().contains("older than A6xx"), "{error}");
    assert_eq!(fake.state().left(), NOTHING);
}

#[test]
fn every_call_of_opening_that_fails_once_leaves_nothing() {
    let whole = {
        let fake = Fake::new();
        let device = Device::open_with("qcom,fast", &options(&fake)).expect("the fake GPU");
        let calls = fake.state().calls.len();
        drop(device);
        calls
    };
    let mut refused = 0;
    for at in 0..whole {
        let fake = Fake::new();
        fake.state().calls.fail(at, 1, Errno::INVAL);
        if let Err(error) = Device::open_with("qcom,fast", &options(&fake)) {
            refused += 1;
            assert!(!matches!(error, Error::Internal(_)), "call {at}: {error}");
        }
        assert_eq!(fake.state().left(), NOTHING, "call {at}");
    }
    assert!(refused > 15, "{refused} of {whole}");
}

#[test]
fn a_gpu_that_does_nothing_is_told() {
    let fake = Fake::new();
    fake.state().hangs = true;
    let error = Device::open_with("qcom", &options(&fake)).expect_err("it hangs");
    assert!(
        error.to_string().contains("did nothing for 2000 ms"),
        "{error}"
    );
    assert_eq!(fake.state().left(), NOTHING);
}

#[test]
fn queues_signal_wait_write_and_copy() {
    let fake = Fake::new();
    let device = open(&fake);
    let (go, done, time) = (
        device.signal().expect("a signal"),
        device.signal().expect("a signal"),
        device.signal().expect("a signal"),
    );
    let buffer = device.alloc_from(&[1u32, 2, 3, 4]).expect("memory");
    let copy = device.alloc::<u32>(4).expect("memory");
    // Compute waits for the copy queue, which waits for the host.
    let mut compute = device.compute_queue(0).expect("one").record();
    compute.wait(&done, 7u64).expect("recorded");
    compute
        .write32(copy.address() + 4, 99u32)
        .expect("recorded");
    compute.timestamp(&time).expect("recorded");
    let last = compute.submit().expect("submitted");
    let mut copies = device.copy_queue(0).expect("one").record();
    copies.wait(&go, 1u64).expect("recorded");
    copies.copy(&copy, &buffer).expect("recorded");
    let download = copies.download(&buffer).expect("recorded");
    copies.signal(&done, 7u64).expect("recorded");
    copies.submit().expect("submitted");
    assert_eq!(
        (done.value(), last.is_done().expect("no fault")),
        (0, false)
    );
    let before = device.now_ns();
    go.set(1).expect("set");
    last.wait().expect("done");
    assert_eq!(copy.to_vec().expect("read"), [1, 99, 3, 4]);
    assert_eq!(download.wait().expect("there"), [1, 2, 3, 4]);
    // Crystal ticks of 52 ns, on one clock with the host's.
    let (at, now) = (time.timestamp(), device.now_ns());
    assert!(
        before <= at + 100_000 && at <= now + 100_000,
        "{before} {at} {now}"
    );
}

#[test]
fn times_of_both_kinds_of_queues_are_of_one_clock() {
    // As the kernel reads the counter; where it reads another; where it reads none.
    for clock in [Some(0), Some(1 << 40), None] {
        let fake = Fake::new();
        fake.state().clock = clock;
        let device = open(&fake);
        let mut last = device.now_ns();
        for turn in 0..20 {
            let signal = device.signal().expect("a signal");
            let queue = match turn % 2 {
                0 => device.compute_queue(0),
                _ => device.copy_queue(0),
            };
            let mut commands = queue.expect("one").record();
            commands.timestamp(&signal).expect("recorded");
            commands.submit().expect("submitted").wait().expect("done");
            let (at, now) = (signal.timestamp(), device.now_ns());
            let error = device.clock_error_ns();
            assert!(error < 50_000_000, "{error}");
            assert!(
                at + error >= last && at <= now + error,
                "{clock:?} {last} {at} {now}"
            );
            last = last.max(at);
        }
    }
}

#[test]
fn values_beyond_32_bits_are_refused_on_both_kinds_of_queues() {
    let device = open(&Fake::new());
    let signal = device.signal().expect("a signal");
    for queue in [device.compute_queue(0), device.copy_queue(0)] {
        let queue = queue.expect("one");
        let mut commands = queue.record();
        assert!(commands.signal(&signal, 1u64 << 32).is_err());
        assert!(commands.wait(&signal, 1u64 << 32).is_err());
        assert!(commands.is_empty());
        commands
            .signal(&signal, u64::from(u32::MAX))
            .expect("recorded");
        let mut bound = device.compute_queue(0).expect("one").record();
        let var = bound.var().expect("one");
        bound.signal(&signal, var).expect("recorded");
        let mut bound = bound.bind().expect("bound");
        assert!(bound.set(var, 1 << 32).is_err() || bound.submit().is_err());
    }
}

#[test]
fn timelines_and_timestamps_roll_over_together() {
    let fake = Fake::new();
    fake.state().first_timestamp = u32::MAX - 30;
    let options = options(&fake).timeline_span_log2(3);
    let device = Device::open_with("qcom", &options).expect("the fake GPU");
    let signal = device.signal().expect("a signal");
    for turn in 1..=100u64 {
        let queue = match turn % 3 {
            0 => device.copy_queue(0),
            _ => device.compute_queue(0),
        };
        let mut commands = queue.expect("one").record();
        commands.wait(&signal, turn - 1).expect("recorded");
        commands.signal(&signal, turn).expect("recorded");
        let point = commands.submit().expect("submitted");
        if turn % 7 == 0 {
            point.wait().expect("done");
        }
    }
    device.synchronize().expect("idle");
    assert_eq!(signal.value(), 100);
}

#[test]
fn a_full_ring_waits_and_goes_on() {
    let fake = Fake::new();
    let device = open(&fake);
    let (gate, count) = (device.signal().expect("one"), device.signal().expect("one"));
    let mut commands = device.compute_queue(0).expect("one").record();
    commands.wait(&gate, 1u64).expect("recorded");
    commands.submit().expect("submitted");
    let opener = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        gate.set(1).expect("set");
    });
    // Far more than 4096 bytes of command memory, and than the kernel's queue of a context has places.
    for turn in 1..=400u64 {
        let mut commands = device.compute_queue(0).expect("one").record();
        commands.signal(&count, turn).expect("recorded");
        commands.submit().expect("submitted");
    }
    device.synchronize().expect("idle");
    opener.join().expect("no panic");
    assert_eq!(count.value(), 400);
    // What can never fit is launched by reference.
    let mut commands = device.compute_queue(0).expect("one").record();
    for turn in 401..=900u64 {
        commands.signal(&count, turn).expect("recorded");
    }
    commands.submit().expect("submitted").wait().expect("done");
    assert_eq!(count.value(), 900);
    let longest = fake.state().submitted.iter().map(Vec::len).max();
    assert!(longest >= Some(3), "barrier, body and end");
}

#[test]
fn bound_queues_of_both_kinds_are_patched_and_run() {
    let device = open(&Fake::new());
    let signal = device.signal().expect("a signal");
    let (from, to) = (
        device.alloc_from(&[5u32, 6, 7, 8]).expect("memory"),
        device.alloc::<u32>(4).expect("memory"),
    );
    let mut commands = device.compute_queue(0).expect("one").record();
    let value = commands.var().expect("one");
    commands.signal(&signal, value).expect("recorded");
    let mut compute = commands.bind().expect("bound");
    let mut commands = device.copy_queue(0).expect("one").record();
    commands.copy(&to, &from).expect("recorded");
    let mut copy = commands.bind().expect("bound");
    for turn in 1..=20 {
        compute.set(value, turn).expect("set");
        compute.submit().expect("submitted").wait().expect("done");
        assert_eq!(signal.value(), turn);
        to.fill(0).expect("filled");
        copy.submit().expect("submitted").wait().expect("done");
        assert_eq!(to.to_vec().expect("read"), [5, 6, 7, 8]);
    }
}

#[test]
fn a_fault_stops_both_kinds_of_queues_until_recovery() {
    for on_copy in [false, true] {
        let fake = Fake::new();
        let device = open(&fake);
        let stays = device.alloc_from(&[1u32; 8]).expect("memory");
        let gone = device.alloc::<u32>(8).expect("memory").address();
        device.synchronize().expect("idle");
        let point = if on_copy {
            let mut commands = device.copy_queue(0).expect("one").record();
            // SAFETY: a fault of the device, which is what is wanted.
            unsafe { commands.copy_raw(gone, stays.address(), 32u64) }.expect("recorded");
            commands.submit()
        } else {
            let mut commands = device.compute_queue(0).expect("one").record();
            commands.write32(gone, 1u32).expect("recorded");
            commands.submit()
        };
        let error = point.expect("submitted").wait().expect_err("a fault");
        let Error::Fault(fault) = error else {
            panic!("{error}")
        };
        assert_eq!(
            (fault.kind, fault.access, fault.address),
            (FaultKind::Memory, Access::Write, gone)
        );
        assert_eq!(fault.engine, u16::from(on_copy));
        for queue in [device.compute_queue(0), device.copy_queue(0)] {
            let mut commands = queue.expect("one").record();
            commands
                .signal(&device.signal().expect("one"), 1u64)
                .expect("recorded");
            assert!(matches!(commands.submit(), Err(Error::Fault(_))));
        }
        assert!(stays.to_vec().is_err());
        device.recover().expect("a new context");
        assert_eq!(device.fault(), None);
        assert_eq!(fake.state().contexts.len(), 1);
        for queue in [device.compute_queue(0), device.copy_queue(0)] {
            let signal = device.signal().expect("one");
            let mut commands = queue.expect("one").record();
            commands.signal(&signal, 3u64).expect("recorded");
            commands.submit().expect("submitted").wait().expect("done");
            assert_eq!(signal.value(), 3);
        }
        assert_eq!(stays.to_vec().expect("read"), [1; 8]);
        drop(stays);
        drop(device);
        assert_eq!(fake.state().left(), NOTHING);
    }
}

#[test]
fn a_recovery_that_fails_leaves_the_device_in_error() {
    let fake = Fake::new();
    let device = open(&fake);
    let mut commands = device.compute_queue(0).expect("one").record();
    commands.write32(0x1000u64, 1u32).expect("recorded");
    assert!(commands.submit().expect("submitted").wait().is_err());
    // The old context is destroyed, and there is no new one.
    let at = fake.state().calls.len() + 1;
    fake.state().calls.fail(at, 20, Errno::NOMEM);
    assert!(device.recover().is_err());
    assert!(device.fault().is_some());
    fake.state().calls.succeed();
    device.recover().expect("a new context");
    assert_eq!(device.fault(), None);
}

#[test]
fn wrapped_memory_is_flushed_where_the_gpu_does_not_snoop() {
    for snoops in [true, false] {
        let fake = Fake::new();
        fake.state().snoops = snoops;
        let device = open(&fake);
        let mut memory = vec![7u64; 64];
        let start = NonNull::new(memory.as_mut_ptr()).expect("not null");
        // SAFETY: the vector outlives the buffer, and is left alone while work is in flight.
        let wrapped = unsafe { device.wrap(start, 64) }.expect("pages");
        // SAFETY: as above; it is refused.
        let again = unsafe { device.wrap(start, 1) }.expect_err("known already");
        assert!(again.to_string().contains("cache line"), "{again}");
        let copy = device.alloc::<u64>(64).expect("memory");
        let mut commands = device.copy_queue(0).expect("one").record();
        commands.copy(&copy, &wrapped).expect("recorded");
        commands.submit().expect("submitted").wait().expect("done");
        assert_eq!(copy.to_vec().expect("read"), [7; 64]);
        let read = fake.state().syncs.len();
        let mut commands = device.compute_queue(0).expect("one").record();
        commands.write64(wrapped.address(), 5u64).expect("recorded");
        commands.submit().expect("submitted").wait().expect("done");
        assert_eq!(memory[0], 5);
        let mut state = fake.state();
        let written = state.syncs.len() - read;
        if snoops {
            assert!(state.syncs.is_empty());
        } else {
            assert!(
                read >= 1 && written >= 2,
                "before the work, and after it: {read}, {written}"
            );
            let whole = state
                .syncs
                .drain(..)
                .all(|s| s.offset % 64 == 0 && s.length % 64 == 0);
            assert!(whole, "whole lines");
        }
    }
}

#[test]
fn programs_of_ir3_are_loaded_and_launched() {
    let fake = Fake::new();
    let device = open(&fake);
    let module = device.load_program(&bundle()).expect("two programs");
    assert_eq!(module.kernels(), ["add", "reduce"]);
    let add = module.kernel("add").expect("there");
    let text: Vec<String> = add
        .arguments()
        .expect("said")
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(text, ["const f32 *a", "const f32 *b", "f32 *out"]);
    assert!(module.kernel("sub").is_err());
    let buffers = [0; 3].map(|_: i32| device.alloc::<f32>(256).expect("memory"));
    let args = buffers.each_ref().map(Arg::from);
    let mut commands = device.compute_queue(0).expect("one").record();
    // SAFETY: the fake GPU runs no programs.
    unsafe { commands.exec(&add, &args, Grid::new(8, 32)) }.expect("recorded");
    // SAFETY: as above.
    let two = unsafe { commands.exec(&add, &args[..2], Grid::new(8, 32)) }.map(drop);
    assert!(matches!(
        two,
        Err(Error::ArgumentCount {
            expected: 3,
            given: 2,
            ..
        })
    ));
    commands.submit().expect("submitted").wait().expect("done");
    assert_eq!(fake.state().dispatches, ["CP_EXEC_CS NGROUPS=0x8,0x1,0x1"]);
    for (bytes, words) in [
        (&b"\x7fELF and more"[..], "neither a container"),
        (
            b"hcq-ir3 1\nkernel a\ncode 8\n",
            "8 bytes of code, and 0 are left",
        ),
        (b"hcq-ir3 1\nkernel a\ncode 4\nabcd", "kernel a"),
        (
            b"hcq-ir3 1\nkernel a\nchip 660\ncode 8\n12345678",
            "a was compiled for a660, and this device is an a650",
        ),
    ] {
        let error = device
            .load_program(bytes)
            .and_then(|m| m.kernel("a"))
            .expect_err(words);
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn containers_take_a_signature_or_what_launches_give() {
    let fake = Fake::new();
    let device = open(&fake);
    let (file, name) = container();
    let module = device.load_program(&file).expect("a program");
    assert_eq!(module.kernels(), std::slice::from_ref(&name));
    let plain = module.kernel(&name).expect("there");
    assert!(plain.arguments().is_none());
    let count = plain_arguments(&file, &name);
    let buffer = device.alloc::<f32>(64).expect("memory");
    let args = vec![Arg::from(&buffer); count];
    let mut commands = device.compute_queue(0).expect("one").record();
    for _ in 0..3 {
        // SAFETY: the fake GPU runs no programs.
        unsafe { commands.exec(&plain, &args, Grid::new(1, 1)) }.expect("recorded");
    }
    // SAFETY: as above.
    assert!(unsafe { commands.exec(&plain, &args[1..], Grid::new(1, 1)) }.is_err());
    commands.submit().expect("submitted").wait().expect("done");
    assert_eq!(fake.state().dispatches, ["CP_RUN_OPENCL"; 3]);
    let signature: String = (0..count).map(|n| format!("float *a{n}; ")).collect();
    let signed = module.kernel_with(&name, &signature).expect("there");
    assert_eq!(signed.arguments().map(<[_]>::len), Some(count));
    assert!(module.kernel_with(&name, "float *a").is_err());
    let none = module.kernel_with(&name, "").map(drop);
    assert!(matches!(none, Err(Error::Program { .. })) || count == 0);
}

/// A recorded container without images, and its kernel's name.
fn container() -> (Vec<u8>, String) {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/vectors/qcom-misc.json"
    );
    let text = std::fs::read_to_string(path).expect("recorded");
    // Fields of the first case that has a container: plain text, so that no parser of JSON is needed here.
    let mut rest = &*text;
    while let Some(at) = rest.find("\"container\"") {
        rest = &rest[at..];
        let hex: String = rest
            .split_once(':')
            .and_then(|(_, r)| r.trim_start().strip_prefix('"'))
            .and_then(|r| r.split('"').next())
            .unwrap_or_default()
            .into();
        let bytes: Vec<u8> = (0..hex.len() / 2)
            .filter_map(|i| u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok())
            .collect();
        if let Some(name) = hcq_qcom::container::Container::name(&bytes)
            && plain_arguments(&bytes, name) > 0
        {
            let name = name.to_owned();
            return (bytes, name);
        }
        rest = &rest[1..];
    }
    panic!("no container is recorded");
}

/// Arguments of a container that has no images.
fn plain_arguments(bytes: &[u8], name: &str) -> usize {
    use hcq_qcom::container::{ArgumentKind, Container};
    let container = Container::parse(bytes, name).expect("recorded");
    let plain = container.arguments().all(|a| a.kind == ArgumentKind::Plain);
    if plain {
        container.arguments().count()
    } else {
        0
    }
}

#[test]
fn memory_of_other_devices_is_shared() {
    let fake = Fake::new();
    let device = open(&fake);
    let cpu = Device::open("cpu").expect("always there");
    let theirs = cpu.alloc_from(&[3u32; 16]).expect("memory");
    let seen = theirs.share(&device).expect("pages");
    let copy = device.alloc::<u32>(16).expect("memory");
    let mut commands = device.copy_queue(0).expect("one").record();
    commands.copy(&copy, &seen).expect("recorded");
    commands.submit().expect("submitted").wait().expect("done");
    assert_eq!(copy.to_vec().expect("read"), [3; 16]);
    let ours = copy.share(&cpu).expect("the host's memory");
    assert_eq!(ours.to_vec().expect("read"), [3; 16]);
    drop((seen, ours));
    device.synchronize().expect("idle");
    let users = fake.state().objects.values().filter(|o| o.is_user).count();
    assert_eq!(users, 0, "forgotten");
}

#[test]
fn a_device_keeps_the_clock_up_where_it_is_asked_to() {
    let fake = Fake::new();
    let device = Device::open_with("qcom,fast", &options(&fake)).expect("the fake GPU");
    let kept = (
        uapi::KGSL_CONSTRAINT_PWRLEVEL,
        uapi::KGSL_CONSTRAINT_PWR_MAX,
    );
    assert_eq!(fake.state().constraints, [kept]);
    drop(device);
}
