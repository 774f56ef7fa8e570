//! Draws a figure as SVG.

use super::coordinate::Coordinate;
use super::figure::{Figure, Kind, Point, Series};
use super::palette::{DASHES, colour};
use plotters::coord::Shift;
use plotters::coord::ranged1d::Ranged;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Width of a plot in pixels.
const WIDTH: u32 = 720;

/// Height of a plot in pixels.
const HEIGHT: u32 = 430;

/// Half the size of a marker.
const MARK: i32 = 4;

/// The share of the distance between two names that bars fill.
const BARS: f64 = 0.78;

/// The colour of lines across the plot.
const GREY: RGBColor = RGBColor(110, 110, 110);

const FONT: &str = "sans-serif";

/// A plot cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw figure {name}: {reason}")]
pub struct DrawError {
    name: String,
    reason: String,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Coordinate, Coordinate>>;

/// Draws the figure as an SVG document.
///
/// # Errors
/// When the drawing library reports an error.
pub fn svg(figure: &Figure) -> Result<String, DrawError> {
    let mut document = String::new();
    {
        let area = SVGBackend::with_string(&mut document, (WIDTH, HEIGHT)).into_drawing_area();
        draw(figure, &area).map_err(|error| DrawError {
            name: figure.name.clone(),
            reason: error.to_string(),
        })?;
    }
    Ok(document)
}

/// The result of drawing.
type Drawn<T> = Result<T, DrawingAreaErrorKind<std::io::Error>>;

fn draw(figure: &Figure, area: &Area<'_>) -> Drawn<()> {
    area.fill(&WHITE)?;
    let points = || figure.series.iter().flat_map(|series| &series.points);
    let references = |vertical| {
        figure
            .references
            .iter()
            .filter(move |line| line.vertical == vertical)
            .map(|line| line.at)
    };
    let x = Coordinate::new(
        &figure.x,
        points().map(|point| point.x).chain(references(true)),
    );
    let y = Coordinate::new(
        &figure.y,
        points()
            .flat_map(|point| {
                let (low, high) = point.error.unwrap_or((point.y, point.y));
                [point.y, low, high]
            })
            .chain(references(false)),
    );
    let entries = entries(figure);
    let legend = legend_height(&entries);
    let (top, body) = area.split_vertically(legend);
    if legend > 0 {
        draw_legend(&entries, &top)?;
    }
    let mut chart: Chart<'_, '_> = ChartBuilder::on(&body)
        .margin_top(12)
        .margin_right(22)
        .margin_bottom(6)
        .margin_left(6)
        .x_label_area_size(30 + 16 * name_lines(figure))
        .y_label_area_size(66)
        .build_cartesian_2d(x.clone(), y.clone())?;
    let labels = (FONT, 13).into_font();
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(figure.x.label.clone())
        .y_desc(figure.y.label.clone())
        .axis_desc_style((FONT, 14))
        .label_style(labels)
        .bold_line_style(RGBColor(222, 222, 222))
        .light_line_style(TRANSPARENT)
        .axis_style(RGBColor(60, 60, 60))
        .set_all_tick_mark_size(4);
    let nothing = |_: &f64| String::new();
    if !figure.x.categories.is_empty() {
        // Names may need several lines, which the library does not support: see `draw_names`.
        mesh.disable_x_mesh()
            .x_labels(figure.x.categories.len())
            .x_label_formatter(&nothing);
    }
    mesh.draw()?;
    let bars: Vec<usize> = (0..figure.series.len())
        .filter(|&index| figure.series[index].kind == Kind::Bars)
        .collect();
    for (index, series) in figure.series.iter().enumerate() {
        let position = bars.iter().position(|&bar| bar == index);
        let shift = position.map(|position| {
            let width = BARS / bars.len() as f64;
            ((position as f64 + 0.5) * width - BARS / 2.0, width)
        });
        draw_series(series, index, shift, &mut chart, y.low())?;
    }
    draw_references(figure, &mut chart, &x, &y)?;
    draw_names(figure, &chart, &y, area)?;
    area.present()
}

/// The letters of a name that fit on a line.
fn letters(figure: &Figure) -> usize {
    ((WIDTH as usize - 100) / figure.x.categories.len().max(1) / 8).max(4)
}

/// The lines of the longest name, at least one.
fn name_lines(figure: &Figure) -> u32 {
    let letters = letters(figure);
    let lines = |name: &String| wrapped(name, letters).len() as u32;
    figure.x.categories.iter().map(lines).max().unwrap_or(1)
}

/// Wraps a text between words into lines of at most `letters` letters, unless a word is longer.
fn wrapped(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= letters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Writes the names below the axis.
fn draw_names(
    figure: &Figure,
    chart: &Chart<'_, '_>,
    y: &Coordinate,
    area: &Area<'_>,
) -> Drawn<()> {
    let style = (FONT, 13)
        .into_font()
        .into_text_style(area)
        .pos(Pos::new(HPos::Center, VPos::Top));
    for (index, name) in figure.x.categories.iter().enumerate() {
        let (left, low) = chart.backend_coord(&(index as f64, y.low()));
        for (line, text) in wrapped(name, letters(figure)).into_iter().enumerate() {
            let corner = (left, low + 8 + 15 * line as i32);
            area.draw(&Text::new(text, corner, style.clone()))?;
        }
    }
    Ok(())
}

/// An entry of the legend.
enum Entry<'a> {
    Series(usize, &'a Series),
    Level(&'a str),
}

impl Entry<'_> {
    fn label(&self) -> &str {
        match self {
            Self::Series(_, series) => &series.label,
            Self::Level(label) => label,
        }
    }
}

/// All series with a name, and the horizontal lines.
fn entries(figure: &Figure) -> Vec<Entry<'_>> {
    let series = figure.series.iter().enumerate();
    let named = series
        .filter(|(_, series)| !series.label.is_empty())
        .map(|(index, series)| Entry::Series(index, series));
    let levels = figure.references.iter().filter(|line| !line.vertical);
    named
        .chain(levels.map(|line| Entry::Level(&line.label)))
        .collect()
}

/// The number of legend entries per row.
fn legend_columns(entries: &[Entry<'_>]) -> usize {
    let longest = entries
        .iter()
        .map(|entry| entry.label().chars().count())
        .max()
        .unwrap_or(1);
    ((WIDTH as usize - 80) / (longest * 7 + 48)).clamp(1, 5)
}

fn legend_height(entries: &[Entry<'_>]) -> u32 {
    if entries.is_empty() {
        return 0;
    }
    10 + 20 * entries.len().div_ceil(legend_columns(entries)) as u32
}

fn draw_legend(entries: &[Entry<'_>], area: &Area<'_>) -> Drawn<()> {
    let columns = legend_columns(entries);
    let width = (WIDTH as i32 - 90) / columns as i32;
    for (index, entry) in entries.iter().enumerate() {
        let (x, y) = (
            76 + (index % columns) as i32 * width,
            18 + (index / columns) as i32 * 20,
        );
        match entry {
            Entry::Level(_) => area.draw(&DashedPathElement::new(
                vec![(x, y), (x + 24, y)],
                4,
                4,
                GREY.stroke_width(1),
            ))?,
            Entry::Series(series_index, series) => {
                draw_sample(*series_index, series, (x, y), area)?;
            }
        }
        area.draw(&Text::new(
            entry.label().to_owned(),
            (x + 30, y - 7),
            (FONT, 13),
        ))?;
    }
    Ok(())
}

/// Draws a sample of a series in the legend.
fn draw_sample(index: usize, series: &Series, (x, y): (i32, i32), area: &Area<'_>) -> Drawn<()> {
    match series.kind {
        Kind::Bars => area.draw(&Rectangle::new(
            [(x, y - 6), (x + 22, y + 6)],
            colour(index).filled(),
        ))?,
        Kind::Points => {}
        Kind::Line | Kind::Curve => stroke(area, &[(x, y), (x + 24, y)], index, series.kind)?,
    }
    if matches!(series.kind, Kind::Line | Kind::Points) {
        let (shape, outline) = mark((x + 12, y), index, false);
        area.draw(&shape)?;
        area.draw(&outline)?;
    }
    Ok(())
}

/// Draws a path in pixels, in the colour and dashes of series `index`.
fn stroke(area: &Area<'_>, path: &[(i32, i32)], index: usize, kind: Kind) -> Drawn<()> {
    let style = colour(index).stroke_width(if kind == Kind::Curve { 2 } else { 1 });
    match DASHES[index / super::palette::COLOURS % DASHES.len()] {
        None => area.draw(&PathElement::new(path.to_vec(), style)),
        Some((dash, gap)) => area.draw(&DashedPathElement::new(path.to_vec(), dash, gap, style)),
    }
}

fn draw_references(
    figure: &Figure,
    chart: &mut Chart<'_, '_>,
    x: &Coordinate,
    y: &Coordinate,
) -> Drawn<()> {
    let (across, up) = (x.range(), y.range());
    for line in &figure.references {
        let path = if line.vertical {
            vec![(line.at, up.start), (line.at, up.end)]
        } else {
            vec![(across.start, line.at), (across.end, line.at)]
        };
        chart.draw_series(std::iter::once(DashedPathElement::new(
            path,
            4,
            4,
            GREY.stroke_width(1),
        )))?;
        // The name of a horizontal line is in the legend.
        if line.vertical {
            // Near the right end the name is to the left of the line.
            let (side, offset) = if x.share(line.at) > 0.75 {
                (HPos::Right, -5)
            } else {
                (HPos::Left, 5)
            };
            let style = (FONT, 12)
                .into_font()
                .color(&GREY)
                .pos(Pos::new(side, VPos::Top));
            chart.draw_series(std::iter::once(
                EmptyElement::at((line.at, up.end))
                    + Text::new(line.label.clone(), (offset, 2), style),
            ))?;
        }
    }
    Ok(())
}

fn draw_series(
    series: &Series,
    index: usize,
    shift: Option<(f64, f64)>,
    chart: &mut Chart<'_, '_>,
    base: f64,
) -> Drawn<()> {
    let shade = colour(index);
    let visible: Vec<Point> = series
        .points
        .iter()
        .copied()
        .filter(|point| point.x.is_finite() && point.y.is_finite())
        .collect();
    let offset = shift.map_or(0.0, |(offset, _)| offset);
    if let Some((_, width)) = shift {
        chart.draw_series(visible.iter().map(|point| {
            let (left, right) = (
                point.x + offset - width * 0.46,
                point.x + offset + width * 0.46,
            );
            let style = if point.bound {
                shade.mix(0.25).filled()
            } else {
                shade.filled()
            };
            Rectangle::new([(left, base), (right, point.y)], style)
        }))?;
    }
    if matches!(series.kind, Kind::Line | Kind::Curve) {
        let path: Vec<(f64, f64)> = visible.iter().map(|point| (point.x, point.y)).collect();
        let style = shade.stroke_width(if series.kind == Kind::Curve { 2 } else { 1 });
        match DASHES[index / super::palette::COLOURS % DASHES.len()] {
            None => {
                chart.draw_series(std::iter::once(PathElement::new(path, style)))?;
            }
            Some((dash, gap)) => {
                chart.draw_series(std::iter::once(DashedPathElement::new(
                    path, dash, gap, style,
                )))?;
            }
        }
    }
    let whisker = if shift.is_some() { BLACK } else { shade };
    for point in &visible {
        let Some((low, high)) = point.error else {
            continue;
        };
        let x = point.x + offset;
        chart.draw_series(std::iter::once(PathElement::new(
            vec![(x, low), (x, high)],
            whisker.stroke_width(1),
        )))?;
        for end in [low, high] {
            chart.draw_series(std::iter::once(
                EmptyElement::at((x, end))
                    + PathElement::new(vec![(-3, 0), (3, 0)], whisker.stroke_width(1)),
            ))?;
        }
    }
    if matches!(series.kind, Kind::Line | Kind::Points) {
        for point in &visible {
            let (shape, outline) = mark((0, 0), index, point.bound);
            chart.draw_series(std::iter::once(
                EmptyElement::at((point.x, point.y)) + shape + outline,
            ))?;
        }
    }
    Ok(())
}

/// A position in pixels.
type Pixel = (i32, i32);

/// A mark whose shape depends on the series; upper bounds are hollow.
fn mark((x, y): Pixel, index: usize, hollow: bool) -> (Polygon<Pixel>, PathElement<Pixel>) {
    let m = MARK;
    let shape: Vec<(i32, i32)> = match index % 5 {
        0 => (0..12)
            .map(|step| {
                let angle = f64::from(step) * std::f64::consts::PI / 6.0;
                let radius = f64::from(m) + 0.4;
                (
                    (radius * angle.cos()).round() as i32,
                    (radius * angle.sin()).round() as i32,
                )
            })
            .collect(),
        1 => vec![(-m, -m), (m, -m), (m, m), (-m, m)],
        2 => vec![(0, -m - 1), (m + 1, m), (-m - 1, m)],
        3 => vec![(0, -m - 1), (m + 1, 0), (0, m + 1), (-m - 1, 0)],
        _ => vec![(0, m + 1), (m + 1, -m), (-m - 1, -m)],
    };
    let shape: Vec<(i32, i32)> = shape.into_iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
    let mut outline = shape.clone();
    outline.extend(shape.first().copied());
    let fill = if hollow { WHITE } else { colour(index) };
    (
        Polygon::new(shape, fill.filled()),
        PathElement::new(outline, colour(index).stroke_width(1)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_names_between_words_only() {
        assert_eq!(wrapped("one pool for all", 8), ["one pool", "for all"]);
        assert_eq!(wrapped("toeplitz", 4), ["toeplitz"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
