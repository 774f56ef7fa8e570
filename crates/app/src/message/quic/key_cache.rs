//! Connection IDs, and a cache of the keys that are derived from them.

use super::initial::InitialKeys;
use super::secrets::Sender;
use super::version::Version;

/// A QUIC connection ID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConnectionId {
    length: u8,
    bytes: [u8; super::CONNECTION_ID_MAX],
}

impl ConnectionId {
    pub(crate) fn new(id: &[u8]) -> Self {
        let mut connection_id = Self::default();
        if let Some(bytes) = connection_id.bytes.get_mut(..id.len()) {
            bytes.copy_from_slice(id);
            connection_id.length = id.len() as u8;
        }
        connection_id
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// Number of connections whose keys are cached.
const KEY_SLOTS: usize = 64;

/// A cache of the keys of clients' Initial packets. A ClientHello may span several packets, and
/// deriving the keys is most of the cost of one.
#[derive(Debug, Default)]
pub(crate) struct KeyCache {
    /// Empty until the first connection. The last one has the keys that were derived last and are of no
    /// connection yet.
    slots: Vec<Option<CachedKeys>>,
    next: u8,
}

#[derive(Debug)]
struct CachedKeys {
    version: &'static Version,
    id: ConnectionId,
    keys: InitialKeys,
}

impl KeyCache {
    /// Memory of a full cache, in bytes.
    pub(crate) const MEMORY_BYTES: usize = (KEY_SLOTS + 1) * size_of::<Option<CachedKeys>>();

    /// Allocates a slot for a new connection. It replaces the oldest connection.
    pub(crate) fn allocate_slot(&mut self) -> u8 {
        self.next = (self.next + 1) % KEY_SLOTS as u8;
        self.next
    }

    /// Returns the client's keys for a connection ID of valid length, and whether they were derived
    /// now.
    ///
    /// Derived keys replace those in the slot with [`KeyCache::store`] only: a packet that is not
    /// authentic must not push out the keys of its connection.
    pub(crate) fn client_keys(
        &mut self,
        slot: u8,
        version: &'static Version,
        id: &[u8],
    ) -> (&InitialKeys, bool) {
        if self.slots.is_empty() {
            self.slots.resize_with(KEY_SLOTS + 1, || None);
        }
        let is_same = |cached: &CachedKeys| {
            core::ptr::eq(cached.version, version) && cached.id.as_bytes() == id
        };
        let slot = usize::from(slot) % KEY_SLOTS;
        let at = match self.slots[slot].as_ref().is_some_and(is_same) {
            true => slot,
            false => KEY_SLOTS,
        };
        let is_new = !self.slots[at].as_ref().is_some_and(is_same);
        if is_new {
            self.slots[at] = None;
        }
        let cached = self.slots[at].get_or_insert_with(|| CachedKeys {
            version,
            id: ConnectionId::new(id),
            keys: InitialKeys::new(version, id, Sender::Client),
        });
        (&cached.keys, is_new)
    }

    /// Keeps the keys that were used last in a slot, because they are those of its connection.
    pub(crate) fn store(&mut self, slot: u8, id: &[u8]) {
        let Some((last, slots)) = self.slots.split_last_mut() else {
            return;
        };
        if last.as_ref().is_some_and(|keys| keys.id.as_bytes() == id) {
            slots[usize::from(slot) % KEY_SLOTS] = last.take();
        }
    }
}
