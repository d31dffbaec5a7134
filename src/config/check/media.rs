//! What a request holds beside one prompt: ranges, and what an API has no place for.

use super::requests::lengths;
use super::{ConfigError, count, filled, given_of, no};
use crate::config::{
    Api, AudioSpec, Config, Draft, IMAGE_SIDE_MAX, ImageFormat, ImageSource, ImageSpec, Lengths,
    MEDIA_BYTES_MAX, RankingSpec, SourceOrder,
};
use serde_json::Value;

/// Texts, images or recordings of one request: a typing error beyond.
const BATCH_MAX: i64 = 10_000;
/// Passages of a ranking where none are asked for: AIPerf's.
const PASSAGES: f64 = 10.0;
/// Of a recording: a day.
const AUDIO_SECONDS_MAX: f64 = 86_400.0;
/// Of a sample, in bits.
const DEPTHS: [u16; 4] = [8, 16, 24, 32];
/// A sample rate up to this is in kHz.
const KHZ_MAX: f64 = 96.0;

impl Draft {
    pub(super) fn media(
        &self,
        config: &mut Config,
        notes: &mut Vec<String>,
    ) -> Result<(), ConfigError> {
        if config.api == Api::NimRankings
            && config.extra_inputs.get("rankings") == Some(&Value::from("tei"))
        {
            config.extra_inputs.shift_remove("rankings");
            config.api = Api::HfTeiRankings;
        }
        let api = config.api;
        config.contents.images = images(self, api, notes)?;
        config.contents.audios = audios(self, api)?;
        let has_media = config.contents.images.is_some() || config.contents.audios.is_some();
        config.contents.texts = texts(self, api, has_media)?;
        config.contents.ranking = ranking(self, config)?;
        if api.needs_images() && config.contents.images.is_none() {
            return no(
                "image-width-mean",
                format!(
                    "{} sends an image; give it with --image-height-mean",
                    api.name()
                ),
            );
        }
        if api == Api::AudioTranscription && config.contents.audios.is_none() {
            let text = "audio_transcription sends a recording; give its length in seconds";
            return no("audio-length-mean", text);
        }
        config.osl_deterministic &= api.has_tokens();
        if config.osl.take_if(|_| !api.has_tokens()).is_some() {
            notes.push(format!(
                "--osl: an answer of {} has no length; it is not sent",
                api.name()
            ));
        }
        Ok(())
    }
}

fn texts(draft: &Draft, api: Api, has_media: bool) -> Result<u32, ConfigError> {
    let flag = "prompt-batch-size";
    let least = i64::from(!(has_media && api.takes_text()));
    let texts = count(flag, draft.prompt_batch_size, least, BATCH_MAX)?.unwrap_or(1);
    if texts > 1 && !api.takes_texts() {
        let text = format!("a request of {} has no more than one text", api.name());
        return no(flag, format!("{text}; leave it out"));
    }
    Ok(u32::try_from(texts).unwrap_or(u32::MAX))
}

/// The first flag of rankings that is given.
fn ranking_flag(draft: &Draft) -> Option<&'static str> {
    given_of(&[
        (
            "rankings-passages-mean",
            draft.rankings_passages_mean.is_some(),
        ),
        (
            "rankings-passages-stddev",
            draft.rankings_passages_stddev.is_some(),
        ),
        (
            "rankings-passages-prompt-token-mean",
            draft.rankings_passages_prompt_token_mean.is_some(),
        ),
        (
            "rankings-passages-prompt-token-stddev",
            draft.rankings_passages_prompt_token_stddev.is_some(),
        ),
        (
            "rankings-query-prompt-token-mean",
            draft.rankings_query_prompt_token_mean.is_some(),
        ),
        (
            "rankings-query-prompt-token-stddev",
            draft.rankings_query_prompt_token_stddev.is_some(),
        ),
    ])
}

