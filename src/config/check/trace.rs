//! A trace file, and its times.

use super::{ConfigError, SECONDS_MAX, filled, given_of, no};
use crate::base::Ns;
use crate::config::{Api, Config, Draft, TraceSpec};

impl Draft {
    pub(super) fn trace(&self, config: &mut Config) -> Result<(), ConfigError> {
        let Some(path) = filled("input-file", self.input_file.as_ref())? else {
            return match self.without_trace() {
                Some(flag) => no(flag, "it needs --input-file"),
                None => Ok(()),
            };
        };
        match self.custom_dataset_type.as_deref() {
            None | Some("mooncake_trace" | "single_turn") => {}
            Some("raw_payload") if config.api == Api::Raw => {}
            Some(other) => {
                let text =
                    format!("`{other}` comes with a later version; mooncake_trace or single_turn");
                return no("custom-dataset-type", text);
            }
        }
        self.beside_trace()?;
        if self.fixed_schedule == Some(false)
            && let Some(flag) = self.times_of_trace()
        {
            return no(
                flag,
                "--no-fixed-schedule leaves the times of the trace alone",
            );
        }
        let speedup = self.trace_speedup.unwrap_or(1.0);
        if !(1e-6..=1e6).contains(&speedup) {
            let text = format!("{speedup:?} is out of range; give 0.000001 to 1000000");
            return no("trace-speedup", text);
        }
        let ms = |flag, value: Option<f64>| match value {
            Some(ms) if !(0.0..=SECONDS_MAX * 1e3).contains(&ms) => {
                no(flag, format!("{ms:?} is out of range; give 0 ms or more"))
            }
            value => Ok(value.map(|ms| Ns::from_secs_f64(ms / 1e3))),
        };
        let start = ms(
            "fixed-schedule-start-offset",
            self.fixed_schedule_start_offset,
        )?;
        let end = ms("fixed-schedule-end-offset", self.fixed_schedule_end_offset)?;
        if let (Some(start), Some(end)) = (start, end)
            && end < start
        {
            return no("fixed-schedule-end-offset", "it is before the start offset");
        }
        let auto_offset = self.fixed_schedule_auto_offset.unwrap_or(false);
        if auto_offset && start.is_some() {
            let text = "it contradicts --fixed-schedule-start-offset; leave one of them out";
            return no("fixed-schedule-auto-offset", text);
        }
        config.trace = Some(TraceSpec {
            path: path.into(),
            capped: self.concurrency.is_some(),
            scheduled: self
                .fixed_schedule
                .or(self.times_of_trace().map(|_| true))
                .or(self.rate_of_its_own().map(|_| false)),
            auto_offset,
            start,
            end,
            speedup,
            jitter: self.trace_jitter.unwrap_or(false),
        });
        Ok(())
    }

    /// A setting of a trace that there is not.
    fn without_trace(&self) -> Option<&'static str> {
        let others = [
            ("custom-dataset-type", self.custom_dataset_type.is_some()),
            ("fixed-schedule", self.fixed_schedule == Some(true)),
        ];
        let given = given_of(&others);
        given.or(self.times_of_trace())
    }

    /// A setting of the trace's times.
    fn times_of_trace(&self) -> Option<&'static str> {
        let settings = [
            (
                "fixed-schedule-auto-offset",
                self.fixed_schedule_auto_offset == Some(true),
            ),
            (
                "fixed-schedule-start-offset",
                self.fixed_schedule_start_offset.is_some(),
            ),
            (
                "fixed-schedule-end-offset",
                self.fixed_schedule_end_offset.is_some(),
            ),
            ("trace-speedup", self.trace_speedup.is_some()),
            ("trace-jitter", self.trace_jitter == Some(true)),
        ];
        given_of(&settings)
    }

    /// A rate that contradicts the trace's times.
    fn rate_of_its_own(&self) -> Option<&'static str> {
        let rates = [
            ("request-rate", self.request_rate.is_some()),
            ("request-rate-series", self.request_rate_series.is_some()),
            ("user-centric-rate", self.user_centric_rate.is_some()),
        ];
        given_of(&rates)
    }

    /// What a trace has itself.
    fn beside_trace(&self) -> Result<(), ConfigError> {
        let own = [
            ("isl", self.isl.is_some()),
            ("isl-stddev", self.isl_stddev.is_some()),
            ("num-dataset-entries", self.num_dataset_entries.is_some()),
            ("session-turns-mean", self.session_turns_mean.is_some()),
            ("session-turns-stddev", self.session_turns_stddev.is_some()),
            (
                "session-turn-delay-mean",
                self.session_turn_delay_mean.is_some(),
            ),
            ("user-centric-rate", self.user_centric_rate.is_some()),
            ("phases", self.phases.is_some()),
        ];
        if let Some((flag, _)) = own.iter().find(|(_, given)| *given) {
            return no(flag, "--input-file has this itself; leave one of them out");
        }
        let scheduled = self.fixed_schedule == Some(true) || self.times_of_trace().is_some();
        let flag = self.times_of_trace().unwrap_or("fixed-schedule");
        match self.rate_of_its_own().filter(|_| scheduled) {
            Some(other) => no(
                flag,
                format!("it contradicts --{other}: the trace says when; leave one of them out"),
            ),
            None => Ok(()),
        }
    }
}
