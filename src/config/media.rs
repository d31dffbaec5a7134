//! What a request holds beside one prompt: how many texts, images, recordings, passages.

use super::Lengths;
use std::path::PathBuf;

/// Bytes of one image or recording before it is encoded: 64 MiB in base64, and more than servers
/// take.
pub const MEDIA_BYTES_MAX: u64 = 48 * 1024 * 1024;
/// Pixels of an image's longer side: what a JPEG's head can say is eight times that.
pub const IMAGE_SIDE_MAX: u32 = 8_192;

/// The contents of each request.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    /// Texts, where the API takes several.
    pub texts: u32,
    /// Images, where they are wanted.
    pub images: Option<ImageSpec>,
    /// Recordings, where they are wanted.
    pub audios: Option<AudioSpec>,
    /// Of a ranking.
    pub ranking: Option<RankingSpec>,
}

impl Default for Contents {
    fn default() -> Contents {
        Contents {
            texts: 1,
            images: None,
            audios: None,
            ranking: None,
        }
    }
}

/// How images are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFormat {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// Either, as drawn.
    Random,
}

/// What images show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// Random bytes: no encoding makes them smaller.
    Noise,
    /// Gradients, in the place of AIPerf's pictures.
    Gradients,
    /// PNG and JPEG files of a folder, in the order of their names.
    Folder(PathBuf),
}

/// Which of a folder's pictures come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceOrder {
    /// Any, each time.
    Random,
    /// All in a random order, then all again in another.
    Shuffle,
    /// By their names.
    Sequential,
}

/// Images of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageSpec {
    /// Per request, at least 1.
    pub count: u32,
    /// Width and height in pixels; absent for a folder's own.
    pub size: Option<(Lengths, Lengths)>,
    /// Encoding.
    pub format: ImageFormat,
    /// Content.
    pub source: ImageSource,
    /// Of a folder's.
    pub order: SourceOrder,
}

/// Recordings of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct AudioSpec {
    /// Per request, at least 1.
    pub count: u32,
    /// Length in seconds.
    pub seconds: Lengths,
    /// Bits per sample: 8, 16, 24 or 32; one is drawn.
    pub depths: Vec<u16>,
    /// Samples per second; one is drawn.
    pub rates_hz: Vec<u32>,
    /// 1 or 2.
    pub channels: u16,
}

impl AudioSpec {
    /// Of the largest that may be drawn at the mean length.
    pub fn bytes_mean(&self) -> f64 {
        let rate = self.rates_hz.iter().max().copied().unwrap_or(0);
        let depth = self.depths.iter().max().copied().unwrap_or(0);
        self.seconds.mean * f64::from(rate) * f64::from(depth / 8) * f64::from(self.channels)
    }
}

/// Passages and query of a ranking.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankingSpec {
    /// Passages per request.
    pub passages: Lengths,
    /// Tokens of a passage.
    pub passage: Lengths,
    /// Tokens of the query.
    pub query: Lengths,
}
