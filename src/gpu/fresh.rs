//! How often a page's values change: an exporter collects at an interval of its own, by default
//! every 30 s, and says the same until then.

use crate::base::Ns;

/// Scrapes in a row that say the same before a page counts as stale.
const SAME_MAX: u32 = 5;

/// Changes of what a page says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Freshness {
    last: Option<u64>,
    same: u32,
    same_most: u32,
    begun: Ns,
    seen: Ns,
    /// First and latest change, and how many there were.
    changed: Option<(Ns, Ns, u32)>,
}

impl Freshness {
    /// Takes what a scrape said, as a hash of it.
    pub fn push(&mut self, at: Ns, said: u64) {
        match self.last.replace(said) {
            None => self.begun = at,
            Some(last) if last == said => {
                self.same += 1;
                self.same_most = self.same_most.max(self.same);
            }
            Some(_) => {
                self.same = 0;
                let (first, _, count) = self.changed.unwrap_or((at, at, 0));
                self.changed = Some((first, at, count + 1));
            }
        }
        self.seen = at;
    }

    /// Mean time between two changes; from the first scrape on where there was one or none.
    pub fn period(&self) -> Option<Ns> {
        match self.changed {
            Some((first, last, count)) if count > 1 => {
                Some(Ns(last.saturating_since(first).0 / u64::from(count - 1)))
            }
            _ => Some(self.seen.saturating_since(self.begun)).filter(|_| self.is_stale()),
        }
    }

    /// The same was said again and again.
    pub fn is_stale(&self) -> bool {
        self.same_most >= SAME_MAX
    }

    /// A sentence on a page that is stale; `remedy` is what makes it faster.
    pub fn note(&self, page: &str, remedy: &str) -> Option<String> {
        let period = self.period().filter(|_| self.is_stale())?.as_secs();
        let how_often = match self.changed {
            Some((_, _, count)) if count > 1 => format!("only every {period:.1} s"),
            Some(_) => format!("only once in {period:.1} s"),
            None => format!("not once in {period:.1} s"),
        };
        Some(format!(
            "{page}: its values changed {how_often}, so that what it tells is as coarse; {remedy}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(said: &[u64]) -> Freshness {
        let mut fresh = Freshness::default();
        for (tick, &said) in (0..).zip(said) {
            fresh.push(Ns::from_ms(1_000 * tick), said);
        }
        fresh
    }

    #[test]
    fn a_page_that_says_the_same_too_long_is_stale() {
        let fresh = seen(&[1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(
            (fresh.is_stale(), fresh.period()),
            (false, Some(Ns::from_ms(1_000)))
        );
        assert_eq!(fresh.note("p", "r"), None);
        let still = seen(&[1; 7]);
        assert!(still.note("p", "r").unwrap().contains("not once in 6.0 s"));
        let slow = seen(&[1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4]);
        assert_eq!(slow.period(), Some(Ns::from_ms(6_000)));
        assert!(slow.note("p", "r").unwrap().contains("every 6.0 s"));
        let once = seen(&[1, 1, 1, 1, 1, 1, 1, 2]);
        assert!(once.note("p", "r").unwrap().contains("once in 7.0 s"));
    }

    #[test]
    fn a_run_too_short_to_tell_tells_nothing() {
        assert_eq!(seen(&[1, 1, 1]).period(), None);
        assert_eq!(seen(&[]).note("p", "r"), None);
    }
}