fn ranking(draft: &Draft, config: &Config) -> Result<Option<RankingSpec>, ConfigError> {
    let given = ranking_flag(draft);
    if !config.api.ranks() {
        return match given {
            Some(flag) => no(
                flag,
                format!(
                    "{} ranks nothing; it is for nim_rankings, cohere_rankings and \
                     hf_tei_rankings",
                    config.api.name()
                ),
            ),
            None => Ok(None),
        };
    }
    let usual = match draft.prompt_batch_size {
        Some(_) => f64::from(config.contents.texts),
        None => PASSAGES,
    };
    let passages = Lengths {
        mean: draft.rankings_passages_mean.unwrap_or(usual),
        stddev: draft.rankings_passages_stddev.unwrap_or(0.0),
    };
    for (flag, value, least) in [
        ("rankings-passages-mean", passages.mean, 1.0),
        ("rankings-passages-stddev", passages.stddev, 0.0),
    ] {
        if !(least..=1e4).contains(&value) {
            return no(
                flag,
                format!("{value:?} is out of range; give {least} to 10000"),
            );
        }
    }
    let isl = config.isl;
    let of = |flag, stddev_flag, mean: Option<f64>, stddev: Option<f64>| {
        let stddev = stddev.or_else(|| mean.is_none().then_some(isl.stddev));
        lengths(flag, stddev_flag, mean.unwrap_or(isl.mean), stddev)
    };
    Ok(Some(RankingSpec {
        passages,
        passage: of(
            "rankings-passages-prompt-token-mean",
            "rankings-passages-prompt-token-stddev",
            draft.rankings_passages_prompt_token_mean,
            draft.rankings_passages_prompt_token_stddev,
        )?,
        query: of(
            "rankings-query-prompt-token-mean",
            "rankings-query-prompt-token-stddev",
            draft.rankings_query_prompt_token_mean,
            draft.rankings_query_prompt_token_stddev,
        )?,
    }))
}

fn source(draft: &Draft, notes: &mut Vec<String>) -> Result<ImageSource, ConfigError> {
    match filled("image-source", draft.image_source.as_ref())?.as_deref() {
        None | Some("noise") => Ok(ImageSource::Noise),
        Some("assets") => {
            notes.push("--image-source assets: gradients take the place of AIPerf's files".into());
            Ok(ImageSource::Gradients)
        }
        Some(path) => Ok(ImageSource::Folder(path.into())),
    }
}

fn format(draft: &Draft) -> Result<ImageFormat, ConfigError> {
    match draft.image_format.as_deref() {
        None | Some("png") => Ok(ImageFormat::Png),
        Some("jpeg") => Ok(ImageFormat::Jpeg),
        Some("random") => Ok(ImageFormat::Random),
        Some(other) => no(
            "image-format",
            format!("`{other}`; give png, jpeg or random"),
        ),
    }
}

fn order(draft: &Draft) -> Result<SourceOrder, ConfigError> {
    match draft.image_source_sampling.as_deref() {
        None | Some("random-with-replacement") => Ok(SourceOrder::Random),
        Some("shuffle-cycle") => Ok(SourceOrder::Shuffle),
        Some("sequential-cycle") => Ok(SourceOrder::Sequential),
        Some(other) => no(
            "image-source-sampling",
            format!("`{other}`; give random-with-replacement, shuffle-cycle or sequential-cycle"),
        ),
    }
}

fn images(
    draft: &Draft,
    api: Api,
    notes: &mut Vec<String>,
) -> Result<Option<ImageSpec>, ConfigError> {
    let (format, order) = (format(draft)?, order(draft)?);
    let width = side("image-width-mean", draft.image_width_mean)?;
    let height = side("image-height-mean", draft.image_height_mean)?;
    let wide = side("image-width-stddev", draft.image_width_stddev)?;
    let high = side("image-height-stddev", draft.image_height_stddev)?;
    let count = count("image-batch-size", draft.image_batch_size, 0, BATCH_MAX)?.unwrap_or(1);
    let source = source(draft, notes)?;
    let size = match (width > 0.0, height > 0.0) {
        (true, true) => Some((
            Lengths {
                mean: width,
                stddev: wide,
            },
            Lengths {
                mean: height,
                stddev: high,
            },
        )),
        (true, false) => return no("image-height-mean", "an image has a height, too; give it"),
        (false, true) => return no("image-width-mean", "an image has a width, too; give it"),
        (false, false) => None,
    };
    let is_folder = matches!(source, ImageSource::Folder(_));
    if count == 0 || size.is_none() && !is_folder {
        return Ok(None);
    }
    if !api.takes_images() {
        let flag = if size.is_some() {
            "image-width-mean"
        } else {
            "image-source"
        };
        let text = format!("a request of {} has no place for images", api.name());
        return no(flag, format!("{text}; leave it out"));
    }
    if 3.0 * width * height > as_f64(MEDIA_BYTES_MAX) {
        let text = format!("{width} x {height} pixels are more than 48 MiB; give smaller sides");
        return no("image-width-mean", text);
    }
    Ok(Some(ImageSpec {
        count: u32::try_from(count).unwrap_or(u32::MAX),
        size,
        format,
        source,
        order,
    }))
}

#[expect(clippy::cast_precision_loss, reason = "a cap of some MiB")]
fn as_f64(bytes: u64) -> f64 {
    bytes as f64
}

