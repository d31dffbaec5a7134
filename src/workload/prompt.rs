//! Prompts of exactly the asked length, each different, the same for the same seed and number.

use super::corpus::Corpus;
use super::tokenizer::Tokenizer;
use crate::base::{Rng, rng::Stream};
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

/// Up to so many tokens a text of the corpus may stand in it twice: such prompts open with words
/// that count the entries.
const SHORT_TOKENS: usize = 24;
/// Words of a short prompt that count.
const OPENING_WORDS: usize = 3;
/// From one of those words to the next of the same entry, at least.
const OPENING_STEP: u64 = 1_009;
/// How many different ones are looked for, in how many entries of the vocabulary at most.
const OPENINGS_MAX: usize = 8_192;
const VOCABULARY_LOOK: u32 = 100_000;

/// Bytes of English per token, rather too many: what is too much is cut off.
const BYTES_PER_TOKEN: usize = 5;
/// Attempts to meet the length exactly.
const REPAIRS_MAX: usize = 16;

/// A prompt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Prompt {
    /// What is asked.
    pub text: String,
    /// Its tokens, counted.
    pub tokens: u32,
}

/// Makes prompts.
pub struct PromptSource {
    tokenizer: Arc<Tokenizer>,
    corpus: &'static Corpus,
    seed: u64,
    first_word: u64,
    frame: u32,
    /// Words of one token, at the start of a text and after a space, each once.
    openings: OnceLock<Vec<String>>,
}

impl PromptSource {
    /// A source over the bundled corpus.
    pub fn new(tokenizer: Arc<Tokenizer>, seed: u64) -> PromptSource {
        let corpus = Corpus::get();
        let first_word = Rng::new(seed, Stream::Prompt, u64::MAX).below(corpus.words_count());
        PromptSource {
            frame: u32::try_from(tokenizer.frame()).unwrap_or(u32::MAX),
            tokenizer,
            corpus,
            seed,
            first_word,
            openings: OnceLock::new(),
        }
    }

    /// The prompt of entry `index`: `tokens` (at least 1) tokens when encoded again without
    /// special ones. Where a tokenizer has no text of so many, it is one of fewer, but never empty.
    ///
    /// Of `w` words of one token (8,192 where a tokenizer has as many) prompts of one token repeat
    /// after `w` entries, of two after `w` squared. Cost: two encodings of the text as a rule; the
    /// first short prompt looks for those words, some 30 ms.
    pub fn prompt(&self, index: u64, tokens: u32) -> Prompt {
        let tokens = tokens.max(1);
        let wanted = tokens as usize;
        let mut rng = Rng::new(self.seed, Stream::Prompt, index);
        // Each entry starts at a word of its own (the stride is prime, so that words come once in
        // a lap), and goes on elsewhere after a few: no two share a prefix that a cache would find.
        let start = self.first_word.wrapping_add(index.wrapping_mul(7_919));
        let mut text = match wanted <= SHORT_TOKENS {
            true => self.opening(index, wanted.min(OPENING_WORDS)),
            false => self.corpus.window(start, 24 + rng.below(24) as usize),
        };
        if wanted <= OPENING_WORDS && self.tokenizer.count(&text) == wanted {
            return Prompt { text, tokens };
        }
        text.push(' ');
        let jump = rng.below(self.corpus.words_count());
        text.push_str(
            &self
                .corpus
                .window(jump, wanted.saturating_mul(BYTES_PER_TOKEN) + 64),
        );
        self.fit(text, tokens, &mut rng)
    }

    /// Tokens of a text, without special ones.
    pub fn count(&self, text: &str) -> u32 {
        u32::try_from(self.tokenizer.count(text)).unwrap_or(u32::MAX)
    }

    /// Tokens that a message adds to a talk, as [`Tokenizer::count_message`] has it.
    pub fn count_message(&self, text: &str, is_first: bool) -> u32 {
        u32::try_from(self.tokenizer.count_message(text, is_first)).unwrap_or(u32::MAX)
    }

