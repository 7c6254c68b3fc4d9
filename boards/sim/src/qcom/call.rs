//! Arguments of calls, copied in and out as `kgsl_ioctl` does it, and `drm_ioctl`.

use hcq_uapi::ioctl::{self, Argument};

use crate::machine::{Answer, PAGE, user};

/// The caller's argument.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) request: u32,
    pub(super) address: u64,
}

impl Call {
    fn shared<T: Argument>(self) -> usize {
        ioctl::size(self.request).min(size_of::<T>())
    }

    fn copies<T: Argument>(self, direction: u32) -> bool {
        ioctl::direction(T::REQUEST) & ioctl::direction(self.request) & direction != 0
    }

    /// `kgsl_ioctl_copy_in`: as much as both sides know; what the caller leaves out is zero.
    pub(super) fn take<T: Argument>(self) -> Result<T, i32> {
        let mut args = T::new_zeroed();
        if self.copies::<T>(ioctl::WRITE) {
            let bytes = args.as_mut_bytes().get_mut(..self.shared::<T>());
            user::read(self.address, bytes.unwrap_or_default())?;
        }
        Ok(args)
    }

    /// `kgsl_ioctl_copy_out`.
    pub(super) fn give<T: Argument>(self, args: &T) -> Result<(), i32> {
        if self.copies::<T>(ioctl::READ) {
            let bytes = args.as_bytes().get(..self.shared::<T>());
            user::write(self.address, bytes.unwrap_or_default())?;
        }
        Ok(())
    }

    /// The argument is copied back unless there is an error.
    pub(super) fn run<T: Argument>(
        self,
        call: impl FnOnce(&mut T) -> Result<(), i32>,
    ) -> Result<Answer, i32> {
        let mut args = self.take()?;
        call(&mut args)?;
        self.give(&args)?;
        Ok(Answer::Done(0))
    }
}

/// `copy_struct_from_user`: a struct of which the caller knows `bytes`; what it does not know is zero, and what the kernel does
/// not know must be.
pub(super) fn copy_struct<T: zerocopy::FromBytes + zerocopy::IntoBytes>(
    address: u64,
    bytes: u64,
) -> Result<T, i32> {
    let mut value = T::new_zeroed();
    let known = u64::try_from(size_of::<T>()).map_err(|_| libc::EFAULT)?;
    let mut at = known;
    while at < bytes {
        // `check_zeroed_user`.
        let mut rest = [0u8; 4096];
        let now = (bytes - at).min(PAGE);
        let part = usize::try_from(now)
            .ok()
            .and_then(|now| rest.get_mut(..now));
        let part = part.ok_or(libc::EFAULT)?;
        user::read(address.checked_add(at).ok_or(libc::EFAULT)?, part)?;
        if part.iter().any(|&byte| byte != 0) {
            return Err(libc::E2BIG);
        }
        at += now;
    }
    let shared = usize::try_from(bytes.min(known)).map_err(|_| libc::EFAULT)?;
    let part = value.as_mut_bytes().get_mut(..shared);
    user::read(address, part.unwrap_or_default())?;
    Ok(value)
}
