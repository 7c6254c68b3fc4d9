use std::ptr::NonNull;
use std::time::Duration;

use hcq_sim::machine::{Call, Script};

use super::*;
use crate::kfd::{Gpu, MemoryRequest, Process, QueueRequest, QueueType};
use crate::name::Name;

/// Requests that a process makes once: version, apertures, address space.
const ONCE: [u8; 3] = [0x01, 0x14, 0x15];
const CHIPS: [&str; 5] = ["gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201"];

fn system(config: &str) -> Arc<SimSystem> {
    Arc::new(SimSystem::new(start(config).expect(config)))
}

fn open(system: &Arc<SimSystem>, ordinal: usize) -> Result<Arc<Gpu>, Error> {
    let system = Arc::clone(system) as Arc<dyn System>;
    Gpu::open(&Process::open(&system)?, ordinal)
}

/// All that a device does before its first packet.
fn everything(system: &Arc<SimSystem>) -> Result<(), Error> {
    let gpu = open(system, 0)?;
    let vram = gpu.allocate(&MemoryRequest::vram(3 << 20).host_visible())?;
    let gtt = gpu.allocate(&MemoryRequest::gtt(5000))?;
    let mut host = vec![0u8; 20_000];
    let cpu = NonNull::from(host.as_mut_slice()).cast();
    let lent = gpu.register(cpu, 20_000, true)?;
    let mut queues = Vec::new();
    for kind in [
        QueueType::Pm4,
        QueueType::Aql,
        QueueType::Sdma { engine: None },
    ] {
        queues.push(gpu.create_queue(&QueueRequest::new(kind, 65536))?);
    }
    gpu.wait(Duration::ZERO)?;
    assert_eq!(gpu.fault(), None);
    gpu.calibrate()?;
    gpu.unmap(&gtt);
    drop((queues, lent, vram));
    Ok(())
}

#[test]
fn each_chip_opens_with_memory_and_queues() {
    for chip in CHIPS {
        let system = system(&format!("amd-{chip}"));
        everything(&system).unwrap_or_else(|e| panic!("{chip}: {e}"));
        let gpu = open(&system, 0).expect(chip);
        assert_eq!(gpu.node().target(), chip);
        assert!(
            gpu.node().ip(11).is_some_and(|ip| !ip.bases.is_empty()),
            "{chip}"
        );
        assert_eq!(system.machine().reports(), Vec::<String>::new());
    }
}

#[test]
fn whatever_call_fails_nothing_is_left() {
    for (chip, turns) in [("gfx942", 2), ("gfx1100", 6)] {
        let config = format!("amd-{chip}");
        let calm = system(&config);
        everything(&calm).expect(chip);
        let kept = lock(&calm.mapped).len();
        let free = |system: &Arc<SimSystem>| {
            let gpu = open(system, 0).expect("nothing fails any more");
            gpu.available_vram()
        };
        let calm_free = free(&calm);
        assert!(calm_free.is_some());
        // Every request that an open device makes, at each of its first turns, and every mapping.
        let requests = [
            0x01, 0x02, 0x03, 0x05, 0x08, 0x09, 0x0c, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19,
        ];
        let calls = requests.into_iter().map(Call::Ioctl).chain([Call::Mmap]);
        let mut refused = 0;
        for call in calls {
            let once = ONCE.iter().any(|n| call == Call::Ioctl(*n));
            for nth in [1, 2, 3, 5, 8, 12]
                .into_iter()
                .take(if once { 1 } else { turns })
            {
                let system = system(&config);
                system.machine().inject(Script::Fail {
                    call: call.clone(),
                    nth,
                    times: 1,
                    errno: libc::ENOMEM,
                });
                // Each round makes the call once at least, so it is through by then.
                for _ in 0..nth {
                    let Err(e) = everything(&system) else {
                        continue;
                    };
                    refused += 1;
                    let text = e.to_string();
                    assert!(
                        text.len() > 40 && text.contains("Cannot allocate memory"),
                        "{text}"
                    );
                    break;
                }
                // The next one of everything works, and what is free and mapped is as if nothing had failed.
                everything(&system).unwrap_or_else(|e| panic!("{chip} after {call:?} {nth}: {e}"));
                assert_eq!(free(&system), calm_free, "{chip} {call:?} {nth}");
                assert_eq!(lock(&system.mapped).len(), kept, "{chip} {call:?} {nth}");
            }
        }
        assert!(refused > 10, "{refused}");
    }
}

