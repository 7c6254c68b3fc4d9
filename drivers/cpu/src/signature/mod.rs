//! Argument layouts from C declarations.
//!
//! A kernel's signature is the text of the fields of its argument block, as `HCQ_KERNEL` of `hcq.h` keeps it beside the
//! kernel: `float a; const float *x; float *y; uint32_t n;`. Fields have C's layout: natural alignment, in order.
//! A buffer takes 8 bytes, as a device address does and a pointer on 64-bit machines.
//!
//! ```
//! use hcq_cpu::signature::{self, ScalarType};
//! use hcq_nostd::args::{ArgKind, ArgSlot};
//!
//! let mut slots = [ArgSlot::buffer(0); 8];
//! let layout = signature::parse("float a; const float *x; float *y; uint32_t n;", &mut slots)?;
//! assert_eq!((layout.slots.len(), layout.size, layout.align), (4, 32, 8));
//! assert_eq!(layout.slots[1], ArgSlot { offset: 8, size: 8, kind: ArgKind::ConstBuffer });
//!
//! let mut arguments = signature::arguments("const float *x;");
//! let x = arguments.next().expect("one")?;
//! assert_eq!((x.name, x.ty, x.slot.kind), ("x", Some(ScalarType::F32), ArgKind::ConstBuffer));
//! # Ok::<(), signature::SignatureError>(())
//! ```

use hcq_nostd::args::{ArgKind, ArgLayout, ArgSlot};

/// A number's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(missing_docs, reason = "Rust's own names")]
pub enum ScalarType {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

impl ScalarType {
    /// Bytes, and alignment.
    pub const fn size(self) -> u32 {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Rust's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    const fn of(signed: bool, size: u32) -> Option<Self> {
        Some(match (signed, size) {
            (true, 1) => Self::I8,
            (false, 1) => Self::U8,
            (true, 2) => Self::I16,
            (false, 2) => Self::U16,
            (true, 4) => Self::I32,
            (false, 4) => Self::U32,
            (true, 8) => Self::I64,
            (false, 8) => Self::U64,
            _ => return None,
        })
    }
}

/// One argument of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument<'t> {
    /// The field's name.
    pub name: &'t str,
    /// Its place in the block.
    pub slot: ArgSlot,
    /// The number's type, or the element type of a buffer; `None` for `void *`.
    pub ty: Option<ScalarType>,
}

/// Why a text is no signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum SignatureError {
    /// A type that is none of C's arithmetic types of fixed size.
    Type {
        /// Byte position in the text.
        at: usize,
    },
    /// A declaration that is not `type name` or `type *name`.
    Declaration {
        /// Byte position in the text.
        at: usize,
    },
    /// More arguments than there is memory for.
    TooMany {
        /// How many there is memory for.
        have: usize,
    },
}

impl core::fmt::Display for SignatureError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Type { at } => write!(f, "unknown type at byte {at} of the signature"),
            Self::Declaration { at } => {
                write!(f, "not a plain declaration at byte {at} of the signature")
            }
            Self::TooMany { have } => write!(f, "more than {have} arguments"),
        }
    }
}

impl core::error::Error for SignatureError {}

/// Parses a signature into the caller's slots.
///
/// # Errors
/// [`SignatureError`].
pub fn parse<'s>(text: &str, slots: &'s mut [ArgSlot]) -> Result<ArgLayout<'s>, SignatureError> {
    let have = slots.len();
    let mut all = arguments(text);
    let mut count = 0usize;
    for argument in all.by_ref() {
        *slots
            .get_mut(count)
            .ok_or(SignatureError::TooMany { have })? = argument?.slot;
        count += 1;
    }
    let size = all.layout.end.checked_next_multiple_of(all.layout.align);
    let size = size.ok_or(SignatureError::TooMany { have })?;
    Ok(ArgLayout {
        slots: slots.get(..count).unwrap_or_default(),
        size,
        align: all.layout.align,
    })
}

/// The arguments of a signature, in order. Ends after the first error.
pub fn arguments(text: &str) -> Arguments<'_> {
    Arguments {
        lexer: Lexer { text, at: 0 },
        base: None,
        layout: Layout { end: 0, align: 1 },
        failed: false,
    }
}

/// See [`arguments`].
#[derive(Clone, Debug)]
pub struct Arguments<'t> {
    lexer: Lexer<'t>,
    /// The type of a declaration with further names: `float *x, *y;`.
    base: Option<Base>,
    layout: Layout,
    failed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Layout {
    end: u32,
    align: u32,
}

/// A type without its pointers.
#[derive(Clone, Copy, Debug)]
struct Base {
    ty: Option<ScalarType>,
    is_const: bool,
}

