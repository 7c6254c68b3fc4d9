//! Programs of Mesa's ir3 compiler in a file.
//!
//! The compiler makes instructions without a container. A bundle puts what it says of them in front, as text, so that a
//! driver's build or a person can write one (`cat header.txt code.bin`). A file holds one program after the other:
//!
//! ```text
//! hcq-ir3 1
//! kernel add
//! chip 630
//! arguments const float *a; const float *b; float *out; uint32_t n;
//! max_reg 6
//! work_group_id 0xc0
//! local_invocation_id 0
//! constlen 4
//! code 384
//! ```
//!
//! and behind the line `code`, which is the last, as many bytes of instructions. Numbers are decimal, or hexadecimal behind `0x`.
//! `chip` is the number of the chip that the program was compiled for; others refuse it, and without the line all take it. All
//! lines but these and `kernel`, `arguments` and `code` are fields of [`Variant`], and may be left out where that is
//! what [`Variant::EMPTY`] has; lists (`immediates`, `textures`) and pairs (`driver_params`) are numbers with spaces between
//! them. Arguments are the fields of a C struct, as of [`Device::register`](crate::Device::register); an image is
//! `texture name;` or `storage name;`, with `float`, `int` or `uint` in between if that is what the program has all texels as;
//! a sampler is `sampler name;`. The first of the samplers is in the first sampler register, and so on.

use std::fmt;

use hcq_cpu::signature;
use hcq_nostd::args::ArgKind;
use hcq_qcom::image::{DESCRIPTOR_BYTES, SAMPLER_BYTES};
use hcq_qcom::ir3::Variant;

use crate::image2d::TexelKind;
use crate::program::{ArgInfo, ImageParam};

/// What a bundle starts with.
const MAGIC: &[u8] = b"hcq-ir3 1\n";
/// Most programs, arguments, and bytes of a header's line.
const MOST_PROGRAMS: usize = 4096;
const MOST_ARGUMENTS: usize = 1024;
const MOST_LINE: usize = 64 << 10;

/// A program.
#[derive(Debug)]
pub(super) struct Shader {
    pub(super) name: String,
    /// The number of the chip that it was compiled for.
    pub(super) chip: Option<u16>,
    pub(super) arguments: Box<[ArgInfo]>,
    /// Fields without lists and instructions.
    pub(super) facts: Variant<'static>,
    pub(super) immediates: Box<[u32]>,
    pub(super) textures: Box<[u8]>,
    pub(super) code: Box<[u8]>,
}

impl Shader {
    /// As the driver takes it.
    pub(super) fn variant(&self) -> Variant<'_> {
        Variant {
            code: &self.code,
            immediates: &self.immediates,
            textures: &self.textures,
            ..self.facts
        }
    }
}

/// Why a file is no bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BundleError {
    line: usize,
    reason: String,
}

impl fmt::Display for BundleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of its headers: {}", self.line, self.reason)
    }
}

/// Whether a file is one.
pub(super) fn is_bundle(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The programs of a file.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<Shader>, BundleError> {
    let mut reader = Reader {
        rest: bytes.get(MAGIC.len()..).unwrap_or_default(),
        line: 1,
    };
    let mut shaders: Vec<Shader> = Vec::new();
    while !reader.rest.is_empty() {
        if shaders.len() >= MOST_PROGRAMS {
            return Err(reader.failed(format!("more than {MOST_PROGRAMS} programs")));
        }
        let shader = reader.shader()?;
        if shaders.iter().any(|s| s.name == shader.name) {
            return Err(reader.failed(format!("kernel {} is there twice", shader.name)));
        }
        shaders.push(shader);
    }
    if shaders.is_empty() {
        return Err(reader.failed("no kernel"));
    }
    Ok(shaders)
}

struct Reader<'b> {
    rest: &'b [u8],
    line: usize,
}

impl<'b> Reader<'b> {
    fn failed(&self, reason: impl Into<String>) -> BundleError {
        BundleError {
            line: self.line,
            reason: reason.into(),
        }
    }

