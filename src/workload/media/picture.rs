//! Pictures: noise, gradients, and files of a folder, as PNG or JPEG.

use super::super::draw;
use super::wav::noise;
use crate::base::{Rng, rng::Stream};
use crate::config::{
    IMAGE_SIDE_MAX, ImageFormat, ImageSource, ImageSpec, MEDIA_BYTES_MAX, SourceOrder,
};
use ::image::codecs::jpeg::JpegEncoder;
use ::image::codecs::png::{CompressionType, FilterType, PngEncoder};
use ::image::{ExtendedColorType, ImageEncoder, ImageReader, RgbImage, imageops};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::io::Cursor;
use std::path::Path;

/// Of a JPEG, of 100: what cameras and Pillow's users take.
const JPEG_QUALITY: u8 = 75;
/// Different gradients.
const GRADIENTS: u64 = 4;
/// Files of a folder: beyond, it is the wrong one.
const FILES_MAX: usize = 100_000;

/// An encoded picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    /// `png` or `jpeg`.
    kind: &'static str,
    bytes: Vec<u8>,
}

impl File {
    /// As a data URL.
    pub(super) fn url(&self) -> String {
        let mut url = format!("data:image/{};base64,", self.kind);
        STANDARD.encode_string(&self.bytes, &mut url);
        url
    }
}

/// Picture `number`. Sides and, where that is asked for, the format are drawn. Errors: a file of
/// the folder is no picture, or a giant one.
pub(super) fn make(
    spec: &ImageSpec,
    files: &[File],
    seed: u64,
    number: u64,
) -> Result<File, String> {
    let (width, height) = sides(spec, seed, number);
    let mut rng = Rng::new(seed, Stream::Image, number);
    let kind = match spec.format {
        ImageFormat::Png => "png",
        ImageFormat::Jpeg => "jpeg",
        ImageFormat::Random => ["png", "jpeg"][usize::from(rng.below(2) == 1)],
    };
    let picture = match &spec.source {
        ImageSource::Noise => {
            let mut bytes = Vec::new();
            noise(&mut rng, 3 * width as usize * height as usize, &mut bytes);
            RgbImage::from_raw(width, height, bytes)
        }
        ImageSource::Gradients => Some(gradient(width, height, rng.below(GRADIENTS))),
        ImageSource::Folder(path) => {
            let file = &files[pick(spec.order, seed, files.len(), number)];
            let picture = decode(&file.bytes)
                .map_err(|text| format!("--image-source: a file of {}: {text}", path.display()))?;
            let filter = imageops::FilterType::Triangle;
            Some(imageops::resize(&picture, width, height, filter))
        }
    };
    let picture = picture.ok_or("--image-width-mean: a picture has another size than asked for")?;
    encode(&picture, kind)
}

/// Width and height by their laws, within what a request may hold.
fn sides(spec: &ImageSpec, seed: u64, number: u64) -> (u32, u32) {
    let Some((width, height)) = spec.size else {
        return (1, 1);
    };
    let width = draw(width, seed, Stream::ImageWidth, number).min(IMAGE_SIDE_MAX);
    let height = draw(height, seed, Stream::ImageHeight, number).min(IMAGE_SIDE_MAX);
    let most = MEDIA_BYTES_MAX / 3 / u64::from(width);
    (width, height.min(u32::try_from(most).unwrap_or(u32::MAX)))
}

/// Colours that run over the picture, each of the three its own way; which, is of four kinds.
fn gradient(width: u32, height: u32, kind: u64) -> RgbImage {
    let level = |at: u32, length: u32| u8::try_from(at * 255 / length.max(1)).unwrap_or(255);
    RgbImage::from_fn(width, height, |x, y| {
        let (across, down) = (level(x, width), level(y, height));
        let both = level(x + y, width + height);
        let colours = match kind {
            0 => [across, down, 255 - across],
            1 => [down, both, across],
            2 => [both, 255 - down, down],
            _ => [255 - both, across, both],
        };
        ::image::Rgb(colours)
    })
}

