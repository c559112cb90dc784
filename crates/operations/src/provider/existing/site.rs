//! Where a lab is: a context of the user's kubeconfig and the server it leads to, remembered from the first `up` on.

use std::io;
use std::path::{Path, PathBuf};

use kube::config::Kubeconfig;
use serde::{Deserialize, Serialize};

use crate::environment;
use crate::error::{Code, Error, Result};
use crate::kubeconfig::{of_context, programs, read};
use crate::state::home::state_error;
use klab_lab::spec::{Lab, Located};
use klab_server::files::{create_private_folder, write_private};

const FILE: &str = "existing.json";

/// Which cluster a lab is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Site {
    /// The context.
    pub(super) context: String,
    /// The kubeconfig it is in; none: those that kubectl would read.
    pub(super) kubeconfig: Option<PathBuf>,
    /// The server: a context of the same name that leads elsewhere is another cluster.
    pub(super) server: String,
    /// Whether the kubeconfig came with the lab file, so that it may run no programs, whatever it says by now.
    #[serde(default)]
    pub(super) comes_with_lab: bool,
}

/// A site, with the kubeconfig that leads there alone.
pub(super) struct ResolvedSite {
    pub(super) site: Site,
    pub(super) kubeconfig: Kubeconfig,
}

impl Site {
    /// What a lab's folder remembers.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(folder.join(FILE)).ok()?).ok()
    }

    /// Writes it into a lab's folder. On disk when this returns.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        create_private_folder(folder).map_err(|error| state_error(error, "create", folder))?;
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::other);
        text.and_then(|text| write_private(&path, &text)).map_err(|error| state_error(error, "write", &path))
    }

    /// The user's kubeconfig as it is now, where it still leads to this cluster.
    ///
    /// # Errors
    /// When it does not, or when it came with the lab and would run programs by now.
    pub(super) fn current(&self) -> Result<Kubeconfig> {
        let kubeconfig = of_context(read(self.kubeconfig.as_deref())?, Some(&self.context))?;
        self.refuse_programs(&kubeconfig)?;
        match server(&kubeconfig) {
            server if server == self.server => Ok(kubeconfig),
            server => Err(Error::message(
                Code::Foreign,
                format!("context `{}` leads to {server} now, and no longer to {}", self.context, self.server),
            )),
        }
    }

    /// A kubeconfig can name programs that log in, and files to send to its server. One that comes with a lab file belongs to
    /// the lab's author.
    fn refuse_programs(&self, kubeconfig: &Kubeconfig) -> Result<()> {
        let Some(file) = self.kubeconfig.as_ref().filter(|_| self.comes_with_lab) else { return Ok(()) };
        let mut users = kubeconfig.auth_infos.iter().filter_map(|user| user.auth_info.as_ref());
        let program = programs(kubeconfig).next().map(|program| format!("run `{program}` on this machine"));
        let sent = || users.find_map(|user| Some(format!("send `{}` to its server", user.token_file.as_ref()?)));
        let Some(would) = program.or_else(sent) else { return Ok(()) };
        let file = file.display();
        let message = format!("the kubeconfig that comes with the lab (`{file}`) would {would}");
        let hint = format!(
            "read it; if it may, `klab down` the lab if it is up, leave out `kubeconfig` and name it yourself: `KUBECONFIG={file}`"
        );
        Err(Error::message(Code::KubeconfigRuns, message).hint(hint))
    }
}

/// The cluster that a lab file means. A lab that is up stays where it is: `known` is remembered of it.
///
/// # Errors
/// When the kubeconfig leads nowhere, or elsewhere than to where the lab is.
pub(super) fn find(lab: &Lab, known: Option<&Site>) -> Result<ResolvedSite> {
    let wanted = &lab.existing;
    let file = match &wanted.kubeconfig {
        Some(named) => Some(resolved(lab, named)),
        None => known.and_then(|known| known.kubeconfig.clone()),
    };
    let named = wanted.context.as_ref().map(|context| context.value.as_str());
    let context = named.or(known.map(|known| known.context.as_str()));
    let kubeconfig = of_context(read(file.as_deref())?, context)?;
    let came_with_lab = known.is_some_and(|known| known.comes_with_lab && known.kubeconfig == file);
    let site = Site {
        context: kubeconfig.current_context.clone().unwrap_or_default(),
        comes_with_lab: came_with_lab || wanted.kubeconfig.as_ref().is_some_and(|named| comes_with(lab, named)),
        kubeconfig: file,
        server: server(&kubeconfig),
    };
    site.refuse_programs(&kubeconfig)?;
    match known {
        Some(known) if known.server != site.server => {
            let (name, at) = (&lab.name, &known.server);
            let message =
                format!("lab `{name}` is up on {at}, and context `{}` leads to {}", site.context, site.server);
            Err(Error::message(Code::UpElsewhere, message).hint(format!("`klab down {name}` removes it there first")))
        }
        _ => Ok(ResolvedSite { site, kubeconfig }),
    }
}

/// The server of a kubeconfig of one context.
fn server(kubeconfig: &Kubeconfig) -> String {
    let cluster = kubeconfig.clusters.first().and_then(|named| named.cluster.as_ref());
    cluster.and_then(|cluster| cluster.server.clone()).unwrap_or_default()
}

