//! Opening by name, and what is said of devices that are not there.

mod common;

use std::collections::HashMap;
use std::ffi::c_void;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use common::options;
use hcq_std::seam::{Errno, Handle, Linux, MapRequest, Open, System};
use hcq_std::{Device, Error, devices, devices_on};

/// A system on which files answer as they are told, and memory is scarce if wanted.
#[derive(Debug, Default)]
struct Told {
    files: HashMap<&'static str, Option<Errno>>,
    no_memory: bool,
}

impl System for Told {
    fn open(&self, path: &Path, _: Open) -> Result<Handle, Errno> {
        match path.to_str().and_then(|p| self.files.get(p)) {
            Some(None) => Ok(Handle::from_raw(77)),
            Some(Some(errno)) => Err(*errno),
            None => Err(Errno::NOENT),
        }
    }
    fn close(&self, file: Handle) {
        assert_eq!(file.raw(), 77);
    }
    unsafe fn ioctl(&self, _: &Handle, _: u64, _: *mut c_void) -> Result<i32, Errno> {
        Err(Errno::NOSYS)
    }
    unsafe fn mmap(&self, request: &MapRequest<'_>) -> Result<NonNull<u8>, Errno> {
        if self.no_memory {
            return Err(Errno::NOMEM);
        }
        // SAFETY: this function's contract.
        unsafe { Linux.mmap(request) }
    }
    unsafe fn munmap(&self, address: NonNull<u8>, len: usize) -> Result<(), Errno> {
        // SAFETY: this function's contract.
        unsafe { Linux.munmap(address, len) }
    }
    fn poll(&self, _: &Handle, _: Duration) -> Result<bool, Errno> {
        Err(Errno::NOSYS)
    }
    fn read(&self, _: &Path, _: usize) -> Result<Vec<u8>, Errno> {
        Err(Errno::NOENT)
    }
    fn futex_wait(&self, word: &AtomicU32, expected: u32, timeout: Duration) {
        Linux.futex_wait(word, expected, timeout);
    }
    fn futex_wake(&self, word: &AtomicU32, count: u32) {
        Linux.futex_wake(word, count);
    }
    fn now_ns(&self) -> u64 {
        Linux.now_ns()
    }
}

#[test]
fn names_that_are_none() {
    for name in ["", "gpu", "CPU", "cpu ", "sim:cpu", "sim:gfx1100"] {
        let e = Device::open(name).expect_err("no such name");
        assert!(matches!(e, Error::UnknownDevice { .. }), "{e}");
        assert!(e.to_string().contains("cpu, amd, nv, qcom"), "{e}");
    }
}

#[test]
fn each_path_each_answer_and_what_to_do() {
    let files = HashMap::from([
        ("/dev/kfd", Some(Errno::ACCES)),
        ("/dev/nvidiactl", None),
        ("/dev/nvidia-uvm", None),
        ("/dev/kgsl-3d0", Some(Errno(12345))),
    ]);
    let system = Told {
        files,
        no_memory: false,
    };
    let found = devices_on(&system);
    let names: Vec<_> = found.iter().map(|d| (d.name.as_str(), d.ready)).collect();
    assert_eq!(
        names,
        [
            ("cpu", true),
            ("amd", false),
            ("nv", false),
            ("qcom", false)
        ]
    );
    let amd = &found[1];
    assert_eq!(
        amd.attempts[0].to_string(),
        "open /dev/kfd: Permission denied (EACCES, error 13); join the group that owns it (usermod -aG render $USER), \
         then log in again"
    );
    assert!(amd.description.contains("Permission denied"));
    let nv = &found[2];
    let told: Vec<String> = nv.attempts.iter().map(ToString::to_string).collect();
    assert_eq!(
        (told[0].as_str(), told.len()),
        ("open /dev/nvidiactl: ok", 4)
    );
    assert!(told[1].contains("HCQDEV_NV_ABI"), "{told:?}");
    assert!(told[2].starts_with("CARD_INFO /dev/nvidiactl"), "{told:?}");
    assert_eq!(told[3], "open /dev/nvidia-uvm: ok");
    assert!(
        nv.description.contains("the driver's version is not known"),
        "{}",
        nv.description
    );
    assert!(found[3].attempts[0].to_string().contains("error 12345"));

    let options = options().system(Arc::new(system));
    for (name, part) in [
        ("amd", "usermod -aG render $USER"),
        ("nv:1", "the driver's version is not known"),
        ("nv:1", "HCQDEV_NV_ABI"),
        ("qcom", "12345"),
    ] {
        let e = Device::open_with(name, &options).expect_err("not supported");
        assert!(
            matches!(e, Error::Unavailable { .. }) && e.to_string().contains(part),
            "{e}"
        );
    }
}

#[test]
fn the_cpu_is_always_there() {
    let found = devices();
    let cpu = found.first().expect("at least the CPU");
    assert!(cpu.ready && cpu.name == "cpu" && cpu.description.contains("processors"));
    assert_eq!(Device::open("cpu").expect("ready").name(), "cpu");
}

#[test]
fn no_memory_is_an_error_of_opening_and_of_allocating() {
    let options = options().system(Arc::new(Told {
        no_memory: true,
        ..Told::default()
    }));
    let e = Device::open_with("cpu", &options).expect_err("rings need memory");
    assert!(
        matches!(
            e,
            Error::OutOfMemory {
                errno: Errno::NOMEM,
                ..
            }
        ),
        "{e}"
    );
}

#[test]
fn many_devices_open_and_close() {
    for n in 1..=20 {
        let device = Device::open_with(
            "cpu",
            &options().compute_queues(n % 4 + 1).copy_queues(n % 3),
        )
        .expect("opens");
        let queue = device.compute_queue(n % 4).expect("there");
        queue
            .record()
            .memory_barrier()
            .and_then(|c| c.submit())
            .expect("goes");
        device.close().expect("ends");
    }
}
