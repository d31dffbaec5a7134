//! The servers' pages of metrics: which are read, and what is said of them.

use super::early::Early;
use super::route;
use crate::base::Exit;
use crate::config::{Config, MetricsFormat, Url};
use crate::http::fetch::Fetch;
use crate::server_metrics::{Collector, Place};
use crate::stats::distribution::float;
use crate::stats::server::{Endpoint, ServerReport};

/// Where servers have their page, below the target's base or at the root; the second is
/// TensorRT-LLM's.
const PATHS: [&str; 2] = ["/metrics", "/prometheus/metrics"];
/// The server's count and ours may differ by so much before it is said.
const COUNT_TOLERANCE: f64 = 0.01;

/// Begins to read the pages, unless that is switched off. Errors: a page that was asked for by name
/// is not there.
pub fn start(config: &Config, cores: &[usize]) -> Result<Option<Collector>, Early> {
    let Some(asked) = &config.server_metrics else {
        return Ok(None);
    };
    let keeps = asked.formats.contains(&MetricsFormat::Jsonl);
    let places = places(config, &asked.urls);
    let started = Collector::start(places.map_err(unreachable)?, cores, keeps);
    started.map(Some).map_err(unreachable)
}

fn unreachable(reason: String) -> Early {
    let text = format!("--server-metrics {reason}");
    Early::new(Exit::Unreachable, text)
}

/// Pages asked for, then those of the targets.
fn places(config: &Config, asked: &[Url]) -> Result<Vec<Place>, String> {
    let mut places: Vec<Place> = Vec::new();
    for url in asked {
        let way = page(config, url).map_err(|why| format!("{}: {why}", url.origin_shown()))?;
        if !places.iter().any(|place| place.ways[0].url == way.url) {
            places.push(Place {
                source: url.authority(),
                ways: vec![way],
                is_asked: true,
            });
        }
    }
    for target in &config.urls {
        let ways: Vec<Fetch> = candidates(target)
            .iter()
            .filter_map(|url| page(config, url).ok())
            .collect();
        let is_known = |way: &Fetch| {
            let mut known = places.iter().flat_map(|place| &place.ways);
            known.any(|other| other.url == way.url)
        };
        if !ways.iter().any(is_known) && !ways.is_empty() {
            places.push(Place {
                source: target.authority(),
                ways,
                is_asked: false,
            });
        }
    }
    Ok(places)
}

/// The run's headers, with its key, go to its targets only.
fn page(config: &Config, url: &Url) -> Result<Fetch, String> {
    let place = |url: &Url| (url.tls, url.host.clone(), url.port);
    let is_target = config.urls.iter().any(|target| place(target) == place(url));
    route::fetch(config, url, is_target)
}

/// Where a target may have its page: below its base, which may be the API's, then at the root.
fn candidates(target: &Url) -> Vec<Url> {
    let stem = target.base.strip_suffix("/v1").unwrap_or(&target.base);
    let bases = [target.base.as_str(), stem, ""];
    let mut urls: Vec<Url> = Vec::new();
    for path in PATHS {
        for base in bases {
            let url = Url {
                base: format!("{base}{path}"),
                query: String::new(),
                ..target.clone()
            };
            if !urls.contains(&url) {
                urls.push(url);
            }
        }
    }
    urls
}

/// Sentences for the method block: what was wrong with pages, and whether others use the servers.
pub fn notes(report: &ServerReport) -> Vec<String> {
    let mut notes: Vec<String> = report.endpoints.iter().flat_map(of_page).collect();
    let late = report.endpoints.iter().filter(|page| {
        page.fetched
            .is_some_and(|(first, _)| first > report.window.0)
    });
    notes.extend(late.map(|page| {
        let url = &page.url;
        format!("{url} came in mid-run: what its server had counted until then is not known")
    }));
    notes
}

