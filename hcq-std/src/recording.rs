//! What a recording holds: words, places of variables, memory for argument blocks and staging, and what must live on.
//!
//! Recordings are pooled by their device, so that steady work allocates nothing.
#![allow(unsafe_code, reason = "makes regions of its own memory")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hcq_nostd::arena::{ArenaError, FencedArena, Mark};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{BuildError, Derived, Formula, PatchList, PatchRoom, RegionId, Site};
use hcq_nostd::queue::SignalAt;
use hcq_nostd::record::{Block, RecordError, Room};
use hcq_nostd::timeline::Point;
use hcq_nostd::value::Value;

use crate::Error;
use crate::backend::{Backend, Before, Command, Descriptors, Piece, Purpose, QueueId};
use crate::heap::{Allocation, Heap};
use crate::lent::Lent;
use crate::program::KernelInner;
use crate::signal::SignalInner;

/// Submissions of one recording that can have argument blocks in flight; more share their marks.
const MARKS: usize = 64;
/// Sites that one command may file: more than any command has operands, but for an exec with many variable arguments.
const SITES: usize = 32;
/// Derived variables that one command may make: more than there are grid sizes.
const DERIVED: usize = 8;
/// Variables that a recording may declare.
pub(crate) const MOST_VARIABLES: u32 = 1 << 20;
/// Number of the first derived variable while recording: behind all that may still be declared. They move down when the
/// recording is bound.
pub(crate) const FIRST_DERIVED: u32 = MOST_VARIABLES;
/// Words that one command runs from device memory at most, nearly; what is longer is run by several.
const PIECE: usize = 1 << 19;
/// An arena grows up to this size instead of waiting for work in flight.
const GROWN: usize = 16 << 20;

/// What work in flight uses, kept until it was submitted; from then on the timeline protects it.
#[derive(Debug)]
pub(crate) enum Keep {
    Memory { _held: Arc<Allocation> },
    Signal { _held: Arc<SignalInner> },
    Kernel { _held: Arc<KernelInner> },
}

/// A site with its place in the recording.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filed {
    pub(crate) region: RegionId,
    pub(crate) offset: u32,
    pub(crate) formula: Formula,
}

/// Device memory of a recording. Region 0 is the words, region `n + 1` is number `n` of these.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) region: Region<'static>,
    /// The same memory, for launch descriptors.
    descriptors: Region<'static>,
    pub(crate) allocation: Arc<Allocation>,
}

impl Chunk {
    pub(crate) fn new(heap: &Arc<Heap>, bytes: usize) -> Result<Self, Error> {
        let allocation = heap.allocate(bytes, Purpose::Exchange)?;
        // SAFETY: dropped before the allocation, by the order of the fields. The recording alone stores to it, to bytes
        // that its arena says nothing in flight reads (M2).
        let region = unsafe { allocation.region() };
        // SAFETY: as above; what is a descriptor's is never another command's (M2).
        let descriptors = unsafe { allocation.region() };
        Ok(Self {
            region,
            descriptors,
            allocation,
        })
    }
}

/// Hands out the bytes of chunk number `chunk`.
#[derive(Debug)]
struct Arena {
    fenced: FencedArena<'static>,
    /// What `fenced` works in; dropped after it.
    _marks: Lent<Mark>,
    chunk: usize,
    size: usize,
}

impl Arena {
    fn new(chunk: usize, address: u64, size: usize) -> Result<Self, Error> {
        let mut marks = Lent::new(Mark::EMPTY, MARKS);
        // SAFETY: lent once; the arena is dropped before the marks, by the order of the fields.
        let lent = unsafe { marks.lend() };
        let fenced = FencedArena::new(address, size as u64, lent)
            .map_err(|_| Error::Internal("an arena has no marks"))?;
        Ok(Self {
            fenced,
            _marks: marks,
            chunk,
            size,
        })
    }
}

impl Arena {
    /// Takes back what is known to be complete, and tries again.
    fn alloc_again(&mut self, heap: &Heap, size: usize, align: usize) -> Result<u64, ArenaError> {
        self.fenced
            .retire(Point::from_raw(heap.progress().completed()));
        self.fenced.alloc(size as u64, align as u64)
    }
}

