//! The cluster behind an ephemeral server: who may ask it, what it answers, and what runs its control plane.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use tokio::time::Instant;

use super::clock_hand::ClockHand;
use super::options::{CONTEXT, EphemeralOptions, Time};
use crate::control_thread::{ControlThreads, Running};
use crate::credentials::{Digest, Token};
use crate::limits::Limits;
use crate::quota::Quota;
use crate::share::Shares;
use crate::start_error::StartError;
use crate::tls::{self, Identity};
use crate::webhooks::HttpsWebhooks;
use klab_cluster::account_token::Signed;
use klab_cluster::api::{Api, Body, User, user_of};
use klab_cluster::clock::{Clock, SteppedClock, SystemClock};
use klab_cluster::cluster::Cluster;
use klab_cluster::seed::{Delays, Seed};
use klab_cluster::system::{Flavour, ordinary_node};
use klab_cluster::webhook::Transport;

/// What a control plane may need until a new cluster is at rest.
const REST: Duration = Duration::from_secs(1);

/// The cluster, its credentials and its control plane.
pub(super) struct World {
    api: Api,
    token: Token,
    identity: Identity,
    pace: Pace,
    limits: Limits,
    quota: Quota,
    shares: Shares,
}

/// What runs the control plane.
enum Pace {
    /// Threads of their own, by the machine's clock; they end when this is dropped.
    Machine { running: Mutex<Running>, _threads: ControlThreads },
    /// Each request waits until the control plane has done what follows from it.
    Stepped(ClockHand),
}

impl World {
    pub(super) fn new(options: EphemeralOptions, address: SocketAddr) -> Result<Self, StartError> {
        let identity = Identity::fleeting().map_err(StartError::Certificate)?;
        let token = Token::random().map_err(StartError::Certificate)?;
        let objects = (0..options.nodes).map(ordinary_node).collect();
        let delays = match options.time {
            Time::Stepped => Delays::default(),
            Time::Machine => Delays::in_real_time(),
        };
        let seed = Seed { seed: options.seed, flavour: Flavour::Bare, objects, delays, ..Seed::default() };
        let mut settings = seed.settings();
        settings.switched_off.extend(options.switched_off);
        let stepped = (options.time == Time::Stepped).then(Arc::<SteppedClock>::default);
        let clock: Arc<dyn Clock> = match &stepped {
            Some(clock) => Arc::<SteppedClock>::clone(clock),
            None => Arc::new(SystemClock),
        };
        let cluster = Arc::new(Cluster::new(clock, seed.seed));
        let webhooks: Arc<dyn Transport> = Arc::new(HttpsWebhooks::new(options.webhooks));
        cluster.set_webhooks(Arc::clone(&webhooks));
        if let Some(authority) = tls::signer(&token) {
            cluster.set_authority(Arc::new(authority));
        }
        cluster.set_root_certificate(&identity.authority);
        seed.fill(&cluster, CONTEXT).map_err(StartError::Refused)?;
        let api = Api::at(Arc::clone(&cluster), address.to_string());
        let metrics = seed.metrics.metrics();
        api.set_metrics(metrics);
        let pace = if let Some(clock) = stepped {
            let cluster = klab_cluster::Cluster::served(api.clone(), settings, metrics, webhooks, clock);
            Pace::Stepped(ClockHand::new(cluster))
        } else {
            let threads = ControlThreads::default();
            let running = threads.run(&CONTEXT.into(), cluster, settings, None);
            Pace::Machine { running: Mutex::new(running.map_err(StartError::ControlPlane)?), _threads: threads }
        };
        let limits = Limits::default();
        Ok(Self { api, token, identity, pace, limits, quota: Quota::new(), shares: Shares::new() })
    }

    pub(super) fn api(&self) -> &Api {
        &self.api
    }

    /// The administrator's.
    pub(super) fn token(&self) -> &Token {
        &self.token
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The certificate authority that clients are to trust, PEM.
    pub(super) fn authority(&self) -> &str {
        &self.identity.authority
    }

    /// What moves the clock, if it can be moved.
    pub(super) fn hand(&self) -> Option<&ClockHand> {
        match &self.pace {
            Pace::Stepped(hand) => Some(hand),
            Pace::Machine { .. } => None,
        }
    }

    /// Whether a token is the administrator's.
    pub(super) fn is_administrator(&self, token: &str) -> bool {
        self.token.is(&Digest::of(token.as_bytes()))
    }

    /// Who shows a token: the administrator, or a ServiceAccount of the cluster.
    pub(super) fn user(&self, token: &str) -> Option<User> {
        if self.is_administrator(token) {
            return Some(User::admin());
        }
        let cluster = self.api.cluster();
        user_of(cluster, &Signed::with(&cluster.token_key(), token)?)
    }

    /// Who holds a certificate that somebody shows, in DER, if the cluster signed it.
    pub(super) fn holder(&self, der: &[u8]) -> Option<User> {
        let cluster = self.api.cluster();
        cluster.authority()?.holder(der)?.user(cluster.now())
    }

    /// Answers a request whose body has arrived; where time stands still, when all that follows from it has been done.
    pub(super) async fn answer(&self, parts: Parts, body: Bytes) -> Response<Body> {
        let response = self.quota.answer(&self.api, parts, body, &self.limits, &self.shares).await;
        if let Pace::Stepped(hand) = &self.pace {
            hand.settle().await;
        }
        response
    }

    /// Waits until the control plane has done what there was to do, not for long.
    pub(super) async fn settled(&self) {
        match &self.pace {
            Pace::Stepped(hand) => hand.settle().await,
            Pace::Machine { running, .. } => {
                let begun = Instant::now();
                let rests = || {
                    let rest = running.lock().unwrap_or_else(PoisonError::into_inner).rest();
                    rest.is_some_and(|rest| rest.version >= self.api.cluster().version())
                };
                while !rests() && begun.elapsed() < REST {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
    }
}
