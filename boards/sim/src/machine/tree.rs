//! Files of sysfs and procfs, as text by path.

use std::collections::BTreeMap;
use std::path::Path;

/// Files and their text, by path, and links to directories.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
    links: BTreeMap<String, String>,
}

/// What is at a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    File(&'a str),
    /// The names in it, sorted.
    Directory(Vec<String>),
}

impl Tree {
    /// Adds a file.
    pub(crate) fn add(&mut self, path: String, text: String) {
        self.files.insert(path, text);
    }

    /// Adds a directory that may have nothing in it.
    pub(crate) fn directory(&mut self, path: &str) {
        self.files.insert(format!("{path}/"), String::new());
    }

    /// Adds a link to a directory. Names in links are not links themselves.
    pub(crate) fn link(&mut self, from: &str, to: &str) {
        self.links.insert(from.into(), to.into());
    }

    /// Adds what is in another tree.
    pub(crate) fn merge(&mut self, other: Self) {
        self.files.extend(other.files);
        self.links.extend(other.links);
    }

    /// What is at a [normal](Self::normal) path; `None` if there is nothing.
    pub(crate) fn get(&self, path: &str) -> Option<Entry<'_>> {
        if let Some(text) = self.files.get(path) {
            return Some(Entry::File(text));
        }
        let prefix = if path == "/" {
            path.into()
        } else {
            format!("{path}/")
        };
        let mut names: Vec<String> = Vec::new();
        for (file, _) in self.files.range(prefix.clone()..) {
            let Some(rest) = file.strip_prefix(&prefix) else {
                break;
            };
            let name = rest.split('/').next().unwrap_or(rest);
            if names.last().is_none_or(|last| last != name) {
                names.push(name.into());
            }
        }
        // Empty directories have a nameless file in them.
        let exists = !names.is_empty();
        names.retain(|name| !name.is_empty());
        names.sort();
        names.dedup();
        exists.then_some(Entry::Directory(names))
    }

    /// The path as the tree knows it: links followed, no doubled or final slashes.
    pub(crate) fn normal(&self, path: &Path) -> Option<String> {
        let text = plain(path)?;
        let linked = self.links.iter().find_map(|(from, to)| {
            let rest = text.strip_prefix(from.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{to}{rest}"))
        });
        Some(linked.unwrap_or(text))
    }
}

/// The path without doubled or final slashes, links not followed. `None` if it is no text.
pub(crate) fn plain(path: &Path) -> Option<String> {
    let mut text = String::new();
    for part in path
        .to_str()?
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
    {
        text.push('/');
        text.push_str(part);
    }
    if text.is_empty() {
        text.push('/');
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_what_files_lie_in() {
        let mut tree = Tree::default();
        tree.add("/sys/a/x".into(), "1\n".into());
        tree.add("/sys/a/b/y".into(), "2\n".into());
        tree.directory("/sys/a/empty");
        tree.link("/sys/l", "/sys/a");
        let names = |path| match tree.get(path) {
            Some(Entry::Directory(names)) => names.join(" "),
            other => panic!("{path}: {other:?}"),
        };
        assert_eq!(names("/sys/a"), "b empty x");
        assert_eq!(names("/sys/a/empty"), "");
        assert_eq!(names("/"), "sys");
        assert_eq!(tree.get("/sys/a/x"), Some(Entry::File("1\n")));
        assert_eq!(tree.get("/sys/a/z"), None);
        for (path, known) in [
            ("/sys//l/./b/", "/sys/a/b"),
            ("/sys/l", "/sys/a"),
            ("/sys/lx", "/sys/lx"),
            ("//", "/"),
        ] {
            assert_eq!(tree.normal(Path::new(path)).as_deref(), Some(known));
        }
    }
}
