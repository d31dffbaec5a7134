//! One ticket over all cores and phases.

use super::*;
use crate::engine::Skipped;
use crate::engine::{GatePlan, PhasePlan};
use crate::schedule::{Curve, Gaps, Law};

fn times(due: impl IntoIterator<Item = Ns>) -> Option<Law> {
    Some(Law::Times(due.into_iter().collect::<Vec<_>>().into()))
}

fn measured(plan: PhasePlan) -> PhasePlan {
    PhasePlan {
        measured: true,
        ..plan
    }
}

fn options(phases: Vec<PhasePlan>) -> PaceOptions {
    PaceOptions {
        phases,
        urls: 1,
        cores: 1,
        ..PaceOptions::default()
    }
}

/// A pace with one core that asks it.
struct Asked {
    pace: Pace,
    cursor: Cursor,
}

impl Asked {
    fn new(options: PaceOptions, begin: Ns) -> Asked {
        let pace = Pace::new(options);
        pace.begin(begin);
        Asked {
            pace,
            cursor: Cursor::default(),
        }
    }

    fn claim(&mut self, at: Ns) -> Claim {
        self.pace.claim(at, 0, &mut self.cursor, Want::Session)
    }

    fn ticket(&mut self, at: Ns) -> Option<Ticket> {
        match self.claim(at) {
            Claim::Take(ticket) => Some(ticket),
            _ => None,
        }
    }

    fn index(&mut self, at: Ns) -> Option<u64> {
        self.ticket(at).map(|ticket| ticket.index)
    }

    fn end(&mut self, at: Ns, part: u8) {
        self.pace.ended(at, part, 0, false);
        self.pace.session_ended(at, part);
    }
}

fn one(plan: PhasePlan) -> Asked {
    Asked::new(options(vec![measured(plan)]), Ns(1_000))
}

#[test]
fn the_budget_is_exact_over_cores_that_race() {
    let pace = Pace::new(PaceOptions {
        cores: 4,
        ..options(vec![measured(PhasePlan {
            count: Some(10_000),
            ..PhasePlan::default()
        })])
    });
    pace.begin(Ns(1_000));
    let work = |core: u16| {
        let (mut mine, mut cursor) = (Vec::new(), Cursor::default());
        while let Claim::Take(ticket) = pace.claim(Ns(2_000), core, &mut cursor, Want::Session) {
            mine.push((ticket.index, ticket.session));
            pace.ended(Ns(2_000), 0, 0, false);
            pace.session_ended(Ns(2_000), 0);
        }
        mine
    };
    let taken: Vec<Vec<(u64, u64)>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4u16)
            .map(|core| scope.spawn(move || work(core)))
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect()
    });
    let mut all: Vec<u64> = taken.concat().iter().map(|pair| pair.0).collect();
    all.sort_unstable();
    assert_eq!(all, (0..10_000).collect::<Vec<_>>());
    let mut all: Vec<u64> = taken.concat().iter().map(|pair| pair.1).collect();
    all.sort_unstable();
    assert_eq!(all, (0..10_000).collect::<Vec<_>>());
    assert_eq!(pace.in_flight(), 0);
}

