//! Pages as they were, compressed in memory, for the file that has every scrape.

use super::history::{is_of_origin, kind};
use crate::base::Ns;
use crate::scrape::{Family, parse};
use crate::stats::server::{FamilyKind, Sample, Scrape};
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use std::collections::HashMap;
use std::io::{Read, Write};

/// Compressed bytes of one page's scrapes; later ones are left out and counted. Pages that change
/// little take some percent of their size: this is an hour of large ones.
const BYTES_MAX: usize = 64 << 20;

/// Scrapes of one page.
pub struct Spool {
    url: String,
    packed: DeflateEncoder<Vec<u8>>,
    /// Time, duration and bytes of each.
    scrapes: Vec<(Ns, Ns, usize)>,
    left_out: u64,
}

impl Spool {
    /// An empty one.
    pub fn new(url: String) -> Spool {
        Spool {
            url,
            packed: DeflateEncoder::new(Vec::new(), Compression::fast()),
            scrapes: Vec::new(),
            left_out: 0,
        }
    }

    pub(super) fn push(&mut self, at: Ns, latency: Ns, page: &str) {
        let is_full = self.left_out > 0 || self.packed.get_ref().len() > BYTES_MAX;
        // Writing to memory does not fail.
        if is_full || self.packed.write_all(page.as_bytes()).is_err() {
            self.left_out += 1;
            return;
        }
        self.scrapes.push((at, latency, page.len()));
    }

    /// Scrapes for which there was no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Gives each scrape, in order.
    pub fn replay(self, mut each: impl FnMut(&Scrape)) {
        let Ok(packed) = self.packed.finish() else {
            return;
        };
        let mut unpacked = DeflateDecoder::new(packed.as_slice());
        let mut page = Vec::new();
        for (at, latency, bytes) in self.scrapes {
            page.resize(bytes, 0);
            if unpacked.read_exact(&mut page).is_err() {
                return;
            }
            let text = String::from_utf8_lossy(&page);
            let families = parse(&text).families;
            let families = families.iter().filter(|family| !is_of_origin(family.name));
            each(&Scrape {
                url: self.url.clone(),
                at,
                latency,
                families: families.map(named_samples).collect(),
            });
        }
    }
}

fn named_samples(family: &Family<'_>) -> (String, Vec<Sample>) {
    let kind = kind(family);
    let name = match kind {
        FamilyKind::Counter => family.name.strip_suffix("_total").unwrap_or(family.name),
        _ => family.name,
    };
    let mut samples: Vec<Sample> = Vec::new();
    let mut places: HashMap<Vec<(String, String)>, usize> = HashMap::new();
    for part in &family.samples {
        let suffix = part.name.strip_prefix(family.name).unwrap_or_default();
        // No number of JSON is NaN or infinite; the quantiles of a summary are no samples.
        let is_quantile = kind == FamilyKind::Summary && suffix.is_empty();
        if !part.value.is_finite() || is_quantile || suffix == "_created" {
            continue;
        }
        let labels = part
            .labels
            .iter()
            .filter(|(name, _)| !(*name == "le" && kind == FamilyKind::Histogram));
        let labels: Vec<(String, String)> = labels
            .map(|(name, value)| ((*name).to_owned(), value.to_string()))
            .collect();
        let place = *places.entry(labels.clone()).or_insert_with(|| {
            samples.push(Sample {
                labels,
                ..Sample::default()
            });
            samples.len() - 1
        });
        let sample = &mut samples[place];
        match (kind, suffix) {
            (FamilyKind::Gauge | FamilyKind::Counter, _) => sample.value = Some(part.value),
            (_, "_sum") => sample.sum = Some(part.value),
            (_, "_count") => sample.count = Some(part.value),
            _ => {
                let le = part.label("le").unwrap_or_default();
                sample.buckets.push((le.to_owned(), part.value));
            }
        }
    }
    (name.to_owned(), samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scrape_comes_back_as_it_was() {
        let mut spool = Spool::new("http://h:1/metrics".into());
        let page = "# TYPE a counter\na_total{x=\"1\"} 3\n# TYPE h histogram\n\
                    h_bucket{m=\"n\",le=\"0.5\"} 1\nh_bucket{m=\"n\",le=\"+Inf\"} 2\n\
                    h_sum{m=\"n\"} 4\nh_count{m=\"n\"} 2\n# TYPE g gauge\ng NaN\n\
                    # TYPE a_created gauge\na_created 1\n";
        spool.push(Ns(5), Ns(2), page);
        spool.push(Ns(9), Ns(1), "g 1\n");
        let mut seen = Vec::new();
        spool.replay(|scrape| seen.push(scrape.clone()));
        assert_eq!((seen.len(), seen[0].at, seen[1].latency), (2, Ns(5), Ns(1)));
        let names: Vec<&str> = seen[0]
            .families
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(names, ["a", "h", "g"]);
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(seen[0].families[0].1[0].value, Some(3.0));
        let histogram = &seen[0].families[1].1;
        assert_eq!(
            histogram,
            &[Sample {
                labels: vec![pair("m", "n")],
                value: None,
                buckets: vec![("0.5".into(), 1.0), ("+Inf".into(), 2.0)],
                sum: Some(4.0),
                count: Some(2.0),
            }]
        );
        assert!(seen[0].families[2].1.is_empty());
    }
}
