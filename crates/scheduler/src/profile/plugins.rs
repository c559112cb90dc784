//! Which plugins run at each extension point: the plugins there are, what a profile enables and disables, and its order.

// upstream: pkg/scheduler/apis/config/v1/default_plugins.go mergePlugins (v1.36)
// upstream: pkg/scheduler/framework/runtime/framework.go expandMultiPointPlugins, getValidScoreWeights (v1.36)

use std::sync::{Arc, LazyLock};

use super::arguments::Arguments;
use super::profiles::{DEFAULT_SCHEDULER, Profile, Profiles};
use crate::reason::PluginName;

/// A place in a scheduling attempt at which plugins run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Point {
    PreEnqueue,
    QueueSort,
    PreFilter,
    Filter,
    PostFilter,
    PreScore,
    Score,
    Reserve,
    Permit,
    PreBind,
    Bind,
    PostBind,
    PlacementGenerate,
    PlacementScore,
}

use Point::{Bind, Filter, PostFilter, PreBind, PreEnqueue, PreFilter, PreScore, QueueSort, Reserve, Score};

impl Point {
    /// All, with the key in a configuration and the name in kube-scheduler's messages.
    pub(super) const ALL: [(Self, &'static str, &'static str); 14] = [
        (PreFilter, "preFilter", "PreFilterPlugin"),
        (Filter, "filter", "FilterPlugin"),
        (PostFilter, "postFilter", "PostFilterPlugin"),
        (Reserve, "reserve", "ReservePlugin"),
        (PreScore, "preScore", "PreScorePlugin"),
        (Score, "score", "ScorePlugin"),
        (PreBind, "preBind", "PreBindPlugin"),
        (Bind, "bind", "BindPlugin"),
        (Self::PostBind, "postBind", "PostBindPlugin"),
        (Self::Permit, "permit", "PermitPlugin"),
        (PreEnqueue, "preEnqueue", "PreEnqueuePlugin"),
        (QueueSort, "queueSort", "QueueSortPlugin"),
        (Self::PlacementGenerate, "placementGenerate", "PlacementGeneratePlugin"),
        (Self::PlacementScore, "placementScore", "PlacementScorePlugin"),
    ];
}

/// A plugin of kube-scheduler.
pub(super) struct Known {
    pub(super) name: &'static str,
    /// `None` for one whose work klab does without this crate, or whose verdicts it does not model.
    plugin: Option<PluginName>,
    points: &'static [Point],
    /// Weight by default.
    weight: i64,
}

const fn known(name: &'static str, plugin: Option<PluginName>, points: &'static [Point], weight: i64) -> Known {
    Known { name, plugin, points, weight }
}

const FILTERS: &[Point] = &[PreFilter, Filter];
const ALL_OF_A_NODE: &[Point] = &[PreFilter, Filter, PreScore, Score];

/// The plugins of the default profile, in its order.
pub(super) static KNOWN: [Known; 20] = [
    known("SchedulingGates", Some(PluginName::SchedulingGates), &[PreEnqueue], 0),
    known("PrioritySort", None, &[QueueSort], 0),
    known("NodeUnschedulable", Some(PluginName::NodeUnschedulable), &[Filter], 0),
    known("NodeName", Some(PluginName::NodeName), &[Filter], 0),
    known("TaintToleration", Some(PluginName::TaintToleration), &[Filter, PreScore, Score], 3),
    known("NodeAffinity", Some(PluginName::NodeAffinity), ALL_OF_A_NODE, 2),
    known("NodePorts", Some(PluginName::NodePorts), FILTERS, 0),
    known("NodeResourcesFit", Some(PluginName::NodeResourcesFit), ALL_OF_A_NODE, 1),
    known("VolumeRestrictions", Some(PluginName::VolumeRestrictions), FILTERS, 0),
    known("NodeVolumeLimits", None, FILTERS, 0),
    known("VolumeBinding", Some(PluginName::VolumeBinding), &[PreFilter, Filter, Reserve, PreBind, PreScore, Score], 0),
    known("VolumeZone", Some(PluginName::VolumeZone), FILTERS, 0),
    known("PodTopologySpread", Some(PluginName::PodTopologySpread), ALL_OF_A_NODE, 2),
    known("InterPodAffinity", Some(PluginName::InterPodAffinity), ALL_OF_A_NODE, 2),
    known(
        "DynamicResources",
        Some(PluginName::DynamicResources),
        &[PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind],
        2,
    ),
    known("DefaultPreemption", Some(PluginName::DefaultPreemption), &[PostFilter, PreEnqueue], 0),
    known("NodeResourcesBalancedAllocation", Some(PluginName::NodeResourcesBalancedAllocation), &[PreScore, Score], 1),
    known("ImageLocality", Some(PluginName::ImageLocality), &[Score], 1),
    known("DefaultBinder", None, &[Bind], 0),
    known("NodeDeclaredFeatures", None, FILTERS, 0),
];