#[test]
fn a_cap_is_exact_over_cores_that_race_and_so_are_those_of_prefill_and_url() {
    let gate = |most| Some(GatePlan::flat(most));
    let pace = Pace::new(PaceOptions {
        cores: 4,
        urls: 2,
        ..options(vec![measured(PhasePlan {
            law: Some(Law::Burst),
            cap: gate(7),
            prefill: gate(5),
            per_url: Some(4),
            count: Some(4_000),
            ..PhasePlan::default()
        })])
    });
    pace.begin(Ns(1));
    let held: [AtomicU32; 4] = Default::default();
    let most = [7, 5, 4, 4];
    let enter = |gate: usize| {
        let now = held[gate].fetch_add(1, Ordering::AcqRel) + 1;
        assert!(now <= most[gate], "{now} behind gate {gate}");
    };
    let leave = |gate: usize| {
        held[gate].fetch_sub(1, Ordering::AcqRel);
    };
    std::thread::scope(|scope| {
        for core in 0..4u16 {
            let (pace, enter, leave) = (&pace, &enter, &leave);
            scope.spawn(move || {
                let mut cursor = Cursor::default();
                loop {
                    match pace.claim(Ns(9_000_000), core, &mut cursor, Want::Session) {
                        Claim::Take(ticket) => {
                            let url = usize::try_from(ticket.index % 2).unwrap();
                            [0, 1, 2 + url].into_iter().for_each(enter);
                            std::thread::yield_now();
                            leave(1);
                            pace.prefilled(Ns(9_000_000));
                            leave(2 + url);
                            leave(0);
                            pace.ended(Ns(9_000_000), 0, url as u16, false);
                            pace.session_ended(Ns(9_000_000), 0);
                        }
                        Claim::Finished => break,
                        _ => std::thread::yield_now(),
                    }
                }
            });
        }
    });
    assert_eq!(pace.finished_count(), 4_000);
    assert_eq!(pace.in_flight(), 0);
}

#[test]
fn a_due_time_is_not_claimed_early_and_a_cap_holds() {
    let mut asked = one(PhasePlan {
        count: Some(3),
        law: times([Ns(0), Ns(100), Ns(5_000_000)]),
        cap: Some(GatePlan::flat(1)),
        ..PhasePlan::default()
    });
    assert_eq!(asked.index(Ns(1_000)), Some(0));
    assert_eq!(asked.claim(Ns(1_200)), Claim::Full);
    asked.end(Ns(9_000), 0);
    let ticket = asked.ticket(Ns(10_000)).unwrap();
    let found = (ticket.index, ticket.due, ticket.granted);
    assert_eq!(found, (1, Some(Ns(1_100)), Some(Ns(9_000))));
    assert_eq!(asked.claim(Ns(20_000)), Claim::NotBefore(Ns(5_001_000)));
}

fn open(cap: Option<u32>, due_ms: impl IntoIterator<Item = u64>) -> PhasePlan {
    let due: Vec<Ns> = due_ms.into_iter().map(Ns::from_ms).collect();
    measured(PhasePlan {
        count: Some(due.len() as u64),
        law: times(due),
        cap: cap.map(GatePlan::flat),
        ..PhasePlan::default()
    })
}

fn at(ms: u64) -> Ns {
    Ns(1) + Ns::from_ms(ms)
}

#[test]
fn a_slot_that_was_free_when_due_was_not_waited_for_however_late_the_client_comes() {
    let mut asked = Asked::new(options(vec![open(Some(2), [0, 10, 20])]), Ns(1));
    asked.claim(at(0));
    asked.end(at(5), 0);
    asked.claim(at(10));
    // It ends after the third is due, whose slot has stood free all the time.
    asked.end(at(25), 0);
    assert_eq!(asked.ticket(at(30)).unwrap().granted, None);
}

#[test]
fn wakes_that_come_late_put_off_no_later_send() {
    // Field case RA-1: 200/s; each wait ends 0.4 ms late.
    let plan = open(None, (0..10_000).map(|n| 5 * n));
    let mut asked = Asked::new(options(vec![plan]), Ns(1));
    let (mut clock, mut sent) = (at(0), Vec::new());
    loop {
        match asked.claim(clock) {
            Claim::Take(_) => sent.push(clock),
            Claim::NotBefore(time) => clock = time + Ns(400_000),
            _ => break,
        }
    }
    assert_eq!(sent.len(), 10_000);
    assert_eq!(sent[9_999], at(49_995) + Ns(400_000));
}

