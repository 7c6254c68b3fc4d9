//! Queues: `kfd_ioctl_create_queue` and its kin, `kfd_queue.c`, `kfd_process_queue_manager.c`.

use std::sync::Arc;

use hcq_uapi::kfd::{
    KFD_IOC_QUEUE_TYPE_COMPUTE, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, KFD_IOC_QUEUE_TYPE_SDMA,
    KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, KFD_IOC_QUEUE_TYPE_SDMA_XGMI, KFD_MAX_QUEUE_PERCENTAGE,
    KFD_MAX_QUEUE_PRIORITY, KFD_MIN_QUEUE_RING_SIZE, MmapType, kfd_ioctl_alloc_queue_gws_args,
    kfd_ioctl_create_queue_args, kfd_ioctl_get_queue_wave_state_args, kfd_ioctl_set_cu_mask_args,
    kfd_ioctl_update_queue_args, mmap_offset,
};

use super::process::{DOORBELL_MIRROR, MAX_QUEUES, lowest_free};
use super::{EngineRequest, Kernel, QueueKind};
use crate::amd::chip::{Chip, EOP_BYTES};
use crate::amd::{cp, sdma};
use crate::engine::{Engine, QueueMemory};
use crate::machine::{Block, PAGE, user};
use crate::vm::Owner;

/// `ENOTSUPP`, the kernel's own number for "not supported", which callers see as it is.
pub(crate) const ENOTSUPP: i32 = 524;
/// Most bits of a mask of compute units; the rest is cut off.
const MAX_CU_BITS: u32 = 1024;

/// A queue: `struct queue`.
pub(crate) struct Queue {
    pub(super) device: usize,
    pub(super) kind: QueueKind,
    pub(super) memory: QueueMemory,
    /// `queue_percentage`: the share in bits 7:0, the XCC of a PM4 queue in bits 15:8.
    percentage: u32,
    priority: u32,
    /// The doorbell's number in the process's page.
    pub(super) doorbell: u32,
    pub(super) doorbells: Arc<Block>,
    /// Which queue of the copy engines, and whether of those for links.
    copy: Option<(bool, u32)>,
    /// Ring, read pointer, write pointer, end-of-pipe buffer and save area, as far as there are any.
    held: Vec<(Held, Owner)>,
    pub(super) engine: Option<Box<dyn Engine>>,
    pub(super) turn: crate::machine::order::Turn,
    /// It faulted, or its GPU was reset.
    pub(super) stopped: bool,
}

/// What a queue holds an allocation for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Ring,
    Other,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("device", &self.device)
            .field("kind", &self.kind)
            .field("memory", &self.memory)
            .field("doorbell", &self.doorbell)
            .field("stopped", &self.stopped)
            .finish_non_exhaustive()
    }
}

impl Queue {
    /// `QUEUE_IS_ACTIVE`, but for the eviction of the process.
    pub(super) fn active(&self) -> bool {
        self.memory.ring_bytes > 0 && self.memory.ring != 0 && self.percentage & 0xFF > 0
    }

    /// What its doorbell says.
    pub(super) fn rung(&self) -> u64 {
        self.doorbells
            .load(u64::from(self.doorbell) * 8)
            .unwrap_or(0)
    }
}

/// The doorbell of a queue on which nobody has rung yet: the number of the last packet of AQL, else the write pointer.
fn silent(kind: QueueKind) -> u64 {
    match kind {
        QueueKind::Aql => u64::MAX,
        QueueKind::Pm4 | QueueKind::Sdma => 0,
    }
}

/// The checks that `set_queue_properties_from_user` and `kfd_ioctl_update_queue` share. Bits 8 to 15 of the percentage name
/// an XCC.
fn properties(percentage: u32, priority: u32, ring: u64, ring_bytes: u32) -> Result<(), i32> {
    if percentage & 0xFF > KFD_MAX_QUEUE_PERCENTAGE || priority > KFD_MAX_QUEUE_PRIORITY {
        return Err(libc::EINVAL);
    }
    if ring != 0 && !user::access_ok(ring, 8) {
        return Err(libc::EFAULT);
    }
    if ring_bytes != 0 && !ring_bytes.is_power_of_two() {
        return Err(libc::EINVAL);
    }
    Ok(())
}

