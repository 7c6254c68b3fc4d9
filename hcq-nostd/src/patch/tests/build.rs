//! What a list refuses, how large its table is, and the room that it asks for.

use super::*;
use crate::mem::Region;

const PLAIN: RegionId = RegionId(0);

fn one(offset: u32, f: impl Fn(Var) -> Formula, regions: &[u64]) -> Result<Vec<u64>, BuildError> {
    let mut room = Room::new(4);
    let mut list = room.list();
    let var = list.var()?;
    list.site(PLAIN, offset, &f(var));
    built(&mut list, regions)
}

#[test]
fn a_site_must_lie_in_its_region_and_at_its_alignment() {
    let stores = [
        Store::W8,
        Store::W16,
        Store::W32,
        Store::W64,
        Store::Low32,
        Store::High32,
    ];
    for store in stores {
        let f = |var| Formula {
            store,
            ..Formula::whole(var)
        };
        for offset in (0..40).filter(|o| !cfg!(miri) || *o > 20) {
            let inside = offset + store.bytes() <= 32 && offset % store.align() == 0;
            let want = if inside {
                Ok(())
            } else {
                Err(BuildError::Place { region: 0, offset })
            };
            assert_eq!(
                one(offset, f, &[32]).map(|_| ()),
                want,
                "{store:?} at {offset}"
            );
        }
        assert!(one(u32::MAX, f, &[32]).is_err());
    }
}

#[test]
fn a_region_must_have_a_size() {
    let mut room = Room::new(4);
    for region in [1, 7, u16::MAX] {
        let mut list = room.list();
        let a = list.var().expect("room");
        list.derive(Derived::product(a, a)).expect("room");
        list.site(RegionId(region), 0, &Formula::whole(a));
        assert_eq!(
            list.table_words(&[64]),
            Err(BuildError::NoSuchRegion { region })
        );
    }
    let mut list = room.list();
    if cfg!(miri) {
        return; // 65535 regions take Miri long, and no unsafe line is in them
    }
    let many = vec![8; usize::from(u16::MAX)];
    assert_eq!(list.table_words(&many), Err(BuildError::TooMany));
    assert!(list.table_words(&many[1..]).is_ok());
}

#[test]
fn a_variable_must_have_been_declared() {
    for (offset, f) in [
        (0, Formula::whole as fn(Var) -> Formula),
        (4, |v| Formula::low(v, Fit::ANY)),
    ] {
        let mut room = Room::new(4);
        let mut list = room.list();
        list.var().expect("room");
        for n in [1, 2, u32::MAX] {
            let mark = list.mark();
            list.site(PLAIN, offset, &f(Var::new(n)));
            assert_eq!(
                list.table_words(&[64]),
                Err(BuildError::NoSuchVariable { var: Var::new(n) })
            );
            list.rewind(mark);
        }
        let unknown = Derived::product(Var::new(0), Var::new(1));
        assert_eq!(
            list.derive(unknown),
            Err(BuildError::Malformed(TableError::Derived { index: 0 }))
        );
        assert_eq!((list.vars(), list.used()), (1, PatchRoom::default()));
    }
}

#[test]
fn no_two_sites_may_share_a_byte() {
    let widths = [Store::W8, Store::W16, Store::W32, Store::W64];
    for a in widths {
        for b in widths {
            for at in (0..24).step_by(b.align() as usize) {
                let mut room = Room::new(4);
                let mut list = room.list();
                let var = list.var().expect("room");
                list.site(
                    PLAIN,
                    at,
                    &Formula {
                        store: b,
                        ..Formula::whole(var)
                    },
                );
                list.site(
                    PLAIN,
                    8,
                    &Formula {
                        store: a,
                        ..Formula::whole(var)
                    },
                );
                let apart = at + b.bytes() <= 8 || at >= 8 + a.bytes();
                let want = if apart {
                    Ok(())
                } else {
                    Err(BuildError::Overlap {
                        region: 0,
                        offset: at.max(8),
                    })
                };
                assert_eq!(
                    list.table_words(&[64]).map(|_| ()),
                    want,
                    "{a:?} at 8, {b:?} at {at}"
                );
            }
        }
    }
}

