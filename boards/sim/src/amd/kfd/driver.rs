//! This kernel as the machine's driver: its nodes, and the calls that wait.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hcq_uapi::ioctl;
use hcq_uapi::kfd::{
    KFD_IOC_WAIT_RESULT_COMPLETE, KFD_IOC_WAIT_RESULT_FAIL, KFD_IOC_WAIT_RESULT_TIMEOUT,
    kfd_ioctl_wait_events_args,
};

use super::{Call, Engines, FIRST_RENDER_MINOR, Kernel, sysfs};
use crate::amd::options::Kfd;
use crate::exec::Executor;
use crate::machine::order::Turned;
use crate::machine::tree::Tree;
use crate::machine::{Answer, Driver, FileId, Ioctl, Map, View};

/// The node `/dev/kfd`; render nodes are 1 and up.
const KFD: u32 = 0;
/// The number of `AMDKFD_IOC_WAIT_EVENTS`.
const WAIT_EVENTS: u8 = 0x0C;
/// `KFD_EVENT_TIMEOUT_INFINITE`.
const NO_LIMIT: u32 = u32::MAX;

/// The GPU whose render node it is.
pub(super) fn gpu_of(node: u32) -> Option<usize> {
    usize::try_from(node.checked_sub(1)?).ok()
}

/// Calls of `AMDKFD_IOC_WAIT_EVENTS` that wait.
#[derive(Debug, Default)]
pub(super) struct Waits {
    waits: BTreeMap<u64, Wait>,
    next: u64,
}

#[derive(Debug)]
struct Wait {
    call: Call,
    args: kfd_ioctl_wait_events_args,
    /// Processes that had ended when it began.
    ended: u64,
    /// Its number among the process's waits.
    number: u32,
}

impl Kernel {
    /// `kfd_wait_on_events`, as far as it goes before it waits.
    fn begin_wait(&mut self, call: Call) -> Result<Answer, i32> {
        let mut args: kfd_ioctl_wait_events_args = call.take()?;
        let deadline = match args.timeout {
            NO_LIMIT => None,
            ms => Instant::now().checked_add(Duration::from_millis(ms.into())),
        };
        args.wait_result = KFD_IOC_WAIT_RESULT_FAIL;
        let begun = match self.events() {
            Some(events) => events.begin(args.events_ptr, args.num_events),
            None => Err(libc::EBADF),
        };
        let number = match begun {
            Ok(number) => number,
            Err(errno) => {
                call.give(&args)?;
                return Err(errno);
            }
        };
        let wait = self.waits.next;
        self.waits.next += 1;
        let ended = self.ended;
        self.waits.waits.insert(
            wait,
            Wait {
                call,
                args,
                ended,
                number,
            },
        );
        Ok(Answer::Wait { wait, deadline })
    }

    /// What a wait has come to; `None` if nothing has happened, and that is not the end of it.
    fn end_wait(&mut self, number: u64, expired: bool) -> Option<Result<i32, i32>> {
        let wait = self.waits.waits.get(&number)?;
        let (all, number_there) = (wait.args.wait_for_all != 0, wait.number);
        let same = self.ended == wait.ended;
        let result = match self.events().filter(|_| same) {
            Some(events) => events.result(number_there, all),
            None => KFD_IOC_WAIT_RESULT_FAIL,
        };
        if result == KFD_IOC_WAIT_RESULT_TIMEOUT && !expired {
            return None;
        }
        let mut wait = self.waits.waits.remove(&number)?;
        let events = self.events().filter(|_| same);
        let done = match events {
            // The process has ended meanwhile.
            None => Err(libc::EIO),
            Some(events) => {
                let copied = match result {
                    KFD_IOC_WAIT_RESULT_COMPLETE => events.copy(wait.number, wait.args.events_ptr),
                    KFD_IOC_WAIT_RESULT_FAIL => Err(libc::EIO),
                    _ => Ok(()),
                };
                events.finish(wait.number);
                copied
            }
        };
        if done.is_ok() {
            wait.args.wait_result = result;
        }
        let given = wait.call.give(&wait.args);
        Some(given.and(done).map(|()| 0))
    }
}

impl Driver for Kernel {
    fn node(&self, path: &Path) -> Option<u32> {
        let path = path.to_str()?;
        if path == "/dev/kfd" {
            return (self.options.kfd != Kfd::Missing).then_some(KFD);
        }
        let minor: u32 = path.strip_prefix("/dev/dri/renderD")?.parse().ok()?;
        let index = minor.checked_sub(FIRST_RENDER_MINOR)?;
        let there = usize::try_from(index).is_ok_and(|index| index < self.gpus.len());
        there.then_some(index + 1)
    }

    fn nodes(&self) -> Vec<PathBuf> {
        let kfd = (self.options.kfd != Kfd::Missing).then(|| "/dev/kfd".into());
        let minors = self.gpus.iter().map(super::Gpu::render_minor);
        let renders = minors.map(|minor| PathBuf::from(format!("/dev/dri/renderD{minor}")));
        kfd.into_iter().chain(renders).collect()
    }

    fn open(&mut self, node: u32, _: FileId, _: bool) -> Result<(), i32> {
        if node != KFD {
            return Ok(());
        }
        if self.options.kfd == Kfd::Denied {
            return Err(libc::EACCES);
        }
        self.opened += 1;
        self.begin();
        Ok(())
    }

    fn close(&mut self, node: u32, _: FileId) {
        if node != KFD {
            return;
        }
        self.opened = self.opened.saturating_sub(1);
        if self.opened == 0 {
            self.end();
        }
    }

    fn ioctl(&mut self, call: &mut Ioctl<'_>, request: u32, address: u64) -> Result<Answer, i32> {
        if call.node != KFD {
            // The interface of graphics is not simulated.
            return Err(libc::ENOTTY);
        }
        if ioctl::number(request) == WAIT_EVENTS {
            return self.begin_wait(Call {
                size: ioctl::size(request),
                address,
            });
        }
        self.call(call, request, address).map(Answer::Done)
    }

    fn resume(&mut self, wait: u64) -> Option<Result<i32, i32>> {
        self.end_wait(wait, false)
    }

    fn expire(&mut self, wait: u64) -> Result<i32, i32> {
        self.end_wait(wait, true).unwrap_or(Err(libc::EIO))
    }

    fn mmap(&mut self, map: &Map) -> Result<View, i32> {
        match gpu_of(map.node) {
            None => self.kfd_map(map.offset, map.bytes),
            Some(index) => self.node_map(index, map.file, map.offset, map.bytes),
        }
        .map(View::from)
    }

    fn readable(&mut self, node: u32, _: FileId) -> Result<bool, i32> {
        // `kfd_fops` has no `poll`; `drm_poll` waits for events of displays.
        Ok(node == KFD)
    }

    fn tree(&self) -> Tree {
        sysfs::tree(self)
    }

    fn turn(&mut self, executor: &mut dyn Executor) -> Turned {
        self.take_turn(executor)
    }

    fn has_queues(&self) -> bool {
        self.any_queues()
    }

    fn take_news(&mut self) -> bool {
        self.news()
    }

    fn late(&mut self, queue: Option<u32>, steps: u32) {
        self.make_late(queue, steps);
    }

    fn reports(&self) -> &[String] {
        &self.reports
    }

    fn halt(&mut self, why: &str) {
        self.stop_all(why);
    }

    fn engines(&mut self, engines: Box<Engines>) -> bool {
        self.engines = Some(engines);
        true
    }
}
