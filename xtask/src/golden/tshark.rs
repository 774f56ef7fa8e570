//! Tables of what tshark says of the packets of the shared captures, which stay where they are.

use std::fmt::Write as _;

use anyhow::{Context, bail};

use crate::workspace::command;

/// Between two values of one field.
pub(super) const BETWEEN: char = ';';

/// What tshark is asked.
pub(super) struct Question<const N: usize> {
    /// Of which captures, by their names in the manifest.
    pub(super) is_asked: fn(&str) -> bool,
    /// Of which of their packets.
    pub(super) filter: &'static str,
    /// What it is told beside this: fragments are left as they are.
    pub(super) preferences: &'static [&'static str],
    /// What of each packet.
    pub(super) fields: [&'static str; N],
}

impl<const N: usize> Question<N> {
    /// A table: after `head`, for each capture its name and what `rows` makes of its packets' fields.
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
            if !(self.is_asked)(name) {
                continue;
            }
            let answer = self.ask(&directory.join(name).to_string_lossy())?;
            for row in rows(&self.packets(&answer).with_context(|| name.to_owned())?) {
                writeln!(table, "{name}\t{row}")?;
            }
        }
        Ok(table)
    }

    /// The answer, a line a packet. tshark ends with an error at a damaged capture, having said what
    /// it read until there.
    fn ask(&self, capture: &str) -> anyhow::Result<String> {
        let mut tshark = command("tshark", &["-n", "-r", capture]);
        tshark.args(["-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE"]);
        for preference in self.preferences {
            tshark.args(["-o", preference]);
        }
        tshark.args(["-Y", self.filter, "-T", "fields", "-E", "occurrence=a"]);
        tshark.args(["-E", "separator=/t", "-E", &format!("aggregator={BETWEEN}")]);
        for field in self.fields {
            tshark.args(["-e", field]);
        }
        let output = tshark.output().context("tshark")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The fields of each packet.
    fn packets<'a>(&self, answer: &'a str) -> anyhow::Result<Vec<[&'a str; N]>> {
        let fields = |line: &'a str| match line.split('\t').collect::<Vec<_>>().try_into() {
            Ok(fields) => Ok(fields),
            Err(_) => bail!("tshark printed {line:?}"),
        };
        answer.lines().map(fields).collect()
    }
}
