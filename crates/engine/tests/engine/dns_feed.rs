//! Names that clients resolve over TCP, and the flows that they open then: the same in every record
//! whatever the number of tables, however responses are cut into segments, and whatever becomes of these.

use crate::runs::{self, RunResult};
use analysis::Level;
use engine::{Model, Options};
use flow::statistic::Selection;
use flow::{FlowDefinition, MeterOptions, Timeouts};
use port::{Impaired, Impairments, MemoryPort, Port};
use proptest::prelude::*;
use std::time::Duration;
use wire::LinkType;
use wire::tcp::flag::{ACK, FIN, SYN};

const MS: i64 = 1_000_000;

const RESOLVER: [u8; 4] = [10, 9, 9, 9];

/// Enough that each of a few tables has some of everything.
const CLIENTS: u8 = 24;

/// A frame: ports and what follows them in the transport header are `rest`.
fn frame(protocol: u8, from: [u8; 4], to: [u8; 4], rest: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 34];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&(20 + rest.len() as u16).to_be_bytes());
    frame[22..24].copy_from_slice(&[64, protocol]);
    frame[26..30].copy_from_slice(&from);
    frame[30..34].copy_from_slice(&to);
    frame.extend(rest);
    frame
}

fn client(number: u8) -> [u8; 4] {
    [10, 0, 0, number]
}

/// The address of the server in a message to a client.
fn server(client: u8, message: u8) -> [u8; 4] {
    [192, 0, client, message]
}

fn name(client: u8, message: u8) -> String {
    format!("m{message}.for-{client}.example")
}

