//! A request's bytes -> what it asks.

use crate::config::Api;
use crate::endpoint::{Endpoint, FormPart, form_parts};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Bytes of a request's head: more than any client sends.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a request's body: a prompt of 16 million tokens.
pub(super) const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
const HEADERS_MAX: usize = 96;

/// What a path and method mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Generate(Ask),
    Models,
    Health,
    Stats,
    Reset,
    Metrics,
    Hook(Hook),
    NotFound,
    BadBody(String),
}

/// What a server is told beside requests for tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hook {
    ResetCache,
    StartProfile,
    StopProfile,
}

/// A request for tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) api: Api,
    pub(super) model: String,
    pub(super) streams: bool,
    pub(super) wants_usage: bool,
    pub(super) max_tokens: Option<u32>,
    /// Bytes of the prompt's JSON.
    pub(super) prompt_bytes: usize,
    /// Texts, images or passages in it.
    pub(super) inputs: usize,
}

/// A whole request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) route: Route,
    pub(super) closes: bool,
    pub(super) has_id: bool,
    /// Bytes that it took.
    pub(super) consumed: usize,
}

/// What the bytes so far are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    Whole(Box<Request>),
    /// Not all there; `total` is the length when known, `waits` is true for `Expect`.
    Partial {
        total: usize,
        waits: bool,
    },
    Bad,
}

#[derive(Deserialize, Default)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Deserialize, Default)]
struct Parameters {
    max_tokens: Option<u32>,
    max_new_tokens: Option<u32>,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    max_completion_tokens: Option<u32>,
    max_tokens: Option<u32>,
    max_output_tokens: Option<u32>,
    parameters: Option<Parameters>,
    sampling_params: Option<Parameters>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    text_input: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    inputs: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    query: Option<&'a RawValue>,
    /// Of a ranking, as its APIs call them.
    #[serde(borrow, alias = "documents", alias = "texts")]
    passages: Option<&'a RawValue>,
    /// Images to show before the last one.
    partial_images: Option<u32>,
}

impl Body<'_> {
    /// What is asked, in the member of its API.
    fn prompt(&self) -> Option<&RawValue> {
        let openai = self.messages.or(self.prompt).or(self.input);
        let others = self.text_input.or(self.inputs).or(self.text);
        openai.or(others).or(self.passages).or(self.query)
    }

    /// The longest answer, likewise.
    fn max_tokens(&self) -> Option<u32> {
        let nested = [&self.parameters, &self.sampling_params];
        let nested = nested.into_iter().flatten();
        self.max_completion_tokens
            .or(self.max_tokens)
            .or(self.max_output_tokens)
            .or_else(|| {
                nested
                    .into_iter()
                    .find_map(|one| one.max_tokens.or(one.max_new_tokens))
            })
            .or(self.partial_images)
    }
}

struct Head {
    bytes: usize,
    length: Option<usize>,
    is_chunked: bool,
    expects: bool,
    closes: bool,
    has_id: bool,
}

/// Reads one request from the front of `data`. Cost: linear in the request.
pub(super) fn parse(data: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parser = httparse::Request::new(&mut headers);
    let bytes = match parser.parse(data) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if data.len() <= HEAD_BYTES_MAX => {
            return Parsed::Partial {
                total: 0,
                waits: false,
            };
        }
        _ => return Parsed::Bad,
    };
    let (Some(method), Some(path)) = (parser.method, parser.path) else {
        return Parsed::Bad;
    };
    let Some(head) = read_head(bytes, parser.version, parser.headers) else {
        return Parsed::Bad;
    };
    let (body, consumed) = match read_body(&head, data) {
        Ok(found) => found,
        Err(parsed) => return parsed,
    };
    Parsed::Whole(Box::new(Request {
        route: route(method, path, &body),
        closes: head.closes,
        has_id: head.has_id,
        consumed,
    }))
}

fn read_head(bytes: usize, version: Option<u8>, headers: &[httparse::Header]) -> Option<Head> {
    let mut head = Head {
        bytes,
        length: None,
        is_chunked: false,
        expects: false,
        closes: version == Some(0),
        has_id: false,
    };
    for header in headers {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        let value = header.value.trim_ascii();
        if is("content-length") {
            let length = std::str::from_utf8(value).ok()?.parse().ok()?;
            head.length = Some(length).filter(|&length| length <= BODY_BYTES_MAX);
            head.length?;
        } else if is("transfer-encoding") {
            head.is_chunked = value.eq_ignore_ascii_case(b"chunked");
        } else if is("expect") {
            head.expects = true;
        } else if is("connection") {
            head.closes = value.eq_ignore_ascii_case(b"close")
                || (head.closes && !value.eq_ignore_ascii_case(b"keep-alive"));
        } else if is("x-request-id") {
            head.has_id = true;
        }
    }
    Some(head)
}

