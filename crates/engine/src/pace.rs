//! How the halves of a model take turns. They are written once, as tasks that say where they could
//! give way; whether they do is the model's: a thread that has one task waits in place, a thread that
//! has several goes on with the next.

use hw::schedule::{Schedule, yield_job};
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

/// How long a thread with nothing to do sleeps, after it has spun for a while.
const NAP: Duration = Duration::from_micros(50);

/// Empty polls before a thread naps.
const SPINS: u32 = 2000;

/// The turns of one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Whether there are other tasks to go on with.
    shared: bool,
    /// Whether the thread is under SCHED_DEADLINE: then it gives the rest of its period away rather
    /// than spin.
    deadline: bool,
}

impl Pace {
    /// Of a thread with one task.
    pub(crate) fn alone(schedule: &Schedule) -> Self {
        Self {
            shared: false,
            deadline: schedule.is_deadline(),
        }
    }

    /// Of a thread whose tasks run by turns.
    pub(crate) fn shared(schedule: &Schedule) -> Self {
        Self {
            shared: true,
            deadline: schedule.is_deadline(),
        }
    }

    /// Between two batches: the other tasks of the thread have their turn.
    pub(crate) async fn boundary(self) {
        if self.shared {
            Turn::default().await;
        }
    }

    /// Nothing to do, or no room: the other tasks have their turn, or the thread waits a little.
    pub(crate) async fn wait(self, patience: &mut Patience) {
        if self.shared {
            Turn::default().await;
        } else {
            patience.wait(self.deadline);
        }
    }

    /// The source has nothing: the period's work is done.
    pub(crate) async fn idle(self) {
        self.boundary().await;
        if self.deadline {
            yield_job();
        }
    }
}

/// Waits a little longer each time there is nothing to do.
#[derive(Debug, Default)]
pub(crate) struct Patience(u32);

impl Patience {
    pub(crate) fn reset(&mut self) {
        self.0 = 0;
    }

    pub(crate) fn wait(&mut self, deadline: bool) {
        self.0 = self.0.saturating_add(1);
        if deadline {
            yield_job();
        } else if self.0 < SPINS {
            std::hint::spin_loop();
        } else {
            thread::sleep(NAP);
        }
    }
}

/// Ready at the second look.
#[derive(Debug, Default)]
struct Turn {
    taken: bool,
}

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.taken {
            return Poll::Ready(());
        }
        self.taken = true;
        Poll::Pending
    }
}

/// Runs a thread's one task to its end.
pub(crate) fn alone<T>(task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(outcome) = task.as_mut().poll(&mut context) {
            return outcome;
        }
    }
}

/// A task among several of a thread.
pub(crate) type Task<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Runs tasks by turns, in their order, each until it gives way, to the end of all; nobody wakes
/// them: a task that waits looks again when its turn comes.
pub(crate) fn by_turns<T>(mut tasks: Vec<Task<'_, T>>) -> Vec<T> {
    let mut outcomes: Vec<Option<T>> = tasks.iter().map(|_| None).collect();
    let mut context = Context::from_waker(Waker::noop());
    while outcomes.iter().any(Option::is_none) {
        for (task, outcome) in tasks.iter_mut().zip(&mut outcomes) {
            if outcome.is_none()
                && let Poll::Ready(value) = task.as_mut().poll(&mut context)
            {
                *outcome = Some(value);
            }
        }
    }
    outcomes.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn tasks_have_their_turns_in_order_and_outcomes_keep_it() {
        let seen = RefCell::new(Vec::new());
        let pace = Pace::shared(&Schedule::Other);
        let task = |name: usize, turns: usize| -> Task<'_, usize> {
            let seen = &seen;
            Box::pin(async move {
                for _ in 0..turns {
                    seen.borrow_mut().push(name);
                    pace.boundary().await;
                }
                name
            })
        };
        let outcomes = by_turns(vec![task(0, 3), task(1, 1), task(2, 2)]);
        assert_eq!(outcomes, [0, 1, 2]);
        assert_eq!(*seen.borrow(), [0, 1, 2, 0, 2, 0]);
    }

    #[test]
    fn a_task_alone_gives_no_turn_away() {
        let pace = Pace::alone(&Schedule::Other);
        let mut task = pin!(async move {
            pace.boundary().await;
            pace.wait(&mut Patience::default()).await;
            7
        });
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(task.as_mut().poll(&mut context), Poll::Ready(7));
    }
}
