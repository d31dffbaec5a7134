//! A file of settings as a tree that knows the line of each value.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;
use std::fmt;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Counted from 1; 0 where it is not known.
    pub line: u64,
    pub value: Tree,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    Leaf(Value),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// Where a file is wrong, and what to do. The text holds no value of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub line: u64,
    pub text: String,
}

impl Node {
    /// The member of a map under this name; null is as good as absent.
    pub fn get(&self, name: &str) -> Option<&Node> {
        let (_, node) = self.members().iter().find(|(key, _)| key == name)?;
        (!node.is_null()).then_some(node)
    }

    /// The members of a map; of anything else there are none.
    pub fn members(&self) -> &[(String, Node)] {
        match &self.value {
            Tree::Map(members) => members,
            _ => &[],
        }
    }

    /// The items of a list; anything else is a list of one.
    pub fn items(&self) -> &[Node] {
        match &self.value {
            Tree::List(items) => items,
            _ => std::slice::from_ref(self),
        }
    }

    pub fn is_map(&self) -> bool {
        matches!(self.value, Tree::Map(_))
    }

    pub fn is_null(&self) -> bool {
        matches!(self.value, Tree::Leaf(Value::Null))
    }

    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Tree::Leaf(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    pub fn as_f64(&self) -> Option<f64> {
        match &self.value {
            Tree::Leaf(Value::Number(number)) => number.as_f64(),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match &self.value {
            Tree::Leaf(Value::Bool(is)) => Some(*is),
            _ => None,
        }
    }

    /// A leaf as it would be typed as a flag's value; `None` for anything else.
    pub fn typed(&self) -> Option<String> {
        match &self.value {
            Tree::Leaf(Value::String(text)) => Some(text.clone()),
            Tree::Leaf(leaf @ (Value::Number(_) | Value::Bool(_))) => Some(leaf.to_string()),
            _ => None,
        }
    }

    /// Without lines.
    pub fn to_value(&self) -> Value {
        match &self.value {
            Tree::Leaf(value) => value.clone(),
            Tree::List(items) => items.iter().map(Node::to_value).collect(),
            Tree::Map(members) => {
                let members = members
                    .iter()
                    .map(|(key, node)| (key.clone(), node.to_value()));
                Value::Object(members.collect())
            }
        }
    }

    pub fn fault(&self, text: impl Into<String>) -> Fault {
        Fault {
            line: self.line,
            text: text.into(),
        }
    }

    /// `${NAME}` and `${NAME:default}` give way to the environment, as `variable` knows it. A text
    /// that is nothing else becomes the number or truth value that it spells.
    pub fn fill_in(&mut self, variable: &dyn Fn(&str) -> Option<String>) -> Result<(), Fault> {
        match &mut self.value {
            Tree::Leaf(Value::String(text)) if text.contains("${") => {
                let filled = filled_in(text, variable);
                match filled {
                    Ok(value) => self.value = Tree::Leaf(value),
                    Err(text) => return Err(self.fault(text)),
                }
            }
            Tree::Leaf(_) => {}
            Tree::List(items) => items
                .iter_mut()
                .try_for_each(|node| node.fill_in(variable))?,
            Tree::Map(members) => {
                members
                    .iter_mut()
                    .try_for_each(|(_, node)| node.fill_in(variable))?;
            }
        }
        Ok(())
    }
}

fn filled_in(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Value, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let (inner, tail) = after.split_once('}').ok_or("`${` has no `}`: close it")?;
        let (name, default) = match inner.split_once(':') {
            Some((name, default)) => (name, Some(default.to_string())),
            None => (inner, None),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err("`${...}` takes a variable of the environment: `${NAME:default}`".into());
        }
        let value = variable(name).or(default).ok_or_else(|| {
            format!("`${{{name}}}` is not set: export it, or write `${{{name}:default}}`")
        })?;
        out.push_str(before);
        out.push_str(&value);
        rest = tail;
    }
    let is_whole = text.starts_with("${") && text.find('}') == Some(text.len() - 1);
    out.push_str(rest);
    Ok(if is_whole { spelled(&out) } else { out.into() })
}

/// The number or truth value that a text spells, or the text.
fn spelled(text: &str) -> Value {
    match text {
        "true" | "True" => true.into(),
        "false" | "False" => false.into(),
        _ => match text.parse::<i64>() {
            Ok(number) => number.into(),
            Err(_) => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => number.into(),
                _ => text.into(),
            },
        },
    }
}

impl From<Value> for Tree {
    fn from(value: Value) -> Tree {
        let node = |value| Node {
            line: 0,
            value: Tree::from(value),
        };
        match value {
            Value::Array(items) => Tree::List(items.into_iter().map(node).collect()),
            Value::Object(members) => Tree::Map(
                members
                    .into_iter()
                    .map(|(key, value)| (key, node(value)))
                    .collect(),
            ),
            leaf => Tree::Leaf(leaf),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Node, D::Error> {
        let spanned = Spanned::<Tree>::deserialize(from)?;
        let line = spanned.referenced.line();
        Ok(Node {
            line,
            value: spanned.value,
        })
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Tree, D::Error> {
        from.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a setting")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        // An endless rate is a word; what is no number at all is as good as absent.
        let leaf = match Number::from_f64(value) {
            Some(number) => number.into(),
            None if value == f64::INFINITY => "inf".into(),
            None => Value::Null,
        };
        Ok(Tree::Leaf(leaf))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Tree, D::Error> {
        from.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut members = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let mut node: Node = map.next_value()?;
            // Where a map begins under its key, that is what a person looks for.
            if key.referenced.line() > 0 {
                node.line = key.referenced.line();
            }
            members.push((key.value, node));
        }
        Ok(Tree::Map(members))
    }
}

/// A tree of what has no lines.
pub(super) fn without_lines(members: Map<String, Value>) -> Node {
    Node {
        line: 0,
        value: Value::Object(members).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(text: &str) -> Node {
        serde_saphyr::from_str(text).unwrap()
    }

    #[test]
    fn every_value_knows_its_line() {
        let tree = node("a: 1\nb:\n  c: [x, z]\n\n  d:\n    e: null\n");
        let b = tree.get("b").unwrap();
        assert_eq!((tree.get("a").unwrap().line, b.line), (1, 2));
        assert_eq!(b.get("c").unwrap().line, 3);
        assert_eq!(b.members()[1].1.line, 5);
        assert_eq!(
            tree.to_value(),
            json!({"a": 1, "b": {"c": ["x", "z"], "d": {"e": null}}})
        );
    }

    #[test]
    fn the_environment_is_filled_in_and_spells_numbers() {
        let variable = |name: &str| (name == "SET").then(|| "7".to_string());
        let filled = |text: &str| {
            let mut tree = node(text);
            tree.fill_in(&variable)
                .map(|()| tree.to_value())
                .map_err(|fault| fault.text)
        };
        assert_eq!(
            filled("a: ${SET}\nb: x${SET}y\nc: ['${NOT:2.5}']").unwrap(),
            json!({
                "a": 7, "b": "x7y", "c": [2.5]
            })
        );
        assert_eq!(
            filled("a: ${NOT:http://h:8000/v1}").unwrap(),
            json!({"a": "http://h:8000/v1"})
        );
        assert_eq!(filled("a: ${NOT:}").unwrap(), json!({"a": ""}));
        assert!(
            filled("a: ${NOT}")
                .unwrap_err()
                .contains("`${NOT}` is not set")
        );
        assert!(filled("a: ${SET").unwrap_err().contains("no `}`"));
        assert!(filled("a: ${1 + 2}").unwrap_err().contains("a variable"));
    }
}
