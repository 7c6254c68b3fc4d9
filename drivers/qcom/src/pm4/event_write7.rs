//! CP_EVENT_WRITE7 of A7xx: an event, and what it writes when it is done.
//!
//! It takes the opcode of CP_EVENT_WRITE, and says with WRITE_ENABLED what that says with its length, so that neither is the
//! other. Source: `adreno_pm4.xml` of Mesa, domain CP_EVENT_WRITE7 and the enums `vgt_event_type` and `event_write_src`.
//!
//! Not here is what serves concurrent binning alone: WRITE_DST EV_DST_ONCHIP, WRITE_SRC EV_WRITE_TIMESTAMP_SUM (how wide it
//! is has no public description), INC_BV_COUNT, INC_BR_COUNT, CLEAR_RENDER_RESOURCE and CLEAR_LRZ_RESOURCE. Such words are
//! [`Malformed::Reserved`].

use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use super::header::{REGISTER, any_body, command};
use super::{Text, join, op, split};
use crate::device::ADDRESS_BITS;
use crate::malformed::{Malformed, only};

/// EVENT, a `vgt_event_type` that A7xx has.
///
/// ```
/// use hcq_qcom::pm4::event_write7::Event7;
/// let event = Event7::new(51).ok_or("an event")?;
/// assert_eq!((event, event.name()), (Event7::CACHE_INVALIDATE, "CACHE_INVALIDATE7"));
/// assert_eq!(Event7::new(6), None); // CACHE_FLUSH, up to A4xx
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Event7(u8);

impl Event7 {
    /// DUMMY_EVENT: does nothing but write.
    pub const DUMMY: Self = Self(1);
    /// CACHE_FLUSH_TS: writes back the unified cache (UCHE).
    pub const CACHE_FLUSH_TS: Self = Self(4);
    /// ZPASS_DONE: samples have been counted.
    pub const ZPASS_DONE: Self = Self(21);
    /// RB_DONE_TS: all earlier work is done. It needs something to write.
    pub const RB_DONE_TS: Self = Self(22);
    /// CACHE_RESET.
    pub const CACHE_RESET: Self = Self(48);
    /// CACHE_CLEAN: writes back the unified cache.
    pub const CACHE_CLEAN: Self = Self(49);
    /// CACHE_FLUSH7: writes back and invalidates the unified cache.
    pub const CACHE_FLUSH: Self = Self(50);
    /// CACHE_INVALIDATE7: invalidates the unified cache.
    pub const CACHE_INVALIDATE: Self = Self(51);

    /// The event of this number, if A7xx has one.
    pub fn new(bits: u8) -> Option<Self> {
        EVENTS.iter().any(|(b, _)| *b == bits).then_some(Self(bits))
    }

    /// The field's value.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Its name in `vgt_event_type`.
    pub fn name(self) -> &'static str {
        let found = EVENTS.iter().find(|(bits, _)| *bits == self.0);
        found.map_or("", |(_, name)| name)
    }
}

