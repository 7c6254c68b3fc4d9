//! Arbitrary bytes as an image of a graph, and launches of those that load.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hcq_fuzz::graph_image(data);
});

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    hcq_fuzz::replay(hcq_fuzz::graph_image)
}
