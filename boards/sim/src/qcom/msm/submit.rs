//! Submissions: `msm_gem_submit.c`.

use hcq_uapi::msm::{
    MSM_PIPE_3D0, MSM_PIPE_ID_MASK, MSM_SUBMIT_BO_FLAGS, MSM_SUBMIT_CMD_BUF,
    MSM_SUBMIT_CMD_CTX_RESTORE_BUF, MSM_SUBMIT_CMD_IB_TARGET_BUF, MSM_SUBMIT_FLAGS, SubmitBoFlags,
    SubmitFlags, drm_msm_gem_submit, drm_msm_gem_submit_bo, drm_msm_gem_submit_cmd,
    drm_msm_gem_submit_reloc,
};
use zerocopy::{FromBytes, IntoBytes};

use super::Kernel;
use super::gpu::{Commands, Job};
use crate::machine::{FileId, user};

/// `KMALLOC_MAX_SIZE`: a submission is one allocation, with so many bytes for each entry of its lists.
const MOST_BYTES: u64 = 4 << 20;
const OBJECT_BYTES: u64 = 40;
const COMMAND_BYTES: u64 = 48;
/// Fences' numbers go from 1 to one less (`idr_alloc_cyclic`).
const FENCES: u32 = i32::MAX.cast_unsigned();

/// Entry `n` of the caller's list.
fn entry<T: FromBytes + IntoBytes>(list: u64, n: u32) -> Result<T, i32> {
    let bytes = u64::try_from(size_of::<T>()).map_err(|_| libc::EFAULT)?;
    let at = bytes
        .checked_mul(n.into())
        .and_then(|offset| list.checked_add(offset));
    user::get(at.ok_or(libc::EFAULT)?)
}

/// Entries of a list that are read at once.
const AT_ONCE: u32 = 128;

/// Looks at the entries of the caller's list in order, up to the first that cannot be read, or that `each` refuses.
fn entries<T: FromBytes + IntoBytes + Copy>(
    list: u64,
    count: u32,
    mut each: impl FnMut(T) -> Result<(), i32>,
) -> Result<(), i32> {
    let mut n = 0;
    while n < count {
        let now = (count - n).min(AT_ONCE);
        let mut part = vec![T::new_zeroed(); usize::try_from(now).unwrap_or(0)];
        let bytes = u64::try_from(size_of::<T>()).map_err(|_| libc::EFAULT)?;
        let start = bytes
            .checked_mul(n.into())
            .and_then(|offset| list.checked_add(offset));
        let whole = start
            .is_some_and(|start| user::read(start, part.as_mut_slice().as_mut_bytes()).is_ok());
        for (at, known) in (n..).zip(part) {
            each(if whole { known } else { entry(list, at)? })?;
        }
        n += now;
    }
    Ok(())
}

impl Kernel {
    /// `msm_ioctl_gem_submit`.
    pub(super) fn submit(
        &mut self,
        file: FileId,
        args: &mut drm_msm_gem_submit,
    ) -> Result<(), i32> {
        if !self.has_gpu() {
            return Err(libc::ENXIO);
        }
        if args.pad != 0 {
            return Err(libc::EINVAL);
        }
        let bits = args.flags.bits();
        if bits & MSM_PIPE_ID_MASK != MSM_PIPE_3D0 {
            return Err(libc::EINVAL);
        }
        if bits & !MSM_PIPE_ID_MASK & !MSM_SUBMIT_FLAGS != 0 {
            return Err(libc::EINVAL);
        }
        if args.flags.contains(SubmitFlags::SUDO) {
            return Err(libc::EINVAL);
        }
        let queue = self.file(file)?.queue(args.queueid).ok_or(libc::ENOENT)?;
        let priority = queue.priority;
        if args.flags.contains(SubmitFlags::FENCE_FD_OUT) {
            return Err(libc::EMFILE);
        }
        // `submit_create`.
        let objects = u64::from(args.nr_bos) * OBJECT_BYTES;
        if objects + u64::from(args.nr_cmds) * COMMAND_BYTES > MOST_BYTES {
            return Err(libc::ENOMEM);
        }
        if args.flags.contains(SubmitFlags::FENCE_FD_IN) {
            return Err(libc::EINVAL);
        }
        for (flag, count) in [
            (SubmitFlags::SYNCOBJ_IN, args.nr_in_syncobjs),
            (SubmitFlags::SYNCOBJ_OUT, args.nr_out_syncobjs),
        ] {
            if args.flags.contains(flag) && count > 0 {
                return Err(libc::EINVAL);
            }
        }
        let objects = self.submitted_objects(file, args)?;
        let commands = submitted_commands(args)?;
        self.pin_objects(&objects)?;
        let mut ibs = Vec::with_capacity(commands.len());
        for command in &commands {
            ibs.push(self.checked_command(&objects, command)?);
        }
        let fence = self.fence(file, args)?;
        let job = Job {
            file,
            queue: args.queueid,
            priority,
            fence,
            ibs,
            objects,
        };
        for &(id, writes) in &job.objects {
            if let Some(object) = self.objects.get_mut(&id) {
                object.users += 1;
                object.writers += u32::from(writes);
            }
        }
        if self.pending.is_empty() && self.ring.is_empty() {
            self.hang.reset();
        }
        self.pending.push(job);
        args.fence = fence;
        Ok(())
    }