/// Which copy engine a queue is for.
enum Copy {
    Host,
    Links,
    Engine(u32),
}

impl Kernel {
    /// `kfd_ioctl_create_queue`.
    pub(super) fn create_queue(
        &mut self,
        args: &mut kfd_ioctl_create_queue_args,
    ) -> Result<(), i32> {
        properties(
            args.queue_percentage,
            args.queue_priority,
            args.ring_base_address,
            args.ring_size,
        )?;
        args.ring_size = args.ring_size.max(KFD_MIN_QUEUE_RING_SIZE);
        if !user::access_ok(args.read_pointer_address, 4)
            || !user::access_ok(args.write_pointer_address, 4)
        {
            return Err(libc::EFAULT);
        }
        for address in [args.eop_buffer_address, args.ctx_save_restore_address] {
            if address != 0 && !user::access_ok(address, 4) {
                return Err(libc::EFAULT);
            }
        }
        let (kind, copy) = match args.queue_type {
            KFD_IOC_QUEUE_TYPE_COMPUTE => (QueueKind::Pm4, None),
            KFD_IOC_QUEUE_TYPE_COMPUTE_AQL => (QueueKind::Aql, None),
            KFD_IOC_QUEUE_TYPE_SDMA => (QueueKind::Sdma, Some(Copy::Host)),
            KFD_IOC_QUEUE_TYPE_SDMA_XGMI => (QueueKind::Sdma, Some(Copy::Links)),
            KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID => {
                (QueueKind::Sdma, Some(Copy::Engine(args.sdma_engine_id)))
            }
            _ => return Err(ENOTSUPP),
        };
        let index = self.gpu(args.gpu_id)?;
        self.bound(index, libc::ESRCH)?;
        let chip = self.gpus.get(index).ok_or(libc::EINVAL)?.chip;
        if let Some(Copy::Engine(engine)) = copy
            && engine >= chip.copy_engines + chip.link_engines
        {
            return Err(libc::EINVAL);
        }
        let doorbells = self.doorbells(index)?;
        let mut held = Vec::new();
        if self.options.exact_queues
            && let Err(errno) = self.acquire(index, kind, chip, args, &mut held)
        {
            self.release(index, &held);
            return Err(errno);
        }
        let made = self.make_queue(index, kind, copy, args, doorbells, held.clone());
        if made.is_err() {
            self.release(index, &held);
        }
        made
    }

    /// `kfd_queue_acquire_buffers`.
    fn acquire(
        &mut self,
        index: usize,
        kind: QueueKind,
        chip: &Chip,
        args: &kfd_ioctl_create_queue_args,
        held: &mut Vec<(Held, Owner)>,
    ) -> Result<(), i32> {
        held.push((
            Held::Other,
            self.hold(index, args.write_pointer_address, PAGE)?,
        ));
        held.push((
            Held::Other,
            self.hold(index, args.read_pointer_address, PAGE)?,
        ));
        let ring = self.hold(index, args.ring_base_address, u64::from(args.ring_size))?;
        held.push((Held::Ring, ring));
        if kind == QueueKind::Sdma {
            return Ok(());
        }
        if args.eop_buffer_address != 0 {
            // The kernel keeps the size in 32 bits.
            let bytes = args.eop_buffer_size & 0xFFFF_FFFF;
            if bytes < EOP_BYTES {
                return Err(libc::EINVAL);
            }
            let eop = self.hold(index, args.eop_buffer_address, bytes.next_multiple_of(PAGE))?;
            held.push((Held::Other, eop));
        }
        let area = chip.save_area();
        if args.ctl_stack_size != area.control_stack || args.ctx_save_restore_size < area.bytes {
            return Err(libc::EINVAL);
        }
        let one = u64::from(args.ctx_save_restore_size) + u64::from(area.debug);
        let all = (one * u64::from(chip.xccs)).next_multiple_of(PAGE);
        held.push((
            Held::Other,
            self.hold(index, args.ctx_save_restore_address, all)?,
        ));
        Ok(())
    }