#[test]
fn what_a_frozen_client_comes_to_too_late_is_sent_at_once_or_skipped() {
    // Field case RA-2 B: 100/s, frozen from 1.0 to 3.0 s.
    for (skip_late, sent_at_wake) in [(false, 200), (true, 1)] {
        let mut options = options(vec![open(None, (0..400).map(|n| 10 * n))]);
        options.skip_late = skip_late;
        let mut asked = Asked::new(options, Ns(1));
        let mut sent = Vec::new();
        let mut clock = at(0);
        loop {
            match asked.claim(clock) {
                Claim::Take(ticket) => sent.push((ticket.index, ticket.due.unwrap(), clock)),
                Claim::NotBefore(time) if time == at(1_000) => clock = at(3_000),
                Claim::NotBefore(time) => clock = time,
                _ => break,
            }
        }
        let late: Vec<_> = sent.iter().filter(|(_, due, at)| at > due).collect();
        let skipped = asked.pace.skipped();
        assert_eq!(late.len(), sent_at_wake);
        assert_eq!(skipped.late + late.len() as u64, 200);
        let lag = |(_, due, at): &&(u64, Ns, Ns)| at.saturating_since(*due);
        let most = late.iter().map(lag).max().unwrap().max(skipped.late_max);
        assert_eq!(most, Ns::from_ms(2_000));
        assert_eq!(asked.pace.sent_count() + skipped.late, 400);
        // Before the freeze and after it each request has its own time.
        assert_eq!(sent.iter().filter(|(_, due, at)| at == due).count(), 200);
        for (from, _, begin) in sent.iter().filter(|(.., time)| *time < at(1_000)) {
            let end = *begin + Ns::from_ms(1_000);
            let inside = sent
                .iter()
                .filter(|(index, _, at)| index >= from && *at < end);
            assert!(inside.count() <= 101);
        }
    }
}

#[test]
fn a_full_cap_skips_what_is_due_when_that_is_asked_but_never_the_warm_up() {
    let warmup = PhasePlan {
        measured: false,
        ..open(Some(1), [0, 10])
    };
    let mut options = options(vec![warmup, open(Some(1), [0, 10, 20])]);
    options.skip_capped = true;
    let mut asked = Asked::new(options, Ns(1));
    assert_eq!(asked.index(at(0)), Some(0));
    assert_eq!(asked.claim(at(10)), Claim::Full);
    asked.end(at(19), 0);
    assert_eq!(asked.index(at(19)), Some(1));
    // The measurement begins here, with the first answer; the warm-up still has the slot.
    assert_eq!(asked.claim(at(19)), Claim::Full);
    assert_eq!(asked.claim(at(21)), Claim::NotBefore(at(29)));
    asked.end(at(28), 0);
    // Its slot has been free before it was due.
    assert_eq!(asked.index(at(29)), Some(3));
    // This one was due at 39, and the slot came at 40.
    asked.end(at(40), 1);
    assert_eq!(asked.claim(at(41)), Claim::Finished);
    let skipped = asked.pace.skipped();
    assert_eq!((skipped.capped, skipped.late), (2, 0));
    assert_eq!(
        (asked.pace.sent_count(), asked.pace.claimed_count()),
        (3, 5)
    );
    assert_eq!(asked.pace.in_flight(), 0);
}

#[test]
fn what_a_cap_skips_as_told_is_not_lacking_from_the_rate_and_what_comes_late_is() {
    let mut options = options(vec![open(Some(1), [0, 10, 20, 30, 40])]);
    (options.skip_capped, options.skip_late) = (true, true);
    let mut asked = Asked::new(options, Ns(1));
    asked.claim(at(0));
    asked.end(at(15), 0);
    // The one due at 10 had no slot; then each goes at its time.
    assert_eq!(asked.index(at(20)), Some(2));
    assert_eq!(asked.pace.scheduled_rate(), Some(50.0));
    assert_eq!(asked.pace.delivered_rate(), Some(50.0));
    asked.end(at(21), 0);
    assert_eq!(asked.index(at(41)), Some(4));
    let skipped = asked.pace.skipped();
    assert_eq!((skipped.capped, skipped.late), (1, 1));
    assert_eq!(asked.pace.scheduled_rate(), Some(75.0));
    assert!(asked.pace.delivered_rate().unwrap() < 50.0);
}

fn closed(measured: bool, count: Option<u64>) -> PhasePlan {
    PhasePlan {
        measured,
        count,
        ..PhasePlan::default()
    }
}

