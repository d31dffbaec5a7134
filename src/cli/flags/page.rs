//! docs/flags.md: every flag of ours and of the peers, from the tables.

use super::peers::{DIFFERENCES, Fate, PEERS};
use super::{Flag, Kind, flags, passthrough};
use crate::cli::subcommands;
use std::fmt::Write as _;

const OPENING: &str = "\
# Flags

Printed by `tokenring flags`; a test compares, so renew this page by `cargo run -q -- flags >
docs/flags.md`. All of `profile` and `analyze`, and what becomes of each flag of AIPerf 0.13.0 and
GenAI-Perf 0.0.16: it has the same name and meaning here, or it stands in one of the tables at the
[end](#flags-of-the-peers). A switch is taken back by `--no-` before its name.
";

const PEERS_OPENING: &str = "\
## Flags of the peers

The flags above have the peers' names. Where one means something else than in a peer, a line says so
at run time if its value calls for it:

| flag | here |
|---|---|
";

/// The page as Markdown.
pub(in crate::cli) fn page() -> String {
    let mut out = String::from(OPENING);
    for section in sections() {
        let _ = write!(
            out,
            "\n## {section}\n\n| flag | takes | meaning |\n|---|---|---|\n"
        );
        for flag in flags().filter(|flag| flag.section == section) {
            let _ = writeln!(
                out,
                "| {} | {} | {} |",
                names(flag),
                takes(flag),
                cell(flag.help)
            );
        }
    }
    let _ = write!(out, "\n{PEERS_OPENING}");
    for difference in DIFFERENCES {
        let values = difference.values.unwrap_or_default().join("`, `");
        let values = if values.is_empty() {
            values
        } else {
            format!(" {values}")
        };
        let name = difference.name;
        let _ = writeln!(out, "| `--{name}{values}` | {} |", cell(difference.text));
    }
    out.push_str(&of_peers());
    out
}

fn of_peers() -> String {
    let mut out = String::new();
    let mut table = |head: &str, row: &dyn Fn(Fate) -> Option<String>| {
        let _ = write!(out, "\n{head}\n|---|---|\n");
        for peer in PEERS {
            if let Some(text) = row(peer.fate) {
                let _ = writeln!(out, "| `--{}` | {} |", peer.name, cell(&text));
            }
        }
    };
    table(
        "Taken, with a line that says that nothing changes:\n\n| flag | why |",
        &|fate| match fate {
            Fate::Ignored(reason) => Some(reason.into()),
            Fate::Only(values, other) => Some(format!(
                "with `{}`; with another value: {other}",
                values.join("`, `")
            )),
            Fate::Refused(_) => None,
        },
    );
    table(
        "Refused, with this line:\n\n| flag | instead |",
        &|fate| match fate {
            Fate::Refused(other) => Some(other.into()),
            _ => None,
        },
    );
    out.push_str(
        "\n## After ` -- `\n\nGenAI-Perf hands these to perf_analyzer. Here each becomes a flag of \
         ours, and a line says which:\n\n| flag | becomes |\n|---|---|\n",
    );
    for (names, text) in passthrough::rows() {
        let _ = writeln!(out, "| {names} | {} |", cell(&text));
    }
    out.push_str("\n## Subcommands of the peers\n\n| subcommand | instead |\n|---|---|\n");
    for (name, text) in subcommands::refused() {
        let _ = writeln!(out, "| `{name}` | {} |", cell(text));
    }
    out
}

/// A file of settings that has each of them in a comment, with its help.
pub(in crate::cli) fn commented() -> String {
    let mut out =
        String::from("# Every setting of tokenring; remove the # before one to give it.\n");
    for section in sections() {
        let _ = write!(out, "\n# == {section} ==\n");
        for flag in flags().filter(|flag| flag.section == section) {
            let value = match flag.kind {
                Kind::Switch => "true".into(),
                Kind::Integer => "N".into(),
                Kind::Text(value) | Kind::Number(value) => value.to_string(),
                Kind::Many(value) | Kind::Any(value) => format!("[{value}]"),
            };
            let _ = write!(out, "\n# {}\n# {}: {value}\n", flag.help, flag.names[0]);
        }
    }
    out
}

/// The help's sections, in the order of their first flags.
fn sections() -> Vec<&'static str> {
    let mut sections = Vec::new();
    for flag in flags() {
        if !sections.contains(&flag.section) {
            sections.push(flag.section);
        }
    }
    sections
}

/// The help of a flag, by its first name.
pub(in crate::cli) fn help(name: &str) -> Option<&'static str> {
    flags()
        .find(|flag| flag.names[0] == name)
        .map(|flag| flag.help)
}

fn names(flag: &Flag) -> String {
    let short = flag.short.map(|short| format!("-{short}"));
    let long = flag.names.iter().map(|name| format!("--{name}"));
    let all: Vec<String> = short
        .into_iter()
        .chain(long)
        .map(|name| format!("`{name}`"))
        .collect();
    all.join(" ")
}

fn takes(flag: &Flag) -> String {
    match flag.kind {
        Kind::Switch => "nothing".into(),
        Kind::Integer => "`N`".into(),
        Kind::Text(value) | Kind::Number(value) => format!("`{value}`"),
        Kind::Many(value) => format!("`{value}` ..."),
        Kind::Any(value) => format!("`[{value} ...]`"),
    }
}

/// Text within a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}
