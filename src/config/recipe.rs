//! The settings of a search as typed, and what they expand to: a search, or a grid of runs and what
//! is made of their figures. The recipes are AIPerf's, by its names.

use super::check::{count, no};
use super::grids::doubled;
use super::search::{Objective, Planner, SearchAxis, SearchSpec, TierSpec};
use super::{ConfigError, Many, Slo};
use serde::Deserialize;

/// Probes of a search at most, where none are asked for.
const ITERATIONS: u32 = 40;
/// Range of a search where none is given.
const RANGE: (f64, f64) = (1.0, 1_000.0);
/// Every setting of a search; keys are the flags' first names with underscores.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
#[expect(
    missing_docs,
    reason = "each is documented as its flag in `cli::flags`"
)]
pub struct SearchDraft {
    pub search: Option<String>,
    pub search_recipe: Option<String>,
    pub search_sla: Option<Many>,
    pub search_sla_tier: Option<Many>,
    pub search_space: Option<Many>,
    pub search_metric: Option<String>,
    pub search_stat: Option<String>,
    pub search_direction: Option<String>,
    pub search_max_iterations: Option<i64>,
    pub search_initial_points: Option<i64>,
    pub search_random_seed: Option<i64>,
    pub search_planner: Option<String>,
    pub search_style: Option<String>,
    pub sla_precision: Option<String>,
    pub sla_replicates: Option<i64>,
    pub ttft_sla_ms: Option<f64>,
    pub itl_sla_ms: Option<f64>,
    pub tpot_sla_ms: Option<f64>,
    pub e2e_sla_ms: Option<f64>,
    pub error_rate_sla: Option<f64>,
    pub slo_attainment_fraction: Option<f64>,
    pub degradation_threshold: Option<f64>,
    pub degradation_metric_tag: Option<String>,
    pub degradation_stat: Option<String>,
    pub isl_min: Option<i64>,
    pub isl_max: Option<i64>,
    pub isl_steps: Option<i64>,
    pub osl_min: Option<i64>,
    pub osl_max: Option<i64>,
    pub osl_steps: Option<i64>,
    pub concurrency_min: Option<i64>,
    pub concurrency_max: Option<i64>,
    pub concurrency_steps: Option<i64>,
    pub isl_osl_pairs: Option<String>,
}

/// What the settings of the run itself say, as far as a search asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunGiven {
    /// `--request-count` is given: it is kept for each probe.
    pub request_count: bool,
    /// `--benchmark-duration` is given: it ends a probe.
    pub duration: bool,
    /// `--goodput` is given.
    pub goodput: bool,
    /// `--streaming` is given: without it there is no time to a first token.
    pub streaming: bool,
}

/// What is made of a grid's figures.
#[derive(Clone, Debug, PartialEq)]
pub enum PostProcess {
    /// The first load at which a statistic is worse than the first point's by more than a share.
    Knee {
        /// Metric tag.
        tag: String,
        /// Statistic.
        stat: String,
        /// 0.2 is a fifth more.
        threshold: f64,
    },
    /// TTFT by input length: a line, a parabola where the line does not fit.
    PrefillCurve,
    /// ITL by concurrency, a line for each output length.
    DecodeCurve,
    /// The points that none is better than in both throughput and latency.
    Pareto,
    /// The largest load that meets these conditions, typed for `stats::Gate`.
    Feasible(Vec<String>),
}

/// What a recipe becomes.
#[derive(Clone, Debug, PartialEq)]
pub enum Expansion {
    /// One search.
    Search(SearchSpec),
    /// Runs of which each has one value of each axis.
    Grid {
        /// Keys of settings, and their values.
        axes: Vec<(&'static str, Vec<f64>)>,
        /// The first of each, the second of each and so on; else every combination.
        zip: bool,
        /// What is made of the figures.
        post: PostProcess,
        /// The recipe.
        recipe: String,
    },
}

/// An expansion, and sentences on how the settings were understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Expanded {
    /// What is run.
    pub expansion: Expansion,
    /// For the reader.
    pub notes: Vec<String>,
}

