//! SDMA queues and rings.

use hcq_amd::pm4::submit::SubmitError;
use hcq_amd::sdma::submit::{BYTES, bound_words, submit, submit_bound};
use hcq_amd::sdma::{Packet, SdmaCopy, Version};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::CopyQueue;
use hcq_nostd::record::{RecordError, Recorder};
use hcq_nostd::ring::{Ring, RingError};

use super::Recording;
use super::json::{self, Json, Operands, Vars, list, number};
use super::lab::{self, Encoder, FILLER, Image, Space, bytes_of, compare_memory, expected_memory};
use super::{Known, amd};

/// Encodes for one version.
struct Sdma(Version);

/// The version of a case. That of gfx10 has no chip here.
fn version(case: &Json) -> Version {
    let d = &case["inputs"]["device"];
    let version = match d["arch"].as_str() {
        Some("gfx1030") => Version::new(5, 2, 0),
        _ => amd::chip(&d["arch"]).sdma,
    };
    assert_eq!(
        version.max_copy(),
        Ok(number(&d["max_copy_size"])),
        "{version}"
    );
    version
}

impl<'m> Recording<'m> for SdmaCopy<'m> {
    fn list(&mut self) -> &mut PatchList<'m> {
        self.recorder().list()
    }
}

impl Encoder for Sdma {
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
        let d = &case["inputs"]["device"];
        let event = (d["interface"] == "kfd").then(|| amd::event(d));
        let mut q = SdmaCopy::new(self.0, event, words, patches).expect("a known version");
        for op in list(&case["inputs"]["ops"]) {
            if !amd::common(&mut q, &operands, op)? {
                assert_eq!(op["op"], "copy");
                let [to, from, bytes] =
                    ["dest", "src", "size"].map(|n| operands.value(q.list(), &op[n]));
                q.copy(to, from, bytes)?;
            }
        }
        Ok(q.finish().finish())
    }

    fn correct(&self, _: &Json, _: Option<&Vars>, _: &mut Image) {}

    fn decode_and_encode(&self, title: &str, words: &[u32]) -> Vec<u32> {
        let mut again = vec![u32::from_ne_bytes([FILLER; 4]); words.len()];
        let mut recorder = Recorder::new(&mut again, PatchList::none());
        let mut rest = words;
        while !rest.is_empty() {
            let (packet, len) = Packet::decode(rest, self.0)
                .unwrap_or_else(|e| panic!("{title}: {e}: {rest:#010x?}"));
            recorder
                .command(|c| packet.record(c, self.0))
                .unwrap_or_else(|e| panic!("{title}: {e}"));
            rest = &rest[len..];
        }
        let (len, _) = recorder.finish();
        again.truncate(len);
        again
    }
}

/// The lengths of the packets in words.
fn packet_sizes(words: &[u32], version: Version) -> Vec<u64> {
    let (mut rest, mut sizes) = (words, Vec::new());
    while let Ok((_, len)) = Packet::decode(rest, version) {
        sizes.push(len as u64);
        rest = &rest[len..];
    }
    sizes
}

/// One case of the SDMA file.
pub(crate) fn run(case: &Json) {
    let encoder = Sdma(version(case));
    let words = lab::case(&encoder, case).filter(|_| case["inputs"]["ring"].is_object());
    if case["packet_sizes"].is_array() {
        let sizes: Vec<u64> = list(&case["packet_sizes"]).iter().map(number).collect();
        assert_eq!(
            packet_sizes(&json::words(&case["expected_words"]), encoder.0),
            sizes
        );
    }
    if let Some(words) = words {
        submit_case(&encoder, case, &words);
    }
}

fn submit_case(encoder: &Sdma, case: &Json, words: &[u32]) {
    let (name, inputs) = (json::name(case), &case["inputs"]);
    let r = &inputs["ring"];
    let (base, put) = (number(&r["ring_addr"]), number(&r["put_bytes_before"]));
    let mut memory = vec![u64::from_ne_bytes([FILLER; 8]); number(&r["ring_bytes"]) as usize / 8];
    let mut ring =
        Ring::resume(Region::from_words(&mut memory, base), 4, put / BYTES).expect("whole words");
    let (mut write_ptr, mut rang) = (0, false);
    let mut doorbell = |put: u64| (write_ptr, rang) = (put * BYTES, true);
    if case["expected_error"].is_string() {
        // The reference fills the ring before it finds out; here nothing has changed.
        let (refused, len) = (submit(&mut ring, words, &mut doorbell), ring.len());
        let need = match refused {
            Err(SubmitError::Ring(RingError::TooLarge { need, .. })) => need,
            other => panic!("{name}: {other:?}"),
        };
        assert!(
            need >= words.len() as u64 && need > len,
            "{name}: padding counts too"
        );
        assert_eq!((ring.put() * BYTES, rang), (put, false), "{name}");
        assert!(
            bytes_of(&memory).iter().all(|b| *b == FILLER),
            "{name}: the ring was written"
        );
        Known::RingOverrun.seen();
        return;
    }
    let bound = inputs["indirect_buffer_addr"]
        .as_str()
        .map(|_| number(&inputs["indirect_buffer_addr"]));
    for after in list(&case["after_submit"]) {
        let put = match bound {
            Some(address) => submit_bound(&mut ring, address, words.len(), &mut doorbell),
            None => submit(&mut ring, words, &mut doorbell),
        };
        let put = put.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(put * BYTES, number(&after["put_bytes_after"]), "{name}");
        ring.consumed(put).expect("just published");
    }
    let mut spaces = vec![
        (base, bytes_of(&memory)),
        (
            number(&r["write_ptr_addr"]),
            write_ptr.to_le_bytes().to_vec(),
        ),
        (
            number(&r["doorbell_addr"]),
            write_ptr.to_le_bytes().to_vec(),
        ),
    ];
    if let Some(address) = bound {
        let mut padded = words.to_vec();
        padded.resize(bound_words(words.len()), 0);
        spaces.push((
            address,
            padded.iter().flat_map(|w| w.to_le_bytes()).collect(),
        ));
        let packet = json::words(&case["expected_submit_words"]);
        lab::compare_words(name, &encoder.decode_and_encode(name, &packet), &packet);
    }
    compare_memory(
        name,
        &spaces,
        &expected_memory(&case["expected_memory"], &[]),
    );
}
