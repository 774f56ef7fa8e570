//! Plots as in a paper: axes with units, logarithmic axes for ratios, error bars, and colours for
//! colour-blind readers.

mod coordinate;
mod draw;
mod figure;
mod palette;

pub use draw::{DrawError, svg};
pub use figure::{Axis, Figure, Kind, Point, Reference, Scale, Series};
