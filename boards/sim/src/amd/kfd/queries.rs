//! Calls about the process and its GPUs that make nothing: `kfd_chardev.c`.

use std::sync::Arc;

use hcq_uapi::kfd::{
    KFD_IOC_CACHE_POLICY_COHERENT, KFD_IOC_CACHE_POLICY_NONCOHERENT,
    KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK, NUM_OF_SUPPORTED_GPUS, kfd_ioctl_create_event_args,
    kfd_ioctl_get_clock_counters_args, kfd_ioctl_get_process_apertures_args,
    kfd_ioctl_get_process_apertures_new_args, kfd_ioctl_get_tile_config_args,
    kfd_ioctl_runtime_enable_args, kfd_ioctl_set_memory_policy_args,
    kfd_ioctl_set_scratch_backing_va_args, kfd_ioctl_set_trap_handler_args,
    kfd_ioctl_set_xnack_mode_args, kfd_process_device_apertures,
};

use super::Kernel;
use super::process::Kind;
use crate::machine::{clock, user};
use crate::vm::Backing;

impl Kernel {
    /// `kfd_ioctl_set_memory_policy`: since gfx9 the policies change nothing.
    pub(super) fn set_memory_policy(
        &mut self,
        args: &kfd_ioctl_set_memory_policy_args,
    ) -> Result<(), i32> {
        let known = [
            KFD_IOC_CACHE_POLICY_COHERENT,
            KFD_IOC_CACHE_POLICY_NONCOHERENT,
        ];
        if !known.contains(&args.default_policy) || !known.contains(&args.alternate_policy) {
            return Err(libc::EINVAL);
        }
        let index = self.gpu(args.gpu_id)?;
        self.bound(index, libc::ESRCH)
    }

    /// `kfd_ioctl_get_clock_counters`. Of an unknown GPU the count is 0.
    pub(super) fn get_clock_counters(
        &mut self,
        args: &mut kfd_ioctl_get_clock_counters_args,
    ) -> Result<(), i32> {
        let known = self.gpu(args.gpu_id).is_ok();
        args.gpu_clock_counter = if known { clock::gpu_ticks() } else { 0 };
        args.cpu_clock_counter = clock::raw_ns();
        args.system_clock_counter = clock::boot_ns();
        args.system_clock_freq = 1_000_000_000;
        Ok(())
    }

    /// `kfd_init_apertures_v9`; GPUs have 47 bits of addresses for processes.
    fn apertures(&self, index: usize) -> Option<kfd_process_device_apertures> {
        let gpu = self.gpus.get(index)?;
        Some(kfd_process_device_apertures {
            lds_base: 1 << 48,
            lds_limit: 1 << 48 | 0xFFFF_FFFF,
            scratch_base: 2 << 48,
            scratch_limit: 2 << 48 | 0xFFFF_FFFF,
            gpuvm_base: 1 << 16,
            gpuvm_limit: (1 << 47) - 1,
            gpu_id: gpu.id,
            pad: 0,
        })
    }

    /// `kfd_ioctl_get_process_apertures`.
    pub(super) fn get_process_apertures(
        &mut self,
        args: &mut kfd_ioctl_get_process_apertures_args,
    ) -> Result<(), i32> {
        let count = self.gpus.len().min(NUM_OF_SUPPORTED_GPUS);
        args.num_of_nodes = u32::try_from(count).unwrap_or(0);
        for (index, entry) in args.process_apertures.iter_mut().enumerate() {
            if let Some(apertures) = self.apertures(index) {
                *entry = apertures;
            }
        }
        Ok(())
    }

    /// `kfd_ioctl_get_process_apertures_new`.
    pub(super) fn get_process_apertures_new(
        &mut self,
        args: &mut kfd_ioctl_get_process_apertures_new_args,
    ) -> Result<(), i32> {
        let all = u32::try_from(self.gpus.len()).unwrap_or(0);
        if args.num_of_nodes == 0 {
            args.num_of_nodes = all;
            return Ok(());
        }
        // `kfd_topology_get_num_devices` counts the host's node too.
        if args.num_of_nodes > all + 1 {
            return Err(libc::EINVAL);
        }
        args.num_of_nodes = args.num_of_nodes.min(all);
        let mut to = args.kfd_process_device_apertures_ptr;
        for index in 0..usize::try_from(args.num_of_nodes).unwrap_or(0) {
            if let Some(apertures) = self.apertures(index) {
                user::put(to, &apertures)?;
            }
            to = to.saturating_add(size_of::<kfd_process_device_apertures>() as u64);
        }
        Ok(())
    }

