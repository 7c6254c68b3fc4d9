//! Text of sysfs, which is trusted for nothing.

use std::path::Path;

use crate::Error;
use crate::candidates::Attempt;
use crate::seam::{Errno, System};

/// Bytes read of one file; a file of sysfs fits a page.
const LIMIT: usize = 64 << 10;

/// Why something could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The system's answer.
    System {
        path: String,
        operation: &'static str,
        errno: Errno,
    },
    /// Text that is not what it should be.
    Malformed {
        path: String,
        /// From 1; 0 for the file as a whole.
        line: usize,
        why: String,
    },
}

impl Trouble {
    /// As an entry of what was tried.
    pub(super) fn into_attempt(self, hint: &str) -> Attempt {
        match self {
            Self::System {
                path,
                operation,
                errno,
            } => Attempt {
                path,
                operation,
                errno: Some(errno),
                hint: hint.into(),
            },
            Self::Malformed { path, line, why } => Attempt {
                path,
                operation: "read",
                errno: Some(Errno::INVAL),
                hint: format!("line {line}: {why}"),
            },
        }
    }
}

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::System {
                path,
                operation,
                errno,
            } => Self::File {
                operation,
                path: path.into(),
                reason: errno.to_string(),
            },
            Trouble::Malformed { path, line: 0, why } => Self::File {
                operation: "read",
                path: path.into(),
                reason: why,
            },
            Trouble::Malformed { path, line, why } => Self::File {
                operation: "read",
                path: path.into(),
                reason: format!("line {line}: {why}"),
            },
        }
    }
}

/// The text of one file.
#[derive(Debug)]
pub(super) struct Text {
    path: String,
    text: String,
}

impl Text {
    pub(super) fn read(system: &dyn System, path: String) -> Result<Self, Trouble> {
        match system.read(Path::new(&path), LIMIT) {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Ok(Self { path, text }),
                Err(_) => Err(Trouble::Malformed {
                    path,
                    line: 0,
                    why: "it is not UTF-8".into(),
                }),
            },
            Err(errno) => Err(Trouble::System {
                path,
                operation: "read",
                errno,
            }),
        }
    }

    fn malformed(&self, line: usize, why: String) -> Trouble {
        Trouble::Malformed {
            path: self.path.clone(),
            line,
            why,
        }
    }

    /// The first line, without spaces around it.
    pub(super) fn line(&self) -> &str {
        self.text.lines().next().unwrap_or_default().trim()
    }

    /// The one number that the file holds.
    pub(super) fn number<T: Number>(&self) -> Result<T, Trouble> {
        T::parse(self.line()).map_err(|why| self.malformed(1, why))
    }

    /// A number on each line.
    pub(super) fn numbers<T: Number>(&self) -> Result<Vec<T>, Trouble> {
        let lines = (1..).zip(self.text.lines());
        lines
            .filter(|(_, line)| !line.trim().is_empty())
            .map(|(at, line)| T::parse(line.trim()).map_err(|why| self.malformed(at, why)))
            .collect()
    }

    /// The number on the line `name value`; `None` if no line has the name. Other lines may hold anything: kernels add to
    /// these files.
    pub(super) fn property<T: Number>(&self, name: &str) -> Result<Option<T>, Trouble> {
        for (at, line) in (1..).zip(self.text.lines()) {
            let mut words = line.split_whitespace();
            if words.next() != Some(name) {
                continue;
            }
            let why = match (words.next(), words.next()) {
                (Some(value), None) => match T::parse(value) {
                    Ok(value) => return Ok(Some(value)),
                    Err(why) => format!("{name}: {why}"),
                },
                (None, _) => format!("{name} has no value"),
                (Some(_), Some(_)) => format!("{name} has more than one value"),
            };
            return Err(self.malformed(at, why));
        }
        Ok(None)
    }

    /// A number that has to be there.
    pub(super) fn needed<T: Number>(&self, name: &str) -> Result<T, Trouble> {
        self.property(name)?.ok_or_else(|| {
            self.malformed(
                0,
                format!("{name} is missing: the kernel is too old for this interface"),
            )
        })
    }

    /// A number, 0 if the kernel does not tell it yet.
    pub(super) fn optional<T: Number + Default>(&self, name: &str) -> Result<T, Trouble> {
        Ok(self.property(name)?.unwrap_or_default())
    }
}

/// Numbers as the kernel prints them: decimal, or hexadecimal after `0x`.
pub(super) trait Number: Sized {
    fn parse(text: &str) -> Result<Self, String>;
}

fn parse_u64(text: &str) -> Result<u64, String> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = hexadecimal.map_or((text, 10), |digits| (digits, 16));
    // `from_str_radix` takes a sign, which the kernel never prints here.
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Err(format!("`{}` is not a number", shortened(text)));
    }
    u64::from_str_radix(digits, radix)
        .map_err(|_| format!("`{}` is more than 64 bits", shortened(text)))
}

/// Enough of a text for a message.
fn shortened(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_debug).collect()
}

impl Number for u64 {
    fn parse(text: &str) -> Result<Self, String> {
        parse_u64(text)
    }
}

impl Number for u32 {
    fn parse(text: &str) -> Result<Self, String> {
        let number = parse_u64(text)?;
        Self::try_from(number).map_err(|_| format!("{number} is more than 32 bits"))
    }
}

impl Number for u8 {
    fn parse(text: &str) -> Result<Self, String> {
        let number = parse_u64(text)?;
        Self::try_from(number).map_err(|_| format!("{number} is more than 8 bits"))
    }
}

/// The numbered entries of a directory, in order.
pub(super) fn numbered(system: &dyn System, path: &str) -> Result<Vec<u32>, Trouble> {
    let names = system
        .list(Path::new(path))
        .map_err(|errno| Trouble::System {
            path: path.into(),
            operation: "list",
            errno,
        })?;
    let mut numbers: Vec<u32> = names.iter().filter_map(|n| n.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}
