use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::RegionId;
use super::record::FormulaRecord;
use crate::value::{Affine, Field, Fit, Misfit, Var, low_mask};

/// How the result of a formula is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum Store {
    /// Its low 8 bits.
    W8 = 0,
    /// Its low 16 bits.
    W16 = 1,
    /// Its low 32 bits.
    W32 = 2,
    /// All 64 bits; as two 32-bit stores when the site is only 4-byte aligned.
    W64 = 3,
    /// The low half of the 64 bits, after the byte swap if there is one.
    Low32 = 4,
    /// The high half of the 64 bits, after the byte swap if there is one.
    High32 = 5,
    /// Nothing: the value is only checked, see [`PatchList::require`](super::PatchList::require).
    Nothing = 6,
}

impl Store {
    pub(crate) const fn from_u8(n: u8) -> Option<Self> {
        Some(match n {
            0 => Self::W8,
            1 => Self::W16,
            2 => Self::W32,
            3 => Self::W64,
            4 => Self::Low32,
            5 => Self::High32,
            6 => Self::Nothing,
            _ => return None,
        })
    }

    /// Bytes stored.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::W8 => 1,
            Self::W16 => 2,
            Self::W32 | Self::Low32 | Self::High32 => 4,
            Self::W64 => 8,
        }
    }

    /// The alignment that a site of this width needs, in bytes.
    pub const fn align(self) -> u32 {
        match self {
            Self::Nothing => 1,
            Self::W64 => 4,
            other => other.bytes(),
        }
    }
}

/// `swap?( base + ((((var * scale + add) >> shr) & mask) << shl) )`, and how it is stored.
///
/// ```
/// use hcq_nostd::patch::{Formula, Store};
/// use hcq_nostd::value::{Field, Value, Var};
/// // Bits 31:8 of a big-endian word hold a queue index; the low byte is an opcode.
/// let f = Formula::field(Var::new(0), 0x0a, Field::new(8, 16)).swapped();
/// assert_eq!(f.eval(0x1234), 0x0a34_1200);
/// assert_eq!(f.store, Store::W32);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Formula {
    /// The variable with its adjustment.
    pub of: Affine,
    /// Right shift of the adjusted variable, below 64.
    pub shr: u8,
    /// Applied after the right shift.
    pub mask: u64,
    /// Left shift to the field's place, below 64.
    pub shl: u8,
    /// The field's other bits.
    pub base: u64,
    /// Reverse the bytes of the stored word (of all 64 bits for the half stores).
    pub swap: bool,
    /// Width.
    pub store: Store,
    /// What `var * scale + add` must satisfy; a launch with another value is refused.
    pub fit: Fit,
}

impl From<Var> for Affine {
    fn from(var: Var) -> Self {
        Self {
            var,
            scale: 1,
            add: 0,
        }
    }
}

impl Formula {
    /// All 64 bits, as they are.
    pub fn whole(of: impl Into<Affine>) -> Self {
        Self {
            of: of.into(),
            shr: 0,
            mask: u64::MAX,
            shl: 0,
            base: 0,
            swap: false,
            store: Store::W64,
            fit: Fit::ANY,
        }
    }

    /// A bit-field of a 32-bit word whose other bits are `base`. A value that would leave the word does not fit.
    pub fn field(of: impl Into<Affine>, base: u32, field: Field) -> Self {
        let field = field.within(32);
        Self {
            of: of.into(),
            shr: field.unit_log2,
            mask: field.mask(),
            shl: field.shift,
            base: base.into(),
            swap: false,
            store: Store::W32,
            fit: field.fit(),
        }
    }

    /// The low 32 bits of a value of which another site stores the rest.
    pub fn low(of: impl Into<Affine>, fit: Fit) -> Self {
        Self {
            mask: 0xffff_ffff,
            store: Store::W32,
            fit,
            ..Self::whole(of)
        }
    }

    /// The high 32 bits of a value of which another site stores the rest.
    pub fn high(of: impl Into<Affine>, fit: Fit) -> Self {
        Self {
            shr: 32,
            ..Self::low(of, fit)
        }
    }

    /// The whole value, in a narrower store.
    pub fn narrow(of: impl Into<Affine>, store: Store) -> Self {
        let bits = store.bytes() as u8 * 8;
        Self {
            mask: low_mask(bits),
            store,
            fit: Fit::bits(bits),
            ..Self::whole(of)
        }
    }

