//! A driver that keeps count: the kernel's rules as far as leaks, refusals and fences need them, answers and failures as told.
//! Its GPU does what it is told is done; a simulated one is behind a simulated node.
#![allow(unsafe_code, reason = "takes raw ioctl arguments")]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hcq_uapi::drm::{DRM_COMMAND_BASE, drm_gem_close, drm_version};
use hcq_uapi::ioctl::{self, Argument};
use hcq_uapi::msm::{self, BoFlags, SubmitFlags};

use crate::calls::{Calls, Counted};
use crate::heap::lock;
use crate::seam::{Errno, Handle, Linux, MapRequest, Open, Owner, Protection, Shared, System};

#[derive(Debug)]
pub(super) struct Object {
    pub(super) flags: BoFlags,
    pub(super) size: u64,
    pub(super) iova: Option<u64>,
    offset: u64,
    /// Where the process sees it.
    pub(super) cpu: usize,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) prio: u32,
    pub(super) faults: u32,
    /// The last fence's number that was given out.
    last: u32,
}

#[derive(Debug)]
pub(super) struct Submission {
    queue: u32,
    fence: u32,
    pub(super) handles: Vec<u32>,
    /// Which object, the offset, and the bytes.
    pub(super) commands: Vec<(u32, u32, u32)>,
    is_done: bool,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) driver: &'static str,
    pub(super) version: (i32, i32),
    /// Answers of parameters; others are refused.
    pub(super) params: BTreeMap<u32, u64>,
    /// Whether the GPU looks into the host's caches.
    pub(super) snoops: bool,
    /// Why addresses of the process's choice are refused.
    pub(super) no_choice: Option<Errno>,
    /// Nothing that is submitted is done.
    pub(super) holds: bool,
    /// The number after which fences begin anew.
    pub(super) last_fence: u32,
    pub(super) first_fence: u32,
    /// Answers of `open` other than success.
    pub(super) opens: BTreeMap<String, Errno>,
    pub(super) folders: BTreeMap<&'static str, Vec<&'static str>>,
    pub(super) owner: Option<Owner>,
    pub(super) objects: BTreeMap<u32, Object>,
    pub(super) queues: BTreeMap<u32, Queue>,
    pub(super) submitted: Vec<Submission>,
    pub(super) calls: Calls,
    open_files: BTreeMap<i32, String>,
    mappings: BTreeMap<usize, usize>,
    next: u32,
}

#[derive(Debug)]
pub(super) struct Fake {
    state: Mutex<State>,
    shared: Arc<Shared>,
}

const NODE: &str = "/dev/dri/renderD128";
const OFFSETS: u64 = 1 << 32;

/// The argument of a request.
///
/// # Safety
/// The request is that of the type, and the pointer is its argument.
unsafe fn arg<'a, A: Argument>(p: *mut c_void) -> &'a mut A {
    // SAFETY: the caller's promise, which is that of `System::ioctl`.
    unsafe { &mut *p.cast() }
}

/// A list in the caller's memory.
///
/// # Safety
/// `System::ioctl` promises that the list is that long.
unsafe fn list<'a, T>(address: u64, count: u32) -> &'a mut [T] {
    let start = std::ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts_mut(start, count as usize) }
}

