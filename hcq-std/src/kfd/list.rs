//! AMD GPUs in lists of devices.

use std::path::Path;

use super::process::{KFD, check_version, survey};
use super::topology::{NODES, Node, Topology};
use super::{Version, advice};
use crate::candidates::{Attempt, Candidate};
use crate::seam::{Errno, Open, System};

/// What there is of AMD, and what keeps it from being opened. Nothing stays open, and no GPU is touched.
pub(crate) fn candidates(system: &dyn System) -> Vec<Candidate> {
    let survey = survey(system);
    let mut attempts = vec![attempt(
        KFD,
        "open",
        survey.errno,
        survey.errno.map(|e| advice::kfd(system, e)),
    )];
    let mut why = survey.errno.map(|errno| match errno {
        Errno::NOENT => "not found".to_owned(),
        errno => format!("cannot be opened: {}", errno.words()),
    });
    match survey.version {
        Some(Ok(version)) => {
            if let Err((reason, hint)) = check_version(version) {
                attempts.push(attempt(KFD, "GET_VERSION", Some(Errno::NOSYS), Some(hint)));
                why.get_or_insert(reason);
            }
        }
        Some(Err(errno)) => {
            let hint = "the driver of this node is not amdgpu's, or broken (dmesg)".into();
            attempts.push(attempt(KFD, "GET_VERSION", Some(errno), Some(hint)));
            why.get_or_insert(format!("does not answer: {}", errno.words()));
        }
        None => {}
    }
    let topology = survey.topology.unwrap_or_else(|trouble| {
        // Without the node, a topology that is missing too is no news.
        let trouble =
            trouble.into_attempt("the topology is read there; in a container, mount /sys");
        if survey.errno.is_none() {
            why.get_or_insert("its topology cannot be read".to_owned());
            attempts.push(trouble);
        }
        Topology::default()
    });
    let Topology { nodes, skipped } = topology;
    if nodes.is_empty() {
        if why.is_none() && skipped.is_empty() {
            let hint = "the driver is there and has no compute GPU (lspci | grep -i amd; dmesg | grep amdgpu)";
            attempts.push(attempt(NODES, "list", None, Some(hint.into())));
        }
        let why = why.unwrap_or_else(|| "no GPU is visible to this process".into());
        attempts.extend(skipped);
        return vec![Candidate {
            name: "amd".into(),
            ready: false,
            description: format!("AMD GPU through KFD: {why}"),
            attempts,
        }];
    }
    let last = nodes.len() - 1;
    let mut all: Vec<Candidate> = (0..)
        .zip(&nodes)
        .map(|(ordinal, node)| candidate(system, ordinal, node, why.as_deref(), &attempts))
        .collect();
    // What is hidden has no number of its own.
    if let Some(candidate) = all.get_mut(last) {
        candidate.attempts.extend(skipped);
    }
    all
}

fn attempt(
    path: &str,
    operation: &'static str,
    errno: Option<Errno>,
    hint: Option<String>,
) -> Attempt {
    Attempt {
        path: path.into(),
        operation,
        errno,
        hint: hint.unwrap_or_default(),
    }
}

fn candidate(
    system: &dyn System,
    ordinal: usize,
    node: &Node,
    why: Option<&str>,
    before: &[Attempt],
) -> Candidate {
    let path = node.render_node();
    let opened = system.open(Path::new(&path), Open::ReadWrite);
    let errno = match opened {
        Ok(file) => {
            system.close(file);
            None
        }
        Err(errno) => Some(errno),
    };
    let hint = errno.map(|e| advice::render(system, &path, e));
    let mut attempts = before.to_vec();
    attempts.push(attempt(&path, "open", errno, hint));
    let unknown = hcq_amd::chips::Chip::from_kfd(node.gfx_target_version).err();
    let why = match (why, errno, unknown) {
        (Some(why), ..) => Some(format!("{KFD} {why}")),
        (None, Some(errno), _) => Some(format!("{path} cannot be opened: {}", errno.words())),
        (None, None, Some(unknown)) => Some(unknown.to_string()),
        (None, None, None) => None,
    };
    let mut description = describe(node);
    if let Some(why) = &why {
        description.push_str(": ");
        description.push_str(why);
    }
    Candidate {
        name: format!("amd:{ordinal}"),
        ready: why.is_none(),
        description,
        attempts,
    }
}

/// The GPU in one line.
fn describe(node: &Node) -> String {
    let name = match node.name.as_str() {
        "" => "AMD GPU",
        name => name,
    };
    let dies = match node.xccs {
        1 => String::new(),
        n => format!(" in {n} dies"),
    };
    let mib = |bytes: u64| bytes >> 20;
    let window = match node.window_bytes {
        _ if node.visible_bytes() >= node.vram_bytes() => String::new(),
        Some(window) => format!(
            ", {} of them in the host's window (resizable BAR is off)",
            mib(window)
        ),
        None => ", not all in the host's window (resizable BAR is off)".into(),
    };
    format!(
        "{name} ({}), {} compute units{dies}, {} MiB{window}",
        node.target(),
        node.compute_units(),
        mib(node.vram_bytes()),
    )
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(major, minor) = self;
        write!(f, "{major}.{minor}")
    }
}

#[cfg(test)]
mod tests;
