//! This kernel as the machine's driver: its node, its maps.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Kernel;
use crate::exec::Executor;
use crate::machine::order::Turned;
use crate::machine::tree::Tree;
use crate::machine::{Answer, Driver, FileId, Ioctl, Map, View};
use crate::qcom::options::Msm;

/// The node.
const NODE: &str = "/dev/dri/renderD128";

impl Driver for Kernel {
    fn node(&self, path: &Path) -> Option<u32> {
        (path == Path::new(NODE)).then_some(0)
    }

    fn nodes(&self) -> Vec<PathBuf> {
        vec![NODE.into()]
    }

    fn open(&mut self, _: u32, file: FileId, _: bool) -> Result<(), i32> {
        if self.settings.options.msm == Msm::Denied {
            return Err(libc::EACCES);
        }
        self.open_file(file);
        Ok(())
    }

    fn close(&mut self, _: u32, file: FileId) {
        self.close_file(file);
    }

    fn ioctl(&mut self, call: &mut Ioctl<'_>, request: u32, address: u64) -> Result<Answer, i32> {
        // A caller's time in the kernel is time for its caches too.
        self.wander();
        self.call(call.file, request, address)
    }

    fn resume(&mut self, wait: u64) -> Option<Result<i32, i32>> {
        self.resume_wait(wait)
    }

    fn expire(&mut self, wait: u64) -> Result<i32, i32> {
        self.expire_wait(wait)
    }

    fn mmap(&mut self, map: &Map) -> Result<View, i32> {
        let id = self.at_offset(map.file, map.offset, map.bytes)?;
        let object = self.objects.get(&id).ok_or(libc::EINVAL)?;
        let block = object.memory.cpu().ok_or(libc::EINVAL)?;
        Ok(Arc::clone(block).into())
    }

    fn mapped(&mut self, map: &Map, start: u64) -> Result<(), i32> {
        let id = self.at_offset(map.file, map.offset, map.bytes)?;
        self.add_map(start, map.bytes, id);
        Ok(())
    }

    fn munmap(&mut self, start: u64, bytes: u64) {
        self.remove_maps(start, bytes);
    }

    /// `drm_poll`: events of displays, of which there are none.
    fn readable(&mut self, _: u32, _: FileId) -> Result<bool, i32> {
        Ok(false)
    }

    fn tree(&self) -> Tree {
        let mut tree = Tree::default();
        tree.directory("/sys/bus/platform/drivers/adreno");
        tree.add("/sys/class/drm/renderD128/dev".into(), "226:128\n".into());
        tree
    }

    fn turn(&mut self, executor: &mut dyn Executor) -> Turned {
        self.step(executor)
    }

    fn has_queues(&self) -> bool {
        self.has_work()
    }

    fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    fn late(&mut self, _: Option<u32>, steps: u32) {
        self.late = steps;
    }

    fn reports(&self) -> &[String] {
        &self.reports
    }

    fn halt(&mut self, why: &str) {
        self.halt_all(why);
    }
}