    /// `submit_lookup_objects`: objects, and whether they are written.
    fn submitted_objects(
        &mut self,
        file: FileId,
        args: &drm_msm_gem_submit,
    ) -> Result<Vec<(u64, bool)>, i32> {
        let mut used = Vec::new();
        entries(args.bos, args.nr_bos, |entry: drm_msm_gem_submit_bo| {
            let unknown = entry.flags.bits() & !MSM_SUBMIT_BO_FLAGS != 0;
            let how = SubmitBoFlags::READ | SubmitBoFlags::WRITE;
            if unknown || !entry.flags.intersects(how) {
                return Err(libc::EINVAL);
            }
            used.push(entry);
            Ok(())
        })?;
        let file = self.file(file)?;
        let mut objects: Vec<(u64, bool)> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for entry in used {
            let id = file.object(entry.handle).ok_or(libc::EINVAL)?;
            if !seen.insert(id) {
                return Err(libc::EINVAL);
            }
            objects.push((id, entry.flags.contains(SubmitBoFlags::WRITE)));
        }
        Ok(objects)
    }

    /// `submit_pin_objects`.
    fn pin_objects(&mut self, objects: &[(u64, bool)]) -> Result<(), i32> {
        for &(id, _) in objects {
            self.address(id, &(0..u64::MAX))?;
            if self.objects.get(&id).is_some_and(|object| object.unneeded) {
                return Err(libc::EBUSY);
            }
            self.map_object(id);
        }
        Ok(())
    }

    /// The loop over commands in `msm_ioctl_gem_submit`.
    fn checked_command(
        &self,
        objects: &[(u64, bool)],
        command: &drm_msm_gem_submit_cmd,
    ) -> Result<Commands, i32> {
        let index = usize::try_from(command.submit_idx).map_err(|_| libc::EINVAL)?;
        let (id, _) = objects.get(index).ok_or(libc::EINVAL)?;
        let object = self.objects.get(id).ok_or(libc::EINVAL)?;
        let (words, offset) = (command.size / 4, command.submit_offset / 4);
        let room = object.memory.bytes() / 4;
        if words == 0 || u64::from(words) + u64::from(offset) > room {
            return Err(libc::EINVAL);
        }
        // `allow_relocs`: not from A5xx on.
        if command.nr_relocs != 0 {
            return Err(libc::EINVAL);
        }
        Ok(Commands {
            kind: command.r#type,
            address: object.address.unwrap_or(0) + u64::from(offset) * 4,
            bytes: u64::from(words) * 4,
        })
    }

    /// The number of a submission's fence.
    fn fence(&mut self, file: FileId, args: &drm_msm_gem_submit) -> Result<u32, i32> {
        let mut jobs = self.pending.iter().chain(&self.ring);
        let taken: Vec<u32> = jobs
            .by_ref()
            .filter(|job| job.file == file && job.queue == args.queueid)
            .map(|job| job.fence)
            .collect();
        let own = args.flags.contains(SubmitFlags::FENCE_SN_IN);
        if own && (args.fence == 0 || taken.contains(&args.fence)) {
            return Err(libc::EINVAL);
        }
        let queue = self.file(file)?.queue(args.queueid).ok_or(libc::ENOENT)?;
        let fence = if own {
            args.fence
        } else {
            let ids = (queue.next_fence..FENCES).chain(1..queue.next_fence);
            let mut free = ids.filter(|id| !taken.contains(id));
            let fence = free.next().ok_or(libc::ENOSPC)?;
            queue.next_fence = if fence + 1 < FENCES { fence + 1 } else { 1 };
            fence
        };
        queue.last_fence = fence;
        Ok(fence)
    }

    /// `msm_submit_retire`: a submission is done with, or dropped.
    pub(super) fn release(&mut self, job: &Job) {
        for &(id, writes) in &job.objects {
            if let Some(object) = self.objects.get_mut(&id) {
                object.users = object.users.saturating_sub(1);
                object.writers = object.writers.saturating_sub(u32::from(writes));
            }
            self.put_object(id);
        }
        self.end_queue(job.file, job.queue);
        self.end_file(job.file);
        self.news = true;
    }
}

/// `submit_lookup_cmds`.
fn submitted_commands(args: &drm_msm_gem_submit) -> Result<Vec<drm_msm_gem_submit_cmd>, i32> {
    let mut commands = Vec::new();
    entries(
        args.cmds,
        args.nr_cmds,
        |command: drm_msm_gem_submit_cmd| {
            let kinds = [
                MSM_SUBMIT_CMD_BUF,
                MSM_SUBMIT_CMD_IB_TARGET_BUF,
                MSM_SUBMIT_CMD_CTX_RESTORE_BUF,
            ];
            if !kinds.contains(&command.r#type) || !command.size.is_multiple_of(4) {
                return Err(libc::EINVAL);
            }
            let bytes = u64::try_from(size_of::<drm_msm_gem_submit_reloc>()).unwrap_or(0);
            if u64::from(command.nr_relocs) * bytes > MOST_BYTES {
                return Err(libc::ENOMEM);
            }
            entries(
                command.relocs,
                command.nr_relocs,
                |_: drm_msm_gem_submit_reloc| Ok(()),
            )?;
            commands.push(command);
            Ok(())
        },
    )?;
    Ok(commands)
}
