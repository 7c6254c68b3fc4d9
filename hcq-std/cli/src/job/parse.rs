//! From TOML text to a [`Job`].

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

mod images;
mod tasks;

use super::source::{Node, Source as Reader, nearest, type_words};
use super::{BufferDecl, DeviceDecl, Job, MAX_TASKS, Output, Program, ProgramKind, Source};
use crate::data::dtype::{Dtype, Number, Scalar};
use crate::data::fill::Fill;
use crate::failure::{At, Located, Result};

/// Reads a job from `text`, the contents of `file`. No file is touched.
pub fn parse(text: &str, file: &Path) -> Result<Job> {
    let mut reader = Reader::new(text, file);
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        for error in &errors {
            let at = reader.at(error.span().unwrap_or(0..0), "");
            reader.fail(&at, format!("not valid TOML: {}", error.message()));
        }
        reader.finish()?;
    }
    let mut checker = Checker {
        reader,
        devices: Names::default(),
        programs: Names::default(),
        buffers: Names::default(),
    };
    let job = checker.job(root.get_ref());
    checker.reader.finish()?;
    Ok(job)
}

struct Checker {
    reader: Reader,
    devices: Names<DeviceDecl>,
    programs: Names<Program>,
    buffers: Names<BufferDecl>,
}

/// Things by name: all names that are defined, and the declarations that are sound. Unless a mistake was noted,
/// an index of the one is an index of the other.
struct Names<T> {
    index: HashMap<String, usize>,
    sound: Vec<T>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self {
            index: HashMap::new(),
            sound: Vec::new(),
        }
    }
}

impl<T> Names<T> {
    fn add(&mut self, name: &str, declaration: Option<T>) {
        self.index.insert(name.to_owned(), self.index.len());
        self.sound.extend(declaration);
    }

    fn find(&self, reader: &mut Reader, at: &At, kind: &str, name: &str) -> Option<usize> {
        if let Some(&found) = self.index.get(name) {
            return Some(found);
        }
        if reader.is_full() {
            return None;
        }
        let mut names: Vec<&str> = self.index.keys().map(String::as_str).collect();
        names.sort_unstable();
        let help = match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean {near:?}?"),
            None if names.is_empty() => {
                format!("the job defines no {kind}; add a table [{kind}s.{name}]")
            }
            None if names.len() > 20 => format!(
                "the job defines {} {kind}s, none of them similar",
                names.len()
            ),
            None => format!("{kind}s of this job: {}", names.join(", ")),
        };
        reader.fail_help(at, format!("there is no {kind} called {name:?}"), help);
        None
    }
}

impl Checker {
    fn job(&mut self, table: &DeTable<'_>) -> Job {
        let root = self.reader.root(
            table,
            &[
                "device", "devices", "programs", "buffers", "tasks", "outputs",
            ],
        );
        let device = root.get("device").and_then(|node| {
            let value = self.reader.string(node)?.to_owned();
            Some(Located {
                value,
                at: node.at.clone(),
            })
        });
        if let Some(devices) = root.get("devices").and_then(|n| self.reader.names(n)) {
            for (name, node) in devices.iter() {
                let device = self.reader.string(node).map(str::to_owned);
                let device = device.map(|value| DeviceDecl {
                    name: (*name).to_owned(),
                    at: node.at.clone(),
                    device: Located {
                        value,
                        at: node.at.clone(),
                    },
                });
                self.devices.add(name, device);
            }
        }
        if let Some(programs) = root.get("programs").and_then(|n| self.reader.names(n)) {
            for (name, node) in programs.iter() {
                let program = self.program(name, node);
                self.programs.add(name, program);
            }
        }
        if let Some(buffers) = root.get("buffers").and_then(|n| self.reader.names(n)) {
            for (name, node) in buffers.iter() {
                let buffer = self.buffer(name, node);
                self.buffers.add(name, buffer);
            }
        }
        let mut tasks = Vec::new();
        match root.get("tasks") {
            Some(node) => {
                let nodes = self.reader.array(node).unwrap_or_default();
                if nodes.is_empty() {
                    self.reader
                        .fail(&node.at, "there must be at least one task");
                }
                if nodes.len() > MAX_TASKS {
                    let what = format!(
                        "{} tasks are more than the {MAX_TASKS} that one job may have",
                        nodes.len()
                    );
                    self.reader.fail(&node.at, what);
                }
                for (i, node) in nodes.iter().enumerate().take(MAX_TASKS) {
                    tasks.extend(self.task(i, node));
                }
            }
            None => {
                self.reader
                    .fail_help(&root.at, "the job has no tasks", "add a table [[tasks]]");
            }
        }
        let mut outputs = Vec::new();
        let mut written = HashMap::new();
        for node in root
            .get("outputs")
            .and_then(|n| self.reader.array(n))
            .unwrap_or_default()
        {
            let Some(output) = self.output(&node) else {
                continue;
            };
            if let Some(file) = &output.file
                && let Some(first) = written.insert(file.value.clone(), file.at.line)
            {
                let what = format!(
                    "{} is written already, by line {first}",
                    file.value.display()
                );
                self.reader.fail(&file.at, what);
            }
            outputs.push(output);
        }
        Job {
            file: self.reader.file(),
            device,
            devices: std::mem::take(&mut self.devices).sound,
            programs: std::mem::take(&mut self.programs).sound,
            buffers: std::mem::take(&mut self.buffers).sound,
            tasks,
            outputs,
        }
    }

