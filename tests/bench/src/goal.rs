//! Lines of the form `P1 N=1000 shared 1.08 goal 1.30 ok`.

use std::sync::atomic::{AtomicU32, Ordering};

static MISSED: AtomicU32 = AtomicU32::new(0);

/// Prints a figure that should be at most `goal`.
pub fn at_most(what: &str, figure: f64, goal: f64) {
    line(what, figure, goal, figure <= goal);
}

/// Prints a figure that should be at least `goal`.
pub fn at_least(what: &str, figure: f64, goal: f64) {
    line(what, figure, goal, figure >= goal);
}

fn line(what: &str, figure: f64, goal: f64, ok: bool) {
    if !ok {
        MISSED.fetch_add(1, Ordering::Relaxed);
    }
    let digits = if figure.abs() >= 100.0 { 0 } else { 2 };
    println!(
        "{what} {figure:.digits$} goal {goal:.2} {}",
        if ok { "ok" } else { "missed" }
    );
}

/// Prints that a figure could not be had.
pub fn skipped(what: &str, why: &str) {
    println!("{what} skipped: {why}");
}

/// Prints a figure that has no goal.
pub fn note(what: &str, text: &str) {
    println!("   {what}: {text}");
}

/// Figures that missed their goals so far.
pub fn missed() -> u32 {
    MISSED.load(Ordering::Relaxed)
}
