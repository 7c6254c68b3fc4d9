//! Programs given as C source: compiled into a directory of their own that is removed at the end.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::job::{Job, Program};

/// Declarations for kernels in C, written beside the compiled programs.
pub const HEADER: &str = hcq_std::HCQ_H;

/// Flags that every program is compiled with; those of the job come after them.
pub const FLAGS: [&str; 4] = ["-O3", "-march=native", "-shared", "-fPIC"];

/// Most of a compiler's messages that is shown.
const MAX_MESSAGES: usize = 8_000;

/// A C compiler and the place for its results.
#[derive(Debug)]
pub struct Compiler {
    command: Vec<String>,
    directory: TempDir,
}

/// A compiled program.
#[derive(Debug)]
pub struct Compiled {
    /// The shared object; it lives as long as the compiler.
    pub path: PathBuf,
    /// What the compiler said although it succeeded: its warnings.
    pub messages: String,
}

impl Compiler {
    /// The compiler that `$CC` names, else `cc`.
    pub fn from_environment() -> Result<Self> {
        Self::new(&std::env::var("CC").unwrap_or_default())
    }

    /// The compiler of that command line, words apart by spaces; `cc` if it is empty.
    pub fn new(command: &str) -> Result<Self> {
        let mut words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() {
            words.push("cc".to_owned());
        }
        let directory = tempfile::Builder::new()
            .prefix("hcq-")
            .tempdir()
            .map_err(|e| Failure::io("make a directory in", &std::env::temp_dir(), &e))?;
        let header = directory.path().join("hcq.h");
        fs::write(&header, HEADER).map_err(|e| Failure::io("write", &header, &e))?;
        Ok(Self {
            command: words,
            directory,
        })
    }

    /// Compiles program `index` of the job.
    pub fn compile(
        &self,
        job: &Job,
        index: usize,
        program: &Program,
        interrupt: &Interrupt,
    ) -> Result<Compiled> {
        let source = job.resolve(&program.path.value);
        let place = job.place(&program.path.at);
        // A missing file in this project's words, not in those of some compiler.
        File::open(&source).map_err(|e| Failure::io("open", &source, &e).at(place.clone()))?;
        let object = self.directory.path().join(format!("{index}.so"));
        let log = self.directory.path().join(format!("{index}.log"));
        let trouble = |what: &str, e: &io::Error| Failure::io(what, &log, e).at(place.clone());
        let messages = File::create(&log).map_err(|e| trouble("write", &e))?;
        let also = messages.try_clone().map_err(|e| trouble("write", &e))?;

        let mut command = Command::new(&self.command[0]);
        command
            .args(&self.command[1..])
            .args(FLAGS)
            .arg("-I")
            .arg(self.directory.path());
        // Behind the source, so that a library among the flags is searched for what the source needs.
        command
            .arg(not_a_flag(&source))
            .args(&program.flags)
            .arg("-o")
            .arg(&object);
        // What it leaves behind when it is ended goes with the directory, too.
        command.env("TMPDIR", self.directory.path());
        command.stdin(Stdio::null()).stdout(also).stderr(messages);
        let mut child = command
            .spawn()
            .map_err(|e| self.absent(&e).at(place.clone()))?;
        let status = wait(&mut child, interrupt, || {
            trouble("wait for the compiler of", &io::Error::last_os_error())
        })?;
        let bytes = fs::read(&log).map_err(|e| trouble("read", &e))?;
        let messages = shorten(&String::from_utf8_lossy(&bytes), MAX_MESSAGES);
        if !status.success() {
            let what = format!(
                "{} does not compile: `{}` ended with {status}",
                source.display(),
                self.command[0]
            );
            return Err(Failure::usage(what).at(place).detail(messages).into());
        }
        Ok(Compiled {
            path: object,
            messages,
        })
    }

    fn absent(&self, error: &io::Error) -> Failure {
        let name = &self.command[0];
        match error.kind() {
            io::ErrorKind::NotFound => Failure::usage(format!("no C compiler: `{name}` was not found"))
                .help("install one (such as the package gcc or clang), name it in $CC, or give a compiled .so"),
            _ => Failure { exit: Exit::Usage, ..Failure::io("start the C compiler", Path::new(name), error) },
        }
    }
}

/// Waits for the compiler, and ends it if the user asks to stop.
fn wait(
    child: &mut Child,
    interrupt: &Interrupt,
    trouble: impl Fn() -> Failure,
) -> Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait().map_err(|_| trouble())? {
            // Ctrl-C in a terminal ends the compiler too: that is no mistake in the source.
            interrupt.check()?;
            return Ok(status);
        }
        if interrupt.is_set() {
            // It may have ended just now; then there is nothing to kill.
            let _ = child.kill();
            let _ = child.wait();
            interrupt.check()?;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The path in a form that cannot be read as an option.
fn not_a_flag(path: &Path) -> OsString {
    if path.as_os_str().as_encoded_bytes().starts_with(b"-") {
        Path::new(".").join(path).into_os_string()
    } else {
        path.as_os_str().to_owned()
    }
}

fn shorten(text: &str, limit: usize) -> String {
    match text.char_indices().map(|(i, _)| i).find(|&i| i >= limit) {
        Some(end) => format!("{}\n[{} more bytes]", &text[..end], text.len() - end),
        None => text.trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::parse;

    fn job_with(source: &str, flags: &str) -> (TempDir, Job) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("k.c"), source).unwrap();
        let text = format!(
            "[programs.k]\npath = \"k.c\"\n{flags}\n[buffers.b]\ndtype = \"u8\"\nshape = [1]\n\
             [[tasks]]\nprogram = \"k\"\nkernel = \"k\"\ngroups = [1]\n"
        );
        let job = parse(&text, &dir.path().join("job.toml")).unwrap();
        (dir, job)
    }

    #[test]
    fn a_missing_compiler_is_named() {
        let (_dir, job) = job_with("int x;", "");
        let compiler = Compiler::new("no-such-compiler-anywhere -m64").unwrap();
        let said = compiler
            .compile(&job, 0, &job.programs[0], &Interrupt::default())
            .unwrap_err();
        assert_eq!(said.exit(), Exit::Usage);
        assert!(
            said.to_string().contains(
                "job.toml:2: programs.k.path: no C compiler: `no-such-compiler-anywhere`"
            )
        );
    }

    #[test]
    fn a_stop_ends_the_compiler() {
        let (_dir, job) = job_with("int x;", "");
        // Any program that does not end by itself will do.
        let mut compiler = Compiler::new("").unwrap();
        compiler.command = vec!["sh".into(), "-c".into(), "sleep 1000".into()];
        let interrupt = Interrupt::default();
        interrupt.set();
        let said = compiler
            .compile(&job, 0, &job.programs[0], &interrupt)
            .unwrap_err();
        assert_eq!(said.exit(), Exit::Interrupted);
    }

    #[test]
    fn the_directory_goes_with_the_compiler() {
        let compiler = Compiler::new("").unwrap();
        assert_eq!(compiler.command, ["cc"]);
        let path = compiler.directory.path().to_owned();
        assert!(path.join("hcq.h").exists());
        drop(compiler);
        assert!(!path.exists());
    }

    #[test]
    fn long_messages_are_cut_and_odd_paths_are_no_flags() {
        assert_eq!(shorten("äbc\n", 100), "äbc");
        assert_eq!(shorten("äbcd", 2), "ä\n[3 more bytes]");
        assert_eq!(not_a_flag(Path::new("-o.c")), "./-o.c");
        assert_eq!(not_a_flag(Path::new("a/-o.c")), "a/-o.c");
    }
}