/// The path of a kubeconfig as a lab file names it: absolute, from the user's home, or beside the file.
fn resolved(lab: &Lab, named: &Located<String>) -> PathBuf {
    if let Some(rest) = named.strip_prefix("~/")
        && let Some(home) = environment::HOME.path()
    {
        return home.join(rest);
    }
    folder(lab).join(named.as_str())
}

/// The folder of the lab file.
fn folder(lab: &Lab) -> PathBuf {
    let file = std::path::absolute(lab.source.name()).unwrap_or_default();
    file.parent().map(PathBuf::from).unwrap_or_default()
}

/// Whether a kubeconfig that a lab file names is in the lab's folder, or found from there.
fn comes_with(lab: &Lab, named: &Located<String>) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_from_there = !named.starts_with("~/") && Path::new(named.as_str()).is_relative();
    is_from_there || real(&resolved(lab, named)).starts_with(real(&folder(lab)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_lab::spec::{LoadOptions, Provider, load};

    fn kubeconfig(server: &str, user: &str) -> String {
        format!(
            "{{ clusters: [{{ name: c, cluster: {{ server: '{server}', certificate-authority: ca.pem }} }}], \
             users: [{{ name: u, user: {user} }}], contexts: [{{ name: x, context: {{ cluster: c, user: u }} }}] }}"
        )
    }

    fn lab(folder: &Path, kubeconfig: &str) -> Lab {
        let file = folder.join("lab.toml");
        let existing = format!("[existing]\ncontext = \"x\"\nkubeconfig = \"{kubeconfig}\"\n");
        std::fs::write(&file, format!("lab = \"here\"\n{existing}")).unwrap();
        let options = LoadOptions { provider: Some(Provider::Existing), ..LoadOptions::default() };
        load(&file, &options).unwrap_or_else(|problems| panic!("{problems}"))
    }

    #[test]
    fn a_lab_stays_where_it_is_and_finds_files_beside_the_kubeconfig() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("their.kubeconfig");
        std::fs::write(&file, kubeconfig("https://one", "{ token: t }")).unwrap();
        let lab = lab(folder.path(), "their.kubeconfig");
        let found = find(&lab, None).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found.site.server, "https://one");
        let authority = found.kubeconfig.clusters[0].cluster.as_ref().unwrap().certificate_authority.clone().unwrap();
        assert_eq!(PathBuf::from(authority), folder.path().join("ca.pem"));
        assert!(found.site.current().is_ok());
        std::fs::write(&file, kubeconfig("https://two", "{ token: t }")).unwrap();
        assert!(found.site.current().is_err());
        let error = find(&lab, Some(&found.site)).err().unwrap();
        assert!(error.to_string().contains("is up on https://one"), "{error}");
    }

    #[test]
    fn a_kubeconfig_that_comes_with_a_lab_runs_no_programs() {
        let (folder, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let text =
            kubeconfig("https://one", "{ exec: { apiVersion: client.authentication.k8s.io/v1, command: ./evil } }");
        std::fs::write(folder.path().join("evil.kubeconfig"), &text).unwrap();
        let error = find(&lab(folder.path(), "evil.kubeconfig"), None).err().unwrap();
        assert!(error.to_string().contains("would run `"), "{error}");
        std::fs::write(folder.path().join("leak.kubeconfig"), kubeconfig("https://one", "{ tokenFile: /etc/passwd }"))
            .unwrap();
        let error = find(&lab(folder.path(), "leak.kubeconfig"), None).err().unwrap();
        assert!(error.to_string().contains("would send `/etc/passwd`"), "{error}");
        // Beside the lab's folder is with the lab, too.
        let inner = folder.path().join("labs");
        std::fs::create_dir(&inner).unwrap();
        assert!(find(&lab(&inner, "../evil.kubeconfig"), None).is_err());
        // The user's own may.
        let file = own.path().join("config");
        std::fs::write(&file, text).unwrap();
        let found =
            find(&lab(folder.path(), &file.display().to_string()), None).unwrap_or_else(|error| panic!("{error}"));
        let user = found.kubeconfig.auth_infos[0].auth_info.as_ref().unwrap();
        let program = user.exec.as_ref().unwrap().command.clone().unwrap();
        assert_eq!(PathBuf::from(program), own.path().join("./evil"));
    }

    #[test]
    fn a_kubeconfig_that_came_with_a_lab_runs_no_programs_once_the_lab_is_up() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("their.kubeconfig");
        let evil = "{ exec: { apiVersion: client.authentication.k8s.io/v1, command: ./evil } }";
        std::fs::write(&file, kubeconfig("https://one", "{ token: t }")).unwrap();
        let with = lab(folder.path(), "their.kubeconfig");
        find(&with, None).unwrap_or_else(|error| panic!("{error}")).site.write(folder.path()).unwrap();
        let known = Site::read(folder.path()).unwrap();
        assert!(known.current().is_ok());
        std::fs::write(&file, kubeconfig("https://one", evil)).unwrap();
        // Neither where the lab file still names it, nor where it no longer does.
        let mut without = with.clone();
        without.existing.kubeconfig = None;
        for refused in [known.current().err(), find(&with, Some(&known)).err(), find(&without, Some(&known)).err()] {
            let error = refused.unwrap();
            assert!(error.to_string().contains("would run `"), "{error}");
        }
    }
}
