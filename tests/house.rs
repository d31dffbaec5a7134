//! The house rules, checked: which room may import which, which room may name which crate, and how
//! long files, functions and lines may be. ARCHITECTURE.md says why; these tables are the truth.

use std::fs;
use std::path::{Path, PathBuf};

/// A room: its name, its floor, and the rooms that it may import.
type Room = (&'static str, u8, &'static [&'static str]);

/// Imports go down only; rooms on one floor never import each other.
const ROOMS: &[Room] = &[
    ("main", 8, &["cli", "base"]),
    (
        "cli",
        7,
        &[
            "analyze",
            "profile",
            "engine",
            "mock",
            "endpoint",
            "gpu",
            "server_metrics",
            "http",
            "schedule",
            "workload",
            "archive",
            "scrape",
            "report",
            "view",
            "config",
            "sse",
            "stats",
            "runtime",
            "base",
        ],
    ),
    (
        "analyze",
        6,
        &[
            "profile", "archive", "report", "view", "workload", "schedule", "config", "stats",
            "base",
        ],
    ),
    // Not mock: it is spawned from a path that cli or a test passes.
    (
        "profile",
        5,
        &[
            "engine",
            "gpu",
            "server_metrics",
            "archive",
            "report",
            "view",
            "endpoint",
            "workload",
            "schedule",
            "http",
            "config",
            "sse",
            "stats",
            "runtime",
            "base",
        ],
    ),
    // config for its plain enums (config::Api); a floor-4 room takes no whole Config.
    (
        "engine",
        4,
        &[
            "endpoint", "workload", "schedule", "http", "sse", "config", "stats", "runtime", "base",
        ],
    ),
    (
        "mock",
        4,
        &[
            "endpoint", "workload", "schedule", "http", "sse", "config", "stats", "runtime", "base",
        ],
    ),
    ("endpoint", 3, &["workload", "stats", "config", "base"]),
    ("gpu", 3, &["http", "scrape", "stats", "runtime", "base"]),
    (
        "server_metrics",
        3,
        &["http", "scrape", "stats", "runtime", "base"],
    ),
    ("http", 2, &["runtime", "base"]),
    ("schedule", 2, &["config", "base"]),
    ("workload", 2, &["config", "base"]),
    ("archive", 2, &["stats", "config", "base"]),
    ("report", 2, &["stats", "config", "base"]),
    ("view", 2, &["stats", "config", "base"]),
    ("scrape", 2, &["base"]),
    ("config", 1, &["base"]),
    ("sse", 1, &["base"]),
    ("stats", 1, &["base"]),
    ("runtime", 1, &["base"]),
    ("base", 0, &[]),
];

/// The one room that may name each of these crates.
const CRATES: &[(&str, &str)] = &[
    ("monoio", "runtime"),
    ("io_uring", "runtime"),
    ("io_uring_06", "runtime"),
    ("clap", "cli"),
    ("tokenizers", "workload"),
    ("ureq", "workload"),
    ("hdrhistogram", "stats"),
    ("nvml_wrapper", "gpu"),
    ("indicatif", "view"),
    ("jmespath", "endpoint"),
];

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;

/// A word or a mark of the code, comments and literals left out.
#[derive(Clone, Debug, PartialEq)]
struct Token {
    text: String,
    line: usize,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where the literal or comment that begins at `at` ends; `None` when none begins there.
fn end_of_skipped(chars: &[char], at: usize) -> Option<usize> {
    let starts = |text: &str| {
        text.chars()
            .enumerate()
            .all(|(i, c)| chars.get(at + i) == Some(&c))
    };
    if starts("//") {
        return Some(
            (at..chars.len())
                .find(|&i| chars[i] == '\n')
                .unwrap_or(chars.len()),
        );
    }
    if starts("/*") {
        return Some(end_of_block_comment(chars, at));
    }
    match chars[at] {
        '"' => Some(end_of_quoted(chars, at, '"')),
        '\'' => match (chars.get(at + 1), chars.get(at + 2)) {
            (Some('\\'), _) | (Some(_), Some('\'')) => Some(end_of_quoted(chars, at, '\'')),
            _ => None, // a lifetime
        },
        'r' | 'b' | 'c' if at == 0 || !is_word(chars[at - 1]) => end_of_prefixed(chars, at),
        _ => None,
    }
}

fn end_of_block_comment(chars: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (0usize, at);
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
            ('*', Some('/')) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            break;
        }
    }
    i
}

fn end_of_quoted(chars: &[char], at: usize, quote: char) -> usize {
    let mut i = at + 1;
    while i < chars.len() && chars[i] != quote {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    (i + 1).min(chars.len())
}

/// The end of `r"…"`, `r#"…"#`, `b"…"`, `br#"…"#`, `c"…"`, `b'…'`.
fn end_of_prefixed(chars: &[char], at: usize) -> Option<usize> {
    let letters = chars[at..]
        .iter()
        .take_while(|c| "rbc".contains(**c))
        .count();
    let is_raw = chars[at..at + letters].contains(&'r');
    let hashes = chars[at + letters..]
        .iter()
        .take_while(|&&c| c == '#')
        .count();
    let open = at + letters + hashes;
    match chars.get(open) {
        Some('"') if is_raw && letters <= 2 => {
            let is_end =
                |i: usize| chars[i] == '"' && (1..=hashes).all(|j| chars.get(i + j) == Some(&'#'));
            let end = (open + 1..chars.len())
                .find(|&i| is_end(i))
                .unwrap_or(chars.len());
            Some((end + hashes + 1).min(chars.len()))
        }
        Some(&quote @ ('"' | '\'')) if letters == 1 && hashes == 0 && !is_raw => {
            Some(end_of_quoted(chars, open, quote))
        }
        _ => None,
    }
}

fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let (mut out, mut line, mut i) = (Vec::new(), 1, 0);
    while i < chars.len() {
        let end = match end_of_skipped(&chars, i) {
            Some(end) => end,
            None if is_word(chars[i]) => (i..chars.len())
                .find(|&j| !is_word(chars[j]))
                .unwrap_or(chars.len()),
            None if chars[i] == ':' && chars.get(i + 1) == Some(&':') => i + 2,
            None => i + 1,
        };
        let is_code = end_of_skipped(&chars, i).is_none() && !chars[i].is_whitespace();
        if is_code {
            out.push(Token {
                text: chars[i..end].iter().collect(),
                line,
            });
        }
        line += chars[i..end].iter().filter(|&&c| c == '\n').count();
        i = end;
    }
    out
}

/// The first names after a path's root at `at`: of `a::b` it is a, of `{a::b, c}` a and c.
fn first_names(code: &[Token], at: usize) -> Vec<&str> {
    if code.get(at).is_none_or(|token| token.text != "{") {
        return code
            .get(at)
            .map(|token| token.text.as_str())
            .into_iter()
            .collect();
    }
    let (mut depth, mut names) = (0usize, Vec::new());
    for (i, token) in code.iter().enumerate().skip(at) {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            name if depth == 1 && matches!(code[i - 1].text.as_str(), "{" | ",") => {
                names.push(name);
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

/// The module path of a file under src/: `report/json.rs` is `[report, json]`.
fn module_of(path: &str) -> Vec<String> {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
    let inner = inner.strip_suffix("/mod").unwrap_or(inner);
    inner
        .split('/')
        .filter(|name| *name != "lib")
        .map(str::to_owned)
        .collect()
}

/// Rooms that a file names, through `crate`, `tokenring` or a chain of `super`.
fn imports(path: &str, code: &[Token]) -> Vec<String> {
    let home = module_of(path).len();
    let text = |i: usize| code.get(i).map_or("", |token| token.text.as_str());
    let (mut found, mut depth, mut inner) = (Vec::new(), 0usize, Vec::new());
    for i in 0..code.len() {
        match text(i) {
            "{" => {
                depth += 1;
                if i >= 2 && text(i - 2) == "mod" {
                    inner.push(depth);
                }
            }
            "}" => {
                if inner.last() == Some(&depth) {
                    inner.pop();
                }
                depth = depth.saturating_sub(1);
            }
            "crate" | "tokenring" if text(i + 1) == "::" => {
                found.extend(first_names(code, i + 2));
            }
            "super" if i == 0 || text(i - 1) != "::" => {
                let mut ups = 1;
                while text(i + 2 * ups) == "super" {
                    ups += 1;
                }
                if ups >= home + inner.len() && text(i + 2 * ups - 1) == "::" {
                    found.extend(first_names(code, i + 2 * ups));
                }
            }
            _ => {}
        }
    }
    found.into_iter().map(str::to_owned).collect()
}

fn room(name: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.0 == name)
}

/// Floors and crates.
fn check_imports(path: &str, code: &[Token], faults: &mut Vec<String>) {
    let module = module_of(path);
    let Some(own) = module.first() else { return };
    let Some((_, floor, may)) = room(own) else {
        faults.push(format!(
            "{path} is in the room {own}, which the floor table lacks"
        ));
        return;
    };
    for name in imports(path, code) {
        if name == "*" {
            faults.push(format!("{path} (floor {floor}) imports the whole crate"));
        } else if let Some((other, above, _)) = room(&name)
            && other != own
            && !may.contains(other)
        {
            faults.push(format!(
                "{path} (floor {floor}) imports {other} (floor {above})"
            ));
        }
    }
    for (i, token) in code.iter().enumerate() {
        let near = |j: Option<usize>| j.and_then(|j| code.get(j)).map_or("", |t| t.text.as_str());
        let before = near(i.checked_sub(1));
        let is_path = near(Some(i + 1)) == "::" && before != "::" || before == "use";
        if let Some((name, only)) = CRATES.iter().find(|(name, _)| *name == token.text)
            && is_path
            && only != own
        {
            faults.push(format!(
                "{path}:{} names {name}, which only {only} may",
                token.line
            ));
        }
        if token.text == "unsafe" && own != "runtime" && path != "src/gpu/nvml.rs" {
            faults.push(format!("{path}:{} has unsafe code", token.line));
        }
    }
}

/// Each function's length from `fn` to its closing brace.
fn check_functions(path: &str, code: &[Token], faults: &mut Vec<String>) {
    for (i, token) in code
        .iter()
        .enumerate()
        .filter(|(_, token)| token.text == "fn")
    {
        let (mut braces, mut groups) = (0usize, 0usize);
        for inner in &code[i..] {
            match inner.text.as_str() {
                "(" | "[" => groups += 1,
                ")" | "]" => groups = groups.saturating_sub(1),
                ";" if braces == 0 && groups == 0 => break,
                "{" => braces += 1,
                "}" if braces <= 1 => {
                    let lines = inner.line - token.line + 1;
                    if braces == 1 && lines > FUNCTION_LINES_MAX {
                        let name = &code[i + 1].text;
                        faults.push(format!(
                            "{path}:{} fn {name} has {lines} lines, over {FUNCTION_LINES_MAX}",
                            token.line
                        ));
                    }
                    break;
                }
                "}" => braces -= 1,
                _ => {}
            }
        }
    }
}

/// Lengths, leftovers, and a purpose for each `mod.rs`.
fn check_text(path: &str, source: &str, faults: &mut Vec<String>) {
    let lines: Vec<&str> = source.lines().collect();
    let is_test = |i: usize| {
        lines[i].trim() == "#[cfg(test)]"
            && lines
                .get(i + 1)
                .is_some_and(|line| line.trim_start().starts_with("mod "))
    };
    let length = (0..lines.len())
        .find(|&i| is_test(i))
        .unwrap_or(lines.len());
    if path.starts_with("src/") && !path.ends_with("/tests.rs") && length > FILE_LINES_MAX {
        faults.push(format!(
            "{path} has {length} lines without its tests, over {FILE_LINES_MAX}"
        ));
    }
    // Put together here, so that this file has none of them.
    let leftovers =
        [["to", "do!"], ["db", "g!"], ["FIX", "ME"], ["#[igno", "re"]].map(|p| p.concat());
    for (i, line) in lines.iter().enumerate() {
        let columns = line.chars().count();
        if columns > COLUMNS_MAX {
            faults.push(format!(
                "{path}:{} has {columns} columns, over {COLUMNS_MAX}",
                i + 1
            ));
        }
        for word in leftovers.iter().filter(|word| line.contains(word.as_str())) {
            faults.push(format!("{path}:{} has {word}", i + 1));
        }
    }
    if path.ends_with("/mod.rs") && !lines.first().is_some_and(|line| line.starts_with("//!")) {
        faults.push(format!("{path} does not begin with its purpose (//!)"));
    }
}

/// Every fault of one file.
fn check(path: &str, source: &str) -> Vec<String> {
    let mut faults = Vec::new();
    check_text(path, source, &mut faults);
    if path.starts_with("src/") {
        let code = tokens(source);
        check_imports(path, &code, &mut faults);
        check_functions(path, &code, &mut faults);
    }
    faults
}

fn rust_files(folder: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, out);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            out.push(path);
        }
    }
}

