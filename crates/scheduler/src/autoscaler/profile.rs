//! The autoscaler's settings by the names of AKS's cluster autoscaler profile: what each may be, and its default.

// Names, forms and defaults: Azure's documentation of the cluster autoscaler profile (July 2026) and of the REST type
// `ManagedClusterPropertiesAutoScalerProfile`.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::expander::Expander;

/// The settings of the cluster autoscaler.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// `scan-interval`: how often the cluster is looked at.
    pub scan_interval: SignedDuration,
    /// `scale-down-delay-after-add`: how long after a pool grew no node goes.
    pub delay_after_add: SignedDuration,
    /// `scale-down-delay-after-delete`: how long after a node went no other goes; not set, it is the scan interval.
    pub delay_after_delete: Option<SignedDuration>,
    /// `scale-down-delay-after-failure`: how long after a node could not be removed no node goes.
    pub delay_after_failure: SignedDuration,
    /// `scale-down-unneeded-time`: how long a node must have been unneeded.
    pub unneeded_time: SignedDuration,
    /// `scale-down-unready-time`: the same for a node that is not ready.
    pub unready_time: SignedDuration,
    /// `scale-down-utilization-threshold`: the share of its CPU or memory above which a node is needed.
    pub utilization_threshold: f64,
    /// `ignore-daemonsets-utilization`: whether pods of DaemonSets do not count for that.
    pub ignores_daemon_sets: bool,
    /// `daemonset-eviction-for-empty-nodes`: whether pods of DaemonSets are evicted before an empty node goes.
    pub evicts_daemons_of_empty_nodes: bool,
    /// `daemonset-eviction-for-occupied-nodes`: the same for a node with other pods.
    pub evicts_daemons_of_occupied_nodes: bool,
    /// `max-graceful-termination-sec`: how long pods may take to end.
    pub graceful_termination: SignedDuration,
    /// `balance-similar-node-groups`: whether similar pools grow together.
    pub balances: bool,
    /// `expander`: which of several pools grows.
    pub expanders: Vec<Expander>,
    /// `skip-nodes-with-local-storage`: whether a pod with local storage keeps its node.
    pub skips_local_storage: bool,
    /// `skip-nodes-with-system-pods`: whether a pod of kube-system keeps its node.
    pub skips_system_pods: bool,
    /// `max-empty-bulk-delete`: how many nodes may go at the same time.
    pub most_at_once: u32,
    /// `new-pod-scale-up-delay`: how old a pod must be before a pool grows for it.
    pub new_pod_delay: SignedDuration,
    /// `max-total-unready-percentage`: above this share of nodes that are not ready the autoscaler does nothing.
    pub most_unready_percent: f64,
    /// `max-node-provision-time`: how long a new node may take to register.
    pub provision_time: SignedDuration,
    /// `ok-total-unready-count`: this many nodes may always be unready.
    pub unready_allowed: u32,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            scan_interval: SignedDuration::from_secs(10),
            delay_after_add: SignedDuration::from_mins(10),
            delay_after_delete: None,
            delay_after_failure: SignedDuration::from_mins(3),
            unneeded_time: SignedDuration::from_mins(10),
            unready_time: SignedDuration::from_mins(20),
            utilization_threshold: 0.5,
            ignores_daemon_sets: false,
            evicts_daemons_of_empty_nodes: false,
            evicts_daemons_of_occupied_nodes: true,
            graceful_termination: SignedDuration::from_mins(10),
            balances: false,
            expanders: vec![Expander::Random],
            skips_local_storage: false,
            skips_system_pods: true,
            most_at_once: 10,
            new_pod_delay: SignedDuration::ZERO,
            most_unready_percent: 45.0,
            provision_time: SignedDuration::from_mins(15),
            unready_allowed: 3,
        }
    }
}

/// What the value of a setting looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingForm {
    /// `10s`, or the number alone.
    Seconds,
    /// `10m`; Azure takes no other unit.
    Minutes,
    /// `30s`, `10m` or `1h`.
    Duration,
    /// A whole number.
    Number,
    /// From 0 to 1.
    Share,
    /// From 0 to 100.
    Percent,
    /// `true` or `false`.
    Switch,
    /// The name of an expander.
    Expander,
}

impl SettingForm {
    /// What is expected, in words.
    pub fn expected(self) -> &'static str {
        match self {
            Self::Seconds => "a whole number of seconds, such as 10s",
            Self::Minutes => "a whole number of minutes, such as 10m",
            Self::Duration => "a whole number with a unit, such as 30s, 10m or 1h",
            Self::Number => "a whole number",
            Self::Share => "a number from 0 to 1, such as 0.5",
            Self::Percent => "a number from 0 to 100",
            Self::Switch => "true or false",
            Self::Expander => "least-waste, most-pods, priority or random",
        }
    }
}

