//! This machine's part: workers.

use super::{ConfigError, count, no};
use crate::config::{Config, Cores, Draft};

impl Draft {
    pub(super) fn client(&self, config: &mut Config) -> Result<(), ConfigError> {
        config.cores = cores(self)?;
        let most = count("workers-max", self.workers_max, 1, 4096)?;
        config.workers_max = most.and_then(|n| usize::try_from(n).ok());
        config.calibrate = self.calibrate.unwrap_or(false);
        config.batching = !self.no_batching.unwrap_or(false);
        config.check_stamps = self.check_stamps.unwrap_or(false);
        Ok(())
    }
}

fn cores(draft: &Draft) -> Result<Cores, ConfigError> {
    let bad = |text: &str| {
        no(
            "cores",
            format!("`{text}`; give auto, a number, or a list 2,4-7"),
        )
    };
    match draft.cores.as_deref() {
        None | Some("auto") => Ok(Cores::Auto),
        Some(text) if !text.contains([',', '-']) => match text.parse() {
            Ok(n) if n > 0 => Ok(Cores::Count(n)),
            _ => bad(text),
        },
        Some(text) => {
            let mut list = Vec::new();
            for part in text.split(',').filter(|part| !part.is_empty()) {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                match (first.trim().parse::<usize>(), last.trim().parse::<usize>()) {
                    (Ok(a), Ok(b)) if a <= b && b < 65_536 => list.extend(a..=b),
                    _ => return bad(text),
                }
            }
            list.sort_unstable();
            list.dedup();
            if list.is_empty() {
                bad(text)
            } else {
                Ok(Cores::List(list))
            }
        }
    }
}
