//! Step functions over time, by sweep line: concurrency, throughput, tokens in flight.

use super::distribution::float;
use super::summary::Weighted;
use crate::base::Ns;

/// The metrics that [`Curves`] have, in AIPerf's order.
pub const TAGS: [&str; 14] = [
    "effective_concurrency",
    "effective_decode_throughput",
    "effective_prefill_throughput",
    "effective_decode_concurrency",
    "effective_prefill_concurrency",
    "effective_total_throughput",
    "effective_decode_throughput_per_user",
    "effective_prefill_throughput_per_user",
    "tokens_in_flight",
    "active_decode_throughput",
    "active_prefill_throughput",
    "active_decode_throughput_per_user",
    "active_prefill_throughput_per_user",
    "active_total_throughput",
];

/// A request as the sweep line sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Start.
    pub start: Ns,
    /// First content; absent when the answer was no stream.
    pub first: Option<Ns>,
    /// Last content.
    pub end: Ns,
    /// Input tokens, 0 when unknown.
    pub input: u32,
    /// Output tokens, 0 when unknown.
    pub output: u32,
    /// Times of content events from the first on; empty where they were not kept.
    pub chunks: Vec<Ns>,
}

/// Changes of a step function at their times.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    deltas: Vec<(Ns, f64)>,
}

impl Steps {
    /// Adds `value` over `[start, end)`; an empty interval adds nothing.
    pub fn add(&mut self, start: Ns, end: Ns, value: f64) {
        if end > start && value != 0.0 {
            self.deltas.push((start, value));
            self.deltas.push((end, -value));
        }
    }

    /// The steps: from each time on, this value. Ends come before starts of the same time.
    pub fn curve(mut self) -> Vec<(Ns, f64)> {
        self.deltas
            .sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let (mut value, mut peak) = (0.0f64, 0.0f64);
        let mut curve: Vec<(Ns, f64)> = Vec::with_capacity(self.deltas.len());
        for (at, delta) in self.deltas {
            value += delta;
            peak = peak.max(value.abs());
            match curve.last_mut() {
                Some(last) if last.0 == at => last.1 = value,
                _ => curve.push((at, value)),
            }
        }
        for step in &mut curve {
            if step.1.abs() < 1e-9 * peak {
                step.1 = 0.0;
            }
        }
        curve
    }
}

/// The value of a curve over each piece of the window: (length in ns, value), none of length 0.
fn pieces(curves: &[&[(Ns, f64)]], start: Ns, end: Ns) -> Vec<(f64, Vec<f64>)> {
    // From the step that holds at the start to the last one before the end.
    let inside = curves.iter().map(|curve| {
        let from = curve.partition_point(|step| step.0 <= start);
        let to = curve.partition_point(|step| step.0 < end);
        &curve[from.saturating_sub(1)..to.max(from)]
    });
    let curves: Vec<&[(Ns, f64)]> = inside.collect();
    let mut edges: Vec<Ns> = curves.iter().flat_map(|c| c.iter().map(|s| s.0)).collect();
    edges.retain(|&t| t > start && t < end);
    edges.push(start);
    edges.push(end);
    edges.sort_unstable();
    edges.dedup();
    let mut next = vec![0usize; curves.len()];
    let mut values = vec![0.0; curves.len()];
    let mut pieces = Vec::with_capacity(edges.len());
    for pair in edges.windows(2) {
        for (i, curve) in curves.iter().enumerate() {
            while let Some(step) = curve.get(next[i]).filter(|step| step.0 <= pair[0]) {
                values[i] = step.1;
                next[i] += 1;
            }
        }
        pieces.push((float(pair[1].0 - pair[0].0), values.clone()));
    }
    pieces
}

/// Time-weighted statistics of (length, value) pieces; `None` without length.
pub fn weighted(mut pieces: Vec<(f64, f64)>) -> Option<Weighted> {
    let total: f64 = pieces.iter().map(|p| p.0).sum();
    if pieces.is_empty() || total <= 0.0 {
        return None;
    }
    let avg = pieces.iter().map(|(dt, v)| dt * v).sum::<f64>() / total;
    let var = pieces
        .iter()
        .map(|(dt, v)| dt * (v - avg) * (v - avg))
        .sum::<f64>()
        / total;
    pieces.sort_unstable_by(|a, b| a.1.total_cmp(&b.1));
    let at = |q: f64| {
        let mut held = 0.0;
        let found = pieces.iter().find(|(dt, _)| {
            held += dt;
            held / total >= q
        });
        found.unwrap_or(&pieces[pieces.len() - 1]).1
    };
    Some(Weighted {
        avg,
        min: pieces[0].1,
        max: pieces[pieces.len() - 1].1,
        std: var.sqrt(),
        percentiles: [at(0.5), at(0.9), at(0.95), at(0.99)],
    })
}

