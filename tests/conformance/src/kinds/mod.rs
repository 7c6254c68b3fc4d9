//! Kinds of devices: what the list needs to know of them, and their test kernels.

pub mod amd;
pub mod cpu;
pub mod nv;
pub mod qcom;

use std::fmt::Debug;

use hcq_std::{Device, Error, Kernel};

/// Where no device of a kind has memory, unless the kind knows better: the second page, which nobody maps.
pub const UNMAPPED: u64 = 0x1000;

/// All kinds.
pub static KINDS: &[&dyn Kind] = &[
    &cpu::Cpu,
    &amd::CARDS,
    &amd::SIMULATED,
    &nv::CARDS,
    &nv::SIMULATED,
    &qcom::CHIPS,
    &qcom::SIMULATED,
    &qcom::MSM,
    &qcom::SIMULATED_MSM,
];

/// A kind of device.
pub trait Kind: Debug + Sync {
    /// Its name in messages.
    fn name(&self) -> &'static str;

    /// Whether devices with this name are of this kind.
    fn serves(&self, device: &str) -> bool;

    /// A stock kernel for a device of this kind; `None` if there is no program for it.
    ///
    /// # Errors
    /// What the device says against the program.
    fn kernel(&self, device: &Device, stock: Stock) -> Result<Option<Kernel>, Error>;

    /// A kernel with images for a device of this kind; `None` if there is no program for it. Only devices that have images are
    /// asked for.
    ///
    /// # Errors
    /// What the device says against the program.
    fn image_kernel(
        &self,
        _device: &Device,
        _kernel: ImageKernel,
    ) -> Result<Option<Kernel>, Error> {
        Ok(None)
    }

    /// The name of another device of the machine that has this one: the first other, the second, as `number` says from 1 on.
    /// Whether there is one shows when it is opened. `None`: a machine has one of this kind.
    ///
    /// By default devices are counted: `amd:1` is beside `amd`.
    fn peer(&self, device: &str, number: usize) -> Option<String> {
        Some(counted(device, number))
    }

    /// An address, 4096-byte aligned, where no device of this kind has memory. Writing to it is a fault.
    fn unmapped(&self) -> u64 {
        UNMAPPED
    }

    /// Submissions that a ring surely cannot hold at once, when the smallest ring is asked for
    /// ([`Options::ring_packets`](hcq_std::Options::ring_packets) of 16). Larger where rings are rounded up to pages.
    fn smallest_ring(&self) -> usize {
        16
    }

    /// Whether a command at fault stops its queue before the next one runs. Engines that post their writes learn of a
    /// fault later.
    fn faults_are_precise(&self) -> bool {
        true
    }

    /// Whether a fault of an address without memory surely says what the access was. Some systems say only that nothing is there.
    fn faults_tell_access(&self) -> bool {
        true
    }

    /// Whether a fault of an address without memory says that it is one. Some drivers say only that something failed.
    fn faults_tell_kind(&self) -> bool {
        true
    }

    /// Whether the fault of a command that is no launch surely says where it was. Some drivers may know nothing of such a one.
    fn faults_tell_address(&self) -> bool {
        true
    }

    /// Whether memory of the caller can be a buffer ([`Device::wrap`]). Some drivers take none.
    fn wraps_memory(&self) -> bool {
        true
    }

    /// Whether a submission sees what the host stores into wrapped memory after it was submitted, once a signal says so. Where the
    /// GPU does not look into the host's caches those are written back before each submission only.
    fn sees_late_stores(&self) -> bool {
        true
    }

    /// Whether programs say of each argument if it is an address or a number. Else they say its size.
    fn programs_tell_arguments(&self) -> bool {
        true
    }

    /// Whether a device of this kind has an address space of its own, in which it reaches only what it has buffers and views of.
    fn has_own_addresses(&self) -> bool {
        true
    }

    /// Whether a fault is over with the device that had it. If not, the process gets no other device of this kind to work after
    /// it.
    fn outlives_faults(&self) -> bool {
        true
    }

    /// Whether [`Device::recover`] can make a device of this kind usable again after a memory fault.
    fn recovers(&self) -> bool {
        true
    }
}

/// Whether a device name is one of a family's: of its own devices, or of simulated ones.
pub(crate) fn is_of(family: &str, simulated: bool, device: &str) -> bool {
    match device.strip_prefix("sim:") {
        Some(chip) => {
            let rest = chip.strip_prefix(family);
            simulated && rest.is_some_and(|rest| rest.starts_with('-'))
        }
        None => !simulated && device.split([':', ',']).next() == Some(family),
    }
}

