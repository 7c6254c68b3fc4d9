use super::*;

/// Sets a field by its name.
pub(crate) fn set(
    version: &'static Version,
    words: &mut [u32],
    name: &str,
    index: u16,
    value: u64,
) {
    let field = version.fields.iter().find(|field| field.name == name);
    let field = field.unwrap_or_else(|| panic!("no field {name}"));
    assert!(index < field.count && value >> field.bits == 0, "{name}");
    let first = usize::from(field.bit) + usize::from(field.stride) * usize::from(index);
    for at in 0..usize::from(field.bits) {
        let (word, bit) = ((first + at) / 32, (first + at) % 32);
        words[word] = words[word] & !(1 << bit) | ((value >> at & 1) as u32) << bit;
    }
}

static VERSIONS: [&Version; 3] = [&V03_00, &V04_00, &V05_00];

/// A QMD of the right version, and nothing else.
fn empty(version: &'static Version) -> Vec<u32> {
    let mut words = vec![0; version.words];
    let minor = if version.major == 3 {
        "QMD_VERSION"
    } else {
        "QMD_MINOR_VERSION"
    };
    set(version, &mut words, minor, 0, version.minor.into());
    set(
        version,
        &mut words,
        "QMD_MAJOR_VERSION",
        0,
        version.major.into(),
    );
    if version.major > 3 {
        set(version, &mut words, "QMD_TYPE", 0, 2);
    }
    words
}

#[test]
fn fields_do_not_overlap() {
    for version in VERSIONS {
        let mut seen = vec![None; 32 * version.words];
        for field in version.fields {
            for index in 0..field.count {
                let first = field.bit + field.stride * index;
                for bit in first..first + field.bits {
                    let before = seen[usize::from(bit)].replace(field.name);
                    assert_eq!(before, None, "{} bit {bit}", field.name);
                }
            }
        }
    }
}

#[test]
fn every_name_that_is_asked_for_is_in_a_layout() {
    let known = |name: &str| {
        let mut all = VERSIONS.iter().flat_map(|version| version.fields);
        all.any(|field| field.name == name)
    };
    for name in TAKEN {
        assert!(known(name), "{name}");
    }
    for family in TAKEN_FAMILIES {
        let mut all = VERSIONS.iter().flat_map(|version| version.fields);
        assert!(all.any(|field| field.name.starts_with(family)), "{family}");
    }
}

