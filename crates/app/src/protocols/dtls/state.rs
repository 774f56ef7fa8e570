//! The state of a DTLS handshake.

use crate::handshake::{HandshakeFlags, HelloTexts};
use crate::nanoseconds::Nanoseconds;
use crate::text_pool::TextId;

/// A handshake message of which fragments are missing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pending {
    /// Handle of the reassembly buffer, 0 if there is none.
    pub(super) buffer: u16,
    /// message_seq.
    pub(super) number: u16,
    pub(super) length: u32,
    pub(super) kind: u8,
}

/// A DTLS handshake.
#[derive(Debug, Default)]
pub(crate) struct DtlsState {
    pub(super) hello: HelloTexts,
    pub(super) alpn_chosen: TextId,
    pub(super) subject: TextId,
    pub(super) issuer: TextId,
    pub(super) version: u16,
    pub(super) cipher: u16,
    /// Flags of [`handshake_flag`].
    pub(super) flags: HandshakeFlags,
    /// Time of the ClientHello; with [`handshake_flag::SETUP`], the setup time.
    pub(super) time: Nanoseconds,
    /// The message of each direction that is being reassembled.
    pub(super) pending: [Pending; 2],
    /// Digest of the session ID in the first of the two hellos, 0 if it is empty.
    pub(super) session_digest: u32,
    /// Number of datagrams of DTLS.
    pub(super) datagrams: u8,
    /// Whether the handshake has ended, or was given up.
    pub(super) is_done: bool,
    /// Whether a whole certificate was read, with or without names.
    pub(super) has_certificate: bool,
}
