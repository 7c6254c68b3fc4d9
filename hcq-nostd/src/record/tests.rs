use super::*;
use crate::mem::{AccessError, Region};
use crate::patch::{Derived, Patcher, Site, Store};
use crate::testing::{cases, most};
use crate::value::{Affine, Var};
use proptest::prelude::*;
use std::format;
use std::vec;
use std::vec::Vec;
use zerocopy::IntoBytes;

const FILL: u32 = 0xa5a5_a5a5;

/// Memory of a recording, full of filler.
struct Memory {
    words: Vec<u32>,
    sites: Vec<Site>,
    derived: Vec<Derived>,
}

impl Memory {
    fn new(room: Room) -> Self {
        Self {
            words: vec![FILL; room.words],
            sites: vec![Site::EMPTY; room.sites],
            derived: vec![Derived::EMPTY; room.derived],
        }
    }

    fn recorder(&mut self) -> Recorder<'_> {
        Recorder::new(
            &mut self.words,
            PatchList::new(&mut self.sites, &mut self.derived),
        )
    }
}

const LARGE: Room = Room {
    words: 1000,
    sites: 1000,
    derived: 100,
    beside: 0,
};

/// All that a failed command must leave as it was.
fn state(q: &mut Recorder<'_>) -> (Vec<u32>, Vec<u8>, Room, u32) {
    let sites = zerocopy::IntoBytes::as_bytes(q.list().sites()).to_vec();
    (q.words().to_vec(), sites, q.used(), q.list().vars())
}

#[test]
fn a_failed_command_leaves_nothing_behind() {
    let misfit = Misfit::TooLarge { value: 9, bits: 3 };
    let operand = Operand::Length;
    let errors = [
        RecordError::NoRoom(LARGE),
        RecordError::Misfit { operand, misfit },
        RecordError::NotConstant { operand },
        RecordError::Unsupported { operand },
        RecordError::ArgumentCount { need: 1, have: 2 },
        RecordError::ArgumentKind { index: 3 },
        RecordError::KernargsTooSmall { need: 4, have: 3 },
        RecordError::Limit {
            operand,
            value: 5,
            max: 4,
        },
        RecordError::Patch(BuildError::TooMany),
    ];
    let start = |q: &mut Recorder<'_>| {
        let (a, b) = (q.list().var().expect("room"), q.list().var().expect("room"));
        q.command(|c| {
            c.word(1);
            let grid = c.list().product(a.into(), b.into())?;
            c.pair(grid, Fit::ANY).operand(Operand::Data)
        })
        .expect("room");
        (a, b)
    };
    let end = |q: &mut Recorder<'_>, (a, b): (Var, Var)| {
        q.command(|c| {
            let grid = c.list().product(b.into(), a.into())?;
            c.field(0, grid, Field::new(0, 32))
        })
        .expect("room");
    };
    let mut memory = Memory::new(LARGE);
    let mut q = memory.recorder();
    let vars = start(&mut q);
    end(&mut q, vars);
    let undisturbed = state(&mut q);

    for error in errors {
        let mut memory = Memory::new(LARGE);
        let mut q = memory.recorder();
        let vars = start(&mut q);
        let before = state(&mut q);
        let result = q.command(|c| {
            c.words(&[7; 20]);
            let new = c.list().var()?;
            c.field(0, new.into(), Field::new(4, 8))?;
            let product = c.list().product(new.into(), vars.0.into())?;
            c.pair(product, Fit::ANY).operand(Operand::Data)?;
            // The start of another command's words is out of reach.
            c.set(0, 8);
            Err(error)
        });
        assert_eq!(result.map(|_| ()).unwrap_err(), error);
        assert_eq!(state(&mut q), before, "{error}");
        end(&mut q, vars);
        assert_eq!(state(&mut q), undisturbed, "{error}");
    }
}

