//! The text format, version 0.0.4, and what OpenMetrics adds to it.

use std::borrow::Cow;
use std::collections::HashMap;

/// What a family counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Grows, and starts again at 0 with its server.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets, a sum and a count.
    Histogram,
    /// Quantiles made by the server, a sum and a count.
    Summary,
    /// The page does not say.
    Untyped,
}

/// One value of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// With its suffix: `x_bucket`, `x_total`.
    pub name: &'a str,
    /// In the page's order, escapes resolved.
    pub labels: Vec<(&'a str, Cow<'a, str>)>,
    /// As written: NaN and the infinities are values of the format.
    pub value: f64,
    /// As written, in the page's unit: ms, or seconds in OpenMetrics.
    pub timestamp: Option<f64>,
}

/// Samples that one `# TYPE` line is about, in the page's order.
#[derive(Clone, Debug, PartialEq)]
pub struct Family<'a> {
    /// As its `# TYPE` line says it, else as its first sample does.
    pub name: &'a str,
    /// What it counts.
    pub kind: Kind,
    /// The text of `# HELP`, escapes resolved; empty without one.
    pub help: Cow<'a, str>,
    /// At least one.
    pub samples: Vec<Sample<'a>>,
}

/// A page.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Page<'a> {
    /// In the order in which they first appear; families without a sample are left out.
    pub families: Vec<Family<'a>>,
    /// Lines that are no samples and no comments: left out.
    pub bad_lines: u64,
    /// The first of them, from 1, and what is wrong with it.
    pub first_bad: Option<(usize, &'static str)>,
    /// The last line has no end: it may be half of one, and is left out.
    pub is_cut: bool,
}

impl Sample<'_> {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(own, _)| *own == name);
        found.map(|(_, value)| value.as_ref())
    }
}

impl<'a> Page<'a> {
    /// The family of this name.
    pub fn family(&self, name: &str) -> Option<&Family<'a>> {
        self.families.iter().find(|family| family.name == name)
    }

    /// Number of samples.
    pub fn samples_count(&self) -> usize {
        let counts = self.families.iter().map(|family| family.samples.len());
        counts.sum()
    }
}

/// Reads a page. A line that cannot be read costs that line and is counted: the rest stands.
///
/// Cost: one pass; it allocates for samples and for labels with escapes, names are the text's own.
///
/// ```
/// let page = tokenring::scrape::parse("# TYPE a:b counter\na:b{x=\"1\"} 3 # {id=\"7\"} 1\nnot\n");
/// assert_eq!(page.families[0].samples[0].value, 3.0);
/// assert_eq!((page.bad_lines, page.first_bad), (1, Some((3, "no value"))));
/// ```
pub fn parse(text: &str) -> Page<'_> {
    let mut reader = Reader::default();
    let mut rest = text;
    let mut number = 0;
    while let Some(end) = memchr::memchr(b'\n', rest.as_bytes()) {
        number += 1;
        let line = rest[..end].trim_ascii();
        rest = &rest[end + 1..];
        if let Err(reason) = reader.line(line) {
            reader.page.bad_lines += 1;
            reader.page.first_bad.get_or_insert((number, reason));
        }
        if reader.is_over {
            rest = "";
        }
    }
    // `# EOF` is whole without its end.
    reader.page.is_cut = !matches!(rest.trim_ascii(), "" | "# EOF");
    let mut page = reader.page;
    page.families.retain(|family| !family.samples.is_empty());
    page
}

#[derive(Default)]
struct Reader<'a> {
    page: Page<'a>,
    places: HashMap<&'a str, usize>,
    /// Family and name of the last sample, which the next most often has too.
    last: Option<usize>,
    last_name: &'a str,
    /// After `# EOF`.
    is_over: bool,
}

