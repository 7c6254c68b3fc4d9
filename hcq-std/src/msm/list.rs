//! Adreno GPUs behind msm in lists of devices.

use hcq_qcom::chips::{Chip, ChipId};

use super::advice;
use super::node::{self, Looked, NAME};
use crate::candidates::{Attempt, Candidate};
use crate::kgsl;
use crate::seam::{Errno, System};

/// Whether this kernel has msm.
pub(crate) fn is_loaded(system: &dyn System) -> bool {
    node::is_loaded(system)
}

/// Whether this kernel has msm with a render node.
pub(crate) fn is_there(system: &dyn System) -> bool {
    !node::paths(system).is_empty()
}

/// What there is of Adreno behind msm, and what keeps it from being opened. Nothing stays open.
pub(crate) fn candidate(system: &dyn System) -> Candidate {
    let mut attempts = Vec::new();
    let mut description = None;
    for path in node::paths(system) {
        let attempt = |operation, errno: Option<Errno>, hint: String| Attempt {
            path: path.clone(),
            operation,
            errno,
            hint,
        };
        match node::look(system, &path) {
            Looked::Foreign => {}
            Looked::Refused(why) => {
                let (operation, errno) = why;
                let said = format!(
                    "Adreno GPU through msm: cannot be opened: {}",
                    errno.words()
                );
                description.get_or_insert(said);
                let hint = advice::open(system, &path, why);
                attempts.push(attempt(operation, Some(errno), hint));
            }
            Looked::Gpu(gpu) => {
                let id = ChipId(gpu.facts.chip);
                system.close(gpu.file);
                attempts.push(attempt("open", None, String::new()));
                let named = kgsl::on_board(system, id.to_string());
                let (ready, description) = match Chip::find(id) {
                    Ok(chip) => (
                        true,
                        format!("{named} through msm, driven as a{}", chip.number),
                    ),
                    Err(refusal) => {
                        let hint = "the chips that there are: ".to_owned() + &kgsl::known();
                        let operation = "look up the chip of";
                        attempts.push(attempt(operation, Some(Errno::NODEV), hint));
                        (false, format!("{named} through msm: {refusal}"))
                    }
                };
                return Candidate {
                    name: NAME.into(),
                    ready,
                    description,
                    attempts,
                };
            }
        }
    }
    Candidate {
        name: NAME.into(),
        ready: false,
        description: description.unwrap_or_else(|| "Adreno GPU through msm: not found".into()),
        attempts,
    }
}
