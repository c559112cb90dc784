//! A lab to look at: its boards as they change ([`Feed`]), served as a page ([`serve`]) or written into a file.
//!
//! What is drawn is made by [`klab_lab::board`]; here it is kept current and given to browsers.

mod feed;
pub mod scene;

pub use feed::{Feed, Frame};
