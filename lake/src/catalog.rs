//! Catalogues, and the one that commits are made through.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use iceberg::table::Table;
use iceberg::{
    Catalog, CatalogBuilder, Error, ErrorKind, Namespace, NamespaceIdent, TableCommit, TableCreation, TableIdent,
};
use iceberg_catalog_rest::RestCatalogBuilder;
use iceberg_catalog_sql::SqlCatalogBuilder;
use iceberg_storage_opendal::OpenDalStorageFactory;

use crate::failure::{Failure, Result, causes};
use crate::options::{Kind, Options};
use crate::steps::Step;
use crate::table::{self, Next};

/// The name of a SQL catalogue, and of the namespace that the tables are in.
pub const NAME: &str = "strata";

/// The time within which a REST catalogue answers.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Opens the catalogue.
///
/// # Errors
/// `Refused` for options that do not fit together; what the catalogue returns.
pub async fn open(options: &Options) -> Result<Arc<dyn Catalog>> {
    let mut properties = HashMap::from([("uri".to_owned(), options.uri.clone())]);
    match options.catalog {
        Kind::Rest => {
            properties.insert("warehouse".to_owned(), options.warehouse.clone());
            if let Some(credential) = &options.credential {
                properties.insert("credential".to_owned(), credential.0.clone());
            }
            properties.extend(object_store(options)?);
            let storage = Arc::new(OpenDalStorageFactory::S3 { customized_credential_load: None });
            let client = reqwest::Client::builder().timeout(TIMEOUT).build();
            let client = client.map_err(|error| Failure::Refused(causes(&error)))?;
            let builder = RestCatalogBuilder::default().with_client(client).with_storage_factory(storage);
            Ok(Arc::new(builder.load(NAME, properties).await?))
        }
        Kind::Sql => {
            let file = options.uri.strip_prefix("sqlite:").filter(|file| !file.is_empty());
            // Others write `sqlite:///lake.db`, some for a relative path and some for one from the root.
            let file = file.filter(|file| !file.starts_with("//") && !file.contains('?'));
            let detail = "--uri of a SQL catalogue is sqlite:FILE, with a path: sqlite:lake.db, sqlite:/srv/lake.db";
            let file = file.ok_or_else(|| Failure::Refused(detail.to_owned()))?;
            let folder = Path::new(file).parent().filter(|folder| !folder.as_os_str().is_empty());
            if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
                return Err(Failure::Refused(format!("--uri: there is no folder {}: make it", folder.display())));
            }
            properties.insert("uri".to_owned(), format!("sqlite:{file}?mode=rwc"));
            let folder = warehouse(options)?.ok_or_else(|| Failure::Refused("--warehouse is a folder".to_owned()))?;
            properties.insert("warehouse".to_owned(), format!("file://{}", folder.display()));
            properties.insert("sql_bind_style".to_owned(), "QMark".to_owned());
            let storage = Arc::new(OpenDalStorageFactory::Fs);
            Ok(Arc::new(SqlCatalogBuilder::default().with_storage_factory(storage).load(NAME, properties).await?))
        }
    }
}

/// Returns the local folder of the warehouse; `None` if it is in an object store.
///
/// # Errors
/// `Refused` if it cannot be made.
pub fn warehouse(options: &Options) -> Result<Option<PathBuf>> {
    if options.catalog == Kind::Rest {
        return Ok(None);
    }
    let folder = Path::new(options.warehouse.trim_start_matches("file://"));
    let made = std::fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
    made.map(Some).map_err(|error| Failure::Refused(format!("--warehouse {}: {error}", folder.display())))
}

/// Returns what the options say of the object store: it goes before what the catalogue says.
fn object_store(options: &Options) -> Result<Vec<(String, String)>> {
    let mut properties = vec![("s3.disable-ec2-metadata".to_owned(), "true".to_owned())];
    let mut set = |name: &str, value: &str| properties.push((name.to_owned(), value.to_owned()));
    if let Some(endpoint) = &options.s3_endpoint {
        set("s3.endpoint", endpoint);
        set("s3.path-style-access", "true");
        set("s3.region", "us-east-1");
        if let Some(credential) = &options.credential {
            let (id, secret) = credential.parts()?;
            set("s3.access-key-id", id);
            set("s3.secret-access-key", secret);
        }
    }
    if let Some(region) = &options.s3_region {
        set("s3.region", region);
    }
    Ok(properties)
}

