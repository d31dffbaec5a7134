//! The loop of one core: wait, take in what came, send what is due.

use super::claim::{Claim, Stop, Want};
use super::deadlines::Deadlines;
use super::flight::Flight;
use super::handover::BATCH_RECORDS;
use super::lines::{Doing, Line};
use super::pace::{Cursor, Pace};
use super::plan::{CoreOutput, CorePlan, Target};
use super::session::Agenda;
use super::slots::Slots;
use crate::base::{Ns, limits, now};
use crate::endpoint::EventReader;
use crate::runtime::{
    Account, Accountant, Driver, Reactor, ReactorOptions, ThreadCpu, Token, thread_cpu,
};
use crate::stats::summary::CoreReport;
use crate::stats::{CoreRecorder, Record};
use std::collections::VecDeque;
use std::sync::Arc;

/// How often an idle core asks for a slot that another core frees.
const SLOT_POLL: Ns = Ns(500_000);

/// A core with answers in flight looks at least so often, of the typical gap between a stream's
/// events: what two looks have in between may have come joined, and the last event of an answer
/// often does, with those that close it.
const LOOK_RATIO: f64 = 0.025;
/// No more often than this, and so often while no gap is known.
const LOOK_MIN: Ns = Ns(200_000);
const LOOK_FIRST: Ns = Ns(1_000_000);

/// Requests sent in a turn, before the core looks again at what has come: sending thousands takes
/// longer than their first tokens do.
const SENDS_PER_TURN: usize = 32;

/// The thread's CPU over each second.
#[derive(Default)]
pub(super) struct BusyWatch {
    since: Ns,
    used: ThreadCpu,
    /// The busiest second so far, 0..1.
    pub(super) max: Option<f64>,
}

impl BusyWatch {
    fn start(at: Ns) -> BusyWatch {
        BusyWatch {
            since: at,
            used: thread_cpu(),
            max: None,
        }
    }

    /// Looks at the clock; a second that is over is noted.
    fn look(&mut self, at: Ns) {
        let wall = at.saturating_since(self.since);
        if wall < Ns::from_ms(1_000) {
            return;
        }
        let used = thread_cpu();
        let cpu = used.since(&self.used);
        let busy = Ns(cpu.user_ns + cpu.system_ns).as_secs() / wall.as_secs();
        self.max = Some(self.max.map_or(busy, |max| max.max(busy)));
        (self.since, self.used) = (at, used);
    }
}

/// One core's state; its connections are in `lines`, its records in `handover`.
pub(super) struct Core {
    pub(super) plan: CorePlan,
    pub(super) reactor: Reactor,
    pub(super) recorder: CoreRecorder,
    /// Of all streams of the core: their events are alike.
    pub(super) reader: EventReader,
    pub(super) report: CoreReport,
    pub(super) lines: Vec<Line>,
    pub(super) idle: Vec<Vec<Token>>,
    /// Connections so far to each target; those of the cores begin at different addresses.
    pub(super) turns: Vec<usize>,
    pub(super) slots: Slots,
    /// Phase that the slots are of.
    part: Option<usize>,
    cursor: Cursor,
    /// Sessions between two turns.
    pub(super) agenda: Agenda,
    pub(super) in_flight: usize,
    pub(super) opening: usize,
    /// In an open loop, when the next request may go as far as is known; zero after one has ended.
    pub(super) next_due: Option<Ns>,
    /// Requests that this turn may still send.
    pub(super) sends_left: usize,
    pub(super) deadlines: Deadlines,
    #[expect(
        clippy::vec_box,
        reason = "a flight moves between line and spares as it is"
    )]
    pub(super) spare: Vec<Box<Flight>>,
    pub(super) batch: Vec<Record>,
    pub(super) batch_since: Ns,
    /// Events that the pace knows of.
    pub(super) events_told: u64,
    /// First tokens that it knows of, and the sum of their times.
    pub(super) first_tokens_told: (u64, u64),
    pub(super) waiting: VecDeque<Vec<Record>>,
    pub(super) records_lost: u64,
    pub(super) clock_steps_before: u32,
    pub(super) serial: u64,
    pub(super) request: Vec<u8>,
    pub(super) accountant: Accountant,
    /// At the start of the clock.
    pub(super) account: Account,
    pub(super) busy: BusyWatch,
    pub(super) typical_latency: f64,
    pub(super) typical_gap: f64,
    pub(super) finished: bool,
}

