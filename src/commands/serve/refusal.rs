//! Why a server could not start, for the person who started it.

use klab_server::StartError;

use klab_operations::error::{Code, Error};
use klab_operations::state::home::state_error;

pub(super) fn start_error(error: StartError) -> Error {
    match error {
        StartError::Folder(folder, error) => state_error(error, "use the server's folder", &folder),
        port @ StartError::Port(..) => Error::new(Code::PortInUse, port)
            .hint("another program uses it; without a port the server takes a free one"),
        other => Error::new(Code::MachineRefused, other),
    }
}
