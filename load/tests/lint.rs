//! Reports of other tools: one that holds, and the same with one figure changed.

use std::collections::BTreeSet;

use strata_load::lint::report;

/// Reports as tools print them, and tables, each after a line with what it is and the rules that it breaks.
const REPORTS: [&str; 2] = [include_str!("reports.txt"), include_str!("tables.txt")];

const WRK: &str = "Running 10s test @ http://127.0.0.1:8080/\n  2 threads and 50 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     4.50ms    1.89ms  42.92ms   93.69%\n    Req/Sec     5.62k     1.07k    6.20k    86.54%\n  Latency Distribution\n     50%    4.20ms\n     75%    5.10ms\n     90%    6.00ms\n     99%    9.80ms\n  110000 requests in 10.00s, 15.38MB read\nRequests/sec:  11000.00\nTransfer/sec:      1.53MB\n";
const HEY: &str = "Summary:\n  Total:\t10.0 secs\n  Slowest:\t0.0500 secs\n  Fastest:\t0.0010 secs\n  Average:\t0.0050 secs\n  Requests/sec:\t1000.0\n\nLatency distribution:\n  50% in 0.0040 secs\n  95% in 0.0090 secs\n  99% in 0.0200 secs\n\nStatus code distribution:\n  [200]\t10000 responses\n";
const K6: &str = "     http_req_duration..............: avg=5ms min=1ms med=4ms max=50ms p(90)=8ms p(95)=9ms\n     http_req_failed................: 0.00% 0 out of 10000\n     http_reqs......................: 10000 1000.0/s\n";
const VEGETA: &str = "Requests      [total, rate, throughput]         1200, 120.00, 120.00\nDuration      [total, attack, wait]             10s, 9.9s, 100ms\nLatencies     [min, mean, 50, 90, 95, 99, max]  90ms, 113ms, 110ms, 120ms, 130ms, 150ms, 300ms\nBytes In      [total, mean]                     1, 1\nSuccess       [ratio]                           100.00%\nStatus Codes  [code:count]                      200:1200\n";
const DRILL: &str = "Time taken for tests      5.0 seconds\nTotal requests            20\nSuccessful requests       20\nFailed requests           0\nRequests per second       4.00 [#/sec]\nMedian time per request   100ms\nAverage time per request  110ms\n99.0'th percentile        200ms\n";

#[test]
fn reports_that_hold_are_left_in_peace() {
    for text in [WRK, HEY, K6, VEGETA, DRILL] {
        assert_eq!(report(text), [""; 0], "{text}");
    }
    let oha = HEY.replace("0.0500 secs", "50.0 ms").replace("99% in", "99.00% in");
    assert_eq!(report(&oha), [""; 0]);
}

#[test]
fn contradictions_are_named_by_their_rule() {
    for (text, from, to, rule) in [
        (WRK, "     99%    9.80ms", "     99%    1.80ms", "T9"),
        (WRK, "Latency     4.50ms", "Latency     9.90ms", "T9"),
        (WRK, "50 connections", "5 connections", "T9: Little's law"),
        (WRK, "Requests/sec:  11000.00", "Requests/sec:  27000.00", "T3"),
        (HEY, "[200]\t10000 responses", "[200]\t4000 responses\n  [503]\t6000 responses", "T3: 6000 of 10000"),
        (HEY, "Average:\t0.0050", "Average:\t0.5000", "T9"),
        (K6, "0 out of 10000", "900 out of 10000", "T3"),
        (K6, "p(95)=9ms", "p(95)=70ms", "T9"),
        (VEGETA, "200:1200", "200:600 503:600", "T3"),
        (VEGETA, "90ms, 113ms", "90ms, 13ms", "T9"),
        (DRILL, "4.00 [#/sec]", "40.00 [#/sec]", "T3"),
    ] {
        assert!(text.contains(from), "{from}");
        let found = report(&text.replace(from, to));
        assert!(found.iter().any(|line| line.contains(rule)), "{from} as {to}: {found:?}");
    }
}

#[test]
fn tables_are_read_row_by_row() {
    let table = "| Operation | Mean | P50 | P95 | P99 | Max |\n|---|---|---|---|---|---|\n| GET | 1.2 ms | 1.0 ms | 2.0 ms | 3.0 ms | 9.0 ms |\n| DELETE | 0.00 ms | 0.00 ms | 0.00 ms | 0.00 ms | 0.00 ms |\n| LIST | 2400 ms | 50 ms | 100 ms | 100 ms | 56000 ms |\n";
    let found = report(table);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("line 4: T1"), "{found:?}");
    assert!(found[1].starts_with("line 5: T9: a mean of 2400"), "{found:?}");
}

#[test]
fn each_report_has_its_verdict() {
    let mut wrong = Vec::new();
    for case in REPORTS.iter().flat_map(|reports| reports.split("=== ").skip(1)) {
        let (head, text) = case.split_once('\n').unwrap();
        let (_, rules) = head.rsplit_once(": ").unwrap();
        let expected: BTreeSet<_> = rules.split(' ').filter(|rule| *rule != "holds").collect();
        let found = report(text);
        let broken: BTreeSet<_> = found
            .iter()
            .filter_map(|line| line.split(": ").find(|word| word.starts_with('T') && word.len() <= 3))
            .collect();
        if broken != expected {
            wrong.push(format!("{head}: {found:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_holds_no_figures_is_not_taken_for_a_good_report() {
    assert_eq!(report("all is well").len(), 1);
}
