//! The links of a node: `kfd_fill_gpu_direct_io_link_to_cpu`, `kfd_fill_gpu_xgmi_link_to_gpu`, `kfd_add_peer_prop`.

use super::{Gpu, Kernel, Lines, Tree};

/// `CRAT_IOLINK_TYPE_*`.
const PCIE: u32 = 2;
const XGMI: u32 = 11;
/// Weights that `kfd_parse_subtype_iolink` gives, `KFD_CRAT_XGMI_WEIGHT` for one hop.
const PCIE_WEIGHT: u32 = 20;
const XGMI_WEIGHT: u32 = 15;
/// 16 lanes of 25 Gbit/s: `amdgpu_amdkfd_get_xgmi_bandwidth_mbytes`.
const XGMI_BANDWIDTH: u32 = 50_000;
/// `HSA_IOLINK_FLAGS_*`.
const ENABLED: u32 = 1;
const NON_COHERENT: u32 = 2;
/// `rec_sdma_eng_map`: in a hive of eight, the copy engine for each link; not used on the diagonal.
const ENGINES: [[u32; 8]; 8] = [
    [0, 14, 12, 2, 4, 8, 10, 6],
    [14, 0, 2, 10, 8, 4, 6, 12],
    [10, 2, 0, 12, 14, 6, 4, 8],
    [2, 12, 10, 0, 6, 14, 8, 4],
    [4, 8, 14, 6, 0, 10, 12, 2],
    [8, 4, 6, 14, 12, 0, 2, 10],
    [10, 6, 4, 8, 12, 2, 0, 14],
    [6, 12, 8, 4, 2, 10, 14, 0],
];

/// How many links were added.
pub(super) struct Count {
    pub(super) io: u32,
    pub(super) p2p: u32,
}

struct Link {
    kind: u32,
    from: usize,
    to: usize,
    weight: u32,
    bandwidth: (u32, u32),
    engines: u32,
    flags: u32,
}

/// `iolink_show`.
fn text(link: &Link) -> String {
    let mut lines = Lines(String::new());
    lines.line("type", link.kind);
    lines.line("version_major", 0u32);
    lines.line("version_minor", 0u32);
    lines.line("node_from", link.from as u64);
    lines.line("node_to", link.to as u64);
    lines.line("weight", link.weight);
    lines.line("min_latency", 0u32);
    lines.line("max_latency", 0u32);
    lines.line("min_bandwidth", link.bandwidth.0);
    lines.line("max_bandwidth", link.bandwidth.1);
    lines.line("recommended_transfer_size", 0u32);
    lines.line("recommended_sdma_engine_id_mask", link.engines);
    lines.line("flags", link.flags);
    lines.0
}

fn to_host(gpu: &Gpu) -> Link {
    Link {
        kind: PCIE,
        from: gpu.index + 1,
        to: 0,
        weight: PCIE_WEIGHT,
        bandwidth: gpu.chip.host_link,
        engines: (1 << gpu.chip.copy_engines) - 1,
        flags: ENABLED,
    }
}

/// `kfd_set_recommended_sdma_engines`.
fn link_engines(kernel: &Kernel, gpu: &Gpu, peer: &Gpu) -> u32 {
    let chosen = ENGINES.get(gpu.index).and_then(|row| row.get(peer.index));
    match chosen {
        Some(engine) if kernel.gpus.len() == ENGINES.len() => 1 << engine,
        _ => ((1 << gpu.chip.link_engines) - 1) << gpu.chip.copy_engines,
    }
}

/// The links of a GPU's node, or of the host's.
pub(super) fn add(kernel: &Kernel, gpu: Option<&Gpu>, node: &str, tree: &mut Tree) -> Count {
    let (mut io, mut p2p) = (Vec::new(), Vec::new());
    let Some(gpu) = gpu else {
        // The host sees a GPU with a large BAR only.
        for gpu in kernel.gpus.iter().filter(|gpu| gpu.large_bar()) {
            let link = to_host(gpu);
            io.push(Link {
                from: link.to,
                to: link.from,
                flags: ENABLED | NON_COHERENT,
                ..link
            });
        }
        return write(tree, node, &io, &p2p);
    };
    io.push(to_host(gpu));
    for peer in kernel.gpus.iter().filter(|peer| peer.index != gpu.index) {
        let (from, to) = (gpu.index + 1, peer.index + 1);
        if gpu.chip.xgmi {
            if kernel.p2p {
                io.push(Link {
                    kind: XGMI,
                    from,
                    to,
                    weight: XGMI_WEIGHT,
                    bandwidth: (XGMI_BANDWIDTH, XGMI_BANDWIDTH),
                    engines: link_engines(kernel, gpu, peer),
                    flags: ENABLED,
                });
            }
        } else if kernel.p2p && peer.large_bar() && !gpu.chip.apu {
            p2p.push(Link {
                from,
                to,
                weight: 2 * PCIE_WEIGHT,
                engines: 0,
                flags: ENABLED | NON_COHERENT,
                ..to_host(gpu)
            });
        }
    }
    write(tree, node, &io, &p2p)
}

fn write(tree: &mut Tree, node: &str, io: &[Link], p2p: &[Link]) -> Count {
    for (name, links) in [("io_links", io), ("p2p_links", p2p)] {
        for (index, link) in links.iter().enumerate() {
            tree.add(format!("{node}/{name}/{index}/properties"), text(link));
        }
    }
    let count = |links: &[Link]| u32::try_from(links.len()).unwrap_or(0);
    Count {
        io: count(io),
        p2p: count(p2p),
    }
}
