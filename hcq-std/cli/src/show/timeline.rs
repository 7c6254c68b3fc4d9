//! The last launch as a picture: a lane per queue, a bar per task, lines for what waits for what.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::profile::{Profile, Span};
use super::{duration_words, plain};
use crate::data::bytes_words;

const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 24.0;
const LANE: f64 = 62.0;
const BAR: f64 = 38.0;
const ROW: f64 = 20.0;
/// Width of a column of a monospaced face in parts of its size; the usual faces differ by a hundredth.
const ADVANCE: f64 = 0.61;
/// Rows of the table; a picture that scrolls for pages tells nothing.
const MAX_ROWS: usize = 40;
/// Fills that stay apart for colour-blind readers and carry dark text (after Okabe and Ito, lightened).
const COLOURS: [&str; 7] = [
    "#8ecdf0", "#f6c667", "#7fd1b2", "#f2a68a", "#d9b3d9", "#f5ec8c", "#a9b8e8",
];

/// Writes the picture as SVG.
pub fn write(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    out.write_all(draw(profile).as_bytes())
}

struct Scale {
    left: f64,
    width: f64,
    span_ns: f64,
}

impl Scale {
    fn x(&self, ns: u64) -> f64 {
        self.left + self.width * (ns as f64 / self.span_ns).min(1.0)
    }
}

/// The picture as SVG text.
pub fn draw(profile: &Profile) -> String {
    let Some(launch) = profile.launches.last() else {
        return r#"<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"/>"#.to_owned();
    };
    let since = |span: &Span| Span {
        start: span.start.saturating_sub(launch.submit),
        end: span
            .end
            .saturating_sub(launch.submit)
            .max(span.start.saturating_sub(launch.submit)),
    };
    let spans: Vec<Span> = launch.spans.iter().map(since).collect();
    let total = launch.total().clamp(1, 1 << 60);

    let label_columns = profile
        .queues
        .iter()
        .map(|q| q.width())
        .max()
        .unwrap_or(0)
        .clamp(4, 18);
    let left = MARGIN + text_width(label_columns, 13.0) + 14.0;
    let (step, ticks) = ticks(total);
    let scale = Scale {
        left,
        width: WIDTH - MARGIN - left,
        span_ns: (step * ticks) as f64,
    };
    let axis = 76.0;
    let lanes_top = axis + 14.0;
    let lanes_bottom = lanes_top + LANE * profile.queues.len() as f64;
    let rows = profile.tasks.len().min(MAX_ROWS);
    let table = lanes_bottom + 52.0;
    let more = if profile.tasks.len() > rows { ROW } else { 0.0 };
    let height = table + ROW * (rows as f64 + 1.0) + more + MARGIN;

    let fills = fills(profile);
    let mut svg = String::new();
    open(&mut svg, height);
    title(&mut svg, profile, total);
    draw_axis(&mut svg, &scale, step, ticks, axis);
    for (i, queue) in profile.queues.iter().enumerate() {
        let y = lanes_top + LANE * i as f64;
        let fill = if i % 2 == 0 { "#f6f7f9" } else { "#ffffff" };
        line(
            &mut svg,
            format_args!(
                r#"<rect x="{MARGIN}" y="{y}" width="{:.1}" height="{LANE}" fill="{fill}"/>"#,
                WIDTH - 2.0 * MARGIN
            ),
        );
        text(
            &mut svg,
            MARGIN + 6.0,
            y + LANE / 2.0 + 5.0,
            "lane",
            &fit(queue, label_columns),
        );
    }
    // Grid lines over the lanes, under the bars.
    for i in 0..=ticks {
        let x = scale.x(step * i);
        line(
            &mut svg,
            format_args!(
                r##"<line x1="{x:.1}" y1="{lanes_top}" x2="{x:.1}" y2="{lanes_bottom}" stroke="#dde1e6"/>"##
            ),
        );
    }
    let bar_top = |queue: usize| lanes_top + LANE * queue as f64 + (LANE - BAR) - 6.0;
    draw_dependencies(&mut svg, profile, &spans, &scale, &bar_top);
    draw_bars(&mut svg, profile, &spans, &fills, &scale, &bar_top);
    draw_legend(&mut svg, lanes_bottom + 26.0);
    draw_table(&mut svg, profile, &spans, &fills, table, rows);
    svg.push_str("</svg>\n");
    svg
}

