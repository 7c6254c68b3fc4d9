//! Launches by hand, and the table against the objects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::*;
use crate::cache::tests::Pages;
use crate::cache::{Caches, Levels};
use crate::exec::{AmdRegisters, ScratchMemory};
use crate::vm::{Need, PageFaultReason};

const BASE: u64 = 0x7000_0000_0000;
const CODE: u64 = BASE;
const PACKET: u64 = BASE + 0x8000;
const ARGUMENTS: u64 = BASE + 0x9000;
const DATA: u64 = BASE + 0x1_0000;

fn tests_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests")
}

/// The objects, where the whole project is there; none in a package on its own.
fn objects() -> Vec<(String, CodeObjectFile)> {
    let mut all = Vec::new();
    for folder in ["conformance/kernels/amd", "vectors/objects"] {
        let Ok(entries) = std::fs::read_dir(tests_folder().join(folder)) else {
            eprintln!("skipped: there is no {folder} here");
            return Vec::new();
        };
        let mut names: Vec<PathBuf> = entries.map(|e| e.expect("a folder").path()).collect();
        names.sort();
        for path in names {
            if path.extension().is_some_and(|e| e == "co") {
                let bytes = std::fs::read(&path).expect("it is there");
                let name = path.file_name().expect("a file").to_string_lossy();
                let stock = folder.starts_with("conformance");
                all.push((name.into_owned(), CodeObjectFile { stock, bytes }));
            }
        }
    }
    all
}

struct CodeObjectFile {
    stock: bool,
    bytes: Vec<u8>,
}

fn object(name: &str) -> Option<Vec<u8>> {
    let found = objects().into_iter().find(|(n, _)| n == name);
    found.map(|(_, file)| file.bytes)
}

/// The function of a stand-in, in words.
fn function(stock: bool, symbol: &str) -> Option<&'static str> {
    Some(match (stock, symbol) {
        (true, "empty") => "empty",
        (true, "fill") => "fill",
        (true, "copy") => "copy",
        (true, "add") => "add",
        (true, "scale") => "scale",
        (true, "step") => "step",
        (true, "dims") => "dims",
        (true, "reduce") => "reduce",
        (true, "scalars") => "scalars",
        (true, "spin") => "spin",
        (false, "vadd") => "vadd",
        (false, "saxpy") => "saxpy",
        (false, "reduce") => "reduce_tree",
        _ => return None,
    })
}

