//! What cannot be opened is refused in one line that says what to do.

use port::dpdk::{DeviceName, DpdkPort, DpdkSender, Eal, Options, Pools, SendOptions};

use crate::devices::{burst, eal, name};

#[track_caller]
fn refused(device: &str, options: &Options) -> String {
    match DpdkPort::open(eal(), &name(device), options) {
        Ok(_) => panic!("{device} opens"),
        Err(error) => {
            let message = error.to_string();
            assert!(!message.contains('\n'), "{message}");
            message
        }
    }
}

#[test]
fn devices_that_there_are_not() {
    let defaults = Options::default();
    for (device, part) in [
        ("net_nothing0", "no driver has this name"),
        ("0000:fe:1f.7", "no such card"),
        ("77", "no port 77"),
        ("net_pcap9,rx_pcap=/nowhere.pcap", "net_pcap9"),
        ("net_null90,wrong=1", "net_null90"),
    ] {
        let message = refused(device, &defaults);
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn what_a_device_cannot_have() {
    let queues = Options {
        queues: 3,
        ..Options::default()
    };
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/captures/example.pcap"
    );
    let message = refused(&format!("net_pcap91,rx_pcap={path}"), &queues);
    assert!(message.contains("1 receive queue at most"), "{message}");

    // Without anything opened; and what was made for that can be opened afterwards.
    let asked = |device: &str| DpdkPort::check_queues(eal(), &name(device), &queues);
    let error = asked(&format!("net_pcap91,rx_pcap={path}")).unwrap_err();
    assert_eq!(error.to_string(), message);
    asked("net_null91").unwrap();
    assert_eq!(
        DpdkPort::open(eal(), &name("net_null91"), &queues)
            .unwrap()
            .len(),
        3
    );

    let memif = refused("net_memif91,role=server,socket=flowatch-refused", &queues);
    assert!(memif.contains("the first one's frames again"), "{memif}");

    let pool = Options {
        queues: 2,
        pools: Pools::Shared,
        pool_size: Some(8192),
        ..Options::default()
    };
    let message = refused("net_null92", &pool);
    assert!(message.contains("hold 8192 alone"), "{message}");

    // So many that not even the list of them has room: what the other tests share stays theirs.
    let pool = Options {
        pool_size: Some(1_000_000_000),
        ..Options::default()
    };
    let message = refused("net_null93", &pool);
    assert!(message.contains("smaller --pool-size"), "{message}");
}

#[test]
fn a_device_refused_can_be_opened_when_the_fault_is_mended() {
    let small = Options {
        pool_size: Some(64),
        ..Options::default()
    };
    refused("net_null94,size=60", &small);
    assert!(DpdkPort::open(eal(), &name("net_null94,size=60"), &Options::default()).is_ok());
}

#[test]
fn a_device_that_is_open_is_not_opened_again_and_goes_on() {
    let defaults = Options::default();
    let mut ports = DpdkPort::open(eal(), &name("net_null95,size=60"), &defaults).unwrap();
    let message = refused("net_null95,size=60", &defaults);
    assert!(message.contains("open in this process"), "{message}");
    let sending = DpdkSender::open(eal(), &name("net_null95"), &SendOptions::default());
    assert!(sending.is_err());
    assert!(!burst(&mut ports[0]).unwrap().is_empty());
    drop(ports);
    assert!(DpdkPort::open(eal(), &name("net_null95,size=60"), &defaults).is_ok());
}

#[test]
fn the_layer_starts_once() {
    let same = Eal::start(&[], &["--no-huge", "-m", "2048"].map(str::to_owned));
    assert!(eal().arguments() == same.unwrap().arguments());
    let other = Eal::start(&[DeviceName::parse("3b:00.0").unwrap()], &[]);
    assert!(
        other
            .unwrap_err()
            .to_string()
            .contains("started in this process already")
    );
}
