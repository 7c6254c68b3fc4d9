//! What the kernel says of its GPUs: `/sys/devices/virtual/kfd/kfd/topology` (`kfd_topology.c`, `kfd_sysfs.h`).

use hcq_uapi::kfd::{
    HSA_IOLINK_TYPE_XGMI, HSA_MEM_HEAP_TYPE_FB_PRIVATE, HSA_MEM_HEAP_TYPE_FB_PUBLIC,
};

use super::text::{Text, Trouble, numbered};
use crate::candidates::Attempt;
use crate::seam::{Errno, System};

/// Where the nodes are.
pub(crate) const NODES: &str = "/sys/devices/virtual/kfd/kfd/topology/nodes";
/// `GC_HWID` of the kernel's soc15_hw_ip.h: graphics and compute.
pub(crate) const GC_HWID: u16 = 11;
/// `SDMA0_HWID`: the copy engines.
pub(crate) const SDMA_HWID: u16 = 42;
/// `NBIF_HWID`: the bus interface.
pub(crate) const NBIF_HWID: u16 = 108;

/// A GPU of the topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// Number of the topology's folder.
    pub(crate) index: u32,
    /// The number that ioctls take.
    pub(crate) gpu_id: u32,
    /// Decimal `MMmmss`: 110000 is gfx1100, 90402 gfx942.
    pub(crate) gfx_target_version: u32,
    /// The kernel's name of the chip.
    pub(crate) name: String,
    /// PCI vendor, device, and bus location.
    pub(crate) vendor_id: u32,
    pub(crate) device_id: u32,
    pub(crate) location_id: u32,
    pub(crate) domain: u32,
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
    /// Bytes that a queue's context takes on each die, without the debugger's; from the topology, or by the kernel's rule.
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
    /// `HSA_CAP_*`.
    pub(crate) capability: u32,
    pub(crate) fw_version: u32,
    pub(crate) sdma_fw_version: u32,
    pub(crate) unique_id: u64,
    pub(crate) hive_id: u64,
    pub(crate) drm_render_minor: u32,
    pub(crate) banks: Vec<Bank>,
    /// Bytes of device memory inside the host's window, if the driver says.
    pub(crate) window_bytes: Option<u64>,
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
    /// From `p2p_links`: GPUs whose drivers let them reach each other over the host's bus.
    pub(crate) peer: bool,
    /// `HSA_IOLINK_TYPE_*`: 2 PCIe, 11 XGMI.
    pub(crate) kind: u32,
    pub(crate) weight: u32,
    /// `HSA_IOLINK_FLAGS_*`.
    pub(crate) flags: u32,
    /// SDMA engines that the driver recommends for this way, a bit each; 0 if it says nothing.
    pub(crate) sdma_mask: u32,
}

/// A block of the chip, from the kernel's `ip_discovery`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IpBlock {
    /// [`GC_HWID`], [`SDMA_HWID`] or [`NBIF_HWID`].
    pub(crate) hwid: u16,
    pub(crate) instance: u32,
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

    /// Bytes of device memory that the driver lets the host map: all or nothing.
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

    /// The node's file that grants access to its memory.
    pub(crate) fn render_node(&self) -> String {
        format!("/dev/dri/renderD{}", self.drm_render_minor)
    }

    /// The way from this node to another.
    pub(crate) fn link_to(&self, index: u32) -> Option<&Link> {
        let links = self.links.iter().filter(|l| l.to == index);
        links.min_by_key(|l| (l.kind != HSA_IOLINK_TYPE_XGMI, l.weight))
    }

    /// Bytes of a queue's whole context area, of all dies: what `kfd_queue_acquire_buffers` expects.
    pub(crate) fn context_bytes(&self, page: usize) -> usize {
        let die = u64::from(self.cwsr_bytes) + u64::from(self.debug_bytes);
        let all = die * u64::from(self.xccs.max(1));
        usize::try_from(all).map_or(usize::MAX, |n| n.next_multiple_of(page))
    }
}

