//! A population of flows: a frame template per flow, built once and copied for every packet.

use crate::error::GeneratorError;
use crate::fields::FlowFields;
use crate::frame::{self, Layout, MacAddresses};
use crate::match_filter::MatchFilter;
use hw::memory::HugeSlice;
use hw::prefetch;
use hw::random::Random;
use port::filter::Matcher;
use port::frame::Frame;
use wire::toeplitz::Input;
use wire::{FlowKey, LinkType, Toeplitz};

/// The maximum number of flows.
pub const FLOWS_MAX: u32 = 1 << 26;

/// The number of consecutive keys that may match the filter although they must not. After that, all
/// keys are assumed to match.
const ATTEMPTS_MAX: usize = 10_000;

/// Frame templates, each in its own cache lines: the first bytes of the frame, then the RSS hash. One
/// prefetch per line loads all that a packet needs.
pub(crate) enum FrameTemplates {
    /// One cache line: if all flows are IPv4.
    Small(HugeSlice<[u8; 64]>),
    /// Two cache lines.
    Large(HugeSlice<[u8; 128]>),
}

/// Bytes of the RSS hash at the end of a template.
pub(crate) const HASH_BYTES: usize = 4;

impl FrameTemplates {
    fn new(large: bool, flows: usize) -> Result<Self, GeneratorError> {
        let memory_error =
            |error| GeneratorError::new(format!("not enough memory for {flows} flows: {error}"));
        Ok(if large {
            Self::Large(HugeSlice::try_zeroed(flows).map_err(memory_error)?)
        } else {
            Self::Small(HugeSlice::try_zeroed(flows).map_err(memory_error)?)
        })
    }

    pub(crate) fn get(&self, flow: u32) -> &[u8] {
        match self {
            Self::Small(templates) => &templates[flow as usize],
            Self::Large(templates) => &templates[flow as usize],
        }
    }

    fn get_mut(&mut self, flow: u32) -> &mut [u8] {
        match self {
            Self::Small(templates) => &mut templates[flow as usize],
            Self::Large(templates) => &mut templates[flow as usize],
        }
    }

    /// Prefetches the templates of flows.
    pub(crate) fn prefetch(&self, flows: &[u32]) {
        match self {
            Self::Small(templates) => {
                for &flow in flows {
                    prefetch::read(templates, flow as usize);
                }
            }
            Self::Large(templates) => {
                for &flow in flows {
                    prefetch::read(templates, flow as usize);
                    prefetch::offset(&templates[flow as usize], 64);
                }
            }
        }
    }

    /// The size of a template in bytes.
    pub(crate) fn template_bytes(&self) -> usize {
        match self {
            Self::Small(_) => 64,
            Self::Large(_) => 128,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Small(templates) => templates.len(),
            Self::Large(templates) => templates.len(),
        }
    }
}

/// All flows. Flows that match the filter follow those that do not.
pub(crate) struct Population {
    pub(crate) templates: FrameTemplates,
    /// The number of flows that do not match the filter; all flows if there is no filter.
    pub(crate) non_matching: u32,
    /// The layout of all frames, if it is the same for all.
    pub(crate) layout: Option<Layout>,
    /// Fields by layout, if there are frames with this layout.
    pub(crate) fields: [Option<FlowFields>; 4],
}

/// The options of a population.
pub(crate) struct PopulationSpec<'a> {
    pub(crate) flows: u32,
    pub(crate) kinds: &'a [FlowFields],
    pub(crate) matching: Option<(&'a MatchFilter, f64)>,
    pub(crate) mac: MacAddresses,
    /// Frame length of the templates, without the frame check sequence.
    pub(crate) length: usize,
    /// The minimum frame length, without the frame check sequence.
    pub(crate) length_min: usize,
    /// Bytes of payload that each frame must have.
    pub(crate) payload: usize,
    pub(crate) rss_key: &'a [u8],
    pub(crate) seed: u64,
}

impl Population {
    pub(crate) fn new(spec: &PopulationSpec<'_>) -> Result<Self, GeneratorError> {
        let flows = spec.flows;
        if flows == 0 || flows > FLOWS_MAX {
            return Err(GeneratorError::new(format!(
                "invalid number of flows {flows}: use 1 to {FLOWS_MAX}"
            )));
        }
        if spec.kinds.is_empty() {
            return Err(GeneratorError::new("no kind of flows specified"));
        }
        let (non_matching, matching_kinds) = match spec.matching {
            None => (flows, Vec::new()),
            Some((filter, share)) => {
                if !(0.0..=1.0).contains(&share) {
                    return Err(GeneratorError::new(
                        "the share of matching packets must be from 0 to 100 %",
                    ));
                }
                let matching = (f64::from(flows) * share).round() as u32;
                let matching = match share {
                    0.0 => 0,
                    1.0 => flows,
                    _ if flows == 1 => {
                        return Err(GeneratorError::new(
                            "a share of matching packets requires at least two flows",
                        ));
                    }
                    _ => matching.clamp(1, flows - 1),
                };
                (flows - matching, filter.matching_kinds(spec.kinds))
            }
        };
        let mut fields = [None; 4];
        let mut large = false;
        for kind in spec.kinds.iter().chain(&matching_kinds) {
            kind.check_families()?;
            let layout = Layout::new(kind.version(), kind.protocol);
            check_frame_size(layout, spec)?;
            fields[layout.index()] = Some(*kind);
            large |= layout.ipv6;
        }
        let mut population = Self {
            templates: FrameTemplates::new(large, flows as usize)?,
            non_matching,
            layout: None,
            fields,
        };
        let filter = match spec.matching {
            Some((filter, _)) => Some(
                Matcher::new(filter.text(), LinkType::Ethernet)
                    .map_err(|error| GeneratorError::new(error.to_string()))?,
            ),
            None => None,
        };
        population.build(spec, spec.kinds, 0..non_matching, filter.as_ref(), false)?;
        population.build(
            spec,
            &matching_kinds,
            non_matching..flows,
            filter.as_ref(),
            true,
        )?;
        let first = Layout::of_frame(population.templates.get(0));
        let is_uniform =
            (0..flows).all(|flow| Layout::of_frame(population.templates.get(flow)) == first);
        population.layout = is_uniform.then_some(first);
        Ok(population)
    }

