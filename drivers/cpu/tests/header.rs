//! `hcq.h` with the system's compilers: it compiles without a warning, its signatures describe what C lays out, and its
//! kernels run.
#![cfg(all(unix, not(miri), not(loom), target_pointer_width = "64"))]
#![allow(unsafe_code)]

use std::ffi::{CStr, OsString, c_char};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::NonNull;

use hcq_cpu::PACKET_BYTES;
use hcq_cpu::abi::{HCQ_H, KernelFn};
use hcq_cpu::control::Control;
use hcq_cpu::engine::{Engine, EngineQueue, Platform, Poll};
use hcq_cpu::program::Program;
use hcq_cpu::queue::Compute;
use hcq_cpu::signature::{self, ScalarType};
use hcq_nostd::args::{Arg, ArgKind, ArgSlot};
use hcq_nostd::fault::Access;
use hcq_nostd::mem::{Region, SharedWords};
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch};
use hcq_nostd::record::{Block, RecordError};
use hcq_nostd::ring::Ring;

/// Kernels in what C99 and C++11 have in common.
const KERNELS: &str = r#"
#include "hcq.h"

HCQ_KERNEL(every_type,
           int8_t a; uint64_t b; uint16_t c; float d; const double *e; int16_t f; unsigned g;
           int h; void *i; uint8_t j; double k; const uint8_t *l; int64_t m; uint32_t *n;
           unsigned int o; int32_t p; const void *q; uint8_t r; const float *const s;)
{
    uint32_t *n = args->n;
    n[0] = (uint32_t)args->j + args->g + (uint32_t)args->h + args->r;
}

HCQ_KERNEL(scale, float factor; const float *in; float *out; uint32_t n;)
{
    float *out = args->out;
    const float *in = args->in;
    const float factor = args->factor;
    HCQ_FOR_ITEMS(i, group, 0, args->n)
        out[i] = factor * in[i];
}

HCQ_KERNEL(one_byte, uint8_t x;) {}

/* Adds each group's own scratch bytes up in the first word of its local memory. */
HCQ_KERNEL(sum_ids, uint32_t *total;)
{
    uint32_t *scratch = (uint32_t *)group->local_memory;
    uint32_t y, x, sum = 0;
    for (y = 0; y < group->local[1]; y++)
        for (x = 0; x < group->local[0]; x++)
            scratch[y * group->local[0] + x] =
                (uint32_t)(hcq_global_id(group, x, 0) + hcq_global_size(group, 0) * hcq_global_id(group, y, 1));
    for (x = 0; x < group->local_size / sizeof *scratch; x++)
        sum += scratch[x];
    hcq_atomic_add_u32(args->total, sum);
}

HCQ_KERNEL_NO_ARGS(nothing) {}

static uint32_t calls;
HCQ_KERNEL_NO_ARGS(count_calls)
{
    hcq_atomic_add_u32(&calls, 1 + group->group[2]);
}

HCQ_KERNEL(tell_calls, uint32_t *into;)
{
    *args->into = calls;
}
"#;

