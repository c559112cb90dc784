//! What the streams of a command carry, whatever carries them.

use bytes::Bytes;

/// No longer message is taken at once.
pub(super) const MAX_MESSAGE: usize = 256 * 1024;

/// The streams of a command that is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    Stdin,
    Stdout,
    Stderr,
    /// How it has ended.
    Error,
    /// How large the other end's window is.
    Resize,
}

/// What the other end says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    Input(Bytes),
    /// Nothing more is typed.
    EndOfInput,
    /// The window has another size, or something that is of no concern.
    Other,
    Gone,
}
