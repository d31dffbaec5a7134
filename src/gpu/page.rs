//! GPUs by a page of metrics: of a DCGM exporter, or of a Triton server.

use super::fields::Fields;
use super::fresh::Freshness;
use super::history::thin;
use super::{Device, Further, GpuSample, Quantity, Source, dcgm, triton};
use crate::base::{Ns, now};
use crate::http::fetch::{Answer, Fetch, Limits};
use crate::scrape::{self, Page, Sample};
use crate::stats::{Series, Track};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Devices of one page: the largest systems that share an exporter have some dozens.
const DEVICES_MAX: usize = 1_024;
/// Values kept of a field: 3 hours of scrapes; then every other one goes.
const FURTHER_MAX: usize = 1 << 15;
/// Different faults that are told apart.
const FAULTS_MAX: usize = 16;

/// A page that is read again and again.
pub struct PageSource {
    fetch: Fetch,
    /// Of devices that the page does not place.
    hostname: String,
    fields: Fields,
    devices: Vec<Device>,
    /// By device and field.
    further: BTreeMap<(usize, usize), Series>,
    fresh: Freshness,
    /// It has DCGM's fields.
    is_dcgm: bool,
    invalid: u64,
    scrapes: u64,
    failed: u64,
    faults: BTreeMap<String, u64>,
}

/// What a page says of one device.
struct Row {
    device: usize,
    values: [Option<f64>; Quantity::COUNT],
    /// Place in the table of the field that a value is from.
    ranks: [usize; Quantity::COUNT],
}

impl PageSource {
    /// Reads the page once, under limits of its own. `hostname` is of devices that it does not
    /// place; empty is this machine.
    ///
    /// Errors: a fragment that says what is wrong: not reachable, a status, no metrics, no GPU.
    pub fn open(
        fetch: Fetch,
        first: Limits,
        hostname: String,
        fields: Fields,
    ) -> Result<PageSource, String> {
        let look = Fetch {
            limits: first,
            ..fetch.clone()
        };
        let text = text_of(look.get()?, first.body)?;
        let mut source = PageSource::new(fetch, hostname, fields);
        if text.trim_ascii_start().starts_with('<') {
            return Err("it is HTML, no metrics; give the exporter's /metrics".into());
        }
        let page = scrape::parse(&text);
        source.take(&page, now());
        if source.devices.is_empty() {
            return Err(no_gpu(&page));
        }
        // What it said before the run is told of no one.
        source.further.clear();
        (source.invalid, source.fresh) = (0, Freshness::default());
        source.faults.clear();
        Ok(source)
    }

    fn new(fetch: Fetch, hostname: String, fields: Fields) -> PageSource {
        PageSource {
            fetch,
            hostname,
            fields,
            devices: Vec::new(),
            further: BTreeMap::new(),
            fresh: Freshness::default(),
            is_dcgm: false,
            invalid: 0,
            scrapes: 0,
            failed: 0,
            faults: BTreeMap::new(),
        }
    }

    /// Takes what a page says.
    fn take(&mut self, page: &Page<'_>, at: Ns) -> Vec<GpuSample> {
        let mut rows: Vec<Row> = Vec::new();
        for sample in page.families.iter().flat_map(|family| &family.samples) {
            if let Some(name) = dcgm::field(sample.name) {
                self.is_dcgm = true;
                self.dcgm(name, sample, at, &mut rows);
            } else if let Some((rank, &(_, quantity, factor))) = triton::FIELDS
                .iter()
                .enumerate()
                .find(|(_, row)| row.0 == sample.name)
                && let Some(row) = self.row(triton::device(sample, self.devices.len()), &mut rows)
            {
                self.put(row, quantity, (rank, factor), sample.value);
            }
        }
        if self.is_dcgm {
            self.invalid += page.bad_lines;
        }
        if page.is_cut {
            self.fault("the page ends in the middle of a line".into());
        }
        let mut said = DefaultHasher::new();
        let samples = rows.into_iter().map(|row| {
            let sample = GpuSample {
                device: row.device,
                at,
                values: with_total(row.values),
            };
            for quantity in Quantity::ALL {
                sample.get(quantity).map(f64::to_bits).hash(&mut said);
            }
            sample
        });
        let samples: Vec<GpuSample> = samples.collect();
        self.fresh.push(at, said.finish());
        samples
    }

