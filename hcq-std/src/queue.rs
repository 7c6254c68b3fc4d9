//! Queues and the recording of commands.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use hcq_nostd::queue::{SignalAt, WriteWidth};
use hcq_nostd::timeline::Point as CorePoint;
use hcq_nostd::value::{Value, Var};
use zerocopy::IntoBytes;

use crate::Error;
use crate::backend::{Command, Piece, Purpose, QueueId, QueueKind};
use crate::bound::Bound;
use crate::buffer::{Buffer, Element, Span, View};
use crate::inner::{Inner, SubmitError, Work};
use crate::point::Point;
use crate::profile::Region;
use crate::recording::{After, Beside, Chunk, Grower, Keep, MOST_VARIABLES, Recording};
use crate::signal::Signal;
use crate::staging::Download;

/// A queue of a device: its commands run one after the other; between queues only signals and points order.
///
/// Clones are the same queue. Any thread may record and submit.
#[derive(Clone, Debug)]
pub struct Queue {
    pub(crate) inner: Arc<Inner>,
    pub(crate) id: QueueId,
}

impl Queue {
    /// Whether it runs kernels or copies.
    pub fn kind(&self) -> QueueKind {
        self.id.kind
    }

    /// Its number among the queues of its kind.
    pub fn index(&self) -> usize {
        self.id.index
    }

    /// An empty recording.
    pub fn record(&self) -> Commands {
        Commands {
            recording: self.inner.take_recording(),
            inner: Arc::clone(&self.inner),
            id: self.id,
        }
    }
}

/// Commands in the making: chain them, then [`submit`](Self::submit) or [`bind`](Self::bind) them.
///
/// A call that fails leaves the recording as it was. Buffers, signals and kernels that a recording names live at least
/// until its work is complete. A recording that was submitted is empty, and can be used again.
///
/// ```
/// let device = hcq_std::Device::open("cpu")?;
/// let (x, y) = (device.alloc_from(&[1u32, 2, 3])?, device.alloc::<u32>(3)?);
/// let mut commands = device.copy_queue(0)?.record();
/// let point = commands.copy(&y, &x)?.write32(y.address() + 8, 9u32)?.submit()?;
/// point.wait()?;
/// assert_eq!(y.to_vec()?, [1, 2, 9]);
/// # Ok::<(), hcq_std::Error>(())
/// ```
#[derive(Debug)]
pub struct Commands {
    pub(crate) recording: Recording,
    pub(crate) inner: Arc<Inner>,
    pub(crate) id: QueueId,
}

impl Drop for Commands {
    fn drop(&mut self) {
        let mut recording = std::mem::take(&mut self.recording);
        recording.clear();
        self.inner.give_recording(recording);
    }
}

/// Whether there are variables among the values; all must be below `count`.
#[inline]
fn variables(values: impl IntoIterator<Item = Value>, count: u32) -> Result<bool, Error> {
    let mut any = false;
    for value in values {
        if let Value::Var(of) = value {
            let index = of.var.index();
            if index >= count {
                return Err(Error::UnknownVariable { index, count });
            }
            any = true;
        }
    }
    Ok(any)
}

impl Commands {
    fn check_signal(&self, signal: &Signal) -> Result<(), Error> {
        if Arc::ptr_eq(&self.inner, &signal.inner) {
            Ok(())
        } else {
            Err(Error::OtherDevice { what: "signal" })
        }
    }

    fn check_span(&self, span: &Span<'_>) -> Result<(), Error> {
        if Arc::ptr_eq(&self.inner.heap, span.allocation.heap()) {
            Ok(())
        } else {
            Err(Error::OtherDevice { what: "buffer" })
        }
    }

    pub(crate) fn only(&self, command: &'static str, kind: QueueKind) -> Result<(), Error> {
        if self.id.kind == kind {
            Ok(())
        } else {
            Err(Error::WrongQueue {
                command,
                kind: self.id.kind,
                other: kind,
            })
        }
    }

    /// Records a command that uses no memory of the recording's own.
    #[inline]
    fn plain<const N: usize>(
        &mut self,
        name: &'static str,
        values: [Value; N],
        make: impl Fn([Value; N]) -> Command<'static>,
    ) -> Result<&mut Self, Error> {
        self.placed(name, values, make)?;
        Ok(self)
    }

