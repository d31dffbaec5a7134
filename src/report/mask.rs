//! Secrets out of everything that is printed or written.

use serde_json::Value;

/// What stands in for a secret.
pub const REDACTED: &str = "<redacted>";
/// Shorter values would redact half of every text, and protect nothing.
const SECRET_CHARS_MIN: usize = 4;

/// Values that must never be printed, in every form in which a server might echo them.
#[derive(Clone, Default)]
pub struct Secrets(Vec<String>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// From plain values; those under four characters are left out.
    pub fn new(values: impl IntoIterator<Item = String>) -> Secrets {
        let mut forms = Vec::new();
        for value in values {
            if value.chars().count() < SECRET_CHARS_MIN {
                continue;
            }
            forms.push(url::form_urlencoded::byte_serialize(value.as_bytes()).collect());
            let (begin, whole) = base64(value.as_bytes());
            forms.extend([begin, whole]);
            forms.push(
                Value::from(value.as_str())
                    .to_string()
                    .trim_matches('"')
                    .to_owned(),
            );
            forms.push(value);
        }
        // The longest first: a secret may be the beginning of another.
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        Secrets(forms)
    }

    /// True when there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text with every secret replaced by [`REDACTED`].
    pub fn mask(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for secret in &self.0 {
            if out.contains(secret.as_str()) {
                out = out.replace(secret.as_str(), REDACTED);
            }
        }
        out
    }

    /// Masks every string inside a JSON value; keys stay.
    pub fn mask_value(&self, value: &mut Value) {
        if self.is_empty() {
            return;
        }
        match value {
            Value::String(text) => *text = self.mask(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_value(item)),
            Value::Object(map) => map.values_mut().for_each(|item| self.mask_value(item)),
            _ => {}
        }
    }
}

/// Base64 without padding: the part that stays when more follows, and the whole.
fn base64(bytes: &[u8]) -> (String, String) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    let (mut held, mut bits) = (0u32, 0u32);
    for byte in bytes {
        held = (held << 8 | u32::from(*byte)) & 0xffff;
        bits += 8;
        while bits >= 6 {
            bits -= 6;
            out.push(char::from(ALPHABET[(held >> bits & 63) as usize]));
        }
    }
    let mut whole = out.clone();
    if bits > 0 {
        whole.push(char::from(ALPHABET[((held << (6 - bits)) & 63) as usize]));
    }
    (out, whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_hidden_in_all_its_forms() {
        let secrets = Secrets::new(["sk-a b/c\"d".to_owned(), "abc".to_owned()]);
        for echo in [
            "key sk-a b/c\"d is bad",
            "key sk-a+b%2Fc%22d is bad",
            "key sk-a b/c\\\"d is bad",
            "key c2stYSBiL2MiZA is bad",
        ] {
            assert_eq!(secrets.mask(echo), "key <redacted> is bad", "{echo}");
        }
        assert_eq!(secrets.mask("abc stays"), "abc stays");
    }

    #[test]
    fn a_secret_that_begins_another_leaves_no_tail() {
        let secrets = Secrets::new(["token".to_owned(), "token-two".to_owned()]);
        assert_eq!(secrets.mask("token-two, token"), "<redacted>, <redacted>");
    }

    #[test]
    fn values_are_masked_at_every_depth_and_debug_shows_none() {
        let secrets = Secrets::new(["hunter22".to_owned()]);
        let mut value = serde_json::json!({"a": [{"b": "x hunter22"}], "n": 1});
        secrets.mask_value(&mut value);
        assert_eq!(
            value,
            serde_json::json!({"a": [{"b": "x <redacted>"}], "n": 1})
        );
        assert!(!format!("{secrets:?}").contains("hunter"));
    }
}
