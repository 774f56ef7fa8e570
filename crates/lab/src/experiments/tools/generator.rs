//! The paper's generators as receivers, if installed: each runs a script of ours that receives packets and
//! writes the rates to a file.

use super::error::{DEVICE, missing};
use crate::statistics::median;
use crate::trial::TrialError;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Time limit for start and end, which take seconds each.
const START_AND_END_MAX: Duration = Duration::from_secs(30);

/// Separates the memory files of their DPDK from those of other processes.
const FILE_PREFIX: &str = "flowatch-lab";

/// A generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Kind {
    MoonGen,
    Pktgen,
}

impl Kind {
    pub(in super::super) const ALL: [Self; 2] = [Self::MoonGen, Self::Pktgen];

    pub(in super::super) const fn name(self) -> &'static str {
        match self {
            Self::MoonGen => "MoonGen",
            Self::Pktgen => "pktgen-DPDK",
        }
    }

    const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::MoonGen => &["MoonGen", "moongen"],
            Self::Pktgen => &["pktgen", "pktgen-dpdk", "app-pktgen"],
        }
    }

    const fn script(self) -> &'static str {
        match self {
            Self::MoonGen => include_str!("moongen.lua"),
            Self::Pktgen => include_str!("pktgen.lua"),
        }
    }

    /// Returns the path of the installed program, if any.
    pub(in super::super) fn find(self, path: &OsStr) -> Option<PathBuf> {
        std::env::split_paths(path)
            .flat_map(|directory| self.programs().iter().map(move |name| directory.join(name)))
            .find(|program| program.is_file())
    }

    /// The command line; the program's main thread, which only waits, uses the first of `cores`.
    fn command(self, program: &Path, script: &Path, cores: [usize; 2]) -> std::io::Result<Command> {
        let mut command = Command::new(program);
        let [waits, receives] = cores;
        match self {
            Self::MoonGen => {
                let configuration = script.with_file_name("dpdk-conf.lua");
                fs::write(
                    &configuration,
                    format!(
                        "DPDKConfig {{ cores = {{ {waits}, {receives} }}, cli = {{ \"--no-pci\", \"--vdev\", \
                         \"{DEVICE}\", \"--file-prefix\", \"{FILE_PREFIX}\" }} }}\n"
                    ),
                )?;
                command
                    .arg(script)
                    .arg(format!("--dpdk-config={}", configuration.display()));
            }
            Self::Pktgen => {
                command
                    .args(["-l", &format!("{waits},{receives}"), "--no-pci"])
                    .args(["--vdev", DEVICE, "--file-prefix", FILE_PREFIX, "--"])
                    .args(["-P", "-m", &format!("{receives}.0"), "-f"])
                    .arg(script);
            }
        }
        Ok(command)
    }

    /// Measures the packets per second that it receives.
    pub(super) fn rate(self, program: &Path, seconds: f64) -> Result<f64, TrialError> {
        let failed = |error: &dyn std::fmt::Display| missing(self.name(), error);
        let cores = hw::cores::allowed();
        let &[waits, receives, ..] = &cores[..] else {
            return Err(failed(&"it needs two cores"));
        };
        let directory = tempfile::tempdir().map_err(|error| failed(&error))?;
        let script = directory.path().join("receive.lua");
        let result = directory.path().join("rates");
        fs::write(&script, self.script()).map_err(|error| failed(&error))?;
        let mut child = self
            .command(program, &script, [waits, receives])
            .and_then(|mut command| {
                command
                    .env("FLOWATCH_SECONDS", seconds.to_string())
                    .env("FLOWATCH_RESULT", &result)
                    // Some exit when their standard input ends.
                    .stdin(Stdio::piped())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
            })
            .map_err(|error| failed(&error))?;
        let ended = wait(
            &mut child,
            Duration::from_secs_f64(seconds) + START_AND_END_MAX,
        );
        let text = fs::read_to_string(&result).unwrap_or_default();
        median_rate(&text).ok_or_else(|| failed(&ended))
    }
}

/// Waits for the end of the process, and kills it after `limit`; returns an error message for the case
/// that there is no rate.
fn wait(child: &mut Child, limit: Duration) -> String {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return format!("it reported no rate and ended with {status}"),
            Ok(None) if begun.elapsed() < limit => thread::sleep(Duration::from_millis(20)),
            _ => break,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    format!(
        "it reported no rate and did not end within {} s",
        limit.as_secs()
    )
}

