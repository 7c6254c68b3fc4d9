//! Caches between programs and memory that hold what they hold until they are told otherwise.
//!
//! # What is modelled
//!
//! Each XCC has four caches ([`Levels`]): instructions, scalar data, vector data (the L0 of its compute units and, on
//! gfx11 and gfx12, the L1 of its arrays, as one), and the L2 behind them. A line is a copy. Nothing keeps two copies
//! alike:
//!
//! - A line read once keeps its bytes until its cache is invalidated or the line is displaced, whatever the host, a
//!   copy engine, another XCC or another GPU writes to memory meanwhile.
//! - Vector stores are written through to the L2, which keeps them to itself: memory shows them when the L2 is written
//!   back or the line is displaced. A store of part of a line fetches nothing; the other bytes come from memory when
//!   they are asked for.
//! - The instruction and the scalar cache take no notice of stores, not even of stores of their own XCC.
//! - The L2 of one XCC knows nothing of the L2 of another (gfx942: lines of memory with [`Mtype::Rw`] are coherent within
//!   one L2 only).
//!
//! Which line is displaced is drawn from a seed, and the caches are small, so that stores come out both earlier and later
//! than a program expects: neither "it is surely in memory by now" nor "it is surely not yet" holds.
//!
//! [`Mtype`] decides about the L2 alone (`amdgpu_vm.h`, `AMDGPU_VM_MTYPE_*`; `svm_range_get_pte_flags` chooses it for each
//! heap): [`Uc`](Mtype::Uc) goes past it in both directions. [`Cc`](Mtype::Cc) does for the GPU's own memory, where hardware
//! writes such lines through and drops them on remote writes; memory elsewhere is out of that hardware's reach, and is
//! treated as [`Nc`](Mtype::Nc). The caches before the L2 hold lines of every type ("Memory Model" of gfx942, gfx11 and
//! gfx12 in LLVM's `AMDGPUUsage`).
//!
//! An invalidation of the L2 forgets what it has read and keeps what it has not written back yet: discarding stores is an
//! operation of its own in hardware (`GL2_DISCARD`).
//!
//! # What is not
//!
//! All addresses are one number space, whichever process they belong to. Compute units of one XCC share their vector cache, so
//! that staleness between work-groups of one launch does not show. Sizes are smaller than those of any real chip.

use std::fmt;

use crate::exec::ShaderMemory;
use crate::vm::{AddressSpace, Extent, Heap, Mtype, Need, PageFault, PageFaultReason};

pub(crate) mod host;
mod lines;

use lines::{LINE, Line, Lines};

bitflags::bitflags! {
    /// Caches of one XCC.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Levels: u8 {
        /// Instructions.
        const INSTRUCTION = 1;
        /// Scalar data.
        const SCALAR = 2;
        /// Vector data, and what is between that and the L2.
        const VECTOR = 4;
        /// The L2.
        const L2 = 8;
    }
}

/// Lines of each cache of an XCC; rounded up to whole sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Lines of 64 bytes.
    pub instruction: usize,
    /// Lines of 64 bytes.
    pub scalar: usize,
    /// Lines of 128 bytes.
    pub vector: usize,
    /// Lines of 128 bytes.
    pub l2: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            instruction: 256,
            scalar: 256,
            vector: 256,
            l2: 4096,
        }
    }
}

#[derive(Debug)]
struct Xcc {
    instruction: Lines,
    scalar: Lines,
    vector: Lines,
    l2: Lines,
}

impl Xcc {
    fn new(sizes: &Sizes) -> Self {
        Self {
            instruction: Lines::new(64, sizes.instruction),
            scalar: Lines::new(64, sizes.scalar),
            vector: Lines::new(128, sizes.vector),
            l2: Lines::new(128, sizes.l2),
        }
    }

    fn before_l2(&mut self) -> [(Levels, &mut Lines); 3] {
        [
            (Levels::INSTRUCTION, &mut self.instruction),
            (Levels::SCALAR, &mut self.scalar),
            (Levels::VECTOR, &mut self.vector),
        ]
    }
}

/// The caches of one GPU. A number of an XCC that it does not have means the first.
#[derive(Debug)]
pub struct Caches {
    first: Xcc,
    others: Vec<Xcc>,
    random: fastrand::Rng,
}

