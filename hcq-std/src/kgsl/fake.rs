//! A driver that keeps count: the kernel's rules as far as leaks, refusals and timestamps need them, answers and failures as
//! told. Its GPU runs the packets that queues are made of, and no programs.
#![allow(unsafe_code, reason = "takes raw ioctl arguments, is a GPU")]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hcq_nostd::queue::WriteWidth;
use hcq_nostd::value::Value;
use hcq_qcom::chips::Generation;
use hcq_qcom::pm4::Packet;
use hcq_qcom::pm4::wait_reg_mem::{Function, Poll};
use hcq_uapi::ioctl::{self, Argument};
use hcq_uapi::kgsl::{self, CacheOps, ContextFlags, MemFlags, timestamp_passed};

use crate::calls::{Calls, Counted};
use crate::heap::lock;
use crate::seam::{Errno, Handle, Linux, MapRequest, Open, Owner, Protection, Shared, System};

#[derive(Debug, Default)]
pub(crate) struct Object {
    pub(crate) flags: MemFlags,
    pub(crate) size: u64,
    pub(crate) gpu: u64,
    /// Where its bytes are: the process's pages, or the mapping.
    pub(crate) cpu: usize,
    pub(crate) is_user: bool,
    is_mapped: bool,
    is_freed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Ctx {
    pub(crate) flags: ContextFlags,
    pub(crate) queued: u32,
    pub(crate) retired: u32,
    pub(crate) is_invalid: bool,
    pub(crate) reset: u32,
    pub(crate) faults: Vec<kgsl::kgsl_pagefault_report>,
    /// What is not done: timestamps and their words, those that are left.
    pending: Vec<(u32, Vec<u32>)>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) chip: u32,
    pub(crate) model: Option<&'static str>,
    /// Whether the GPU looks into the host's caches.
    pub(crate) snoops: bool,
    /// What contexts start to count after.
    pub(crate) first_timestamp: u32,
    /// Nothing that is submitted is done.
    pub(crate) hangs: bool,
    /// Whether the host's addresses are none that the GPU could have.
    pub(crate) far: bool,
    /// The GPU's clock as the driver reads it is ahead of the timestamps' by so much; `None` if it cannot be read.
    pub(crate) clock: Option<u64>,
    /// Answers of `open` other than success.
    pub(crate) opens: BTreeMap<String, Errno>,
    pub(crate) folders: Vec<&'static str>,
    /// What the device tree says that the board is.
    pub(crate) board: Option<&'static str>,
    pub(crate) owner: Option<Owner>,
    pub(crate) objects: BTreeMap<u32, Object>,
    pub(crate) contexts: BTreeMap<u32, Ctx>,
    pub(crate) syncs: Vec<kgsl::kgsl_gpuobj_sync_obj>,
    pub(crate) constraints: Vec<(u32, u32)>,
    pub(crate) calls: Calls,
    /// Lists of command objects as they came.
    pub(crate) submitted: Vec<Vec<kgsl::kgsl_command_object>>,
    /// Dispatches among them, as text.
    pub(crate) dispatches: Vec<String>,
    open_files: BTreeMap<i32, String>,
    mappings: BTreeMap<usize, (usize, Option<u32>)>,
    next: u32,
    next_gpu: u64,
}

#[derive(Debug)]
pub(crate) struct Fake {
    state: Mutex<State>,
    shared: Arc<Shared>,
}

const PAGE: u64 = 4096;

/// The argument of a request.
///
/// # Safety
/// The request is that of the type, and the pointer is its argument.
unsafe fn arg<'a, A: Argument>(p: *mut c_void) -> &'a mut A {
    // SAFETY: the caller's promise, which is that of `System::ioctl`.
    unsafe { &mut *p.cast() }
}

fn at<T>(address: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// A list in the caller's memory.
///
/// # Safety
/// `System::ioctl` promises that the list is that long.
unsafe fn list<'a, T>(address: u64, count: u32) -> &'a mut [T] {
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts_mut(at(address), count as usize) }
}