/// The name of the `number`th device that is not this one, counted from 1, where names are `[sim:]device[:ordinal][,option]...`.
pub(crate) fn counted(device: &str, number: usize) -> String {
    let (head, options) = match device.split_once(',') {
        Some((head, options)) => (head, Some(options)),
        None => (device, None),
    };
    let (head, ordinal) = match head.rsplit_once(':') {
        Some((first, ordinal)) if first != "sim" => (first, ordinal.parse().unwrap_or(0)),
        _ => (head, 0),
    };
    let other = if number <= ordinal {
        number - 1
    } else {
        number
    };
    let options = options.map(|options| format!(",{options}"));
    format!("{head}:{other}{}", options.unwrap_or_default())
}

/// The text of the machine to simulate in a device's name; `None` if it is none of a simulated one.
pub(crate) fn machine(device: &str) -> Option<String> {
    let mut parts = device.strip_prefix("sim:")?.split(',');
    let chip = parts.next()?.split(':').next()?;
    let options = parts.filter_map(|option| match option {
        // The one option of the device that its machine needs as well.
        "msm" => Some("msm=present"),
        _ => option.contains('=').then_some(option),
    });
    Some(
        std::iter::once(chip)
            .chain(options)
            .collect::<Vec<_>>()
            .join(","),
    )
}

/// The kind of a device name.
pub(crate) fn of(device: &str) -> Option<&'static dyn Kind> {
    KINDS.iter().copied().find(|k| k.serves(device))
}

/// The kernels that behaviours launch. A kind supplies one program for each.
///
/// *Item* stands for the number of a work-item in the launch: `group * local + item in group`, of dimension 0 unless
/// said otherwise. Numbers are unsigned and wrap around. Programs work for every number of groups and items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stock {
    /// Does nothing.
    Empty,
    /// `out[item] = value`, for items below `n`.
    Fill,
    /// `out[item] = a[item]`, for items below `n`.
    Copy,
    /// `out[item] = a[item] + b[item]`, for items below `n`.
    Add,
    /// `y[item] = a * x[item] + b`, for items below `n`. Behaviours choose numbers that make it exact.
    Scale,
    /// `data[item] = data[item] * factor + add`, for items below `n`: shows how often and in which order it ran.
    Step,
    /// For the item at `x, y, z` of all items in three dimensions, numbered `i = x + X * (y + Y * z)`:
    /// `out[4 * i] += 1`, then the item's group, the number of groups, and the local size, each as
    /// `x | y << 10 | z << 20`, to `out[4 * i + 1 ..= 4 * i + 3]`.
    Dims,
    /// Group `g` of dimension 0 copies `in[g * n ..][..n]` to group-local memory, which a launch gives `4 * n` bytes,
    /// and adds the words up from there, last to first: `out[2 * g]` is the sum, `out[2 * g + 1]` how far the local
    /// memory is past a 64-byte boundary.
    Reduce,
    /// One argument of each type, widened to 64 bits with its sign and written to `out[0..10]` in order; floats as bits.
    Scalars,
    /// Item 0 of each group goes `turns` times through `x = x * 1664525 + 1013904223`, from `x = seed + group` on, and
    /// writes `out[group] = x`. Takes time.
    Spin,
}

impl Stock {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Empty,
        Self::Fill,
        Self::Copy,
        Self::Add,
        Self::Scale,
        Self::Step,
        Self::Dims,
        Self::Reduce,
        Self::Scalars,
        Self::Spin,
    ];

    /// The program's symbol.
    pub const fn name(self) -> &'static str {
        self.described().0
    }

    /// Its arguments, as the fields of a C struct.
    pub const fn signature(self) -> &'static str {
        self.described().1
    }

    const fn described(self) -> (&'static str, &'static str) {
        match self {
            Self::Empty => ("empty", ""),
            Self::Fill => ("fill", "uint32_t *out; uint32_t value; uint32_t n;"),
            Self::Copy => ("copy", "const uint32_t *a; uint32_t *out; uint32_t n;"),
            Self::Add => (
                "add",
                "const uint32_t *a; const uint32_t *b; uint32_t *out; uint32_t n;",
            ),
            Self::Scale => (
                "scale",
                "float a; float b; const float *x; float *y; uint32_t n;",
            ),
            Self::Step => (
                "step",
                "uint32_t *data; uint32_t factor; uint32_t add; uint32_t n;",
            ),
            Self::Dims => ("dims", "uint32_t *out;"),
            Self::Reduce => ("reduce", "const uint32_t *in; uint32_t *out; uint32_t n;"),
            Self::Scalars => (
                "scalars",
                "int8_t a; int16_t b; int32_t c; int64_t d; uint8_t e; uint16_t f; uint32_t g; uint64_t h; \
                 float i; double j; uint64_t *out;",
            ),
            Self::Spin => ("spin", "uint32_t *out; uint32_t turns; uint32_t seed;"),
        }
    }
}

