//! The program in the project's README is the one on the crate page, which is compiled and run.

/// The lines between a line `start` and the end of that block of code, without those that documentation hides.
fn block<'t>(lines: impl Iterator<Item = &'t str>, start: &str) -> Vec<&'t str> {
    let inside = lines.skip_while(|l| *l != start).skip(1);
    let shown = inside
        .take_while(|l| *l != "```")
        .filter(|l| !l.starts_with("# "));
    shown.collect()
}

#[test]
fn the_readme_has_the_program_of_the_crate_page() {
    let page = include_str!("../src/lib.rs").lines();
    let page = page.map(|l| l.strip_prefix("//! ").unwrap_or_default());
    let page = block(page, "```");
    assert!(page.len() > 20, "{page:#?}");
    assert_eq!(
        block(include_str!("../../README.md").lines(), "```rust"),
        page
    );
}
