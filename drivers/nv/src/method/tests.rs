use super::*;
use std::vec::Vec;

#[test]
fn headers_have_known_words() {
    let word = |kind, sub, method, count| Header::new(kind, sub, method, count).map(Header::word);
    // SEM_ADDR_LO, five words; SEND_PCAS_A; LAUNCH_DMA.
    assert_eq!(word(Kind::Incrementing, 0, 0x5c, 5), Ok(0x2005_0017));
    assert_eq!(word(Kind::Incrementing, 1, 0x2b4, 1), Ok(0x2001_20ad));
    assert_eq!(word(Kind::Incrementing, 4, 0x300, 1), Ok(0x2001_80c0));
    assert_eq!(word(Kind::NonIncrementing, 1, 0x1b4, 2), Ok(0x6002_206d));
    assert_eq!(word(Kind::Immediate(3), 1, 0x110, 0), Ok(0x8003_2044));
    assert_eq!(word(Kind::IncrementOnce, 1, 0x1b0, 3), Ok(0xa003_206c));
}

#[test]
fn counts_and_addresses_are_checked() {
    let of = |kind, sub, method, count| Header::new(kind, sub, method, count).err();
    let inc = Kind::Incrementing;
    assert_eq!(of(inc, 8, 0, 1), Some(HeaderError::Subchannel(8)));
    assert_eq!(of(inc, 7, 0x3ffc, 1), None);
    assert_eq!(of(inc, 7, 0x3ffc, 2), Some(HeaderError::Method(0x3ffc)));
    assert_eq!(of(Kind::NonIncrementing, 7, 0x3ffc, 9), None);
    assert_eq!(of(Kind::IncrementOnce, 7, 0x3ffc, 1), None);
    assert_eq!(
        of(Kind::IncrementOnce, 7, 0x3ffc, 2),
        Some(HeaderError::Method(0x3ffc))
    );
    assert_eq!(of(inc, 0, 0x4000, 1), Some(HeaderError::Method(0x4000)));
    assert_eq!(of(inc, 0, 0x5e, 1), Some(HeaderError::Method(0x5e)));
    assert_eq!(of(inc, 0, 0x100, 0x2000), Some(HeaderError::Count(0x2000)));
    assert_eq!(
        of(Kind::Immediate(0x2000), 0, 0, 0),
        Some(HeaderError::Data(0x2000))
    );
    assert_eq!(of(Kind::Immediate(0x1fff), 0, 0, 0), None);
}

#[test]
fn every_word_is_a_header_and_itself_again_or_refused() {
    // All of SEC_OP, bit 12, and the corners of the other fields.
    let corners = [0u32, 1, 0x7fe, 0xfff];
    for op in 0..8u32 {
        for count in [0, 1, 2, 0x1ffe, 0x1fff] {
            for sub in [0, 1, 7] {
                for spare in [0, 1] {
                    for method in corners {
                        let word = op << 29 | count << 16 | sub << 13 | spare << 12 | method;
                        match Header::decode(word) {
                            Ok(header) => assert_eq!(header.word(), word),
                            Err(Malformed::Header { .. }) => assert!([0, 2, 6, 7].contains(&op)),
                            Err(_) => assert!(spare == 1 || method + count > 0xfff || count == 2),
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn data_goes_to_the_methods_that_the_kind_says() {
    let methods = |kind| {
        let header = Header::new(kind, 1, 0x200, 3).expect("a header");
        (0..3).map(|i| header.method_of(i)).collect::<Vec<_>>()
    };
    assert_eq!(methods(Kind::Incrementing), [0x200, 0x204, 0x208]);
    assert_eq!(methods(Kind::NonIncrementing), [0x200; 3]);
    assert_eq!(methods(Kind::IncrementOnce), [0x200, 0x204, 0x204]);
}

#[test]
fn a_run_ends_where_its_words_do() {
    let words = [0x2005_0017, 1, 2, 3, 4];
    assert_eq!(
        Run::decode(&words),
        Err(Malformed::Truncated { need: 6, have: 5 })
    );
    assert_eq!(
        Run::decode(&[]),
        Err(Malformed::Truncated { need: 1, have: 0 })
    );
    let words = [0x2001_0008, 7, 9];
    let run = Run::decode(&words).expect("a run");
    assert_eq!((run.len(), run.data), (2, &[7][..]));
}
