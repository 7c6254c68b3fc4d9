//! Recording commands into caller memory.
//!
//! A [`Recorder`] appends 32-bit words to a slice and files patch sites in a [`PatchList`]. A command is recorded whole
//! or not at all: an encoder writes it inside [`Recorder::command`], and when anything fails the queue is as it was.
//! When the memory runs out the command is counted to its end, and the error says how much would have been needed; a
//! recorder over no memory therefore measures.
//!
//! ```
//! use hcq_nostd::patch::{Derived, PatchList, Site};
//! use hcq_nostd::record::{RecordError, Recorder};
//! use hcq_nostd::value::Field;
//!
//! let (mut words, mut sites) = ([0u32; 4], [Site::EMPTY; 2]);
//! let mut list = PatchList::new(&mut sites, &mut []);
//! let address = list.var()?;
//! let mut q = Recorder::new(&mut words, list);
//! q.command(|c| {
//!     c.word(0xc001_1000);
//!     c.field(0, address.into(), Field::new(0, 32).unit(8))    // known at launch: a site is filed
//! })?;
//! assert_eq!(q.words(), [0xc001_1000, hcq_nostd::patch::POISON]);
//! let too_long = q.command(|c| Ok(c.words(&[0; 3])));
//! assert!(matches!(too_long, Err(RecordError::NoRoom(need)) if need.words == 5));
//! assert_eq!(q.words().len(), 2);                              // as before the call
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod block;

pub use block::Block;

use crate::patch::{BuildError, Formula, POISON, PatchList, RegionId};
use crate::value::{Field, Fit, Misfit, Value, low_mask};

/// Memory that a recording takes in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Room {
    /// 32-bit words.
    pub words: usize,
    /// Patch sites.
    pub sites: usize,
    /// Derived variables.
    pub derived: usize,
    /// Bytes of what the engine reads beside the words: launch descriptors, ring packets. Zero for most.
    pub beside: usize,
}

/// The operand that a command could not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Operand {
    /// A signal's address.
    Signal,
    /// The address written or polled.
    Address,
    /// A value to write or compare with.
    Data,
    /// The mask of a poll.
    Mask,
    /// A copy's destination.
    Destination,
    /// A copy's source.
    Source,
    /// A length in bytes.
    Length,
    /// The number of work-groups in dimension 0, 1 or 2.
    Groups(u8),
    /// The number of work-items per group in dimension 0, 1 or 2, or all together (3).
    Local(u8),
    /// Bytes of group-local memory.
    LocalMemory,
    /// The address of the argument block.
    Kernargs,
    /// The program's address or one of its numbers.
    Program,
    /// Argument number N.
    Argument(u16),
}

/// Why a command was not recorded. The queue is as it was before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RecordError {
    /// The memory is too small; the room is what the whole recording with this command takes.
    NoRoom(Room),
    /// An operand that the engine's field cannot hold.
    Misfit {
        /// Which.
        operand: Operand,
        /// How.
        misfit: Misfit,
    },
    /// An operand that must be known while recording on this engine.
    NotConstant {
        /// Which.
        operand: Operand,
    },
    /// A value of this operand for which the engine has no command.
    Unsupported {
        /// Which.
        operand: Operand,
    },
    /// More launch arguments than the program takes, or fewer.
    ArgumentCount {
        /// What the program takes.
        need: usize,
        /// What was given.
        have: usize,
    },
    /// An argument of another kind or size than the program's.
    ArgumentKind {
        /// Which, from 0.
        index: u16,
    },
    /// The argument block is too small for the program.
    KernargsTooSmall {
        /// Bytes needed.
        need: usize,
        /// Bytes given.
        have: usize,
    },
    /// A limit of the engine or the program was exceeded.
    Limit {
        /// Which operand.
        operand: Operand,
        /// What was asked for.
        value: u64,
        /// The most there may be.
        max: u64,
    },
    /// The patch list cannot take it.
    Patch(BuildError),
}

impl core::fmt::Display for RecordError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::NoRoom(r) => {
                write!(
                    f,
                    "needs {} words, {} sites, {} derived variables, {} bytes beside",
                    r.words, r.sites, r.derived, r.beside
                )
            }
            Self::Misfit { operand, misfit } => write!(f, "{operand}: {misfit}"),
            Self::NotConstant { operand } => write!(f, "{operand} must be known while recording"),
            Self::Unsupported { operand } => {
                write!(f, "the engine has no command for this {operand}")
            }
            Self::ArgumentCount { need, have } => {
                write!(f, "the program takes {need} arguments, {have} were given")
            }
            Self::ArgumentKind { index } => {
                write!(f, "argument {index} is of another kind or size")
            }
            Self::KernargsTooSmall { need, have } => {
                write!(
                    f,
                    "the argument block needs {need} bytes, {have} were given"
                )
            }
            Self::Limit {
                operand,
                value,
                max,
            } => write!(f, "{operand}: {value} exceeds {max}"),
            Self::Patch(e) => write!(f, "{e}"),
        }
    }
}