    fn dcgm(&mut self, name: &str, sample: &Sample<'_>, at: Ns, rows: &mut Vec<Row>) {
        let known = dcgm::FIELDS.iter().position(|(field, ..)| *field == name);
        let mask = dcgm::REASONS.contains(&name);
        let further = self.fields.0.iter().position(|field| field.name == name);
        if known.is_none() && !mask && further.is_none() {
            return;
        }
        let Some(row) = self.row(dcgm::device(sample), rows) else {
            return;
        };
        if dcgm::is_blank(sample.value) || !sample.value.is_finite() {
            self.invalid += 1;
            return;
        }
        if let Some(rank) = known {
            let (_, quantity, factor) = dcgm::FIELDS[rank];
            self.put(row, quantity, (rank, factor), sample.value);
        }
        if mask {
            for (quantity, value) in dcgm::throttles(sample.value).into_iter().flatten() {
                self.put(row, quantity, (0, 1.0), value);
            }
        }
        if let Some(field) = further {
            let series = self.further.entry((row.device, field)).or_default();
            series.push(at, sample.value);
            if series.times.len() > FURTHER_MAX {
                thin(series);
            }
        }
    }

    fn put(&mut self, row: &mut Row, quantity: Quantity, (rank, factor): (usize, f64), raw: f64) {
        let (at, value) = (quantity as usize, raw * factor);
        if !quantity.is_possible(value) {
            self.invalid += 1;
        } else if row.values[at].is_none() || rank < row.ranks[at] {
            (row.values[at], row.ranks[at]) = (Some(value), rank);
        }
    }

    /// The row of a device; `None` for one too many.
    fn row<'a>(&mut self, mut device: Device, rows: &'a mut Vec<Row>) -> Option<&'a mut Row> {
        if device.hostname.is_empty() {
            device.hostname.clone_from(&self.hostname);
        }
        let is_same = |known: &Device| {
            let by_uuid = !device.uuid.is_empty() && known.uuid == device.uuid;
            let by_index = device.uuid.is_empty() && known.index == device.index;
            let place = (&known.hostname, &known.instance);
            place == (&device.hostname, &device.instance) && (by_uuid || by_index)
        };
        let place = match self.devices.iter().position(is_same) {
            Some(place) => place,
            None if self.devices.len() == DEVICES_MAX => {
                self.fault(format!(
                    "more than {DEVICES_MAX} GPUs on one page: the rest is left out"
                ));
                return None;
            }
            None => {
                self.devices.push(device);
                self.devices.len() - 1
            }
        };
        let found = rows.iter().position(|row| row.device == place);
        let found = found.unwrap_or_else(|| {
            rows.push(Row {
                device: place,
                values: [None; Quantity::COUNT],
                ranks: [0; Quantity::COUNT],
            });
            rows.len() - 1
        });
        rows.get_mut(found)
    }

    fn fault(&mut self, reason: String) {
        let known = self.faults.len() < FAULTS_MAX || self.faults.contains_key(&reason);
        let reason = if known { reason } else { "other faults".into() };
        *self.faults.entry(reason).or_default() += 1;
    }
}

/// Used and free make the total where it is not told itself.
fn with_total(mut values: [Option<f64>; Quantity::COUNT]) -> [Option<f64>; Quantity::COUNT] {
    let of = |quantity: Quantity| values[quantity as usize];
    let sum = of(Quantity::MemoryUsed).zip(of(Quantity::MemoryFree));
    let total = of(Quantity::MemoryTotal).or(sum.map(|(used, free)| used + free));
    values[Quantity::MemoryTotal as usize] = total;
    values
}

/// The text of an answer that may be a page.
fn text_of(answer: Answer, bytes_max: usize) -> Result<String, String> {
    match answer.status {
        200..300 if answer.is_whole => Ok(answer.text()),
        200..300 if answer.body.len() >= bytes_max => {
            let mib = bytes_max >> 20;
            Err(format!("more than {mib} MiB is no page of metrics"))
        }
        200..300 => Err("the page does not end in time".into()),
        status => Err(format!("it answered {status}")),
    }
}

/// Why there is nothing on a page that was to tell of GPUs.
fn no_gpu(page: &Page<'_>) -> String {
    let count = page.samples_count();
    match (count, page.is_cut) {
        (0, true) if page.bad_lines == 0 => "the page is cut in the middle of a line".into(),
        (0, _) => "it is no page of metrics (Prometheus text); give the exporter's /metrics".into(),
        _ => format!(
            "it has {count} values and none of a GPU: DCGM's begin with DCGM_FI_, Triton's with \
             nv_gpu_"
        ),
    }
}