/// What a core keeps from one plan to the next: its connections to the same targets.
pub(super) struct Kept {
    reactor: Reactor,
    path: String,
    targets: Arc<[Target]>,
    lines: Vec<Line>,
    idle: Vec<Vec<Token>>,
    turns: Vec<usize>,
    serial: u64,
}

/// Runs a plan to its end, on the connections that are kept where they lead to its targets.
pub(super) async fn run(
    plan: CorePlan,
    kept: Option<Kept>,
    driver: &Driver,
    pinned: bool,
) -> (CoreOutput, Option<Kept>) {
    let kept = kept.filter(|kept| Arc::ptr_eq(&kept.targets, &plan.targets));
    let (mut core, path) = match Core::new(plan, kept, driver, pinned) {
        Ok(made) => made,
        Err(text) => return (failed_output(text), None),
    };
    let fault = core.work().await.err();
    // Nothing is in flight but after a fault; it is recorded all the same.
    core.cancel_all(now());
    core.flush(true);
    let is_sound = fault.is_none();
    let (output, kept) = core.output(path, fault);
    (output, is_sound.then_some(kept))
}

pub(super) fn failed_output(text: String) -> CoreOutput {
    CoreOutput {
        report: CoreReport::default(),
        recorder: CoreRecorder::default(),
        receive_path: String::new(),
        records_lost: 0,
        clock_steps_count: 0,
        fault: Some(text),
    }
}

impl Kept {
    /// Of a core that has no connection yet. Errors: what the kernel lacks.
    fn none(plan: &CorePlan, driver: &Driver) -> Result<Kept, String> {
        let wish = plan.ring && *driver == Driver::Uring;
        let options = |ring| ReactorOptions {
            ring,
            batch: plan.batch,
        };
        let (reactor, why) = match Reactor::new(options(wish)) {
            Ok(reactor) => (reactor, None),
            Err(reason) if wish => (Reactor::new(options(false))?, Some(reason)),
            Err(reason) => return Err(reason),
        };
        let reason = match driver {
            Driver::Legacy(reason) => Some(reason.clone()),
            Driver::Uring => why,
        };
        let path = match reason {
            Some(reason) => format!("{} ({reason})", reactor.describe()),
            None => reactor.describe(),
        };
        Ok(Kept {
            reactor,
            path,
            targets: plan.targets.clone(),
            lines: Vec::new(),
            idle: vec![Vec::new(); plan.targets.len()],
            turns: vec![usize::from(plan.core); plan.targets.len()],
            serial: 0,
        })
    }
}

impl Core {
    fn new(
        plan: CorePlan,
        kept: Option<Kept>,
        driver: &Driver,
        pinned: bool,
    ) -> Result<(Core, String), String> {
        let kept = match kept {
            Some(kept) => kept,
            None => Kept::none(&plan, driver)?,
        };
        let report = CoreReport {
            cpu: plan.cpu.filter(|_| pinned),
            ..CoreReport::default()
        };
        let accountant = Accountant::new(report.cpu);
        let mut reactor = kept.reactor;
        reactor.set_batch(plan.batch);
        let (check_stamps, reader) = (plan.check_stamps, EventReader::new(plan.endpoint.clone()));
        let core = Core {
            plan,
            clock_steps_before: reactor.clock_steps_count(),
            reactor,
            recorder: CoreRecorder::new(check_stamps),
            reader,
            report,
            lines: kept.lines,
            idle: kept.idle,
            turns: kept.turns,
            slots: Slots::default(),
            part: None,
            cursor: Cursor::default(),
            agenda: Agenda::default(),
            in_flight: 0,
            opening: 0,
            next_due: None,
            sends_left: 0,
            deadlines: Deadlines::default(),
            spare: Vec::new(),
            batch: Vec::with_capacity(BATCH_RECORDS),
            batch_since: now(),
            events_told: 0,
            first_tokens_told: (0, 0),
            waiting: VecDeque::new(),
            records_lost: 0,
            serial: kept.serial,
            request: Vec::new(),
            accountant,
            account: Account::default(),
            busy: BusyWatch::default(),
            typical_latency: 0.0,
            typical_gap: 0.0,
            finished: false,
        };
        Ok((core, kept.path))
    }

