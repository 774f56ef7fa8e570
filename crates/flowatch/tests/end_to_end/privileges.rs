//! What a run gives up once its inputs and outputs are open: it holds for every thread, in every model,
//! for root and for others, and what the run needs later still works.

use crate::captures;
use crate::command::{Running, run, watch};
use crate::namespace::{Cable, Namespace};
use crate::records;
use crate::summary::Summary;
use seccompiler::{SeccompAction, SeccompFilter};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// A user that every system has: `nobody`.
const NOBODY: u32 = 65534;

const NO_CAPABILITY: &str = "0000000000000000";

/// CAP_SYS_NICE alone, as in /proc.
const ONLY_SYS_NICE: &str = "0000000000800000";

/// Longer than any wait here.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Returns fields of the status of every thread of a process, by the thread's name.
fn threads(process: u32) -> Vec<(String, BTreeMap<String, String>)> {
    let directory = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let statuses = directory.filter_map(|thread| {
        let text = fs::read_to_string(thread.ok()?.path().join("status")).ok()?;
        let fields: BTreeMap<String, String> = text
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        Some((fields["Name"].clone(), fields))
    });
    statuses.collect()
}

/// Asserts that every thread of a process has only these capabilities, in sets other than the bounding
/// set, cannot gain others, and has its system calls filtered. Returns the threads.
#[track_caller]
fn assert_confined(process: u32, capabilities: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let threads = threads(process);
    for (name, fields) in &threads {
        let field = |field: &str| fields[field].as_str();
        assert_eq!(field("NoNewPrivs"), "1", "{name}");
        assert_eq!(field("Seccomp"), "2", "{name}");
        for set in ["CapInh", "CapAmb"] {
            assert_eq!(field(set), NO_CAPABILITY, "{name} {set}");
        }
        for set in ["CapEff", "CapPrm"] {
            let value = field(set);
            // Threads that are no workers have none at all after a change of the user.
            assert!(
                value == capabilities || value == NO_CAPABILITY,
                "{name} {set} {value}"
            );
        }
    }
    threads
}

/// Waits until all threads of a live run work: a progress line is printed.
fn start(command: &mut Command) -> Running {
    let mut running = Running::start(command);
    running.wait_for_packets(0);
    running
}

#[test]
fn every_thread_is_confined_in_every_model() {
    let directory = tempfile::tempdir().unwrap();
    let namespace = Namespace::new();
    for flags in [
        "--buffer 16MiB",
        "--queues 2 -o csv:FILE",
        "--model pipeline --monitors 2",
        "--model cooperative --monitors 2",
        "-o json:tcp://localhost:9 -o csv:udp://localhost:9",
    ] {
        let flags = flags.replace(
            "FILE",
            &directory.path().join("flows").display().to_string(),
        );
        let line = format!(
            "-i lo --duration 60s --interval 50ms -o json:{}/all",
            directory.path().display()
        );
        let command = watch(&format!("{line} {flags}"));
        let running = start(&mut namespace.command_inside(&command));
        let threads = assert_confined(running.id(), NO_CAPABILITY);
        // The main thread, the one for signals, that of the engine, the collector.
        assert!(threads.len() >= 4, "{threads:?}");
        for (name, fields) in &threads {
            assert_eq!(fields["CapBnd"], NO_CAPABILITY, "{name}");
        }
        running.signal("INT");
        let outcome = running.finish();
        assert!(
            outcome.code == Some(0) || flags.contains("tcp"),
            "{outcome:?}"
        );
    }
}

