//! Answers' bytes: events rendered once per model, framed as chunks, stamped as they leave.

use super::options::{Options, UsageMode};
use super::request::Api;
use crate::base::Ns;
use crate::endpoint::stamp;
use serde_json::json;

/// Words that are one token each, with the leading space, in o200k and its kin.
const WORDS: [&str; 64] = [
    " the", " of", " and", " to", " in", " is", " that", " for", " it", " was", " on", " are",
    " as", " with", " they", " be", " at", " one", " have", " this", " from", " or", " had", " by",
    " but", " some", " what", " there", " we", " can", " out", " other", " were", " all", " your",
    " when", " up", " use", " word", " how", " said", " an", " each", " she", " which", " do",
    " their", " time", " if", " will", " way", " about", " many", " then", " them", " would",
    " write", " like", " so", " these", " her", " long", " make", " thing",
];
const ID_DIGITS: usize = 16;

/// Head of a stream.
pub(super) const STREAM_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nserver: tokenring-mock\r\n\
    content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n\
    transfer-encoding: chunked\r\n\r\n";
/// The chunk that ends a body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The `count` words from number `start` on.
pub(super) fn words(start: u32, count: u32) -> String {
    (start..start.saturating_add(count))
        .map(|i| WORDS[i as usize % WORDS.len()])
        .collect()
}

fn framed(event: &str) -> Vec<u8> {
    format!("{:x}\r\n{event}\r\n", event.len()).into_bytes()
}

/// One framed event with places for the request's id and the stamp.
pub(super) struct Template {
    bytes: Vec<u8>,
    id_at: usize,
    stamp_at: usize,
}

/// What is written into the places.
pub(super) struct Patch {
    id: [u8; ID_DIGITS],
    stamp: [u8; stamp::BODY_BYTES],
}

impl Patch {
    pub(super) fn new(id: u64, intended: Ns, actual: Ns) -> Patch {
        let mut digits = [0; ID_DIGITS];
        for (i, digit) in digits.iter_mut().rev().enumerate() {
            *digit = b"0123456789abcdef"[usize::try_from((id >> (4 * i)) & 15).unwrap_or(0)];
        }
        Patch {
            id: digits,
            stamp: stamp::encode(intended, actual),
        }
    }
}

impl Template {
    fn new(event: &str) -> Template {
        let bytes = framed(event);
        let place = |mark: &str| {
            memchr::memmem::find(&bytes, mark.as_bytes()).map_or(0, |at| at + mark.len())
        };
        Template {
            id_at: place("cmpl-"),
            stamp_at: place("\"fp_"),
            bytes,
        }
    }

    /// Appends the event. Cost: one copy, no allocation once `out` has grown.
    pub(super) fn write(&self, patch: &Patch, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let event = &mut out[start..];
        event[self.id_at..self.id_at + ID_DIGITS].copy_from_slice(&patch.id);
        event[self.stamp_at..self.stamp_at + stamp::BODY_BYTES].copy_from_slice(&patch.stamp);
    }
}

