//! The CPU device: its test kernels are functions of this crate.
//!
//! A kernel is called once per work-group and loops over the items itself.

use std::ffi::c_void;
use std::hint::black_box;
use std::ops::Range;

use hcq_cpu::abi::{Group, KernelFn};
use hcq_std::{Device, Error, Kernel};

use super::{Kind, Stock};

/// Devices named `cpu`.
#[derive(Debug)]
pub struct Cpu;

impl Kind for Cpu {
    fn name(&self) -> &'static str {
        "CPU"
    }

    fn serves(&self, device: &str) -> bool {
        device.split([':', ',']).next() == Some("cpu")
    }

    /// Devices have the process's addresses, all of them.
    fn has_own_addresses(&self) -> bool {
        false
    }

    /// Every opening is a device of its own.
    fn peer(&self, device: &str, _: usize) -> Option<String> {
        Some(device.to_owned())
    }

    fn kernel(&self, device: &Device, stock: Stock) -> Result<Option<Kernel>, Error> {
        let entry: KernelFn = match stock {
            Stock::Empty => empty,
            Stock::Fill => fill,
            Stock::Copy => copy,
            Stock::Add => add,
            Stock::Scale => scale,
            Stock::Step => step,
            Stock::Dims => dims,
            Stock::Reduce => reduce,
            Stock::Scalars => scalars,
            Stock::Spin => spin,
        };
        // SAFETY: each function's argument block is the struct of the same name, whose fields are those of the
        // signature, and it touches no memory but what its arguments name.
        let kernel = unsafe { device.register(stock.name(), stock.signature(), entry) }?;
        Ok(Some(kernel))
    }
}

/// The argument block and the group of a call.
///
/// # Safety
/// Both are what an engine passes to a kernel whose argument block is a `T`.
unsafe fn call<'a, T>(args: *const c_void, group: *const Group) -> (&'a T, &'a Group) {
    // SAFETY: the engine keeps an aligned block of this layout, unchanged, for the length of the call.
    let args = unsafe { &*args.cast::<T>() };
    // SAFETY: as above, for the group.
    let group = unsafe { &*group };
    (args, group)
}

/// # Safety
/// As for [`pointer::read`](std::ptr::read), `index` elements on.
unsafe fn get<T: Copy>(base: *const T, index: usize) -> T {
    // SAFETY: this function's contract.
    let at = unsafe { base.add(index) };
    // SAFETY: this function's contract.
    unsafe { at.read() }
}

/// # Safety
/// As for [`pointer::write`](std::ptr::write), `index` elements on.
unsafe fn put<T: Copy>(base: *mut T, index: usize, value: T) {
    // SAFETY: this function's contract.
    let at = unsafe { base.add(index) };
    // SAFETY: this function's contract.
    unsafe { at.write(value) };
}

/// The items of this group below `n`, in dimension 0.
fn items(group: &Group, n: u32) -> Range<usize> {
    let first = group.group[0] as usize * group.local[0] as usize;
    let end = (first + group.local[0] as usize).min(n as usize);
    first.min(end)..end
}

unsafe extern "C" fn empty(_: *const c_void, _: *const Group) {}

#[repr(C)]
struct Fill {
    out: *mut u32,
    value: u32,
    n: u32,
}

unsafe extern "C" fn fill(args: *const c_void, group: *const Group) {
    // SAFETY: called by an engine, with this layout.
    let (args, group) = unsafe { call::<Fill>(args, group) };
    for i in items(group, args.n) {
        // SAFETY: `out` has `n` words, this item's is nobody else's.
        unsafe { put(args.out, i, args.value) };
    }
}

#[repr(C)]
struct Copy_ {
    a: *const u32,
    out: *mut u32,
    n: u32,
}

unsafe extern "C" fn copy(args: *const c_void, group: *const Group) {
    // SAFETY: called by an engine, with this layout.
    let (args, group) = unsafe { call::<Copy_>(args, group) };
    for i in items(group, args.n) {
        // SAFETY: `a` has `n` words.
        let value = unsafe { get(args.a, i) };
        // SAFETY: `out` has `n` words, this item's is nobody else's.
        unsafe { put(args.out, i, value) };
    }
}

#[repr(C)]
struct Add {
    a: *const u32,
    b: *const u32,
    out: *mut u32,
    n: u32,
}

unsafe extern "C" fn add(args: *const c_void, group: *const Group) {
    // SAFETY: called by an engine, with this layout.
    let (args, group) = unsafe { call::<Add>(args, group) };
    for i in items(group, args.n) {
        // SAFETY: `a` has `n` words.
        let a = unsafe { get(args.a, i) };
        // SAFETY: `b` has `n` words.
        let b = unsafe { get(args.b, i) };
        // SAFETY: `out` has `n` words, this item's is nobody else's.
        unsafe { put(args.out, i, a.wrapping_add(b)) };
    }
}

#[repr(C)]
struct Scale {
    a: f32,
    b: f32,
    x: *const f32,
    y: *mut f32,
    n: u32,
}