impl<'a> Reader<'a> {
    fn line(&mut self, line: &'a str) -> Result<(), &'static str> {
        if line.is_empty() {
            return Ok(());
        }
        if let Some(comment) = line.strip_prefix('#') {
            self.comment(comment.trim_ascii_start());
            return Ok(());
        }
        let sample = sample(line)?;
        let place = match self.last.filter(|_| self.last_name == sample.name) {
            Some(place) => place,
            None => self.family_of(sample.name),
        };
        (self.last, self.last_name) = (Some(place), sample.name);
        self.page.families[place].samples.push(sample);
        Ok(())
    }

    /// Comments of other words mean nothing.
    fn comment(&mut self, comment: &'a str) {
        // A family that is told of now may be the one of the next sample.
        self.last_name = "";
        let (word, rest) = split(comment);
        match word {
            "EOF" => self.is_over = true,
            "TYPE" => {
                let (name, kind) = split(rest);
                let place = self.place(name);
                let kind = match kind {
                    "counter" => Kind::Counter,
                    "gauge" => Kind::Gauge,
                    "histogram" => Kind::Histogram,
                    "summary" => Kind::Summary,
                    _ => Kind::Untyped,
                };
                self.page.families[place].kind = kind;
            }
            "HELP" => {
                let (name, help) = split(rest);
                let place = self.place(name);
                self.page.families[place].help = unescaped(help);
            }
            _ => {}
        }
    }

    fn place(&mut self, name: &'a str) -> usize {
        let (page, places) = (&mut self.page, &mut self.places);
        *places.entry(name).or_insert_with(|| {
            page.families.push(Family {
                name,
                kind: Kind::Untyped,
                help: Cow::Borrowed(""),
                samples: Vec::new(),
            });
            page.families.len() - 1
        })
    }

    /// Where a sample belongs: to the family of its own name, else to one that it is a part of.
    fn family_of(&mut self, name: &'a str) -> usize {
        let last = self.last.map(|place| (place, &self.page.families[place]));
        if let Some((place, _)) = last.filter(|(_, family)| family.name == name) {
            return place;
        }
        if let Some(&place) = self.places.get(name) {
            return place;
        }
        if let Some((place, _)) = last.filter(|(_, family)| is_part(family, name)) {
            return place;
        }
        let suffixes = ["_bucket", "_sum", "_count", "_total", "_created"];
        let stems = suffixes.iter().filter_map(|end| name.strip_suffix(end));
        let known = stems.filter_map(|stem| self.places.get(stem));
        let mut parts = known.filter(|&&place| is_part(&self.page.families[place], name));
        match parts.next() {
            Some(&place) => place,
            None => self.place(name),
        }
    }
}

/// True for a name that a family of this kind gives its samples.
fn is_part(family: &Family<'_>, name: &str) -> bool {
    let Some(suffix) = name.strip_prefix(family.name) else {
        return false;
    };
    match family.kind {
        Kind::Counter => matches!(suffix, "" | "_total" | "_created"),
        Kind::Histogram => matches!(suffix, "" | "_bucket" | "_sum" | "_count" | "_created"),
        Kind::Summary => matches!(suffix, "" | "_sum" | "_count" | "_created"),
        Kind::Gauge | Kind::Untyped => suffix.is_empty(),
    }
}

/// The first word, and what follows it.
fn split(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    (word, rest.trim_ascii())
}

fn sample(line: &str) -> Result<Sample<'_>, &'static str> {
    let is_end = |b: u8| matches!(b, b'{' | b' ' | b'\t');
    let end = line.bytes().position(is_end).ok_or("no value")?;
    let (name, rest) = line.split_at(end);
    if !is_name(name) {
        return Err("no name of a metric");
    }
    let mut labels = Vec::new();
    let rest = match rest.trim_ascii_start().strip_prefix('{') {
        Some(inside) => read_labels(inside, &mut labels)?,
        None => rest,
    };
    // An exemplar follows a value; no label's text can come here.
    let is_apart = |at: &usize| rest[..*at].ends_with(' ');
    let exemplar = memchr::memchr(b'#', rest.as_bytes()).filter(is_apart);
    let rest = &rest[..exemplar.unwrap_or(rest.len())];
    let mut words = rest.split_ascii_whitespace();
    let value = words.next().ok_or("no value")?;
    let value = number(value).ok_or("the value is no number")?;
    let timestamp = match words.next() {
        None => None,
        Some(text) => Some(number(text).ok_or("the timestamp is no number")?),
    };
    match words.next() {
        Some(_) => Err("more than a value and a timestamp"),
        None => Ok(Sample {
            name,
            labels,
            value,
            timestamp,
        }),
    }
}

/// Reads up to behind the closing brace.
fn read_labels<'a>(
    mut rest: &'a str,
    labels: &mut Vec<(&'a str, Cow<'a, str>)>,
) -> Result<&'a str, &'static str> {
    loop {
        rest = rest.trim_ascii_start();
        if let Some(after) = rest.strip_prefix('}') {
            return Ok(after);
        }
        let (name, value) = rest.split_once('=').ok_or("labels without an end")?;
        let name = name.trim_ascii();
        if !is_name(name) {
            return Err("no name of a label");
        }
        let value = value.trim_ascii_start();
        let value = value.strip_prefix('"').ok_or("a label without quotes")?;
        let end = end_of_quoted(value).ok_or("a label without an end")?;
        labels.push((name, unescaped(&value[..end])));
        rest = value[end + 1..].trim_ascii_start();
        rest = match rest.strip_prefix(',') {
            Some(after) => after,
            None if rest.starts_with('}') => rest,
            None => return Err("labels without a comma"),
        };
    }
}

