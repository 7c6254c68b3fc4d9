//! Properties: `kgsl_ioctl_device_getproperty`, `adreno_getproperty`, `adreno_setproperty`.

use hcq_uapi::kgsl::{
    KGSL_CONSTRAINT_NONE, KGSL_CONSTRAINT_PWR_MAX, KGSL_CONSTRAINT_PWRLEVEL,
    KGSL_CONTEXT_PROP_FAULTS, KGSL_CTX_STAT_NO_ERROR, KGSL_PROP_CONTEXT_PROPERTY,
    KGSL_PROP_DEVICE_BITNESS, KGSL_PROP_DEVICE_INFO, KGSL_PROP_DEVICE_SHADOW, KGSL_PROP_GPU_MODEL,
    KGSL_PROP_GPU_RESET_STAT, KGSL_PROP_GPU_VA64_SIZE, KGSL_PROP_HIGHEST_BANK_BIT,
    KGSL_PROP_L3_PWR_CONSTRAINT, KGSL_PROP_MIN_ACCESS_LENGTH, KGSL_PROP_PWR_CONSTRAINT,
    KGSL_PROP_PWRCTRL, KGSL_PROP_QUERY_CAPABILITIES, KGSL_PROP_SPEED_BIN, KGSL_PROP_UBWC_MODE,
    KGSL_PROP_UCHE_GMEM_VADDR, KGSL_PROP_UCODE_VERSION, KGSL_PROP_VERSION,
    KGSL_QUERY_CAPS_PROPERTIES, KGSL_VERSION_MAJOR, KGSL_VERSION_MINOR, kgsl_capabilities,
    kgsl_capabilities_properties, kgsl_context_property, kgsl_context_property_fault,
    kgsl_device_constraint, kgsl_device_constraint_pwrlevel, kgsl_device_getproperty,
    kgsl_device_setproperty, kgsl_devinfo, kgsl_gpu_model, kgsl_shadowprop, kgsl_ucode_version,
    kgsl_version,
};
use zerocopy::{FromBytes, IntoBytes};

use super::{Kernel, MEMSTORE_BYTES};
use crate::machine::{FileId, PAGE, user};
use crate::qcom::iommu::{MEMSTORE_TOKEN, VA};

const KGSL_PROP_MMU_ENABLE: u32 = 0x6;
const KGSL_PROP_INTERRUPT_WAITS: u32 = 0x7;
const KGSL_PROP_DEVICE_QDSS_STM: u32 = 0x19;
const KGSL_PROP_DEVICE_QTIMER: u32 = 0x20;
const KGSL_PROP_SECURE_BUFFER_ALIGNMENT: u32 = 0x23;
const KGSL_PROP_SECURE_CTXT_SUPPORT: u32 = 0x24;
const KGSL_PROP_GAMING_BIN: u32 = 0x26;
const KGSL_PROP_VK_DEVICE_ID: u32 = 0x2A;
const KGSL_PROP_IS_LPAC_ENABLED: u32 = 0x2B;
const KGSL_PROP_IS_RAYTRACING_ENABLED: u32 = 0x2D;
const KGSL_PROP_IS_FASTBLEND_ENABLED: u32 = 0x2E;
const KGSL_PROP_UCHE_TRAP_BASE: u32 = 0x2F;
const KGSL_PROP_IS_AQE_ENABLED: u32 = 0x30;
const KGSL_PROP_GPU_SECURE_VA_SIZE: u32 = 0x31;
const KGSL_PROP_GPU_SECURE_VA_INUSE: u32 = 0x32;

/// `KGSL_FLAGS_INITIALIZED` and `KGSL_FLAGS_PER_CONTEXT_TIMESTAMPS`.
const SHADOW_FLAGS: u32 = 0x4 | 0x200;
/// `KGSL_CONSTRAINT_L3_NONE` and `KGSL_CONSTRAINT_L3_PWRLEVEL`.
const L3_NONE: u32 = 2;
const L3_PWRLEVEL: u32 = 3;
/// `KGSL_IOMMU_MAX_SECURE_SIZE`.
const SECURE_BYTES: u64 = 0xFFFF_F000;
/// `qcom,min-access-length` of the vendor's device trees.
const MIN_ACCESS: u32 = 32;