#[test]
fn misfits_of_each_operand_leave_nothing_behind() {
    let mut memory = Memory::new(LARGE);
    let mut q = memory.recorder();
    let before = state(&mut q);
    let wide = Value::Imm(1 << 40);
    let swapped = Formula {
        fit: Fit::bits(16),
        ..Formula::low(Var::new(0), Fit::ANY)
    }
    .swapped();
    type Encode = fn(&mut Command<'_, '_>, Value, &Formula) -> Result<(), RecordError>;
    let encoders: [Encode; 5] = [
        |c, v, _| c.field(0, v, Field::new(0, 32)),
        |c, v, _| c.pair(v, Fit::bits(40)).operand(Operand::Signal),
        |c, v, _| {
            c.pair_high_first(v, Fit::bits(40))
                .operand(Operand::Address)
        },
        |c, v, f| c.formula(v, f).operand(Operand::Mask),
        |c, v, _| {
            c.word(0);
            c.set_field(0, 1, v, Field::new(8, 16))
                .operand(Operand::Groups(2))
        },
    ];
    for encode in encoders {
        let result = q.command(|c| {
            c.word(3);
            encode(c, wide, &swapped)
        });
        assert!(matches!(
            result.map(|_| ()),
            Err(RecordError::Misfit { .. })
        ));
        assert_eq!(state(&mut q), before);
    }
    // A base that the field's bits carry out of the word.
    let carry = q.command(|c| c.field(u32::MAX, Value::Imm(1), Field::new(0, 32)));
    assert!(matches!(carry.map(|_| ()), Err(RecordError::Misfit { .. })));
    assert_eq!(state(&mut q), before);
}

/// One step of a command.
#[derive(Clone, Copy, Debug)]
enum Step {
    Word(u32),
    Words(usize),
    Field(Value, u8),
    Pair(Value),
    HighFirst(Value),
    Formula(Value, Store, bool),
    Product(Affine, Affine),
    Var,
}

fn affine() -> impl Strategy<Value = Affine> {
    (0u32..4, 1u64..3, 0u64..3).prop_map(|(var, scale, add)| Affine {
        var: Var::new(var),
        scale,
        add,
    })
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        affine().prop_map(Value::Var),
        (0u64..200).prop_map(Value::Imm)
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let stores = [
        Store::W8,
        Store::W16,
        Store::W32,
        Store::W64,
        Store::Low32,
        Store::High32,
    ];
    prop_oneof![
        any::<u32>().prop_map(Step::Word),
        (0usize..6).prop_map(Step::Words),
        (value(), 0u8..24).prop_map(|(v, s)| Step::Field(v, s)),
        value().prop_map(Step::Pair),
        value().prop_map(Step::HighFirst),
        (
            value(),
            prop::sample::select(stores.to_vec()),
            any::<bool>()
        )
            .prop_map(|(v, s, b)| Step::Formula(v, s, b)),
        (affine(), affine()).prop_map(|(a, b)| Step::Product(a, b)),
        Just(Step::Var),
    ]
}

fn of_formula(store: Store, swap: bool) -> Formula {
    Formula {
        swap,
        base: 3,
        fit: Fit::ANY,
        ..Formula::narrow(Var::new(0), store)
    }
}

fn encode(c: &mut Command<'_, '_>, steps: &[Step]) -> Result<(), RecordError> {
    for step in steps {
        match *step {
            Step::Word(w) => c.word(w),
            Step::Words(n) => c.words(&[9; 6][..n]),
            Step::Field(v, shift) => c.field(1 << 31, v, Field::new(shift, 8))?,
            Step::Pair(v) => c.pair(v, Fit::ANY).operand(Operand::Data)?,
            Step::HighFirst(v) => c.pair_high_first(v, Fit::ANY).operand(Operand::Data)?,
            Step::Formula(v, s, swap) => {
                c.formula(v, &of_formula(s, swap)).operand(Operand::Data)?
            }
            Step::Product(a, b) => {
                let v = c.list().product(a.into(), b.into())?;
                c.pair(v, Fit::ANY).operand(Operand::Data)?;
            }
            Step::Var => drop(c.list().var()?),
        }
    }
    Ok(())
}

