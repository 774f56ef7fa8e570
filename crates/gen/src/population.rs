//! A population of flows: the frame of each, made once and copied for every packet.

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

/// The most flows.
pub const FLOWS_MAX: u32 = 1 << 26;

/// How many flows in turn may match a filter that they are not to match, before it is said that
/// all of them do.
const TRIES: usize = 10_000;

/// Images of frames, each in cache lines of its own: the frame's first bytes, as many as there is
/// room for, then the hash that a device would give it.
pub(crate) enum FrameTemplates {
    /// One line: what is IPv4 throughout.
    Small(HugeSlice<[u8; 64]>),
    /// Two lines.
    Large(HugeSlice<[u8; 128]>),
}

/// Bytes of the hash at an image's end.
pub(crate) const HASH_BYTES: usize = 4;

impl FrameTemplates {
    fn new(large: bool, flows: usize) -> Result<Self, GeneratorError> {
        let no_memory =
            |error| GeneratorError::new(format!("no memory for {flows} flows: {error}"));
        Ok(if large {
            Self::Large(HugeSlice::try_zeroed(flows).map_err(no_memory)?)
        } else {
            Self::Small(HugeSlice::try_zeroed(flows).map_err(no_memory)?)
        })
    }

    pub(crate) fn get(&self, flow: u32) -> &[u8] {
        match self {
            Self::Small(images) => &images[flow as usize],
            Self::Large(images) => &images[flow as usize],
        }
    }

    fn get_mut(&mut self, flow: u32) -> &mut [u8] {
        match self {
            Self::Small(images) => &mut images[flow as usize],
            Self::Large(images) => &mut images[flow as usize],
        }
    }

    /// Asks for the images of flows.
    pub(crate) fn prefetch(&self, flows: &[u32]) {
        match self {
            Self::Small(images) => {
                for &flow in flows {
                    prefetch::read(images, flow as usize);
                }
            }
            Self::Large(images) => {
                for &flow in flows {
                    prefetch::read(images, flow as usize);
                    prefetch::offset(&images[flow as usize], 64);
                }
            }
        }
    }

    /// Bytes of one.
    pub(crate) fn template_bytes(&self) -> usize {
        match self {
            Self::Small(_) => 64,
            Self::Large(_) => 128,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Small(images) => images.len(),
            Self::Large(images) => images.len(),
        }
    }
}

/// All flows, those that match a filter behind the others.
pub(crate) struct Population {
    pub(crate) templates: FrameTemplates,
    /// How many do not match, or all where there is no filter.
    pub(crate) non_matching: u32,
    /// The layout of all frames, where they have one.
    pub(crate) layout: Option<Layout>,
    /// Fields by layout, where there are frames of it.
    pub(crate) fields: [Option<FlowFields>; 4],
}

/// What a population is made from.
pub(crate) struct PopulationSpec<'a> {
    pub(crate) flows: u32,
    pub(crate) kinds: &'a [FlowFields],
    pub(crate) matching: Option<(&'a MatchFilter, f64)>,
    pub(crate) mac: MacAddresses,
    /// Length of the frames whose images these are, without the frame check sequence.
    pub(crate) length: usize,
    /// The least length of any frame, and the bytes of payload that are needed in it.
    pub(crate) length_min: usize,
    pub(crate) payload: usize,
    pub(crate) rss_key: &'a [u8],
    pub(crate) seed: u64,
}

impl Population {
    pub(crate) fn new(wanted: &PopulationSpec<'_>) -> Result<Self, GeneratorError> {
        let flows = wanted.flows;
        if flows == 0 || flows > FLOWS_MAX {
            return Err(GeneratorError::new(format!(
                "{flows} flows: from 1 to {FLOWS_MAX}"
            )));
        }
        if wanted.kinds.is_empty() {
            return Err(GeneratorError::new("no kind of flows is given"));
        }
        let (others, narrowed) = match wanted.matching {
            None => (flows, Vec::new()),
            Some((filter, share)) => {
                if !(0.0..=1.0).contains(&share) {
                    return Err(GeneratorError::new(
                        "the share of matching packets is from 0 to 100 %",
                    ));
                }
                let matching = (f64::from(flows) * share).round() as u32;
                let matching = match share {
                    0.0 => 0,
                    1.0 => flows,
                    _ if flows == 1 => {
                        return Err(GeneratorError::new(
                            "a share of matching packets needs at least two flows",
                        ));
                    }
                    _ => matching.clamp(1, flows - 1),
                };
                (flows - matching, filter.matching_kinds(wanted.kinds))
            }
        };
        let mut fields = [None; 4];
        let mut large = false;
        for kind in wanted.kinds.iter().chain(&narrowed) {
            kind.check_families()?;
            let layout = Layout::new(kind.version(), kind.protocol);
            check_room(layout, wanted)?;
            fields[layout.index()] = Some(*kind);
            large |= layout.ipv6;
        }
        let mut population = Self {
            templates: FrameTemplates::new(large, flows as usize)?,
            non_matching: others,
            layout: None,
            fields,
        };
        let filter = match wanted.matching {
            Some((filter, _)) => Some(
                Matcher::new(filter.text(), LinkType::Ethernet)
                    .map_err(|error| GeneratorError::new(error.to_string()))?,
            ),
            None => None,
        };
        population.build(wanted, wanted.kinds, 0..others, filter.as_ref(), false)?;
        population.build(wanted, &narrowed, others..flows, filter.as_ref(), true)?;
        let first = Layout::of_frame(population.templates.get(0));
        let same = (0..flows).all(|flow| Layout::of_frame(population.templates.get(flow)) == first);
        population.layout = same.then_some(first);
        Ok(population)
    }