/// Plugins that do nothing unless a feature gate is on that is off by default.
const GATED: [(&str, &str); 3] = [
    ("GangScheduling", "GangScheduling"),
    ("TopologyPlacementGenerator", "TopologyAwareWorkloadScheduling"),
    ("PodGroupPodsCount", "TopologyAwareWorkloadScheduling"),
];

/// Plugins without which klab's cluster does not work: what they do after a decision is done for every pod.
const NEEDED: [&str; 5] = ["SchedulingGates", "PrioritySort", "VolumeBinding", "DynamicResources", "DefaultBinder"];

/// Plugins whose filter fails for every pod unless they run at preFilter.
const PREPARED_FILTERS: [&str; 5] =
    ["NodePorts", "NodeResourcesFit", "VolumeRestrictions", "PodTopologySpread", "InterPodAffinity"];

/// Plugins whose score fails for every pod unless they run at preScore.
const PREPARED_SCORES: [&str; 3] = ["TaintToleration", "PodTopologySpread", "InterPodAffinity"];

/// The greatest sum of all weights that klab adds up.
const MAX_WEIGHTS: i64 = 10_000_000;

pub(super) fn find(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

/// What a profile says of one extension point, or of all of them.
#[derive(Debug, Clone, Default)]
pub(super) struct PluginSet {
    /// Names with weights; 0 if none is given.
    pub(super) enabled: Vec<(String, i64)>,
    /// Names, or `*`.
    pub(super) disabled: Vec<String>,
}

impl PluginSet {
    fn disables(&self, name: &str) -> bool {
        self.disabled.iter().any(|disabled| disabled == name)
    }

    fn enables(&self, name: &str) -> bool {
        self.enabled.iter().any(|(enabled, _)| enabled == name)
    }
}

/// What a profile says of its plugins.
#[derive(Debug, Clone, Default)]
pub(super) struct Sets {
    pub(super) multi_point: PluginSet,
    pub(super) points: Vec<(Point, PluginSet)>,
}

impl Sets {
    fn of(&self, point: Point) -> Option<&PluginSet> {
        self.points.iter().find(|(its, _)| *its == point).map(|(_, set)| set)
    }

    /// The plugins of all extension points that support them: the default ones as far as they stay, then others. One that
    /// is there twice is a mistake, which [`Self::at`] finds.
    fn everywhere(&self) -> Vec<(String, i64)> {
        let custom = &self.multi_point;
        let stays = |known: &&Known| !custom.disables("*") && !custom.disables(known.name);
        let (mut all, mut replaced) = (Vec::new(), Vec::new());
        for known in KNOWN.iter().filter(stays) {
            let own = custom.enabled.iter().enumerate().rfind(|(_, (name, _))| name == known.name);
            replaced.extend(own.map(|(index, _)| index));
            all.push(own.map_or_else(|| (known.name.to_owned(), known.weight), |(_, own)| own.clone()));
        }
        let others = custom.enabled.iter().enumerate().filter(|(index, _)| !replaced.contains(index));
        all.extend(others.map(|(_, own)| own.clone()));
        all
    }

    /// The plugins that a profile enables at one extension point.
    fn own(&self, point: Point, kind: &str) -> Result<Vec<&str>, String> {
        let mut own: Vec<&str> = Vec::new();
        for (name, _) in self.of(point).map_or(&[][..], |set| &set.enabled) {
            let known = existing(name, kind)?;
            if !known.points.contains(&point) {
                return Err(format!("plugin {name:?} does not extend {kind} plugin"));
            }
            if own.contains(&name.as_str()) {
                return Err(format!("plugin {name:?} already registered as {kind:?}"));
            }
            own.push(name);
        }
        Ok(own)
    }

    /// The plugins of one extension point, in the order in which they run.
    fn at(&self, point: Point, kind: &str, everywhere: &[(String, i64)]) -> Result<Vec<String>, String> {
        let none = PluginSet::default();
        let set = self.of(point).unwrap_or(&none);
        let own = self.own(point, kind)?;
        let mut spread: Vec<&str> = Vec::new();
        let mut overridden: Vec<&str> = Vec::new();
        for (name, _) in everywhere.iter().filter(|_| !set.disables("*")) {
            if !existing(name, kind)?.points.contains(&point) || set.disables(name) {
                continue;
            }
            if set.enables(name) {
                overridden.push(name);
            } else if spread.contains(&name.as_str()) {
                return Err(format!("plugin {name:?} already registered as {kind:?}"));
            } else {
                spread.push(name);
            }
        }
        let first = own.iter().filter(|name| overridden.contains(*name));
        let last = own.iter().filter(|name| !overridden.contains(*name));
        Ok(first.chain(&spread).chain(last).map(|name| (*name).to_owned()).collect())
    }
}

fn existing(name: &str, kind: &str) -> Result<&'static Known, String> {
    if let Some((_, gate)) = GATED.iter().find(|(gated, _)| *gated == name) {
        return Err(format!("plugin {name:?} needs the feature gate {gate}, which klab does not model"));
    }
    find(name).ok_or_else(|| format!("{kind} {name:?} does not exist"))
}

