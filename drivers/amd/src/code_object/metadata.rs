//! The metadata note: kernels' arguments by name, kind, offset and size.

use elf::abi::{PT_NOTE, SHT_NOTE};
use elf::note::{Note, NoteIterator};
use hcq_nostd::args::{ArgKind, ArgLayout, ArgSlot};

use super::msgpack::Reader;
use super::{CodeObject, LoadError};
use crate::hidden::{HiddenKind, HiddenSlot};
use crate::kernel::{Arguments, MAX_GROUP};

/// NT_AMDGPU_METADATA.
const NT_METADATA: u64 = 32;
const OWNER: &[u8] = b"AMDGPU";

/// What the metadata say about one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelMetadata<'d> {
    /// `.name`.
    pub name: &'d str,
    /// `.symbol`: its descriptor's.
    pub symbol: &'d str,
    /// `.kernarg_segment_size`: bytes of its argument block.
    pub kernarg_segment_size: u32,
    /// `.kernarg_segment_align`.
    pub kernarg_segment_align: u32,
    /// `.group_segment_fixed_size`.
    pub group_segment_fixed_size: u32,
    /// `.private_segment_fixed_size`.
    pub private_segment_fixed_size: u32,
    /// `.wavefront_size`.
    pub wavefront_size: u32,
    /// `.max_flat_workgroup_size`: work-items of a work-group at most.
    pub max_flat_workgroup_size: u32,
    /// `.sgpr_count`.
    pub sgpr_count: u32,
    /// `.vgpr_count`.
    pub vgpr_count: u32,
    /// `.uses_dynamic_stack`.
    pub uses_dynamic_stack: bool,
    args: &'d [u8],
}

/// One argument of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Argument<'d> {
    /// `.name`; empty if it has none.
    pub name: &'d str,
    /// `.type_name`; empty if it has none.
    pub type_name: &'d str,
    /// `.offset` in the argument block, in bytes.
    pub offset: u32,
    /// `.size` in bytes.
    pub size: u32,
    /// `.value_kind`.
    pub value_kind: &'d str,
    /// Whether the kernel only reads through it: `.is_const`, `.access` or `.actual_access`.
    pub read_only: bool,
}

/// An argument as a launch sees it.
enum Slot {
    Given(ArgSlot),
    Hidden(HiddenSlot),
}

impl Argument<'_> {
    fn slot(&self) -> Option<Slot> {
        let (offset, size) = (self.offset, self.size);
        let given = |kind| Some(Slot::Given(ArgSlot { offset, size, kind }));
        match (self.value_kind, size) {
            ("by_value", 1 | 2 | 4 | 8) => given(ArgKind::Scalar),
            ("by_value", 1..) => given(ArgKind::Bytes),
            // The launch gives its byte offset in group-local memory, behind what the kernel declares.
            ("dynamic_shared_pointer", 4) => given(ArgKind::Scalar),
            ("global_buffer", 8) if self.read_only => given(ArgKind::ConstBuffer),
            ("global_buffer", 8) => given(ArgKind::Buffer),
            (name, _) => {
                let (kind, bytes) = HiddenKind::named(name)?;
                // The compiler's size is the kind's, but for what nobody reads.
                let size = u8::try_from(size)
                    .ok()
                    .filter(|s| matches!(s, 1 | 2 | 4 | 8))?;
                let sound = u32::from(size) == bytes || kind == HiddenKind::Null;
                sound.then_some(Slot::Hidden(HiddenSlot { kind, offset, size }))
            }
        }
    }
}

fn narrow(n: u64) -> Result<u32, LoadError> {
    u32::try_from(n).map_err(|_| LoadError::Metadata)
}

impl<'d> KernelMetadata<'d> {
    fn read(r: &mut Reader<'d>) -> Result<Self, LoadError> {
        let mut k = Self {
            name: "",
            symbol: "",
            kernarg_segment_size: 0,
            kernarg_segment_align: 0,
            group_segment_fixed_size: 0,
            private_segment_fixed_size: 0,
            wavefront_size: 0,
            max_flat_workgroup_size: MAX_GROUP,
            sgpr_count: 0,
            vgpr_count: 0,
            uses_dynamic_stack: false,
            args: &[],
        };
        r.each(|key, r| {
            let number = match key {
                ".name" => {
                    k.name = r.str()?;
                    return Ok(());
                }
                ".symbol" => {
                    k.symbol = r.str()?;
                    return Ok(());
                }
                ".uses_dynamic_stack" => {
                    k.uses_dynamic_stack = r.bool()?;
                    return Ok(());
                }
                ".args" => {
                    k.args = r.skip()?;
                    return Ok(());
                }
                ".kernarg_segment_size" => &mut k.kernarg_segment_size,
                ".kernarg_segment_align" => &mut k.kernarg_segment_align,
                ".group_segment_fixed_size" => &mut k.group_segment_fixed_size,
                ".private_segment_fixed_size" => &mut k.private_segment_fixed_size,
                ".wavefront_size" => &mut k.wavefront_size,
                ".max_flat_workgroup_size" => &mut k.max_flat_workgroup_size,
                ".sgpr_count" => &mut k.sgpr_count,
                ".vgpr_count" => &mut k.vgpr_count,
                _ => return r.skip().map(|_| ()),
            };
            *number = narrow(r.uint()?)?;
            Ok(())
        })?;
        Ok(k)
    }

