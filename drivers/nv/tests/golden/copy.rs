//! Copy queues: golden words.

use hcq_nostd::mem::Region;
use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::CopyQueue;
use hcq_nostd::record::RecordError;
use hcq_nv::copy::NvCopy;

use super::compute::{common, decode_and_encode, device, setup};
use super::json::{Json, Operands, Vars, list};
use super::lab::{self, Encoder, Image, Space};

/// The reference's copy queues signal 32 bits.
pub(crate) struct CopyQueues;

impl Encoder for CopyQueues {
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
        let device = device(case);
        let mut q = NvCopy::new(&device, words, patches).with_narrow_signals();
        for op in list(&case["inputs"]["ops"]) {
            if common(&mut q, &operands, op)? {
                continue;
            }
            match op["op"].as_str() {
                Some("setup") => {
                    q.setup(&setup(device.chip(), op))?;
                }
                Some("copy") => {
                    let [to, from, bytes] = ["dest", "src", "size"]
                        .map(|n| operands.value(q.recorder().list(), &op[n]));
                    q.copy(to, from, bytes)?;
                }
                other => panic!("no operation {other:?}"),
            }
        }
        Ok(q.finish().finish())
    }

    fn correct(&self, _: &Json, _: Option<&Vars>, _: &mut Image) {}

    fn decode_and_encode(&self, title: &str, words: &[u32]) -> Vec<u32> {
        decode_and_encode(title, words)
    }
}

/// One case of the copy file.
pub(crate) fn run(case: &Json) {
    lab::case(&CopyQueues, case);
}
