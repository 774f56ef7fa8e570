//! A column of a row group as it stands in the file: a dictionary if it is worth one, pages, and what
//! the footer says of them.
//!
//! The `parquet` crate has writers for this, but they take many times the instructions, since they
//! must do for all types, nested ones too. Here eight values that are alike are found so together,
//! whether a record has one is a bit, and the least and greatest are looked for among the distinct
//! ones.

use super::column::{Column, Packing, Values};
use super::delta::Differences;
use super::hybrid;
use super::numbering::Numbering;
use super::plain::Plain;
use super::presence::Levels;
use super::snappy::{self, Snappy};
use ::parquet::basic::{Compression, Encoding, PageType};
use ::parquet::column::page::{CompressedPage, Page, PageWriter};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use ::parquet::file::statistics::Statistics;
use ::parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use ::parquet::schema::types::ColumnDescPtr;
use std::ops::Range;

/// Where the bytes of a file go.
pub(super) type Sink = TrackedWrite<Vec<u8>>;

/// Records of a page, a multiple of eight.
const PAGE_RECORDS: usize = 16 * 1024;

/// A column of fewer bytes is not compressed: what that gives is less than what it takes.
const COMPRESSED: usize = 64;

/// Distinct values from which on a dictionary that every other value is new to is given up.
const DISTINCT: usize = 1024;

/// Bytes of a dictionary that readers may be asked to hold.
const DICTIONARY_BYTES: usize = 1 << 20;

/// Bytes that a page takes besides what is in it.
const HEADER_BYTES: usize = 24;

/// Values that are numbered before that is asked again.
const STEP: usize = 4 * 1024;

/// Writes columns, with room that is used again.
#[derive(Default)]
pub(super) struct ChunkWriter {
    /// The numbers of the values of all pages.
    numbering: Numbering,
    /// All pages, not compressed.
    bytes: Vec<u8>,
    /// The levels of each page of the column before.
    levels: Vec<Levels>,
    snappy: Snappy,
}

/// A page.
struct Part {
    rows: Range<usize>,
    values: Range<usize>,
    /// Where it is in the bytes.
    bytes: Range<usize>,
}

impl ChunkWriter {
    /// Writes a column of so many records, and says what the footer says of it.
    pub(super) fn write(
        &mut self,
        column: &Column,
        records: usize,
        descriptor: &ColumnDescPtr,
        sink: &mut Sink,
    ) -> Result<ColumnChunkMetaData, ParquetError> {
        match &column.values {
            Values::Int64(values) if column.packing == Packing::Delta => {
                self.write_values(column, &Differences(values), records, descriptor, sink)
            }
            Values::Int32(values) => {
                self.write_values(column, values.as_slice(), records, descriptor, sink)
            }
            Values::Int64(values) => {
                self.write_values(column, values.as_slice(), records, descriptor, sink)
            }
            Values::Double(values) => {
                self.write_values(column, values.as_slice(), records, descriptor, sink)
            }
            Values::Ipv4(addresses) => {
                self.write_values(column, addresses, records, descriptor, sink)
            }
            Values::Strings(strings) => {
                self.write_values(column, strings, records, descriptor, sink)
            }
        }
    }

    fn write_values<P: Plain + ?Sized>(
        &mut self,
        column: &Column,
        values: &P,
        records: usize,
        descriptor: &ColumnDescPtr,
        sink: &mut Sink,
    ) -> Result<ColumnChunkMetaData, ParquetError> {
        let mut parts = parts(column, records);
        let numbered = column.packing == Packing::Dictionary && self.number(values);
        self.bytes.clear();
        if numbered {
            for &first in self.numbering.distinct.firsts() {
                values.append(first, &mut self.bytes);
            }
        }
        let dictionary = 0..self.bytes.len();
        self.levels.resize_with(parts.len(), Levels::default);
        for (part, levels) in parts.iter_mut().zip(&mut self.levels) {
            let begin = self.bytes.len();
            if let Some(present) = &column.present {
                levels.append(present, &part.rows, &mut self.bytes);
            }
            if numbered {
                let width = hybrid::width(self.numbering.distinct.len());
                self.bytes.push(width as u8);
                let numbers = self.numbering.numbers.get(part.values.clone());
                hybrid::write(numbers.unwrap_or_default(), width, &mut self.bytes);
            } else {
                values.append_all(part.values.clone(), &mut self.bytes);
            }
            part.bytes = begin..self.bytes.len();
        }
        let nulls = (records - values.count()) as u64;
        let unsigned = !descriptor.sort_order().is_signed();
        let statistics = if numbered {
            let firsts = self.numbering.distinct.firsts().iter();
            values.statistics(firsts.copied(), nulls, unsigned)
        } else {
            values.statistics(0..values.count(), nulls, unsigned)
        };
        let dictionary = numbered.then_some(dictionary);
        self.write_pages(
            dictionary,
            P::ENCODING,
            &parts,
            statistics,
            descriptor,
            sink,
        )
    }

