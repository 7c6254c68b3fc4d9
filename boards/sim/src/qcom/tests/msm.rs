//! A process that has opened the render node of Linux' own driver.

use hcq_uapi::drm::{drm_gem_close, drm_version};
use hcq_uapi::msm::*;

use super::*;

mod objects;
mod queues;
mod submissions;

const NODE: &str = "/dev/dri/renderD128";
/// All waits are for this time, far away.
const LATER: drm_msm_timespec = drm_msm_timespec {
    tv_sec: i64::MAX,
    tv_nsec: 0,
};
/// Waits for this are over at once.
const PAST: drm_msm_timespec = drm_msm_timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// A process that has opened the node.
struct Msm(Rig);

/// An object that is mapped.
#[derive(Clone, Copy, Debug)]
struct Bo {
    handle: u32,
    buffer: Buffer,
}

impl Msm {
    fn on(config: &str) -> Self {
        let config: Config = config.parse().expect(config);
        let machine = Machine::new(config).expect("starts");
        let file = machine.open(Path::new(NODE), true).expect("is there");
        Self(Rig {
            machine,
            file,
            commands: Vec::new(),
        })
    }

    /// Steps by hand.
    fn new(seed: u64) -> Self {
        Self::on(&format!("qcom-a650,msm=present,seed={seed},pace=manual"))
    }

    fn call<T: Argument>(&self, args: &mut T) -> Result<i32, i32> {
        self.0.call(args)
    }

    fn param(&self, param: u32) -> Result<u64, i32> {
        let mut args = drm_msm_param {
            pipe: MSM_PIPE_3D0,
            param,
            ..Default::default()
        };
        self.call(&mut args).map(|_| args.value)
    }

    fn alloc(&self, size: u64, flags: BoFlags) -> Result<u32, i32> {
        let mut args = drm_msm_gem_new {
            size,
            flags,
            handle: 0,
        };
        self.call(&mut args).map(|_| args.handle)
    }

    fn info(&self, handle: u32, info: u32, value: u64) -> Result<u64, i32> {
        let mut args = drm_msm_gem_info {
            handle,
            info,
            value,
            ..Default::default()
        };
        self.call(&mut args).map(|_| args.value)
    }

    fn close(&self, handle: u32) -> Result<i32, i32> {
        self.call(&mut drm_gem_close { handle, pad: 0 })
    }

    /// An object that is mapped.
    fn bo(&self, bytes: u64, flags: BoFlags) -> Bo {
        let handle = self.alloc(bytes, flags).expect("memory");
        let offset = self.info(handle, MSM_INFO_GET_OFFSET, 0).expect("there");
        let gpu = self.info(handle, MSM_INFO_GET_IOVA, 0).expect("there");
        let bytes = bytes.next_multiple_of(PAGE);
        let cpu = self.0.map(offset, bytes, true).expect("mapped");
        let buffer = Buffer {
            id: handle,
            gpu,
            cpu,
            bytes,
            flags: MemFlags::empty(),
        };
        Bo { handle, buffer }
    }

    /// An object with these packets.
    fn commands(&self, packets: &[Vec<u32>]) -> (Bo, u32) {
        let bo = self.bo(PAGE, BoFlags::WC);
        let mut words = packets.concat();
        let bytes = words.len() as u32 * 4;
        words.resize(words.len().next_multiple_of(2), 0);
        for (at, pair) in (0..).step_by(8).zip(words.chunks(2)) {
            bo.buffer
                .set(at, u64::from(pair[0]) | u64::from(pair[1]) << 32);
        }
        (bo, bytes)
    }

    fn send(
        &self,
        args: drm_msm_gem_submit,
        bos: &mut [drm_msm_gem_submit_bo],
        cmds: &mut [drm_msm_gem_submit_cmd],
    ) -> Result<u32, i32> {
        let mut args = drm_msm_gem_submit {
            flags: args.flags.gpu(),
            nr_bos: bos.len() as u32,
            nr_cmds: cmds.len() as u32,
            bos: at(bos),
            cmds: at(cmds),
            ..args
        };
        self.call(&mut args).map(|_| args.fence)
    }

