//! Sequences of calls to the simulated render node of Linux' `msm`.

use crate::raw::{Call, Family, Script, get, set};
use hcq_uapi::drm::{drm_gem_close, drm_version};
use hcq_uapi::ioctl::{self, Argument};
use hcq_uapi::msm::*;
use zerocopy::IntoBytes;

/// The first GPU address of a file's address space, which its first object has.
const GPU: u64 = 1 << 32;
/// Where the first object is in the node, in pages.
const FIRST_PAGE: u32 = 0x10_0000;

/// Calls that would wait do not get far: times are over at once, and handles are closed when the GPU is done.
fn may_call(call: &Call<'_>, request: u32, place: u64) -> bool {
    let number = |request| ioctl::number(request);
    let n = number(request);
    if n == number(drm_msm_wait_fence::REQUEST) || n == number(drm_msm_gem_cpu_prep::REQUEST) {
        (8..24).step_by(4).for_each(|at| set(place + at, 0));
    }
    if n == number(drm_gem_close::REQUEST) {
        let _ = (0..500).any(|_| !call.machine.step());
        let mut prepare = drm_msm_gem_cpu_prep {
            handle: get(place),
            op: MSM_PREP_WRITE | MSM_PREP_NOSYNC,
            ..Default::default()
        };
        let request = drm_msm_gem_cpu_prep::REQUEST.into();
        let args_at = (&raw mut prepare).cast();
        // SAFETY: the struct of this request.
        let done = unsafe { call.machine.ioctl(call.file, request, args_at) };
        return done != Err(libc::EBUSY);
    }
    true
}

/// A byte for the machine and then calls: see [`crate::raw`]. Accepted are inputs of which eight calls or more succeed.
pub fn msm_ioctl(data: &[u8]) -> bool {
    crate::raw::run(
        Family {
            machines: &[
                "qcom-a630,msm=present,pace=manual",
                "qcom-a650,msm=present,pace=manual,hang_ms=0",
                "qcom-a660,msm=present,pace=manual",
                "qcom-a650,msm=bare,pace=manual",
            ],
            nodes: &["/dev/dri/renderD128"],
            requests: &[
                drm_version::REQUEST,
                drm_gem_close::REQUEST,
                drm_msm_param::REQUEST,
                drm_msm_set_param::REQUEST,
                drm_msm_gem_new::REQUEST,
                drm_msm_gem_info::REQUEST,
                drm_msm_gem_cpu_prep::REQUEST,
                drm_msm_gem_cpu_fini::REQUEST,
                drm_msm_gem_submit::REQUEST,
                drm_msm_wait_fence::REQUEST,
                drm_msm_gem_madvise::REQUEST,
                drm_msm_submitqueue::REQUEST,
                drm_msm_submitqueue_close::REQUEST,
                drm_msm_submitqueue_query::REQUEST,
            ],
            may_call,
            succeeded: |_, _| true,
        },
        data,
    )
}

/// A process that makes an object and a queue, submits commands and waits for the fence; and processes that get nowhere.
pub(crate) fn calls_as_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let (at, bos, cmds, value) = (0x200, 0x300, 0x380, 0x400);
    let good = |machine: u8| {
        let mut s = Script::new(machine);
        s.open(0);
        let call = |s: &mut Script, request: u32, args: &[u8]| {
            s.put(at, args);
            s.call(0, request, at);
        };
        let version = drm_version {
            name_len: 8,
            name: Script::address(value),
            ..Default::default()
        };
        call(&mut s, drm_version::REQUEST, version.as_bytes());
        let chip = drm_msm_param {
            pipe: MSM_PIPE_3D0,
            param: MSM_PARAM_CHIP_ID,
            ..Default::default()
        };
        call(&mut s, drm_msm_param::REQUEST, chip.as_bytes());
        let memory = drm_msm_gem_new {
            size: 0x4000,
            flags: BoFlags::WC,
            handle: 0,
        };
        call(&mut s, drm_msm_gem_new::REQUEST, memory.as_bytes());
        let mut info = drm_msm_gem_info {
            handle: 1,
            info: MSM_INFO_SET_IOVA,
            value: GPU,
            ..Default::default()
        };
        call(&mut s, drm_msm_gem_info::REQUEST, info.as_bytes());
        (info.info, info.value) = (MSM_INFO_GET_OFFSET, 0);
        call(&mut s, drm_msm_gem_info::REQUEST, info.as_bytes());
        s.mmap_at(0, FIRST_PAGE, 4);
        // CP_NOP of one word.
        s.store(0, 0, 0x7010_0001);
        let queue = drm_msm_submitqueue {
            prio: 2,
            ..Default::default()
        };
        call(&mut s, drm_msm_submitqueue::REQUEST, queue.as_bytes());
        let used = drm_msm_gem_submit_bo {
            flags: SubmitBoFlags::READ | SubmitBoFlags::WRITE,
            handle: 1,
            presumed: GPU,
        };
        s.put(bos, used.as_bytes());
        let run = drm_msm_gem_submit_cmd {
            r#type: MSM_SUBMIT_CMD_BUF,
            size: 8,
            ..Default::default()
        };
        s.put(cmds, run.as_bytes());
        let submit = drm_msm_gem_submit {
            flags: SubmitFlags::NO_IMPLICIT.gpu(),
            nr_bos: 1,
            nr_cmds: 1,
            bos: Script::address(bos),
            cmds: Script::address(cmds),
            queueid: 1,
            ..Default::default()
        };
        call(&mut s, drm_msm_gem_submit::REQUEST, submit.as_bytes());
        s.step(200);
        let wait = drm_msm_wait_fence {
            fence: 1,
            queueid: 1,
            ..Default::default()
        };
        call(&mut s, drm_msm_wait_fence::REQUEST, wait.as_bytes());
        let faults = drm_msm_submitqueue_query {
            data: Script::address(value),
            id: 1,
            len: 4,
            ..Default::default()
        };
        call(
            &mut s,
            drm_msm_submitqueue_query::REQUEST,
            faults.as_bytes(),
        );
        let prepare = drm_msm_gem_cpu_prep {
            handle: 1,
            op: MSM_PREP_READ,
            ..Default::default()
        };
        call(&mut s, drm_msm_gem_cpu_prep::REQUEST, prepare.as_bytes());
        let close = drm_msm_submitqueue_close { id: 1 };
        call(&mut s, drm_msm_submitqueue_close::REQUEST, close.as_bytes());
        let gone = drm_gem_close { handle: 1, pad: 0 };
        call(&mut s, drm_gem_close::REQUEST, gone.as_bytes());
        s.bytes()
    };
    let [nothing, numbers] = Script::unsound(drm_msm_gem_new::REQUEST, 11);
    vec![
        ("ok-submit-a630", good(0)),
        ("ok-submit-a660", good(2)),
        nothing,
        numbers,
    ]
}
