//! Outputs that cannot be written, fill up, or lose their reader.

#![allow(clippy::unwrap_used, reason = "tests may panic")]
#![cfg(target_os = "linux")]

mod samples;

use export::{ExportError, ExportOptions, Exporter};
use flow::FlowDefinition;
use samples::{batch, dns, schema};
use std::os::fd::AsRawFd;
use std::process::Command;

fn try_open(spec: &str, options: &ExportOptions) -> Result<Box<dyn Exporter>, ExportError> {
    export::open(
        &spec.parse().unwrap(),
        &schema(FlowDefinition::FiveTuple),
        options,
    )
}

#[test]
fn reports_a_full_disk_and_counts_every_record() {
    for spec in ["json:/dev/full", "csv:/dev/full", "parquet:/dev/full"] {
        let options = ExportOptions {
            row_group_records: 500,
            ..ExportOptions::default()
        };
        let mut exporter = try_open(spec, &options).unwrap();
        let mut faults = 0;
        for _ in 0..20 {
            if let Err(fault) = exporter.write(&batch(&[dns(); 300])) {
                assert!(matches!(fault, ExportError::DiskFull { .. }), "{fault}");
                assert!(fault.to_string().starts_with("/dev/full: no space left"));
                faults += 1;
            }
        }
        assert!(faults > 0, "{spec}");
        assert!(matches!(
            exporter.finish(),
            Err(ExportError::DiskFull { .. })
        ));
        assert_eq!((exporter.written(), exporter.lost()), (0, 6000), "{spec}");
    }
    // Without records too: the header does not fit.
    let mut exporter = try_open("csv:/dev/full", &ExportOptions::default()).unwrap();
    assert!(matches!(
        exporter.finish(),
        Err(ExportError::DiskFull { .. })
    ));
}

#[test]
fn reports_a_broken_pipe_and_counts_every_record() {
    for format in ["json", "csv", "parquet"] {
        let (reader, writer) = std::io::pipe().unwrap();
        let options = ExportOptions {
            row_group_records: 500,
            ..ExportOptions::default()
        };
        let spec = format!("{format}:/dev/fd/{}", writer.as_raw_fd());
        let mut exporter = try_open(&spec, &options).unwrap();
        drop(reader);
        let mut faults = 0;
        for _ in 0..20 {
            if let Err(fault) = exporter.write(&batch(&[dns(); 300])) {
                assert!(fault.is_broken_pipe(), "{fault}");
                faults += 1;
            }
        }
        assert!(faults > 0, "{format}");
        let _ = exporter.finish();
        assert_eq!((exporter.written(), exporter.lost()), (0, 6000), "{format}");
    }
}

#[test]
fn errors_name_targets_that_cannot_be_created() {
    let options = ExportOptions::default();
    let directory = tempfile::tempdir().unwrap();
    let inside = directory.path().display();
    for format in ["json", "csv", "parquet"] {
        let fault = try_open(&format!("{format}:{inside}/no/flows"), &options).err();
        assert!(
            matches!(fault, Some(ExportError::NoSuchDirectory { .. })),
            "{fault:?}"
        );
        assert!(
            fault
                .unwrap()
                .to_string()
                .contains("/no/flows: no such directory")
        );
    }
    for format in ["json", "csv"] {
        let fault = try_open(&format!("{format}:{inside}"), &options).err();
        assert!(
            matches!(fault, Some(ExportError::IsDirectory { .. })),
            "{fault:?}"
        );
    }
}

/// A file size limit simulates a disk that fills up: one write is cut short, the next fails with
/// `EFBIG`. The limit applies to the whole process, so the test runs itself as a subprocess of a
/// shell that sets the limit and ignores its signal.
#[test]
fn file_on_a_full_disk_is_well_formed() {
    const INSIDE: &str = "EXPORT_TEST_DIRECTORY";
    if let Ok(directory) = std::env::var(INSIDE) {
        fill_up(&directory);
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // 400 KiB, in POSIX blocks of 512 bytes.
    let status = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 800; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "file_on_a_full_disk_is_well_formed"])
        .env(INSIDE, directory.path())
        .status()
        .unwrap();
    assert!(status.success());
}

fn fill_up(directory: &str) {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    const RECORDS: u64 = 40_000;
    let options = ExportOptions {
        row_group_records: 1000,
        file_records: 1_000_000,
        ..ExportOptions::default()
    };
    for target in [
        "json:{}/a.json",
        "csv:{}/a.csv",
        "parquet:{}/a.parquet",
        "parquet:{}/d",
    ] {
        let mut exporter = try_open(&target.replace("{}", directory), &options).unwrap();
        let mut number = 0;
        let mut faults = 0;
        while number < RECORDS {
            let records: Vec<_> = (number..number + 250)
                .map(|number| {
                    let mut record = dns();
                    record.packets[0] = number;
                    // Hardly compressible.
                    record.start_ns -= (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as i64;
                    record.key.source[8..]
                        .copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
                    record
                })
                .collect();
            number += 250;
            faults += u64::from(exporter.write(&batch(&records)).is_err());
        }
        let last = exporter.finish();
        assert!(faults > 0, "{target} never filled up");
        assert!(
            matches!(last, Err(ExportError::DiskFull { .. })),
            "{last:?}"
        );
        let (written, lost) = (exporter.written(), exporter.lost());
        assert_eq!(written + lost, RECORDS, "{target}");
        assert!(written > 0 && lost > 0, "{target}: {written} written");
    }
    // Not one row group fits: the contents would be unreadable.
    let options = ExportOptions::default();
    for target in ["parquet:{}/b.parquet", "parquet:{}/e"] {
        let mut exporter = try_open(&target.replace("{}", directory), &options).unwrap();
        let records: Vec<_> = (0..RECORDS as i64)
            .map(|number| {
                let mut record = dns();
                record.start_ns -= number.wrapping_mul(0x1e37_79b9_7f4a_7c15) >> 1;
                record.bytes[0] = number.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 4;
                record
            })
            .collect();
        exporter.write(&batch(&records)).unwrap();
        let fault = exporter.finish().unwrap_err();
        assert!(matches!(fault, ExportError::DiskFull { .. }), "{fault}");
        assert_eq!((exporter.written(), exporter.lost()), (0, RECORDS));
    }
    assert!(!std::path::Path::new(directory).join("b.parquet").exists());
    let left = std::fs::read_dir(format!("{directory}/e")).unwrap();
    assert_eq!(left.count(), 0);
    let json = std::fs::read_to_string(format!("{directory}/a.json")).unwrap();
    for line in json.lines() {
        let _: serde_json::Value = serde_json::from_str(line).unwrap();
    }
    let csv = std::fs::read_to_string(format!("{directory}/a.csv")).unwrap();
    for text in [&json, &csv] {
        assert!(text.len() > 300 * 1024 && text.ends_with('\n'));
    }
    for path in ["a.parquet", "d/flows-00000.parquet"] {
        let file = std::fs::File::open(format!("{directory}/{path}")).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let rows: Vec<_> = reader
            .get_row_iter(None)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert!(rows.len() >= 1000 && rows.len() % 1000 == 0);
    }
}
