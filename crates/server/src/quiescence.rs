//! Which clusters have come to rest after a change, for those who follow all clusters.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Notify;

/// News that a follower has not taken yet.
#[derive(Default)]
struct News {
    names: Mutex<BTreeSet<Arc<str>>>,
    come: Notify,
}

/// Those who follow all clusters.
#[derive(Default)]
pub(super) struct Followers(Mutex<Vec<Weak<News>>>);

impl Followers {
    /// Notifies them of a cluster whose control plane has nothing left to do after a change.
    pub(super) fn notify(&self, name: &Arc<str>) {
        let mut followers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        followers.retain(|news| {
            let Some(news) = news.upgrade() else { return false };
            news.names.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(name));
            news.come.notify_one();
            true
        });
    }

    /// From now on.
    pub(super) fn follow(&self) -> Quiescence {
        let news = Arc::new(News::default());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&news));
        Quiescence(news)
    }
}

/// The clusters of a server as they come to rest after changes. One in which nothing changes is never among them.
pub struct Quiescence(Arc<News>);

impl Quiescence {
    /// Waits for news, and gives the names of all clusters that have come to rest since the last time.
    pub async fn next(&mut self) -> BTreeSet<String> {
        loop {
            let names = std::mem::take(&mut *self.0.names.lock().unwrap_or_else(PoisonError::into_inner));
            if !names.is_empty() {
                return names.iter().map(ToString::to_string).collect();
            }
            self.0.come.notified().await;
        }
    }
}

impl std::fmt::Debug for Quiescence {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Quiescence").finish_non_exhaustive()
    }
}
