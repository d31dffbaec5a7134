//! The recipes that are grids: which points, and what is made of their figures.

use super::ConfigError;
use super::check::{count, no};
use super::recipe::{Expansion, PostProcess, SearchDraft};

/// Most points of an axis: AIPerf has no limit, a grid of more is a typing error.
const STEPS_MAX: i64 = 100;
/// Loads of `pareto-sweep`.
const PARETO: [f64; 5] = [1.0, 4.0, 16.0, 64.0, 256.0];

impl SearchDraft {
    pub(super) fn ramp(&self) -> Result<Expansion, ConfigError> {
        let post = PostProcess::Knee {
            tag: self
                .degradation_metric_tag
                .clone()
                .unwrap_or("request_latency".into()),
            stat: self.degradation_stat.clone().unwrap_or("p99".into()),
            threshold: self.degradation_threshold.unwrap_or(0.2),
        };
        let axes = vec![("concurrency", self.concurrency((1, 1_000, 8))?)];
        self.grid(axes, false, post)
    }

    pub(super) fn prefill(&self) -> Result<Expansion, ConfigError> {
        let flags = ["isl-min", "isl-max", "isl-steps"];
        let asked = [self.isl_min, self.isl_max, self.isl_steps];
        let axes = vec![("isl", steps(flags, asked, (256, 32_768, 8))?)];
        self.grid(axes, false, PostProcess::PrefillCurve)
    }

    pub(super) fn decode(&self) -> Result<Expansion, ConfigError> {
        let flags = ["osl-min", "osl-max", "osl-steps"];
        let asked = [self.osl_min, self.osl_max, self.osl_steps];
        let axes = vec![
            ("osl", steps(flags, asked, (64, 1_024, 4))?),
            ("concurrency", self.concurrency((1, 200, 6))?),
        ];
        self.grid(axes, false, PostProcess::DecodeCurve)
    }

    /// Each pair of lengths at each load, as one list.
    pub(super) fn pareto(&self) -> Result<Expansion, ConfigError> {
        let loads = PARETO.to_vec();
        let Some(text) = &self.isl_osl_pairs else {
            return self.grid(vec![("concurrency", loads)], false, PostProcess::Pareto);
        };
        let pairs = pairs(text)?;
        let each = || {
            pairs
                .iter()
                .flat_map(|pair| loads.iter().map(move |load| (pair, load)))
        };
        let axes = vec![
            ("isl", each().map(|(pair, _)| pair.0).collect()),
            ("osl", each().map(|(pair, _)| pair.1).collect()),
            ("concurrency", each().map(|(_, load)| *load).collect()),
        ];
        self.grid(axes, true, PostProcess::Pareto)
    }

    fn grid(
        &self,
        axes: Vec<(&'static str, Vec<f64>)>,
        zip: bool,
        post: PostProcess,
    ) -> Result<Expansion, ConfigError> {
        let recipe = self.search_recipe.clone().unwrap_or_default();
        if self.search_planner.is_some() || self.search_sla.is_some() {
            return no(
                "search-recipe",
                format!("{recipe} is a grid: no planner and no conditions"),
            );
        }
        Ok(Expansion::Grid {
            axes,
            zip,
            post,
            recipe,
        })
    }

    fn concurrency(&self, usual: (i64, i64, i64)) -> Result<Vec<f64>, ConfigError> {
        let flags = ["concurrency-min", "concurrency-max", "concurrency-steps"];
        let asked = [
            self.concurrency_min,
            self.concurrency_max,
            self.concurrency_steps,
        ];
        steps(flags, asked, usual)
    }
}

/// Whole numbers at equal ratios, none twice.
fn steps(
    flags: [&'static str; 3],
    asked: [Option<i64>; 3],
    usual: (i64, i64, i64),
) -> Result<Vec<f64>, ConfigError> {
    let most = i64::from(crate::base::limits::CONCURRENCY_MAX);
    count(flags[0], asked[0], 1, most)?;
    count(flags[1], asked[1], 1, most)?;
    count(flags[2], asked[2], 2, STEPS_MAX)?;
    let (low, high) = (asked[0].unwrap_or(usual.0), asked[1].unwrap_or(usual.1));
    if low >= high {
        return no(
            flags[1],
            format!("from {low} to {high}; give the larger one here"),
        );
    }
    let whole = |n: i64| f64::from(i32::try_from(n).unwrap_or(i32::MAX));
    let last = asked[2].unwrap_or(usual.2) - 1;
    let ratio = whole(high) / whole(low);
    let step = |n: i64| (whole(low) * ratio.powf(whole(n) / whole(last))).round();
    let mut values: Vec<f64> = (0..=last).map(step).collect();
    values.dedup();
    Ok(values)
}

/// From `lo` to `hi` by doubling, both included.
pub(super) fn doubled(lo: f64, hi: f64) -> Vec<f64> {
    let next = |load: &f64| (*load < hi).then_some((2.0 * load).min(hi));
    std::iter::successors(Some(lo), next).collect()
}

/// `128/128,1024/512`, also with `:` or `x` between, or `128,128;1024,512`.
pub(super) fn pairs(text: &str) -> Result<Vec<(f64, f64)>, ConfigError> {
    let outer: &[char] = if text.contains(';') {
        &[';']
    } else {
        &[',', ' ']
    };
    let parts = text
        .split(outer)
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let parse = |part: &str| {
        let (isl, osl) = part.split_once(['/', ':', 'x', ','])?;
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| *n > 0);
        Some((f64::from(number(isl)?), f64::from(number(osl)?)))
    };
    let found: Option<Vec<(f64, f64)>> = parts.map(parse).collect();
    match found.filter(|pairs| !pairs.is_empty()) {
        Some(pairs) => Ok(pairs),
        None => no(
            "isl-osl-pairs",
            format!("`{text}`; give ISL/OSL pairs, as in 128/128,1024/512"),
        ),
    }
}