fn encode(picture: &RgbImage, kind: &'static str) -> Result<File, String> {
    let mut bytes = Vec::new();
    let (width, height) = picture.dimensions();
    let colours = ExtendedColorType::Rgb8;
    let done = match kind {
        "jpeg" => {
            let encoder = JpegEncoder::new_with_quality(&mut bytes, JPEG_QUALITY);
            encoder.write_image(picture.as_raw(), width, height, colours)
        }
        _ => {
            let fast = CompressionType::Fast;
            let encoder = PngEncoder::new_with_quality(&mut bytes, fast, FilterType::NoFilter);
            encoder.write_image(picture.as_raw(), width, height, colours)
        }
    };
    done.map_err(|error| format!("--image-format: {error}"))?;
    Ok(File { kind, bytes })
}

fn decode(bytes: &[u8]) -> Result<RgbImage, String> {
    let mut reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(|error| error.to_string())?;
    let mut limits = ::image::Limits::default();
    limits.max_image_width = Some(IMAGE_SIDE_MAX * 2);
    limits.max_image_height = Some(IMAGE_SIDE_MAX * 2);
    reader.limits(limits);
    let picture = reader.decode().map_err(|error| error.to_string())?;
    Ok(picture.into_rgb8())
}

/// The pictures of a folder, by their names' order. Errors name the flag: it cannot be read, has
/// none, or more than a request's and the pool's bytes.
pub(super) fn read_folder(path: &Path) -> Result<Vec<File>, String> {
    let fault = |at: &Path, text: &str| format!("--image-source: {}: {text}", at.display());
    let entries = std::fs::read_dir(path).map_err(|error| {
        let text = format!("{error}; give noise, assets or a folder of PNG and JPEG files");
        fault(path, &text)
    })?;
    let mut names = Vec::new();
    for entry in entries {
        let at = entry
            .map_err(|error| fault(path, &error.to_string()))?
            .path();
        let ending = at.extension().map(|ending| ending.to_ascii_lowercase());
        let is_one = |known: &str| ending.as_ref().is_some_and(|ending| ending == known);
        if ["png", "jpg", "jpeg"].into_iter().any(is_one) {
            names.push(at);
        }
        if names.len() > FILES_MAX {
            return Err(fault(path, "it has more than 100000 files; give fewer"));
        }
    }
    names.sort();
    let (mut files, mut bytes_all) = (Vec::new(), 0);
    for at in &names {
        let size = std::fs::metadata(at)
            .map_err(|error| fault(at, &error.to_string()))?
            .len();
        if size > MEDIA_BYTES_MAX {
            return Err(fault(at, "it has more than 48 MiB; leave it out"));
        }
        bytes_all += size;
        if bytes_all > crate::base::limits::MEDIA_POOL_BYTES_MAX as u64 {
            return Err(fault(path, "its files have more than 128 MiB; give fewer"));
        }
        let bytes = std::fs::read(at).map_err(|error| fault(at, &error.to_string()))?;
        let kind = match ::image::guess_format(&bytes) {
            Ok(::image::ImageFormat::Png) => "png",
            Ok(::image::ImageFormat::Jpeg) => "jpeg",
            _ => return Err(fault(at, "it is neither PNG nor JPEG; leave it out")),
        };
        files.push(File { kind, bytes });
    }
    match files.is_empty() {
        true => Err(fault(
            path,
            "it has no file that ends in .png, .jpg or .jpeg",
        )),
        false => Ok(files),
    }
}

