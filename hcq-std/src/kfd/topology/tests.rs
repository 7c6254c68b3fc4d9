use super::*;
use crate::kfd::fake::{Fake, GPU, PEER};

fn read(fake: &Fake) -> Result<Topology, Trouble> {
    Topology::read(fake)
}

#[test]
fn a_gpu_is_read_whole() {
    let fake = Fake::new(&[GPU]);
    let topology = read(&fake).expect("sound");
    assert_eq!(topology.skipped, []);
    let [node] = &topology.nodes[..] else {
        panic!("one GPU: {topology:?}");
    };
    assert_eq!((node.index, node.gpu_id), (1, GPU));
    assert_eq!(node.target(), "gfx942");
    assert_eq!(node.name, "AMD Instinct MI300X");
    assert_eq!((node.compute_units(), node.xccs), (304, 8));
    assert_eq!(node.unique_id, u64::MAX);
    assert_eq!(node.vram_bytes(), 206_141_652_992);
    assert_eq!(node.visible_bytes(), node.vram_bytes());
    assert_eq!(node.ip(SDMA_HWID).map(|ip| ip.version), Some((4, 4, 2)));
    assert_eq!(
        node.ip(GC_HWID).expect("there").bases,
        [0x2000, 0xa000, 0x0240_2c00]
    );
    assert_eq!(
        node.ip(NBIF_HWID).expect("there").bases.get(2),
        Some(&0xd20)
    );
    assert_eq!(node.render_node(), "/dev/dri/renderD128");
    let [link] = &node.links[..] else {
        panic!("one link");
    };
    assert_eq!(
        (link.to, link.kind, link.peer, link.flags),
        (0, 2, false, 13)
    );
}

#[test]
fn context_sizes_are_the_kernels() {
    // By hand from kfd_queue_ctx_save_restore_size: 38 units, 1520 waves on each die.
    let fake = Fake::new(&[GPU]);
    let node = read(&fake).expect("sound").nodes.remove(0);
    let stack = (40u32 + 1520 * 8 + 8).next_multiple_of(4096);
    let data = (38u32 * (0x80000 + 0x4000 + 0x10000 + 0x1000)).next_multiple_of(4096);
    assert_eq!(node.ctl_stack_bytes, stack);
    assert_eq!(node.cwsr_bytes, stack + data);
    assert_eq!((node.debug_bytes, node.eop_bytes), (1520 * 32, 4096));
    let die = (stack + data + 1520 * 32) as usize;
    assert_eq!(node.context_bytes(4096), (die * 8).next_multiple_of(4096));

    // gfx1100 with 96 units, whose waves are 32 to a unit and 12 bytes each.
    let radeon = crate::kfd::fake::MI300X
        .replace("simd_count 1216", "simd_count 192")
        .replace("simd_per_cu 4", "simd_per_cu 2")
        .replace("90402", "110000")
        .replace("num_xcc 8", "num_xcc 1");
    fake.put(format!("{NODES}/1/properties"), &radeon);
    let node = read(&fake).expect("sound").nodes.remove(0);
    let stack = (40u32 + 3072 * 12 + 8).next_multiple_of(4096);
    let data = (96u32 * (0x60000 + 0x4000 + 0x10000 + 0x1000)).next_multiple_of(4096);
    assert_eq!(
        (node.ctl_stack_bytes, node.cwsr_bytes),
        (stack, stack + data)
    );

    // What the kernel tells wins.
    let told = format!("{radeon}cwsr_size 1000000\nctl_stack_size 8192\n");
    fake.put(format!("{NODES}/1/properties"), &told);
    let node = read(&fake).expect("sound").nodes.remove(0);
    assert_eq!((node.ctl_stack_bytes, node.cwsr_bytes), (8192, 1_000_000));
}

#[test]
fn a_kernel_without_newer_lines_is_read() {
    let fake = Fake::new(&[GPU]);
    let old: String = crate::kfd::fake::MI300X
        .lines()
        .filter(|l| {
            !["num_xcc", "unique_id", "num_cp", "hive_id", "capability"]
                .iter()
                .any(|p| l.starts_with(p))
        })
        .map(|l| format!("{l}\n"))
        .collect();
    fake.put(format!("{NODES}/1/properties"), &old);
    let node = read(&fake).expect("sound").nodes.remove(0);
    assert_eq!((node.xccs, node.unique_id, node.cp_queues), (1, 0, 0));
}

#[test]
fn nodes_that_are_hidden_or_vanish_are_skipped_with_the_reason() {
    let fake = Fake::new(&[GPU, PEER]);
    let path = format!("{NODES}/1/gpu_id");
    for (errno, words) in [
        (Errno::PERM, "the container or cgroup has no access"),
        (Errno::NOENT, "went away"),
        (Errno::IO, "Input/output error"),
    ] {
        fake.state().files.insert(path.clone(), Err(errno));
        let topology = read(&fake).expect("the other is sound");
        assert_eq!(topology.nodes.len(), 1);
        assert_eq!(topology.nodes[0].gpu_id, PEER);
        let [skipped] = &topology.skipped[..] else {
            panic!("one is skipped");
        };
        let text = skipped.to_string();
        assert!(
            text.starts_with(&format!("read {path}: ")) && text.contains(words),
            "{text}"
        );
    }
    // Without register addresses the node stays, with a note.
    let fake = Fake::new(&[GPU]);
    fake.state()
        .files
        .retain(|path, _| !path.contains("ip_discovery"));
    let topology = read(&fake).expect("sound");
    assert_eq!(topology.nodes[0].ips, []);
    assert!(topology.skipped[0].to_string().contains("Linux 5.18"));
    // Without a folder of nodes there is nothing to read.
    fake.state().files.clear();
    let trouble = read(&fake).expect_err("nothing is there");
    assert!(matches!(
        trouble,
        Trouble::System {
            errno: Errno::NOENT,
            operation: "list",
            ..
        }
    ));
}

