//! The driver as one process uses it: its files, a client, its GPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use hcq_uapi::nv::{self, Abi, Version};

use super::advice;
use super::call::{self, File, Refusal};
use super::gpu::Gpu;
use super::root::Root;
use crate::Error;
use crate::heap::lock;
use crate::seam::{Errno, Handle, System};

/// The driver's own node.
pub(super) const CTL: &str = "/dev/nvidiactl";
/// The node of unified memory.
pub(super) const UVM: &str = "/dev/nvidia-uvm";
/// The driver's version, in words.
pub(super) const PROC: &str = "/proc/driver/nvidia/version";
/// A branch of the driver to take the interface of, whatever the driver says.
pub(super) const ABI_VARIABLE: &str = "HCQDEV_NV_ABI";

/// A GPU that the driver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Card {
    /// Its number in control commands.
    pub(super) gpu_id: u32,
    /// The N of `/dev/nvidiaN`.
    pub(super) minor: u32,
    /// Domain, bus, device.
    pub(super) bus: (u32, u8, u8),
    /// PCI device number.
    pub(super) device_id: u16,
}

impl Card {
    pub(super) fn node(&self) -> String {
        format!("/dev/nvidia{}", self.minor)
    }

    /// Where it is, as `lspci` writes it.
    pub(super) fn place(&self) -> String {
        let (domain, bus, device) = self.bus;
        format!("{domain:04x}:{bus:02x}:{device:02x}.0")
    }
}

/// What is kept for all devices of a system.
#[derive(Debug, Default)]
struct Kept {
    opened: Mutex<Weak<Process>>,
}

/// The driver, opened once and shared by all GPUs. When the last device goes, everything is given back.
#[derive(Debug)]
pub(crate) struct Process {
    /// In the order of the bus; the index is the ordinal of `nv:N`.
    cards: Vec<Card>,
    gpus: Mutex<BTreeMap<usize, Arc<Gpu>>>,
    peers: Mutex<BTreeSet<(usize, usize)>>,
    root: Arc<Root>,
}

fn unavailable(reason: String, hint: String) -> Error {
    Error::Unavailable {
        name: "nv".into(),
        reason,
        hint,
    }
}

impl Process {
    /// Opens the driver, unless that was done before.
    pub(crate) fn open(system: &Arc<dyn System>) -> Result<Arc<Self>, Error> {
        let text = std::env::var_os(ABI_VARIABLE).map(|v| v.to_string_lossy().into_owned());
        Self::open_as(system, text.as_deref())
    }

    /// The same with the value of [`ABI_VARIABLE`].
    pub(super) fn open_as(
        system: &Arc<dyn System>,
        branch: Option<&str>,
    ) -> Result<Arc<Self>, Error> {
        let kept = system.shared().get_or_init(Kept::default);
        let mut opened = lock(&kept.opened);
        if let Some(process) = opened.upgrade() {
            return Ok(process);
        }
        let process = Arc::new(Self::new(system, branch)?);
        *opened = Arc::downgrade(&process);
        Ok(process)
    }

    fn new(system: &Arc<dyn System>, branch: Option<&str>) -> Result<Self, Error> {
        let open = |path: &str| {
            File::open(system, path).map_err(|errno| {
                let reason = format!("open {path}: {errno}");
                unavailable(reason, advice::node(&**system, path, errno))
            })
        };
        let ctl = open(CTL)?;
        let version = version(&**system, ctl.handle());
        let abi = abi(version, branch)?;
        let uvm = open(UVM)?;
        let failed = |operation: &'static str| {
            move |refusal: Refusal| refusal.of("nv", operation, advice::refused(refusal))
        };
        let mut initialize = nv::UVM_INITIALIZE_PARAMS {
            // What GPUs are not told of is a fault, and not moved to them page by page.
            flags: nv::UVM_INIT_FLAGS_DISABLE_HMM,
            ..Default::default()
        };
        call::ask(&**system, uvm.handle(), &mut initialize).map_err(failed("UVM_INITIALIZE"))?;
        let mm = mm_file(system, &uvm);
        let cards = cards(&**system, ctl.handle())
            .map_err(|errno| failed("CARD_INFO")(Refusal::System(errno)))?;
        let root =
            Root::new(system, (ctl, uvm, mm), abi).map_err(failed("RM_ALLOC of a client"))?;
        Ok(Self {
            cards,
            gpus: Mutex::default(),
            peers: Mutex::default(),
            root,
        })
    }

    /// The GPU with this ordinal, opened by whoever asks first.
    pub(super) fn gpu(&self, ordinal: usize) -> Result<Arc<Gpu>, Error> {
        let mut gpus = lock(&self.gpus);
        if let Some(gpu) = gpus.get(&ordinal) {
            return Ok(Arc::clone(gpu));
        }
        let name = format!("nv:{ordinal}");
        let Some(card) = self.cards.get(ordinal) else {
            return Err(Error::Unavailable {
                reason: match self.cards.len() {
                    0 => "the driver has no GPU that this process sees".into(),
                    1 => "there is one NVIDIA GPU, nv:0".into(),
                    n => format!("there are {n} NVIDIA GPUs, nv:0 to nv:{}", n - 1),
                },
                hint: "`hcq devices` lists what there is".into(),
                name,
            });
        };
        let gpu = Arc::new(Gpu::open(&self.root, name, ordinal, *card)?);
        gpus.insert(ordinal, Arc::clone(&gpu));
        Ok(gpu)
    }

    /// Lets two GPUs reach each other's memory.
    pub(super) fn connect(&self, a: &Gpu, b: &Gpu) -> Result<(), Error> {
        let pair = (a.ordinal().min(b.ordinal()), a.ordinal().max(b.ordinal()));
        let mut peers = lock(&self.peers);
        if pair.0 == pair.1 || peers.contains(&pair) {
            return Ok(());
        }
        let mut argument = nv::UVM_ENABLE_PEER_ACCESS_PARAMS {
            gpuUuidA: a.uuid(),
            gpuUuidB: b.uuid(),
            ..Default::default()
        };
        self.root.uvm(&mut argument).map_err(|refusal| {
            refusal.of(b.name(), "UVM_ENABLE_PEER_ACCESS", advice::peer(refusal))
        })?;
        peers.insert(pair);
        Ok(())
    }
}

