//! Snappy compression of pages.

use super::hybrid::varint;
use ::parquet::errors::ParquetError;

/// Compresses pages, and reuses its buffer.
pub(super) struct Snappy {
    encoder: snap::raw::Encoder,
    buffer: Vec<u8>,
}

impl Default for Snappy {
    fn default() -> Self {
        Self {
            encoder: snap::raw::Encoder::new(),
            buffer: Vec::new(),
        }
    }
}

impl Snappy {
    /// Returns the compressed bytes.
    pub(super) fn compress(&mut self, bytes: &[u8]) -> Result<Vec<u8>, ParquetError> {
        let most = snap::raw::max_compress_len(bytes.len());
        if self.buffer.len() < most {
            self.buffer.resize(most, 0);
        }
        let length = self
            .encoder
            .compress(bytes, &mut self.buffer)
            .map_err(|error| ParquetError::General(error.to_string()))?;
        Ok(self.buffer[..length].to_vec())
    }
}

/// Stores bytes as a single literal, for pages that hardly compress.
pub(super) fn literal(bytes: &[u8]) -> Vec<u8> {
    /// Tag of a literal whose length minus one follows in four bytes.
    const FOUR_BYTES: u8 = 63 << 2;
    const HEADER_MAX: usize = 10;
    let mut page = Vec::with_capacity(HEADER_MAX + bytes.len());
    varint(bytes.len() as u64, &mut page);
    if let Some(last) = bytes.len().checked_sub(1) {
        page.push(FOUR_BYTES);
        page.extend_from_slice(&(last as u32).to_le_bytes());
        page.extend_from_slice(bytes);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_decompress_to_their_input() {
        let mut snappy = Snappy::default();
        for length in [0, 1, 2, 60, 61, 127, 128, 300, 70_000, 1 << 20] {
            let bytes: Vec<u8> = (0..length).map(|it: u32| (it % 251) as u8).collect();
            let compressed = snappy.compress(&bytes).unwrap();
            for page in [compressed, literal(&bytes)] {
                let read = snap::raw::Decoder::new().decompress_vec(&page).unwrap();
                assert_eq!(read, bytes, "{length}");
            }
        }
    }
}
