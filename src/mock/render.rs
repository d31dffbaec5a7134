//! Answers' bytes: events rendered once per model, framed as chunks, stamped as they leave.

use super::options::{Options, UsageMode};
use crate::base::Ns;
use crate::config::Api;
use crate::endpoint::voice::{Line, Said, Voice};
use crate::endpoint::{Endpoint, stamp};
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

/// Stands where a request's id will.
const ID_PLACE: &str = "################";
/// Stands where a stamp's bytes will.
const STAMP_PLACE: &str = "fp_0000000000000000_0000000000000000";

/// One framed event with places for the request's id and the stamp, as far as its API has them.
pub(super) struct Template {
    bytes: Vec<u8>,
    id_at: Option<usize>,
    stamp_at: Option<usize>,
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
        let place = |mark: &str| memchr::memmem::find(&bytes, mark.as_bytes());
        Template {
            id_at: place(ID_PLACE),
            stamp_at: place(STAMP_PLACE).map(|at| at + stamp::PREFIX.len()),
            bytes,
        }
    }

    /// Appends the event. Cost: one copy, no allocation once `out` has grown.
    pub(super) fn write(&self, patch: &Patch, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let event = &mut out[start..];
        if let Some(at) = self.id_at {
            event[at..at + ID_DIGITS].copy_from_slice(&patch.id);
        }
        if let Some(at) = self.stamp_at {
            event[at..at + stamp::BODY_BYTES].copy_from_slice(&patch.stamp);
        }
    }
}

/// Every event of one API and model. What an API has no event for is empty.
pub(super) struct Shapes {
    endpoint: Endpoint,
    /// The model's name as JSON, quotes included.
    model: String,
    created: u64,
    eol: &'static str,
    chunk_bytes: usize,
    answers: Vec<Template>,
    reasonings: Vec<Template>,
    role: Option<Template>,
    finish_stop: Option<Template>,
    finish_length: Option<Template>,
    error: Vec<u8>,
    /// A framed comment.
    pub(super) comment: Vec<u8>,
}

impl Shapes {
    /// Renders them all. Cost: about 0.2 ms.
    pub(super) fn new(options: &Options, api: Api, model: &str, created: u64) -> Shapes {
        let eol = options.line_end.text();
        let mut shapes = Shapes {
            endpoint: api.into(),
            model: json!(model).to_string(),
            created,
            eol,
            chunk_bytes: options.chunk_bytes,
            answers: Vec::new(),
            reasonings: Vec::new(),
            role: None,
            finish_stop: None,
            finish_length: None,
            error: framed(&format!(
                "data: {}{eol}{eol}",
                error_body(500, "mock fault")
            )),
            comment: framed(&format!(": keep-alive{eol}{eol}")),
        };
        let per_chunk = options.tokens_per_chunk;
        for start in 0..64 {
            let text = words(start, per_chunk);
            let answer = shapes.render(Line::Answer {
                text: &text,
                so_far: &text,
            });
            let reasoning = shapes.render(Line::Reasoning(&text));
            shapes.answers.extend(answer);
            shapes.reasonings.extend(reasoning);
        }
        shapes.role = shapes.render(Line::Open);
        shapes.finish_stop = shapes.render(Line::Finish("stop"));
        shapes.finish_length = shapes.render(Line::Finish("length"));
        shapes
    }

    fn render(&self, line: Line<'_>) -> Option<Template> {
        let bare = self.event(line, 0)?;
        let missing = match line {
            Line::Answer { .. } | Line::Reasoning(_) => self.chunk_bytes.saturating_sub(bare.len()),
            _ => 0,
        };
        let event = match missing {
            0 => bare,
            _ => self.event(line, missing)?,
        };
        Some(Template::new(&event))
    }

