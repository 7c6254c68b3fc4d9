//! An opened GPU: its objects, its address space, and what it says of itself.

use std::sync::{Arc, Mutex};

use hcq_nv::chips::{CHIPS, Chip};
use hcq_nv::local_memory::Topology;
use hcq_uapi::nv::{self, NVXXXX_CTRL_XXX_INFO, VaspaceFlags};

use super::advice;
use super::call::{self, File, Refusal};
use super::event::Events;
use super::process::Card;
use super::root::{Object, Root};
use crate::Error;
use crate::clock::{Calibration, Clocks, Track};
use crate::heap::lock;
use crate::mapping::Mapping;

/// Addresses of a GPU's address space: all but what nobody should use.
const VA_START: u64 = 0x1000;
const VA_BYTES: u64 = 0x1_ffff_fb00_0000;
/// The clock counts nanoseconds.
const TICK_NS: u32 = 1;

/// What the driver says of a GPU.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) chip: &'static Chip,
    /// `NV2080_CTRL_GR_INFO_INDEX_SM_VERSION`.
    pub(super) sm_version: u32,
    pub(super) topology: Topology,
    /// The name that people know it by.
    pub(super) name: String,
    pub(super) memory_bytes: u64,
    /// Bytes of the window that the host sees memory through.
    pub(super) window_bytes: u64,
    /// Who may compute on it.
    pub(super) rules: u32,
}

impl Facts {
    /// SMs that there may be.
    pub(super) const fn sms(&self) -> u32 {
        let Topology {
            gpcs,
            tpcs_per_gpc,
            sms_per_tpc,
            ..
        } = self.topology;
        gpcs.saturating_mul(tpcs_per_gpc)
            .saturating_mul(sms_per_tpc)
    }

    /// Whether the host sees all of the GPU's memory.
    pub(super) const fn has_large_window(&self) -> bool {
        self.window_bytes >= self.memory_bytes
    }
}

/// A GPU that UVM knows, forgotten when this is dropped.
#[derive(Debug)]
struct Registered {
    root: Arc<Root>,
    uuid: nv::nv_uuid,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let _ = self.root.uvm_back(nv::UVM_UNREGISTER_GPU_PARAMS {
            gpu_uuid: self.uuid,
            rmStatus: 0,
        });
    }
}

/// An address space that UVM fills, given back when this is dropped.
#[derive(Debug)]
struct RegisteredSpace {
    root: Arc<Root>,
    uuid: nv::nv_uuid,
}

impl Drop for RegisteredSpace {
    fn drop(&mut self) {
        let _ = self.root.uvm_back(nv::UVM_UNREGISTER_GPU_VASPACE_PARAMS {
            gpuUuid: self.uuid,
            rmStatus: 0,
        });
    }
}

/// A GPU of the process. Fields are dropped in their order: what hangs below something comes before it.
#[derive(Debug)]
pub(crate) struct Gpu {
    /// `None` if the driver has none for this process.
    events: Option<Events>,
    doorbells: Mapping,
    _usermode: Object,
    _space: RegisteredSpace,
    vaspace: Object,
    _registered: Registered,
    subdevice: Object,
    device: Object,
    file: Arc<File>,
    root: Arc<Root>,
    name: String,
    ordinal: usize,
    card: Card,
    uuid: nv::nv_uuid,
    facts: Facts,
    track: Mutex<Option<Track>>,
}

impl Gpu {
    pub(super) fn open(
        root: &Arc<Root>,
        name: String,
        ordinal: usize,
        card: Card,
    ) -> Result<Self, Error> {
        let failed = |operation: &'static str| {
            let name = name.clone();
            move |refusal: Refusal| refusal.of(&name, operation, advice::refused(refusal))
        };
        let file = Arc::new(open_file(root, &name, &card)?);
        let mut id = nv::NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS {
            gpuId: card.gpu_id,
            ..Default::default()
        };
        root.control(root.client, nv::NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2, &mut id)
            .map_err(failed("GPU_GET_ID_INFO"))?;
        let mut params = nv::NV0080_ALLOC_PARAMETERS {
            deviceId: id.deviceInstance,
            hClientShare: root.client,
            vaMode: nv::NV_DEVICE_ALLOCATION_VAMODE_OPTIONAL_MULTIPLE_VASPACES,
            ..Default::default()
        };
        let device = root
            .object_with(root.client, nv::NV01_DEVICE_0, &mut params)
            .map_err(failed("RM_ALLOC of the device"))?;
        let mut params = nv::NV2080_ALLOC_PARAMETERS {
            subDeviceId: id.subDeviceInstance,
        };
        let subdevice = root
            .object_with(device.handle(), nv::NV20_SUBDEVICE_0, &mut params)
            .map_err(failed("RM_ALLOC of the subdevice"))?;
        let facts = facts(root, &name, device.handle(), subdevice.handle())?;
        let uuid = uuid(root, subdevice.handle()).map_err(failed("GPU_GET_GID_INFO"))?;

