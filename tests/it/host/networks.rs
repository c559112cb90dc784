//! A class over networks: learners on one machine, the host on another, a proxy between them. Machines are network namespaces
//! with pairs of virtual cables; where this user may not make those, the tests are skipped, and say so.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use super::proxy::{Place, Proxy, has_nginx};
use super::running::Running;
use crate::environment::has_kubectl;
use crate::skipped::{is_there, not_possible_here};

/// What the line between two machines loses, and how long it takes: as a hotel's wireless network.
const POOR: [&str; 6] = ["delay", "30ms", "10ms", "loss", "3%", "25%"];

/// What kills a command that does not end, and after how many seconds.
const ENDS: [&str; 4] = ["timeout", "--kill-after=5", "--signal=TERM", "120"];

/// A machine.
struct Machine {
    name: String,
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Its end of each cable goes with it, and with that the other one.
        let _ = ip(&["netns", "delete", &self.name]);
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    succeeds(Command::new("ip").args(arguments))
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}

impl Machine {
    /// A machine of its own, with a network of itself alone.
    fn new(role: &str) -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let machine = Self { name: format!("klab-{}-{number}-{role}", std::process::id()) };
        ip(&["netns", "add", &machine.name])?;
        ip(&["-n", &machine.name, "link", "set", "lo", "up"])?;
        Ok(machine)
    }

    /// A cable to another machine, with the addresses of the ends.
    fn connect(&self, own: &str, other: &Self, others: &str) -> Result<(), String> {
        let (here, there) = (format!("to-{}", tail(&other.name)), format!("to-{}", tail(&self.name)));
        ip(&["-n", &self.name, "link", "add", &here, "type", "veth", "peer", "name", &there, "netns", &other.name])?;
        for (machine, link, address) in [(self, &here, own), (other, &there, others)] {
            ip(&["-n", &machine.name, "address", "add", &format!("{address}/24"), "dev", link])?;
            ip(&["-n", &machine.name, "link", "set", link, "up"])?;
        }
        Ok(())
    }

    /// Has the machine's end of the cable to another one lose and delay what it sends.
    fn impair(&self, other: &Self) -> Result<(), String> {
        let link = format!("to-{}", tail(&other.name));
        let mut tc = Command::new("tc");
        succeeds(tc.args(["-n", &self.name, "qdisc", "add", "dev", &link, "root", "netem"]).args(POOR))
    }

    /// Words before a command that is to run there.
    fn within(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.name]
    }

    /// What a command says that runs there, and ends in time.
    fn run(&self, home: &Path, command: &[&str]) -> Output {
        let words = [&ENDS[..], &self.within(), command].concat();
        Command::new(words[0])
            .args(&words[1..])
            .env("KLAB_HOME", home)
            .env("HOME", home)
            .env_remove("KUBECONFIG")
            .env("KLAB_PIN", "2468")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn says(&self, home: &Path, command: &[&str]) -> String {
        let output = self.run(home, command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }
}

fn tail(name: &str) -> &str {
    name.rsplit('-').next().unwrap_or_default()
}

/// Machines in a row, each with a cable to the next: `10.77.N.1` and `10.77.N.2` are the ends of cable N. The line of the first,
/// which is the learners', is a poor one where the kernel can have it so.
fn row<const MANY: usize>(roles: [&str; MANY]) -> Option<[Machine; MANY]> {
    let made = || -> Result<Vec<Machine>, String> {
        let machines = roles.into_iter().map(Machine::new).collect::<Result<Vec<_>, _>>()?;
        for (number, pair) in machines.windows(2).enumerate() {
            let [one, other] = pair else { continue };
            one.connect(&format!("10.77.{number}.1"), other, &format!("10.77.{number}.2"))?;
        }
        Ok(machines)
    };
    let machines = match made() {
        Ok(machines) => machines,
        Err(problem) => {
            not_possible_here(&format!("no network namespaces can be made here: {problem}"));
            return None;
        }
    };
    if let Err(problem) = machines[0].impair(&machines[1]).and_then(|()| machines[1].impair(&machines[0])) {
        not_possible_here(&format!("loss and delay, which this kernel has not: {problem}"));
    }
    machines.try_into().ok()
}

/// Goes through the beginning of a lesson from a learner's machine, and gives the seat's kubeconfig.
fn learn(machine: &Machine, home: &Path, join: &str, code: &str) -> String {
    let klab = env!("CARGO_BIN_EXE_klab");
    let joined = machine.says(home, &[klab, "join", join, code, "--name", "Ann", "--format", "json"]);
    let joined: Value = serde_json::from_str(joined.lines().last().unwrap()).unwrap();
    assert_eq!(joined["seat"], "0-1");
    assert!(machine.says(home, &[klab, "verify"]).contains("held"));
    machine.says(home, &[klab, "step"]);
    let kubeconfig = machine.says(home, &[klab, "kubeconfig", "--path"]).trim().to_owned();
    if has_kubectl() {
        let kubectl = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            machine.says(home, &[&["kubectl", "--kubeconfig", &kubeconfig], &words[..]].concat())
        };
        assert_eq!(kubectl("get nodes -o name").lines().count(), 3);
        kubectl("create configmap written --from-literal=a=b");
        // A watch hears of it on a line that loses some of what is sent.
        let waited = kubectl("wait configmap/written --for=jsonpath={.data.a}=b --timeout=60s");
        assert!(waited.contains("condition met"), "{waited}");
    }
    kubeconfig
}

