//! A GPU, whoever uses it.

use std::sync::Arc;

use hcq_uapi::nv::{
    NVC361_NOTIFY_CHANNEL_PENDING, NVC361_NV_USERMODE__SIZE, NVC361_TIME_0, NVC361_TIME_1,
    nv_ioctl_card_info, nv_pci_info_t,
};

use super::chip::Chip;
use super::compute::SMS;
use super::memory::Pool;
use crate::cache::{Caches, Levels, Sizes};
use crate::machine::{Block, Store, clock};
use crate::vm::PageTable;

/// Bytes of a GPU's unique name: `RM_SHA1_GID_SIZE`.
pub(super) const GID: usize = 16;
/// What the register of the doorbells holds while nobody has rung. No channel has this token.
const SILENT: u32 = u32::MAX;
/// PCI vendor.
const VENDOR: u16 = 0x10DE;
/// Where the first card's windows are on the bus, and how far apart the cards' are.
const REGISTERS_AT: u64 = 0xE000_0000;
const REGISTERS: u64 = 16 << 20;
const WINDOW_AT: u64 = 0x40_0000_0000;
const WINDOW_STEP: u64 = 128 << 30;

/// A GPU.
#[derive(Debug)]
pub(super) struct Gpu {
    /// `gpu_id`: from its place on the bus, as `gpuGenerateGpuIdFromPciInfo` has it.
    pub(super) id: u32,
    index: u8,
    pub(super) gid: [u8; GID],
    pub(super) vram: Arc<Pool>,
    /// The window that the host reaches video memory through: BAR 1.
    pub(super) window: Arc<Pool>,
    pub(super) next_physical: u64,
    /// The page of doorbells and of the time.
    pub(super) doorbells: Arc<Block>,
    pub(super) caches: Caches,
    /// Tokens that nobody has, and that have been told.
    pub(super) unknown: Vec<u32>,
}

impl Gpu {
    pub(super) fn new(
        store: &Arc<Store>,
        chip: &Chip,
        index: u8,
        vram: u64,
        window: u64,
        seed: u64,
    ) -> Result<Self, i32> {
        let doorbells = store.block(u64::from(NVC361_NV_USERMODE__SIZE))?;
        doorbells.store32(u64::from(NVC361_NOTIFY_CHANNEL_PENDING), SILENT);
        let mut random =
            fastrand::Rng::with_seed(u64::from(chip.device_id) << 8 | u64::from(index));
        let mut gid = [0; GID];
        random.fill(&mut gid);
        Ok(Self {
            id: u32::from(bus(index)) << 8,
            index,
            gid,
            vram: Pool::new(vram),
            window: Pool::new(window),
            next_physical: 0,
            doorbells,
            caches: Caches::with(SMS, Sizes::default(), seed ^ u64::from(index)),
            unknown: Vec::new(),
        })
    }

    /// `GPU-` and the name in hexadecimal with dashes: `transformGidToUserFriendlyString`.
    pub(super) fn gid_text(&self) -> String {
        let mut text = String::from("GPU");
        for (place, byte) in self.gid.iter().enumerate() {
            if matches!(place, 0 | 4 | 6 | 8 | 10) {
                text.push('-');
            }
            text.push_str(&format!("{byte:02x}"));
        }
        text
    }

    pub(super) fn card_info(&self, chip: &Chip) -> nv_ioctl_card_info {
        let place = u64::from(self.index);
        nv_ioctl_card_info {
            valid: 1,
            pci_info: nv_pci_info_t {
                bus: bus(self.index),
                vendor_id: VENDOR,
                device_id: chip.device_id,
                ..nv_pci_info_t::default()
            },
            gpu_id: self.id,
            interrupt_line: 16,
            reg_address: REGISTERS_AT + place * REGISTERS,
            reg_size: REGISTERS,
            fb_address: WINDOW_AT + place * WINDOW_STEP,
            fb_size: self.window.limit(),
            minor_number: u32::from(self.index),
            ..nv_ioctl_card_info::default()
        }
    }

    /// What was written to the doorbell since this was last asked.
    pub(super) fn heard(&self) -> Option<u32> {
        let at = u64::from(NVC361_NOTIFY_CHANNEL_PENDING);
        // Looking first keeps the page clean while nobody rings.
        self.doorbells.load32(at).filter(|&token| token != SILENT)?;
        let token = self.doorbells.swap32(at, SILENT);
        token.filter(|&token| token != SILENT)
    }

    /// Shows the time: bits 31:5 in the first register, the upper half in the second.
    pub(super) fn show_time(&self) {
        let now = clock::raw_ns();
        let half = |bits: u64| u32::try_from(bits & 0xFFFF_FFFF).unwrap_or(0);
        self.doorbells
            .store32(u64::from(NVC361_TIME_1), half(now >> 32));
        self.doorbells
            .store32(u64::from(NVC361_TIME_0), half(now) & !0x1F);
    }

    /// What the caches hold of an address space goes, as with the TLBs when pages go.
    pub(super) fn forget(&mut self, table: &PageTable) {
        // Lines whose page is gone already have nowhere to go.
        let _ = self.caches.write_back(0, Levels::all(), table);
        let _ = self.caches.invalidate(0, Levels::all(), table);
    }
}

fn bus(index: u8) -> u8 {
    index.saturating_mul(0x20).saturating_add(1)
}