        let registered = register(root, uuid).map_err(failed("UVM_REGISTER_GPU"))?;
        let mut params = nv::NV_VASPACE_ALLOCATION_PARAMETERS {
            index: nv::NV_VASPACE_ALLOCATION_INDEX_GPU_NEW,
            flags: VaspaceFlags::IS_EXTERNALLY_OWNED | VaspaceFlags::ENABLE_PAGE_FAULTING,
            vaBase: VA_START,
            vaSize: VA_BYTES,
            ..Default::default()
        };
        let vaspace = root
            .object_with(device.handle(), nv::FERMI_VASPACE_A, &mut params)
            .map_err(failed("RM_ALLOC of an address space"))?;
        let space = register_space(root, uuid, vaspace.handle())
            .map_err(failed("UVM_REGISTER_GPU_VASPACE"))?;

        let class = u32::from(facts.chip.classes.usermode);
        let usermode = root
            .object(subdevice.handle(), class)
            .map_err(failed("RM_ALLOC of doorbells"))?;
        let bytes = nv::NVC361_NV_USERMODE__SIZE as usize;
        let mapped = open_file(root, &name, &card)?;
        let place = (usermode.handle(), bytes, None);
        let doorbells = map_through(root, &name, &mapped, device.handle(), place)?;
        let events = Events::new(root, &file, subdevice.handle()).ok();
        Ok(Self {
            events,
            doorbells,
            _usermode: usermode,
            _space: space,
            vaspace,
            _registered: registered,
            subdevice,
            device,
            file,
            root: Arc::clone(root),
            name,
            ordinal,
            card,
            uuid,
            facts,
            track: Mutex::default(),
        })
    }

    pub(super) fn root(&self) -> &Arc<Root> {
        &self.root
    }

    /// For messages: `nv:0`.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) const fn ordinal(&self) -> usize {
        self.ordinal
    }

    pub(super) const fn uuid(&self) -> nv::nv_uuid {
        self.uuid
    }

    pub(super) const fn facts(&self) -> &Facts {
        &self.facts
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) const fn device(&self) -> u32 {
        self.device.handle()
    }

    pub(super) const fn vaspace(&self) -> u32 {
        self.vaspace.handle()
    }

    /// What a host that waits for this GPU sleeps on.
    pub(super) const fn events(&self) -> Option<&Events> {
        self.events.as_ref()
    }

    /// The registers where channels are told of work.
    pub(super) const fn doorbells(&self) -> &Mapping {
        &self.doorbells
    }

    /// Maps its own memory for the host, at `near` if nothing is there.
    pub(super) fn map_own(&self, memory: u32, bytes: usize, near: u64) -> Result<Mapping, Error> {
        let file = open_file(&self.root, &self.name, &self.card)?;
        let place = (memory, bytes, Some(near));
        map_through(&self.root, &self.name, &file, self.device(), place)
    }

    /// Maps system memory that the driver allocated.
    pub(super) fn map_system(&self, memory: u32, bytes: usize) -> Result<Mapping, Error> {
        let file = File::open(&self.root.system, super::process::CTL);
        let file =
            file.map_err(|errno| self.failed("open of a file to map", Refusal::System(errno)))?;
        map_through(
            &self.root,
            &self.name,
            &file,
            self.device(),
            (memory, bytes, None),
        )
    }

    /// An error of this GPU's driver.
    pub(super) fn failed(&self, operation: &str, refusal: Refusal) -> Error {
        refusal.of(&self.name, operation, advice::refused(refusal))
    }

    /// Reads both clocks: the narrowest of a few tries.
    fn clocks(&self) -> Result<Clocks, Error> {
        let system = &*self.root.system;
        let mut best: Option<Clocks> = None;
        for _ in 0..4 {
            let mut params = nv::NV2080_CTRL_TIMER_GET_TIME_PARAMS::default();
            let before = system.now_ns();
            self.root
                .control(
                    self.subdevice.handle(),
                    nv::NV2080_CTRL_CMD_TIMER_GET_TIME,
                    &mut params,
                )
                .map_err(|refusal| self.failed("TIMER_GET_TIME", refusal))?;
            let width_ns = system.now_ns().saturating_sub(before);
            let clocks = Clocks {
                gpu_ticks: params.time_nsec,
                system_ns: before.saturating_add(width_ns / 2),
                width_ns,
            };
            if best.is_none_or(|best| width_ns < best.width_ns) {
                best = Some(clocks);
            }
        }
        best.ok_or(Error::Internal("a clock was never read"))
    }

    /// The line from its clock to the host's as measured by now.
    pub(super) fn calibrate(&self) -> Result<Calibration, Error> {
        let now = self.clocks()?;
        let mut track = lock(&self.track);
        let track = track.get_or_insert(Track::new(now, TICK_NS));
        track.add(now);
        Ok(track.line())
    }

    /// Nanoseconds by which times may be off that were told of ticks since the first measurement; 0 before it.
    pub(super) fn clock_error_ns(&self) -> u64 {
        lock(&self.track).map_or(0, |track| track.error_ns())
    }
}