/// The step functions of a set of requests.
///
/// Concurrency, decode and prefill concurrency, decode and prefill tokens per ns, tokens.
#[derive(Clone, Debug, Default)]
pub struct Curves {
    curves: [Vec<(Ns, f64)>; 6],
    /// From the first start to the last end.
    window: Option<(Ns, Ns)>,
    is_streamed: bool,
}

impl Curves {
    /// Of these requests.
    pub fn of(spans: &[Span]) -> Curves {
        let mut sets: [Steps; 6] = Default::default();
        for span in spans {
            add_span(&mut sets, span);
        }
        let start = spans.iter().map(|span| span.start).min();
        Curves {
            curves: sets.map(Steps::curve),
            window: start.zip(spans.iter().map(|span| span.end).max()),
            is_streamed: spans.iter().any(|span| span.first.is_some()),
        }
    }

    /// The figures by tag, per second, from first start to last end.
    ///
    /// Shape: AIPerf's tags in its order; only `effective_concurrency` when nothing was streamed.
    pub fn figures(&self) -> Vec<(&'static str, Weighted)> {
        let window = self.window;
        window.map_or_else(Vec::new, |(start, end)| self.figures_over(start, end))
    }

    /// The same over a part of the time, whatever began before it.
    pub fn figures_over(&self, start: Ns, end: Ns) -> Vec<(&'static str, Weighted)> {
        if end <= start || self.window.is_none() {
            return Vec::new();
        }
        let all = pieces(&self.curves.each_ref().map(Vec::as_slice), start, end);
        let wanted = if self.is_streamed { TAGS.len() } else { 1 };
        read(&all, wanted)
    }
}

/// The first figures of [`TAGS`] over pieces of six values.
fn read(all: &[(f64, Vec<f64>)], wanted: usize) -> Vec<(&'static str, Weighted)> {
    let per_user = |v: &[f64], a: usize, b: usize| if v[b] > 0.0 { v[a] / v[b] } else { 0.0 };
    type Read<'a> = Box<dyn Fn(&[f64]) -> f64 + 'a>;
    type Mask = fn(&[f64]) -> bool;
    let always: Mask = |_| true;
    let decoding: Mask = |v| v[1] > 0.0;
    let prefilling: Mask = |v| v[2] > 0.0;
    let busy: Mask = |v| v[0] > 0.0;
    let rate = |i: usize| -> Read<'_> { Box::new(move |v| v[i] * 1e9) };
    let user = |a, b| -> Read<'_> { Box::new(move |v| per_user(v, a, b) * 1e9) };
    let total = || -> Read<'_> { Box::new(|v| (v[3] + v[4]) * 1e9) };
    let plain = |i: usize| -> Read<'_> { Box::new(move |v| v[i]) };
    let table: [(Read<'_>, Mask); TAGS.len()] = [
        (plain(0), always),
        (rate(3), always),
        (rate(4), always),
        (plain(1), always),
        (plain(2), always),
        (total(), always),
        (user(3, 1), always),
        (user(4, 2), always),
        (plain(5), always),
        (rate(3), decoding),
        (rate(4), prefilling),
        (user(3, 1), decoding),
        (user(4, 2), prefilling),
        (total(), busy),
    ];
    let figure = |read: &Read<'_>, mask: Mask| {
        let kept = all.iter().filter(|(_, v)| mask(v));
        weighted(kept.map(|(dt, v)| (*dt, read(v))).collect())
    };
    let rows = TAGS.into_iter().zip(&table).take(wanted);
    rows.filter_map(|(tag, (read, mask))| Some((tag, figure(read, *mask)?)))
        .collect()
}

