//! The record thread: token counts, the records file, the metrics' columns; off the workers' cores.

use super::files::RecordFiles;
use super::stops::Windows;
use crate::base::{Ns, now};
use crate::config::TokenCount;
use crate::endpoint;
use crate::engine::{Pace, emptied};
use crate::runtime::thread_cpu;
use crate::stats::stability::Stability;
use crate::stats::{Accumulator, Buffers, Phase, Record, TokenCounts, TokenSource, Totals, Usage};
use crate::workload::Tokenizer;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Batches waiting above which the client count of texts that the server has counted is skipped.
const BACKLOG_MAX: usize = 64;
/// Tokenizing texts that the server has counted may use this share of the thread's time.
const SPARE_SHARE: f64 = 0.25;

/// What the thread needs.
pub struct RecordPlan {
    /// Finished requests of all cores.
    pub records: Receiver<Vec<Record>>,
    /// Buffers back to each core.
    pub buffers: Vec<Sender<Buffers>>,
    /// Tokenizer for the client's counts.
    pub tokenizer: Arc<Tokenizer>,
    /// Sessions may have several turns.
    pub turns: bool,
    /// Answers are text.
    pub has_tokens: bool,
    /// Whose counts to use.
    pub token_count: TokenCount,
    /// Says when the measurement began.
    pub pace: Arc<Pace>,
    /// Metrics.
    pub accumulator: Accumulator,
    /// Files, when asked for.
    pub files: RecordFiles,
    /// Windows that may end the run, when asked for.
    pub windows: Option<Windows>,
}

/// What the thread has at the end.
pub struct RecordOutcome {
    /// Metrics.
    pub totals: Totals,
    /// Files to finish.
    pub files: RecordFiles,
    /// CPU time used, ns.
    pub cpu_ns: u64,
    /// Requests whose output our tokenizer did not count, because it would not have kept up.
    pub uncounted: u64,
    /// What the windows came to.
    pub stability: Option<Stability>,
}

