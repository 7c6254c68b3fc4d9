//! Memory of other devices that a device has made known to itself, once however often it is asked for.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::Error;
use crate::backend::{Memory, Origin};
use crate::heap::lock;

#[derive(Debug)]
struct Known<T> {
    how: T,
    address: u64,
    times: usize,
}

/// What is known, by the host's address; `T` says how it came to be.
#[derive(Debug)]
pub(crate) struct Peers<T>(Mutex<BTreeMap<usize, Known<T>>>);

impl<T> Default for Peers<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Peers<T> {
    /// Another device's memory as this one sees it. If it is new, `know` makes it known and returns its address here.
    pub(crate) fn import(
        &self,
        memory: &Memory,
        know: impl FnOnce() -> Result<(T, u64), Error>,
    ) -> Result<Memory, Error> {
        let mut all = lock(&self.0);
        let key = memory.cpu.as_ptr().addr();
        let address = match all.get_mut(&key) {
            Some(known) => {
                known.times += 1;
                known.address
            }
            None => {
                let (how, address) = know()?;
                let known = Known {
                    how,
                    address,
                    times: 1,
                };
                all.insert(key, known);
                address
            }
        };
        Ok(Memory {
            cpu: memory.cpu,
            len: memory.len,
            address,
            writable: memory.writable,
            origin: Origin::Peer,
        })
    }

    /// Once less. After the last time, how it came to be, to be undone by `undo` before it can be made known again.
    pub(crate) fn forget(&self, memory: &Memory, undo: impl FnOnce(T)) {
        let mut all = lock(&self.0);
        let key = memory.cpu.as_ptr().addr();
        let Some(known) = all.get_mut(&key) else {
            return;
        };
        known.times = known.times.saturating_sub(1);
        if known.times == 0
            && let Some(known) = all.remove(&key)
        {
            undo(known.how);
        }
    }
}
