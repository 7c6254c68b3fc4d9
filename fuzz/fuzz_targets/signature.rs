//! Arbitrary text as the signature of a kernel.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hcq_fuzz::signature(data);
});

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    hcq_fuzz::replay(hcq_fuzz::signature)
}
