//! What each client does with bytes: the same decoders, the same notes per event.

use crate::load::{Measured, Spread};
use tokenring::base::{Ns, now};
use tokenring::config::Api;
use tokenring::endpoint::{EventReader, stamp};
use tokenring::sse::{Decoder, Event};
use tokenring::stats::{Histogram, StampErrors};

/// One stream: its decoder, and what a run keeps of it.
pub struct Stream {
    decoder: Decoder,
    times: Vec<Ns>,
    text: Vec<u8>,
    last_error: Option<u64>,
}

impl Stream {
    pub fn new() -> Stream {
        Stream {
            decoder: Decoder::new(),
            times: Vec::new(),
            text: Vec::new(),
            last_error: None,
        }
    }

    /// Prepares for the next answer.
    pub fn renew(&mut self) {
        self.decoder.reset();
        self.times.clear();
        self.text.clear();
        self.last_error = None;
    }

    /// Takes body bytes of a read at `at`.
    pub fn take(&mut self, bytes: &[u8], at: Ns, account: &mut Account) {
        let Stream {
            decoder,
            times,
            text,
            last_error,
        } = self;
        let fed = decoder.feed(bytes, &mut |event: Event<'_>| {
            account.events += 1;
            let part = account.reader.read(event.name, event.data);
            let Some(answer) = &part.answer else { return };
            if let Some((_, sent)) = stamp::find(event.data) {
                let error = at.saturating_since(stamp::lift(sent, at)).0;
                account.errors.note(error, *last_error);
                *last_error = Some(error);
            }
            times.push(at);
            text.extend_from_slice(answer);
        });
        fed.expect("the mock's events are short");
    }
}

/// What all streams together have seen.
pub struct Account {
    events: u64,
    reader: EventReader,
    errors: StampErrors,
    start: Ns,
    user_ns: u64,
    system_ns: u64,
}

impl Account {
    /// The clock starts.
    pub fn start() -> Account {
        let (user_ns, system_ns) = cpu();
        Account {
            events: 0,
            reader: EventReader::new(Api::Chat.into()),
            errors: StampErrors::default(),
            start: now(),
            user_ns,
            system_ns,
        }
    }

    /// The clock stops.
    pub fn finish(&self) -> Measured {
        let (user_ns, system_ns) = cpu();
        Measured {
            events: self.events,
            user_ns: user_ns - self.user_ns,
            system_ns: system_ns - self.system_ns,
            elapsed_ns: now().saturating_since(self.start).0,
            event_time: spread(&self.errors.event_time),
            ttft: spread(&self.errors.ttft),
            itl: spread(&self.errors.itl),
        }
    }
}

fn spread(histogram: &Histogram) -> Spread {
    let all = histogram.spread();
    Spread {
        p50: all.p50,
        p99: all.p99,
        p99_9: all.p99_9,
        max: all.max,
    }
}

/// User and system CPU of this process so far, ns.
fn cpu() -> (u64, u64) {
    let used = tokenring::runtime::thread_cpu();
    (used.user_ns, used.system_ns)
}
