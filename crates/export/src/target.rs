//! Where records go and in which format: `FORMAT[:TARGET]`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// An output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// One JSON object a line (NDJSON).
    Json,
    /// Comma-separated values (RFC 4180) with a line of names.
    Csv,
    /// Apache Parquet.
    Parquet,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::Json, Self::Csv, Self::Parquet];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Where the bytes go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Standard output.
    StandardOutput,
    /// A file, made new. For Parquet, a path that does not end in `.parquet` is a directory.
    Path(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StandardOutput => formatter.write_str("standard output"),
            Self::Path(path) => path.display().fmt(formatter),
        }
    }
}

/// What `-o` says: a format and where it goes.
///
/// `json` and `csv` alone, and with `-` as the target, go to standard output; Parquet needs a
/// directory, a file that ends in `.parquet`, or `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// The format.
    pub format: Format,
    /// Where to.
    pub target: Target,
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
        let target = match target {
            Some("") => return Err(SpecError::EmptyTarget { format }),
            Some("-") => Target::StandardOutput,
            Some(path) => Target::Path(path.into()),
            None if format == Format::Parquet => return Err(SpecError::ParquetTarget),
            None => Target::StandardOutput,
        };
        Ok(Self { format, target })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Target::StandardOutput => write!(formatter, "{}:-", self.format),
            Target::Path(path) => write!(formatter, "{}:{}", self.format, path.display()),
        }
    }
}

/// Why a `FORMAT[:TARGET]` is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No format of that name.
    #[error("unknown format `{name}`; there are json, csv and parquet, as in csv:flows.csv")]
    UnknownFormat {
        /// What stood before the colon.
        name: String,
    },
    /// Nothing behind the colon.
    #[error("no target behind `{format}:`; name a file, or - for standard output")]
    EmptyTarget {
        /// The format.
        format: Format,
    },
    /// Parquet without a target.
    #[error("parquet needs a target; name a directory or file, as in parquet:flows")]
    ParquetTarget,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_with_and_without_targets() {
        let parse = |text: &str| text.parse::<Spec>();
        let spec = |format, target| Ok(Spec { format, target });
        let path = |path: &str| Target::Path(path.into());
        assert_eq!(parse("json"), spec(Format::Json, Target::StandardOutput));
        assert_eq!(parse("json:-"), spec(Format::Json, Target::StandardOutput));
        assert_eq!(parse("csv:a.csv"), spec(Format::Csv, path("a.csv")));
        assert_eq!(parse("csv:c:/x:y"), spec(Format::Csv, path("c:/x:y")));
        assert_eq!(parse("parquet:out"), spec(Format::Parquet, path("out")));
        assert_eq!(
            parse("parquet:-"),
            spec(Format::Parquet, Target::StandardOutput)
        );
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
    fn a_spec_reads_back_as_it_is_written() {
        for text in ["json:-", "csv:dir/flows.csv", "parquet:out"] {
            assert_eq!(text.parse::<Spec>().unwrap().to_string(), text);
        }
    }
}