impl Fake {
    pub(super) fn new() -> Arc<Self> {
        let state = State {
            driver: "msm",
            version: (1, 9),
            params: BTreeMap::from([
                (msm::MSM_PARAM_CHIP_ID, 0x8_0605_0002),
                (msm::MSM_PARAM_GMEM_SIZE, 1 << 20),
                (msm::MSM_PARAM_PRIORITIES, 3),
                (msm::MSM_PARAM_TIMESTAMP, 1000),
                (msm::MSM_PARAM_FAULTS, 0),
                (msm::MSM_PARAM_VA_START, 1 << 32),
                (msm::MSM_PARAM_VA_SIZE, 16 << 30),
            ]),
            snoops: true,
            no_choice: None,
            holds: false,
            last_fence: i32::MAX as u32 - 1,
            first_fence: 1,
            opens: BTreeMap::new(),
            folders: BTreeMap::from([
                ("/sys/bus/platform/drivers/adreno", vec![]),
                ("/dev/dri", vec!["card0", "renderD128", "by-path"]),
            ]),
            owner: None,
            objects: BTreeMap::new(),
            queues: BTreeMap::new(),
            submitted: Vec::new(),
            calls: Calls::default(),
            open_files: BTreeMap::new(),
            mappings: BTreeMap::new(),
            next: 0,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            shared: Arc::default(),
        })
    }

    pub(super) fn system(self: &Arc<Self>) -> Arc<dyn System> {
        Arc::clone(self) as Arc<dyn System>
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn new_number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// What is left of devices.
    pub(super) fn left(&self) -> String {
        let files: Vec<&String> = self.open_files.values().collect();
        format!(
            "objects {:?}, queues {:?}, mappings {}, files {files:?}",
            self.objects.keys(),
            self.queues.keys(),
            self.mappings.len()
        )
    }

    /// How often a request was made.
    pub(super) fn count_of(&self, request: u32) -> usize {
        let number = (request + DRM_COMMAND_BASE) as u8;
        let same = self.calls.iter().filter(|c| **c == Counted::Ioctl(number));
        same.count()
    }

    /// The first that is not done is, as the one that hung if `hung`.
    pub(super) fn finish(&mut self, hung: bool) {
        let first = self.submitted.iter_mut().find(|s| !s.is_done);
        let first = first.expect("something is in flight");
        first.is_done = true;
        if hung {
            self.queues.get_mut(&first.queue).expect("there").faults += 1;
            *self.params.entry(msm::MSM_PARAM_FAULTS).or_default() += 1;
        }
    }

    pub(super) fn left_in_flight(&self) -> bool {
        self.submitted.iter().any(|s| !s.is_done)
    }

    fn is_busy(&self, handle: u32) -> bool {
        let mut flying = self.submitted.iter().filter(|s| !s.is_done);
        flying.any(|s| s.handles.contains(&handle))
    }

    fn queue(&mut self, id: u32) -> Result<&mut Queue, Errno> {
        self.queues.get_mut(&id).ok_or(Errno::NOENT)
    }

    fn object(&mut self, handle: u32) -> Result<&mut Object, Errno> {
        self.objects.get_mut(&handle).ok_or(Errno::NOENT)
    }

    /// Whether no object has any of these addresses.
    fn is_free(&self, start: u64, bytes: u64) -> bool {
        let taken = self.objects.values();
        let mut taken = taken.filter_map(|o| o.iova.map(|at| at..at + o.size));
        taken.all(|r| start + bytes <= r.start || start >= r.end)
    }

    fn submit(&mut self, a: &mut msm::drm_msm_gem_submit) -> Result<(), Errno> {
        assert_eq!(a.flags, SubmitFlags::NO_IMPLICIT.gpu());
        // SAFETY: `System::ioctl` promises as many.
        let bos = unsafe { list::<msm::drm_msm_gem_submit_bo>(a.bos, a.nr_bos) };
        // SAFETY: as above.
        let cmds = unsafe { list::<msm::drm_msm_gem_submit_cmd>(a.cmds, a.nr_cmds) };
        for bo in &*bos {
            let object = self.objects.get(&bo.handle).ok_or(Errno::INVAL)?;
            assert_eq!(object.iova, Some(bo.presumed));
        }
        for cmd in &*cmds {
            let object = &self.objects[&bos[cmd.submit_idx as usize].handle];
            assert!(cmd.size > 0 && u64::from(cmd.submit_offset + cmd.size) <= object.size);
        }
        let (end, first) = (self.last_fence, self.first_fence);
        let queue = self.queue(a.queueid)?;
        queue.last = match queue.last {
            0 => first,
            last if last >= end => 1,
            last => last + 1,
        };
        a.fence = queue.last;
        let is_done = !self.holds;
        self.submitted.push(Submission {
            queue: a.queueid,
            fence: a.fence,
            handles: bos.iter().map(|bo| bo.handle).collect(),
            commands: cmds
                .iter()
                .map(|c| (c.submit_idx, c.submit_offset, c.size))
                .collect(),
            is_done,
        });
        Ok(())
    }

    fn wait(&mut self, a: &msm::drm_msm_wait_fence) -> Result<(), Errno> {
        let last = self.queue(a.queueid)?.last;
        if a.fence.wrapping_sub(last).cast_signed() > 0 {
            return Err(Errno::INVAL);
        }
        let mut same = self.submitted.iter();
        let pending = same.any(|s| s.queue == a.queueid && s.fence == a.fence && !s.is_done);
        if pending {
            return Err(Errno(libc::ETIMEDOUT));
        }
        Ok(())
    }

    fn ioctl(&mut self, request: u32, p: *mut c_void) -> Result<(), Errno> {
        macro_rules! args {
            ($name:ty) => {
                // SAFETY: `System::ioctl`: the argument of this request.
                unsafe { arg::<$name>(p) }
            };
        }
        if request == drm_version::REQUEST {
            let a = args!(drm_version);
            assert_eq!((a.date_len, a.desc_len), (0, 0));
            // SAFETY: `System::ioctl` promises as many.
            let name = unsafe { list::<u8>(a.name, a.name_len as u32) };
            let told = name.len().min(self.driver.len());
            name[..told].copy_from_slice(&self.driver.as_bytes()[..told]);
            a.name_len = self.driver.len() as u64;
            (a.version_major, a.version_minor) = self.version;
            return Ok(());
        }
        if request == drm_gem_close::REQUEST {
            let a = args!(drm_gem_close);
            assert!(!self.is_busy(a.handle), "the call would wait for the GPU");
            let gone = self.objects.remove(&a.handle).ok_or(Errno::INVAL)?;
            assert_eq!(gone.cpu, 0, "a mapping holds it");
            return Ok(());
        }
        match u32::from(ioctl::number(request)) - DRM_COMMAND_BASE {
            msm::DRM_MSM_GET_PARAM => {
                let a = args!(msm::drm_msm_param);
                assert_eq!((a.pipe, a.len, a.pad), (msm::MSM_PIPE_3D0, 0, 0));
                a.value = *self.params.get(&a.param).ok_or(Errno::INVAL)?;
            }
            msm::DRM_MSM_GEM_NEW => {
                let a = args!(msm::drm_msm_gem_new);
                assert!(a.size.is_multiple_of(4096) && a.size > 0 && a.size < 1 << 32);
                if a.flags.contains(BoFlags::CACHED_COHERENT) && !self.snoops {
                    return Err(Errno::INVAL);
                }
                if a.size > 1 << 29 {
                    return Err(Errno::NOMEM);
                }
                a.handle = self.new_number();
                let object = Object {
                    flags: a.flags,
                    size: a.size,
                    iova: None,
                    offset: OFFSETS + (u64::from(a.handle) << 20),
                    cpu: 0,
                };
                self.objects.insert(a.handle, object);
            }
            msm::DRM_MSM_GEM_INFO => {
                let a = args!(msm::drm_msm_gem_info);
                let size = self.object(a.handle)?.size;
                match a.info {
                    msm::MSM_INFO_GET_OFFSET => a.value = self.object(a.handle)?.offset,
                    msm::MSM_INFO_SET_IOVA => {
                        self.no_choice.map_or(Ok(()), Err)?;
                        if !self.is_free(a.value, size) {
                            return Err(Errno::NOSPC);
                        }
                        self.object(a.handle)?.iova = Some(a.value);
                    }
                    msm::MSM_INFO_GET_IOVA => {
                        let mut at = 0x5_0000_0000;
                        while !self.is_free(at, size) {
                            at += 4096;
                        }
                        a.value = *self.object(a.handle)?.iova.get_or_insert(at);
                    }
                    other => panic!("{other}"),
                }
            }
            msm::DRM_MSM_GEM_CPU_PREP => {
                let a = args!(msm::drm_msm_gem_cpu_prep);
                assert_eq!(a.op, msm::MSM_PREP_WRITE | msm::MSM_PREP_NOSYNC);
                self.object(a.handle)?;
                if self.is_busy(a.handle) {
                    return Err(Errno::BUSY);
                }
            }
            msm::DRM_MSM_GEM_SUBMIT => self.submit(args!(msm::drm_msm_gem_submit))?,
            msm::DRM_MSM_WAIT_FENCE => self.wait(args!(msm::drm_msm_wait_fence))?,
            msm::DRM_MSM_SUBMITQUEUE_NEW => {
                let a = args!(msm::drm_msm_submitqueue);
                a.id = self.new_number();
                let queue = Queue {
                    prio: a.prio,
                    ..Queue::default()
                };
                self.queues.insert(a.id, queue);
            }
            msm::DRM_MSM_SUBMITQUEUE_CLOSE => {
                let a = args!(msm::drm_msm_submitqueue_close);
                self.queues.remove(&a.id).ok_or(Errno::NOENT)?;
            }
            msm::DRM_MSM_SUBMITQUEUE_QUERY => {
                let a = args!(msm::drm_msm_submitqueue_query);
                assert_eq!((a.param, a.len, a.pad), (0, 4, 0));
                let faults = self.queue(a.id)?.faults;
                // SAFETY: `System::ioctl` promises room for one.
                let told = unsafe { list::<u32>(a.data, 1) };
                told[0] = faults;
            }
            other => panic!("request {other:#x} is not known here"),
        }
        Ok(())
    }
}

