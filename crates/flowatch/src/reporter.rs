//! What a run shows while it lasts: the live screen, a progress bar, or lines; only the main thread
//! draws, from figures that the workers leave without waiting.

use crate::plan::{Plan, Source};
use crate::progress::{FileBar, Lines};
use crate::screen::{Action, Measure, Screen, ScreenState, Title};
use crate::watch::complain;
use engine::worker::{Model, Stop};
use engine::{Progress, Records};
use std::time::Duration;

/// Flows that a view holds: as many as the largest screen shows.
const VIEW_FLOWS: usize = 100;

/// The longest a round over the table may take for a screen that shows what it sees.
const SCREEN_ROUND: Duration = Duration::from_secs(1);

/// The one of them that fits the run.
pub(crate) enum Reporter {
    /// On a terminal, for interfaces.
    Screen(Box<Screen>),
    /// On a terminal, for files.
    Bar(FileBar),
    /// A line each interval.
    Lines(Lines),
    /// Nothing.
    Silent,
}

impl Reporter {
    /// Chooses, and opens the screen if it is to be that; the plan's meter is then told to make
    /// views for it.
    pub(crate) fn open(plan: &mut Plan, stop: &Stop) -> Self {
        if plan.quiet {
            return Self::Silent;
        }
        let lines = |interval: Option<Duration>| {
            interval.map_or(Self::Silent, |interval| Self::Lines(Lines::new(interval)))
        };
        if !plan.is_live() {
            return match plan.interval {
                None if FileBar::is_possible() => Self::Bar(FileBar::new(false)),
                interval => lines(interval),
            };
        }
        if plan.interval_given || plan.records_on_standard_output() || !Screen::is_possible() {
            return lines(plan.interval);
        }
        let garbage = &mut plan.meter.garbage;
        garbage.period = garbage.period.min(SCREEN_ROUND);
        plan.meter.view_flows = VIEW_FLOWS;
        match Screen::open(title(plan), stop) {
            Ok(screen) => Self::Screen(Box::new(screen)),
            Err(error) => {
                complain(&format!("no live screen: {error}"));
                plan.meter.view_flows = 0;
                lines(plan.interval)
            }
        }
    }

    /// Shows how far the run is.
    pub(crate) fn tick(&mut self, progress: &Progress, records: &Records, elapsed: Duration) {
        match self {
            Self::Screen(screen) => {
                let state = ScreenState {
                    records: Some(progress.sum(|queue| &queue.records)),
                    records_lost: records.lost(),
                    ..ScreenState::read(progress, elapsed)
                };
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
                Some(progress.sum(|queue| &queue.records)),
                elapsed,
            ),
            Self::Silent => {}
        }
    }

    /// Leaves the terminal as it was.
    pub(crate) fn close(self) {
        match self {
            Self::Screen(screen) => screen.close(),
            Self::Bar(bar) => bar.close(),
            Self::Lines(_) | Self::Silent => {}
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
        Model::Pipeline => {
            format!(
                "pipeline, {}, {} each",
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
        round: plan.meter.garbage.period,
    }
}
