//! Settings, checked: what a run is asked to do. Immutable, no side effects; flags, file and
//! environment become one [`Config`].

mod api;
mod axis;
mod check;
mod connections;
mod draft;
mod file;
mod fingerprint;
mod grids;
mod load;
mod media;
mod recipe;
mod repeats;
mod search;
mod secrets;
mod server;
mod sweep;
mod telemetry;
mod tokenizer;
mod url;

pub use api::Api;
pub use axis::{AXES, Axis, find as axis};
pub use check::{Checked, ConfigError};
pub use connections::{Connections, Exempt, Proxy, Reuse};
pub use draft::{Draft, Many, PhaseDraft};
#[cfg(test)]
pub(crate) use file::flags_of_peers;
pub use file::{FromFile, Names, OfPeer, read};
pub use load::{Level, Load, Pattern, PhaseSpec, Ramp, RampKind, Rate, SessionSpec, TraceSpec};
pub use media::{
    AudioSpec, Contents, IMAGE_SIDE_MAX, ImageFormat, ImageSource, ImageSpec, MEDIA_BYTES_MAX,
    RankingSpec, SourceOrder,
};
pub use recipe::{Expanded, Expansion, PostProcess, RunGiven, SearchDraft};
pub use repeats::{Convergence, ConvergenceMode, Repeats};
pub use search::{Objective, Planner, SearchAxis, SearchSpec, TierSpec};
pub use secrets::{hide_args, hide_header, hide_members, hide_target, secrets_of_file};
pub use server::{Profiler, ResetCache, Wait, WaitMode};
pub use sweep::{Asked, Layout, Order, Sweep, SweepDraft, Template, Topology, Typed, Variation};
pub use telemetry::{GpuSource, GpuTelemetry, MetricsFormat, ServerMetrics};
pub use tokenizer::{TokenizerSource, TokenizerSpec};
pub use url::parse_url;

use crate::base::Ns;
use std::net::IpAddr;
use std::path::PathBuf;

/// `--measurement-interval`: the run ends when its last three windows agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StableWindows {
    /// Of a window, more than zero.
    pub length: Ns,
    /// Largest over smallest, less one, that still agrees.
    pub tolerance: f64,
}

/// Mean and standard deviation of a token length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lengths {
    /// Mean, at least 1.
    pub mean: f64,
    /// Standard deviation, 0 for a fixed length.
    pub stddev: f64,
}

impl Lengths {
    /// Always this one.
    pub const fn fixed(mean: f64) -> Lengths {
        Lengths { mean, stddev: 0.0 }
    }
}

/// Whose token counts to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenCount {
    /// The server's when present, else ours.
    Auto,
    /// The server's only.
    Server,
    /// Ours only.
    Client,
}

/// Which files to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExportLevel {
    /// No folder at all: whoever asked for the run takes its summary. No flag asks for it.
    Nothing,
    /// Summaries only.
    Summary,
    /// And a line per request.
    Records,
    /// And every event.
    Raw,
}

/// In whose form the files of requests are, where the peers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArtifactFormat {
    /// AIPerf's.
    Aiperf,
    /// GenAI-Perf's: `inputs.json` in its form, and perf_analyzer's `profile_export.json`.
    GenaiPerf,
}

/// Progress display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ui {
    /// By terminal or pipe.
    Auto,
    /// A live bar.
    Simple,
    /// Plain lines now and then.
    None,
}

/// Workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cores {
    /// `max(1, usable physical cores - 1)`, no more than one per 256 streams.
    Auto,
    /// So many.
    Count(usize),
    /// These CPU numbers.
    List(Vec<usize>),
}

/// A service level: `tag:limit`, in display units.
#[derive(Clone, Debug, PartialEq)]
pub struct Slo {
    /// Metric tag.
    pub tag: String,
    /// Limit; at most, or at least where larger is better.
    pub limit: f64,
}

/// Which requests are cancelled on purpose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cancellation {
    /// Share of the measured requests, 0 to 100.
    pub percent: f64,
    /// From the last byte sent to the cancellation.
    pub delay: Ns,
}

/// Where and how to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// True for https.
    pub tls: bool,
    /// Host name, or an address without brackets; one of a link with its `%zone`.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Base path without trailing slash, `""` or `"/base"`.
    pub base: String,
    /// Query with its `?`, or `""`.
    pub query: String,
}

impl Url {
    /// True for this machine's own loopback, as far as the name tells.
    pub fn is_local(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        address.map_or(self.host == "localhost", |address| address.is_loopback())
    }

    /// The host without a zone, which means nothing to anybody else: what TLS verifies.
    pub fn name(&self) -> &str {
        self.host.split('%').next().unwrap_or_default()
    }

    /// `host:port` with brackets where IPv6 needs them, and no zone: for `Host`.
    pub fn authority(&self) -> String {
        match self.name() {
            name if name.contains(':') => format!("[{name}]:{}", self.port),
            name => format!("{name}:{}", self.port),
        }
    }

