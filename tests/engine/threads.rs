//! Many threads on few keys: nothing is lost, nobody waits for ever, and what is unique stays so.

use std::collections::HashSet;
use std::sync::{Barrier, Mutex};

use strata::encoding::Value;
use strata::encoding::body::parse_object;
use strata::error::Result;
use strata::query::{Limits, Query};
use strata::transaction::{Database, Precondition};

use super::{Random, SDL, assert_consistent, change, found, fresh, ids, json, outcome};

const THREADS: usize = 8;

/// Runs the same work in all threads at once, each with its number.
fn in_threads(work: impl Fn(usize) + Sync) {
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (work, barrier) = (&work, &barrier);
            scope.spawn(move || {
                barrier.wait();
                work(thread);
            });
        }
    });
}

fn points(database: &Database, id: &str) -> i64 {
    json(database, "User", id)["points"].as_i64().expect("an Int")
}

/// A closure for `update` that adds to the points.
fn add<'t>(
    user: &'t strata::schema::Table,
    amount: i64,
) -> impl Fn(strata::encoding::Record<'t, &[u8]>) -> Result<strata::encoding::Fields<'t, 'static>> {
    let points = user.attribute("points").expect("it exists");
    move |record| match record.value(points)? {
        Value::Int(points) => Ok(change(user, "points", Value::Int(points + amount))),
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_ten_thousand_increments_none_is_lost() {
    let (_directory, database) = fresh(SDL);
    let user = database.table("User").expect("it exists");
    database.create(user, br#"{"id":"one","name":"One","points":0}"#).expect("valid");
    in_threads(|_| {
        for _ in 0..1250 {
            database.update(user, "one", add(user, 1)).expect("it is there");
        }
    });
    assert_eq!(points(&database, "one"), 10_000);
    assert_consistent(&database);
}

/// Each of the first threads has a counter of its own; those that come later share one.
#[test]
fn of_the_calls_of_many_threads_none_is_left_out_of_the_counters() {
    const MANY: usize = 64;
    let (_directory, database) = fresh(SDL);
    let user = database.table("User").expect("it exists");
    let before = database.counters().gets;
    let all_are_there = Barrier::new(MANY);
    std::thread::scope(|scope| {
        for _ in 0..MANY {
            scope.spawn(|| {
                let read = || assert!(database.read(user, "none").expect("readable").is_none());
                read();
                all_are_there.wait();
                (1..5000).for_each(|_| read());
            });
        }
    });
    assert_eq!(database.counters().gets - before, MANY as u64 * 5000);
}

/// Who looks for work and takes it in one step takes what nobody else has taken: the condition is asked again under the locks.
#[test]
fn what_many_take_by_a_condition_each_takes_once() {
    const RECORDS: usize = 400;
    let (_directory, database) = fresh(SDL);
    let user = database.table("User").expect("it exists");
    let bodies: Vec<_> = (0..RECORDS).map(|id| format!(r#"{{"id":"{id}","name":"n","city":"{}"}}"#, id % 4)).collect();
    database.create_all(user, format!("[{}]", bodies.join(",")).as_bytes()).expect("valid");
    let taken = Mutex::new(Vec::new());
    in_threads(|thread| {
        for city in 0..4 {
            let query = format!("city=={}&points==null", (city + thread) % 4);
            let query = Query::parse(database.schema(), user, &query, &Limits::in_url(RECORDS)).expect("valid");
            let patch = change(user, "points", Value::Int(thread as i64));
            let count = query.update(&database, &patch, RECORDS).expect("no more than there are");
            taken.lock().expect("no panic").push((thread as i64, count));
        }
    });
    let taken = taken.into_inner().expect("no panic");
    assert_eq!(taken.iter().map(|(_, count)| count).sum::<usize>(), RECORDS);
    for thread in 0..THREADS as i64 {
        let mine = taken.iter().filter(|(taker, _)| *taker == thread).map(|(_, count)| count).sum::<usize>();
        let stored = ids(&database, "User").iter().filter(|id| points(&database, id) == thread).count();
        assert_eq!(mine, stored, "of thread {thread}");
    }
    assert_consistent(&database);
}

/// An update that stages only what changes would revive half of a record, were it written after the truncation.
#[test]
fn truncations_and_updates_leave_whole_records_or_none() {
    let (_directory, database) = fresh(SDL);
    let user = database.table("User").expect("it exists");
    let body: Vec<_> = (0..50).map(|id| format!(r#"{{"id":"{id}","name":"n{id}","tags":["a","b"]}}"#)).collect();
    let body = format!("[{}]", body.join(","));
    in_threads(|thread| {
        let mut random = Random(thread as u64 + 7);
        for round in 0..200 {
            match thread {
                0 => {
                    database.create_all(user, body.as_bytes()).expect("the table is empty");
                    std::thread::yield_now();
                    database.truncate(user).expect("no key is held for long");
                }
                1 | 2 => {
                    let query = strata::query::Query::default();
                    let listed = super::listed(&database, "User", &query).len();
                    assert!(listed == 0 || listed == 50, "{listed} of 50 were read");
                }
                _ => {
                    let (id, city) = (random.below(50).to_string(), format!(r#"{{"city":"c{round}"}}"#));
                    let merged = database.merge(user, &id, city.as_bytes(), &Precondition::None);
                    assert!(["ok", "not found"].contains(&outcome(&merged)), "{merged:?}");
                }
            }
        }
    });
    assert_eq!(ids(&database, "User"), Vec::<String>::new());
    assert_consistent(&database);
}

#[test]
fn optimistic_increments_by_checksum_are_not_lost_either() {
    let (_directory, database) = fresh(SDL);
    let user = database.table("User").expect("it exists");
    database.create(user, br#"{"id":"one","name":"One","points":0}"#).expect("valid");
    in_threads(|_| {
        let mut done = 0;
        while done < 100 {
            let (checksum, patch) = {
                let record = database.read(user, "one").expect("readable").expect("it is there");
                let Value::Int(now) = record.value(user.attribute("points").expect("it exists")).expect("an Int")
                else {
                    panic!("points are an Int")
                };
                (record.checksum(), format!(r#"{{"points":{}}}"#, now + 1))
            };
            let merged = database.merge(user, "one", patch.as_bytes(), &Precondition::OneOf(vec![checksum]));
            match outcome(&merged) {
                "ok" => done += 1,
                other => assert_eq!(other, "stale"),
            }
        }
    });
    assert_eq!(points(&database, "one"), 800);
}

#[test]
fn transfers_in_opposite_orders_end_and_keep_the_sum() {
    const ACCOUNTS: usize = 6;
    let (_directory, database) = fresh(SDL);
    let user = database.table("User").expect("it exists");
    for account in 0..ACCOUNTS {
        let body = format!(r#"{{"id":"{account}","name":"x","points":1000}}"#);
        database.create(user, body.as_bytes()).expect("valid");
    }
    in_threads(|thread| {
        let mut random = Random(thread as u64 + 1);
        for _ in 0..500 {
            let (from, step) = (random.below(ACCOUNTS), 1 + random.below(ACCOUNTS - 1));
            let (from, to) = (from.to_string(), ((from + step) % ACCOUNTS).to_string());
            let amount = random.below(20) as i64;
            let moved = database.transact(|transaction| {
                transaction.update(user, &from, add(user, -amount))?;
                transaction.update(user, &to, add(user, amount)).map(drop)
            });
            assert_eq!(outcome(&moved), "ok");
        }
    });
    let sum: i64 = (0..ACCOUNTS).map(|account| points(&database, &account.to_string())).sum();
    assert_eq!(sum, 6000);
    assert_consistent(&database);
}

#[test]
fn of_many_who_claim_one_value_one_gets_it() {
    let (_directory, database) = fresh(SDL);
    let user = database.table("User").expect("it exists");
    let (won, barrier) = (Mutex::new(Vec::new()), Barrier::new(THREADS));
    in_threads(|thread| {
        for round in 0..200 {
            barrier.wait(); // Nothing below may panic: the others would wait for ever.
            let body = match thread % 2 {
                0 => format!(r#"{{"name":"x","mail":"{round}"}}"#),
                _ => format!(r#"{{"id":"{round}","name":"x","mail":"{round}"}}"#),
            };
            let outcome = outcome(&database.create(user, body.as_bytes()));
            if let Ok(mut won) = won.lock() {
                won.push((round, outcome));
            }
        }
    });
    let won = won.into_inner().expect("no panic");
    let count = |wanted| won.iter().filter(|(_, outcome)| *outcome == wanted).count();
    assert_eq!((count("ok"), count("conflict")), (200, 200 * (THREADS - 1)));
    let winners: HashSet<_> = won.iter().filter(|(_, outcome)| *outcome == "ok").map(|(round, _)| round).collect();
    assert_eq!(winners.len(), 200);
    assert_eq!(ids(&database, "User").len(), 200);
    assert_consistent(&database);
}

/// One verb or transaction over few ids and few unique values; every refusal must be one of those that such verbs meet.
fn random_verb(database: &Database, random: &mut Random) {
    let user = database.table("User").expect("it exists");
    let id = |random: &mut Random| format!("u{}", random.below(8));
    let body = |random: &mut Random| {
        let mail = ["null", "\"a\"", "\"b\"", "\"c\"", "\"d\""][random.below(5)];
        let (code, tag, name) = (random.below(5), random.below(3), random.below(3));
        format!(r#"{{"name":"{name}","mail":{mail},"code":{code},"city":"{tag}","tags":["{tag}","{name}"]}}"#)
    };
    let (one, other, first, second) = (id(random), id(random), body(random), body(random));
    let with_id = |id: &str, body: &str| format!("{{\"id\":\"{id}\",{}", &body[1..]);
    let result = match random.below(8) {
        0 => database.create(user, with_id(&one, &first).as_bytes()).map(drop),
        1 => database.create(user, first.as_bytes()).map(drop),
        2 => database.replace(user, &one, first.as_bytes(), &Precondition::None).map(drop),
        3 => database.merge(user, &one, first.as_bytes(), &Precondition::None).map(drop),
        4 => database.merge(user, &one, br#"{"points":1}"#, &Precondition::Exists).map(drop),
        5 => database.delete(user, &one, &Precondition::None),
        6 => {
            let all = format!("[{},{}]", with_id(&one, &first), with_id(&other, &second));
            database.create_all(user, all.as_bytes()).map(drop)
        }
        _ => database.transact(|transaction| {
            transaction.delete(user, &one, &Precondition::None)?;
            transaction.replace(&other, parse_object(user, first.as_bytes())?, &Precondition::None)?;
            transaction.create(parse_object(user, second.as_bytes())?).map(drop)
        }),
    };
    let expected = ["ok", "conflict", "not found"];
    assert!(expected.contains(&outcome(&result)), "{:?}", result.err());
}

#[test]
fn records_and_indexes_agree_after_random_verbs_of_many_threads() {
    let (_directory, database) = fresh(SDL);
    in_threads(|thread| {
        let mut random = Random(0xBEEF + thread as u64);
        for _ in 0..1500 {
            random_verb(&database, &mut random);
            if random.below(50) == 0 {
                // A lookup in the middle of it all finds only what matches.
                let city = random.below(3).to_string();
                found(&database, "User", "city", &Value::Text(city.into()));
            }
        }
    });
    assert_consistent(&database);
    let all: Vec<_> = ids(&database, "User").iter().map(|id| json(&database, "User", id)).collect();
    assert!(!all.is_empty());
    for attribute in ["mail", "code"] {
        let held: Vec<_> = all.iter().map(|user| user[attribute].to_string()).filter(|value| value != "null").collect();
        let distinct: HashSet<_> = held.iter().collect();
        assert_eq!(distinct.len(), held.len(), "{attribute}: {held:?}");
    }
}

/// A lookup takes no lock: what it visits matches all the same, and every record that always matches is there.
#[test]
fn a_lookup_among_writers_is_of_one_moment() {
    let (_directory, database) = fresh(SDL);
    let user = database.table("User").expect("it exists");
    let city = user.attribute("city").expect("it exists");
    for number in 0..20 {
        let city = ["Oslo", "Rome"][number % 2];
        let body = format!(r#"{{"id":"{number}","name":"x","city":"{city}"}}"#);
        database.create(user, body.as_bytes()).expect("valid");
    }
    in_threads(|thread| {
        let mut random = Random(thread as u64 + 99);
        for _ in 0..300 {
            if thread % 2 == 0 {
                // Two records trade places in one transaction, so at every moment as many are in Oslo.
                let (one, other) = (random.below(20).to_string(), random.below(20).to_string());
                let traded = database.transact(|transaction| {
                    let read = |record: Option<strata::transaction::Owned<'_>>| {
                        Ok::<_, strata::error::Error>(record.expect("never deleted").value(city)?.into_owned())
                    };
                    let (here, there) = (read(transaction.read(user, &one)?)?, read(transaction.read(user, &other)?)?);
                    transaction.merge(&one, change(user, "city", there), &Precondition::None)?;
                    transaction.merge(&other, change(user, "city", here), &Precondition::None).map(drop)
                });
                assert_eq!(outcome(&traded), "ok");
            } else {
                assert_eq!(found(&database, "User", "city", &Value::Text("Oslo".into())).len(), 10);
            }
        }
    });
    assert_consistent(&database);
}

#[test]
fn a_unique_value_that_changes_hands_always_has_an_owner() {
    let (_directory, database) = fresh(SDL);
    let user = database.table("User").expect("it exists");
    let body = |text: &'static str| parse_object(user, text.as_bytes());
    database.create(user, br#"{"id":"a","name":"A","mail":"x@x"}"#).expect("valid");
    database.create(user, br#"{"id":"b","name":"B"}"#).expect("valid");
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0..2000 {
                let (from, to) = if turn % 2 == 0 { ("a", "b") } else { ("b", "a") };
                let passed = database.transact(|transaction| {
                    transaction.merge(from, body(r#"{"mail":null}"#)?, &Precondition::None)?;
                    transaction.merge(to, body(r#"{"mail":"x@x"}"#)?, &Precondition::None)
                });
                assert_eq!(outcome(&passed), "ok");
            }
            done.store(true, std::sync::atomic::Ordering::Release);
        });
        while !done.load(std::sync::atomic::Ordering::Acquire) {
            assert_eq!(found(&database, "User", "mail", &Value::Text("x@x".into())).len(), 1);
        }
    });
    assert_consistent(&database);
}
