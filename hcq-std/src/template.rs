//! Commands that every submission ends with, encoded once: only their number is new each time.

use hcq_nostd::patch::{Derived, Formula, PatchList, Site};
use hcq_nostd::value::{Value, Var};
use zerocopy::IntoBytes;

use crate::Error;
use crate::backend::{Backend, Command, QueueId};

/// Words with the places of one number.
#[derive(Debug)]
pub(crate) struct Template {
    words: Box<[u32]>,
    /// Byte offset of each place, and what is stored there.
    places: Box<[(usize, Formula)]>,
}

impl Template {
    /// Encodes the command that `make` gives for a number yet unknown.
    pub(crate) fn new(
        backend: &dyn Backend,
        queue: QueueId,
        make: impl FnOnce(Value) -> Command<'static>,
    ) -> Result<Self, Error> {
        let (mut sites, mut derived) = ([Site::EMPTY; 8], [Derived::EMPTY; 1]);
        let mut words = [0; 64];
        let mut list = PatchList::new(&mut sites, &mut derived);
        let failed = |source| Error::Record {
            command: "timeline",
            source,
        };
        let number = list.var().map_err(|e| failed(e.into()))?;
        debug_assert_eq!(number, Var::new(0));
        let command = make(number.into());
        let (len, list) = backend
            .encode(queue, &command, None, &mut words, list)
            .map_err(failed)?;
        let places = list
            .sites()
            .iter()
            .filter_map(|s| Some((s.place().1 as usize, s.formula()?)));
        let places = places.collect();
        Ok(Self {
            words: words.get(..len).unwrap_or_default().into(),
            places,
        })
    }

    /// Writes the command with its number; returns the number of words. `None` if there is no room.
    #[inline]
    pub(crate) fn write(&self, number: u64, out: &mut [u32]) -> Option<usize> {
        let out = out.get_mut(..self.words.len())?;
        out.copy_from_slice(&self.words);
        let bytes = out.as_mut_bytes();
        for (at, formula) in &self.places {
            let len = formula.store.bytes() as usize;
            let value = formula.eval(number).to_le_bytes();
            bytes
                .get_mut(*at..at.checked_add(len)?)?
                .copy_from_slice(value.get(..len)?);
        }
        Some(self.words.len())
    }
}
