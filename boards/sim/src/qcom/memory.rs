//! Memory of a GPU object, and the CPU's cached copy of it.
//!
//! The GPU of these chips does not see the CPU's caches. An object that the CPU maps cached has two sides here: *memory*, which
//! the GPU reads and writes, and the CPU's *copy*, which is what the process has mapped. Between them lines of
//! [`LINE`] bytes move, whole:
//!
//! - A line that the CPU has changed (it is *dirty*) goes to memory when it is cleaned, and may go at any other time, as
//!   caches evict what they like. All of it goes: bytes beside the changed ones that the GPU wrote meanwhile are lost.
//! - What the GPU has written reaches the CPU when the line is invalidated. A line may also be dropped and fetched again at any other
//!   time, as long as it is not dirty: so early news is possible, and an invalidation before the GPU has written does
//!   not help.
//! - An invalidated line that is dirty is lost, or was written just before.
//!
//! Which of the possible things happens is drawn from the machine's seed. What the CPU has changed is found by comparing with a third copy,
//! what both sides last agreed on: a store of the value that was there already does not make a line dirty here.
//!
//! Objects that the CPU maps write-combined or uncached, and those that the GPU snoops (`IOCOHERENT`), have one side.
//!
//! The copy of an object that is lent is the process's own pages. The kernel pins them, so the process may unmap them, or
//! map others there, while the object is still alive. Here they are found by their address: they are looked at in calls
//! that name the object and at no other time, through the host's kernel, and pages that are gone are left out, as nobody
//! sees any more what happens to them.
#![allow(
    unsafe_code,
    reason = "the process, the CPU's cache and the GPU share memory by address"
)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zerocopy::IntoBytes;

use crate::machine::{Block, PAGE, user};
use crate::vm::Backing;

/// Bytes of a line of the CPU's caches: `L1_CACHE_BYTES` of arm64 (`CTR_EL0.DminLine` of its cores).
pub(crate) const LINE: u64 = 64;
/// Words of a line.
const WORDS: u64 = LINE / 8;
/// The words of a page.
type Page = [u64; (PAGE / 8) as usize];

/// A cache operation: `KGSL_CACHE_OP_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Clean,
    Invalidate,
    Flush,
}

/// A word of the machine's memory.
fn word(place: &Backing, offset: u64) -> Option<&AtomicU64> {
    // The process's own pages are for the host's kernel to look at: they may be gone.
    let Backing::Block(block) = place else {
        return None;
    };
    if offset.checked_add(8)? > block.bytes() {
        return None;
    }
    let offset = usize::try_from(offset).ok()?;
    // SAFETY: within the block, checked above.
    let pointer: *mut u64 = unsafe { block.host().add(offset) }.as_ptr().cast();
    if !pointer.is_aligned() {
        return None;
    }
    // SAFETY: aligned; a block's memory lives as long as the block, and all who share it use atomic or volatile accesses.
    Some(unsafe { AtomicU64::from_ptr(pointer) })
}

fn load(place: &Backing, offset: u64) -> u64 {
    word(place, offset).map_or(0, |word| word.load(Ordering::Acquire))
}

fn store(place: &Backing, offset: u64, value: u64) {
    if let Some(word) = word(place, offset) {
        word.store(value, Ordering::Release);
    }
}

/// The CPU's side of an object that it caches.
#[derive(Debug)]
struct Copy {
    /// What the process sees.
    view: Backing,
    /// What both sides last agreed on, by page; a page that is not there is zero.
    agreed: BTreeMap<u64, Box<Page>>,
}

/// The pages of an object.
#[derive(Debug)]
pub(crate) struct Memory {
    /// What the GPU sees.
    memory: Backing,
    /// Bytes, whole pages.
    bytes: u64,
    copy: Option<Copy>,
}

impl Memory {
    /// Pages that both sides see at once.
    pub(crate) fn shared(memory: Backing, bytes: u64) -> Self {
        Self {
            memory,
            bytes,
            copy: None,
        }
    }

