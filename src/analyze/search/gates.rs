//! The conditions of a search, read.

use super::TierGates;
use crate::config::SearchSpec;
use crate::stats::{Gate, Limit};

/// The sets of conditions that a search is for: its own, then those with names, each with the
/// search's own.
///
/// Errors: the text that is no condition, by the flag that takes it, and why.
pub fn gates(spec: &SearchSpec) -> Result<Vec<TierGates>, String> {
    let own = all(&spec.slas, "search-sla")?;
    if spec.tiers.is_empty() {
        return Ok(vec![(None, own)]);
    }
    let tier = |tier: &crate::config::TierSpec| {
        let mut gates = all(&tier.slas, "search-sla-tier")?;
        gates.extend(own.iter().cloned());
        Ok((Some(tier.label.clone()), gates))
    };
    spec.tiers.iter().map(tier).collect()
}

/// One condition in either form.
///
/// Errors: what is wrong, and that a change against another run is no condition of a search.
pub fn gate(text: &str) -> Result<Gate, String> {
    let gate = match text.contains(['<', '>']) {
        true => Gate::parse(text)?,
        false => Gate::of_sla(text)?,
    };
    match gate.limit {
        Limit::Absolute(_) => Ok(gate),
        Limit::Relative(_) => Err(format!(
            "`{text}` is a change against another run; give a number"
        )),
    }
}

fn all(texts: &[String], flag: &str) -> Result<Vec<Gate>, String> {
    let read = |text: &String| gate(text).map_err(|why| format!("--{flag}: {why}"));
    texts.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TierSpec;

    #[test]
    fn both_forms_are_read_and_a_change_is_not() {
        for text in ["p95(ttft)<500ms", "time_to_first_token:p95:lt:500"] {
            assert_eq!(
                gate(text).unwrap().to_string(),
                "p95(time_to_first_token) < 500 ms"
            );
        }
        for text in [
            "p95(itl)<20ms",
            "request_error_rate<1",
            "request_error_rate:avg:lt:5",
        ] {
            assert!(gate(text).is_ok(), "{text}");
        }
        assert!(gate("p95(ttft)<+5%").unwrap_err().contains("another run"));
        assert!(
            gate("ttft:p95:lt")
                .unwrap_err()
                .contains("time_to_first_token:p95:lt:90")
        );
    }

    #[test]
    fn each_name_has_its_conditions_and_the_searchs_own() {
        let mut spec = super::super::simulated::spec_for_gates();
        spec.slas = vec!["request_error_rate:avg:lt:1".into()];
        assert_eq!(gates(&spec).unwrap()[0].1.len(), 1);
        spec.tiers = vec![TierSpec {
            label: "gold".into(),
            slas: vec!["p95(ttft)<100ms".into()],
        }];
        let found = gates(&spec).unwrap();
        assert_eq!((found[0].0.as_deref(), found[0].1.len()), (Some("gold"), 2));
        spec.tiers[0].slas.push("nonsense".into());
        assert!(gates(&spec).unwrap_err().starts_with("--search-sla-tier: "));
    }
}
