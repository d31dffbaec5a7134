//! Exit codes: public, documented in docs/exit-codes.md.

use std::process::ExitCode;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: all as asked.
    Ok,
    /// 1: something unexpected, a bug or an I/O fault.
    Unexpected,
    /// 2: bad usage or configuration; nothing was sent.
    Usage,
    /// 3: no target accepts a connection, or every request failed.
    Unreachable,
    /// 4: a threshold was missed.
    Threshold,
    /// 5: the client was the limit; the numbers are not to be trusted.
    Invalid,
    /// 6: partial results.
    Partial,
    /// 130: SIGINT.
    Interrupted,
    /// 143: SIGTERM.
    Terminated,
}

impl Exit {
    /// The number that the shell sees.
    pub fn code(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Unexpected => 1,
            Exit::Usage => 2,
            Exit::Unreachable => 3,
            Exit::Threshold => 4,
            Exit::Invalid => 5,
            Exit::Partial => 6,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
        }
    }

    /// The one that is reported when several apply: 2, then 130/143, 3, 6, 5, 4, 1, 0.
    pub fn worse(self, other: Exit) -> Exit {
        if self.rank() <= other.rank() {
            self
        } else {
            other
        }
    }

    fn rank(self) -> u8 {
        match self {
            Exit::Usage => 0,
            Exit::Interrupted | Exit::Terminated => 1,
            Exit::Unreachable => 2,
            Exit::Partial => 3,
            Exit::Invalid => 4,
            Exit::Threshold => 5,
            Exit::Unexpected => 6,
            Exit::Ok => 7,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_outranks_failed_requests_and_usage_outranks_all() {
        assert_eq!(
            Exit::Unreachable.worse(Exit::Interrupted),
            Exit::Interrupted
        );
        assert_eq!(Exit::Invalid.worse(Exit::Partial), Exit::Partial);
        assert_eq!(Exit::Ok.worse(Exit::Threshold), Exit::Threshold);
        assert_eq!(Exit::Interrupted.worse(Exit::Usage), Exit::Usage);
    }
}