    /// What the next plan can use of it: connections that nothing is on.
    pub(super) fn keep(mut self, path: String) -> Kept {
        let is_open = |line: &&Line| matches!(line.doing, Doing::Connecting | Doing::Busy);
        let open: Vec<Token> = self.lines.iter().filter(is_open).map(|l| l.token).collect();
        for token in open {
            self.reactor.close(token);
            if let Some(line) = self.line(token) {
                line.doing = Doing::Closed;
            }
        }
        Kept {
            reactor: self.reactor,
            path,
            targets: self.plan.targets,
            lines: self.lines,
            idle: self.idle,
            turns: self.turns,
            serial: self.serial,
        }
    }

    async fn work(&mut self) -> Result<(), String> {
        self.open_connections().await?;
        self.plan.pace.core_is_ready();
        self.await_start().await?;
        self.account = self.accountant.take();
        self.busy = BusyWatch::start(now());
        let mut looked = now();
        loop {
            self.sends_left = SENDS_PER_TURN;
            let next = self.dispatch(SENDS_PER_TURN);
            self.check_deadlines(now());
            self.flush(false);
            if self.finished && self.in_flight == 0 {
                break;
            }
            let before_wait = now();
            let stall = before_wait.saturating_since(looked).0;
            self.report.loop_stall_ns_max = self.report.loop_stall_ns_max.max(stall);
            self.wait(next).await?;
            looked = now();
            self.busy.look(looked);
            self.take_events();
        }
        self.flush(true);
        Ok(())
    }

    async fn wait(&mut self, next: Option<Ns>) -> Result<(), String> {
        let look = self.look_after().map(|after| now() + after);
        let times = [self.deadlines.next(), next, look];
        let result = self.reactor.wait(times.into_iter().flatten().min()).await;
        if let Some(late) = self.reactor.overslept() {
            self.recorder.timer_lateness.record(late.0);
        }
        result.map_err(|error| format!("waiting for events: {error}"))
    }

    /// How long the core may go without a look at its streams.
    fn look_after(&self) -> Option<Ns> {
        let gap = Ns::from_secs_f64(self.typical_gap * LOOK_RATIO / 1e9);
        let after = match self.typical_gap > 0.0 {
            true => gap.max(LOOK_MIN),
            false => LOOK_FIRST,
        };
        (self.plan.streaming && self.in_flight > 0).then_some(after)
    }

    /// Opens the connections that the start needs, a bounded number at a time.
    async fn open_connections(&mut self) -> Result<(), String> {
        if self.serial > 0 {
            // A server may have closed what was kept from the run before.
            self.wait(Some(now())).await?;
            self.take_events();
        }
        let mut asked: usize = self.idle.iter().map(Vec::len).sum();
        let mut target = usize::from(self.plan.core);
        while asked < self.plan.connections || self.opening > 0 {
            while asked < self.plan.connections && self.opening < limits::CONNECTS_IN_FLIGHT_MAX {
                self.connect(target % self.plan.targets.len(), None);
                target += 1;
                asked += 1;
            }
            let patience = now() + Ns::from_ms(5);
            self.check_deadlines(now());
            self.wait(Some(patience)).await?;
            self.take_events();
            if self.plan.pace.stopping(now()) == Stop::Cancel {
                break;
            }
        }
        Ok(())
    }

