//! A bounded ring between one producer and one consumer, without locks.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// A counter on a cache line of its own, so that the two sides do not fight over one.
#[repr(align(128))]
struct Padded(AtomicUsize);

struct Ring<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// Items ever taken; written by the consumer alone.
    taken: Padded,
    /// Items ever put; written by the producer alone.
    put: Padded,
}

// SAFETY: a slot is touched by one side at a time: by the producer between `taken` and `put` being
// a full ring apart, by the consumer once `put` says so; the counters hand it over with
// release and acquire.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    fn slot(&self, count: usize) -> *mut MaybeUninit<T> {
        self.slots[count & (self.slots.len() - 1)].get()
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let put = *self.put.0.get_mut();
        let mut taken = *self.taken.0.get_mut();
        while taken != put {
            // SAFETY: slots between `taken` and `put` hold items that nobody took, and both sides
            // are gone.
            unsafe { (*self.slot(taken)).assume_init_drop() };
            taken = taken.wrapping_add(1);
        }
    }
}

/// The putting side.
pub struct Producer<T> {
    ring: Arc<Ring<T>>,
    put: usize,
    /// The consumer's count as last seen: looked up again only when the ring seems full.
    taken: usize,
}

/// The taking side.
pub struct Consumer<T> {
    ring: Arc<Ring<T>>,
    taken: usize,
    /// The producer's count as last seen: looked up again only when the ring seems empty.
    put: usize,
}

/// What the taking side finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Popped<T> {
    /// The oldest item.
    Item(T),
    /// Nothing yet.
    Empty,
    /// Nothing, and the putting side is gone: there will be no more.
    Closed,
}

/// A ring that holds `capacity` items, rounded up to a power of two.
#[must_use]
pub fn ring<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let size = capacity.max(1).next_power_of_two();
    let slots = (0..size)
        .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
        .collect();
    let zero = || Padded(AtomicUsize::new(0));
    let ring = Arc::new(Ring {
        slots,
        taken: zero(),
        put: zero(),
    });
    (
        Producer {
            ring: Arc::clone(&ring),
            put: 0,
            taken: 0,
        },
        Consumer {
            ring,
            taken: 0,
            put: 0,
        },
    )
}

impl<T: Send> Producer<T> {
    /// Puts `item` in.
    ///
    /// # Errors
    /// Gives the item back when the ring is full.
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.is_full() {
            return Err(item);
        }
        // SAFETY: fewer than all slots are taken, so the consumer is done with this one.
        unsafe { (*self.ring.slot(self.put)).write(item) };
        self.put = self.put.wrapping_add(1);
        self.ring.put.0.store(self.put, Ordering::Release);
        Ok(())
    }

    /// Whether there is no room at the moment.
    pub fn is_full(&mut self) -> bool {
        if self.put.wrapping_sub(self.taken) == self.ring.slots.len() {
            self.taken = self.ring.taken.0.load(Ordering::Acquire);
        }
        self.put.wrapping_sub(self.taken) == self.ring.slots.len()
    }

    /// Items in the ring at the moment, at most.
    #[must_use]
    pub fn occupancy(&self) -> usize {
        self.put
            .wrapping_sub(self.ring.taken.0.load(Ordering::Relaxed))
    }

    /// Whether the other side is gone.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.ring) == 1
    }
}

impl<T: Send> Consumer<T> {
    /// Takes the oldest item, if there is one.
    pub fn pop(&mut self) -> Popped<T> {
        if self.taken == self.put {
            // Looked at first: what the producer put in before it went is seen after it has gone.
            let closed = Arc::strong_count(&self.ring) == 1;
            fence(Ordering::Acquire);
            self.put = self.ring.put.0.load(Ordering::Acquire);
            if self.taken == self.put {
                return if closed {
                    Popped::Closed
                } else {
                    Popped::Empty
                };
            }
        }
        // SAFETY: the producer filled this slot before it raised `put`, and does not touch it again
        // until `taken` passes it.
        let item = unsafe { (*self.ring.slot(self.taken)).assume_init_read() };
        self.taken = self.taken.wrapping_add(1);
        self.ring.taken.0.store(self.taken, Ordering::Release);
        Popped::Item(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn items_cross_threads_in_order_and_none_is_lost() {
        let (mut producer, mut consumer) = ring(8);
        let sender = std::thread::spawn(move || {
            for number in 0..100_000u64 {
                let mut item = Box::new(number);
                while let Err(back) = producer.push(item) {
                    item = back;
                    std::thread::yield_now();
                }
            }
        });
        let mut expected = 0;
        while expected < 100_000 {
            match consumer.pop() {
                Popped::Item(item) => {
                    assert_eq!(*item, expected);
                    expected += 1;
                }
                Popped::Empty => std::thread::yield_now(),
                Popped::Closed => panic!("closed before all was taken"),
            }
        }
        sender.join().unwrap();
        assert_eq!(consumer.pop(), Popped::Closed);
    }

    #[test]
    fn closed_is_told_only_after_the_last_item() {
        for _ in 0..2000 {
            let (mut producer, mut consumer) = ring(32);
            let sender =
                std::thread::spawn(move || (0..20).for_each(|item| producer.push(item).unwrap()));
            let mut taken = 0;
            loop {
                match consumer.pop() {
                    Popped::Item(_) => taken += 1,
                    Popped::Empty => std::hint::spin_loop(),
                    Popped::Closed => break,
                }
            }
            assert_eq!(taken, 20);
            sender.join().unwrap();
        }
    }

    #[test]
    fn what_nobody_took_is_dropped_with_the_ring() {
        let witness = Arc::new(());
        let (mut producer, mut consumer) = ring(4);
        for _ in 0..4 {
            producer.push(Arc::clone(&witness)).unwrap();
        }
        assert!(producer.push(Arc::clone(&witness)).is_err());
        assert!(matches!(consumer.pop(), Popped::Item(_)));
        drop((producer, consumer));
        assert_eq!(Arc::strong_count(&witness), 1);
    }

    proptest::proptest! {
        #[test]
        fn behaves_as_a_bounded_queue(operations in proptest::collection::vec(proptest::bool::ANY, 0..200)) {
            let (mut producer, mut consumer) = ring(4);
            let mut queue = VecDeque::new();
            for (number, push) in operations.into_iter().enumerate() {
                if push {
                    let fits = queue.len() < 4;
                    assert_eq!(producer.push(number).is_ok(), fits);
                    if fits {
                        queue.push_back(number);
                    }
                } else {
                    let expected = queue.pop_front().map_or(Popped::Empty, Popped::Item);
                    assert_eq!(consumer.pop(), expected);
                }
                assert_eq!(producer.occupancy(), queue.len());
            }
        }
    }
}
