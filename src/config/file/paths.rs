//! From the paths of a peer's file to flags, by a table.

use super::tree::{Fault, Node};
use serde_json::Value;

/// A setting that a file gives.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Given {
    /// Where it stands in the file, as `endpoint.urls`.
    pub path: String,
    pub line: u64,
    /// The flag that it is, without dashes.
    pub flag: String,
    pub value: Value,
    /// It is of a file of a peer.
    pub is_peer: bool,
}

/// In the place of a flag: this file asks for many runs.
pub(super) const ANALYZE: &str = "\u{0}analyze";
/// At the beginning of a flag: what follows is a note.
pub(super) const NOTE: &str = "\u{0}note ";

/// How a value is read.
#[derive(Clone, Copy)]
pub(super) enum As {
    /// As it is.
    It,
    /// As text, a number too.
    Text,
    /// A number of seconds, or `30s`, `5m`, `2h`.
    Seconds,
    /// Mean and standard deviation; a number alone is the mean.
    Normal(&'static str),
    /// False as the switch that takes it back.
    Not(&'static str),
}

/// What becomes of a path.
#[derive(Clone, Copy)]
pub(super) enum To {
    /// This flag; nothing when the value is the peer's own default, written as here.
    Flag(&'static str, As, Option<&'static str>),
    /// Nothing is to be said.
    Nothing,
    /// Taken, and said to change nothing, unless it is the peer's own default.
    Ignored(&'static str, Option<&'static str>),
    /// No counterpart: what to do instead; unless it is the peer's own default.
    Refused(&'static str, Option<&'static str>),
    /// Code knows it.
    Code(fn(&Node, &mut Out) -> Result<(), Fault>),
}

/// A path in the file, and what becomes of it.
pub(super) type Row = (&'static str, To);

/// What has been read of a file of a peer.
#[derive(Default)]
pub(super) struct Out {
    pub given: Vec<Given>,
    /// Where the reader stands.
    pub path: String,
}

impl Out {
    /// Gives a flag the value of a node.
    pub fn give(&mut self, node: &Node, flag: impl Into<String>, value: impl Into<Value>) {
        self.given.push(Given {
            path: self.path.clone(),
            line: node.line,
            flag: flag.into(),
            value: value.into(),
            is_peer: true,
        });
    }

    /// Says something of a node.
    pub fn note(&mut self, node: &Node, text: &str) {
        self.give(node, format!("{NOTE}{text}"), Value::Null);
    }

    /// An error at a node, with the path.
    pub fn fault(&self, node: &Node, text: &str) -> Fault {
        node.fault(format!("{}: {text}", self.path))
    }

    /// Reads a node below the path where the reader stands.
    pub fn below(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut Out) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let before = self.path.clone();
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
        let result = read(self);
        self.path = before;
        result
    }

    /// Reads a map by a table, whose paths begin at `path`; AIPerf's names may be in camel case.
    pub fn walk(&mut self, node: &Node, table: &[Row], path: &str) -> Result<(), Fault> {
        for (name, child) in node.members() {
            let name = snake(name);
            let path = match path {
                "" => name.clone(),
                path => format!("{path}.{name}"),
            };
            let row = table.iter().find(|(known, _)| *known == path);
            self.below(&name, |out| match row {
                _ if child.is_null() => Ok(()),
                Some((_, to)) => out.apply(child, *to),
                None if child.is_map() => out.walk(child, table, &path),
                None => Err(out.fault(child, "there is no such setting in a file of the peer")),
            })?;
        }
        Ok(())
    }

    fn apply(&mut self, node: &Node, to: To) -> Result<(), Fault> {
        let is_default = |default: Option<&str>| match (default, node.typed()) {
            (Some(default), Some(typed)) => same(default, &typed),
            // An empty list or map says as little.
            (_, None) => node.items().is_empty() || node.is_map() && node.members().is_empty(),
            (None, Some(_)) => false,
        };
        match to {
            To::Nothing => Ok(()),
            To::Flag(_, _, default) | To::Ignored(_, default) | To::Refused(_, default)
                if is_default(default) =>
            {
                Ok(())
            }
            To::Ignored(reason, _) => {
                self.note(node, &format!("it changes nothing: {reason}"));
                Ok(())
            }
            To::Refused(reason, _) => Err(self.fault(node, reason)),
            To::Code(code) => code(node, self),
            To::Flag(flag, how, _) => self.give_as(node, flag, how),
        }
    }

    /// Gives a flag the value of a node, read so.
    pub fn give_as(&mut self, node: &Node, flag: &str, how: As) -> Result<(), Fault> {
        match how {
            As::It => self.give(node, flag, node.to_value()),
            As::Text => {
                let value = node.typed().map_or_else(|| node.to_value(), Value::from);
                self.give(node, flag, value);
            }
            As::Seconds => {
                let seconds = self.seconds(node)?;
                self.give(node, flag, seconds);
            }
            As::Normal(stddev) => self.normal(node, flag, stddev)?,
            As::Not(opposite) => match node.as_bool() {
                Some(true) => self.give(node, flag, true),
                Some(false) => self.give(node, opposite, true),
                None => return Err(self.fault(node, "give true or false")),
            },
        }
        Ok(())
    }

    /// A duration.
    pub fn seconds(&self, node: &Node) -> Result<f64, Fault> {
        let text = node.typed().unwrap_or_default().to_ascii_lowercase();
        let text = text.trim();
        let at = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(at);
        let factor = match unit.trim() {
            "" | "s" | "sec" => Some(1.0),
            "m" | "min" => Some(60.0),
            "h" | "hr" | "hour" => Some(3_600.0),
            _ => None,
        };
        match (number.parse::<f64>(), factor) {
            (Ok(number), Some(factor)) => Ok(number * factor),
            _ => Err(self.fault(node, "give seconds, or a duration as 30s, 5m or 2h")),
        }
    }

    fn normal(&mut self, node: &Node, mean: &str, stddev: &str) -> Result<(), Fault> {
        if !node.is_map() {
            return self.give_as(node, mean, As::It);
        }
        let other = node.members().iter().find(|(key, node)| {
            let is_known = match key.as_str() {
                "mean" | "stddev" | "value" => true,
                "type" => matches!(node.as_str(), Some("normal" | "fixed")),
                _ => false,
            };
            !is_known && !node.is_null()
        });
        if let Some((_, node)) = other {
            let text = "lengths are normal: give mean and stddev, or a file by --input-file";
            return Err(self.fault(node, text));
        }
        if let Some(node) = node.get("mean").or(node.get("value")) {
            self.give(node, mean, node.to_value());
        }
        if let Some(node) = node.get("stddev").filter(|node| node.as_f64() != Some(0.0)) {
            self.give(node, stddev, node.to_value());
        }
        Ok(())
    }
}

/// Two spellings of a value.
fn same(a: &str, b: &str) -> bool {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => a.to_bits() == b.to_bits(),
        _ => a.eq_ignore_ascii_case(b),
    }
}

/// `rateRamp` as `rate_ramp`.
pub(super) fn snake(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
