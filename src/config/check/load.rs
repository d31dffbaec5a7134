//! How requests arrive, how many, and for how long.

use super::rate::rate;
use super::sessions::users;
use super::{COUNT_MAX, ConfigError, SECONDS_MAX, count, given_of, no, seconds};
use crate::base::limits;
use crate::config::{Config, Draft, Level, Load, PhaseDraft, PhaseSpec, Ramp, RampKind, Rate};
use std::hash::{BuildHasher, Hasher, RandomState};

/// What is in flight at the end of a duration may take so long, as with AIPerf.
const GRACE_S: f64 = 30.0;
/// Phases of a run.
const PHASES_MAX: usize = 64;

impl Draft {
    pub(super) fn load(
        &self,
        config: &mut Config,
        notes: &mut Vec<String>,
    ) -> Result<(), ConfigError> {
        config.seed_given = self.random_seed.is_some();
        config.seed = match self.random_seed {
            Some(seed) => seed,
            None => RandomState::new().build_hasher().finish(),
        };
        config.stable_windows = self.stable_windows()?;
        config.phases = match &self.phases {
            Some(phases) => self.named(phases)?,
            None => self.flagged(config, notes)?,
        };
        let loads = || config.phases.iter().map(|phase| &phase.load);
        let is_open = loads().any(|load| !load.is_closed());
        let capped = loads().any(|load| load.cap().is_some());
        config.stop_oversaturated = self.stop_oversaturated(is_open)?;
        let needs = "it needs --request-rate";
        let late = self.when_late.as_deref();
        config.skip_late = skips("when-late", "send", late, is_open, needs)?;
        let needs = "it needs --request-rate with --concurrency";
        let full = self.when_capped.as_deref();
        config.skip_capped = skips("when-capped", "wait", full, capped, needs)?;
        Ok(())
    }

    /// The phases that the flags make: a warm-up where one is asked for, and the measurement.
    fn flagged(
        &self,
        config: &mut Config,
        notes: &mut Vec<String>,
    ) -> Result<Vec<PhaseSpec>, ConfigError> {
        let draft = PhaseDraft {
            name: None,
            kind: None,
            request_count: self.request_count,
            num_sessions: self.num_sessions,
            duration: self.longest(config.stable_windows),
            grace_period: self.benchmark_grace_period.filter(|_| !self.may_stop()),
            drain: None,
            concurrency: self.concurrency,
            concurrency_ramp_duration: self.concurrency_ramp_duration,
            prefill_concurrency: self.prefill_concurrency,
            prefill_concurrency_ramp_duration: self.prefill_concurrency_ramp_duration,
            concurrency_per_url: self.concurrency_per_url,
            request_rate: self.request_rate,
            user_centric_rate: self.user_centric_rate,
            num_users: self.num_users,
            request_rate_ramp_duration: self.request_rate_ramp_duration,
            request_rate_series: self.request_rate_series.clone(),
            arrival_pattern: self.arrival_pattern.clone(),
            arrival_smoothness: self.arrival_smoothness,
            arrival_normalize: self.arrival_normalize,
            ramp_shape: self.ramp_shape.clone(),
        };
        let mut main = phase(&draft)?;
        // A stop needs no duration for its grace.
        if self.may_stop() {
            let grace = self.benchmark_grace_period;
            main.grace = Some(seconds("benchmark-grace-period", grace, GRACE_S, true)?);
        }
        let level = main.load.concurrency.map(|level| level.most);
        let streams = u64::from(level.or(main.load.users).unwrap_or(0));
        let has_end = |phase: &PhaseSpec| {
            phase.requests.is_some() || phase.sessions.is_some() || phase.duration.is_some()
        };
        config.request_count_defaulted = !has_end(&main);
        if config.request_count_defaulted {
            let rate = main.load.rate.as_ref();
            let ends = |point: &(f64, f64)| point.1 == 0.0;
            let ends_itself = rate.and_then(|rate| rate.series.last()).is_some_and(ends);
            let count = (2 * streams).max(10);
            main.requests = Some(count).filter(|_| !ends_itself);
            // A trace has an end of its own.
            if self.input_file.is_none() && !ends_itself {
                notes.push(format!(
                    "no stop condition: {count} requests (max(10, 2 x concurrency))"
                ));
            }
        }
        if let Some(n) = main.requests.filter(|&n| n < streams) {
            notes.push(format!(
                "--request-count {n} is below --concurrency {streams}: at most {n} in flight"
            ));
        }
        ends_in_time(&main)?;
        let Some(warmup) = self.warmup(&draft)? else {
            return Ok(vec![main]);
        };
        // The warm-up has come up for it, and hands its slots over.
        if !warmup.drains {
            main.load = without_ramps(main.load, &warmup.load);
        }
        Ok(vec![warmup, main])
    }