#[test]
fn a_warm_up_hands_over_with_the_first_slot_that_frees() {
    let phases = vec![closed(false, Some(2)), closed(true, Some(2))];
    let mut asked = Asked::new(options(phases), Ns(1_000));
    assert_eq!(asked.ticket(Ns(1_000)).unwrap().phase, Phase::Warmup);
    assert_eq!(asked.ticket(Ns(1_000)).unwrap().phase, Phase::Warmup);
    assert_eq!(asked.claim(Ns(1_000)), Claim::Full);
    asked.pace.ended(Ns(2_000), 0, 0, true);
    assert_eq!(
        (asked.pace.measured_count(), asked.pace.failed_count()),
        (0, 0)
    );
    let ticket = asked.ticket(Ns(2_100)).unwrap();
    assert_eq!((ticket.phase, ticket.part), (Phase::Profiling, 1));
    assert_eq!(asked.pace.warmup_in_flight(), 1);
    // A slot that has stood free since the start could go only then.
    assert_eq!(asked.pace.phase_start(1), Some(Ns(2_000)));
    assert_eq!(asked.pace.measured_from(), Some(Ns(2_100)));
}

#[test]
fn a_warm_up_that_drains_hands_over_with_its_last_end_or_when_its_grace_is_over() {
    let warmup = PhasePlan {
        drains: true,
        grace: Some(Ns(500)),
        ..closed(false, Some(2))
    };
    for (second_ends, begins) in [(Some(Ns(1_300)), Ns(1_300)), (None, Ns(1_500))] {
        let phases = vec![warmup.clone(), closed(true, Some(1))];
        let mut asked = Asked::new(options(phases), Ns(1_000));
        (0..2).for_each(|_| assert!(asked.ticket(Ns(1_000)).is_some()));
        asked.end(Ns(1_200), 0);
        assert_eq!(asked.claim(Ns(1_250)), Claim::Full);
        if let Some(at) = second_ends {
            asked.end(at, 0);
        }
        let ticket = asked.ticket(Ns(1_600)).unwrap();
        assert_eq!(ticket.part, 1);
        assert_eq!(asked.pace.phase_start(1), Some(begins));
    }
}

#[test]
fn a_schedule_that_the_warm_up_held_back_goes_on_from_its_first_answer() {
    let law = || times((0..5).map(|index| Ns(100 * index)));
    let warmup = PhasePlan {
        law: law(),
        ..closed(false, Some(2))
    };
    let main = PhasePlan {
        law: law(),
        duration: Some(Ns(1_000)),
        ..closed(true, Some(3))
    };
    let mut asked = Asked::new(options(vec![warmup, main]), Ns(1_000));
    let due = |asked: &mut Asked, at| asked.ticket(Ns(at)).and_then(|ticket| ticket.due);
    assert_eq!(due(&mut asked, 1_000), Some(Ns(1_000)));
    assert_eq!(due(&mut asked, 1_100), Some(Ns(1_100)));
    assert_eq!(asked.claim(Ns(1_900)), Claim::Full);
    asked.end(Ns(2_000), 0);
    asked.end(Ns(2_050), 0);
    assert_eq!(due(&mut asked, 2_060), Some(Ns(2_000)));
    assert_eq!(asked.claim(Ns(2_060)), Claim::NotBefore(Ns(2_100)));
    assert_eq!(due(&mut asked, 2_100), Some(Ns(2_100)));
    assert_eq!(due(&mut asked, 2_200), Some(Ns(2_200)));
    assert_eq!(asked.pace.measured_from(), Some(Ns(2_060)));
}