    /// Its arguments, hidden ones too, in order.
    ///
    /// # Errors
    /// [`LoadError::Metadata`].
    pub fn arguments(&self) -> Result<ArgumentList<'d>, LoadError> {
        let mut reader = Reader::new(self.args);
        let left = if self.args.is_empty() {
            0
        } else {
            reader.array()?
        };
        Ok(ArgumentList { reader, left })
    }

    /// Its arguments as a launch sees them, in the caller's memory.
    ///
    /// # Errors
    /// [`LoadError::Argument`] for one that launches cannot give, or one that is not inside the argument block,
    /// [`LoadError::TooManyArguments`], [`LoadError::Metadata`].
    pub fn layout<'p>(
        &self,
        slots: &'p mut [ArgSlot],
        hidden: &'p mut [HiddenSlot],
    ) -> Result<Arguments<'p>, LoadError> {
        let (mut given, mut filled) = (0, 0);
        for (index, argument) in self.arguments()?.enumerate() {
            let argument = argument?;
            let bad = LoadError::Argument { index };
            let end = u64::from(argument.offset) + u64::from(argument.size);
            if end > self.kernarg_segment_size.into() {
                return Err(bad);
            }
            match argument.slot().ok_or(bad)? {
                Slot::Given(slot) => put(slots, &mut given, slot)?,
                Slot::Hidden(slot) => put(hidden, &mut filled, slot)?,
            }
        }
        let (slots, hidden): (&'p [ArgSlot], &'p [HiddenSlot]) = (slots, hidden);
        Ok(Arguments {
            layout: ArgLayout {
                slots: slots.get(..given).unwrap_or_default(),
                size: self.kernarg_segment_size,
                align: self
                    .kernarg_segment_align
                    .checked_next_power_of_two()
                    .unwrap_or(1)
                    .max(1),
            },
            hidden: hidden.get(..filled).unwrap_or_default(),
        })
    }
}

fn put<T>(to: &mut [T], n: &mut usize, value: T) -> Result<(), LoadError> {
    let have = to.len();
    let slot = to
        .get_mut(*n)
        .ok_or(LoadError::TooManyArguments { need: *n + 1, have })?;
    *slot = value;
    *n += 1;
    Ok(())
}

/// Arguments of a kernel, in order.
pub struct ArgumentList<'d> {
    reader: Reader<'d>,
    left: usize,
}

impl core::fmt::Debug for ArgumentList<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ArgumentList")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl<'d> Iterator for ArgumentList<'d> {
    type Item = Result<Argument<'d>, LoadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let argument = read_argument(&mut self.reader);
        if argument.is_err() {
            self.left = 0;
        }
        Some(argument)
    }
}

fn read_argument<'d>(r: &mut Reader<'d>) -> Result<Argument<'d>, LoadError> {
    let mut a = Argument::default();
    r.each(|key, r| {
        match key {
            ".name" => a.name = r.str()?,
            ".type_name" => a.type_name = r.str()?,
            ".offset" => a.offset = narrow(r.uint()?)?,
            ".size" => a.size = narrow(r.uint()?)?,
            ".value_kind" => a.value_kind = r.str()?,
            ".is_const" => a.read_only |= r.bool()?,
            ".access" | ".actual_access" => a.read_only |= r.str()? == "read_only",
            _ => {
                r.skip()?;
            }
        }
        Ok(())
    })?;
    Ok(a)
}

impl<'d> CodeObject<'d> {
    /// The metadata of the kernel of this name; `None` if the file has none.
    ///
    /// # Errors
    /// [`LoadError::Metadata`] for a note that is not well formed.
    pub fn metadata(&self, name: &str) -> Result<Option<KernelMetadata<'d>>, LoadError> {
        let Some(note) = self.metadata_note() else {
            return Ok(None);
        };
        let mut found = None;
        Reader::new(note).each(|key, r| {
            if key != "amdhsa.kernels" {
                return r.skip().map(|_| ());
            }
            for _ in 0..r.array()? {
                let kernel = KernelMetadata::read(r)?;
                let described = kernel.symbol.strip_suffix(".kd");
                if found.is_none() && described.unwrap_or(kernel.name) == name {
                    found = Some(kernel);
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The bytes of the metadata note.
    fn metadata_note(&self) -> Option<&'d [u8]> {
        let is_metadata = |note| match note {
            Note::Unknown(n)
                if n.n_type == NT_METADATA && n.name.strip_suffix(b"\0") == Some(OWNER) =>
            {
                Some(n.desc)
            }
            _ => None,
        };
        let notes = |offset, len, align: u64| -> Option<NoteIterator<'d, _>> {
            let align = usize::try_from(align)
                .ok()
                .filter(|a| matches!(a, 4 | 8))
                .unwrap_or(4);
            let bytes = self.bytes(offset, len)?;
            Some(NoteIterator::new(
                elf::endian::LittleEndian,
                elf::file::Class::ELF64,
                align,
                bytes,
            ))
        };
        let segments = self.elf.segments().into_iter().flat_map(|t| t.iter());
        let mut segments = segments.filter(|s| s.p_type == PT_NOTE);
        let in_segments =
            segments.find_map(|s| notes(s.p_offset, s.p_filesz, s.p_align)?.find_map(is_metadata));
        in_segments.or_else(|| {
            let sections = self
                .elf
                .section_headers()
                .into_iter()
                .flat_map(|t| t.iter());
            let mut sections = sections.filter(|s| s.sh_type == SHT_NOTE);
            sections
                .find_map(|s| notes(s.sh_offset, s.sh_size, s.sh_addralign)?.find_map(is_metadata))
        })
    }
}
