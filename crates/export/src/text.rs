//! Text without `fmt`: a growing buffer, and numbers written into it.
//!
//! Formatting dominates the cost of writing flow records, so every value is written as a block of
//! fixed size of which only the first bytes count: a fixed size compiles to a store or two, where
//! a slice of unknown length costs a call to `memcpy`.

mod digits;

pub(crate) use self::digits::{ASCII_ZEROES, eight_digits};
use self::digits::{EIGHT_DIGITS, Short};

/// Bytes that a label's block holds; longer labels take a slower way.
const LABEL_BLOCK: usize = 48;

/// The bits of the length of a label that fits its block.
const LABEL_MASK: usize = 63;

/// Text that is being put together; cleared and used again, never freed.
#[derive(Debug, Default)]
pub struct Text {
    /// Always filled up to its length: what lies behind `length` is left over from before.
    bytes: Vec<u8>,
    /// Bytes of text in `bytes`.
    length: usize,
}

impl Text {
    /// Empty text with room for `capacity` bytes.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            bytes: vec![0; capacity],
            length: 0,
        }
    }

    /// The text so far.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// The eight bytes from `at` on, with whatever stands behind the text; 0 if there are not so many.
    #[inline(always)]
    pub(crate) fn word(&self, at: usize) -> u64 {
        let from = self.bytes.get(at..).unwrap_or_default();
        from.first_chunk()
            .map_or(0, |&word| u64::from_le_bytes(word))
    }

    /// Bytes of text so far.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there is no text.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Forgets the text and keeps the room.
    pub const fn clear(&mut self) {
        self.length = 0;
    }

    /// Keeps the bytes of `range` alone.
    pub fn keep(&mut self, range: core::ops::Range<usize>) {
        let end = range.end.min(self.length);
        let start = range.start.min(end);
        self.bytes.copy_within(start..end, 0);
        self.length = end - start;
    }

    /// Appends what `write` writes, which is at most `bytes_max` bytes.
    #[inline(always)]
    pub fn append(&mut self, bytes_max: usize, write: impl FnOnce(&mut Pen<'_>)) {
        let needed = bytes_max + OVERHANG;
        debug_assert!(u32::try_from(needed).is_ok(), "more than a pen can write");
        if self.bytes.len() - self.length < needed {
            self.grow(needed);
        }
        let room = self.bytes.get_mut(self.length..).unwrap_or_default();
        let mut pen = Pen { room, at: 0 };
        write(&mut pen);
        self.length += pen.place();
    }

    /// Appends bytes of any number.
    pub fn slice(&mut self, bytes: &[u8]) {
        self.append(bytes.len(), |pen| pen.slice(bytes));
    }

    /// Puts `byte` in the place of the last one.
    #[inline]
    pub fn replace_last(&mut self, byte: u8) {
        if let Some(last) = self
            .length
            .checked_sub(1)
            .and_then(|at| self.bytes.get_mut(at))
        {
            *last = byte;
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, needed: usize) {
        let length = (self.length + needed).max(self.bytes.len() * 2);
        self.bytes.resize(length, 0);
    }
}

/// Writes into room that is known to suffice.
///
/// Where it stands is kept apart from the text, so that the compiler holds it in a register: every
/// write begins where the one before ended, and a detour through memory at each would be most of
/// the cost of a line. What is not compiled into the caller therefore takes and returns the place
/// instead of the pen.
#[derive(Debug)]
pub struct Pen<'a> {
    room: &'a mut [u8],
    /// Of 32 bits, so that the compiler knows that what is added to it as a `usize` does not
    /// overflow: one comparison says then that there is room.
    at: u32,
}