/// The kernels with images that behaviours launch, where devices have images.
///
/// Items are at a column and a row: numbers of work-items in dimensions 0 and 1. Those below `width` and `height` do something.
/// Place `i` of a buffer stands for `buffer[4 * i ..][..4]`, four components.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageKernel {
    /// `out[column + width * row] = in[column, row]`.
    Read,
    /// `out[column, row] = in[column + width * row]`.
    Write,
    /// `out[column, row] = in[column, row]`.
    Copy,
    /// The same with whole numbers.
    CopyUint,
    /// `out[column + width * row]` is what `by` makes of `in` at `x + column * dx`, `y + row * dy`.
    Sample,
}

impl ImageKernel {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Read,
        Self::Write,
        Self::Copy,
        Self::CopyUint,
        Self::Sample,
    ];

    /// The program's symbol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read_image",
            Self::Write => "write_image",
            Self::Copy => "copy_image",
            Self::CopyUint => "copy_image_uint",
            Self::Sample => "sample_image",
        }
    }

    /// Its arguments: images with what they have components as, and fields of a C struct.
    pub const fn signature(self) -> &'static str {
        match self {
            Self::Read => "texture float in; float *out; uint32_t width; uint32_t height;",
            Self::Write => "const float *in; storage float out; uint32_t width; uint32_t height;",
            Self::Copy => "texture float in; storage float out; uint32_t width; uint32_t height;",
            Self::CopyUint => "texture uint in; storage uint out; uint32_t width; uint32_t height;",
            Self::Sample => {
                "texture float in; sampler by; float *out; uint32_t width; uint32_t height; float x; float y; float dx; \
                 float dy;"
            }
        }
    }
}

/// What [`Stock::Spin`] writes for a group.
pub fn spun(turns: u32, seed: u32, group: u32) -> u32 {
    (0..turns).fold(seed.wrapping_add(group), |x, _| {
        x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_counted_past_the_one_there_is() {
        for (device, peers) in [
            ("amd", ["amd:1", "amd:2"]),
            ("amd:1", ["amd:0", "amd:2"]),
            ("amd:2,aql", ["amd:0,aql", "amd:1,aql"]),
            ("sim:amd-gfx942", ["sim:amd-gfx942:1", "sim:amd-gfx942:2"]),
            (
                "sim:amd-gfx942:1,gpus=4,aql",
                ["sim:amd-gfx942:0,gpus=4,aql", "sim:amd-gfx942:2,gpus=4,aql"],
            ),
        ] {
            assert_eq!([1, 2].map(|n| counted(device, n)), peers, "{device}");
        }
    }

    #[test]
    fn names_have_one_kind() {
        for (device, kind) in [
            ("cpu", Some("CPU")),
            ("amd", Some("AMD")),
            ("amd:1,aql", Some("AMD")),
            ("sim:amd-gfx1100", Some("simulated AMD")),
            ("nv:1", Some("NVIDIA")),
            ("sim:nv-ampere:1,gpus=2", Some("simulated NVIDIA")),
            ("qcom", Some("Adreno")),
            ("sim:qcom-a630,seed=3", Some("simulated Adreno")),
            ("nvx", None),
            ("sim:nv", None),
            ("sim:cpu", None),
        ] {
            let serve: Vec<_> = KINDS.iter().filter(|k| k.serves(device)).collect();
            assert!(serve.len() <= 1, "{device}: {serve:?}");
            assert_eq!(serve.first().map(|k| k.name()), kind, "{device}");
        }
    }

    #[test]
    fn machines_are_what_names_say_without_the_device() {
        for (device, text) in [
            ("amd:1", None),
            ("cpu", None),
            ("sim:amd-gfx942", Some("amd-gfx942")),
            (
                "sim:amd-gfx942:1,gpus=4,aql,seed=7",
                Some("amd-gfx942,gpus=4,seed=7"),
            ),
            (
                "sim:qcom-a650,fast,msm,seed=7",
                Some("qcom-a650,msm=present,seed=7"),
            ),
        ] {
            assert_eq!(machine(device).as_deref(), text);
        }
    }
}