    /// The same; says what memory beside the words the command has.
    #[inline]
    fn placed<const N: usize>(
        &mut self,
        name: &'static str,
        values: [Value; N],
        make: impl Fn([Value; N]) -> Command<'static>,
    ) -> Result<Option<Beside>, Error> {
        let has_variables = variables(values, self.recording.vars)?;
        let command = make(values);
        let beside = match self.inner.beside(self.id.kind) {
            0 => None,
            len => {
                let (chunk, offset) = self.reserve(len, 64)?;
                Some(Beside {
                    chunk,
                    offset,
                    len,
                    descriptor: 0,
                })
            }
        };
        let backend = &*self.inner.backend;
        let recorded = self
            .recording
            .record(backend, self.id, &command, beside, has_variables);
        recorded.map_err(Error::record(name))?;
        Ok(beside)
    }

    fn keep_signal(&mut self, signal: &Signal) {
        self.recording
            .keep(Arc::as_ptr(&signal.slot).cast(), || Keep::Signal {
                _held: Arc::clone(&signal.slot),
            });
        if let Some(seen) = &signal.seen {
            self.recording
                .keep(Arc::as_ptr(seen).cast(), || Keep::Memory {
                    _held: Arc::clone(seen),
                });
        }
    }

    fn keep_span(&mut self, span: &Span<'_>) {
        self.recording
            .keep(Arc::as_ptr(span.allocation).cast(), || Keep::Memory {
                _held: Arc::clone(span.allocation),
            });
    }

    /// Declares the next variable, to be set when the recording is bound.
    ///
    /// # Errors
    /// [`Error::TooLarge`] after 2^20 variables.
    pub fn var(&mut self) -> Result<Var, Error> {
        let index = self.recording.vars;
        if index >= MOST_VARIABLES {
            return Err(Error::TooLarge {
                what: "the number of variables",
                size: u64::from(MOST_VARIABLES) + 1,
                most: MOST_VARIABLES.into(),
            });
        }
        self.recording.vars += 1;
        Ok(Var::new(index))
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.recording.is_empty()
    }

    /// Bytes of commands so far.
    pub fn size_bytes(&self) -> usize {
        self.recording.len() * 4
    }

    /// Holds the queue until the signal's value is at least `value`.
    ///
    /// # Errors
    /// [`Error::OtherDevice`], [`Error::UnknownVariable`], [`Error::Record`].
    pub fn wait(&mut self, signal: &Signal, value: impl Into<Value>) -> Result<&mut Self, Error> {
        self.check_signal(signal)?;
        self.plain(
            "wait",
            [signal.operand().address, value.into()],
            |[s, v]| Command::Wait(s.into(), v),
        )?;
        self.keep_signal(signal);
        Ok(self)
    }

    /// Sets the signal's value when everything before it in this queue is complete.
    ///
    /// # Errors
    /// [`Error::OtherDevice`], [`Error::UnknownVariable`], [`Error::Record`].
    pub fn signal(&mut self, signal: &Signal, value: impl Into<Value>) -> Result<&mut Self, Error> {
        self.check_signal(signal)?;
        let make = |[address, v]: [Value; 2]| {
            Command::Signal(
                SignalAt {
                    address,
                    notify: true,
                },
                v,
            )
        };
        self.plain("signal", [signal.operand().address, value.into()], make)?;
        self.keep_signal(signal);
        Ok(self)
    }

    /// [`wait`](Self::wait) for a signal by its device address, which may be known at launch only.
    ///
    /// # Errors
    /// [`Error::UnknownVariable`], [`Error::Record`].
    pub fn wait_at(
        &mut self,
        address: impl Into<Value>,
        value: impl Into<Value>,
    ) -> Result<&mut Self, Error> {
        self.plain("wait", [address.into(), value.into()], |[s, v]| {
            Command::Wait(s.into(), v)
        })
    }

    /// [`signal`](Self::signal) by the signal's device address, which may be known at launch only.
    ///
    /// # Errors
    /// [`Error::UnknownVariable`], [`Error::Record`].
    pub fn signal_at(
        &mut self,
        address: impl Into<Value>,
        value: impl Into<Value>,
    ) -> Result<&mut Self, Error> {
        let make = |[address, v]: [Value; 2]| {
            Command::Signal(
                SignalAt {
                    address,
                    notify: true,
                },
                v,
            )
        };
        self.plain("signal", [address.into(), value.into()], make)
    }

    /// Writes the device's clock, in nanoseconds, to the signal's timestamp when everything before it is complete.
    ///
    /// # Errors
    /// [`Error::OtherDevice`], [`Error::Record`].
    pub fn timestamp(&mut self, signal: &Signal) -> Result<&mut Self, Error> {
        self.check_signal(signal)?;
        self.plain("timestamp", [signal.operand().address], |[s]| {
            Command::Timestamp(s.into())
        })?;
        self.keep_signal(signal);
        Ok(self)
    }

