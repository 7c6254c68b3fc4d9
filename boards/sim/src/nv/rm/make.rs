//! Objects of devices and memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hcq_uapi::nv::*;

use super::super::Nv;
use super::super::memory::{BIG_PAGE, HUGE_PAGE, Memory, Place, SMALL_PAGE, Space, SpaceId, block};
use super::{Kind, Making};
use crate::machine::{FileId, PAGE, user};
use crate::vm::Backing;

/// `NV_DEVICE_ALLOCATION_VAMODE_SINGLE_VASPACE`.
const MODE_SINGLE: u32 = 1;
/// `NV_DEVICE_ALLOCATION_VAMODE_MULTIPLE_VASPACES`.
const MODE_MULTIPLE: u32 = 2;
/// `NV_MEMORY_VIRTUAL_SYSMEM_DYNAMIC_HVASPACE`.
const NO_SPACE: u32 = u32::MAX;
/// `NVOS32_ALLOC_FLAGS_*` that the rules here depend on.
const USE_BEGIN_END: u32 = 0x0002_0000;
const ENCRYPTED: u32 = 0x0004_0000;
const VIRTUAL: u32 = 0x0008_0000;
const ALIGNMENT_HINT: u32 = 0x0000_0080;
const FIXED_ADDRESS: u32 = 0x0000_0010;
/// `NVOS32_ATTR2_PROTECTION_DEVICE`.
const PROTECTION_DEVICE: u32 = 1 << 23;
/// `HEAP_OWNER_RM_SCRATCH_BEGIN`, `HEAP_OWNER_RM_SCRATCH_END`.
const OWN_OWNERS: std::ops::RangeInclusive<u32> = 0xFFFE_FFF0..=0xFFFE_FFFF;
/// Bytes of a page that is longer than 2 MiB: nobody simulates those.
const HUGE_2MB: [u32; 2] = [0, NVOS32_ATTR2_PAGE_SIZE_HUGE_2MB];

impl Nv {
    fn gpu_index(&self, making: &Making) -> Result<usize, u32> {
        making
            .gpu
            .filter(|&gpu| gpu < self.gpus.len())
            .ok_or(NV_ERR_INVALID_OBJECT_PARENT)
    }

