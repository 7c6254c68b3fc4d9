//! What becomes of graphs when a device fails.

use hcq_std::{Error, GraphBuilder, GraphOptions};

use crate::{N, open};

/// A device in error holds up neither the end of a graph nor, once it has recovered, the next launch.
#[test]
fn a_dead_device_hangs_nobody() {
    let device = open("cpu", None);
    let other = open("cpu", None);
    let (x, y) = (
        device.alloc_from(&[1u32; N]).expect("memory"),
        other.alloc::<u32>(N).expect("memory"),
    );
    let build = || {
        let mut builder = GraphBuilder::new([&device, &other]).expect("a builder");
        builder.copy(&*y, &*x).expect("a node");
        builder
            .write(&x.view(..1).expect("a view"), 7u32)
            .expect("a node");
        builder.build(&GraphOptions::default()).expect("a graph")
    };
    let (mut graph, dropped) = (build(), build());
    let mut in_flight = build();
    // Held on the first device, until that stops with a fault.
    let gate = device.signal().expect("a signal");
    let hold = |queue: hcq_std::Queue| {
        let mut commands = queue.record();
        commands.wait(&gate, 1u64).expect("recorded");
        commands.write32(0x1000u64, 1u32).expect("recorded");
        commands.submit().expect("submitted")
    };
    hold(device.compute_queue(0).expect("a queue"));
    let run = in_flight.launch().expect("launched");
    let second = graph.launch().expect("launched");
    assert!(!run.is_done().expect("no fault yet"));
    gate.set(1).expect("set");
    let e = run.wait().expect_err("a fault");
    assert!(matches!(e, Error::Fault(_)), "{e}");
    assert!(second.wait().is_err());
    let started = std::time::Instant::now();
    drop((in_flight, dropped));
    assert!(started.elapsed() < std::time::Duration::from_secs(5));
    assert!(matches!(graph.launch(), Err(Error::Fault(_))));
    // The other device waited for what the first one has dropped: it was let go of.
    device.recover().expect("recovered");
    x.write(&[3u32; N]).expect("written");
    let run = graph.launch().expect("launched");
    run.wait().expect("done");
    assert_eq!(x.to_vec().expect("read")[..2], [7, 3]);
    assert_eq!(y.to_vec().expect("read"), [3; N]);
}
