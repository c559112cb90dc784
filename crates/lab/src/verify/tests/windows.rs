//! How long a verdict stays open, and when to look again.

use super::*;

/// Plays snapshots at times in milliseconds and gives verdicts and when to look again.
fn play(check: &Check, history: &[(u64, &Cluster)]) -> Vec<(&'static str, Option<u64>)> {
    let windows = Windows { settle: Duration::from_secs(1), pending: Duration::from_secs(2) };
    let mut stability = Stability::new(windows);
    history
        .iter()
        .map(|(at, cluster)| {
            let now = Duration::from_millis(*at);
            let seen = stability.observe(std::slice::from_ref(check), &cluster.snapshot, &Context::default(), now);
            let next = seen.look_again_at.map(|at| u64::try_from(at.as_millis()).unwrap());
            (seen.report.checks[0].verdict.code(), next)
        })
        .collect()
}

#[test]
fn windows() {
    let waiting = cluster(1).unschedulable("web", 1, SELECTOR);
    let running = cluster(1).running("web", "main-0", 1);
    let mut heartbeat = waiting.clone();
    for node in &mut heartbeat.snapshot.nodes {
        let mut beaten = (**node).clone();
        beaten.metadata.resource_version = Some("7".to_owned());
        *node = beaten.into();
    }
    heartbeat.snapshot.pods.reverse();
    heartbeat.snapshot.nodes.reverse();

    let runs = check(workload("web"), [running_count(1)]);
    // What holds, holds at once.
    assert_eq!(play(&runs, &[(0, &running)]), [("held", None)]);
    // What is blocked must stay so while nothing changes; heartbeats and order are no change.
    assert_eq!(
        play(&runs, &[(0, &waiting), (900, &heartbeat), (1000, &waiting)]),
        [("not-yet", Some(1000)), ("not-yet", Some(1000)), ("impossible", None)]
    );
    // A change in between begins the window again.
    let other = waiting.clone().running("other", "main-0", 1);
    assert_eq!(
        play(&runs, &[(0, &waiting), (900, &other), (1000, &other), (1900, &other)]),
        [("not-yet", Some(1000)), ("not-yet", Some(1900)), ("not-yet", Some(1900)), ("impossible", None)]
    );
    // Pending pods must stay so.
    let pends = check(workload("web"), [pending(1, None)]);
    assert_eq!(
        play(&pends, &[(0, &waiting), (1999, &waiting), (2000, &waiting)]),
        [("not-yet", Some(2000)), ("not-yet", Some(2000)), ("held", None)]
    );
    assert_eq!(
        play(&pends, &[(0, &waiting), (1500, &running), (1600, &waiting), (2600, &waiting), (3600, &waiting)]).last(),
        Some(&("held", None))
    );
    // The author's windows win.
    let briefly = Check { hold: Some(jiff::SignedDuration::from_millis(100)), ..pends.clone() };
    assert_eq!(play(&briefly, &[(0, &waiting), (100, &waiting)]), [("not-yet", Some(100)), ("held", None)]);
    let starting = cluster(1).pod("web", &starting("main-0"));
    let within = Check { within: Some(jiff::SignedDuration::from_secs(3)), ..runs };
    assert_eq!(play(&within, &[(0, &starting), (3000, &starting)]), [("not-yet", Some(3000)), ("impossible", None)]);
    // Nothing goes on, yet the author says that something will.
    assert_eq!(
        play(&within, &[(0, &waiting), (1500, &waiting), (3000, &waiting)]),
        [("not-yet", Some(1000)), ("not-yet", Some(3000)), ("impossible", None)]
    );
}
