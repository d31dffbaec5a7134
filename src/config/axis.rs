//! The settings that a sweep can vary, and how their values are given.

use super::ConfigError;
use super::check::no;
use super::sweep::{Cell, Topology};
use serde_json::{Map, Value};

/// A setting that a sweep can vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Its key among the settings: `isl`.
    pub key: &'static str,
    /// Its flag, without dashes.
    pub flag: &'static str,
    /// As GenAI-Perf calls it: `input_sequence_length`.
    pub name: &'static str,
    /// Its name in a table.
    pub header: &'static str,
    /// More of it is more load.
    pub is_load: bool,
    /// Whole numbers only.
    is_whole: bool,
    /// `--sweep-range A:B` means the powers of two, else every whole number.
    by_powers: bool,
    /// GenAI-Perf's range where none is given.
    usual: Option<(u64, u64)>,
}

const fn axis(key: &'static str, flag: &'static str, header: &'static str) -> Axis {
    Axis {
        key,
        flag,
        name: key,
        header,
        is_load: false,
        is_whole: true,
        by_powers: true,
        usual: None,
    }
}

/// Bytes of a point's name.
const LABEL_MAX: usize = 100;
/// Settings that no point can have for itself.
const OF_THE_COMMAND: &[&str] = &[
    "allow_invalid",
    "artifact_dir",
    "artifact_format",
    "calibrate",
    "dry_run",
    "export_level",
    "generate_plots",
    "overwrite",
    "phases",
    "profile_export_prefix",
    "random_seed",
    "ui",
    "verbose",
];

/// All of them, in the order in which a grid varies them, the last fastest.
pub const AXES: &[Axis] = &[
    Axis {
        name: "input_sequence_length",
        is_whole: false,
        usual: Some((100, 1_000)),
        ..axis("isl", "isl", "ISL")
    },
    Axis {
        is_whole: false,
        ..axis("isl_stddev", "isl-stddev", "ISL stddev")
    },
    Axis {
        name: "output_sequence_length",
        is_whole: false,
        ..axis("osl", "osl", "OSL")
    },
    Axis {
        is_whole: false,
        ..axis("osl_stddev", "osl-stddev", "OSL stddev")
    },
    Axis {
        name: "batch_size",
        usual: Some((1, 128)),
        ..axis("prompt_batch_size", "prompt-batch-size", "Batch Size")
    },
    Axis {
        by_powers: false,
        ..axis(
            "num_dataset_entries",
            "num-dataset-entries",
            "Num Dataset Entries",
        )
    },
    Axis {
        by_powers: false,
        ..axis("request_count", "request-count", "Request Count")
    },
    Axis {
        by_powers: false,
        ..axis("num_sessions", "num-sessions", "Sessions")
    },
    Axis {
        is_whole: false,
        by_powers: false,
        ..axis("session_turns_mean", "session-turns-mean", "Turns")
    },
    Axis {
        is_whole: false,
        by_powers: false,
        ..axis("benchmark_duration", "benchmark-duration", "Duration")
    },
    Axis {
        is_load: true,
        ..axis("num_users", "num-users", "Users")
    },
    Axis {
        is_load: true,
        ..axis(
            "prefill_concurrency",
            "prefill-concurrency",
            "Prefill Concurrency",
        )
    },
    Axis {
        is_load: true,
        is_whole: false,
        usual: Some((16, 8_192)),
        ..axis("request_rate", "request-rate", "Request Rate")
    },
    Axis {
        is_load: true,
        usual: Some((1, 1_024)),
        ..axis("concurrency", "concurrency", "Concurrency")
    },
];

/// The setting with this key.
pub fn find(key: &str) -> Option<Axis> {
    AXES.iter().copied().find(|axis| axis.key == key)
}

/// What `--sweep-type` calls so.
pub(super) fn of_sweep_type(name: &str) -> Result<Axis, ConfigError> {
    let found = AXES
        .iter()
        .find(|axis| axis.name == name || axis.key == name);
    match found {
        Some(axis) => Ok(*axis),
        None => no(
            "sweep-type",
            format!(
                "`{name}`; give concurrency, request_rate, input_sequence_length, \
                 output_sequence_length, batch_size, num_dataset_entries or prefill_concurrency; \
                 or grid or zip for lists"
            ),
        ),
    }
}

/// AIPerf's `--sweep-type`: how lists are combined.
pub(super) fn topology(name: &str) -> Option<Topology> {
    match name {
        "grid" => Some(Topology::Grid),
        "zip" => Some(Topology::Zip),
        _ => None,
    }
}

/// A value as a number; an endless rate is infinite.
pub(super) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::INFINITY)
}