/// One setting of the profile.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Its name on AKS.
    pub name: &'static str,
    /// What its value looks like.
    pub form: SettingForm,
    set: fn(&mut Profile, Value),
}

/// A value that has been read.
enum Value {
    Time(SignedDuration),
    Count(u32),
    Fraction(f64),
    Flag(bool),
    Choice(Expander),
}

/// A setting that does not exist, or whose value it cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// There is none of this name.
    #[error("the autoscaler has no setting `{name}`")]
    Unknown {
        /// The name.
        name: String,
    },
    /// It cannot have this value.
    #[error("`{name}` cannot be `{value}`: it takes {expected}")]
    Value {
        /// The setting.
        name: &'static str,
        /// The value.
        value: String,
        /// What it takes.
        expected: &'static str,
    },
}

macro_rules! settings {
    ($($name:literal $form:ident $kind:ident |$profile:ident, $value:ident| $set:expr;)*) => {
        &[$(Setting {
            name: $name,
            form: SettingForm::$form,
            set: |$profile, read| if let Value::$kind($value) = read { $set },
        }),*]
    };
}

const SETTINGS: &[Setting] = settings! {
    "balance-similar-node-groups" Switch Flag |profile, value| profile.balances = value;
    "daemonset-eviction-for-empty-nodes" Switch Flag |profile, value| profile.evicts_daemons_of_empty_nodes = value;
    "daemonset-eviction-for-occupied-nodes" Switch Flag |profile, value| profile.evicts_daemons_of_occupied_nodes = value;
    "expander" Expander Choice |profile, value| profile.expanders = vec![value];
    "ignore-daemonsets-utilization" Switch Flag |profile, value| profile.ignores_daemon_sets = value;
    "max-empty-bulk-delete" Number Count |profile, value| profile.most_at_once = value;
    "max-graceful-termination-sec" Number Count
        |profile, value| profile.graceful_termination = SignedDuration::from_secs(i64::from(value));
    "max-node-provision-time" Minutes Time |profile, value| profile.provision_time = value;
    "max-total-unready-percentage" Percent Fraction |profile, value| profile.most_unready_percent = value;
    "new-pod-scale-up-delay" Duration Time |profile, value| profile.new_pod_delay = value;
    "ok-total-unready-count" Number Count |profile, value| profile.unready_allowed = value;
    "scale-down-delay-after-add" Minutes Time |profile, value| profile.delay_after_add = value;
    "scale-down-delay-after-delete" Minutes Time |profile, value| profile.delay_after_delete = Some(value);
    "scale-down-delay-after-failure" Minutes Time |profile, value| profile.delay_after_failure = value;
    "scale-down-unneeded-time" Minutes Time |profile, value| profile.unneeded_time = value;
    "scale-down-unready-time" Minutes Time |profile, value| profile.unready_time = value;
    "scale-down-utilization-threshold" Share Fraction |profile, value| profile.utilization_threshold = value;
    "scan-interval" Seconds Time |profile, value| profile.scan_interval = value;
    "skip-nodes-with-local-storage" Switch Flag |profile, value| profile.skips_local_storage = value;
    "skip-nodes-with-system-pods" Switch Flag |profile, value| profile.skips_system_pods = value;
};

impl Setting {
    /// All settings, by name.
    pub const ALL: &'static [Self] = SETTINGS;

    /// The setting of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(name: &str) -> Result<&'static Self, SettingError> {
        let unknown = || SettingError::Unknown { name: name.to_owned() };
        Self::ALL.iter().find(|setting| setting.name == name).ok_or_else(unknown)
    }

    fn read(&self, text: &str) -> Option<Value> {
        let whole = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u32>().ok())?;
        let time = |units: &[(char, i64)]| {
            let (unit, seconds) = units.iter().find(|(unit, _)| text.ends_with(*unit))?;
            let number = whole(text.strip_suffix(*unit)?)?;
            Some(SignedDuration::from_secs(i64::from(number) * seconds))
        };
        let between = |least: f64, most: f64| {
            let number = text.parse::<f64>().ok()?;
            (least..=most).contains(&number).then_some(Value::Fraction(number))
        };
        match self.form {
            SettingForm::Seconds => {
                let seconds = whole(text.strip_suffix('s').unwrap_or(text)).filter(|seconds| *seconds > 0)?;
                Some(Value::Time(SignedDuration::from_secs(i64::from(seconds))))
            }
            SettingForm::Minutes => time(&[('m', 60)]).map(Value::Time),
            SettingForm::Duration => time(&[('s', 1), ('m', 60), ('h', 3600)]).map(Value::Time),
            SettingForm::Number => whole(text).map(Value::Count),
            SettingForm::Share => between(0.0, 1.0),
            SettingForm::Percent => between(0.0, 100.0),
            SettingForm::Switch => text.parse().ok().map(Value::Flag),
            SettingForm::Expander => Expander::ALL.into_iter().find(|it| it.as_str() == text).map(Value::Choice),
        }
    }
}

