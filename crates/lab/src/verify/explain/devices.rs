//! Why claims get no devices on nodes, in words: request by request, and device by device.

use std::collections::{BTreeMap, BTreeSet};

use klab_scheduler::{
    DeviceHolder, DeviceObstacle, DeviceShortage, JudgedDevice, RequestShortage, SelectorOwner, Together, UnusablePool,
};
use serde_json::{Map, Value, json};

use crate::words::{first_of, plural};

/// Most devices named in one line, and most holders.
const NAMED: usize = 4;
/// Most lines about who has which device.
const HOLDERS: usize = 3;
/// Most devices of a request in a document.
const DOCUMENTED: usize = 256;

/// Why the devices do not do, in words.
pub(super) struct Described {
    pub(super) text: String,
    pub(super) details: Vec<String>,
    pub(super) facts: Map<String, Value>,
}

/// What shortages must share to be one message: which requests are short and of what, numbers and names left aside.
pub(super) fn likeness(shortage: &DeviceShortage) -> String {
    let requests = shortage.short().map(|request| {
        let kinds: BTreeSet<&str> = request.devices.iter().map(|device| kind(device).0).collect();
        let kinds = kinds.into_iter().collect::<Vec<_>>().join(",");
        format!("{}/{} {}", request.claim, request.request, if request.devices.is_empty() { "none" } else { &kinds })
    });
    let unusable = shortage.unusable.iter().map(|pool| format!("unusable {}", pool.incomplete));
    let together = shortage.together.iter().map(|it| match it {
        Together::Contest { .. } => "contest".to_owned(),
        Together::Constraint { claim, attribute, distinct, .. } => format!("{claim} {attribute} {distinct}"),
        Together::Combination => "combination".to_owned(),
    });
    requests.chain(unusable).chain(together).collect::<Vec<_>>().join(";")
}

/// Alike shortages of several nodes, as one.
pub(super) fn describe(shortages: &[&DeviceShortage]) -> Described {
    let mut requests: Vec<Merged<'_>> = Vec::new();
    for shortage in shortages {
        for request in shortage.short() {
            match requests.iter_mut().find(|it| it.is_of(request)) {
                Some(merged) => merged.nodes.push(request),
                None => requests.push(Merged { nodes: vec![request] }),
            }
        }
    }
    let unusable: Vec<&UnusablePool> = shortages.iter().flat_map(|shortage| &shortage.unusable).collect();
    let together: Vec<&Together> = shortages.iter().filter_map(|shortage| shortage.together.as_ref()).collect();
    let mut texts: Vec<String> = requests.iter().map(Merged::summary).collect();
    let together = together.first().map(|it| in_words(it));
    texts.extend(together.clone());
    texts.extend(of_pools(&unusable));
    let mut details = Vec::new();
    for request in &requests {
        let lead = if requests.len() > 1 { format!("{}: ", request.first().request) } else { String::new() };
        details.extend(request.lines().into_iter().map(|line| format!("{lead}{line}")));
    }
    let mut facts = Map::new();
    facts.insert("requests".to_owned(), requests.iter().map(Merged::document).collect());
    if let Some(together) = together {
        facts.insert("together".to_owned(), json!(together));
    }
    if !unusable.is_empty() {
        let pool = |it: &&UnusablePool| json!({ "driver": it.driver, "pool": it.pool, "incomplete": it.incomplete });
        facts.insert("unusable_pools".to_owned(), unusable.iter().map(pool).collect());
    }
    Described { text: texts.join("; "), details, facts }
}

fn of_pools(unusable: &[&UnusablePool]) -> Option<String> {
    let first = unusable.first()?;
    let which = match unusable.len() {
        1 => format!("the pool of devices {} of {}", first.pool, first.driver),
        many => format!("{many} pools of devices"),
    };
    Some(if first.incomplete {
        format!("{which} gives nothing yet: some of its ResourceSlices are not published")
    } else {
        format!("{which} gives nothing: its ResourceSlices contradict each other")
    })
}

fn in_words(together: &Together) -> String {
    let counted = |values: &[(String, usize)]| {
        let each: Vec<String> = values.iter().map(|(value, count)| format!("{count} of {value}")).collect();
        if each.is_empty() { "none".to_owned() } else { first_of(&each, NAMED) }
    };
    match together {
        Together::Contest { wanted, free } => {
            format!("the requests ask for {} together, and there are {free} for all of them", plural(*wanted, "device"))
        }
        Together::Constraint { claim, attribute, distinct: false, wanted, values } => format!(
            "claim {claim} asks for {} with one value of {attribute}; free are {}",
            plural(*wanted, "device"),
            counted(values)
        ),
        Together::Constraint { claim, attribute, wanted, values, .. } => format!(
            "claim {claim} asks for {}, each with another value of {attribute}; the free ones have {}",
            plural(*wanted, "device"),
            plural(values.len(), "value")
        ),
        Together::Combination => "each request could be met alone, but not all of them together".to_owned(),
    }
}

/// One request on several nodes.
struct Merged<'r> {
    nodes: Vec<&'r RequestShortage>,
}