    /// The same with its bytes reversed, as the registers of network cards want them.
    pub fn swapped(self) -> Self {
        Self { swap: true, ..self }
    }

    /// What is stored for `x`, in the low bits.
    pub const fn eval(&self, x: u64) -> u64 {
        let field =
            ((self.of.eval(x) >> (self.shr as u32 & 63)) & self.mask) << (self.shl as u32 & 63);
        let word = self.base.wrapping_add(field);
        let word = match (self.swap, self.store) {
            (false, _) | (true, Store::W8 | Store::Nothing) => word,
            (true, Store::W16) => (word as u16).swap_bytes() as u64,
            (true, Store::W32) => (word as u32).swap_bytes() as u64,
            (true, Store::W64 | Store::Low32 | Store::High32) => word.swap_bytes(),
        };
        match self.store {
            Store::Nothing => 0,
            Store::W8 => word & 0xff,
            Store::W16 => word & 0xffff,
            Store::W32 | Store::Low32 => word & 0xffff_ffff,
            Store::High32 => word >> 32,
            Store::W64 => word,
        }
    }

    /// The same for a value whose adjustment has been made.
    pub(crate) const fn known(&self) -> Self {
        let of = Affine {
            scale: 1,
            add: 0,
            ..self.of
        };
        Self { of, ..*self }
    }

    /// Whether the field can take the value.
    ///
    /// # Errors
    /// [`Misfit`], with the adjusted value.
    pub fn check(&self, x: u64) -> Result<(), Misfit> {
        self.fit.check_affine(x, self.of.scale, self.of.add)
    }

    /// A variable stored whole at an 8-byte boundary.
    pub(crate) fn is_plain(&self, offset: u32) -> bool {
        offset.is_multiple_of(8) && *self == Self::whole(self.of.var)
    }
}

/// Where a formula's result goes. Made by [`PatchList::site`](super::PatchList::site); plain bytes, so that a caller can
/// supply the memory.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Site {
    pub(super) scale: u64,
    pub(super) add: u64,
    pub(super) mask: u64,
    pub(super) base: u64,
    pub(super) var: u32,
    pub(super) offset: u32,
    pub(super) region: u16,
    pub(super) store: u8,
    pub(super) swap: u8,
    pub(super) shr: u8,
    pub(super) shl: u8,
    pub(super) bits: u8,
    pub(super) align_log2: u8,
    /// While building: the formula's index, or one of the two marks.
    pub(super) formula: u32,
    pub(super) least: u8,
    pub(super) signed: u8,
    /// While building: whether it is in a list of its formula.
    pub(super) listed: u8,
    pub(super) reserved: u8,
    pub(super) most: u64,
}

impl Site {
    /// Fills the memory for sites before use.
    pub const EMPTY: Self = Self {
        scale: 0,
        add: 0,
        mask: 0,
        base: 0,
        var: 0,
        offset: 0,
        region: 0,
        store: 0,
        swap: 0,
        shr: 0,
        shl: 0,
        bits: 0,
        align_log2: 0,
        formula: 0,
        least: 0,
        signed: 0,
        listed: 0,
        reserved: 0,
        most: u64::MAX,
    };

    /// In place of a store: variable `var` feeds the derived variable number `offset`.
    const FEEDS: u8 = u8::MAX;

    pub(super) fn new(region: RegionId, offset: u32, f: &Formula) -> Self {
        Self {
            scale: f.of.scale,
            add: f.of.add,
            mask: f.mask,
            base: f.base,
            var: f.of.var.0,
            offset,
            region: region.0,
            store: f.store as u8,
            swap: u8::from(f.swap),
            shr: f.shr,
            shl: f.shl,
            bits: f.fit.bits,
            align_log2: f.fit.align_log2,
            formula: 0,
            least: f.fit.least,
            signed: u8::from(f.fit.signed),
            listed: 0,
            reserved: 0,
            most: f.fit.most,
        }
    }

    pub(super) fn feeds(var: u32, derived: u32) -> Self {
        Self {
            var,
            offset: derived,
            region: u16::MAX,
            store: Self::FEEDS,
            ..Self::EMPTY
        }
    }

    pub(super) fn is_feeds(&self) -> bool {
        self.store == Self::FEEDS
    }

    /// The formula, if the numbers are one.
    pub fn formula(&self) -> Option<Formula> {
        FormulaRecord::from_site(self).formula(self.var)
    }

