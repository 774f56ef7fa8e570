//! Plots as a paper has them: axes with units, logarithmic where ratios count, error bars, and
//! colours that everybody can tell apart.

mod coordinate;
mod draw;
mod figure;
mod palette;

pub use draw::{DrawError, svg};
pub use figure::{Axis, Figure, Kind, Point, Reference, Scale, Series};
