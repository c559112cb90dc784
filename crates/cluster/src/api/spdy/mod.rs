//! As much of SPDY/3.1 as a command's streams need, at the server's end, as old clients of Kubernetes speak it.
//!
//! ```text
//! bytes ─ frame ─▶ session (which streams there are; header blocks) ─▶ what is heard    connection: the session on a socket
//! ```
//!
//! As in those clients there is no flow control: windows are neither kept to nor announced. What is not read waits in the
//! connection below, which holds its sender up.

// upstream: github.com/moby/spdystream, k8s.io/streaming/pkg/httpstream/spdy/connection.go (v1.36)

mod connection;
mod dictionary;
mod frame;
mod headers;
mod malformed;
mod session;
#[cfg(test)]
mod tests;

pub(super) use self::connection::Connection;
