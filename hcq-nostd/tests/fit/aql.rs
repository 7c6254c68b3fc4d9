//! AQL: 64-byte packets in a ring, some of which run PM4 words elsewhere.
//!
//! The queue has two streams: PM4 words, in a recorder, and packets, in a region of its own. A packet's sites are filed
//! under that region, so that both are patched by one table.

use hcq_nostd::args::ArgLayout;
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{Formula, PatchList, RegionId, Store};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{Block, Command, Operand, RecordError, Recorder, Room};
use hcq_nostd::ring::{Doorbell, Ring, RingError};
use hcq_nostd::value::{Fit, Value, Var};

use super::lab::Recording;
use super::pm4::{self, Descriptor, Device, dispatch_packet, type3};

/// The packets' number in a recording of this sketch.
pub(crate) const PACKETS: RegionId = RegionId(1);
pub(crate) const PACKET_BYTES: usize = 64;
const PACKET_WORDS: usize = PACKET_BYTES / 4;

// Header, HSA_PACKET_*.
const TYPE_VENDOR: u32 = 0;
const TYPE_INVALID: u32 = 1;
const TYPE_KERNEL_DISPATCH: u32 = 2;
const BARRIER: u32 = 1 << 8;
const ACQUIRE_SYSTEM: u32 = 2 << 9;
const RELEASE_SYSTEM: u32 = 2 << 11;
const ORDERED: u32 = BARRIER | ACQUIRE_SYSTEM | RELEASE_SYSTEM;
/// Setup, in the header's upper half: three dimensions.
const THREE_DIMENSIONS: u32 = 3 << 16;

// A vendor packet with an indirect buffer.
const AMD_FORMAT_PM4_IB: u32 = 1 << 16;
const IB_ADDRESS: usize = 8;
const IB_SIZE: usize = 16;
const IB_VALID: u32 = 1 << 23;
const IB_SIZE_BITS: u32 = 20;
const BODY_DWORDS: u32 = 10;

const KERNARG_ALIGN: usize = 16;

/// A program prepared for dispatch packets.
#[derive(Clone, Debug)]
pub(crate) struct Program<'p> {
    layout: ArgLayout<'p>,
    group_bytes: u32,
    template: [u8; PACKET_BYTES],
}

impl<'p> Program<'p> {
    pub(crate) fn new(descriptor: &Descriptor, layout: ArgLayout<'p>) -> Self {
        let mut template = [0; PACKET_BYTES];
        let mut put =
            |at: usize, bytes: &[u8]| template[at..at + bytes.len()].copy_from_slice(bytes);
        put(
            0,
            &(TYPE_KERNEL_DISPATCH | ORDERED | THREE_DIMENSIONS).to_le_bytes(),
        );
        put(
            dispatch_packet::PRIVATE_SEGMENT_SIZE,
            &descriptor.private_bytes.to_le_bytes(),
        );
        put(
            dispatch_packet::GROUP_SEGMENT_SIZE,
            &descriptor.group_bytes.to_le_bytes(),
        );
        put(
            dispatch_packet::KERNEL_OBJECT,
            &descriptor.kernel_object.to_le_bytes(),
        );
        Self {
            layout,
            group_bytes: descriptor.group_bytes,
            template,
        }
    }
}

impl hcq_nostd::queue::Program for Program<'_> {
    fn kernargs_size(&self) -> usize {
        self.layout.size as usize
    }

    fn kernargs_align(&self) -> usize {
        KERNARG_ALIGN
    }
}

/// The vendor packet that the next PM4 words belong to.
#[derive(Clone, Copy, Debug)]
struct Open {
    packet: usize,
    first_word: usize,
}

/// A compute queue of AQL packets.
#[derive(Debug)]
pub(crate) struct AqlQueue<'m> {
    device: Device,
    recorder: Recorder<'m>,
    packets: Region<'m>,
    used: usize,
    open: Option<Open>,
    /// Where the words will be: known now for a bound queue, a variable otherwise.
    buffer: Value,
}

