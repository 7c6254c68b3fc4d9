//! Ranges of addresses, and RM's memory in them: `uvm_map_external.c`, `uvm_va_range.c`.

use std::sync::Arc;

use hcq_uapi::nv::*;

use super::super::Nv;
use super::super::memory::{BIG_PAGE, HUGE_PAGE, Memory, Place, SMALL_PAGE, SpaceId};
use super::super::rm::Kind;
use super::{Mapped, Range, Use, Uvm, last_of};
use crate::machine::FileId;

/// `UvmGpuFormatTypeBlockLinear`, `UvmGpuFormatElementBits128`, `UvmGpuCompressionTypeCount`.
const FORMATS: u32 = 2;
const ELEMENT_BITS: u32 = 6;
/// The bits 3 of that enum, 24 bits wide, are nobody's.
const NO_ELEMENT_BITS: u32 = 3;
const COMPRESSIONS: u32 = 3;

/// What is mapped, and where.
pub(super) struct What {
    pub(super) base: u64,
    pub(super) length: u64,
    pub(super) offset: u64,
    pub(super) client: u32,
    pub(super) handle: u32,
}

/// `uvm_api_mapping_type_invalid` and its neighbours.
fn check(how: &UvmGpuMappingAttributes) -> Result<(), u32> {
    let (format, bits) = (how.gpuFormatType, how.gpuElementBits);
    let valid = how.gpuMappingType <= UvmGpuMappingTypeReadOnly
        && how.gpuCachingType <= UvmGpuCachingTypeForceCached
        && how.gpuCompressionType < COMPRESSIONS
        && format < FORMATS
        && bits <= ELEMENT_BITS
        && bits != NO_ELEMENT_BITS
        && (format == 0) == (bits == 0);
    valid.then_some(()).ok_or(NV_ERR_INVALID_ARGUMENT)
}

/// `uvm_mmu_biggest_page_size_up_to`: the page that all of these are multiples of.
fn page_for(all: u64) -> Result<u64, u32> {
    [HUGE_PAGE, BIG_PAGE, SMALL_PAGE]
        .into_iter()
        .find(|page| all & (page - 1) == 0)
        .ok_or(NV_ERR_INVALID_ADDRESS)
}

impl Uvm {
    /// `uvm_va_range_external_find`: the range for RM's memory that holds all of this.
    fn external(&self, base: u64, last: u64) -> Result<(), u32> {
        match self.at(base) {
            Some((_, range)) if matches!(range.what, Use::External) && last <= range.last => Ok(()),
            _ => Err(NV_ERR_INVALID_ADDRESS),
        }
    }

    /// `uvm_unmap_external_in_range`: what is mapped there on a GPU goes; what lies before and behind stays, if the cut is at a
    /// page of that mapping.
    fn cut(&mut self, gpu: usize, base: u64, last: u64) -> Result<(), u32> {
        let touched: Vec<u64> = self
            .mapped
            .range((gpu, 0)..=(gpu, last))
            .filter(|(_, mapped)| mapped.last >= base)
            .map(|(&(_, start), _)| start)
            .collect();
        let odd = |start: u64, mapped: &Mapped| {
            let before = start < base && !base.is_multiple_of(mapped.page);
            let behind = mapped.last > last && !(last + 1).is_multiple_of(mapped.page);
            before || behind
        };
        for &start in &touched {
            if self
                .mapped
                .get(&(gpu, start))
                .is_some_and(|mapped| odd(start, mapped))
            {
                return Err(NV_ERR_INVALID_ADDRESS);
            }
        }
        for start in touched {
            let Some(mapped) = self.mapped.remove(&(gpu, start)) else {
                continue;
            };
            if mapped.last > last {
                let rest = Mapped {
                    from: mapped.from + (last + 1 - start),
                    memory: Arc::clone(&mapped.memory),
                    ..mapped
                };
                self.mapped.insert((gpu, last + 1), rest);
            }
            if start < base {
                let rest = Mapped {
                    last: base - 1,
                    ..mapped
                };
                self.mapped.insert((gpu, start), rest);
            }
        }
        Ok(())
    }
}

impl Nv {
    /// `uvm_api_create_external_range`.
    pub(super) fn uvm_create_range(
        &mut self,
        file: FileId,
        base: u64,
        length: u64,
    ) -> Result<(), u32> {
        let uvm = self.uvm(file)?;
        let last = last_of(base, length)?;
        if uvm.overlaps(base, last) {
            return Err(NV_ERR_UVM_ADDRESS_IN_USE);
        }
        let what = Use::External;
        uvm.ranges.insert(base, Range { last, what });
        Ok(())
    }

    /// `uvm_map_external_allocation`. If a GPU refuses, those before it have nothing mapped there any more.
    pub(super) fn uvm_map(
        &mut self,
        file: FileId,
        what: &What,
        attributes: &[UvmGpuMappingAttributes],
        count: u64,
    ) -> Result<(), u32> {
        self.uvm(file)?;
        let last = last_of(what.base, what.length)?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let attributes = attributes.get(..count).filter(|list| !list.is_empty());
        let attributes = attributes.ok_or(NV_ERR_INVALID_ARGUMENT)?;
        self.uvm(file)?.external(what.base, last)?;
        let mut done: Vec<(usize, SpaceId)> = Vec::new();
        for how in attributes {
            let mapped = self.map_on(file, what, last, how);
            match mapped {
                Ok(member) => done.push(member),
                Err(status) => {
                    for (gpu, space) in done {
                        self.uvm(file)?.cut(gpu, what.base, last)?;
                        self.clear(space, what.base, Some(what.length));
                    }
                    return Err(status);
                }
            }
        }
        Ok(())
    }