/// The kernel's rule for the context area (`kfd_queue_ctx_save_restore_size` in kfd_queue.c), for kernels before 6.12, which
/// do not tell the sizes.
fn context_rule(node: &mut Node, page: u64, told_cwsr: u32, told_stack: u32) {
    let version = node.gfx_target_version;
    let dies = u64::from(node.xccs.max(1));
    let units = u64::from(node.compute_units()) / dies;
    let waves = if version < 100_100 {
        let engines = u64::from(node.array_count)
            .checked_div(u64::from(node.simd_arrays_per_engine))
            .unwrap_or(0)
            / dies;
        (units * 40).min(engines * 512)
    } else {
        units * 32
    };
    let vgprs: u64 = match version {
        90_008 | 90_010 | 90_400..=90_402 | 90_500 => 0x80000,
        110_000 | 110_001 | 110_501 | 120_000 | 120_001 => 0x60000,
        _ => 0x40000,
    };
    let lds = match version {
        90_500 => u64::from(node.lds_size_in_kb) << 10,
        _ => 0x10000,
    };
    let (sgprs, registers) = (0x4000, 0x1000);
    let waves_data = (units * (vgprs + sgprs + lds + registers)).next_multiple_of(page);
    let per_wave = if version >= 100_100 { 12 } else { 8 };
    // 40 bytes of header, 8 more of stack.
    let mut stack = (40 + waves * per_wave + 8).next_multiple_of(page);
    if version / 10000 == 10 {
        stack = stack.min(0x7000);
    }
    let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    node.ctl_stack_bytes = if told_stack > 0 {
        told_stack
    } else {
        narrow(stack)
    };
    node.cwsr_bytes = if told_cwsr > 0 {
        told_cwsr
    } else {
        narrow(stack + waves_data)
    };
    node.debug_bytes = narrow((waves * 32).next_multiple_of(64));
    node.eop_bytes = 4096;
}

/// The GPUs in order, and what could not be read and why.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    pub(crate) nodes: Vec<Node>,
    pub(crate) skipped: Vec<Attempt>,
}

impl Topology {
    /// Reads the topology. Nodes that the system keeps to itself or that go meanwhile are left out.
    pub(super) fn read(system: &dyn System) -> Result<Self, Trouble> {
        let page = crate::seam::page_bytes() as u64;
        let mut topology = Self::default();
        for index in numbered(system, NODES)? {
            match read_node(system, index, page, &mut topology.skipped) {
                Ok(node) => topology.nodes.extend(node),
                Err(trouble @ Trouble::System { errno, .. }) => {
                    topology.skipped.push(trouble.into_attempt(hint(errno)));
                }
                Err(malformed) => return Err(malformed),
            }
        }
        Ok(topology)
    }
}

fn hint(errno: Errno) -> &'static str {
    match errno {
        Errno::PERM | Errno::ACCES => {
            "the container or cgroup has no access to this GPU's render node (docker: --device /dev/dri)"
        }
        Errno::NOENT | Errno::NODEV | Errno::NXIO => "the GPU went away meanwhile",
        _ => "",
    }
}

/// `None` for processors.
fn read_node(
    system: &dyn System,
    index: u32,
    page: u64,
    skipped: &mut Vec<Attempt>,
) -> Result<Option<Node>, Trouble> {
    let gpu_id: u32 = Text::read(system, format!("{NODES}/{index}/gpu_id"))?.number()?;
    if gpu_id == 0 {
        return Ok(None);
    }
    let p = Text::read(system, format!("{NODES}/{index}/properties"))?;
    let mut node = Node {
        index,
        gpu_id,
        gfx_target_version: p.needed("gfx_target_version")?,
        vendor_id: p.optional("vendor_id")?,
        device_id: p.optional("device_id")?,
        location_id: p.optional("location_id")?,
        domain: p.optional("domain")?,
        simd_count: p.needed("simd_count")?,
        simd_per_cu: p.needed("simd_per_cu")?,
        array_count: p.needed("array_count")?,
        simd_arrays_per_engine: p.needed("simd_arrays_per_engine")?,
        cu_per_simd_array: p.needed("cu_per_simd_array")?,
        xccs: p.property("num_xcc")?.unwrap_or(1).max(1),
        max_waves_per_simd: p.needed("max_waves_per_simd")?,
        max_slots_scratch_cu: p.needed("max_slots_scratch_cu")?,
        lds_size_in_kb: p.needed("lds_size_in_kb")?,
        wave_front_size: p.needed("wave_front_size")?,
        sdma_engines: p.optional("num_sdma_engines")?,
        sdma_xgmi_engines: p.optional("num_sdma_xgmi_engines")?,
        sdma_queues_per_engine: p.optional("num_sdma_queues_per_engine")?,
        cp_queues: p.optional("num_cp_queues")?,
        capability: p.optional("capability")?,
        fw_version: p.optional("fw_version")?,
        sdma_fw_version: p.optional("sdma_fw_version")?,
        unique_id: p.optional("unique_id")?,
        hive_id: p.optional("hive_id")?,
        drm_render_minor: p.needed("drm_render_minor")?,
        ..Node::default()
    };
    context_rule(
        &mut node,
        page,
        p.optional("cwsr_size")?,
        p.optional("ctl_stack_size")?,
    );
    node.banks = read_banks(system, index)?;
    node.links = read_links(system, index, "io_links", false)?;
    node.links
        .extend(read_links(system, index, "p2p_links", true)?);
    let device = format!("/sys/class/drm/renderD{}/device", node.drm_render_minor);
    node.name = read_name(system, index, &device);
    let window = Text::read(system, format!("{device}/mem_info_vis_vram_total"));
    node.window_bytes = window.ok().and_then(|text| text.number().ok());
    // Without it the node can be listed, and whoever needs register addresses says what is missing.
    match read_ips(system, &format!("{device}/ip_discovery/die/0")) {
        Ok(ips) => node.ips = ips,
        Err(trouble @ Trouble::System { .. }) => {
            let hint = "register addresses are read there; Linux 5.18 or later is needed, and /sys in containers";
            skipped.push(trouble.into_attempt(hint));
        }
        Err(malformed) => return Err(malformed),
    }
    Ok(Some(node))
}

