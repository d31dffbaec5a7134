//! What is asked of the pace while a run goes on: whether it still sends, and how it fares.

use super::claim::Stop;
use super::pace::Pace;
use crate::base::Ns;
use crate::schedule::Arrivals;
use std::sync::atomic::Ordering;

impl Pace {
    /// When a stop was asked for: by a signal, or by what ends a run early.
    pub fn stopped_at(&self) -> Option<Ns> {
        let at = self.stopped_at.load(Ordering::Acquire);
        (at > 0).then_some(Ns(at))
    }

    /// True when the last phase has sent all that it has.
    pub fn has_sent_all(&self) -> bool {
        let last = self.phases().len() - 1;
        self.part() == last && self.has_no_more(last, self.claimed_in(last))
    }

    /// True while more is to be sent.
    pub fn is_sending(&self, at: Ns) -> bool {
        self.stopping(at) == Stop::Run && !self.has_sent_all()
    }

    /// A core has read so many first tokens more, so long after their due times together.
    pub fn add_first_tokens(&self, count: u64, sum: Ns) {
        self.first_tokens.fetch_add(count, Ordering::Relaxed);
        self.first_tokens_ns.fetch_add(sum.0, Ordering::Relaxed);
    }

    /// First tokens so far, and the sum of their times from due; a core's own come a moment late.
    pub fn first_tokens(&self) -> (u64, Ns) {
        let sum = Ns(self.first_tokens_ns.load(Ordering::Relaxed));
        (self.first_tokens.load(Ordering::Relaxed), sum)
    }

    /// Due times of a phase, from its start, once it has begun; absent in a closed loop.
    pub fn arrivals(&self, part: usize) -> Option<Arrivals> {
        let law = self.phases()[part].law.clone()?;
        Some(Arrivals::new(law, self.states()[part].first()?, part > 0))
    }
}