/// An offset in a chunk, which is as large as memory can be at most.
#[inline]
fn narrow(offset: u64) -> Result<usize, Error> {
    usize::try_from(offset).map_err(|_| Error::Internal("an offset is beyond all memory"))
}

/// Bytes of a chunk that go with a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside {
    pub(crate) chunk: usize,
    pub(crate) offset: usize,
    pub(crate) len: usize,
    /// Where in the chunk a launch's descriptor goes, if it has one.
    pub(crate) descriptor: usize,
}

/// A chunk's number in patch lists: region 0 is the words.
#[inline]
fn region_of(chunk: usize) -> Result<RegionId, RecordError> {
    let id = chunk.checked_add(1).and_then(|n| u16::try_from(n).ok());
    Ok(RegionId(id.ok_or(BuildError::TooMany)?))
}

/// A wait for an earlier submission, whose words are written when the recording is submitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct After {
    /// Index of its first word.
    pub(crate) at: usize,
    /// Where its words are instead, if not among the recording's.
    pub(crate) beside: Option<Beside>,
    pub(crate) point: Point,
}

/// Commands in the making.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    words: Vec<u32>,
    len: usize,
    pub(crate) filed: Vec<Filed>,
    pub(crate) derived: Vec<Derived>,
    pub(crate) vars: u32,
    /// Where the words can be cut when they are run by reference.
    cuts: Vec<usize>,
    pub(crate) afters: Vec<After>,
    /// Submissions of other devices, which the host waits for.
    pub(crate) elsewhere: Vec<crate::Point>,
    pub(crate) keep: Vec<Keep>,
    /// Addresses of the last things kept, which their keepers hold valid.
    recent: [usize; 4],
    pub(crate) chunks: Vec<Chunk>,
    /// Points of downloads, to be set at submission.
    pub(crate) downloads: Vec<Arc<AtomicU64>>,
    arena: Option<Arena>,
    /// What the commands so far have left for the next one, and in which chunk.
    before: Before,
    before_chunk: usize,
    /// Whether launches of its device have descriptors, which the next command may change.
    chains: bool,
}

/// What a recording needs of its device while it grows.
pub(crate) struct Grower<'a> {
    pub(crate) heap: &'a Arc<Heap>,
    pub(crate) arena_bytes: usize,
    /// Looks how far the timeline has come.
    pub(crate) look: &'a dyn Fn() -> Result<(), Error>,
    /// Waits until a point is complete.
    pub(crate) wait: &'a dyn Fn(Point) -> Result<(), Error>,
}

impl Recording {
    /// Of a device whose launches have descriptors or have none.
    pub(crate) fn set_chains(&mut self, chains: bool) {
        self.chains = chains;
    }

    pub(crate) fn words(&self) -> &[u32] {
        self.words.get(..self.len).unwrap_or_default()
    }

    /// The words, the waits among them, to be resolved at submission, and the chunks.
    pub(crate) fn for_submission(&mut self) -> (&mut [u32], &[After], &mut [Chunk]) {
        (
            self.words.get_mut(..self.len).unwrap_or_default(),
            &self.afters,
            &mut self.chunks,
        )
    }

    /// Waits until other devices have come as far as the recording wants them to.
    pub(crate) fn wait_elsewhere(&self) -> Result<(), Error> {
        self.elsewhere.iter().try_for_each(|point| {
            point.wait().map_err(|e| Error::Elsewhere {
                device: point.inner.name.clone(),
                cause: Box::new(e),
            })
        })
    }

