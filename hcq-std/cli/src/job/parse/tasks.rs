//! Tasks: launches, copies, and the views and scalars that they name.

use std::collections::HashSet;

use toml::de::{DeTable, DeValue};

use super::Checker;
use crate::data::dtype::Dtype;
use crate::failure::Located;
use crate::job::source::{Fields, Node, type_words};
use crate::job::{Argument, Launch, MAX_LOCAL_MEMORY, Task, Transfer, ViewDecl, Work};

fn has(table: &DeTable<'_>, key: &str) -> bool {
    table.keys().any(|k| k.get_ref() == key)
}

impl Checker {
    fn view(&mut self, node: &Node<'_, '_>) -> Option<ViewDecl> {
        match node.value {
            DeValue::String(_) => {
                let name = self.reader.string(node)?;
                let buffer = self.buffer_named(&node.at, name)?;
                Some(ViewDecl {
                    buffer,
                    offset: None,
                    len: None,
                    at: node.at.clone(),
                })
            }
            DeValue::Table(_) => {
                let fields = self.reader.fields(node, &["buffer", "offset", "len"])?;
                self.view_fields(node, &fields)
            }
            other => {
                let what = format!("expected a buffer, found {}", type_words(other));
                self.reader.fail_help(
                    &node.at,
                    what,
                    r#"write "name" or { buffer = "name", offset = 0, len = 1 }"#,
                );
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
            Some(n) => self.reader.whole(n, low, u64::MAX).map(|value| {
                Some(Located {
                    value,
                    at: n.at.clone(),
                })
            }),
            None => Some(None),
        };
        let offset = size("offset", 0);
        let len = size("len", 1);
        Some(ViewDecl {
            buffer: buffer?,
            offset: offset?,
            len: len?,
            at: node.at.clone(),
        })
    }

    pub(super) fn task(&mut self, index: usize, node: &Node<'_, '_>) -> Option<Task> {
        const KNOWN: &[&str] = &[
            "name",
            "program",
            "kernel",
            "args",
            "groups",
            "local",
            "local_memory",
            "reads",
            "writes",
            "queue",
            "device",
            "copy",
        ];
        let fields = self.reader.fields(node, KNOWN)?;
        let name = fields
            .get("name")
            .map(|n| self.reader.string(n).map(str::to_owned));
        let (work, default) = match (
            fields.get("copy"),
            fields.get("kernel").or(fields.get("program")),
        ) {
            (Some(copy), None) => {
                for (key, n) in fields
                    .iter()
                    .filter(|(key, _)| !["name", "copy"].contains(key))
                {
                    self.reader
                        .fail(&n.at, format!("`{key}` has no meaning for a copy"));
                }
                (self.copy(copy), format!("copy {index}"))
            }
            (None, Some(_)) => {
                let launch = self.launch(&fields);
                let default = launch
                    .as_ref()
                    .map_or_else(String::new, |l| l.kernel.value.clone());
                (launch.map(|l| Work::Kernel(Box::new(l))), default)
            }
            (Some(copy), Some(_)) => {
                self.reader
                    .fail(&copy.at, "a task is either a kernel or a copy, not both");
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
        Some(Task {
            name,
            at: node.at.clone(),
            work: work?,
        })
    }

    fn copy(&mut self, node: &Node<'_, '_>) -> Option<Work> {
        let fields = self.reader.fields(node, &["from", "to"])?;
        let mut side = |key: &str| {
            let node = self.reader.need(&fields, key)?.clone();
            self.view(&node)
        };
        let (from, to) = (side("from"), side("to"));
        Some(Work::Copy(Box::new(Transfer {
            from: from?,
            to: to?,
        })))
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
        let local_memory = fields
            .get("local_memory")
            .map_or(Some(0), |n| self.reader.whole(n, 0, MAX_LOCAL_MEMORY));
        let queue = match fields.get("queue") {
            Some(n) => self.reader.whole(n, 0, 255).map(|q| {
                Some(Located {
                    value: q as usize,
                    at: n.at.clone(),
                })
            }),
            None => Some(None),
        };
        let device = match fields.get("device") {
            Some(node) => self.device_named(&node.clone()).map(Some),
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
            device: device?,
        })
    }

    /// One to three numbers; those left out are 1.
    fn extent(&mut self, node: &Node<'_, '_>) -> Option<[u32; 3]> {
        let items = self.reader.array(node)?;
        if items.is_empty() || items.len() > 3 {
            self.reader.fail(
                &node.at,
                format!("expected 1 to 3 numbers, found {}", items.len()),
            );
            return None;
        }
        let mut extent = [1u32; 3];
        let mut sound = true;
        for (place, item) in extent.iter_mut().zip(&items) {
            match self
                .reader
                .whole(item, 1, u32::MAX.into())
                .and_then(|v| u32::try_from(v).ok())
            {
                Some(v) => *place = v,
                None => sound = false,
            }
        }
        if extent
            .iter()
            .try_fold(1u64, |n, &v| n.checked_mul(v.into()))
            .is_none()
        {
            self.reader
                .fail(&node.at, format!("{extent:?} are more than can be counted"));
            return None;
        }
        sound.then_some(extent)
    }

    fn argument(&mut self, node: &Node<'_, '_>) -> Option<Located<Argument>> {
        let value = match node.value {
            DeValue::Integer(_) | DeValue::Float(_) => Argument::Number(self.reader.number(node)?),
            DeValue::Table(table) if has(table, "image") => self.image(node)?,
            DeValue::Table(table) if has(table, "sampler") => self.sampler(node)?,
            DeValue::Table(table) if !has(table, "buffer") => {
                let known: Vec<&str> = Dtype::ALL.iter().map(|d| d.name()).collect();
                let fields = self.reader.names(node)?;
                let entries: Vec<_> = fields.iter().collect();
                let [(name, number)] = entries.as_slice() else {
                    self.reader.fail_help(
                        &node.at,
                        "a scalar has one type and one number",
                        "such as { f32 = 2.0 }",
                    );
                    return None;
                };
                let Some(dtype) = Dtype::from_name(name) else {
                    let help = format!(
                        "scalar types: {}; or {{ buffer = NAME }}, {{ image = NAME, ... }}, {{ sampler = {{ ... }} }}",
                        known.join(", ")
                    );
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
        Some(Located {
            value,
            at: node.at.clone(),
        })
    }

    /// The buffers of `reads` or `writes`: each must be an argument of the kernel.
    fn accessed(
        &mut self,
        fields: &Fields<'_, '_>,
        key: &str,
        args: &[Located<Argument>],
    ) -> Option<Vec<usize>> {
        let Some(node) = fields.get(key) else {
            return Some(Vec::new());
        };
        let passed: HashSet<usize> = args
            .iter()
            .filter_map(|a| match &a.value {
                Argument::Buffer(view) => Some(view.buffer),
                Argument::Image(image) => Some(image.view.buffer),
                _ => None,
            })
            .collect();
        let mut found = Vec::new();
        for name in self.reader.strings(node)? {
            let buffer = self.buffer_named(&name.at, name.value)?;
            if !passed.contains(&buffer) {
                let what = format!(
                    "{:?} is not an argument of this kernel, so it cannot reach it",
                    name.value
                );
                self.reader.fail(&name.at, what);
                return None;
            }
            found.push(buffer);
        }
        Some(found)
    }
}
