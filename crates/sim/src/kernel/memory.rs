//! Which memory a process has mapped. Owns: that a range is in the books of exactly one process as long as it
//! is mapped, since everything in the books is given back in the end.

use super::world::{Kind, Mapping, Pid, World};
use os::sim::{Range, Twin};
use os::{Errno, Result};

impl World {
    pub(crate) fn mapped(&mut self, pid: Pid, (at, len): (usize, usize), fd: Option<i32>) -> Result<usize> {
        let inode = match fd {
            Some(fd) => match self.kind_of(pid, fd)? {
                Kind::File(inode) => Some(inode),
                _ => return Err(Errno::EINVAL),
            },
            None => None,
        };
        self.unmapped(pid, at, len);
        let mapping =
            Mapping { at, len: len.next_multiple_of(4096), offset: 0, inode, is_wiped_on_fork: false };
        self.process_mut(pid).maps.push(mapping);
        Ok(0)
    }

    /// What is shared at `from` shows at another place, too.
    pub(crate) fn mapped_again(&mut self, pid: Pid, from: usize, (at, len): (usize, usize)) -> Result<usize> {
        let old = self.process(pid).maps.iter().find(|map| (map.at..map.at + map.len).contains(&from));
        let old = *old.ok_or(Errno::EFAULT)?;
        let offset = old.offset + (from - old.at);
        self.unmapped(pid, at, len);
        self.process_mut(pid).maps.push(Mapping { at, len: len.next_multiple_of(4096), offset, ..old });
        Ok(0)
    }

    /// What is left of ranges that lie there in part stays.
    pub(crate) fn unmapped(&mut self, pid: Pid, at: usize, len: usize) {
        let end = at + len.next_multiple_of(4096);
        let maps = core::mem::take(&mut self.process_mut(pid).maps);
        let left = maps.into_iter().flat_map(|map| {
            let before = at.clamp(map.at, map.at + map.len) - map.at;
            let after = end.clamp(map.at, map.at + map.len) - map.at;
            let first = Mapping { len: before, ..map };
            let last =
                Mapping { at: map.at + after, len: map.len - after, offset: map.offset + after, ..map };
            let is_touched = at < map.at + map.len && map.at < end;
            let parts = if is_touched { [Some(first), Some(last)] } else { [Some(map), None] };
            parts.into_iter().flatten().filter(|part| part.len > 0)
        });
        let left: Vec<Mapping> = left.collect();
        self.process_mut(pid).maps = left;
    }

    pub(crate) fn wiped_on_fork(&mut self, pid: Pid, at: usize) -> Result<usize> {
        let map = self.process_mut(pid).maps.iter_mut().find(|map| map.at == at).ok_or(Errno::ENOMEM)?;
        map.is_wiped_on_fork = true;
        Ok(0)
    }

    /// What a word in memory is to all who have it mapped.
    pub(crate) fn word_at(&self, pid: Pid, at: usize) -> (u64, u64) {
        let home = self.process(pid).maps.iter().find(|map| (map.at..map.at + map.len).contains(&at));
        match home {
            Some(Mapping { inode: Some(inode), at: from, offset, .. }) => {
                (*inode, (at - from + offset) as u64)
            }
            _ => (0, at as u64),
        }
    }

    /// All that a process refers to, for a child or for its last moments.
    pub(crate) fn ranges(&self, pid: Pid) -> Vec<Range> {
        let maps = self.process(pid).maps.iter();
        maps.map(|map| Range {
            at: map.at,
            len: map.len,
            offset: map.offset,
            backing: map.inode.map(|inode| self.inodes[&inode].backing.number()),
            is_empty: map.is_wiped_on_fork,
        })
        .collect()
    }

    /// The books of a child: each of its parent's ranges, where it has them (`twins`, in the same order).
    pub(crate) fn take_over(&mut self, parent: Pid, child: Pid, twins: &[Twin]) {
        let maps = self.process(parent).maps.iter().zip(twins);
        let maps = maps.map(|(map, twin)| Mapping { at: twin.to, ..*map }).collect();
        self.process_mut(child).maps = maps;
    }

    /// The process is another program from now on, or none.
    pub(crate) fn forget_memory(&mut self, pid: Pid) {
        for map in core::mem::take(&mut self.process_mut(pid).maps) {
            self.ground.add(map.at, map.len);
        }
    }
}
