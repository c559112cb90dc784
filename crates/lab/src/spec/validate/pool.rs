//! Pools.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{Reader, given, syntax, taints};
use crate::code::Code;
use crate::names::POOL_LABEL;
use crate::spec::diagnostic::Diagnostic;
use crate::spec::machine::{Machine, VmSize};
use crate::spec::pool::{DeviceAttribute, Devices, Os, Pool, PoolMode, Spot};
use crate::spec::provider::{AksNetwork, ExistingSettings};
use crate::spec::raw::{self, At, Table, ZonesText};
use crate::spec::source::Located;
use klab_scheduler::quantity::Quantity as Amount;

/// The size of nodes where the lab does not say: the smallest that AKS takes for a system pool.
const DEFAULT_SIZE: &str = "Standard_B2ms";

/// Whether a text can name an attribute of a device.
fn is_identifier(text: &str) -> bool {
    let mut characters = text.chars();
    let first = characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    first && text.len() <= 32 && characters.all(|other| other.is_ascii_alphanumeric() || other == '_')
}

impl Reader<'_> {
    pub(super) fn pools(
        &mut self,
        raw: &Table<raw::Pool>,
        network: AksNetwork,
        existing: &ExistingSettings,
    ) -> Vec<Pool> {
        let mut has_system =
            raw.iter().any(|(_, pool)| matches!(pool.mode.as_ref().map(At::get), Some(PoolMode::System)));
        raw.iter()
            .map(|(name, pool)| {
                let mode = match pool.mode.as_ref().map(At::get) {
                    Some(mode) => *mode,
                    None if !has_system => PoolMode::System,
                    None => PoolMode::User,
                };
                has_system |= mode == PoolMode::System;
                let selector = self.selector(name, pool, existing);
                self.pool((name, pool), mode, network, selector)
            })
            .collect()
    }

    /// The labels by which the nodes of a pool are found.
    fn selector(
        &mut self,
        name: &At<String>,
        raw: &raw::Pool,
        existing: &ExistingSettings,
    ) -> BTreeMap<String, String> {
        let matches = raw.matches.as_ref().map(|matches| self.plain_labels(matches));
        if let Some(matches) = &raw.matches
            && matches.iter().next().is_none()
        {
            let at = self.at(name.span());
            self.report(
                Diagnostic::error(Code::Label, format!("pool `{}` matches every node", name.get()))
                    .at(&at, "its `match` names no label")
                    .help("name a label that its nodes have and others do not"),
            );
        }
        let own = if self.provider.profile().makes_nodes { POOL_LABEL } else { &existing.pool_label };
        match matches {
            Some(matches) if !self.provider.profile().makes_nodes => matches,
            _ => [(own.to_owned(), name.get().clone())].into(),
        }
    }

    fn pool(
        &mut self,
        (name, raw): (&At<String>, &raw::Pool),
        mode: PoolMode,
        network: AksNetwork,
        selector: BTreeMap<String, String>,
    ) -> Pool {
        let os = given(raw.os.as_ref());
        // A name that AKS refuses is reported, and kept so that what refers to it still finds it.
        let checked = self.text(name, Code::PoolName, |text| syntax::pool_name(text, os == Os::Windows));
        let mut nodes = match &raw.nodes {
            Some(nodes) => self.located(nodes, *nodes.get()),
            None => self.located(name, raw.autoscale.as_ref().map_or(1, |bounds| bounds.min.max(1))),
        };
        let mut scale = self.scale(name, raw, nodes.value);
        let mut machine = scale.first().map_or_else(|| self.machine(name, raw), |first| first.machine.clone());
        if let Some(disk) = &raw.os_disk {
            machine.os_disk_gib = disk.size.unwrap_or(machine.os_disk_gib);
            machine.os_disk_ephemeral = disk.ephemeral;
        }
        // The disk is the pool's, whatever the size of its machines.
        for profile in &mut scale {
            let (os_disk_gib, os_disk_ephemeral) = (machine.os_disk_gib, machine.os_disk_ephemeral);
            profile.machine = Machine { os_disk_gib, os_disk_ephemeral, ..profile.machine.clone() };
        }
        if !raw.sizes.is_empty() && !scale.is_empty() {
            nodes.value = scale.iter().fold(0, |sum, profile| profile.nodes.saturating_add(sum));
        }
        Pool {
            name: checked.unwrap_or_else(|| self.located(name, name.get().clone())),
            mode,
            nodes,
            size: scale.first().map(|first| first.size.clone()).or_else(|| self.size(name, raw, &machine)),
            machine,
            scale,
            labels: self.labels(&raw.labels),
            names: self.texts(&raw.names, Code::Name, syntax::dns_label),
            present: None,
            selector,
            annotations: raw.annotations.clone(),
            taints: self.texts(&raw.taints, Code::Taint, taints::taint),
            zones: self.zones(raw.zones.as_ref()),
            zones_auto: matches!(raw.zones.as_ref().map(At::get), Some(ZonesText::Word(_))),
            max_pods: raw.max_pods.as_ref().map_or(network.default_max_pods(), |pods| *pods.get()),
            max_pods_given: raw.max_pods.as_ref().map(|pods| self.at(pods.span())),
            spot: self.spot(raw),
            autoscale: raw.autoscale.as_ref().map(|bounds| self.located(bounds, *bounds.get())),
            capacity: raw
                .capacity
                .as_ref()
                .filter(|_| self.provider.profile().is_embedded)
                .map(|capacity| self.located(capacity, *capacity.get())),
            os,
            os_sku: raw.os_sku.clone(),
            kubernetes: self.optional(raw.kubernetes.as_ref(), Code::Version, syntax::version),
            node_image: self.node_image(raw, os),
            upgrade: raw.upgrade.as_ref().map(|upgrade| self.upgrade(upgrade)).unwrap_or_default(),
            resources: self.quantities(&raw.resources),
            images: self.images(&raw.images),
            devices: self.devices(&raw.devices),
            extra_args: raw.extra_args.clone(),
            deferred: raw.deferred,
            at: self.at(name.span()),
        }
    }

    /// The name of the size of a machine, where it has one.
    pub(super) fn size(&self, name: &At<String>, raw: &raw::Pool, machine: &Machine) -> Option<Located<String>> {
        machine.size.map(|size| &size.name).or(raw.size.as_ref().map(At::get)).map(|size| {
            let at = raw.size.as_ref().map_or_else(|| self.at(name.span()), |text| self.at(text.span()));
            Located::new(size.clone(), at)
        })
    }

    pub(super) fn machine(&mut self, name: &At<String>, raw: &raw::Pool) -> Machine {
        let default = || VmSize::find(DEFAULT_SIZE).map_or_else(|| Machine::custom(2000, 8 << 30), Machine::of_size);
        match (&raw.size, &raw.cpu, &raw.memory) {
            (None, None, None) => default(),
            (Some(size), None, None) => VmSize::find(size).map_or_else(
                || {
                    self.unknown_size(size);
                    default()
                },
                Machine::of_size,
            ),
            // Azure has more sizes than klab's table.
            (size, Some(cpu), Some(memory)) if size.as_ref().is_none_or(|size| VmSize::find(size).is_none()) => {
                if size.is_none() && self.provider.profile().has_managed_pools {
                    let message = format!("pool `{}` needs a VM size on AKS", name.get());
                    let (at, memory) = (self.at(cpu.span()), self.at(memory.span()));
                    self.report(
                        Diagnostic::error(Code::Machine, message)
                            .at(&at, "Azure has no machines of arbitrary size")
                            .and_at(&memory, "")
                            .help("write `size = \"Standard_B2ms\"` or another VM size"),
                    );
                }
                let (cpu, memory) = (self.quantity(cpu), self.quantity(memory));
                let amount = |quantity: Option<Located<Quantity>>| {
                    quantity.and_then(|quantity| Amount::parse(&quantity.value.0).ok())
                };
                match (amount(cpu), amount(memory)) {
                    (Some(cpu), Some(memory)) => {
                        Machine::custom(cpu.millis().unsigned_abs(), memory.units().unsigned_abs())
                    }
                    _ => default(),
                }
            }
            (size, cpu, memory) => {
                let written = [cpu.as_ref().map(At::span), memory.as_ref().map(At::span)];
                let Some(span) = written.into_iter().flatten().next() else { return default() };
                let (label, help) = if size.is_some() {
                    ("`size` says it already", "leave out either `size`, or `cpu` and `memory`")
                } else {
                    ("one of `cpu` and `memory` is not enough", "give both, or a VM size: `size = \"Standard_B2ms\"`")
                };
                let at = self.at(span);
                let message = format!("it is not clear how large the nodes of pool `{}` are", name.get());
                self.report(Diagnostic::error(Code::Machine, message).at(&at, label).help(help));
                size.as_ref().and_then(|size| VmSize::find(size)).map_or_else(default, Machine::of_size)
            }
        }
    }

    pub(super) fn unknown_size(&mut self, size: &At<String>) {
        let at = self.at(size.span());
        let mut diagnostic =
            Diagnostic::error(Code::UnknownSize, format!("klab does not know the VM size `{}`", size.get()))
                .at(&at, "no such size in klab's table");
        if let Some(near) = VmSize::nearest(size.get()).first() {
            diagnostic = diagnostic.patch("did you mean", &at, format!("\"{}\"", near.name));
        }
        diagnostic = diagnostic
            .help("`klab az vm list-sizes -l westeurope -o table` lists the sizes that klab knows")
            .help("`cpu = 4` and `memory = \"16Gi\"` describe a machine that klab does not know: on aks beside `size`, on sim and kind in its place");
        self.report(diagnostic);
    }

    fn zones(&mut self, raw: Option<&At<ZonesText>>) -> Vec<u8> {
        let mut zones = Vec::new();
        let numbers = match raw.map(|raw| (raw, raw.get())) {
            None => return zones,
            Some((_, ZonesText::Numbers(numbers))) => numbers,
            Some((raw, ZonesText::Word(word))) => {
                if word != "auto" {
                    let at = self.at(raw.span());
                    self.report(
                        Diagnostic::error(Code::Zone, format!("`{word}` cannot be zones"))
                            .at(&at, "zones are 1, 2 and 3")
                            .help("write `zones = [1, 2]`, or `zones = \"auto\"` to have AKS choose them"),
                    );
                }
                return vec![1, 2, 3];
            }
        };
        for zone in numbers {
            let number = *zone.get();
            let label = if !(1..=3).contains(&number) {
                "zones are 1, 2 and 3"
            } else if zones.contains(&number) {
                "this zone is named twice"
            } else {
                zones.push(number);
                continue;
            };
            let at = self.at(zone.span());
            self.report(Diagnostic::error(Code::Zone, format!("`{number}` cannot be a zone here")).at(&at, label));
        }
        zones.sort_unstable();
        zones
    }

    fn spot(&mut self, raw: &raw::Pool) -> Option<Spot> {
        if !raw.spot.as_ref().is_some_and(|spot| *spot.get()) {
            let written = [raw.max_price.as_ref().map(At::span), raw.eviction.as_ref().map(At::span)];
            if let Some(span) = written.into_iter().flatten().next() {
                let at = self.at(span);
                self.report(
                    Diagnostic::error(Code::Spot, "price and eviction are for spot pools only")
                        .at(&at, "this pool is not a spot pool")
                        .help("add `spot = true`"),
                );
            }
            return None;
        }
        let max_price = raw.max_price.as_ref().and_then(|price| {
            let value = *price.get();
            let scaled = value * 100_000.0;
            // -1 is Azure's way to say: up to the regular price.
            if (value + 1.0).abs() < f64::EPSILON {
                return None;
            }
            if value <= 0.0 || !value.is_finite() || (scaled - scaled.round()).abs() > 1e-6 {
                let at = self.at(price.span());
                self.report(
                    Diagnostic::error(Code::Spot, format!("`{value}` cannot be a price"))
                        .at(&at, "must be above 0, with at most 5 decimals"),
                );
                return None;
            }
            Some(value)
        });
        Some(Spot { max_price, eviction: given(raw.eviction.as_ref()) })
    }

    pub(super) fn quantity(&mut self, raw: &At<raw::QuantityText>) -> Option<Located<Quantity>> {
        match syntax::quantity(&raw.get().0) {
            Ok(quantity) => Some(self.located(raw, quantity)),
            Err(mistake) => {
                self.mistake(Code::Quantity, raw.span(), mistake);
                None
            }
        }
    }

    fn images(&mut self, raw: &Table<At<raw::QuantityText>>) -> std::collections::BTreeMap<String, u64> {
        let mut images = std::collections::BTreeMap::new();
        for (name, size) in raw.iter() {
            let image = self.text(name, Code::Image, syntax::image);
            let bytes = self.quantity(size).and_then(|size| Amount::parse(&size.0).ok());
            if let (Some(image), Some(bytes)) = (image, bytes) {
                images.insert(image.value, u64::try_from(bytes.units()).unwrap_or_default());
            }
        }
        images
    }

    fn devices(&mut self, raw: &[At<raw::Devices>]) -> Vec<Located<Devices>> {
        let mut all: Vec<Located<Devices>> = Vec::new();
        for one in raw {
            let Some(class) = self.text(&one.class, Code::Devices, syntax::dns_subdomain) else { continue };
            let driver = one.driver.as_ref().and_then(|driver| self.text(driver, Code::Devices, syntax::dns_subdomain));
            let driver_at = driver.as_ref().map_or(&class.at, |driver| &driver.at).clone();
            let driver = driver.map(|driver| driver.value);
            let name = driver.as_deref().unwrap_or(&class.value);
            let before: u32 = all.iter().filter(|other| other.driver() == name).map(|other| other.count).sum();
            let count = one.count.as_ref().map_or(1, |count| *count.get());
            let attributes: BTreeMap<String, DeviceAttribute> =
                one.attributes.iter().map(|(name, value)| (name.get().clone(), value.clone())).collect();
            let odd = attributes.keys().find(|name| !is_identifier(name)).cloned();
            let fault = match odd {
                Some(name) => {
                    let at = self.at(one.span());
                    Some((format!("`{name}` cannot name an attribute: letters, digits and `_`, 32 at most"), at))
                }
                _ if count == 0 || before.saturating_add(count) > 128 => {
                    let at = self.at(one.count.as_ref().map_or(one.span(), At::span));
                    Some(("a node has 1 to 128 devices of a driver".to_owned(), at))
                }
                _ if name.len() > 63 => Some(("a driver's name has 63 characters at most".to_owned(), driver_at)),
                _ => None,
            };
            if let Some((label, at)) = fault {
                let message = format!("a node cannot have these devices of class `{}`", class.value);
                self.report(Diagnostic::error(Code::Devices, message).at(&at, label));
                continue;
            }
            all.push(self.located(one, Devices { class: class.value, driver, count, attributes }));
        }
        all
    }

    pub(super) fn quantities(
        &mut self,
        raw: &Table<At<raw::QuantityText>>,
    ) -> std::collections::BTreeMap<String, Located<Quantity>> {
        let mut quantities = std::collections::BTreeMap::new();
        for (name, value) in raw.iter() {
            let name_is_fine = self.text(name, Code::Label, syntax::label_key).is_some();
            if let Some(value) = self.quantity(value)
                && name_is_fine
            {
                quantities.insert(name.get().clone(), value);
            }
        }
        quantities
    }
}
