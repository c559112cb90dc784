//! The process that started this one, and its end.
//!
//! A signal at the parent's death (`PR_SET_PDEATHSIG`) is none of its end: it comes when the thread ends that started this
//! process, and test runners start threads for each test.

use std::time::Duration;

use rustix::process::{Pid, getppid};

use klab_operations::error::{Code, Context as _, Result};

/// How often it is looked whether the parent is there, where the system does not tell.
const LOOK: Duration = Duration::from_millis(20);
/// How often so where the system tells: for a parent that had ended before it could be asked.
const SELDOM: Duration = Duration::from_secs(1);

/// The process that started this one.
pub(super) struct Parent {
    /// None where it cannot be seen: outside a container.
    id: Option<Pid>,
}

impl Parent {
    /// To be asked as early as can be: a process whose parent has ended has another one.
    pub(super) fn of_this_process() -> Self {
        Self { id: getppid() }
    }

    /// Does something, in a thread of its own, when it has ended, whatever else this process does then.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn at_its_end(self, then: impl FnOnce() + Send + 'static) -> Result<()> {
        if self.id.is_none() {
            return Ok(());
        }
        let refused = || "could not watch the process that started klab".to_owned();
        let runtime = klab_operations::client::runtime()?;
        let watch = move || {
            runtime.block_on(self.ended());
            then();
        };
        std::thread::Builder::new().name("parent".to_owned()).spawn(watch).map(drop).code(Code::MachineRefused, refused)
    }

    /// Returns when it has ended.
    async fn ended(&self) {
        let notice = self.id.and_then(notice::of);
        while getppid() == self.id {
            match &notice {
                Some(notice) => tokio::select! {
                    () = notice.come() => return,
                    () = tokio::time::sleep(SELDOM) => {}
                },
                None => tokio::time::sleep(LOOK).await,
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod notice {
    //! Linux tells the end of a process at once.

    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use tokio::net::unix::pipe::Receiver;

    /// A descriptor that can be read from when the process has ended. It is waited for as the end of a pipe is, which is
    /// how a runtime waits for any descriptor.
    pub(super) struct Notice(Receiver);

    /// None where the system is too old, or a sandbox does not allow it.
    pub(super) fn of(process: Pid) -> Option<Notice> {
        let process = pidfd_open(process, PidfdFlags::NONBLOCK).ok()?;
        Receiver::from_owned_fd_unchecked(process).ok().map(Notice)
    }

    impl Notice {
        /// Returns when the process has ended.
        pub(super) async fn come(&self) {
            if self.0.readable().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod notice {
    //! Elsewhere it is looked now and then.

    pub(super) struct Notice(std::convert::Infallible);

    pub(super) fn of(_: rustix::process::Pid) -> Option<Notice> {
        None
    }

    impl Notice {
        pub(super) async fn come(&self) {
            match self.0 {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_parent_that_is_there_is_waited_for_and_one_that_is_gone_is_not() {
        let waited = tokio::time::timeout(Duration::from_millis(50), Parent::of_this_process().ended()).await;
        assert!(waited.is_err());
        let gone = Parent { id: Some(Pid::INIT) };
        if getppid() != gone.id {
            tokio::time::timeout(Duration::from_secs(30), gone.ended()).await.unwrap();
        }
    }
}
