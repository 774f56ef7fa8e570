//! The layout of the live screen, for terminals of any size.

use super::distribution::{self, Measure};
use super::flow_rates::FlowRates;
use super::flow_table::{FlowTable, Sort};
use super::history::{History, Rates};
use super::palette::Palette;
use super::state::ScreenState;
use crate::units;
use flow::FlowDefinition;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use std::time::Duration;

/// Below this width, figures are stacked.
const NARROW: u16 = 64;
/// From this width on, the distribution is beside the flows.
const WIDE: u16 = 140;
/// Width of the distribution beside the flows.
const SIDE_WIDTH: u16 = 44;
/// The rate chart covers at least this many seconds.
const CHART_SECONDS_MIN: usize = 180;
/// The list of flows is left out if it has fewer rows than this, including the heading.
const FLOW_ROWS_MIN: u16 = 3;

/// What stays the same during a run.
#[derive(Clone, Debug)]
pub(crate) struct RunTitle {
    /// The sources: `eth0, eth1@2`.
    pub(crate) sources: String,
    /// The filter expression.
    pub(crate) filter: Option<String>,
    /// Model, table, queues: `run to completion, 2 queues, bucket table`.
    pub(crate) engine: String,
    /// The flow definition; decides on the columns of the list.
    pub(crate) flow: FlowDefinition,
    /// Whether to show protocol numbers instead of names.
    pub(crate) numeric: bool,
    /// The statistic whose distribution is shown.
    pub(crate) measure: Measure,
    /// How long a sweep of the whole table takes: the time between views.
    pub(crate) round: Duration,
}

/// The figures to draw, and the settings chosen by keys.
#[derive(Debug)]
pub(super) struct Dashboard {
    title: RunTitle,
    palette: Palette,
    live: Snapshot,
    /// The figures shown while the screen is paused.
    paused: Option<Snapshot>,
    sort: Sort,
    pub(super) help: bool,
    /// Whether the run was asked to end.
    pub(super) stopping: bool,
}

#[derive(Clone, Debug)]
struct Snapshot {
    state: ScreenState,
    history: History,
    rates: FlowRates,
}

impl Dashboard {
    pub(super) fn new(title: RunTitle, palette: Palette) -> Self {
        let live = Snapshot {
            state: ScreenState::default(),
            history: History::default(),
            rates: FlowRates::new(title.round),
        };
        Self {
            title,
            palette,
            live,
            paused: None,
            sort: Sort::default(),
            help: false,
            stopping: false,
        }
    }

    /// Updates the figures.
    pub(super) fn update(&mut self, state: &ScreenState) {
        self.live.history.update(state);
        if let Some(view) = &state.view {
            self.live.rates.update(state.elapsed, view);
        }
        self.live.state = state.clone();
    }

    /// Handles a key.
    pub(super) fn press(&mut self, letter: char) {
        match letter.to_ascii_lowercase() {
            'p' | ' ' => {
                self.paused = match self.paused.take() {
                    Some(_) => None,
                    None => Some(self.live.clone()),
                };
            }
            's' => self.sort = self.sort.next(),
            '?' | 'h' => self.help = !self.help,
            _ => {}
        }
    }

    fn shown(&self) -> &Snapshot {
        self.paused.as_ref().unwrap_or(&self.live)
    }

    /// Draws into `area`.
    pub(super) fn render(&self, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        if area.is_empty() {
            return;
        }
        if area.width < NARROW || area.height < 9 {
            self.render_small(area, buffer);
        } else {
            self.render_full(area, buffer);
        }
        if self.help {
            self.render_help(area, buffer);
        }
    }

    /// Draws stacked figures, the most important first.
    fn render_small(&self, area: Rect, buffer: &mut Buffer) {
        let now = self.shown().history.now();
        let state = &self.shown().state;
        let (packets, bits) = (units::rate_packets(now.packets), units::rate_bits(now.bits));
        let rates = format!("{packets}  {bits}");
        let strong = self.palette.strong();
        let mut lines = Vec::new();
        if area.height > 2 {
            lines.push(self.title_line(area.width));
        }
        if rates.chars().count() <= usize::from(area.width) {
            lines.push(Line::styled(rates, strong));
        } else {
            lines.push(Line::styled(packets, strong));
            lines.push(Line::styled(bits, strong));
        }
        let loss = format!(
            "lost {} {}",
            units::count(state.lost),
            self.lost_share(state)
        );
        lines.push(Line::styled(loss, self.loss_style(state)));
        lines.push(Line::raw(format!("{} flows", units::count(state.flows))));
        if area.height > 6 {
            lines.push(Line::raw(format!(
                "{} packets",
                units::count(state.packets)
            )));
            lines.push(Line::raw(units::bytes(state.bytes)));
        }
        let mut rest = draw_lines(&lines, area, buffer);
        if rest.height > FLOW_ROWS_MIN + 1 {
            let keys = take_bottom(&mut rest, 1);
            self.render_keys(keys, buffer);
            self.flow_table().render(rest, buffer);
        }
    }

