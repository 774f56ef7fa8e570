//! The registry of protocols: which ones there are, over which transport, in which order they are
//! probed, and in which order records have their columns.

pub mod dns;
mod dtls;
mod http;
pub(crate) mod media;
pub(crate) mod quic;
mod rtp;
mod ssh;
pub(crate) mod tls;

use crate::column::{AppColumn, GENERAL_COLUMNS, INCOMPLETE_COLUMNS};
use crate::parser::{Context, Parser, Probe, Verdict};
use crate::payload::L4Payload;
use crate::record::AppRecord;
use crate::services::Services;

/// Every column, in the order in which formats write them.
pub static COLUMNS: &[AppColumn] = &concatenate::<{ count(COLUMN_LISTS) }>(COLUMN_LISTS);

const COLUMN_LISTS: &[&[AppColumn]] = &[
    GENERAL_COLUMNS,
    tls::COLUMNS,
    dtls::COLUMNS,
    quic::COLUMNS,
    dns::COLUMNS,
    http::COLUMNS,
    rtp::COLUMNS,
    ssh::COLUMNS,
    INCOMPLETE_COLUMNS,
];

/// The state of one of several protocols.
macro_rules! protocols {
    ($(#[$doc:meta])* $name:ident { $($protocol:ident($state:ty)),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(crate) enum $name {
            /// No known protocol.
            #[default]
            Unknown,
            $(
                #[allow(missing_docs, reason = "the name of the protocol")]
                $protocol($state),
            )*
        }

        impl $name {
            /// Which protocol `bytes` begin ([`Parser::probe`]).
            pub(crate) fn probe(
                packet: &L4Payload<'_>,
                bytes: &[u8],
                is_start: bool,
                seen: usize,
            ) -> Detected<Self> {
                let mut needs_more = false;
                $(
                    match <$state as Parser>::probe_again(packet, bytes, is_start, seen) {
                        Probe::Yes => {
                            return Detected::Protocol(|services| {
                                Self::$protocol(<$state as Parser>::start(services))
                            });
                        }
                        // The bytes may already be enough for another protocol.
                        Probe::NeedMore => needs_more = true,
                        Probe::NoOther => return Detected::Reserved,
                        Probe::No => {}
                    }
                )*
                match needs_more {
                    true => Detected::NeedMore,
                    false => Detected::None,
                }
            }

            pub(crate) const fn is_unknown(&self) -> bool {
                matches!(self, Self::Unknown)
            }

            /// Passes bytes to the parser ([`Parser::segment`]).
            #[inline]
            pub(crate) fn segment(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Verdict {
                match self {
                    Self::Unknown => Verdict::Done,
                    $(Self::$protocol(parser) => parser.segment(cx, bytes),)*
                }
            }

            /// Reads a message that remains incomplete ([`Parser::evict`]).
            pub(crate) fn evict(&mut self, cx: &mut Context<'_>, bytes: &[u8]) {
                match self {
                    Self::Unknown => {}
                    $(Self::$protocol(parser) => parser.evict(cx, bytes),)*
                }
            }

            /// Writes the protocol's part of the record ([`Parser::finish`]).
            pub(crate) fn finish(&mut self, cx: &mut Context<'_>, record: &mut AppRecord) {
                match self {
                    Self::Unknown => {}
                    $(Self::$protocol(parser) => parser.finish(cx, record),)*
                }
            }
        }

        protocols!(@$name $($protocol($state)),*);
    };
    (@StreamState $($protocol:ident($state:ty)),*) => {
        impl StreamState {
            /// Whether a stream starts with these bytes ([`Parser::is_first`]).
            pub(crate) fn is_first(bytes: &[u8]) -> bool {
                $(<$state as Parser>::is_first(bytes))||*
            }

            /// Whether missing bytes need not be waited for ([`Parser::can_skip_gap`]).
            pub(crate) fn can_skip_gap(&self, direction: usize) -> bool {
                match self {
                    Self::Unknown => false,
                    $(Self::$protocol(parser) => parser.can_skip_gap(direction),)*
                }
            }

            /// Whether the parser can continue with these bytes ([`Parser::can_continue_at`]).
            pub(crate) fn can_continue_at(&self, bytes: &[u8]) -> bool {
                match self {
                    Self::Unknown => false,
                    $(Self::$protocol(_) => <$state as Parser>::can_continue_at(bytes),)*
                }
            }

            /// The length of a message ([`Parser::message_length`]).
            pub(crate) fn message_length(&self, direction: usize, bytes: &[u8]) -> Option<u32> {
                match self {
                    Self::Unknown => None,
                    $(Self::$protocol(parser) => parser.message_length(direction, bytes),)*
                }
            }

            /// Bytes are missing ([`Parser::lose_position`]).
            pub(crate) fn lose_position(&mut self, direction: usize) {
                match self {
                    Self::Unknown => {}
                    $(Self::$protocol(parser) => parser.lose_position(direction),)*
                }
            }

            /// Whether the next record needs the state ([`Parser::is_partial`]).
            pub(crate) fn is_partial(&self) -> bool {
                match self {
                    Self::Unknown => false,
                    $(Self::$protocol(parser) => parser.is_partial(),)*
                }
            }

            /// Writes a record of a flow that continues ([`Parser::snapshot`]).
            pub(crate) fn snapshot(&mut self, cx: &mut Context<'_>, record: &mut AppRecord) {
                match self {
                    Self::Unknown => {}
                    $(Self::$protocol(parser) => parser.snapshot(cx, record),)*
                }
            }

            /// A new connection starts ([`Parser::new_connection`]).
            pub(crate) fn new_connection(&mut self) {
                match self {
                    Self::Unknown => {}
                    $(Self::$protocol(parser) => parser.new_connection(),)*
                }
            }
        }
    };
    (@DatagramState $($protocol:ident($state:ty)),*) => {
        impl DatagramState {
            /// Releases the buffers ([`Parser::release`]).
            pub(crate) fn release(&mut self, services: &mut Services) {
                match self {
                    Self::Unknown => {}
                    $(Self::$protocol(parser) => parser.release(services),)*
                }
            }

            /// Whether part of a handshake is buffered ([`Parser::is_partial`]).
            pub(crate) fn is_partial(&self) -> bool {
                match self {
                    Self::Unknown => false,
                    $(Self::$protocol(parser) => parser.is_partial(),)*
                }
            }

            /// Writes a record of a flow that continues ([`Parser::snapshot`]).
            pub(crate) fn snapshot(&mut self, cx: &mut Context<'_>, record: &mut AppRecord) {
                match self {
                    Self::Unknown => {}
                    $(Self::$protocol(parser) => parser.snapshot(cx, record),)*
                }
            }
        }
    };
}

protocols! {
    /// The protocol in a TCP stream, in the order in which they are probed. TLS is not one of them:
    /// it may follow any of them, and is probed first.
    StreamState {
        Http(http::HttpState),
        Dns(dns::DnsState),
        Ssh(ssh::SshState),
    }
}

protocols! {
    /// The protocol in the datagrams of a flow, in the order in which they are probed.
    DatagramState {
        Dns(dns::DnsState),
        Quic(quic::QuicState),
        Media(media::MediaState),
    }
}

/// The result of probing for several protocols.
pub(crate) enum Detected<P> {
    /// The bytes begin a protocol, whose state this function creates.
    Protocol(fn(&mut Services) -> P),
    /// Too few bytes to decide.
    NeedMore,
    /// The ports belong to a protocol that these bytes do not begin.
    Reserved,
    /// None.
    None,
}

/// Number of columns in several lists.
const fn count(lists: &[&[AppColumn]]) -> usize {
    let (mut total, mut list) = (0, 0);
    while list < lists.len() {
        total += lists[list].len();
        list += 1;
    }
    total
}

/// Concatenates lists of `COUNT` columns in all.
const fn concatenate<const COUNT: usize>(lists: &[&[AppColumn]]) -> [AppColumn; COUNT] {
    let mut all = [lists[0][0]; COUNT];
    let (mut filled, mut list) = (0, 0);
    while list < lists.len() {
        let mut index = 0;
        while index < lists[list].len() {
            all[filled] = lists[list][index];
            filled += 1;
            index += 1;
        }
        list += 1;
    }
    all
}
