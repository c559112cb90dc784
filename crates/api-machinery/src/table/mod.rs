//! Tables: what `kubectl get` prints, made on the server.

mod age;
mod columns;
pub mod core;
mod custom;
mod document;
pub mod other;
pub mod pods;
mod row;
#[cfg(test)]
mod tests;
pub mod workloads;

pub use custom::printer_columns;
pub use document::{Included, Printer, document, metrics, scale};
pub use row::Row;