/// A segment of the connection between a client and its resolver.
fn segment(client_number: u8, down: bool, flags: u8, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let client_port = 40_000 + u16::from(client_number);
    let (mut ends, mut ports) = ([client(client_number), RESOLVER], [client_port, 53]);
    if down {
        ends.reverse();
        ports.reverse();
    }
    let mut tcp: Vec<u8> = ports.into_iter().flat_map(u16::to_be_bytes).collect();
    tcp.extend(sequence.to_be_bytes());
    tcp.extend([0, 0, 0, 0, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend(payload);
    frame(6, ends[0], ends[1], &tcp)
}

/// A datagram of a client to the server of one of its messages.
fn datagram(number: u8, message: u8) -> Vec<u8> {
    let udp = [0x40, number, 0x11, 0x51, 0, 12, 0, 0, 0, 0, 0, 0];
    frame(17, client(number), server(number, message), &udp)
}

/// A response behind its length: the address of a name, and `padding` bytes in a record of text.
fn response(client: u8, message: u8, padding: usize) -> Vec<u8> {
    let records = 1 + u8::from(padding > 0);
    let mut bytes = vec![0x12, 0x34, 0x81, 0x80, 0, 1, 0, records, 0, 0, 0, 0];
    for label in name(client, message).split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
    bytes.extend(server(client, message));
    if padding > 0 {
        bytes.extend([0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 60]);
        bytes.extend((padding as u16).to_be_bytes());
        bytes.resize(bytes.len() + padding, b'x');
    }
    let mut stream = (bytes.len() as u16).to_be_bytes().to_vec();
    stream.extend(bytes);
    stream
}

/// What a client's resolver says: the padding of each message, where the stream is cut, whether its
/// beginning was seen, and its first sequence number.
#[derive(Clone, Debug)]
struct Talk {
    paddings: Vec<usize>,
    cuts: Vec<usize>,
    begins: bool,
    start: u32,
}

fn talk() -> impl Strategy<Value = Talk> {
    let padding = prop_oneof![3 => Just(0usize), 2 => 1usize..3000, 1 => 14_000usize..18_000];
    (
        prop::collection::vec(padding, 1..5),
        prop::collection::vec(
            prop_oneof![1usize..4, 20usize..200, Just(1460), 3000usize..9000],
            1..20,
        ),
        prop::bool::weighted(0.8),
        any::<u32>(),
    )
        .prop_map(|(paddings, cuts, begins, start)| Talk {
            paddings,
            cuts,
            begins,
            start,
        })
}

/// Packets of all talks, by turns, and after each message's last segment at once, and again in the
/// end, a flow to the address in it.
fn packets(talks: &[Talk]) -> Vec<(i64, Vec<u8>)> {
    let mut packets = Vec::new();
    for (talk, number) in talks.iter().zip(1u8..) {
        // Talks are a quarter of a millisecond apart, so that their packets alternate.
        let mut at_ns = i64::from(number) * MS / 4;
        let mut put = |step_ns: i64, frame: Vec<u8>| {
            at_ns += step_ns;
            packets.push((at_ns, frame));
        };
        let mut sequence = talk.start;
        if talk.begins {
            put(MS, segment(number, false, SYN, 7, &[]));
            put(MS, segment(number, true, SYN | ACK, sequence, &[]));
            sequence = sequence.wrapping_add(1);
        }
        let (mut stream, mut ends) = (Vec::new(), Vec::new());
        for (&padding, message) in talk.paddings.iter().zip(0..) {
            stream.extend(response(number, message, padding));
            ends.push((stream.len(), message));
        }
        let (mut sent, mut cuts) = (0, talk.cuts.iter().cycle());
        let mut ends = ends.into_iter().peekable();
        while sent < stream.len() {
            let end = (sent + cuts.next().unwrap()).min(stream.len());
            let first = sequence.wrapping_add(sent as u32);
            put(MS, segment(number, true, ACK, first, &stream[sent..end]));
            sent = end;
            while let Some((_, message)) = ends.next_if(|(end, _)| *end <= sent) {
                put(1, datagram(number, message));
            }
        }
        let last = sequence.wrapping_add(sent as u32);
        put(MS, segment(number, true, FIN | ACK, last, &[]));
    }
    packets.sort_by_key(|(at_ns, _)| *at_ns);
    let end_ns = packets.last().map_or(0, |(at_ns, _)| *at_ns);
    // After the idle timeout: these are new flows.
    for (talk, number) in talks.iter().zip(1u8..) {
        for message in 0..talk.paddings.len() as u8 {
            let later_ns = end_ns + 20_000 * MS + i64::from(number) * MS;
            packets.push((later_ns, datagram(number, message)));
        }
    }
    packets
}

fn run(port: impl Port + 'static, model: Model, monitors: usize, timeouts: Timeouts) -> RunResult {
    let options = Options {
        model,
        meter: MeterOptions {
            flow: FlowDefinition::Bidirectional,
            flows_max: 4096,
            timeouts,
            statistics: Selection {
                analysis: Some(Level::Application),
                ..Selection::default()
            },
            ..MeterOptions::default()
        },
        monitors,
        ring: 512,
        ..Options::default()
    };
    runs::run(&options, vec![Box::new(port)], false)
}

/// Records of one table, which are those of any number of tables.
#[track_caller]
fn alike(packets: &[(i64, Vec<u8>)], faults: Impairments, timeouts: Timeouts) -> RunResult {
    let frames = packets
        .iter()
        .map(|(at_ns, frame)| (*at_ns, frame.len() as u32, frame.clone()));
    let memory = MemoryPort::new(LinkType::Ethernet, frames);
    let port = || Impaired::new(memory.clone(), faults);
    let one = run(port(), Model::RunToCompletion, 1, timeouts);
    for (model, monitors) in [
        (Model::SharedReading, 2),
        (Model::SharedReading, 4),
        (Model::Pipeline, 2),
        (Model::Pipeline, 4),
        (Model::Cooperative, 3),
    ] {
        let several = run(port(), model, monitors, timeouts);
        let context = format!("{model:?} {monitors}");
        assert_eq!(several.records, one.records, "{context}");
        for (record, [several, one]) in one
            .records
            .iter()
            .zip(several.names.iter().zip(&one.names).map(|(a, b)| [a, b]))
        {
            assert_eq!(several, one, "{context} {:?}", record.key);
        }
    }
    one
}

/// Flows to servers, how many have the name from the answer to their client, and how many another one.
fn named(ran: &RunResult) -> (usize, usize, usize) {
    let (mut flows, mut right, mut wrong) = (0, 0, 0);
    for (record, names) in ran.records.iter().zip(&ran.names) {
        let [.., first, second, third, fourth] = record.key.destination[..4] else {
            continue;
        };
        if record.key.protocol != 17 || [first, second] != [192, 0] {
            continue;
        }
        flows += 1;
        let resolved = names.as_ref().and_then(|names| names.resolved.as_ref());
        if let Some(resolved) = resolved {
            let is_right = *resolved.name == *name(third, fourth);
            right += usize::from(is_right);
            wrong += usize::from(!is_right);
        }
    }
    (flows, right, wrong)
}

#[test]
fn responses_over_tcp_reach_all_tables_however_they_are_segmented() {
    let talks: Vec<Talk> = (0..CLIENTS)
        .map(|number| {
            // In turn: a message in many segments, several in one, a segment that ends within a
            // message, one byte at a time.
            let (paddings, cut) = match number % 4 {
                0 => (vec![4000], 1460),
                1 => (vec![0, 0, 0], 1460),
                2 => (vec![0, 900, 0, 2000], 700),
                _ => (vec![0, 10], 1),
            };
            Talk {
                paddings,
                cuts: vec![cut],
                begins: number % 3 != 0,
                start: u32::MAX - 60 + u32::from(number),
            }
        })
        .collect();
    let ran = alike(
        &packets(&talks),
        Impairments::default(),
        Timeouts::default(),
    );
    let answers: usize = talks.iter().map(|talk| talk.paddings.len()).sum();
    assert_eq!(named(&ran), (2 * answers, 2 * answers, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn names_do_not_depend_on_the_number_of_tables(
        talks in prop::collection::vec(talk(), usize::from(CLIENTS)),
        seed: u64,
        rate in prop_oneof![Just(0u32), Just(20_000), Just(60_000)],
        // A talk takes a millisecond a segment: short ones end in the middle of it.
        idle in prop_oneof![Just(5u64), Just(10_000)],
        active in prop::option::of(8u64..40),
        tcp_close in prop::option::of(2u64..10),
    ) {
        let faults = Impairments {
            seed,
            loss_ppm: rate,
            duplicate_ppm: rate,
            reorder_ppm: rate,
            reorder_distance_max: 60,
            delay_ppm: rate,
            delay_max: Duration::from_millis(30),
        };
        let timeouts = Timeouts {
            idle: Some(Duration::from_millis(idle)),
            active: active.map(Duration::from_millis),
            tcp_close: tcp_close.map(Duration::from_millis),
        };
        let ran = alike(&packets(&talks), faults, timeouts);
        let (flows, right, wrong) = named(&ran);
        prop_assert_eq!(wrong, 0);
        prop_assert!(flows > 0);
        prop_assert!(right > 0);
    }
}
