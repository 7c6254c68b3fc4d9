//! The result of a run: a table for people, one object for programs.

use std::fmt;
use std::path::PathBuf;

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};
use hcq_std::{GraphProfile, GraphStats, QueueUse};
use serde_json::{Value, json};

use super::profile::{LaunchTimes, Profile, median};
use super::{duration_words, plain};
use crate::data::bytes_words;
use crate::data::compare::{Comparison, Tolerance};
use crate::exit::Exit;

/// Longest name in the table.
const MAX_NAME: usize = 40;
/// Tasks of the critical path that are named.
const MOST_NAMES: usize = 8;

/// Everything that a run has to say.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Times of the launches.
    pub profile: Profile,
    /// Nanoseconds that recording and binding the queues took, once.
    pub record_ns: u64,
    /// The graph in numbers, if it was launched as one.
    pub graph: Option<GraphStats>,
    /// When its tasks ran in the last launch, and what that waited for.
    pub graph_profile: Option<GraphProfile>,
    /// Buffers filled before the first launch.
    pub loaded_buffers: usize,
    /// Their bytes.
    pub loaded_bytes: u64,
    /// Nanoseconds that it took.
    pub load_ns: u64,
    /// Outputs held against expected files.
    pub checks: Vec<Check>,
    /// Files written for the job.
    pub files: Vec<Written>,
    /// The trace, if asked for.
    pub trace: Option<PathBuf>,
    /// The picture, if asked for.
    pub timeline: Option<PathBuf>,
}

/// An output held against an expected file.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// The buffer's name.
    pub buffer: String,
    /// The expected file.
    pub expect: PathBuf,
    /// What was allowed.
    pub tolerance: Tolerance,
    /// What was found.
    pub comparison: Comparison,
}

impl Check {
    /// Whether every element is within the tolerance.
    pub fn passed(&self) -> bool {
        self.comparison.mismatches == 0
    }
}

/// A file written for the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The buffer's name.
    pub buffer: String,
    /// The file.
    pub file: PathBuf,
    /// What is in it, in words.
    pub what: String,
    /// Bytes of data.
    pub bytes: u64,
}

impl Report {
    /// How the command ends.
    pub fn exit(&self) -> Exit {
        if self.checks.iter().all(Check::passed) {
            Exit::Ok
        } else {
            Exit::Check
        }
    }

    fn of_launches(&self, value: impl Fn(&LaunchTimes) -> u64) -> u64 {
        median(self.profile.launches.iter().map(value).collect())
    }

    /// Median queue time and device time of a task, in nanoseconds.
    fn times(&self, task: usize) -> (u64, u64) {
        let span = |l: &LaunchTimes| l.spans.get(task).copied();
        (
            self.of_launches(|l| span(l).map_or(0, |s| s.start.saturating_sub(l.submit))),
            self.of_launches(|l| span(l).map_or(0, |s| s.duration())),
        )
    }

