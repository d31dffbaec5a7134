//! `--dry-run`: the plan, one exact request, and its curl line.

use super::{ends, route, setup};
use crate::base::REDACTED;
use crate::config::{Config, Level, Load, PhaseSpec, Ramp, hide_header, hide_members, hide_target};
use crate::endpoint::{FormPart, form_parts};
use crate::engine::{Request, Target};
use crate::stats::metric;
use serde_json::json;
use std::borrow::Cow;
use std::fmt::Write;

/// The plan as text, secrets hidden in their places; those that can be looked for are for the
/// caller to mask.
pub fn describe(config: &Config, target: &Target, request: &Request, cores: &[usize]) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{name:<16} {value}");
    };
    let phases = config.phases.len();
    for phase in &config.phases {
        let name = match phase.measured {
            true if phases <= 2 => "load",
            _ => &phase.name,
        };
        line(name, load(&phase.load));
        let is_default = phase.measured && config.request_count_defaulted;
        line("  until", end(phase, is_default));
    }
    if config.warmups().next().is_none() {
        line("warm-up", "none".into());
    }
    if let Some(windows) = config.stable_windows {
        let (length, within) = (windows.length.as_secs(), 100.0 * windows.tolerance);
        line(
            "windows",
            format!("of {length} s, until three agree within {within:.0} %"),
        );
    }
    line("seed", config.seed.to_string());
    line("limits", ends::told(config));
    if let Some(text) = ends::cancelled(config) {
        line("cancelled", text);
    }
    if let Some(reset) = &config.reset_kv_cache {
        line("before", format!("POST {}", reset.path));
    }
    if let Some(asked) = &config.server_profiler {
        let (start, stop) = (&asked.start, &asked.stop);
        line(
            "profiler",
            format!("POST {start} and {stop} around the measurement"),
        );
    }
    line("cores", format!("{cores:?}"));
    for (n, url) in config.urls.iter().enumerate() {
        let name = match (n, config.urls.len()) {
            (0, 1) => "target",
            (0, _) => "targets",
            _ => "",
        };
        line(name, url.origin_shown());
    }
    if let Some(text) = route::describe(config) {
        line("connections", text);
    }
    for (n, slo) in config.goodput.iter().enumerate() {
        let unit = metric::find(&slo.tag).map_or("", |metric| metric.unit);
        let name = if n == 0 { "goodput" } else { "" };
        line(name, format!("{} {} {unit}", slo.tag, slo.limit));
    }
    let body = shown_body(&request.body, hides_inputs(config));
    let preview = target.template.preview(0, &request.body);
    let head = shown_head(preview.split("\r\n\r\n").next().unwrap_or_default());
    let _ = writeln!(
        text,
        "\n{head}\n\n{body}\n\n{}\n",
        curl(config, &head, &given(&request.body, &body))
    );
    text
}

/// A request's head, a line per header, without what is secret.
fn shown_head(head: &str) -> String {
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let mut parts = first.splitn(3, ' ').map(String::from).collect::<Vec<_>>();
    if let Some(path) = parts.get_mut(1) {
        *path = hide_target(path, &mut Vec::new());
    }
    let headers = lines.map(|line| match line.split_once(": ") {
        Some((name, "")) => format!("{name}: "),
        Some((name, value)) => {
            format!("{name}: {}", hide_header(name, value, &mut Vec::new()))
        }
        None => line.to_string(),
    });
    let all: Vec<String> = std::iter::once(parts.join(" ")).chain(headers).collect();
    all.join("\n")
}

/// True when extra inputs hold a secret in a place of its own.
pub fn hides_inputs(config: &Config) -> bool {
    config.extra_inputs != config.extra_inputs_shown()
}

/// A body as it may be shown: without the secrets of its extra inputs, where it has some.
pub fn shown_body(body: &[u8], hides: bool) -> Cow<'_, str> {
    if let Some(parts) = form_parts(body) {
        return shown_form(&parts, hides).into();
    }
    let parsed = hides.then(|| serde_json::from_slice(body).ok());
    match parsed.flatten() {
        Some(mut value) => {
            hide_members(&mut value, &mut Vec::new());
            value.to_string().into()
        }
        None => String::from_utf8_lossy(body),
    }
}

