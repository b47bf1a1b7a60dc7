//! BPF instructions as the kernel's instruction set document describes them, and an object file of them in the form that
//! loaders read. What the programs do is [`super::programs`]'s business; here is only how they are written down.

use object::write::{Object, Relocation, SectionId, Symbol, SymbolId, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SectionKind, SymbolFlags, SymbolKind,
    SymbolScope, elf,
};

/// Of an instruction; a map's address takes two.
const INSTRUCTION_BYTES: usize = 8;

/// A register; R10 is the frame pointer, R1 to R5 arguments, R0 the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Register(u8);

pub(super) const R0: Register = Register(0);
pub(super) const R1: Register = Register(1);
pub(super) const R2: Register = Register(2);
pub(super) const R3: Register = Register(3);
pub(super) const R4: Register = Register(4);
pub(super) const R6: Register = Register(6);
pub(super) const R10: Register = Register(10);

/// One program under construction. Jumps go forward to the end only: that is all that is needed.
#[derive(Debug, Default)]
pub(super) struct Code {
    bytes: Vec<u8>,
    /// Where a map's address is wanted, and which map.
    maps: Vec<(usize, &'static str)>,
    /// Conditional jumps to [`Code::finish`], by their place.
    to_end: Vec<usize>,
}

impl Code {
    fn push(&mut self, opcode: u8, to: Register, from: Register, offset: i16, value: i32) {
        let registers = if cfg!(target_endian = "big") { to.0 << 4 | from.0 } else { from.0 << 4 | to.0 };
        self.bytes.extend([opcode, registers]);
        self.bytes.extend(offset.to_ne_bytes());
        self.bytes.extend(value.to_ne_bytes());
    }

    fn here(&self) -> usize {
        self.bytes.len() / INSTRUCTION_BYTES
    }

    /// to = from
    pub(super) fn copy(&mut self, to: Register, from: Register) {
        self.push(0xbf, to, from, 0, 0);
    }

    /// to = value
    pub(super) fn set(&mut self, to: Register, value: i32) {
        self.push(0xb7, to, R0, 0, value);
    }

    /// to += value
    pub(super) fn add(&mut self, to: Register, value: i32) {
        self.push(0x07, to, R0, 0, value);
    }

    /// to = 32 bits at from + offset
    pub(super) fn load(&mut self, to: Register, from: Register, offset: i16) {
        self.push(0x61, to, from, offset, 0);
    }

    /// 32 bits at to + offset = from
    pub(super) fn store(&mut self, to: Register, offset: i16, from: Register) {
        self.push(0x63, to, from, offset, 0);
    }

    /// 64 bits at to + offset += from, one processor at a time
    pub(super) fn add_at(&mut self, to: Register, offset: i16, from: Register) {
        self.push(0xdb, to, from, offset, 0);
    }

    /// Swaps the lower four bytes of to where the machine is little-endian
    pub(super) fn make_big_endian(&mut self, to: Register) {
        self.push(0xdc, to, R0, 0, 32);
    }

    /// to = the address of a map
    pub(super) fn map(&mut self, to: Register, name: &'static str) {
        self.maps.push((self.bytes.len(), name));
        self.push(0x18, to, R0, 0, 0);
        self.push(0, R0, R0, 0, 0);
    }

    /// Calls a helper of the kernel: R0 to R5 are lost.
    pub(super) fn call(&mut self, helper: i32) {
        self.push(0x85, R0, R0, 0, helper);
    }

    /// Skips `instructions` if register equals value
    pub(super) fn skip_if(&mut self, register: Register, value: i32, instructions: i16) {
        self.push(0x15, register, R0, instructions, value);
    }

    /// Goes to the end if register equals value
    pub(super) fn end_if(&mut self, register: Register, value: i32) {
        self.to_end.push(self.here());
        self.push(0x15, register, R0, 0, value);
    }

