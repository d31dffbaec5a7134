//! What is asked of the server beside requests: to be ready, to forget, to profile itself.

use super::{ConfigError, no, seconds};
use crate::base::Ns;
use crate::config::{Api, Config, Draft, Profiler, ResetCache, WaitMode};

/// How long a hook may take, as AIPerf has it.
const HOOK_SECONDS: f64 = 30.0;

impl Draft {
    /// After [`Draft::target`].
    pub(super) fn server(&self, config: &mut Config) -> Result<(), ConfigError> {
        let wait = self.wait_for_model_timeout;
        config.wait.timeout = seconds("wait-for-model-timeout", wait, 0.0, true)?;
        let interval = self.wait_for_model_interval;
        config.wait.interval = seconds("wait-for-model-interval", interval, 5.0, false)?;
        config.wait.mode = wait_mode(self, config.api)?;
        let waits = config.wait.timeout > Ns::ZERO;
        for (flag, is_given) in [
            ("wait-for-model-interval", interval.is_some()),
            ("wait-for-model-mode", self.wait_for_model_mode.is_some()),
        ] {
            if is_given && !waits {
                return no(flag, "it needs --wait-for-model-timeout");
            }
        }
        config.reset_kv_cache = reset_cache(self)?;
        config.server_profiler = profiler(self)?;
        Ok(())
    }
}

fn wait_mode(draft: &Draft, api: Api) -> Result<WaitMode, ConfigError> {
    let flag = "wait-for-model-mode";
    let mode = match draft.wait_for_model_mode.as_deref() {
        None | Some("inference") => WaitMode::Inference,
        Some("models") => WaitMode::Models,
        Some("both") => WaitMode::Both,
        Some(other) => {
            let text = format!("`{other}` is unknown; models, inference or both");
            return no(flag, text);
        }
    };
    match api.is_triton() && mode != WaitMode::Inference {
        true => no(flag, "Triton has no /v1/models; give inference"),
        false => Ok(mode),
    }
}

fn reset_cache(draft: &Draft) -> Result<Option<ResetCache>, ConfigError> {
    let path = hook_path(
        "reset-kv-cache-path",
        draft.reset_kv_cache_path.as_ref(),
        "/reset_prefix_cache",
    )?;
    let flag = "reset-kv-cache-timeout-seconds";
    let limit = draft.reset_kv_cache_timeout_seconds;
    let timeout = seconds(flag, limit, HOOK_SECONDS, false)?;
    let given = [
        ("reset-kv-cache-path", draft.reset_kv_cache_path.is_some()),
        (flag, limit.is_some()),
    ];
    let is_on = switched(draft.reset_kv_cache, "--reset-kv-cache", given)?;
    Ok(is_on.then_some(ResetCache { path, timeout }))
}

fn profiler(draft: &Draft) -> Result<Option<Profiler>, ConfigError> {
    let (start, stop) = (
        &draft.server_profiler_start_path,
        &draft.server_profiler_stop_path,
    );
    let flag = "server-profiler-timeout-seconds";
    let limit = draft.server_profiler_timeout_seconds;
    let names = ["server-profiler-start-path", "server-profiler-stop-path"];
    let found = Profiler {
        start: hook_path(names[0], start.as_ref(), "/start_profile")?,
        stop: hook_path(names[1], stop.as_ref(), "/stop_profile")?,
        timeout: seconds(flag, limit, HOOK_SECONDS, false)?,
    };
    let given = [
        (names[0], start.is_some()),
        (names[1], stop.is_some()),
        (flag, limit.is_some()),
    ];
    let is_on = switched(draft.server_profiler, "--server-profiler", given)?;
    Ok(is_on.then_some(found))
}

/// Is the hook asked for? Nothing else of it may be said when it is not.
fn switched<const N: usize>(
    switch: Option<bool>,
    name: &str,
    given: [(&'static str, bool); N],
) -> Result<bool, ConfigError> {
    let is_on = switch.unwrap_or(false);
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) if !is_on => no(flag, format!("it needs {name}")),
        _ => Ok(is_on),
    }
}

/// A path below a server's origin, with its leading slash.
fn hook_path(
    flag: &'static str,
    given: Option<&String>,
    default: &str,
) -> Result<String, ConfigError> {
    let path = given.map_or(default, |path| path.trim());
    if path.trim_start_matches('/').is_empty() || path.contains("://") {
        return no(flag, "give a path; --url has the host");
    }
    if path.bytes().any(|b| b <= b' ' || b == 0x7f) {
        return no(flag, "a path has no spaces; write %20");
    }
    Ok(format!("/{}", path.trim_start_matches('/')))
}