impl Pen<'_> {
    /// The widest value (a time has 30 bytes, an IPv6 address 39, a float 24, an integer 20).
    pub const VALUE_BYTES_MAX: usize = 40;

    /// Writes bytes of any number up to 24, of which the last few may be written twice.
    #[inline(always)]
    fn up_to_24(&mut self, bytes: &[u8]) {
        match (bytes.first_chunk::<16>(), bytes.first_chunk::<8>()) {
            (Some(first), _) => {
                self.put(first, bytes.len() - 8);
                self.put(bytes.last_chunk::<8>().unwrap_or(&[0; 8]), 8);
            }
            (None, Some(first)) => {
                self.put(first, bytes.len() - 8);
                self.put(bytes.last_chunk::<8>().unwrap_or(&[0; 8]), 8);
            }
            _ => self.slice(bytes),
        }
    }

    /// Writes the first `used` bytes of `block`.
    #[inline(always)]
    pub fn put<const N: usize>(&mut self, block: &[u8; N], used: usize) {
        const { assert!(N <= OVERHANG) };
        debug_assert!(used <= N);
        let at = self.place();
        if let Some(room) = self.room.get_mut(at..at + N) {
            room.copy_from_slice(block);
            self.at += used as u32;
        } else {
            debug_assert!(false, "a line is longer than was said");
        }
    }

    /// Where it stands.
    #[inline(always)]
    const fn place(&self) -> usize {
        self.at as usize
    }

    /// Writes what `write` writes, which is not compiled into the caller, and says where it ends.
    #[inline(always)]
    pub(crate) fn apart(&mut self, write: impl FnOnce(Pen<'_>) -> u32) {
        self.at = write(Pen {
            room: self.room,
            at: self.at,
        });
    }

    /// Writes a byte.
    #[inline(always)]
    pub fn byte(&mut self, byte: u8) {
        self.put(&[byte], 1);
    }

    /// Writes bytes of any number.
    #[inline]
    pub fn slice(&mut self, bytes: &[u8]) {
        let rest = self.room.get_mut(self.place()..).unwrap_or_default();
        if let Some(room) = rest.get_mut(..bytes.len()) {
            room.copy_from_slice(bytes);
            self.at += bytes.len() as u32;
        } else {
            debug_assert!(false, "a line is longer than was said");
        }
    }

    /// Writes a label.
    #[inline(always)]
    pub fn label(&mut self, label: &Label) {
        match &label.long {
            None => self.put(&label.block, label.length),
            Some(long) => self.slice(long),
        }
    }

    /// Writes a word.
    #[inline(always)]
    pub fn word(&mut self, word: &Word) {
        self.put(&word.block, word.text.len());
    }

    /// Writes a label and behind it `value` in decimal.
    #[inline(always)]
    pub fn labelled(&mut self, label: &Label, value: u64) {
        self.at = labelled(self.room, self.at, label, value);
    }

    /// Writes a label and behind it that there is no value.
    #[inline(always)]
    pub fn labelled_null(&mut self, label: &Label) {
        self.at = labelled_null(self.room, self.at, label);
    }

    /// Writes `value` in decimal.
    #[inline(always)]
    pub fn unsigned(&mut self, value: u64) {
        match Short::of(value) {
            Some(short) => self.put(&short.text(), short.digits()),
            None => self.at = long_unsigned(self.room, self.at, value),
        }
    }

    /// Writes `value` in decimal and `byte` behind it.
    #[inline(always)]
    pub fn unsigned_and(&mut self, value: u64, byte: u8) {
        match Short::of(value) {
            Some(short) => self.put(&short.text_and(byte), short.digits() + 1),
            None => {
                self.at = long_unsigned(self.room, self.at, value);
                self.byte(byte);
            }
        }
    }

    /// Writes numbers in decimal and `separator` between two of them.
    #[inline(always)]
    pub fn list<N: Copy + Into<u64>>(&mut self, numbers: &[N], separator: u8) {
        self.at = list(self.room, self.at, numbers, separator);
    }

    /// Writes `value`, below 10^8.
    #[inline(always)]
    fn up_to_eight(&mut self, value: u32) {
        let digits = eight_digits(value);
        // The first digit stands in the lowest byte, so leading zeroes are trailing zero bits. The
        // bit set in the last digit keeps a zero that stands alone.
        let skipped = (digits | 1 << 56).trailing_zeros() / 8;
        let text = (digits | ASCII_ZEROES) >> (8 * skipped);
        self.put(&text.to_le_bytes(), 8 - skipped as usize);
    }

    /// Writes `value`, below 10^8, with leading zeroes to eight digits.
    #[inline(always)]
    fn padded_eight(&mut self, value: u32) {
        self.put(&(eight_digits(value) | ASCII_ZEROES).to_le_bytes(), 8);
    }

    /// Writes the shortest decimal that reads back as `value`, which must be finite (others give
    /// no text that JSON knows: the caller decides what stands for them).
    ///
    /// There is always a fraction or an exponent, so that a column of floats stays one for readers
    /// that guess types.
    #[inline(always)]
    pub fn float(&mut self, value: f64) {
        self.at = float(self.room, self.at, value);
    }

    /// Writes nanoseconds as seconds: the text of [`Pen::float`] for the double nearest to them.
    #[inline(always)]
    pub fn seconds(&mut self, nanoseconds: u64) {
        self.at = seconds(self.room, self.at, nanoseconds);
    }

    /// Writes nanoseconds as seconds; not a whole number of them.
    #[inline(always)]
    fn split_seconds(&mut self, nanoseconds: u64) {
        let (whole, rest) = (nanoseconds / NANOSECONDS, nanoseconds % NANOSECONDS);
        self.unsigned(whole);
        let digits = eight_digits((rest / 10) as u32);
        let last = rest % 10;
        // The dot, eight digits, and the last one unless it is 0, as are those before it then.
        let used = match last {
            0 => 9 - digits.leading_zeros() as usize / 8,
            _ => 10,
        };
        let text = u128::from(b'.')
            | u128::from(digits | ASCII_ZEROES) << 8
            | u128::from(last | u64::from(b'0')) << 72;
        self.put(&text.to_le_bytes(), used);
    }

    /// Writes an IPv6 address.
    #[inline(always)]
    pub fn ipv6(&mut self, address: &[u8; 16]) {
        self.apart(|pen| pen.ipv6_groups(address));
    }

    /// Where it stands.
    pub(crate) const fn at(&self) -> u32 {
        self.at
    }
}

