//! Arbitrary bytes as a file with kernels for AMD's GPUs.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hcq_fuzz::amd_code_object(data);
});

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    hcq_fuzz::replay(hcq_fuzz::amd_code_object)
}
