//! Pools of single virtual machines: which sizes, and how many nodes of each.

use super::Reader;
use crate::code::Code;
use crate::spec::diagnostic::Diagnostic;
use crate::spec::machine::{Machine, VmSize};
use crate::spec::pool::ScaleProfile;
use crate::spec::raw::{self, At, PoolType};
use crate::spec::source::Located;

impl Reader<'_> {
    /// The scale profiles of a pool of type VirtualMachines, by the names of their sizes; none of a scale set. `nodes` is what
    /// the pool says of their number where it names no `sizes`.
    pub(super) fn scale(&mut self, name: &At<String>, raw: &raw::Pool, nodes: u32) -> Vec<ScaleProfile> {
        let pool = name.get();
        if raw.kind.as_ref().map(At::get) != Some(&PoolType::VirtualMachines) {
            if let Some((size, _)) = raw.sizes.iter().next() {
                let at = self.at(size.span());
                self.report(
                    Diagnostic::error(Code::VirtualMachines, format!("the nodes of pool `{pool}` have one size"))
                        .at(&at, "the machines of a scale set are alike")
                        .help("add `type = \"VirtualMachines\"`, whose nodes have one to five sizes"),
                );
            }
            return Vec::new();
        }
        let spans = [
            raw.nodes.as_ref().map(At::span),
            raw.size.as_ref().map(At::span),
            raw.cpu.as_ref().map(At::span),
            raw.memory.as_ref().map(At::span),
        ];
        if raw.sizes.is_empty() {
            let machine = self.machine(name, raw);
            let size = self.size(name, raw, &machine);
            if size.is_none() {
                let at = self.at(spans.into_iter().flatten().last().unwrap_or_else(|| name.span()));
                self.report(
                    Diagnostic::error(Code::VirtualMachines, format!("pool `{pool}` needs a VM size"))
                        .at(&at, "Azure has no virtual machines of arbitrary size")
                        .help("write `sizes = { \"Standard_D4s_v5\" = 2 }`"),
                );
            }
            return size.map(|size| ScaleProfile { size, machine, nodes }).into_iter().collect();
        }
        if let Some(span) = spans.into_iter().flatten().next() {
            let at = self.at(span);
            self.report(
                Diagnostic::error(Code::VirtualMachines, format!("it is not clear how many nodes pool `{pool}` has"))
                    .at(&at, "`sizes` says it already")
                    .help("leave out either `sizes`, or `nodes` and `size`"),
            );
        }
        let mut profiles: Vec<ScaleProfile> = Vec::new();
        for (size, nodes) in raw.sizes.iter() {
            let Some(known) = VmSize::find(size.get()) else {
                self.unknown_size(size);
                continue;
            };
            let at = self.at(size.span());
            if let Some(first) = profiles.iter().find(|profile| profile.size.value == known.name) {
                let message = format!("pool `{pool}` has two numbers of nodes of size `{}`", known.name);
                self.report(
                    Diagnostic::error(Code::VirtualMachines, message)
                        .at(&at, "a size has one scale profile")
                        .and_at(&first.size.at, "the first one"),
                );
                continue;
            }
            let size = Located::new(known.name.clone(), at);
            profiles.push(ScaleProfile { size, machine: Machine::of_size(known), nodes: *nodes.get() });
        }
        profiles.sort_by(|one, other| one.size.value.cmp(&other.size.value));
        profiles
    }
}