/// The words of the steps when every variable has this value, straight from what each step means.
fn meaning(steps: &[Step], x: u64) -> Vec<u32> {
    let mut out = vec![];
    let number = |v: Value| v.eval(|_| x);
    for step in steps {
        match *step {
            Step::Word(w) => out.push(w),
            Step::Words(n) => out.extend(&[9; 6][..n]),
            Step::Field(v, shift) => out.push((1 << 31) + ((number(v) as u32) << shift)),
            Step::Pair(v) => out.extend([number(v) as u32, (number(v) >> 32) as u32]),
            Step::HighFirst(v) => out.extend([(number(v) >> 32) as u32, number(v) as u32]),
            Step::Formula(v, store, swap) => {
                let bytes = if matches!(store, Store::Low32 | Store::High32) {
                    8
                } else {
                    store.bytes() as usize
                };
                let mask = if matches!(store, Store::W64) {
                    u64::MAX
                } else {
                    (1 << (store.bytes() * 8)) - 1
                };
                let word = (number(v) & mask) + 3;
                let mut le = word.to_le_bytes()[..bytes].to_vec();
                if swap {
                    le.reverse();
                }
                let part = match store {
                    Store::Low32 => &le[..4],
                    Store::High32 => &le[4..],
                    _ => &le[..],
                };
                let mut padded = part.to_vec();
                padded.resize(part.len().next_multiple_of(4), 0);
                out.extend(
                    padded
                        .chunks(4)
                        .map(|w| u32::from_le_bytes(w.try_into().expect("four bytes"))),
                );
            }
            Step::Product(a, b) => {
                let v = a.eval(x) * b.eval(x);
                out.extend([v as u32, (v >> 32) as u32]);
            }
            Step::Var => {}
        }
    }
    out
}

fn declare(q: &mut Recorder<'_>) {
    for _ in 0..4 {
        q.list().var().expect("room");
    }
}

/// Records the commands; the number recorded, and the first error.
fn record(q: &mut Recorder<'_>, commands: &[Vec<Step>]) -> (usize, Option<RecordError>) {
    declare(q);
    for (n, steps) in commands.iter().enumerate() {
        let before = state(q);
        if let Err(e) = q.command(|c| encode(c, steps)) {
            assert_eq!(state(q), before);
            return (n, Some(e));
        }
    }
    (commands.len(), None)
}

fn less(room: Room) -> impl Iterator<Item = Room> {
    let w = room
        .words
        .checked_sub(1)
        .map(|words| Room { words, ..room });
    let s = room
        .sites
        .checked_sub(1)
        .map(|sites| Room { sites, ..room });
    let d = room
        .derived
        .checked_sub(1)
        .map(|derived| Room { derived, ..room });
    [w, s, d].into_iter().flatten()
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn the_room_asked_for_is_exactly_what_it_takes(
        commands in prop::collection::vec(prop::collection::vec(step(), 0..most(12)), 1..6),
        scant in any::<prop::sample::Index>(),
    ) {
        let mut memory = Memory::new(LARGE);
        let mut q = memory.recorder();
        prop_assert_eq!(record(&mut q, &commands), (commands.len(), None));
        let (whole, used) = (state(&mut q), q.used());
        prop_assert!(memory.words[used.words..].iter().all(|&w| w == FILL), "words beyond the end were stored");

        // Exactly that much is enough, and gives the same.
        let mut exact = Memory::new(used);
        let mut q = exact.recorder();
        prop_assert_eq!(record(&mut q, &commands), (commands.len(), None));
        prop_assert_eq!(state(&mut q), whole);

        // Over no memory at all, one command with all of it measures the same.
        let mut nothing = Memory::new(Room::default());
        let mut q = nothing.recorder();
        declare(&mut q);
        let all = commands.concat();
        let measured = q.command(|c| encode(c, &all)).map(|_| ());
        prop_assert_eq!(measured, if used == Room::default() { Ok(()) } else { Err(RecordError::NoRoom(used)) });
        prop_assert_eq!(q.used(), Room::default());

        // With less, the error at each command is exact for the commands up to it.
        let room = Room { words: scant.index(used.words + 1), sites: scant.index(used.sites + 1), ..used };
        for room in less(used).chain([room]) {
            let mut scant = Memory::new(room);
            let (n, error) = record(&mut scant.recorder(), &commands);
            if room == used {
                prop_assert_eq!(error, None);
                continue;
            }
            let Some(RecordError::NoRoom(need)) = error else {
                return Err(TestCaseError::fail(format!("{error:?}")));
            };
            let upto = &commands[..=n];
            prop_assert_eq!(record(&mut Memory::new(need).recorder(), upto), (n + 1, None));
            for room in less(need) {
                let (m, error) = record(&mut Memory::new(room).recorder(), upto);
                prop_assert!(m <= n, "{:?} was enough for {} commands", room, m);
                prop_assert!(m < n || error == Some(RecordError::NoRoom(need)), "{:?}", error);
            }
        }
    }

    #[test]
    fn patched_words_are_those_of_a_recording_with_the_numbers(
        steps in prop::collection::vec(step(), 0..most(40)),
        x in 0u64..100,
    ) {
        // Values below 256, so that all fields take them.
        let mut memory = Memory::new(LARGE);
        let mut q = memory.recorder();
        declare(&mut q);
        q.command(|c| encode(c, &steps)).expect("room");
        let (len, mut list) = q.finish();
        let sizes = [len.div_ceil(2) as u64 * 8];
        let mut table = vec![0; list.table_words(&sizes).expect("complete")];
        let table = list.build(&sizes, &mut table).expect("room");
        let mut state = vec![0; table.state_words()];
        let mut patcher = Patcher::new(table, &mut state).expect("room");
        let is_input = |v: &u32| !table.is_derived(Var::new(*v));
        for v in (0..table.vars()).filter(is_input) {
            patcher.set(Var::new(v), x).expect("an input");
        }
        let mut words = vec![0u64; len.div_ceil(2)];
        let mut region = Region::from_words(&mut words, 0);
        region.write_words(0, &memory.words[..len]).expect("inside");
        patcher.apply(&mut [region]).expect("all fit");
        let got: &[u32] = zerocopy::transmute_ref!(words.as_slice());
        let want = meaning(&steps, x);
        prop_assert_eq!(&got[..len], want.as_slice());
    }
}

