//! Arguments held against signatures, views against buffers: what a task touches, in bytes.

use std::ops::Range;

use hcq_std::{Device, Error, Image2d, ImageParam, Sampler, Sampling};

use crate::data::dtype::{Dtype, Number, Scalar};
use crate::data::input::Input;
use crate::failure::{At, Failure, Failures, Result};
use crate::job::{Argument, ImageDecl, Job, Launch, Transfer, ViewDecl, Work};
use crate::plan::{Access, Engine, Mode, PlanTask};

/// One parameter of a kernel, from its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Type of the number or of the buffer's elements; `None` for a buffer of anything (`void *`).
    pub dtype: Option<Dtype>,
    /// Buffer or number.
    pub kind: ParameterKind,
}

/// What a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// A number.
    Scalar,
    /// A buffer that the kernel only reads.
    Input,
    /// A buffer that the kernel may write.
    Buffer,
    /// An image or a sampler.
    Image(ImageParam),
}

/// Bytes of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Index of the buffer.
    pub buffer: usize,
    /// Bytes of it; never empty, never past its end.
    pub range: Range<u64>,
}

impl Slice {
    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// An argument as it goes to the device.
#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
    /// The address of these bytes.
    Buffer(Slice),
    /// A number.
    Scalar(Scalar),
    /// An image in these bytes.
    Image(Slice, Image2d),
    /// A sampler.
    Sampler(Sampler),
}

impl Bound {
    /// The bytes that it is, or is in.
    pub fn slice(&self) -> Option<&Slice> {
        match self {
            Self::Buffer(slice) | Self::Image(slice, _) => Some(slice),
            Self::Scalar(_) | Self::Sampler(_) => None,
        }
    }
}

/// A task with everything settled but its place.
#[derive(Debug, Clone, PartialEq)]
pub enum Ready {
    /// A kernel and its arguments.
    Kernel(Vec<Bound>),
    /// A copy of equally many bytes.
    Copy {
        /// Read.
        from: Slice,
        /// Written.
        to: Slice,
    },
}

/// A task for the planner and what it moves.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// What the device gets.
    pub ready: Ready,
    /// What the planner gets.
    pub plan: PlanTask,
    /// Bytes that a kernel reads plus those that it writes, or bytes copied.
    pub bytes: u64,
}

/// Checks the task `index` of `job`. `signature` is that of its kernel, `None` if it has none; `device` the one that runs it.
pub fn check(
    job: &Job,
    index: usize,
    inputs: &[Input],
    signature: Option<&[Parameter]>,
    device: &Device,
) -> Result<Checked> {
    let Some(task) = job.tasks.get(index) else {
        return Err(Failure::usage(format!("there is no task {index}")).into());
    };
    match &task.work {
        Work::Copy(transfer) => check_copy(job, &task.at, inputs, transfer),
        Work::Kernel(launch) => check_launch(job, inputs, launch, signature, device),
    }
}

fn check_copy(job: &Job, at: &At, inputs: &[Input], transfer: &Transfer) -> Result<Checked> {
    let (from, to) = (
        slice(job, inputs, &transfer.from)?,
        slice(job, inputs, &transfer.to)?,
    );
    let place = || job.place(at);
    let bytes = from.bytes();
    if bytes != to.bytes() {
        let what = format!(
            "the copy is of {bytes} bytes into {} bytes; both sides must be equal",
            to.bytes()
        );
        return Err(Failure::usage(what)
            .at(place())
            .help("give offset and len, in elements")
            .into());
    }
    if from.buffer == to.buffer
        && from.range.start < to.range.end
        && to.range.start < from.range.end
    {
        let what = format!(
            "bytes {}..{} and {}..{} of the same buffer overlap; a copy needs two places",
            from.range.start, from.range.end, to.range.start, to.range.end
        );
        return Err(Failure::usage(what).at(place()).into());
    }
    let access = |s: &Slice, mode| Access {
        buffer: s.buffer,
        range: s.range.clone(),
        mode,
    };
    let accesses = vec![access(&from, Mode::Read), access(&to, Mode::Write)];
    let plan = PlanTask {
        engine: Engine::Copy,
        queue: None,
        accesses,
        cost: bytes,
    };
    Ok(Checked {
        ready: Ready::Copy { from, to },
        plan,
        bytes,
    })
}

