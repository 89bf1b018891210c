//! The clients of the databases, with the requests that a store sends.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;

use futures_util::future::join;
use strata_harness::OrRefused;
use tikv_client::transaction::HeartbeatOption;
use tikv_client::{CheckLevel, TransactionClient, TransactionOptions};
use tokio::runtime::Runtime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, NoTls, Row, Statement};
use uuid::Uuid;

use crate::brokers::Broker;

/// Records of a request for many.
pub const MANY: usize = 100;

/// A client. Each method returns how many values of the usual length it has read or written.
pub trait Floor: Send {
    fn get(&mut self, key: &[u8]) -> u64;
    fn put(&mut self, key: &[u8], value: &[u8]) -> u64;
    fn update(&mut self, key: &[u8], value: &[u8]) -> u64;
    fn multi_get(&mut self, keys: &[Vec<u8>]) -> u64;
    fn scan(&mut self, lower: &[u8], upper: &[u8]) -> u64;
}

const VALUE_BYTES: usize = 1000;

fn is_whole(value: &[u8]) -> bool {
    black_box(value).len() >= VALUE_BYTES
}

/// Counts the values that are found, in the order of their keys.
fn in_order(keys: &[Vec<u8>], found: &HashMap<Vec<u8>, Vec<u8>>) -> u64 {
    let values: Vec<_> = keys.iter().map(|key| found.get(key).cloned()).collect();
    values.iter().flatten().filter(|value| is_whole(value)).count() as u64
}

/// Returns the key of a record as a store has it, behind a prefix.
fn record(prefix: &[u8], key: &[u8]) -> Vec<u8> {
    [prefix, b"\x02", key].concat()
}

fn receipt(prefix: &[u8]) -> Vec<u8> {
    [prefix, b"\x01receipt/of the floor"].concat()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().or_refused()
}

pub struct Postgres {
    client: Arc<Client>,
    get: Statement,
    multi_get: Statement,
    page: Statement,
    put: Statement,
    put_many: Statement,
    update: Statement,
    sequence: Statement,
    runtime: Runtime,
}

impl Postgres {
    pub fn connect(broker: &Broker) -> Self {
        let runtime = runtime();
        let (client, connection) = runtime.block_on(tokio_postgres::connect(&broker.url(), NoTls)).or_refused();
        runtime.spawn(connection);
        let prepare = |text: &str| runtime.block_on(client.prepare(text)).or_refused();
        let get = prepare("SELECT v FROM strata_main WHERE k = $1");
        let multi_get = prepare("SELECT k, v FROM strata_main WHERE k = ANY($1)");
        let page = prepare("SELECT k, v FROM strata_main WHERE k >= $1 AND k < $2 ORDER BY k LIMIT $3");
        let put_rows = |rows: &str| {
            prepare(&format!("INSERT INTO strata_main {rows} ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v"))
        };
        let put = put_rows("VALUES ($1, $2)");
        let put_many = put_rows("SELECT * FROM unnest($1::bytea[], $2::bytea[])");
        let update = prepare("UPDATE strata_main SET v = $2 WHERE k = $1");
        let sequence = prepare("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1");
        Self { client: Arc::new(client), get, multi_get, page, put, put_many, update, sequence, runtime }
    }

    /// Begins a snapshot.
    async fn begin(&self) -> Result<(), Error> {
        let begin = self.client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        let (begun, sequence) = join(begin, self.client.query_one(&self.sequence, &[])).await;
        begun.and(sequence.map(drop))
    }

    /// Ends a snapshot, for which nobody waits.
    fn end(&self) {
        let client = Arc::clone(&self.client);
        self.runtime.spawn(async move { client.batch_execute("ROLLBACK").await });
    }
}

fn key_and_value(row: &Row) -> (Vec<u8>, Vec<u8>) {
    (row.get(0), row.get(1))
}

