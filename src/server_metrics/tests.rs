//! From pages to figures.

use super::collector::Seen;
use super::history::History;
use super::window::{Window, sum_up};
use crate::base::Ns;
use crate::scrape::parse;
use crate::stats::TrackKind;
use crate::stats::server::{
    CounterStats, Endpoint, Engine, HistogramStats, Series, SeriesStats, ServerReport, SliceValue,
};

/// Pages at seconds of the clock.
fn seen(pages: &[(f64, String)], mark: Option<usize>) -> Seen {
    let mut history = History::default();
    for (at, page) in pages {
        let page = parse(page);
        assert_eq!((page.bad_lines, page.is_cut), (0, false));
        history.push(Ns::from_secs_f64(*at), &page);
    }
    history.mark = mark;
    Seen {
        endpoint: Endpoint {
            url: "http://h:1/metrics".into(),
            source: "h:1".into(),
            fetches: pages.len() as u64,
            ..Endpoint::default()
        },
        history,
        spool: None,
    }
}

fn window(from: f64, to: f64, has_warmup: bool) -> Window {
    Window {
        from: Ns::from_secs_f64(from),
        to: Ns::from_secs_f64(to),
        has_warmup,
        slice: None,
    }
}

fn series<'a>(report: &'a ServerReport, name: &str) -> &'a [Series] {
    let found = report.families.iter().find(|family| family.name == name);
    &found.unwrap().series
}

fn counter(series: &Series) -> CounterStats {
    match &series.stats {
        SeriesStats::Counter(counter) => *counter,
        other => panic!("{other:?}"),
    }
}

fn histogram(series: &Series) -> HistogramStats {
    match &series.stats {
        SeriesStats::Histogram(histogram) => histogram.clone(),
        other => panic!("{other:?}"),
    }
}

fn totals(series: &Series) -> Vec<f64> {
    let total = |value: &SliceValue| match value {
        SliceValue::Counter([total, _]) => *total,
        other => panic!("{other:?}"),
    };
    series
        .slices
        .iter()
        .map(|slice| total(&slice.value))
        .collect()
}

/// At 0.0, 0.9, 1.0 (marked), 1.5, 2.5, 3.5 and, after the window, 3.9.
fn counted() -> Vec<(f64, String)> {
    let values = [
        (0.0, 0),
        (0.9, 8),
        (1.01, 10),
        (1.5, 20),
        (2.5, 20),
        (3.5, 50),
        (3.9, 60),
    ];
    let page = |(at, value)| (at, format!("# TYPE a counter\na_total {value}\n"));
    values.map(page).into()
}

#[test]
fn counts_begin_with_the_last_page_before_the_first_request() {
    let (report, _) = sum_up(&[seen(&counted(), Some(2))], window(1.0, 3.6, false));
    let a = &series(&report, "a")[0];
    assert_eq!(counter(a).total, 52.0);
    assert_eq!(counter(a).rate, 52.0 / 2.6);
    // What came after the window is of it: the server counts late.
    assert_eq!(totals(a), [12.0, 0.0, 40.0]);
    let whole: Vec<bool> = a.slices.iter().map(|slice| slice.is_complete).collect();
    assert_eq!(whole, [true, true, false]);
    let [avg, min, max, std] = counter(a).rates.unwrap();
    assert_eq!((avg, min, max), (6.0, 0.0, 12.0));
    assert!((std - 72f64.sqrt()).abs() < 1e-9);
}

#[test]
fn after_a_warm_up_counts_begin_with_the_marked_page() {
    let (report, _) = sum_up(&[seen(&counted(), Some(2))], window(1.0, 3.6, true));
    assert_eq!(counter(&series(&report, "a")[0]).total, 50.0);
    let (report, _) = sum_up(&[seen(&counted(), None)], window(1.0, 3.6, true));
    assert_eq!(counter(&series(&report, "a")[0]).total, 52.0);
}

#[test]
fn series_that_come_late_and_restarts_lose_nothing() {
    let page = |at, old: &str, new: &str| {
        let mut text = format!("# TYPE a counter\na{{m=\"old\"}} {old}\n");
        if !new.is_empty() {
            text.push_str(&format!("a{{m=\"new\"}} {new}\n"));
        }
        (at, text)
    };
    let pages = [
        page(0.0, "1000", ""),
        page(1.2, "1010", "64"),
        page(1.5, "4", "320"),
        page(2.1, "6", "320"),
    ];
    let (report, _) = sum_up(&[seen(&pages, None)], window(1.0, 2.0, false));
    let of = |label: &str| {
        let found = series(&report, "a").iter().find(|s| s.labels[0].1 == label);
        counter(found.unwrap()).total
    };
    assert_eq!((of("new"), of("old")), (320.0, 16.0));
}

