//! The language of device selectors, as the scheduler asks it: somebody else compiles and evaluates expressions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::resource::v1::{DeviceAttribute, DeviceCapacity};

/// What an expression may ask of a device.
#[derive(Debug, Clone, Copy)]
pub struct DeviceFacts<'a> {
    /// The driver, which is the domain of names without one.
    pub driver: &'a str,
    /// Whether several claims may share it.
    pub multiple: bool,
    /// Its attributes, by qualified name.
    pub attributes: &'a BTreeMap<String, DeviceAttribute>,
    /// Its capacities, by qualified name.
    pub capacity: &'a BTreeMap<String, DeviceCapacity>,
}

/// A compiled expression.
pub trait DeviceSelector: fmt::Debug + Send + Sync {
    /// Whether it selects a device. It must say the same of equal devices at all times.
    ///
    /// # Errors
    /// Why the expression has no value, in Kubernetes' words.
    fn selects(&self, device: &DeviceFacts<'_>) -> Result<bool, String>;

    /// What the expression reads of a device, name and value, for explanations; nothing where that is unknown.
    fn reads(&self, _: &DeviceFacts<'_>) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// Compiles the expressions of device classes and claims. This crate knows no language; `klab-cluster` has Kubernetes'
/// (CEL).
pub trait SelectorLanguage: fmt::Debug + Send + Sync {
    /// Compiles an expression.
    ///
    /// # Errors
    /// What is wrong with it, in Kubernetes' words.
    fn compile(&self, expression: &str) -> Result<Arc<dyn DeviceSelector>, String>;
}

/// A language in which nothing can be said: for clusters without device selectors.
#[derive(Debug)]
pub(crate) struct NoLanguage;

impl SelectorLanguage for NoLanguage {
    fn compile(&self, _: &str) -> Result<Arc<dyn DeviceSelector>, String> {
        Err("this scheduler was given no language for device selectors".to_owned())
    }
}