impl Fake {
    pub(crate) fn new() -> Arc<Self> {
        let fake = Arc::new(Self {
            state: Mutex::default(),
            shared: Arc::default(),
        });
        let mut state = fake.state();
        state.chip = 0x0605_0002;
        state.model = Some("Adreno650v3");
        state.snoops = true;
        state.clock = Some(0);
        state.next_gpu = 0x5_0000_0000;
        drop(state);
        fake
    }

    pub(crate) fn system(self: &Arc<Self>) -> Arc<dyn System> {
        Arc::clone(self) as Arc<dyn System>
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// The GPU's clock, in ticks of 19.2 MHz.
fn ticks() -> u64 {
    (u128::from(Linux.now_ns()) * 192 / 10_000) as u64
}

fn imm(value: Value) -> u64 {
    value.imm().expect("words have no variables")
}

impl State {
    fn new_number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// What is left of devices.
    pub(crate) fn left(&self) -> String {
        let files: Vec<&String> = self.open_files.values().collect();
        format!(
            "objects {:?}, contexts {:?}, mappings {}, files {files:?}",
            self.objects.keys(),
            self.contexts.keys(),
            self.mappings.len()
        )
    }

    /// The host's address of GPU memory.
    fn memory(&self, address: u64, bytes: u64) -> Option<usize> {
        let mut objects = self.objects.values();
        let object = objects.find(|o| address >= o.gpu && address + bytes <= o.gpu + o.size)?;
        (object.cpu != 0).then(|| object.cpu + (address - object.gpu) as usize)
    }

    fn load(&self, address: u64) -> Option<u32> {
        let from = self.memory(address, 4)?;
        // SAFETY: inside an object that the process has mapped.
        Some(unsafe { at::<u32>(from as u64).read_volatile() })
    }

    fn store(&self, address: u64, value: u32) -> Option<()> {
        let to = self.memory(address, 4)?;
        // SAFETY: as above; the process accesses what it shares with the GPU atomically.
        unsafe { at::<u32>(to as u64).write_volatile(value) };
        Some(())
    }

    /// Runs a packet. `Ok(false)`: it waits. An error is the address at fault.
    fn packet(&self, packet: &Packet<'_>) -> Result<bool, u64> {
        let store = |address: u64, value: u64| self.store(address, value as u32).ok_or(address);
        match packet {
            Packet::WaitRegMem(wait) => {
                let Poll::Memory(address) = wait.poll else {
                    panic!("{wait:?}")
                };
                let address = imm(address);
                let seen = self.load(address).ok_or(address)? & wait.mask;
                let wanted = imm(wait.reference) as u32;
                return Ok(match wait.function {
                    Function::GreaterEqual => seen >= wanted,
                    Function::Equal => seen == wanted,
                    other => panic!("{other:?}"),
                });
            }
            Packet::MemWrite(write) => {
                let (address, value) = (imm(write.address), imm(write.value));
                store(address, value)?;
                if write.width == WriteWidth::W64 {
                    store(address + 4, value >> 32)?;
                }
            }
            Packet::RegToMem(from) => {
                let (address, now) = (imm(from.address), ticks());
                store(address, now)?;
                store(address + 4, now >> 32)?;
            }
            Packet::EventWrite(event) => {
                if let Some(write) = event.write {
                    store(imm(write.address), imm(write.value))?;
                }
            }
            _ => {}
        }
        Ok(true)
    }

    /// Runs what there is, as far as it comes.
    pub(crate) fn run(&mut self) {
        let ids: Vec<u32> = self.contexts.keys().copied().collect();
        for id in ids {
            while let Some((timestamp, words)) = self.next_of(id) {
                match self.words(&words) {
                    Ok(done) if done < words.len() => {
                        let context = self.contexts.get_mut(&id).expect("there");
                        context
                            .pending
                            .insert(0, (timestamp, words[done..].to_vec()));
                        break;
                    }
                    Ok(_) => self.contexts.get_mut(&id).expect("there").retired = timestamp,
                    Err(address) => self.fault(id, address),
                }
            }
        }
    }

    fn next_of(&mut self, id: u32) -> Option<(u32, Vec<u32>)> {
        let hangs = self.hangs;
        let context = self.contexts.get_mut(&id)?;
        if hangs || context.is_invalid || context.pending.is_empty() {
            return None;
        }
        Some(context.pending.remove(0))
    }

    /// How many words were run.
    fn words(&self, words: &[u32]) -> Result<usize, u64> {
        let mut done = 0;
        while done < words.len() {
            let (packet, n) = Packet::decode(&words[done..], Generation::A6xx).expect("packets");
            if !self.packet(&packet)? {
                break;
            }
            done += n;
        }
        Ok(done)
    }

    /// A context's end, as the dispatcher makes it for one without fault tolerance.
    pub(crate) fn fault(&mut self, id: u32, address: u64) {
        let context = self.contexts.get_mut(&id).expect("there");
        context.is_invalid = true;
        context.reset = kgsl::KGSL_CTX_STAT_GUILTY_CONTEXT_RESET_EXT;
        context.faults.push(kgsl::kgsl_pagefault_report {
            fault_addr: address,
            fault_type: kgsl::PageFaultType::WRITE | kgsl::PageFaultType::TRANSLATION,
            ..Default::default()
        });
    }

    fn drop_if_gone(&mut self, id: u32) {
        if self
            .objects
            .get(&id)
            .is_some_and(|o| o.is_freed && !o.is_mapped)
        {
            self.objects.remove(&id);
        }
    }

    fn property(&mut self, a: &kgsl::kgsl_device_getproperty) -> Result<(), Errno> {
        macro_rules! value {
            ($type:ty) => {{
                if a.sizebytes as usize != size_of::<$type>() {
                    return Err(Errno::INVAL);
                }
                // SAFETY: `System::ioctl` promises as many bytes.
                unsafe { &mut *at::<$type>(a.value) }
            }};
        }
        match a.r#type {
            kgsl::KGSL_PROP_DEVICE_INFO => {
                let info = value!(kgsl::kgsl_devinfo);
                info.device_id = 1;
                info.chip_id = self.chip;
                info.gmem_sizebytes = 1 << 20;
            }
            kgsl::KGSL_PROP_GPU_MODEL => {
                let to = value!(kgsl::kgsl_gpu_model);
                let model = self.model.ok_or(Errno::INVAL)?.as_bytes();
                to.gpu_model[..model.len()].copy_from_slice(model);
            }
            kgsl::KGSL_PROP_GPU_RESET_STAT => {
                let id = value!(u32);
                let context = self.contexts.get_mut(id).ok_or(Errno::INVAL)?;
                *id = std::mem::take(&mut context.reset);
            }
            other => panic!("property {other:#x}"),
        }
        Ok(())
    }

    fn alloc(&mut self, a: &mut kgsl::kgsl_gpuobj_alloc) -> Result<(), Errno> {
        if a.size == 0 || a.size > u64::from(u32::MAX) {
            return Err(Errno::INVAL);
        }
        if a.size >= 1 << 30 {
            return Err(Errno::NOMEM);
        }
        let cached = a.flags.caches() == kgsl::CacheMode::WriteBack;
        if !self.snoops || !cached {
            a.flags.remove(MemFlags::IOCOHERENT);
        }
        a.id = self.new_number();
        a.size = a.size.next_multiple_of(PAGE);
        a.mmapsize = a.size;
        self.add(a.id, a.size, a.flags, 0);
        Ok(())
    }

    fn add(&mut self, id: u32, size: u64, flags: MemFlags, cpu: usize) {
        let object = Object {
            flags,
            size,
            gpu: if flags.contains(MemFlags::USE_CPU_MAP) {
                0
            } else {
                self.next_gpu
            },
            cpu,
            is_user: cpu != 0,
            ..Default::default()
        };
        self.next_gpu += size + PAGE;
        self.objects.insert(id, object);
    }

    fn context(&mut self, id: u32) -> Result<&mut Ctx, Errno> {
        self.contexts.get_mut(&id).ok_or(Errno::INVAL)
    }

    fn fault_report(&mut self, a: &kgsl::kgsl_fault_report) -> Result<(), Errno> {
        let context = self.context(a.context_id)?;
        if !context.flags.contains(ContextFlags::FAULT_INFO) || !context.is_invalid {
            return Err(Errno::INVAL);
        }
        // SAFETY: `System::ioctl` promises as many.
        let kinds = unsafe { list::<kgsl::kgsl_fault>(a.faultlist, a.faultnents) };
        if kinds.iter().all(|k| k.fault == 0) {
            if let (Some(first), false) = (kinds.first_mut(), context.faults.is_empty()) {
                first.r#type = kgsl::KGSL_FAULT_TYPE_PAGEFAULT;
                first.count = context.faults.len() as u32;
            }
            return Ok(());
        }
        for kind in kinds.iter().filter(|k| k.fault != 0) {
            // SAFETY: as above.
            let to = unsafe { list::<kgsl::kgsl_pagefault_report>(kind.fault, kind.count) };
            for (to, from) in to.iter_mut().zip(&context.faults) {
                *to = *from;
            }
        }
        Ok(())
    }

    fn command(&mut self, a: &mut kgsl::kgsl_gpu_command) -> Result<(), Errno> {
        assert_eq!(a.cmdsize as usize, size_of::<kgsl::kgsl_command_object>());
        assert_eq!((a.numobjs, a.numsyncs), (0, 0));
        // SAFETY: `System::ioctl` promises as many.
        let pieces = unsafe { list::<kgsl::kgsl_command_object>(a.cmdlist, a.numcmds) }.to_vec();
        let mut words = Vec::new();
        for piece in &pieces {
            assert_eq!(piece.flags, kgsl::CmdFlags::CMDLIST_IB);
            assert!(piece.size > 0 && piece.size % 4 == 0 && piece.gpuaddr % 4 == 0);
            let from = self.memory(piece.gpuaddr, piece.size).ok_or(Errno::INVAL)?;
            // SAFETY: inside an object that the process has mapped.
            words.extend_from_slice(unsafe { list::<u32>(from as u64, (piece.size / 4) as u32) });
        }
        let mut at = 0;
        while at < words.len() {
            let (packet, n) = Packet::decode(&words[at..], Generation::A6xx).expect("packets");
            if matches!(packet, Packet::ExecCs(_) | Packet::RunOpenCl(_)) {
                self.dispatches.push(packet.to_string());
            }
            at += n;
        }
        let context = self.context(a.context_id)?;
        if context.is_invalid {
            return Err(Errno(libc::EDEADLK));
        }
        // The kernel's own queue of a context.
        assert!(context.pending.len() < 50, "the call would not come back");
        context.queued = context.queued.wrapping_add(1);
        a.timestamp = context.queued;
        context.pending.push((a.timestamp, words));
        self.submitted.push(pieces);
        self.run();
        Ok(())
    }

    #[allow(clippy::too_many_lines, reason = "one arm for each request")]
    fn ioctl(&mut self, request: u32, p: *mut c_void) -> Result<(), Errno> {
        macro_rules! args {
            ($type:ident) => {
                // SAFETY: the request was matched with this type's.
                unsafe { arg::<kgsl::$type>(p) }
            };
        }
        match request {
            kgsl::IOCTL_KGSL_DEVICE_GETPROPERTY => self.property(args!(kgsl_device_getproperty))?,
            kgsl::IOCTL_KGSL_SETPROPERTY => {
                let a = args!(kgsl_device_setproperty);
                assert_eq!(a.r#type, kgsl::KGSL_PROP_PWR_CONSTRAINT);
                // SAFETY: `System::ioctl` promises the struct.
                let c = unsafe { *at::<kgsl::kgsl_device_constraint>(a.value) };
                // SAFETY: as above.
                let level = unsafe { *at::<u32>(c.data) };
                self.context(c.context_id)?;
                self.constraints.push((c.r#type, level));
            }
            kgsl::IOCTL_KGSL_GPUOBJ_ALLOC => self.alloc(args!(kgsl_gpuobj_alloc))?,
            kgsl::IOCTL_KGSL_GPUOBJ_IMPORT => {
                let a = args!(kgsl_gpuobj_import);
                // SAFETY: `System::ioctl` promises the struct.
                let start = unsafe { *at::<u64>(a.r#priv) };
                assert_eq!(a.r#type, kgsl::KGSL_USER_MEM_TYPE_ADDR);
                if start % PAGE != 0 || a.priv_len % PAGE != 0 || a.priv_len == 0 {
                    return Err(Errno::INVAL);
                }
                if a.flags.contains(MemFlags::USE_CPU_MAP) {
                    return Err(Errno::NOMEM);
                }
                if !self.snoops {
                    a.flags.remove(MemFlags::IOCOHERENT);
                }
                a.id = self.new_number();
                self.add(a.id, a.priv_len, a.flags, start as usize);
            }
            kgsl::IOCTL_KGSL_GPUOBJ_INFO => {
                let a = args!(kgsl_gpuobj_info);
                let object = self.objects.get(&a.id).ok_or(Errno::INVAL)?;
                (a.gpuaddr, a.size, a.flags) = (object.gpu, object.size, object.flags);
            }
            kgsl::IOCTL_KGSL_GPUOBJ_FREE => {
                let id = args!(kgsl_gpuobj_free).id;
                let object = self.objects.get_mut(&id).ok_or(Errno::INVAL)?;
                assert!(!object.is_freed, "freed twice");
                object.is_freed = true;
                self.drop_if_gone(id);
            }
            kgsl::IOCTL_KGSL_GPUOBJ_SYNC => {
                let a = args!(kgsl_gpuobj_sync);
                // SAFETY: `System::ioctl` promises as many.
                let objs = unsafe { list::<kgsl::kgsl_gpuobj_sync_obj>(a.objs, a.count) };
                for obj in &*objs {
                    let object = self.objects.get(&obj.id).ok_or(Errno::INVAL)?;
                    assert!(obj.op.contains(CacheOps::RANGE));
                    assert!(obj.offset + obj.length <= object.size);
                    self.syncs.push(*obj);
                }
            }
            kgsl::IOCTL_KGSL_DRAWCTXT_CREATE => {
                let a = args!(kgsl_drawctxt_create);
                let legacy = ContextFlags::PREAMBLE | ContextFlags::NO_GMEM_ALLOC;
                if !a.flags.contains(legacy) {
                    return Err(Errno::INVAL);
                }
                a.flags |= ContextFlags::PER_CONTEXT_TS;
                a.drawctxt_id = self.new_number();
                let context = Ctx {
                    flags: a.flags,
                    queued: self.first_timestamp,
                    retired: self.first_timestamp,
                    ..Default::default()
                };
                self.contexts.insert(a.drawctxt_id, context);
            }
            kgsl::IOCTL_KGSL_DRAWCTXT_DESTROY => {
                let id = args!(kgsl_drawctxt_destroy).drawctxt_id;
                self.contexts.remove(&id).ok_or(Errno::INVAL)?;
            }
            kgsl::IOCTL_KGSL_CMDSTREAM_READTIMESTAMP_CTXTID => {
                self.run();
                let a = args!(kgsl_cmdstream_readtimestamp_ctxtid);
                assert_eq!(a.r#type, kgsl::KGSL_TIMESTAMP_RETIRED);
                a.timestamp = self.context(a.context_id)?.retired;
            }
            kgsl::IOCTL_KGSL_DEVICE_WAITTIMESTAMP_CTXTID => {
                self.run();
                let a = *args!(kgsl_device_waittimestamp_ctxtid);
                assert!(a.timeout > 0 && a.timeout < 1 << 31, "a wait without end");
                let context = self.context(a.context_id)?;
                if context.is_invalid {
                    return Err(Errno(libc::EDEADLK));
                }
                if !timestamp_passed(context.queued, a.timestamp) {
                    return Err(Errno::INVAL);
                }
                if !timestamp_passed(context.retired, a.timestamp) {
                    return Err(Errno(libc::ETIMEDOUT));
                }
            }
            kgsl::IOCTL_KGSL_GPU_COMMAND => self.command(args!(kgsl_gpu_command))?,
            kgsl::IOCTL_KGSL_GET_FAULT_REPORT => self.fault_report(args!(kgsl_fault_report))?,
            kgsl::IOCTL_KGSL_READ_CALIBRATED_TIMESTAMPS => {
                let a = args!(kgsl_read_calibrated_timestamps);
                let ahead = self.clock.ok_or(Errno(libc::ENOTTY))?;
                // SAFETY: `System::ioctl` promises as many.
                let sources = unsafe { list::<u32>(a.sources, a.count) };
                // SAFETY: as above.
                let times = unsafe { list::<u64>(a.ts, a.count) };
                for (source, time) in sources.iter().zip(times) {
                    *time = match *source {
                        kgsl::KGSL_CALIBRATED_TIME_DOMAIN_DEVICE => ticks() + ahead,
                        _ => Linux.now_ns(),
                    };
                }
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
        if path != super::device::NODE {
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
        // What a closed file had goes with it: nothing may be left to that.
        assert!(state.contexts.is_empty() && state.objects.is_empty() || state.calls.may_fail());
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
        let memory = MapRequest {
            len: request.len,
            protection: Protection::ReadWrite,
            file: None,
            fixed: None,
        };
        let id = request.file.map(|(file, offset)| {
            assert!(state.open_files.contains_key(&file.raw()));
            (offset / PAGE) as u32
        });
        if let Some(id) = id {
            let object = state.objects.get(&id).ok_or(Errno::INVAL)?;
            assert!(!object.is_user && request.len as u64 == object.size);
            if object.flags.contains(MemFlags::USE_CPU_MAP) && state.far {
                return Err(Errno::NOMEM);
            }
        }
        // SAFETY: no fixed address.
        let start = unsafe { Linux.mmap(&memory) }?;
        let cpu = start.as_ptr().expose_provenance();
        state.mappings.insert(cpu, (request.len, id));
        if let Some(object) = id.and_then(|id| state.objects.get_mut(&id)) {
            (object.cpu, object.is_mapped) = (cpu, true);
            if object.flags.contains(MemFlags::USE_CPU_MAP) {
                object.gpu = cpu as u64;
            }
        }
        Ok(start)
    }

    unsafe fn munmap(&self, address: NonNull<u8>, len: usize) -> Result<(), Errno> {
        let mut state = self.state();
        let (mapped, id) = state
            .mappings
            .remove(&address.as_ptr().addr())
            .expect("mapped");
        assert_eq!(mapped, len);
        if let Some(id) = id {
            if let Some(object) = state.objects.get_mut(&id) {
                (object.is_mapped, object.cpu) = (false, 0);
            }
            state.drop_if_gone(id);
        }
        // SAFETY: this function's contract.
        unsafe { Linux.munmap(address, len) }
    }

    fn poll(&self, _: &Handle, _: Duration) -> Result<bool, Errno> {
        Err(Errno::NOSYS)
    }

    fn read(&self, path: &Path, _: usize) -> Result<Vec<u8>, Errno> {
        let is_tree = path == Path::new("/proc/device-tree/compatible");
        let board = self.state().board.filter(|_| is_tree);
        board.map(|b| b.as_bytes().to_vec()).ok_or(Errno::NOENT)
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, Errno> {
        let state = self.state();
        let is_there = state.folders.iter().any(|f| Path::new(f) == path);
        if is_there {
            Ok(Vec::new())
        } else {
            Err(Errno::NOENT)
        }
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