#[test]
fn a_gauge_is_of_the_samples_inside() {
    let values = [(0.5, 9.0), (1.0, 0.0), (1.5, 4.0), (2.0, 2.0), (2.5, 99.0)];
    let page = |(at, value)| (at, format!("# TYPE g gauge\ng {value}\n"));
    let (report, _) = sum_up(&[seen(&values.map(page), None)], window(1.0, 2.0, false));
    let g = &series(&report, "g")[0];
    let SeriesStats::Gauge(stats) = &g.stats else {
        panic!("{g:?}");
    };
    assert_eq!(
        (stats.count, stats.avg, stats.max, stats.std.round()),
        (3, 2.0, 4.0, 2.0)
    );
    assert_eq!(g.slices.len(), 1);
    assert_eq!(g.slices[0].value, SliceValue::Gauge([2.0, 0.0, 4.0]));
}

#[test]
fn histograms_are_differences_with_percentiles() {
    let page = |at, low: u32, all: u32, sum: f64| {
        let text = format!(
            "# TYPE h histogram\nh_bucket{{le=\"0.5\"}} {low}\nh_bucket{{le=\"1.0\"}} {all}\n\
             h_bucket{{le=\"+Inf\"}} {all}\nh_sum {sum}\nh_count {all}\n"
        );
        (at, text)
    };
    let pages = [
        page(0.0, 100, 100, 50.0),
        page(1.1, 110, 110, 51.0),
        page(1.6, 110, 120, 60.0),
    ];
    let (report, _) = sum_up(&[seen(&pages, None)], window(1.0, 2.0, false));
    let h = histogram(&series(&report, "h")[0]);
    assert_eq!((h.count, h.sum, h.count_rate), (20.0, 10.0, 20.0));
    let named = |le: &str, count| (le.to_owned(), count);
    assert_eq!(
        h.buckets,
        [named("0.5", 10.0), named("1.0", 20.0), named("+Inf", 20.0)]
    );
    // The two scrapes have taught where the values lie: about 0.1 and 0.9.
    let percentiles = h.percentiles.unwrap();
    assert!(
        (percentiles[2] - 0.0).abs() < 0.05 && percentiles[8] > 0.99,
        "{percentiles:?}"
    );
    assert!(percentiles[3] < 0.2, "{percentiles:?}");
}

#[test]
fn what_never_moved_has_figures_and_no_slices() {
    let page = |at| {
        let text = "# TYPE a counter\na 5\n# TYPE g gauge\ng 3\n# TYPE h histogram\n\
                    h_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n";
        (at, text.to_owned())
    };
    let (report, _) = sum_up(
        &[seen(&[0.0, 1.1, 1.5].map(page), None)],
        window(1.0, 2.0, false),
    );
    let a = counter(&series(&report, "a")[0]);
    assert_eq!((a.total, a.rates), (0.0, Some([0.0; 4])));
    assert_eq!(histogram(&series(&report, "h")[0]).percentiles, None);
    assert!(
        report
            .families
            .iter()
            .all(|family| family.series[0].slices.is_empty())
    );
    // One page is no difference, and no page is nothing.
    let one = seen(&[page(1.5)], None);
    let (report, _) = sum_up(&[one], window(1.0, 2.0, false));
    assert_eq!(report.families.len(), 1);
    let (report, _) = sum_up(&[seen(&[], None)], window(1.0, 2.0, false));
    assert!(report.families.is_empty() && report.engines.is_empty());
}

#[test]
fn a_long_window_has_longer_slices() {
    let page = |at, value| (at, format!("# TYPE a counter\na {value}\n"));
    let pages = [page(0.0, 0), page(2_000.0, 5), page(5_000.0, 9)];
    let (report, _) = sum_up(&[seen(&pages, None)], window(0.0, 5_000.0, false));
    let a = &series(&report, "a")[0];
    assert_eq!(a.slices.len(), 313);
    assert_eq!(totals(a).iter().sum::<f64>(), 9.0);
}

