//! The compute queue.

use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::{ComputeQueue, Launch, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{RecordError, Recorder};
use hcq_nostd::value::Value;

use super::commands;
use super::program::Program;
use crate::device::Device;

/// A compute queue while it is recorded.
///
/// On a chip of [`PACKETS_ONLY`](crate::chips::PACKETS_ONLY) it records all commands but `exec`, for which there is no
/// [`Program`].
///
/// Signals and waits have 32 bits. [`SignalAt::notify`] adds nothing: the kernel driver raises an interrupt of its own when
/// what was submitted is done, and hosts sleep on that.
#[derive(Debug)]
pub struct AdrenoCompute<'m> {
    device: Device,
    recorder: Recorder<'m>,
}

impl<'m> AdrenoCompute<'m> {
    /// An empty queue over the caller's words, region 0 of the patch list.
    pub fn new(device: &Device, words: &'m mut [u32], list: PatchList<'m>) -> Self {
        Self::over(device, Recorder::new(words, list))
    }

    /// A queue that records into an existing recorder, behind what it holds.
    pub fn over(device: &Device, recorder: Recorder<'m>) -> Self {
        Self {
            device: *device,
            recorder,
        }
    }

    /// The recorder, to declare variables or to look at what was recorded.
    pub fn recorder(&mut self) -> &mut Recorder<'m> {
        &mut self.recorder
    }

    /// The words so far.
    pub fn words(&self) -> &[u32] {
        self.recorder.words()
    }

    /// The recorder.
    pub fn finish(self) -> Recorder<'m> {
        self.recorder
    }
}

impl Queue for AdrenoCompute<'_> {
    #[inline]
    fn signal(&mut self, signal: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        let device = &self.device;
        self.recorder
            .command(|c| commands::signal(device, c, signal, value))?;
        Ok(self)
    }

    #[inline]
    fn wait(&mut self, signal: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.recorder
            .command(|c| commands::wait(c, signal, value))?;
        Ok(self)
    }

    #[inline]
    fn timestamp(&mut self, signal: SignalAt) -> Result<&mut Self, RecordError> {
        let device = &self.device;
        self.recorder
            .command(|c| commands::timestamp(device, c, signal))?;
        Ok(self)
    }

    #[inline]
    fn write(
        &mut self,
        address: Value,
        value: Value,
        width: WriteWidth,
    ) -> Result<&mut Self, RecordError> {
        let device = &self.device;
        self.recorder
            .command(|c| commands::write(device, c, address, value, width))?;
        Ok(self)
    }

    #[inline]
    fn poll_bit(
        &mut self,
        address: Value,
        mask: u32,
        expect: Value,
    ) -> Result<&mut Self, RecordError> {
        self.recorder
            .command(|c| commands::poll_bit(c, address, mask, expect))?;
        Ok(self)
    }
}

impl ComputeQueue for AdrenoCompute<'_> {
    type Program<'p> = Program<'p>;

    #[inline]
    fn memory_barrier(&mut self) -> Result<&mut Self, RecordError> {
        let device = &self.device;
        self.recorder
            .command(|c| commands::memory_barrier(device, c))?;
        Ok(self)
    }

    #[inline]
    fn exec(&mut self, mut launch: Launch<'_, '_, Program<'_>>) -> Result<&mut Self, RecordError> {
        self.recorder
            .command(|c| launch.program.record(c, &mut launch))?;
        Ok(self)
    }
}
