//! Adreno GPUs in lists of devices.

use crate::candidates::Candidate;
use crate::seam::System;
use crate::{kgsl, msm};

/// What there is of Adreno, behind kgsl or else behind msm. Nothing stays open.
pub(crate) fn candidate(system: &dyn System) -> Candidate {
    let mut vendors = kgsl::candidate(system);
    if !kgsl::is_absent(&vendors) || !msm::is_there(system) {
        return vendors;
    }
    let mut candidate = msm::candidate(system);
    if !candidate.ready {
        vendors.attempts.append(&mut candidate.attempts);
        candidate.attempts = vendors.attempts;
    }
    candidate
}
