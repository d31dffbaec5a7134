//! A core's thread: runs one plan after the other, and keeps its connections in between.

use super::core::{self, failed_output};
use super::plan::{CoreOutput, CorePlan};
use crate::runtime;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::io;
use std::thread::{self, JoinHandle};

/// A pinned thread. It ends when this is dropped; nothing may run on it then.
#[derive(Debug)]
pub struct Worker {
    plans: Option<Sender<CorePlan>>,
    outputs: Receiver<CoreOutput>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread of worker `core`, pinned to `cpu`. Errors: no thread to be had.
    pub fn spawn(core: usize, cpu: Option<usize>) -> io::Result<Worker> {
        let (plans, todo) = bounded::<CorePlan>(1);
        let (done, outputs) = bounded(1);
        let thread = thread::Builder::new().name(format!("core-{core}"));
        let thread = thread.spawn(move || {
            let (waiting, refused) = (todo.clone(), done.clone());
            let result = runtime::run_pinned(cpu, |driver, pinned| async move {
                let mut kept = None;
                for plan in todo {
                    let (output, next) = core::run(plan, kept.take(), &driver, pinned).await;
                    kept = next;
                    if done.send(output).is_err() {
                        break;
                    }
                }
            });
            if let Err(error) = result {
                for _ in waiting {
                    // Whoever gave the plan may be gone.
                    let output = failed_output(format!("no I/O driver: {error}"));
                    drop(refused.send(output));
                }
            }
        })?;
        Ok(Worker {
            plans: Some(plans),
            outputs,
            thread: Some(thread),
        })
    }

    /// Gives it a plan; the one before must have been taken back.
    pub fn begin(&self, plan: CorePlan) {
        if let Some(plans) = &self.plans {
            // A thread that has panicked has no output either, which is told then.
            drop(plans.send(plan));
        }
    }

    /// True when its plan is over, or the thread is.
    pub fn is_finished(&self) -> bool {
        !self.outputs.is_empty() || self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end of its plan. `None` after a panic.
    pub fn finish(&self) -> Option<CoreOutput> {
        self.outputs.recv().ok()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.plans = None;
        // A panic has been told by its own message.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
