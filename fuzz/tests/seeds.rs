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

fn seeds_of(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("seeds")
        .join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut seeds: Vec<_> = entries
        .map(|entry| {
            let entry = entry.unwrap();
            (
                entry.file_name().into_string().unwrap(),
                fs::read(entry.path()).unwrap(),
            )
        })
        .collect();
    seeds.sort();
    seeds
}

/// Runs the seeds, `rounds` damaged ones and as many inputs of random bytes. A seed whose name begins with `ok-` must
/// be accepted and one of `bad-` refused: seeds that are all refused at the door would test little.
fn run(target: &str, rounds: usize) {
    let (_, body) = hcq_fuzz::TARGETS
        .iter()
        .find(|(name, _)| *name == target)
        .expect("a target");
    let seeds = seeds_of(target);
    let accepted = seeds
        .iter()
        .filter(|(name, _)| name.starts_with("ok-"))
        .count();
    assert!(accepted > 0, "{target} has no seed that is accepted");
    for (name, bytes) in &seeds {
        assert!(
            name.starts_with("ok-") || name.starts_with("bad-"),
            "{target}/{name}: ok- or bad-?"
        );
        assert_eq!(body(bytes), name.starts_with("ok-"), "{target}/{name}");
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

#[test]
fn amd_code_object() {
    run("amd_code_object", 5_000);
}

#[test]
fn amd_decode() {
    run("amd_decode", 10_000);
}

#[test]
fn cp_words() {
    run("cp_words", 300);
}

#[test]
fn cpu_engine() {
    run("cpu_engine", 2_000);
}

#[test]
fn cpu_packet() {
    run("cpu_packet", 20_000);
}

#[test]
fn graph_image() {
    run("graph_image", 5_000);
}

#[test]
fn job_file() {
    run("job_file", 2_000);
}

#[test]
fn kgsl_ioctl() {
    // A host that does not let a process ask for its own memory believes any address.
    if hcq_fuzz::may_ask() {
        run("kgsl_ioctl", 300);
    } else {
        println!("skipped: kgsl_ioctl: process_vm_readv");
    }
}

#[test]
fn msm_ioctl() {
    if hcq_fuzz::may_ask() {
        run("msm_ioctl", 300);
    } else {
        println!("skipped: msm_ioctl: process_vm_readv");
    }
}

#[test]
fn npy_file() {
    run("npy_file", 20_000);
}

#[test]
fn patch_table() {
    run("patch_table", 20_000);
}

#[test]
fn nv_cubin() {
    run("nv_cubin", 5_000);
}

#[test]
fn nv_decode() {
    run("nv_decode", 5_000);
}

#[test]
fn nv_ioctl() {
    // A host that does not let a process ask for its own memory believes any address.
    if hcq_fuzz::may_ask() {
        run("nv_ioctl", 300);
    } else {
        println!("skipped: nv_ioctl: process_vm_readv");
    }
}

#[test]
fn nv_words() {
    run("nv_words", 200);
}

#[test]
fn qcom_decode() {
    run("qcom_decode", 10_000);
}

#[test]
fn qcom_program() {
    run("qcom_program", 10_000);
}

#[test]
fn qcom_words() {
    run("qcom_words", 300);
}

#[test]
fn signature() {
    run("signature", 20_000);
}

#[test]
fn sim_ioctl() {
    run("sim_ioctl", 300);
}

/// Every target has a binary, seeds and a test here.
#[test]
fn nothing_is_left_out() {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(here.join("Cargo.toml")).unwrap();
    let tests = fs::read_to_string(here.join("tests/seeds.rs")).unwrap();
    for (name, _) in hcq_fuzz::TARGETS {
        assert!(
            manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")),
            "{name} has no binary"
        );
        assert!(
            tests.contains(&format!("run(\"{name}\"")),
            "{name} has no test"
        );
    }
    let files = fs::read_dir(here.join("fuzz_targets")).unwrap().count();
    assert_eq!(
        files,
        hcq_fuzz::TARGETS.len(),
        "a file in fuzz_targets is no target"
    );
}

/// The committed seeds that are made are what would be made today.
#[test]
fn made_seeds_are_up_to_date() {
    for (path, bytes) in hcq_fuzz::made_seeds() {
        let committed = fs::read(&path).unwrap_or_default();
        assert!(
            committed == bytes,
            "{}: run `cargo run --example make_seeds`",
            path.display()
        );
    }
}
