//! What behaviours compare with, and where their data comes from.

use std::fmt::Debug;

use hcq_std::Error;

use crate::Failure;

/// Fails with a text unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::Failure::new(format!($($text)+)));
        }
    };
}
pub(crate) use ensure;

/// Fails unless the two are equal.
#[track_caller]
pub(crate) fn same<T: PartialEq + Debug>(what: &str, seen: T, wanted: T) -> Result<(), Failure> {
    if seen == wanted {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{what}: {seen:?} seen, {wanted:?} wanted"
    )))
}

/// Fails unless every element is what `wanted` says of its index; tells the first that is not, and how many.
#[track_caller]
pub(crate) fn each<T: PartialEq + Debug + Copy>(
    what: &str,
    seen: &[T],
    wanted: impl Fn(usize) -> T,
) -> Result<(), Failure> {
    let mut wrong = seen.iter().enumerate().filter(|&(i, v)| *v != wanted(i));
    let Some((first, value)) = wrong.next() else {
        return Ok(());
    };
    let more = wrong.count();
    let (want, all) = (wanted(first), seen.len());
    Err(Failure::new(format!(
        "{what}: [{first}] is {value:?}, {want:?} wanted, and {more} more of {all} are wrong"
    )))
}

/// Fails unless the call is refused in the way that `by` knows; returns the error.
#[track_caller]
pub(crate) fn refused<T>(
    what: &str,
    result: Result<T, Error>,
    by: impl Fn(&Error) -> bool,
) -> Result<Error, Failure> {
    match result {
        Ok(_) => Err(Failure::new(format!("{what} was accepted"))),
        Err(e) if by(&e) => Ok(e),
        Err(e) => Err(Failure::new(format!(
            "{what} was refused for another reason: {e} ({e:?})"
        ))),
    }
}

/// Fails unless the text has all the parts.
#[track_caller]
pub(crate) fn says(text: &str, parts: &[&str]) -> Result<(), Failure> {
    match parts.iter().find(|part| !text.contains(**part)) {
        None => Ok(()),
        Some(part) => Err(Failure::new(format!(
            "`{part}` is not in the text `{text}`"
        ))),
    }
}

/// Calls again and again while it times out, on a device whose waits are short for the sake of a test: how soon a machine
/// gets round to something says nothing about the device.
pub(crate) fn patiently<T>(mut call: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 0..400 {
        match call() {
            Err(Error::Timeout { .. }) => {}
            other => return other,
        }
    }
    call()
}

/// SplitMix64: numbers that look random and are the same in every run.
#[derive(Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// From 0 up to below `n`, which is not zero.
    pub(crate) const fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

const fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

const fn block(seed: u64, index: usize) -> u64 {
    mix(seed.wrapping_mul(0x1_0000_01b3).wrapping_add(index as u64))
}

/// Byte `index` of the pattern with this seed. Neighbours, and the same index of other seeds, are unrelated.
pub(crate) fn byte(seed: u64, index: usize) -> u8 {
    block(seed, index / 8).to_le_bytes()[index % 8]
}

/// Word `index` of the pattern with this seed.
pub(crate) const fn word(seed: u64, index: usize) -> u32 {
    block(seed, index) as u32
}

/// The first `len` bytes of a pattern.
pub(crate) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut all = vec![0; len];
    for (i, part) in all.chunks_mut(8).enumerate() {
        part.copy_from_slice(&block(seed, i).to_le_bytes()[..part.len()]);
    }
    all
}

/// The first `len` words of a pattern.
pub(crate) fn words(seed: u64, len: usize) -> Vec<u32> {
    (0..len).map(|i| word(seed, i)).collect()
}

/// Fails unless two long runs of bytes are equal; tells the first place where they are not.
#[track_caller]
pub(crate) fn bulk(what: &str, seen: &[u8], wanted: &[u8]) -> Result<(), Failure> {
    if seen == wanted {
        return Ok(());
    }
    let first = seen.iter().zip(wanted).position(|(a, b)| a != b);
    let (have, need) = (seen.len(), wanted.len());
    Err(Failure::new(format!(
        "{what}: {have} bytes of {need}, the first wrong one is {first:?}"
    )))
}
