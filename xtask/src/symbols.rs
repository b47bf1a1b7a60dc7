//! `cargo xtask symbols`: the promise that one libsmc-preload.so loads in every program.
//!
//! It names no library of its own (no DT_NEEDED), so the same file serves glibc and musl programs; what it
//! asks of the program's libc is a short list that both have, and text is never relocated.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, bail};
use object::read::elf::{Dyn, ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, elf};

use crate::dist::LIBRARY;
use crate::tidy::hooks;
use crate::workspace::Workspace;

/// What may be undefined: found in every libc, or made up by the compiler (memory and string functions).
const MAY_BE_UNDEFINED: [&str; 9] =
    ["dlsym", "__errno_location", "sched_getcpu", "memcpy", "memmove", "memset", "memcmp", "bcmp", "strlen"];

/// Checks the library that `dist` laid out.
pub(crate) fn symbols(ws: &Workspace) -> anyhow::Result<()> {
    let path = ws.dist().join("lib").join(LIBRARY);
    let bytes =
        fs::read(&path).with_context(|| format!("no {}: run `cargo xtask dist` first", path.display()))?;
    let file = ElfFile64::<Endianness>::parse(&bytes[..])
        .with_context(|| format!("{} is no ELF file", path.display()))?;
    no_needed_library(&file)?;
    tables_are_zero(&file)?;
    let foreign = undefined(&file);
    if !foreign.is_empty() {
        bail!(
            "{LIBRARY} asks for symbols that a libc may lack: {}.\n   How to fix it: resolve them with dlsym, make them \
             weak, or use crate `os`; a name that every libc has goes into MAY_BE_UNDEFINED in xtask/src/symbols.rs",
            foreign.join(", ")
        );
    }
    let (exported, listed) =
        (exported(&file), hooks::table(&ws.root())?.into_keys().collect::<BTreeSet<_>>());
    let not_the_same: Vec<&String> = exported.symmetric_difference(&listed).collect();
    if !not_the_same.is_empty() {
        bail!(
            "{LIBRARY} and {} do not agree on {not_the_same:?}.\n   How to fix it: a symbol that is missing has lost its hook in \
             crates/preload, or the library is an old one (`cargo xtask dist`); one that is new needs a test and a line",
            hooks::TABLE
        );
    }
    println!("{LIBRARY}: needs no library, exports {} functions, each with a test", exported.len());
    Ok(())
}

fn no_needed_library(file: &ElfFile64<'_, Endianness>) -> anyhow::Result<()> {
    let endian = file.endian();
    let mut entries = vec![];
    for segment in file.elf_program_headers() {
        use object::read::elf::ProgramHeader;
        entries.extend_from_slice(segment.dynamic(endian, file.data())?.unwrap_or(&[]));
    }
    type Entry = <elf::FileHeader64<Endianness> as FileHeader>::Dyn;
    let has = |tag: i64| entries.iter().any(|e: &Entry| e.tag(endian) == tag);
    if has(elf::DT_NEEDED) {
        bail!(
            "{LIBRARY} has a DT_NEEDED entry.\n   How to fix it: no std, no libc crate, `-nostdlib` in crates/preload/build.rs"
        );
    }
    if has(elf::DT_TEXTREL) {
        bail!("{LIBRARY} relocates its text.\n   How to fix it: compile position independent code only");
    }
    Ok(())
}

/// Tables that are zero at first take no room in the file, and of a program only what is used.
fn tables_are_zero(file: &ElfFile64<'_, Endianness>) -> anyhow::Result<()> {
    const MOST: u64 = 16 << 10;
    let len = file.section_by_name(".data").map_or(0, |data| data.size());
    if len > MOST {
        bail!(
            "{LIBRARY} has {len} bytes of .data, of {MOST}.\n   How to fix it: `nm -S --size-sort` names the static; let zero \
             stand for what it begins with"
        );
    }
    Ok(())
}

fn undefined<'data>(file: &ElfFile64<'data, Endianness>) -> Vec<&'data str> {
    let strong = file.dynamic_symbols().filter(|symbol| symbol.is_undefined() && !symbol.is_weak());
    strong.filter_map(|s| s.name().ok()).filter(|n| !n.is_empty() && !MAY_BE_UNDEFINED.contains(n)).collect()
}

fn exported(file: &ElfFile64<'_, Endianness>) -> BTreeSet<String> {
    let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    defined.filter_map(|symbol| symbol.name().ok().map(str::to_string)).collect()
}
