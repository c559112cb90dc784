//! Pod security: the standards that labels of a namespace ask for, and what of a pod they forbid.

#[cfg(test)]
mod check_tests;
mod checks;
mod level;

pub use checks::{Finding, Template, evaluate};
pub use level::{Fault, Level, Modes, Standard};