impl SearchDraft {
    /// Checks everything; `None` when no search is asked for.
    pub fn check(&self, given: RunGiven) -> Result<Option<Expanded>, ConfigError> {
        self.ranges()?;
        let mut notes = Vec::new();
        let expansion = match self.search_recipe.as_deref() {
            Some(_) if self.search.is_some() => {
                return no("search-recipe", "--search is one already; give one of both");
            }
            Some("concurrency-ramp") => self.ramp()?,
            Some("prefill-ttft-curve") => self.prefill()?,
            Some("decode-itl-curve") => self.decode()?,
            Some("pareto-sweep") => self.pareto()?,
            Some(
                "max-concurrency-under-sla"
                | "max-goodput-under-slo"
                | "max-throughput-ttft-sla"
                | "max-throughput-itl-sla",
            ) => self.searched(given, &mut notes)?,
            Some(other) => {
                return no(
                    "search-recipe",
                    format!(
                        "`{other}`; give max-concurrency-under-sla, max-goodput-under-slo, \
                         max-throughput-ttft-sla, max-throughput-itl-sla, concurrency-ramp, \
                         prefill-ttft-curve, decode-itl-curve or pareto-sweep"
                    ),
                );
            }
            None if self.search.is_some() || self.search_space.is_some() => {
                self.searched(given, &mut notes)?
            }
            None => return self.alone(),
        };
        Ok(Some(Expanded { expansion, notes }))
    }

    /// Settings of a search without one.
    fn alone(&self) -> Result<Option<Expanded>, ConfigError> {
        match *self == SearchDraft::default() {
            true => Ok(None),
            false => no(
                "search",
                "settings of a search are given and no search; add --search concurrency or a \
                 --search-recipe",
            ),
        }
    }

    fn ranges(&self) -> Result<(), ConfigError> {
        for (flag, value) in [
            ("ttft-sla-ms", self.ttft_sla_ms),
            ("itl-sla-ms", self.itl_sla_ms),
            ("tpot-sla-ms", self.tpot_sla_ms),
            ("e2e-sla-ms", self.e2e_sla_ms),
        ] {
            if value.is_some_and(|ms| !(ms > 0.0 && ms.is_finite())) {
                return no(flag, "give milliseconds, more than 0");
            }
        }
        for (flag, value, is_one_fine) in [
            ("error-rate-sla", self.error_rate_sla, false),
            (
                "slo-attainment-fraction",
                self.slo_attainment_fraction,
                true,
            ),
            ("degradation-threshold", self.degradation_threshold, false),
        ] {
            let is_fine =
                |share: f64| share > 0.0 && (share < 1.0 || (is_one_fine && share == 1.0));
            if value.is_some_and(|share| !is_fine(share)) {
                return no(flag, "give a share between 0 and 1, 0.05 for 5 %");
            }
        }
        if self.itl_sla_ms.is_some() && self.tpot_sla_ms.is_some() {
            return no(
                "tpot-sla-ms",
                "it is --itl-sla-ms by another name; give one of both",
            );
        }
        count("search-max-iterations", self.search_max_iterations, 2, 200)?;
        count("search-initial-points", self.search_initial_points, 1, 200)?;
        count("search-random-seed", self.search_random_seed, 0, i64::MAX)?;
        count("sla-replicates", self.sla_replicates, 1, 20)?;
        Ok(())
    }

    fn searched(&self, given: RunGiven, notes: &mut Vec<String>) -> Result<Expansion, ConfigError> {
        let recipe = self.search_recipe.as_deref();
        let (axis, lo, hi) = self.space()?;
        if recipe.is_some() && axis != SearchAxis::Concurrency {
            return no(
                "search-space",
                "this recipe searches concurrency; use --search request_rate",
            );
        }
        let is_goodput = recipe == Some("max-goodput-under-slo");
        let goodput = match is_goodput {
            true => self.per_request(given)?,
            false => Vec::new(),
        };
        let mut slas = match is_goodput {
            true => {
                let fraction = self.slo_attainment_fraction.unwrap_or(0.95);
                vec![format!("good_request_fraction:avg:ge:{fraction}")]
            }
            false => self.limits(),
        };
        slas.extend(self.search_sla.as_ref().map(Many::list).unwrap_or_default());
        let tiers = self.tiers()?;
        self.needed(recipe, slas.is_empty() && tiers.is_empty())?;
        let planner = self.planner(notes)?;
        let requests = self.requests(given, notes)?;
        let Some(planner) = planner else {
            let name = recipe.unwrap_or("max-concurrency-under-sla").to_string();
            let axes = vec![(axis.name(), doubled(lo, hi))];
            let post = PostProcess::Feasible(slas);
            let zip = false;
            return Ok(Expansion::Grid {
                axes,
                zip,
                post,
                recipe: name,
            });
        };
        let unsigned = |value: Option<i64>| value.and_then(|n| u32::try_from(n).ok());
        Ok(Expansion::Search(SearchSpec {
            recipe: recipe.map(String::from),
            planner,
            axis,
            lo,
            hi,
            slas,
            goodput,
            tiers,
            objective: self.objective(is_goodput)?,
            requests,
            iterations_max: unsigned(self.search_max_iterations).unwrap_or(ITERATIONS),
            replicates: unsigned(self.sla_replicates),
            seed: self.search_random_seed.and_then(|n| u64::try_from(n).ok()),
        }))
    }

