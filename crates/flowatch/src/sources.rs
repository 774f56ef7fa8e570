//! The registry of live sources: everything that depends on what a name after `-i` means.
//!
//! To add a kind: a port in the crate `port`, a file here that implements [`SourceKind`], and its line
//! in [`KINDS`].

mod any;
mod dpdk;
mod flags;
mod interface;
mod kind;
mod null;

use crate::arguments::WatchArguments;
use crate::doctor::finding::Finding;
use crate::doctor::system::System;
pub(crate) use kind::{Duplex, KernelLink, LiveOptions, Prepared, SourceKind};
use port::{Port, PortError};

/// All kinds. The first that matches a name is its kind; the last matches every name.
static KINDS: [&dyn SourceKind; 4] = [&dpdk::Dpdk, &null::Null, &any::Any, &interface::Interface];

/// Returns the kind of the source `name`.
pub(crate) fn kind(name: &str) -> &'static dyn SourceKind {
    let found = KINDS.iter().find(|kind| kind.matches(name));
    *found.unwrap_or(&KINDS[KINDS.len() - 1])
}

/// The names of one kind.
struct Group<'a> {
    kind: &'static dyn SourceKind,
    names: Vec<&'a str>,
}

/// Groups names by their kinds.
fn groups(names: &[String]) -> Vec<Group<'_>> {
    let names_of = |kind: &dyn SourceKind| -> Vec<&str> {
        let names = names.iter().map(String::as_str);
        names
            .filter(|name| self::kind(name).label() == kind.label())
            .collect()
    };
    let groups = KINDS.iter().map(|&kind| Group {
        kind,
        names: names_of(kind),
    });
    groups.filter(|group| !group.names.is_empty()).collect()
}

/// Rejects flags of `watch` that do not apply to its sources. Without sources, it reads files.
///
/// # Errors
/// A one-line message.
pub(crate) fn check(names: &[String], arguments: &WatchArguments) -> Result<(), String> {
    let groups = groups(names);
    for (flag, _) in flags::given(arguments).iter().filter(|(_, given)| *given) {
        if !groups.iter().any(|group| group.kind.flags().contains(flag)) {
            return Err(refusal(flag, &groups));
        }
    }
    for group in &groups {
        if arguments.engine.queues > 1 && !group.kind.has_queues() {
            return Err(format!(
                "--queues {}: {} have no queues: name the interfaces, each with its own -i",
                arguments.engine.queues,
                group.kind.label()
            ));
        }
        group.kind.check(arguments)?;
    }
    check_eal(names, &arguments.dpdk.eal)
}

/// Returns the message that refuses a flag.
fn refusal(flag: &str, groups: &[Group<'_>]) -> String {
    let having: Vec<_> = KINDS
        .iter()
        .filter(|kind| kind.flags().contains(&flag))
        .map(|kind| kind.label())
        .collect();
    let having = having.join(" and ");
    let Some(group) = groups.first() else {
        return format!("{flag} is for {having}, not for files");
    };
    let (label, flags) = (group.kind.label(), group.kind.flags().join(", "));
    let instead = match flags.as_str() {
        "" => String::new(),
        flags => format!("; they have {flags}"),
    };
    format!("{flag} is for {having}, not for {label}{instead}")
}

/// Whether any of the sources is a DPDK device.
pub(crate) fn use_dpdk(names: &[String]) -> bool {
    names.iter().any(|name| kind(name).takes_eal_arguments())
}

/// Checks the arguments after `--`.
///
/// # Errors
/// A one-line message, if no source takes them or if one is not an EAL argument.
pub(crate) fn check_eal(names: &[String], eal: &[String]) -> Result<(), String> {
    let used = names.iter().any(|name| kind(name).takes_eal_arguments());
    dpdk::check_eal(eal, used)
}

/// Starts what is needed to open the sources.
///
/// # Errors
/// If opening them would fail.
pub(crate) fn prepare(
    names: &[String],
    options: &LiveOptions<'_>,
) -> Result<Vec<Prepared>, PortError> {
    let mut prepared = Vec::new();
    for group in groups(names) {
        prepared.extend(group.kind.prepare(&group.names, options)?);
    }
    Ok(prepared)
}

/// Opens the sources: a port for each queue, in the order of the names.
///
/// # Errors
/// If a source cannot be opened.
pub(crate) fn open(
    names: &[String],
    options: &LiveOptions<'_>,
) -> Result<Vec<Box<dyn Port>>, PortError> {
    let mut opened = Vec::new();
    for group in groups(names) {
        let ports = group.kind.open(&group.names, options)?;
        opened.push((group.kind.label(), ports.into_iter()));
    }
    let mut ports = Vec::with_capacity(names.len() * options.queues);
    for name in names {
        let label = kind(name).label();
        let of_kind = opened.iter_mut().find(|(opened, _)| *opened == label);
        ports.extend(
            of_kind
                .into_iter()
                .flat_map(|(_, ports)| ports.take(options.queues)),
        );
    }
    Ok(ports)
}

/// Returns the sections of `doctor` about sources.
pub(crate) fn findings(system: &System) -> Vec<(&'static str, Vec<Finding>)> {
    KINDS
        .iter()
        .filter_map(|kind| kind.findings(system))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command};
    use clap::Parser;

    fn check_line(line: &str) -> Result<(), String> {
        let words = ["flowatch", "watch"]
            .into_iter()
            .chain(line.split_whitespace());
        let Command::Watch(arguments) = Arguments::parse_from(words).command else {
            panic!("not watch");
        };
        check(&arguments.interfaces, &arguments)
    }

    #[test]
    fn every_name_has_one_kind() {
        for (name, label) in [
            ("dpdk:net_null0", "DPDK"),
            ("dpdk:", "DPDK"),
            ("null:", "discards"),
            ("eth0", "interfaces"),
            ("eth0@2", "interfaces"),
            ("nulls", "interfaces"),
            ("any", "all interfaces"),
            ("any@2", "all interfaces"),
            ("anyway", "interfaces (-i eth0)"),
        ] {
            assert!(kind(name).label().contains(label), "{name}");
        }
    }

    #[test]
    fn refusals_follow_from_the_flags_of_the_kinds() {
        for (line, part) in [
            (
                "-r x --promiscuous",
                "is for DPDK devices (-i dpdk:…) and interfaces (-i eth0), not for files",
            ),
            (
                "-r x --ring-memory 8",
                "--ring-memory is for all interfaces at once (-i any) and interfaces (-i eth0), not for files",
            ),
            (
                "-i lo --batch 8",
                "--batch is for DPDK devices (-i dpdk:…), not for interfaces (-i eth0); they have --promiscuous",
            ),
            (
                "-i dpdk:x --ring-memory 8",
                "they have --promiscuous, --batch, --rx-ring, --pools, --pool-size",
            ),
            (
                "-i any --promiscuous",
                "not for all interfaces at once (-i any); they have --ring-memory",
            ),
            (
                "-i any --queues 2",
                "--queues 2: all interfaces at once (-i any) have no queues",
            ),
            ("-i lo -- -m 5", "EAL arguments"),
            (
                "-i dpdk:x --buffer 1MiB --batch 300",
                "--batch of more than",
            ),
        ] {
            let message = check_line(line).unwrap_err();
            assert!(message.contains(part), "{line}: {message}");
        }
        for line in [
            "-i lo -i dpdk:x --batch 8 --ring-memory 8",
            "-r x",
            "-i dpdk:x -- -m 5",
        ] {
            assert_eq!(check_line(line), Ok(()), "{line}");
        }
    }
}
