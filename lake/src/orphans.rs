//! Files that nothing names any more: of rounds that were killed, and of snapshots that have expired.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use futures::TryStreamExt;
use iceberg::spec::TableMetadata;
use iceberg::table::Table;
use opendal::services::{Fs, S3};
use opendal::{EntryMode, Operator};

use crate::failure::{Failure, Result, causes};

/// The age below which a file may be one of a commit that is being made.
const AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The end of the name of a file with a table's metadata.
const METADATA: &str = ".metadata.json";

/// Removes the files under the location of a table that neither a snapshot nor the metadata log names; returns their number.
///
/// # Errors
/// `Refused` if another table has files there, as one of this name may have had that was renamed; what the catalogue and the store return.
pub async fn remove(table: &Table) -> Result<usize> {
    let location = table.metadata().location().trim_end_matches('/');
    let named = named(table).await?;
    let (operator, prefix) = operator(table, location)?;
    let away = |error: opendal::Error| Failure::Away(format!("{location}: {}", causes(&error)));
    let mut files = operator.lister_with(&prefix).recursive(true).await.map_err(away)?;
    let mut orphans = Vec::new();
    while let Some(file) = files.try_next().await.map_err(away)? {
        let inside = file.path().strip_prefix(&prefix).unwrap_or_default();
        if file.metadata().mode() != EntryMode::FILE || inside.is_empty() || named.contains(inside) {
            continue;
        }
        if inside.ends_with(METADATA) {
            let bytes = operator.read(file.path()).await.map_err(away)?.to_vec();
            let of_another =
                serde_json::from_slice::<TableMetadata>(&bytes).is_ok_and(|one| one.uuid() != table.metadata().uuid());
            if of_another {
                let detail = format!("{location}: {inside} is of another table, so nothing is removed there");
                return Err(Failure::Refused(detail));
            }
        }
        let modified = operator.stat(file.path()).await.map_err(away)?.last_modified().map(SystemTime::from);
        if modified.is_some_and(|modified| modified.elapsed().is_ok_and(|age| age > AGE)) {
            orphans.push(file.path().to_owned());
        }
    }
    for file in &orphans {
        operator.delete(file).await.map_err(away)?;
    }
    Ok(orphans.len())
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
        return Ok((built.finish(), format!("{path}/")));
    }
    let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
    let mut s3 = S3::default().bucket(bucket).disable_config_load().disable_ec2_metadata();
    for (name, value) in table.file_io().config().props() {
        s3 = match name.as_str() {
            "s3.endpoint" => s3.endpoint(value),
            "s3.region" | "client.region" => s3.region(value),
            "s3.access-key-id" => s3.access_key_id(value),
            "s3.secret-access-key" => s3.secret_access_key(value),
            "s3.session-token" => s3.session_token(value),
            "s3.path-style-access" if value != "true" => s3.enable_virtual_host_style(),
            _ => s3,
        };
    }
    Ok((Operator::new(s3).map_err(refused)?.finish(), format!("{prefix}/")))
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
