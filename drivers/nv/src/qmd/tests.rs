use super::*;
use std::vec::Vec;

const LAYOUTS: [&Layout; 3] = [&V3_0, &V4_0, &V5_0];

#[test]
fn tables_hold_together() {
    for layout in LAYOUTS {
        let bits = layout.words * 32;
        let mut taken: Vec<Option<&str>> = std::vec![None; bits];
        for row in layout.rows {
            for index in 0..usize::from(row.count) {
                let low = usize::from(row.low) + index * usize::from(row.stride);
                let high = low + usize::from(row.width) - 1;
                assert!(high < bits, "{}: {}", layout.major, row.name);
                assert_eq!(
                    low / 32,
                    high / 32,
                    "{}: {} crosses a word",
                    layout.major,
                    row.name
                );
                for (bit, taken) in (low..).zip(&mut taken[low..=high]) {
                    let before = taken.replace(row.name);
                    assert_eq!(before, None, "{}: {} at {bit}", layout.major, row.name);
                }
            }
        }
    }
}

#[test]
fn fields_are_found_by_name_and_read_back() {
    for layout in LAYOUTS {
        let mut words = std::vec![0u32; layout.words];
        for (n, row) in layout.rows.iter().enumerate() {
            words.fill(0);
            let index = row.count - 1;
            let low = usize::from(row.low) + usize::from(index) * usize::from(row.stride);
            words[low / 32] |= 1 << (low % 32);
            let fields = Fields::new(layout, &words).expect("long enough");
            assert_eq!(fields.nth(row.name, index), Some(1), "row {n}");
            let set: Vec<_> = fields.set().collect();
            assert_eq!(set.len(), 1);
            assert_eq!((set[0].row, set[0].index, set[0].low()), (row, index, low));
            assert_eq!(fields.unnamed().next(), None);
        }
        let fields = Fields::new(layout, &words).expect("long enough");
        assert_eq!(fields.get("NO_SUCH_FIELD"), None);
        assert_eq!(fields.nth("QMD_GROUP_ID", 1), None);
        assert!(Fields::new(layout, &words[1..]).is_err());
    }
}

#[test]
fn bits_without_a_name_are_told() {
    let mut words = [0u32; 64];
    // Bit 138 has no name in 3.0.
    words[4] = 1 << 10 | 0x3f;
    let fields = Fields::new(&V3_0, &words).expect("long enough");
    let unnamed: Vec<_> = fields.unnamed().collect();
    assert_eq!(
        unnamed,
        [Unnamed {
            word: 4,
            bits: 1 << 10
        }]
    );
    let text = std::format!("{fields}");
    assert_eq!(text, "QMD_GROUP_ID=0x3f ??[4]=0x400");
}

#[test]
fn bits_of_a_word_go_in_and_nowhere_else() {
    let bits = named(tables::V4_0, "BARRIER_COUNT");
    assert_eq!((bits.word(), bits.at(), bits.width()), (37, 148, 5));
    assert_eq!(bits.field(), Field::new(27, 5));
    let none = named(tables::V4_0, "BARRIER_COUN");
    assert_eq!(none, Bits::NONE);
    assert!(!none.is_sound());
    assert!(same("a", "a") && !same("a", "ab") && !same("ab", "a") && same("", ""));
}
