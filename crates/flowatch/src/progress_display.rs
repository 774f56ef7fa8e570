//! The display of a running `watch`: the live screen, a progress bar, or lines. Only the main thread
//! draws, from counters that the workers update without waiting.

use crate::messages::warn;
use crate::plan::{Plan, Source};
use crate::progress_text::{FileBar, ProgressLines};
use crate::screen::{Action, Measure, RunTitle, Screen, ScreenState};
use engine::{Model, Progress};
use export::{Anonymiser, printable};
use std::io::{self, Write};
use std::time::Duration;

/// Flows in a view: as many as the largest screen shows.
const VIEW_FLOWS: usize = 100;

/// The longest a sweep of the table may take with the live screen, which shows what the sweep sees.
const SCREEN_ROUND: Duration = Duration::from_secs(1);

/// Default time between progress lines, if packets come from interfaces.
const LIVE_INTERVAL: Duration = Duration::from_secs(1);

/// How a run shows its progress.
pub(crate) enum ProgressDisplay {
    /// The live screen, not open yet.
    PendingScreen,
    /// The live screen, for interfaces on a terminal.
    Screen {
        screen: Box<Screen>,
        /// Anonymises addresses on the screen as in the outputs.
        anonymiser: Option<Box<Anonymiser>>,
    },
    /// A progress bar, for files on a terminal.
    Bar(FileBar),
    /// A line per interval.
    Lines(ProgressLines),
    /// Nothing.
    Silent,
}

impl ProgressDisplay {
    /// Chooses the display. For the live screen, enables views in the plan's meter options.
    pub(crate) fn choose(plan: &mut Plan) -> Self {
        if plan.reports.quiet {
            return Self::Silent;
        }
        if !plan.is_live() {
            return match plan.reports.interval {
                None if FileBar::is_possible() => Self::Bar(FileBar::new(false)),
                interval => Self::lines(interval),
            };
        }
        let interval = plan.reports.interval;
        if interval.is_some() || plan.records_on_standard_output() || !Screen::is_possible() {
            return Self::lines(interval.or(Some(LIVE_INTERVAL)));
        }
        let garbage = &mut plan.engine.meter.garbage;
        garbage.period = garbage.period.min(SCREEN_ROUND);
        plan.engine.meter.view_flows = VIEW_FLOWS;
        Self::PendingScreen
    }

    /// Opens the live screen, if it was chosen. Call it when the run can no longer fail to start.
    pub(crate) fn open(&mut self, plan: &Plan) {
        if matches!(self, Self::PendingScreen) {
            *self = match Screen::open(title(plan), &plan.engine.stop) {
                Ok(screen) => Self::Screen {
                    screen: Box::new(screen),
                    anonymiser: plan.outputs.collector.anonymiser.clone().map(Box::new),
                },
                Err(error) => {
                    warn(&format!("no live screen: {error}"));
                    Self::lines(Some(LIVE_INTERVAL))
                }
            };
        }
    }

    fn lines(interval: Option<Duration>) -> Self {
        interval.map_or(Self::Silent, |interval| {
            Self::Lines(ProgressLines::new(interval))
        })
    }

    /// Prints messages at once and returns those printed. While the live screen is open, none are:
    /// the caller prints them at the end.
    pub(crate) fn print_warnings(&self, messages: Vec<String>) -> Vec<String> {
        if matches!(self, Self::Screen { .. }) {
            return Vec::new();
        }
        for message in &messages {
            warn(message);
        }
        messages
    }

    /// Prints the books of the running program. While the live screen is open they are not printed: they
    /// would destroy it, and it shows them.
    pub(crate) fn print_books(&self, text: Option<String>) {
        if let Some(text) = text
            && !matches!(self, Self::Screen { .. })
        {
            // Standard error may be closed.
            let _ = io::stderr().lock().write_all(text.as_bytes());
        }
    }

    /// Updates the display. `records_lost` counts records that outputs could not write or were too
    /// slow for.
    pub(crate) fn update(&mut self, progress: &Progress, records_lost: u64, elapsed: Duration) {
        match self {
            Self::Screen { screen, anonymiser } => {
                let mut state = ScreenState {
                    records: Some(progress.sum(|queue| &queue.records)),
                    records_lost,
                    ..ScreenState::read(progress, elapsed)
                };
                if let (Some(anonymiser), Some(view)) = (anonymiser, &mut state.view) {
                    for record in &mut view.top {
                        anonymiser.record(record);
                    }
                }
                match screen.draw(&state) {
                    Ok(Action::Continue | Action::Stop) => {}
                    Ok(Action::ExitNow) => {
                        crate::signals::exit_soon(signal_hook::consts::SIGINT);
                    }
                    Err(_) => *self = Self::Silent,
                }
            }
            Self::Bar(bar) => bar.tick(progress, elapsed),
            Self::Lines(lines) => lines.tick(
                progress,
                Some([progress.sum(|queue| &queue.records), records_lost]),
                elapsed,
            ),
            Self::PendingScreen | Self::Silent => {}
        }
    }

    /// Closes the display and restores the terminal.
    pub(crate) fn close(self) {
        match self {
            Self::Screen { screen, .. } => screen.close(),
            Self::Bar(bar) => bar.close(),
            Self::PendingScreen | Self::Lines(_) | Self::Silent => {}
        }
    }
}

fn title(plan: &Plan) -> RunTitle {
    let sources = match &plan.source {
        Source::Live(names) => names.join(", "),
        Source::Files(_) => String::new(),
    };
    let plural = |number: usize, noun: &str| {
        format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
    };
    let model = match plan.engine.model {
        Model::RunToCompletion => format!("run to completion, {}", plural(plan.queues, "queue")),
        Model::SharedReading => {
            let threads = plural(plan.engine.monitors, "thread");
            format!("run to completion, {threads}")
        }
        Model::Pipeline | Model::Cooperative => {
            format!(
                "{}, {}, {} each",
                if plan.engine.model == Model::Pipeline {
                    "pipeline"
                } else {
                    "cooperative"
                },
                plural(plan.queues, "receiver"),
                plural(plan.engine.monitors, "monitor")
            )
        }
    };
    RunTitle {
        sources: printable::message(&sources).into_owned(),
        filter: plan
            .filter
            .as_deref()
            .map(|filter| printable::message(filter).into_owned()),
        engine: format!("{model}, {} table", plan.engine.meter.table.name()),
        flow: plan.engine.meter.flow,
        numeric: plan.reports.numeric,
        measure: Measure::of(&plan.engine.meter),
        round: plan.engine.meter.garbage.round(),
    }
}
