//! A bounded pool of interned texts. Many flows have the same server names, user agents and
//! certificates, so each distinct text is stored once, with a reference count. A text is a list of
//! blocks of one cache line. It is found by a keyed hash and compared in full.

use crate::record::AppText;
use hw::hash::KeyedHash;
use hw::memory::HugeSlice;
use hw::pool::{FreeListNode, Pool};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;

/// The longest text, in bytes. Longer ones are truncated. Host names are shorter, and so are nearly
/// all names in certificates.
pub(crate) const TEXT_MAX: usize = 320;

/// Bytes of text in a block.
const BLOCK_TEXT: usize = 46;

/// A block of a text. The fields `next_in_chain`, `references`, `hash` and `length` are used in the
/// first block of a text only.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Block {
    /// Handle of the next block of the text.
    next: u32,
    /// Handle of the next text in the same hash chain.
    next_in_chain: u32,
    /// Reference count.
    references: u32,
    /// Hash of the text.
    hash: u32,
    /// The text. It starts at an aligned offset, because it is searched word by word.
    bytes: [u8; BLOCK_TEXT],
    length: u16,
}

const _: () = assert!(size_of::<Block>() == 64);

impl Default for Block {
    fn default() -> Self {
        Self {
            next: 0,
            next_in_chain: 0,
            references: 0,
            hash: 0,
            length: 0,
            bytes: [0; BLOCK_TEXT],
        }
    }
}

impl FreeListNode for Block {
    fn next_free(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// Handle of a text in the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextId(u32);

impl TextId {
    /// Whether it stands for the empty text, or for a missing one.
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The pool of texts.
#[derive(Debug)]
pub(crate) struct TextPool {
    blocks: Pool<Block>,
    /// Handle of the first text of each hash chain. There are as many chains as blocks, so that
    /// chains are short even in a full pool.
    chains: HugeSlice<u32>,
    /// Keyed with a secret of this process, so that no attacker can send texts that share a chain.
    hash: KeyedHash,
}

impl TextPool {
    /// Creates a pool that uses `bytes` bytes when full.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let blocks =
            (bytes / (size_of::<Block>() + size_of::<u32>())).clamp(1, u32::MAX as usize / 2);
        Ok(Self {
            blocks: Pool::new(blocks)?,
            chains: HugeSlice::try_zeroed(blocks)?,
            hash: KeyedHash::new(RandomState::new().build_hasher().finish()),
        })
    }

    /// Touches the memory of the first blocks now.
    pub(crate) fn populate(&mut self) {
        self.blocks.populate();
        self.chains.populate();
    }

    /// Interns a text, up to [`TEXT_MAX`] bytes, and adds a reference. Also returns whether the text
    /// was truncated, or was dropped because the pool is full.
    pub(crate) fn intern(&mut self, text: &[u8]) -> (TextId, bool) {
        if text.is_empty() {
            return (TextId::default(), false);
        }
        let kept = &text[..text.len().min(TEXT_MAX)];
        let hash = self.hash.hash_bytes(kept) as u32;
        let handle = match self.find(kept, hash) {
            0 => self.insert(kept, hash),
            handle => handle,
        };
        let is_held = self.blocks.get_mut(handle).is_some_and(|block| {
            let more = block.references.checked_add(1);
            block.references = more.unwrap_or(block.references);
            more.is_some()
        });
        if is_held {
            (TextId(handle), kept.len() < text.len())
        } else {
            (TextId::default(), true)
        }
    }

    #[inline]
    fn chain_of(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.chains.len() as u64) >> 32) as usize
    }

    /// The handle of a text in the pool, 0 if it is not there.
    #[inline]
    fn find(&self, text: &[u8], hash: u32) -> u32 {
        let mut handle = self.chains[self.chain_of(hash)];
        while let Some(block) = self.blocks.get(handle) {
            if block.hash == hash && self.equals(block, text) {
                return handle;
            }
            handle = block.next_in_chain;
        }
        0
    }

    #[inline]
    fn equals(&self, first: &Block, text: &[u8]) -> bool {
        usize::from(first.length) == text.len()
            && match first.bytes.get(..text.len()) {
                Some(bytes) => bytes == text,
                None => self.pieces(first).eq(text.chunks(BLOCK_TEXT)),
            }
    }

