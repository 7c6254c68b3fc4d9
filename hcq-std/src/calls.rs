//! Calls that a fake of a kernel's interface counts, and which of them fail as a test says.

use std::ops::Deref;

use crate::seam::Errno;

/// A call that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// The request's number.
    Ioctl(u8),
    Mmap,
    Open,
}

/// The calls so far, in order. `F` is how one fails.
#[derive(Debug)]
pub(crate) struct Calls<C = Counted, F = Errno> {
    made: Vec<C>,
    /// The first that fails, from 0, how many do from there on, and how.
    failing: Option<(usize, usize, F)>,
}

impl<C, F> Default for Calls<C, F> {
    fn default() -> Self {
        Self {
            made: Vec::new(),
            failing: None,
        }
    }
}

impl<C, F: Copy> Calls<C, F> {
    /// Counts a call; whether it fails, and how.
    pub(crate) fn count(&mut self, call: C) -> Result<(), F> {
        let at = self.made.len();
        self.made.push(call);
        match self.failing {
            Some((first, times, how)) if at >= first && at - first < times => Err(how),
            _ => Ok(()),
        }
    }

    /// From now on so many calls fail, from the n-th of all on, and no others.
    pub(crate) fn fail(&mut self, first: usize, times: usize, how: F) {
        self.failing = Some((first, times, how));
    }

    /// The next calls fail.
    pub(crate) fn fail_next(&mut self, times: usize, how: F) {
        self.fail(self.made.len(), times, how);
    }

    /// No call fails any more.
    pub(crate) fn succeed(&mut self) {
        self.failing = None;
    }

    /// Whether some calls fail, or have failed, or will.
    pub(crate) fn may_fail(&self) -> bool {
        self.failing.is_some()
    }

    /// Forgets what was called.
    pub(crate) fn clear(&mut self) {
        self.made.clear();
    }
}

impl<C, F> Deref for Calls<C, F> {
    type Target = [C];

    fn deref(&self) -> &[C] {
        &self.made
    }
}

#[test]
fn the_calls_that_are_named_fail() {
    let mut calls = Calls::default();
    let next = |calls: &mut Calls| calls.count(Counted::Open);
    assert_eq!((next(&mut calls), calls.may_fail()), (Ok(()), false));
    calls.fail(2, 2, Errno::IO);
    let results = [(); 4].map(|()| next(&mut calls));
    let failed = Err(Errno::IO);
    assert_eq!(results, [Ok(()), failed, failed, Ok(())]);
    calls.fail_next(usize::MAX, Errno::NOMEM);
    assert_eq!([(); 2].map(|()| next(&mut calls)), [Err(Errno::NOMEM); 2]);
    calls.succeed();
    assert_eq!((next(&mut calls), calls.may_fail()), (Ok(()), false));
    assert_eq!((calls.len(), calls[7]), (8, Counted::Open));
    calls.clear();
    assert!(calls.is_empty());
}