/// A number as a setting has it: whole ones without a point.
pub(super) fn value(number: f64) -> Value {
    match number.fract() == 0.0 && number.abs() < 1e15 {
        #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
        true => Value::from(number as i64),
        false if number.is_infinite() => "inf".into(),
        false => number.into(),
    }
}

/// The first that equals one before it.
pub(super) fn first_twice<T: PartialEq>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut seen: Vec<T> = Vec::new();
    for value in values {
        if seen.contains(&value) {
            return Some(value);
        }
        seen.push(value);
    }
    None
}

/// Takes the lists out of the settings, in the order of [`AXES`]. Errors: a list that is empty, has
/// a value twice in a grid, or an endless one.
pub(super) fn take(
    settings: &mut Map<String, Value>,
    topology: Topology,
) -> Result<Vec<(Axis, Vec<Value>)>, String> {
    let mut found = Vec::new();
    for axis in AXES {
        let Some(Value::Array(values)) = settings.get(axis.key) else {
            continue;
        };
        let values = values.clone();
        settings.shift_remove(axis.key);
        if values.iter().any(|value| !number(value).is_finite()) {
            return Err(format!(
                "--{}: inf is no value of a list; give numbers",
                axis.flag
            ));
        }
        match values.len() {
            0 => return Err(format!("--{}: the list is empty; give values", axis.flag)),
            1 if topology == Topology::Grid => {
                settings.insert(axis.key.into(), values[0].clone());
            }
            _ => {
                // Of pairs only the whole point must differ.
                if topology == Topology::Grid {
                    distinct(*axis, &values)?;
                }
                found.push((*axis, values));
            }
        }
    }
    Ok(found)
}

fn distinct(axis: Axis, values: &[Value]) -> Result<(), String> {
    match first_twice(values.iter().map(number)) {
        Some(twice) => Err(format!(
            "--{}: {twice} is there twice; give it once, and --num-profile-runs N to repeat runs",
            axis.flag
        )),
        None => Ok(()),
    }
}