impl Caches {
    /// Empty caches of this many XCCs.
    pub fn new(xccs: u8) -> Self {
        Self::with(xccs, Sizes::default(), 0)
    }

    /// Empty caches of these sizes. The seed decides which lines are displaced.
    pub fn with(xccs: u8, sizes: Sizes, seed: u64) -> Self {
        Self {
            first: Xcc::new(&sizes),
            others: (1..xccs).map(|_| Xcc::new(&sizes)).collect(),
            random: fastrand::Rng::with_seed(seed),
        }
    }

    fn xcc(&mut self, xcc: u8) -> (&mut Xcc, &mut fastrand::Rng) {
        let other = usize::from(xcc).wrapping_sub(1);
        let caches = self.others.get_mut(other).unwrap_or(&mut self.first);
        (caches, &mut self.random)
    }

    /// Forgets clean lines of these levels of an XCC. Stores that the L2 holds stay in it (see the [module](self)).
    ///
    /// # Errors
    /// None so far: nothing has to be written for this.
    pub fn invalidate(
        &mut self,
        xcc: u8,
        levels: Levels,
        vm: &dyn AddressSpace,
    ) -> Result<(), PageFault> {
        let _ = vm;
        let (caches, _) = self.xcc(xcc);
        for (level, lines) in caches.before_l2() {
            if levels.contains(level) {
                lines.clear();
            }
        }
        if levels.contains(Levels::L2) {
            caches.l2.each(|line| {
                line.valid &= line.dirty;
                if line.valid == 0 {
                    line.free();
                }
            });
        }
        Ok(())
    }

    /// Forgets lines of these levels of an XCC that hold bytes of a range. The L2 is left as it is.
    pub fn invalidate_range(&mut self, xcc: u8, levels: Levels, address: u64, len: u64) {
        let end = address.saturating_add(len);
        let (caches, _) = self.xcc(xcc);
        for (level, lines) in caches.before_l2() {
            if levels.contains(level) {
                let size = lines.size() as u64;
                lines.each(|line| {
                    if line.address < end && address < line.address.saturating_add(size) {
                        line.free();
                    }
                });
            }
        }
    }

    /// Writes stores that these levels of an XCC hold to memory. Only the L2 holds any. A line whose page is gone is
    /// dropped: nobody can look at it any more.
    ///
    /// # Errors
    /// The page of a line may no longer be written. Its stores are lost, all others are written.
    pub fn write_back(
        &mut self,
        xcc: u8,
        levels: Levels,
        vm: &dyn AddressSpace,
    ) -> Result<(), PageFault> {
        let mut result = Ok(());
        if levels.contains(Levels::L2) {
            let (caches, _) = self.xcc(xcc);
            caches.l2.each(|line| {
                if line.dirty == 0 {
                    return;
                }
                match write_line(line, vm) {
                    Ok(true) => line.dirty = 0,
                    Ok(false) => line.free(),
                    Err(fault) => {
                        line.free();
                        result = result.and(Err(fault));
                    }
                }
            });
        }
        result
    }

    /// Drops all lines of a range, with the stores in them: the pages get another meaning. A kernel calls this when it takes
    /// a mapping away, having written back first what was to be kept.
    pub fn forget(&mut self, address: u64, len: u64) {
        let end = address.saturating_add(len);
        let within = |line: &mut Line, size: u64| {
            if line.address < end && address < line.address.saturating_add(size) {
                line.free();
            }
        };
        for xcc in std::iter::once(&mut self.first).chain(&mut self.others) {
            for (_, lines) in xcc.before_l2() {
                let size = lines.size() as u64;
                lines.each(|line| within(line, size));
            }
            let size = xcc.l2.size() as u64;
            xcc.l2.each(|line| within(line, size));
        }
    }

    /// Whether an XCC's L2 holds stores that memory does not have.
    pub fn holds_stores(&mut self, xcc: u8) -> bool {
        let mut any = false;
        self.xcc(xcc).0.l2.each(|line| any |= line.dirty != 0);
        any
    }

