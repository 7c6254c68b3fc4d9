//! A driver that keeps count: the kernel's rules as far as leaks and refusals need them, answers and failures as told.
#![allow(unsafe_code, reason = "takes raw ioctl arguments")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hcq_uapi::ioctl::{self, Argument};
use hcq_uapi::kfd::{self, AllocMemFlags};

use crate::calls::{Calls, Counted};
use crate::heap::lock;
use crate::seam::{Errno, Handle, Linux, MapRequest, Open, Owner, Protection, Shared, System};

#[derive(Debug, Default)]
pub(crate) struct Bo {
    pub(crate) va: u64,
    pub(crate) size: u64,
    pub(crate) flags: AllocMemFlags,
    pub(crate) mapped: BTreeSet<u32>,
}

/// What is mapped: start, length, and whether a file is.
#[derive(Debug, Default)]
pub(crate) struct Ranges(BTreeMap<usize, (usize, bool)>);

impl Ranges {
    fn add(&mut self, start: usize, len: usize, file: bool) {
        self.0.insert(start, (len, file));
    }

    /// Takes a range out; whether all of it was there and a file's, or all of it was not.
    fn take(&mut self, start: usize, len: usize) -> bool {
        let end = start + len;
        let mut kinds = BTreeSet::new();
        let mut at = start;
        while at < end {
            let (&from, &(len, file)) = self.0.range(..=at).next_back().expect("mapped");
            assert!(from + len > at, "{at:#x} is not mapped");
            self.0.remove(&from);
            if from < at {
                self.add(from, at - from, file);
            }
            if from + len > end {
                self.add(end, from + len - end, file);
            }
            kinds.insert(file);
            at = from + len;
        }
        assert_eq!(kinds.len(), 1, "a range of two kinds");
        kinds.contains(&true)
    }

    pub(crate) fn pages(&self) -> usize {
        self.0.values().map(|(len, _)| len.div_ceil(4096)).sum()
    }
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) files: BTreeMap<String, Result<String, Errno>>,
    /// Answers of `open` other than success.
    pub(crate) opens: BTreeMap<String, Errno>,
    pub(crate) owner: Option<Owner>,
    pub(crate) version: (u32, u32),
    /// Whether a page can hold a second mapping of a GPU.
    pub(crate) open_files: BTreeMap<i32, String>,
    pub(crate) vms: BTreeMap<u32, i32>,
    pub(crate) bos: BTreeMap<u64, Bo>,
    pub(crate) events: BTreeMap<u32, u32>,
    /// What waits find: by the kind of event, once each.
    pub(crate) pending: BTreeMap<u32, kfd::kfd_event_data_union>,
    pub(crate) page: Option<u64>,
    pub(crate) queues: BTreeMap<u32, kfd::kfd_ioctl_create_queue_args>,
    pub(crate) doorbell_base: u64,
    pub(crate) sdma_left: usize,
    pub(crate) small_bar: bool,
    pub(crate) memory: Ranges,
    pub(crate) calls: Calls,
    /// Maps that fail do so after they have mapped: only waiting for the tables failed.
    pub(crate) late_map: bool,
    pub(crate) ticks: u64,
    next: u64,
}

#[derive(Debug)]
pub(crate) struct Fake {
    state: Mutex<State>,
    shared: Arc<Shared>,
}

pub(crate) const GPU: u32 = 0x1234;
pub(crate) const PEER: u32 = 0x5678;
const NODES: &str = super::topology::NODES;

/// What the kernel prints for an MI300X, shortened to what is read and some that is not.
pub(crate) const MI300X: &str = "cpu_cores_count 0\nsimd_count 1216\nmem_banks_count 1\ncaches_count 500\n\
    io_links_count 1\np2p_links_count 1\ncpu_core_id_base 0\nsimd_id_base 2147487744\nmax_waves_per_simd 8\n\
    lds_size_in_kb 64\ngds_size_in_kb 0\nnum_gws 64\nwave_front_size 64\narray_count 32\nsimd_arrays_per_engine 1\n\
    cu_per_simd_array 10\nsimd_per_cu 4\nmax_slots_scratch_cu 32\ngfx_target_version 90402\nvendor_id 4098\n\
    device_id 29857\nlocation_id 1536\ndomain 0\ndrm_render_minor 128\nhive_id 7\nnum_sdma_engines 2\n\
    num_sdma_xgmi_engines 14\nnum_sdma_queues_per_engine 8\nnum_cp_queues 24\nmax_engine_clk_fcompute 2100\n\
    local_mem_size 0\nfw_version 177\ncapability 746022912\ndebug_prop 1511\nsdma_fw_version 24\n\
    unique_id 18446744073709551615\nnum_xcc 8\nmax_engine_clk_ccompute 3250\n";

