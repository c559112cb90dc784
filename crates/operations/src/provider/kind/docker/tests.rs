//! What runtimes answer, read.

use super::*;
use klab_lab::spec::Mount;

#[test]
fn info_of_docker_and_podman_is_understood() {
    let docker = r#"{"NCPU":2,"MemTotal":25253789696,"CgroupVersion":"1","OperatingSystem":"Debian GNU/Linux 13 (trixie)",
        "DockerRootDir":"/data/docker","SecurityOptions":["name=seccomp,profile=builtin","name=rootless"]}"#;
    assert_eq!(
        docker_info(docker).unwrap(),
        Info {
            cpus: 2,
            memory: 25_253_789_696,
            cgroup_v2: false,
            rootless: true,
            root: "/data/docker".into(),
            system: "Debian GNU/Linux 13 (trixie)".to_owned(),
        }
    );
    let podman = r#"{"host":{"cpus":8,"memTotal":1024,"cgroupVersion":"v2","security":{"rootless":false},
        "distribution":{"distribution":"fedora"}},"store":{"graphRoot":"/var/lib/containers/storage"}}"#;
    let info = podman_info(podman).unwrap();
    assert_eq!((info.cpus, info.cgroup_v2, info.system.as_str()), (8, true, "fedora"));
    assert_eq!(docker_info(r#"{"ServerErrors":["Cannot connect"]}"#), None);
}

#[test]
fn containers_are_read_from_what_inspect_says() {
    let text = r#"[{"Name":"/klab-x-worker10","State":{"Status":"exited","Running":false,"StartedAt":"2026-08-21T10:00:00.5Z"},
        "HostConfig":{"UsernsMode":"host","Devices":[{"PathOnHost":"/dev/fuse","PathInContainer":"/dev/fuse"}],
                      "Binds":["/dev/mapper:/dev/mapper","/lib/modules:/lib/modules:ro"]},
        "Config":{"Hostname":"worker9","Image":"kindest/node:v1.36.1","Labels":{"io.x-k8s.kind.cluster":"klab-x","io.x-k8s.kind.role":"worker"},
                  "Env":["HTTP_PROXY=http://p","PATH=/usr/bin"]},
        "Mounts":[{"Type":"bind","Source":"/state/labs/x/kind/owner","Destination":"/kind/klab"},
                  {"Type":"volume","Name":"abc","Source":"/var/lib/docker/volumes/abc/_data","Destination":"/var"}],
        "NetworkSettings":{"Networks":{"kind":{"IPAddress":"172.18.0.3"}}}},
       {"Name":"/klab-x-worker2","State":{"Running":true,"Paused":true,"StartedAt":"0001-01-01T00:00:00Z"},"HostConfig":{"Devices":null,"Binds":null},"Config":{"Labels":{"io.x-k8s.kind.role":"worker"}}}]"#;
    let containers = parse_containers(text).unwrap();
    assert_eq!(
        containers.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(),
        ["klab-x-worker2", "klab-x-worker10"]
    );
    assert_eq!(
        containers[1],
        Container {
            name: "klab-x-worker10".to_owned(),
            hostname: "worker9".to_owned(),
            role: "worker".to_owned(),
            running: false,
            frozen: false,
            going: false,
            started: Some("2026-08-21T10:00:00.5Z".parse().unwrap()),
            image: "kindest/node:v1.36.1".to_owned(),
            mounted: vec!["/state/labs/x/kind/owner".into()],
            volumes: vec!["abc".to_owned()],
            network: "kind".to_owned(),
            address: "172.18.0.3".to_owned(),
            manner: Manner {
                variables: vec!["HTTP_PROXY=http://p".to_owned()],
                host_users: true,
                devices: vec!["/dev/fuse".to_owned()],
                device_mapper: true,
            },
        }
    );
    assert!(containers[0].frozen && !containers[0].running);
    let removing = parse_containers(&text.replace("exited", "removing")).unwrap();
    assert!(removing[1].going && !removing[0].going);
    assert_eq!(containers[0].hostname, "klab-x-worker2", "where the runtime does not say it");
    assert_eq!((containers[0].started, &containers[0].manner), (None, &Manner::default()));
    assert_eq!(parse_containers("no json"), None);
}

#[test]
fn added_worker_is_started_as_kind_starts_its_own() {
    let mounts = [Mount { host: "/s/a b".to_owned(), container: "/proc/meminfo".to_owned(), read_only: true }];
    let manner = Manner { variables: vec!["NO_PROXY=.svc".to_owned()], ..Manner::default() };
    let worker = NewWorker {
        cluster: "klab-x",
        name: "klab-x-worker4",
        node: "worker1",
        image: "kindest/node:v1.36.1",
        network: "kind",
        mounts: &mounts,
        manner: &manner,
    };
    let arguments = worker.arguments(Flavour::Docker, None);
    assert_eq!(
        arguments.join(" "),
        "run --name klab-x-worker4 --hostname worker1 \
        --label io.x-k8s.kind.role=worker --privileged --security-opt seccomp=unconfined \
        --security-opt apparmor=unconfined --tmpfs /tmp --tmpfs /run --volume /var \
        --volume /lib/modules:/lib/modules:ro --detach --tty --net kind --label io.x-k8s.kind.cluster=klab-x \
        --restart=on-failure:1 --init=false --cgroupns=private -e NO_PROXY=.svc --volume=/s/a b:/proc/meminfo:ro \
        kindest/node:v1.36.1"
    );
    let podman = worker.arguments(Flavour::Podman, Some("abc")).join(" ");
    assert!(podman.contains("container=podman") && !podman.contains("seccomp"), "{podman}");
    assert!(podman.contains("--volume abc:/var:suid,exec,dev"), "{podman}");
    let manner =
        Manner { host_users: true, device_mapper: true, devices: vec!["/dev/fuse".to_owned()], ..manner.clone() };
    let arguments = NewWorker { manner: &manner, ..worker }.arguments(Flavour::Docker, None).join(" ");
    let expected = "--userns=host --volume /dev/mapper:/dev/mapper --device /dev/fuse -e NO_PROXY=.svc";
    assert!(arguments.contains(expected), "{arguments}");
}

#[test]
fn only_runtimes_that_kind_knows_are_taken() {
    for (name, flavour) in [("docker", Flavour::Docker), ("podman", Flavour::Podman), ("finch", Flavour::Nerdctl)] {
        assert_eq!(Runtime::named(name).unwrap().flavour(), flavour);
    }
    assert!(Runtime::named("rkt").is_none());
    let error = find(Some("rkt"), &Memory::default()).unwrap_err();
    assert!(error.to_string().contains("`rkt`"), "{error}");
}
