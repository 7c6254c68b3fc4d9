//! Adreno GPUs in lists of devices.

use std::path::Path;

use hcq_boards::qcom::{self, Board};
use hcq_qcom::chips::{Chip, ChipId};

use super::advice;
use super::device::{self, NAME, NODE, open};
use crate::candidates::{Attempt, Candidate};
use crate::seam::{Errno, System};

/// Names of the board, most specific first.
const COMPATIBLE: &str = "/proc/device-tree/compatible";

/// The board that this is, if it is a known one.
fn board(system: &dyn System) -> Option<&'static Board> {
    let names = system.read(Path::new(COMPATIBLE), 4096).ok()?;
    qcom::find(&names)
}

/// What a GPU is called, with the board that it is on, if that is a known one.
pub(crate) fn on_board(system: &dyn System, name: String) -> String {
    match board(system) {
        Some(board) => format!("{name} of a {}", board.describe()),
        None => name,
    }
}

/// Whether there is a node of kgsl's.
pub(crate) fn is_absent(candidate: &Candidate) -> bool {
    let answers = candidate.attempts.first().and_then(|first| first.errno);
    answers.is_some_and(device::is_absent)
}

/// What there is of Adreno behind kgsl, and what keeps it from being opened. Nothing stays open.
pub(crate) fn candidate(system: &dyn System) -> Candidate {
    let attempt = |operation, errno: Option<Errno>, hint: String| Attempt {
        path: NODE.into(),
        operation,
        errno,
        hint,
    };
    let (ready, description, attempts) = match open(system) {
        Ok((file, facts)) => {
            system.close(file);
            let name = facts.name.unwrap_or_else(|| ChipId(facts.chip).to_string());
            let name = on_board(system, name);
            let opened = attempt("open", None, String::new());
            match Chip::find(ChipId(facts.chip)) {
                Ok(chip) => (
                    true,
                    format!("{name}, driven as a{}", chip.number),
                    vec![opened],
                ),
                Err(refusal) => (
                    false,
                    format!("{name}: {refusal}"),
                    vec![
                        opened,
                        attempt(
                            "look up the chip of",
                            Some(Errno::NODEV),
                            "the chips that there are: ".to_owned() + &known(),
                        ),
                    ],
                ),
            }
        }
        Err((operation, errno)) => {
            let description = match errno {
                Errno::NOENT => "Adreno GPU through kgsl: not found".to_owned(),
                errno => format!(
                    "Adreno GPU through kgsl: cannot be opened: {}",
                    errno.words()
                ),
            };
            let hint = match operation {
                "open" => advice::open(system, errno),
                _ => advice::FOREIGN.into(),
            };
            (
                false,
                description,
                vec![attempt(operation, Some(errno), hint)],
            )
        }
    };
    Candidate {
        name: NAME.into(),
        ready,
        description,
        attempts,
    }
}

/// Chips that can be driven, in words.
pub(crate) fn known() -> String {
    let names: Vec<String> = hcq_qcom::chips::CHIPS
        .iter()
        .map(|c| format!("a{}", c.number))
        .collect();
    names.join(", ")
}
