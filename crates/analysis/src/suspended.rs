//! Flows cut by their active timeout, whose states are kept until their next packet.

use super::Analysis;
use app::{
    AppRecord, Application, DnsRecord, FoundBy, Incomplete, QuicRecord, ResolvedName, TlsRecord,
};
use std::collections::{HashMap, VecDeque};
use wire::FlowKey;

/// The maximum number of suspended flows. (With a timeout of half an hour, few are suspended at a
/// time.)
pub const SUSPENDED_MAX: usize = 1 << 14;

/// Maximum queue entries per suspended flow. Flows that continue leave stale entries behind.
const ORDER_PER_FLOW: usize = 2;

/// A suspended flow.
#[derive(Clone, Copy, Debug)]
struct SuspendedFlow {
    /// Handle of its states.
    handle: u32,
    /// The meter's packet clock at its last packet.
    last_ms: u32,
    /// Insertion number, which distinguishes its queue entry from stale ones.
    insertion: u32,
}

/// Application data of a flow's earlier record that its next record needs.
#[derive(Debug)]
struct CarriedOver {
    application: Option<Application>,
    resolved: Option<ResolvedName>,
    tls: Option<Box<TlsRecord>>,
    quic: Option<Box<QuicRecord>>,
    /// Only if the query is unanswered.
    dns: Option<Box<DnsRecord>>,
    incomplete: Incomplete,
}

impl CarriedOver {
    /// Returns `None` if the flow's next record does not need anything from `record`.
    fn new(record: &AppRecord) -> Option<Self> {
        let application = record.application.as_ref();
        let application = application.filter(|it| it.found_by > FoundBy::Port);
        let dns = record
            .dns
            .as_ref()
            .filter(|it| it.unanswered_query().is_some());
        let is_needed = application.is_some()
            || record.resolved.is_some()
            || record.tls.is_some()
            || record.quic.is_some()
            || dns.is_some()
            || record.incomplete != Incomplete::default();
        is_needed.then(|| Self {
            application: application.cloned(),
            resolved: record.resolved.clone(),
            tls: record.tls.clone(),
            quic: record.quic.as_ref().map(|it| Box::new(it.without_counts())),
            dns: dns.cloned(),
            incomplete: record.incomplete,
        })
    }

    /// Returns its memory in bytes. It counts its map entry twice, because a map may have twice the
    /// slots that it needs.
    fn bytes(&self) -> usize {
        2 * size_of::<(u32, Self)>()
            + self.resolved.as_ref().map_or(0, ResolvedName::heap_bytes)
            + self.tls.as_ref().map_or(0, |tls| tls.memory_bytes())
            + self.quic.as_ref().map_or(0, |quic| quic.memory_bytes())
            + self.dns.as_ref().map_or(0, |dns| dns.memory_bytes())
    }
}

/// The suspended flows, by table key.
#[derive(Debug)]
pub struct Suspended {
    flows: HashMap<FlowKey, SuspendedFlow>,
    /// Keys and insertion numbers, oldest first. Some are stale.
    order: VecDeque<(FlowKey, u32)>,
    next_insertion: u32,
    /// Application data of suspended flows, and of flows that have continued, by handle.
    carried_over: HashMap<u32, CarriedOver>,
    carried_over_bytes: usize,
    carried_over_bytes_max: usize,
    flows_max: usize,
}

impl Suspended {
    /// Creates an empty set for at most `flows_max` flows and `carried_over_bytes_max` bytes of
    /// application data.
    pub fn new(flows_max: usize, carried_over_bytes_max: usize) -> Self {
        Self {
            flows: HashMap::new(),
            order: VecDeque::new(),
            next_insertion: 0,
            carried_over: HashMap::new(),
            carried_over_bytes: 0,
            carried_over_bytes_max,
            flows_max,
        }
    }