    /// Pages that the CPU caches: `memory` is zero, and so is `view` unless it is the process's own, which is copied.
    pub(crate) fn cached(memory: Arc<Block>, view: Backing, bytes: u64) -> Self {
        let mut pages = Self {
            memory: Backing::Block(memory),
            bytes,
            copy: Some(Copy {
                view,
                agreed: BTreeMap::new(),
            }),
        };
        if pages.is_lent() {
            pages.range_op(0, bytes, Op::Clean, false);
        }
        pages
    }

    /// What the GPU sees.
    pub(crate) fn gpu(&self) -> &Backing {
        &self.memory
    }

    /// What the CPU maps, if it is the machine's.
    pub(crate) fn cpu(&self) -> Option<&Arc<Block>> {
        let place = self.copy.as_ref().map_or(&self.memory, |copy| &copy.view);
        match place {
            Backing::Block(block) => Some(block),
            Backing::User(_) => None,
        }
    }

    /// Bytes, whole pages.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the copy is the process's own pages.
    fn is_lent(&self) -> bool {
        let view = self.copy.as_ref().map(|copy| &copy.view);
        matches!(view, Some(Backing::User(_)))
    }

    /// Whether caches may do something of their own accord.
    pub(crate) fn can_wander(&self) -> bool {
        self.copy.is_some() && self.bytes != 0 && !self.is_lent()
    }

    /// Calls a function for every line of a range that may be different on the two sides.
    fn lines(&mut self, start: u64, end: u64, mut each: impl FnMut(&mut Self, u64)) {
        let end = end.min(self.bytes);
        let mut at = start - start % LINE;
        while at < end {
            let next = (at - at % PAGE).saturating_add(PAGE);
            if self.touched(at - at % PAGE) {
                let last = next.min(end);
                while at < last {
                    each(self, at);
                    at += LINE;
                }
            }
            at = next;
        }
    }

    /// Whether a page can be different on the two sides: somebody has touched it.
    fn touched(&self, page: u64) -> bool {
        let touched = |place: &Backing| match place {
            Backing::Block(block) => block.has_data(page, PAGE),
            Backing::User(_) => true,
        };
        let copy = self.copy.as_ref();
        touched(&self.memory) || copy.is_some_and(|copy| touched(&copy.view))
    }

    fn is_dirty(&self, line: u64) -> bool {
        let Some(copy) = &self.copy else {
            return false;
        };
        let page = copy.agreed.get(&(line / PAGE)).map(Box::as_ref);
        (0..WORDS).any(|n| {
            let at = line + n * 8;
            load(&copy.view, at) != agreed(page, at)
        })
    }

    /// A dirty line goes to memory, all of it.
    fn clean_line(&mut self, line: u64) {
        if !self.is_dirty(line) {
            return;
        }
        let Some(copy) = &mut self.copy else {
            return;
        };
        let page = copy.agreed.entry(line / PAGE).or_insert_with(zeroes);
        for at in (0..WORDS).map(|n| line + n * 8) {
            let value = load(&copy.view, at);
            store(&self.memory, at, value);
            if let Some(agreed) = page.get_mut(index(at)) {
                *agreed = value;
            }
        }
    }

    /// The CPU drops its copy and fetches memory's. What it has changed is lost if `lose`, and stays otherwise.
    fn fetch_line(&mut self, line: u64, lose: bool) {
        let Some(copy) = &mut self.copy else {
            return;
        };
        let page = copy.agreed.entry(line / PAGE).or_insert_with(zeroes);
        for at in (0..WORDS).map(|n| line + n * 8) {
            let (Some(view), Some(agreed)) = (word(&copy.view, at), page.get_mut(index(at))) else {
                continue;
            };
            let value = load(&self.memory, at);
            // ORDER: release, so that a CPU that sees the new word sees what the GPU wrote before it; nothing is taken from
            // a word that the CPU has changed meanwhile.
            let taken = if lose {
                view.store(value, Ordering::Release);
                true
            } else {
                view.compare_exchange(*agreed, value, Ordering::AcqRel, Ordering::Acquire)
                    .is_ok()
            };
            if taken {
                *agreed = value;
            }
        }
    }

    /// An operation on whole pages, as `dma_sync_sg_for_device` and `dma_sync_sg_for_cpu` do it since Linux 6.1 (`early`
    /// cleans before it invalidates) and before.
    pub(crate) fn page_op(&mut self, page: u64, op: Op, early: bool) {
        let start = page * PAGE;
        self.range_op(start, PAGE, op, early);
    }

