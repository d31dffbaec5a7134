//! The threads that read pages again and again, one for each.

use super::history::{Change, History};
use super::spool::Spool;
use crate::base::{Ns, now};
use crate::http::fetch::Fetch;
use crate::runtime;
use crate::scrape::{Page, parse};
use crate::stats::server::Endpoint;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time between two scrapes, as AIPerf has it.
const INTERVAL: Duration = Duration::from_millis(333);
/// After a page that was none: one that is broken is not worth more.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// How long pages that nobody asked for are waited for before the run: a 404 comes at once, and a
/// page that is later is read all the same.
const PATIENCE: Duration = Duration::from_millis(PATIENCE_MS);
const PATIENCE_MS: u64 = 1_000;
/// A server counts late: after the run its page is read until it stands still, or so long.
const SETTLE: Ns = Ns::from_ms(2_000);
/// Time between two reads that agree.
const SETTLE_INTERVAL: Duration = Duration::from_millis(100);
/// How often the end of the threads is looked for.
const LOOK: Duration = Duration::from_millis(5);
/// A read under way is waited for so long when there is a hurry.
const HURRY: Duration = Duration::from_millis(300);

/// Where a page may be.
#[derive(Clone, Debug)]
pub struct Place {
    /// `host:port`, as reports name its server.
    pub source: String,
    /// Ways to it: the first that leads to a page is taken.
    pub ways: Vec<Fetch>,
    /// It was asked for by name: then it must be there.
    pub is_asked: bool,
}

/// What a page has said.
pub struct Seen {
    pub(super) endpoint: Endpoint,
    pub(super) history: History,
    /// Every scrape, where they were to be kept.
    pub spool: Option<Spool>,
}

enum Command {
    Mark,
    Stop,
}

/// Has pages read at the begin of the measurement.
#[derive(Clone, Default)]
pub struct Marker(Vec<Sender<Command>>);

impl Marker {
    /// Reads every page now: what it has counted until now is no part of the measurement.
    pub fn mark(&self) {
        self.send(|| Command::Mark);
    }

    fn send(&self, command: impl Fn() -> Command) {
        for thread in &self.0 {
            // One that has found no page has ended.
            let _ = thread.send(command());
        }
    }
}

/// Threads that read pages. Dropping it ends them without a result.
#[derive(Default)]
pub struct Collector {
    threads: Vec<Thread>,
    marker: Marker,
}

struct Thread {
    work: JoinHandle<Option<Seen>>,
    /// Says once whether there is a page.
    told: Receiver<Result<(), String>>,
    is_found: bool,
}

impl Collector {
    /// Begins to read the pages, off the CPUs in `cores`; `keeps` says that every scrape is wanted.
    ///
    /// Errors: the url of a page that was asked for by name, and why it is none; or a sentence when
    /// there is no thread.
    pub fn start(places: Vec<Place>, cores: &[usize], keeps: bool) -> Result<Collector, String> {
        let mut collector = Collector::default();
        let mut asked = Vec::new();
        for place in places {
            let (command, commands) = channel();
            let (tell, told) = channel();
            asked.push(place.is_asked);
            let cores = cores.to_vec();
            let work = move || {
                runtime::avoid(&cores);
                Reader::find(&place, &tell, keeps).map(|reader| reader.read(&commands))
            };
            let thread = thread::Builder::new().name("metrics".into()).spawn(work);
            collector.threads.push(Thread {
                work: thread.map_err(|error| format!("no thread for a page: {error}"))?,
                told,
                is_found: false,
            });
            collector.marker.0.push(command);
        }
        let patience = Instant::now() + PATIENCE;
        for (thread, is_asked) in collector.threads.iter_mut().zip(asked) {
            thread.is_found = match is_asked {
                true => {
                    let told = thread.told.recv();
                    told.unwrap_or_else(|_| Err("a thread has died".into()))?;
                    true
                }
                // Found or not: nobody asked.
                false => {
                    let rest = patience.saturating_duration_since(Instant::now());
                    thread.told.recv_timeout(rest) == Ok(Ok(()))
                }
            };
        }
        Ok(collector)
    }