/// All of them, with the names for A7xx where a number has several.
static EVENTS: &[(u8, &str)] = &[
    (0, "VS_DEALLOC"),
    (1, "DUMMY_EVENT"),
    (2, "VS_DONE_TS"),
    (3, "PS_DONE_TS"),
    (4, "CACHE_FLUSH_TS"),
    (5, "CONTEXT_DONE"),
    (8, "WT_DONE_TS"),
    (9, "WRITE_PRIMITIVE_COUNTS"),
    (11, "START_PRIMITIVE_CTRS"),
    (12, "STOP_PRIMITIVE_CTRS"),
    (13, "START_FRAGMENT_CTRS"),
    (14, "STOP_FRAGMENT_CTRS"),
    (15, "START_COMPUTE_CTRS"),
    (16, "STOP_COMPUTE_CTRS"),
    (17, "FLUSH_SO_0"),
    (18, "FLUSH_SO_1"),
    (19, "FLUSH_SO_2"),
    (20, "FLUSH_SO_3"),
    (21, "ZPASS_DONE"),
    (22, "RB_DONE_TS"),
    (24, "CCU_INVALIDATE_DEPTH"),
    (25, "CCU_INVALIDATE_COLOR"),
    (26, "CCU_RESOLVE_CLEAN"),
    (27, "VS_FETCH_DONE"),
    (28, "CCU_FLUSH_DEPTH"),
    (29, "CCU_FLUSH_COLOR"),
    (30, "CCU_RESOLVE"),
    (31, "CCU_END_RESOLVE_GROUP"),
    (32, "CCU_CLEAN_DEPTH"),
    (33, "CCU_CLEAN_COLOR"),
    (36, "LRZ_FLIP_BUFFER"),
    (37, "LRZ_CLEAR"),
    (38, "LRZ_FLUSH"),
    (39, "BLIT_OP_FILL_2D"),
    (40, "UNK_40"),
    (41, "LRZ_Q_CACHE_INVALIDATE"),
    (42, "BLIT_OP_SCALE_2D"),
    (43, "CONTEXT_DONE_2D"),
    (44, "UNK_2C"),
    (45, "UNK_2D"),
    (48, "CACHE_RESET"),
    (49, "CACHE_CLEAN"),
    (50, "CACHE_FLUSH7"),
    (51, "CACHE_INVALIDATE7"),
    (63, "LABEL"),
];

/// What is written to memory: WRITE_SRC with WRITE_ENABLED, or WRITE_SAMPLE_COUNT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Source {
    /// EV_WRITE_USER_32B: a number of 32 bits, at a boundary of 4 bytes.
    Word(Value),
    /// EV_WRITE_USER_64B: a number of 64 bits, at a boundary of 8 bytes.
    Double(Value),
    /// EV_WRITE_ALWAYSON: the always-on counter, 64 bits, at a boundary of 8 bytes.
    AlwaysOn,
    /// EV_WRITE_REGS_CONTENT: registers, at a boundary of 4 bytes.
    Registers {
        /// Number of the first register, 18 bits.
        first: u32,
        /// How many, at least one.
        count: u32,
    },
    /// WRITE_SAMPLE_COUNT: the samples that passed, at a boundary of 16 bytes. From the second half of A7xx on (A735, A740,
    /// A750).
    SampleCount {
        /// SAMPLE_COUNT_END_OFFSET: 16 bytes further on.
        end: bool,
        /// WRITE_ACCUM_SAMPLE_COUNT_DIFF: what has been counted since the number before is added to the number at 8.
        accumulate: bool,
    },
}

const EVENT: u32 = 0xff;
const SAMPLE_COUNT: u32 = 1 << 12;
const SAMPLE_COUNT_END: u32 = 1 << 13;
const ACCUMULATE: u32 = 1 << 14;
const WRITE_SRC: u32 = 7 << 20;
const USER_64B: u32 = 1 << 20;
const ALWAYS_ON: u32 = 3 << 20;
const REGS_CONTENT: u32 = 4 << 20;
const WRITE_ENABLED: u32 = 1 << 27;
const IRQ: u32 = 1 << 31;
/// What says whether there is something to write, and what.
const WHAT: u32 = SAMPLE_COUNT | SAMPLE_COUNT_END | ACCUMULATE | WRITE_SRC | WRITE_ENABLED;

impl Source {
    /// Header, bits of the first word, and alignment of the address as a power of two.
    const fn frame(self) -> (u32, u32, u8) {
        match self {
            Self::Word(_) => (command::<5>(op::EVENT_WRITE), WRITE_ENABLED, 2),
            Self::Double(_) => (command::<6>(op::EVENT_WRITE), WRITE_ENABLED | USER_64B, 3),
            Self::AlwaysOn => (command::<4>(op::EVENT_WRITE), WRITE_ENABLED | ALWAYS_ON, 3),
            Self::Registers { .. } => (
                command::<6>(op::EVENT_WRITE),
                WRITE_ENABLED | REGS_CONTENT,
                2,
            ),
            Self::SampleCount { end, accumulate } => {
                let end = if end { SAMPLE_COUNT_END } else { 0 };
                let accumulate = if accumulate { ACCUMULATE } else { 0 };
                let bits = SAMPLE_COUNT | end | accumulate;
                (command::<4>(op::EVENT_WRITE), bits, 4)
            }
        }
    }
}