    /// Scheme and authority: `http://[::1]:8000`.
    pub fn origin(&self) -> String {
        format!(
            "{}://{}{}",
            if self.tls { "https" } else { "http" },
            self.authority(),
            self.base
        )
    }
}

/// `payload_template` and `response_field` of `--extra-inputs`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ByTemplate {
    /// The template's file, or what stands for one in errors.
    pub name: String,
    /// The template; empty without one.
    pub source: String,
    /// JMESPath of the answer's text; absent where it is guessed.
    pub response_field: Option<String>,
}

/// Everything a run is asked to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Model name; absent when the server is to be asked.
    pub model: Option<String>,
    /// API.
    pub api: Api,
    /// `--endpoint`: path that replaces the API's own; `Some("")` is none.
    pub path: Option<String>,
    /// Ask for a stream.
    pub streaming: bool,
    /// Targets, at least one (empty only with `demo`).
    pub urls: Vec<Url>,
    /// Start the bundled mock and profile that.
    pub demo: bool,
    /// The run's parts in their order; at least one is measured.
    pub phases: Vec<PhaseSpec>,
    /// `--when-capped skip`: what no slot is free for is not sent.
    pub skip_capped: bool,
    /// `--when-late skip`: what the client comes to too late is not sent.
    pub skip_late: bool,
    /// True when no end was given, and the number of requests is `max(10, 2 x concurrency)`.
    pub request_count_defaulted: bool,
    /// Stop sending when windows agree; the duration is ten of them at the most.
    pub stable_windows: Option<StableWindows>,
    /// Stop sending once an open loop is over-saturated.
    pub stop_oversaturated: bool,
    /// Input length.
    pub isl: Lengths,
    /// Texts, images, recordings of a request.
    pub contents: Contents,
    /// Output length; absent means the server decides.
    pub osl: Option<Lengths>,
    /// Fix the output length (`ignore_eos` with `min_tokens`, or `min_length`).
    pub osl_deterministic: bool,
    /// `max_tokens` instead of `max_completion_tokens`.
    pub legacy_max_tokens: bool,
    /// Ask for usage with every event of a stream.
    pub per_chunk_usage: bool,
    /// The user's own body and place of the answer.
    pub by_template: ByTemplate,
    /// Extra members of every payload, in order given.
    pub extra_inputs: serde_json::Map<String, serde_json::Value>,
    /// Extra headers, in order given.
    pub headers: Vec<(String, String)>,
    /// API key; masked everywhere.
    pub api_key: Option<String>,
    /// Tokenizer.
    pub tokenizer: TokenizerSpec,
    /// Whose counts.
    pub token_count: TokenCount,
    /// `--input-file`.
    pub trace: Option<TraceSpec>,
    /// Turns of sessions; absent where each request stands alone.
    pub session: Option<SessionSpec>,
    /// `--session-header`: carries the session's id.
    pub session_header: Option<String>,
    /// Distinct prompts, reused in order; absent means every request's is different.
    pub dataset_entries: Option<u64>,
    /// Seed, always set (random when not asked).
    pub seed: u64,
    /// True when the seed was asked for.
    pub seed_given: bool,
    /// Limit on a whole request.
    pub request_timeout: Ns,
    /// Limit on TCP and TLS together.
    pub connect_timeout: Ns,
    /// Limit on the time to the first content, from the start.
    pub first_token_timeout: Option<Ns>,
    /// Limit on silence within an answer.
    pub idle_timeout: Option<Ns>,
    /// Requests that are cancelled on purpose.
    pub cancellation: Option<Cancellation>,
    /// `--failed-request-threshold`: the run ends when a greater share of it, 0..1, has failed.
    pub failed_share_max: Option<f64>,
    /// How connections are made, kept, and led through a proxy.
    pub connections: Connections,
    /// Service levels of `--goodput`.
    pub goodput: Vec<Slo>,
    /// Conditions of `--assert` on the run's figures, as written: `stats::Gate` reads them.
    pub asserts: Vec<String>,
    /// `--artifact-dir`, used as it is; absent means `artifacts/<name>`.
    pub artifact_dir: Option<PathBuf>,
    /// Of a point of a sweep: the folder that its own lies in, and how the name of that ends.
    pub place: Option<(PathBuf, String)>,
    /// Number of the repeat, from 0.
    pub trial: u32,
    /// `--profile-export-prefix`.
    pub export_prefix: Option<String>,
    /// Which files.
    pub export_level: ExportLevel,
    /// In whose form.
    pub artifact_format: ArtifactFormat,
    /// Replace an earlier run instead of moving it aside.
    pub overwrite: bool,
    /// Display.
    pub ui: Ui,
    /// Say more.
    pub verbose: bool,
    /// Workers.
    pub cores: Cores,
    /// `--workers-max`.
    pub workers_max: Option<usize>,
    /// PEM file of further roots.
    pub tls_ca: Option<PathBuf>,
    /// Do not verify certificates.
    pub tls_insecure: bool,
    /// How the model is waited for.
    pub wait: Wait,
    /// Have the server empty its cache before the run.
    pub reset_kv_cache: Option<ResetCache>,
    /// Have the server profile itself during the measurement.
    pub server_profiler: Option<Profiler>,
    /// Draw the run when it is over.
    pub generate_plots: bool,
    /// Probe before the run.
    pub preflight: bool,
    /// Print the plan and stop.
    pub dry_run: bool,
    /// Exit 0 on INVALID.
    pub allow_invalid: bool,
    /// Watch GPUs; absent when not wanted.
    pub gpu_telemetry: Option<GpuTelemetry>,
    /// Read the servers' own metrics; absent when not wanted.
    pub server_metrics: Option<ServerMetrics>,
    /// Length of the slices of time that are summed up each for itself.
    pub slice_duration: Option<Ns>,
    /// Measure what this machine can drive before the run.
    pub calibrate: bool,
    /// Receive batching off (for benches and doubt): `--no-batching`.
    pub batching: bool,
    /// Compare the times of events with the stamps that `tokenring mock` writes into them.
    pub check_stamps: bool,
    /// The command line as typed, secrets hidden in their places, program name first.
    pub command_line: String,
}

