//! Letters: what is put in comes out, a copy says the same, and a lie about the length reads as nothing.
#![cfg(not(loom))]

use shm::layout::{MAIL_LEN, Mail};
use sync::{AtomicU32, Ordering};

fn mail() -> Mail {
    Mail { len: AtomicU32::new(0), words: [const { AtomicU32::new(0) }; MAIL_LEN / 4] }
}

fn letter(len: usize) -> Vec<u8> {
    (0..len).map(|at| at as u8 ^ 0x5A).collect()
}

#[test]
fn a_copy_of_any_length_says_the_same() {
    for len in 1..=MAIL_LEN {
        let (mine, theirs) = (mail(), mail());
        assert!(mine.put(&letter(len)) && !theirs.repeats(&mine), "{len}");
        theirs.put_copy(&mine);
        assert!(theirs.repeats(&mine), "{len}");
        assert_eq!(theirs.take(&mut [0; MAIL_LEN]), letter(len));
    }
}

#[test]
fn one_other_byte_is_another_letter() {
    let (mine, theirs) = (mail(), mail());
    for at in 0..MAIL_LEN {
        let mut other = letter(MAIL_LEN);
        other[at] ^= 1;
        assert!(mine.put(&letter(MAIL_LEN)) && theirs.put(&other));
        assert!(!theirs.repeats(&mine), "{at}");
    }
    assert!(theirs.put(&letter(MAIL_LEN - 1)));
    assert!(!theirs.repeats(&mine), "shorter");
}

#[test]
fn nothing_repeats_nothing_and_a_lie_is_nothing() {
    let (mine, theirs) = (mail(), mail());
    assert!(theirs.is_empty() && !theirs.repeats(&mine));
    theirs.len.store(u32::MAX, Ordering::Relaxed);
    assert_eq!(theirs.take(&mut [0; MAIL_LEN]), b"");
    mine.len.store(u32::MAX, Ordering::Relaxed);
    assert!(theirs.repeats(&mine), "both lie alike, and nothing beyond the letter was read");
}
