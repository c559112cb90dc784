//! The real az, set up to talk to the stand-in and to nothing else.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::server::Server;
use super::{CLIENT, SECRET};

/// The real az: `KLAB_REAL_AZ`, else what `.ci/azure-cli` installed, else the one on PATH; the error says why there is none.
pub fn find() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("KLAB_REAL_AZ") {
        let path = PathBuf::from(path);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(format!("KLAB_REAL_AZ names {}, which is not there", path.display()))
        };
    }
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let cached = cache.map(|cache| cache.join("klab-ci/azure-cli/bin/az"));
    let on_path = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>())
        .map(|folder| folder.join("az"));
    cached
        .into_iter()
        .chain(on_path)
        .find(|path| path.is_file())
        .ok_or_else(|| "there is no az: `.ci/azure-cli` installs it".to_owned())
}

/// A logged-in az: what its environment must hold.
pub struct Login {
    pub az: PathBuf,
    /// Where the login is.
    pub folder: PathBuf,
    pub environment: Vec<(OsString, OsString)>,
}

impl Login {
    /// Registers the stand-in as a cloud of its own and logs in with a service principal.
    pub fn new(az: &Path, server: &Server, folder: &Path) -> Self {
        let login = Self::logged_out(az, server, folder);
        let tenant = server.model().tenant.clone();
        login.run(&["login", "--service-principal", "-u", CLIENT, "-p", SECRET, "-t", &tenant, "-o", "none"]);
        login
    }

    /// The same without a login.
    pub fn logged_out(az: &Path, server: &Server, folder: &Path) -> Self {
        let authority = server.write_authority(folder);
        let config = folder.join("azure");
        std::fs::create_dir_all(&config).unwrap();
        let variables = [
            ("AZURE_CONFIG_DIR", config.as_os_str()),
            ("REQUESTS_CA_BUNDLE", authority.as_os_str()),
            ("AZURE_CORE_COLLECT_TELEMETRY", "false".as_ref()),
            ("AZURE_CORE_INSTANCE_DISCOVERY", "false".as_ref()),
        ];
        let environment = variables.iter().map(|(name, value)| (OsString::from(name), (*value).to_owned())).collect();
        let login = Self { az: az.to_owned(), folder: config.clone(), environment };
        let url = server.url();
        login.run(&[
            "cloud",
            "register",
            "-n",
            "StandIn",
            "--skip-endpoint-discovery",
            "--endpoint-resource-manager",
            &url,
            "--endpoint-active-directory",
            &url,
            "--endpoint-active-directory-resource-id",
            &url,
            "--endpoint-management",
            &url,
            "--endpoint-active-directory-graph-resource-id",
            &url,
            "--endpoint-gallery",
            &url,
        ]);
        login.run(&["cloud", "set", "-n", "StandIn"]);
        login.run(&[
            "config",
            "set",
            "core.instance_discovery=false",
            "core.collect_telemetry=false",
            "core.survey_message=false",
        ]);
        login
    }

    /// Runs az; panics with its words when it fails.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new(&self.az)
            .args(arguments)
            .envs(self.environment.iter().cloned())
            .output()
            .expect("az can be started");
        assert!(output.status.success(), "az {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