    /// The next line: its first word, and what follows.
    fn line(&mut self) -> Result<(&'b str, &'b str), BundleError> {
        self.line += 1;
        let near = self
            .rest
            .get(..self.rest.len().min(MOST_LINE))
            .unwrap_or_default();
        let end = near.iter().position(|b| *b == b'\n');
        let end = end.ok_or_else(|| self.failed("it does not end; `code` is the last one"))?;
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.get(1..).unwrap_or_default();
        let line = std::str::from_utf8(line).map_err(|_| self.failed("it is no text"))?;
        let line = line.trim();
        Ok(line
            .split_once(' ')
            .map_or((line, ""), |(a, b)| (a, b.trim())))
    }

    fn number<T: TryFrom<i64>>(&self, text: &str) -> Result<T, BundleError> {
        let parsed = match text.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        let parsed = parsed.ok().and_then(|n| T::try_from(n).ok());
        parsed.ok_or_else(|| self.failed(format!("`{text}` is no number that this field can have")))
    }

    fn list<T: TryFrom<i64>>(&self, text: &str) -> Result<Box<[T]>, BundleError> {
        text.split_ascii_whitespace()
            .map(|n| self.number(n))
            .collect()
    }

    fn flag(&self, text: &str) -> Result<bool, BundleError> {
        match text {
            "0" | "false" => Ok(false),
            "1" | "true" => Ok(true),
            other => Err(self.failed(format!("`{other}` is neither 0 nor 1"))),
        }
    }

    fn shader(&mut self) -> Result<Shader, BundleError> {
        let (word, name) = self.line()?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if word != "kernel" || name.is_empty() || !name.chars().all(is_name) {
            return Err(self.failed("`kernel` and a name are first"));
        }
        let mut shader = Shader {
            name: name.to_owned(),
            chip: None,
            arguments: Box::new([]),
            facts: Variant::EMPTY,
            immediates: Box::new([]),
            textures: Box::new([]),
            code: Box::new([]),
        };
        let mut seen: Vec<&str> = Vec::new();
        loop {
            let (field, value) = self.line()?;
            if seen.contains(&field) {
                return Err(self.failed(format!("`{field}` is there twice")));
            }
            seen.push(field);
            let facts = &mut shader.facts;
            match field {
                "chip" => shader.chip = Some(self.number(value)?),
                "arguments" => shader.arguments = self.arguments(value)?,
                "branch_stack" => facts.branch_stack = self.number(value)?,
                "private_bytes" => facts.private_bytes = self.number(value)?,
                "shared_bytes" => facts.shared_bytes = self.number(value)?,
                "max_reg" => facts.max_reg = self.number(value)?,
                "max_half_reg" => facts.max_half_reg = self.number(value)?,
                "merged_registers" => facts.merged_registers = self.flag(value)?,
                "double_waves" => facts.double_waves = self.flag(value)?,
                "group_count" => facts.group_count = self.flag(value)?,
                "work_group_id" => facts.work_group_id = self.number(value)?,
                "local_invocation_id" => facts.local_invocation_id = self.number(value)?,
                "constlen" => facts.constlen = self.number(value)?,
                "max_const_offset" => facts.max_const_offset = self.number(value)?,
                "arguments_offset" => facts.arguments_offset = self.number(value)?,
                "driver_params" => match &*self.list(value)? {
                    [offset, size] => facts.driver_params = (*offset, *size),
                    _ => return Err(self.failed("driver_params are two numbers")),
                },
                "immediates" => shader.immediates = self.list(value)?,
                "textures" => shader.textures = self.list(value)?,
                "code" => {
                    let bytes: u32 = self.number(value)?;
                    let code = self.rest.get(..bytes as usize);
                    let code = code.ok_or_else(|| {
                        self.failed(format!(
                            "{bytes} bytes of code, and {} are left",
                            self.rest.len()
                        ))
                    })?;
                    shader.code = code.into();
                    self.rest = self.rest.get(bytes as usize..).unwrap_or_default();
                    return Ok(shader);
                }
                other => return Err(self.failed(format!("there is no field `{other}`"))),
            }
        }
    }

