//! Compiles the C baselines. Without a C compiler the benches say so and skip what needs them.

use std::path::Path;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(have_baselines)");
    println!("cargo::rerun-if-changed=baseline");
    let built = cc::Build::new()
        .files(["baseline/patch.c", "baseline/cpuqueue.c"].map(Path::new))
        .opt_level(3)
        .flag_if_supported("-march=native")
        .flag_if_supported("-pthread")
        .warnings(true)
        .try_compile("hcq_baselines");
    match built {
        Ok(()) => println!("cargo::rustc-cfg=have_baselines"),
        Err(e) => println!("cargo::warning=C baselines are not available: {e}"),
    }
}
