//! Benchmark traffic from real captures: copies of the mix, one after another in time. Copy k has k
//! added to the source and destination addresses, and valid checksums.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::{pcap_file, workspace};

/// Time between the last packet of a copy and the first one of the next.
const PAUSE_NS: u64 = 1_000_000;

/// The capture that is copied: the shared mix of real traffic, or the example of the repository if
/// there is none. Their results are not comparable.
pub(crate) fn source() -> anyhow::Result<PathBuf> {
    let mix = traffic::find()?.map(|traffic| traffic.join("mix-200k.pcap.zst"));
    Ok(mix.unwrap_or_else(|| workspace::root().join("tests/captures/example.pcap")))
}

/// Writes `packets` packets, copied from `source`, to `path`.
pub(crate) fn write(path: &Path, source: &Path, packets: usize) -> anyhow::Result<()> {
    let shown = source.display();
    let capture = if source.extension().is_some_and(|kind| kind == "zst") {
        let arguments = ["-dcq", &source.to_string_lossy()];
        workspace::output(workspace::command("zstd", &arguments))?
    } else {
        fs::read(source).with_context(|| shown.to_string())?
    };
    let (link, records) =
        pcap_file::records(&capture).with_context(|| format!("{shown}: not a pcap file"))?;
    ensure!(link == pcap_file::ETHERNET, "{shown}: not Ethernet");
    let (Some(first), Some(last)) = (records.first(), records.last()) else {
        anyhow::bail!("{shown}: empty");
    };
    let period_ns = last.time_ns - first.time_ns + PAUSE_NS;
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    file.write_all(&pcap_file::file_header())?;
    let mut frame = Vec::new();
    for index in 0..packets {
        let (copy, record) = (index / records.len(), &records[index % records.len()]);
        frame.clear();
        frame.extend_from_slice(record.frame);
        traffic::shift_addresses(&mut frame, u32::try_from(copy)?);
        let time_us = (record.time_ns + copy as u64 * period_ns) / 1000;
        let captured = u32::try_from(frame.len())?;
        file.write_all(&pcap_file::record_header(
            time_us,
            captured,
            record.wire_bytes,
        ))?;
        file.write_all(&frame)?;
    }
    file.into_inner()?.sync_all()?;
    Ok(())
}
