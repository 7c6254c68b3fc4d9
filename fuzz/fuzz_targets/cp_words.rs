//! Arbitrary words in the rings of simulated engines.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hcq_fuzz::cp_words(data);
});

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    hcq_fuzz::replay(hcq_fuzz::cp_words)
}
