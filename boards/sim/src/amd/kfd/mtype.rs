//! How caches treat a page: what the kernel writes into its entry.

use hcq_uapi::kfd::AllocMemFlags;

use crate::amd::chip::MtypeRule;
use crate::vm::{Heap, Mtype};

/// The `MTYPE` of a page of this memory, as seen by a GPU of this rule.
pub(crate) fn mtype(rule: MtypeRule, heap: Heap, flags: AllocMemFlags) -> Mtype {
    let uncached = flags.contains(AllocMemFlags::UNCACHED);
    let ext_coherent = flags.contains(AllocMemFlags::EXT_COHERENT);
    let coherent = flags.contains(AllocMemFlags::COHERENT) || ext_coherent;
    match rule {
        MtypeRule::Gfx94 => match heap {
            _ if uncached => Mtype::Uc,
            Heap::Local if ext_coherent => Mtype::Cc,
            _ if ext_coherent => Mtype::Uc,
            Heap::Local => Mtype::Rw,
            Heap::Peer => Mtype::Nc,
            Heap::System => Mtype::Uc,
        },
        MtypeRule::Gfx11 if coherent || uncached => Mtype::Uc,
        MtypeRule::Gfx12 if uncached => Mtype::Uc,
        MtypeRule::Gfx11 | MtypeRule::Gfx12 => Mtype::Nc,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_treated_as_the_kernel_says() {
        use AllocMemFlags as F;
        let table = [
            (MtypeRule::Gfx94, Heap::Local, F::VRAM, Mtype::Rw),
            (
                MtypeRule::Gfx94,
                Heap::Local,
                F::VRAM | F::COHERENT,
                Mtype::Rw,
            ),
            (
                MtypeRule::Gfx94,
                Heap::Local,
                F::VRAM | F::EXT_COHERENT,
                Mtype::Cc,
            ),
            (
                MtypeRule::Gfx94,
                Heap::Peer,
                F::VRAM | F::EXT_COHERENT,
                Mtype::Uc,
            ),
            (
                MtypeRule::Gfx94,
                Heap::Local,
                F::VRAM | F::UNCACHED,
                Mtype::Uc,
            ),
            (MtypeRule::Gfx94, Heap::Peer, F::VRAM, Mtype::Nc),
            (MtypeRule::Gfx94, Heap::System, F::GTT, Mtype::Uc),
            (MtypeRule::Gfx11, Heap::Local, F::VRAM, Mtype::Nc),
            (
                MtypeRule::Gfx11,
                Heap::System,
                F::GTT | F::COHERENT,
                Mtype::Uc,
            ),
            (
                MtypeRule::Gfx11,
                Heap::System,
                F::GTT | F::UNCACHED,
                Mtype::Uc,
            ),
            (
                MtypeRule::Gfx12,
                Heap::System,
                F::GTT | F::COHERENT,
                Mtype::Nc,
            ),
            (
                MtypeRule::Gfx12,
                Heap::System,
                F::GTT | F::UNCACHED,
                Mtype::Uc,
            ),
        ];
        for (rule, heap, flags, expected) in table {
            assert_eq!(
                mtype(rule, heap, flags),
                expected,
                "{rule:?} {heap:?} {flags:?}"
            );
        }
    }
}
