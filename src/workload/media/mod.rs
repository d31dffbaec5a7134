//! Images and recordings of requests: made once, in base64, before the clock starts, and used in
//! turn.
//!
//! A run of many requests would fill the memory with them: beyond a cap they come again, beside
//! texts that do not.

mod picture;
mod wav;

use super::Audio;
use crate::base::{Ns, limits};
use crate::config::{AudioSpec, Contents, ImageSource, ImageSpec};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Images or recordings of a run that has no known number of requests.
const POOL_MAX: u64 = 256;

/// All that a run sends beside texts.
#[derive(Debug, Default)]
pub struct Media {
    images: Option<(ImageSpec, Vec<String>)>,
    audios: Option<(AudioSpec, Vec<(Audio, Ns)>)>,
    seed: u64,
}

impl Media {
    /// Makes what `requests` requests need, as far as `limits::MEDIA_POOL_BYTES_MAX` allows.
    ///
    /// Errors name the flag: a folder that cannot be read or has no picture.
    pub fn make(contents: &Contents, seed: u64, requests: Option<u64>) -> Result<Media, String> {
        let wanted = |count: u32| {
            let all = requests.map_or(POOL_MAX, |requests| requests.saturating_mul(count.into()));
            all.max(1)
        };
        let images = match &contents.images {
            None => None,
            Some(spec) => Some((spec.clone(), images(spec, seed, wanted(spec.count))?)),
        };
        let audios = contents.audios.as_ref().map(|spec| {
            let make = |number| {
                let (bytes, length) = wav::make(spec, seed, number);
                let data = STANDARD.encode(bytes);
                let format = "wav";
                Ok((Audio { format, data }, length))
            };
            let size = |(audio, _): &(Audio, Ns)| audio.data.len();
            // Nothing is read: nothing fails.
            let all = pool(wanted(spec.count), size, make).unwrap_or_default();
            (spec.clone(), all)
        });
        Ok(Media {
            images,
            audios,
            seed,
        })
    }

    /// The images of an entry, as data URLs. A warm-up takes them from the other end.
    pub fn images(&self, entry: u64, measured: bool) -> Vec<String> {
        let Some((spec, all)) = &self.images else {
            return Vec::new();
        };
        let is_picked = spec.size.is_none();
        let place = |number: u64| match is_picked {
            true => picture::pick(spec.order, self.seed, all.len(), number),
            false => place(all.len(), number, measured),
        };
        numbers(entry, spec.count)
            .filter_map(|number| all.get(place(number)).cloned())
            .collect()
    }

    /// The recordings of an entry, and how long they are together.
    pub fn audios(&self, entry: u64, measured: bool) -> (Vec<Audio>, Ns) {
        let Some((spec, all)) = &self.audios else {
            return (Vec::new(), Ns::ZERO);
        };
        let mut together = Ns::ZERO;
        let audios = numbers(entry, spec.count).filter_map(|number| {
            let (audio, length) = all.get(place(all.len(), number, measured))?;
            together = together + *length;
            Some(audio.clone())
        });
        let audios = audios.collect();
        (audios, together)
    }

    /// Different images and recordings, as far as there are any.
    pub fn counts(&self) -> (usize, usize) {
        let images = self.images.as_ref().map_or(0, |(_, all)| all.len());
        let audios = self.audios.as_ref().map_or(0, |(_, all)| all.len());
        (images, audios)
    }
}

/// The numbers of an entry's images or recordings among those of all entries.
fn numbers(entry: u64, count: u32) -> impl Iterator<Item = u64> {
    let first = entry.wrapping_mul(count.into());
    (0..u64::from(count)).map(move |at| first.wrapping_add(at))
}

fn place(length: usize, number: u64, measured: bool) -> usize {
    let place = usize::try_from(number % (length as u64).max(1)).unwrap_or(0);
    match measured {
        true => place,
        false => length.saturating_sub(1 + place),
    }
}