    /// The warm-up: what it does not say of its own it has from the measurement.
    fn warmup(&self, main: &PhaseDraft) -> Result<Option<PhaseSpec>, ConfigError> {
        let count = self.warmup_request_count.filter(|&count| count != 0);
        let asked =
            count.is_some() || self.num_warmup_sessions.is_some() || self.warmup_duration.is_some();
        if !asked {
            return match self.without_warmup() {
                Some(flag) => no(
                    flag,
                    "it needs a warm-up: --warmup-request-count, --warmup-duration or \
                     --num-warmup-sessions",
                ),
                None => Ok(None),
            };
        }
        let own_rate = self.warmup_request_rate.is_some();
        let own_slots = self.warmup_concurrency.is_some() && !own_rate;
        let rate = |value: Option<f64>| value.filter(|_| !own_slots || main.concurrency.is_some());
        let draft = PhaseDraft {
            request_count: count,
            num_sessions: self.num_warmup_sessions,
            duration: self.warmup_duration,
            grace_period: self.warmup_grace_period,
            drain: self.warmup_drain,
            concurrency: self.warmup_concurrency.or(main.concurrency),
            concurrency_ramp_duration: self
                .warmup_concurrency_ramp_duration
                .or(main.concurrency_ramp_duration),
            prefill_concurrency: self.warmup_prefill_concurrency.or(main.prefill_concurrency),
            prefill_concurrency_ramp_duration: self
                .warmup_prefill_concurrency_ramp_duration
                .or(main.prefill_concurrency_ramp_duration),
            request_rate: self.warmup_request_rate.or(rate(main.request_rate)),
            request_rate_ramp_duration: self
                .warmup_request_rate_ramp_duration
                .or(rate(main.request_rate_ramp_duration)),
            request_rate_series: main.request_rate_series.clone().filter(|_| !own_rate),
            arrival_pattern: self
                .warmup_arrival_pattern
                .clone()
                .or(main.arrival_pattern.clone()),
            ..main.clone()
        };
        let named =
            |error: ConfigError| match WARMUP_FLAGS.iter().find(|(main, _)| *main == error.flag) {
                Some(&(_, flag)) => ConfigError { flag, ..error },
                None => error,
            };
        let mut warmup = phase(&draft).map_err(named)?;
        warmup.name = "warmup".into();
        warmup.measured = false;
        // Without a number of its own it takes as long as it takes, as with AIPerf.
        let grace = self.warmup_grace_period;
        warmup.grace = match grace {
            Some(_) => Some(seconds("warmup-grace-period", grace, 0.0, true)?),
            None => None,
        };
        ends_in_time(&warmup).map_err(named)?;
        Ok(Some(warmup))
    }