/// A form as JSON: its fields, and of each file the name and the length.
fn shown_form(parts: &[FormPart<'_>], hides: bool) -> String {
    let mut fields = serde_json::Map::new();
    let mut files = Vec::new();
    for part in parts {
        match part.filename {
            Some(filename) => files.push(json!({
                "name": part.name, "filename": filename, "bytes": part.bytes.len(),
            })),
            None => {
                let text = String::from_utf8_lossy(part.bytes);
                fields.insert(part.name.into(), text.into());
            }
        }
    }
    let mut fields = fields.into();
    if hides {
        hide_members(&mut fields, &mut Vec::new());
    }
    fields["files"] = files.into();
    fields.to_string()
}

/// A load in words.
fn load(load: &Load) -> String {
    let mut text = match &load.rate {
        None if load.scheduled => "the times of the trace".to_string(),
        None => "closed loop".to_string(),
        Some(rate) if !rate.series.is_empty() => {
            format!(
                "a rate of {} points, {}",
                rate.series.len(),
                rate.pattern.name()
            )
        }
        Some(rate) if load.users.is_some() => {
            let users = load.users.unwrap_or(0);
            let gap = f64::from(users) / rate.per_s;
            format!(
                "{users} users, {} turns/s: one of each every {gap:.3} s",
                rate.per_s
            )
        }
        Some(rate) if rate.per_s.is_infinite() => "all at once".to_string(),
        Some(rate) => {
            let ramp = ramp(rate.ramp);
            format!("{} requests/s{ramp}, {}", rate.per_s, rate.pattern.name())
        }
    };
    let mut level = |level: Option<Level>, what: &str| {
        if let Some(Level { most, ramp: up }) = level {
            text.push_str(&format!(", at most {most} {what}{}", ramp(up)));
        }
    };
    level(load.concurrency, "in flight");
    level(load.prefill, "without a first token");
    level(load.per_url.map(Level::flat), "in flight towards each url");
    text
}

fn ramp(ramp: Option<Ramp>) -> String {
    ramp.map_or(String::new(), |ramp| {
        let kind = format!("{:?}", ramp.kind).to_lowercase();
        format!(" ({kind} ramp over {} s)", ramp.over.as_secs())
    })
}

/// What ends a phase, in words.
fn end(phase: &PhaseSpec, is_default: bool) -> String {
    let count = |count: Option<u64>, what: &str| count.map(|n| format!("{n} {what}"));
    let seconds = phase.duration.map(|span| format!("{} s", span.as_secs()));
    let ends = [
        count(phase.requests, "requests"),
        count(phase.sessions, "sessions"),
        seconds,
    ];
    let ends: Vec<String> = ends.into_iter().flatten().collect();
    let said = if is_default { " (default)" } else { "" };
    format!("{}{said}", ends.join(" or "))
}

fn curl(config: &Config, head: &str, given: &[(&str, String)]) -> String {
    let is_form = given.iter().any(|(flag, _)| *flag == "-F");
    let url = config.urls.first();
    let origin = url.map_or(String::new(), |url| {
        format!(
            "{}://{}",
            if url.tls { "https" } else { "http" },
            url.authority()
        )
    });
    let path = head.split(' ').nth(1).unwrap_or("/");
    let quote = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    // A proxy is asked with the whole url; curl does that by itself.
    let path = path.strip_prefix(&origin).unwrap_or(path);
    let mut line = format!("curl -N {}", quote(&format!("{origin}{path}")));
    if let Some(proxy) = url.and_then(|url| config.connections.proxy_for(url)) {
        let _ = write!(line, " -x {}", proxy.origin());
        if proxy.credentials.is_some() {
            let _ = write!(line, " -U {}", quote(REDACTED));
        }
    }
    let id = head
        .lines()
        .find_map(|line| line.strip_prefix("X-Request-ID: "));
    let id = id.map(|id| ("X-Request-ID".to_string(), id.to_string()));
    for (name, value) in setup::headers(config).into_iter().chain(id) {
        // curl parts a form by a mark of its own.
        if is_form && name == "Content-Type" {
            continue;
        }
        let value = hide_header(&name, &value, &mut Vec::new());
        let _ = write!(line, " -H {}", quote(&format!("{name}: {value}")));
    }
    for (flag, value) in given {
        let _ = write!(line, " {flag} {}", quote(value));
    }
    line
}

/// A body as curl takes it: `shown`, or the fields of a form and the files that it is to have.
fn given(body: &[u8], shown: &str) -> Vec<(&'static str, String)> {
    let Some(parts) = form_parts(body) else {
        return vec![("-d", shown.to_string())];
    };
    let part = |part: &FormPart<'_>| match part.filename {
        Some(filename) => ("-F", format!("{}=@{filename}", part.name)),
        None => (
            "--form-string",
            format!("{}={}", part.name, String::from_utf8_lossy(part.bytes)),
        ),
    };
    parts.iter().map(part).collect()
}
