//! `hcq build`, `hcq inspect`, and `hcq run` of an image: jobs that are recorded once, and launched elsewhere.
//!
//! An image names its buffers `NAME DTYPE SHAPE`, such as `y f32 64x64`, so that what it leaves can be written as arrays. A
//! name that begins with a dot is no output, although the graph may change it.

mod build;
mod inspect;
mod replay;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use build::build;
pub use inspect::inspect;
pub use replay::replay;

use crate::data::dtype::Dtype;
use crate::data::input::Input;

/// What an image's file begins with.
const MAGIC: &[u8; 4] = b"HCQG";

/// Whether a file is an image, by how it begins. One that cannot be read is none, and says why where it is opened.
pub fn is_image(path: &Path) -> bool {
    let mut first = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut first));
    read.is_ok() && &first == MAGIC
}

/// The name of a job's buffer in an image. What tasks may change and the job does not keep is hidden, by a dot.
pub(crate) fn buffer_name(name: &str, input: &Input, is_shown: bool) -> String {
    let shaped = Shaped {
        name: name.to_owned(),
        dtype: input.dtype,
        shape: input.shape.clone(),
    };
    let text = shaped.text();
    if is_shown { text } else { format!(".{text}") }
}

/// A buffer's name, element type and shape.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shaped {
    name: String,
    dtype: Dtype,
    shape: Vec<u64>,
}

impl Shaped {
    /// The name that the image has.
    fn text(&self) -> String {
        let shape: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        let shape = if shape.is_empty() {
            "1".to_owned()
        } else {
            shape.join("x")
        };
        format!("{} {} {shape}", self.name, self.dtype.name())
    }

    /// From such a name, for a buffer of so many bytes; others are bytes.
    fn parse(text: &str, bytes: u64) -> Self {
        let plain = || Self {
            name: text.to_owned(),
            dtype: Dtype::U8,
            shape: vec![bytes],
        };
        let mut parts = text.rsplitn(3, ' ');
        let (Some(shape), Some(dtype), Some(name)) = (parts.next(), parts.next(), parts.next())
        else {
            return plain();
        };
        let shape: Option<Vec<u64>> = shape.split('x').map(|d| d.parse().ok()).collect();
        let (Some(dtype), Some(shape)) = (Dtype::from_name(dtype), shape) else {
            return plain();
        };
        let size = shape
            .iter()
            .try_fold(dtype.size(), |n, &d| n.checked_mul(d));
        if size != Some(bytes) {
            return plain();
        }
        Self {
            name: name.to_owned(),
            dtype,
            shape,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_buffers_hold() {
        let shaped = Shaped {
            name: "two words".into(),
            dtype: Dtype::F32,
            shape: vec![3, 4],
        };
        assert_eq!(shaped.text(), "two words f32 3x4");
        assert_eq!(Shaped::parse("two words f32 3x4", 48), shaped);
        for (text, bytes) in [
            ("two words f32 3x4", 47),
            ("x", 5),
            ("x f31 4", 16),
            ("x f32 4x", 16),
        ] {
            let plain = Shaped::parse(text, bytes);
            assert_eq!((plain.name.as_str(), plain.shape), (text, vec![bytes]));
        }
    }
}
