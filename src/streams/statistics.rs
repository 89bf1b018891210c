//! What a stream has, for operators.

use serde::Serialize;

use super::{Streams, Watermarks, keys, trim};
use crate::error::Result;
use crate::schema::Stream;
use crate::storage::{ReadTier, Space};

/// Statistics of a stream.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Statistics {
    /// The name of the stream.
    pub name: String,
    /// Its partitions.
    pub partitions: Vec<PartitionStatistics>,
    /// The number of stored idempotency keys, those that are no longer known among them.
    pub idempotency_keys: u64,
    /// The number of consumer groups.
    pub groups: u64,
}

/// Statistics of a partition.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct PartitionStatistics {
    /// Its number.
    pub partition: u32,
    /// The first offset that is kept.
    pub low_watermark: u64,
    /// The next offset.
    pub high_watermark: u64,
    /// Bytes of the chunks that are kept, before compression.
    pub bytes: u64,
}

impl Streams {
    /// Returns the statistics of the partitions of a stream.
    ///
    /// # Errors
    /// `Corrupt`; what the engine returns.
    pub fn partitions(&self, stream: &Stream) -> Result<Vec<PartitionStatistics>> {
        let of_partition = |partition| {
            let watermarks = self.watermarks(stream, partition)?;
            let bytes = trim::kept_bytes(self.0.database.store(), stream, partition, watermarks)?;
            let Watermarks { low, high } = watermarks;
            Ok(PartitionStatistics { partition, low_watermark: low, high_watermark: high, bytes })
        };
        (0..stream.partitions).map(of_partition).collect()
    }

    /// Returns the statistics of a stream; reads all its idempotency keys.
    ///
    /// # Errors
    /// `Corrupt`; what the engine returns.
    pub fn statistics(&self, stream: &Stream) -> Result<Statistics> {
        let store = self.0.database.store();
        let partitions = self.partitions(stream)?;
        let (snapshot, mut idempotency_keys) = (store.snapshot(ReadTier::Disk)?, 0);
        let (lower, upper) = (keys::generation(stream.id, 0), keys::generation(stream.id, u64::MAX));
        let mut scan = store.scan(Space::Streams, &lower, &upper, &snapshot, ReadTier::Disk);
        while scan.next()?.is_some() {
            idempotency_keys += 1;
        }
        let groups = self.groups(&self.0.database, stream)?.len() as u64;
        Ok(Statistics { name: stream.name.clone(), partitions, idempotency_keys, groups })
    }
}
