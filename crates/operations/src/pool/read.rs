//! Pools read from their tables by the lab file's own rules.

use std::collections::BTreeSet;

use toml::{Table, Value};

use crate::error::{Code, Error, Result};
use klab_lab::spec::{self, AksNetwork, Diagnostic, Diagnostics, Lab, LoadOptions, Pool, Severity, SimLike};

/// Pools by name, in order.
pub type Tables = Vec<(String, Table)>;

/// The pools of these tables, in their order, and what is wrong with them in this lab.
///
/// # Errors
/// When a table cannot be read at all.
pub fn read(lab: &Lab, tables: &Tables) -> Result<(Vec<Pool>, Diagnostics)> {
    let text = text(lab, tables)?;
    let options = LoadOptions { provider: Some(lab.provider), ..LoadOptions::default() };
    match spec::parse_whatever_it_breaks("the pools as asked for", &text, &options) {
        (Some(read), problems) => {
            let pools = tables.iter().filter_map(|(name, _)| read.pool(name).cloned()).collect();
            Ok((pools, problems))
        }
        (None, problems) => Err(refusal(problems.iter(), &BTreeSet::new())
            .unwrap_or_else(|| Error::message(Code::KlabFault, "the pools cannot be read"))),
    }
}

/// A lab of nothing but these pools, with what of the real one the rules of pools ask for.
fn text(lab: &Lab, tables: &Tables) -> Result<String> {
    let entry = |key: &str, value: Value| (key.to_owned(), value);
    let network = match lab.aks.network {
        AksNetwork::Overlay => "overlay",
        AksNetwork::NodeSubnet => "node-subnet",
        AksNetwork::Kubenet => "kubenet",
    };
    let like = match lab.sim.like {
        SimLike::Aks => "aks",
        SimLike::Kind => "kind",
    };
    let mut whole = Table::from_iter([
        entry("lab", lab.name.value.clone().into()),
        entry("aks", Table::from_iter([entry("network", network.into())]).into()),
        entry("sim", Table::from_iter([entry("like", like.into())]).into()),
        entry("pool", tables.iter().map(|(name, table)| entry(name, table.clone().into())).collect::<Table>().into()),
    ]);
    if let Some(version) = &lab.kubernetes {
        whole.extend([entry("kubernetes", version.value.to_string().into())]);
    }
    toml::to_string(&whole).map_err(|error| Error::new(Code::KlabFault, error))
}

/// Refuses what breaks a rule that was not broken before.
///
/// # Errors
/// With the first rule in its words, and what mends it.
pub fn refuse_new(before: &Diagnostics, after: &Diagnostics) -> Result<()> {
    let known: BTreeSet<&str> = before.iter().map(|problem| problem.message.as_str()).collect();
    refusal(after.iter(), &known).map_or(Ok(()), Err)
}

fn refusal<'d>(problems: impl Iterator<Item = &'d Diagnostic>, known: &BTreeSet<&str>) -> Option<Error> {
    let new = |problem: &&Diagnostic| problem.severity == Severity::Error && !known.contains(problem.message.as_str());
    let problem = problems.into_iter().find(new)?;
    let why = problem.primary.as_ref().map(|label| label.text.as_str()).filter(|text| !text.is_empty());
    let words = why.map_or_else(|| problem.message.clone(), |why| format!("{}: {why}", problem.message));
    let help = problem.help.iter().map(|help| match &help.patch {
        Some((_, replacement)) => format!("{} `{}`", help.text, replacement.trim_matches('"')),
        None => help.text.clone(),
    });
    Some(help.fold(Error::message(Code::PoolRefused, words), Error::hint))
}
