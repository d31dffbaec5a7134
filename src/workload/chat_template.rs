//! A model's chat template: the text that a server makes of messages, to count its tokens.

use super::hub::TEMPLATE_FILES;
use crate::base::limits;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The name under which the one template is kept.
const NAME: &str = "chat_template";

/// Renders messages.
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// `bos_token` and its like.
    tokens: Map<String, Value>,
}

impl ChatTemplate {
    /// From `chat_template.jinja` or `tokenizer_config.json` in a folder. Errors say what is wrong
    /// with which file, or that there is neither.
    pub fn load(folder: &Path) -> Result<ChatTemplate, String> {
        let [own, config] = TEMPLATE_FILES.map(|name| folder.join(name));
        let settings: Value = match read(&config)? {
            None => Value::Null,
            Some(text) => serde_json::from_str(&text)
                .map_err(|error| format!("{}: {error}", config.display()))?,
        };
        let (file, text) = match read(&own)? {
            Some(text) => (own, text),
            None => {
                let text = of_settings(&settings["chat_template"]);
                let none = || format!("no chat template in {}", folder.display());
                (config, text.ok_or_else(none)?)
            }
        };
        let template = ChatTemplate::new(text, &settings);
        template.map_err(|error| format!("{}: {error}", file.display()))
    }

    /// From a template's text; `settings` are those of `tokenizer_config.json`.
    fn new(text: String, settings: &Value) -> Result<ChatTemplate, String> {
        let mut environment = Environment::new();
        let mut syntax = SyntaxConfig::builder();
        let syntax = syntax.trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| error.to_string())?);
        environment.set_fuel(Some(limits::TEMPLATE_STEPS_MAX));
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |text: String| -> Result<String, _> {
            Err(Error::new(ErrorKind::InvalidOperation, text))
        });
        environment.add_function("strftime_now", strftime_now);
        let added = environment.add_template_owned(NAME, without_generation(&text));
        added.map_err(|error| format!("the chat template cannot be read: {error}"))?;
        let template = ChatTemplate {
            environment,
            tokens: tokens(settings),
        };
        template.render(&[("user", "x")])?;
        Ok(template)
    }

    /// The text of messages (role, content), ready for the answer. Errors: the template refuses.
    pub fn render(&self, messages: &[(&str, &str)]) -> Result<String, String> {
        let message = |(role, content): &(&str, &str)| json!({"role": role, "content": content});
        let messages: Vec<Value> = messages.iter().map(message).collect();
        let mut told = self.tokens.clone();
        told.insert("messages".into(), messages.into());
        told.insert("add_generation_prompt".into(), true.into());
        let template = self.environment.get_template(NAME);
        let rendered = template.and_then(|template| template.render(Serde(told)));
        rendered.map_err(|error| format!("the chat template refuses: {error}"))
    }
}

/// The time of day in UTC, as Python's `strftime` has it.
fn strftime_now(format: String) -> Result<String, Error> {
    let now = jiff::tz::Offset::UTC.to_datetime(jiff::Timestamp::now());
    let mut text = String::new();
    // Its own `to_string` panics at a format that it does not know.
    let written = write!(text, "{}", now.strftime(&format));
    let odd = |_| Error::new(ErrorKind::InvalidOperation, format!("strftime `{format}`"));
    written.map(|()| text).map_err(odd)
}

/// The text of a file that may be missing.
fn read(path: &Path) -> Result<Option<String>, String> {
    let wrong = |reason: String| format!("{}: {reason}", path.display());
    let Ok(found) = fs::metadata(path) else {
        return Ok(None);
    };
    if found.len() > limits::TEMPLATE_BYTES_MAX {
        return Err(wrong(format!("{} bytes are no chat template", found.len())));
    }
    fs::read_to_string(path)
        .map(Some)
        .map_err(|error| wrong(error.to_string()))
}

/// One template, or the default one of several.
fn of_settings(value: &Value) -> Option<String> {
    let named = |name: &str| {
        let all = value.as_array()?;
        let own = all.iter().find(|one| one["name"] == name)?;
        own["template"].as_str()
    };
    value
        .as_str()
        .or_else(|| named("default"))
        .map(String::from)
}

/// Special tokens that templates name: as text, or as an object with their content.
fn tokens(settings: &Value) -> Map<String, Value> {
    let all = settings.as_object().into_iter().flatten();
    let all = all.filter(|(name, _)| name.ends_with("_token"));
    all.filter_map(|(name, value)| {
        let text = value.as_str().or_else(|| value["content"].as_str())?;
        Some((name.clone(), text.into()))
    })
    .collect()
}

/// The tags that mark for training what an assistant says change no text: they become conditions
/// that always hold, which keeps their marks for white space.
fn without_generation(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("{%") {
        let end = rest[at..].find("%}").map_or(rest.len(), |end| at + end);
        out.push_str(&rest[..at]);
        let tag = &rest[at..end];
        let word = tag.trim_matches(|c: char| "{%-+".contains(c) || c.is_whitespace());
        match word {
            "generation" => out.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endif")),
            _ => out.push_str(tag),
        }
        rest = &rest[end..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHATML: &str = "{% for message in messages %}\n    {{- bos_token ~ '<|im_start|>' + \
        message['role'] + '\\n' + message.content.strip() + '<|im_end|>' }}\n{% endfor %}\n\
        {% if add_generation_prompt %}{{ '<|im_start|>assistant' }}{% endif %}";

    #[test]
    fn messages_are_rendered_as_transformers_does() {
        let settings = json!({"bos_token": {"content": "<s>"}, "model_max_length": 1e30});
        let template = ChatTemplate::new(CHATML.into(), &settings).unwrap();
        assert_eq!(
            template
                .render(&[("user", " hi "), ("assistant", "yes")])
                .unwrap(),
            "<s><|im_start|>user\nhi<|im_end|>\n<s><|im_start|>assistant\nyes<|im_end|>\n\
             <|im_start|>assistant"
        );
    }

    #[test]
    fn what_marks_an_answer_for_training_is_no_text() {
        let text = "a\n{%- generation -%}\n b {%- endgeneration %}c{{ '{%' }}";
        let template = ChatTemplate::new(text.into(), &Value::Null).unwrap();
        assert_eq!(template.render(&[]).unwrap(), "abc{%");
    }

    #[test]
    fn a_template_that_refuses_or_does_not_end_is_named() {
        let error = |text: &str| ChatTemplate::new(text.into(), &Value::Null).err().unwrap();
        assert!(error("{{ raise_exception('only tools') }}").contains("only tools"));
        assert!(error("{% if %}").contains("cannot be read"));
        let endless =
            "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}";
        assert!(error(endless).contains("fuel"), "{}", error(endless));
    }

    #[test]
    fn the_template_of_its_own_file_wins_and_the_default_one_of_many() {
        let dir = tempfile::tempdir().unwrap();
        let render = || {
            let template = ChatTemplate::load(dir.path())?;
            template.render(&[("user", "hi")])
        };
        assert!(render().unwrap_err().contains("no chat template"));
        let many =
            json!([{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]);
        let config = dir.path().join("tokenizer_config.json");
        fs::write(&config, json!({"chat_template": many}).to_string()).unwrap();
        assert_eq!(render().unwrap(), "d");
        fs::write(dir.path().join("chat_template.jinja"), "own").unwrap();
        assert_eq!(render().unwrap(), "own");
        fs::write(&config, "{").unwrap();
        assert!(render().unwrap_err().contains("tokenizer_config.json"));
    }
}
