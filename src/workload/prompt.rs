//! Prompts of exactly the asked length, each different, the same for the same seed and number.

use super::corpus::Corpus;
use super::tokenizer::Tokenizer;
use crate::base::{Rng, rng::Stream};
use std::sync::Arc;

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
        }
    }

    /// The prompt of entry `index`: `tokens` (at least 1) tokens when encoded again without
    /// special ones, never more. Cost: two encodings of the text as a rule.
    pub fn prompt(&self, index: u64, tokens: u32) -> String {
        let wanted = tokens.max(1) as usize;
        let mut rng = Rng::new(self.seed, Stream::Prompt, index);
        // Each entry starts at a word of its own (the stride is prime, so that words come once in
        // a lap), and goes on elsewhere after a few: no two share a prefix that a cache would find.
        let start = self.first_word.wrapping_add(index.wrapping_mul(7_919));
        let mut text = self.corpus.window(start, 24 + rng.below(24) as usize);
        text.push(' ');
        let jump = rng.below(self.corpus.words_count());
        text.push_str(
            &self
                .corpus
                .window(jump, wanted.saturating_mul(BYTES_PER_TOKEN) + 64),
        );
        self.fit(text, wanted, &mut rng)
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
        let starts: std::collections::HashSet<String> =
            (0..2_000).map(|index| first.prompt(index, 24)).collect();
        assert_eq!(starts.len(), 2_000);
        assert_eq!(first.prompt(5, 100), again.prompt(5, 100));
        assert_ne!(first.prompt(5, 100), other.prompt(5, 100));
    }
}
