//! Trace files: bytes of JSON lines to entries. Mooncake's rows, and plain lines with a text.
//!
//! Does no I/O and knows no schedule: stamps stay as the file has them. What is wrong with a line
//! is said with its number, and with nothing of what stands in it.

use crate::base::{Ns, limits};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// What a request asks with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceInput {
    /// This text.
    Text(String),
    /// A prompt of so many tokens, at least one.
    Tokens(u32),
}

/// One line of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// Its number in the file, from 1, blank lines counted.
    pub line: u64,
    /// `timestamp`, as the file has it.
    pub at: Option<Ns>,
    /// `input_length`, or `text_input` or `text`.
    pub input: TraceInput,
    /// `hash_ids`: equal ids stand for equal blocks of the prompt; empty for a text.
    pub hash_ids: Vec<u64>,
    /// `output_length`, at least one.
    pub output_tokens: Option<u32>,
    /// `session_id`: entries that share it are turns, in the order of the file.
    pub session: Option<String>,
    /// `delay`: rest after the turn before.
    pub delay: Option<Ns>,
}

/// A file that is no trace.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TraceError {
    /// A line is not what it should be.
    #[error("{file}:{line}: {text}")]
    Line {
        /// Name of the file.
        file: String,
        /// Number of the line, from 1, blank lines counted.
        line: u64,
        /// What is wrong and what to do.
        text: String,
    },
    /// Nothing but blank lines.
    #[error("{0}: no entry in it; give a JSON object per line")]
    Empty(String),
}

/// Entries of a trace, in the order of the file, at least one; `file` is its name for errors.
///
/// Either all have a stamp or none has, but for later turns of a session, which may follow the
/// turn before. Errors: the first line that cannot be read, names the line and shows none of it.
pub fn read_trace(file: &str, bytes: &[u8]) -> Result<Vec<TraceEntry>, TraceError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut entries: Vec<TraceEntry> = Vec::new();
    let mut sessions = HashSet::new();
    for (line, bytes) in (1u64..).zip(bytes.split(|&byte| byte == b'\n')) {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let wrong = |text| TraceError::Line {
            file: file.into(),
            line,
            text,
        };
        let entry = entry(line, bytes).map_err(wrong)?;
        let is_later_turn = match &entry.session {
            Some(session) => !sessions.insert(session.clone()),
            None => false,
        };
        if let Some(first) = entries.first().filter(|_| !is_later_turn)
            && first.at.is_some() != entry.at.is_some()
        {
            let (has, lacks) = match entry.at {
                Some(_) => (line, first.line),
                None => (first.line, line),
            };
            return Err(wrong(format!(
                "line {has} has a timestamp and line {lacks} has none; give all or none"
            )));
        }
        if entries.len() == limits::TRACE_ENTRIES_MAX {
            let text = format!("over {} entries; split the file", limits::TRACE_ENTRIES_MAX);
            return Err(wrong(text));
        }
        entries.push(entry);
    }
    match entries.is_empty() {
        true => Err(TraceError::Empty(file.into())),
        false => Ok(entries),
    }
}

/// Lines that are bodies themselves, in the order of the file, at least one; `file` is its name for
/// errors. Errors: a line that is no JSON, named without what stands in it.
pub fn read_bodies(file: &str, bytes: &[u8]) -> Result<Vec<TraceEntry>, TraceError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let lines = (1u64..).zip(bytes.split(|&byte| byte == b'\n'));
    let filled = lines.filter(|(_, bytes)| !bytes.trim_ascii().is_empty());
    let body = |(line, bytes): (u64, &[u8])| match serde_json::from_slice::<&RawValue>(bytes) {
        Ok(body) => Ok(TraceEntry {
            line,
            at: None,
            input: TraceInput::Text(body.get().into()),
            hash_ids: Vec::new(),
            output_tokens: None,
            session: None,
            delay: None,
        }),
        Err(error) => Err(TraceError::Line {
            file: file.into(),
            line,
            text: format!("not JSON from column {} on", error.column()),
        }),
    };
    let entries: Vec<TraceEntry> = filled.map(body).collect::<Result<_, _>>()?;
    match entries.is_empty() {
        true => Err(TraceError::Empty(file.into())),
        false => Ok(entries),
    }
}

fn entry(line: u64, bytes: &[u8]) -> Result<TraceEntry, String> {
    // The reader's own words could hold some of the line.
    let row = serde_json::from_slice(bytes).map_err(|error| match error.is_eof() {
        true => "the JSON object is cut off".to_string(),
        false => format!("not JSON from column {} on", error.column()),
    })?;
    let Value::Object(row) = row else {
        return Err("not a JSON object".into());
    };
    let hash_ids = hash_ids(&row)?;
    let input = input(&row)?;
    if !hash_ids.is_empty() && matches!(input, TraceInput::Text(_)) {
        return Err("hash_ids need input_length: a text has no blocks to repeat".into());
    }
    Ok(TraceEntry {
        line,
        at: ms(&row, "timestamp")?,
        input,
        hash_ids,
        output_tokens: length(&row, "output_length")?,
        session: session(&row)?,
        delay: ms(&row, "delay")?,
    })
}

