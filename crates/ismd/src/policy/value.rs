//! What can stand behind a key of the policy file where a number may, or a text, or several. Owns: whatever
//! stands there is read, so that what is wrong with it is said here, in words of ours, and not by the reader
//! of TOML.

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Number(i128),
    Text(String),
    /// As it is written.
    Other(String),
}

/// One, or a list.
pub(super) struct Values(pub(super) Vec<Value>);

impl Value {
    /// A number that is `low` at least and `high` at most. Error: a sentence.
    pub(super) fn within(&self, low: u64, high: u64) -> Result<u64, String> {
        match self {
            Value::Number(number) => match u64::try_from(*number) {
                Ok(number) if (low..=high).contains(&number) => Ok(number),
                _ => Err(format!("{number} is not between {low} and {high}")),
            },
            other => Err(format!("{other} is no number between {low} and {high}")),
        }
    }

    /// A user's or a group's. (The last one is the kernel's word for none.)
    pub(super) fn id(&self) -> Result<u32, String> {
        let id = self.within(0, u64::from(u32::MAX) - 1)?;
        Ok(id as u32)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{number}"),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Other(what) => f.write_str(what),
        }
    }
}

/// Reads one; a list of them where `MANY` is.
struct Reading<const MANY: bool>;

impl<'de, const MANY: bool> Visitor<'de> for Reading<MANY> {
    type Value = Vec<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if MANY { "a number, a text or a list of them" } else { "a number or a text" })
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Vec<Value>, E> {
        Ok(vec![Value::Other(value.to_string())])
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Vec<Value>, E> {
        Ok(vec![Value::Number(value.into())])
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Vec<Value>, E> {
        Ok(vec![Value::Number(value.into())])
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Vec<Value>, E> {
        Ok(vec![Value::Number(value)])
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Vec<Value>, E> {
        Ok(vec![i128::try_from(value).map_or_else(|_| Value::Other(value.to_string()), Value::Number)])
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Vec<Value>, E> {
        Ok(vec![Value::Other(value.to_string())])
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Vec<Value>, E> {
        Ok(vec![Value::Text(value.into())])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Vec<Value>, A::Error> {
        if !MANY {
            return Err(A::Error::invalid_type(serde::de::Unexpected::Seq, &self));
        }
        let mut values = vec![];
        while let Some(value) = all.next_element()? {
            values.push(value);
        }
        Ok(values)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
        let mut one = from.deserialize_any(Reading::<false>)?;
        one.pop().ok_or_else(|| D::Error::custom("no value"))
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Values, D::Error> {
        from.deserialize_any(Reading::<true>).map(Values)
    }
}
