//! Texts of flows, each distinct one kept once: many flows have the same server names, clients and
//! certificates. They lie in blocks of a cache line out of one bounded pool, are found by a keyed
//! hash and compared whole, and go with the last flow that has them.

use super::record::NameText;
use crate::pool::{Linked, Pool};
use hw::hash::KeyedHash;
use hw::memory::HugeSlice;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;

/// The longest text that is kept whole, in bytes: longer than any host name, and than nearly all
/// names in certificates.
pub(super) const TEXT_MAX: usize = 320;

/// Bytes of text in a block.
const BLOCK_TEXT: usize = 46;

/// A piece of a text; what is said of the text is in its first one.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Block {
    /// Handle of the next piece.
    next: u32,
    /// Handle of the next text whose hash has the same chain.
    chain: u32,
    /// How often the text is held.
    count: u32,
    /// Hash of the text.
    hash: u32,
    /// Where words are aligned, by which it is looked through.
    bytes: [u8; BLOCK_TEXT],
    length: u16,
}

const _: () = assert!(size_of::<Block>() == 64);

impl Default for Block {
    fn default() -> Self {
        Self {
            next: 0,
            chain: 0,
            count: 0,
            hash: 0,
            length: 0,
            bytes: [0; BLOCK_TEXT],
        }
    }
}

impl Linked for Block {
    fn link(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// A text in the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Text(u32);

impl Text {
    /// Whether there is none. (A text of no bytes is none.)
    pub(super) const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// The pool.
#[derive(Debug)]
pub(super) struct TextPool {
    blocks: Pool<Block>,
    /// Handles of the first texts of each chain. There are as many chains as blocks, so that they
    /// stay short however full the pool is.
    chains: HugeSlice<u32>,
    /// Under a secret of this process, so that nobody can send texts that share a chain.
    hash: KeyedHash,
}

impl TextPool {
    /// A pool that takes `bytes` when it is full.
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        let blocks =
            (bytes / (size_of::<Block>() + size_of::<u32>())).clamp(1, u32::MAX as usize / 2);
        Ok(Self {
            blocks: Pool::new(blocks)?,
            chains: HugeSlice::try_zeroed(blocks)?,
            hash: KeyedHash::new(RandomState::new().build_hasher().finish()),
        })
    }

    /// Takes the memory of the first blocks from the machine now.
    pub(super) fn populate(&mut self) {
        self.blocks.populate();
        self.chains.populate();
    }

    /// Holds a text, or as much of it as may be kept. The second value is whether some was cut.
    pub(super) fn keep(&mut self, text: &[u8]) -> (Text, bool) {
        if text.is_empty() {
            return (Text::default(), false);
        }
        let kept = &text[..text.len().min(TEXT_MAX)];
        let hash = self.hash.text(kept) as u32;
        let handle = match self.find(kept, hash) {
            0 => self.insert(kept, hash),
            handle => handle,
        };
        let held = self.blocks.get_mut(handle).is_some_and(|block| {
            let more = block.count.checked_add(1);
            block.count = more.unwrap_or(block.count);
            more.is_some()
        });
        if held {
            (Text(handle), kept.len() < text.len())
        } else {
            (Text::default(), true)
        }
    }

    #[inline]
    fn chain_of(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.chains.len() as u64) >> 32) as usize
    }

    /// The handle of a text that is there, or 0.
    #[inline]
    fn find(&self, text: &[u8], hash: u32) -> u32 {
        let mut handle = self.chains[self.chain_of(hash)];
        while let Some(block) = self.blocks.get(handle) {
            if block.hash == hash && self.is(block, text) {
                return handle;
            }
            handle = block.chain;
        }
        0
    }

    #[inline]
    fn is(&self, first: &Block, text: &[u8]) -> bool {
        usize::from(first.length) == text.len()
            && match first.bytes.get(..text.len()) {
                Some(bytes) => bytes == text,
                None => self.pieces(first).eq(text.chunks(BLOCK_TEXT)),
            }
    }

