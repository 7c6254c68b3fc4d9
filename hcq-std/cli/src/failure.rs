//! What went wrong, where in which file, and what a person can do about it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::exit::Exit;

/// A spot in a job file: line and key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct At {
    /// Line, from 1.
    pub line: u32,
    /// Dotted path of the key, such as `tasks[0].args[1]`. Empty for the file as a whole.
    pub key: String,
}

/// A value and the spot that it was read from.
#[derive(Debug, Clone, PartialEq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Where the job file says so.
    pub at: At,
}

/// A spot in a named file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: Arc<Path>,
    /// Line, from 1; 0 if the whole file is meant.
    pub line: u32,
    /// Key at that line; may be empty.
    pub key: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        Ok(())
    }
}

/// One thing that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which exit code it leads to.
    pub exit: Exit,
    /// Where, if it has a place in a file.
    pub place: Option<Place>,
    /// What went wrong.
    pub what: String,
    /// Longer text, such as a compiler's messages; shown indented.
    pub detail: Option<Box<str>>,
    /// What a person can do.
    pub help: Option<Box<str>>,
}

impl Failure {
    /// A failure without a place.
    pub fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self {
            exit,
            place: None,
            what: what.into(),
            detail: None,
            help: None,
        }
    }

    /// A mistake in a job file or command line.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    /// A file that could not be read or written.
    pub fn io(doing: &str, path: &Path, error: &std::io::Error) -> Self {
        Self::new(
            Exit::Io,
            format!("cannot {doing} {}: {}", path.display(), os_words(error)),
        )
    }

    /// The same, at a place. A place that is set already stays.
    pub fn at(mut self, place: Place) -> Self {
        self.place.get_or_insert(place);
        self
    }

    /// The same, with advice. Advice that is set already stays.
    pub fn help(mut self, help: impl Into<Box<str>>) -> Self {
        self.help.get_or_insert_with(|| help.into());
        self
    }

    /// The same, with longer text.
    pub fn detail(mut self, detail: impl Into<Box<str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("error: ")?;
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.what)?;
        for line in self.detail.iter().flat_map(|d| d.lines()) {
            write!(f, "\n    {line}")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

/// Everything that went wrong in one step; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failures(Vec<Failure>);

impl Failures {
    /// `Err` with all of `list`, or `Ok` when it is empty.
    pub fn check(list: Vec<Failure>) -> Result<()> {
        if list.is_empty() {
            Ok(())
        } else {
            Err(Self(list))
        }
    }

    /// Each failure.
    pub fn iter(&self) -> impl Iterator<Item = &Failure> {
        self.0.iter()
    }

    /// The exit code of the worst: an interruption counts most, then the order of the codes.
    pub fn exit(&self) -> Exit {
        self.0.iter().map(|f| f.exit).max().unwrap_or(Exit::Io)
    }

    /// The same, each with a place unless it has one.
    pub fn at(mut self, place: &Place) -> Self {
        for failure in &mut self.0 {
            failure.place.get_or_insert_with(|| place.clone());
        }
        self
    }

    /// The failures as data for `--json`.
    pub fn json(&self) -> FailureReport<'_> {
        let exit = self.exit();
        FailureReport {
            ok: false,
            exit_code: exit.code(),
            errors: self.0.iter().map(FailureJson::from).collect(),
        }
    }
}

impl From<Failure> for Failures {
    fn from(failure: Failure) -> Self {
        Self(vec![failure])
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, failure) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{failure}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failures {}

/// What a step gives back.
pub type Result<T> = std::result::Result<T, Failures>;

/// The object that `--json` prints when a command fails.
#[derive(Debug, Serialize)]
pub struct FailureReport<'a> {
    ok: bool,
    exit_code: u8,
    errors: Vec<FailureJson<'a>>,
}

#[derive(Debug, Serialize)]
struct FailureJson<'a> {
    kind: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<&'a str>,
}

impl<'a> From<&'a Failure> for FailureJson<'a> {
    fn from(f: &'a Failure) -> Self {
        let place = f.place.as_ref();
        Self {
            kind: f.exit.word(),
            message: &f.what,
            file: place.map(|p| p.file.display().to_string()),
            line: place.map(|p| p.line).filter(|&l| l > 0),
            key: place.map(|p| p.key.as_str()).filter(|k| !k.is_empty()),
            detail: f.detail.as_deref(),
            help: f.help.as_deref(),
        }
    }
}

/// The system's words for an I/O error, without the number that Rust appends.
pub fn os_words(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
