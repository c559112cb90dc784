//! The plugins: one file each, `filter` and `score` for what they are made of, and the table that registers them.

mod default_preemption;
mod dynamic_resources;
mod filter;
mod image_locality;
mod inter_pod_affinity;
mod node_affinity;
mod node_name;
mod node_ports;
mod node_resources_balanced_allocation;
mod node_resources_fit;
mod node_unschedulable;
mod pod_topology_spread;
mod score;
mod taint_toleration;
mod volume_binding;
mod volume_restrictions;
mod volume_zone;

use std::borrow::Cow;

pub(crate) use default_preemption::{Preempt, nominated_before, preempt, verdict_with_nominated, with_pods};
pub(crate) use filter::{Filter, Refusal, Refused, View};
pub(crate) use score::{Normalize, Raw, RawScores, Score};

use super::cycle::Cycle;
use super::node_info::NodeInfo;
use super::node_selector::NamedNodes;
use super::profile::Profile;
use super::reason::{Code, PluginName, Reason};
use super::taint::UNSCHEDULABLE_TAINT;

/// One row of the table.
pub(crate) struct Plugin {
    pub(crate) name: PluginName,
    /// Refuses a pod for every node.
    pub(crate) pre_filter: Option<fn(&Cycle<'_>, &mut Vec<Reason>)>,
    pub(crate) filter: Option<Filter>,
    pub(crate) score: Option<Score>,
}

impl Plugin {
    const fn new(name: PluginName) -> Self {
        Self { name, pre_filter: None, filter: None, score: None }
    }

    const fn local(mut self, filter: fn(&Cycle<'_>, &View<'_>, &mut Vec<Reason>)) -> Self {
        self.filter = Some(Filter::Local(filter));
        self
    }

    const fn topology(
        mut self,
        refuses: fn(&Cycle<'_>, &View<'_>) -> Option<Refusal>,
        reasons: fn(&Cycle<'_>, &View<'_>, &mut Vec<Reason>),
    ) -> Self {
        self.filter = Some(Filter::Topology { refuses, reasons });
        self
    }

    const fn claims(mut self, refuses: fn(&Cycle<'_>, &View<'_>) -> Option<Reason>) -> Self {
        self.filter = Some(Filter::Claims(refuses));
        self
    }

    const fn pre_filter(mut self, filter: fn(&Cycle<'_>, &mut Vec<Reason>)) -> Self {
        self.pre_filter = Some(filter);
        self
    }

    const fn score(mut self, normalize: Normalize, raw: Raw) -> Self {
        self.score = Some(Score { normalize, raw });
        self
    }
}

/// All plugins, each at the place of its name.
pub(crate) static PLUGINS: &[Plugin] = &[
    Plugin::new(PluginName::SchedulingGates),
    Plugin::new(PluginName::NodeUnschedulable).local(node_unschedulable::filter),
    Plugin::new(PluginName::NodeName).local(node_name::filter),
    Plugin::new(PluginName::TaintToleration)
        .local(taint_toleration::filter)
        .score(Normalize::GreatestReversed, Raw::Local { active: |_| true, score: taint_toleration::score }),
    Plugin::new(PluginName::NodeAffinity)
        .pre_filter(node_affinity::pre_filter)
        .local(node_affinity::filter)
        .score(Normalize::Greatest, Raw::Local { active: node_affinity::scores, score: node_affinity::score }),
    Plugin::new(PluginName::NodePorts).local(node_ports::filter),
    Plugin::new(PluginName::NodeResourcesFit)
        .local(node_resources_fit::filter)
        .score(Normalize::None, Raw::Local { active: |_| true, score: node_resources_fit::score }),
    Plugin::new(PluginName::VolumeRestrictions)
        .pre_filter(volume_restrictions::pre_filter)
        .local(volume_restrictions::filter),
    Plugin::new(PluginName::VolumeBinding).pre_filter(volume_binding::pre_filter).local(volume_binding::filter),
    Plugin::new(PluginName::VolumeZone).local(volume_zone::filter),
    Plugin::new(PluginName::PodTopologySpread)
        .topology(pod_topology_spread::refuses, pod_topology_spread::reasons)
        .score(Normalize::Spread, Raw::Topology(pod_topology_spread::score)),
    Plugin::new(PluginName::InterPodAffinity)
        .topology(inter_pod_affinity::refuses, inter_pod_affinity::reasons)
        .score(Normalize::Range, Raw::Topology(inter_pod_affinity::score)),
    Plugin::new(PluginName::DynamicResources)
        .pre_filter(dynamic_resources::pre_filter)
        .claims(dynamic_resources::refuses)
        .score(Normalize::Greatest, Raw::Topology(dynamic_resources::score)),
    Plugin::new(PluginName::DefaultPreemption),
    Plugin::new(PluginName::NodeResourcesBalancedAllocation).score(
        Normalize::None,
        Raw::Local {
            active: node_resources_balanced_allocation::scores,
            score: node_resources_balanced_allocation::score,
        },
    ),
    Plugin::new(PluginName::ImageLocality)
        .score(Normalize::None, Raw::Local { active: |_| true, score: image_locality::score }),
];

/// The rows of these plugins.
fn rows(names: &[PluginName]) -> impl Iterator<Item = &'static Plugin> {
    names.iter().filter_map(|name| row(*name))
}

fn row(name: PluginName) -> Option<&'static Plugin> {
    PLUGINS.get(name as usize)
}

