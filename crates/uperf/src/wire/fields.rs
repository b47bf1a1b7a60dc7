//! The fields of a C struct, one after the other, in either byte order: taken from a peer's bytes or put into ours, so that a
//! struct is described once. Owns that no length of a peer is believed: a field that the bytes do not reach reads as zero,
//! and a text that is too long for its field is cut.

/// What a peer's `endian` field holds: uperf.h, UPERF_ENDIAN_VALUE.
const ENDIAN_MARKER: u32 = 0xBADC;

/// The byte order of a peer's integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Ours.
    Native,
    /// The other one.
    Swapped,
}

/// Goes through a struct.
pub(crate) struct Fields<'a> {
    /// What is left of a peer's bytes; None where ours are made.
    rest: Option<&'a [u8]>,
    made: Vec<u8>,
    order: Order,
}

impl<'a> Fields<'a> {
    /// Takes fields off the front of `bytes`.
    pub(super) fn taken(bytes: &'a [u8], order: Order) -> Self {
        Self { rest: Some(bytes), made: vec![], order }
    }

    /// Appends fields to nothing.
    pub(super) fn made(order: Order) -> Self {
        Self { rest: None, made: vec![], order }
    }

    /// What was made.
    pub(super) fn finish(self) -> Vec<u8> {
        self.made
    }

    /// `bytes` that mean nothing.
    pub(super) fn gap(&mut self, bytes: usize) {
        self.field(vec![], bytes);
    }

    /// The marker that tells the receiver the order of the rest; None if it is no marker.
    pub(super) fn endian(&mut self) -> Option<Order> {
        let mut marker = ENDIAN_MARKER;
        self.u32(&mut marker);
        let orders = [(ENDIAN_MARKER, Order::Native), (ENDIAN_MARKER.swap_bytes(), Order::Swapped)];
        orders.into_iter().find(|(one, _)| *one == marker).map(|(_, order)| order)
    }

    pub(super) fn u32(&mut self, value: &mut u32) {
        let order = self.order;
        let swap = |value: u32| if order == Order::Swapped { value.swap_bytes() } else { value };
        *value = swap(u32::from_ne_bytes(self.array(swap(*value).to_ne_bytes())));
    }

    pub(super) fn u64(&mut self, value: &mut u64) {
        let order = self.order;
        let swap = |value: u64| if order == Order::Swapped { value.swap_bytes() } else { value };
        *value = swap(u64::from_ne_bytes(self.array(swap(*value).to_ne_bytes())));
    }

    /// A text up to its first NUL in a field of `size` bytes, the last of which is one. What is no UTF-8 in it is replaced.
    pub(super) fn text(&mut self, value: &mut String, size: usize) {
        let field = self.field(before_nul(value.as_bytes()).to_vec(), size);
        *value = String::from_utf8_lossy(before_nul(&field)).into_owned();
    }

    /// Whether the text in a field of `size` bytes is this one.
    pub(super) fn is(&mut self, text: &str, size: usize) -> bool {
        before_nul(&self.field(text.as_bytes().to_vec(), size)) == text.as_bytes()
    }

    /// A field of `size` bytes as it is; the last byte of one that is made is a NUL.
    pub(super) fn field(&mut self, value: Vec<u8>, size: usize) -> Vec<u8> {
        let Some(rest) = &mut self.rest else {
            let end = self.made.len() + size;
            self.made.extend(&value[..value.len().min(size.saturating_sub(1))]);
            self.made.resize(end, 0);
            return value;
        };
        rest.split_off(..size.min(rest.len())).unwrap_or_default().to_vec()
    }

    fn array<const N: usize>(&mut self, value: [u8; N]) -> [u8; N] {
        let Some(rest) = &mut self.rest else {
            self.made.extend(value);
            return value;
        };
        let field = rest.split_off(..N.min(rest.len())).unwrap_or_default();
        std::array::from_fn(|i| field.get(i).copied().unwrap_or(0))
    }
}

/// A C string in its field.
pub(super) fn before_nul(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Fields, Order};

    #[test]
    fn both_orders_come_back() {
        for order in [Order::Native, Order::Swapped] {
            let (mut short, mut long, mut text) = (0x0102, 3, "abc".to_owned());
            let mut made = Fields::made(order);
            made.endian();
            made.u32(&mut short);
            made.u64(&mut long);
            made.text(&mut text, 3);
            let bytes = made.finish();
            assert_eq!(Fields::taken(&bytes, Order::Native).endian(), Some(order));
            let mut taken = Fields::taken(&bytes[4..], order);
            (short, long, text) = (0, 0, String::new());
            taken.u32(&mut short);
            taken.u64(&mut long);
            taken.text(&mut text, 3);
            assert_eq!((short, long, text.as_str()), (0x0102, 3, "ab"));
        }
    }

    #[test]
    fn missing_bytes_are_zeros() {
        let mut taken = Fields::taken(&[1, 1], Order::Native);
        let (mut short, mut long, mut text) = (9, 9, "x".to_owned());
        taken.u32(&mut short);
        taken.u64(&mut long);
        taken.text(&mut text, 9);
        assert_eq!((short, long, text.as_str()), (u32::from_ne_bytes([1, 1, 0, 0]), 0, ""));
    }
}