    /// `kfd_ioctl_set_scratch_backing_va`.
    pub(super) fn set_scratch_backing_va(
        &mut self,
        args: &kfd_ioctl_set_scratch_backing_va_args,
    ) -> Result<(), i32> {
        let index = self.gpu(args.gpu_id)?;
        self.bound(index, libc::ENODEV)?;
        if let Some(device) = self.process()?.devices.get_mut(index) {
            device.scratch = args.va_addr;
        }
        Ok(())
    }

    /// `kfd_ioctl_get_tile_config`: these chips have no tables of tile modes.
    pub(super) fn get_tile_config(
        &mut self,
        args: &mut kfd_ioctl_get_tile_config_args,
    ) -> Result<(), i32> {
        self.gpu(args.gpu_id)?;
        args.num_tile_configs = 0;
        args.num_macro_tile_configs = 0;
        args.gb_addr_config = 0;
        args.num_banks = 0;
        args.num_ranks = 0;
        Ok(())
    }

    /// `kfd_ioctl_set_trap_handler`.
    pub(super) fn set_trap_handler(
        &mut self,
        args: &kfd_ioctl_set_trap_handler_args,
    ) -> Result<(), i32> {
        let index = self.gpu(args.gpu_id)?;
        self.bound(index, libc::ESRCH)?;
        if let Some(device) = self.process()?.devices.get_mut(index) {
            device.trap = (args.tba_addr, args.tma_addr);
        }
        Ok(())
    }

    /// `kfd_ioctl_set_xnack_mode`.
    pub(super) fn set_xnack_mode(
        &mut self,
        args: &mut kfd_ioctl_set_xnack_mode_args,
    ) -> Result<(), i32> {
        let supported = self.gpus.iter().all(|gpu| gpu.chip.xnack);
        let process = self.process()?;
        if args.xnack_enabled < 0 {
            args.xnack_enabled = i32::from(process.xnack);
            return Ok(());
        }
        if !process.queues.is_empty() {
            return Err(libc::EBUSY);
        }
        let on = args.xnack_enabled != 0;
        if on && !process.xnack && !supported {
            return Err(libc::EPERM);
        }
        process.xnack = on;
        Ok(())
    }

    /// `kfd_ioctl_runtime_enable`.
    pub(super) fn runtime_enable(
        &mut self,
        args: &kfd_ioctl_runtime_enable_args,
    ) -> Result<(), i32> {
        let process = self.process()?;
        if args.mode_mask & KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK == 0 {
            process.runtime = false;
            return Ok(());
        }
        if process.runtime {
            return Err(libc::EBUSY);
        }
        if !process.queues.is_empty() {
            return Err(libc::EEXIST);
        }
        process.runtime = true;
        Ok(())
    }

    /// `kfd_ioctl_create_event`, `kfd_kmap_event_page`.
    pub(super) fn create_event(
        &mut self,
        args: &mut kfd_ioctl_create_event_args,
    ) -> Result<(), i32> {
        let handle = args.event_page_offset;
        if handle != 0 {
            if self.process()?.events.page_handle().is_some() {
                return Err(libc::EINVAL);
            }
            let index = self.gpu(u32::try_from(handle >> 32).map_err(|_| libc::EINVAL)?)?;
            self.bound(index, libc::ENODEV)?;
            let number = u32::try_from(handle & 0xFFFF_FFFF).map_err(|_| libc::EINVAL)?;
            let memory = self.memory((index, number)).ok_or(libc::EINVAL)?;
            let bytes = memory.bytes;
            let block = match (&memory.backing, memory.kind) {
                (Backing::Block(block), Kind::Vram | Kind::Gtt) => Arc::clone(block),
                _ => return Err(libc::EINVAL),
            };
            self.process()?.events.set_page(block, bytes, handle)?;
        }
        let store = Arc::clone(&self.store);
        self.process()?.events.create(&store, args)
    }
}