    /// Whether a text that is held is this name of DNS, whatever the case of its letters (RFC 4343), as
    /// far as it was kept.
    pub(super) fn is_name(&self, text: Text, name: &[u8]) -> bool {
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

    /// Puts a text in that is not there, held by nobody yet: its handle, or 0 where there is no room.
    fn insert(&mut self, text: &[u8], hash: u32) -> u32 {
        let pieces = text.chunks(BLOCK_TEXT);
        if self.blocks.left() < pieces.len() {
            return 0;
        }
        let mut next = 0;
        for piece in pieces.rev() {
            let handle = self.blocks.take();
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
            first.chain = std::mem::replace(&mut self.chains[chain], next);
        }
        next
    }

    /// The pieces of a text by its first block.
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

    /// Lets a text go that was held, and gives it as a string; bytes that are not UTF-8 are replaced.
    pub(super) fn take(&mut self, text: Text) -> Option<NameText> {
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

    /// Holds a text once more that is held; it is none where that is too often.
    pub(super) fn hold(&mut self, text: Text) -> Text {
        match self.blocks.get_mut(text.0) {
            Some(block) if block.count < u32::MAX => block.count += 1,
            _ => return Text::default(),
        }
        text
    }

    /// Lets a text go that was held.
    pub(super) fn release(&mut self, text: Text) {
        if let Some(first) = self.blocks.get_mut(text.0) {
            first.count = first.count.saturating_sub(1);
            if first.count == 0 {
                self.forget(text.0);
            }
        }
    }

    /// Takes a text out that nobody holds.
    fn forget(&mut self, handle: u32) {
        let Some(&first) = self.blocks.get(handle) else {
            return;
        };
        let chain = self.chain_of(first.hash);
        if self.chains[chain] == handle {
            self.chains[chain] = first.chain;
        } else {
            let mut before = self.chains[chain];
            while let Some(block) = self.blocks.get_mut(before) {
                if block.chain == handle {
                    block.chain = first.chain;
                    break;
                }
                before = block.chain;
            }
        }
        let mut handle = handle;
        while let Some(block) = self.blocks.get(handle) {
            let next = block.next;
            self.blocks.release(handle);
            handle = next;
        }
    }

    /// Blocks that are taken now.
    pub(super) fn taken(&self) -> usize {
        self.blocks.taken()
    }

    /// Memory when all blocks are taken, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.blocks.memory_bytes() + self.chains.len() * size_of::<u32>()
    }
}

/// Bytes as a string; those that are not UTF-8 are replaced.
pub(super) fn string(bytes: &[u8]) -> NameText {
    // `from_utf8_lossy` looks at one byte after the other, and nearly all texts are ASCII.
    match str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => NameText::from_utf8_lossy(bytes),
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

    fn bytes_of(pool: &TextPool, text: Text) -> Vec<u8> {
        let first = pool.blocks.get(text.0).unwrap();
        pool.pieces(first).flatten().copied().collect()
    }

    proptest! {
        /// Beside a plain map from texts to how often they are held: texts are whole or marked,
        /// equal ones share a place, and a text is refused when its blocks are not there, only then.
        #[test]
        fn it_does_as_a_map_does(
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
            let mut map: HashMap<Vec<u8>, (Text, usize)> = HashMap::new();
            let mut held: Vec<(Text, Vec<u8>)> = Vec::new();
            let blocks_of = |text: &[u8]| text.len().div_ceil(BLOCK_TEXT);
            for (which, let_go, index) in steps {
                if let_go && !held.is_empty() {
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
                    let (handle, cut) = pool.keep(text);
                    prop_assert_eq!(handle.is_none(), expected.is_empty() || !fits);
                    prop_assert_eq!(cut, !fits || expected.len() < text.len());
                    if !handle.is_none() {
                        prop_assert_eq!(bytes_of(&pool, handle), expected);
                        let (place, count) = map.entry(expected.to_vec()).or_insert((handle, 0));
                        prop_assert_eq!(*place, handle);
                        *count += 1;
                        held.push((handle, expected.to_vec()));
                    }
                }
                let used: usize = map.keys().map(|text| blocks_of(text)).sum();
                prop_assert_eq!(pool.taken(), used);
            }
            for (text, expected) in held {
                prop_assert_eq!(bytes_of(&pool, text), expected);
                pool.release(text);
            }
            prop_assert_eq!(pool.taken(), 0);
            prop_assert!(pool.chains.iter().all(|&first| first == 0));
        }
    }

    #[test]
    fn what_is_not_utf_8_is_replaced_whatever_its_length() {
        let mut pool = pool(BLOCKS);
        for length in [1, BLOCK_TEXT, BLOCK_TEXT + 1, TEXT_MAX] {
            let (text, cut) = pool.keep(&vec![0xff; length]);
            assert!(!cut);
            let string = pool.take(text).unwrap();
            assert_eq!(*string, *"\u{fffd}".repeat(length));
        }
        assert_eq!(pool.taken(), 0);
    }
}
