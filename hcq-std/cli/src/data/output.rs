//! Files that appear whole or not at all.
//!
//! Before any work begins a temporary file is made beside the target and removed again, so an unwritable path is found
//! early and a crash in between leaves nothing. At the end the contents go to a temporary file that is renamed over
//! the target; if that never happens, dropping it removes it.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::exit::Exit;
use crate::failure::{Failure, os_words};

/// A file that is to be written.
#[derive(Debug)]
pub struct Pending {
    /// As the user named it.
    shown: PathBuf,
    /// Where it really is.
    target: PathBuf,
    /// The contents under a temporary name, once they are written.
    temporary: Option<NamedTempFile>,
}

impl Pending {
    /// Reserves `path`. The directory must exist and be writable; what is there already must be a regular file
    /// with write permission. The target is not touched.
    pub fn reserve(path: &Path) -> Result<Self, Failure> {
        let target = real_path(path)?;
        match fs::metadata(&target) {
            Ok(meta) if meta.is_dir() => return Err(refusal(path, "it is a directory")),
            Ok(meta) if !meta.is_file() => return Err(refusal(path, "it is not a regular file")),
            Ok(meta) if meta.permissions().readonly() => {
                return Err(refusal(path, "it exists and is read-only"));
            }
            _ => {}
        }
        let pending = Self {
            shown: path.to_owned(),
            target,
            temporary: None,
        };
        drop(pending.temporary()?);
        Ok(pending)
    }

    /// A new temporary file beside the target.
    fn temporary(&self) -> Result<NamedTempFile, Failure> {
        let path = &self.shown;
        let (Some(directory), Some(name)) = (self.target.parent(), self.target.file_name()) else {
            return Err(refusal(path, "it does not name a file"));
        };
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(name);
        prefix.push(".hcq-");
        tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(".tmp")
            // As an ordinary new file: the process's umask takes away from it.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory)
            .map_err(|e| refusal(path, &format!("no file can be made in {}: {}", directory.display(), words(&e))))
    }

    /// The path as the user named it.
    pub fn shown(&self) -> &Path {
        &self.shown
    }

    /// The path that the file will have.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Writes the contents and forces them to the disk, still under a temporary name.
    pub fn write(
        &mut self,
        body: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let temporary = self.temporary()?;
        let mut out = BufWriter::with_capacity(1 << 18, temporary.as_file());
        body(&mut out)
            .and_then(|()| out.flush())
            .and_then(|()| temporary.as_file().sync_all())
            .map_err(|e| Failure::io("write", &self.shown, &e))?;
        drop(out);
        self.temporary = Some(temporary);
        Ok(())
    }

    /// Gives the file its name. If nothing was written, nothing appears.
    pub fn commit(self) -> Result<(), Failure> {
        let Self {
            temporary: Some(temporary),
            target,
            shown,
        } = self
        else {
            return Ok(());
        };
        temporary
            .persist(&target)
            .map_err(|e| Failure::io("rename the finished file to", &shown, &e.error))?;
        // The name itself is on the disk once the directory is; not every file system can do this.
        if let Some(dir) = target.parent().and_then(|d| File::open(d).ok()) {
            let _ = dir.sync_all();
        }
        Ok(())
    }
}

/// Where a file is, links followed, whether it exists or not: two names of one file give the same path.
fn real_path(path: &Path) -> Result<PathBuf, Failure> {
    match fs::canonicalize(path) {
        Ok(real) => return Ok(real),
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(refusal(path, &os_words(&e))),
        Err(_) => {}
    }
    let Some(name) = path.file_name() else {
        return Err(refusal(path, "it does not name a file"));
    };
    let directory = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    match fs::canonicalize(directory) {
        Ok(real) => Ok(real.join(name)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(refusal(
            path,
            &format!("the directory {} does not exist", directory.display()),
        )),
        Err(e) => Err(refusal(path, &os_words(&e))),
    }
}

fn refusal(path: &Path, why: &str) -> Failure {
    Failure::new(Exit::Io, format!("cannot write {}: {why}", path.display()))
        .help("choose a file in a directory that exists and is writable")
}

/// The crate appends the path that it tried; the reader wants the system's reason.
fn words(error: &io::Error) -> String {
    let plain = error.raw_os_error().map(io::Error::from_raw_os_error);
    match plain.or_else(|| {
        let source = error
            .get_ref()
            .and_then(|e| e.source())?
            .downcast_ref::<io::Error>()?;
        source.raw_os_error().map(io::Error::from_raw_os_error)
    }) {
        Some(e) => os_words(&e),
        None => os_words(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut all: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        all.sort();
        all
    }

    #[test]
    fn a_file_appears_at_commit_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.npy");
        let mut pending = Pending::reserve(&path).unwrap();
        assert!(
            names(dir.path()).is_empty(),
            "a crash now would leave this behind"
        );
        pending.write(|w| w.write_all(b"abc")).unwrap();
        assert!(!path.exists());
        pending.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"abc");
        assert_eq!(names(dir.path()), ["out.npy"]);
    }

    #[test]
    fn dropping_leaves_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.npy");
        fs::write(&path, b"old").unwrap();
        let mut pending = Pending::reserve(&path).unwrap();
        pending.write(|w| w.write_all(b"new")).unwrap();
        drop(pending);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(dir.path()), ["out.npy"]);
    }

    #[test]
    fn a_failed_write_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.npy");
        let mut pending = Pending::reserve(&path).unwrap();
        let failed = pending.write(|w| {
            w.write_all(b"half")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert_eq!(failed.unwrap_err().exit, Exit::Io);
        drop(pending);
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn refusals() {
        let dir = tempfile::tempdir().unwrap();
        let read_only = dir.path().join("locked.npy");
        fs::write(&read_only, b"").unwrap();
        fs::set_permissions(&read_only, Permissions::from_mode(0o444)).unwrap();
        for (path, why) in [
            (dir.path().join("no/such/out.npy"), "does not exist"),
            (dir.path().to_owned(), "is a directory"),
            (PathBuf::from("/dev/null"), "not a regular file"),
            (read_only.join("x.npy"), "ot a directory"),
            (read_only, "read-only"),
        ] {
            let said = Pending::reserve(&path).unwrap_err().to_string();
            assert!(said.contains(why), "{}: {said}", path.display());
        }
        assert_eq!(names(dir.path()), ["locked.npy"]);
    }

    #[test]
    fn two_names_of_one_file_are_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let sub = dir.path().join("sub");
        fs::create_dir(&sub).unwrap();
        let a = Pending::reserve(&dir.path().join("new.npy")).unwrap();
        let b = Pending::reserve(&sub.join("../new.npy")).unwrap();
        assert_eq!(a.target(), b.target());
        assert_ne!(a.shown(), b.shown());
    }

    #[test]
    fn a_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real.npy");
        fs::write(&real, b"old").unwrap();
        let link = dir.path().join("link.npy");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let mut pending = Pending::reserve(&link).unwrap();
        pending.write(|w| w.write_all(b"new")).unwrap();
        pending.commit().unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