#[test]
fn user_owns_the_outputs_and_has_no_other_rights() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    let out = path.join("out");
    fs::create_dir(&out).unwrap();
    chown(&out, Some(NOBODY), None).unwrap();
    let cable = Cable::new();
    let line = format!(
        "-i right --duration 60s --interval 50ms --user nobody --schedule fifo --rotate 1s \
         --idle-timeout 200ms -o json:{0}/flows.json -o parquet:{0}/parquet --summary json",
        out.display()
    );
    let mut running = start(&mut cable.receiver.command_inside(&watch(&line)));
    for (name, fields) in assert_confined(running.id(), ONLY_SYS_NICE) {
        for ids in ["Uid", "Gid"] {
            let all_nobody = fields[ids]
                .split_whitespace()
                .all(|id| id == NOBODY.to_string());
            assert!(all_nobody, "{name} {}", fields[ids]);
        }
        assert_eq!(fields["CapBnd"], NO_CAPABILITY, "{name}");
        let groups: Vec<&str> = fields["Groups"].split_whitespace().collect();
        assert!(
            groups.iter().all(|group| *group == NOBODY.to_string()),
            "{name}"
        );
    }
    // Files that begin during the run, by rotation.
    let deadline = Instant::now() + TIMEOUT;
    let files = || {
        fs::read_dir(&out)
            .unwrap()
            .map(|entry| entry.unwrap().path())
    };
    while files().filter(|file| file.is_file()).count() < 2 {
        assert!(Instant::now() < deadline, "no second file");
        send_packets(&cable.sender);
        // Longer than the idle timeout: the flows end.
        thread::sleep(Duration::from_millis(500));
    }
    running.signal("INT");
    let summary = read_summary(&mut running);
    assert_eq!(summary.at("/sandbox/user"), "nobody");
    assert_eq!(summary.number("/records_lost"), 0);
    for file in files() {
        let metadata = file.metadata().unwrap();
        assert_eq!(metadata.uid(), NOBODY, "{}", file.display());
        if metadata.is_file() {
            assert_eq!(metadata.mode() & 0o777, 0o640, "{}", file.display());
        }
    }
}

fn send_packets(sender: &Namespace) {
    let mut gen_command = Command::new(env!("CARGO_BIN_EXE_flowatch"));
    gen_command.args(["gen", "-i", "left", "--flows", "10", "-c", "100", "-q"]);
    sender.output(&gen_command);
}

/// Ends a run and parses its summary.
fn read_summary(running: &mut Running) -> Summary {
    let mut last = String::new();
    for line in BufReader::new(running.stdout()).lines() {
        last = line.unwrap();
    }
    Summary::parse(last.as_bytes()).unwrap()
}

#[test]
fn user_that_cannot_be_is_refused() {
    let outcome = run(watch("--user no-such-user -r").arg(captures::example()));
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("useradd"), "{}", outcome.stderr);
    let directory = tempfile::tempdir().unwrap();
    let program = copy_program(directory.path());
    let mut command = as_nobody(&program);
    command.args(["watch", "--user", "root", "-r", "-"]);
    let outcome = run(&mut command);
    assert_eq!(outcome.code, Some(77), "{outcome:?}");
    assert!(outcome.stderr.contains("needs root"), "{}", outcome.stderr);
}

/// Copies the program to where every user reaches it.
fn copy_program(directory: &Path) -> std::path::PathBuf {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.join("flowatch");
    fs::copy(env!("CARGO_BIN_EXE_flowatch"), &program).unwrap();
    program
}

fn as_nobody(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    let (user, group) = (format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"));
    command
        .args([&user, &group, "--clear-groups", "--"])
        .arg(program);
    command
}

#[test]
fn ordinary_user_with_file_capabilities_gives_them_up() {
    let directory = tempfile::tempdir().unwrap();
    let program = copy_program(directory.path());
    let status = Command::new("setcap")
        .arg("cap_net_raw,cap_net_admin+ep")
        .arg(&program)
        .status()
        .expect("this test needs setcap: run ./setup");
    assert!(status.success());
    let mut command = as_nobody(&program);
    command.args("watch -i lo --duration 60s --interval 50ms --summary json".split(' '));
    let namespace = Namespace::new();
    let mut running = start(&mut namespace.command_inside(&command));
    for (name, fields) in assert_confined(running.id(), NO_CAPABILITY) {
        assert!(fields["Uid"].starts_with("65534"), "{name}");
    }
    running.signal("INT");
    let summary = read_summary(&mut running);
    assert_eq!(summary.at("/sandbox/capabilities/state"), "in_force");
    let detail = summary.at("/sandbox/capabilities/detail").as_str().unwrap();
    assert!(detail.contains("CAP_SETPCAP"), "{detail}");
}

#[test]
fn kernel_without_landlock_or_seccomp_is_said_and_the_run_goes_on() {
    for (call, part, other) in [
        (libc::SYS_landlock_create_ruleset, "landlock", "seccomp"),
        (libc::SYS_seccomp, "seccomp", "landlock"),
    ] {
        // A filter of this thread, which the program inherits, takes the system call away.
        let outcome = thread::spawn(move || {
            let filter = SeccompFilter::new(
                [(call, Vec::new())].into(),
                SeccompAction::Allow,
                SeccompAction::Errno(libc::ENOSYS as u32),
                std::env::consts::ARCH.try_into().unwrap(),
            );
            let filter: seccompiler::BpfProgram = filter.unwrap().try_into().unwrap();
            seccompiler::apply_filter(&filter).unwrap();
            run(watch("--summary json -r").arg(captures::example()))
        })
        .join()
        .unwrap();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let warning = format!("sandbox: {part} not in force");
        assert!(
            outcome.stderr.to_lowercase().contains(&warning),
            "{}",
            outcome.stderr
        );
        let summary = Summary::balanced(&outcome);
        assert_eq!(summary.at(&format!("/sandbox/{part}/state")), "missing");
        assert_eq!(summary.at(&format!("/sandbox/{other}/state")), "in_force");
    }
}

#[test]
fn parts_are_turned_off_with_the_reason_in_the_summary() {
    let example = captures::example();
    let outcome = run(watch("--summary json --no-sandbox landlock,seccomp=tests -r").arg(&example));
    let summary = Summary::parse(&outcome.quiet_success()).unwrap();
    for part in ["landlock", "seccomp"] {
        assert_eq!(summary.at(&format!("/sandbox/{part}/state")), "off");
        assert_eq!(summary.at(&format!("/sandbox/{part}/detail")), "tests");
    }
    for part in ["capabilities", "no_new_privs"] {
        assert_eq!(summary.at(&format!("/sandbox/{part}/state")), "in_force");
    }
    let outcome = run(watch("--no-sandbox all -r").arg(&example));
    let text = String::from_utf8(outcome.quiet_success()).unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("Sandbox: "))
        .unwrap();
    assert_eq!(line.matches(": off (--no-sandbox)").count(), 4, "{line}");
    for wrong in ["walls", "no-new-privs", "seccomp="] {
        let outcome = run(watch(&format!("--no-sandbox {wrong} -r")).arg(&example));
        assert_eq!(outcome.code, Some(2), "{wrong}");
    }
}

