//! Two runs, metric by metric: how far apart, and how far that can be chance.

use super::sides::{Run, ordered};
use crate::stats::bootstrap::{
    Contrast, Interval, Resamples, Resampling, Statistic, resample_both, resample_pairs,
    resample_ratio,
};
use crate::stats::catalogue::{Form, Named, find};
use crate::stats::comparison::{Comparison, Finding, Judged, MetricChange, StatChange, Versus};
use crate::stats::distribution::{float, samples_needed};
use crate::stats::power::Power;
use crate::stats::ranks::mann_whitney;
use crate::stats::{Columns, Gate, Limit};

/// Of all intervals: the custom.
pub const LEVEL: f64 = 0.95;
/// What is compared unless metrics are named.
const DEFAULT: [&str; 6] = [
    "request_throughput",
    "output_token_throughput",
    "time_to_first_token",
    "inter_token_latency",
    "request_latency",
    "output_sequence_length",
];
/// Statistics of a metric that is named alone.
const STATS: [&str; 4] = ["avg", "p50", "p90", "p99"];

/// A metric, and the statistics that are asked of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Its definition.
    pub metric: Named,
    /// Keys of its figures, each once.
    pub stats: Vec<&'static str>,
    /// Somebody asked for it: it is shown even where no run has it.
    pub is_named: bool,
}

impl Asked {
    /// Of a metric that is named without a statistic: what people look at.
    pub fn usual(metric: Named) -> Asked {
        let stats = match metric.form {
            Form::Number => vec!["avg"],
            // A length says what was asked for; its tail is of no interest.
            _ if metric.unit == "tokens" => vec!["avg"],
            _ => STATS
                .into_iter()
                .filter(|stat| metric.form.has(stat))
                .collect(),
        };
        Asked {
            metric,
            stats,
            is_named: true,
        }
    }

    /// What is compared unless metrics are named.
    pub fn default_list() -> Vec<Asked> {
        let unnamed = |metric| Asked {
            is_named: false,
            ..Asked::usual(metric)
        };
        DEFAULT.into_iter().filter_map(find).map(unnamed).collect()
    }

    /// Adds a metric to a list, or its statistics to those it has there.
    pub fn join(list: &mut Vec<Asked>, other: Asked) {
        match list
            .iter_mut()
            .find(|asked| asked.metric.tag == other.metric.tag)
        {
            None => list.push(other),
            Some(asked) => {
                let new = |stat: &&'static str| !asked.stats.contains(stat);
                let new: Vec<_> = other.stats.into_iter().filter(new).collect();
                asked.stats.extend(new);
                asked.is_named |= other.is_named;
            }
        }
    }
}

/// Compares runs with the first of them.
///
/// Errors: a run has not what a gate asks of it. Cost: seconds for a million requests; see
/// benches/statistics.rs.
pub fn compare(
    runs: &[Run],
    asked: &[Asked],
    gates: &[Gate],
    by: &Resampling,
) -> Result<Comparison, String> {
    let Some((base, others)) = runs.split_first() else {
        return Err("no run to compare".into());
    };
    let mut asked = asked.to_vec();
    for gate in gates {
        if let Some(metric) = find(gate.tag) {
            let stats = vec![gate.stat];
            let one = Asked {
                metric,
                stats,
                is_named: true,
            };
            Asked::join(&mut asked, one);
        }
    }
    let mut found = Vec::new();
    for other in others {
        found.push(versus(base, other, &asked, gates, by)?);
    }
    Ok(Comparison {
        base: base.side.clone(),
        others: found,
        level: LEVEL,
        resamples: by.count,
    })
}

