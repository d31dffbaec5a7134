//! What HTTP allows in a header (RFC 9110, 5.1 and 5.5).

/// True for what may be a header's name: a token.
pub fn is_header_name(text: &str) -> bool {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(token)
}

/// True for what may be a header's value: no line ends, no control codes but tabs.
pub fn is_header_value(text: &str) -> bool {
    text.bytes().all(|b| b == b'\t' || (b >= b' ' && b != 0x7f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_split_a_request_is_no_header() {
        assert!(is_header_name("X-Request-ID") && is_header_value("a\tb, \"c\" é"));
        for name in ["", "a b", "a:", "a\r", "é"] {
            assert!(!is_header_name(name), "{name:?}");
        }
        for value in ["a\r\nb: c", "\0", "\x7f"] {
            assert!(!is_header_value(value), "{value:?}");
        }
    }
}
