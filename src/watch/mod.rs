//! The board in the terminal: what is drawn of a lab, and what keys and the mouse do.
//!
//! All of it is pure but [`terminal`], which alone has the terminal: a [`View`] takes frames and input and draws itself into
//! whatever buffer it is given.

mod ansi;
mod block;
mod details;
mod draw;
pub mod grid;
mod node;
mod page;
pub mod palette;
mod setting;
pub mod terminal;
mod text;
mod view;

#[cfg(test)]
mod tests;

pub use setting::{Script, Setting};
pub use view::{Outcome, View};