fn versus(
    base: &Run,
    other: &Run,
    asked: &[Asked],
    gates: &[Gate],
    by: &Resampling,
) -> Result<Versus, String> {
    let unpaired = base.why_unpaired(other);
    let both = Both::of(base, other, unpaired.is_none());
    let mut metrics = Vec::new();
    let mut contrasts = Vec::new();
    for asked in asked {
        // What neither run has was only a usual suspect: a run without streaming has no TTFT.
        let has = |run: &Run| run.figures.metric(asked.metric.tag).is_some();
        if !asked.is_named && !has(base) && !has(other) {
            continue;
        }
        let (metric, found) = both.metric(asked, by);
        let kept = metric.stats.iter().zip(found);
        contrasts.extend(kept.map(|(stat, found)| ((asked.metric.tag, stat.stat), found)));
        metrics.push(metric);
    }
    let mut judged = Vec::new();
    for gate in gates {
        let contrast = contrasts
            .iter()
            .find(|(key, _)| *key == (gate.tag, gate.stat));
        let contrast = contrast.and_then(|(_, contrast)| contrast.as_ref());
        judged.push(judge(gate, base, other, contrast, both.count(gate.tag))?);
    }
    Ok(Versus {
        side: other.side.clone(),
        unpaired,
        warnings: base.warnings(other),
        metrics,
        judged,
    })
}

/// Holds a gate against the runs. Errors: there is nothing to hold against it.
fn judge(
    gate: &Gate,
    base: &Run,
    other: &Run,
    contrast: Option<&Contrast>,
    count: u64,
) -> Result<Judged, String> {
    let is_relative = matches!(gate.limit, Limit::Relative(_));
    let found = match is_relative {
        true => gate.change(&base.figures, &other.figures),
        false => gate.value(&other.figures),
    };
    let Some(found) = found else {
        let lacking = [base, other].into_iter();
        let lacking = lacking.filter(|run| gate.value(&run.figures).is_none());
        let paths: Vec<&str> = lacking.map(|run| run.side.path.as_str()).collect();
        let subject = gate.subject();
        return Err(match paths[..] {
            [] => format!("--fail-if {gate}: {subject} is 0 in {}", base.side.path),
            _ => format!("--fail-if {gate}: no {subject} in {}", paths.join(", ")),
        });
    };
    let interval = contrast.and_then(|contrast| match is_relative {
        true => contrast.change,
        false => Some(contrast.b),
    });
    let limit = gate.threshold();
    let unsure = interval.filter(|interval| !interval.excludes(limit));
    Ok(Judged {
        text: gate.to_string(),
        limit,
        is_relative,
        found,
        is_so: gate.holds(found),
        interval,
        more_requests: unsure.and_then(|interval| {
            Power::default().more_requests(count, interval.std_error, found - limit)
        }),
    })
}

