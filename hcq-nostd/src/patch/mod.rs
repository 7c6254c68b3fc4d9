//! Patch sites and patch tables: what a launch stores, and nothing else.
//!
//! Encoders file a [`Site`] for every word whose value is not known yet, in a [`PatchList`]. When recording is over the
//! list is [built](PatchList::build) into a [`PatchTable`]: plain bytes, checked once, grouped by formula and variable, so
//! that a plain pointer (a variable stored whole at an 8-byte boundary) costs its 4-byte offset and little more. So does
//! a field of a word that many variables have, each its own, like the grids of many launches. A [`Patcher`] holds the
//! variables' values and stores those that changed.
//!
//! ```
//! use hcq_nostd::mem::Region;
//! use hcq_nostd::patch::{Derived, Formula, PatchList, Patcher, RegionId, Site};
//! use hcq_nostd::value::Value;
//!
//! let (mut sites, mut derived) = ([Site::EMPTY; 4], [Derived::EMPTY; 0]);
//! let mut list = PatchList::new(&mut sites, &mut derived);
//! let buffer = list.var()?;
//! list.site(RegionId(0), 8, &Formula::whole(buffer));          // a pointer in an argument block
//!
//! let mut bytes = [0u64; 32];
//! let table = list.build(&[64], &mut bytes)?;                  // one region of 64 bytes
//! let mut state = [0u64; 8];
//! let mut patcher = Patcher::new(table, &mut state)?;
//!
//! let mut kernargs = [0u64; 8];
//! let mut regions = [Region::from_words(&mut kernargs, 0x8000)];
//! assert!(patcher.apply(&mut regions).is_err());               // `buffer` has no value yet
//! patcher.set(buffer, 0x7f00_0000_1000)?;
//! assert_eq!(patcher.apply(&mut regions)?, 1);                 // one site stored
//! assert_eq!(patcher.apply(&mut regions)?, 0);                 // nothing changed
//! assert_eq!(regions[0].load_u64(8), Ok(0x7f00_0000_1000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arrange;
mod build;
mod compare;
mod dense;
mod formula;
mod patcher;
mod record;
mod stores;
mod sum;
mod table;

pub use build::{BuildError, PatchList, PatchRoom};
pub use formula::{Derived, Formula, Site, Store, Term};
pub use patcher::{PatchError, Patcher};
pub use sum::{Part, SumError, Swap};
pub use table::{PatchTable, TableError};

/// Which memory a site is in: the index of a region in the list that a table is built and applied with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RegionId(pub u16);

/// What an unresolved 32-bit word holds until its first patch, so that a word that was never patched is recognised.
pub const POISON: u32 = 0xbadc_0ded;

#[cfg(test)]
mod tests;
