//! Files that the kubelet and the runtime put into every container: names, addresses, limits.

// upstream: pkg/kubelet/kubelet_pods.go managedHostsFileContent, GeneratePodHostNameAndDomain (v1.36)
// upstream: pkg/kubelet/network/dns/dns.go GetPodDNS (v1.36)
// upstream: pkg/kubelet/cm/helpers_linux.go MilliCPUToQuota, MilliCPUToShares (v1.36)

use std::collections::BTreeMap;

use klab_scheduler::quantity::Quantity;
use serde_json::Value;

use super::file::File;
use crate::cluster::Cluster;
use crate::resource::SERVICES;
use crate::value::{items, text};

/// The domain of clusters.
const DOMAIN: &str = "cluster.local";
/// Microseconds in which a container may use its limit.
const PERIOD: i64 = 100_000;
/// No more name servers and search domains are written.
const MAX_SERVERS: usize = 3;

/// The name of a pod's host, and its domain.
pub(super) fn host_name(pod: &Value) -> (String, String) {
    let spec = &pod["spec"];
    if spec["hostNetwork"] == true {
        return (text(spec, &["nodeName"]).to_owned(), String::new());
    }
    if let Some(name) = spec["hostnameOverride"].as_str() {
        return (name.to_owned(), String::new());
    }
    let name = spec["hostname"].as_str().unwrap_or_else(|| text(pod, &["metadata", "name"]));
    let name: String = name.chars().take(63).collect();
    let name = name.trim_end_matches(['-', '.']).to_owned();
    let domain = match text(spec, &["subdomain"]) {
        "" => String::new(),
        subdomain => format!("{subdomain}.{}.svc.{DOMAIN}", text(pod, &["metadata", "namespace"])),
    };
    if spec["setHostnameAsFQDN"] == true && !domain.is_empty() {
        return (format!("{name}.{domain}"), domain);
    }
    (name, domain)
}

/// What a container of a pod calls its host.
pub(crate) fn host_of(pod: &Value) -> String {
    host_name(pod).0
}

/// The files, of a container whose status says what it has been given.
pub(super) fn given(
    cluster: Option<&Cluster>,
    pod: &Value,
    container: &Value,
    status: &Value,
) -> BTreeMap<String, File> {
    let mut files = BTreeMap::new();
    let mut put = |path: &str, text: String| {
        files.insert(path.to_owned(), File::of(text, 0o644));
    };
    let (name, domain) = host_name(pod);
    put("/etc/hostname", format!("{name}\n"));
    if pod["spec"]["hostNetwork"] != true {
        put("/etc/hosts", hosts(pod, &name, &domain));
    }
    if let Some(text) = resolver(cluster, pod) {
        put("/etc/resolv.conf", text);
    }
    for setting in items(&pod["spec"]["securityContext"]["sysctls"]) {
        put(&kernel_setting(text(setting, &["name"])).1, format!("{}\n", text(setting, &["value"])));
    }
    for (file, text) in limits(container, status) {
        put(&format!("/sys/fs/cgroup/{file}"), text);
    }
    let message = text(container, &["terminationMessagePath"]);
    let message = if message.is_empty() { "/dev/termination-log" } else { message };
    files.insert(message.to_owned(), File::of("", 0o666));
    files
}

