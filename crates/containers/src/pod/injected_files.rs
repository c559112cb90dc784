//! Files that the kubelet and the runtime put into every container: names and addresses.

// upstream: pkg/kubelet/kubelet_pods.go managedHostsFileContent, GeneratePodHostNameAndDomain (v1.36)
// upstream: pkg/kubelet/network/dns/dns.go GetPodDNS (v1.36)

use std::collections::BTreeMap;

use serde_json::Value;

use super::file::File;
use crate::objects::{Kind, Objects};
use klab_api_machinery::value::{items, text};

/// The domain of clusters.
const DOMAIN: &str = "cluster.local";
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

/// The files of a container.
pub(super) fn injected_files(objects: Option<&dyn Objects>, pod: &Value, container: &Value) -> BTreeMap<String, File> {
    let mut files = BTreeMap::new();
    let mut put = |path: &str, text: String| {
        files.insert(path.to_owned(), File::of(text, 0o644));
    };
    let (name, domain) = host_name(pod);
    put("/etc/hostname", format!("{name}\n"));
    if pod["spec"]["hostNetwork"] != true {
        put("/etc/hosts", hosts(pod, &name, &domain));
    }
    if let Some(text) = resolver(objects, pod) {
        put("/etc/resolv.conf", text);
    }
    let message = text(container, &["terminationMessagePath"]);
    let message = if message.is_empty() { "/dev/termination-log" } else { message };
    files.insert(message.to_owned(), File::of("", 0o666));
    files
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
fn resolver(objects: Option<&dyn Objects>, pod: &Value) -> Option<String> {
    let spec = &pod["spec"];
    let host = spec["hostNetwork"] == true;
    let (mut servers, mut searches, mut options) = (Vec::new(), Vec::new(), Vec::new());
    match text(spec, &["dnsPolicy"]) {
        "None" => {}
        "ClusterFirst" if host => return None,
        "" | "ClusterFirst" | "ClusterFirstWithHostNet" => {
            let service = objects?.get(Kind::Service, "kube-system", "kube-dns")?;
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hosts_have_the_pods_names() {
        let pod = json!({
            "metadata": { "name": "p", "namespace": "n" },
            "spec": { "subdomain": "s", "hostAliases": [{ "ip": "1.2.3.4", "hostnames": ["a", "b"] }],
                "dnsPolicy": "None",
                "dnsConfig": { "nameservers": ["1.1.1.1"], "searches": ["x"], "options": [{ "name": "ndots", "value": "2" }] } },
            "status": { "podIPs": [{ "ip": "10.0.0.9" }] },
        });
        let files = injected_files(None, &pod, &json!({}));
        let text = |path: &str| String::from_utf8(files[path].text.as_ref().unwrap().to_vec()).unwrap();
        assert!(
            text("/etc/hosts")
                .contains("10.0.0.9\tp.s.n.svc.cluster.local\tp\n\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n")
        );
        assert_eq!(text("/etc/resolv.conf"), "search x\nnameserver 1.1.1.1\noptions ndots:2\n");
        assert_eq!(text("/etc/hostname"), "p\n");
    }
}
