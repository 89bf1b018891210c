//! The account balances wherever tasks are cancelled.

use std::time::Instant;

use proptest::prelude::*;
use strata_load::expectation::Failure;
use strata_load::ledger::Ledger;
use tokio::task::{JoinSet, LocalSet, yield_now};

/// Generates the wait of each arrival, the time that its request takes, and whether it is right; the times in turns of the runtime.
fn requests() -> impl Strategy<Value = Vec<(u64, u64, bool)>> {
    prop::collection::vec((0..50u64, 0..50u64, any::<bool>()), 1..60)
}

async fn turns(number: u64) {
    for _ in 0..number {
        yield_now().await;
    }
}

proptest! {
    #[test]
    fn cancelled_at_any_moment_nothing_is_lost(requests in requests(), cancelled in 0..100u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let ledger = Ledger::new(1, Instant::now(), None, false);
        let scheduled = requests.len() as u64;
        let expected = requests.clone();
        LocalSet::new().block_on(&runtime, async {
            let mut tasks = JoinSet::new();
            for (waits, takes, right) in requests {
                let arrival = ledger.schedule(0, Instant::now());
                tasks.spawn_local(async move {
                    turns(waits).await;
                    let flight = arrival.send(Instant::now());
                    turns(takes).await;
                    flight.end(Instant::now(), 7, if right { Ok(()) } else { Err(Failure::Body) });
                });
            }
            turns(cancelled).await;
            tasks.shutdown().await;
        });
        let account = &ledger.accounts()[0];
        let failed: u64 = account.failed.values().map(|times| times.len()).sum();
        prop_assert_eq!(account.scheduled, scheduled);
        prop_assert_eq!(account.scheduled, account.sent + account.dropped);
        prop_assert_eq!(account.sent, account.ok + failed + account.censored);
        prop_assert_eq!(account.body_bytes_received, 7 * (account.ok + failed));
        prop_assert_eq!(account.service.len(), account.ok);
        prop_assert_eq!(account.response.len(), account.ok);
        prop_assert_eq!(account.send_lag.len(), account.sent);
        // Each task has its turn before the one that cancels has its next.
        let ended = expected.iter().filter(|(waits, takes, _)| waits + takes + 2 < cancelled).count() as u64;
        prop_assert!(account.ok + failed >= ended);
    }
}