/// The name on the box if the board tells it, else the kernel's, which on newer chips is no name.
fn read_name(system: &dyn System, index: u32, device: &str) -> String {
    let paths = [
        format!("{device}/product_name"),
        format!("{NODES}/{index}/name"),
    ];
    let texts = paths.into_iter().filter_map(|p| Text::read(system, p).ok());
    let mut names = texts.map(|text| {
        text.line()
            .chars()
            .filter(|c| !c.is_control())
            .take(64)
            .collect()
    });
    let named = |name: &String| !name.is_empty() && name != "ip discovery";
    names.find(named).unwrap_or_default()
}

/// The entries of a folder of a node; a folder that is not there is empty.
fn entries(system: &dyn System, path: &str) -> Result<Vec<u32>, Trouble> {
    match numbered(system, path) {
        Err(Trouble::System {
            errno: Errno::NOENT,
            ..
        }) => Ok(Vec::new()),
        other => other,
    }
}

fn read_banks(system: &dyn System, index: u32) -> Result<Vec<Bank>, Trouble> {
    let folder = format!("{NODES}/{index}/mem_banks");
    let mut banks = Vec::new();
    for bank in entries(system, &folder)? {
        let text = Text::read(system, format!("{folder}/{bank}/properties"))?;
        let public = match text.needed::<u32>("heap_type")? {
            HSA_MEM_HEAP_TYPE_FB_PUBLIC => true,
            HSA_MEM_HEAP_TYPE_FB_PRIVATE => false,
            _ => continue,
        };
        let bytes = text.needed("size_in_bytes")?;
        banks.push(Bank { bytes, public });
    }
    Ok(banks)
}

fn read_links(
    system: &dyn System,
    index: u32,
    kind: &str,
    peer: bool,
) -> Result<Vec<Link>, Trouble> {
    let folder = format!("{NODES}/{index}/{kind}");
    let mut links = Vec::new();
    for link in entries(system, &folder)? {
        let text = match Text::read(system, format!("{folder}/{link}/properties")) {
            // The GPU at the other end is not this process's.
            Err(Trouble::System {
                errno: Errno::PERM, ..
            }) => continue,
            other => other?,
        };
        links.push(Link {
            to: text.needed("node_to")?,
            peer,
            kind: text.optional("type")?,
            weight: text.optional("weight")?,
            flags: text.optional("flags")?,
            sdma_mask: text.optional("recommended_sdma_engine_id_mask")?,
        });
    }
    Ok(links)
}

fn read_ips(system: &dyn System, folder: &str) -> Result<Vec<IpBlock>, Trouble> {
    let mut ips = Vec::new();
    let present = numbered(system, folder)?;
    for hwid in [GC_HWID, SDMA_HWID, NBIF_HWID] {
        if !present.contains(&hwid.into()) {
            continue;
        }
        let folder = format!("{folder}/{hwid}");
        for instance in numbered(system, &folder)? {
            let file = |name| Text::read(system, format!("{folder}/{instance}/{name}"));
            ips.push(IpBlock {
                hwid,
                instance,
                version: (
                    file("major")?.number()?,
                    file("minor")?.number()?,
                    file("revision")?.number()?,
                ),
                bases: file("base_addr")?.numbers()?,
            });
        }
    }
    Ok(ips)
}

#[cfg(test)]
mod tests;
