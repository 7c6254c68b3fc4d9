//! Things that go wrong at a chosen moment.

use std::path::{Path, PathBuf};

/// What a call is, for [`Script::Fail`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// `open` of this path.
    Open(PathBuf),
    /// An `ioctl` with this number (`_IOC_NR`): of `/dev/kfd`, 0x02 is `CREATE_QUEUE`.
    Ioctl(u8),
    /// An `ioctl` with this whole request, for those that are no `_IOC` numbers.
    Request(u32),
    /// A command inside of an `ioctl` that serves many purposes: the control command or the class of an object that an `ioctl`
    /// of NVIDIA's resource manager names.
    Command(u32),
    /// `mmap` of a file.
    Mmap,
    /// A read or listing of this sysfs path, or of what is below it.
    Read(PathBuf),
}

/// Something that goes wrong at a chosen moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Script {
    /// Calls fail with an error number and do nothing.
    Fail {
        /// Which call.
        call: Call,
        /// The first of these calls to fail, counted from now on; 1 is the next.
        nth: u32,
        /// How many fail in a row; `u32::MAX`: all from then on.
        times: u32,
        /// The error number, positive.
        errno: i32,
    },
    /// A queue is not stepped for a number of its turns, whatever its doorbell says. The ring is not lost.
    Late {
        /// The queue's number, as the kernel gave it; `None`: every queue, and queues yet to be created.
        queue: Option<u32>,
        /// Turns.
        steps: u32,
    },
    /// A path in sysfs is gone, with all below it.
    Vanish {
        /// The path.
        path: PathBuf,
    },
}

#[derive(Debug)]
struct Failure {
    call: Call,
    /// Calls that still succeed.
    before: u32,
    times: u32,
    errno: i32,
}

/// What is yet to go wrong.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    failures: Vec<Failure>,
    vanished: Vec<PathBuf>,
}

impl Scripts {
    pub(crate) fn fail(&mut self, call: Call, nth: u32, times: u32, errno: i32) {
        self.failures.push(Failure {
            call,
            before: nth.saturating_sub(1),
            times,
            errno,
        });
    }

    pub(crate) fn vanish(&mut self, path: PathBuf) {
        self.vanished.push(path);
    }

    /// A call is made: every script that it is for counts it, and the first whose turn it is makes it fail.
    fn count(&mut self, is: impl Fn(&Call) -> bool) -> Result<(), i32> {
        let mut result = Ok(());
        for failure in self.failures.iter_mut().filter(|failure| is(&failure.call)) {
            if failure.before > 0 {
                failure.before -= 1;
            } else if failure.times > 0 {
                if failure.times != u32::MAX {
                    failure.times -= 1;
                }
                result = result.and(Err(failure.errno));
            }
        }
        self.failures.retain(|failure| failure.times > 0);
        result
    }

    pub(crate) fn open(&mut self, path: &Path) -> Result<(), i32> {
        self.count(|call| matches!(call, Call::Open(this) if this == path))
    }

    pub(crate) fn ioctl(&mut self, number: u8, request: u32) -> Result<(), i32> {
        self.count(|call| *call == Call::Ioctl(number) || *call == Call::Request(request))
    }

    pub(crate) fn command(&mut self, command: u32) -> Result<(), i32> {
        self.count(|call| *call == Call::Command(command))
    }

    pub(crate) fn mmap(&mut self) -> Result<(), i32> {
        self.count(|call| *call == Call::Mmap)
    }

    /// A path in sysfs is looked at.
    pub(crate) fn read(&mut self, path: &Path) -> Result<(), i32> {
        if self.vanished.iter().any(|gone| path.starts_with(gone)) {
            return Err(libc::ENOENT);
        }
        self.count(|call| matches!(call, Call::Read(this) if path.starts_with(this)))
    }

    /// Names of a directory without those that are gone.
    pub(crate) fn keep(&self, directory: &Path, names: &mut Vec<String>) {
        names.retain(|name| !self.vanished.contains(&directory.join(name)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_call_fails_and_as_many_as_asked_for() {
        let mut scripts = Scripts::default();
        scripts.fail(Call::Ioctl(2), 3, 2, libc::ENOMEM);
        scripts.fail(Call::Mmap, 1, u32::MAX, libc::EPERM);
        let results: Vec<_> = (0..6).map(|_| scripts.ioctl(2, 0x102)).collect();
        let failed = Err(libc::ENOMEM);
        assert_eq!(results, [Ok(()), Ok(()), failed, failed, Ok(()), Ok(())]);
        assert_eq!(scripts.ioctl(3, 0x103), Ok(()));
        scripts.fail(Call::Request(0x3000_0001), 1, 1, libc::EIO);
        scripts.fail(Call::Command(0x104), 1, 1, libc::EAGAIN);
        assert_eq!(scripts.ioctl(1, 0x1), Ok(()));
        assert_eq!(scripts.ioctl(1, 0x3000_0001), Err(libc::EIO));
        assert_eq!(scripts.command(0x103), Ok(()));
        assert_eq!(scripts.command(0x104), Err(libc::EAGAIN));
        for _ in 0..9 {
            assert_eq!(scripts.mmap(), Err(libc::EPERM));
        }
    }

    #[test]
    fn paths_vanish_with_all_below() {
        let mut scripts = Scripts::default();
        scripts.vanish("/sys/a/1".into());
        scripts.fail(Call::Read("/sys/b".into()), 1, 1, libc::EPERM);
        assert_eq!(scripts.read(Path::new("/sys/a/1/x")), Err(libc::ENOENT));
        assert_eq!(scripts.read(Path::new("/sys/a/10")), Ok(()));
        assert_eq!(scripts.read(Path::new("/sys/b/c")), Err(libc::EPERM));
        assert_eq!(scripts.read(Path::new("/sys/b/c")), Ok(()));
        let mut names = vec!["1".to_owned(), "10".to_owned()];
        scripts.keep(Path::new("/sys/a"), &mut names);
        assert_eq!(names, ["10"]);
    }
}
