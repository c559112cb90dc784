//! Where Services have their addresses from: ServiceCIDRs, and IPAddresses as objects.

// upstream: pkg/apis/networking/validation/validation.go ValidateServiceCIDR, ValidateIPAddress (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::ranges::{cidr, first, range};
use super::{Errors, Place};
use crate::views::{IPAddress, IPAddressSpec, ServiceCIDR, ServiceCIDRSpec, Views};

const IMMUTABLE: &str = "field is immutable";

/// A new ServiceCIDR.
pub fn service_cidr(value: &Value, errors: &mut Errors) {
    let spec = Place::<ServiceCIDRSpec<'_>>::of_spec(value);
    let cidrs = spec.cidrs();
    match cidrs.len() {
        0 => return errors.required(cidrs, "at least one CIDR required"),
        1 | 2 => {}
        _ => {
            let shown = json!({ "CIDRs": cidrs.json }).to_string();
            return errors.invalid_as(cidrs, &shown, "may only hold up to 2 values");
        }
    }
    for one in cidrs.each() {
        let before = errors.len();
        cidr(&one, errors);
        let canonical = range(&one).map(|(address, length)| format!("{}/{length}", first(address, length)));
        if let Some(canonical) = canonical.filter(|canonical| canonical != *one && errors.len() == before) {
            errors.invalid_at(&one, format!("must be in canonical form ({canonical:?})"));
        }
    }
    let mut families = Views::clone(&cidrs).map(|one| range(one).map(|(address, _)| address.is_ipv4()));
    if let (Some(Some(one)), Some(Some(other))) = (families.next(), families.next())
        && one == other
    {
        let because = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.invalid_at(&cidrs, because);
    }
}

/// What a range is stays; a range of the other family may be added.
pub(crate) fn service_cidr_update(old: &Value, new: &Value, errors: &mut Errors) {
    let spec = Place::<ServiceCIDRSpec<'_>>::of_spec(new);
    let (had, given) = (ServiceCIDR(old).spec().cidrs(), spec.cidrs());
    let is_added = had.len() == 1 && given.len() == 2;
    if had.len() != given.len() && !is_added {
        return errors.invalid_at(&given, IMMUTABLE);
    }
    for (_, given) in had.zip(given.each()).filter(|(had, given)| *had != **given) {
        errors.invalid_at(&given, IMMUTABLE);
    }
    if is_added {
        service_cidr(new, errors);
    }
}

/// A new IPAddress.
pub fn address(value: &Value, errors: &mut Errors) {
    let spec = Place::<IPAddressSpec<'_>>::of_spec(value);
    let parent = spec.parent_ref();
    if !parent.is_set() {
        return errors.required(parent, "");
    }
    parent.group().check_if_set(names::subdomain, errors);
    parent.resource().needed_as(names::path_segment, errors);
    parent.name().needed_as(names::path_segment, errors);
    parent.namespace().check_if_set(names::path_segment, errors);
}

/// Whose an address is stays.
pub(crate) fn address_update(old: &Value, new: &Value, errors: &mut Errors) {
    let parts = |address| {
        let parent = IPAddress(address).spec().parent_ref();
        let parts = [parent.group(), parent.resource(), parent.namespace(), parent.name()];
        parent.is_set().then(|| parts.map(|part| json!(part)))
    };
    let given = parts(new);
    if parts(old) == given {
        return;
    }
    let shown = given.map_or("null".to_owned(), |[group, resource, namespace, name]| {
        format!("{{\"Group\":{group},\"Resource\":{resource},\"Namespace\":{namespace},\"Name\":{name}}}")
    });
    errors.invalid_as("spec.parentRef", &shown, IMMUTABLE);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cidrs: &[&str]) -> Value {
        json!({ "spec": { "cidrs": cidrs } })
    }

    #[test]
    fn ranges_are_one_of_each_family_and_well_written() {
        for (cidrs, wanted) in [
            (vec!["10.9.0.0/24"], None),
            (vec!["10.9.0.0/24", "fd00::/64"], None),
            (vec![], Some("spec.cidrs: Required value: at least one CIDR required")),
            (
                vec!["10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24"],
                Some(
                    r#"spec.cidrs: Invalid value: {"CIDRs":["10.1.0.0/24","10.2.0.0/24","10.3.0.0/24"]}: may only hold up to 2 values"#,
                ),
            ),
            (
                vec!["10.1.0.0/24", "10.2.0.0/24"],
                Some(
                    r#"spec.cidrs: Invalid value: ["10.1.0.0/24","10.2.0.0/24"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"#,
                ),
            ),
            (
                vec!["10.1.0.1/24"],
                Some(r#"spec.cidrs[0]: Invalid value: "10.1.0.1/24": must not have bits set beyond the prefix length"#),
            ),
            (
                vec!["FD00::/64"],
                Some(r#"spec.cidrs[0]: Invalid value: "FD00::/64": must be in canonical form ("fd00::/64")"#),
            ),
        ] {
            let found = Errors::found(|errors| service_cidr(&of(&cidrs), errors));
            assert_eq!(found, wanted.into_iter().collect::<Vec<_>>(), "{cidrs:?}");
        }
    }

    #[test]
    fn ranges_stay_but_one_of_the_other_family_may_be_added() {
        let change = |old: &[&str], new: &[&str]| {
            Errors::found(|errors| service_cidr_update(&of(old), &of(new), errors)).join("; ")
        };
        assert_eq!(change(&["10.9.0.0/24"], &["10.9.0.0/24"]), "");
        assert_eq!(change(&["10.9.0.0/24"], &["10.9.0.0/24", "fd00::/64"]), "");
        let stays = r#"spec.cidrs[0]: Invalid value: "10.8.0.0/24": field is immutable"#;
        assert_eq!(change(&["10.9.0.0/24"], &["10.8.0.0/24"]), stays);
        assert_eq!(change(&["10.9.0.0/24"], &["10.8.0.0/24", "fd00::/64"]), stays);
        assert_eq!(
            change(&["10.9.0.0/24", "fd00::/64"], &["10.9.0.0/24"]),
            r#"spec.cidrs: Invalid value: ["10.9.0.0/24"]: field is immutable"#
        );
    }

    #[test]
    fn addresses_are_of_one_object_for_good() {
        let of = |parent: Value| json!({ "spec": { "parentRef": parent } });
        let found = |parent: Value| Errors::found(|errors| address(&of(parent), errors));
        let service = json!({ "group": "", "resource": "services", "namespace": "foo", "name": "bar" });
        assert_eq!(found(service.clone()), [""; 0]);
        assert_eq!(found(Value::Null), ["spec.parentRef: Required value"]);
        assert_eq!(
            found(json!({ "namespace": "a/b" })),
            [
                "spec.parentRef.resource: Required value",
                "spec.parentRef.name: Required value",
                "spec.parentRef.namespace: Invalid value: \"a/b\": may not contain '/'",
            ]
        );
        let mut other = service.clone();
        other["name"] = json!("other");
        let changed = Errors::found(|errors| address_update(&of(service.clone()), &of(other), errors));
        let shown = r#"{"Group":"","Resource":"services","Namespace":"foo","Name":"other"}"#;
        assert_eq!(changed, [format!("spec.parentRef: Invalid value: {shown}: field is immutable")]);
        let mut spelled = service.clone();
        spelled.as_object_mut().map(|parent| parent.remove("group"));
        assert_eq!(Errors::found(|errors| address_update(&of(service), &of(spelled), errors)), [""; 0]);
    }
}
