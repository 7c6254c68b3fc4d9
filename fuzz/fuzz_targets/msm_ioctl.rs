//! Sequences of system calls against the simulated render node of msm.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hcq_fuzz::msm_ioctl(data);
});

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    hcq_fuzz::replay(hcq_fuzz::msm_ioctl)
}