/// [`Pen::unsigned`] for four digits and more, at most twenty: where it ends.
#[inline(never)]
fn long_unsigned(room: &mut [u8], at: u32, value: u64) -> u32 {
    let mut pen = Pen { room, at };
    if value < EIGHT_DIGITS {
        pen.up_to_eight(value as u32);
        return pen.at;
    }
    let (high, low) = (value / EIGHT_DIGITS, value % EIGHT_DIGITS);
    if high < EIGHT_DIGITS {
        pen.up_to_eight(high as u32);
    } else {
        pen.up_to_eight((high / EIGHT_DIGITS) as u32);
        pen.padded_eight((high % EIGHT_DIGITS) as u32);
    }
    pen.padded_eight(low as u32);
    pen.at
}

/// [`Pen::labelled`]: where it ends.
#[inline(never)]
fn labelled(room: &mut [u8], at: u32, label: &Label, value: u64) -> u32 {
    // Most counts have few digits, and most labels fit their block: both at once then.
    if value < label.short_below {
        let short = Short::below_count(value);
        behind_short(room, at, label, short.text(), short.digits())
    } else {
        long_labelled(room, at, label, value)
    }
}

/// [`labelled`] for what is not short.
#[inline(never)]
fn long_labelled(room: &mut [u8], at: u32, label: &Label, value: u64) -> u32 {
    let mut pen = Pen { room, at };
    pen.label(label);
    long_unsigned(pen.room, pen.at, value)
}

/// [`Pen::labelled_null`]: where it ends.
#[inline(never)]
fn labelled_null(room: &mut [u8], at: u32, label: &Label) -> u32 {
    if label.short_below > 0 {
        behind_short(room, at, label, *b"null", 4)
    } else {
        long_labelled_null(room, at, label)
    }
}

/// [`labelled_null`] for a label that is not short.
#[cold]
fn long_labelled_null(room: &mut [u8], at: u32, label: &Label) -> u32 {
    let mut pen = Pen { room, at };
    pen.label(label);
    pen.put(b"null", 4);
    pen.at
}

/// Writes a short label and so many bytes of `text`: where it ends.
#[inline(always)]
fn behind_short(
    room: &mut [u8],
    at: u32,
    label: &Label,
    text: [u8; Short::BLOCK],
    used: usize,
) -> u32 {
    let place = at as usize;
    let Some(room) = room.get_mut(place..place + OVERHANG) else {
        debug_assert!(false, "a line is longer than was said");
        return at;
    };
    // What it is anyway, so that nobody has to look whether there is room behind it.
    let length = label.length & LABEL_MASK;
    room[..LABEL_BLOCK].copy_from_slice(&label.block);
    room[length..length + Short::BLOCK].copy_from_slice(&text);
    at + (length + used) as u32
}

/// [`Pen::list`]: where it ends.
#[inline(never)]
fn list<N: Copy + Into<u64>>(room: &mut [u8], at: u32, numbers: &[N], separator: u8) -> u32 {
    let mut pen = Pen { room, at };
    for (index, &number) in numbers.iter().enumerate() {
        if index > 0 {
            pen.byte(separator);
        }
        pen.unsigned(number.into());
    }
    pen.at
}

/// [`Pen::float`]: where it ends.
#[inline(never)]
fn float(room: &mut [u8], at: u32, value: f64) -> u32 {
    let mut pen = Pen { room, at };
    let whole = value as i64;
    // Whole numbers (packet sizes, counts) are common, and digits of integers are cheap.
    if whole as f64 == value && (0..WHOLE_LIMIT).contains(&whole) && value.is_sign_positive() {
        pen.unsigned(whole.cast_unsigned());
        pen.put(b".0", 2);
    } else if let Some(nanoseconds) = whole_nanoseconds(value) {
        pen.split_seconds(nanoseconds);
    } else {
        pen.up_to_24(zmij::Buffer::new().format_finite(value).as_bytes());
    }
    pen.at
}