/// The scores of a profile with their weights, in its order.
pub(crate) fn scores(profile: &Profile) -> impl Iterator<Item = (PluginName, &'static Score, i64)> {
    profile.scores.iter().filter_map(|(name, weight)| Some((*name, row(*name)?.score.as_ref()?, *weight)))
}

/// The first plugin that refuses the pod for every node, with its reasons.
pub(crate) fn pre_filter(cycle: &Cycle<'_>) -> Option<(PluginName, Vec<Reason>)> {
    rows(&cycle.profile.pre_filters).find_map(|plugin| {
        let mut reasons = Vec::new();
        plugin.pre_filter?(cycle, &mut reasons);
        (!reasons.is_empty()).then_some((plugin.name, reasons))
    })
}

/// Every reason for which plugins refuse the pod for every node.
pub(crate) fn pre_filter_all(cycle: &Cycle<'_>, reasons: &mut Vec<Reason>) {
    rows(&cycle.profile.pre_filters).filter_map(|plugin| plugin.pre_filter).for_each(|filter| filter(cycle, reasons));
}

/// A node that the pod's `metadata.name` conditions leave out before any filter runs.
fn left_out(cycle: &Cycle<'_>, node: &NodeInfo) -> Option<Reason> {
    match cycle.info.node_affinity.named_nodes() {
        _ if !cycle.profile.narrows_by_name() => None,
        NamedNodes::Only(names) if !names.contains(&node.spec.name.as_ref()) => {
            let names = names.into_iter().map(str::to_owned).collect();
            Some(Reason::NotAmongNamedNodes { names, tried: cycle.tried })
        }
        _ => None,
    }
}

/// The reasons of the first filter that refuses the node, as kube-scheduler reports them.
pub(crate) fn first_reasons(cycle: &Cycle<'_>, view: &View<'_>) -> Option<(Option<PluginName>, Vec<Reason>)> {
    if let Some(reason) = left_out(cycle, view.node) {
        return Some((None, vec![reason]));
    }
    rows(&cycle.profile.filters).find_map(|plugin| {
        let mut reasons = Vec::new();
        match plugin.filter.as_ref()? {
            Filter::Local(filter) => filter(cycle, view, &mut reasons),
            Filter::Topology { reasons: give, .. } => {
                give(cycle, view, &mut reasons);
                reasons.truncate(1);
            }
            Filter::Claims(refuses) => reasons.extend(refuses(cycle, view)),
        }
        (!reasons.is_empty()).then_some((Some(plugin.name), reasons))
    })
}

/// Every reason of every filter.
pub(crate) fn all_reasons(cycle: &Cycle<'_>, view: &View<'_>) -> Vec<Reason> {
    let mut reasons: Vec<_> = left_out(cycle, view.node).into_iter().collect();
    let named = !reasons.is_empty();
    for plugin in rows(&cycle.profile.filters) {
        match plugin.filter.as_ref() {
            // The same rule again.
            Some(_) if named && plugin.name == PluginName::NodeAffinity => {}
            Some(Filter::Local(filter)) => filter(cycle, view, &mut reasons),
            Some(Filter::Topology { reasons: give, .. }) => give(cycle, view, &mut reasons),
            Some(Filter::Claims(refuses)) => reasons.extend(refuses(cycle, view)),
            None => {}
        }
    }
    if let Some(place) = reasons.iter().position(|reason| *reason == Reason::Unschedulable) {
        without_cordon_taint(&mut reasons, place);
    }
    reasons
}

