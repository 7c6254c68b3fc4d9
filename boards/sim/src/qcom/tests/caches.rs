//! The CPU's caches, which the GPU does not see.

use super::*;

const LINE: u64 = 64;

/// `CP_MEMCPY` of some words.
fn copy(from: u64, to: u64, words: u32) -> Vec<u32> {
    let halves = |at: u64| [at as u32, (at >> 32) as u32];
    packet(
        0x75,
        &[[words].as_slice(), &halves(from), &halves(to)].concat(),
    )
}

/// What the GPU sees of a buffer's first bytes.
fn seen(rig: &mut Rig, context: u32, buffer: &Buffer, bytes: u64) -> Vec<u64> {
    let plain = rig.buffer(bytes, WRITE_COMBINED);
    let words = (bytes / 4) as u32;
    rig.submit(context, &[copy(buffer.gpu, plain.gpu, words)])
        .expect("taken");
    rig.run();
    (0..bytes)
        .step_by(LINE as usize)
        .map(|at| plain.get(at))
        .collect()
}

#[test]
fn what_the_cpu_writes_reaches_the_gpu_when_it_is_cleaned() {
    let mut early = 0;
    for seed in 0..60 {
        let mut rig = Rig::new(seed);
        let context = rig.context(PLAIN);
        let data = rig.buffer(PAGE, CACHED);
        for line in 0..4 {
            data.set(line * LINE, 7);
        }
        let lines = seen(&mut rig, context, &data, 4 * LINE);
        assert!(lines.iter().all(|&line| line == 0 || line == 7));
        early += lines.iter().filter(|&&line| line == 7).count();
        assert_eq!(rig.sync(data.id, CacheOps::CLEAN, None), Ok(0));
        assert_eq!(seen(&mut rig, context, &data, 4 * LINE), [7; 4]);
    }
    assert!(
        early > 0 && early < 60,
        "evicted early now and then: {early} of 240"
    );
}

#[test]
fn what_the_gpu_writes_reaches_the_cpu_when_it_is_invalidated() {
    let mut early = 0;
    for seed in 0..60 {
        let mut rig = Rig::new(seed);
        let context = rig.context(PLAIN);
        let data = rig.buffer(PAGE, CACHED);
        // Too early: nothing to fetch yet.
        assert_eq!(rig.sync(data.id, CacheOps::INV, None), Ok(0));
        let words: Vec<_> = (0..4)
            .map(|line| write(data.gpu + line * LINE, 7))
            .collect();
        rig.submit(context, &words).expect("taken");
        rig.run();
        let old = (0..4).filter(|line| data.get(line * LINE) == 0).count();
        early += 4 - old;
        let both = CacheOps::CLEAN | CacheOps::INV;
        assert_eq!(rig.sync(data.id, both, None), Ok(0));
        assert!((0..4).all(|line| data.get(line * LINE) == 7));
    }
    assert!(
        early > 0 && early < 60,
        "fetched early now and then: {early} of 240"
    );
}

#[test]
fn memory_that_is_not_cached_is_the_same_on_both_sides() {
    for (name, flags) in [
        ("a630", WRITE_COMBINED),
        ("a630", MemFlags::cache_mode(CacheMode::Uncached)),
        ("a650", CACHED | MemFlags::IOCOHERENT),
        ("a660", CACHED),
    ] {
        let mut rig = Rig::on(&format!("qcom-{name},seed=1,pace=manual"));
        let context = rig.context(PLAIN);
        let data = rig.buffer(PAGE, flags);
        data.set(0, 3);
        data.set(LINE, 4);
        assert_eq!(seen(&mut rig, context, &data, 2 * LINE), [3, 4]);
        rig.submit(context, &[write(data.gpu, 5)]).expect("taken");
        rig.run();
        assert_eq!(data.get(0), 5, "{name} {flags:?}");
        // Operations find nothing to do; those on snooped memory do not look at the range either.
        let range = Some((PAGE, PAGE));
        assert_eq!(rig.sync(data.id, CacheOps::CLEAN, range), Ok(0), "{name}");
    }
}

#[test]
fn ranges_are_lines_where_they_are() {
    let mut rig = Rig::new(9);
    let context = rig.context(PLAIN);
    let data = rig.buffer(PAGE, CACHED);
    for line in 0..8 {
        data.set(line * LINE, 9);
    }
    let range = Some((LINE + 8, LINE));
    assert_eq!(rig.sync(data.id, CacheOps::CLEAN, range), Ok(0));
    let lines = seen(&mut rig, context, &data, 8 * LINE);
    assert_eq!(lines[1..3], [9, 9]);
    assert!(lines[3..].contains(&0), "{lines:?}");
}

#[test]
fn ranges_are_pages_where_they_are_not() {
    // One object of three pages, changed in each; which pages a range cleans.
    let cleaned = |offset: u64, length: u64| {
        let mut rig = Rig::on("qcom-a650,seed=4,pace=manual");
        let context = rig.context(PLAIN);
        let data = rig.buffer(3 * PAGE, CACHED);
        for at in (0..3 * PAGE).step_by(LINE as usize) {
            data.set(at, 9);
        }
        assert_eq!(
            rig.sync(data.id, CacheOps::CLEAN, Some((offset, length))),
            Ok(0)
        );
        let lines = seen(&mut rig, context, &data, 3 * PAGE);
        let page = |n: usize| lines[n * 64..(n + 1) * 64].iter().all(|&line| line == 9);
        [page(0), page(1), page(2)]
    };
    assert_eq!(cleaned(0, 8), [true, false, false]);
    assert_eq!(
        cleaned(PAGE, 8),
        [true, true, false],
        "from the object's start"
    );
    assert_eq!(cleaned(2 * PAGE, PAGE), [true, true, true]);
    // An offset in a page leaves the first page out, even if that is the range's only one.
    assert_eq!(cleaned(64, 64), [false, false, false]);
    assert_eq!(cleaned(PAGE + 64, 64), [false, true, false]);
    assert_eq!(cleaned(PAGE - 64, 128), [false, true, false]);
}

