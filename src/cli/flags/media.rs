//! The flags of what a request holds beside one prompt.

use super::Kind::{Integer, Many, Number, Text};
use super::{Flag, flag};

const BATCH: &str = "Batches and rankings";
const MEDIA: &str = "Images and audio";

#[rustfmt::skip]
pub(super) const FLAGS: &[Flag] = &[
    flag(BATCH, Some('b'), &["prompt-batch-size",
        "batch-size-text", "batch-size"], Integer,
        "Texts of a request: embeddings, completions, chat; passages of a ranking [default: 1]"),
    flag(BATCH, None, &["rankings-passages-mean"], Number("N"),
        "Passages of a ranking, mean [default: --batch-size, else 10]"),
    flag(BATCH, None, &["rankings-passages-stddev"], Number("N"),
        "Passages, standard deviation [default: 0]"),
    flag(BATCH, None, &["rankings-passages-prompt-token-mean"], Number("TOKENS"),
        "Length of a passage, mean [default: --isl]"),
    flag(BATCH, None, &["rankings-passages-prompt-token-stddev"], Number("TOKENS"),
        "Length of a passage, standard deviation [default: --isl-stddev]"),
    flag(BATCH, None, &["rankings-query-prompt-token-mean"], Number("TOKENS"),
        "Length of the query, mean [default: --isl]"),
    flag(BATCH, None, &["rankings-query-prompt-token-stddev"], Number("TOKENS"),
        "Length of the query, standard deviation [default: --isl-stddev]"),
    flag(MEDIA, None, &["image-batch-size", "batch-size-image"], Integer,
        "Images of a request [default: 1, where a width and a height are given]"),
    flag(MEDIA, None, &["image-width-mean"], Number("PIXELS"),
        "Width, mean; there are images only with both width and height [default: 0]"),
    flag(MEDIA, None, &["image-width-stddev"], Number("PIXELS"),
        "Width, standard deviation [default: 0]"),
    flag(MEDIA, None, &["image-height-mean"], Number("PIXELS"), "Height, mean [default: 0]"),
    flag(MEDIA, None, &["image-height-stddev"], Number("PIXELS"),
        "Height, standard deviation [default: 0]"),
    flag(MEDIA, None, &["image-format"], Text("FORMAT"),
        "png, jpeg, or random: either [default: png]"),
    flag(MEDIA, None, &["image-source"], Text("SOURCE"),
        "noise (random bytes), assets (gradients), or a folder of PNG and JPEG files, sent as they \
        are where no size is given [default: noise]"),
    flag(MEDIA, None, &["image-source-sampling"], Text("ORDER"),
        "Which of a folder's images is next: random-with-replacement, shuffle-cycle or \
        sequential-cycle [default: random-with-replacement]"),
    flag(MEDIA, None, &["audio-batch-size", "batch-size-audio"], Integer,
        "Recordings of a request [default: 1, where a length is given]"),
    flag(MEDIA, None, &["audio-length-mean"], Number("SECONDS"),
        "Length of a recording, mean; there is audio only where it is more than 0 [default: 0]"),
    flag(MEDIA, None, &["audio-length-stddev"], Number("SECONDS"),
        "Length, standard deviation [default: 0]"),
    flag(MEDIA, None, &["audio-format"], Text("FORMAT"), "wav [default: wav]"),
    flag(MEDIA, None, &["audio-depths"], Many("BITS"),
        "Bits of a sample: 8, 16, 24, 32; one of them is drawn [default: 16]"),
    flag(MEDIA, None, &["audio-sample-rates"], Many("KHZ"),
        "Samples per second, in kHz up to 96, in Hz beyond; one of them is drawn [default: 16]"),
    flag(MEDIA, None, &["audio-num-channels"], Integer, "1 or 2 [default: 1]"),
];
