//! The kernel's object for this process.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use hcq_uapi::kfd;

use super::advice;
use super::call::{aperture_count, apertures, call, give_back, map, unmap};
use super::text::Trouble;
use super::topology::{Node, Topology};
use crate::Error;
use crate::candidates::Attempt;
use crate::heap::lock;
use crate::mapping::Room;
use crate::seam::{Errno, Handle, Open, System, page_bytes};

/// The file of the interface.
pub(super) const KFD: &str = "/dev/kfd";
/// The oldest interface that all chips known here have: that of Linux 6.1.
const OLDEST: (u32, u32) = (1, 9);
/// Bytes of the event page: a 64-bit word for each signal event that a process may have.
const EVENT_PAGE: usize = kfd::KFD_SIGNAL_EVENT_LIMIT as usize * 8;

/// An interface version, and what came with it (`kfd_ioctl.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32);

impl Version {
    /// `RUNTIME_ENABLE`.
    pub(super) const RUNTIME: Self = Self(1, 13);
    /// The age of events, with which no waiter misses one.
    pub(super) const EVENT_AGE: Self = Self(1, 14);
    /// The flag for contiguous VRAM.
    pub(super) const CONTIGUOUS: Self = Self(1, 16);
    /// SDMA queues by engine.
    pub(super) const SDMA_ENGINE: Self = Self(1, 17);
}

/// The state of the kernel's object, kept by the system ([`System::shared`]).
///
/// The kernel ties it to the address space and not to any file: a render node's file that a GPU's address space was
/// acquired with, and the event page, stay until the process ends, and a second one of either is refused. So this is never
/// dropped before the system is, and closes nothing.
#[derive(Debug, Default)]
struct Kept {
    opened: Mutex<Option<Arc<Opened>>>,
}

#[derive(Debug)]
struct Opened {
    file: Handle,
    version: Version,
    topology: Topology,
    gpus: Mutex<BTreeMap<u32, Arc<Vm>>>,
    page: Mutex<Option<EventPage>>,
}

/// A GPU's address space of this process.
#[derive(Debug)]
pub(super) struct Vm {
    /// The render node's file that it came with; memory is mapped through it.
    pub(super) render: Handle,
    /// Where ranges of special meaning are.
    pub(super) apertures: kfd::kfd_process_device_apertures,
}

/// Where GPUs tell which signal event they mean.
#[derive(Debug)]
struct EventPage {
    handle: u64,
    address: u64,
    /// GPUs that it is mapped to.
    gpus: Vec<u32>,
}

/// An event to create.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewEvent {
    pub(super) id: u32,
    /// Address of its word in the event page, for signal events.
    pub(super) mailbox: u64,
}

/// `/dev/kfd` of a system, opened once and shared by all GPUs.
#[derive(Debug)]
pub(crate) struct Process {
    system: Arc<dyn System>,
    opened: Arc<Opened>,
}

impl Process {
    /// Opens the interface and reads the topology, unless that was done before.
    pub(crate) fn open(system: &Arc<dyn System>) -> Result<Arc<Self>, Error> {
        let kept = system.shared().get_or_init(Kept::default);
        let mut slot = lock(&kept.opened);
        let opened = match &*slot {
            Some(opened) => Arc::clone(opened),
            None => {
                let opened = Arc::new(Opened::new(&**system)?);
                *slot = Some(Arc::clone(&opened));
                opened
            }
        };
        drop(slot);
        let system = Arc::clone(system);
        Ok(Arc::new(Self { system, opened }))
    }

    /// Who answers its calls.
    pub(crate) fn system(&self) -> &Arc<dyn System> {
        &self.system
    }

    /// The file of the interface.
    pub(super) fn file(&self) -> &Handle {
        &self.opened.file
    }

    /// The interface's version.
    pub(crate) fn version(&self) -> Version {
        self.opened.version
    }

