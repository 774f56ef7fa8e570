//! Flows that their active time-out has cut: what is known of them waits for their next packet.

use super::Analysis;
use crate::names::NamesRecord;
use std::collections::{HashMap, VecDeque};
use wire::FlowKey;

/// Flows that may wait. (A time-out of half an hour lets few of them wait at a time.)
pub(super) const CONTINUED_MAX: usize = 1 << 14;

/// A flow that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// The number of its state.
    number: u32,
    /// The meter's clock at its last packet.
    last_ms: u32,
}

/// The flows that wait, by their keys as the table orders them.
#[derive(Debug, Default)]
pub(super) struct Continued {
    waiting: HashMap<FlowKey, Waiting>,
    /// In the order in which they began to wait, some of which have gone on since.
    order: VecDeque<(FlowKey, u32)>,
    /// What was known of the names of flows that wait or have gone on, by number.
    names: HashMap<u32, NamesRecord>,
}

impl Continued {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Lets a flow wait; the number of one that must give way to it.
    pub(super) fn wait(
        &mut self,
        key: FlowKey,
        number: u32,
        last_ms: u32,
        analysis: &Analysis,
    ) -> Option<u32> {
        let oldest = (self.waiting.len() >= CONTINUED_MAX)
            .then(|| self.oldest())
            .flatten();
        if let Some(names) = &analysis.names {
            self.names.insert(number, names.clone());
        }
        self.order.push_back((key, number));
        self.waiting.insert(key, Waiting { number, last_ms });
        oldest
    }

    /// Takes the flow of `key` out: its number, and whether it goes on with a packet at `clock_ms`
    /// or had been idle for longer than `idle_ms`.
    pub(super) fn take(
        &mut self,
        key: &FlowKey,
        clock_ms: u32,
        idle_ms: u32,
    ) -> Option<(u32, bool)> {
        let waiting = self.waiting.remove(key)?;
        let goes_on = clock_ms.wrapping_sub(waiting.last_ms) <= idle_ms;
        if !goes_on {
            self.names.remove(&waiting.number);
        }
        Some((waiting.number, goes_on))
    }

    /// Takes the flow out that has waited longest.
    pub(super) fn oldest(&mut self) -> Option<u32> {
        while let Some((key, number)) = self.order.pop_front() {
            if self
                .waiting
                .get(&key)
                .is_some_and(|waiting| waiting.number == number)
            {
                self.waiting.remove(&key);
                self.names.remove(&number);
                return Some(number);
            }
        }
        None
    }

    /// Takes the flows out that have been idle for too long.
    pub(super) fn idle(&mut self, clock_ms: u32, idle_ms: u32) -> Option<u32> {
        while let Some((key, number)) = self.order.front() {
            match self.waiting.get(key) {
                Some(waiting) if waiting.number == *number => {
                    return if clock_ms.wrapping_sub(waiting.last_ms) > idle_ms {
                        self.oldest()
                    } else {
                        None
                    };
                }
                _ => {
                    self.order.pop_front();
                }
            }
        }
        None
    }

    /// Adds to the names of a flow what an earlier record of it knew.
    #[inline]
    pub(super) fn complete(&mut self, number: u32, names: Option<&mut NamesRecord>) {
        if self.names.is_empty() {
            return;
        }
        let (Some(names), Some(before)) = (names, self.names.remove(&number)) else {
            return;
        };
        if before.application.as_ref().map(|it| it.found_by)
            > names.application.as_ref().map(|it| it.found_by)
        {
            names.application = before.application;
        }
        names.resolved = names.resolved.take().or(before.resolved);
        names.tls = names.tls.take().or(before.tls);
        names.quic = names.quic.take().or(before.quic);
    }
}
