//! The distribution of flows by a statistic, in powers of two: drawn as columns if there is little
//! room, otherwise as bars with percentages.

use super::palette::Palette;
use crate::units;
use flow::MeterOptions;
use flow::view::{BIN_OF_ONE, BINS};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Widths of a column including a space: most labels fit the first; the second, for labels of at
/// most four characters, is used if it shows more columns.
const COLUMN_WIDTHS: [usize; 2] = [6, 5];

/// The statistic whose distribution is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Measure {
    /// Its name, as in every output.
    pub(crate) name: String,
    /// Its unit: `packets`, `bytes` or `seconds`.
    pub(crate) unit: &'static str,
}

impl Measure {
    /// Returns the measure in the views of a meter with these options: the last column of its first
    /// statistic, or packets if there is none.
    pub(crate) fn of(options: &MeterOptions) -> Self {
        let statistics = options.statistics.build(&mut hw::lines::Rows::default());
        match statistics
            .first()
            .and_then(|(_, statistic)| statistic.columns().pop())
        {
            Some(column) => Self {
                name: column.name,
                unit: column.unit,
            },
            None => Self {
                name: "packets".into(),
                unit: "packets",
            },
        }
    }

    /// Formats the lower bound of a bin in a few characters. Sizes and counts have binary prefixes,
    /// because the bins are powers of two.
    fn label(&self, bin: usize) -> String {
        if bin == 0 {
            return "0".into();
        }
        let exponent = bin as i32 - BIN_OF_ONE as i32;
        if self.unit == "seconds" {
            let text = units::seconds(2f64.powi(exponent)).replace(' ', "");
            // Bins differ by a factor of two, so two digits are enough: 1.9µs, 30µs, 125ms.
            let Some((whole, rest)) = text.split_once('.') else {
                return text;
            };
            let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            return match whole.len() {
                1 => format!("{whole}.{}{unit}", &rest[..1]),
                _ => format!("{whole}{unit}"),
            };
        }
        match u32::try_from(exponent) {
            Ok(exponent) => {
                const PREFIXES: [&str; 4] = ["", "Ki", "Mi", "Gi"];
                let prefix = (exponent / 10) as usize;
                format!("{}{}", 1u64 << (exponent % 10), PREFIXES[prefix.min(3)])
            }
            Err(_) if exponent >= -7 => {
                format!("1/{}", 1u32 << exponent.unsigned_abs())
            }
            Err(_) => format!("2^{exponent}"),
        }
    }

    /// Returns the unit to append to a label.
    fn suffix(&self) -> &'static str {
        if self.unit == "bytes" { "B" } else { "" }
    }
}

/// The flows of one or several bins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) count: u64,
}

/// Returns at most `bars_max` bars that cover all bins from the first to the last with flows.
/// Adjacent bins are combined if there are too many. Zero has a bar of its own.
pub(super) fn bars(distribution: &[u64; BINS], measure: &Measure, bars_max: usize) -> Vec<Bar> {
    let bar = |bin: usize, count| Bar {
        label: measure.label(bin),
        count,
    };
    let mut bars = Vec::new();
    if distribution[0] > 0 {
        bars.push(bar(0, distribution[0]));
    }
    let filled = |bin: &usize| distribution[*bin] > 0;
    let (Some(first), Some(last)) = ((1..BINS).find(filled), (1..BINS).rfind(filled)) else {
        bars.truncate(bars_max);
        return bars;
    };
    let room = bars_max.saturating_sub(bars.len());
    if room == 0 {
        return Vec::new();
    }
    let bins_per_bar = (last + 1 - first).div_ceil(room);
    for from in (first..=last).step_by(bins_per_bar) {
        let to = (from + bins_per_bar).min(BINS);
        bars.push(bar(from, distribution[from..to].iter().sum()));
    }
    bars
}

/// Draws columns above their labels.
pub(super) fn draw_columns(
    distribution: &[u64; BINS],
    measure: &Measure,
    palette: Palette,
    area: Rect,
    buffer: &mut Buffer,
) {
    if area.height < 2 {
        return;
    }
    let (bars, width) = columns_that_fit(distribution, measure, usize::from(area.width));
    let highest = bars.iter().map(|bar| bar.count).max().unwrap_or(0).max(1);
    let height = usize::from(area.height - 1);
    for (index, bar) in bars.iter().enumerate() {
        let x = area.x + (index * width) as u16;
        let eighths = eighths(bar.count, highest, height);
        for row in 0..height {
            let glyph = palette.column_cell(eighths.saturating_sub(8 * (height - 1 - row)));
            let text: String = std::iter::repeat_n(glyph, width - 1).collect();
            buffer.set_stringn(x, area.y + row as u16, text, width - 1, palette.bar());
        }
        let label = palette.displayable(&(bar.label.clone() + measure.suffix()));
        buffer.set_stringn(x, area.bottom() - 1, label, width - 1, palette.faint());
    }
}

/// Returns the columns for a chart of `room` characters, and the width of each.
fn columns_that_fit(
    distribution: &[u64; BINS],
    measure: &Measure,
    width: usize,
) -> (Vec<Bar>, usize) {
    let [wide, narrow] = COLUMN_WIDTHS;
    let (few, many) = (
        bars(distribution, measure, width / wide),
        bars(distribution, measure, width / narrow),
    );
    let label = |bar: &Bar| bar.label.chars().count() + measure.suffix().len();
    if many.len() > few.len() && many.iter().all(|bar| label(bar) < narrow) {
        (many, narrow)
    } else {
        (few, wide)
    }
}