fn open(svg: &mut String, height: f64) {
    line(
        svg,
        format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0}" viewBox="0 0 {WIDTH} {height:.0}">"#
        ),
    );
    svg.push_str(concat!(
        "<style>text{font-family:'DejaVu Sans Mono',Menlo,Consolas,monospace;font-size:12px;fill:#1b1f24}",
        ".title{font-size:17px;font-weight:bold}.sub,.tick,.small{font-size:11px;fill:#4b535d}",
        ".mark{font-size:11px;fill:#1b1f24;stroke:#ffffff;stroke-width:3px;paint-order:stroke}",
        ".lane{font-size:13px}.name{font-weight:bold}.head{font-weight:bold;fill:#4b535d}</style>\n",
        "<defs><pattern id=\"copy\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" ",
        "patternTransform=\"rotate(45)\"><rect width=\"7\" height=\"7\" fill=\"#d5d9de\"/>",
        "<line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"7\" stroke=\"#c3c9d0\" stroke-width=\"3\"/></pattern>",
        "<marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">",
        "<path d=\"M0 1L7 4L0 7z\" fill=\"#5b6570\"/></marker></defs>\n",
    ));
    line(
        svg,
        format_args!(r##"<rect width="{WIDTH}" height="{height:.0}" fill="#ffffff"/>"##),
    );
}

fn title(svg: &mut String, profile: &Profile, total: u64) {
    text(
        svg,
        MARGIN,
        30.0,
        "title",
        &fit(&format!("device {}", profile.device), 100),
    );
    let which = if profile.launched > 1 {
        format!("last of {} launches", profile.launched)
    } else {
        "one launch".into()
    };
    let words = format!(
        "{which}, {} tasks, {} from submit to end",
        profile.tasks.len(),
        duration_words(total)
    );
    text(svg, MARGIN, 48.0, "sub", &words);
}

/// A step of 1, 2 or 5 times a power of ten, and how many of them cover `total` nanoseconds.
fn ticks(total: u64) -> (u64, u64) {
    let mut power = 1u64;
    loop {
        for step in [power, power.saturating_mul(2), power.saturating_mul(5)] {
            let count = total.div_ceil(step);
            if count <= 10 {
                return (step, count.max(1));
            }
        }
        power = power.saturating_mul(10);
    }
}

fn draw_axis(svg: &mut String, scale: &Scale, step: u64, ticks: u64, y: f64) {
    let end = scale.x(step * ticks);
    line(
        svg,
        format_args!(
            r##"<line x1="{:.1}" y1="{y}" x2="{end:.1}" y2="{y}" stroke="#8a939e"/>"##,
            scale.left
        ),
    );
    for i in 0..=ticks {
        let x = scale.x(step * i);
        line(
            svg,
            format_args!(
                r##"<line x1="{x:.1}" y1="{}" x2="{x:.1}" y2="{}" stroke="#8a939e"/>"##,
                y - 5.0,
                y
            ),
        );
        let words = if i == 0 {
            "submit".to_owned()
        } else {
            tick_words(step * i, step)
        };
        let anchor = match i {
            0 => "start",
            _ if i == ticks => "end",
            _ => "middle",
        };
        line(
            svg,
            format_args!(
                r#"<text class="tick" x="{x:.1}" y="{}" text-anchor="{anchor}">{}</text>"#,
                y - 9.0,
                escape(&words)
            ),
        );
    }
}

