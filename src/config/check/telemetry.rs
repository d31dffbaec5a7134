//! GPUs, the servers' own metrics, time slices.

use super::{ConfigError, filled, no, seconds};
use crate::base::Ns;
use crate::base::limits::SLICES_MAX;
use crate::config::draft::{Draft, Many};
use crate::config::{
    Config, GpuSource, GpuTelemetry, MetricsFormat, ServerMetrics, Url, parse_url,
};
use std::path::PathBuf;

impl Draft {
    pub(super) fn telemetry(&self, config: &mut Config) -> Result<(), ConfigError> {
        config.gpu_telemetry = self.gpus()?;
        config.server_metrics = self.server_metrics()?;
        config.slice_duration = match self.slice_duration {
            None => None,
            some => Some(seconds("slice-duration", some, 0.0, false)?),
        };
        // By a count of requests nobody knows before how long the run takes.
        let whole = config.main().duration.unwrap_or_default();
        let least = Ns(whole.0.div_ceil(SLICES_MAX as u64));
        match config.slice_duration {
            Some(slice) if slice < least => no(
                "slice-duration",
                format!(
                    "{} s would cut {} s into more than {SLICES_MAX} slices; give {:.6} or more",
                    slice.as_secs(),
                    whole.as_secs(),
                    least.as_secs()
                ),
            ),
            _ => Ok(()),
        }
    }

    fn gpus(&self) -> Result<Option<GpuTelemetry>, ConfigError> {
        let mut gpus = GpuTelemetry {
            is_asked: self.gpu_telemetry.is_some(),
            processes: self.gpu_processes.unwrap_or(false),
            interval: interval(self.gpu_interval)?,
            idle: seconds("gpu-idle-seconds", self.gpu_idle_seconds, 0.0, true)?,
            library: filled("nvml-library", self.nvml_library.as_ref())?.map(PathBuf::from),
            ..GpuTelemetry::default()
        };
        let words = self.gpu_telemetry.as_ref().map(Many::list);
        for word in words.unwrap_or_default() {
            match word.as_str() {
                "pynvml" | "nvml" => gpus.source = GpuSource::Nvml,
                "dcgm" => gpus.source = GpuSource::Dcgm,
                "amdsmi" => gpus.source = GpuSource::AmdSmi,
                "summary" | "dashboard" => {}
                csv if csv.ends_with(".csv") => gpus.fields = Some(csv.into()),
                page => gpus.urls.push(page_url("gpu-telemetry", page)?),
            }
        }
        let has_pages = !gpus.urls.is_empty();
        match gpus.source {
            GpuSource::Auto if has_pages => gpus.source = GpuSource::Dcgm,
            GpuSource::Nvml | GpuSource::AmdSmi if has_pages => {
                return no(
                    "gpu-telemetry",
                    "urls are of exporters; leave them or the library's name out",
                );
            }
            _ => {}
        }
        let off = self.no_gpu_telemetry.unwrap_or(false);
        if off && gpus.is_asked {
            return no("gpu-telemetry", "--no-gpu-telemetry says the contrary");
        }
        Ok((!off).then_some(gpus))
    }

    fn server_metrics(&self) -> Result<Option<ServerMetrics>, ConfigError> {
        let mut metrics = ServerMetrics::default();
        let pages = self.server_metrics.as_ref().map(Many::list);
        for page in pages.unwrap_or_default() {
            metrics.urls.push(page_url("server-metrics", &page)?);
        }
        if let Some(formats) = &self.server_metrics_formats {
            metrics.formats = formats
                .list()
                .iter()
                .flat_map(|text| text.split(','))
                .map(|text| match text.trim() {
                    "json" => Ok(MetricsFormat::Json),
                    "csv" => Ok(MetricsFormat::Csv),
                    "jsonl" => Ok(MetricsFormat::Jsonl),
                    other => no(
                        "server-metrics-formats",
                        format!("`{other}`; give json, csv or jsonl"),
                    ),
                })
                .collect::<Result<_, _>>()?;
        }
        let off = self.no_server_metrics.unwrap_or(false);
        if off && self.server_metrics.is_some() {
            return no("server-metrics", "--no-server-metrics says the contrary");
        }
        Ok((!off).then_some(metrics))
    }
}