    fn path(&mut self, node: &Node<'_, '_>) -> Option<Located<PathBuf>> {
        let value = PathBuf::from(self.reader.string(node)?);
        Some(Located {
            value,
            at: node.at.clone(),
        })
    }

    fn program(&mut self, name: &str, node: &Node<'_, '_>) -> Option<Program> {
        let fields = self.reader.fields(node, &["path", "flags"])?;
        let path = self
            .reader
            .need(&fields, "path")
            .cloned()
            .and_then(|n| self.path(&n));
        let flags = match fields.get("flags") {
            Some(node) => self.reader.strings(node)?,
            None => Vec::new(),
        };
        let path = path?;
        let kind = match extension(&path.value).as_str() {
            "c" => ProgramKind::C,
            "so" | "dylib" | "dll" => ProgramKind::Shared,
            "co" | "hsaco" | "o" | "cubin" | "ir3" | "bin" => ProgramKind::CodeObject,
            _ => {
                self.reader.fail_help(
                    &path.at,
                    format!("{} is no program that can be loaded", path.value.display()),
                    "give a .c file, which is compiled, a shared object (.so, .dylib), or a GPU's code object (.co, .hsaco, .o, .cubin, .ir3, .bin)",
                );
                return None;
            }
        };
        if let (true, Some(node)) = (kind != ProgramKind::C, fields.get("flags")) {
            self.reader.fail(
                &node.at,
                "flags are for .c files: others are compiled already",
            );
        }
        let flags = flags.into_iter().map(|f| f.value.to_owned()).collect();
        Some(Program {
            name: name.to_owned(),
            at: node.at.clone(),
            path,
            kind,
            flags,
        })
    }

    fn dtype(&mut self, node: &Node<'_, '_>) -> Option<Located<Dtype>> {
        let name = self.reader.string(node)?;
        match Dtype::from_name(name) {
            Some(value) => Some(Located {
                value,
                at: node.at.clone(),
            }),
            None => {
                let all: Vec<_> = Dtype::ALL.iter().map(|d| d.name()).collect();
                self.reader.fail_help(
                    &node.at,
                    format!("{name:?} is no element type"),
                    format!("element types: {}", all.join(", ")),
                );
                None
            }
        }
    }

    fn shape(&mut self, node: &Node<'_, '_>) -> Option<Located<Vec<u64>>> {
        let items = self.reader.array(node)?;
        let value: Option<Vec<u64>> = items
            .iter()
            .map(|i| self.reader.whole(i, 1, u64::MAX))
            .collect();
        let value = value?;
        // Elements of eight bytes are the largest.
        let fits = value
            .iter()
            .try_fold(8u64, |n, &d| n.checked_mul(d))
            .is_some_and(|b| b <= isize::MAX as u64);
        if !fits {
            self.reader
                .fail(&node.at, format!("{value:?} is more than memory can hold"));
            return None;
        }
        Some(Located {
            value,
            at: node.at.clone(),
        })
    }

    fn buffer(&mut self, name: &str, node: &Node<'_, '_>) -> Option<BufferDecl> {
        let fields = self
            .reader
            .fields(node, &["file", "dtype", "shape", "fill", "device"])?;
        let device = match fields.get("device") {
            Some(node) => Some(self.device_named(&node.clone())?),
            None => None,
        };
        let given = |key: &str| fields.get(key).is_some();
        let file = fields.get("file").and_then(|n| self.path(n));
        let dtype = fields.get("dtype").and_then(|n| self.dtype(n));
        let shape = fields.get("shape").and_then(|n| self.shape(n));
        let source = if given("file") {
            if let Some(node) = fields.get("fill") {
                self.reader
                    .fail(&node.at, "a buffer has either a file or a fill, not both");
            }
            let file = file?;
            if (given("dtype") && dtype.is_none()) || (given("shape") && shape.is_none()) {
                return None;
            }
            match extension(&file.value).as_str() {
                "npy" => Source::Npy { file, dtype, shape },
                "bin" | "raw" => match dtype {
                    Some(dtype) => Source::Raw {
                        file,
                        dtype: dtype.value,
                        shape,
                    },
                    None => {
                        self.reader.fail(
                            &fields.at,
                            "`dtype` is missing: a raw file does not say what it holds",
                        );
                        return None;
                    }
                },
                _ => {
                    self.unknown_format(&file);
                    return None;
                }
            }
        } else {
            for key in ["dtype", "shape"] {
                if !given(key) {
                    let what =
                        format!("`{key}` is missing: a buffer needs a file, or dtype and shape");
                    self.reader.fail(&fields.at, what);
                }
            }
            let dtype = dtype.map(|d| d.value);
            let fill = match (fields.get("fill"), dtype) {
                (Some(node), Some(dtype)) => self.fill(node, dtype),
                (_, dtype) => dtype.map(|dtype| Fill::Value(Scalar { dtype, bits: 0 })),
            };
            Source::Fill {
                dtype: dtype?,
                shape: shape?.value,
                fill: fill?,
            }
        };
        Some(BufferDecl {
            name: name.to_owned(),
            at: node.at.clone(),
            source,
            device,
        })
    }

