//! The head of a response, by httparse, reduced to what a client must know.

use super::CodecError;
use crate::base::limits;

/// What a body claims to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ContentType {
    /// `text/event-stream`.
    EventStream,
    /// `application/json`, or another type that ends in `+json`.
    Json,
    /// Anything else.
    Other,
    /// Not said.
    #[default]
    None,
}

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Status code.
    pub status: u16,
    /// Reason phrase, may be empty.
    pub reason: String,
    /// What the body claims to be.
    pub content_type: ContentType,
    /// `Content-Length`.
    pub content_length: Option<u64>,
    /// `Transfer-Encoding` ends in `chunked`.
    pub chunked: bool,
    /// The connection stays open after this response.
    pub keeps_alive: bool,
    /// `Content-Encoding`.
    pub content_encoding: Option<String>,
}

impl Default for Head {
    fn default() -> Self {
        Head {
            status: 0,
            reason: String::new(),
            content_type: ContentType::None,
            content_length: None,
            chunked: false,
            keeps_alive: true,
            content_encoding: None,
        }
    }
}

impl Head {
    /// Reads a head from the front of `bytes`: its length, or `None` when more is needed.
    pub(in crate::http) fn parse(&mut self, bytes: &[u8]) -> Result<Option<usize>, CodecError> {
        let mut headers = [httparse::EMPTY_HEADER; limits::HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let status = httparse::ParserConfig::default()
            .allow_spaces_after_header_name_in_responses(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            .parse_response(&mut response, bytes)
            .map_err(|error| CodecError::Head(error.to_string()))?;
        let httparse::Status::Complete(length) = status else {
            return Ok(None);
        };
        self.status = response.code.unwrap_or(0);
        self.reason.clear();
        self.reason.push_str(response.reason.unwrap_or(""));
        self.content_type = ContentType::None;
        self.content_length = None;
        self.chunked = false;
        self.keeps_alive = response.version == Some(1);
        self.content_encoding = None;
        for header in response.headers.iter() {
            self.take(header.name, header.value)?;
        }
        Ok(Some(length))
    }

    fn take(&mut self, name: &str, value: &[u8]) -> Result<(), CodecError> {
        // A folded line is one value: its line end is white space (RFC 9112 section 5.2).
        let unfolded = || String::from_utf8_lossy(value).replace(['\r', '\n'], " ");
        let text = || unfolded().trim().to_ascii_lowercase();
        if name.eq_ignore_ascii_case("content-length") {
            let text = text();
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            let length = digits
                .then(|| text.parse().ok())
                .flatten()
                .ok_or(CodecError::Length)?;
            if self.content_length.is_some_and(|other| other != length) {
                return Err(CodecError::Length);
            }
            self.content_length = Some(length);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            self.chunked = text()
                .rsplit(',')
                .next()
                .is_some_and(|last| last.trim() == "chunked");
        } else if name.eq_ignore_ascii_case("connection") {
            for token in text().split(',') {
                match token.trim() {
                    "close" => self.keeps_alive = false,
                    "keep-alive" => self.keeps_alive = true,
                    _ => {}
                }
            }
        } else if name.eq_ignore_ascii_case("content-type") {
            let text = text();
            let kind = text.split(';').next().unwrap_or("").trim();
            self.content_type = match kind {
                "text/event-stream" => ContentType::EventStream,
                "application/json" => ContentType::Json,
                kind if kind.ends_with("+json") => ContentType::Json,
                _ => ContentType::Other,
            };
        } else if name.eq_ignore_ascii_case("content-encoding") {
            self.content_encoding = Some(text());
        }
        Ok(())
    }
}
