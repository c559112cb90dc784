//! What a process may still do once klab has confined itself: afterwards it becomes kubectl.
//!
//! Three walls, each of the kernel's: Landlock (files, TCP ports), a filter of system calls (processes, other sockets, signals) and
//! limits (processor, memory, files). None can be taken down again, and all hold for what is executed afterwards.

#[cfg(target_os = "linux")]
mod calls;
mod confinement;
#[cfg(target_os = "linux")]
mod files;
mod limits;
mod missing_feature;

pub use self::confinement::Confinement;
pub use self::limits::Limits;
pub use self::missing_feature::{Layer, MissingFeature};

/// Confines this process for ever, and tells what could not be confined.
///
/// # Errors
/// Where a wall that the kernel has could not be put up.
#[cfg(target_os = "linux")]
pub fn confine(to: &Confinement) -> std::io::Result<Vec<MissingFeature>> {
    // Files that klab was started with would stay open in kubectl.
    close_fds::set_fds_cloexec(3, &[]);
    let mut lacks = files::close(to)?;
    lacks.extend(calls::close());
    // Last: klab itself has more memory than is left to it.
    limits::set(&to.limits)?;
    Ok(lacks)
}

/// Confines this process as far as this system can: by limits alone.
///
/// # Errors
/// Where a limit could not be set.
#[cfg(not(target_os = "linux"))]
pub fn confine(to: &Confinement) -> std::io::Result<Vec<MissingFeature>> {
    limits::set(&to.limits)?;
    let of = |wall| MissingFeature { wall, reason: "this system is not Linux".to_owned() };
    Ok(vec![of(Layer::Files), of(Layer::Network), of(Layer::Calls)])
}