/// A catalogue for one commit: it loads the table only if that goes on at the offsets from which the events were read.
///
/// A commit of iceberg loads the table before each try, and puts the files on whatever it finds. Of two processes that have read the same
/// events both would succeed. That the table has not changed between that load and the commit is checked by the catalogue itself.
#[derive(Debug)]
pub struct Guarded<'a> {
    catalog: &'a dyn Catalog,
    expected: &'a Next,
    round: u64,
}

/// What the error of a table that goes on elsewhere says.
const MOVED: &str = "the table goes on at other offsets than those that were read";

impl<'a> Guarded<'a> {
    /// Guards a commit of events that were read from these offsets.
    pub fn new(catalog: &'a dyn Catalog, expected: &'a Next, round: u64) -> Self {
        Self { catalog, expected, round }
    }
}

#[async_trait]
impl Catalog for Guarded<'_> {
    async fn load_table(&self, name: &TableIdent) -> iceberg::Result<Table> {
        let table = self.catalog.load_table(name).await?;
        if table::next(&table).is_ok_and(|next| next == *self.expected) {
            Step::Checked.done(self.round);
            return Ok(table);
        }
        Err(Error::new(ErrorKind::PreconditionFailed, MOVED))
    }

    async fn update_table(&self, commit: TableCommit) -> iceberg::Result<Table> {
        let table = self.catalog.update_table(commit).await?;
        Step::Committed.done(self.round);
        Ok(table)
    }

    async fn list_namespaces(&self, parent: Option<&NamespaceIdent>) -> iceberg::Result<Vec<NamespaceIdent>> {
        self.catalog.list_namespaces(parent).await
    }

    async fn create_namespace(
        &self,
        name: &NamespaceIdent,
        properties: HashMap<String, String>,
    ) -> iceberg::Result<Namespace> {
        self.catalog.create_namespace(name, properties).await
    }

    async fn get_namespace(&self, name: &NamespaceIdent) -> iceberg::Result<Namespace> {
        self.catalog.get_namespace(name).await
    }

    async fn namespace_exists(&self, name: &NamespaceIdent) -> iceberg::Result<bool> {
        self.catalog.namespace_exists(name).await
    }

    async fn update_namespace(
        &self,
        name: &NamespaceIdent,
        properties: HashMap<String, String>,
    ) -> iceberg::Result<()> {
        self.catalog.update_namespace(name, properties).await
    }

    async fn drop_namespace(&self, name: &NamespaceIdent) -> iceberg::Result<()> {
        self.catalog.drop_namespace(name).await
    }

    async fn list_tables(&self, namespace: &NamespaceIdent) -> iceberg::Result<Vec<TableIdent>> {
        self.catalog.list_tables(namespace).await
    }

    async fn create_table(&self, namespace: &NamespaceIdent, creation: TableCreation) -> iceberg::Result<Table> {
        self.catalog.create_table(namespace, creation).await
    }

    async fn drop_table(&self, name: &TableIdent) -> iceberg::Result<()> {
        self.catalog.drop_table(name).await
    }

    async fn purge_table(&self, name: &TableIdent) -> iceberg::Result<()> {
        self.catalog.purge_table(name).await
    }

    async fn table_exists(&self, name: &TableIdent) -> iceberg::Result<bool> {
        self.catalog.table_exists(name).await
    }

    async fn rename_table(&self, from: &TableIdent, to: &TableIdent) -> iceberg::Result<()> {
        self.catalog.rename_table(from, to).await
    }

    async fn register_table(&self, name: &TableIdent, metadata_location: String) -> iceberg::Result<Table> {
        self.catalog.register_table(name, metadata_location).await
    }
}