/// `kgsl_property_funcs`, then `adreno_property_funcs`.
const PROPERTIES: [u32; 30] = [
    KGSL_PROP_VERSION,
    KGSL_PROP_GPU_RESET_STAT,
    KGSL_PROP_SECURE_BUFFER_ALIGNMENT,
    KGSL_PROP_SECURE_CTXT_SUPPORT,
    KGSL_PROP_QUERY_CAPABILITIES,
    KGSL_PROP_CONTEXT_PROPERTY,
    KGSL_PROP_GPU_VA64_SIZE,
    KGSL_PROP_GPU_SECURE_VA_SIZE,
    KGSL_PROP_GPU_SECURE_VA_INUSE,
    KGSL_PROP_DEVICE_INFO,
    KGSL_PROP_DEVICE_SHADOW,
    KGSL_PROP_DEVICE_QDSS_STM,
    KGSL_PROP_DEVICE_QTIMER,
    KGSL_PROP_MMU_ENABLE,
    KGSL_PROP_INTERRUPT_WAITS,
    KGSL_PROP_UCHE_GMEM_VADDR,
    KGSL_PROP_UCODE_VERSION,
    KGSL_PROP_HIGHEST_BANK_BIT,
    KGSL_PROP_MIN_ACCESS_LENGTH,
    KGSL_PROP_UBWC_MODE,
    KGSL_PROP_DEVICE_BITNESS,
    KGSL_PROP_SPEED_BIN,
    KGSL_PROP_GAMING_BIN,
    KGSL_PROP_GPU_MODEL,
    KGSL_PROP_VK_DEVICE_ID,
    KGSL_PROP_IS_LPAC_ENABLED,
    KGSL_PROP_IS_RAYTRACING_ENABLED,
    KGSL_PROP_IS_FASTBLEND_ENABLED,
    KGSL_PROP_UCHE_TRAP_BASE,
    KGSL_PROP_IS_AQE_ENABLED,
];

/// A property of which the kernel wants to hear the size.
fn exactly(args: &kgsl_device_getproperty, bytes: &[u8]) -> Result<(), i32> {
    if u64::try_from(bytes.len()) != Ok(args.sizebytes) {
        return Err(libc::EINVAL);
    }
    user::write(args.value, bytes)
}

/// `copy_prop`: as much as both sides know. The kernel looks at 32 bits of the size.
fn copy(args: &kgsl_device_getproperty, bytes: &[u8]) -> Result<(), i32> {
    let room = usize::try_from(args.sizebytes & 0xFFFF_FFFF).map_err(|_| libc::EFAULT)?;
    user::write(args.value, bytes.get(..room).unwrap_or(bytes))
}

/// The beginning of a struct of which the caller knows `bytes`.
fn part<T: FromBytes + IntoBytes>(address: u64, bytes: u64) -> Result<(T, usize), i32> {
    let mut value = T::new_zeroed();
    let known = usize::try_from(bytes).unwrap_or(usize::MAX);
    let known = known.min(size_of::<T>());
    let bytes = value.as_mut_bytes().get_mut(..known);
    user::read(address, bytes.unwrap_or_default())?;
    Ok((value, known))
}

fn size<T>() -> u64 {
    u64::try_from(size_of::<T>()).unwrap_or(0)
}