    async fn await_start(&mut self) -> Result<(), String> {
        loop {
            let is_over = self.plan.pace.stopping(now()) != Stop::Run;
            if is_over || self.plan.pace.started().is_some() {
                return Ok(());
            }
            self.wait(Some(now() + Ns(200_000))).await?;
            self.take_events();
        }
    }

    /// Sends a request that has become due while a batch is taken in.
    pub(super) fn send_due(&mut self) {
        if self.sends_left > 0 && self.next_due.is_some_and(|due| due <= now()) {
            self.dispatch(1);
        }
    }

    /// Sends what may go, `most` at a time; returns when to come back for the next.
    fn dispatch(&mut self, most: usize) -> Option<Ns> {
        let at = now();
        self.next_due = None;
        if self.plan.pace.stopping(at) == Stop::Cancel {
            self.cancel_all(at);
            self.finished = true;
            return None;
        }
        if self.finished {
            return None;
        }
        let pace = self.plan.pace.clone();
        for _ in 0..most {
            let at = now();
            if let Err(claim) = pace.look(at) {
                return self.hold(claim, at);
            }
            self.follow_phase(&pace, at);
            pace.add_turns_ready(self.agenda.wake(at));
            let next = self.agenda.take();
            if next.is_none() && !self.may_begin(&pace, at) {
                self.next_due = self.agenda.next_at();
                let later = [self.slots.next_free(), self.next_due, pace.next_phase()];
                return later.into_iter().flatten().min();
            }
            let want = next.as_ref().map_or(Want::Session, |(_, next)| next.want());
            match pace.claim(at, self.plan.core, &mut self.cursor, want) {
                Claim::Take(ticket) => self.launch(&ticket, next),
                claim => {
                    if let Some((due, next)) = next {
                        self.agenda.put_back(due, next);
                    }
                    return self.hold(claim, at);
                }
            }
        }
        self.next_due = Some(at).filter(|_| !pace.is_closed());
        Some(at)
    }

    /// Nothing may go now; returns when to ask again.
    fn hold(&mut self, claim: Claim, at: Ns) -> Option<Ns> {
        let time = match claim {
            Claim::NotBefore(time) => {
                self.next_due = Some(time);
                time
            }
            Claim::Finished => {
                self.finished = true;
                self.drop_sessions(at);
                return None;
            }
            Claim::Take(_) | Claim::Full => at + SLOT_POLL,
        };
        Some(self.agenda.next_at().map_or(time, |next| next.min(time)))
    }

    /// True when a new session may begin here: there is a schedule, or a free slot.
    fn may_begin(&mut self, pace: &Pace, at: Ns) -> bool {
        let phase = &pace.phases()[pace.part()];
        phase.law.is_some() || phase.users.is_none() && self.slots.has_free(at)
    }

    /// Has the slots and the users of the phase that sends.
    fn follow_phase(&mut self, pace: &Pace, at: Ns) {
        let part = pace.part();
        if self.part == Some(part) {
            return;
        }
        self.part = Some(part);
        if pace.is_impatient(part) {
            self.cancel(at, "cancelled: the grace of its phase is over", |phase| {
                usize::from(phase) < part
            });
        }
        self.drop_sessions(at);
        self.invite(pace, part);
        let slots = pace.phases()[part].slots.as_ref();
        let start = pace.phase_start(part).unwrap_or_default();
        let (own, cores) = (usize::from(self.plan.core), self.plan.cores.max(1));
        let most = slots.map_or(0, |slots| slots.most as usize);
        // Slots are dealt to the cores in turn, as they open.
        let wanted = most.saturating_sub(own).div_ceil(cores);
        let opening = |number: usize| {
            let offset = slots.map(|slots| slots.opening(number * cores + own));
            start + offset.unwrap_or_default()
        };
        self.slots.set(wanted, opening);
    }
}