/// Returns the median of the rates in a file with one per line.
fn median_rate(text: &str) -> Option<f64> {
    let rates: Vec<f64> = text.lines().filter_map(|line| line.parse().ok()).collect();
    (!rates.is_empty()).then(|| median(&rates))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// The part of pktgen's Lua interface that the script uses.
    const PKTGEN: &str = r#"
        local calls = 0
        pktgen = {
            screen = function(state) assert(state == "off") end,
            delay = function(milliseconds) assert(milliseconds >= 1000) end,
            portStats = function(ports, kind)
                assert(ports == "all" and kind == "rate")
                calls = calls + 1
                return { [0] = { pkts_rx = calls * 1000000 } }
            end,
            quit = function() os.exit(0) end,
        }
        dofile(arg[#arg])
    "#;

    /// The part of libmoon's Lua interface that the script uses: bursts of 63 frames, and a clock that
    /// advances by a quarter of a second per call.
    const MOONGEN: &str = r#"
        local configuration = arg[#arg]:match("^%-%-dpdk%-config=(.*)$")
        function DPDKConfig(given) assert(#given.cores == 2 and given.cli[3]:match("^net_null0")) end
        dofile(configuration)
        local now = 100
        package.preload.libmoon = function()
            return {
                startTask = function(name, ...) _G[name](...) end,
                waitForTasks = function() end,
                running = function() return true end,
                getTime = function() now = now + 0.25 return now end,
            }
        end
        package.preload.device = function()
            local queue = { tryRecv = function(_, _, wait) assert(wait == 100) return 63 end }
            local port = { getRxQueue = function(_, number) assert(number == 0) return queue end }
            return {
                config = function(given) assert(given.port == 0) return port end,
                waitForLinks = function() end,
            }
        end
        package.preload.memory = function()
            local frames = { free = function(_, count) assert(count == 63) end }
            return { bufArray = function() return frames end }
        end
        dofile(arg[#arg - 1])
        master()
    "#;

    /// Writes a program of this name to the directory: Lua with a stand-in for the generator.
    fn stand_in(directory: &Path, name: &str, lua: &str) -> PathBuf {
        let (program, main) = (directory.join(name), directory.join("main.lua"));
        let shell = format!("#!/bin/sh\nexec lua5.4 {} \"$@\"\n", main.display());
        let written = fs::write(&main, lua)
            .and_then(|()| fs::write(&program, shell))
            .and_then(|()| fs::set_permissions(&program, fs::Permissions::from_mode(0o755)));
        assert!(written.is_ok(), "{written:?}");
        program
    }

    #[test]
    fn finds_programs_on_the_path() {
        let directory = tempfile::tempdir().unwrap();
        for kind in Kind::ALL {
            assert_eq!(kind.find(directory.path().as_os_str()), None);
        }
        let program = directory.path().join("pktgen");
        fs::write(&program, "").unwrap();
        let path = std::env::join_paths(["/nowhere".as_ref(), directory.path()]).unwrap();
        assert_eq!(Kind::MoonGen.find(&path), None);
        assert_eq!(Kind::Pktgen.find(&path), Some(program));
    }

    /// The scripts run in Lua, with stand-ins for the programs' interfaces.
    #[test]
    fn scripts_report_the_received_rate() {
        let directory = tempfile::tempdir().unwrap();
        let pktgen = stand_in(directory.path(), "pktgen", PKTGEN);
        // Three rates: one, two and three million.
        let rate = Kind::Pktgen.rate(&pktgen, 2.5).unwrap();
        assert_eq!(rate, 2e6);
        let moongen = stand_in(directory.path(), "MoonGen", MOONGEN);
        // 63 frames per quarter of a second.
        let rate = Kind::MoonGen.rate(&moongen, 1.0).unwrap();
        assert_eq!(rate, 252.0);
    }

    #[test]
    fn failing_program_reports_its_status() {
        let directory = tempfile::tempdir().unwrap();
        let program = stand_in(directory.path(), "pktgen", "os.exit(3)");
        let error = Kind::Pktgen.rate(&program, 0.1).unwrap_err().to_string();
        assert!(
            error.contains("pktgen-DPDK") && error.contains('3'),
            "{error}"
        );
        let error = Kind::MoonGen.rate(&directory.path().join("none"), 0.1);
        assert!(error.unwrap_err().to_string().contains("MoonGen"));
    }
}
