//! The columns of an [`Analysis`]: names, units, definitions, and how a value is got. Each measure
//! that both sides have is two columns, the responder's with `reverse` before its name (RFC 5103).

use super::tcp::{Anomalies, TcpSide, limit};
use super::volume::First;
use super::{Analysis, Rare, Tcp};
use std::fmt;
use std::sync::LazyLock;
use wire::Tunnel;
use wire::tcp::flag::{CWR, ECE, URG};

mod tcp;
mod volume;

/// A value of a column.
#[derive(Clone, Copy, Debug)]
pub enum AnalysisValue<'a> {
    /// The column has no meaning for this flow.
    None,
    /// A whole number.
    Number(u64),
    /// A number with a fraction; NaN where the measure has no value.
    Real(f64),
    /// The same for a time: nanoseconds, told in seconds; none where the measure has no value.
    Seconds(Option<u64>),
    /// Nanoseconds since the Unix epoch.
    Time(i64),
    /// A word.
    Word(&'static str),
    /// One of the lists of the first packets: of so many of them.
    Sizes(&'a First, u8),
    /// Who sent them.
    Directions(&'a First, u8),
    /// The time before each of them.
    Gaps(&'a First, u8),
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnalysisKind {
    /// [`AnalysisValue::Number`] below 256.
    Number8,
    /// [`AnalysisValue::Number`] below 65,536.
    Number16,
    /// [`AnalysisValue::Number`].
    Number,
    /// [`AnalysisValue::Real`] or [`AnalysisValue::Seconds`].
    Real,
    /// [`AnalysisValue::Time`].
    Time,
    /// [`AnalysisValue::Word`].
    Word,
    /// A list, as text.
    List,
}

/// Columns that have values together: what is known of one of them without a look at any other is
/// known of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Of every flow.
    #[default]
    Flow,
    /// VLAN tags; where they are part of the key, the columns of the key stand for these.
    Vlan,
    /// What packets were wrapped in.
    Tunnel,
    /// Marks of congestion and fragments.
    Marks,
    /// Times between the packets of a side.
    Gaps,
    /// Times until the responder answered.
    Responses,
    /// Of TCP flows.
    Tcp,
    /// The TCP flags that few packets have: URG, ECE, CWR.
    RareFlags,
    /// What selective acknowledgements of TCP flows said.
    Sacks,
    /// Round trips of TCP flows by acknowledgements.
    RoundTrips,
    /// Round trips of TCP flows by time stamps.
    TimestampRoundTrips,
    /// What was out of sequence in TCP flows.
    Anomalies,
}

impl Part {
    /// Whether only TCP flows have values in it.
    #[must_use]
    pub const fn is_of_tcp(self) -> bool {
        !matches!(
            self,
            Self::Flow | Self::Vlan | Self::Tunnel | Self::Marks | Self::Gaps | Self::Responses
        )
    }
}

/// What a flow has in the columns of a [`Part`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filling {
    /// No values.
    Nothing,
    /// The values of a TCP flow of which nothing of the kind was seen: those of
    /// [`Analysis::unseen`].
    Unseen,
    /// Values of its own.
    Own,
}

impl Analysis {
    /// What it has in the columns of `part`.
    #[inline(always)]
    #[must_use]
    pub fn filling(&self, part: Part) -> Filling {
        let sides = &self.volume.sides;
        let of_tcp = |unseen: fn(&TcpSide) -> bool| {
            let tcp = self.tcp.as_ref()?;
            Some(tcp.sides.iter().all(unseen))
        };
        let of_rare = |unseen: fn(&TcpSide, &Rare) -> bool| {
            let sides = &self.tcp.as_ref()?.sides;
            let known = |side: &TcpSide| side.limits & limit::RARE == 0;
            let mut all = sides.iter().zip(&self.rare);
            // Of a side whose own values are not known, none are written.
            sides
                .iter()
                .any(known)
                .then(|| all.all(|(side, rare)| known(side) && unseen(side, rare)))
        };
        let unseen = match part {
            Part::Flow => Some(false),
            Part::Vlan => (self.volume.vlan != [0; 2]).then_some(false),
            Part::Tunnel => {
                let plain = self.volume.mpls_label == 0 && self.volume.tunnel == Tunnel::None;
                (!plain).then_some(false)
            }
            Part::Marks => Some(
                sides
                    .iter()
                    .all(|side| side.congestion_marks | side.fragments == 0),
            ),
            Part::Gaps => Some(sides.iter().all(|side| side.gaps() == 0)),
            Part::Responses => Some(self.volume.responses == 0),
            Part::Tcp => of_tcp(|_| false),
            Part::RareFlags => of_rare(|side, _| side.never_had(URG | ECE | CWR)),
            Part::Sacks => {
                of_rare(|_, rare| rare.sack_blocks == 0 && rare.duplicates_reported == 0)
            }
            Part::RoundTrips => of_tcp(|side| side.rtt.count() == 0),
            Part::TimestampRoundTrips => of_tcp(|side| side.timestamp_rtt.count() == 0),
            Part::Anomalies => of_rare(|_, rare| rare.anomalies == Anomalies::default()),
        };
        match unseen {
            None => Filling::Nothing,
            Some(true) => Filling::Unseen,
            Some(false) => Filling::Own,
        }
    }

    /// A TCP flow of which nothing was seen.
    #[must_use]
    pub fn unseen() -> Self {
        Self {
            tcp: Some(Tcp::default()),
            ..Self::default()
        }
    }
}

/// A column of an analysis.
#[derive(Clone, Debug)]
pub struct AnalysisColumn {
    /// Stable name.
    pub name: String,
    /// Number of the IPFIX Information Element, where there is one.
    pub ipfix: Option<u16>,
    /// Type of its values.
    pub kind: AnalysisKind,
    /// Unit, or nothing.
    pub unit: &'static str,
    /// Tstat's column, or nothing.
    pub tstat: String,
    /// Which part of a record it belongs to.
    pub part: Part,
    /// What it is and where it comes from.
    pub definition: &'static str,
    /// Whose measure it is: 0 the initiator's (or the flow's), 1 the responder's.
    pub side: usize,
    value: Source,
}

impl AnalysisColumn {
    /// Its value for a flow. Whoever wants all values of many flows takes them as a [`Table`].
    #[must_use]
    pub fn value<'a>(&self, analysis: &'a Analysis) -> AnalysisValue<'a> {
        (self.value.0)(analysis)
    }
}

