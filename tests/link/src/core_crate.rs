//! The core: every public function of `hcq_nostd`.

pub(crate) fn keep() {}