impl Source for PageSource {
    fn name(&self) -> &str {
        &self.fetch.url
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn sample(&mut self) -> Vec<GpuSample> {
        self.scrapes += 1;
        let asked = now();
        let answer = self.fetch.get();
        // The page was made in between.
        let at = Ns(asked.0 + now().saturating_since(asked).0 / 2);
        let text = answer.and_then(|answer| text_of(answer, self.fetch.limits.body));
        let samples = text.map(|text| self.take(&scrape::parse(&text), at));
        match samples {
            Ok(samples) if !samples.is_empty() => samples,
            other => {
                self.failed += 1;
                let reason = other.err().unwrap_or_else(|| "no GPU on the page".into());
                self.fault(reason);
                Vec::new()
            }
        }
    }

    fn notes(&self) -> Vec<String> {
        let url = &self.fetch.url;
        let remedy = match self.is_dcgm {
            true => "start the exporter with DCGM_EXPORTER_INTERVAL=100 (ms)",
            false => "start the server with --metrics-interval-ms 100",
        };
        let mut notes: Vec<String> = self.fresh.note(url, remedy).into_iter().collect();
        if self.failed > 0 {
            let most = self.faults.iter().max_by_key(|(_, count)| **count);
            let reason = most.map_or("", |(reason, _)| reason);
            notes.push(format!(
                "{url}: {} of {} scrapes failed ({reason}): its GPUs are not known in between",
                self.failed, self.scrapes
            ));
        }
        if self.invalid > 0 {
            notes.push(format!(
                "{url}: {} values that could not be (blanks, out of range) were dropped",
                self.invalid
            ));
        }
        notes
    }

    fn invalid_samples(&self) -> u64 {
        self.invalid
    }

    fn further(&mut self) -> Vec<Further> {
        let all = std::mem::take(&mut self.further).into_iter();
        let one = |((device, field), series): ((usize, usize), Series)| {
            let field = &self.fields.0[field];
            Further {
                device,
                header: field.header,
                track: Track {
                    source: String::new(),
                    tag: field.tag.into(),
                    unit: field.unit.into(),
                    kind: field.kind,
                    series,
                },
            }
        };
        all.map(one).collect()
    }

    fn errors(&self) -> Vec<(String, u64)> {
        let shown =
            |(reason, count): (&String, &u64)| (format!("{}: {reason}", self.fetch.url), *count);
        self.faults.iter().map(shown).collect()
    }

    fn period(&self) -> Option<Ns> {
        self.fresh.period()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Via;
    use crate::http::fetch::Way;
    use crate::runtime::Dial;

    fn source(hostname: &str) -> PageSource {
        let fetch = Fetch {
            url: "http://n1:9400/metrics".into(),
            way: Way {
                addr: None,
                tls: None,
                via: Via::Direct,
                dial: Dial::default(),
            },
            request: Vec::new(),
            limits: Limits {
                connect: Ns(1),
                whole: Ns(1),
                body: 9,
            },
        };
        PageSource::new(fetch, hostname.into(), Fields::default())
    }

    fn take(source: &mut PageSource, text: &str) -> Vec<GpuSample> {
        source.take(&scrape::parse(text), Ns(1))
    }

    #[test]
    fn a_field_that_is_told_twice_is_the_better_one_wherever_it_stands() {
        let text = "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\"} 90\n\
                    DCGM_FI_DEV_POWER_USAGE_INSTANT{gpu=\"0\"} 120\n\
                    DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total{gpu=\"0\"} 5000\n\
                    DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu=\"0\"} 4\n";
        let mut reversed: Vec<&str> = text.lines().collect();
        reversed.reverse();
        for text in [text.to_owned(), reversed.join("\n") + "\n"] {
            let found = take(&mut source(""), &text);
            assert_eq!(found[0].get(Quantity::Power), Some(120.0));
            assert_eq!(found[0].get(Quantity::Energy), Some(5.0));
            assert_eq!(found[0].get(Quantity::ThrottlePower), Some(1.0));
            assert_eq!(found[0].get(Quantity::ThrottleThermal), Some(0.0));
        }
    }

    #[test]
    fn machines_and_instances_are_devices_of_their_own() {
        let mut one = source("n9");
        let row = |labels: &str| format!("DCGM_FI_DEV_FB_USED{{gpu=\"0\",{labels}}} 1\n");
        let text = row("UUID=\"a\",Hostname=\"n1\"")
            + &row("UUID=\"a\",Hostname=\"n2\"")
            + &row("UUID=\"a\",Hostname=\"n2\",GPU_I_ID=\"3\"")
            + &row("UUID=\"b\"");
        assert_eq!(take(&mut one, &text).len(), 4);
        assert_eq!(take(&mut one, &text).len(), 4);
        let hosts: Vec<&str> = one.devices.iter().map(|d| d.hostname.as_str()).collect();
        assert_eq!(hosts, ["n1", "n2", "n2", "n9"]);
    }

    #[test]
    fn a_page_of_very_many_gpus_or_of_escapes_does_no_harm() {
        let mut one = source("");
        let row = |at: usize| format!("nv_gpu_power_usage{{gpu_uuid=\"{at}\"}} 1\n");
        let text: String = (0..DEVICES_MAX + 9).map(row).collect();
        assert_eq!(take(&mut one, &text).len(), DEVICES_MAX);
        assert_eq!(one.errors()[0].1, 9);
        let mut one = source("");
        let long = "x".repeat(5_000);
        take(
            &mut one,
            &format!("DCGM_FI_DEV_GPU_UTIL{{modelName=\"\x1b[2J{long}\"}} 1\n"),
        );
        let name = &one.devices[0].name;
        assert!(
            !name.contains('\x1b') && name.chars().count() <= 100,
            "{name}"
        );
    }
}
