//! What steady work costs: no allocation, no system call while the device is awake, one wake call per submission when
//! it sleeps. One test, since the allocator counts for the whole process.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{Counting, add_kernel, exec_add, open, options};

use hcq_std::{Error, GraphBuilder, GraphOptions, Grid};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

struct Counted;

// SAFETY: hands every call on to the system's allocator.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: this function's contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: this function's contract.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: this function's contract.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static GLOBAL: Counted = Counted;

#[test]
fn steady_work_allocates_nothing_and_a_sleeping_worker_costs_one_wake() -> Result {
    awake()?;
    graphs()?;
    staging()?;
    asleep()
}

fn awake() -> Result {
    let system = Counting::new();
    // Nobody ever goes to sleep: one worker and the host, which two processors can run.
    let options = options()
        .helper_threads(0)
        .compute_queues(1)
        .copy_queues(0)
        .spin(Duration::from_secs(600));
    let device = open(&options.system(Arc::clone(&system) as _));
    let kernel = add_kernel(&device);
    let data = device.alloc::<u32>(4)?;
    let (signal, done) = (device.signal()?, device.signal()?);
    let queue = device.compute_queue(0)?;
    let mut bound = {
        let mut commands = queue.record();
        let value = commands.var()?;
        exec_add(&mut commands, &kernel, &data, 1)?;
        commands.signal(&done, value)?;
        commands.bind()?
    };
    let value = hcq_std::Var::new(0);
    let mut count = 0u64;
    let mut round = || -> std::result::Result<(), hcq_std::Error> {
        count += 1;
        let mut commands = queue.record();
        exec_add(&mut commands, &kernel, &data, 1)?;
        let point = commands.signal(&signal, count)?.submit()?;
        commands.after(&point)?.memory_barrier()?.submit()?;
        bound.set(value, count)?;
        bound.submit()?.wait()?;
        assert_eq!((signal.value(), done.value()), (count, count));
        Ok(())
    };
    for _ in 0..100 {
        round()?;
    }
    let (allocations, calls) = (ALLOCATIONS.load(Ordering::SeqCst), system.all());
    for _ in 0..500 {
        round()?;
    }
    assert_eq!(
        ALLOCATIONS.load(Ordering::SeqCst) - allocations,
        0,
        "allocations of 1500 submissions"
    );
    assert_eq!(
        system.all() - calls,
        0,
        "system calls of 1500 submissions: {system:?}"
    );
    Ok(())
}

/// Ten thousand launches of a graph, with other inputs and numbers each time, cost what the first ones did.
fn graphs() -> Result {
    let system = Counting::new();
    let options = options()
        .helper_threads(0)
        .compute_queues(1)
        .copy_queues(0)
        .spin(Duration::from_secs(600));
    let device = open(&options.system(Arc::clone(&system) as _));
    let kernel = add_kernel(&device);
    let data = [device.alloc::<u32>(4)?, device.alloc::<u32>(4)?];
    let mut builder = GraphBuilder::new([&device])?;
    let (input, number) = (builder.input(&data[0])?, builder.param(0u32)?);
    for _ in 0..10 {
        let args = [input.into(), number.into()];
        // SAFETY: the input has four numbers.
        unsafe { builder.exec(&kernel, &args, Grid::new(4, 1)) }?;
    }
    let mut graph = builder.build(&GraphOptions::default().instances(2))?;
    let mut launch = |n: u32| -> std::result::Result<(), Error> {
        graph.set(number, n)?;
        graph.set_input(input, &data[n as usize % 2])?;
        graph.launch()?;
        Ok(())
    };
    for n in 0..100 {
        launch(n)?;
    }
    let (allocations, calls) = (ALLOCATIONS.load(Ordering::SeqCst), system.all());
    for n in 0..10_000 {
        launch(n)?;
    }
    assert_eq!(
        ALLOCATIONS.load(Ordering::SeqCst) - allocations,
        0,
        "allocations of 10,000 launches of a graph"
    );
    assert_eq!(system.all() - calls, 0, "system calls of these launches");
    graph.wait()?;
    let sums = |of: u32| {
        let mine = |n: &u32| n % 2 == of;
        let all: u32 = (0..100).chain(0..10_000).filter(mine).sum();
        all.wrapping_mul(10)
    };
    for (of, data) in (0u32..).zip(&data) {
        assert_eq!(data.to_vec()?, [sums(of); 4]);
    }
    Ok(())
}

fn staging() -> Result {
    let device = open(&options().helper_threads(0).compute_queues(1));
    let data = device.alloc::<u32>(400)?;
    let queue = device.copy_queue(0)?;
    let round = |n: u32| -> std::result::Result<(), hcq_std::Error> {
        let mut commands = queue.record();
        commands
            .upload(&data, &[n; 400])?
            .write32(data.address(), n + 1)?
            .submit()?
            .wait()
    };
    (0..2000).try_for_each(round)?;
    let allocations = ALLOCATIONS.load(Ordering::SeqCst);
    (0..2000).try_for_each(round)?;
    assert_eq!(
        ALLOCATIONS.load(Ordering::SeqCst) - allocations,
        0,
        "allocations of 2000 uploads"
    );
    assert_eq!(data.to_vec()?[..2], [2000, 1999]);
    Ok(())
}

fn asleep() -> Result {
    let system = Counting::new();
    let options = options()
        .helper_threads(0)
        .compute_queues(1)
        .copy_queues(0)
        .spin(Duration::ZERO);
    let device = open(&options.system(Arc::clone(&system) as _));
    let queue = device.compute_queue(0)?;
    let load = |n: &AtomicUsize| n.load(Ordering::SeqCst);
    let mut slept = 0;
    for _ in 0..50 {
        let start = Instant::now();
        while load(&system.waits) <= slept {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "the worker goes to sleep"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        slept = load(&system.waits);
        let (wakes, others) = (
            load(&system.wakes),
            load(&system.maps) + load(&system.unmaps) + load(&system.others),
        );
        let mut commands = queue.record();
        let point = commands.memory_barrier()?.submit()?;
        assert_eq!(load(&system.wakes) - wakes, 1);
        while !point.is_done()? {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(
            load(&system.wakes) - wakes,
            1,
            "and no more until it is done"
        );
        assert_eq!(
            load(&system.maps) + load(&system.unmaps) + load(&system.others),
            others
        );
    }
    Ok(())
}
