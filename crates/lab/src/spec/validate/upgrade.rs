//! How pools are upgraded.

use std::ops::RangeInclusive;

use jiff::SignedDuration;

use super::{Reader, syntax};
use crate::code::Code;
use crate::spec::diagnostic::Diagnostic;
use crate::spec::pool::Os;
use crate::spec::raw::{self, At, NodesText};
use crate::spec::source::Located;
use crate::spec::upgrade::{NODE_IMAGE, Share, UpgradeSettings, UpgradeStrategy};

impl Reader<'_> {
    pub(super) fn upgrade(&mut self, raw: &raw::Upgrade) -> UpgradeSettings {
        let (timeout, timeout_words) = match raw.strategy.as_ref().map(At::get) {
            Some(UpgradeStrategy::BlueGreen) => (UpgradeSettings::BATCH_DRAIN_TIMEOUT, "from 1m to 24h"),
            _ => (UpgradeSettings::DRAIN_TIMEOUT, "from 5m to 24h"),
        };
        UpgradeSettings {
            strategy: raw.strategy.as_ref().map(|strategy| *strategy.get()),
            max_surge: raw.max_surge.as_ref().and_then(|share| self.share(share)),
            max_unavailable: raw.max_unavailable.as_ref().and_then(|share| self.share(share)),
            drain_timeout: self.minutes(raw.drain_timeout.as_ref(), timeout, timeout_words),
            node_soak: self.minutes(raw.node_soak.as_ref(), UpgradeSettings::NODE_SOAK, "at most 30m"),
            undrainable_node_behavior: raw.undrainable_node_behavior.as_ref().map(|behavior| *behavior.get()),
            drain_batch_size: raw.drain_batch_size.as_ref().and_then(|share| self.share(share)),
            batch_soak: self.minutes(raw.batch_soak.as_ref(), UpgradeSettings::BATCH_SOAK, "at most 24h"),
            final_soak: self.minutes(raw.final_soak.as_ref(), UpgradeSettings::FINAL_SOAK, "at most 168h"),
        }
    }

    /// The node image that a pool begins with.
    pub(super) fn node_image(&mut self, raw: &raw::Pool, os: Os) -> Option<Located<String>> {
        let text = raw.node_image.as_ref()?;
        let image = text.get();
        let parts: Vec<&str> = image.split('.').collect();
        let is_digits = |part: &&str| !part.is_empty() && part.chars().all(|digit| digit.is_ascii_digit());
        let label = if parts.len() != 3 || parts[0].len() != 6 || !parts.iter().all(is_digits) {
            "expected the date of an image, such as \"202607.20.0\""
        } else if image.as_str() > NODE_IMAGE {
            "klab knows no newer image than \"202608.14.0\""
        } else if os == Os::Windows {
            "klab knows one image of Windows"
        } else if !self.provider.profile().is_embedded {
            return None;
        } else {
            return Some(self.located(text, image.clone())).filter(|image| image.value != NODE_IMAGE);
        };
        let at = self.at(text.span());
        self.report(Diagnostic::error(Code::Upgrade, format!("`{image}` is no node image here")).at(&at, label));
        None
    }

    fn share(&mut self, raw: &At<NodesText>) -> Option<Share> {
        let text = match raw.get() {
            NodesText::Number(number) => number.to_string(),
            NodesText::Text(text) => text.clone(),
        };
        let share = text.parse().ok();
        if share.is_none() {
            let at = self.at(raw.span());
            self.report(
                Diagnostic::error(Code::Upgrade, format!("`{text}` is not a number of nodes"))
                    .at(&at, "expected 0 to 1000 nodes, or 0% to 100% of the pool's")
                    .help("write for example `2` or `\"33%\"`"),
            );
        }
        share
    }

    /// A time in whole minutes, within these bounds, which `words` name.
    fn minutes(
        &mut self,
        raw: Option<&At<String>>,
        bounds: RangeInclusive<i64>,
        words: &'static str,
    ) -> Option<SignedDuration> {
        let raw = raw?;
        // Durations are longer than nothing elsewhere.
        if bounds.contains(&0) && matches!(raw.as_str(), "0s" | "0m" | "0h") {
            return Some(SignedDuration::ZERO);
        }
        let time = self.text(raw, Code::Duration, syntax::duration)?.value;
        if time == SignedDuration::from_mins(time.as_mins()) && bounds.contains(&time.as_mins()) {
            return Some(time);
        }
        let at = self.at(raw.span());
        let message = format!("AKS does not take `{}` here", raw.get());
        self.report(Diagnostic::error(Code::Upgrade, message).at(&at, format!("must be whole minutes, {words}")));
        None
    }
}
