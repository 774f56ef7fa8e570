//! Synthetic traffic: frames of a population of flows, written where they are sent from.

use crate::lookahead::LookaheadSelector;
use crate::error::GeneratorError;
use crate::fields::{FlowFields, Protocol};
use crate::frame::{self, Layout, MacAddresses};
use crate::match_filter::MatchFilter;
use crate::flow_order::FlowOrder;
use crate::population::{self, HASH_BYTES, FrameTemplates, Population, PopulationSpec};
use crate::probe::Probe;
use crate::random_fields::RandomFields;
use crate::sizes::{FCS_BYTES, FrameSizes};
use crate::source::{Filled, Source};
use crate::frame_writer::FrameWriter;
use port::{PortError, Slot};
use wire::FlowKey;
use wire::toeplitz::MICROSOFT_KEY;

/// What traffic is made of.
#[derive(Clone, Debug)]
pub struct TrafficOptions {
    /// Flows.
    pub flows: u32,
    /// How packets are spread over them.
    pub order: FlowOrder,
    /// Kinds of flows, at most one of each family and protocol; each flow draws its kind.
    pub kinds: Vec<FlowFields>,
    /// Frame sizes.
    pub sizes: FrameSizes,
    /// A filter, and the share of packets (0 to 1) that match it; the others do not. The last flows
    /// are the matching ones, and each of the two parts has its own [`Order`].
    pub matching: Option<(MatchFilter, f64)>,
    /// Fields drawn anew for every packet.
    pub random: RandomFields,
    /// Whether payloads carry sequence numbers, from 0 on.
    pub sequence: bool,
    /// Whether they carry [`Slot::time_ns`] as well.
    pub timestamps: bool,
    /// Ethernet addresses.
    pub mac: MacAddresses,
    /// Key of the Toeplitz hash in [`Slot::rss_hash`], at least 40 bytes. It covers addresses and ports.
    pub rss_key: Vec<u8>,
    /// Everything that is drawn follows from it.
    pub seed: u64,
}

impl Default for TrafficOptions {
    /// 65,536 uniform flows of UDP in IPv4, 64 B.
    fn default() -> Self {
        Self {
            flows: 1 << 16,
            order: FlowOrder::Uniform,
            kinds: vec![FlowFields::ipv4(Protocol::Udp)],
            sizes: FrameSizes::min_frame(),
            matching: None,
            random: RandomFields::default(),
            sequence: false,
            timestamps: false,
            mac: MacAddresses::default(),
            rss_key: MICROSOFT_KEY.to_vec(),
            seed: 1,
        }
    }
}

impl TrafficOptions {
    /// The least frame size that has room for the headers of all kinds, and for numbers and times.
    #[must_use]
    pub fn min_frame_size(&self) -> usize {
        let headers = |kind: &FlowFields| Layout::new(kind.version(), kind.protocol).payload();
        let headers = self.kinds.iter().map(headers).max().unwrap_or(0);
        headers + self.probe_bytes() + FCS_BYTES
    }

    fn probe_bytes(&self) -> usize {
        if self.sequence || self.timestamps {
            Probe::size(self.timestamps)
        } else {
            0
        }
    }
}

/// A source of frames: as many as wanted, without end.
///
/// ```
/// use generator::{Source, Traffic, TrafficOptions};
/// use port::{NullSink, Transmit};
///
/// let mut traffic = Traffic::new(&TrafficOptions::default())?;
/// let mut sink = NullSink::new();
/// let mut flows = [0; 256];
/// let slots = sink.reserve(256, traffic.room())?;
/// let filled = traffic.fill(slots, &mut flows)?;
/// assert_eq!(sink.submit(filled.frames)?, 256);
/// println!("the first frame is of {:?}", traffic.key(flows[0]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Traffic {
    population: Population,
    drawing: LookaheadSelector,
    writing: FrameWriter,
    classes: Classes,
}

