//! From TOML text to a [`Job`].

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::source::{Fields, Node, Source as Reader, nearest, type_words};
use super::{
    Argument, BufferDecl, Job, Launch, MAX_TASKS, Output, Program, ProgramKind, Source, Task, Transfer, ViewDecl, Work,
};
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
    let mut checker = Checker { reader, programs: Names::default(), buffers: Names::default() };
    let job = checker.job(root.get_ref());
    checker.reader.finish()?;
    Ok(job)
}

struct Checker {
    reader: Reader,
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
        Self { index: HashMap::new(), sound: Vec::new() }
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
            None if names.is_empty() => format!("the job defines no {kind}; add a table [{kind}s.{name}]"),
            None if names.len() > 20 => format!("the job defines {} {kind}s, none of them similar", names.len()),
            None => format!("{kind}s of this job: {}", names.join(", ")),
        };
        reader.fail_help(at, format!("there is no {kind} called {name:?}"), help);
        None
    }
}

impl Checker {
    fn job(&mut self, table: &DeTable<'_>) -> Job {
        let root = self.reader.root(table, &["device", "programs", "buffers", "tasks", "outputs"]);
        let device = root.get("device").and_then(|node| {
            let value = self.reader.string(node)?.to_owned();
            Some(Located { value, at: node.at.clone() })
        });
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
                    self.reader.fail(&node.at, "there must be at least one task");
                }
                if nodes.len() > MAX_TASKS {
                    let what = format!("{} tasks are more than the {MAX_TASKS} that one job may have", nodes.len());
                    self.reader.fail(&node.at, what);
                }
                for (i, node) in nodes.iter().enumerate().take(MAX_TASKS) {
                    tasks.extend(self.task(i, node));
                }
            }
            None => {
                self.reader.fail_help(&root.at, "the job has no tasks", "add a table [[tasks]]");
            }
        }
        let mut outputs = Vec::new();
        let mut written = HashMap::new();
        for node in root.get("outputs").and_then(|n| self.reader.array(n)).unwrap_or_default() {
            let Some(output) = self.output(&node) else { continue };
            if let Some(file) = &output.file
                && let Some(first) = written.insert(file.value.clone(), file.at.line)
            {
                let what = format!("{} is written already, by line {first}", file.value.display());
                self.reader.fail(&file.at, what);
            }
            outputs.push(output);
        }
        Job {
            file: self.reader.file(),
            device,
            programs: std::mem::take(&mut self.programs).sound,
            buffers: std::mem::take(&mut self.buffers).sound,
            tasks,
            outputs,
        }
    }

    fn path(&mut self, node: &Node<'_, '_>) -> Option<Located<PathBuf>> {
        let value = PathBuf::from(self.reader.string(node)?);
        Some(Located { value, at: node.at.clone() })
    }

    fn program(&mut self, name: &str, node: &Node<'_, '_>) -> Option<Program> {
        let fields = self.reader.fields(node, &["path", "flags"])?;
        let path = self.reader.need(&fields, "path").cloned().and_then(|n| self.path(&n));
        let flags = match fields.get("flags") {
            Some(node) => self.reader.strings(node)?,
            None => Vec::new(),
        };
        let path = path?;
        let kind = match extension(&path.value).as_str() {
            "c" => ProgramKind::C,
            "so" | "dylib" | "dll" => ProgramKind::Shared,
            _ => {
                self.reader.fail_help(
                    &path.at,
                    format!("{} is no program that can be loaded", path.value.display()),
                    "give a .c file, which is compiled, or a shared object (.so, .dylib)",
                );
                return None;
            }
        };
        if let (ProgramKind::Shared, Some(node)) = (kind, fields.get("flags")) {
            self.reader.fail(&node.at, "flags are for .c files: a shared object is compiled already");
        }
        let flags = flags.into_iter().map(|f| f.value.to_owned()).collect();
        Some(Program { name: name.to_owned(), at: node.at.clone(), path, kind, flags })
    }

    fn dtype(&mut self, node: &Node<'_, '_>) -> Option<Located<Dtype>> {
        let name = self.reader.string(node)?;
        match Dtype::from_name(name) {
            Some(value) => Some(Located { value, at: node.at.clone() }),
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
        let value: Option<Vec<u64>> = items.iter().map(|i| self.reader.whole(i, 1, u64::MAX)).collect();
        let value = value?;
        // Elements of eight bytes are the largest.
        let fits = value.iter().try_fold(8u64, |n, &d| n.checked_mul(d)).is_some_and(|b| b <= isize::MAX as u64);
        if !fits {
            self.reader.fail(&node.at, format!("{value:?} is more than memory can hold"));
            return None;
        }
        Some(Located { value, at: node.at.clone() })
    }

    fn buffer(&mut self, name: &str, node: &Node<'_, '_>) -> Option<BufferDecl> {
        let fields = self.reader.fields(node, &["file", "dtype", "shape", "fill"])?;
        let given = |key: &str| fields.get(key).is_some();
        let file = fields.get("file").and_then(|n| self.path(n));
        let dtype = fields.get("dtype").and_then(|n| self.dtype(n));
        let shape = fields.get("shape").and_then(|n| self.shape(n));
        let source = if given("file") {
            if let Some(node) = fields.get("fill") {
                self.reader.fail(&node.at, "a buffer has either a file or a fill, not both");
            }
            let file = file?;
            if (given("dtype") && dtype.is_none()) || (given("shape") && shape.is_none()) {
                return None;
            }
            match extension(&file.value).as_str() {
                "npy" => Source::Npy { file, dtype, shape },
                "bin" | "raw" => match dtype {
                    Some(dtype) => Source::Raw { file, dtype: dtype.value, shape },
                    None => {
                        self.reader.fail(&fields.at, "`dtype` is missing: a raw file does not say what it holds");
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
                    let what = format!("`{key}` is missing: a buffer needs a file, or dtype and shape");
                    self.reader.fail(&fields.at, what);
                }
            }
            let dtype = dtype.map(|d| d.value);
            let fill = match (fields.get("fill"), dtype) {
                (Some(node), Some(dtype)) => self.fill(node, dtype),
                (_, dtype) => dtype.map(|dtype| Fill::Value(Scalar { dtype, bits: 0 })),
            };
            Source::Fill { dtype: dtype?, shape: shape?.value, fill: fill? }
        };
        Some(BufferDecl { name: name.to_owned(), at: node.at.clone(), source })
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
                self.reader.fail_help(&node.at, format!("{s:?} is no fill"), WORDS);
                None
            }
            other => {
                self.reader.fail_help(&node.at, format!("{} is no fill", type_words(other)), WORDS);
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

    fn view(&mut self, node: &Node<'_, '_>) -> Option<ViewDecl> {
        match node.value {
            DeValue::String(_) => {
                let name = self.reader.string(node)?;
                let buffer = self.buffer_named(&node.at, name)?;
                Some(ViewDecl { buffer, offset: None, len: None, at: node.at.clone() })
            }
            DeValue::Table(_) => {
                let fields = self.reader.fields(node, &["buffer", "offset", "len"])?;
                self.view_fields(node, &fields)
            }
            other => {
                let what = format!("expected a buffer, found {}", type_words(other));
                self.reader.fail_help(&node.at, what, r#"write "name" or { buffer = "name", offset = 0, len = 1 }"#);
                None
            }
        }
    }

    fn view_fields(&mut self, node: &Node<'_, '_>, fields: &Fields<'_, '_>) -> Option<ViewDecl> {
        let name = self.reader.need(fields, "buffer").cloned();
        let buffer = name.and_then(|n| {
            let name = self.reader.string(&n)?;
            self.buffer_named(&n.at, name)
        });
        let mut size = |key: &str, low: u64| match fields.get(key) {
            Some(n) => self.reader.whole(n, low, u64::MAX).map(|value| Some(Located { value, at: n.at.clone() })),
            None => Some(None),
        };
        let offset = size("offset", 0);
        let len = size("len", 1);
        Some(ViewDecl { buffer: buffer?, offset: offset?, len: len?, at: node.at.clone() })
    }

    fn task(&mut self, index: usize, node: &Node<'_, '_>) -> Option<Task> {
        const KNOWN: &[&str] = &[
            "name", "program", "kernel", "args", "groups", "local", "local_memory", "reads", "writes", "queue", "copy",
        ];
        let fields = self.reader.fields(node, KNOWN)?;
        let name = fields.get("name").map(|n| self.reader.string(n).map(str::to_owned));
        let (work, default) = match (fields.get("copy"), fields.get("kernel").or(fields.get("program"))) {
            (Some(copy), None) => {
                for (key, n) in fields.iter().filter(|(key, _)| !["name", "copy"].contains(key)) {
                    self.reader.fail(&n.at, format!("`{key}` has no meaning for a copy"));
                }
                (self.copy(copy), format!("copy {index}"))
            }
            (None, Some(_)) => {
                let launch = self.launch(&fields);
                let default = launch.as_ref().map_or_else(String::new, |l| l.kernel.value.clone());
                (launch.map(|l| Work::Kernel(Box::new(l))), default)
            }
            (Some(copy), Some(_)) => {
                self.reader.fail(&copy.at, "a task is either a kernel or a copy, not both");
                return None;
            }
            (None, None) => {
                self.reader.fail_help(
                    &node.at,
                    "the task does nothing",
                    r#"give `program` and `kernel`, or copy = { from = "x", to = "y" }"#,
                );
                return None;
            }
        };
        let name = match name {
            Some(name) => name?,
            None => default,
        };
        Some(Task { name, at: node.at.clone(), work: work? })
    }

    fn copy(&mut self, node: &Node<'_, '_>) -> Option<Work> {
        let fields = self.reader.fields(node, &["from", "to"])?;
        let mut side = |key: &str| {
            let node = self.reader.need(&fields, key)?.clone();
            self.view(&node)
        };
        let (from, to) = (side("from"), side("to"));
        Some(Work::Copy(Box::new(Transfer { from: from?, to: to? })))
    }

    fn launch(&mut self, fields: &Fields<'_, '_>) -> Option<Launch> {
        let program = self.reader.need(fields, "program").cloned().and_then(|n| {
            let name = self.reader.string(&n)?;
            self.programs.find(&mut self.reader, &n.at, "program", name)
        });
        let kernel = self.reader.need(fields, "kernel").cloned().and_then(|n| {
            let value = self.reader.string(&n)?.to_owned();
            Some(Located { value, at: n.at })
        });
        let args = match fields.get("args") {
            Some(node) => self.reader.array(node).and_then(|items| {
                let args: Vec<_> = items.iter().map(|item| self.argument(item)).collect();
                args.into_iter().collect::<Option<Vec<_>>>()
            }),
            None => Some(Vec::new()),
        };
        let (groups, groups_at) = match self.reader.need(fields, "groups").cloned() {
            Some(node) => (self.extent(&node), node.at),
            None => (None, fields.at.clone()),
        };
        let local = fields.get("local").map_or(Some([1; 3]), |n| self.extent(n));
        let local_memory = fields.get("local_memory").map_or(Some(0), |n| self.reader.whole(n, 0, u32::MAX.into()));
        let queue = match fields.get("queue") {
            Some(n) => self.reader.whole(n, 0, 255).map(|q| Some(Located { value: q as usize, at: n.at.clone() })),
            None => Some(None),
        };
        let passed = args.as_deref().unwrap_or_default();
        let reads = self.accessed(fields, "reads", passed);
        let writes = self.accessed(fields, "writes", passed);
        Some(Launch {
            program: program?,
            kernel: kernel?,
            args: args?,
            groups: groups?,
            local: local?,
            local_memory: u32::try_from(local_memory?).ok()?,
            groups_at,
            reads: reads?,
            writes: writes?,
            queue: queue?,
        })
    }

    /// One to three numbers; those left out are 1.
    fn extent(&mut self, node: &Node<'_, '_>) -> Option<[u32; 3]> {
        let items = self.reader.array(node)?;
        if items.is_empty() || items.len() > 3 {
            self.reader.fail(&node.at, format!("expected 1 to 3 numbers, found {}", items.len()));
            return None;
        }
        let mut extent = [1u32; 3];
        let mut sound = true;
        for (place, item) in extent.iter_mut().zip(&items) {
            match self.reader.whole(item, 1, u32::MAX.into()).and_then(|v| u32::try_from(v).ok()) {
                Some(v) => *place = v,
                None => sound = false,
            }
        }
        sound.then_some(extent)
    }

    fn argument(&mut self, node: &Node<'_, '_>) -> Option<Located<Argument>> {
        let value = match node.value {
            DeValue::Integer(_) | DeValue::Float(_) => Argument::Number(self.reader.number(node)?),
            DeValue::Table(table) if !table.keys().any(|k| k.get_ref() == "buffer") => {
                let known: Vec<&str> = Dtype::ALL.iter().map(|d| d.name()).collect();
                let fields = self.reader.names(node)?;
                let entries: Vec<_> = fields.iter().collect();
                let [(name, number)] = entries.as_slice() else {
                    self.reader.fail_help(&node.at, "a scalar has one type and one number", "such as { f32 = 2.0 }");
                    return None;
                };
                let Some(dtype) = Dtype::from_name(name) else {
                    let help = format!("scalar types: {}; or {{ buffer = NAME }}", known.join(", "));
                    self.reader.fail_help(&number.at, "unknown key", help);
                    return None;
                };
                let value = self.reader.number(number)?;
                Argument::Scalar(self.scalar(&number.at, dtype, value)?)
            }
            DeValue::String(_) | DeValue::Table(_) => Argument::Buffer(self.view(node)?),
            other => {
                let what = format!("expected an argument, found {}", type_words(other));
                let help = r#"write "buffer", { buffer = "x", offset = 0, len = 1 }, { f32 = 2.0 } or a number"#;
                self.reader.fail_help(&node.at, what, help);
                return None;
            }
        };
        Some(Located { value, at: node.at.clone() })
    }

    /// The buffers of `reads` or `writes`: each must be an argument of the kernel.
    fn accessed(&mut self, fields: &Fields<'_, '_>, key: &str, args: &[Located<Argument>]) -> Option<Vec<usize>> {
        let Some(node) = fields.get(key) else { return Some(Vec::new()) };
        let passed: HashSet<usize> = args
            .iter()
            .filter_map(|a| match &a.value {
                Argument::Buffer(view) => Some(view.buffer),
                _ => None,
            })
            .collect();
        let mut found = Vec::new();
        for name in self.reader.strings(node)? {
            let buffer = self.buffer_named(&name.at, name.value)?;
            if !passed.contains(&buffer) {
                let what = format!("{:?} is not an argument of this kernel, so it cannot reach it", name.value);
                self.reader.fail(&name.at, what);
                return None;
            }
            found.push(buffer);
        }
        Some(found)
    }

    fn output(&mut self, node: &Node<'_, '_>) -> Option<Output> {
        let fields = self.reader.fields(node, &["buffer", "file", "expect", "rtol", "atol"])?;
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
            self.reader.fail_help(&node.at, "the output is neither written nor checked", "give `file` or `expect`");
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
        Some(Output { at, buffer: buffer?, file: file?, expect: expect?, rtol: rtol?, atol: atol? })
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
    path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase()
}