impl<'r> Merged<'r> {
    fn first(&self) -> &'r RequestShortage {
        self.nodes[0]
    }

    fn is_of(&self, request: &RequestShortage) -> bool {
        self.first().claim == request.claim && self.first().request == request.request
    }

    fn devices(&self) -> impl Iterator<Item = &'r JudgedDevice> {
        self.nodes.iter().flat_map(|request| &request.devices)
    }

    fn summary(&self) -> String {
        let first = self.first();
        let (request, claim, class) = (&first.request, &first.claim, &first.class);
        let wanted = match first.wanted {
            Some(1) => "a device".to_owned(),
            Some(wanted) => plural(wanted, "device"),
            None => "all devices".to_owned(),
        };
        // The scheduler makes the claim for extended resources once there are the devices.
        let asks = if claim.starts_with('<') {
            format!("{request} of its extended resources asks for {wanted} of class {class}")
        } else {
            format!("request {request} of claim {claim} asks for {wanted} of class {class}")
        };
        let of = |count: fn(&RequestShortage) -> usize| {
            let counts = || self.nodes.iter().map(|request| count(request));
            let (least, most) = (counts().min().unwrap_or_default(), counts().max().unwrap_or_default());
            if least == most { most.to_string() } else { format!("{least} to {most}") }
        };
        if self.devices().next().is_none() {
            let whose = if self.nodes.len() > 1 { "the nodes have" } else { "the node has" };
            return format!("{asks}, and {whose} none to give");
        }
        let mut kinds: BTreeMap<u8, (&str, usize)> = BTreeMap::new();
        for device in self.devices() {
            let (word, order) = kind(device);
            kinds.entry(order).or_insert((word, 0)).1 += 1;
        }
        let kinds: Vec<String> = kinds
            .values()
            .filter(|(word, _)| *word != FREE)
            // Counted over several nodes the numbers would say nothing about any of them.
            .map(|(word, count)| if self.nodes.len() == 1 { format!("{count} {word}") } else { (*word).to_owned() })
            .collect();
        let free = of(RequestShortage::free);
        let total = of(|request| request.devices.len());
        let each = if self.nodes.len() > 1 { " on each" } else { "" };
        let kinds = if kinds.is_empty() { String::new() } else { format!(": {}", kinds.join(", ")) };
        format!("{asks}, {free} of {total}{each} available{kinds}")
    }

    /// The devices by what keeps each from the request.
    fn lines(&self) -> Vec<String> {
        let pools: BTreeSet<&str> = self.devices().map(|device| &*device.pool).collect();
        let name = |device: &JudgedDevice| {
            if pools.len() > 1 { format!("{}/{}", device.pool, device.device) } else { device.device.to_string() }
        };
        let mut by_text: BTreeMap<(u8, String), Vec<&JudgedDevice>> = BTreeMap::new();
        for device in self.devices() {
            by_text.entry((kind(device).1, device_text(device))).or_default().push(device);
        }
        let taken = by_text.keys().filter(|(order, _)| *order == TAKEN).count();
        let mut lines = Vec::new();
        if taken > HOLDERS {
            let of_holders: Vec<&JudgedDevice> = by_text
                .iter()
                .filter(|((order, _), _)| *order == TAKEN)
                .flat_map(|(_, devices)| devices)
                .copied()
                .collect();
            by_text.retain(|(order, _), _| *order != TAKEN);
            let holders: BTreeSet<String> = of_holders.iter().flat_map(|device| holders(device)).map(short).collect();
            let holders: Vec<String> = holders.into_iter().collect();
            let total = self.devices().count();
            lines.push(format!("{} of {total} are allocated to {}", of_holders.len(), first_of(&holders, NAMED)));
        }
        for ((_, text), devices) in &by_text {
            let names: Vec<String> = devices.iter().map(|device| name(device)).collect();
            lines.push(format!("{}: {text}", first_of(&names, NAMED)));
        }
        lines
    }

    fn document(&self) -> Value {
        let first = self.first();
        let device = |device: &JudgedDevice| {
            let mut value = json!({
                "driver": &*device.driver, "pool": &*device.pool, "device": &*device.device,
                "free": device.obstacle.is_none(),
            });
            if let Some(obstacle) = &device.obstacle {
                value["reason"] = json!(code(obstacle));
                value["text"] = json!(device_text(device));
            }
            let by: Vec<Value> = holders(device)
                .iter()
                .map(|by| json!({ "namespace": by.namespace, "claim": by.claim, "pods": by.pods }))
                .collect();
            if !by.is_empty() {
                value["allocated_to"] = json!(by);
            }
            value
        };
        let all = self.devices().count();
        json!({
            "claim": first.claim, "request": first.request, "class": first.class, "wanted": first.wanted,
            "devices": self.devices().take(DOCUMENTED).map(device).collect::<Vec<_>>(),
            "devices_left_out": all.saturating_sub(DOCUMENTED),
        })
    }
}

fn holders(device: &JudgedDevice) -> &[DeviceHolder] {
    match &device.obstacle {
        Some(DeviceObstacle::Taken { by }) => by,
        _ => &[],
    }
}

