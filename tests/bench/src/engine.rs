//! The CPU device's engine without threads: a queue in this memory, polled by the caller.

use std::ffi::c_void;
use std::ptr::NonNull;

use hcq_cpu::PACKET_BYTES;
use hcq_cpu::abi::{Group, KernelFn};
use hcq_cpu::control::Control;
use hcq_cpu::engine::{Engine, EngineQueue, Platform, Poll};
use hcq_cpu::packet::Packet;
use hcq_nostd::fault::Access;
use hcq_nostd::mem::{Region, SharedWords};
use hcq_nostd::ring::Ring;

/// The entry of the only kernel, which does nothing.
pub const NOTHING: u64 = 0x40;

unsafe extern "C" fn nothing(_: *const c_void, _: *const Group) {}

/// Knows one block of memory, whose device addresses are its own, and [`NOTHING`].
#[derive(Debug)]
struct Host {
    start: u64,
    bytes: u64,
    now: u64,
}

impl Platform for Host {
    fn now_ns(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    #[inline]
    fn translate(&mut self, address: u64, len: u64, _: Access) -> Option<NonNull<u8>> {
        let offset = address.checked_sub(self.start)?;
        let inside = offset.checked_add(len)? <= self.bytes;
        let cpu = std::ptr::with_exposed_provenance_mut(address as usize);
        inside.then(|| NonNull::new(cpu)).flatten()
    }

    #[inline]
    fn kernel(&mut self, entry: u64) -> Option<KernelFn> {
        (entry == NOTHING).then_some(nothing as KernelFn)
    }
}

/// A queue's both ends.
#[derive(Debug)]
pub struct Device {
    engine: Engine<'static>,
    host: Host,
    data: u64,
}

/// Words of data that packets may name.
const DATA: usize = 64;
const PACKETS: usize = 64;

impl Device {
    /// With `packets` published and nothing run yet. They are made for the address of 512 bytes of zeroed data, at a
    /// multiple of 64. The memory is leaked.
    pub fn with(packets: impl Fn(u64) -> Vec<Packet>) -> Self {
        let bytes = Control::WORDS * 8 + PACKETS * PACKET_BYTES + DATA * 8;
        // Of 64-byte elements, for the alignment.
        let memory = vec![Line([0; 8]); bytes / 64].leak();
        let first = NonNull::from(&mut memory[0]).cast::<u8>();
        let start = first.as_ptr().expose_provenance() as u64;
        let ring_at = Control::WORDS * 8;
        let data_at = ring_at + PACKETS * PACKET_BYTES;
        let region = |offset: usize, len: usize| {
            // SAFETY: leaked, so it lives for good, and from here on it is used through regions only.
            let all = unsafe { Region::<'static>::new(first, bytes, start) };
            all.slice(offset, len).expect("inside")
        };
        let words = SharedWords::new(region(0, ring_at)).expect("aligned");
        let mut control = Control::new(words).expect("enough words");
        let ring = || region(ring_at, PACKETS * PACKET_BYTES);

        let data = start + data_at as u64;
        let packets = packets(data);
        let mut host = Ring::new(ring(), PACKET_BYTES).expect("whole packets");
        let mut hole = host.reserve(packets.len() as u64).expect("room");
        for (n, packet) in (0u64..).zip(&packets) {
            hole.fill(n, &packet.encode()).expect("reserved");
        }
        hole.publish(&mut control);

        let queue = EngineQueue::new(ring(), control, 0).expect("whole packets");
        let queues = Box::leak(Box::new([queue]));
        Self {
            engine: Engine::new(queues, Region::from_words(&mut [], 0)),
            host: Host {
                start: start + data_at as u64,
                bytes: DATA as u64 * 8,
                now: 0,
            },
            data,
        }
    }

    /// One poll.
    #[inline(never)]
    pub fn poll(&mut self) -> Poll {
        // SAFETY: the host answers for the data only, which nobody else uses, and for a kernel that may always be called.
        unsafe { self.engine.poll(&mut self.host, 1000) }
    }

    /// The address of the data.
    pub fn data(&self) -> u64 {
        self.data
    }
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u64; 8]);

#[cfg(test)]
mod tests {
    use super::*;
    use hcq_cpu::packet::Exec;

    #[test]
    fn packets_run_once() {
        let mut device = Device::with(|data| {
            vec![
                Packet::Exec(Exec {
                    kernel: NOTHING,
                    args: data,
                    args_size: 8,
                    groups: [3, 1, 1],
                    local: [1; 3],
                    local_memory: 0,
                }),
                Packet::Barrier,
            ]
        });
        assert!(matches!(device.poll(), Poll::Ran(n) if n >= 2));
        assert_eq!(device.poll(), Poll::Idle);
    }

    #[test]
    fn signals_and_waits_work_on_the_data() {
        let signal = |address, value| Packet::Signal {
            address,
            value,
            notify: false,
        };
        let mut device = Device::with(|address| {
            let wait = |value| Packet::Wait { address, value };
            vec![wait(0), signal(address, 7), wait(7), wait(8)]
        });
        assert_eq!(device.poll(), Poll::Ran(3));
        assert!(matches!(device.poll(), Poll::Blocked(_)));
    }

    #[test]
    fn what_is_not_known_faults() {
        let mut device = Device::with(|data| {
            vec![Packet::Exec(Exec {
                kernel: NOTHING + 1,
                args: data,
                args_size: 8,
                groups: [1; 3],
                local: [1; 3],
                local_memory: 0,
            })]
        });
        assert!(matches!(device.poll(), Poll::Fault { .. }));
    }
}
