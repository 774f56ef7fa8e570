//! Synthetic traffic: frames of a population of flows, written directly into the slots of a link.

use crate::error::GeneratorError;
use crate::frame::{self, Layout};
use crate::frame_writer::FrameWriter;
use crate::lookahead::LookaheadSelector;
use crate::population::{self, FrameTemplates, HASH_BYTES, Population, PopulationSpec};
use crate::sizes::FCS_BYTES;
use crate::source::{Filled, Source};
use crate::traffic_options::TrafficOptions;
use port::{PortError, Slot};
use wire::FlowKey;

/// An endless source of synthetic frames.
///
/// ```
/// use generator::{Source, Traffic, TrafficOptions};
/// use port::{NullSink, Transmit};
///
/// let mut traffic = Traffic::new(&TrafficOptions::default())?;
/// let mut sink = NullSink::new();
/// let mut flows = [0; 256];
/// let slots = sink.reserve(256, traffic.slot_bytes())?;
/// let filled = traffic.fill(slots, &mut flows)?;
/// assert_eq!(sink.submit(filled.frames)?, 256);
/// println!("the first frame belongs to {:?}", traffic.key(flows[0]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Traffic {
    population: Population,
    selector: LookaheadSelector,
    writer: FrameWriter,
    classes: Classes,
}

impl Traffic {
    /// Builds the population of flows.
    ///
    /// # Errors
    /// If the options are invalid, or memory runs out.
    pub fn new(options: &TrafficOptions) -> Result<Self, GeneratorError> {
        if options.random.changes_flow_key() && options.matching.is_some() {
            return Err(GeneratorError::new(
                "random addresses or ports cannot be combined with a share of packets that match a filter",
            ));
        }
        let list = options.sizes.weighted();
        let lengths: Vec<u16> = list
            .iter()
            .map(|&(size, _)| (size - FCS_BYTES) as u16)
            .collect();
        let matching = options
            .matching
            .as_ref()
            .map(|(filter, share)| (filter, *share));
        let population = Population::new(&PopulationSpec {
            flows: options.flows,
            kinds: &options.kinds,
            matching,
            mac: options.mac,
            length: usize::from(lengths[0]),
            length_min: options.sizes.min() - FCS_BYTES,
            payload: options.probe_bytes(),
            rss_key: &options.rss_key,
            seed: options.seed,
        })?;
        let share = matching.map_or(0.0, |(_, share)| share);
        Ok(Self {
            selector: LookaheadSelector::new(options.order, &population, share, options.seed)?,
            writer: FrameWriter::new(options, &population, lengths)?,
            classes: Classes::new(&population),
            population,
        })
    }

    /// The number of flows.
    #[must_use]
    pub fn flows(&self) -> u32 {
        self.population.flows()
    }

    /// The key of a flow. Random fields of its packets differ from it.
    ///
    /// # Panics
    /// If there is no such flow.
    #[must_use]
    pub fn key(&self, flow: u32) -> FlowKey {
        frame::key_of(self.population.templates.get(flow))
    }

    /// The RSS hash of the packets of a flow.
    ///
    /// # Panics
    /// If there is no such flow.
    #[must_use]
    pub fn rss_hash(&self, flow: u32) -> u32 {
        population::hash_of(self.population.templates.get(flow))
    }

    /// Fills `flows` with the flows of the next packets, without writer frames: for callers that build
    /// frames themselves.
    pub fn next_flows(&mut self, flows: &mut [u32]) {
        self.selector.next_flows(flows, &self.population.templates);
    }

    /// The frame of a flow with the first frame size, before the sequence number and random fields are set.
    ///
    /// # Panics
    /// If there is no such flow.
    #[must_use]
    pub fn frame(&self, flow: u32) -> Vec<u8> {
        let template = self.population.templates.get(flow);
        let mut frame = template[..template.len() - HASH_BYTES].to_vec();
        frame.resize(usize::from(self.writer.lengths[0]), 0);
        frame
    }
}

impl Source for Traffic {
    fn slot_bytes(&self) -> usize {
        self.writer.slot_bytes
    }

    fn fill(&mut self, slots: &mut [Slot<'_>], flows: &mut [u32]) -> Result<Filled, PortError> {
        let count = slots.len().min(flows.len());
        let (slots, flows) = (&mut slots[..count], &mut flows[..count]);
        self.selector.next_flows(flows, &self.population.templates);
        let bytes = match &self.population.templates {
            FrameTemplates::Small(templates) => self.writer.write_all(templates, slots, flows),
            FrameTemplates::Large(templates) => self.writer.write_all(templates, slots, flows),
        };
        Ok(Filled {
            frames: count,
            bytes,
        })
    }

    fn mean_length(&self) -> f64 {
        self.writer.mean_length
    }

    fn classes(&self) -> &[String] {
        &self.classes.names
    }

    fn class_of(&self, flow: u32) -> usize {
        self.classes.of(&self.population, flow)
    }
}

/// Classes of frames: IP version, protocol, and whether they match the filter.
struct Classes {
    names: Vec<String>,
    /// Index of the name by layout; matching frames have an offset of 4. `usize::MAX` if unused.
    numbers: [usize; 8],
}

impl Classes {
    fn new(population: &Population) -> Self {
        let mut classes = Self {
            names: Vec::new(),
            numbers: [usize::MAX; 8],
        };
        let has_both = population.non_matching > 0 && population.non_matching < population.flows();
        for flow in 0..population.flows() {
            let (kind, layout) = kind_of(population, flow);
            if classes.numbers[kind] != usize::MAX {
                continue;
            }
            classes.numbers[kind] = classes.names.len();
            let matching = match (has_both, kind > 3) {
                (false, _) => "",
                (true, true) => "matching ",
                (true, false) => "other ",
            };
            let protocol = if layout.udp { "UDP" } else { "TCP" };
            let version = if layout.ipv6 { 6 } else { 4 };
            classes
                .names
                .push(format!("{matching}IPv{version} {protocol}"));
        }
        classes
    }

    fn of(&self, population: &Population, flow: u32) -> usize {
        self.numbers[kind_of(population, flow).0]
    }
}

/// Returns the index in [`Classes::numbers`], and the layout.
fn kind_of(population: &Population, flow: u32) -> (usize, Layout) {
    let layout = population
        .layout
        .unwrap_or_else(|| Layout::of_frame(population.templates.get(flow)));
    let matching = usize::from(flow >= population.non_matching);
    (matching * 4 + layout.index(), layout)
}
