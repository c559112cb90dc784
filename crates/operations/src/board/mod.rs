//! A lab to look at: its boards as they change ([`Feed`]), served as a page ([`Server`]) or written into a file.
//!
//! What is drawn is made by [`klab_lab::board`]; here it is kept current and given to browsers.

mod access;
mod feed;
pub mod page;
mod progress;
mod saved;
pub mod scene;
mod server;

pub use feed::{Compare, Feed, Frame};
pub use page::Written;
pub use saved::saved;
pub use server::{Server, Shown};