fn engine(pages: &[(f64, String)]) -> (Engine, Vec<(String, TrackKind, Vec<f64>)>) {
    let (report, tracks) = sum_up(&[seen(pages, None)], window(1.0, 2.0, false));
    let tracks = tracks.into_iter().map(|track| {
        assert_eq!(track.source, "h:1");
        (track.tag.into_owned(), track.kind, track.series.values)
    });
    (report.engines.into_iter().next().unwrap(), tracks.collect())
}

fn stat(engine: &Engine, tag: &str, key: &str) -> f64 {
    engine.quantity(tag).unwrap().stat(key).unwrap()
}

/// The page with another value for each name.
fn changed(page: &str, values: &[(&str, f64)]) -> String {
    let line = |line: &str| {
        let name = line.split([' ', '{']).next().unwrap_or_default();
        let value = values.iter().find(|(own, _)| *own == name);
        match (value, line.rsplit_once(' ')) {
            (Some((_, value)), Some((start, _))) => format!("{start} {value}\n"),
            _ => format!("{line}\n"),
        }
    };
    page.lines().map(line).collect()
}

#[test]
fn vllm_is_known_by_its_names() {
    let page = include_str!("../../tests/data/pages/vllm.prom");
    let of = |running: f64, usage: f64, grown: f64| {
        changed(
            page,
            &[
                ("vllm:num_requests_running", running),
                ("vllm:kv_cache_usage_perc", usage),
                ("vllm:prompt_tokens_total", 525.0 + grown),
                ("vllm:num_preemptions_total", 401.0 + grown / 10.0),
                ("vllm:prefix_cache_hits_total", 473.0 + grown * 0.75),
                ("vllm:prefix_cache_queries_total", 354.0 + grown),
                ("vllm:request_success_total", 475.0 + grown / 2.0),
            ],
        )
    };
    let pages = [
        (0.5, of(0.0, 0.0, 0.0)),
        (1.2, of(2.0, 0.1, 10.0)),
        (1.8, of(4.0, 0.3, 20.0)),
    ];
    let (vllm, tracks) = engine(&pages);
    assert_eq!((vllm.name, vllm.finished), ("vLLM", Some(10.0)));
    for (tag, key, want) in [
        ("requests_running", "avg", 3.0),
        ("requests_running", "max", 4.0),
        ("requests_queued", "avg", 6.06),
        ("kv_cache_usage", "avg", 20.0),
        ("kv_cache_usage", "max", 30.0),
        ("prefix_cache_hits", "avg", 75.0),
        ("preemptions", "total", 2.0),
        ("prompt_tokens", "total", 20.0),
        ("prompt_tokens", "rate", 20.0),
        ("generation_tokens", "total", 0.0),
    ] {
        assert!((stat(&vllm, tag, key) - want).abs() < 1e-9, "{tag} {key}");
    }
    // No value fell into the window.
    assert_eq!(vllm.quantity("time_to_first_token"), None);
    let tags: Vec<&str> = tracks.iter().map(|(tag, ..)| tag.as_str()).collect();
    assert_eq!(
        tags,
        [
            "requests_running",
            "requests_queued",
            "kv_cache_usage",
            "preemptions"
        ]
    );
    assert_eq!(tracks[0].2, [0.0, 2.0, 4.0]);
    assert_eq!(
        (tracks[3].1, tracks[3].2.last()),
        (TrackKind::Counter, Some(&2.0))
    );
}

