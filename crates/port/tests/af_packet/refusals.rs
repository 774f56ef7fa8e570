//! What cannot be opened is refused in one line that says what to do.

use std::thread;

use port::af_packet::Options;
use port::{AfPacket, PortError};

use crate::network;

fn refusal(source: &str) -> String {
    let options = Options::from_source(source);
    match options.and_then(|options| AfPacket::open(&options)) {
        Err(PortError::Failed(line)) => line,
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("{source} was opened"),
    }
}

#[test]
fn an_unknown_interface_is_refused_with_the_known_ones() {
    network::enter_cable();
    let line = refusal("eth9");
    assert!(line.starts_with("eth9: no such interface"), "{line}");
    for name in ["lo", "left", "right"] {
        assert!(line.contains(name), "{line}");
    }
    assert!(!line.contains('\n'));
    // Longer than a name can be, empty, with a zero byte.
    for name in ["an-interface-with-a-very-long-name", "", "le\0ft"] {
        assert!(refusal(name).contains("no such interface"));
    }
    assert!(refusal("any").contains("each with its own -i"));
}

#[test]
fn a_queue_that_is_none_is_refused() {
    network::enter_cable();
    let line = refusal("right@if7");
    assert!(line.contains("number of a receive queue"), "{line}");
    let line = refusal("right@1");
    assert!(line.contains("one receive queue, number 0"), "{line}");
    assert!(refusal("right@70000").contains("number of a receive queue"));
    AfPacket::open(&Options::from_source("right@0").unwrap()).unwrap();
}

#[test]
fn a_name_with_an_at_sign_is_taken_as_a_whole_where_it_exists() {
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
fn a_ring_that_no_memory_holds_is_refused() {
    network::enter_cable();
    let result = AfPacket::open(&Options {
        block_count: usize::MAX / 2,
        ..Options::new("right")
    });
    let Err(PortError::Failed(line)) = result else {
        panic!("opened");
    };
    assert!(line.starts_with("right: cannot make a ring of"), "{line}");
}

#[test]
fn the_memory_of_a_ring_is_what_the_options_say() {
    let options = Options::new("right");
    assert_eq!(options.ring_bytes(), 64 << 20);
    let odd = Options {
        block_bytes: 1,
        block_count: 3,
        ..options
    };
    assert_eq!(odd.ring_bytes() % 3, 0);
    assert!(odd.ring_bytes() >= 3 * 4096);
}

#[test]
fn a_user_without_the_right_is_told_how_to_get_it() {
    network::enter_cable();
    // Rights belong to a thread: this one's are not wanted back.
    let line = thread::spawn(|| {
        network::give_up_raw_sockets();
        match AfPacket::open(&Options::new("right")) {
            Err(PortError::Permission(line)) => line,
            Err(error) => panic!("{error:?}"),
            Ok(_) => panic!("opened without the right"),
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
