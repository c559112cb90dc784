//! Expressions that select devices: what they may name, what they may cost, and what they say of a device.

// upstream: staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go (v1.36)

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use k8s_openapi::api::resource::v1::{DeviceAttribute, DeviceCapacity};
use klab_cel::{Bindings, Budget, Declaration, Environment, Key, Opaque, Program, Shape, Type, Value};
use klab_scheduler::quantity::Quantity;
use klab_scheduler::{DeviceFacts, DeviceSelector, SelectorLanguage};

use crate::work;

/// Longest expression.
pub const MAX_LENGTH: usize = 10 * 1024;
/// Most that an expression may cost.
const MAX_COST: u64 = 1_000_000;
const MAX_DOMAIN: u64 = 63;
const MAX_NAME: u64 = 32;
const MAX_VALUE: u64 = 64;
const MAX_ENTRIES: u64 = 32;

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let sized = |shape: Type, max: u64| {
        let mut declaration = Declaration::simple(shape);
        declaration.max_elements = Some(max);
        declaration
    };
    let map = |value: Declaration, key: u64| Declaration {
        shape: Shape::Map(Arc::new(value), key),
        ..Declaration::list(Declaration::string(0), MAX_ENTRIES)
    };
    let by_name = |value: Declaration| map(map(value, MAX_NAME), MAX_DOMAIN);
    let quantity = Declaration::simple(Type::Opaque("kubernetes.Quantity".into()));
    let device = Declaration::object(
        "kubernetes.DRADevice",
        [
            ("driver", Declaration::string(MAX_DOMAIN)),
            ("allowMultipleAllocations", sized(Type::Bool, 1)),
            ("attributes", by_name(sized(Type::Dyn, MAX_VALUE))),
            ("capacity", by_name(quantity)),
        ],
    );
    Environment::new().metered(work::steps).for_devices().variable("device", device)
});

/// What keeps an expression from being one.
#[derive(Debug)]
pub enum Fault {
    /// The sentence about it.
    Invalid(String),
    /// It might cost too much.
    TooComplex,
}

/// Compiles an expression.
pub fn compile(expression: &str) -> Result<Program, Fault> {
    let program =
        ENVIRONMENT.compile(expression).map_err(|text| Fault::Invalid(format!("compilation failed: {text}")))?;
    match program.output() {
        Type::Bool | Type::Dyn => {}
        other => {
            return Err(Fault::Invalid(format!("must evaluate to bool or the unknown type, not {other}")));
        }
    }
    if program.cost().max > MAX_COST { Err(Fault::TooComplex) } else { Ok(program) }
}

/// Kubernetes' expression language, for the scheduler.
#[derive(Debug)]
pub struct Language;

impl SelectorLanguage for Language {
    fn compile(&self, expression: &str) -> Result<Arc<dyn DeviceSelector>, String> {
        match compile(expression) {
            Ok(program) => Ok(Arc::new(Compiled(program))),
            Err(Fault::Invalid(text)) => Err(text),
            Err(Fault::TooComplex) => Err("too complex, exceeds cost limit".to_owned()),
        }
    }
}

#[derive(Debug)]
struct Compiled(Program);

impl DeviceSelector for Compiled {
    fn selects(&self, device: &DeviceFacts<'_>) -> Result<bool, String> {
        let facts = Value::map([
            ("driver".to_owned(), Value::from(device.driver)),
            ("allowMultipleAllocations".to_owned(), Value::Bool(device.multiple)),
            ("attributes".to_owned(), by_domain(device.driver, device.attributes, attribute)?),
            ("capacity".to_owned(), by_domain(device.driver, device.capacity, |_, it| Ok(capacity(it)))?),
        ]);
        let variables = Bindings(vec![("device", facts)]);
        match self.0.evaluate(&variables, &mut Budget::of(MAX_COST)) {
            Ok(Value::Bool(selected)) => Ok(selected),
            Ok(other) => Err(format!(
                "CEL result of type {} could not be converted to bool: type conversion error",
                other.type_name()
            )),
            Err(failure) => Err(failure.to_string()),
        }
    }

