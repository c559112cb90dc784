//! Why claims get no devices on a node, in words: request by request, and device by device.

use std::sync::Arc;

/// What keeps the claims of a pod from getting devices on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceShortage {
    /// The requests of the claims that have no devices yet; each alternative for itself.
    pub requests: Vec<RequestShortage>,
    /// Pools that give nothing as they are published.
    pub unusable: Vec<UnusablePool>,
    /// What keeps the requests from being met together, where each could be met alone.
    pub together: Option<Together>,
}

impl DeviceShortage {
    /// The requests that could not be met even if they were the only ones. A request with alternatives is among them if
    /// none of its alternatives could.
    pub fn short(&self) -> impl Iterator<Item = &RequestShortage> {
        let met = |one: &&RequestShortage| {
            let same = |other: &&RequestShortage| other.claim == one.claim && other.base() == one.base();
            self.requests.iter().filter(same).any(|other| !other.is_short())
        };
        self.requests.iter().filter(move |one| !met(one))
    }
}

/// A request for devices, and what there is for it on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestShortage {
    /// The claim's name.
    pub claim: String,
    /// The request, with the alternative after a slash.
    pub request: String,
    /// The class of devices that it asks for.
    pub class: String,
    /// How many devices it asks for; `None` for all there are.
    pub wanted: Option<usize>,
    /// The devices that can be used on the node.
    pub devices: Vec<JudgedDevice>,
}

impl RequestShortage {
    /// The request's name without the alternative.
    fn base(&self) -> &str {
        self.request.split_once('/').map_or(&*self.request, |(base, _)| base)
    }

    /// How many devices it could be given, were it the only request.
    pub fn free(&self) -> usize {
        self.devices.iter().filter(|device| device.obstacle.is_none()).count()
    }

    /// Whether it could not be met even if it were the only request.
    pub fn is_short(&self) -> bool {
        let Some(wanted) = self.wanted else {
            // All that are meant must be free.
            let meant =
                |device: &&JudgedDevice| !device.obstacle.as_ref().is_some_and(DeviceObstacle::is_of_another_kind);
            return self.devices.iter().filter(meant).any(|device| device.obstacle.is_some())
                || !self.devices.iter().any(|device| meant(&device));
        };
        // One request is given each device once, also one that others may share.
        self.free() < wanted
    }
}

/// A device as a request sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedDevice {
    /// Its driver.
    pub driver: Arc<str>,
    /// Its pool.
    pub pool: Arc<str>,
    /// Its name.
    pub device: Arc<str>,
    /// Whether several claims may share it.
    pub shared: bool,
    /// Why the request cannot be given it; `None` if it can.
    pub obstacle: Option<DeviceObstacle>,
}

/// Whose selector it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SelectorOwner {
    /// The class of that name.
    Class(String),
    /// The request itself.
    Request,
}

/// Who has a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceHolder {
    /// Namespace of the claim and its pods.
    pub namespace: String,
    /// The claim.
    pub claim: String,
    /// The pods for which the claim is kept.
    pub pods: Vec<String>,
}

/// Why a request cannot be given a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceObstacle {
    /// A selector says that it is not meant.
    NotSelected {
        /// Whose selector.
        owner: SelectorOwner,
        /// The expression.
        expression: String,
        /// What the expression reads of the device, by name, as far as that is known.
        found: Vec<(String, String)>,
    },
    /// A selector has no value for it.
    SelectorFailed {
        /// Whose selector.
        owner: SelectorOwner,
        /// The expression.
        expression: String,
        /// Why, in the words of the expression language.
        error: String,
    },
    /// It can be used on other nodes of its pool only.
    OtherNode,
    /// Others have it.
    Taken {
        /// Who.
        by: Vec<DeviceHolder>,
    },
    /// It has taints that the request does not tolerate: `key=value:Effect`.
    Tainted {
        /// The taints.
        taints: Vec<String>,
    },
    /// It lacks an attribute by which the claim compares its devices.
    NoAttribute {
        /// The attribute.
        attribute: String,
    },
    /// It has no capacity of that name.
    NoCapacity {
        /// The capacity.
        name: String,
    },
    /// It has less of a capacity than is asked for, or less is left.
    Capacity {
        /// The capacity.
        name: String,
        /// What the request consumes of it.
        wanted: String,
        /// What is left.
        left: String,
        /// What it has.
        total: String,
    },
    /// It does not give out such an amount.
    CapacityPolicy {
        /// The capacity.
        name: String,
        /// What the request asks for.
        wanted: String,
    },
    /// The hardware that it is a part of has too little left.
    Counter {
        /// The set of counters.
        set: String,
        /// The counter.
        counter: String,
        /// What the device consumes of it.
        wanted: String,
        /// What is left.
        left: String,
    },
}

impl DeviceObstacle {
    /// Whether it is not one of the devices that the request is for.
    pub fn is_of_another_kind(&self) -> bool {
        matches!(self, Self::NotSelected { .. } | Self::OtherNode)
    }
}

/// A pool whose devices are not given to anybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusablePool {
    /// Its driver.
    pub driver: String,
    /// Its name.
    pub pool: String,
    /// Whether some of its slices are not published yet; if not, its slices contradict each other.
    pub incomplete: bool,
}

/// What keeps requests from being met together, where each could be met alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Together {
    /// There are too few devices that do for any of them.
    Contest {
        /// How many devices they ask for.
        wanted: usize,
        /// How many there are.
        free: usize,
    },
    /// A claim wants devices with the same value of an attribute, or each with another.
    Constraint {
        /// The claim's name.
        claim: String,
        /// The attribute.
        attribute: String,
        /// Whether the values are to differ.
        distinct: bool,
        /// How many devices it is about.
        wanted: usize,
        /// The free devices by value.
        values: Vec<(String, usize)>,
    },
    /// No choice of devices does, and no single sentence says why.
    Combination,
}
