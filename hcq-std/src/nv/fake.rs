//! A driver that keeps count: the rules of the resource manager and of UVM as far as leaks and refusals need them, answers
//! and failures as told. Its GPUs run nothing; tests look at what channels were given.
#![allow(unsafe_code, reason = "takes raw ioctl arguments")]

mod driver;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use hcq_uapi::ioctl;
use hcq_uapi::nv;

use self::driver::arg;

use crate::calls::Calls;
use crate::heap::lock;
use crate::seam::{Errno, Handle, Linux, MapRequest, Open, Owner, Protection, Shared, System};

/// A call that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// An escape of RM, by its number, and what it is about: a class or a command.
    Rm(u8, u32),
    Uvm(u32),
    Mmap,
    Open,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    System(Errno),
    Status(u32),
}

#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) parent: u32,
    pub(super) class: u32,
    pub(super) size: u64,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) files: BTreeMap<String, String>,
    /// Answers of `open` other than success.
    pub(super) opens: BTreeMap<String, Errno>,
    pub(super) open_files: BTreeMap<i32, String>,
    pub(super) cards: Vec<nv::nv_ioctl_card_info>,
    pub(super) classes: Vec<u32>,
    pub(super) rules: u32,
    /// KiB of memory, and of the window to it.
    pub(super) memory_kib: u32,
    pub(super) window_kib: u32,
    pub(super) channels_left: usize,
    /// Clients are objects without a parent.
    pub(super) objects: BTreeMap<u32, Object>,
    /// Ranges of UVM: length, and the GPUs that see them.
    pub(super) ranges: BTreeMap<u64, (u64, BTreeSet<u8>)>,
    /// What UVM knows: GPUs, address spaces, channels.
    pub(super) gpus: BTreeSet<u8>,
    pub(super) spaces: BTreeSet<u8>,
    pub(super) registered: BTreeSet<u32>,
    pub(super) peers: BTreeSet<(u8, u8)>,
    /// Files whose next mapping is of this memory.
    pending: BTreeMap<i32, u32>,
    /// Where memory of the driver is mapped: the first byte, for each object.
    pub(super) mapped: BTreeMap<u32, usize>,
    mappings: BTreeMap<usize, usize>,
    pub(super) channel_params: BTreeMap<u32, nv::NV_CHANNEL_ALLOC_PARAMS>,
    /// What channels tell once of their faults: address, reason.
    pub(super) own_faults: BTreeMap<u32, (u64, u32)>,
    /// What debuggers tell.
    pub(super) mmu: nv::NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_PARAMS,
    pub(super) sm: Option<(usize, nv::NV83DE_SM_ERROR_STATE_REGISTERS)>,
    pub(super) running: BTreeSet<u32>,
    /// Files that take events, by client and the number that it calls them.
    pub(super) os_events: BTreeMap<(u32, u32), i32>,
    /// Event objects: what they call their file, and which event it is.
    pub(super) events: BTreeMap<u32, (u32, u32)>,
    /// Subdevices and what they are to tell.
    pub(super) asked: BTreeSet<(u32, u32)>,
    /// Files that a `poll` finds readable, once.
    readable: BTreeSet<i32>,
    /// Polls that were begun, and how they fail.
    pub(super) polls: usize,
    pub(super) poll_fails: Option<Errno>,
    pub(super) time: u64,
    pub(super) calls: Calls<Counted, Failure>,
    next: u32,
}

#[derive(Debug)]
pub(super) struct Fake {
    state: Mutex<State>,
    shared: Arc<Shared>,
}

/// GA102, as its list says, shortened.
const GA102: &[u32] = &[
    0x40, 0x70, 0x9067, 0x90f1, 0xa06c, 0xc361, 0xc461, 0xc561, 0xc36f, 0xc46f, 0xc56f, 0xc7b5,
    0xc7c0, 0xc697,
];

