//! A server that says what a test tells it to, byte by byte, and a core that asks it.
#![allow(dead_code)]

use crossbeam_channel::{bounded, unbounded};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokenring::base::{Ns, now};
use tokenring::config::Api;
use tokenring::engine::{
    self, CoreOutput, CorePlan, Drawn, GatePlan, Pace, PaceOptions, PhasePlan, Request,
    RequestLimits, Requests, Stop, Target,
};
use tokenring::http::{Template, TlsClient, Via};
use tokenring::runtime::Dial;
use tokenring::stats::Record;

/// What a server does with one request.
#[derive(Clone, Debug)]
pub enum Act {
    /// Waits so many ms.
    Wait(u64),
    /// Writes these bytes in one write.
    Send(Vec<u8>),
    /// Writes these bytes again and again, until the peer closes or so many seconds are over.
    Flood(Vec<u8>, u64),
    /// Says that it has come so far.
    Tell(Arc<AtomicBool>),
    /// Closes in order.
    Close,
    /// Closes with a reset.
    Reset,
}

pub fn send(text: impl AsRef<[u8]>) -> Act {
    Act::Send(text.as_ref().to_vec())
}

/// A head of a stream of events that ends by the close.
pub const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
/// A head of a chunked stream of events.
pub const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// One chunk.
pub fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// A chat event with this content.
pub fn ev(text: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#)
}

/// A server; each request, counted from 0 over all connections, is given to `script`.
pub fn serve(script: impl Fn(usize) -> Vec<Act> + Send + Sync + 'static) -> SocketAddr {
    serve_asked(move |number, _| script(number))
}

/// The same; `script` sees the bytes of each request.
pub fn serve_asked(
    script: impl Fn(usize, &[u8]) -> Vec<Act> + Send + Sync + 'static,
) -> SocketAddr {
    listen(TcpListener::bind("127.0.0.1:0").unwrap(), script)
}

/// A server on a listener that is there already.
pub fn serve_on(
    listener: TcpListener,
    script: impl Fn(usize) -> Vec<Act> + Send + Sync + 'static,
) -> SocketAddr {
    listen(listener, move |number, _| script(number))
}

fn listen(
    listener: TcpListener,
    script: impl Fn(usize, &[u8]) -> Vec<Act> + Send + Sync + 'static,
) -> SocketAddr {
    let addr = listener.local_addr().unwrap();
    let script = Arc::new(script);
    let count = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (script, count) = (script.clone(), count.clone());
            std::thread::spawn(move || answer(socket.unwrap(), &*script, &count));
        }
    });
    addr
}

fn answer(mut socket: TcpStream, script: &dyn Fn(usize, &[u8]) -> Vec<Act>, count: &AtomicUsize) {
    socket.set_nodelay(true).unwrap();
    let mut held = Vec::new();
    let mut buffer = [0u8; 65536];
    loop {
        while let Some(length) = request_length(&held) {
            let request: Vec<u8> = held.drain(..length).collect();
            for act in script(count.fetch_add(1, Ordering::SeqCst), &request) {
                match act {
                    Act::Wait(ms) => std::thread::sleep(Duration::from_millis(ms)),
                    Act::Send(bytes) => {
                        if socket.write_all(&bytes).is_err() {
                            return;
                        }
                    }
                    Act::Flood(bytes, seconds) => {
                        let begun = std::time::Instant::now();
                        while begun.elapsed() < Duration::from_secs(seconds) {
                            if socket.write_all(&bytes).is_err() {
                                return;
                            }
                        }
                    }
                    Act::Tell(flag) => flag.store(true, Ordering::SeqCst),
                    Act::Close => return,
                    Act::Reset => {
                        let socket = socket2::Socket::from(socket);
                        socket.set_linger(Some(Duration::ZERO)).unwrap();
                        return;
                    }
                }
            }
        }
        match socket.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(length) => held.extend_from_slice(&buffer[..length]),
        }
    }
}

/// Length of the whole request at the front, head and body.
fn request_length(held: &[u8]) -> Option<usize> {
    let head = held.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&held[..head]).to_ascii_lowercase();
    let length = text
        .split("content-length: ")
        .nth(1)?
        .split("\r\n")
        .next()?
        .parse::<usize>();
    let whole = head + length.ok()?;
    (held.len() >= whole).then_some(whole)
}

/// How a test asks.
#[derive(Clone)]
pub struct Ask {
    pub targets: Vec<SocketAddr>,
    pub api: Api,
    pub streaming: bool,
    pub ring: bool,
    pub slots: usize,
    pub cores: u16,
    /// Those without a law of their own have `slots`.
    pub phases: Vec<PhasePlan>,
    pub limits: RequestLimits,
    pub tls: Option<TlsClient>,
    /// Further addresses of each target.
    pub more_addrs: Vec<SocketAddr>,
    pub via: Via,
    pub dial: Dial,
    pub keeps_connections: bool,
    /// Cancel after so long.
    pub cancel_after: Option<Ns>,
    /// All but the first request are sent only after this was told; the core stands still until.
    pub hold: Option<Arc<AtomicBool>>,
}

