//! Adreno's packets, in the words of `hcq-qcom`.

use hcq_qcom::chips::{CHIPS, Chip, Generation, PACKETS_ONLY};
use hcq_qcom::dump::Dump;

use super::{Decoder, Line};
use crate::args::DecodeArgs;
use crate::failure::{Failure, Result};

struct Qcom(Generation);

impl Decoder for Qcom {
    fn lines<'w>(&self, words: &'w [u32]) -> Box<dyn Iterator<Item = Line<'w>> + 'w> {
        Box::new(Dump::new(self.0, words).lines().map(|line| Line {
            offset: line.at,
            words: line.words,
            text: line.to_string(),
            ok: line.malformed().is_none(),
        }))
    }
}

pub(super) fn decoder(args: &DecodeArgs) -> Result<Box<dyn Decoder>> {
    if args.sdma_version.is_some() {
        return Err(Failure::usage("--sdma-version is for --format sdma").into());
    }
    // Packets are those of A6xx on all chips that can be driven.
    let generation = match &args.chip {
        None => Generation::A6xx,
        Some(name) => {
            let chip = Chip::named(name);
            let unknown = || Failure::usage(format!("no chip {name:?} is known")).help(known());
            chip.ok_or_else(unknown)?.generation
        }
    };
    Ok(Box::new(Qcom(generation)))
}

fn known() -> String {
    let all = CHIPS.iter().chain(PACKETS_ONLY);
    let names: Vec<String> = all.map(|c| format!("a{}", c.number)).collect();
    format!("known chips: {}", names.join(", "))
}
