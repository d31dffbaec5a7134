//! The laws of the parsers: a split changes nothing, no bytes make them panic, the fast way reads
//! what a plain JSON reader reads, and the streams of real servers come out whole.
//!
//! The fuzz targets in `fuzz/` check the same laws without an end.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed};
use serde_json::{Value, json};
use tokenring::config::Api;
use tokenring::endpoint::{Endpoint, EventReader, Part, unescape};
use tokenring::http::codec::{CodecError, Piece, ResponseDecoder};
use tokenring::schedule::{TraceTimes, trace_times};
use tokenring::sse::{self, Decoder, Event};
use tokenring::stats::Usage;
use tokenring::workload::read_trace;

/// The same cases in every run.
fn config() -> Config {
    Config {
        cases: 200,
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..Config::default()
    }
}

/// All that an answer says.
#[derive(Debug, Default, PartialEq)]
struct Story {
    status: u16,
    events: Vec<(Vec<u8>, Vec<u8>)>,
    is_done: bool,
    keeps_alive: bool,
    error: Option<CodecError>,
}

/// Reads an answer that arrives in `reads`, head to events.
fn read<'a>(reads: impl IntoIterator<Item = &'a [u8]>) -> Story {
    let (mut codec, mut decoder) = (ResponseDecoder::new(), Decoder::new());
    let mut story = Story::default();
    for bytes in reads {
        let fed = codec.feed(bytes, &mut |piece| match piece {
            Piece::Head(head) => story.status = head.status,
            Piece::Body(body) => {
                let fed = decoder.feed(body, &mut |event: Event<'_>| {
                    let event = (event.name.to_vec(), event.data.to_vec());
                    story.events.push(event);
                });
                fed.expect("events are short");
            }
        });
        match fed {
            Ok(fed) => story.is_done = fed.done,
            Err(error) => {
                story.error = Some(error);
                break;
            }
        }
    }
    story.keeps_alive = codec.keeps_alive();
    story
}

/// `bytes` in pieces; a cut beyond the end wraps around.
fn split<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut points: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    points.extend([0, bytes.len()]);
    points.sort_unstable();
    points
        .windows(2)
        .map(|pair| &bytes[pair[0]..pair[1]])
        .collect()
}

/// A chunked answer of server-sent events; the sizes of its chunks repeat.
fn answer(events: &[String], line_end: &str, chunk_bytes: &[usize]) -> Vec<u8> {
    let mut body = Vec::new();
    for data in events {
        sse::encode(b"", data.as_bytes(), line_end.as_bytes(), &mut body);
    }
    let mut out = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let mut rest = &body[..];
    for size in chunk_bytes.iter().cycle() {
        let (chunk, after) = rest.split_at((*size).min(rest.len()));
        out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
        rest = after;
        if chunk.is_empty() {
            return out;
        }
    }
    out
}

/// Text as a user reads it: the escapes of JSON undone.
fn plain(escaped: Option<&[u8]>) -> String {
    unescape(escaped.unwrap_or_default())
}

/// All that a part says, its texts as a user reads them.
fn said(part: Part<'_>) -> (Vec<String>, Part<'static>) {
    let texts = [&part.answer, &part.reasoning, &part.tool_call];
    let texts = texts.map(|text| plain(text.as_deref())).to_vec();
    let rest = Part {
        answer: None,
        reasoning: None,
        tool_call: None,
        ..part
    };
    (texts, rest)
}

/// The fast way takes what serde_json takes, and says the same of it.
fn check_both_ways(data: &[u8]) {
    for api in Api::all() {
        let fast = Endpoint::from(api).read_body(data).ok().map(said);
        let slow = Endpoint::from(api).read_by_value(data).ok().map(said);
        assert_eq!(fast, slow, "{api:?} {:?}", String::from_utf8_lossy(data));
    }
}

/// What a plain reader finds in a chat event: answer, reasoning, finished.
fn by_value(value: &Value) -> (String, String, bool) {
    let choice = &value["choices"][0];
    let text = |key: &str| {
        choice["delta"][key]
            .as_str()
            .unwrap_or_default()
            .to_string()
    };
    let is_finished = !choice["finish_reason"].is_null();
    (text("content"), text("reasoning_content"), is_finished)
}

fn by_part(part: &Part<'_>) -> (String, String, bool) {
    let text = plain(part.answer.as_deref());
    (text, plain(part.reasoning.as_deref()), part.finished)
}

