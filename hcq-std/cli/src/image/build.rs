//! `hcq build`: a job becomes an image.

use std::io::Write;

use crate::args::BuildArgs;
use crate::data::bytes_words;
use crate::data::output::Pending;
use crate::exit::Exit;
use crate::failure::Result;
use crate::interrupt::Interrupt;
use crate::run;
use crate::{json_line, say};
use serde_json::json;

/// Builds the image of a job. The file exists once this returns without an error.
pub fn build(args: &BuildArgs, interrupt: &Interrupt) -> Result<Exit> {
    let mut pending = Pending::reserve(&args.output)?;
    let built = run::image(&args.job, args.device.as_deref(), interrupt)?;
    pending.write(|w| w.write_all(&built.bytes))?;
    let shown = pending.shown().to_owned();
    interrupt.check()?;
    pending.commit()?;
    say(&if args.json {
        json_line(&json!({
            "ok": true,
            "exit_code": 0,
            "image": shown,
            "bytes": built.bytes.len(),
            "device": built.devices,
            "tasks": built.tasks,
        }))
    } else {
        format!(
            "wrote {}: {} of {} for {}\n",
            shown.display(),
            bytes_words(built.bytes.len() as u64),
            match built.tasks {
                1 => "1 task".to_owned(),
                n => format!("{n} tasks"),
            },
            built.devices
        )
    })?;
    Ok(Exit::Ok)
}