    fn reads(&self, device: &DeviceFacts<'_>) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for path in self.0.reads("device") {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let of = |domain: &str, name: &str| [format!("{domain}/{name}"), name.to_owned()];
            let known = |domain: &str, name: &&String| name.contains('/') || domain == device.driver;
            let (name, value) = match path.as_slice() {
                ["driver"] => ("driver".to_owned(), device.driver.to_owned()),
                ["allowMultipleAllocations"] => ("allowMultipleAllocations".to_owned(), device.multiple.to_string()),
                ["attributes", domain, name, ..] => {
                    let names = of(domain, name);
                    let mut values =
                        names.iter().filter(|it| known(domain, it)).filter_map(|it| device.attributes.get(it));
                    ((*name).to_owned(), values.next().map_or_else(|| "not set".to_owned(), in_words))
                }
                ["capacity", domain, name, ..] => {
                    let names = of(domain, name);
                    let mut values =
                        names.iter().filter(|it| known(domain, it)).filter_map(|it| device.capacity.get(it));
                    ((*name).to_owned(), values.next().map_or_else(|| "not set".to_owned(), |it| it.value.0.clone()))
                }
                _ => continue,
            };
            if found.iter().all(|(other, _)| *other != name) {
                found.push((name, value));
            }
        }
        found
    }
}

/// An attribute's value, in words.
fn in_words(attribute: &DeviceAttribute) -> String {
    match attribute {
        DeviceAttribute { int: Some(number), .. } => number.to_string(),
        DeviceAttribute { bool: Some(flag), .. } => flag.to_string(),
        DeviceAttribute { string: Some(text), .. } | DeviceAttribute { version: Some(text), .. } => text.clone(),
        _ => "of an unknown kind".to_owned(),
    }
}

fn attribute(name: &str, attribute: &DeviceAttribute) -> Result<Value, String> {
    match attribute {
        DeviceAttribute { int: Some(number), .. } => Ok(Value::Int(*number)),
        DeviceAttribute { bool: Some(flag), .. } => Ok(Value::Bool(*flag)),
        DeviceAttribute { string: Some(text), .. } => Ok(Value::from(text.as_str())),
        DeviceAttribute { version: Some(version), .. } => {
            klab_cel::semver(version).map_err(|error| format!("attribute {name}: parse semantic version: {error}"))
        }
        _ => Err(format!("attribute {name}: unsupported attribute value")),
    }
}

fn capacity(capacity: &DeviceCapacity) -> Value {
    klab_cel::quantity(Quantity::parse(&capacity.value.0).unwrap_or_default())
}

/// Values by domain and name; names without a domain are in the driver's.
fn by_domain<T>(
    driver: &str,
    all: &BTreeMap<String, T>,
    value: impl Fn(&str, &T) -> Result<Value, String>,
) -> Result<Value, String> {
    let mut domains: BTreeMap<&str, BTreeMap<Key, Value>> = BTreeMap::new();
    for (name, one) in all {
        let (domain, id) = name.split_once('/').unwrap_or((driver, name));
        domains.entry(domain).or_default().insert(Key::String(id.into()), value(name, one)?);
    }
    let domains = domains.into_iter().map(|(domain, values)| (domain.into(), Value::Map(Arc::new(values)))).collect();
    Ok(Value::Opaque(Arc::new(Domains(domains))))
}

/// Maps by domain, of which those that nothing is known of are empty.
#[derive(Debug)]
struct Domains(BTreeMap<Arc<str>, Value>);

