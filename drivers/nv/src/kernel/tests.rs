use super::*;
use hcq_nostd::mem::Region;
use hcq_nostd::patch::RegionId;

fn kernel(registers: u32) -> Kernel {
    let shader = NakShader {
        entry: 0x1_0000,
        code_bytes: 0x100,
        registers,
        barriers: 0,
        shared_bytes: 0,
        local_bytes: 0,
    };
    shader.kernel()
}

#[test]
fn registers_limit_groups() {
    // What the reference's loader says of the same numbers.
    for (registers, max) in [
        (8, 8192),
        (12, 4096),
        (19, 2688),
        (24, 2688),
        (40, 1536),
        (255, 256),
    ] {
        assert_eq!(kernel(registers).max_by_registers(), max, "{registers}");
    }
    assert_eq!(kernel(24).group_limit(), 1024);
    assert_eq!(kernel(255).group_limit(), 256);
    assert_eq!(kernel(0).group_limit(), 1024);
    assert_eq!(kernel(u32::MAX).group_limit(), 256);
}

fn sizes(kernel: &Kernel, groups: [u64; 3], local: [u64; 3]) -> Result<(), RecordError> {
    let mut none = PatchList::none();
    let (known, limit) = (
        [groups, local].map(|sizes| sizes.map(Value::from)),
        kernel.group_limit(),
    );
    let checked = check_sizes(kernel, &mut none, &known[0], &known[1]);
    // The short way takes what the long one finds sound, and nothing else.
    let sound = sound_sizes(kernel, limit, &known[0], &known[1]);
    let narrow = [groups, local].map(|sizes| sizes.map(|n| n as u32));
    assert_eq!(sound, checked.is_ok().then_some(narrow));
    checked
}

#[test]
fn the_short_way_agrees_with_the_long_one() {
    let edges = |most: u32| [0, 1, most.into(), u64::from(most) + 1, 1 << 32, u64::MAX];
    let asked = Kernel {
        block: Some([1024, 1, 1]),
        ..kernel(24)
    };
    for k in [kernel(24), kernel(255), asked] {
        for d in 0..3 {
            for value in edges(MAX_GRID[d]) {
                let mut groups = [1; 3];
                groups[d] = value;
                let _ = sizes(&k, groups, [1; 3]);
            }
            for value in edges(MAX_BLOCK[d]).into_iter().chain([2, 256, 257]) {
                for other in [1, 2] {
                    let mut local = [other, 1, 1];
                    local[d] = value;
                    let _ = sizes(&k, [1; 3], local);
                }
            }
        }
    }
    // What is not known is not its business.
    let (var, one) = (
        Value::from(hcq_nostd::value::Var::new(0)),
        Value::from(1u64),
    );
    for d in 0..3 {
        let mut late = [one; 3];
        late[d] = var;
        assert_eq!(sound_sizes(&kernel(24), 1024, &late, &[one; 3]), None);
        assert_eq!(sound_sizes(&kernel(24), 1024, &[one; 3], &late), None);
    }
}

#[test]
fn sizes_are_checked_before_anything_is_written() {
    let k = kernel(24);
    assert_eq!(sizes(&k, [1, 1, 1], [1024, 1, 1]), Ok(()));
    assert_eq!(
        sizes(&k, [0x7fff_ffff, 0xffff, 0xffff], [1, 16, 64]),
        Ok(())
    );
    let limit = |operand, value, max| {
        Err(RecordError::Limit {
            operand,
            value,
            max,
        })
    };
    let groups = Operand::Groups;
    assert_eq!(
        sizes(&k, [1 << 31, 1, 1], [1, 1, 1]),
        limit(groups(0), 1 << 31, 0x7fff_ffff)
    );
    assert_eq!(
        sizes(&k, [1, 0x1_0000, 1], [1, 1, 1]),
        limit(groups(1), 0x1_0000, 0xffff)
    );
    assert_eq!(
        sizes(&k, [1, 1, 1], [1, 1, 65]),
        limit(Operand::Local(2), 65, 64)
    );
    assert_eq!(
        sizes(&k, [1, 1, 1], [1025, 1, 1]),
        limit(Operand::Local(0), 1025, 1024)
    );
    assert_eq!(
        sizes(&k, [1, 1, 1], [1024, 2, 1]),
        limit(Operand::Local(3), 2048, 1024)
    );
    assert_eq!(
        sizes(&kernel(255), [1, 1, 1], [257, 1, 1]),
        limit(Operand::Local(3), 257, 256)
    );
    for (g, l) in [([0, 1, 1], [1, 1, 1]), ([1, 1, 1], [1, 0, 1])] {
        assert!(matches!(sizes(&k, g, l), Err(RecordError::Misfit { .. })));
    }
}

#[test]
fn a_kernel_for_one_size_of_group_takes_no_other() {
    let k = Kernel {
        block: Some([64, 1, 1]),
        ..kernel(8)
    };
    assert_eq!(sizes(&k, [9, 1, 1], [64, 1, 1]), Ok(()));
    let operand = Operand::Local(0);
    assert_eq!(
        sizes(&k, [9, 1, 1], [32, 1, 1]),
        Err(RecordError::Unsupported { operand })
    );
}

#[test]
fn arguments_are_checked_by_their_sizes() {
    let slots = [ArgSlot::buffer(0), ArgSlot::scalar(8, 4)];
    let layout = ArgLayout {
        slots: &slots,
        size: 12,
        align: 8,
    };
    let mut memory = [0u64; 2];
    let mut region = Region::from_words(&mut memory, 0);
    let mut write = |args: &[Arg<'_>]| {
        let mut block = Block::new(&mut region, RegionId(1), 0, 16).expect("inside");
        write_arguments(&layout, args, &mut block, &mut PatchList::none())
    };
    let address = Arg::Buffer(7u64.into());
    assert_eq!(write(&[address, 5u32.into()]), Ok(()));
    assert_eq!(write(&[9u64.into(), 5u32.into()]), Ok(()));
    assert_eq!(write(&[Arg::Bytes(&[1; 8]), Arg::Bytes(&[2; 4])]), Ok(()));
    let kind = |index| Err(RecordError::ArgumentKind { index });
    assert_eq!(write(&[5u32.into(), 5u32.into()]), kind(0));
    assert_eq!(write(&[address, 5u64.into()]), kind(1));
    assert_eq!(write(&[address, address]), kind(1));
    assert_eq!(
        write(&[address]),
        Err(RecordError::ArgumentCount { need: 2, have: 1 })
    );
    let scalar = Arg::Scalar {
        value: (1u64 << 32).into(),
        size: 4,
    };
    assert!(matches!(
        write(&[address, scalar]),
        Err(RecordError::Misfit {
            operand: Operand::Argument(1),
            ..
        })
    ));
}
