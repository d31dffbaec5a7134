//! The gates that a request passes before it is sent: sessions, prefill, its url.

use super::claim::PhasePlan;
use super::gate::{Gate, GatePlan};
use crate::base::Ns;
use std::sync::atomic::{AtomicU32, Ordering};

/// What is held now, over all phases.
#[derive(Debug)]
pub(super) struct Held {
    pub sessions: AtomicU32,
    pub prefill: AtomicU32,
    pub urls: Vec<AtomicU32>,
}

impl Held {
    pub fn new(urls: usize) -> Held {
        let zero = || AtomicU32::new(0);
        Held {
            sessions: zero(),
            prefill: zero(),
            urls: (0..urls.max(1)).map(|_| zero()).collect(),
        }
    }
}

/// The request that stands before the gates: its number at each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Of a new session; absent for a further turn, which has its place already.
    pub session: Option<u64>,
    /// Among the requests of the phase that are sent.
    pub sent: u64,
    pub url: usize,
    /// Among the requests of the phase towards its url.
    pub towards: u64,
}

/// The gates of one phase.
#[derive(Debug)]
pub(super) struct Gates {
    pub cap: Option<Gate>,
    pub prefill: Option<Gate>,
    pub urls: Vec<Gate>,
}

impl Gates {
    pub fn new(plan: &PhasePlan, urls: usize) -> Gates {
        let per_url = plan.per_url.map(GatePlan::flat);
        let gates = |plan: GatePlan| (0..urls.max(1)).map(move |_| Gate::new(plan.clone()));
        let is_open = plan.law.is_some();
        Gates {
            cap: plan.cap.clone().filter(|_| is_open).map(Gate::new),
            prefill: plan.prefill.clone().map(Gate::new),
            urls: per_url.into_iter().flat_map(gates).collect(),
        }
    }

    /// The phase begins, with what is held from before.
    pub fn begin(&self, start: Ns, held: &Held) {
        let begin = |gate: &Gate, held: &AtomicU32| gate.begin(start, held.load(Ordering::Acquire));
        if let Some(cap) = &self.cap {
            begin(cap, &held.sessions);
        }
        if let Some(prefill) = &self.prefill {
            begin(prefill, &held.prefill);
        }
        for (gate, held) in self.urls.iter().zip(&held.urls) {
            begin(gate, held);
        }
    }

    /// A place behind each gate; `None` when one of them has none. Inside is since when the last of
    /// them was free, if not from the start.
    pub fn enter(&self, held: &Held, entry: &Entry, at: Ns) -> Option<Option<Ns>> {
        let mut granted = None;
        let mut note = |gate: Option<&Gate>, number: u64| {
            granted = granted.max(gate.and_then(|gate| gate.free_since(number)));
        };
        if let Some(number) = entry.session {
            pass(&held.sessions, self.cap.as_ref(), at)?;
            note(self.cap.as_ref(), number);
        }
        let url = self.urls.get(entry.url);
        let through = |held: &AtomicU32, gate: Option<&Gate>| match gate {
            Some(_) => pass(held, gate, at),
            None => Some(()),
        };
        let is_in = through(&held.urls[entry.url], url).and_then(|()| {
            let is_in = through(&held.prefill, self.prefill.as_ref());
            if is_in.is_none() && url.is_some() {
                held.urls[entry.url].fetch_sub(1, Ordering::AcqRel);
            }
            is_in
        });
        if is_in.is_none() && entry.session.is_some() {
            held.sessions.fetch_sub(1, Ordering::AcqRel);
        }
        is_in?;
        note(url, entry.towards);
        note(self.prefill.as_ref(), entry.sent);
        Some(granted)
    }

    /// Gives back what [`Gates::enter`] took.
    pub fn leave(&self, held: &Held, entry: &Entry) {
        if entry.session.is_some() {
            held.sessions.fetch_sub(1, Ordering::AcqRel);
        }
        if self.prefill.is_some() {
            held.prefill.fetch_sub(1, Ordering::AcqRel);
        }
        if self.urls.get(entry.url).is_some() {
            held.urls[entry.url].fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// The request is sent: its places are no longer to be had.
    pub fn taken(&self, entry: &Entry) {
        if let (Some(cap), Some(number)) = (&self.cap, entry.session) {
            cap.taken(number);
        }
        if let Some(prefill) = &self.prefill {
            prefill.taken(entry.sent);
        }
        if let Some(url) = self.urls.get(entry.url) {
            url.taken(entry.towards);
        }
    }
}

/// Counts one more behind a gate, where its limit allows it.
fn pass(held: &AtomicU32, gate: Option<&Gate>, at: Ns) -> Option<()> {
    let most = gate.map_or(u32::MAX, |gate| gate.limit(at));
    let count = |held: u32| (held < most).then_some(held + 1);
    let counted = held.fetch_update(Ordering::AcqRel, Ordering::Acquire, count);
    counted.ok().map(|_| ())
}