    /// One of the job's further devices.
    fn device_named(&mut self, node: &Node<'_, '_>) -> Option<usize> {
        let name = self.reader.string(node)?;
        self.devices
            .find(&mut self.reader, &node.at, "device", name)
    }

    fn unknown_format(&mut self, file: &Located<PathBuf>) {
        self.reader.fail_help(
            &file.at,
            format!("the format of {} is unknown", file.value.display()),
            "name it .npy, or .bin or .raw for plain elements",
        );
    }

    fn fill(&mut self, node: &Node<'_, '_>, dtype: Dtype) -> Option<Fill> {
        const WORDS: &str = r#"a fill is a number, "iota", or { random = SEED }"#;
        match node.value {
            DeValue::Integer(_) | DeValue::Float(_) => {
                let number = self.reader.number(node)?;
                self.scalar(&node.at, dtype, number).map(Fill::Value)
            }
            DeValue::String(s) if s == "iota" => Some(Fill::Iota),
            DeValue::Table(_) => {
                let fields = self.reader.fields(node, &["random"])?;
                let seed = self.reader.need(&fields, "random").cloned()?;
                self.reader.whole(&seed, 0, u64::MAX).map(Fill::Random)
            }
            DeValue::String(s) => {
                self.reader
                    .fail_help(&node.at, format!("{s:?} is no fill"), WORDS);
                None
            }
            other => {
                self.reader
                    .fail_help(&node.at, format!("{} is no fill", type_words(other)), WORDS);
                None
            }
        }
    }

    fn scalar(&mut self, at: &At, dtype: Dtype, number: Number) -> Option<Scalar> {
        match Scalar::new(dtype, number) {
            Ok(scalar) => Some(scalar),
            Err(why) => {
                self.reader.fail(at, why);
                None
            }
        }
    }

    /// Index of the buffer called `name`.
    fn buffer_named(&mut self, at: &At, name: &str) -> Option<usize> {
        self.buffers.find(&mut self.reader, at, "buffer", name)
    }

    fn output(&mut self, node: &Node<'_, '_>) -> Option<Output> {
        let fields = self
            .reader
            .fields(node, &["buffer", "file", "expect", "rtol", "atol"])?;
        let buffer = self.reader.need(&fields, "buffer").cloned().and_then(|n| {
            let name = self.reader.string(&n)?;
            self.buffer_named(&n.at, name)
        });
        let mut file = |key: &str| match fields.get(key) {
            Some(n) => self.data_path(n).map(Some),
            None => Some(None),
        };
        let (file, expect) = (file("file"), file("expect"));
        if fields.get("file").is_none() && fields.get("expect").is_none() {
            self.reader.fail_help(
                &node.at,
                "the output is neither written nor checked",
                "give `file` or `expect`",
            );
        }
        let mut tolerance = |key: &str| match fields.get(key) {
            Some(n) if fields.get("expect").is_none() => {
                self.reader.fail(&n.at, "a tolerance needs `expect`");
                None
            }
            Some(n) => self.reader.tolerance(n).map(Some),
            None => Some(None),
        };
        let (rtol, atol) = (tolerance("rtol"), tolerance("atol"));
        let at = node.at.clone();
        Some(Output {
            at,
            buffer: buffer?,
            file: file?,
            expect: expect?,
            rtol: rtol?,
            atol: atol?,
        })
    }

    fn data_path(&mut self, node: &Node<'_, '_>) -> Option<Located<PathBuf>> {
        let path = self.path(node)?;
        if !["npy", "bin", "raw"].contains(&extension(&path.value).as_str()) {
            self.unknown_format(&path);
            return None;
        }
        Some(path)
    }
}

fn extension(path: &Path) -> String {
    path.extension()
        .and_then(|e| e.to_str())
        .unwrap_or_default()
        .to_ascii_lowercase()
}
