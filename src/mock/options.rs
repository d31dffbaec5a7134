//! What the mock is asked to be.

use super::fault::Faults;
use crate::base::{Ns, Rng};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How a delay varies around its value. The ratio is of the value: 0.1 is a tenth.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Jitter {
    /// Not at all.
    #[default]
    None,
    /// Uniform in `[1 - ratio, 1 + ratio]`.
    Uniform(f64),
    /// Normal with mean 1 and this standard deviation, cut at 0.
    Normal(f64),
    /// Log-normal with mean 1 and this sigma of the logarithm.
    LogNormal(f64),
}

impl Jitter {
    /// `span`, varied by one draw.
    pub(super) fn apply(self, span: Ns, rng: &mut Rng) -> Ns {
        let factor = match self {
            Jitter::None => return span,
            Jitter::Uniform(ratio) => 1.0 + ratio * (2.0 * rng.unit() - 1.0),
            Jitter::Normal(ratio) => 1.0 + ratio * rng.normal(),
            Jitter::LogNormal(sigma) => (sigma * rng.normal() - sigma * sigma / 2.0).exp(),
        };
        Ns::from_secs_f64(span.as_secs() * factor)
    }
}

/// What usage is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum UsageMode {
    /// Never.
    Off,
    /// As OpenAI: in a body always, in a stream when `include_usage` asks.
    #[default]
    On,
    /// As `On`, with cached, reasoning and prediction details.
    Details,
}

/// How a line of an event stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LineEnd {
    /// `\n`
    #[default]
    Lf,
    /// `\r\n`
    CrLf,
    /// `\r`
    Cr,
}

impl LineEnd {
    pub(super) fn text(self) -> &'static str {
        match self {
            LineEnd::Lf => "\n",
            LineEnd::CrLf => "\r\n",
            LineEnd::Cr => "\r",
        }
    }
}

/// A load beyond which answers begin late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cliff {
    /// The most requests in flight that are answered in time.
    pub at: u32,
    /// How many times `ttft` a request waits that finds more, itself counted; 0 to 1000.
    pub factor: f64,
}

/// What the mock is asked to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address or name to listen on.
    pub host: String,
    /// Port; 0 takes a free one.
    pub port: u16,
    /// Event loops, each a thread; at least 1.
    pub threads: usize,
    /// Core of each thread, used in turn; `None` pins nothing.
    pub cores: Option<Vec<usize>>,
    /// Speak TLS, with a certificate made at start that no client trusts by itself.
    pub tls: bool,
    /// The model served; `any` answers to every name and echoes it.
    pub model: String,
    /// From the request's last byte to the first token.
    pub ttft: Ns,
    /// From one event to the next.
    pub itl: Ns,
    /// Added to `itl` for each request in flight, this one too: batches take longer the more they
    /// serve, and the tokens per second of all streams together level off at one over it.
    pub itl_per_stream: Ns,
    /// From so many requests in flight on, more make `ttft` longer: a cliff.
    pub cliff: Option<Cliff>,
    /// How `ttft` varies, once per request.
    pub ttft_jitter: Jitter,
    /// How `itl` varies, at every gap.
    pub itl_jitter: Jitter,
    /// Seed of delays, lengths and faults.
    pub seed: u64,
    /// Tokens of an answer when the request asks for none, reasoning included.
    pub tokens: u32,
    /// Standard deviation of that length, in tokens; 0 is none.
    pub tokens_stddev: f64,
    /// Answer as many tokens as the request's `max_completion_tokens` or `max_tokens`.
    pub honors_max_tokens: bool,
    /// Tokens per event; at least 1.
    pub tokens_per_chunk: u32,
    /// Bytes of a token's event from `data:` to its blank line; shorter ones are padded in `id`.
    pub chunk_bytes: usize,
    /// Reasoning tokens before the answer, part of its length.
    pub reasoning: u32,
    /// What usage is told.
    pub usage: UsageMode,
    /// `prompt_tokens` in usage; `None` takes a quarter of the bytes of the prompt's JSON.
    pub prompt_tokens: Option<u32>,
    /// Bytes per write; `None` writes whole events.
    pub fragment: Option<usize>,
    /// How a line of an event stream ends.
    pub line_end: LineEnd,
    /// A comment whenever a stream was silent for so long; `None` sends none.
    pub keepalive: Option<Ns>,
    /// No delays: events leave as fast as the client takes them.
    pub unpaced: bool,
    /// Events per write when unpaced; at least 1.
    pub batch: u32,
    /// Which requests go wrong, and how.
    pub faults: Faults,
    /// Requests served at a time; more wait in a queue.
    pub concurrency_limit: Option<u32>,
    /// Ends after so many answered requests.
    pub requests_limit: Option<u64>,
    /// Ends after so long.
    pub seconds_limit: Option<f64>,
    /// Ends when standard input closes: a child that must not outlive its parent.
    pub exits_with_stdin: bool,
    /// Ends at SIGINT and SIGTERM.
    pub handles_signals: bool,
    /// Ends when this becomes true; for callers in the same process.
    pub stop: Arc<AtomicBool>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            host: "127.0.0.1".to_owned(),
            port: 8000,
            threads: 1,
            cores: None,
            tls: false,
            model: "any".to_owned(),
            ttft: Ns::from_ms(50),
            itl: Ns::from_ms(20),
            itl_per_stream: Ns::ZERO,
            cliff: None,
            ttft_jitter: Jitter::None,
            itl_jitter: Jitter::None,
            seed: 0,
            tokens: 128,
            tokens_stddev: 0.0,
            honors_max_tokens: true,
            tokens_per_chunk: 1,
            chunk_bytes: 240,
            reasoning: 0,
            usage: UsageMode::On,
            prompt_tokens: None,
            fragment: None,
            line_end: LineEnd::Lf,
            keepalive: None,
            unpaced: false,
            batch: 1,
            faults: Faults::default(),
            concurrency_limit: None,
            requests_limit: None,
            seconds_limit: None,
            exits_with_stdin: false,
            handles_signals: true,
            stop: Arc::new(AtomicBool::new(false)),
        }
    }
}

