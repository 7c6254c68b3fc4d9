//! Channels that stop: who is told what.

use super::*;
use crate::engine::Cause;
use crate::exec::{Dispatch, Executor, Kernel, ShaderMemory};
use crate::nv::compute::tests::{Qmd, send, setup};

/// Two groups of two channels each, scheduled.
fn rig(config: &str) -> Rig {
    Rig::new(config)
}

struct Two<'a> {
    bad: Channel<'a>,
    beside: Channel<'a>,
    elsewhere: Channel<'a>,
    compute: u32,
}

fn two(rig: &Rig) -> Two<'_> {
    let spaces = rig.spaces();
    let graphics = NV2080_ENGINE_TYPE_GRAPHICS;
    let group = rig.group(0, spaces[0], graphics).expect("a group");
    let other = rig.group(0, spaces[0], graphics).expect("a group");
    let bad = rig.channel(0, 0, group, spaces[0]);
    let beside = rig.channel(0, 1, group, spaces[0]);
    let elsewhere = rig.channel(0, 2, other, spaces[0]);
    let compute = rig
        .plain(bad.handle, 0, chip(rig).compute)
        .expect("compute");
    rig.schedule(group, true).expect("runs");
    rig.schedule(other, true).expect("runs");
    Two {
        bad,
        beside,
        elsewhere,
        compute,
    }
}

/// What remains true after an error: its group has stopped, the other has not.
fn check(rig: &Rig, two: &Two<'_>, code: u32) {
    let engine = NV2080_ENGINE_TYPE_GRAPHICS;
    assert_eq!(two.bad.error(), (code, engine, 0xFFFF), "{}", rig.reports());
    assert_eq!(
        two.beside.error(),
        (code, engine, 0xFFFF),
        "the group shares it"
    );
    assert_ne!(word(two.bad.notifier).load(Ordering::Relaxed), 0, "when");
    assert_eq!(two.elsewhere.error(), (0, 0, 0));
    for channel in [&two.bad, &two.beside, &two.elsewhere] {
        channel.release(channel.result_at(0), 5);
        channel.ring();
        rig.run();
    }
    let results = [&two.bad, &two.beside, &two.elsewhere].map(|channel| channel.result(0));
    assert_eq!(results, [0, 0, 5]);
    assert_eq!(rig.schedule(two.bad.group, true), Err(NV_ERR_INVALID_STATE));
    let reports = rig.machine.reports();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(
        reports[0].starts_with("channel 1 (class 0xc56f, token 0x"),
        "{reports:?}"
    );
}

fn debugger(rig: &Rig, two: &Two<'_>) -> u32 {
    let mut params = NV83DE_ALLOC_PARAMETERS {
        hAppClient: rig.client,
        hClass3dObject: two.compute,
        ..Default::default()
    };
    let device = rig.gpus[0].device;
    let wrong = |change: fn(&mut NV83DE_ALLOC_PARAMETERS, u32), status| {
        let mut params = params;
        change(&mut params, two.bad.handle);
        let made = rig.alloc(device, 0, GT200_DEBUGGER, &mut params);
        assert_eq!(made, Err(status));
    };
    wrong(
        |params, _| params.hDebuggerClient_Obsolete = 1,
        NV_ERR_INVALID_ARGUMENT,
    );
    wrong(|params, _| params.hAppClient = 7, NV_ERR_INVALID_CLIENT);
    wrong(
        |params, _| params.hClass3dObject = 7,
        NV_ERR_INVALID_OBJECT_PARENT,
    );
    wrong(
        |params, channel| params.hClass3dObject = channel,
        NV_ERR_INVALID_OBJECT,
    );
    rig.alloc(device, 0, GT200_DEBUGGER, &mut params)
        .expect("a debugger")
}

fn faults(rig: &Rig, debugger: u32) -> (u8, Vec<(u64, u32, u32)>) {
    let mut states = NV83DE_CTRL_DEBUG_READ_ALL_SM_ERROR_STATES_PARAMS::new_zeroed();
    // More than there are: the rest has no errors.
    states.numSMsToRead = 100;
    let cmd = NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES;
    rig.control(debugger, cmd, &mut states).expect("states");
    let mut info = NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_PARAMS::new_zeroed();
    let cmd = NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO;
    rig.control(debugger, cmd, &mut info).expect("faults");
    let list = info.mmuFaultInfoList[..info.count as usize].iter();
    let list = list.map(|entry| (entry.faultAddress, entry.faultType, entry.accessType));
    (states.mmuFault.valid, list.collect())
}