    /// Tokens that a chat template puts around a talk's first message; 0 without one.
    pub fn frame(&self) -> u32 {
        self.frame
    }

    /// Words that are those of no other entry before all of them have been used together.
    fn opening(&self, index: u64, count: usize) -> String {
        let words = self.openings.get_or_init(|| self.find_openings());
        let base = words.len() as u64;
        let (mut rest, mut last) = (index, self.first_word);
        let mut text = String::new();
        for _ in 0..count.min(words.len()) {
            // Neighbours differ in all of their words.
            last = last.wrapping_add(rest % base + OPENING_STEP) % base;
            rest /= base;
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&words[usize::try_from(last).unwrap_or(0)]);
        }
        text
    }

    fn find_openings(&self) -> Vec<String> {
        let mut seen = HashSet::new();
        let is_one = |text: &str| self.tokenizer.count(text) == 1;
        (0..VOCABULARY_LOOK)
            .map(|id| self.tokenizer.decode(&[id]).trim_start().to_string())
            .filter(|word| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_lowercase()))
            .filter(|word| seen.insert(word.clone()))
            .filter(|word| is_one(word) && is_one(&format!(" {word}")))
            .take(OPENINGS_MAX)
            .collect()
    }

    /// Cuts a text to `tokens` tokens at a word's end, and fills what is missing by single words.
    fn fit(&self, text: String, tokens: u32, rng: &mut Rng) -> Prompt {
        let wanted = tokens as usize;
        let ids = self.tokenizer.encode(&text);
        let begins_a_word = |id: &u32| self.tokenizer.decode(&[*id]).starts_with(' ');
        let mut ends = (1..=wanted.min(ids.len())).rev().take(REPAIRS_MAX);
        let mut text = match ends.find(|&end| ids.get(end).is_some_and(begins_a_word)) {
            Some(end) => {
                let mut text = self.tokenizer.decode(&ids[..end]);
                self.add_words(&mut text, wanted - end, rng);
                text
            }
            // Its tokens do not tell where words begin.
            None => {
                let mut text = self.tokenizer.decode(&ids[..wanted.min(ids.len())]);
                cut_last_word(&mut text);
                text
            }
        };
        for _ in 0..REPAIRS_MAX {
            let count = self.tokenizer.count(&text);
            if count == wanted {
                return Prompt { text, tokens };
            }
            if count > wanted {
                cut_last_word(&mut text);
                continue;
            }
            self.add_words(&mut text, wanted - count, rng);
        }
        let text = self.fill(text, wanted, rng);
        let tokens = u32::try_from(self.tokenizer.count(&text)).unwrap_or(tokens);
        Prompt { text, tokens }
    }

    /// For a tokenizer that has few words of one token: drops words, then fills by single letters.
    fn fill(&self, mut text: String, wanted: usize, rng: &mut Rng) -> String {
        while self.tokenizer.count(&text) > wanted {
            cut_last_word(&mut text);
        }
        let mut misses = 0;
        while self.tokenizer.count(&text) < wanted && misses < REPAIRS_MAX {
            let letter = char::from(b"abcdefghijklmnopqrstuvwxyz"[rng.below(26) as usize]);
            text.push(letter);
            if self.tokenizer.count(&text) > wanted {
                text.pop();
                misses += 1;
            }
        }
        if text.is_empty() {
            text.push('a');
        }
        text
    }

    fn add_words(&self, text: &mut String, count: usize, rng: &mut Rng) {
        for _ in 0..count {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(self.short_word(rng));
        }
    }

    /// A word that most tokenizers take as one token.
    fn short_word(&self, rng: &mut Rng) -> &str {
        for _ in 0..8 {
            let word = self.corpus.word(rng.below(self.corpus.words_count()));
            if word.len() <= 4 && word.bytes().all(|b| b.is_ascii_lowercase()) {
                return word;
            }
        }
        "the"
    }
}

