//! Numbers in names below /proc. Owns nothing: digits without an allocation.

/// `value` in decimal, in the last of `digits`.
pub(crate) fn decimal(mut value: u32, digits: &mut [u8; 10]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &digits[at..];
        }
    }
}