fn check_launch(
    job: &Job,
    inputs: &[Input],
    launch: &Launch,
    signature: Option<&[Parameter]>,
    device: &Device,
) -> Result<Checked> {
    let kernel = &launch.kernel.value;
    if let Some(parameters) = signature.filter(|p| p.len() != launch.args.len()) {
        let names: Vec<String> = parameters.iter().map(describe).collect();
        let what = format!(
            "kernel {kernel} takes {} arguments, {} are given",
            parameters.len(),
            launch.args.len()
        );
        let help = format!("its arguments: {}", names.join(", "));
        return Err(Failure::usage(what)
            .at(job.place(&launch.kernel.at))
            .help(help)
            .into());
    }
    let mut failures = Vec::new();
    let mut bound = Vec::new();
    let mut accesses: Vec<Access> = Vec::new();
    let mut bytes = 0u64;
    for (i, argument) in launch.args.iter().enumerate() {
        let parameter = signature.and_then(|p| p.get(i));
        let result = match &argument.value {
            Argument::Buffer(view) => check_buffer(job, inputs, view, parameter).map(Bound::Buffer),
            Argument::Image(image) => check_image(job, inputs, image, parameter, device),
            Argument::Sampler(sampling) => check_sampler(sampling, parameter, device),
            Argument::Scalar(scalar) => check_scalar(*scalar, parameter).map(Bound::Scalar),
            Argument::Number(number) => check_number(*number, parameter).map(Bound::Scalar),
        };
        let touched = result.as_ref().ok().and_then(Bound::slice);
        if let Some(slice) = touched {
            let (reads, writes) = modes(launch, slice.buffer, parameter);
            let modes = [(reads, Mode::Read), (writes, Mode::Write)];
            for (_, mode) in modes.into_iter().filter(|m| m.0) {
                bytes = bytes.saturating_add(slice.bytes());
                accesses.push(Access {
                    buffer: slice.buffer,
                    range: slice.range.clone(),
                    mode,
                });
            }
        }
        match result {
            Ok(b) => bound.push(b),
            Err(failure) => failures.push(failure.at(job.place(&argument.at))),
        }
    }
    Failures::check(failures)?;
    let queue = launch.queue.as_ref().map(|q| q.value);
    let plan = PlanTask {
        engine: Engine::Compute,
        queue,
        accesses,
        cost: bytes,
    };
    Ok(Checked {
        ready: Ready::Kernel(bound),
        plan,
        bytes,
    })
}

/// Whether the launch reads and writes a buffer: as the job says, else as the signature says, else both.
fn modes(launch: &Launch, buffer: usize, parameter: Option<&Parameter>) -> (bool, bool) {
    match (
        launch.reads.contains(&buffer),
        launch.writes.contains(&buffer),
    ) {
        (false, false) => (
            true,
            parameter.is_none_or(|p| {
                let storage = |i| matches!(i, ImageParam::Storage(_));
                match p.kind {
                    ParameterKind::Image(image) => storage(image),
                    kind => kind == ParameterKind::Buffer,
                }
            }),
        ),
        said => said,
    }
}

fn check_buffer(
    job: &Job,
    inputs: &[Input],
    view: &ViewDecl,
    parameter: Option<&Parameter>,
) -> std::result::Result<Slice, Failure> {
    let slice = slice(job, inputs, view)?;
    let Some(input) = inputs.get(slice.buffer) else {
        return Ok(slice);
    };
    let Some(parameter) = parameter else {
        return Ok(slice);
    };
    if let ParameterKind::Scalar | ParameterKind::Image(_) = parameter.kind {
        return Err(Failure::usage(format!(
            "a buffer is given for {}",
            describe(parameter)
        )));
    }
    // Signed or not is a matter of reading the same bits; size and kind of number are not.
    let same = |d: Dtype| d.size() == input.dtype.size() && d.is_float() == input.dtype.is_float();
    if !parameter.dtype.is_none_or(same) {
        let what = format!(
            "a buffer of {} is given for {}",
            input.dtype,
            describe(parameter)
        );
        return Err(Failure::usage(what));
    }
    Ok(slice)
}

/// What the device says against an image or a sampler.
fn no_image(e: &Error) -> Failure {
    Failure::usage(e.to_string())
}

