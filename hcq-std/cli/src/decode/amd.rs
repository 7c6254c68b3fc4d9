//! AMD's packets, in the words of `hcq-amd`.

use hcq_amd::chips::{CHIPS, Chip};
use hcq_amd::dump::{Dump, Stream};
use hcq_amd::sdma::Version;

use super::{Decoder, Line};
use crate::args::{DecodeArgs, Format};
use crate::failure::{Failure, Result};

struct Amd(Stream);

impl Decoder for Amd {
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
    let chip = args.chip.as_deref().map(chip).transpose()?;
    let version = args.sdma_version.as_deref().map(version).transpose()?;
    if version.is_some() && args.format != Format::Sdma {
        return Err(Failure::usage("--sdma-version is for --format sdma").into());
    }
    let stream = match args.format {
        Format::Pm4 => Stream::Pm4(chip.ok_or_else(|| {
            Failure::usage(
                "--format pm4 needs --chip: registers and bits have other names on other chips",
            )
            .help(known_chips())
        })?),
        Format::Aql => Stream::Aql,
        Format::Sdma => Stream::Sdma(version.or(chip.map(|c| c.sdma)).ok_or_else(|| {
            Failure::usage(
                "--format sdma needs --sdma-version or --chip: packets differ between engines",
            )
            .help(known_chips())
        })?),
        // Other vendors' formats have decoders of their own.
        _ => return Err(Failure::usage("this format is not one of AMD's").into()),
    };
    Ok(Box::new(Amd(stream)))
}

fn chip(name: &str) -> Result<&'static Chip> {
    Chip::named(name).ok_or_else(|| {
        Failure::usage(format!("no chip {name:?} is known"))
            .help(known_chips())
            .into()
    })
}

fn known_chips() -> String {
    let names: Vec<String> = CHIPS.iter().map(|c| c.target.to_string()).collect();
    format!("known chips: {}", names.join(", "))
}

/// `6.0.0`, or `6.0` for the first of its kind.
fn version(text: &str) -> Result<Version> {
    let parts: Option<Vec<u8>> = text.split('.').map(|n| n.parse().ok()).collect();
    let version = match parts.as_deref() {
        Some([major, minor]) => Version::new(*major, *minor, 0),
        Some([major, minor, revision]) => Version::new(*major, *minor, *revision),
        _ => return Err(Failure::usage(format!("{text:?} is no version; one is 6.0.0")).into()),
    };
    // What the engine copies with one packet is in the table of known engines.
    let known = version
        .max_copy()
        .map_err(|e| Failure::usage(e.to_string()).help(known_versions()));
    known.map(|_| version).map_err(Into::into)
}

fn known_versions() -> String {
    let mut versions: Vec<Version> = CHIPS.iter().map(|c| c.sdma).collect();
    versions.sort();
    versions.dedup();
    let names: Vec<String> = versions
        .iter()
        .map(|v| format!("{}.{}.{}", v.major, v.minor, v.revision))
        .collect();
    format!("known versions, among others: {}", names.join(", "))
}
