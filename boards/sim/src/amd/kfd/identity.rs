//! Numbers that name a GPU.

use crate::amd::chip::Chip;

/// `KFD_GPU_ID_HASH_WIDTH` is 16.
const ID_MASK: u32 = 0xFFFF;
/// PCI vendor of AMD.
pub(crate) const VENDOR: u32 = 0x1002;

/// The kernel's `crc16`: polynomial 0x8005, bits reversed.
fn crc16(bytes: impl Iterator<Item = u8>) -> u16 {
    let mut crc = 0u16;
    for byte in bytes {
        crc ^= u16::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 0 {
                crc >> 1
            } else {
                (crc >> 1) ^ 0xA001
            };
        }
    }
    crc
}

/// The PCI bus of a GPU, counted from 0.
pub(crate) fn bus(index: u32) -> u32 {
    3 + index * 4
}

/// `pci_dev_id`: bus, device 0, function 0.
pub(crate) fn location(index: u32) -> u32 {
    bus(index) << 8
}

/// `kfd_generate_gpu_id`.
pub(crate) fn gpu_id(chip: &Chip, index: u32, vram: u64, taken: &[u32]) -> u32 {
    let [low, high] = [vram & 0xFFFF_FFFF, vram >> 32].map(|half| u32::try_from(half).unwrap_or(0));
    let subsystem = VENDOR | chip.device_id << 16;
    let words = [
        0,
        subsystem,
        0,
        chip.device_id,
        bus(index),
        low,
        high,
        chip.xccs << 16,
    ];
    let mut id = u32::from(crc16(words.into_iter().flat_map(u32::to_le_bytes)));
    loop {
        if id == 0 {
            id = 1;
        }
        if !taken.contains(&id) {
            return id;
        }
        id = (id + 1) & ID_MASK;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(crc16(b"123456789".iter().copied()), 0xBB3D);
    }

    #[test]
    fn ids_differ_and_are_never_zero() {
        let chip = crate::amd::chip::find("gfx942").expect("known");
        let mut taken = Vec::new();
        for index in 0..8 {
            let id = gpu_id(chip, index, chip.vram, &taken);
            assert!(id != 0 && id <= ID_MASK && !taken.contains(&id));
            taken.push(id);
        }
        let again = gpu_id(chip, 0, chip.vram, &taken);
        assert_eq!(
            again,
            if taken.contains(&(taken[0] + 1)) {
                again
            } else {
                taken[0] + 1
            }
        );
    }
}