impl Fake {
    /// A machine with one processor and these GPUs, all MI300X.
    pub(crate) fn new(gpus: &[u32]) -> Arc<Self> {
        let fake = Arc::new(Self {
            state: Mutex::default(),
            shared: Arc::default(),
        });
        let mut state = fake.state();
        state.version = (1, 17);
        state.sdma_left = 16;
        state.doorbell_base = 3 << 62 | 0x1234 << 46;
        let mut put = |path: String, text: &str| {
            state.files.insert(path, Ok(text.into()));
        };
        put(format!("{NODES}/0/gpu_id"), "0\n");
        put(
            format!("{NODES}/0/properties"),
            "cpu_cores_count 96\nsimd_count 0\n",
        );
        put("/sys/class/kfd/kfd/dev".into(), "235:0\n");
        for (index, gpu) in (1..).zip(gpus) {
            let node = format!("{NODES}/{index}");
            let minor = 127 + index;
            put(format!("{node}/gpu_id"), &format!("{gpu}\n"));
            put(format!("{node}/name"), "ip discovery\n");
            let properties = MI300X.replace("minor 128", &format!("minor {minor}"));
            put(format!("{node}/properties"), &properties);
            let bank =
                "heap_type 1\nsize_in_bytes 206141652992\nflags 0\nwidth 8192\nmem_clk_max 1300\n";
            put(format!("{node}/mem_banks/0/properties"), bank);
            let link = "type 2\nversion_major 0\nversion_minor 0\nnode_from 1\nnode_to 0\nweight 20\nmin_latency 0\n\
                        max_latency 0\nmin_bandwidth 312\nmax_bandwidth 64000\nrecommended_transfer_size 0\n\
                        recommended_sdma_engine_id_mask 0\nflags 13\n";
            put(format!("{node}/io_links/0/properties"), link);
            let device = format!("/sys/class/drm/renderD{minor}/device");
            put(
                format!("{device}/mem_info_vis_vram_total"),
                "206141652992\n",
            );
            put(format!("{device}/product_name"), "AMD Instinct MI300X\n");
            for (hwid, version, bases) in [
                (11, ["9", "4", "3"], "0x00002000\n0x0000A000\n0x02402C00\n"),
                (42, ["4", "4", "2"], "0x00001260\n"),
                (108, ["7", "9", "0"], "0x00000000\n0x00000014\n0x00000D20\n"),
            ] {
                let ip = format!("{device}/ip_discovery/die/0/{hwid}/0");
                for (name, text) in ["major", "minor", "revision"].into_iter().zip(version) {
                    put(format!("{ip}/{name}"), &format!("{text}\n"));
                }
                put(format!("{ip}/base_addr"), bases);
            }
        }
        drop(state);
        fake
    }

    pub(crate) fn system(self: &Arc<Self>) -> Arc<dyn System> {
        Arc::clone(self) as Arc<dyn System>
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(crate) fn put(&self, path: impl Into<String>, text: &str) {
        self.state().files.insert(path.into(), Ok(text.into()));
    }

    /// A link of node `from` to node `to`, as `kind` (`io_links`, `p2p_links`) and `type`.
    pub(crate) fn link(&self, from: u32, kind: &str, number: u32, to: u32, bus: u32, weight: u32) {
        let text =
            format!("type {bus}\nnode_from {from}\nnode_to {to}\nweight {weight}\nflags 1\n");
        self.put(format!("{NODES}/{from}/{kind}/{number}/properties"), &text);
    }
}

impl State {
    fn new_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// What is left of devices: everything but what a process keeps.
    pub(crate) fn left(&self) -> String {
        let page = self.page;
        let kept = |handle: u64| Some(handle) == page;
        let bos: Vec<u64> = self.bos.keys().copied().filter(|&h| !kept(h)).collect();
        let kept_bytes = self
            .page
            .and_then(|p| self.bos.get(&p))
            .map_or(0, |b| b.size);
        let pages = self.memory.pages() as u64 - kept_bytes / 4096;
        let files: Vec<&String> = self.open_files.values().collect();
        format!(
            "bos {bos:?}, events {:?}, queues {:?}, pages {pages}, files {files:?}",
            self.events,
            self.queues.keys()
        )
    }