    /// Numbers the values of all pages; false where that is not worth it.
    fn number<P: Plain + ?Sized>(&mut self, values: &P) -> bool {
        self.numbering.clear();
        let (mut bytes, mut counted) = (0, 0);
        for begin in (0..values.count()).step_by(STEP) {
            let end = values.count().min(begin + STEP);
            if !values.number(begin..end, &mut self.numbering) {
                return false;
            }
            let firsts = self.numbering.distinct.firsts();
            let new = firsts.get(counted..).unwrap_or_default();
            bytes += new.iter().map(|&at| values.bytes(at)).sum::<usize>();
            counted = firsts.len();
            if bytes > DICTIONARY_BYTES || (counted > DISTINCT && 2 * counted > end) {
                return false;
            }
        }
        let numbers = values.count() * hybrid::width(counted) as usize / 8;
        // If they are like these, for strings differ in length.
        let plain = values.count() * bytes / counted.max(1);
        HEADER_BYTES + bytes + numbers < plain
    }

    fn write_pages(
        &mut self,
        dictionary: Option<Range<usize>>,
        plain: Encoding,
        parts: &[Part],
        statistics: Statistics,
        descriptor: &ColumnDescPtr,
        sink: &mut Sink,
    ) -> Result<ColumnChunkMetaData, ParquetError> {
        // Differences are packed already.
        let compressed = self.bytes.len() >= COMPRESSED && plain == Encoding::PLAIN;
        // The numbers of distinct values are packed already.
        let (values_form, pages_form) = match &dictionary {
            _ if !compressed => (Form::Plain, Form::Plain),
            Some(_) => (Form::Compressed, Form::Literal),
            None => (Form::Compressed, Form::Compressed),
        };
        let begin = sink.bytes_written();
        let mut uncompressed_size = 0;
        let mut encodings = vec![Encoding::RLE];
        let mut pages = Vec::new();
        let mut writer = SerializedPageWriter::new(sink);
        let mut write = |page, uncompressed| {
            let written = writer.write_page(CompressedPage::new(page, uncompressed))?;
            uncompressed_size += written.uncompressed_size;
            Ok::<_, ParquetError>(written.offset as i64)
        };
        let mut dictionary_at = None;
        let mut data_at = None;
        let encoding = match &dictionary {
            Some(bytes) => {
                let page = Page::DictionaryPage {
                    buf: self.page(bytes, values_form)?.into(),
                    num_values: self.numbering.distinct.len() as u32,
                    encoding: Encoding::PLAIN_DICTIONARY,
                    is_sorted: false,
                };
                dictionary_at = Some(write(page, bytes.len())?);
                encodings.push(Encoding::PLAIN_DICTIONARY);
                pages.push(PageEncodingStats {
                    page_type: PageType::DICTIONARY_PAGE,
                    encoding: Encoding::PLAIN_DICTIONARY,
                    count: 1,
                });
                Encoding::RLE_DICTIONARY
            }
            None => plain,
        };
        for part in parts {
            let page = Page::DataPage {
                buf: self.page(&part.bytes, pages_form)?.into(),
                num_values: part.rows.len() as u32,
                encoding,
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            };
            let at = write(page, part.bytes.len())?;
            data_at.get_or_insert(at);
        }
        encodings.push(encoding);
        pages.push(PageEncodingStats {
            page_type: PageType::DATA_PAGE,
            encoding,
            count: parts.len() as i32,
        });
        let records: usize = parts.iter().map(|part| part.rows.len()).sum();
        ColumnChunkMetaData::builder(descriptor.clone())
            .set_compression(if compressed {
                Compression::SNAPPY
            } else {
                Compression::UNCOMPRESSED
            })
            .set_encodings(encodings)
            .set_page_encoding_stats(pages)
            .set_total_compressed_size((sink.bytes_written() - begin) as i64)
            .set_total_uncompressed_size(uncompressed_size as i64)
            .set_num_values(records as i64)
            .set_data_page_offset(data_at.unwrap_or(0))
            .set_dictionary_page_offset(dictionary_at)
            .set_statistics(statistics)
            .build()
    }

    /// The bytes of a page as they stand in the file.
    fn page(&mut self, bytes: &Range<usize>, form: Form) -> Result<Vec<u8>, ParquetError> {
        let bytes = self.bytes.get(bytes.clone()).unwrap_or_default();
        match form {
            Form::Plain => Ok(bytes.to_vec()),
            Form::Literal => Ok(snappy::literal(bytes)),
            Form::Compressed => self.snappy.compress(bytes),
        }
    }
}

/// How the bytes of a page stand in the file.
#[derive(Clone, Copy)]
enum Form {
    /// As they are.
    Plain,
    /// As they are, in a column that is compressed.
    Literal,
    Compressed,
}

/// The pages of a column of so many records.
fn parts(column: &Column, records: usize) -> Vec<Part> {
    let mut values = 0;
    (0..records)
        .step_by(PAGE_RECORDS)
        .map(|start| {
            let rows = start..records.min(start + PAGE_RECORDS);
            let begin = values;
            values += match &column.present {
                Some(present) => present.count(&rows),
                None => rows.len(),
            };
            Part {
                rows,
                values: begin..values,
                bytes: 0..0,
            }
        })
        .collect()
}
