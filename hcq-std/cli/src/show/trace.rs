//! The profile as Chrome trace events: opens in Perfetto and chrome://tracing.
//!
//! One process for the device with a track per queue, one for the host with the submissions; an arrow for each
//! dependency. Times are microseconds from the first submission.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

use super::profile::{Profile, Span};

const DEVICE: u32 = 1;
const HOST: u32 = 2;

#[derive(Serialize)]
struct Event<'a> {
    ph: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    pid: u32,
    tid: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Value>,
}

impl<'a> Event<'a> {
    fn new(ph: &'static str, name: &'a str, pid: u32, tid: usize) -> Self {
        Self {
            ph,
            name,
            cat: None,
            pid,
            tid,
            ts: None,
            dur: None,
            id: None,
            bp: None,
            args: None,
        }
    }
}

/// Writes the trace, event by event.
pub fn write(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    let origin = profile.launches.iter().map(|l| l.submit).min().unwrap_or(0);
    let us = |ns: u64| ns.saturating_sub(origin) as f64 / 1e3;
    let mut list = List { out, first: true };
    list.out
        .write_all(b"{\"displayTimeUnit\":\"ns\",\"otherData\":")?;
    serde_json::to_writer(
        &mut *list.out,
        &json!({
            "producer": concat!("hcq ", env!("CARGO_PKG_VERSION")),
            "device": profile.device,
            "launches": profile.launched,
            "launches_in_this_trace": profile.launches.len(),
        }),
    )?;
    list.out.write_all(b",\"traceEvents\":[\n")?;

    let name = |ph: &'static str, pid, tid, name: &str| Event {
        args: Some(json!({ "name": name })),
        ..Event::new("M", ph, pid, tid)
    };
    list.add(&name(
        "process_name",
        DEVICE,
        0,
        &format!("device {}", profile.device),
    ))?;
    list.add(&name("process_name", HOST, 0, "host"))?;
    list.add(&name("thread_name", HOST, 0, "submit"))?;
    for (tid, queue) in profile.queues.iter().enumerate() {
        list.add(&name("thread_name", DEVICE, tid, queue))?;
        let order = Event {
            args: Some(json!({ "sort_index": tid })),
            ..Event::new("M", "thread_sort_index", DEVICE, tid)
        };
        list.add(&order)?;
    }

    let first = profile
        .launched
        .saturating_sub(profile.launches.len() as u64);
    let mut arrow = 0;
    for (number, launch) in (first..).zip(&profile.launches) {
        list.add(&Event {
            cat: Some("submit"),
            ts: Some(us(launch.submit)),
            dur: Some(launch.host as f64 / 1e3),
            args: Some(json!({ "launch": number })),
            ..Event::new("X", "submit", HOST, 0)
        })?;
        for (task, span) in profile.tasks.iter().zip(&launch.spans) {
            let bytes_per_ns = task.bytes as f64 / span.duration().max(1) as f64;
            list.add(&Event {
                cat: Some(if task.is_copy { "copy" } else { "kernel" }),
                ts: Some(us(span.start)),
                dur: Some(span.duration() as f64 / 1e3),
                args: Some(json!({
                    "runs": task.what,
                    "bytes": task.bytes,
                    "GB/s": bytes_per_ns,
                    "queue_us": span.start.saturating_sub(launch.submit) as f64 / 1e3,
                    "launch": number,
                })),
                ..Event::new("X", &task.name, DEVICE, task.queue)
            })?;
        }
        for (task, span) in profile.tasks.iter().zip(&launch.spans) {
            for &d in &task.depends_on {
                let (Some(from), Some(source)) = (launch.spans.get(d), profile.tasks.get(d)) else {
                    continue;
                };
                arrow += 1;
                let flow = |ph, tid, ts| Event {
                    cat: Some("dependency"),
                    ts: Some(us(ts)),
                    id: Some(arrow),
                    ..Event::new(ph, "follows", DEVICE, tid)
                };
                list.add(&flow("s", source.queue, inside_end(*from)))?;
                list.add(&Event {
                    bp: Some("e"),
                    ..flow("f", task.queue, span.start)
                })?;
            }
        }
    }
    list.out.write_all(b"\n]}\n")
}

/// The last moment that a viewer still counts as part of the span: arrows bind to the slice around them.
fn inside_end(span: Span) -> u64 {
    span.end.saturating_sub(1).max(span.start)
}

struct List<'a, W> {
    out: &'a mut W,
    first: bool,
}

impl<W: Write> List<'_, W> {
    fn add(&mut self, event: &Event<'_>) -> io::Result<()> {
        if !self.first {
            self.out.write_all(b",\n")?;
        }
        self.first = false;
        serde_json::to_writer(&mut *self.out, event)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::timeline::tests::example;

    fn events(profile: &Profile) -> Vec<Value> {
        let mut out = Vec::new();
        write(profile, &mut out).unwrap();
        let value: Value = serde_json::from_slice(&out).unwrap();
        value["traceEvents"].as_array().unwrap().clone()
    }

    #[test]
    fn slices_are_where_the_tasks_ran() {
        let profile = example();
        let events = events(&profile);
        let slices: Vec<_> = events
            .iter()
            .filter(|e| e["ph"] == "X" && e["pid"] == DEVICE)
            .collect();
        assert_eq!(slices.len(), profile.tasks.len() * profile.launches.len());
        let first = &profile.launches[0];
        assert_eq!(
            slices[0]["ts"],
            (first.spans[0].start - first.submit) as f64 / 1e3
        );
        assert_eq!(slices[0]["dur"], first.spans[0].duration() as f64 / 1e3);
        assert_eq!(slices[0]["args"]["bytes"], profile.tasks[0].bytes);
        assert_eq!(slices[0]["name"], profile.tasks[0].name.as_str());
        let named = events
            .iter()
            .filter(|e| e["name"] == "thread_name" && e["pid"] == DEVICE)
            .count();
        assert_eq!(named, profile.queues.len());
    }

    #[test]
    fn each_arrow_has_both_ends_within_its_slices() {
        let profile = example();
        let events = events(&profile);
        let slices: Vec<_> = events
            .iter()
            .filter(|e| e["ph"] == "X" && e["pid"] == DEVICE)
            .collect();
        let within = |e: &Value| {
            let ts = e["ts"].as_f64().unwrap();
            slices.iter().any(|s| {
                let start = s["ts"].as_f64().unwrap();
                s["tid"] == e["tid"] && ts >= start && ts < start + s["dur"].as_f64().unwrap()
            })
        };
        let arrows = profile
            .tasks
            .iter()
            .map(|t| t.depends_on.len())
            .sum::<usize>()
            * profile.launches.len();
        for ph in ["s", "f"] {
            let ends: Vec<_> = events.iter().filter(|e| e["ph"] == ph).collect();
            assert_eq!(ends.len(), arrows);
            assert!(ends.iter().all(|e| within(e)));
        }
    }
}