/// A setting of the kernel as `sysctl` calls it, and its file. Where the first separator of its name is a `/`, its dots are part of its
/// words.
pub(super) fn kernel_setting(name: &str) -> (String, String) {
    let turned = |letter: char| match letter {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    let is_path = name.find(['.', '/']).is_some_and(|at| name[at..].starts_with('/'));
    let other: String = name.chars().map(turned).collect();
    let (called, path) = if is_path { (other, name.to_owned()) } else { (name.to_owned(), other) };
    (called, format!("/proc/sys/{path}"))
}

fn hosts(pod: &Value, name: &str, domain: &str) -> String {
    let mut text = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n\
                    fe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n"
        .to_owned();
    let short = name.split('.').next().unwrap_or(name);
    for address in items(&pod["status"]["podIPs"]) {
        let address = address["ip"].as_str().unwrap_or_default();
        text.push_str(&if domain.is_empty() {
            format!("{address}\t{name}\n")
        } else {
            format!("{address}\t{short}.{domain}\t{short}\n")
        });
    }
    let aliases = items(&pod["spec"]["hostAliases"]);
    if !aliases.is_empty() {
        text.push_str("\n# Entries added by HostAliases.\n");
    }
    for alias in aliases {
        let names: Vec<&str> = items(&alias["hostnames"]).iter().filter_map(Value::as_str).collect();
        text.push_str(&format!("{}\t{}\n", alias["ip"].as_str().unwrap_or_default(), names.join("\t")));
    }
    text
}

/// How names are looked up; none where the node's own file says it.
fn resolver(cluster: Option<&Cluster>, pod: &Value) -> Option<String> {
    let spec = &pod["spec"];
    let host = spec["hostNetwork"] == true;
    let (mut servers, mut searches, mut options) = (Vec::new(), Vec::new(), Vec::new());
    match text(spec, &["dnsPolicy"]) {
        "None" => {}
        "ClusterFirst" if host => return None,
        "" | "ClusterFirst" | "ClusterFirstWithHostNet" => {
            let service = cluster?.get(SERVICES, "kube-system", "kube-dns")?.value();
            servers.push(service["spec"]["clusterIP"].as_str()?.to_owned());
            let namespace = text(pod, &["metadata", "namespace"]);
            searches.extend([format!("{namespace}.svc.{DOMAIN}"), format!("svc.{DOMAIN}"), DOMAIN.to_owned()]);
            options.push(("ndots".to_owned(), "5".to_owned()));
        }
        _ => return None,
    }
    let config = &spec["dnsConfig"];
    let further = |field: &str| items(&config[field]).iter().filter_map(Value::as_str).map(str::to_owned);
    for (all, field) in [(&mut servers, "nameservers"), (&mut searches, "searches")] {
        for one in further(field) {
            if !all.contains(&one) {
                all.push(one);
            }
        }
    }
    for option in items(&config["options"]) {
        let (name, value) = (text(option, &["name"]).to_owned(), text(option, &["value"]).to_owned());
        match options.iter_mut().find(|(own, _)| *own == name) {
            Some((_, own)) => *own = value,
            None => options.push((name, value)),
        }
    }
    let mut out = String::new();
    if !searches.is_empty() {
        out.push_str(&format!("search {}\n", searches.join(" ")));
    }
    for server in servers.iter().take(MAX_SERVERS) {
        out.push_str(&format!("nameserver {server}\n"));
    }
    if !options.is_empty() {
        let options: Vec<String> = options
            .into_iter()
            .map(|(name, value)| if value.is_empty() { name } else { format!("{name}:{value}") })
            .collect();
        out.push_str(&format!("options {}\n", options.join(" ")));
    }
    Some(out)
}

/// What the container's group of processes may use, as control groups of version 2 have it.
fn limits(container: &Value, status: &Value) -> Vec<(&'static str, String)> {
    let resources = if status["resources"].is_object() { &status["resources"] } else { &container["resources"] };
    let amount = |kind: &str, name: &str| {
        let text = resources[kind][name].as_str()?;
        Quantity::parse(text).ok()
    };
    let quota = match amount("limits", "cpu").map(Quantity::millis).filter(|millis| *millis > 0) {
        Some(millis) => millis.saturating_mul(PERIOD).saturating_div(1000).max(1000).to_string(),
        None => "max".to_owned(),
    };
    let requested = amount("requests", "cpu").or_else(|| amount("limits", "cpu")).map_or(0, Quantity::millis);
    let shares = requested.saturating_mul(1024).saturating_div(1000).clamp(2, 262_144);
    let memory = amount("limits", "memory").map(Quantity::units).filter(|bytes| *bytes > 0);
    vec![
        ("cpu.max", format!("{quota} {PERIOD}\n")),
        ("cpu.weight", format!("{}\n", weight(shares))),
        ("memory.max", format!("{}\n", memory.map_or_else(|| "max".to_owned(), |bytes| bytes.to_string()))),
        ("cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc\n".to_owned()),
    ]
}

/// Shares of processors as a weight, as runc since 1.3.2 has it: 2 is 1, 1,024 is 100, 262,144 is 10,000.
fn weight(shares: i64) -> u64 {
    if shares <= 2 {
        return 1;
    }
    if shares >= 262_144 {
        return 10_000;
    }
    let log = (shares as f64).log2();
    let exponent = log.mul_add(log, 125.0 * log) / 612.0 - 7.0 / 34.0;
    10_f64.powf(exponent).ceil() as u64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn limits_are_those_of_control_groups() {
        let container = json!({ "resources": {
            "requests": { "cpu": "1" }, "limits": { "cpu": "1500m", "memory": "64Mi" },
        }});
        let of = |status: &Value| limits(&container, status).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(of(&json!({}))[..3], ["150000 100000\n", "100\n", "67108864\n"]);
        assert_eq!(of(&json!({ "resources": {} }))[..3], ["max 100000\n", "1\n", "max\n"]);
    }

    #[test]
    fn hosts_have_the_pods_names() {
        let pod = json!({
            "metadata": { "name": "p", "namespace": "n" },
            "spec": { "subdomain": "s", "hostAliases": [{ "ip": "1.2.3.4", "hostnames": ["a", "b"] }],
                "dnsPolicy": "None",
                "dnsConfig": { "nameservers": ["1.1.1.1"], "searches": ["x"], "options": [{ "name": "ndots", "value": "2" }] } },
            "status": { "podIPs": [{ "ip": "10.0.0.9" }] },
        });
        let files = given(None, &pod, &json!({}), &json!({}));
        let text = |path: &str| String::from_utf8(files[path].text.as_ref().unwrap().to_vec()).unwrap();
        assert!(
            text("/etc/hosts")
                .contains("10.0.0.9\tp.s.n.svc.cluster.local\tp\n\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n")
        );
        assert_eq!(text("/etc/resolv.conf"), "search x\nnameserver 1.1.1.1\noptions ndots:2\n");
        assert_eq!(text("/etc/hostname"), "p\n");
    }
}