    /// GPUs in the topology's order; the index is the ordinal of `amd:N`.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.opened.topology.nodes
    }

    /// Nodes that cannot be seen, and why.
    pub(crate) fn skipped(&self) -> &[Attempt] {
        &self.opened.topology.skipped
    }

    /// Whether both speak of the same kernel object.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.opened, &other.opened)
    }

    /// The GPU's address space, acquired by whoever asks first.
    pub(super) fn acquire(&self, name: &str, node: &Node) -> Result<Arc<Vm>, Error> {
        let mut gpus = lock(&self.opened.gpus);
        if let Some(vm) = gpus.get(&node.gpu_id) {
            return Ok(Arc::clone(vm));
        }
        let path = node.render_node();
        let system = &*self.system;
        let render = system
            .open(Path::new(&path), Open::ReadWrite)
            .map_err(|errno| Error::Unavailable {
                name: name.into(),
                reason: format!("open {path}: {errno}"),
                hint: advice::render(system, &path, errno),
            })?;
        let acquired = u32::try_from(render.raw())
            .map_err(|_| Errno::INVAL)
            .and_then(|drm_fd| {
                let gpu_id = node.gpu_id;
                let mut argument = kfd::kfd_ioctl_acquire_vm_args { drm_fd, gpu_id };
                call(system, self.file(), &mut argument)
            });
        if let Err(errno) = acquired {
            system.close(render);
            return Err(Error::Unavailable {
                name: name.into(),
                reason: format!("ACQUIRE_VM failed: {errno}"),
                hint: advice::acquire(errno).into(),
            });
        }
        // From here on the file stays, whatever fails: the kernel knows the GPU by it.
        let vm = Arc::new(Vm {
            render,
            apertures: self.apertures(node.gpu_id).unwrap_or_default(),
        });
        gpus.insert(node.gpu_id, Arc::clone(&vm));
        Ok(vm)
    }

    /// The GPU's apertures; `None` if the kernel does not tell, and then nothing is checked against them.
    fn apertures(&self, gpu_id: u32) -> Option<kfd::kfd_process_device_apertures> {
        // A GPU more than the kernel knows is refused, and fewer leave some out; hidden ones count.
        let room = aperture_count(&*self.system, self.file()).ok()?;
        let all = apertures(&*self.system, self.file(), room).ok()?;
        all.into_iter().find(|a| a.gpu_id == gpu_id)
    }

    /// Creates an event. The first signal event of a process brings the event page, which every GPU that signals has to
    /// see.
    pub(super) fn create_event(
        &self,
        name: &str,
        vm: &Vm,
        gpu_id: u32,
        kind: u32,
    ) -> Result<NewEvent, Error> {
        let mut slot = lock(&self.opened.page);
        let failed = |operation: &str, errno| Error::Driver {
            device: name.into(),
            operation: operation.into(),
            errno,
            hint: advice::event(errno).into(),
        };
        let mut argument = kfd::kfd_ioctl_create_event_args {
            event_type: kind,
            // A wait that sees the event resets it: nobody else can, for those that are no signals.
            auto_reset: 1,
            ..Default::default()
        };
        let (system, file) = (&*self.system, self.file());
        match &mut *slot {
            Some(page) => {
                if !page.gpus.contains(&gpu_id) {
                    let (done, mapped) = map(system, file, page.handle, &[gpu_id]);
                    if done > 0 {
                        // Also when the wait for it failed: a second time it is mapped already.
                        page.gpus.push(gpu_id);
                    }
                    mapped.map_err(|e| failed("MAP_MEMORY_TO_GPU of the event page", e))?;
                }
                call(system, file, &mut argument).map_err(|e| failed("CREATE_EVENT", e))?;
            }
            None => {
                let (page, room) = self
                    .event_page(vm, gpu_id)
                    .map_err(|(operation, e)| failed(operation, e))?;
                argument.event_page_offset = page.handle;
                if let Err(errno) = call(system, file, &mut argument) {
                    // The page may have been taken before the event was refused; a taken one is not freed.
                    *slot = self.drop_event_page(page, room);
                    return Err(failed("CREATE_EVENT", errno));
                }
                room.keep();
                *slot = Some(page);
            }
        }
        let base = slot.as_ref().map_or(0, |page| page.address);
        let id = argument.event_id;
        Ok(NewEvent {
            id,
            mailbox: base
                + 8 * u64::from(
                    argument
                        .event_slot_index
                        .min(kfd::KFD_SIGNAL_EVENT_LIMIT - 1),
                ),
        })
    }

    /// Host memory that the kernel and GPUs see. Processors' GPUs take it too: an event page of the kernel's own, which
    /// `libhsakmt` maps for them, is reached by GPUs through an IOMMU that no chip known here uses.
    fn event_page(&self, vm: &Vm, gpu_id: u32) -> Result<(EventPage, Room), (&'static str, Errno)> {
        let (system, file) = (&*self.system, self.file());
        let bytes = EVENT_PAGE.next_multiple_of(page_bytes());
        let mut room = Room::aligned(&self.system, bytes, page_bytes())
            .map_err(|e| ("mmap of the event page", e))?;
        let mut argument = kfd::kfd_ioctl_alloc_memory_of_gpu_args {
            va_addr: room.address(),
            size: bytes as u64,
            gpu_id,
            flags: kfd::AllocMemFlags::GTT
                | kfd::AllocMemFlags::WRITABLE
                | kfd::AllocMemFlags::EXECUTABLE
                | kfd::AllocMemFlags::COHERENT
                | kfd::AllocMemFlags::UNCACHED
                | kfd::AllocMemFlags::NO_SUBSTITUTE,
            ..Default::default()
        };
        call(system, file, &mut argument)
            .map_err(|e| ("ALLOC_MEMORY_OF_GPU for the event page", e))?;
        let handle = argument.handle;
        let (_, mapped) = map(system, file, handle, &[gpu_id]);
        let placed = mapped
            .map_err(|e| ("MAP_MEMORY_TO_GPU of the event page", e))
            .and_then(|()| {
                let file = (&vm.render, argument.mmap_offset);
                room.place(Some(file))
                    .map_err(|e| ("mmap of the event page", e))
            });
        let page = EventPage {
            handle,
            address: room.address(),
            gpus: vec![gpu_id],
        };
        match placed {
            Ok(()) => Ok((page, room)),
            Err(e) => {
                self.drop_event_page(page, room);
                Err(e)
            }
        }
    }

    /// Frees the page; returns it if the kernel keeps it.
    fn drop_event_page(&self, page: EventPage, room: Room) -> Option<EventPage> {
        let (system, file, handle) = (&*self.system, self.file(), page.handle);
        let mut free = kfd::kfd_ioctl_free_memory_of_gpu_args { handle };
        // Refused with one number if it is the event page, and with another if it is only mapped still.
        match call(system, file, &mut free) {
            Ok(()) => return None,
            Err(Errno::PERM) => {
                room.keep();
                return Some(page);
            }
            Err(_) => {}
        }
        let _ = unmap(system, file, handle, &page.gpus);
        if give_back(system, file, free).is_err() {
            // GPUs may still reach it, so nothing else may get its addresses.
            room.keep();
        }
        None
    }
}