impl Traffic {
    /// Makes the population.
    ///
    /// # Errors
    /// What cannot be made, in one line.
    pub fn new(options: &TrafficOptions) -> Result<Self, GeneratorError> {
        if options.random.changes_flow_key() && options.matching.is_some() {
            return Err(GeneratorError::new(
                "addresses and ports drawn for every packet, and a share that matches a filter: one or the other",
            ));
        }
        let list = options.sizes.weighted();
        let lengths: Vec<u16> = list.iter().map(|&(size, _)| (size - FCS_BYTES) as u16).collect();
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
            drawing: LookaheadSelector::new(options.order, &population, share, options.seed)?,
            writing: FrameWriter::new(options, &population, lengths)?,
            classes: Classes::new(&population),
            population,
        })
    }

    /// How many flows there are.
    #[must_use]
    pub fn flows(&self) -> u32 {
        self.population.flows()
    }

    /// The key of a flow. (Fields that are drawn for every packet are not those of its packets.)
    ///
    /// # Panics
    /// When there is no such flow.
    #[must_use]
    pub fn key(&self, flow: u32) -> FlowKey {
        frame::key_of(self.population.templates.get(flow))
    }

    /// The hash that a device gives the packets of a flow.
    ///
    /// # Panics
    /// When there is no such flow.
    #[must_use]
    pub fn rss_hash(&self, flow: u32) -> u32 {
        population::hash_of(self.population.templates.get(flow))
    }

    /// The next flows, without writing frames: for whoever has frames of his own.
    pub fn next_flows(&mut self, flows: &mut [u32]) {
        self.drawing.next_flows(flows, &self.population.templates);
    }

    /// The frame of a flow as it is before sizes, sequence numbers and random fields: the first size.
    ///
    /// # Panics
    /// When there is no such flow.
    #[must_use]
    pub fn frame(&self, flow: u32) -> Vec<u8> {
        let image = self.population.templates.get(flow);
        let mut frame = image[..image.len() - HASH_BYTES].to_vec();
        frame.resize(usize::from(self.writing.lengths[0]), 0);
        frame
    }
}

impl Source for Traffic {
    fn slot_bytes(&self) -> usize {
        self.writing.slot_bytes
    }

    fn fill(&mut self, slots: &mut [Slot<'_>], flows: &mut [u32]) -> Result<Filled, PortError> {
        let count = slots.len().min(flows.len());
        let (slots, flows) = (&mut slots[..count], &mut flows[..count]);
        self.drawing.next_flows(flows, &self.population.templates);
        let bytes = match &self.population.templates {
            FrameTemplates::Small(images) => self.writing.write_all(images, slots, flows),
            FrameTemplates::Large(images) => self.writing.write_all(images, slots, flows),
        };
        Ok(Filled {
            frames: count,
            bytes,
        })
    }

    fn mean_length(&self) -> f64 {
        self.writing.mean_length
    }

    fn classes(&self) -> &[String] {
        &self.classes.names
    }

    fn class_of(&self, flow: u32) -> usize {
        self.classes.of(&self.population, flow)
    }
}

/// Kinds of frames: family, protocol, and whether they match the filter.
struct Classes {
    names: Vec<String>,
    /// By layout, those that match behind the others.
    numbers: [usize; 8],
}

impl Classes {
    fn new(population: &Population) -> Self {
        let mut classes = Self {
            names: Vec::new(),
            numbers: [usize::MAX; 8],
        };
        let is_divided = population.non_matching > 0 && population.non_matching < population.flows();
        for flow in 0..population.flows() {
            let (kind, layout) = kind_of(population, flow);
            if classes.numbers[kind] != usize::MAX {
                continue;
            }
            classes.numbers[kind] = classes.names.len();
            let matching = match (is_divided, kind > 3) {
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

fn kind_of(population: &Population, flow: u32) -> (usize, Layout) {
    let layout = population
        .layout
        .unwrap_or_else(|| Layout::of_frame(population.templates.get(flow)));
    let matching = usize::from(flow >= population.non_matching);
    (matching * 4 + layout.index(), layout)
}
