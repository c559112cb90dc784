//! Tables: what `kubectl get` prints, made on the server.

mod age;
mod columns;
pub(crate) mod core;
mod custom;
mod document;
pub(crate) mod other;
pub(crate) mod pods;
mod row;
#[cfg(test)]
mod tests;
pub(crate) mod workloads;

pub(crate) use custom::printer_columns;
pub(crate) use document::{Included, Printer, document, metrics, scale};
pub(crate) use row::Row;
