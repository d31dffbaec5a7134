use super::super::MetricFigures;
use super::*;
use proptest::prelude::*;

fn check(text: &str, shown: &str) {
    let gate = Gate::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(gate.to_string(), shown, "{text}");
    assert_eq!(gate.text, text.trim());
}

fn fails(text: &str, part: &str) {
    let error = Gate::parse(text).unwrap_err();
    assert!(
        error.contains(part) && error.contains(EXAMPLES),
        "{text}: {error}"
    );
}

fn figures(metrics: &[(&str, &[(&str, f64)])]) -> Figures {
    let metric = |(tag, stats): &(&str, &[(&str, f64)])| MetricFigures {
        tag: (*tag).into(),
        unit: "ms".into(),
        stats: stats.iter().map(|(k, v)| ((*k).into(), *v)).collect(),
    };
    Figures(metrics.iter().map(metric).collect())
}

#[test]
fn a_condition_is_read_with_its_units_and_short_names() {
    check(
        "p99(time_to_first_token)<500ms",
        "p99(time_to_first_token) < 500 ms",
    );
    check(" avg( itl )<= 20 ", "avg(inter_token_latency) <= 20 ms");
    check("itl<20", "avg(inter_token_latency) < 20 ms");
    check("median(e2e)<1.5s", "p50(request_latency) < 1500 ms");
    check("mean(latency)<2min", "avg(request_latency) < 120000 ms");
    check("p99.9(ttft)<500us", "p99_9(time_to_first_token) < 0.5 ms");
    check("P99_99(TTFT)<1e3", "p99_99(time_to_first_token) < 1000 ms");
    check("duration>1min", "benchmark_duration > 60 sec");
    check(
        "request_throughput>=10",
        "request_throughput >= 10 requests/sec",
    );
    check("rps>=10req/s", "request_throughput >= 10 requests/sec");
    check("tps>1e3 tok/s", "output_token_throughput > 1000 tokens/sec");
    check(
        "p5(tps-per-user)>20tok/s",
        "p5(output_token_throughput_per_user) > 20 tokens/sec/user",
    );
    check("error_rate<0.1%", "request_error_rate < 0.1 %");
    check(
        "good_request_fraction>=95%",
        "good_request_fraction >= 0.95",
    );
    check("error_rate<0.01ratio", "request_error_rate < 1 %");
    check("count(ttft)>=100", "count(time_to_first_token) >= 100");
    check("ttft>-5ms", "avg(time_to_first_token) > -5 ms");
    check("p99(ttft)>+5%", "p99(time_to_first_token) > +5 %");
    check("rps<-0.1 %", "request_throughput < -0.1 %");
    check(
        "max(http_req_data_sent)<1MB",
        "max(http_req_data_sent) < 1024 KB",
    );
    check(
        "nvidia_energy_delay_product<3J*s",
        "nvidia_energy_delay_product < 3 J*s",
    );
}

#[test]
fn what_cannot_be_judged_is_refused_with_the_reason() {
    fails("", "no condition");
    fails("ttft", "none of < <=");
    fails("<5", "no metric is named");
    fails("p99()<5", "no metric is named");
    fails(
        "time_to_frist_token<5",
        "the nearest are time_to_first_token",
    );
    fails("p98(ttft)<5", "`p98` is no statistic");
    fails("p99(rps)<5", "one number for the run");
    fails("p75(effective_concurrency)<5", "has no p75");
    fails("avg(adj_request_latency)<5", "has no avg");
    fails("ttft<", "no number");
    fails("ttft<ms", "`ms` is no number");
    fails("ttft<nan", "is no number");
    fails("ttft<inf", "is no number");
    fails("ttft<+inf", "is no number");
    fails("ttft<1e999", "too large");
    fails("ttft<1e305h", "too large");
    fails("ttft<5%", "has a sign, as +5%");
    fails("ttft<5tok/s", "is in ms");
    fails("count(ttft)<5ms", "has no unit");
    fails("rps>5 tokens/sec", "is in requests/sec");
    fails("good_request_fraction>1s", "has no unit");
    fails("ttft<<5", "`<5` is no number");
    fails("ttft=<5", "`ttft=` is no metric");
    fails("p99(ttft<5", "`p99(ttft` is no metric");
    fails(&"x".repeat(300), "at most 256 bytes");
    fails("ttft<5é", "does not fit");
}