impl<'m> AqlQueue<'m> {
    pub(crate) fn new(
        device: Device,
        words: &'m mut [u32],
        buffer: Value,
        packets: Region<'m>,
        list: PatchList<'m>,
    ) -> Self {
        Self {
            device,
            recorder: Recorder::new(words, list),
            packets,
            used: 0,
            open: None,
            buffer,
        }
    }

    /// Number of words, number of packets, and the list.
    pub(crate) fn finish(self) -> (usize, usize, PatchList<'m>) {
        let (len, list) = self.recorder.finish();
        (len, self.used, list)
    }

    fn pm4(
        &mut self,
        encode: impl FnOnce(&Device, &mut Command<'_, '_>) -> Result<(), RecordError>,
    ) -> Result<&mut Self, RecordError> {
        let start = self.recorder.words().len();
        let open = self.open.unwrap_or(Open {
            packet: self.used,
            first_word: start,
        });
        let full = no_room(&self.recorder, open.packet);
        let (device, buffer, packets) = (&self.device, self.buffer, &mut self.packets);
        let is_new = self.open.is_none();
        self.recorder.command(|c| {
            encode(device, c)?;
            let block = Block::new(packets, PACKETS, open.packet * PACKET_BYTES, PACKET_BYTES);
            let mut block = block.map_err(|_| full)?;
            let dwords = start + c.position() - open.first_word;
            let (value, max) = (dwords as u64, (1 << IB_SIZE_BITS) - 1);
            if value > max {
                return Err(RecordError::Limit {
                    operand: Operand::Length,
                    value,
                    max,
                });
            }
            if is_new {
                vendor_packet(c.list(), &mut block, buffer + 4 * open.first_word as u64)?;
            }
            block.write(IB_SIZE, &(dwords as u32 | IB_VALID).to_le_bytes())
        })?;
        (self.open, self.used) = (Some(open), open.packet + 1);
        Ok(self)
    }
}

/// One packet more than there are.
fn no_room(recorder: &Recorder<'_>, packets: usize) -> RecordError {
    RecordError::NoRoom(Room {
        beside: (packets + 1) * PACKET_BYTES,
        ..recorder.used()
    })
}

fn vendor_packet(
    list: &mut PatchList<'_>,
    block: &mut Block<'_, '_>,
    buffer: Value,
) -> Result<(), RecordError> {
    let mut words = [0; PACKET_WORDS];
    words[..2].copy_from_slice(&[
        TYPE_VENDOR | ORDERED | AMD_FORMAT_PM4_IB,
        type3(pm4::INDIRECT_BUFFER, 3),
    ]);
    words[IB_SIZE / 4 + 1] = BODY_DWORDS;
    block.write(0, zerocopy::IntoBytes::as_bytes(&words))?;
    let address = Formula {
        fit: Fit::aligned(48, 2),
        ..Formula::whole(Var::new(0))
    };
    block.value(list, IB_ADDRESS, buffer, &address, Operand::Address)
}

impl<'m> Recording<'m> for AqlQueue<'m> {
    fn list(&mut self) -> &mut PatchList<'m> {
        self.recorder.list()
    }
}

impl Queue for AqlQueue<'_> {
    fn signal(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.pm4(|device, c| pm4::signal(device, c, at, value))
    }

    fn wait(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.pm4(|_, c| pm4::wait(c, at, value))
    }

    fn timestamp(&mut self, at: SignalAt) -> Result<&mut Self, RecordError> {
        self.pm4(|device, c| pm4::timestamp(device, c, at))
    }

    fn write(
        &mut self,
        address: Value,
        value: Value,
        width: WriteWidth,
    ) -> Result<&mut Self, RecordError> {
        self.pm4(|_, c| pm4::write(c, address, value, width))
    }

    fn poll_bit(
        &mut self,
        address: Value,
        mask: u32,
        expect: Value,
    ) -> Result<&mut Self, RecordError> {
        self.pm4(|_, c| pm4::poll_bit(c, address, mask, expect))
    }
}