    /// The object that `--json` prints.
    pub fn json(&self) -> Value {
        let p = &self.profile;
        let tasks: Vec<Value> = p
            .tasks
            .iter()
            .enumerate()
            .map(|(i, t)| {
                let (queue_ns, device_ns) = self.times(i);
                json!({
                    "name": t.name,
                    "kind": if t.is_copy { "copy" } else { "kernel" },
                    "runs": t.what,
                    "queue": p.queues.get(t.queue),
                    "queue_time_ns": queue_ns,
                    "device_time_ns": device_ns,
                    "bytes": t.bytes,
                    "gb_per_s": rate(t.bytes, device_ns),
                    "depends_on": t.depends_on,
                })
            })
            .collect();
        let checks: Vec<Value> = self
            .checks
            .iter()
            .map(|c| {
                let r = &c.comparison;
                json!({
                    "buffer": c.buffer,
                    "expect": c.expect,
                    "ok": c.passed(),
                    "elements": r.elements,
                    "mismatches": r.mismatches,
                    "max_abs_error": r.max_abs,
                    "max_rel_error": r.max_rel,
                    "rtol": c.tolerance.rtol,
                    "atol": c.tolerance.atol,
                    "first_mismatch": r.first.as_ref().map(|(index, value, expected)| {
                        json!({ "index": index, "value": value, "expected": expected })
                    }),
                })
            })
            .collect();
        let files: Vec<Value> = self
            .files
            .iter()
            .map(|f| json!({ "buffer": f.buffer, "file": f.file, "bytes": f.bytes }))
            .collect();
        json!({
            "ok": self.exit() == Exit::Ok,
            "exit_code": self.exit().code(),
            "device": p.device,
            "launches": p.launched,
            "launches_measured": p.launches.len(),
            "tasks": tasks,
            "launch": {
                "host_ns": self.of_launches(|l| l.host),
                "total_ns": self.of_launches(LaunchTimes::total),
                "record_ns": self.record_ns,
            },
            "graph": self.graph.map(|g| json!({
                "waits": g.waits,
                "signals": g.signals,
                "queues": g.queues,
                "words": g.words,
                "patch_sites": g.sites,
                "patched": g.stored,
                "staged_bytes": g.staged_bytes,
            })),
            "critical_path": self.graph_profile.as_ref().map(|p| json!({
                "tasks": critical(p).collect::<Vec<_>>(),
                "ns": p.path_ns,
                "total_ns": p.total_ns,
                "wait_ns": p.wait_ns,
                "queues": p.queues.iter().map(|q| json!({
                    "device": q.device,
                    "kind": q.kind.to_string(),
                    "index": q.index,
                    "busy_ns": q.busy_ns,
                    "idle_ns": q.idle_ns,
                    "longest_gap_ns": q.longest_gap_ns,
                })).collect::<Vec<_>>(),
            })),
            "load": { "buffers": self.loaded_buffers, "bytes": self.loaded_bytes, "ns": self.load_ns },
            "checks": checks,
            "files": files,
            "trace": self.trace,
            "timeline": self.timeline,
        })
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(
            TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')),
        );
        table.set_header([
            "task",
            "queue",
            "queue time",
            "device time",
            "bytes",
            "GB/s",
        ]);
        for (i, task) in self.profile.tasks.iter().enumerate() {
            let (queue_ns, device_ns) = self.times(i);
            let queue = self
                .profile
                .queues
                .get(task.queue)
                .map_or("", String::as_str);
            let rate =
                rate(task.bytes, device_ns).map_or_else(|| "-".to_owned(), |r| format!("{r:.2}"));
            let right = |words: String| Cell::new(words).set_alignment(CellAlignment::Right);
            table.add_row([
                Cell::new(short(&task.name)),
                Cell::new(queue),
                right(duration_words(queue_ns)),
                right(duration_words(device_ns)),
                right(bytes_words(task.bytes)),
                right(rate),
            ]);
        }
        table
    }
}

/// Bytes in nanoseconds as gigabytes (10^9) per second.
fn rate(bytes: u64, ns: u64) -> Option<f64> {
    (ns > 0 && bytes > 0).then(|| bytes as f64 / ns as f64)
}

/// The tasks of the critical path; one in two steps counts once.
fn critical(p: &GraphProfile) -> impl Iterator<Item = u32> {
    let mut last = None;
    let all = p.ran.iter().filter(|r| r.is_critical);
    all.map(|r| r.node.index())
        .filter(move |&task| last.replace(task) != Some(task))
}

/// A queue's name, with its device's if there are several.
fn queue_words(q: &QueueUse, all: &[QueueUse]) -> String {
    let several = all.iter().any(|other| other.device != q.device);
    match several {
        true => format!("{} {} {}", q.device, q.kind, q.index),
        false => format!("{} {}", q.kind, q.index),
    }
}

