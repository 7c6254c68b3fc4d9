//! Methods of the compute classes (`clc7c0.h`, `clc9c0.h`, `clcbc0.h`, `clcec0.h`), all of them.

/// What a method is to this engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It sets what later methods and launches use.
    State,
    /// It does something.
    Acts,
    /// It changes nothing here.
    Nothing,
    /// It is not simulated.
    Other,
}

use Use::{Acts, Nothing, Other, State};

/// A method, or several of the same kind at equal distances.
struct Row {
    offset: u16,
    name: &'static str,
    kind: Use,
    /// Bits that its data may have on Ampere and Ada, on Hopper and on Blackwell; 0 if there is no such method.
    masks: [u32; 3],
    count: u16,
    /// Bytes from one to the next.
    stride: u16,
}

const W: u32 = u32::MAX;

const fn some(offset: u16, name: &'static str, kind: Use, masks: [u32; 3]) -> Row {
    Row {
        offset,
        name,
        kind,
        masks,
        count: 1,
        stride: 4,
    }
}

const fn all(offset: u16, name: &'static str, kind: Use, mask: u32) -> Row {
    some(offset, name, kind, [mask; 3])
}

impl Row {
    const fn times(self, count: u16, stride: u16) -> Self {
        Self {
            count,
            stride,
            ..self
        }
    }

    fn has(&self, method: u16) -> bool {
        let past = method.checked_sub(self.offset);
        past.is_some_and(|past| past.is_multiple_of(self.stride) && past / self.stride < self.count)
    }
}

/// A method of a generation: its name, its use, the bits that its data may have.
pub(super) fn find(generation: usize, method: u16) -> Option<(&'static str, Use, u32)> {
    let row = METHODS
        .iter()
        .find(|row| row.has(method) && row.masks.get(generation).is_some_and(|&mask| mask != 0))?;
    let mask = row.masks.get(generation).copied()?;
    Some((row.name, row.kind, mask))
}

/// Byte offsets of those that something is done with.
pub(super) mod offset {
    pub(in super::super) const WAIT_FOR_IDLE: u16 = 0x0110;
    pub(in super::super) const PM_TRIGGER_WFI: u16 = 0x0144;
    pub(in super::super) const SET_REPORT_SEMAPHORE_PAYLOAD_LOWER: u16 = 0x0158;
    pub(in super::super) const SET_REPORT_SEMAPHORE_PAYLOAD_UPPER: u16 = 0x015c;
    pub(in super::super) const SET_REPORT_SEMAPHORE_ADDRESS_LOWER: u16 = 0x0160;
    pub(in super::super) const SET_REPORT_SEMAPHORE_ADDRESS_UPPER: u16 = 0x0164;
    pub(in super::super) const REPORT_SEMAPHORE_EXECUTE: u16 = 0x0168;
    pub(in super::super) const INVALIDATE_SHADER_CACHES: u16 = 0x021c;
    pub(in super::super) const SET_SHADER_SHARED_MEMORY_WINDOW_A: u16 = 0x02a0;
    pub(in super::super) const SET_SHADER_SHARED_MEMORY_WINDOW_B: u16 = 0x02a4;
    pub(in super::super) const SEND_PCAS_A: u16 = 0x02b4;
    pub(in super::super) const SEND_SIGNALING_PCAS_B: u16 = 0x02bc;
    pub(in super::super) const SEND_SIGNALING_PCAS2_B: u16 = 0x02c0;
    pub(in super::super) const SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A: u16 = 0x02e4;
    pub(in super::super) const SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_B: u16 = 0x02e8;
    pub(in super::super) const SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_C: u16 = 0x02ec;
    pub(in super::super) const SET_SHADER_LOCAL_MEMORY_A: u16 = 0x0790;
    pub(in super::super) const SET_SHADER_LOCAL_MEMORY_B: u16 = 0x0794;
    pub(in super::super) const SET_SHADER_LOCAL_MEMORY_WINDOW_A: u16 = 0x07b0;
    pub(in super::super) const SET_SHADER_LOCAL_MEMORY_WINDOW_B: u16 = 0x07b4;
    pub(in super::super) const INVALIDATE_SHADER_CACHES_NO_WFI: u16 = 0x1698;
    pub(in super::super) const SET_REPORT_SEMAPHORE_A: u16 = 0x1b00;
    pub(in super::super) const SET_REPORT_SEMAPHORE_B: u16 = 0x1b04;
    pub(in super::super) const SET_REPORT_SEMAPHORE_C: u16 = 0x1b08;
    pub(in super::super) const SET_REPORT_SEMAPHORE_D: u16 = 0x1b0c;
}