#[test]
fn unresolved_words_are_poison() {
    let mut memory = Memory::new(LARGE);
    let mut q = memory.recorder();
    let v = Value::from(q.list().var().expect("room"));
    let narrow = |store| Formula::narrow(Var::new(0), store);
    q.command(|c| {
        c.field(0xff, v, Field::new(8, 8))?;
        c.pair(v, Fit::ANY).operand(Operand::Data)?;
        c.pair_high_first(v, Fit::ANY).operand(Operand::Data)?;
        c.formula(v, &narrow(Store::W16)).operand(Operand::Data)?;
        c.formula(v, &narrow(Store::W8)).operand(Operand::Data)?;
        c.formula(v, &narrow(Store::W64)).operand(Operand::Data)
    })
    .expect("room");
    let p = POISON;
    assert_eq!(q.words(), [p, p, p, p, p, p & 0xffff, p & 0xff, p, p]);
    let places: Vec<u32> = q.list().sites().iter().map(|s| s.place().1).collect();
    assert_eq!(places, [0, 4, 12, 16, 20, 24, 28]);
}

#[test]
fn words_of_an_earlier_command_are_out_of_reach() {
    let mut memory = Memory::new(LARGE);
    let mut q = memory.recorder();
    q.command(|c| {
        c.word(1);
        Ok(())
    })
    .expect("room");
    q.command(|c| {
        assert_eq!(c.position(), 0);
        c.words(&[2, 3]);
        c.set(0, 4);
        c.set(1, 5);
        assert_eq!(c.position(), 2);
        Ok(())
    })
    .expect("room");
    assert_eq!(q.words(), [1, 4, 5]);
    q.command(|c| {
        c.set(usize::MAX, 6);
        Ok(())
    })
    .expect("room");
    assert_eq!(q.words(), [1, 4, 5]);
    q.clear();
    assert_eq!(
        (q.words().len(), q.used(), q.list().vars()),
        (0, Room::default(), 0)
    );
}

