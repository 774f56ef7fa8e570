//! Batches of records, and the flows whose records are not built yet.

use crate::batch::BURST;
use crate::ended::EndedFlows;
use crate::record::{Record, Schema};
use analysis::{Analyses, Analysis};
use hw::tags::TAGS;

/// A batch of records on its way out of the meter, with the values of their statistics.
#[derive(Clone, Debug, Default)]
pub struct RecordBatch {
    /// The records, in the order in which their flows ended.
    pub records: Vec<Record>,
    /// Flows that ended after those in `records`. [`RecordBatch::complete`] turns them into records.
    pub ended: EndedFlows,
    /// One value per column of [`Schema::statistics`] for each record, row by row. NaN if there is no
    /// value (the inter-arrival time of a flow of one packet).
    pub values: Vec<f64>,
    /// The analysis of each record's flow; empty if no analysis is selected.
    pub analyses: Analyses,
}

/// The number of records at which a batch goes to the sink.
pub const RECORDS_PER_BATCH: usize = 1024;

/// The maximum number of flows in a batch. A batch is handed over at [`RECORDS_PER_BATCH`]; before
/// that, one burst may add a flow per packet, and eviction works on whole buckets.
pub(crate) const BATCH_RECORDS_MAX: usize = RECORDS_PER_BATCH + BURST + TAGS;

impl RecordBatch {
    /// Creates an empty batch with memory for a full one, already mapped.
    #[must_use]
    pub fn populated(schema: &Schema) -> Self {
        let analysed = schema.analysis.map_or(0, |_| BATCH_RECORDS_MAX);
        let mut batch = Self {
            records: vec![Record::default(); BATCH_RECORDS_MAX],
            ended: EndedFlows::populated(BATCH_RECORDS_MAX),
            values: vec![f64::NAN; BATCH_RECORDS_MAX * schema.statistics.len()],
            analyses: Analyses::populated(analysed),
        };
        batch.clear();
        batch
    }

    /// Returns the memory of a full batch in bytes, without the texts of its analyses.
    #[must_use]
    pub fn memory_bytes(schema: &Schema) -> usize {
        let analysis = schema.analysis.map_or(0, |_| size_of::<Analysis>());
        let values = size_of::<f64>() * schema.statistics.len();
        // The flows that ended are in the batch a second time, until they are records.
        BATCH_RECORDS_MAX * (size_of::<Record>() + EndedFlows::BYTES_PER_FLOW + values + analysis)
    }

    /// Turns [`RecordBatch::ended`] into records. The packet path avoids it unless an analysis needs
    /// the records.
    pub fn complete(&mut self) {
        self.ended.complete(&mut self.records);
    }

    /// Returns the number of flows, including those that are not records yet.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.records.len() + self.ended.len()
    }

    /// Returns whether the batch has no flows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all flows.
    pub fn clear(&mut self) {
        self.records.clear();
        self.ended.clear();
        self.values.clear();
        self.analyses.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::{Analysis, Level};

    #[test]
    fn a_populated_batch_is_empty_and_does_not_reallocate_until_full() {
        let schema = Schema {
            analysis: Some(Level::Full),
            ..Schema::default()
        };
        let mut batch = RecordBatch::populated(&schema);
        assert!(batch.records.is_empty() && batch.values.is_empty() && batch.analyses.is_empty());
        let pointers = (batch.records.as_ptr(), batch.analyses.as_ptr());
        for _ in 0..BATCH_RECORDS_MAX - 1 {
            batch.records.push(Record::default());
            batch.analyses.push(Analysis::default());
        }
        assert_eq!((batch.records.as_ptr(), batch.analyses.as_ptr()), pointers);
        // Without an analysis, none of them takes memory.
        let counted = RecordBatch::populated(&Schema::default());
        assert_eq!(counted.analyses.capacity(), 0);
    }
}