impl Kernel {
    /// `kgsl_ioctl_device_getproperty`.
    pub(super) fn get_property(
        &mut self,
        file: FileId,
        args: &mut kgsl_device_getproperty,
    ) -> Result<(), i32> {
        let chip = self.chip();
        match args.r#type {
            KGSL_PROP_VERSION => {
                let version = kgsl_version {
                    drv_major: KGSL_VERSION_MAJOR,
                    drv_minor: KGSL_VERSION_MINOR,
                    dev_major: 3,
                    dev_minor: 1,
                };
                exactly(args, version.as_bytes())
            }
            KGSL_PROP_GPU_RESET_STAT => self.reset_status(file, args),
            KGSL_PROP_SECURE_BUFFER_ALIGNMENT => {
                let page = u32::try_from(PAGE).unwrap_or(0);
                exactly(args, page.as_bytes())
            }
            KGSL_PROP_SECURE_CTXT_SUPPORT => exactly(args, 0u32.as_bytes()),
            KGSL_PROP_QUERY_CAPABILITIES => capabilities(args),
            KGSL_PROP_CONTEXT_PROPERTY => self.context_property(file, args),
            KGSL_PROP_GPU_VA64_SIZE => exactly(args, (VA.end - VA.start).as_bytes()),
            KGSL_PROP_GPU_SECURE_VA_SIZE => exactly(args, SECURE_BYTES.as_bytes()),
            KGSL_PROP_GPU_SECURE_VA_INUSE => exactly(args, 0u64.as_bytes()),
            KGSL_PROP_DEVICE_INFO => {
                let info = kgsl_devinfo {
                    device_id: 1,
                    chip_id: chip.chip_id,
                    mmu_enabled: 1,
                    gpu_id: chip.gpu_id,
                    gmem_sizebytes: chip.gmem,
                    ..Default::default()
                };
                copy(args, info.as_bytes())
            }
            KGSL_PROP_DEVICE_SHADOW => {
                let shadow = kgsl_shadowprop {
                    gpuaddr: MEMSTORE_TOKEN,
                    size: MEMSTORE_BYTES,
                    flags: SHADOW_FLAGS,
                    hole0: 0,
                };
                copy(args, shadow.as_bytes())
            }
            // Neither has an address or bytes: both structs are a u64 and a size.
            KGSL_PROP_DEVICE_QDSS_STM | KGSL_PROP_DEVICE_QTIMER => copy(args, [0u64; 2].as_bytes()),
            KGSL_PROP_MMU_ENABLE | KGSL_PROP_INTERRUPT_WAITS => copy(args, 1u32.as_bytes()),
            KGSL_PROP_UCHE_GMEM_VADDR => copy(args, chip.gmem_base().as_bytes()),
            KGSL_PROP_UCODE_VERSION => {
                // One firmware does both; the second name stays empty.
                let version = kgsl_ucode_version {
                    pfp: chip.firmware,
                    pm4: 0,
                };
                copy(args, version.as_bytes())
            }
            KGSL_PROP_HIGHEST_BANK_BIT => copy(args, chip.highest_bank_bit.as_bytes()),
            KGSL_PROP_MIN_ACCESS_LENGTH => copy(args, MIN_ACCESS.as_bytes()),
            KGSL_PROP_UBWC_MODE => copy(args, chip.ubwc_mode.as_bytes()),
            KGSL_PROP_DEVICE_BITNESS => copy(args, 48u32.as_bytes()),
            KGSL_PROP_SPEED_BIN
            | KGSL_PROP_IS_LPAC_ENABLED
            | KGSL_PROP_IS_RAYTRACING_ENABLED
            | KGSL_PROP_IS_FASTBLEND_ENABLED
            | KGSL_PROP_IS_AQE_ENABLED => copy(args, 0u32.as_bytes()),
            // These boards have no fuse for the one, these chips no address for the other.
            KGSL_PROP_GAMING_BIN | KGSL_PROP_UCHE_TRAP_BASE => Err(libc::EINVAL),
            KGSL_PROP_GPU_MODEL => {
                let mut model = kgsl_gpu_model::default();
                for (to, byte) in model.gpu_model.iter_mut().zip(chip.model.bytes()) {
                    *to = byte;
                }
                copy(args, model.as_bytes())
            }
            KGSL_PROP_VK_DEVICE_ID => copy(args, chip.vulkan_id().as_bytes()),
            _ => Err(libc::ENODEV),
        }
    }

    /// `kgsl_prop_gpu_reset_stat`: told once.
    fn reset_status(&mut self, file: FileId, args: &kgsl_device_getproperty) -> Result<(), i32> {
        if args.sizebytes != size::<u32>() {
            return Err(libc::EINVAL);
        }
        let id = user::get(args.value)?;
        let context = self.owned(file, id)?;
        let status = std::mem::replace(&mut context.reset_status, KGSL_CTX_STAT_NO_ERROR);
        user::put(args.value, &status)
    }

    /// `kgsl_get_ctxt_properties`.
    fn context_property(
        &mut self,
        file: FileId,
        args: &mut kgsl_device_getproperty,
    ) -> Result<(), i32> {
        if args.sizebytes == 0 {
            args.sizebytes = size::<kgsl_context_property>();
            return Ok(());
        }
        let (property, _): (kgsl_context_property, _) = part(args.value, args.sizebytes)?;
        if property.r#type == 0 {
            return Err(libc::EINVAL);
        }
        let context = self.owned(file, property.contextid)?;
        if property.r#type != KGSL_CONTEXT_PROP_FAULTS {
            return Err(libc::EOPNOTSUPP);
        }
        if property.size == 0 {
            // The size is put into the kernel's copy, which is not copied back.
            return Ok(());
        }
        let faults = kgsl_context_property_fault {
            faults: context.faults,
            timestamp: context.last_fault,
        };
        let room = usize::try_from(property.size).unwrap_or(usize::MAX);
        let bytes = faults.as_bytes();
        user::write(property.data, bytes.get(..room).unwrap_or(bytes))
    }

    /// `kgsl_ioctl_device_setproperty`, `adreno_setproperty`, `a6xx_setproperty`.
    pub(super) fn set_property(
        &mut self,
        file: FileId,
        args: &mut kgsl_device_setproperty,
    ) -> Result<(), i32> {
        // The kernel looks at 32 bits of the size.
        let bytes = args.sizebytes & 0xFFFF_FFFF;
        match args.r#type {
            KGSL_PROP_PWR_CONSTRAINT | KGSL_PROP_L3_PWR_CONSTRAINT => {
                if bytes != size::<kgsl_device_constraint>() {
                    return Err(libc::EINVAL);
                }
                let constraint: kgsl_device_constraint = user::get(args.value)?;
                self.owned(file, constraint.context_id)?;
                self.set_constraint(&constraint)
            }
            KGSL_PROP_PWRCTRL => {
                if bytes != size::<u32>() {
                    return Err(libc::EINVAL);
                }
                let sleeps: u32 = user::get(args.value)?;
                self.power.kept = sleeps == 0;
                Ok(())
            }
            _ => Err(libc::ENODEV),
        }
    }

    /// `adreno_set_constraint`.
    fn set_constraint(&mut self, constraint: &kgsl_device_constraint) -> Result<(), i32> {
        let level = || -> Result<u32, i32> {
            if constraint.size != size::<kgsl_device_constraint_pwrlevel>() {
                return Err(libc::EINVAL);
            }
            let wish: kgsl_device_constraint_pwrlevel = user::get(constraint.data)?;
            Ok(wish.level)
        };
        let context = self.contexts.get_mut(&constraint.context_id);
        let context = context.ok_or(libc::EINVAL)?;
        match constraint.r#type {
            KGSL_CONSTRAINT_PWRLEVEL => {
                let level = level()?;
                if level > KGSL_CONSTRAINT_PWR_MAX {
                    return Err(libc::EINVAL);
                }
                context.constraint = Some(level);
            }
            KGSL_CONSTRAINT_NONE => context.constraint = None,
            L3_PWRLEVEL => context.l3_constraint = Some(level()?.min(KGSL_CONSTRAINT_PWR_MAX)),
            L3_NONE => context.l3_constraint = None,
            _ => return Err(libc::EINVAL),
        }
        Ok(())
    }
}