fn short(name: &str) -> String {
    let name = plain(name).replace(['\n', '\t'], " ");
    match name.char_indices().nth(MAX_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name,
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p = &self.profile;
        write!(f, "device {}: {}", p.device, count(p.tasks.len(), "task"))?;
        write!(f, " on {}", count(p.queues.len(), "queue"))?;
        match (p.launched, p.launches.len() as u64) {
            (1, _) => writeln!(f)?,
            (all, kept) if all == kept => writeln!(f, ", {all} launches; times are medians")?,
            (all, kept) => writeln!(f, ", {all} launches; times are medians of the last {kept}")?,
        }
        writeln!(f, "{}", self.table())?;
        writeln!(
            f,
            "launch: {} on the host, {} from submit to end; recorded once in {}",
            duration_words(self.of_launches(|l| l.host)),
            duration_words(self.of_launches(LaunchTimes::total)),
            duration_words(self.record_ns),
        )?;
        if let Some(g) = &self.graph {
            writeln!(
                f,
                "graph: {}, {} of {} stored by the last launch{}",
                count(g.waits, "wait"),
                g.stored,
                count(g.sites, "patch site"),
                match g.staged_bytes {
                    0 => String::new(),
                    n => format!(", {} through the host's memory", bytes_words(n)),
                }
            )?;
        }
        if let Some(p) = &self.graph_profile {
            let path: Vec<String> = critical(p)
                .filter_map(|task| self.profile.tasks.get(task as usize))
                .map(|t| short(&t.name))
                .collect();
            let shown = path.get(..path.len().min(MOST_NAMES)).unwrap_or_default();
            let more = match path.len() - shown.len() {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            writeln!(
                f,
                "critical path: {}{more}; {} of {}, waits {}",
                shown.join(", "),
                duration_words(p.path_ns),
                duration_words(p.total_ns),
                duration_words(p.wait_ns)
            )?;
            let idle: Vec<String> = p
                .queues
                .iter()
                .map(|q| {
                    format!(
                        "{} {}",
                        queue_words(q, &p.queues),
                        duration_words(q.idle_ns)
                    )
                })
                .collect();
            writeln!(f, "idle: {}", idle.join(", "))?;
        }
        writeln!(
            f,
            "loaded: {}, {} in {}",
            count(self.loaded_buffers, "buffer"),
            bytes_words(self.loaded_bytes),
            duration_words(self.load_ns)
        )?;
        for file in &self.files {
            writeln!(
                f,
                "wrote {}: {} ({})",
                file.file.display(),
                file.buffer,
                file.what
            )?;
        }
        for (what, path) in [("trace", &self.trace), ("timeline", &self.timeline)] {
            if let Some(path) = path {
                writeln!(f, "wrote {}: {what}", path.display())?;
            }
        }
        for check in &self.checks {
            writeln!(f, "{check}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let c = &self.comparison;
        let verdict = if self.passed() { "ok" } else { "FAILED" };
        write!(
            f,
            "check {verdict}: {} against {}: ",
            self.buffer,
            self.expect.display()
        )?;
        write!(
            f,
            "{} of {} differ",
            c.mismatches,
            count(c.elements as usize, "element")
        )?;
        write!(
            f,
            ", max error {} absolute, {} relative",
            short_float(c.max_abs),
            short_float(c.max_rel)
        )?;
        write!(
            f,
            " (allowed: rtol {}, atol {})",
            short_float(self.tolerance.rtol),
            short_float(self.tolerance.atol)
        )?;
        if let Some((index, value, expected)) = &c.first {
            write!(
                f,
                "; first at element {index}: {value}, expected {expected}"
            )?;
        }
        Ok(())
    }
}

fn short_float(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        format!("{value}")
    } else {
        format!("{value:.2e}")
    }
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::compare::compare;
    use crate::data::dtype::Dtype;
    use crate::show::timeline::tests::example;

    fn report(got: f32) -> Report {
        let tolerance = Tolerance {
            rtol: 1e-6,
            atol: 0.0,
        };
        let comparison = compare(
            Dtype::F32,
            &got.to_le_bytes(),
            &2.0f32.to_le_bytes(),
            tolerance,
        );
        let check = Check {
            buffer: "y".into(),
            expect: "e.npy".into(),
            tolerance,
            comparison,
        };
        let file = Written {
            buffer: "y".into(),
            file: "y.npy".into(),
            what: "f32 [1], 4 B".into(),
            bytes: 4,
        };
        Report {
            profile: example(),
            record_ns: 5_000,
            graph: None,
            graph_profile: None,
            loaded_buffers: 1,
            loaded_bytes: 4096,
            load_ns: 1_000,
            checks: vec![check],
            files: vec![file],
            trace: None,
            timeline: Some("t.svg".into()),
        }
    }

    #[test]
    fn a_passing_check() {
        let report = report(2.0);
        let text = report.to_string();
        assert_eq!(report.exit(), Exit::Ok);
        assert!(
            text.contains("device cpu: 8 tasks on 3 queues, 2 launches; times are medians"),
            "{text}"
        );
        assert!(
            text.contains("check ok: y against e.npy: 0 of 1 element differ, max error 0 absolute"),
            "{text}"
        );
        assert!(text.contains(
            "launch: 4.20 µs on the host, 640.0 µs from submit to end; recorded once in 5.00 µs"
        ));
        let json = report.json();
        assert_eq!((&json["ok"], &json["exit_code"]), (&json!(true), &json!(0)));
        assert_eq!(json["tasks"][1]["device_time_ns"], 200_000);
        assert_eq!(json["tasks"][1]["queue_time_ns"], 5_000);
        assert_eq!(json["tasks"][1]["gb_per_s"], (1 << 20) as f64 / 200_000.0);
        assert_eq!(json["checks"][0]["first_mismatch"], Value::Null);
    }

    #[test]
    fn a_failing_check() {
        let report = report(2.5);
        assert_eq!(report.exit(), Exit::Check);
        let text = report.to_string();
        let want = "check FAILED: y against e.npy: 1 of 1 element differ, max error 5.00e-1 absolute, 2.50e-1 relative \
                    (allowed: rtol 1.00e-6, atol 0); first at element 0: 2.5, expected 2";
        assert!(text.contains(want), "{text}");
        assert_eq!(report.json()["exit_code"], 1);
    }

    #[test]
    fn names_cannot_break_the_table() {
        let mut report = report(2.0);
        report.profile.tasks[0].name = "a\u{1b}[2J\nb".repeat(20);
        let text = report.to_string();
        assert!(!text.contains('\u{1b}'));
        assert!(text.contains('…'));
    }
}
