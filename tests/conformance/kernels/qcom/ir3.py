"""NIR by hand, and what Mesa's ir3 compiler makes of it.

Needs `pip install tinymesa==25.2.7.2 tinygrad==0.14.0`: Mesa's compilers as a shared library, and Python's bindings of it.
"""

import ctypes
import tempfile

from tinygrad.dtype import dtypes
from tinygrad.renderer.nir import deref_var, nalu, nchannel, nimm, nir_instr, njump, nsrc, nundef
from tinygrad.runtime.autogen import libc, mesa

CHIPS = {"a630": (630, 0x06030001), "a650": (650, 0x06050002), "a660": (660, 0x06060001)}


def intrinsic(name, **kwargs):
    number = getattr(mesa, f"nir_intrinsic_{name}")
    return nir_instr(**kwargs)(lambda b: mesa.nir_intrinsic_instr_create(b.shader, number))


_ubo = nir_instr(
    nc=1, num_components=1, bs=lambda bits: bits,
    intrins={"ALIGN_MUL": lambda bits: bits // 8, "RANGE": lambda size: size},
    srcs=lambda b, at: [nsrc(nimm(b, 0, dtypes.int)), nsrc(nimm(b, at, dtypes.int))],
)(lambda b, at, bits, size: mesa.nir_intrinsic_instr_create(b.shader, mesa.nir_intrinsic_load_ubo))


def _load(space):
    number = getattr(mesa, f"nir_intrinsic_load_{space}")
    return nir_instr(
        nc=1, num_components=1, bs=32, srcs=lambda address: [nsrc(address)],
        intrins={} if space == "deref" else {"ALIGN_MUL": 4},
    )(lambda b, address: mesa.nir_intrinsic_instr_create(b.shader, number))


def _store(space):
    number = getattr(mesa, f"nir_intrinsic_store_{space}")
    order = 1 if space != "deref" else -1
    return nir_instr(
        has_def=False, num_components=1, srcs=lambda address, value: [nsrc(value), nsrc(address)][::order],
        intrins={"WRITE_MASK": 1} | ({} if space == "deref" else {"ALIGN_MUL": 4}),
    )(lambda b, address, value: mesa.nir_intrinsic_instr_create(b.shader, number))


_barrier = intrinsic("barrier", has_def=False, intrins={
    "EXECUTION_SCOPE": mesa.SCOPE_WORKGROUP, "MEMORY_SCOPE": mesa.SCOPE_WORKGROUP,
    "MEMORY_SEMANTICS": mesa.NIR_MEMORY_ACQUIRE | mesa.NIR_MEMORY_RELEASE, "MEMORY_MODES": mesa.nir_var_mem_shared})

_image = {"IMAGE_DIM": mesa.GLSL_SAMPLER_DIM_2D, "ACCESS": mesa.ACCESS_CAN_REORDER}


def _texel(b, x, y):
    return nalu(b, "vec4", x, y, nundef(b, dtypes.int), nundef(b, dtypes.int))


_image_load = nir_instr(
    nc=4, bs=32, num_components=4, intrins=lambda kind: _image | {"DEST_TYPE": kind},
    srcs=lambda b, image, x, y: [nsrc(s) for s in (image, _texel(b, x, y), nundef(b, dtypes.int), nimm(b, 0, dtypes.int))],
)(lambda b, image, x, y, kind: mesa.nir_intrinsic_instr_create(b.shader, mesa.nir_intrinsic_image_load))

_image_store = nir_instr(
    has_def=False, num_components=4, intrins=lambda kind: _image | {"SRC_TYPE": kind},
    srcs=lambda b, image, x, y, value: [
        nsrc(s) for s in (image, _texel(b, x, y), nundef(b, dtypes.int), value, nimm(b, 0, dtypes.int))],
)(lambda b, image, x, y, value, kind: mesa.nir_intrinsic_instr_create(b.shader, mesa.nir_intrinsic_image_store))

# What a texel's components are in registers, by the word for it in a signature.
TEXELS = {"float": mesa.nir_type_float32, "int": mesa.nir_type_int32, "uint": mesa.nir_type_uint32}


def _sample(b, texture, sampler, x, y):
    """A texel through a sampler, from the only level that there is: four floats."""
    instr = mesa.nir_tex_instr_create(b.shader, 2)
    tex = instr.contents
    tex.op, tex.sampler_dim, tex.dest_type = mesa.nir_texop_txl, mesa.GLSL_SAMPLER_DIM_2D, mesa.nir_type_float32
    tex.coord_components, tex.texture_index, tex.sampler_index = 2, texture, sampler
    sources = [(mesa.nir_tex_src_coord, nalu(b, "vec2", x, y)), (mesa.nir_tex_src_lod, nimm(b, 0.0, dtypes.float))]
    for i, (kind, value) in enumerate(sources):
        ctypes.cast(tex.src, ctypes.POINTER(mesa.struct_nir_tex_src))[i] = mesa.struct_nir_tex_src(src=nsrc(value), src_type=kind)
    mesa.nir_def_init(tex.instr, tex._def, 4, 32)
    mesa.nir_builder_instr_insert(b, tex.instr)
    return tex._def


class Compiler:
    """Mesa's compiler for one chip."""

    def __init__(self, chip):
        number, chip_id = CHIPS[chip]
        self.number = number
        self.device = mesa.struct_fd_dev_id(number, chip_id)
        options = mesa.struct_ir3_compiler_options(disable_cache=True)
        self.compiler = mesa.ir3_compiler_create(None, self.device, mesa.fd_dev_info(self.device), options).contents
        self.compiler.has_preamble = False
        # Shaders keep a pointer to this.
        self.options = mesa.nir_shader_compiler_options.from_buffer_copy(
            bytes(mesa.ir3_get_compiler_options(self.compiler).contents))

    def text(self, code):
        """Disassembled."""
        with tempfile.TemporaryFile("w+") as file:
            to = libc.fdopen(file.fileno(), b"w")
            options = mesa.struct_isa_decode_options(self.number, True, 0, True)
            mesa.ir3_isa_disasm(code, len(code), ctypes.cast(to, ctypes.POINTER(mesa.struct__IO_FILE)), options)
            libc.fflush(to)
            file.seek(0)
            return file.read()


class Builder:
    """One program: arguments, then statements. Numbers are 32-bit `nir_def`s unless said otherwise."""

    def __init__(self, compiler, name, signature, merged=True):
        self.compiler, self.name, self.signature, self.merged = compiler, name, signature, merged
        self.b = mesa.nir_builder_init_simple_shader(mesa.MESA_SHADER_COMPUTE, compiler.options, None)
        self.info = self.b.shader.contents.info
        self.info.workgroup_size_variable = True
        self.textures, self.sampled, self.images, self.group_count, self.opencl = 0, 0, 0, False, False
        self.arguments, end = [], 0
        for field in filter(None, (part.strip() for part in signature.split(";"))):
            kind, size = self.kind(field)
            end = -(-end // size) * size if size else end
            self.arguments.append((kind, size, end))
            end += size
        self.size = end
        self.info.num_ubos = 1 if end else 0

    @staticmethod
    def kind(field):
        if field.startswith("texture "):
            return "texture", 0
        if field.startswith("storage "):
            return "storage", 0
        if field.startswith("sampler "):
            return "sampler", 0
        if "*" in field:
            return "buffer", 8
        types = {"int8_t": 1, "uint8_t": 1, "int16_t": 2, "uint16_t": 2, "int32_t": 4, "uint32_t": 4, "float": 4}
        return "number", types.get(field.split()[0], 8)

    def __getattr__(self, op):
        if op.startswith("_"):
            raise AttributeError(op)
        return lambda *sources: nalu(self.b, op.rstrip("_"), *sources)

    def imm(self, value):
        return nimm(self.b, value & 0xFFFF_FFFF, dtypes.uint)

    def word(self, at):
        """A word of the argument block."""
        return _ubo(self.b, at, 32, self.size)

    def argument(self, index):
        """A number of 32 bits, or a 64-bit address."""
        kind, size, at = self.arguments[index]
        return _ubo(self.b, at, 64 if kind == "buffer" or size == 8 else 32, self.size)

    def vector(self, name):
        value = intrinsic(f"load_{name}", nc=3, bs=32)(self.b)
        self.group_count |= name == "num_workgroups"
        return [nchannel(self.b, value, d) for d in range(3)]

    def address(self, base, index):
        return self.iadd(base, self.ishl(self.u2u64(index), self.imm(2)))

    def load(self, base, index):
        return _load("global")(self.b, self.address(base, index))

    def store(self, base, index, value):
        _store("global")(self.b, self.address(base, index), value)

    def local(self, index):
        return _load("shared")(self.b, self.ishl(index, self.imm(2)))

    def set_local(self, index, value):
        _store("shared")(self.b, self.ishl(index, self.imm(2)), value)

    def barrier(self):
        _barrier(self.b)

    def when(self, condition, then):
        branch = mesa.nir_push_if(self.b, condition)
        then()
        mesa.nir_pop_if(self.b, branch)

    def variable(self, name, value):
        variable = mesa.nir_local_variable_create(
            self.b.impl, mesa.glsl_type_builtin_uint, name.encode()).contents
        place = deref_var(self.b, variable)
        _store("deref")(self.b, place, value)
        return lambda: _load("deref")(self.b, place), lambda new: _store("deref")(self.b, place, new)

    def count(self, start, end, step, body):
        """`for (i = start; i < end; i += step)`, with unsigned numbers."""
        get, set_ = self.variable("i", start)
        mesa.nir_push_loop(self.b)
        i = get()
        branch = mesa.nir_push_if(self.b, self.ult(i, end))
        mesa.nir_push_else(self.b, branch)
        njump(self.b, mesa.nir_jump_break)
        mesa.nir_pop_if(self.b, branch)
        body(i)
        set_(self.iadd(get(), step))
        mesa.nir_pop_loop(self.b, None)

    def fetch(self, texture, x, y, kind="float"):
        """A texel of a texture, four numbers."""
        self.textures = max(self.textures, texture + 1)
        value = _image_load(self.b, nimm(self.b, texture, dtypes.int), x, y, TEXELS[kind])
        return [nchannel(self.b, value, c) for c in range(4)]

    def put(self, image, x, y, texel, kind="float"):
        """Stores a texel, four numbers. Storage images are numbered behind the textures that are fetched from."""
        self.images = max(self.images, image + 1)
        _image_store(self.b, nimm(self.b, image, dtypes.int), x, y, self.vec4(*texel), TEXELS[kind])

    def sample(self, texture, sampler, x, y):
        """What a sampler makes of a texture at a place, four floats. These textures come before those that are fetched from."""
        self.sampled = max(self.sampled, texture + 1)
        value = _sample(self.b, texture, sampler, x, y)
        return [nchannel(self.b, value, c) for c in range(4)]

    def compile(self):
        """The variant, as a dictionary of what the loader wants."""
        shader, compiler = self.b.shader, self.compiler.compiler
        self.info.num_images, self.info.num_textures = self.textures + self.images, self.sampled
        mesa.nir_validate_shader(shader, b"made")
        mesa.ir3_nir_lower_io_vars_to_temporaries(shader)
        mesa.ir3_finalize_nir(compiler, mesa.struct_ir3_shader_nir_options(), shader)

        def new(kind, parent=None, **fields):
            at = mesa.rzalloc_size(ctypes.cast(parent, ctypes.c_void_p), ctypes.sizeof(kind))
            made = ctypes.cast(at, ctypes.POINTER(kind))
            for name, value in fields.items():
                setattr(made.contents, name, value)
            return made

        ir3 = new(mesa.struct_ir3_shader, compiler=ctypes.pointer(compiler), type=mesa.MESA_SHADER_COMPUTE, nir=shader)
        mesa.ir3_nir_post_finalize(ir3.contents)
        v = new(mesa.struct_ir3_shader_variant, type=mesa.MESA_SHADER_COMPUTE, compiler=ctypes.pointer(compiler),
                key=mesa.struct_ir3_shader_key(), mergedregs=self.merged).contents
        v.const_state = new(mesa.struct_ir3_const_state, ctypes.pointer(v))
        ir3.contents.variants, ir3.contents.variant_count = ctypes.pointer(v), 1
        v.num_uavs = self.info.num_ssbos + self.info.num_images
        assert not mesa.ir3_compile_shader_nir(compiler, ir3.contents, v), self.name
        code = ctypes.string_at(ctypes.cast(mesa.ir3_shader_assemble(v), ctypes.c_void_p), v.info.size)
        consts = v.const_state.contents
        driver = consts.allocs.consts[mesa.IR3_CONST_ALLOC_DRIVER_PARAMS]
        ubo = consts.ubo_state
        assert ubo.num_enabled == (1 if self.size else 0) and (not self.size or ubo.range[0].start == 0), self.name
        assert consts.num_ubos <= 1 and v.constant_data_size == 0 and not v.early_preamble, self.name
        assert v.image_mapping.num_tex == self.textures
        return {
            "name": self.name, "signature": self.signature, "arguments": self.arguments, "code": code,
            "immediates": [v.imm_state.values[i] for i in range(v.imm_state.count)],
            "textures": [*range(self.sampled), *(self.sampled + t for t in v.image_mapping.tex_to_image[:self.textures])],
            "branch_stack": v.branchstack, "private_bytes": v.pvtmem_size, "shared_bytes": v.shared_size,
            "max_reg": v.info.max_reg, "max_half_reg": v.info.max_half_reg,
            "merged_registers": v.mergedregs, "double_waves": v.info.double_threadsize, "group_count": self.group_count,
            "work_group_id": v.cs.work_group_id, "local_invocation_id": v.cs.local_invocation_id,
            "constlen": v.constlen, "max_const_offset": consts.allocs.max_const_offset_vec4,
            "arguments_offset": ubo.range[0].offset if self.size else 0,
            "driver_params": (driver.offset_vec4, driver.size_vec4), "images": self.images,
        }
