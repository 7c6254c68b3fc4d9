//! What the kernel says of its GPUs: `/sys/devices/virtual/kfd/kfd/topology`.

/// A GPU of the topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// Number of the topology's folder.
    pub(crate) index: u32,
    /// The number that ioctls take.
    pub(crate) gpu_id: u32,
    /// Decimal `MMmmss`: 110000 is gfx1100, 90402 gfx942.
    pub(crate) gfx_target_version: u32,
    /// The marketing name, or the kernel's name of the chip.
    pub(crate) name: String,
    /// SIMDs of all dies.
    pub(crate) simd_count: u32,
    /// SIMDs of one compute unit.
    pub(crate) simd_per_cu: u32,
    /// Shader arrays of all dies.
    pub(crate) array_count: u32,
    /// Shader arrays of one engine.
    pub(crate) simd_arrays_per_engine: u32,
    /// Compute units of one shader array.
    pub(crate) cu_per_simd_array: u32,
    /// Dies that run one queue together, at least 1.
    pub(crate) xccs: u32,
    pub(crate) max_waves_per_simd: u32,
    pub(crate) max_slots_scratch_cu: u32,
    pub(crate) lds_size_in_kb: u32,
    pub(crate) wave_front_size: u32,
    /// Bytes that a queue's context takes for each die, without the debugger's; from the topology, or by the kernel's rule.
    pub(crate) cwsr_bytes: u32,
    /// Bytes of the control stack in it.
    pub(crate) ctl_stack_bytes: u32,
    /// Bytes of the debugger's area for each die.
    pub(crate) debug_bytes: u32,
    /// Bytes of the end-of-pipe buffer.
    pub(crate) eop_bytes: u32,
    pub(crate) sdma_engines: u32,
    pub(crate) sdma_xgmi_engines: u32,
    pub(crate) sdma_queues_per_engine: u32,
    pub(crate) cp_queues: u32,
    /// `HSA_CAP_*` of the kernel's kfd_topology.h.
    pub(crate) capability: u32,
    pub(crate) fw_version: u32,
    pub(crate) sdma_fw_version: u32,
    pub(crate) unique_id: u64,
    pub(crate) drm_render_minor: u32,
    pub(crate) banks: Vec<Bank>,
    pub(crate) links: Vec<Link>,
    pub(crate) ips: Vec<IpBlock>,
}

/// Memory of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bank {
    pub(crate) bytes: u64,
    /// Whether the host reaches all of it: a large BAR.
    pub(crate) public: bool,
}

/// A way to another node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    /// Index of the node at the other end.
    pub(crate) to: u32,
    /// Whether both ends are GPUs whose driver lets them reach each other.
    pub(crate) peer: bool,
    /// 2 PCIe, 11 XGMI.
    pub(crate) kind: u32,
    pub(crate) weight: u32,
}

/// A block of the chip, from the kernel's `ip_discovery`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IpBlock {
    /// `*_HWID` of the kernel's soc15_hw_ip.h: 11 graphics and compute, 42 SDMA, 108 bus interface.
    pub(crate) hwid: u16,
    pub(crate) instance: u16,
    /// Major, minor, revision.
    pub(crate) version: (u8, u8, u8),
    /// Dword addresses of its register segments.
    pub(crate) bases: Vec<u32>,
}

impl Node {
    /// Compute units of all dies.
    pub(crate) fn compute_units(&self) -> u32 {
        self.simd_count.checked_div(self.simd_per_cu).unwrap_or(0)
    }

    /// Bytes of device memory.
    pub(crate) fn vram_bytes(&self) -> u64 {
        self.banks.iter().fold(0, |n, b| n.saturating_add(b.bytes))
    }

    /// Bytes of device memory that the host reaches.
    pub(crate) fn visible_bytes(&self) -> u64 {
        let public = self.banks.iter().filter(|b| b.public);
        public.fold(0, |n, b| n.saturating_add(b.bytes))
    }

    /// The name of its instruction set: `gfx942`.
    pub(crate) fn target(&self) -> String {
        let v = self.gfx_target_version;
        format!("gfx{}{:x}{:x}", v / 10000, v / 100 % 100, v % 100)
    }

    /// The first instance of a block.
    pub(crate) fn ip(&self, hwid: u16) -> Option<&IpBlock> {
        self.ips.iter().find(|ip| ip.hwid == hwid)
    }
}
