//! A timing wheel: 65,536 slots of 16.4 us, a horizon of 1.07 s, and a heap for what lies beyond.

use crate::base::Ns;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const SLOT_BITS: u32 = 14;
const SLOTS: usize = 1 << 16;
const WORDS: usize = SLOTS / 64;

/// A deadline of a connection; `life` tells its present use from an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) at: Ns,
    pub(super) conn: u32,
    pub(super) life: u32,
}

pub(super) struct Wheel {
    slots: Vec<Vec<Entry>>,
    filled: Vec<u64>,
    /// No entry in the slots is before this slot number.
    cursor: u64,
    near_count: usize,
    far: BinaryHeap<Reverse<Entry>>,
}

fn index(slot: u64) -> usize {
    usize::try_from(slot & (SLOTS as u64 - 1)).unwrap_or(0)
}

impl Wheel {
    pub(super) fn new(now: Ns) -> Wheel {
        Wheel {
            slots: vec![Vec::new(); SLOTS],
            filled: vec![0; WORDS],
            cursor: now.0 >> SLOT_BITS,
            near_count: 0,
            far: BinaryHeap::new(),
        }
    }

    pub(super) fn add(&mut self, entry: Entry) {
        let slot = (entry.at.0 >> SLOT_BITS).max(self.cursor);
        if slot >= self.cursor + SLOTS as u64 {
            self.far.push(Reverse(entry));
            return;
        }
        let i = index(slot);
        self.slots[i].push(entry);
        self.filled[i / 64] |= 1 << (i % 64);
        self.near_count += 1;
    }

    /// Moves every entry that is due at `now` into `out`, earliest first.
    pub(super) fn due(&mut self, now: Ns, out: &mut Vec<Entry>) {
        let last = now.0 >> SLOT_BITS;
        let before = out.len();
        while let Some(slot) = self.first_slot().filter(|&slot| slot <= last) {
            self.cursor = slot;
            let i = index(slot);
            let entries = &mut self.slots[i];
            let count = entries.len();
            if slot < last {
                out.append(entries);
            } else {
                out.extend(entries.extract_if(.., |entry| entry.at <= now));
            }
            self.near_count -= count - entries.len();
            if !entries.is_empty() {
                break;
            }
            self.filled[i / 64] &= !(1 << (i % 64));
        }
        if self.first_slot().is_none_or(|slot| slot > last) {
            self.cursor = self.cursor.max(last);
        }
        self.draw_near(now, out);
        out[before..].sort_unstable();
    }

    /// Entries of the heap that the horizon has reached.
    fn draw_near(&mut self, now: Ns, out: &mut Vec<Entry>) {
        while let Some(&Reverse(entry)) = self.far.peek() {
            if entry.at.0 >> SLOT_BITS >= self.cursor + SLOTS as u64 {
                break;
            }
            self.far.pop();
            if entry.at <= now {
                out.push(entry);
            } else {
                self.add(entry);
            }
        }
    }

    /// The earliest deadline.
    pub(super) fn next(&self) -> Option<Ns> {
        let near = self
            .first_slot()
            .and_then(|slot| self.slots[index(slot)].iter().map(|entry| entry.at).min());
        let far = self.far.peek().map(|Reverse(entry)| entry.at);
        near.into_iter().chain(far).min()
    }

    fn first_slot(&self) -> Option<u64> {
        if self.near_count == 0 {
            return None;
        }
        let start = index(self.cursor);
        let mut word = start / 64;
        let mut bits = self.filled[word] & (!0 << (start % 64));
        for _ in 0..=WORDS {
            if bits != 0 {
                let i = word * 64 + bits.trailing_zeros() as usize;
                return Some(self.cursor + ((i + SLOTS - start) % SLOTS) as u64);
            }
            word = (word + 1) % WORDS;
            bits = self.filled[word];
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Rng;
    use crate::base::rng::Stream;

    #[test]
    fn entries_leave_in_order_neither_early_nor_late() {
        let start = 5_000_000_000;
        let mut wheel = Wheel::new(Ns(start));
        let mut rng = Rng::new(1, Stream::Test, 0);
        let mut expected: Vec<Entry> = (0..5_000)
            .map(|conn| Entry {
                at: Ns(start + rng.below(4_000_000_000)),
                conn,
                life: 0,
            })
            .collect();
        for &entry in &expected {
            wheel.add(entry);
        }
        expected.sort_unstable();
        let mut seen = Vec::new();
        while let Some(next) = wheel.next() {
            assert_eq!(next, expected[seen.len()].at);
            let now = Ns(next.0 + rng.below(3_000_000));
            let before = seen.len();
            wheel.due(now, &mut seen);
            assert!(seen.len() > before);
            assert!(seen.iter().all(|entry| entry.at <= now));
            assert!(expected.get(seen.len()).is_none_or(|entry| entry.at > now));
        }
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_long_idle_wheel_takes_past_and_far_deadlines() {
        let mut wheel = Wheel::new(Ns(0));
        let entry = |at| Entry {
            at: Ns(at),
            conn: 1,
            life: 2,
        };
        let mut out = Vec::new();
        wheel.due(Ns(90_000_000_000), &mut out);
        assert!(out.is_empty() && wheel.next().is_none());
        wheel.add(entry(5));
        wheel.add(entry(200_000_000_000));
        wheel.due(Ns(90_000_000_001), &mut out);
        assert_eq!(out, [entry(5)]);
        assert_eq!(wheel.next(), Some(Ns(200_000_000_000)));
        wheel.due(Ns(200_000_000_000), &mut out);
        assert_eq!(out.len(), 2);
    }
}