/// The taint that a cordon puts on a node says once more that it is cordoned: of the two, the reason stays that the
/// profile finds first. `place` is that of the cordon.
fn without_cordon_taint(reasons: &mut Vec<Reason>, place: usize) {
    let of_cordon = |reason: &Reason| match reason {
        Reason::UntoleratedTaints { taints } => taints.iter().any(|taint| taint.key == UNSCHEDULABLE_TAINT),
        _ => false,
    };
    if reasons[..place].iter().any(of_cordon) {
        reasons.remove(place);
        return;
    }
    for reason in &mut *reasons {
        if let Reason::UntoleratedTaints { taints } = reason {
            taints.retain(|taint| taint.key != UNSCHEDULABLE_TAINT);
        }
    }
    reasons.retain(|reason| !matches!(reason, Reason::UntoleratedTaints { taints } if taints.is_empty()));
}

/// The verdict of the filters that look at the node only.
pub(crate) fn local_verdict(cycle: &Cycle<'_>, view: &View<'_>) -> Option<Refused> {
    if let Some(reason) = left_out(cycle, view.node) {
        return Some(Refused { plugin: None, code: reason.code(), texts: vec![Cow::Owned(reason.to_string())] });
    }
    let mut reasons = Vec::new();
    for plugin in rows(&cycle.profile.filters) {
        if let Some(Filter::Local(filter)) = &plugin.filter {
            filter(cycle, view, &mut reasons);
            if !reasons.is_empty() {
                return Some(refused(plugin.name, &reasons));
            }
        }
    }
    None
}

/// The verdict of the filters that look beyond the node. They come after all local ones in most profiles.
pub(crate) fn topology_verdict(cycle: &Cycle<'_>, view: &View<'_>) -> Option<(PluginName, Refusal)> {
    if !cycle.topology_matters() {
        return None;
    }
    rows(&cycle.profile.filters).find_map(|plugin| match plugin.filter.as_ref()? {
        Filter::Topology { refuses, .. } => Some((plugin.name, refuses(cycle, view)?)),
        Filter::Local(_) | Filter::Claims(_) => None,
    })
}

/// The verdict of the filter that looks at the pod's resource claims. It comes after all others in most profiles.
pub(crate) fn claims_verdict(cycle: &Cycle<'_>, view: &View<'_>) -> Option<Reason> {
    cycle.claims.as_ref().and_then(|_| dynamic_resources::refuses(cycle, view))
}

/// The verdict of all filters.
pub(crate) fn verdict(cycle: &Cycle<'_>, view: &View<'_>) -> Option<Refused> {
    if !cycle.profile.local_first {
        let (plugin, reasons) = first_reasons(cycle, view)?;
        return Some(Refused { plugin, ..refused(PluginName::NodeAffinity, &reasons) });
    }
    let beyond = || {
        topology_verdict(cycle, view).map(|(plugin, refusal)| Refused {
            plugin: Some(plugin),
            code: refusal.code,
            texts: vec![Cow::Borrowed(refusal.text)],
        })
    };
    let of_claims = || claims_verdict(cycle, view).map(|reason| refused(reason.plugin(), &[reason]));
    local_verdict(cycle, view).or_else(beyond).or_else(of_claims)
}

fn refused(plugin: PluginName, reasons: &[Reason]) -> Refused {
    let mut texts: Vec<_> = reasons.iter().map(|reason| Cow::Owned(reason.to_string())).collect();
    texts.sort_unstable();
    Refused { plugin: Some(plugin), code: code_of(reasons), texts }
}

/// The code of several reasons: unresolvable if one of them is.
pub(crate) fn code_of(reasons: &[Reason]) -> Code {
    reasons.iter().map(Reason::code).max().unwrap_or(Code::Unschedulable)
}
