//! A consumer group: by partition, the offset that is to be read next.
//!
//! All offsets of a group are one value, so that a commit of any number of partitions is one put, and its checksum is what a precondition
//! names.
//!
//! ```text
//! version u8 = 1 | then for each partition that was committed, ascending: partition u32 | offset u64      (little-endian)
//! ```

use std::collections::BTreeMap;

use twox_hash::XxHash3_64;

use crate::encoding::body::{Refused, parse, pointer_to};
use crate::encoding::json::{COLON, Item, Reader};
use crate::error::{Error, Result};

const VERSION: u8 = 1;

/// The committed offsets of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// By partition, the offset to be read next.
    pub offsets: BTreeMap<u32, u64>,
}

impl Group {
    /// Returns what a precondition names.
    pub fn checksum(&self) -> u64 {
        XxHash3_64::oneshot(&self.to_bytes())
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        for (partition, offset) in &self.offsets {
            bytes.extend_from_slice(&partition.to_le_bytes());
            bytes.extend_from_slice(&offset.to_le_bytes());
        }
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        let (entries, rest) = match bytes.split_first() {
            Some((&VERSION, rest)) => rest.as_chunks::<12>(),
            _ => return Err(damaged()),
        };
        let offsets = entries.iter().map(|entry| {
            let (partition, offset) = entry.split_first_chunk::<4>().expect("it is longer");
            let offset = offset.try_into().expect("the rest has eight bytes");
            (u32::from_le_bytes(*partition), u64::from_le_bytes(offset))
        });
        if rest.is_empty() { Ok(Self { offsets: offsets.collect() }) } else { Err(damaged()) }
    }
}

/// Parses `{"offsets":[{"partition":P,"offset":N}, ..]}`.
///
/// # Errors
/// `Invalid`, with a JSON pointer where applicable.
pub fn parse_offsets(body: &[u8]) -> Result<Vec<(u32, u64)>> {
    parse(body, |reader| {
        let mut offsets = None;
        members(reader, "", &["offsets"], |reader, _| {
            reader.take(b'[', "expected an array of offsets")?;
            let mut all = Vec::new();
            while reader.next_element(all.is_empty())? {
                let (mut found, pointer) = ([None; 2], format!("/offsets/{}", all.len()));
                members(reader, &pointer, &["partition", "offset"], |reader, member| {
                    found[member] = match reader.item()? {
                        Item::Integer(number) if number >= 0 && (member == 1 || number <= i64::from(u32::MAX)) => {
                            Some(number as u64)
                        }
                        _ => None,
                    };
                    let name = ["partition", "offset"][member];
                    let refused = || unfit(&pointer, name, "it must be a whole number, not below 0");
                    found[member].map(drop).ok_or_else(refused)
                })?;
                match found {
                    [Some(partition), Some(offset)] => all.push((partition as u32, offset)),
                    [None, _] => return Err(unfit(&pointer, "partition", "it is required")),
                    _ => return Err(unfit(&pointer, "offset", "it is required")),
                }
            }
            offsets = Some(all);
            Ok(())
        })?;
        offsets.ok_or_else(|| unfit("", "offsets", "it is required"))
    })
}

fn unfit(object: &str, member: &str, detail: &str) -> Refused {
    Refused::Unfit(Error::invalid_at(pointer_to(object, member), detail))
}

/// Reads an object with no other members than these, each at most once: `read` reads the value of the one with a number.
fn members<'a>(
    reader: &mut Reader<'a>,
    pointer: &str,
    known: &[&str],
    mut read: impl FnMut(&mut Reader<'a>, usize) -> std::result::Result<(), Refused>,
) -> std::result::Result<(), Refused> {
    reader.take(b'{', "expected an object")?;
    let mut given = Vec::new();
    while reader.next_member(given.is_empty())? {
        let name = reader.text()?;
        let member = known.iter().position(|known| *known == name);
        let member = member
            .ok_or_else(|| unfit(pointer, &name, &format!("there is no such member, only {}", known.join(" and "))))?;
        if given.contains(&member) {
            return Err(unfit(pointer, &name, "it is given twice"));
        }
        given.push(member);
        reader.take(b':', COLON)?;
        read(reader, member)?;
    }
    Ok(())
}

pub(super) fn damaged() -> Error {
    Error::corrupt("the offsets of a consumer group")
}
