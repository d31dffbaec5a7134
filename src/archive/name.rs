//! The name of a run's folder, as both peers make it.

use crate::config::{Api, Config, Load};

/// `<model>-<service>-<endpoint>-<stimulus>`, with `/` in the model as `_`.
pub fn run_name(config: &Config) -> String {
    let model = config.model.as_deref().unwrap_or("model").replace('/', "_");
    let service = match config.api {
        Api::Chat => "openai-chat",
        Api::Completions => "openai-completions",
        Api::TritonTensorrtllm => "triton-tensorrtllm",
        Api::TritonVllm => "triton-vllm",
    };
    format!("{model}-{service}-{}", stimulus(config.load))
}

fn stimulus(load: Load) -> String {
    match load {
        Load::Concurrency(count) => format!("concurrency{count}"),
        Load::Constant { rate_per_s, cap } | Load::Poisson { rate_per_s, cap } => {
            let cap = cap.map_or(String::new(), |cap| format!("concurrency{cap}-"));
            // Python writes a whole float with its `.0`.
            format!("{cap}request_rate{rate_per_s:?}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stimulus_reads_as_the_peers_write_it() {
        assert_eq!(stimulus(Load::Concurrency(16)), "concurrency16");
        let rate_per_s = 5.0;
        assert_eq!(
            stimulus(Load::Poisson {
                rate_per_s,
                cap: None
            }),
            "request_rate5.0"
        );
        let capped = Load::Constant {
            rate_per_s,
            cap: Some(8),
        };
        assert_eq!(stimulus(capped), "concurrency8-request_rate5.0");
    }
}