    /// The words as pieces that one command can run each, when they lie at this address.
    pub(crate) fn pieces(&self, address: u64) -> impl Iterator<Item = Piece> + '_ {
        let ends = self.cuts.iter().copied().chain([self.len]);
        let mut start = 0;
        ends.filter_map(move |end| {
            let words = end.checked_sub(start).filter(|&n| n > 0)?;
            let address = address + 4 * start as u64;
            start = end;
            Some(Piece { address, words })
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Records a command, or changes nothing.
    #[inline]
    pub(crate) fn record(
        &mut self,
        backend: &dyn Backend,
        queue: QueueId,
        command: &Command<'_>,
        beside: Option<Beside>,
        has_variables: bool,
    ) -> Result<(), RecordError> {
        let mut sites = SITES;
        loop {
            let result = if self.chains || has_variables {
                self.encode_behind(
                    backend,
                    queue,
                    command,
                    beside,
                    has_variables.then_some(sites),
                )
            } else {
                let block = match beside {
                    None => None,
                    Some(b) => Some(block_in(&mut self.chunks, b)?),
                };
                let tail = self.words.get_mut(self.len..).unwrap_or_default();
                let encoded = backend.encode(queue, command, block, tail, PatchList::none());
                encoded.map(|(words, _)| words)
            };
            match result {
                Ok(words) => {
                    self.len += words;
                    if self.len >= PIECE {
                        self.note_cut();
                    }
                    return Ok(());
                }
                // The room is counted from the tail's start.
                Err(RecordError::NoRoom(need)) if need.words > self.words.len() - self.len => {
                    self.grow_words(need.words)?;
                }
                Err(RecordError::NoRoom(need)) if has_variables && need.sites > sites => {
                    sites = need.sites
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Encodes a command behind the one before it; with room for that many sites, if it has variables.
    #[inline(never)]
    fn encode_behind(
        &mut self,
        backend: &dyn Backend,
        queue: QueueId,
        command: &Command<'_>,
        beside: Option<Beside>,
        sites: Option<usize>,
    ) -> Result<usize, RecordError> {
        // A launch goes on where its own memory is, other commands where the last launch is.
        let chunk = beside.map_or(self.before_chunk, |b| b.chunk);
        let mut after = match chunk == self.before_chunk {
            true => self.before,
            false => self.before.sealed(),
        };
        let tail = self.words.get_mut(self.len..).unwrap_or_default();
        let memory = Memory::new(&mut self.chunks, chunk, beside, &mut after)?;
        let words = if let Some(sites) = sites {
            let place = Place {
                base: self.len,
                sites,
            };
            let found = (&mut self.filed, &mut self.derived);
            encode_with_sites(backend, queue, command, memory, tail, place, found)?
        } else {
            let Memory {
                beside,
                descriptors,
            } = memory;
            let list = PatchList::none();
            let (words, _) =
                backend.encode_behind(queue, command, beside, descriptors, tail, list)?;
            words
        };
        (self.before, self.before_chunk) = (after, chunk);
        Ok(words)
    }

    /// Notes a place where long words can be cut: where the next piece is aligned for every engine.
    #[cold]
    fn note_cut(&mut self) {
        let last = self.cuts.last().copied().unwrap_or(0);
        if self.len - last >= PIECE && self.len.is_multiple_of(8) {
            self.cuts.push(self.len);
        }
    }

    #[cold]
    fn grow_words(&mut self, need: usize) -> Result<(), RecordError> {
        let size = (self.len + need).max(self.words.len() * 2).max(1024);
        let more = size - self.words.len();
        let room = Room {
            words: size,
            ..Default::default()
        };
        self.words
            .try_reserve_exact(more)
            .map_err(|_| RecordError::NoRoom(room))?;
        self.words.resize(size, 0);
        Ok(())
    }

    /// Notes that a wait of `words` words was just recorded for a point.
    pub(crate) fn note_after(&mut self, at: usize, beside: Option<Beside>, point: Point) {
        self.afters.push(After { at, beside, point });
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Keeps something alive until the recording was submitted. What was kept lately is not kept twice.
    #[inline]
    pub(crate) fn keep(&mut self, key: *const (), make: impl FnOnce() -> Keep) {
        let key = key.addr();
        if !self.recent.contains(&key) {
            self.recent.rotate_right(1);
            let [first, ..] = &mut self.recent;
            *first = key;
            self.keep.push(make());
        }
    }

    /// `size` bytes at a multiple of `align` that nothing in flight uses: chunk and offset.
    #[inline]
    pub(crate) fn reserve(
        &mut self,
        grower: &Grower<'_>,
        size: usize,
        align: usize,
    ) -> Result<(usize, usize), Error> {
        let arena = self.arena.as_mut();
        let at =
            arena.and_then(|a| Some((a.chunk, a.fenced.alloc(size as u64, align as u64).ok()?)));
        if let Some((chunk, offset)) = at {
            return Ok((chunk, narrow(offset)?));
        }
        self.reserve_slowly(grower, size, align)
    }

    /// Takes back what is done with, grows, or waits.
    #[cold]
    fn reserve_slowly(
        &mut self,
        grower: &Grower<'_>,
        size: usize,
        align: usize,
    ) -> Result<(usize, usize), Error> {
        const MOST: u64 = 1 << 40;
        if size as u64 > MOST {
            let what = "an argument block or upload";
            return Err(Error::TooLarge {
                what,
                size: size as u64,
                most: MOST,
            });
        }
        let mut bytes = grower.arena_bytes;
        if let Some(arena) = &mut self.arena {
            (grower.look)()?;
            match arena.alloc_again(grower.heap, size, align) {
                Ok(offset) => return Ok((arena.chunk, narrow(offset)?)),
                Err(ArenaError::WouldBlock { wait_for })
                    if arena.size >= GROWN && size <= arena.size / 4 =>
                {
                    (grower.wait)(wait_for)?;
                    if let Ok(offset) = arena.alloc_again(grower.heap, size, align) {
                        return Ok((arena.chunk, narrow(offset)?));
                    }
                }
                Err(ArenaError::Alignment { .. }) => {
                    return Err(Error::Internal("an alignment is no power of two"));
                }
                Err(_) => {}
            }
            bytes = arena.size.saturating_mul(2).min(GROWN);
        }
        // A chunk of its own for what would fill an arena; else the next, larger arena. The old one goes with this
        // submission.
        let chunk = self.chunks.len();
        let own = size > bytes / 4;
        let new = Chunk::new(grower.heap, if own { size.max(1) } else { bytes })?;
        let address = new.allocation.address();
        let offset = if own {
            if !address.is_multiple_of(align as u64) {
                return Err(Error::Internal("an allocation is not aligned"));
            }
            0
        } else {
            let mut arena = Arena::new(chunk, address, bytes)?;
            let offset = arena.fenced.alloc(size as u64, align as u64);
            let offset = offset.map_err(|_| Error::Internal("an empty arena has no room"))?;
            self.arena = Some(arena);
            offset
        };
        self.chunks.push(new);
        Ok((chunk, narrow(offset)?))
    }

    /// The recording was submitted as `point`; from now on it is empty.
    pub(crate) fn submitted(&mut self, point: Point) {
        for download in &self.downloads {
            // ORDER: pairs with the acquire in `Download::wait`.
            download.store(point.raw(), Ordering::Release);
        }
        if let Some(arena) = &mut self.arena {
            arena.fenced.fence(point);
        }
        self.empty();
    }

    /// Forgets everything that was recorded.
    pub(crate) fn clear(&mut self) {
        if let Some(arena) = &mut self.arena {
            arena.fenced.rewind();
        }
        self.empty();
    }

    fn empty(&mut self) {
        self.len = 0;
        self.vars = 0;
        self.filed.clear();
        self.derived.clear();
        self.cuts.clear();
        self.afters.clear();
        self.elsewhere.clear();
        self.keep.clear();
        self.recent = [0; 4];
        (self.before, self.before_chunk) = (Before::Nothing, 0);
        self.downloads.clear();
        // Dropped chunks are buried with the last submission.
        if let Some(arena) = &mut self.arena {
            if self.chunks.len() > 1 {
                self.chunks.swap(0, arena.chunk);
                self.chunks.truncate(1);
                arena.chunk = 0;
            }
        } else {
            self.chunks.clear();
        }
    }
}

/// What a command has beside its words.
#[inline]
fn block_in(chunks: &mut [Chunk], beside: Beside) -> Result<Block<'_, 'static>, RecordError> {
    let (need, have) = (beside.len, 0);
    let too_small = RecordError::KernargsTooSmall { need, have };
    let chunk = chunks.get_mut(beside.chunk).ok_or(too_small)?;
    let id = region_of(beside.chunk)?;
    Block::new(&mut chunk.region, id, beside.offset, beside.len).map_err(|_| too_small)
}

/// The memory of a recording that a command may use.
struct Memory<'a> {
    /// Its argument block, or what else it has beside its words.
    beside: Option<Block<'a, 'static>>,
    descriptors: Descriptors<'a>,
}

impl<'a> Memory<'a> {
    /// `chunk` is the one that all of it is in.
    #[inline]
    fn new(
        chunks: &'a mut [Chunk],
        chunk: usize,
        beside: Option<Beside>,
        before: &'a mut Before,
    ) -> Result<Self, RecordError> {
        let id = region_of(chunk)?;
        let (block, memory, at) = match (chunks.get_mut(chunk), beside) {
            (Some(c), Some(b)) => {
                let block = Block::new(&mut c.region, id, b.offset, b.len);
                let (need, have) = (b.len, 0);
                let block = block.map_err(|_| RecordError::KernargsTooSmall { need, have })?;
                (Some(block), c.descriptors.reborrow(), b.descriptor)
            }
            (Some(c), None) => (None, c.descriptors.reborrow(), 0),
            // Nothing was launched yet.
            (None, _) => (None, Region::from_words(&mut [], 0), 0),
        };
        Ok(Self {
            beside: block,
            descriptors: Descriptors {
                memory,
                id,
                at,
                before,
                stored: None,
            },
        })
    }
}

/// Where a command with variables is recorded.
struct Place {
    /// Words before it.
    base: usize,
    /// Sites that it may file.
    sites: usize,
}

/// Encodes a command with variables. Its sites are counted from the tail's start; file them where they are.
#[cold]
fn encode_with_sites(
    backend: &dyn Backend,
    queue: QueueId,
    command: &Command<'_>,
    memory: Memory<'_>,
    tail: &mut [u32],
    place: Place,
    (filed, all_derived): (&mut Vec<Filed>, &mut Vec<Derived>),
) -> Result<usize, RecordError> {
    let (mut few, mut many) = ([Site::EMPTY; SITES], Vec::new());
    let mut derived = [Derived::EMPTY; DERIVED];
    let sites = if place.sites > SITES {
        many.resize(place.sites, Site::EMPTY);
        &mut many[..]
    } else {
        &mut few[..]
    };
    // Derived variables are numbered on from those of earlier commands.
    let known = u32::try_from(all_derived.len()).map_err(|_| BuildError::TooMany)?;
    let vars = FIRST_DERIVED
        .checked_add(known)
        .ok_or(BuildError::TooMany)?;
    let list = PatchList::resume(sites, &mut derived, PatchRoom::default(), vars)?;
    let base = u32::try_from(place.base * 4).map_err(|_| BuildError::TooMany)?;
    let Memory {
        beside,
        descriptors,
    } = memory;
    // Nothing fails behind this: the last launch's descriptor may have changed.
    let (words, list) = backend.encode_behind(queue, command, beside, descriptors, tail, list)?;
    for site in list.sites() {
        let (region, offset) = site.place();
        let Some(formula) = site.formula() else {
            continue;
        };
        let offset = if region == RegionId(0) {
            offset.saturating_add(base)
        } else {
            offset
        };
        filed.push(Filed {
            region,
            offset,
            formula,
        });
    }
    let made = list.used().derived;
    all_derived.extend_from_slice(derived.get(..made).unwrap_or_default());
    Ok(words)
}

/// Words of a wait for a signal, for its place in a recording.
pub(crate) fn encode_wait(
    backend: &dyn Backend,
    queue: QueueId,
    signal: SignalAt,
    value: u64,
    words: &mut [u32],
) -> Result<usize, RecordError> {
    backend
        .encode(
            queue,
            &Command::Wait(signal, Value::Imm(value)),
            None,
            words,
            PatchList::none(),
        )
        .map(|(n, _)| n)
}
