//! Output specifications: format and target, `FORMAT[:TARGET]`.

use crate::net::{Endpoint, EndpointError};
use crate::output::Compression;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Allowed interval lengths of round-robin series, in seconds.
const STEP_S: RangeInclusive<u32> = 1..=86_400;

/// An output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// One JSON object per line (NDJSON).
    Json,
    /// Comma-separated values (RFC 4180) with a header line.
    Csv,
    /// Apache Parquet.
    Parquet,
    /// Tstat's log files.
    Tstat,
    /// Round-robin series for rrdtool, and histograms.
    Rrd,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 5] = [Self::Json, Self::Csv, Self::Parquet, Self::Tstat, Self::Rrd];

    /// Returns the name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Tstat => "tstat",
            Self::Rrd => "rrd",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Where the output goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Standard output.
    Stdout,
    /// A file, which is created or truncated. For Parquet, a path that does not end in `.parquet`
    /// is a directory.
    Path(PathBuf),
    /// A receiver that is reached through a socket.
    Net(Endpoint),
}

impl Target {
    /// Whether it is standard output.
    #[must_use]
    pub const fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout)
    }

    /// Returns the path of the file or directory that the output creates, if it creates one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) => Some(path),
            Self::Stdout | Self::Net(_) => None,
        }
    }

    /// Returns the receiver, if the output goes to one.
    #[must_use]
    pub const fn endpoint(&self) -> Option<&Endpoint> {
        match self {
            Self::Net(endpoint) => Some(endpoint),
            Self::Stdout | Self::Path(_) => None,
        }
    }

    /// Parses a target without options.
    fn parse(text: &str) -> Result<Self, EndpointError> {
        Ok(match text {
            "-" => Self::Stdout,
            text => match Endpoint::from_target(text)? {
                Some(endpoint) => Self::Net(endpoint),
                None => Self::Path(text.into()),
            },
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => formatter.write_str("standard output"),
            Self::Path(path) => path.display().fmt(formatter),
            Self::Net(endpoint) => endpoint.fmt(formatter),
        }
    }
}

/// An `-o` argument: format and target.
///
/// `json` and `csv` without a target, or with `-`, go to standard output, and to a receiver with
/// `tcp://HOST:PORT`, `udp://HOST:PORT` or `unix:PATH`. Parquet needs a directory, a file that ends in
/// `.parquet`, or `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// The format.
    pub format: Format,
    /// The target.
    pub target: Target,
    /// Compression of the files in a directory; for a single file its name determines it.
    pub compression: Option<Compression>,
    /// Interval of round-robin series, in seconds.
    pub step_s: Option<u32>,
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(spec: &str) -> Result<Self, SpecError> {
        let (name, target) = match spec.split_once(':') {
            Some((name, target)) => (name, Some(target)),
            None => (spec, None),
        };
        let format = Format::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| SpecError::UnknownFormat {
                name: name.to_owned(),
            })?;
        let text = match target {
            Some("") => return Err(SpecError::EmptyTarget { format }),
            Some("-") | None if matches!(format, Format::Tstat | Format::Rrd) => {
                return Err(SpecError::Directory { format });
            }
            None if format == Format::Parquet => return Err(SpecError::ParquetTarget),
            Some(text) => text,
            None => "-",
        };
        let target = Target::parse(text).map_err(|error| SpecError::Endpoint { format, error })?;
        let is_line_format = matches!(format, Format::Json | Format::Csv);
        match target {
            Target::Net(_) if !is_line_format => Err(SpecError::NotForNetwork { format }),
            Target::Path(_) => {
                let (path, compression, step_s) = options(format, text)?;
                Ok(Self {
                    format,
                    target: Target::Path(path.into()),
                    compression,
                    step_s,
                })
            }
            target => Ok(Self {
                format,
                target,
                compression: None,
                step_s: None,
            }),
        }
    }
}

/// Path, compression and interval.
type DirectoryOptions<'a> = (&'a str, Option<Compression>, Option<u32>);

/// Splits a directory from its option after the last comma: `tstat:DIR,gz` compresses the logs,
/// `rrd:DIR,10s` sets intervals of ten seconds. An option that contains a slash is part of the
/// name.
fn options(format: Format, target: &str) -> Result<DirectoryOptions<'_>, SpecError> {
    let split = target.rsplit_once(',');
    let Some((path, option)) =
        split.filter(|(path, option)| !path.is_empty() && !option.contains('/'))
    else {
        return Ok((target, None, None));
    };
    let unknown = |known| SpecError::UnknownOption {
        format,
        option: option.to_owned(),
        known,
    };
    match format {
        Format::Tstat => Compression::ALL
            .into_iter()
            .find(|compression| compression.extension() == option)
            .map(|compression| (path, Some(compression), None))
            .ok_or_else(|| unknown("gz or zst")),
        Format::Rrd => {
            let seconds = |unit: char, scale: u32| {
                let number = option.strip_suffix(unit)?.parse::<u32>().ok()?;
                number
                    .checked_mul(scale)
                    .filter(|step| STEP_S.contains(step))
            };
            seconds('s', 1)
                .or_else(|| seconds('m', 60))
                .map(|step| (path, None, Some(step)))
                .ok_or_else(|| unknown("an interval such as 10s or 2m, up to a day"))
        }
        Format::Json | Format::Csv | Format::Parquet => Ok((target, None, None)),
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.target.is_stdout() {
            write!(formatter, "{}:-", self.format)?;
        } else {
            write!(formatter, "{}:{}", self.format, self.target)?;
        }
        if let Some(compression) = self.compression {
            write!(formatter, ",{}", compression.extension())?;
        }
        if let Some(step_s) = self.step_s {
            write!(formatter, ",{step_s}s")?;
        }
        Ok(())
    }
}