    #[allow(clippy::too_many_lines, reason = "one arm for each request")]
    fn ioctl(&mut self, request: u32, p: *mut c_void) -> Result<(), Errno> {
        /// The argument of a request.
        ///
        /// # Safety
        /// The request is that of the type, and the pointer is its argument.
        unsafe fn arg<'a, A: Argument>(p: *mut c_void) -> &'a mut A {
            // SAFETY: the caller's promise, which is that of `System::ioctl`.
            unsafe { &mut *p.cast() }
        }
        macro_rules! args {
            ($type:ident) => {
                // SAFETY: the request was matched with this type's.
                unsafe { arg::<kfd::$type>(p) }
            };
        }
        /// The list of GPUs of a mapping.
        fn gpus(pointer: u64, count: u32) -> Vec<u32> {
            let start = std::ptr::with_exposed_provenance::<u32>(pointer as usize);
            // SAFETY: `System::ioctl` promises that the list is that long.
            unsafe { std::slice::from_raw_parts(start, count as usize) }.to_vec()
        }
        match request {
            kfd::AMDKFD_IOC_GET_VERSION => {
                let a = args!(kfd_ioctl_get_version_args);
                (a.major_version, a.minor_version) = self.version;
            }
            kfd::AMDKFD_IOC_ACQUIRE_VM => {
                let a = *args!(kfd_ioctl_acquire_vm_args);
                let file = a.drm_fd as i32;
                if !self
                    .open_files
                    .get(&file)
                    .is_some_and(|f| f.contains("renderD"))
                {
                    return Err(Errno::INVAL);
                }
                if self.vms.get(&a.gpu_id).is_some_and(|&f| f != file) {
                    return Err(Errno::BUSY);
                }
                self.vms.insert(a.gpu_id, file);
            }
            kfd::AMDKFD_IOC_RUNTIME_ENABLE => {
                assert_eq!(args!(kfd_ioctl_runtime_enable_args).r_debug, 0);
            }
            kfd::AMDKFD_IOC_SET_XNACK_MODE => {
                assert_eq!(args!(kfd_ioctl_set_xnack_mode_args).xnack_enabled, 0);
            }
            kfd::AMDKFD_IOC_GET_PROCESS_APERTURES_NEW => {
                let a = args!(kfd_ioctl_get_process_apertures_new_args);
                let all: Vec<u32> = self.vms.keys().copied().collect();
                let room = (a.num_of_nodes as usize).min(all.len());
                let to = std::ptr::with_exposed_provenance_mut::<kfd::kfd_process_device_apertures>(
                    a.kfd_process_device_apertures_ptr as usize,
                );
                for (index, gpu_id) in all.iter().take(room).enumerate() {
                    let apertures = kfd::kfd_process_device_apertures {
                        gpu_id: *gpu_id,
                        lds_base: 1 << 48,
                        scratch_base: 2 << 48,
                        gpuvm_base: 0x1000,
                        gpuvm_limit: (1 << 47) - 1,
                        ..Default::default()
                    };
                    // SAFETY: the array has room for as many as were asked for.
                    let to = unsafe { to.add(index) };
                    // SAFETY: as above.
                    unsafe { to.write(apertures) };
                }
                a.num_of_nodes = if a.num_of_nodes == 0 { all.len() } else { room } as u32;
            }
            kfd::AMDKFD_IOC_AVAILABLE_MEMORY => {
                args!(kfd_ioctl_get_available_memory_args).available = 1 << 20;
            }
            kfd::AMDKFD_IOC_GET_CLOCK_COUNTERS => {
                self.ticks += 100;
                args!(kfd_ioctl_get_clock_counters_args).gpu_clock_counter = self.ticks;
            }
            kfd::AMDKFD_IOC_ALLOC_MEMORY_OF_GPU => {
                let a = args!(kfd_ioctl_alloc_memory_of_gpu_args);
                let visible = a
                    .flags
                    .contains(AllocMemFlags::VRAM | AllocMemFlags::PUBLIC);
                if a.size == 0 || a.va_addr % 4096 != 0 || visible && self.small_bar {
                    return Err(Errno::INVAL);
                }
                if !self.vms.contains_key(&a.gpu_id) {
                    return Err(Errno::INVAL);
                }
                if a.size >= 1 << 30 {
                    return Err(Errno::NOMEM);
                }
                a.handle = u64::from(a.gpu_id) << 32 | self.new_number();
                a.mmap_offset = a.handle << 12;
                let bo = Bo {
                    va: a.va_addr,
                    size: a.size,
                    flags: a.flags,
                    mapped: BTreeSet::new(),
                };
                self.bos.insert(a.handle, bo);
            }
            kfd::AMDKFD_IOC_FREE_MEMORY_OF_GPU => {
                let handle = args!(kfd_ioctl_free_memory_of_gpu_args).handle;
                if self.page == Some(handle) {
                    return Err(Errno::PERM);
                }
                let bo = self.bos.get(&handle).ok_or(Errno::INVAL)?;
                if !bo.mapped.is_empty() {
                    return Err(Errno::BUSY);
                }
                self.bos.remove(&handle);
            }
            kfd::AMDKFD_IOC_MAP_MEMORY_TO_GPU => {
                let a = args!(kfd_ioctl_map_memory_to_gpu_args);
                for gpu in gpus(a.device_ids_array_ptr, a.n_devices) {
                    let bo = self.bos.get(&a.handle).ok_or(Errno::NOMEM)?;
                    let overlaps = |other: &Bo| {
                        other.mapped.contains(&gpu)
                            && other.va < bo.va + bo.size
                            && bo.va < other.va + other.size
                    };
                    let taken = self.bos.values().any(overlaps);
                    if !self.vms.contains_key(&gpu) || taken {
                        return Err(Errno::INVAL);
                    }
                    if let Some(bo) = self.bos.get_mut(&a.handle) {
                        bo.mapped.insert(gpu);
                    }
                    a.n_success += 1;
                }
            }
            kfd::AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU => {
                let a = args!(kfd_ioctl_unmap_memory_from_gpu_args);
                for gpu in gpus(a.device_ids_array_ptr, a.n_devices) {
                    let bo = self.bos.get_mut(&a.handle).ok_or(Errno::NOMEM)?;
                    if !bo.mapped.remove(&gpu) {
                        return Err(Errno::INVAL);
                    }
                    a.n_success += 1;
                }
            }
            kfd::AMDKFD_IOC_CREATE_EVENT => {
                let a = args!(kfd_ioctl_create_event_args);
                if a.event_page_offset != 0 {
                    if self.page.is_some() || !self.bos.contains_key(&a.event_page_offset) {
                        return Err(Errno::INVAL);
                    }
                    self.page = Some(a.event_page_offset);
                }
                assert_eq!(a.auto_reset, 1);
                a.event_id = self.new_number() as u32;
                if a.event_type == kfd::KFD_IOC_EVENT_SIGNAL {
                    assert!(self.page.is_some(), "a signal event before the event page");
                    a.event_slot_index = a.event_id;
                } else {
                    a.event_id |= 0x8000_0000;
                }
                self.events.insert(a.event_id, a.event_type);
            }
            kfd::AMDKFD_IOC_DESTROY_EVENT => {
                let id = args!(kfd_ioctl_destroy_event_args).event_id;
                self.events.remove(&id).ok_or(Errno::INVAL)?;
            }
            kfd::AMDKFD_IOC_WAIT_EVENTS => {
                let a = args!(kfd_ioctl_wait_events_args);
                let start = std::ptr::with_exposed_provenance_mut::<kfd::kfd_event_data>(
                    a.events_ptr as usize,
                );
                a.wait_result = kfd::KFD_IOC_WAIT_RESULT_TIMEOUT;
                for index in 0..a.num_events as usize {
                    // SAFETY: `System::ioctl` promises as many events.
                    let event = unsafe { start.add(index) };
                    // SAFETY: as above.
                    let event = unsafe { &mut *event };
                    let kind = *self.events.get(&event.event_id).ok_or(Errno::INVAL)?;
                    if let Some(data) = self.pending.remove(&kind) {
                        event.data = data;
                        a.wait_result = kfd::KFD_IOC_WAIT_RESULT_COMPLETE;
                    }
                }
            }
            kfd::AMDKFD_IOC_CREATE_QUEUE => {
                let a = args!(kfd_ioctl_create_queue_args);
                self.check_queue(a)?;
                a.queue_id = self.new_number() as u32;
                a.doorbell_offset = self.doorbell_base + 8 * u64::from(a.queue_id % 1024);
                self.queues.insert(a.queue_id, *a);
            }
            kfd::AMDKFD_IOC_DESTROY_QUEUE => {
                let id = args!(kfd_ioctl_destroy_queue_args).queue_id;
                let queue = self.queues.remove(&id).ok_or(Errno::INVAL)?;
                if queue.queue_type == kfd::KFD_IOC_QUEUE_TYPE_SDMA {
                    self.sdma_left += 1;
                }
            }
            other => panic!("request {other:#x} is not known here"),
        }
        Ok(())
    }