    /// `kfd_queue_buffer_get`: the mapping that starts at the address's page and is as long as expected; less than a page is
    /// not compared.
    fn hold(&mut self, index: usize, address: u64, bytes: u64) -> Result<Owner, i32> {
        let process = self.process()?;
        let device = process.devices.get(index).ok_or(libc::EINVAL)?;
        let first = address / PAGE * PAGE;
        let (start, mapping) = device.table.at(first).ok_or(libc::EINVAL)?;
        if start != first || (bytes >= PAGE && mapping.bytes != bytes / PAGE * PAGE) {
            return Err(libc::EINVAL);
        }
        let owner = mapping.owner;
        let memory = self.memory_mut(owner).ok_or(libc::EINVAL)?;
        let uses = memory.mapped.get_mut(&index).ok_or(libc::EINVAL)?;
        *uses = uses.saturating_add(1);
        Ok(owner)
    }

    /// `kfd_queue_unref_bo_vas`.
    fn release(&mut self, index: usize, held: &[(Held, Owner)]) {
        for &(_, owner) in held {
            if let Some(uses) = self
                .memory_mut(owner)
                .and_then(|memory| memory.mapped.get_mut(&index))
            {
                *uses = uses.saturating_sub(1);
            }
        }
    }

    /// `pqm_create_queue`, `create_queue_cpsch`.
    fn make_queue(
        &mut self,
        index: usize,
        kind: QueueKind,
        copy: Option<Copy>,
        args: &mut kfd_ioctl_create_queue_args,
        doorbells: Arc<Block>,
        held: Vec<(Held, Owner)>,
    ) -> Result<(), i32> {
        let chip = self.gpus.get(index).ok_or(libc::EINVAL)?.chip;
        let process = self.process()?;
        let here = process
            .queues
            .values()
            .filter(|queue| queue.device == index)
            .count();
        if u32::try_from(here).unwrap_or(u32::MAX) >= chip.process_queues {
            return Err(libc::ENOSPC);
        }
        let number = lowest_free(&process.queues, 0);
        if number >= MAX_QUEUES {
            return Err(libc::ENOMEM);
        }
        // `init_user_queue`: the MES firmware reads the write pointer itself, on its own GPU.
        if chip.mes && held.first().is_some_and(|&(_, (home, _))| home != index) {
            return Err(libc::EINVAL);
        }
        let copy = match copy {
            Some(copy) => Some(self.take_copy_queue(index, &copy)?),
            None => None,
        };
        let doorbell = match copy {
            Some((links, queue)) => copy_doorbell(chip, links, queue),
            None => {
                let used = &self
                    .process()?
                    .devices
                    .get(index)
                    .ok_or(libc::EINVAL)?
                    .doorbell_used;
                let free = (0..MAX_QUEUES).find(|doorbell| !used.contains(doorbell));
                free.ok_or(libc::EBUSY)?
            }
        };
        let memory = QueueMemory {
            ring: args.ring_base_address,
            ring_bytes: u64::from(args.ring_size),
            read_pointer: args.read_pointer_address,
            write_pointer: args.write_pointer_address,
            eop: args.eop_buffer_address,
            eop_bytes: args.eop_buffer_size,
            save_area: args.ctx_save_restore_address,
            save_area_bytes: u64::from(args.ctx_save_restore_size),
            control_stack_bytes: u64::from(args.ctl_stack_size),
        };
        doorbells.store(u64::from(doorbell) * 8, silent(kind));
        let queue = Queue {
            device: index,
            kind,
            memory,
            percentage: args.queue_percentage,
            priority: args.queue_priority,
            doorbell,
            doorbells,
            copy,
            held,
            engine: self.engine(chip, kind, args.queue_percentage, memory),
            turn: self.new_turn(args.queue_priority),
            stopped: false,
        };
        if queue.engine.is_none() {
            let what = format!(
                "queue {number}: nobody simulates {kind:?} queues of {}",
                chip.name
            );
            self.reports.push(what);
        }
        let process = self.process()?;
        if let Some(device) = process.devices.get_mut(index) {
            device.doorbell_used.insert(doorbell);
            if device.evicted {
                let what =
                    format!("queue {number}: it does not run, its process is evicted from the GPU");
                self.reports.push(what);
            }
        }
        self.process()?.queues.insert(number, queue);
        args.queue_id = number;
        let place = u64::from(doorbell) * 8;
        args.doorbell_offset =
            mmap_offset(MmapType::Doorbell, args.gpu_id, place).ok_or(libc::EINVAL)?;
        Ok(())
    }

