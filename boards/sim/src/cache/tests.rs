//! What is stale, and for how long.
#![allow(unsafe_code, reason = "pages of the tests are reached by address")]

use std::cell::Cell;
use std::ptr::NonNull;

use proptest::prelude::*;

use super::*;

/// A run of pages from one address on.
pub(crate) struct Pages {
    base: u64,
    _words: Vec<u64>,
    first: *mut u8,
    len: u64,
    pub(crate) mtype: Cell<Mtype>,
    pub(crate) heap: Cell<Heap>,
    pub(crate) gone: Cell<bool>,
    pub(crate) read_only: Cell<bool>,
    /// The longest extent: shows what callers do at seams.
    pub(crate) seam: Cell<u64>,
    pub(crate) asked: Cell<u64>,
}

const BASE: u64 = 0x7000_0000_0000;

impl Pages {
    pub(crate) fn new(len: usize) -> Self {
        let mut words = vec![0u64; len.div_ceil(8)];
        Self {
            base: BASE,
            first: words.as_mut_ptr().cast(),
            _words: words,
            len: len as u64,
            mtype: Cell::new(Mtype::Rw),
            heap: Cell::new(Heap::Local),
            gone: Cell::new(false),
            read_only: Cell::new(false),
            seam: Cell::new(u64::MAX),
            asked: Cell::new(0),
        }
    }

    /// What the host sees.
    pub(crate) fn host(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        host::read(self, address, &mut bytes).expect("it is mapped");
        bytes
    }

    pub(crate) fn host_write(&self, address: u64, bytes: &[u8]) {
        host::write(self, address, bytes).expect("it is mapped");
    }
}

impl AddressSpace for Pages {
    fn translate(&self, address: u64, len: u64, need: Need) -> Result<Extent, PageFault> {
        self.asked.set(self.asked.get() + 1);
        let fault = |reason| PageFault {
            address,
            need,
            reason,
        };
        let at = address.wrapping_sub(self.base);
        if at >= self.len || self.gone.get() {
            return Err(fault(PageFaultReason::NotPresent));
        }
        if need == Need::Write && self.read_only.get() {
            return Err(fault(PageFaultReason::ReadOnly));
        }
        // SAFETY: `at` is below the length.
        let host = unsafe { self.first.add(at as usize) };
        let seam = self.seam.get();
        let len = len
            .min(self.len - at)
            .min(seam.checked_sub(at % seam).unwrap_or(u64::MAX));
        Ok(Extent {
            host: NonNull::new(host).expect("it is in a slice"),
            len,
            heap: self.heap.get(),
            mtype: self.mtype.get(),
        })
    }
}

fn load(caches: &mut Caches, xcc: u8, vm: &Pages, at: u64) -> u32 {
    let mut bytes = [0; 4];
    caches
        .view(xcc, vm)
        .load(BASE + at, &mut bytes)
        .expect("it is mapped");
    u32::from_le_bytes(bytes)
}

fn scalar(caches: &mut Caches, xcc: u8, vm: &Pages, at: u64) -> u32 {
    let mut bytes = [0; 4];
    caches
        .view(xcc, vm)
        .load_scalar(BASE + at, &mut bytes)
        .expect("it is mapped");
    u32::from_le_bytes(bytes)
}

fn fetch(caches: &mut Caches, xcc: u8, vm: &Pages, at: u64) -> u32 {
    let mut bytes = [0; 4];
    caches
        .view(xcc, vm)
        .fetch(BASE + at, &mut bytes)
        .expect("it is mapped");
    u32::from_le_bytes(bytes)
}

fn store(caches: &mut Caches, xcc: u8, vm: &Pages, at: u64, value: u32) {
    caches
        .view(xcc, vm)
        .store(BASE + at, &value.to_le_bytes())
        .expect("it is mapped");
}

