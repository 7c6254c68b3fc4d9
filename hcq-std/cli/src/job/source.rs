//! Typed reading of a TOML document that remembers lines and collects every mistake.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::data::dtype::Number;
use crate::failure::{At, Failure, Failures, Located, Place, Result};

/// Mistakes reported at most; a file with more has one cause.
const MAX_FAILURES: usize = 50;
/// Longest name that is quoted in full or searched for a misspelling.
const MAX_WORD: usize = 64;

/// A document under examination.
pub(super) struct Source {
    file: Arc<Path>,
    line_starts: Vec<usize>,
    failures: Vec<Failure>,
}

/// A value with its dotted key.
#[derive(Clone)]
pub(super) struct Node<'t, 'i> {
    pub(super) value: &'t DeValue<'i>,
    pub(super) at: At,
}

/// The entries of one table, in the order of the file.
pub(super) struct Fields<'t, 'i> {
    pub(super) at: At,
    entries: Vec<(&'t str, Node<'t, 'i>)>,
}

impl<'t, 'i> Fields<'t, 'i> {
    pub(super) fn get(&self, key: &str) -> Option<&Node<'t, 'i>> {
        self.entries.iter().find(|(k, _)| *k == key).map(|(_, n)| n)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(&'t str, Node<'t, 'i>)> {
        self.entries.iter()
    }
}

impl Source {
    pub(super) fn new(text: &str, file: &Path) -> Self {
        let line_starts = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(i, _)| i + 1))
            .collect();
        Self {
            file: file.into(),
            line_starts,
            failures: Vec::new(),
        }
    }

    pub(super) fn file(&self) -> Arc<Path> {
        self.file.clone()
    }

    /// `Err` with all mistakes so far.
    pub(super) fn finish(&mut self) -> Result<()> {
        Failures::check(std::mem::take(&mut self.failures))
    }

    /// Whether further mistakes only replace each other: advice on them is wasted work.
    pub(super) fn is_full(&self) -> bool {
        self.failures.len() == MAX_FAILURES
    }

    pub(super) fn at(&self, span: Range<usize>, key: impl Into<String>) -> At {
        let line = self
            .line_starts
            .partition_point(|&start| start <= span.start);
        At {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            key: key.into(),
        }
    }

    /// Notes a mistake.
    pub(super) fn fail(&mut self, at: &At, what: impl Into<String>) -> &mut Failure {
        let place = Place {
            file: self.file.clone(),
            line: at.line,
            key: at.key.clone(),
        };
        let failure = Failure::usage(what).at(place);
        if self.failures.len() == MAX_FAILURES {
            // The list is full: the newest takes the last place, so that the caller can still add advice to it.
            self.failures.pop();
        }
        self.failures.push(failure);
        let last = self.failures.len() - 1;
        &mut self.failures[last]
    }

    /// Notes a mistake with advice.
    pub(super) fn fail_help(
        &mut self,
        at: &At,
        what: impl Into<String>,
        help: impl Into<Box<str>>,
    ) {
        self.fail(at, what).help = Some(help.into());
    }

    fn wrong_type<T>(&mut self, node: &Node<'_, '_>, wanted: &str) -> Option<T> {
        let found = type_words(node.value);
        self.fail(&node.at, format!("expected {wanted}, found {found}"));
        None
    }

    /// The root table's fields.
    pub(super) fn root<'t, 'i>(
        &mut self,
        table: &'t DeTable<'i>,
        known: &[&str],
    ) -> Fields<'t, 'i> {
        let fields = self.collect(
            table,
            At {
                line: 1,
                key: String::new(),
            },
        );
        self.refuse_unknown(&fields, known);
        fields
    }

    /// The fields of a table whose keys are all in `known`.
    pub(super) fn fields<'t, 'i>(
        &mut self,
        node: &Node<'t, 'i>,
        known: &[&str],
    ) -> Option<Fields<'t, 'i>> {
        let fields = self.names(node)?;
        self.refuse_unknown(&fields, known);
        Some(fields)
    }

    /// The fields of a table whose keys are the author's own names.
    pub(super) fn names<'t, 'i>(&mut self, node: &Node<'t, 'i>) -> Option<Fields<'t, 'i>> {
        match node.value {
            DeValue::Table(table) => Some(self.collect(table, node.at.clone())),
            _ => self.wrong_type(node, "a table"),
        }
    }

    fn collect<'t, 'i>(&self, table: &'t DeTable<'i>, at: At) -> Fields<'t, 'i> {
        let mut entries: Vec<(usize, &str, Node<'_, '_>)> = table
            .iter()
            .map(|(key, value)| {
                let name: &str = key.get_ref();
                let path = if at.key.is_empty() {
                    quoted(name)
                } else {
                    format!("{}.{}", at.key, quoted(name))
                };
                (
                    key.span().start,
                    name,
                    Node {
                        value: value.get_ref(),
                        at: self.at(key.span(), path),
                    },
                )
            })
            .collect();
        entries.sort_by_key(|e| e.0);
        Fields {
            at,
            entries: entries
                .into_iter()
                .map(|(_, name, node)| (name, node))
                .collect(),
        }
    }

