//! Runs the command to its end within a time limit, or in the background.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Far longer than any run in these tests, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(90);

/// Time between polls of a process.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Exit status; `None` if a signal ended the process.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    /// Standard error without messages about waiting ([`is_wait_message`]).
    pub(crate) stderr: String,
}

impl Outcome {
    /// Asserts success without messages. Returns standard output.
    #[track_caller]
    pub(crate) fn quiet_success(self) -> Vec<u8> {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""));
        self.stdout
    }
}

/// Returns `flowatch watch` with these flags, split at white space, and an empty standard input.
pub(crate) fn watch(flags: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowatch"));
    command.arg("watch").args(flags.split_whitespace());
    command.stdin(Stdio::null());
    command
}

/// Runs a command to its end.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Outcome {
    run_within(command, TIMEOUT).unwrap_or_else(|| panic!("hangs: {command:?}"))
}

/// Runs a command to its end. Kills it and returns `None` after `limit`.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Option<Outcome> {
    let mut running = Running::start(command);
    let stdout = running.child.stdout.take().unwrap();
    let stdout = in_background(move || read_to_end(stdout));
    running.finish_within(limit, Some(&stdout))
}

/// Runs a command to its end. Also returns its peak resident memory in KiB.
#[track_caller]
pub(crate) fn run_measured(command: &mut Command) -> (Outcome, u64) {
    let mut running = Running::start(command);
    let stdout = running.child.stdout.take().unwrap();
    let stdout = in_background(move || read_to_end(stdout));
    let status = format!("/proc/{}/status", running.child.id());
    let mut peak_kib = 0;
    let started = Instant::now();
    while running.child.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < TIMEOUT, "hangs: {command:?}");
        // The kernel records the peak, so the last poll sees it, except for the last moments.
        let text = fs::read_to_string(&status).unwrap_or_default();
        peak_kib = text
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .and_then(|line| line.trim().strip_suffix(" kB"))
            .map_or(peak_kib, |peak| peak.parse().unwrap());
        thread::sleep(POLL_INTERVAL);
    }
    let outcome = running.finish_within(TIMEOUT, Some(&stdout)).unwrap();
    (outcome, peak_kib)
}

/// Creates a named pipe in a directory.
pub(crate) fn named_pipe(directory: &Path) -> PathBuf {
    let pipe = directory.join("pipe");
    let status = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(status.success());
    pipe
}

/// Whether a line is a message about waiting, which any run may print on a busy machine, or the one that a
/// live run is ready. Tests that expect such a message wait for it.
fn is_wait_message(line: &str) -> bool {
    [
        "listening on ",
        "the link is down; waiting up to",
        ": the link is up",
        "an output has not accepted all records yet",
    ]
    .iter()
    .any(|words| line.contains(words))
}

/// A run in the background, killed on drop.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    /// Standard error so far.
    stderr: String,
}

