//! Whatever a process says, the kernel answers.

use super::*;

/// Numbers that mean something here and there, and some that do not.
fn number(random: &mut fastrand::Rng, known: &[u32]) -> u32 {
    match random.u8(..8) {
        0..5 => known[random.usize(..known.len())],
        5 => random.u32(..16),
        6 => u32::MAX,
        _ => random.u32(..),
    }
}

#[test]
fn nothing_that_a_process_says_takes_the_kernel_down() {
    for seed in 0..24 {
        let random = &mut fastrand::Rng::with_seed(seed);
        let rig = Rig::new(&format!("nv-ampere,pace=manual,gpus=2,seed={seed},vram=64"));
        let spaces = rig.spaces();
        let group = rig
            .group(0, spaces[0], NV2080_ENGINE_TYPE_GRAPHICS)
            .expect("a group");
        let channel = rig.channel(0, 0, group, spaces[0]);
        let memory = rig.memory(0, false, 0x1_0000).expect("memory");
        let mut buffer = vec![0u64; 2048];
        let inner = at(&mut buffer[1024]);
        let files = [rig.control, rig.gpus[0].file, rig.uvm, rig.gpus[1].file];
        let handles = [
            rig.client,
            rig.gpus[0].device,
            rig.gpus[0].subdevice,
            spaces[0],
            group,
        ];
        let more = [channel.handle, memory, 0, 1, 4096];
        let classes = [
            NV01_DEVICE_0,
            NV20_SUBDEVICE_0,
            FERMI_VASPACE_A,
            NV01_MEMORY_SYSTEM,
            NV01_MEMORY_LOCAL_USER,
            NV01_MEMORY_VIRTUAL,
            KEPLER_CHANNEL_GROUP_A,
            FERMI_CONTEXT_SHARE_A,
            AMPERE_CHANNEL_GPFIFO_A,
            AMPERE_COMPUTE_B,
            AMPERE_DMA_COPY_B,
            AMPERE_USERMODE_A,
            GT200_DEBUGGER,
            NV01_EVENT,
            NV01_EVENT_OS_EVENT,
        ];
        let commands = [
            NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2,
            NV0080_CTRL_CMD_GPU_GET_CLASSLIST,
            NV2080_CTRL_CMD_GPU_GET_GID_INFO,
            NV2080_CTRL_CMD_GR_GET_INFO,
            NV2080_CTRL_CMD_FB_GET_INFO,
            NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION,
            NV906F_CTRL_CMD_GET_MMU_FAULT_INFO,
            NVA06C_CTRL_CMD_GPFIFO_SCHEDULE,
            NVA06F_CTRL_CMD_BIND,
            NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN,
            NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES,
        ];
        let mut known: Vec<u32> = Vec::new();
        let indices = [
            NV2080_NOTIFIERS_FIFO_EVENT_MTHD | NV01_EVENT_NONSTALL_INTR,
            NV2080_NOTIFIERS_RC_ERROR | NV01_EVENT_WITHOUT_EVENT_DATA,
        ];
        for list in [&handles[..], &more, &classes, &commands, &indices] {
            known.extend(list);
        }
        let sizes = [4, 8, 16, 16, 32, 32, 32, 48, 56, 56, 64, 72];
        let numbers = [
            NV_ESC_RM_ALLOC,
            NV_ESC_RM_FREE,
            NV_ESC_RM_CONTROL,
            NV_ESC_RM_ALLOC_MEMORY,
            NV_ESC_RM_MAP_MEMORY,
            NV_ESC_RM_UNMAP_MEMORY,
            NV_ESC_RM_MAP_MEMORY_DMA,
            NV_ESC_RM_UNMAP_MEMORY_DMA,
            NV_ESC_REGISTER_FD,
            NV_ESC_ALLOC_OS_EVENT,
            NV_ESC_FREE_OS_EVENT,
            NV_ESC_RM_GET_EVENT_DATA,
            NV_ESC_CARD_INFO,
            211,
        ];
        let uvm = [
            UVM_INITIALIZE,
            UVM_MM_INITIALIZE,
            UVM_REGISTER_GPU,
            UVM_UNREGISTER_GPU,
            UVM_REGISTER_GPU_VASPACE,
            UVM_UNREGISTER_GPU_VASPACE,
            UVM_REGISTER_CHANNEL,
            UVM_UNREGISTER_CHANNEL,
            UVM_ENABLE_PEER_ACCESS,
            UVM_DISABLE_PEER_ACCESS,
            UVM_CREATE_EXTERNAL_RANGE,
            UVM_MAP_EXTERNAL_ALLOCATION,
            UVM_UNMAP_EXTERNAL,
            UVM_FREE,
            39,
            72,
        ];
        for _ in 0..1500 {
            for place in (0..12).chain(1024..1030) {
                let low = number(random, &known);
                buffer[place] = match random.u8(..6) {
                    0 => inner,
                    1 => DATA + (u64::from(random.u8(..4)) << 12),
                    2 => u64::from(low),
                    _ => u64::from(low) | u64::from(number(random, &known)) << 32,
                };
            }
            let file = files[random.usize(..files.len())];
            let request = if file == rig.uvm {
                uvm[random.usize(..uvm.len())]
            } else {
                let size = sizes[random.usize(..sizes.len())];
                ioctl::iowr(NV_IOCTL_MAGIC, numbers[random.usize(..numbers.len())], size)
            };
            if random.bool() && file == rig.uvm {
                let uuid = rig.gpus[random.usize(..2)].uuid;
                buffer[0] = u64::from_le_bytes(uuid.uuid[..8].try_into().expect("8"));
                buffer[1] = u64::from_le_bytes(uuid.uuid[8..].try_into().expect("8"));
            }
            // Whatever it answers, it answers.
            let _ = rig.raw(file, request, at(&mut buffer[0]));
            if random.u8(..8) == 0 {
                channel.ring();
                let _ = rig.machine.step();
            }
        }
        // It still works for somebody who knows what to say.
        let fresh = rig
            .machine
            .open(Path::new("/dev/nvidiactl"), true)
            .expect("opens");
        assert!(rig.root(fresh).is_ok());
    }
}
