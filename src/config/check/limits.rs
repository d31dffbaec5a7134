//! What ends requests, or the run, before their time.

use super::{ConfigError, no, seconds};
use crate::config::{Cancellation, Config, Draft};

impl Draft {
    /// After [`Draft::target`].
    pub(super) fn limits(&self, config: &mut Config) -> Result<(), ConfigError> {
        let limit = self.request_timeout_seconds;
        config.request_timeout = seconds("request-timeout-seconds", limit, 21_600.0, false)?;
        let limit = self.connect_timeout_seconds;
        config.connect_timeout = seconds("connect-timeout-seconds", limit, 30.0, false)?;
        let given = |flag, value: Option<f64>| {
            let checked = value.map(|_| seconds(flag, value, 0.0, false));
            checked.transpose()
        };
        let limit = self.first_token_timeout_seconds;
        config.first_token_timeout = given("first-token-timeout-seconds", limit)?;
        if limit.is_some() && !config.streaming {
            let text = "it needs --streaming; a whole answer has --request-timeout-seconds";
            return no("first-token-timeout-seconds", text);
        }
        config.idle_timeout = given("idle-timeout-seconds", self.idle_timeout_seconds)?;
        config.cancellation = cancellation(self)?;
        config.failed_share_max = self.failed_request_threshold;
        match self.failed_request_threshold {
            Some(share) if !(0.0..=1.0).contains(&share) => {
                let text = format!("{share:?} is out of range; give a share from 0 to 1");
                no("failed-request-threshold", text)
            }
            _ => Ok(()),
        }
    }
}

fn cancellation(draft: &Draft) -> Result<Option<Cancellation>, ConfigError> {
    let given = draft.request_cancellation_delay;
    let Some(percent) = draft.request_cancellation_rate else {
        return match given {
            Some(_) => no(
                "request-cancellation-delay",
                "it needs --request-cancellation-rate",
            ),
            None => Ok(None),
        };
    };
    if !(0.0..=100.0).contains(&percent) {
        let text = format!("{percent:?} is out of range; give percent from 0 to 100");
        return no("request-cancellation-rate", text);
    }
    let delay = seconds("request-cancellation-delay", given, 0.0, true)?;
    Ok((percent > 0.0).then_some(Cancellation { percent, delay }))
}
