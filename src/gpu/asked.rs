//! What a device has answered: a query that it does not support is asked once, and a device that is
//! lost is asked once per tick until it is back.

use crate::base::Ns;
use nvml_wrapper::error::NvmlError;

/// What can be asked of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    PowerInstant,
    PowerAverage,
    Energy,
    Utilization,
    Memory,
    Temperature,
    MemoryTemperature,
    SmClock,
    MemoryClock,
    Throttle,
    PowerLimit,
    Decoder,
    Encoder,
    PowerViolation,
    ThermalViolation,
    PcieReplays,
    NvlinkSent,
    NvlinkReceived,
    EccCorrected,
    EccUncorrected,
    Processes,
}

const QUERY_COUNT: usize = Query::Processes as usize + 1;

/// A time without answers, the first of a run.
#[derive(Clone, Debug)]
struct Loss {
    from: Ns,
    reason: String,
    until: Option<Ns>,
}

/// A device's answers so far.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Answered "not supported", so it is not asked again.
    refused: [bool; QUERY_COUNT],
    /// This tick had an answer.
    has_answered: bool,
    /// What went wrong in this tick, and whether asking further is of no use.
    fault: Option<(String, bool)>,
    loss: Option<Loss>,
    /// It did not answer in the last tick.
    is_lost: bool,
    lost_ticks: u64,
}

impl Asked {
    /// Asks unless the device refused before or is gone.
    pub fn ask<T>(
        &mut self,
        query: Query,
        read: impl FnOnce() -> Result<T, NvmlError>,
    ) -> Option<T> {
        if !self.may(query) {
            return None;
        }
        self.take(query, read())
    }

    /// True unless asking is of no use.
    pub fn may(&self, query: Query) -> bool {
        !self.refused[query as usize] && !matches!(self.fault, Some((_, true)))
    }

    /// True when it is not supported.
    pub fn has_refused(&self, query: Query) -> bool {
        self.refused[query as usize]
    }

    /// Takes in an answer.
    pub fn take<T>(&mut self, query: Query, answer: Result<T, NvmlError>) -> Option<T> {
        match answer {
            Ok(value) => {
                self.has_answered = true;
                Some(value)
            }
            Err(error) => {
                self.fail(query, &error);
                None
            }
        }
    }

    /// Takes in that there was no answer.
    pub fn fail(&mut self, query: Query, error: &NvmlError) {
        match Meaning::of(error) {
            Meaning::Never => self.refused[query as usize] = true,
            Meaning::Later if self.fault.is_some() => {}
            Meaning::Later => self.fault = Some((error.to_string(), false)),
            Meaning::Lost => self.fault = Some((error.to_string(), true)),
        }
    }

    /// Ends a tick: true when its values are of a device that is there.
    pub fn end_tick(&mut self, at: Ns) -> bool {
        let has_answered = std::mem::take(&mut self.has_answered);
        // One query may fail in passing; all of them do when the device is gone.
        let fault = self.fault.take();
        let fault = fault.filter(|(_, is_lost)| *is_lost || !has_answered);
        self.is_lost = fault.is_some();
        match (fault, &mut self.loss) {
            (Some((reason, _)), loss) => {
                self.lost_ticks += 1;
                let until = None;
                loss.get_or_insert(Loss {
                    from: at,
                    reason,
                    until,
                });
            }
            (None, Some(loss)) if has_answered => {
                loss.until.get_or_insert(at);
            }
            _ => {}
        }
        has_answered && !self.is_lost
    }

    /// When the device was lost and what is missing, `None` where it never was.
    pub fn loss(&self, name: &str, started: Ns) -> Option<String> {
        let loss = self.loss.as_ref()?;
        let after = |at: Ns| format!("{:.1} s", at.saturating_since(started).as_secs());
        let ticks = match self.lost_ticks {
            1 => "one sample is missing".to_owned(),
            count => format!("{count} samples are missing"),
        };
        let end = match loss.until {
            Some(at) if !self.is_lost => format!("; from {} on it answered again", after(at)),
            _ => "; it did not answer again".to_owned(),
        };
        let (from, reason) = (after(loss.from), &loss.reason);
        Some(format!(
            "{name} was lost {from} after the start ({reason}): {ticks}{end}."
        ))
    }
}

