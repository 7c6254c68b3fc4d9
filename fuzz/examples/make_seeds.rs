//! Writes the seeds that are made and not written by hand: `cargo run --example make_seeds`, after a change of the
//! patch table's format or of a packet.

fn main() -> std::io::Result<()> {
    for (path, bytes) in hcq_fuzz::made_seeds() {
        std::fs::create_dir_all(path.parent().expect("a folder"))?;
        std::fs::write(&path, bytes)?;
        println!("{}", path.display());
    }
    Ok(())
}
