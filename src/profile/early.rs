//! An end before the measurement.

use crate::base::Exit;

/// How and why a run ended before its first request; it leaves no files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Early {
    /// The exit code.
    pub exit: Exit,
    /// What to tell, without `error:`.
    pub text: String,
}

impl Early {
    /// An end with its reason.
    pub fn new(exit: Exit, text: impl Into<String>) -> Early {
        Early {
            exit,
            text: text.into(),
        }
    }

    /// Bad usage.
    pub fn usage(text: impl Into<String>) -> Early {
        Early::new(Exit::Usage, text)
    }
}
