//! Enterprise IDs: 32 characters, padded with blanks. Owns: what a valid user EID looks like.

use crate::limits::NAME;

/// An EID as it travels. Bytes from a peer are kept as they are; only `Eid::user` promises a valid user EID.
#[derive(Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub struct Eid(pub [u8; NAME]);

/// Why a text is not a user EID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EidError {
    /// Nothing but blanks.
    Empty,
    /// More than 32 characters.
    TooLong,
    /// The first character is not A-Z or 0-9.
    BadFirst(u8),
    /// A character other than A-Z, 0-9, '.', '-'.
    BadCharacter(u8),
    /// Two dots in a row (refused by smcd(8), accepted by the kernel).
    ConsecutiveDots,
}

impl Eid {
    /// No EID: 32 zero bytes (what a host without an SEID sends in its place).
    pub const NONE: Self = Self([0; NAME]);

    /// A user EID after the rules of smcd(8); trailing blanks are accepted, the rest is padded.
    pub const fn user(text: &str) -> Result<Self, EidError> {
        let mut text = text.as_bytes();
        while let [rest @ .., b' '] = text {
            text = rest;
        }
        if let Err(error) = check_user(text) {
            return Err(error);
        }
        let mut padded = [b' '; NAME];
        padded.split_at_mut(text.len()).0.copy_from_slice(text);
        Ok(Self(padded))
    }

    /// The characters without padding, or `None` if they are not ASCII.
    pub fn as_str(&self) -> Option<&str> {
        let text = core::str::from_utf8(&self.0).ok().filter(|t| t.is_ascii())?;
        Some(text.trim_end_matches([' ', '\0']))
    }
}

const fn check_user(text: &[u8]) -> Result<(), EidError> {
    let Some(first) = text.first() else { return Err(EidError::Empty) };
    if text.len() > NAME {
        return Err(EidError::TooLong);
    }
    if !is_upper_or_digit(*first) {
        return Err(EidError::BadFirst(*first));
    }
    check_characters(text)
}

/// (A constant EID is made by the compiler, which has no iterators then.)
const fn check_characters(text: &[u8]) -> Result<(), EidError> {
    let (mut rest, mut has_dots) = (text, false);
    while let [c, behind @ ..] = rest {
        if !is_upper_or_digit(*c) && *c != b'.' && *c != b'-' {
            return Err(EidError::BadCharacter(*c));
        }
        has_dots |= matches!(rest, [b'.', b'.', ..]);
        rest = behind;
    }
    if has_dots { Err(EidError::ConsecutiveDots) } else { Ok(()) }
}

const fn is_upper_or_digit(c: u8) -> bool {
    c.is_ascii_uppercase() || c.is_ascii_digit()
}

impl core::fmt::Debug for Eid {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.as_str() {
            Some(text) => write!(f, "Eid({text:?})"),
            None => write!(f, "Eid({:02x?})", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_eids_follow_the_rules_of_the_tool() {
        assert_eq!(Eid::user("TEST.EID-1  ").unwrap().as_str(), Some("TEST.EID-1"));
        assert_eq!(Eid::user("   "), Err(EidError::Empty));
        assert_eq!(Eid::user("test"), Err(EidError::BadFirst(b't')));
        assert_eq!(Eid::user("Test"), Err(EidError::BadCharacter(b'e')));
        assert_eq!(Eid::user("A B"), Err(EidError::BadCharacter(b' ')));
        assert_eq!(Eid::user("A..B"), Err(EidError::ConsecutiveDots));
    }

    #[test]
    fn thirty_two_characters_are_the_limit() {
        let text = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456";
        assert_eq!(Eid::user(text), Err(EidError::TooLong));
        assert_eq!(Eid::user(&text[..32]).unwrap().as_str(), Some(&text[..32]));
    }

    #[test]
    fn bytes_that_are_no_text_have_no_text() {
        assert_eq!(Eid([0xE2; NAME]).as_str(), None);
        assert_eq!(Eid::NONE.as_str(), Some(""));
    }
}
