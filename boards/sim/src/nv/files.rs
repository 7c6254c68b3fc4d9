//! Nodes in `/dev`, and what an open file of one remembers.

use std::path::{Path, PathBuf};

use super::rm::Pending;
use super::uvm::Uvm;
use crate::machine::{FileId, View};

/// A device node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// `/dev/nvidiactl`.
    Control,
    /// `/dev/nvidia-uvm`.
    Uvm,
    /// `/dev/nvidiaN`.
    Gpu(usize),
}

impl Node {
    /// The node of a number that the machine knows it by.
    pub(super) fn of(number: u32) -> Self {
        match number {
            0 => Self::Control,
            1 => Self::Uvm,
            gpu => Self::Gpu(usize::try_from(gpu - 2).unwrap_or(usize::MAX)),
        }
    }

    pub(super) fn number(self) -> u32 {
        match self {
            Self::Control => 0,
            Self::Uvm => 1,
            Self::Gpu(index) => u32::try_from(index).map_or(u32::MAX, |index| index + 2),
        }
    }

    /// The node of a path, if there are so many GPUs.
    pub(super) fn at(path: &Path, gpus: usize) -> Option<Self> {
        let name = path.to_str()?.strip_prefix("/dev/nvidia")?;
        match name {
            "ctl" => Some(Self::Control),
            "-uvm" => Some(Self::Uvm),
            digits => {
                let index: usize = digits.parse().ok()?;
                // `/dev/nvidia00` is no name of a node.
                let named = index.to_string() == digits;
                (named && index < gpus).then_some(Self::Gpu(index))
            }
        }
    }

    pub(super) fn path(self) -> PathBuf {
        match self {
            Self::Control => "/dev/nvidiactl".into(),
            Self::Uvm => "/dev/nvidia-uvm".into(),
            Self::Gpu(index) => format!("/dev/nvidia{index}").into(),
        }
    }
}

/// What the next `mmap` of a file maps: `nv_alloc_mapping_context_t`. It is set once.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) view: View,
    /// Bytes, whole pages.
    pub(super) bytes: u64,
    pub(super) write: bool,
    /// All of it must be mapped, not less.
    pub(super) whole: bool,
}

/// What a file of `/dev/nvidia-uvm` is.
#[derive(Debug, Default)]
pub(super) enum UvmFile {
    /// Not yet anything.
    #[default]
    Fresh,
    /// An address space.
    Space(Box<Uvm>),
    /// It keeps the process's memory for another file's address space.
    Keeper(FileId),
}

/// An open file.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) node: Node,
    /// The file of `/dev/nvidiactl` that it is registered with.
    pub(super) control: Option<FileId>,
    pub(super) prepared: Option<Prepared>,
    pub(super) uvm: UvmFile,
    /// Events that nobody has looked at.
    pub(super) pending: Pending,
}

impl Open {
    pub(super) fn new(node: Node) -> Self {
        Self {
            node,
            control: None,
            prepared: None,
            uvm: UvmFile::Fresh,
            pending: Pending::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_one_name_each() {
        for node in [Node::Control, Node::Uvm, Node::Gpu(0), Node::Gpu(7)] {
            assert_eq!(Node::at(&node.path(), 8), Some(node));
            assert_eq!(Node::of(node.number()), node);
        }
        for name in [
            "",
            "8",
            "00",
            "-1",
            "+1",
            "-uvm-tools",
            "ctl0",
            "0x1",
            "99999999999999999999",
        ] {
            let path = PathBuf::from(format!("/dev/nvidia{name}"));
            assert_eq!(Node::at(&path, 8), None, "{name}");
        }
        assert_eq!(Node::at(Path::new("/dev/kfd"), 8), None);
    }
}