const NANOSECONDS: u64 = 1_000_000_000;

/// [`Pen::seconds`]: where it ends.
#[inline(never)]
fn seconds(room: &mut [u8], at: u32, nanoseconds: u64) -> u32 {
    let mut pen = Pen { room, at };
    // As in `whole_nanoseconds`, of which these are those that have a fraction.
    if SPLIT_NANOSECONDS.contains(&nanoseconds) && !nanoseconds.is_multiple_of(NANOSECONDS) {
        pen.split_seconds(nanoseconds);
    } else {
        pen.float(nanoseconds as f64 / 1e9);
    }
    pen.at
}

/// Nanoseconds from 10^-5 to 10^6 seconds.
const SPLIT_NANOSECONDS: std::ops::Range<u64> = 10_000..1_000_000_000_000_000;

/// The number of nanoseconds of which `value` is the double nearest to their seconds, where the
/// shortest decimal has neither an exponent nor more than 15 digits.
///
/// Then that decimal is the one of the nanoseconds: decimals of 15 digits that differ are never the
/// same double, so none that is shorter reads back as it.
#[inline(always)]
fn whole_nanoseconds(value: f64) -> Option<u64> {
    if !(1e-5..1e6).contains(&value) {
        return None;
    }
    let nanoseconds = (value * 1e9 + 0.5) as i64;
    (nanoseconds as f64 / 1e9 == value).then_some(nanoseconds.cast_unsigned())
}

/// Blocks reach this far behind their used bytes, at most.
const OVERHANG: usize = LABEL_MASK + 1 + Short::BLOCK;

/// Below this, zmij writes whole numbers without an exponent too (it starts at 10^16).
const WHOLE_LIMIT: i64 = 1_000_000_000_000_000;

/// Text made once and written often, as the name of a field with what stands around it.
#[derive(Clone, Debug)]
pub struct Label {
    block: [u8; LABEL_BLOCK],
    length: usize,
    /// Values below this stand right behind the block; none do where it is not all of the label.
    short_below: u64,
    /// All of it, if it does not fit the block.
    long: Option<Box<[u8]>>,
}

impl Label {
    /// Bytes of the label.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// A label of any length; up to 48 bytes are fast.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut block = [0; LABEL_BLOCK];
        let long = match block.get_mut(..text.len()) {
            Some(room) => {
                room.copy_from_slice(text.as_bytes());
                None
            }
            None => Some(text.as_bytes().into()),
        };
        Self {
            block,
            length: text.len(),
            short_below: if long.is_none() {
                Short::COUNT as u64
            } else {
                0
            },
            long,
        }
    }
}

/// A short word known when the program is built: at most 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    block: [u8; Self::BLOCK],
    text: &'static str,
}

impl Word {
    const BLOCK: usize = 24;

