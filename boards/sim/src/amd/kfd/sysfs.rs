//! What sysfs tells of the GPUs: the topology of `kfd_topology.c`, the render nodes' devices of `amdgpu`.

use std::fmt::Write;

use super::{Gpu, Kernel, identity};
use crate::amd::chip::{CacheKind, Chip};
use crate::amd::options::Kfd;
use crate::machine::tree::Tree;

mod links;

/// The driver's own directory, and the link to it.
const CLASS: &str = "/sys/devices/virtual/kfd/kfd";
const CLASS_LINK: &str = "/sys/class/kfd/kfd";
const TOPOLOGY: &str = "/sys/devices/virtual/kfd/kfd/topology";
const DRM: &str = "/sys/class/drm";

/// `HSA_MEM_HEAP_TYPE_*`.
const HEAP_PUBLIC: u32 = 1;
const HEAP_PRIVATE: u32 = 2;
/// The host: cores, MHz.
const HOST_CORES: u32 = 16;
const HOST_CLOCK: u32 = 4500;
/// `HSA_CAP_*` that every chip here has: watch points (4 of them), doorbells of 64 bits, the debugger's three, its firmware.
const CAPABILITY: u32 = 0x80 | 2 << 8 | 2 << 12 | 0x8000 | 0x1_0000 | 0x2_0000 | 0x2000_0000;
const REVISION_SHIFT: u32 = 22;
/// Processor numbers of GPUs begin here: `gpu_processor_id_low`.
const FIRST_PROCESSOR: u32 = 0x8000_1000;

/// Lines of `name value`.
struct Lines(String);

impl Lines {
    fn line(&mut self, name: &str, value: impl Into<u64>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{name} {}", value.into());
    }
}

pub(crate) fn tree(kernel: &Kernel) -> Tree {
    let mut tree = Tree::default();
    tree.link(CLASS_LINK, CLASS);
    for gpu in &kernel.gpus {
        device(gpu, &mut tree);
    }
    if kernel.options.kfd == Kfd::Missing {
        return tree;
    }
    // The kernel chooses the major.
    tree.add(format!("{CLASS}/dev"), "235:0\n".into());
    // One change for the host's node, one for each GPU.
    let generation = kernel.gpus.len() + 1;
    tree.add(
        format!("{TOPOLOGY}/generation_id"),
        format!("{generation}\n"),
    );
    let mut system = Lines(String::new());
    for name in ["platform_oem", "platform_id", "platform_rev"] {
        system.line(name, 0u32);
    }
    tree.add(format!("{TOPOLOGY}/system_properties"), system.0);
    host_node(kernel, &mut tree);
    let mut processor = FIRST_PROCESSOR;
    for gpu in &kernel.gpus {
        gpu_node(kernel, gpu, processor, &mut tree);
        let chip = gpu.chip;
        processor = processor.wrapping_add(chip.engines * chip.arrays * chip.array_units);
    }
    tree
}

fn node_files(tree: &mut Tree, node: u32, gpu_id: u32, name: &str) -> String {
    let path = format!("{TOPOLOGY}/nodes/{node}");
    tree.add(format!("{path}/gpu_id"), format!("{gpu_id}\n"));
    tree.add(format!("{path}/name"), format!("{name}\n"));
    for directory in ["mem_banks", "caches", "io_links", "p2p_links", "perf"] {
        tree.directory(&format!("{path}/{directory}"));
    }
    path
}

/// `mem_show`.
fn bank(tree: &mut Tree, node: &str, heap: u32, bytes: u64, width: u32, clock: u32) {
    let mut lines = Lines(String::new());
    lines.line("heap_type", heap);
    lines.line("size_in_bytes", bytes);
    lines.line("flags", 0u32);
    lines.line("width", width);
    lines.line("mem_clk_max", clock);
    tree.add(format!("{node}/mem_banks/0/properties"), lines.0);
}

/// What `node_show` writes of every node.
#[derive(Default)]
struct Node<'a> {
    gpu: Option<&'a Gpu>,
    cores: u32,
    caches: u32,
    io_links: u32,
    p2p_links: u32,
    processor: u32,
}

