//! The events of streams, which differ in little more than their text.

use super::scan::{self, Hole};
use super::{Endpoint, Part};
use crate::config::Api;
use std::borrow::Cow;
use std::ops::Range;

/// Reads the events of many streams as [`Endpoint::read_event`] does, faster where they repeat.
///
/// It remembers events that were plain text, and which of their strings and numbers say nothing
/// (`id`, `created`, ..). An event with the same bytes around values of the same kind says the
/// same, so that only its text is new. Only values that have been seen to differ are looked at.
/// Cost: a fourth of [`Endpoint::read_event`]'s for a shape that is known.
#[derive(Debug)]
pub struct EventReader {
    endpoint: Endpoint,
    shapes: Vec<Shape>,
    /// Where the next shape is written once there are enough.
    oldest: usize,
    /// Plain texts in a row that had no known shape.
    misses: u32,
}

/// Shapes in use at most: answer and reasoning, of two servers.
const SHAPES_MAX: usize = 4;
/// After so many misses in a row events are taken for such that do not repeat.
const MISSES_MAX: u32 = 4;
/// Every how many of those one is learned all the same.
const LEARN_EVERY: u32 = 64;
/// Values of a shape that may differ; an event with more is left to the scan.
const HOLES_MAX: usize = 16;

impl EventReader {
    /// A reader that has seen nothing.
    pub fn new(endpoint: Endpoint) -> EventReader {
        EventReader {
            endpoint,
            shapes: Vec::new(),
            oldest: 0,
            misses: 0,
        }
    }

    /// What the event says; see [`Endpoint::read_event`].
    #[inline]
    pub fn read<'a>(&mut self, name: &[u8], data: &'a [u8]) -> Part<'a> {
        if !name.is_empty() {
            return self.endpoint.read_event(name, data);
        }
        if self.misses <= MISSES_MAX
            && let Some(part) = self.known(data).or_else(|| self.known_by_more(data))
        {
            self.misses = 0;
            return part;
        }
        let part = self.endpoint.read_event(name, data);
        self.learn(data, &part);
        part
    }

    fn known<'a>(&self, data: &'a [u8]) -> Option<Part<'a>> {
        let found = |shape: &Shape| Some((shape.text_of(data)?, shape.is_reasoning));
        let (text, is_reasoning) = self.shapes.iter().find_map(found)?;
        Some(plain(text, is_reasoning))
    }

    /// The same of an event that differs from a known one in more values than any before.
    #[cold]
    fn known_by_more<'a>(&mut self, data: &'a [u8]) -> Option<Part<'a>> {
        self.shapes.iter_mut().find_map(|shape| shape.widen(data))?;
        self.known(data)
    }

    fn learn(&mut self, data: &[u8], part: &Part<'_>) {
        let (text, is_reasoning) = match (&part.answer, &part.reasoning) {
            (Some(Cow::Borrowed(text)), None) => (*text, false),
            (None, Some(Cow::Borrowed(text))) => (*text, true),
            _ => return,
        };
        if *part != plain(text, is_reasoning) {
            return;
        }
        self.misses += 1;
        if self.misses > MISSES_MAX {
            if self.misses < LEARN_EVERY {
                return;
            }
            // The next event is compared with this one.
            self.misses = MISSES_MAX;
        }
        let Some(shape) = Shape::of(self.endpoint.api(), data, text, is_reasoning) else {
            return;
        };
        if self.shapes.len() < SHAPES_MAX {
            self.shapes.push(shape);
        } else {
            self.shapes[self.oldest] = shape;
            self.oldest = (self.oldest + 1) % SHAPES_MAX;
        }
    }
}

/// The part of an event that is plain text.
fn plain(text: &[u8], is_reasoning: bool) -> Part<'_> {
    let text = Some(Cow::Borrowed(text));
    match is_reasoning {
        true => Part {
            reasoning: text,
            ..Part::default()
        },
        false => Part {
            answer: text,
            ..Part::default()
        },
    }
}

/// An event that others may be like.
#[derive(Debug)]
struct Shape {
    example: Vec<u8>,
    /// Its values that may differ, in order; the text is one.
    values: Vec<Value>,
    text: usize,
    is_reasoning: bool,
}

#[derive(Debug)]
struct Value {
    span: Range<usize>,
    kind: Hole,
    /// Another event had another value here.
    differs: bool,
}

impl Shape {
    fn of(api: Api, data: &[u8], text: &[u8], is_reasoning: bool) -> Option<Shape> {
        let start = text.as_ptr().addr() - data.as_ptr().addr();
        let text = start..start + text.len();
        let mut spans = scan::free_values(api, data)?;
        spans.push((text.clone(), Hole::String));
        if spans.len() > HOLES_MAX {
            return None;
        }
        spans.sort_by_key(|(span, _)| span.start);
        let values: Vec<Value> = spans
            .into_iter()
            .map(|(span, kind)| Value {
                differs: span == text,
                span,
                kind,
            })
            .collect();
        Some(Shape {
            example: data.to_vec(),
            text: values.iter().position(|value| value.differs)?,
            values,
            is_reasoning,
        })
    }

