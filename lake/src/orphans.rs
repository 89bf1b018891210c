//! Files that nothing names any more: of rounds that were killed, and of snapshots that have expired.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use futures::TryStreamExt;
use iceberg::spec::TableMetadata;
use iceberg::table::Table;
use opendal::layers::{RetryLayer, TimeoutLayer};
use opendal::services::{Fs, S3};
use opendal::{Entry, EntryMode, Operator};

use crate::failure::{Failure, Result, causes};

/// The age below which a file may be one of a commit that is being made.
const AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The end of the name of a file with a table's metadata.
const METADATA: &str = ".metadata.json";

/// How many files are looked at at a time: an object store takes a request for each.
const AT_A_TIME: usize = 16;

/// Removes the files under the location of a table that neither a snapshot nor the metadata log names; returns their number.
///
/// # Errors
/// `Refused` if another table has files there, as one of this name may have had that was renamed; what the catalogue and the store return.
pub async fn remove(table: &Table) -> Result<usize> {
    let location = table.metadata().location().trim_end_matches('/');
    let named = named(table).await?;
    let (operator, prefix) = operator(table, location)?;
    let away = |error: opendal::Error| Failure::Away(format!("{location}: {}", causes(&error)));
    let files = operator.lister_with(&prefix).recursive(true).await.map_err(away)?;
    let unnamed = files.map_err(away).try_filter(|file| {
        let inside = file.path().strip_prefix(&prefix).unwrap_or_default();
        let is_unnamed = !inside.is_empty() && !named.contains(inside);
        std::future::ready(file.metadata().mode() == EntryMode::FILE && is_unnamed)
    });
    let looks = unnamed.map_ok(|file| look(table, &operator, location, file));
    let orphans: Vec<Option<String>> = looks.try_buffer_unordered(AT_A_TIME).try_collect().await?;
    let orphans: Vec<String> = orphans.into_iter().flatten().collect();
    for file in &orphans {
        operator.delete(file).await.map_err(away)?;
    }
    Ok(orphans.len())
}

/// Returns the path of a file that nothing names, if it is old enough to be removed.
async fn look(table: &Table, operator: &Operator, location: &str, file: Entry) -> Result<Option<String>> {
    let (path, metadata) = file.into_parts();
    let away = |error: opendal::Error| Failure::Away(format!("{location}: {}", causes(&error)));
    if path.ends_with(METADATA) {
        let bytes = operator.read(&path).await.map_err(away)?.to_vec();
        let of_another =
            serde_json::from_slice::<TableMetadata>(&bytes).is_ok_and(|one| one.uuid() != table.metadata().uuid());
        if of_another {
            return Err(Failure::Refused(format!(
                "{location}: {path} is of another table, so nothing is removed there; start without --drop-orphans, or move one of them"
            )));
        }
    }
    let modified = match metadata.last_modified() {
        Some(modified) => Some(modified),
        None => operator.stat(&path).await.map_err(away)?.last_modified(),
    };
    let age = modified.map(SystemTime::from).and_then(|modified| modified.elapsed().ok());
    Ok(age.is_some_and(|age| age > AGE).then_some(path))
}

/// Returns the paths below the table's location of all files that its metadata names.
async fn named(table: &Table) -> Result<HashSet<String>> {
    let metadata = table.metadata();
    let mut paths: Vec<String> = table.metadata_location().map(str::to_owned).into_iter().collect();
    paths.extend(metadata.metadata_log().iter().map(|log| log.metadata_file.clone()));
    paths.extend(metadata.statistics_iter().map(|statistics| statistics.statistics_path.clone()));
    paths.extend(metadata.partition_statistics_iter().map(|statistics| statistics.statistics_path.clone()));
    let mut manifests = HashSet::new();
    for snapshot in metadata.snapshots() {
        paths.push(snapshot.manifest_list().to_owned());
        for manifest in table.manifest_list_reader(snapshot).load().await?.entries() {
            if manifests.insert(manifest.manifest_path.clone()) {
                paths.push(manifest.manifest_path.clone());
                let entries = manifest.load_manifest(table.file_io()).await?;
                paths.extend(entries.entries().iter().map(|entry| entry.file_path().to_owned()));
            }
        }
    }
    Ok(paths.iter().filter_map(|path| below(path, metadata.location())).map(str::to_owned).collect())
}

/// Returns a location without its scheme: engines write one as s3 or s3a, as file:/ or file:///, or without.
fn plain(location: &str) -> &str {
    let schemeless =
        location.split_once(':').filter(|(scheme, _)| !scheme.contains('/')).map_or(location, |(_, rest)| rest);
    schemeless.trim_start_matches('/')
}

fn below<'a>(path: &'a str, location: &str) -> Option<&'a str> {
    plain(path).strip_prefix(plain(location).trim_end_matches('/'))?.strip_prefix('/')
}

/// Returns what lists and removes the files of a location, by the properties that the table's own files are read with, and the location for it.
fn operator(table: &Table, location: &str) -> Result<(Operator, String)> {
    let refused = |error: opendal::Error| Failure::Refused(format!("{location}: {}", causes(&error)));
    let path = plain(location);
    if !location.starts_with("s3") {
        let built = Operator::new(Fs::default().root("/")).map_err(refused)?;
        return Ok((patient(built.finish()), format!("{path}/")));
    }
    let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
    let properties = table.file_io().config().props();
    let mut s3 = S3::default().bucket(bucket).disable_ec2_metadata();
    if properties.get("s3.path-style-access").is_none_or(|value| value != "true") {
        s3 = s3.enable_virtual_host_style();
    }
    for (name, value) in properties {
        s3 = match name.as_str() {
            "s3.endpoint" => s3.endpoint(value),
            "s3.region" | "client.region" => s3.region(value),
            "s3.access-key-id" => s3.access_key_id(value),
            "s3.secret-access-key" => s3.secret_access_key(value),
            "s3.session-token" => s3.session_token(value),
            _ => s3,
        };
    }
    Ok((patient(Operator::new(s3).map_err(refused)?.finish()), format!("{prefix}/")))
}

/// Bounds and repeats what an object store does not answer, as iceberg does.
fn patient(operator: Operator) -> Operator {
    operator.layer(TimeoutLayer::new()).layer(RetryLayer::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_compared_without_their_scheme() {
        let local = ["file:///lake/strata/click", "file:/lake/strata/click", "/lake/strata/click"];
        let stored = ["s3://lake/strata/click", "s3a://lake/strata/click/", "s3n://lake/strata/click"];
        for locations in [local, stored] {
            for location in locations {
                for other in locations {
                    let path = format!("{}/data/a:b", other.trim_end_matches('/'));
                    assert_eq!(below(&path, location), Some("data/a:b"), "{path} below {location}");
                }
            }
        }
        assert_eq!(below("s3://lake/strata/clicks/data/a", "s3://lake/strata/click"), None);
    }
}