impl Fake {
    /// A machine with this many GPUs, all GA102, and driver 580.
    pub(super) fn new(gpus: u8) -> Arc<Self> {
        let fake = Arc::new(Self {
            state: Mutex::default(),
            shared: Arc::default(),
        });
        let mut state = fake.state();
        state.version("580.95.05");
        state.classes = GA102.to_vec();
        (state.memory_kib, state.window_kib) = (24 << 20, 32 << 20);
        state.channels_left = 64;
        for number in 0..gpus {
            // The driver lists them in an order of its own.
            let bus = 0x80 - number;
            state.cards.push(nv::nv_ioctl_card_info {
                valid: 1,
                pci_info: nv::nv_pci_info_t {
                    bus,
                    vendor_id: 0x10de,
                    device_id: 0x2204,
                    ..Default::default()
                },
                gpu_id: 0x8000 + u32::from(number),
                minor_number: number.into(),
                ..Default::default()
            });
            let path = format!("/proc/driver/nvidia/gpus/0000:{bus:02x}:00.0/information");
            let text = "Model: \t\t NVIDIA GeForce RTX 3090\nIRQ:   \t\t 170\n";
            state.files.insert(path, text.into());
            state
                .files
                .insert(format!("/dev/nvidia{number}"), String::new());
        }
        for node in ["/dev/nvidiactl", "/dev/nvidia-uvm"] {
            state.files.insert(node.into(), String::new());
        }
        drop(state);
        fake
    }

    pub(super) fn system(self: &Arc<Self>) -> Arc<dyn System> {
        Arc::clone(self) as Arc<dyn System>
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    pub(super) fn version(&mut self, version: &str) {
        let text = format!(
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build  (root@host)\nGCC version: 13\n"
        );
        self.files
            .insert("/proc/driver/nvidia/version".into(), text);
    }

    /// Something happens that event objects of this index are told of.
    pub(super) fn raise(&mut self, index: u32) {
        let told = self.events.values().filter(|(_, of)| *of == index);
        let names: Vec<u32> = told.map(|(name, _)| *name).collect();
        let files = self.os_events.iter();
        let files = files.filter(|((_, name), _)| names.contains(name));
        self.readable.extend(files.map(|(_, file)| *file));
    }

    /// What is left of devices.
    pub(super) fn left(&self) -> String {
        format!(
            "objects {:x?}, ranges {:x?}, gpus {:?}, spaces {:?}, channels {:x?}, mappings {}, events {:x?}, files {:?}",
            self.objects.keys(),
            self.ranges.keys(),
            self.gpus,
            self.spaces,
            self.registered,
            self.mappings.len(),
            self.os_events.keys(),
            self.open_files.values()
        )
    }

    pub(super) const NOTHING: &'static str =
        "objects [], ranges [], gpus {}, spaces {}, channels {}, mappings 0, events [], files []";

    /// The objects of a class.
    pub(super) fn of_class(&self, class: u32) -> Vec<u32> {
        let all = self.objects.iter();
        all.filter(|(_, o)| o.class == class)
            .map(|(h, _)| *h)
            .collect()
    }
}

/// What a call is about.
///
/// # Safety
/// The pointer is the request's argument.
unsafe fn about(request: u32, p: *mut c_void) -> Counted {
    let number = ioctl::number(request);
    let what = match number {
        // SAFETY: this function's contract.
        nv::NV_ESC_RM_ALLOC => unsafe { arg::<nv::NVOS21_PARAMETERS>(p) }.hClass,
        // SAFETY: as above.
        nv::NV_ESC_RM_CONTROL => unsafe { arg::<nv::NVOS54_PARAMETERS>(p) }.cmd,
        _ => 0,
    };
    Counted::Rm(number, what)
}

impl System for Fake {
    fn open(&self, path: &Path, _: Open) -> Result<Handle, Errno> {
        let mut state = self.state();
        let path = path.to_string_lossy().into_owned();
        if let Some(errno) = state.opens.get(&path) {
            return Err(*errno);
        }
        if !state.files.contains_key(&path) {
            return Err(Errno::NOENT);
        }
        match state.calls.count(Counted::Open) {
            Err(Failure::System(errno)) => return Err(errno),
            Err(Failure::Status(_)) => return Err(Errno::NOMEM),
            Ok(()) => {}
        }
        state.next += 1;
        let number = 100 + state.next as i32;
        state.open_files.insert(number, path);
        Ok(Handle::from_raw(number))
    }