/// The values of `--sweep-range A:B[:STEP]` or `--sweep-list`, else GenAI-Perf's range.
pub(super) fn values(
    axis: Axis,
    range: Option<&str>,
    list: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<Vec<Value>, ConfigError> {
    let values = match (range, list) {
        (Some(_), Some(_)) => {
            return no(
                "sweep-list",
                "--sweep-range gives the values already; give one of both",
            );
        }
        (Some(range), None) => of_range(axis, range, notes)?,
        (None, Some(list)) => of_list(axis, list)?,
        (None, None) => match axis.usual {
            Some((low, high)) => {
                let range = format!("{low}:{high}");
                notes.push(format!("--sweep-range is {range} where none is given"));
                of_range(axis, &range, notes)?
            }
            None => {
                return no(
                    "sweep-type",
                    "give the values too: --sweep-range A:B or --sweep-list",
                );
            }
        },
    };
    Ok(values)
}

fn of_list(axis: Axis, list: &str) -> Result<Vec<Value>, ConfigError> {
    if list.trim().is_empty() {
        return no("sweep-list", "the list is empty; give values, as in 1,2,4");
    }
    let parse = |text: &str| {
        let text = text.trim();
        let whole = text.parse::<u64>().ok().filter(|n| *n > 0).map(Value::from);
        let number = text
            .parse::<f64>()
            .ok()
            .filter(|n| n.is_finite() && *n > 0.0);
        let number = number.filter(|_| !axis.is_whole).map(Value::from);
        match whole.or(number) {
            Some(value) => Ok(value),
            None => no(
                "sweep-list",
                format!("`{text}` in `{list}`; give numbers above 0, as in 1,2,4"),
            ),
        }
    };
    let values: Vec<Value> = list.split(',').map(parse).collect::<Result<_, _>>()?;
    match first_twice(values.iter().map(number)) {
        Some(twice) => no(
            "sweep-list",
            format!(
                "{twice} is there twice; give it once, and --num-profile-runs N to repeat runs"
            ),
        ),
        None => Ok(values),
    }
}

fn of_range(axis: Axis, range: &str, notes: &mut Vec<String>) -> Result<Vec<Value>, ConfigError> {
    let bad = |why: &str| {
        no(
            "sweep-range",
            format!("`{range}`: {why}; give A:B or A:B:STEP, as in 1:64 or 10:100:10"),
        )
    };
    let parts: Option<Vec<u64>> = range
        .split(':')
        .map(|part| part.trim().parse().ok())
        .collect();
    let (low, high, step) = match parts.as_deref() {
        Some(&[low, high]) => (low, high, None),
        Some(&[low, high, step]) => (low, high, Some(step)),
        _ => return bad("two or three whole numbers are needed"),
    };
    if low == 0 || step == Some(0) {
        return bad("0 is not above 0");
    }
    if low > high {
        return bad("it ends before it begins");
    }
    let values: Vec<u64> = match step {
        Some(step) => steps(low, high, step),
        None if axis.by_powers => {
            let powers: Vec<u64> = (0..63)
                .map(|n| 1 << n)
                .filter(|n| (low..=high).contains(n))
                .collect();
            if powers.first() != Some(&low) || powers.last() != Some(&high) {
                let list: Vec<String> = powers.iter().map(u64::to_string).collect();
                notes.push(format!(
                    "--sweep-range {range}: the powers of two in it, {}; A:B:STEP for others",
                    list.join(", ")
                ));
            }
            powers
        }
        None => steps(low, high, 1),
    };
    match values.is_empty() {
        true => bad("no power of two lies in it"),
        false => Ok(values.into_iter().map(Value::from).collect()),
    }
}

/// Bounded: whoever asks for more gets an error for their number.
fn steps(low: u64, high: u64, step: u64) -> Vec<u64> {
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    let most = crate::base::limits::RUNS_MAX + 1;
    (low..=high).step_by(step).take(most).collect()
}

/// A point of `--variant "name: key=value, key=value"`.
pub(super) fn variant(
    given: &str,
    key: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Cell, String> {
    let bad = |why: &str| format!("--variant `{given}`: {why}; give NAME: key=value, key=value");
    let (label, settings) = given.split_once(':').ok_or_else(|| bad("it has no name"))?;
    let is_fit = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let label = label.trim();
    let is_taken = ["aggregate", "sweep_aggregate", "profile_runs"].contains(&label);
    if label.is_empty() || label.len() > LABEL_MAX || is_taken || !label.chars().all(is_fit) {
        return Err(bad(
            "a name is of up to 100 letters, digits, - and _, and no folder of ours",
        ));
    }
    let mut cell = Cell {
        label: label.into(),
        values: Vec::new(),
        settings: Map::new(),
    };
    for pair in settings.split(',').filter(|pair| !pair.trim().is_empty()) {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| bad("a setting has no value"))?;
        let key = key(name.trim()).map_err(|why| bad(&format!("{}: {why}", name.trim())))?;
        if OF_THE_COMMAND.contains(&key.as_str()) {
            return Err(bad(&format!("{key} is the whole command's, not a point's")));
        }
        let value = value.trim();
        let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
        if let Some(axis) = find(&key) {
            cell.values.push((axis, number(&value)));
        }
        cell.settings.insert(key, value);
    }
    match cell.settings.is_empty() {
        true => Err(bad("it sets nothing")),
        false => Ok(cell),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(key: &str, range: &str) -> (Vec<f64>, Vec<String>) {
        let mut notes = Vec::new();
        let found = values(find(key).unwrap(), Some(range), None, &mut notes).unwrap();
        (found.iter().map(number).collect(), notes)
    }

    #[test]
    fn a_range_is_powers_of_two_or_steps() {
        assert_eq!(
            range("concurrency", "1:8"),
            (vec![1.0, 2.0, 4.0, 8.0], vec![])
        );
        assert_eq!(range("concurrency", "1:7:3").0, [1.0, 4.0, 7.0]);
        assert_eq!(range("num_dataset_entries", "5:7").0, [5.0, 6.0, 7.0]);
        let (powers, notes) = range("isl", "100:1000");
        assert_eq!(powers, [128.0, 256.0, 512.0]);
        assert!(notes[0].contains("128, 256, 512"), "{notes:?}");
        assert_eq!(range("concurrency", "4:4").0, [4.0]);
        // A range of any size is cut, not filled.
        let huge = range("num_dataset_entries", "1:9000000000000000000").0;
        assert_eq!(huge.len(), crate::base::limits::RUNS_MAX + 1);
    }

    #[test]
    fn a_list_keeps_its_order_and_whole_settings_take_whole_numbers() {
        let rate = find("request_rate").unwrap();
        let found = values(rate, None, Some("2.5, 1"), &mut Vec::new()).unwrap();
        assert_eq!(found.iter().map(number).collect::<Vec<_>>(), [2.5, 1.0]);
        let concurrency = find("concurrency").unwrap();
        for list in ["2.5", "-1", "0", "x", "1,", ""] {
            assert!(
                values(concurrency, None, Some(list), &mut Vec::new()).is_err(),
                "{list}"
            );
        }
    }

    #[test]
    fn every_axis_is_a_setting_of_a_run() {
        for axis in AXES {
            let alone = serde_json::json!({ axis.key: 1 });
            assert!(
                serde_json::from_value::<crate::config::Draft>(alone).is_ok(),
                "{}",
                axis.key
            );
            assert_eq!(axis.flag.replace('-', "_"), axis.key);
        }
    }
}