#[test]
fn a_single_field_means_the_same_in_every_layout() {
    for version in VERSIONS {
        let old = version.major == 3;
        let name = |new: &'static str, old_name: &'static str| if old { old_name } else { new };
        let mut words = empty(version);
        let mut put = |name: &str, index, value| set(version, &mut words, name, index, value);
        put(name("GRID_WIDTH", "CTA_RASTER_WIDTH"), 0, 0x7654_3210);
        put(name("GRID_HEIGHT", "CTA_RASTER_HEIGHT"), 0, 0xFEDC);
        put(name("GRID_DEPTH", "CTA_RASTER_DEPTH"), 0, 3);
        put("CTA_THREAD_DIMENSION0", 0, 33);
        put("CTA_THREAD_DIMENSION1", 0, 2);
        put("CTA_THREAD_DIMENSION2", 0, 5);
        put(name("REGISTER_COUNT", "REGISTER_COUNT_V"), 0, 255);
        put("BARRIER_COUNT", 0, 16);
        put("SASS_VERSION", 0, 0x86);
        put("CONSTANT_BUFFER_VALID", 3, 1);
        put("CONSTANT_BUFFER_SIZE_SHIFTED4", 3, 0x18);
        put("CONSTANT_BUFFER_INVALIDATE", 3, 1);
        put("INVALIDATE_SHADER_DATA_CACHE", 0, 1);
        if old {
            put("CONSTANT_BUFFER_ADDR_LOWER", 3, 0x2345_6780);
            put("CONSTANT_BUFFER_ADDR_UPPER", 3, 0x1_ABCD);
            put("RELEASE1_ENABLE", 0, 1);
            put("RELEASE1_PAYLOAD64B", 0, 1);
            put("RELEASE1_ADDRESS_LOWER", 0, 0x2000_0040);
            put("RELEASE1_ADDRESS_UPPER", 0, 0x10);
            put("RELEASE1_PAYLOAD_LOWER", 0, 7);
            put("RELEASE1_PAYLOAD_UPPER", 0, 8);
            put("DEPENDENT_QMD0_ENABLE", 0, 1);
            put("DEPENDENT_QMD0_ACTION", 0, 1);
        } else {
            let (low, high) = match version.major {
                4 => (0x2345_6780u64, 0x1_ABCD),
                _ => (0x2345_6780u64, 0x1_ABCD),
            };
            let address = (high << 32 | low) >> 6;
            put(
                "CONSTANT_BUFFER_ADDR_LOWER_SHIFTED6",
                3,
                address & 0xFFFF_FFFF,
            );
            put("CONSTANT_BUFFER_ADDR_UPPER_SHIFTED6", 3, address >> 32);
            put("RELEASE_ENABLE", 1, 1);
            put("RELEASE_PAYLOAD64B", 1, 1);
            put("RELEASE_SEMAPHORE1_ADDR_LOWER", 0, 0x2000_0040);
            put("RELEASE_SEMAPHORE1_ADDR_UPPER", 0, 0x10);
            put("RELEASE_SEMAPHORE1_PAYLOAD_LOWER", 0, 7);
            put("RELEASE_SEMAPHORE1_PAYLOAD_UPPER", 0, 8);
            put("DEPENDENT_QMD_ENABLE", 0, 1);
            put("DEPENDENT_QMD_ACTION", 0, 1);
        }
        let pointer = if version.major == 5 {
            "DEPENDENT_QMD_POINTER"
        } else {
            "DEPENDENT_QMD0_POINTER"
        };
        put(pointer, 0, 0x8123_4502);
        if version.major == 5 {
            put(
                "PROGRAM_ADDRESS_LOWER_SHIFTED4",
                0,
                0x8240_0080 >> 4 | 2 << 28,
            );
            put("PROGRAM_ADDRESS_UPPER_SHIFTED4", 0, 8);
            put("SHARED_MEMORY_SIZE_SHIFTED7", 0, 0x800 >> 7);
            put("SHADER_LOCAL_MEMORY_HIGH_SIZE_SHIFTED4", 0, 0x24);
        } else {
            put("PROGRAM_ADDRESS_LOWER", 0, 0x8240_0080);
            put("PROGRAM_ADDRESS_UPPER", 0, 0x82);
            put("SHARED_MEMORY_SIZE", 0, 0x800);
            put("SHADER_LOCAL_MEMORY_HIGH_SIZE", 0, 0x240);
        }
        let grid = Grid::read(version, &words).unwrap();
        assert_eq!(grid.groups, [0x7654_3210, 0xFEDC, 3]);
        assert_eq!(grid.items, [33, 2, 5]);
        assert_eq!((grid.registers, grid.barriers), (255, 16));
        assert_eq!((grid.shared, grid.local), (0x800, [0, 0x240]));
        assert_eq!(grid.sass, Some(0x86));
        assert_eq!(grid.program, 0x82_8240_0080, "{}", version.major);
        let bank = Bank {
            address: 0x1_ABCD_2345_6780,
            bytes: 0x180,
            invalidate: true,
        };
        assert_eq!(grid.banks[3], Some(bank));
        assert_eq!(grid.banks.iter().flatten().count(), 1);
        assert!(grid.invalidate.data && !grid.invalidate.constant);
        let release = Release {
            address: 0x10_2000_0040,
            payload: 8 << 32 | 7,
            wide: true,
            timestamp: true,
            reduction: None,
        };
        assert_eq!(grid.releases, [release]);
        assert_eq!(grid.dependents, [0x81_2345_0200]);
    }
}

#[test]
fn versions_are_told_apart() {
    for version in VERSIONS {
        for other in VERSIONS {
            let mut words = empty(other);
            words.resize(version.words, 0);
            let result = Grid::read(version, &words);
            assert_eq!(
                result.is_ok(),
                std::ptr::eq(version, other),
                "{} {}",
                version.major,
                other.major
            );
        }
    }
}

#[test]
fn reserved_bits_and_other_fields_are_refused() {
    for version in VERSIONS {
        let (mut reserved, mut refused) = (0, 0);
        for bit in 0..32 * version.words {
            let mut words = empty(version);
            words[bit / 32] ^= 1 << (bit % 32);
            let defined = version.defined[bit / 32] & 1 << (bit % 32) != 0;
            match Grid::read(version, &words) {
                Err(Cause::Packet(text)) if text.contains("reserved") => {
                    assert!(!defined, "{text}");
                    reserved += 1;
                }
                Err(_) => refused += 1,
                Ok(_) => assert!(defined, "bit {bit}"),
            }
        }
        assert!(reserved > 60 && refused > 100, "{reserved} {refused}");
    }
}

#[test]
fn a_description_names_what_is_set() {
    let mut words = empty(&V05_00);
    set(&V05_00, &mut words, "CONSTANT_BUFFER_VALID", 2, 1);
    let text = describe(&V05_00, &words);
    assert!(text.contains("CONSTANT_BUFFER_VALID(2) = 0x1"), "{text}");
    assert!(text.contains("QMD_MAJOR_VERSION = 0x5"), "{text}");
}
