//! What the control plane goes on without: work and objects at which it panicked.
//!
//! A panic here is a fault of klab. It must not end the controllers of a cluster, nor come back at every turn, so
//! whatever caused it is left alone until somebody changes it.

use std::any::Any;
use std::sync::Arc;

use jiff::Timestamp;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{PODS, ResourceId};

use super::queue::{Key, ObjectName};
use crate::cluster::ControlFault;

/// What the control plane is busy with: the cause, should it panic.
#[derive(Debug, Clone)]
pub(super) enum Subject {
    /// A change that is being read.
    Change(Arc<Object>),
    /// A piece of work.
    Work(Key),
    /// A pod whose turn it is to be scheduled.
    Pod(ObjectName),
}

impl Subject {
    /// The object it is about.
    pub(super) fn object(&self) -> Option<(ResourceId, ObjectName)> {
        match self {
            Self::Change(object) => Some((object.resource, ObjectName::of(object))),
            Self::Pod(name) => Some((PODS, name.clone())),
            Self::Work(key) => key.object().map(|(resource, name)| (resource, name.clone())),
        }
    }
}

/// One panic.
#[derive(Debug)]
struct Fault {
    subject: Subject,
    /// The object that is to blame, and the version it had; `None` for work that is about no object.
    object: Option<(ResourceId, ObjectName, u64)>,
    message: String,
    at: Timestamp,
}

/// All faults that are not over.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    pub(super) fn note(
        &mut self,
        subject: Subject,
        object: Option<(ResourceId, ObjectName, u64)>,
        panic: &(dyn Any + Send),
        at: Timestamp,
    ) {
        let message = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no reason is known".to_owned());
        self.0.push(Fault { subject, object, message, at });
    }

    /// Whether the work is left alone.
    pub(super) fn bar(&self, key: &Key) -> bool {
        self.0.iter().any(|fault| match &fault.subject {
            Subject::Work(barred) => barred == key,
            Subject::Change(object) => {
                key.object().is_some_and(|(resource, name)| resource == object.resource && name.is(object))
            }
            Subject::Pod(_) => false,
        })
    }

    /// Whether changes of an object are not taken in.
    pub(super) fn bar_change(&self, object: &Object) -> bool {
        let same = |barred: &Object| {
            barred.resource == object.resource && barred.name == object.name && barred.namespace == object.namespace
        };
        self.0.iter().any(|fault| matches!(&fault.subject, Subject::Change(barred) if same(barred)))
    }

    /// Whether a pod is not to be scheduled.
    pub(super) fn bar_pod(&self, name: &ObjectName) -> bool {
        self.0.iter().any(|fault| matches!(&fault.subject, Subject::Pod(barred) if barred == name))
    }

    /// Forgets the faults of other versions of an object than this one: it was changed, so it is tried again. Says
    /// whether there were any.
    pub(super) fn lift(&mut self, object: &Object, gone: bool) -> bool {
        let before = self.0.len();
        self.0.retain(|fault| {
            !fault.object.as_ref().is_some_and(|(resource, name, version)| {
                *resource == object.resource && name.is(object) && (gone || *version != object.resource_version)
            })
        });
        self.0.len() != before
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// For people.
    pub(super) fn reported(&self) -> Vec<ControlFault> {
        let reported = self.0.iter().map(|fault| ControlFault {
            about: match (&fault.object, &fault.subject) {
                (Some((resource, name, _)), _) if name.namespace.is_empty() => {
                    format!("{} {}", resource.row().kind, name.name)
                }
                (Some((resource, name, _)), _) => {
                    format!("{} {}/{}", resource.row().kind, name.namespace, name.name)
                }
                (None, Subject::Work(key)) => format!("{:?}", key.controller),
                (None, subject) => format!("{subject:?}"),
            },
            message: fault.message.clone(),
            at: fault.at,
        });
        reported.collect()
    }
}
