//! Bound queues: commands in device memory, launched by reference, with variables.
//!
//! A launch in flight reads its words and argument blocks, so nothing of a bound queue is stored to while its last launch
//! runs. Values that are set take effect with the next submission, which waits for the last one if it has to store.
#![allow(unsafe_code, reason = "holds a patcher and the memory that it borrows")]

use std::fmt;
use std::sync::Arc;

use hcq_nostd::mem::Region;
use hcq_nostd::patch::{Derived, PatchList, Patcher, Site};
use hcq_nostd::timeline::Point as CorePoint;
use hcq_nostd::value::{Affine, Var};
use zerocopy::IntoBytes;

use crate::Error;
use crate::backend::{Piece, QueueId};
use crate::heap::Allocation;
use crate::inner::{Inner, SubmitError, Work};
use crate::lent::Lent;
use crate::point::Point;
use crate::queue::Commands;
use crate::recording::{Chunk, FIRST_DERIVED, Recording};

/// Values of a bound queue's variables, and where they go.
struct Patches {
    patcher: Patcher<'static>,
    /// Words first, then the chunks, as the table counts them.
    regions: Vec<Region<'static>>,
    /// What the patcher works in; dropped after it.
    _table: Lent<u64>,
    _state: Lent<u64>,
}

/// A recording that was [bound](Commands::bind).
///
/// ```
/// let device = hcq_std::Device::open("cpu")?;
/// let done = device.signal()?;
/// let mut commands = device.compute_queue(0)?.record();
/// let value = commands.var()?;
/// commands.signal(&done, value)?;
/// let mut bound = commands.bind()?;
/// assert!(bound.submit().is_err());           // the variable has no value yet
/// for n in [3, 4] {
///     bound.set(value, n)?;
///     bound.submit()?.wait()?;
///     assert_eq!(done.value(), n);
/// }
/// # Ok::<(), hcq_std::Error>(())
/// ```
pub struct Bound {
    inner: Arc<Inner>,
    queue: QueueId,
    patches: Patches,
    words: Words,
    last: CorePoint,
    vars: u32,
    /// Chunks, waits, and what it names.
    recording: Recording,
}

/// Where the words are; dropped after the regions made of it.
enum Words {
    /// In device memory, run from there.
    Device {
        /// The words that launch it.
        launch: Vec<u32>,
        pieces: Vec<Piece>,
        memory: Arc<Allocation>,
    },
    /// With the host, which puts them into the ring each time, at most so many at once.
    Host {
        staged: Vec<u32>,
        most: usize,
        _memory: Lent<u64>,
    },
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound")
            .field("queue", &self.queue)
            .field("words", &self.recording.len())
            .field("variables", &self.vars)
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

impl Bound {
    pub(crate) fn new(commands: &mut Commands) -> Result<Self, Error> {
        let (inner, queue) = (Arc::clone(&commands.inner), commands.id);
        let source = &mut commands.recording;
        if !source.downloads.is_empty() {
            return Err(Error::Download);
        }
        let broken = |_| Error::Internal("words do not fit their memory");
        let (mut region, words) = match inner.backend.largest_part(queue.kind) {
            None => {
                let align = inner.backend.reference_align(queue.kind);
                let bytes = source.len().next_multiple_of(align) * 4;
                let chunk = Chunk::new(&inner.heap, bytes.max(4))?;
                let pieces: Vec<Piece> = source.pieces(chunk.allocation.address()).collect();
                let words = Words::Device {
                    launch: inner.encode_launch(queue, &pieces)?,
                    pieces,
                    memory: chunk.allocation,
                };
                (chunk.region, words)
            }
            Some(most) => {
                let mut memory = Lent::new(0u64, source.len().div_ceil(2).max(1));
                // SAFETY: lent once; `patches` is dropped before `words`, by the order of the fields.
                let region = Region::from_words(unsafe { memory.lend() }, 0);
                let words = Words::Host {
                    staged: source.words().to_vec(),
                    most,
                    _memory: memory,
                };
                (region, words)
            }
        };
        region.write_words(0, source.words()).map_err(broken)?;

        let mut regions = vec![region];
        for chunk in &source.chunks {
            // SAFETY: `recording` holds the chunk's allocation as long as these regions. Through its own region only the
            // waits are stored that no site is in, and no launch is in flight then or when these are (M2).
            regions.push(unsafe { chunk.allocation.region() });
        }
        let patches = Patches::new(source, regions)?;
        let vars = source.vars;
        // Nothing can fail from here on.
        let recording = std::mem::replace(source, inner.take_recording());
        Ok(Self {
            inner,
            queue,
            patches,
            words,
            last: CorePoint::ZERO,
            vars,
            recording,
        })
    }

    /// Number of variables.
    pub fn variables(&self) -> u32 {
        self.vars
    }

    /// The value that the next launch uses, if the variable has one.
    pub fn get(&self, var: Var) -> Option<u64> {
        self.patches.patcher.get(var)
    }

    /// Gives a variable its value from the next submission on. What is in flight is not touched.
    ///
    /// # Errors
    /// [`Error::Patch`] if there is no such variable.
    #[inline]
    pub fn set(&mut self, var: Var, value: u64) -> Result<(), Error> {
        Ok(self.patches.patcher.set(var, value)?)
    }