impl Options {
    /// Time to the first token of a request that finds so many in flight, itself counted.
    pub(super) fn first(&self, in_flight: impl FnOnce() -> u64) -> Ns {
        match self.cliff {
            Some(cliff) if in_flight() > u64::from(cliff.at) => {
                Ns::from_secs_f64(self.ttft.as_secs() * cliff.factor)
            }
            _ => self.ttft,
        }
    }

    /// Time to the next event with so many requests in flight. Cost: nothing is asked where the
    /// law does not depend on it.
    pub(super) fn gap(&self, in_flight: impl FnOnce() -> u64) -> Ns {
        match self.itl_per_stream.0 {
            0 => self.itl,
            each => Ns(self.itl.0.saturating_add(each.saturating_mul(in_flight()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Stream;

    #[test]
    fn batches_take_longer_the_more_they_serve_and_a_cliff_is_steep() {
        let mut options = Options {
            ttft: Ns::from_ms(50),
            itl: Ns::from_ms(20),
            ..Options::default()
        };
        let unasked = || panic!("nobody needs to know");
        assert_eq!(options.gap(unasked), Ns::from_ms(20));
        assert_eq!(options.first(unasked), Ns::from_ms(50));
        options.itl_per_stream = Ns(500_000);
        assert_eq!(options.gap(|| 8), Ns::from_ms(24));
        options.cliff = Some(Cliff { at: 8, factor: 4.0 });
        assert_eq!(options.first(|| 8), Ns::from_ms(50));
        assert_eq!(options.first(|| 9), Ns::from_ms(200));
    }

    #[test]
    fn every_law_keeps_the_mean() {
        let span = Ns::from_ms(10);
        for law in [
            Jitter::None,
            Jitter::Uniform(0.5),
            Jitter::Normal(0.2),
            Jitter::LogNormal(0.4),
        ] {
            let mut rng = Rng::new(1, Stream::Test, 0);
            let sum: f64 = (0..20_000).map(|_| law.apply(span, &mut rng).as_ms()).sum();
            assert!((sum / 20_000.0 - 10.0).abs() < 0.1, "{law:?}");
        }
    }
}
