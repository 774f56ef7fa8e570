//! Colours that colour-blind readers can distinguish (Okabe and Ito 2008), without the yellow, which is
//! hard to see on white.

use plotters::style::RGBColor;

/// The number of colours; further series have dashes.
pub(super) const COLOURS: usize = 7;

const PALETTE: [RGBColor; COLOURS] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
];

/// Dash and gap in pixels, by the number of times that the colours have repeated.
pub(super) const DASHES: [Option<(i32, i32)>; 3] = [None, Some((6, 4)), Some((2, 3))];

/// The colour of a series.
pub(super) fn colour(index: usize) -> RGBColor {
    PALETTE[index % COLOURS]
}
