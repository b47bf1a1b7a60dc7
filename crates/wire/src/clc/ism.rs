//! GID/CHID entries of ISM devices. A native device takes one entry; an emulated one (CHID from 0xFF00 on)
//! has a 128-bit GID and takes two entries in a row with the same CHID. Owns: the pairing.

use crate::bytes::{Reader, Writer};
use crate::error::{Error, Result};
use crate::limits::{EMULATED_CHID_FIRST, ISM_GIDS};
use crate::list::List;

/// One raw entry of a PROPOSAL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IsmEntry {
    /// GID, or the extension of the previous entry's GID.
    pub gid: u64,
    /// The ISM fabric.
    pub chid: u16,
}

impl IsmEntry {
    pub(super) const LEN: usize = 10;

    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { gid: r.u64()?, chid: r.u16()? })
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) -> Result<()> {
        w.u64(self.gid)?;
        w.u16(self.chid)
    }
}

/// An ISM device as a peer names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IsmDevice {
    /// GID.
    pub gid: u64,
    /// Extension of the GID; 0 for a native device.
    pub gid_ext: u64,
    /// The ISM fabric.
    pub chid: u16,
}

impl IsmDevice {
    /// Whether the device is emulated (128-bit GID).
    pub const fn is_emulated(&self) -> bool {
        self.chid >= EMULATED_CHID_FIRST
    }
}

/// The devices behind raw entries, in order. An emulated entry without its second half is skipped, as Linux
/// does.
pub fn devices(entries: &[IsmEntry]) -> impl Iterator<Item = IsmDevice> + '_ {
    let mut rest = entries;
    core::iter::from_fn(move || {
        loop {
            let (first, tail) = rest.split_first()?;
            rest = tail;
            if first.chid < EMULATED_CHID_FIRST {
                return Some(IsmDevice { gid: first.gid, gid_ext: 0, chid: first.chid });
            }
            if let Some((second, after)) = tail.split_first().filter(|(e, _)| e.chid == first.chid) {
                rest = after;
                return Some(IsmDevice { gid: first.gid, gid_ext: second.gid, chid: first.chid });
            }
        }
    })
}

/// Appends a device, both entries or none; `Error::TooMany` if they do not fit.
pub fn push_device(list: &mut List<IsmEntry, ISM_GIDS>, device: IsmDevice) -> Result<()> {
    let have = list.len() + if device.is_emulated() { 2 } else { 1 };
    if have > ISM_GIDS {
        return Err(Error::TooMany { max: ISM_GIDS, have });
    }
    list.push(IsmEntry { gid: device.gid, chid: device.chid })?;
    if device.is_emulated() {
        list.push(IsmEntry { gid: device.gid_ext, chid: device.chid })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NATIVE: IsmDevice = IsmDevice { gid: 1, gid_ext: 0, chid: 0x0143 };
    const EMULATED: IsmDevice = IsmDevice { gid: 2, gid_ext: 3, chid: 0xFFFF };

    #[test]
    fn devices_come_back_as_they_were_pushed() {
        let mut list = List::new();
        for device in [NATIVE, EMULATED, NATIVE] {
            push_device(&mut list, device).unwrap();
        }
        assert_eq!(list.len(), 4);
        assert!(devices(&list).eq([NATIVE, EMULATED, NATIVE]));
    }

    #[test]
    fn an_emulated_device_is_never_cut_in_half() {
        let mut list = List::of(&[IsmEntry { gid: 9, chid: 1 }; 7]).unwrap();
        assert_eq!(push_device(&mut list, EMULATED), Err(Error::TooMany { max: 8, have: 9 }));
        assert_eq!(list.len(), 7);
        assert_eq!(push_device(&mut list, NATIVE), Ok(()));
    }

    #[test]
    fn a_lone_half_is_skipped() {
        let entry = |gid, chid| IsmEntry { gid, chid };
        let entries = [entry(7, 0xFF00), entry(2, 0xFFFF), entry(3, 0xFFFF), entry(8, 0xFFFF)];
        assert!(devices(&entries).eq([EMULATED]));
    }
}
