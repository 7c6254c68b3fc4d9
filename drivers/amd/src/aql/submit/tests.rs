//! Headers last, exact room.

use super::*;
use crate::aql::PACKET_BYTES;
use hcq_nostd::mem::Region;
use hcq_nostd::ring::WouldBlock;

#[test]
fn a_ring_is_used_to_its_last_packet_and_no_further() {
    let mut memory = [u64::MAX; 4 * PACKET_BYTES / 8];
    let mut ring =
        Ring::resume(Region::from_words(&mut memory, 0), PACKET_BYTES, 2).expect("packets");
    let packet = |n: u32| {
        core::array::from_fn::<u32, PACKET_WORDS, _>(|i| if i == 0 { 0x1502 | n << 16 } else { n })
    };
    let three = [packet(1), packet(2), packet(3)].concat();
    let mut rung = 0;
    assert_eq!(submit(&mut ring, &three, &mut |p| rung = p), Ok(5));
    assert_eq!((rung, doorbell_index(rung)), (5, 4));
    let never = &mut |_| panic!("nothing to ring for");
    let full = RingError::Full(WouldBlock { need: 2, free: 1 });
    assert_eq!(
        submit(&mut ring, &three[..2 * PACKET_WORDS], never),
        Err(SubmitError::Ring(full))
    );
    assert_eq!(submit(&mut ring, &packet(4), &mut |_| ()), Ok(6));
    let full = RingError::Full(WouldBlock { need: 1, free: 0 });
    assert_eq!(
        submit(&mut ring, &packet(5), never),
        Err(SubmitError::Ring(full))
    );
    let five = [[0; PACKET_WORDS]; 5].concat();
    let too_large = RingError::TooLarge { need: 5, len: 4 };
    assert_eq!(
        submit(&mut ring, &five, never),
        Err(SubmitError::Ring(too_large))
    );
    let shape = submit(&mut ring, &five[..PACKET_WORDS + 1], never);
    assert!(matches!(
        shape,
        Err(SubmitError::Ring(RingError::Shape {
            bytes: 4,
            entry: 64
        }))
    ));
    ring.consumed(4).expect("published");
    assert_eq!(submit(&mut ring, &packet(6), &mut |_| ()), Ok(7));
    // Packets 2 to 6 at places 2, 3, 0, 1, 2.
    let first = |place: usize| memory[place * 8] as u32;
    assert_eq!(
        [first(0), first(1), first(2), first(3)].map(|w| w >> 16),
        [3, 4, 6, 2]
    );
}