/// A tick's label in the unit of the step, without digits that all ticks share as zeros.
fn tick_words(ns: u64, step: u64) -> String {
    let (unit, name) = match step {
        0..1_000 if ns < 10_000 => (1, "ns"),
        0..1_000_000 => (1_000, "µs"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let value = ns as f64 / unit as f64;
    format!("{value} {name}")
}

fn draw_dependencies(
    svg: &mut String,
    profile: &Profile,
    spans: &[Span],
    scale: &Scale,
    bar_top: &dyn Fn(usize) -> f64,
) {
    for (task, span) in profile.tasks.iter().zip(spans) {
        for &d in &task.depends_on {
            let (Some(source), Some(from)) = (profile.tasks.get(d), spans.get(d)) else {
                continue;
            };
            if source.queue == task.queue {
                continue;
            }
            let down = task.queue > source.queue;
            let edge = |queue: usize, bottom: bool| bar_top(queue) + if bottom { BAR } else { 0.0 };
            let (x0, y0) = (scale.x(from.end), edge(source.queue, down));
            let (x1, y1) = (scale.x(span.start), edge(task.queue, !down));
            let bend = (y1 - y0) / 2.0;
            line(
                svg,
                format_args!(
                    r##"<path d="M{x0:.1} {y0:.1}C{x0:.1} {:.1} {x1:.1} {:.1} {x1:.1} {y1:.1}" fill="none" stroke="#5b6570" stroke-width="1.2" marker-end="url(#tip)"/>"##,
                    y0 + bend,
                    y1 - bend
                ),
            );
        }
    }
}

fn draw_bars(
    svg: &mut String,
    profile: &Profile,
    spans: &[Span],
    fills: &[&str],
    scale: &Scale,
    bar_top: &dyn Fn(usize) -> f64,
) {
    // Right end of the last number above each lane's bars, so that numbers never touch.
    let mut used = vec![0.0f64; profile.queues.len()];
    let mut order: Vec<usize> = (0..profile.tasks.len().min(spans.len())).collect();
    order.sort_by_key(|&i| spans[i].start);
    for i in order {
        let (task, span) = (&profile.tasks[i], spans[i]);
        let (x, y) = (scale.x(span.start), bar_top(task.queue));
        let width = (scale.x(span.end) - x).max(1.0);
        let fill = fills[i];
        line(
            svg,
            format_args!(
                r##"<rect x="{x:.2}" y="{y:.1}" width="{width:.2}" height="{BAR}" rx="{:.1}" fill="{fill}" stroke="#5b6570" stroke-width="{}"><title>{}</title></rect>"##,
                (width / 4.0).min(3.0),
                if width < 3.0 { 0.4 } else { 0.8 },
                escape(&format!(
                    "{} {}: {}, {}",
                    i + 1,
                    task.name,
                    duration_words(span.duration()),
                    bytes_words(task.bytes)
                )),
            ),
        );
        let columns = ((width - 8.0) / (12.0 * ADVANCE)).max(0.0) as usize;
        let number = (i + 1).to_string();
        let name = format!("{number} {}", task.name);
        let words = duration_words(span.duration());
        if columns >= number.len() + 5 && columns >= words.width() {
            text(svg, x + 4.0, y + 16.0, "name", &fit(&name, columns));
            text(svg, x + 4.0, y + 31.0, "small", &words);
        } else if columns >= number.len() {
            text(svg, x + 4.0, y + 16.0, "name", &number);
        } else if let Some(used) = used.get_mut(task.queue) {
            let wide = text_width(number.len(), 11.0);
            let at = (x + width / 2.0 - wide / 2.0).max(scale.left);
            if at > *used + 3.0 {
                text(svg, at, y - 4.0, "mark", &number);
                *used = at + wide;
            }
        }
    }
}

/// Each task's fill: tasks that run the same kernel look the same.
fn fills(profile: &Profile) -> Vec<&'static str> {
    let mut kinds: HashMap<&str, usize> = HashMap::new();
    let mut fills = Vec::new();
    for task in &profile.tasks {
        let next = kinds.len();
        fills.push(match task.is_copy {
            true => "url(#copy)",
            false => COLOURS[*kinds.entry(&task.what).or_insert(next) % COLOURS.len()],
        });
    }
    fills
}

fn draw_legend(svg: &mut String, y: f64) {
    let x = MARGIN;
    line(
        svg,
        format_args!(
            r##"<rect x="{x}" y="{:.1}" width="22" height="11" fill="{}" stroke="#5b6570" stroke-width="0.8"/>"##,
            y - 10.0,
            COLOURS[0]
        ),
    );
    text(svg, x + 28.0, y, "small", "kernel, a colour for each");
    let x = x + 28.0 + text_width(25, 11.0) + 24.0;
    line(
        svg,
        format_args!(
            r##"<rect x="{x:.1}" y="{:.1}" width="22" height="11" fill="url(#copy)" stroke="#5b6570" stroke-width="0.8"/>"##,
            y - 10.0
        ),
    );
    text(svg, x + 28.0, y, "small", "copy");
    let x = x + 28.0 + text_width(4, 11.0) + 24.0;
    line(
        svg,
        format_args!(
            r##"<line x1="{x:.1}" y1="{0:.1}" x2="{1:.1}" y2="{0:.1}" stroke="#5b6570" stroke-width="1.2" marker-end="url(#tip)"/>"##,
            y - 4.0,
            x + 24.0
        ),
    );
    text(
        svg,
        x + 30.0,
        y,
        "small",
        "depends on a task of another queue; within a queue, tasks run in order",
    );
}

fn draw_table(
    svg: &mut String,
    profile: &Profile,
    spans: &[Span],
    fills: &[&str],
    top: f64,
    rows: usize,
) {
    let columns = [
        MARGIN + 26.0,
        MARGIN + 62.0,
        MARGIN + 420.0,
        MARGIN + 640.0,
        MARGIN + 790.0,
        MARGIN + 940.0,
    ];
    for (x, words) in
        columns
            .iter()
            .zip(["#", "task", "queue", "queue time", "device time", "bytes"])
    {
        text(svg, *x, top, "head", words);
    }
    for (i, (task, span)) in profile.tasks.iter().zip(spans).enumerate().take(rows) {
        let y = top + ROW * (i as f64 + 1.0);
        line(
            svg,
            format_args!(
                r##"<rect x="{MARGIN}" y="{:.1}" width="16" height="11" fill="{}" stroke="#5b6570" stroke-width="0.8"/>"##,
                y - 10.0,
                fills[i]
            ),
        );
        let queue = profile.queues.get(task.queue).map_or("", String::as_str);
        let cells = [
            (i + 1).to_string(),
            fit(&task.name, 46),
            fit(queue, 27),
            duration_words(span.start),
            duration_words(span.duration()),
            bytes_words(task.bytes),
        ];
        for (x, words) in columns.iter().zip(&cells) {
            text(svg, *x, y, "cell", words);
        }
    }
    if profile.tasks.len() > rows {
        let y = top + ROW * (rows as f64 + 1.0);
        text(
            svg,
            columns[1],
            y,
            "small",
            &format!(
                "and {} more; the trace has them all",
                profile.tasks.len() - rows
            ),
        );
    }
}

fn text_width(columns: usize, size: f64) -> f64 {
    columns as f64 * size * ADVANCE
}

/// `words` cut to so many columns.
fn fit(words: &str, columns: usize) -> String {
    let words = plain(words).replace(['\n', '\t'], " ");
    if words.width() <= columns {
        return words;
    }
    let mut out = String::new();
    let mut used = 1;
    for c in words.chars() {
        used += c.width().unwrap_or(0);
        if used > columns {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

fn text(svg: &mut String, x: f64, y: f64, class: &str, words: &str) {
    line(
        svg,
        format_args!(
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" xml:space="preserve">{}</text>"#,
            escape(words)
        ),
    );
}

fn escape(words: &str) -> String {
    plain(words)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn line(svg: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = svg.write_fmt(words);
    svg.push('\n');
}

#[cfg(test)]
pub(super) mod tests;
