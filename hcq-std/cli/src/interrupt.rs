//! Ctrl-C: noted at once, acted on at the next safe point.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// Whether the user asked to stop. Clones share the answer.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for Ctrl-C, SIGTERM and SIGHUP from now on. Once in a process.
    pub fn install() -> Result<Self> {
        let this = Self::default();
        let flag = this.0.clone();
        // Relaxed: the flag carries no other data.
        ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
            .map_err(|e| Failure::new(Exit::Io, format!("cannot listen for Ctrl-C: {e}")))?;
        Ok(this)
    }

    /// Whether the user asked to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Asks to stop, as Ctrl-C does.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// `Err` once the user asked to stop.
    pub fn check(&self) -> Result<()> {
        if self.is_set() {
            return Err(Failure::new(Exit::Interrupted, "interrupted").into());
        }
        Ok(())
    }
}