impl<'t> Iterator for Arguments<'t> {
    type Item = Result<Argument<'t>, SignatureError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.declaration().transpose();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

impl<'t> Arguments<'t> {
    fn declaration(&mut self) -> Result<Option<Argument<'t>>, SignatureError> {
        let base = match self.base.take() {
            Some(base) => base,
            None => match self.base_type()? {
                Some(base) => base,
                None => return Ok(None),
            },
        };
        let (mut at, mut token) = self.lexer.next();
        let mut pointers = 0u32;
        let mut is_const = base.is_const;
        while let Some("*" | "const" | "restrict" | "__restrict" | "__restrict__" | "volatile") =
            token
        {
            if token == Some("*") {
                // What a pointer to pointers leads to is written through, for all that is known.
                is_const &= pointers == 0;
                pointers += 1;
            } else if pointers == 0 && token == Some("const") {
                is_const = true;
            }
            (at, token) = self.lexer.next();
        }
        let declaration = SignatureError::Declaration { at };
        let name = token.filter(|t| t.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'));
        let name = name.ok_or(declaration)?;
        match self.lexer.next() {
            (_, Some(",")) => self.base = Some(base),
            (_, Some(";") | None) => {}
            (at, _) => return Err(SignatureError::Declaration { at }),
        }
        let (size, kind, ty) = match (pointers, base.ty) {
            (0, Some(ty)) => (ty.size(), ArgKind::Scalar, Some(ty)),
            (0, None) => return Err(declaration),
            (1, ty) => (
                8,
                if is_const {
                    ArgKind::ConstBuffer
                } else {
                    ArgKind::Buffer
                },
                ty,
            ),
            (_, _) => (8, ArgKind::Buffer, None),
        };
        let too_many = SignatureError::TooMany { have: usize::MAX };
        let offset = self
            .layout
            .end
            .checked_next_multiple_of(size)
            .ok_or(too_many)?;
        self.layout.end = offset.checked_add(size).ok_or(too_many)?;
        self.layout.align = self.layout.align.max(size);
        Ok(Some(Argument {
            name,
            slot: ArgSlot { offset, size, kind },
            ty,
        }))
    }

    /// The words of a type, in any order that C allows; `None` at the end of the text.
    fn base_type(&mut self) -> Result<Option<Base>, SignatureError> {
        let mut words = Words::default();
        let mut first = None;
        loop {
            let before = self.lexer.clone();
            let (at, token) = self.lexer.next();
            first.get_or_insert(at);
            let Some(token) = token else {
                return if words.any {
                    Err(SignatureError::Declaration { at })
                } else {
                    Ok(None)
                };
            };
            if token == ";" && !words.any {
                // An empty declaration.
                first = None;
                continue;
            }
            if !words.take(token) {
                // The declarator's.
                self.lexer = before;
                break;
            }
        }
        let ty = words.ty().ok_or(SignatureError::Type {
            at: first.unwrap_or(0),
        })?;
        Ok(Some(Base {
            ty,
            is_const: words.is_const,
        }))
    }
}

/// The words of a C type that were seen.
#[derive(Clone, Copy, Debug, Default)]
struct Words {
    any: bool,
    is_const: bool,
    signed: bool,
    unsigned: bool,
    char: bool,
    short: bool,
    int: bool,
    long: u8,
    float: bool,
    double: bool,
    void: bool,
    named: Option<ScalarType>,
}

impl Words {
    /// Whether the token is part of the type, and notes it.
    fn take(&mut self, token: &str) -> bool {
        match token {
            "const" => self.is_const = true,
            "volatile" => {}
            "signed" => self.signed = true,
            "unsigned" => self.unsigned = true,
            "char" => self.char = true,
            "short" => self.short = true,
            "int" => self.int = true,
            "long" => self.long = self.long.saturating_add(1),
            "float" => self.float = true,
            "double" => self.double = true,
            "void" => self.void = true,
            _ => match named(token) {
                Some(ty) if self.named.is_none() => self.named = Some(ty),
                _ => return false,
            },
        }
        self.any = true;
        true
    }

    /// The type; `Some(None)` is `void`.
    fn ty(self) -> Option<Option<ScalarType>> {
        let integer =
            self.signed || self.unsigned || self.char || self.short || self.int || self.long > 0;
        let kinds = [
            integer,
            self.float,
            self.double,
            self.void,
            self.named.is_some(),
        ];
        if kinds.iter().filter(|k| **k).count() != 1 || (self.signed && self.unsigned) {
            return None;
        }
        if let Some(ty) = self.named {
            return Some(Some(ty));
        }
        if self.float || self.double || self.void {
            let float = if self.float {
                Some(ScalarType::F32)
            } else {
                self.double.then_some(ScalarType::F64)
            };
            return Some(float);
        }
        // `long` is the size of a pointer on every system that this device runs on; `long long` is 64 bits everywhere.
        let size = match (self.char, self.short, self.long, self.int) {
            (true, false, 0, false) => 1,
            (false, true, 0, _) => 2,
            (false, false, 0, _) => 4,
            (false, false, 1, _) => size_of::<usize>() as u32,
            (false, false, 2, _) => 8,
            _ => return None,
        };
        // Plain `char` is signed or not; as a byte it is the same.
        ScalarType::of(!self.unsigned, size).map(Some)
    }
}

fn named(token: &str) -> Option<ScalarType> {
    Some(match token {
        "int8_t" => ScalarType::I8,
        "int16_t" => ScalarType::I16,
        "int32_t" => ScalarType::I32,
        "int64_t" => ScalarType::I64,
        "uint8_t" | "bool" | "_Bool" => ScalarType::U8,
        "uint16_t" => ScalarType::U16,
        "uint32_t" => ScalarType::U32,
        "uint64_t" => ScalarType::U64,
        "size_t" | "uintptr_t" => ScalarType::of(false, size_of::<usize>() as u32)?,
        _ => return None,
    })
}

/// Identifiers and single characters.
#[derive(Clone, Debug)]
struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    /// The next token and its byte position; no token at the end.
    fn next(&mut self) -> (usize, Option<&'t str>) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let trimmed = rest.trim_start();
        let start = self.text.len() - trimmed.len();
        let Some(first) = trimmed.chars().next() else {
            self.at = self.text.len();
            return (start, None);
        };
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let len = if is_word(first) {
            trimmed.find(|c| !is_word(c)).unwrap_or(trimmed.len())
        } else {
            first.len_utf8()
        };
        self.at = start + len;
        (start, trimmed.get(..len))
    }
}

#[cfg(test)]
mod tests;
