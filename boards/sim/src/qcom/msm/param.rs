//! Parameters, and which driver this is: `adreno_get_param`, `adreno_set_param`, `drm_version`.

use hcq_uapi::drm::drm_version;
use hcq_uapi::msm::{
    MSM_PARAM_CHIP_ID, MSM_PARAM_CMDLINE, MSM_PARAM_COMM, MSM_PARAM_FAULTS, MSM_PARAM_GMEM_BASE,
    MSM_PARAM_GMEM_SIZE, MSM_PARAM_GPU_ID, MSM_PARAM_MAX_FREQ, MSM_PARAM_PP_PGTABLE,
    MSM_PARAM_PRIORITIES, MSM_PARAM_SUSPENDS, MSM_PARAM_SYSPROF, MSM_PARAM_TIMESTAMP,
    MSM_PARAM_VA_SIZE, MSM_PARAM_VA_START, MSM_PIPE_3D0, drm_msm_param, drm_msm_set_param,
};

use super::Kernel;
use super::queue::PRIORITIES;
use crate::machine::{FileId, PAGE, user};
use crate::qcom::host::ticks;
use crate::qcom::options::Msm;

/// `drm_copy_field`.
fn copy_field(text: &str, len: &mut u64, address: u64) -> Result<(), i32> {
    let room = usize::try_from(*len).unwrap_or(usize::MAX);
    let bytes = text.as_bytes();
    *len = u64::try_from(bytes.len()).unwrap_or(0);
    let told = bytes.get(..room.min(bytes.len())).unwrap_or_default();
    if address == 0 {
        return Ok(());
    }
    user::write(address, told)
}

impl Kernel {
    /// Whether the GPU's firmware was there to be loaded (`priv->gpu`).
    pub(super) fn has_gpu(&self) -> bool {
        self.settings.options.msm != Msm::Bare
    }

    /// `drm_version`.
    pub(super) fn version((major, minor): (u32, u32), args: &mut drm_version) -> Result<(), i32> {
        let signed = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        args.version_major = signed(major);
        args.version_minor = signed(minor);
        args.version_patchlevel = 0;
        copy_field("msm", &mut args.name_len, args.name)?;
        copy_field("20130625", &mut args.date_len, args.date)?;
        copy_field("MSM Snapdragon DRM", &mut args.desc_len, args.desc)
    }

    /// `msm_ioctl_get_param`.
    pub(super) fn get_param(&mut self, file: FileId, args: &mut drm_msm_param) -> Result<(), i32> {
        if args.pipe != MSM_PIPE_3D0 || args.pad != 0 {
            return Err(libc::EINVAL);
        }
        if !self.has_gpu() {
            return Err(libc::ENXIO);
        }
        if args.len != 0 {
            return Err(libc::EINVAL);
        }
        let chip = self.chip();
        let file = self.files.get(&file).ok_or(libc::EBADF)?;
        let space = file.space.range();
        args.value = match args.param {
            MSM_PARAM_GPU_ID => chip.msm_number.into(),
            MSM_PARAM_GMEM_SIZE => chip.gmem,
            // The family of the A650 has its tile memory at no address that others could have.
            MSM_PARAM_GMEM_BASE if chip.gmem_alignment == 0 => 0,
            MSM_PARAM_GMEM_BASE => 0x10_0000,
            MSM_PARAM_CHIP_ID => chip.chip_id.into(),
            MSM_PARAM_MAX_FREQ => chip.clocks.first().copied().unwrap_or(0).into(),
            MSM_PARAM_TIMESTAMP => ticks(),
            MSM_PARAM_PRIORITIES => PRIORITIES.into(),
            MSM_PARAM_PP_PGTABLE => 0,
            MSM_PARAM_FAULTS => file.faults,
            MSM_PARAM_SUSPENDS => self.suspends,
            MSM_PARAM_VA_START => space.start,
            MSM_PARAM_VA_SIZE => space.end - space.start,
            _ => return Err(libc::EINVAL),
        };
        Ok(())
    }

    /// `msm_ioctl_set_param`.
    pub(super) fn set_param(&mut self, args: &mut drm_msm_set_param) -> Result<(), i32> {
        if args.pipe != MSM_PIPE_3D0 || args.pad != 0 {
            return Err(libc::EINVAL);
        }
        if !self.has_gpu() {
            return Err(libc::ENXIO);
        }
        match args.param {
            MSM_PARAM_COMM | MSM_PARAM_CMDLINE => {
                if u64::from(args.len) > PAGE {
                    return Err(libc::EINVAL);
                }
                let mut text = [0u8; 4096];
                let len = usize::try_from(args.len).map_err(|_| libc::EINVAL)?;
                let text = text.get_mut(..len).ok_or(libc::EINVAL)?;
                user::read(args.value, text)
            }
            _ if args.len != 0 => Err(libc::EINVAL),
            // Nobody is the system's administrator here.
            MSM_PARAM_SYSPROF => Err(libc::EPERM),
            _ => Err(libc::EINVAL),
        }
    }
}