/// `node_show`.
fn properties(node: &Node<'_>) -> String {
    let chip = node.gpu.map(|gpu| gpu.chip);
    let of = |value: fn(&Chip) -> u32| chip.map_or(0, value);
    let area = chip.map(|chip| chip.save_area());
    let index = node
        .gpu
        .map_or(0, |gpu| u32::try_from(gpu.index).unwrap_or(0));
    let mut lines = Lines(String::new());
    lines.line("cpu_cores_count", node.cores);
    lines.line("simd_count", of(|chip| chip.units * chip.simds));
    lines.line("mem_banks_count", 1u32);
    lines.line("caches_count", node.caches);
    lines.line("io_links_count", node.io_links);
    lines.line("p2p_links_count", node.p2p_links);
    lines.line("cpu_core_id_base", 0u32);
    lines.line("simd_id_base", node.processor);
    lines.line("max_waves_per_simd", of(|chip| chip.waves));
    lines.line("lds_size_in_kb", of(|chip| chip.local_kib));
    lines.line("gds_size_in_kb", 0u32);
    lines.line("num_gws", 0u32);
    lines.line("wave_front_size", of(|chip| chip.lanes));
    lines.line(
        "array_count",
        of(|chip| chip.engines * chip.arrays * chip.xccs),
    );
    lines.line("simd_arrays_per_engine", of(|chip| chip.arrays));
    lines.line("cu_per_simd_array", of(|chip| chip.array_units));
    lines.line("simd_per_cu", of(|chip| chip.simds));
    lines.line("max_slots_scratch_cu", of(|chip| chip.scratch_slots));
    lines.line("gfx_target_version", of(|chip| chip.target));
    lines.line(
        "vendor_id",
        if chip.is_some() { identity::VENDOR } else { 0 },
    );
    lines.line("device_id", of(|chip| chip.device_id));
    lines.line(
        "location_id",
        if chip.is_some() {
            identity::location(index)
        } else {
            0
        },
    );
    lines.line("domain", 0u32);
    lines.line("drm_render_minor", node.gpu.map_or(0, Gpu::render_minor));
    lines.line("hive_id", node.gpu.map_or(0, hive));
    lines.line("num_sdma_engines", of(|chip| chip.copy_engines));
    lines.line("num_sdma_xgmi_engines", of(|chip| chip.link_engines));
    lines.line(
        "num_sdma_queues_per_engine",
        of(|chip| chip.copy_queues - chip.reserved_copy_queues),
    );
    lines.line("num_cp_queues", of(|chip| chip.compute_queues));
    lines.line("cwsr_size", area.map_or(0, |area| area.bytes));
    lines.line("ctl_stack_size", area.map_or(0, |area| area.control_stack));
    if let Some(chip) = chip {
        lines.line("max_engine_clk_fcompute", chip.engine_clock);
        lines.line("local_mem_size", 0u32);
        lines.line("fw_version", chip.firmware);
        lines.line(
            "capability",
            CAPABILITY | chip.capability | chip.revision << REVISION_SHIFT,
        );
        lines.line("debug_prop", chip.debug);
        lines.line("sdma_fw_version", chip.copy_firmware);
        lines.line("unique_id", 0x5349_4D00_0000_0001u64 + u64::from(index));
        lines.line("num_xcc", chip.xccs);
    }
    lines.line("max_engine_clk_ccompute", HOST_CLOCK);
    lines.0
}

/// GPUs that xGMI links are one hive, which is not 0.
fn hive(gpu: &Gpu) -> u64 {
    if gpu.chip.xgmi {
        0x6869_7665_0000_0001
    } else {
        0
    }
}

fn host_node(kernel: &Kernel, tree: &mut Tree) {
    let path = node_files(tree, 0, 0, "");
    bank(tree, &path, 0, kernel.ram, 0, 0);
    let links = links::add(kernel, None, &path, tree);
    let text = properties(&Node {
        cores: HOST_CORES,
        io_links: links.io,
        p2p_links: links.p2p,
        ..Node::default()
    });
    tree.add(format!("{path}/properties"), text);
}

fn gpu_node(kernel: &Kernel, gpu: &Gpu, processor: u32, tree: &mut Tree) {
    let node = u32::try_from(gpu.index).unwrap_or(0) + 1;
    // `amdgpu_asic_name` of chips that are known from their discovery tables only.
    let path = node_files(tree, node, gpu.id, "ip discovery");
    let chip = gpu.chip;
    // `amdgpu_amdkfd_get_local_mem_info`: on APUs, what the kernel may pin of the host's memory.
    let (heap, bytes) = match (chip.apu, gpu.large_bar()) {
        (true, _) => (HEAP_PUBLIC, kernel.ttm.limit),
        (false, true) => (HEAP_PUBLIC, gpu.vram),
        (false, false) => (HEAP_PRIVATE, gpu.vram),
    };
    bank(
        tree,
        &path,
        heap,
        bytes,
        chip.memory_width,
        chip.memory_clock,
    );
    let caches = caches(chip, processor, &path, tree);
    let links = links::add(kernel, Some(gpu), &path, tree);
    let text = properties(&Node {
        gpu: Some(gpu),
        caches,
        io_links: links.io,
        p2p_links: links.p2p,
        processor,
        ..Node::default()
    });
    tree.add(format!("{path}/properties"), text);
}

