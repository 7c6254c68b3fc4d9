//! The command line.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::exit::EXIT_CODES;

/// Runs kernels through hardware command queues, with no CUDA, HIP or OpenCL.
#[derive(Debug, Parser)]
#[command(name = "hcq", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Run the tasks of a job file or an image, check and write its outputs
    ///
    /// The programs that a job names are native code and run inside this process: run only jobs that you trust.
    #[command(after_help = EXIT_CODES)]
    Run(RunArgs),
    /// Record the tasks of a job file into an image, with its programs and data
    ///
    /// `hcq run` launches it, on any machine with the same kinds of devices.
    #[command(after_help = EXIT_CODES)]
    Build(BuildArgs),
    /// Say what an image holds
    #[command(after_help = EXIT_CODES)]
    Inspect(InspectArgs),
    /// Check that a device does what every device must do
    #[command(after_help = EXIT_CODES)]
    Selftest(SelftestArgs),
    /// List devices: what is there, what is not and why
    #[command(after_help = EXIT_CODES)]
    Devices(DevicesArgs),
    /// Say in words what the words of a queue mean
    #[command(after_help = EXIT_CODES)]
    Decode(DecodeArgs),
}

impl Command {
    /// Whether standard output is for a program.
    pub fn json(&self) -> bool {
        match self {
            Self::Run(args) => args.json,
            Self::Build(args) => args.json,
            Self::Inspect(args) => args.json,
            Self::Selftest(args) => args.json,
            Self::Devices(args) => args.json,
            Self::Decode(args) => args.json,
        }
    }
}

/// `hcq run`.
#[derive(Debug, Clone, clap::Args)]
pub struct RunArgs {
    /// The job file (TOML), or an image made by `hcq build`
    pub job: PathBuf,
    /// Device to run on; wins over the job file [default: cpu]. For an image once for each of its devices
    #[arg(long = "device", value_name = "D")]
    pub devices: Vec<String>,
    /// Directory for an image's outputs, each as an array (.npy)
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write the plan as a drawing for Graphviz: queues, tasks, and why each wait is there
    #[arg(long, value_name = "P.dot")]
    pub plan: Option<PathBuf>,
    /// Submit the recorded queues one by one instead of as a graph, for comparison
    #[arg(long)]
    pub no_graph: bool,
    /// Launch the tasks so many times, each time from the initial data; times are medians
    #[arg(long, value_name = "N", default_value = "1")]
    pub repeat: NonZeroU32,
    /// Write a trace that opens in Perfetto or chrome://tracing
    #[arg(long, value_name = "T.json")]
    pub trace: Option<PathBuf>,
    /// Write a picture of the last launch
    #[arg(long, value_name = "T.svg")]
    pub timeline: Option<PathBuf>,
    /// Print one JSON object instead of a table; errors too
    #[arg(long)]
    pub json: bool,
}

/// `hcq build`.
#[derive(Debug, Clone, clap::Args)]
pub struct BuildArgs {
    /// The job file (TOML)
    pub job: PathBuf,
    /// The image
    #[arg(short, long, value_name = "X.hcqg")]
    pub output: PathBuf,
    /// Device to build for; wins over the job file [default: cpu]
    #[arg(long, value_name = "D")]
    pub device: Option<String>,
    /// Print one JSON object; errors too
    #[arg(long)]
    pub json: bool,
}

/// `hcq inspect`.
#[derive(Debug, Clone, clap::Args)]
pub struct InspectArgs {
    /// The image
    pub image: PathBuf,
    /// Print one JSON object instead of lines; errors too
    #[arg(long)]
    pub json: bool,
}

/// `hcq selftest`.
#[derive(Debug, Clone, clap::Args)]
pub struct SelftestArgs {
    /// Device to check
    #[arg(long, value_name = "D", default_value = "cpu")]
    pub device: String,
    /// Only behaviours whose name contains this
    #[arg(long, value_name = "S")]
    pub filter: Option<String>,
    /// Print one JSON object instead of lines; errors too
    #[arg(long)]
    pub json: bool,
}

/// `hcq devices`.
#[derive(Debug, Clone, clap::Args)]
pub struct DevicesArgs {
    /// Print one JSON object instead of text; errors too
    #[arg(long)]
    pub json: bool,
}

/// `hcq decode`.
#[derive(Debug, Clone, clap::Args)]
pub struct DecodeArgs {
    /// The words: little-endian, 4 bytes each; `-` reads standard input
    pub file: PathBuf,
    /// What the words are
    #[arg(long, value_enum, value_name = "F")]
    pub format: Format,
    /// The chip that reads them, such as gfx1100: its names of registers and bits; pm4 needs it
    #[arg(long, value_name = "C")]
    pub chip: Option<String>,
    /// The copy engine's version, such as 6.0.0; sdma needs it or the chip
    #[arg(long, value_name = "V")]
    pub sdma_version: Option<String>,
    /// The file is text: hexadecimal words; commas, brackets, quotes and `#` comments are ignored
    #[arg(long)]
    pub hex: bool,
    /// Print one JSON object instead of lines; errors too
    #[arg(long)]
    pub json: bool,
}

/// What words are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[non_exhaustive]
pub enum Format {
    /// AMD: packets of the compute engine
    Pm4,
    /// AMD: 64-byte packets of the compute engine
    Aql,
    /// AMD: packets of the copy engine
    Sdma,
    /// NVIDIA: methods of any engine
    Nv,
    /// NVIDIA: launch descriptors
    Qmd,
    /// Adreno: packets of the command processor
    Adreno,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn help_lists_every_exit_code() {
        let help = Args::command().render_help().to_string();
        for code in ["0 ", "1 ", "2 ", "3 ", "4 ", "130 "] {
            assert!(
                help.lines().any(|l| l.trim_start().starts_with(code)),
                "{code}\n{help}"
            );
        }
    }
}