impl Floor for Postgres {
    fn get(&mut self, key: &[u8]) -> u64 {
        let row = self.runtime.block_on(self.client.query_opt(&self.get, &[&record(b"", key)])).or_refused();
        row.map_or(0, |row| u64::from(is_whole(&row.get::<_, Vec<u8>>(0))))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> u64 {
        let (key, receipt, number) = (record(b"", key), receipt(b""), Uuid::new_v4());
        let (keys, values) = ([&receipt[..], &key], [&number.as_bytes()[..], value]);
        let client = &self.client;
        let written = self.runtime.block_on(async {
            let begin = client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED");
            let (begun, put) = join(begin, client.execute(&self.put_many, &[&&keys[..], &&values[..]])).await;
            begun.and(put)?;
            client.batch_execute("COMMIT").await
        });
        written.or_refused();
        1
    }

    fn update(&mut self, key: &[u8], value: &[u8]) -> u64 {
        let (key, receipt, number) = (record(b"", key), receipt(b""), Uuid::new_v4());
        let client = &self.client;
        let written: Result<u64, Error> = self.runtime.block_on(async {
            let begin = client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ");
            let (begun, found) = join(begin, client.query_one(&self.get, &[&key])).await;
            begun?;
            let was = u64::from(is_whole(&found?.get::<_, Vec<u8>>(0)));
            let number = &number.as_bytes()[..];
            let (row, receipt): ([&(dyn ToSql + Sync); 2], [&(dyn ToSql + Sync); 2]) =
                ([&key, &value], [&receipt, &number]);
            let (updated, put) = join(client.execute(&self.update, &row), client.execute(&self.put, &receipt)).await;
            updated.and(put)?;
            client.batch_execute("COMMIT").await?;
            Ok(was)
        });
        written.or_refused()
    }

    fn multi_get(&mut self, keys: &[Vec<u8>]) -> u64 {
        let keys: Vec<_> = keys.iter().map(|key| record(b"", key)).collect();
        let rows = self.runtime.block_on(async {
            self.begin().await?;
            self.client.query(&self.multi_get, &[&keys]).await
        });
        self.end();
        in_order(&keys, &rows.or_refused().iter().map(key_and_value).collect())
    }

    fn scan(&mut self, lower: &[u8], upper: &[u8]) -> u64 {
        let (lower, upper) = (record(b"", lower), record(b"", upper));
        let found = self.runtime.block_on(async {
            self.begin().await?;
            self.client.query(&self.page, &[&lower, &upper, &(MANY as i64)]).await
        });
        self.end();
        found.or_refused().iter().map(key_and_value).filter(|(_, value)| is_whole(value)).count() as u64
    }
}

pub struct Tikv {
    client: TransactionClient,
    runtime: Runtime,
}

/// The prefix of the keys of a store.
const PREFIX: &[u8] = b"strata_main\0";

impl Tikv {
    pub fn connect(broker: &Broker) -> Self {
        let runtime = runtime();
        let client = runtime.block_on(TransactionClient::new(vec![broker.address().to_string()])).or_refused();
        Self { client, runtime }
    }
}

fn options() -> TransactionOptions {
    TransactionOptions::new_optimistic().heartbeat_option(HeartbeatOption::NoHeartbeat).drop_check(CheckLevel::None)
}

impl Floor for Tikv {
    fn get(&mut self, key: &[u8]) -> u64 {
        let found = self.runtime.block_on(async {
            let now = self.client.current_timestamp().await?;
            self.client.snapshot(now, options()).get(record(PREFIX, key)).await
        });
        u64::from(found.or_refused().is_some_and(|value| is_whole(&value)))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> u64 {
        let written: tikv_client::Result<()> = self.runtime.block_on(async {
            let mut transaction = self.client.begin_with_options(options()).await?;
            transaction.put(receipt(PREFIX), Uuid::new_v4().as_bytes().to_vec()).await?;
            transaction.put(record(PREFIX, key), value.to_vec()).await?;
            transaction.commit().await.map(drop)
        });
        written.or_refused();
        1
    }

    fn update(&mut self, key: &[u8], value: &[u8]) -> u64 {
        let written: tikv_client::Result<bool> = self.runtime.block_on(async {
            let mut transaction = self.client.begin_with_options(options()).await?;
            let found = transaction.get(record(PREFIX, key)).await?;
            transaction.put(receipt(PREFIX), Uuid::new_v4().as_bytes().to_vec()).await?;
            transaction.put(record(PREFIX, key), value.to_vec()).await?;
            transaction.commit().await?;
            Ok(found.is_some_and(|value| is_whole(&value)))
        });
        u64::from(written.or_refused())
    }

    fn multi_get(&mut self, keys: &[Vec<u8>]) -> u64 {
        let keys: Vec<_> = keys.iter().map(|key| record(PREFIX, key)).collect();
        let found: tikv_client::Result<HashMap<Vec<u8>, Vec<u8>>> = self.runtime.block_on(async {
            let now = self.client.current_timestamp().await?;
            let mut snapshot = self.client.snapshot(now, options());
            let found = snapshot.batch_get(keys.iter().cloned()).await?;
            Ok(found.map(|pair| (pair.0.into(), pair.1)).collect())
        });
        in_order(&keys, &found.or_refused())
    }

    fn scan(&mut self, lower: &[u8], upper: &[u8]) -> u64 {
        let (lower, upper) = (record(PREFIX, lower), record(PREFIX, upper));
        let found: tikv_client::Result<u64> = self.runtime.block_on(async {
            let now = self.client.current_timestamp().await?;
            let mut snapshot = self.client.snapshot(now, options());
            let pairs = snapshot.scan(lower..upper, MANY as u32).await?;
            Ok(pairs.filter(|pair| is_whole(&pair.1)).count() as u64)
        });
        found.or_refused()
    }
}