#[test]
fn the_house_is_in_order() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "tests", "benches"] {
        rust_files(&root.join(folder), &mut files);
    }
    files.sort();
    assert!(
        files.len() > ROOMS.len() / 2,
        "only {} files were found",
        files.len()
    );
    let faults: Vec<String> = files
        .iter()
        .flat_map(|file| {
            let path = file
                .strip_prefix(root)
                .unwrap()
                .to_string_lossy()
                .replace('\\', "/");
            check(&path, &fs::read_to_string(file).unwrap())
        })
        .collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn the_table_itself_goes_down_only() {
    for (name, floor, may) in ROOMS {
        for other in *may {
            let below = room(other).unwrap_or_else(|| panic!("{name} may import {other}, unknown"));
            assert!(
                below.1 < *floor,
                "{name} (floor {floor}) may import {other}"
            );
        }
    }
}

#[test]
fn an_import_upwards_is_a_sentence() {
    let fault = ["src/report/json.rs (floor 2) imports engine (floor 4)"];
    for source in [
        "use crate::engine::Plan;",
        "use crate::{base::Ns, engine};",
        "use crate::{\n    stats::{Record, summary},\n    engine::{self, Plan},\n};",
        "fn f() { crate::engine::run() }",
        "use super::super::engine;",
        "use super::super::{stats::Record, engine::Plan};",
        "mod tests { use super::super::super::engine; }",
    ] {
        assert_eq!(check("src/report/json.rs", source), fault, "{source}");
    }
    assert_eq!(
        check("src/report/mod.rs", "//! Purpose.\nuse super::view;"),
        ["src/report/mod.rs (floor 2) imports view (floor 2)"]
    );
    assert_eq!(
        check("src/main.rs", "use tokenring::profile;"),
        ["src/main.rs (floor 8) imports profile (floor 5)"]
    );
}

