//! Runs of several processes: the mock, the clients in turn, the table.

use crate::load::{Load, Measured, Spread};
use crate::steer::Steered;
use anyhow::{Context, ensure};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Where the programs are and where they run.
#[derive(Debug, clap::Args)]
pub struct Stage {
    /// The release build to measure.
    #[arg(long, default_value = "target/release/tokenring")]
    tokenring: PathBuf,
    /// CPU of the mock.
    #[arg(long, default_value_t = 0)]
    mock_core: usize,
    /// Gap between a stream's events, ms.
    #[arg(long, default_value_t = 50.0)]
    itl_ms: f64,
    /// Law of that gap; `uniform:0.2` keeps streams from marching in step.
    #[arg(long, default_value = "none")]
    jitter: String,
    /// Let the mock's core do the mock's network work, as between two machines; needs root.
    #[arg(long)]
    steer: bool,
}

/// A child that ends with us.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stage {
    /// Steers while the value lives, when it was asked for.
    fn steer(&self) -> anyhow::Result<Option<Steered>> {
        self.steer.then(|| Steered::to(self.mock_core)).transpose()
    }

    fn mock(&self, load: &Load, extra: &[&str]) -> anyhow::Result<Running> {
        let mut command = Command::new(&self.tokenring);
        command
            .arg("mock")
            .args(["--port", &load.addr.port().to_string()])
            .args(["--cores", &self.mock_core.to_string()])
            .args(["--ttft-ms", &self.itl_ms.to_string()])
            .args(["--itl-ms", &self.itl_ms.to_string()])
            .args(["--jitter", &self.jitter, "--seconds", "600"])
            .args(extra);
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", self.tokenring.display()))?;
        let out = child.stdout.take().context("the mock has a stdout")?;
        let running = Running(child);
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        ensure!(
            line.contains("listening"),
            "the mock said `{}`",
            line.trim()
        );
        Ok(running)
    }

    /// One run of tokenring: what it measured, and its own account.
    fn tokenring(&self, load: &Load, extra: &[&str]) -> anyhow::Result<(Measured, Value)> {
        let dir = std::env::temp_dir().join(format!("tokenring-peers-{}", std::process::id()));
        let done = Command::new(&self.tokenring)
            .args(["profile", "-m", "m", "--streaming", "--check-stamps"])
            .args(["--url", &load.addr.to_string()])
            .args(["--concurrency", &load.streams.to_string()])
            .args(["--request-count", &load.requests.to_string()])
            .args(["--osl", &load.tokens.to_string(), "--isl", "32"])
            .args(["--cores", &format!("{0}-{0}", load.client_core)])
            .args([
                "--tokenizer",
                "builtin",
                "--no-preflight",
                "--no-gpu-telemetry",
            ])
            .args(["--ui", "none", "--allow-invalid", "--overwrite"])
            .arg("--artifact-dir")
            .arg(&dir)
            .args(extra)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        ensure!(done.success(), "tokenring ended with {done}");
        let export = read(&dir.join("profile_export_aiperf.json"))?;
        // Only what this bench has written.
        std::fs::remove_dir_all(&dir)?;
        measured(&export)
            .context("the export lacks a figure")
            .map(|m| (m, export))
    }

    fn peer(&self, kind: &str, load: &Load) -> anyhow::Result<Measured> {
        let output = Command::new(std::env::current_exe()?)
            .args(["client", kind, "--addr", &load.addr.to_string()])
            .args(["--streams", &load.streams.to_string()])
            .args(["--requests", &load.requests.to_string()])
            .args(["--tokens", &load.tokens.to_string()])
            .args(["--client-core", &load.client_core.to_string()])
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(
            output.status.success(),
            "{kind} ended with {}",
            output.status
        );
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read(path).with_context(|| path.display().to_string())?;
    Ok(serde_json::from_slice(&text)?)
}

fn measured(export: &Value) -> Option<Measured> {
    let client = &export["client"];
    let core = client["cores"].as_array()?.first()?;
    let spread = |name: &str| {
        let spread = &client["stamp_error_ns"][name];
        Some(Spread {
            p50: spread["p50"].as_u64()?,
            p99: spread["p99"].as_u64()?,
            p99_9: spread["p99_9"].as_u64()?,
            max: spread["max"].as_u64()?,
        })
    };
    let cpu = core["user_ns"].as_u64()? + core["system_ns"].as_u64()?;
    Some(Measured {
        events: core["events_count"].as_u64()?,
        user_ns: core["user_ns"].as_u64()?,
        system_ns: core["system_ns"].as_u64()?,
        elapsed_ns: (cpu as f64 / core["busy_ratio"].as_f64()?) as u64,
        event_time: spread("event_time")?,
        ttft: spread("ttft")?,
        itl: spread("itl")?,
    })
}

