//! Writes a column chunk: a dictionary if it pays, data pages, and the metadata for the footer.
//!
//! The writers of the `parquet` crate take many times the instructions, since they support all
//! types, including nested ones. Here, runs of eight equal values are detected together, presence
//! is one bit per record, and minimum and maximum are computed from the distinct values.

use super::column::{Column, ColumnEncoding, Values};
use super::delta::DeltaValues;
use super::hybrid;
use super::indexer::Indexer;
use super::plain::PlainValues;
use super::snappy::{self, Snappy};
use super::validity::LevelCache;
use ::parquet::basic::{Compression, Encoding, PageType};
use ::parquet::column::page::{CompressedPage, Page, PageWriter};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use ::parquet::file::statistics::Statistics;
use ::parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use ::parquet::schema::types::ColumnDescPtr;
use std::ops::Range;

/// Buffer for the bytes of a file.
pub(super) type Sink = TrackedWrite<Vec<u8>>;

/// Records per page, a multiple of eight.
const PAGE_RECORDS: usize = 16 * 1024;

/// Minimum size of a column for compression; below this it does not pay.
const COMPRESS_BYTES_MIN: usize = 64;

/// From this number of distinct values on, a dictionary is given up if more than half of the values
/// are distinct.
const DISTINCT_CHECK_MIN: usize = 1024;

/// Maximum size of a dictionary, in bytes, that readers have to keep in memory.
const DICTIONARY_BYTES_MAX: usize = 1 << 20;

/// Approximate overhead of a page, in bytes.
const PAGE_HEADER_BYTES: usize = 24;

/// Values indexed between two checks of whether the dictionary still pays.
const INDEX_STEP: usize = 4 * 1024;

/// Writes columns, and reuses its buffers.
#[derive(Default)]
pub(super) struct ChunkWriter {
    /// Dictionary indices of the values in all pages.
    indexer: Indexer,
    /// All pages, uncompressed.
    bytes: Vec<u8>,
    /// Encoded levels of each page of the previous column.
    level_caches: Vec<LevelCache>,
    snappy: Snappy,
}

/// A page to be written.
struct PagePlan {
    rows: Range<usize>,
    values: Range<usize>,
    /// Its range in the buffer.
    bytes: Range<usize>,
}

impl ChunkWriter {
    /// Writes a column of `records` records, and returns its metadata for the footer.
    pub(super) fn write(
        &mut self,
        column: &Column,
        records: usize,
        descriptor: &ColumnDescPtr,
        sink: &mut Sink,
    ) -> Result<ColumnChunkMetaData, ParquetError> {
        match &column.values {
            Values::Int64(values) if column.encoding == ColumnEncoding::Delta => {
                self.write_values(column, &DeltaValues(values), records, descriptor, sink)
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

    fn write_values<P: PlainValues + ?Sized>(
        &mut self,
        column: &Column,
        values: &P,
        records: usize,
        descriptor: &ColumnDescPtr,
        sink: &mut Sink,
    ) -> Result<ColumnChunkMetaData, ParquetError> {
        let mut parts = plan_pages(column, records);
        let numbered =
            column.encoding == ColumnEncoding::Dictionary && self.build_dictionary(values);
        self.bytes.clear();
        if numbered {
            for &first in self.indexer.distinct.first_positions() {
                values.append(first, &mut self.bytes);
            }
        }
        let dictionary = 0..self.bytes.len();
        self.level_caches
            .resize_with(parts.len(), LevelCache::default);
        for (part, levels) in parts.iter_mut().zip(&mut self.level_caches) {
            let begin = self.bytes.len();
            if let Some(present) = &column.validity {
                levels.append(present, &part.rows, &mut self.bytes);
            }
            if numbered {
                let width = hybrid::bit_width(self.indexer.distinct.len());
                self.bytes.push(width as u8);
                let numbers = self.indexer.indices.get(part.values.clone());
                hybrid::write(numbers.unwrap_or_default(), width, &mut self.bytes);
            } else {
                values.append_range(part.values.clone(), &mut self.bytes);
            }
            part.bytes = begin..self.bytes.len();
        }
        let nulls = (records - values.count()) as u64;
        let unsigned = !descriptor.sort_order().is_signed();
        let statistics = if numbered {
            let firsts = self.indexer.distinct.first_positions().iter();
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

    /// Indexes the values of all pages. Returns false if a dictionary does not pay.
    fn build_dictionary<P: PlainValues + ?Sized>(&mut self, values: &P) -> bool {
        self.indexer.clear();
        let (mut bytes, mut counted) = (0, 0);
        for begin in (0..values.count()).step_by(INDEX_STEP) {
            let end = values.count().min(begin + INDEX_STEP);
            if !values.index(begin..end, &mut self.indexer) {
                return false;
            }
            let firsts = self.indexer.distinct.first_positions();
            let new = firsts.get(counted..).unwrap_or_default();
            bytes += new
                .iter()
                .map(|&at| values.encoded_bytes(at))
                .sum::<usize>();
            counted = firsts.len();
            if bytes > DICTIONARY_BYTES_MAX || (counted > DISTINCT_CHECK_MIN && 2 * counted > end) {
                return false;
            }
        }
        let numbers = values.count() * hybrid::bit_width(counted) as usize / 8;
        // Assumes that the other strings are as long on average.
        let plain = values.count() * bytes / counted.max(1);
        PAGE_HEADER_BYTES + bytes + numbers < plain
    }

    fn write_pages(
        &mut self,
        dictionary: Option<Range<usize>>,
        plain: Encoding,
        parts: &[PagePlan],
        statistics: Statistics,
        descriptor: &ColumnDescPtr,
        sink: &mut Sink,
    ) -> Result<ColumnChunkMetaData, ParquetError> {
        // Deltas are already packed.
        let compressed = self.bytes.len() >= COMPRESS_BYTES_MIN && plain == Encoding::PLAIN;
        // Dictionary indices are already packed.
        let (values_form, pages_form) = match &dictionary {
            _ if !compressed => (PageForm::Uncompressed, PageForm::Uncompressed),
            Some(_) => (PageForm::Compressed, PageForm::Literal),
            None => (PageForm::Compressed, PageForm::Compressed),
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
                    num_values: self.indexer.distinct.len() as u32,
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

    /// Returns the bytes of a page as written to the file.
    fn page(&mut self, bytes: &Range<usize>, form: PageForm) -> Result<Vec<u8>, ParquetError> {
        let bytes = self.bytes.get(bytes.clone()).unwrap_or_default();
        match form {
            PageForm::Uncompressed => Ok(bytes.to_vec()),
            PageForm::Literal => Ok(snappy::literal(bytes)),
            PageForm::Compressed => self.snappy.compress(bytes),
        }
    }
}

/// How the bytes of a page are written.
#[derive(Clone, Copy)]
enum PageForm {
    /// Uncompressed, in an uncompressed column.
    Uncompressed,
    /// Stored as a literal, in a compressed column.
    Literal,
    Compressed,
}

/// Divides a column of `records` records into pages.
fn plan_pages(column: &Column, records: usize) -> Vec<PagePlan> {
    let mut values = 0;
    (0..records)
        .step_by(PAGE_RECORDS)
        .map(|start| {
            let rows = start..records.min(start + PAGE_RECORDS);
            let begin = values;
            values += match &column.validity {
                Some(present) => present.count(&rows),
                None => rows.len(),
            };
            PagePlan {
                rows,
                values: begin..values,
                bytes: 0..0,
            }
        })
        .collect()
}
