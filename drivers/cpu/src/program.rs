//! A kernel with its argument layout.

use hcq_nostd::args::{Arg, ArgLayout, packed_size, write_packed};
use hcq_nostd::patch::PatchList;
use hcq_nostd::record::{Block, RecordError};
use hcq_nostd::value::Var;

/// A kernel as the encoder needs it. Plain data; whoever supplies the engine's
/// [`Platform`](crate::engine::Platform) says what an entry means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program<'p> {
    entry: u64,
    layout: Option<ArgLayout<'p>>,
    local_memory: u32,
    /// The entry, if it is known at launch only.
    at: Option<Var>,
}

impl<'p> Program<'p> {
    /// A kernel whose arguments are not known: they are laid out as given, each at its natural alignment.
    pub const fn new(entry: u64) -> Self {
        Self {
            entry,
            layout: None,
            local_memory: 0,
            at: None,
        }
    }

    /// The same kernel with an entry that is known at launch only.
    pub const fn entered_at(self, entry: Var) -> Self {
        Self {
            at: Some(entry),
            ..self
        }
    }

    /// The same kernel with checked arguments; see [`signature`](crate::signature).
    pub const fn with_layout(self, layout: ArgLayout<'p>) -> Self {
        Self {
            layout: Some(layout),
            ..self
        }
    }

    /// The same kernel with this many bytes of group-local memory in every launch.
    pub const fn with_local_memory(self, bytes: u32) -> Self {
        Self {
            local_memory: bytes,
            ..self
        }
    }

    /// The kernel's entry, where it is known.
    pub const fn entry(&self) -> u64 {
        self.entry
    }

    /// The variable that is its entry at launch, if there is one.
    pub const fn entry_variable(&self) -> Option<Var> {
        self.at
    }

    /// Bytes of group-local memory in every launch.
    pub const fn local_memory(&self) -> u32 {
        self.local_memory
    }

    /// Bytes of argument block that these arguments take.
    pub fn kernargs_for(&self, args: &[Arg<'_>]) -> usize {
        match self.layout {
            Some(layout) => layout.size as usize,
            None => packed_size(args),
        }
    }

    /// Alignment that these arguments need of their block.
    pub(crate) fn args_align(&self, args: &[Arg<'_>]) -> u64 {
        match self.layout {
            Some(layout) => layout.align.into(),
            // A number of another size than a power of two is refused when it is written.
            None => {
                let aligns = args.iter().map(|a| a.align() as u64);
                aligns.filter(|a| a.is_power_of_two()).max().unwrap_or(1)
            }
        }
    }

    /// Checks and writes the arguments; returns the bytes that the kernel may read.
    pub(crate) fn write_args(
        &self,
        args: &[Arg<'_>],
        block: &mut Block<'_, '_>,
        list: &mut PatchList<'_>,
    ) -> Result<usize, RecordError> {
        match self.layout {
            Some(layout) => layout
                .write(args, block, list)
                .map(|()| layout.size as usize),
            None => write_packed(args, block, list),
        }
    }
}

impl hcq_nostd::queue::Program for Program<'_> {
    /// Bytes of the argument block; 0 if the layout is not known (see [`Program::kernargs_for`]).
    fn kernargs_size(&self) -> usize {
        self.layout.map_or(0, |l| l.size as usize)
    }

    fn kernargs_align(&self) -> usize {
        // An argument block may hold anything that C aligns to at most 16 bytes; a launch insists on what its own
        // arguments need.
        self.layout.map_or(16, |l| (l.align as usize).max(16))
    }
}
