//! Memory of GPUs: `kfd_ioctl_alloc_memory_of_gpu` and its kin, and `amdgpu_amdkfd_gpuvm.c` below them.

use std::collections::BTreeMap;
use std::sync::Arc;

use hcq_uapi::kfd::{
    AllocMemFlags, MmapType, kfd_ioctl_acquire_vm_args, kfd_ioctl_alloc_memory_of_gpu_args,
    kfd_ioctl_get_available_memory_args, kfd_ioctl_map_memory_to_gpu_args,
    kfd_ioctl_unmap_memory_from_gpu_args, mmap_offset, mmap_parts,
};

use super::driver::gpu_of;
use super::mtype::mtype;
use super::process::{DOORBELL_BYTES, DOORBELL_MIRROR, Kind, MAX_QUEUES, Memory, lowest_free};
use super::{Gpu, Kernel, Pool};
use crate::cache::Levels;
use crate::machine::{Block, FileId, Ioctl, PAGE, user};
use crate::vm::{Backing, Heap, Mapping, Owner};

/// `VRAM_AVAILABLITY_ALIGN`.
const VRAM_ROUND: u64 = 2 << 20;
/// `AMDGPU_VM_RESERVED_VRAM`.
const VRAM_RESERVED: u64 = 8 << 20;
/// Addresses of GPUs have 48 bits: `max_pfn`.
const ADDRESS_END: u64 = 1 << 48;
/// Most numbers of GPUs that one call may name: an array of more than `KMALLOC_MAX_SIZE` is out of memory.
const MAX_DEVICES: u32 = 1 << 20;

/// `GET_GPU_ID`, `GET_IDR_HANDLE`.
fn parts(handle: u64) -> (u32, u32) {
    let half = |bits: u64| u32::try_from(bits & 0xFFFF_FFFF).unwrap_or(0);
    (half(handle >> 32), half(handle))
}

impl Pool {
    fn take(&mut self, bytes: u64) {
        self.used = self.used.saturating_add(bytes);
    }

    fn give(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
    }

    fn lacks(&self, bytes: u64) -> bool {
        self.used.saturating_add(bytes) > self.limit
    }
}

impl Kernel {
    /// `kfd_ioctl_acquire_vm`.
    pub(super) fn acquire_vm(
        &mut self,
        files: &Ioctl<'_>,
        args: &kfd_ioctl_acquire_vm_args,
    ) -> Result<(), i32> {
        let fd = i32::try_from(args.drm_fd).map_err(|_| libc::EINVAL)?;
        let (node, file) = files.file(fd).ok_or(libc::EINVAL)?;
        let index = self.gpu(args.gpu_id)?;
        let process = self.process()?;
        let used = process
            .devices
            .iter()
            .any(|device| device.node == Some(file));
        let device = process.devices.get_mut(index).ok_or(libc::EINVAL)?;
        if let Some(node) = device.node {
            return if node == file {
                Ok(())
            } else {
                Err(libc::EBUSY)
            };
        }
        // `amdgpu_file_to_fpriv`: the file is a render node; `init_kfd_vm`: its address space is not in use.
        if gpu_of(node) != Some(index) || used {
            return Err(libc::EINVAL);
        }
        device.node = Some(file);
        Ok(())
    }

    /// `ESTIMATE_PT_SIZE`.
    fn reserved_vram(&self) -> u64 {
        let all: u64 = self.gpus.iter().map(|gpu| gpu.vram).sum();
        (all >> 14).max(VRAM_RESERVED)
    }

    /// `amdgpu_amdkfd_get_available_memory`.
    pub(super) fn get_available_memory(
        &mut self,
        args: &mut kfd_ioctl_get_available_memory_args,
    ) -> Result<(), i32> {
        let index = self.gpu(args.gpu_id)?;
        let gpu = self.gpus.get(index).ok_or(libc::EINVAL)?;
        let taken = gpu.vram_used_rounded.saturating_add(self.reserved_vram());
        let vram = self.video_memory(gpu).saturating_sub(taken);
        args.available = if gpu.chip.apu {
            let system = self.system.limit.saturating_sub(self.system.used);
            let ttm = self.ttm.limit.saturating_sub(self.ttm.used);
            vram.min(system).min(ttm) / PAGE * PAGE
        } else {
            vram / VRAM_ROUND * VRAM_ROUND
        };
        Ok(())
    }

