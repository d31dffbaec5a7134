//! The limits that a run was given, and what they have come to, in words.

use crate::base::Ns;
use crate::config::Config;
use crate::engine::{FailureLimit, Pace};

/// Those in force on each request.
pub fn told(config: &Config) -> String {
    let mut text = format!(
        "{} s in total, from its start to its end; {} s to connect",
        config.request_timeout.as_secs(),
        config.connect_timeout.as_secs()
    );
    let mut add = |limit: Option<Ns>, what: &str| {
        if let Some(limit) = limit {
            text.push_str(&format!("; {} s {what}", limit.as_secs()));
        }
    };
    add(config.first_token_timeout, "to the first content");
    add(config.idle_timeout, "without a byte within the answer");
    text
}

/// What is cancelled on purpose.
pub fn cancelled(config: &Config) -> Option<String> {
    let asked = config.cancellation?;
    Some(format!(
        "{} % of the measured requests are cancelled on purpose, {} s after they were sent",
        asked.percent,
        asked.delay.as_secs()
    ))
}

/// Fewer measured requests say nothing on the share that fails.
const JUDGED_MIN: u32 = 10;

/// The limit on failures, as AIPerf judges by it.
pub fn failures(config: &Config) -> Option<FailureLimit> {
    let held = config.load().concurrency.map_or(0, |level| level.most);
    let least = u64::from(held.max(JUDGED_MIN));
    config
        .failed_share_max
        .map(|share| FailureLimit::new(share, least))
}

/// Measured requests that have ended, of how many.
pub fn done(pace: &Pace) -> String {
    let done = pace.measured_count();
    match pace.planned() {
        (_, Some(count)) => format!("{done} of {count}"),
        _ => done.to_string(),
    }
}

/// That too many requests have failed, in one sentence.
pub fn ended_by_failures(pace: &Pace, failures: Option<&FailureLimit>) -> Option<String> {
    let limit = failures.filter(|limit| limit.is_crossed())?;
    Some(format!(
        "ENDED EARLY by --failed-request-threshold {}: {} of the measured requests have failed; {} \
         have ended, and the numbers are of those",
        limit.share_max(),
        pace.failed_count(),
        done(pace)
    ))
}
