//! Sessions: turns, times to think, users.

use super::rate::RATES;
use super::{ConfigError, SECONDS_MAX, count, filled, no};
use crate::base::{is_header_name, limits};
use crate::config::{Api, Config, Draft, Lengths, PhaseDraft, SessionSpec};

/// Headers that the client sets itself, or that frame a request.
const OWN_HEADERS: [&str; 11] = [
    "accept",
    "accept-encoding",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "transfer-encoding",
    "x-correlation-id",
    "x-request-id",
];
/// Turns of a session: each has the whole talk before it in its body.
const TURNS_MAX: f64 = 10_000.0;

impl Draft {
    pub(super) fn sessions(&self, config: &mut Config) -> Result<(), ConfigError> {
        let turns = turns(self)?;
        let think = think(self)?;
        let has_users = config.phases.iter().any(|phase| phase.load.users.is_some());
        let has_turns = turns.mean > 1.0 || turns.stddev > 0.0;
        if !has_turns {
            let given = [
                ("session-turn-delay-mean", self.session_turn_delay_mean),
                ("session-turn-delay-stddev", self.session_turn_delay_stddev),
                ("session-delay-ratio", self.session_delay_ratio),
            ];
            if let Some((flag, _)) = given.iter().find(|(_, value)| value.is_some()) {
                return no(flag, "it needs --session-turns-mean over 1");
            }
        }
        if has_users && turns.mean.round() < 2.0 {
            return no(
                "user-centric-rate",
                "it needs --session-turns-mean of 2 or more",
            );
        }
        if has_turns && config.api != Api::Chat {
            let text = "turns are messages of a chat: leave --endpoint-type chat";
            return no("session-turns-mean", text);
        }
        if has_turns && config.extra_inputs.contains_key("messages") {
            return no("extra-inputs", "messages contradicts --session-turns-mean");
        }
        config.session = has_turns.then_some(SessionSpec {
            turns,
            think_ms: think,
            think_ratio: self.session_delay_ratio.unwrap_or(1.0),
        });
        config.session_header = filled("session-header", self.session_header.as_ref())?;
        match config.session_header.as_deref() {
            Some(name) if !is_header_name(name) => no(
                "session-header",
                "a header's name has no spaces or separators",
            ),
            Some(name) if OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name)) => no(
                "session-header",
                format!("{name} is the client's own; give another"),
            ),
            Some(name)
                if config
                    .headers
                    .iter()
                    .any(|(other, _)| other.eq_ignore_ascii_case(name)) =>
            {
                no(
                    "session-header",
                    "it is set by --header, too; leave one of them out",
                )
            }
            _ => Ok(()),
        }
    }
}

fn turns(draft: &Draft) -> Result<Lengths, ConfigError> {
    let mean = draft.session_turns_mean.unwrap_or(1.0);
    if !(1.0..=TURNS_MAX).contains(&mean) {
        let text = format!("{mean:?} is out of range; give 1 to {TURNS_MAX}");
        return no("session-turns-mean", text);
    }
    let stddev = draft.session_turns_stddev.unwrap_or(0.0);
    if !(0.0..=TURNS_MAX).contains(&stddev) {
        let text = format!("{stddev:?} is out of range; give 0 to {TURNS_MAX}");
        return no("session-turns-stddev", text);
    }
    Ok(Lengths { mean, stddev })
}

fn think(draft: &Draft) -> Result<Lengths, ConfigError> {
    let ms = |flag, value: Option<f64>, unit: &str| match value.unwrap_or(0.0) {
        value if (0.0..=SECONDS_MAX).contains(&value) => Ok(value),
        value => no(
            flag,
            format!("{value:?} is out of range; give 0 {unit}or more"),
        ),
    };
    ms("session-delay-ratio", draft.session_delay_ratio, "")?;
    Ok(Lengths {
        mean: ms(
            "session-turn-delay-mean",
            draft.session_turn_delay_mean,
            "ms ",
        )?,
        stddev: ms(
            "session-turn-delay-stddev",
            draft.session_turn_delay_stddev,
            "ms ",
        )?,
    })
}

/// Users, and the rate of their turns together.
pub(super) fn users(draft: &PhaseDraft) -> Result<Option<(u32, f64)>, ConfigError> {
    let most = i64::from(limits::CONCURRENCY_MAX);
    let users = count("num-users", draft.num_users, 1, most)?;
    let (per_s, users) = match (draft.user_centric_rate, users) {
        (None, None) => return Ok(None),
        (None, Some(_)) => return no("num-users", "it needs --user-centric-rate"),
        (Some(_), None) => return no("user-centric-rate", "it needs --num-users"),
        (Some(per_s), Some(users)) => (per_s, users),
    };
    if !RATES.contains(&per_s) {
        let text = format!("{per_s:?} is out of range; give 0.000001 to 10000000");
        return no("user-centric-rate", text);
    }
    let others = [
        ("request-rate", draft.request_rate.is_some()),
        ("request-rate-series", draft.request_rate_series.is_some()),
        ("concurrency", draft.concurrency.is_some()),
        ("arrival-pattern", draft.arrival_pattern.is_some()),
        ("arrival-smoothness", draft.arrival_smoothness.is_some()),
    ];
    match others.iter().find(|(_, given)| *given) {
        Some((flag, _)) => no(
            "user-centric-rate",
            format!("it contradicts --{flag}: users have a rate of their own"),
        ),
        None => Ok(u32::try_from(users).ok().map(|users| (users, per_s))),
    }
}
