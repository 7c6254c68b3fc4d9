//! `hcq decode`: what the words of a queue mean, packet by packet.

mod amd;
mod nv;
mod qcom;
mod words;

use std::io::{self, BufWriter, Write};

use serde::Serialize;

use crate::args::{DecodeArgs, Format};
use crate::exit::Exit;
use crate::failure::{Failure, Failures, Result, os_words};
use crate::interrupt::Interrupt;
use crate::json_line;

/// A packet, or words that are none.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Line<'w> {
    /// Words before it.
    pub offset: usize,
    /// Its words.
    #[serde(serialize_with = "hexadecimal")]
    pub words: &'w [u32],
    /// What it is.
    pub text: String,
    /// Whether it is a packet.
    pub ok: bool,
}

/// A vendor's packets. One implementation for each way to read words, chosen by [`decoder`].
pub trait Decoder {
    /// The packets of `words`. Every word is in exactly one line.
    fn lines<'w>(&self, words: &'w [u32]) -> Box<dyn Iterator<Item = Line<'w>> + 'w>;
}

/// The decoder that the arguments ask for.
pub fn decoder(args: &DecodeArgs) -> Result<Box<dyn Decoder>> {
    match args.format {
        Format::Pm4 | Format::Aql | Format::Sdma => amd::decoder(args),
        Format::Nv | Format::Qmd => nv::decoder(args),
        Format::Adreno => qcom::decoder(args),
    }
}

/// Prints what the words of a file mean.
pub fn decode(args: &DecodeArgs, interrupt: &Interrupt) -> Result<Exit> {
    let decoder = decoder(args)?;
    let words = words::read(args, interrupt)?;
    if args.json {
        let lines: Vec<Line> = decoder.lines(&words).collect();
        let bad = lines.iter().filter(|l| !l.ok);
        let verdict = verdict(bad.clone().count(), bad.clone().next());
        let exit = verdict.as_ref().map_or_else(Failures::exit, |()| Exit::Ok);
        let report = Report {
            ok: exit == Exit::Ok,
            exit_code: exit.code(),
            words: words.len(),
            packets: &lines,
        };
        crate::say(&json_line(&report))?;
        return Ok(exit);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let mut bad = 0;
    let mut first = None;
    let mut write = || -> Result<io::Result<()>> {
        for line in decoder.lines(&words) {
            interrupt.check()?;
            if let Err(e) = writeln!(out, "{:#06x}: {}", line.offset, line.text) {
                return Ok(Err(e));
            }
            if !line.ok {
                bad += 1;
                first.get_or_insert(line);
            }
        }
        Ok(out.flush())
    };
    match write()? {
        Ok(()) => verdict(bad, first.as_ref()).map(|()| Exit::Ok),
        // A reader that has gone away, such as `head`, has seen what it wanted.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Ok),
        Err(e) => {
            let what = format!("cannot write to standard output: {}", os_words(&e));
            Err(Failure::new(Exit::Io, what).into())
        }
    }
}

/// Words that are no packet are a failed check: a script that decodes what it has recorded wants to know.
fn verdict(bad: usize, first: Option<&Line>) -> Result<()> {
    let Some(first) = first else { return Ok(()) };
    let places = if bad == 1 {
        "one place holds".to_owned()
    } else {
        format!("{bad} places hold")
    };
    let what = format!(
        "{places} no packet; the first is word {:#06x}",
        first.offset
    );
    Err(Failure::new(Exit::Check, what)
        .help("is it the right --format and --chip?")
        .into())
}

#[derive(Serialize)]
struct Report<'w> {
    ok: bool,
    exit_code: u8,
    words: usize,
    packets: &'w [Line<'w>],
}

fn hexadecimal<S: serde::Serializer>(
    words: &[u32],
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_seq(words.iter().map(|w| format!("{w:#010x}")))
}