    /// Builds the templates of a range of flows, which must or must not match the filter.
    fn build(
        &mut self,
        spec: &PopulationSpec<'_>,
        kinds: &[FlowFields],
        flows: std::ops::Range<u32>,
        filter: Option<&Matcher>,
        must_match: bool,
    ) -> Result<(), GeneratorError> {
        if flows.is_empty() {
            return Ok(());
        }
        let rss =
            Toeplitz::new(spec.rss_key).map_err(|error| GeneratorError::new(error.to_string()))?;
        let mut kinds: Vec<_> = kinds
            .iter()
            .enumerate()
            .map(|(index, kind)| kind.shuffled(spec.seed ^ index as u64))
            .collect();
        let mut random = Random::new(spec.seed, KIND_STREAM);
        let flow_count = flows.len();
        for flow in flows {
            let kind = random.below(kinds.len() as u64) as usize;
            let template = self.templates.get_mut(flow);
            let mut attempts = 0;
            loop {
                let Some(key) = kinds[kind].next() else {
                    return Err(GeneratorError::new(format!(
                        "the ranges of addresses and ports contain fewer than {flow_count} flows: widen them"
                    )));
                };
                write_template(template, &key, spec, &rss);
                let frame_bytes = template.len() - HASH_BYTES;
                let frame = &template[..frame_bytes.min(spec.length)];
                if filter
                    .is_none_or(|filter| matches_filter(filter, frame, spec.length) == must_match)
                {
                    break;
                }
                attempts += 1;
                if attempts == ATTEMPTS_MAX || must_match {
                    return Err(no_flow_error(spec, must_match));
                }
                // The next attempt expects zeros, and may have a different layout.
                template.fill(0);
            }
        }
        Ok(())
    }

    pub(crate) fn flows(&self) -> u32 {
        self.templates.len() as u32
    }
}

/// The stream of random numbers that select kinds.
const KIND_STREAM: u64 = 0x6b69_6e64;

fn write_template(template: &mut [u8], key: &FlowKey, spec: &PopulationSpec<'_>, rss: &Toeplitz) {
    let frame_bytes = template.len() - HASH_BYTES;
    frame::write_headers(&mut template[..frame_bytes], key, &spec.mac, spec.length);
    let hash = rss.hash_key(key, Input::AddressesAndPorts);
    template[frame_bytes..].copy_from_slice(&hash.to_le_bytes());
}

fn matches_filter(filter: &Matcher, frame: &[u8], length: usize) -> bool {
    filter.matches(&Frame::new(frame, 0, length as u32))
}

fn no_flow_error(spec: &PopulationSpec<'_>, must_match: bool) -> GeneratorError {
    let filter = spec.matching.map_or("", |(filter, _)| filter.text());
    GeneratorError::new(if must_match {
        format!("--match '{filter}': libpcap reports that the generated packets do not match")
    } else {
        format!(
            "--match '{filter}': all other flows also match; widen the ranges or protocols of flows"
        )
    })
}

/// Checks that the headers and the required payload fit into the shortest frame.
fn check_frame_size(layout: Layout, spec: &PopulationSpec<'_>) -> Result<(), GeneratorError> {
    let required = layout.payload() + spec.payload;
    if spec.length_min >= required {
        return Ok(());
    }
    let what = format!(
        "{} in IPv{}",
        if layout.udp { "UDP" } else { "TCP" },
        if layout.ipv6 { 6 } else { 4 }
    );
    let with = match spec.payload {
        0 => String::new(),
        bytes => format!(" with {bytes} bytes of sequence number and timestamp"),
    };
    Err(GeneratorError::new(format!(
        "frame size {} is too small for {what}{with}: use at least {}",
        spec.length_min + crate::sizes::FCS_BYTES,
        required + crate::sizes::FCS_BYTES
    )))
}

/// The RSS hash at the end of a template.
#[inline]
pub(crate) fn hash_of(template: &[u8]) -> u32 {
    let at = template.len() - HASH_BYTES;
    u32::from_le_bytes([
        template[at],
        template[at + 1],
        template[at + 2],
        template[at + 3],
    ])
}
