//! Every interleaving, and every order in which memory may show itself: ring entries are published whole, a signal
//! carries the data before it, the host's view of a timeline is sound. The code under test is the crate's own; only the
//! memory beneath it is the checker's.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p hcq-nostd --test 'loom*'
//! ```
#![cfg(loom)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use hcq_nostd::mem::model::{Memory, install};
use hcq_nostd::mem::{Region, SharedWord, SharedWords, consume_fence};
use hcq_nostd::ring::Ring;
use hcq_nostd::signal::{Signal, Width};
use hcq_nostd::timeline::Timeline;
use hcq_nostd::wait::Policy;
use loom::sync::atomic::{AtomicU32, AtomicU64, fence};

/// The cells of one execution: 32-bit ones for regions, 64-bit ones for shared words.
#[derive(Default)]
struct Cells {
    plain: HashMap<usize, Arc<AtomicU32>>,
    words: HashMap<usize, Arc<AtomicU64>>,
}

loom::lazy_static! {
    static ref CELLS: Mutex<RefCell<Cells>> = Mutex::default();
}

fn plain(address: usize) -> Arc<AtomicU32> {
    assert_eq!(address % 4, 0, "the models access whole words of regions");
    let cells = CELLS.lock().expect("no panic");
    let cell = cells
        .borrow_mut()
        .plain
        .entry(address)
        .or_insert_with(|| Arc::new(AtomicU32::new(0)))
        .clone();
    cell
}

fn word(address: usize) -> Arc<AtomicU64> {
    let cells = CELLS.lock().expect("no panic");
    let cell = cells
        .borrow_mut()
        .words
        .entry(address)
        .or_insert_with(|| Arc::new(AtomicU64::new(0)))
        .clone();
    cell
}

/// What the memory leaves out, to show that it is needed.
static NO_FENCES: AtomicBool = AtomicBool::new(false);
static NO_RELEASE: AtomicBool = AtomicBool::new(false);
static NO_ACQUIRE: AtomicBool = AtomicBool::new(false);

struct Checked;

impl Memory for Checked {
    fn write(&self, address: usize, bytes: &[u8]) {
        for (i, four) in bytes.chunks(4).enumerate() {
            let value = u32::from_le_bytes(four.try_into().expect("whole words"));
            plain(address + 4 * i).store(value, Ordering::Relaxed);
        }
    }

    fn read(&self, address: usize, bytes: &mut [u8]) {
        for (i, four) in bytes.chunks_mut(4).enumerate() {
            four.copy_from_slice(&plain(address + 4 * i).load(Ordering::Relaxed).to_le_bytes());
        }
    }

    fn word_load(&self, address: usize, order: Ordering) -> u64 {
        let weak = NO_ACQUIRE.load(Ordering::Relaxed);
        word(address).load(if weak { Ordering::Relaxed } else { order })
    }

    fn word_store(&self, address: usize, value: u64, order: Ordering) {
        let weak = NO_RELEASE.load(Ordering::Relaxed);
        word(address).store(value, if weak { Ordering::Relaxed } else { order });
    }

    fn fence(&self, order: Ordering) {
        if !NO_FENCES.load(Ordering::Relaxed) {
            fence(order);
        }
    }
}

/// Explores `model` with the given parts of the memory's order only; the assertion that fails, if one does. One at a time.
fn broken(fences: bool, release: bool, acquire: bool, model: fn()) -> Option<String> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one: MutexGuard<'_, ()> = ONE.lock().unwrap_or_else(|e| e.into_inner());
    install(&Checked);
    NO_FENCES.store(!fences, Ordering::Relaxed);
    NO_RELEASE.store(!release, Ordering::Relaxed);
    NO_ACQUIRE.store(!acquire, Ordering::Relaxed);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    let panic = catch_unwind(AssertUnwindSafe(|| builder.check(model))).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.unwrap_or_else(|| "a panic without a text".to_owned()))
}

/// Either the fences or the ordered words are enough for hosts and engines that are threads; devices need the fences.
/// Without both, the assertion about `what` fails.
fn needs_its_order(model: fn(), what: &str) {
    assert_eq!(broken(true, true, true, model), None, "as it is");
    assert_eq!(
        broken(true, false, false, model),
        None,
        "with the fences alone"
    );
    assert_eq!(
        broken(false, true, true, model),
        None,
        "with the words' order alone"
    );
    for (release, acquire) in [(false, true), (true, false)] {
        let text = broken(false, release, acquire, model).expect("no order, and nothing fails");
        assert!(text.contains(what), "{text}");
    }
}

/// Where a model's memory is: nothing is there, the addresses are the keys of the cells.
struct Addresses {
    data: usize,
    words: usize,
}

impl Addresses {
    /// `len` bytes of data.
    fn region(&self, len: usize) -> Region<'static> {
        let p = std::ptr::without_provenance_mut::<u8>(self.data);
        // SAFETY: the model's memory is never dereferenced; its cells stand for these addresses.
        unsafe { Region::new(NonNull::new(p).expect("not null"), len, 0x1000) }
    }

    /// Shared word `n`.
    fn word(&self, n: usize) -> SharedWord<'static> {
        let p = std::ptr::without_provenance_mut::<u64>(self.words + 8 * n);
        // SAFETY: as in `region`.
        unsafe { SharedWord::new(NonNull::new(p).expect("not null")) }
    }

    fn signals<const N: usize>(&self) -> [Signal<'static>; N] {
        let p = std::ptr::without_provenance_mut::<u8>(self.words);
        // SAFETY: as in `region`.
        let region = unsafe { Region::new(NonNull::new(p).expect("not null"), N * 16, 0x1000) };
        let words = SharedWords::new(region).expect("aligned");
        std::array::from_fn(|i| Signal::at(words, i, Width::W64).expect("a slot"))
    }
}

