use super::*;
use std::vec;

#[test]
fn entries_have_known_bits() {
    let entry = Entry::new(0x83_0030_0000, 14).expect("an entry");
    assert_eq!(entry.bits(), 0x0000_3a83_0030_0000);
    assert_eq!(Entry::decode(entry.bits()), Ok(entry));
    let waiting = Entry {
        wait: true,
        ..entry
    };
    assert_eq!(Entry::decode(waiting.bits()), Ok(waiting));
    assert_eq!(waiting.bits() >> 63, 1);
}

#[test]
fn entries_are_refused_that_no_field_holds() {
    assert_eq!(Entry::new(0x1000, 0), Err(SubmitError::Empty));
    let (words, max) = (1 << 21, (1 << 21) - 1);
    assert_eq!(
        Entry::new(0x1000, words),
        Err(SubmitError::TooLong {
            words: words as u64,
            max
        })
    );
    assert!(Entry::new(0x1000, max as usize).is_ok());
    assert!(matches!(
        Entry::new(0x1002, 1),
        Err(SubmitError::Address(_))
    ));
    assert!(matches!(
        Entry::new(1 << 40, 1),
        Err(SubmitError::Address(_))
    ));
    assert!(Entry::new((1 << 40) - 4, 1).is_ok());
    assert!(matches!(
        Entry::new((1 << 40) - 4, 2),
        Err(SubmitError::Address(_))
    ));
}

#[test]
fn any_bits_are_an_entry_and_themselves_again_or_refused() {
    let mut bits = 0x9e37_79b9_7f4a_7c15u64;
    let mut entries = 0;
    for n in 0..4096u64 {
        bits = bits.rotate_left(13).wrapping_mul(0x2545_f491_4f6c_dd1d) ^ n;
        for bits in [bits, bits & !(3 | 1 << 40) | 1 << 41, bits & 0xff_ffff_fffc] {
            match Entry::decode(bits) {
                Ok(entry) => {
                    assert_eq!(entry.bits(), bits);
                    entries += 1;
                }
                Err(Malformed::ControlEntry { opcode }) => {
                    assert_eq!(u64::from(opcode), bits >> 32 & 0xff);
                }
                Err(e) => assert!(matches!(e, Malformed::Reserved { .. })),
            }
        }
    }
    assert!(entries > 1000);
}

#[test]
fn a_ring_is_never_overrun_and_one_entry_stays_free() {
    let mut memory = vec![0u64; 4];
    let mut ring = GpFifo::new(Region::from_words(&mut memory, 0)).expect("whole entries");
    let mut rung = vec![];
    let mut doorbell = |put: u64| rung.push(put);
    for n in 1..=3 {
        assert_eq!(ring.submit(0x1000 * n, 1, &mut doorbell), Ok(n));
    }
    let full = ring.submit(0x9000, 1, &mut doorbell);
    assert!(matches!(full, Err(SubmitError::Ring(RingError::Full(_)))));
    // The channel looks at place 2 next.
    assert_eq!(ring.read_gp_get(2), Ok(()));
    assert_eq!(ring.free(), 2);
    assert_eq!(ring.submit(0x4000, 1, &mut doorbell), Ok(4));
    assert_eq!(ring.submit(0x5000, 1, &mut doorbell), Ok(5));
    // Five entries are place 1: everything is consumed.
    assert_eq!(ring.read_gp_get(1), Ok(()));
    assert!(ring.is_empty());
    assert_eq!(ring.put(), 5);
    for never in [2, 4, u32::MAX] {
        assert!(ring.read_gp_get(never).is_err(), "{never}");
    }
    assert_eq!(rung, [1, 2, 3, 4, 5]);
    assert_eq!(Entry::decode(memory[0]).map(Entry::address), Ok(0x5000));
    let mut one = [0u64; 1];
    assert!(GpFifo::new(Region::from_words(&mut one, 0)).is_err());
}

#[test]
fn the_doorbell_writes_the_place_and_then_the_token() {
    let (mut userd, mut usermode) = ([0u64; 64], [0u64; 64]);
    userd[GP_GET / 8] = 7;
    let mut doorbell = ChannelDoorbell::new(
        Region::from_words(&mut userd, 0),
        Region::from_words(&mut usermode, 0),
        16,
        0x1a2b3c,
    )
    .expect("long enough");
    assert_eq!(doorbell.gp_get(), Ok(7));
    doorbell.ring(35);
    assert_eq!(userd[GP_PUT / 8], 3 << 32 | 7);
    assert_eq!(usermode[NOTIFY_CHANNEL_PENDING / 8], 0x1a2b3c);
    let (mut short, mut page) = ([0u64; 4], [0u64; 64]);
    for swapped in [false, true] {
        let (a, b) = (
            Region::from_words(&mut short, 0),
            Region::from_words(&mut page, 0),
        );
        let (a, b) = if swapped { (b, a) } else { (a, b) };
        assert!(ChannelDoorbell::new(a, b, 16, 1).is_err());
    }
}