#[test]
fn a_formula_must_be_one() {
    let malformed = Err(BuildError::Malformed(TableError::Formula { index: 0 }));
    assert_eq!(
        one(
            0,
            |v| Formula {
                shr: 64,
                ..Formula::whole(v)
            },
            &[64]
        ),
        malformed
    );
    assert_eq!(
        one(
            0,
            |v| Formula {
                shl: 64,
                ..Formula::whole(v)
            },
            &[64]
        ),
        malformed
    );
    let mut room = Room::new(4);
    let mut list = room.list();
    let a = list.var().expect("room");
    let term = Term::part(a, 64, 8, 0);
    let refused = list.derive(Derived::sum(0, &[term]).expect("one term"));
    assert_eq!(
        refused,
        Err(BuildError::Malformed(TableError::Derived { index: 0 }))
    );
    assert!(
        Derived::sum(0, &[]).is_none() && Derived::sum(0, &[Term::masked(a, 8, 0); 4]).is_none()
    );
}

#[test]
fn a_refused_build_can_be_corrected() {
    let mut room = Room::new(8);
    let mut list = room.list();
    let (a, b) = (list.var().expect("room"), list.var().expect("room"));
    list.site(PLAIN, 0, &Formula::whole(a));
    list.site(RegionId(1), 4, &Formula::low(b, Fit::ANY));
    assert_eq!(
        list.table_words(&[8]),
        Err(BuildError::NoSuchRegion { region: 1 })
    );
    let need = list.table_words(&[8, 8]).expect("now complete");
    let mut out = vec![0x5555; need + 1];
    assert_eq!(
        list.build(&[8, 8], &mut out[..need - 1]).map(|_| ()),
        Err(BuildError::TableTooSmall {
            need,
            have: need - 1
        })
    );
    assert!(out[..need].iter().all(|&w| w == 0x5555));
    assert_eq!(list.build(&[8, 8], &mut out).map(|t| t.sites()), Ok(2));
    assert_eq!(out[need], 0x5555);
    // Planned already, and checked against other sizes all the same.
    assert_eq!(
        list.table_words(&[8, 4]),
        Err(BuildError::Place {
            region: 1,
            offset: 4
        })
    );
    assert_eq!(
        list.table_words(&[4, 8]),
        Err(BuildError::Place {
            region: 0,
            offset: 0
        })
    );
    // More recording after a build.
    list.site(PLAIN, 8, &Formula::whole(b));
    let c = list.var().expect("room");
    list.site(PLAIN, 16, &Formula::whole(c));
    let bytes = built(&mut list, &[24, 8]).expect("complete");
    assert_eq!((table(&bytes).sites(), table(&bytes).vars()), (4, 3));
    assert_eq!(table(&bytes).region_bytes().collect::<Vec<_>>(), [24, 8]);
}

#[test]
fn room_is_asked_for_exactly() {
    let record = |list: &mut PatchList<'_>| {
        let v: Vec<Var> = (0..6).map(|_| list.var().expect("room")).collect();
        // Three grid sizes twice over, then one that is new, then the first again.
        for (a, b) in [
            (0, 1),
            (2, 3),
            (4, 5),
            (0, 1),
            (2, 3),
            (4, 5),
            (1, 1),
            (2, 3),
        ] {
            let grid = list.product(v[a].into(), v[b].into()).expect("declared");
            let Value::Var(of) = grid else {
                panic!("{grid:?} is a variable")
            };
            list.site(PLAIN, list.used().sites as u32 * 8, &Formula::whole(of));
        }
        list.used()
    };
    let need = record(&mut PatchList::none());
    assert_eq!(
        need,
        PatchRoom {
            sites: 8 + 7,
            derived: 4
        }
    );
    for (sites, derived) in [
        (need.sites, need.derived),
        (need.sites - 1, need.derived),
        (need.sites, need.derived - 1),
    ] {
        let (mut s, mut d) = (vec![Site::EMPTY; sites], vec![Derived::EMPTY; derived]);
        let mut list = PatchList::new(&mut s, &mut d);
        assert_eq!(record(&mut list), need);
        let exact = (sites, derived) == (need.sites, need.derived);
        let want = if exact {
            Ok(())
        } else {
            Err(BuildError::NoRoom(need))
        };
        assert_eq!(list.table_words(&[1 << 20]).map(|_| ()), want);
    }
}