fn text_or_null() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        1 => Just(json!("")),
        4 => any::<String>().prop_map(Value::from),
    ]
}

/// Values that servers add and no reader asks for.
fn extra() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<f64>().prop_map(|number| json!(number)),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<String>().prop_map(|text| json!({"content": text, "choices": [[], {}]})),
    ]
}

/// Chat events with members in any of two orders.
fn chat_event() -> impl Strategy<Value = Value> {
    let texts = (text_or_null(), text_or_null());
    let finish = prop_oneof![
        Just(Value::Null),
        Just(json!("stop")),
        Just(json!("length"))
    ];
    let rest = (any::<u32>(), extra(), any::<bool>(), any::<bool>());
    (texts, finish, rest).prop_map(|((content, reasoning), finish, rest)| {
        let (tokens, extra, has_usage, is_llama) = rest;
        let delta = json!({"x": extra, "content": content, "reasoning_content": reasoning});
        let usage = match has_usage {
            true => json!({"prompt_tokens": tokens, "completion_tokens": 1}),
            false => Value::Null,
        };
        match is_llama {
            true => json!({
                "choices": [{"finish_reason": finish, "index": 0, "delta": delta}],
                "id": extra, "usage": usage,
            }),
            false => json!({
                "usage": usage, "id": "x\"y", "logprobs": extra,
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
            }),
        }
    })
}

/// A member, of the keys that mean something or of another.
fn member(
    key: &'static str,
    value: impl Strategy<Value = String> + 'static,
) -> BoxedStrategy<String> {
    let other = prop_oneof![
        Just("x"),
        Just("con\\u0074ent"),
        Just("object"),
        Just("error")
    ];
    prop_oneof![
        9 => value.prop_map(move |value| format!("\"{key}\": {value}")),
        1 => (other, leaf()).prop_map(|(key, value)| format!("\"{key}\":{value}")),
    ]
    .boxed()
}

/// JSON in small, and a little that is none.
fn leaf() -> BoxedStrategy<String> {
    let text = prop_oneof![
        4 => prop::sample::select(vec![
            "", "a", "é", "\\u00e9", "\\n", "\\ud83d", "\\ude00", "\\ud83d\\ude00", "error", "stop",
            "\\\\", "\\x", "\\ud83", "\u{fd83d}",
        ]).prop_map(|text| format!("\"{text}\"")),
        1 => any::<String>().prop_map(|text| Value::from(text).to_string()),
    ];
    let word = prop::sample::select(vec![
        "null",
        "true",
        "false",
        "0",
        "-0",
        "7",
        "5.0",
        "5.5",
        "-3",
        "1e2",
        "4294967296",
        "01",
        "nul",
        "{}",
        "[]",
        "[{}]",
        "[null,1]",
        "[1,]",
        "{\"a\":[{\"b\":null}]}",
    ]);
    prop_oneof![3 => text, 2 => word.prop_map(String::from)].boxed()
}

/// An object whose members may stand twice; now and then something else in its place.
fn object_of(members: Vec<BoxedStrategy<String>>) -> BoxedStrategy<String> {
    let members = prop::collection::vec(prop::strategy::Union::new(members), 0..5);
    let object = members.prop_map(|members| format!("{{{}}}", members.join(" ,")));
    prop_oneof![12 => object, 1 => leaf()].boxed()
}

fn list_of(values: BoxedStrategy<String>, most: usize) -> BoxedStrategy<String> {
    let values = prop::collection::vec(values, 0..=most);
    let list = values.prop_map(|values| format!("[ {}]", values.join(",")));
    prop_oneof![12 => list, 1 => leaf()].boxed()
}

/// Events of every API as text: keys twice, in any order, with values of the wrong type.
fn wild_event() -> BoxedStrategy<String> {
    let call = object_of(vec![member("name", leaf()), member("arguments", leaf())]);
    let calls = list_of(object_of(vec![member("function", call)]), 2);
    let delta = object_of(vec![
        member("content", leaf()),
        member("content", leaf()),
        member("reasoning", leaf()),
        member("reasoning_content", leaf()),
        member("tool_calls", calls),
    ]);
    let choice = object_of(vec![
        member("delta", delta.clone()),
        member("delta", delta.clone()),
        member("message", delta),
        member("text", leaf()),
        member("finish_reason", leaf()),
    ]);
    let details = object_of(vec![member("reasoning_tokens", leaf())]);
    let usage = object_of(vec![
        member("prompt_tokens", leaf()),
        member("completion_tokens", leaf()),
        member("completion_tokens_details", details),
    ]);
    let choices = list_of(choice, 3);
    object_of(vec![
        member("choices", choices.clone()),
        member("choices", choices.clone()),
        member("choices", choices),
        member("usage", usage.clone()),
        member("tokens", usage),
        member("meta", leaf()),
        member("text_output", leaf()),
        member("id", leaf()),
    ])
}