    /// Returns the maximum memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        let flow = 2 * size_of::<(FlowKey, SuspendedFlow)>();
        let order = 2 * ORDER_PER_FLOW * size_of::<(FlowKey, u32)>();
        self.flows_max * (flow + order) + self.carried_over_bytes_max
    }

    /// Returns whether no flow is suspended.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Keeps a flow's application data for its next record. Returns false if there is no room for it.
    pub fn keep_app_record(&mut self, handle: u32, analysis: &Analysis) -> bool {
        let Some(kept) = analysis.app.as_ref().and_then(CarriedOver::new) else {
            return true;
        };
        let bytes = self.carried_over_bytes + kept.bytes();
        if bytes > self.carried_over_bytes_max {
            return false;
        }
        self.carried_over_bytes = bytes;
        self.carried_over.insert(handle, kept);
        true
    }

    /// Suspends a flow. Returns the handle of the flow that was evicted for it, if any.
    pub fn insert(&mut self, key: FlowKey, handle: u32, last_ms: u32) -> Option<u32> {
        let evicted = (self.flows.len() >= self.flows_max)
            .then(|| self.evict_oldest())
            .flatten();
        if self.order.len() >= ORDER_PER_FLOW * self.flows_max {
            let flows = &self.flows;
            self.order.retain(|(key, insertion)| {
                flows.get(key).is_some_and(|it| it.insertion == *insertion)
            });
        }
        let insertion = self.next_insertion;
        self.next_insertion = insertion.wrapping_add(1);
        self.order.push_back((key, insertion));
        let flow = SuspendedFlow {
            handle,
            last_ms,
            insertion,
        };
        self.flows.insert(key, flow);
        evicted
    }

    /// Removes and returns a flow's application data.
    fn take_carried_over(&mut self, handle: u32) -> Option<CarriedOver> {
        let taken = self.carried_over.remove(&handle)?;
        self.carried_over_bytes -= taken.bytes();
        Some(taken)
    }

    /// Removes the flow with this key. Returns its handle, and whether it is still active when its next
    /// packet arrives at `clock_ms`: false if it was idle for longer than `idle_ms`.
    pub fn take(&mut self, key: &FlowKey, clock_ms: u32, idle_ms: u32) -> Option<(u32, bool)> {
        let flow = self.flows.remove(key)?;
        let is_active = clock_ms.wrapping_sub(flow.last_ms) <= idle_ms;
        if !is_active {
            self.take_carried_over(flow.handle);
        }
        Some((flow.handle, is_active))
    }

    /// Removes the flow that has been suspended longest. Returns its handle.
    pub fn evict_oldest(&mut self) -> Option<u32> {
        while let Some((key, insertion)) = self.order.pop_front() {
            if let Some(&SuspendedFlow { handle, .. }) =
                self.flows.get(&key).filter(|it| it.insertion == insertion)
            {
                self.flows.remove(&key);
                self.take_carried_over(handle);
                return Some(handle);
            }
        }
        None
    }

    /// Removes the flow that has been suspended longest if it has been idle for longer than `idle_ms`.
    /// Returns its handle.
    pub fn evict_idle(&mut self, clock_ms: u32, idle_ms: u32) -> Option<u32> {
        while let Some((key, insertion)) = self.order.front() {
            match self.flows.get(key) {
                Some(flow) if flow.insertion == *insertion => {
                    return if clock_ms.wrapping_sub(flow.last_ms) > idle_ms {
                        self.evict_oldest()
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

    /// Completes a flow's application record with the data of its earlier record.
    #[inline]
    pub fn complete_record(&mut self, handle: u32, record: &mut AppRecord) {
        if self.carried_over.is_empty() {
            return;
        }
        let Some(earlier) = self.take_carried_over(handle) else {
            return;
        };
        if earlier.application.as_ref().map(|it| it.found_by)
            > record.application.as_ref().map(|it| it.found_by)
        {
            record.application = earlier.application;
        }
        record.resolved = record.resolved.take().or(earlier.resolved);
        match (&mut record.tls, earlier.tls) {
            (Some(tls), Some(earlier)) => tls.complete(*earlier),
            (tls, earlier) => *tls = tls.take().or(earlier),
        }
        match (&mut record.quic, earlier.quic) {
            (Some(quic), Some(earlier)) => quic.complete(*earlier),
            (quic, earlier) => *quic = quic.take().or(earlier),
        }
        if let (Some(dns), Some(earlier)) = (&mut record.dns, &earlier.dns) {
            dns.complete(earlier);
        }
        record.incomplete.add(earlier.incomplete);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use app::UnmatchedDns;

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
            app: Some(AppRecord {
                tls: Some(Box::new(tls)),
                ..AppRecord::default()
            }),
            ..Analysis::default()
        }
    }

    #[test]
    fn application_data_is_kept_while_there_is_room() {
        let long = analysis("a-name-too-long-to-be-stored-inline.example");
        let one = CarriedOver::new(long.app.as_ref().unwrap())
            .unwrap()
            .bytes();
        assert!(one > 2 * size_of::<CarriedOver>() + size_of::<TlsRecord>() + 40);
        let mut flows = Suspended::new(8, 2 * one);
        for number in 0..3 {
            assert_eq!(flows.keep_app_record(number, &long), number < 2);
            assert_eq!(flows.insert(key(number), number, 0), None);
        }
        for (number, is_kept) in [(0, true), (1, true), (2, false), (3, false)] {
            let mut later = AppRecord::default();
            flows.complete_record(number, &mut later);
            assert_eq!(later.tls.is_some(), is_kept, "{number}");
        }
        assert_eq!((flows.carried_over.len(), flows.carried_over_bytes), (0, 0));
        // A record without data for the next one takes no room.
        let empty = Analysis {
            app: Some(AppRecord::default()),
            ..Analysis::default()
        };
        assert!(flows.keep_app_record(4, &empty));
        assert_eq!((flows.carried_over.len(), flows.carried_over_bytes), (0, 0));
    }

    #[test]
    fn the_next_record_matches_a_dns_response_with_its_query() {
        let unmatched = |id, query_direction, time_ns| {
            Some(UnmatchedDns {
                id,
                query_direction,
                time_ns,
            })
        };
        let query = DnsRecord {
            query: Some("a.example".into()),
            query_type: Some(1),
            queries: 1,
            unmatched: unmatched(7, 0, 1000),
            ..DnsRecord::default()
        };
        let response = DnsRecord {
            query: Some("A.example".into()),
            query_type: Some(1),
            response_code: Some(0),
            answers: Some(1),
            responses: 1,
            unmatched: unmatched(7, 0, 4000),
            ..DnsRecord::default()
        };
        let latency = |before: &DnsRecord, after: &DnsRecord| {
            let of = |dns: &DnsRecord| AppRecord {
                dns: Some(Box::new(dns.clone())),
                ..AppRecord::default()
            };
            let mut flows = Suspended::new(8, 1 << 16);
            let first = Analysis {
                app: Some(of(before)),
                ..Analysis::default()
            };
            assert!(flows.keep_app_record(1, &first));
            let mut second = of(after);
            flows.complete_record(1, &mut second);
            assert_eq!((flows.carried_over.len(), flows.carried_over_bytes), (0, 0));
            second.dns.unwrap().latency_ns
        };
        assert_eq!(latency(&query, &response), Some(3000));
        // A clock that went back; then no match: another ID, direction, name or type, a second query,
        // or a response that is already matched.
        let change = |change: fn(&mut DnsRecord)| {
            let mut changed = response.clone();
            change(&mut changed);
            latency(&query, &changed)
        };
        assert_eq!(
            change(|it| it.unmatched.as_mut().unwrap().time_ns = 0),
            Some(0)
        );
        for change_of in [
            |it: &mut DnsRecord| it.unmatched.as_mut().unwrap().id = 8,
            |it: &mut DnsRecord| it.unmatched.as_mut().unwrap().query_direction = 1,
            |it: &mut DnsRecord| it.query = Some("b.example".into()),
            |it: &mut DnsRecord| it.query_type = Some(28),
            |it: &mut DnsRecord| it.queries = 1,
            |it: &mut DnsRecord| it.unmatched = None,
        ] {
            assert_eq!(change(change_of), None);
        }
        assert_eq!(latency(&response, &response), None);
    }

    /// Returns record `after`, completed with record `before` of the same flow.
    fn completed(before: AppRecord, mut after: AppRecord) -> AppRecord {
        let mut flows = Suspended::new(8, 1 << 16);
        let before = Analysis {
            app: Some(before),
            ..Analysis::default()
        };
        assert!(flows.keep_app_record(1, &before));
        flows.complete_record(1, &mut after);
        after
    }

    #[test]
    fn the_next_record_joins_a_server_hello_with_its_client_hello() {
        let of = |server_name: Option<&str>, version| AppRecord {
            tls: Some(Box::new(TlsRecord {
                server_name: server_name.map(Into::into),
                versions_offered: server_name.map(|_| "0303".into()),
                version,
                ..TlsRecord::default()
            })),
            ..AppRecord::default()
        };
        let client = || of(Some("a.example"), None);
        let joined = |before, after| {
            let tls = completed(before, after).tls.unwrap();
            (tls.server_name, tls.version)
        };
        let name = || Some("a.example".into());
        assert_eq!(
            joined(client(), of(None, Some(0x0303))),
            (name(), Some(0x0303))
        );
        assert_eq!(joined(client(), AppRecord::default()), (name(), None));
        // Another handshake on the same ports.
        let whole = of(Some("b.example"), Some(0x0303));
        assert_eq!(joined(whole.clone(), client()), (name(), None));
        assert_eq!(joined(whole, of(None, Some(0x0302))), (None, Some(0x0302)));
    }

    #[test]
    fn round_trips_are_not_carried_over() {
        let quic = QuicRecord {
            version: 1,
            spin_count: 7,
            spin_min_ns: 5,
            spin_mean_ns: 6,
            ..QuicRecord::default()
        };
        let before = AppRecord {
            quic: Some(Box::new(quic)),
            ..AppRecord::default()
        };
        let quic = completed(before, AppRecord::default()).quic.unwrap();
        assert_eq!((quic.version, quic.spin_count), (1, 0));
        assert_eq!((quic.spin_min_ns, quic.spin_mean_ns), (0, 0));
    }

    #[test]
    fn continued_flows_take_no_room() {
        let mut flows = Suspended::new(4, 1 << 20);
        let analysis = analysis("a.example");
        flows.insert(key(0), 0, 0);
        for _ in 0..100 {
            assert!(flows.keep_app_record(1, &analysis));
            assert_eq!(flows.insert(key(1), 1, 0), None);
            assert_eq!(flows.take(&key(1), 1, 10), Some((1, true)));
            flows.complete_record(1, &mut AppRecord::default());
            assert!(flows.order.len() <= 4 * ORDER_PER_FLOW);
        }
        for number in 2..5 {
            assert_eq!(flows.insert(key(number), number, 0), None);
        }
        assert_eq!(flows.insert(key(5), 5, 0), Some(0));
        assert_eq!(flows.evict_idle(100, 10), Some(2));
    }
}
