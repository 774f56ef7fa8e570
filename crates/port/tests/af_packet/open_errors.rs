//! Errors at opening are one line that says what to do.

use std::thread;

use port::af_packet::{Options, open_fanout};
use port::{AfPacket, PortError};

use crate::network;

fn open_error(source: &str) -> String {
    let options = Options::from_source(source);
    match options.and_then(|options| AfPacket::open(&options)) {
        Err(PortError::Failed(line)) => line,
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("{source} opened"),
    }
}

#[test]
fn unknown_interface_error_lists_the_available_ones() {
    network::enter_cable();
    let line = open_error("eth9");
    assert!(line.starts_with("eth9: no such interface"), "{line}");
    for name in ["lo", "left", "right"] {
        assert!(line.contains(name), "{line}");
    }
    assert!(!line.contains('\n'));
    // Too long, empty, with a NUL byte.
    for name in ["an-interface-with-a-very-long-name", "", "le\0ft"] {
        assert!(open_error(name).contains("no such interface"));
    }
    assert!(open_error("any@2").contains("any has no receive queues"));
    let any = Options::new(Options::ANY);
    let promiscuous = Options {
        promiscuous: true,
        ..any.clone()
    };
    assert!(AfPacket::open(&promiscuous).is_err());
    assert!(open_fanout(&any, 2).is_err());
    AfPacket::open(&any).unwrap();
}

#[test]
fn invalid_queue_is_rejected() {
    network::enter_cable();
    let line = open_error("right@if7");
    assert!(line.contains("number of a receive queue"), "{line}");
    let line = open_error("right@1");
    assert!(line.contains("one receive queue, number 0"), "{line}");
    assert!(open_error("right@70000").contains("number of a receive queue"));
    AfPacket::open(&Options::from_source("right@0").unwrap()).unwrap();
}

#[test]
fn interface_names_may_contain_an_at_sign() {
    network::enter_new();
    network::ip("link add left type veth peer name a@1");
    let options = Options::from_source("a@1").unwrap();
    assert_eq!((options.interface.as_str(), options.queue), ("a@1", None));
    let options = Options::from_source("a@1@0").unwrap();
    assert_eq!(
        (options.interface.as_str(), options.queue),
        ("a@1", Some(0))
    );
}

#[test]
fn oversized_ring_is_rejected() {
    network::enter_cable();
    let result = AfPacket::open(&Options {
        block_count: usize::MAX / 2,
        ..Options::new("right")
    });
    let Err(PortError::Failed(line)) = result else {
        panic!("opened");
    };
    assert!(
        line.starts_with("right: cannot allocate a ring of"),
        "{line}"
    );
}

#[test]
fn ring_bytes_are_rounded_up_to_pages() {
    let options = Options::new("right");
    assert_eq!(options.ring_bytes(), 64 << 20);
    let unaligned = Options {
        block_bytes: 1,
        block_count: 3,
        ..options
    };
    assert_eq!(unaligned.ring_bytes() % 3, 0);
    assert!(unaligned.ring_bytes() >= 3 * 4096);
}

#[test]
fn permission_error_says_how_to_grant_it() {
    network::enter_cable();
    // Capabilities belong to a thread: this one loses them for good.
    let line = thread::spawn(|| {
        network::drop_capabilities();
        match AfPacket::open(&Options::new("right")) {
            Err(PortError::Permission(line)) => line,
            Err(error) => panic!("{error:?}"),
            Ok(_) => panic!("opened without the permission"),
        }
    })
    .join()
    .unwrap();
    let path = std::env::current_exe().unwrap();
    let ending = format!(
        "sudo setcap cap_net_raw,cap_net_admin+ep {}",
        path.display()
    );
    assert!(line.ends_with(&ending), "{line}");
}
