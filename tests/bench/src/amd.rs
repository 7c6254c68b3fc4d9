//! AMD's compute queues: what is made once before commands are recorded, for a gfx1100 and a kernel with two pointers,
//! which is what RADV is given, too.

use hcq_amd::aql::{self, AqlCompute, PACKET_BYTES};
use hcq_amd::chips::Chip;
use hcq_amd::device::{Device, Event};
use hcq_amd::hidden::HiddenSlot;
use hcq_amd::kernel::{Arguments, Kernel, Properties};
use hcq_amd::pm4::{self, Pm4Compute};
use hcq_amd::scratch::Scratch;
use hcq_nostd::args::{Arg, ArgLayout, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch, Program, SignalAt};
use hcq_nostd::record::Block;
use hcq_nostd::value::Value;

static SLOTS: [ArgSlot; 2] = [ArgSlot::buffer(0), ArgSlot::buffer(8)];
static HIDDEN: [HiddenSlot; 0] = [];

/// A kernel as a loader finds it: wave32, its argument block's address in two registers.
fn kernel() -> Kernel {
    Kernel {
        object: 0x7f44_0001_1300,
        entry: 0x7f44_0001_2300,
        rsrc: [0x60af_0080, 0x0000_1390, 0],
        properties: Properties::KERNARG_SEGMENT_PTR | Properties::WAVEFRONT_SIZE32,
        kernarg_bytes: 16,
        private_bytes: 0,
        group_bytes: 0,
        max_group: 1024,
    }
}

fn arguments() -> Arguments<'static> {
    let layout = ArgLayout {
        slots: &SLOTS,
        size: 16,
        align: 16,
    };
    Arguments {
        layout,
        hidden: &HIDDEN,
    }
}

/// One XCC, and an event that wakes the host.
fn device() -> Device {
    let chip = Chip::named("gfx1100").expect("a chip of the table");
    let event = Event::new(0x7e55_0000_2018, 3).expect("an event");
    Device::new(chip, 1).expect("a device").with_event(event)
}

/// A queue and a program for it.
#[derive(Debug)]
pub struct Recording<Q, P> {
    queue: Q,
    program: P,
    kernargs: Region<'static>,
}

/// Of PM4 packets.
pub type Pm4 = Recording<Pm4Compute<'static>, pm4::Program<'static>>;
/// Of AQL packets.
pub type Aql = Recording<AqlCompute<'static>, aql::Program<'static>>;

fn leak<T: Clone>(zero: T, n: usize) -> &'static mut [T] {
    vec![zero; n].leak()
}

/// The device and a program for its PM4 queue.
pub(crate) fn pm4_program() -> (Device, pm4::Program<'static>) {
    let device = device();
    let program =
        pm4::Program::new(&device, &kernel(), arguments(), &Scratch::NONE, 0).expect("a program");
    (device, program)
}

/// With room for `groups` launches with all that [`group`](Recording::group) puts around them. The memory is leaked.
pub fn pm4(groups: usize) -> Pm4 {
    let (device, program) = pm4_program();
    Recording {
        queue: Pm4Compute::new(&device, leak(0u32, groups * 128), PatchList::none()),
        program,
        kernargs: Region::from_words(leak(0u64, groups * 8), 0x8000_0000),
    }
}

/// The same of AQL packets.
pub fn aql(groups: usize) -> Aql {
    let device = device();
    let program =
        aql::Program::new(&device, &kernel(), arguments(), &Scratch::NONE).expect("a program");
    let packets = Region::from_words(leak(0u64, groups * 4 * PACKET_BYTES / 8), 0xc000_0000);
    let words = leak(0u32, groups * 128);
    Recording {
        queue: AqlCompute::new(
            &device,
            words,
            0xb000_0000u64.into(),
            packets,
            RegionId(2),
            PatchList::none(),
        ),
        program,
        kernargs: Region::from_words(leak(0u64, groups * 8), 0x8000_0000),
    }
}

impl<Q, P> Recording<Q, P>
where
    Q: ComputeQueue<Program<'static> = P>,
    P: Program,
{
    /// One launch with two pointers that are known now. The argument block is the `n`th.
    #[inline]
    pub fn exec(&mut self, n: usize, pointers: [u64; 2]) {
        let one = Value::Imm(1);
        let block = Block::new(&mut self.kernargs, RegionId(1), n * 64, 64);
        let launch = Launch {
            program: &self.program,
            args: &[
                Arg::Buffer(pointers[0].into()),
                Arg::Buffer(pointers[1].into()),
            ],
            kernargs: block.expect("room"),
            groups: [one; 3],
            local: [Value::Imm(64), one, one],
            local_memory: 0,
        };
        self.queue.exec(launch).expect("room");
    }

    /// A wait, a barrier, a launch and a signal.
    #[inline]
    pub fn group(&mut self, n: usize, pointers: [u64; 2], signal: SignalAt, value: Value) {
        self.queue
            .wait(signal, value)
            .and_then(Q::memory_barrier)
            .expect("room");
        self.exec(n, pointers);
        self.queue.signal(signal, value).expect("room");
    }
}

impl Pm4 {
    /// Forgets what was recorded.
    pub fn clear(&mut self) {
        self.queue.recorder().clear();
    }

    /// The words so far.
    pub fn words(&self) -> &[u32] {
        self.queue.words()
    }
}

impl Aql {
    /// Packets and words so far.
    pub fn len(&self) -> (usize, usize) {
        (self.queue.packets(), self.queue.words().len())
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hcq_amd::dump::{Dump, Stream};

    const SIGNAL: SignalAt = SignalAt {
        address: Value::Imm(0x9000),
        notify: true,
    };

    #[test]
    fn a_group_is_what_it_says() {
        let mut recording = pm4(2);
        recording.group(0, [0x1000, 0x2000], SIGNAL, Value::Imm(1));
        let chip = Chip::named("gfx1100").expect("a chip of the table");
        let text = Dump::new(Stream::Pm4(chip), recording.words()).to_string();
        for packet in [
            "WAIT_REG_MEM",
            "ACQUIRE_MEM",
            "SET_SH_REG",
            "DISPATCH_DIRECT DIM=0x1,0x1,0x1",
            "RELEASE_MEM",
        ] {
            assert!(text.contains(packet), "{packet}\n{text}");
        }
        assert!(!text.contains("??"), "{text}");
        assert_eq!(recording.kernargs.load_u64(8).ok(), Some(0x2000));
        recording.clear();
        assert!(recording.words().is_empty());

        let mut recording = aql(2);
        assert!(recording.is_empty());
        recording.group(0, [0x1000, 0x2000], SIGNAL, Value::Imm(1));
        assert_eq!(recording.len().0, 3);
        assert_eq!(recording.kernargs.load_u64(0).ok(), Some(0x1000));
    }
}
