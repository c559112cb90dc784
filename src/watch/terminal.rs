//! The terminal of the picture: taken, drawn on, listened to, and given back however klab ends.

use std::io::{BufWriter, IsTerminal, Stdout, Write, stdin, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture, Event, MouseEventKind, read};
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};
use ratatui::{Frame, Terminal};
use tokio::signal::unix::{SignalKind, signal};

use klab_operations::error::{Code, Context as _, Result};

/// Whether the terminal is taken: it is given back once.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether there is a terminal to draw on and to type at.
pub fn is_there() -> bool {
    stdout().is_terminal() && stdin().is_terminal()
}

/// The terminal, taken for a picture until this is dropped.
pub struct Picture {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
}

impl Picture {
    /// Takes the terminal.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn take() -> Result<Self> {
        let failed = || "could not take the terminal for the picture".to_owned();
        give_back_after_panic();
        TAKEN.store(true, Ordering::SeqCst);
        let taken = enable_raw_mode().and_then(|()| {
            execute!(stdout(), EnterAlternateScreen, EnableMouseCapture, cursor::Hide)?;
            Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(1 << 16, stdout())))
        });
        if taken.is_err() {
            give_back();
        }
        Ok(Self { terminal: taken.code(Code::MachineRefused, failed)? })
    }

    /// Draws what has changed.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<()> {
        let drawn = self.terminal.draw(draw).map(|_| ()).and_then(|()| self.terminal.backend_mut().flush());
        drawn.code(Code::MachineRefused, || "could not draw on the terminal".to_owned())
    }
}

impl Drop for Picture {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back, if it is taken; from any thread. Says whether it was.
pub fn give_back() -> bool {
    let taken = TAKEN.swap(false, Ordering::SeqCst);
    if taken {
        // Where one fails, the others may help.
        let _ = execute!(stdout(), DisableMouseCapture, LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
    }
    taken
}

/// A panic is shown on a terminal that is in order.
fn give_back_after_panic() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let taken = give_back();
            tell(panic);
            if taken {
                // Whichever thread it was: without a picture there is nothing to go on with.
                std::process::exit(101);
            }
        }));
    });
}

/// Hands on what is typed and clicked, in a thread of its own, until the receiver or the terminal is gone.
///
/// # Errors
/// When the system refuses a thread.
pub fn listen(tell: impl Fn(Option<Event>) -> bool + Send + 'static) -> Result<()> {
    let listen = move || {
        loop {
            match read() {
                // A pointer that only moves means nothing.
                Ok(Event::Mouse(mouse)) if matches!(mouse.kind, MouseEventKind::Moved | MouseEventKind::Drag(_)) => {}
                Ok(event) => {
                    if !tell(Some(event)) {
                        return;
                    }
                }
                Err(_) => {
                    tell(None);
                    return;
                }
            }
        }
    };
    let thread = std::thread::Builder::new().name("keys".to_owned()).spawn(listen);
    thread.map(|_| ()).code(Code::MachineRefused, || "could not start a thread".to_owned())
}

/// Gives the terminal back where a signal ends klab that is not Ctrl-C: `kill`, or a window that is closed.
///
/// # Errors
/// When the system refuses a thread.
pub fn end_when_told() -> Result<()> {
    let wait = || -> std::io::Result<i32> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let (mut terminated, mut hung_up) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
            Ok(tokio::select! {
                _ = terminated.recv() => SignalKind::terminate(),
                _ = hung_up.recv() => SignalKind::hangup(),
            }
            .as_raw_value())
        })
    };
    let end = move || {
        // Without it the signal ends klab as it does any program.
        if let Ok(signal) = wait() {
            give_back();
            std::process::exit(128 + signal);
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(end);
    thread.map(|_| ()).code(Code::MachineRefused, || "could not start a thread".to_owned())
}
