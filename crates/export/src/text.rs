//! Fast text formatting without `core::fmt`: a growing buffer and a cursor that writes values into
//! it.
//!
//! Formatting dominates the cost of writing flow records. Every value is therefore written as a
//! block of fixed size of which only the first bytes count: a fixed size compiles to a store or
//! two, whereas a slice of unknown length costs a call to `memcpy`.

mod digits;

pub(crate) use self::digits::{ASCII_ZEROES, eight_digits};
use self::digits::{EIGHT_DIGITS, ShortNumber};

/// Size of a label's block; longer labels take the slow path.
const LABEL_BLOCK: usize = 48;

/// Mask of the length of a label that fits into its block.
const LABEL_MASK: usize = 63;

/// A growing text buffer. Clearing it keeps the capacity.
#[derive(Debug, Default)]
pub struct TextBuffer {
    /// Initialised up to its full length; the bytes after `length` are stale.
    bytes: Vec<u8>,
    /// Length of the text in `bytes`.
    length: usize,
}

impl TextBuffer {
    /// Creates an empty buffer with room for `capacity` bytes.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            bytes: vec![0; capacity],
            length: 0,
        }
    }

    /// Returns the text.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Loads the eight bytes at `at`, which may extend beyond the text; returns 0 if they are out
    /// of bounds.
    #[inline]
    pub(crate) fn load_u64(&self, at: usize) -> u64 {
        let from = self.bytes.get(at..).unwrap_or_default();
        from.first_chunk()
            .map_or(0, |&word| u64::from_le_bytes(word))
    }

    /// Length of the text in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether the text is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Removes the text and keeps the capacity.
    pub const fn clear(&mut self) {
        self.length = 0;
    }

    /// Keeps only the bytes in `range`.
    pub fn keep_range(&mut self, range: core::ops::Range<usize>) {
        let end = range.end.min(self.length);
        let start = range.start.min(end);
        self.bytes.copy_within(start..end, 0);
        self.length = end - start;
    }

    /// Appends what `write` writes: at most `bytes_max` bytes.
    #[inline]
    pub fn append(&mut self, bytes_max: usize, write: impl FnOnce(&mut Cursor<'_>)) {
        let needed = bytes_max + OVERHANG;
        debug_assert!(
            u32::try_from(needed).is_ok(),
            "more than a cursor can write"
        );
        if self.bytes.len() - self.length < needed {
            self.grow(needed);
        }
        let buffer = self.bytes.get_mut(self.length..).unwrap_or_default();
        let mut cursor = Cursor { buffer, offset: 0 };
        write(&mut cursor);
        self.length += cursor.index();
    }

    /// Appends bytes.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        self.append(bytes.len(), |cursor| cursor.bytes(bytes));
    }

    /// Replaces the last byte.
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

/// Writes values into a buffer that has enough room.
///
/// The offset is local to the cursor, not part of the buffer, so that it stays in a register:
/// every write starts where the previous one ended, and a detour through memory each time would be
/// most of the cost of a line. Functions that are not inlined therefore take and return the offset
/// instead of the cursor.
#[derive(Debug)]
pub struct Cursor<'a> {
    buffer: &'a mut [u8],
    /// 32 bits, so that the compiler knows that adding to it as a `usize` does not overflow; a
    /// single comparison then checks the bounds.
    offset: u32,
}

