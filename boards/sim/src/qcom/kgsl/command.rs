//! Submissions: `kgsl_ioctl_gpu_command`, `kgsl_drawobj.c` and what `adreno_dispatch.c` does to queue them.

use hcq_uapi::kgsl::{
    CmdFlags, CmdbatchFlags, ContextFlags, KGSL_CMD_SYNCPOINT_TYPE_FENCE,
    KGSL_CMD_SYNCPOINT_TYPE_TIMELINE, KGSL_CMD_SYNCPOINT_TYPE_TIMESTAMP, kgsl_cmd_syncpoint_fence,
    kgsl_cmd_syncpoint_timestamp, kgsl_command_object, kgsl_command_syncpoint, kgsl_gpu_command,
};

use super::context::Context;
use super::timestamps::{compare, passed};
use super::{Call, Kernel, copy_struct};
use crate::machine::{Answer, FileId};

/// `KGSL_MAX_NUMIBS`.
const MOST_IBS: u32 = 2000;
/// `KGSL_MAX_SYNCPOINTS`.
const MOST_SYNCS: u32 = 32;
/// `_context_drawqueue_size`.
const QUEUE: usize = 50;
/// Bytes of `kgsl_cmdbatch_profiling_buffer`.
pub(super) const PROFILE_BYTES: u64 = 40;

/// What the kernel does about a command that made the GPU fail (`enum kgsl_ft_policy_bits`), most hopeful first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Policy {
    /// Nothing: the context is lost.
    pub(super) disabled: bool,
    /// Runs it again.
    pub(super) replay: bool,
    /// Leaves it out.
    pub(super) skip: bool,
    /// Gives up on a context with too many faults.
    pub(super) throttle: bool,
}

impl Policy {
    /// `_set_ft_policy`.
    fn of(flags: ContextFlags) -> Self {
        if flags.contains(ContextFlags::NO_FAULT_TOLERANCE) {
            Self {
                disabled: true,
                ..Self::default()
            }
        } else if flags.contains(ContextFlags::INVALIDATE_ON_FAULT) {
            Self {
                replay: true,
                ..Self::default()
            }
        } else {
            Self {
                disabled: false,
                replay: true,
                skip: true,
                throttle: true,
            }
        }
    }
}

/// Where the kernel writes a command's times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Profile {
    pub(super) address: u64,
    pub(super) object: u32,
}

/// `struct kgsl_drawobj_cmd`, of a command or a marker.
#[derive(Clone, Debug)]
pub(super) struct Command {
    pub(super) flags: CmdbatchFlags,
    pub(super) timestamp: u32,
    /// Command buffers: GPU address, bytes, whether only when contexts switch.
    pub(super) ibs: Vec<(u64, u64, bool)>,
    pub(super) profile: Option<Profile>,
    pub(super) policy: Policy,
    /// `fault_recovery`: it runs in spite of a fault, and its context is told.
    pub(super) recovered: bool,
    /// `CMDOBJ_SKIP`: only its time stamp.
    pub(super) skip: bool,
    /// `CMDOBJ_FORCE_PREAMBLE`.
    pub(super) preamble: bool,
    /// The fault was told of already (`KGSL_FT_SKIP_PMDUMP`).
    pub(super) told: bool,
    /// A marker: retired when its context has come to this time stamp.
    pub(super) marker: Option<u32>,
}

/// What waits in a context's queue.
#[derive(Clone, Debug)]
pub(super) enum Queued {
    Command(Command),
    /// Time stamps of contexts, by number and serial number.
    Sync(Vec<(u32, u64, u32)>),
}

/// Whether so many objects have room in a context's queue.
pub(super) fn has_room(context: &Context, count: usize) -> bool {
    context.queue.len() + count < QUEUE
}

/// `_verify_input_list`: `false` if there is nothing, an error if only a part of it is there.
fn verify_list(count: u32, address: u64, size: u32) -> Result<bool, i32> {
    match (count, address, size) {
        (0, 0, 0) => Ok(false),
        (0, _, _) | (_, 0, _) | (_, _, 0) => Err(libc::EINVAL),
        _ => Ok(true),
    }
}