    /// `amdgpu_amdkfd_xcp_memory_size`: what an APU has of the host's memory is as good as its own.
    fn video_memory(&self, gpu: &Gpu) -> u64 {
        if gpu.chip.apu {
            self.ttm.limit
        } else {
            gpu.vram
        }
    }

    /// `amdgpu_amdkfd_reserve_mem_limit`.
    fn charge(&mut self, index: usize, bytes: u64, kind: Kind) -> Result<(), i32> {
        let reserved = self.reserved_vram();
        let gpu = self.gpus.get(index).ok_or(libc::EINVAL)?;
        let (system, ttm, vram) = needs(gpu.chip.apu, bytes, kind);
        let room = self.video_memory(gpu).saturating_sub(reserved);
        if self.system.lacks(system)
            || self.ttm.lacks(ttm)
            || gpu.vram_used.saturating_add(vram) > room
        {
            return Err(libc::ENOMEM);
        }
        let rounded = rounded(gpu.chip.apu, vram);
        let gpu = self.gpus.get_mut(index).ok_or(libc::EINVAL)?;
        gpu.vram_used = gpu.vram_used.saturating_add(vram);
        gpu.vram_used_rounded = gpu.vram_used_rounded.saturating_add(rounded);
        self.system.take(system);
        self.ttm.take(ttm);
        Ok(())
    }

    /// `amdgpu_amdkfd_unreserve_mem_limit`.
    pub(super) fn uncharge(&mut self, index: usize, memory: &Memory) {
        let Some(gpu) = self.gpus.get_mut(index) else {
            return;
        };
        let (system, ttm, vram) = needs(gpu.chip.apu, memory.charged, memory.kind);
        let rounded = rounded(gpu.chip.apu, vram);
        gpu.vram_used = gpu.vram_used.saturating_sub(vram);
        gpu.vram_used_rounded = gpu.vram_used_rounded.saturating_sub(rounded);
        self.system.give(system);
        self.ttm.give(ttm);
    }

    /// `kfd_alloc_process_doorbells`, `init_doorbell_bitmap`.
    pub(super) fn doorbells(&mut self, index: usize) -> Result<Arc<Block>, i32> {
        let doorbells = self.gpus.get(index).ok_or(libc::EINVAL)?.chip.doorbells;
        let store = Arc::clone(&self.store);
        let device = self.process()?.devices.get_mut(index).ok_or(libc::EINVAL)?;
        if let Some(block) = &device.doorbells {
            return Ok(Arc::clone(block));
        }
        let block = store.block(DOORBELL_BYTES)?;
        let range = doorbells.first_copy..=doorbells.last_other;
        device.doorbell_used = range
            .filter(|&number| number < MAX_QUEUES / 2)
            .flat_map(|number| [number, number + DOORBELL_MIRROR])
            .collect();
        device.doorbells = Some(Arc::clone(&block));
        Ok(block)
    }

    /// The page of remapped registers.
    pub(crate) fn mmio(&mut self, index: usize) -> Result<Arc<Block>, i32> {
        let gpu = self.gpus.get_mut(index).ok_or(libc::EINVAL)?;
        if let Some(block) = &gpu.mmio {
            return Ok(Arc::clone(block));
        }
        let block = self.store.block(PAGE)?;
        gpu.mmio = Some(Arc::clone(&block));
        Ok(block)
    }

