//! Signing in at an identity provider (OpenID Connect, authorization code with PKCE), in place of code, name and PIN.
//!
//! ```text
//! begin ─ state, nonce, PKCE: from the host's secret and a cookie ─▶ provider ─▶ back ─ token, checked ─▶ rules ─▶ seat
//! ```
//!
//! Nothing is kept of a sign-in that is under way, and no token after it. A provider that is down is in the way of nobody who has a
//! seat or a code.

mod back;
mod begin;
mod entering;
mod fault;
mod leading;
mod passes;
mod provider;
mod round;
pub mod routes;
mod rule;
pub mod settings;
pub mod sign_in;
mod signatures;
mod token;
mod transport;
