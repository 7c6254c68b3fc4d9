//! A sketch of mlx5's encoders over the core: golden work queue entries, and golden doorbells in AMD's and NVIDIA's queues. It
//! shows that the core has what such a driver needs, and is no driver itself.

mod sketch;

use hcq_amd::chips::Chip;
use hcq_amd::pm4::Pm4Compute;
use hcq_golden::lab::{self, Encoder, Image, Space};
use hcq_golden::{self as golden, Json, Operands, Vars, list, number, number32};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchError, PatchList, Patcher, RegionId, Site};
use hcq_nostd::record::{Block, Operand, RecordError};
use hcq_nostd::ring::{Ring, WouldBlock};
use hcq_nostd::value::{Misfit, Value};
use hcq_nv::compute::{NvCompute, Qmds};
use sketch::{self as mlx5, Data, Doorbells, RECEIVE_WQE_BYTES, SEND_WQE_BYTES};

/// A queue whose patch list can be reached between commands, to declare derived variables.
pub(crate) trait Recording<'m>: hcq_nostd::queue::Queue {
    fn list(&mut self) -> &mut PatchList<'m>;
}

impl<'m> Recording<'m> for Pm4Compute<'m> {
    fn list(&mut self) -> &mut PatchList<'m> {
        self.recorder().list()
    }
}

impl<'m> Recording<'m> for NvCompute<'m, '_> {
    fn list(&mut self) -> &mut PatchList<'m> {
        self.recorder().list()
    }
}

struct Nic;

fn doorbells(inputs: &Json) -> Doorbells {
    let (qp, records) = (&inputs["qp"], number(&inputs["dbr_addr"]));
    Doorbells {
        qpn: number32(&qp["qpn"]),
        queue_record: records + number(&qp["qp_dbr_offset"]),
        completion_record: records + number(&qp["cq_dbr_offset"]),
        uar: number(&inputs["uar_addr"]),
        completions: number(&inputs["cq_addr"]),
        completions_log2: number(&qp["cq_entries"]).ilog2() as u8,
    }
}

impl Encoder for Nic {
    fn spaces(&self, _: &Json) -> Vec<Space> {
        Vec::new()
    }

    fn record<'m>(
        &self,
        case: &Json,
        operands: Operands<'_>,
        words: &'m mut [u32],
        patches: PatchList<'m>,
        _: &mut [Region<'_>],
    ) -> Result<(usize, PatchList<'m>), RecordError> {
        let inputs = &case["inputs"];
        fn ring<'m, Q: Recording<'m>>(
            q: &mut Q,
            inputs: &Json,
            operands: Operands<'_>,
        ) -> Result<(), RecordError> {
            let head = operands.value(q.list(), &inputs["head"]);
            mlx5::ring(q, &doorbells(inputs), head, inputs["ring_uar"] == true)
        }
        match inputs["gpu_queue"].as_str() {
            Some("nv") => {
                let chip = hcq_nv::chips::Chip::named("ga10x").expect("a chip of the table");
                let device = hcq_nv::device::Device::new(chip);
                let no_launches = Qmds::new(Region::from_words(&mut [], 0), RegionId(1));
                let mut q = NvCompute::new(&device, words, no_launches, patches);
                ring(&mut q, inputs, operands)?;
                Ok(q.finish().0.finish())
            }
            name => {
                let chip = Chip::named(name.expect("a queue")).expect("a chip of the table");
                let device = hcq_amd::device::Device::new(chip, 1).expect("a device");
                let mut q = Pm4Compute::new(&device, words, patches);
                ring(&mut q, inputs, operands)?;
                Ok(q.finish().finish())
            }
        }
    }

    fn decode_and_encode(&self, _: &str, words: &[u32]) -> Vec<u32> {
        // Sketches have no decoders.
        words.to_vec()
    }

    /// The doorbell record's counters have 16 bits; the reference writes all of them.
    fn correct(&self, case: &Json, vars: Option<&Vars>, want: &mut Image) {
        let (head, Some(vars)) = (&case["inputs"]["head"], vars) else {
            return;
        };
        let head = head["expr"]
            .as_str()
            .map_or_else(|| golden::signed(head), |e| golden::evaluate(e, vars));
        let next = (head + 1) as u32;
        let at = if case["inputs"]["gpu_queue"] == "nv" {
            3
        } else {
            5
        };
        assert_eq!(want.words[at], next.swap_bytes(), "a known fault");
        want.words[at] = (next & 0xffff).swap_bytes();
    }
}