    /// Memory through the caches of an XCC.
    pub fn view<'a>(&'a mut self, xcc: u8, vm: &'a dyn AddressSpace) -> Box<dyn ShaderMemory + 'a> {
        let (xcc, random) = self.xcc(xcc);
        Box::new(View {
            xcc,
            random,
            vm,
            known: [None; 4],
            next: 0,
        })
    }
}

/// Writes a line's stores to memory; `false` if a page is gone.
fn write_line(line: &Line, vm: &dyn AddressSpace) -> Result<bool, PageFault> {
    let mut at = 0;
    while at < LINE as u32 {
        at += (line.dirty >> at).trailing_zeros().min(LINE as u32 - at);
        if at >= LINE as u32 {
            break;
        }
        let run = (line.dirty >> at).trailing_ones();
        let (start, end) = (at as usize, (at + run) as usize);
        let bytes = line.bytes.get(start..end).unwrap_or_default();
        match host::write(vm, line.address.wrapping_add(u64::from(at)), bytes) {
            Ok(()) => {}
            Err(fault) if fault.reason == PageFaultReason::NotPresent => return Ok(false),
            Err(fault) => return Err(fault),
        }
        at += run;
    }
    Ok(true)
}

/// A translation that this view has made before.
#[derive(Clone, Copy)]
struct Known {
    need: Need,
    address: u64,
    extent: Extent,
}

struct View<'a> {
    xcc: &'a mut Xcc,
    random: &'a mut fastrand::Rng,
    vm: &'a dyn AddressSpace,
    /// Page tables do not change while they are lent, so translations hold for a view's life.
    known: [Option<Known>; 4],
    next: usize,
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("xcc", &self.xcc).finish()
    }
}

/// How much is asked for at once, so that neighbouring lines need no translation of their own.
const AHEAD: u64 = 1 << 16;

#[derive(Clone, Copy)]
enum Path {
    Instruction,
    Scalar,
    Vector,
}

