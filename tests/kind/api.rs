//! The API servers of the clusters, each in a thread of this process.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::JoinHandle;

use klab_server::{Flavour, Seed, ServerOptions};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::state::State;

/// An API server that runs.
pub(super) struct Server {
    api: Api,
    end: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// How an API server is reached: by klab with the kubeconfig, by kubelets of this process with the client.
#[derive(Clone)]
pub(super) struct Api {
    pub(super) kubeconfig: String,
    pub(super) client: kube::Client,
    runtime: Handle,
}

impl Api {
    pub(super) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

impl State {
    pub(super) fn server_folder(&self, cluster: &str) -> PathBuf {
        self.folder.join("clusters").join(cluster)
    }

    /// The API server of a cluster: started if it does not run.
    pub(super) fn start_api(&self, cluster: &str) -> Api {
        let mut servers = self.servers.lock().unwrap();
        let server = servers.entry(cluster.to_owned()).or_insert_with(|| start(cluster, self.server_folder(cluster)));
        server.api.clone()
    }

    pub(super) fn stop_api(&self, cluster: &str) {
        stop(self.servers.lock().unwrap().remove(cluster));
    }

    /// Stops the server of a cluster, and removes what it has stored before another one can start.
    pub(super) fn remove_api(&self, cluster: &str) {
        let mut servers = self.servers.lock().unwrap();
        stop(servers.remove(cluster));
        let _ = fs::remove_dir_all(self.server_folder(cluster));
    }

    /// Ends all servers, without waiting for that.
    pub(super) fn end(&self) {
        self.servers.lock().unwrap().clear();
    }
}

fn stop(server: Option<Server>) {
    if let Some(Server { api, end, thread }) = server {
        drop((api, end));
        thread.join().unwrap();
    }
}

fn start(cluster: &str, folder: PathBuf) -> Server {
    fs::create_dir_all(&folder).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let (end, ended) = oneshot::channel::<()>();
    let name = cluster.to_owned();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let options = ServerOptions::at(&folder);
            let port = if folder.join("port").exists() { None } else { Some(free_port()) };
            let server = klab_server::Server::start(ServerOptions { port, ..options }).await.unwrap();
            server.add(&name, Seed { flavour: Flavour::Kind, seed: 1, ..Seed::default() }).unwrap();
            let api = Api {
                kubeconfig: server.kubeconfig(&name).unwrap(),
                client: server.api(&name).unwrap().client(),
                runtime: Handle::current(),
            };
            sender.send(api).unwrap();
            // It ends when the sender is dropped.
            let _ = ended.await;
            server.stop();
            server.run_until_stopped().await;
        });
    });
    Server { api: receiver.recv().unwrap(), end, thread }
}

/// A port of this machine that is free and stays so while its server is stopped: the system gives no program a port below its own
/// range, and [`free_port`](crate::host::running::free_port) none of these.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 5_000).unwrap() + 10_000;
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed);
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