    fn render_full(&self, area: Rect, buffer: &mut Buffer) {
        let mut rest = area;
        let height = area.height;
        let mut head = vec![self.title_line(area.width)];
        if height >= 14 {
            head.push(self.subtitle_line());
        }
        rest = draw_lines(&head, rest, buffer);
        rest = draw_lines(&self.totals(), rest, buffer);
        let keys = take_bottom(&mut rest, 1);
        self.render_keys(keys, buffer);
        if height >= 14 {
            let chart = take_top(&mut rest, 1 + chart_rows(height));
            self.render_chart(chart, buffer);
        }
        if area.width >= WIDE {
            let side = Rect {
                x: rest.right() - SIDE_WIDTH,
                width: SIDE_WIDTH,
                ..rest
            };
            rest.width -= SIDE_WIDTH + 2;
            self.render_distribution(side, true, buffer);
        } else if height >= 22 {
            let rows = if height >= 40 {
                8
            } else {
                4 + (height - 22) / 6
            };
            let distribution = take_bottom(&mut rest, rows);
            self.render_distribution(distribution, false, buffer);
        }
        if rest.height >= FLOW_ROWS_MIN {
            self.render_flows(rest, buffer);
        }
    }

    fn title_line(&self, width: u16) -> Line<'static> {
        let palette = self.palette;
        let mut spans = Vec::new();
        if width >= NARROW {
            spans.push(Span::styled("flowatch  ", palette.accent()));
        }
        spans.push(Span::styled(self.title.sources.clone(), palette.strong()));
        if let Some(filter) = &self.title.filter {
            spans.push(Span::styled(format!("  {filter}"), palette.faint()));
        }
        let mut end = Vec::new();
        if self.stopping {
            end.push(Span::styled(" stopping ", palette.notice()));
        }
        if self.paused.is_some() {
            end.push(Span::styled(" PAUSED ", palette.notice()));
        }
        end.push(Span::raw(format!(
            "  {}",
            units::clock(self.shown().state.elapsed)
        )));
        let width = usize::from(width);
        let end_width: usize = end.iter().map(Span::width).sum();
        let line = shorten(
            Line::from(spans),
            width.saturating_sub(end_width),
            palette.ellipsis(),
        );
        let padding = width.saturating_sub(line.width() + end_width);
        let mut spans = line.spans;
        spans.push(Span::raw(" ".repeat(padding)));
        spans.extend(end);
        Line::from(spans)
    }

    fn subtitle_line(&self) -> Line<'static> {
        Line::styled(self.title.engine.clone(), self.palette.faint())
    }

    /// Returns rates and totals in five lines.
    fn totals(&self) -> Vec<Line<'static>> {
        let Snapshot { state, history, .. } = self.shown();
        let (now, mean, peak) = (history.now(), history.mean(), history.peak());
        let faint = self.palette.faint();
        let row = |name: &str, text: [String; 3], total: String, style: Style| {
            let [now, mean, peak] = text;
            Line::from(vec![
                Span::styled(format!("  {name:<9}"), faint),
                Span::styled(format!("{now:>14}"), style),
                Span::raw(format!("{mean:>14}{peak:>14}  ")),
                Span::styled(total, if name == "lost" { style } else { Style::new() }),
            ])
        };
        let texts = |unit: fn(f64) -> String, figure: fn(&Rates) -> f64| {
            [unit(figure(&now)), unit(figure(&mean)), unit(figure(&peak))]
        };
        let heading = format!(
            "  {:<9}{:>14}{:>14}{:>14}  total",
            "", "now", "mean", "peak"
        );
        let loss = format!(
            "{} {}{}",
            units::count(state.lost),
            self.lost_share(state),
            lost_by(state)
        );
        let mut status = vec![
            Span::styled("  flows", faint),
            Span::styled(
                format!("{:>18}", units::count(state.flows)),
                self.palette.strong(),
            ),
        ];
        if let Some(records) = state.records {
            status.push(Span::styled("   records ", faint));
            status.push(Span::raw(units::count(records)));
        }
        if state.records_lost > 0 {
            let lost = format!(" ({} lost)", units::count(state.records_lost));
            status.push(Span::styled(lost, self.palette.alarm()));
        }
        if state.memory_bytes > 0 {
            status.push(Span::styled("   memory ", faint));
            status.push(Span::raw(units::memory(state.memory_bytes)));
        }
        vec![
            Line::styled(heading, faint),
            row(
                "packets",
                texts(units::rate_packets, |rates| rates.packets),
                units::count(state.packets),
                self.palette.strong(),
            ),
            row(
                "traffic",
                texts(units::rate_bits, |rates| rates.bits),
                units::bytes(state.bytes),
                self.palette.strong(),
            ),
            row(
                "lost",
                texts(units::rate_packets, |rates| rates.lost),
                loss,
                self.loss_style(state),
            ),
            Line::from(status),
        ]
    }

    fn loss_style(&self, state: &ScreenState) -> Style {
        if state.lost > 0 {
            self.palette.alarm()
        } else {
            Style::new()
        }
    }

    /// Returns the loss as a share of all packets that arrived.
    fn lost_share(&self, state: &ScreenState) -> String {
        format!(
            "({})",
            units::share(state.lost, state.packets.saturating_add(state.lost))
        )
    }

    fn render_chart(&self, area: Rect, buffer: &mut Buffer) {
        let width = usize::from(area.width).saturating_sub(2).max(1);
        let group = [1, 2, 3, 5]
            .into_iter()
            .find(|group| width * group >= CHART_SECONDS_MIN)
            .unwrap_or(5);
        let columns = self.shown().history.columns(width, group);
        let highest = columns
            .iter()
            .map(|rates| rates.packets)
            .fold(0.0, f64::max);
        let span = units::duration(Duration::from_secs((width * group) as u64));
        let caption = format!("packet rate, last {span}");
        let scale = format!("top {}", units::rate_packets(highest));
        self.rule(&caption, &scale, area, buffer);
        let rows = usize::from(area.height).saturating_sub(1);
        let left = area.x + 1 + (width - columns.len()) as u16;
        for (index, rates) in columns.iter().enumerate() {
            let eighths = distribution::eighths(rates.packets as u64, highest as u64, rows);
            let style = if rates.lost > 0.0 {
                self.palette.alarm()
            } else {
                self.palette.bar()
            };
            for row in 0..rows {
                let glyph = self
                    .palette
                    .column_cell(eighths.saturating_sub(8 * (rows - 1 - row)));
                let text = glyph.to_string();
                buffer.set_stringn(left + index as u16, area.y + 1 + row as u16, text, 1, style);
            }
        }
    }

    fn render_flows(&self, area: Rect, buffer: &mut Buffer) {
        let view = self.shown().state.view.as_ref();
        self.flow_table().render(area, buffer);
        if view.is_none_or(|view| view.top.is_empty()) && area.height > 1 {
            let text = if view.is_some() {
                "  no flows".to_owned()
            } else {
                let round = units::duration(self.title.round);
                format!("  flows appear after the first sweep of the table ({round})")
            };
            let text = self.palette.displayable(&text);
            buffer.set_stringn(
                area.x,
                area.y + 1,
                text,
                area.width.into(),
                self.palette.faint(),
            );
        }
    }

    fn flow_table(&self) -> FlowTable<'_> {
        let Snapshot { state, rates, .. } = self.shown();
        FlowTable {
            flows: state.view.as_ref().map_or(&[], |view| &view.top),
            rates,
            definition: self.title.flow,
            numeric: self.title.numeric,
            sort: self.sort,
            palette: self.palette,
        }
    }

    fn render_distribution(&self, mut area: Rect, is_beside: bool, buffer: &mut Buffer) {
        if area.height < 2 {
            return;
        }
        let Measure { name, unit } = &self.title.measure;
        let says_its_unit = name.to_ascii_lowercase().ends_with(unit);
        let caption = if says_its_unit {
            format!("flows by {name}")
        } else {
            format!("flows by {name} ({unit})")
        };
        let top = take_top(&mut area, 1);
        self.rule(&caption, "", top, buffer);
        let Some(view) = &self.shown().state.view else {
            return;
        };
        let inner = Rect {
            x: area.x + 1,
            width: area.width.saturating_sub(2),
            ..area
        };
        let measure = &self.title.measure;
        if is_beside {
            distribution::draw_bars(&view.distribution, measure, self.palette, inner, buffer);
        } else {
            distribution::draw_columns(&view.distribution, measure, self.palette, inner, buffer);
        }
    }

    /// Draws a horizontal rule with a caption, and another caption at its right end.
    fn rule(&self, caption: &str, end: &str, area: Rect, buffer: &mut Buffer) {
        let width = usize::from(area.width);
        let rule = self.palette.rule();
        let mut text = format!("{rule}{rule} {caption} ");
        let end = if end.is_empty() {
            String::new()
        } else {
            format!(" {end} {rule}{rule}")
        };
        let length = text.chars().count() + end.chars().count();
        text.extend(std::iter::repeat_n(rule, width.saturating_sub(length)));
        text.push_str(&end);
        buffer.set_stringn(
            area.x,
            area.y,
            self.palette.displayable(&text),
            width,
            self.palette.faint(),
        );
    }

    fn render_keys(&self, area: Rect, buffer: &mut Buffer) {
        let pause = if self.paused.is_some() {
            "resume"
        } else {
            "pause"
        };
        let sort = format!("sort ({})", self.sort.name());
        let mut spans = Vec::new();
        for (key, text) in [("q", "quit"), ("p", pause), ("s", &sort), ("?", "help")] {
            spans.push(Span::styled(format!("  {key}"), self.palette.accent()));
            spans.push(Span::styled(format!(" {text}"), self.palette.faint()));
        }
        draw_lines(&[Line::from(spans)], area, buffer);
    }

    fn render_help(&self, area: Rect, buffer: &mut Buffer) {
        const TEXT: [&str; 18] = [
            "",
            "  q, Ctrl-C   quit: write all records and the summary;",
            "              twice: exit at once",
            "  p, space    pause the display; counting continues",
            "  s           sort the list by bytes, packets, rate or time",
            "  Ctrl-L      redraw",
            "  ?           show or hide this help",
            "",
            "  now         the last second; peak: the highest second",
            "  lost        packets that arrived but were not processed, and",
            "              their share of all packets; red in the chart",
            "  list        the flows in the table with the most bytes;",
            "              BIT/S: between the last two sweeps, at first over",
            "              the flow's lifetime; bytes are of whole frames",
            "  flows by    number of flows with a value from this label up",
            "              to the next; heights are to scale",
            "",
            "",
        ];
        let width = area.width.min(66);
        let height = area.height.min(TEXT.len() as u16);
        let box_area = Rect {
            x: area.x + (area.width - width) / 2,
            y: area.y + (area.height - height) / 2,
            width,
            height,
        };
        for y in box_area.top()..box_area.bottom() {
            for x in box_area.left()..box_area.right() {
                buffer[(x, y)].reset();
            }
        }
        let lines: Vec<Line<'_>> = TEXT.iter().map(|text| Line::raw(*text)).collect();
        draw_lines(&lines, box_area, buffer);
        self.rule("help", "", box_area, buffer);
        let bottom = Rect {
            y: box_area.bottom() - 1,
            height: 1,
            ..box_area
        };
        if height > 1 {
            self.rule(
                &format!("flowatch {}", env!("CARGO_PKG_VERSION")),
                "",
                bottom,
                buffer,
            );
        }
    }
}

