//! The header's JSON, read from left to right without recursion.
//!
//! A header needs little of JSON: objects, lists of integers, strings, `null`. Nothing is copied:
//! a [`Text`] is a slice of the header, so a header of many small entries costs little more than its bytes.

use std::borrow::Cow;

use super::error::HeaderError;
use crate::error::{QUOTED_CHARS, quote};

/// A place in the header's text.
#[derive(Clone, Debug)]
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

/// A well-formed string between its quotes, with its escapes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    raw: &'a str,
    /// Whether `raw` has escapes.
    pub(super) escaped: bool,
    /// Where `raw` begins in the header.
    pub(super) at: usize,
}

impl<'a> Text<'a> {
    /// A string found earlier.
    pub(super) fn found(header: &'a str, at: usize, length: usize, escaped: bool) -> Self {
        let raw = header.get(at..at + length).unwrap_or_default();
        Self { raw, escaped, at }
    }

    /// Bytes between the quotes.
    pub(super) fn raw_bytes(self) -> usize {
        self.raw.len()
    }

    /// Its first characters as written, for a message.
    pub(super) fn opening(self) -> String {
        self.raw.chars().take(QUOTED_CHARS + 1).collect()
    }

    /// Whether it is this short word.
    pub(super) fn is(self, word: &str) -> bool {
        self.raw.len() <= 6 * word.len() && self.decode() == word
    }

    /// The string that is meant.
    pub(super) fn decode(self) -> Cow<'a, str> {
        if !self.escaped {
            return Cow::Borrowed(self.raw);
        }
        let mut scanner = Scanner::new(self.raw);
        let mut decoded = String::with_capacity(self.raw.len());
        while let Some(byte) = scanner.byte() {
            if byte == b'\\' {
                decoded.extend(scanner.escape().ok());
            } else {
                let rest = &self.raw[scanner.at..];
                let plain = &rest[..rest.find('\\').unwrap_or(rest.len())];
                decoded.push_str(plain);
                scanner.at += plain.len();
            }
        }
        Cow::Owned(decoded)
    }
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Goes back to a place found earlier.
    pub(super) fn at(text: &'a str, at: usize) -> Self {
        Self { text, at }
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        while matches!(self.byte(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
        self.byte()
    }

    /// Says what is there instead of what was expected.
    pub(super) fn fault(&self, expected: &str) -> HeaderError {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let got = match rest.chars().next() {
            None => "the header's end".to_owned(),
            Some(got) => quote(&got.to_string()),
        };
        let reason = format!("expected {expected}, got {got} at position {}", self.at);
        HeaderError::Json { reason }
    }

    /// Takes the sign if it is the next one.
    pub(super) fn take(&mut self, sign: u8) -> bool {
        let found = self.peek() == Some(sign);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, sign: u8, name: &str) -> Result<(), HeaderError> {
        if self.take(sign) {
            return Ok(());
        }
        Err(self.fault(name))
    }

    /// Whether another item follows in a list or an object; the closing sign is taken.
    pub(super) fn more(&mut self, first: bool, close: u8) -> Result<bool, HeaderError> {
        if first {
            return Ok(!self.take(close));
        }
        if self.take(b',') {
            return Ok(true);
        }
        if self.take(close) {
            return Ok(false);
        }
        Err(self.fault(&format!("',' or '{}'", char::from(close))))
    }

    /// Takes the word `null` if it is the next one.
    pub(super) fn take_null(&mut self) -> bool {
        let found = self.peek() == Some(b'n') && self.text[self.at..].starts_with("null");
        self.at += if found { 4 } else { 0 };
        found
    }

    /// An integer within 64 bits.
    pub(super) fn number(&mut self) -> Result<u64, HeaderError> {
        self.peek();
        let start = self.at;
        let mut value = Some(0u64);
        while let Some(digit @ b'0'..=b'9') = self.byte() {
            let digit = u64::from(digit - b'0');
            value = value.and_then(|value| value.checked_mul(10)?.checked_add(digit));
            self.at += 1;
        }
        let digits = &self.text[start..self.at];
        if digits.is_empty() || matches!(self.byte(), Some(b'.' | b'e' | b'E')) {
            return Err(self.fault("a whole number"));
        }
        let leading_zero = digits.len() > 1 && digits.starts_with('0');
        value.filter(|_| !leading_zero).ok_or_else(|| {
            let got = quote(digits);
            let reason = format!(
                "expected a whole number below 2^64 without leading zeros, got {got} at position {start}"
            );
            HeaderError::Json { reason }
        })
    }

    /// A string.
    pub(super) fn string(&mut self) -> Result<Text<'a>, HeaderError> {
        self.expect(b'"', "'\"'")?;
        let (start, mut escaped) = (self.at, false);
        loop {
            match self.byte() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(0..=0x1F) => return Err(self.fault("control characters to be escaped")),
                Some(_) => self.at += 1,
                None => return Err(self.fault("'\"'")),
            }
        }
        let raw = &self.text[start..self.at];
        self.at += 1;
        Ok(Text {
            raw,
            escaped,
            at: start,
        })
    }

    /// The character of an escape.
    fn escape(&mut self) -> Result<char, HeaderError> {
        self.at += 1;
        let plain = match self.byte() {
            Some(sign @ (b'"' | b'\\' | b'/')) => char::from(sign),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => return Err(self.fault("an escape of JSON")),
        };
        self.at += 1;
        Ok(plain)
    }

    /// `uXXXX`, or two of them for characters beyond 16 bits.
    fn unicode_escape(&mut self) -> Result<char, HeaderError> {
        let high = self.hex()?;
        if let Some(character) = char::from_u32(high) {
            return Ok(character);
        }
        if high < 0xDC00 && self.text.as_bytes()[self.at..].starts_with(b"\\u") {
            self.at += 1;
            let low = self.hex()?;
            if (0xDC00..0xE000).contains(&low) {
                let code = 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                return char::from_u32(code).ok_or_else(|| self.fault("a character"));
            }
        }
        Err(self.fault("both halves of a surrogate pair"))
    }

    /// The four digits after `u`.
    fn hex(&mut self) -> Result<u32, HeaderError> {
        let mut value = 0;
        for _ in 0..4 {
            self.at += 1;
            let digit = self.byte().and_then(|byte| char::from(byte).to_digit(16));
            value = value * 16 + digit.ok_or_else(|| self.fault("a hexadecimal digit"))?;
        }
        self.at += 1;
        Ok(value)
    }

    /// Nothing but spaces up to the end.
    pub(super) fn end(&mut self) -> Result<(), HeaderError> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest.len() - rest.trim_start_matches(' ').len();
        if self.at == self.text.len() {
            return Ok(());
        }
        Err(self.fault("only spaces after the header's object"))
    }
}
