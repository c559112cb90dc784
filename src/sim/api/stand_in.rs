//! Protobuf until the cluster's own.

pub(super) mod protobuf {
    pub(in super::super) fn decode(_: &[u8]) -> Result<serde_json::Value, String> {
        Err("protobuf is not read yet".to_owned())
    }
}