    /// The text of an event of this shape; empty text may mean something else.
    fn text_of<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        let mut text = &data[..0];
        self.compare(data, false, |index, value| {
            if index == self.text {
                text = value;
            }
        })?;
        (!text.is_empty()).then_some(text)
    }

    /// Marks the values in which an event of this shape differs from it.
    fn widen(&mut self, data: &[u8]) -> Option<()> {
        let mut differ = [false; HOLES_MAX];
        self.compare(data, true, |index, value| {
            differ[index] = value != &self.example[self.values[index].span.clone()];
        })?;
        for (value, differs) in self.values.iter_mut().zip(differ) {
            value.differs |= differs;
        }
        Some(())
    }

    /// Gives the values of an event that is like this one but for values that may differ: those
    /// that have, or `all`.
    fn compare<'a>(
        &self,
        data: &'a [u8],
        all: bool,
        mut each: impl FnMut(usize, &'a [u8]),
    ) -> Option<()> {
        let (mut rest, mut from) = (data, 0);
        for (index, value) in self.values.iter().enumerate() {
            if !(value.differs || all) {
                continue;
            }
            rest = rest.strip_prefix(&self.example[from..value.span.start])?;
            from = value.span.end;
            let found = value.kind.value(rest)?;
            rest = &rest[found.len()..];
            each(index, found);
        }
        let is_same = rest == &self.example[from..];
        (is_same && (data.is_ascii() || std::str::from_utf8(data).is_ok())).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [&str; 20] = [
        r#"{"id":"a","choices":[{"delta":{"content":"one"},"finish_reason":null}]}"#,
        r#"{"id":"a","choices":[{"delta":{"content":"2 \"x\" \u00e9"},"finish_reason":null}]}"#,
        r#"{"id":"a","choices":[{"delta":{"content":""},"finish_reason":null}]}"#,
        r#"{"id":"a","choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#,
        r#"{"id":"a","choices":[{"delta":{"content":"\ud83d\ude00"},"finish_reason":0}]}"#,
        r#"{"id":"a","choices":[{"delta":{"content":"\ud83d"},"finish_reason":null}]}"#,
        r#"{"id":"a","choices":[{"delta":{"content":"a"},"finish_reason":null}]} "#,
        r#"{"id":"a","choices":[{"delta":{"content":"a"},"finish_reason":null}]"#,
        r#"{"id":"b","choices":[{"delta":{"reasoning":"r","content":null}}]}"#,
        r#"{"id":"","choices":[{"delta":{"reasoning":"s","content":null}}]}"#,
        r#"{"id":"b","choices":[{"delta":{"reasoning":"","content":null}}]}"#,
        r#"{"id":"b","choices":[{"delta":{"reasoning":"s"}}],"usage":{"prompt_tokens":1}}"#,
        r#"{"id":"b","choices":[{"delta":{"content":"s"}},{"delta":{"content":"t"}}]}"#,
        r#"{"id":"b","choices":[{"delta":{"content":"s"}},{"delta":{"content":""}}]}"#,
        r#"{"n":7,"object":"chunk","choices":[{"index":0,"delta":{"role":"a","content":"s"}}]}"#,
        r#"{"n":-1.5,"object":"chunk","choices":[{"index":9,"delta":{"role":"","content":"t"}}]}"#,
        r#"{"n":01,"object":"chunk","choices":[{"index":0,"delta":{"role":"a","content":"s"}}]}"#,
        r#"{"n":7,"object":"error","choices":[{"index":0,"delta":{"role":"a","content":"s"}}]}"#,
        r#"{"n":"7","object":"chunk","choices":[{"index":0,"delta":{"role":"a","content":"s"}}]}"#,
        "[DONE]",
    ];

    #[test]
    fn a_reader_that_remembers_says_what_one_that_does_not_says() {
        let plain =
            |event: &'static str| Endpoint::from(Api::Chat).read_event(b"", event.as_bytes());
        for first in EVENTS {
            for second in EVENTS {
                let mut reader = EventReader::new(Api::Chat.into());
                for event in [first, second, first, second] {
                    let part = reader.read(b"", event.as_bytes());
                    assert_eq!(part, plain(event), "{first} then {second}");
                }
            }
        }
    }

    #[test]
    fn events_that_differ_in_what_says_nothing_have_one_shape() {
        let mut reader = EventReader::new(Api::Chat.into());
        for index in 0..9 {
            let event = format!(
                r#"{{"id":"x{index}","created":{index}.5,"object":"chunk","choices":[{{"index":0,
                "delta":{{"content":"t{index}"}},"logprobs":null}}],"stamp":"{}"}}"#,
                "s".repeat(index)
            );
            assert!(reader.read(b"", event.as_bytes()).has_content());
            assert_eq!((reader.shapes.len(), reader.misses > 0), (1, index == 0));
        }
        // A key that stands twice: the last counts, and it is the one that is looked at.
        for (first, second) in [("a", "b"), ("c", "d")] {
            let event = format!(
                r#"{{"choices":[{{"delta":{{"content":"{first}","content":"{second}"}}}}]}}"#
            );
            let part = reader.read(b"", event.as_bytes());
            assert_eq!(part.answer.as_deref(), Some(second.as_bytes()));
        }
        let broken = b"{\"id\":\"\xff\",\"choices\":[{\"delta\":{\"content\":\"a\"}}]}";
        let whole = broken.map(|byte| byte & 0x7f);
        for (event, is_whole) in [(&whole, true), (broken, false), (&whole, true)] {
            assert_eq!(reader.read(b"", event).error.is_none(), is_whole);
        }
    }

    #[test]
    fn events_that_never_repeat_are_learned_from_now_and_then_only() {
        let mut reader = EventReader::new(Api::Chat.into());
        let mut event = |member: usize| {
            let data = format!(r#"{{"k{member}":1,"choices":[{{"delta":{{"content":"a"}}}}]}}"#);
            assert!(reader.read(b"", data.as_bytes()).has_content());
            (reader.shapes.len(), reader.misses)
        };
        for member in 0..1_000 {
            let (shapes, misses) = event(member);
            assert!(shapes <= SHAPES_MAX && misses <= LEARN_EVERY);
        }
        // A server that is replaced by one that repeats itself is noticed.
        for _ in 0..2 * LEARN_EVERY {
            event(7);
        }
        assert_eq!(event(7).1, 0);
    }
}