    /// An operation on the lines of a range: `dmac_clean_range` and its kin on arm64. An invalidated line that is only partly in
    /// the range is cleaned first, as there. So are all if `early`: nobody knows what a cache has evicted already.
    pub(crate) fn range_op(&mut self, offset: u64, bytes: u64, op: Op, early: bool) {
        let end = offset.saturating_add(bytes).min(self.bytes);
        if self.is_lent() {
            self.lent_op(offset..end, op, early);
            return;
        }
        self.lines(offset, end, |memory, line| {
            let whole = line >= offset && line + LINE <= end;
            if op != Op::Invalidate || early || !whole {
                memory.clean_line(line);
            }
            if op != Op::Clean {
                memory.fetch_line(line, true);
            }
        });
    }

    /// The same on the process's own pages.
    fn lent_op(&mut self, range: Range<u64>, op: Op, early: bool) {
        let Some(Copy {
            view: Backing::User(start),
            agreed,
        }) = &mut self.copy
        else {
            return;
        };
        let mut at = range.start - range.start % LINE;
        while at < range.end {
            let page = at - at % PAGE;
            let lines = at..range.end.next_multiple_of(LINE).min(page + PAGE);
            at = page + PAGE;
            let Some(address) = start.checked_add(page) else {
                return;
            };
            let mut seen: Page = [0; (PAGE / 8) as usize];
            if user::read(address, seen.as_mut_bytes()).is_err() {
                continue;
            }
            let agreed = agreed.entry(page / PAGE).or_insert_with(zeroes);
            let mut fetched = Vec::new();
            for line in lines.step_by(LINE as usize) {
                let whole = line >= range.start && line + LINE <= range.end;
                let words = index(line)..index(line) + WORDS as usize;
                let (Some(seen), Some(agreed)) = (seen.get(words.clone()), agreed.get_mut(words))
                else {
                    continue;
                };
                if (op != Op::Invalidate || early || !whole) && seen != agreed {
                    for (at, &value) in (line..).step_by(8).zip(seen) {
                        store(&self.memory, at, value);
                    }
                    agreed.copy_from_slice(seen);
                }
                if op != Op::Clean {
                    for ((at, &seen), agreed) in (line..).step_by(8).zip(seen).zip(agreed) {
                        *agreed = load(&self.memory, at);
                        // The process may be writing what is beside its range, so nothing is stored that is there already.
                        if *agreed != seen {
                            fetched.push((at, *agreed));
                        }
                    }
                }
            }
            for run in fetched.chunk_by(|&(a, _), &(b, _)| a + 8 == b) {
                let Some(to) = run.first().and_then(|&(at, _)| start.checked_add(at)) else {
                    continue;
                };
                let words: Vec<u64> = run.iter().map(|&(_, value)| value).collect();
                // Gone since it was read.
                let _ = user::write(to, words.as_bytes());
            }
        }
    }

    /// What caches do unasked: some line is evicted, or fetched again.
    pub(crate) fn wander(&mut self, random: &mut fastrand::Rng) {
        if !self.can_wander() {
            return;
        }
        let line = random.u64(..self.bytes / LINE) * LINE;
        if !self.touched(line - line % PAGE) {
            return;
        }
        if random.bool() {
            self.clean_line(line);
        }
        if random.bool() && !self.is_dirty(line) {
            self.fetch_line(line, false);
        }
    }
}

fn zeroes() -> Box<Page> {
    Box::new([0; (PAGE / 8) as usize])
}

/// A word's place in its page.
fn index(at: u64) -> usize {
    usize::try_from(at % PAGE / 8).unwrap_or(0)
}