/// Entries of a list. They lie as far apart as the kernel's struct is long, whatever the caller says.
fn list<T: zerocopy::FromBytes + zerocopy::IntoBytes>(
    address: u64,
    size: u32,
    count: u32,
) -> Result<Vec<T>, i32> {
    let stride = u64::try_from(size_of::<T>()).map_err(|_| libc::EFAULT)?;
    (0..u64::from(count))
        .map(|n| {
            let at = n.checked_mul(stride).and_then(|n| address.checked_add(n));
            copy_struct(at.ok_or(libc::EFAULT)?, size.into()).map_err(|_| libc::EFAULT)
        })
        .collect()
}

/// What a call submits, of `_process_command_input`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Marker,
    Sync,
    Command,
    SyncCommand,
}

fn type_of(args: &kgsl_gpu_command) -> Result<Type, i32> {
    if args.numcmds > MOST_IBS || args.numobjs > MOST_IBS || args.numsyncs > MOST_SYNCS {
        return Err(libc::EINVAL);
    }
    // The kernel looks at 32 bits of the flags here.
    Ok(if args.flags.contains(CmdbatchFlags::MARKER) {
        Type::Marker
    } else if args.flags.contains(CmdbatchFlags::SYNC) {
        Type::Sync
    } else {
        match (args.numsyncs, args.numcmds) {
            (1.., 1..) => Type::SyncCommand,
            (1.., 0) => Type::Sync,
            (0, 1..) => Type::Command,
            (0, 0) => Type::Marker,
        }
    })
}

impl Kernel {
    /// `kgsl_ioctl_gpu_command`.
    pub(super) fn gpu_command(&mut self, file: FileId, call: Call) -> Result<Answer, i32> {
        let args: kgsl_gpu_command = call.take()?;
        let kind = type_of(&args)?;
        let id = args.context_id;
        self.owned(file, id)?;
        let mut objects = Vec::new();
        if matches!(kind, Type::Sync | Type::SyncCommand) {
            objects.push(Queued::Sync(self.sync_points(id, &args)?));
        }
        if kind != Type::Sync {
            let command = self.command(&args, kind)?;
            if let Some(profile) = command.profile {
                self.hold(profile.object);
            }
            objects.push(Queued::Command(command));
        }
        match self.may_queue(id, &args, &objects) {
            Ok(true) => self
                .queue_objects(id, call, args, objects)
                .map(Answer::Done),
            Ok(false) => Ok(self.wait_for_room(id, call, args, objects)),
            Err(errno) => {
                for queued in &objects {
                    self.release(queued);
                }
                Err(errno)
            }
        }
    }

