//! How many requests, when, and for how long.

use super::{COUNT_MAX, ConfigError, SECONDS_MAX, count, no, seconds};
use crate::base::limits;
use crate::config::{Config, Draft, Load};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::RangeInclusive;

/// Requests per second: from one in eleven days to more than any machine sends.
const RATES: RangeInclusive<f64> = 1e-6..=1e7;

impl Draft {
    pub(super) fn load(
        &self,
        config: &mut Config,
        notes: &mut Vec<String>,
    ) -> Result<(), ConfigError> {
        config.load = load(self)?;
        let is_open = !matches!(config.load, Load::Concurrency(_));
        let capped = config.load.cap().is_some();
        let needs = "it needs --request-rate";
        let late = self.when_late.as_deref();
        config.skip_late = skips("when-late", "send", late, is_open, needs)?;
        let needs = "it needs --request-rate with --concurrency";
        let full = self.when_capped.as_deref();
        config.skip_capped = skips("when-capped", "wait", full, capped, needs)?;
        config.duration = match self.benchmark_duration {
            None => None,
            given => Some(seconds("benchmark-duration", given, 0.0, false)?),
        };
        let timed = config.duration.is_some();
        if !timed && self.benchmark_grace_period.is_some() {
            return no("benchmark-grace-period", "it needs --benchmark-duration");
        }
        let grace = self.benchmark_grace_period;
        config.grace = seconds("benchmark-grace-period", grace, 30.0, true)?;
        let asked = count("request-count", self.request_count, 1, COUNT_MAX)?;
        let streams = match config.load {
            Load::Concurrency(n) => u64::from(n),
            Load::Constant { cap, .. } | Load::Poisson { cap, .. } => u64::from(cap.unwrap_or(0)),
        };
        config.request_count_defaulted = asked.is_none() && !timed;
        config.request_count = match config.request_count_defaulted {
            true => Some((2 * streams).max(10)),
            false => asked,
        };
        if let Some(n) = config.request_count {
            if config.request_count_defaulted {
                notes.push(format!(
                    "no stop condition: {n} requests (max(10, 2 x concurrency))"
                ));
            }
            if n < streams {
                notes.push(format!(
                    "--request-count {n} is below --concurrency {streams}: at most {n} in flight"
                ));
            }
        }
        let warmup = count(
            "warmup-request-count",
            self.warmup_request_count,
            0,
            COUNT_MAX,
        )?;
        config.warmup_count = warmup.unwrap_or(0);
        due_times_fit(config)?;
        let limit = self.request_timeout_seconds;
        config.request_timeout = seconds("request-timeout-seconds", limit, 21_600.0, false)?;
        let limit = self.connect_timeout_seconds;
        config.connect_timeout = seconds("connect-timeout-seconds", limit, 30.0, false)?;
        config.seed_given = self.random_seed.is_some();
        config.seed = match self.random_seed {
            Some(seed) => seed,
            None => RandomState::new().build_hasher().finish(),
        };
        Ok(())
    }
}

/// Is the policy `skip`, not its alternative? `applies` is false where it would never be asked.
fn skips(
    flag: &'static str,
    other: &str,
    policy: Option<&str>,
    applies: bool,
    needs: &str,
) -> Result<bool, ConfigError> {
    match policy {
        None => Ok(false),
        Some("skip") if applies => Ok(true),
        Some(policy) if policy == other && applies => Ok(false),
        Some(policy) if policy == other || policy == "skip" => no(flag, needs),
        Some(policy) => no(flag, format!("`{policy}` is unknown; {other} or skip")),
    }
}

fn load(draft: &Draft) -> Result<Load, ConfigError> {
    let most = i64::from(limits::CONCURRENCY_MAX);
    let cap = count("concurrency", draft.concurrency, 1, most)?;
    let cap = cap.and_then(|n| u32::try_from(n).ok());
    let Some(rate_per_s) = draft.request_rate else {
        if let Some(pattern) = &draft.arrival_pattern {
            return no(
                "arrival-pattern",
                format!("`{pattern}` needs --request-rate"),
            );
        }
        return Ok(Load::Concurrency(cap.unwrap_or(1)));
    };
    if !RATES.contains(&rate_per_s) {
        return no(
            "request-rate",
            format!("{rate_per_s:?} is out of range; give 0.000001 to 10000000"),
        );
    }
    match draft.arrival_pattern.as_deref() {
        None | Some("poisson") => Ok(Load::Poisson { rate_per_s, cap }),
        Some("constant") => Ok(Load::Constant { rate_per_s, cap }),
        Some("gamma") => no(
            "arrival-pattern",
            "gamma comes with a later version; poisson or constant",
        ),
        Some(other) => no(
            "arrival-pattern",
            format!("`{other}` is unknown; poisson or constant"),
        ),
    }
}

/// Due times are all computed before the start: they must fit memory and the clock.
#[expect(clippy::cast_precision_loss, reason = "an estimate against a limit")]
fn due_times_fit(config: &Config) -> Result<(), ConfigError> {
    let (Load::Constant { rate_per_s, .. } | Load::Poisson { rate_per_s, .. }) = config.load else {
        return Ok(());
    };
    let by_count = config.request_count.map_or(f64::MAX, |n| n as f64);
    let by_time = config
        .duration
        .map_or(f64::MAX, |d| d.as_secs() * rate_per_s);
    let planned = by_count.min(by_time) + config.warmup_count as f64;
    if planned > limits::DUE_TIMES_MAX as f64 {
        return no(
            "request-rate",
            format!(
                "{planned:.0} requests are planned, the most is {}; shorten the run or lower the \
                 rate",
                limits::DUE_TIMES_MAX
            ),
        );
    }
    if planned / rate_per_s > SECONDS_MAX {
        return no(
            "request-rate",
            "the run would last over ten years; give more, or fewer requests",
        );
    }
    Ok(())
}
