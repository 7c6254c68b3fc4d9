//! Random jobs give what running their tasks one after the other would give.
//!
//! Whatever the planner spreads over queues, the outputs are those of the file's order, in every launch.

#![allow(missing_docs)]

mod common;

use std::fmt::Write as _;
use std::process::Command;

use common::{Job, needs_cc};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const BUFFERS: usize = 4;
const LEN: usize = 64;

/// `to = 31 * to + from + k`, element by element, over a view of each.
const MIX: &str = r#"
#include "hcq.h"
HCQ_KERNEL(mix, const uint32_t *from; uint32_t *to; uint32_t k; uint32_t n;)
{
    for (uint32_t i = group->group[0]; i < args->n; i += group->groups[0])
        args->to[i] = 31 * args->to[i] + args->from[i] + args->k;
}
"#;

#[derive(Debug, Clone)]
struct Step {
    copy: bool,
    from: (usize, usize),
    to: (usize, usize),
    len: usize,
    k: u32,
    queue: Option<usize>,
}

fn step() -> impl Strategy<Value = Step> {
    let place = (0..BUFFERS, 0..LEN);
    let queue = proptest::option::weighted(0.2, 0usize..2);
    (proptest::bool::weighted(0.3), place.clone(), place, 1usize..LEN, any::<u32>(), queue)
        .prop_map(|(copy, from, to, len, k, queue)| {
            let len = len.min(LEN - from.1).min(LEN - to.1);
            Step { copy, from, to, len, k, queue }
        })
        // Neither a copy nor a kernel whose groups run at once may read what it writes.
        .prop_filter("overlap", |s| s.from.0 != s.to.0 || s.from.1.abs_diff(s.to.1) >= s.len)
}

fn initial(buffer: usize) -> Vec<u32> {
    (0..LEN as u32).map(|i| i * 1000 + buffer as u32).collect()
}

fn run_in_order(steps: &[Step]) -> Vec<Vec<u32>> {
    let mut memory: Vec<Vec<u32>> = (0..BUFFERS).map(initial).collect();
    for s in steps {
        for i in 0..s.len {
            let from = memory[s.from.0][s.from.1 + i];
            let to = &mut memory[s.to.0][s.to.1 + i];
            *to = if s.copy {
                from
            } else {
                to.wrapping_mul(31).wrapping_add(from).wrapping_add(s.k)
            };
        }
    }
    memory
}

fn job_text(steps: &[Step]) -> String {
    let mut text = "[programs.k]\npath = \"k.so\"\n".to_owned();
    for b in 0..BUFFERS {
        let _ = writeln!(text, "[buffers.b{b}]\nfile = \"b{b}.bin\"\ndtype = \"u32\"");
    }
    for s in steps {
        let view = |(buffer, offset): (usize, usize)| {
            format!(
                "{{ buffer = \"b{buffer}\", offset = {offset}, len = {} }}",
                s.len
            )
        };
        let (from, to) = (view(s.from), view(s.to));
        let _ = if s.copy {
            writeln!(text, "[[tasks]]\ncopy = {{ from = {from}, to = {to} }}")
        } else {
            writeln!(
                text,
                "[[tasks]]\nprogram = \"k\"\nkernel = \"mix\"\nargs = [{from}, {to}, {}, {}]\ngroups = [3]",
                s.k, s.len
            )
        };
        if let (Some(queue), false) = (s.queue, s.copy) {
            let _ = writeln!(text, "queue = {queue}");
        }
    }
    for b in 0..BUFFERS {
        let _ = writeln!(
            text,
            "[[outputs]]\nbuffer = \"b{b}\"\nexpect = \"e{b}.bin\"\nfile = \"o{b}.raw\""
        );
    }
    text
}

#[test]
fn outputs_are_those_of_the_order_in_the_file() {
    needs_cc!();
    let job = Job::new("");
    job.file("mix.c", MIX.as_bytes());
    job.file("hcq.h", hcq_cli::compile::HEADER.as_bytes());
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-shared", "-fPIC", "mix.c", "-o", "k.so"])
        .current_dir(job.dir.path());
    assert!(cc.status().unwrap().success());
    let bytes = |values: &[u32]| {
        values
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    for b in 0..BUFFERS {
        job.file(&format!("b{b}.bin"), &bytes(&initial(b)));
    }
    let mut runner = TestRunner::new(Config {
        cases: 40,
        failure_persistence: None,
        ..Config::default()
    });
    let cases = proptest::collection::vec(step(), 1..24);
    let result = runner.run(&cases, |steps| {
        for (b, memory) in run_in_order(&steps).iter().enumerate() {
            job.file(&format!("e{b}.bin"), &bytes(memory));
        }
        job.file("job.toml", job_text(&steps).as_bytes());
        let run = job.run(&["--repeat", "3"]);
        prop_assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