/// `kgsl_prop_query_capabilities`.
fn capabilities(args: &mut kgsl_device_getproperty) -> Result<(), i32> {
    if args.sizebytes == 0 {
        args.sizebytes = size::<kgsl_capabilities>();
        return Ok(());
    }
    let (mut known, bytes): (kgsl_capabilities, usize) = part(args.value, args.sizebytes)?;
    match known.querytype {
        0 => return Err(libc::EINVAL),
        KGSL_QUERY_CAPS_PROPERTIES => {}
        _ => return Err(libc::EOPNOTSUPP),
    }
    // What goes wrong below is told after the struct was copied back.
    let result = properties(&mut known);
    user::write(
        args.value,
        known.as_bytes().get(..bytes).unwrap_or_default(),
    )?;
    result
}

/// `kgsl_query_caps_properties`.
fn properties(known: &mut kgsl_capabilities) -> Result<(), i32> {
    if known.size == 0 {
        known.size = size::<kgsl_capabilities_properties>();
        return Ok(());
    }
    let (mut list, bytes): (kgsl_capabilities_properties, usize) = part(known.data, known.size)?;
    if list.count == 0 {
        list.count = u32::try_from(PROPERTIES.len()).unwrap_or(0);
    } else {
        let room = usize::try_from(list.count).unwrap_or(usize::MAX);
        let some = PROPERTIES.get(..room).unwrap_or(&PROPERTIES);
        list.count = u32::try_from(some.len()).unwrap_or(0);
        user::write(list.list, some.as_bytes())?;
    }
    user::write(known.data, list.as_bytes().get(..bytes).unwrap_or_default())
}