/// What gives the values of a column.
#[derive(Clone, Copy)]
struct Source(&'static (dyn for<'a> Fn(&'a Analysis) -> AnalysisValue<'a> + Sync));

impl fmt::Debug for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Source")
    }
}

/// What takes the columns of an analysis from [`describe`]: in their order, those that have values
/// together in one run.
///
/// Each taker is compiled with the columns into code of its own, in which a value is a load: to ask
/// a column for a value of any type, and then the value for its type, takes many times that.
pub trait Table: Sized {
    /// Those that `columns` gives come next.
    fn run(&mut self, part: Part, columns: impl FnOnce(&mut Self));

    /// A column: of one side, or of the flow.
    fn column(
        &mut self,
        about: &About,
        side: Option<usize>,
        value: impl for<'a> Fn(&'a Analysis) -> AnalysisValue<'a> + Sync + 'static,
    );

    /// A column of the flow.
    #[doc(hidden)]
    #[inline(always)]
    fn flow(
        &mut self,
        about: About,
        value: impl for<'a> Fn(&'a Analysis, usize) -> AnalysisValue<'a> + Sync + 'static,
    ) {
        self.column(&about, None, move |it| value(it, 0));
    }

    /// A column of each side.
    #[doc(hidden)]
    #[inline(always)]
    fn sides(
        &mut self,
        about: About,
        value: impl for<'a> Fn(&'a Analysis, usize) -> AnalysisValue<'a> + Copy + Sync + 'static,
    ) {
        // Each side has code of its own, for which its number is a constant.
        self.column(&about, Some(0), move |it| value(it, 0));
        self.column(&about, Some(1), move |it| value(it, 1));
    }
}

