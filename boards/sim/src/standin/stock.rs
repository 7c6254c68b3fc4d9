//! Stand-ins of the programs in [`table`](super::table).
//!
//! Items of a wave load before any of them stores; waves come one after the other.

use super::Group;
use crate::engine::Cause;

/// Runs of items that make up a wave, as their first number and their count.
fn waves(group: &Group<'_>, n: u32) -> impl Iterator<Item = (u64, usize)> + use<> {
    let items = group.items_below(n);
    let wave = group.wave.max(1);
    let end = items.end;
    items
        .step_by(wave as usize)
        .map(move |first| (u64::from(first), (end - first).min(wave) as usize))
}

pub(super) fn empty(_: &mut Group<'_>) -> Result<(), Cause> {
    Ok(())
}

pub(super) fn fill(group: &mut Group<'_>) -> Result<(), Cause> {
    let (out, value, n) = (group.u64_at(0), group.u32_at(8), group.u32_at(12));
    for (first, count) in waves(group, n) {
        group.store_words(out.wrapping_add(4 * first), &vec![value; count])?;
    }
    Ok(())
}

pub(super) fn copy(group: &mut Group<'_>) -> Result<(), Cause> {
    let (a, out, n) = (group.u64_at(0), group.u64_at(8), group.u32_at(16));
    for (first, count) in waves(group, n) {
        let words = group.load_words(a.wrapping_add(4 * first), count)?;
        group.store_words(out.wrapping_add(4 * first), &words)?;
    }
    Ok(())
}

pub(super) fn add(group: &mut Group<'_>) -> Result<(), Cause> {
    let (a, b, out) = (group.u64_at(0), group.u64_at(8), group.u64_at(16));
    for (first, count) in waves(group, group.u32_at(24)) {
        let a = group.load_words(a.wrapping_add(4 * first), count)?;
        let b = group.load_words(b.wrapping_add(4 * first), count)?;
        let sums: Vec<u32> = a.iter().zip(b).map(|(a, b)| a.wrapping_add(b)).collect();
        group.store_words(out.wrapping_add(4 * first), &sums)?;
    }
    Ok(())
}

pub(super) fn scale(group: &mut Group<'_>) -> Result<(), Cause> {
    let (a, b) = (group.f32_at(0), group.f32_at(4));
    let (x, y) = (group.u64_at(8), group.u64_at(16));
    for (first, count) in waves(group, group.u32_at(24)) {
        let x = group.load_words(x.wrapping_add(4 * first), count)?;
        // The program multiplies and adds in one instruction.
        let words = x.iter().map(|&x| f32::from_bits(x).mul_add(a, b).to_bits());
        let words: Vec<u32> = words.collect();
        group.store_words(y.wrapping_add(4 * first), &words)?;
    }
    Ok(())
}

pub(super) fn step(group: &mut Group<'_>) -> Result<(), Cause> {
    let (data, factor, add) = (group.u64_at(0), group.u32_at(8), group.u32_at(12));
    for (first, count) in waves(group, group.u32_at(16)) {
        let at = data.wrapping_add(4 * first);
        let mut words = group.load_words(at, count)?;
        for word in &mut words {
            *word = word.wrapping_mul(factor).wrapping_add(add);
        }
        group.store_words(at, &words)?;
    }
    Ok(())
}

pub(super) fn dims(group: &mut Group<'_>) -> Result<(), Cause> {
    let out = group.u64_at(0);
    let local = [0, 1, 2].map(|d| group.local_size(d));
    let grid = [0, 1, 2].map(|d| group.grid_size(d));
    let pack = |[x, y, z]: [u32; 3]| x | y << 10 | z << 20;
    let [lx, ly, lz] = local;
    let [all_x, all_y, all_z] = grid;
    let divide = |a: u32, b: u32| a.checked_div(b).unwrap_or(u32::MAX);
    let groups = [divide(all_x, lx), divide(all_y, ly), divide(all_z, lz)];
    let facts = [pack(group.group), pack(groups), pack(local)];
    let [gx, gy, gz] = group.group;
    let [items_x, items_y, items_z] = group.items;
    for z in 0..items_z {
        for y in 0..items_y {
            let x = u64::from(gx.wrapping_mul(lx));
            let y = u64::from(gy.wrapping_mul(ly).wrapping_add(y));
            let z = u64::from(gz.wrapping_mul(lz).wrapping_add(z));
            let row = u64::from(all_y).wrapping_mul(z).wrapping_add(y);
            let item = u64::from(all_x).wrapping_mul(row).wrapping_add(x);
            let at = out.wrapping_add(item.wrapping_mul(16));
            let mut words = group.load_words(at, 4 * items_x as usize)?;
            for item in words.chunks_mut(4) {
                if let Some((count, rest)) = item.split_first_mut() {
                    *count = count.wrapping_add(1);
                    rest.copy_from_slice(&facts);
                }
            }
            group.store_words(at, &words)?;
        }
    }
    Ok(())
}

