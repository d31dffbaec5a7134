//! The name of a run's folder, as both peers make it.

use crate::base::printable;
use crate::config::{Config, Load};
use sha2::{Digest, Sha256};

/// Bytes of a model's name in a folder's: the rest of the name, and what a moved folder gets, must
/// stay below the 255 of a file system.
const MODEL_BYTES_MAX: usize = 120;

/// `<model>-<service>-<endpoint>-<stimulus>`, with `/` in the model as `_`.
pub fn run_name(config: &Config) -> String {
    let model = model_name(config.model.as_deref().unwrap_or("model"));
    let service = config.api.tag();
    let end = config.place.as_ref().map(|(_, end)| end.clone());
    let end = end.unwrap_or_else(|| stimulus(config.load()));
    format!("{model}-{service}-{end}")
}

/// A model's name as part of a file name: a server may call its models as it likes.
fn model_name(model: &str) -> String {
    let shown = printable(model);
    let is_fit = |c: char| c != '/' && c != '\\' && c != '\n';
    let name: String = shown
        .chars()
        .map(|c| if is_fit(c) { c } else { '_' })
        .collect();
    // A folder that begins with a dot is not seen.
    let name = match name.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None => name,
    };
    if name.len() <= MODEL_BYTES_MAX {
        return name;
    }
    // Two names that begin alike must not share a folder.
    let digest = Sha256::digest(model.as_bytes());
    let tail: String = digest
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let end = name.floor_char_boundary(MODEL_BYTES_MAX - tail.len() - 1);
    format!("{}-{tail}", &name[..end])
}

fn stimulus(load: &Load) -> String {
    let slots = load
        .concurrency
        .map(|level| format!("concurrency{}", level.most));
    // Python writes a whole float with its `.0`.
    let rate = load
        .rate_per_s()
        .map(|rate| format!("request_rate{rate:?}"));
    let parts: Vec<String> = slots.into_iter().chain(rate).collect();
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Pattern;

    #[test]
    fn a_stimulus_reads_as_the_peers_write_it() {
        assert_eq!(stimulus(&Load::closed(16)), "concurrency16");
        let open = |cap| stimulus(&Load::open(Pattern::Poisson, 5.0, cap));
        assert_eq!(open(None), "request_rate5.0");
        assert_eq!(open(Some(8)), "concurrency8-request_rate5.0");
    }

    #[test]
    fn a_model_s_name_cannot_leave_its_folder_nor_steer_a_terminal() {
        assert_eq!(model_name("meta-llama/Llama-3.1"), "meta-llama_Llama-3.1");
        assert_eq!(model_name("../../x"), "_._.._x");
        assert_eq!(model_name("a\0b\x1b[31m\nc\\d"), "a_x00b_x1b[31m_c_d");
        let long = "é".repeat(50_000);
        let (one, two) = (model_name(&long), model_name(&format!("{long}x")));
        assert!(one.len() <= MODEL_BYTES_MAX && one != two, "{one}");
    }
}