/// Number of rows of the rate chart.
fn chart_rows(height: u16) -> u16 {
    match height {
        0..20 => 1,
        20..30 => 2,
        30..44 => 4,
        _ => 6,
    }
}

/// Returns the losses by reason, if known.
fn lost_by(state: &ScreenState) -> String {
    let reasons: Vec<String> = state
        .lost_by
        .iter()
        .filter(|(_, packets)| *packets > 0)
        .map(|(reason, packets)| format!("{reason} {}", units::compact(*packets as f64)))
        .collect();
    if reasons.is_empty() {
        String::new()
    } else {
        format!("  {}", reasons.join(", "))
    }
}

/// Draws lines from the top; returns the area below them.
fn draw_lines(lines: &[Line<'_>], area: Rect, buffer: &mut Buffer) -> Rect {
    let mut rest = area;
    for line in lines {
        if rest.height == 0 {
            break;
        }
        buffer.set_line(rest.x, rest.y, line, rest.width);
        take_top(&mut rest, 1);
    }
    rest
}

fn take_top(rest: &mut Rect, height: u16) -> Rect {
    let height = height.min(rest.height);
    let top = Rect { height, ..*rest };
    rest.y += height;
    rest.height -= height;
    top
}

fn take_bottom(rest: &mut Rect, height: u16) -> Rect {
    let height = height.min(rest.height);
    rest.height -= height;
    Rect {
        y: rest.bottom(),
        height,
        ..*rest
    }
}

/// Shortens a line to at most `width` characters by cutting its end.
fn shorten(line: Line<'static>, width: usize, ellipsis: char) -> Line<'static> {
    if line.width() <= width {
        return line;
    }
    let mut spans = Vec::new();
    let mut room = width.saturating_sub(1);
    for span in line.spans {
        let text: String = span.content.chars().take(room).collect();
        room -= text.chars().count();
        spans.push(Span::styled(text, span.style));
    }
    if width > 0 {
        spans.push(Span::raw(ellipsis.to_string()));
    }
    Line::from(spans)
}
