//! What a run shows while it lasts: the live screen, a progress bar, or lines; only the main thread
//! draws, from figures that the workers leave without waiting.

use crate::plan::{Plan, Source};
use crate::progress::{FileBar, Lines};
use crate::screen::{Action, Measure, Screen, ScreenState, Title};
use crate::watch::complain;
use engine::{Model, Progress, Stop};
use export::Anonymiser;
use std::time::Duration;

/// Flows that a view holds: as many as the largest screen shows.
const VIEW_FLOWS: usize = 100;

/// The longest a round over the table may take for a screen that shows what it sees.
const SCREEN_ROUND: Duration = Duration::from_secs(1);

/// The one of them that fits the run.
pub(crate) enum Reporter {
    /// The screen, not yet open.
    ScreenToOpen,
    /// On a terminal, for interfaces.
    Screen {
        screen: Box<Screen>,
        /// The screen shows addresses as outputs do.
        anonymiser: Option<Box<Anonymiser>>,
    },
    /// On a terminal, for files.
    Bar(FileBar),
    /// A line each interval.
    Lines(Lines),
    /// Nothing.
    Silent,
}

impl Reporter {
    /// Chooses; for the screen, the plan's meter is told to make views.
    pub(crate) fn choose(plan: &mut Plan) -> Self {
        if plan.quiet {
            return Self::Silent;
        }
        if !plan.is_live() {
            return match plan.interval {
                None if FileBar::is_possible() => Self::Bar(FileBar::new(false)),
                interval => Self::lines(interval),
            };
        }
        if plan.interval_given || plan.records_on_standard_output() || !Screen::is_possible() {
            return Self::lines(plan.interval);
        }
        let garbage = &mut plan.meter.garbage;
        garbage.period = garbage.period.min(SCREEN_ROUND);
        plan.meter.view_flows = VIEW_FLOWS;
        Self::ScreenToOpen
    }

    /// Takes the terminal over, if it is to be the screen: when all that could refuse the run is
    /// done.
    pub(crate) fn open(&mut self, plan: &Plan, stop: &Stop) {
        if matches!(self, Self::ScreenToOpen) {
            *self = match Screen::open(title(plan), stop) {
                Ok(screen) => Self::Screen {
                    screen: Box::new(screen),
                    anonymiser: plan.anonymiser.clone().map(Box::new),
                },
                Err(error) => {
                    complain(&format!("no live screen: {error}"));
                    Self::lines(plan.interval)
                }
            };
        }
    }

    fn lines(interval: Option<Duration>) -> Self {
        interval.map_or(Self::Silent, |interval| Self::Lines(Lines::new(interval)))
    }

    /// Says at once what came up, and gives back what was said; under the screen it has to wait for
    /// the end.
    pub(crate) fn tell(&self, messages: Vec<String>) -> Vec<String> {
        if matches!(self, Self::Screen { .. }) {
            return Vec::new();
        }
        for message in &messages {
            complain(message);
        }
        messages
    }

    /// Shows how far the run is.
    /// `records_lost`: those that outputs could not write, or were too slow for.
    pub(crate) fn tick(&mut self, progress: &Progress, records_lost: u64, elapsed: Duration) {
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
                    Ok(Action::Leave) => {
                        crate::screen::restore();
                        std::process::exit(130);
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
            Self::ScreenToOpen | Self::Silent => {}
        }
    }

    /// Leaves the terminal as it was.
    pub(crate) fn close(self) {
        match self {
            Self::Screen { screen, .. } => screen.close(),
            Self::Bar(bar) => bar.close(),
            Self::ScreenToOpen | Self::Lines(_) | Self::Silent => {}
        }
    }
}

fn title(plan: &Plan) -> Title {
    let sources = match &plan.source {
        Source::Live(names) => names.join(", "),
        Source::Files(_) => String::new(),
    };
    let plural = |number: usize, noun: &str| {
        format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
    };
    let model = match plan.model {
        Model::RunToCompletion => format!("run to completion, {}", plural(plan.queues, "queue")),
        Model::Pipeline | Model::Cooperative => {
            format!(
                "{}, {}, {} each",
                if plan.model == Model::Pipeline {
                    "pipeline"
                } else {
                    "cooperative"
                },
                plural(plan.queues, "receiver"),
                plural(plan.monitors, "monitor")
            )
        }
    };
    Title {
        sources,
        filter: plan.filter.clone(),
        engine: format!("{model}, {} table", plan.meter.table.name()),
        flow: plan.meter.flow,
        numeric: plan.numeric,
        measure: Measure::of(&plan.meter),
        round: plan.meter.garbage.round(),
    }
}
