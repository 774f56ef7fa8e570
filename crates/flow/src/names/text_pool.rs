//! Texts of flows, in blocks of 32 bytes out of one bounded pool: names are short and many, and
//! a flow's share of them is counted in blocks.

use super::slab::Slab;
use std::io;

/// Bytes of text in a block.
pub(super) const BLOCK_TEXT: usize = 28;

/// A piece of a text and the handle of the next piece.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    next: u32,
    bytes: [u8; BLOCK_TEXT],
}

/// A text in the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Text {
    first: u32,
    length: u16,
}

impl Text {
    /// Whether there is none. (A text of no bytes is none.)
    pub(super) const fn is_none(self) -> bool {
        self.first == 0
    }
}

/// The pool.
#[derive(Debug)]
pub(super) struct TextPool {
    blocks: Slab<Block>,
}

impl TextPool {
    pub(super) fn new(blocks_max: usize) -> io::Result<Self> {
        Ok(Self {
            blocks: Slab::new(blocks_max)?,
        })
    }

    /// Takes the memory of the first blocks from the machine now.
    pub(super) fn populate(&mut self) {
        self.blocks.populate();
    }

    /// Keeps as much of `text` as `blocks` blocks hold, and subtracts what it took of them. The
    /// second value is whether some was cut.
    pub(super) fn keep(&mut self, text: &[u8], blocks: &mut u8) -> (Text, bool) {
        let mut kept = Text::default();
        let mut last = 0;
        for piece in text.chunks(BLOCK_TEXT) {
            if *blocks == 0 {
                return (kept, true);
            }
            let handle = self.blocks.take();
            let Some(block) = self.blocks.get_mut(handle) else {
                return (kept, true);
            };
            // A copy of a length that is known is a few moves, any other one a call.
            match piece.first_chunk::<BLOCK_TEXT>() {
                Some(whole) => block.bytes = *whole,
                None => block.bytes[..piece.len()].copy_from_slice(piece),
            }
            *blocks -= 1;
            kept.length += piece.len() as u16;
            match self.blocks.get_mut(last) {
                Some(before) => before.next = handle,
                None => kept.first = handle,
            }
            last = handle;
        }
        (kept, false)
    }

    /// Appends the text's bytes to `out`.
    pub(super) fn read(&self, text: Text, out: &mut Vec<u8>) {
        let (mut handle, mut left) = (text.first, usize::from(text.length));
        while let Some(block) = self.blocks.get(handle) {
            if left < BLOCK_TEXT {
                out.extend_from_slice(&block.bytes[..left]);
                return;
            }
            out.extend_from_slice(&block.bytes);
            left -= BLOCK_TEXT;
            handle = block.next;
        }
    }

    /// The text as a string; bytes that are not UTF-8 are replaced.
    pub(super) fn string(&self, text: Text) -> Option<Box<str>> {
        if text.is_none() {
            return None;
        }
        let mut bytes = Vec::with_capacity(usize::from(text.length));
        self.read(text, &mut bytes);
        Some(match String::from_utf8(bytes) {
            Ok(string) => string.into_boxed_str(),
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into(),
        })
    }

    /// Gives a text's blocks back.
    pub(super) fn release(&mut self, text: Text) {
        let mut handle = text.first;
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
        self.blocks.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn texts_come_back_whole_or_marked(texts in prop::collection::vec("[a-zé.]{0,90}", 0..20)) {
            let mut pool = TextPool::new(40).unwrap();
            let mut kept = Vec::new();
            for text in &texts {
                let mut blocks = 3;
                let (handle, cut) = pool.keep(text.as_bytes(), &mut blocks);
                let mut back = Vec::new();
                pool.read(handle, &mut back);
                prop_assert!(text.as_bytes().starts_with(&back));
                prop_assert_eq!(cut, back.len() < text.len());
                if !cut && !text.is_empty() {
                    let string = pool.string(handle);
                    prop_assert_eq!(string.as_deref(), Some(text.as_str()));
                }
                kept.push(handle);
            }
            for handle in kept {
                pool.release(handle);
            }
            prop_assert_eq!(pool.taken(), 0);
        }
    }
}