impl System for Fake {
    fn open(&self, path: &Path, _: Open) -> Result<Handle, Errno> {
        let mut state = self.state();
        let path = path.to_string_lossy().into_owned();
        if let Some(errno) = state.opens.get(&path) {
            return Err(*errno);
        }
        if path != NODE {
            return Err(Errno::NOENT);
        }
        state.calls.count(Counted::Open)?;
        let number = 100 + state.new_number() as i32;
        state.open_files.insert(number, path);
        Ok(Handle::from_raw(number))
    }

    fn close(&self, file: Handle) {
        let mut state = self.state();
        state.open_files.remove(&file.raw()).expect("closed once");
        // What may yet be in flight goes with the file, and nothing else is left to that.
        let kept = |state: &State| state.objects.keys().all(|&handle| state.is_busy(handle));
        assert!(state.queues.is_empty() && kept(&state) || state.calls.may_fail());
        state.objects.clear();
    }

    unsafe fn ioctl(&self, file: &Handle, request: u64, p: *mut c_void) -> Result<i32, Errno> {
        let mut state = self.state();
        assert!(state.open_files.contains_key(&file.raw()));
        let request = u32::try_from(request).expect("32 bits");
        state.calls.count(Counted::Ioctl(ioctl::number(request)))?;
        state.ioctl(request, p)?;
        Ok(0)
    }

