//! What is written and shown.

use super::{ConfigError, filled, no};
use crate::config::draft::{Draft, Many};
use crate::config::{ArtifactFormat, Config, ExportLevel, Slo, Ui};

impl Draft {
    pub(super) fn output(&self, config: &mut Config) -> Result<(), ConfigError> {
        config.goodput = goodput(self.goodput.as_ref())?;
        config.asserts = self.assert.as_ref().map(Many::list).unwrap_or_default();
        config.artifact_dir = filled("artifact-dir", self.artifact_dir.as_ref())?.map(Into::into);
        config.export_prefix = prefix(self)?;
        config.export_level = export_level(self)?;
        config.artifact_format = artifact_format(self)?;
        config.generate_plots = self.generate_plots.unwrap_or(false);
        if config.generate_plots && config.export_level < ExportLevel::Records {
            let text = "plots are drawn from the records: leave --export-level summary out";
            return no("generate-plots", text);
        }
        config.overwrite = self.overwrite.unwrap_or(false);
        config.ui = ui(self)?;
        config.verbose = self.verbose.unwrap_or(false);
        config.dry_run = self.dry_run.unwrap_or(false);
        config.allow_invalid = self.allow_invalid.unwrap_or(false);
        Ok(())
    }
}

fn goodput(given: Option<&Many>) -> Result<Vec<Slo>, ConfigError> {
    let texts = given.map(Many::list).unwrap_or_default();
    let parts = texts.iter().flat_map(|text| text.split_whitespace());
    let parse = |part: &str| {
        let pair = part
            .split_once(':')
            .and_then(|(tag, limit)| Some((tag, limit.parse().ok()?)));
        match pair {
            Some((tag, limit)) if limit > 0.0 && f64::is_finite(limit) => Ok(Slo {
                tag: tag.to_string(),
                limit,
            }),
            _ => no(
                "goodput",
                format!("`{part}` has not the form tag:limit, limit above 0"),
            ),
        }
    };
    parts.map(parse).collect()
}

fn prefix(draft: &Draft) -> Result<Option<String>, ConfigError> {
    match draft.profile_export_prefix.as_deref() {
        Some(text) if text.contains('/') || text.is_empty() => no(
            "profile-export-prefix",
            "a file name without folder; --artifact-dir has the folder",
        ),
        // Both peers take a file name too; its ending is ours to choose.
        Some(text) => Ok(Some(text.trim_end_matches(".json").to_string())),
        None => Ok(None),
    }
}

fn export_level(draft: &Draft) -> Result<ExportLevel, ConfigError> {
    match draft.export_level.as_deref() {
        None | Some("records") => Ok(ExportLevel::Records),
        Some("summary") => Ok(ExportLevel::Summary),
        Some("raw") => Ok(ExportLevel::Raw),
        Some(other) => no(
            "export-level",
            format!("`{other}`; give summary, records or raw"),
        ),
    }
}

fn artifact_format(draft: &Draft) -> Result<ArtifactFormat, ConfigError> {
    match draft.artifact_format.as_deref() {
        None | Some("aiperf") => Ok(ArtifactFormat::Aiperf),
        Some("genai-perf") if draft.export_level.as_deref() == Some("summary") => no(
            "artifact-format",
            "genai-perf has files of every request, --export-level summary none; leave one out",
        ),
        Some("genai-perf") => Ok(ArtifactFormat::GenaiPerf),
        Some(other) => no(
            "artifact-format",
            format!("`{other}`; give aiperf or genai-perf"),
        ),
    }
}

fn ui(draft: &Draft) -> Result<Ui, ConfigError> {
    match draft.ui.as_deref() {
        None => Ok(Ui::Auto),
        Some("simple" | "dashboard") => Ok(Ui::Simple),
        Some("none") => Ok(Ui::None),
        Some(other) => no("ui", format!("`{other}`; give simple or none")),
    }
}
