//! Exit codes: what a script may rely on.

use std::process::ExitCode;

/// Why the command ended, as its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// All went well.
    Ok = 0,
    /// An output differs from what was expected, a behaviour failed, or words are no packet.
    Check = 1,
    /// The command line, the job file, or a file that it names is wrong.
    Usage = 2,
    /// The device is absent, refused the work, or failed.
    Device = 3,
    /// A file could not be read or written.
    Io = 4,
    /// Ended by Ctrl-C or a termination signal.
    Interrupted = 130,
}

/// The table shown by `--help`.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    a check failed: an output differs, a behaviour failed, or words are no packet
  2    a mistake in the command line, in the job file, or in a file that the job names
  3    the device is absent, refused the work, or failed
  4    a file could not be read or written
  130  interrupted (Ctrl-C)";

impl Exit {
    /// The number that the process ends with.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The word for it in JSON output.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Check => "check",
            Self::Usage => "usage",
            Self::Device => "device",
            Self::Io => "io",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}
