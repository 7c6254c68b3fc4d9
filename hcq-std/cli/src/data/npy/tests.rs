use proptest::prelude::*;

use super::*;

fn file(version: (u8, u8), text: &str) -> Vec<u8> {
    let mut out = b"\x93NUMPY".to_vec();
    out.extend([version.0, version.1]);
    if version.0 == 1 {
        out.extend((text.len() as u16).to_le_bytes());
    } else {
        out.extend((text.len() as u32).to_le_bytes());
    }
    out.extend(text.as_bytes());
    out
}

fn refusal(text: &str) -> String {
    let head = file((1, 0), text);
    parse(&head, head.len() as u64 + (1 << 40))
        .unwrap_err()
        .to_string()
}

fn dict(descr: &str, order: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n")
}

#[test]
fn every_type_goes_round() {
    for dtype in Dtype::ALL {
        for shape in [vec![], vec![7], vec![3, 5], vec![2, 1, 4]] {
            let mut out = Vec::new();
            write_header(&mut out, dtype, &shape).unwrap();
            let npy = parse(&out, out.len() as u64).unwrap();
            assert_eq!(
                (npy.dtype, &npy.shape, npy.offset),
                (dtype, &shape, out.len() as u64)
            );
            assert_eq!(npy.bytes, shape.iter().product::<u64>() * dtype.size());
        }
    }
}

#[test]
fn known_header_of_numpy() {
    // First bytes of numpy.save(f, numpy.zeros((2, 3), numpy.float32)), numpy 1.26.
    let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    let padded = format!("{text:<117}\n");
    let head = file((1, 0), &padded);
    assert_eq!(head.len(), 128);
    let npy = parse(&head, 128 + 24).unwrap();
    assert_eq!(
        npy,
        Npy {
            dtype: Dtype::F32,
            shape: vec![2, 3],
            offset: 128,
            bytes: 24
        }
    );
}

#[test]
fn refusals_say_why() {
    for (text, why) in [
        (dict(">f4", "False", "(2,)"), "big-endian"),
        (dict("<f2", "False", "(2,)"), "'<f2' is not supported"),
        (dict("|O", "False", "(2,)"), "not supported"),
        (dict("<c8", "False", "(2,)"), "not supported"),
        (dict("<f4", "True", "(2, 2)"), "Fortran"),
        (dict("<f4", "False", "(0, 4)"), "empty"),
        (
            dict("<f4", "False", "(9223372036854775807, 3)"),
            "too large",
        ),
        (
            dict(
                "<f4",
                "False",
                "(0, 9223372036854775807, 9223372036854775807)",
            ),
            "too large",
        ),
        (dict("<f8", "False", "(2305843009213693952,)"), "too large"),
        (dict("<f4", "False", "(-1,)"), "whole numbers"),
        (
            dict("<f4", "False", "(99999999999999999999999,)"),
            "whole numbers",
        ),
        (dict("<f4", "Maybe", "(1,)"), "malformed"),
        (
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}".into(),
            "structured",
        ),
        ("{'fortran_order': False, 'shape': (1,)}".into(), "descr"),
        ("((((((((".into(), "one dictionary"),
        (String::new(), "one dictionary"),
    ] {
        let said = refusal(&text).replace("element type <f2", "element type '<f2'");
        assert!(said.contains(why), "{text}: {said}");
    }
}

#[test]
fn one_dimension_has_no_order() {
    let head = file((1, 0), &dict("<f4", "True", "(4,)"));
    assert_eq!(parse(&head, 1 << 20).unwrap().shape, [4]);
}

#[test]
fn lengths_are_held_against_the_file() {
    assert!(matches!(
        parse(b"\x93NUMPX\x01\x00", 100),
        Err(NpyError::Magic)
    ));
    assert!(matches!(parse(b"", 0), Err(NpyError::Magic)));
    assert!(matches!(
        parse(b"\x93NUMPY\x09\x00\x10\x00", 100),
        Err(NpyError::Version(9, 0))
    ));
    assert!(matches!(
        parse(b"\x93NUMPY\x01\x00\x10", 100),
        Err(NpyError::Header(_))
    ));
    let huge = parse(b"\x93NUMPY\x02\x00\xff\xff\xff\xff", u64::MAX);
    assert!(matches!(
        huge,
        Err(NpyError::HeaderLength {
            claimed: 0xffff_ffff,
            limit: 10_000
        })
    ));
    let short = parse(b"\x93NUMPY\x01\x00\x76\x00{", 11);
    assert!(matches!(
        short,
        Err(NpyError::HeaderLength {
            claimed: 118,
            limit: 1
        })
    ));
}

proptest! {
    #[test]
    fn any_bytes_are_survived(tail in proptest::collection::vec(any::<u8>(), 0..400), version in 0u8..4) {
        let mut head = vec![0x93];
        head.extend(b"NUMPY");
        head.extend([version, 0]);
        head.extend(tail);
        let _ = parse(&head, head.len() as u64);
    }

    #[test]
    fn any_header_text_is_survived(text in "[\\{\\}\\(\\)'a-z<>|0-9, :\\\\TrueFalse\\[\\]\"._-]{0,200}") {
        let head = file((1, 0), &text);
        let _ = parse(&head, head.len() as u64);
    }

    #[test]
    fn one_changed_byte_is_survived(at in 0usize..80, byte in any::<u8>()) {
        let mut head = file((3, 0), &dict("<f4", "False", "(12, 5)"));
        let at = at % head.len();
        head[at] = byte;
        if let Ok(npy) = parse(&head, 1 << 20) {
            prop_assert_eq!(npy.bytes, npy.shape.iter().product::<u64>() * npy.dtype.size());
        }
    }
}
