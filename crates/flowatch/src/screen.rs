//! The live screen of `flowatch watch` on a terminal.
//!
//! Only the main thread draws, from the counters in [`engine::Progress`], so no packet waits for it.
//! The terminal is restored on every way out: by [`Screen::close`], by dropping the screen, by the
//! panic hook if any thread panics, and by [`restore`] before the process exits at once.
//!
//! ```text
//! Progress ─► state ─► history (rates)   ─┐
//!                  └─► flow_rates         ├─► dashboard ─► terminal
//! keys ──────────────────────────────────┘
//! ```

mod dashboard;
mod distribution;
mod flow_rates;
mod flow_table;
mod history;
mod keys;
mod palette;
mod state;
mod stream;

#[cfg(test)]
mod tests;

pub(crate) use dashboard::RunTitle;
pub(crate) use distribution::Measure;
pub(crate) use palette::{has_unicode, use_colour};
pub(crate) use state::ScreenState;

use dashboard::Dashboard;
use engine::{Stop, StopReason};
use keys::Keys;
use palette::Palette;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::{cursor, execute, terminal};
use ratatui::layout::{Position, Rect};
use std::io::{self, Write};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use stream::{stream, writer};

/// Time between redraws: 8 per second.
const REFRESH: Duration = Duration::from_millis(125);

/// The stream that the screen is open on.
static OPEN_STREAM: AtomicU8 = AtomicU8::new(CLOSED);
const CLOSED: u8 = 0;

/// What the pressed keys ask the run to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Action {
    /// Continue.
    Continue,
    /// End in order; the stop flag is set already.
    Stop,
    /// End was asked for a second time: exit at once, as on a second SIGINT.
    ExitNow,
}

/// The terminal that the screen is drawn on.
type ScreenTerminal = Terminal<CrosstermBackend<Box<dyn Write>>>;

/// An open live screen.
pub(crate) struct Screen {
    terminal: ScreenTerminal,
    keys: Keys,
    dashboard: Dashboard,
    stop: Stop,
    last_drawn: Option<Instant>,
}

impl Screen {
    /// Whether standard output or standard error is a terminal that can show the screen.
    pub(crate) fn is_possible() -> bool {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        !dumb && stream().is_some()
    }

    /// Opens the screen on the terminal. Keys that end the run set `stop`.
    ///
    /// # Errors
    /// If there is no terminal, or an operation on it fails; the terminal is then restored.
    pub(crate) fn open(title: RunTitle, stop: &Stop) -> io::Result<Self> {
        let stream =
            stream().ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "no terminal"))?;
        restore_on_panic();
        terminal::enable_raw_mode()?;
        OPEN_STREAM.store(stream, Ordering::SeqCst);
        Self::enter(title, stop, stream).inspect_err(|_| restore())
    }

    fn enter(title: RunTitle, stop: &Stop, stream: u8) -> io::Result<Self> {
        let mut output = writer(stream);
        execute!(output, terminal::EnterAlternateScreen, cursor::Hide)?;
        let mut terminal = Terminal::new(CrosstermBackend::new(output))?;
        clear(&mut terminal)?;
        let face = Dashboard::new(title, Palette::from_environment());
        Ok(Self {
            terminal,
            keys: Keys::start(stream)?,
            dashboard: face,
            stop: stop.clone(),
            last_drawn: None,
        })
    }

    /// Handles pressed keys without waiting, and redraws if it is time. Call it more often than the
    /// screen is redrawn.
    ///
    /// # Errors
    /// If the terminal has gone.
    pub(crate) fn draw(&mut self, state: &ScreenState) -> io::Result<Action> {
        if OPEN_STREAM.load(Ordering::SeqCst) == CLOSED {
            // A thread panicked, and its message is on the terminal.
            return Ok(Action::Continue);
        }
        let (action, needs_redraw) = self.handle_keys()?;
        let due = self
            .last_drawn
            .is_none_or(|drawn| drawn.elapsed() >= REFRESH);
        if due || needs_redraw {
            self.last_drawn = Some(Instant::now());
            self.dashboard.update(state);
            self.dashboard.stopping = self.stop.is_requested();
            self.terminal
                .draw(|frame| self.dashboard.render(frame.area(), frame.buffer_mut()))?;
        }
        Ok(action)
    }

    /// Restores the terminal.
    pub(crate) fn close(self) {
        drop(self);
    }

    /// Handles pressed keys. Returns the action they ask for, and whether to redraw because a key was
    /// pressed or the terminal was resized.
    fn handle_keys(&mut self) -> io::Result<(Action, bool)> {
        let mut action = Action::Continue;
        let mut needs_redraw = false;
        for event in self.keys.take() {
            needs_redraw = true;
            match event {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    if is_redraw(key) {
                        clear(&mut self.terminal)?;
                    } else if is_end(key) {
                        action = end(&self.stop);
                    } else if let KeyCode::Char(letter) = key.code {
                        self.dashboard.press(letter);
                    } else if key.code == KeyCode::Esc {
                        self.dashboard.help = false;
                    }
                }
                _ => {}
            }
        }
        Ok((action, needs_redraw))
    }
}

/// Clears the terminal, so that everything is drawn anew. (`Terminal::clear` first asks the terminal where
/// its cursor is, and fails if it does not answer.)
fn clear(terminal: &mut ScreenTerminal) -> io::Result<()> {
    let size = terminal.size()?;
    terminal.resize(Rect::from((Position::ORIGIN, size)))
}

/// Handles a key that ends the run.
fn end(stop: &Stop) -> Action {
    if stop.is_requested() {
        return Action::ExitNow;
    }
    stop.request_for(StopReason::Key);
    Action::Stop
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal if the screen is open. For code that exits the process without closing the
/// screen; any thread may call it, any number of times.
pub(crate) fn restore() {
    let stream = OPEN_STREAM.swap(CLOSED, Ordering::SeqCst);
    if stream == CLOSED {
        return;
    }
    // The terminal may have gone; then there is nothing to restore.
    let _ = terminal::disable_raw_mode();
    let _ = execute!(writer(stream), terminal::LeaveAlternateScreen, cursor::Show);
}

/// Makes panics restore the terminal before they print their message.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let default_hook = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            restore();
            default_hook(panic);
        }));
    });
}

/// Whether a key ends the run. In raw mode Ctrl-C is a key, not a signal.
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