    /// A setting of a warm-up that there is not.
    fn without_warmup(&self) -> Option<&'static str> {
        let settings = [
            ("warmup-concurrency", self.warmup_concurrency.is_some()),
            (
                "warmup-prefill-concurrency",
                self.warmup_prefill_concurrency.is_some(),
            ),
            ("warmup-request-rate", self.warmup_request_rate.is_some()),
            (
                "warmup-arrival-pattern",
                self.warmup_arrival_pattern.is_some(),
            ),
            ("warmup-grace-period", self.warmup_grace_period.is_some()),
            ("warmup-drain", self.warmup_drain == Some(true)),
            (
                "warmup-concurrency-ramp-duration",
                self.warmup_concurrency_ramp_duration.is_some(),
            ),
            (
                "warmup-prefill-concurrency-ramp-duration",
                self.warmup_prefill_concurrency_ramp_duration.is_some(),
            ),
            (
                "warmup-request-rate-ramp-duration",
                self.warmup_request_rate_ramp_duration.is_some(),
            ),
        ];
        given_of(&settings)
    }

    /// The phases of a file, which then has the whole load.
    fn named(&self, drafts: &[PhaseDraft]) -> Result<Vec<PhaseSpec>, ConfigError> {
        if let Some(flag) = self.beside_phases() {
            return no(
                flag,
                "`phases` of the file has the whole load; leave one of them out",
            );
        }
        if drafts.len() > PHASES_MAX {
            return no("phases", format!("at most {PHASES_MAX} phases"));
        }
        let mut phases: Vec<PhaseSpec> = Vec::new();
        for (index, draft) in drafts.iter().enumerate() {
            let name = draft
                .name
                .clone()
                .unwrap_or_else(|| format!("phase {}", index + 1));
            let bad = |text: String| no("phases", format!("`{name}`: {text}"));
            let kind = draft.kind.as_deref().unwrap_or(match name.as_str() {
                "warmup" => "warmup",
                _ => "profiling",
            });
            let measured = match kind {
                "warmup" => false,
                "profiling" => true,
                other => return bad(format!("kind: `{other}` is unknown; warmup or profiling")),
            };
            let made = phase(draft).and_then(|phase| ends_in_time(&phase).map(|()| phase));
            let mut made = match made {
                Ok(made) => made,
                Err(error) => return bad(format!("{}: {}", error.flag, error.text)),
            };
            if made.requests.is_none() && made.sessions.is_none() && made.duration.is_none() {
                return bad("it has no end: give requests, sessions or duration".into());
            }
            if name.trim().is_empty() {
                return bad("it has no name".into());
            }
            if phases.iter().any(|other| other.name == name) {
                return bad("the name is there twice".into());
            }
            (made.name, made.measured) = (name, measured);
            if !measured && draft.grace_period.is_none() {
                made.grace = None;
            }
            phases.push(made);
        }
        match phases.iter().any(|phase| phase.measured) {
            true => Ok(phases),
            false => no("phases", "none of them is measured (kind: profiling)"),
        }
    }

    /// A setting of the load that stands beside `phases`.
    fn beside_phases(&self) -> Option<&'static str> {
        let settings = [
            ("concurrency", self.concurrency.is_some()),
            ("request-rate", self.request_rate.is_some()),
            ("request-rate-series", self.request_rate_series.is_some()),
            ("request-count", self.request_count.is_some()),
            ("num-sessions", self.num_sessions.is_some()),
            ("benchmark-duration", self.benchmark_duration.is_some()),
            ("measurement-interval", self.measurement_interval.is_some()),
            (
                "benchmark-grace-period",
                self.benchmark_grace_period.is_some(),
            ),
            ("prefill-concurrency", self.prefill_concurrency.is_some()),
            ("concurrency-per-url", self.concurrency_per_url.is_some()),
            ("arrival-pattern", self.arrival_pattern.is_some()),
            ("warmup-request-count", self.warmup_request_count.is_some()),
            ("warmup-duration", self.warmup_duration.is_some()),
            ("num-warmup-sessions", self.num_warmup_sessions.is_some()),
        ];
        let given = given_of(&settings);
        given.or(self.without_warmup())
    }
}

/// A flag of the measurement, and what the warm-up's is called.
const WARMUP_FLAGS: &[(&str, &str)] = &[
    ("request-count", "warmup-request-count"),
    ("num-sessions", "num-warmup-sessions"),
    ("benchmark-duration", "warmup-duration"),
    ("benchmark-grace-period", "warmup-grace-period"),
    ("concurrency", "warmup-concurrency"),
    (
        "concurrency-ramp-duration",
        "warmup-concurrency-ramp-duration",
    ),
    ("prefill-concurrency", "warmup-prefill-concurrency"),
    (
        "prefill-concurrency-ramp-duration",
        "warmup-prefill-concurrency-ramp-duration",
    ),
    ("request-rate", "warmup-request-rate"),
    (
        "request-rate-ramp-duration",
        "warmup-request-rate-ramp-duration",
    ),
    ("arrival-pattern", "warmup-arrival-pattern"),
];

/// A load that follows one of the same height has come up already.
fn without_ramps(mut load: Load, before: &Load) -> Load {
    let same = |one: Option<Level>, other: Option<Level>| {
        one.map(|level| level.most) == other.map(|level| level.most)
    };
    let flat = |level: &mut Level| level.ramp = None;
    if same(load.concurrency, before.concurrency) {
        load.concurrency.as_mut().map(flat);
    }
    if same(load.prefill, before.prefill) {
        load.prefill.as_mut().map(flat);
    }
    if let (Some(rate), Some(other)) = (&mut load.rate, &before.rate)
        && rate.per_s == other.per_s
    {
        rate.ramp = None;
    }
    load
}