/// The GPU's node, tied to the client's file.
fn open_file(root: &Arc<Root>, name: &str, card: &Card) -> Result<File, Error> {
    let path = card.node();
    let file = File::open(&root.system, &path).map_err(|errno| Error::Unavailable {
        name: name.into(),
        reason: format!("open {path}: {errno}"),
        hint: advice::node(&*root.system, &path, errno),
    })?;
    let mut argument = nv::nv_ioctl_register_fd {
        ctl_fd: root.ctl.handle().raw(),
    };
    call::call(&*root.system, file.handle(), &mut argument).map_err(|errno| {
        let refusal = Refusal::System(errno);
        refusal.of(name, "REGISTER_FD", advice::refused(refusal))
    })?;
    Ok(file)
}

/// Maps memory through a file of its own, since each file takes one mapping.
fn map_through(
    root: &Arc<Root>,
    name: &str,
    file: &File,
    device: u32,
    (memory, bytes, near): (u32, usize, Option<u64>),
) -> Result<Mapping, Error> {
    let mut argument = nv::nv_ioctl_nvos33_parameters_with_fd {
        params: nv::NVOS33_PARAMETERS {
            hClient: root.client,
            hDevice: device,
            hMemory: memory,
            length: bytes as u64,
            flags: nv::NVOS33_FLAGS_CACHING_TYPE.put(nv::NVOS33_FLAGS_CACHING_TYPE_DEFAULT),
            ..Default::default()
        },
        fd: file.handle().raw(),
        pad: 0,
    };
    let failed = |operation: &'static str| {
        move |refusal: Refusal| {
            if refusal.is_exhausted() {
                let (bytes, errno) = (bytes as u64, refusal.errno());
                return Error::OutOfMemory { bytes, errno };
            }
            refusal.of(name, operation, advice::refused(refusal))
        }
    };
    call::ask(&*root.system, root.ctl.handle(), &mut argument).map_err(failed("RM_MAP_MEMORY"))?;
    let mapping = Mapping::near(&root.system, Some((file.handle(), 0)), bytes, near);
    mapping.map_err(|errno| failed("mmap")(Refusal::System(errno)))
}

fn uuid(root: &Root, subdevice: u32) -> Result<nv::nv_uuid, Refusal> {
    let mut gid = nv::NV2080_CTRL_GPU_GET_GID_INFO_PARAMS {
        flags: nv::NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT
            .put(nv::NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY),
        length: 16,
        ..Default::default()
    };
    root.control(subdevice, nv::NV2080_CTRL_CMD_GPU_GET_GID_INFO, &mut gid)?;
    let first = gid.data.first_chunk::<16>();
    Ok(nv::nv_uuid {
        uuid: first.copied().unwrap_or_default(),
    })
}

fn register(root: &Arc<Root>, uuid: nv::nv_uuid) -> Result<Registered, Refusal> {
    let mut argument = nv::UVM_REGISTER_GPU_PARAMS {
        gpu_uuid: uuid,
        rmCtrlFd: -1,
        ..Default::default()
    };
    root.uvm(&mut argument)?;
    Ok(Registered {
        root: Arc::clone(root),
        uuid,
    })
}

fn register_space(
    root: &Arc<Root>,
    uuid: nv::nv_uuid,
    vaspace: u32,
) -> Result<RegisteredSpace, Refusal> {
    let mut argument = nv::UVM_REGISTER_GPU_VASPACE_PARAMS {
        gpuUuid: uuid,
        rmCtrlFd: root.ctl.handle().raw(),
        hClient: root.client,
        hVaSpace: vaspace,
        rmStatus: 0,
    };
    root.uvm(&mut argument)?;
    Ok(RegisteredSpace {
        root: Arc::clone(root),
        uuid,
    })
}

/// The newest chip whose classes are all in a GPU's list.
pub(super) fn chip_of(classes: &[u32]) -> Option<&'static Chip> {
    CHIPS.iter().rev().find(|chip| {
        let c = chip.classes;
        [c.compute, c.channel, c.copy, c.usermode]
            .iter()
            .all(|class| classes.contains(&u32::from(*class)))
    })
}

