//! The machine's open files.

use std::collections::BTreeMap;

/// The first number: what a process has open already is not of this machine.
const FIRST: i32 = 3;
/// `RLIMIT_NOFILE` as it usually is.
const MOST: usize = 1024;

/// Which opening of a file it is, for as long as the machine lives: `struct file`, while numbers are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId(u64);

/// An open file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    /// Which opening this is.
    pub(crate) id: FileId,
    /// The driver whose node it is.
    pub(crate) driver: usize,
    /// The node, as its driver knows it.
    pub(crate) node: u32,
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
    pub(crate) fn open(
        &mut self,
        driver: usize,
        node: u32,
        write: bool,
    ) -> Result<(i32, FileId), i32> {
        if self.open.len() >= MOST {
            return Err(libc::EMFILE);
        }
        let free = (FIRST..i32::MAX).find(|number| !self.open.contains_key(number));
        let number = free.ok_or(libc::EMFILE)?;
        self.next += 1;
        let id = FileId(self.next);
        self.open.insert(
            number,
            Open {
                id,
                driver,
                node,
                write,
            },
        );
        Ok((number, id))
    }

    /// The open file of a number.
    pub(crate) fn get(&self, number: i32) -> Result<&Open, i32> {
        self.open.get(&number).ok_or(libc::EBADF)
    }

    /// Closes it; what it was, if it was open.
    pub(crate) fn close(&mut self, number: i32) -> Option<Open> {
        self.open.remove(&number)
    }
}
