//! The flags that make many runs of one command: sweeps, repeats, a checkpoint.

use super::Kind::{Integer, Many, Number, Switch, Text};
use super::{Flag, flag};

const SWEEP: &str = "Sweep";
const REPEATS: &str = "Repeats";

#[rustfmt::skip]
pub(super) const FLAGS: &[Flag] = &[
    flag(SWEEP, None, &["sweep-type"], Text("NAME"),
        "What --sweep-range or --sweep-list gives values to: concurrency, request_rate, \
        input_sequence_length, output_sequence_length, num_dataset_entries, prefill_concurrency; \
        or how lists as in --concurrency 1,2,4 are combined: grid or zip [default: grid]"),
    flag(SWEEP, None, &["sweep-range"], Text("A:B[:STEP]"),
        "From A to B: by STEP, else the powers of two (every number of num_dataset_entries)"),
    flag(SWEEP, None, &["sweep-list"], Text("LIST"), "Values, as in 1,2,4"),
    flag(SWEEP, None, &["variant", "sweep-variant"], Many("POINT"),
        "A point by itself, `NAME: key=value, key=value`; several times"),
    flag(SWEEP, None, &["slo"], Many("CONDITION"),
        "What a good point meets, as in `p99(ttft)<500ms`; several must all hold \
        [default: p99(time_to_first_token)<500ms]"),
    flag(SWEEP, None, &["until-saturated"], Switch,
        "Go on doubling the load beyond the last point until TTFT has doubled and throughput grows \
        by less than 5 % per doubling"),
    flag(SWEEP, None, &["price-per-hour"], Number("PRICE"),
        "What the server costs an hour, for the price of a million output tokens"),
    flag(SWEEP, None, &["parameter-sweep-cooldown-seconds"], Number("SECONDS"),
        "Pause between two points [default: 0]"),
    flag(SWEEP, None, &["parameter-sweep-same-seed"], Switch,
        "The same prompts at every point; else each has its own, and no cache is warm for it"),
    flag(SWEEP, None, &["parameter-sweep-mode"], Text("ORDER"),
        "With repeats: all points and then all again (repeated), or point by point (independent) \
        [default: repeated]"),
    flag(SWEEP, None, &["no-sweep-table"], Switch, "No line after each run"),
    flag(SWEEP, None, &["resume"], Switch,
        "Go on where the checkpoint of a sweep that was cut short ends"),
    flag(SWEEP, None, &["enable-checkpointing"], Switch,
        "Keep the checkpoint after a complete sweep too, and use it: points that are in it are not \
        run again"),
    flag(SWEEP, None, &["checkpoint-dir"], Text("DIR"),
        "Where checkpoint.json lies [default: the folder of the sweep]"),
    flag(REPEATS, None, &["num-profile-runs"], Integer,
        "Runs of each point, for mean, deviation and confidence interval [default: 1]"),
    flag(REPEATS, None, &["profile-run-cooldown-seconds"], Number("SECONDS"),
        "Pause between them [default: 0]"),
    flag(REPEATS, None, &["confidence-level"], Number("LEVEL"),
        "Of the intervals, between 0 and 1 [default: 0.95]"),
    flag(REPEATS, None, &["profile-run-disable-warmup-after-first"], Switch,
        "Only the first run of a point has the warm-up [default]"),
    flag(REPEATS, None, &["set-consistent-seed"], Switch,
        "The same prompts in every repeat; else each has its own, and no cache is warm for it"),
    flag(REPEATS, None, &["vary-seed-per-trial"], Switch,
        "Prompts of its own in each repeat [default]"),
    flag(REPEATS, None, &["convergence-metric"], Text("TAG"),
        "End the repeats of a point once this metric has settled, after three at the least"),
    flag(REPEATS, None, &["convergence-stat"], Text("STAT"),
        "Which statistic of it [default: avg]"),
    flag(REPEATS, None, &["convergence-mode"], Text("CRITERION"),
        "ci_width (of the mean), cv, or distribution (of the last two runs) [default: ci_width]"),
    flag(REPEATS, None, &["convergence-threshold"], Number("LIMIT"),
        "Limit of the criterion [default: 0.10 of ci_width, else 0.05]"),
];