/// A side of an image, or its deviation; 0 for none.
fn side(flag: &'static str, value: Option<f64>) -> Result<f64, ConfigError> {
    match value.unwrap_or(0.0) {
        0.0 => Ok(0.0),
        value if (0.0..=f64::from(IMAGE_SIDE_MAX)).contains(&value) => Ok(value),
        value => no(
            flag,
            format!("{value:?} is out of range; give 0 to {IMAGE_SIDE_MAX} pixels"),
        ),
    }
}

fn audios(draft: &Draft, api: Api) -> Result<Option<AudioSpec>, ConfigError> {
    match draft.audio_format.as_deref() {
        None | Some("wav") => {}
        Some("mp3") => {
            let text = "mp3 needs an encoder that is not here; give wav";
            return no("audio-format", text);
        }
        Some(other) => return no("audio-format", format!("`{other}`; give wav")),
    }
    for (flag, value) in [
        ("audio-length-mean", draft.audio_length_mean),
        ("audio-length-stddev", draft.audio_length_stddev),
    ] {
        if let Some(value) = value
            && !(0.0..=AUDIO_SECONDS_MAX).contains(&value)
        {
            return no(
                flag,
                format!("{value:?} is out of range; give 0 to 86400 seconds"),
            );
        }
    }
    let seconds = Lengths {
        mean: draft.audio_length_mean.unwrap_or(0.0),
        stddev: draft.audio_length_stddev.unwrap_or(0.0),
    };
    let depths = numbers("audio-depths", draft.audio_depths.as_ref(), 16.0)?;
    let depths = depths.into_iter().map(depth).collect::<Result<_, _>>()?;
    let rates = numbers(
        "audio-sample-rates",
        draft.audio_sample_rates.as_ref(),
        16.0,
    )?;
    let rates_hz = rates.into_iter().map(rate_hz).collect::<Result<_, _>>()?;
    let channels = count("audio-num-channels", draft.audio_num_channels, 1, 2)?.unwrap_or(1);
    let count = count("audio-batch-size", draft.audio_batch_size, 0, BATCH_MAX)?.unwrap_or(1);
    if seconds.mean == 0.0 || count == 0 {
        return Ok(None);
    }
    if !api.takes_audio() {
        let text = format!("a request of {} has no place for audio", api.name());
        return no("audio-length-mean", format!("{text}; leave it out"));
    }
    let spec = AudioSpec {
        count: u32::try_from(count).unwrap_or(u32::MAX),
        seconds,
        depths,
        rates_hz,
        channels: u16::try_from(channels).unwrap_or(1),
    };
    if spec.bytes_mean() > as_f64(MEDIA_BYTES_MAX) {
        return no(
            "audio-length-mean",
            format!(
                "{:?} s of such samples are more than 48 MiB; give fewer",
                seconds.mean
            ),
        );
    }
    Ok(Some(spec))
}

fn depth(value: f64) -> Result<u16, ConfigError> {
    let known = DEPTHS.into_iter().find(|&bits| f64::from(bits) == value);
    known.map_or_else(
        || {
            no(
                "audio-depths",
                format!("{value} bits; give 8, 16, 24 or 32"),
            )
        },
        Ok,
    )
}

fn rate_hz(value: f64) -> Result<u32, ConfigError> {
    let hz = if value <= KHZ_MAX { value * 1e3 } else { value };
    if !(1e3..=192_000.0).contains(&hz) {
        let text = format!("{value} is out of range; give 1 to 96 kHz, or up to 192000 Hz");
        return no("audio-sample-rates", text);
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "in range"
    )]
    Ok(hz.round() as u32)
}