impl core::fmt::Display for Operand {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Signal => f.write_str("signal address"),
            Self::Address => f.write_str("address"),
            Self::Data => f.write_str("data"),
            Self::Mask => f.write_str("mask"),
            Self::Destination => f.write_str("destination"),
            Self::Source => f.write_str("source"),
            Self::Length => f.write_str("length"),
            Self::Groups(d) => write!(f, "groups, dimension {d}"),
            Self::Local(3) => f.write_str("work-items per group"),
            Self::Local(d) => write!(f, "local size, dimension {d}"),
            Self::LocalMemory => f.write_str("group-local memory"),
            Self::Kernargs => f.write_str("argument block"),
            Self::Program => f.write_str("program"),
            Self::Argument(n) => write!(f, "argument {n}"),
        }
    }
}

impl core::error::Error for RecordError {}

impl From<BuildError> for RecordError {
    fn from(e: BuildError) -> Self {
        Self::Patch(e)
    }
}

/// Gives a misfit the name of its operand.
pub trait NameOperand<T> {
    /// `RecordError::Misfit` with this operand.
    ///
    /// # Errors
    /// The misfit, named.
    fn operand(self, operand: Operand) -> Result<T, RecordError>;
}

impl<T> NameOperand<T> for Result<T, Misfit> {
    #[inline]
    fn operand(self, operand: Operand) -> Result<T, RecordError> {
        self.map_err(|misfit| RecordError::Misfit { operand, misfit })
    }
}

/// Appends commands to words in caller memory. See the [module](self).
#[derive(Debug)]
pub struct Recorder<'m> {
    words: &'m mut [u32],
    len: usize,
    list: PatchList<'m>,
    region: RegionId,
}

impl<'m> Recorder<'m> {
    /// An empty queue. Its words are region 0 of the patch list.
    pub fn new(words: &'m mut [u32], list: PatchList<'m>) -> Self {
        Self::in_region(words, list, RegionId(0))
    }

    /// An empty queue whose words are the given region of the patch list.
    pub fn in_region(words: &'m mut [u32], list: PatchList<'m>, region: RegionId) -> Self {
        Self {
            words,
            len: 0,
            list,
            region,
        }
    }

    /// A queue that goes on after its first `len` words, for whoever keeps the memory of a recording and makes it larger in
    /// between. See [`PatchList::resume`].
    ///
    /// # Errors
    /// [`RecordError::NoRoom`] if there are fewer words.
    pub fn resume(
        words: &'m mut [u32],
        len: usize,
        list: PatchList<'m>,
        region: RegionId,
    ) -> Result<Self, RecordError> {
        let queue = Self {
            len,
            ..Self::in_region(words, list, region)
        };
        if len > queue.words.len() {
            return Err(RecordError::NoRoom(queue.used()));
        }
        Ok(queue)
    }

    /// The words recorded so far.
    pub fn words(&self) -> &[u32] {
        self.words.get(..self.len).unwrap_or_default()
    }

    /// Memory taken so far.
    pub fn used(&self) -> Room {
        let patch = self.list.used();
        Room {
            words: self.len,
            sites: patch.sites,
            derived: patch.derived,
            beside: 0,
        }
    }

    /// The patch list, to declare variables.
    pub fn list(&mut self) -> &mut PatchList<'m> {
        &mut self.list
    }

    /// Number of words, and the patch list, to build its table or to record the next queue with.
    pub fn finish(self) -> (usize, PatchList<'m>) {
        (self.len, self.list)
    }

    /// Forgets all words; sites and variables too.
    pub fn clear(&mut self) {
        self.len = 0;
        self.list.clear();
    }

    /// Records one command: all of what `encode` appends, or nothing.
    ///
    /// # Errors
    /// What `encode` returns, or [`RecordError::NoRoom`] with the room that the recording would have taken.
    #[inline]
    pub fn command(
        &mut self,
        encode: impl FnOnce(&mut Command<'_, 'm>) -> Result<(), RecordError>,
    ) -> Result<&mut Self, RecordError> {
        let (len, mark) = (self.len, self.list.mark());
        let mut command = Command {
            recorder: self,
            start: len,
        };
        let result = encode(&mut command);
        let full = self.len > self.words.len() || self.list.overflowed();
        if result.is_err() || full {
            let need = self.used();
            self.len = len;
            self.list.rewind(mark);
            result?;
            return Err(RecordError::NoRoom(need));
        }
        Ok(self)
    }
}

