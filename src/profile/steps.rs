//! What happens before the clock starts, told to whoever waits: a step that lasts is named, and
//! `--verbose` names all of them with their times.

use crate::base::{Ns, now};
use crate::view::tell;
use std::sync::{Arc, Mutex, PoisonError};

/// A step that lasts longer is named on stderr.
const PATIENCE: Ns = Ns::from_ms(1_000);

struct Step {
    name: String,
    since: Ns,
    told: bool,
    /// When its progress was told last.
    told_at: Ns,
}

/// The steps of one start; a copy is the same.
#[derive(Clone)]
pub struct Steps {
    verbose: bool,
    launched: Ns,
    current: Arc<Mutex<Option<Step>>>,
}

impl Steps {
    /// Before the first step.
    pub fn new(verbose: bool, launched: Ns) -> Steps {
        Steps {
            verbose,
            launched,
            current: Arc::default(),
        }
    }

    /// Ends the step before and begins `name`, which reads as "preparing 7 requests".
    pub fn begin(&self, name: impl Into<String>) {
        self.replace(Some(Step {
            name: name.into(),
            since: now(),
            told: false,
            told_at: now(),
        }));
    }

    /// Ends the last step.
    pub fn end(&self) {
        self.replace(None);
    }

    /// How far the current step is: named when it lasts, and not again before it has lasted as long
    /// once more.
    pub fn again(&self, text: &str) {
        let at = now();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(step) = current.as_mut()
            && at.saturating_since(step.told_at) > PATIENCE
        {
            step.told_at = at;
            tell(text);
        }
    }

    /// Something that has no length, for `--verbose` only.
    pub fn mention(&self, text: &str) {
        if self.verbose {
            tell(text);
        }
    }

    fn replace(&self, next: Option<Step>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, next);
        if let (true, Some(step)) = (self.verbose, before) {
            let at = now();
            tell(&format!(
                "{:>6.0} ms  {}: {:.0} ms",
                at.saturating_since(self.launched).as_ms(),
                step.name,
                at.saturating_since(step.since).as_ms()
            ));
        }
    }

    /// Names the current step if it lasts; called again and again by whoever waits.
    pub fn tick(&self) {
        if let Some(name) = self.slow(now()) {
            tell(&format!("{name} ..."));
        }
    }

    /// The current step, once, when it has lasted too long to stay silent.
    fn slow(&self, at: Ns) -> Option<String> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let step = current.as_mut()?;
        let is_slow = !step.told && at.saturating_since(step.since) > PATIENCE;
        step.told |= is_slow;
        is_slow.then(|| step.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_lasts_is_named_once() {
        let steps = Steps::new(false, now());
        assert_eq!(steps.slow(now()), None);
        steps.begin("preparing 7 requests");
        let later = now() + Ns::from_ms(60_000);
        assert_eq!(steps.slow(now()), None);
        assert_eq!(steps.slow(later).as_deref(), Some("preparing 7 requests"));
        assert_eq!(steps.slow(later), None);
        steps.begin("opening 2 connections");
        assert_eq!(steps.slow(later).as_deref(), Some("opening 2 connections"));
        steps.end();
        assert_eq!(steps.slow(later), None);
    }
}