/// The requests of two runs, lined up.
struct Both<'a> {
    runs: [&'a Run; 2],
    columns: Option<[&'a Columns; 2]>,
    /// Places in either run of the requests of one number; without pairs, of each run alone.
    places: [Vec<Option<usize>>; 2],
    is_paired: bool,
}

impl<'a> Both<'a> {
    fn of(base: &'a Run, other: &'a Run, is_paired: bool) -> Both<'a> {
        let columns = base.columns.as_ref().zip(other.columns.as_ref());
        let places = match columns {
            Some((a, b)) if is_paired => pairs(a, b),
            Some((a, b)) => [a, b].map(|c| ordered(c).into_iter().map(Some).collect()),
            None => [Vec::new(), Vec::new()],
        };
        Both {
            runs: [base, other],
            columns: columns.map(|(a, b)| [a, b]),
            places,
            is_paired,
        }
    }

    /// The values of a metric by request, NaN where absent.
    fn values(&self, tag: &str) -> Option<[Vec<f64>; 2]> {
        let [a, b] = self.columns?;
        let of = |values: &[f64], places: &[Option<usize>]| {
            let value = |place: &Option<usize>| place.map_or(f64::NAN, |at| values[at]);
            places.iter().map(value).collect()
        };
        Some([
            of(a.get(tag)?, &self.places[0]),
            of(b.get(tag)?, &self.places[1]),
        ])
    }

    /// The requests that carry a metric in the run that has fewer of them.
    fn count(&self, tag: &str) -> u64 {
        let Some([a, b]) = self.columns else { return 0 };
        let count = |columns: &Columns| match columns.get(tag) {
            Some(values) => values.iter().filter(|v| !v.is_nan()).count() as u64,
            None => columns.is_valid().iter().filter(|valid| **valid).count() as u64,
        };
        count(a).min(count(b))
    }

    fn metric(&self, asked: &Asked, by: &Resampling) -> (MetricChange, Vec<Option<Contrast>>) {
        let tag = asked.metric.tag;
        let values = self
            .values(tag)
            .filter(|_| asked.metric.form == Form::Distribution);
        let ranks = values.as_ref().and_then(|[a, b]| mann_whitney(a, b));
        let count = self.count(tag);
        let found = match &values {
            Some(values) => self.by_request(values, &asked.stats, count, by),
            None => vec![self.rate(tag, by); asked.stats.len()],
        };
        let needed = |stat: &str| percent(stat).map_or(0, samples_needed);
        let is_by_request = values.is_some();
        let change = |(stat, contrast): (&&'static str, &Option<Contrast>)| {
            let few = (is_by_request && count < needed(stat)).then(|| needed(stat));
            self.stat(&asked.metric, stat, contrast.as_ref(), count, few)
        };
        let metric = MetricChange {
            metric: asked.metric,
            ranks,
            stats: asked.stats.iter().zip(&found).map(change).collect(),
        };
        (metric, found)
    }

    /// Contrasts of those statistics that have one, in their order.
    fn by_request(
        &self,
        [a, b]: &[Vec<f64>; 2],
        stats: &[&'static str],
        count: u64,
        by: &Resampling,
    ) -> Vec<Option<Contrast>> {
        let statistic = |stat: &str| match percent(stat) {
            Some(percent) if count >= samples_needed(percent) => {
                Some(Statistic::Percentile(percent))
            }
            None if stat == "avg" => Some(Statistic::Mean),
            _ => None,
        };
        let statistics: Vec<Option<Statistic>> = stats.iter().map(|s| statistic(s)).collect();
        let drawn: Vec<Statistic> = statistics.iter().copied().flatten().collect();
        let resampled = match self.is_paired {
            _ if drawn.is_empty() => None,
            true => resample_pairs(a, b, &drawn, by),
            false => resample_both(a, b, &drawn, by),
        };
        let mut next = 0;
        let contrast = |statistic: &Option<Statistic>| {
            statistic.and_then(|_| {
                next += 1;
                let [a, b] = resampled.as_ref()?;
                Contrast::of(a, b, next - 1, LEVEL)
            })
        };
        statistics.iter().map(contrast).collect()
    }

    /// The contrast of a throughput: what each request adds, over the time since the end before.
    fn rate(&self, tag: &str, by: &Resampling) -> Option<Contrast> {
        let [a, b] = self.columns?;
        let other = Resampling {
            seed: !by.seed,
            ..*by
        };
        let [a, b] = [rate(a, tag, by)?, rate(b, tag, &other)?];
        Contrast::of(&a, &b, 0, LEVEL)
    }

    fn stat(
        &self,
        metric: &Named,
        stat: &'static str,
        contrast: Option<&Contrast>,
        count: u64,
        few: Option<u64>,
    ) -> StatChange {
        let [base, other] = self.runs.map(|run| run.figures.get(metric.tag, stat));
        let change = base.zip(other).filter(|(base, _)| *base != 0.0);
        let change = change.map(|(base, other)| (other - base) / base.abs());
        let finding = match (base.is_some() && other.is_some(), few, contrast) {
            (false, ..) => Finding::Absent,
            (_, Some(needed), _) => Finding::TooFew(needed),
            (_, _, Some(contrast)) => Finding::of(contrast, metric),
            _ => Finding::Unknown,
        };
        let interval = contrast.and_then(|contrast| contrast.change);
        let is_unseen = finding == Finding::NotSeen;
        let more = |interval: Interval| {
            Power::default().more_requests(count, interval.std_error, interval.estimate)
        };
        StatChange {
            stat,
            base,
            other,
            change,
            interval,
            detectable: interval.map(|i| Power::default().detectable(i.std_error)),
            more_requests: interval.filter(|_| is_unseen).and_then(more),
            finding,
        }
    }
}

/// The percentile of a key; `None` of another statistic.
fn percent(stat: &str) -> Option<f64> {
    stat.strip_prefix('p')?.replace('_', ".").parse().ok()
}

/// Places of the requests of both runs, those of one number together; a number that only one run
/// has stands alone.
fn pairs(a: &Columns, b: &Columns) -> [Vec<Option<usize>>; 2] {
    let (mut first, mut second) = (ordered(a).into_iter().peekable(), ordered(b).into_iter());
    let mut next = second.next();
    let (mut left, mut right) = (Vec::new(), Vec::new());
    loop {
        let number = |columns: &Columns, place: Option<usize>| place.map(|at| columns.index()[at]);
        let ours = first.peek().copied();
        let (mine, theirs) = (number(a, ours), number(b, next));
        let is_mine = mine.is_some() && theirs.is_none_or(|other| mine.is_some_and(|m| m <= other));
        let is_theirs =
            theirs.is_some() && mine.is_none_or(|mine| theirs.is_some_and(|other| other <= mine));
        if !is_mine && !is_theirs {
            return [left, right];
        }
        left.push(first.next_if(|_| is_mine));
        right.push(if is_theirs { next } else { None });
        if is_theirs {
            next = second.next();
        }
    }
}

/// Resamples of a throughput; `None` when it is none, or when a run has too few requests.
fn rate(columns: &Columns, tag: &str, by: &Resampling) -> Option<Resamples> {
    let added: Vec<&[f64]> = match tag {
        "request_throughput" => Vec::new(),
        "output_token_throughput" => vec![columns.get("output_sequence_length")?],
        "input_token_throughput" => vec![columns.get("input_sequence_length")?],
        "total_token_throughput" => vec![
            columns.get("input_sequence_length")?,
            columns.get("output_sequence_length")?,
        ],
        _ => return None,
    };
    let mut ended: Vec<usize> = (0..columns.len())
        .filter(|at| columns.is_valid()[*at])
        .collect();
    ended.sort_by_key(|at| columns.end_ns()[*at]);
    let mut last = ended.iter().map(|at| columns.start_ns()[*at]).min()?;
    let (mut amounts, mut gaps) = (Vec::new(), Vec::new());
    for at in ended {
        let value = |values: &&[f64]| Some(values[at]).filter(|v| !v.is_nan()).unwrap_or(0.0);
        let amount = added.iter().map(value).sum();
        amounts.push(if added.is_empty() { 1.0 } else { amount });
        let end = columns.end_ns()[at];
        gaps.push(float(end.saturating_sub(last)) / 1e9);
        last = end;
    }
    resample_ratio(&amounts, &gaps, by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::Workload;
    use crate::base::rng::{Rng, Stream};
    use crate::stats::comparison::{Side, Source};
    use crate::stats::{Figures, Row};

    /// A run of requests of so many ms to the first token; NaN is one that failed. One ends every
    /// 10 ms, the last one sent is written first.
    fn run(path: &str, ttft: &[f64]) -> Run {
        let metrics = [
            ("time_to_first_token", "ms"),
            ("output_sequence_length", "tokens"),
            ("input_sequence_length", "tokens"),
        ];
        let mut columns = Columns::new(metrics.map(|(tag, unit)| (tag.into(), unit.into())));
        for (index, value) in ttft.iter().enumerate().rev() {
            let index = index as u64;
            let row = Row {
                index,
                start_ns: 10_000_000 * index,
                end_ns: 10_000_000 * (index + 1),
                is_valid: !value.is_nan(),
            };
            let length = if row.is_valid { 20.0 } else { f64::NAN };
            columns.push(row, &[*value, length, 8.0]);
        }
        let figures = columns.figures();
        Run {
            side: Side {
                path: path.into(),
                verdict: Some("VALID".into()),
                requests: Some(ttft.len() as u64),
                source: Source::Shard,
            },
            figures,
            columns: Some(columns),
            workload: Workload {
                seed: Some(7),
                ..Workload::default()
            },
            made_by: [("program", "1"), ("version", "1"), ("definitions", "1")]
                .map(|(name, text)| (name, text.into())),
            reasons: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn draws(count: usize, index: u64) -> Vec<f64> {
        let mut rng = Rng::new(9, Stream::Test, index);
        (0..count)
            .map(|_| 100.0 + 20.0 * rng.exponential())
            .collect()
    }

    fn by() -> Resampling {
        Resampling {
            count: 200,
            threads: 1,
            ..Resampling::default()
        }
    }

    fn compared(runs: &[Run], gates: &[&str]) -> Result<Comparison, String> {
        let gates: Vec<Gate> = gates
            .iter()
            .map(|gate| Gate::parse(gate).unwrap())
            .collect();
        compare(runs, &Asked::default_list(), &gates, &by())
    }

    fn stat<'a>(versus: &'a Versus, tag: &str, stat: &str) -> &'a StatChange {
        let metric = versus.metrics.iter().find(|m| m.metric.tag == tag).unwrap();
        metric.stats.iter().find(|s| s.stat == stat).unwrap()
    }

    #[test]
    fn requests_of_one_number_are_compared_and_what_they_share_is_no_noise() {
        let base = draws(800, 1);
        let noise = draws(800, 2);
        let slower: Vec<f64> = base
            .iter()
            .zip(&noise)
            .map(|(b, n)| b + 0.5 + n / 500.0)
            .collect();
        let runs = [run("a", &base), run("b", &slower)];
        let found = compared(&runs, &[]).unwrap();
        let versus = &found.others[0];
        assert_eq!(versus.unpaired, None);
        for key in ["avg", "p50", "p90", "p99"] {
            let ttft = stat(versus, "time_to_first_token", key);
            assert_eq!(ttft.finding, Finding::Worse, "{key}");
            assert_eq!(ttft.more_requests, None);
            assert_eq!(ttft.base, runs[0].figures.get("time_to_first_token", key));
        }
        assert_eq!(
            stat(versus, "request_throughput", "avg").finding,
            Finding::NotSeen
        );
        let length = stat(versus, "output_sequence_length", "avg");
        assert_eq!(
            (length.finding, length.change),
            (Finding::NotSeen, Some(0.0))
        );
        // By another seed they are two samples, and so small a difference is not seen.
        let mut other = runs.clone();
        other[1].workload.seed = Some(8);
        let found = compared(&other, &[]).unwrap();
        let versus = &found.others[0];
        assert_eq!(versus.unpaired.as_deref(), Some("another seed (7, 8)"));
        let ttft = stat(versus, "time_to_first_token", "avg");
        assert_eq!(ttft.finding, Finding::NotSeen);
        assert!(ttft.more_requests > Some(800) && ttft.detectable > ttft.change);
        assert!(versus.warnings.is_empty(), "{:?}", versus.warnings);
    }

    #[test]
    fn a_request_that_one_run_lacks_stands_alone() {
        let (a, b) = (run("a", &[1.0, 2.0, 3.0]), run("b", &[1.0, f64::NAN]));
        let [a, b] = [a.columns.unwrap(), b.columns.unwrap()];
        let [left, right] = pairs(&a, &b);
        // Written last to first.
        assert_eq!(left, [Some(2), Some(1), Some(0)]);
        assert_eq!(right, [Some(1), Some(0), None]);
        let [left, right] = pairs(&b, &a);
        assert_eq!((left.len(), right.len()), (3, 3));
        assert_eq!((left[2], right[2]), (None, Some(0)));
    }

    #[test]
    fn a_throughput_has_the_figure_of_the_run_and_an_interval() {
        let mut values = draws(500, 3);
        values[100] = f64::NAN;
        let run = run("a", &values);
        for tag in [
            "request_throughput",
            "output_token_throughput",
            "input_token_throughput",
            "total_token_throughput",
        ] {
            let found = rate(run.columns.as_ref().unwrap(), tag, &by()).unwrap();
            let figure = run.figures.get(tag, "avg");
            // A failed request has an input too, which the run's figure does not hold.
            let error = (found.estimates[0] / figure.unwrap() - 1.0).abs();
            assert!(
                error < 0.01,
                "{tag}: {}, not {figure:?}",
                found.estimates[0]
            );
        }
        assert_eq!(rate(run.columns.as_ref().unwrap(), "goodput", &by()), None);
    }

    #[test]
    fn a_gate_fails_by_what_was_measured_and_says_whether_that_is_sure() {
        let base = draws(1_000, 4);
        let slower: Vec<f64> = base.iter().map(|ms| ms * 1.08).collect();
        let near: Vec<f64> = draws(1_000, 5).iter().map(|ms| ms * 1.05).collect();
        let gates = ["p99(ttft)>+5%", "p99(ttft)>+20%", "ttft>500ms"];
        let runs = [run("a", &base), run("b", &slower), run("c", &near)];
        let found = compared(&runs, &gates).unwrap();
        let judged = &found.others[0].judged;
        let so: Vec<bool> = judged.iter().map(|judged| judged.is_so).collect();
        assert_eq!(so, [true, false, false]);
        assert!(judged.iter().all(|judged| judged.is_sure() == Some(true)));
        assert!(found.is_failed());
        let unsure = &found.others[1].judged[0];
        assert_eq!(unsure.is_sure(), Some(false));
        assert!(unsure.more_requests > Some(0));
        // Asked by the gate alone, so shown too.
        let few = [run("a", &base[..100]), run("b", &slower[..100])];
        let found = compared(&few, &["p95(ttft)>+5%"]).unwrap();
        let p95 = stat(&found.others[0], "time_to_first_token", "p95");
        assert_eq!((p95.finding, p95.interval), (Finding::TooFew(130), None));
        assert_eq!(found.others[0].judged[0].is_sure(), None);
        let error = compared(&few, &["p50(itl)>+5%"]).unwrap_err();
        assert!(
            error.contains("no p50(inter_token_latency) in a, b"),
            "{error}"
        );
    }

    #[test]
    fn what_makes_a_comparison_doubtful_is_said_by_name() {
        let base = run("a", &draws(50, 6));
        let mut other = run("b", &draws(50, 7));
        other.workload.models = vec!["n".into()];
        other.workload.isl = Some((16.0, 0.0));
        other.made_by[1].1 = "2".into();
        other.side.verdict = Some("INVALID".into());
        other.reasons = vec!["receive_lag".into()];
        let warnings = base.warnings(&other);
        for (at, start) in [
            "b is INVALID (receive_lag)",
            "version differs: 1, and 2",
            "model differs: none, and n",
            "input tokens differs: none, and 16",
        ]
        .iter()
        .enumerate()
        {
            assert!(warnings[at].starts_with(start), "{warnings:?}");
        }
        assert_eq!(warnings.len(), 4, "{warnings:?}");
        assert!(
            base.why_unpaired(&other)
                .unwrap()
                .starts_with("another input tokens")
        );
    }

    #[test]
    fn without_requests_there_are_figures_only() {
        let mut runs = [run("a", &draws(50, 8)), run("b", &draws(50, 9))];
        runs[1].columns = None;
        runs[1].figures = Figures(runs[1].figures.0.clone());
        let found = compared(&runs, &["ttft>+500%"]).unwrap();
        let versus = &found.others[0];
        assert!(versus.unpaired.as_deref().unwrap().contains("not there"));
        for metric in &versus.metrics {
            assert_eq!(metric.ranks, None);
            let unknown = |s: &StatChange| s.finding == Finding::Unknown && s.interval.is_none();
            assert!(metric.stats.iter().all(unknown), "{metric:?}");
        }
        assert_eq!(versus.judged[0].is_sure(), None);
        assert!(!found.is_failed());
    }
}