#[rustfmt::skip]
static METHODS: &[Row] = &[
    all(0x0100, "NO_OPERATION", Nothing, W),
    some(0x0104, "SET_NOTIFY_A", Other, [0xff, 0x1ff_ffff, 0x1ff_ffff]),
    all(0x0108, "SET_NOTIFY_B", Other, W),
    all(0x010c, "NOTIFY", Other, W),
    all(offset::WAIT_FOR_IDLE, "WAIT_FOR_IDLE", Acts, W),
    all(0x0114, "LOAD_MME_INSTRUCTION_RAM_POINTER", Other, W),
    all(0x0118, "LOAD_MME_INSTRUCTION_RAM", Other, W),
    all(0x011c, "LOAD_MME_START_ADDRESS_RAM_POINTER", Other, W),
    all(0x0120, "LOAD_MME_START_ADDRESS_RAM", Other, W),
    all(0x0124, "SET_MME_SHADOW_RAM_CONTROL", Other, 0x3),
    all(0x0130, "SET_GLOBAL_RENDER_ENABLE_A", Other, 0xff),
    all(0x0134, "SET_GLOBAL_RENDER_ENABLE_B", Other, W),
    all(0x0138, "SET_GLOBAL_RENDER_ENABLE_C", Other, 0x7),
    all(0x013c, "SEND_GO_IDLE", Other, W),
    all(0x0140, "PM_TRIGGER", Nothing, W),
    all(offset::PM_TRIGGER_WFI, "PM_TRIGGER_WFI", Acts, W),
    all(0x0148, "FE_ATOMIC_SEQUENCE_BEGIN", Other, W),
    all(0x014c, "FE_ATOMIC_SEQUENCE_END", Other, W),
    all(0x0150, "SET_INSTRUMENTATION_METHOD_HEADER", Other, W),
    all(0x0154, "SET_INSTRUMENTATION_METHOD_DATA", Other, W),
    all(offset::SET_REPORT_SEMAPHORE_PAYLOAD_LOWER, "SET_REPORT_SEMAPHORE_PAYLOAD_LOWER", State, W),
    all(offset::SET_REPORT_SEMAPHORE_PAYLOAD_UPPER, "SET_REPORT_SEMAPHORE_PAYLOAD_UPPER", State, W),
    all(offset::SET_REPORT_SEMAPHORE_ADDRESS_LOWER, "SET_REPORT_SEMAPHORE_ADDRESS_LOWER", State, W),
    some(offset::SET_REPORT_SEMAPHORE_ADDRESS_UPPER, "SET_REPORT_SEMAPHORE_ADDRESS_UPPER", State, [0xff, 0x1ff_ffff, 0x1ff_ffff]),
    all(offset::REPORT_SEMAPHORE_EXECUTE, "REPORT_SEMAPHORE_EXECUTE", Acts, 0x7fff),
    all(0x0180, "LINE_LENGTH_IN", Other, W),
    all(0x0184, "LINE_COUNT", Other, W),
    some(0x0188, "OFFSET_OUT_UPPER", Other, [0x1_ffff, 0x1ff_ffff, 0x1ff_ffff]),
    all(0x018c, "OFFSET_OUT", Other, W),
    all(0x0190, "PITCH_OUT", Other, W),
    some(0x0194, "SET_DST_BLOCK_SIZE", Other, [0xfff, 0xfff, 0]),
    some(0x0198, "SET_DST_WIDTH", Other, [W, W, 0]),
    some(0x019c, "SET_DST_HEIGHT", Other, [W, W, 0]),
    some(0x01a0, "SET_DST_DEPTH", Other, [W, W, 0]),
    some(0x01a4, "SET_DST_LAYER", Other, [W, W, 0]),
    some(0x01a8, "SET_DST_ORIGIN_BYTES_X", Other, [0x1f_ffff, 0x1f_ffff, 0]),
    some(0x01ac, "SET_DST_ORIGIN_SAMPLES_Y", Other, [0x1_ffff, 0x1_ffff, 0]),
    all(0x01b0, "LAUNCH_DMA", Other, 0xf37f),
    all(0x01b4, "LOAD_INLINE_DATA", Other, W),
    some(0x01dc, "SET_I2M_SEMAPHORE_A", Other, [0xff, 0x1ff_ffff, 0x1ff_ffff]),
    all(0x01e0, "SET_I2M_SEMAPHORE_B", Other, W),
    all(0x01e4, "SET_I2M_SEMAPHORE_C", Other, W),
    all(0x01e8, "SET_SM_SCG_CONTROL", Other, 0x1),
    all(0x01ec, "SET_MME_SWITCH_STATE", Other, 0xf_fff1),
    all(0x01f0, "SET_I2M_SPARE_NOOP00", Nothing, W),
    all(0x01f4, "SET_I2M_SPARE_NOOP01", Nothing, W),
    all(0x01f8, "SET_I2M_SPARE_NOOP02", Nothing, W),
    all(0x01fc, "SET_I2M_SPARE_NOOP03", Nothing, W),
    all(0x0200, "SET_VALID_SPAN_OVERFLOW_AREA_A", Other, 0xff),
    all(0x0204, "SET_VALID_SPAN_OVERFLOW_AREA_B", Other, W),
    all(0x0208, "SET_VALID_SPAN_OVERFLOW_AREA_C", Other, W),
    some(0x020c, "UPDATE_ALL_COMPUTE_CONTROL", Other, [0, 0, 0x11]),
    all(0x0210, "PERFMON_TRANSFER", Other, W),
    some(0x0214, "SET_QMD_VIRTUALIZATION_BASE_A", Other, [0xff, 0xff, 0]),
    some(0x0218, "SET_QMD_VIRTUALIZATION_BASE_B", Other, [W, W, 0]),
    all(offset::INVALIDATE_SHADER_CACHES, "INVALIDATE_SHADER_CACHES", Acts, 0x1017),
    all(0x0220, "SET_RESERVED_SW_METHOD00", Nothing, W),
    all(0x0224, "SET_RESERVED_SW_METHOD01", Nothing, W),
    all(0x0228, "SET_RESERVED_SW_METHOD02", Nothing, W),
    all(0x022c, "SET_RESERVED_SW_METHOD03", Nothing, W),
    all(0x0230, "SET_RESERVED_SW_METHOD04", Nothing, W),
    all(0x0234, "SET_RESERVED_SW_METHOD05", Nothing, W),
    all(0x0238, "SET_RESERVED_SW_METHOD06", Nothing, W),
    all(0x023c, "SET_RESERVED_SW_METHOD07", Nothing, W),
    all(0x0244, "INVALIDATE_TEXTURE_HEADER_CACHE_NO_WFI", Nothing, 0x3ff_fff1),
    all(0x0248, "SET_CWD_REF_COUNTER", Other, 0xff_ff3f),
    all(0x024c, "SET_RESERVED_SW_METHOD08", Nothing, W),
    all(0x0250, "SET_RESERVED_SW_METHOD09", Nothing, W),
    all(0x0254, "SET_RESERVED_SW_METHOD10", Nothing, W),
    all(0x0258, "SET_RESERVED_SW_METHOD11", Nothing, W),
    all(0x025c, "SET_RESERVED_SW_METHOD12", Nothing, W),
    all(0x0260, "SET_RESERVED_SW_METHOD13", Nothing, W),
    all(0x0264, "SET_RESERVED_SW_METHOD14", Nothing, W),
    all(0x0268, "SET_RESERVED_SW_METHOD15", Nothing, W),
    some(0x0270, "SET_SCG_CONTROL", Other, [0x11f_f1ff, 0, 0]),
    all(0x0280, "SET_COMPUTE_CLASS_VERSION", Nothing, W),
    all(0x0284, "CHECK_COMPUTE_CLASS_VERSION", Nothing, W),
    all(0x0288, "SET_QMD_VERSION", Nothing, W),
    some(0x0290, "CHECK_QMD_VERSION", Nothing, [W, 0, 0]),
    all(0x0298, "INVALIDATE_SKED_CACHES", Nothing, 0x1),
    some(0x029c, "SET_QMD_VIRTUALIZATION_CONTROL", Other, [0x111_17ff, 0x111_17ff, 0]),
    all(offset::SET_SHADER_SHARED_MEMORY_WINDOW_A, "SET_SHADER_SHARED_MEMORY_WINDOW_A", State, 0x1_ffff),
    all(offset::SET_SHADER_SHARED_MEMORY_WINDOW_B, "SET_SHADER_SHARED_MEMORY_WINDOW_B", State, W),
    some(0x02a8, "SCG_HYSTERESIS_CONTROL", Other, [0x3, 0, 0]),
    all(0x02b0, "SET_CWD_SLOT_COUNT", Other, 0xff),
    all(offset::SEND_PCAS_A, "SEND_PCAS_A", State, W),
    all(0x02b8, "SEND_PCAS_B", Other, W),
    all(offset::SEND_SIGNALING_PCAS_B, "SEND_SIGNALING_PCAS_B", Acts, 0x3),
    all(offset::SEND_SIGNALING_PCAS2_B, "SEND_SIGNALING_PCAS2_B", Acts, 0xff_ff0f),
    all(0x02cc, "SET_SKED_CACHE_CONTROL", Other, 0x1),
    all(offset::SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A, "SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A", State, 0xff),
    all(offset::SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_B, "SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_B", State, W),
    some(offset::SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_C, "SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_C", State, [0x1ff, 0xffff_01ff, 0xffff_01ff]),
    all(0x0310, "SET_SPA_VERSION", Nothing, 0xffff),
    some(0x0318, "SET_INLINE_QMD_ADDRESS_A", Other, [W, 0x4000_01ff, 0x4000_01ff]),
    all(0x031c, "SET_INLINE_QMD_ADDRESS_B", Other, W),
    all(0x0320, "LOAD_INLINE_QMD_DATA", Other, W).times(96, 4),
    all(0x0500, "SET_FALCON00", Other, W),
    all(0x0504, "SET_FALCON01", Other, W),
    all(0x0508, "SET_FALCON02", Other, W),
    all(0x050c, "SET_FALCON03", Other, W),
    all(0x0510, "SET_FALCON04", Other, W),
    all(0x0514, "SET_FALCON05", Other, W),
    all(0x0518, "SET_FALCON06", Other, W),
    all(0x051c, "SET_FALCON07", Other, W),
    all(0x0520, "SET_FALCON08", Other, W),
    all(0x0524, "SET_FALCON09", Other, W),
    all(0x0528, "SET_FALCON10", Other, W),
    all(0x052c, "SET_FALCON11", Other, W),
    all(0x0530, "SET_FALCON12", Other, W),
    all(0x0534, "SET_FALCON13", Other, W),
    all(0x0538, "SET_FALCON14", Other, W),
    all(0x053c, "SET_FALCON15", Other, W),
    some(0x0550, "SET_MME_MEM_ADDRESS_A", Other, [0x1_ffff, 0x1ff_ffff, 0x1ff_ffff]),
    all(0x0554, "SET_MME_MEM_ADDRESS_B", Other, W),
    all(0x0558, "SET_MME_DATA_RAM_ADDRESS", Other, W),
    all(0x055c, "MME_DMA_READ", Other, W),
    all(0x0560, "MME_DMA_READ_FIFOED", Other, W),
    all(0x0564, "MME_DMA_WRITE", Other, W),
    all(0x0568, "MME_DMA_REDUCTION", Other, 0x137),
    all(0x056c, "MME_DMA_SYSMEMBAR", Other, 0x1),
    all(0x0570, "MME_DMA_SYNC", Other, W),
    some(0x0574, "SET_MME_DATA_FIFO_CONFIG", Other, [0x7, 0x7, 0]),
    some(0x074c, "EVENT_START_TRIGGER", Other, [0, 0, W]),
    some(0x075c, "EVENT_STOP_TRIGGER", Other, [0, 0, W]),
    some(offset::SET_SHADER_LOCAL_MEMORY_A, "SET_SHADER_LOCAL_MEMORY_A", State, [0x1_ffff, 0x1ff_ffff, 0x1ff_ffff]),
    all(offset::SET_SHADER_LOCAL_MEMORY_B, "SET_SHADER_LOCAL_MEMORY_B", State, W),
    some(0x07ac, "SET_TEXTURE_HEADER_VERSION", Nothing, [0, 0xff, 0xff]),
    all(offset::SET_SHADER_LOCAL_MEMORY_WINDOW_A, "SET_SHADER_LOCAL_MEMORY_WINDOW_A", State, 0x1_ffff),
    all(offset::SET_SHADER_LOCAL_MEMORY_WINDOW_B, "SET_SHADER_LOCAL_MEMORY_WINDOW_B", State, W),
    some(0x07b8, "SET_MONITORED_FENCE_SIGNAL_ADDRESS_BASE_A", Other, [0, W, W]),
    some(0x07bc, "SET_MONITORED_FENCE_SIGNAL_ADDRESS_BASE_B", Other, [0, 0x1ff_ffff, 0x1ff_ffff]),
    all(0x07fc, "THROTTLE_SM", Nothing, 0x1),
    all(0x0d94, "SET_SHADER_CACHE_CONTROL", Other, 0x1),
    all(0x0da0, "SET_SCG_COMPUTE_SCHEDULING_PARAMETERS", Other, W).times(16, 4),
    all(0x0de4, "SET_SM_TIMEOUT_INTERVAL", Other, 0x3f),
    all(0x0dec, "MME_DMA_WRITE_METHOD_BARRIER", Other, 0x1),
    some(0x0f10, "SET_WFI_FILTER_STATE", Other, [0, 0, 0x1]),
    some(0x0ffc, "EVENT_STOP_TRIGGER_WFI", Other, [0, 0, W]),
    all(0x1288, "INVALIDATE_TEXTURE_DATA_CACHE_NO_WFI", Nothing, 0x3ff_fff1),
    all(0x12a8, "ACTIVATE_PERF_SETTINGS_FOR_COMPUTE_CONTEXT", Other, 0x1),
    all(0x1330, "INVALIDATE_SAMPLER_CACHE", Nothing, 0x3ff_fff1),
    all(0x1334, "INVALIDATE_TEXTURE_HEADER_CACHE", Nothing, 0x3ff_fff1),
    all(0x1338, "INVALIDATE_TEXTURE_DATA_CACHE", Nothing, 0x3ff_fff1),
    all(0x1424, "INVALIDATE_SAMPLER_CACHE_NO_WFI", Nothing, 0x3ff_fff1),
    some(0x1458, "INVALIDATE_SAMPLER_CACHE_BY_TAG", Nothing, [0, 0, W]),
    some(0x145c, "INVALIDATE_TEXTURE_HEADER_CACHE_BY_TAG", Nothing, [0, 0, W]),
    some(0x1460, "INVALIDATE_TEXTURE_DATA_CACHE_BY_TAG", Nothing, [0, 0, W]),
    some(0x1464, "SET_MME_TASK_EVENT_STATE", Other, [0, 0, 0xfff]),
    all(0x1528, "SET_SHADER_EXCEPTIONS", Nothing, 0x1),
    all(0x1550, "SET_RENDER_ENABLE_A", Other, 0xff),
    all(0x1554, "SET_RENDER_ENABLE_B", Other, W),
    all(0x1558, "SET_RENDER_ENABLE_C", Other, 0x7),
    some(0x155c, "SET_TEX_SAMPLER_POOL_A", Nothing, [0x1_ffff, 0x1ff_ffff, 0x1ff_ffff]),
    all(0x1560, "SET_TEX_SAMPLER_POOL_B", Nothing, W),
    some(0x1564, "SET_TEX_SAMPLER_POOL_C", Nothing, [0xf_ffff, 0xf_ffff, W]),
    some(0x1574, "SET_TEX_HEADER_POOL_A", Nothing, [0x1_ffff, 0x1ff_ffff, 0x1ff_ffff]),
    all(0x1578, "SET_TEX_HEADER_POOL_B", Nothing, W),
    some(0x157c, "SET_TEX_HEADER_POOL_C", Nothing, [0x3f_ffff, 0x3f_ffff, W]),
    all(offset::INVALIDATE_SHADER_CACHES_NO_WFI, "INVALIDATE_SHADER_CACHES_NO_WFI", Acts, 0x1011),
    some(0x1930, "INVALIDATE_SAMPLER_CACHE_BY_TAG_NO_WFI", Nothing, [0, 0, W]),
    some(0x1934, "INVALIDATE_TEXTURE_HEADER_CACHE_BY_TAG_NO_WFI", Nothing, [0, 0, W]),
    some(0x1938, "INVALIDATE_TEXTURE_DATA_CACHE_BY_TAG_NO_WFI", Nothing, [0, 0, W]),
    all(0x1944, "SET_RENDER_ENABLE_OVERRIDE", Other, 0x3),
    all(0x1a2c, "PIPE_NOP", Nothing, W),
    all(0x1a30, "SET_SPARE00", Nothing, W),
    all(0x1a34, "SET_SPARE01", Nothing, W),
    all(0x1a38, "SET_SPARE02", Nothing, W),
    all(0x1a3c, "SET_SPARE03", Nothing, W),
    some(offset::SET_REPORT_SEMAPHORE_A, "SET_REPORT_SEMAPHORE_A", State, [0xff, 0x1ff_ffff, 0x1ff_ffff]),
    all(offset::SET_REPORT_SEMAPHORE_B, "SET_REPORT_SEMAPHORE_B", State, W),
    all(offset::SET_REPORT_SEMAPHORE_C, "SET_REPORT_SEMAPHORE_C", State, W),
    all(offset::SET_REPORT_SEMAPHORE_D, "SET_REPORT_SEMAPHORE_D", Acts, 0x101e_0e0f),
    some(0x25f8, "SET_TRAP_HANDLER_A", Other, [0x1_ffff, 0x1ff_ffff, 0x1ff_ffff]),
    all(0x25fc, "SET_TRAP_HANDLER_B", Other, W),
    all(0x2608, "SET_BINDLESS_TEXTURE", Nothing, 0x7),
    all(0x32f4, "SET_SHADER_PERFORMANCE_SNAPSHOT_COUNTER_VALUE", Other, W).times(8, 4),
    all(0x3314, "SET_SHADER_PERFORMANCE_SNAPSHOT_COUNTER_VALUE_UPPER", Other, W).times(8, 4),
    all(0x3334, "ENABLE_SHADER_PERFORMANCE_SNAPSHOT_COUNTER", Other, 0x1),
    all(0x3338, "DISABLE_SHADER_PERFORMANCE_SNAPSHOT_COUNTER", Other, 0x1),
    all(0x333c, "SET_SHADER_PERFORMANCE_COUNTER_VALUE_UPPER", Other, W).times(8, 4),
    all(0x335c, "SET_SHADER_PERFORMANCE_COUNTER_VALUE", Other, W).times(8, 4),
    all(0x337c, "SET_SHADER_PERFORMANCE_COUNTER_EVENT", Other, 0xff).times(8, 4),
    all(0x339c, "SET_SHADER_PERFORMANCE_COUNTER_CONTROL_A", Other, W).times(8, 4),
    all(0x33bc, "SET_SHADER_PERFORMANCE_COUNTER_CONTROL_B", Other, 0xf_ffff).times(8, 4),
    all(0x33dc, "SET_SHADER_PERFORMANCE_COUNTER_TRAP_CONTROL", Other, 0xff),
    all(0x33e0, "START_SHADER_PERFORMANCE_COUNTER", Other, 0xff),
    all(0x33e4, "STOP_SHADER_PERFORMANCE_COUNTER", Other, 0xff),
    all(0x33e8, "SET_SHADER_PERFORMANCE_COUNTER_SCTL_FILTER", Other, W),
    all(0x33ec, "SET_SHADER_PERFORMANCE_COUNTER_CORE_MIO_FILTER", Other, W),
    all(0x3400, "SET_MME_SHADOW_SCRATCH", Other, W).times(256, 4),
    all(0x3800, "CALL_MME_MACRO", Other, W).times(256, 8),
    all(0x3804, "CALL_MME_DATA", Other, W).times(256, 8),
];
