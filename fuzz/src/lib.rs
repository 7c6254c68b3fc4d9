//! Bodies of the fuzz targets, each a function over arbitrary bytes that must not panic.
//!
//! They are run in three ways: under libFuzzer (`cargo fuzz run NAME`), by `cargo test` on the committed seeds and on
//! pseudo-random input, and on single files (`cargo run --bin NAME -- FILE...`), which replays a crash without a
//! nightly toolchain.

/// Runs one body on the files named on the command line.
pub fn replay(body: fn(&[u8])) -> std::process::ExitCode {
    let mut code = std::process::ExitCode::SUCCESS;
    for path in std::env::args_os().skip(1) {
        match std::fs::read(&path) {
            Ok(bytes) => {
                body(&bytes);
                println!("{}: {} bytes, no panic", path.display(), bytes.len());
            }
            Err(error) => {
                eprintln!("{}: {error}", path.display());
                code = std::process::ExitCode::FAILURE;
            }
        }
    }
    code
}
