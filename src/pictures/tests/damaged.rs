//! Files that are cut, and files with something behind their end: a thumbnail of all of it, or none.

use super::*;

fn whole() -> Vec<(&'static str, Vec<u8>)> {
    let mut files = Plain::smooth(40, 30, 3).files();
    files.extend(Plain::smooth(40, 30, 4).files());
    files.extend([
        ("lossy webp", LOSSY.to_vec()),
        ("lossy webp with alpha", LOSSY_ALPHA.to_vec()),
        ("animated webp", ANIMATED.to_vec()),
    ]);
    files
}

#[test]
fn what_is_cut_is_whole_or_refused() {
    for (kind, file) in whole() {
        let shown = thumbnail(&file, "20x15").unwrap().bytes;
        let mut whole = 0;
        for length in 0..file.len() {
            match thumbnail(&file[..length], "20x15") {
                Ok(made) => {
                    assert!(made.bytes == shown, "{kind} of {} bytes, cut to {length}, is another picture", file.len());
                    whole += 1;
                }
                Err(fault) => assert_ne!(fault.kind, FaultKind::TooLarge, "{kind}: {}", fault.detail),
            }
        }
        // What stands behind the last pixel does not matter: the ends of files, checksums, and other frames.
        let behind = if kind.contains("animated") || kind == "gif" { 100 } else { 24 };
        assert!(whole <= behind, "{kind}: {whole} of {} bytes are not needed", file.len());
    }
}

#[test]
fn what_stands_behind_the_end_does_not_matter() {
    for (kind, file) in whole() {
        let shown = thumbnail(&file, "20x15").unwrap().bytes;
        for behind in [&b"\0"[..], b"\xff", b"\xff\xd8\xff\xe0", b"lorem ipsum", &[0; 4096], &file] {
            let made =
                thumbnail(&[&file, behind].concat(), "20x15").unwrap_or_else(|fault| panic!("{kind}: {fault:?}"));
            assert!(made.bytes == shown, "{kind}");
        }
    }
}

#[test]
fn scans_without_end_are_refused() {
    let file = Plain::smooth(40, 30, 1).jpeg(|encoder| encoder.set_progressive(true));
    // The last scan, again and again.
    let last = memchr::memmem::rfind(&file, b"\xff\xda").unwrap();
    let end = file.len() - 2;
    let again = [&file[..end], &file[last..end].repeat(200), &file[end..]].concat();
    assert_eq!(thumbnail(&again, "20x15").unwrap_err().kind, FaultKind::TooLarge);
}
