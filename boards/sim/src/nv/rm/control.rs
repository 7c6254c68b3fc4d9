//! Commands: `_rmapiRmControl` of `control.c`, and the functions that classes export.

use hcq_uapi::nv::*;
use zerocopy::{FromZeros, IntoBytes};

use super::super::{Nv, gpu::GID, queue::Group};
use super::Kind;
use crate::machine::{FileId, clock, user};

/// `NV2080_CTRL_GR_INFO_MAX_SIZE` and `NV2080_CTRL_FB_INFO_MAX_LIST_SIZE`: most questions of a list.
const MOST_QUESTIONS: u32 = 0x3a;
/// Threads of a warp: `NV2080_CTRL_GR_INFO_INDEX_MAX_THREADS_PER_WARP`.
const INDEX_THREADS: u32 = 0xe;
const THREADS: u32 = 32;
/// Most SMs of one question: `NV83DE_CTRL_DEBUG_MAX_SMS_PER_CALL`.
const MOST_SMS: u32 = 100;
/// `NV2080_CTRL_TIMER_GPU_CPU_TIME_MAX_SAMPLES`.
const MOST_SAMPLES: u8 = 16;
/// A command's category and index; both 0 are the command that does nothing: `NVXXXX_CTRL_CMD_NULL`.
const NULL_COMMAND: u32 = 0x7FFF;

/// Who is asked.
struct Asked {
    kind: Kind,
    /// The GPU that the object is of.
    gpu: Option<usize>,
}

