//! `kubectl attach` to a container that reads: its command is given what a client sends.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::super::clock::later;
use super::super::process::{End, Performance, Piece, Ran, instance, keep_given, reader, status_of};
use super::super::status::Status;
use super::exec::{Execution, HORIZON, Printed};
use super::streams::not_known;
use super::terminal::{Terminal, ended, failed};

impl Execution {
    /// Gives the container's own command to read what comes, and shows what it prints from now on.
    pub(super) async fn feed(&self, terminal: &mut Terminal) -> Option<Value> {
        let began = Ran::of(&status_of(&self.pod, &self.container)["state"])?.since;
        let attached = self.cluster.now();
        let (mut printed, mut is_open) = (Printed::default(), true);
        loop {
            let Some(performance) = self.own_performance(began).await else {
                return Some(failed(&not_known("what the container prints is not known").message));
            };
            let until = performance.doubt.as_ref().map_or(SignedDuration::MAX, |doubt| doubt.at);
            let now = performance.pieces.into_iter().filter(|piece| piece.at <= until);
            let now: Vec<Piece> = now.filter(|piece| later(began, piece.at) >= attached).collect();
            if self.play(terminal, &printed.rest(now), began).await?.is_some() {
                return Some(ended(0));
            }
            if let Some(doubt) = performance.doubt {
                return Some(failed(&not_known(&doubt.why).message));
            }
            if let End::After(took, _) = performance.end {
                self.wait(terminal, later(began, took)).await?;
                return Some(ended(0));
            }
            if !performance.wants_input || !is_open {
                // It reads no more, or this client gives it no more: it is looked on until it ends.
                return self.wait(terminal, Timestamp::MAX).await?.map(|_| ended(0));
            }
            let once = self.container["stdinOnce"] == true;
            let (text, is_end) = match self.input(terminal).await {
                Some(Ok(input)) => input,
                Some(Err(_)) => return Some(ended(0)),
                // The end of the first client is that of the input.
                None if once => {
                    let _gone = self.keep_given(None).await;
                    return None;
                }
                None => return None,
            };
            is_open = !is_end;
            let texts = [Some(text).filter(|text| !text.is_empty()).map(Some), (is_end && once).then_some(None)];
            for text in texts.into_iter().flatten() {
                if let Err(refused) = self.keep_given(text).await {
                    return Some(failed(&refused.message));
                }
            }
        }
    }

    /// What the container's own command does, as far as its input is known.
    async fn own_performance(&self, began: Timestamp) -> Option<Performance> {
        let (cluster, pod, container) = (Arc::clone(&self.cluster), Arc::clone(&self.pod), self.container.clone());
        let horizon = self.cluster.now().duration_since(began).saturating_add(HORIZON);
        tokio::task::spawn_blocking(move || reader(&cluster, &pod, &container, horizon)).await.ok().flatten()
    }

    async fn keep_given(&self, text: Option<Vec<u8>>) -> Result<(), Status> {
        let (cluster, pod, container) = (Arc::clone(&self.cluster), Arc::clone(&self.pod), self.container.clone());
        let kept = tokio::task::spawn_blocking(move || {
            let Some(ran) = Ran::of(&status_of(&pod, &container)["state"]) else { return Ok(()) };
            keep_given(&cluster, &pod, instance(&pod, &container, ran), text.as_deref())
        });
        kept.await.unwrap_or(Ok(()))
    }
}