const AT: Addresses = Addresses {
    data: 0x10_0000,
    words: 0x20_0000,
};

/// A ring of two entries, three entries through it: the third goes where the first was.
fn ring_publication() {
    const TOTAL: u64 = 3;
    let mut region = AT.region(8);
    region.fill(0, 8, 0).expect("inside");
    let (put, get) = (AT.word(0), AT.word(1));
    (put.store(0), get.store(0));
    let consumer = loom::thread::spawn(move || {
        let (memory, put, get) = (AT.region(8), AT.word(0), AT.word(1));
        let mut seen = 0;
        while seen < TOTAL {
            let upto = put.load();
            consume_fence();
            assert!((seen..=TOTAL).contains(&upto));
            for n in seen..upto {
                let entry = memory.load_u32((n % 2) as usize * 4).expect("inside");
                assert_eq!(u64::from(entry), 100 + n, "an entry that was not published");
            }
            if seen == upto {
                loom::thread::yield_now();
            } else {
                seen = upto;
                // The entries are the producer's again once it sees this.
                hcq_nostd::mem::publish_fence();
                get.store(seen);
            }
        }
    });
    let mut ring = Ring::new(region, 4).expect("two entries");
    while ring.put() < TOTAL {
        let n = ring.put() as u32;
        match ring.reserve(1) {
            Ok(mut hole) => {
                hole.fill(0, &[100 + n]).expect("inside");
                hole.publish(&mut |p| put.store(p));
            }
            Err(_) => {
                loom::thread::yield_now();
                ring.consumed(get.load())
                    .expect("a count that was consumed");
                consume_fence();
            }
        }
    }
    consumer.join().expect("no panic");
}

/// Yields to the other thread, and never gives up.
struct Yield;

impl Policy for Yield {
    fn now_ns(&mut self) -> u64 {
        0
    }

    fn relax(&mut self, _: u32, _: SharedWord<'_>, _: u64) {
        loom::thread::yield_now();
    }
}

/// Two values of a signal, each with data stored before.
fn signal_set_and_wait() {
    let [signal] = AT.signals();
    let mut region = AT.region(8);
    region.fill(0, 8, 0).expect("inside");
    signal.set(0).expect("fits");
    let waiter = loom::thread::spawn(move || {
        let data = AT.region(8);
        for wanted in 1..=2u64 {
            let seen = signal
                .wait(wanted, u64::MAX, &mut Yield)
                .expect("it is set");
            assert!(seen >= wanted);
            let entry = data.load_u32((wanted as usize - 1) * 4).expect("inside");
            assert_eq!(
                u64::from(entry),
                100 + wanted,
                "data of a signal that was seen"
            );
        }
    });
    for n in 1..=2u32 {
        region
            .store_u32((n as usize - 1) * 4, 100 + n)
            .expect("inside");
        signal.set(n.into()).expect("fits");
    }
    waiter.join().expect("no panic");
}

/// Two epochs of a timeline whose device is a thread; the data of each submission is complete when its point is.
fn timeline_over_its_end() {
    const TOTAL: u64 = 6;
    let slots: [Signal<'static>; 2] = AT.signals();
    let doorbell = AT.word(8);
    let mut data = AT.region(TOTAL as usize * 4);
    data.fill(0, TOTAL as usize * 4, 0).expect("inside");
    let mut timeline = Timeline::new(slots, 2).expect("a span of 4");
    doorbell.store(0);
    let device = loom::thread::spawn(move || {
        let mut data = AT.region(TOTAL as usize * 4);
        for n in 1..=TOTAL {
            while doorbell.load() < n {
                loom::thread::yield_now();
            }
            data.store_u32((n as usize - 1) * 4, 100 + n as u32)
                .expect("inside");
            let (epoch, value) = ((n - 1) / 4, (n - 1) % 4 + 1);
            if value == 2 {
                slots[1 - (epoch & 1) as usize].set(0).expect("fits");
            }
            slots[(epoch & 1) as usize].set(value).expect("fits");
        }
    });
    let view = AT.region(TOTAL as usize * 4);
    for n in 1..=TOTAL {
        let submission = timeline.submit().expect("the last one is complete");
        doorbell.store(n);
        timeline
            .wait(submission.point, u64::MAX, &mut Yield)
            .expect("it is signalled");
        assert_eq!(timeline.known_completed(), submission.point);
        assert_eq!(
            view.load_u32((n as usize - 1) * 4),
            Ok(100 + n as u32),
            "data of a complete point"
        );
    }
    device.join().expect("no panic");
}

#[test]
fn ring_entries_are_published_whole_and_reused_late() {
    needs_its_order(ring_publication, "an entry that was not published");
}

#[test]
fn a_signal_carries_the_data_before_it() {
    needs_its_order(signal_set_and_wait, "data of a signal that was seen");
}

#[test]
fn a_timeline_carries_the_data_over_its_end() {
    needs_its_order(timeline_over_its_end, "data of a complete point");
}
