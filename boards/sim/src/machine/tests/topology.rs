//! What sysfs says.

use super::*;

fn text(machine: &Machine, path: &str) -> Result<String, i32> {
    let bytes = machine.read(Path::new(path), 1 << 16)?;
    Ok(String::from_utf8(bytes).expect("text"))
}

fn machine(config: &str) -> Arc<Machine> {
    Machine::new(config.parse().expect(config)).expect("starts")
}

const NODES: &str = "/sys/devices/virtual/kfd/kfd/topology/nodes";

#[test]
fn a_radeon_has_the_properties_of_a_radeon() {
    let machine = machine("amd-gfx1100");
    let properties = text(&machine, &format!("{NODES}/1/properties")).expect("is there");
    // `node_show`: names and order of the kernel; numbers of a real card where the machine has no say in them.
    let expected = [
        "cpu_cores_count 0",
        "simd_count 192",
        "mem_banks_count 1",
        "caches_count 206",
        "io_links_count 1",
        "p2p_links_count 0",
        "cpu_core_id_base 0",
        "simd_id_base 2147487744",
        "max_waves_per_simd 16",
        "lds_size_in_kb 64",
        "gds_size_in_kb 0",
        "num_gws 0",
        "wave_front_size 32",
        "array_count 12",
        "simd_arrays_per_engine 2",
        "cu_per_simd_array 8",
        "simd_per_cu 2",
        "max_slots_scratch_cu 32",
        "gfx_target_version 110000",
        "vendor_id 4098",
        "device_id 29772",
        "location_id 768",
        "domain 0",
        "drm_render_minor 128",
        "hive_id 0",
        "num_sdma_engines 2",
        "num_sdma_xgmi_engines 0",
        "num_sdma_queues_per_engine 6",
        "num_cp_queues 8",
        "cwsr_size 46047232",
        "ctl_stack_size 40960",
        "max_engine_clk_fcompute 2482",
        "local_mem_size 0",
        "fw_version 2140",
        "capability 537109120",
        "debug_prop 1495",
        "sdma_fw_version 20",
        "unique_id 6001412640843235329",
        "num_xcc 1",
        "max_engine_clk_ccompute 4500",
    ];
    let lines: Vec<&str> = properties.lines().collect();
    assert_eq!(lines, expected);
    assert!(properties.ends_with('\n'));
    let host = text(&machine, &format!("{NODES}/0/properties")).expect("is there");
    assert_eq!(
        host.lines().count(),
        expected.len() - 8,
        "a GPU's eight lines are missing"
    );
    assert!(host.starts_with("cpu_cores_count 16\nsimd_count 0\n"));
    assert_eq!(
        text(&machine, &format!("{NODES}/0/gpu_id")).as_deref(),
        Ok("0\n")
    );
    assert_eq!(
        text(&machine, &format!("{NODES}/0/name")).as_deref(),
        Ok("\n")
    );
    assert_eq!(
        text(&machine, &format!("{NODES}/1/name")).as_deref(),
        Ok("ip discovery\n")
    );
    let bank = text(&machine, &format!("{NODES}/1/mem_banks/0/properties"));
    let expected = "heap_type 1\nsize_in_bytes 25753026560\nflags 0\nwidth 384\nmem_clk_max 1249\n";
    assert_eq!(bank.as_deref(), Ok(expected));
    let cache = text(&machine, &format!("{NODES}/1/caches/0/properties")).expect("is there");
    let start = "processor_id_low 2147487744\nlevel 1\nsize 32\ncache_line_size 128\ncache_lines_per_tag 0\n\
                 association 0\nlatency 0\ntype 9\nsibling_map 1,0,";
    assert!(cache.starts_with(start), "{cache}");
    assert!(cache.ends_with(",0\n"));
}

