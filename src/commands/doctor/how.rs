//! How to get what is missing, on the system that klab runs on.

/// A system, as far as packages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    Debian,
    Fedora,
    MacOs,
    /// Debian or Ubuntu in the Windows Subsystem for Linux.
    Wsl,
    Other,
}

/// What may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Kubectl,
    Kind,
    Containers,
    Az,
}

impl System {
    /// The system of this machine.
    pub(super) fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        if cfg!(target_os = "macos") {
            return Self::MacOs;
        }
        Self::of(&read("/etc/os-release"), &read("/proc/sys/kernel/osrelease"))
    }

    /// The system whose `/etc/os-release` and kernel release these are.
    fn of(os_release: &str, kernel: &str) -> Self {
        let value = |key: &str| {
            let line = os_release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            line.unwrap_or_default().trim_matches('"')
        };
        let mut names = value("ID").split_whitespace().chain(value("ID_LIKE").split_whitespace());
        let family = names.find_map(|name| match name {
            "debian" | "ubuntu" => Some(Self::Debian),
            "fedora" | "rhel" | "centos" => Some(Self::Fedora),
            _ => None,
        });
        match family.unwrap_or(Self::Other) {
            Self::Debian if kernel.to_ascii_lowercase().contains("microsoft") => Self::Wsl,
            family => family,
        }
    }
}

/// What to type, or where to look, to get it.
pub(super) fn to_get(tool: Tool, system: System) -> &'static str {
    match (tool, system) {
        (Tool::Kubectl, System::Debian | System::Wsl) => {
            "`sudo apt install kubernetes-client` (Debian) or `sudo snap install kubectl --classic` (Ubuntu); \
             https://kubernetes.io/docs/tasks/tools has the newest"
        }
        (Tool::Kubectl, System::Fedora) => "`sudo dnf install kubernetes-client`",
        (Tool::Kubectl, System::MacOs) => "`brew install kubectl`",
        (Tool::Kubectl, System::Other) => "install kubectl: https://kubernetes.io/docs/tasks/tools",
        (Tool::Kind, System::Debian | System::Wsl) => {
            "`sudo apt install kind` (Debian 13 and newer), or take the binary: https://kind.sigs.k8s.io/docs/user/quick-start"
        }
        (Tool::Kind, System::MacOs) => "`brew install kind`",
        (Tool::Kind, System::Fedora | System::Other) => {
            "take kind's binary: https://kind.sigs.k8s.io/docs/user/quick-start"
        }
        (Tool::Containers, System::Debian) => {
            "`sudo apt install docker.io && sudo usermod -aG docker $USER`, then log in again"
        }
        (Tool::Containers, System::Fedora) => {
            "`sudo dnf install podman`, and `export KIND_EXPERIMENTAL_PROVIDER=podman`"
        }
        (Tool::Containers, System::MacOs) => {
            "`brew install --cask docker`, and start it; Colima and Podman work as well"
        }
        (Tool::Containers, System::Wsl) => {
            "install Docker Desktop on Windows and switch on its WSL integration for this distribution: \
             https://docs.docker.com/desktop/features/wsl"
        }
        (Tool::Containers, System::Other) => {
            "install Docker (https://docs.docker.com/engine/install), Podman or nerdctl"
        }
        (Tool::Az, System::Debian | System::Wsl) => {
            "https://learn.microsoft.com/cli/azure/install-azure-cli-linux has the lines for apt; then `az login`"
        }
        (Tool::Az, System::Fedora) => "`sudo dnf install azure-cli`, then `az login`",
        (Tool::Az, System::MacOs) => "`brew install azure-cli`, then `az login`",
        (Tool::Az, System::Other) => "install the Azure CLI: https://learn.microsoft.com/cli/azure/install-azure-cli",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_known_by_their_own_words() {
        let rows = [
            ("ID=debian\nVERSION_ID=\"13\"", "6.12.0-amd64", System::Debian),
            ("NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian", "6.8.0-generic", System::Debian),
            ("ID=ubuntu\nID_LIKE=debian", "5.15.167.4-microsoft-standard-WSL2", System::Wsl),
            ("ID=linuxmint\nID_LIKE=\"ubuntu debian\"", "6.8.0", System::Debian),
            ("ID=fedora", "6.11.4-301.fc41.x86_64", System::Fedora),
            ("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"", "5.14.0", System::Fedora),
            ("ID=arch", "6.12.1-arch1-1", System::Other),
            ("", "", System::Other),
        ];
        for (os_release, kernel, system) in rows {
            assert_eq!(System::of(os_release, kernel), system, "{os_release}");
        }
    }

    #[test]
    fn every_system_has_a_way_to_every_tool() {
        for system in [System::Debian, System::Fedora, System::MacOs, System::Wsl, System::Other] {
            for tool in [Tool::Kubectl, Tool::Kind, Tool::Containers, Tool::Az] {
                let way = to_get(tool, system);
                assert!(way.contains('`') || way.contains("https://"), "{tool:?} on {system:?}: {way}");
            }
        }
    }
}