unsafe extern "C" fn scale(args: *const c_void, group: *const Group) {
    // SAFETY: called by an engine, with this layout.
    let (args, group) = unsafe { call::<Scale>(args, group) };
    for i in items(group, args.n) {
        // SAFETY: `x` has `n` floats.
        let x = unsafe { get(args.x, i) };
        // SAFETY: `y` has `n` floats, this item's is nobody else's.
        unsafe { put(args.y, i, args.a * x + args.b) };
    }
}

#[repr(C)]
struct Step {
    data: *mut u32,
    factor: u32,
    add: u32,
    n: u32,
}

unsafe extern "C" fn step(args: *const c_void, group: *const Group) {
    // SAFETY: called by an engine, with this layout.
    let (args, group) = unsafe { call::<Step>(args, group) };
    for i in items(group, args.n) {
        // SAFETY: `data` has `n` words, this item's is nobody else's.
        let old = unsafe { get(args.data, i) };
        // SAFETY: as above.
        unsafe {
            put(
                args.data,
                i,
                old.wrapping_mul(args.factor).wrapping_add(args.add),
            )
        };
    }
}

#[repr(C)]
struct Dims {
    out: *mut u32,
}

unsafe extern "C" fn dims(args: *const c_void, group: *const Group) {
    // SAFETY: called by an engine, with this layout.
    let (args, group) = unsafe { call::<Dims>(args, group) };
    let pack = |[x, y, z]: [u32; 3]| x | y << 10 | z << 20;
    let facts = [pack(group.group), pack(group.groups), pack(group.local)];
    let [lx, ly, lz] = group.local.map(|n| n as usize);
    let [gx, gy, gz] = group.group.map(|n| n as usize);
    let (all_x, all_y) = (group.groups[0] as usize * lx, group.groups[1] as usize * ly);
    for z in gz * lz..(gz + 1) * lz {
        for y in gy * ly..(gy + 1) * ly {
            for x in gx * lx..(gx + 1) * lx {
                let at = 4 * (x + all_x * (y + all_y * z));
                // SAFETY: `out` has four words for every item, these are nobody else's.
                let count = unsafe { get(args.out, at) };
                // SAFETY: as above.
                unsafe { put(args.out, at, count.wrapping_add(1)) };
                for (i, fact) in (1..).zip(facts) {
                    // SAFETY: as above.
                    unsafe { put(args.out, at + i, fact) };
                }
            }
        }
    }
}

#[repr(C)]
struct Reduce {
    input: *const u32,
    out: *mut u32,
    n: u32,
}

unsafe extern "C" fn reduce(args: *const c_void, group: *const Group) {
    // SAFETY: called by an engine, with this layout.
    let (args, group) = unsafe { call::<Reduce>(args, group) };
    let (g, n) = (group.group[0] as usize, args.n as usize);
    let local = group.local_memory.cast::<u32>();
    // A launch with less memory than it was asked for must not look like one with enough.
    let (mut sum, mut off) = (u32::MAX, u32::MAX);
    if !local.is_null() && group.local_size as usize >= 4 * n {
        for i in 0..n {
            // SAFETY: `in` has `n` words for every group.
            let value = unsafe { get(args.input, g * n + i) };
            // SAFETY: the local memory has `n` words, looked at above, and is this group's alone.
            unsafe { put(local, i, value) };
        }
        // A group that shares this memory by mistake gets the time to spoil it.
        std::thread::yield_now();
        sum = 0;
        for i in (0..n).rev() {
            // SAFETY: as above.
            sum = sum.wrapping_add(unsafe { get(black_box(local), i) });
        }
        off = (local.addr() % 64) as u32;
    }
    // SAFETY: `out` has two words for every group, these are nobody else's.
    unsafe { put(args.out, 2 * g, sum) };
    // SAFETY: as above.
    unsafe { put(args.out, 2 * g + 1, off) };
}

#[repr(C)]
struct Scalars {
    a: i8,
    b: i16,
    c: i32,
    d: i64,
    e: u8,
    f: u16,
    g: u32,
    h: u64,
    i: f32,
    j: f64,
    out: *mut u64,
}

unsafe extern "C" fn scalars(args: *const c_void, group: *const Group) {
    // SAFETY: called by an engine, with this layout.
    let (args, _) = unsafe { call::<Scalars>(args, group) };
    let values = [
        i64::from(args.a).cast_unsigned(),
        i64::from(args.b).cast_unsigned(),
        i64::from(args.c).cast_unsigned(),
        args.d.cast_unsigned(),
        args.e.into(),
        args.f.into(),
        args.g.into(),
        args.h,
        args.i.to_bits().into(),
        args.j.to_bits(),
    ];
    for (i, value) in values.into_iter().enumerate() {
        // SAFETY: `out` has ten words.
        unsafe { put(args.out, i, value) };
    }
}

#[repr(C)]
struct Spin {
    out: *mut u32,
    turns: u32,
    seed: u32,
}

unsafe extern "C" fn spin(args: *const c_void, group: *const Group) {
    // SAFETY: called by an engine, with this layout.
    let (args, group) = unsafe { call::<Spin>(args, group) };
    let g = group.group[0];
    // The turns are really taken: their number is not known to the compiler.
    let x = black_box(super::spun(black_box(args.turns), args.seed, g));
    // SAFETY: `out` has a word for every group, this one is nobody else's.
    unsafe { put(args.out, g as usize, x) };
}