impl ComputeQueue for AqlQueue<'_> {
    type Program<'p> = Program<'p>;

    fn memory_barrier(&mut self) -> Result<&mut Self, RecordError> {
        self.pm4(|device, c| {
            pm4::memory_barrier(device, c);
            Ok(())
        })
    }

    fn exec(&mut self, launch: Launch<'_, '_, Program<'_>>) -> Result<&mut Self, RecordError> {
        let full = no_room(&self.recorder, self.used);
        let (packets, packet) = (&mut self.packets, self.used);
        self.recorder.command(|c| {
            let block = Block::new(packets, PACKETS, packet * PACKET_BYTES, PACKET_BYTES);
            dispatch(c.list(), &mut block.map_err(|_| full)?, launch)?;
            // A queue item has one place among the words, a packet too.
            c.word(0);
            Ok(())
        })?;
        (self.open, self.used) = (None, packet + 1);
        Ok(self)
    }
}

fn dispatch(
    list: &mut PatchList<'_>,
    packet: &mut Block<'_, '_>,
    mut launch: Launch<'_, '_, Program<'_>>,
) -> Result<(), RecordError> {
    let program = launch.program;
    pm4::check_local(launch.local)?;
    let (need, have) = (program.kernargs_size(), launch.kernargs.len());
    let too_small = RecordError::KernargsTooSmall { need, have };
    if have < need {
        return Err(too_small);
    }
    program
        .layout
        .write(launch.args, &mut launch.kernargs, list)?;
    let kernargs = launch.kernargs.device_address(0).ok_or(too_small)?;

    packet.write(0, &program.template)?;
    for d in 0..3u8 {
        let (groups, local) = (launch.groups[usize::from(d)], launch.local[usize::from(d)]);
        // In work-items, below 2^32, and not zero.
        let count = |store: Store| Formula {
            fit: Fit::count(store.bytes() as u8 * 8),
            ..Formula::narrow(Var::new(0), store)
        };
        let at = dispatch_packet::WORKGROUP_SIZE + 2 * usize::from(d);
        packet.value(list, at, local, &count(Store::W16), Operand::Local(d))?;
        let at = dispatch_packet::GRID_SIZE + 4 * usize::from(d);
        let grid = list.product(groups, local)?;
        packet.value(list, at, grid, &count(Store::W32), Operand::Groups(d))?;
    }
    let group = Value::from(program.group_bytes) + launch.local_memory.into();
    packet.whole(
        list,
        dispatch_packet::GROUP_SEGMENT_SIZE,
        group,
        Store::W32,
        Operand::LocalMemory,
    )?;
    let aligned = Formula {
        fit: Fit::aligned(64, 4),
        ..Formula::whole(Var::new(0))
    };
    packet.value(
        list,
        dispatch_packet::KERNARG_ADDRESS,
        kernargs.into(),
        &aligned,
        Operand::Kernargs,
    )
}

/// Copies packets into the ring: bodies first, then the headers that make them valid.
pub(crate) fn submit(
    ring: &mut Ring<'_>,
    packets: &[u32],
    doorbell: &mut impl Doorbell,
) -> Result<u64, RingError> {
    let (packets, _) = packets.as_chunks::<PACKET_WORDS>();
    let mut hole = ring.reserve(packets.len() as u64)?;
    for (i, packet) in (0..).zip(packets) {
        let mut body = *packet;
        body[0] = TYPE_INVALID;
        hole.fill(i, &body)?;
    }
    for (i, packet) in (0..).zip(packets) {
        hole.fill_header(i, packet[0])?;
    }
    Ok(hole.publish(doorbell))
}