#[test]
fn peers_share_over_links_and_not_without() {
    let share = |config| {
        let system = system(config);
        let (gpu, peer) = (
            open(&system, 0).expect("there"),
            open(&system, 1).expect("there"),
        );
        let bo = gpu.allocate(&MemoryRequest::vram(4096)).expect("room");
        gpu.share(&bo, &peer)
    };
    share("amd-gfx942,gpus=2").expect("linked");
    let e = share("amd-gfx942,gpus=2,p2p=off")
        .expect_err("not linked")
        .to_string();
    assert!(e.contains("the topology has no way"), "{e}");
}

#[test]
fn what_is_wrong_with_a_machine_is_told() {
    let listed = |config| {
        let all = crate::devices_on(&*system(config));
        all.into_iter()
            .find(|c| c.name.starts_with("amd"))
            .expect("always one")
    };
    let text = |c: &crate::Candidate| {
        let attempts: Vec<String> = c.attempts.iter().map(ToString::to_string).collect();
        format!("{}; {}", c.description, attempts.join("; "))
    };
    let fine = listed("amd-gfx1100");
    assert!(fine.ready && fine.name == "amd:0", "{}", text(&fine));
    let denied = listed("amd-gfx1100,kfd=denied");
    assert!(
        !denied.ready && text(&denied).contains("join the group"),
        "{}",
        text(&denied)
    );
    let missing = listed("amd-gfx1100,kfd=missing");
    assert!(!missing.ready, "{}", text(&missing));
    let old = listed("amd-gfx1100,kfd_version=1.3");
    assert!(
        !old.ready && text(&old).contains("Linux 6.1"),
        "{}",
        text(&old)
    );
    let small = listed("amd-gfx1100,cpu_visible_vram=small");
    assert!(
        small.ready && text(&small).contains("resizable BAR is off"),
        "{}",
        text(&small)
    );
}

#[test]
fn machines_by_name_agree_with_the_one_that_is_there() {
    let there = system("amd-gfx942,gpus=4,seed=7");
    let there = config_of(&*there).expect("it is simulated");
    assert_eq!(config_of(&Linux), None);
    for (name, reason) in [
        ("sim:amd-gfx942", None),
        ("sim:amd-gfx942:1,gpus=4", None),
        ("sim:amd-gfx942,seed=7,gpus=4", None),
        ("sim:amd-gfx1100", Some("has amd-gfx942, not amd-gfx1100")),
        ("sim:amd-gfx942,gpus=2", Some("has gpus=4")),
        ("sim:amd-gfx942,seed=0", Some("has seed=7")),
        ("sim:amd-gfx942,p2p=off", Some("has p2p=the usual value")),
    ] {
        let machine = Name::parse(name).expect(name).machine.expect("simulated");
        let found = contradiction(&machine, &there).expect(name);
        match (&found, reason) {
            (None, None) => {}
            (Some(found), Some(reason)) => assert!(found.contains(reason), "{found}"),
            _ => panic!("{name}: {found:?}"),
        }
    }
    for (config, part) in [
        ("amd-gfx1", "no simulated chip"),
        ("amd-gfx942,gpus=9", "1 to 8"),
        ("amd-gfx942,speed=1", "no option 'speed'"),
    ] {
        let e = machine(config).expect_err(config).to_string();
        assert!(e.contains(part) && e.contains("sim:amd-gfx1100"), "{e}");
    }
}

#[test]
fn a_machine_goes_with_its_system() {
    let system = system("amd-gfx1100");
    let machine = Arc::downgrade(system.machine());
    everything(&system).expect("nothing fails");
    drop(system);
    assert!(machine.upgrade().is_none(), "something still holds it");
}