#[test]
fn an_sla_of_aiperf_is_a_condition_too() {
    let gate = Gate::of_sla(" itl:p95:le:20ms").unwrap();
    assert_eq!(gate.to_string(), "p95(inter_token_latency) <= 20 ms");
    let throughput = Gate::of_sla("request_throughput:avg:ge:10").unwrap();
    assert_eq!((throughput.op, throughput.threshold()), (Op::AtLeast, 10.0));
    for (text, part) in [
        ("ttft:p95:lt", "is not metric:stat:op:threshold"),
        ("ttft:p95:eq:1", "`eq` is none of"),
        ("ttfx:p95:lt:1", "no metric"),
        ("ttft:p95:lt:nan", "no number"),
    ] {
        let error = Gate::of_sla(text).unwrap_err();
        assert!(
            error.contains(part) && error.contains(":p95:lt:90"),
            "{error}"
        );
    }
}

#[test]
fn strict_conditions_fail_on_equality_and_a_margin_of_zero_is_feasible() {
    for (text, holds, margins) in [
        ("ttft<5", [true, false, false], [-1.0, 0.0, 1.0]),
        ("ttft<=5", [true, true, false], [-1.0, 0.0, 1.0]),
        ("ttft>5", [false, false, true], [1.0, 0.0, -1.0]),
        ("ttft>=5", [false, true, true], [1.0, 0.0, -1.0]),
    ] {
        let gate = Gate::parse(text).unwrap();
        assert_eq!([4.0, 5.0, 6.0].map(|v| gate.holds(v)), holds, "{text}");
        assert_eq!([4.0, 5.0, 6.0].map(|v| gate.margin(v)), margins, "{text}");
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(!gate.holds(value), "{text}");
        }
    }
}

#[test]
fn a_value_is_the_run_s_statistic_and_a_run_without_errors_has_none() {
    let run = figures(&[
        ("request_latency", &[("p99", 80.0)]),
        ("request_count", &[("avg", 10.0)]),
    ]);
    let value = |text: &str, run: &Figures| Gate::parse(text).unwrap().value(run);
    assert_eq!(value("p99(e2e)<1", &run), Some(80.0));
    assert_eq!(value("p95(e2e)<1", &run), None);
    assert_eq!(value("errors<1", &run), Some(0.0));
    assert_eq!(value("errors<1", &Figures::default()), None);
    assert_eq!(value("p99(adj_request_latency)<1", &run), Some(80.0));
    // With failures it is unbounded, not what the successes say.
    let failed = figures(&[
        ("request_latency", &[("p99", 80.0)]),
        ("adj_request_latency", &[("p50", 70.0)]),
    ]);
    assert_eq!(value("p99(adj_request_latency)<1", &failed), None);
}

#[test]
fn a_change_is_against_the_base() {
    let run = |p99| figures(&[("request_latency", &[("p99", p99)])]);
    let gate = Gate::parse("p99(e2e)>+5%").unwrap();
    let change = |from, to| gate.change(&run(from), &run(to));
    assert_eq!(change(100.0, 106.0), Some(0.06));
    assert!(gate.holds(0.06) && !gate.holds(0.05));
    assert_eq!(change(0.0, 106.0), None);
    assert_eq!(gate.change(&run(1.0), &Figures::default()), None);
}

proptest! {
    #[test]
    fn a_condition_that_was_shown_reads_as_itself(
        metric in 0..catalogue::catalogue().count(),
        stat in 0..PERCENTILE_KEYS.len() + STATS.len(),
        op in prop::sample::select(vec![Op::Below, Op::AtMost, Op::Above, Op::AtLeast]),
        number in prop::num::f64::NORMAL | prop::num::f64::ZERO,
        is_relative: bool,
    ) {
        let metric = catalogue::catalogue().nth(metric).unwrap();
        let stat = PERCENTILE_KEYS.into_iter().chain(STATS).nth(stat).unwrap();
        prop_assume!(metric.form.has(stat));
        let limit = match is_relative {
            true => Limit::Relative(number / 100.0),
            false => Limit::Absolute(number),
        };
        let text = String::new();
        let gate = Gate { tag: metric.tag, stat, op, limit, text };
        prop_assume!(!is_relative || (number / 100.0).is_normal());
        let shown = gate.to_string();
        let again = Gate::parse(&shown).unwrap();
        prop_assert_eq!(&shown, &again.to_string());
        prop_assert_eq!(Gate { text: String::new(), ..again }, gate);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*") {
        for gate in [Gate::parse(&text), Gate::of_sla(&text)].into_iter().flatten() {
            prop_assert!(gate.threshold().is_finite());
        }
    }
}