#[test]
fn learners_on_a_poor_line_reach_a_host_on_another_machine() {
    let Some([learners, host_machine]) = row(["learn", "host"]) else { return };
    let host = Running::start_within(&host_machine.within(), &["scheduling", "--listen", "0.0.0.0:8443"]);
    assert_eq!(host.url, "https://10.77.0.2:8443", "the address by which others reach it");
    let home = tempfile::tempdir().unwrap();
    let join = host.document["join"].as_str().unwrap();
    learn(&learners, home.path(), join, &host.code);
    // Whom nobody vouches for is not believed on a real network either.
    let other = tempfile::tempdir().unwrap();
    let klab = env!("CARGO_BIN_EXE_klab");
    let refused = learners.run(other.path(), &[klab, "join", &host.url, &host.code, "--name", "Bob"]);
    assert_eq!(refused.status.code(), Some(2), "{}", String::from_utf8_lossy(&refused.stderr));
}

#[test]
fn a_proxy_between_learners_and_host_is_the_only_way_in() {
    if !has_nginx() || !is_there("curl") {
        return;
    }
    let Some([learners, between, host_machine]) = row(["learn", "proxy", "host"]) else { return };
    let address = "10.77.0.2".parse().unwrap();
    let place = Place { address, port: Some(443), name: "10.77.0.2", within: &between.within() };
    let inside = "location /labs/ {\nproxy_pass http://10.77.1.2:8080/;\nproxy_http_version 1.1;\nproxy_buffering off;\n\
                  proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\nproxy_read_timeout 1h;\n}\n";
    let proxy = Proxy::at(&place, "", inside);
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("ca.pem");
    std::fs::write(&authority, &proxy.authority).unwrap();
    let host = Running::start_within(
        &host_machine.within(),
        &[
            "scheduling",
            "--listen",
            "10.77.1.2:8080",
            "--behind-proxy",
            "10.77.1.1",
            "--url",
            "https://10.77.0.2/labs",
            "--tls-ca",
            authority.to_str().unwrap(),
        ],
    );
    let home = tempfile::tempdir().unwrap();
    let there =
        ["curl", "-ksS", "-o", "/dev/null", "--retry", "50", "--retry-connrefused", "--retry-delay", "1", "-m", "60"];
    between.says(home.path(), &[&there[..], &["https://10.77.0.2/labs/healthz"]].concat());
    let kubeconfig = learn(&learners, home.path(), host.document["join"].as_str().unwrap(), &host.code);
    let text = std::fs::read_to_string(kubeconfig).unwrap();
    assert!(text.contains("server: https://10.77.0.2/labs/seats/0/1"), "{text}");
    let audit = std::fs::read_to_string(host.home().join("hosts/scheduling/audit.log")).unwrap();
    assert!(audit.contains("\"from\":\"10.77.0.1\""), "the learner's own address is known: {audit}");
    // From the same machine, but not as the proxy: whoever comes past it is refused, even with a name and a good code.
    ip(&["-n", &between.name, "address", "add", "10.77.1.9/24", "dev", "to-host"]).unwrap();
    let form = format!("code={}&name=Eve", host.code);
    let ask = |from: &str| {
        let curl =
            ["curl", "-sS", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", "--interface", from, "-d", &form];
        between.says(home.path(), &[&curl[..], &["http://10.77.1.2:8080/api/join"]].concat())
    };
    assert_eq!((ask("10.77.1.9").as_str(), ask("10.77.1.1").as_str()), ("403", "200"));
}
