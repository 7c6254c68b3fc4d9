//! Mappings: of the host, which a file then maps, and of address spaces that RM fills.

use std::sync::Arc;

use hcq_uapi::nv::*;

use super::super::Nv;
use super::super::files::{Node, Prepared};
use super::super::memory::{Dma, Memory, Place, SpaceId};
use super::{Client, Kind};
use crate::machine::{FileId, PAGE, View};

/// `NVOS33_FLAGS_PERSISTENT`, `NVOS33_FLAGS_SKIP_SIZE_CHECK`, `NVOS33_FLAGS_MEM_SPACE`.
const PERSISTENT: Bits = Bits { low: 4, high: 4 };
const SKIP_SIZE_CHECK: Bits = Bits { low: 8, high: 8 };
/// `NVOS46_FLAGS_ACCESS`, `NVOS46_FLAGS_PAGE_SIZE`, `NVOS46_FLAGS_DMA_OFFSET_FIXED`.
const DMA_ACCESS: Bits = Bits { low: 0, high: 1 };
const DMA_FIXED: Bits = Bits { low: 15, high: 15 };
const ACCESS_READ_ONLY: u32 = 1;
const ACCESS_WRITE_ONLY: u32 = 2;
/// USERD, as long as RM maps it.
const USERD: u64 = super::super::channel::USERD_BYTES;

/// The object that a call names as its device.
fn device_gpu(client: &Client, handle: u32) -> Result<usize, u32> {
    match client.object(handle)?.kind {
        Kind::Device { gpu, .. } | Kind::Subdevice { gpu, .. } => Ok(gpu),
        _ => Err(NV_ERR_INVALID_OBJECT_PARENT),
    }
}

impl Nv {
    /// Memory that the host may map, and how much of it.
    fn mappable(&self, client: &Client, handle: u32) -> Result<(Arc<Memory>, u64), u32> {
        match &client.object(handle)?.kind {
            Kind::Memory(memory) => Ok((Arc::clone(memory), memory.bytes)),
            // `kchannelMap_IMPL`: only what RM made itself.
            Kind::Channel(channel) => {
                let channel = self.channels.get(channel).ok_or(NV_ERR_INVALID_CHANNEL)?;
                let userd = channel.own_userd.as_ref().ok_or(NV_ERR_INVALID_REQUEST)?;
                Ok((Arc::clone(userd), USERD))
            }
            _ => Err(NV_ERR_NOT_SUPPORTED),
        }
    }

