//! Every metric once, as data: tag, header, unit, and how one record gives its value.

use super::distribution::float;
use super::record::{Record, TokenSource};
use super::stages::{MAKING, Part, Stages};
use crate::base::Ns;

/// How a metric comes about.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// One value per valid request, in display units.
    Record(fn(&Record) -> Option<f64>),
    /// Gaps between content events, pooled.
    Events,
    /// From the whole run.
    Run,
}

/// When a metric exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Always.
    Nothing,
    /// Only with streaming.
    Streaming,
    /// Only with `--goodput`.
    Goodput,
    /// Only when something failed.
    Errors,
    /// Only when GPUs were sampled; see `energy`.
    Energy,
    /// Only in an open loop with a cap on requests in flight.
    Capped,
}

/// Where it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// In the main table.
    Default,
    /// With the server's usage.
    Usage,
    /// With the HTTP stages.
    Http,
    /// With the GPUs' power efficiency.
    Power,
    /// In files only.
    None,
    /// Under `client` in the JSON.
    Client,
}

/// A metric's definition.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// AIPerf's tag.
    pub tag: &'static str,
    /// Header of tables.
    pub header: &'static str,
    /// Display unit.
    pub unit: &'static str,
    /// How it comes about.
    pub kind: Kind,
    /// More is better.
    pub larger_is_better: bool,
    /// Place in the console; absent is last.
    pub display_order: Option<u32>,
    /// Where it is shown.
    pub group: Group,
    /// When it exists.
    pub need: Need,
    /// Values are whole numbers in the records file.
    pub is_integer: bool,
    /// Values can be negative.
    pub is_signed: bool,
    /// Also as `adj_<tag>`: tag and header of that.
    pub adjusted: Option<(&'static str, &'static str)>,
}

impl Metric {
    const fn new(tag: &'static str, header: &'static str, unit: &'static str, kind: Kind) -> Self {
        Metric {
            tag,
            header,
            unit,
            kind,
            larger_is_better: false,
            display_order: None,
            group: Group::None,
            need: Need::Nothing,
            is_integer: false,
            is_signed: false,
            adjusted: None,
        }
    }
    const fn more(mut self) -> Self {
        self.larger_is_better = true;
        self
    }
    const fn at(mut self, group: Group, order: u32) -> Self {
        self.group = group;
        self.display_order = Some(order);
        self
    }
    const fn group(mut self, group: Group) -> Self {
        self.group = group;
        self
    }
    const fn need(mut self, need: Need) -> Self {
        self.need = need;
        self
    }
    const fn whole(mut self) -> Self {
        self.is_integer = true;
        self
    }
    const fn signed(mut self) -> Self {
        self.is_signed = true;
        self
    }
    const fn adj(mut self, tag: &'static str, header: &'static str) -> Self {
        self.adjusted = Some((tag, header));
        self
    }
    /// The value that one valid record gives.
    pub fn value(&self, record: &Record) -> Option<f64> {
        match self.kind {
            Kind::Record(value) => value(record).filter(|v| v.is_finite()),
            Kind::Events | Kind::Run => None,
        }
    }
}

fn ms(from: Option<Ns>, to: Option<Ns>) -> Option<f64> {
    to?.since(from?).map(Ns::as_ms)
}
fn count(value: Option<u32>) -> Option<f64> {
    value.map(f64::from)
}
fn positive(value: f64) -> Option<f64> {
    (value > 0.0).then_some(value)
}

