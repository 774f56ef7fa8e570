//! Progress without the live screen: a bar for files on a terminal, plain lines otherwise. Both go
//! to standard error, and write errors are ignored.

use crate::units;
use engine::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, SystemTime};

/// How often the bar is drawn.
const REDRAWS_PER_SECOND: u8 = 8;

/// Progress of reading files: a bar if their size is known, a spinner if not.
#[derive(Debug)]
pub(crate) struct FileBar {
    bar: ProgressBar,
    /// Whether the size is known, and the spinner has become a bar.
    has_size: bool,
}

impl FileBar {
    /// Whether a bar would be visible: standard error is a terminal.
    pub(crate) fn is_possible() -> bool {
        io::stderr().is_terminal()
    }

    /// Creates a bar on standard error, hidden with `quiet` or if that is not a terminal.
    pub(crate) fn new(quiet: bool) -> Self {
        let target = if quiet || !Self::is_possible() {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_SECOND)
        };
        Self::with_target(target)
    }

    fn with_target(target: ProgressDrawTarget) -> Self {
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(style("{spinner} {elapsed:>4}  {msg}", "|/-\\ "));
        Self {
            bar,
            has_size: false,
        }
    }

    /// Updates the bar.
    pub(crate) fn tick(&mut self, progress: &Progress, elapsed: Duration) {
        // If several threads read a file, only the first reports a position.
        let size = progress.sum(|queue| &queue.size);
        if size > 0 {
            if !self.has_size {
                self.has_size = true;
                self.bar.set_style(style(
                    "{percent:>3} % {wide_bar} {eta:>4} left  {msg}",
                    "=> ",
                ));
            }
            self.bar.set_length(size);
            self.bar
                .set_position(progress.sum(|queue| &queue.position).min(size));
        }
        let packets = progress.sum(|queue| &queue.packets);
        let rate = packets as f64 / elapsed.as_secs_f64();
        self.bar.set_message(format!(
            "{} packets  {}",
            units::count(packets),
            units::rate_packets(rate)
        ));
        self.bar.tick();
    }

    /// Removes the bar.
    pub(crate) fn close(self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str, characters: &str) -> ProgressStyle {
    // The templates are constants of this file; a test draws both.
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    if template.contains("{spinner}") {
        style.tick_chars(characters)
    } else {
        style.progress_chars(characters)
    }
}

/// Prints a line per interval. Fields are aligned in columns for people, and are one word each for
/// programs: totals are plain integers, rates have a prefix (`14.88M`, as numfmt(1) `--from=si`
/// reads it), the time is UTC as in RFC 3339, the heading begins with `#`.
#[derive(Debug)]
pub(crate) struct ProgressLines {
    interval: Duration,
    due: Duration,
    last: Sample,
    heading_printed: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    elapsed: Duration,
    packets: u64,
    bytes: u64,
    lost: u64,
    flows: u64,
}

impl Sample {
    fn read(progress: &Progress, elapsed: Duration) -> Self {
        Self {
            elapsed,
            packets: progress.sum(|queue| &queue.packets),
            bytes: progress.sum(|queue| &queue.bytes),
            lost: progress.sum(|queue| &queue.lost),
            flows: progress.sum(|queue| &queue.flows),
        }
    }
}

impl ProgressLines {
    /// Prints a line every `interval`.
    pub(crate) fn new(interval: Duration) -> Self {
        let interval = interval.max(Duration::from_millis(1));
        Self {
            interval,
            due: interval,
            last: Sample::default(),
            heading_printed: false,
        }
    }

    /// Writes a line to standard error if one is due. `records` are the records so far and those of
    /// them that outputs lost, if known.
    pub(crate) fn tick(
        &mut self,
        progress: &Progress,
        records: Option<[u64; 2]>,
        elapsed: Duration,
    ) {
        if elapsed >= self.due {
            let text = self.line(progress, records, elapsed, SystemTime::now());
            let _ = io::stderr().lock().write_all(text.as_bytes());
        }
    }