    /// Holds the queue until an earlier submission of this device, on any queue, is complete.
    ///
    /// For a submission of another device it is the host that waits, when this recording is submitted: as long as that
    /// device makes progress. So that submission must not wait for what this recording does; queues of several devices
    /// that wait for each other use a [shared signal](Signal::share).
    ///
    /// # Errors
    /// [`Error::Record`].
    pub fn after(&mut self, point: &Point) -> Result<&mut Self, Error> {
        if !Arc::ptr_eq(&self.inner, &point.inner) {
            self.recording.elsewhere.push(point.clone());
            return Ok(self);
        }
        let at = self.recording.len();
        // What to wait for is known when the recording is submitted.
        let timeline = self.inner.timeline_operand();
        let beside = self.placed("after", [timeline], |[s]| {
            Command::Wait(s.into(), Value::Imm(0))
        })?;
        self.recording.note_after(at, beside, point.point);
        Ok(self)
    }

    /// Writes 32 bits to a device address, a multiple of 4, when everything before it is complete. A value that is known
    /// now must fit.
    ///
    /// # Errors
    /// [`Error::UnknownVariable`], [`Error::Record`]. An address that is no live buffer's is a fault when it runs.
    pub fn write32(
        &mut self,
        address: impl Into<Value>,
        value: impl Into<Value>,
    ) -> Result<&mut Self, Error> {
        let make = |[a, v]: [Value; 2]| Command::Write(a, v, WriteWidth::W32);
        self.plain("write32", [address.into(), value.into()], make)
    }

    /// Writes 64 bits to a device address, a multiple of 8, when everything before it is complete.
    ///
    /// # Errors
    /// As for [`write32`](Self::write32).
    pub fn write64(
        &mut self,
        address: impl Into<Value>,
        value: impl Into<Value>,
    ) -> Result<&mut Self, Error> {
        let make = |[a, v]: [Value; 2]| Command::Write(a, v, WriteWidth::W64);
        self.plain("write64", [address.into(), value.into()], make)
    }

    /// Holds the queue until `word & mask == expect`, for the 32-bit word at a device address, a multiple of 4.
    ///
    /// # Errors
    /// As for [`write32`](Self::write32); bits of `expect` outside the mask are refused.
    pub fn poll_bit(
        &mut self,
        address: impl Into<Value>,
        mask: u32,
        expect: impl Into<Value>,
    ) -> Result<&mut Self, Error> {
        self.plain("poll_bit", [address.into(), expect.into()], |[a, e]| {
            Command::PollBit(a, mask, e)
        })
    }

    /// Makes writes of hosts and other engines visible to what follows, and what precedes visible to them.
    ///
    /// # Errors
    /// [`Error::WrongQueue`] on a copy queue.
    pub fn memory_barrier(&mut self) -> Result<&mut Self, Error> {
        self.only("memory_barrier", QueueKind::Compute)?;
        self.plain("memory_barrier", [], |[]| Command::Barrier)
    }

    /// Copies bytes between two ranges of the same length that do not overlap.
    ///
    /// # Errors
    /// [`Error::WrongQueue`] on a compute queue; [`Error::Length`], [`Error::Overlap`], [`Error::ReadOnly`],
    /// [`Error::OtherDevice`].
    pub fn copy<'d, 's>(
        &mut self,
        destination: impl Into<Span<'d>>,
        source: impl Into<Span<'s>>,
    ) -> Result<&mut Self, Error> {
        self.only("copy", QueueKind::Copy)?;
        let (to, from) = (destination.into(), source.into());
        self.check_span(&to)?;
        self.check_span(&from)?;
        let bytes = from.size_bytes();
        if to.size_bytes() != bytes {
            return Err(Error::Length {
                what: "bytes of a copy's source",
                need: to.size_bytes(),
                have: bytes,
            });
        }
        if !to.allocation.is_writable() {
            return Err(Error::ReadOnly {
                address: to.address(),
            });
        }
        if to.address().abs_diff(from.address()) < bytes {
            return Err(Error::Overlap {
                bytes,
                source_address: from.address(),
                destination: to.address(),
            });
        }
        self.record_copy([to.address().into(), from.address().into(), bytes.into()])?;
        self.keep_span(&to);
        self.keep_span(&from);
        Ok(self)
    }