impl Running {
    /// Starts a command and a thread that reads its standard error.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (sender, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || {
            for line in stderr.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned() + "\n";
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            lines,
            stderr: String::new(),
        }
    }

    /// Takes its standard input, which must be a pipe.
    pub(crate) fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// Takes its standard output. The caller reads it before [`Running::finish`].
    pub(crate) fn stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().unwrap()
    }

    /// Gives back what [`Running::stdout`] returned, for [`Running::finish`] to read the rest.
    pub(crate) fn return_stdout(&mut self, stdout: ChildStdout) {
        self.child.stdout = Some(stdout);
    }

    /// Sends a signal as soon as the process handles it.
    pub(crate) fn signal_when_handled(&self, name: &str) {
        let deadline = Instant::now() + TIMEOUT;
        let status = format!("/proc/{}/status", self.id());
        let handles = |text: &str| {
            let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            // SIGUSR1, which is handled together with all others.
            mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() >> 9 & 1 == 1)
        };
        while !handles(&fs::read_to_string(&status).unwrap()) {
            assert!(Instant::now() < deadline, "it does not handle signals");
            thread::sleep(POLL_INTERVAL);
        }
        self.signal(name);
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line on standard error for which `wanted` is true.
    #[track_caller]
    pub(crate) fn wait_for_line(&mut self, wanted: impl Fn(&str) -> bool) {
        assert!(
            self.prints_line(wanted),
            "it exited; standard error:\n{}",
            self.stderr
        );
    }

    /// Waits for a line on standard error for which `wanted` is true. Returns `false` if the process
    /// exits without printing one.
    #[track_caller]
    pub(crate) fn prints_line(&mut self, wanted: impl Fn(&str) -> bool) -> bool {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    self.stderr.push_str(&line);
                    if wanted(&line) {
                        return true;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(error) => panic!("{error}; standard error:\n{}", self.stderr),
            }
        }
    }

    /// Waits for a progress line with at least this many packets received or lost.
    #[track_caller]
    pub(crate) fn wait_for_packets(&mut self, packets: u64) {
        self.wait_for_line(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, processed, _, _, _, lost, ..] = fields[..] else {
                return false;
            };
            let number = |text: &str| text.parse::<u64>().unwrap_or(0);
            // Progress lines begin with a time, unlike the heading and messages.
            line.starts_with(|first: char| first.is_ascii_digit())
                && number(processed) + number(lost) >= packets
        });
    }

    /// Sends a signal: INT, TERM, STOP, CONT.
    pub(crate) fn signal(&self, name: &str) {
        let line = format!("kill -{name} {}", self.id());
        let status = Command::new("sh").args(["-c", &line]).status().unwrap();
        assert!(status.success(), "{line}");
    }

    /// Waits for it to exit, without reading its standard output.
    #[track_caller]
    pub(crate) fn wait_for_exit(&mut self) {
        let deadline = Instant::now() + TIMEOUT;
        while !self.has_exited() {
            assert!(Instant::now() < deadline, "it does not exit");
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Sends SIGINT until it has exited. Returns the number of signals sent: two that are pending at
    /// once count as one.
    #[track_caller]
    pub(crate) fn interrupt_until_exit(&mut self) -> u32 {
        let deadline = Instant::now() + TIMEOUT;
        let mut signals = 0;
        while !self.has_exited() {
            assert!(
                Instant::now() < deadline,
                "it does not exit after {signals} signals"
            );
            self.signal("INT");
            signals += 1;
            thread::sleep(Duration::from_millis(20));
        }
        signals
    }

    /// Whether it has exited.
    pub(crate) fn has_exited(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for it to exit. The outcome contains standard output unless that has been taken.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Outcome {
        let stdout = self
            .child
            .stdout
            .take()
            .map(|stdout| in_background(move || read_to_end(stdout)));
        let id = self.id();
        self.finish_within(TIMEOUT, stdout.as_ref())
            .unwrap_or_else(|| panic!("process {id} does not exit"))
    }

    fn finish_within(
        mut self,
        limit: Duration,
        stdout: Option<&Receiver<Vec<u8>>>,
    ) -> Option<Outcome> {
        let deadline = Instant::now() + limit;
        let left = || deadline.saturating_duration_since(Instant::now());
        let stdout = match stdout {
            Some(stdout) => stdout.recv_timeout(left()).ok()?,
            None => Vec::new(),
        };
        loop {
            match self.lines.recv_timeout(left()) {
                Ok(line) => self.stderr.push_str(&line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => return None,
            }
        }
        let status: ExitStatus = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if left().is_zero() {
                return None;
            }
            thread::sleep(POLL_INTERVAL);
        };
        Some(Outcome {
            code: status.code(),
            stdout,
            stderr: self
                .stderr
                .split_inclusive('\n')
                .filter(|line| !is_wait_message(line))
                .collect(),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails if it has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_to_end(mut input: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Runs `work` on a thread. Returns a channel for its result.
fn in_background<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (sender, receiver) = channel();
    thread::spawn(move || sender.send(work()));
    receiver
}