    /// `kfd_ioctl_alloc_memory_of_gpu`, `amdgpu_amdkfd_gpuvm_alloc_memory_of_gpu`.
    pub(super) fn alloc_memory(
        &mut self,
        args: &mut kfd_ioctl_alloc_memory_of_gpu_args,
    ) -> Result<(), i32> {
        use AllocMemFlags as F;
        let flags = args.flags;
        if args.size == 0 {
            return Err(libc::EINVAL);
        }
        let index = self.gpu(args.gpu_id)?;
        let gpu = self.gpus.get(index).ok_or(libc::EINVAL)?;
        if flags.contains(F::PUBLIC | F::VRAM) && !gpu.large_bar() {
            return Err(libc::EINVAL);
        }
        self.bound(index, libc::ENODEV)?;
        if flags.contains(F::DOORBELL) {
            if args.size != DOORBELL_BYTES {
                return Err(libc::EINVAL);
            }
        } else if flags.contains(F::MMIO_REMAP) && args.size != PAGE {
            return Err(libc::EINVAL);
        }
        let kind = if flags.contains(F::VRAM) {
            Kind::Vram
        } else if flags.contains(F::GTT) {
            Kind::Gtt
        } else if flags.contains(F::USERPTR) {
            if args.mmap_offset == 0 {
                return Err(libc::EINVAL);
            }
            Kind::User
        } else if flags.contains(F::DOORBELL) {
            Kind::Doorbell
        } else if flags.contains(F::MMIO_REMAP) {
            Kind::Mmio
        } else {
            return Err(libc::EINVAL);
        };
        let size = if flags.contains(F::AQL_QUEUE_MEM) {
            args.size >> 1
        } else {
            args.size
        };
        let bytes = size.checked_next_multiple_of(PAGE).ok_or(libc::ENOMEM)?;
        if bytes == 0 {
            return Err(libc::EINVAL);
        }
        self.charge(index, bytes, kind)?;
        let mut memory = Memory {
            address: args.va_addr,
            bytes,
            charged: bytes,
            kind,
            flags,
            backing: Backing::User(0),
            mapped: BTreeMap::new(),
            offset: 0,
        };
        let made = self.backing(index, kind, bytes, args.mmap_offset);
        match made {
            Ok(backing) => memory.backing = backing,
            Err(errno) => {
                self.uncharge(index, &memory);
                return Err(errno);
            }
        }
        let gpu = self.gpus.get_mut(index).ok_or(libc::EINVAL)?;
        memory.offset = gpu.next_offset;
        gpu.next_offset = gpu.next_offset.saturating_add(bytes);
        args.mmap_offset = match kind {
            Kind::Mmio => mmap_offset(MmapType::Mmio, args.gpu_id, 0).ok_or(libc::EINVAL)?,
            Kind::Vram | Kind::Gtt | Kind::User | Kind::Doorbell => memory.offset,
        };
        let device = self.process()?.devices.get_mut(index).ok_or(libc::EINVAL)?;
        let number = lowest_free(&device.memory, 0);
        device.memory.insert(number, memory);
        args.handle = u64::from(args.gpu_id) << 32 | u64::from(number);
        Ok(())
    }

    fn backing(
        &mut self,
        index: usize,
        kind: Kind,
        bytes: u64,
        address: u64,
    ) -> Result<Backing, i32> {
        match kind {
            Kind::Vram | Kind::Gtt => Ok(Backing::Block(self.store.block(bytes)?)),
            Kind::Doorbell => Ok(Backing::Block(self.doorbells(index)?)),
            Kind::Mmio => Ok(Backing::Block(self.mmio(index)?)),
            Kind::User => {
                let first = address / PAGE * PAGE;
                if !user::access_ok(first, bytes) || !user::is_mapped(first, bytes) {
                    return Err(libc::EFAULT);
                }
                Ok(Backing::User(first))
            }
        }
    }

    fn find(&self, handle: u64, missing: i32) -> Result<Owner, i32> {
        let (gpu_id, number) = parts(handle);
        let index = self.gpu(gpu_id)?;
        self.memory((index, number))
            .map(|_| (index, number))
            .ok_or(missing)
    }

    pub(super) fn memory(&self, (index, number): Owner) -> Option<&Memory> {
        self.process
            .as_ref()?
            .devices
            .get(index)?
            .memory
            .get(&number)
    }

    pub(super) fn memory_mut(&mut self, (index, number): Owner) -> Option<&mut Memory> {
        self.process
            .as_mut()?
            .devices
            .get_mut(index)?
            .memory
            .get_mut(&number)
    }

    /// `kfd_ioctl_free_memory_of_gpu`, `amdgpu_amdkfd_gpuvm_free_memory_of_gpu`.
    pub(super) fn free_memory(&mut self, handle: u64) -> Result<(), i32> {
        let page = self
            .process()?
            .events
            .page_handle()
            .filter(|&page| page != 0);
        if page == Some(handle) {
            return Err(libc::EPERM);
        }
        let owner = self.find(handle, libc::EINVAL)?;
        let memory = self.memory(owner).ok_or(libc::EINVAL)?;
        if !memory.mapped.is_empty() {
            return Err(libc::EBUSY);
        }
        let (index, number) = owner;
        let device = self.process()?.devices.get_mut(index).ok_or(libc::EINVAL)?;
        if let Some(memory) = device.memory.remove(&number) {
            self.uncharge(index, &memory);
        }
        Ok(())
    }