fn row(name: &str, m: &Measured) {
    let us = |ns: u64| ns as f64 / 1e3;
    println!(
        "{name:<24} {:>6.2} {:>6.2} {:>4.0}%  {:>7.1} {:>9.1} {:>9.1}  {:>9.1}  {:>9.1}",
        m.user_per_event() / 1e3,
        m.cpu_per_event() / 1e3,
        m.busy_ratio() * 100.0,
        us(m.event_time.p50),
        us(m.event_time.p99),
        us(m.event_time.p99_9),
        us(m.ttft.p99),
        us(m.itl.p99),
    );
}

fn heading() {
    println!(
        "{:<24} {:>6} {:>6} {:>5}  {:>7} {:>9} {:>9}  {:>9}  {:>9}",
        "", "user", "total", "busy", "event", "time", "error", "TTFT", "ITL"
    );
    println!(
        "{:<24} {:>6} {:>6} {:>5}  {:>7} {:>9} {:>9}  {:>9}  {:>9}",
        "us per event, us", "", "", "", "p50", "p99", "p99.9", "p99", "p99"
    );
}

/// Middle of the values.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = values.collect();
    all.sort_by(f64::total_cmp);
    match all.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => all[n / 2],
        n => (all[n / 2 - 1] + all[n / 2]) / 2.0,
    }
}

/// All clients in turn, several times.
#[derive(Debug, clap::Args)]
pub struct Compare {
    #[command(flatten)]
    stage: Stage,
    #[command(flatten)]
    load: Load,
    /// Rounds; each runs every client once. Many short ones tell more than few long ones.
    #[arg(long, default_value_t = 9)]
    pairs: usize,
}

/// A round's four runs.
struct Round {
    batched: Measured,
    unbatched: Measured,
    reqwest: Measured,
    epoll: Measured,
    record_thread_ns: f64,
    verdict: String,
}

impl Compare {
    pub fn run(&self) -> anyhow::Result<()> {
        let _steered = self.stage.steer()?;
        let mut rounds = Vec::new();
        for number in 1..=self.pairs {
            println!("round {number} of {}", self.pairs);
            heading();
            rounds.push(self.round(number)?);
        }
        self.judge(&rounds)
    }

    /// Runs every client once; every second round goes backwards, so that a machine that becomes
    /// faster or slower favours nobody.
    fn round(&self, number: usize) -> anyhow::Result<Round> {
        const NAMES: [&str; 4] = [
            "tokenring",
            "bare epoll loop",
            "tokenring, not batched",
            "tokio, reqwest",
        ];
        let mut order = [0, 1, 2, 3];
        if number.is_multiple_of(2) {
            order.reverse();
        }
        let (mut all, mut export) = ([const { None }; 4], Value::Null);
        for index in order {
            // A mock per client: none inherits another's memory or connections.
            let running = self.stage.mock(&self.load, &[])?;
            let measured = match index {
                0 => {
                    let measured;
                    (measured, export) = self.stage.tokenring(&self.load, &[])?;
                    measured
                }
                1 => self.stage.peer("epoll", &self.load)?,
                2 => self.stage.tokenring(&self.load, &["--no-batching"])?.0,
                _ => self.stage.peer("reqwest", &self.load)?,
            };
            drop(running);
            row(NAMES[index], &measured);
            all[index] = Some(measured);
        }
        let [Some(batched), Some(epoll), Some(unbatched), Some(reqwest)] = all else {
            anyhow::bail!("a client did not run");
        };
        let client = &export["client"];
        let record_ns = client["record_thread_cpu_ns"].as_f64().unwrap_or(f64::NAN);
        Ok(Round {
            record_thread_ns: record_ns / batched.events.max(1) as f64,
            verdict: client["verdict"].as_str().unwrap_or("?").to_string(),
            batched,
            unbatched,
            reqwest,
            epoll,
        })
    }