    /// `kgsl_drawobj_sync_add_synclist`.
    fn sync_points(
        &mut self,
        own: u32,
        args: &kgsl_gpu_command,
    ) -> Result<Vec<(u32, u64, u32)>, i32> {
        if !verify_list(args.numsyncs, args.synclist, args.syncsize)? {
            return Err(libc::EINVAL);
        }
        let points: Vec<kgsl_command_syncpoint> =
            list(args.synclist, args.syncsize, args.numsyncs)?;
        let mut found = Vec::new();
        for point in points {
            match point.r#type {
                KGSL_CMD_SYNCPOINT_TYPE_TIMESTAMP => {
                    let at: kgsl_cmd_syncpoint_timestamp =
                        copy_struct(point.r#priv, point.size).map_err(|_| libc::EFAULT)?;
                    let context = self.contexts.get(&at.context_id);
                    let context = context.filter(|context| !context.detached);
                    let context = context.ok_or(libc::EINVAL)?;
                    if at.context_id == own && compare(at.timestamp, context.timestamp).is_gt() {
                        return Err(libc::EINVAL);
                    }
                    let serial = context.serial;
                    self.check_event(at.context_id, at.timestamp)?;
                    found.push((at.context_id, serial, at.timestamp));
                }
                KGSL_CMD_SYNCPOINT_TYPE_FENCE => {
                    let fence: kgsl_cmd_syncpoint_fence =
                        copy_struct(point.r#priv, point.size).map_err(|_| libc::EFAULT)?;
                    let _ = fence.fd;
                    return Err(libc::EINVAL);
                }
                // No timeline was ever made.
                KGSL_CMD_SYNCPOINT_TYPE_TIMELINE => return Err(libc::ENODEV),
                _ => return Err(libc::EINVAL),
            }
        }
        Ok(found)
    }

    /// `kgsl_drawobj_cmd_create`, `kgsl_drawobj_cmd_add_cmdlist`, `kgsl_drawobj_cmd_add_memlist`. Markers have no lists: nobody
    /// looks at them.
    fn command(&mut self, args: &kgsl_gpu_command, kind: Type) -> Result<Command, i32> {
        let known = CmdbatchFlags::CTX_SWITCH
            | CmdbatchFlags::MARKER
            | CmdbatchFlags::END_OF_FRAME
            | CmdbatchFlags::PWR_CONSTRAINT
            | CmdbatchFlags::MEMLIST
            | CmdbatchFlags::PROFILING
            | CmdbatchFlags::PROFILING_KTIME
            | CmdbatchFlags::START_RECURRING
            | CmdbatchFlags::STOP_RECURRING;
        let mut command = Command {
            flags: args.flags & known,
            timestamp: 0,
            ibs: Vec::new(),
            profile: None,
            policy: Policy::default(),
            recovered: false,
            skip: false,
            preamble: false,
            told: false,
            marker: None,
        };
        if kind == Type::Marker {
            command.marker = Some(0);
            return Ok(command);
        }
        if verify_list(args.numcmds, args.cmdlist, args.cmdsize)? {
            let ibs = CmdFlags::CMDLIST_IB
                | CmdFlags::CMDLIST_CTXTSWITCH_PREAMBLE
                | CmdFlags::CMDLIST_IB_PREAMBLE;
            let objects: Vec<kgsl_command_object> = list(args.cmdlist, args.cmdsize, args.numcmds)?;
            for object in objects {
                if !object.flags.intersects(ibs) {
                    return Err(libc::EINVAL);
                }
                let preamble = object.flags.contains(CmdFlags::CMDLIST_CTXTSWITCH_PREAMBLE);
                command.ibs.push((object.gpuaddr, object.size, preamble));
            }
        }
        if verify_list(args.numobjs, args.objlist, args.objsize)? {
            let objects: Vec<kgsl_command_object> = list(args.objlist, args.objsize, args.numobjs)?;
            for object in objects {
                if !object.flags.contains(CmdFlags::OBJLIST_MEMOBJ) {
                    return Err(libc::EINVAL);
                }
                if object.flags.contains(CmdFlags::OBJLIST_PROFILE) {
                    self.add_profile(&mut command, &object);
                }
            }
        }
        Ok(command)
    }

    /// `add_profiling_buffer`: a wrong one is ignored.
    fn add_profile(&mut self, command: &mut Command, object: &kgsl_command_object) {
        if !command.flags.contains(CmdbatchFlags::PROFILING) || command.profile.is_some() {
            return;
        }
        let Some(process) = &mut self.process else {
            return;
        };
        let id = match object.id {
            0 => process.find(object.gpuaddr),
            id => Some(id),
        };
        let Some(entry) = id.and_then(|id| process.object(id)) else {
            return;
        };
        let start = match object.id {
            0 => object.gpuaddr,
            _ => entry.address.wrapping_add(object.offset),
        };
        if entry.holds(object.gpuaddr, object.size) && entry.holds(start, PROFILE_BYTES) {
            command.profile = Some(Profile {
                address: start,
                object: entry.id,
            });
        }
    }

    /// A command refers to an object.
    fn hold(&mut self, object: u32) {
        let process = self.process.as_mut();
        if let Some(object) = process.and_then(|process| process.objects.get_mut(&object)) {
            object.maps += 1;
        }
    }

    /// A queued object is done with, or dropped.
    pub(super) fn release(&mut self, queued: &Queued) {
        if let Queued::Command(Command {
            profile: Some(profile),
            ..
        }) = queued
        {
            let process = self.process.as_mut();
            let object = process.and_then(|process| process.objects.get_mut(&profile.object));
            if let Some(object) = object {
                object.maps = object.maps.saturating_sub(1);
            }
            self.put_object(profile.object);
        }
    }

    /// The first half of `adreno_dispatcher_queue_cmds`: whether there is room.
    fn may_queue(&self, id: u32, args: &kgsl_gpu_command, objects: &[Queued]) -> Result<bool, i32> {
        let context = self.contexts.get(&id).ok_or(libc::EINVAL)?;
        context.check()?;
        for queued in objects {
            if let Queued::Command(command) = queued
                && command.marker.is_none()
            {
                self.verify_ibs(command)?;
            }
        }
        if !has_room(context, objects.len()) {
            return Ok(false);
        }
        check_timestamp(context, args.timestamp, objects)?;
        Ok(true)
    }

    /// `_verify_ib`.
    fn verify_ibs(&self, command: &Command) -> Result<(), i32> {
        let process = self.process.as_ref().ok_or(libc::EBADF)?;
        for &(address, bytes, _) in &command.ibs {
            let sized = bytes != 0 && bytes >> 2 <= 0xF_FFFF;
            if !sized || !process.iommu.in_range(address, bytes) || !address.is_multiple_of(4) {
                return Err(libc::EINVAL);
            }
        }
        Ok(())
    }

    /// The second half of `adreno_dispatcher_queue_cmds`.
    pub(super) fn queue_objects(
        &mut self,
        id: u32,
        call: Call,
        mut args: kgsl_gpu_command,
        objects: Vec<Queued>,
    ) -> Result<i32, i32> {
        let user = args.timestamp;
        let context = self.contexts.get(&id).ok_or(libc::ENOENT)?;
        if let Err(errno) = check_timestamp(context, user, &objects) {
            for queued in &objects {
                self.release(queued);
            }
            return Err(errno);
        }
        for queued in objects {
            args.timestamp = match queued {
                Queued::Sync(points) => {
                    let context = self.contexts.get_mut(&id).ok_or(libc::ENOENT)?;
                    context.queue.push_back(Queued::Sync(points));
                    0
                }
                Queued::Command(command) => self.queue_command(id, command, user)?,
            };
        }
        if !self.jobs.contains(&id) {
            self.jobs.push_back(id);
        }
        self.issue();
        let context = self.contexts.get_mut(&id).ok_or(libc::ENOENT)?;
        if std::mem::take(&mut context.faulted) {
            return Err(libc::EPROTO);
        }
        call.give(&args)?;
        Ok(0)
    }

    /// `drawctxt_queue_cmdobj`, `drawctxt_queue_markerobj`.
    fn queue_command(&mut self, id: u32, mut command: Command, user: u32) -> Result<u32, i32> {
        let retired = self.retired(id);
        let context = self.contexts.get_mut(&id).ok_or(libc::ENOENT)?;
        // `get_timestamp`.
        context.timestamp = if context.flags.contains(ContextFlags::USER_GENERATED_TS) {
            user
        } else {
            context.timestamp.wrapping_add(1)
        };
        let timestamp = context.timestamp;
        command.timestamp = timestamp;
        if command.marker.is_some() {
            if context.queue.is_empty() && passed(retired, context.queued) {
                // Nothing is before it: its time has come.
                self.retire_timestamp(id, timestamp);
                return Ok(timestamp);
            }
            command.marker = Some(context.queued);
        } else {
            // Time is linear: markers before it have to go through the ring.
            for queued in &mut context.queue {
                if let Queued::Command(marker) = queued
                    && marker.marker.is_some()
                {
                    marker.skip = true;
                }
            }
        }
        context.queued = timestamp;
        command.policy = Policy::of(context.flags);
        command.preamble = context.flags.contains(ContextFlags::CTX_SWITCH)
            || command.flags.contains(CmdbatchFlags::CTX_SWITCH);
        command.skip = context.flags.contains(ContextFlags::IFH_NOP);
        context.queue.push_back(Queued::Command(command));
        Ok(timestamp)
    }
}

/// Who makes time stamps makes each later than the one before; a sync point alone has none.
fn check_timestamp(context: &Context, user: u32, objects: &[Queued]) -> Result<(), i32> {
    let own = context.flags.contains(ContextFlags::USER_GENERATED_TS);
    let alone = matches!(objects, [Queued::Sync(_)]);
    if own && !alone && compare(context.timestamp, user).is_ge() {
        return Err(libc::ERANGE);
    }
    Ok(())
}
