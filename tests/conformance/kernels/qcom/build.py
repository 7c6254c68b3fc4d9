#!/usr/bin/env python3
"""Builds the test programs for Adreno: `build.py [folder]`, by default the one that this file is in.

Needs `pip install tinymesa==25.2.7.2 tinygrad==0.14.0`. See README.md.
"""

import pathlib
import struct
import sys

import ir3
import stock
from tinygrad.runtime.autogen import mesa

# Where an OpenCL program finds ids: vectors of three from these registers on, SP_CS_CONST_CONFIG_0 of such a launch.
CL_OFFSET, CL_GROUP = 0xCC, 0xCF
# Where ir3 has the work-group's id.
IR3_GROUP = 0xC0
COMPONENT = "xyzw"


def align(data, to):
    data.extend(bytes(-len(data) % to))
    return len(data)


def bundle(programs):
    """Programs in one file: what `hcq_std::Device::load_program` takes of ir3's."""
    out = bytearray(b"hcq-ir3 1\n")
    for v in programs:
        lines = [f"kernel {v['name']}", f"arguments {v['signature']}"]
        for field in ("branch_stack", "private_bytes", "shared_bytes", "max_reg", "max_half_reg"):
            lines.append(f"{field} {v[field]}")
        for field in ("merged_registers", "double_waves", "group_count"):
            lines.append(f"{field} {int(v[field])}")
        for field in ("work_group_id", "local_invocation_id"):
            lines.append(f"{field} {v[field]:#x}")
        for field in ("constlen", "max_const_offset", "arguments_offset"):
            lines.append(f"{field} {v[field]}")
        for field in ("driver_params", "immediates", "textures"):
            lines.append(" ".join([field, *map(str, v[field])]))
        lines.append(f"code {len(v['code'])}")
        out += "\n".join(lines).encode() + b"\n" + v["code"]
    return bytes(out)


def moved(compiler, code, to):
    """The code, with what it reads of the work-group's id taken from other registers. Mesa's disassembler says what is a register."""
    names = {f"r48.{COMPONENT[c]}": f"r{(to + c) >> 2}.{COMPONENT[(to + c) & 3]}" for c in range(3)}
    out = bytearray(code)

    def text(word):
        return compiler.text(word.to_bytes(8, "little")).strip()

    for at in range(0, len(code), 8):
        word = int.from_bytes(code[at:at + 8], "little")
        for register, new in names.items():
            while register in text(word):
                c = COMPONENT.index(register[-1])
                want = text(word).replace(register, new, 1)
                tries = [word ^ ((IR3_GROUP + c) ^ (to + c)) << bit for bit in range(56)
                         if word >> bit & 0xFF == IR3_GROUP + c]
                word = next(t for t in tries if text(t) == want)
        out[at:at + 8] = word.to_bytes(8, "little")
    return bytes(out)


def container(v):
    """A program in the container of Qualcomm's OpenCL compiler, as far as that is known. `hcq_qcom::container` describes it."""
    registers, image, samplers = 0x120, 0x140, len(v["textures"])
    assert samplers <= 1 and not v["merged_registers"] and not v["double_waves"] and v["driver_params"] == (0, 0), v["name"]
    out = bytearray(image + 0x158)
    out.extend(v["name"].encode())
    align(out, 4)
    out.extend(bytes(8 * samplers))
    kinds = {"texture": 1, "storage": 2}
    for kind, _, at in v["arguments"]:
        word, rest = divmod(v["arguments_offset"] + at, 4)
        assert rest == 0, v["name"]
        out.extend(struct.pack("<8I", 32, 0, 0, 0 if kind in kinds else word, 0, 0, 0, kinds.get(kind, 0)))
    out.extend(bytes(32))
    # What is between constants and code counts as constants.
    constants = b"".join(
        struct.pack("<10I", value, 0, 0, 0, v["max_const_offset"] * 4 + i, 0, 1, 0, 0, 0)
        for i, value in enumerate(v["immediates"]))
    out.extend(bytes(-(len(out) + len(constants)) % 8))
    constants_at, code_at = len(out), len(out) + len(constants)
    out.extend(constants)
    out.extend(v["code"])

    def set_(at, value):
        struct.pack_into("<I", out, at, value)

    set_(0x34, registers)
    set_(0xAC, constants_at)
    set_(0xB0, len(v["immediates"]))
    set_(0xC0, code_at)
    set_(0x100, len(v["code"]))
    set_(0x110, image)
    set_(registers + 0x14, v["max_reg"] + 1)
    set_(registers + 0x18, v["max_half_reg"] + 1)
    set_(image + 0xC8, v["private_bytes"])
    set_(image + 0xD8, v["shared_bytes"])
    set_(image + 0xDC, samplers)
    # Two of the compiler's levels take one of the hardware's; the file has twice what the register takes.
    set_(image + 0x108, 0 if v["branch_stack"] == 0 else 2 * min(v["branch_stack"] // 2 + 1, 32))
    return bytes(out)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__)
    folder = folder if folder.is_dir() else folder.parent
    (folder / "cl").mkdir(exist_ok=True)
    mesa.glsl_type_singleton_init_or_ref()
    for chip in ir3.CHIPS:
        compiler = ir3.Compiler(chip)
        programs = []
        for program, signature in stock.PROGRAMS.items():
            k = ir3.Builder(compiler, program.__name__, signature)
            program(k)
            programs.append(k.compile())
        (folder / f"stock-{chip}.ir3").write_bytes(bundle(programs))
    compiler = ir3.Compiler("a630")
    for program, ids in stock.OPENCL.items():
        k = ir3.Builder(compiler, program.__name__, stock.PROGRAMS[program], merged=False)
        k.opencl = True
        stock.OPENCL_FORMS.get(program, program)(k)
        v = k.compile()
        v["code"] = moved(compiler, v["code"], CL_GROUP if ids == "group" else CL_OFFSET)
        (folder / "cl" / f"{program.__name__}.bin").write_bytes(container(v))


if __name__ == "__main__":
    main()