/// A command while it is recorded.
#[derive(Debug)]
pub struct Command<'r, 'm> {
    recorder: &'r mut Recorder<'m>,
    start: usize,
}

impl<'m> Command<'_, 'm> {
    /// Index of the next word, from the command's first.
    pub fn position(&self) -> usize {
        self.recorder.len - self.start
    }

    /// The patch list.
    pub fn list(&mut self) -> &mut PatchList<'m> {
        &mut self.recorder.list
    }

    /// Appends a word.
    #[inline]
    pub fn word(&mut self, word: u32) {
        let r = &mut *self.recorder;
        if let Some(slot) = r.words.get_mut(r.len) {
            *slot = word;
        }
        r.len = r.len.saturating_add(1);
    }

    /// Appends words, such as a program's packet template.
    #[inline]
    pub fn words(&mut self, words: &[u32]) {
        let r = &mut *self.recorder;
        let room = r.words.get_mut(r.len..).unwrap_or_default();
        if let Some(to) = room.get_mut(..words.len()) {
            to.copy_from_slice(words);
        }
        r.len = r.len.saturating_add(words.len());
    }

    /// Appends words, such as a program's packet template, and hands the copy out to be filled in, with one check for all.
    /// `None` once there is no room: the words are counted, as those of [`words`](Self::words) are.
    ///
    /// ```
    /// use hcq_nostd::patch::PatchList;
    /// use hcq_nostd::record::Recorder;
    ///
    /// let mut words = [0u32; 4];
    /// let mut q = Recorder::new(&mut words, PatchList::none());
    /// q.command(|c| {
    ///     if let Some([_, groups]) = c.template(&[0xc000_1000, 1]) {
    ///         *groups = 7;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(q.words(), [0xc000_1000, 7]);
    /// # Ok::<(), hcq_nostd::record::RecordError>(())
    /// ```
    #[inline]
    pub fn template(&mut self, words: &[u32]) -> Option<&mut [u32]> {
        let r = &mut *self.recorder;
        let room = r.words.get_mut(r.len..);
        r.len = r.len.saturating_add(words.len());
        let to = room?.get_mut(..words.len())?;
        to.copy_from_slice(words);
        Some(to)
    }

    /// Appends `N` words and hands them out to be written, with one check for all. They hold what the memory held before.
    /// `None` once there is no room: the words are counted, as those of [`words`](Self::words) are.
    ///
    /// ```
    /// use hcq_nostd::patch::PatchList;
    /// use hcq_nostd::record::Recorder;
    ///
    /// let mut words = [0u32; 4];
    /// let mut q = Recorder::new(&mut words, PatchList::none());
    /// q.command(|c| {
    ///     if let Some(packet) = c.claim() {
    ///         *packet = [0xc000_1000, 7];
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(q.words(), [0xc000_1000, 7]);
    /// # Ok::<(), hcq_nostd::record::RecordError>(())
    /// ```
    #[inline]
    pub fn claim<const N: usize>(&mut self) -> Option<&mut [u32; N]> {
        let r = &mut *self.recorder;
        let room = r.words.get_mut(r.len..);
        r.len = r.len.saturating_add(N);
        room?.first_chunk_mut()
    }

    /// Overwrites word `at` of this command.
    #[inline]
    pub fn set(&mut self, at: usize, word: u32) {
        let r = &mut *self.recorder;
        if let Some(slot) = r.words.get_mut(self.start.saturating_add(at)) {
            *slot = word;
        }
    }

    #[cold]
    fn site(&mut self, at: usize, formula: &Formula) {
        let r = &mut *self.recorder;
        // A word index beyond 2^30 is beyond every engine's queue, and beyond the memory that was given.
        let offset =
            u32::try_from(self.start.saturating_add(at).saturating_mul(4)).unwrap_or(u32::MAX);
        r.list.site(r.region, offset, formula);
    }

    /// Appends a word with a bit-field; `base` holds the word's other bits.
    ///
    /// # Errors
    /// [`Misfit`] for an immediate; a variable is checked at launch.
    #[inline]
    pub fn field(&mut self, base: u32, value: Value, field: Field) -> Result<(), RecordError> {
        let at = self.position();
        self.word(0);
        self.set_field(at, base, value, field)
            .operand(Operand::Data)
    }

    /// Overwrites word `at` of this command with `base` and a bit-field.
    ///
    /// # Errors
    /// [`Misfit`] for an immediate; a variable is checked at launch.
    #[inline]
    pub fn set_field(
        &mut self,
        at: usize,
        base: u32,
        value: Value,
        field: Field,
    ) -> Result<(), Misfit> {
        match value {
            Value::Imm(v) => {
                let bits = field.place(v)?;
                let word = u32::try_from(u64::from(base).wrapping_add(bits)).map_err(|_| {
                    Misfit::TooLarge {
                        value: v,
                        bits: field.bits,
                    }
                })?;
                self.set(at, word);
            }
            Value::Var(of) => {
                self.set(at, POISON);
                self.site(at, &Formula::field(of, base, field));
            }
        }
        Ok(())
    }

    /// Overwrites word `at` of this command with a whole 32-bit value.
    ///
    /// # Errors
    /// [`Misfit`] for an immediate; a variable is checked at launch.
    #[inline]
    pub fn set_value(&mut self, at: usize, value: Value, fit: Fit) -> Result<(), Misfit> {
        let fit = Fit {
            bits: fit.bits.min(32),
            ..fit
        };
        match value {
            Value::Imm(v) => {
                fit.check(v)?;
                self.set(at, low32(v));
            }
            Value::Var(of) => {
                self.set(at, POISON);
                self.site(at, &Formula::low(of, fit));
            }
        }
        Ok(())
    }

    /// Appends the low and then the high word of a value.
    ///
    /// # Errors
    /// [`Misfit`] for an immediate; a variable is checked at launch.
    #[inline]
    pub fn pair(&mut self, value: Value, fit: Fit) -> Result<(), Misfit> {
        let at = self.position();
        self.words(&[0; 2]);
        self.set_pair(at, value, fit)
    }

    /// Overwrites words `at` and `at + 1` of this command with the low and high half of a value.
    ///
    /// # Errors
    /// [`Misfit`] for an immediate; a variable is checked at launch.
    #[inline]
    pub fn set_pair(&mut self, at: usize, value: Value, fit: Fit) -> Result<(), Misfit> {
        match value {
            Value::Imm(v) => {
                fit.check(v)?;
                self.set(at, low32(v));
                self.set(at + 1, low32(v >> 32));
            }
            Value::Var(of) => {
                self.set(at, POISON);
                self.set(at + 1, POISON);
                self.site(
                    at,
                    &Formula {
                        fit,
                        ..Formula::whole(of)
                    },
                );
            }
        }
        Ok(())
    }

    /// Appends the high and then the low word of a value, the order of NVIDIA's method pairs.
    ///
    /// # Errors
    /// [`Misfit`] for an immediate; a variable is checked at launch.
    pub fn pair_high_first(&mut self, value: Value, fit: Fit) -> Result<(), Misfit> {
        let at = self.position();
        match value {
            Value::Imm(v) => {
                fit.check(v)?;
                self.words(&[low32(v >> 32), low32(v)]);
            }
            Value::Var(of) => {
                self.words(&[POISON; 2]);
                self.site(at, &Formula::high(of, fit));
                self.site(at + 1, &Formula::low(of, fit));
            }
        }
        Ok(())
    }

    /// Appends a value through any formula: a big-endian field, a sum with a base. Two words for a 64-bit store, one for
    /// the others, of which a narrower store leaves the upper bytes zero.
    ///
    /// # Errors
    /// [`Misfit`] if `value` is an immediate that does not fit; a variable is checked at launch. The formula's own
    /// variable is replaced by the value's.
    pub fn formula(&mut self, value: Value, formula: &Formula) -> Result<(), Misfit> {
        let at = self.position();
        let two = formula.store.bytes() == 8;
        self.words(if two { &[0; 2] } else { &[0] });
        self.set_formula(at, value, formula)
    }

    /// Overwrites word `at` of this command, and the next one for a 64-bit store, as [`formula`](Self::formula) does.
    ///
    /// # Errors
    /// [`Misfit`] if `value` is an immediate that does not fit; a variable is checked at launch.
    pub fn set_formula(
        &mut self,
        at: usize,
        value: Value,
        formula: &Formula,
    ) -> Result<(), Misfit> {
        let bytes = formula.store.bytes();
        let words = match value {
            Value::Imm(v) => {
                let known = formula.known();
                known.check(v)?;
                known.eval(v)
            }
            Value::Var(of) => {
                self.site(at, &Formula { of, ..*formula });
                let poison = u64::from(POISON) << 32 | u64::from(POISON);
                poison & low_mask(bytes as u8 * 8)
            }
        };
        self.set(at, low32(words));
        if bytes == 8 {
            self.set(at + 1, low32(words >> 32));
        }
        Ok(())
    }
}

pub(crate) const fn low32(v: u64) -> u32 {
    (v & 0xffff_ffff) as u32
}

#[cfg(test)]
mod tests;