#[test]
fn a_schedule_that_nothing_holds_back_has_no_seam_between_its_phases() {
    let poisson = |seed| Law::Renewal {
        gaps: Gaps::Exponential,
        curve: Curve::flat(1_000.0),
        seed,
        stretch: 1.0,
    };
    let mut whole = Arrivals::new(poisson(3), 0, false);
    let phase = |measured, count| PhasePlan {
        law: Some(poisson(3)),
        ..closed(measured, Some(count))
    };
    let mut asked = Asked::new(options(vec![phase(false, 5), phase(true, 20)]), Ns(1));
    let mut clock = Ns(1);
    for index in 0..25 {
        let ticket = loop {
            match asked.claim(clock) {
                Claim::Take(ticket) => break ticket,
                Claim::NotBefore(time) => clock = time,
                other => panic!("{other:?}"),
            }
        };
        asked.end(clock, ticket.part);
        let expected = Ns(1) + whole.due(index).unwrap();
        assert!(ticket.due.unwrap().0.abs_diff(expected.0) <= 3, "{index}");
        assert_eq!(ticket.part, u8::from(index >= 5));
    }
}

#[test]
fn phases_by_time_begin_at_their_times_whatever_is_in_flight() {
    let timed = |measured, ns| PhasePlan {
        duration: Some(Ns(ns)),
        ..closed(measured, None)
    };
    let phases = vec![timed(false, 100), timed(true, 100), timed(true, 50)];
    let mut asked = Asked::new(options(phases), Ns(1_000));
    assert_eq!(asked.ticket(Ns(1_000)).unwrap().part, 0);
    assert_eq!(asked.pace.next_phase(), Some(Ns(1_100)));
    // A slot of the second phase, the first's request still in flight.
    assert_eq!(asked.ticket(Ns(1_150)).unwrap().part, 1);
    assert_eq!(asked.pace.phase_start(1), Some(Ns(1_100)));
    // A core that comes late finds the third, which began in time.
    assert_eq!(asked.ticket(Ns(1_230)).unwrap().part, 2);
    assert_eq!(asked.pace.phase_start(2), Some(Ns(1_200)));
    assert_eq!(asked.claim(Ns(1_250)), Claim::Finished);
    // Each end counts for its own phase.
    asked.end(Ns(1_251), 0);
    assert_eq!(
        (asked.pace.finished_count(), asked.pace.measured_count()),
        (1, 0)
    );
    asked.end(Ns(1_252), 1);
    assert_eq!(asked.pace.measured_count(), 1);
}

#[test]
fn what_was_due_within_the_time_and_never_sent_is_counted() {
    // 100 ns of one a 10 ns, and one in flight at a time.
    let mut asked = one(PhasePlan {
        law: times((0..20).map(|n| Ns(10 * n))),
        duration: Some(Ns(100)),
        cap: Some(GatePlan::flat(1)),
        ..PhasePlan::default()
    });
    // It leaves a little late, which makes the time no longer.
    assert_eq!(asked.index(Ns(1_004)), Some(0));
    assert_eq!(asked.claim(Ns(1_050)), Claim::Full);
    asked.end(Ns(1_090), 0);
    assert_eq!(asked.index(Ns(1_095)), Some(1));
    assert_eq!(asked.claim(Ns(1_100)), Claim::Finished);
    // Due at 20 to 90.
    assert_eq!(asked.pace.unsent_count(), 8);
}

#[test]
fn time_ends_sending_and_then_what_is_in_flight() {
    let mut asked = one(PhasePlan {
        duration: Some(Ns(100)),
        grace: Some(Ns(50)),
        ..PhasePlan::default()
    });
    assert_eq!(asked.index(Ns(1_000)), Some(0));
    assert_eq!(asked.pace.stopping(Ns(1_099)), Stop::Run);
    assert_eq!(asked.claim(Ns(1_100)), Claim::Finished);
    assert_eq!(asked.pace.stopping(Ns(1_149)), Stop::Drain);
    assert_eq!(asked.pace.stopping(Ns(1_150)), Stop::Cancel);
}

#[test]
fn a_prefill_slot_is_held_until_the_first_content_and_waiting_for_it_is_told() {
    let mut asked = one(PhasePlan {
        prefill: Some(GatePlan::flat(1)),
        count: Some(3),
        ..PhasePlan::default()
    });
    assert_eq!(asked.index(Ns(1_000)), Some(0));
    assert_eq!(asked.claim(Ns(1_100)), Claim::Full);
    asked.pace.prefilled(Ns(1_200));
    let ticket = asked.ticket(Ns(1_300)).unwrap();
    assert_eq!((ticket.index, ticket.granted), (1, Some(Ns(1_200))));
    asked.pace.prefilled(Ns(1_350));
    asked.end(Ns(1_400), 0);
    // Free before it was asked for: the slot of the loop, not this one, was waited for.
    assert_eq!(asked.ticket(Ns(1_500)).unwrap().granted, Some(Ns(1_350)));
}

