//! SGLang's own `/generate`: each event of a stream has all of the text so far.

use super::kind::Kind;
use super::shapes::escaped;
use super::usage;
use super::voice::{Line, Said, Voice, data, usage_counts};
use super::{BodySpec, Part};
use serde_json::{Map, Value};

#[derive(Debug)]
pub(super) struct Sglang;

impl Kind for Sglang {
    fn path(&self, _streaming: bool, _model: &str) -> String {
        "/generate".into()
    }

    fn members(&self, spec: &BodySpec<'_>) -> Map<String, Value> {
        let mut members = Map::new();
        members.insert("text".into(), spec.prompt().into());
        let mut sampling = Map::new();
        if let Some(count) = spec.max_tokens {
            sampling.insert("max_new_tokens".into(), count.into());
        }
        if spec.deterministic {
            sampling.insert("ignore_eos".into(), true.into());
            if let Some(count) = spec.max_tokens {
                sampling.insert("min_new_tokens".into(), count.into());
            }
        }
        members.insert("sampling_params".into(), sampling.into());
        members.insert("stream".into(), spec.streaming.into());
        members
    }

    fn read(&self, value: &Value) -> Part<'static> {
        // A batch of one is a list of one.
        let value = value.get(0).unwrap_or(value);
        let meta = &value["meta_info"];
        Part {
            answer: value["text"].as_str().and_then(escaped),
            is_whole_text: true,
            finished: !meta["finish_reason"].is_null(),
            usage: usage::counts(meta),
            ..Part::default()
        }
    }

    fn event(&self, line: Line<'_>, voice: &Voice<'_>) -> Option<String> {
        match line {
            Line::Answer { so_far, .. } => Some(data(&output(voice, so_far, None))),
            Line::Reasoning(text) => Some(data(&output(voice, text, None))),
            // The text of the last event is once more the whole: this one has none to add.
            Line::Usage { usage, reason } => Some(data(&output(voice, "", Some((usage, reason))))),
            Line::Done { .. } => Some(data("[DONE]")),
            Line::Open | Line::Finish(_) => None,
        }
    }

    fn answer(&self, voice: &Voice<'_>, said: &Said<'_>) -> String {
        let text = format!("{}{}", said.reasoning, said.answer);
        output(voice, &text, said.usage.map(|usage| (usage, said.reason)))
    }
}

fn output(voice: &Voice<'_>, text: &str, end: Option<(&str, &str)>) -> String {
    let Voice { id, stamp, .. } = voice;
    let meta = match end {
        None => "\"finish_reason\":null".to_string(),
        Some((usage, reason)) => {
            let [prompt, cached, completion, _] = usage_counts(usage);
            format!(
                "\"finish_reason\":{{\"type\":\"{reason}\"}},\"prompt_tokens\":{prompt},\
                 \"cached_tokens\":{cached},\"completion_tokens\":{completion}"
            )
        }
    };
    format!(
        "{{\"text\":\"{text}\",\"meta_info\":{{\"id\":\"{id}\",{meta}}},\"stamp\":\"{stamp}\"}}"
    )
}