fn interval(ms: Option<f64>) -> Result<Ns, ConfigError> {
    match ms {
        None => Ok(GpuTelemetry::default().interval),
        Some(ms) if (20.0..=1000.0).contains(&ms) => Ok(Ns::from_secs_f64(ms / 1e3)),
        Some(ms) => no(
            "gpu-interval",
            format!("{ms:?} is out of range; give 20 to 1000 ms"),
        ),
    }
}

/// A page with metrics: at `/metrics` where the url has no path.
fn page_url(flag: &'static str, text: &str) -> Result<Url, ConfigError> {
    let has_place = text.contains("://") || text.contains(':');
    if !has_place {
        return no(
            flag,
            format!("`{text}` is no source; give host:port or a url"),
        );
    }
    let mut url = match parse_url(text) {
        Ok(url) => url,
        Err(reason) => {
            let shown = crate::config::hide_target(text, &mut Vec::new());
            return no(flag, format!("`{shown}`: {reason}"));
        }
    };
    if url.base.is_empty() {
        url.base = "/metrics".into();
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(draft: Draft) -> Result<Config, String> {
        let draft = Draft {
            url: Some("h".into()),
            ..draft
        };
        let checked = draft.check("").map_err(|error| error.to_string());
        checked.map(|checked| checked.config)
    }

    fn list(words: &[&str]) -> Option<Many> {
        Some(Many::List(words.iter().map(|w| (*w).to_owned()).collect()))
    }

    fn gpus(words: &[&str]) -> Result<GpuTelemetry, String> {
        let draft = Draft {
            gpu_telemetry: list(words),
            ..Draft::default()
        };
        check(draft).map(|config| config.gpu_telemetry.unwrap())
    }

    #[test]
    fn the_sources_are_told_apart() {
        let auto = check(Draft::default()).unwrap();
        assert_eq!(auto.gpu_telemetry, Some(GpuTelemetry::default()));
        assert!(gpus(&[]).unwrap().is_asked);
        assert_eq!(gpus(&["pynvml"]).unwrap().source, GpuSource::Nvml);
        let pages = gpus(&[
            "dashboard",
            "n1:9401",
            "http://n2:9400/dcgm1/metrics",
            "x.csv",
        ]);
        let pages = pages.unwrap();
        assert_eq!(pages.source, GpuSource::Dcgm);
        let shown: Vec<String> = pages.urls.iter().map(Url::origin_shown).collect();
        let want = ["http://n1:9401/metrics", "http://n2:9400/dcgm1/metrics"];
        assert_eq!(shown, want);
        assert_eq!(pages.fields, Some("x.csv".into()));
        for (words, told) in [
            (&["nvidia"][..], "`nvidia` is no source"),
            (&["pynvml", "h:1"], "leave them or"),
            (&["ftp://h:1"], "scheme `ftp`"),
        ] {
            let error = gpus(words).unwrap_err();
            assert!(
                error.starts_with("--gpu-telemetry: ") && error.contains(told),
                "{error}"
            );
        }
    }

    #[test]
    fn contradictions_and_ranges_name_their_flag() {
        let of = |draft: Draft| check(draft).unwrap_err();
        let both = Draft {
            gpu_telemetry: list(&[]),
            no_gpu_telemetry: Some(true),
            ..Draft::default()
        };
        assert!(of(both).contains("--no-gpu-telemetry"));
        let both = Draft {
            server_metrics: list(&["h:1"]),
            no_server_metrics: Some(true),
            ..Draft::default()
        };
        assert!(of(both).contains("--no-server-metrics"));
        for ms in [19.9, 1001.0, f64::NAN] {
            let draft = Draft {
                gpu_interval: Some(ms),
                ..Draft::default()
            };
            assert!(of(draft).contains("--gpu-interval"));
        }
        let parquet = Draft {
            server_metrics_formats: Some("json,parquet".into()),
            ..Draft::default()
        };
        assert!(of(parquet).contains("`parquet`"));
        let slice = Draft {
            slice_duration: Some(0.0),
            ..Draft::default()
        };
        assert!(of(slice).contains("--slice-duration"));
        let tiny = |slice| Draft {
            model: Some("m".into()),
            slice_duration: Some(slice),
            benchmark_duration: Some(7_200.0),
            ..Draft::default()
        };
        assert!(of(tiny(1.9)).contains("more than 3600 slices; give 2.000000 or more"));
        assert!(tiny(2.0).check("").is_ok());
    }
}
