//! Other traffic analysers: which are installed, and the CPU time that they need to read a capture.

use crate::trial::TrialError;
use std::ffi::OsString;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any analyser needs for a capture of these experiments.
const LIMIT: Duration = Duration::from_secs(1800);

/// The kernel's clock ticks per second in `/proc` (proc(5); 100 on every supported architecture).
const PROC_TICKS: f64 = 100.0;

/// The input and the working directory of a program.
pub(super) struct Task<'a> {
    pub(super) capture: &'a Path,
    /// An empty directory for the output.
    pub(super) directory: &'a Path,
    /// Receives and discards flow export datagrams.
    collector: SocketAddr,
}

/// An analyser.
pub(super) struct Peer {
    pub(super) name: &'static str,
    /// Its kind, in a word or two.
    pub(super) kind: &'static str,
    program: &'static str,
    /// The argument that prints its version.
    version: &'static str,
    arguments: fn(&Task<'_>) -> Vec<OsString>,
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// All supported analysers. Each reads the whole capture and writes its default output to files;
/// intrusion detection runs without rules.
const PEERS: [Peer; 6] = [
    Peer {
        name: "Suricata",
        kind: "intrusion detection",
        program: "suricata",
        version: "-V",
        arguments: |task| {
            let mut arguments = words(&["--runmode", "single", "-k", "none", "-S", "/dev/null"]);
            arguments.extend(["-r".into(), task.capture.into()]);
            arguments.extend(["-l".into(), task.directory.into()]);
            arguments
        },
    },
    Peer {
        name: "Zeek",
        kind: "intrusion detection",
        program: "zeek",
        version: "--version",
        arguments: |task| vec!["-C".into(), "-r".into(), task.capture.into()],
    },
    Peer {
        name: "Tstat",
        kind: "statistical analyser",
        program: "tstat",
        version: "-h",
        arguments: |task| vec!["-s".into(), task.directory.into(), task.capture.into()],
    },
    Peer {
        name: "tshark",
        kind: "dissector",
        program: "tshark",
        version: "--version",
        arguments: |task| {
            let mut arguments = words(&["-n", "-q", "-z", "conv,tcp", "-z", "conv,udp", "-r"]);
            arguments.push(task.capture.into());
            arguments
        },
    },
    Peer {
        name: "nfpcapd",
        kind: "flow meter",
        program: "nfpcapd",
        version: "-V",
        arguments: |task| {
            let mut arguments = vec!["-r".into(), task.capture.into()];
            arguments.extend(["-w".into(), task.directory.into()]);
            arguments
        },
    },
    Peer {
        name: "softflowd",
        kind: "flow meter",
        program: "softflowd",
        version: "-h",
        arguments: |task| {
            // Its default of 8192 flows expires the others early.
            let mut arguments = words(&["-d", "-v", "9", "-m", "1000000", "-c", "none"]);
            arguments.extend(["-p".into(), task.directory.join("pid").into()]);
            arguments.extend(["-n".into(), task.collector.to_string().into()]);
            arguments.extend(["-r".into(), task.capture.into()]);
            arguments
        },
    },
];

/// The names of all supported analysers.
pub(super) fn names() -> String {
    PEERS.map(|peer| peer.name).join(", ")
}

/// Returns the installed analysers.
pub(super) fn installed() -> Vec<&'static Peer> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian installs daemons there.
    let directories: Vec<PathBuf> = std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
        .collect();
    PEERS
        .iter()
        .filter(|peer| {
            directories
                .iter()
                .any(|directory| directory.join(peer.program).is_file())
        })
        .collect()
}

impl Peer {
    fn command(&self) -> Command {
        let daemon = Path::new("/usr/sbin").join(self.program);
        let found = std::env::var_os("PATH").is_some_and(|path| {
            std::env::split_paths(&path).any(|directory| directory.join(self.program).is_file())
        });
        if found || !daemon.is_file() {
            Command::new(self.program)
        } else {
            Command::new(daemon)
        }
    }

    /// Returns the first line with a digit of the program's version output.
    pub(super) fn version(&self) -> String {
        let output = self
            .command()
            .arg(self.version)
            .stdin(Stdio::null())
            .output();
        let text = output.map_or(Vec::new(), |output| [output.stdout, output.stderr].concat());
        let text = String::from_utf8_lossy(&text);
        let numbered = |line: &&str| line.chars().any(|letter| letter.is_ascii_digit());
        let line = text.lines().find(numbered).unwrap_or_default().trim();
        let end = [" (Git", ". "].into_iter().filter_map(|end| line.find(end));
        line[..end.min().unwrap_or(line.len())].to_owned()
    }

