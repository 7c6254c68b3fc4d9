use super::*;
use crate::kfd::fake::{Fake, GPU, PEER};

#[test]
fn gpus_are_listed_and_nothing_stays_open() {
    let fake = Fake::new(&[GPU, PEER]);
    let all = candidates(&*fake);
    let names: Vec<_> = all.iter().map(|c| (c.name.as_str(), c.ready)).collect();
    assert_eq!(names, [("amd:0", true), ("amd:1", true)]);
    assert_eq!(
        all[0].description,
        "AMD Instinct MI300X (gfx942), 304 compute units in 8 dies, 196592 MiB"
    );
    let attempts: Vec<String> = all[1].attempts.iter().map(ToString::to_string).collect();
    assert_eq!(
        attempts,
        ["open /dev/kfd: ok", "open /dev/dri/renderD129: ok"]
    );
    assert_eq!(
        fake.state().left(),
        "bos [], events {}, queues [], pages 0, files []"
    );
    assert!(fake.state().vms.is_empty());
}

#[test]
fn each_reason_is_told() {
    let fake = Fake::new(&[GPU]);
    fake.state()
        .opens
        .insert("/dev/dri/renderD128".into(), Errno::PERM);
    let all = candidates(&*fake);
    assert!(
        !all[0].ready
            && all[0]
                .description
                .ends_with("cannot be opened: Operation not permitted"),
        "{:?}",
        all[0]
    );
    assert!(all[0].attempts[1].to_string().contains("cgroup"));

    fake.state().opens.clear();
    fake.state().version = (1, 3);
    let all = candidates(&*fake);
    assert!(
        !all[0].ready && all[0].description.contains("interface is 1.3"),
        "{:?}",
        all[0]
    );
    assert!(all[0].attempts.iter().any(|a| a.hint.contains("Linux 6.1")));

    fake.state().version = (1, 17);
    fake.state().opens.insert(KFD.into(), Errno::ACCES);
    let all = candidates(&*fake);
    assert!(
        !all[0].ready
            && all[0]
                .description
                .contains("/dev/kfd cannot be opened: Permission denied"),
        "{:?}",
        all[0]
    );

    let fake = Fake::new(&[]);
    let all = candidates(&*fake);
    assert_eq!((all.len(), all[0].name.as_str()), (1, "amd"));
    assert!(
        all[0].attempts[1].hint.contains("no compute GPU"),
        "{:?}",
        all[0]
    );

    let fake = Fake::new(&[GPU]);
    fake.state()
        .files
        .insert(format!("{NODES}/1/properties"), Err(Errno::PERM));
    let all = candidates(&*fake);
    assert!(
        all[0].description.contains("no GPU is visible"),
        "{:?}",
        all[0]
    );
    assert!(all[0].attempts[1].to_string().contains("--device /dev/dri"));

    let fake = Fake::new(&[GPU]);
    fake.put(
        format!("{NODES}/1/properties"),
        "simd_count x\ngfx_target_version 1\n",
    );
    let all = candidates(&*fake);
    assert!(
        all[0].description.contains("topology cannot be read"),
        "{:?}",
        all[0]
    );
    assert!(all[0].attempts[1].hint.contains("line"), "{:?}", all[0]);
}

#[test]
fn chips_and_windows_that_are_not_right_are_named() {
    let fake = Fake::new(&[GPU]);
    let text = crate::kfd::fake::MI300X.replace("90402", "70001");
    fake.put(format!("{NODES}/1/properties"), &text);
    let all = candidates(&*fake);
    assert!(
        !all[0].ready && all[0].description.contains("(gfx701)"),
        "{:?}",
        all[0]
    );

    let fake = Fake::new(&[GPU]);
    fake.put(
        format!("{NODES}/1/mem_banks/0/properties"),
        "heap_type 2\nsize_in_bytes 25753026560\n",
    );
    fake.put(
        "/sys/class/drm/renderD128/device/mem_info_vis_vram_total",
        "268435456\n",
    );
    let all = candidates(&*fake);
    assert!(all[0].ready, "host memory does instead");
    assert!(
        all[0]
            .description
            .ends_with("24560 MiB, 256 of them in the host's window (resizable BAR is off)"),
        "{:?}",
        all[0]
    );
}