/// One phase; flags in errors are those of the measurement.
fn phase(draft: &PhaseDraft) -> Result<PhaseSpec, ConfigError> {
    let duration = match draft.duration {
        None => None,
        given => Some(seconds("benchmark-duration", given, 0.0, false)?),
    };
    let is_ended = duration.is_some() || draft.drain == Some(true);
    if !is_ended && draft.grace_period.is_some() {
        return no("benchmark-grace-period", "it needs --benchmark-duration");
    }
    let grace = seconds("benchmark-grace-period", draft.grace_period, GRACE_S, true)?;
    Ok(PhaseSpec {
        load: load(draft)?,
        requests: count("request-count", draft.request_count, 1, COUNT_MAX)?,
        sessions: count("num-sessions", draft.num_sessions, 1, COUNT_MAX)?,
        duration,
        grace: Some(grace),
        drains: draft.drain.unwrap_or(false),
        ..PhaseSpec::default()
    })
}

fn load(draft: &PhaseDraft) -> Result<Load, ConfigError> {
    let kind = match draft.ramp_shape.as_deref() {
        None | Some("linear") => RampKind::Linear,
        Some("exponential") => RampKind::Exponential,
        Some("poisson") => RampKind::Poisson,
        Some(other) => {
            let text = format!("`{other}` is unknown; linear, exponential or poisson");
            return no("ramp-shape", text);
        }
    };
    let ramp = |flag, given: Option<f64>| match given {
        None => Ok(None),
        given => seconds(flag, given, 0.0, false).map(|over| Some(Ramp { kind, over })),
    };
    let flag = "concurrency-ramp-duration";
    let slots = ramp(flag, draft.concurrency_ramp_duration)?;
    let concurrency = level("concurrency", draft.concurrency, flag, slots)?;
    let flag = "prefill-concurrency-ramp-duration";
    let prefill_ramp = ramp(flag, draft.prefill_concurrency_ramp_duration)?;
    let prefill = level(
        "prefill-concurrency",
        draft.prefill_concurrency,
        flag,
        prefill_ramp,
    )?;
    let most = i64::from(limits::CONCURRENCY_MAX);
    let per_url = count("concurrency-per-url", draft.concurrency_per_url, 1, most)?;
    let flag = "request-rate-ramp-duration";
    let rate_ramp = ramp(flag, draft.request_rate_ramp_duration)?;
    let users = users(draft)?;
    let rate = match users {
        Some((_, per_s)) => Some(Rate::constant(per_s)),
        None => rate(draft, rate_ramp)?,
    };
    if rate.is_none() && rate_ramp.is_some() {
        return no(flag, "it needs --request-rate");
    }
    let closed = rate.is_none().then(|| Level::flat(1));
    if let (Some(most), Some(slots)) = (prefill, concurrency)
        && most.most > slots.most
    {
        return no(
            "prefill-concurrency",
            "it is above --concurrency, where it caps nothing",
        );
    }
    if draft.ramp_shape.is_some()
        && slots.is_none()
        && prefill_ramp.is_none()
        && rate_ramp.is_none()
    {
        return no(
            "ramp-shape",
            "it needs a ramp, such as --concurrency-ramp-duration",
        );
    }
    Ok(Load {
        rate,
        concurrency: concurrency.or(closed),
        prefill,
        per_url: per_url.and_then(|n| u32::try_from(n).ok()),
        users: users.map(|(count, _)| count),
        ..Load::default()
    })
}

fn level(
    flag: &'static str,
    given: Option<i64>,
    ramp_flag: &'static str,
    ramp: Option<Ramp>,
) -> Result<Option<Level>, ConfigError> {
    let most = i64::from(limits::CONCURRENCY_MAX);
    let most = count(flag, given, 1, most)?.and_then(|n| u32::try_from(n).ok());
    match (most, ramp) {
        (None, Some(_)) => no(ramp_flag, format!("it needs --{flag}")),
        (most, ramp) => Ok(most.map(|most| Level { most, ramp })),
    }
}

/// A count at a rate that would take over ten years is a mistake.
#[expect(clippy::cast_precision_loss, reason = "an estimate against a limit")]
fn ends_in_time(phase: &PhaseSpec) -> Result<(), ConfigError> {
    let Some(rate) = &phase.load.rate else {
        return Ok(());
    };
    let planned = phase.requests.map_or(0.0, |n| n as f64);
    let is_long = rate.series.is_empty() && planned / rate.per_s > SECONDS_MAX;
    match is_long && phase.duration.is_none() {
        true => no(
            "request-rate",
            "the run would last over ten years; give more, or fewer requests",
        ),
        false => Ok(()),
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
