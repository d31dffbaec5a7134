//! Settings from a YAML or TOML file: the flags' names with underscores as keys.

use super::Draft;
use std::path::Path;

/// Reads a file. Errors name the file, and the line where the parser knows it.
pub fn read(path: &Path) -> Result<Draft, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("--config {shown}: {error}; give a YAML or TOML file"))?;
    let toml = path
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("toml"));
    let parsed = match toml {
        true => toml::from_str(&text).map_err(|error| error.to_string()),
        false => serde_saphyr::from_str(&text).map_err(|error| error.to_string()),
    };
    parsed.map_err(|error| {
        format!("--config {shown}: {error}; keys are the flags' names with underscores")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, text: &str) -> Result<Draft, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn yaml_and_toml_say_the_same() {
        let yaml = of(
            "a.yaml",
            "model: m\nconcurrency: 4\nurl: [a, b]\nextra_inputs: {x: 1}\n",
        );
        let toml = of(
            "a.toml",
            "model = 'm'\nconcurrency = 4\nurl = ['a', 'b']\nextra_inputs = {x = 1}\n",
        );
        assert_eq!(yaml.unwrap(), toml.unwrap());
    }

    #[test]
    fn a_wrong_key_or_type_names_file_and_line() {
        let error = of("a.yaml", "model: m\nconcurency: 4\n").unwrap_err();
        assert!(
            error.contains("a.yaml") && error.contains("concurency"),
            "{error}"
        );
        let error = of("a.toml", "model = 'm'\nconcurrency = 'x'\n").unwrap_err();
        assert!(error.contains("line 2"), "{error}");
    }
}