pub(super) fn reduce(group: &mut Group<'_>) -> Result<(), Cause> {
    const PART: usize = 4096;
    let (input, out, n) = (group.u64_at(0), group.u64_at(8), group.u32_at(16) as usize);
    let [g, ..] = group.group.map(u64::from);
    let mut done = 0;
    while done < n {
        let part = (n - done).min(PART);
        let at = g.wrapping_mul(n as u64).wrapping_add(done as u64);
        let words = group.load_words(input.wrapping_add(at.wrapping_mul(4)), part)?;
        for (i, word) in (done..).zip(words) {
            group.local_store(i, word);
        }
        done += part;
    }
    let sum = (0..n)
        .rev()
        .fold(0u32, |sum, i| sum.wrapping_add(group.local_load(i)));
    // The launch's local memory begins at 0: the program declares none.
    group.store_words(out.wrapping_add(8 * g), &[sum, 0])
}

pub(super) fn scalars(group: &mut Group<'_>) -> Result<(), Cause> {
    let [g, ..] = group.group;
    if g.wrapping_mul(group.local_size(0)) != 0 {
        return Ok(());
    }
    let [a, _, b_low, b_high, ..] = group.u32_at(0).to_le_bytes();
    let (c, d) = (group.u32_at(4).cast_signed(), group.u64_at(8));
    let [e, _, f_low, f_high] = group.u32_at(16).to_le_bytes();
    let signed = |value: i64| value.cast_unsigned();
    let values = [
        signed(i8::from_le_bytes([a]).into()),
        signed(i16::from_le_bytes([b_low, b_high]).into()),
        signed(c.into()),
        d,
        e.into(),
        u16::from_le_bytes([f_low, f_high]).into(),
        group.u32_at(20).into(),
        group.u64_at(24),
        group.u32_at(32).into(),
        group.u64_at(40),
    ];
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let out = group.u64_at(48);
    Ok(group.memory.store(out, &bytes)?)
}

pub(super) fn spin(group: &mut Group<'_>) -> Result<(), Cause> {
    let (out, turns, seed) = (group.u64_at(0), group.u32_at(8), group.u32_at(12));
    let [g, ..] = group.group;
    let value = turned(seed.wrapping_add(g), turns);
    group.store_u32(out.wrapping_add(4 * u64::from(g)), value)
}

/// `turns` times `x * 1664525 + 1013904223`, by doubling the step: machines of this kind have all the time.
fn turned(mut x: u32, mut turns: u32) -> u32 {
    let (mut factor, mut plus) = (1_664_525u32, 1_013_904_223u32);
    while turns > 0 {
        if turns & 1 != 0 {
            x = x.wrapping_mul(factor).wrapping_add(plus);
        }
        plus = plus.wrapping_mul(factor.wrapping_add(1));
        factor = factor.wrapping_mul(factor);
        turns >>= 1;
    }
    x
}

/// `out[i] = a[i] + b[i]` for every item of groups of 64.
pub(super) fn vadd(group: &mut Group<'_>) -> Result<(), Cause> {
    let (out, a, b) = (group.u64_at(0), group.u64_at(8), group.u64_at(16));
    let [g, ..] = group.group;
    let [items, ..] = group.items;
    let at = u64::from(g.wrapping_mul(64)) * 4;
    let a = group.load_words(a.wrapping_add(at), items as usize)?;
    let b = group.load_words(b.wrapping_add(at), items as usize)?;
    let sum = |(&a, b): (&u32, u32)| (f32::from_bits(a) + f32::from_bits(b)).to_bits();
    let sums: Vec<u32> = a.iter().zip(b).map(sum).collect();
    group.store_words(out.wrapping_add(at), &sums)
}

/// `y[i + off] = alpha * x[i] + y[i + off]` for items below the signed `n`.
pub(super) fn saxpy(group: &mut Group<'_>) -> Result<(), Cause> {
    let (y, x, alpha) = (group.u64_at(0), group.u64_at(8), group.f32_at(16));
    let n = group.u32_at(20).cast_signed().max(0).cast_unsigned();
    let y = y.wrapping_add(group.u64_at(24).wrapping_mul(4));
    for (first, count) in waves(group, n) {
        let x = group.load_words(x.wrapping_add(4 * first), count)?;
        let mut words = group.load_words(y.wrapping_add(4 * first), count)?;
        for (y, x) in words.iter_mut().zip(x) {
            *y = f32::from_bits(x)
                .mul_add(alpha, f32::from_bits(*y))
                .to_bits();
        }
        group.store_words(y.wrapping_add(4 * first), &words)?;
    }
    Ok(())
}

