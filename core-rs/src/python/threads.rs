//! Calls without the GIL, on the threads of a pool; Ctrl-C cancels them between two blocks of work.
//!
//! Pools belong to the process that started them: a forked child has none of its parent's threads, so it
//! starts its own. A single thread is the caller's and needs no pool.

use std::{
    ptr::null_mut,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use pyo3::{exceptions::PyValueError, prelude::*};
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::errors;
use crate::{
    error::CoreError,
    threads::{Stop, until},
};

/// The most threads that a call takes.
const MOST: usize = 256;

/// Pools of different sizes that are kept: their threads sleep, but each takes memory.
const KEPT: usize = 4;

/// How often a call checks for Ctrl-C.
const PATIENCE: Duration = Duration::from_millis(50);

/// The default number of threads of a call; 0 is that of the machine.
static BY_DEFAULT: AtomicUsize = AtomicUsize::new(0);

/// Sets the default number of threads of a call.
#[pyfunction]
pub(super) fn use_threads(count: usize) -> PyResult<()> {
    let count = count.min(MOST);
    check(count)?;
    BY_DEFAULT.store(count, Ordering::Relaxed);
    Ok(())
}

/// Runs `work` without the GIL on a number of threads, by default that of `use_threads` or on all of the
/// machine's.
pub(super) fn run_on<T: Send>(
    py: Python<'_>,
    threads: Option<usize>,
    work: impl FnOnce() -> Result<T, CoreError> + Send,
) -> PyResult<T> {
    let threads = threads.unwrap_or_else(by_default);
    check(threads)?;
    let signals = Arc::new(Signals::new());
    let result = if threads == 1 {
        let asked = Arc::clone(&signals);
        py.detach(|| until(Arc::new(move || asked.stop()), work))
    } else {
        let pool = pool(py, threads)?;
        py.detach(|| on_pool(&pool, &signals, work))
    };
    match signals.raised() {
        Some(error) => Err(error),
        None => result.map_err(|error| errors::to_python(py, error)),
    }
}

/// The caller's thread alone for work on so few bytes that waking others takes longer than their help saves.
pub(super) fn if_worth(
    threads: Option<usize>,
    bytes: usize,
    at_least: usize,
) -> PyResult<Option<usize>> {
    if let Some(threads) = threads {
        check(threads)?;
    }
    Ok(if bytes < at_least { Some(1) } else { threads })
}

fn check(threads: usize) -> PyResult<()> {
    let (what, expected) = match threads {
        0 => ("no threads", "at least 1"),
        1..=MOST => return Ok(()),
        _ => ("too many threads", "at most 256"),
    };
    let message = format!("{what}: expected {expected}, got {threads}");
    Err(PyValueError::new_err(message))
}

fn by_default() -> usize {
    match BY_DEFAULT.load(Ordering::Relaxed) {
        0 => pools().machine,
        set => set,
    }
}

/// Runs `work` on a pool while this thread checks for signals.
fn on_pool<T: Send>(
    pool: &ThreadPool,
    signals: &Signals,
    work: impl FnOnce() -> Result<T, CoreError> + Send,
) -> Result<T, CoreError> {
    let stopped = Arc::new(AtomicBool::new(false));
    let (done, mut result) = (Done::default(), Err(CoreError::Stopped));
    pool.in_place_scope(|scope| {
        let (asked, room, done) = (Arc::clone(&stopped), &mut result, &done);
        scope.spawn(move |_| {
            let _done = Notice(done);
            let stop: Stop = Arc::new(move || asked.load(Ordering::Relaxed));
            *room = until(stop, work);
        });
        while !done.within(PATIENCE) {
            if signals.stop() {
                stopped.store(true, Ordering::Relaxed);
            }
        }
    });
    result
}

/// Whether work is done, to be waited for.
#[derive(Default)]
struct Done(Mutex<bool>, Condvar);

impl Done {
    fn within(&self, time: Duration) -> bool {
        let waited = self
            .1
            .wait_timeout_while(lock(&self.0), time, |done| !*done);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Says so at its end, even if that is a panic.
struct Notice<'a>(&'a Done);

impl Drop for Notice<'_> {
    fn drop(&mut self) {
        *lock(&self.0.0) = true;
        self.0.1.notify_all();
    }
}

/// What Python's signal handlers said during a call.
struct Signals(Mutex<Seen>);

struct Seen {
    next: Instant,
    raised: Option<PyErr>,
}

impl Signals {
    fn new() -> Self {
        let next = Instant::now() + PATIENCE;
        Self(Mutex::new(Seen { next, raised: None }))
    }

    /// Whether one has raised; lets them run if it is time to. Python runs them on its main thread alone.
    fn stop(&self) -> bool {
        let mut seen = lock(&self.0);
        if seen.raised.is_none() && Instant::now() >= seen.next {
            let found = Python::try_attach(|py| py.check_signals().err());
            seen.raised = found.flatten();
            seen.next = Instant::now() + PATIENCE;
        }
        seen.raised.is_some()
    }

    fn raised(&self) -> Option<PyErr> {
        lock(&self.0).raised.take()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pools of one process, by their number of threads, the one used last at the end.
struct Pools {
    process: u32,
    machine: usize,
    started: Mutex<Vec<(usize, Arc<ThreadPool>)>>,
}

/// Those of this process. A child never touches its parent's, whose lock another thread may have held at
/// the fork: it leaves them where they are.
fn pools() -> &'static Pools {
    static POOLS: AtomicPtr<Pools> = AtomicPtr::new(null_mut());
    let (here, process) = (POOLS.load(Ordering::Acquire), std::process::id());
    // SAFETY: null, or a box that was leaked below.
    if let Some(pools) = unsafe { here.as_ref() }
        && pools.process == process
    {
        return pools;
    }
    let machine = thread::available_parallelism().map_or(1, usize::from);
    let own = Box::into_raw(Box::new(Pools {
        process,
        machine: machine.min(MOST),
        started: Mutex::default(),
    }));
    match POOLS.compare_exchange(here, own, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: never freed from here on.
        Ok(_) => unsafe { &*own },
        Err(other) => {
            // SAFETY: not shared yet; the other one belongs to another thread of this process.
            unsafe {
                drop(Box::from_raw(own));
                &*other
            }
        }
    }
}

/// The threads of that number, started once.
fn pool(py: Python<'_>, threads: usize) -> PyResult<Arc<ThreadPool>> {
    let pools = pools();
    // Starting threads holds the lock for a long time: a waiting thread must not hold the GIL.
    let pool = py.detach(|| {
        let mut started = lock(&pools.started);
        let found = started.iter().position(|(count, _)| *count == threads);
        let pool = if let Some(at) = found {
            started.remove(at).1
        } else {
            let builder = ThreadPoolBuilder::new().num_threads(threads);
            Arc::new(builder.build().map_err(|error| error.to_string())?)
        };
        if started.len() == KEPT {
            started.remove(0);
        }
        started.push((threads, Arc::clone(&pool)));
        Ok(pool)
    });
    pool.map_err(|reason: String| {
        let message = format!("threads cannot be started: expected {threads} more, got {reason:?}");
        errors::does_not_fit(
            py,
            &message,
            "raise the limits of this process (ulimit -u, ulimit -v), or use fewer threads",
        )
    })
}