#[test]
fn receiver_that_comes_later_is_found_by_its_name() {
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let line = format!("-o json:tcp://localhost:{} --sort -r", address.port());
    let mut running = Running::start(watch(&line).arg(captures::example()));
    // The first attempt, after the sandbox, finds no one.
    running.wait_for_line(|line| line.contains("refused"));
    let listener = TcpListener::bind(address).unwrap();
    let (stream, _) = listener.accept().unwrap();
    let lines: Vec<String> = BufReader::new(stream).lines().map(Result::unwrap).collect();
    assert!(!lines.is_empty());
    assert_eq!(running.finish().code, Some(0));
}

#[test]
fn root_writes_into_the_directory_of_another_user_during_the_run_too() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    fs::create_dir(&out).unwrap();
    chown(&out, Some(NOBODY), Some(NOBODY)).unwrap();
    let line = format!(
        "--rotate 1s -o csv:{}/flows.csv --summary json -r",
        out.display()
    );
    let outcome = run(watch(&line).arg(captures::example()));
    let summary = Summary::parse(&outcome.quiet_success()).unwrap();
    let detail = summary.at("/sandbox/capabilities/detail").as_str().unwrap();
    assert!(detail.contains("CAP_DAC_OVERRIDE kept"), "{detail}");
    assert_eq!(summary.number("/records_lost"), 0);
    let files: Vec<_> = fs::read_dir(&out).unwrap().collect();
    assert!(files.len() >= 2, "{files:?}");
}

#[test]
fn outputs_of_every_format_are_closed_to_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let line = format!(
        "--statistics full -o json:{0}/a.json -o csv:{0}/a.csv.gz -o parquet:{0}/a.parquet -o parquet:{0}/p \
         -o tstat:{0}/t -o rrd:{0}/r -r",
        path.display()
    );
    run(watch(&line).arg(captures::example())).quiet_success();
    let mut directories = vec![path.to_owned()];
    let mut files = 0;
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap().path();
            let metadata = entry.metadata().unwrap();
            let open = match metadata.is_dir() {
                true => 0o027,
                false => 0o137,
            };
            assert_eq!(metadata.mode() & open, 0, "{}", entry.display());
            files += usize::from(metadata.is_file());
            if metadata.is_dir() {
                directories.push(entry);
            }
        }
    }
    assert!(files > 6, "{files} files");
    let json = fs::read(path.join("a.json")).unwrap();
    assert!(!records::json(&json).is_empty());
}

#[test]
fn names_in_a_filter_are_looked_up_during_the_run() {
    let count = |filter: &str| {
        let mut command = watch("-q --summary json -r");
        let outcome = run(command.arg(captures::example()).arg(filter));
        Summary::balanced(&outcome).number("/packets")
    };
    let expected = count("tcp port 80");
    assert!(expected > 0);
    assert_eq!(count("tcp port http"), expected);
}
