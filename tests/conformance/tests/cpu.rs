//! The whole list on the CPU device, and the harness on lists made to fail.

use std::collections::HashSet;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hcq_conformance::kinds::{KINDS, Stock};
use hcq_conformance::{
    Behaviour, Context, Failure, Needs, Outcome, Runner, Summary, Verdict, behaviours,
};
use hcq_std::{Error, Options};

/// The least number of behaviours. It only goes up: a list that shrinks is noticed.
const LEAST: usize = 146;
const PAST_4_GIB: &str = "copy.past-4-gib";

/// Runs and prints a list; returns what was reported.
fn run(runner: &Runner<'_>) -> (Summary, Vec<Outcome>) {
    let mut outcomes = Vec::new();
    let summary = runner.run(&mut |outcome| {
        println!("{outcome}");
        outcomes.push(outcome.clone());
    });
    println!("{summary}");
    (summary, outcomes)
}

/// Runs a list and fails with what failed.
fn run_list(list: &[Behaviour], options: Options) {
    let (summary, outcomes) = run(&Runner::new("cpu").list(list).options(options));
    let failed: Vec<String> = outcomes
        .iter()
        .filter(|o| matches!(o.verdict, Verdict::Failed { .. }))
        .map(ToString::to_string)
        .collect();
    assert!(failed.is_empty(), "{summary}\n{}", failed.join("\n"));
    let ran: Vec<&str> = outcomes.iter().map(Outcome::name).collect();
    let listed: Vec<&str> = list.iter().map(|b| b.name).collect();
    assert_eq!(ran, listed, "every behaviour listed is reported once");
    assert_eq!(summary.total(), listed.len());
    // Past the test harness, which keeps what passing tests print to itself.
    for skip in outcomes
        .iter()
        .filter(|o| matches!(o.verdict, Verdict::Skipped { .. }))
    {
        writeln!(std::io::stderr(), "{skip}").expect("standard error takes a line");
    }
    // The CPU device lacks nothing but addresses of its own and images; its machine may lack memory, or time.
    let skipped: Vec<&Outcome> = outcomes
        .iter()
        .filter(|o| matches!(o.verdict, Verdict::Skipped { .. }))
        .collect();
    let may_skip = [
        PAST_4_GIB,
        "signal.progress-restarts-timeout",
        "peer.dropped-view",
    ];
    assert!(
        skipped
            .iter()
            .all(|o| may_skip.contains(&o.name()) || o.name().starts_with("images.")),
        "skipped without need: {skipped:?}"
    );
}

#[test]
fn the_cpu_device_does_all_that_is_listed() {
    run_list(behaviours(), Options::default());
}

/// The list but for the one that takes long and depends on no option.
fn quick() -> Vec<Behaviour> {
    behaviours()
        .iter()
        .copied()
        .filter(|b| b.name != PAST_4_GIB)
        .collect()
}

#[test]
fn with_many_helpers_that_never_spin() {
    run_list(
        &quick(),
        Options::default().helper_threads(4).spin(Duration::ZERO),
    );
}

#[test]
fn alone_in_its_thread_with_a_small_ring_and_short_epochs() {
    run_list(
        &quick(),
        Options::default()
            .helper_threads(0)
            .ring_packets(64)
            .arena_bytes(512)
            .timeline_span_log2(10),
    );
}

#[test]
fn the_list_is_in_order() {
    let names: Vec<&str> = behaviours().iter().map(|b| b.name).collect();
    assert!(names.len() >= LEAST, "only {} behaviours", names.len());
    assert_eq!(
        names.iter().collect::<HashSet<_>>().len(),
        names.len(),
        "a name is taken twice"
    );
    for b in behaviours() {
        let (theme, rest) = b
            .name
            .split_once('.')
            .unwrap_or_else(|| panic!("{}: no theme", b.name));
        let plain = |s: &str| {
            !s.is_empty()
                && s.chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        };
        assert!(
            plain(theme) && plain(rest),
            "{}: not theme.words-in-lower-case",
            b.name
        );
        assert!(
            !b.what.is_empty() && b.what.len() < 120 && !b.what.contains('\n'),
            "{}: not one line",
            b.name
        );
    }
}

#[test]
fn the_cpu_kind_has_every_kernel() {
    let device = hcq_std::Device::open("cpu").expect("the CPU device is always there");
    let kind = KINDS
        .iter()
        .find(|k| k.serves("cpu"))
        .expect("a kind serves it");
    for stock in Stock::ALL {
        let kernel = kind
            .kernel(&device, stock)
            .expect("it is accepted")
            .expect("it is there");
        assert_eq!(kernel.name(), stock.name());
        let arguments = kernel.arguments().expect("it has a signature");
        assert_eq!(
            arguments.len(),
            stock.signature().matches(';').count(),
            "{}",
            stock.name()
        );
    }
}

// ------------------------------------------------------------------------------------- the harness

fn passes(_: &mut Context) -> Result<(), Failure> {
    Ok(())
}

fn fails(cx: &mut Context) -> Result<(), Failure> {
    Err(Failure::new(format!(
        "7 seen, 8 wanted on {}",
        cx.device().name()
    )))
}

fn fails_by_error(cx: &mut Context) -> Result<(), Failure> {
    cx.device().compute_queue(99)?;
    Ok(())
}

