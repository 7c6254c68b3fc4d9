//! The interfaces' descriptions as data, and the macros that make a struct and its description from one text.

/// A struct: its C name and where its fields lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Struct {
    /// The C name, without `struct`.
    pub name: &'static str,
    /// Bytes.
    pub size: usize,
    /// Alignment, bytes.
    pub align: usize,
    /// In the order of memory.
    pub fields: &'static [Field],
    /// The request whose argument this is.
    pub request: Option<Request>,
}

/// A field of a [`Struct`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The C name.
    pub name: &'static str,
    /// Bytes from the struct's start.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

/// The request of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The C name.
    pub name: &'static str,
    /// The whole number.
    pub number: u32,
}

/// A named number: its C name and value. Values of C's signed `1 << 31` are those 32 bits, not the sign-extended number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    /// The C name.
    pub name: &'static str,
    /// The value.
    pub value: u64,
}

/// Structs of C, their requests, and `STRUCTS` with all of them.
macro_rules! structs {
    ($($(#[$doc:meta])* $name:ident $(: $dir:ident($letter:expr, $number:literal) $request:ident)? {
        $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)]
            #[repr(C)]
            #[allow(non_camel_case_types, non_snake_case, reason = "the C header's names")]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $type,)*
            }

            impl Default for $name {
                /// All zero.
                fn default() -> Self {
                    zerocopy::FromZeros::new_zeroed()
                }
            }
            $(
                #[doc = concat!("The request of [`", stringify!($name), "`], number ", stringify!($number), ".")]
                pub const $request: u32 = $crate::ioctl::$dir($letter, $number, size_of::<$name>());

                impl $crate::ioctl::Argument for $name {
                    const NAME: &'static str = stringify!($request);
                    const REQUEST: u32 = $request;
                }
            )?
        )*

        pub(super) const STRUCTS: &[$crate::layout::Struct] = &[$(
            $crate::layout::Struct {
                name: stringify!($name),
                size: size_of::<$name>(),
                align: align_of::<$name>(),
                fields: &[$($crate::layout::Field {
                    name: $crate::layout::plain(stringify!($field)),
                    offset: core::mem::offset_of!($name, $field),
                    size: $crate::layout::field_size(|s: &$name| &s.$field),
                },)*],
                request: structs!(@request $($request)?),
            },
        )*];
    };
    (@request) => { None };
    (@request $request:ident) => {
        Some($crate::layout::Request { name: stringify!($request), number: $request })
    };
}

/// Numbers of C, and `CONSTANTS` with all of them.
macro_rules! constants {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[$doc])* pub const $name: $type = $value;)*

        pub(super) const CONSTANTS: &[$crate::layout::Constant] = &[$(
            $crate::layout::Constant { name: stringify!($name), value: $name as u64 },
        )*];
    };
}

/// Bits of C that share a prefix, as one type, and `FLAGS` of that type with all of them. Bits without a name are kept.
macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $prefix:literal {
        $($(#[doc = $bit_doc:literal])* $bit:ident = $value:expr;)*
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
            #[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)]
            #[repr(transparent)]
            pub struct $name($type);

            bitflags::bitflags! {
                impl $name: $type {
                    $($(#[doc = $bit_doc])* const $bit = $value;)*
                    const _ = !0;
                }
            }

            impl core::fmt::Debug for $name {
                fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                    f.write_str(concat!(stringify!($name), "("))?;
                    bitflags::parser::to_writer(self, &mut *f)?;
                    f.write_str(")")
                }
            }
        )*

        pub(super) const FLAGS: &[$crate::layout::Constant] = &[$($(
            $crate::layout::Constant {
                name: concat!($prefix, stringify!($bit)),
                value: $name::$bit.bits() as u64,
            },
        )*)*];
    };
}

pub(crate) use {constants, flags, structs};

/// A field's C name: what Rust must escape (`r#type`) is plain in C.
pub(crate) const fn plain(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// The size of what `_field` picks from a struct.
pub(crate) const fn field_size<S, F>(_field: fn(&S) -> &F) -> usize {
    size_of::<F>()
}