    fn arguments(&self, text: &str) -> Result<Box<[ArgInfo]>, BundleError> {
        let mut infos = Vec::new();
        for field in text.split(';').map(str::trim).filter(|f| !f.is_empty()) {
            if infos.len() >= MOST_ARGUMENTS {
                return Err(self.failed(format!("more than {MOST_ARGUMENTS} arguments")));
            }
            if let Some((name, image)) = image(field) {
                let is_sampler = image == ImageParam::Sampler;
                infos.push(ArgInfo {
                    name: name.to_owned(),
                    kind: ArgKind::Bytes,
                    ty: None,
                    size: if is_sampler {
                        SAMPLER_BYTES
                    } else {
                        DESCRIPTOR_BYTES
                    },
                    read_only: !matches!(image, ImageParam::Storage(_)),
                    size_only: false,
                    image: Some(image),
                });
                continue;
            }
            for argument in signature::arguments(&format!("{field};")) {
                let a = argument.map_err(|e| self.failed(format!("{e}: `{field}`")))?;
                infos.push(ArgInfo {
                    name: a.name.to_owned(),
                    kind: a.slot.kind,
                    ty: a.ty,
                    size: a.slot.size,
                    read_only: a.slot.kind != ArgKind::Buffer,
                    size_only: false,
                    image: None,
                });
            }
        }
        Ok(infos.into())
    }
}