/// The place of the picture with this number among `count`, at least 1.
pub(super) fn pick(order: SourceOrder, seed: u64, count: usize, number: u64) -> usize {
    let length = (count as u64).max(1);
    let place = match order {
        SourceOrder::Sequential => number % length,
        SourceOrder::Random => Rng::new(seed, Stream::ImageSource, number).below(length),
        SourceOrder::Shuffle => {
            let mut rng = Rng::new(seed, Stream::ImageSource, number / length);
            let mut places: Vec<u64> = (0..length).collect();
            for at in (1..count).rev() {
                let other = usize::try_from(rng.below(at as u64 + 1)).unwrap_or(0);
                places.swap(at, other);
            }
            places[usize::try_from(number % length).unwrap_or(0)]
        }
    };
    usize::try_from(place).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Lengths;

    fn spec(format: ImageFormat, source: ImageSource) -> ImageSpec {
        let side = |mean| Lengths { mean, stddev: 0.0 };
        ImageSpec {
            count: 1,
            size: Some((side(33.0), side(17.0))),
            format,
            source,
            order: SourceOrder::Sequential,
        }
    }

    #[test]
    fn a_picture_can_be_read_again_in_its_size() {
        for source in [ImageSource::Noise, ImageSource::Gradients] {
            for format in [ImageFormat::Png, ImageFormat::Jpeg] {
                let spec = spec(format, source.clone());
                let file = make(&spec, &[], 5, 9).unwrap();
                let picture = decode(&file.bytes).unwrap();
                assert_eq!(picture.dimensions(), (33, 17), "{spec:?}");
                let url = file.url();
                assert!(
                    url.starts_with(&format!("data:image/{};base64,", file.kind)),
                    "{url}"
                );
                assert_ne!(make(&spec, &[], 5, 10).unwrap(), file);
            }
        }
        let random = spec(ImageFormat::Random, ImageSource::Noise);
        let kinds: Vec<_> = (0..40)
            .map(|at| make(&random, &[], 5, at).unwrap().kind)
            .collect();
        assert!(kinds.contains(&"png") && kinds.contains(&"jpeg"));
    }

    #[test]
    fn sides_follow_their_law_and_stay_within_a_request() {
        let mut wide = spec(ImageFormat::Png, ImageSource::Noise);
        let law = |mean, stddev| Lengths { mean, stddev };
        wide.size = Some((law(512.0, 50.0), law(64.0, 5.0)));
        let all: Vec<_> = (0..20_000).map(|at| sides(&wide, 1, at)).collect();
        let mean = |side: fn(&(u32, u32)) -> u32| {
            all.iter().map(|sides| f64::from(side(sides))).sum::<f64>() / 20_000.0
        };
        // Values are rounded up.
        assert!((mean(|sides| sides.0) - 512.5).abs() < 1.5);
        assert!((mean(|sides| sides.1) - 64.5).abs() < 0.2);
        wide.size = Some((law(4_000.0, 4_000.0), law(4_000.0, 4_000.0)));
        for at in 0..2_000 {
            let (width, height) = sides(&wide, 1, at);
            let bytes = 3 * u64::from(width) * u64::from(height);
            assert!(
                width >= 1 && height >= 1 && bytes <= MEDIA_BYTES_MAX,
                "{width} {height}"
            );
        }
    }

    #[test]
    fn a_folder_s_files_come_in_the_order_that_is_asked_for() {
        let many = |order| (0..6).map(|at| pick(order, 3, 3, at)).collect::<Vec<_>>();
        assert_eq!(many(SourceOrder::Sequential), [0, 1, 2, 0, 1, 2]);
        let shuffled = many(SourceOrder::Shuffle);
        for lap in shuffled.chunks(3) {
            assert!((0..3).all(|place| lap.contains(&place)), "{shuffled:?}");
        }
        let drawn: Vec<_> = (0..60)
            .map(|at| pick(SourceOrder::Random, 3, 3, at))
            .collect();
        assert!((0..3).all(|place| drawn.contains(&place)));
    }

    #[test]
    fn a_folder_gives_its_pictures_and_refuses_what_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let text = read_folder(path).unwrap_err();
        assert!(
            text.starts_with("--image-source: ") && text.contains("no file"),
            "{text}"
        );
        let file = make(&spec(ImageFormat::Jpeg, ImageSource::Gradients), &[], 5, 9).unwrap();
        std::fs::write(path.join("b.JPG"), &file.bytes).unwrap();
        std::fs::write(path.join("notes.txt"), b"x").unwrap();
        let files = read_folder(path).unwrap();
        assert_eq!(files, [file]);
        let own = spec(ImageFormat::Png, ImageSource::Folder(path.into()));
        let small = make(&own, &files, 1, 0).unwrap();
        assert_eq!(decode(&small.bytes).unwrap().dimensions(), (33, 17));
        std::fs::write(path.join("c.png"), b"not a picture").unwrap();
        assert!(
            read_folder(path)
                .unwrap_err()
                .contains("neither PNG nor JPEG")
        );
        std::fs::write(path.join("c.png"), &small.bytes[..60]).unwrap();
        let files = read_folder(path).unwrap();
        assert!(
            make(&own, &files, 1, 1)
                .unwrap_err()
                .starts_with("--image-source: a file of")
        );
        assert!(
            read_folder(&path.join("no"))
                .unwrap_err()
                .contains("noise, assets or")
        );
    }
}
