//! NVIDIA GPUs in lists of devices.

use std::path::Path;

use super::advice;
use super::process::{ABI_VARIABLE, CTL, Card, UVM, abi, cards, version};
use crate::candidates::{Attempt, Candidate};
use crate::seam::{Errno, Handle, Open, System};

/// What there is of NVIDIA, and what keeps it from being opened. Nothing stays open.
pub(crate) fn candidates(system: &dyn System) -> Vec<Candidate> {
    let branch = std::env::var_os(ABI_VARIABLE).map(|v| v.to_string_lossy().into_owned());
    candidates_as(system, branch.as_deref())
}

/// The same with the value of [`ABI_VARIABLE`].
pub(super) fn candidates_as(system: &dyn System, branch: Option<&str>) -> Vec<Candidate> {
    let mut attempts = Vec::new();
    let mut why = None;
    let mut found = Vec::new();
    let opened = probe(system, CTL, &mut attempts, |ctl| {
        let version = version(system, ctl);
        if let Err(e) = abi(version, branch) {
            why = Some(words(&e));
            attempts_of(&e, &mut found);
        }
        match cards(system, ctl) {
            Ok(cards) => (cards, None),
            Err(errno) => (Vec::new(), Some(errno)),
        }
    });
    attempts.append(&mut found);
    let (cards, refused) = opened.unwrap_or_default();
    if let Some(errno) = refused {
        why.get_or_insert(format!("does not answer: {}", errno.words()));
        attempts.push(attempt(
            CTL,
            "CARD_INFO",
            Some(errno),
            "the driver of this node is not nvidia's, or broken (dmesg)",
        ));
    }
    probe(system, UVM, &mut attempts, |_| ());
    let first = attempts
        .iter()
        .find_map(|a| a.errno.map(|errno| (a, errno)));
    let why = why.or_else(|| {
        first.map(|(attempt, errno)| match errno {
            Errno::NOENT => format!("{} not found", attempt.path),
            errno => format!("{} cannot be opened: {}", attempt.path, errno.words()),
        })
    });
    if cards.is_empty() {
        let why = why.unwrap_or_else(|| "no GPU is visible to this process".into());
        return vec![Candidate {
            name: "nv".into(),
            ready: false,
            description: format!("NVIDIA GPU through the nvidia driver: {why}"),
            attempts,
        }];
    }
    (0..)
        .zip(&cards)
        .map(|(ordinal, card)| candidate(system, ordinal, card, why.as_deref(), &attempts))
        .collect()
}

/// An error's reason.
fn words(e: &crate::Error) -> String {
    match e {
        crate::Error::Unavailable { reason, .. } => reason.clone(),
        other => other.to_string(),
    }
}

/// An error's hint as an attempt of its own.
fn attempts_of(e: &crate::Error, attempts: &mut Vec<Attempt>) {
    if let crate::Error::Unavailable { hint, .. } = e {
        attempts.push(attempt(CTL, "CHECK_VERSION_STR", Some(Errno::NOSYS), hint));
    }
}

fn attempt(path: &str, operation: &'static str, errno: Option<Errno>, hint: &str) -> Attempt {
    Attempt {
        path: path.into(),
        operation,
        errno,
        hint: hint.into(),
    }
}

/// Opens a node, looks, and closes it; notes how it went.
fn probe<R>(
    system: &dyn System,
    path: &str,
    attempts: &mut Vec<Attempt>,
    look: impl FnOnce(&Handle) -> R,
) -> Option<R> {
    match system.open(Path::new(path), Open::ReadWrite) {
        Ok(file) => {
            let seen = look(&file);
            system.close(file);
            attempts.push(attempt(path, "open", None, ""));
            Some(seen)
        }
        Err(errno) => {
            let hint = advice::node(system, path, errno);
            attempts.push(attempt(path, "open", Some(errno), &hint));
            None
        }
    }
}

fn candidate(
    system: &dyn System,
    ordinal: usize,
    card: &Card,
    why: Option<&str>,
    before: &[Attempt],
) -> Candidate {
    let path = card.node();
    let mut attempts = before.to_vec();
    probe(system, &path, &mut attempts, |_| ());
    let own = attempts.last().and_then(|a| a.errno);
    let why = match (why, own) {
        (Some(why), _) => Some(why.to_owned()),
        (None, Some(errno)) => Some(format!("{path} cannot be opened: {}", errno.words())),
        (None, None) => None,
    };
    let mut description = format!("{} at {}", model(system, card), card.place());
    if let Some(why) = &why {
        description.push_str(": ");
        description.push_str(why);
    }
    Candidate {
        name: format!("nv:{ordinal}"),
        ready: why.is_none(),
        description,
        attempts,
    }
}

/// The name that people know a GPU by, where the driver says it without being asked.
fn model(system: &dyn System, card: &Card) -> String {
    let path = format!("/proc/driver/nvidia/gpus/{}/information", card.place());
    let bytes = system.read(Path::new(&path), 4096).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines();
    let named = lines.find_map(|line| line.strip_prefix("Model:"));
    match named.map(str::trim).filter(|name| !name.is_empty()) {
        Some(name) => name.to_owned(),
        None => format!("NVIDIA GPU {:04x}", card.device_id),
    }
}