    fn event(&self, line: Line<'_>, pad: usize) -> Option<String> {
        let id = format!("{ID_PLACE}{}", "0".repeat(pad));
        let event = self.endpoint.event(line, &self.voice(&id, STAMP_PLACE))?;
        Some(match self.eol {
            "\n" => event,
            eol => event.replace('\n', eol),
        })
    }

    fn voice<'a>(&'a self, id: &'a str, stamp: &'a str) -> Voice<'a> {
        Voice {
            id,
            stamp,
            model: &self.model,
            created: self.created,
        }
    }

    /// Appends the event that opens a stream, where the API has one.
    pub(super) fn open(&self, patch: &Patch, out: &mut Vec<u8>) {
        write(self.role.as_ref(), patch, out);
    }

    /// Appends `count` tokens from number `start` on as one event.
    pub(super) fn tokens(&self, cut: &Cut, patch: &Patch, out: &mut Vec<u8>) {
        let set = if cut.is_reasoning {
            &self.reasonings
        } else {
            &self.answers
        };
        if cut.is_whole
            && !self.endpoint.api().repeats()
            && let Some(event) = set.get(cut.start as usize % 64)
        {
            return event.write(patch, out);
        }
        let text = words(cut.start, cut.count);
        let line = match cut.is_reasoning && !self.endpoint.api().repeats() {
            true => Line::Reasoning(&text),
            false => Line::Answer {
                text: &text,
                so_far: &words(0, cut.start + cut.count),
            },
        };
        write(self.render(line).as_ref(), patch, out);
    }

    /// Appends finish, usage, `[DONE]` and the last chunk, as they apply.
    pub(super) fn close(&self, end: &End, patch: &Patch, out: &mut Vec<u8>) {
        let finish = match end.is_length {
            true => &self.finish_length,
            false => &self.finish_stop,
        };
        write(finish.as_ref(), patch, out);
        let reason = end.reason();
        if let Some(usage) = &end.usage {
            write(
                self.render(Line::Usage { usage, reason }).as_ref(),
                patch,
                out,
            );
        }
        if end.says_done {
            let usage = end.usage.as_deref();
            write(
                self.render(Line::Done { usage, reason }).as_ref(),
                patch,
                out,
            );
        }
        out.extend_from_slice(LAST_CHUNK);
    }

    /// Appends an error event and the last chunk.
    pub(super) fn fail(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.error);
        out.extend_from_slice(LAST_CHUNK);
    }

    /// The whole answer as one JSON body, to a request of so many inputs.
    pub(super) fn body(
        &self,
        tokens: u32,
        reasoning: u32,
        inputs: usize,
        end: &End,
        patch: &Patch,
    ) -> String {
        let ascii = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let stamp = format!("{}{}", stamp::PREFIX, ascii(&patch.stamp));
        let said = Said {
            answer: &words(reasoning, tokens - reasoning),
            reasoning: &words(0, reasoning),
            reason: end.reason(),
            usage: end.usage.as_deref(),
            inputs,
        };
        let id = ascii(&patch.id);
        self.endpoint.answer(&self.voice(&id, &stamp), &said)
    }
}

fn write(event: Option<&Template>, patch: &Patch, out: &mut Vec<u8>) {
    if let Some(event) = event {
        event.write(patch, out);
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

impl End {
    fn reason(&self) -> &'static str {
        match self.is_length {
            true => "length",
            false => "stop",
        }
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
        for api in [Api::Chat, Api::Completions, Api::TritonVllm] {
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
        for api in [Api::Chat, Api::Completions, Api::TritonVllm] {
            let body = shapes(api, &options).body(8, 2, 1, &end, &patch);
            let value: serde_json::Value = serde_json::from_str(&body).unwrap();
            assert_eq!(stamp::find(body.as_bytes()), Some((Ns(5), Ns(6))));
            if !api.is_triton() {
                assert_eq!(value["usage"]["total_tokens"], 18);
                assert_eq!(value["choices"][0]["finish_reason"], "length");
            }
        }
    }
}
