//! Recording launches of kernels.

use std::sync::Arc;

use hcq_nostd::args::Arg as CoreArg;
use hcq_nostd::value::Value;

use crate::Error;
use crate::arg::{Arg, Grid};
use crate::backend::{Command, Descriptors, Exec, QueueKind};
use crate::program::Kernel;
use crate::queue::Commands;
use crate::recording::{Beside, Keep};

/// The variables that a launch names.
struct Variables {
    declared: u32,
    any: bool,
}

impl Variables {
    #[inline]
    fn see(&mut self, value: Value) -> Result<(), Error> {
        if let Value::Var(of) = value {
            let index = of.var.index();
            if index >= self.declared {
                return Err(Error::UnknownVariable {
                    index,
                    count: self.declared,
                });
            }
            self.any = true;
        }
        Ok(())
    }
}

impl Commands {
    /// Runs a kernel over a grid. The arguments are copied now.
    ///
    /// # Safety
    /// The kernel is foreign code: it must be sound for these arguments and this grid, stay inside the buffers that it
    /// is given, and run together with whatever is in flight at the same time.
    ///
    /// # Errors
    /// [`Error::WrongQueue`] on a copy queue; [`Error::ArgumentCount`], [`Error::Argument`] against the kernel's
    /// signature; [`Error::OtherDevice`], [`Error::UnknownVariable`], [`Error::Record`]; [`Error::OutOfMemory`],
    /// [`Error::Timeout`] waiting for room for the argument block.
    #[allow(unsafe_code, reason = "takes the caller's word for a kernel")]
    pub unsafe fn exec(
        &mut self,
        kernel: &Kernel,
        args: &[Arg<'_>],
        grid: Grid,
    ) -> Result<&mut Self, Error> {
        self.only("exec", QueueKind::Compute)?;
        // Room on the stack, of which no more is cleared than is needed.
        match args.len() {
            0..=4 => self.launch(kernel, args, &grid, &mut [CoreArg::Bytes(&[]); 4])?,
            5..=8 => self.launch(kernel, args, &grid, &mut [CoreArg::Bytes(&[]); 8])?,
            9..=24 => self.launch(kernel, args, &grid, &mut [CoreArg::Bytes(&[]); 24])?,
            n => self.launch(kernel, args, &grid, &mut vec![CoreArg::Bytes(&[]); n])?,
        }
        Ok(self)
    }

    #[inline]
    fn launch<'a>(
        &mut self,
        kernel: &Kernel,
        args: &[Arg<'a>],
        grid: &Grid,
        room: &mut [CoreArg<'a>],
    ) -> Result<(), Error> {
        let heap = &self.inner.heap;
        if !Arc::ptr_eq(heap, &kernel.kernel.heap) {
            return Err(Error::OtherDevice { what: "kernel" });
        }
        kernel.check(args)?;
        let mut variables = Variables {
            declared: self.recording.vars,
            any: false,
        };
        for (to, arg) in room.iter_mut().zip(args) {
            if arg.allocation.is_some_and(|a| !Arc::ptr_eq(heap, a.heap())) {
                return Err(Error::OtherDevice { what: "buffer" });
            }
            if let CoreArg::Buffer(v) | CoreArg::Scalar { value: v, .. } = arg.core {
                variables.see(v)?;
            }
            *to = arg.core;
        }
        for &value in &grid.groups {
            variables.see(value)?;
        }
        for &value in &grid.local {
            variables.see(value)?;
        }
        let core_args = room.get(..args.len()).unwrap_or_default();
        let program = &*kernel.program_for(args)?;
        let (len, align) = match kernel.kernel.kernargs {
            Some(known) => known,
            None => {
                let sizes = self.inner.backend.kernargs(program, core_args);
                sizes.map_err(Error::record("exec"))?
            }
        };
        if kernel.kernel.has_needs {
            self.inner.make_ready(program, self.id)?;
        }
        // A launch descriptor lies behind the argument block.
        let (size, align, behind) = match self.inner.descriptor {
            0 => (len, align, 0),
            bytes => {
                let behind = len.next_multiple_of(Descriptors::ALIGN);
                (behind + bytes, align.max(Descriptors::ALIGN), behind)
            }
        };
        let (chunk, offset) = self.reserve(size, align)?;
        let command = Command::Exec(Exec {
            program,
            args: core_args,
            grid,
        });
        let backend = &*self.inner.backend;
        let descriptor = offset + behind;
        let beside = Some(Beside {
            chunk,
            offset,
            len,
            descriptor,
        });
        let recorded = self
            .recording
            .record(backend, self.id, &command, beside, variables.any);
        recorded.map_err(Error::record("exec"))?;

        for allocation in args.iter().filter_map(|a| a.allocation) {
            let key = Arc::as_ptr(allocation).cast();
            self.recording.keep(key, || Keep::Memory {
                _held: Arc::clone(allocation),
            });
        }
        let key = Arc::as_ptr(&kernel.kernel).cast();
        self.recording.keep(key, || Keep::Kernel {
            _held: Arc::clone(&kernel.kernel),
        });
        Ok(())
    }
}
