//! Ctrl-C: what an interruption leaves, what is done about it, and how klab ends.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Code, Context as _, Kind, Result};
use crate::ui::Ui;

/// What to do and to say when the user interrupts; shared with the signal handler.
#[derive(Clone, Default)]
pub struct Interruption(Arc<Mutex<Aftermath>>);

/// What an interruption leaves, or what is done about it.
#[derive(Default)]
struct Aftermath {
    ends_klab: bool,
    words: Option<String>,
    clean_up: Option<CleanUp>,
}

/// Removes what a command made, from another thread than its own.
pub type CleanUp = Box<dyn FnOnce() + Send>;

impl Interruption {
    /// Says what state an interruption would leave things in, from now on.
    pub fn would_leave(&self, words: Option<String>) {
        self.lock().words = words;
    }

    /// What to say.
    pub fn words(&self) -> Option<String> {
        self.lock().words.clone()
    }

    /// What the first interruption does before klab ends; a second one ends it at once.
    pub fn cleans_up(&self, clean_up: Option<CleanUp>) {
        self.lock().clean_up = clean_up;
    }

    /// Leaves the end to the handler where an interruption is ending klab, and does not return then.
    ///
    /// The interruption also ends the program that a command waits for. The command's failure is not the user's concern.
    pub fn wait_for_end(&self) {
        while self.lock().ends_klab {
            std::thread::park();
        }
    }

    /// What this interruption does before klab ends; without it klab ends now.
    fn begin(&self) -> Option<CleanUp> {
        let mut aftermath = self.lock();
        let clean_up = aftermath.clean_up.take();
        aftermath.ends_klab = clean_up.is_none();
        clean_up
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Aftermath> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends klab on Ctrl-C with a word about what that leaves; every outside action was journaled before it was done, so
/// the end may come at any moment.
///
/// # Errors
/// When the system refuses the handler.
pub fn on_interrupt(ui: &Ui, interruption: &Interruption) -> Result<()> {
    let (ui, interruption) = (ui.clone(), interruption.clone());
    let handler = move || {
        let clean_up = interruption.begin();
        // What az and kind are doing for klab goes on no further than it has come.
        crate::exec::interrupt_children();
        if let Some(clean_up) = clean_up {
            ui.interrupted(interruption.words().as_deref());
            // In a thread of its own: the next interruption must find this handler free.
            std::thread::spawn(move || {
                clean_up();
                std::process::exit(i32::from(Kind::Interrupted.exit_code()));
            });
            return;
        }
        end(&ui, interruption.words().as_deref());
    };
    ctrlc::set_handler(handler).code(Code::MachineRefused, || "could not listen for Ctrl-C".to_owned())
}

/// Ends klab as Ctrl-C does.
pub fn end(ui: &Ui, leaves: Option<&str>) -> ! {
    ui.interrupted(leaves);
    std::process::exit(i32::from(Kind::Interrupted.exit_code()))
}
