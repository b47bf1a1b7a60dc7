//! The fields of a C struct, one after the other, in either byte order. Owns that no length of a peer is believed: a
//! field that the bytes do not reach reads as zero, and a text that is too long for its field is cut.

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

impl Order {
    /// What an `endian` field, read as if it were ours, says; None if it is no marker at all.
    pub(crate) fn of_marker(marker: u32) -> Option<Self> {
        match marker {
            ENDIAN_MARKER => Some(Self::Native),
            _ if marker == ENDIAN_MARKER.swap_bytes() => Some(Self::Swapped),
            _ => None,
        }
    }
}

/// Takes fields off the front of a struct.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    order: Order,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], order: Order) -> Self {
        Self { rest: bytes, order }
    }

    /// Everything before `offset` is taken; what follows is in `order`.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.take(bytes);
    }

    pub(super) fn u32(&mut self) -> u32 {
        let value = u32::from_ne_bytes(self.array());
        if self.order == Order::Swapped { value.swap_bytes() } else { value }
    }

    pub(super) fn u64(&mut self) -> u64 {
        let value = u64::from_ne_bytes(self.array());
        if self.order == Order::Swapped { value.swap_bytes() } else { value }
    }

    /// A field of `size` bytes up to its first NUL; what is no UTF-8 in it is replaced.
    pub(super) fn text(&mut self, size: usize) -> String {
        String::from_utf8_lossy(before_nul(self.take(size))).into_owned()
    }

    /// A field of `size` bytes as it is.
    pub(super) fn bytes(&mut self, size: usize) -> &'a [u8] {
        self.take(size)
    }

    fn take(&mut self, size: usize) -> &'a [u8] {
        let (field, rest) = self.rest.split_at(size.min(self.rest.len()));
        self.rest = rest;
        field
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut value = [0; N];
        let field = self.take(N);
        value[..field.len()].copy_from_slice(field);
        value
    }
}

/// A C string in its field.
pub(super) fn before_nul(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Appends fields.
pub(super) struct Writer {
    bytes: Vec<u8>,
    order: Order,
}

impl Writer {
    pub(super) fn new(order: Order) -> Self {
        Self { bytes: vec![], order }
    }

    /// The marker that tells the receiver the order of the rest.
    pub(super) fn endian(&mut self) {
        self.u32(ENDIAN_MARKER);
    }

    pub(super) fn u32(&mut self, value: u32) {
        let value = if self.order == Order::Swapped { value.swap_bytes() } else { value };
        self.bytes.extend(value.to_ne_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        let value = if self.order == Order::Swapped { value.swap_bytes() } else { value };
        self.bytes.extend(value.to_ne_bytes());
    }

    pub(super) fn zeros(&mut self, count: usize) {
        self.bytes.resize(self.bytes.len() + count, 0);
    }

    /// `text` in a field of `size` bytes, always with a NUL at its end.
    pub(super) fn text(&mut self, text: &str, size: usize) {
        self.field(before_nul(text.as_bytes()), size);
    }

    /// `value` in a field of `size` bytes; the last byte is a NUL.
    pub(super) fn field(&mut self, value: &[u8], size: usize) {
        let length = value.len().min(size.saturating_sub(1));
        self.bytes.extend(&value[..length]);
        self.zeros(size - length);
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::{Order, Reader, Writer};

    #[test]
    fn both_orders_come_back() {
        for order in [Order::Native, Order::Swapped] {
            let mut writer = Writer::new(order);
            writer.endian();
            writer.u32(0x0102);
            writer.u64(3);
            writer.text("abc", 3);
            let bytes = writer.finish();
            assert_eq!(Order::of_marker(Reader::new(&bytes, Order::Native).u32()), Some(order));
            let mut reader = Reader::new(&bytes, order);
            reader.skip(4);
            assert_eq!((reader.u32(), reader.u64(), reader.text(3)), (0x0102, 3, "ab".into()));
        }
    }

    #[test]
    fn missing_bytes_are_zeros() {
        let mut reader = Reader::new(&[1, 1], Order::Native);
        assert_eq!(reader.u32(), u32::from_ne_bytes([1, 1, 0, 0]));
        assert_eq!((reader.u64(), reader.text(9)), (0, String::new()));
    }
}