    /// Whether a text equals a DNS name, ignoring case (RFC 4343). Compares only the part of the name
    /// that a text can hold. A missing text equals every name.
    pub(crate) fn equals_dns_name(&self, text: TextId, name: &[u8]) -> bool {
        let Some(first) = self.blocks.get(text.0) else {
            return true;
        };
        let kept = &name[..name.len().min(TEXT_MAX)];
        usize::from(first.length) == kept.len()
            && self
                .pieces(first)
                .zip(kept.chunks(BLOCK_TEXT))
                .all(|(held, piece)| held.eq_ignore_ascii_case(piece))
    }

    /// Inserts a new text without a reference. Returns its handle, 0 if there are too few blocks.
    fn insert(&mut self, text: &[u8], hash: u32) -> u32 {
        let pieces = text.chunks(BLOCK_TEXT);
        if self.blocks.available() < pieces.len() {
            return 0;
        }
        let mut next = 0;
        for piece in pieces.rev() {
            let handle = self.blocks.allocate();
            if let Some(block) = self.blocks.get_mut(handle) {
                block.next = next;
                block.bytes[..piece.len()].copy_from_slice(piece);
            }
            next = handle;
        }
        let chain = self.chain_of(hash);
        if let Some(first) = self.blocks.get_mut(next) {
            first.hash = hash;
            first.length = text.len() as u16;
            first.next_in_chain = std::mem::replace(&mut self.chains[chain], next);
        }
        next
    }

    /// The bytes of a text, block by block.
    #[inline]
    fn pieces<'a>(&'a self, first: &'a Block) -> impl Iterator<Item = &'a [u8]> {
        let mut block = Some(first);
        let mut left = usize::from(first.length);
        std::iter::from_fn(move || {
            let piece = &block?.bytes[..left.min(BLOCK_TEXT)];
            left -= piece.len();
            block = match left {
                0 => None,
                _ => self.blocks.get(block?.next),
            };
            Some(piece)
        })
    }

    /// Returns a text as a string, with invalid UTF-8 replaced, and removes a reference.
    pub(crate) fn take(&mut self, text: TextId) -> Option<AppText> {
        let first = self.blocks.get(text.0)?;
        let length = usize::from(first.length);
        let string = match first.bytes.get(..length) {
            Some(bytes) => string(bytes),
            None => {
                let mut bytes = [0; TEXT_MAX];
                let mut at = 0;
                for piece in self.pieces(first) {
                    bytes[at..at + piece.len()].copy_from_slice(piece);
                    at += piece.len();
                }
                string(&bytes[..length])
            }
        };
        self.release(text);
        Some(string)
    }

    /// Adds a reference to a text. Returns the missing text if the count is at its maximum.
    pub(crate) fn retain(&mut self, text: TextId) -> TextId {
        match self.blocks.get_mut(text.0) {
            Some(block) if block.references < u32::MAX => block.references += 1,
            _ => return TextId::default(),
        }
        text
    }

    /// Removes a reference. Frees the text with the last one.
    pub(crate) fn release(&mut self, text: TextId) {
        if let Some(first) = self.blocks.get_mut(text.0) {
            first.references = first.references.saturating_sub(1);
            if first.references == 0 {
                self.remove(text.0);
            }
        }
    }

    /// Removes an unreferenced text.
    fn remove(&mut self, handle: u32) {
        let Some(&first) = self.blocks.get(handle) else {
            return;
        };
        let chain = self.chain_of(first.hash);
        if self.chains[chain] == handle {
            self.chains[chain] = first.next_in_chain;
        } else {
            let mut previous = self.chains[chain];
            while let Some(block) = self.blocks.get_mut(previous) {
                if block.next_in_chain == handle {
                    block.next_in_chain = first.next_in_chain;
                    break;
                }
                previous = block.next_in_chain;
            }
        }
        let mut handle = handle;
        while let Some(block) = self.blocks.get(handle) {
            let next = block.next;
            self.blocks.free(handle);
            handle = next;
        }
    }

    /// Number of allocated blocks.
    pub(crate) fn allocated(&self) -> usize {
        self.blocks.allocated()
    }

