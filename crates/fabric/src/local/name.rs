//! What the registries of users are called, and in which folder they lie. Owns: the spelling; `place` finds
//! and makes them.

use core::ffi::CStr;
use sync::{AtomicBool, AtomicU8, Ordering::Relaxed};

/// Longest registry path with its NUL.
pub const PATH_LEN: usize = 256;
/// Room for a path.
pub(crate) type Path = [u8; PATH_LEN];

/// The folder in which the registries lie: /dev/shm, unless SMC_REGISTRY_DIR says otherwise. Set before it is
/// first used.
pub(crate) struct Folder {
    path: [AtomicU8; PATH_LEN],
    is_telling: AtomicBool,
}

impl Folder {
    /// The usual one.
    pub(crate) const fn new() -> Self {
        Folder { path: [const { AtomicU8::new(0) }; PATH_LEN], is_telling: AtomicBool::new(false) }
    }

    /// Another one; a path that is too long is ignored.
    pub(crate) fn set(&self, path: &[u8]) {
        // Room for "/isthmus.4294967295-0123456789abcdef\0" must remain.
        if path.len() + 37 < PATH_LEN {
            for (cell, byte) in self.path.iter().zip(path) {
                cell.store(*byte, Relaxed);
            }
        }
    }

    /// What is odd there is told on stderr (SMC_DEBUG), or not.
    pub(crate) fn tell(&self, on: bool) {
        self.is_telling.store(on, Relaxed);
    }

    /// Whether it is.
    pub(crate) fn is_telling(&self) -> bool {
        self.is_telling.load(Relaxed)
    }

    /// Writes `<directory>/isthmus.<uid><suffix>` into `path`.
    pub(crate) fn registry<'a>(&self, path: &'a mut Path, uid: u32, suffix: Option<u32>) -> Option<&'a CStr> {
        let mut writer = Writer { path, at: 0 };
        writer.folder(self);
        writer.bytes(b"/isthmus.");
        writer.number(uid);
        if let Some(number) = suffix {
            writer.bytes(b".");
            writer.number(number);
        }
        writer.bytes(&[0]);
        CStr::from_bytes_until_nul(path).ok()
    }

    /// Writes the folder itself into `path`.
    pub(crate) fn name<'a>(&self, path: &'a mut Path) -> Option<&'a CStr> {
        let mut writer = Writer { path, at: 0 };
        writer.folder(self);
        writer.bytes(&[0]);
        CStr::from_bytes_until_nul(path).ok()
    }

    /// Writes `<directory>/isthmus.<uid>-<number>` into `path`: the name of a registry whose usual one is
    /// taken.
    pub(crate) fn unforeseen_registry<'a>(
        &self,
        path: &'a mut Path,
        uid: u32,
        number: u64,
    ) -> Option<&'a CStr> {
        let mut writer = Writer { path, at: 0 };
        writer.folder(self);
        writer.bytes(b"/isthmus.");
        writer.number(uid);
        writer.bytes(b"-");
        for digit in (0..16).rev().map(|at| number >> (4 * at) & 15) {
            writer.bytes(&[b"0123456789abcdef"[digit as usize]]);
        }
        writer.bytes(&[0]);
        CStr::from_bytes_until_nul(path).ok()
    }
}

/// The number in such a name of a registry, if it is one of `uid`.
pub fn unforeseen_number(name: &[u8], uid: u32) -> Option<u64> {
    let (user, number) = core::str::from_utf8(name).ok()?.strip_prefix("isthmus.")?.split_once('-')?;
    let is_number = number.len() == 16 && number.bytes().all(|digit| digit.is_ascii_hexdigit());
    (is_number && user.parse() == Ok(uid)).then(|| u64::from_str_radix(number, 16).ok()).flatten()
}

struct Writer<'a> {
    path: &'a mut Path,
    at: usize,
}

impl Writer<'_> {
    fn folder(&mut self, folder: &Folder) {
        if folder.path[0].load(Relaxed) == 0 {
            self.bytes(b"/dev/shm");
        }
        for cell in &folder.path {
            match cell.load(Relaxed) {
                0 => break,
                byte => self.bytes(&[byte]),
            }
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if let Some(cell) = self.path.get_mut(self.at) {
                *cell = *byte;
                self.at += 1;
            }
        }
    }

    fn number(&mut self, value: u32) {
        if value >= 10 {
            self.number(value / 10);
        }
        self.bytes(&[b'0' + (value % 10) as u8]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_lies_in_dev_shm_by_default() {
        let mut path = [0; PATH_LEN];
        assert_eq!(Folder::new().registry(&mut path, 1000, Some(7)), Some(c"/dev/shm/isthmus.1000.7"));
        assert_eq!(Folder::new().name(&mut path), Some(c"/dev/shm"));
    }

    #[test]
    fn unforeseen_names_are_told_from_others() {
        let mut path = [0; PATH_LEN];
        let whole = Folder::new().unforeseen_registry(&mut path, 1000, 0xab).unwrap().to_bytes();
        assert_eq!(whole, b"/dev/shm/isthmus.1000-00000000000000ab");
        assert_eq!(unforeseen_number(&whole[9..], 1000), Some(0xab));
        let others =
            [&b"isthmus.1000"[..], b"isthmus.1000.7", b"isthmus.1000-ab", b"isthmus.1001-00000000000000ab"];
        for other in others.into_iter().chain([&b"isthmus.1000-+0000000000000ab"[..], b"\xff"]) {
            assert_eq!(unforeseen_number(other, 1000), None);
        }
    }
}