#[test]
fn operations_are_looked_at() {
    let rig = Rig::new(1);
    let id = rig.buffer(2 * PAGE, CACHED).id;
    const CLEAN: CacheOps = CacheOps::CLEAN;
    for (op, range, answer) in [
        (CLEAN, None, Ok(0)),
        (CLEAN | CacheOps::INV, Some((0, 2 * PAGE)), Ok(0)),
        (CacheOps::empty(), None, Err(libc::EINVAL)),
        (CacheOps::empty(), Some((0, PAGE)), Err(libc::EINVAL)),
        (CLEAN, Some((0, 0)), Err(libc::EINVAL)),
        (CLEAN, Some((0, 1 << 32)), Err(libc::EINVAL)),
        (CLEAN, Some((PAGE, PAGE + 1)), Err(libc::ERANGE)),
        (CLEAN, Some((2 * PAGE, 1)), Err(libc::ERANGE)),
        (CLEAN, Some((u64::MAX, 2)), Err(libc::ERANGE)),
    ] {
        assert_eq!(rig.sync(id, op, range), answer, "{op:?} {range:?}");
    }
    let by_address = |gpuaddr: u64| {
        rig.call(&mut kgsl_gpumem_sync_cache {
            gpuaddr,
            op: CLEAN,
            ..Default::default()
        })
    };
    let address = rig.info(id).expect("there").gpuaddr;
    assert_eq!(by_address(address + 2 * PAGE - 1), Ok(0));
    assert_eq!(by_address(address + 2 * PAGE), Err(libc::EINVAL));
    assert_eq!(by_address(0), Err(libc::EINVAL));
}

#[test]
fn lists_of_operations_are_looked_at() {
    let rig = Rig::new(1);
    let data = rig.buffer(PAGE, CACHED);
    let one = |id: u32, op: CacheOps, offset: u64| kgsl_gpuobj_sync_obj {
        offset,
        length: LINE,
        id,
        op,
    };
    let sync = |list: &mut [kgsl_gpuobj_sync_obj], size: u32, count: u32| {
        rig.call(&mut kgsl_gpuobj_sync {
            objs: at(list),
            obj_len: size,
            count,
        })
    };
    let ranged = CacheOps::CLEAN | CacheOps::RANGE;
    let mut list = vec![one(data.id, ranged, 0); 129];
    assert_eq!(sync(&mut list, 24, 2), Ok(0));
    assert_eq!(sync(&mut list, 24, 128), Ok(0));
    assert_eq!(sync(&mut list, 24, 0), Err(libc::EINVAL));
    assert_eq!(sync(&mut list, 24, 129), Err(libc::EINVAL));
    assert_eq!(sync(&mut list, 32, 1), Ok(0), "what is not known is zero");
    list[1].offset = 8;
    assert_eq!(sync(&mut list, 32, 1), Err(libc::E2BIG));
    list[1].offset = PAGE;
    assert_eq!(sync(&mut list, 24, 2), Err(libc::ERANGE));
    // An unknown object is skipped, and hides what is behind it.
    let mut list = [one(99, ranged, 0), one(data.id, CacheOps::empty(), 0)];
    assert_eq!(sync(&mut list, 24, 2), Ok(0));
    let null = rig.call(&mut kgsl_gpuobj_sync {
        objs: 0,
        obj_len: 24,
        count: 1,
    });
    assert_eq!(null, Err(libc::EFAULT));
}

#[test]
fn bulk_operations_skip_what_they_do_not_know() {
    let mut rig = Rig::new(1);
    let context = rig.context(PLAIN);
    let data = rig.buffer(PAGE, CACHED);
    data.set(0, 5);
    let mut ids = [99, 0, data.id, data.id];
    let mut bulk = |count: u32, null: bool| {
        rig.call(&mut kgsl_gpumem_sync_cache_bulk {
            id_list: if null { 0 } else { at(&mut ids) },
            count,
            op: CacheOps::CLEAN,
            ..Default::default()
        })
    };
    assert_eq!(bulk(0, false), Err(libc::EINVAL));
    assert_eq!(bulk(1025, false), Err(libc::EINVAL));
    assert_eq!(bulk(4, true), Err(libc::EINVAL));
    assert_eq!(bulk(4, false), Ok(0));
    assert_eq!(seen(&mut rig, context, &data, LINE), [5]);
}

#[test]
fn neighbours_in_a_line_are_overwritten() {
    let mut rig = Rig::new(2);
    let context = rig.context(PLAIN);
    let data = rig.buffer(PAGE, CACHED);
    data.set(0, 1);
    rig.submit(context, &[write(data.gpu + 8, 2)])
        .expect("taken");
    rig.run();
    assert_eq!(rig.sync(data.id, CacheOps::CLEAN, Some((0, 8))), Ok(0));
    assert_eq!(rig.sync(data.id, CacheOps::INV, None), Ok(0));
    assert_eq!(data.get(0), 1);
    assert_eq!(data.get(8), 0, "the CPU's old bytes went along");
}