    /// To have pages read from another thread.
    pub fn marker(&self) -> Marker {
        self.marker.clone()
    }

    /// Reads the pages until they stand still, and gives what they said. `is_hurried` is asked
    /// again and again: once it is true, nothing more is waited for.
    pub fn finish(mut self, is_hurried: &dyn Fn() -> bool) -> Vec<Seen> {
        self.marker.send(|| Command::Stop);
        let mut threads = std::mem::take(&mut self.threads);
        threads.retain(|thread| thread.is_found || thread.told.try_recv() == Ok(Ok(())));
        let mut hurry: Option<Instant> = None;
        let is_over = |since: Instant| since.elapsed() > HURRY;
        while threads.iter().any(|thread| !thread.work.is_finished()) && !hurry.is_some_and(is_over)
        {
            if hurry.is_none() && is_hurried() {
                hurry = Some(Instant::now());
                self.marker.send(|| Command::Stop);
            }
            thread::sleep(LOOK);
        }
        let over = threads
            .into_iter()
            .filter(|thread| thread.work.is_finished());
        over.filter_map(|thread| thread.work.join().ok().flatten())
            .collect()
    }
}

/// Reads one page.
struct Reader {
    way: Fetch,
    seen: Seen,
    /// Of all reads that gave a page, in ns.
    latency_sum: u64,
    updates: Vec<Ns>,
    last: u64,
}

impl Reader {
    /// Looks for the page; tells whether it is there.
    fn find(place: &Place, tell: &Sender<Result<(), String>>, keeps: bool) -> Option<Reader> {
        let mut first = None;
        for way in &place.ways {
            let mut reader = Reader::new(place, way, keeps);
            let limit = match place.is_asked {
                true => way.limits.whole,
                false => Ns::from_ms(PATIENCE_MS),
            };
            match reader.take(limit) {
                Ok(_) => {
                    let _ = tell.send(Ok(()));
                    return Some(reader);
                }
                Err(reason) => first = first.or(Some(format!("{}: {reason}", way.url))),
            }
        }
        let _ = tell.send(Err(first.unwrap_or_default()));
        None
    }

    fn new(place: &Place, way: &Fetch, keeps: bool) -> Reader {
        Reader {
            way: way.clone(),
            seen: Seen {
                endpoint: Endpoint {
                    url: way.url.clone(),
                    source: place.source.clone(),
                    ..Endpoint::default()
                },
                history: History::default(),
                spool: keeps.then(|| Spool::new(way.url.clone())),
            },
            latency_sum: 0,
            updates: Vec::new(),
            last: 0,
        }
    }

