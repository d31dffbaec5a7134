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
/// How many different ones are looked for, in how many entries of the vocabulary at most.
const OPENINGS_MAX: usize = 8_192;
const VOCABULARY_LOOK: u32 = 100_000;

/// Bytes of English per token, rather too many: what is too much is cut off.
const BYTES_PER_TOKEN: usize = 5;
/// Attempts to meet the length exactly.
const REPAIRS_MAX: usize = 16;

/// Makes prompts.
pub struct PromptSource {
    tokenizer: Arc<Tokenizer>,
    corpus: &'static Corpus,
    seed: u64,
    first_word: u64,
    /// Words of one token, at the start of a text and after a space, each once.
    openings: OnceLock<Vec<String>>,
}

impl PromptSource {
    /// A source over the bundled corpus.
    pub fn new(tokenizer: Arc<Tokenizer>, seed: u64) -> PromptSource {
        let corpus = Corpus::get();
        let first_word = Rng::new(seed, Stream::Prompt, u64::MAX).below(corpus.words_count());
        PromptSource {
            tokenizer,
            corpus,
            seed,
            first_word,
            openings: OnceLock::new(),
        }
    }

    /// The prompt of entry `index`: `tokens` (at least 1) tokens when encoded again without
    /// special ones, never more. Of `w` words of one token (8,192 where a tokenizer has as
    /// many) prompts of one token repeat after `w` entries, of two after `w` squared. Cost: two
    /// encodings of the text as a rule; the first short prompt looks for those words, some 30 ms.
    pub fn prompt(&self, index: u64, tokens: u32) -> String {
        let wanted = tokens.max(1) as usize;
        let mut rng = Rng::new(self.seed, Stream::Prompt, index);
        // Each entry starts at a word of its own (the stride is prime, so that words come once in
        // a lap), and goes on elsewhere after a few: no two share a prefix that a cache would find.
        let start = self.first_word.wrapping_add(index.wrapping_mul(7_919));
        let mut text = match wanted <= SHORT_TOKENS {
            true => self.opening(index, wanted.min(OPENING_WORDS)),
            false => self.corpus.window(start, 24 + rng.below(24) as usize),
        };
        if wanted <= OPENING_WORDS && self.tokenizer.count(&text) == wanted {
            return text;
        }
        text.push(' ');
        let jump = rng.below(self.corpus.words_count());
        text.push_str(
            &self
                .corpus
                .window(jump, wanted.saturating_mul(BYTES_PER_TOKEN) + 64),
        );
        self.fit(text, wanted, &mut rng)
    }

    /// Words that are those of no other entry before all of them have been used together.
    fn opening(&self, index: u64, count: usize) -> String {
        let words = self.openings.get_or_init(|| self.find_openings());
        let base = words.len() as u64;
        let (mut rest, mut last) = (index, self.first_word);
        let mut text = String::new();
        for _ in 0..count.min(words.len()) {
            // Neighbours differ in all of their words.
            last = last.wrapping_add(rest % base) % base;
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

    /// Cuts a text to `wanted` tokens at a word's end, and fills what is missing by single words.
    fn fit(&self, text: String, wanted: usize, rng: &mut Rng) -> String {
        let ids = self.tokenizer.encode(&text);
        let mut text = match ids.get(..wanted) {
            Some(head) => self.tokenizer.decode(head),
            None => text,
        };
        let next = ids.get(wanted..=wanted);
        let ends_a_word = next.is_some_and(|next| self.tokenizer.decode(next).starts_with(' '));
        if !ends_a_word {
            cut_last_word(&mut text);
        }
        for _ in 0..REPAIRS_MAX {
            let count = self.tokenizer.count(&text);
            if count == wanted {
                return text;
            }
            if count > wanted {
                cut_last_word(&mut text);
                continue;
            }
            for _ in count..wanted {
                if !text.is_empty() {
                    text.push(' ');
                }
                text.push_str(self.short_word(rng));
            }
        }
        // A tokenizer for which no word is one token: the nearest text below.
        while self.tokenizer.count(&text) > wanted && text.contains(' ') {
            cut_last_word(&mut text);
        }
        text
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

    fn source(seed: u64) -> (PromptSource, Arc<Tokenizer>) {
        let tokenizer = Arc::new(Tokenizer::load(&TokenizerSpec::Builtin, None).unwrap().0);
        (PromptSource::new(tokenizer.clone(), seed), tokenizer)
    }

    #[test]
    fn a_prompt_has_exactly_the_asked_tokens_when_encoded_again() {
        let (source, tokenizer) = source(1);
        for tokens in [1, 2, 3, 17, 128, 550, 4_000] {
            for index in 0..20 {
                let prompt = source.prompt(index, tokens);
                assert_eq!(tokenizer.count(&prompt), tokens as usize, "{prompt:?}");
            }
        }
    }

    #[test]
    fn prompts_differ_by_number_and_by_seed_and_are_the_same_again() {
        let (first, _) = source(1);
        let (again, _) = source(1);
        let (other, _) = source(2);
        let starts: HashSet<String> = (0..2_000).map(|index| first.prompt(index, 30)).collect();
        assert_eq!(starts.len(), 2_000);
        assert_eq!(first.prompt(5, 100), again.prompt(5, 100));
        assert_ne!(first.prompt(5, 100), other.prompt(5, 100));
    }

    #[test]
    fn short_prompts_differ_too() {
        let (source, _) = source(3);
        for (tokens, entries) in [(1, 8_000), (2, 5_000), (3, 5_000), (4, 2_000), (8, 2_000)] {
            let all: HashSet<String> = (0..entries)
                .map(|index| source.prompt(index, tokens))
                .collect();
            assert_eq!(all.len() as u64, entries, "of {tokens} tokens");
        }
        let starts: HashSet<String> = (0..2_000)
            .map(|index| source.prompt(index, 8))
            .map(|prompt| prompt.split(' ').next().unwrap_or_default().to_string())
            .collect();
        assert!(starts.len() > 1_900, "{} first words", starts.len());
    }
}
