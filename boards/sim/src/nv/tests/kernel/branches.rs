//! Arguments are as long as in the branch of the driver that the machine has.

use super::*;

#[test]
fn every_branch_takes_its_own_arguments_and_no_others() {
    for version in [
        "535.288.01",
        "550.163.01",
        "570.211.01",
        "580.142",
        "590.48.01",
        "595.45.04",
    ] {
        let rig = Rig::new(&format!("nv-hopper,pace=manual,driver={version}"));
        let abi = rig.abi;
        let mut init = UVM_INITIALIZE_PARAMS::default();
        rig.ask(rig.uvm, &mut init).expect("initialized");
        let space = rig.external(0);
        rig.join(0).expect("joined");
        rig.join_space(0, space).expect("its space joined");
        let memory = rig.memory(0, true, 0x1_0000).expect("memory");
        rig.range(DATA, 0x1_0000).expect("a range");
        let mut short = Box::new(UVM_MAP_EXTERNAL_ALLOCATION_PARAMS_545::new_zeroed());
        let mut long = Box::new(UVM_MAP_EXTERNAL_ALLOCATION_PARAMS::new_zeroed());
        macro_rules! map {
            ($args:expr) => {{
                ($args.base, $args.length) = (DATA, 0x1_0000);
                $args.perGpuAttributes[0].gpuUuid = rig.gpus[0].uuid;
                $args.gpuAttributesCount = 1;
                ($args.hClient, $args.hMemory) = (rig.client, memory);
                rig.ask(rig.uvm, &mut *$args)
            }};
        }
        let mapped = if abi.map_external_gpus == 32 {
            map!(short)
        } else {
            map!(long)
        };
        assert_eq!(mapped, Ok(()), "{version}");
        let freed = if abi.free_length {
            let mut args = UVM_FREE_PARAMS_580 {
                base: DATA,
                length: 0x1_0000,
                ..Default::default()
            };
            rig.ask(rig.uvm, &mut args)
        } else {
            let mut args = UVM_FREE_PARAMS {
                base: DATA,
                ..Default::default()
            };
            rig.ask(rig.uvm, &mut args)
        };
        assert_eq!(freed, Ok(()), "{version}");
        let group = rig
            .group(0, space, NV2080_ENGINE_TYPE_COPY0)
            .expect("a group");
        let mut params = NV_CHANNEL_ALLOC_PARAMS {
            gpFifoOffset: RING,
            gpFifoEntries: 64,
            ..NV_CHANNEL_ALLOC_PARAMS::new_zeroed()
        };
        rig.alloc(group, 0, HOPPER_CHANNEL_GPFIFO_A, &mut params)
            .expect("a channel");
        assert_eq!(rig.schedule(group, true), Ok(()), "{version}");
        // A struct of another branch is a mistake where the kernel looks at its length.
        let mut three = [1u8, 0, 0, 0];
        let mut args = NVOS54_PARAMETERS {
            hClient: rig.client,
            hObject: group,
            cmd: NVA06C_CTRL_CMD_GPFIFO_SCHEDULE,
            params: at(&mut three),
            paramsSize: if abi.schedule == 2 { 3 } else { 2 },
            ..Default::default()
        };
        assert_eq!(
            rig.ask(rig.control, &mut args),
            Err(NV_ERR_INVALID_ARGUMENT),
            "{version}"
        );
        // And where the request's size says it.
        let mut bytes = [0u64; 16];
        let dma = |size| ioctl::iowr(NV_IOCTL_MAGIC, NV_ESC_RM_MAP_MEMORY_DMA, size);
        let undma = |size| ioctl::iowr(NV_IOCTL_MAGIC, NV_ESC_RM_UNMAP_MEMORY_DMA, size);
        let (right, wrong) = if abi.map_dma_flags2 {
            (64, 56)
        } else {
            (56, 64)
        };
        let raw = |request, bytes: &mut [u64; 16]| rig.raw(rig.control, request, at(bytes));
        assert_eq!(raw(dma(right), &mut bytes), Ok(0), "{version}");
        assert_eq!(raw(dma(wrong), &mut bytes), Err(libc::EINVAL), "{version}");
        let (right, wrong) = if abi.unmap_dma_size {
            (48, 40)
        } else {
            (40, 48)
        };
        assert_eq!(raw(undma(right), &mut bytes), Ok(0), "{version}");
        assert_eq!(
            raw(undma(wrong), &mut bytes),
            Err(libc::EINVAL),
            "{version}"
        );
        assert_eq!(rig.reports(), "", "{version}");
    }
}
