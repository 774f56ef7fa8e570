//! Parses any bytes as a DNS message.

#![no_main]

use app::message::dns::{ADDRESSES_MAX, Header, Message, NAME_TEXT_MAX};
use flowatch_fuzz::budget;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    budget::start();
    let message = Message::read(bytes);
    budget::check_payload(1, bytes.len());
    let Some(message) = message else {
        return;
    };
    assert_eq!(Some(message.header), Header::read(bytes));
    assert!(message.addresses().len() <= ADDRESSES_MAX);
    if let Some((name, _)) = message.question() {
        assert!(!name.as_str().is_empty() && name.as_str().len() <= NAME_TEXT_MAX);
        assert!(name.as_str().bytes().all(|byte| byte.is_ascii_graphic()));
    }
    if message.is_complete {
        let longer = [bytes, &[0; 16]].concat();
        let again = Message::read(&longer).expect("the message is still valid");
        assert!(again.is_complete);
        assert_eq!(again.addresses(), message.addresses());
    }
});
