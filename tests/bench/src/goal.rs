//! Lines of the form `P1 N=1000 shared 1.08 goal 1.30 ok`.

/// What is asked for, and how it went.
#[derive(Debug, Default)]
pub struct Goals {
    filters: Vec<String>,
    ok: u32,
    missed: u32,
    skipped: u32,
}

impl Goals {
    /// Only lines whose names contain one of the filters; all of them without any.
    pub fn new(filters: impl IntoIterator<Item = String>) -> Self {
        Self {
            filters: filters.into_iter().collect(),
            ..Self::default()
        }
    }

    /// The filters of the command line: what is no option.
    pub fn from_args() -> Self {
        Self::new(std::env::args().skip(1).filter(|a| !a.starts_with('-')))
    }

    /// Whether the line of this name is asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|f| name.contains(f.as_str()))
    }

    /// Prints a figure that should be at most `goal`. Judged is the figure as printed.
    pub fn at_most(&mut self, name: &str, figure: f64, goal: f64) {
        let figure = rounded(figure);
        self.figure(name, figure, goal, figure <= goal);
    }

    /// Prints a figure that should be at least `goal`.
    pub fn at_least(&mut self, name: &str, figure: f64, goal: f64) {
        let figure = rounded(figure);
        self.figure(name, figure, goal, figure >= goal);
    }

    fn figure(&mut self, name: &str, figure: f64, goal: f64, ok: bool) {
        if !self.wants(name) {
            return;
        }
        *(if ok { &mut self.ok } else { &mut self.missed }) += 1;
        println!("{}", line(name, figure, goal, ok));
    }

    /// Prints that a figure could not be had.
    pub fn skipped(&mut self, name: &str, why: &str) {
        if self.wants(name) {
            self.skipped += 1;
            println!("{name} skipped: {why}");
        }
    }

    /// Prints what stands behind the line of this name.
    pub fn note(&self, name: &str, text: &str) {
        if self.wants(name) {
            println!("    {text}");
        }
    }

    /// The last line.
    pub fn summary(&self) -> String {
        let (ok, missed, skipped) = (self.ok, self.missed, self.skipped);
        let figures = ok + missed;
        if figures + skipped == 0 {
            return format!("no figure has a name with {}", self.filters.join(" or "));
        }
        format!("{figures} figures: {ok} ok, {missed} missed, {skipped} skipped")
    }
}

/// Large figures have no digits behind the point, others two.
fn digits(figure: f64) -> usize {
    if figure.abs() >= 100.0 { 0 } else { 2 }
}

fn rounded(figure: f64) -> f64 {
    let unit = if digits(figure) == 0 { 1.0 } else { 100.0 };
    (figure * unit).round() / unit
}

fn line(name: &str, figure: f64, goal: f64, ok: bool) -> String {
    let digits = digits(figure);
    let verdict = if ok { "ok" } else { "missed" };
    format!("{name} {figure:.digits$} goal {goal:.2} {verdict}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_as_documented() {
        assert_eq!(
            line("P1 N=1000 shared", 1.084, 1.3, true),
            "P1 N=1000 shared 1.08 goal 1.30 ok"
        );
        assert_eq!(line("x", 212.4, 100.0, false), "x 212 goal 100.00 missed");
    }

    #[test]
    fn the_figure_as_printed_is_judged() {
        let mut goals = Goals::new([]);
        goals.at_most("a", 1.5004, 1.5);
        goals.at_most("b", 1.506, 1.5);
        goals.at_least("c", 9.996, 10.0);
        goals.at_least("d", 99.4, 100.0);
        assert_eq!(goals.summary(), "4 figures: 2 ok, 2 missed, 0 skipped");
    }

    #[test]
    fn what_is_not_asked_for_is_not_counted() {
        let mut goals = Goals::new(["P6".to_owned(), "copy".to_owned()]);
        assert!(goals.wants("P6 1000") && goals.wants("copy of") && !goals.wants("P1"));
        goals.at_most("P6 a", 1.0, 1.0);
        goals.at_least("P6 b", f64::NAN, 1.0);
        goals.at_most("P1 c", 1.0, 2.0);
        goals.skipped("copy", "none");
        goals.skipped("P3", "none");
        assert_eq!(goals.summary(), "2 figures: 1 ok, 1 missed, 1 skipped");
    }

    #[test]
    fn a_filter_that_fits_nothing_is_told() {
        let goals = Goals::new(["P66".to_owned()]);
        assert_eq!(goals.summary(), "no figure has a name with P66");
        assert!(Goals::new([]).wants("anything"));
    }
}