    /// `NV_ESC_RM_MAP_MEMORY`: `serverMap`, `memMap_IMPL`, `RmCreateMmapContextLocked`, `nv_add_mapping_context_to_file`. The
    /// next `mmap` of the file maps it.
    pub(super) fn map_memory(
        &mut self,
        file: FileId,
        args: &mut NVOS33_PARAMETERS,
        target: Option<(u32, FileId)>,
    ) -> Result<(), u32> {
        let client = self.client(file, args.hClient)?;
        client.object(args.hMemory)?;
        if PERSISTENT.get(args.flags) != 0 {
            return Err(NV_ERR_INVALID_FLAGS);
        }
        let gpu = device_gpu(client, args.hDevice)?;
        let (memory, length) = self.mappable(client, args.hMemory)?;
        if memory.place == Place::User {
            return Err(NV_ERR_NOT_SUPPORTED);
        }
        if args.offset >= length {
            return Err(NV_ERR_INVALID_BASE);
        }
        if args.length == 0 {
            return Err(NV_ERR_INVALID_LIMIT);
        }
        if SKIP_SIZE_CHECK.get(args.flags) != 0 {
            return Err(NV_ERR_INSUFFICIENT_PERMISSIONS);
        }
        let end = args.offset.checked_add(args.length);
        let end = end
            .filter(|&end| end <= length)
            .ok_or(NV_ERR_INVALID_LIMIT)?;
        let block = memory.block().ok_or(NV_ERR_NOT_SUPPORTED)?;
        // `nv_align_mmap_offset_length`.
        let first = args.offset / PAGE * PAGE;
        let bytes = end.next_multiple_of(PAGE) - first;
        let on_card = memory.place != Place::System;
        let (node, named) = target.ok_or(NV_ERR_INVALID_ARGUMENT)?;
        let wanted = if on_card {
            // Memory of a card is mapped through the card's own file.
            Node::Gpu(gpu)
        } else {
            Node::Control
        };
        if Node::of(node) != wanted || on_card && memory.gpu != gpu {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        let taken = self
            .files
            .get(&named)
            .is_some_and(|open| open.prepared.is_some());
        if taken {
            return Err(NV_ERR_STATE_IN_USE);
        }
        // `kbusMapFbAperture`: the window to the card's memory has an end.
        let charge = match memory.place {
            Place::Video => {
                let state = self.gpus.get(gpu).ok_or(NV_ERR_INVALID_DEVICE)?;
                Some(state.window.take(bytes)?)
            }
            _ => None,
        };
        let write = NVOS33_FLAGS_ACCESS.get(args.flags) != ACCESS_READ_ONLY;
        let prepared = Prepared {
            view: View {
                block: Arc::clone(block),
                offset: first,
                at: None,
            },
            bytes,
            write,
            whole: on_card,
        };
        self.next_linear += bytes;
        args.pLinearAddress = self.next_linear - bytes + (args.offset - first);
        memory.maps().insert(args.pLinearAddress, charge);
        if let Some(open) = self.files.get_mut(&named) {
            open.prepared = Some(prepared);
        }
        Ok(())
    }

    /// `NV_ESC_RM_UNMAP_MEMORY`. What the process has mapped by then stays mapped.
    pub(super) fn unmap_memory(
        &mut self,
        file: FileId,
        args: &NVOS34_PARAMETERS,
    ) -> Result<(), u32> {
        let client = self.client(file, args.hClient)?;
        device_gpu(client, args.hDevice)?;
        let (memory, _) = self.mappable(client, args.hMemory)?;
        let gone = memory.maps().remove(&args.pLinearAddress);
        gone.map(|_| ()).ok_or(NV_ERR_OBJECT_NOT_FOUND)
    }

    /// The address space behind a `NV01_MEMORY_VIRTUAL`, and the addresses of it.
    fn mapper(&self, client: &Client, handle: u32) -> Result<(SpaceId, u64, u64), u32> {
        match client.object(handle)?.kind {
            Kind::Virtual {
                space, first, last, ..
            } => {
                let space = space.ok_or(NV_ERR_INVALID_STATE)?;
                Ok((space, first, last))
            }
            _ => Err(NV_ERR_INVALID_OBJECT_HANDLE),
        }
    }

    /// `NV_ESC_RM_MAP_MEMORY_DMA`: `serverInterMap`, `virtmemMapTo_IMPL`.
    pub(super) fn map_dma(
        &mut self,
        file: FileId,
        args: &mut NVOS46_PARAMETERS,
    ) -> Result<(), u32> {
        let client = self.client(file, args.hClient)?;
        let gpu = device_gpu(client, args.hDevice)?;
        let (id, first, last) = self.mapper(client, args.hDma)?;
        let Kind::Memory(memory) = &client.object(args.hMemory)?.kind else {
            return Err(NV_ERR_INVALID_OBJECT_HANDLE);
        };
        let memory = Arc::clone(memory);
        if args.length == 0 || !memory.holds(args.offset, args.length) {
            return Err(NV_ERR_INVALID_LIMIT);
        }
        let access = DMA_ACCESS.get(args.flags);
        if memory.read_only && access != ACCESS_READ_ONLY {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        if access > ACCESS_WRITE_ONLY {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        // Another card's memory is reached only where the cards reach each other.
        if memory.gpu != gpu && memory.place == Place::Video && !self.p2p {
            return Err(NV_ERR_NOT_SUPPORTED);
        }
        // A page is mapped whole.
        let from = args.offset / memory.page * memory.page;
        let lead = args.offset - from;
        let bytes = args
            .length
            .checked_add(lead)
            .and_then(|bytes| bytes.checked_next_multiple_of(memory.page))
            .ok_or(NV_ERR_INVALID_LIMIT)?;
        let space = self.spaces.get_mut(&id).ok_or(NV_ERR_INVALID_OBJECT)?;
        if space.external {
            return Err(NV_ERR_NOT_SUPPORTED);
        }
        let start = if DMA_FIXED.get(args.flags) != 0 {
            let start = args.dmaOffset.checked_sub(lead);
            let start = start.filter(|start| start.is_multiple_of(memory.page));
            start.ok_or(NV_ERR_INVALID_OFFSET)?
        } else {
            space.free_range(bytes, memory.page)?
        };
        let end = start.checked_add(bytes - 1).ok_or(NV_ERR_INVALID_OFFSET)?;
        if start < first || end > last || start < space.first || end > space.last {
            return Err(NV_ERR_INVALID_OFFSET);
        }
        if space.table.overlaps(start, bytes) {
            return Err(NV_ERR_NO_MEMORY);
        }
        let mapping = memory.mapping(gpu, from, bytes, access != ACCESS_READ_ONLY);
        space.table.insert(start, mapping);
        space.dma.insert(
            start,
            Dma {
                bytes,
                memory,
                handle: args.hMemory,
            },
        );
        args.dmaOffset = start + lead;
        Ok(())
    }

    /// `NV_ESC_RM_UNMAP_MEMORY_DMA`. Only whole mappings are taken away.
    pub(super) fn unmap_dma(&mut self, file: FileId, args: &NVOS47_PARAMETERS) -> Result<(), u32> {
        let client = self.client(file, args.hClient)?;
        device_gpu(client, args.hDevice)?;
        let (id, ..) = self.mapper(client, args.hDma)?;
        client.object(args.hMemory)?;
        let space = self.spaces.get_mut(&id).ok_or(NV_ERR_INVALID_OBJECT)?;
        let mapped = space.dma.range(..=args.dmaOffset).next_back();
        let (&start, map) = mapped.ok_or(NV_ERR_OBJECT_NOT_FOUND)?;
        let within = args.dmaOffset - start < map.memory.page.min(map.bytes);
        if !within || map.handle != args.hMemory {
            return Err(NV_ERR_OBJECT_NOT_FOUND);
        }
        if args.size != 0 && args.size.next_multiple_of(map.memory.page) != map.bytes {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        self.clear(id, start, None);
        Ok(())
    }

    /// Takes a mapping of RM's away, or pages of an address space; the GPU's caches forget them first.
    pub(in crate::nv) fn clear(&mut self, id: SpaceId, start: u64, bytes: Option<u64>) {
        let Some(space) = self.spaces.get_mut(&id) else {
            return;
        };
        let mapped = space.dma.remove(&start).map(|map| map.bytes);
        let Some(bytes) = bytes.or(mapped) else {
            return;
        };
        if let Some(gpu) = self.gpus.get_mut(space.gpu) {
            gpu.forget(&space.table);
        }
        space.table.clear(start, bytes);
    }

    /// Memory is freed: what RM has mapped of it goes with it.
    pub(super) fn clear_memory(&mut self, memory: &Arc<Memory>) {
        let mapped: Vec<(SpaceId, u64)> = self
            .spaces
            .iter()
            .flat_map(|(&id, space)| {
                let of_it = move |(&start, map): (&u64, &Dma)| {
                    Arc::ptr_eq(&map.memory, memory).then_some((id, start))
                };
                space.dma.iter().filter_map(of_it)
            })
            .collect();
        for (id, start) in mapped {
            self.clear(id, start, None);
        }
    }
}
