//! This kernel as the machine's driver.

use std::path::{Path, PathBuf};

use super::Nv;
use super::files::{Node, Open};
use crate::exec::Executor;
use crate::machine::order::Turned;
use crate::machine::tree::Tree;
use crate::machine::{Answer, Driver, FileId, Ioctl, Map, View};

impl Driver for Nv {
    fn node(&self, path: &Path) -> Option<u32> {
        Node::at(path, self.gpus.len()).map(Node::number)
    }

    fn nodes(&self) -> Vec<PathBuf> {
        let gpus = (0..self.gpus.len()).map(Node::Gpu);
        let nodes = [Node::Control, Node::Uvm].into_iter().chain(gpus);
        nodes.map(Node::path).collect()
    }

    fn open(&mut self, node: u32, file: FileId, _: bool) -> Result<(), i32> {
        self.files.insert(file, Open::new(Node::of(node)));
        Ok(())
    }

    fn close(&mut self, _: u32, file: FileId) {
        let Some(open) = self.files.remove(&file) else {
            return;
        };
        // A file that others are registered with stays until they are closed: `ctl_nvfp_priv`. So do its clients.
        let linked = |other: &Open| other.control == Some(file);
        if open.node == Node::Control && self.files.values().any(linked) {
            self.closing.push(file);
        } else if open.node == Node::Control {
            self.free_clients(file);
        }
        self.end_uvm(file, open.uvm);
        if let Some(control) = open.control
            && self.closing.contains(&control)
            && !self
                .files
                .values()
                .any(|other| other.control == Some(control))
        {
            self.closing.retain(|&closed| closed != control);
            self.free_clients(control);
        }
        self.free_os_events_of(file);
    }

    fn ioctl(&mut self, call: &mut Ioctl<'_>, request: u32, address: u64) -> Result<Answer, i32> {
        let done = match Node::of(call.node) {
            Node::Uvm => self.uvm_ioctl(call, request, address),
            node => self.escape(call, node, request, address),
        };
        done.map(Answer::Done)
    }

    fn mmap(&mut self, map: &Map) -> Result<View, i32> {
        self.mmap_file(map)
    }

    fn readable(&mut self, node: u32, file: FileId) -> Result<bool, i32> {
        // `/dev/nvidia-uvm` has no `poll`.
        if Node::of(node) == Node::Uvm {
            return Ok(true);
        }
        let open = self.files.get_mut(&file).ok_or(libc::EBADF)?;
        Ok(open.pending.look())
    }

    fn tree(&self) -> Tree {
        self.proc()
    }

    fn turn(&mut self, executor: &mut dyn Executor) -> Turned {
        self.take_turn(executor)
    }

    fn has_queues(&self) -> bool {
        !self.channels.is_empty()
    }

    fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    fn late(&mut self, queue: Option<u32>, steps: u32) {
        let turns = self
            .channels
            .iter_mut()
            .map(|(&id, channel)| (id, &mut channel.turn));
        self.order.late(queue, steps, turns);
    }

    fn reports(&self) -> &[String] {
        &self.reports
    }

    fn halt(&mut self, why: &str) {
        self.stop_all(why);
    }
}
