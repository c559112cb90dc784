//! Devices of hollow nodes: what a node's annotation says it has is published as a driver would, and its class made where
//! there is none.

use std::collections::BTreeMap;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{DEVICE_CLASSES, NODES, RESOURCE_SLICES};
use klab_api_machinery::views::{ResourceSlice, metadata};
use klab_scheduler::quantity::Quantity;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::settings::DEVICES_ANNOTATION;
use crate::cluster::{DeleteOptions, Part, WriteOptions};

/// Marks the slices that are made here.
const MARK: &str = "klab.dev/hollow-devices";
/// Most devices of a class on a node: one slice holds no more.
const MAX_DEVICES: usize = 128;

fn writes() -> WriteOptions<'static> {
    WriteOptions::by("klab")
}

/// Devices that are alike.
#[derive(Debug, Deserialize)]
struct Devices {
    class: String,
    /// Defaults to the class's name.
    driver: Option<String>,
    count: usize,
    #[serde(default)]
    attributes: Map<String, Value>,
}

impl Devices {
    fn driver(&self) -> &str {
        self.driver.as_deref().unwrap_or(&self.class)
    }
}

/// Publishes what hollow nodes have.
#[derive(Default)]
pub(super) struct HollowDevices;

impl Reconciler for HollowDevices {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        let key = |name: ObjectName| Key::new(Controller::HollowDevices, NODES, name);
        if change.resource() == NODES {
            let devices = |node: &Option<std::sync::Arc<super::view::NodeInfo>>| {
                node.as_ref().map(|node| node.devices.clone()).unwrap_or_default()
            };
            // A node that goes takes its slices along: it owns them.
            if !change.gone && devices(&change.node.before) != devices(&change.node.after) {
                plane.queue.add(key(change.name()));
            }
        } else if change.gone
            && change.object.label(MARK).is_some()
            && let Some(node) = ResourceSlice(&change.object.value()).spec().node_name()
        {
            plane.queue.add(key(ObjectName::new("", node)));
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        let Some(node) = plane.cluster.get(NODES, "", &key.name.name) else { return };
        let text = metadata(&node.value()).annotations().get(DEVICES_ANNOTATION).map(str::to_owned);
        // What cannot be read is none.
        let devices: Vec<Devices> = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let mut of_drivers: BTreeMap<&str, Vec<&Devices>> = BTreeMap::new();
        for devices in &devices {
            make_class(plane, devices);
            of_drivers.entry(devices.driver()).or_default().push(devices);
        }
        let publish = |(driver, devices): (&str, Vec<&Devices>)| publish(plane, &node, driver, &devices);
        let wanted: Vec<String> = of_drivers.into_iter().map(publish).collect();
        let (slices, _) = plane.cluster.list(RESOURCE_SLICES, None);
        for slice in slices.iter().filter(|slice| !wanted.contains(&slice.name.to_string())) {
            let is_of_node = || ResourceSlice(&slice.value()).spec().node_name() == Some(&node.name);
            if slice.label(MARK).is_some() && is_of_node() {
                let _deleted = plane.cluster.delete(RESOURCE_SLICES, "", &slice.name, &DeleteOptions::default());
            }
        }
    }
}

/// Makes the class of devices where there is none of its name: all devices of their driver.
fn make_class(plane: &Plane, devices: &Devices) {
    if plane.cluster.get(DEVICE_CLASSES, "", &devices.class).is_none() {
        let class = json!({
            "metadata": { "name": devices.class },
            "spec": { "selectors": [{ "cel": { "expression": format!("device.driver == \"{}\"", devices.driver()) } }] },
        });
        // A class of a wrong name is refused, and so is its slice.
        let _made = plane.cluster.create(DEVICE_CLASSES, "", class, &writes());
    }
}