/// Drops the last word, with a character that a cut between tokens has broken.
fn cut_last_word(text: &mut String) {
    let end = text.trim_end_matches(' ').rfind(' ').unwrap_or(0);
    text.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TokenizerSpec;
    use crate::workload::Hub;

    fn source(seed: u64) -> (PromptSource, Arc<Tokenizer>) {
        let tokenizer = Arc::new(Tokenizer::builtin());
        (PromptSource::new(tokenizer.clone(), seed), tokenizer)
    }

    #[test]
    fn a_prompt_has_exactly_the_asked_tokens_when_encoded_again() {
        let (source, tokenizer) = source(1);
        for tokens in [1, 2, 3, 17, 128, 550, 4_000] {
            for index in 0..20 {
                let prompt = source.prompt(index, tokens);
                let count = tokenizer.count(&prompt.text);
                assert_eq!(
                    (count, prompt.tokens),
                    (tokens as usize, tokens),
                    "{prompt:?}"
                );
            }
        }
    }

    #[test]
    fn prompts_differ_by_number_and_by_seed_and_are_the_same_again() {
        let (first, _) = source(1);
        let (again, _) = source(1);
        let (other, _) = source(2);
        let starts: HashSet<Prompt> = (0..2_000).map(|index| first.prompt(index, 30)).collect();
        assert_eq!(starts.len(), 2_000);
        assert_eq!(first.prompt(5, 100), again.prompt(5, 100));
        assert_ne!(first.prompt(5, 100), other.prompt(5, 100));
    }

    #[test]
    fn a_tokenizer_without_words_gets_prompts_that_are_never_empty_nor_too_long() {
        let letters: Vec<String> = (b' '..=b'~')
            .map(|byte| char::from(byte).to_string())
            .collect();
        for merged in [&[][..], &["th", "the", "of"]] {
            let words = letters
                .iter()
                .map(String::as_str)
                .chain(merged.iter().copied());
            let vocab: serde_json::Map<String, serde_json::Value> = words
                .enumerate()
                .map(|(id, word)| (word.to_string(), id.into()))
                .collect();
            let merges = match merged.is_empty() {
                true => vec![],
                false => vec!["t h", "th e", "o f"],
            };
            let file = serde_json::json!({"version": "1.0", "added_tokens": [], "model":
                {"type": "BPE", "vocab": vocab, "merges": merges}});
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("tokenizer.json");
            std::fs::write(&path, file.to_string()).unwrap();
            let spec = TokenizerSpec::named(path.display().to_string());
            let loaded = Tokenizer::load(&spec, None, &Hub::from_env(None), &mut |_| {});
            let tokenizer = Arc::new(loaded.unwrap().0);
            let source = PromptSource::new(tokenizer.clone(), 5);
            for tokens in [1, 2, 3, 8, 40] {
                for index in 0..40 {
                    let prompt = source.prompt(index, tokens);
                    let count = tokenizer.count(&prompt.text) as u32;
                    assert!(!prompt.text.is_empty() && count == prompt.tokens);
                    assert_eq!(count, tokens, "{merged:?} {prompt:?}");
                }
            }
        }
    }

    #[test]
    fn short_prompts_differ_too() {
        let (source, _) = source(3);
        for (tokens, entries) in [(1, 8_000), (2, 5_000), (3, 5_000), (4, 2_000), (8, 2_000)] {
            let all: HashSet<Prompt> = (0..entries)
                .map(|index| source.prompt(index, tokens))
                .collect();
            assert_eq!(all.len() as u64, entries, "of {tokens} tokens");
        }
        let starts: HashSet<String> = (0..2_000)
            .map(|index| source.prompt(index, 8))
            .map(|prompt| {
                prompt
                    .text
                    .split(' ')
                    .next()
                    .unwrap_or_default()
                    .to_string()
            })
            .collect();
        assert!(starts.len() > 1_900, "{} first words", starts.len());
    }
}
