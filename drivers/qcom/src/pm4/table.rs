//! Names and fields of registers. Made by `tools/registers.py`; not to be changed by hand.

use super::registers::Register;

/// CP_ALWAYS_ON_COUNTER.
pub const CP_ALWAYS_ON_COUNTER: u32 = 0x0980;
/// SP_CS_CTRL_REG0.
pub const SP_CS_CTRL_REG0: u32 = 0xa9b0;
/// SP_CS_UNKNOWN_A9B1.
pub const SP_CS_UNKNOWN_A9B1: u32 = 0xa9b1;
/// SP_CS_BRANCH_COND.
pub const SP_CS_BRANCH_COND: u32 = 0xa9b2;
/// SP_CS_OBJ_FIRST_EXEC_OFFSET.
pub const SP_CS_OBJ_FIRST_EXEC_OFFSET: u32 = 0xa9b3;
/// SP_CS_OBJ_START.
pub const SP_CS_OBJ_START: u32 = 0xa9b4;
/// SP_CS_PVT_MEM_PARAM.
pub const SP_CS_PVT_MEM_PARAM: u32 = 0xa9b6;
/// SP_CS_PVT_MEM_ADDR.
pub const SP_CS_PVT_MEM_ADDR: u32 = 0xa9b7;
/// SP_CS_PVT_MEM_SIZE.
pub const SP_CS_PVT_MEM_SIZE: u32 = 0xa9b9;
/// SP_CS_TEX_COUNT.
pub const SP_CS_TEX_COUNT: u32 = 0xa9ba;
/// SP_CS_CONFIG.
pub const SP_CS_CONFIG: u32 = 0xa9bb;
/// SP_CS_INSTRLEN.
pub const SP_CS_INSTRLEN: u32 = 0xa9bc;
/// SP_CS_PVT_MEM_HW_STACK_OFFSET.
pub const SP_CS_PVT_MEM_HW_STACK_OFFSET: u32 = 0xa9bd;
/// SP_CS_TEX_SAMP.
pub const SP_CS_TEX_SAMP: u32 = 0xa9e2;
/// SP_CS_TEX_CONST.
pub const SP_CS_TEX_CONST: u32 = 0xa9e6;
/// SP_CS_IBO.
pub const SP_CS_IBO: u32 = 0xa9f2;
/// SP_CS_IBO_COUNT.
pub const SP_CS_IBO_COUNT: u32 = 0xaa00;
/// SP_MODE_CONTROL.
pub const SP_MODE_CONTROL: u32 = 0xab00;
/// SP_PERFCTR_ENABLE.
pub const SP_PERFCTR_ENABLE: u32 = 0xae0f;
/// SP_PS_TP_BORDER_COLOR_BASE_ADDR.
pub const SP_PS_TP_BORDER_COLOR_BASE_ADDR: u32 = 0xb180;
/// SP_TP_MODE_CNTL.
pub const SP_TP_MODE_CNTL: u32 = 0xb309;
/// TPL1_DBG_ECO_CNTL.
pub const TPL1_DBG_ECO_CNTL: u32 = 0xb600;
/// HLSQ_CONTROL_2_REG.
pub const HLSQ_CONTROL_2_REG: u32 = 0xb983;
/// HLSQ_CONTROL_3_REG.
pub const HLSQ_CONTROL_3_REG: u32 = 0xb984;
/// HLSQ_CONTROL_4_REG.
pub const HLSQ_CONTROL_4_REG: u32 = 0xb985;
/// HLSQ_CONTROL_5_REG.
pub const HLSQ_CONTROL_5_REG: u32 = 0xb986;
/// HLSQ_CS_CNTL.
pub const HLSQ_CS_CNTL: u32 = 0xb987;
/// HLSQ_CS_NDRANGE_0.
pub const HLSQ_CS_NDRANGE_0: u32 = 0xb990;
/// HLSQ_CS_NDRANGE_1.
pub const HLSQ_CS_NDRANGE_1: u32 = 0xb991;
/// HLSQ_CS_NDRANGE_2.
pub const HLSQ_CS_NDRANGE_2: u32 = 0xb992;
/// HLSQ_CS_NDRANGE_3.
pub const HLSQ_CS_NDRANGE_3: u32 = 0xb993;
/// HLSQ_CS_NDRANGE_4.
pub const HLSQ_CS_NDRANGE_4: u32 = 0xb994;
/// HLSQ_CS_NDRANGE_5.
pub const HLSQ_CS_NDRANGE_5: u32 = 0xb995;
/// HLSQ_CS_NDRANGE_6.
pub const HLSQ_CS_NDRANGE_6: u32 = 0xb996;
/// HLSQ_CS_CNTL_0.
pub const HLSQ_CS_CNTL_0: u32 = 0xb997;
/// HLSQ_CS_CNTL_1.
pub const HLSQ_CS_CNTL_1: u32 = 0xb998;
/// HLSQ_CS_KERNEL_GROUP_X.
pub const HLSQ_CS_KERNEL_GROUP_X: u32 = 0xb999;
/// HLSQ_CS_KERNEL_GROUP_Y.
pub const HLSQ_CS_KERNEL_GROUP_Y: u32 = 0xb99a;
/// HLSQ_CS_KERNEL_GROUP_Z.
pub const HLSQ_CS_KERNEL_GROUP_Z: u32 = 0xb99b;
/// HLSQ_INVALIDATE_CMD.
pub const HLSQ_INVALIDATE_CMD: u32 = 0xbb08;

