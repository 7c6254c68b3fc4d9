//! The words of a file, or of standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::args::DecodeArgs;
use crate::failure::{Failure, Place, Result};
use crate::interrupt::Interrupt;

/// The most that is read, bytes: far more than any ring holds, and few enough for memory.
const MAX_BYTES: u64 = 256 << 20;

/// Reads the words.
pub(super) fn read(args: &DecodeArgs, interrupt: &Interrupt) -> Result<Vec<u32>> {
    let stdin = args.file.as_os_str() == "-";
    let name = if stdin {
        Path::new("standard input")
    } else {
        &args.file
    };
    // A thread of its own, because nothing else ends the wait for a terminal or a pipe.
    let (sender, receiver) = mpsc::channel();
    let file = args.file.clone();
    std::thread::spawn(move || {
        let bytes = if stdin {
            take(io::stdin().lock())
        } else {
            File::open(file).and_then(take)
        };
        // Nobody listens after Ctrl-C.
        let _ = sender.send(bytes);
    });
    let bytes = loop {
        interrupt.check()?;
        match receiver.recv_timeout(Duration::from_millis(20)) {
            Ok(bytes) => break bytes,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break Err(io::ErrorKind::Other.into()),
        }
    };
    let bytes = bytes.map_err(|e| Failure::io("read", name, &e))?;
    let at = |line| Place {
        file: Arc::from(name),
        line,
        key: String::new(),
    };
    if bytes.len() as u64 > MAX_BYTES {
        let what = format!("more than {} MiB, which no queue holds", MAX_BYTES >> 20);
        return Err(Failure::usage(what).at(at(0)).into());
    }
    if args.hex {
        return text(&bytes).map_err(|(line, what)| Failure::usage(what).at(at(line)).into());
    }
    let (words, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        let what = format!(
            "{} bytes are no whole number of words, which have 4",
            bytes.len()
        );
        let failure = Failure::usage(what).at(at(0));
        let failure = if text(&bytes).is_ok() {
            failure.help("it looks like text: try --hex")
        } else {
            failure
        };
        return Err(failure.into());
    }
    Ok(words.iter().map(|w| u32::from_le_bytes(*w)).collect())
}

fn take(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Words as text, or the line and what is wrong with it.
fn text(bytes: &[u8]) -> std::result::Result<Vec<u32>, (u32, String)> {
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let before = &bytes[..e.valid_up_to()];
        (
            line_number(before.iter().filter(|b| **b == b'\n').count()),
            "this is no text".to_owned(),
        )
    })?;
    let mut words = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let code = line.split('#').next().unwrap_or_default();
        let separates = |c: char| c.is_whitespace() || matches!(c, ',' | '[' | ']' | '"' | '\'');
        for word in code.split(separates).filter(|w| !w.is_empty()) {
            words.push(number(word).ok_or_else(|| {
                let start: String = word.chars().take(40).collect();
                (
                    line_number(i),
                    format!("{start:?} is no word of at most 8 hexadecimal digits"),
                )
            })?);
        }
    }
    Ok(words)
}

fn line_number(before: usize) -> u32 {
    u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1)
}

/// `c0004600`, `0xc0004600`, `0xc000_4600`.
fn number(word: &str) -> Option<u32> {
    let digits = word
        .strip_prefix("0x")
        .or_else(|| word.strip_prefix("0X"))
        .unwrap_or(word);
    let digits: String = digits.chars().filter(|c| *c != '_').collect();
    let plain = (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    u32::from_str_radix(&digits, 16).ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_many_shapes() {
        let all = "c0004600 0x407\n  [0xc001_7600, \"00000218\",\n'20200'] # a comment: zzz\n\n0XFFFFFFFF\r\n";
        assert_eq!(
            text(all.as_bytes()),
            Ok(vec![
                0xc000_4600,
                0x407,
                0xc001_7600,
                0x218,
                0x2_0200,
                u32::MAX
            ])
        );
        assert_eq!(text(b""), Ok(vec![]));
    }

    #[test]
    fn text_that_is_none() {
        for (bad, line) in [
            ("1\n2 3g", 2),
            ("123456789", 1),
            ("0x", 1),
            ("_", 1),
            ("+1", 1),
            ("-1", 1),
            ("0x0x1", 1),
        ] {
            let (at, what) = text(bad.as_bytes()).expect_err(bad);
            assert_eq!(at, line, "{bad}: {what}");
        }
        assert_eq!(text(b"1\n\n\xff").expect_err("no text").0, 3);
    }
}