impl Config {
    /// Every event and every body is kept for the files: perf_analyzer's export needs them.
    pub fn keeps_events(&self) -> bool {
        let is_peers = self.artifact_format == ArtifactFormat::GenaiPerf;
        self.export_level == ExportLevel::Raw
            || is_peers && self.export_level == ExportLevel::Records
    }

    /// The first measured phase, which a run of one measurement is named by.
    pub fn main(&self) -> &PhaseSpec {
        let measured = self.phases.iter().find(|phase| phase.measured);
        measured.unwrap_or(&self.phases[0])
    }

    /// The same, to be changed.
    pub fn main_mut(&mut self) -> &mut PhaseSpec {
        let measured = self.phases.iter().position(|phase| phase.measured);
        &mut self.phases[measured.unwrap_or(0)]
    }

    /// Its load.
    pub fn load(&self) -> &Load {
        &self.main().load
    }

    /// True for one measurement: the figures of a run are then those of one load.
    pub fn has_one_load(&self) -> bool {
        self.phases.iter().filter(|phase| phase.measured).count() == 1
    }

    /// The phases before the measurement.
    pub fn warmups(&self) -> impl Iterator<Item = &PhaseSpec> {
        self.phases.iter().filter(|phase| !phase.measured)
    }

    /// Requests before the measurement, as far as they are counted.
    pub fn warmup_requests(&self) -> u64 {
        self.warmups().filter_map(|phase| phase.requests).sum()
    }
}

impl Default for Config {
    /// What the peers do when nothing is said; `urls` is empty.
    fn default() -> Config {
        Config {
            model: None,
            api: Api::Chat,
            path: None,
            streaming: false,
            urls: Vec::new(),
            demo: false,
            phases: vec![PhaseSpec::default()],
            skip_capped: false,
            skip_late: false,
            request_count_defaulted: false,
            stable_windows: None,
            stop_oversaturated: false,
            isl: Lengths::fixed(550.0),
            contents: Contents::default(),
            osl: None,
            osl_deterministic: false,
            legacy_max_tokens: false,
            per_chunk_usage: false,
            by_template: ByTemplate::default(),
            extra_inputs: serde_json::Map::new(),
            headers: Vec::new(),
            api_key: None,
            tokenizer: TokenizerSpec::default(),
            token_count: TokenCount::Auto,
            trace: None,
            session: None,
            session_header: None,
            dataset_entries: None,
            seed: 0,
            seed_given: false,
            request_timeout: Ns::from_ms(21_600_000),
            connect_timeout: Ns::from_ms(30_000),
            first_token_timeout: None,
            idle_timeout: None,
            cancellation: None,
            failed_share_max: None,
            connections: Connections::default(),
            goodput: Vec::new(),
            asserts: Vec::new(),
            artifact_dir: None,
            place: None,
            trial: 0,
            export_prefix: None,
            export_level: ExportLevel::Records,
            artifact_format: ArtifactFormat::Aiperf,
            overwrite: false,
            ui: Ui::Auto,
            verbose: false,
            cores: Cores::Auto,
            workers_max: None,
            tls_ca: None,
            tls_insecure: false,
            wait: Wait::default(),
            reset_kv_cache: None,
            server_profiler: None,
            preflight: true,
            dry_run: false,
            allow_invalid: false,
            gpu_telemetry: Some(GpuTelemetry::default()),
            server_metrics: Some(ServerMetrics::default()),
            slice_duration: None,
            calibrate: false,
            generate_plots: false,
            batching: true,
            check_stamps: false,
            command_line: String::new(),
        }
    }
}