    /// Gives consecutive variables from `first` on their values.
    ///
    /// # Errors
    /// [`Error::Patch`] if there are not that many variables; nothing has changed then.
    pub fn set_all(&mut self, first: Var, values: &[u64]) -> Result<(), Error> {
        Ok(self.patches.patcher.set_all(first, values)?)
    }

    /// Bytes of commands.
    pub fn size_bytes(&self) -> usize {
        self.recording.len() * 4
    }

    /// Device address of the words; 0 if the queue takes them from its ring only.
    pub fn address(&self) -> u64 {
        match &self.words {
            Words::Device { memory, .. } => memory.address(),
            Words::Host { .. } => 0,
        }
    }

    /// Whether the last launch is complete.
    ///
    /// # Errors
    /// [`Error::Fault`].
    pub fn is_done(&self) -> Result<bool, Error> {
        match self.inner.is_complete(self.last) {
            // What was dropped by a recovery does not run any more.
            Err(Error::Lost { .. }) => Ok(true),
            other => other,
        }
    }

    /// Whether a submission now would store to memory that the last launch may read.
    fn must_wait(&self) -> Result<bool, Error> {
        Ok(
            (self.patches.patcher.is_dirty() || !self.recording.afters.is_empty())
                && !self.is_done()?,
        )
    }

    /// Launches it as the device's next point. If a variable has changed, the last launch is waited for first.
    ///
    /// # Errors
    /// [`Error::Patch`] if a variable has no value, or one that does not fit; [`Error::Fault`], [`Error::Timeout`].
    pub fn submit(&mut self) -> Result<Point, Error> {
        if self.must_wait()? {
            self.inner
                .settle(self.last, "a wait for a bound queue's last launch")?;
        }
        self.launch()
    }

    /// Launches it if that needs no wait for the last launch.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]; else as for [`submit`](Self::submit).
    pub fn try_submit(&mut self) -> Result<Point, Error> {
        if self.must_wait()? {
            return Err(Error::WouldBlock {
                what: "the bound queue",
            });
        }
        self.launch()
    }

    fn launch(&mut self) -> Result<Point, Error> {
        self.recording.wait_elsewhere()?;
        let was_dirty = self.patches.patcher.is_dirty();
        self.patches.patcher.apply(&mut self.patches.regions)?;
        let point = match &mut self.words {
            Words::Device { launch, pieces, .. } => {
                let (_, afters, chunks) = self.recording.for_submission();
                self.inner.submit(&mut Work {
                    queue: self.queue,
                    words: launch,
                    pieces,
                    afters,
                    body: self.patches.regions.first_mut(),
                    chunks,
                })?
            }
            Words::Host { staged, most, .. } => {
                if was_dirty && let Some(region) = self.patches.regions.first() {
                    let read = region.read(0, staged.as_mut_bytes());
                    read.map_err(|_| Error::Internal("words do not fit their memory"))?;
                }
                let (_, afters, chunks) = self.recording.for_submission();
                let submitted = self.inner.submit(&mut Work {
                    queue: self.queue,
                    words: staged,
                    pieces: &[],
                    afters,
                    body: None,
                    chunks: &mut *chunks,
                });
                match submitted {
                    Err(SubmitError::TooLarge) => self
                        .inner
                        .submit_parts(self.queue, staged, afters, chunks, *most)?,
                    other => other?,
                }
            }
        };
        self.last = point;
        Ok(Point {
            inner: Arc::clone(&self.inner),
            point,
        })
    }
}

impl Patches {
    fn new(source: &Recording, regions: Vec<Region<'static>>) -> Result<Self, Error> {
        // A derived variable files a site for each that it is made of, of which there are at most three.
        let made = source.derived.len();
        let mut sites = vec![Site::EMPTY; source.filed.len() + 3 * made];
        let mut derived = vec![Derived::EMPTY; made];
        let mut list = PatchList::new(&mut sites, &mut derived);
        let failed = |e| crate::inner::no_room(hcq_nostd::record::RecordError::Patch(e));
        for _ in 0..source.vars {
            list.var().map_err(failed)?;
        }
        // They were numbered behind all variables that there can be; here they follow those that there are.
        let mut moved = Vec::with_capacity(made);
        for &one in &source.derived {
            let one = one.renumbered(FIRST_DERIVED, &moved);
            moved.push(list.derive(one).map_err(failed)?);
        }
        for site in &source.filed {
            let mut formula = site.formula;
            if let Some(n) = formula.of.var.index().checked_sub(FIRST_DERIVED) {
                let var = moved.get(n as usize).copied();
                let var = var.ok_or(Error::Internal("a derived variable was lost"))?;
                formula.of = Affine { var, ..formula.of };
            }
            list.site(site.region, site.offset, &formula);
        }
        let sizes: Vec<u64> = regions.iter().map(|r| r.len() as u64).collect();
        let mut table = Lent::new(0u64, list.table_words(&sizes).map_err(failed)?);
        // SAFETY: lent once; the patcher is dropped before the table, by the order of the fields.
        let memory = unsafe { table.lend() };
        let built = list.build(&sizes, memory).map_err(failed)?;
        let mut state = Lent::new(0u64, built.state_words());
        // SAFETY: lent once; the patcher is dropped before the state, by the order of the fields.
        let memory = unsafe { state.lend() };
        let patcher = Patcher::new(built, memory)?;
        Ok(Self {
            patcher,
            regions,
            _table: table,
            _state: state,
        })
    }
}