/// First content minus start; needs a stream.
pub fn time_to_first_token(r: &Record) -> Option<f64> {
    ms(Some(r.start), r.first_content.filter(|_| r.streamed))
}
/// Last content minus start; usage, `[DONE]` and the close do not move it.
pub fn request_latency(r: &Record) -> Option<f64> {
    ms(Some(r.start), r.last_content)
}
/// Answer and reasoning tokens; absent when 0.
pub fn output_sequence_length(r: &Record) -> Option<f64> {
    let (answer, reasoning) = (r.tokens.output, r.tokens.reasoning);
    answer.or(reasoning)?;
    positive(f64::from(answer.unwrap_or(0)) + f64::from(reasoning.unwrap_or(0)))
}
/// (last content - first content) / (OSL - tokens of the first content event, or 1); absent for
/// OSL below 2.
///
/// ```
/// use tokenring::base::Ns;
/// use tokenring::stats::{Record, metric::inter_token_latency};
/// let mut r = Record { streamed: true, ..Record::default() };
/// r.first_content = Some(Ns::from_ms(200));
/// r.last_content = Some(Ns::from_ms(2200));
/// r.tokens.output = Some(100);
/// r.first_content_tokens = Some(20);
/// assert_eq!(inter_token_latency(&r), Some(25.0));
/// ```
pub fn inter_token_latency(r: &Record) -> Option<f64> {
    itl_ns(r).map(|ns| ns / 1e6)
}
fn itl_ns(r: &Record) -> Option<f64> {
    let osl = output_sequence_length(r).filter(|osl| r.streamed && *osl >= 2.0)?;
    let span = r.last_content?.since(r.first_content?)?;
    let first = count(r.first_content_tokens).filter(|f| *f >= 1.0 && osl - f >= 1.0);
    Some(float(span.0) / (osl - first.unwrap_or(1.0)))
}
fn diff_pct(api: Option<u32>, own: Option<u32>) -> Option<f64> {
    let own = count(own).and_then(positive)?;
    Some(100.0 * (count(api)? - own).abs() / own)
}
fn own_input(r: &Record) -> Option<u32> {
    let used = r
        .tokens
        .input
        .filter(|_| r.tokens.input_source == TokenSource::Client);
    r.tokens.client_input.or(used)
}
/// Server's and own count of the prompt, difference in percent.
pub fn prompt_diff_pct(r: &Record) -> Option<f64> {
    diff_pct(r.usage.prompt, own_input(r))
}
/// Server's and own count of the output, difference in percent.
pub fn completion_diff_pct(r: &Record) -> Option<f64> {
    diff_pct(r.usage.completion, r.tokens.client_output)
}
/// Response head minus start; needs a stream.
///
/// ```
/// use tokenring::base::Ns;
/// use tokenring::stats::{Record, metric::{stream_prefill_latency, stream_setup_latency}};
/// let mut r = Record { streamed: true, start: Ns::from_ms(10), ..Record::default() };
/// r.headers = Some(Ns::from_ms(14));
/// r.first_content = Some(Ns::from_ms(60));
/// assert_eq!(stream_setup_latency(&r), Some(4.0));
/// assert_eq!(stream_prefill_latency(&r), Some(46.0));
/// ```
pub fn stream_setup_latency(r: &Record) -> Option<f64> {
    ms(Some(r.start), r.headers.filter(|_| r.streamed))
}
/// Time to first token minus stream setup: first content minus response head.
pub fn stream_prefill_latency(r: &Record) -> Option<f64> {
    ms(r.headers.filter(|_| r.streamed), r.first_content)
}
/// Reasoning tokens over answer tokens; absent when there are none of either.
///
/// ```
/// use tokenring::stats::{Record, metric::thinking_efficiency};
/// let mut r = Record::default();
/// r.tokens.reasoning = Some(30);
/// assert_eq!(thinking_efficiency(&r), None);
/// r.tokens.output = Some(120);
/// assert_eq!(thinking_efficiency(&r), Some(0.25));
/// ```
pub fn thinking_efficiency(r: &Record) -> Option<f64> {
    let reasoning = count(r.tokens.reasoning).and_then(positive)?;
    Some(reasoning / count(r.tokens.output).and_then(positive)?)
}
/// Of these stages together, of a request that was sent; what a kept connection has not is 0.
fn stage(r: &Record, parts: &[Part]) -> Option<f64> {
    r.sent.map(|_| Stages::of(r).sum(parts).as_ms())
}
/// AIPerf's `http_req_connecting` has TLS in it.
const CONNECTING: &[Part] = &[Part::Connect, Part::Tls];
const EXCHANGE: &[Part] = &[Part::Send, Part::Wait, Part::Receive];
/// Start to done: all of the above. AIPerf counts a connect twice, once in its sending.
const WHOLE: &[Part] = &[
    Part::Blocked,
    Part::Connect,
    Part::Tls,
    Part::Send,
    Part::Wait,
    Part::Receive,
];
/// Difference of the output's length from the asked one, signed, in percent.
pub fn osl_mismatch_pct(r: &Record) -> Option<f64> {
    let asked = count(r.requested_output).and_then(positive)?;
    Some(100.0 * (output_sequence_length(r)? - asked) / asked)
}
/// Seconds of the recordings that were sent.
pub fn audio_duration(r: &Record) -> Option<f64> {
    positive(r.media.audio.as_secs())
}
/// Seconds of recordings over seconds of latency.
///
/// ```
/// use tokenring::base::Ns;
/// use tokenring::stats::{Record, metric::rtfx};
/// let mut r = Record { last_content: Some(Ns::from_ms(1_000)), ..Record::default() };
/// assert_eq!(rtfx(&r), None);
/// r.media.audio = Ns::from_ms(10_000);
/// assert_eq!(rtfx(&r), Some(10.0));
/// ```
pub fn rtfx(r: &Record) -> Option<f64> {
    Some(audio_duration(r)? / (positive(request_latency(r)?)? / 1e3))
}
/// Images sent; absent without.
pub fn num_images(r: &Record) -> Option<f64> {
    positive(f64::from(r.media.images))
}
/// Images over seconds of latency.
///
/// ```
/// use tokenring::base::Ns;
/// use tokenring::stats::{Record, metric::{image_latency, image_throughput}};
/// let mut r = Record { last_content: Some(Ns::from_ms(1_000)), ..Record::default() };
/// r.media.images = 5;
/// assert_eq!(image_throughput(&r), Some(5.0));
/// assert_eq!(image_latency(&r), Some(200.0));
/// ```
pub fn image_throughput(r: &Record) -> Option<f64> {
    Some(num_images(r)? / (positive(request_latency(r)?)? / 1e3))
}
/// Latency over images, in ms.
pub fn image_latency(r: &Record) -> Option<f64> {
    Some(request_latency(r)? / num_images(r)?)
}
/// True when the output misses the asked length by more than 5 % or 50 tokens.
pub fn is_osl_mismatch(r: &Record) -> Option<bool> {
    let asked = count(r.requested_output).and_then(positive)?;
    Some((output_sequence_length(r)? - asked).abs() > (asked * 0.05).min(50.0))
}
/// True when a count of the server is more than 10 % off ours.
pub fn is_usage_discrepancy(r: &Record) -> Option<bool> {
    let found = [prompt_diff_pct(r), completion_diff_pct(r)];
    let worst = found.into_iter().flatten().reduce(f64::max)?;
    Some(worst > 10.0)
}