    /// Whether it only checks its value.
    pub(super) fn is_limit(&self) -> bool {
        self.store == Store::Nothing as u8
    }

    /// Region and byte offset.
    pub fn place(&self) -> (RegionId, u32) {
        (RegionId(self.region), self.offset)
    }

    /// All but place and variable, for grouping. Those that take the fewest values come first, mostly: what is in their
    /// range is in others', too.
    pub(super) fn key(&self) -> ([u64; 6], [u8; 8]) {
        let most = self.most.min(low_mask(self.bits));
        (
            [!self.scale, most, self.most, self.add, self.mask, self.base],
            [
                self.bits,
                self.store,
                self.swap,
                self.shr,
                self.shl,
                self.align_log2,
                self.least,
                self.signed,
            ],
        )
    }
}

/// One field of a derived sum: `(((var * scale + add) >> shr) & mask) << shl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Term {
    scale: u64,
    add: u64,
    mask: u64,
    var: u32,
    shr: u8,
    shl: u8,
    bits: u8,
    align_log2: u8,
}

impl Term {
    const EMPTY: Self = Self {
        scale: 0,
        add: 0,
        mask: 0,
        var: 0,
        shr: 0,
        shl: 0,
        bits: 64,
        align_log2: 0,
    };

    /// A variable, adjusted, in a bit-field. `Field::new(0, 64)` takes it whole. A value that would leave 64 bits does
    /// not fit.
    pub fn new(of: impl Into<Affine>, field: Field) -> Self {
        let of = of.into();
        let field = field.within(64);
        Self {
            scale: of.scale,
            add: of.add,
            mask: field.mask(),
            var: of.var.0,
            shr: field.unit_log2,
            shl: field.shift,
            bits: field.fit().bits,
            align_log2: field.fit().align_log2,
        }
    }

    /// The low `bits` bits of a variable in place, cutting what is above: an index into a ring.
    pub fn masked(of: impl Into<Affine>, bits: u8, shl: u8) -> Self {
        Self::part(of, 0, bits, shl)
    }

    /// Bits `from + bits - 1 : from` of a variable, moved to bit `shl`, cutting the others: the lap of an index into a
    /// ring.
    pub fn part(of: impl Into<Affine>, from: u8, bits: u8, shl: u8) -> Self {
        Self {
            bits: 64,
            align_log2: 0,
            ..Self::new(of, Field::new(shl, bits).unit(from))
        }
    }

    pub(super) fn var(&self) -> u32 {
        self.var
    }

    fn adjusted(&self, x: u64) -> u64 {
        x.wrapping_mul(self.scale).wrapping_add(self.add)
    }

    fn place(&self, x: u64) -> u64 {
        ((self.adjusted(x) >> (u32::from(self.shr) & 63)) & self.mask) << (u32::from(self.shl) & 63)
    }

    fn check(&self, x: u64) -> Result<(), Misfit> {
        Fit::aligned(self.bits, self.align_log2).check_affine(x, self.scale, self.add)
    }

    fn is_sound(&self) -> bool {
        self.shr < 64 && self.shl < 64
    }
}

/// A variable computed from others, once per launch that changed one of them: a product of two, or a sum of up to three
/// fields and a base, with its bytes reversed if asked for. Plain bytes, so that a caller can supply the memory.
///
/// ```
/// use hcq_nostd::patch::{Derived, PatchList, Site, Term};
/// // The 32-bit big-endian form of `head + 1`, as an operand of any command.
/// let (mut sites, mut derived) = ([Site::EMPTY; 1], [Derived::EMPTY; 1]);
/// let mut list = PatchList::new(&mut sites, &mut derived);
/// let head = list.var()?;
/// let record = list.derive(Derived::sum(1, &[Term::masked(head, 24, 0)]).ok_or("one to three terms")?.swapped32())?;
/// assert_eq!(record.index(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Derived {
    pub(super) base: u64,
    pub(super) terms: [Term; 3],
    pub(super) kind: u32,
    pub(super) out: u32,
}

impl Derived {
    /// Fills the memory for derived variables before use.
    pub const EMPTY: Self = Self {
        base: 0,
        terms: [Term::EMPTY; 3],
        kind: 0,
        out: 0,
    };

    const PRODUCT: u32 = 4;
    /// The part of `kind` without the flags.
    const SHAPE: u32 = 0xff;
    const SWAP32: u32 = 1 << 8;
    const SWAP64: u32 = 1 << 9;