/// Every case of a doorbell that a GPU's queue rings.
#[test]
fn rings_from_gpu_queues() {
    let cases = golden::cases("rdma-mlx5");
    let rings = cases.iter().filter(|c| !c["inputs"]["head"].is_null());
    let (mut plain, mut symbolic) = (0, 0);
    for case in rings {
        match lab::case(&Nic, case) {
            Some(_) => plain += 1,
            None => symbolic += 1,
        }
    }
    println!("mlx5: {plain} cases of numbers, {symbolic} of variables");
    assert_eq!((plain, symbolic), (18, 4));
}

/// The work queues of one queue pair, over the golden buffer: receives first, then sends.
struct Queues {
    buffer: Vec<u64>,
    sends_at: usize,
    published: u64,
    head: u64,
}

impl Queues {
    fn new(case: &Json, which: &str) -> Self {
        let qp = &case["inputs"][which];
        let sends_at = number(&qp["sq_offset"]) as usize;
        let bytes = sends_at + (SEND_WQE_BYTES << number(&qp["log_sq_size"]));
        Self {
            buffer: vec![u64::from_ne_bytes([0xa5; 8]); bytes / 8],
            sends_at,
            published: number(&case["inputs"]["published_counter"]),
            head: number(&qp["head"]),
        }
    }

    /// Puts one entry into a ring of the buffer. What was published before and is not complete takes room.
    fn push(&mut self, sends: bool, entry: &[u32]) -> Result<(), WouldBlock> {
        let (receives, rest) = self.buffer.split_at_mut(self.sends_at / 8);
        let (memory, bytes) = if sends {
            (rest, SEND_WQE_BYTES)
        } else {
            (receives, RECEIVE_WQE_BYTES)
        };
        let ring = Ring::resume(Region::from_words(memory, 0), bytes, self.published);
        let mut ring = ring.expect("whole entries");
        ring.reserve(self.head - self.published)?
            .publish(&mut |_| ());
        let mut hole = ring.reserve(1)?;
        hole.fill(0, entry).expect("one entry");
        hole.publish(&mut |_| ());
        Ok(())
    }
}

fn data(inputs: &Json, which: &str) -> Data {
    let buffer = &inputs[which];
    let offset = number(&buffer["addr"]) - number(&buffer["base"]);
    let address = number(&buffer["nic_addr"]) + offset;
    Data {
        key: number32(&buffer["mkey"]),
        address: address.into(),
        bytes: number(&inputs["size"]).into(),
    }
}