fn agreed(page: Option<&Page>, at: u64) -> u64 {
    page.and_then(|page| page.get(index(at)).copied())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Store;
    use crate::qcom::tests::Pages;

    fn cached(pages: u64) -> (Memory, Arc<Block>, Arc<Block>) {
        let store = Store::new().expect("memory");
        let bytes = pages * PAGE;
        let gpu = store.block(bytes).expect("gpu");
        let cpu = store.block(bytes).expect("cpu");
        let view = Backing::Block(Arc::clone(&cpu));
        let memory = Memory::cached(Arc::clone(&gpu), view, bytes);
        assert!(memory.can_wander());
        (memory, gpu, cpu)
    }

    #[test]
    fn exact_lines_are_cleaned_and_no_others() {
        let (mut memory, gpu, cpu) = cached(2);
        for line in 0..2 * PAGE / LINE {
            cpu.store(line * LINE, line + 1);
        }
        memory.range_op(LINE + 8, LINE, Op::Clean, false);
        let seen: Vec<u64> = (0..5)
            .map(|line| gpu.load(line * LINE).expect("in"))
            .collect();
        assert_eq!(seen, [0, 2, 3, 0, 0]);
        memory.range_op(PAGE - 1, 2, Op::Clean, false);
        let (last, first) = (PAGE - LINE, PAGE);
        assert_eq!(gpu.load(last), Some(PAGE / LINE));
        assert_eq!(gpu.load(first), Some(PAGE / LINE + 1));
        assert_eq!(gpu.load(first + LINE), Some(0));
        // Past the end there is nothing to clean.
        memory.range_op(2 * PAGE - 1, u64::MAX, Op::Clean, false);
        assert_eq!(gpu.load(2 * PAGE - LINE), Some(2 * PAGE / LINE));
    }

    #[test]
    fn a_dirty_line_takes_its_neighbours_bytes_along() {
        let (mut memory, gpu, cpu) = cached(1);
        cpu.store(0, 7);
        gpu.store(8, 9);
        memory.range_op(0, 8, Op::Clean, false);
        assert_eq!(
            (gpu.load(0), gpu.load(8)),
            (Some(7), Some(0)),
            "false sharing"
        );
        // A clean line writes nothing.
        gpu.store(8, 9);
        memory.range_op(0, 8, Op::Clean, false);
        assert_eq!(gpu.load(8), Some(9));
    }

    #[test]
    fn the_cpu_sees_old_bytes_until_it_invalidates() {
        let (mut memory, gpu, cpu) = cached(1);
        gpu.store(0, 1);
        gpu.store(LINE, 2);
        assert_eq!(cpu.load(0), Some(0));
        memory.range_op(0, LINE, Op::Invalidate, false);
        assert_eq!((cpu.load(0), cpu.load(LINE)), (Some(1), Some(0)));
        memory.range_op(0, PAGE, Op::Flush, false);
        assert_eq!(cpu.load(LINE), Some(2));
    }

    #[test]
    fn what_is_dirty_is_lost_when_it_is_invalidated_but_for_the_edges() {
        for early in [false, true] {
            let (mut memory, gpu, cpu) = cached(1);
            for line in 0..3 {
                cpu.store(line * LINE, 5);
                gpu.store(line * LINE, 6);
            }
            memory.range_op(8, 2 * LINE, Op::Invalidate, early);
            let middle = if early { 5 } else { 6 };
            for (line, value) in [(0, 5), (1, middle), (2, 5)] {
                assert_eq!(cpu.load(line * LINE), Some(value), "{line} {early}");
                assert_eq!(gpu.load(line * LINE), Some(value), "{line} {early}");
            }
        }
    }

    #[test]
    fn caches_evict_and_fetch_as_they_like_and_lose_nothing() {
        let (mut memory, gpu, cpu) = cached(1);
        let mut random = fastrand::Rng::with_seed(3);
        cpu.store(0, 1);
        gpu.store(LINE, 2);
        // Untouched pages are left alone.
        let (mut early, mut news) = (0, 0);
        for turn in 1..3000 {
            memory.wander(&mut random);
            assert_eq!(cpu.load(0), Some(1), "a dirty line is not dropped");
            assert_eq!(gpu.load(LINE), Some(2), "a clean line is not written");
            if early == 0 && gpu.load(0) == Some(1) {
                early = turn;
            }
            if news == 0 && cpu.load(LINE) == Some(2) {
                news = turn;
            }
        }
        assert!(early > 0 && news > 0, "{early} {news}");
    }

    #[test]
    fn memory_of_the_process_is_copied_when_it_is_lent() {
        let store = Store::new().expect("memory");
        let mut own = vec![0u64; 2 * PAGE as usize / 8];
        let start = own.as_mut_ptr().expose_provenance() as u64;
        let page = start.next_multiple_of(PAGE);
        let at = ((page - start) / 8) as usize;
        own[at + 1] = 77;
        let gpu = store.block(PAGE).expect("gpu");
        let mut memory = Memory::cached(Arc::clone(&gpu), Backing::User(page), PAGE);
        assert_eq!(gpu.load(8), Some(77));
        assert!(memory.cpu().is_none());
        gpu.store(8, 78);
        memory.range_op(0, PAGE, Op::Invalidate, false);
        let seen = own.get(at + 1).map(std::ptr::from_ref).expect("in it");
        // SAFETY: `own` is alive, and nobody else uses it now.
        let seen = unsafe { seen.read_volatile() };
        assert_eq!(seen, 78);
    }

    #[test]
    fn operations_on_lent_memory_are_those_on_lines() {
        let store = Store::new().expect("memory");
        let mut own = vec![0u64; 3 * PAGE as usize / 8];
        let start = own.as_mut_ptr().expose_provenance() as u64;
        let page = start.next_multiple_of(PAGE);
        let first = ((page - start) / 8) as usize;
        let word = |at: u64| first + at as usize / 8;
        for (op, early) in [
            (Op::Clean, false),
            (Op::Invalidate, false),
            (Op::Invalidate, true),
            (Op::Flush, false),
        ] {
            let block = || store.block(2 * PAGE).expect("memory");
            let (gpu, other, cpu) = (block(), block(), block());
            own.fill(0);
            let mut lent = Memory::cached(Arc::clone(&gpu), Backing::User(page), 2 * PAGE);
            let view = Backing::Block(Arc::clone(&cpu));
            let mut mapped = Memory::cached(Arc::clone(&other), view, 2 * PAGE);
            let mut random = fastrand::Rng::with_seed(11);
            for turn in 1..500 {
                let at = random.u64(..2 * PAGE / 8) * 8;
                if random.bool() {
                    (own[word(at)], _) = (turn, cpu.store(at, turn));
                } else {
                    gpu.store(at, turn);
                    other.store(at, turn);
                }
                if turn % 20 == 0 {
                    let (offset, bytes) = (random.u64(..2 * PAGE), random.u64(1..PAGE));
                    lent.range_op(offset, bytes, op, early);
                    mapped.range_op(offset, bytes, op, early);
                }
            }
            lent.range_op(0, 2 * PAGE, op, early);
            mapped.range_op(0, 2 * PAGE, op, early);
            for at in (0..2 * PAGE).step_by(8) {
                assert_eq!(gpu.load(at), other.load(at), "{op:?} {early} {at}");
                assert_eq!(Some(own[word(at)]), cpu.load(at), "{op:?} {early} {at}");
            }
        }
    }

    /// The kernel has pinned what was lent: unmapping it is the process's right.
    #[test]
    fn lent_memory_may_be_gone() {
        let store = Store::new().expect("memory");
        let gpu = store.block(2 * PAGE).expect("gpu");
        let own = Pages::new(2 * PAGE);
        let mut memory = Memory::cached(Arc::clone(&gpu), Backing::User(own.start()), 2 * PAGE);
        drop(own);
        gpu.store(8, 5);
        let mut random = fastrand::Rng::with_seed(1);
        for op in [Op::Clean, Op::Invalidate, Op::Flush] {
            memory.range_op(0, 2 * PAGE, op, true);
            memory.wander(&mut random);
        }
        assert!(!memory.can_wander());
        assert_eq!(gpu.load(8), Some(5));
    }

    #[test]
    fn large_objects_cost_what_is_touched() {
        let (mut memory, gpu, cpu) = cached(1 << 18);
        cpu.store(5 * PAGE, 1);
        memory.range_op(0, memory.bytes(), Op::Flush, false);
        assert_eq!(gpu.load(5 * PAGE), Some(1));
        let pages = |block: &Block| (0..16).filter(|p| block.has_data(p * PAGE, PAGE)).count();
        assert_eq!((pages(&gpu), pages(&cpu)), (1, 1));
    }
}