/// Draws a bar per line, with its lower bound and its share of all flows.
pub(super) fn draw_bars(
    distribution: &[u64; BINS],
    measure: &Measure,
    palette: Palette,
    area: Rect,
    buffer: &mut Buffer,
) {
    const LABEL: usize = 8;
    const SHARE: usize = 9;
    let width = usize::from(area.width);
    if width < LABEL + SHARE + 4 {
        return;
    }
    let bars = bars(distribution, measure, usize::from(area.height));
    let highest = bars.iter().map(|bar| bar.count).max().unwrap_or(0).max(1);
    let all: u64 = bars.iter().map(|bar| bar.count).sum();
    let room = width - LABEL - SHARE - 2;
    for (index, bar) in bars.iter().enumerate() {
        let y = area.y + index as u16;
        let label = palette.displayable(&(bar.label.clone() + measure.suffix()));
        buffer.set_stringn(
            area.x,
            y,
            format!("{label:>LABEL$}"),
            LABEL,
            palette.faint(),
        );
        let eighths = eighths(bar.count, highest, room);
        let mut text: String = std::iter::repeat_n(palette.bar_cell(8), eighths / 8).collect();
        text.push(palette.bar_cell(eighths % 8));
        buffer.set_stringn(area.x + LABEL as u16 + 1, y, text, room, palette.bar());
        let share = units::share(bar.count, all);
        let x = area.right() - SHARE as u16;
        buffer.set_stringn(x, y, format!("{share:>SHARE$}"), SHARE, Style::new());
    }
}

/// Returns how many eighths of `cells` characters a value fills: at least one if it is not zero.
pub(super) fn eighths(value: u64, highest: u64, cells: usize) -> usize {
    if value == 0 || highest == 0 {
        return 0;
    }
    let share = value as f64 / highest as f64;
    ((share * (cells * 8) as f64).round() as usize).clamp(1, (cells * 8).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(unit: &'static str) -> Measure {
        Measure {
            name: "x".into(),
            unit,
        }
    }

    #[test]
    fn labels_are_the_lower_bounds_of_bins() {
        let label =
            |unit, exponent: i32| measure(unit).label((BIN_OF_ONE as i32 + exponent) as usize);
        assert_eq!(label("packets", 0), "1");
        assert_eq!(label("packets", 9), "512");
        assert_eq!(label("bytes", 10), "1Ki");
        assert_eq!(label("bytes", 31), "2Gi");
        assert_eq!(label("packets", -1), "1/2");
        assert_eq!(label("packets", -31), "2^-31");
        assert_eq!(measure("bytes").label(0), "0");
        // 2^-20 s = 953.67 ns, 2^-19 s = 1.907 µs, 2^-10 s = 976.56 µs, 2^-4 s = 62.5 ms.
        assert_eq!(label("seconds", -20), "954ns");
        assert_eq!(label("seconds", -19), "1.9µs");
        assert_eq!(label("seconds", -10), "977µs");
        assert_eq!(label("seconds", -4), "62ms");
        assert_eq!(label("seconds", 0), "1.0s");
        assert_eq!(label("seconds", 6), "1m04s");
        assert_eq!(label("seconds", 31), "24855d03h");
        for unit in ["packets", "bytes", "seconds"] {
            for bin in 0..BINS {
                assert!(measure(unit).label(bin).chars().count() <= 9);
            }
        }
    }

    #[test]
    fn bins_are_combined_to_fit_and_no_flow_is_left_out() {
        let mut distribution = [0; BINS];
        distribution[0] = 7;
        distribution[30..50].fill(1);
        for room in 2..40 {
            let bars = bars(&distribution, &measure("packets"), room);
            assert!(bars.len() <= room, "{room}: {bars:?}");
            assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), 27);
            assert_eq!(
                bars[0],
                Bar {
                    label: "0".into(),
                    count: 7
                }
            );
        }
        assert_eq!(bars(&distribution, &measure("packets"), 40).len(), 21);
        assert_eq!(bars(&[0; BINS], &measure("packets"), 10), []);
        assert_eq!(bars(&[1; BINS], &measure("packets"), 0), []);
    }

    #[test]
    fn columns_are_narrower_if_that_shows_more_bins() {
        let mut distribution = [0; BINS];
        distribution[BIN_OF_ONE..BIN_OF_ONE + 15].fill(1);
        let fit = |room, unit| {
            let (bars, width) = columns_that_fit(&distribution, &measure(unit), room);
            (bars.len(), width)
        };
        assert_eq!(fit(100, "packets"), (15, 6));
        assert_eq!(fit(78, "packets"), (15, 5));
        // 16KiB needs five characters.
        assert_eq!(fit(78, "bytes"), (8, 6));
    }

    #[test]
    fn nonzero_values_fill_at_least_an_eighth() {
        assert_eq!(eighths(0, 100, 4), 0);
        assert_eq!(eighths(1, u64::MAX, 4), 1);
        assert_eq!(eighths(100, 100, 4), 32);
        assert_eq!(eighths(50, 100, 4), 16);
        assert_eq!(eighths(5, 0, 4), 0);
    }
}
