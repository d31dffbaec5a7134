//! What the servers' own pages of metrics say of a measurement: the input of its reports.

use super::summary::Distribution;
use crate::base::Ns;

/// All pages over the measurement.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ServerReport {
    /// The measured window.
    pub window: (Ns, Ns),
    /// The pages, those asked for by name first.
    pub endpoints: Vec<Endpoint>,
    /// By name.
    pub families: Vec<Family>,
    /// What the servers say by common names, a row for each server on each page.
    pub engines: Vec<Engine>,
}

/// How a page was read.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Endpoint {
    /// Its url, as shown.
    pub url: String,
    /// `host:port`, or what stands for it.
    pub source: String,
    /// Reads that gave a page.
    pub fetches: u64,
    /// Reads that did not: no answer, another status, cut, too large, nothing that is a metric.
    pub failures: u64,
    /// What was wrong with the first of those.
    pub first_failure: Option<String>,
    /// Times of the first and the last page.
    pub fetched: Option<(Ns, Ns)>,
    /// Mean time that a read took.
    pub latency_mean: Ns,
    /// Pages that differ from the one before.
    pub updates: u64,
    /// Times of the first and the last of them.
    pub updated: Option<(Ns, Ns)>,
    /// Mean and median time between two of them.
    pub update_interval: Option<(Ns, Ns)>,
    /// Pages on which a counter had fallen.
    pub resets: u64,
    /// Values that are no numbers: NaN and the infinities.
    pub invalid_values: u64,
    /// Lines that could not be read.
    pub bad_lines: u64,
    /// The most series that were beyond the cap on one page.
    pub series_left_out: u64,
    /// True when its counters stood still before the last page was taken.
    pub is_settled: bool,
}

/// What a family counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FamilyKind {
    /// Goes up and down.
    Gauge,
    /// Grows.
    Counter,
    /// Buckets, sum and count.
    Histogram,
    /// Sum and count only.
    Summary,
}

impl FamilyKind {
    /// As exported.
    pub fn name(self) -> &'static str {
        match self {
            FamilyKind::Gauge => "gauge",
            FamilyKind::Counter => "counter",
            FamilyKind::Histogram => "histogram",
            FamilyKind::Summary => "summary",
        }
    }
}

/// Series of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Without `_total`.
    pub name: String,
    /// What it counts.
    pub kind: FamilyKind,
    /// The server's own words.
    pub help: String,
    /// As far as name and words tell.
    pub unit: Option<&'static str>,
    /// Page by page.
    pub series: Vec<Series>,
}

/// One set of labels on one page.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Place in [`ServerReport::endpoints`].
    pub endpoint: usize,
    /// By name.
    pub labels: Vec<(String, String)>,
    /// Over the measurement.
    pub stats: SeriesStats,
    /// Second by second, or as long as slices are asked to be; empty for what never moved.
    pub slices: Vec<Slice>,
}

/// A series over the measurement.
#[derive(Clone, Debug, PartialEq)]
pub enum SeriesStats {
    /// The samples in the window, with the sample deviation.
    Gauge(Distribution),
    /// From the page before the first request to the last page.
    Counter(CounterStats),
    /// The same.
    Histogram(HistogramStats),
}

/// A counter over the measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterStats {
    /// By how much it has grown; what it lost by a restart is in it.
    pub total: f64,
    /// That per second of the window.
    pub rate: f64,
    /// Rates of the whole slices: mean, least, most, sample deviation. Absent without one.
    pub rates: Option<[f64; 4]>,
}

/// A histogram over the measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramStats {
    /// Number of values.
    pub count: f64,
    /// Their sum.
    pub sum: f64,
    /// Values per second of the window.
    pub count_rate: f64,
    /// Sum per second of the window.
    pub sum_rate: f64,
    /// In the order of [`super::buckets::ESTIMATED`]; absent without values or buckets.
    pub percentiles: Option<[f64; 9]>,
    /// Upper bound as the server writes it, and the values up to it; empty for a summary.
    pub buckets: Vec<(String, f64)>,
}