#[test]
fn a_queue_can_be_any_region() {
    let mut memory = Memory::new(LARGE);
    let Memory {
        words,
        sites,
        derived,
    } = &mut memory;
    let list = PatchList::new(sites, derived);
    let mut q = Recorder::in_region(words, list, RegionId(5));
    let v = Value::from(q.list().var().expect("room"));
    q.command(|c| {
        c.word(0);
        c.pair(v, Fit::ANY).operand(Operand::Data)
    })
    .expect("room");
    assert_eq!(q.list().sites()[0].place(), (RegionId(5), 4));
    assert_eq!(
        q.list().table_words(&[8]),
        Err(BuildError::NoSuchRegion { region: 5 })
    );
}

#[test]
fn a_block_stays_inside() {
    let mut backing = [0x5555_5555_5555_5555u64; 4];
    let mut region = Region::from_words(&mut backing, 0x1000);
    let outside = Block::new(&mut region, RegionId(1), 24, 9).map(|_| ());
    assert_eq!(
        outside,
        Err(AccessError::OutOfBounds {
            offset: 24,
            len: 9,
            region: 32
        })
    );
    assert!(Block::new(&mut region, RegionId(1), usize::MAX, 2).is_err());
    let mut list_memory = Memory::new(LARGE);
    let mut list = PatchList::new(&mut list_memory.sites, &mut list_memory.derived);
    let v = Value::from(list.var().expect("room"));
    let mut block = Block::new(&mut region, RegionId(1), 8, 16).expect("inside");
    assert_eq!((block.len(), block.is_empty()), (16, false));
    assert_eq!(
        (block.device_address(16), block.device_address(17)),
        (Some(0x1018), None)
    );
    let too_small = |need| RecordError::KernargsTooSmall { need, have: 16 };
    assert_eq!(block.write(9, &[0; 8]), Err(too_small(17)));
    assert_eq!(block.write(usize::MAX, &[0; 8]), Err(too_small(usize::MAX)));
    for value in [v, Value::Imm(1)] {
        let operand = Operand::Argument(3);
        assert_eq!(
            block.whole(&mut list, 12, value, Store::W64, operand),
            Err(too_small(20))
        );
        assert_eq!(
            block.whole(&mut list, usize::MAX, value, Store::W8, operand),
            Err(too_small(usize::MAX))
        );
    }
    let misfit = Misfit::TooLarge {
        value: 256,
        bits: 8,
    };
    assert_eq!(
        block.whole(
            &mut list,
            0,
            Value::Imm(256),
            Store::W8,
            Operand::Argument(3)
        ),
        Err(RecordError::Misfit {
            operand: Operand::Argument(3),
            misfit
        })
    );
    assert_eq!(
        (list.used().sites, backing),
        (0, [0x5555_5555_5555_5555; 4])
    );

    let mut region = Region::from_words(&mut backing, 0x1000);
    let mut block = Block::new(&mut region, RegionId(1), 8, 16).expect("inside");
    block.reborrow().write(0, &[1, 2, 3]).expect("inside");
    block
        .whole(&mut list, 3, Value::Imm(4), Store::W8, Operand::Data)
        .expect("inside");
    block
        .whole(&mut list, 4, v, Store::W16, Operand::Data)
        .expect("inside");
    block
        .whole(&mut list, 8, v + 1, Store::W64, Operand::Data)
        .expect("inside");
    let poison = u64::from(POISON);
    assert_eq!(backing[1], 0x5555_0000_0403_0201 | (poison & 0xffff) << 32);
    assert_eq!(
        (backing[0], backing[2], backing[3]),
        (backing[3], poison << 32 | poison, 0x5555_5555_5555_5555)
    );
    let places: Vec<_> = list.sites().iter().map(Site::place).collect();
    assert_eq!(places, [(RegionId(1), 12), (RegionId(1), 16)]);
}

#[test]
fn errors_say_which_operand_and_how() {
    let misfit = Misfit::Misaligned {
        value: 0x18,
        align_log2: 4,
    };
    for (error, text) in [
        (
            RecordError::NoRoom(Room {
                words: 3,
                sites: 2,
                derived: 1,
                beside: 0,
            }),
            "needs 3 words, 2 sites, 1 derived variables, 0 bytes beside",
        ),
        (
            RecordError::Misfit {
                operand: Operand::Groups(2),
                misfit,
            },
            "groups, dimension 2: 0x18 is not a multiple of 2^4",
        ),
        (
            RecordError::Limit {
                operand: Operand::Local(3),
                value: 9,
                max: 8,
            },
            "work-items per group: 9 exceeds 8",
        ),
        (
            RecordError::ArgumentCount { need: 1, have: 2 },
            "the program takes 1 arguments, 2 were given",
        ),
    ] {
        assert_eq!(format!("{error}"), text);
    }
}