fn read_body<'a>(head: &Head, data: &'a [u8]) -> Result<(Cow<'a, [u8]>, usize), Parsed> {
    let waits = head.expects && data.len() == head.bytes;
    if !head.is_chunked {
        let total = head.bytes + head.length.unwrap_or(0);
        return match data.get(head.bytes..total) {
            Some(body) => Ok((Cow::Borrowed(body), total)),
            None => Err(Parsed::Partial { total, waits }),
        };
    }
    let partial = Err(Parsed::Partial { total: 0, waits });
    let mut body = Vec::new();
    let mut rest = head.bytes;
    loop {
        let (line, size) = match httparse::parse_chunk_size(&data[rest..]) {
            Ok(httparse::Status::Complete(found)) => found,
            Ok(httparse::Status::Partial) => return partial,
            Err(_) => return Err(Parsed::Bad),
        };
        let Some(size) = usize::try_from(size)
            .ok()
            .filter(|size| size + body.len() <= BODY_BYTES_MAX)
        else {
            return Err(Parsed::Bad);
        };
        let Some(chunk) = data.get(rest + line..rest + line + size + 2) else {
            return partial;
        };
        body.extend_from_slice(&chunk[..size]);
        rest += line + size + 2;
        if size == 0 {
            return Ok((Cow::Owned(body), rest));
        }
    }
}

fn route(method: &str, path: &str, body: &[u8]) -> Route {
    let path = path.split('?').next().unwrap_or(path);
    match (method, path) {
        ("GET", "/v1/models") => Route::Models,
        ("GET" | "HEAD", "/health" | "/healthz" | "/ping" | "/" | "/v2/health/ready") => {
            Route::Health
        }
        ("GET", "/stats") => Route::Stats,
        ("POST", "/stats/reset") => Route::Reset,
        ("GET", "/metrics") => Route::Metrics,
        ("POST", "/reset_prefix_cache") => Route::Hook(Hook::ResetCache),
        ("POST", "/start_profile") => Route::Hook(Hook::StartProfile),
        ("POST", "/stop_profile") => Route::Hook(Hook::StopProfile),
        ("POST", path) => match (spoken(path), triton(path)) {
            (Some((api, streams)), _) => ask(api, None, streams, body),
            (None, Some((model, streams))) => ask(Api::TritonVllm, Some(&model), streams, body),
            (None, None) => Route::NotFound,
        },
        _ => Route::NotFound,
    }
}

/// The API of a path that names no model, and whether its answers are streams whatever is asked.
/// Azure's deployments are OpenAI's paths without `/v1`; APIs without a path are at the root.
fn spoken(path: &str) -> Option<(Api, bool)> {
    static PATHS: LazyLock<HashMap<String, (Api, bool)>> = LazyLock::new(|| {
        let mut all = HashMap::new();
        for api in Api::all().filter(|api| !api.is_triton()) {
            let endpoint = Endpoint::from(api);
            let (whole, stream) = (endpoint.path(false, ""), endpoint.path(true, ""));
            if stream != whole {
                all.entry(stream).or_insert((api, true));
            }
            all.entry(whole).or_insert((api, false));
        }
        all
    });
    let deployed = path.strip_prefix("/openai/deployments/");
    let below = deployed.and_then(|rest| rest.split_once('/'));
    match below {
        Some((_, rest)) => PATHS.get(&format!("/v1/{rest}")).copied(),
        None => PATHS.get(path.trim_end_matches('/')).copied(),
    }
}

/// `/v2/models/{m}/generate` and `/v2/models/{m}/versions/{v}/generate_stream`.
fn triton(path: &str) -> Option<(String, bool)> {
    let (rest, verb) = path.strip_prefix("/v2/models/")?.rsplit_once('/')?;
    let model = rest
        .split_once("/versions/")
        .map_or(rest, |(model, _)| model);
    let model = unescaped(model);
    match verb {
        "generate" => Some((model, false)),
        "generate_stream" => Some((model, true)),
        _ => None,
    }
}

