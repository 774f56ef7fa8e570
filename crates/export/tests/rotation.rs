//! Rotation and compression of files, and files that are moved or removed.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod samples;

use export::{ExportError, ExportOptions, Exporter};
use flow::{FlowDefinition, Record};
use samples::{batch, dns, schema};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

const SECOND_NS: i64 = 1_000_000_000;

fn open(spec: &str, rotate: Option<&str>) -> Result<Box<dyn Exporter>, ExportError> {
    let options = ExportOptions {
        rotation: rotate.map(|rotate| rotate.parse().unwrap()),
        ..ExportOptions::default()
    };
    let schema = schema(FlowDefinition::FiveTuple);
    export::open(&spec.parse().unwrap(), &schema, &options)
}

/// A record that ended this many seconds after the first one.
fn at(second: i64) -> Record {
    Record {
        end_ns: dns().end_ns + second * SECOND_NS,
        ..dns()
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn names(directory: &Path) -> Vec<String> {
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    files(directory).iter().map(name).collect()
}

fn text(path: &Path) -> String {
    let bytes = fs::read(path).unwrap();
    let mut text = String::new();
    match path.extension().and_then(|end| end.to_str()) {
        Some("gz") => flate2::read::GzDecoder::new(&*bytes)
            .read_to_string(&mut text)
            .unwrap(),
        Some("zst") => zstd::Decoder::new(&*bytes)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap(),
        _ => (&*bytes).read_to_string(&mut text).unwrap(),
    };
    text
}

#[test]
fn files_rotate_by_record_time() {
    for end in ["csv", "csv.gz", "csv.zst"] {
        let directory = tempfile::tempdir().unwrap();
        let spec = format!("csv:{}/flows.{end}", directory.path().display());
        let mut exporter = open(&spec, Some("5m")).unwrap();
        // 12:34:56, 12:39:56, one late record, 12:45:00.
        exporter
            .write(&batch(&[at(0), at(300), at(10), at(604)]))
            .unwrap();
        let stamped = |time: &str| format!("flows-20240229T{time}Z.{end}");
        assert_eq!(
            names(directory.path()),
            [stamped("123000"), stamped("123500")]
        );
        exporter.flush().unwrap();
        assert!(names(directory.path()).contains(&format!("{}.partial", stamped("124500"))));
        exporter.finish().unwrap();
        assert_eq!(
            names(directory.path()),
            [stamped("123000"), stamped("123500"), stamped("124500")]
        );
        assert_eq!((exporter.written(), exporter.lost()), (4, 0));
        let lines: Vec<usize> = files(directory.path())
            .iter()
            .map(|path| {
                let text = text(path);
                assert!(text.starts_with("flowStartNanoseconds,"));
                text.lines().count() - 1
            })
            .collect();
        assert_eq!(lines, [1, 2, 1]);
    }
}

#[test]
fn files_rotate_by_size() {
    let directory = tempfile::tempdir().unwrap();
    let spec = format!("json:{}/flows", directory.path().display());
    let mut exporter = open(&spec, Some("10kB")).unwrap();
    exporter.write(&batch(&[at(0); 100])).unwrap();
    exporter.finish().unwrap();
    assert_eq!((exporter.written(), exporter.lost()), (100, 0));
    let files = files(directory.path());
    let sizes: Vec<usize> = files.iter().map(|path| text(path).len()).collect();
    let line = text(&files[0]).lines().next().unwrap().len() + 1;
    let (last, others) = sizes.split_last().unwrap();
    assert!(others.len() > 2, "{sizes:?}");
    assert!(
        others
            .iter()
            .all(|size| (10_000..10_000 + line).contains(size)),
        "{sizes:?}"
    );
    assert_eq!(others.iter().sum::<usize>() + last, 100 * line);
}

#[test]
fn file_after_a_full_one_is_named_after_its_first_record() {
    for spec in ["csv:{}/a.csv", "parquet:{}/a.parquet"] {
        let directory = tempfile::tempdir().unwrap();
        let spec = spec.replace("{}", directory.path().to_str().unwrap());
        let options = ExportOptions {
            rotation: Some("1kB".parse().unwrap()),
            row_group_records: 1,
            ..ExportOptions::default()
        };
        let schema = schema(FlowDefinition::FiveTuple);
        let mut exporter = export::open(&spec.parse().unwrap(), &schema, &options).unwrap();
        for second in [0, 300, 604] {
            exporter.write(&batch(&[at(second); 50])).unwrap();
        }
        exporter.finish().unwrap();
        assert_eq!((exporter.written(), exporter.lost()), (150, 0));
        let names = names(directory.path());
        for time in ["123456", "123956", "124500"] {
            let start = format!("a-20240229T{time}Z");
            assert!(
                names.iter().any(|name| name.starts_with(&start)),
                "{names:?}"
            );
        }
    }
}

#[test]
fn never_overwrites_existing_files() {
    let directory = tempfile::tempdir().unwrap();
    let spec = format!("json:{}/a.json", directory.path().display());
    for _ in 0..2 {
        let mut exporter = open(&spec, Some("1h")).unwrap();
        exporter.write(&batch(&[at(0)])).unwrap();
        exporter.finish().unwrap();
    }
    assert_eq!(
        names(directory.path()),
        ["a-20240229T120000Z-2.json", "a-20240229T120000Z.json"]
    );
}

#[test]
fn parquet_files_rotate() {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    let directory = tempfile::tempdir().unwrap();
    let spec = format!("parquet:{}", directory.path().display());
    let mut exporter = open(&spec, Some("5m")).unwrap();
    exporter
        .write(&batch(&[at(0), at(1), at(300), at(2), at(900)]))
        .unwrap();
    exporter.finish().unwrap();
    assert_eq!((exporter.written(), exporter.lost()), (5, 0));
    let rows: Vec<i64> = files(directory.path())
        .iter()
        .map(|path| {
            let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
            reader.metadata().file_metadata().num_rows()
        })
        .collect();
    assert_eq!(rows, [2, 2, 1]);
    assert_eq!(names(directory.path())[0], "flows-20240229T123000Z.parquet");
}

/// Readers can follow a compressed file: it contains all that was flushed.
#[test]
fn flushed_data_of_a_compressed_file_is_readable() {
    for end in ["gz", "zst"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(format!("flows.json.{end}"));
        let mut exporter = open(&format!("json:{}", path.display()), None).unwrap();
        exporter.write(&batch(&[at(0); 3])).unwrap();
        exporter.flush().unwrap();
        let bytes = fs::read(&path).unwrap();
        let mut text = Vec::new();
        // The stream has not ended yet.
        let result = match end {
            "gz" => flate2::read::GzDecoder::new(&*bytes).read_to_end(&mut text),
            _ => zstd::Decoder::new(&*bytes).unwrap().read_to_end(&mut text),
        };
        assert!(result.is_err());
        assert_eq!(text.iter().filter(|&&byte| byte == b'\n').count(), 3);
        exporter.finish().unwrap();
    }
}

#[cfg(unix)]
#[test]
fn moved_file_is_continued_in_a_new_one_and_removed_file_loses_its_records() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flows.csv");
    let mut exporter = open(&format!("csv:{}", path.display()), None).unwrap();
    exporter.write(&batch(&[at(0)])).unwrap();
    exporter.flush().unwrap();
    fs::rename(&path, directory.path().join("flows.csv.1")).unwrap();
    exporter.write(&batch(&[at(1); 2])).unwrap();
    exporter.flush().unwrap();
    let lines = |name: &str| text(&directory.path().join(name)).lines().count() - 1;
    assert_eq!((lines("flows.csv.1"), lines("flows.csv")), (1, 2));
    assert_eq!((exporter.written(), exporter.lost()), (3, 0));

    fs::remove_file(&path).unwrap();
    exporter.write(&batch(&[at(2); 4])).unwrap();
    let fault = exporter.flush().unwrap_err();
    assert!(matches!(fault, ExportError::Removed { .. }), "{fault}");
    // Everything in the file is lost, including earlier records.
    assert_eq!((exporter.written(), exporter.lost()), (5, 2));
    exporter.flush().unwrap();
    assert_eq!(lines("flows.csv"), 4);
    fs::remove_file(&path).unwrap();
    let fault = exporter.finish().unwrap_err();
    assert!(matches!(fault, ExportError::Removed { .. }), "{fault}");
    assert_eq!((exporter.written(), exporter.lost()), (1, 6));
    assert_eq!(names(directory.path()), ["flows.csv.1"]);
}

#[cfg(unix)]
#[test]
fn recreates_a_removed_directory() {
    for (file, rotate) in [
        ("flows.csv", None),
        ("flows.csv.gz", None),
        ("flows.csv", Some("5m")),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let spec = format!("csv:{}/{file}", inner.display());
        let mut exporter = open(&spec, rotate).unwrap();
        exporter.write(&batch(&[at(0); 3])).unwrap();
        exporter.flush().unwrap();
        fs::remove_dir_all(&inner).unwrap();
        exporter.write(&batch(&[at(1); 2])).unwrap();
        let fault = exporter.flush().unwrap_err();
        assert!(matches!(fault, ExportError::Removed { .. }), "{fault}");
        exporter.finish().unwrap();
        assert_eq!((exporter.written(), exporter.lost()), (2, 3));
        let [made] = &files(&inner)[..] else {
            panic!("{:?}", names(&inner));
        };
        assert_eq!(text(made).lines().count(), 3);
    }
}

#[cfg(unix)]
#[test]
fn recreates_moved_and_removed_parquet_files() {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    let rows = |path: &Path| {
        let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
        reader.metadata().file_metadata().num_rows()
    };
    for spec in ["parquet:{}/p", "parquet:{}/p/a.parquet"] {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("p");
        fs::create_dir(&inner).unwrap();
        let spec = spec.replace("{}", directory.path().to_str().unwrap());
        let options = ExportOptions {
            row_group_records: 1,
            ..ExportOptions::default()
        };
        let schema = schema(FlowDefinition::FiveTuple);
        let mut exporter = export::open(&spec.parse().unwrap(), &schema, &options).unwrap();
        exporter.write(&batch(&[at(0); 3])).unwrap();
        let moved = directory.path().join("moved");
        fs::rename(&files(&inner)[0], &moved).unwrap();
        exporter.flush().unwrap();
        assert_eq!((rows(&moved), exporter.written()), (3, 3), "{spec}");

        exporter.write(&batch(&[at(0); 4])).unwrap();
        fs::remove_dir_all(&inner).unwrap();
        let fault = exporter.flush().unwrap_err();
        assert!(matches!(fault, ExportError::Removed { .. }), "{fault}");
        assert_eq!((exporter.written(), exporter.lost()), (3, 4), "{spec}");
        exporter.write(&batch(&[at(0); 5])).unwrap();
        exporter.finish().unwrap();
        assert_eq!((exporter.written(), exporter.lost()), (8, 4));
        assert_eq!(rows(&files(&inner)[0]), 5);
    }
}

/// Flows do not end in order; even if the clock jumps too, there are few files.
#[test]
fn jumping_clock_makes_few_files() {
    const YEAR: i64 = 365 * 86_400;
    let records: Vec<Record> = (0..5000).map(|n| at((n * n % 7 - 3) * YEAR)).collect();
    for format in ["csv", "parquet"] {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join(format!("a.{format}"));
        let mut exporter = open(&format!("{format}:{}", target.display()), Some("1h")).unwrap();
        for part in records.chunks(700) {
            exporter.write(&batch(part)).unwrap();
        }
        exporter.finish().unwrap();
        assert_eq!((exporter.written(), exporter.lost()), (5000, 0));
        let names = names(directory.path());
        assert!(names.len() <= 4, "{names:?}");
    }
}

#[test]
fn rejects_outputs_that_cannot_rotate() {
    for format in ["json", "csv", "parquet:-"] {
        assert!(matches!(
            open(format, Some("1h")).err(),
            Some(ExportError::CannotRotate { .. } | ExportError::Terminal)
        ));
    }
    let directory = tempfile::tempdir().unwrap();
    let spec = format!("csv:{}/no/flows.csv", directory.path().display());
    assert!(matches!(
        open(&spec, Some("1h")).err(),
        Some(ExportError::NoSuchDirectory { .. })
    ));
}