/// What a channel says of its fault: the address, why, and that in words. It is asked once.
fn own_fault(rig: &Rig, channel: &Channel<'_>) -> (u64, u32, String) {
    let mut info = NV906F_CTRL_GET_MMU_FAULT_INFO_PARAMS::new_zeroed();
    info.faultString.fill(b'x');
    rig.control(
        channel.handle,
        NV906F_CTRL_CMD_GET_MMU_FAULT_INFO,
        &mut info,
    )
    .expect("an answer");
    let words = info.faultString.split(|&byte| byte == 0).next();
    let words = String::from_utf8_lossy(words.expect("at least one")).into_owned();
    let address = u64::from(info.addrHi) << 32 | u64::from(info.addrLo);
    (address, info.faultType, words)
}

const NOTHING: (u64, u32, String) = (0, 0, String::new());

#[test]
fn an_address_that_is_not_mapped_breaks_the_group() {
    let rig = rig("nv-ampere,pace=manual");
    let two = two(&rig);
    let debugger = debugger(&rig, &two);
    assert_eq!(faults(&rig, debugger), (0, vec![]));
    assert_eq!(own_fault(&rig, &two.bad), NOTHING);
    two.bad.release(0x33_0000_1230, 1);
    two.bad.ring();
    rig.run();
    check(&rig, &two, ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT);
    assert!(
        rig.reports().contains("Write of 0x3300001230: NotPresent"),
        "{}",
        rig.reports()
    );
    // The host engine's own accesses are none of a program's.
    assert_eq!(faults(&rig, debugger), (0, vec![]));
    assert_eq!(own_fault(&rig, &two.beside), NOTHING);
    let told = (0x33_0000_1000, 2, "FAULT_PTE".into());
    assert_eq!(own_fault(&rig, &two.bad), told);
    assert_eq!(own_fault(&rig, &two.bad), NOTHING, "told once");
    let mut info = NV906F_CTRL_GET_MMU_FAULT_INFO_PARAMS::new_zeroed();
    let asked = rig.control(two.bad.group, NV906F_CTRL_CMD_GET_MMU_FAULT_INFO, &mut info);
    assert_eq!(asked, Err(NV_ERR_NOT_SUPPORTED), "a group");
    for (start, count) in [(0, 101), (82, 1), (u32::MAX, 100)] {
        let mut wrong = NV83DE_CTRL_DEBUG_READ_ALL_SM_ERROR_STATES_PARAMS::new_zeroed();
        (wrong.startingSM, wrong.numSMsToRead) = (start, count);
        let cmd = NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES;
        assert_eq!(
            rig.control(debugger, cmd, &mut wrong),
            Err(NV_ERR_INVALID_ARGUMENT),
            "{start}, {count}"
        );
    }
}

/// Runs whatever program there is, as far as fetching it goes.
struct Fetches;

impl Executor for Fetches {
    fn prepare(
        &mut self,
        dispatch: &Dispatch,
        memory: &mut dyn ShaderMemory,
    ) -> Result<Option<Box<dyn Kernel>>, Cause> {
        memory.fetch(dispatch.program, &mut [0; 8])?;
        Ok(None)
    }
}

/// Launches a program at an address, with a QMD in the channel's memory.
fn launch(rig: &Rig, channel: &Channel<'_>, program: u64) {
    let name = chip(rig).name;
    let mut qmd = Qmd::new(name, 1);
    qmd.program(program);
    qmd.bank(0, channel.result_at(0x1_0000), 0x170);
    let at = RESULTS + 0x2_0000;
    for (place, &value) in (at..).step_by(4).zip(&qmd.words) {
        half(channel.host + place).store(value, Ordering::Relaxed);
    }
    let class = chip(rig).compute;
    let mut words = vec![1 << 29 | 1 << 16 | 1 << 13, class];
    words.extend(setup());
    words.extend(send(channel.base + at));
    channel.write(&words);
    channel.ring();
    rig.run();
}