#[test]
fn the_table_is_that_of_the_objects() {
    let objects = objects();
    if objects.is_empty() {
        return;
    }
    let mut rows: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut programs = 0;
    for (name, file) in &objects {
        let object = object::read(&file.bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(
            name.contains(object.target),
            "{name} is for {}",
            object.target
        );
        for program in &object.programs {
            let Some(function) = function(file.stock, &program.symbol) else {
                assert_eq!(program.symbol, "reloc", "{name}");
                continue;
            };
            programs += 1;
            let d = &program.descriptor;
            let row = format!(
                "({:?}, {}, {:#018x}, [{}, {}, {}], [{:#010x}, {:#010x}, {:#010x}], {:#06x}, stock::{function}),",
                program.symbol,
                program.code.len(),
                code_hash(&program.code),
                d.group_bytes,
                d.private_bytes,
                d.kernarg_bytes,
                d.rsrc1,
                d.rsrc2,
                d.rsrc3,
                d.properties,
            );
            let rows = rows.entry(object.target).or_default();
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
    }
    // Seven objects of ten programs, ten of one.
    assert_eq!(programs, 80);
    let mut text = String::new();
    for (target, rows) in rows {
        text += &format!("    ({target:?}, &[\n");
        for row in rows {
            text += &format!("        {row}\n");
        }
        text += "    ]),\n";
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/standin/table/amd.rs");
    let file = std::fs::read_to_string(&path).expect("the table is there");
    let mark = "static TABLE: &[(&str, &[Row])] = &[\n";
    let start = file.find(mark).expect("the table begins") + mark.len();
    let wanted = format!("{}{text}];\n", &file[..start]);
    if std::env::var_os("HCQ_WRITE_TABLE").is_some() {
        std::fs::write(&path, &wanted).expect("the table can be written");
    } else {
        assert!(file == wanted, "the table is not that of the objects");
    }
}

/// A GPU with a program in its memory.
struct Bench {
    vm: Pages,
    caches: Caches,
    dispatch: Dispatch,
    program: object::Program,
    programs: StandIns,
}

impl Bench {
    fn new(file: &str, symbol: &str) -> Option<Self> {
        let object = object::read(&object(file)?).expect("a good object");
        let program = object.programs.into_iter().find(|p| p.symbol == symbol);
        let program = program.expect("the object has it");
        let vm = Pages::new(1 << 20);
        vm.host_write(CODE, &program.code);
        let d = program.descriptor;
        let mut user_data = vec![0x5555_5555; 16];
        for (register, address) in [
            (d.kernarg_register(), ARGUMENTS),
            (d.packet_register(), PACKET),
        ] {
            if let Some(at) = register {
                user_data[at as usize] = address as u32;
                user_data[at as usize + 1] = (address >> 32) as u32;
            }
        }
        let dispatch = Dispatch {
            target: object.target,
            program: CODE,
            groups: [1; 3],
            start: [0; 3],
            local: [64, 1, 1],
            wave: if d.properties & Descriptor::WAVE32 != 0 {
                32
            } else {
                64
            },
            local_memory: d.group_bytes,
            scratch: None,
            xcc: (0, 1),
            registers: Registers::Amd(AmdRegisters {
                rsrc1: d.rsrc1,
                rsrc2: d.rsrc2,
                rsrc3: d.rsrc3,
                user_data,
            }),
        };
        Some(Self {
            vm,
            caches: Caches::new(1),
            dispatch,
            program,
            programs: StandIns::stock(),
        })
    }

    fn arguments(&self, parts: &[&[u8]]) {
        self.vm.host_write(ARGUMENTS, &parts.concat());
    }

    fn size(&mut self, groups: [u32; 3], local: [u32; 3]) {
        self.dispatch.groups = groups;
        self.dispatch.local = local;
        for i in 0..3 {
            let grid = groups[i] * local[i];
            let (at, d) = (PACKET, i as u64);
            self.vm
                .host_write(at + 4 + 2 * d, &(local[i] as u16).to_le_bytes());
            self.vm.host_write(at + 12 + 4 * d, &grid.to_le_bytes());
        }
    }

    fn prepare(&mut self) -> Result<Option<Box<dyn Kernel>>, Cause> {
        let mut view = self.caches.view(0, &self.vm);
        self.programs.prepare(&self.dispatch, &mut *view)
    }

    /// Runs all groups as a command processor does between an acquire and a release.
    fn run(&mut self) -> Result<(), Cause> {
        let all = Levels::all();
        self.caches.invalidate(0, all, &self.vm).expect("clean");
        let mut kernel = self.prepare()?.expect("it is known");
        let [x, y, z] = self.dispatch.groups;
        let mut local = vec![0xa5; self.dispatch.local_memory as usize];
        for gz in 0..z {
            for gy in 0..y {
                for gx in 0..x {
                    let mut view = self.caches.view(0, &self.vm);
                    kernel.run_group([gx, gy, gz], &mut local, &mut *view)?;
                }
            }
        }
        self.caches.write_back(0, all, &self.vm).expect("mapped");
        Ok(())
    }

    fn words(&self, at: u64, count: usize) -> Vec<u32> {
        let bytes = self.vm.host(at, 4 * count);
        let words = bytes.chunks(4);
        words
            .map(|w| u32::from_le_bytes(w.try_into().expect("four")))
            .collect()
    }

    fn put_words(&self, at: u64, words: impl IntoIterator<Item = u32>) {
        for (i, word) in (0..).zip(words) {
            self.vm.host_write(at + 4 * i, &word.to_le_bytes());
        }
    }

    fn put_floats(&self, at: u64, floats: impl IntoIterator<Item = f32>) {
        self.put_words(at, floats.into_iter().map(f32::to_bits));
    }
}

/// All objects with the stock programs.
const STOCK: [&str; 7] = [
    "stock-gfx942.co",
    "stock-gfx950.co",
    "stock-gfx1100.co",
    "stock-gfx1100-v4.co",
    "stock-gfx1100-wave64.co",
    "stock-gfx1151.co",
    "stock-gfx1201.co",
];

const A: u64 = DATA;
const B: u64 = DATA + 0x4000;
const OUT: u64 = DATA + 0x8000;

#[test]
fn each_stock_program_does_what_it_is_documented_to_do() {
    for file in STOCK {
        let bench = |symbol| Bench::new(file, symbol);
        let Some(mut b) = bench("empty") else { return };
        b.run().expect("empty");

        let mut b = bench("fill").expect("there");
        b.size([3, 1, 1], [48, 1, 1]);
        b.arguments(&[
            &OUT.to_le_bytes(),
            &7u32.to_le_bytes(),
            &100u32.to_le_bytes(),
        ]);
        b.run().expect("fill");
        assert_eq!(b.words(OUT, 101), [vec![7; 100], vec![0]].concat());

        let mut b = bench("copy").expect("there");
        b.size([2, 1, 1], [100, 1, 1]);
        b.put_words(A, 0..300);
        b.arguments(&[&A.to_le_bytes(), &OUT.to_le_bytes(), &1000u32.to_le_bytes()]);
        b.run().expect("copy");
        let wanted: Vec<u32> = (0..200).chain([0]).collect();
        assert_eq!(b.words(OUT, 201), wanted);

        let mut b = bench("add").expect("there");
        b.size([2, 1, 1], [32, 1, 1]);
        b.put_words(A, 0..64);
        b.put_words(B, (0..64).map(|i| u32::MAX - 10 * i));
        let n = 63u32.to_le_bytes();
        b.arguments(&[&A.to_le_bytes(), &B.to_le_bytes(), &OUT.to_le_bytes(), &n]);
        b.run().expect("add");
        let sums = (0..63u32).map(|i| i.wrapping_add(u32::MAX - 10 * i));
        assert_eq!(b.words(OUT, 64), sums.chain([0]).collect::<Vec<_>>());

        let mut b = bench("scale").expect("there");
        b.size([1, 1, 1], [8, 1, 1]);
        b.put_floats(A, (0..8u8).map(f32::from));
        let (a, c) = (2.5f32.to_le_bytes(), 0.5f32.to_le_bytes());
        b.arguments(&[
            &a,
            &c,
            &A.to_le_bytes(),
            &OUT.to_le_bytes(),
            &8u32.to_le_bytes(),
        ]);
        b.run().expect("scale");
        let wanted: Vec<u32> = (0..8u8)
            .map(|i| (2.5 * f32::from(i) + 0.5).to_bits())
            .collect();
        assert_eq!(b.words(OUT, 8), wanted);

        let mut b = bench("step").expect("there");
        b.size([1, 1, 1], [8, 1, 1]);
        b.put_words(OUT, 0..9);
        let (factor, add) = (3u32.to_le_bytes(), 1u32.to_le_bytes());
        b.arguments(&[&OUT.to_le_bytes(), &factor, &add, &9u32.to_le_bytes()]);
        b.run().expect("step");
        b.run().expect("step");
        let wanted: Vec<u32> = (0..8).map(|i| 9 * i + 4).chain([8]).collect();
        assert_eq!(b.words(OUT, 9), wanted);

        let mut b = bench("dims").expect("there");
        b.size([2, 3, 4], [4, 2, 3]);
        b.arguments(&[&OUT.to_le_bytes()]);
        b.run().expect("dims");
        let words = b.words(OUT, 4 * 8 * 6 * 12);
        for (i, item) in (0u32..).zip(words.chunks(4)) {
            let (x, y, z) = (i % 8, i / 8 % 6, i / 48);
            let group = (x / 4) | (y / 2) << 10 | (z / 3) << 20;
            let wanted = [1, group, 2 | 3 << 10 | 4 << 20, 4 | 2 << 10 | 3 << 20];
            assert_eq!(item, wanted, "item {i}");
        }

        let mut b = bench("reduce").expect("there");
        b.size([3, 1, 1], [16, 1, 1]);
        b.put_words(A, 0..300);
        b.arguments(&[&A.to_le_bytes(), &OUT.to_le_bytes(), &100u32.to_le_bytes()]);
        b.dispatch.local_memory = 400;
        b.run().expect("reduce");
        assert_eq!(b.words(OUT, 7), [4950, 0, 14950, 0, 24950, 0, 0]);
        // With less local memory than was asked for, what is past its end is nothing.
        b.dispatch.local_memory = 396;
        b.run().expect("reduce");
        assert_eq!(b.words(OUT, 1), [4950 - 99]);

        let mut b = bench("spin").expect("there");
        b.size([2, 1, 1], [4, 1, 1]);
        b.arguments(&[&OUT.to_le_bytes(), &2u32.to_le_bytes(), &5u32.to_le_bytes()]);
        b.run().expect("spin");
        let turn = |x: u32| x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        assert_eq!(b.words(OUT, 3), [turn(turn(5)), turn(turn(6)), 0]);
    }
}

#[test]
fn scalars_of_all_types() {
    for file in STOCK {
        let Some(mut b) = Bench::new(file, "scalars") else {
            return;
        };
        b.size([2, 1, 1], [64, 1, 1]);
        b.arguments(&[
            &[0xff, 0],
            &(-2i16).to_le_bytes(),
            &(-3i32).to_le_bytes(),
            &(-4i64).to_le_bytes(),
            &[0xfe, 0],
            &0xfffdu16.to_le_bytes(),
            &0xffff_fffcu32.to_le_bytes(),
            &0xffff_ffff_ffff_fffbu64.to_le_bytes(),
            &1.5f32.to_le_bytes(),
            &[0; 4],
            &(-2.5f64).to_le_bytes(),
            &OUT.to_le_bytes(),
        ]);
        b.run().expect("scalars");
        let bytes = b.vm.host(OUT, 88);
        let longs = bytes
            .chunks(8)
            .map(|w| u64::from_le_bytes(w.try_into().expect("eight")));
        let wanted = [
            -1i64 as u64,
            -2i64 as u64,
            -3i64 as u64,
            -4i64 as u64,
            0xfe,
            0xfffd,
            0xffff_fffc,
            0xffff_ffff_ffff_fffb,
            1.5f32.to_bits().into(),
            (-2.5f64).to_bits(),
            0,
        ];
        assert_eq!(longs.collect::<Vec<_>>(), wanted);
    }
}

#[test]
fn the_vectors_programs() {
    for chip in ["gfx942", "gfx1100", "gfx1201"] {
        let Some(mut b) = Bench::new(&format!("vadd-{chip}.co"), "vadd") else {
            return;
        };
        b.size([2, 1, 1], [64, 1, 1]);
        b.put_floats(A, (0..128u8).map(f32::from));
        b.put_floats(B, (0..128u8).map(|i| f32::from(i) * 0.5));
        b.arguments(&[&OUT.to_le_bytes(), &A.to_le_bytes(), &B.to_le_bytes()]);
        b.run().expect("vadd");
        let sums = (0..128u8).map(|i| (f32::from(i) * 1.5).to_bits());
        assert_eq!(b.words(OUT, 128), sums.collect::<Vec<_>>());

        let mut b = Bench::new(&format!("saxpy-{chip}.co"), "saxpy").expect("there");
        b.size([2, 1, 1], [40, 1, 1]);
        b.put_floats(A, (0..80u8).map(f32::from));
        b.put_floats(OUT, (0..100u8).map(|_| 1.0));
        let (alpha, n) = (2f32.to_le_bytes(), 50i32.to_le_bytes());
        b.arguments(&[
            &OUT.to_le_bytes(),
            &A.to_le_bytes(),
            &alpha,
            &n,
            &10u64.to_le_bytes(),
        ]);
        b.run().expect("saxpy");
        let wanted = (0..100u8).map(|i| match i {
            10..60 => (2.0 * f32::from(i - 10) + 1.0).to_bits(),
            _ => 1f32.to_bits(),
        });
        assert_eq!(b.words(OUT, 100), wanted.collect::<Vec<_>>());

        let mut b = Bench::new(&format!("reduce-{chip}.co"), "reduce").expect("there");
        assert_eq!(b.program.descriptor.group_bytes, 1024);
        b.size([2, 1, 1], [256, 1, 1]);
        b.put_floats(A, (0..2 * 256 * 8u16).map(|i| f32::from(i % 8)));
        b.arguments(&[&OUT.to_le_bytes(), &A.to_le_bytes(), &6u32.to_le_bytes()]);
        let private = b.program.descriptor.private_bytes;
        let fault = b.run().expect_err("it needs scratch memory").to_string();
        assert!(fault.contains("no scratch memory"), "{fault}");
        b.dispatch.scratch = Some(ScratchMemory {
            base: DATA,
            wave_bytes: u64::from(private * b.dispatch.wave) - 1,
            waves: 32,
        });
        let fault = b.run().expect_err("it needs more").to_string();
        assert!(fault.contains("bytes of scratch memory a wave"), "{fault}");
        b.dispatch.scratch = Some(ScratchMemory {
            base: DATA,
            wave_bytes: u64::from(private * b.dispatch.wave),
            waves: 32,
        });
        b.run().expect("reduce");
        assert_eq!(b.words(OUT, 2), [(256f32 * 7.0).to_bits(); 2]);
    }
}

#[test]
fn code_that_is_not_there_byte_by_byte_is_not_known() {
    let Some(mut b) = Bench::new("stock-gfx1100.co", "add") else {
        return;
    };
    assert!(b.prepare().expect("it is mapped").is_some());
    // It is code of this chip only.
    b.dispatch.target = "gfx1201";
    assert!(b.prepare().expect("it is mapped").is_none());
    b.dispatch.target = "gfx1100";
    for at in [0, 50, b.program.code.len() - 1] {
        let mut code = b.program.code.clone();
        code[at] ^= 1;
        b.vm.host_write(CODE, &code);
        b.caches.invalidate(0, Levels::all(), &b.vm).expect("clean");
        assert!(b.prepare().expect("it is mapped").is_none(), "byte {at}");
    }
    // Old instructions are fetched until the instruction cache is told.
    let code = b.program.code.clone();
    b.vm.host_write(CODE, &code);
    assert!(b.prepare().expect("it is mapped").is_none());
    b.caches
        .invalidate(0, Levels::INSTRUCTION, &b.vm)
        .expect("clean");
    assert!(
        b.prepare().expect("it is mapped").is_none(),
        "the L2 has it too"
    );
    let both = Levels::INSTRUCTION | Levels::L2;
    b.caches.invalidate(0, both, &b.vm).expect("clean");
    assert!(b.prepare().expect("it is mapped").is_some());
    // Nothing is known to an empty list, and no address is code by itself.
    b.programs = StandIns::new();
    assert!(b.prepare().expect("it is mapped").is_none());
    b.dispatch.program = BASE - 256;
    let Err(Cause::Memory(fault)) = b.prepare() else {
        panic!("nothing is there");
    };
    assert_eq!(
        (fault.need, fault.reason),
        (Need::Execute, PageFaultReason::NotPresent)
    );
}

#[test]
fn code_at_the_end_of_memory_is_found_and_nothing_past_it_is_missed() {
    let Some(mut b) = Bench::new("stock-gfx1100.co", "empty") else {
        return;
    };
    b.dispatch.program = BASE + (1 << 20) - 4;
    b.vm.host_write(b.dispatch.program, &b.program.code);
    assert_eq!(b.program.code.len(), 4);
    assert!(b.prepare().expect("it is mapped").is_some());
}

fn amd(dispatch: &mut Dispatch) -> &mut AmdRegisters {
    match &mut dispatch.registers {
        Registers::Amd(registers) => registers,
        other => panic!("{other:?}"),
    }
}

#[test]
fn registers_are_those_of_the_descriptor() {
    let Some(b) = Bench::new("stock-gfx1100.co", "fill") else {
        return;
    };
    let good = b.dispatch.clone();
    let launch = |change: &dyn Fn(&mut Dispatch)| {
        let mut b = Bench::new("stock-gfx1100.co", "fill").expect("there");
        b.dispatch = good.clone();
        change(&mut b.dispatch);
        b.prepare().map(|kernel| kernel.is_some())
    };
    // What a driver or the kernel may add.
    for change in [
        (&|d: &mut Dispatch| amd(d).rsrc1 |= 1 << 20) as &dyn Fn(&mut Dispatch),
        &|d| amd(d).rsrc2 |= 5 << 15,
        &|d| amd(d).rsrc2 |= 1 << 6,
        &|d| d.local_memory = 4096,
    ] {
        assert!(launch(change).expect("it is a good launch"));
    }
    type Change<'a> = &'a dyn Fn(&mut Dispatch);
    let cases: [(Change<'_>, &str); 7] = [
        (&|d| amd(d).rsrc1 ^= 1, "COMPUTE_PGM_RSRC1"),
        (&|d| amd(d).rsrc2 ^= 1 << 7, "COMPUTE_PGM_RSRC2"),
        (&|d| amd(d).rsrc2 ^= 1 << 1, "COMPUTE_PGM_RSRC2"),
        (&|d| amd(d).rsrc3 ^= 1 << 4, "COMPUTE_PGM_RSRC3"),
        (&|d| d.wave = 64, "waves of 64 lanes for code of 32"),
        (&|d| amd(d).user_data.truncate(3), "3 user registers"),
        (&|d| amd(d).user_data[2] |= 2, "scalar loads ignore"),
    ];
    for (change, text) in cases {
        let cause = launch(change).expect_err(text);
        assert!(matches!(cause, Cause::Launch(_)), "{cause}");
        assert!(cause.to_string().contains(text), "{cause}");
        assert!(cause.to_string().contains("`fill`"), "{cause}");
    }
    // Arguments and packet have to be there.
    for at in [
        b.program.descriptor.kernarg_register(),
        b.program.descriptor.packet_register(),
    ] {
        let at = at.expect("it takes both") as usize;
        let cause = launch(&|d| amd(d).user_data[at + 1] = 0).expect_err("no memory");
        assert!(matches!(cause, Cause::Memory(_)), "{cause}");
    }
    let Some(mut b) = Bench::new("reduce-gfx942.co", "reduce") else {
        return;
    };
    b.dispatch.local_memory = 1023;
    let cause = b.prepare().map(drop).expect_err("too little").to_string();
    assert!(cause.contains("1023 bytes of local memory; the program declares 1024"));
}

#[test]
fn arguments_come_through_the_scalar_cache() {
    let Some(mut b) = Bench::new("stock-gfx1201.co", "fill") else {
        return;
    };
    b.size([1, 1, 1], [1, 1, 1]);
    let arguments = |b: &Bench, value: u32| {
        b.arguments(&[
            &OUT.to_le_bytes(),
            &value.to_le_bytes(),
            &1u32.to_le_bytes(),
        ]);
    };
    let once = |b: &mut Bench| {
        let mut kernel = b.prepare().expect("good").expect("known");
        let mut view = b.caches.view(0, &b.vm);
        kernel
            .run_group([0; 3], &mut [], &mut *view)
            .expect("mapped");
        drop(view);
        b.caches.write_back(0, Levels::L2, &b.vm).expect("mapped");
        b.words(OUT, 1)
    };
    arguments(&b, 1);
    assert_eq!(once(&mut b), [1]);
    arguments(&b, 2);
    assert_eq!(once(&mut b), [1], "nobody has told the caches");
    let both = Levels::SCALAR | Levels::L2;
    b.caches.invalidate(0, both, &b.vm).expect("clean");
    assert_eq!(once(&mut b), [2]);
}

#[test]
fn a_program_of_ones_own() {
    let Some(bytes) = object("stock-gfx1100.co") else {
        return;
    };
    let mut b = Bench::new("stock-gfx1100.co", "fill").expect("there");
    b.size([1, 1, 1], [4, 1, 1]);
    b.arguments(&[&OUT.to_le_bytes(), &7u32.to_le_bytes(), &4u32.to_le_bytes()]);
    let twice: StandIn = |group| {
        for i in group.items_below(group.u32_at(12)) {
            let value = 2 * group.u32_at(8);
            group.store_u32(group.u64_at(0) + 4 * u64::from(i), value)?;
        }
        Ok(())
    };
    let missing = b
        .programs
        .register(&bytes, &[("fill", twice), ("nil", twice)]);
    assert_eq!(missing, Err(RegisterError::NoProgram("nil".into())));
    b.run().expect("fill");
    assert_eq!(b.words(OUT, 1), [7], "nothing was added");
    b.programs
        .register(&bytes, &[("fill", twice)])
        .expect("there");
    b.run().expect("fill");
    assert_eq!(b.words(OUT, 5), [14, 14, 14, 14, 0], "the one added last");
}

#[test]
fn objects_that_cannot_be_used() {
    let Some(good) = object("stock-gfx1100.co") else {
        return;
    };
    let run: StandIn = |_| Ok(());
    let register = |bytes: &[u8]| StandIns::new().register(bytes, &[("fill", run)]);
    register(&good).expect("it is good");
    assert!(matches!(
        register(b"ELF"),
        Err(RegisterError::Object(ObjectError::Elf(_)))
    ));
    let path = tests_folder().join("vectors/objects/reduce-gfx1100.o");
    let relocatable = std::fs::read(path).expect("it is there");
    assert_eq!(register(&relocatable), Err(ObjectError::NotLinked.into()));
    let mut other = good.clone();
    other[48] = 0x36;
    assert_eq!(register(&other), Err(ObjectError::Machine(0x36).into()));
    let reason = "not a whole program";
    for len in 0..good.len().min(4096) {
        register(&good[..len]).expect_err(reason);
    }
    // Whatever bytes are broken: an answer.
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..2000 {
        let mut broken = good.clone();
        for _ in 0..random.usize(1..8) {
            let at = random.usize(..broken.len());
            broken[at] = random.u8(..);
        }
        let _ = register(&broken);
    }
}