    fn judge(&self, rounds: &[Round]) -> anyhow::Result<()> {
        let of = |value: &dyn Fn(&Round) -> f64| median(rounds.iter().map(value));
        let cpu = |a: fn(&Round) -> &Measured, b: fn(&Round) -> &Measured| {
            of(&|round| a(round).cpu_per_event() / b(round).cpu_per_event())
        };
        println!("\nmedian of {} rounds", rounds.len());
        println!(
            "record thread beside it: {:.2} us per event; verdicts: {}",
            of(&|round| round.record_thread_ns) / 1e3,
            rounds
                .iter()
                .map(|round| round.verdict.as_str())
                .collect::<Vec<_>>()
                .join(" ")
        );
        let goals = [
            (
                "user CPU per event, us",
                of(&|round| round.batched.user_per_event() / 1e3),
                1.5,
            ),
            (
                "CPU of tokio and reqwest's",
                cpu(|r| &r.batched, |r| &r.reqwest),
                0.70,
            ),
            (
                "CPU of the epoll loop's",
                cpu(|r| &r.batched, |r| &r.epoll),
                0.85,
            ),
            (
                "CPU of unbatched",
                cpu(|r| &r.batched, |r| &r.unbatched),
                0.75,
            ),
            (
                "event time error p50, us",
                of(&|round| round.batched.event_time.p50 as f64 / 1e3),
                15.0,
            ),
            (
                "its p99 of the epoll loop's",
                of(&|round| {
                    round.batched.event_time.p99 as f64 / round.epoll.event_time.p99 as f64
                }),
                1.0 / 3.0,
            ),
        ];
        let mut missed = 0;
        for (name, value, limit) in goals {
            let holds = value <= limit;
            missed += usize::from(!holds);
            let word = if holds { "holds" } else { "MISSED" };
            println!("{name:<28} {value:>8.3}  at most {limit:.3}  {word}");
        }
        ensure!(missed == 0, "{missed} goals are missed");
        Ok(())
    }
}

/// tokenring alone, with more and more streams.
#[derive(Debug, clap::Args)]
pub struct Busy {
    #[command(flatten)]
    stage: Stage,
    #[command(flatten)]
    load: Load,
    /// Streams of each step.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "3000,4000,4500,5000,6000"
    )]
    steps: Vec<usize>,
    /// Let tokenring batch; without it the core fills before the mock does.
    #[arg(long)]
    batching: bool,
    /// Run the epoll loop at each step too.
    #[arg(long)]
    epoll: bool,
}

impl Busy {
    pub fn run(&self) -> anyhow::Result<()> {
        let _steered = self.stage.steer()?;
        heading();
        let extra: &[&str] = if self.batching {
            &[]
        } else {
            &["--no-batching"]
        };
        for &streams in &self.steps {
            let load = Load {
                streams,
                requests: streams,
                ..self.load.clone()
            };
            let running = self.stage.mock(&load, &[])?;
            let (measured, export) = self.stage.tokenring(&load, extra)?;
            row(&format!("{streams} streams"), &measured);
            drop(running);
            let client = &export["client"];
            println!(
                "  {}, reasons {}",
                client["verdict"].as_str().unwrap_or("?"),
                client["reasons"]
            );
            if self.epoll {
                let _running = self.stage.mock(&load, &[])?;
                row("  bare epoll loop", &self.stage.peer("epoll", &load)?);
            }
        }
        Ok(())
    }
}

/// Our mock beside another, both unpaced.
#[derive(Debug, clap::Args)]
pub struct Mocks {
    #[command(flatten)]
    stage: Stage,
    #[command(flatten)]
    load: Load,
    /// The other mock's binary; it knows `--port`, `--pin`, `--firehose`, `--batch`, `--tokens`.
    #[arg(long)]
    other: PathBuf,
    /// Rounds.
    #[arg(long, default_value_t = 5)]
    pairs: usize,
}

impl Mocks {
    pub fn run(&self) -> anyhow::Result<()> {
        let _steered = self.stage.steer()?;
        for batch in ["1", "16"] {
            let mut ratios = Vec::new();
            for _ in 0..self.pairs {
                let ours = self.ours(batch)?;
                let other = self.others(batch)?;
                println!("batch {batch}: {ours:.0} and {other:.0} events/s");
                ratios.push(ours / other);
            }
            let ratio = median(ratios.into_iter());
            println!("batch {batch}: {ratio:.2} of the other, at least 0.8 wanted");
        }
        Ok(())
    }

    fn ours(&self, batch: &str) -> anyhow::Result<f64> {
        let _running = self
            .stage
            .mock(&self.load, &["--unpaced", "--batch", batch])?;
        self.rate()
    }

    fn others(&self, batch: &str) -> anyhow::Result<f64> {
        let child = Command::new(&self.other)
            .args(["--port", &self.load.addr.port().to_string()])
            .args(["--pin", &self.stage.mock_core.to_string()])
            .args(["--firehose", "--batch", batch])
            .args(["--tokens", &self.load.tokens.to_string()])
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", self.other.display()))?;
        let _running = Running(child);
        // It says nothing on stdout: until it listens, connecting fails.
        let patience = std::time::Instant::now();
        while std::net::TcpStream::connect(self.load.addr).is_err() {
            ensure!(
                patience.elapsed().as_secs() < 5,
                "the other mock does not listen"
            );
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        self.rate()
    }

    /// Events per second that the epoll loop takes in.
    fn rate(&self) -> anyhow::Result<f64> {
        let measured = self.stage.peer("epoll", &self.load)?;
        Ok(measured.events as f64 * 1e9 / measured.elapsed_ns.max(1) as f64)
    }
}