fn facts(root: &Arc<Root>, name: &str, device: u32, subdevice: u32) -> Result<Facts, Error> {
    let failed = |operation: &'static str| {
        move |refusal: Refusal| refusal.of(name, operation, advice::refused(refusal))
    };
    let classes = classes(root, device).map_err(failed("GPU_GET_CLASSLIST"))?;
    let chip = chip_of(&classes).ok_or_else(|| {
        let compute: Vec<String> = classes
            .iter()
            .filter(|class| **class > 0xb000 && **class & 0xff == 0xc0)
            .map(|class| format!("{class:#x}"))
            .collect();
        Error::Unavailable {
            name: name.into(),
            reason: format!(
                "the GPU is of a generation that is not known here (compute classes: {})",
                compute.join(", ")
            ),
            hint: "Ampere, Ada, Hopper and Blackwell are known; use another GPU, or `cpu`".into(),
        }
    })?;
    const GR: [u32; 5] = [
        nv::NV2080_CTRL_GR_INFO_INDEX_SM_VERSION,
        nv::NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_GPCS,
        nv::NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_TPC_PER_GPC,
        nv::NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_SM_PER_TPC,
        nv::NV2080_CTRL_GR_INFO_INDEX_MAX_WARPS_PER_SM,
    ];
    let mut list = GR.map(|index| NVXXXX_CTRL_XXX_INFO { index, data: 0 });
    let _: nv::NV2080_CTRL_GR_GET_INFO_PARAMS = root
        .control_list(subdevice, nv::NV2080_CTRL_CMD_GR_GET_INFO, &mut list)
        .map_err(failed("GR_GET_INFO"))?;
    let [sm_version, gpcs, tpcs_per_gpc, sms_per_tpc, warps_per_sm] = list.map(|info| info.data);
    const FB: [u32; 2] = [
        nv::NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE,
        nv::NV2080_CTRL_FB_INFO_INDEX_BAR1_SIZE,
    ];
    let mut list = FB.map(|index| NVXXXX_CTRL_XXX_INFO { index, data: 0 });
    let _: nv::NV2080_CTRL_FB_GET_INFO_PARAMS = root
        .control_list(subdevice, nv::NV2080_CTRL_CMD_FB_GET_INFO, &mut list)
        .map_err(failed("FB_GET_INFO"))?;
    let [memory_bytes, window_bytes] = list.map(|info| u64::from(info.data) << 10);
    let rules = rules(root, subdevice);
    if rules == nv::NV2080_CTRL_GPU_COMPUTE_MODE_RULES_COMPUTE_PROHIBITED {
        return Err(Error::Unavailable {
            name: name.into(),
            reason: "nobody may compute on this GPU".into(),
            hint: advice::rules(rules).unwrap_or_default().into(),
        });
    }
    Ok(Facts {
        chip,
        sm_version,
        topology: Topology {
            gpcs,
            tpcs_per_gpc,
            sms_per_tpc,
            warps_per_sm,
        },
        name: name_string(root, subdevice),
        memory_bytes,
        window_bytes,
        rules,
    })
}

fn classes(root: &Root, device: u32) -> Result<Vec<u32>, Refusal> {
    let command = nv::NV0080_CTRL_CMD_GPU_GET_CLASSLIST;
    let counted: nv::NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS =
        root.control_list::<u32, _>(device, command, &mut [])?;
    // More than any driver has.
    let room = counted.numClasses.min(4096) as usize;
    let mut list = vec![0; room];
    let filled: nv::NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS =
        root.control_list(device, command, &mut list)?;
    list.truncate(filled.numClasses as usize);
    Ok(list)
}

/// Who may compute; everybody, if the driver does not say.
fn rules(root: &Root, subdevice: u32) -> u32 {
    let mut params = nv::NV2080_CTRL_GPU_QUERY_COMPUTE_MODE_RULES_PARAMS::default();
    let command = nv::NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES;
    match root.control(subdevice, command, &mut params) {
        Ok(()) => params.rules,
        Err(_) => nv::NV2080_CTRL_GPU_COMPUTE_MODE_RULES_NONE,
    }
}

fn name_string(root: &Root, subdevice: u32) -> String {
    let mut params = nv::NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS {
        gpuNameStringFlags: nv::NV2080_CTRL_GPU_GET_NAME_STRING_FLAGS_TYPE_ASCII,
        ..Default::default()
    };
    let asked = root.control(
        subdevice,
        nv::NV2080_CTRL_CMD_GPU_GET_NAME_STRING,
        &mut params,
    );
    let text = params.gpuNameString.split(|b| *b == 0).next();
    let text = String::from_utf8_lossy(text.unwrap_or_default());
    match asked {
        Ok(()) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "NVIDIA GPU".into(),
    }
}