    /// `deviceConstruct_IMPL`, `deviceInit_IMPL`. Without parameters it is the first device.
    pub(super) fn make_device(&mut self, making: &Making) -> Result<Kind, u32> {
        let params = match making.params {
            0 => NV0080_ALLOC_PARAMETERS::default(),
            address => self.params(address)?,
        };
        let gpu = usize::try_from(params.deviceId).map_err(|_| NV_ERR_INVALID_CLASS)?;
        if gpu >= self.gpus.len() {
            return Err(NV_ERR_INVALID_CLASS);
        }
        if params.vaMode > MODE_MULTIPLE {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        Ok(Kind::Device {
            gpu,
            mode: params.vaMode,
            space: None,
        })
    }

    /// `subdeviceConstruct_IMPL`. A device has one.
    pub(super) fn make_subdevice(&mut self, making: &Making) -> Result<Kind, u32> {
        let params = match making.params {
            0 => NV2080_ALLOC_PARAMETERS::default(),
            address => self.params(address)?,
        };
        if params.subDeviceId != 0 {
            return Err(NV_ERR_INVALID_CLASS);
        }
        let gpu = self.gpu_index(making)?;
        Ok(Kind::Subdevice {
            gpu,
            told: BTreeMap::new(),
        })
    }

    /// `vaspaceapiConstruct_IMPL`.
    pub(super) fn make_space(&mut self, making: &Making) -> Result<Kind, u32> {
        let mut params: NV_VASPACE_ALLOCATION_PARAMETERS = self.params(making.params)?;
        let gpu = self.gpu_index(making)?;
        let (device, mode) = self.device(making.client, making.parent)?;
        if mode == MODE_SINGLE {
            return Err(NV_ERR_INVALID_STATE);
        }
        // `NV_VASPACE_ALLOCATION_INDEX_GPU_DEVICE`: the device's own, once more.
        if params.index == 3 {
            let space = self.default_space(making.client, device)?;
            return Ok(Kind::Space(space));
        }
        if params.index != NV_VASPACE_ALLOCATION_INDEX_GPU_NEW
            || !matches!(params.bigPageSize, 0 | 0x1_0000 | 0x2_0000)
        {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        // No GPU here shares the host's page tables.
        if params.flags.contains(VaspaceFlags::ENABLE_NVLINK_ATS) {
            return Err(NV_ERR_NOT_SUPPORTED);
        }
        let end = 1u64 << self.chip.address_bits;
        let mut last = end - 1;
        if params.vaSize != 0 {
            let bytes = params.vaBase.checked_add(params.vaSize - 1);
            last = bytes.ok_or(NV_ERR_INVALID_ARGUMENT)?;
        }
        // `gvaspaceConstruct__IMPL`: within what the page tables can say.
        if last >= end || params.vaBase > last {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        let external = params.flags.contains(VaspaceFlags::IS_EXTERNALLY_OWNED);
        let zero = params.flags.contains(VaspaceFlags::ALLOW_ZERO_ADDRESS);
        let first = if params.vaBase == 0 && !zero {
            BIG_PAGE
        } else {
            params.vaBase
        };
        let id = self.add_space(Space::new(gpu, external, first, last));
        params.vaBase = first;
        params.vaSize = last - first + 1;
        self.give(making.params, &params)?;
        Ok(Kind::Space(id))
    }

    pub(in crate::nv) fn add_space(&mut self, space: Space) -> SpaceId {
        self.next_space += 1;
        self.spaces.insert(self.next_space, space);
        self.next_space
    }

    /// The device that an object hangs below, and its mode.
    fn device(&self, client: u32, handle: u32) -> Result<(u32, u32), u32> {
        let client = self.clients.get(&client).ok_or(NV_ERR_INVALID_CLIENT)?;
        let device = client
            .device_of(handle)
            .ok_or(NV_ERR_INVALID_OBJECT_PARENT)?;
        match client.object(device)?.kind {
            Kind::Device { mode, .. } => Ok((device, mode)),
            _ => Err(NV_ERR_INVALID_OBJECT_PARENT),
        }
    }

    /// `deviceGetDefaultVASpace_IMPL`: the device's own address space, unless it is to have none.
    fn default_space(&mut self, client: u32, device: u32) -> Result<SpaceId, u32> {
        let object = self
            .object_mut(client, device)
            .ok_or(NV_ERR_OBJECT_NOT_FOUND)?;
        let Kind::Device { gpu, mode, space } = object.kind else {
            return Err(NV_ERR_INVALID_OBJECT);
        };
        if mode == MODE_MULTIPLE {
            return Err(NV_ERR_INVALID_STATE);
        }
        if let Some(space) = space {
            return Ok(space);
        }
        let last = (1u64 << self.chip.address_bits) - 1;
        let id = self.add_space(Space::new(gpu, false, HUGE_PAGE, last));
        if let Some(Object { kind, .. }) = self.object_mut(client, device) {
            *kind = Kind::Device {
                gpu,
                mode,
                space: Some(id),
            };
        }
        Ok(id)
    }

    /// `vaspaceGetByHandleOrDeviceDefault`.
    pub(super) fn space_or_default(
        &mut self,
        client: u32,
        below: u32,
        handle: u32,
    ) -> Result<SpaceId, u32> {
        if handle == 0 {
            let (device, _) = self.device(client, below)?;
            return self.default_space(client, device);
        }
        let owner = self.clients.get(&client).ok_or(NV_ERR_INVALID_CLIENT)?;
        match owner.object(handle)?.kind {
            Kind::Space(space) => Ok(space),
            _ => Err(NV_ERR_INVALID_OBJECT_HANDLE),
        }
    }

    /// `vmrangeConstruct_IMPL`.
    pub(super) fn make_virtual(&mut self, making: &Making) -> Result<(Kind, Vec<u32>), u32> {
        let mut params: NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS = self.params(making.params)?;
        let mut needs = Vec::new();
        let mut last = (1u64 << self.chip.address_bits) - 1;
        let space = match params.hVASpace {
            NO_SPACE => {
                last = (1 << 40) - 1;
                None
            }
            // Without a handle it is the device's own, if that has one.
            0 => self.space_or_default(making.client, making.parent, 0).ok(),
            handle => {
                let space = self.space_or_default(making.client, making.parent, handle)?;
                needs.push(handle);
                Some(space)
            }
        };
        if let Some(space) = space.and_then(|space| self.spaces.get(&space)) {
            last = space.last;
        }
        if params.limit != 0 {
            if params.limit > last {
                return Err(NV_ERR_INVALID_LIMIT);
            }
            last = params.limit;
        }
        if params.offset > last {
            return Err(NV_ERR_INVALID_OFFSET);
        }
        params.limit = last;
        self.give(making.params, &params)?;
        let kind = Kind::Virtual {
            space,
            first: params.offset,
            last,
        };
        Ok((kind, needs))
    }

    /// `stdmemValidateParams`, `memmgrDeterminePageSize_IMPL`, `memmgrAllocDetermineAlignment_GM107`: the size of pages.
    fn check_memory(&self, params: &NV_MEMORY_ALLOCATION_PARAMS, video: bool) -> Result<u64, u32> {
        let flags = params.flags.bits();
        if params.internalflags != 0 || params.size == 0 {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        if params.owner == 0 || params.owner == u32::MAX || OWN_OWNERS.contains(&params.owner) {
            return Err(NV_ERR_INVALID_OWNER);
        }
        if flags & USE_BEGIN_END == 0 && (params.rangeLo, params.rangeHi) != (0, 0) {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        if flags & ENCRYPTED != 0 || flags & VIRTUAL != 0 {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        let here = NVOS32_ATTR_LOCATION.get(params.attr) == NVOS32_ATTR_LOCATION_VIDMEM;
        if here != video {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        let page = match NVOS32_ATTR_PAGE_SIZE.get(params.attr) {
            NVOS32_ATTR_PAGE_SIZE_4KB => SMALL_PAGE,
            NVOS32_ATTR_PAGE_SIZE_BIG => BIG_PAGE,
            NVOS32_ATTR_PAGE_SIZE_HUGE => {
                if !HUGE_2MB.contains(&NVOS32_ATTR2_PAGE_SIZE_HUGE.get(params.attr2)) {
                    return Err(NV_ERR_INVALID_ARGUMENT);
                }
                HUGE_PAGE
            }
            _ if !video => SMALL_PAGE,
            _ if params.size >= HUGE_PAGE => HUGE_PAGE,
            _ => BIG_PAGE,
        };
        let align = params.alignment;
        let fits = align.is_multiple_of(page) || (align != 0 && page.is_multiple_of(align));
        if params.flags.contains(AllocFlags::ALIGNMENT_FORCE) && align != 0 && !fits {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        Ok(page)
    }

    /// The answer about memory that was made.
    fn told(
        &self,
        making: &Making,
        mut params: NV_MEMORY_ALLOCATION_PARAMS,
        memory: &Memory,
    ) -> Result<(), u32> {
        let (size, huge) = match memory.page {
            SMALL_PAGE => (NVOS32_ATTR_PAGE_SIZE_4KB, 0),
            BIG_PAGE => (NVOS32_ATTR_PAGE_SIZE_BIG, 0),
            _ => (NVOS32_ATTR_PAGE_SIZE_HUGE, NVOS32_ATTR2_PAGE_SIZE_HUGE_2MB),
        };
        let set = |word: u32, field: Bits, value| word & !field.put(u32::MAX) | field.put(value);
        params.attr = set(params.attr, NVOS32_ATTR_PAGE_SIZE, size);
        params.attr2 = set(params.attr2, NVOS32_ATTR2_PAGE_SIZE_HUGE, huge);
        params.size = memory.bytes;
        params.limit = memory.bytes - 1;
        params.offset = match memory.place {
            Place::Video => memory.physical,
            _ => 0,
        };
        params.address = 0;
        self.give(making.params, &params)
    }

    /// `vidmemConstruct_IMPL`.
    pub(super) fn make_video(&mut self, making: &Making) -> Result<Kind, u32> {
        let params: NV_MEMORY_ALLOCATION_PARAMS = self.params(making.params)?;
        let gpu = self.gpu_index(making)?;
        let page = self.check_memory(&params, true)?;
        if params.flags.bits() & FIXED_ADDRESS != 0 {
            // The heap gives no address twice, and says beforehand none.
            return Err(NV_ERR_NO_MEMORY);
        }
        let bytes = params
            .size
            .checked_next_multiple_of(page)
            .ok_or(NV_ERR_NO_MEMORY)?;
        let align = match params.flags.bits() & ALIGNMENT_HINT != 0
            || params.flags.contains(AllocFlags::ALIGNMENT_FORCE)
        {
            true => params.alignment.max(page),
            false => page,
        };
        let state = self.gpus.get_mut(gpu).ok_or(NV_ERR_INVALID_OBJECT_PARENT)?;
        let charge = state.vram.take(bytes)?;
        let physical = state
            .next_physical
            .checked_next_multiple_of(align)
            .ok_or(NV_ERR_NO_MEMORY)?;
        let (block, bytes) = block(&self.store, bytes, page)?;
        state.next_physical = physical.saturating_add(bytes);
        let memory = Memory {
            gpu,
            place: Place::Video,
            bytes,
            page,
            backing: Backing::Block(block),
            read_only: params.attr2 & PROTECTION_DEVICE != 0,
            physical,
            charge: Some(charge),
            host_maps: Mutex::new(BTreeMap::new()),
        };
        self.told(making, params, &memory)?;
        Ok(Kind::Memory(Arc::new(memory)))
    }

    /// `sysmemConstruct_IMPL`.
    pub(super) fn make_system(&mut self, making: &Making) -> Result<Kind, u32> {
        let params: NV_MEMORY_ALLOCATION_PARAMS = self.params(making.params)?;
        let gpu = self.gpu_index(making)?;
        let page = self.check_memory(&params, false)?;
        let memory = self.system_memory(gpu, params.size, page, params.attr2)?;
        self.told(making, params, &memory)?;
        Ok(Kind::Memory(Arc::new(memory)))
    }

    fn system_memory(
        &mut self,
        gpu: usize,
        bytes: u64,
        page: u64,
        attr2: u32,
    ) -> Result<Memory, u32> {
        let bytes = bytes
            .checked_next_multiple_of(page)
            .ok_or(NV_ERR_NO_MEMORY)?;
        let charge = self.system.take(bytes)?;
        let (block, bytes) = block(&self.store, bytes, page)?;
        Ok(Memory {
            gpu,
            place: Place::System,
            bytes,
            page,
            backing: Backing::Block(block),
            read_only: attr2 & PROTECTION_DEVICE != 0,
            physical: 0,
            charge: Some(charge),
            host_maps: Mutex::new(BTreeMap::new()),
        })
    }

    /// `NV_ESC_RM_ALLOC_MEMORY`: `RmAllocOsDescriptor`, `RmCreateOsDescriptor`. The new object's handle.
    pub(super) fn alloc_memory(
        &mut self,
        file: FileId,
        args: &NVOS02_PARAMETERS,
    ) -> Result<u32, u32> {
        if args.hClass != NV01_MEMORY_SYSTEM_OS_DESCRIPTOR {
            self.report(format!(
                "class {:#x} is not simulated in NV_ESC_RM_ALLOC_MEMORY",
                args.hClass
            ));
            return Err(NV_ERR_NOT_SUPPORTED);
        }
        if NVOS02_FLAGS_LOCATION.get(args.flags) != NVOS02_FLAGS_LOCATION_PCI
            || NVOS02_FLAGS_MAPPING.get(args.flags) != NVOS02_FLAGS_MAPPING_NO_MAP
            || !matches!(
                NVOS02_FLAGS_COHERENCY.get(args.flags),
                NVOS02_FLAGS_COHERENCY_UNCACHED
                    | NVOS02_FLAGS_COHERENCY_CACHED
                    | NVOS02_FLAGS_COHERENCY_WRITE_BACK
            )
        {
            return Err(NV_ERR_INVALID_FLAGS);
        }
        if !args.pMemory.is_multiple_of(PAGE) {
            return Err(NV_ERR_NOT_SUPPORTED);
        }
        let bytes = args.limit.checked_add(1).ok_or(NV_ERR_INVALID_LIMIT)?;
        let whole = bytes
            .checked_next_multiple_of(PAGE)
            .ok_or(NV_ERR_INVALID_LIMIT)?;
        // `os_lock_user_pages`.
        if !user::access_ok(args.pMemory, whole) || !user::is_mapped(args.pMemory, whole) {
            return Err(NV_ERR_INVALID_ADDRESS);
        }
        let owner = self.client(file, args.hRoot)?;
        match owner.object(args.hObjectParent)?.kind {
            Kind::Device { .. } => {}
            _ => return Err(NV_ERR_INVALID_OBJECT_PARENT),
        }
        let gpu = owner.gpu_of(args.hObjectParent);
        let gpu = gpu.ok_or(NV_ERR_INVALID_OBJECT_PARENT)?;
        let handle = self.new_handle(args.hRoot, args.hObjectNew)?;
        let read_only = NVOS02_FLAGS_ALLOC_DEVICE_READ_ONLY.get(args.flags) != 0
            || NVOS02_FLAGS_ALLOC_USER_READ_ONLY.get(args.flags) != 0;
        let memory = Memory {
            gpu,
            place: Place::User,
            bytes: whole,
            page: SMALL_PAGE,
            backing: Backing::User(args.pMemory),
            read_only,
            physical: 0,
            charge: None,
            host_maps: Mutex::new(BTreeMap::new()),
        };
        let object = Object {
            parent: args.hObjectParent,
            class: args.hClass,
            family: super::Family::System,
            kind: Kind::Memory(Arc::new(memory)),
            needs: Vec::new(),
        };
        let owner = self
            .clients
            .get_mut(&args.hRoot)
            .ok_or(NV_ERR_INVALID_CLIENT)?;
        owner.objects.insert(handle, object);
        Ok(handle)
    }

    /// `usrmodeConstruct_IMPL`. Whichever way it is mapped, it is the same page.
    pub(super) fn make_doorbells(&mut self, making: &Making) -> Result<Kind, u32> {
        let gpu = self.gpu_index(making)?;
        if !self.chip.usermode.contains(&making.class) {
            return Err(NV_ERR_INVALID_CLASS);
        }
        if making.class >= HOPPER_USERMODE_A && making.params != 0 {
            let params: NV_HOPPER_USERMODE_A_PARAMS = self.params(making.params)?;
            if params.bPriv != 0 {
                return Err(if params.bBar1Mapping == 0 {
                    NV_ERR_INVALID_PARAMETER
                } else {
                    NV_ERR_INSUFFICIENT_PERMISSIONS
                });
            }
        }
        let state = self.gpus.get(gpu).ok_or(NV_ERR_INVALID_OBJECT_PARENT)?;
        Ok(Kind::Memory(Arc::new(Memory {
            gpu,
            place: Place::Doorbells,
            bytes: u64::from(NVC361_NV_USERMODE__SIZE),
            page: SMALL_PAGE,
            backing: Backing::Block(Arc::clone(&state.doorbells)),
            read_only: false,
            physical: 0,
            charge: None,
            host_maps: Mutex::new(BTreeMap::new()),
        })))
    }
}

use super::Object;
