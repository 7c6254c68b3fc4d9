//! The vendor packet that runs PM4 words elsewhere, `amd_aql_pm4_ib`.

use hcq_nostd::patch::{Formula, PatchList};
use hcq_nostd::record::{Block, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value, Var};

use super::PACKET_WORDS;
use super::header::{Header, Kind};
use crate::device::ADDRESS_BITS;
use crate::malformed::{Malformed, only};
use crate::pm4::indirect_buffer::IndirectBuffer;
use crate::pm4::{join, split};

/// ven_hdr, AMD_AQL_FORMAT_PM4_IB, in the upper half of the first word.
const FORMAT_PM4_IB: u32 = 1 << 16;
/// dw_cnt_remain: dwords behind it.
const DW_CNT_REMAIN: u32 = 10;
/// Byte offsets of the indirect buffer's address and size.
const IB_BASE: usize = 8;
const IB_SIZE: usize = 16;

/// Runs PM4 words that are somewhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pm4Ib {
    /// Barrier bit and fences.
    pub header: Header,
    /// ib_jump_cmd.
    pub buffer: IndirectBuffer,
    /// completion_signal: decremented when it is complete; zero for none.
    pub completion_signal: u64,
}

impl Pm4Ib {
    fn frame(&self) -> [u32; PACKET_WORDS] {
        let ([jump, size], [low, high]) = (self.buffer.frame(), split(self.completion_signal));
        let first = Header {
            kind: Kind::Vendor,
            ..self.header
        }
        .bits()
            | FORMAT_PM4_IB;
        [
            first,
            jump,
            0,
            0,
            size,
            DW_CNT_REMAIN,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            low,
            high,
        ]
    }

    /// The packet, if its address is known now. Its type is vendor whatever the header says.
    pub fn words(&self) -> Option<[u32; PACKET_WORDS]> {
        let mut words = self.frame();
        let [_, _, low, high, ..] = &mut words;
        [*low, *high] = split(self.buffer.address.imm()?);
        Some(words)
    }

    /// Writes the packet, or files the site of its address.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for an address that is misaligned or not below 2^48.
    pub fn record(
        &self,
        list: &mut PatchList<'_>,
        block: &mut Block<'_, '_>,
    ) -> Result<(), RecordError> {
        let fit = Fit::aligned(ADDRESS_BITS, 2);
        if let (Value::Imm(address), Some(words)) = (self.buffer.address, self.words()) {
            fit.check(address).operand(Operand::Address)?;
            return block.write(0, zerocopy::IntoBytes::as_bytes(&words));
        }
        block.write(0, zerocopy::IntoBytes::as_bytes(&self.frame()))?;
        let address = Formula {
            fit,
            ..Formula::whole(Var::new(0))
        };
        block.value(
            list,
            IB_BASE,
            self.buffer.address,
            &address,
            Operand::Address,
        )
    }

    /// Writes a packet in queue order that runs a [count](IndirectBuffer::count) of words.
    #[inline]
    pub(crate) fn record_ordered(
        list: &mut PatchList<'_>,
        block: &mut Block<'_, '_>,
        address: Value,
        count: u32,
    ) -> Result<(), RecordError> {
        let Value::Imm(known) = address else {
            return Self::ordered(address, count as usize)?.record(list, block);
        };
        Fit::aligned(ADDRESS_BITS, 2)
            .check(known)
            .operand(Operand::Address)?;
        let first = Header::ordered(Kind::Vendor).bits() | FORMAT_PM4_IB;
        let ([jump, size], [low, high]) = (IndirectBuffer::frame_of(count), split(known));
        let words: [u32; PACKET_WORDS] = [
            first,
            jump,
            low,
            high,
            size,
            DW_CNT_REMAIN,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ];
        block.write(0, zerocopy::IntoBytes::as_bytes(&words))
    }

    /// Makes the packet in a block run this [count](IndirectBuffer::count) of words.
    #[inline]
    pub(crate) fn resize(block: &mut Block<'_, '_>, count: u32) -> Result<(), RecordError> {
        let [_, size] = IndirectBuffer::frame_of(count);
        block.write(IB_SIZE, &size.to_le_bytes())
    }

    /// The packet in these words.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32; PACKET_WORDS]) -> Result<Self, Malformed> {
        let &[
            first,
            jump,
            base,
            base_hi,
            size,
            remain,
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
            low,
            high,
        ] = words;
        let header = Header::decode(first)?;
        if header.kind != Kind::Vendor || first >> 16 != FORMAT_PM4_IB >> 16 {
            return Err(Malformed::Header { word: first });
        }
        only(5, remain ^ DW_CNT_REMAIN, 0)?;
        for (word, value) in (6..).zip([a, b, c, d, e, f, g, h]) {
            only(word, value, 0)?;
        }
        Ok(Self {
            header,
            buffer: IndirectBuffer::decode(&[jump, base, base_hi, size])?,
            completion_signal: join(low, high),
        })
    }

    /// A packet in queue order that runs `words` words at `address`.
    ///
    /// # Errors
    /// [`RecordError`], as for [`IndirectBuffer::new`].
    pub fn ordered(address: Value, words: usize) -> Result<Self, RecordError> {
        Ok(Self {
            header: Header::ordered(Kind::Vendor),
            buffer: IndirectBuffer::new(address, words)?,
            completion_signal: 0,
        })
    }
}

impl core::fmt::Display for Pm4Ib {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} PM4_IB {}", self.header, self.buffer)?;
        if self.completion_signal != 0 {
            write!(f, " completion_signal={:#x}", self.completion_signal)?;
        }
        Ok(())
    }
}