/// What an error says of asking again.
enum Meaning {
    /// It cannot help.
    Never,
    /// It may.
    Later,
    /// The whole device is gone, for now at least.
    Lost,
}

impl Meaning {
    fn of(error: &NvmlError) -> Meaning {
        match error {
            NvmlError::NotSupported
            | NvmlError::NoPermission
            | NvmlError::FunctionNotFound
            | NvmlError::FailedToLoadSymbol(_)
            | NvmlError::InvalidArg
            | NvmlError::UnexpectedVariant(_) => Meaning::Never,
            NvmlError::GpuLost
            | NvmlError::DriverNotLoaded
            | NvmlError::Uninitialized
            | NvmlError::ResetRequired
            | NvmlError::LibRmVersionMismatch => Meaning::Lost,
            _ => Meaning::Later,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_query_that_is_not_supported_is_asked_once() {
        let mut asked = Asked::default();
        let mut count = 0;
        for _ in 0..3 {
            let answer = asked.ask(Query::Energy, || {
                count += 1;
                Err::<u64, _>(NvmlError::NotSupported)
            });
            assert_eq!(answer, None);
        }
        assert_eq!((count, asked.has_refused(Query::Energy)), (1, true));
        assert_eq!(asked.ask(Query::Memory, || Ok(3)), Some(3));
        assert!(asked.end_tick(Ns(0)));
    }

    #[test]
    fn a_passing_fault_is_asked_again_and_loses_nothing_else() {
        let mut asked = Asked::default();
        let first = asked.ask(Query::Memory, || Err::<u64, _>(NvmlError::Unknown));
        assert_eq!(first, None);
        assert_eq!(asked.ask(Query::Energy, || Ok(1)), Some(1));
        assert!(asked.end_tick(Ns(0)));
        assert_eq!(asked.ask(Query::Memory, || Ok(3)), Some(3));
        assert!(asked.end_tick(Ns(1)));
        assert_eq!(asked.loss("GPU 0", Ns(0)), None);
    }

    #[test]
    fn a_lost_device_is_asked_once_a_tick_and_told_of() {
        let mut asked = Asked::default();
        let mut count = 0;
        let mut lost = |asked: &mut Asked| {
            count += 1;
            asked.ask(Query::Energy, || Err::<u64, _>(NvmlError::GpuLost))
        };
        asked.ask(Query::Energy, || Ok(1));
        assert!(asked.end_tick(Ns(S)));
        for tick in 2..4 {
            lost(&mut asked);
            assert!(!asked.may(Query::Memory));
            assert!(!asked.end_tick(Ns(tick * S)));
        }
        let told = asked.loss("GPU 3", Ns(S / 2)).unwrap();
        assert!(
            told.starts_with("GPU 3 was lost 1.5 s after the start (device fell"),
            "{told}"
        );
        assert!(
            told.ends_with("): 2 samples are missing; it did not answer again."),
            "{told}"
        );
        asked.ask(Query::Energy, || Ok(1));
        assert!(asked.end_tick(Ns(5 * S)));
        let told = asked.loss("GPU 3", Ns(S / 2)).unwrap();
        assert!(
            told.ends_with("; from 4.5 s on it answered again."),
            "{told}"
        );
    }

    #[test]
    fn a_device_that_fails_every_query_is_lost_whatever_it_says() {
        let mut asked = Asked::default();
        for query in [Query::Energy, Query::Memory] {
            asked.ask(query, || Err::<u64, _>(NvmlError::Unknown));
        }
        assert!(!asked.end_tick(Ns(0)));
        let told = asked.loss("GPU 0", Ns(0)).unwrap();
        assert!(
            told.contains("(an internal driver error occurred): one sample"),
            "{told}"
        );
    }
}