impl Cursor<'_> {
    /// Maximum length of a value (a time has 30 bytes, an IPv6 address 39, a float 24, an integer
    /// 20).
    pub const VALUE_BYTES_MAX: usize = 40;

    /// Writes at most 24 bytes, some of which may be stored twice.
    #[inline]
    fn bytes_up_to_24(&mut self, bytes: &[u8]) {
        match (bytes.first_chunk::<16>(), bytes.first_chunk::<8>()) {
            (Some(first), _) => {
                self.put(first, bytes.len() - 8);
                self.put(bytes.last_chunk::<8>().unwrap_or(&[0; 8]), 8);
            }
            (None, Some(first)) => {
                self.put(first, bytes.len() - 8);
                self.put(bytes.last_chunk::<8>().unwrap_or(&[0; 8]), 8);
            }
            _ => self.bytes(bytes),
        }
    }

    /// Writes the first `used` bytes of `block`.
    #[inline]
    pub fn put<const N: usize>(&mut self, block: &[u8; N], used: usize) {
        const { assert!(N <= OVERHANG) };
        debug_assert!(used <= N);
        let at = self.index();
        if let Some(buffer) = self.buffer.get_mut(at..at + N) {
            buffer.copy_from_slice(block);
            self.offset += used as u32;
        } else {
            debug_assert!(false, "more text than announced to `append`");
        }
    }

    #[inline]
    const fn index(&self) -> usize {
        self.offset as usize
    }

    /// Lets a function that is not inlined write, and takes over the offset that it returns.
    #[inline]
    pub(crate) fn write_outlined(&mut self, write: impl FnOnce(Cursor<'_>) -> u32) {
        self.offset = write(Cursor {
            buffer: self.buffer,
            offset: self.offset,
        });
    }

    /// Writes a byte.
    #[inline]
    pub fn byte(&mut self, byte: u8) {
        self.put(&[byte], 1);
    }

    /// Writes bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        let rest = self.buffer.get_mut(self.index()..).unwrap_or_default();
        if let Some(buffer) = rest.get_mut(..bytes.len()) {
            buffer.copy_from_slice(bytes);
            self.offset += bytes.len() as u32;
        } else {
            debug_assert!(false, "more text than announced to `append`");
        }
    }

    /// Writes a label.
    #[inline]
    pub fn label(&mut self, label: &Label) {
        match &label.long {
            None => self.put(&label.block, label.length),
            Some(long) => self.bytes(long),
        }
    }

    /// Writes a word.
    #[inline]
    pub fn word(&mut self, word: &Word) {
        self.put(&word.block, word.text.len());
    }

    /// Writes a label followed by `value` in decimal.
    #[inline]
    pub fn labelled(&mut self, label: &Label, value: u64) {
        self.offset = labelled(self.buffer, self.offset, label, value);
    }

    /// Writes a label followed by `null`.
    #[inline]
    pub fn labelled_null(&mut self, label: &Label) {
        self.offset = labelled_null(self.buffer, self.offset, label);
    }

    /// Writes `value` in decimal.
    #[inline]
    pub fn unsigned(&mut self, value: u64) {
        match ShortNumber::of(value) {
            Some(short) => self.put(&short.text(), short.digits()),
            None => self.offset = long_unsigned(self.buffer, self.offset, value),
        }
    }

    /// Writes `value` in decimal followed by `byte`.
    #[inline]
    pub fn unsigned_then(&mut self, value: u64, byte: u8) {
        match ShortNumber::of(value) {
            Some(short) => self.put(&short.text_then(byte), short.digits() + 1),
            None => {
                self.offset = long_unsigned(self.buffer, self.offset, value);
                self.byte(byte);
            }
        }
    }

    /// Writes numbers in decimal, separated by `separator`.
    #[inline]
    pub fn list<N: Copy + Into<u64>>(&mut self, numbers: &[N], separator: u8) {
        self.offset = list(self.buffer, self.offset, numbers, separator);
    }

    /// Writes `value`, below 10^8.
    #[inline]
    fn up_to_eight_digits(&mut self, value: u32) {
        let digits = eight_digits(value);
        // The first digit is in the lowest byte, so leading zeroes are trailing zero bits. The bit
        // set in the last digit keeps a single zero.
        let skipped = (digits | 1 << 56).trailing_zeros() / 8;
        let text = (digits | ASCII_ZEROES) >> (8 * skipped);
        self.put(&text.to_le_bytes(), 8 - skipped as usize);
    }

    /// Writes `value`, below 10^8, padded with zeroes to eight digits.
    #[inline]
    fn padded_eight_digits(&mut self, value: u32) {
        self.put(&(eight_digits(value) | ASCII_ZEROES).to_le_bytes(), 8);
    }

    /// Writes the shortest decimal that reads back as `value`, which must be finite: JSON cannot
    /// represent other values, so the caller decides what to write for them.
    ///
    /// The text always has a fraction or an exponent, so that readers that infer types recognise
    /// the column as floating-point.
    #[inline]
    pub fn float(&mut self, value: f64) {
        self.offset = float(self.buffer, self.offset, value);
    }

    /// Writes nanoseconds as seconds, with the text of [`Cursor::float`] for the nearest double.
    #[inline]
    pub fn seconds(&mut self, nanoseconds: u64) {
        self.offset = seconds(self.buffer, self.offset, nanoseconds);
    }

    /// Writes nanoseconds as seconds, unless they are a whole number of seconds.
    #[inline]
    fn fractional_seconds(&mut self, nanoseconds: u64) {
        let (whole, rest) = (nanoseconds / NANOSECONDS, nanoseconds % NANOSECONDS);
        self.unsigned(whole);
        let digits = eight_digits((rest / 10) as u32);
        let last = rest % 10;
        // The dot, eight digits, and the last digit unless it is 0, in which case further trailing
        // zeroes are dropped too.
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
    #[inline]
    pub fn ipv6(&mut self, address: &[u8; 16]) {
        self.write_outlined(|cursor| cursor.ipv6_groups(address));
    }

    /// Current offset.
    pub(crate) const fn offset(&self) -> u32 {
        self.offset
    }
}