    /// `kfd_ioctl_map_memory_to_gpu`.
    pub(super) fn map_memory(
        &mut self,
        args: &mut kfd_ioctl_map_memory_to_gpu_args,
    ) -> Result<(), i32> {
        let ids = devices(args.device_ids_array_ptr, args.n_devices, args.n_success)?;
        let index = self.gpu(parts(args.handle).0)?;
        self.bound(index, libc::ENODEV)?;
        let owner = self.find(args.handle, libc::ENOMEM)?;
        let skip = usize::try_from(args.n_success).unwrap_or(usize::MAX);
        for id in ids.into_iter().skip(skip) {
            let peer = self.gpu(id)?;
            self.bound(peer, libc::ENODEV)?;
            self.map_to(owner, peer)?;
            args.n_success = args.n_success.saturating_add(1);
        }
        Ok(())
    }

    /// `amdgpu_amdkfd_gpuvm_map_memory_to_gpu`, `kfd_mem_attach`, `amdgpu_vm_bo_map`. Mapped already is success.
    fn map_to(&mut self, owner: Owner, peer: usize) -> Result<(), i32> {
        let heap = self.reach(owner, peer)?;
        let rule = self.gpus.get(peer).ok_or(libc::EINVAL)?.chip.mtype;
        let memory = self.memory(owner).ok_or(libc::ENOMEM)?;
        let (start, bytes) = (memory.address, memory.bytes);
        if start == 0 {
            return Err(libc::EINVAL);
        }
        if memory.mapped.contains_key(&peer) {
            return Ok(());
        }
        let twice = memory.flags.contains(AllocMemFlags::AQL_QUEUE_MEM);
        let all = if twice {
            bytes.saturating_mul(2)
        } else {
            bytes
        };
        let end = start.checked_add(all).ok_or(libc::EINVAL)?;
        if !start.is_multiple_of(PAGE) || end > ADDRESS_END {
            return Err(libc::EINVAL);
        }
        let mapping = Mapping {
            bytes,
            backing: memory.backing.clone(),
            from: 0,
            heap,
            mtype: mtype(rule, heap, memory.flags),
            writable: memory.flags.contains(AllocMemFlags::WRITABLE),
            executable: memory.flags.contains(AllocMemFlags::EXECUTABLE),
            owner,
        };
        let device = self.process()?.devices.get_mut(peer).ok_or(libc::EINVAL)?;
        if device.table.overlaps(start, all) {
            return Err(libc::EINVAL);
        }
        if twice {
            device
                .table
                .insert(start.saturating_add(bytes), mapping.clone());
        }
        device.table.insert(start, mapping);
        if let Some(memory) = self.memory_mut(owner) {
            memory.mapped.insert(peer, 0);
        }
        Ok(())
    }

    /// The first check of `kfd_mem_attach`: whether a GPU reaches memory of another, and which memory that is for it.
    fn reach(&self, owner: Owner, peer: usize) -> Result<Heap, i32> {
        let memory = self.memory(owner).ok_or(libc::ENOMEM)?;
        let home = self.gpus.get(owner.0).ok_or(libc::EINVAL)?;
        let gpu = self.gpus.get(peer).ok_or(libc::EINVAL)?;
        let vram = memory.kind == Kind::Vram && !home.chip.apu;
        let on_card = vram || matches!(memory.kind, Kind::Doorbell | Kind::Mmio);
        if owner.0 != peer && !gpu.chip.apu && on_card {
            let hive = vram && home.chip.xgmi && gpu.chip.xgmi && self.p2p;
            // `amdgpu_device_is_peer_accessible`.
            let bus = self.p2p && home.visible != 0 && home.visible == home.vram;
            if !hive && !bus {
                return Err(libc::EINVAL);
            }
        }
        Ok(match (vram, owner.0 == peer) {
            (true, true) => Heap::Local,
            (true, false) => Heap::Peer,
            (false, _) => Heap::System,
        })
    }

    /// `kfd_ioctl_unmap_memory_from_gpu`.
    pub(super) fn unmap_memory(
        &mut self,
        args: &mut kfd_ioctl_unmap_memory_from_gpu_args,
    ) -> Result<(), i32> {
        let ids = devices(args.device_ids_array_ptr, args.n_devices, args.n_success)?;
        let owner = self.find(args.handle, libc::ENOMEM)?;
        let skip = usize::try_from(args.n_success).unwrap_or(usize::MAX);
        for id in ids.into_iter().skip(skip) {
            let peer = self.gpu(id)?;
            self.unmap_from(owner, peer)?;
            args.n_success = args.n_success.saturating_add(1);
        }
        Ok(())
    }