#[test]
fn a_debugger_tells_of_programs_of_its_whole_group() {
    let rig = rig("nv-ampere,pace=manual");
    rig.machine.register(Box::new(Fetches));
    let two = two(&rig);
    let debugger = debugger(&rig, &two);
    for channel in [&two.beside, &two.elsewhere] {
        rig.plain(channel.handle, 0, chip(&rig).compute)
            .expect("compute");
    }
    launch(&rig, &two.elsewhere, 0x33_0000_2000);
    assert_eq!(faults(&rig, debugger), (0, vec![]), "another group's");
    launch(&rig, &two.beside, 0x33_0000_1000);
    let told = faults(&rig, debugger);
    assert_eq!(told, (1, vec![(0x33_0000_1000, 2, 0)]), "{}", rig.reports());
    // The channel knows of it, too, but not what for.
    let told = (0x33_0000_1000, 2, "FAULT_PTE".into());
    assert_eq!(own_fault(&rig, &two.beside), told);
    assert_eq!(faults(&rig, debugger).0, 1, "debuggers are told again");
}

#[test]
fn memory_that_may_only_be_read_breaks_the_group_when_it_is_written() {
    let rig = rig("nv-ampere,pace=manual");
    let two = two(&rig);
    let debugger = debugger(&rig, &two);
    let memory = rig.memory(0, true, 0x1_0000).expect("memory");
    rig.range(DATA, 0x1_0000).expect("a range");
    let place = (DATA, 0x1_0000, 0);
    rig.map_as(&[0], memory, place, UvmGpuMappingTypeReadOnly)
        .expect("mapped");
    two.bad.release(DATA + 0x40, 1);
    two.bad.ring();
    rig.run();
    check(&rig, &two, ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT);
    assert_eq!(faults(&rig, debugger), (0, vec![]));
    let told = (DATA, 6, "FAULT_RO_VIOLATION".into());
    assert_eq!(own_fault(&rig, &two.bad), told);
}

#[test]
fn words_that_a_channel_does_not_take_break_the_group() {
    let rig = rig("nv-ampere,pace=manual");
    let two = two(&rig);
    // A method of the host's that there is none of.
    two.bad.write(&[1 << 29 | 1 << 16 | 0xFC >> 2, 0]);
    two.bad.ring();
    rig.run();
    check(&rig, &two, ROBUST_CHANNEL_PBDMA_ERROR);
    let debugger = debugger(&rig, &two);
    assert_eq!(faults(&rig, debugger), (0, vec![]));
}

#[test]
fn a_channel_without_a_notifier_is_reported() {
    let rig = rig("nv-ampere,pace=manual");
    let spaces = rig.spaces();
    let group = rig
        .group(0, spaces[0], NV2080_ENGINE_TYPE_COPY0)
        .expect("a group");
    let mut params = NV_CHANNEL_ALLOC_PARAMS {
        gpFifoOffset: RING,
        gpFifoEntries: 64,
        ..NV_CHANNEL_ALLOC_PARAMS::new_zeroed()
    };
    let memory = rig.memory(0, false, 4096).expect("memory");
    params.hUserdMemory[0] = memory;
    let handle = rig
        .alloc(group, 0, AMPERE_CHANNEL_GPFIFO_A, &mut params)
        .expect("a channel");
    // A copy engine's channel needs no bound context, but its ring is not mapped.
    assert_eq!(rig.schedule(group, true), Ok(()));
    let userd = rig.see(0, memory, false, 4096);
    half(userd + 0x8C).store(1, Ordering::Release);
    let doorbells = rig.doorbells(0);
    half(doorbells + 0x90).store(rig.token(handle).expect("a token"), Ordering::Release);
    rig.run();
    let reports = rig.reports();
    assert!(reports.contains("memory violation"), "{reports}");
    assert!(
        reports.contains("channel 1 has no error notifier"),
        "{reports}"
    );
}

#[test]
fn a_token_is_in_the_second_notifier() {
    let rig = rig("nv-ampere,pace=manual");
    let two = two(&rig);
    let told = half(two.beside.notifier + 16 + 8).load(Ordering::Relaxed);
    assert_eq!(told, two.beside.token);
    assert_ne!(two.bad.token, two.beside.token);
}
