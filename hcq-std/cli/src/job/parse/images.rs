//! Images and samplers among the arguments of a kernel.

use hcq_std::{BorderColor, Filter, Sampling, TexelFormat, Wrap};
use toml::de::DeValue;

use super::Checker;
use crate::failure::Located;
use crate::job::source::{Node, nearest};
use crate::job::{Argument, ImageDecl, ViewDecl};

/// Words of a job file, and what they mean.
type Words<T> = &'static [(&'static str, T)];

const WRAPS: Words<Wrap> = &[
    ("repeat", Wrap::Repeat),
    ("mirror-repeat", Wrap::MirrorRepeat),
    ("clamp-to-edge", Wrap::ClampToEdge),
    ("clamp-to-border", Wrap::ClampToBorder),
];
const FILTERS: Words<Filter> = &[("nearest", Filter::Nearest), ("linear", Filter::Linear)];
const BORDERS: Words<BorderColor> = &[
    ("transparent-black", BorderColor::TransparentBlack),
    ("opaque-black", BorderColor::OpaqueBlack),
    ("opaque-white", BorderColor::OpaqueWhite),
];

impl Checker {
    /// `{ image = "texels", format = "rgba8unorm", width = 100, height = 30 }`
    pub(super) fn image(&mut self, node: &Node<'_, '_>) -> Option<Argument> {
        const KNOWN: &[&str] = &["image", "format", "width", "height", "pitch", "offset"];
        let fields = self.reader.fields(node, KNOWN)?;
        let buffer = self.reader.need(&fields, "image").cloned().and_then(|n| {
            let name = self.reader.string(&n)?;
            self.buffer_named(&n.at, name)
        });
        let format = self.reader.need(&fields, "format").cloned();
        let format = format.and_then(|n| {
            let name = self.reader.string(&n)?;
            let found = name.parse::<TexelFormat>();
            if found.is_err() {
                let mut names = TexelFormat::ALL.iter().map(|f| f.name());
                let help = match nearest(name, names.clone()) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("formats: {}", names.by_ref().collect::<Vec<_>>().join(", ")),
                };
                self.reader
                    .fail_help(&n.at, format!("{name:?} is no format of texels"), help);
            }
            found.ok()
        });
        let mut size = |key: &str| {
            let node = self.reader.need(&fields, key)?.clone();
            let size = self.reader.whole(&node, 1, u32::MAX.into())?;
            u32::try_from(size).ok()
        };
        let (width, height) = (size("width"), size("height"));
        let pitch = match fields.get("pitch") {
            Some(_) => size("pitch").map(Some),
            None => Some(None),
        };
        let offset = match fields.get("offset") {
            Some(n) => self.reader.whole(n, 0, u64::MAX).map(|value| {
                Some(Located {
                    value,
                    at: n.at.clone(),
                })
            }),
            None => Some(None),
        };
        Some(Argument::Image(Box::new(ImageDecl {
            view: ViewDecl {
                buffer: buffer?,
                offset: offset?,
                len: None,
                at: node.at.clone(),
            },
            format: format?,
            width: width?,
            height: height?,
            pitch: pitch?,
        })))
    }

    /// `{ sampler = { wrap = "repeat", filter = "linear", normalized = true, border = "opaque-white" } }`
    pub(super) fn sampler(&mut self, node: &Node<'_, '_>) -> Option<Argument> {
        let fields = self.reader.fields(node, &["sampler"])?;
        let node = self.reader.need(&fields, "sampler")?.clone();
        let fields = self
            .reader
            .fields(&node, &["wrap", "filter", "normalized", "border"])?;
        let mut sampling = Sampling::default();
        if let Some(node) = fields.get("wrap") {
            sampling.wrap = match node.value {
                DeValue::Array(_) => {
                    let items = self.reader.array(node)?;
                    let [columns, rows] = items.as_slice() else {
                        let what = "expected two words: for columns and for rows";
                        self.reader.fail(&node.at, what);
                        return None;
                    };
                    [self.word(columns, WRAPS)?, self.word(rows, WRAPS)?]
                }
                _ => [self.word(node, WRAPS)?; 2],
            };
        }
        if let Some(node) = fields.get("filter") {
            sampling.filter = self.word(node, FILTERS)?;
        }
        if let Some(node) = fields.get("normalized") {
            sampling.normalized = self.reader.truth(node)?;
        }
        if let Some(node) = fields.get("border") {
            sampling.border = self.word(node, BORDERS)?;
        }
        Some(Argument::Sampler(sampling))
    }

    fn word<T: Copy>(&mut self, node: &Node<'_, '_>, words: Words<T>) -> Option<T> {
        let name = self.reader.string(node)?;
        let found = words.iter().find(|(word, _)| *word == name);
        if found.is_none() {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.reader.fail_help(
                &node.at,
                format!("{name:?} is none of the words that may stand here"),
                format!("write one of {}", all.join(", ")),
            );
        }
        found.map(|(_, value)| *value)
    }
}