    fn engine(
        &self,
        chip: &Chip,
        kind: QueueKind,
        percentage: u32,
        memory: QueueMemory,
    ) -> Option<Box<dyn Engine>> {
        let request = EngineRequest {
            target: chip.name,
            xccs: u8::try_from(chip.xccs).unwrap_or(1),
            xcc: u8::try_from(percentage >> 8 & 0xFF).unwrap_or(0),
            kind,
            memory,
        };
        match &self.engines {
            Some(engines) => engines(&request),
            None => standard(&request),
        }
    }

    /// `allocate_sdma_queue`: which queue, and whether it is one of the engines for links.
    fn take_copy_queue(&mut self, index: usize, copy: &Copy) -> Result<(bool, u32), i32> {
        let gpu = self.gpus.get_mut(index).ok_or(libc::EINVAL)?;
        let hosts = gpu.chip.copy_engines;
        let (links, engine) = match *copy {
            Copy::Host => (false, None),
            Copy::Links => (true, None),
            Copy::Engine(engine) if engine < hosts => (false, Some(engine)),
            Copy::Engine(engine) => (true, Some(engine - hosts)),
        };
        let (free, engines) = if links {
            (&mut gpu.link_free, gpu.chip.link_engines)
        } else {
            (&mut gpu.copy_free, hosts)
        };
        let fits = |queue: &u32| {
            let of_engine = engine.is_none_or(|engine| queue.checked_rem(engines) == Some(engine));
            *free >> queue & 1 == 1 && of_engine
        };
        let queue = (0..u128::BITS).find(fits).ok_or(libc::ENOMEM)?;
        *free &= !(1 << queue);
        Ok((links, queue))
    }

    pub(super) fn give_back_copy_queue(&mut self, queue: &Queue) {
        let (Some((links, number)), Some(gpu)) = (queue.copy, self.gpus.get_mut(queue.device))
        else {
            return;
        };
        let free = if links {
            &mut gpu.link_free
        } else {
            &mut gpu.copy_free
        };
        *free |= 1 << number;
    }

    /// `pqm_destroy_queue`, `destroy_queue_cpsch`.
    pub(super) fn destroy_queue(&mut self, number: u32) -> Result<(), i32> {
        let queue = self.process()?.queues.remove(&number).ok_or(libc::EINVAL)?;
        if let Some(device) = self.process()?.devices.get_mut(queue.device)
            && queue.copy.is_none()
        {
            device.doorbell_used.remove(&queue.doorbell);
        }
        self.give_back_copy_queue(&queue);
        self.release(queue.device, &queue.held);
        Ok(())
    }

    /// `kfd_ioctl_update_queue`, `pqm_update_queue_properties`.
    pub(super) fn update_queue(&mut self, args: &kfd_ioctl_update_queue_args) -> Result<(), i32> {
        properties(
            args.queue_percentage,
            args.queue_priority,
            args.ring_base_address,
            args.ring_size,
        )?;
        let ring_bytes = u64::from(args.ring_size.max(KFD_MIN_QUEUE_RING_SIZE));
        let queue = self
            .process()?
            .queues
            .get(&args.queue_id)
            .ok_or(libc::EFAULT)?;
        let index = queue.device;
        if args.ring_base_address != 0 && self.options.exact_queues {
            let ring = self
                .hold(index, args.ring_base_address, ring_bytes)
                .map_err(|_| libc::EFAULT)?;
            let queue = self
                .process()?
                .queues
                .get_mut(&args.queue_id)
                .ok_or(libc::EFAULT)?;
            let old = queue.held.iter_mut().find(|(what, _)| *what == Held::Ring);
            let old = old.map(|(_, owner)| std::mem::replace(owner, ring));
            if let Some(old) = old {
                self.release(index, &[(Held::Ring, old)]);
            }
        }
        let chip = self.gpus.get(index).ok_or(libc::EINVAL)?.chip;
        let queue = self
            .process()?
            .queues
            .get_mut(&args.queue_id)
            .ok_or(libc::EFAULT)?;
        let ring = (args.ring_base_address, ring_bytes);
        let moved = ring != (queue.memory.ring, queue.memory.ring_bytes)
            || args.queue_percentage >> 8 != queue.percentage >> 8;
        (queue.memory.ring, queue.memory.ring_bytes) = (args.ring_base_address, ring_bytes);
        (queue.percentage, queue.priority) = (args.queue_percentage, args.queue_priority);
        queue.turn.wake();
        let (kind, memory) = (queue.kind, queue.memory);
        if moved && args.ring_base_address != 0 {
            let engine = self.engine(chip, kind, args.queue_percentage, memory);
            if let Some(queue) = self.process()?.queues.get_mut(&args.queue_id) {
                queue.engine = engine;
            }
        }
        Ok(())
    }