    /// Conditions of a recipe, and of a search without any.
    fn needed(&self, recipe: Option<&str>, is_without: bool) -> Result<(), ConfigError> {
        match recipe {
            Some("max-throughput-ttft-sla") if self.ttft_sla_ms.is_none() => no(
                "search-recipe",
                "max-throughput-ttft-sla needs --ttft-sla-ms",
            ),
            Some("max-throughput-itl-sla") if self.itl_sla_ms.or(self.tpot_sla_ms).is_none() => {
                no("search-recipe", "max-throughput-itl-sla needs --itl-sla-ms")
            }
            _ if is_without => no(
                "search-sla",
                "a search needs a condition, as --search-sla 'p95(ttft)<500ms' or --ttft-sla-ms \
                 500",
            ),
            _ => Ok(()),
        }
    }

    /// What is varied, and from where to where.
    fn space(&self) -> Result<(SearchAxis, f64, f64), ConfigError> {
        let given = self
            .search_space
            .as_ref()
            .map(Many::list)
            .unwrap_or_default();
        let (flag, text) = match (&self.search, given.as_slice()) {
            (Some(_), [_, ..]) => {
                return no("search-space", "--search says it already; give one of both");
            }
            (Some(text), []) => ("search", text.as_str()),
            (None, [text]) => ("search-space", text.as_str()),
            (None, [_, _, ..]) => {
                return no(
                    "search-space",
                    "one setting is searched at a time; sweep the other, as in --isl 128,1024",
                );
            }
            (None, []) => ("search", "concurrency"),
        };
        let bad = || {
            no(
                flag,
                format!(
                    "`{text}`; give concurrency or request_rate, or with a range, as \
                     concurrency:1:256"
                ),
            )
        };
        let parts: Vec<&str> = text.split([':', ',']).map(str::trim).collect();
        let parts = match parts.as_slice() {
            [rest @ .., "int" | "float"] => rest,
            all => all,
        };
        let Some(axis) = parts.first().and_then(|name| axis(name)) else {
            return bad();
        };
        let numbers: Option<Vec<f64>> = parts[1..].iter().map(|part| part.parse().ok()).collect();
        let (lo, hi) = match numbers.as_deref() {
            Some([]) => RANGE,
            Some(&[lo, hi]) => (lo, hi),
            _ => return bad(),
        };
        let float = |n: i64| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
        let (lo, hi) = match axis {
            SearchAxis::Concurrency => (
                self.concurrency_min.map_or(lo, float),
                self.concurrency_max.map_or(hi, float),
            ),
            SearchAxis::RequestRate => (lo, hi),
        };
        let is_whole = !axis.is_whole() || (lo.fract() == 0.0 && hi.fract() == 0.0 && lo >= 1.0);
        match lo > 0.0 && lo < hi && hi <= 1e6 && is_whole {
            true => Ok((axis, lo, hi)),
            false => no(
                flag,
                format!("from {lo} to {hi}; give numbers above 0, the smaller first"),
            ),
        }
    }