#[test]
fn a_recording_goes_on_in_larger_memory() {
    let (mut sites, mut derived) = ([Site::EMPTY; 4], [Derived::EMPTY; 2]);
    let mut words = [0u32; 8];
    let record = |q: &mut Recorder<'_>, product: Value| {
        q.command(|c| c.field(0, product, Field::new(0, 32)))
            .map(|_| ())
    };
    // In one go.
    let mut list = PatchList::new(&mut sites, &mut derived);
    let (a, b) = (list.var().expect("few"), list.var().expect("few"));
    let product = list.product(a.into(), b.into()).expect("variables");
    let mut q = Recorder::new(&mut words, list);
    record(&mut q, product).expect("room");
    record(&mut q, product).expect("room");
    let (len, mut list) = q.finish();
    let mut whole = [0u64; 128];
    let whole_len = list
        .build(&[len as u64 * 4], &mut whole)
        .expect("sound")
        .as_bytes()
        .len();

    // The same with a stop in between, and memory that grew.
    let (mut sites, mut derived) = ([Site::EMPTY; 3], [Derived::EMPTY; 1]);
    let mut words = [0u32; 1];
    let mut list = PatchList::new(&mut sites, &mut derived);
    let (a, b) = (list.var().expect("few"), list.var().expect("few"));
    let product = list.product(a.into(), b.into()).expect("variables");
    let mut q = Recorder::new(&mut words, list);
    record(&mut q, product).expect("room");
    let (len, list) = q.finish();
    let (used, vars) = (list.used(), list.vars());
    let (mut sites, mut words) = (
        [sites.as_slice(), &[Site::EMPTY; 1]].concat(),
        [words[0], 0],
    );
    let too_few = PatchList::resume(&mut [], &mut derived, used, vars).map(|_| ());
    assert_eq!(too_few, Err(BuildError::NoRoom(used)));
    let list = PatchList::resume(&mut sites, &mut derived, used, vars).expect("all there");
    let mut q = Recorder::resume(&mut words, len, list, RegionId(0)).expect("all there");
    let again = q.list().product(a.into(), b.into()).expect("variables");
    assert_eq!(again, product, "what was derived before is found");
    record(&mut q, again).expect("room");
    let (len, mut list) = q.finish();
    let mut resumed = [0u64; 128];
    let table = list.build(&[len as u64 * 4], &mut resumed).expect("sound");
    assert_eq!(table.as_bytes(), &whole.as_bytes()[..whole_len]);
    assert!(Recorder::resume(&mut [], 1, PatchList::none(), RegionId(0)).is_err());
}

#[test]
fn claimed_words_are_counted_when_there_is_no_room() {
    let mut words = [9u32; 5];
    let mut q = Recorder::new(&mut words, PatchList::none());
    q.command(|c| {
        c.word(1);
        let claimed: &mut [u32; 3] = c.claim().expect("room");
        assert_eq!(*claimed, [9; 3], "what the memory held");
        *claimed = [2, 3, 4];
        assert_eq!(c.position(), 4);
        Ok(())
    })
    .expect("room");
    // One word is left: neither two, nor any behind them.
    let full = q.command(|c| {
        assert_eq!(c.claim::<2>(), None);
        assert_eq!(c.claim::<1>(), None);
        c.word(7);
        Ok(())
    });
    assert!(matches!(full, Err(RecordError::NoRoom(need)) if need.words == 8));
    assert_eq!(q.words(), [1, 2, 3, 4]);
    q.command(|c| {
        assert_eq!(c.claim::<0>(), Some(&mut []));
        *c.claim().expect("one word") = [5];
        assert_eq!(c.claim::<0>(), Some(&mut []));
        Ok(())
    })
    .expect("room");
    assert_eq!(q.words(), [1, 2, 3, 4, 5]);
}
