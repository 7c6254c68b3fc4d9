//! Bodies of the fuzz targets, each a function over arbitrary bytes that must not panic. It returns whether the input
//! was accepted, so that a test can tell when the seeds no longer reach beyond the first check.
//!
//! They are run in three ways: under libFuzzer (`cargo fuzz run NAME`), by `cargo test` on the committed seeds and on
//! pseudo-random input, and on single files (`cargo run --bin NAME -- FILE...`), which replays a crash without a
//! nightly toolchain.

mod amd;
mod calls;
mod images;
mod msm_sim;
mod nv;
mod nv_sim;
mod packets;
mod qcom;
mod qcom_sim;
mod raw;
mod sim;
mod tables;
mod text;
mod words;

// Random graphs, an encoder for them, and memory with guards: as the core's own tests have them.
#[allow(dead_code, unused_imports)]
#[path = "../../hcq-nostd/tests/graph/image.rs"]
mod image;
#[allow(dead_code)]
#[path = "../../hcq-nostd/tests/graph/scenes.rs"]
mod scenes;
#[allow(dead_code)]
#[path = "../../hcq-nostd/tests/graph/toy.rs"]
mod toy;

pub use amd::{amd_code_object, amd_decode};
pub use calls::{may_ask, sim_ioctl};
pub use images::graph_image;
pub use msm_sim::msm_ioctl;
pub use nv::{nv_cubin, nv_decode};
pub use nv_sim::{nv_ioctl, nv_words};
pub use packets::{cpu_engine, cpu_packet, signature};
pub use qcom::{qcom_decode, qcom_program};
pub use qcom_sim::{kgsl_ioctl, qcom_words};
pub use tables::patch_table;
pub use text::{job_file, npy_file};
pub use words::cp_words;

/// The body of a fuzz target.
pub type Body = fn(&[u8]) -> bool;

/// Every target by the name of its binary and of its folder of seeds.
pub const TARGETS: &[(&str, Body)] = &[
    ("amd_code_object", amd_code_object),
    ("amd_decode", amd_decode),
    ("cp_words", cp_words),
    ("cpu_engine", cpu_engine),
    ("cpu_packet", cpu_packet),
    ("graph_image", graph_image),
    ("job_file", job_file),
    ("kgsl_ioctl", kgsl_ioctl),
    ("msm_ioctl", msm_ioctl),
    ("npy_file", npy_file),
    ("nv_cubin", nv_cubin),
    ("nv_decode", nv_decode),
    ("nv_ioctl", nv_ioctl),
    ("nv_words", nv_words),
    ("patch_table", patch_table),
    ("qcom_decode", qcom_decode),
    ("qcom_program", qcom_program),
    ("qcom_words", qcom_words),
    ("signature", signature),
    ("sim_ioctl", sim_ioctl),
];

/// Runs one body on the files named on the command line.
pub fn replay(body: Body) -> std::process::ExitCode {
    let mut code = std::process::ExitCode::SUCCESS;
    for path in std::env::args_os().skip(1) {
        match std::fs::read(&path) {
            Ok(bytes) => {
                let answer = if body(&bytes) { "accepted" } else { "refused" };
                println!("{}: {} bytes, {answer}", path.display(), bytes.len());
            }
            Err(error) => {
                eprintln!("{}: {error}", path.display());
                code = std::process::ExitCode::FAILURE;
            }
        }
    }
    code
}

/// The folder of a target's seeds.
pub fn seeds_folder(target: &str) -> std::path::PathBuf {
    std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("seeds")
        .join(target)
}

/// The seeds that are made: where each lies, and what must be there.
pub fn made_seeds() -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let packets = packets::sound_packets();
    let of = |target: &str, seeds: Vec<(&str, Vec<u8>)>| {
        let folder = seeds_folder(target);
        seeds
            .into_iter()
            .map(move |(name, bytes)| (folder.join(name), bytes))
            .collect::<Vec<_>>()
    };
    [
        of("amd_code_object", amd::objects_as_seeds()),
        of("amd_decode", amd::queues_as_seeds()),
        of("cp_words", words::seeds()),
        of("graph_image", images::seeds()),
        of("kgsl_ioctl", qcom_sim::calls_as_seeds()),
        of("msm_ioctl", msm_sim::calls_as_seeds()),
        of("nv_cubin", nv::cubins_as_seeds()),
        of("nv_decode", nv::words_as_seeds()),
        of("nv_ioctl", nv_sim::calls_as_seeds()),
        of("nv_words", nv_sim::words_as_seeds()),
        of("qcom_decode", qcom::words_as_seeds()),
        of("qcom_program", qcom::programs_as_seeds()),
        of("qcom_words", qcom_sim::words_as_seeds()),
        of("sim_ioctl", calls::seeds()),
        of("cpu_packet", packets.clone()),
        of("cpu_engine", packets),
        of("patch_table", tables::seeds()),
    ]
    .concat()
}