/// The driver's version: what it says in words, else what it answers.
pub(super) fn version(system: &dyn System, ctl: &Handle) -> Option<Version> {
    let text = system.read(Path::new(PROC), 4096).unwrap_or_default();
    Version::in_proc(&String::from_utf8_lossy(&text)).or_else(|| {
        let mut argument = nv::nv_ioctl_rm_api_version {
            cmd: nv::NV_RM_API_VERSION_CMD_QUERY,
            ..Default::default()
        };
        call::call(system, ctl, &mut argument).ok()?;
        let text = argument.versionString.split(|b| *b == 0).next()?;
        std::str::from_utf8(text).ok()?.trim().parse().ok()
    })
}

/// What the driver's interface is. Found before anything is made, so that no struct of another shape is handed over.
pub(super) fn abi(version: Option<Version>, branch: Option<&str>) -> Result<&'static Abi, Error> {
    if let Some(text) = branch {
        let wrong = |_| Error::Environment {
            variable: ABI_VARIABLE,
            value: text.to_owned(),
            wanted: "a branch of the driver that is known, such as 580",
        };
        let major = text.trim().parse::<u16>().map_err(|_| wrong(()))?;
        return Abi::of_branch(major).map_err(|_| wrong(()));
    }
    let Some(version) = version else {
        return Err(unavailable(
            "the driver's version is not known".into(),
            advice::version(),
        ));
    };
    Abi::of(version).map_err(|_| {
        unavailable(
            format!("the nvidia driver is {version}, which is not known here"),
            advice::branch(),
        )
    })
}

/// The second file that some kernels want; the others say that there is nothing to do.
fn mm_file(system: &Arc<dyn System>, uvm: &File) -> Option<File> {
    let file = File::open(system, UVM).ok()?;
    let mut argument = nv::UVM_MM_INITIALIZE_PARAMS {
        uvmFd: uvm.handle().raw(),
        rmStatus: 0,
    };
    call::ask(&**system, file.handle(), &mut argument).ok()?;
    Some(file)
}

/// The GPUs whose nodes are there, in the order of the bus.
pub(super) fn cards(system: &dyn System, ctl: &Handle) -> Result<Vec<Card>, Errno> {
    let mut list = nv::nv_ioctl_card_info_list::default();
    call::call(system, ctl, &mut list)?;
    let nodes = system.list(Path::new("/dev")).ok();
    let is_here = |minor: u32| {
        let name = format!("nvidia{minor}");
        // A system without lists has what the driver says.
        nodes.as_ref().is_none_or(|nodes| nodes.contains(&name))
    };
    let mut cards: Vec<Card> = list
        .cards
        .iter()
        .filter(|card| card.valid != 0 && is_here(card.minor_number))
        .map(|card| Card {
            gpu_id: card.gpu_id,
            minor: card.minor_number,
            bus: (card.pci_info.domain, card.pci_info.bus, card.pci_info.slot),
            device_id: card.pci_info.device_id,
        })
        .collect();
    cards.sort_by_key(|card| card.bus);
    Ok(cards)
}