#[test]
fn malformed_text_is_an_error_with_path_and_line() {
    let properties = format!("{NODES}/1/properties");
    let bank = format!("{NODES}/1/mem_banks/0/properties");
    let base = "/sys/class/drm/renderD128/device/ip_discovery/die/0/11/0/base_addr".to_owned();
    let replaced = |from: &str, to: &str| crate::kfd::fake::MI300X.replace(from, to);
    let cases = [
        (
            format!("{NODES}/1/gpu_id"),
            "x\n".to_owned(),
            "line 1: `x` is not a number",
        ),
        (
            format!("{NODES}/1/gpu_id"),
            String::new(),
            "line 1: `` is not a number",
        ),
        (
            format!("{NODES}/1/gpu_id"),
            "4294967296".to_owned(),
            "more than 32 bits",
        ),
        (
            properties.clone(),
            replaced("simd_count 1216", "simd_count"),
            "line 2: simd_count has no value",
        ),
        (
            properties.clone(),
            replaced("simd_count 1216", "simd_count -1"),
            "line 2: simd_count: `-1` is not a number",
        ),
        (
            properties.clone(),
            replaced("simd_count 1216", "simd_count 1 2"),
            "line 2: simd_count has more than one value",
        ),
        (
            properties.clone(),
            replaced(
                "unique_id 18446744073709551615",
                "unique_id 18446744073709551616",
            ),
            "unique_id: `18446744073709551616` is more than 64 bits",
        ),
        (
            properties.clone(),
            replaced("gfx_target_version 90402\n", ""),
            "gfx_target_version is missing",
        ),
        (
            properties.clone(),
            String::new(),
            "gfx_target_version is missing",
        ),
        (bank, "size_in_bytes 1\n".to_owned(), "heap_type is missing"),
        (
            base,
            "0x1\n\n0xg\n".to_owned(),
            "line 3: `0xg` is not a number",
        ),
    ];
    for (path, text, part) in cases {
        let fake = Fake::new(&[GPU]);
        fake.put(path.clone(), &text);
        let e = crate::Error::from(read(&fake).expect_err(&text)).to_string();
        assert!(e.contains(&path) && e.contains(part), "{e}");
    }
}

#[test]
fn huge_numbers_overflow_nothing() {
    let fake = Fake::new(&[GPU]);
    let most = u32::MAX.to_string();
    let text: String = crate::kfd::fake::MI300X
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, value)| match name {
            "gfx_target_version" => format!("{name} {value}\n"),
            "simd_per_cu" | "simd_arrays_per_engine" => format!("{name} 1\n"),
            _ => format!("{name} {most}\n"),
        })
        .collect();
    fake.put(format!("{NODES}/1/properties"), &text);
    let bank = "heap_type 1\nsize_in_bytes 18446744073709551615\n";
    fake.put(format!("{NODES}/1/mem_banks/0/properties"), bank);
    fake.put(format!("{NODES}/1/mem_banks/1/properties"), bank);
    let node = read(&fake).expect("numbers are numbers").nodes.remove(0);
    assert_eq!(node.vram_bytes(), u64::MAX);
    assert!(node.context_bytes(4096) > 0);
    let zeros = text.replace(&most, "0").replace(" 1\n", " 0\n");
    fake.put(format!("{NODES}/1/properties"), &zeros);
    let node = read(&fake).expect("numbers are numbers").nodes.remove(0);
    assert_eq!((node.compute_units(), node.xccs), (0, 1));
}

#[test]
fn the_best_way_to_another_node_is_found() {
    let fake = Fake::new(&[GPU, PEER]);
    fake.link(1, "p2p_links", 0, 2, 2, 40);
    fake.link(1, "io_links", 1, 2, 11, 15);
    let node = read(&fake).expect("sound").nodes.remove(0);
    let link = node.link_to(2).expect("two of them");
    assert_eq!((link.kind, link.peer), (11, false));
    assert_eq!(node.link_to(3), None);
    // One to a node that this process may not see says nothing.
    let path = format!("{NODES}/1/p2p_links/0/properties");
    fake.state().files.insert(path, Err(Errno::PERM));
    assert_eq!(read(&fake).expect("sound").nodes[0].links.len(), 2);
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "[ -~\\n]{0,200}", name in 0usize..5) {
        let fake = Fake::new(&[GPU]);
        let path = [
            format!("{NODES}/1/properties"),
            format!("{NODES}/1/gpu_id"),
            format!("{NODES}/1/mem_banks/0/properties"),
            format!("{NODES}/1/io_links/0/properties"),
            "/sys/class/drm/renderD128/device/ip_discovery/die/0/42/0/base_addr".to_owned(),
        ][name].clone();
        fake.put(path, &text);
        let _ = read(&fake);
    }
}
