//! The files of a round: Parquet, one for each day, in the order in which events are added.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::spec::{DataFile, DataFileFormat, Literal, PartitionKey, Struct};
use iceberg::table::Table;
use iceberg::writer::base_writer::data_file_writer::DataFileWriterBuilder;
use iceberg::writer::file_writer::ParquetWriterBuilder;
use iceberg::writer::file_writer::location_generator::{DefaultFileNameGenerator, DefaultLocationGenerator};
use iceberg::writer::file_writer::rolling_writer::RollingFileWriterBuilder;
use iceberg::writer::partitioning::PartitioningWriter;
use iceberg::writer::partitioning::fanout_writer::FanoutWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use uuid::Uuid;

use crate::failure::{Failure, Result};
use crate::stream::Event;

/// The rows of a day, and the bytes of their payloads, that are kept until they go to the writer.
const ROWS: usize = 8192;
const BYTES: usize = 8 << 20;

/// A file that grows beyond this is closed, and another begun.
const FILE_BYTES: usize = 1 << 30;

const MILLISECONDS_OF_A_DAY: u64 = 24 * 60 * 60 * 1000;

type Writer =
    FanoutWriter<DataFileWriterBuilder<ParquetWriterBuilder, DefaultLocationGenerator, DefaultFileNameGenerator>>;

/// Files that are being written.
pub struct Files {
    writer: Writer,
    table: Table,
    schema: Arc<arrow_schema::Schema>,
    /// By day since 1970, the rows that the writer does not have yet.
    days: HashMap<i32, Rows>,
}

#[derive(Default)]
struct Rows {
    partition: Int32Builder,
    offset: Int64Builder,
    ingested_at: TimestampMicrosecondBuilder,
    timestamp_ms: Int64Builder,
    key: StringBuilder,
    idempotency_key: StringBuilder,
    payload: StringBuilder,
    number: usize,
    bytes: usize,
}

impl Files {
    /// Begins files of a table.
    ///
    /// # Errors
    /// What iceberg returns.
    pub fn begin(table: &Table) -> Result<Self> {
        let metadata = table.metadata();
        let schema = Arc::new(schema_to_arrow_schema(metadata.current_schema())?);
        let compression = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder().set_compression(compression).build();
        let parquet = ParquetWriterBuilder::new(properties, metadata.current_schema().clone());
        let names = DefaultFileNameGenerator::new(Uuid::new_v4().to_string(), None, DataFileFormat::Parquet);
        let locations = DefaultLocationGenerator::new(metadata)?;
        let rolling = RollingFileWriterBuilder::new(parquet, FILE_BYTES, table.file_io().clone(), locations, names);
        let writer = FanoutWriter::new(DataFileWriterBuilder::new(rolling));
        Ok(Self { writer, table: table.clone(), schema, days: HashMap::new() })
    }

    /// Adds an event.
    ///
    /// # Errors
    /// `Refused` for times and offsets that the table cannot have; what the file system or object store returns.
    pub async fn add(&mut self, event: &Event<'_>) -> Result<()> {
        let unfit = |_| {
            let Event { partition, offset, .. } = event;
            Failure::Refused(format!(
                "partition {partition}: the event at offset {offset} has a number beyond the table's"
            ))
        };
        let day = i32::try_from(event.ingested_ms / MILLISECONDS_OF_A_DAY).map_err(unfit)?;
        let rows = self.days.entry(day).or_default();
        rows.partition.append_value(i32::try_from(event.partition).map_err(unfit)?);
        rows.offset.append_value(i64::try_from(event.offset).map_err(unfit)?);
        rows.ingested_at.append_value(i64::try_from(event.ingested_ms * 1000).map_err(unfit)?);
        rows.timestamp_ms.append_value(i64::try_from(event.timestamp_ms).map_err(unfit)?);
        rows.key.append_option(event.key.as_deref());
        rows.idempotency_key.append_option(event.idempotency_key.as_deref());
        rows.payload.append_value(event.payload.get());
        rows.number += 1;
        rows.bytes += event.payload.get().len();
        if rows.number >= ROWS || rows.bytes >= BYTES {
            let rows = std::mem::take(rows);
            self.write(day, rows).await?;
        }
        Ok(())
    }

    /// Completes the files.
    ///
    /// # Errors
    /// What the file system or object store returns.
    pub async fn finish(mut self) -> Result<Vec<DataFile>> {
        for (day, rows) in std::mem::take(&mut self.days) {
            if rows.number > 0 {
                self.write(day, rows).await?;
            }
        }
        Ok(self.writer.close().await?)
    }

    async fn write(&mut self, day: i32, mut rows: Rows) -> Result<()> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.partition.finish()),
            Arc::new(rows.offset.finish()),
            Arc::new(rows.ingested_at.finish().with_timezone("+00:00")),
            Arc::new(rows.timestamp_ms.finish()),
            Arc::new(rows.key.finish()),
            Arc::new(rows.idempotency_key.finish()),
            Arc::new(rows.payload.finish()),
        ];
        let batch = RecordBatch::try_new(self.schema.clone(), columns);
        let batch = batch.map_err(|error| Failure::Refused(format!("rows do not fit the table: {error}")))?;
        let metadata = self.table.metadata();
        let spec = metadata.default_partition_spec().as_ref().clone();
        let of_day = Struct::from_iter([Some(Literal::date(day))]);
        let key = PartitionKey::new(spec, metadata.current_schema().clone(), of_day);
        Ok(self.writer.write(key, batch).await?)
    }
}
