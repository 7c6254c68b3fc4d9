//! Runs the body of every fuzz target on its seeds, on damaged seeds, and on pseudo-random bytes.

use std::{fs, path::PathBuf};

/// Marsaglia's xorshift: the same inputs on every machine and in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % (limit as u64).max(1)) as usize
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.next() >> 32) as u8).collect()
    }

    /// A seed with one kind of damage: flipped bits, another byte, cut short, doubled, a piece of another seed.
    fn damaged(&mut self, seed: &[u8], other: &[u8]) -> Vec<u8> {
        let mut out = seed.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(out.len());
            match self.below(6) {
                0 if !out.is_empty() => out[at] ^= 1 << self.below(8),
                1 if !out.is_empty() => out[at] = self.next() as u8,
                2 => out.truncate(at),
                3 => out.extend_from_within(at..),
                4 => {
                    let from = self.below(other.len());
                    let len = self.below(other.len() - from);
                    out.splice(at..at, other[from..from + len].iter().copied());
                }
                _ => {
                    let len = self.below(9).min(out.len() - at);
                    out.drain(at..at + len);
                }
            }
        }
        out
    }
}

fn seeds_of(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let bytes = fs::read(&path).unwrap();
            (path, bytes)
        })
        .collect()
}

/// `rounds` damaged seeds and as many inputs of random bytes.
fn run(target: &str, body: fn(&[u8]), rounds: usize) {
    let seeds = seeds_of(target);
    assert!(seeds.len() > 1, "{target} has fewer than two seeds");
    for (path, bytes) in &seeds {
        println!("{}", path.display());
        body(bytes);
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..rounds {
        let seed = &seeds[random.below(seeds.len())].1;
        let other = &seeds[random.below(seeds.len())].1;
        let input = random.damaged(seed, other);
        body(&input);
        let len = random.below(300);
        let input = random.bytes(len);
        body(&input);
    }
}