impl View<'_> {
    /// Translates `address`, for `len` bytes at most.
    fn translate(&mut self, address: u64, len: u64, need: Need) -> Result<Extent, PageFault> {
        for known in self.known.iter().flatten() {
            let skip = address.wrapping_sub(known.address);
            if known.need == need
                && address >= known.address
                && let Some(extent) = host::skip(&known.extent, skip)
            {
                return Ok(extent);
            }
        }
        let extent = self.vm.translate(address, len.max(AHEAD), need)?;
        if let Some(slot) = self.known.get_mut(self.next) {
            *slot = Some(Known {
                need,
                address,
                extent,
            });
        }
        self.next = (self.next + 1) % self.known.len();
        Ok(extent)
    }

    /// Reads through the L2 to memory. `bytes` lies within one line, and within `extent`.
    fn read_l2(
        &mut self,
        address: u64,
        bytes: &mut [u8],
        extent: &Extent,
    ) -> Result<(), PageFault> {
        let l2 = &mut self.xcc.l2;
        if past_l2(extent) {
            host::read_extent(extent, bytes);
            return Ok(());
        }
        if let Some(line) = l2.find(address)
            && line.read(l2_offset(address), bytes)
        {
            return Ok(());
        }
        host::read_extent(extent, bytes);
        let line = claim(l2, address, self.random, self.vm)?;
        // What the line holds already is newer than memory, or older, and in both cases what this GPU sees.
        line.fill(l2_offset(address), bytes);
        line.read(l2_offset(address), bytes);
        Ok(())
    }

    /// Reads through one of the caches before the L2. `bytes` lies within one of its lines; returns how many were read.
    fn read_piece(
        &mut self,
        path: Path,
        address: u64,
        bytes: &mut [u8],
    ) -> Result<usize, PageFault> {
        let need = match path {
            Path::Instruction => Need::Execute,
            Path::Scalar | Path::Vector => Need::Read,
        };
        let extent = self.translate(address, bytes.len() as u64, need)?;
        let lines = self.lines(path);
        let size = lines.size() as u64;
        let offset = (address % size) as usize;
        if let Some(line) = lines.find(address)
            && line.read(offset, bytes)
        {
            return Ok(bytes.len());
        }
        // The whole line comes in if all of it is in one place; else what was asked for does.
        let base = address - address % size;
        let whole = self
            .translate(base, size, need)
            .ok()
            .filter(|whole| whole.len >= size);
        let (start, extent, len) = match whole {
            Some(whole) => (base, whole, size as usize),
            None => {
                let here = usize::try_from(extent.len).unwrap_or(usize::MAX);
                (address, extent, bytes.len().min(here))
            }
        };
        let mut buffer = [0; LINE];
        let read = buffer.get_mut(..len).unwrap_or_default();
        self.read_l2(start, read, &extent)?;
        let done = if whole.is_some() { bytes.len() } else { len };
        let random = &mut *self.random;
        let lines = match path {
            Path::Instruction => &mut self.xcc.instruction,
            Path::Scalar => &mut self.xcc.scalar,
            Path::Vector => &mut self.xcc.vector,
        };
        // These caches are written through: what is displaced is a copy.
        let (line, _) = lines.claim(address, random);
        line.fill((start % size) as usize, read);
        line.read(offset, bytes.get_mut(..done).unwrap_or_default());
        Ok(done)
    }

    fn lines(&mut self, path: Path) -> &mut Lines {
        match path {
            Path::Instruction => &mut self.xcc.instruction,
            Path::Scalar => &mut self.xcc.scalar,
            Path::Vector => &mut self.xcc.vector,
        }
    }

    fn read(&mut self, path: Path, address: u64, bytes: &mut [u8]) -> Result<(), PageFault> {
        let size = self.lines(path).size();
        let (mut at, mut rest) = (address, bytes);
        while !rest.is_empty() {
            let piece = (size - at as usize % size).min(rest.len());
            let now = rest.get_mut(..piece).unwrap_or_default();
            let done = self.read_piece(path, at, now)?.clamp(1, piece);
            at = at.wrapping_add(done as u64);
            rest = rest.get_mut(done..).unwrap_or_default();
        }
        Ok(())
    }

    /// Stores bytes that lie within one line; returns how many of them.
    fn store_piece(&mut self, address: u64, bytes: &[u8]) -> Result<usize, PageFault> {
        let extent = self.translate(address, bytes.len() as u64, Need::Write)?;
        let len = bytes.len().min(extent.len as usize);
        let bytes = bytes.get(..len).unwrap_or_default();
        let offset = l2_offset(address);
        if let Some(line) = self.xcc.vector.find(address) {
            line.update(offset, bytes);
        }
        if past_l2(&extent) {
            host::write_extent(&extent, bytes);
        } else {
            let line = claim(&mut self.xcc.l2, address, self.random, self.vm)?;
            line.store(offset, bytes);
        }
        Ok(len)
    }
}

/// Whether accesses to these pages go past the L2.
fn past_l2(extent: &Extent) -> bool {
    match extent.mtype {
        Mtype::Uc => true,
        Mtype::Cc => extent.heap == Heap::Local,
        Mtype::Rw | Mtype::Nc => false,
    }
}

fn l2_offset(address: u64) -> usize {
    (address % LINE as u64) as usize
}

/// The L2's line of an address. Stores of the line that has to go for it are written to memory.
fn claim<'a>(
    l2: &'a mut Lines,
    address: u64,
    random: &mut fastrand::Rng,
    vm: &dyn AddressSpace,
) -> Result<&'a mut Line, PageFault> {
    let (line, displaced) = l2.claim(address, random);
    if let Some(displaced) = displaced {
        write_line(&displaced, vm)?;
    }
    Ok(line)
}

impl ShaderMemory for View<'_> {
    fn load(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), PageFault> {
        self.read(Path::Vector, address, bytes)
    }

    fn load_scalar(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), PageFault> {
        self.read(Path::Scalar, address, bytes)
    }

    fn store(&mut self, address: u64, bytes: &[u8]) -> Result<(), PageFault> {
        let (mut at, mut rest) = (address, bytes);
        while !rest.is_empty() {
            let piece = (LINE - l2_offset(at)).min(rest.len());
            let now = rest.get(..piece).unwrap_or_default();
            let stored = self.store_piece(at, now)?.max(1);
            at = at.wrapping_add(stored as u64);
            rest = rest.get(stored..).unwrap_or_default();
        }
        Ok(())
    }

    fn fetch(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), PageFault> {
        self.read(Path::Instruction, address, bytes)
    }
}

#[cfg(test)]
pub(crate) mod tests;
