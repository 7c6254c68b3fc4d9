//! Samplers of Adreno's texture units.
//!
//! Words are those of Mesa's `a6xx.xml` (`A6XX_TEX_SAMP_*`), colours those of `bcolor_entry` of its freedreno driver: 128 bytes each,
//! which have the colour in every kind of number that texels can be.

use super::Group;
use super::texel::{Image, Kind};
use crate::engine::Cause;

/// `a6xx_tex_clamp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrap {
    Repeat,
    Edge,
    Mirror,
    Border,
}

/// A sampler of images without smaller copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sampler {
    wrap: [Wrap; 2],
    linear: bool,
    /// Coordinates count texels.
    unnormalized: bool,
    /// Its colour.
    border: u64,
}

const fn bits(value: u32, high: u32, low: u32) -> u32 {
    (value >> low) & (u32::MAX >> (31 - (high - low)))
}

impl Wrap {
    /// Which of so many texels this one is; `None` for the border.
    fn place(self, at: i64, count: u32) -> Option<u32> {
        let count = i64::from(count.max(1));
        let inside = match self {
            Self::Repeat => at.rem_euclid(count),
            Self::Edge => at.clamp(0, count - 1),
            Self::Mirror => {
                let at = at.rem_euclid(2 * count);
                at.min(2 * count - 1 - at)
            }
            Self::Border => at,
        };
        u32::try_from(inside).ok().filter(|_| inside < count)
    }
}

impl Sampler {
    /// The first sampler of a launch.
    pub(super) fn of(group: &Group<'_>) -> Result<Self, Cause> {
        let registers = group.registers.adreno();
        let words = registers.and_then(|r| r.samplers.first());
        let words = words.ok_or_else(|| Cause::Program("there is no sampler".into()))?;
        let colors = registers.and_then(|r| r.border_colors);
        let colors = colors.ok_or_else(|| Cause::Program("there are no border colours".into()))?;
        Self::read(words, colors)
    }

    fn read(words: &[u32; 4], colors: u64) -> Result<Self, Cause> {
        let [first, second, third, fourth] = *words;
        let refuse = |text: String| Err(Cause::Program(format!("sampler 0: {text}")));
        let plain = [
            ("MIPFILTER_LINEAR_NEAR", bits(first, 0, 0)),
            ("ANISO", bits(first, 16, 14)),
            ("LOD_BIAS", bits(first, 31, 19)),
            ("COMPARE_FUNC", bits(second, 3, 1)),
            ("MIN_LOD", bits(second, 31, 20)),
            ("REDUCTION_MODE", bits(third, 1, 0)),
            ("CHROMA_LINEAR", bits(third, 5, 5)),
            ("the last word", fourth),
        ];
        if let Some((name, value)) = plain.into_iter().find(|&(_, value)| value != 0) {
            return refuse(format!("{name} is {value}, which is not simulated"));
        }
        // The first level is never smaller than what is drawn: it is magnified.
        let linear = match bits(first, 2, 1) {
            0 => false,
            1 => true,
            other => return refuse(format!("XY_MAG is {other}, which is not simulated")),
        };
        let unnormalized = bits(second, 5, 5) != 0;
        let mut wrap = [Wrap::Repeat; 2];
        let fields = [
            ("WRAP_S", bits(first, 7, 5)),
            ("WRAP_T", bits(first, 10, 8)),
        ];
        for (to, (name, value)) in wrap.iter_mut().zip(fields) {
            *to = match value {
                0 if !unnormalized => Wrap::Repeat,
                1 => Wrap::Edge,
                2 if !unnormalized => Wrap::Mirror,
                3 => Wrap::Border,
                _ => {
                    return refuse(format!(
                        "{name} is {value} and UNNORM_COORDS {unnormalized}, which is not simulated"
                    ));
                }
            };
        }
        Ok(Self {
            wrap,
            linear,
            unnormalized,
            // BCOLOR counts colours of 128 bytes.
            border: colors.wrapping_add(u64::from(third & !0x7F)),
        })
    }

    /// The colour around an image, as registers have it.
    fn border(&self, group: &mut Group<'_>, image: &Image) -> Result<[u32; 4], Cause> {
        let at = match (image.kind, image.bytes) {
            (Kind::Unorm | Kind::Uint, 1) => 48,
            (Kind::Snorm | Kind::Sint, 1) => 52,
            (Kind::Unorm | Kind::Uint, 2) => 16,
            (Kind::Snorm | Kind::Sint, 2) => 24,
            (Kind::Float, 2) => 32,
            _ => 0,
        };
        let mut raw = [0; 16];
        let raw = raw.get_mut(..4 * image.bytes).unwrap_or_default();
        group.memory.load(self.border.wrapping_add(at), raw)?;
        let components = raw.chunks(image.bytes).map(|raw| image.decode(raw));
        Ok(image.completed(components))
    }