    /// Memory with all blocks allocated, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.blocks.memory_bytes() + self.chains.len() * size_of::<u32>()
    }
}

/// Converts bytes to a string, with invalid UTF-8 replaced.
pub(crate) fn string(bytes: &[u8]) -> AppText {
    // `from_utf8_lossy` checks byte by byte, and nearly all texts are valid ASCII.
    match str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => AppText::from_utf8_lossy(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const BLOCKS: usize = 24;

    fn pool(blocks: usize) -> TextPool {
        TextPool::new(blocks * (size_of::<Block>() + size_of::<u32>())).unwrap()
    }

    fn bytes_of(pool: &TextPool, text: TextId) -> Vec<u8> {
        let first = pool.blocks.get(text.0).unwrap();
        pool.pieces(first).flatten().copied().collect()
    }

    proptest! {
        /// Compares the pool with a map from texts to reference counts: texts are complete or marked
        /// as truncated, equal texts share a handle, and a text is dropped if and only if there are
        /// too few blocks.
        #[test]
        fn behaves_like_a_map(
            steps in prop::collection::vec((0usize..12, any::<bool>(), any::<prop::sample::Index>()), 1..200),
            lengths in prop::collection::vec(prop_oneof![0usize..60, 40usize..400], 12),
            alike: bool,
        ) {
            let texts: Vec<Vec<u8>> = lengths
                .iter()
                .enumerate()
                .map(|(index, &length)| {
                    let mut text = vec![b'a' + if alike { 0 } else { index as u8 }; length];
                    if let Some(last) = text.iter_mut().take(TEXT_MAX).next_back() {
                        *last = b'a' + index as u8;
                    }
                    text
                })
                .collect();
            let mut pool = pool(BLOCKS);
            let mut map: HashMap<Vec<u8>, (TextId, usize)> = HashMap::new();
            let mut held: Vec<(TextId, Vec<u8>)> = Vec::new();
            let blocks_of = |text: &[u8]| text.len().div_ceil(BLOCK_TEXT);
            for (which, release, index) in steps {
                if release && !held.is_empty() {
                    let (text, expected) = held.swap_remove(index.index(held.len()));
                    let string = pool.take(text);
                    prop_assert_eq!(string.as_deref().map(str::as_bytes), Some(&*expected));
                    let (_, count) = map.get_mut(&expected).unwrap();
                    *count -= 1;
                    if *count == 0 {
                        map.remove(&expected);
                    }
                } else {
                    let text = &texts[which];
                    let expected = &text[..text.len().min(TEXT_MAX)];
                    let used: usize = map.keys().map(|text| blocks_of(text)).sum();
                    let fits = map.contains_key(expected) || used + blocks_of(expected) <= BLOCKS;
                    let (handle, is_truncated) = pool.intern(text);
                    prop_assert_eq!(handle.is_empty(), expected.is_empty() || !fits);
                    prop_assert_eq!(is_truncated, !fits || expected.len() < text.len());
                    if !handle.is_empty() {
                        prop_assert_eq!(bytes_of(&pool, handle), expected);
                        let (known, count) = map.entry(expected.to_vec()).or_insert((handle, 0));
                        prop_assert_eq!(*known, handle);
                        *count += 1;
                        held.push((handle, expected.to_vec()));
                    }
                }
                let used: usize = map.keys().map(|text| blocks_of(text)).sum();
                prop_assert_eq!(pool.allocated(), used);
            }
            for (text, expected) in held {
                prop_assert_eq!(bytes_of(&pool, text), expected);
                pool.release(text);
            }
            prop_assert_eq!(pool.allocated(), 0);
            prop_assert!(pool.chains.iter().all(|&first| first == 0));
        }
    }

    #[test]
    fn replaces_invalid_utf_8_in_texts_of_any_length() {
        let mut pool = pool(BLOCKS);
        for length in [1, BLOCK_TEXT, BLOCK_TEXT + 1, TEXT_MAX] {
            let (text, is_truncated) = pool.intern(&vec![0xff; length]);
            assert!(!is_truncated);
            let string = pool.take(text).unwrap();
            assert_eq!(*string, *"\u{fffd}".repeat(length));
        }
        assert_eq!(pool.allocated(), 0);
    }
}