/// Runs until every sender is gone.
pub fn work(mut plan: RecordPlan) -> RecordOutcome {
    let mut counter = Counter {
        said: HashMap::new(),
        spent: Ns::ZERO,
        since: now(),
        uncounted: 0,
    };
    loop {
        let batch = match plan.records.recv_timeout(Duration::from_millis(200)) {
            Ok(batch) => batch,
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let busy = plan.records.len() > BACKLOG_MAX;
        if let Some(from) = plan.pace.measured_from() {
            plan.accumulator.begin(from);
        }
        for mut record in batch {
            if !plan.has_tokens {
                record.usage = input_only(record.usage);
            }
            let tokens = counter.count(&record, &plan, busy);
            record.tokens = tokens;
            plan.accumulator.push(&record);
            if let Some(windows) = &mut plan.windows {
                windows.push(&record);
            }
            plan.files.write(&record, &plan.accumulator);
            let core = usize::from(record.core);
            if let Some(back) = plan.buffers.get(core) {
                // A full or closed way back only means one allocation more.
                let _ = back.try_send(emptied(record.buffers));
            }
        }
        if let Some(windows) = &mut plan.windows {
            windows.look();
        }
    }
    let cpu = thread_cpu();
    RecordOutcome {
        totals: plan.accumulator.finish(),
        files: plan.files,
        cpu_ns: cpu.user_ns + cpu.system_ns,
        uncounted: counter.uncounted,
        stability: plan.windows.and_then(Windows::finish),
    }
}

/// That some answers were not counted by our tokenizer.
pub fn uncounted_note(count: u64) -> Option<String> {
    (count > 0).then(|| {
        format!(
            "{count} answers were counted by the server only: our tokenizer would not have kept up"
        )
    })
}

struct Counter {
    /// Tokens of a session's messages and answers so far.
    said: HashMap<u64, u32>,
    spent: Ns,
    since: Ns,
    uncounted: u64,
}

impl Counter {
    /// Counts by the rules of `--token-count`: never the asked length.
    fn count(&mut self, record: &Record, plan: &RecordPlan, busy: bool) -> TokenCounts {
        let mut tokens = TokenCounts {
            client_input: record.requested_input,
            ..Default::default()
        };
        let usage = &record.usage;
        let server = plan.token_count != TokenCount::Client;
        let client = plan.token_count != TokenCount::Server;
        let known = server && usage.completion.is_some();
        let wanted = plan.has_tokens && client && (record.phase == Phase::Profiling || !known);
        if wanted && (!known || !busy && self.has_spare_time()) {
            let began = now();
            let reasoning = count_text(&plan.tokenizer, &record.buffers.reasoning);
            let answer = count_text(&plan.tokenizer, &record.buffers.answer);
            self.spent = self.spent + now().saturating_since(began);
            tokens.client_reasoning = Some(reasoning);
            tokens.client_output = Some(reasoning + answer);
        } else if wanted {
            self.uncounted += 1;
        }
        if known {
            (tokens.output, tokens.reasoning) = server_counts(usage);
            tokens.output_source = TokenSource::Server;
        } else if let (Some(all), Some(reasoning)) = (tokens.client_output, tokens.client_reasoning)
        {
            tokens.output = Some(all - reasoning);
            tokens.reasoning = (reasoning > 0).then_some(reasoning);
            tokens.output_source = TokenSource::Client;
        }
        if plan.turns {
            self.add_said(record, &mut tokens);
        }
        let by_server = usage
            .prompt
            .filter(|_| plan.token_count == TokenCount::Server);
        tokens.input = by_server.or(tokens.client_input);
        tokens.input_source = match by_server {
            Some(_) => TokenSource::Server,
            None => TokenSource::Client,
        };
        tokens
    }

    /// A turn's input is all that was said before, too: messages by our count, answers by that of
    /// the output.
    fn add_said(&mut self, record: &Record, tokens: &mut TokenCounts) {
        let said = self.said.entry(record.session).or_default();
        let input = said.saturating_add(record.requested_input.unwrap_or(0));
        tokens.client_input = Some(input);
        *said = input.saturating_add(tokens.output.unwrap_or(0));
    }

    /// Counting again what the server has counted is a check, and must not hold the thread up.
    fn has_spare_time(&self) -> bool {
        let passed = now().saturating_since(self.since).as_secs();
        self.spent.as_secs() < 0.05 + passed * SPARE_SHARE
    }
}

/// Of an answer that is no text only the prompt's tokens are told.
fn input_only(usage: Usage) -> Usage {
    Usage {
        prompt: usage.prompt,
        cache_read: usage.cache_read,
        ..Usage::default()
    }
}

/// Answer and reasoning tokens by the server's usage. Reasoning is a part of the completion (field
/// case TC-3): a server that says more of it is not believed beyond the completion.
fn server_counts(usage: &Usage) -> (Option<u32>, Option<u32>) {
    let Some(completion) = usage.completion else {
        return (None, None);
    };
    let reasoning = usage.reasoning.map(|count| count.min(completion));
    (Some(completion - reasoning.unwrap_or(0)), reasoning)
}

/// Tokens of a text that is the inside of a JSON string.
fn count_text(tokenizer: &Tokenizer, escaped: &[u8]) -> u32 {
    if escaped.is_empty() {
        return 0;
    }
    let text = endpoint::unescape(escaped);
    u32::try_from(tokenizer.count(&text)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_is_a_part_of_the_completion_and_never_more() {
        let split = |completion, reasoning| {
            let usage = Usage {
                completion: Some(completion),
                reasoning,
                ..Usage::default()
            };
            server_counts(&usage)
        };
        assert_eq!(split(120, Some(100)), (Some(20), Some(100)));
        assert_eq!(split(5, Some(50)), (Some(0), Some(5)));
        assert_eq!(split(5, Some(5)), (Some(0), Some(5)));
        assert_eq!(split(5, None), (Some(5), None));
        assert_eq!(split(u32::MAX, Some(u32::MAX)), (Some(0), Some(u32::MAX)));
    }
}