impl Profile {
    /// The profile with these settings, all others at their defaults.
    ///
    /// # Errors
    /// As [`Self::set`], for the first one that is wrong.
    pub fn of(settings: &BTreeMap<String, String>) -> Result<Self, SettingError> {
        let mut profile = Self::default();
        settings.iter().try_for_each(|(name, value)| profile.set(name, value))?;
        Ok(profile)
    }

    /// Sets one setting.
    ///
    /// # Errors
    /// When there is none of this name, or it cannot have this value.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), SettingError> {
        let setting = Setting::find(name)?;
        let wrong =
            || SettingError::Value { name: setting.name, value: text.to_owned(), expected: setting.form.expected() };
        (setting.set)(self, setting.read(text).ok_or_else(wrong)?);
        Ok(())
    }

    /// How long after a node went no other goes.
    pub fn after_delete(&self) -> SignedDuration {
        self.delay_after_delete.unwrap_or(self.scan_interval)
    }

    /// Whether this many unready nodes keep the autoscaler from doing anything.
    pub fn is_healthy(&self, unready: usize, nodes: usize) -> bool {
        // upstream: cluster-autoscaler/clusterstate/clusterstate.go IsClusterHealthy (v1.36)
        unready <= self.unready_allowed as usize
            || (unready as f64) <= self.most_unready_percent / 100.0 * (nodes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_take_what_azure_takes() {
        for (name, good, bad) in [
            ("scan-interval", "30s 10", "0s -1 1m x"),
            ("scale-down-unneeded-time", "1m 0m", "10s 10 m 1.5m"),
            ("new-pod-scale-up-delay", "0s 10m 1h", "5 ms"),
            ("scale-down-utilization-threshold", "0 0.5 1", "1.1 -0.1 NaN half"),
            ("max-total-unready-percentage", "0 45 100", "101"),
            ("max-empty-bulk-delete", "0 1000", "-1 1.5 99999999999"),
            ("skip-nodes-with-system-pods", "true false", "True yes"),
            ("expander", "random least-waste most-pods priority", "price"),
        ] {
            for value in good.split(' ') {
                assert_eq!(Profile::default().set(name, value), Ok(()), "{name} {value}");
            }
            for value in bad.split(' ') {
                assert!(Profile::default().set(name, value).is_err(), "{name} {value}");
            }
        }
        let error = Profile::default().set("scale-down-unneeded-time", "10s").unwrap_err();
        let expected = "`scale-down-unneeded-time` cannot be `10s`: it takes a whole number of minutes, such as 10m";
        assert_eq!(error.to_string(), expected);
        assert_eq!(
            Profile::default().set("scan", "1").unwrap_err().to_string(),
            "the autoscaler has no setting `scan`"
        );
    }

    #[test]
    fn every_setting_sets_something() {
        for setting in Setting::ALL {
            let value = match setting.form {
                SettingForm::Seconds | SettingForm::Duration => "77s",
                SettingForm::Minutes => "77m",
                SettingForm::Share => "0.77",
                SettingForm::Number | SettingForm::Percent => "77",
                SettingForm::Expander => "priority",
                SettingForm::Switch => {
                    let mut profile = Profile::default();
                    profile.set(setting.name, "true").unwrap();
                    if profile == Profile::default() { "false" } else { "true" }
                }
            };
            let profile = Profile::of(&[(setting.name.to_owned(), value.to_owned())].into()).unwrap();
            assert_ne!(profile, Profile::default(), "{}", setting.name);
        }
        assert!(Setting::ALL.is_sorted_by_key(|setting| setting.name));
    }

    #[test]
    fn few_unready_nodes_are_always_allowed() {
        let profile = Profile::default();
        for (unready, nodes, healthy) in [(3, 3, true), (4, 8, false), (4, 9, true), (46, 100, false)] {
            assert_eq!(profile.is_healthy(unready, nodes), healthy, "{unready} of {nodes}");
        }
    }
}