impl Ask {
    pub fn new(target: SocketAddr, count: u64) -> Ask {
        Ask {
            targets: vec![target],
            api: Api::Chat,
            streaming: true,
            ring: true,
            slots: 1,
            cores: 1,
            phases: vec![PhasePlan {
                measured: true,
                count: Some(count),
                ..PhasePlan::default()
            }],
            limits: RequestLimits {
                connect: Ns::from_ms(5_000),
                total: Ns::from_ms(20_000),
                first_token: None,
                idle: None,
                cancellation: None,
            },
            tls: None,
            more_addrs: Vec::new(),
            via: Via::Direct,
            dial: Dial::default(),
            keeps_connections: true,
            cancel_after: None,
            hold: None,
        }
    }
}

struct Same(Option<Arc<AtomicBool>>);

impl Requests for Same {
    fn get(&self, drawn: Drawn) -> Request {
        if let (Some(told), 1..) = (&self.0, drawn.number) {
            while !told.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            // What came before the word lies clearly before the request.
            std::thread::sleep(Duration::from_millis(1));
        }
        Request {
            body: (*b"{}").into(),
            input_tokens: 1,
            output_tokens: None,
            media: Default::default(),
            talk: None,
        }
    }
}

/// Runs the cores to their end; records in the order of their numbers.
pub fn run(ask: &Ask) -> (Vec<Record>, Vec<CoreOutput>) {
    let cores = u32::from(ask.cores);
    let mut phases = ask.phases.clone();
    for phase in phases.iter_mut().filter(|phase| phase.law.is_none()) {
        phase.slots = Some(GatePlan::flat(u32::try_from(ask.slots).unwrap()));
    }
    let pace = Arc::new(Pace::new(PaceOptions {
        phases,
        urls: ask.targets.len(),
        cores,
        ..PaceOptions::default()
    }));
    let targets: Arc<[Target]> = ask
        .targets
        .iter()
        .map(|&addr| Target {
            addrs: std::iter::once(addr)
                .chain(ask.more_addrs.iter().copied())
                .collect(),
            via: ask.via.clone(),
            tls: ask.tls.clone(),
            template: Template::new("/v1/chat/completions", "test", &[]).unwrap(),
        })
        .collect();
    let (records, received) = unbounded();
    let outputs = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..ask.cores)
            .map(|core| {
                let share = |n: usize| {
                    n / ask.cores as usize + usize::from((core as usize) < n % ask.cores as usize)
                };
                let plan = CorePlan {
                    core,
                    cpu: None,
                    targets: targets.clone(),
                    endpoint: ask.api.into(),
                    streaming: ask.streaming,
                    raw: false,
                    check_stamps: false,
                    requests: Arc::new(Same(ask.hold.clone())),
                    pace: pace.clone(),
                    sticky: false,
                    seed: 1,
                    limits: ask.limits,
                    failures: None,
                    dial: ask.dial.clone(),
                    keeps_connections: ask.keeps_connections,
                    connections: share(ask.slots) * usize::from(ask.keeps_connections),
                    cores: usize::from(ask.cores),
                    batch: Ns(300_000),
                    ring: ask.ring,
                    records: records.clone(),
                    buffers: bounded(1).1,
                };
                scope.spawn(move || {
                    let worker = engine::Worker::spawn(0, None).unwrap();
                    worker.begin(plan);
                    worker.finish().unwrap()
                })
            })
            .collect();
        let began = now();
        while pace.ready_count() < cores && now().saturating_since(began) < Ns::from_ms(5_000) {
            std::thread::sleep(Duration::from_millis(1));
        }
        pace.begin(now());
        if let Some(after) = ask.cancel_after {
            std::thread::sleep(Duration::from_nanos(after.0));
            pace.stop(Stop::Cancel);
        }
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect::<Vec<_>>()
    });
    drop(records);
    let mut all: Vec<Record> = received.into_iter().flatten().collect();
    all.sort_by_key(|record| record.index);
    for output in &outputs {
        assert_eq!(output.fault, None);
        assert_eq!(output.records_lost, 0);
    }
    (all, outputs)
}

/// One request on each receive path; both must agree on all but times.
pub fn one(script: Vec<Act>) -> Record {
    let of = |ring| {
        let script = script.clone();
        let ask = Ask {
            ring,
            ..Ask::new(serve(move |_| script.clone()), 1)
        };
        run(&ask).0.pop().unwrap()
    };
    let (by_ring, by_readiness) = (of(true), of(false));
    let name = |record: &Record| record.failure.as_ref().map(|f| (f.kind, f.name.clone()));
    assert_eq!(name(&by_ring), name(&by_readiness));
    assert_eq!(by_ring.events_count, by_readiness.events_count);
    assert_eq!(by_ring.buffers.answer, by_readiness.buffers.answer);
    by_ring
}

/// Milliseconds from the start of a record to a time of it.
pub fn ms(record: &Record, at: Option<Ns>) -> f64 {
    at.unwrap().saturating_since(record.start).as_ms()
}
