//! Any bytes as a stream of TLS records.

#![no_main]

use libfuzzer_sys::fuzz_target;
use app::message::tls::{
    ClientHello, Ja4, ServerHello, Transport, begins, certificate, handshake, messages,
    stream_length,
};

fuzz_target!(|stream: &[u8]| {
    let _ = begins(stream);
    let mut joined = Vec::new();
    let read = handshake(stream, &mut joined);
    assert!(read.bytes.len() <= stream.len());
    let mut at = 0;
    for message in messages(read.bytes) {
        at += 4 + message.body.len();
        if message.whole {
            let end = stream_length(stream, at);
            assert!(end.is_none_or(|end| end >= at));
        }
        if let Some(hello) = ClientHello::read(message.body) {
            let name = hello.server_name();
            assert!(name.is_none_or(|name| name.len() <= message.body.len()));
            let _ = (
                hello.alpn().count(),
                hello.offers_ech(),
                hello.offers_resumption(),
            );
            let ja4 = Ja4::new(&hello, Transport::Tcp);
            assert_eq!(ja4.is_some(), hello.whole);
            if let Some(ja4) = ja4 {
                assert_eq!(ja4.as_str().len(), Ja4::LENGTH);
            }
        }
        let _ = ServerHello::read(message.body);
        let _ = certificate::names(message.body);
    }
    assert_eq!(at.min(read.bytes.len()), at);
});