/// An argument that is an image or a sampler, and its name.
fn image(field: &str) -> Option<(&str, ImageParam)> {
    let mut words = field.split_ascii_whitespace();
    let (what, second, third) = (words.next()?, words.next()?, words.next());
    let kinds = [TexelKind::Float, TexelKind::Int, TexelKind::Uint];
    let (name, kind) = match third {
        Some(name) => (name, Some(kinds.into_iter().find(|k| k.name() == second)?)),
        None => (second, None),
    };
    let image = match (what, kind) {
        ("texture", kind) => ImageParam::Texture(kind),
        ("storage", kind) => ImageParam::Storage(kind),
        ("sampler", None) => ImageParam::Sampler,
        _ => return None,
    };
    words.next().is_none().then_some((name, image))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "hcq-ir3 1\nkernel add\narguments const float *a; uint32_t n; texture t; storage uint s; sampler p;\nmax_reg 6\n\
                       work_group_id 0xc0\nlocal_invocation_id 0\nconstlen 4\nimmediates 1 0x20\ntextures 0\n\
                       driver_params 4 8\nmerged_registers 1\ncode 8\n";

    fn file(text: &str, code: &[u8]) -> Vec<u8> {
        [text.as_bytes(), code].concat()
    }

    #[test]
    fn programs_are_read() {
        let mut bytes = file(ONE, b"12345678");
        bytes.extend(file("kernel empty\ncode 16\n", &[7; 16]));
        assert!(is_bundle(&bytes));
        let shaders = parse(&bytes).expect("two programs");
        let [add, empty] = &*shaders else {
            panic!("{shaders:?}")
        };
        assert_eq!((&*add.name, &*add.code), ("add", b"12345678".as_slice()));
        assert_eq!(
            add.variant(),
            Variant {
                code: b"12345678",
                max_reg: 6,
                work_group_id: 0xc0,
                local_invocation_id: 0,
                constlen: 4,
                immediates: &[1, 0x20],
                textures: &[0],
                driver_params: (4, 8),
                merged_registers: true,
                ..Variant::EMPTY
            }
        );
        let kinds: Vec<_> = add
            .arguments
            .iter()
            .map(|a| (&*a.name, a.kind, a.size))
            .collect();
        assert_eq!(
            kinds,
            [
                ("a", ArgKind::ConstBuffer, 8),
                ("n", ArgKind::Scalar, 4),
                ("t", ArgKind::Bytes, 64),
                ("s", ArgKind::Bytes, 64),
                ("p", ArgKind::Bytes, 16),
            ]
        );
        let images: Vec<_> = add.arguments.iter().map(|a| a.image).collect();
        let storage = ImageParam::Storage(Some(TexelKind::Uint));
        let [texture, storage] = [ImageParam::Texture(None), storage].map(Some);
        assert_eq!(
            images,
            [None, None, texture, storage, Some(ImageParam::Sampler)]
        );
        assert_eq!(
            empty.variant(),
            Variant {
                code: &[7; 16],
                ..Variant::EMPTY
            }
        );
    }

    #[test]
    fn the_test_programs_are_read() {
        for file in [
            &include_bytes!("../../../tests/conformance/kernels/qcom/stock-a630.ir3")[..],
            include_bytes!("../../../tests/conformance/kernels/qcom/stock-a650.ir3"),
            include_bytes!("../../../tests/conformance/kernels/qcom/stock-a660.ir3"),
        ] {
            let shaders = parse(file).expect("programs");
            assert_eq!(shaders.len(), 17);
            for shader in &shaders {
                let variant = shader.variant();
                assert!(variant.code.len().is_multiple_of(128), "{}", shader.name);
                assert_eq!(variant.group_count, shader.name == "dims");
                assert!(variant.kernel(0x5_2000_0000).is_ok(), "{}", shader.name);
            }
            let copy = shaders.iter().find(|s| s.name == "copy_image");
            let copy = copy.expect("there");
            assert_eq!(copy.arguments.len(), 4);
            let words: Vec<_> = copy.arguments.iter().map(ToString::to_string).collect();
            assert_eq!(words[..2], ["texture float in", "storage float out"]);
            assert_eq!(*copy.textures, [0]);
        }
    }

    #[test]
    fn what_is_no_bundle_is_refused_with_the_line() {
        assert!(!is_bundle(b"hcq-ir3 2\n") && !is_bundle(b"\x7fELF"));
        for (text, line, reason) in [
            ("", 1, "no kernel"),
            ("code 8\n", 2, "`kernel` and a name are first"),
            ("kernel a b\n", 2, "`kernel` and a name are first"),
            (
                "kernel a\ncode 9\n12345678",
                3,
                "9 bytes of code, and 8 are left",
            ),
            (
                "kernel a\nmax_reg\ncode 0\n",
                3,
                "`` is no number that this field can have",
            ),
            (
                "kernel a\nmax_reg 40000\n",
                3,
                "`40000` is no number that this field can have",
            ),
            (
                "kernel a\nmax_reg 1\nmax_reg 2\n",
                4,
                "`max_reg` is there twice",
            ),
            ("kernel a\nregs 1\n", 3, "there is no field `regs`"),
            (
                "kernel a\ndriver_params 1\n",
                3,
                "driver_params are two numbers",
            ),
            (
                "kernel a\nmerged_registers 2\n",
                3,
                "`2` is neither 0 nor 1",
            ),
            (
                "kernel a\nconstlen 1",
                3,
                "it does not end; `code` is the last one",
            ),
            (
                "kernel a\ncode 1\nxkernel a\ncode 0\n",
                5,
                "kernel a is there twice",
            ),
        ] {
            let error = parse(&file(&format!("hcq-ir3 1\n{text}"), b"")).expect_err(text);
            assert_eq!((error.line, &*error.reason), (line, reason), "{text:?}");
        }
        let error = parse(b"hcq-ir3 1\nkernel a\narguments struct s x;\n").expect_err("a struct");
        assert!(error.reason.ends_with("`struct s x`"), "{error}");
        for field in [
            "texture half t",
            "sampler float s",
            "texture",
            "storage int s t",
        ] {
            let text = format!("hcq-ir3 1\nkernel a\narguments {field};\n");
            let error = parse(text.as_bytes()).expect_err(field);
            assert_eq!(error.line, 3, "{error}");
        }
        let error = parse(b"hcq-ir3 1\nkernel \xff\n").expect_err("no text");
        assert_eq!(error.to_string(), "line 2 of its headers: it is no text");
    }

    #[test]
    fn no_file_is_a_panic() {
        let whole = file(ONE, b"12345678");
        for cut in 0..whole.len() {
            let _ = parse(&whole[..cut]);
        }
        for at in MAGIC.len()..whole.len() {
            for byte in [0, b'\n', b' ', b'0', b';', 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = byte;
                let _ = parse(&bytes);
            }
        }
    }
}