    fn close(&self, file: Handle) {
        let mut state = self.state();
        state.open_files.remove(&file.raw()).expect("closed once");
        state.pending.remove(&file.raw());
        state.os_events.retain(|_, of| *of != file.raw());
        state.readable.remove(&file.raw());
    }

    unsafe fn ioctl(&self, file: &Handle, request: u64, p: *mut c_void) -> Result<i32, Errno> {
        let mut state = self.state();
        let path = state.open_files[&file.raw()].clone();
        let request = u32::try_from(request).expect("32 bits");
        let is_uvm = path == "/dev/nvidia-uvm";
        let call = match is_uvm {
            true => Counted::Uvm(request),
            // SAFETY: this function's contract.
            false => unsafe { about(request, p) },
        };
        let injected = match state.calls.count(call) {
            Err(Failure::System(errno)) => return Err(errno),
            Err(Failure::Status(status)) => Some(status),
            Ok(()) => None,
        };
        if is_uvm {
            state.uvm(request, p, injected);
        } else {
            state.rm((file.raw(), &path), request, p, injected);
        }
        Ok(0)
    }

    unsafe fn mmap(&self, request: &MapRequest<'_>) -> Result<NonNull<u8>, Errno> {
        let mut state = self.state();
        if let Some(at) = request.fixed {
            let at = at.as_ptr().addr();
            assert_eq!(state.mappings.get(&at), Some(&request.len), "not reserved");
        }
        let memory = request.file.map(|(file, offset)| {
            assert_eq!(offset, 0);
            state
                .pending
                .remove(&file.raw())
                .expect("a mapping was prepared")
        });
        match state.calls.count(Counted::Mmap) {
            Err(Failure::System(errno)) => return Err(errno),
            Err(Failure::Status(_)) => return Err(Errno::NOMEM),
            Ok(()) => {}
        }
        let plain = MapRequest {
            len: request.len,
            protection: Protection::ReadWrite,
            file: None,
            fixed: request.fixed,
        };
        // SAFETY: this function's contract.
        let start = unsafe { Linux.mmap(&plain) }?;
        let at = start.as_ptr().expose_provenance();
        state.mappings.insert(at, request.len);
        if let Some(memory) = memory {
            state.mapped.insert(memory, at);
        }
        Ok(start)
    }

    fn reserve(&self, near: usize, len: usize) -> Result<NonNull<u8>, Errno> {
        let mut state = self.state();
        if state.calls.count(Counted::Mmap).is_err() {
            return Err(Errno::NOMEM);
        }
        let start = Linux.reserve(near, len)?;
        state.mappings.insert(start.as_ptr().addr(), len);
        Ok(start)
    }

    unsafe fn munmap(&self, address: NonNull<u8>, len: usize) -> Result<(), Errno> {
        let mut state = self.state();
        let at = address.as_ptr().addr();
        assert_eq!(state.mappings.remove(&at), Some(len));
        state.mapped.retain(|_, start| *start != at);
        // SAFETY: this function's contract.
        unsafe { Linux.munmap(address, len) }
    }

    fn poll(&self, file: &Handle, timeout: Duration) -> Result<bool, Errno> {
        let end = Instant::now() + timeout;
        self.state().polls += 1;
        loop {
            let mut state = self.state();
            assert!(state.open_files.contains_key(&file.raw()));
            if let Some(errno) = state.poll_fails {
                return Err(errno);
            }
            if state.readable.remove(&file.raw()) {
                return Ok(true);
            }
            drop(state);
            if Instant::now() >= end {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    fn read(&self, path: &Path, _: usize) -> Result<Vec<u8>, Errno> {
        let state = self.state();
        let file = path.to_str().and_then(|path| state.files.get(path));
        file.map(|text| text.clone().into_bytes())
            .ok_or(Errno::NOENT)
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, Errno> {
        let state = self.state();
        let folder = format!("{}/", path.display());
        let names = state
            .files
            .keys()
            .filter_map(|file| file.strip_prefix(&folder));
        Ok(names.map(str::to_owned).collect())
    }

    fn owner(&self, _: &Path) -> Result<Owner, Errno> {
        Err(Errno::NOSYS)
    }

    fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
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
