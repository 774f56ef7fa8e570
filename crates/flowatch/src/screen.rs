//! The live screen of `flowatch watch` on a terminal.
//!
//! Only the main thread draws, from what [`engine::Progress`] shows: no packet waits for it. The
//! terminal is put back on every way out: [`Screen::close`], dropping it, a panic of any thread
//! (through the panic hook), and [`restore`] for whoever ends the process at once.
//!
//! ```text
//! Progress ─► state ─► history (rates)   ─┐
//!                  └─► flow_rates         ├─► face ─► terminal
//! keys ──────────────────────────────────┘
//! ```

mod distribution;
mod face;
mod flow_rates;
mod flow_table;
mod history;
mod keys;
mod palette;
mod state;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use distribution::Measure;
pub(crate) use palette::{has_unicode, wants_colour};
pub(crate) use state::ScreenState;

use engine::Stop;
use face::Face;
use flow::FlowDefinition;
use keys::Keys;
use palette::Palette;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::{cursor, execute, terminal};
use std::io::{self, IsTerminal, Write};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use writer::writer;

/// Time between two pictures: 8 a second.
const REFRESH: Duration = Duration::from_millis(125);

/// Which stream the screen is open on.
static OPEN: AtomicU8 = AtomicU8::new(CLOSED);
const CLOSED: u8 = 0;
const ON_OUTPUT: u8 = 1;
const ON_ERROR: u8 = 2;

/// What stays the same while a run lasts.
#[derive(Clone, Debug)]
pub(crate) struct Title {
    /// What is watched: `eth0, eth1@2`.
    pub(crate) sources: String,
    /// The filter expression.
    pub(crate) filter: Option<String>,
    /// Model, table, queues: `run to completion, 2 queues, bucket table`.
    pub(crate) engine: String,
    /// Which packets form a flow: decides on the columns of the list.
    pub(crate) flow: FlowDefinition,
    /// Numbers in place of the names of protocols.
    pub(crate) numeric: bool,
    /// What the distribution is of.
    pub(crate) measure: Measure,
    /// How long the garbage collection takes for a round over the table: views are that far apart.
    pub(crate) round: Duration,
}

/// What a key asks the run to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Action {
    /// Go on.
    Continue,
    /// End in order; the stop flag is set already.
    Stop,
    /// Asked a second time: leave at once, as on a second SIGINT.
    Leave,
}

/// The screen, open.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Box<dyn Write>>>,
    keys: Keys,
    face: Face,
    stop: Stop,
    drawn: Option<Instant>,
}

impl Screen {
    /// Whether there is a terminal that can show it: standard output, else standard error, and
    /// not a dumb one.
    pub(crate) fn is_possible() -> bool {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        !dumb && stream().is_some()
    }

    /// Takes the terminal over. Keys that end the run set `stop`.
    ///
    /// # Errors
    /// When there is no terminal, or it does not do what it is told; it is then as before.
    pub(crate) fn open(title: Title, stop: &Stop) -> io::Result<Self> {
        let stream =
            stream().ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "no terminal"))?;
        restore_on_panic();
        terminal::enable_raw_mode()?;
        OPEN.store(stream, Ordering::SeqCst);
        Self::take_over(title, stop, stream).inspect_err(|_| restore())
    }

    fn take_over(title: Title, stop: &Stop, stream: u8) -> io::Result<Self> {
        let mut output = writer(stream);
        execute!(output, terminal::EnterAlternateScreen, cursor::Hide)?;
        let mut terminal = Terminal::new(CrosstermBackend::new(output))?;
        terminal.clear()?;
        let face = Face::new(title, Palette::from_environment());
        Ok(Self {
            terminal,
            keys: Keys::of(stream)?,
            face,
            stop: stop.clone(),
            drawn: None,
        })
    }

    /// Takes keys, without waiting for one, and draws where it is time to; meant to be called
    /// more often than the picture changes.
    ///
    /// # Errors
    /// When the terminal has gone.
    pub(crate) fn draw(&mut self, state: &ScreenState) -> io::Result<Action> {
        if OPEN.load(Ordering::SeqCst) == CLOSED {
            // A thread panicked, and its words are on the screen.
            return Ok(Action::Continue);
        }
        let (action, touched) = self.take_keys()?;
        let due = self.drawn.is_none_or(|drawn| drawn.elapsed() >= REFRESH);
        if due || touched {
            self.drawn = Some(Instant::now());
            self.face.update(state);
            self.face.stopping = self.stop.is_requested();
            self.terminal
                .draw(|frame| self.face.render(frame.area(), frame.buffer_mut()))?;
        }
        Ok(action)
    }

    /// Puts the terminal back.
    pub(crate) fn close(self) {
        drop(self);
    }

    /// What the keys ask for, and whether anything was pressed or the size changed.
    fn take_keys(&mut self) -> io::Result<(Action, bool)> {
        let mut action = Action::Continue;
        let mut touched = false;
        for event in self.keys.take() {
            touched = true;
            match event {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    if is_redraw(key) {
                        self.terminal.clear()?;
                    } else if is_end(key) {
                        action = end(&self.stop);
                    } else if let KeyCode::Char(letter) = key.code {
                        self.face.press(letter);
                    } else if key.code == KeyCode::Esc {
                        self.face.help = false;
                    }
                }
                _ => {}
            }
        }
        Ok((action, touched))
    }
}

/// A key asks for the end.
fn end(stop: &Stop) -> Action {
    if stop.is_requested() {
        return Action::Leave;
    }
    stop.request();
    Action::Stop
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Puts the terminal back as it was, if the screen is open; any thread may call it, any number of
/// times. For those who end the process without closing the screen.
pub(crate) fn restore() {
    let stream = OPEN.swap(CLOSED, Ordering::SeqCst);
    if stream == CLOSED {
        return;
    }
    // The terminal may have gone: nothing more can be done for it.
    let _ = terminal::disable_raw_mode();
    let _ = execute!(writer(stream), terminal::LeaveAlternateScreen, cursor::Show);
}

/// Has every panic put the terminal back before it speaks.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let speak = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            restore();
            speak(panic);
        }));
    });
}

/// The stream that is a terminal.
fn stream() -> Option<u8> {
    if io::stdout().is_terminal() {
        Some(ON_OUTPUT)
    } else if io::stderr().is_terminal() {
        Some(ON_ERROR)
    } else {
        None
    }
}

/// In raw mode Ctrl-C is a key like others, and no signal.
fn is_end(key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    matches!(
        (key.code, control),
        (KeyCode::Char('q' | 'Q'), false) | (KeyCode::Char('c'), true)
    )
}

fn is_redraw(key: KeyEvent) -> bool {
    key.code == KeyCode::Char('l') && key.modifiers.contains(KeyModifiers::CONTROL)
}
