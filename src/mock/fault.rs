//! Which requests go wrong, and how.

use crate::base::Rng;

/// Shares of requests that go wrong, each in `0..=1`; together at most 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// Answered with `status_code`.
    pub status: f64,
    /// The code of `status`.
    pub status_code: u16,
    /// `Retry-After` of those, in seconds.
    pub retry_after_s: Option<u32>,
    /// Answered with 500.
    pub error_rate: f64,
    /// Connection reset after half of the tokens.
    pub reset: f64,
    /// Silent for ever after half of the tokens.
    pub stall: f64,
    /// An error event in place of the second half.
    pub error_in_stream: f64,
    /// Whole, but without `[DONE]`.
    pub no_done: f64,
    /// Connection closed after half of the tokens, without the final chunk.
    pub cut: f64,
    /// A good answer with no token.
    pub empty: f64,
    /// 200 with a page of HTML.
    pub wrong_content_type: f64,
    /// Whole, then the kept-alive connection is closed without a word.
    pub stale_close: f64,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            status: 0.0,
            status_code: 429,
            retry_after_s: None,
            error_rate: 0.0,
            reset: 0.0,
            stall: 0.0,
            error_in_stream: 0.0,
            no_done: 0.0,
            cut: 0.0,
            empty: 0.0,
            wrong_content_type: 0.0,
            stale_close: 0.0,
        }
    }
}

/// What goes wrong with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    Status(u16),
    Reset,
    Stall,
    ErrorInStream,
    NoDone,
    Cut,
    Empty,
    WrongContentType,
    StaleClose,
}

impl Fault {
    /// True when the stream breaks off after half of its tokens.
    pub(super) fn breaks_off(self) -> bool {
        matches!(
            self,
            Fault::Reset | Fault::Stall | Fault::ErrorInStream | Fault::Cut
        )
    }
}

impl Faults {
    /// The fault of one request: one draw over the shares, in the order of the fields.
    pub(super) fn draw(&self, rng: &mut Rng) -> Fault {
        let mut left = rng.unit();
        let shares = [
            (self.status, Fault::Status(self.status_code)),
            (self.error_rate, Fault::Status(500)),
            (self.reset, Fault::Reset),
            (self.stall, Fault::Stall),
            (self.error_in_stream, Fault::ErrorInStream),
            (self.no_done, Fault::NoDone),
            (self.cut, Fault::Cut),
            (self.empty, Fault::Empty),
            (self.wrong_content_type, Fault::WrongContentType),
            (self.stale_close, Fault::StaleClose),
        ];
        for (share, fault) in shares {
            if left < share {
                return fault;
            }
            left -= share;
        }
        Fault::None
    }

    /// The sum of the shares, and whether each is a share.
    pub(super) fn are_shares(&self) -> bool {
        let shares = [
            self.status,
            self.error_rate,
            self.reset,
            self.stall,
            self.error_in_stream,
            self.no_done,
            self.cut,
            self.empty,
            self.wrong_content_type,
            self.stale_close,
        ];
        shares.iter().all(|share| (0.0..=1.0).contains(share))
            && shares.iter().sum::<f64>() <= 1.0 + 1e-9
            && (100..=599).contains(&self.status_code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Stream;

    #[test]
    fn faults_come_in_their_shares_and_the_same_for_the_same_seed() {
        let faults = Faults {
            status: 0.2,
            reset: 0.1,
            stale_close: 0.3,
            ..Faults::default()
        };
        let draw = |seed| -> Vec<Fault> {
            (0..10_000)
                .map(|index| faults.draw(&mut Rng::new(seed, Stream::Mock, index)))
                .collect()
        };
        let first = draw(7);
        assert_eq!(first, draw(7));
        let share = |fault| first.iter().filter(|&&f| f == fault).count();
        assert!((1_800..2_200).contains(&share(Fault::Status(429))));
        assert!((850..1_150).contains(&share(Fault::Reset)));
        assert!((2_800..3_200).contains(&share(Fault::StaleClose)));
        assert!((3_800..4_200).contains(&share(Fault::None)));
    }

    #[test]
    fn shares_above_one_are_refused() {
        let faults = Faults {
            status: 0.6,
            cut: 0.6,
            ..Faults::default()
        };
        assert!(!faults.are_shares());
        assert!(Faults::default().are_shares());
    }
}
