//! Pure: how many shards a class needs, and how large each is to be. What a seat costs is what `tools/seat-costs` measures, and half as
//! much again; it grows with what is in the lab.

use klab_lab::spec::Lab;
use serde_json::{Value, json};

/// A class as it is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Seats.
    pub seats: u32,
    /// Seats that are in use at a time.
    pub in_use: u32,
    /// Commands that the console of each shard runs at a time; none without one.
    pub commands: Option<u32>,
}

/// Shards for a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizing {
    /// Shards: pods.
    pub shards: u32,
    /// Most seats of each.
    pub seats: u32,
    /// Thousandths of a processor that each asks for. It may use more: a limit would make learners wait.
    pub processor: u32,
    /// MiB of memory that each asks for, and its limit.
    pub memory: u32,
    /// GiB of its volume.
    pub disk: u32,
}

/// Thousandths of a processor that all seats in use of one shard take when all of them type: a shard answers on one processor.
const TYPING: u32 = 1000;
/// Seats of one shard, in use or not: what is there again within seconds after a restart.
const SEATS: u32 = 2000;
/// Thousandths of a processor for each seat in use: a kubectl command every two seconds, over a connection of its own. This
/// many listed nodes and pods take one more.
const PROCESSOR: u32 = 2;
const LISTED: u64 = 75;
/// KiB of memory: of the process; of a seat that is in use, and for each node or pod of its lab, all of which its learner has
/// changed; of an unused one; MiB of a kubectl in the console.
const PROCESS: u64 = 128 * 1024;
const AWAKE: u64 = 512;
const OBJECT: u64 = 64;
const PARKED: u64 = 64;
const KUBECTL: u64 = 64;
/// KiB of disk for each seat, with what a day's work adds to its log.
const DISK: u64 = 2048;

/// Objects of a lab that weigh: its nodes, and the pods of its workloads after its largest step.
fn objects(lab: &Lab) -> u64 {
    let of_pools = |lab: &Lab| lab.pools.iter().map(|pool| u64::from(pool.nodes.value)).sum::<u64>();
    let of_workloads = |lab: &Lab| {
        lab.workloads
            .iter()
            .map(|workload| workload.replicas.as_ref().map_or(1, |replicas| u64::from(replicas.value)))
            .sum::<u64>()
    };
    let stages = (0..=lab.steps.len()).map(|step| klab_operations::stage::stage(lab, step));
    stages.map(|stage| of_pools(&stage) + of_workloads(&stage)).max().unwrap_or_default()
}

/// The shards for a class of this lab.
pub fn size(lab: &Lab, wanted: Wanted) -> Sizing {
    let seats = wanted.seats.max(1);
    let in_use = wanted.in_use.clamp(1, seats);
    let objects = objects(lab);
    let typing = PROCESSOR.saturating_add(u32::try_from(objects.div_ceil(LISTED)).unwrap_or(u32::MAX));
    let shards = in_use.div_ceil((TYPING / typing).max(1)).max(seats.div_ceil(SEATS));
    let (seats, in_use) = (seats.div_ceil(shards), in_use.div_ceil(shards));
    let awake = u64::from(in_use) * (AWAKE + OBJECT * objects);
    let parked = u64::from(seats - in_use) * PARKED;
    let console = u64::from(wanted.commands.unwrap_or_default()) * KUBECTL * 1024;
    let memory = (PROCESS + awake + parked + console).div_ceil(1024);
    let disk = (u64::from(seats) * DISK).div_ceil(1024 * 1024).max(1);
    Sizing {
        shards,
        seats,
        processor: in_use.saturating_mul(typing).saturating_add(100),
        // A number that reads well: the next 128 MiB.
        memory: u32::try_from(memory.div_ceil(128) * 128).unwrap_or(u32::MAX),
        disk: u32::try_from(disk).unwrap_or(u32::MAX),
    }
}

impl Sizing {
    /// In words, a line each.
    pub fn lines(&self) -> Vec<String> {
        let Self { shards, seats, processor, memory, disk } = self;
        let all = |of_one: u32| u64::from(of_one) * u64::from(*shards);
        vec![
            format!(
                "{} of {} each",
                klab_lab::words::plural(*shards as usize, "shard"),
                klab_lab::words::plural(*seats as usize, "seat")
            ),
            format!("each asks for {processor}m CPU and {memory}Mi memory, with a volume of {disk}Gi"),
            format!("together {}m CPU, {}Mi memory, {}Gi", all(*processor), all(*memory), all(*disk)),
        ]
    }

    /// As a document.
    pub fn document(&self) -> Value {
        json!({
            "shards": self.shards, "seats": self.seats, "cpu_millis": self.processor, "memory_mib": self.memory, "disk_gib": self.disk,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab() -> Lab {
        let text = "lab = \"a\"\n[pool.system]\nnodes = 2\n[workload.web]\nreplicas = 4\n[[step]]\nname = \"more\"\ntitle = \"More\"\n\
                    do = [{ scale = \"web\", replicas = 8 }]\n[[step.check]]\nworkload = \"web\"\nrunning = 8\n";
        klab_lab::spec::parse("lab.toml", text, &klab_lab::spec::LoadOptions::default()).unwrap()
    }

    #[test]
    fn the_largest_step_counts() {
        assert_eq!(objects(&lab()), 10);
    }

    #[test]
    fn shards_are_as_many_as_those_who_type_need() {
        let of = |seats, in_use| size(&lab(), Wanted { seats, in_use, commands: None });
        assert_eq!(of(30, 30), Sizing { shards: 1, seats: 30, processor: 190, memory: 256, disk: 1 });
        assert_eq!(of(500, 500).shards, 2);
        let large = of(10_000, 500);
        assert_eq!((large.shards, large.seats), (5, 2000));
        assert!(large.memory * large.shards < 3 * 1024, "{large:?}");
        assert_eq!(of(10_000, 10_000).shards, 31);
        assert_eq!(of(0, 0).shards, 1);
        // A lab of a thousand objects takes a shard for each fifty who type, of some gigabytes.
        let text = "lab = \"a\"\n[pool.system]\nnodes = 200\n[workload.web]\nreplicas = 800\n";
        let wide = klab_lab::spec::parse("lab.toml", text, &klab_lab::spec::LoadOptions::default()).unwrap();
        let heavy = size(&wide, Wanted { seats: 200, in_use: 200, commands: None });
        assert_eq!((heavy.shards, heavy.seats, heavy.processor), (4, 50, 900));
        assert!((3072..4096).contains(&heavy.memory), "{heavy:?}");
        let console = size(&lab(), Wanted { seats: 30, in_use: 30, commands: Some(16) });
        assert!(console.memory >= 1024, "{console:?}");
    }
}