/// What an event carries.
#[derive(Clone, Copy)]
enum Load<'a> {
    Role,
    Answer(&'a str),
    Reasoning(&'a str),
    Finish(&'a str),
    Usage(&'a str),
}

/// Every event of one API and model.
pub(super) struct Shapes {
    api: Api,
    /// The model's name as JSON, quotes included.
    model: String,
    created: u64,
    eol: &'static str,
    chunk_bytes: usize,
    answers: Vec<Template>,
    reasonings: Vec<Template>,
    role: Template,
    finish_stop: Template,
    finish_length: Template,
    done: Vec<u8>,
    error: Vec<u8>,
    /// A framed comment.
    pub(super) comment: Vec<u8>,
}

impl Shapes {
    /// Renders them all. Cost: about 0.2 ms.
    pub(super) fn new(options: &Options, api: Api, model: &str, created: u64) -> Shapes {
        let eol = options.line_end.text();
        let empty = || Template::new("");
        let mut shapes = Shapes {
            api,
            model: json!(model).to_string(),
            created,
            eol,
            chunk_bytes: options.chunk_bytes,
            answers: Vec::new(),
            reasonings: Vec::new(),
            role: empty(),
            finish_stop: empty(),
            finish_length: empty(),
            done: framed(&format!("data: [DONE]{eol}{eol}")),
            error: framed(&format!(
                "data: {}{eol}{eol}",
                error_body(500, "mock fault")
            )),
            comment: framed(&format!(": keep-alive{eol}{eol}")),
        };
        let per_chunk = options.tokens_per_chunk;
        for start in 0..64 {
            let text = words(start, per_chunk);
            shapes.answers.push(shapes.render(Load::Answer(&text)));
            shapes
                .reasonings
                .push(shapes.render(Load::Reasoning(&text)));
        }
        shapes.role = shapes.render(Load::Role);
        shapes.finish_stop = shapes.render(Load::Finish("stop"));
        shapes.finish_length = shapes.render(Load::Finish("length"));
        shapes
    }

    fn render(&self, load: Load) -> Template {
        let bare = self.event(load, 0);
        let missing = match load {
            Load::Answer(_) | Load::Reasoning(_) => self.chunk_bytes.saturating_sub(bare.len()),
            _ => 0,
        };
        if missing == 0 {
            Template::new(&bare)
        } else {
            Template::new(&self.event(load, missing))
        }
    }

    fn event(&self, load: Load, pad: usize) -> String {
        let id = "0".repeat(ID_DIGITS + pad);
        let fp = format!("fp_{}", "0".repeat(stamp::BODY_BYTES));
        let (model, created, eol) = (&self.model, self.created, self.eol);
        if self.api == Api::Triton {
            let text = match load {
                Load::Answer(text) | Load::Reasoning(text) => text,
                _ => "",
            };
            return format!(
                "data: {{\"id\":\"cmpl-{id}\",\"model_name\":{model},\"model_version\":\"1\",\
                 \"stamp\":\"{fp}\",\"text_output\":\"{text}\"}}{eol}{eol}"
            );
        }
        let is_chat = self.api == Api::Chat;
        let choice = |inner: &str, reason: &str| {
            format!("{{\"index\":0,{inner},\"logprobs\":null,\"finish_reason\":{reason}}}")
        };
        let delta = |inner: &str| format!("\"delta\":{{{inner}}}");
        let choices = match load {
            Load::Role => choice(&delta("\"role\":\"assistant\",\"content\":\"\""), "null"),
            Load::Reasoning(text) if is_chat => {
                choice(&delta(&format!("\"reasoning_content\":\"{text}\"")), "null")
            }
            Load::Answer(text) if is_chat => {
                choice(&delta(&format!("\"content\":\"{text}\"")), "null")
            }
            Load::Answer(text) | Load::Reasoning(text) => {
                choice(&format!("\"text\":\"{text}\""), "null")
            }
            Load::Finish(reason) if is_chat => choice(&delta(""), &format!("\"{reason}\"")),
            Load::Finish(reason) => choice("\"text\":\"\"", &format!("\"{reason}\"")),
            Load::Usage(_) => String::new(),
        };
        let tail = match load {
            Load::Usage(usage) => format!(",\"usage\":{usage}"),
            _ => String::new(),
        };
        let (prefix, object) = names(self.api, true);
        format!(
            "data: {{\"id\":\"{prefix}-{id}\",\"object\":\"{object}\",\"created\":{created},\
             \"model\":{model},\"system_fingerprint\":\"{fp}\",\"choices\":[{choices}]{tail}}}\
             {eol}{eol}"
        )
    }

    /// Appends the event that opens a stream, where the API has one.
    pub(super) fn open(&self, patch: &Patch, out: &mut Vec<u8>) {
        if self.api == Api::Chat {
            self.role.write(patch, out);
        }
    }

    /// Appends `count` tokens from number `start` on as one event.
    pub(super) fn tokens(&self, cut: &Cut, patch: &Patch, out: &mut Vec<u8>) {
        let set = if cut.is_reasoning {
            &self.reasonings
        } else {
            &self.answers
        };
        if cut.is_whole {
            set[cut.start as usize % 64].write(patch, out);
            return;
        }
        let text = words(cut.start, cut.count);
        let load = if cut.is_reasoning {
            Load::Reasoning(&text)
        } else {
            Load::Answer(&text)
        };
        self.render(load).write(patch, out);
    }

    /// Appends finish, usage, `[DONE]` and the last chunk, as they apply.
    pub(super) fn close(&self, end: &End, patch: &Patch, out: &mut Vec<u8>) {
        if self.api != Api::Triton {
            let finish = if end.is_length {
                &self.finish_length
            } else {
                &self.finish_stop
            };
            finish.write(patch, out);
            if let Some(usage) = &end.usage {
                self.render(Load::Usage(usage)).write(patch, out);
            }
            if end.says_done {
                out.extend_from_slice(&self.done);
            }
        }
        out.extend_from_slice(LAST_CHUNK);
    }

    /// Appends an error event and the last chunk.
    pub(super) fn fail(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.error);
        out.extend_from_slice(LAST_CHUNK);
    }

    /// The whole answer as one JSON body.
    pub(super) fn body(&self, tokens: u32, reasoning: u32, end: &End, patch: &Patch) -> String {
        let text = words(reasoning, tokens - reasoning);
        let ascii = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (id, fp) = (ascii(&patch.id), ascii(&patch.stamp));
        let (model, created) = (&self.model, self.created);
        let reason = if end.is_length { "length" } else { "stop" };
        if self.api == Api::Triton {
            let text = words(0, tokens);
            return format!(
                "{{\"id\":\"cmpl-{id}\",\"model_name\":{model},\"model_version\":\"1\",\
                 \"stamp\":\"fp_{fp}\",\"text_output\":\"{text}\"}}"
            );
        }
        let inner = match (self.api, reasoning) {
            (Api::Chat, 0) => {
                format!("\"message\":{{\"role\":\"assistant\",\"content\":\"{text}\"}}")
            }
            (Api::Chat, n) => format!(
                "\"message\":{{\"role\":\"assistant\",\"reasoning_content\":\"{}\",\
                 \"content\":\"{text}\"}}",
                words(0, n)
            ),
            _ => format!("\"text\":\"{}\"", words(0, tokens)),
        };
        let usage = end.usage.as_deref().unwrap_or("null");
        let (prefix, object) = names(self.api, false);
        format!(
            "{{\"id\":\"{prefix}-{id}\",\"object\":\"{object}\",\"created\":{created},\
             \"model\":{model},\"system_fingerprint\":\"fp_{fp}\",\"choices\":[{{\"index\":0,\
             {inner},\"logprobs\":null,\"finish_reason\":\"{reason}\"}}],\"usage\":{usage}}}"
        )
    }
}

/// The tokens of one event.
pub(super) struct Cut {
    pub(super) start: u32,
    pub(super) count: u32,
    pub(super) is_reasoning: bool,
    /// True when it has as many tokens as the prepared events.
    pub(super) is_whole: bool,
}

/// How an answer ends.
pub(super) struct End {
    pub(super) is_length: bool,
    pub(super) says_done: bool,
    pub(super) usage: Option<String>,
}

fn names(api: Api, streams: bool) -> (&'static str, &'static str) {
    match (api, streams) {
        (Api::Chat, true) => ("chatcmpl", "chat.completion.chunk"),
        (Api::Chat, false) => ("chatcmpl", "chat.completion"),
        _ => ("cmpl", "text_completion"),
    }
}

/// The usage object. With details, half of the prompt was cached, and a quarter and an eighth of
/// the answer are accepted and rejected predictions.
pub(super) fn usage(mode: UsageMode, prompt: u32, completion: u32, reasoning: u32) -> String {
    let mut value = json!({
        "prompt_tokens": prompt,
        "total_tokens": prompt.saturating_add(completion),
        "completion_tokens": completion,
    });
    if mode == UsageMode::Details {
        value["prompt_tokens_details"] = json!({"cached_tokens": prompt / 2});
        value["completion_tokens_details"] = json!({
            "reasoning_tokens": reasoning,
            "accepted_prediction_tokens": completion / 4,
            "rejected_prediction_tokens": completion / 8,
        });
    } else if reasoning > 0 {
        value["completion_tokens_details"] = json!({"reasoning_tokens": reasoning});
    }
    value.to_string()
}

/// An error in the shape of vLLM.
pub(super) fn error_body(code: u16, message: &str) -> String {
    let name = match code {
        400 => "BadRequestError",
        404 => "NotFoundError",
        429 => "RateLimitError",
        _ => "InternalServerError",
    };
    json!({"error": {"message": message, "type": name, "param": null, "code": code}}).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::options::LineEnd;
    use super::*;

    fn shapes(api: Api, options: &Options) -> Shapes {
        Shapes::new(options, api, "a \"model\"", 1_700_000_000)
    }

    fn cut(start: u32, count: u32, is_whole: bool) -> Cut {
        Cut {
            start,
            count,
            is_reasoning: false,
            is_whole,
        }
    }

    /// The event inside one chunk, after checking the chunk's size.
    fn unframed(bytes: &[u8]) -> &str {
        let text = std::str::from_utf8(bytes).unwrap();
        let (size, rest) = text.split_once("\r\n").unwrap();
        let event = rest.strip_suffix("\r\n").unwrap();
        assert_eq!(usize::from_str_radix(size, 16).unwrap(), event.len());
        event
    }

    #[test]
    fn events_are_json_of_the_asked_size_with_stamp_and_id() {
        for api in [Api::Chat, Api::Completions, Api::Triton] {
            let options = Options {
                chunk_bytes: 300,
                ..Options::default()
            };
            let mut out = Vec::new();
            let patch = Patch::new(0xabc, Ns(5), Ns(6));
            shapes(api, &options).tokens(&cut(2, 1, true), &patch, &mut out);
            assert_eq!(stamp::find(&out), Some((Ns(5), Ns(6))));
            let event = unframed(&out);
            assert_eq!(event.len(), 300);
            let data = event.strip_prefix("data: ").unwrap();
            let value: serde_json::Value = serde_json::from_str(data).unwrap();
            assert!(value["id"].as_str().unwrap().contains("0000000000000abc"));
            assert!(event.contains(" and"));
        }
    }

    #[test]
    fn line_ends_and_partial_chunks_are_as_asked() {
        for line_end in [LineEnd::Lf, LineEnd::CrLf, LineEnd::Cr] {
            let options = Options {
                line_end,
                chunk_bytes: 0,
                tokens_per_chunk: 4,
                ..Options::default()
            };
            let mut out = Vec::new();
            let patch = Patch::new(1, Ns(5), Ns(6));
            shapes(Api::Chat, &options).tokens(&cut(0, 3, false), &patch, &mut out);
            let event = unframed(&out);
            assert!(event.contains("\" the of and\""));
            assert!(event.ends_with(&line_end.text().repeat(2)));
        }
    }

    #[test]
    fn a_whole_answer_has_usage_with_details() {
        let options = Options::default();
        let end = End {
            is_length: true,
            says_done: true,
            usage: Some(usage(UsageMode::Details, 10, 8, 2)),
        };
        let patch = Patch::new(1, Ns(5), Ns(6));
        for api in [Api::Chat, Api::Completions, Api::Triton] {
            let body = shapes(api, &options).body(8, 2, &end, &patch);
            let value: serde_json::Value = serde_json::from_str(&body).unwrap();
            assert_eq!(stamp::find(body.as_bytes()), Some((Ns(5), Ns(6))));
            if api != Api::Triton {
                assert_eq!(value["usage"]["total_tokens"], 18);
                assert_eq!(value["choices"][0]["finish_reason"], "length");
            }
        }
    }
}
