//! Buffers on the device: filled before the first launch, and brought back to that state before each other one.

use std::collections::HashSet;

use hcq_std::{Bound, Buffer, Device, MappedFile};

use super::context::{Context, device_failure};
use super::outputs::{CHUNK, vec_of};
use crate::data::fill::Fill;
use crate::data::input::{Input, Origin};
use crate::failure::{Failure, Place, Result};
use crate::launch::{Checked, Ready};
use crate::plan::Mode;

/// Bytes of a file copied at a time: reading them from a slow disk must not look like a device that hangs.
const PIECE: usize = 64 << 20;

/// The buffers of a job.
pub(super) struct Buffers {
    /// By the job's index.
    pub(super) list: Vec<Buffer<u8>>,
    /// How many were filled with something other than zeros.
    pub(super) loaded: usize,
    /// Their bytes.
    pub(super) loaded_bytes: u64,
    pristine: Vec<(usize, Pristine)>,
}

/// The initial contents of a buffer that launches change.
enum Pristine {
    /// From this byte of a file on.
    File(MappedFile, usize),
    Copy(Buffer<u8>),
}

/// Copies that bring all changed buffers back to their initial contents.
pub(super) struct Restore(Vec<Bound>);

impl Restore {
    pub(super) fn run(&mut self, context: &Context<'_>) -> Result<()> {
        for bound in &mut self.0 {
            let point = bound.submit().map_err(|e| device_failure(&e))?;
            context.wait(&point)?;
        }
        Ok(())
    }
}

impl Buffers {
    /// Allocates all buffers and fills them. With `repeat`, also keeps the initial contents of those that launches
    /// change.
    pub(super) fn load(context: &Context<'_>, checked: &[Checked], repeat: bool) -> Result<Self> {
        let changed = if repeat {
            changed(context.inputs, checked)
        } else {
            HashSet::new()
        };
        let mut this = Self {
            list: Vec::new(),
            loaded: 0,
            loaded_bytes: 0,
            pristine: Vec::new(),
        };
        for (index, (input, declared)) in
            context.inputs.iter().zip(&context.job.buffers).enumerate()
        {
            context.interrupt.check()?;
            let place = context.job.place(&declared.at);
            let device = context.device_of_buffer(index);
            let buffer = allocate(device, input.bytes, &place)?;
            let mapped = match &input.origin {
                Origin::Fill(fill) => {
                    made(context, input, *fill, &buffer).map_err(|f| f.at(&place))?;
                    None
                }
                Origin::File { path, offset } => {
                    let file = device
                        .map_file(path)
                        .map_err(|e| device_failure(&e).at(place.clone()))?;
                    let offset = from_file((context, device), input, &file, *offset, &buffer)
                        .map_err(|f| f.at(&place))?;
                    Some((file, offset))
                }
            };
            if !matches!(input.origin, Origin::Fill(fill) if fill.is_zero()) {
                this.loaded += 1;
                this.loaded_bytes += input.bytes;
            }
            if changed.contains(&index) {
                let pristine = match mapped {
                    Some((file, offset)) => Pristine::File(file, offset),
                    None => {
                        let copy = allocate(device, input.bytes, &place)?;
                        let Origin::Fill(fill) = input.origin else {
                            continue;
                        };
                        made(context, input, fill, &copy).map_err(|f| f.at(&place))?;
                        Pristine::Copy(copy)
                    }
                };
                this.pristine.push((index, pristine));
            }
            this.list.push(buffer);
        }
        Ok(this)
    }

    /// Copies that bring the buffers back to their initial contents; `None` if no launch changes any.
    pub(super) fn restore(&self, context: &Context<'_>) -> Result<Option<Restore>> {
        if self.pristine.is_empty() {
            return Ok(None);
        }
        let record = |device: &Device| {
            let mut commands = device.copy_queue(0)?.record();
            for (index, pristine) in &self.pristine {
                let Some(buffer) = self.list.get(*index) else {
                    continue;
                };
                if !std::ptr::eq(context.device_of_buffer(*index), device) {
                    continue;
                }
                match pristine {
                    Pristine::File(file, offset) => {
                        commands.copy(buffer, file.range(*offset..)?)?
                    }
                    Pristine::Copy(copy) => commands.copy(buffer, copy)?,
                };
            }
            match commands.is_empty() {
                true => Ok(None),
                false => commands.bind().map(Some),
            }
        };
        let mut all = Vec::new();
        for device in context.devices {
            all.extend(record(device).map_err(|e| device_failure(&e))?);
        }
        Ok(Some(Restore(all)))
    }
}