    /// `kfd_ioctl_set_cu_mask`, `pqm_update_mqd`. Which compute units run a program makes no difference here.
    pub(super) fn set_cu_mask(&mut self, args: &kfd_ioctl_set_cu_mask_args) -> Result<(), i32> {
        if args.num_cu_mask == 0 || !args.num_cu_mask.is_multiple_of(32) {
            return Err(libc::EINVAL);
        }
        let bits = args.num_cu_mask.min(MAX_CU_BITS);
        let mut mask = vec![0u8; usize::try_from(bits / 8).map_err(|_| libc::ENOMEM)?];
        user::read(args.cu_mask_ptr, &mut mask)?;
        let queue = self
            .process()?
            .queues
            .get(&args.queue_id)
            .ok_or(libc::EFAULT)?;
        let index = queue.device;
        let gpu = self.gpus.get(index).ok_or(libc::EFAULT)?;
        // Compute units in pairs have both or none.
        let odd = |byte: &u8| (byte ^ byte >> 1) & 0x55 != 0;
        if gpu.chip.target >= 100_000 && mask.iter().any(odd) {
            return Err(libc::EINVAL);
        }
        Ok(())
    }

    /// `pqm_get_wave_state`: only of a compute queue that does not run; here nothing is ever saved.
    pub(super) fn get_queue_wave_state(
        &mut self,
        args: &mut kfd_ioctl_get_queue_wave_state_args,
    ) -> Result<(), i32> {
        let process = self.process()?;
        let queue = process.queues.get(&args.queue_id).ok_or(libc::EFAULT)?;
        let evicted = process
            .devices
            .get(queue.device)
            .is_some_and(|device| device.evicted);
        if queue.kind == QueueKind::Sdma || (queue.active() && !evicted) {
            return Err(libc::EINVAL);
        }
        args.ctl_stack_used_size = 0;
        args.save_area_used_size = 0;
        Ok(())
    }

    /// `kfd_ioctl_alloc_queue_gws`.
    pub(super) fn alloc_queue_gws(
        &mut self,
        args: &kfd_ioctl_alloc_queue_gws_args,
    ) -> Result<(), i32> {
        let found = self.process()?.queues.contains_key(&args.queue_id);
        Err(if found { libc::ENODEV } else { libc::EINVAL })
    }
}

/// The engines of this crate.
fn standard(request: &EngineRequest) -> Option<Box<dyn Engine>> {
    let &EngineRequest {
        target,
        xccs,
        xcc,
        kind,
        memory,
    } = request;
    match kind {
        QueueKind::Pm4 => cp::pm4_on(target, xcc, xccs, memory),
        QueueKind::Aql => cp::aql(target, xccs, memory),
        QueueKind::Sdma => sdma::engine(target, memory),
    }
}

/// `allocate_doorbell` for copy engines: two queues of an engine are 512 doorbells apart, the next two follow.
fn copy_doorbell(chip: &Chip, links: bool, queue: u32) -> u32 {
    let (engines, first) = if links {
        (chip.link_engines, chip.copy_engines)
    } else {
        (chip.copy_engines, 0)
    };
    let engine = first + queue.checked_rem(engines).unwrap_or(0);
    let queue = queue.checked_div(engines).unwrap_or(0);
    let place = chip.doorbells;
    let base = (place.first_copy + engine * place.stride).next_multiple_of(place.align);
    base + (queue & 1) * DOORBELL_MIRROR + (queue >> 1)
}
