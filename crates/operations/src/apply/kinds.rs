//! Kinds that every cluster serves, known without asking it: those of Kubernetes' stable groups that labs are made of.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, LimitRange, Namespace, PersistentVolume, PersistentVolumeClaim, Pod, ResourceQuota, Secret, Service,
    ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope, Resource};
use kube::discovery::{ApiResource, Scope};

/// How a kind is reached: the path it is served at, and whether its objects are in namespaces.
pub(super) type Served = (ApiResource, Scope);

/// A kind of a group and version (`apps/v1`, `Deployment`); `None` where a cluster has to be asked.
pub(super) fn known(api_version: &str, kind: &str) -> Option<Served> {
    macro_rules! first_of {
        ($($scope:ident: $($type:ident)*;)*) => {
            $($(if api_version == $type::API_VERSION && kind == $type::KIND {
                return Some($scope::<$type>());
            })*)*
        };
    }
    first_of! {
        namespaced: Deployment Service ConfigMap Pod Job DaemonSet StatefulSet ReplicaSet CronJob Secret ServiceAccount
            PersistentVolumeClaim ResourceQuota LimitRange PodDisruptionBudget NetworkPolicy Role RoleBinding;
        of_cluster: Namespace PriorityClass PersistentVolume ClusterRole ClusterRoleBinding;
    }
    None
}

fn namespaced<K>() -> Served
where
    K: Resource<Scope = NamespaceResourceScope> + kube::Resource<DynamicType = ()>,
{
    (ApiResource::erase::<K>(&()), Scope::Namespaced)
}

fn of_cluster<K>() -> Served
where
    K: Resource<Scope = ClusterResourceScope> + kube::Resource<DynamicType = ()>,
{
    (ApiResource::erase::<K>(&()), Scope::Cluster)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_labs_are_known_in_their_stable_version() {
        let path = |api_version, kind| {
            known(api_version, kind).map(|(resource, scope)| {
                (resource.group, resource.version, resource.plural, scope == Scope::Namespaced)
            })
        };
        let row = |group: &str, plural: &str, namespaced| {
            Some((group.to_owned(), "v1".to_owned(), plural.to_owned(), namespaced))
        };
        assert_eq!(path("apps/v1", "Deployment"), row("apps", "deployments", true));
        assert_eq!(path("v1", "Namespace"), row("", "namespaces", false));
        assert_eq!(path("policy/v1", "PodDisruptionBudget"), row("policy", "poddisruptionbudgets", true));
        assert_eq!(path("apps/v1beta1", "Deployment"), None);
        assert_eq!(path("stable.example.com/v1", "Deployment"), None);
    }
}