#[test]
fn what_is_allowed_or_only_text_passes() {
    for source in [
        "use crate::{base::Ns, stats::{engine, Record}};",
        "use super::engine;",
        "use crate::report::csv;",
        "mod tests { use super::super::engine; }",
        "// use crate::engine\n/* crate::engine /* x */ */ const A: &str = \"crate::engine\";",
        "const A: &str = r#\"crate::engine \" monoio::x\"#; const B: char = '\"'; fn f<'a>() {}",
        "fn f(clap: u8) -> u8 { a.clap + clap }",
    ] {
        assert_eq!(check("src/report/json.rs", source), [""; 0], "{source}");
    }
}

#[test]
fn a_crate_is_named_in_its_room_only() {
    let source = "use monoio::net;\nfn f() { hdrhistogram::x() }";
    assert_eq!(
        check("src/engine/core.rs", source),
        [
            "src/engine/core.rs:1 names monoio, which only runtime may",
            "src/engine/core.rs:2 names hdrhistogram, which only stats may",
        ]
    );
    assert_eq!(check("src/runtime/tcp.rs", "use monoio::net;"), [""; 0]);
}

#[test]
fn unsafe_code_has_two_homes() {
    let source = ["fn f() { un", "safe { g() } }"].concat();
    assert_eq!(
        check("src/http/conn.rs", &source),
        ["src/http/conn.rs:1 has unsafe code"]
    );
    assert_eq!(check("src/gpu/nvml.rs", &source), [""; 0]);
    assert_eq!(check("src/runtime/ring.rs", &source), [""; 0]);
}