/// A part of the measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Its begin.
    pub start: Ns,
    /// Its end.
    pub end: Ns,
    /// False for a last one that is shorter.
    pub is_complete: bool,
    /// What was in it.
    pub value: SliceValue,
}

/// What was in a slice.
#[derive(Clone, Debug, PartialEq)]
pub enum SliceValue {
    /// Mean, least and most.
    Gauge([f64; 3]),
    /// Growth, and that per second.
    Counter([f64; 2]),
    /// Count, sum, and the count up to each bucket.
    Histogram {
        /// Number of values.
        count: f64,
        /// Their sum.
        sum: f64,
        /// In the order of the series' buckets.
        buckets: Vec<f64>,
    },
}

/// One server by names that all servers share.
#[derive(Clone, Debug, PartialEq)]
pub struct Engine {
    /// `vLLM`.
    pub name: &'static str,
    /// Url of its page.
    pub url: String,
    /// `host:port`.
    pub source: String,
    /// What it says; absent quantities are left out.
    pub quantities: Vec<Quantity>,
    /// Requests that it has finished over the measurement.
    pub finished: Option<f64>,
}

/// A quantity by its common name.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    /// `requests_running`.
    pub tag: &'static str,
    /// `Requests Running`.
    pub header: &'static str,
    /// Unit; empty for counts.
    pub unit: &'static str,
    /// `avg`, `max`, `p50`, `p99`, `count`, `sum`, `total`, `rate`: those that it has.
    pub stats: Vec<(&'static str, f64)>,
}

impl Quantity {
    /// One of its statistics.
    pub fn stat(&self, key: &str) -> Option<f64> {
        let found = self.stats.iter().find(|(name, _)| *name == key);
        found.map(|(_, value)| *value)
    }
}

impl Engine {
    /// One of its quantities.
    pub fn quantity(&self, tag: &str) -> Option<&Quantity> {
        self.quantities.iter().find(|quantity| quantity.tag == tag)
    }
}

impl ServerReport {
    /// True when a page was read.
    pub fn is_there(&self) -> bool {
        self.endpoints.iter().any(|endpoint| endpoint.fetches > 0)
    }

    /// The mean TTFT of all servers of the first one's kind, in ms: others may be behind it.
    pub fn ttft_ms(&self) -> Option<f64> {
        let mean = |engine: &Engine| {
            let ttft = engine.quantity("time_to_first_token")?;
            Some((ttft.stat("count")?, ttft.stat("avg")?))
        };
        let parts: Vec<(f64, f64)> = self.front().filter_map(mean).collect();
        let count: f64 = parts.iter().map(|(count, _)| count).sum();
        let sum: f64 = parts.iter().map(|(count, avg)| count * avg).sum();
        (count > 0.0).then(|| sum / count)
    }

    /// Requests that the servers of the first one's kind have finished; absent when one of them
    /// does not say.
    pub fn finished(&self) -> Option<f64> {
        let mut all = self.front().peekable();
        all.peek()?;
        all.map(|engine| engine.finished).sum()
    }

    fn front(&self) -> impl Iterator<Item = &Engine> {
        let first = self.engines.first().map(|engine| engine.name);
        let is_first = move |engine: &&Engine| Some(engine.name) == first;
        self.engines.iter().filter(is_first)
    }
}

/// One page as it was, for the file of all scrapes.
#[derive(Clone, Debug, PartialEq)]
pub struct Scrape {
    /// Url of the page, as shown.
    pub url: String,
    /// When it was taken.
    pub at: Ns,
    /// How long that took.
    pub latency: Ns,
    /// Names without `_total`, with their samples, in the page's order.
    pub families: Vec<(String, Vec<Sample>)>,
}

/// One set of labels in a scrape.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Sample {
    /// In the page's order.
    pub labels: Vec<(String, String)>,
    /// Of a gauge or a counter.
    pub value: Option<f64>,
    /// Of a histogram: upper bounds as written, with the values up to them.
    pub buckets: Vec<(String, f64)>,
    /// Of a histogram or a summary.
    pub sum: Option<f64>,
    /// The same.
    pub count: Option<f64>,
}
