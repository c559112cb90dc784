//! How things of a lab are called on kind, and where its files are.

use std::path::{Path, PathBuf};

use crate::error::{Code, Error, Result};
use crate::state::Home;

/// Longest name kind takes without a warning.
const MAX_CLUSTER_NAME: usize = 50;

/// Names and places of one lab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The cluster as kind knows it.
    pub cluster: String,
    /// The lab's state folder.
    lab_folder: PathBuf,
}

impl Names {
    /// The names of a lab; with a seat (`KLAB_SEAT`) several people can have the same lab on one machine.
    ///
    /// # Errors
    /// When the seat cannot be part of a cluster's name.
    pub fn new(home: &Home, lab: &str, seat: Option<&str>) -> Result<Self> {
        let cluster = match seat {
            None | Some("") => format!("klab-{lab}"),
            Some(seat) => {
                let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
                if !seat.chars().all(plain) || seat.starts_with('-') || seat.ends_with('-') {
                    let message = format!("`{seat}` in KLAB_SEAT cannot be part of a cluster's name");
                    return Err(Error::message(Code::Flags, message).hint("use lower-case letters, digits and `-`"));
                }
                format!("klab-{lab}-{seat}")
            }
        };
        if cluster.len() > MAX_CLUSTER_NAME {
            let message = format!("`{cluster}` is too long for the name of a kind cluster");
            return Err(Error::message(Code::Flags, message)
                .hint(format!("shorten KLAB_SEAT; {MAX_CLUSTER_NAME} characters are allowed in all")));
        }
        Ok(Self { cluster, lab_folder: home.lab(lab) })
    }

    /// The folder of everything that only kind needs.
    pub fn folder(&self) -> PathBuf {
        self.lab_folder.join("kind")
    }

    /// The lab's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.lab_folder.join("kubeconfig")
    }

    /// The file kind makes while it writes the kubeconfig; one that a killed kind left blocks for ever.
    pub fn kubeconfig_lock(&self) -> PathBuf {
        self.lab_folder.join("kubeconfig.lock")
    }

    /// The configuration kind is called with.
    pub fn config(&self) -> PathBuf {
        self.folder().join("cluster.yaml")
    }

    /// What the tools said, command by command.
    pub fn transcript(&self) -> PathBuf {
        self.folder().join("transcript.log")
    }

    /// What was asked of kind when the cluster was made, and which worker is of which pool.
    pub fn record(&self) -> PathBuf {
        self.folder().join("cluster.json")
    }

    /// The folder that is mounted into every node: by it a container is known to be this lab's.
    pub fn owner_mount(&self) -> PathBuf {
        self.folder().join("owner")
    }

    /// The generated files that give the nodes of a pool their size.
    pub fn machine(&self, pool: &str) -> PathBuf {
        self.folder().join("machine").join(pool)
    }

    /// Registry mirrors as containerd reads them.
    pub fn mirrors(&self) -> PathBuf {
        self.folder().join("certs.d")
    }

    /// The configuration of the scheduler.
    pub fn scheduler(&self) -> PathBuf {
        self.folder().join("scheduler.yaml")
    }

    /// The node that kind makes first.
    pub fn control_plane(&self) -> String {
        format!("{}-control-plane", self.cluster)
    }

    /// All control-plane nodes, as kind names them.
    pub fn control_planes(&self, count: u32) -> Vec<String> {
        (1..=count.max(1)).map(|number| numbered(&self.control_plane(), number)).collect()
    }

    /// The n-th worker, from 1, as kind names it.
    pub fn worker(&self, number: u32) -> String {
        numbered(&format!("{}-worker", self.cluster), number)
    }

    /// The container of a worker whose node the lab file names: other clusters may have nodes of the same name.
    pub fn named_worker(&self, node: &str) -> String {
        format!("{}-node-{node}", self.cluster)
    }

    /// Whether a path is inside the lab's folder for kind.
    pub fn owns(&self, path: &Path) -> bool {
        path.starts_with(self.folder())
    }
}

/// kind leaves the number of the first one out.
fn numbered(name: &str, number: u32) -> String {
    if number <= 1 { name.to_owned() } else { format!("{name}{number}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(seat: Option<&str>) -> Result<Names> {
        Names::new(&Home::new("/state"), "taints", seat)
    }

    #[test]
    fn nodes_are_named_as_kind_names_them() {
        let names = names(None).unwrap();
        assert_eq!(names.cluster, "klab-taints");
        assert_eq!(
            names.control_planes(3),
            ["klab-taints-control-plane", "klab-taints-control-plane2", "klab-taints-control-plane3"]
        );
        assert_eq!([names.worker(1), names.worker(2)], ["klab-taints-worker", "klab-taints-worker2"]);
        assert!(names.owns(Path::new("/state/labs/taints/kind/owner")));
        assert!(!names.owns(Path::new("/state/labs/taints2/kind/owner")));
    }

    #[test]
    fn seats_are_part_of_the_name_and_checked() {
        assert_eq!(names(Some("s07")).unwrap().cluster, "klab-taints-s07");
        assert_eq!(names(Some("")).unwrap().cluster, "klab-taints");
        assert!(names(Some("Seat 7")).is_err());
        assert!(names(Some(&"x".repeat(60))).is_err());
    }
}
