//! Rings at every place, words in one piece where they must be, and refusals that change nothing.

use super::*;
use hcq_nostd::mem::Region;
use hcq_nostd::ring::WouldBlock;
use std::vec::Vec;

fn flat(memory: &[u64]) -> Vec<u32> {
    memory
        .iter()
        .flat_map(|w| [*w as u32, (*w >> 32) as u32])
        .collect()
}

/// The ring-resident buffer is in one piece, and the NOP in front of it ends where it does.
#[test]
fn words_in_the_ring_do_not_wrap() {
    const LEN: usize = 64;
    let words: Vec<u32> = (100..120).collect();
    for put in 0..LEN as u64 {
        let mut memory = [u64::MAX; LEN / 2];
        let mut ring = Ring::resume(Region::from_words(&mut memory, 0), 4, put).expect("words");
        let end = submit_in_ring(&mut ring, 0x1_0000, &words, &mut |_| ());
        let end = end.unwrap_or_else(|e| panic!("{put}: {e}"));
        let at = |n: u64| (n % LEN as u64) as usize;
        let ring = flat(&memory);
        let packet: Vec<u32> = (0..4).map(|i| ring[at(put + i)]).collect();
        let buffer = IndirectBuffer::decode(&packet).expect("an indirect buffer");
        let nop = ring[at(put + 4)];
        let body = u64::from((nop >> 16 & 0x3fff) + 1);
        assert_eq!(put + 5 + body, end, "{put}");
        assert_eq!(buffer.len() as usize, words.len());
        let start = ((buffer.address.imm().expect("known") - 0x1_0000) / 4) as usize;
        assert_eq!(ring[start..start + words.len()], words, "{put}");
        assert_eq!(start + words.len(), at(end - 1) + 1);
    }
}

#[test]
fn refusals_change_nothing() {
    let mut memory = [u64::MAX; 8];
    let mut ring = Ring::resume(Region::from_words(&mut memory, 0), 4, 3).expect("words");
    let never = &mut |_| panic!("nothing to ring for");
    let too_large = |need| Err(SubmitError::Ring(RingError::TooLarge { need, len: 16 }));
    assert_eq!(submit(&mut ring, &[0; 17], never), too_large(17));
    assert_eq!(
        submit_in_ring(&mut ring, 0, &[0; 12], never),
        too_large(5 + 8 + 12)
    );
    assert_eq!(
        submit_in_ring(&mut ring, 0, &[], never),
        Err(SubmitError::Empty)
    );
    let long = std::vec![0; 0x4000];
    let too_long = SubmitError::TooLong {
        words: 0x4000,
        max: MAX_BODY,
    };
    assert_eq!(submit_in_ring(&mut ring, 0, &long, never), Err(too_long));
    assert_eq!(
        submit_bound(&mut ring, 0, 0, never),
        Err(SubmitError::Empty)
    );
    let too_long = SubmitError::TooLong {
        words: 1 << 20,
        max: 0xf_ffff,
    };
    assert_eq!(submit_bound(&mut ring, 0, 1 << 20, never), Err(too_long));
    for address in [2, 1 << 48] {
        let refused = submit_bound(&mut ring, address, 1, never);
        assert!(
            matches!(refused, Err(SubmitError::Address(_))),
            "{address:#x}"
        );
    }
    let high = submit_in_ring(&mut ring, u64::MAX - 3, &[0], never);
    assert!(matches!(high, Err(SubmitError::Address(_))));
    assert_eq!(ring.put(), 3);
    submit(&mut ring, &[7; 10], &mut |_| ()).expect("room");
    let full = SubmitError::Ring(RingError::Full(WouldBlock { need: 7, free: 6 }));
    assert_eq!(submit(&mut ring, &[8; 7], never), Err(full));
    assert_eq!(ring.put(), 13);
    let ring = flat(&memory);
    assert!(ring.iter().all(|w| [7, u32::MAX].contains(w)));
}
