//! A body by a template of the user's (Jinja), and the place of the text in what comes back
//! (JMESPath): `--extra-inputs payload_template:FILE response_field:PATH`.

use super::kind::Kind;
use super::shapes::escaped;
use super::voice::{Line, Said, Voice, text_answer, text_event};
use super::{BodySpec, Part, guess, usage};
use crate::config::ByTemplate;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value as Any};
use serde_json::{Map, Value, json};

/// The one template of an environment.
const NAME: &str = "payload_template";

#[derive(Debug, Default)]
pub(super) struct Template {
    /// Its file, or what stands for one.
    name: String,
    environment: Environment<'static>,
    /// Where the answer's text is.
    pub field: Field,
}

/// Where an answer's text is: a path, or nothing, and then it is guessed.
#[derive(Debug, Default)]
pub(super) struct Field(Option<jmespath::Expression<'static>>);

impl Field {
    /// Errors: the path is none.
    pub fn new(path: Option<&str>) -> Result<Field, String> {
        let Some(path) = path else {
            return Ok(Field(None));
        };
        let compiled = jmespath::compile(path).map_err(|error| {
            let (reason, at) = (&error.reason, error.column + 1);
            format!(
                "--extra-inputs response_field: `{path}` is no JMESPath, at column {at}: {reason}"
            )
        })?;
        Ok(Field(Some(compiled)))
    }

    /// What stands at the place; without one, what looks like an answer.
    pub fn read(&self, value: &Value) -> Part<'static> {
        let Some(path) = &self.0 else {
            return guess::read(value);
        };
        // A path that does not fit the value matches nothing.
        let found = path.search(value).ok();
        let found = found.and_then(|found| serde_json::to_value(&*found).ok());
        let mut part = Part {
            usage: usage::read(value),
            ..Part::default()
        };
        match found.unwrap_or_default() {
            Value::Null | Value::Bool(_) => {}
            Value::String(text) => part.answer = escaped(&text),
            Value::Array(list) if list.iter().any(Value::is_string) => {
                let texts: String = list.iter().filter_map(Value::as_str).collect();
                part.answer = escaped(&texts);
            }
            Value::Array(list) => part.has_data = !list.is_empty(),
            Value::Object(members) => part.has_data = !members.is_empty(),
            Value::Number(_) => part.has_data = true,
        }
        part
    }

    /// What is said where nothing has matched.
    pub fn no_match(&self) -> Option<String> {
        let path = self.0.as_ref()?;
        Some(format!(
            "--extra-inputs response_field:{} matches nothing in the answer",
            path.as_str()
        ))
    }
}

impl Template {
    /// Errors: a template or a path that does not parse, named with its line.
    pub fn new(spec: &ByTemplate) -> Result<Template, String> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        let source = spec.source.clone();
        let added = environment.add_template_owned(NAME, source);
        added.map_err(|error| told(&spec.name, &error))?;
        Ok(Template {
            name: spec.name.clone(),
            environment,
            field: Field::new(spec.response_field.as_deref())?,
        })
    }

    /// The body's members. Errors: it cannot be rendered, or is no JSON object.
    fn render(&self, spec: &BodySpec<'_>) -> Result<Map<String, Value>, String> {
        let name = &self.name;
        let rendered = self
            .environment
            .get_template(NAME)
            .and_then(|template| template.render(variables(spec)))
            .map_err(|error| told(name, &error))?;
        let wrong = |text: String| format!("--extra-inputs payload_template: {name}: {text}");
        match serde_json::from_str(&rendered) {
            Ok(Value::Object(members)) => Ok(members),
            Ok(_) => Err(wrong("what it makes is no JSON object".into())),
            Err(error) => Err(wrong(format!(
                "what it makes is no JSON (write texts as {{{{ text|tojson }}}}): {error}"
            ))),
        }
    }
}

impl Kind for Template {
    fn path(&self, _streaming: bool, _model: &str) -> String {
        String::new()
    }

    fn members(&self, spec: &BodySpec<'_>) -> Map<String, Value> {
        // The first body was made before the run. What no other shows either goes out as what is
        // wrong: no server takes it for a request.
        self.render(spec).unwrap_or_else(|error| {
            let mut members = Map::new();
            members.insert("error".into(), error.into());
            members
        })
    }

    fn check(&self, spec: &BodySpec<'_>) -> Result<(), String> {
        self.render(spec).map(drop)
    }

    fn read(&self, value: &Value) -> Part<'static> {
        self.field.read(value)
    }

    fn no_content(&self) -> Option<String> {
        self.field.no_match()
    }

    fn event(&self, line: Line<'_>, voice: &Voice<'_>) -> Option<String> {
        text_event(line, voice)
    }

    fn answer(&self, voice: &Voice<'_>, said: &Said<'_>) -> String {
        text_answer(voice, said)
    }
}

/// What a template can use.
fn variables(spec: &BodySpec<'_>) -> Any {
    let content = spec.content;
    let audios: Vec<&str> = content.audios.iter().map(|one| &*one.data).collect();
    Any::from(Serde(json!({
        "text": spec.prompt(),
        "texts": content.texts,
        "query": content.query,
        "passages": content.texts,
        "image": content.images.first(),
        "images": content.images,
        "audio": audios.first(),
        "audios": audios,
        "video": content.videos.first(),
        "videos": content.videos,
        "model": spec.model,
        "max_tokens": spec.max_tokens,
        "stream": spec.streaming,
    })))
}

fn told(name: &str, error: &minijinja::Error) -> String {
    let line = error
        .line()
        .map_or(String::new(), |line| format!(":{line}"));
    let (kind, detail) = (error.kind(), error.detail().unwrap_or_default());
    format!("--extra-inputs payload_template: {name}{line}: {kind}: {detail}")
}
