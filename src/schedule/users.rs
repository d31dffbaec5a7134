//! Users who come and go: a rate is that of so many users at once, each with a turn at even times,
//! as if they had been there for long.

use crate::base::Ns;

/// The users of a phase. Each place among them is taken by one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Users {
    /// From one turn of a user to the next.
    pub gap: Ns,
    /// Who has each place at the start, by the time of the first turn.
    pub first: Vec<FirstUser>,
}

/// A user who is there from the start, or soon after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstUser {
    /// Number, from 1; the one after the last is new.
    pub number: u32,
    /// Turns that are left.
    pub turns: u32,
    /// When the first of them is due, from the start.
    pub at: Ns,
}

impl Users {
    /// `count` users of `turns` turns on average, at least 2 each, at a rate of all turns together.
    ///
    /// Source: AIPerf's user-centric rate.
    pub fn new(count: u32, turns: u32, rate_per_s: f64) -> Users {
        let rest = turns.saturating_sub(1).max(1);
        // Ages spread evenly over the users' lives must not share a time.
        let step = match gcd(count, rest) {
            1 => None,
            _ => (2..).find(|&step| gcd(step, count) == 1),
        };
        let at = |order: u32| Ns::from_secs_f64(f64::from(order) / rate_per_s);
        let existing = |index: u32| {
            let age = u64::from(count - index) * u64::from(rest);
            let (lived, rest_of) = (age / u64::from(count), age % u64::from(count));
            let left = u64::from(rest)
                .checked_sub(lived)
                .filter(|&left| left > 0)?;
            let slot = match step {
                Some(step) => u64::from(index) * u64::from(step) % u64::from(count),
                None => rest_of,
            };
            let order = u64::from(count) - slot;
            Some(FirstUser {
                number: index + 1,
                turns: u32::try_from(left).unwrap_or(u32::MAX),
                at: at(u32::try_from(order).unwrap_or(u32::MAX)),
            })
        };
        let new = FirstUser {
            number: count + 1,
            turns: turns.max(1),
            at: Ns::ZERO,
        };
        let mut first: Vec<FirstUser> = (0..count).filter_map(existing).collect();
        first.push(new);
        first.sort_by_key(|user| user.at);
        Users {
            gap: Ns::from_secs_f64(f64::from(count) / rate_per_s),
            first,
        }
    }

    /// How long a user of so many turns has a place.
    pub fn life(&self, turns: u32) -> Ns {
        Ns(self.gap.0.saturating_mul(u64::from(turns)))
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(count: u32, turns: u32, rate: f64) -> Vec<(u32, u32, f64)> {
        let users = Users::new(count, turns, rate);
        let row = |user: &FirstUser| (user.number, user.turns, user.at.as_secs());
        users.first.iter().map(row).collect()
    }

    #[test]
    fn users_are_those_of_aiperf() {
        // Computed by AIPerf 0.13.0.
        let expected = [
            (16, 20, 0.0),
            (5, 6, 1.0),
            (9, 11, 2.0),
            (13, 16, 3.0),
            (2, 2, 4.0),
            (6, 7, 5.0),
            (10, 12, 6.0),
            (14, 17, 7.0),
            (3, 3, 8.0),
            (7, 8, 9.0),
            (11, 13, 10.0),
            (15, 18, 11.0),
            (4, 4, 12.0),
            (8, 9, 13.0),
            (12, 14, 14.0),
        ];
        assert_eq!(table(15, 20, 1.0), expected);
        let expected = [
            (9, 9, 0.0),
            (6, 5, 0.5),
            (3, 2, 1.0),
            (8, 7, 1.5),
            (5, 4, 2.0),
            (2, 1, 2.5),
            (7, 6, 3.0),
            (4, 3, 3.5),
        ];
        assert_eq!(table(8, 9, 2.0), expected);
    }

    #[test]
    fn each_user_has_a_time_of_its_own_and_all_together_the_rate() {
        for count in 1..40 {
            for turns in 2..12 {
                let users = Users::new(count, turns, 4.0);
                assert!(users.first.len() <= count as usize + 1);
                let mut times: Vec<Ns> = users.first.iter().map(|user| user.at).collect();
                times.dedup();
                assert_eq!(times.len(), users.first.len(), "{count} {turns}");
                assert_eq!(users.gap, Ns::from_secs_f64(f64::from(count) / 4.0));
                assert!(times.last().unwrap() <= &users.gap);
            }
        }
    }
}
