//! What the driver tells in `/proc`.

use super::Nv;
use crate::machine::tree::Tree;

impl Nv {
    /// `nv_procfs_read_version`, `nv_procfs_read_gpu_info`, `nv_procfs_read_params` as far as anybody looks.
    pub(super) fn proc(&self) -> Tree {
        let mut tree = Tree::default();
        let version = self.version.to_string();
        tree.add(
            "/proc/driver/nvidia/version".into(),
            format!(
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build  (simulated)\n\
                 GCC version:  gcc version 13.3.0\n"
            ),
        );
        tree.add("/sys/module/nvidia/version".into(), format!("{version}\n"));
        tree.add(
            "/sys/module/nvidia_uvm/version".into(),
            format!("{version}\n"),
        );
        for (index, gpu) in self.gpus.iter().enumerate() {
            let card = gpu.card_info(self.chip);
            let place = format!(
                "{:04x}:{:02x}:00.0",
                card.pci_info.domain, card.pci_info.bus
            );
            tree.add(
                format!("/proc/driver/nvidia/gpus/{place}/information"),
                format!(
                    "Model: \t\t {}\nIRQ:   \t\t {}\nGPU UUID: \t {}\nBus Type: \t PCIe\nBus Location: \t {place}\n\
                     Device Minor: \t {index}\nGPU Excluded:\t No\n",
                    self.chip.card, card.interrupt_line, gpu.gid_text(),
                ),
            );
        }
        tree
    }
}
