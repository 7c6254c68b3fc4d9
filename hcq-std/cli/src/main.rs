//! The `hcq` command: everything is in the library, so that tests reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    hcq_cli::main()
}
