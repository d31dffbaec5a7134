//! What monoio's tasks tell the core loop, and the waiting for it.

use super::reactor::Token;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Poll, Waker};

/// A message of a task.
pub(super) enum Note {
    /// A connect ended.
    Connected(Token, io::Result<OwnedFd>),
    /// A socket can take bytes again.
    Writable(Token),
    /// A socket has bytes, or its end.
    Readable(Token),
    /// The timer fired.
    Timer,
}

/// A queue from tasks to the one loop of the same thread.
#[derive(Default)]
pub(super) struct Inbox {
    notes: RefCell<VecDeque<Note>>,
    waker: RefCell<Option<Waker>>,
    pending: Cell<usize>,
}

impl Inbox {
    /// Adds a note and wakes the loop.
    pub fn push(&self, note: Note) {
        self.notes.borrow_mut().push_back(note);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// The oldest note.
    pub fn pop(&self) -> Option<Note> {
        self.notes.borrow_mut().pop_front()
    }

    /// True when there is nothing to take.
    pub fn is_empty(&self) -> bool {
        self.notes.borrow().is_empty()
    }

    /// Waits until there is a note.
    pub async fn wait(&self) {
        poll_fn(|context| {
            if self.is_empty() {
                *self.waker.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }

    /// One more task that will push a note.
    pub fn expect_one(&self) {
        self.pending.set(self.pending.get() + 1);
    }

    /// Such a task has pushed its note.
    pub fn expected_one_came(&self) {
        self.pending.set(self.pending.get() - 1);
    }

    /// Tasks that will push a note.
    pub fn expected_count(&self) -> usize {
        self.pending.get()
    }
}

/// A flag that a task waits for.
#[derive(Default)]
pub(super) struct Gate {
    open: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Gate {
    /// Lets the waiting task go on, once.
    pub fn open(&self) {
        self.open.set(true);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Waits for [`Gate::open`], and shuts the gate behind.
    pub async fn pass(&self) {
        poll_fn(|context| {
            if self.open.replace(false) {
                Poll::Ready(())
            } else {
                *self.waker.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            }
        })
        .await;
    }
}
