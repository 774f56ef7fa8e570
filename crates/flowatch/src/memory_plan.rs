//! The memory that a run may need, announced before it begins.

use crate::collector;
use crate::cpu_time;
use crate::plan::Plan;
use crate::units;
use engine::Measurements;
use port::Port;
use serde::Serialize;

/// The program itself, its threads and the buffers of its outputs, in bytes; measured.
const PROGRAM_BYTES: u64 = 20 << 20;

/// The most memory that each part of a run needs, in bytes.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct MemoryPlan {
    /// The sum of the parts.
    planned_bytes: u64,
    tables_bytes: u64,
    receive_rings_bytes: u64,
    buffers_bytes: u64,
    /// Records on their way to the outputs.
    records_bytes: u64,
    /// Records held back to be joined.
    joining_bytes: u64,
    /// Records held back to be sorted. They come when the tables are empty, and are not in the sum.
    sorting_bytes: u64,
    program_bytes: u64,
}

/// The memory of a completed run.
#[derive(Debug, Serialize)]
pub(crate) struct MemoryUse {
    #[serde(flatten)]
    plan: MemoryPlan,
    /// The most memory that the process had at any time, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_bytes: Option<u64>,
}

impl MemoryPlan {
    /// Adds up what a run of `plan` with these tables and ports may need.
    pub(crate) fn new(plan: &Plan, measurements: &Measurements, ports: &[Box<dyn Port>]) -> Self {
        let options = &plan.engine;
        let (receivers, workers) = (plan.receivers(), options.workers(plan.receivers()));
        let queued = collector::queued_batches(plan.outputs.specs.len());
        let buffer = options.acquisition.map_or(0, |it| it.buffer_bytes);
        let rings = ports.iter().map(|port| port.memory_bytes());
        let joining = plan.merge(workers).map_or(0, |merge| merge.memory_bytes());
        let mut memory = Self {
            tables_bytes: measurements.memory_bytes() as u64,
            receive_rings_bytes: rings.sum::<usize>() as u64,
            buffers_bytes: (buffer * receivers) as u64,
            records_bytes: engine::records_memory_bytes(workers, queued, &options.meter) as u64,
            joining_bytes: joining as u64,
            sorting_bytes: if plan.outputs.collector.sort {
                plan.outputs.collector.sort_bytes_max
            } else {
                0
            },
            program_bytes: PROGRAM_BYTES,
            planned_bytes: 0,
        };
        memory.planned_bytes = memory.parts().iter().map(|(_, bytes)| bytes).sum();
        memory
    }

    fn parts(&self) -> [(&'static str, u64); 6] {
        [
            ("flow tables", self.tables_bytes),
            ("receive rings", self.receive_rings_bytes),
            ("buffers", self.buffers_bytes),
            ("records on their way", self.records_bytes),
            ("records to join", self.joining_bytes),
            ("the program", self.program_bytes),
        ]
    }

    /// Returns the announcement in one line.
    pub(crate) fn text(&self) -> String {
        let parts = self.parts().into_iter().filter(|(_, bytes)| *bytes > 0);
        let parts: Vec<String> = parts
            .map(|(name, bytes)| format!("{} for {name}", units::memory(bytes)))
            .collect();
        let sorting = match self.sorting_bytes {
            0 => String::new(),
            bytes => format!("; --sort: up to {} more", units::memory(bytes)),
        };
        format!(
            "memory: at most {} ({}){sorting}",
            units::memory(self.planned_bytes),
            parts.join(", ")
        )
    }

    /// Returns the plan with what was used.
    pub(crate) fn with_use(&self) -> MemoryUse {
        MemoryUse {
            plan: self.clone(),
            peak_bytes: cpu_time::peak_memory(),
        }
    }
}
