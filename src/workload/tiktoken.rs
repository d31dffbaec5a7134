//! Vocabularies of tiktoken: a line per token, base64 and rank. The file does not hold the pattern
//! by which a text is parted first; its name says whose it is.

use base64::{Engine, engine::general_purpose::STANDARD};
use rustc_hash::FxHashMap;
use std::path::Path;
use tiktoken_rs::CoreBPE;

/// A known way to part texts, by a word of the names that have it.
#[derive(Clone, Copy)]
pub struct Pattern {
    /// The word.
    pub name: &'static str,
    regex: &'static str,
    /// Special tokens; those without a rank follow the vocabulary.
    special: &'static [(&'static str, Option<u32>)],
}

const QWEN_SPECIAL: &[(&str, Option<u32>)] = &[
    ("<|endoftext|>", None),
    ("<|im_start|>", None),
    ("<|im_end|>", None),
];

/// The first word that a name has wins.
const PATTERNS: [Pattern; 6] = [
    Pattern {
        name: "qwen3_6",
        regex: concat!(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}",
            r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        ),
        special: QWEN_SPECIAL,
    },
    Pattern {
        name: "qwen",
        regex: concat!(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        ),
        special: QWEN_SPECIAL,
    },
    Pattern {
        name: "cl100k",
        regex: concat!(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        ),
        special: &[("<|endoftext|>", Some(100_257))],
    },
    Pattern {
        name: "o200k",
        regex: tiktoken_rs::O200K_BASE_PAT_STR,
        special: &[("<|endoftext|>", Some(199_999))],
    },
    Pattern {
        name: "p50k",
        regex: GPT2,
        special: &[("<|endoftext|>", Some(50_256))],
    },
    Pattern {
        name: "r50k",
        regex: GPT2,
        special: &[("<|endoftext|>", Some(50_256))],
    },
];

const GPT2: &str = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// The pattern for a file, by its name, else by that of its folder or of its repository.
pub fn pattern(path: &Path, repository: Option<&str>) -> Result<Pattern, String> {
    let of = |part: Option<&std::ffi::OsStr>| {
        part.map(|part| part.to_string_lossy().to_ascii_lowercase())
            .unwrap_or_default()
    };
    let folder = path.parent().and_then(Path::file_name);
    let repository = repository.unwrap_or_default().to_ascii_lowercase();
    let names = [of(path.file_name()), of(folder), repository];
    let find = |name: &String| PATTERNS.iter().find(|known| name.contains(known.name));
    names.iter().find_map(find).copied().ok_or_else(|| {
        let known: Vec<&str> = PATTERNS.iter().map(|known| known.name).collect();
        format!(
            "a vocabulary of tiktoken does not tell how texts are parted; give it a name with one \
             of {}",
            known.join(", ")
        )
    })
}

/// Reads a vocabulary. Errors say which line is no token.
pub fn read(text: &str, pattern: Pattern) -> Result<CoreBPE, String> {
    let mut ranks = FxHashMap::default();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let bad = || {
            let number = index + 1;
            format!("line {number} is no token of tiktoken (base64, a space, a rank): cut short?")
        };
        let (token, rank) = line.split_once(' ').ok_or_else(bad)?;
        let token = STANDARD.decode(token).map_err(|_| bad())?;
        let rank: u32 = rank.trim().parse().map_err(|_| bad())?;
        if token.is_empty() || ranks.insert(token, rank).is_some() {
            return Err(bad());
        }
    }
    check(&ranks)?;
    let next = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
    let special = pattern.special.iter().enumerate();
    let special = special.map(|(index, (name, rank))| {
        let after = next.saturating_add(u32::try_from(index).unwrap_or(0));
        (name.to_string(), rank.unwrap_or(after))
    });
    CoreBPE::new(ranks, special.collect(), pattern.regex).map_err(|error| error.to_string())
}

/// A vocabulary has each byte, without which some texts have no tokens, and no rank twice. Of one
/// that was cut at a line's end nothing tells that there was more.
fn check(ranks: &FxHashMap<Vec<u8>, u32>) -> Result<(), String> {
    if let Some(byte) = (0..=u8::MAX).find(|byte| !ranks.contains_key(&vec![*byte])) {
        return Err(format!("it has no token for the byte {byte}: cut short?"));
    }
    let mut seen: Vec<u32> = ranks.values().copied().collect();
    seen.sort_unstable();
    match seen.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("the rank {} stands twice", pair[0])),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte, then the tokens.
    fn vocabulary(more: &[&str]) -> String {
        let bytes = (0..=u8::MAX).map(|byte| vec![byte]);
        let tokens = bytes.chain(more.iter().map(|text| text.as_bytes().to_vec()));
        let line = |(rank, token): (usize, Vec<u8>)| format!("{} {rank}\n", STANDARD.encode(token));
        tokens.enumerate().map(line).collect()
    }

    #[test]
    fn texts_are_parted_by_the_pattern_of_the_name() {
        let text = vocabulary(&["he", "ll", "llo", "hello", "12", "123"]);
        let count = |name: &str, said: &str| {
            let pattern = pattern(Path::new(name), None).unwrap();
            read(&text, pattern).unwrap().count_ordinary(said)
        };
        assert_eq!(count("m/qwen.tiktoken", "hello"), 1);
        // Qwen parts numbers into digits, cl100k into three of them.
        assert_eq!(count("m/qwen.tiktoken", "123"), 3);
        assert_eq!(count("cl100k_base.tiktoken", "123"), 1);
        assert_eq!(count("/Qwen3/vocab.tiktoken", "123"), 3);
        assert!(pattern(Path::new("/a/b.tiktoken"), None).is_err());
        assert_eq!(
            pattern(Path::new("/a/b.tiktoken"), Some("Qwen/Q"))
                .unwrap()
                .name,
            "qwen"
        );
    }

    #[test]
    fn the_bundled_vocabularies_are_read_alike() {
        let qwen = pattern(Path::new("qwen.tiktoken"), None).unwrap();
        let bpe = read(&vocabulary(&[]), qwen).unwrap();
        assert_eq!(bpe.encode_with_special_tokens("<|im_start|>a"), [257, 97]);
        assert_eq!(bpe.encode_ordinary("<|").len(), 2);
    }

    #[test]
    fn what_is_no_vocabulary_names_its_line() {
        let qwen = pattern(Path::new("qwen"), None).unwrap();
        let whole = vocabulary(&["hello"]);
        let error = |text: &str| read(text, qwen).err().unwrap();
        assert!(
            error(&whole[..whole.len() - 8]).contains("line 257"),
            "a cut file"
        );
        assert!(error("IQ== 0\n").contains("byte 0"));
        assert!(error(&format!("{whole}aGVsbG8= 900")).contains("line 258"));
        assert!(error(&format!("{whole}aGVsbG9v 3")).contains("rank 3"));
        assert!(error("").contains("byte"));
    }
}
