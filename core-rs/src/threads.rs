//! Distributes work over the threads of the caller's rayon pool, or runs it inline outside any pool.
//!
//! Never uses rayon's global pool, which cannot be resized or replaced: its threads are gone in a forked
//! child, where a call would wait for them forever. Cancellation is checked between two blocks of work,
//! see [`until`].

use std::{cell::RefCell, sync::Arc};

use rayon::iter::{
    IndexedParallelIterator, ParallelIterator,
    plumbing::{Producer, ProducerCallback},
};

use crate::error::CoreError;

/// Returns whether the work should stop; called often, from any thread.
pub type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

thread_local! {
    static STOP: RefCell<Option<Stop>> = const { RefCell::new(None) };
}

/// Runs `work`, which ends with [`CoreError::Stopped`] soon after `stop` returns true.
pub fn until<T>(stop: Stop, work: impl FnOnce() -> T) -> T {
    struct Before(Option<Stop>);
    impl Drop for Before {
        fn drop(&mut self) {
            STOP.set(self.0.take());
        }
    }
    let _before = Before(STOP.replace(Some(stop)));
    work()
}

/// The stop check of the running work, for threads that take a part of it.
#[derive(Clone)]
pub(crate) struct Watch(Option<Stop>);

impl Watch {
    /// That of the calling thread.
    pub(crate) fn new() -> Self {
        Self(STOP.with_borrow(Clone::clone))
    }

    /// Whether to stop.
    pub(crate) fn stopped(&self) -> bool {
        self.0.as_ref().is_some_and(|stop| stop())
    }

    /// The same as an error.
    pub(crate) fn check(&self) -> Result<(), CoreError> {
        if self.stopped() {
            return Err(CoreError::Stopped);
        }
        Ok(())
    }
}

fn inside_pool() -> bool {
    rayon::current_thread_index().is_some()
}

/// How many threads share the work; 1 outside of any pool.
#[cfg(feature = "kernels")]
pub(crate) fn count() -> usize {
    if inside_pool() {
        rayon::current_num_threads()
    } else {
        1
    }
}

/// Adds bytes to a hash.
pub(crate) fn hash(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    if inside_pool() {
        hasher.update_rayon(bytes);
    } else {
        hasher.update(bytes);
    }
}

/// What `find` gives for the first item for which it gives something; a thread takes `at_least` so many
/// items.
pub(crate) fn find_first<I, T>(
    items: I,
    at_least: usize,
    find: impl Fn(I::Item) -> Option<T> + Sync + Send,
) -> Result<Option<T>, CoreError>
where
    I: IndexedParallelIterator,
    T: Send,
{
    let watch = Watch::new();
    let found = if inside_pool() {
        let items = items.with_min_len(at_least);
        items
            .filter_map(|item| {
                if watch.stopped() {
                    return Some(Err(CoreError::Stopped));
                }
                find(item).map(Ok)
            })
            .find_first(|_| true)
    } else {
        inline(items, at_least, &watch, find)
    };
    found.transpose()
}

/// Runs `work` on every item and returns the first item's error, if any has one.
#[cfg(feature = "kernels")]
pub(crate) fn try_each<I: IndexedParallelIterator>(
    items: I,
    at_least: usize,
    work: impl Fn(I::Item) -> Result<(), CoreError> + Sync + Send,
) -> Result<(), CoreError> {
    let failed = find_first(items, at_least, |item| work(item).err())?;
    failed.map_or(Ok(()), Err)
}

/// Runs `work` on every item.
#[cfg(feature = "kernels")]
pub(crate) fn for_each<I: IndexedParallelIterator>(
    items: I,
    at_least: usize,
    work: impl Fn(I::Item) + Sync + Send,
) -> Result<(), CoreError> {
    for_each_with(items, at_least, || (), |(), item| work(item))
}

/// As [`for_each`], with room that is used again for other items.
#[cfg(feature = "kernels")]
pub(crate) fn for_each_with<I: IndexedParallelIterator, R>(
    items: I,
    at_least: usize,
    room: impl Fn() -> R + Sync + Send,
    work: impl Fn(&mut R, I::Item) + Sync + Send,
) -> Result<(), CoreError> {
    let watch = Watch::new();
    if inside_pool() {
        return items
            .with_min_len(at_least)
            .try_for_each_init(room, |room, item| {
                watch.check()?;
                work(room, item);
                Ok(())
            });
    }
    let mut room = room();
    let stopped = inline(items, at_least, &watch, |item| {
        work(&mut room, item);
        None
    });
    stopped.unwrap_or(Ok(()))
}

/// What `work` makes of every item, in their order.
#[cfg(feature = "kernels")]
pub(crate) fn collect<I, T>(
    items: I,
    work: impl Fn(I::Item) -> Result<T, CoreError> + Sync + Send,
) -> Result<Vec<T>, CoreError>
where
    I: IndexedParallelIterator,
    T: Send,
{
    let watch = Watch::new();
    if inside_pool() {
        return items
            .map(|item| {
                watch.check()?;
                work(item)
            })
            .collect();
    }
    let mut results = Vec::with_capacity(items.len());
    let failed = inline(items, 1, &watch, |item| {
        work(item).map(|result| results.push(result)).err()
    });
    failed.map_or(Ok(results), |error| Err(error?))
}

/// Goes through the items on this thread up to the first for which `find` gives something, and asks
/// every `at_least` items whether to stop.
fn inline<I: IndexedParallelIterator, T>(
    items: I,
    at_least: usize,
    watch: &Watch,
    find: impl FnMut(I::Item) -> Option<T>,
) -> Option<Result<T, CoreError>> {
    struct Callback<'a, F>(usize, &'a Watch, F);
    impl<Item, T, F: FnMut(Item) -> Option<T>> ProducerCallback<Item> for Callback<'_, F> {
        type Output = Option<Result<T, CoreError>>;

        fn callback<P: Producer<Item = Item>>(mut self, producer: P) -> Self::Output {
            for (index, item) in producer.into_iter().enumerate() {
                if index % self.0 == 0
                    && let Err(stopped) = self.1.check()
                {
                    return Some(Err(stopped));
                }
                if let Some(found) = (self.2)(item) {
                    return Some(Ok(found));
                }
            }
            None
        }
    }
    items.with_producer(Callback(at_least, watch, find))
}

#[cfg(all(test, feature = "kernels"))]
mod tests;