/// An event that is plain text in a usual shape.
fn chat_text_event() -> BoxedStrategy<String> {
    let key = prop_oneof![Just("content"), Just("reasoning"), Just("text")];
    (key, "[a-z]{0,6}", 0..200u32, "[a-f0-9]{0,9}")
        .prop_map(|(key, text, number, id)| {
            format!(
                r#"{{"id":"{id}","created":{number},"choices":[{{"index":0,"{key}":"{text}x",
                "delta":{{"{key}":"{text}x"}},"finish_reason":null}}],"text_output":"{text}y"}}"#
            )
        })
        .boxed()
}

/// A byte that means something in JSON, or any.
fn changed_byte() -> BoxedStrategy<u8> {
    let known = prop::sample::select(&b"{}[]\",:0-.e\\ nu"[..]);
    prop_oneof![3 => known, 1 => any::<u8>()].boxed()
}

/// Words that the parsers look for, in any order.
const WORDS: &str = concat!(
    "(data|event|choices|error|null|[0-9a-f]|:|,| |",
    r#"\{|\}|\[|\]|"|\\|\r|\n){0,60}"#
);

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_chunked_stream_split_anywhere_gives_the_same_events(
        events in prop::collection::vec("[a-z0-9{}:\" é]{1,40}", 0..8),
        line_end in prop_oneof![Just("\n"), Just("\r\n"), Just("\r")],
        chunk_bytes in prop::collection::vec(1usize..60, 1..5),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let bytes = answer(&events, line_end, &chunk_bytes);
        let whole = read([&bytes[..]]);
        prop_assert!(whole.is_done && whole.keeps_alive && whole.error.is_none());
        let datas: Vec<&[u8]> = whole.events.iter().map(|event| &event.1[..]).collect();
        let sent: Vec<&[u8]> = events.iter().map(|data| data.as_bytes()).collect();
        prop_assert_eq!(datas, sent);
        prop_assert_eq!(&read(split(&bytes, &cuts)), &whole);
        prop_assert_eq!(&read(bytes.chunks(1)), &whole);
    }

    #[test]
    fn a_trace_s_line_ends_change_nothing_and_its_faults_show_nothing(
        stamps in prop::collection::vec(0u64..5_000, 1..20),
        bad in "[a-z{}\\[\\]\",:0-9. -]{0,40}",
        at in any::<prop::sample::Index>(),
    ) {
        let row = |ms: &u64| format!("{{\"text\":\"SECRET\",\"timestamp\":{}.5}}", ms % 50);
        let mut lines: Vec<String> = stamps.iter().map(row).collect();
        let entries = read_trace("f", lines.join("\n").as_bytes()).unwrap();
        let stamps: Vec<_> = entries.iter().map(|entry| entry.at).collect();
        let times = TraceTimes { jitter: Some(1), ..TraceTimes::default() };
        let schedule = trace_times(&stamps, times).unwrap();
        prop_assert_eq!(schedule.due.len(), lines.len());
        prop_assert!(schedule.due.is_sorted_by_key(|(_, at)| *at));
        lines.insert(at.index(lines.len()), format!("SECRET{bad}"));
        for all in [&lines[1..], &lines[..]] {
            let read = read_trace("f", all.join("\n").as_bytes());
            prop_assert_eq!(&read_trace("f", all.join("\r\n").as_bytes()), &read);
            if let Err(error) = read {
                prop_assert!(!error.to_string().contains("SECRET"), "{}", error);
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        lines in WORDS,
    ) {
        let head = &b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"[..];
        for input in [&bytes[..], lines.as_bytes()] {
            let _ = read_trace("f", input);
            let _ = read([input]);
            let _ = read([head, input]);
            let mut decoder = Decoder::new();
            let fed = decoder.feed(input, &mut |event: Event<'_>| {
                let _ = Endpoint::from(Api::Chat).read_event(event.name, event.data);
            });
            prop_assert!(fed.is_ok());
            check_both_ways(input);
            for api in Api::all() {
                let _ = Endpoint::from(api).read_event(b"", input);
                let _ = Endpoint::from(api).read_event(b"error", input);
                let _ = Endpoint::from(api).read_body(input);
            }
        }
    }

    #[test]
    fn a_chat_event_reads_as_a_plain_json_reader_reads_it(event in chat_event()) {
        for text in [event.to_string(), format!("{event:#}")] {
            let part = Endpoint::from(Api::Chat).read_event(b"", text.as_bytes());
            prop_assert!(part.error.is_none(), "{text}");
            prop_assert_eq!(by_part(&part), by_value(&event));
            let prompt = event["usage"]["prompt_tokens"].as_u64();
            let told = part.usage.as_ref().and_then(|usage| usage.prompt);
            prop_assert_eq!(told.map(u64::from), prompt);
        }
    }

    #[test]
    fn both_ways_say_the_same_of_any_event(event in wild_event()) {
        check_both_ways(event.as_bytes());
    }

    #[test]
    fn what_a_reader_remembers_changes_nothing(
        events in prop::collection::vec(prop_oneof![wild_event(), chat_text_event()], 1..4),
        changes in prop::collection::vec((any::<usize>(), changed_byte()), 0..12),
    ) {
        for api in Api::all() {
            let mut reader = EventReader::new(api.into());
            for event in &events {
                // Once whole, so that it is known, then with a byte changed here and there.
                let mut bytes = event.clone().into_bytes();
                let alone = Endpoint::from(api).read_event(b"", &bytes);
                prop_assert_eq!(reader.read(b"", &bytes), alone);
                for &(at, byte) in &changes {
                    let at = at % bytes.len();
                    let before = std::mem::replace(&mut bytes[at], byte);
                    let alone = Endpoint::from(api).read_event(b"", &bytes);
                    prop_assert_eq!(reader.read(b"", &bytes), alone);
                    bytes[at] = before;
                }
            }
        }
    }

    #[test]
    fn a_cut_event_is_an_error_and_no_content(event in chat_event(), cut in any::<usize>()) {
        let text = event.to_string();
        let cut = &text.as_bytes()[..cut % text.len()];
        let part = Endpoint::from(Api::Chat).read_event(b"", cut);
        prop_assert!(part.error.is_some() && !part.has_content());
    }
}

