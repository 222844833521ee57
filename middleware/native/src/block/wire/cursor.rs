//! MessagePack, read value by value.

use std::mem;
use std::str::from_utf8;

/// Times lie strictly between this and its negative.
pub const MAX_TS: i64 = 1 << 62;

/// Whether a number can be a time.
pub fn is_time(number: &i64) -> bool {
    -MAX_TS < *number && *number < MAX_TS
}

/// MessagePack, as far as it is read. None: something else than what was asked for.
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Pass over so many values, whatever they are; how deep they are nested does not matter.
    #[inline]
    pub fn skip(&mut self, values: usize) -> Option<()> {
        let mut left = values;
        while left > 0 {
            left -= 1;
            // a branch for what most fields are: a processor predicts it, and reads on before it knows the tag
            if let [0xCB, _, _, _, _, _, _, _, _, rest @ ..] = self.rest {
                self.rest = rest;
                continue;
            }
            let tag = self.tag()?;
            let (bytes, inside) = self.length(tag)?;
            self.rest = self.rest.get(bytes..)?;
            left += inside;
        }
        Some(())
    }

    /// How many bytes the value behind a tag takes, and how many values lie in it.
    #[inline]
    fn length(&mut self, tag: u8) -> Option<(usize, usize)> {
        Some(match tag {
            0x00..=0x7F | 0xC0 | 0xC2 | 0xC3 | 0xE0..=0xFF => (0, 0),
            0x80..=0x8F => (0, 2 * usize::from(tag & 0x0F)),
            0x90..=0x9F => (0, usize::from(tag & 0x0F)),
            0xA0..=0xBF => (usize::from(tag & 0x1F), 0),
            0xC4 | 0xD9 => (self.bytes::<1>()?[0].into(), 0),
            0xC5 | 0xDA => (u16::from_be_bytes(self.bytes()?).into(), 0),
            0xC6 | 0xDB => (u32::from_be_bytes(self.bytes()?) as usize, 0),
            0xC7 => (usize::from(self.bytes::<1>()?[0]) + 1, 0),
            0xC8 => (usize::from(u16::from_be_bytes(self.bytes()?)) + 1, 0),
            0xC9 => (u32::from_be_bytes(self.bytes()?) as usize + 1, 0),
            0xCA | 0xCE | 0xD2 => (4, 0),
            0xCB | 0xCF | 0xD3 => (8, 0),
            0xCC | 0xD0 => (1, 0),
            0xCD | 0xD1 => (2, 0),
            0xD4..=0xD8 => (1 + (1 << (tag - 0xD4)), 0),
            0xDC => (0, u16::from_be_bytes(self.bytes()?).into()),
            0xDD => (0, u32::from_be_bytes(self.bytes()?) as usize),
            0xDE => (0, 2 * usize::from(u16::from_be_bytes(self.bytes()?))),
            0xDF => (0, 2 * (u32::from_be_bytes(self.bytes()?) as usize)),
            0xC1 => return None,
        })
    }

    #[inline]
    fn tag(&mut self) -> Option<u8> {
        let (tag, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*tag)
    }

    #[inline]
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*bytes)
    }

    /// How many elements an array has.
    #[inline]
    pub fn array(&mut self) -> Option<usize> {
        match self.tag()? {
            tag @ 0x90..=0x9F => Some(usize::from(tag & 0x0F)),
            0xDC => Some(u16::from_be_bytes(self.bytes()?).into()),
            0xDD => Some(u32::from_be_bytes(self.bytes()?) as usize),
            _ => None,
        }
    }

    #[inline]
    pub fn integer(&mut self) -> Option<i64> {
        // branches for the forms of most times and ids, which a processor predicts better than a jump by table
        match self.rest {
            [0xCF, a, b, c, d, e, f, g, h, rest @ ..] => {
                self.rest = rest;
                u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]).try_into().ok()
            }
            [0xCE, a, b, c, d, rest @ ..] => {
                self.rest = rest;
                Some(u32::from_be_bytes([*a, *b, *c, *d]).into())
            }
            [tag, rest @ ..] => {
                self.rest = rest;
                self.integer_of(*tag)
            }
            [] => None,
        }
    }

    #[inline]
    fn integer_of(&mut self, tag: u8) -> Option<i64> {
        match tag {
            0x00..=0x7F => Some(tag.into()),
            0xE0..=0xFF => Some((tag as i8).into()),
            0xCC => Some(u8::from_be_bytes(self.bytes()?).into()),
            0xCD => Some(u16::from_be_bytes(self.bytes()?).into()),
            0xCE => Some(u32::from_be_bytes(self.bytes()?).into()),
            0xCF => u64::from_be_bytes(self.bytes()?).try_into().ok(),
            0xD0 => Some(i8::from_be_bytes(self.bytes()?).into()),
            0xD1 => Some(i16::from_be_bytes(self.bytes()?).into()),
            0xD2 => Some(i32::from_be_bytes(self.bytes()?).into()),
            0xD3 => Some(i64::from_be_bytes(self.bytes()?)),
            _ => None,
        }
    }

    #[inline]
    pub fn time(&mut self) -> Option<i64> {
        self.integer().filter(is_time)
    }

    /// A number; whole ones only as far as a float has them exactly.
    #[inline]
    pub fn float(&mut self) -> Option<f64> {
        match self.tag()? {
            0xCB => Some(f64::from_be_bytes(self.bytes()?)),
            0xCA => Some(f32::from_be_bytes(self.bytes()?).into()),
            tag => self.integer_of(tag).filter(|whole| whole.unsigned_abs() <= 1 << 53).map(|whole| whole as f64),
        }
    }

    #[inline]
    pub fn flag(&mut self) -> Option<bool> {
        match self.tag()? {
            0xC2 => Some(false),
            0xC3 => Some(true),
            _ => None,
        }
    }

    /// Whether None is next; then it is passed.
    #[inline]
    pub fn none(&mut self) -> bool {
        let is_none = self.rest.first() == Some(&0xC0);
        self.rest = &self.rest[usize::from(is_none)..];
        is_none
    }

    #[inline]
    pub fn text(&mut self) -> Option<&'a str> {
        from_utf8(self.spelled()?).ok()
    }

    /// The bytes of a text, which may be anything.
    #[inline]
    pub fn spelled(&mut self) -> Option<&'a [u8]> {
        let length = match self.tag()? {
            tag @ 0xA0..=0xBF => usize::from(tag & 0x1F),
            0xD9 => self.bytes::<1>()?[0].into(),
            0xDA => u16::from_be_bytes(self.bytes()?).into(),
            0xDB => u32::from_be_bytes(self.bytes()?) as usize,
            _ => return None,
        };
        let (text, rest) = mem::take(&mut self.rest).split_at_checked(length)?;
        self.rest = rest;
        Some(text)
    }
}
