//! Calls that wait: for a time stamp, for room in a context's queue, for the GPU to be done with a context.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hcq_uapi::kgsl::{kgsl_device_waittimestamp_ctxtid, kgsl_drawctxt_destroy, kgsl_gpu_command};

use super::command::Queued;
use super::fault::Kind;
use super::timestamps::passed;
use super::{Call, Kernel};
use crate::machine::{Answer, FileId};

/// `wait_for_timestamp_rb`.
const DETACH: Duration = Duration::from_secs(30);
/// `_context_queue_wait`.
const ROOM: Duration = Duration::from_secs(10);

/// What a call waits for. Contexts are named by their serial numbers.
#[derive(Debug)]
enum Wait {
    Timestamp {
        id: u32,
        serial: u64,
        timestamp: u32,
    },
    Room {
        id: u32,
        serial: u64,
        call: Call,
        args: kgsl_gpu_command,
        objects: Vec<Queued>,
    },
    End {
        id: u32,
        serial: u64,
    },
}

/// The calls that wait.
#[derive(Debug, Default)]
pub(super) struct Waits {
    waits: BTreeMap<u64, Wait>,
    next: u64,
}

impl Waits {
    fn add(&mut self, wait: Wait) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waits.insert(number, wait);
        number
    }
}

fn after(limit: Duration) -> Option<Instant> {
    Instant::now().checked_add(limit)
}

impl Kernel {
    /// `kgsl_ioctl_device_waittimestamp_ctxtid`, `adreno_drawctxt_wait`.
    pub(super) fn wait_timestamp(
        &mut self,
        file: FileId,
        args: kgsl_device_waittimestamp_ctxtid,
    ) -> Result<Answer, i32> {
        let id = args.context_id;
        let context = self.owned(file, id)?;
        let serial = context.serial;
        if context.invalid {
            return Err(libc::EDEADLK);
        }
        self.check_event(id, args.timestamp)?;
        let wait = Wait::Timestamp {
            id,
            serial,
            timestamp: args.timestamp,
        };
        if let Some(done) = self.waited(&wait) {
            return done.map(Answer::Done);
        }
        let deadline = match args.timeout {
            // `msecs_to_jiffies`: negative numbers are without end.
            0 | 0x8000_0000.. => None,
            ms => after(Duration::from_millis(ms.into())),
        };
        let wait = self.waits.add(wait);
        Ok(Answer::Wait { wait, deadline })
    }

    /// `kgsl_ioctl_drawctxt_destroy`.
    pub(super) fn destroy_context(
        &mut self,
        file: FileId,
        args: kgsl_drawctxt_destroy,
    ) -> Result<Answer, i32> {
        let id = args.drawctxt_id;
        let serial = self.owned(file, id)?.serial;
        self.detach(id);
        let wait = Wait::End { id, serial };
        if let Some(done) = self.waited(&wait) {
            return done.map(Answer::Done);
        }
        let wait = self.waits.add(wait);
        Ok(Answer::Wait {
            wait,
            deadline: after(DETACH),
        })
    }

    /// `_wait_for_room_in_context_queue`: a submission that the context has no room for yet.
    pub(super) fn wait_for_room(
        &mut self,
        id: u32,
        call: Call,
        args: kgsl_gpu_command,
        objects: Vec<Queued>,
    ) -> Answer {
        let serial = self.contexts.get(&id).map_or(0, |context| context.serial);
        let wait = self.waits.add(Wait::Room {
            id,
            serial,
            call,
            args,
            objects,
        });
        Answer::Wait {
            wait,
            deadline: after(ROOM),
        }
    }

    /// Whether a wait is over, and what its call answers.
    fn waited(&mut self, wait: &Wait) -> Option<Result<i32, i32>> {
        match *wait {
            Wait::Timestamp {
                id,
                serial,
                timestamp,
            } => {
                let retired = self.retired(id);
                let context = self.contexts.get_mut(&id);
                let Some(context) = context.filter(|context| context.serial == serial) else {
                    return Some(Err(libc::ENOENT));
                };
                if context.invalid {
                    Some(Err(libc::EDEADLK))
                } else if context.detached {
                    Some(Err(libc::ENOENT))
                } else if !passed(retired, timestamp) {
                    None
                } else if std::mem::take(&mut context.faulted) {
                    Some(Err(libc::EPROTO))
                } else {
                    Some(Ok(0))
                }
            }
            Wait::End { id, serial } => {
                let context = self.contexts.get(&id);
                let there = context.is_some_and(|context| context.serial == serial);
                (!there).then_some(Ok(0))
            }
            Wait::Room {
                id,
                serial,
                ref objects,
                ..
            } => {
                let context = self.contexts.get(&id);
                let Some(context) = context.filter(|context| context.serial == serial) else {
                    return Some(Err(libc::ENOENT));
                };
                match context.check() {
                    Err(errno) => Some(Err(errno)),
                    // `_check_context_queue`.
                    Ok(()) => super::command::has_room(context, objects.len()).then_some(Ok(0)),
                }
            }
        }
    }

    /// Asks a wait whether it is over.
    pub(super) fn resume_wait(&mut self, number: u64) -> Option<Result<i32, i32>> {
        let wait = self.waits.waits.remove(&number)?;
        match self.waited(&wait) {
            None => {
                self.waits.waits.insert(number, wait);
                None
            }
            Some(done) => Some(match (wait, done) {
                (
                    Wait::Room {
                        id,
                        call,
                        args,
                        objects,
                        ..
                    },
                    Ok(_),
                ) => self.queue_objects(id, call, args, objects),
                (Wait::Room { objects, .. }, Err(errno)) => {
                    self.release_all(&objects);
                    Err(errno)
                }
                (_, done) => done,
            }),
        }
    }

    /// A wait's time is up.
    pub(super) fn expire_wait(&mut self, number: u64) -> Result<i32, i32> {
        match self.waits.waits.remove(&number) {
            Some(Wait::End { id, serial }) => {
                let context = self.contexts.get(&id);
                if let Some(context) = context.filter(|context| context.serial == serial) {
                    let ring = context.ring;
                    self.recover(
                        ring,
                        Kind::Detached,
                        "a context that ends is not done in time",
                    );
                }
                Ok(0)
            }
            Some(Wait::Room { objects, .. }) => {
                self.release_all(&objects);
                Err(libc::ETIMEDOUT)
            }
            Some(Wait::Timestamp { .. }) | None => Err(libc::ETIMEDOUT),
        }
    }

    fn release_all(&mut self, objects: &[Queued]) {
        for queued in objects {
            self.release(queued);
        }
    }
}
