//! Runs the command: to its end within a time limit, or beside the test.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// No run of these tests takes nearly as long, on a busy machine either.
const LIMIT: Duration = Duration::from_secs(90);

/// Between two looks at a process.
const LOOK: Duration = Duration::from_millis(2);

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Exit status; none where a signal ended the process.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    /// Without the lines that come where something takes long ([`tells_of_waiting`]).
    pub(crate) stderr: String,
}

impl Outcome {
    /// The run must have ended well and said nothing; its standard output.
    #[track_caller]
    pub(crate) fn quiet_success(self) -> Vec<u8> {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""));
        self.stdout
    }
}

/// `flowatch watch` with these flags, as a shell would split them, and nothing to read.
pub(crate) fn watch(flags: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowatch"));
    command.arg("watch").args(flags.split_whitespace());
    command.stdin(Stdio::null());
    command
}

/// Runs it to its end.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Outcome {
    run_within(command, LIMIT).unwrap_or_else(|| panic!("hangs: {command:?}"))
}

/// Runs it to its end, or for so long: then it is killed, and there is no outcome.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Option<Outcome> {
    let mut running = Running::start(command);
    let stdout = running.child.stdout.take().unwrap();
    let stdout = in_background(move || bytes_of(stdout));
    running.finish_within(limit, Some(&stdout))
}

/// The same, and the most memory that it had resident, in KiB.
#[track_caller]
pub(crate) fn run_measured(command: &mut Command) -> (Outcome, u64) {
    let mut running = Running::start(command);
    let stdout = running.child.stdout.take().unwrap();
    let stdout = in_background(move || bytes_of(stdout));
    let status = format!("/proc/{}/status", running.child.id());
    let mut peak_kib = 0;
    let started = Instant::now();
    while running.child.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < LIMIT, "hangs: {command:?}");
        // The kernel keeps the peak: the last look sees it, but for the process' last moments.
        let text = fs::read_to_string(&status).unwrap_or_default();
        peak_kib = text
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .and_then(|line| line.trim().strip_suffix(" kB"))
            .map_or(peak_kib, |peak| peak.parse().unwrap());
        thread::sleep(LOOK);
    }
    let outcome = running.finish_within(LIMIT, Some(&stdout)).unwrap();
    (outcome, peak_kib)
}

/// A named pipe in this directory.
pub(crate) fn named_pipe(directory: &Path) -> PathBuf {
    let pipe = directory.join("pipe");
    let status = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(status.success());
    pipe
}

/// Whether a line is one of those that a run says of what takes long, which any of them may on a busy
/// machine. Tests that want one of them wait for it.
fn tells_of_waiting(line: &str) -> bool {
    [
        "the link is down; it is waited for",
        ": the link is up",
        "an output has not taken all records yet",
    ]
    .iter()
    .any(|words| line.contains(words))
}

/// A run beside the test; killed when it is let go.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    /// What was read of standard error.
    said: String,
}

impl Running {
    /// Starts it; its standard error is read from now on.
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
            said: String::new(),
        }
    }

    /// Its standard input, where that is a pipe.
    pub(crate) fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// Its standard output; to be read before [`Running::finish`] by whoever takes it.
    pub(crate) fn stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().unwrap()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line on standard error that is as wanted.
    #[track_caller]
    pub(crate) fn await_line(&mut self, wanted: impl Fn(&str) -> bool) {
        assert!(
            self.says(wanted),
            "it ended; so far it said:\n{}",
            self.said
        );
    }

    /// Waits for a line on standard error that is as wanted; whether it came before the end.
    #[track_caller]
    pub(crate) fn says(&mut self, wanted: impl Fn(&str) -> bool) -> bool {
        let deadline = Instant::now() + LIMIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    self.said.push_str(&line);
                    if wanted(&line) {
                        return true;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(error) => panic!("{error}; so far it said:\n{}", self.said),
            }
        }
    }

    /// Waits for a line of progress in which this many packets have been received or lost.
    #[track_caller]
    pub(crate) fn await_packets(&mut self, packets: u64) {
        self.await_line(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, processed, _, _, _, lost, ..] = fields[..] else {
                return false;
            };
            let number = |text: &str| text.parse::<u64>().unwrap_or(0);
            // The heading and messages do not begin with a time.
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

    /// Waits for its end, while nobody reads its standard output.
    #[track_caller]
    pub(crate) fn await_end(&mut self) {
        let deadline = Instant::now() + LIMIT;
        while !self.has_ended() {
            assert!(Instant::now() < deadline, "it does not end");
            thread::sleep(LOOK);
        }
    }

    /// Interrupts it until it has ended, and returns how many signals that took: two that come
    /// before the process runs are one to it.
    #[track_caller]
    pub(crate) fn interrupt_until_ended(&mut self) -> u32 {
        let deadline = Instant::now() + LIMIT;
        let mut signals = 0;
        while !self.has_ended() {
            assert!(Instant::now() < deadline, "{signals} signals do not end it");
            self.signal("INT");
            signals += 1;
            thread::sleep(Duration::from_millis(20));
        }
        signals
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end. Standard output is part of the outcome if nobody has taken it.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Outcome {
        let stdout = self
            .child
            .stdout
            .take()
            .map(|stdout| in_background(move || bytes_of(stdout)));
        let id = self.id();
        self.finish_within(LIMIT, stdout.as_ref())
            .unwrap_or_else(|| panic!("process {id} does not end"))
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
                Ok(line) => self.said.push_str(&line),
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
            thread::sleep(LOOK);
        };
        Some(Outcome {
            code: status.code(),
            stdout,
            stderr: self
                .said
                .split_inclusive('\n')
                .filter(|line| !tells_of_waiting(line))
                .collect(),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended is not killed again.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn bytes_of(mut input: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).unwrap();
    bytes
}

/// What `work` gives, when it is done.
fn in_background<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (sender, receiver) = channel();
    thread::spawn(move || sender.send(work()));
    receiver
}