use Group::{Client, Default as Main, Http, Power, Usage as Server};
use Kind::{Events, Record as Per, Run};
use Need::{Capped, Energy, Errors, Goodput, Streaming};

macro_rules! m {
    ($tag:expr, $header:expr, $unit:expr, $kind:expr) => {
        Metric::new($tag, $header, $unit, $kind)
    };
}

/// The table, in AIPerf's order of keys.
#[rustfmt::skip]
pub static METRICS: &[Metric] = &[
    m!("request_throughput", "Request Throughput", "requests/sec", Run).more().at(Main, 900),
    m!("request_latency", "Request Latency", "ms", Per(request_latency)).at(Main, 300)
        .adj("adj_request_latency", "Request Latency (error-adjusted)"),
    m!("request_count", "Request Count", "requests", Run).more().at(Main, 1100),
    m!("time_to_first_token", "Time to First Token", "ms", Per(time_to_first_token))
        .at(Main, 100).need(Streaming)
        .adj("adj_time_to_first_token", "Time to First Token (error-adjusted)"),
    m!("time_to_second_token", "Time to Second Token", "ms",
        Per(|r| ms(r.first_content.filter(|_| r.streamed), r.second_content)))
        .at(Main, 200).need(Streaming),
    m!("inter_token_latency", "Inter Token Latency", "ms", Per(inter_token_latency))
        .at(Main, 400).need(Streaming)
        .adj("adj_inter_token_latency", "Inter Token Latency (error-adjusted)"),
    m!("output_token_throughput", "Output Token Throughput", "tokens/sec", Run)
        .more().at(Main, 800),
    m!("output_token_throughput_per_user", "Output Token Throughput Per User",
        "tokens/sec/user", Per(|r| itl_ns(r).and_then(positive).map(|ns| 1.0 / (ns / 1e9))))
        .more().at(Main, 500).need(Streaming),
    m!("output_sequence_length", "Output Sequence Length", "tokens",
        Per(output_sequence_length)).more().at(Main, 600).whole(),
    m!("input_sequence_length", "Input Sequence Length", "tokens",
        Per(|r| count(r.tokens.input).and_then(positive))).more().at(Main, 700).whole(),
    m!("goodput", "Goodput", "requests/sec", Run).more().at(Main, 1000).need(Goodput),
    m!("good_request_count", "Good Request Count", "requests", Run).need(Goodput).whole(),
    m!("output_token_count", "Output Token Count", "tokens",
        Per(|r| count(r.tokens.output).and_then(positive))).more().whole(),
    m!("reasoning_token_count", "Reasoning Token Count", "tokens",
        Per(|r| count(r.tokens.reasoning).and_then(positive))).more().whole(),
    m!("inter_chunk_latency", "Inter Chunk Latency", "ms", Events).need(Streaming),
    m!("total_output_tokens", "Total Output Tokens", "tokens", Run).more(),
    m!("benchmark_duration", "Benchmark Duration", "sec", Run),
    m!("total_isl", "Total Input Sequence Length", "tokens", Run).more(),
    m!("total_osl", "Total Output Sequence Length", "tokens", Run).more(),
    m!("error_request_count", "Error Request Count", "requests", Run)
        .at(Main, 9999).need(Errors),
    m!("error_isl", "Error Input Sequence Length", "tokens", Run).more().need(Errors).whole(),
    m!("total_error_isl", "Total Error Input Sequence Length", "tokens", Run)
        .more().need(Errors),
    m!("time_to_first_output_token", "Time to First Output Token", "ms",
        Per(|r| ms(Some(r.start), r.first_output.filter(|_| r.streamed))))
        .at(Main, 210).need(Streaming),
    m!("decode_duration", "Decode Duration", "ms",
        Per(|r| ms(r.first_content.filter(|_| r.streamed), r.last_content)))
        .at(Main, 350).need(Streaming)
        .adj("adj_decode_duration", "Decode Duration (error-adjusted)"),
    m!("prefill_throughput_per_user", "Prefill Throughput Per User", "tokens/sec/user",
        Per(|r| Some(count(r.tokens.input).and_then(positive)?
            / (positive(time_to_first_token(r)?)? / 1e3)))).more().need(Streaming),
    m!("e2e_output_token_throughput", "E2E Output Token Throughput", "tokens/sec/user",
        Per(|r| Some(output_sequence_length(r)? / (positive(request_latency(r)?)? / 1e3))))
        .more().at(Main, 510),
    // The next three and `overall_thinking_efficiency` are AIPerf's experiments: defined and, as
    // released, in none of its files or tables.
    m!("stream_setup_latency", "Stream Setup Latency", "ms", Per(stream_setup_latency))
        .need(Streaming),
    m!("stream_prefill_latency", "Stream Prefill Latency", "ms", Per(stream_prefill_latency))
        .need(Streaming),
    m!("thinking_efficiency", "Thinking Efficiency", "ratio", Per(thinking_efficiency)),
    m!("usage_prompt_tokens", "Usage Prompt Tokens", "tokens", Per(|r| count(r.usage.prompt)))
        .more().at(Server, 1000).whole(),
    m!("usage_prompt_cache_read_tokens", "Usage Prompt Cache Read Tokens", "tokens",
        Per(|r| count(r.usage.cache_read))).more().at(Server, 1010).whole(),
    m!("usage_prompt_cache_write_tokens", "Usage Prompt Cache Write Tokens", "tokens",
        Per(|r| count(r.usage.cache_write))).more().at(Server, 1015).whole(),
    m!("usage_completion_tokens", "Usage Completion Tokens", "tokens",
        Per(|r| count(r.usage.completion))).more().at(Server, 1100).whole(),
    m!("usage_reasoning_tokens", "Usage Reasoning Tokens", "tokens",
        Per(|r| count(r.usage.reasoning))).more().at(Server, 1110).whole(),
    m!("usage_accepted_prediction_tokens", "Usage Accepted Prediction Tokens", "tokens",
        Per(|r| count(r.usage.accepted_prediction))).more().at(Server, 1130).whole(),
    m!("usage_rejected_prediction_tokens", "Usage Rejected Prediction Tokens", "tokens",
        Per(|r| count(r.usage.rejected_prediction))).at(Server, 1140).whole(),
    m!("usage_total_tokens", "Usage Total Tokens", "tokens", Per(|r| count(r.usage.total)))
        .more().at(Server, 1200).whole(),
    m!("usage_prompt_tokens_diff_pct", "Usage Prompt Diff %", "%", Per(prompt_diff_pct)),
    m!("usage_completion_tokens_diff_pct", "Usage Completion Diff %", "%",
        Per(completion_diff_pct)),
    m!("usage_reasoning_tokens_diff_pct", "Usage Reasoning Diff %", "%",
        Per(|r| diff_pct(r.usage.reasoning, r.tokens.client_reasoning))),
    m!("osl_mismatch_diff_pct", "OSL Mismatch Diff %", "%", Per(osl_mismatch_pct)).signed(),
    m!("http_req_blocked", "HTTP Blocked", "ms", Per(|r| stage(r, &[Part::Blocked])))
        .at(Http, 2000),
    m!("http_req_dns_lookup", "HTTP DNS Lookup", "ms", Per(|r| r.sent.map(|_| 0.0)))
        .at(Http, 2010),
    m!("http_req_connecting", "HTTP Connecting", "ms", Per(|r| stage(r, CONNECTING)))
        .at(Http, 2020),
    m!("http_req_sending", "HTTP Sending", "ms", Per(|r| stage(r, &[Part::Send])))
        .at(Http, 2030),
    m!("http_req_waiting", "HTTP Waiting (TTFB)", "ms", Per(|r| stage(r, &[Part::Wait])))
        .at(Http, 2040),
    m!("http_req_receiving", "HTTP Receiving", "ms", Per(|r| stage(r, &[Part::Receive])))
        .at(Http, 2050),
    m!("http_req_connection_reused", "HTTP Connection Reused", "ratio",
        Per(|r| r.sent.map(|_| if r.connect_start.is_none() { 1.0 } else { 0.0 })))
        .at(Http, 2060).whole(),
    m!("http_req_data_sent", "HTTP Data Sent", "KB",
        Per(|r| r.sent.map(|_| float(r.sent_bytes) / 1024.0))).at(Http, 2070),
    m!("http_req_chunks_sent", "HTTP Chunks Sent", "count", Per(|r| r.sent.map(|_| 1.0)))
        .at(Http, 2080).whole(),
    m!("http_req_data_received", "HTTP Data Received", "KB",
        Per(|r| r.sent.map(|_| float(r.received_bytes) / 1024.0))).at(Http, 2090),
    m!("http_req_chunks_received", "HTTP Chunks Received", "count",
        Per(|r| r.sent.map(|_| f64::from(r.reads_count)))).at(Http, 2100).whole(),
    m!("http_req_connection_overhead", "HTTP Connection Overhead", "ms", Per(|r| stage(r, MAKING)))
        .at(Http, 2110),
    m!("http_req_duration", "HTTP Duration (excl. conn)", "ms",
        Per(|r| stage(r, EXCHANGE))).at(Http, 2120),
    m!("http_req_total", "HTTP Total Time", "ms", Per(|r| stage(r, WHOLE)))
        .at(Http, 2130),
    m!("osl_mismatch_count", "OSL Mismatch Count", "requests", Run),
    m!("usage_discrepancy_count", "Usage Discrepancy Count", "requests", Run),
    m!("completed_request_count", "Completed Requests (Success + Error)", "requests", Run)
        .at(Main, 1075),
    m!("request_error_rate", "Request Error Rate", "%", Run).at(Main, 1080),
    m!("good_request_fraction", "GoodRequestFraction", "ratio", Run).more().need(Goodput),
    m!("total_reasoning_tokens", "Total Reasoning Tokens", "tokens", Run).more(),
    m!("overall_thinking_efficiency", "Overall Thinking Efficiency", "ratio", Run),
    m!("total_usage_prompt_tokens", "Total Usage Prompt Tokens", "tokens", Run)
        .more().at(Server, 2000),
    m!("total_usage_prompt_cache_read_tokens", "Total Usage Prompt Cache Read Tokens", "tokens",
        Run).more().at(Server, 2010),
    m!("overall_usage_prompt_cache_read_pct", "Overall Usage Prompt Cache Read %", "%", Run)
        .more().at(Server, 2012),
    m!("total_usage_prompt_cache_write_tokens", "Total Usage Prompt Cache Write Tokens", "tokens",
        Run).more().at(Server, 2015),
    m!("total_usage_completion_tokens", "Total Usage Completion Tokens", "tokens", Run)
        .more().at(Server, 2100),
    m!("total_usage_reasoning_tokens", "Total Usage Reasoning Tokens", "tokens", Run)
        .more().at(Server, 2110),
    m!("total_usage_accepted_prediction_tokens", "Total Usage Accepted Prediction Tokens",
        "tokens", Run).more().at(Server, 2130),
    m!("total_usage_rejected_prediction_tokens", "Total Usage Rejected Prediction Tokens",
        "tokens", Run).at(Server, 2140),
    m!("total_usage_total_tokens", "Total Usage Total Tokens", "tokens", Run)
        .more().at(Server, 2200),
    m!("input_token_throughput", "Input Token Throughput", "tokens/sec", Run)
        .more().at(Main, 805),
    m!("total_token_throughput", "Total Token Throughput", "tokens/sec", Run).more(),
    m!("effective_concurrency", "Effective Concurrency", "requests", Run),
    m!("effective_decode_throughput", "Effective Decode Throughput", "tokens/sec", Run).more(),
    m!("effective_prefill_throughput", "Effective Prefill Throughput", "tokens/sec", Run)
        .more(),
    m!("effective_decode_concurrency", "Effective Decode Concurrency", "requests", Run),
    m!("effective_prefill_concurrency", "Effective Prefill Concurrency", "requests", Run),
    m!("effective_total_throughput", "Effective Total Throughput", "tokens/sec", Run).more(),
    m!("effective_decode_throughput_per_user", "Effective Decode Throughput Per User",
        "tokens/sec/user", Run).more(),
    m!("effective_prefill_throughput_per_user", "Effective Prefill Throughput Per User",
        "tokens/sec/user", Run).more(),
    m!("tokens_in_flight", "Tokens In Flight", "tokens", Run),
    m!("active_decode_throughput", "Active Decode Throughput", "tokens/sec", Run).more(),
    m!("active_prefill_throughput", "Active Prefill Throughput", "tokens/sec", Run).more(),
    m!("active_decode_throughput_per_user", "Active Decode Throughput Per User",
        "tokens/sec/user", Run).more(),
    m!("active_prefill_throughput_per_user", "Active Prefill Throughput Per User",
        "tokens/sec/user", Run).more(),
    m!("active_total_throughput", "Active Total Throughput", "tokens/sec", Run).more(),
    m!("num_images", "Number of Images", "images", Per(num_images)).more().whole(),
    m!("image_throughput", "Image Throughput", "images/sec", Per(image_throughput))
        .more().at(Main, 860),
    m!("image_latency", "Image Latency", "ms/image", Per(image_latency)).at(Main, 861),
    m!("audio_duration", "Audio Duration", "sec", Per(audio_duration)),
    m!("rtfx", "Inverse Real-Time Factor (RTFx)", "ratio", Per(rtfx)).more().at(Main, 850),
    m!("credit_to_start_latency", "Credit-to-Start Latency", "ms",
        Per(|r| Some(r.start.saturating_since(r.due).as_ms()))),
    m!("effective_latency", "Effective Latency (CO-aware)", "ms",
        Per(|r| Some(r.done.saturating_since(r.due).as_ms()))),
    m!("nvidia_total_gpu_power", "Total GPU Power", "W", Run).at(Power, 740).need(Energy),
    m!("nvidia_average_gpu_power", "Average GPU Power", "W", Run).at(Power, 720).need(Energy),
    m!("nvidia_total_gpu_energy", "Total GPU Energy", "J", Run).at(Power, 730).need(Energy),
    m!("nvidia_output_tokens_per_joule", "Output Tokens per Joule", "tokens/J", Run)
        .more().at(Power, 760).need(Energy),
    m!("nvidia_energy_per_output_token", "Energy per Output Token", "mJ/token", Run)
        .at(Power, 750).need(Energy),
    m!("nvidia_energy_per_total_token", "Energy per Total Token", "mJ/token", Run)
        .at(Power, 745).need(Energy),
    m!("nvidia_energy_per_request", "Energy per Request", "joules/request", Run)
        .at(Power, 755).need(Energy),
    m!("nvidia_energy_per_user", "Energy per User", "joules/user", Run)
        .at(Power, 765).need(Energy),
    m!("nvidia_energy_delay_product", "Energy Delay Product", "J*s", Run)
        .at(Power, 700).need(Energy),
    m!("nvidia_performance_per_watt", "Performance per Watt", "requests/sec/W", Run)
        .more().at(Power, 710).need(Energy),
    m!("nvidia_output_tps_per_watt", "Output Tokens per Second per Watt", "tokens/sec/W", Run)
        .more().at(Power, 712).need(Energy),
    m!("nvidia_goodput_per_watt", "Goodput per Watt", "good-req/s/W", Run)
        .more().at(Power, 714).need(Energy),
    m!("amd_total_gpu_power", "Total GPU Power", "W", Run).at(Power, 840).need(Energy),
    m!("amd_average_gpu_power", "Average GPU Power", "W", Run).at(Power, 820).need(Energy),
    m!("amd_total_gpu_energy", "Total GPU Energy", "J", Run).at(Power, 830).need(Energy),
    m!("amd_output_tokens_per_joule", "Output Tokens per Joule", "tokens/J", Run)
        .more().at(Power, 860).need(Energy),
    m!("amd_energy_per_output_token", "Energy per Output Token", "mJ/token", Run)
        .at(Power, 850).need(Energy),
    m!("amd_energy_per_total_token", "Energy per Total Token", "mJ/token", Run)
        .at(Power, 845).need(Energy),
    m!("amd_energy_per_request", "Energy per Request", "joules/request", Run)
        .at(Power, 855).need(Energy),
    m!("amd_energy_per_user", "Energy per User", "joules/user", Run)
        .at(Power, 865).need(Energy),
    m!("amd_energy_delay_product", "Energy Delay Product", "J*s", Run)
        .at(Power, 800).need(Energy),
    m!("amd_performance_per_watt", "Performance per Watt", "requests/sec/W", Run)
        .more().at(Power, 810).need(Energy),
    m!("amd_output_tps_per_watt", "Output Tokens per Second per Watt", "tokens/sec/W", Run)
        .more().at(Power, 812).need(Energy),
    m!("amd_goodput_per_watt", "Goodput per Watt", "good-req/s/W", Run)
        .more().at(Power, 814).need(Energy),
    m!("time_to_first_token_from_due", "Time to First Token (from due)", "ms",
        Per(|r| ms(Some(r.due), r.first_content.filter(|_| r.streamed))))
        .at(Client, 101).need(Streaming),
    m!("time_to_first_output_token_from_due", "Time to First Output Token (from due)", "ms",
        Per(|r| ms(Some(r.due), r.first_output.filter(|_| r.streamed))))
        .at(Client, 211).need(Streaming),
    m!("request_latency_from_due", "Request Latency (from due)", "ms",
        Per(|r| ms(Some(r.due), r.last_content))).at(Client, 301),
    // The name is k6's, whose stages AIPerf's are.
    m!("http_req_tls_handshaking", "HTTP TLS Handshaking", "ms",
        Per(|r| stage(r, &[Part::Tls]))).group(Client),
    m!("slot_wait", "Slot Wait", "ms", Per(|r| stage(r, &[Part::SlotWait]))).at(Client, 302)
        .need(Capped),
];

/// The metric with this tag.
///
/// ```
/// let ttft = tokenring::stats::metric::find("time_to_first_token").unwrap();
/// assert_eq!((ttft.header, ttft.unit), ("Time to First Token", "ms"));
/// ```
pub fn find(tag: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.tag == tag)
}

#[cfg(test)]
#[path = "metric_tests.rs"]
mod tests;
