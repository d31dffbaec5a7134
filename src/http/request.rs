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

/// The head of a target's requests, up to the request's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    head: Vec<u8>,
    /// Names of the headers that carry a session's id.
    session_headers: Vec<String>,
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
        Ok(Template {
            head: head.into_bytes(),
            session_headers: Vec::new(),
        })
    }

    /// Has these headers carry the session's id, too; each name must be a header's.
    pub fn with_session_headers(mut self, names: &[&str]) -> Template {
        self.session_headers = names.iter().map(|name| (*name).to_string()).collect();
        self
    }

    /// Appends a whole request to `out`. Cost: two copies.
    pub fn fill(&self, id: u128, session: u128, body: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        push_uuid(id, out);
        for name in &self.session_headers {
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            push_uuid(session, out);
        }
        out.extend_from_slice(b"\r\nContent-Length: ");
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
        self.fill(id, id, body, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }
}

fn push_uuid(id: u128, to: &mut Vec<u8>) {
    let start = to.len();
    to.resize(start + ID_BYTES, 0);
    let out = &mut to[start..];
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
    fn the_session_s_id_goes_where_it_is_asked_for() {
        let template = Template::new("/", "h", &[]).unwrap();
        let template = template.with_session_headers(&["X-Correlation-ID", "S"]);
        let mut out = Vec::new();
        template.fill(1, 2, b"", &mut out);
        let text = String::from_utf8(out).unwrap();
        let zeros = "00000000-0000-0000-0000-00000000000";
        for line in ["X-Request-ID: {}1", "X-Correlation-ID: {}2", "S: {}2"] {
            let line = format!("\r\n{}\r\n", line.replace("{}", zeros));
            assert!(text.contains(&line), "{text}");
        }
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