    #[inline]
    fn record_copy(&mut self, values: [Value; 3]) -> Result<&mut Self, Error> {
        self.plain("copy", values, |[destination, source, bytes]| {
            Command::Copy {
                destination,
                source,
                bytes,
            }
        })
    }

    /// Copies between device addresses, any of them known at launch only. Addresses that are no live buffer's, and
    /// ranges that overlap, are a fault when it runs.
    ///
    /// # Safety
    /// The two ranges are not freed before the copy is complete, and nothing else accesses them meanwhile but in an
    /// order that signals establish.
    ///
    /// # Errors
    /// [`Error::WrongQueue`] on a compute queue; [`Error::UnknownVariable`], [`Error::Record`].
    #[allow(unsafe_code, reason = "takes the caller's word for addresses")]
    pub unsafe fn copy_raw(
        &mut self,
        destination: impl Into<Value>,
        source: impl Into<Value>,
        bytes: impl Into<Value>,
    ) -> Result<&mut Self, Error> {
        self.only("copy", QueueKind::Copy)?;
        self.record_copy([destination.into(), source.into(), bytes.into()])
    }

    /// Copies host data in, in the order of the queue. The data is staged now: the slice is free to change.
    ///
    /// # Errors
    /// As for [`copy`](Self::copy); [`Error::OutOfMemory`], [`Error::Timeout`] waiting for room to stage.
    pub fn upload<'d, T: Element>(
        &mut self,
        destination: impl Into<Span<'d>>,
        data: &[T],
    ) -> Result<&mut Self, Error> {
        self.only("upload", QueueKind::Copy)?;
        let to = destination.into();
        self.check_span(&to)?;
        let bytes = data.as_bytes();
        if to.size_bytes() != bytes.len() as u64 {
            let (need, have) = (to.size_bytes(), bytes.len() as u64);
            return Err(Error::Length {
                what: "bytes of an upload",
                need,
                have,
            });
        }
        if !to.allocation.is_writable() {
            return Err(Error::ReadOnly {
                address: to.address(),
            });
        }
        let (chunk, offset) = self.reserve(bytes.len(), 64)?;
        let broken = Error::Internal("staging memory lies outside its chunk");
        let chunk = self
            .recording
            .chunks
            .get_mut(chunk)
            .ok_or(Error::Internal("there is no such chunk"))?;
        chunk.region.write(offset, bytes).map_err(|_| broken)?;
        let from = chunk.allocation.address() + offset as u64;
        self.record_copy([
            to.address().into(),
            from.into(),
            (bytes.len() as u64).into(),
        ])?;
        self.keep_span(&to);
        Ok(self)
    }

    /// Copies device data out, in the order of the queue: the elements are there when the recording was submitted and
    /// [waited for](Download::wait).
    ///
    /// # Errors
    /// As for [`copy`](Self::copy); [`Error::OutOfMemory`].
    pub fn download<T: Element>(&mut self, source: &View<T>) -> Result<Download<T>, Error> {
        self.only("download", QueueKind::Copy)?;
        let staged = Buffer::<T>::new(&self.inner, source.len(), Purpose::Exchange)?;
        self.copy(&staged, source)?;
        let point = Arc::new(AtomicU64::new(0));
        self.recording.downloads.push(Arc::clone(&point));
        Ok(Download::new(&self.inner, View::clone(&staged), &point))
    }

    #[inline]
    pub(crate) fn reserve(&mut self, size: usize, align: usize) -> Result<(usize, usize), Error> {
        let inner = &self.inner;
        let wait =
            |point| inner.wait_point(point, inner.wait_timeout, "a wait for room in an arena");
        let grower = Grower {
            heap: &inner.heap,
            arena_bytes: inner.arena_bytes,
            look: &|| inner.look().map(|_| ()),
            wait: &wait,
        };
        self.recording.reserve(&grower, size, align)
    }

    /// Begins a region of the profile: the device writes its clock here, and where the region [ends](Self::end).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Record`].
    pub fn begin(&mut self, name: &str) -> Result<Region, Error> {
        let region = Region::new(&self.inner, name)?;
        self.timestamp(region.start())?;
        Ok(region)
    }

    /// Ends a region of the profile.
    ///
    /// # Errors
    /// [`Error::OtherDevice`], [`Error::Record`].
    pub fn end(&mut self, region: &Region) -> Result<&mut Self, Error> {
        self.timestamp(region.stop())
    }

    /// Submits the commands as the device's next point, and empties the recording.
    ///
    /// It is complete when all of it is, and all that was submitted to the device before. Submissions to different
    /// queues overlap as far as signals and points allow; a queue goes on to its next submission when everything that
    /// was submitted before its last one is complete. When the ring is full the call waits for room, for a bounded
    /// time.
    ///
    /// # Errors
    /// [`Error::Unbound`] with variables; [`Error::Fault`], [`Error::Timeout`], [`Error::Elsewhere`]; the recording is as
    /// it was.
    pub fn submit(&mut self) -> Result<Point, Error> {
        let sites = self.recording.filed.len();
        if sites > 0 {
            return Err(Error::Unbound { sites });
        }
        self.recording.wait_elsewhere()?;
        let (words, afters, chunks) = self.recording.for_submission();
        let submitted = self.inner.submit(&mut Work {
            queue: self.id,
            words,
            pieces: &[],
            afters,
            body: None,
            chunks,
        });
        let point = match submitted {
            Ok(point) => point,
            Err(SubmitError::TooLarge) => self.submit_by_reference()?,
            Err(SubmitError::Other(e)) => return Err(e),
        };
        self.recording.submitted(point);
        Ok(Point {
            inner: Arc::clone(&self.inner),
            point,
        })
    }

    /// More words than the ring has room for: they go into device memory, and the ring gets commands that name them.
    #[cold]
    fn submit_by_reference(&mut self) -> Result<CorePoint, Error> {
        if let Some(most) = self.inner.backend.largest_part(self.id.kind) {
            let (words, afters, chunks) = self.recording.for_submission();
            return self
                .inner
                .submit_parts(self.id, words, afters, chunks, most);
        }
        let align = self.inner.backend.reference_align(self.id.kind);
        let bytes = self.recording.len().next_multiple_of(align) * 4;
        let mut chunk = Chunk::new(&self.inner.heap, bytes)?;
        let broken = |_| Error::Internal("words do not fit their chunk");
        chunk
            .region
            .write_words(0, self.recording.words())
            .map_err(broken)?;
        let address = chunk.allocation.address();
        let pieces: Vec<Piece> = self.recording.pieces(address).collect();
        let mut launch = self.inner.encode_launch(self.id, &pieces)?;
        let (_, afters, chunks) = self.recording.for_submission();
        // The chunk is dropped after this, and buried with the submission's point.
        Ok(self.inner.submit(&mut Work {
            queue: self.id,
            words: &mut launch,
            pieces: &pieces,
            afters,
            body: Some(&mut chunk.region),
            chunks,
        })?)
    }

    /// Moves the commands into device memory, to be launched again and again with other values of their variables.
    ///
    /// # Errors
    /// [`Error::Download`] if there are downloads; [`Error::OutOfMemory`], [`Error::Record`].
    pub fn bind(mut self) -> Result<Bound, Error> {
        Bound::new(&mut self)
    }
}