    /// Conditions from AIPerf's flags.
    fn limits(&self) -> Vec<String> {
        let of = |tag: &str, stat: &str, limit: Option<f64>| {
            limit.map(|limit| format!("{tag}:{stat}:lt:{limit}"))
        };
        [
            of("time_to_first_token", "p95", self.ttft_sla_ms),
            of(
                "inter_token_latency",
                "p95",
                self.itl_sla_ms.or(self.tpot_sla_ms),
            ),
            of("request_latency", "p99", self.e2e_sla_ms),
            // The metric is in percent.
            of(
                "request_error_rate",
                "avg",
                self.error_rate_sla.map(|share| 100.0 * share),
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Service levels of each request, for the recipe of goodput.
    fn per_request(&self, given: RunGiven) -> Result<Vec<Slo>, ConfigError> {
        let of = |tag: &str, limit: Option<f64>| {
            limit.map(|limit| Slo {
                tag: tag.into(),
                limit,
            })
        };
        let found: Vec<Slo> = [
            of("time_to_first_token", self.ttft_sla_ms),
            of("inter_token_latency", self.itl_sla_ms.or(self.tpot_sla_ms)),
            of("request_latency", self.e2e_sla_ms),
        ]
        .into_iter()
        .flatten()
        .collect();
        match found.is_empty() && !given.goodput {
            true => no(
                "search-recipe",
                "max-goodput-under-slo needs what makes a request good: --ttft-sla-ms, \
                 --itl-sla-ms, --e2e-sla-ms or --goodput",
            ),
            false => Ok(found),
        }
    }

    fn tiers(&self) -> Result<Vec<TierSpec>, ConfigError> {
        let texts = self
            .search_sla_tier
            .as_ref()
            .map(Many::list)
            .unwrap_or_default();
        let tier = |text: &String| {
            let (label, rest) = text.split_once(':').unwrap_or((text, ""));
            let split = rest.split(',').map(str::trim);
            let slas: Vec<String> = split.filter(|s| !s.is_empty()).map(String::from).collect();
            match label.trim().is_empty() || slas.is_empty() {
                true => no(
                    "search-sla-tier",
                    format!("`{text}`; give LABEL:CONDITION, several with commas"),
                ),
                false => Ok(TierSpec {
                    label: label.trim().into(),
                    slas,
                }),
            }
        };
        texts.iter().map(tier).collect()
    }

    /// `None` is a grid.
    fn planner(&self, notes: &mut Vec<String>) -> Result<Option<Planner>, ConfigError> {
        let (flag, name) = match (&self.search_planner, &self.search_style) {
            (Some(planner), Some(style)) if planner != style => {
                return no(
                    "search-style",
                    "--search-planner says it already; give one of both",
                );
            }
            (Some(name), _) => ("search-planner", name.as_str()),
            (None, Some(name)) => ("search-style", name.as_str()),
            (None, None) => return Ok(Some(Planner::SmoothIsotonic)),
        };
        match name {
            "smooth_isotonic" => Ok(Some(Planner::SmoothIsotonic)),
            "monotonic" | "monotonic_sla" => Ok(Some(Planner::MonotonicSla)),
            "bo" | "bayesian" | "optuna" => {
                notes.push(format!(
                    "--{flag} {name}: smooth_isotonic searches in its place, with fewer probes \
                     where a load either holds or not"
                ));
                Ok(Some(Planner::SmoothIsotonic))
            }
            "grid" => Ok(None),
            other => no(
                flag,
                format!("`{other}`; give smooth_isotonic, monotonic_sla, bayesian or grid"),
            ),
        }
    }

    /// Requests of a probe; `None` keeps what the run's own settings say.
    fn requests(
        &self,
        given: RunGiven,
        notes: &mut Vec<String>,
    ) -> Result<Option<u64>, ConfigError> {
        let requests = match self.sla_precision.as_deref() {
            Some("tight") => 10_000,
            Some("normal") => 1_000,
            Some("coarse") => 300,
            None if given.duration => return Ok(None),
            None => 1_000,
            Some(other) => {
                return no(
                    "sla-precision",
                    format!("`{other}`; give tight, normal or coarse"),
                );
            }
        };
        if given.request_count {
            if self.sla_precision.is_some() {
                notes.push("--sla-precision: --request-count is kept for each probe".into());
            }
            return Ok(None);
        }
        Ok(Some(requests))
    }

    fn objective(&self, is_goodput: bool) -> Result<Objective, ConfigError> {
        let usual = if is_goodput {
            "goodput"
        } else {
            "output_token_throughput"
        };
        let is_maximized = match self.search_direction.as_deref() {
            None => true,
            Some(word) if word.eq_ignore_ascii_case("maximize") => true,
            Some(word) if word.eq_ignore_ascii_case("minimize") => false,
            Some(other) => {
                return no(
                    "search-direction",
                    format!("`{other}`; give maximize or minimize"),
                );
            }
        };
        Ok(Objective {
            tag: self.search_metric.clone().unwrap_or(usual.into()),
            stat: self.search_stat.clone().unwrap_or("avg".into()),
            is_maximized,
        })
    }
}

/// By AIPerf's path, or by the setting's name.
fn axis(name: &str) -> Option<SearchAxis> {
    let name = name.strip_prefix("phases.profiling.").unwrap_or(name);
    match name.replace('-', "_").as_str() {
        "concurrency" => Some(SearchAxis::Concurrency),
        "request_rate" | "rate" => Some(SearchAxis::RequestRate),
        _ => None,
    }
}

#[cfg(test)]
#[path = "recipe_tests.rs"]
mod tests;
