//! docker: containers started, stopped, looked at and removed, images, programs run in nodes.

use std::fs;
use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::kubelet::join;
use super::state::{Container, Ended, State, failed};
use super::{CLUSTER_LABEL, CPUS, MEMORY, NEW_TOKEN, ROLE_LABEL, value};

#[expect(clippy::too_many_lines, reason = "a row for each command")]
pub(super) fn docker(state: &State, arguments: &[&str]) -> Ended {
    if state.has_fault("docker-down") {
        return failed(
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n",
        );
    }
    match arguments {
        ["info", ..] => Ok(json!({ "NCPU": CPUS, "MemTotal": MEMORY, "CgroupVersion": "2", "DockerRootDir": "/",
            "OperatingSystem": "Debian GNU/Linux 13 (trixie)", "SecurityOptions": [] })
        .to_string()),
        ["context", "inspect", ..] => Ok("unix:///var/run/docker.sock\n".to_owned()),
        ["ps", ..] => {
            state.is_looked_at(arguments);
            let filter = value(arguments, "--filter").unwrap().strip_prefix("label=").unwrap();
            let cluster = filter.strip_prefix(&format!("{CLUSTER_LABEL}="));
            let all = arguments.contains(&"--all");
            let shown = |container: &Container| (all || container.running) && cluster.is_none_or(|name| name == container.cluster);
            let names: Vec<String> = state.containers().into_iter().filter(shown).map(|container| container.name).collect();
            Ok(names.join("\n"))
        }
        ["inspect", "--type", "container", names @ ..] => inspect(state, names),
        ["network", "ls", ..] => {
            Ok(if state.folder.join("network-kind").exists() { "bridge\nkind\n" } else { "bridge\n" }.to_owned())
        }
        ["volume", "ls", ..] => {
            let names: Vec<String> =
                state.containers().iter().map(|container| format!("volume-of-{}", container.name)).collect();
            Ok(names.join("\n"))
        },
        ["rm", rest @ ..] => {
            let _created = state.creation_ends();
            for name in rest.iter().filter(|name| !name.starts_with('-')) {
                let Some(container) = state.container(name) else { return failed(format!("Error: No such container: {name}\n")) };
                fs::remove_file(state.folder.join(format!("containers/{name}.json"))).unwrap();
                if container.role == "control-plane" {
                    state.remove_api(&container.cluster);
                }
            }
            Ok(String::new())
        }
        ["pause" | "unpause", name] => {
            let Some(mut container) = state.container(name) else { return failed(format!("Error: No such container: {name}\n")) };
            let pause = arguments[0] == "pause";
            // What docker says of a container that is so already (moby daemon/pause.go, daemon/unpause.go).
            if container.paused == pause {
                let words = if pause { "already paused" } else { "not paused" };
                return failed(format!("Error response from daemon: Container {name} is {words}\n"));
            }
            container.paused = pause;
            state.save(&container);
            if pause {
                state.stop_api(&container.cluster);
            } else {
                state.start_api(&container.cluster);
            }
            Ok(String::new())
        }
        ["stop", "-t", _, names @ ..] | ["start" | "stop", names @ ..] => {
            for name in names {
                let mut container = state.container(name).unwrap();
                container.running = arguments[0] == "start";
                let slowly = container.running && state.take_fault_of("slow-start", name);
                if container.running {
                    // Times of kubelets are whole seconds: what one said before is of another second than a slow start.
                    let later = SignedDuration::from_secs(slowly.into());
                    container.started = Some((Timestamp::now() + later).to_string());
                }
                state.save(&container);
                if container.role == "control-plane" {
                    if container.running {
                        state.start_api(&container.cluster);
                    } else {
                        state.stop_api(&container.cluster);
                    }
                }
                if slowly {
                    state.restart_kubelet_later(name, Duration::from_secs(1));
                } else if container.running {
                    state.start_kubelet(&mut container);
                }
            }
            Ok(String::new())
        }
        ["logs", _] => Ok("INFO: ensuring\r\n[  OK  ] Reached target \u{1b}[0;1;39mmulti-user.target\u{1b}[0m - Multi-User System.\r\n".to_owned()),
        ["cp", from, to] => {
            let (node, path) = to.split_once(':').unwrap();
            let mut container = state.container(node).unwrap();
            container.files.insert(path.to_owned(), fs::read_to_string(from).unwrap());
            state.save(&container);
            Ok(String::new())
        }
        ["image", "inspect", "--format", "{{.Id}}", reference] => match state.images().get(*reference) {
            Some(id) => Ok(format!("{id}\n")),
            None => failed(format!("Error: No such image: {reference}\n")),
        },
        ["image", "ls", "--format", "{{.Repository}}:{{.Tag}}", repository] => {
            let images = state.images();
            // One that was pulled by its digest has no tag.
            let tagged = images.keys().filter(|image| image.starts_with(&format!("{repository}:")) && !image.contains('@'));
            Ok(tagged.map(|image| format!("{image}\n")).chain([format!("{repository}:<none>\n")]).collect())
        }
        ["pull", "--quiet", reference] => {
            if state.has_fault("no-registry") {
                return failed("Error response from daemon: dial tcp: lookup registry-1.docker.io: no such host\n");
            }
            let mut images = state.images();
            images.insert((*reference).to_owned(), "sha256:2".to_owned());
            state.write_json("images.json", &images);
            Ok(String::new())
        }
        // Volumes go with their containers.
        ["volume", "rm", ..] => Ok(String::new()),
        ["save", rest @ ..] => {
            let file = value(rest, "--output").unwrap();
            fs::write(file, rest.last().unwrap()).unwrap();
            Ok(String::new())
        }
        ["run", "--name", name, rest @ ..] => run(state, name, rest),
        ["exec", "--privileged", node, program @ ..] => exec(state, node, program),
        other => panic!("docker {other:?} is not played"),
    }
}