impl Nv {
    /// `NV_ESC_RM_CONTROL`.
    pub(super) fn control(&mut self, file: FileId, args: &NVOS54_PARAMETERS) -> Result<(), u32> {
        if args.cmd & NULL_COMMAND == 0 {
            return Ok(());
        }
        // `NVOS54_FLAGS_IRQL_RAISED`, `NVOS54_FLAGS_LOCK_BYPASS`: the kernel's own.
        if args.flags & 3 != 0 {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        if !self.clients.contains_key(&args.hClient) {
            return Err(NV_ERR_INVALID_CLIENT);
        }
        if (args.paramsSize == 0) != (args.params == 0) {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        let client = self.client(file, args.hClient);
        // A wrong size is told before the object is looked up.
        let asked = client.and_then(|client| {
            let object = client.object(args.hObject)?;
            Ok(Asked {
                kind: object.kind.clone(),
                gpu: client.gpu_of(args.hObject),
            })
        });
        match args.cmd {
            NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2 => {
                self.run(args, |nv, params| nv.id_info(asked?, params))
            }
            NV0080_CTRL_CMD_GPU_GET_CLASSLIST => {
                self.run(args, |nv, params| nv.class_list(asked?, params))
            }
            NV2080_CTRL_CMD_GPU_GET_NAME_STRING => {
                self.run(args, |nv, params| nv.name_string(asked?, params))
            }
            NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES => self.run(
                args,
                |_, params: &mut NV2080_CTRL_GPU_QUERY_COMPUTE_MODE_RULES_PARAMS| {
                    subdevice(&asked?)?;
                    params.rules = NV2080_CTRL_GPU_COMPUTE_MODE_RULES_NONE;
                    Ok(())
                },
            ),
            NV2080_CTRL_CMD_GPU_GET_GID_INFO => {
                self.run(args, |nv, params| nv.gid_info(asked?, params))
            }
            NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION => self.run(args, |nv, params| {
                subdevice(&asked?)?;
                nv.set_notification(args.hClient, args.hObject, params)
            }),
            NV2080_CTRL_CMD_TIMER_GET_TIME => {
                self.run(args, |_, params: &mut NV2080_CTRL_TIMER_GET_TIME_PARAMS| {
                    subdevice(&asked?)?;
                    params.time_nsec = clock::raw_ns();
                    Ok(())
                })
            }
            NV2080_CTRL_CMD_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO => {
                self.run(args, |_, params| correlation(&asked?, params))
            }
            NV2080_CTRL_CMD_GR_GET_INFO => {
                self.run(args, |nv, params: &mut NV2080_CTRL_GR_GET_INFO_PARAMS| {
                    subdevice(&asked?)?;
                    questions(params.grInfoListSize, params.grInfoList, |index| {
                        nv.gr_info(index)
                    })
                })
            }
            NV2080_CTRL_CMD_FB_GET_INFO => {
                self.run(args, |nv, params: &mut NV2080_CTRL_FB_GET_INFO_PARAMS| {
                    let gpu = subdevice(&asked?)?;
                    questions(params.fbInfoListSize, params.fbInfoList, |index| {
                        nv.fb_info(gpu, index)
                    })
                })
            }
            NVA06C_CTRL_CMD_GPFIFO_SCHEDULE => self.run(
                args,
                |nv, params: &mut NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS| match asked?.kind {
                    Kind::Group(group) => nv.schedule(group, params.bEnable != 0),
                    _ => Err(NV_ERR_NOT_SUPPORTED),
                },
            ),
            NVA06F_CTRL_CMD_GPFIFO_SCHEDULE => self.run(
                args,
                |nv, params: &mut NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS| {
                    let Kind::Channel(id) = asked?.kind else {
                        return Err(NV_ERR_NOT_SUPPORTED);
                    };
                    let group = nv.channels.get(&id).map(|channel| channel.group);
                    nv.schedule(group.ok_or(NV_ERR_INVALID_CHANNEL)?, params.bEnable != 0)
                },
            ),
            NVA06F_CTRL_CMD_BIND => self.run(args, |nv, params: &mut NVA06F_CTRL_BIND_PARAMS| {
                let Kind::Channel(id) = asked?.kind else {
                    return Err(NV_ERR_NOT_SUPPORTED);
                };
                nv.bind(id, params.engineType)
            }),
            NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN => self.run(
                args,
                |nv, params: &mut NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS| {
                    let Kind::Channel(id) = asked?.kind else {
                        return Err(NV_ERR_NOT_SUPPORTED);
                    };
                    params.workSubmitToken = nv.submit_token(id)?;
                    Ok(())
                },
            ),
            NV906F_CTRL_CMD_GET_MMU_FAULT_INFO => {
                self.run(args, |nv, params| nv.channel_fault(asked?, params))
            }
            NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES => {
                self.run(args, |nv, params| nv.sm_errors(asked?, params))
            }
            NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO => {
                self.run(args, |nv, params| nv.mmu_faults(asked?, params))
            }
            _ => {
                asked?;
                self.report(format!("command {:#x} is not simulated", args.cmd));
                Err(NV_ERR_NOT_SUPPORTED)
            }
        }
    }

    /// Runs a command on its parameters, which must be as long as this branch has them. They are copied back also after an
    /// error: `serverControlApiCopyOut`.
    fn run<T: Params>(
        &mut self,
        args: &NVOS54_PARAMETERS,
        call: impl FnOnce(&mut Self, &mut T) -> Result<(), u32>,
    ) -> Result<(), u32> {
        if usize::try_from(args.paramsSize) != Ok(T::len(self.abi)) {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        let mut params: T = self.params(args.params)?;
        let result = call(self, &mut params);
        self.give(args.params, &params)?;
        result
    }

    /// `gpumgrGetGpuIdInfoV2_IMPL`.
    fn id_info(
        &self,
        asked: Asked,
        params: &mut NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS,
    ) -> Result<(), u32> {
        if !matches!(asked.kind, Kind::Client) {
            return Err(NV_ERR_NOT_SUPPORTED);
        }
        let found = self.gpus.iter().position(|gpu| gpu.id == params.gpuId);
        let index = found.ok_or(NV_ERR_INVALID_ARGUMENT)?;
        let index = u32::try_from(index).map_err(|_| NV_ERR_INVALID_ARGUMENT)?;
        *params = NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS {
            gpuId: params.gpuId,
            // `NV0000_CTRL_GPU_ID_INFO_IN_USE`.
            gpuFlags: 1,
            deviceInstance: index,
            gpuInstance: index,
            numaId: -1,
            boardId: params.gpuId,
            ..Default::default()
        };
        Ok(())
    }

    /// `deviceCtrlCmdGpuGetClasslist_IMPL`, `gpuGetClassList_IMPL`. Without a list it says how many there are.
    fn class_list(
        &self,
        asked: Asked,
        params: &mut NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS,
    ) -> Result<(), u32> {
        if !matches!(asked.kind, Kind::Device { .. }) {
            return Err(NV_ERR_NOT_SUPPORTED);
        }
        let classes = self.chip.class_list();
        let count = u32::try_from(classes.len()).map_err(|_| NV_ERR_INVALID_STATE)?;
        if params.numClasses == 0 || params.classList == 0 {
            params.numClasses = count;
            return Ok(());
        }
        if params.numClasses < count {
            return Err(NV_ERR_INVALID_PARAM_STRUCT);
        }
        params.numClasses = count;
        user::write(params.classList, classes.as_bytes()).map_err(|_| NV_ERR_INVALID_ADDRESS)
    }

    fn name_string(
        &self,
        asked: Asked,
        params: &mut NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS,
    ) -> Result<(), u32> {
        subdevice(&asked)?;
        if params.gpuNameStringFlags != NV2080_CTRL_GPU_GET_NAME_STRING_FLAGS_TYPE_ASCII {
            return Err(NV_ERR_NOT_SUPPORTED);
        }
        params.gpuNameString.fill(0);
        for (to, from) in params.gpuNameString.iter_mut().zip(self.chip.card.bytes()) {
            *to = from;
        }
        Ok(())
    }

    /// `gpuGetGidInfo`: SHA-1 is all there is; as bytes, or as text.
    fn gid_info(
        &self,
        asked: Asked,
        params: &mut NV2080_CTRL_GPU_GET_GID_INFO_PARAMS,
    ) -> Result<(), u32> {
        let gpu = subdevice(&asked)?;
        let state = self.gpus.get(gpu).ok_or(NV_ERR_INVALID_DEVICE)?;
        if NV2080_GPU_CMD_GPU_GET_GID_FLAGS_TYPE.get(params.flags) != 0 {
            return Err(NV_ERR_INVALID_FLAGS);
        }
        params.data.fill(0);
        let format = NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT.get(params.flags);
        let text = state.gid_text();
        let bytes: &[u8] = if format == NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY {
            &state.gid
        } else {
            text.as_bytes()
        };
        for (to, from) in params.data.iter_mut().zip(bytes) {
            *to = *from;
        }
        // Text ends with a zero, which counts.
        let ends = usize::from(bytes.len() != GID);
        params.length = u32::try_from(bytes.len() + ends).unwrap_or(0);
        Ok(())
    }

    /// `_kgraphicsCtrlCmdGrGetInfoV2`: what nobody asks for here has no answer.
    fn gr_info(&mut self, index: u32) -> Result<u32, u32> {
        Ok(match index {
            NV2080_CTRL_GR_INFO_INDEX_SM_VERSION => self.chip.sm_version,
            NV2080_CTRL_GR_INFO_INDEX_MAX_WARPS_PER_SM => self.chip.warps_per_sm,
            NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_GPCS => self.chip.gpcs,
            NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_TPC_PER_GPC => self.chip.tpcs_per_gpc,
            NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_SM_PER_TPC => self.chip.sms_per_tpc,
            INDEX_THREADS => THREADS,
            _ => {
                self.report(format!(
                    "index {index:#x} of NV2080_CTRL_CMD_GR_GET_INFO is not simulated"
                ));
                return Err(NV_ERR_INVALID_ARGUMENT);
            }
        })
    }

    /// `kmemsysGetFbInfos`: KiB.
    fn fb_info(&mut self, gpu: usize, index: u32) -> Result<u32, u32> {
        let state = self.gpus.get(gpu).ok_or(NV_ERR_INVALID_DEVICE)?;
        let bytes = match index {
            NV2080_CTRL_FB_INFO_INDEX_BAR1_SIZE => state.window.limit(),
            NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE | NV2080_CTRL_FB_INFO_INDEX_HEAP_SIZE => {
                state.vram.limit()
            }
            NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE => state.vram.free(),
            _ => {
                self.report(format!(
                    "index {index:#x} of NV2080_CTRL_CMD_FB_GET_INFO is not simulated"
                ));
                return Err(NV_ERR_INVALID_ARGUMENT);
            }
        };
        u32::try_from(bytes >> 10).map_err(|_| NV_ERR_INVALID_STATE)
    }

    /// `kchannelCtrlCmdBind_IMPL`: the engine must be the one that the channel's group is on.
    fn bind(&self, id: super::super::queue::ChannelId, kind: u32) -> Result<(), u32> {
        let channel = self.channels.get(&id).ok_or(NV_ERR_INVALID_CHANNEL)?;
        let on = self.groups.get(&channel.group).map(|group| group.engine);
        if on == Some(self.engine_of(kind)?) {
            Ok(())
        } else {
            Err(NV_ERR_INVALID_ARGUMENT)
        }
    }

    /// Whose context a debugger looks at: `kgrctxFromKernelChannel`, one for all channels of a group.
    fn debugged(&self, asked: &Asked) -> Result<&Group, u32> {
        let Kind::Debugger(id) = asked.kind else {
            return Err(NV_ERR_NOT_SUPPORTED);
        };
        let channel = self.channels.get(&id).ok_or(NV_ERR_INVALID_CHANNEL)?;
        self.groups
            .get(&channel.group)
            .ok_or(NV_ERR_INVALID_CHANNEL)
    }

    /// `NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES`. Of a fault of the MMU it says that there was one.
    fn sm_errors(
        &self,
        asked: Asked,
        params: &mut NV83DE_CTRL_DEBUG_READ_ALL_SM_ERROR_STATES_PARAMS,
    ) -> Result<(), u32> {
        let group = self.debugged(&asked)?;
        // More SMs than there are may be asked for: the rest has no errors.
        if params.numSMsToRead > MOST_SMS || params.startingSM >= self.chip.sms {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        for state in &mut params.smErrorStateArray {
            state.zero();
        }
        // Whichever SM it was: it is the first here.
        if let (Some(esr), Some(first)) = (group.sm_error, params.smErrorStateArray.first_mut())
            && params.startingSM == 0
            && params.numSMsToRead > 0
        {
            first.hwwWarpEsr = esr;
        }
        params.mmuFault.zero();
        if group.fault.is_some() {
            params.mmuFault.valid = 1;
        }
        params.mmuFaultInfo = params.mmuFault.faultInfo;
        Ok(())
    }

    /// `kchannelCtrlCmdGetMmuFaultInfo`: what `kchannelFillMmuExceptionInfo` has noted, once. A channel that has met with no fault
    /// says nothing.
    fn channel_fault(
        &mut self,
        asked: Asked,
        params: &mut NV906F_CTRL_GET_MMU_FAULT_INFO_PARAMS,
    ) -> Result<(), u32> {
        let Kind::Channel(id) = asked.kind else {
            return Err(NV_ERR_NOT_SUPPORTED);
        };
        let channel = self.channels.get_mut(&id).ok_or(NV_ERR_INVALID_CHANNEL)?;
        params.zero();
        if let Some(fault) = channel.fault.take() {
            params.addrHi = (fault.address >> 32) as u32;
            params.addrLo = (fault.address & u64::from(u32::MAX)) as u32;
            params.faultType = fault.kind;
            for (to, from) in params.faultString.iter_mut().zip(fault.words().bytes()) {
                *to = from;
            }
        }
        Ok(())
    }

    /// `kgrctxLookupMmuFaultInfo`.
    fn mmu_faults(
        &self,
        asked: Asked,
        params: &mut NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_PARAMS,
    ) -> Result<(), u32> {
        let group = self.debugged(&asked)?;
        params.zero();
        if let (Some(fault), Some(first)) = (group.fault, params.mmuFaultInfoList.first_mut()) {
            first.faultAddress = fault.address;
            first.faultType = fault.kind;
            first.accessType = fault.access;
            params.count = 1;
        }
        Ok(())
    }
}

/// The GPU of a subdevice; other objects do not have these commands.
fn subdevice(asked: &Asked) -> Result<usize, u32> {
    match asked.kind {
        Kind::Subdevice { gpu, .. } if asked.gpu == Some(gpu) => Ok(gpu),
        _ => Err(NV_ERR_NOT_SUPPORTED),
    }
}

/// A list of questions in the process's memory, answered in place.
fn questions(
    count: u32,
    address: u64,
    mut answer: impl FnMut(u32) -> Result<u32, u32>,
) -> Result<(), u32> {
    if count == 0 || address == 0 {
        return Ok(());
    }
    if count > MOST_QUESTIONS {
        return Err(NV_ERR_INVALID_ARGUMENT);
    }
    let step = size_of::<NVXXXX_CTRL_XXX_INFO>() as u64;
    for number in 0..u64::from(count) {
        let at = address
            .checked_add(number * step)
            .ok_or(NV_ERR_INVALID_ADDRESS)?;
        let mut question: NVXXXX_CTRL_XXX_INFO =
            user::get(at).map_err(|_| NV_ERR_INVALID_ADDRESS)?;
        question.data = answer(question.index)?;
        user::put(at, &question).map_err(|_| NV_ERR_INVALID_ADDRESS)?;
    }
    Ok(())
}

/// `subdeviceCtrlCmdTimerGetGpuCpuTimeCorrelationInfo_IMPL`: microseconds of the host's real time beside the GPU's.
fn correlation(
    asked: &Asked,
    params: &mut NV2080_CTRL_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO_PARAMS,
) -> Result<(), u32> {
    subdevice(asked)?;
    if params.sampleCount > MOST_SAMPLES {
        return Err(NV_ERR_INVALID_ARGUMENT);
    }
    let clock_id = u32::from(params.cpuClkId);
    // The processor's counter is not simulated; bit 7 asks for the GPU's own processor.
    if clock_id & 0x80 != 0 || clock_id != NV2080_TIMER_GPU_CPU_TIME_CPU_CLK_ID_OSTIME {
        return Err(NV_ERR_NOT_SUPPORTED);
    }
    let count = usize::from(params.sampleCount);
    for sample in params.samples.iter_mut().take(count) {
        sample.cpuTime = clock::real_us();
        sample.gpuTime = clock::raw_ns();
    }
    Ok(())
}
