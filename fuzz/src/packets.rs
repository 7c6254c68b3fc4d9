//! What the CPU device reads: packets, and the signatures of kernels.

use core::ffi::c_void;
use core::ptr::NonNull;

use hcq_cpu::abi::{Group, KernelFn};
use hcq_cpu::control::Control;
use hcq_cpu::engine::{Engine, EngineQueue, Platform, Poll};
use hcq_cpu::packet::Packet;
use hcq_cpu::{PACKET_BYTES, PACKET_WORDS, signature};
use hcq_nostd::args::ArgSlot;
use hcq_nostd::fault::Access;
use hcq_nostd::mem::{Region, SharedWords};

fn words_of(bytes: &[u8]) -> [u32; PACKET_WORDS] {
    let mut words = [0; PACKET_WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = bytes
            .iter()
            .rev()
            .fold(0, |word, &byte| word << 8 | u32::from(byte));
    }
    words
}

/// Packets of 64 bytes. What decodes encodes to the same words, and so decodes to the same again; all of it has a text.
pub fn cpu_packet(data: &[u8]) -> bool {
    let mut accepted = data.len() >= PACKET_BYTES;
    for bytes in data.chunks_exact(PACKET_BYTES) {
        let words = words_of(bytes);
        match Packet::decode(&words) {
            Ok(packet) => {
                assert_eq!(packet.encode(), words, "{packet}");
                assert_eq!(Packet::decode(&packet.encode()), Ok(packet));
                assert!(!packet.to_string().is_empty());
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                accepted = false;
            }
        }
    }
    accepted
}

/// Device addresses of the memory that the packets of [`cpu_engine`] may use.
pub const MEMORY: core::ops::Range<u64> = 0x1000..0x2000;
/// The one kernel there is.
pub const KERNEL: u64 = 1;

#[repr(align(64))]
struct Memory([u8; (MEMORY.end - MEMORY.start) as usize]);

struct Machine {
    base: NonNull<u8>,
    now_ns: u64,
}

impl Platform for Machine {
    fn now_ns(&mut self) -> u64 {
        self.now_ns += 10;
        self.now_ns
    }

    fn translate(&mut self, address: u64, len: u64, _: Access) -> Option<NonNull<u8>> {
        let offset = address.checked_sub(MEMORY.start)?;
        let end = address.checked_add(len)?;
        // SAFETY: the offset is inside the memory, or one past its end for no bytes.
        (end <= MEMORY.end).then(|| unsafe { self.base.add(offset as usize) })
    }

    fn kernel(&mut self, entry: u64) -> Option<KernelFn> {
        unsafe extern "C" fn nothing(_: *const c_void, group: *const Group) {
            // SAFETY: the engine passes a group.
            let group = unsafe { &*group };
            assert!(group.group.iter().zip(group.groups).all(|(id, n)| *id < n));
        }
        (entry == KERNEL).then_some(nothing as KernelFn)
    }
}

/// Bytes as the contents of a ring: the engine runs them, is held, or stops the queue with a fault, and touches only the
/// memory that it is given. Accepted if all packets ran.
pub fn cpu_engine(data: &[u8]) -> bool {
    const PACKETS: usize = 16;
    const BUDGET: u32 = 64;
    let mut memory = Memory([0; (MEMORY.end - MEMORY.start) as usize]);
    let mut machine = Machine {
        base: NonNull::from(&mut memory.0).cast(),
        now_ns: 1,
    };
    let mut ring = [0u64; PACKETS * PACKET_BYTES / 8];
    let mut control = [0u64; Control::WORDS];
    let mut local = [0u64; 128];

    let control = SharedWords::new(Region::from_words(&mut control, 0)).expect("aligned");
    let control = Control::new(control).expect("enough words");
    let packets = (data.len() / PACKET_BYTES).min(PACKETS);
    let mut region = Region::from_words(&mut ring, 0);
    region
        .write(0, &data[..packets * PACKET_BYTES])
        .expect("room for the packets");
    control.set_put(packets as u64);

    let mut queues = [EngineQueue::new(region, control, 7).expect("whole packets")];
    let mut engine =
        Engine::new(&mut queues, Region::from_words(&mut local, 0)).with_copy_step(256);
    for _ in 0..200 {
        // SAFETY: the machine gives out its own memory only, and its kernel touches none.
        match unsafe { engine.poll(&mut machine, BUDGET) } {
            Poll::Ran(n) => assert!(n > 0 && n <= BUDGET + 256, "{n} for a budget of {BUDGET}"),
            Poll::Idle => {
                assert_eq!(control.get(), packets as u64);
                return packets > 0;
            }
            Poll::Blocked(_) => {
                assert!(
                    control.get() < packets as u64,
                    "held by a packet that was retired"
                );
                return false;
            }
            Poll::Fault { queue, record } => {
                assert_eq!((queue, control.fault().get()), (0, Some(record)));
                assert!(engine.queues()[0].is_stopped());
                // SAFETY: as above.
                let after = unsafe { engine.poll(&mut machine, BUDGET) };
                assert_eq!(after, Poll::Idle, "a stopped queue goes on");
                return false;
            }
        }
    }
    false
}