#[test]
fn sglang_repeats_itself_by_rank_and_by_priority() {
    let page = |at, count: u32, sum: f64| {
        let text = format!(
            "# TYPE sglang:num_running_reqs gauge\n\
             sglang:num_running_reqs{{tp_rank=\"0\"}} 5\n\
             sglang:num_running_reqs{{tp_rank=\"1\"}} 5\n\
             # TYPE sglang:num_queue_reqs gauge\n\
             sglang:num_queue_reqs{{priority=\"\"}} 7\nsglang:num_queue_reqs{{priority=\"1\"}} 3\n\
             sglang:num_queue_reqs{{priority=\"2\"}} 4\n\
             # TYPE sglang:token_usage gauge\nsglang:token_usage 0.25\n\
             # TYPE sglang:cache_hit_rate gauge\nsglang:cache_hit_rate 0.5\n\
             # TYPE sglang:num_retracted_reqs gauge\nsglang:num_retracted_reqs 1\n\
             # TYPE sglang:time_to_first_token_seconds histogram\n\
             sglang:time_to_first_token_seconds_bucket{{model=\"a\",le=\"0.1\"}} {count}\n\
             sglang:time_to_first_token_seconds_bucket{{model=\"a\",le=\"+Inf\"}} {count}\n\
             sglang:time_to_first_token_seconds_sum{{model=\"a\"}} {sum}\n\
             sglang:time_to_first_token_seconds_count{{model=\"a\"}} {count}\n\
             sglang:time_to_first_token_seconds_bucket{{model=\"b\",le=\"0.1\"}} {count}\n\
             sglang:time_to_first_token_seconds_bucket{{model=\"b\",le=\"+Inf\"}} {count}\n\
             sglang:time_to_first_token_seconds_sum{{model=\"b\"}} {sum}\n\
             sglang:time_to_first_token_seconds_count{{model=\"b\"}} {count}\n"
        );
        (at, text)
    };
    let (sglang, tracks) = engine(&[page(0.5, 100, 7.0), page(1.5, 110, 7.5)]);
    assert_eq!((sglang.name, sglang.finished), ("SGLang", None));
    for (tag, key, want) in [
        ("requests_running", "avg", 5.0),
        ("requests_queued", "max", 7.0),
        ("kv_cache_usage", "avg", 25.0),
        ("prefix_cache_hits", "avg", 50.0),
        ("requests_retracted", "max", 1.0),
        ("time_to_first_token", "count", 20.0),
        ("time_to_first_token", "avg", 50.0),
    ] {
        assert!((stat(&sglang, tag, key) - want).abs() < 1e-9, "{tag} {key}");
    }
    assert_eq!(sglang.quantity("preemptions"), None);
    assert_eq!(tracks.len(), 4);
}

#[test]
fn values_without_measure_are_dropped_and_break_nothing() {
    let page = |count: &str| format!("# TYPE a counter\na {count}\n# TYPE b gauge\nb {count}\n");
    let wild = ["0", "1e308", "5", "9e307", "1e30", "-1e308", "0"];
    let pages: Vec<(f64, String)> = (0u32..)
        .zip(wild)
        .map(|(at, count)| (f64::from(at), page(count)))
        .collect();
    let seen = [seen(&pages, None)];
    let (report, _) = sum_up(&seen, window(0.5, 5.5, false));
    assert_eq!(seen[0].history.invalid_values, 6);
    let SeriesStats::Gauge(level) = &series(&report, "b")[0].stats else {
        panic!("no gauge");
    };
    assert_eq!((level.min, level.max), (0.0, 1e30));
    assert!(counter(&series(&report, "a")[0]).total.is_finite());
}

#[test]
fn what_counts_on_after_the_measurement_is_somebody_elses() {
    // Ours stands still half a second after the end; another goes on.
    let page = |ours: u32, other: u32| {
        format!("# TYPE a counter\na {ours}\n# TYPE b counter\nb {other}\n")
    };
    let counts = [
        (0.0, 0, 0),
        (1.0, 10, 10),
        (2.1, 18, 21),
        (2.5, 20, 25),
        (3.0, 20, 30),
    ];
    let pages = counts.map(|(at, ours, other)| (at, page(ours, other)));
    let (report, _) = sum_up(&[seen(&pages, None)], window(0.0, 2.0, false));
    assert_eq!(counter(&series(&report, "a")[0]).total, 20.0);
    assert_eq!(counter(&series(&report, "b")[0]).total, 21.0);
    assert_eq!(totals(&series(&report, "b")[0]).iter().sum::<f64>(), 21.0);
}

#[test]
fn every_engine_is_told_by_its_prefix() {
    for (line, name, tag) in [
        (
            "trtllm_kv_cache_utilization 0.5",
            "TensorRT-LLM",
            "kv_cache_usage",
        ),
        (
            "trtllm:num_requests_running 1",
            "TensorRT-LLM",
            "requests_running",
        ),
        ("tgi_queue_size 1", "TGI", "requests_queued"),
        (
            "dynamo_frontend_queued_requests 1",
            "Dynamo",
            "requests_queued",
        ),
        (
            "dynamo_component_kvstats_gpu_cache_usage_percent 1",
            "Dynamo worker",
            "kv_cache_usage",
        ),
        (
            "vllm:gpu_cache_usage_perc{engine=\"1\"} 0.5",
            "vLLM",
            "kv_cache_usage",
        ),
    ] {
        let (found, _) = engine(&[(0.5, format!("{line}\n")), (1.5, format!("{line}\n"))]);
        assert_eq!(found.name, name);
        assert_eq!(found.quantities.len(), 1, "{line}");
        assert_eq!(found.quantities[0].tag, tag);
    }
}