/// What a whole stream says in the end.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    text: String,
    /// Reasoning and tool calls.
    beside: String,
    usage: Option<Usage>,
    finished_count: usize,
    is_done: bool,
}

fn answer_of(api: Api, story: &Story) -> Answer {
    let mut answer = Answer::default();
    for (name, data) in &story.events {
        let part = Endpoint::from(api).read_event(name, data);
        assert_eq!(part.error, None);
        let text = plain(part.answer.as_deref());
        match part.is_whole_text {
            true if text.len() > answer.text.len() => answer.text = text,
            true => {}
            false => answer.text += &text,
        }
        for text in [&part.reasoning, &part.tool_call] {
            answer.beside += &plain(text.as_deref());
        }
        answer.finished_count += usize::from(part.finished);
        answer.is_done |= part.done;
        if let Some(usage) = &part.usage {
            answer.usage.get_or_insert_default().take(usage);
        }
    }
    answer
}

/// The texts are what a reader of the captures that shares no code with the parsers found.
fn check(api: Api, bytes: &[u8], event_count: usize, expected: &Answer) {
    let whole = read([bytes]);
    assert!(whole.is_done && whole.keeps_alive);
    assert_eq!((whole.status, whole.events.len()), (200, event_count));
    assert_eq!(&answer_of(api, &whole), expected);
    for cut in 0..=bytes.len() {
        let (front, back) = bytes.split_at(cut);
        assert_eq!(read([front, back]), whole, "cut at {cut}");
    }
    assert_eq!(read(bytes.chunks(1)), whole);
}

/// A stream of one finish and `[DONE]`, as OpenAI's shapes have it.
fn openai(text: &str, usage: Option<Usage>) -> Answer {
    Answer {
        text: text.into(),
        usage,
        finished_count: 1,
        is_done: true,
        ..Answer::default()
    }
}

