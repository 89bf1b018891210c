//! Transfers between accounts, from several threads: `cargo run --release --example transfer -- DIRECTORY`.
//!
//! However the process ends, a transfer has happened or it has not. One that is refused has the program's own error.

use std::path::Path;

use strata::{Database, Error, Precondition, Result, Schema, Table, Transaction};

const SCHEMA: &str = "type Account @table { id: ID! @primaryKey  balance: Int! }";
const ACCOUNTS: usize = 20;

/// What each account begins with.
const BALANCE: i64 = 1000;

/// Handles that all threads use.
pub struct Bank {
    database: Database,
    accounts: Table,
}

/// Why a transfer was refused.
#[derive(Debug)]
pub enum Refused {
    /// The account lacks so much.
    Lacks(i64),
    /// The store has failed.
    Store(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl Bank {
    /// Opens the bank in a directory; a new one gets its accounts.
    pub fn open(directory: &Path) -> Result<Self> {
        let database = Database::open(directory, &Schema::parse(SCHEMA)?)?;
        let bank = Self { accounts: database.table("Account")?, database };
        if bank.total()? == 0 {
            let account = |number: usize| bank.accounts.fields().with("id", name(number))?.with("balance", BALANCE);
            let all = (0..ACCOUNTS).map(account).collect::<Result<Vec<_>>>()?;
            bank.database.create_all(&bank.accounts, all)?;
        }
        Ok(bank)
    }

    /// Moves an amount from one account to another.
    pub fn transfer(&self, from: &str, to: &str, amount: i64) -> std::result::Result<(), Refused> {
        self.database.try_transact(|transaction| {
            let left = self.balance(transaction, from)? - amount;
            if left < 0 {
                return Err(Refused::Lacks(-left));
            }
            self.set(transaction, from, left)?;
            // Behind the write, which it sees: the two may be one account.
            let more = self.balance(transaction, to)? + amount;
            Ok(self.set(transaction, to, more)?)
        })
    }

    fn balance(&self, transaction: &mut Transaction, id: &str) -> Result<i64> {
        let account = transaction.read(&self.accounts, id)?;
        let account = account.ok_or_else(|| Error::invalid(format!("there is no account {id}")))?;
        Ok(account.get("balance")?.as_i64().unwrap_or(0))
    }

    fn set(&self, transaction: &mut Transaction, id: &str, balance: i64) -> Result<()> {
        let fields = self.accounts.fields().with("balance", balance)?;
        transaction.merge(&self.accounts, id, fields, &Precondition::None).map(drop)
    }

    /// Returns the sum of all accounts, at one moment.
    pub fn total(&self) -> Result<i64> {
        let (view, all) = (self.database.view(), self.accounts.query().build()?);
        all.iter(&view).map(|account| Ok(account?.get("balance")?.as_i64().unwrap_or(0))).sum()
    }
}

fn name(number: usize) -> String {
    format!("account-{number}")
}

/// Transfers so often, by four threads; returns how many were refused.
pub fn run(bank: &Bank, transfers: usize) -> usize {
    let is_refused = |number: usize| {
        let (from, to) = (name(number * 7 % ACCOUNTS), name((number * 11 + 3) % ACCOUNTS));
        bank.transfer(&from, &to, (number % 300) as i64).is_err()
    };
    std::thread::scope(|scope| {
        let run =
            |first| scope.spawn(move || (first..transfers).step_by(4).filter(|number| is_refused(*number)).count());
        let threads: Vec<_> = (0..4).map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).sum()
    })
}

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or_else(|| "bank".into());
    let bank = Bank::open(Path::new(&directory))?;
    let refused = run(&bank, 100_000);
    println!("100000 transfers, {refused} refused; all accounts have {} together", bank.total()?);
    Ok(())
}
