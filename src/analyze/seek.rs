//! A search by real runs: a sweep whose points a planner picks, one by what the others were.

use super::search::{self, Probe, Prober, gates};
use super::sweep::Course;
use crate::config::{SearchSpec, Variation};
use crate::profile::Early;
use crate::stats::Figures;
use crate::stats::gate::Gate;
use crate::stats::search::Search;

/// Searches. Errors: what ends the very first run.
pub fn seek(course: &mut Course, spec: &SearchSpec) -> Result<Search, Early> {
    let tiers = gates(spec).map_err(Early::usage)?;
    let (found, stop) = search::search(spec, &tiers, course);
    match stop.flatten() {
        Some(early) => Err(early),
        None => Ok(found),
    }
}

/// What a good load meets: the conditions of the search, of all its tiers.
pub fn slos(spec: &SearchSpec) -> Result<Vec<Gate>, Early> {
    let tiers = gates(spec).map_err(Early::usage)?;
    let mut all: Vec<Gate> = Vec::new();
    for gate in tiers.into_iter().flat_map(|(_, gates)| gates) {
        if !all.contains(&gate) {
            all.push(gate);
        }
    }
    Ok(all)
}

/// The point of a probe: the search's own requests and conditions on each of them win.
fn point(course: &Course, spec: &SearchSpec, probe: &Probe) -> Result<Variation, String> {
    let axis = crate::config::axis(spec.axis.name()).ok_or("no such setting")?;
    let (mut variation, _) = course.sweep.template.at(&[(axis, probe.value)])?;
    let config = &mut variation.config;
    if !spec.goodput.is_empty() {
        config.goodput.clone_from(&spec.goodput);
    }
    Ok(variation)
}

impl Prober for Course {
    /// Why the first run did not begin; none where the course has noted why it ends.
    type Stop = Option<Early>;

    fn probe(&mut self, probe: &Probe) -> Result<Vec<Figures>, Option<Early>> {
        let Some(spec) = self.sweep.search.clone() else {
            return Err(None);
        };
        let variation = point(self, &spec, probe).map_err(|text| Some(Early::usage(text)))?;
        let is_new = !self
            .sweep
            .variations
            .iter()
            .any(|v| v.label == variation.label);
        if is_new {
            self.sweep.variations.push(variation.clone());
        }
        self.step(&variation, probe.visit).map_err(Some)?;
        match self.runs.last() {
            _ if self.ended.is_some() => Err(None),
            Some(run) if run.fault.is_none() => Ok(vec![run.figures.clone()]),
            _ => Ok(Vec::new()),
        }
    }
}
