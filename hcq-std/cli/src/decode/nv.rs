//! NVIDIA's methods and launch descriptors, in the words of `hcq-nv`.

use hcq_nv::chips::{CHIPS, Chip};
use hcq_nv::method::Run;
use hcq_nv::packet::Packet;
use hcq_nv::qmd::{Fields, Layout};

use super::{Decoder, Line};
use crate::args::{DecodeArgs, Format};
use crate::failure::{Failure, Result};

/// Words of a pushbuffer.
struct Methods;

impl Decoder for Methods {
    fn lines<'w>(&self, words: &'w [u32]) -> Box<dyn Iterator<Item = Line<'w>> + 'w> {
        let mut offset = 0;
        Box::new(std::iter::from_fn(move || {
            let rest = words.get(offset..).filter(|rest| !rest.is_empty())?;
            let (text, len, ok) = match Packet::decode(rest) {
                Ok((packet, len)) => (packet.to_string(), len, true),
                Err(e) => {
                    let first = rest.first().copied().unwrap_or_default();
                    // A run whose words mean nothing has a length all the same.
                    let len = Run::decode(rest).map_or(1, |run| run.len());
                    (format!("?? {first:#010x}: {e}"), len, false)
                }
            };
            let line = Line {
                offset,
                words: rest.get(..len).unwrap_or(rest),
                text,
                ok,
            };
            offset += line.words.len();
            Some(line)
        }))
    }
}

/// Launch descriptors of one version, one behind the other.
struct Descriptors(&'static Layout);

impl Decoder for Descriptors {
    fn lines<'w>(&self, words: &'w [u32]) -> Box<dyn Iterator<Item = Line<'w>> + 'w> {
        let layout = self.0;
        let each = words.chunks(layout.words).enumerate();
        Box::new(each.map(move |(n, words)| {
            let (text, ok) = match Fields::new(layout, words) {
                Ok(fields) => (fields.to_string(), fields.unnamed().next().is_none()),
                Err(e) => (format!("?? {e}"), false),
            };
            Line {
                offset: n * layout.words,
                words,
                text,
                ok,
            }
        }))
    }
}

pub(super) fn decoder(args: &DecodeArgs) -> Result<Box<dyn Decoder>> {
    if args.sdma_version.is_some() {
        return Err(Failure::usage("--sdma-version is for --format sdma").into());
    }
    let chip = args.chip.as_deref().map(chip).transpose()?;
    match (args.format, chip) {
        (Format::Qmd, Some(chip)) => Ok(Box::new(Descriptors(chip.qmd))),
        (Format::Qmd, None) => Err(Failure::usage(
            "--format qmd needs --chip: descriptors have other versions on other chips",
        )
        .help(known())
        .into()),
        // Methods have the same numbers on all chips that are known.
        _ => Ok(Box::new(Methods)),
    }
}

/// A chip by its name, or by what programs are compiled for.
fn chip(name: &str) -> Result<&'static Chip> {
    let by_target = || {
        let mut chips = CHIPS.iter();
        chips.find(|chip| format!("sm_{}", chip.sm) == name)
    };
    Chip::named(name).or_else(by_target).ok_or_else(|| {
        Failure::usage(format!("no chip {name:?} is known"))
            .help(known())
            .into()
    })
}

fn known() -> String {
    let names: Vec<String> = CHIPS
        .iter()
        .map(|chip| format!("{} (sm_{})", chip.name, chip.sm))
        .collect();
    format!("known chips: {}", names.join(", "))
}
