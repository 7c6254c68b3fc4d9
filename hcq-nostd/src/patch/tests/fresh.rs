//! Patching equals recording afresh: random tables, random launches, every byte compared.

use super::*;
use crate::mem::Region;
use crate::testing::{cases, most};
use proptest::prelude::*;
use std::collections::BTreeSet;

const FILL: u8 = 0xa5;
const REGIONS: usize = 3;

#[derive(Clone, Debug)]
struct SiteSpec {
    region: usize,
    gap: u32,
    formula: Formula,
    /// A variable stored whole at an 8-byte boundary, whatever the formula says.
    plain: bool,
}

/// One formula for many variables, derived ones too.
#[derive(Clone, Debug)]
struct RowSpec {
    region: usize,
    formula: Formula,
    /// Every how many variables.
    step: usize,
    /// Sites of each.
    each: usize,
}

#[derive(Clone, Debug)]
enum Declare {
    Inputs(u32),
    Product(Affine, Affine),
    Sum(u64, Vec<(Affine, Field)>),
}

#[derive(Clone, Debug)]
enum Op {
    Set(u32, u64),
    SetAll(u32, Vec<u64>),
    /// Every input at once, from this number on.
    SetEach(u64),
    TouchAll,
    Apply,
}

/// Numbers at the edges more often than chance has them.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0u64..16,
        2 => any::<u32>().prop_map(u64::from),
        2 => any::<u64>(),
        1 => Just(u64::MAX),
        1 => (0u32..64).prop_map(|b| 1 << b),
    ]
}

fn affine() -> impl Strategy<Value = Affine> {
    let scale = prop_oneof![4 => Just(1u64), 2 => number(), 1 => Just(u64::MAX)];
    let add = prop_oneof![4 => Just(0u64), 2 => number(), 1 => Just(u64::MAX)];
    (any::<u32>(), scale, add).prop_map(|(var, scale, add)| Affine {
        var: Var::new(var),
        scale,
        add,
    })
}

fn store() -> impl Strategy<Value = Store> {
    prop_oneof![
        Just(Store::W8),
        Just(Store::W16),
        Just(Store::W32),
        Just(Store::W64),
        Just(Store::Low32),
        Just(Store::High32),
        Just(Store::Nothing),
    ]
}

fn fit() -> impl Strategy<Value = Fit> {
    prop_oneof![
        12 => Just(Fit::ANY),
        1 => (1u8..70).prop_map(Fit::bits),
        1 => (0u8..4).prop_map(|a| Fit::aligned(64, a)),
        1 => Just(Fit::count(64)),
        1 => number().prop_map(Fit::at_most),
        1 => (0u8..70).prop_map(Fit::signed),
    ]
}

fn formula() -> impl Strategy<Value = Formula> {
    let mask =
        prop_oneof![2 => Just(u64::MAX), 2 => number(), 1 => (0u32..64).prop_map(|b| (1 << b) - 1)];
    let shift = || prop_oneof![2 => Just(0u8), 1 => 0u8..64];
    (
        affine(),
        shift(),
        mask,
        shift(),
        number(),
        any::<bool>(),
        store(),
        fit(),
    )
        .prop_map(|(of, shr, mask, shl, base, swap, store, fit)| Formula {
            of,
            shr,
            mask,
            shl,
            base,
            swap,
            store,
            fit,
        })
}

fn site() -> impl Strategy<Value = SiteSpec> {
    // Few different formulas, so that several sites share a run.
    let formula = prop_oneof![
        2 => formula(),
        1 => any::<u32>().prop_map(|v| Formula::low(Var::new(v), Fit::ANY)),
        1 => any::<u32>().prop_map(|v| Formula::high(Var::new(v), Fit::ANY)),
        1 => any::<u32>().prop_map(|v| Formula::field(Var::new(v), 0xff, Field::new(8, 16))),
    ];
    (
        0..REGIONS,
        prop_oneof![3 => Just(0u32), 1 => 0u32..20],
        formula,
        any::<bool>(),
    )
        .prop_map(|(region, gap, formula, plain)| SiteSpec {
            region,
            gap,
            formula,
            plain,
        })
}