#[test]
fn instincts_have_eight_xccs_and_links() {
    for (chip, caches, simds) in [("gfx942", 626, 1216), ("gfx950", 0, 1024)] {
        let machine = machine(&format!("amd-{chip},gpus=4"));
        let properties = text(&machine, &format!("{NODES}/4/properties")).expect("is there");
        let has = |line: &str| {
            assert!(
                properties.lines().any(|have| have == line),
                "{line}: {properties}"
            )
        };
        if caches != 0 {
            has(&format!("caches_count {caches}"));
        }
        has(&format!("simd_count {simds}"));
        has("array_count 32");
        has("num_xcc 8");
        has("io_links_count 4");
        has("p2p_links_count 0");
        has("num_sdma_xgmi_engines 14");
        has("drm_render_minor 131");
        let link = text(&machine, &format!("{NODES}/4/io_links/1/properties")).expect("is there");
        let expected = "type 11\nversion_major 0\nversion_minor 0\nnode_from 4\nnode_to 1\nweight 15\nmin_latency 0\n\
                        max_latency 0\nmin_bandwidth 50000\nmax_bandwidth 50000\nrecommended_transfer_size 0\n\
                        recommended_sdma_engine_id_mask 65532\nflags 1\n";
        assert_eq!(link, expected);
        assert_eq!(
            machine.list(Path::new(&format!("{NODES}/0/io_links"))),
            Ok(vec!["0".into(), "1".into(), "2".into(), "3".into()])
        );
        assert_eq!(
            machine.list(Path::new(&format!("{NODES}/4/p2p_links"))),
            Ok(vec![])
        );
    }
    let eight = machine("amd-gfx942,gpus=8");
    let link = text(&eight, &format!("{NODES}/1/io_links/3/properties")).expect("is there");
    assert!(
        link.contains("node_to 4\n") && link.contains(&format!("mask {}\n", 1 << 2)),
        "{link}"
    );
}