fn inspect(state: &State, names: &[&str]) -> Ended {
    let mut all = Vec::new();
    for name in names {
        let Some(container) = state.container(name) else {
            return failed(format!("Error: No such container: {name}\n"));
        };
        let mounts =
            container.mounts.iter().map(|(to, from)| json!({ "Type": "bind", "Source": from, "Destination": to }));
        let volume =
            json!({ "Type": "volume", "Name": format!("volume-of-{name}"), "Source": "/v", "Destination": "/var" });
        all.push(json!({
            "Name": format!("/{name}"),
            "State": { "Running": container.running, "Paused": container.paused,
                "StartedAt": container.started.as_deref().unwrap_or("0001-01-01T00:00:00Z") },
            "HostConfig": { "UsernsMode": "", "Devices": null, "Binds": ["/lib/modules:/lib/modules:ro"] },
            "Config": { "Hostname": container.hostname, "Image": container.image, "Env": [],
                "Labels": { CLUSTER_LABEL: container.cluster, ROLE_LABEL: container.role } },
            "Mounts": mounts.chain([volume]).collect::<Vec<_>>(),
            "NetworkSettings": { "Networks": { "kind": { "IPAddress": container.address } } },
        }));
    }
    Ok(Value::from(all).to_string())
}

fn run(state: &State, name: &str, arguments: &[&str]) -> Ended {
    let image = arguments.last().unwrap();
    if !state.images().contains_key(*image) {
        return failed(format!("Unable to find image '{image}' locally\n"));
    }
    if state.container(name).is_some() {
        return failed(conflict(name));
    }
    let label = |key: &str| {
        let prefix = format!("{key}=");
        arguments.iter().find_map(|argument| argument.strip_prefix(&prefix)).unwrap().to_owned()
    };
    for needed in ["--privileged", "--detach", "--tty", "--restart=on-failure:1"] {
        assert!(arguments.contains(&needed), "{needed} of kind's own nodes");
    }
    assert_eq!(value(arguments, "--net"), Some("kind"));
    let mut container = state.new_container(&label(CLUSTER_LABEL), name, &label(ROLE_LABEL), image);
    value(arguments, "--hostname").unwrap().clone_into(&mut container.hostname);
    for mount in arguments.iter().filter_map(|argument| argument.strip_prefix("--volume=")) {
        let (from, to) = mount.split_once(':').unwrap();
        assert!(Path::new(from).exists(), "{from}");
        container.mounts.insert(to.trim_end_matches(":ro").to_owned(), from.to_owned());
    }
    state.save(&container);
    Ok(format!("{name}\n"))
}

/// What docker says of a name that a container has.
pub(super) fn conflict(name: &str) -> String {
    format!(
        "docker: Error response from daemon: Conflict. The container name \"/{name}\" is already in use by container \"1\".\n"
    )
}

fn exec(state: &State, node: &str, program: &[&str]) -> Ended {
    let Some(mut container) = state.container(node).filter(|container| container.running) else {
        return failed(format!("Error response from daemon: container {node} is not running\n"));
    };
    match program {
        ["cat", path] => match container.files.get(*path) {
            Some(text) => Ok(text.clone()),
            None => failed(format!("cat: {path}: No such file or directory\n")),
        },
        ["test", "-S", path] => {
            assert_eq!(*path, "/run/containerd/containerd.sock");
            if state.take_fault_of("slow-boot", node) { failed("") } else { Ok(String::new()) }
        }
        ["journalctl", ..] => Ok(container.journal),
        ["kubeadm", "token", "create", "--ttl", _] => {
            assert_eq!(container.role, "control-plane");
            Ok(format!("{NEW_TOKEN}\n"))
        }
        ["kubeadm", "join", "--config", path] => {
            let configuration: Value = serde_json::from_str(&container.files[*path]).unwrap();
            assert_eq!(
                configuration["discovery"]["bootstrapToken"]["token"], NEW_TOKEN,
                "kind's own has run out by then"
            );
            let registration = &configuration["nodeRegistration"];
            let mut flags = Vec::new();
            for argument in registration["kubeletExtraArgs"].as_array().unwrap() {
                let (name, text) = (argument["name"].as_str().unwrap(), argument["value"].as_str().unwrap());
                if name == "node-labels" {
                    let pairs = text.split(',').map(|pair| pair.split_once('=').unwrap());
                    container.labels = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
                }
                if name == "node-ip" {
                    assert_eq!(text, container.address);
                }
                flags.push(format!("--{name}={text}"));
            }
            container.taints.clone_from(registration["taints"].as_array().unwrap());
            assert!(
                !state.has_fault("loads-first") || !container.loaded.is_empty(),
                "a node that joins takes pods at once: its images come first"
            );
            let joined = join(state, &mut container, &flags);
            state.save(&container);
            joined.map(|()| String::new())
        }
        ["systemctl", "restart" | "start", "kubelet"] => {
            container.kubelet_is_dead = false;
            state.set_ready(&container, true);
            state.start_kubelet(&mut container);
            state.save(&container);
            Ok(String::new())
        }
        ["systemctl", "stop", "kubelet"] => {
            container.kubelet_is_dead = true;
            state.save(&container);
            state.set_ready(&container, false);
            Ok(String::new())
        }
        ["systemctl", "show", "--property=ActiveState", "--value", "kubelet"] => {
            Ok(if container.kubelet_is_dead { "inactive\n" } else { "active\n" }.to_owned())
        }
        other => panic!("docker exec {other:?} is not played"),
    }
}