#[test]
fn a_ramp_of_a_cap_lets_one_more_in_at_each_of_its_times() {
    let openings = vec![Ns(0), Ns(100), Ns(200)];
    let mut asked = one(PhasePlan {
        law: Some(Law::Burst),
        cap: Some(GatePlan { most: 3, openings }),
        count: Some(5),
        ..PhasePlan::default()
    });
    assert_eq!(asked.index(Ns(1_000)), Some(0));
    assert_eq!(asked.claim(Ns(1_099)), Claim::Full);
    assert_eq!(asked.ticket(Ns(1_150)).unwrap().granted, Some(Ns(1_100)));
    assert_eq!(asked.ticket(Ns(1_250)).unwrap().granted, Some(Ns(1_200)));
    assert_eq!(asked.claim(Ns(1_260)), Claim::Full);
    asked.end(Ns(1_270), 0);
    assert_eq!(asked.ticket(Ns(1_280)).unwrap().granted, Some(Ns(1_270)));
}

#[test]
fn any_number_of_workers_sends_the_same_times() {
    let law = Law::Renewal {
        gaps: Gaps::Gamma { shape: 0.5 },
        curve: Curve::flat(10_000.0),
        seed: 42,
        stretch: 1.0,
    };
    let plan = measured(PhasePlan {
        law: Some(law),
        count: Some(2_000),
        ..PhasePlan::default()
    });
    let sent = |cores: u32| {
        let pace = Pace::new(PaceOptions {
            cores,
            ..options(vec![plan.clone()])
        });
        pace.begin(Ns(1));
        let mut cursors: Vec<Cursor> = (0..cores).map(|_| Cursor::default()).collect();
        let (mut clock, mut due) = (Ns(1), Vec::new());
        // Each core wakes at the time it is told, as if it were alone.
        let mut wakes = vec![Ns(1); cores as usize];
        while due.len() < 2_000 {
            let core = (0..wakes.len()).min_by_key(|core| wakes[*core]).unwrap();
            clock = clock.max(wakes[core]);
            match pace.claim(clock, core as u16, &mut cursors[core], Want::Session) {
                Claim::Take(ticket) => due.push((ticket.index, ticket.due.unwrap())),
                Claim::NotBefore(time) => wakes[core] = time,
                other => panic!("{other:?}"),
            }
        }
        due
    };
    let alone = sent(1);
    assert_eq!(sent(2), alone);
    assert_eq!(sent(8), alone);
}

#[test]
fn a_day_of_constant_load_does_not_drift() {
    // 5/s over 24 h on a clock that only the test moves; answers take 100 ms.
    let law = Law::Renewal {
        gaps: Gaps::Constant,
        curve: Curve::flat(5.0),
        seed: 0,
        stretch: 1.0,
    };
    let mut asked = one(PhasePlan {
        law: Some(law),
        duration: Some(Ns(86_400_000_000_000)),
        ..PhasePlan::default()
    });
    let mut clock = Ns(1_000);
    let mut last = Ns::ZERO;
    loop {
        match asked.claim(clock) {
            Claim::Take(ticket) => {
                last = ticket.due.unwrap();
                asked.end(clock + Ns::from_ms(100), 0);
            }
            Claim::NotBefore(time) => clock = time,
            Claim::Finished => break,
            Claim::Full => panic!("nothing caps it"),
        }
    }
    assert_eq!(asked.pace.claimed_count(), 24 * 3_600 * 5);
    assert_eq!(last, Ns(1_000) + Ns(86_399_800_000_000));
    assert_eq!(asked.pace.skipped(), Skipped::default());
}
