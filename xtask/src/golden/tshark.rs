//! Tables that are made from what tshark prints of the packets of the shared captures.

use std::fmt::Write as _;

use anyhow::{Context, bail};

use crate::workspace::command;

/// Separates the values of a field that occurs more than once.
pub(super) const SEPARATOR: char = ';';

/// What tshark prints, and of which captures.
pub(super) struct Query<const N: usize> {
    /// Whether to read a capture, by its name in the manifest.
    pub(super) includes: fn(&str) -> bool,
    /// A display filter: the packets to print.
    pub(super) filter: &'static str,
    /// Preferences, in addition to those that leave fragments as they are.
    pub(super) preferences: &'static [&'static str],
    /// The fields to print of each packet.
    pub(super) fields: [&'static str; N],
}

impl<const N: usize> Query<N> {
    /// Makes a table: a header line with `head`, then for each capture the lines that `rows` returns for
    /// the fields of its packets.
    pub(super) fn table(
        &self,
        head: &str,
        rows: fn(&[[&str; N]]) -> Vec<String>,
    ) -> anyhow::Result<String> {
        let directory = traffic::find()?
            .context("no captures: set FLOWATCH_TRAFFIC to the directory that holds them")?;
        let manifest = std::fs::read_to_string(directory.join("MANIFEST.tsv"))?;
        let mut table = format!("capture\t{head}\n");
        for line in manifest.lines().skip(1) {
            let name = line.split('\t').next().unwrap_or_default();
            if !(self.includes)(name) {
                continue;
            }
            let output = self.run(&directory.join(name).to_string_lossy())?;
            for row in rows(&self.packets(&output).with_context(|| name.to_owned())?) {
                writeln!(table, "{name}\t{row}")?;
            }
        }
        Ok(table)
    }

    /// The output of tshark, with a line for each packet. The exit status is ignored: tshark fails at
    /// a damaged record after it printed the packets before it.
    fn run(&self, capture: &str) -> anyhow::Result<String> {
        let mut tshark = command("tshark", &["-n", "-r", capture]);
        tshark.args(["-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE"]);
        for preference in self.preferences {
            tshark.args(["-o", preference]);
        }
        tshark.args(["-Y", self.filter, "-T", "fields", "-E", "occurrence=a"]);
        tshark.args([
            "-E",
            "separator=/t",
            "-E",
            &format!("aggregator={SEPARATOR}"),
        ]);
        for field in self.fields {
            tshark.args(["-e", field]);
        }
        let output = tshark.output().context("tshark")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The fields of each packet.
    fn packets<'a>(&self, output: &'a str) -> anyhow::Result<Vec<[&'a str; N]>> {
        let fields = |line: &'a str| match line.split('\t').collect::<Vec<_>>().try_into() {
            Ok(fields) => Ok(fields),
            Err(_) => bail!("tshark printed {line:?}"),
        };
        output.lines().map(fields).collect()
    }
}