/// All of them, by address.
pub static REGISTERS: &[Register] = &[
    Register {
        address: CP_ALWAYS_ON_COUNTER,
        name: "CP_ALWAYS_ON_COUNTER",
        words: 2,
        fields: &[],
    },
    Register {
        address: SP_CS_CTRL_REG0,
        name: "SP_CS_CTRL_REG0",
        words: 1,
        fields: &[
            ("THREADMODE", 0, 1),
            ("HALFREGFOOTPRINT", 1, 6),
            ("FULLREGFOOTPRINT", 7, 6),
            ("UNK13", 13, 1),
            ("BRANCHSTACK", 14, 6),
            ("THREADSIZE", 20, 1),
            ("UNK21", 21, 1),
            ("UNK22", 22, 1),
            ("SEPARATEPROLOG", 23, 1),
            ("MERGEDREGS", 31, 1),
        ],
    },
    Register {
        address: SP_CS_UNKNOWN_A9B1,
        name: "SP_CS_UNKNOWN_A9B1",
        words: 1,
        fields: &[("SHARED_SIZE", 0, 5), ("CONSTANTRAMMODE", 5, 2)],
    },
    Register {
        address: SP_CS_BRANCH_COND,
        name: "SP_CS_BRANCH_COND",
        words: 1,
        fields: &[],
    },
    Register {
        address: SP_CS_OBJ_FIRST_EXEC_OFFSET,
        name: "SP_CS_OBJ_FIRST_EXEC_OFFSET",
        words: 1,
        fields: &[],
    },
    Register {
        address: SP_CS_OBJ_START,
        name: "SP_CS_OBJ_START",
        words: 2,
        fields: &[],
    },
    Register {
        address: SP_CS_PVT_MEM_PARAM,
        name: "SP_CS_PVT_MEM_PARAM",
        words: 1,
        fields: &[("MEMSIZEPERITEM", 0, 8), ("HWSTACKSIZEPERTHREAD", 24, 8)],
    },
    Register {
        address: SP_CS_PVT_MEM_ADDR,
        name: "SP_CS_PVT_MEM_ADDR",
        words: 2,
        fields: &[],
    },
    Register {
        address: SP_CS_PVT_MEM_SIZE,
        name: "SP_CS_PVT_MEM_SIZE",
        words: 1,
        fields: &[("TOTALPVTMEMSIZE", 0, 18), ("PERWAVEMEMLAYOUT", 31, 1)],
    },
    Register {
        address: SP_CS_TEX_COUNT,
        name: "SP_CS_TEX_COUNT",
        words: 1,
        fields: &[],
    },
    Register {
        address: SP_CS_CONFIG,
        name: "SP_CS_CONFIG",
        words: 1,
        fields: &[
            ("BINDLESS_TEX", 0, 1),
            ("BINDLESS_SAMP", 1, 1),
            ("BINDLESS_IBO", 2, 1),
            ("BINDLESS_UBO", 3, 1),
            ("ENABLED", 8, 1),
            ("NTEX", 9, 8),
            ("NSAMP", 17, 5),
            ("NIBO", 22, 7),
        ],
    },
    Register {
        address: SP_CS_INSTRLEN,
        name: "SP_CS_INSTRLEN",
        words: 1,
        fields: &[],
    },
    Register {
        address: SP_CS_PVT_MEM_HW_STACK_OFFSET,
        name: "SP_CS_PVT_MEM_HW_STACK_OFFSET",
        words: 1,
        fields: &[("OFFSET", 0, 19)],
    },
    Register {
        address: SP_CS_TEX_SAMP,
        name: "SP_CS_TEX_SAMP",
        words: 2,
        fields: &[],
    },
    Register {
        address: SP_CS_TEX_CONST,
        name: "SP_CS_TEX_CONST",
        words: 2,
        fields: &[],
    },
    Register {
        address: SP_CS_IBO,
        name: "SP_CS_IBO",
        words: 2,
        fields: &[],
    },
    Register {
        address: SP_CS_IBO_COUNT,
        name: "SP_CS_IBO_COUNT",
        words: 1,
        fields: &[],
    },
    Register {
        address: SP_MODE_CONTROL,
        name: "SP_MODE_CONTROL",
        words: 1,
        fields: &[
            ("CONSTANT_DEMOTION_ENABLE", 0, 1),
            ("ISAMMODE", 1, 2),
            ("SHARED_CONSTS_ENABLE", 3, 1),
        ],
    },
    Register {
        address: SP_PERFCTR_ENABLE,
        name: "SP_PERFCTR_ENABLE",
        words: 1,
        fields: &[
            ("VS", 0, 1),
            ("HS", 1, 1),
            ("DS", 2, 1),
            ("GS", 3, 1),
            ("FS", 4, 1),
            ("CS", 5, 1),
        ],
    },
    Register {
        address: SP_PS_TP_BORDER_COLOR_BASE_ADDR,
        name: "SP_PS_TP_BORDER_COLOR_BASE_ADDR",
        words: 2,
        fields: &[],
    },
    Register {
        address: SP_TP_MODE_CNTL,
        name: "SP_TP_MODE_CNTL",
        words: 1,
        fields: &[("ISAMMODE", 0, 2), ("UNK3", 2, 6)],
    },
    Register {
        address: TPL1_DBG_ECO_CNTL,
        name: "TPL1_DBG_ECO_CNTL",
        words: 1,
        fields: &[],
    },
    Register {
        address: HLSQ_CONTROL_2_REG,
        name: "HLSQ_CONTROL_2_REG",
        words: 1,
        fields: &[
            ("FACEREGID", 0, 8),
            ("SAMPLEID", 8, 8),
            ("SAMPLEMASK", 16, 8),
            ("SIZE", 24, 8),
        ],
    },
    Register {
        address: HLSQ_CONTROL_3_REG,
        name: "HLSQ_CONTROL_3_REG",
        words: 1,
        fields: &[
            ("IJ_PERSP_PIXEL", 0, 8),
            ("IJ_LINEAR_PIXEL", 8, 8),
            ("IJ_PERSP_CENTROID", 16, 8),
            ("IJ_LINEAR_CENTROID", 24, 8),
        ],
    },
    Register {
        address: HLSQ_CONTROL_4_REG,
        name: "HLSQ_CONTROL_4_REG",
        words: 1,
        fields: &[
            ("IJ_PERSP_SAMPLE", 0, 8),
            ("IJ_LINEAR_SAMPLE", 8, 8),
            ("XYCOORDREGID", 16, 8),
            ("ZWCOORDREGID", 24, 8),
        ],
    },
    Register {
        address: HLSQ_CONTROL_5_REG,
        name: "HLSQ_CONTROL_5_REG",
        words: 1,
        fields: &[("LINELENGTHREGID", 0, 8), ("FOVEATIONQUALITYREGID", 8, 8)],
    },
    Register {
        address: HLSQ_CS_CNTL,
        name: "HLSQ_CS_CNTL",
        words: 1,
        fields: &[("CONSTLEN", 0, 8), ("ENABLED", 8, 1)],
    },
    Register {
        address: HLSQ_CS_NDRANGE_0,
        name: "HLSQ_CS_NDRANGE_0",
        words: 1,
        fields: &[
            ("KERNELDIM", 0, 2),
            ("LOCALSIZEX", 2, 10),
            ("LOCALSIZEY", 12, 10),
            ("LOCALSIZEZ", 22, 10),
        ],
    },
    Register {
        address: HLSQ_CS_NDRANGE_1,
        name: "HLSQ_CS_NDRANGE_1",
        words: 1,
        fields: &[],
    },
    Register {
        address: HLSQ_CS_NDRANGE_2,
        name: "HLSQ_CS_NDRANGE_2",
        words: 1,
        fields: &[],
    },
    Register {
        address: HLSQ_CS_NDRANGE_3,
        name: "HLSQ_CS_NDRANGE_3",
        words: 1,
        fields: &[],
    },
    Register {
        address: HLSQ_CS_NDRANGE_4,
        name: "HLSQ_CS_NDRANGE_4",
        words: 1,
        fields: &[],
    },
    Register {
        address: HLSQ_CS_NDRANGE_5,
        name: "HLSQ_CS_NDRANGE_5",
        words: 1,
        fields: &[],
    },
    Register {
        address: HLSQ_CS_NDRANGE_6,
        name: "HLSQ_CS_NDRANGE_6",
        words: 1,
        fields: &[],
    },
    Register {
        address: HLSQ_CS_CNTL_0,
        name: "HLSQ_CS_CNTL_0",
        words: 1,
        fields: &[
            ("WGIDCONSTID", 0, 8),
            ("WGSIZECONSTID", 8, 8),
            ("WGOFFSETCONSTID", 16, 8),
            ("LOCALIDREGID", 24, 8),
        ],
    },
    Register {
        address: HLSQ_CS_CNTL_1,
        name: "HLSQ_CS_CNTL_1",
        words: 1,
        fields: &[
            ("LINEARLOCALIDREGID", 0, 8),
            ("SINGLE_SP_CORE", 8, 1),
            ("THREADSIZE", 9, 1),
            ("THREADSIZE_SCALAR", 10, 1),
        ],
    },
    Register {
        address: HLSQ_CS_KERNEL_GROUP_X,
        name: "HLSQ_CS_KERNEL_GROUP_X",
        words: 1,
        fields: &[],
    },
    Register {
        address: HLSQ_CS_KERNEL_GROUP_Y,
        name: "HLSQ_CS_KERNEL_GROUP_Y",
        words: 1,
        fields: &[],
    },
    Register {
        address: HLSQ_CS_KERNEL_GROUP_Z,
        name: "HLSQ_CS_KERNEL_GROUP_Z",
        words: 1,
        fields: &[],
    },
    Register {
        address: HLSQ_INVALIDATE_CMD,
        name: "HLSQ_INVALIDATE_CMD",
        words: 1,
        fields: &[
            ("VS_STATE", 0, 1),
            ("HS_STATE", 1, 1),
            ("DS_STATE", 2, 1),
            ("GS_STATE", 3, 1),
            ("FS_STATE", 4, 1),
            ("CS_STATE", 5, 1),
            ("CS_IBO", 6, 1),
            ("GFX_IBO", 7, 1),
            ("GFX_SHARED_CONST", 8, 1),
            ("CS_BINDLESS", 9, 5),
            ("GFX_BINDLESS", 14, 5),
            ("CS_SHARED_CONST", 19, 1),
        ],
    },
];
