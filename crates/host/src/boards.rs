//! The thread that draws boards: a request to a cluster does not wait for pictures of others.

use std::sync::{Arc, OnceLock};

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

/// Most boards that are drawn and kept for small pictures at a time.
pub const MAX_PICTURES: usize = 16;

/// Where boards are drawn.
#[derive(Debug)]
pub struct Boards {
    thread: OnceLock<Handle>,
    old_ones: Semaphore,
    pictures: Arc<Semaphore>,
}

impl Default for Boards {
    fn default() -> Self {
        Self { thread: OnceLock::new(), old_ones: Semaphore::new(1), pictures: Arc::new(Semaphore::new(MAX_PICTURES)) }
    }
}

impl Boards {
    /// Has something drawn. Where the system refuses a thread, the caller draws.
    pub fn spawn<T: Send + 'static>(&self, drawing: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.thread.get_or_init(|| begin().unwrap_or_else(Handle::current)).spawn(drawing)
    }

    /// A place among boards that are drawn for small pictures, where one is free.
    pub fn picture(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.pictures).try_acquire_owned().ok()
    }

    /// Whose turn it is among boards that have only grown old.
    pub fn old_ones(&self) -> &Semaphore {
        &self.old_ones
    }
}

fn begin() -> Option<Handle> {
    let runtime = klab_operations::client::runtime().ok()?;
    let handle = runtime.handle().clone();
    let thread = std::thread::Builder::new().name("boards".to_owned());
    // For as long as the process lives.
    thread.spawn(move || runtime.block_on(std::future::pending::<()>())).ok()?;
    Some(handle)
}