    /// `amdgpu_amdkfd_gpuvm_unmap_memory_from_gpu`, `unmap_bo_from_gpuvm`. What the GPU's caches hold is written first, as
    /// the flush of its TLBs has it.
    fn unmap_from(&mut self, owner: Owner, peer: usize) -> Result<(), i32> {
        let memory = self.memory_mut(owner).ok_or(libc::ENOMEM)?;
        match memory.mapped.get(&peer) {
            None => return Err(libc::EINVAL),
            Some(0) => memory.mapped.remove(&peer),
            Some(_) => return Err(libc::EBUSY),
        };
        let process = self.process.as_mut().ok_or(libc::EBADF)?;
        let device = process.devices.get_mut(peer).ok_or(libc::EINVAL)?;
        if let Some(gpu) = self.gpus.get_mut(peer) {
            for xcc in 0..u8::try_from(gpu.chip.xccs).unwrap_or(1) {
                // Lines whose page is gone already have nowhere to go.
                let _ = gpu.caches.write_back(xcc, Levels::all(), &device.table);
                let _ = gpu.caches.invalidate(xcc, Levels::all(), &device.table);
            }
        }
        device.table.remove(owner);
        Ok(())
    }

    /// The allocation that a render node maps at an offset, for `len` bytes: `drm_gem_mmap`, `amdgpu_gem_object_mmap`.
    pub(crate) fn node_map(
        &mut self,
        index: usize,
        node: FileId,
        offset: u64,
        len: u64,
    ) -> Result<Arc<Block>, i32> {
        let Some(process) = &self.process else {
            return Err(libc::EINVAL);
        };
        let device = process.devices.get(index).ok_or(libc::EINVAL)?;
        let mut found = device
            .memory
            .values()
            .filter(|memory| memory.offset == offset);
        let memory = found.next().ok_or(libc::EINVAL)?;
        if len.next_multiple_of(PAGE) > memory.bytes {
            return Err(libc::EINVAL);
        }
        if device.node != Some(node) {
            return Err(libc::EACCES);
        }
        let apu = self.gpus.get(index).is_some_and(|gpu| gpu.chip.apu);
        let hidden =
            memory.kind == Kind::Vram && !apu && !memory.flags.contains(AllocMemFlags::PUBLIC);
        match &memory.backing {
            Backing::Block(block) if !hidden => Ok(Arc::clone(block)),
            _ => Err(libc::EPERM),
        }
    }

    /// What `/dev/kfd` maps at an offset, for `len` bytes: `kfd_mmap`.
    pub(crate) fn kfd_map(&mut self, offset: u64, len: u64) -> Result<Arc<Block>, i32> {
        let (kind, id, _) = mmap_parts(offset);
        let index = || self.gpu(id).map_err(|_| libc::ENODEV);
        match kind {
            MmapType::Doorbell => {
                let index = index()?;
                if len != DOORBELL_BYTES {
                    return Err(libc::EINVAL);
                }
                self.doorbells(index)
            }
            MmapType::Events => self.process()?.events.map_page(len),
            MmapType::Mmio => {
                let index = index()?;
                if len != PAGE {
                    return Err(libc::EINVAL);
                }
                self.mmio(index)
            }
            // Memory for saved waves belongs to GPUs that share the process's page tables; none of these does.
            MmapType::ReservedMem => index().and(Err(libc::EINVAL)),
        }
    }
}

/// What an allocation takes of the host's memory, of what the kernel may pin of that, and of video memory.
fn needs(apu: bool, bytes: u64, kind: Kind) -> (u64, u64, u64) {
    match kind {
        Kind::Gtt => (bytes, bytes, 0),
        Kind::Vram if apu => (bytes, bytes, bytes),
        Kind::Vram => (0, 0, bytes),
        Kind::User => (bytes, 0, 0),
        Kind::Doorbell | Kind::Mmio => (0, 0, 0),
    }
}

fn rounded(apu: bool, vram: u64) -> u64 {
    if apu {
        vram
    } else {
        vram.next_multiple_of(VRAM_ROUND)
    }
}

/// The array of `gpu_id`s of a call, after its first checks.
fn devices(address: u64, count: u32, done: u32) -> Result<Vec<u32>, i32> {
    if count == 0 || done > count {
        return Err(libc::EINVAL);
    }
    if count > MAX_DEVICES {
        return Err(libc::ENOMEM);
    }
    let mut ids = vec![0u32; usize::try_from(count).map_err(|_| libc::ENOMEM)?];
    user::read(
        address,
        zerocopy::IntoBytes::as_mut_bytes(ids.as_mut_slice()),
    )?;
    Ok(ids)
}
