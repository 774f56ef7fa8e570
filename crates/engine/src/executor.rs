//! A minimal executor. The tasks of all models are written once, as async functions that mark the points
//! where they can yield. Whether they do depends on the model: a thread with one task waits there, and a
//! thread with several tasks switches to the next.

use hw::schedule::{Schedule, yield_cpu};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

/// How long an idle thread sleeps between two polls, after it has spun for a while.
const SLEEP: Duration = Duration::from_micros(50);

/// Empty polls before an idle thread sleeps.
const SPINS: u32 = 2000;

/// The yield policy of one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Executor {
    /// Whether the thread has other tasks to switch to.
    has_other_tasks: bool,
    /// Whether the thread runs under SCHED_DEADLINE. It then yields the rest of its period instead of
    /// spinning.
    is_deadline: bool,
}

impl Executor {
    /// Creates the policy of a thread with one task.
    pub(crate) fn single_task(schedule: &Schedule) -> Self {
        Self {
            has_other_tasks: false,
            is_deadline: schedule.is_deadline(),
        }
    }

    /// Creates the policy of a thread with several tasks.
    pub(crate) fn multi_task(schedule: &Schedule) -> Self {
        Self {
            has_other_tasks: true,
            is_deadline: schedule.is_deadline(),
        }
    }

    /// Lets the other tasks of the thread run. Called after each batch.
    pub(crate) async fn yield_now(self) {
        if self.has_other_tasks {
            YieldOnce::ready().await;
        }
    }

    /// Lets the other tasks run, or waits a little if there are none. Called if a ring is empty or full.
    pub(crate) async fn back_off(self, backoff: &mut Backoff) {
        if self.has_other_tasks {
            YieldOnce::waiting().await;
        } else {
            backoff.wait(self.is_deadline);
        }
    }

    /// Lets the other tasks run, and ends the period of a SCHED_DEADLINE thread. Called if the port has
    /// no packets.
    pub(crate) async fn idle(self) {
        self.yield_now().await;
        if self.is_deadline {
            yield_cpu();
        }
    }
}

/// Waits for work: spins at first, then sleeps.
#[derive(Debug, Default)]
pub(crate) struct Backoff(u32);

impl Backoff {
    /// Starts over with spinning, after there was work.
    pub(crate) fn reset(&mut self) {
        self.0 = 0;
    }

    /// Waits once. A SCHED_DEADLINE thread waits for its next period.
    pub(crate) fn wait(&mut self, is_deadline: bool) {
        self.0 = self.0.saturating_add(1);
        if is_deadline {
            yield_cpu();
        } else if self.0 < SPINS {
            std::hint::spin_loop();
        } else {
            thread::sleep(SLEEP);
        }
    }
}

/// A future that is ready at the second poll.
#[derive(Debug)]
struct YieldOnce {
    yielded: bool,
    /// Whether the task could go on at once. It then wakes itself.
    is_ready: bool,
}

impl YieldOnce {
    /// Yields in a task that could go on.
    const fn ready() -> Self {
        Self {
            yielded: false,
            is_ready: true,
        }
    }

    /// Yields in a task that waits for another one.
    const fn waiting() -> Self {
        Self {
            yielded: false,
            is_ready: false,
        }
    }
}

impl Future for YieldOnce {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        if self.is_ready {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

/// Runs a single task to completion.
pub(crate) fn block_on<T>(task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(outcome) = task.as_mut().poll(&mut context) {
            return outcome;
        }
    }
}

/// Runs tasks step by step, and notes whether a task that yielded could go on at once.
pub(crate) struct Stepper {
    is_ready: Arc<ReadyFlag>,
    waker: Waker,
}

/// Set by a task that could go on.
#[derive(Debug, Default)]
struct ReadyFlag(AtomicBool);

impl Wake for ReadyFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Stepper {
    pub(crate) fn new() -> Self {
        let is_ready = Arc::new(ReadyFlag::default());
        Self {
            waker: Waker::from(Arc::clone(&is_ready)),
            is_ready,
        }
    }

    /// Runs a task until it yields or ends. Returns whether it could go on, too.
    pub(crate) fn step<T>(
        &self,
        task: Pin<&mut (impl Future<Output = T> + ?Sized)>,
    ) -> (Poll<T>, bool) {
        self.is_ready.0.store(false, Ordering::Relaxed);
        let poll = task.poll(&mut Context::from_waker(&self.waker));
        (poll, self.is_ready.0.load(Ordering::Relaxed))
    }
}

/// One of several tasks of a thread.
pub(crate) type Task<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Runs tasks in round-robin order, each until it yields, until all have completed. There are no wakeups:
/// a waiting task checks again at its next turn.
pub(crate) fn round_robin<T>(mut tasks: Vec<Task<'_, T>>) -> Vec<T> {
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
    fn tasks_run_in_round_robin_order_and_results_keep_the_order() {
        let seen = RefCell::new(Vec::new());
        let executor = Executor::multi_task(&Schedule::Other);
        let task = |name: usize, turns: usize| -> Task<'_, usize> {
            let seen = &seen;
            Box::pin(async move {
                for _ in 0..turns {
                    seen.borrow_mut().push(name);
                    executor.yield_now().await;
                }
                name
            })
        };
        let outcomes = round_robin(vec![task(0, 3), task(1, 1), task(2, 2)]);
        assert_eq!(outcomes, [0, 1, 2]);
        assert_eq!(*seen.borrow(), [0, 1, 2, 0, 2, 0]);
    }

    #[test]
    fn a_single_task_never_yields() {
        let executor = Executor::single_task(&Schedule::Other);
        let mut task = pin!(async move {
            executor.yield_now().await;
            executor.back_off(&mut Backoff::default()).await;
            7
        });
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(task.as_mut().poll(&mut context), Poll::Ready(7));
    }
}
