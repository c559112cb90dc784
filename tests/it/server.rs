//! The server of embedded clusters: credentials, restarts, what it leaves and what it refuses.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use klab_operations::provider::sim::server::{Client, access};
use klab_server::{Flavour, Seed, Server, ServerOptions};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn start(folder: &Path) -> Server {
    let options = ServerOptions::at(folder.to_owned());
    Server::start(options).await.unwrap_or_else(|error| panic!("{error:?}"))
}

fn seed() -> Seed {
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "30"}, "capacity": {"cpu": "2"}},
    });
    Seed { objects: vec![node], flavour: Flavour::Bare, ..Seed::default() }
}

async fn client(kubeconfig: Kubeconfig) -> kube::Client {
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

fn read(server: &Server, name: &str) -> Kubeconfig {
    Kubeconfig::from_yaml(&server.kubeconfig(name).unwrap()).unwrap()
}

async fn node_names(client: kube::Client) -> Result<Vec<String>, u16> {
    match kube::Api::<Node>::all(client).list(&kube::api::ListParams::default()).await {
        Ok(nodes) => Ok(nodes.items.into_iter().filter_map(|node| node.metadata.name).collect()),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_credentials_of_one_lab_open_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    for name in ["one", "two"] {
        assert!(server.add(name, seed()).unwrap());
    }
    assert!(!server.add("one", Seed::default()).unwrap(), "a cluster that is there stays");
    let (one, two) = (read(&server, "one"), read(&server, "two"));
    assert_eq!(one.current_context.as_deref(), Some("klab-one"));
    assert_eq!(node_names(client(one.clone()).await).await, Ok(vec!["n1".to_owned()]));

    let mut mixed = one.clone();
    mixed.auth_infos[0].auth_info = two.auth_infos[0].auth_info.clone();
    assert_eq!(node_names(client(mixed).await).await, Err(401));
    let mut nobody = one.clone();
    nobody.auth_infos[0].auth_info = Some(kube::config::AuthInfo::default());
    assert_eq!(node_names(client(nobody).await).await, Err(401));
    let mut elsewhere = one.clone();
    let url = elsewhere.clusters[0].cluster.as_mut().unwrap();
    url.server = Some(url.server.as_ref().unwrap().replace("/clusters/one", "/clusters/three"));
    assert_eq!(node_names(client(elsewhere).await).await, Err(401));

    // The server's own token opens klab's face, and no cluster; a cluster's token does not open klab's face.
    let mut admin = one.clone();
    admin.auth_infos[0].auth_info.as_mut().unwrap().token = Some(server.access().token.into());
    assert_eq!(node_names(client(admin).await).await, Err(401));
    let mut face = one;
    let url = format!("https://{}/klab/v1", server.address());
    face.clusters[0].cluster.as_mut().unwrap().server = Some(url);
    let refused = client(face).await.request_text(http::Request::get("/health").body(Vec::new()).unwrap()).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 401));

    // A client certificate stands for its cluster even without a path.
    let text = server.kubeconfig_with_certificate("two", "lab", "me").unwrap();
    assert_eq!(node_names(client(Kubeconfig::from_yaml(&text).unwrap()).await).await, Ok(vec!["n1".to_owned()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_server_has_everything_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    server.add("lab", seed()).unwrap();
    let (kubeconfig, address) = (server.kubeconfig("lab").unwrap(), server.address());
    let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(client(read(&server, "lab")).await);
    let map = serde_json::from_value(json!({"metadata": {"name": "kept"}, "data": {"a": "b"}})).unwrap();
    let made = maps.create(&kube::api::PostParams::default(), &map).await.unwrap();
    server.stop();
    server.run_until_stopped().await;
    assert_eq!(access(folder.path()), None);

    let server = start(folder.path()).await;
    // Another program may have been given the port meanwhile.
    let (was, is) = (address.port(), server.address().port());
    assert!(is == was || std::net::TcpListener::bind(address).is_err(), "port {was} is free");
    assert_eq!(server.kubeconfig("lab"), Some(kubeconfig.replace(&format!(":{was}/"), &format!(":{is}/"))));
    let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(client(read(&server, "lab")).await);
    let kept = maps.get("kept").await.unwrap();
    assert_eq!(kept.metadata.resource_version, made.metadata.resource_version);
    assert_eq!(kept.metadata.uid, made.metadata.uid);
}

fn fail<T>(error: klab_operations::error::Error) -> T {
    panic!("{error:?}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn klab_s_own_face_adds_lists_removes_and_stops() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let found = access(folder.path()).unwrap();
    assert_eq!(found, server.access());
    let admin = Client::new(&found).await.unwrap_or_else(|error| panic!("{error:?}"));
    let running = tokio::spawn(server.run_until_stopped());
    assert_eq!(admin.health().await.unwrap_or_else(fail).pid, std::process::id());
    let made = admin.add("lab", &seed()).await.unwrap_or_else(fail);
    assert!(made.created && made.kubeconfig_path.is_file());
    assert_eq!(admin.clusters().await.unwrap_or_else(fail).len(), 1);
    assert!(admin.add("../etc", &seed()).await.is_err());
    let mut broken = seed();
    broken.objects.push(json!({"apiVersion": "v1", "kind": "Nonsense"}));
    assert!(admin.add("broken", &broken).await.is_err());
    assert!(!folder.path().join("clusters/broken").exists(), "nothing is left of a cluster that could not be made");
    assert!(admin.remove("lab").await.unwrap_or_else(fail));
    assert!(!admin.remove("lab").await.unwrap_or_else(fail));
    assert!(!folder.path().join("clusters/lab").exists());
    admin.stop().await.unwrap_or_else(fail);
    running.await.unwrap();
}

/// As when `klab up` was killed, and `klab down` comes while its request is still worked on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_being_made_is_removed_when_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let server = Arc::new(start(folder.path()).await);
    let mut large = seed();
    let node = large.objects[0].clone();
    large.objects = (0..300)
        .map(|number| {
            let mut node = node.clone();
            node["metadata"]["name"] = json!(format!("n{number}"));
            node
        })
        .collect();
    let making = Arc::clone(&server);
    let made = tokio::task::spawn_blocking(move || making.add("late", large));
    let saved = folder.path().join("clusters/late");
    while !saved.join("seed.json").exists() {
        tokio::task::yield_now().await;
    }
    let admin = Client::new(&access(folder.path()).unwrap()).await.unwrap_or_else(fail);
    assert!(admin.remove("late").await.unwrap_or_else(fail));
    assert!(!saved.exists());
    assert!(made.await.unwrap().unwrap(), "it was made before it was removed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_for_the_user_only() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("server");
    let server = start(&state).await;
    server.add("lab", seed()).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for folder in [state.clone(), state.join("clusters"), state.join("clusters/lab")] {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                assert_eq!(mode(&path), 0o600, "{}", path.display());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_request_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let mut roots = rustls::RootCertStore::empty();
    let pem = server.access().certificate;
    roots.add(rustls::pki_types::pem::PemObject::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    for (sent, begins) in [
        (&b"nonsense\r\n\r\n"[..], "HTTP/1.1 400"),
        (b"GET / HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n", "HTTP/1.1 400"),
        (b"GET /api/v1/pods HTTP/1.1\r\nhost: x\r\nauthorization: Bearer \xff\r\n\r\n", "HTTP/1.1 401"),
    ] {
        let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        let mut stream = connector.connect(name, stream).await.unwrap();
        stream.write_all(sent).await.unwrap();
        let mut answer = vec![0; begins.len()];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), begins);
    }
    // Not TLS at all: the connection ends, the server goes on.
    let mut stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    server.add("lab", seed()).unwrap();
    assert_eq!(node_names(client(read(&server, "lab")).await).await, Ok(vec!["n1".to_owned()]));
}

/// What may happen to the files of one lab; each leaves the others served, and itself told and removable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_broken_cluster_keeps_no_other_down() {
    type Damage = fn(&Path) -> std::io::Result<()>;
    let damages: [(&str, Damage, &str); 5] = [
        ("seed", |folder| std::fs::write(folder.join("seed.json"), ""), "could not use its `seed.json`"),
        ("certificate", |folder| std::fs::write(folder.join("client.pem"), "x"), "could not use its `client.pem`"),
        (
            "folder",
            |folder| {
                std::fs::remove_file(folder.join("objects.log"))?;
                std::fs::create_dir(folder.join("objects.log"))
            },
            "could not use its `objects.log`: Is a directory",
        ),
        ("empty", |folder| std::fs::write(folder.join("objects.log"), ""), "`objects.log` is empty"),
        ("missing", |folder| std::fs::remove_file(folder.join("objects.log")), "`objects.log` is missing"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let mut kubeconfigs = Vec::new();
    for name in damages.iter().map(|(name, ..)| *name).chain(["whole"]) {
        server.add(name, seed()).unwrap();
        kubeconfigs.push(read(&server, name));
    }
    server.stop();
    server.run_until_stopped().await;
    for (name, damage, _) in damages {
        damage(&folder.path().join("clusters").join(name)).unwrap();
    }

    let server = start(folder.path()).await;
    let access = access(folder.path()).unwrap();
    let admin = Client::new(&access).await.unwrap_or_else(fail);
    assert_eq!(node_names(client(kubeconfigs.pop().unwrap()).await).await, Ok(vec!["n1".to_owned()]));
    for ((name, _, words), kubeconfig) in damages.into_iter().zip(kubeconfigs) {
        let kept = folder.path().join("clusters").join(name);
        let told = &access.broken[name];
        assert!(told.contains(words) && told.contains(&kept.display().to_string()), "{told}");
        let asked = client(kubeconfig.clone()).await.apiserver_version().await;
        assert!(
            matches!(&asked, Err(kube::Error::Api(status)) if status.code == 500 && status.message == *told),
            "{asked:?}"
        );
        let mut stranger = kubeconfig;
        stranger.auth_infos[0].auth_info = Some(kube::config::AuthInfo::default());
        assert_eq!(node_names(client(stranger).await).await, Err(401), "{name}");
        assert!(admin.add(name, &seed()).await.is_err(), "{name}: what is kept is not written over");
        assert!(admin.remove(name).await.unwrap_or_else(fail));
        assert!(!kept.exists());
        assert!(admin.add(name, &seed()).await.unwrap_or_else(fail).created);
    }
    assert!(server.access().broken.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_folder_was_removed_stops() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("server");
    let server = start(&state).await;
    server.add("lab", seed()).unwrap();
    std::fs::remove_dir_all(&state).unwrap();
    let stopped = tokio::time::timeout(std::time::Duration::from_secs(60), server.run_until_stopped()).await;
    assert!(stopped.is_ok(), "the server goes on for nobody");
    assert!(!state.exists());
}
