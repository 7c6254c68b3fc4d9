use super::*;
use proptest::prelude::*;
use std::string::ToString;

/// Known words, written out by hand from the table in the module's documentation.
fn golden() -> [(Packet, [u32; 16], &'static str); 11] {
    let exec = Exec {
        kernel: 0x1111_2222_3333_4444,
        args: 0x5555_6666_7777_8888,
        args_size: 24,
        groups: [1, 2, 3],
        local: [4, 5, 6],
        local_memory: 7,
    };
    let (a, b, c) = (
        0x1111_2222_3333_4444,
        0x5555_6666_7777_8888,
        0x9999_aaaa_bbbb_ccc0,
    );
    let lo_hi = [0x3333_4444, 0x1111_2222, 0x7777_8888, 0x5555_6666];
    let [w2, w3, w4, w5] = lo_hi;
    [
        (
            Packet::Exec(exec),
            [1, 7, w2, w3, w4, w5, 1, 2, 3, 4, 5, 6, 24, 0, 0, 0],
            "EXEC kernel=0x1111222233334444 args=0x5555666677778888+24 groups=1x2x3 local=4x5x6 local_memory=7",
        ),
        (
            Packet::Copy {
                destination: a,
                source: b,
                bytes: c,
            },
            [
                2,
                0,
                w2,
                w3,
                w4,
                w5,
                0xbbbb_ccc0,
                0x9999_aaaa,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
            ],
            "COPY destination=0x1111222233334444 source=0x5555666677778888 bytes=0x9999aaaabbbbccc0",
        ),
        (
            Packet::Write32 {
                address: a,
                value: 0xffff_ffff,
            },
            [3, 0, w2, w3, 0xffff_ffff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            "WRITE32 address=0x1111222233334444 value=0xffffffff",
        ),
        (
            Packet::Write64 {
                address: a,
                value: b,
            },
            [0x103, 0, w2, w3, w4, w5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            "WRITE64 address=0x1111222233334444 value=0x5555666677778888",
        ),
        (
            Packet::Signal {
                address: a,
                value: b,
                notify: false,
            },
            [4, 0, w2, w3, w4, w5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            "SIGNAL address=0x1111222233334444 value=6148933456521300104",
        ),
        (
            Packet::Signal {
                address: a,
                value: 9,
                notify: true,
            },
            [0x104, 0, w2, w3, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            "SIGNAL address=0x1111222233334444 value=9 notify",
        ),
        (
            Packet::Wait {
                address: a,
                value: b,
            },
            [5, 0, w2, w3, w4, w5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            "WAIT address=0x1111222233334444 value>=6148933456521300104",
        ),
        (
            Packet::Poll {
                address: a,
                mask: 0x80,
                expect: 0x80,
            },
            [6, 0x80, w2, w3, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            "POLL address=0x1111222233334444 mask=0x80 expect=0x80",
        ),
        (
            Packet::Timestamp { address: a },
            [7, 0, w2, w3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            "TIMESTAMP signal=0x1111222233334444",
        ),
        (
            Packet::Barrier,
            [8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            "BARRIER",
        ),
        (
            Packet::Indirect {
                address: a,
                count: 3,
            },
            [9, 0, w2, w3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            "INDIRECT address=0x1111222233334444 packets=3",
        ),
    ]
}

#[test]
fn known_words_in_both_directions() {
    for (packet, words, text) in golden() {
        assert_eq!(packet.encode(), words, "{packet}");
        assert_eq!(Packet::decode(&words), Ok(packet));
        assert_eq!(packet.to_string(), text);
    }
    assert_eq!(Packet::decode(&Packet::Nop.encode()), Ok(Packet::Nop));
}

#[test]
fn every_bit_means_something_or_is_refused() {
    for (packet, words, _) in golden() {
        for word in 0..16 {
            // Miri looks at a few.
            for bit in (0..32).step_by(if cfg!(miri) { 11 } else { 1 }) {
                let mut w = words;
                w[word] ^= 1 << bit;
                match Packet::decode(&w) {
                    Ok(other) => {
                        assert_ne!(other, packet);
                        assert_eq!(other.encode(), w);
                    }
                    // Another opcode has other operands; what is wrong with them is its business.
                    Err(_) if word == 0 => {}
                    Err(Malformed::Reserved { word: at, value }) => {
                        assert_eq!((at, value), (word, w[word]))
                    }
                    Err(Malformed::Operand { .. }) => assert_eq!(word, 5),
                    Err(e) => panic!("{packet}: bit {bit} of word {word}: {e}"),
                }
            }
        }
    }
}

#[test]
fn zeroed_memory_is_no_packet() {
    assert_eq!(
        Packet::decode(&[0; 16]),
        Err(Malformed::Opcode { header: 0 })
    );
    assert_eq!(
        Packet::decode(&[11; 16]),
        Err(Malformed::Opcode { header: 11 })
    );
}

proptest! {
    #![proptest_config(crate::cases())]
    #[test]
    fn what_decodes_encodes_to_the_same_words(mut words: [u32; 16], opcode in 0u32..12, zeros: u16) {
        words[0] = words[0] & 0x100 | opcode;
        for (i, w) in words.iter_mut().enumerate().skip(1) {
            if zeros >> i & 1 == 1 || i > 12 {
                *w = 0;
            }
        }
        if let Ok(packet) = Packet::decode(&words) {
            prop_assert_eq!(packet.encode(), words);
        }
    }
}