    /// Returns the current line, preceded by the heading if it is the first.
    fn line(
        &mut self,
        progress: &Progress,
        records: Option<[u64; 2]>,
        elapsed: Duration,
        now: SystemTime,
    ) -> String {
        // Missed intervals are skipped; the next line is due at a multiple of the interval.
        let beats = elapsed.as_nanos() / self.interval.as_nanos() + 1;
        let next = self
            .interval
            .saturating_mul(u32::try_from(beats).unwrap_or(u32::MAX));
        self.due = if next > elapsed {
            next
        } else {
            elapsed.saturating_add(self.interval)
        };
        let moment = Sample::read(progress, elapsed);
        let seconds = elapsed.saturating_sub(self.last.elapsed).as_secs_f64();
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let mut text = String::new();
        if !self.heading_printed {
            self.heading_printed = true;
            text = format!(
                "{:<20} {:>13} {:>15} {:>9} {:>9} {:>9} {:>8} {:>9} {:>12}\n",
                "#time",
                "packets",
                "bytes",
                "packets/s",
                "bits/s",
                "lost",
                "flows",
                "records",
                "records_lost"
            );
        }
        let [records, records_lost] = [0, 1].map(|index| {
            records.map_or_else(
                || "-".to_owned(),
                |records: [u64; 2]| records[index].to_string(),
            )
        });
        text += &format!(
            "{:<20} {:>13} {:>15} {:>9} {:>9} {:>9} {:>8} {:>9} {:>12}\n",
            humantime::format_rfc3339_seconds(now).to_string(),
            moment.packets,
            moment.bytes,
            units::compact(rate(moment.packets, self.last.packets)),
            units::compact(rate(moment.bytes, self.last.bytes) * 8.0),
            moment.lost,
            moment.flows,
            records,
            records_lost,
        );
        self.last = moment;
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::sync::atomic::Ordering;
    use std::sync::{Arc, Mutex};

    /// A terminal of one line, 80 characters wide.
    #[derive(Clone, Debug, Default)]
    struct OneLine(Arc<Mutex<String>>);

    impl OneLine {
        fn contents(&self) -> String {
            self.0.lock().unwrap().trim_end().to_owned()
        }
    }

    impl TermLike for OneLine {
        fn width(&self) -> u16 {
            80
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0
                .lock()
                .unwrap()
                .push_str(text.trim_start_matches('\r'));
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().unwrap().clear();
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn progress(packets: u64, position: u64, size: u64) -> Progress {
        let progress = Progress::new(2);
        for queue in &progress.queues {
            queue.packets.store(packets / 2, Ordering::Relaxed);
            queue.bytes.store(packets / 2 * 64, Ordering::Relaxed);
            queue.flows.store(10, Ordering::Relaxed);
        }
        progress.queues[0]
            .position
            .store(position, Ordering::Relaxed);
        progress.queues[0].size.store(size, Ordering::Relaxed);
        progress
    }

    fn bar(progress: &Progress) -> String {
        let term = OneLine::default();
        let mut bar = FileBar::with_target(ProgressDrawTarget::term_like(Box::new(term.clone())));
        bar.tick(progress, Duration::from_secs(2));
        let text = term.contents();
        bar.close();
        assert_eq!(term.contents(), "");
        text
    }

    #[test]
    fn known_size_gives_a_bar() {
        let text = bar(&progress(3_000_000, 50, 200));
        assert!(text.starts_with(" 25 % ==="), "{text}");
        assert!(
            text.ends_with(" left  3,000,000 packets  1.50 Mpps"),
            "{text}"
        );
        // The file grew while it was read.
        assert!(bar(&progress(2, 300, 200)).starts_with("100 % "));
    }

    #[test]
    fn unknown_size_gives_a_spinner() {
        let text = bar(&progress(3_000_000, 50, 0));
        assert!(text.ends_with("  3,000,000 packets  1.50 Mpps"), "{text}");
        assert!(!text.contains('%'), "{text}");
    }

    #[test]
    fn lines_are_aligned_and_every_field_is_one_word() {
        let mut lines = ProgressLines::new(Duration::from_secs(1));
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let first = lines.line(
            &progress(2_000_000, 0, 0),
            None,
            Duration::from_millis(1000),
            now,
        );
        let text = lines.line(
            &progress(18_000_000, 0, 0),
            Some([77, 5]),
            Duration::from_millis(2010),
            now,
        );
        assert_eq!(
            first + &text,
            "\
#time                      packets           bytes packets/s    bits/s      lost    flows   records records_lost
2023-11-14T22:13:20Z       2000000       128000000     2.00M     1.02G         0       20         -            -
2023-11-14T22:13:20Z      18000000      1152000000    15.84M     8.11G         0       20        77            5
"
        );
        for line in text.lines() {
            assert_eq!(line.split_whitespace().count(), 9);
        }
    }

    #[test]
    fn lines_are_due_at_multiples_of_the_interval() {
        let mut lines = ProgressLines::new(Duration::from_secs(10));
        let due_after_line = |lines: &mut ProgressLines, millis| {
            let elapsed = Duration::from_millis(millis);
            lines.line(&progress(2, 0, 0), None, elapsed, SystemTime::UNIX_EPOCH);
            lines.due.as_millis()
        };
        assert_eq!(lines.due.as_millis(), 10_000);
        assert_eq!(due_after_line(&mut lines, 10_030), 20_000);
        assert_eq!(due_after_line(&mut lines, 20_000), 30_000);
        assert_eq!(due_after_line(&mut lines, 57_000), 60_000);
        let mut always = ProgressLines::new(Duration::ZERO);
        always.line(
            &progress(2, 0, 0),
            None,
            Duration::MAX,
            SystemTime::UNIX_EPOCH,
        );
    }
}
