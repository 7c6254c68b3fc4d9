use super::*;

#[test]
fn every_store_is_bounded_and_aligned() {
    let mut backing = [0u64; 2];
    let mut r = Region::from_words(&mut backing, 0);
    for offset in 0..20usize {
        let fits = |n: usize| offset + n <= 16;
        let ok = |n: usize| fits(n) && offset % n == 0;
        assert_eq!(r.store_u8(offset, 1).is_ok(), ok(1), "{offset}");
        assert_eq!(r.store_u16(offset, 1).is_ok(), ok(2), "{offset}");
        assert_eq!(r.store_u32(offset, 1).is_ok(), ok(4), "{offset}");
        assert_eq!(r.store_u64(offset, 1).is_ok(), ok(8), "{offset}");
        assert_eq!(r.write(offset, &[1, 2, 3]).is_ok(), fits(3), "{offset}");
        assert_eq!(r.read(offset, &mut [0; 3]).is_ok(), fits(3), "{offset}");
        assert_eq!(r.fill(offset, 5, 0).is_ok(), fits(5), "{offset}");
    }
    assert!(r.write(usize::MAX, &[1]).is_err());
    assert!(r.check(usize::MAX, usize::MAX).is_err());
}

#[test]
fn a_refused_store_changes_nothing() {
    let mut backing = [0x5555_5555_5555_5555u64; 2];
    let mut r = Region::from_words(&mut backing, 0);
    assert_eq!(
        r.store_u64(12, 0),
        Err(AccessError::OutOfBounds {
            offset: 12,
            len: 8,
            region: 16
        })
    );
    assert_eq!(
        r.store_u32(2, 0),
        Err(AccessError::Misaligned {
            offset: 2,
            align: 4
        })
    );
    assert!(r.write(10, &[0; 7]).is_err());
    assert_eq!(backing, [0x5555_5555_5555_5555; 2]);
}

#[test]
fn slices_carry_their_device_address() {
    let mut backing = [0u64; 4];
    let r = Region::from_words(&mut backing, 0x1000);
    let (a, b) = r.split_at(8).expect("inside");
    assert_eq!((a.len(), a.device_address(0)), (8, Some(0x1000)));
    let mut c = b.slice(8, 16).expect("inside");
    assert_eq!(
        (c.len(), c.device_address(16), c.device_address(17)),
        (16, Some(0x1020), None)
    );
    c.store_u64(8, 0x1122_3344_5566_7788).expect("inside");
    assert_eq!(c.load_u32(8), Ok(0x5566_7788));
    assert!(c.slice(9, 8).is_err());
    assert_eq!(backing[3], 0x1122_3344_5566_7788);
}

#[test]
fn scatter_stores_where_it_is_told() {
    let mut backing = [0u64; 12];
    let mut r = Region::from_words(&mut backing, 0);
    // SAFETY: offsets 1, 3 and 11 are inside twelve words; `from_words` is aligned.
    unsafe { scatter::plain(&mut r, &[1, 3, 11], 7) };
    // SAFETY: byte offsets 0, 2 are inside and 2-aligned.
    unsafe { scatter::each::<u16>(&mut r, &[0, 2], 0x0102) };
    // SAFETY: byte offset 20 is inside with 8 bytes of room and 4-aligned.
    unsafe { scatter::pairs(&mut r, &[20], 0xaaaa_bbbb_cccc_dddd) };
    // SAFETY: offsets 4 to 10 are inside.
    unsafe {
        scatter::plain_each(
            &mut r,
            &[4, 5, 6, 7, 8, 9, 10, 0],
            &[4, 5, 6, 7, 8, 9, 10, 99],
        )
    };
    assert_eq!(backing[0], 99);
    assert_eq!(backing[1], 7);
    assert_eq!(backing[2] >> 32, 0xcccc_dddd);
    assert_eq!(backing[3], 0xaaaa_bbbb);
    assert_eq!(backing[4..], [4, 5, 6, 7, 8, 9, 10, 7]);
}

#[test]
fn shared_words_are_halves_of_one_value() {
    let mut cell = 0u64;
    let w = SharedWord::from_mut(&mut cell);
    w.store(0x1_0000_0002);
    w.store_low(7);
    assert_eq!(w.load(), 0x1_0000_0007);
    publish_fence();
    consume_fence();
}

#[test]
fn shared_words_need_alignment() {
    let mut backing = [0u64; 2];
    let r = Region::from_words(&mut backing, 4);
    assert!(SharedWords::new(r).is_err());
    let r = Region::from_words(&mut backing, 0)
        .slice(4, 12)
        .expect("inside");
    assert!(SharedWords::new(r).is_err());
    let r = Region::from_words(&mut backing, 0)
        .slice(8, 8)
        .expect("inside");
    let words = SharedWords::new(r).expect("aligned");
    assert_eq!(words.len(), 1);
    assert!(words.get(1).is_none());
}

#[test]
fn a_release_store_carries_the_bytes_before_it() {
    let mut data = [0u64; 1];
    let mut flag = 0u64;
    let mut region = Region::from_words(&mut data, 0);
    // SAFETY: the bytes outlive the scope below; they are the writer's before the flag's release, the reader's after it.
    let view = unsafe { Region::new(region.as_ptr(), region.len(), 0) };
    let flag = SharedWord::from_mut(&mut flag);
    std::thread::scope(|s| {
        let reader = s.spawn(move || {
            let mut turns = 0u32;
            while flag.load() == 0 && turns < 10_000_000 {
                turns += 1;
                std::thread::yield_now();
            }
            consume_fence();
            (flag.load() == 1).then(|| view.load_u64(0))
        });
        region.store_u64(0, 42).expect("inside");
        publish_fence();
        flag.store(1);
        assert_eq!(reader.join().expect("no panic"), Some(Ok(42)));
    });
}

/// Where 64-bit stores are two halves, a reader may see less for a moment and never more.
#[test]
fn a_growing_word_is_never_seen_too_large() {
    let mut cell = 0u64;
    let word = SharedWord::from_mut(&mut cell);
    let index = std::sync::atomic::AtomicU32::new(0);
    let order = std::sync::atomic::Ordering::SeqCst;
    let values: std::vec::Vec<u64> = (0..crate::testing::rounds(20_000))
        .map(|n| (n << 31) + n % 7)
        .collect();
    std::thread::scope(|s| {
        let last = values.last().copied().expect("some");
        let (index, values) = (&index, &values);
        let reader = s.spawn(move || {
            let mut turns = 0u64;
            loop {
                let seen = word.load();
                // The index is stored before the word and read after it.
                assert!(seen <= values[index.load(order) as usize], "{seen:#x}");
                turns += 1;
                if seen == last || turns > 100_000_000 {
                    return seen;
                }
                if turns.is_multiple_of(64) {
                    std::thread::yield_now();
                }
            }
        });
        for (n, &v) in (0..).zip(values) {
            index.store(n, order);
            word.store(v);
        }
        assert_eq!(reader.join().expect("no panic"), last);
    });
}