#[test]
fn a_plain_pointer_takes_eight_bytes_at_most() {
    const N: usize = if cfg!(miri) { 80 } else { 2000 };
    let constant = 128;
    for vars in [1, 2, N / 20, N / 5 - 1, N / 5, N / 5 + 1, N / 2, N] {
        let mut room = Room::new(N);
        let mut list = room.list();
        for _ in 0..vars {
            list.var().expect("room");
        }
        for i in 0..N {
            list.site(
                PLAIN,
                i as u32 * 8,
                &Formula::whole(Var::new((i % vars) as u32)),
            );
        }
        let bytes = built(&mut list, &[N as u64 * 8]).expect("complete").len() * 8;
        assert!(bytes <= 8 * N + constant, "{vars} variables: {bytes} bytes");
    }
}

#[test]
fn many_variables_of_which_few_are_pointers_do_not_cost_a_dense_list() {
    const N: u32 = if cfg!(miri) { 80 } else { 2000 };
    let mut room = Room::new(N as usize);
    let mut list = room.list();
    for _ in 0..N {
        list.var().expect("room");
    }
    for i in 0..N {
        list.site(PLAIN, i * 8, &Formula::whole(Var::new(N - 1)));
    }
    let bytes = built(&mut list, &[u64::from(N) * 8])
        .expect("complete")
        .len()
        * 8;
    // The index of runs takes a quarter of a byte per variable.
    assert!(
        bytes <= 4 * N as usize + N as usize / 4 + 256,
        "{bytes} bytes"
    );
}

#[test]
fn variables_declared_after_a_build_count() {
    let build = |early: bool| {
        let mut room = Room::new(8);
        let mut list = room.list();
        let mut words = 0;
        for v in 0..8 {
            let var = list.var().expect("room");
            list.site(PLAIN, v * 8, &Formula::whole(var));
        }
        if early {
            words = list.table_words(&[64]).expect("complete");
        }
        for _ in 0..200 {
            list.var().expect("room");
        }
        (words, built(&mut list, &[64]).expect("complete"))
    };
    let ((few, late), (_, once)) = (build(true), build(false));
    assert!(few < late.len());
    assert_eq!(late, once);
}

#[test]
fn only_values_of_one_kind_take_a_derived_variable() {
    let mut room = Room::new(4);
    let mut list = room.list();
    let a = Value::from(list.var().expect("room"));
    assert_eq!(
        list.product(Value::Imm(6), Value::Imm(7)),
        Ok(Value::Imm(42))
    );
    assert_eq!(list.product(a + 1, Value::Imm(7)), Ok(a * 7 + 7));
    assert_eq!(list.product(Value::Imm(7), a + 1), Ok(a * 7 + 7));
    assert_eq!(list.used().derived, 0);
    list.product(a, a + 1).expect("room");
    let wide = Value::Imm(1 << 63);
    let overflow = Err(BuildError::Product { a: 1 << 63, b: 2 });
    assert_eq!(list.product(wide, Value::Imm(2)), overflow);
    assert_eq!(list.product(wide, Value::Imm(1)), Ok(wide));
    // The same variable twice feeds once.
    assert_eq!(
        list.used(),
        PatchRoom {
            sites: 1,
            derived: 1
        }
    );
    list.clear();
    assert_eq!(
        (list.used(), list.vars(), list.sites().len()),
        (PatchRoom::default(), 0, 0)
    );
}

