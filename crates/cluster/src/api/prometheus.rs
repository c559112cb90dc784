//! `/metrics` and `/metrics/slis`: what the cluster can tell of itself, in Prometheus' text form.

use std::collections::BTreeMap;
use std::fmt::Write;

use http::{HeaderValue, Response, header};

use super::super::cluster::Cluster;
use super::{answer, fairness, health};
use crate::body::Body;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// How many objects there are of each kind, and which version answers.
// upstream: staging/src/k8s.io/apiserver/pkg/storage/etcd3/metrics/metrics.go (v1.36)
pub(super) fn metrics(cluster: &Cluster) -> Response<Body> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for kind in cluster.kinds() {
        let row = kind.row();
        counts.insert((row.group, row.plural), cluster.count(kind));
    }
    let mut text = String::from(
        "# HELP apiserver_resource_objects [STABLE] Number of stored objects at the time of last check split by kind.\n\
         # TYPE apiserver_resource_objects gauge\n",
    );
    for ((group, resource), count) in &counts {
        let _ = writeln!(text, "apiserver_resource_objects{{group=\"{group}\",resource=\"{resource}\"}} {count}");
    }
    text.push_str(
        "# HELP apiserver_storage_objects [STABLE] Number of stored objects at the time of last check split by kind.\n\
         # TYPE apiserver_storage_objects gauge\n",
    );
    for ((group, resource), count) in &counts {
        let dot = if group.is_empty() { "" } else { "." };
        let _ = writeln!(text, "apiserver_storage_objects{{resource=\"{resource}{dot}{group}\"}} {count}");
    }
    text.push_str(
        "# HELP apiserver_flowcontrol_nominal_limit_seats [BETA] Nominal number of execution seats configured for each priority level\n\
         # TYPE apiserver_flowcontrol_nominal_limit_seats gauge\n",
    );
    for (level, seats) in fairness::nominal_limits(cluster) {
        let _ = writeln!(text, "apiserver_flowcontrol_nominal_limit_seats{{priority_level=\"{level}\"}} {seats}");
    }
    let version = health::git_version(cluster);
    let minor = version.split('.').nth(1).unwrap_or_default();
    text.push_str(
        "# HELP kubernetes_build_info [ALPHA] The version that answers.\n# TYPE kubernetes_build_info gauge\n",
    );
    let _ = writeln!(text, "kubernetes_build_info{{git_version=\"{version}\",major=\"1\",minor=\"{minor}\"}} 1");
    plain(text)
}

/// The checks of `/healthz`, `/livez` and `/readyz`, each 1 when it is well.
// upstream: staging/src/k8s.io/component-base/metrics/prometheus/slis/metrics.go (v1.36)
pub(super) fn slis(cluster: &Cluster) -> Response<Body> {
    let well = cluster.control_faults().is_empty();
    let mut text = String::from(
        "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.\n\
         # TYPE kubernetes_healthcheck gauge\n",
    );
    for kind in ["healthz", "livez", "readyz"] {
        for name in health::checks(kind) {
            let _ = writeln!(text, "kubernetes_healthcheck{{name=\"{name}\",type=\"{kind}\"}} 1");
        }
    }
    let _ = writeln!(text, "kubernetes_healthcheck{{name=\"control-plane\",type=\"readyz\"}} {}", u8::from(well));
    plain(text)
}

fn plain(text: String) -> Response<Body> {
    let mut response = answer::text(200, text);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    response
}
