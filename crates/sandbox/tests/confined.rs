//! Confines this whole process: a program of its own, so that no other test is in it.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use sandbox::{Exemptions, Needs, State};
use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;

/// What the process may do now, as the thread that calls it finds out.
fn check(inputs: &Path, outputs: &Path, port: u16) {
    // Needed later: other inputs, new outputs in place of old ones, threads.
    assert_eq!(fs::read_to_string(inputs.join("later")).unwrap(), "packets");
    let file = outputs.join("flows.partial");
    fs::write(&file, "records").unwrap();
    fs::rename(&file, outputs.join("flows")).unwrap();
    fs::remove_file(outputs.join("flows")).unwrap();
    fs::create_dir(outputs.join("new")).unwrap();
    fs::remove_dir(outputs.join("new")).unwrap();
    fs::write("/dev/null", "x").unwrap();
    assert!(fs::read_to_string("/proc/self/status").is_ok());
    assert!(fs::read_dir("/sys/class/net").is_ok());
    std::thread::spawn(|| ()).join().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    // A removed directory, created anew.
    fs::remove_dir(outputs).unwrap();
    fs::create_dir(outputs).unwrap();
    fs::write(outputs.join("flows"), "records").unwrap();
    fs::remove_file(outputs.join("flows")).unwrap();
    // Nothing else.
    let denied = |result: std::io::Result<()>| {
        let error = result.unwrap_err();
        let kinds = [ErrorKind::PermissionDenied, ErrorKind::Unsupported];
        assert!(kinds.contains(&error.kind()), "{error:?}");
    };
    denied(fs::read("/etc/passwd").map(drop));
    denied(fs::read(outputs.join("../../secret")).map(drop));
    denied(fs::write(inputs.join("new"), ""));
    denied(fs::write("/proc/self/comm", "x"));
    denied(TcpListener::bind("127.0.0.1:0").map(drop));
    denied(TcpStream::connect(("127.0.0.1", port ^ 1)).map(drop));
    denied(Command::new("true").spawn().map(drop));
    denied(std::os::unix::fs::chown(outputs, Some(1), None));
}

#[test]
fn every_thread_reaches_what_the_run_needs_and_nothing_else() {
    // Of the build: removing it afterwards needs rights that are gone then.
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("confined");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir(&directory).unwrap();
    let (inputs, outputs) = (directory.join("in"), directory.join("parent/out"));
    for directory in [&inputs, &outputs] {
        fs::create_dir_all(directory).unwrap();
    }
    fs::write(inputs.join("first"), "").unwrap();
    fs::write(inputs.join("later"), "packets").unwrap();
    fs::write(directory.join("secret"), "").unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();

    let (start, started) = channel::<()>();
    let (read, written) = (inputs.clone(), outputs.clone());
    let waiting = std::thread::spawn(move || {
        started.recv().unwrap();
        check(&read, &written, port);
    });
    let needs = Needs {
        reads: vec![inputs.join("first")],
        writes: vec![outputs.join("flows")],
        tcp_ports: vec![port],
        network: true,
        ..Needs::default()
    };
    let status = sandbox::apply(&needs, &Exemptions::default());
    assert!(status.warnings().is_empty(), "{status}");
    assert!(status.threads >= 3, "{status:?}");
    for (name, state) in status.parts() {
        assert!(matches!(state, State::InForce(_)), "{name} {state:?}");
    }
    // Calling thread, a thread that ran before, and one that begins now.
    check(&inputs, &outputs, port);
    start.send(()).unwrap();
    waiting.join().unwrap();
    std::thread::spawn(move || check(&inputs, &outputs, port))
        .join()
        .unwrap();
    assert!(udp.send_to(b"x", "127.0.0.1:9").is_ok());
}