/// An event, and what it writes to memory when it is done.
///
/// ```
/// use hcq_nostd::patch::PatchList;
/// use hcq_nostd::record::Recorder;
/// use hcq_qcom::pm4::event_write7::{Event7, EventWrite7, Source};
/// let packet = EventWrite7 {
///     event: Event7::RB_DONE_TS,
///     write: Some((0x5_0010_0048u64.into(), Source::AlwaysOn)),
///     irq: false,
/// };
/// let mut words = [0; 4];
/// let mut recorder = Recorder::new(&mut words, PatchList::none());
/// recorder.command(|c| packet.record(c))?;
/// assert_eq!(recorder.words(), [0x7046_8003, 0x0830_0016, 0x10_0048, 5]);
/// # Ok::<(), hcq_nostd::record::RecordError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct EventWrite7 {
    /// The event.
    pub event: Event7,
    /// Where to, at a boundary of what is written, below 2^49; and what.
    pub write: Option<(Value, Source)>,
    /// Raises an interrupt.
    pub irq: bool,
}

impl EventWrite7 {
    /// CACHE_INVALIDATE7, which writes nothing.
    pub const INVALIDATE: [u32; 2] = [
        command::<2>(op::EVENT_WRITE),
        Event7::CACHE_INVALIDATE.0 as u32,
    ];

    /// Header and first word of a CACHE_FLUSH_TS that writes a number of 32 bits. The address and the number follow.
    pub(crate) const FLUSH: [u32; 2] =
        Self::frame(Event7::CACHE_FLUSH_TS, Source::Word(Value::Imm(0)));
    /// The same of an RB_DONE_TS that writes the always-on counter. The address follows.
    pub(crate) const TIMESTAMP: [u32; 2] = Self::frame(Event7::RB_DONE_TS, Source::AlwaysOn);