    /// `kfd_queue_acquire_buffers`.
    fn check_queue(&mut self, a: &kfd::kfd_ioctl_create_queue_args) -> Result<(), Errno> {
        let exact = |address: u64, size: u64| {
            let mut bos = self.bos.values();
            let found =
                bos.any(|bo| bo.va == address && bo.size == size && bo.mapped.contains(&a.gpu_id));
            found.then_some(()).ok_or(Errno::INVAL)
        };
        exact(a.ring_base_address, a.ring_size.into())?;
        exact(a.write_pointer_address & !4095, 4096)?;
        exact(a.read_pointer_address & !4095, 4096)?;
        match a.queue_type {
            kfd::KFD_IOC_QUEUE_TYPE_COMPUTE | kfd::KFD_IOC_QUEUE_TYPE_COMPUTE_AQL => {
                if a.eop_buffer_address != 0 {
                    exact(a.eop_buffer_address, 4096)?;
                }
                let die = u64::from(a.ctx_save_restore_size) + 1520 * 32;
                exact(a.ctx_save_restore_address, (die * 8).next_multiple_of(4096))?;
            }
            _ if self.sdma_left == 0 => return Err(Errno::NOMEM),
            _ => self.sdma_left -= 1,
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
        state.calls.count(Counted::Open)?;
        let number = 100 + state.new_number() as i32;
        state.open_files.insert(number, path);
        Ok(Handle::from_raw(number))
    }

    fn close(&self, file: Handle) {
        self.state()
            .open_files
            .remove(&file.raw())
            .expect("closed once");
    }

    unsafe fn ioctl(&self, file: &Handle, request: u64, p: *mut c_void) -> Result<i32, Errno> {
        let mut state = self.state();
        assert_eq!(
            state.open_files.get(&file.raw()).map(String::as_str),
            Some("/dev/kfd")
        );
        let request = u32::try_from(request).expect("32 bits");
        let injected = state.calls.count(Counted::Ioctl(ioctl::number(request)));
        let late = state.late_map && request == kfd::AMDKFD_IOC_MAP_MEMORY_TO_GPU;
        // A queue that hung is taken away all the same.
        let hung = request == kfd::AMDKFD_IOC_DESTROY_QUEUE
            && matches!(injected, Err(Errno::IO | Errno::TIME));
        if late || hung || injected.is_ok() {
            state.ioctl(request, p)?;
        }
        injected.map(|()| 0)
    }

    unsafe fn mmap(&self, request: &MapRequest<'_>) -> Result<NonNull<u8>, Errno> {
        let mut state = self.state();
        if let Some((file, _)) = request.file {
            assert!(
                state.open_files.contains_key(&file.raw()),
                "mmap of a closed file"
            );
        }
        state.calls.count(Counted::Mmap)?;
        let memory = MapRequest {
            len: request.len,
            protection: match request.file {
                Some(_) => Protection::ReadWrite,
                None => request.protection,
            },
            file: None,
            fixed: request.fixed,
        };
        // SAFETY: this function's contract.
        let start = unsafe { Linux.mmap(&memory) }?;
        let at = start.as_ptr().addr();
        if request.fixed.is_some() {
            let file = state.memory.take(at, request.len);
            assert!(!file, "a fixed mapping of what is not reserved");
        }
        state.memory.add(at, request.len, request.file.is_some());
        Ok(start)
    }

    unsafe fn munmap(&self, address: NonNull<u8>, len: usize) -> Result<(), Errno> {
        let mut state = self.state();
        state.memory.take(address.as_ptr().addr(), len);
        // SAFETY: this function's contract.
        unsafe { Linux.munmap(address, len) }
    }

    fn poll(&self, _: &Handle, _: Duration) -> Result<bool, Errno> {
        Err(Errno::NOSYS)
    }

    fn read(&self, path: &Path, _: usize) -> Result<Vec<u8>, Errno> {
        let state = self.state();
        let file = path.to_str().and_then(|path| state.files.get(path));
        file.cloned()
            .unwrap_or(Err(Errno::NOENT))
            .map(String::into_bytes)
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, Errno> {
        let state = self.state();
        let folder = format!("{}/", path.display());
        let inside = state
            .files
            .keys()
            .filter_map(|file| file.strip_prefix(&folder));
        let names: BTreeSet<String> = inside
            .map(|rest| rest.split('/').next().unwrap_or_default().to_owned())
            .collect();
        match names.is_empty() {
            true => Err(Errno::NOENT),
            // No order, as directories have none.
            false => Ok(names.into_iter().rev().collect()),
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