/// Two of each item's eight inputs are added, then all items of a group of 256, as a tree in local memory.
pub(super) fn reduce_tree(group: &mut Group<'_>) -> Result<(), Cause> {
    let (out, input, select) = (group.u64_at(0), group.u64_at(8), group.u32_at(16));
    let [g, ..] = group.group;
    let [items, ..] = group.items.map(|n| n as usize);
    let word = |words: &[u32], at: u32| {
        let word = words.get(at as usize & 7).copied().unwrap_or_default();
        f32::from_bits(word)
    };
    for t in 0..items {
        let i = u64::from(g.wrapping_mul(256)).wrapping_add(t as u64);
        let words = group.load_words(input.wrapping_add(i.wrapping_mul(32)), 8)?;
        let sum = word(&words, select) + word(&words, select.wrapping_add(3));
        group.local_store(t, sum.to_bits());
    }
    add_tree(group, items);
    let sum = group.local_load(0);
    group.store_u32(out.wrapping_add(4 * u64::from(g)), sum)
}

/// [`vadd`] of groups of any size, as `vadd.ptx` has it: items count from their group's number times the group's size.
pub(super) fn vadd_sized(group: &mut Group<'_>) -> Result<(), Cause> {
    let (out, a, b) = (group.u64_at(0), group.u64_at(8), group.u64_at(16));
    let [g, ..] = group.group;
    let [items, ..] = group.items;
    let at = u64::from(g.wrapping_mul(group.local_size(0))) * 4;
    let a = group.load_words(a.wrapping_add(at), items as usize)?;
    let b = group.load_words(b.wrapping_add(at), items as usize)?;
    let sum = |(&a, b): (&u32, u32)| (f32::from_bits(a) + f32::from_bits(b)).to_bits();
    let sums: Vec<u32> = a.iter().zip(b).map(sum).collect();
    group.store_words(out.wrapping_add(at), &sums)
}

/// [`saxpy`] of `x` times one of the four numbers of constant bank 3, as `saxpy.ptx` has it.
pub(super) fn saxpy_scaled(group: &mut Group<'_>) -> Result<(), Cause> {
    let (y, x, alpha) = (group.u64_at(0), group.u64_at(8), group.f32_at(16));
    let n = group.u32_at(20).cast_signed().max(0).cast_unsigned();
    let y = y.wrapping_add(group.u64_at(24).wrapping_mul(4));
    let [select, ..] = group.u32_at(32).to_le_bytes();
    let [_, _, _, third, ..] = group.registers.nv().map_or([None; 8], |nv| nv.banks);
    let Some(bank) = third else {
        return Err(Cause::Launch("constant bank 3 is not valid".into()));
    };
    let mut scale = [0; 4];
    let at = bank.address.wrapping_add(4 * u64::from(select & 3));
    group.memory.load_scalar(at, &mut scale)?;
    let scale = f32::from_le_bytes(scale);
    for (first, count) in waves(group, n) {
        let x = group.load_words(x.wrapping_add(4 * first), count)?;
        let mut words = group.load_words(y.wrapping_add(4 * first), count)?;
        for (y, x) in words.iter_mut().zip(x) {
            let scaled = f32::from_bits(x) * scale;
            *y = scaled.mul_add(alpha, f32::from_bits(*y)).to_bits();
        }
        group.store_words(y.wrapping_add(4 * first), &words)?;
    }
    Ok(())
}

/// One of each item's 128 inputs, of which so many are read, is added to those of all other items of a group of 256, as
/// `reduce.ptx` has it.
pub(super) fn reduce_one(group: &mut Group<'_>) -> Result<(), Cause> {
    let (out, input) = (group.u64_at(0), group.u64_at(8));
    let (select, count) = (group.u32_at(16) & 127, group.u32_at(20));
    let [g, ..] = group.group;
    let [items, ..] = group.items.map(|n| n as usize);
    // The loop runs once at least, and the array in local memory ends at 128.
    let count = count.clamp(1, 128);
    for t in 0..items {
        let i = u64::from(g.wrapping_mul(256)).wrapping_add(t as u64);
        let words = group.load_words(input.wrapping_add(i.wrapping_mul(512)), count as usize)?;
        let word = words.get(select as usize).copied().unwrap_or_default();
        group.local_store(t, word);
    }
    add_tree(group, items);
    let sum = group.local_load(0);
    group.store_u32(out.wrapping_add(4 * u64::from(g)), sum)
}

/// Adds up to 256 numbers in local memory as a tree.
fn add_tree(group: &mut Group<'_>, items: usize) {
    for half in [128, 64, 32, 16, 8, 4, 2, 1] {
        for t in 0..half.min(items) {
            let other = f32::from_bits(group.local_load(t + half));
            let sum = f32::from_bits(group.local_load(t)) + other;
            group.local_store(t, sum.to_bits());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_by_doubling_are_turns() {
        let slow = |x: u32, turns: u32| {
            (0..turns).fold(x, |x, _| {
                x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)
            })
        };
        for turns in (0..70).chain([1000, 4095, 65_537]) {
            for x in [0, 1, 7, u32::MAX] {
                assert_eq!(turned(x, turns), slow(x, turns), "{x} {turns}");
            }
        }
    }
}