    /// Reads at each interval on an absolute grid and whenever it is told to, until it is to stop.
    fn read(mut self, commands: &Receiver<Command>) -> Seen {
        let whole = self.way.limits.whole;
        let mut interval = INTERVAL;
        let mut due = Instant::now() + interval;
        loop {
            match commands.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Command::Mark) => {
                    if self.count(whole).is_some() {
                        let last = self.seen.history.times.len() - 1;
                        self.seen.history.mark = Some(last);
                    }
                }
                Ok(Command::Stop) => {
                    self.settle(commands);
                    break;
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let pause = match self.count(whole) {
                        Some(_) => interval,
                        None => interval.max(AFTER_FAILURE),
                    };
                    if self.seen.history.is_full() {
                        self.seen.history.thin();
                        interval *= 2;
                    }
                    // A slow page costs scrapes, never a burst of late ones.
                    due = (due + pause).max(Instant::now());
                }
            }
        }
        self.sum_up()
    }

    /// Reads until nothing counts on.
    fn settle(&mut self, commands: &Receiver<Command>) {
        let end = now() + SETTLE;
        let mut has_one = false;
        loop {
            let rest = end.saturating_since(now()).min(self.way.limits.whole);
            let change = self.count(rest);
            if change.is_some_and(|change| has_one && !change.is_counting) {
                self.seen.endpoint.is_settled = true;
                return;
            }
            has_one |= change.is_some();
            let is_over = now() + Ns::from_ms(100) >= end;
            match commands.recv_timeout(SETTLE_INTERVAL) {
                Err(RecvTimeoutError::Timeout) if !is_over => {}
                _ => return,
            }
        }
    }

    /// Reads once; `None` when there is no page, which is counted.
    fn count(&mut self, limit: Ns) -> Option<Change> {
        let taken = self.take(limit);
        let endpoint = &mut self.seen.endpoint;
        if let Err(reason) = &taken {
            endpoint.failures += 1;
            endpoint.first_failure.get_or_insert_with(|| reason.clone());
        }
        taken.ok()
    }

    /// Reads once. Errors: why it is no page of metrics.
    fn take(&mut self, limit: Ns) -> Result<Change, String> {
        let mut way = self.way.clone();
        way.limits.whole = limit.max(Ns::from_ms(1));
        let begun = now();
        let answer = way.get()?;
        let latency = now().saturating_since(begun);
        if answer.status != 200 {
            return Err(format!("the server answered {}", answer.status));
        }
        if !answer.is_whole {
            return Err(match answer.body.len() >= self.way.limits.body {
                true => format!("it has more than {} bytes", self.way.limits.body),
                false => "it has no end in time".into(),
            });
        }
        let text = answer.text();
        let page = parse(&text);
        is_metrics(&text, &page)?;
        let at = begun + Ns(latency.0 / 2);
        let seen = &mut self.seen;
        if let Some(spool) = &mut seen.spool {
            spool.push(at, latency, &text);
        }
        let endpoint = &mut seen.endpoint;
        endpoint.fetches += 1;
        endpoint.bad_lines += page.bad_lines;
        let first = endpoint.fetched.map_or(at, |(first, _)| first);
        endpoint.fetched = Some((first, at));
        self.latency_sum += latency.0;
        let hash = hash(&text);
        if endpoint.fetches == 1 || hash != self.last {
            self.last = hash;
            self.updates.push(at);
        }
        Ok(seen.history.push(at, &page))
    }

    fn sum_up(self) -> Seen {
        let mut seen = self.seen;
        let (endpoint, history) = (&mut seen.endpoint, &seen.history);
        endpoint.latency_mean = Ns(self.latency_sum / endpoint.fetches.max(1));
        endpoint.updates = self.updates.len() as u64;
        endpoint.updated = self
            .updates
            .first()
            .copied()
            .zip(self.updates.last().copied());
        let mut gaps: Vec<Ns> = self
            .updates
            .windows(2)
            .map(|two| two[1].saturating_since(two[0]))
            .collect();
        gaps.sort_unstable();
        let middle = gaps.get(gaps.len() / 2).copied();
        endpoint.update_interval = middle.map(|median| {
            let sum: u64 = gaps.iter().map(|gap| gap.0).sum();
            (Ns(sum / gaps.len() as u64), median)
        });
        endpoint.resets = history.resets;
        endpoint.invalid_values = history.invalid_values;
        endpoint.series_left_out = history.left_out;
        seen
    }
}

fn hash(text: &str) -> u64 {
    use std::hash::Hasher;
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// Errors: why a text is no page of metrics.
fn is_metrics(text: &str, page: &Page<'_>) -> Result<(), String> {
    if text.trim_start().starts_with('<') {
        return Err("it is an HTML page, no metrics".into());
    }
    if page.is_cut {
        return Err("its last line has no end: it is cut".into());
    }
    match (page.samples_count(), page.first_bad) {
        (1.., _) => Ok(()),
        (0, None) => Err("it has no metric".into()),
        (0, Some((line, reason))) => {
            Err(format!("no line of it is a metric (line {line}: {reason})"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_page_is_named() {
        let of = |text: &str| is_metrics(text, &parse(text));
        assert_eq!(of("a 1\n?\n"), Ok(()));
        for (text, told) in [
            ("<!doctype html>\n<p>a 1\n", "HTML"),
            ("a 1\nb 2", "cut"),
            ("", "no metric"),
            ("# TYPE a gauge\n", "no metric"),
            ("[{\"iter\": 1}]\n", "line 1: no name"),
        ] {
            let reason = of(text).unwrap_err();
            assert!(reason.contains(told), "{text}: {reason}");
        }
    }
}
