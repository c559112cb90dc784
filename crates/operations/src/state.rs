//! What klab remembers of each lab on disk: record, journal, lock; written so that a kill at any moment loses nothing.
//!
//! One folder per lab under klab's home (`KLAB_HOME`, else the XDG state home): `lab.toml` as applied, `kubeconfig`,
//! `record.json`, `progress.json`, `journal.jsonl`, `lock`. Every file is replaced whole (write beside, fsync, rename); the journal is
//! appended and fsynced **before** each outside action.

pub mod azure;
pub mod class;
pub mod home;
pub mod joined;
pub mod journal;
pub mod lock;
pub mod operation;
pub mod progress;
pub mod record;

pub use home::Home;
pub use joined::Joined;
pub use journal::{Entry, Journal};
pub use lock::Lock;
pub use progress::{Progress, StepUnderWay};
pub use record::Record;
