//! Writes the seeds that are made and not written by hand: `cargo run --example make_seeds`, after a change of the
//! patch table's format.

use std::{fs, path::PathBuf};

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("seeds/patch_table");
    fs::create_dir_all(&folder)?;
    for (name, bytes) in hcq_fuzz::sound_tables() {
        fs::write(folder.join(name), bytes)?;
        println!("{}", folder.join(name).display());
    }
    Ok(())
}