    unsafe fn mmap(&self, request: &MapRequest<'_>) -> Result<NonNull<u8>, Errno> {
        let mut state = self.state();
        state.calls.count(Counted::Mmap)?;
        let (file, offset) = request.file.expect("an object's");
        assert!(state.open_files.contains_key(&file.raw()));
        let mut objects = state.objects.values_mut();
        let object = objects.find(|o| o.offset == offset).ok_or(Errno::INVAL)?;
        assert_eq!(request.len as u64, object.size);
        let memory = MapRequest {
            len: request.len,
            protection: Protection::ReadWrite,
            file: None,
            fixed: request.fixed,
        };
        // SAFETY: this function's contract.
        let start = unsafe { Linux.mmap(&memory) }?;
        object.cpu = start.as_ptr().expose_provenance();
        let cpu = object.cpu;
        state.mappings.insert(cpu, request.len);
        Ok(start)
    }

    fn reserve(&self, near: usize, len: usize) -> Result<NonNull<u8>, Errno> {
        let mut state = self.state();
        state.calls.count(Counted::Mmap)?;
        let start = Linux.reserve(near, len)?;
        state
            .mappings
            .insert(start.as_ptr().expose_provenance(), len);
        Ok(start)
    }

    unsafe fn munmap(&self, address: NonNull<u8>, len: usize) -> Result<(), Errno> {
        let mut state = self.state();
        let cpu = address.as_ptr().addr();
        assert_eq!(state.mappings.remove(&cpu), Some(len));
        if let Some(object) = state.objects.values_mut().find(|o| o.cpu == cpu) {
            object.cpu = 0;
        }
        // SAFETY: this function's contract.
        unsafe { Linux.munmap(address, len) }
    }

    fn poll(&self, _: &Handle, _: Duration) -> Result<bool, Errno> {
        Err(Errno::NOSYS)
    }

    fn read(&self, _: &Path, _: usize) -> Result<Vec<u8>, Errno> {
        Err(Errno::NOENT)
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, Errno> {
        let state = self.state();
        let mut folders = state.folders.iter();
        let found = folders.find(|(folder, _)| Path::new(folder) == path);
        let (_, names) = found.ok_or(Errno::NOENT)?;
        Ok(names.iter().map(|&name| name.to_owned()).collect())
    }

    fn owner(&self, _: &Path) -> Result<Owner, Errno> {
        self.state().owner.ok_or(Errno::NOSYS)
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
