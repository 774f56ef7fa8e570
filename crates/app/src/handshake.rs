//! What the states of TLS, QUIC and DTLS handshakes have in common.

use crate::text_pool::TextId;

/// Bits of [`handshake_flag`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HandshakeFlags(u16);

impl HandshakeFlags {
    #[inline]
    pub(crate) const fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }

    #[inline]
    pub(crate) const fn set(&mut self, flag: u16) {
        self.0 |= flag;
    }

    #[inline]
    pub(crate) const fn put(&mut self, flag: u16, value: bool) {
        self.0 = self.0 & !flag | if value { flag } else { 0 };
    }
}

/// Flags of TLS and QUIC.
pub(crate) mod handshake_flag {
    /// The client offers Encrypted Client Hello.
    pub(crate) const ECH_OFFERED: u16 = 1;
    /// The client offers to resume a session.
    pub(crate) const RESUMPTION_OFFERED: u16 = 1 << 1;
    /// The initiator's packets are the server's.
    pub(crate) const CLIENT_IS_1: u16 = 1 << 2;
    /// A ClientHello was read.
    pub(crate) const CLIENT_HELLO: u16 = 1 << 3;
    /// A ServerHello was read (TLS).
    pub(crate) const SERVER_HELLO: u16 = 1 << 4;
    /// The setup time is known (TLS).
    pub(crate) const SETUP: u16 = 1 << 5;
    /// The server resumed a session (TLS).
    pub(crate) const RESUMED: u16 = 1 << 6;
    // QUIC has none of the three flags above, and uses their bits.
    /// A long header of the server was seen (QUIC).
    pub(crate) const SERVER: u16 = SERVER_HELLO;
    /// The initiator sent a long header before the client was identified (QUIC).
    pub(crate) const EARLY_0: u16 = SETUP;
    /// The responder did.
    pub(crate) const EARLY_1: u16 = RESUMED;
    /// An Initial packet of the client was decrypted (QUIC).
    pub(crate) const CLIENT: u16 = 1 << 7;
    /// The client's first handshake message was read, whatever its type (QUIC).
    pub(crate) const HELLO: u16 = 1 << 8;
    /// The RTT of the handshake is known (QUIC).
    pub(crate) const RTT: u16 = 1 << 9;
    /// 0-RTT packets were seen (QUIC).
    pub(crate) const ZERO_RTT: u16 = 1 << 10;
    /// A Retry packet was seen (QUIC).
    pub(crate) const RETRY: u16 = 1 << 11;
    /// The keys are derived from a connection ID other than the original one (QUIC).
    pub(crate) const RETRIED: u16 = 1 << 12;
    /// A Version Negotiation packet was seen (QUIC).
    pub(crate) const NEGOTIATION: u16 = 1 << 13;
    /// An edge of the spin bit was seen (QUIC).
    pub(crate) const SPIN: u16 = 1 << 14;
    /// The end of the ClientHello is missing.
    pub(crate) const HELLO_CUT: u16 = 1 << 15;
}

impl HandshakeFlags {
    /// Direction of the client's packets.
    #[inline]
    pub(crate) fn client(self) -> u8 {
        u8::from(self.has(handshake_flag::CLIENT_IS_1))
    }
}

/// Texts of a ClientHello.
#[derive(Debug, Default)]
pub(crate) struct HelloTexts {
    pub(crate) server_name: TextId,
    pub(crate) alpn_offered: TextId,
    pub(crate) versions_offered: TextId,
    pub(crate) ja4: TextId,
}
