//! Discrete GPUs on simulated machines: programs, copies, signals, bound queues, faults, private memory. [`every`] has what
//! holds for all of them, a module of each vendor what holds for its own.
#![cfg(feature = "sim")]

use std::sync::Arc;

use hcq_sim::machine::Machine;
use hcq_sim::standin::StandIns;
use hcq_std::sim::SimSystem;
use hcq_std::{Arg, Device, Kernel, Options, View};

/// The tests of [`every`], on these devices.
macro_rules! every_test {
    ($gpu:ident) => {
        every_test! {
            $gpu:
            a_program_runs_with_its_arguments
            arguments_are_checked
            programs_of_another_chip_are_refused
            copies_go_in_and_out
            queues_wait_for_each_other_by_signals_and_points
            a_bound_queue_runs_again_with_other_values
            rings_and_epochs_roll_over
            what_no_ring_holds_runs_by_reference
            threads_submit_to_the_same_device
            times_are_the_hosts
            a_fault_is_data_and_ends_waits
            freed_memory_is_no_longer_the_devices
            memory_of_the_caller_is_the_devices_for_a_while
            several_devices_of_one_machine
            a_wait_that_nobody_ends_times_out
            what_is_behind_a_wait_sees_what_was_waited_for
        }
    };
    ($gpu:ident: $($test:ident)*) => {
        $(#[test]
        fn $test() -> crate::Result {
            crate::every::$test(&$gpu)
        })*
    };
}

mod amd;
mod every;
mod nv;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A vendor's devices, and what is different about them.
struct Gpu {
    /// Simulated devices, one for each thing that may matter. The first is taken where nothing does.
    names: &'static [&'static str],
    /// Of the files with programs.
    extension: &'static str,
    /// Arguments of `saxpy` after its four of which no result depends.
    saxpy_rest: fn() -> Vec<Arg<'static>>,
    /// A target that most devices cannot run, and what the error says of it.
    elsewhere: (&'static str, &'static str),
    /// A machine of two devices, their names, and that of a third one, which is not there.
    machine_of_two: &'static str,
    three_names: [&'static str; 3],
    /// Whether Linux gives queues to a process again after a fault of its own.
    recovers: bool,
}

impl Gpu {
    fn object(&self, program: &str, target: &str) -> Vec<u8> {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/objects");
        std::fs::read(format!("{root}/{program}-{target}.{}", self.extension)).expect("a vector")
    }

    fn kernel(&self, device: &Device, program: &str) -> Kernel {
        let module = device.load_program(&self.object(program, device.target()));
        let module = module.unwrap_or_else(|e| panic!("{program} on {}: {e}", device.name()));
        assert_eq!(module.kernels(), [program]);
        module
            .kernel(program)
            .unwrap_or_else(|e| panic!("{program} on {}: {e}", device.name()))
    }

    /// `y[i] += alpha * x[i]` for `n` items, of which `x` and `y` have as many.
    fn saxpy<'a>(&self, y: &'a View<f32>, x: &'a View<f32>, alpha: f32, n: u32) -> Vec<Arg<'a>> {
        let mut args = vec![
            Arg::buffer(y),
            Arg::buffer(x),
            alpha.into(),
            (n as i32).into(),
        ];
        args.extend((self.saxpy_rest)());
        args
    }

    /// Runs a test on each device. When one fails, the machine says what its queues have seen.
    fn each(&self, test: impl Fn(&Device) -> Result) -> Result {
        for name in self.names {
            let (machine, device) = machine_and_device(name)?;
            let failed = |e| format!("{name}: {e}; the machine says: {:#?}", machine.reports());
            test(&device).map_err(failed)?;
            device.close().map_err(|e| failed(e.into()))?;
        }
        Ok(())
    }
}

fn options() -> Options {
    Options::default().wait_timeout_ms(10_000)
}

fn open(name: &str) -> Device {
    Device::open_with(name, &options()).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The device of this name, and the machine that it is in.
fn machine_and_device(name: &str) -> Result<(Arc<Machine>, Device)> {
    let text = name.strip_prefix("sim:").ok_or("a simulated device")?;
    // The kind of packets is the shell's choice.
    let machine = Machine::new(text.replace(",aql", "").parse()?)?;
    machine.register(Box::new(StandIns::stock()));
    let system = Arc::new(SimSystem::new(Arc::clone(&machine)));
    let device = Device::open_with(name, &options().system(system))?;
    Ok((machine, device))
}
