//! Defaults of FlowSchemas and PriorityLevelConfigurations.

// upstream: pkg/apis/flowcontrol/v1/defaults.go (v1.36)

use serde_json::Value;

use super::field::set;

/// A FlowSchema.
pub(crate) fn flow(value: &mut Value) {
    where_zero(&mut value["spec"], "matchingPrecedence", 1000);
}

/// A PriorityLevelConfiguration.
pub(crate) fn level(value: &mut Value) {
    let spec = &mut value["spec"];
    for (kind, shares) in [("exempt", 0), ("limited", 30)] {
        if spec[kind].is_object() {
            set(&mut spec[kind], "nominalConcurrencyShares", shares);
            set(&mut spec[kind], "lendablePercent", 0);
        }
    }
    if let Some(queuing) =
        value.pointer_mut("/spec/limited/limitResponse/queuing").filter(|queuing| queuing.is_object())
    {
        for (field, number) in [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)] {
            where_zero(queuing, field, number);
        }
    }
}

/// Sets a number that is absent, or 0.
fn where_zero(object: &mut Value, field: &str, number: i64) {
    if let Some(map) = object.as_object_mut().filter(|map| map.get(field).is_none_or(|had| had.is_null() || had == 0)) {
        map.insert(field.to_owned(), Value::from(number));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn queues_have_a_length() {
        let mut value = json!({ "spec": { "type": "Limited", "limited": { "limitResponse": { "type": "Queue", "queuing": { "queues": 16 } } } } });
        level(&mut value);
        let limited = &value["spec"]["limited"];
        assert_eq!(limited["nominalConcurrencyShares"], 30);
        assert_eq!(limited["limitResponse"]["queuing"], json!({ "queues": 16, "handSize": 8, "queueLengthLimit": 50 }));
        let mut value = json!({ "spec": { "matchingPrecedence": 0 } });
        flow(&mut value);
        assert_eq!(value["spec"]["matchingPrecedence"], 1000);
    }
}