/// Why a `FORMAT[:TARGET]` argument is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Unknown format.
    #[error("unknown format `{name}`; use json, csv, parquet, tstat or rrd, as in csv:flows.csv")]
    UnknownFormat {
        /// The text before the colon.
        name: String,
    },
    /// Nothing follows the colon.
    #[error("no target after `{format}:`; specify a file, or - for standard output")]
    EmptyTarget {
        /// The format.
        format: Format,
    },
    /// A format that needs a directory has none.
    #[error("{format} needs a directory, as in {format}:DIR")]
    Directory {
        /// The format.
        format: Format,
    },
    /// Unknown option of a directory.
    #[error(
        "{format} has no option `{option}`; use {known}, as in {format}:DIR,{}, and end a directory name that \
         contains a comma with a slash",
        if *format == Format::Rrd { "10s" } else { "gz" }
    )]
    UnknownOption {
        /// The format.
        format: Format,
        /// The text after the last comma.
        option: String,
        /// The known options.
        known: &'static str,
    },
    /// The receiver of a network output is invalid.
    #[error("{format}: {error}")]
    Endpoint {
        /// The format.
        format: Format,
        /// The cause.
        error: EndpointError,
    },
    /// The format cannot be sent to a receiver.
    #[error("{format} is written to files only; to send records to a receiver, use json or csv")]
    NotForNetwork {
        /// The format.
        format: Format,
    },
    /// Parquet needs a target.
    #[error("parquet needs a target; specify a file or directory, as in parquet:flows")]
    ParquetTarget,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_formats_with_and_without_targets() {
        let parse = |text: &str| text.parse::<Spec>();
        let spec = |format, target| {
            Ok(Spec {
                format,
                target,
                compression: None,
                step_s: None,
            })
        };
        let path = |path: &str| Target::Path(path.into());
        assert_eq!(parse("json"), spec(Format::Json, Target::Stdout));
        assert_eq!(parse("json:-"), spec(Format::Json, Target::Stdout));
        assert_eq!(parse("csv:a.csv"), spec(Format::Csv, path("a.csv")));
        assert_eq!(parse("csv:c:/x:y"), spec(Format::Csv, path("c:/x:y")));
        assert_eq!(parse("parquet:out"), spec(Format::Parquet, path("out")));
        assert_eq!(parse("parquet:-"), spec(Format::Parquet, Target::Stdout));
        let with_options = |text: &str| {
            let spec = parse(text).unwrap();
            (spec.target, spec.compression, spec.step_s)
        };
        assert_eq!(
            with_options("tstat:logs,zst"),
            (path("logs"), Some(Compression::Zstandard), None)
        );
        assert_eq!(with_options("rrd:x,2m"), (path("x"), None, Some(120)));
        assert_eq!(with_options("rrd:x,y/"), (path("x,y/"), None, None));
        assert_eq!(with_options("tstat:a,b/c"), (path("a,b/c"), None, None));
        assert_eq!(
            with_options("tstat:a,b,gz"),
            (path("a,b"), Some(Compression::Gzip), None)
        );
        for (wrong, known) in [
            ("rrd:x,0s", "10s or 2m"),
            ("rrd:x2,5s", ""),
            ("rrd:x,5", "10s or 2m"),
            ("rrd:x,2d", "10s or 2m"),
            ("tstat:ts,bz2", "gz or zst"),
            ("tstat:ts,", "gz or zst"),
        ] {
            match parse(wrong) {
                Err(error) => assert!(error.to_string().contains(known), "{error}"),
                Ok(spec) => assert_eq!(spec.step_s, Some(5), "{wrong}"),
            }
        }
        for text in ["parquet:tcp://h:1", "tstat:unix:/s", "rrd:udp://h:1,10s"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(matches!(
            parse("json:unix:a,gz").map(|spec| spec.target),
            Ok(Target::Net(Endpoint::Unix(path))) if path == Path::new("a,gz")
        ));
        for format in [Format::Tstat, Format::Rrd] {
            assert_eq!(parse(format.name()), Err(SpecError::Directory { format }));
        }
        assert_eq!(parse("parquet"), Err(SpecError::ParquetTarget));
        assert_eq!(
            parse("csv:"),
            Err(SpecError::EmptyTarget {
                format: Format::Csv
            })
        );
        assert_eq!(
            parse("xml:a"),
            Err(SpecError::UnknownFormat { name: "xml".into() })
        );
    }

    #[test]
    fn display_of_a_spec_parses_back() {
        for text in [
            "json:-",
            "csv:dir/flows.csv",
            "parquet:out",
            "tstat:logs",
            "tstat:logs,gz",
            "tstat:a,b/",
            "rrd:series,10s",
            "csv:a,gz",
            "json:tcp://collector:9000",
            "csv:udp://[::1]:9000",
            "json:unix:/run/collector.sock",
        ] {
            assert_eq!(text.parse::<Spec>().unwrap().to_string(), text);
        }
    }
}
