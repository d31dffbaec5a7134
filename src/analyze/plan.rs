//! From what a self-benchmark is asked for to the configuration of each of its runs.

use super::ladder::Ladder;
use crate::base::Ns;
use crate::config::{
    Config, Cores, Lengths, Load, Pattern, PhaseSpec, TokenCount, TokenizerSpec, Ui, Url,
};
use crate::stats::capacity::Mode;
use std::path::PathBuf;

/// Answers of one stream in a step with few streams: each is a TTFT.
const ANSWERS_MIN: f64 = 16.0;
/// Tokens of an answer at least: a shorter one costs by the request.
const TOKENS_MIN: f64 = 16.0;
/// Requests whose bodies are all there before the clock starts, at most.
const REQUESTS_MAX: f64 = 19_000.0;

/// What a self-benchmark is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the loads are.
    pub mode: Mode,
    /// The loads, in order; empty is a search.
    pub loads: Vec<u32>,
    /// Length of a step.
    pub step: Ns,
    /// A coarser search.
    pub quick: bool,
    /// Least bytes of an event of our mock.
    pub chunk_bytes: u64,
    /// Our mock speaks TLS.
    pub tls: bool,
    /// The client's CPUs, or how many.
    pub cores: Cores,
    /// A server in the place of our own mock.
    pub against: Option<Url>,
    /// Its model; absent when it is to be asked.
    pub model: Option<String>,
    /// Do not verify its certificate.
    pub tls_insecure: bool,
    /// Where the JSON goes; `-` is stdout, in the place of the tables.
    pub json: Option<PathBuf>,
}

impl Options {
    /// The search, where no loads were given.
    pub fn ladder(&self) -> Ladder {
        match self.mode {
            Mode::Streams { .. } => Ladder::new(256, self.quick),
            Mode::Requests => Ladder::new(500, self.quick),
        }
    }

    /// True when the events come by TLS.
    pub fn is_tls(&self) -> bool {
        self.against.as_ref().map_or(self.tls, |url| url.tls)
    }

    /// Flags of our own mock. Streams do not march in step: each gap is a little off.
    pub fn mock_flags(&self) -> Vec<String> {
        let gap_ms = match self.mode {
            Mode::Streams { rate_per_stream } => 1e3 / rate_per_stream,
            Mode::Requests => 5.0,
        };
        let mut flags = vec![
            format!("--ttft-ms={gap_ms}"),
            format!("--itl-ms={gap_ms}"),
            "--jitter=uniform:0.2".into(),
            format!("--chunk-bytes={}", self.chunk_bytes),
        ];
        if self.tls {
            flags.push("--tls".into());
        }
        flags
    }

    /// One run; `mock` is where our own one listens.
    pub fn config(&self, load: u32, mock: Option<&Url>) -> Config {
        let step_s = self.step.as_secs();
        let (load, requests, tokens) = match self.mode {
            Mode::Streams { rate_per_stream } => {
                let events = rate_per_stream * step_s;
                let most = (events / TOKENS_MIN).floor().max(1.0);
                let answers = (ANSWERS_MIN / f64::from(load)).floor().clamp(1.0, most);
                let tokens = (events / answers).round().max(3.0);
                (Load::closed(load), f64::from(load) * answers, tokens)
            }
            Mode::Requests => {
                let rate_per_s = f64::from(load);
                let requests = (rate_per_s * step_s).round().clamp(2.0, REQUESTS_MAX);
                (
                    Load::open(Pattern::Poisson, rate_per_s, None),
                    requests,
                    1.0,
                )
            }
        };
        let own = self.against.is_none();
        Config {
            model: self.model.clone().or(own.then(|| "self-bench".into())),
            streaming: true,
            urls: self.against.iter().chain(mock).cloned().collect(),
            phases: vec![PhaseSpec {
                load,
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "whole"
                )]
                requests: Some(requests as u64),
                // A server that is too slow ends no step later than this.
                duration: Some(Ns(self.step.0.saturating_mul(2)) + Ns::from_ms(1_000)),
                grace: Some(self.step + Ns::from_ms(1_000)),
                ..PhaseSpec::default()
            }],
            isl: fixed(32.0),
            osl: Some(fixed(tokens)),
            tokenizer: TokenizerSpec::builtin(),
            token_count: TokenCount::Server,
            seed: 1,
            seed_given: true,
            connect_timeout: Ns::from_ms(5_000),
            ui: Ui::None,
            cores: self.cores.clone(),
            tls_insecure: own || self.tls_insecure,
            preflight: !own,
            gpu_telemetry: None,
            server_metrics: None,
            check_stamps: true,
            ..Config::default()
        }
    }
}

fn fixed(mean: f64) -> Lengths {
    Lengths { mean, stddev: 0.0 }
}