/// [`Cursor::unsigned`] for four to twenty digits. Returns the new offset.
#[inline(never)]
fn long_unsigned(buffer: &mut [u8], at: u32, value: u64) -> u32 {
    let mut cursor = Cursor { buffer, offset: at };
    if value < EIGHT_DIGITS {
        cursor.up_to_eight_digits(value as u32);
        return cursor.offset;
    }
    let (high, low) = (value / EIGHT_DIGITS, value % EIGHT_DIGITS);
    if high < EIGHT_DIGITS {
        cursor.up_to_eight_digits(high as u32);
    } else {
        cursor.up_to_eight_digits((high / EIGHT_DIGITS) as u32);
        cursor.padded_eight_digits((high % EIGHT_DIGITS) as u32);
    }
    cursor.padded_eight_digits(low as u32);
    cursor.offset
}

/// [`Cursor::labelled`]. Returns the new offset.
#[inline(never)]
fn labelled(buffer: &mut [u8], at: u32, label: &Label, value: u64) -> u32 {
    // Most counts are short and most labels fit into their block: write both at once.
    if value < label.fast_below {
        let short = ShortNumber::lookup(value);
        label_and_short(buffer, at, label, short.text(), short.digits())
    } else {
        long_labelled(buffer, at, label, value)
    }
}

#[inline(never)]
fn long_labelled(buffer: &mut [u8], at: u32, label: &Label, value: u64) -> u32 {
    let mut cursor = Cursor { buffer, offset: at };
    cursor.label(label);
    long_unsigned(cursor.buffer, cursor.offset, value)
}

/// [`Cursor::labelled_null`]. Returns the new offset.
#[inline(never)]
fn labelled_null(buffer: &mut [u8], at: u32, label: &Label) -> u32 {
    if label.fast_below > 0 {
        label_and_short(buffer, at, label, *b"null", 4)
    } else {
        long_labelled_null(buffer, at, label)
    }
}

#[cold]
fn long_labelled_null(buffer: &mut [u8], at: u32, label: &Label) -> u32 {
    let mut cursor = Cursor { buffer, offset: at };
    cursor.label(label);
    cursor.put(b"null", 4);
    cursor.offset
}

/// Writes a short label and the first `used` bytes of `text`. Returns the new offset.
#[inline]
fn label_and_short(
    buffer: &mut [u8],
    at: u32,
    label: &Label,
    text: [u8; ShortNumber::BLOCK],
    used: usize,
) -> u32 {
    let index = at as usize;
    let Some(buffer) = buffer.get_mut(index..index + OVERHANG) else {
        debug_assert!(false, "more text than announced to `append`");
        return at;
    };
    // The mask changes nothing, but shows the compiler that the text fits, which saves a bounds
    // check.
    let length = label.length & LABEL_MASK;
    buffer[..LABEL_BLOCK].copy_from_slice(&label.block);
    buffer[length..length + ShortNumber::BLOCK].copy_from_slice(&text);
    at + (length + used) as u32
}

/// [`Cursor::list`]. Returns the new offset.
#[inline(never)]
fn list<N: Copy + Into<u64>>(buffer: &mut [u8], at: u32, numbers: &[N], separator: u8) -> u32 {
    let mut cursor = Cursor { buffer, offset: at };
    for (index, &number) in numbers.iter().enumerate() {
        if index > 0 {
            cursor.byte(separator);
        }
        cursor.unsigned(number.into());
    }
    cursor.offset
}

