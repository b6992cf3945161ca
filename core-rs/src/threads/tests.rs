use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rayon::{ThreadPoolBuilder, prelude::*};

use super::*;

/// Inline, and on the threads of a pool.
fn both(work: impl Fn() + Sync + Send) {
    work();
    let pool = ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    pool.install(work);
}

#[test]
fn work_outside_of_a_pool_stays_on_its_thread() {
    let here = std::thread::current().id();
    let items: Vec<usize> = (0..100).collect();
    for_each(items.par_iter(), 1, |_| {
        assert_eq!(std::thread::current().id(), here);
    })
    .unwrap();
    assert_eq!(count(), 1);
}

#[test]
fn results_come_in_the_order_of_the_items() {
    both(|| {
        let items: Vec<usize> = (0..1000).collect();
        let results = collect(items.par_iter(), |item| Ok(item * 2)).unwrap();
        assert!(
            results
                .iter()
                .enumerate()
                .all(|(at, result)| *result == at * 2)
        );
    });
}

#[test]
fn the_first_of_several_errors_is_returned() {
    both(|| {
        let items: Vec<usize> = (0..1000).collect();
        let refused = try_each(items.par_iter(), 1, |item| match item {
            700 | 900 => Err(CoreError::Group { group: *item }),
            _ => Ok(()),
        });
        assert!(matches!(refused, Err(CoreError::Group { group: 700 })));
    });
}

#[test]
fn work_stops_soon_after_it_is_asked_to() {
    both(|| {
        let done = Arc::new(AtomicUsize::new(0));
        let enough = Arc::clone(&done);
        let stop: Stop = Arc::new(move || enough.load(Relaxed) >= 10);
        let items: Vec<usize> = (0..100_000).collect();
        let run = || {
            for_each(items.par_iter(), 1, |_| {
                done.fetch_add(1, Relaxed);
            })
        };
        assert!(matches!(until(stop, run), Err(CoreError::Stopped)));
        assert!(done.load(Relaxed) < 20);
    });
}

#[test]
fn work_after_what_was_stopped_goes_on() {
    let _ = until(Arc::new(|| true), || for_each([1].par_iter(), 1, |_| ()));
    assert!(for_each([1].par_iter(), 1, |_| ()).is_ok());
}