/// Buffers whose contents differ after a launch in a way that the next launch could see: some task writes them, and
/// the first task to touch them does not replace them as a whole.
fn changed(inputs: &[Input], checked: &[Checked]) -> HashSet<usize> {
    let mut touched = HashSet::new();
    let mut replaced = HashSet::new();
    let mut written = HashSet::new();
    for task in checked {
        for access in &task.plan.accesses {
            let whole = inputs
                .get(access.buffer)
                .is_some_and(|i| access.range == (0..i.bytes));
            let is_copy = matches!(task.ready, Ready::Copy { .. });
            if touched.insert(access.buffer) && is_copy && whole && access.mode == Mode::Write {
                replaced.insert(access.buffer);
            }
            if access.mode == Mode::Write {
                written.insert(access.buffer);
            }
        }
    }
    written.difference(&replaced).copied().collect()
}

fn allocate(device: &Device, bytes: u64, place: &Place) -> Result<Buffer<u8>> {
    let len = usize::try_from(bytes).map_err(|_| {
        Failure::usage("the buffer is larger than memory can hold").at(place.clone())
    })?;
    device
        .alloc::<u8>(len)
        .map_err(|e| device_failure(&e).at(place.clone()).into())
}

/// Makes up the contents, a piece at a time.
fn made(context: &Context<'_>, input: &Input, fill: Fill, buffer: &Buffer<u8>) -> Result<()> {
    if fill.is_zero() {
        return Ok(());
    }
    let mut piece = vec_of(input.bytes.min(CHUNK as u64))?;
    let mut at = 0;
    while at < buffer.len() {
        context.interrupt.check()?;
        let len = piece.len().min(buffer.len() - at);
        let Some(piece) = piece.get_mut(..len) else {
            break;
        };
        fill.write(input.dtype, at as u64 / input.dtype.size(), piece);
        let view = buffer.view(at..at + len).map_err(|e| device_failure(&e))?;
        view.write(piece).map_err(|e| device_failure(&e))?;
        at += len;
    }
    Ok(())
}

/// Copies the data of a file into the buffer, on a copy queue, straight out of the mapped file. Gives back where it
/// starts.
fn from_file(
    (context, device): (&Context<'_>, &Device),
    input: &Input,
    file: &MappedFile,
    offset: u64,
    buffer: &Buffer<u8>,
) -> Result<usize> {
    if file.size_bytes() as u64 != offset + input.bytes {
        return Err(Failure::usage("the file's length has changed since it was opened").into());
    }
    let offset = usize::try_from(offset)
        .map_err(|_| Failure::usage("the file is larger than memory can hold"))?;
    let copied = |start: usize| {
        let end = buffer.len().min(start + PIECE);
        let mut commands = device.copy_queue(0)?.record();
        commands
            .copy(
                &buffer.view(start..end)?,
                file.range(offset + start..offset + end)?,
            )?
            .submit()
    };
    for start in (0..buffer.len()).step_by(PIECE) {
        let point = copied(start).map_err(|e| device_failure(&e))?;
        context.wait(&point)?;
    }
    Ok(offset)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::data::input::open_all;
    use crate::job::parse;
    use crate::launch::check;

    #[test]
    fn what_a_launch_changes() {
        let text = r#"
[programs.p]
path = "p.c"
[buffers.read]
dtype = "f32"
shape = [8]
[buffers.both]
dtype = "f32"
shape = [8]
[buffers.whole]
dtype = "f32"
shape = [8]
[buffers.part]
dtype = "f32"
shape = [8]
[buffers.late]
dtype = "f32"
shape = [8]
[[tasks]]
copy = { from = "read", to = "whole" }
[[tasks]]
copy = { from = { buffer = "read", len = 4 }, to = { buffer = "part", len = 4 } }
[[tasks]]
program = "p"
kernel = "k"
groups = [1]
args = ["read", "both", "whole", "late"]
reads = ["read", "late"]
[[tasks]]
copy = { from = "read", to = "late" }
"#;
        let job = parse(text, Path::new("job.toml")).unwrap();
        let inputs = open_all(&job).unwrap();
        let device = hcq_std::Device::open("cpu").unwrap();
        let checked: Vec<_> = (0..4)
            .map(|i| check(&job, i, &inputs, None, &device).unwrap())
            .collect();
        let mut names: Vec<_> = changed(&inputs, &checked)
            .into_iter()
            .map(|i| job.buffers[i].name.as_str())
            .collect();
        names.sort();
        assert_eq!(names, ["both", "late", "part"]);
    }
}