/// A number or several, as a list or parted by commas.
fn numbers(flag: &'static str, given: Option<&Value>, usual: f64) -> Result<Vec<f64>, ConfigError> {
    let Some(given) = given else {
        return Ok(vec![usual]);
    };
    let each: &[Value] = match given {
        Value::Array(values) => values,
        one => std::slice::from_ref(one),
    };
    let mut found = Vec::new();
    for value in each {
        let texts = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let parts = texts.trim_matches(['[', ']']).split([',', ' ']);
        for text in parts.map(str::trim).filter(|text| !text.is_empty()) {
            match text.parse::<f64>() {
                Ok(number) if number.is_finite() => found.push(number),
                _ => return no(flag, format!("`{text}` is no number")),
            }
        }
    }
    match found.is_empty() {
        true => no(flag, "there is none; give one or leave it out"),
        false => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(settings: Value) -> Result<(Config, Vec<String>), String> {
        let draft: Draft = serde_json::from_value(settings).unwrap();
        let checked = draft.check("").map_err(|error| error.to_string())?;
        Ok((checked.config, checked.notes))
    }

    #[test]
    fn what_cannot_be_sent_is_refused_by_the_flag_to_change() {
        let image = |width: f64, height: f64| {
            let sides = [("image_width_mean", width), ("image_height_mean", height)];
            sides
                .into_iter()
                .map(|(key, side)| (key.to_string(), Value::from(side)))
                .collect::<Value>()
        };
        for (settings, told) in [
            (image(0.0, 64.0), "--image-width-mean: an image has a width"),
            (image(64.0, 0.0), "--image-height-mean: an image has a"),
            (image(-1.0, 64.0), "--image-width-mean: -1.0 is out"),
            (image(1e9, 64.0), "--image-width-mean: 1000000000.0 is"),
            (image(8192.0, 8192.0), "--image-width-mean: 8192 x 8192"),
            (json!({"image_format": "gif"}), "--image-format: `gif`"),
            (json!({"audio_format": "mp3"}), "--audio-format: mp3 needs"),
            (json!({"audio_length_mean": 1e9}), "--audio-length-mean"),
            (
                json!({"audio_length_mean": 80_000.0}),
                "--audio-length-mean: 80000.0 s",
            ),
            (json!({"audio_depths": [12]}), "--audio-depths: 12 bits"),
            (json!({"audio_depths": []}), "--audio-depths: there is none"),
            (
                json!({"audio_sample_rates": ["x"]}),
                "--audio-sample-rates: `x`",
            ),
            (
                json!({"audio_sample_rates": "0.1"}),
                "--audio-sample-rates: 0.1",
            ),
            (
                json!({"audio_num_channels": 3}),
                "--audio-num-channels: 3 is",
            ),
            (json!({"prompt_batch_size": 0}), "--prompt-batch-size: 0 is"),
            (
                json!({"rankings_passages_mean": 3}),
                "--rankings-passages-mean: chat ranks",
            ),
            (
                json!({"endpoint_type": "cohere_rankings", "rankings_passages_mean": 0.5}),
                "--rankings-passages-mean: 0.5 is",
            ),
            (
                json!({"endpoint_type": "image_generation", "prompt_batch_size": 2}),
                "--prompt-batch-size: a request of image_generation",
            ),
            (
                json!({"endpoint_type": "image_edit"}),
                "--image-width-mean: image_edit sends",
            ),
            (
                json!({"endpoint_type": "audio_transcription"}),
                "--audio-length-mean: audio_",
            ),
            (
                json!({"endpoint_type": "embeddings", "image_width_mean": 9,
                    "image_height_mean": 9}),
                "--image-width-mean: a request of embeddings has no place",
            ),
        ] {
            let text = check(settings.clone()).unwrap_err();
            assert!(text.starts_with(told), "{settings}: {text}");
        }
    }

    #[test]
    fn lists_are_numbers_and_a_small_rate_is_in_khz() {
        let (config, _) = check(
            json!({"audio_length_mean": 2.0, "audio_depths": ["8,24", "32"],
            "audio_sample_rates": [16, 44.1, 22_050], "audio_num_channels": 2}),
        )
        .unwrap();
        let audio = config.contents.audios.unwrap();
        assert_eq!(audio.depths, [8, 24, 32]);
        assert_eq!(audio.rates_hz, [16_000, 44_100, 22_050]);
    }

    #[test]
    fn a_ranking_has_ten_passages_or_those_of_the_batch() {
        let of = |settings: Value| check(settings).unwrap();
        let (config, notes) = of(
            json!({"endpoint_type": "rankings", "isl": 32, "streaming": true,
            "osl": 5, "extra_inputs": {"rankings": "tei", "x": 1}}),
        );
        assert_eq!(config.api, Api::HfTeiRankings);
        assert_eq!(config.extra_inputs.len(), 1);
        assert!(!config.streaming && config.osl.is_none());
        assert!(notes.iter().any(|note| note.starts_with("--streaming: ")));
        assert!(notes.iter().any(|note| note.starts_with("--osl: ")));
        let ranking = config.contents.ranking.unwrap();
        assert_eq!(ranking.passages.mean, 10.0);
        assert_eq!((ranking.query, ranking.passage), (config.isl, config.isl));
        let (config, _) = of(
            json!({"endpoint_type": "nim_rankings", "prompt_batch_size": 4,
            "rankings_query_prompt_token_mean": 8}),
        );
        let ranking = config.contents.ranking.unwrap();
        assert_eq!((ranking.passages.mean, ranking.query.mean), (4.0, 8.0));
    }
}
