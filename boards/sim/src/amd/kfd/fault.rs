//! What happens when an engine stops.

use hcq_uapi::kfd::{
    EC_QUEUE_PACKET_DISPATCH_CODE_INVALID, EC_QUEUE_PACKET_UNSUPPORTED, KFD_HW_EXCEPTION_GPU_HANG,
    KFD_HW_EXCEPTION_WHOLE_GPU_RESET, kfd_context_save_area_header, kfd_ec_mask,
    kfd_hsa_hw_exception_data, kfd_hsa_memory_exception_data, kfd_memory_exception_failure,
};

use super::{Kernel, QueueKind};
use crate::engine::{Cause, Fault};
use crate::machine::{PAGE, user};
use crate::vm::{Need, PageFault, PageFaultReason};

impl Kernel {
    /// A queue's engine has stopped.
    pub(super) fn fault(&mut self, number: u32, fault: &Fault) {
        let Some(queue) = self
            .process
            .as_mut()
            .and_then(|process| process.queues.get_mut(&number))
        else {
            return;
        };
        queue.stopped = true;
        let (index, kind) = (queue.device, queue.kind);
        let gpu_id = self.gpus.get(index).map_or(0, |gpu| gpu.id);
        self.reports.push(format!(
            "queue {number} ({kind:?}) of GPU {gpu_id:#x}: {fault}"
        ));
        match &fault.cause {
            Cause::Memory(page) => self.memory_fault(index, gpu_id, page),
            Cause::Packet(_) => self.hang(index, gpu_id, number, EC_QUEUE_PACKET_UNSUPPORTED),
            Cause::Launch(_) => {
                self.hang(index, gpu_id, number, EC_QUEUE_PACKET_DISPATCH_CODE_INVALID)
            }
            Cause::Program(_) => self.hang(index, gpu_id, number, 0),
        }
    }

    /// `event_interrupt_wq_v9` and `_v11` for UTCL2 faults, `kfd_dqm_evict_pasid`, `kfd_signal_vm_fault_event`.
    fn memory_fault(&mut self, index: usize, gpu_id: u32, page: &PageFault) {
        let Some(process) = &mut self.process else {
            return;
        };
        if let Some(device) = process.devices.get_mut(index) {
            device.evicted = true;
        }
        let failure = kfd_memory_exception_failure {
            NotPresent: u32::from(page.reason == PageFaultReason::NotPresent),
            ReadOnly: u32::from(page.reason == PageFaultReason::ReadOnly),
            NoExecute: u32::from(
                page.reason == PageFaultReason::NoExecute || page.need == Need::Execute,
            ),
            imprecise: 0,
        };
        let told = process
            .events
            .memory_exception(kfd_hsa_memory_exception_data {
                failure,
                va: page.address / PAGE * PAGE,
                gpu_id,
                ErrorType: 0,
            });
        if !told {
            let what = "the process has no event for memory exceptions: nobody was told";
            self.reports.push(what.into());
        }
    }

    /// An engine, or somebody's program in it, has broken down: every queue stops, and the process is told as after a hang.
    pub(super) fn stop_all(&mut self, why: &str) {
        self.reports
            .push(format!("the engines have stopped: {why}"));
        for index in 0..self.gpus.len() {
            let gpu_id = self.gpus.get(index).map_or(0, |gpu| gpu.id);
            self.hang(index, gpu_id, u32::MAX, 0);
        }
    }

    /// A packet that the engine does not take, or a program without an end: the runtime is told through its save area
    /// (`kfd_send_exception_to_runtime`), the GPU is reset (`kfd_signal_reset_event`).
    fn hang(&mut self, index: usize, gpu_id: u32, number: u32, code: u32) {
        let Some(process) = &mut self.process else {
            return;
        };
        let queue = process.queues.get(&number);
        let area = queue.filter(|queue| queue.kind != QueueKind::Sdma && code != 0);
        if let Some(area) = area.map(|queue| queue.memory.save_area)
            && process.runtime
            && let Ok(header) = user::get::<kfd_context_save_area_header>(area)
        {
            if let Ok(bits) = user::get::<u64>(header.err_payload_addr) {
                // What cannot be written is nobody's to read.
                let _ = user::put(header.err_payload_addr, &(bits | kfd_ec_mask(code)));
            }
            // An unknown event is ignored, as there.
            let _ = process.events.set(header.err_event_id);
        }
        for queue in process.queues.values_mut() {
            queue.stopped |= queue.device == index;
        }
        let told = process
            .events
            .hardware_exception(kfd_hsa_hw_exception_data {
                reset_type: KFD_HW_EXCEPTION_WHOLE_GPU_RESET,
                reset_cause: KFD_HW_EXCEPTION_GPU_HANG,
                memory_lost: 1,
                gpu_id,
            });
        if !told {
            let what = "the process has no event for hardware exceptions: nobody was told";
            self.reports.push(what.into());
        }
    }
}
