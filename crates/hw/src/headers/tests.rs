use super::*;
use core::ptr::NonNull;

/// A layout for frames of this module's own kind, to test that the offsets are the caller's.
const LAYOUT: Layout = Layout {
    key: 22,
    kind: [12, 13, 14, 23],
    tcp: [0x08, 0x00, 0x45, 6],
    udp: [0x08, 0x00, 0x45, 17],
    fragment: 20,
    fragment_mask: [0x3f, 0xff],
    total_length: 16,
    tcp_data_offset: 46,
    tcp_flags: 47,
    udp_length: 38,
    link_header: 14,
    network_header: 20,
    tcp_min: 20,
    udp_min: 8,
};
static RULE: Rule = Rule::new(LAYOUT);

const BITS: KeyBits = KeyBits {
    keep: u128::MAX << 32,
    set: 4,
};

/// Returns a valid UDP frame.
fn frame(number: u8) -> [u8; HEADER_BYTES] {
    let mut frame = [number; HEADER_BYTES];
    frame[12..18].copy_from_slice(&[0x08, 0x00, 0x45, 0, 0, 40]);
    frame[20..24].copy_from_slice(&[0, 0, 64, 17]);
    frame[38..40].copy_from_slice(&[0, 20]);
    frame
}

fn key(frame: &[u8; HEADER_BYTES]) -> u128 {
    let bytes = frame[22..].first_chunk().expect("16 bytes");
    u128::from_le_bytes(*bytes) & BITS.keep | BITS.set
}

/// Returns the instructions, or prints that the test was skipped.
fn avx512() -> Option<Avx512> {
    let avx512 = Avx512::detect();
    if avx512.is_none() {
        eprintln!("SKIPPED: the CPU lacks AVX-512 (F, BW, VL, VBMI)");
    }
    avx512
}

#[test]
fn one_invalid_frame_at_each_position_clears_one_bit() {
    let Some(avx512) = avx512() else {
        return;
    };
    for count in 0..=FRAMES_MAX {
        for invalid in 0..=count {
            let frames: Vec<_> = (0..count as u8).map(frame).collect();
            // A frame is invalid because too little was captured, or because of its wire length.
            let lengths = |at| match (at == invalid, at % 2) {
                (true, 0) => (HEADER_BYTES - 1, 54),
                (true, _) => (HEADER_BYTES, 53),
                (false, _) => (HEADER_BYTES, 54),
            };
            let list: Vec<_> = frames
                .iter()
                .enumerate()
                .map(|(at, frame)| (&frame[..lengths(at).0], lengths(at).1))
                .collect();
            let (mut keys, mut flags) = (vec![0; count], vec![1; count]);
            let output = Output {
                keys: &mut keys,
                flags: &mut flags,
            };
            let valid = avx512.parse::<false, _>(&RULE, BITS, &list, output);
            let mut expected = u64::MAX.checked_shr(64 - count as u32).unwrap_or(0);
            expected &= !1u64.checked_shl(invalid as u32).unwrap_or(0);
            assert_eq!(valid, expected, "{count} frames, {invalid} invalid");
            for at in (0..count).filter(|&at| at != invalid) {
                assert_eq!((keys[at], flags[at]), (key(&frames[at]), 0));
            }
        }
    }
}

#[test]
fn the_shortest_slice_limits_the_frames() {
    let Some(avx512) = avx512() else {
        return;
    };
    let bytes = frame(1);
    let frames = [(&bytes[..], 54); FRAMES_MAX + 7];
    for (keys, flags) in [(6, 64), (64, 6), (FRAMES_MAX + 7, FRAMES_MAX + 7)] {
        let output = Output {
            keys: &mut vec![0; keys],
            flags: &mut vec![0; flags],
        };
        let valid = avx512.parse::<true, _>(&RULE, BITS, &frames, output);
        assert_eq!(valid.count_ones() as usize, keys.min(flags).min(FRAMES_MAX));
    }
}

/// A readable and writable page, before a page that is neither.
struct GuardedPage {
    start: NonNull<u8>,
    bytes: usize,
}

impl GuardedPage {
    fn new() -> Self {
        // SAFETY: `sysconf` only reads.
        let bytes = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("a size");
        let (access, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping at an address that the kernel chooses affects no other memory.
        let start = unsafe { libc::mmap(core::ptr::null_mut(), 2 * bytes, access, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: the second page of the mapping, to which nothing refers yet.
        let result = unsafe { libc::mprotect(start.byte_add(bytes), bytes, libc::PROT_NONE) };
        assert_eq!(result, 0);
        let start = NonNull::new(start.cast()).expect("a mapping");
        Self { start, bytes }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the first page is readable and writable, and borrowed with `self`.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for GuardedPage {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's own, and no borrow is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), 2 * self.bytes) };
    }
}

#[test]
fn reads_nothing_beyond_a_frame_at_the_end_of_a_page() {
    let Some(avx512) = avx512() else {
        return;
    };
    let mut page = GuardedPage::new();
    let page = page.bytes();
    let start = page.len() - HEADER_BYTES;
    page[start..].copy_from_slice(&frame(7));
    for count in 1..=9 {
        // Too short frames at the end of the page must not be read either.
        for captured in [HEADER_BYTES, HEADER_BYTES - 1, 1, 0] {
            let bytes = &page[page.len() - captured..];
            let frames = vec![(bytes, 54); count];
            let (mut keys, mut flags) = (vec![0; count], vec![0; count]);
            let output = Output {
                keys: &mut keys,
                flags: &mut flags,
            };
            let valid = avx512.parse::<true, _>(&RULE, BITS, &frames, output);
            let is_whole = captured == HEADER_BYTES;
            assert_eq!(valid.count_ones() as usize, count * usize::from(is_whole));
        }
    }
}
