//! Bodies that are forms with files: `multipart/form-data` (RFC 7578).

use crate::workload::Audio;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// Parts a form. Files are noise, pictures and recordings: none has it by chance.
const BOUNDARY: &str = "----tokenring-5b1d9f0c7e2a4836";
/// Of a form's body.
pub(super) const CONTENT_TYPE: &str =
    "multipart/form-data; boundary=----tokenring-5b1d9f0c7e2a4836";

/// A file of a form.
pub(super) struct File {
    /// The field's name.
    name: &'static str,
    /// `png`, `jpeg`, `wav`.
    kind: String,
    /// `image` or `audio`.
    family: &'static str,
    bytes: Vec<u8>,
}

/// The image of a data URL; `None` for one that points elsewhere.
pub(super) fn image(name: &'static str, url: &str) -> Option<File> {
    let (kind, data) = url.strip_prefix("data:image/")?.split_once(";base64,")?;
    Some(File {
        name,
        kind: kind.to_string(),
        family: "image",
        bytes: STANDARD.decode(data).ok()?,
    })
}

/// A recording.
pub(super) fn audio(name: &'static str, audio: &Audio) -> Option<File> {
    Some(File {
        name,
        kind: audio.format.to_string(),
        family: "audio",
        bytes: STANDARD.decode(&audio.data).ok()?,
    })
}

/// The body of a form: its fields, texts as they are and other values as JSON, then its files.
pub(super) fn form(fields: &Map<String, Value>, files: impl Iterator<Item = File>) -> Vec<u8> {
    let mut out = Vec::new();
    let quoted = |name: &str| name.replace('"', "%22").replace(['\r', '\n'], " ");
    for (name, value) in fields {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{}\"\r\n\r\n",
            quoted(name)
        );
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    for (number, file) in files.enumerate() {
        let File {
            name, kind, family, ..
        } = &file;
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"; \
             filename=\"{family}-{number}.{kind}\"\r\nContent-Type: {family}/{kind}\r\n\r\n"
        );
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&file.bytes);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    out
}

/// One part of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormPart<'a> {
    /// The field's name.
    pub name: &'a str,
    /// Of a file.
    pub filename: Option<&'a str>,
    /// What it holds.
    pub bytes: &'a [u8],
}

/// The parts of a form's body, whoever wrote it; `None` for what is no whole form.
pub fn form_parts(body: &[u8]) -> Option<Vec<FormPart<'_>>> {
    let line_end = memchr::memmem::find(body, b"\r\n")?;
    let mark = &body[..line_end];
    if !mark.starts_with(b"--") || mark.len() < 3 {
        return None;
    }
    let between = [b"\r\n", mark].concat();
    let finder = memchr::memmem::Finder::new(&between);
    let (mut parts, mut rest) = (Vec::new(), &body[line_end..]);
    while let Some(part) = rest.strip_prefix(b"\r\n") {
        let end = finder.find(part)?;
        parts.push(form_part(&part[..end])?);
        rest = &part[end + between.len()..];
    }
    rest.starts_with(b"--").then_some(parts)
}

fn form_part(part: &[u8]) -> Option<FormPart<'_>> {
    let head_end = memchr::memmem::find(part, b"\r\n\r\n")?;
    let head = std::str::from_utf8(&part[..head_end]).ok()?;
    let quoted = |key: &str| {
        let (_, rest) = head.split_once(key)?;
        rest.split('"').next()
    };
    Some(FormPart {
        name: quoted(" name=\"")?,
        filename: quoted("filename=\""),
        bytes: &part[head_end + 4..],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_form_has_its_fields_then_its_files() {
        let fields = json!({"model": "m", "n": 1, "a\"b": "x"});
        let audio = Audio {
            format: "wav",
            data: STANDARD.encode(b"RIFF\0\xff"),
        };
        let url = format!("data:image/png;base64,{}", STANDARD.encode(b"\x89PNG"));
        let files = [super::audio("file", &audio), image("image", &url)];
        assert!(image("image", "http://host/x.png").is_none());
        let body = form(fields.as_object().unwrap(), files.into_iter().flatten());
        let line = format!("--{BOUNDARY}\r\n");
        let disposition = "Content-Disposition: form-data; name=";
        let expected = [
            format!("{line}{disposition}\"model\"\r\n\r\nm\r\n").as_bytes(),
            format!("{line}{disposition}\"n\"\r\n\r\n1\r\n").as_bytes(),
            format!("{line}{disposition}\"a%22b\"\r\n\r\nx\r\n").as_bytes(),
            format!("{line}{disposition}\"file\"; filename=\"audio-0.wav\"\r\n").as_bytes(),
            b"Content-Type: audio/wav\r\n\r\nRIFF\0\xff\r\n",
            format!("{line}{disposition}\"image\"; filename=\"image-1.png\"\r\n").as_bytes(),
            b"Content-Type: image/png\r\n\r\n\x89PNG\r\n",
            format!("--{BOUNDARY}--\r\n").as_bytes(),
        ]
        .concat();
        assert_eq!(body, expected);
        assert!(CONTENT_TYPE.ends_with(BOUNDARY));
        let parts = form_parts(&body).unwrap();
        let names: Vec<_> = parts
            .iter()
            .map(|part| (part.name, part.filename))
            .collect();
        let (sound, picture) = (Some("audio-0.wav"), Some("image-1.png"));
        let fields = [("model", None), ("n", None), ("a%22b", None)];
        assert_eq!(
            names,
            [&fields[..], &[("file", sound), ("image", picture)]].concat()
        );
        assert_eq!(
            (parts[0].bytes, parts[3].bytes),
            (&b"m"[..], &b"RIFF\0\xff"[..])
        );
        for end in 0..body.len() - 4 {
            assert_eq!(form_parts(&body[..end]), None, "{end}");
        }
    }
}