    /// `uvm_map_external_allocation_on_gpu`.
    fn map_on(
        &mut self,
        file: FileId,
        what: &What,
        last: u64,
        how: &UvmGpuMappingAttributes,
    ) -> Result<(usize, SpaceId), u32> {
        check(how)?;
        let (gpu, id) = self.mapping_member(file, &how.gpuUuid)?;
        let space = self.spaces.get(&id).ok_or(NV_ERR_INVALID_DEVICE)?;
        // `uvm_gpu_can_address`.
        if last > space.last {
            return Err(NV_ERR_OUT_OF_RANGE);
        }
        self.uvm(file)?.cut(gpu, what.base, last)?;
        self.clear(id, what.base, Some(what.length));
        // `nvGpuOpsDupMemory`.
        let client = self
            .clients
            .get(&what.client)
            .ok_or(NV_ERR_INVALID_CLIENT)?;
        let memory = match &client.object(what.handle)?.kind {
            Kind::Memory(memory) if memory.place != Place::Doorbells => Arc::clone(memory),
            _ => return Err(NV_ERR_INVALID_OBJECT_HANDLE),
        };
        self.may_map(file, gpu, &memory)?;
        let page = page_for(memory.page | what.base | what.length | what.offset)?;
        if !memory.holds(what.offset, what.length) {
            return Err(NV_ERR_INVALID_OFFSET);
        }
        let writable = how.gpuMappingType != UvmGpuMappingTypeReadOnly;
        let mapping = memory.mapping(gpu, what.offset, what.length, writable);
        let space = self.spaces.get_mut(&id).ok_or(NV_ERR_INVALID_DEVICE)?;
        space.table.insert(what.base, mapping);
        let mapped = Mapped {
            last,
            page,
            from: what.offset,
            memory,
        };
        self.uvm(file)?.mapped.insert((gpu, what.base), mapped);
        Ok((gpu, id))
    }

    /// `set_ext_gpu_map_location`: the GPU whose memory it is has joined; another's is reached only as a peer's.
    fn may_map(&mut self, file: FileId, gpu: usize, memory: &Memory) -> Result<(), u32> {
        let home = memory.gpu;
        let video = memory.place == Place::Video;
        let uvm = self.uvm(file)?;
        let joined = uvm.members.contains_key(&home);
        let peers = uvm.peers.contains(&(home.min(gpu), home.max(gpu)));
        if !joined || home != gpu && video && !peers {
            return Err(NV_ERR_INVALID_DEVICE);
        }
        Ok(())
    }

    /// `uvm_unmap_external`.
    pub(super) fn uvm_unmap(
        &mut self,
        file: FileId,
        base: u64,
        length: u64,
        uuid: &nv_uuid,
    ) -> Result<(), u32> {
        self.uvm(file)?;
        let last = last_of(base, length)?;
        self.uvm(file)?.external(base, last)?;
        let gpu = self.member(file, uuid)?;
        let uvm = self.uvm(file)?;
        uvm.cut(gpu, base, last)?;
        let space = uvm.members.get(&gpu).and_then(|member| member.space);
        if let Some(space) = space {
            self.clear(space, base, Some(length));
        }
        Ok(())
    }

    /// `uvm_free`: a whole range, on all GPUs. A branch that names its length must name it right.
    pub(super) fn uvm_free(
        &mut self,
        file: FileId,
        base: u64,
        length: Option<u64>,
    ) -> Result<(), u32> {
        let uvm = self.uvm(file)?;
        let range = uvm.ranges.get(&base).ok_or(NV_ERR_INVALID_ADDRESS)?;
        let last = range.last;
        if let Some(length) = length
            && last_of(base, length)? != last
        {
            return Err(NV_ERR_INVALID_ADDRESS);
        }
        if !matches!(range.what, Use::External) {
            return Err(NV_ERR_INVALID_ADDRESS);
        }
        let members: Vec<(usize, Option<SpaceId>)> = uvm
            .members
            .iter()
            .map(|(&gpu, member)| (gpu, member.space))
            .collect();
        for (gpu, space) in members {
            self.uvm(file)?.cut(gpu, base, last)?;
            if let Some(space) = space {
                self.clear(space, base, Some(last - base + 1));
            }
        }
        self.uvm(file)?.ranges.remove(&base);
        Ok(())
    }

    /// Takes away what other GPUs, or one, have mapped of a GPU's video memory.
    pub(super) fn unmap_memory_of(
        &mut self,
        file: FileId,
        home: usize,
        on: Option<usize>,
    ) -> Result<(), u32> {
        let uvm = self.uvm(file)?;
        let foreign = |gpu: usize, mapped: &Mapped| {
            let there = on.is_none_or(|on| on == gpu) && gpu != home;
            there && mapped.memory.gpu == home && mapped.memory.place == Place::Video
        };
        let gone: Vec<(usize, u64, u64)> = uvm
            .mapped
            .iter()
            .filter(|&(&(gpu, _), mapped)| foreign(gpu, mapped))
            .map(|(&(gpu, start), mapped)| (gpu, start, mapped.last))
            .collect();
        for (gpu, start, last) in gone {
            let uvm = self.uvm(file)?;
            uvm.mapped.remove(&(gpu, start));
            let space = uvm.members.get(&gpu).and_then(|member| member.space);
            if let Some(space) = space {
                self.clear(space, start, Some(last - start + 1));
            }
        }
        Ok(())
    }
}