    const fn frame(event: Event7, source: Source) -> [u32; 2] {
        let (header, bits, _) = source.frame();
        [header, event.0 as u32 | bits]
    }

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for an address that is misaligned or not below 2^49, or a number that its width cannot hold;
    /// [`RecordError::Unsupported`] for RB_DONE_TS that writes no number, no counter and no registers.
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        let irq = if self.irq { IRQ } else { 0 };
        let (header, bits, align) = match self.write {
            Some((_, source)) => source.frame(),
            None => (command::<2>(op::EVENT_WRITE), 0, 0),
        };
        if self.event == Event7::RB_DONE_TS && bits & WRITE_ENABLED == 0 {
            let operand = Operand::Data;
            return Err(RecordError::Unsupported { operand });
        }
        c.words(&[header, u32::from(self.event.0) | bits | irq]);
        let Some((address, source)) = self.write else {
            return Ok(());
        };
        c.pair(address, Fit::aligned(ADDRESS_BITS, align))
            .operand(Operand::Address)?;
        match source {
            Source::Word(value) => {
                let at = c.position();
                c.word(0);
                c.set_value(at, value, Fit::bits(32)).operand(Operand::Data)
            }
            Source::Double(value) => c.pair(value, Fit::ANY).operand(Operand::Data),
            Source::Registers { first, count } => {
                Fit::bits(18).check(first.into()).operand(Operand::Source)?;
                Fit::count(32)
                    .check(count.into())
                    .operand(Operand::Length)?;
                c.words(&[first, count]);
                Ok(())
            }
            Source::AlwaysOn | Source::SampleCount { .. } => Ok(()),
        }
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let packet = any_body(words, op::EVENT_WRITE)?;
        let have = packet.len();
        let &[_, info, ref rest @ ..] = packet else {
            return Err(Malformed::Length { need: 2, have });
        };
        let reserved = |word, value| Malformed::Reserved { word, value };
        only(1, info, EVENT | WHAT | IRQ)?;
        let what = info & WHAT;
        let (source, need) = match what {
            0 => (None, 2),
            WRITE_ENABLED => (rest.get(2).map(|v| Source::Word((*v).into())), 5),
            w if w == WRITE_ENABLED | USER_64B => {
                let value = rest.get(2..4).and_then(|r| r.first_chunk());
                (value.map(|[a, b]| Source::Double(join(*a, *b).into())), 6)
            }
            w if w == WRITE_ENABLED | ALWAYS_ON => (Some(Source::AlwaysOn), 4),
            w if w == WRITE_ENABLED | REGS_CONTENT => {
                let range = rest.get(2..4).and_then(|r| r.first_chunk());
                let source = range.map(|&[first, count]| Source::Registers { first, count });
                (source, 6)
            }
            w if w & !(SAMPLE_COUNT_END | ACCUMULATE) == SAMPLE_COUNT => {
                let (end, accumulate) = (w & SAMPLE_COUNT_END != 0, w & ACCUMULATE != 0);
                (Some(Source::SampleCount { end, accumulate }), 4)
            }
            _ => return Err(reserved(1, info)),
        };
        if have != need {
            return Err(Malformed::Length { need, have });
        }
        let event = Event7::new((info & EVENT) as u8).ok_or(reserved(1, info))?;
        if event == Event7::RB_DONE_TS && what & WRITE_ENABLED == 0 {
            return Err(reserved(1, info));
        }
        let write = match (source, rest) {
            (Some(source), &[low, high, ..]) => {
                let (_, _, align) = source.frame();
                only(2, low, u32::MAX << align)?;
                only(3, high, 0x1_ffff)?;
                if let Source::Registers { first, count } = source {
                    only(4, first, REGISTER)?;
                    if count == 0 {
                        return Err(reserved(5, count));
                    }
                }
                Some((join(low, high).into(), source))
            }
            _ => None,
        };
        let irq = info & IRQ != 0;
        Ok(Self { event, write, irq })
    }
}

impl core::fmt::Display for EventWrite7 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "CP_EVENT_WRITE7 EVENT={}", self.event.name())?;
        if let Some((address, source)) = self.write {
            let name = match source {
                Source::Word(_) => "EV_WRITE_USER_32B",
                Source::Double(_) => "EV_WRITE_USER_64B",
                Source::AlwaysOn => "EV_WRITE_ALWAYSON",
                Source::Registers { .. } => "EV_WRITE_REGS_CONTENT",
                Source::SampleCount { end, accumulate } => {
                    f.write_str(" WRITE_SAMPLE_COUNT")?;
                    if end {
                        f.write_str(" SAMPLE_COUNT_END_OFFSET")?;
                    }
                    if accumulate {
                        f.write_str(" WRITE_ACCUM_SAMPLE_COUNT_DIFF")?;
                    }
                    ""
                }
            };
            if !name.is_empty() {
                write!(f, " WRITE_SRC={name} WRITE_DST=EV_DST_RAM WRITE_ENABLED")?;
            }
            write!(f, " ADDR={}", Text(address))?;
            match source {
                Source::Word(v) => write!(f, " PAYLOAD_0={}", Text(v))?,
                Source::Double(v) => match v.imm() {
                    Some(v) => {
                        let [low, high] = split(v);
                        write!(f, " PAYLOAD_0={low:#x} PAYLOAD_1={high:#x}")?;
                    }
                    None => write!(f, " PAYLOAD={}", Text(v))?,
                },
                Source::Registers { first, count } => {
                    write!(f, " PAYLOAD_0={first:#x} PAYLOAD_1={count:#x}")?;
                }
                Source::AlwaysOn | Source::SampleCount { .. } => {}
            }
        }
        f.write_str(if self.irq { " IRQ" } else { "" })
    }
}