    /// Makes some of the flows, which are to match the filter or not to match it.
    fn build(
        &mut self,
        wanted: &PopulationSpec<'_>,
        kinds: &[FlowFields],
        flows: std::ops::Range<u32>,
        filter: Option<&Matcher>,
        match_: bool,
    ) -> Result<(), GeneratorError> {
        if flows.is_empty() {
            return Ok(());
        }
        let rss = Toeplitz::new(wanted.rss_key)
            .map_err(|error| GeneratorError::new(error.to_string()))?;
        let mut kinds: Vec<_> = kinds
            .iter()
            .enumerate()
            .map(|(index, kind)| kind.shuffled(wanted.seed ^ index as u64))
            .collect();
        let mut random = Random::new(wanted.seed, KIND_USE);
        let wanted_flows = flows.len();
        for flow in flows {
            let kind = random.below(kinds.len() as u64) as usize;
            let image = self.templates.get_mut(flow);
            let mut tries = 0;
            loop {
                let Some(key) = kinds[kind].next() else {
                    return Err(GeneratorError::new(format!(
                        "the ranges of addresses and ports do not give {wanted_flows} flows: widen them"
                    )));
                };
                write_image(image, &key, wanted, &rss);
                let body = image.len() - HASH_BYTES;
                let frame = &image[..body.min(wanted.length)];
                if filter
                    .is_none_or(|filter| matches_filter(filter, frame, wanted.length) == match_)
                {
                    break;
                }
                tries += 1;
                if tries == TRIES || match_ {
                    return Err(no_flow_error(wanted, match_));
                }
                // What stands there is not what the next one writes over.
                image.fill(0);
            }
        }
        Ok(())
    }

    pub(crate) fn flows(&self) -> u32 {
        self.templates.len() as u32
    }
}

/// The random sequence that chooses kinds.
const KIND_USE: u64 = 0x6b69_6e64;

fn write_image(image: &mut [u8], key: &FlowKey, wanted: &PopulationSpec<'_>, rss: &Toeplitz) {
    let body = image.len() - HASH_BYTES;
    frame::write_headers(&mut image[..body], key, &wanted.mac, wanted.length);
    let hash = rss.hash_key(key, Input::AddressesAndPorts);
    image[body..].copy_from_slice(&hash.to_le_bytes());
}

fn matches_filter(filter: &Matcher, frame: &[u8], length: usize) -> bool {
    filter.matches(&Frame::new(frame, 0, length as u32))
}

fn no_flow_error(wanted: &PopulationSpec<'_>, match_: bool) -> GeneratorError {
    let filter = wanted.matching.map_or("", |(filter, _)| filter.text());
    GeneratorError::new(if match_ {
        format!("--match '{filter}': libpcap says that the packets made for it do not match")
    } else {
        format!(
            "--match '{filter}': all other flows match too; widen the ranges or protocols of flows"
        )
    })
}

/// Whether the headers and what the payload must hold fit into the shortest frame.
fn check_room(layout: Layout, wanted: &PopulationSpec<'_>) -> Result<(), GeneratorError> {
    let least = layout.payload() + wanted.payload;
    if wanted.length_min >= least {
        return Ok(());
    }
    let what = format!(
        "{} in IPv{}",
        if layout.udp { "UDP" } else { "TCP" },
        if layout.ipv6 { 6 } else { 4 }
    );
    let with = match wanted.payload {
        0 => String::new(),
        bytes => format!(" with {bytes} bytes of sequence number and time"),
    };
    Err(GeneratorError::new(format!(
        "frame size {} is too small for {what}{with}: at least {}",
        wanted.length_min + crate::sizes::FCS_BYTES,
        least + crate::sizes::FCS_BYTES
    )))
}

/// The hash at an image's end.
#[inline]
pub(crate) fn hash_of(image: &[u8]) -> u32 {
    let at = image.len() - HASH_BYTES;
    u32::from_le_bytes([image[at], image[at + 1], image[at + 2], image[at + 3]])
}
