//! Text that others wrote, fit for a terminal.

use std::borrow::Cow;
use std::fmt::Write;

/// True for what steers a terminal or turns the direction of a line instead of being seen.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text with control and direction characters written out (`\x1b`); line feeds stay.
///
/// Every line on stderr passes here, and what goes to stdout or the console file.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_bad = |c: char| c != '\n' && is_hidden(c);
    if !text.contains(is_bad) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Writing to a String does not fail.
        let _ = match c {
            '\t' => write!(out, " "),
            c if !is_bad(c) => write!(out, "{c}"),
            c if u32::from(c) < 0x100 => write!(out, "\\x{:02x}", u32::from(c)),
            c => write!(out, "\\u{{{:x}}}", u32::from(c)),
        };
    }
    Cow::Owned(out)
}

/// What somebody else said, on one line of at most `chars_max` characters: it can neither steer the
/// terminal nor pass for a line of ours.
pub fn one_line(text: &str, chars_max: usize) -> String {
    let mut flat = String::new();
    for word in text.split_whitespace() {
        if !flat.is_empty() {
            flat.push(' ');
        }
        flat.push_str(&printable(word));
        // Four bytes at most make a character: enough is enough.
        if flat.len() > chars_max.saturating_mul(4) {
            break;
        }
    }
    match flat.chars().count() > chars_max {
        true => flat
            .chars()
            .take(chars_max.saturating_sub(3))
            .chain("...".chars())
            .collect(),
        false => flat,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_a_terminal() {
        assert_eq!(printable("plain é\nnext"), "plain é\nnext");
        assert_eq!(
            printable("a\x1b[31m\r\x7f\u{9b}2J\0\tb\u{202e}"),
            "a\\x1b[31m\\x0d\\x7f\\x9b2J\\x00 b\\u{202e}"
        );
        for code in (0..0x20).chain(0x7f..0xa0) {
            let text = char::from_u32(code).unwrap().to_string();
            let shown = printable(&text).into_owned();
            assert!(
                text == "\n" || !shown.contains(char::is_control),
                "{code:x}"
            );
        }
    }

    #[test]
    fn what_others_say_stays_on_its_line() {
        assert_eq!(
            one_line("a\r\nVerdict: VALID\x1b", 40),
            "a Verdict: VALID\\x1b"
        );
        assert_eq!(one_line("abcdefgh", 6), "abc...");
        assert_eq!(one_line(&"x".repeat(1_000_000), 10).len(), 10);
    }
}
