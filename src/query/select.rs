//! What of a record an answer shows: the stored text whole, or the attributes that were asked for, in that order.
//!
//! Nothing is parsed and nothing serialised: the texts of the values stand in the record, and are copied.

use super::tree::Query;
use crate::encoding::Record;
use crate::error::Result;

impl Query<'_> {
    /// Appends what the query shows of a record, as a JSON object.
    ///
    /// # Errors
    /// `Corrupt` if the record is.
    pub fn write<B: AsRef<[u8]>>(&self, record: &Record<'_, B>, out: &mut Vec<u8>) -> Result<()> {
        let Some(select) = &self.select else {
            out.extend_from_slice(record.json());
            return Ok(());
        };
        out.push(b'{');
        for (position, attribute) in select.iter().enumerate() {
            // The names of a schema have nothing in them that JSON would escape.
            out.extend_from_slice(if position == 0 { b"\"" } else { b",\"" });
            out.extend_from_slice(record.table().attributes[*attribute].name.as_bytes());
            out.extend_from_slice(b"\":");
            out.extend_from_slice(record.json_of(*attribute)?);
        }
        out.push(b'}');
        Ok(())
    }
}
