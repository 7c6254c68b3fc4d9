//! The machine's open files.

use std::collections::BTreeMap;

/// The first number: what a process has open already is not of this machine.
const FIRST: i32 = 3;
/// `RLIMIT_NOFILE` as it usually is.
const MOST: usize = 1024;

/// An open file.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    /// Which opening this is, for as long as the machine lives.
    pub(crate) id: u64,
    /// The GPU whose render node it is; `None`: `/dev/kfd`.
    pub(crate) render: Option<usize>,
    /// Opened for writing too.
    pub(crate) write: bool,
}

/// Open files, by number.
#[derive(Debug, Default)]
pub(crate) struct Files {
    open: BTreeMap<i32, Open>,
    next: u64,
}

impl Files {
    /// Opens the file under the lowest free number.
    pub(crate) fn open(&mut self, render: Option<usize>, write: bool) -> Result<i32, i32> {
        if self.open.len() >= MOST {
            return Err(libc::EMFILE);
        }
        let free = (FIRST..i32::MAX).find(|number| !self.open.contains_key(number));
        let number = free.ok_or(libc::EMFILE)?;
        self.next += 1;
        let id = self.next;
        self.open.insert(number, Open { id, render, write });
        Ok(number)
    }

    /// The open file of a number.
    pub(crate) fn get(&self, number: i32) -> Result<&Open, i32> {
        self.open.get(&number).ok_or(libc::EBADF)
    }

    /// Closes it. Whether it was the last of `/dev/kfd`.
    pub(crate) fn close(&mut self, number: i32) -> bool {
        let closed = self.open.remove(&number);
        closed.is_some_and(|file| file.render.is_none())
            && !self.open.values().any(|file| file.render.is_none())
    }
}