/// Compute units of an array that are on, one bit each. Those that are off are the last of the first arrays.
fn array_bits(chip: &Chip, array: u32) -> u32 {
    let arrays = chip.engines * chip.arrays * chip.xccs;
    let off = arrays * chip.array_units - chip.units;
    let here = off / arrays + u32::from(array < off % arrays);
    (1 << (chip.array_units - here)) - 1
}

/// `kfd_fill_cache_non_crat_info`; how many there are.
fn caches(chip: &Chip, processor: u32, node: &str, tree: &mut Tree) -> u32 {
    let arrays = chip.engines * chip.arrays * chip.xccs;
    let mut count = 0;
    let mut add = |tree: &mut Tree, kind: &CacheKind, processor: u32, map: &[u32]| {
        let text = cache(kind, processor, map);
        tree.add(format!("{node}/caches/{count}/properties"), text);
        count += 1;
    };
    for kind in chip.caches {
        if kind.level > 1 {
            let maps: Vec<u32> = (0..arrays).map(|array| array_bits(chip, array)).collect();
            add(tree, kind, processor, &maps);
            continue;
        }
        let mut first = processor;
        for array in 0..arrays {
            let bits = array_bits(chip, array);
            let mut unit = 0;
            while unit < chip.array_units {
                let sharing = kind.shared.min(chip.array_units - unit);
                let mask = bits >> unit & ((1 << kind.shared) - 1);
                if mask != 0 {
                    let skip = mask.trailing_zeros();
                    add(tree, kind, first.wrapping_add(skip), &[mask >> skip]);
                }
                first = first.wrapping_add(sharing);
                unit += kind.shared;
            }
        }
    }
    count
}

/// `kfd_cache_show`: of the map every bit, the lowest first.
fn cache(kind: &CacheKind, processor: u32, map: &[u32]) -> String {
    let mut lines = Lines(String::new());
    lines.line("processor_id_low", processor);
    lines.line("level", kind.level);
    lines.line("size", kind.kib);
    lines.line("cache_line_size", kind.line);
    lines.line("cache_lines_per_tag", 0u32);
    lines.line("association", 0u32);
    lines.line("latency", 0u32);
    lines.line("type", kind.kind);
    let bits = map
        .iter()
        .flat_map(|word| (0..32).map(move |bit| word >> bit & 1));
    let bits: Vec<&str> = bits.map(|bit| if bit == 0 { "0" } else { "1" }).collect();
    lines.0.push_str("sibling_map ");
    lines.0.push_str(&bits.join(","));
    lines.0.push('\n');
    lines.0
}

/// `/sys/class/drm/renderD*/device`: PCI and `amdgpu`'s own.
fn device(gpu: &Gpu, tree: &mut Tree) {
    let minor = gpu.render_minor();
    let path = format!("{DRM}/renderD{minor}/device");
    let chip = gpu.chip;
    tree.add(
        format!("{DRM}/renderD{minor}/dev"),
        format!("226:{minor}\n"),
    );
    for (name, text) in [
        ("vendor", format!("{:#06x}\n", identity::VENDOR)),
        ("device", format!("{:#06x}\n", chip.device_id)),
        ("subsystem_vendor", format!("{:#06x}\n", identity::VENDOR)),
        ("subsystem_device", format!("{:#06x}\n", chip.device_id)),
        ("revision", format!("{:#04x}\n", chip.revision)),
        ("class", "0x030000\n".into()),
        (
            "unique_id",
            format!("{:016x}\n", 0x5349_4D00_0000_0001u64 + gpu.index as u64),
        ),
        ("mem_info_vram_total", format!("{}\n", gpu.vram)),
        ("mem_info_vis_vram_total", format!("{}\n", gpu.visible)),
    ] {
        tree.add(format!("{path}/{name}"), text);
    }
    // Of blocks that there are several of only the first is shown: where the others' registers begin is not public.
    for block in chip.blocks {
        let bases: String = block
            .bases
            .iter()
            .map(|base| format!("0x{base:08X}\n"))
            .collect();
        let [major, minor, revision] = block.version;
        for name in [block.id.to_string().as_str(), block.name] {
            let path = format!("{path}/ip_discovery/die/0/{name}/0");
            for (name, text) in [
                ("hw_id", format!("{}\n", block.id)),
                ("num_instance", "0\n".into()),
                ("major", format!("{major}\n")),
                ("minor", format!("{minor}\n")),
                ("revision", format!("{revision}\n")),
                ("harvest", "0x0\n".into()),
                ("num_base_addresses", format!("{}\n", block.bases.len())),
                ("base_addr", bases.clone()),
            ] {
                tree.add(format!("{path}/{name}"), text);
            }
        }
    }
    let ips = chip.blocks.len();
    tree.add(format!("{path}/ip_discovery/die/num_dies"), "1\n".into());
    tree.add(
        format!("{path}/ip_discovery/die/0/num_ips"),
        format!("{ips}\n"),
    );
}
