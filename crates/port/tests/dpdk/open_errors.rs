//! Errors at opening are one line that says what to do.

use port::dpdk::{DeviceName, DpdkPort, DpdkSender, Eal, Options, Pools, SendOptions};

use crate::devices::{burst, eal, name};

#[track_caller]
fn open_error(device: &str, options: &Options) -> String {
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
fn unknown_devices_are_rejected() {
    let defaults = Options::default();
    for (device, part) in [
        ("net_nothing0", "no driver has this name"),
        ("0000:fe:1f.7", "no such card"),
        ("77", "no port 77"),
        ("net_pcap9,rx_pcap=/nowhere.pcap", "net_pcap9"),
        ("net_null90,wrong=1", "net_null90"),
    ] {
        let message = open_error(device, &defaults);
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn unsupported_options_are_rejected() {
    let queues = Options {
        queues: 3,
        ..Options::default()
    };
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/captures/example.pcap"
    );
    let message = open_error(&format!("net_pcap91,rx_pcap={path}"), &queues);
    assert!(message.contains("at most 1 receive queue"), "{message}");

    // The check opens nothing, and a device created for it can be opened afterwards.
    let check = |device: &str| DpdkPort::check_queues(eal(), &name(device), &queues);
    let error = check(&format!("net_pcap91,rx_pcap={path}")).unwrap_err();
    assert_eq!(error.to_string(), message);
    check("net_null91").unwrap();
    assert_eq!(
        DpdkPort::open(eal(), &name("net_null91"), &queues)
            .unwrap()
            .len(),
        3
    );

    let memif = open_error("net_memif91,role=server,socket=flowatch-refused", &queues);
    assert!(
        memif.contains("the frames of the first queue again"),
        "{memif}"
    );

    let pool = Options {
        queues: 2,
        pools: Pools::Shared,
        pool_size: Some(8192),
        ..Options::default()
    };
    let message = open_error("net_null92", &pool);
    assert!(
        message.contains("must exceed the 8192 descriptors"),
        "{message}"
    );

    // Too many for even their list to be allocated: the memory that the tests share stays free.
    let pool = Options {
        pool_size: Some(1_000_000_000),
        ..Options::default()
    };
    let message = open_error("net_null93", &pool);
    assert!(message.contains("smaller --pool-size"), "{message}");
}

#[test]
fn device_can_be_opened_after_an_error() {
    let small = Options {
        pool_size: Some(64),
        ..Options::default()
    };
    open_error("net_null94,size=60", &small);
    assert!(DpdkPort::open(eal(), &name("net_null94,size=60"), &Options::default()).is_ok());
}

#[test]
fn open_device_cannot_be_opened_again_and_keeps_working() {
    let defaults = Options::default();
    let mut ports = DpdkPort::open(eal(), &name("net_null95,size=60"), &defaults).unwrap();
    let message = open_error("net_null95,size=60", &defaults);
    assert!(
        message.contains("already open in this process"),
        "{message}"
    );
    let sending = DpdkSender::open(eal(), &name("net_null95"), &SendOptions::default());
    assert!(sending.is_err());
    assert!(!burst(&mut ports[0]).unwrap().is_empty());
    drop(ports);
    assert!(DpdkPort::open(eal(), &name("net_null95,size=60"), &defaults).is_ok());
}

#[test]
fn eal_starts_once() {
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
