//! `hcq devices`: what is there, what is not and why.

use hcq_std::Candidate;
use serde_json::{Value, json};

use crate::args::DevicesArgs;
use crate::exit::Exit;
use crate::failure::Result;
use crate::show::plain;
use crate::{json_line, say};

/// Lists all devices that this version knows how to look for.
pub fn devices(args: &DevicesArgs) -> Result<Exit> {
    let list = hcq_std::devices();
    say(&if args.json {
        json_line(&as_json(&list))
    } else {
        as_text(&list)
    })?;
    Ok(Exit::Ok)
}

fn as_text(list: &[Candidate]) -> String {
    let width = list.iter().map(|c| c.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for device in list {
        let state = if device.ready { "ready" } else { "absent" };
        text += &format!(
            "{:width$}  {state:6}  {}\n",
            device.name, device.description
        );
        for attempt in &device.attempts {
            text += &format!("{:width$}          {attempt}\n", "");
        }
    }
    plain(&text)
}

fn as_json(list: &[Candidate]) -> Value {
    let devices: Vec<Value> = list
        .iter()
        .map(|device| {
            let attempts: Vec<Value> = device
                .attempts
                .iter()
                .map(|a| {
                    json!({
                        "path": a.path,
                        "operation": a.operation,
                        "ok": a.errno.is_none(),
                        "error": a.errno.map(|e| e.to_string()),
                        "hint": (!a.hint.is_empty()).then_some(&a.hint),
                    })
                })
                .collect();
            json!({
                "name": device.name,
                "ready": device.ready,
                "description": device.description,
                "attempts": attempts,
            })
        })
        .collect();
    json!({ "ok": true, "exit_code": 0, "devices": devices })
}
