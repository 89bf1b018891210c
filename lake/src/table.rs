//! The table of a stream: its columns, and the properties that say where each partition goes on.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::LazyLock;

use iceberg::spec::{NestedField, PrimitiveType, Schema, Transform, Type, UnboundPartitionSpec};
use iceberg::table::Table;
use iceberg::{Catalog, ErrorKind, NamespaceIdent, TableCreation, TableIdent};
use uuid::Uuid;

use crate::catalog::NAME;
use crate::failure::{Failure, Result};

/// By partition, the offset of the event that the table does not have yet.
pub type Next = BTreeMap<u32, u64>;

/// The properties that say where partition P goes on, and the hash of the event before that.
const NEXT: &str = "strata.next.";
const LAST: &str = "strata.last.";

/// The property with the name of the stream, since two names may become one name of a table.
const STREAM: &str = "strata.stream";

/// The columns: name, type, whether every event has it.
const COLUMNS: [(&str, PrimitiveType, bool); 7] = [
    ("partition", PrimitiveType::Int, true),
    ("offset", PrimitiveType::Long, true),
    ("ingested_at", PrimitiveType::Timestamptz, true),
    ("timestamp_ms", PrimitiveType::Long, true),
    ("key", PrimitiveType::String, false),
    ("idempotency_key", PrimitiveType::String, false),
    ("payload", PrimitiveType::String, true),
];

/// The position of the column that the table is partitioned by, counted from 1, as field ids are.
const INGESTED_AT: i32 = 3;

/// The schema of a new table.
static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let fields = COLUMNS.iter().zip(1..).map(|((name, of_type, is_required), id)| {
        NestedField::new(id, *name, Type::Primitive(of_type.clone()), *is_required).into()
    });
    Schema::builder().with_fields(fields).build().expect("the columns are a schema")
});

/// Returns the name of the table of a stream.
///
/// # Errors
/// `Refused` if there can be none.
pub fn name(stream: &str) -> Result<TableIdent> {
    TableIdent::from_strs([NAME, &stream.to_lowercase()])
        .map_err(|error| Failure::Refused(format!("--stream {stream}: {error}")))
}

/// Loads the table of a stream; makes it if there is none, and `creates` says how. In a local folder each table has one of its own, so that one
/// that was renamed keeps its files for itself.
///
/// # Errors
/// `Refused` if the table of this name is not that of the stream; `Away` if it is not there, and must not be made; what the catalogue returns.
pub async fn open(catalog: &dyn Catalog, stream: &str, creates: Option<&Creates<'_>>) -> Result<Table> {
    let name = name(stream)?;
    let found = match catalog.load_table(&name).await {
        Ok(table) => table,
        Err(error) => {
            let is_missing = matches!(error.kind(), ErrorKind::TableNotFound | ErrorKind::NamespaceNotFound)
                // Not every catalogue says it by the kind.
                || matches!(catalog.table_exists(&name).await, Ok(false));
            match creates {
                Some(creates) if is_missing => create(catalog, &name, stream, creates).await?,
                None if is_missing => {
                    return Err(Failure::Away(format!("table {name} has gone; to begin a new one, start again")));
                }
                _ => return Err(error.into()),
            }
        }
    };
    check(&found, &name, stream)?;
    Ok(found)
}

/// How a table is made.
pub struct Creates<'a> {
    /// The local folder of the warehouse, if it is one; else the catalogue says where.
    pub folder: Option<&'a Path>,
}