/// [`Cursor::float`]. Returns the new offset.
#[inline(never)]
fn float(buffer: &mut [u8], at: u32, value: f64) -> u32 {
    let mut cursor = Cursor { buffer, offset: at };
    let whole = value as i64;
    // Integral values (packet sizes, counts) are common, and integers are cheap to write.
    if whole as f64 == value && (0..WHOLE_LIMIT).contains(&whole) && value.is_sign_positive() {
        cursor.unsigned(whole.cast_unsigned());
        cursor.put(b".0", 2);
    } else if let Some(nanoseconds) = whole_nanoseconds(value) {
        cursor.fractional_seconds(nanoseconds);
    } else {
        cursor.bytes_up_to_24(zmij::Buffer::new().format_finite(value).as_bytes());
    }
    cursor.offset
}

const NANOSECONDS: u64 = 1_000_000_000;

/// [`Cursor::seconds`]. Returns the new offset.
#[inline(never)]
fn seconds(buffer: &mut [u8], at: u32, nanoseconds: u64) -> u32 {
    let mut cursor = Cursor { buffer, offset: at };
    // The range of `whole_nanoseconds`, without whole seconds.
    if FRACTIONAL_NANOSECONDS.contains(&nanoseconds) && !nanoseconds.is_multiple_of(NANOSECONDS) {
        cursor.fractional_seconds(nanoseconds);
    } else {
        cursor.float(nanoseconds as f64 / 1e9);
    }
    cursor.offset
}

/// Nanoseconds from 10^-5 to 10^6 seconds.
const FRACTIONAL_NANOSECONDS: std::ops::Range<u64> = 10_000..1_000_000_000_000_000;

/// Returns the number of nanoseconds whose seconds have `value` as the nearest double, if the
/// shortest decimal has neither an exponent nor more than 15 digits.
///
/// That decimal is then the one of the nanoseconds: different decimals of up to 15 digits never
/// have the same double, so no shorter one reads back as it.
#[inline]
fn whole_nanoseconds(value: f64) -> Option<u64> {
    if !(1e-5..1e6).contains(&value) {
        return None;
    }
    let nanoseconds = (value * 1e9 + 0.5) as i64;
    (nanoseconds as f64 / 1e9 == value).then_some(nanoseconds.cast_unsigned())
}

/// Maximum number of bytes that a block extends beyond its used bytes.
const OVERHANG: usize = LABEL_MASK + 1 + ShortNumber::BLOCK;

/// Below this, zmij too writes integral values without an exponent (it starts at 10^16).
const WHOLE_LIMIT: i64 = 1_000_000_000_000_000;

/// Text that is prepared once and written often, such as a field name with its punctuation.
#[derive(Clone, Debug)]
pub struct Label {
    block: [u8; LABEL_BLOCK],
    length: usize,
    /// Smaller values can be written together with the block; 0 if the block does not hold the
    /// whole label.
    fast_below: u64,
    /// The whole label, if it does not fit into the block.
    long: Option<Box<[u8]>>,
}

impl Label {
    /// Length of the label in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether the label is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Creates a label of any length; up to 48 bytes are fast.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut block = [0; LABEL_BLOCK];
        let long = match block.get_mut(..text.len()) {
            Some(buffer) => {
                buffer.copy_from_slice(text.as_bytes());
                None
            }
            None => Some(text.as_bytes().into()),
        };
        Self {
            block,
            length: text.len(),
            fast_below: if long.is_none() {
                ShortNumber::COUNT as u64
            } else {
                0
            },
            long,
        }
    }
}

/// A short word known at compile time: at most 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    block: [u8; Self::BLOCK],
    text: &'static str,
}

impl Word {
    const BLOCK: usize = 24;

    /// Creates a word. More than 24 bytes fail to compile if the word is a constant.
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

