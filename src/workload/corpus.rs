//! The bundled text that prompts are cut from; data/NOTICE has its origin.

use std::io::Read;
use std::sync::LazyLock;

const PACKED: &[u8] = include_bytes!("data/corpus.txt.z");

/// English text with the places where words begin.
pub(super) struct Corpus {
    text: String,
    words: Vec<u32>,
}

/// Unpacks the text of prompts on a thread of its own, while something else is waited for.
pub fn unpack_corpus() {
    std::thread::spawn(Corpus::get);
}

impl Corpus {
    /// The bundled text. Cost: about 10 ms at the first call; [`unpack_corpus`] does it ahead.
    pub fn get() -> &'static Corpus {
        static CORPUS: LazyLock<Corpus> = LazyLock::new(Corpus::unpack);
        &CORPUS
    }

    fn unpack() -> Corpus {
        let mut text = String::new();
        flate2::read::ZlibDecoder::new(PACKED)
            .read_to_string(&mut text)
            .expect("the bundled corpus is whole: a test reads it");
        let spaces = memchr::memchr_iter(b' ', text.as_bytes());
        let words = std::iter::once(0)
            .chain(spaces.map(|at| u32::try_from(at + 1).unwrap_or(0)))
            .collect();
        Corpus { text, words }
    }

    /// Number of words.
    pub fn words_count(&self) -> u64 {
        self.words.len() as u64
    }

    /// Text of at most `bytes` bytes from word `word` on, to a word's end; goes round at the end.
    pub fn window(&self, word: u64, bytes: usize) -> String {
        let at = usize::try_from(word % self.words_count()).unwrap_or(0);
        let start = self.words[at] as usize;
        let mut out = String::with_capacity(bytes + 16);
        let mut from = start;
        while out.len() < bytes {
            let room = bytes - out.len();
            let rest = &self.text[from..];
            if rest.len() <= room {
                out.push_str(rest);
                out.push(' ');
                from = 0;
            } else {
                let end = rest[..room].rfind(' ').unwrap_or(room);
                out.push_str(&rest[..end]);
                break;
            }
        }
        out
    }

    /// One word.
    pub fn word(&self, word: u64) -> &str {
        let at = usize::try_from(word % self.words_count()).unwrap_or(0);
        let rest = &self.text[self.words[at] as usize..];
        rest.split(' ').next().unwrap_or("the")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_text_is_plain_words() {
        let corpus = Corpus::get();
        assert!(corpus.words_count() > 200_000);
        assert!(corpus.text.bytes().all(|b| (b' '..0x7f).contains(&b)));
        assert!(!corpus.text.contains("  "));
        let window = corpus.window(corpus.words_count() - 2, 200);
        assert!(
            window.len() > 150 && window.len() <= 202,
            "it goes round: {window}"
        );
    }
}