/// Text as a kernel's signature. The layout that is accepted is that of the arguments one by one, each aligned to its
/// size and behind the one before.
pub fn signature(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let mut slots = [ArgSlot::buffer(0); 32];
    let all: Result<Vec<_>, _> = signature::arguments(text).collect();
    match signature::parse(text, &mut slots) {
        Ok(layout) => {
            let all = all.expect("what parses as a whole parses one by one");
            assert!(all.iter().map(|a| a.slot).eq(layout.slots.iter().copied()));
            let mut end = 0;
            for argument in &all {
                assert!(text.contains(argument.name));
                let slot = argument.slot;
                assert!(
                    slot.offset >= end && slot.offset % slot.size == 0 && slot.size <= layout.align
                );
                end = slot.offset + slot.size;
            }
            assert!(layout.size >= end && layout.size % layout.align == 0);
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(all.is_err() || all.is_ok_and(|all| all.len() > 32));
            false
        }
    }
}

/// Rings full of packets, by name: the seeds of [`cpu_packet`] and [`cpu_engine`].
pub fn sound_packets() -> Vec<(&'static str, Vec<u8>)> {
    use hcq_cpu::packet::Exec;
    let at = MEMORY.start;
    let exec = |groups, local_memory| {
        Packet::Exec(Exec {
            kernel: KERNEL,
            args: at,
            args_size: 16,
            groups,
            local: [8, 1, 1],
            local_memory,
        })
    };
    let bytes = |packets: &[Packet]| {
        packets
            .iter()
            .flat_map(Packet::encode)
            .flat_map(u32::to_le_bytes)
            .collect()
    };
    vec![
        (
            "ok-all",
            bytes(&[
                exec([3, 2, 1], 64),
                Packet::Copy {
                    destination: at + 0x800,
                    source: at,
                    bytes: 0x300,
                },
                Packet::Write32 {
                    address: at + 4,
                    value: 0x55,
                },
                Packet::Write64 {
                    address: at + 8,
                    value: u64::MAX,
                },
                Packet::Poll {
                    address: at + 4,
                    mask: 0xff,
                    expect: 0x55,
                },
                Packet::Signal {
                    address: at + 0x10,
                    value: 9,
                    notify: true,
                },
                Packet::Wait {
                    address: at + 0x10,
                    value: 8,
                },
                Packet::Timestamp { address: at + 0x10 },
                Packet::Barrier,
                Packet::Nop,
            ]),
        ),
        // A NOP in memory, made by a write, and launched from there.
        (
            "ok-indirect",
            bytes(&[
                Packet::Write32 {
                    address: at + 0x40,
                    value: 10,
                },
                Packet::Write32 {
                    address: at + 0x80,
                    value: 8,
                },
                Packet::Indirect {
                    address: at + 0x40,
                    count: 2,
                },
                Packet::Signal {
                    address: at,
                    value: 1,
                    notify: false,
                },
            ]),
        ),
        ("ok-groups", bytes(&[exec([40, 10, 2], 0), Packet::Nop])),
    ]
}
