//! Flows that their active time-out has cut: what is known of them waits for their next packet.

use super::Analysis;
use app::{Application, Cut, DnsRecord, FoundBy, NamesRecord, QuicRecord, ResolvedName, TlsRecord};
use std::collections::{HashMap, VecDeque};
use wire::FlowKey;

/// Flows that may wait. (A time-out of half an hour lets few of them wait at a time.)
pub const CONTINUED_MAX: usize = 1 << 14;

/// Places in their order for each flow that may wait: some are of flows that have gone on.
const ORDER_PER_WAITING: usize = 2;

/// A flow that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// The handle of its state.
    handle: u32,
    /// The meter's clock at its last packet.
    last_ms: u32,
    /// Its turn among those that ever waited.
    turn: u32,
}

/// What the names of a flow are told from in its first record, for those that follow.
#[derive(Debug)]
struct Known {
    application: Option<Application>,
    resolved: Option<ResolvedName>,
    tls: Option<Box<TlsRecord>>,
    quic: Option<Box<QuicRecord>>,
    /// Where its question was not answered.
    dns: Option<Box<DnsRecord>>,
    cut: Cut,
}

impl Known {
    /// Nothing where every record of the flow will tell as much by itself.
    fn of(names: &NamesRecord) -> Option<Self> {
        let application = names.application.as_ref();
        let application = application.filter(|it| it.found_by > FoundBy::Port);
        let dns = names.dns.as_ref().filter(|it| it.open_query().is_some());
        let is_known = application.is_some()
            || names.resolved.is_some()
            || names.tls.is_some()
            || names.quic.is_some()
            || dns.is_some()
            || names.cut != Cut::default();
        is_known.then(|| Self {
            application: application.cloned(),
            resolved: names.resolved.clone(),
            tls: names.tls.clone(),
            quic: names.quic.as_ref().map(|it| Box::new(it.lasting())),
            dns: dns.cloned(),
            cut: names.cut,
        })
    }

    /// Memory that it takes; a map may have twice the places that it needs.
    fn bytes(&self) -> usize {
        2 * size_of::<(u32, Self)>()
            + self
                .resolved
                .as_ref()
                .map_or(0, ResolvedName::bytes_besides)
            + self.tls.as_ref().map_or(0, |tls| tls.bytes())
            + self.quic.as_ref().map_or(0, |quic| quic.bytes())
            + self.dns.as_ref().map_or(0, |dns| dns.bytes())
    }
}

/// The flows that wait, by their keys as the table orders them.
#[derive(Debug)]
pub struct Continued {
    waiting: HashMap<FlowKey, Waiting>,
    /// Their turns, some of which have gone on since.
    order: VecDeque<(FlowKey, u32)>,
    next_turn: u32,
    /// What was known of the names of flows that wait or have gone on, by handle.
    names: HashMap<u32, Known>,
    names_bytes: usize,
    names_bytes_max: usize,
    waiting_max: usize,
}

impl Continued {
    /// For so many flows that wait, and so many bytes of names.
    pub fn new(waiting_max: usize, names_bytes_max: usize) -> Self {
        Self {
            waiting: HashMap::new(),
            order: VecDeque::new(),
            next_turn: 0,
            names: HashMap::new(),
            names_bytes: 0,
            names_bytes_max,
            waiting_max,
        }
    }