/// A member that is there; null is as good as absent.
fn member<'a>(row: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    row.get(key).filter(|value| !value.is_null())
}

fn input(row: &Map<String, Value>) -> Result<TraceInput, String> {
    if let Some(key) = ["messages", "payload"]
        .iter()
        .find(|key| row.contains_key(**key))
    {
        return Err(format!("`{key}` is not read yet; give text_input"));
    }
    let text = |key| match member(row, key) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
        Some(_) => Err(format!("{key} must be a text that is not empty")),
    };
    match (
        length(row, "input_length")?,
        text("text_input")?,
        text("text")?,
    ) {
        (Some(tokens), None, None) => Ok(TraceInput::Tokens(tokens)),
        (None, Some(text), None) | (None, None, Some(text)) => Ok(TraceInput::Text(text)),
        (None, None, None) => Err("neither input_length nor text_input; give one".into()),
        _ => Err("more than one of input_length, text_input and text; give one".into()),
    }
}

fn length(row: &Map<String, Value>, key: &str) -> Result<Option<u32>, String> {
    let Some(value) = member(row, key) else {
        return Ok(None);
    };
    let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
    match count.filter(|&count| count > 0) {
        Some(count) => Ok(Some(count)),
        None => Err(format!(
            "{key} must be a whole number from 1 to {}",
            u32::MAX
        )),
    }
}

fn hash_ids(row: &Map<String, Value>) -> Result<Vec<u64>, String> {
    let ids = match member(row, "hash_ids") {
        None => Some(Vec::new()),
        Some(value) => value
            .as_array()
            .and_then(|ids| ids.iter().map(Value::as_u64).collect()),
    };
    ids.ok_or_else(|| "hash_ids must be a list of whole numbers from 0".into())
}

fn session(row: &Map<String, Value>) -> Result<Option<String>, String> {
    match member(row, "session_id") {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err("session_id must be a text or a number".into()),
    }
}