/// A recording that moves takes along what derived variables are made of, derived ones too.
#[test]
fn derived_variables_of_derived_ones_move_to_another_list() {
    let (mut sites, mut derived) = ([Site::EMPTY; 16], [Derived::EMPTY; 4]);
    let mut list = PatchList::new(&mut sites, &mut derived);
    let v: [Var; 3] = core::array::from_fn(|_| list.var().expect("few"));
    let xy = list.product(v[0].into(), v[1].into()).expect("room");
    let xyz = list.product(xy, v[2].into()).expect("room");
    assert!(xyz.imm().is_none());
    assert_eq!(list.used().derived, 2);

    // There are more variables there, and one product has been made already.
    let (mut more_sites, mut more) = ([Site::EMPTY; 16], [Derived::EMPTY; 4]);
    let mut there = PatchList::new(&mut more_sites, &mut more);
    let own: [Var; 7] = core::array::from_fn(|_| there.var().expect("few"));
    let known = there.product(own[0].into(), own[1].into()).expect("room");
    let first = there.derive(derived[0].renumbered(3, &[])).expect("room");
    assert_eq!(Value::from(first), known, "the same product is found");
    let second = there
        .derive(derived[1].renumbered(3, &[first]))
        .expect("room");

    there.site(PLAIN, 0, &Formula::whole(second));
    let bytes = built(&mut there, &[8]).expect("complete");
    let mut state = vec![0; table(&bytes).state_words()];
    let mut patcher = Patcher::new(table(&bytes), &mut state).expect("room");
    for (n, var) in own.into_iter().enumerate() {
        patcher.set(var, n as u64 + 2).expect("an input");
    }
    let mut memory = [0u64; 1];
    patcher
        .apply(&mut [crate::mem::Region::from_words(&mut memory, 0)])
        .expect("it fits");
    assert_eq!(memory, [2 * 3 * 4]);
}

#[test]
fn a_variable_may_have_hundreds_of_fields_among_others_with_few() {
    const SITES: u32 = if cfg!(miri) { 30 } else { 300 };
    const OTHERS: u32 = 20;
    let mut room = Room::new((SITES + OTHERS) as usize);
    let mut list = room.list();
    for v in 0..=OTHERS {
        let var = list.var().expect("room");
        let (first, n) = if v == 0 {
            (0, SITES)
        } else {
            (SITES + v - 1, 1)
        };
        for word in first..first + n {
            let formula = Formula::low(var, Fit::count(32));
            list.site(PLAIN, word * 4, &formula);
        }
    }
    let words = built(&mut list, &[u64::from(SITES + OTHERS) * 4]).expect("complete");
    assert_eq!(table(&words).lists.len(), 1);
    let mut state = vec![0; table(&words).state_words()];
    let mut patcher = Patcher::new(table(&words), &mut state).expect("room");
    let mut memory = [0u64; (SITES + OTHERS) as usize / 2];
    let mut regions = [Region::from_words(&mut memory, 0x1000)];
    for v in 0..=OTHERS {
        patcher.set(Var::new(v), 100 + u64::from(v)).expect("known");
    }
    let all = (SITES + OTHERS) as usize;
    assert_eq!(patcher.apply(&mut regions), Ok(all));
    for word in 0..SITES + OTHERS {
        let of = word.saturating_sub(SITES - 1);
        assert_eq!(
            regions[0].load_u32(word as usize * 4),
            Ok(100 + of),
            "{word}"
        );
    }
    patcher.set(Var::new(0), 7).expect("known");
    assert_eq!(patcher.apply(&mut regions), Ok(SITES as usize));
    assert_eq!(regions[0].load_u32((SITES as usize - 1) * 4), Ok(7));
}

#[test]
fn fields_of_many_variables_take_little_more_than_their_offsets() {
    const N: u32 = if cfg!(miri) { 66 } else { 1300 };
    let each: &[u32] = if cfg!(miri) { &[2] } else { &[1, 2, 4, 5, 50] };
    for &each in each {
        let mut room = Room::new((N * each) as usize);
        let mut list = room.list();
        for v in 0..N {
            let var = list.var().expect("room");
            for site in 0..each {
                let word = Formula::low(var, Fit::count(32));
                list.site(PLAIN, (site * N + v) * 4, &word);
            }
        }
        let words = built(&mut list, &[u64::from(N * each) * 4]).expect("complete");
        let built = table(&words);
        // A list for each site of a variable, or one list of all.
        let lists = if each > 4 { 1 } else { each };
        let covered: Vec<u16> = built.lists.iter().map(|l| l.covered).collect();
        assert_eq!(covered[0], 0);
        assert_eq!(covered[1..], vec![1; lists as usize - 1]);
        assert!(built.runs.is_empty());
        let bounds = if each > 4 { 4 * N } else { 0 };
        let room = 4 * N * each + bounds + lists * (N / 8 + 64) + 512;
        assert!(words.len() * 8 <= room as usize, "{each} each");
    }
}