/// The profile of a scheduler's name with these plugins.
///
/// # Errors
/// What kube-scheduler says before it ends, or why klab does not take the profile.
pub(super) fn profile(name: &str, sets: &Sets, arguments: Arguments) -> Result<Profile, String> {
    let everywhere = sets.everywhere();
    // What is wrong at one extension point comes before what is wrong at all of them.
    for (point, _, kind) in Point::ALL {
        sets.own(point, kind)?;
    }
    let mut lists: Vec<(Point, Vec<String>)> = Vec::new();
    for (point, _, kind) in Point::ALL {
        lists.push((point, sets.at(point, kind, &everywhere)?));
    }
    let at = |point: Point| lists.iter().find(|(its, _)| *its == point).map_or(&[][..], |(_, list)| list.as_slice());
    let of_scheduler = format!("profile with scheduler name {name:?}");
    let sorts = at(QueueSort).len();
    if sorts != 1 {
        return Err(format!("only one queue sort plugin required for {of_scheduler}, but got {sorts}"));
    }
    if at(Bind).is_empty() {
        return Err(format!("at least one bind plugin is needed for {of_scheduler}"));
    }
    supported(&at)?;
    let own = sets.of(Score).map_or(&[][..], |set| set.enabled.as_slice());
    let scores = weights(at(Score), own, &everywhere)?;
    let named = |point: Point| -> Vec<PluginName> { at(point).iter().filter_map(|name| find(name)?.plugin).collect() };
    let filters = named(Filter);
    Ok(Profile {
        name: Arc::from(name),
        place: 0,
        pre_filters: named(PreFilter),
        local_first: filters.is_sorted_by_key(|plugin| distance(*plugin)),
        filters,
        scores,
        preempts: named(PostFilter).contains(&PluginName::DefaultPreemption),
        arguments,
    })
}