    /// The same with the bytes of its low 32 bits reversed, as a network card reads them. A result that needs more bits
    /// is refused at launch.
    pub fn swapped32(self) -> Self {
        Self {
            kind: self.kind & Self::SHAPE | Self::SWAP32,
            ..self
        }
    }

    /// The same with all its bytes reversed.
    pub fn swapped64(self) -> Self {
        Self {
            kind: self.kind & Self::SHAPE | Self::SWAP64,
            ..self
        }
    }

    /// `a * b`. A product that leaves 64 bits is refused at launch.
    pub fn product(a: impl Into<Affine>, b: impl Into<Affine>) -> Self {
        let whole = Field::new(0, 64);
        Self {
            kind: Self::PRODUCT,
            terms: [Term::new(a, whole), Term::new(b, whole), Term::EMPTY],
            ..Self::EMPTY
        }
    }

    /// `base` plus up to three fields; `None` for none or more.
    pub fn sum(base: u64, fields: &[Term]) -> Option<Self> {
        let mut terms = [Term::EMPTY; 3];
        terms.get_mut(..fields.len())?.copy_from_slice(fields);
        let kind = u32::try_from(fields.len()).ok().filter(|&n| n > 0)?;
        Some(Self {
            base,
            terms,
            kind,
            out: 0,
        })
    }

    /// The same in another list, where the variable with number `first + n` is `to[n]`. Others keep their numbers.
    ///
    /// Variables that are derived from derived ones need it when a recording moves: what they are made of moves, too.
    #[must_use]
    pub fn renumbered(mut self, first: u32, to: &[Var]) -> Self {
        let count = self.inputs().len();
        for term in self.terms.iter_mut().take(count) {
            let moved = term.var.checked_sub(first).and_then(|n| to.get(n as usize));
            if let Some(var) = moved {
                term.var = var.index();
            }
        }
        self
    }

    /// The terms in use; empty for a kind that does not exist.
    pub(super) fn inputs(&self) -> &[Term] {
        let shape = self.kind & Self::SHAPE;
        let n = if shape == Self::PRODUCT {
            2
        } else {
            shape as usize
        };
        self.terms.get(..n).unwrap_or_default()
    }

    pub(super) fn is_sound(&self) -> bool {
        matches!(self.kind & !Self::SHAPE, 0 | Self::SWAP32 | Self::SWAP64)
            && !self.inputs().is_empty()
            && self
                .inputs()
                .iter()
                .all(|t| t.is_sound() && t.var < self.out)
    }

    /// Tells derived variables apart while there is no memory to keep them in (FNV-1a of all but the variable's number).
    pub(super) fn fingerprint(&self) -> u32 {
        let bytes = Self { out: 0, ..*self };
        let step = |hash: u32, &byte: &u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        zerocopy::IntoBytes::as_bytes(&bytes)
            .iter()
            .fold(0x811c_9dc5, step)
    }

    pub(super) fn same_as(&self, other: &Self) -> bool {
        self.kind == other.kind && self.base == other.base && self.inputs() == other.inputs()
    }

    /// The value, or which variable does not fit.
    pub(super) fn eval(&self, of: impl Fn(u32) -> u64) -> Result<u64, (Var, Misfit)> {
        let value = self.eval_shape(of)?;
        match self.kind & !Self::SHAPE {
            Self::SWAP32 => {
                let var = self.inputs().first().map_or(0, |t| t.var);
                let narrow = u32::try_from(value)
                    .map_err(|_| (Var(var), Misfit::TooLarge { value, bits: 32 }))?;
                Ok(narrow.swap_bytes().into())
            }
            Self::SWAP64 => Ok(value.swap_bytes()),
            _ => Ok(value),
        }
    }

    fn eval_shape(&self, of: impl Fn(u32) -> u64) -> Result<u64, (Var, Misfit)> {
        if self.kind & Self::SHAPE == Self::PRODUCT {
            let mut product = 1u64;
            for t in self.inputs() {
                let x = t.adjusted(of(t.var));
                let too_large = (Var(t.var), Misfit::TooLarge { value: x, bits: 64 });
                product = product.checked_mul(x).ok_or(too_large)?;
            }
            return Ok(product);
        }
        let mut sum = self.base;
        for t in self.inputs() {
            let x = of(t.var);
            t.check(x).map_err(|m| (Var(t.var), m))?;
            sum = sum.wrapping_add(t.place(x));
        }
        Ok(sum)
    }
}