/// Milliseconds with their fraction.
fn ms(row: &Map<String, Value>, key: &str) -> Result<Option<Ns>, String> {
    let Some(value) = member(row, key) else {
        return Ok(None);
    };
    let Some(number) = value.as_f64() else {
        return Err(format!("{key} must be a number of milliseconds"));
    };
    if number < 0.0 {
        return Err(format!("{key} is negative; give milliseconds from 0"));
    }
    // The whole ones of a time of day leave a sum no digits for a fraction.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates"
    )]
    let whole = value.as_u64().unwrap_or(number as u64);
    let part = Ns::from_secs_f64(number.fract() / 1e3).0;
    let ns = whole.checked_mul(1_000_000);
    match ns.and_then(|ns| ns.checked_add(part)) {
        Some(ns) => Ok(Some(Ns(ns))),
        None => Err(format!("{key} is too large")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<TraceEntry>, String> {
        read_trace("t.jsonl", text.as_bytes()).map_err(|error| error.to_string())
    }

    /// Why a single line is refused.
    fn refusal(line: &str) -> String {
        let text = read(line).unwrap_err();
        text.strip_prefix("t.jsonl:1: ").unwrap().to_string()
    }

    #[test]
    fn bom_crlf_blank_lines_and_no_final_newline_lose_nothing() {
        // Field case DT-1.
        let text = "\u{feff}{\"text\":\"a\"}\r\n\r\n{\"text\":\"b\"}";
        let entries = read(text).unwrap();
        let inputs: Vec<_> = entries.iter().map(|e| (e.line, e.input.clone())).collect();
        let input = |text: &str| TraceInput::Text(text.into());
        assert_eq!(inputs, [(1, input("a")), (3, input("b"))]);
        for (bad, said) in [
            ("{\"text\":", "the JSON object is cut off"),
            ("{\"text\": SECRET}", "not JSON from column 10 on"),
            ("[\"SECRET\"]", "not a JSON object"),
            ("17", "not a JSON object"),
        ] {
            let error = read(&format!("{text}\n{bad}")).unwrap_err();
            assert_eq!(error, format!("t.jsonl:4: {said}"));
        }
        assert_eq!(
            read("\u{feff}\r\n \n"),
            Err("t.jsonl: no entry in it; give a JSON object per line".into())
        );
    }

    #[test]
    fn a_row_of_a_mooncake_trace_is_read_whole() {
        let row = r#"{"timestamp": 27482, "input_length": 6955, "output_length": 52,
            "hash_ids": [46, 47, 2353], "session_id": "s", "delay": 12.5, "priority": 3}"#;
        let entries = read(&row.replace('\n', " ")).unwrap();
        let expected = TraceEntry {
            line: 1,
            at: Some(Ns::from_ms(27_482)),
            input: TraceInput::Tokens(6_955),
            hash_ids: vec![46, 47, 2_353],
            output_tokens: Some(52),
            session: Some("s".into()),
            delay: Some(Ns(12_500_000)),
        };
        assert_eq!(entries, [expected]);
    }

    #[test]
    fn stamps_keep_their_fraction_and_negative_ones_are_refused_with_their_line() {
        // Field case DT-3, as far as a parser has it.
        let at = |stamp: &str| {
            let line = format!("{{\"text\":\"a\",\"timestamp\":{stamp}}}");
            read(&line).map(|entries| entries[0].at.unwrap())
        };
        assert_eq!(at("12.5"), Ok(Ns(12_500_000)));
        assert_eq!(at("0"), Ok(Ns::ZERO));
        assert_eq!(at("-0.0"), Ok(Ns::ZERO));
        let epoch = Ns(1_787_000_000_250_000_000);
        assert_eq!(at("1787000000250"), Ok(epoch));
        assert_eq!(at("1787000000250.0"), Ok(epoch));
        assert_eq!(at("1787000000250.5"), Ok(Ns(epoch.0 + 500_000)));
        let refused = |text: &str| Err(format!("t.jsonl:1: {text}"));
        let negative = "timestamp is negative; give milliseconds from 0";
        assert_eq!(at("-5"), refused(negative));
        assert_eq!(at("-0.5"), refused(negative));
        assert_eq!(at("1e300"), refused("timestamp is too large"));
        assert_eq!(
            at("18446744073709551615"),
            refused("timestamp is too large")
        );
        let number = "timestamp must be a number of milliseconds";
        assert_eq!(at("\"5\""), refused(number));
    }

    #[test]
    fn either_all_have_a_stamp_or_none_but_for_later_turns() {
        let with = "{\"text\":\"a\",\"timestamp\":5}\n";
        let without = "{\"text\":\"a\"}\n";
        let said = "line 1 has a timestamp and line 3 has none; give all or none";
        let mixed = read(&format!("{with}\n{without}"));
        assert_eq!(mixed, Err(format!("t.jsonl:3: {said}")));
        let said = "line 2 has a timestamp and line 1 has none; give all or none";
        let mixed = read(&format!("{without}{with}"));
        assert_eq!(mixed, Err(format!("t.jsonl:2: {said}")));
        assert_eq!(read(&without.repeat(3)).unwrap().len(), 3);
        let turn = "{\"text\":\"a\",\"session_id\":\"s\",\"timestamp\":5}\n\
                    {\"text\":\"b\",\"session_id\":\"s\",\"delay\":7}\n";
        assert_eq!(read(&format!("{turn}{with}")).unwrap().len(), 3);
        let first = "{\"text\":\"b\",\"session_id\":\"x\",\"delay\":7}\n";
        assert!(read(&format!("{turn}{first}")).is_err());
    }

    #[test]
    fn what_a_line_lacks_or_has_twice_is_said_without_its_content() {
        for (line, said) in [
            ("{}", "neither input_length nor text_input"),
            ("{\"text\":null}", "neither"),
            ("{\"text\":\"\"}", "text must be a text that is not empty"),
            ("{\"text_input\":5}", "text_input must be a text"),
            ("{\"text\":\"a\",\"text_input\":\"b\"}", "more than one of"),
            ("{\"text_input\":\"a\",\"input_length\":3}", "more than one"),
            (
                "{\"input_length\":0}",
                "input_length must be a whole number",
            ),
            ("{\"input_length\":2.5}", "input_length must be"),
            ("{\"input_length\":4294967296}", "input_length must be"),
            ("{\"input_length\":3,\"output_length\":-1}", "output_length"),
            ("{\"input_length\":3,\"hash_ids\":[1,-2]}", "hash_ids must"),
            ("{\"input_length\":3,\"hash_ids\":\"1\"}", "hash_ids must"),
            ("{\"text\":\"a\",\"hash_ids\":[1]}", "hash_ids need"),
            ("{\"text\":\"a\",\"session_id\":[]}", "session_id must"),
            ("{\"text\":\"a\",\"delay\":-1}", "delay is negative"),
            ("{\"messages\":[]}", "`messages` is not read yet"),
        ] {
            let text = refusal(line);
            assert!(text.starts_with(said), "{line}: {text}");
        }
    }
}