/// Where the closing quote is.
fn end_of_quoted(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(b'"', b'\\', &bytes[from..])?;
        if bytes[at] == b'"' {
            return Some(at);
        }
        from = at + 2;
        if from > bytes.len() {
            return None;
        }
    }
}

fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => out.push('\n'),
                Some(escaped @ ('\\' | '"')) => out.push(escaped),
                Some(other) => out.extend(['\\', other]),
                None => out.push('\\'),
            },
            (c, false) => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// What a name is made of.
const NAME: [bool; 256] = {
    let mut all = [false; 256];
    let mut b = 0;
    while b < 128u8 {
        all[b as usize] = b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'.');
        b += 1;
    }
    all
};

/// Letters, digits, `_` and `:`, no digit first.
fn is_name(text: &str) -> bool {
    let first = text.bytes().next();
    first.is_some_and(|b| !b.is_ascii_digit()) && text.bytes().all(|b| NAME[usize::from(b)])
}

/// As Go reads it: also `+Inf`, `-Inf`, `NaN`.
fn number(text: &str) -> Option<f64> {
    // Rust takes words like `infinity` too; a value begins with a digit, a sign or a point.
    match text {
        "NaN" | "nan" => Some(f64::NAN),
        "+Inf" | "Inf" | "+inf" | "inf" => Some(f64::INFINITY),
        "-Inf" | "-inf" => Some(f64::NEG_INFINITY),
        _ if text
            .bytes()
            .any(|b| b.is_ascii_alphabetic() && !matches!(b, b'e' | b'E')) =>
        {
            None
        }
        _ => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(line: &str) -> (String, Vec<(String, String)>, f64, Option<f64>) {
        let text = format!("{line}\n");
        let page = parse(&text);
        assert_eq!((page.bad_lines, page.samples_count()), (0, 1), "{line}");
        let sample = &page.families[0].samples[0];
        let labels = sample.labels.iter();
        let labels = labels.map(|(name, value)| ((*name).to_owned(), value.to_string()));
        let labels = labels.collect();
        (sample.name.into(), labels, sample.value, sample.timestamp)
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.into(), value.into())
    }

    #[test]
    fn names_labels_values_and_times_are_read_in_all_their_forms() {
        let none = Vec::new();
        assert_eq!(one("a 1"), ("a".into(), none.clone(), 1.0, None));
        assert_eq!(one("a{} 4"), ("a".into(), none.clone(), 4.0, None));
        assert_eq!(
            one("a\t-2.5e3\t99"),
            ("a".into(), none, -2500.0, Some(99.0))
        );
        let (name, labels, value, time) = one(
            r#"vllm:x_total{ m="a, \"b\" }\\\n", le = "+Inf" , } +Inf 1395066363.5 # {t="}"} 2"#,
        );
        assert_eq!((name.as_str(), value), ("vllm:x_total", f64::INFINITY));
        assert_eq!(labels, [pair("m", "a, \"b\" }\\\n"), pair("le", "+Inf")]);
        assert_eq!(time, Some(1_395_066_363.5));
        assert_eq!(one("x 1 # {a=\"b\"} 0.5 12").2, 1.0);
        assert!(one("x NaN").2.is_nan());
        assert_eq!(
            one(r#"x{m="NVIDIA H100"} 9223372036854775794"#).2,
            9.223_372_036_854_776e18
        );
    }

    #[test]
    fn samples_are_with_the_family_that_their_name_is_of() {
        let text = "# HELP h Time\\nspent.\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_sum 2\n\
                    h_count 1\n# TYPE h_created gauge\nh_created 7\n# TYPE c counter\nc_total 3\n\
                    h_count{x=\"y\"} 4\nlone_count 5\n# TYPE g gauge\n# TYPE s summary\ns 1\n\
                    # TYPE h_sum gauge\nh_sum 8\n";
        let page = parse(text);
        let names: Vec<(&str, Kind, usize)> = page
            .families
            .iter()
            .map(|f| (f.name, f.kind, f.samples.len()))
            .collect();
        assert_eq!(
            names,
            [
                ("h", Kind::Histogram, 4),
                ("h_created", Kind::Gauge, 1),
                ("c", Kind::Counter, 1),
                ("lone_count", Kind::Untyped, 1),
                ("s", Kind::Summary, 1),
                ("h_sum", Kind::Gauge, 1),
            ]
        );
        assert_eq!(page.families[0].help, "Time\nspent.");
    }

    #[test]
    fn a_bad_line_costs_itself_only_and_is_named() {
        for (line, reason) in [
            ("nothing", "no value"),
            ("x ", "no value"),
            ("x{a=\"1\"}", "no value"),
            ("9x 1", "no name of a metric"),
            ("x{9=\"\"} 1", "no name of a label"),
            ("x{a=1} 1", "a label without quotes"),
            ("x{a=\"1 1", "a label without an end"),
            ("x{a=\"1\\", "a label without an end"),
            ("x{a=\"1\" b=\"2\"} 1", "labels without a comma"),
            ("x{a", "labels without an end"),
            ("x one", "the value is no number"),
            ("x infinity", "the value is no number"),
            (
                "x ERROR - FAILED TO CONVERT TO STRING",
                "the value is no number",
            ),
            ("x 1 now", "the timestamp is no number"),
            ("x 1 2 3", "more than a value and a timestamp"),
            ("<html>", "no value"),
        ] {
            let text = format!("a 1\n{line}\nb 2\n");
            let page = parse(&text);
            assert_eq!(page.first_bad, Some((2, reason)), "{line}");
            assert_eq!((page.bad_lines, page.samples_count()), (1, 2), "{line}");
        }
    }

    #[test]
    fn a_page_that_is_cut_loses_its_last_line() {
        let page = parse("a 1\nb 12");
        assert!(page.is_cut);
        assert_eq!(page.samples_count(), 1);
        assert!(!parse("a 1\n").is_cut && !parse("a 1\n# EOF").is_cut && !parse("").is_cut);
        let over = parse("a 1\n# EOF\nb 2\n");
        assert_eq!((over.samples_count(), over.is_cut), (1, false));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC*|[ -~\n\t\"\\\\{}=#,]{0,200}") {
            let page = parse(&text);
            prop_assert!(page.samples_count() <= text.lines().count());
        }

        #[test]
        fn what_is_written_is_read_again(
            name in "[a-z_:][a-z0-9_:]{0,12}",
            labels in proptest::collection::vec(("[a-z_][a-z0-9_]{0,6}", ".{0,12}"), 0..4),
            value in proptest::num::f64::NORMAL,
        ) {
            let escape = |text: &str| {
                let text = text.replace('\\', "\\\\").replace('"', "\\\"");
                text.replace('\n', "\\n")
            };
            let inside: Vec<String> = labels
                .iter()
                .map(|(name, text)| format!("{name}=\"{}\"", escape(text)))
                .collect();
            let line = format!("{name}{{{}}} {value:e}\n", inside.join(","));
            let page = parse(&line);
            let sample = &page.families[0].samples[0];
            prop_assert_eq!(sample.value, value);
            let read: Vec<(String, String)> = sample
                .labels
                .iter()
                .map(|(name, text)| ((*name).to_owned(), text.to_string()))
                .collect();
            prop_assert_eq!(read, labels);
        }
    }
}
