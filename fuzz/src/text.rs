//! What the command reads from people's files.

use std::path::Path;

use hcq_cli::{data::npy, job};

/// A job file. A refusal is a text that names the file; nothing is opened.
pub fn job_file(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    match job::parse(text, Path::new("job.toml")) {
        Ok(job) => {
            assert!(!job.tasks.is_empty(), "a job without tasks was accepted");
            true
        }
        Err(failure) => {
            let shown = failure.to_string();
            assert!(
                shown.contains("job.toml"),
                "a refusal that names no file: {shown}"
            );
            false
        }
    }
}

/// The head of a `.npy` file. What is accepted describes data that is in the file.
pub fn npy_file(data: &[u8]) -> bool {
    let len = data.len() as u64;
    match npy::parse(data, len) {
        Ok(_) => true,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}