    /// The word `text`; more than 24 bytes fail to build where the word is a constant.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        let bytes = text.as_bytes();
        let mut block = [0; Self::BLOCK];
        let mut at = 0;
        while at < bytes.len() {
            block[at] = bytes[at];
            at += 1;
        }
        Self { block, text }
    }

    /// The word.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What `write` writes into exactly the room that values are given.
    fn written(write: impl FnOnce(&mut Pen<'_>)) -> String {
        let mut text = Text::default();
        text.append(Pen::VALUE_BYTES_MAX, write);
        assert!(text.len() <= Pen::VALUE_BYTES_MAX);
        String::from_utf8(text.as_bytes().to_vec()).unwrap()
    }

    fn unsigned(value: u64) -> String {
        written(|pen| pen.unsigned(value))
    }

    fn float(value: f64) -> String {
        written(|pen| pen.float(value))
    }

    /// Another author's shortest decimals, which have no plus before an exponent.
    fn by_ryu(value: f64) -> String {
        let text = ryu::Buffer::new().format_finite(value).to_owned();
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => {
                format!("{digits}e+{exponent}")
            }
            _ => text,
        }
    }

    #[test]
    fn integers_at_the_edges_of_every_length() {
        let mut power: u64 = 1;
        loop {
            for value in [power - 1, power, power + 1] {
                assert_eq!(unsigned(value), value.to_string());
            }
            match power.checked_mul(10) {
                Some(next) => power = next,
                None => break,
            }
        }
        assert_eq!(unsigned(u64::MAX), "18446744073709551615");
    }

    #[test]
    fn nanoseconds_at_the_edges_of_every_length() {
        let mut power: u64 = 1;
        while power < u64::MAX / 10 {
            for nanoseconds in [power - 1, power, power + 1, 2 * power] {
                let text = written(|pen| pen.seconds(nanoseconds));
                assert_eq!(text, by_ryu(nanoseconds as f64 / 1e9));
            }
            power *= 10;
        }
    }

    #[test]
    fn every_four_digits_are_right_in_both_halves() {
        for value in 0..10_000_u32 {
            assert_eq!(unsigned(u64::from(value)), value.to_string());
            let high = value * 10_000 + 9_999 - value;
            let padded = written(|pen| pen.padded_eight(high));
            assert_eq!(padded, format!("{high:08}"));
        }
    }

    #[test]
    fn floats_of_note() {
        assert_eq!(float(0.0), "0.0");
        assert_eq!(float(-0.0), "-0.0");
        assert_eq!(float(1514.0), "1514.0");
        assert_eq!(float(-3.0), "-3.0");
        assert_eq!(float(0.1), "0.1");
        assert_eq!(float(1.0e21), "1e+21");
        assert_eq!(float(999_999_999_999_999.0), "999999999999999.0");
        assert_eq!(float(f64::MIN_POSITIVE), "2.2250738585072014e-308");
    }

    #[test]
    fn a_label_longer_than_its_block_is_whole() {
        let long = "x".repeat(LABEL_BLOCK + 1);
        let mut text = Text::default();
        for label in [Label::new(&long), Label::new("short")] {
            text.append(label.len(), |pen| pen.label(&label));
        }
        assert_eq!(text.as_bytes(), format!("{long}short").as_bytes());
    }

    #[test]
    fn text_grows_from_nothing_and_keeps_a_range() {
        let mut text = Text::default();
        for value in 0..1000 {
            text.append(21, |pen| {
                pen.unsigned(value);
                pen.byte(b',');
            });
        }
        text.replace_last(b'.');
        let expected: Vec<String> = (0..1000).map(|value: u64| value.to_string()).collect();
        assert_eq!(
            text.as_bytes(),
            format!("{}.", expected.join(",")).as_bytes()
        );
        text.keep(2..5);
        assert_eq!(text.as_bytes(), b"1,2");
        text.clear();
        assert!(text.is_empty());
        text.replace_last(b'x');
        assert_eq!(text.len(), 0);
    }

    proptest! {
        #[test]
        fn integers_are_as_std_writes_them(value: u64, shift in 0_u32..64) {
            let value = value >> shift;
            prop_assert_eq!(unsigned(value), value.to_string());
            prop_assert_eq!(written(|pen| pen.unsigned_and(value, b',')), format!("{value},"));
            prop_assert_eq!(written(|pen| pen.unsigned_and(value, b';')), format!("{value};"));
        }

        #[test]
        fn floats_are_as_ryu_writes_them_and_read_back(bits: u64) {
            let value = f64::from_bits(bits);
            if value.is_finite() {
                prop_assert_eq!(float(value), by_ryu(value));
                prop_assert_eq!(float(value).parse::<f64>().unwrap().to_bits(), bits);
            }
        }

        #[test]
        fn nanoseconds_are_as_ryu_writes_their_seconds(nanoseconds: u64, shift in 0_u32..64) {
            let value = (nanoseconds >> shift) as f64 / 1e9;
            prop_assert_eq!(float(value), by_ryu(value));
            prop_assert_eq!(written(|pen| pen.seconds(nanoseconds >> shift)), by_ryu(value));
            let tens = (nanoseconds >> shift) / 1000 * 1000;
            prop_assert_eq!(float(tens as f64 / 1e9), by_ryu(tens as f64 / 1e9));
        }

        #[test]
        fn labels_and_numbers_are_both_whole(name in "[a-z]{0,60}", value: u64, shift in 0_u32..64) {
            let (label, value) = (Label::new(&name), value >> shift);
            let mut text = Text::default();
            text.append(label.len() + Pen::VALUE_BYTES_MAX, |pen| pen.labelled(&label, value));
            prop_assert_eq!(text.as_bytes(), [name.as_bytes(), value.to_string().as_bytes()].concat());
        }

        #[test]
        fn whole_floats_are_as_ryu_writes_them(value: i64, shift in 0_u32..64) {
            let value = (value >> shift) as f64;
            prop_assert_eq!(float(value), by_ryu(value));
        }
    }
}