/// Has the slice of a driver be there with its devices of a node; gives the slice's name.
fn publish(plane: &Plane, node: &Object, driver: &str, devices: &[&Devices]) -> String {
    let name = format!("{}-{driver}", node.name);
    let list = list(driver, devices);
    match plane.cluster.get(RESOURCE_SLICES, "", &name) {
        None => {
            let slice = json!({
                "metadata": {
                    "name": name, "labels": { MARK: "true" },
                    "ownerReferences": [{
                        "apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid, "controller": true,
                    }],
                },
                "spec": {
                    "driver": driver, "nodeName": node.name, "devices": list,
                    "pool": { "name": node.name, "generation": 1, "resourceSliceCount": 1 },
                },
            });
            let _made = plane.cluster.create(RESOURCE_SLICES, "", slice, &writes());
        }
        Some(slice) if !ResourceSlice(&slice.value()).spec().devices().map(|device| device.0).eq(&list) => {
            let _changed = plane.cluster.modify(RESOURCE_SLICES, Part::Main, "", &name, &writes(), |slice| {
                slice["spec"]["devices"] = json!(list);
                let generation = ResourceSlice(slice).spec().pool().generation();
                slice["spec"]["pool"]["generation"] = json!(generation.saturating_add(1));
            });
        }
        Some(_) => {}
    }
    name
}

/// The devices of a driver as its slice lists them, numbered through.
fn list(driver: &str, devices: &[&Devices]) -> Vec<Value> {
    let kind = driver.split('.').next().unwrap_or_default();
    let all =
        devices.iter().flat_map(|devices| std::iter::repeat_n(described(devices), devices.count.min(MAX_DEVICES)));
    let named = all.take(MAX_DEVICES).enumerate().map(|(number, mut device)| {
        device["name"] = json!(format!("{kind}-{number}"));
        device
    });
    named.collect()
}

/// One of the devices, without its name: amounts such as `40Gi` are capacity, all else are attributes.
fn described(devices: &Devices) -> Value {
    let (mut attributes, mut capacity) = (Map::new(), Map::new());
    for (name, value) in &devices.attributes {
        match value {
            Value::Bool(flag) => drop(attributes.insert(name.clone(), json!({ "bool": flag }))),
            Value::Number(number) => drop(attributes.insert(name.clone(), json!({ "int": number }))),
            Value::String(text) if is_amount(text) => drop(capacity.insert(name.clone(), json!({ "value": text }))),
            other => drop(attributes.insert(name.clone(), json!({ "string": other }))),
        }
    }
    let mut device = json!({});
    for (field, map) in [("attributes", attributes), ("capacity", capacity)] {
        if !map.is_empty() {
            device[field] = json!(map);
        }
    }
    device
}

/// Whether a text is an amount with a unit.
fn is_amount(text: &str) -> bool {
    let number = text.starts_with(|first: char| first.is_ascii_digit());
    number && text.ends_with(|last: char| last.is_ascii_alphabetic()) && Quantity::parse(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_capacity_and_all_else_attributes() {
        let devices: Devices = serde_json::from_value(json!({
            "class": "gpu.example.com", "count": 2,
            "attributes": { "memory": "40Gi", "model": "a100", "numa": 1, "healthy": true },
        }))
        .unwrap();
        let list = list(devices.driver(), &[&devices]);
        assert_eq!(list.len(), 2);
        let attributes = json!({ "model": { "string": "a100" }, "numa": { "int": 1 }, "healthy": { "bool": true } });
        let capacity = json!({ "memory": { "value": "40Gi" } });
        assert_eq!(list[1], json!({ "name": "gpu-1", "attributes": attributes, "capacity": capacity }));
    }

    #[test]
    fn kinds_of_devices_of_one_driver_are_numbered_through() {
        let of = |text: &str| -> Vec<Devices> { serde_json::from_str(text).unwrap() };
        let devices = of(r#"[
            {"class": "gpu", "driver": "gpu.example.com", "count": 1, "attributes": {"memory": "80Gi"}},
            {"class": "gpu", "driver": "gpu.example.com", "count": 2, "attributes": {"memory": "40Gi"}}
        ]"#);
        let list = list("gpu.example.com", &devices.iter().collect::<Vec<_>>());
        let told: Vec<_> =
            list.iter().map(|one| (one["name"].as_str(), one["capacity"]["memory"]["value"].as_str())).collect();
        assert_eq!(told, [(Some("gpu-0"), Some("80Gi")), (Some("gpu-1"), Some("40Gi")), (Some("gpu-2"), Some("40Gi"))]);
    }
}
