//! Signing in at an identity provider (OpenID Connect, authorization code with PKCE), in place of code, name and PIN.
//!
//! ```text
//! begin ─ state, nonce, PKCE: from the host's secret and a cookie ─▶ provider ─▶ back ─ token, checked ─▶ rules ─▶ seat
//! ```
//!
//! Nothing is kept of a sign-in that is under way, and no token after it. A provider that is down locks out no learner with a
//! seat or a code.

pub(crate) mod auth_request;
pub(crate) mod fault;
pub(crate) mod one_time_codes;
pub(crate) mod provider;
pub(crate) mod rule;
pub mod settings;
pub mod sign_in;
mod signatures;
mod token;
mod transport;
