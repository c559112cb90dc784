//! The console of learners: what the sandbox keeps, and what is typed in lessons.

#[cfg(target_os = "linux")]
mod lines;
#[cfg(target_os = "linux")]
mod sandbox;