/// Sets: concurrency, decode and prefill concurrency, decode and prefill tokens per ns, tokens.
fn add_span(sets: &mut [Steps; 6], span: &Span) {
    sets[0].add(span.start, span.end, 1.0);
    let Some(first) = span.first else {
        return;
    };
    let (input, output) = (f64::from(span.input), f64::from(span.output));
    sets[1].add(first, span.end, 1.0);
    sets[2].add(span.start, first, 1.0);
    let prefill = float(first.saturating_since(span.start).0);
    if prefill > 0.0 {
        sets[4].add(span.start, first, input / prefill);
    }
    sets[5].add(span.start, span.end, input);
    let decoded = (output - 1.0).max(0.0);
    if span.chunks.len() < 2 {
        let length = float(span.end.saturating_since(first).0);
        if length > 0.0 {
            sets[3].add(first, span.end, decoded / length);
        }
        sets[5].add(first, span.end, output);
        return;
    }
    let each = decoded / super::distribution::float_len(span.chunks.len() - 1);
    sets[5].add(first, span.end, output.min(1.0));
    // Chunks of one read share a time: their tokens belong to the gap before them.
    let (mut since, mut waiting) = (first, 0.0);
    let mut last_gap = None;
    for &at in &span.chunks[1..] {
        sets[5].add(at, span.end, each);
        waiting += each;
        if at > since {
            last_gap = Some((since, at));
            sets[3].add(since, at, waiting / float(at.0 - since.0));
            (since, waiting) = (at, 0.0);
        }
    }
    if let (Some((from, to)), true) = (last_gap, waiting > 0.0) {
        sets[3].add(from, to, waiting / float(to.0 - from.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(start: u64, first: u64, end: u64, input: u32, output: u32) -> Span {
        Span {
            start: Ns(start),
            first: Some(Ns(first)),
            end: Ns(end),
            input,
            output,
            chunks: Vec::new(),
        }
    }

    fn sweep(spans: &[Span]) -> Vec<(&'static str, Weighted)> {
        Curves::of(spans).figures()
    }

    #[test]
    fn the_sweep_line_is_aiperfs() {
        let found = sweep(&[
            span(0, 50, 250, 100, 11),
            span(100, 150, 450, 200, 31),
            span(300, 400, 600, 50, 5),
        ]);
        let check = |tag: &str, scale: f64, stats: [f64; 6]| {
            let w = &found.iter().find(|f| f.0 == tag).unwrap().1;
            let got = [
                w.avg,
                w.min,
                w.max,
                w.std,
                w.percentiles[0],
                w.percentiles[1],
            ];
            for (a, b) in got.iter().zip(stats) {
                assert!((a / scale - b).abs() < 1e-8, "{tag}: {got:?}");
            }
        };
        check("effective_concurrency", 1.0, [1.5, 1.0, 2.0, 0.5, 1.0, 2.0]);
        let decode = [1.166_666_667, 0.0, 2.0, 0.552_770_798, 1.0, 2.0];
        check("effective_decode_concurrency", 1.0, decode);
        let decode = [0.073_333_333, 0.0, 0.15, 0.050_881_125, 0.05, 0.15];
        check("effective_decode_throughput", 1e9, decode);
        let prefill = [0.583_333_333, 0.0, 4.0, 1.169_639_071, 0.0, 2.0];
        check("effective_prefill_throughput", 1e9, prefill);
        let total = [0.656_666_667, 0.02, 4.05, 1.155_460_466, 0.12, 2.0];
        check("effective_total_throughput", 1e9, total);
        let tokens = [204.166_666_667, 55.0, 342.0, 113.620_591_835, 231.0, 342.0];
        check("tokens_in_flight", 1.0, tokens);
        let active = [0.08, 0.02, 0.15, 0.047_863_442, 0.1, 0.15];
        check("active_decode_throughput", 1e9, active);
        let user = [0.055_833_333, 0.0, 0.1, 0.033_716_547, 0.05, 0.1];
        check("effective_decode_throughput_per_user", 1e9, user);
    }

    proptest! {
        #[test]
        fn slices_of_the_time_have_the_area_of_the_whole(
            spans in prop::collection::vec((0..10_000u64, 1..10_000u64), 1..40),
            width in 500..5_000u64,
        ) {
            let spans: Vec<Span> =
                spans.iter().map(|&(s, d)| span(s, s + d / 2, s + d, 3, 9)).collect();
            let curves = Curves::of(&spans);
            let (start, end) = curves.window.unwrap();
            let mut areas = [0.0; 14];
            let mut from = start;
            while from < end {
                let to = Ns(from.0 + width).min(end);
                for (at, (_, found)) in curves.figures_over(from, to).iter().enumerate().take(9) {
                    areas[at] += found.avg * float(to.0 - from.0);
                }
                from = to;
            }
            for (at, (tag, found)) in curves.figures().iter().enumerate().take(9) {
                let whole = found.avg * float(end.0 - start.0);
                prop_assert!((areas[at] - whole).abs() <= 1e-6 * whole.max(1.0), "{}", tag);
            }
        }

        #[test]
        fn mean_concurrency_times_the_window_is_the_sum_of_latencies(
            spans in prop::collection::vec((0..10_000u64, 1..10_000u64), 1..40)
        ) {
            let spans: Vec<Span> =
                spans.iter().map(|&(s, d)| span(s, s + d / 2, s + d, 1, 2)).collect();
            let start = spans.iter().map(|s| s.start.0).min().unwrap();
            let end = spans.iter().map(|s| s.end.0).max().unwrap();
            let sum: u64 = spans.iter().map(|s| s.end.0 - s.start.0).sum();
            let found = sweep(&spans)[0].1.avg * float(end - start);
            prop_assert!((found - float(sum)).abs() < 1e-6 * float(sum));
        }
    }
}
