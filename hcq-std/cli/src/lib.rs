//! The parts of the `hcq` command.
//!
//! A subcommand is a variant of [`args::Command`], a module with a function that does it, and an arm of [`main`].
//! `run` goes through these in order: [`job`] (what the file says), [`data`] (what the files it names hold),
//! [`compile`] (programs given as source), [`launch`] (arguments held against signatures), [`plan`] (which queue, in
//! which order), [`run`] (the device), [`show`] (table, trace, picture).
//!
//! Nothing here panics on input: a mistake is a [`failure::Failure`] with the place in the file, and decides the
//! [`exit::Exit`] code.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use exit::Exit;
use failure::{Failure, Failures, Result};
use interrupt::Interrupt;

pub mod args;
pub mod compile;
pub mod data;
pub mod decode;
pub mod devices;
pub mod exit;
pub mod failure;
pub mod image;
pub mod interrupt;
pub mod job;
pub mod launch;
pub mod plan;
pub mod run;
pub mod selftest;
pub mod show;

/// The whole command, from the process's arguments to its exit code.
pub fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return refuse(&error).into(),
    };
    let json = args.command.json();
    let result = Interrupt::install().and_then(|interrupt| match &args.command {
        Command::Run(args) if image::is_image(&args.job) => image::replay(args, &interrupt),
        Command::Build(args) => image::build(args, &interrupt),
        Command::Inspect(args) => image::inspect(args),
        Command::Run(args) => {
            let report = run::run(args, &interrupt)?;
            say(&if json {
                json_line(&report.json())
            } else {
                report.to_string()
            })?;
            Ok(report.exit())
        }
        Command::Selftest(args) => selftest::selftest(args, &interrupt),
        Command::Devices(args) => devices::devices(args),
        Command::Decode(args) => decode::decode(args, &interrupt),
    });
    match result {
        Ok(exit) => exit.into(),
        Err(failures) => {
            complain(&failures, json);
            failures.exit().into()
        }
    }
}

/// Help and version are answers, everything else is a usage error; with `--json` it is an object like all others.
fn refuse(error: &clap::Error) -> Exit {
    let asked = !error.use_stderr();
    if !asked && std::env::args_os().any(|a| a == "--json") {
        let text = error.to_string();
        let what = text
            .trim_start_matches("error: ")
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        complain(&Failure::usage(what).detail(text).into(), true);
        return Exit::Usage;
    }
    // Nothing is left to tell if even this cannot be written.
    let _ = error.print();
    if asked { Exit::Ok } else { Exit::Usage }
}

fn complain(failures: &Failures, json: bool) {
    // As above: the exit code still says it.
    let _ = if json {
        say(&json_line(&failures.json()))
    } else {
        writeln!(io::stderr(), "{}", show::plain(&failures.to_string()))
            .map_err(|_| Failure::usage("").into())
    };
}

/// One JSON object and a line end.
pub fn json_line(value: &impl serde::Serialize) -> String {
    // Maps with string keys and plain values always serialise.
    serde_json::to_string(value)
        .unwrap_or_else(|e| format!("{{\"ok\":false,\"errors\":[\"{e}\"]}}"))
        + "\n"
}

/// Writes to standard output. A reader that has gone away, such as `head`, is no failure.
pub fn say(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            let words = failure::os_words(&e);
            Err(Failure::new(
                Exit::Io,
                format!("cannot write to standard output: {words}"),
            )
            .into())
        }
        _ => Ok(()),
    }
}