#[test]
fn a_chat_stream_of_vllm_is_read_whole_at_every_split() {
    let text = "The sea is a vast, unforgiving, and unforgiving, a place where the boundaries of \
                humanity are constantly";
    let bytes = include_bytes!("data/captures/vllm-cpu.chat-stream.raw");
    check(Api::Chat, bytes, 26, &openai(text, None));
}

#[test]
fn a_chat_stream_of_llama_server_is_read_whole_at_every_split() {
    let text = "The sea is a vast, unforgiving, and unforgiving, unforgiving, unforgiving, a";
    let bytes = include_bytes!("data/captures/llama-server.chat-stream.raw");
    check(Api::Chat, bytes, 27, &openai(text, None));
}

#[test]
fn a_completion_stream_of_vllm_is_read_whole_at_every_split() {
    let text = ", the city of Nova Haven was a thriving metropolis, with towering skyscrapers and \
                bustling streets. But as the years went by";
    let usage = Usage {
        prompt: Some(4),
        completion: Some(24),
        total: Some(28),
        ..Usage::default()
    };
    let bytes = include_bytes!("data/captures/vllm-cpu.cmpl-stream.raw");
    check(Api::Completions, bytes, 26, &openai(text, Some(usage)));
}

#[test]
fn a_stream_of_triton_ends_without_a_word_and_is_read_whole_at_every_split() {
    let expected = Answer {
        text: "the quick brown fox jumps over a lazy dog the quick brown fox jumps over a ".into(),
        ..Answer::default()
    };
    let bytes = include_bytes!("data/captures/triton.generate_stream.raw");
    check(Api::TritonVllm, bytes, 16, &expected);
}

#[test]
fn the_messages_of_both_servers_are_read_whole_and_their_usage_is_joined() {
    let text = "A majestic and majestic vessel, one that glides across the horizon, its waves \
                crashing against the waves.";
    // What the cache had is counted apart, in another event than the output.
    let usage = Usage {
        prompt: Some(38),
        completion: Some(22),
        cache_read: Some(37),
        is_cache_apart: true,
        ..Usage::default()
    };
    let bytes = include_bytes!("data/captures/llama-server.messages-stream.raw");
    check(Api::Messages, bytes, 26, &openai(text, Some(usage)));
    let text = "The celestial equation: Spo - 46668\n\nThe scientific acronym **spo** seems to";
    let usage = Usage {
        prompt: Some(38),
        completion: Some(24),
        ..Usage::default()
    };
    let bytes = include_bytes!("data/captures/vllm-cpu.messages-stream.raw");
    check(Api::Messages, bytes, 29, &openai(text, Some(usage)));
}

#[test]
fn the_responses_of_both_servers_are_read_whole_and_said_once() {
    let text = "The majestic and majestic sea, a majestic and majestic sea, that is the most \
                majestic and majestic sea in the world.";
    let usage = Usage {
        prompt: Some(38),
        completion: Some(24),
        total: Some(62),
        cache_read: Some(37),
        ..Usage::default()
    };
    let bytes = include_bytes!("data/captures/llama-server.responses-stream.raw");
    check(Api::Responses, bytes, 32, &openai(text, Some(usage)));
    let text = "The USS Kassim, launched in 1886, carried a manifest of the crew sailors of a \
                British";
    let usage = Usage {
        cache_read: Some(0),
        reasoning: Some(0),
        ..usage
    };
    let bytes = include_bytes!("data/captures/vllm-cpu.responses-stream.raw");
    check(Api::Responses, bytes, 32, &openai(text, Some(usage)));
}

#[test]
fn a_stream_of_a_tool_call_and_one_of_a_model_that_thinks_are_read_whole() {
    let usage = Usage {
        prompt: Some(38),
        completion: Some(48),
        total: Some(86),
        ..Usage::default()
    };
    let call = Answer {
        beside: "get_weather\"sea\"".into(),
        ..openai("", Some(usage))
    };
    let bytes = include_bytes!("data/captures/vllm-cpu.chat-stream-tools.raw");
    check(Api::Chat, bytes, 8, &call);
    let text = "\nThe sea is a vast and mysterious realm, where the boundaries between the \
                physical and the spiritual are constantly shifting.";
    let usage = Usage {
        prompt: Some(21),
        completion: Some(24),
        total: Some(45),
        cache_read: Some(0),
        ..Usage::default()
    };
    let bytes = include_bytes!("data/captures/llama-server-think.chat-stream-usage.raw");
    check(Api::Chat, bytes, 27, &openai(text, Some(usage)));
}