fn row() -> impl Strategy<Value = RowSpec> {
    let var = Affine::from(Var::new(0));
    let of = |scale, add| Affine { scale, add, ..var };
    let limited = |of, fit| Formula::low(of, fit);
    let formula = prop_oneof![
        3 => formula(),
        1 => Just(Formula::low(var, Fit::ANY)),
        1 => Just(Formula::high(var, Fit::ANY)),
        1 => Just(Formula::whole(var)),
        1 => Just(limited(var, Fit::count(32))),
        1 => Just(limited(of(64, 0), Fit { align_log2: 7, ..Fit::count(16) })),
        1 => Just(limited(of(3, 2), Fit { align_log2: 1, ..Fit::at_most(1000) })),
        1 => Just(limited(of(1, 1u64.wrapping_neg()), Fit::bits(8))),
        1 => Just(limited(of(1, 0), Fit::signed(16))),
        1 => Just(Formula::field(of(2, 1), 0xff, Field::new(8, 16))),
    ];
    (0..REGIONS, formula, 1usize..5, 1usize..3).prop_map(|(region, formula, step, each)| RowSpec {
        region,
        formula,
        step,
        each,
    })
}

fn declare() -> impl Strategy<Value = Declare> {
    let field = prop_oneof![
        Just(Field::new(0, 64)),
        (0u8..40, 1u8..20).prop_map(|(s, b)| Field::new(s, b))
    ];
    prop_oneof![
        3 => (1u32..30).prop_map(Declare::Inputs),
        2 => (affine(), affine()).prop_map(|(a, b)| Declare::Product(a, b)),
        2 => (number(), prop::collection::vec((affine(), field), 1..=3)).prop_map(|(b, t)| Declare::Sum(b, t)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (any::<u32>(), number()).prop_map(|(v, n)| Op::Set(v, n)),
        2 => (any::<u32>(), prop::collection::vec(number(), 0..40)).prop_map(|(v, n)| Op::SetAll(v, n)),
        1 => number().prop_map(Op::SetEach),
        1 => Just(Op::TouchAll),
        5 => Just(Op::Apply),
    ]
}

/// The naive side: every variable, every site, all memory.
struct Model {
    values: Vec<Option<u64>>,
    derived: Vec<(u32, Declare)>,
    sites: Vec<(usize, u32, Formula)>,
    memory: Vec<Vec<u8>>,
    /// Variables that were given another value since the last launch.
    touched: BTreeSet<u32>,
    launched: bool,
    /// What each site's variable was when it was last stored.
    stored: Vec<Option<u64>>,
}

impl Model {
    fn is_derived(&self, var: u32) -> bool {
        self.derived.iter().any(|(out, _)| *out == var)
    }

    fn set(&mut self, var: u32, value: u64) {
        if self.values[var as usize] != Some(value) {
            self.values[var as usize] = Some(value);
            self.touched.insert(var);
        }
    }

    fn inputs(&self, declare: &Declare) -> Vec<u32> {
        match declare {
            Declare::Inputs(_) => vec![],
            Declare::Product(a, b) => vec![a.var.index(), b.var.index()],
            Declare::Sum(_, terms) => terms.iter().map(|t| t.0.var.index()).collect(),
        }
    }

    /// The first variable that is needed and has no value.
    fn unresolved(&self) -> Option<u32> {
        let mut needed: BTreeSet<u32> = self.sites.iter().map(|s| s.2.of.var.index()).collect();
        needed.extend(self.derived.iter().flat_map(|d| self.inputs(&d.1)));
        needed
            .into_iter()
            .find(|&v| !self.is_derived(v) && self.values[v as usize].is_none())
    }

    /// Variables that may have changed, derived ones included.
    fn reach(&self) -> BTreeSet<u32> {
        let mut reach = self.touched.clone();
        for (out, declare) in &self.derived {
            if !self.launched || self.inputs(declare).iter().any(|v| reach.contains(v)) {
                reach.insert(*out);
            }
        }
        reach
    }

    /// Computes the derived variables. The variables that a launch may complain about, if it must.
    fn derive(&mut self) -> Result<(), BTreeSet<u32>> {
        let mut bad = BTreeSet::new();
        for (out, declare) in self.derived.clone() {
            let of = |a: &Affine| self.values[a.var.index() as usize].unwrap_or(0);
            let value = match &declare {
                Declare::Inputs(_) => continue,
                Declare::Product(a, b) => a.eval(of(a)).checked_mul(b.eval(of(b))),
                Declare::Sum(base, terms) => terms.iter().try_fold(*base, |sum, (a, field)| {
                    let fits = naive_fits(field.fit(), *a, of(a));
                    fits.then(|| sum.wrapping_add(field.place(a.eval(of(a))).expect("fits")))
                }),
            };
            match value {
                Some(v) => self.values[out as usize] = Some(v),
                None => bad.extend(self.inputs(&declare)),
            }
        }
        for (_, _, f) in &self.sites {
            let var = f.of.var.index();
            if !naive_fits(f.fit, f.of, self.values[var as usize].unwrap_or(0)) {
                bad.insert(var);
            }
        }
        if bad.is_empty() { Ok(()) } else { Err(bad) }
    }

    /// Stores everything. How many sites had to be stored at least, and may be at most: a derived variable that came out
    /// as it was is not stored, except after a launch that was refused.
    fn store(&mut self, all: bool, real: &[Vec<u64>]) -> (usize, usize) {
        let reach = self.reach();
        let (mut least, mut most) = (0, 0);
        for (i, (region, offset, f)) in self.sites.iter().enumerate() {
            let var = f.of.var.index();
            let value = self.values[var as usize].unwrap_or(0);
            let changed = all || self.touched.contains(&var) || self.stored[i] != Some(value);
            let touched = changed || reach.contains(&var);
            least += usize::from(changed && f.store != Store::Nothing);
            most += usize::from(touched && f.store != Store::Nothing);
            let bytes = naive_bytes(f, value);
            let at = *offset as usize..*offset as usize + bytes.len();
            let seen = &zerocopy::IntoBytes::as_bytes(real[*region].as_slice())[at.clone()];
            if changed || (touched && seen == bytes) {
                self.memory[*region][at].copy_from_slice(&bytes);
                self.stored[i] = Some(value);
            }
        }
        self.touched.clear();
        self.launched = true;
        (least, most)
    }

    /// Spoils the bytes of all sites that the next launch must leave alone.
    fn scribble(&mut self, all: bool, real: &mut [Vec<u64>]) {
        let reach = self.reach();
        for (i, (region, offset, f)) in self.sites.iter().enumerate() {
            if all || reach.contains(&f.of.var.index()) || self.stored[i].is_none() {
                continue;
            }
            let at = *offset as usize..(*offset + f.store.bytes()) as usize;
            self.memory[*region][at.clone()].fill(0x3c);
            zerocopy::IntoBytes::as_mut_bytes(real[*region].as_mut_slice())[at].fill(0x3c);
        }
    }
}

fn run(
    row: u32,
    rows: &[RowSpec],
    declares: &[Declare],
    specs: &[SiteSpec],
    ops: &[Op],
) -> Result<(), TestCaseError> {
    let mut room = Room::new(if cfg!(miri) { 600 } else { 2500 });
    let mut list = room.list();
    let mut model = Model {
        values: vec![],
        derived: vec![],
        sites: vec![],
        memory: vec![],
        touched: BTreeSet::new(),
        launched: false,
        stored: vec![],
    };
    let mut vars = 0;
    let inputs = [Declare::Inputs(row + 1)];
    for d in inputs.iter().chain(declares) {
        let known = |a: &Affine| Affine {
            var: Var::new(a.var.index() % vars),
            ..*a
        };
        let d = match d {
            Declare::Inputs(n) => {
                for _ in 0..*n {
                    list.var().expect("room");
                }
                vars += n;
                continue;
            }
            Declare::Product(a, b) => Declare::Product(known(a), known(b)),
            Declare::Sum(base, terms) => {
                Declare::Sum(*base, terms.iter().map(|t| (known(&t.0), t.1)).collect())
            }
        };
        let derived = match &d {
            Declare::Inputs(_) => continue,
            Declare::Product(a, b) => Derived::product(*a, *b),
            Declare::Sum(base, terms) => {
                let terms: Vec<Term> = terms.iter().map(|t| Term::new(t.0, t.1)).collect();
                Derived::sum(*base, &terms).expect("one to three terms")
            }
        };
        let out = list.derive(derived).expect("room").index();
        if out == vars {
            vars += 1;
            model.derived.push((out, d));
        }
    }
    model.values = vec![None; vars as usize];

    // A row of single plain pointers, one per variable: the dense list.
    let mut end = [0u32; REGIONS];
    for v in 0..row {
        model.sites.push((0, end[0], Formula::whole(Var::new(v))));
        end[0] += 8;
    }
    for r in rows {
        for v in (0..vars).step_by(r.step) {
            let var = Var::new(v);
            let of = Affine {
                var,
                ..r.formula.of
            };
            let f = Formula { of, ..r.formula };
            for _ in 0..r.each {
                let at = end[r.region].next_multiple_of(f.store.align());
                model.sites.push((r.region, at, f));
                end[r.region] = at + f.store.bytes();
            }
        }
    }
    for s in specs {
        let var = Var::new(s.formula.of.var.index() % vars);
        let f = if s.plain {
            Formula::whole(var)
        } else {
            Formula {
                of: Affine {
                    var,
                    ..s.formula.of
                },
                ..s.formula
            }
        };
        let align = if s.plain { 8 } else { f.store.align() };
        let at = (end[s.region] + s.gap).next_multiple_of(align);
        model.sites.push((s.region, at, f));
        end[s.region] = at + f.store.bytes();
    }
    for (region, offset, f) in &model.sites {
        list.site(RegionId(*region as u16), *offset, f);
    }
    model.stored = vec![None; model.sites.len()];

    let sizes: Vec<u64> = end.iter().map(|&e| e.into()).collect();
    let bytes = built(&mut list, &sizes).map_err(|e| TestCaseError::fail(std::format!("{e}")))?;
    let table = table(&bytes);
    let stores = model.sites.iter().filter(|s| s.2.store != Store::Nothing);
    prop_assert_eq!(table.sites(), stores.count());
    let mut state = vec![0xdead_beef; table.state_words()];
    let mut patcher = Patcher::new(table, &mut state).expect("exactly the room asked for");

    let mut memory: Vec<Vec<u64>> = end
        .iter()
        .map(|&e| vec![u64::from_le_bytes([FILL; 8]); e as usize / 8 + 2])
        .collect();
    model.memory = memory.iter().map(|m| vec![FILL; m.len() * 8]).collect();
    let mut all = true;
    for op in ops.iter().chain([&Op::SetEach(1), &Op::Apply, &Op::Apply]) {
        match op {
            Op::Set(v, n) => {
                let v = v % vars;
                let result = patcher.set(Var::new(v), *n);
                if model.is_derived(v) {
                    prop_assert_eq!(result, Err(PatchError::IsDerived { var: Var::new(v) }));
                } else {
                    prop_assert_eq!(result, Ok(()));
                    model.set(v, *n);
                }
            }
            Op::SetAll(first, numbers) => {
                let first = first % vars;
                let last = u64::from(first) + numbers.len() as u64;
                let range = first..u32::try_from(last).expect("small");
                let result = patcher.set_all(Var::new(first), numbers);
                if last > u64::from(vars) {
                    let is_range = matches!(result, Err(PatchError::NoSuchVariable { .. }));
                    prop_assert!(is_range, "{:?}", result);
                } else if let Some(d) = range.clone().find(|&v| model.is_derived(v)) {
                    prop_assert_eq!(result, Err(PatchError::IsDerived { var: Var::new(d) }));
                } else {
                    prop_assert_eq!(result, Ok(()));
                    range.zip(numbers).for_each(|(v, &n)| model.set(v, n));
                }
            }
            Op::SetEach(from) => {
                for v in 0..vars {
                    if !model.is_derived(v) {
                        let n = from.wrapping_add(v.into()) & 0xff;
                        patcher.set(Var::new(v), n).expect("an input");
                        model.set(v, n);
                    }
                }
            }
            Op::TouchAll => {
                patcher.touch_all();
                all = true;
            }
            Op::Apply => {
                model.scribble(all, &mut memory);
                let before = memory.clone();
                let mut regions: Vec<Region<'_>> = memory
                    .iter_mut()
                    .map(|m| Region::from_words(m, 0))
                    .collect();
                let result = patcher.apply(&mut regions);
                drop(regions);
                if let Some(var) = model.unresolved() {
                    prop_assert_eq!(result, Err(PatchError::Unresolved { var: Var::new(var) }));
                    prop_assert_eq!(&memory, &before);
                    continue;
                }
                if let Err(bad) = model.derive() {
                    let Err(PatchError::Misfit { var, .. }) = result else {
                        return Err(TestCaseError::fail(std::format!(
                            "{result:?}, bad are {bad:?}"
                        )));
                    };
                    prop_assert!(
                        bad.contains(&var.index()),
                        "{:?} complained about, bad are {:?}",
                        var,
                        bad
                    );
                    prop_assert_eq!(&memory, &before);
                    // A derived variable may have been computed already, and is then stored next time.
                    continue;
                }
                let (least, most) = model.store(all, &memory);
                let count = result.map_err(|e| TestCaseError::fail(std::format!("{e}")))?;
                prop_assert!(
                    (least..=most).contains(&count),
                    "{} stored of {} to {}",
                    count,
                    least,
                    most
                );
                all = false;
            }
        }
        for (real, want) in memory.iter().zip(&model.memory) {
            prop_assert_eq!(
                zerocopy::IntoBytes::as_bytes(real.as_slice()),
                want.as_slice()
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn patch_equals_fresh_recording(
        row in prop_oneof![Just(0u32), 0..most(70) as u32],
        rows in prop::collection::vec(row(), 0..4),
        declares in prop::collection::vec(declare(), 0..most(8)),
        specs in prop::collection::vec(site(), 0..most(60)),
        ops in prop::collection::vec(op(), 0..most(40)),
    ) {
        run(row, &rows, &declares, &specs, &ops)?;
    }
}