    /// Submits packets that use objects; the fence.
    fn submit(&self, queueid: u32, packets: &[Vec<u32>], uses: &[Bo]) -> Result<u32, i32> {
        let (words, size) = self.commands(packets);
        let mut bos: Vec<_> = [&words].into_iter().chain(uses).map(used).collect();
        let args = drm_msm_gem_submit {
            queueid,
            ..Default::default()
        };
        self.send(args, &mut bos, &mut [run_all(size)])
    }

    fn wait(&self, queueid: u32, fence: u32, timeout: drm_msm_timespec) -> Result<i32, i32> {
        self.call(&mut drm_msm_wait_fence {
            fence,
            timeout,
            queueid,
            ..Default::default()
        })
    }

    fn queue(&self, prio: u32) -> Result<u32, i32> {
        let mut args = drm_msm_submitqueue {
            prio,
            ..Default::default()
        };
        self.call(&mut args).map(|_| args.id)
    }

    fn faults(&self, id: u32) -> Result<u32, i32> {
        let mut faults = u32::MAX;
        let mut args = drm_msm_submitqueue_query {
            data: at(&mut faults),
            id,
            param: MSM_SUBMITQUEUE_PARAM_FAULTS,
            len: 4,
            pad: 0,
        };
        self.call(&mut args).map(|_| faults)
    }

    fn prep(&self, handle: u32, op: u32, timeout: drm_msm_timespec) -> Result<i32, i32> {
        self.call(&mut drm_msm_gem_cpu_prep {
            handle,
            op,
            timeout,
        })
    }
}

fn used(bo: &Bo) -> drm_msm_gem_submit_bo {
    drm_msm_gem_submit_bo {
        flags: SubmitBoFlags::READ | SubmitBoFlags::WRITE,
        handle: bo.handle,
        presumed: 0,
    }
}

/// So many bytes of the first object.
fn run_all(size: u32) -> drm_msm_gem_submit_cmd {
    drm_msm_gem_submit_cmd {
        r#type: MSM_SUBMIT_CMD_BUF,
        size,
        ..Default::default()
    }
}

#[test]
fn the_driver_tells_its_name_and_version() {
    let msm = Msm::on("qcom-a650,msm=present,msm_version=1.6,pace=manual");
    let mut name = [b'?'; 8];
    let mut args = drm_version {
        name_len: 2,
        name: at(&mut name),
        ..Default::default()
    };
    assert_eq!(msm.call(&mut args), Ok(0));
    assert_eq!((args.version_major, args.version_minor), (1, 6));
    assert_eq!((args.name_len, args.desc_len), (3, 18), "whatever fits");
    assert_eq!(&name, b"ms??????");
    args.name = 8;
    assert_eq!(msm.call(&mut args), Err(libc::EFAULT));
}

#[test]
fn one_driver_has_the_gpu() {
    let open = |config: &str, node: &str| {
        let config: Config = config.parse().expect(config);
        let machine = Machine::new(config).expect("starts");
        machine.open(Path::new(node), true).map(drop)
    };
    let kgsl = "/dev/kgsl-3d0";
    assert_eq!(open("qcom-a650", NODE), Err(libc::ENOENT));
    assert_eq!(open("qcom-a650,msm=present", kgsl), Err(libc::ENOENT));
    assert_eq!(open("qcom-a650,msm=denied", NODE), Err(libc::EACCES));
    assert_eq!(open("qcom-a650,msm=bare", NODE), Ok(()));
}

#[test]
fn parameters_are_the_chips() {
    for (chip, id, number, gmem, space) in [
        ("a630", 0x0603_0001, 630, 1 << 20, 4 << 30),
        ("a650", 0x0605_0002, 650, (1 << 20) + (128 << 10), 16 << 30),
        ("a660", 0x0606_0001, 660, (1 << 20) + (512 << 10), 16 << 30),
    ] {
        let msm = Msm::on(&format!("qcom-{chip},msm=present,pace=manual"));
        let is = |param, value: u64| assert_eq!(msm.param(param), Ok(value), "{chip} {param}");
        assert_eq!(msm.param(MSM_PARAM_CHIP_ID).map(|id| id >> 8), Ok(id >> 8));
        is(MSM_PARAM_GPU_ID, number);
        is(MSM_PARAM_GMEM_SIZE, gmem);
        is(MSM_PARAM_PRIORITIES, 3);
        is(MSM_PARAM_FAULTS, 0);
        is(MSM_PARAM_VA_START, 1 << 32);
        is(MSM_PARAM_VA_SIZE, space);
        let [before, after] = [(); 2].map(|()| msm.param(MSM_PARAM_TIMESTAMP).expect("a time"));
        assert!(after >= before && before > 0);
    }
}