fn images(spec: &ImageSpec, seed: u64, wanted: u64) -> Result<Vec<String>, String> {
    let files = match &spec.source {
        ImageSource::Folder(path) => picture::read_folder(path)?,
        ImageSource::Noise | ImageSource::Gradients => Vec::new(),
    };
    if spec.size.is_none() {
        return Ok(files.iter().map(|file| file.url()).collect());
    }
    pool(wanted, String::len, |number| {
        picture::make(spec, &files, seed, number).map(|file| file.url())
    })
}

/// Items from number 0 on: `wanted`, or as many as reach the cap. By as many threads as there are
/// cores, and the same whichever is faster.
fn pool<T: Send>(
    wanted: u64,
    size: impl Fn(&T) -> usize + Sync,
    make: impl Fn(u64) -> Result<T, String> + Sync,
) -> Result<Vec<T>, String> {
    let (next, bytes) = (AtomicU64::new(0), AtomicUsize::new(0));
    let made = Mutex::new(Vec::new());
    let work = || {
        while bytes.load(Ordering::Relaxed) < limits::MEDIA_POOL_BYTES_MAX {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= wanted {
                return;
            }
            let item = make(number);
            let length = item.as_ref().map_or(limits::MEDIA_POOL_BYTES_MAX, &size);
            bytes.fetch_add(length, Ordering::Relaxed);
            if let Ok(mut made) = made.lock() {
                made.push((number, item));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut made = made.into_inner().unwrap_or_default();
    made.sort_by_key(|(number, _)| *number);
    let (mut all, mut bytes) = (Vec::new(), 0);
    for (_, item) in made {
        let item = item?;
        if bytes >= limits::MEDIA_POOL_BYTES_MAX {
            break;
        }
        bytes += size(&item);
        all.push(item);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ImageFormat, Lengths, SourceOrder};

    fn fixed(mean: f64) -> Lengths {
        Lengths { mean, stddev: 0.0 }
    }

    fn contents() -> Contents {
        Contents {
            images: Some(ImageSpec {
                count: 2,
                size: Some((fixed(8.0), fixed(4.0))),
                format: ImageFormat::Png,
                source: ImageSource::Noise,
                order: SourceOrder::Random,
            }),
            audios: Some(AudioSpec {
                count: 1,
                seconds: fixed(0.5),
                depths: vec![16],
                rates_hz: vec![8_000],
                channels: 1,
            }),
            ..Contents::default()
        }
    }

    #[test]
    fn each_entry_has_media_of_its_own_until_the_pool_ends() {
        let media = Media::make(&contents(), 7, Some(3)).unwrap();
        assert_eq!(media.counts(), (6, 3));
        let first = media.images(0, true);
        assert_eq!(first.len(), 2);
        assert_ne!(first[0], first[1]);
        assert_ne!(media.images(1, true), first);
        assert_eq!(media.images(3, true), first);
        assert!(!media.images(0, false).contains(&first[0]));
        let (audios, length) = media.audios(2, true);
        assert_eq!((audios.len(), length), (1, Ns::from_ms(500)));
        // 44 bytes of head and 8000 of samples.
        assert_eq!(STANDARD.decode(&audios[0].data).unwrap().len(), 8_044);
        let again = Media::make(&contents(), 7, Some(3)).unwrap();
        assert_eq!(again.images(2, true), media.images(2, true));
        let other = Media::make(&contents(), 8, Some(3)).unwrap();
        assert_ne!(other.images(2, true), media.images(2, true));
    }

    #[test]
    fn a_pool_ends_at_its_cap_at_the_same_item_each_time() {
        let size = |_: &u64| limits::MEDIA_POOL_BYTES_MAX / 10;
        for _ in 0..20 {
            let all = pool(u64::MAX, size, Ok).unwrap();
            assert_eq!(all, (0..11).collect::<Vec<u64>>());
        }
        let failing = |number| match number {
            3 => Err("no".to_string()),
            _ => Ok(number),
        };
        assert_eq!(pool(9, size, failing), Err("no".into()));
    }
}