#[test]
fn lengths_have_limits() {
    let long = format!("fn f(a: [u8; 2]) {{\n{}}}\n", "    g();\n".repeat(69));
    let fault = "src/base/x.rs:1 fn f has 71 lines, over 70";
    assert_eq!(check("src/base/x.rs", &long), [fault]);
    let file = format!("{}#[cfg(test)]\nmod tests {{}}\n", "\n".repeat(601));
    let fault = "src/base/x.rs has 601 lines without its tests, over 600";
    assert_eq!(check("src/base/x.rs", &file), [fault]);
    assert_eq!(check("src/base/x.rs", &file[1..]), [""; 0]);
    let wide = format!("// {}", "é".repeat(98));
    assert_eq!(
        check("tests/x.rs", &wide),
        ["tests/x.rs:1 has 101 columns, over 100"]
    );
}

#[test]
fn leftovers_and_a_missing_purpose_are_faults() {
    let word = ["to", "do!"].concat();
    let source = format!("//! Purpose.\nfn f() {{ {word}() }}");
    assert_eq!(
        check("src/base/mod.rs", &source),
        [format!("src/base/mod.rs:2 has {word}")]
    );
    let fault = "src/base/mod.rs does not begin with its purpose (//!)";
    assert_eq!(check("src/base/mod.rs", "fn f() {}"), [fault]);
    let fault = "src/attic/x.rs is in the room attic, which the floor table lacks";
    assert_eq!(check("src/attic/x.rs", ""), [fault]);
}
