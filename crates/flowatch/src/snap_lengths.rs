//! What is wrong with the snap lengths in the headers of captures, told to whoever reads them.

use crate::watch;
use port::SnapLengths;

/// Nothing is lost by what a header says wrongly: it is told, and no reason to have failed.
pub(crate) fn complain(odd: &SnapLengths) {
    if odd.absurd > 0 {
        watch::complain(&format!(
            "snap lengths in headers that no packet can have: {}, the largest {} bytes; they are taken for no limit, \
             packets are read by their own lengths",
            odd.absurd, odd.absurd_max
        ));
    }
    if odd.exceeded > 0 {
        watch::complain(&format!(
            "packets longer than the snap length in their header: {}; they are read whole",
            odd.exceeded
        ));
    }
}
