//! Colours that people who see few of them can tell apart (Okabe and Ito 2008), without the yellow,
//! which white paper swallows.

use plotters::style::RGBColor;

/// How many colours there are before dashes tell series apart.
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

/// Dash and gap in pixels for each time that the colours have been gone through.
pub(super) const DASHES: [Option<(i32, i32)>; 3] = [None, Some((6, 4)), Some((2, 3))];

/// The colour of a series.
pub(super) fn colour(index: usize) -> RGBColor {
    PALETTE[index % COLOURS]
}
