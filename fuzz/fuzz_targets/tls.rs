//! Parses any bytes as a stream of TLS records.

#![no_main]

use app::message::tls::{
    ClientHello, Ja4, ServerHello, Transport, certificate, detect, join_records, messages,
    stream_length,
};
use flowatch_fuzz::budget;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|stream: &[u8]| {
    budget::start();
    let _ = detect(stream);
    let mut joined = Vec::new();
    let read = join_records(stream, &mut joined);
    assert!(read.bytes.len() <= stream.len());
    let mut at = 0;
    for message in messages(read.bytes) {
        at += 4 + message.body.len();
        if message.is_complete {
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
            // A hello of too many algorithms has none.
            assert!(ja4.is_none() || hello.is_complete);
            if let Some(ja4) = ja4 {
                assert_eq!(ja4.as_str().len(), Ja4::LENGTH);
            }
        }
        let _ = ServerHello::read(message.body);
        let _ = certificate::names(message.body);
    }
    assert_eq!(at.min(read.bytes.len()), at);
    budget::check_payload(1, stream.len());
});