fn check_image(
    job: &Job,
    inputs: &[Input],
    declared: &ImageDecl,
    parameter: Option<&Parameter>,
    device: &Device,
) -> std::result::Result<Bound, Failure> {
    let (format, width, height) = (declared.format, declared.width, declared.height);
    let image = match declared.pitch {
        Some(pitch) => device.image2d_with_pitch(format, width, height, pitch),
        None => device.image2d(format, width, height),
    };
    let image = image.map_err(|e| no_image(&e))?;
    if let Some(p) = parameter {
        let kind = match p.kind {
            ParameterKind::Image(ImageParam::Texture(kind) | ImageParam::Storage(kind)) => kind,
            _ => {
                let what = format!("an image is given for {}", describe(p));
                return Err(Failure::usage(what));
            }
        };
        if kind.is_some_and(|kind| kind != format.kind()) {
            let what = format!(
                "an image of {format}, whose texels are {}, is given for {}",
                format.kind(),
                describe(p)
            );
            return Err(Failure::usage(what));
        }
    }
    let slice = slice(job, inputs, &declared.view)?;
    let (have, need) = (slice.bytes(), image.bytes() as u64);
    if have < need {
        let what = format!(
            "the image has {need} bytes, {height} rows of {} bytes; the buffer has {have}",
            image.pitch()
        );
        return Err(Failure::usage(what));
    }
    // Buffers begin where images can.
    let (start, align) = (slice.range.start, image.address_align());
    if !start.is_multiple_of(align.into()) {
        let what = format!(
            "the image begins at byte {start} of the buffer; images begin at multiples of {align} bytes"
        );
        return Err(Failure::usage(what));
    }
    let slice = Slice {
        range: slice.range.start..slice.range.start + need,
        ..slice
    };
    Ok(Bound::Image(slice, image))
}

fn check_sampler(
    sampling: &Sampling,
    parameter: Option<&Parameter>,
    device: &Device,
) -> std::result::Result<Bound, Failure> {
    let wanted = ParameterKind::Image(ImageParam::Sampler);
    if let Some(p) = parameter.filter(|p| p.kind != wanted) {
        let what = format!("a sampler is given for {}", describe(p));
        return Err(Failure::usage(what));
    }
    let sampler = device.sampler(sampling).map_err(|e| no_image(&e))?;
    Ok(Bound::Sampler(sampler))
}

fn check_scalar(
    scalar: Scalar,
    parameter: Option<&Parameter>,
) -> std::result::Result<Scalar, Failure> {
    match parameter {
        Some(p) if p.kind != ParameterKind::Scalar => Err(Failure::usage(format!(
            "a number is given for {}",
            describe(p)
        ))),
        Some(p) if p.dtype.is_some_and(|d| d != scalar.dtype) => Err(Failure::usage(format!(
            "a number of type {} is given for {}",
            scalar.dtype,
            describe(p)
        ))
        .help("a plain number takes the kernel's own type")),
        _ => Ok(scalar),
    }
}

fn check_number(
    number: Number,
    parameter: Option<&Parameter>,
) -> std::result::Result<Scalar, Failure> {
    match parameter {
        Some(p) if p.kind != ParameterKind::Scalar => Err(Failure::usage(format!(
            "a number is given for {}",
            describe(p)
        ))),
        Some(Parameter {
            dtype: Some(dtype), ..
        }) => Scalar::new(*dtype, number).map_err(|why| {
            Failure::usage(format!(
                "{why}: {}",
                parameter.map_or_else(String::new, describe)
            ))
        }),
        _ => Err(
            Failure::usage("the type of this number is unknown: the kernel has no signature").help(
                "write the type, such as { f32 = 2.0 }, or define the kernel with HCQ_KERNEL",
            ),
        ),
    }
}

/// The bytes of a view, which must lie within its buffer.
pub fn slice(job: &Job, inputs: &[Input], view: &ViewDecl) -> std::result::Result<Slice, Failure> {
    let Some(input) = inputs.get(view.buffer) else {
        return Err(Failure::usage("the buffer is not known").at(job.place(&view.at)));
    };
    let (size, elements) = (input.dtype.size(), input.elements());
    let offset = view.offset.as_ref().map_or(0, |o| o.value);
    if offset >= elements {
        let what = format!("offset {offset} is past the end: the buffer has {elements} elements");
        let at = view.offset.as_ref().map_or(&view.at, |o| &o.at);
        return Err(Failure::usage(what).at(job.place(at)));
    }
    let len = view.len.as_ref().map_or(elements - offset, |l| l.value);
    if len > elements - offset {
        let what = format!(
            "elements {offset} to {offset} + {len} are past the end: the buffer has {elements}"
        );
        let at = view.len.as_ref().map_or(&view.at, |l| &l.at);
        return Err(Failure::usage(what).at(job.place(at)));
    }
    Ok(Slice {
        buffer: view.buffer,
        range: offset * size..(offset + len) * size,
    })
}

fn describe(p: &Parameter) -> String {
    let ty = p.dtype.map_or("void", Dtype::name);
    match p.kind {
        ParameterKind::Scalar => format!("{ty} {}", p.name),
        ParameterKind::Input => format!("const {ty} *{}", p.name),
        ParameterKind::Buffer => format!("{ty} *{}", p.name),
        ParameterKind::Image(image) => format!("{image} {}", p.name),
    }
}

#[cfg(test)]
mod tests;