/// A segment of a path without its percent signs.
fn unescaped(segment: &str) -> String {
    let mut parts = segment.split('%');
    let mut out = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).map(|digits| u8::from_str_radix(digits, 16)) {
            Some(Ok(byte)) => {
                out.push(byte);
                out.extend_from_slice(&part.as_bytes()[2..]);
            }
            _ => out.extend_from_slice(format!("%{part}").as_bytes()),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Two APIs share a path, and the root is anybody's: the body tells.
fn meant(api: Api, body: &Body<'_>) -> Api {
    match api {
        Api::HuggingfaceGenerate if body.inputs.is_none() => Api::SglangGenerate,
        Api::Raw if body.inputs.is_some() => Api::HuggingfaceGenerate,
        other => other,
    }
}

fn ask(api: Api, model: Option<&str>, streams: bool, body: &[u8]) -> Route {
    if let Some(parts) = form_parts(body) {
        return Route::Generate(ask_of_form(api, &parts));
    }
    let body: Body = match serde_json::from_slice(body) {
        Ok(body) => body,
        Err(error) => return Route::BadBody(error.to_string()),
    };
    let api = meant(api, &body);
    // Only OpenAI's older two count on demand.
    let on_demand = matches!(api, Api::Chat | Api::Completions);
    Route::Generate(Ask {
        api,
        model: model
            .or(body.model.as_deref())
            .unwrap_or("mock-model")
            .to_owned(),
        streams: streams || !api.is_triton() && api.streams() && body.stream.unwrap_or(false),
        max_tokens: body.max_tokens(),
        prompt_bytes: body.prompt().map_or(0, |prompt| prompt.get().len()),
        inputs: body
            .input
            .or(body.passages)
            .map_or(1, |list| entries(list.get())),
        wants_usage: !on_demand
            || body
                .stream_options
                .and_then(|options| options.include_usage)
                .unwrap_or(false),
    })
}

/// Entries of a list; anything else is one.
fn entries(json: &str) -> usize {
    serde_json::from_str::<Vec<IgnoredAny>>(json).map_or(1, |all| all.len())
}

/// A form has its prompt and model as fields, and a file for each input.
fn ask_of_form(api: Api, parts: &[FormPart<'_>]) -> Ask {
    let field = |name: &str| {
        let mut fields = parts.iter().filter(|part| part.filename.is_none());
        let found = fields.find(|part| part.name == name)?;
        std::str::from_utf8(found.bytes).ok()
    };
    Ask {
        api,
        model: field("model").unwrap_or("mock-model").to_owned(),
        streams: false,
        wants_usage: false,
        max_tokens: None,
        prompt_bytes: field("prompt").map_or(0, str::len),
        inputs: parts.iter().filter(|part| part.filename.is_some()).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(path: &str, body: &str) -> Vec<u8> {
        format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nX-Request-Id: 7\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }

    fn generate(data: &[u8]) -> Ask {
        match parse(data) {
            Parsed::Whole(request) => match request.route {
                Route::Generate(ask) => ask,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_are_read_as_json_and_not_from_the_prompt() {
        let body = r#"{"model":"m\u0031","messages":[{"role":"user","content":
            "\"stream\": true, \"max_tokens\": 9"}],"stream":false,"max_tokens":5,
            "max_completion_tokens":7,"stream_options":{"include_usage":true},"ignore_eos":true}"#;
        let ask = generate(&post("/v1/chat/completions", body));
        assert_eq!(ask.model, "m1");
        assert!(!ask.streams && ask.wants_usage);
        assert_eq!(ask.max_tokens, Some(7));
    }

    #[test]
    fn a_request_split_anywhere_is_partial_until_whole() {
        let mut data = post("/v1/completions", r#"{"prompt":"hi","stream":true}"#);
        let length = data.len();
        for end in 0..length {
            assert!(matches!(parse(&data[..end]), Parsed::Partial { .. }));
        }
        data.extend_from_slice(b"GET ");
        let Parsed::Whole(request) = parse(&data) else {
            panic!("not whole")
        };
        assert_eq!(request.consumed, length);
        assert!(request.has_id && !request.closes);
    }

    #[test]
    fn a_chunked_body_is_joined() {
        let (left, right) = (r#"{"text_input":"a"#, r#"","parameters":{"max_tokens":3}}"#);
        let data = format!(
            "POST /v2/models/a%2Fb/generate_stream?x=1 HTTP/1.1\r\n\
             Transfer-Encoding: chunked\r\n\r\n\
             {:x}\r\n{left}\r\n{:x}\r\n{right}\r\n0\r\n\r\n",
            left.len(),
            right.len()
        );
        let ask = generate(data.as_bytes());
        assert_eq!((ask.api, ask.streams), (Api::TritonVllm, true));
        assert_eq!((ask.max_tokens, ask.model.as_str()), (Some(3), "a/b"));
    }

    #[test]
    fn nonsense_is_bad_and_a_wrong_path_is_not_found() {
        assert_eq!(parse(b"\x00\x01 x\r\n\r\n"), Parsed::Bad);
        assert_eq!(
            parse(b"GET / HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n"),
            Parsed::Bad
        );
        let Parsed::Whole(request) = parse(b"GET /nope HTTP/1.0\r\n\r\n") else {
            panic!("not whole")
        };
        assert_eq!(request.route, Route::NotFound);
        assert!(request.closes);
    }
}
