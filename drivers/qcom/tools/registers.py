#!/usr/bin/env python3
"""Writes src/pm4/table.rs: names and fields of the registers that compute needs, from freedreno's register database.

Usage: tools/registers.py a6xx.xml.h | rustfmt > src/pm4/table.rs

The header is drivers/gpu/drm/msm/adreno/a6xx.xml.h of Linux 6.1, which freedreno's tools made from a6xx.xml. Facts only are
taken: names, addresses and bit ranges.
"""

import re
import sys

# Registers, and how many 32-bit words each has.
REGISTERS = {
    "CP_ALWAYS_ON_COUNTER": 2, "SP_CS_CTRL_REG0": 1, "SP_CS_UNKNOWN_A9B1": 1, "SP_CS_BRANCH_COND": 1,
    "SP_CS_OBJ_FIRST_EXEC_OFFSET": 1, "SP_CS_OBJ_START": 2, "SP_CS_PVT_MEM_PARAM": 1, "SP_CS_PVT_MEM_ADDR": 2,
    "SP_CS_PVT_MEM_SIZE": 1, "SP_CS_TEX_COUNT": 1, "SP_CS_CONFIG": 1, "SP_CS_INSTRLEN": 1,
    "SP_CS_PVT_MEM_HW_STACK_OFFSET": 1, "SP_CS_TEX_SAMP": 2, "SP_CS_TEX_CONST": 2, "SP_CS_IBO": 2, "SP_CS_IBO_COUNT": 1,
    "SP_MODE_CONTROL": 1, "SP_PERFCTR_ENABLE": 1, "SP_PS_TP_BORDER_COLOR_BASE_ADDR": 2, "SP_TP_MODE_CNTL": 1,
    "TPL1_DBG_ECO_CNTL": 1, "HLSQ_CONTROL_2_REG": 1, "HLSQ_CONTROL_3_REG": 1, "HLSQ_CONTROL_4_REG": 1,
    "HLSQ_CONTROL_5_REG": 1, "HLSQ_CS_CNTL": 1, "HLSQ_CS_NDRANGE_0": 1, "HLSQ_CS_NDRANGE_1": 1, "HLSQ_CS_NDRANGE_2": 1,
    "HLSQ_CS_NDRANGE_3": 1, "HLSQ_CS_NDRANGE_4": 1, "HLSQ_CS_NDRANGE_5": 1, "HLSQ_CS_NDRANGE_6": 1, "HLSQ_CS_CNTL_0": 1,
    "HLSQ_CS_CNTL_1": 1, "HLSQ_CS_KERNEL_GROUP_X": 1, "HLSQ_CS_KERNEL_GROUP_Y": 1, "HLSQ_CS_KERNEL_GROUP_Z": 1,
    "HLSQ_INVALIDATE_CMD": 1,
}
# The counter has two halves with names of their own in the header.
HEADER_NAMES = {"CP_ALWAYS_ON_COUNTER": "CP_ALWAYS_ON_COUNTER_LO"}
# Fields that the database got a meaning for after Linux 6.1: these two bits are one field in today's a6xx.xml.
LATER = {"SP_CS_UNKNOWN_A9B1": {"UNK5": None, "UNK6": None, "CONSTANTRAMMODE": (5, 2)}}


def fields(text, name):
    found = {}
    masks = re.findall(rf"#define A6XX_{name}_(\w+?)(__MASK)?\s+(0x[0-9a-f]{{8}})$", text, re.M)
    for field, _, mask in masks:
        if field.endswith("__SHIFT"):
            continue
        mask = int(mask, 16)
        shift = (mask & -mask).bit_length() - 1
        bits = (mask >> shift).bit_length()
        if mask != (1 << bits) - 1 << shift:
            raise SystemExit(f"{name}.{field} is no range of bits")
        found[field] = (shift, bits)
    found.update(LATER.get(name, {}))
    # A register that is one whole field has none to name.
    return sorted((s, b, f) for f, v in found.items() if v for s, b in [v] if b < 32)


def main():
    text = open(sys.argv[1]).read()
    rows, constants = [], []
    for name, words in REGISTERS.items():
        # One register's name may begin with another's: only its own block is looked at.
        header = HEADER_NAMES.get(name, name)
        block = re.search(rf"#define REG_A6XX_{header}\s+(0x[0-9a-f]+)\n(.*?)(?=#define REG_|\Z)", text, re.S)
        rows.append((int(block.group(1), 16), name, words, fields(block.group(2), name)))
    rows.sort()
    print("//! Names and fields of registers. Made by `tools/registers.py`; not to be changed by hand.\n")
    print("use super::registers::Register;\n")
    for address, name, _, _ in rows:
        print(f"/// {name}.\npub const {name}: u32 = {address:#06x};")
    print("\n/// All of them, by address.\npub static REGISTERS: &[Register] = &[")
    for address, name, words, bits in rows:
        ranges = ", ".join(f'("{f}", {s}, {b})' for s, b, f in bits)
        print(f'Register {{ address: {name}, name: "{name}", words: {words}, fields: &[{ranges}] }},')
    print("];")


main()