async fn create(catalog: &dyn Catalog, name: &TableIdent, stream: &str, creates: &Creates<'_>) -> Result<Table> {
    let namespace = NamespaceIdent::new(NAME.to_owned());
    if !catalog.namespace_exists(&namespace).await.unwrap_or(false) {
        let made = catalog.create_namespace(&namespace, HashMap::new()).await;
        // Another process may have been faster; how a catalogue says that differs.
        if !catalog.namespace_exists(&namespace).await.unwrap_or(false) {
            // A SQL catalogue says yes to what it could not write.
            return Err(made.map_or_else(Failure::from, |_| {
                let detail = "which it said it had: its disk may be full; make room, then start again";
                Failure::Refused(format!("the catalogue has not made the namespace {NAME}, {detail}"))
            }));
        }
    }
    let by_day =
        UnboundPartitionSpec::builder().add_partition_field(INGESTED_AT, "ingested_at_day", Transform::Day)?.build();
    let location =
        creates.folder.map(|folder| format!("file://{}/{NAME}/{}-{}", folder.display(), name.name(), Uuid::new_v4()));
    let creation = TableCreation::builder()
        .name(name.name().to_owned())
        .location_opt(location)
        .schema(SCHEMA.clone())
        .partition_spec(by_day)
        .properties([(STREAM.to_owned(), stream.to_owned())])
        .build();
    match catalog.create_table(&namespace, creation).await {
        Ok(table) => Ok(table),
        Err(error) => catalog.load_table(name).await.map_err(|_| error.into()),
    }
}

fn check(table: &Table, name: &TableIdent, stream: &str) -> Result<()> {
    let refused = |detail: String| Err(Failure::Refused(format!("table {name}: {detail}")));
    let metadata = table.metadata();
    let fields: Vec<_> = metadata.current_schema().as_struct().fields().iter().collect();
    let is_ours = fields.len() == COLUMNS.len()
        && fields.iter().zip(&COLUMNS).all(|(field, (name, of_type, is_required))| {
            field.name == *name
                && *field.field_type == Type::Primitive(of_type.clone())
                && field.required == *is_required
        });
    if !is_ours {
        let columns: Vec<_> = COLUMNS.iter().map(|(name, of_type, _)| format!("{name} {of_type}")).collect();
        return refused(format!("its columns are not {}; move it away, or rename the stream", columns.join(", ")));
    }
    let partitioned_by = metadata.default_partition_spec().fields();
    let ingested_at = fields[INGESTED_AT as usize - 1].id;
    if !matches!(partitioned_by, [field] if field.source_id == ingested_at && field.transform == Transform::Day) {
        return refused(
            "new files are not partitioned by day(ingested_at); set that again, or rename the stream".to_owned(),
        );
    }
    match metadata.properties().get(STREAM) {
        Some(of) if of != stream => {
            return refused(format!("it is that of the stream {of}, whose name in lower case is the same"));
        }
        _ => {}
    }
    if metadata.current_snapshot().is_some() && next(table)?.is_empty() {
        return refused(format!("it has rows, but no property {NEXT}0: it was not made here; move it away"));
    }
    Ok(())
}

/// Returns where the partitions go on.
///
/// # Errors
/// `Refused` if a property is damaged.
pub fn next(table: &Table) -> Result<Next> {
    let mut next = Next::new();
    for (name, value) in table.metadata().properties() {
        let Some(partition) = name.strip_prefix(NEXT) else { continue };
        match (partition.parse(), value.parse()) {
            (Ok(partition), Ok(offset)) => next.insert(partition, offset),
            _ => {
                let detail = format!("table {}: its property {name} is {value:?}, no offset", table.identifier());
                return Err(Failure::Refused(detail));
            }
        };
    }
    match next.keys().zip(0..).find(|(partition, number)| **partition != *number) {
        None => Ok(next),
        Some((_, lost)) => {
            let detail = format!(
                "table {}: its property {NEXT}{lost} is gone, without which rows would stand twice",
                table.identifier()
            );
            Err(Failure::Refused(detail))
        }
    }
}

/// Returns the hash of the event before the offset at which a partition goes on.
pub fn last(table: &Table, partition: u32) -> Option<&str> {
    table.metadata().properties().get(&format!("{LAST}{partition}")).map(String::as_str)
}

/// Returns the properties of where a partition goes on.
pub fn properties(partition: u32, next: u64, last: Option<String>) -> impl Iterator<Item = (String, String)> {
    let last = last.map(|last| (format!("{LAST}{partition}"), last));
    [(format!("{NEXT}{partition}"), next.to_string())].into_iter().chain(last)
}