    /// Returns the word.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns what `write` writes into a buffer with exactly the room for a value.
    fn written(write: impl FnOnce(&mut Cursor<'_>)) -> String {
        let mut text = TextBuffer::default();
        text.append(Cursor::VALUE_BYTES_MAX, write);
        assert!(text.len() <= Cursor::VALUE_BYTES_MAX);
        String::from_utf8(text.as_bytes().to_vec()).unwrap()
    }

    fn unsigned(value: u64) -> String {
        written(|cursor| cursor.unsigned(value))
    }

    fn float(value: f64) -> String {
        written(|cursor| cursor.float(value))
    }

    /// Shortest decimals by an independent implementation, whose exponents have no plus sign.
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
    fn writes_integers_around_powers_of_ten() {
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
    fn writes_seconds_around_powers_of_ten() {
        let mut power: u64 = 1;
        while power < u64::MAX / 10 {
            for nanoseconds in [power - 1, power, power + 1, 2 * power] {
                let text = written(|cursor| cursor.seconds(nanoseconds));
                assert_eq!(text, by_ryu(nanoseconds as f64 / 1e9));
            }
            power *= 10;
        }
    }

    #[test]
    fn writes_all_combinations_of_four_digits() {
        for value in 0..10_000_u32 {
            assert_eq!(unsigned(u64::from(value)), value.to_string());
            let high = value * 10_000 + 9_999 - value;
            let padded = written(|cursor| cursor.padded_eight_digits(high));
            assert_eq!(padded, format!("{high:08}"));
        }
    }

    #[test]
    fn writes_special_floats() {
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
    fn label_longer_than_its_block_is_complete() {
        let long = "x".repeat(LABEL_BLOCK + 1);
        let mut text = TextBuffer::default();
        for label in [Label::new(&long), Label::new("short")] {
            text.append(label.len(), |cursor| cursor.label(&label));
        }
        assert_eq!(text.as_bytes(), format!("{long}short").as_bytes());
    }

    #[test]
    fn buffer_grows_and_keeps_a_range() {
        let mut text = TextBuffer::default();
        for value in 0..1000 {
            text.append(21, |cursor| {
                cursor.unsigned(value);
                cursor.byte(b',');
            });
        }
        text.replace_last(b'.');
        let expected: Vec<String> = (0..1000).map(|value: u64| value.to_string()).collect();
        assert_eq!(
            text.as_bytes(),
            format!("{}.", expected.join(",")).as_bytes()
        );
        text.keep_range(2..5);
        assert_eq!(text.as_bytes(), b"1,2");
        text.clear();
        assert!(text.is_empty());
        text.replace_last(b'x');
        assert_eq!(text.len(), 0);
    }

    proptest! {
        #[test]
        fn integers_match_std(value: u64, shift in 0_u32..64) {
            let value = value >> shift;
            prop_assert_eq!(unsigned(value), value.to_string());
            prop_assert_eq!(written(|cursor| cursor.unsigned_then(value, b',')), format!("{value},"));
            prop_assert_eq!(written(|cursor| cursor.unsigned_then(value, b';')), format!("{value};"));
        }

        #[test]
        fn floats_match_ryu_and_read_back(bits: u64) {
            let value = f64::from_bits(bits);
            if value.is_finite() {
                prop_assert_eq!(float(value), by_ryu(value));
                prop_assert_eq!(float(value).parse::<f64>().unwrap().to_bits(), bits);
            }
        }

        #[test]
        fn seconds_match_ryu(nanoseconds: u64, shift in 0_u32..64) {
            let value = (nanoseconds >> shift) as f64 / 1e9;
            prop_assert_eq!(float(value), by_ryu(value));
            prop_assert_eq!(written(|cursor| cursor.seconds(nanoseconds >> shift)), by_ryu(value));
            let tens = (nanoseconds >> shift) / 1000 * 1000;
            prop_assert_eq!(float(tens as f64 / 1e9), by_ryu(tens as f64 / 1e9));
        }

        #[test]
        fn labels_and_numbers_are_complete(name in "[a-z]{0,60}", value: u64, shift in 0_u32..64) {
            let (label, value) = (Label::new(&name), value >> shift);
            let mut text = TextBuffer::default();
            text.append(label.len() + Cursor::VALUE_BYTES_MAX, |cursor| cursor.labelled(&label, value));
            prop_assert_eq!(text.as_bytes(), [name.as_bytes(), value.to_string().as_bytes()].concat());
        }

        #[test]
        fn integral_floats_match_ryu(value: i64, shift in 0_u32..64) {
            let value = (value >> shift) as f64;
            prop_assert_eq!(float(value), by_ryu(value));
        }
    }
}
