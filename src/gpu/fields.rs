//! A file of further DCGM fields, as the exporter itself reads it: `FIELD, type, help` on a line.

use super::{Quantity, dcgm};
use crate::stats::TrackKind;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Bytes of a file that are read: the exporter's own has 8 kB.
const BYTES_MAX: u64 = 1 << 20;
/// Fields of one file: DCGM has some 500.
const FIELDS_MAX: usize = 1_000;

/// A field that the table lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// `DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL`.
    pub name: String,
    /// `nvidia_nvlink_bandwidth_total`, as AIPerf makes it.
    pub tag: &'static str,
    /// From its help.
    pub header: &'static str,
    /// What its help has in `(in ...)`.
    pub unit: &'static str,
    /// Gauge or counter.
    pub kind: TrackKind,
}

/// Fields to read beside those of the table.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Fields(pub(super) Vec<Field>);

/// A text that stays, as names of metrics do. Each is kept once, whatever the number of runs.
fn kept(text: &str) -> &'static str {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    match all.get(text) {
        Some(known) => known,
        None => {
            let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
            all.insert(text);
            text
        }
    }
}

impl Fields {
    /// Reads a file. Fields that the table has are left out: they are read anyway.
    ///
    /// Errors name file, line and what is wrong.
    pub fn read(path: &Path) -> Result<Fields, String> {
        let shown = path.display();
        let file = std::fs::File::open(path).map_err(|error| format!("{shown}: {error}"))?;
        let mut text = String::new();
        let count = file.take(BYTES_MAX + 1).read_to_string(&mut text);
        match count {
            Err(error) => Err(format!("{shown}: {error}")),
            Ok(count) if count as u64 > BYTES_MAX => {
                Err(format!("{shown}: more than 1 MiB is no list of fields"))
            }
            Ok(_) => {
                Fields::parse(&text).map_err(|(line, fault)| format!("{shown}:{line}: {fault}"))
            }
        }
    }

    fn parse(text: &str) -> Result<Fields, (usize, String)> {
        let mut fields: Vec<Field> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let field = field(line).map_err(|fault| (at + 1, fault))?;
            let is_own = |quantity: Quantity| quantity.names().0 == field.tag;
            let known = dcgm::FIELDS.iter().any(|(name, ..)| *name == field.name)
                || Quantity::ALL.into_iter().any(is_own);
            if known || fields.iter().any(|own| own.tag == field.tag) {
                continue;
            }
            if fields.len() == FIELDS_MAX {
                return Err((at + 1, format!("more than {FIELDS_MAX} fields")));
            }
            fields.push(field);
        }
        Ok(Fields(fields))
    }
}

fn field(line: &str) -> Result<Field, String> {
    let mut parts = line.splitn(3, ',').map(str::trim);
    let (Some(name), Some(kind), Some(help)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("give `FIELD, type, help`".into());
    };
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let Some(word) = name
        .strip_prefix("DCGM_FI_")
        .filter(|word| word.chars().all(is_part))
    else {
        return Err(format!(
            "`{name}` is no DCGM field: its name begins with DCGM_FI_"
        ));
    };
    let kind = match kind {
        "gauge" => TrackKind::Gauge,
        "counter" => TrackKind::Counter,
        other => return Err(format!("type `{other}`; give gauge or counter")),
    };
    let word = word.strip_prefix("DEV_").unwrap_or(word);
    let word = word.strip_prefix("PROF_").unwrap_or(word).to_lowercase();
    let (said, unit) = match help.split_once("(in ") {
        Some((said, rest)) => (said, rest.split(')').next().unwrap_or_default()),
        None => (help, ""),
    };
    let said = said.split('(').next().unwrap_or_default();
    let said = said.trim().trim_end_matches('.');
    let said = if said.is_empty() { &word } else { said };
    Ok(Field {
        tag: kept(&format!("nvidia_{word}")),
        header: kept(said),
        unit: kept(unit.trim()),
        name: name.to_owned(),
        kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_gets_the_tag_of_aiperf_and_the_unit_of_its_help() {
        let text = "# Clocks\n\nDCGM_FI_DEV_SM_CLOCK, gauge, SM clock frequency (in MHz).\n\
                    DCGM_FI_DEV_VIDEO_CLOCK, gauge, Video clock, all of it (in MHz).\r\n\
                    DCGM_FI_PROF_GR_ENGINE_ACTIVE ,gauge, \n\
                    DCGM_FI_DEV_MEMORY_USED, gauge, the tag of another\n\
                    DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL,counter,Bytes over all lanes.\n";
        let fields = Fields::parse(text).unwrap().0;
        let shown: Vec<_> = fields
            .iter()
            .map(|f| (f.tag, f.header, f.unit, f.kind))
            .collect();
        let (gauge, counter) = (TrackKind::Gauge, TrackKind::Counter);
        assert_eq!(
            shown,
            [
                ("nvidia_video_clock", "Video clock, all of it", "MHz", gauge),
                ("nvidia_gr_engine_active", "gr_engine_active", "", gauge),
                (
                    "nvidia_nvlink_bandwidth_total",
                    "Bytes over all lanes",
                    "",
                    counter
                ),
            ]
        );
        assert!(std::ptr::eq(kept("nvidia_video_clock"), fields[0].tag));
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        for (line, fault) in [
            ("DCGM_FI_DEV_X", "give `FIELD, type, help`"),
            ("POWER, gauge, x", "`POWER` is no DCGM field"),
            ("DCGM_FI_DEV_X y, gauge, x", "is no DCGM field"),
            ("DCGM_FI_DEV_X, label, x", "type `label`"),
        ] {
            let (at, told) = Fields::parse(&format!("# c\n{line}\n")).unwrap_err();
            assert!(at == 2 && told.contains(fault), "{told}");
        }
        let error = Fields::read(Path::new("/no/such.csv")).unwrap_err();
        assert!(error.starts_with("/no/such.csv: "), "{error}");
    }
}
