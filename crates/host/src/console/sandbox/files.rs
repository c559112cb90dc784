//! Files and TCP ports: Landlock.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, NetPort, Ruleset, RulesetAttr, RulesetCreatedAttr,
    Scope, path_beneath_rules,
};

use super::confinement::Confinement;
use super::missing_feature::{Layer, MissingFeature};

/// The newest rights that are taken away, as far as the kernel knows them.
const NEWEST: ABI = ABI::V7;

/// Leaves a process its folder, its programs and its port.
pub(super) fn close(to: &Confinement) -> std::io::Result<Vec<MissingFeature>> {
    let own = AccessFs::from_read(ABI::V1) | AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::MakeDir;
    let own = own | AccessFs::RemoveFile | AccessFs::RemoveDir | AccessFs::Truncate;
    // What is written there is not executed.
    let own: BitFlags<AccessFs> = own & !AccessFs::Execute;
    let program = AccessFs::Execute | AccessFs::ReadFile;
    let restrict = || {
        Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?
            .add_rules(path_beneath_rules([&to.folder], own))?
            .add_rules(path_beneath_rules(&to.programs, program))?
            .add_rules(path_beneath_rules(&to.libraries, AccessFs::from_read(ABI::V1)))?
            .add_rule(NetPort::new(to.port, AccessNet::ConnectTcp))?
            .restrict_self()
    };
    let status = restrict().map_err(std::io::Error::other)?;
    let of = |wall, reason: &str| MissingFeature { wall, reason: reason.to_owned() };
    Ok(match status.landlock {
        LandlockStatus::Available { effective_abi, .. } if effective_abi >= ABI::V4 => Vec::new(),
        LandlockStatus::Available { .. } => vec![of(Layer::Network, "Landlock knows ports since Linux 6.7")],
        LandlockStatus::NotEnabled => {
            let reason = "Landlock is in this kernel and not switched on: see `lsm=` of the kernel's command line";
            vec![of(Layer::Files, reason), of(Layer::Network, reason)]
        }
        LandlockStatus::NotImplemented => {
            let reason = "this kernel has no Landlock; Linux has it since 5.13";
            vec![of(Layer::Files, reason), of(Layer::Network, reason)]
        }
    })
}