    /// Goes to the end unless register equals value
    pub(super) fn end_unless(&mut self, register: Register, value: i32) {
        self.to_end.push(self.here());
        self.push(0x55, register, R0, 0, value);
    }

    /// The end: returns `result`.
    pub(super) fn finish(mut self, result: i32) -> Self {
        let end = self.here();
        for from in std::mem::take(&mut self.to_end) {
            // Programs in here have some dozen instructions.
            let distance = i16::try_from(end - from - 1).unwrap_or(i16::MAX);
            let at = from * INSTRUCTION_BYTES + 2;
            self.bytes[at..at + 2].copy_from_slice(&distance.to_ne_bytes());
        }
        self.set(R0, result);
        self.push(0x95, R0, R0, 0, 0);
        self
    }
}

/// A map: `bpf_map_def` of libbpf's old form, which needs no BTF.
#[derive(Clone, Copy, Debug)]
pub(super) struct Map {
    /// By which programs and user space call it.
    pub(super) name: &'static str,
    /// Kind, bytes of a key, bytes of a value, most entries.
    pub(super) definition: [u32; 4],
}

/// An object file with `maps` and programs, each in the section that says where it can be attached.
pub(super) fn object(maps: &[Map], programs: Vec<(&str, Code)>) -> object::write::Result<Vec<u8>> {
    let endianness = if cfg!(target_endian = "big") { Endianness::Big } else { Endianness::Little };
    let mut file = Object::new(BinaryFormat::Elf, Architecture::Bpf, endianness);
    let license = file.add_section(vec![], b"license".to_vec(), SectionKind::Data);
    // What the kernel requires for the helpers; the programs are this project's and may be had under it as well.
    file.append_section_data(license, b"Dual MIT/GPL\0", 1);
    let section = file.add_section(vec![], b"maps".to_vec(), SectionKind::Data);
    let symbols: Vec<(&str, SymbolId)> =
        maps.iter().map(|map| (map.name, add_map(&mut file, section, map))).collect();
    for (name, code) in programs {
        let section = file.add_section(vec![], name.as_bytes().to_vec(), SectionKind::Text);
        file.append_section_data(section, &code.bytes, 8);
        add_symbol(&mut file, section, name, SymbolKind::Text, 0, code.bytes.len());
        for (offset, map) in code.maps {
            let Some((_, symbol)) = symbols.iter().find(|(name, _)| *name == map) else { continue };
            let flags = RelocationFlags::Elf { r_type: elf::R_BPF_64_64 };
            file.add_relocation(
                section,
                Relocation { offset: offset as u64, symbol: *symbol, addend: 0, flags },
            )?;
        }
    }
    file.write()
}

fn add_map(file: &mut Object<'_>, section: SectionId, map: &Map) -> SymbolId {
    // Flags last: none.
    let words: Vec<u8> = map.definition.iter().chain(&[0]).flat_map(|word| word.to_ne_bytes()).collect();
    let offset = file.append_section_data(section, &words, 4);
    add_symbol(file, section, map.name, SymbolKind::Data, offset, words.len())
}

fn add_symbol(
    file: &mut Object<'_>,
    section: SectionId,
    name: &str,
    kind: SymbolKind,
    value: u64,
    size: usize,
) -> SymbolId {
    file.add_symbol(Symbol {
        name: name.as_bytes().to_vec(),
        value,
        size: size as u64,
        kind,
        scope: SymbolScope::Linkage,
        weak: false,
        section: SymbolSection::Section(section),
        flags: SymbolFlags::None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_to_the_end_reach_it() {
        let mut code = Code::default();
        code.end_if(R1, 7);
        code.copy(R6, R1);
        let code = code.finish(1);
        let offset = i16::from_ne_bytes([code.bytes[2], code.bytes[3]]);
        assert_eq!((offset, code.bytes.len()), (1, 4 * INSTRUCTION_BYTES), "over the copy, to the result");
        assert_eq!(code.bytes[3 * INSTRUCTION_BYTES], 0x95, "exit is last");
    }
}
