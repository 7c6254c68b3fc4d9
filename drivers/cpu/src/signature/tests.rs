use super::*;
use proptest::prelude::*;
use std::vec::Vec;

fn one(text: &str) -> Result<(ArgKind, u32, Option<ScalarType>), SignatureError> {
    let all: Result<Vec<_>, _> = arguments(text).collect();
    let all = all?;
    assert_eq!(all.len(), 1, "{text}");
    assert_eq!(all[0].name, "x");
    Ok((all[0].slot.kind, all[0].slot.size, all[0].ty))
}

#[test]
fn c_types() {
    use ArgKind::{Buffer, ConstBuffer, Scalar};
    use ScalarType::{F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    for (text, want) in [
        ("float x;", (Scalar, 4, Some(F32))),
        ("const double x", (Scalar, 8, Some(F64))),
        ("int8_t x;", (Scalar, 1, Some(I8))),
        ("unsigned char x;", (Scalar, 1, Some(U8))),
        ("short int x;", (Scalar, 2, Some(I16))),
        ("unsigned short x;", (Scalar, 2, Some(U16))),
        ("int x;", (Scalar, 4, Some(I32))),
        ("unsigned x;", (Scalar, 4, Some(U32))),
        ("unsigned int x;", (Scalar, 4, Some(U32))),
        ("int unsigned x;", (Scalar, 4, Some(U32))),
        ("long long x;", (Scalar, 8, Some(I64))),
        ("uint64_t x;", (Scalar, 8, Some(U64))),
        ("float *x;", (Buffer, 8, Some(F32))),
        ("const float *x;", (ConstBuffer, 8, Some(F32))),
        ("float const *x;", (ConstBuffer, 8, Some(F32))),
        ("float *const x;", (Buffer, 8, Some(F32))),
        ("const uint8_t *restrict x;", (ConstBuffer, 8, Some(U8))),
        ("void *x;", (Buffer, 8, None)),
        ("const void*x;", (ConstBuffer, 8, None)),
        ("const float **x;", (Buffer, 8, None)),
        (" ; int16_t\n\tx ", (Scalar, 2, Some(I16))),
    ] {
        assert_eq!(one(text), Ok(want), "{text}");
    }
}

#[test]
fn what_is_refused_says_where() {
    for (text, want) in [
        ("struct s x;", SignatureError::Type { at: 0 }),
        ("float a; quad x;", SignatureError::Type { at: 9 }),
        ("float double x;", SignatureError::Type { at: 0 }),
        ("signed unsigned x;", SignatureError::Type { at: 0 }),
        ("short long x;", SignatureError::Type { at: 0 }),
        ("float x[4];", SignatureError::Declaration { at: 7 }),
        ("void x;", SignatureError::Declaration { at: 5 }),
        ("float", SignatureError::Declaration { at: 5 }),
        ("float ;", SignatureError::Declaration { at: 6 }),
        ("float 3;", SignatureError::Declaration { at: 6 }),
        ("float x y;", SignatureError::Declaration { at: 8 }),
        ("float a,;", SignatureError::Declaration { at: 8 }),
    ] {
        let result: Result<Vec<_>, _> = arguments(text).collect();
        assert_eq!(result, Err(want), "{text}");
    }
}

#[test]
fn several_names_share_a_type() {
    let mut slots = [ArgSlot::buffer(0); 4];
    let layout = parse("const float *x, *y; uint8_t a, b;", &mut slots).expect("a signature");
    let kinds: Vec<_> = layout
        .slots
        .iter()
        .map(|s| (s.offset, s.size, s.kind))
        .collect();
    assert_eq!(
        kinds,
        [
            (0, 8, ArgKind::ConstBuffer),
            (8, 8, ArgKind::ConstBuffer),
            (16, 1, ArgKind::Scalar),
            (17, 1, ArgKind::Scalar)
        ]
    );
    assert_eq!((layout.size, layout.align), (24, 8));
}

#[test]
fn layout_is_that_of_the_c_struct() {
    #[repr(C)]
    struct Args {
        a: u8,
        b: f64,
        c: u16,
        d: u32,
        e: u8,
    }
    let mut slots = [ArgSlot::buffer(0); 5];
    let layout = parse(
        "uint8_t a; double b; uint16_t c; uint32_t d; bool e;",
        &mut slots,
    )
    .expect("a signature");
    let offsets: Vec<_> = layout.slots.iter().map(|s| s.offset as usize).collect();
    let want = [
        core::mem::offset_of!(Args, a),
        core::mem::offset_of!(Args, b),
        core::mem::offset_of!(Args, c),
        core::mem::offset_of!(Args, d),
        core::mem::offset_of!(Args, e),
    ];
    assert_eq!(offsets, want);
    assert_eq!(
        (layout.size as usize, layout.align as usize),
        (size_of::<Args>(), align_of::<Args>())
    );
}

#[test]
fn the_memory_for_slots_is_a_limit() {
    let mut slots = [ArgSlot::buffer(0); 1];
    assert_eq!(
        parse("int a; int b;", &mut slots),
        Err(SignatureError::TooMany { have: 1 })
    );
    assert_eq!(
        parse("", &mut slots).map(|l| (l.slots.len(), l.size, l.align)),
        Ok((0, 0, 1))
    );
}

proptest! {
    #![proptest_config(crate::cases())]
    #[test]
    fn any_text_is_a_signature_or_an_error(text in "(const|float|uint32_t|unsigned|void|long|\\*|,|;| |x|é|\\[|[a-z0-9_])*") {
        let mut slots = [ArgSlot::buffer(0); 16];
        if let Ok(layout) = parse(&text, &mut slots) {
            let mut end = 0;
            for s in layout.slots {
                prop_assert!(s.offset >= end && s.offset.is_multiple_of(s.size));
                end = s.offset + s.size;
            }
            prop_assert!(layout.size >= end);
        }
    }
}