impl Inner {
    /// Words that run these pieces; none for queues whose ports have their own way to.
    pub(crate) fn encode_launch(
        &self,
        queue: QueueId,
        pieces: &[Piece],
    ) -> Result<Vec<u32>, Error> {
        let mut launch = Vec::new();
        for &Piece { address, words } in pieces {
            let mut out = [0; 64];
            let command = Command::Launch { address, words };
            let list = hcq_nostd::patch::PatchList::none();
            let encoded = self.backend.encode(queue, &command, None, &mut out, list);
            let (n, _) = encoded.map_err(Error::record("launch"))?;
            launch.extend_from_slice(out.get(..n).unwrap_or_default());
        }
        Ok(launch)
    }

    /// Submits more words than a ring takes, part by part, to a queue that runs nothing by reference. Returns the last
    /// part's point.
    pub(crate) fn submit_parts(
        &self,
        queue: QueueId,
        words: &mut [u32],
        afters: &[After],
        chunks: &mut [Chunk],
        most: usize,
    ) -> Result<CorePoint, Error> {
        let (mut start, mut last) = (0, CorePoint::ZERO);
        let mut afters = afters;
        for part in words.chunks_mut(most.max(1)) {
            start += part.len();
            let now = afters.partition_point(|a| a.at < start);
            let (these, later) = afters.split_at_checked(now).unwrap_or((afters, &[]));
            afters = later;
            last = self.submit(&mut Work {
                queue,
                words: part,
                pieces: &[],
                afters: these,
                body: None,
                chunks: &mut *chunks,
            })?;
        }
        Ok(last)
    }
}