#[test]
fn counts_are_what_is_listed() {
    for chip in crate::amd::chip::names() {
        for options in [
            "",
            ",gpus=2",
            ",gpus=3,p2p=off",
            ",gpus=2,cpu_visible_vram=small",
        ] {
            let machine = machine(&format!("amd-{chip}{options}"));
            for node in machine.list(Path::new(NODES)).expect("is there") {
                let path = format!("{NODES}/{node}");
                let properties = text(&machine, &format!("{path}/properties")).expect("is there");
                for (directory, name) in [
                    ("caches", "caches_count"),
                    ("mem_banks", "mem_banks_count"),
                    ("io_links", "io_links_count"),
                    ("p2p_links", "p2p_links_count"),
                ] {
                    let listed = machine
                        .list(Path::new(&format!("{path}/{directory}")))
                        .expect("is there");
                    let line = format!("{name} {}", listed.len());
                    assert!(
                        properties.lines().any(|have| have == line),
                        "{chip}{options} {node}: {line}"
                    );
                    for entry in listed {
                        assert!(
                            text(&machine, &format!("{path}/{directory}/{entry}/properties"))
                                .is_ok()
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_small_bar_shows_private_memory_and_no_way_in() {
    let machine = machine("amd-gfx1100,gpus=2,cpu_visible_vram=small");
    let bank = text(&machine, &format!("{NODES}/1/mem_banks/0/properties")).expect("is there");
    assert!(bank.starts_with("heap_type 2\n"));
    assert_eq!(
        machine.list(Path::new(&format!("{NODES}/0/io_links"))),
        Ok(vec![])
    );
    let visible = text(
        &machine,
        "/sys/class/drm/renderD129/device/mem_info_vis_vram_total",
    );
    assert_eq!(visible.as_deref(), Ok("268435456\n"));
    let total = text(
        &machine,
        "/sys/class/drm/renderD129/device/mem_info_vram_total",
    );
    assert_eq!(total.as_deref(), Ok("25753026560\n"));
}

#[test]
fn blocks_have_their_versions_and_bases() {
    let table = [
        ("gfx942", "9\n", "4\n", "3\n", "0x00002000\n"),
        ("gfx950", "9\n", "5\n", "0\n", "0x00002000\n"),
        ("gfx1100", "11\n", "0\n", "0\n", "0x00001260\n"),
        ("gfx1151", "11\n", "5\n", "1\n", "0x00001260\n"),
        ("gfx1201", "12\n", "0\n", "1\n", "0x00001260\n"),
    ];
    for (chip, major, minor, revision, base) in table {
        let machine = machine(&format!("amd-{chip}"));
        for die in ["11", "GC"] {
            let read = |name: &str| {
                let path =
                    format!("/sys/class/drm/renderD128/device/ip_discovery/die/0/{die}/0/{name}");
                text(&machine, &path).expect("is there")
            };
            assert_eq!(
                (read("major").as_str(), read("minor").as_str()),
                (major, minor),
                "{chip}"
            );
            assert_eq!(read("revision"), revision);
            assert!(read("base_addr").starts_with(base));
            assert_eq!(read("hw_id"), "11\n");
        }
        let nbif = "/sys/class/drm/renderD128/device/ip_discovery/die/0/108/0/base_addr";
        assert!(
            text(&machine, nbif)
                .expect("is there")
                .contains("\n0x00000D20\n")
        );
        assert_eq!(
            text(&machine, "/sys/class/drm/renderD128/device/vendor").as_deref(),
            Ok("0x1002\n")
        );
    }
}

#[test]
fn paths_are_refused_cut_failed_and_vanish() {
    let machine = machine("amd-gfx1100,gpus=2");
    let list = |path: &str| machine.list(Path::new(path));
    assert_eq!(
        list("/dev/dri"),
        Ok(vec!["renderD128".into(), "renderD129".into()])
    );
    assert_eq!(
        list("/sys/class/kfd/kfd/topology/nodes/"),
        Ok(vec!["0".into(), "1".into(), "2".into()])
    );
    assert_eq!(
        list("/sys/class/drm"),
        Ok(vec!["renderD128".into(), "renderD129".into()])
    );
    assert_eq!(
        list("/sys/class/kfd/kfd"),
        Ok(vec!["dev".into(), "topology".into()])
    );
    assert_eq!(list(&format!("{NODES}/9")), Err(libc::ENOENT));
    assert_eq!(list(&format!("{NODES}/1/gpu_id")), Err(libc::ENOTDIR));
    assert_eq!(text(&machine, NODES), Err(libc::EISDIR));
    assert_eq!(text(&machine, "/etc/passwd"), Err(libc::ENOENT));
    assert_eq!(text(&machine, ""), Err(libc::EISDIR));
    let cut = machine.read(
        Path::new("/sys/class/kfd/kfd/topology/system_properties"),
        15,
    );
    assert_eq!(cut.as_deref(), Ok(&b"platform_oem 0\n"[..]));
    assert_eq!(
        text(&machine, "/sys/class/kfd/kfd/topology/generation_id").as_deref(),
        Ok("3\n")
    );

    machine.inject(Script::Vanish {
        path: "/sys/class/kfd/kfd/topology/nodes/1".into(),
    });
    assert_eq!(list(NODES), Ok(vec!["0".into(), "2".into()]));
    assert_eq!(
        text(&machine, &format!("{NODES}/1/gpu_id")),
        Err(libc::ENOENT)
    );
    machine.inject(Script::Fail {
        call: Call::Read(format!("{NODES}/2").into()),
        nth: 1,
        times: u32::MAX,
        errno: libc::EPERM,
    });
    assert_eq!(
        text(&machine, "/sys/class/kfd/kfd/topology/nodes/2/properties"),
        Err(libc::EPERM)
    );
    assert!(text(&machine, &format!("{NODES}/0/properties")).is_ok());
}

#[test]
fn without_the_driver_there_is_no_topology() {
    let machine = machine("amd-gfx1100,kfd=missing");
    assert_eq!(
        machine.list(Path::new("/sys/class/kfd/kfd")),
        Err(libc::ENOENT)
    );
    assert_eq!(machine.list(Path::new(NODES)), Err(libc::ENOENT));
    assert!(text(&machine, "/sys/class/drm/renderD128/device/vendor").is_ok());
}
