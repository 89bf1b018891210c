//! A consumer that makes each change exactly once, over restarts and kills: `cargo run --release --example consumer -- DIRECTORY`.
//!
//! It sums up what each customer has spent. The id of the last order that it has counted is stored in the transaction that counts it, so
//! either both are there or neither. The log of changes is kept for it (`feed_log`).

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use strata::{Changed, Changes, Database, EventId, Precondition, Result, Schema, Table};

const SCHEMA: &str = "
    type Order @table { id: ID! @primaryKey  customer: String!  cents: Int! }
    type Customer @table { id: ID! @primaryKey  cents: Int! }
    type Progress @table { id: ID! @primaryKey  last: String! }
";

#[derive(Deserialize)]
struct Order {
    customer: String,
    cents: i64,
}

/// Handles that are cloned into every thread.
#[derive(Clone)]
pub struct Shop {
    database: Database,
    orders: Table,
    customers: Table,
    progress: Table,
}

impl Shop {
    /// Opens the shop in a directory.
    pub fn open(directory: &Path) -> Result<Self> {
        let database = Database::options().feed_log(1 << 30).open(directory, &Schema::parse(SCHEMA)?)?;
        let table = |name| database.table(name);
        Ok(Self { orders: table("Order")?, customers: table("Customer")?, progress: table("Progress")?, database })
    }

    /// Takes an order, which gets an id.
    pub fn order(&self, customer: &str, cents: i64) -> Result<()> {
        let fields = self.orders.fields().with("customer", customer)?.with("cents", cents)?;
        self.database.create(&self.orders, fields).map(drop)
    }

    /// Returns the changes behind what was counted. At the very first start, before any order, that is where the log ends now.
    pub fn changes(&self) -> Result<Changes<'_>> {
        if let Some(progress) = self.database.read(&self.progress, "spent")? {
            let last: EventId = progress.get("last")?.as_str().unwrap_or_default().parse()?;
            return self.database.changes_after(&self.orders, last);
        }
        let changes = self.database.changes(&self.orders)?;
        let begin = self.progress.fields().with("id", "spent")?.with("last", changes.position().to_string())?;
        self.database.create(&self.progress, begin)?;
        Ok(changes)
    }

    /// Counts an order, together with its place.
    fn count(&self, id: EventId, order: &Order) -> Result<()> {
        self.database.transact(|transaction| {
            let before = transaction.read(&self.customers, &order.customer)?;
            let before = before.map_or(Ok(0), |customer| Ok(customer.get("cents")?.as_i64().unwrap_or(0)))?;
            let fields = self.customers.fields().with("cents", before + order.cents)?;
            transaction.replace(&self.customers, &order.customer, fields, &Precondition::None)?;
            let fields = self.progress.fields().with("last", id.to_string())?;
            transaction.merge(&self.progress, "spent", fields, &Precondition::None).map(drop)
        })
    }

    /// Returns what all customers have spent, and all orders together.
    pub fn sums(&self) -> Result<(i64, i64)> {
        let view = self.database.view();
        let sum = |table: &Table| {
            table
                .query()
                .build()?
                .iter(&view)
                .map(|row| Ok(row?.get("cents")?.as_i64().unwrap_or(0)))
                .sum::<Result<i64>>()
        };
        Ok((sum(&self.customers)?, sum(&self.orders)?))
    }
}

/// Counts orders until there is none for so long; returns how many.
pub fn run(shop: &Shop, mut changes: Changes<'_>, until_idle: Duration) -> Result<usize> {
    let mut number = 0;
    while let Some(change) = changes.next_timeout(until_idle)? {
        if let Changed::Put(order) = change.what {
            shop.count(change.id, &order.to()?)?;
            number += 1;
        }
    }
    Ok(number)
}

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or_else(|| "shop".into());
    let shop = Shop::open(Path::new(&directory))?;
    let changes = shop.changes()?;
    (0..1000).try_for_each(|cents| shop.order("ann", cents))?;
    println!("{} orders counted", run(&shop, changes, Duration::from_secs(1))?);
    let (spent, ordered) = shop.sums()?;
    println!("customers have spent {spent} of {ordered}");
    Ok(())
}
