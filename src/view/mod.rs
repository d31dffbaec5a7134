//! The live line: a bar on a terminal, a plain line now and then in a pipe, always on stderr.
//!
//! It is fed with plain numbers and knows nothing of sockets, files or how they came about. Start
//! at [`Progress`]; single lines go by [`tell`], data by [`show`].

mod say;

pub use say::{show, tell};

use crate::base::Ns;
use crate::config::Ui;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time between two plain lines.
const LINE_EVERY: Ns = Ns::from_ms(5_000);
/// Redraws of the bar per second.
const DRAWS_PER_S: u8 = 5;

/// A run at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Since the phase began.
    pub elapsed: Ns,
    /// `warm-up`, `measuring`, `draining`.
    pub phase: &'static str,
    /// Requests of this phase that ended well.
    pub done: u64,
    /// Requests of this phase that failed.
    pub failed: u64,
    /// Requests of the schedule that were not sent.
    pub skipped: u64,
    /// Requests of this phase in all; absent where the clock ends it.
    pub total: Option<u64>,
    /// Requests in flight, of any phase.
    pub in_flight: u64,
    /// Content events per second, of late.
    pub events_per_s: Option<f64>,
}

enum Display {
    Bar(ProgressBar),
    Lines { next: Ns, phase: &'static str },
    Off,
}

/// Shows how far a run is.
pub struct Progress {
    display: Display,
}

impl Progress {
    /// A display; `is_terminal` is about stderr. A bar needs a terminal that moves its cursor: with
    /// `TERM=dumb` or `NO_COLOR` set there are plain lines instead, without any escape byte.
    pub fn new(ui: Ui, is_terminal: bool) -> Progress {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_plain = !is_terminal || is_dumb || is_set("NO_COLOR");
        let display = match ui {
            Ui::None => Display::Off,
            Ui::Auto | Ui::Simple if is_plain => Display::Lines {
                next: LINE_EVERY,
                phase: "",
            },
            Ui::Auto | Ui::Simple => Display::Bar(bar()),
        };
        Progress { display }
    }

    /// Shows the newest numbers, if it is time.
    pub fn tick(&mut self, snapshot: Snapshot) {
        if let Display::Bar(bar) = &self.display {
            bar.set_position(snapshot.done + snapshot.failed + snapshot.skipped);
            match snapshot.total {
                Some(total) => bar.set_length(total),
                None => bar.unset_length(),
            }
            bar.set_message(line(&snapshot));
        } else if self.is_due(&snapshot) {
            tell(&line(&snapshot));
        }
    }

    /// Removes the bar; lines stay.
    pub fn finish(self) {
        if let Display::Bar(bar) = self.display {
            bar.finish_and_clear();
        }
    }

    /// Is a plain line due? One each [`LINE_EVERY`], counted anew in each phase.
    fn is_due(&mut self, snapshot: &Snapshot) -> bool {
        let Display::Lines { next, phase } = &mut self.display else {
            return false;
        };
        if *phase != snapshot.phase {
            (*phase, *next) = (snapshot.phase, LINE_EVERY);
        }
        let is_due = snapshot.elapsed >= *next;
        if is_due {
            *next = snapshot.elapsed + LINE_EVERY;
        }
        is_due
    }
}

fn bar() -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_S);
    let bar = ProgressBar::with_draw_target(None, target);
    // A template that does not parse would be a bug; the default style is readable too.
    if let Ok(style) = ProgressStyle::with_template("[{bar:24}] {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

fn line(snapshot: &Snapshot) -> String {
    let ended = snapshot.done + snapshot.failed;
    let of = snapshot
        .total
        .map_or(String::new(), |total| format!("/{total}"));
    let mut text = format!(
        "{} {:.0} s: {ended}{of} requests, {} in flight",
        snapshot.phase,
        snapshot.elapsed.as_secs(),
        snapshot.in_flight
    );
    if snapshot.failed > 0 {
        text.push_str(&format!(", {} failed", snapshot.failed));
    }
    if snapshot.skipped > 0 {
        text.push_str(&format!(", {} skipped", snapshot.skipped));
    }
    if let Some(rate) = snapshot.events_per_s {
        text.push_str(&format!(", {rate:.0} events/s"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(elapsed_ms: u64, phase: &'static str) -> Snapshot {
        Snapshot {
            elapsed: Ns::from_ms(elapsed_ms),
            phase,
            done: 7,
            failed: 1,
            skipped: 2,
            total: Some(20),
            in_flight: 4,
            events_per_s: Some(1_234.5),
        }
    }

    #[test]
    fn a_line_says_what_a_waiting_person_wants_and_has_no_escape() {
        let text = line(&snapshot(5_000, "measuring"));
        let expected =
            "measuring 5 s: 8/20 requests, 4 in flight, 1 failed, 2 skipped, 1234 events/s";
        assert_eq!(text, expected);
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn a_pipe_gets_a_line_now_and_then() {
        let mut progress = Progress::new(Ui::Auto, false);
        let due: Vec<bool> = [0, 4_999, 5_000, 5_100, 9_999, 10_000]
            .map(|ms| progress.is_due(&snapshot(ms, "measuring")))
            .to_vec();
        assert_eq!(due, [false, false, true, false, false, true]);
        assert!(!progress.is_due(&snapshot(100, "draining")));
        assert!(progress.is_due(&snapshot(5_000, "draining")));
    }

    #[test]
    fn none_shows_nothing() {
        let mut progress = Progress::new(Ui::None, true);
        assert!(!progress.is_due(&snapshot(60_000, "measuring")));
        progress.tick(snapshot(60_000, "measuring"));
        progress.finish();
    }
}
