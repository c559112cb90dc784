//! Many pieces of blocking work at a time, as many as wanted and no more.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::{Code, Context, Result};

/// Deep trees of JSON in unoptimized builds take more than a thread gets by default.
const STACK: usize = 8 << 20;

/// Works on all items in at most `workers` threads, and gives the results in the order of the items.
///
/// # Errors
/// When the system refuses a thread; what was begun is finished first.
pub fn parallel<T: Sync, R: Send>(items: &[T], workers: usize, work: impl Fn(&T) -> R + Sync) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<R>>> = Mutex::new(items.iter().map(|_| None).collect());
    let run = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(number) else { return };
            let result = work(item);
            if let Some(place) = results.lock().unwrap_or_else(PoisonError::into_inner).get_mut(number) {
                *place = Some(result);
            }
        }
    };
    std::thread::scope(|scope| {
        for number in 0..workers.clamp(1, items.len().max(1)) {
            let builder = std::thread::Builder::new().name(format!("worker-{number}")).stack_size(STACK);
            builder.spawn_scoped(scope, run).code(Code::MachineRefused, || "could not start a thread".to_owned())?;
        }
        Ok::<_, crate::error::Error>(())
    })?;
    Ok(results.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_no_more_work_at_a_time_than_allowed() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let items: Vec<usize> = (0..50).collect();
        let doubled = parallel(&items, 3, |item| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::yield_now();
            now.fetch_sub(1, Ordering::SeqCst);
            item * 2
        });
        assert_eq!(doubled.unwrap(), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert!((1..=3).contains(&most.into_inner()));
        assert_eq!(parallel(&[] as &[u8], 4, |_| ()).unwrap(), []);
    }
}
