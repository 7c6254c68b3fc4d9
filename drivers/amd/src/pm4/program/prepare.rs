//! Preparing a kernel: the packets of its dispatch are recorded once.

use hcq_nostd::args::PreparedLayout;
use hcq_nostd::patch::PatchList;
use hcq_nostd::record::{Command, Recorder};
use hcq_nostd::value::{Fit, Value};

use super::{
    MAX_XCCS, Places, Program, ProgramError, READ_ALIGN, TAIL_WORDS, TEMPLATE_WORDS, USER_DATA,
    XccPlaces, arguments_end, check_scratch,
};
use crate::aql::PACKET_BYTES;
use crate::device::{ADDRESS_BITS, Device};
use crate::hidden::Apertures;
use crate::kernel::{Arguments, Kernel, MAX_GROUP, Properties, user_sgprs};
use crate::pm4::acquire_mem::AcquireMem;
use crate::pm4::dispatch_direct::{DispatchDirect, Initiator};
use crate::pm4::event_write::EventWrite;
use crate::pm4::pred_exec::PredExec;
use crate::pm4::set_reg::{SetReg, Space};
use crate::pm4::split;
use crate::scratch::{Scratch, wave_descriptor};

impl<'p> Program<'p> {
    /// Prepares a kernel. Without a limit (`waves_per_sh` zero) as many waves run at once as fit.
    ///
    /// # Errors
    /// [`ProgramError`].
    pub fn new(
        device: &Device,
        kernel: &Kernel,
        arguments: Arguments<'p>,
        scratch: &Scratch,
        waves_per_sh: u32,
    ) -> Result<Self, ProgramError> {
        let (chip, registers) = (device.chip(), device.registers());
        let properties = kernel.properties;
        let unsupported =
            Properties::QUEUE_PTR | Properties::DISPATCH_ID | Properties::FLAT_SCRATCH_INIT;
        if properties.intersects(unsupported) {
            return Err(ProgramError::Unsupported(properties & unsupported));
        }
        let wave32 = properties.contains(Properties::WAVEFRONT_SIZE32);
        if wave32 && !chip.wave32 {
            return Err(ProgramError::WaveSize);
        }
        check_scratch(kernel, scratch)?;
        Fit::aligned(ADDRESS_BITS, 8).check(kernel.entry)?;
        Fit::bits(10).check(waves_per_sh.into())?;
        let arguments_end = arguments_end(kernel, &arguments)?;
        let (base, part) = scratch.parts(device.xccs())?;

        // User data: the private segment buffer is per XCC, what comes behind it is not.
        let buffer = properties.contains(Properties::PRIVATE_SEGMENT_BUFFER);
        let (mut user, mut dispatch_ptr, mut kernargs) = (0, None, None);
        let first_user = if buffer { 4 } else { 0 };
        if properties.contains(Properties::DISPATCH_PTR) {
            dispatch_ptr = Some(user);
            user += 2;
        }
        if properties.contains(Properties::KERNARG_SEGMENT_PTR) {
            kernargs = Some(user);
            user += 2;
        }
        let mut user_data = [0; 5];
        if properties.contains(Properties::PRIVATE_SEGMENT_SIZE) {
            if let Some(word) = user_data.get_mut(user) {
                *word = kernel.private_bytes;
            }
            user += 1;
        }
        let (need, have) = ((first_user + user) as u32, user_sgprs(kernel.rsrc[1]));
        if need > have {
            return Err(ProgramError::UserSgprs { need, have });
        }
        let user_data = user_data.get(..user).unwrap_or_default();

        let mut head = [0; TEMPLATE_WORDS];
        let mut recorder = Recorder::new(&mut head, PatchList::none());
        let mut places = Places {
            pgm: 0,
            rsrc2: 0,
            tmpring: 0,
            xccs: [XccPlaces::default(); MAX_XCCS],
            xcc_count: device.xccs(),
            dispatch_ptr: None,
            kernargs: None,
            kernargs_in_tail: false,
        };
        recorder.command(|c| {
            let sh = |c: &mut Command<'_, '_>, first, values: &[u32]| {
                SetReg::new(Space::Sh, first, values).map(|r| r.record(c))
            };
            AcquireMem::all(chip.acquire_dispatch).record(c);
            places.pgm = sh(c, registers.pgm_lo, &split(kernel.entry >> 8))?;
            let [rsrc1, rsrc2, rsrc3] = kernel.rsrc;
            places.rsrc2 = sh(c, registers.pgm_rsrc1, &[rsrc1, rsrc2])? + 1;
            sh(c, registers.pgm_rsrc3, &[rsrc3])?;
            places.tmpring = sh(c, registers.tmpring_size, &[scratch.tmpring_size()])?;
            let one = device.xccs() == 1;
            for (xcc, place) in (0..device.xccs()).zip(&mut places.xccs) {
                let base = base + part * u64::from(xcc);
                let mut own = |c: &mut Command<'_, '_>| {
                    place.base = sh(c, registers.dispatch_scratch_base_lo, &split(base >> 8))?;
                    if buffer && !one {
                        let descriptor = wave_descriptor(chip, base, wave32);
                        place.descriptor = Some(sh(c, registers.user_data_0, &descriptor)?);
                    }
                    Ok(())
                };
                if one {
                    own(c)?;
                } else {
                    PredExec::around(1 << xcc, c, own)?;
                }
            }
            sh(c, registers.restart_x, &[0; 3])?;
            let user_at = if buffer && one {
                let mut all = [0; 9];
                for (to, from) in all
                    .iter_mut()
                    .zip(wave_descriptor(chip, base, wave32).iter().chain(user_data))
                {
                    *to = *from;
                }
                let all = all.get(..first_user + user).unwrap_or_default();
                let at = sh(c, registers.user_data_0, all)?;
                let [place, ..] = &mut places.xccs;
                place.descriptor = Some(at);
                at + first_user
            } else if user > 0 {
                sh(c, registers.user_data_0 + first_user as u32, user_data)?
            } else {
                0
            };
            places.dispatch_ptr = dispatch_ptr.map(|at| user_at + at);
            places.kernargs = kernargs.map(|at| user_at + at);
            Ok(())
        })?;
        let (recorded, _) = recorder.finish();
        // User data or, without any, the three words of RESTART come last: the head is longer than two words.
        let head_len = recorded.saturating_sub(USER_DATA);
        places.kernargs_in_tail = places.kernargs == Some(head_len);
        places.kernargs = places.kernargs.filter(|at| *at != head_len);
        let mut tail = [0; TAIL_WORDS];
        let mut recorder = Recorder::new(&mut tail, PatchList::none());
        let last = head.get(head_len..recorded).unwrap_or_default();
        recorder.command(|c| {
            c.words(last);
            SetReg::new(Space::Sh, registers.resource_limits, &[waves_per_sh])?.record(c);
            SetReg::new(Space::Sh, registers.start_x, &[0, 0, 0, 1, 1, 1, 0, 0])?.record(c);
            let mut initiator = Initiator::COMPUTE_SHADER_EN | Initiator::FORCE_START_AT_000;
            initiator.set(Initiator::CS_W32_EN, wave32);
            let groups = [Value::Imm(1); 3];
            DispatchDirect { groups, initiator }.record(c)?;
            EventWrite::CS_PARTIAL_FLUSH.record(c);
            Ok(())
        })?;
        let packet_at = arguments_end
            .checked_next_multiple_of(READ_ALIGN)
            .filter(|_| places.dispatch_ptr.is_some());
        Ok(Self {
            kernel: *kernel,
            arguments: PreparedLayout::new(arguments.layout),
            hidden: arguments.hidden,
            apertures: Apertures::NONE,
            scratch: *scratch,
            head,
            head_len,
            tail,
            places,
            kernargs_size: packet_at.map_or(arguments_end, |at| at.saturating_add(PACKET_BYTES)),
            packet_at,
            lds: chip.lds,
            max_group: kernel.max_group.clamp(1, MAX_GROUP),
            code: None,
            scratch_vars: None,
        })
    }
}
