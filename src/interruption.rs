//! Ctrl-C: what an interruption leaves, what is done about it, and how klab ends.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Context as _, Kind, Result};
use crate::ui::Ui;

/// What to do and to say when the user interrupts; shared with the signal handler.
#[derive(Clone, Default)]
pub struct Interruption(Arc<Mutex<Aftermath>>);

/// What an interruption leaves, or what is done about it.
#[derive(Default)]
struct Aftermath {
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

    fn take_clean_up(&self) -> Option<CleanUp> {
        self.lock().clean_up.take()
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
        // What az and kind are doing for klab goes on no further than it has come.
        crate::exec::interrupt_children();
        if let Some(clean_up) = interruption.take_clean_up() {
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
    ctrlc::set_handler(handler).kind(Kind::Outside, || "could not listen for Ctrl-C".to_owned())
}

/// Ends klab as Ctrl-C does.
pub(crate) fn end(ui: &Ui, leaves: Option<&str>) -> ! {
    ui.interrupted(leaves);
    std::process::exit(i32::from(Kind::Interrupted.exit_code()))
}