/// How far from its node a filter looks.
fn distance(plugin: PluginName) -> u8 {
    match plugin {
        PluginName::DynamicResources => 2,
        PluginName::PodTopologySpread | PluginName::InterPodAffinity => 1,
        _ => 0,
    }
}

/// The scoring plugins with their weights.
fn weights(
    scoring: &[String],
    own: &[(String, i64)],
    everywhere: &[(String, i64)],
) -> Result<Vec<(PluginName, i64)>, String> {
    let mut scores = Vec::new();
    let mut sum = 0_i64;
    for name in scoring {
        let given = own.iter().chain(everywhere).find(|(its, _)| its == name).map_or(0, |(_, weight)| *weight);
        let weight = if given == 0 { 1 } else { given };
        if weight < 0 {
            return Err(format!("plugin {name:?} has the weight {weight}: klab takes weights above 0"));
        }
        sum = sum.saturating_add(weight);
        // VolumeBinding scores only with a feature gate that is off.
        let plugin = find(name).and_then(|known| known.plugin).filter(|name| *name != PluginName::VolumeBinding);
        scores.extend(plugin.map(|plugin| (plugin, weight)));
    }
    if sum > MAX_WEIGHTS {
        return Err(format!("the weights of all score plugins add up to {sum}: klab takes {MAX_WEIGHTS} at most"));
    }
    Ok(scores)
}

/// Refuses what klab's cluster cannot do as kube-scheduler does it.
fn supported<'a>(at: &impl Fn(Point) -> &'a [String]) -> Result<(), String> {
    let runs = |name: &str, point: Point| at(point).iter().any(|its| its == name);
    for known in NEEDED.iter().filter_map(|name| find(name)) {
        let missing = Point::ALL.iter().find(|(point, ..)| {
            let may_miss = matches!(point, PreScore | Score);
            known.points.contains(point) && !may_miss && !runs(known.name, *point)
        });
        if let Some((_, key, _)) = missing {
            let name = known.name;
            return Err(format!("plugin {name:?} is disabled at {key}: klab's cluster does not work without it"));
        }
    }
    let fails = |names: &[&'static str], before: Point, point: Point| {
        names.iter().copied().find(|name| runs(name, point) && !runs(name, before))
    };
    if let Some(name) = fails(&PREPARED_FILTERS, PreFilter, Filter) {
        return Err(format!(
            "plugin {name:?} is enabled at filter and not at preFilter: its filter would fail for every pod"
        ));
    }
    if let Some(name) = fails(&PREPARED_SCORES, PreScore, Score) {
        return Err(format!(
            "plugin {name:?} is enabled at score and not at preScore: its score would fail for every pod"
        ));
    }
    if at(PostFilter).first().is_some_and(|name| name != "DynamicResources") {
        return Err("at postFilter, klab runs \"DynamicResources\" before \"DefaultPreemption\" only".to_owned());
    }
    Ok(())
}

/// The profile of a scheduler without a configuration.
pub(crate) fn default_profile() -> &'static Profile {
    static DEFAULT: LazyLock<Profile> = LazyLock::new(|| {
        let named = |point: Point| KNOWN.iter().filter(move |known| known.points.contains(&point));
        let plugins = |point: Point| named(point).filter_map(|known| known.plugin).collect();
        let scoring = named(Score).filter(|known| known.weight > 0);
        Profile {
            name: Arc::from(DEFAULT_SCHEDULER),
            place: 0,
            pre_filters: plugins(PreFilter),
            filters: plugins(Filter),
            scores: scoring.filter_map(|known| Some((known.plugin?, known.weight))).collect(),
            preempts: true,
            local_first: true,
            arguments: Arguments::default(),
        }
    });
    &DEFAULT
}

impl Default for Profiles {
    fn default() -> Self {
        Self(vec![default_profile().clone()])
    }
}
