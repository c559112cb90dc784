//! What the binder remembers of claims that wait and of volumes, so that none is read again for each of the others.

// upstream: staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go FindMatchingVolume (v1.36)
// upstream: pkg/controller/volume/persistentvolume/index.go findByClaim, allPossibleMatchingAccessModes (v1.36)

use std::collections::{BTreeMap, BTreeSet};

use klab_api_machinery::object::Object;
use klab_api_machinery::value::selects;
use klab_api_machinery::views::{PersistentVolume, PersistentVolumeClaim as Claim};
use klab_scheduler::quantity::Quantity;
use klab_scheduler::selector::Selector;

use super::super::queue::ObjectName;
use super::super::reconcile::Change;
use super::binding::{BIND_COMPLETED, storage};

/// A volume, as far as claims ask.
#[derive(Debug)]
struct Volume {
    object: std::sync::Arc<Object>,
    /// The claim it is kept for, and its uid if it is known.
    claim: Option<(ObjectName, Box<str>)>,
    available: bool,
    class: Box<str>,
    size: Quantity,
    modes: Vec<Box<str>>,
    mode: Box<str>,
    attributes: Box<str>,
}

/// Claims that wait, and volumes.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// With the class each asks for.
    waiting: BTreeMap<ObjectName, Box<str>>,
    volumes: BTreeMap<Box<str>, Volume>,
}

/// What a change of a volume means.
pub(super) struct Became {
    /// The claims that are to be looked at.
    pub(super) claims: BTreeSet<ObjectName>,
}

impl Known {
    /// Takes in a claim; the volumes that are to be looked at.
    pub(super) fn claim_changed(&mut self, change: &Change<'_>) -> BTreeSet<Box<str>> {
        let value = change.object.value();
        let (claim, name) = (Claim(&value), change.name());
        let bound = claim.metadata().annotations().get(BIND_COMPLETED).is_some();
        if change.gone || bound {
            self.waiting.remove(&name);
        } else {
            self.waiting.insert(name.clone(), claim.spec().storage_class_name().unwrap_or_default().into());
        }
        let mut concerned = BTreeSet::new();
        let chosen = claim.spec().volume_name();
        if !chosen.is_empty() {
            concerned.insert(chosen.into());
        }
        if change.gone {
            let kept =
                self.volumes.iter().filter(|(_, volume)| volume.claim.as_ref().is_some_and(|(of, _)| *of == name));
            concerned.extend(kept.map(|(volume, _)| volume.clone()));
        }
        concerned
    }

    /// Takes in a volume.
    pub(super) fn volume_changed(&mut self, change: &Change<'_>) -> Became {
        let object = change.object;
        let mut claims = BTreeSet::new();
        let before = self.volumes.remove(&object.name);
        claims.extend(before.as_ref().and_then(|volume| volume.claim.clone()).map(|(claim, _)| claim));
        if !change.gone {
            let volume = Volume::read(object);
            claims.extend(volume.claim.clone().map(|(claim, _)| claim));
            let is_free = |volume: &Volume| volume.available && volume.claim.is_none();
            if is_free(&volume) && !before.as_ref().is_some_and(is_free) {
                let same = self.waiting.iter().filter(|(_, class)| **class == volume.class);
                claims.extend(same.map(|(claim, _)| claim.clone()));
            }
            self.volumes.insert(object.name.clone(), volume);
        }
        Became { claims }
    }

    /// The claims that wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &ObjectName> {
        self.waiting.keys()
    }

    /// Whether claims of a namespace wait.
    pub(super) fn has_waiting_in(&self, namespace: &str) -> bool {
        let first = ObjectName::new(namespace, "");
        self.waiting.range(first..).next().is_some_and(|(name, _)| &*name.namespace == namespace)
    }

    /// The volume that is kept for a claim, or the smallest that fits; only the former for one that is bound `late`.
    pub(super) fn best(&self, object: &Object, claim: Claim<'_>, late: bool) -> Option<Box<str>> {
        self.kept_for(object).or_else(|| if late { None } else { self.smallest(claim, |_| true) })
    }

    /// [`Known::best`] among those that a node reaches.
    pub(super) fn match_on(
        &self,
        object: &Object,
        claim: Claim<'_>,
        reaches: impl Fn(&Object) -> bool,
    ) -> Option<Box<str>> {
        self.kept_for(object).or_else(|| self.smallest(claim, reaches))
    }

    fn kept_for(&self, object: &Object) -> Option<Box<str>> {
        let name = ObjectName::of(object);
        let kept = |volume: &Volume| {
            !volume.object.deleting
                && volume.claim.as_ref().is_some_and(|(of, uid)| *of == name && (uid.is_empty() || *uid == object.uid))
        };
        self.volumes.iter().find(|(_, volume)| kept(volume)).map(|(name, _)| name.clone())
    }

    fn smallest(&self, claim: Claim<'_>, reaches: impl Fn(&Object) -> bool) -> Option<Box<str>> {
        let spec = claim.spec();
        let wanted = storage(spec.resources().requests());
        let mode = spec.volume_mode().unwrap_or("Filesystem");
        let selector = spec.selector().is_set().then(|| Selector::from_json(spec.selector().0));
        let fits = |volume: &Volume| {
            volume.available
                && volume.claim.is_none()
                && *volume.class == *spec.storage_class_name().unwrap_or_default()
                && *volume.attributes == *spec.volume_attributes_class_name().unwrap_or_default()
                && volume.size >= wanted
                && *volume.mode == *mode
                && spec.access_modes().all(|mode| volume.modes.iter().any(|have| **have == *mode))
                && selector.as_ref().is_none_or(|selector| selects(selector, &volume.object))
                && reaches(&volume.object)
        };
        self.volumes
            .iter()
            .filter(|(_, volume)| fits(volume))
            // Those that can be used in the fewest ways come first.
            .min_by_key(|(_, volume)| (volume.modes.len(), volume.size))
            .map(|(name, _)| name.clone())
    }
}

impl Volume {
    fn read(object: &std::sync::Arc<Object>) -> Self {
        let value = object.value();
        let spec = PersistentVolume(&value).spec();
        let reference = spec.claim_ref();
        let claim = || (ObjectName::new(reference.namespace(), reference.name()), reference.uid().into());
        Self {
            claim: reference.is_set().then(claim),
            available: PersistentVolume(&value).status().phase() == "Available" && !object.deleting,
            class: spec.storage_class_name().into(),
            size: storage(spec.capacity()),
            modes: spec.access_modes().map(Into::into).collect(),
            mode: spec.volume_mode().unwrap_or("Filesystem").into(),
            attributes: spec.volume_attributes_class_name().unwrap_or_default().into(),
            object: std::sync::Arc::clone(object),
        }
    }
}