fn host(vm: &Pages, at: u64) -> u32 {
    let bytes = vm.host(BASE + at, 4);
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

#[test]
fn a_line_read_once_is_old_until_each_cache_on_its_way_is_invalidated() {
    let (vm, mut caches) = (Pages::new(4096), Caches::new(1));
    vm.host_write(BASE, &1u32.to_le_bytes());
    assert_eq!(load(&mut caches, 0, &vm, 0), 1);
    vm.host_write(BASE, &2u32.to_le_bytes());
    // The neighbours came along.
    vm.host_write(BASE + 64, &3u32.to_le_bytes());
    let mut steps = vec![];
    for levels in [Levels::empty(), Levels::VECTOR, Levels::L2, Levels::VECTOR] {
        caches.invalidate(0, levels, &vm).expect("nothing to write");
        steps.push((load(&mut caches, 0, &vm, 0), load(&mut caches, 0, &vm, 64)));
    }
    // The vector cache takes its line from the L2; after that both have to go.
    assert_eq!(steps, [(1, 0), (1, 0), (1, 0), (2, 3)]);
}

#[test]
fn each_cache_before_the_l2_is_old_on_its_own() {
    let (vm, mut caches) = (Pages::new(4096), Caches::new(1));
    vm.mtype.set(Mtype::Uc);
    let all = [load, scalar, fetch];
    let levels = [Levels::VECTOR, Levels::SCALAR, Levels::INSTRUCTION];
    for (read, level) in all.into_iter().zip(levels) {
        vm.host_write(BASE, &1u32.to_le_bytes());
        caches.invalidate(0, Levels::all(), &vm).expect("clean");
        for other in all {
            assert_eq!(other(&mut caches, 0, &vm, 0), 1);
        }
        vm.host_write(BASE, &2u32.to_le_bytes());
        caches
            .invalidate(0, Levels::all() - level, &vm)
            .expect("clean");
        assert_eq!(read(&mut caches, 0, &vm, 0), 1, "{level:?} was left alone");
        caches.invalidate(0, level, &vm).expect("clean");
        assert_eq!(read(&mut caches, 0, &vm, 0), 2, "{level:?}");
    }
}

#[test]
fn a_store_is_in_the_l2_until_it_is_written_back() {
    let (vm, mut caches) = (Pages::new(4096), Caches::new(1));
    vm.host_write(BASE, &[0xa5; 256]);
    store(&mut caches, 0, &vm, 8, 7);
    assert_eq!(load(&mut caches, 0, &vm, 8), 7);
    assert_eq!(host(&vm, 8), 0xa5a5_a5a5);
    assert!(caches.holds_stores(0));
    for levels in [Levels::empty(), Levels::all() - Levels::L2] {
        caches.write_back(0, levels, &vm).expect("it is mapped");
        assert_eq!(host(&vm, 8), 0xa5a5_a5a5, "{levels:?}");
    }
    // Only the bytes stored go to memory: the host's own are left alone.
    vm.host_write(BASE + 4, &9u32.to_le_bytes());
    caches.write_back(0, Levels::L2, &vm).expect("it is mapped");
    assert_eq!(
        (host(&vm, 4), host(&vm, 8), host(&vm, 12)),
        (9, 7, 0xa5a5_a5a5)
    );
    assert!(!caches.holds_stores(0));
    // Written back is not forgotten.
    vm.host_write(BASE + 8, &1u32.to_le_bytes());
    caches.invalidate(0, Levels::VECTOR, &vm).expect("clean");
    assert_eq!(load(&mut caches, 0, &vm, 8), 7);
}

#[test]
fn an_invalidation_keeps_stores() {
    let (vm, mut caches) = (Pages::new(4096), Caches::new(1));
    assert_eq!(load(&mut caches, 0, &vm, 0), 0);
    store(&mut caches, 0, &vm, 4, 7);
    vm.host_write(BASE, &[1; 8]);
    caches.invalidate(0, Levels::all(), &vm).expect("clean");
    assert_eq!(load(&mut caches, 0, &vm, 0), 0x0101_0101);
    assert_eq!(load(&mut caches, 0, &vm, 4), 7);
    assert_eq!(host(&vm, 4), 0x0101_0101);
}

#[test]
fn stores_are_not_seen_by_the_scalar_and_instruction_caches() {
    let (vm, mut caches) = (Pages::new(4096), Caches::new(1));
    assert_eq!(scalar(&mut caches, 0, &vm, 0), 0);
    assert_eq!(fetch(&mut caches, 0, &vm, 0), 0);
    store(&mut caches, 0, &vm, 0, 7);
    assert_eq!(scalar(&mut caches, 0, &vm, 0), 0);
    assert_eq!(fetch(&mut caches, 0, &vm, 0), 0);
    let both = Levels::SCALAR | Levels::INSTRUCTION;
    caches.invalidate(0, both, &vm).expect("clean");
    assert_eq!(scalar(&mut caches, 0, &vm, 0), 7);
    assert_eq!(fetch(&mut caches, 0, &vm, 0), 7);
}

#[test]
fn xccs_see_each_other_through_memory_only() {
    let (vm, mut caches) = (Pages::new(4096), Caches::new(8));
    for xcc in 0..8 {
        assert_eq!(load(&mut caches, xcc, &vm, 0), 0);
    }
    store(&mut caches, 3, &vm, 0, 7);
    assert_eq!(load(&mut caches, 4, &vm, 0), 0);
    caches.write_back(4, Levels::L2, &vm).expect("it is mapped");
    assert_eq!(host(&vm, 0), 0, "the stores of another XCC");
    caches.write_back(3, Levels::L2, &vm).expect("it is mapped");
    assert_eq!((host(&vm, 0), load(&mut caches, 4, &vm, 0)), (7, 0));
    let both = Levels::VECTOR | Levels::L2;
    caches.invalidate(4, both, &vm).expect("clean");
    assert_eq!(load(&mut caches, 4, &vm, 0), 7);
    assert_eq!(load(&mut caches, 5, &vm, 0), 0, "nobody told it");
}

#[test]
fn two_xccs_that_share_a_line_keep_each_others_bytes() {
    let (vm, mut caches) = (Pages::new(4096), Caches::new(2));
    store(&mut caches, 0, &vm, 0, 1);
    store(&mut caches, 1, &vm, 4, 2);
    for xcc in 0..2 {
        caches.write_back(xcc, Levels::L2, &vm).expect("mapped");
    }
    assert_eq!((host(&vm, 0), host(&vm, 4)), (1, 2));
}

#[test]
fn uncached_and_coherent_pages_go_past_the_l2() {
    for (mtype, heap, past) in [
        (Mtype::Uc, Heap::Local, true),
        (Mtype::Uc, Heap::System, true),
        (Mtype::Uc, Heap::Peer, true),
        (Mtype::Cc, Heap::Local, true),
        (Mtype::Cc, Heap::System, false),
        (Mtype::Cc, Heap::Peer, false),
        (Mtype::Rw, Heap::Local, false),
        (Mtype::Nc, Heap::Local, false),
        (Mtype::Nc, Heap::System, false),
    ] {
        let (vm, mut caches) = (Pages::new(4096), Caches::new(1));
        vm.mtype.set(mtype);
        vm.heap.set(heap);
        assert_eq!(load(&mut caches, 0, &vm, 0), 0);
        vm.host_write(BASE, &5u32.to_le_bytes());
        assert_eq!(load(&mut caches, 0, &vm, 0), 0, "the vector cache has it");
        caches.invalidate(0, Levels::VECTOR, &vm).expect("clean");
        let seen = load(&mut caches, 0, &vm, 0);
        assert_eq!(seen == 5, past, "{mtype:?} {heap:?}");
        store(&mut caches, 0, &vm, 128, 6);
        assert_eq!(host(&vm, 128) == 6, past, "{mtype:?} {heap:?}");
        assert_eq!(caches.holds_stores(0), !past);
    }
}

#[test]
fn what_does_not_fit_is_written_back_early_and_some_of_it_late() {
    let sizes = Sizes {
        l2: 64,
        ..Sizes::default()
    };
    let count = |seed| {
        let (vm, mut caches) = (Pages::new(128 * 1024), Caches::with(1, sizes, seed));
        for line in 0..1024u32 {
            store(&mut caches, 0, &vm, u64::from(line) * 128, line + 1);
        }
        let early: Vec<u32> = (0..1024)
            .filter(|&line| host(&vm, u64::from(line) * 128) == line + 1)
            .collect();
        // All are there in the end, and before that for the program itself.
        for line in 0..1024 {
            assert_eq!(load(&mut caches, 0, &vm, u64::from(line) * 128), line + 1);
        }
        caches.write_back(0, Levels::L2, &vm).expect("mapped");
        for line in 0..1024 {
            assert_eq!(host(&vm, u64::from(line) * 128), line + 1);
        }
        early
    };
    let (one, two) = (count(1), count(2));
    assert!(one.len() >= 1024 - 64 && one.len() < 1024, "{}", one.len());
    assert_ne!(one, two, "the seed decides");
    assert_eq!(one, count(1), "and nothing else");
}

#[test]
fn a_page_that_is_gone_takes_its_stores_with_it() {
    let (vm, mut caches) = (Pages::new(4096), Caches::new(1));
    store(&mut caches, 0, &vm, 0, 7);
    vm.gone.set(true);
    assert_eq!(caches.write_back(0, Levels::L2, &vm), Ok(()));
    vm.gone.set(false);
    assert_eq!(caches.write_back(0, Levels::L2, &vm), Ok(()));
    assert_eq!(host(&vm, 0), 0);
    assert!(!caches.holds_stores(0));

    store(&mut caches, 0, &vm, 0, 7);
    vm.read_only.set(true);
    let fault = caches
        .write_back(0, Levels::L2, &vm)
        .expect_err("read only");
    assert_eq!(fault.reason, PageFaultReason::ReadOnly);
    assert!(!caches.holds_stores(0));
}

#[test]
fn a_range_forgotten_is_a_range_gone() {
    let (vm, mut caches) = (Pages::new(4096), Caches::new(2));
    for xcc in 0..2 {
        store(&mut caches, xcc, &vm, 0, 7);
        store(&mut caches, xcc, &vm, 1024, 7);
        scalar(&mut caches, xcc, &vm, 0);
    }
    caches.forget(BASE, 1024);
    vm.host_write(BASE, &1u32.to_le_bytes());
    for xcc in 0..2 {
        caches.write_back(xcc, Levels::L2, &vm).expect("mapped");
        assert_eq!(load(&mut caches, xcc, &vm, 0), 1);
        assert_eq!(scalar(&mut caches, xcc, &vm, 0), 1);
    }
    assert_eq!((host(&vm, 0), host(&vm, 1024)), (1, 7));
}

#[test]
fn faults_name_the_first_address_and_the_need() {
    let (vm, mut caches) = (Pages::new(4096), Caches::new(1));
    let mut bytes = [0; 64];
    let end = BASE + 4096;
    let mut view = caches.view(0, &vm);
    let fault = view.load(end - 32, &mut bytes).expect_err("past the end");
    assert_eq!((fault.address, fault.need), (end, Need::Read));
    let fault = view.store(end - 32, &bytes).expect_err("past the end");
    assert_eq!((fault.address, fault.need), (end, Need::Write));
    let fault = view.fetch(end, &mut bytes).expect_err("past the end");
    assert_eq!((fault.address, fault.need), (end, Need::Execute));
    drop(view);
    // A line in a cache is no right to its page.
    load(&mut caches, 0, &vm, 0);
    vm.gone.set(true);
    let fault = caches.view(0, &vm).load(BASE, &mut bytes);
    assert_eq!(fault.expect_err("gone").reason, PageFaultReason::NotPresent);
    let mut view = caches.view(0, &vm);
    view.load(u64::MAX - 3, &mut bytes).expect_err("no wrap");
}

#[test]
fn neighbouring_lines_are_translated_once() {
    let (vm, mut caches) = (Pages::new(65536), Caches::new(1));
    let mut view = caches.view(0, &vm);
    view.load(BASE, &mut [0; 32768]).expect("mapped");
    view.store(BASE, &[1; 32768]).expect("mapped");
    drop(view);
    assert!(vm.asked.get() < 16, "{}", vm.asked.get());
}

#[test]
fn an_xcc_that_is_not_there_is_the_first() {
    let (vm, mut caches) = (Pages::new(4096), Caches::new(2));
    store(&mut caches, 200, &vm, 0, 7);
    assert!(caches.holds_stores(0) && !caches.holds_stores(1));
}

#[derive(Clone, Debug)]
enum Op {
    Load(u16, u16),
    Store(u16, Vec<u8>),
    Invalidate(u8),
    WriteBack,
    Seam(u16),
}

fn op() -> impl Strategy<Value = Op> {
    let bytes = prop::collection::vec(any::<u8>(), 1..300);
    prop_oneof![
        (0..3900u16, 1..300u16).prop_map(|(a, n)| Op::Load(a, n)),
        (0..3900u16, bytes).prop_map(|(a, b)| Op::Store(a, b)),
        (0..16u8).prop_map(Op::Invalidate),
        Just(Op::WriteBack),
        (1..512u16).prop_map(Op::Seam),
    ]
}

proptest! {
    /// One program alone sees what it stored, whatever is invalidated, written back or displaced in between, and however
    /// its pages are cut; memory has it all after the last write-back.
    #[test]
    fn one_xcc_alone_sees_plain_memory(ops in prop::collection::vec(op(), 1..60), seed in any::<u64>()) {
        let sizes = Sizes { instruction: 8, scalar: 8, vector: 8, l2: 8 };
        let (vm, mut caches) = (Pages::new(4096), Caches::with(1, sizes, seed));
        let mut model = vec![0u8; 4096];
        for op in ops {
            match op {
                Op::Load(at, len) => {
                    let at = usize::from(at);
                    let mut bytes = vec![0; usize::from(len).min(4096 - at)];
                    caches.view(0, &vm).load(BASE + at as u64, &mut bytes).expect("mapped");
                    prop_assert_eq!(&bytes[..], &model[at..at + bytes.len()]);
                }
                Op::Store(at, bytes) => {
                    let at = usize::from(at);
                    let bytes = &bytes[..bytes.len().min(4096 - at)];
                    caches.view(0, &vm).store(BASE + at as u64, bytes).expect("mapped");
                    model[at..at + bytes.len()].copy_from_slice(bytes);
                }
                Op::Invalidate(bits) => {
                    let levels = Levels::from_bits_truncate(bits);
                    caches.invalidate(0, levels, &vm).expect("clean");
                }
                Op::WriteBack => caches.write_back(0, Levels::L2, &vm).expect("mapped"),
                Op::Seam(seam) => vm.seam.set(u64::from(seam)),
            }
        }
        caches.write_back(0, Levels::L2, &vm).expect("mapped");
        prop_assert_eq!(vm.host(BASE, 4096), model);
    }
}