    fn texel(&self, group: &mut Group<'_>, image: &Image, at: [i64; 2]) -> Result<[u32; 4], Cause> {
        let ([x, y], [s, t]) = (at, self.wrap);
        let texel = match (s.place(x, image.width), t.place(y, image.height)) {
            (Some(x), Some(y)) => image.texel_at(group, x, y)?,
            _ => None,
        };
        match texel {
            Some(texel) => Ok(texel),
            None => self.border(group, image),
        }
    }

    /// What it makes of an image of floats at a place.
    pub(super) fn sample(
        &self,
        group: &mut Group<'_>,
        image: &Image,
        place: [f32; 2],
    ) -> Result<[u32; 4], Cause> {
        let [u, v] = place;
        let (u, v) = match self.unnormalized {
            true => (u, v),
            false => (u * image.width as f32, v * image.height as f32),
        };
        if !self.linear {
            // What is no number, or too far away, is at one of the ends.
            let texel = self.texel(group, image, [u.floor() as i64, v.floor() as i64])?;
            return Ok(image.swizzled(texel));
        }
        let (u, v) = (u - 0.5, v - 0.5);
        let (x, y) = (u.floor() as i64, v.floor() as i64);
        let (right, below) = (u - u.floor(), v - v.floor());
        let mut sum = [0.0f32; 4];
        for (dx, dy) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let weight = |far: i64, share: f32| if far == 1 { share } else { 1.0 - share };
            let share = weight(dx, right) * weight(dy, below);
            let texel = self.texel(group, image, [x.saturating_add(dx), y.saturating_add(dy)])?;
            for (sum, word) in sum.iter_mut().zip(texel) {
                *sum += share * f32::from_bits(word);
            }
        }
        Ok(image.swizzled(sum.map(f32::to_bits)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_wrap_around_an_image() {
        let row = |wrap: Wrap| (-4..8).map(|at| wrap.place(at, 3)).collect::<Vec<_>>();
        let some = |texels: [u32; 12]| texels.map(Some).to_vec();
        let repeated = some([2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1]);
        assert_eq!(row(Wrap::Repeat), repeated);
        assert_eq!(
            row(Wrap::Mirror),
            some([2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1])
        );
        assert_eq!(row(Wrap::Edge), some([0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2]));
        let border = row(Wrap::Border);
        assert_eq!(border[4..7], [Some(0), Some(1), Some(2)]);
        assert!(border[..4].iter().chain(&border[7..]).all(Option::is_none));
        for wrap in [Wrap::Repeat, Wrap::Edge, Wrap::Mirror] {
            for at in [i64::MIN, i64::MAX] {
                assert!(wrap.place(at, 3).is_some_and(|at| at < 3), "{wrap:?}");
            }
        }
        assert_eq!(Wrap::Border.place(i64::MAX, 3), None);
    }

    #[test]
    fn words_are_read_and_what_is_not_simulated_is_refused() {
        let words = [
            1 << 1 | 1 << 3 | 3 << 5 | 1 << 8,
            1 << 4 | 1 << 5,
            2 << 7,
            0,
        ];
        let sampler = Sampler::read(&words, 0x5_0000_0000).unwrap();
        let wanted = Sampler {
            wrap: [Wrap::Border, Wrap::Edge],
            linear: true,
            unnormalized: true,
            border: 0x5_0000_0100,
        };
        assert_eq!(sampler, wanted);
        for (word, bits, because) in [
            (0, 1, "MIPFILTER_LINEAR_NEAR is 1"),
            (0, 3 << 1, "XY_MAG is 2"),
            (0, 7 << 5, "WRAP_S is 4 and UNNORM_COORDS true"),
            (0, 1 << 8, "WRAP_T is 0 and UNNORM_COORDS true"),
            (0, 2 << 14, "ANISO is 2"),
            (1, 1 << 1, "COMPARE_FUNC is 1"),
            (2, 1, "REDUCTION_MODE is 1"),
            (3, 9, "the last word is 9"),
        ] {
            let mut words = words;
            words[word] ^= bits;
            let text = Sampler::read(&words, 0).unwrap_err().to_string();
            assert!(text.contains(because), "{text}");
        }
    }
}