impl Opened {
    fn new(system: &dyn System) -> Result<Self, Error> {
        let unavailable = |reason: String, hint: String| Error::Unavailable {
            name: "amd".into(),
            reason,
            hint,
        };
        let file = system
            .open(Path::new(KFD), Open::ReadWrite)
            .map_err(|errno| {
                let reason = format!("open {KFD}: {errno}");
                unavailable(reason, advice::kfd(system, errno))
            })?;
        match Self::examine(system, &file, &unavailable) {
            Ok((version, topology)) => Ok(Self {
                file,
                version,
                topology,
                gpus: Mutex::default(),
                page: Mutex::default(),
            }),
            Err(e) => {
                system.close(file);
                Err(e)
            }
        }
    }

    fn examine(
        system: &dyn System,
        file: &Handle,
        unavailable: &dyn Fn(String, String) -> Error,
    ) -> Result<(Version, Topology), Error> {
        let version = version(system, file).map_err(|errno| {
            let hint = "the driver of /dev/kfd is not amdgpu's, or broken (dmesg)";
            unavailable(format!("GET_VERSION failed: {errno}"), hint.into())
        })?;
        check_version(version).map_err(|(reason, hint)| unavailable(reason, hint))?;
        let topology = Topology::read(system).map_err(|trouble| match trouble {
            Trouble::System { path, errno, .. } => unavailable(
                format!("list {path}: {errno}"),
                "the topology is not there; in a container, mount /sys".into(),
            ),
            malformed => malformed.into(),
        })?;
        enable_runtime(system, file, version);
        Ok((version, topology))
    }
}

/// What the interface's version is.
pub(super) fn version(system: &dyn System, file: &Handle) -> Result<Version, Errno> {
    let mut argument = kfd::kfd_ioctl_get_version_args::default();
    call(system, file, &mut argument)?;
    Ok(Version(argument.major_version, argument.minor_version))
}

/// Whether this crate can use that version; else why not, and what to do.
pub(super) fn check_version(version: Version) -> Result<(), (String, String)> {
    let Version(major, minor) = version;
    let reason = format!("the kernel's KFD interface is {version}");
    let (oldest_major, oldest_minor) = OLDEST;
    if major != oldest_major {
        let hint = format!(
            "this crate knows major version {oldest_major}; use a kernel with that, or a newer crate"
        );
        return Err((reason, hint));
    }
    if minor < oldest_minor {
        let hint =
            format!("{oldest_major}.{oldest_minor} or later is needed: boot Linux 6.1 or later");
        return Err((reason, hint));
    }
    Ok(())
}

/// Tells the kernel that a runtime is there, for debuggers and exceptions of queues, and that programs do not wait for
/// missing pages, so that faults are told. Neither is needed to work: kernels without the debugger refuse the first,
/// and both are refused once there are queues.
fn enable_runtime(system: &dyn System, file: &Handle, version: Version) {
    if version >= Version::RUNTIME {
        let mut argument = kfd::kfd_ioctl_runtime_enable_args {
            mode_mask: kfd::KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK,
            ..Default::default()
        };
        let _ = call(system, file, &mut argument);
    }
    let mut argument = kfd::kfd_ioctl_set_xnack_mode_args { xnack_enabled: 0 };
    let _ = call(system, file, &mut argument);
}

/// Reads both halves of what is known without opening a GPU, for lists of devices: nothing stays open.
pub(super) fn survey(system: &dyn System) -> Survey {
    let opened = system.open(Path::new(KFD), Open::ReadWrite);
    let (errno, version) = match opened {
        Ok(file) => {
            let version = version(system, &file);
            system.close(file);
            (None, Some(version))
        }
        Err(errno) => (Some(errno), None),
    };
    let topology = Topology::read(system);
    Survey {
        errno,
        version,
        topology,
    }
}

/// What [`survey`] finds.
#[derive(Debug)]
pub(super) struct Survey {
    /// Why `/dev/kfd` cannot be opened.
    pub(super) errno: Option<Errno>,
    pub(super) version: Option<Result<Version, Errno>>,
    pub(super) topology: Result<Topology, Trouble>,
}

#[cfg(test)]
mod tests;