    fn refuse_unknown(&mut self, fields: &Fields<'_, '_>, known: &[&str]) {
        for (name, node) in fields.iter().filter(|(name, _)| !known.contains(name)) {
            if self.is_full() {
                return;
            }
            let help = nearest(name, known.iter().copied()).map_or_else(
                || format!("known keys: {}", known.join(", ")),
                |n| format!("did you mean `{n}`?"),
            );
            self.fail_help(&node.at, "unknown key", help);
        }
    }

    /// A required field.
    pub(super) fn need<'f, 't, 'i>(
        &mut self,
        fields: &'f Fields<'t, 'i>,
        key: &str,
    ) -> Option<&'f Node<'t, 'i>> {
        let found = fields.get(key);
        if found.is_none() {
            self.fail(&fields.at, format!("`{key}` is missing"));
        }
        found
    }

    pub(super) fn string<'t>(&mut self, node: &Node<'t, '_>) -> Option<&'t str> {
        match node.value {
            DeValue::String(s) if s.is_empty() => {
                self.fail(&node.at, "must not be empty");
                None
            }
            DeValue::String(s) if s.contains('\0') => {
                self.fail(&node.at, "must not contain a zero byte");
                None
            }
            DeValue::String(s) => Some(s),
            _ => self.wrong_type(node, "a string"),
        }
    }

    pub(super) fn array<'t, 'i>(&mut self, node: &Node<'t, 'i>) -> Option<Vec<Node<'t, 'i>>> {
        match node.value {
            DeValue::Array(items) => Some(self.items(items, &node.at)),
            _ => self.wrong_type(node, "an array"),
        }
    }

    fn items<'t, 'i>(&self, items: &'t DeArray<'i>, at: &At) -> Vec<Node<'t, 'i>> {
        let items: &[Spanned<DeValue<'i>>] = items;
        let node = |(i, item): (usize, &'t Spanned<DeValue<'i>>)| Node {
            value: item.get_ref(),
            at: self.at(item.span(), format!("{}[{i}]", at.key)),
        };
        items.iter().enumerate().map(node).collect()
    }

    pub(super) fn strings<'t>(&mut self, node: &Node<'t, '_>) -> Option<Vec<Located<&'t str>>> {
        let items = self.array(node)?;
        items
            .into_iter()
            .map(|item| {
                Some(Located {
                    value: self.string(&item)?,
                    at: item.at,
                })
            })
            .collect()
    }

    /// A number of either kind.
    pub(super) fn number(&mut self, node: &Node<'_, '_>) -> Option<Number> {
        match node.value {
            DeValue::Integer(i) => match i128::from_str_radix(i.as_str(), i.radix()) {
                Ok(v) => Some(Number::Int(v)),
                Err(_) => {
                    self.fail(&node.at, format!("{} is out of range", i.as_str()));
                    None
                }
            },
            DeValue::Float(f) => match f.as_str().parse::<f64>() {
                Ok(v) => Some(Number::Float(v)),
                Err(_) => {
                    self.fail(&node.at, format!("{} is not a number", f.as_str()));
                    None
                }
            },
            _ => self.wrong_type(node, "a number"),
        }
    }

    pub(super) fn truth(&mut self, node: &Node<'_, '_>) -> Option<bool> {
        match node.value {
            DeValue::Boolean(value) => Some(*value),
            _ => self.wrong_type(node, "true or false"),
        }
    }

    /// A whole number from `low` to `high`.
    pub(super) fn whole(&mut self, node: &Node<'_, '_>, low: u64, high: u64) -> Option<u64> {
        if !matches!(node.value, DeValue::Integer(_)) {
            return self.wrong_type(node, "a whole number");
        }
        let Some(Number::Int(v)) = self.number(node) else {
            return None;
        };
        match u64::try_from(v) {
            Ok(v) if (low..=high).contains(&v) => Some(v),
            _ => {
                self.fail(
                    &node.at,
                    format!("{v} is out of range: it must be from {low} to {high}"),
                );
                None
            }
        }
    }

    /// A finite number of at least 0.
    pub(super) fn tolerance(&mut self, node: &Node<'_, '_>) -> Option<f64> {
        let value = match self.number(node)? {
            Number::Int(v) => v as f64,
            Number::Float(v) => v,
        };
        if value.is_finite() && value >= 0.0 {
            return Some(value);
        }
        self.fail(
            &node.at,
            format!("{value} is no tolerance: it must be 0 or more"),
        );
        None
    }
}

/// What a value is, in words.
pub(super) fn type_words(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// A key as TOML would write it.
fn quoted(name: &str) -> String {
    let end = name
        .char_indices()
        .map(|(i, _)| i)
        .find(|&i| i >= MAX_WORD)
        .unwrap_or(name.len());
    let name = &name[..end];
    let bare = !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare {
        name.to_owned()
    } else {
        format!("{name:?}")
    }
}

/// The candidate that a misspelling most likely meant.
pub(super) fn nearest<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    if name.len() > MAX_WORD {
        return None;
    }
    candidates
        .filter(|c| c.len() <= MAX_WORD)
        .map(|c| (strsim::damerau_levenshtein(name, c), c))
        .filter(|&(distance, c)| distance <= 1 + c.len().min(name.len()) / 4)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, c)| c)
}