#[test]
fn work_queue_entries() {
    let mut done = 0;
    for case in golden::cases("rdma-mlx5")
        .iter()
        .filter(|c| golden::name(c).starts_with("wqe_"))
    {
        let (name, inputs) = (golden::name(case), &case["inputs"]);
        let mut queues = ["src_qp", "dst_qp"].map(|which| Queues::new(case, which));
        let mut pushed = Ok(());
        for _ in 0..number(&inputs["copies"]) {
            let (mut memory, [source, _]) = ([0; SEND_WQE_BYTES / 8], &mut queues);
            let mut region = Region::from_words(&mut memory, 0);
            let mut wqe = Block::new(&mut region, RegionId(0), 0, SEND_WQE_BYTES).expect("inside");
            let (qpn, index) = (number32(&inputs["src_qp"]["qpn"]), source.head.into());
            mlx5::send(
                &mut PatchList::none(),
                &mut wqe,
                qpn,
                index,
                &data(inputs, "src"),
            )
            .unwrap_or_else(|e| panic!("{name}: {e}"));
            pushed = pushed.and_then(|()| source.push(true, zerocopy::transmute_ref!(&memory)));
            source.head += 1;

            let (mut memory, [_, target]) = ([0; RECEIVE_WQE_BYTES / 8], &mut queues);
            let mut region = Region::from_words(&mut memory, 0);
            let mut wqe =
                Block::new(&mut region, RegionId(0), 0, RECEIVE_WQE_BYTES).expect("inside");
            mlx5::receive(&mut PatchList::none(), &mut wqe, &data(inputs, "dst"))
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            let words: &[u32; RECEIVE_WQE_BYTES / 4] = zerocopy::transmute_ref!(&memory);
            pushed = pushed.and_then(|()| target.push(false, words));
            target.head += 1;
        }
        done += 1;
        if case["expected_error"].is_string() {
            assert_eq!(pushed, Err(WouldBlock { need: 1, free: 0 }), "{name}");
            continue;
        }
        assert_eq!(pushed, Ok(()), "{name}");
        for (queue, region) in queues.iter().zip(["src_qp_buffer", "dst_qp_buffer"]) {
            let mut want = vec![0xa5; queue.buffer.len() * 8];
            for run in list(&case["expected_memory"])
                .iter()
                .filter(|r| r["region"] == region)
            {
                let (at, bytes) = (
                    number(&run["offset"]) as usize,
                    golden::bytes(&run["bytes"]),
                );
                want[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            let got: Vec<u8> = queue.buffer.iter().flat_map(|w| w.to_ne_bytes()).collect();
            assert_eq!(got, want, "{name}: {region}");
        }
    }
    println!("fit mlx5: {done} cases of work queue entries");
    assert_eq!(done, 14);
}

/// An entry whose index, address and length are known at launch, patched and recorded afresh; indices wrap at 2^16.
#[test]
fn patched_entries_are_recorded_afresh() {
    let mut sites = [Site::EMPTY; 4];
    let mut patches = PatchList::new(&mut sites, &mut []);
    let vars: [_; 3] = std::array::from_fn(|_| patches.var().expect("a variable"));
    let record = |patches: &mut PatchList<'_>,
                  memory: &mut [u64; 8],
                  [index, address, bytes]: [Value; 3]| {
        let mut region = Region::from_words(memory, 0);
        let mut wqe = Block::new(&mut region, RegionId(0), 0, SEND_WQE_BYTES).expect("inside");
        mlx5::send(
            patches,
            &mut wqe,
            0xfe_dcba,
            index,
            &Data {
                key: 0x1234,
                address,
                bytes,
            },
        )
    };
    let mut patched = [0; 8];
    record(&mut patches, &mut patched, vars.map(Value::from)).expect("recorded");
    let mut table = [0; 64];
    let table = patches
        .build(&[SEND_WQE_BYTES as u64], &mut table)
        .expect("a table");
    let mut state = [0; 8];
    let mut patcher = Patcher::new(table, &mut state).expect("room");
    for values in [
        [0, 0x38_4000_0000, 1],
        [0xffff, 0x1234_5678_9abc_def0, 0x7fff_ffff],
        [0x1_0005, 8, 0x1000],
    ] {
        patcher.set_all(vars[0], &values).expect("variables");
        patcher
            .apply(&mut [Region::from_words(&mut patched, 0)])
            .expect("applied");
        let mut fresh = [0; 8];
        record(&mut PatchList::none(), &mut fresh, values.map(Value::from)).expect("recorded");
        assert_eq!(patched, fresh, "{values:x?}");
        let [_, high, low, ..] = patched[0].to_le_bytes();
        assert_eq!(
            u64::from(u16::from_be_bytes([high, low])),
            values[0] & 0xffff
        );
    }
    // A length with bit 31 would be inline data; none at all is no message.
    for bytes in [1 << 31, 0] {
        patcher.set(vars[2], bytes).expect("a variable");
        let refused = patcher.apply(&mut [Region::from_words(&mut patched, 0)]);
        let misfit = match bytes {
            0 => Misfit::TooSmall { value: 0, least: 1 },
            value => Misfit::TooLarge { value, bits: 31 },
        };
        assert_eq!(
            refused,
            Err(PatchError::Misfit {
                var: vars[2],
                misfit
            })
        );
        let values = [0u64, 0, bytes].map(Value::from);
        let refused = record(&mut PatchList::none(), &mut [0; 8], values);
        assert_eq!(
            refused,
            Err(RecordError::Misfit {
                operand: Operand::Length,
                misfit
            })
        );
    }
}
