//! Every public function of the core and of the drivers in one ELF file for a machine with no operating
//! system. There is no global allocator here, so anything that allocates fails to link; and there is no symbol of
//! `core::panicking` in the result unless some function can still panic.
#![no_std]
#![no_main]

mod amd;
mod cpu;
mod nostd;
mod nv;
#[cfg(any(feature = "plant-alloc", feature = "plant-panic"))]
mod planted;
mod qcom;

use core::fmt::Display;
use core::hint::{black_box, spin_loop};

/// Keeps functions in the link, each as a pointer: the optimiser must compile them for arguments that it cannot know.
#[macro_export]
macro_rules! keep {
    ($($function:expr),* $(,)?) => {
        $( core::hint::black_box($function as *const ()); )*
    };
}

/// Keeps the text of an error. `Debug` is left out: for strings it panics inside `core` itself.
fn text<T: Display>() {
    keep!(<T as Display>::fmt);
}

/// Entry of the ELF file. It is linked and inspected, and would do no harm if it ran.
#[unsafe(no_mangle)]
pub extern "C" fn _start() -> ! {
    nostd::keep();
    amd::keep();
    cpu::keep();
    nv::keep();
    qcom::keep();
    #[cfg(any(feature = "plant-alloc", feature = "plant-panic"))]
    planted::keep();
    loop {
        spin_loop();
    }
}

/// Reached by no function that this file keeps; the check counts the paths that lead here.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    black_box(info);
    loop {
        spin_loop();
    }
}