/// Which columns there are.
#[derive(Clone, Copy, Debug)]
pub struct Chosen {
    /// Those of VLAN tags.
    pub vlan: bool,
    /// Those of TCP.
    pub tcp: bool,
}

impl Chosen {
    /// All of them.
    pub const ALL: Self = Self {
        vlan: true,
        tcp: true,
    };

    /// Whether those of `part` are among them.
    #[must_use]
    pub const fn has(self, part: Part) -> bool {
        match part {
            Part::Vlan => self.vlan,
            part => self.tcp || !part.is_of_tcp(),
        }
    }
}

/// Gives `table` the columns that are chosen.
#[inline(always)]
pub fn describe(table: &mut impl Table, chosen: Chosen) {
    volume::volume(table, chosen);
    if chosen.tcp {
        tcp::tcp(table);
    }
}

/// Every column, in the order in which formats write them.
pub static COLUMNS: LazyLock<Vec<AnalysisColumn>> = LazyLock::new(|| {
    let mut list = List::default();
    describe(&mut list, Chosen::ALL);
    list.columns
});

/// What a column is, but for its value.
#[derive(Debug)]
pub struct About {
    /// Its name; of the responder's side with `reverse` before it.
    name: &'static str,
    ipfix: Option<u16>,
    /// Type of its values.
    pub kind: AnalysisKind,
    unit: &'static str,
    /// Tstat's column; of a side without its `c_` or `s_`.
    tstat: &'static str,
    definition: &'static str,
}

/// What all columns are.
#[derive(Default)]
struct List {
    columns: Vec<AnalysisColumn>,
    part: Part,
}

impl Table for List {
    fn run(&mut self, part: Part, columns: impl FnOnce(&mut Self)) {
        self.part = part;
        columns(self);
    }

    fn column(
        &mut self,
        about: &About,
        side: Option<usize>,
        value: impl for<'a> Fn(&'a Analysis) -> AnalysisValue<'a> + Sync + 'static,
    ) {
        let name = match (side, about.name.split_at(1)) {
            (Some(1), (first, rest)) => format!("reverse{}{rest}", first.to_uppercase()),
            _ => about.name.to_owned(),
        };
        let tstat = match (about.tstat, side) {
            ("", _) => String::new(),
            (whole, None) => whole.to_owned(),
            (stem, Some(side)) => format!("{}_{stem}", ["c", "s"][side]),
        };
        self.columns.push(AnalysisColumn {
            name,
            ipfix: about.ipfix,
            kind: about.kind,
            unit: about.unit,
            tstat,
            part: self.part,
            definition: about.definition,
            side: side.unwrap_or(0),
            // Nothing is lost: it is code alone, without a size.
            value: Source(Box::leak(Box::new(value))),
        });
    }
}

#[inline(always)]
const fn seconds(nanoseconds: Option<u64>) -> AnalysisValue<'static> {
    AnalysisValue::Seconds(nanoseconds)
}

#[inline(always)]
fn number(value: impl Into<u64>) -> AnalysisValue<'static> {
    AnalysisValue::Number(value.into())
}

/// A column's About in few words.
macro_rules! about {
    ($name:expr, $ipfix:expr, $kind:ident, $unit:literal, $tstat:expr, $definition:expr) => {
        crate::column::About {
            name: $name,
            ipfix: $ipfix,
            kind: crate::column::AnalysisKind::$kind,
            unit: $unit,
            tstat: $tstat,
            definition: $definition,
        }
    };
}
use about;
