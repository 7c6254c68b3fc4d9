use super::*;
use crate::show::profile::{LaunchTimes, TimedTask};

/// Two launches of a job with branches, a copy, a very short task and a name to trip over.
pub(in crate::show) fn example() -> Profile {
    let task = |name: &str, what: &str, queue, bytes, depends_on: &[usize]| TimedTask {
        name: name.into(),
        what: what.into(),
        is_copy: what == "copy",
        queue,
        bytes,
        depends_on: depends_on.to_vec(),
    };
    let tasks = vec![
        task("clear bins", "copy", 2, 1024, &[]),
        task("blur", "blur", 0, 1 << 20, &[]),
        task("sobel <&\"'> 画像の輪郭を探す", "sobel", 0, 2 << 20, &[1]),
        task("histogram", "histogram", 1, 3 << 20, &[0, 1]),
        task("tiny", "fix", 1, 12, &[3]),
        task("tiny too", "fix", 1, 12, &[4]),
        task(
            "a name that is much longer than its bar will ever be able to show",
            "sum",
            0,
            4 << 20,
            &[2, 5],
        ),
        task("save", "copy", 2, 4 << 20, &[6]),
    ];
    let ends = [
        (3, 9),
        (5, 205),
        (207, 420),
        (209, 330),
        (331, 332),
        (333, 334),
        (424, 484),
        (487, 640),
    ];
    let launch = |submit: u64| LaunchTimes {
        submit,
        host: 4_200,
        spans: ends
            .iter()
            .map(|&(a, b)| Span {
                start: submit + a * 1_000,
                end: submit + b * 1_000,
            })
            .collect(),
    };
    Profile {
        device: "cpu".into(),
        queues: vec!["compute 0".into(), "compute 1".into(), "copy 0".into()],
        tasks,
        launches: vec![launch(1_000_000), launch(2_000_000)],
        launched: 2,
    }
}

/// Every text of the picture: x, baseline, end, size.
fn texts(svg: &str) -> Vec<(f64, f64, f64, String)> {
    let attribute = |line: &str, name: &str| -> f64 {
        let from = line.find(&format!(" {name}=\"")).unwrap() + name.len() + 3;
        line[from..].split('"').next().unwrap().parse().unwrap()
    };
    svg.lines()
        .filter(|l| l.starts_with("<text"))
        .map(|l| {
            let words = l.split_once('>').unwrap().1.trim_end_matches("</text>");
            let words = words
                .replace("&amp;", "&")
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&quot;", "\"");
            let size = [
                ("title", 17.0),
                ("sub", 11.0),
                ("tick", 11.0),
                ("small", 11.0),
                ("mark", 11.0),
                ("lane", 13.0),
            ]
            .into_iter()
            .find(|(class, _)| l.contains(&format!("class=\"{class}\"")))
            .map_or(12.0, |(_, size)| size);
            let wide = text_width(words.width(), size);
            let x = attribute(l, "x")
                - if l.contains("\"middle\"") {
                    wide / 2.0
                } else if l.contains("\"end\"") {
                    wide
                } else {
                    0.0
                };
            (x, attribute(l, "y"), x + wide, words)
        })
        .collect()
}

fn assert_no_overlap(svg: &str) {
    let texts = texts(svg);
    for (i, a) in texts.iter().enumerate() {
        assert!(a.2 <= WIDTH, "{:?} leaves the picture", a.3);
        for b in &texts[..i] {
            let apart = a.2 <= b.0 || b.2 <= a.0 || (a.1 - b.1).abs() >= 11.0;
            assert!(apart, "{:?} and {:?} overlap", a.3, b.3);
        }
    }
}

#[test]
fn texts_do_not_overlap_and_names_are_escaped() {
    let svg = draw(&example());
    assert_no_overlap(&svg);
    assert!(svg.contains("sobel &lt;&amp;&quot;'&gt; 画像の輪郭を探す"));
    assert!(!svg.contains("<&\""));
    // Bars, and swatches of the table.
    assert_eq!(svg.matches("<title>").count(), 8);
    // Only what crosses queues is drawn.
    assert_eq!(svg.matches("<path d=\"M").count() - 1, 4);
}

#[test]
fn many_short_tasks_still_read_well() {
    let mut profile = example();
    let mut launch = profile.launches.pop().unwrap();
    for i in 0..500u64 {
        let mut task = profile.tasks[1].clone();
        task.name = format!("step {i}");
        task.queue = (i % 3) as usize;
        profile.tasks.push(task);
        launch.spans.push(Span {
            start: launch.submit + 700_000 + i * 700,
            end: launch.submit + 700_000 + i * 700 + 650,
        });
    }
    profile.launches = vec![launch];
    let svg = draw(&profile);
    assert_no_overlap(&svg);
    assert!(svg.contains("and 468 more"));
}

#[test]
fn extreme_times_are_survived() {
    let mut profile = example();
    for span in &mut profile.launches[1].spans {
        *span = Span { start: 0, end: 0 };
    }
    assert_no_overlap(&draw(&profile));
    profile.launches[1].submit = 0;
    profile.launches[1].spans[3] = Span {
        start: 5,
        end: u64::MAX,
    };
    assert_no_overlap(&draw(&profile));
    profile.launches.clear();
    assert!(draw(&profile).starts_with("<svg"));
}

#[test]
fn ticks_are_round_and_cover_all() {
    for total in [
        1,
        9,
        10,
        11,
        99,
        640_000,
        1_234_567,
        9_999_999_999,
        u64::MAX / 4,
    ] {
        let (step, count) = ticks(total);
        assert!(
            step * count >= total && step * (count - 1) < total,
            "{total}"
        );
        assert!(["1", "2", "5"].contains(&step.to_string().trim_end_matches('0')));
        assert!(count <= 10 && (count >= 4 || total < 4), "{total} {count}");
    }
    assert_eq!(
        (tick_words(2_500, 500), tick_words(400_000, 100_000)),
        ("2500 ns".into(), "400 µs".into())
    );
}

#[test]
fn control_characters_do_not_break_the_xml() {
    let mut profile = example();
    profile.tasks[0].name = "a\u{1}b\u{b}\nc\u{ffff}".into();
    let svg = draw(&profile);
    assert!(svg.chars().all(|c| c == '\n' || !c.is_control()));
}