/// `claim a (pod x)`, in the shortest words.
fn short(holder: &DeviceHolder) -> String {
    let place = if holder.namespace == "default" { String::new() } else { format!("{}/", holder.namespace) };
    match holder.pods.as_slice() {
        [] => format!("claim {place}{}, which no pod uses", holder.claim),
        [pod] => format!("claim {place}{} of pod {pod}", holder.claim),
        pods => format!("claim {place}{} of pods {}", holder.claim, first_of(pods, NAMED)),
    }
}

const FREE: &str = "free";
/// The place of allocated devices among the kinds.
const TAKEN: u8 = 1;

/// In a word, what keeps a device away, and its place in lists.
fn kind(device: &JudgedDevice) -> (&'static str, u8) {
    match &device.obstacle {
        None => (FREE, 0),
        Some(DeviceObstacle::Taken { .. }) => ("allocated", TAKEN),
        Some(DeviceObstacle::Tainted { .. }) => ("tainted", 2),
        Some(DeviceObstacle::Capacity { .. }) => ("with too little capacity left", 3),
        Some(DeviceObstacle::NoCapacity { .. } | DeviceObstacle::CapacityPolicy { .. }) => {
            ("without such a capacity", 4)
        }
        Some(DeviceObstacle::Counter { .. }) => ("whose hardware is used up", 5),
        Some(DeviceObstacle::NoAttribute { .. }) => ("that cannot be compared", 6),
        Some(DeviceObstacle::SelectorFailed { .. }) => ("on which a selector fails", 7),
        Some(DeviceObstacle::NotSelected { owner: SelectorOwner::Request, .. }) => ("not selected", 8),
        Some(DeviceObstacle::NotSelected { .. }) => ("not of the class", 9),
        Some(DeviceObstacle::OtherNode) => ("for other nodes", 10),
    }
}

fn code(obstacle: &DeviceObstacle) -> &'static str {
    match obstacle {
        DeviceObstacle::Taken { .. } => "allocated",
        DeviceObstacle::Tainted { .. } => "device-taint",
        DeviceObstacle::Capacity { .. } => "capacity",
        DeviceObstacle::NoCapacity { .. } => "no-capacity",
        DeviceObstacle::CapacityPolicy { .. } => "capacity-policy",
        DeviceObstacle::Counter { .. } => "counter",
        DeviceObstacle::NoAttribute { .. } => "no-attribute",
        DeviceObstacle::SelectorFailed { .. } => "selector-failed",
        DeviceObstacle::NotSelected { owner: SelectorOwner::Request, .. } => "selector",
        DeviceObstacle::NotSelected { .. } => "class-selector",
        DeviceObstacle::OtherNode => "other-node",
    }
}

/// What keeps a device from a request, in words.
fn device_text(device: &JudgedDevice) -> String {
    let of = |owner: &SelectorOwner| match owner {
        SelectorOwner::Class(class) => format!("not of class {class}: "),
        SelectorOwner::Request => "not selected: ".to_owned(),
    };
    match &device.obstacle {
        None => FREE.to_owned(),
        Some(DeviceObstacle::Taken { by }) => {
            let by: Vec<String> = by.iter().map(short).collect();
            format!("allocated to {}", first_of(&by, NAMED))
        }
        Some(DeviceObstacle::Tainted { taints }) => {
            let (noun, verb) = if taints.len() == 1 { ("taint", "is") } else { ("taints", "are") };
            format!("its {noun} {} {verb} not tolerated", taints.join(", "))
        }
        Some(DeviceObstacle::Capacity { name, wanted, left, total }) if left == total => {
            format!("{wanted} {name} asked for, it has {total}")
        }
        Some(DeviceObstacle::Capacity { name, wanted, left, total }) => {
            format!("{wanted} {name} asked for, {left} of {total} left")
        }
        Some(DeviceObstacle::NoCapacity { name }) => format!("it has no capacity {name}"),
        Some(DeviceObstacle::CapacityPolicy { name, wanted }) => {
            format!("it does not give {wanted} of its {name}: its request policy forbids it")
        }
        Some(DeviceObstacle::Counter { set, counter, wanted, left }) => {
            format!("it takes {wanted} {counter} of {set}, which has {left} left")
        }
        Some(DeviceObstacle::NoAttribute { attribute }) => {
            format!("it has no attribute {attribute}, by which the claim compares its devices")
        }
        Some(DeviceObstacle::SelectorFailed { owner: SelectorOwner::Class(class), expression, error }) => {
            format!("`{expression}` of class {class} fails: {error}")
        }
        Some(DeviceObstacle::SelectorFailed { expression, error, .. }) => format!("`{expression}` fails: {error}"),
        Some(DeviceObstacle::NotSelected { owner, expression, found }) => {
            let found: Vec<String> = found.iter().map(|(name, value)| format!("{name} is {value}")).collect();
            let found = if found.is_empty() { String::new() } else { format!(" ({})", found.join(", ")) };
            format!("{}`{expression}` is false{found}", of(owner))
        }
        Some(DeviceObstacle::OtherNode) => "it can be used on other nodes only".to_owned(),
    }
}
