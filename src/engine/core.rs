//! The loop of one core: wait, take in what came, send what is due.

use super::claim::{Claim, Stop, Ticket, Want};
use super::deadlines::Deadlines;
use super::flight::Flight;
use super::handover::BATCH_RECORDS;
use super::lines::Line;
use super::pace::{Cursor, Pace};
use super::plan::{CoreOutput, CorePlan};
use super::slots::Slots;
use crate::base::{Ns, limits, now};
use crate::endpoint::EventReader;
use crate::runtime::{
    self, Account, Accountant, Driver, Reactor, ReactorOptions, ThreadCpu, Token, thread_cpu,
};
use crate::stats::summary::CoreReport;
use crate::stats::{CoreRecorder, Record};
use std::collections::VecDeque;

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
    pub(super) slots: Slots,
    /// Phase that the slots are of.
    part: Option<usize>,
    cursor: Cursor,
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
    pub(super) waiting: VecDeque<Vec<Record>>,
    pub(super) records_lost: u64,
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

/// Runs a core to its end on the calling thread.
pub fn run(plan: CorePlan) -> CoreOutput {
    let cpu = plan.cpu;
    let result = runtime::run_pinned(cpu, |driver, pinned| async move {
        let (mut core, path) = match Core::new(plan, &driver, pinned) {
            Ok(made) => made,
            Err(text) => return failed_output(text),
        };
        let fault = core.work().await.err();
        // Nothing is in flight but after a fault; it is recorded all the same.
        core.cancel_all(now());
        core.flush(true);
        core.output(path, fault)
    });
    result.unwrap_or_else(|error| failed_output(format!("no I/O driver: {error}")))
}

fn failed_output(text: String) -> CoreOutput {
    CoreOutput {
        report: CoreReport::default(),
        recorder: CoreRecorder::default(),
        receive_path: String::new(),
        records_lost: 0,
        clock_steps_count: 0,
        fault: Some(text),
    }
}

impl Core {
    fn new(plan: CorePlan, driver: &Driver, pinned: bool) -> Result<(Core, String), String> {
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
        let mut path = reactor.describe();
        let reason = match driver {
            Driver::Legacy(reason) => Some(reason.clone()),
            Driver::Uring => why,
        };
        if let Some(reason) = reason {
            path = format!("{path} ({reason})");
        }
        let report = CoreReport {
            cpu: plan.cpu.filter(|_| pinned),
            ..CoreReport::default()
        };
        let accountant = Accountant::new(report.cpu);
        let idle = vec![Vec::new(); plan.targets.len()];
        let (check_stamps, reader) = (plan.check_stamps, EventReader::new(plan.api));
        let core = Core {
            plan,
            reactor,
            recorder: CoreRecorder::new(check_stamps),
            reader,
            report,
            lines: Vec::new(),
            idle,
            slots: Slots::default(),
            part: None,
            cursor: Cursor::default(),
            in_flight: 0,
            opening: 0,
            next_due: None,
            sends_left: 0,
            deadlines: Deadlines::default(),
            spare: Vec::new(),
            batch: Vec::with_capacity(BATCH_RECORDS),
            batch_since: now(),
            events_told: 0,
            waiting: VecDeque::new(),
            records_lost: 0,
            serial: 0,
            request: Vec::new(),
            accountant,
            account: Account::default(),
            busy: BusyWatch::default(),
            typical_latency: 0.0,
            typical_gap: 0.0,
            finished: false,
        };
        Ok((core, path))
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
        let mut asked = 0;
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
            let closed = self.follow_phase(&pace);
            if closed && !self.slots.has_free(at) {
                let next = self.slots.next_free();
                return next.into_iter().chain(pace.next_phase()).min();
            }
            match pace.claim(at, self.plan.core, &mut self.cursor, Want::Session) {
                Claim::Take(ticket) => self.launch(&ticket),
                claim => return self.hold(claim, at),
            }
        }
        self.next_due = Some(at).filter(|_| !pace.is_closed());
        Some(at)
    }

    /// Nothing may go now; returns when to ask again.
    fn hold(&mut self, claim: Claim, at: Ns) -> Option<Ns> {
        match claim {
            Claim::NotBefore(time) => {
                self.next_due = Some(time);
                Some(time)
            }
            Claim::Finished => {
                self.finished = true;
                None
            }
            Claim::Take(_) | Claim::Full => Some(at + SLOT_POLL),
        }
    }

    /// Has the slots of the phase that sends; true when it is a closed loop.
    fn follow_phase(&mut self, pace: &Pace) -> bool {
        let part = pace.part();
        let phase = &pace.phases()[part];
        if self.part != Some(part) {
            self.part = Some(part);
            let start = pace.phase_start(part).unwrap_or_default();
            let (own, cores) = (usize::from(self.plan.core), self.plan.cores.max(1));
            let most = phase.slots.as_ref().map_or(0, |slots| slots.most as usize);
            // Slots are dealt to the cores in turn, as they open.
            let wanted = most.saturating_sub(own).div_ceil(cores);
            let opening = |number: usize| {
                let number = number * cores + own;
                let offset = phase.slots.as_ref().map(|slots| slots.opening(number));
                start + offset.unwrap_or_default()
            };
            self.slots.set(wanted, opening);
        }
        phase.law.is_none()
    }

    fn launch(&mut self, ticket: &Ticket) {
        let slot = match ticket.due {
            None => self.slots.take(),
            Some(_) => None,
        };
        let part = usize::from(ticket.part);
        let opened = || self.plan.pace.phase_start(part).unwrap_or_default();
        let free = || slot.unwrap_or_default().free.max(opened());
        let due = ticket.due.unwrap_or_else(free);
        let record = Record {
            index: ticket.index,
            due,
            slot: ticket.granted.map_or(due, |granted| granted.max(due)),
            part: ticket.part,
            phase: ticket.phase,
            ..Record::default()
        };
        self.sends_left = self.sends_left.saturating_sub(1);
        self.start(record, slot);
    }
}