fn panics(_: &mut Context) -> Result<(), Failure> {
    let none: [u8; 0] = [];
    assert_eq!(none.len(), 3, "deliberately");
    Ok(())
}

fn skips(_: &mut Context) -> Result<(), Failure> {
    Err(Failure::missing("a thing that no machine has"))
}

fn hangs(_: &mut Context) -> Result<(), Failure> {
    // Longer than the limit in the test, and still with an end.
    std::thread::sleep(Duration::from_secs(2));
    Ok(())
}

fn held(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.open(|o| o.wait_timeout_ms(20))?;
    let never = device.signal()?;
    device
        .compute_queue(0)?
        .record()
        .wait(&never, 1u64)?
        .submit()?
        .wait()?;
    Ok(())
}

fn breaks_the_device(cx: &mut Context) -> Result<(), Failure> {
    let point = cx
        .device()
        .compute_queue(0)?
        .record()
        .write64(cx.unmapped(), 1u64)?
        .submit()?;
    match point.wait() {
        Err(Error::Fault(_)) => Ok(()),
        other => Err(Failure::new(format!("{other:?}"))),
    }
}

/// Behaviours of the harness's own tests.
const fn made(
    name: &'static str,
    needs: Needs,
    run: fn(&mut Context) -> Result<(), Failure>,
) -> Behaviour {
    Behaviour {
        name,
        what: "made to show the harness",
        needs,
        run,
    }
}

#[test]
fn failures_panics_and_skips_are_told_apart() {
    let list = [
        made("made.passes", Needs::COMPUTE, passes),
        made("made.fails", Needs::COMPUTE, fails),
        made("made.fails-by-error", Needs::COMPUTE, fails_by_error),
        made("made.panics", Needs::COMPUTE, panics),
        made("made.skips", Needs::COMPUTE, skips),
        made("made.needs-queues", Needs::BOTH.compute(1000), passes),
        made("made.held", Needs::COMPUTE, held),
        made("made.breaks-the-device", Needs::COMPUTE, breaks_the_device),
        made("made.passes-after-all-that", Needs::COMPUTE, passes),
    ];
    let (summary, outcomes) = run(&Runner::new("cpu").list(&list));
    assert_eq!(
        summary,
        Summary {
            passed: 3,
            failed: 4,
            skipped: 2
        }
    );
    assert_eq!(summary.to_string(), "3 passed, 4 failed, 2 skipped");
    let wanted = [
        ("passed", ""),
        ("failed", "7 seen, 8 wanted on cpu (cpu.rs:"),
        ("failed", "there is no compute queue 99"),
        (
            "failed",
            "panicked: assertion `left == right` failed: deliberately",
        ),
        ("skipped", "a thing that no machine has"),
        ("skipped", "1000 compute queues; the device has "),
        ("failed", "timed out"),
        ("passed", ""),
        ("passed", ""),
    ];
    for (outcome, (verdict, text)) in outcomes.iter().zip(wanted) {
        let (seen, why) = match &outcome.verdict {
            Verdict::Passed => ("passed", ""),
            Verdict::Failed { why } => ("failed", why.as_str()),
            Verdict::Skipped { missing } => ("skipped", missing.as_str()),
        };
        assert_eq!(seen, verdict, "{outcome}");
        assert!(why.contains(text), "{outcome}: no `{text}`");
        assert!(
            outcome.to_string().contains(outcome.name()) && outcome.to_string().contains(text),
            "{outcome}"
        );
    }
}

#[test]
fn what_does_not_come_back_is_left_behind() {
    let list = [made("made.hangs", Needs::COMPUTE, hangs)];
    let limit = Duration::from_millis(100);
    let (summary, outcomes) = run(&Runner::new("cpu").list(&list).limit(limit));
    assert_eq!((summary.failed, summary.total()), (1, 1));
    assert!(
        outcomes[0]
            .to_string()
            .contains("did not come back within 100 ms"),
        "{}",
        outcomes[0]
    );
}

#[test]
fn a_filter_takes_names_that_contain_it() {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    fn counts(_: &mut Context) -> Result<(), Failure> {
        RAN.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    let list = [
        made("made.one", Needs::COMPUTE, counts),
        made("made.two", Needs::COMPUTE, counts),
        made("other.one", Needs::COMPUTE, counts),
    ];
    for (filter, count) in [
        (None, 3),
        (Some("one"), 2),
        (Some("made."), 2),
        (Some("made.two"), 1),
        (Some("x"), 0),
    ] {
        RAN.store(0, Ordering::Relaxed);
        let (summary, outcomes) = run(&Runner::new("cpu").list(&list).filter(filter));
        assert_eq!(
            (summary.passed, outcomes.len(), RAN.load(Ordering::Relaxed)),
            (count, count, count),
            "{filter:?}"
        );
    }
}

#[test]
fn a_device_that_is_not_there_fails_in_words() {
    let list = [made("made.passes", Needs::COMPUTE, passes)];
    let (summary, outcomes) = run(&Runner::new("no-such-device").list(&list));
    assert_eq!(
        summary,
        Summary {
            passed: 0,
            failed: 1,
            skipped: 0
        }
    );
    assert!(
        outcomes[0].to_string().contains("no-such-device"),
        "{}",
        outcomes[0]
    );
}