#[test]
fn wrong_parameters_are_refused() {
    let msm = Msm::new(1);
    for unknown in [0, MSM_PARAM_SYSPROF, MSM_PARAM_COMM, 0x10, u32::MAX] {
        assert_eq!(msm.param(unknown), Err(libc::EINVAL), "{unknown}");
    }
    let plain = drm_msm_param {
        pipe: MSM_PIPE_3D0,
        param: MSM_PARAM_CHIP_ID,
        ..Default::default()
    };
    for mut wrong in [
        drm_msm_param { pipe: 0, ..plain },
        drm_msm_param {
            pipe: MSM_PIPE_2D0,
            ..plain
        },
        drm_msm_param { len: 8, ..plain },
        drm_msm_param { pad: 1, ..plain },
    ] {
        assert_eq!(msm.call(&mut wrong), Err(libc::EINVAL), "{wrong:?}");
    }
    let mut name = *b"a name";
    let set = |param, len: u32, value| {
        msm.call(&mut drm_msm_set_param {
            pipe: MSM_PIPE_3D0,
            param,
            value,
            len,
            pad: 0,
        })
    };
    let text = at(&mut name);
    assert_eq!(set(MSM_PARAM_COMM, 6, text), Ok(0));
    assert_eq!(set(MSM_PARAM_COMM, 4097, text), Err(libc::EINVAL));
    assert_eq!(set(MSM_PARAM_CMDLINE, 6, 8), Err(libc::EFAULT));
    assert_eq!(set(MSM_PARAM_SYSPROF, 0, 1), Err(libc::EPERM));
    assert_eq!(set(MSM_PARAM_CHIP_ID, 0, 1), Err(libc::EINVAL));
    assert_eq!(set(MSM_PARAM_CHIP_ID, 1, 1), Err(libc::EINVAL));
}

#[test]
fn without_firmware_there_is_memory_but_no_gpu() {
    let msm = Msm::on("qcom-a630,msm=bare,pace=manual");
    assert_eq!(msm.param(MSM_PARAM_CHIP_ID), Err(libc::ENXIO));
    let handle = msm.alloc(1, BoFlags::WC).expect("memory");
    assert!(msm.info(handle, MSM_INFO_GET_OFFSET, 0).is_ok());
    assert_eq!(msm.info(handle, MSM_INFO_GET_IOVA, 0), Err(libc::EINVAL));
    assert_eq!(msm.queue(0), Err(libc::ENODEV));
    assert_eq!(msm.faults(0), Err(libc::ENOENT), "not even the first queue");
    let refused = msm.send(drm_msm_gem_submit::default(), &mut [], &mut []);
    assert_eq!(refused, Err(libc::ENXIO));
    assert_eq!(msm.wait(0, 1, PAST), Ok(0));
    assert_eq!(msm.prep(handle, MSM_PREP_WRITE, PAST), Ok(0));
    assert_eq!(msm.close(handle), Ok(0));
}

#[test]
fn unknown_calls_are_refused() {
    let msm = Msm::new(1);
    let mut bytes = [0u8; 256];
    for number in (0u64..0x100).filter(|n| !matches!(n, 0x00 | 0x09 | 0x40..=0x4c)) {
        let request = 0xc008_6400 | number;
        // SAFETY: more bytes than any request takes.
        let answer = unsafe {
            msm.0
                .machine
                .ioctl(msm.0.file, request, bytes.as_mut_ptr().cast())
        };
        assert_eq!(answer, Err(libc::EINVAL), "{number:#x}");
    }
}
