//! Requests as templates: a head built once per target, filled per request without formatting.

use crate::base::{is_header_name, is_header_value};
use std::fmt::Write;

/// Bytes of a UUID in text.
const ID_BYTES: usize = 36;

/// A header that cannot be sent.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "header `{0}` has a character that HTTP does not allow; remove line ends and control codes"
)]
pub struct HeaderError(pub String);

/// The head of a target's requests, up to the value of `Content-Length`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    head: Vec<u8>,
    id_at: usize,
}

impl Template {
    /// Builds the head of `POST path` for `host`, with further headers in the order given.
    ///
    /// Errors: a name that is not a token, a value with control characters.
    pub fn new(
        path: &str,
        host: &str,
        headers: &[(String, String)],
    ) -> Result<Template, HeaderError> {
        let mut head = format!("POST {path} HTTP/1.1\r\nHost: {host}\r\n");
        if path.bytes().any(|b| b <= b' ' || b == 0x7f) {
            return Err(HeaderError("request path".into()));
        }
        for (name, value) in headers {
            if !is_header_name(name) || !is_header_value(value) {
                return Err(HeaderError(name.clone()));
            }
            // Writing to a String does not fail.
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head.push_str("X-Request-ID: ");
        let id_at = head.len();
        head.push_str(&"0".repeat(ID_BYTES));
        head.push_str("\r\nContent-Length: ");
        Ok(Template {
            head: head.into_bytes(),
            id_at,
        })
    }

    /// Appends a whole request to `out`. Cost: two copies.
    pub fn fill(&self, id: u128, body: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.head);
        let id_at = start + self.id_at;
        write_uuid(id, &mut out[id_at..id_at + ID_BYTES]);
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        let mut rest = body.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        out.extend_from_slice(&digits[at..]);
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(body);
    }

    /// The head with a given id and length, as text: for `--dry-run`.
    pub fn preview(&self, id: u128, body: &[u8]) -> String {
        let mut out = Vec::new();
        self.fill(id, body, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }
}

fn write_uuid(id: u128, out: &mut [u8]) {
    let mut at = 0;
    for (n, byte) in id.to_be_bytes().iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            out[at] = b'-';
            at += 1;
        }
        out[at] = b"0123456789abcdef"[usize::from(byte >> 4)];
        out[at + 1] = b"0123456789abcdef"[usize::from(byte & 15)];
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filled_template_is_a_whole_request_with_its_id_and_length() {
        let headers = [("Accept".to_string(), "text/event-stream".to_string())];
        let template = Template::new("/v1/x", "[::1]:8000", &headers).unwrap();
        let id = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;
        assert_eq!(
            template.preview(id, b"{\"a\":1}"),
            "POST /v1/x HTTP/1.1\r\nHost: [::1]:8000\r\nAccept: text/event-stream\r\n\
             X-Request-ID: 01234567-89ab-cdef-0123-456789abcdef\r\nContent-Length: 7\r\n\r\n\
             {\"a\":1}"
        );
    }

    #[test]
    fn a_header_that_would_split_the_request_is_refused() {
        for (name, value) in [("A", "b\r\nC: d"), ("A b", "c"), ("", "x"), ("A", "\0")] {
            let headers = [(name.to_string(), value.to_string())];
            assert!(
                Template::new("/", "h", &headers).is_err(),
                "{name:?}: {value:?}"
            );
        }
        assert!(Template::new("/a b", "h", &[]).is_err());
    }
}
