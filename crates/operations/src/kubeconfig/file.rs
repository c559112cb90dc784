//! A kubeconfig file, read as kubectl reads it: YAML as a tree, and the types from the tree. kube's own reader is a second way into the same
//! types, and half a megabyte of code.

use std::path::{MAIN_SEPARATOR, Path};

use kube::config::{Kubeconfig, KubeconfigError};
use serde_json::Value;

/// Reads a file; paths in it are relative to it.
///
/// # Errors
/// When it cannot be read, or is no kubeconfig.
pub fn read(path: &Path) -> Result<Kubeconfig, anyhow::Error> {
    let bytes = std::fs::read(path).and_then(decoded);
    let text = bytes.map_err(|error| KubeconfigError::ReadConfig(error, path.to_owned()))?;
    let mut config = parse(&text)?;
    if let Some(folder) = path.parent() {
        locate(&mut config, folder);
    }
    Ok(config)
}

/// Reads a text, of one document or of several that are merged.
///
/// # Errors
/// When it is no kubeconfig.
pub fn parse(text: &str) -> Result<Kubeconfig, anyhow::Error> {
    // A context may be called `y`, and a namespace `no`: texts, where nothing says that they are not.
    let options = serde_saphyr::options! { strict_booleans: true };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)?;
    let mut merged: Option<Kubeconfig> = None;
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        let next: Kubeconfig = serde_json::from_slice(&serde_json::to_vec(&document)?)?;
        merged = Some(match merged {
            None => next,
            Some(merged) => merged.merge(next)?,
        });
    }
    Ok(merged.unwrap_or_default())
}

/// Makes paths whole, as client-go does: a program is one only where it is written as a path.
// upstream: staging/src/k8s.io/client-go/tools/clientcmd/loader.go GetClusterFileReferences, GetAuthInfoFileReferences (v1.36)
fn locate(config: &mut Kubeconfig, folder: &Path) {
    let whole = |path: &mut Option<String>| {
        if let Some(path) = path.as_mut().filter(|path| Path::new(path.as_str()).is_relative())
            && let Some(there) = folder.join(path.as_str()).to_str()
        {
            there.clone_into(path);
        }
    };
    for cluster in config.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        whole(&mut cluster.certificate_authority);
    }
    for user in config.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        whole(&mut user.client_certificate);
        whole(&mut user.client_key);
        whole(&mut user.token_file);
        if let Some(exec) = user
            .exec
            .as_mut()
            .filter(|exec| exec.command.as_ref().is_some_and(|command| command.contains(MAIN_SEPARATOR)))
        {
            whole(&mut exec.command);
        }
    }
}

/// The text of a file: UTF-8, or what PowerShell writes.
fn decoded(bytes: Vec<u8>) -> std::io::Result<String> {
    let wide = |number: fn([u8; 2]) -> u16| {
        let units = bytes.get(2..).unwrap_or_default().chunks(2);
        let units: Vec<u16> = units.map(|pair| number([pair[0], pair.get(1).copied().unwrap_or_default()])).collect();
        String::from_utf16(&units).ok()
    };
    let text = match bytes.as_slice() {
        [0xFF, 0xFE, ..] => wide(u16::from_le_bytes),
        [0xFE, 0xFF, ..] => wide(u16::from_be_bytes),
        [0xEF, 0xBB, 0xBF, rest @ ..] => std::str::from_utf8(rest).ok().map(str::to_owned),
        _ => String::from_utf8(bytes).ok(),
    };
    text.ok_or_else(|| std::io::Error::new(std::io::ErrorKind::InvalidData, "it is not text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n- name: a\n  cluster: {server: 'https://127.0.0.1:6443', \
                        certificate-authority: ca.pem}\nusers:\n- name: u\n  user:\n    client-key: /keys/k.pem\n    client-certificate: certs/c.pem\n    \
                        exec: {apiVersion: client.authentication.k8s.io/v1, command: bin/login, args: [now], env: [{name: A, value: b}]}\n- name: v\n  \
                        user: {token: secret, exec: {command: aws}}\ncontexts:\n- name: a\n  context: {cluster: a, user: u, namespace: team}\n";

    #[test]
    fn files_are_read_as_kubes_own_reader_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let wide = |mark: [u8; 2], bytes: fn(u16) -> [u8; 2]| {
            mark.into_iter().chain(TEXT.encode_utf16().flat_map(bytes)).collect::<Vec<u8>>()
        };
        let several = format!(
            "{TEXT}---\ncurrent-context: b\nclusters: [{{name: a}}, {{name: b, cluster: {{server: 'https://b'}}}}]\n"
        );
        for content in [
            TEXT.into(),
            String::new().into_bytes(),
            several.into_bytes(),
            [&[0xEF, 0xBB, 0xBF], TEXT.as_bytes()].concat(),
            wide([0xFF, 0xFE], u16::to_le_bytes),
            wide([0xFE, 0xFF], u16::to_be_bytes),
        ] {
            std::fs::write(&file, &content).unwrap();
            let expected = serde_json::to_value(Kubeconfig::read_from(&file).unwrap()).unwrap();
            assert_eq!(serde_json::to_value(read(&file).unwrap()).unwrap(), expected, "{}", content.len());
        }
    }

    #[test]
    fn what_is_no_kubeconfig_is_refused() {
        let number = "contexts: [{name: a, context: {cluster: a, namespace: 3}}]\n";
        for text in [number, "clusters: 3\n", "clusters: [\n", "[]\n", "kind: Config\n---\nkind: Other\n"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(decoded(vec![0xC3]).is_err());
        assert!(decoded(vec![0xFF, 0xFE, 0x00, 0xD8]).is_err());
    }
}
