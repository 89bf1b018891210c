//! RocksDB is compiled so that it sums up its log and its blocks by the processor's own instructions (`.cargo/config.toml`).
//!
//! Its LOG says so of SSE4.2 alone. The fast kernel, which goes three ways at once and joins them by PCLMULQDQ, is there only if both
//! were on; whether it is, the symbols of this very program tell. Without them everything works, and every write costs more.

use strata::schema::Schema;
use strata::storage::Options;
use strata::transaction::Database;

#[test]
fn the_log_of_a_store_tells_of_fast_checksums() {
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let schema = Schema::parse("type Note @table { id: ID @primaryKey }").expect("a schema");
    drop(Database::open(directory.path(), schema, &Options::default()).expect("an empty store opens"));
    let log = std::fs::read_to_string(directory.path().join("LOG")).expect("RocksDB writes a LOG");
    let told = log.lines().find(|line| line.contains("Fast CRC32 supported")).expect("a line about checksums");
    assert!(told.ends_with("Fast CRC32 supported: Supported on x86"), "{told}");
}

#[test]
fn the_kernel_that_goes_three_ways_is_linked() {
    let program = std::fs::read(std::env::current_exe().expect("this program")).expect("its file");
    let symbols = section(&program, b".strtab").expect("symbols: the program is not stripped");
    // rocksdb::crc32c::crc32c_3way(unsigned int, char const*, unsigned long)
    let kernel: &[u8] = b"\0_ZN7rocksdb6crc32c11crc32c_3wayEjPKcm\0";
    assert!(symbols.windows(kernel.len()).any(|name| name == kernel), "RocksDB was compiled without PCLMULQDQ");
}

/// The bytes of a section of a 64-bit, little-endian ELF file (the ELF specification, "Sections").
fn section<'f>(file: &'f [u8], wanted: &[u8]) -> Option<&'f [u8]> {
    let number = |at: usize, bytes: usize| {
        let digits = file.get(at..at + bytes)?.iter().rev();
        Some(digits.fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    let (headers, header_bytes, count) = (number(0x28, 8)?, number(0x3a, 2)?, number(0x3c, 2)?);
    let contents = |place: usize| {
        let header = headers + place * header_bytes;
        let (begin, bytes) = (number(header + 0x18, 8)?, number(header + 0x20, 8)?);
        file.get(begin..begin + bytes)
    };
    let names = contents(number(0x3e, 2)?)?;
    let is_wanted = |place: &usize| {
        let name = number(headers + place * header_bytes, 4).and_then(|begin| names.get(begin..));
        name.is_some_and(|name| name.strip_prefix(wanted).is_some_and(|rest| rest.first() == Some(&0)))
    };
    (0..count).find(is_wanted).and_then(contents)
}