    /// Memory when as many wait as may, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let waiting = 2 * size_of::<(FlowKey, Waiting)>();
        let order = 2 * ORDER_PER_WAITING * size_of::<(FlowKey, u32)>();
        self.waiting_max * (waiting + order) + self.names_bytes_max
    }

    #[inline(always)]
    /// Whether no flow waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Keeps what was known of a flow's names for its next record; whether there was room for it.
    pub fn keep_names(&mut self, handle: u32, analysis: &Analysis) -> bool {
        let Some(known) = analysis.names.as_ref().and_then(Known::of) else {
            return true;
        };
        let bytes = self.names_bytes + known.bytes();
        if bytes > self.names_bytes_max {
            return false;
        }
        self.names_bytes = bytes;
        self.names.insert(handle, known);
        true
    }

    /// Lets a flow wait; the handle of one that must give way to it.
    pub fn wait(&mut self, key: FlowKey, handle: u32, last_ms: u32) -> Option<u32> {
        let oldest = (self.waiting.len() >= self.waiting_max)
            .then(|| self.oldest())
            .flatten();
        if self.order.len() >= ORDER_PER_WAITING * self.waiting_max {
            let waiting = &self.waiting;
            self.order
                .retain(|(key, turn)| waiting.get(key).is_some_and(|it| it.turn == *turn));
        }
        let turn = self.next_turn;
        self.next_turn = turn.wrapping_add(1);
        self.order.push_back((key, turn));
        let waiting = Waiting {
            handle,
            last_ms,
            turn,
        };
        self.waiting.insert(key, waiting);
        oldest
    }

    /// Takes out what is known of a flow's names.
    fn take_names(&mut self, handle: u32) -> Option<Known> {
        let known = self.names.remove(&handle)?;
        self.names_bytes -= known.bytes();
        Some(known)
    }

    /// Takes the flow of `key` out: its handle, and whether it goes on with a packet at `clock_ms`
    /// or had been idle for longer than `idle_ms`.
    pub fn take(&mut self, key: &FlowKey, clock_ms: u32, idle_ms: u32) -> Option<(u32, bool)> {
        let waiting = self.waiting.remove(key)?;
        let goes_on = clock_ms.wrapping_sub(waiting.last_ms) <= idle_ms;
        if !goes_on {
            self.take_names(waiting.handle);
        }
        Some((waiting.handle, goes_on))
    }

    /// Takes the flow out that has waited longest.
    pub fn oldest(&mut self) -> Option<u32> {
        while let Some((key, turn)) = self.order.pop_front() {
            if let Some(&Waiting { handle, .. }) =
                self.waiting.get(&key).filter(|it| it.turn == turn)
            {
                self.waiting.remove(&key);
                self.take_names(handle);
                return Some(handle);
            }
        }
        None
    }

    /// Takes the flows out that have been idle for too long.
    pub fn idle(&mut self, clock_ms: u32, idle_ms: u32) -> Option<u32> {
        while let Some((key, turn)) = self.order.front() {
            match self.waiting.get(key) {
                Some(waiting) if waiting.turn == *turn => {
                    return if clock_ms.wrapping_sub(waiting.last_ms) > idle_ms {
                        self.oldest()
                    } else {
                        None
                    };
                }
                _ => {
                    self.order.pop_front();
                }
            }
        }
        None
    }

    /// Adds to the names of a flow what an earlier record of it knew.
    #[inline]
    pub fn complete(&mut self, handle: u32, names: &mut NamesRecord) {
        if self.names.is_empty() {
            return;
        }
        let Some(before) = self.take_names(handle) else {
            return;
        };
        if before.application.as_ref().map(|it| it.found_by)
            > names.application.as_ref().map(|it| it.found_by)
        {
            names.application = before.application;
        }
        names.resolved = names.resolved.take().or(before.resolved);
        match (&mut names.tls, before.tls) {
            (Some(tls), Some(before)) => tls.complete(*before),
            (tls, before) => *tls = tls.take().or(before),
        }
        match (&mut names.quic, before.quic) {
            (Some(quic), Some(before)) => quic.complete(*before),
            (quic, before) => *quic = quic.take().or(before),
        }
        if let (Some(dns), Some(before)) = (&mut names.dns, &before.dns) {
            dns.complete(before);
        }
        names.cut.add(before.cut);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use app::DnsHalf;

    fn key(number: u32) -> FlowKey {
        FlowKey {
            source: u128::from(number).to_le_bytes(),
            ..FlowKey::default()
        }
    }

    fn analysis(server_name: &str) -> Analysis {
        let tls = TlsRecord {
            server_name: Some(server_name.into()),
            ..TlsRecord::default()
        };
        Analysis {
            names: Some(NamesRecord {
                tls: Some(Box::new(tls)),
                ..NamesRecord::default()
            }),
            ..Analysis::default()
        }
    }

    #[test]
    fn names_are_kept_while_there_is_room_for_them() {
        let long = analysis("a-name-that-does-not-lie-in-its-record.example");
        let one = Known::of(long.names.as_ref().unwrap()).unwrap().bytes();
        assert!(one > 2 * size_of::<Known>() + size_of::<TlsRecord>() + 40);
        let mut flows = Continued::new(8, 2 * one);
        for number in 0..3 {
            assert_eq!(flows.keep_names(number, &long), number < 2);
            assert_eq!(flows.wait(key(number), number, 0), None);
        }
        for (number, known) in [(0, true), (1, true), (2, false), (3, false)] {
            let mut later = NamesRecord::default();
            flows.complete(number, &mut later);
            assert_eq!(later.tls.is_some(), known, "{number}");
        }
        assert_eq!((flows.names.len(), flows.names_bytes), (0, 0));
        // What any record tells by itself takes no room.
        let nothing = Analysis {
            names: Some(NamesRecord::default()),
            ..Analysis::default()
        };
        assert!(flows.keep_names(4, &nothing));
        assert_eq!((flows.names.len(), flows.names_bytes), (0, 0));
    }

    #[test]
    fn a_dns_query_is_answered_in_the_next_record() {
        let half = |id, asked_by, time_ns| {
            Some(DnsHalf {
                id,
                asked_by,
                time_ns,
            })
        };
        let query = DnsRecord {
            query: Some("a.example".into()),
            query_type: Some(1),
            queries: 1,
            half: half(7, 0, 1000),
            ..DnsRecord::default()
        };
        let response = DnsRecord {
            query: Some("A.example".into()),
            query_type: Some(1),
            response_code: Some(0),
            answers: Some(1),
            responses: 1,
            half: half(7, 0, 4000),
            ..DnsRecord::default()
        };
        let latency = |before: &DnsRecord, after: &DnsRecord| {
            let of = |dns: &DnsRecord| NamesRecord {
                dns: Some(Box::new(dns.clone())),
                ..NamesRecord::default()
            };
            let mut flows = Continued::new(8, 1 << 16);
            let first = Analysis {
                names: Some(of(before)),
                ..Analysis::default()
            };
            assert!(flows.keep_names(1, &first));
            let mut second = of(after);
            flows.complete(1, &mut second);
            assert_eq!((flows.names.len(), flows.names_bytes), (0, 0));
            second.dns.unwrap().latency_ns
        };
        assert_eq!(latency(&query, &response), Some(3000));
        // A clock that went back; another id, direction, name or type; an answer, or a query, that is
        // not alone.
        let change = |change: fn(&mut DnsRecord)| {
            let mut changed = response.clone();
            change(&mut changed);
            latency(&query, &changed)
        };
        assert_eq!(change(|it| it.half.as_mut().unwrap().time_ns = 0), Some(0));
        for change_of in [
            |it: &mut DnsRecord| it.half.as_mut().unwrap().id = 8,
            |it: &mut DnsRecord| it.half.as_mut().unwrap().asked_by = 1,
            |it: &mut DnsRecord| it.query = Some("b.example".into()),
            |it: &mut DnsRecord| it.query_type = Some(28),
            |it: &mut DnsRecord| it.queries = 1,
            |it: &mut DnsRecord| it.half = None,
        ] {
            assert_eq!(change(change_of), None);
        }
        assert_eq!(latency(&response, &response), None);
    }

    /// What a record of these names adds to the next one.
    fn completed(before: NamesRecord, mut after: NamesRecord) -> NamesRecord {
        let mut flows = Continued::new(8, 1 << 16);
        let before = Analysis {
            names: Some(before),
            ..Analysis::default()
        };
        assert!(flows.keep_names(1, &before));
        flows.complete(1, &mut after);
        after
    }

    #[test]
    fn a_hello_is_answered_in_the_next_record() {
        let of = |server_name: Option<&str>, version| NamesRecord {
            tls: Some(Box::new(TlsRecord {
                server_name: server_name.map(Into::into),
                versions_offered: server_name.map(|_| "0303".into()),
                version,
                ..TlsRecord::default()
            })),
            ..NamesRecord::default()
        };
        let client = || of(Some("a.example"), None);
        let told = |before, after| {
            let tls = completed(before, after).tls.unwrap();
            (tls.server_name, tls.version)
        };
        let name = || Some("a.example".into());
        assert_eq!(
            told(client(), of(None, Some(0x0303))),
            (name(), Some(0x0303))
        );
        assert_eq!(told(client(), NamesRecord::default()), (name(), None));
        // Another handshake on the same ports.
        let whole = of(Some("b.example"), Some(0x0303));
        assert_eq!(told(whole.clone(), client()), (name(), None));
        assert_eq!(told(whole, of(None, Some(0x0302))), (None, Some(0x0302)));
    }

    #[test]
    fn round_trips_of_a_record_are_not_the_next_ones() {
        let quic = QuicRecord {
            version: 1,
            spin_count: 7,
            spin_min_ns: 5,
            spin_mean_ns: 6,
            ..QuicRecord::default()
        };
        let before = NamesRecord {
            quic: Some(Box::new(quic)),
            ..NamesRecord::default()
        };
        let quic = completed(before, NamesRecord::default()).quic.unwrap();
        assert_eq!((quic.version, quic.spin_count), (1, 0));
        assert_eq!((quic.spin_min_ns, quic.spin_mean_ns), (0, 0));
    }

    #[test]
    fn those_that_have_gone_on_take_no_places() {
        let mut flows = Continued::new(4, 1 << 20);
        let known = analysis("a.example");
        flows.wait(key(0), 0, 0);
        for _ in 0..100 {
            assert!(flows.keep_names(1, &known));
            assert_eq!(flows.wait(key(1), 1, 0), None);
            assert_eq!(flows.take(&key(1), 1, 10), Some((1, true)));
            flows.complete(1, &mut NamesRecord::default());
            assert!(flows.order.len() <= 4 * ORDER_PER_WAITING);
        }
        for number in 2..5 {
            assert_eq!(flows.wait(key(number), number, 0), None);
        }
        assert_eq!(flows.wait(key(5), 5, 0), Some(0));
        assert_eq!(flows.idle(100, 10), Some(2));
    }
}