impl Opaque for Domains {
    fn type_name(&self) -> &'static str {
        "map"
    }

    fn call(&self, function: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
        let key = arguments.first().and_then(Value::as_str);
        match (function, key) {
            ("_[_]", Some(domain)) => {
                Some(Ok(self.0.get(domain).cloned().unwrap_or_else(|| Value::map(std::iter::empty()))))
            }
            ("@in", Some(domain)) => Some(Ok(Value::Bool(self.0.contains_key(domain)))),
            ("@size" | "size", None) => Some(Ok(Value::Int(i64::try_from(self.0.len()).unwrap_or(i64::MAX)))),
            ("@keys", None) => Some(Ok(Value::from(self.0.keys().map(|key| Value::from(&**key)).collect::<Vec<_>>()))),
            _ => None,
        }
    }

    fn text(&self) -> String {
        format!("{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selects(expression: &str) -> Result<bool, String> {
        let attributes: BTreeMap<String, DeviceAttribute> = serde_json::from_value(json!({
            "model": {"string": "a100"}, "numa": {"int": 1}, "healthy": {"bool": true},
            "driverVersion": {"version": "1.1.0"}, "other.example.com/rack": {"string": "r1"},
        }))
        .unwrap();
        let capacity = serde_json::from_value(json!({"memory": {"value": "40Gi"}})).unwrap();
        let driver = "gpu.example.com";
        let facts = DeviceFacts { driver, multiple: false, attributes: &attributes, capacity: &capacity };
        Language.compile(expression)?.selects(&facts)
    }

    #[test]
    fn devices_are_told_by_driver_attributes_and_capacity() {
        for (expression, selected) in [
            ("device.driver == 'gpu.example.com'", true),
            (
                "device.attributes['gpu.example.com'].model == 'a100' && device.attributes['gpu.example.com'].numa == 0",
                false,
            ),
            ("device.attributes['gpu.example.com'].healthy", true),
            ("device.attributes['other.example.com'].rack == 'r1'", true),
            ("device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0", true),
            ("device.attributes['gpu.example.com'].driverVersion.isGreaterThan(semver('1.0.0'))", true),
            ("device.allowMultipleAllocations", false),
            ("cel.bind(dra, device.attributes['gpu.example.com'], dra.healthy && dra.numa == 1)", true),
        ] {
            assert_eq!(selects(expression), Ok(selected), "{expression}");
        }
    }

    #[test]
    fn what_an_expression_reads_of_a_device_can_be_told() {
        let attributes: BTreeMap<String, DeviceAttribute> =
            serde_json::from_value(json!({"model": {"string": "a100"}, "other.example.com/rack": {"int": 4}})).unwrap();
        let capacity = serde_json::from_value(json!({"memory": {"value": "40Gi"}})).unwrap();
        let driver = "gpu.example.com";
        let facts = DeviceFacts { driver, multiple: false, attributes: &attributes, capacity: &capacity };
        for (expression, wanted) in [
            ("device.driver == 'x'", "driver gpu.example.com"),
            ("device.attributes['gpu.example.com'].model == 'h100' && 'model' != ''", "model a100"),
            (
                "device.attributes['other.example.com']['rack'] < 3 || !device.allowMultipleAllocations",
                "rack 4, allowMultipleAllocations false",
            ),
            ("device.attributes['nobody.example.com'].model == 'a100'", "model not set"),
            (
                "cel.bind(dra, device.attributes['gpu.example.com'], dra.model == 'b' && dra.numa == 1)",
                "model a100, numa not set",
            ),
            ("device.capacity['gpu.example.com'].memory.compareTo(quantity('80Gi')) >= 0", "memory 40Gi"),
            ("['a', 'b'].exists(it, it == device.attributes['gpu.example.com'].model)", "model a100"),
            ("device.attributes.size() == 1", ""),
        ] {
            let selector = Language.compile(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
            let found = selector.reads(&facts);
            let found: Vec<String> = found.iter().map(|(name, value)| format!("{name} {value}")).collect();
            assert_eq!(found.join(", "), wanted, "{expression}");
        }
    }

    #[test]
    fn a_domain_that_nobody_knows_is_empty() {
        assert_eq!(selects("'model' in device.attributes['nobody.example.com']"), Ok(false));
        assert_eq!(selects("has(device.attributes['nobody.example.com'].model)"), Ok(false));
        assert_eq!(selects("'nobody.example.com' in device.attributes"), Ok(false));
        assert_eq!(
            selects("device.attributes['nobody.example.com'].model == 'x'"),
            Err("no such key: model".to_owned())
        );
    }

    #[test]
    fn what_is_no_condition_or_costs_too_much_is_refused() {
        assert!(matches!(compile("device.driver"), Err(Fault::Invalid(text)) if text.contains("not string")));
        assert!(
            matches!(compile("device.nope == 1"), Err(Fault::Invalid(text)) if text.contains("undefined field 'nope'"))
        );
        let loops = "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, \
                     [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, \
                     a + b + c + d + e + f > 0))))))";
        assert!(matches!(compile(loops), Err(Fault::TooComplex)));
    }
}
