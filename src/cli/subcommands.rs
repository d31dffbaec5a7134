//! Subcommands of the peers that are known and not served: each is refused by a line of its own,
//! never taken for a typing error.

/// Name, and what takes its place.
#[rustfmt::skip]
const REFUSED: &[(&str, &str)] = &[
    ("analyze-trace", "`profile --input-file FILE --dry-run` says what a trace asks for"),
    ("chat", "`profile --request-count 1` measures one request"),
    ("kube", "run `profile` in a pod of your own"),
    ("plugins", "there are none; `profile --help` lists what there is"),
    ("proxy", "there is one process; run `profile`"),
    ("service", "there is one process; run `profile`"),
    ("speed-bench-report", "there is no such report; run `profile`"),
    ("synthesize", "write a mooncake_trace yourself, and give `profile --input-file`"),
    ("trace", "`profile --input-file FILE --dry-run` reads a trace and says what is wrong"),
    ("validate", "`profile --input-file FILE --dry-run` reads a trace and says what is wrong"),
];

/// The line for a subcommand that is known and not served.
pub fn refusal(name: &str) -> Option<String> {
    let (_, reason) = REFUSED.iter().find(|(known, _)| *known == name)?;
    Some(format!("{name}: {reason}; today: profile, analyze"))
}

/// Name and line of each, for the docs.
pub fn refused() -> impl Iterator<Item = (&'static str, &'static str)> {
    REFUSED.iter().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subcommand_that_is_served_is_not_refused() {
        let served = crate::cli::command();
        for command in served.get_subcommands() {
            assert_eq!(refusal(command.get_name()), None);
        }
        assert!(refusal("kube").unwrap().contains("today: profile, analyze"));
        assert_eq!(refusal("pofile"), None);
    }
}