/// Prints each field's offset and the struct's size and alignment, as C has them.
const OFFSETS: &str = r#"
#include <stdio.h>
#define AT(kernel, field) printf(#kernel " " #field " %zu %zu\n", \
    offsetof(struct kernel##_args, field), sizeof(((struct kernel##_args *)0)->field));
struct every_type_place { char c; struct every_type_args x; };
struct scale_place { char c; struct scale_args x; };
struct one_byte_place { char c; struct one_byte_args x; };
#define ALL(kernel) printf(#kernel " - %zu %zu\n", sizeof(struct kernel##_args), offsetof(struct kernel##_place, x));
int main(void)
{
    AT(every_type, a) AT(every_type, b) AT(every_type, c) AT(every_type, d) AT(every_type, e)
    AT(every_type, f) AT(every_type, g) AT(every_type, h) AT(every_type, i) AT(every_type, j)
    AT(every_type, k) AT(every_type, l) AT(every_type, m) AT(every_type, n) AT(every_type, o)
    AT(every_type, p) AT(every_type, q) AT(every_type, r) AT(every_type, s)
    ALL(every_type)
    AT(scale, factor) AT(scale, in) AT(scale, out) AT(scale, n)
    ALL(scale)
    AT(one_byte, x)
    ALL(one_byte)
    return 0;
}
"#;

/// A language's compiler, standard and file ending.
struct Language {
    compiler: OsString,
    standard: &'static str,
    ending: &'static str,
}

/// The compilers that are here; one that is not is said to be missing.
fn languages(test: &str) -> Vec<Language> {
    let all = [
        ("CC", "cc", "-std=c99", "c", "a C compiler (cc)"),
        ("CXX", "c++", "-std=c++11", "cc", "a C++ compiler (c++)"),
    ];
    let mut found = Vec::new();
    for (variable, default, standard, ending, missing) in all {
        let compiler = std::env::var_os(variable).unwrap_or_else(|| default.into());
        if Command::new(&compiler).arg("--version").output().is_ok() {
            found.push(Language {
                compiler,
                standard,
                ending,
            });
        } else {
            // Not `eprintln`, which tests that pass keep to themselves.
            let line = format!("skipped: {test} with {standard}: {missing}\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }
    found
}

/// Compiles a source with every warning an error.
fn compile(language: &Language, test: &str, source: &str, flags: &[&str]) -> PathBuf {
    let directory =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", language.ending));
    fs::create_dir_all(&directory).expect("a directory");
    fs::write(directory.join("hcq.h"), HCQ_H).expect("written");
    let (input, output) = (
        directory.join(format!("source.{}", language.ending)),
        directory.join("result"),
    );
    fs::write(&input, source).expect("written");
    let result = Command::new(&language.compiler)
        .args([
            language.standard,
            "-Wall",
            "-Wextra",
            "-pedantic",
            "-Wshadow",
            "-Werror",
        ])
        .args(["-O2", "-I"])
        .args([&directory, Path::new("-o"), &output, &input])
        .args(flags)
        .output()
        .expect("the compiler runs");
    assert!(
        result.status.success(),
        "{}",
        String::from_utf8_lossy(&result.stderr)
    );
    output
}

/// A shared object of the kernels.
fn library(language: &Language, test: &str) -> libloading::Library {
    let flags = ["-shared", "-fPIC", "-fvisibility=hidden"];
    let path = compile(language, test, KERNELS, &flags);
    // SAFETY: the kernels have no constructors.
    unsafe { libloading::Library::new(path) }.expect("a shared object")
}

fn text(library: &libloading::Library, kernel: &str) -> String {
    let name = format!("{kernel}_hcq_args\0");
    // SAFETY: `HCQ_KERNEL` defines an array of characters of that name.
    let symbol = unsafe { library.get::<*const c_char>(name.as_bytes()) };
    let symbol = symbol.expect("exported");
    // The symbol's own address is the text's.
    // SAFETY: the library is not closed meanwhile.
    let symbol = unsafe { symbol.try_as_raw_ptr() }.expect("an address");
    // SAFETY: C ends it with a zero.
    let text = unsafe { CStr::from_ptr(symbol.cast()) };
    text.to_str().expect("ASCII").to_owned()
}

#[test]
fn signatures_describe_what_c_lays_out() {
    let test = "signatures_describe_what_c_lays_out";
    for language in languages(test) {
        let program = compile(
            &language,
            &format!("{test}-offsets"),
            &format!("{KERNELS}{OFFSETS}"),
            &[],
        );
        let printed = Command::new(program).output().expect("it runs");
        let printed = String::from_utf8(printed.stdout).expect("ASCII");
        let library = library(&language, test);
        let mut seen = 0;
        for kernel in ["every_type", "scale", "one_byte"] {
            let text = text(&library, kernel);
            let mut slots = [ArgSlot::buffer(0); 32];
            let layout = signature::parse(&text, &mut slots).expect("a signature");
            let mut have: Vec<String> = signature::arguments(&text)
                .map(|a| a.expect("an argument"))
                .map(|a| format!("{kernel} {} {} {}", a.name, a.slot.offset, a.slot.size))
                .collect();
            have.push(format!("{kernel} - {} {}", layout.size, layout.align));
            let want: Vec<&str> = printed
                .lines()
                .filter(|l| l.split(' ').next() == Some(kernel))
                .collect();
            assert_eq!(have, want, "{text}");
            seen += want.len();
        }
        assert_eq!(seen, printed.lines().count());
        assert_eq!(seen, 19 + 4 + 1 + 3);

        use ArgKind::{Buffer, ConstBuffer, Scalar};
        use ScalarType::{F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        let text = text(&library, "every_type");
        let kinds: Vec<_> = signature::arguments(&text)
            .map(|a| a.expect("an argument"))
            .map(|a| (a.slot.kind, a.ty))
            .collect();
        let want = [
            (Scalar, Some(I8)),
            (Scalar, Some(U64)),
            (Scalar, Some(U16)),
            (Scalar, Some(F32)),
            (ConstBuffer, Some(F64)),
            (Scalar, Some(I16)),
            (Scalar, Some(U32)),
            (Scalar, Some(I32)),
            (Buffer, None),
            (Scalar, Some(U8)),
            (Scalar, Some(F64)),
            (ConstBuffer, Some(U8)),
            (Scalar, Some(I64)),
            (Buffer, Some(U32)),
            (Scalar, Some(U32)),
            (Scalar, Some(I32)),
            (ConstBuffer, None),
            (Scalar, Some(U8)),
            (ConstBuffer, Some(F32)),
        ];
        assert_eq!(kinds, want);
    }
}

#[test]
fn a_kernel_without_arguments_has_an_empty_signature() {
    let test = "a_kernel_without_arguments_has_an_empty_signature";
    for language in languages(test) {
        let library = library(&language, test);
        assert_eq!(text(&library, "nothing"), "");
        let layout = signature::parse("", &mut []).expect("nothing");
        assert_eq!((layout.slots.len(), layout.size, layout.align), (0, 0, 1));
        // Two launches, which touch no argument memory, and one that says how often it ran: groups 0, 1 and 2, twice.
        let mut calls = 0u32;
        let into = Arg::Buffer(address(&mut calls).into());
        let once = run(&library, "count_calls", &[], [1, 1, 3], [1; 3], 0);
        assert_eq!(once, Ok(Poll::Ran(3)));
        assert_eq!(
            run(&library, "count_calls", &[], [1, 1, 3], [1; 3], 0),
            once
        );
        assert_eq!(
            run(&library, "tell_calls", &[into], [1; 3], [1; 3], 0),
            Ok(Poll::Ran(1))
        );
        assert_eq!(calls, 12);
        assert_eq!(
            run(&library, "nothing", &[Arg::from(1u32)], [1; 3], [1; 3], 0),
            Err(RecordError::ArgumentCount { need: 0, have: 1 })
        );
    }
}

#[test]
fn kernels_run() {
    for language in languages("kernels_run") {
        let library = library(&language, "kernels_run");
        let input: [f32; 100] = std::array::from_fn(|i| i as f32);
        let mut output = [0f32; 100];
        let mut given = input;
        let args = [
            Arg::from(2.5f32),
            Arg::Buffer(address(&mut given).into()),
            Arg::Buffer(address(&mut output).into()),
            // The last group has three items, and one group is beyond the end.
            Arg::from(99u32),
        ];
        let ran = run(&library, "scale", &args, [14, 1, 1], [8, 1, 1], 0);
        assert_eq!(ran, Ok(Poll::Ran(14)));
        for (i, (x, y)) in input.iter().zip(output).enumerate() {
            assert_eq!(y, if i < 99 { 2.5 * x } else { 0.0 });
        }

        // 6 x 4 items in 2 x 2 groups, numbered through.
        let mut total = 0u32;
        let args = [Arg::Buffer(address(&mut total).into())];
        let ran = run(&library, "sum_ids", &args, [2, 2, 1], [3, 2, 1], 24);
        assert_eq!(ran, Ok(Poll::Ran(4)));
        assert_eq!(total, (0..24).sum());
    }
}

fn address<T>(of: &mut T) -> u64 {
    (&raw mut *of).expose_provenance() as u64
}

struct Host(KernelFn);

impl Platform for Host {
    fn now_ns(&mut self) -> u64 {
        1
    }

    fn translate(&mut self, address: u64, _: u64, _: Access) -> Option<NonNull<u8>> {
        NonNull::new(std::ptr::with_exposed_provenance_mut(address as usize))
    }

    fn kernel(&mut self, entry: u64) -> Option<KernelFn> {
        (entry == 1).then_some(self.0)
    }
}

/// Launches a kernel of the library with checked arguments.
fn run(
    library: &libloading::Library,
    kernel: &str,
    args: &[Arg<'_>],
    groups: [u32; 3],
    local: [u32; 3],
    local_memory: u32,
) -> Result<Poll, RecordError> {
    // SAFETY: `HCQ_KERNEL` defines a function of this type.
    let entry = unsafe { library.get::<KernelFn>(kernel.as_bytes()) };
    let entry = *entry.expect("exported");
    let text = text(library, kernel);
    let mut slots = [ArgSlot::buffer(0); 32];
    let layout = signature::parse(&text, &mut slots).expect("a signature");
    let program = Program::new(1).with_layout(layout);

    let (mut block, mut words) = ([0u64; 64], [0u32; 16]);
    let (first, bytes) = (NonNull::from(&mut block).cast::<u8>(), size_of_val(&block));
    let place = first.as_ptr().expose_provenance() as u64;
    // SAFETY: the words are this region's for as long as it lives.
    let mut block = unsafe { Region::new(first, bytes, place) };
    let mut queue = Compute::new(&mut words, PatchList::none());
    queue.exec(Launch {
        program: &program,
        args,
        kernargs: Block::new(&mut block, RegionId(1), 0, program.kernargs_for(args))
            .expect("512 bytes"),
        groups: groups.map(Into::into),
        local: local.map(Into::into),
        local_memory,
    })?;

    let (mut ring, mut control) = ([0u64; PACKET_BYTES / 8], [0u64; Control::WORDS]);
    let control = SharedWords::new(Region::from_words(&mut control, 0)).expect("aligned");
    let mut control = Control::new(control).expect("enough words");
    let ring = Region::from_words(&mut ring, 0);
    // SAFETY: the engine reads what was published, and the host stores nothing more.
    let engines = unsafe { Region::new(ring.as_ptr(), ring.len(), 0) };
    let mut ring = Ring::new(ring, PACKET_BYTES).expect("one packet");
    let mut hole = ring.reserve(1).expect("room");
    hole.fill(0, queue.words()).expect("one packet");
    hole.publish(&mut control);
    let mut local = [0u64; 72];
    let mut queues = [EngineQueue::new(engines, control, 0).expect("one packet")];
    let mut engine = Engine::new(&mut queues, Region::from_words(&mut local, 0));
    // SAFETY: the kernels are sound for what the tests launch, and their memory lives.
    Ok(unsafe { engine.poll(&mut Host(entry), 1000) })
}