fn of_page(page: &Endpoint) -> Vec<String> {
    let url = &page.url;
    let mut notes = Vec::new();
    if page.failures > 0 {
        let first = page.first_failure.as_deref().unwrap_or_default();
        let all = page.failures + page.fetches;
        notes.push(format!(
            "{url}: {} of {all} reads gave no page; first: {first}",
            page.failures
        ));
    }
    if page.resets > 0 {
        notes.push(format!(
            "{url}: counters fell on {} reads: the server was restarted, or several answer \
             there and their counts are mixed up",
            page.resets
        ));
    }
    if page.invalid_values > 0 {
        let count = page.invalid_values;
        notes.push(format!(
            "{url}: {count} values that are no numbers were dropped"
        ));
    }
    if page.bad_lines > 0 {
        notes.push(format!("{url}: {} lines could not be read", page.bad_lines));
    }
    if page.series_left_out > 0 {
        let count = page.series_left_out;
        notes.push(format!(
            "{url}: {count} series are more than are kept, and were left out"
        ));
    }
    notes
}

/// What is to be said when the servers have finished other requests than `ours`, which went well;
/// so many `others` of this run may be in their count.
pub fn foreign_requests(report: &ServerReport, ours: Option<f64>, others: u64) -> Option<String> {
    let (theirs, ours) = (report.finished()?, ours?);
    let more = float(others);
    let slack = ours * COUNT_TOLERANCE + 1.0;
    if theirs > ours + more + slack {
        let text = "other clients use it too, and its own figures are not of this run alone";
        return Some(format!(
            "the server has finished {theirs:.0} requests, of ours {ours:.0} went well: {text}"
        ));
    }
    let is_whole = report.endpoints.iter().all(|page| page.failures == 0);
    (is_whole && theirs < ours - slack).then(|| {
        format!(
            "the server's page tells of {theirs:.0} finished requests, of ours {ours:.0} went \
             well: it is the page of a part of the servers"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_url;
    use crate::stats::server::Engine;

    fn paths(target: &str) -> Vec<String> {
        let urls = candidates(&parse_url(target).unwrap());
        urls.into_iter().map(|url| url.base).collect()
    }

    #[test]
    fn a_page_is_looked_for_below_the_base_and_at_the_root() {
        assert_eq!(paths("h:8000"), ["/metrics", "/prometheus/metrics"]);
        let below = [
            "/v1/metrics",
            "/metrics",
            "/v1/prometheus/metrics",
            "/prometheus/metrics",
        ];
        assert_eq!(paths("http://h:8000/v1"), below);
        assert_eq!(
            paths("http://h/team/v1?key=x")[..3],
            ["/team/v1/metrics", "/team/metrics", "/metrics"]
        );
    }

    #[test]
    fn requests_of_others_are_noticed_and_a_few_of_ours_are_not() {
        let of = |finished: f64, others| {
            let engine = Engine {
                name: "vLLM",
                url: String::new(),
                source: String::new(),
                quantities: Vec::new(),
                finished: Some(finished),
            };
            let report = ServerReport {
                engines: vec![engine],
                ..ServerReport::default()
            };
            foreign_requests(&report, Some(1_000.0), others)
        };
        assert_eq!(
            (of(1_000.0, 0), of(1_011.0, 0), of(1_030.0, 20)),
            (None, None, None)
        );
        assert!(of(1_012.0, 0).unwrap().contains("other clients use it too"));
        assert_eq!(of(989.0, 0), None);
        assert!(of(500.0, 20).unwrap().contains("a part of the servers"));
        let silent = ServerReport::default();
        assert_eq!(foreign_requests(&silent, Some(5.0), 0), None);
    }

    #[test]
    fn the_key_goes_to_the_targets_only() {
        let config = Config {
            urls: vec![parse_url("127.0.0.1:1/v1").unwrap()],
            api_key: Some("secret".into()),
            ..Config::default()
        };
        let asked = [parse_url("127.0.0.1:2/metrics").unwrap()];
        let places = places(&config, &asked).unwrap();
        let request = |place: usize| {
            let request = places[place].ways[0].request.clone();
            String::from_utf8(request).unwrap()
        };
        assert!(!request(0).contains("secret") && request(0).starts_with("GET /metrics "));
        assert!(request(1).contains("Authorization: Bearer secret\r\n"));
        assert!(!request(1).contains("event-stream") && !request(1).contains("Content-Type"));
        assert_eq!((places.len(), places[1].is_asked), (2, false));
        let own = [parse_url("127.0.0.1:1/metrics").unwrap()];
        assert_eq!(super::places(&config, &own).unwrap().len(), 1);
    }
}