    /// Returns the CPU time for `task`, in seconds.
    pub(super) fn cost(&self, task: &Task<'_>) -> Result<f64, TrialError> {
        let mut command = self.command();
        command.args((self.arguments)(task));
        cost(self.name, &mut command, task.directory)
    }
}

/// Runs `command` and returns the CPU time of all its threads, in seconds.
///
/// # Errors
/// When it cannot start, fails, or exceeds the time limit.
pub(super) fn cost(name: &str, command: &mut Command, directory: &Path) -> Result<f64, TrialError> {
    let missing = |error: String| TrialError::Missing(format!("{name}: {error}"));
    let io = |error: std::io::Error| missing(error.to_string());
    let log = directory.join("stderr.txt");
    let stderr = fs::File::create(&log).map_err(io)?;
    let before = children_seconds().ok_or_else(|| missing("no /proc/self/stat".into()))?;
    let mut child = command
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .map_err(io)?;
    if !wait(&mut child).map_err(io)? {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let last = text.lines().last().unwrap_or("no error message");
        return Err(missing(format!("it failed: {last}")));
    }
    let after = children_seconds().unwrap_or(before);
    Ok(after - before)
}

/// Waits for the process; returns whether it succeeded within the limit.
fn wait(child: &mut Child) -> std::io::Result<bool> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if begun.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the CPU time of this process's waited-for children, in seconds.
fn children_seconds() -> Option<f64> {
    children_seconds_in(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// `cutime` and `cstime`, fields 16 and 17; the name in field 2 may hold anything (proc(5)).
fn children_seconds_in(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(16 - 3);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / PROC_TICKS)
}

/// A temporary directory, removed on drop, and a flow collector for programs that need one.
pub(super) struct Workspace {
    directory: PathBuf,
    /// Never read: datagrams that do not fit its buffer are dropped.
    collector: UdpSocket,
    tasks: std::cell::Cell<u32>,
}

impl Workspace {
    pub(super) fn new(name: &str) -> std::io::Result<Self> {
        let directory =
            std::env::temp_dir().join(format!("flowatch-{name}-{}", std::process::id()));
        // A killed process with the same number may have left it.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory)?;
        Ok(Self {
            directory,
            collector: UdpSocket::bind("127.0.0.1:0")?,
            tasks: std::cell::Cell::new(0),
        })
    }

    /// The path of a file in it.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Runs `work` with a task to read `capture`, and removes its output afterwards.
    pub(super) fn task<T>(
        &self,
        capture: &Path,
        work: impl FnOnce(&Task<'_>) -> Result<T, TrialError>,
    ) -> Result<T, TrialError> {
        let number = self.tasks.get();
        self.tasks.set(number + 1);
        let directory = self.directory.join(format!("run-{number}"));
        fs::create_dir(&directory).map_err(TrialError::Link)?;
        let collector = self.collector.local_addr().map_err(TrialError::Link)?;
        let result = work(&Task {
            capture,
            directory: &directory,
            collector,
        });
        fs::remove_dir_all(&directory).map_err(TrialError::Link)?;
        result
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // Files that cannot be removed are in the temporary directory.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_cpu_time_of_children_for_any_process_name() {
        let stat = "7 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 150 25 16 17";
        assert_eq!(children_seconds_in(stat), Some(1.75));
        assert_eq!(children_seconds_in("7 (a) S 1"), None);
        let workspace = Workspace::new("test").unwrap();
        let spin = "n=0; while [ $n -lt 200000 ]; do n=$((n+1)); done";
        let run = |script: &str| {
            workspace.task(Path::new("/dev/null"), |task| {
                cost(
                    "sh",
                    Command::new("sh").args(["-c", script]),
                    task.directory,
                )
            })
        };
        assert!(run(spin).unwrap() > 0.0);
        let failed = run("echo why >&2; exit 3").unwrap_err().to_string();
        assert_eq!(failed, "sh: it failed: why");
    }

    #[test]
    fn installed_analysers_report_a_version() {
        for peer in installed() {
            assert!(!peer.version().is_empty(), "{}", peer.name);
        }
    }
}
