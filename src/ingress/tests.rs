//! The paths of a request through the ingress, its limits, and the endpoints beside the tables.

use super::*;
use crate::schema::Schema;
use crate::storage;
use http_body_util::BodyExt;
use std::net::Ipv4Addr;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn ingress(folder: &tempfile::TempDir, options: Options) -> Arc<Ingress> {
    let schema = "type Product @table @export { id: ID! @primaryKey name: String @indexed } \
                  type Ledger @table(durability: \"strong\") @export { id: ID! @primaryKey }";
    let schema = Schema::parse(schema).unwrap();
    let database = Database::open(folder.path(), schema, &storage::Options::default()).unwrap();
    Arc::new(Ingress::new(database, handlers::Options::default(), options, Handle::current()).unwrap())
}

async fn ask(ingress: &Arc<Ingress>, method: &str, path: &str, body: &'static str) -> (u16, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap();
    let response = ingress.respond(request, &ingress.peer(LOCAL, None)).await;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn every_path_through_the_picture() {
    let folder = tempfile::tempdir().unwrap();
    let ingress = ingress(&folder, Options { body_bytes: 64, ..Options::default() });
    assert_eq!(ask(&ingress, "POST", "/Product", r#"{"id":"1","name":"a"}"#).await.0, 201);
    assert_eq!(ask(&ingress, "GET", "/Product/1", "").await, (200, r#"{"id":"1","name":"a"}"#.to_owned()));
    assert_eq!(ask(&ingress, "HEAD", "/Product/1", "").await, (200, String::new()));
    assert_eq!(ask(&ingress, "GET", "/Product", "").await, (200, r#"[{"id":"1","name":"a"}]"#.to_owned()));
    assert_eq!(ask(&ingress, "GET", "/Product?name==a&limit=5", "").await.1, r#"[{"id":"1","name":"a"}]"#);
    assert_eq!(ask(&ingress, "POST", "/Ledger", r#"[{"id":"1"},{"id":"2"}]"#).await.0, 201);
    assert_eq!(ask(&ingress, "GET", "/Ledger/2", "").await.1, r#"{"id":"2"}"#);
    assert_eq!(ask(&ingress, "GET", "/Nothing/2", "").await.0, 404);
    let long = "                                                                 ";
    assert_eq!(ask(&ingress, "POST", "/Product", long).await.0, 413);
}

#[tokio::test]
async fn what_is_not_in_memory_is_answered_by_the_pool() {
    let folder = tempfile::tempdir().unwrap();
    {
        let ingress = ingress(&folder, Options::default());
        assert_eq!(ask(&ingress, "POST", "/Product", r#"{"id":"1","name":"a"}"#).await.0, 201);
        ingress.scheduler.database().store().flush().unwrap();
    }
    let ingress = ingress(&folder, Options::default());
    let cold = ingress.scheduler.database().never_blocking();
    assert!(matches!(cold.read(cold.table("Product").unwrap(), "1"), Err(Error::WouldBlock)));
    assert_eq!(ask(&ingress, "GET", "/Product/1", "").await.0, 200);
    assert_eq!(ask(&ingress, "PATCH", "/Product/1", r#"{"name":"b"}"#).await.0, 200);
}

/// Returns a pool whose only thread is busy until the sender is used.
fn busy_pool() -> (tokio::runtime::Runtime, std::sync::mpsc::Sender<()>) {
    let pool = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    let (free, busy) = std::sync::mpsc::channel();
    pool.spawn_blocking(move || busy.recv());
    (pool, free)
}

#[tokio::test]
async fn strong_writes_wait_for_one_sync_without_a_thread() {
    let folder = tempfile::tempdir().unwrap();
    let schema = Schema::parse("type Ledger @table(durability: \"strong\") @export { id: ID! @primaryKey }").unwrap();
    let database = Database::open(folder.path(), schema, &storage::Options::default()).unwrap();
    let ((pool, _never_free), (syncing, free)) = (busy_pool(), busy_pool());
    let pools = Pools { syncing: syncing.handle().clone(), ..Pools::from(pool.handle().clone()) };
    let options = Options { requests_in_flight: 1, ..Options::default() };
    let ingress = Arc::new(Ingress::new(database.clone(), handlers::Options::default(), options, pools).unwrap());
    let before = database.counters().syncs;
    let mut responses = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let ingress = Arc::clone(&ingress);
        responses.spawn(async move { ask(&ingress, "POST", "/Ledger", "{}").await.0 });
    }
    while database.counters().writes < 64 {
        assert!(responses.try_join_next().is_none(), "nothing was synced yet");
        tokio::task::yield_now().await;
    }
    free.send(()).unwrap();
    assert_eq!(responses.join_all().await, [201; 64]);
    assert_eq!(database.counters().syncs, before + 2, "of the first, and of all that waited meanwhile");
    [pool, syncing].into_iter().for_each(tokio::runtime::Runtime::shutdown_background);
}

#[tokio::test]
async fn a_lock_is_waited_for_without_a_thread() {
    let folder = tempfile::tempdir().unwrap();
    let ingress = ingress(&folder, Options::default());
    assert_eq!(ask(&ingress, "PUT", "/Product/1", r#"{"name":"a"}"#).await.0, 201);
    let (database, (pool, _never_free)) = (ingress.scheduler.database().clone(), busy_pool());
    let (handlers, pools) = (handlers::Options::default(), Pools::from(pool.handle().clone()));
    let ingress = Arc::new(Ingress::new(database.clone(), handlers, Options::default(), pools).unwrap());
    let ((held, holding), (release, released)) = (oneshot::channel(), std::sync::mpsc::channel::<()>());
    let holder = std::thread::spawn(move || {
        let held = parking_lot::Mutex::new(Some(held));
        let table = database.table("Product")?;
        database.transact(|transaction| {
            let record = transaction.read(table, "1")?;
            held.lock().take().map(|held| held.send(()));
            released.recv().unwrap();
            Ok(record.is_some())
        })
    });
    holding.await.unwrap();
    let other = Arc::clone(&ingress);
    let patch = tokio::spawn(async move { ask(&other, "PATCH", "/Product/1", r#"{"name":"b"}"#).await });
    while ingress.scheduler.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(ask(&ingress, "GET", "/Product/1", "").await.1, r#"{"id":"1","name":"a"}"#);
    release.send(()).unwrap();
    assert_eq!(patch.await.unwrap().0, 200);
    assert_eq!(ask(&ingress, "GET", "/Product/1", "").await.1, r#"{"id":"1","name":"b"}"#);
    assert!(holder.join().unwrap().unwrap());
    pool.shutdown_background();
}

#[tokio::test]
async fn over_the_limit_nobody_is_let_in() {
    let folder = tempfile::tempdir().unwrap();
    let ingress = ingress(&folder, Options { requests_in_flight: 1, ..Options::default() });
    let peer = ingress.peer(LOCAL, None);
    let first = Permit::take(&ingress.scheduler, &peer, Pool::Writing).unwrap();
    assert_eq!(ask(&ingress, "POST", "/Product", "[{}]").await.0, 503);
    assert_eq!(ask(&ingress, "POST", "/Product", "{}").await.0, 201, "what does not wait is not counted");
    assert_eq!(ask(&ingress, "GET", "/Product", "").await.0, 200, "lists do not wait for writes");
    drop(first);
    assert_eq!(ask(&ingress, "POST", "/Product", "[{}]").await.0, 201);
}

#[tokio::test]
async fn a_write_that_was_done_is_never_refused_for_the_length_of_its_response() {
    let folder = tempfile::tempdir().unwrap();
    let ingress = ingress(&folder, Options { all_responses_bytes: 1 << 10, ..Options::default() });
    let name = "n".repeat(20 << 10);
    let record = format!("{{\"id\":\"1\",\"name\":\"{name}\"}}");
    let bodies = [
        ("POST", "/Product", record.clone(), 201),
        ("PUT", "/Product/1", record.clone(), 204),
        ("PATCH", "/Product/1", "{}".to_owned(), 204),
        ("PUT", "/Product/2", record.replace("\"1\"", "\"2\""), 201),
        ("POST", "/Product", format!("[{}]", record.replace("\"1\"", "\"3\"")), 201),
        (
            "POST",
            "/_batch",
            format!(r#"{{"operations":[{{"method":"POST","path":"/Product","body":{{"id":"4","name":"{name}"}}}}]}}"#),
            204,
        ),
        (
            "POST",
            "/graphql",
            format!(r#"{{"query":"mutation {{ createProduct(data: {{id: \"5\", name: \"{name}\"}}) {{ name }} }}"}}"#),
            204,
        ),
    ];
    for (method, path, body, expected) in bodies {
        let body: &'static str = body.leak();
        assert_eq!(ask(&ingress, method, path, body).await, (expected, String::new()), "{method} {path}");
    }
    assert_eq!(
        ask(&ingress, "GET", "/Product?pagination=true&limit=0", "").await.1,
        r#"{"data":[],"total":5,"limit":0,"offset":0}"#
    );
    assert_eq!(ask(&ingress, "GET", "/Product/1", "").await.0, 503, "what only reads is refused");
    assert_eq!(ask(&ingress, "POST", "/graphql", r#"{"query":"{ Product(id: \"1\") { name } }"}"#).await.0, 503);
}

#[tokio::test]
async fn a_panic_is_a_response_with_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let ingress = ingress(&folder, Options::default());
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let (parts, ()) = Request::get("/").header("traceparent", traceparent).body(()).unwrap().into_parts();
    let context = ingress.recorder.begin(&parts, || LOCAL);
    let outcome = panics::caught(|| -> handlers::Result<Response> { panic!("no luck") });
    let response = ingress.problem(&outcome.unwrap_err(), &context, &parts.headers);
    let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(response.status(), 500);
    assert_eq!(body["requestId"], "0af7651916cd43dd8448eb211c80319c", "its trace, so that others find it, too");
    assert_eq!(body["requestId"], response.headers()["x-request-id"].to_str().unwrap());
    assert!(!body.to_string().contains("luck"));
}

#[tokio::test]
async fn a_panic_in_the_pool_keeps_its_message() {
    let folder = tempfile::tempdir().unwrap();
    let ingress = ingress(&folder, Options::default());
    let peer = ingress.peer(LOCAL, None);
    let outcome = ingress.scheduler.in_pool::<()>(Pool::Reading, &peer, || panic!("no luck")).await;
    assert!(matches!(outcome, Err(Failure::Panicked(message)) if message == "no luck"));
    let outcome = ingress.scheduler.in_pool::<()>(Pool::Reading, &peer, || panic!("no luck with {LOCAL}")).await;
    assert!(matches!(outcome, Err(Failure::Panicked(message)) if message == "no luck with 127.0.0.1"));
    let outcome = ingress.scheduler.in_pool::<()>(Pool::Reading, &peer, || std::panic::panic_any(7)).await;
    assert!(matches!(outcome, Err(Failure::Panicked(message)) if message == "no message"));
}

#[tokio::test]
async fn beside_the_tables() {
    let folder = tempfile::tempdir().unwrap();
    let ingress = ingress(&folder, Options::default());
    assert_eq!(ask(&ingress, "GET", "/_ready", "").await.0, 503);
    ingress.set_ready(true);
    assert_eq!(ask(&ingress, "GET", "/_ready", "").await.0, 200);
    assert_eq!(ask(&ingress, "GET", "/_health", "").await, (200, r#"{"status":"ok"}"#.to_owned()));
    assert_eq!(ask(&ingress, "HEAD", "/_health", "").await, (200, String::new()));
    assert_eq!(ask(&ingress, "OPTIONS", "/_health", "").await.0, 204);
    assert_eq!(ask(&ingress, "OPTIONS", "*", "").await.0, 204);
    assert_eq!(ask(&ingress, "POST", "/_health", "").await.0, 405);
    let (status, counters) = ask(&ingress, "GET", "/_counters", "").await;
    let counters: serde_json::Value = serde_json::from_str(&counters).unwrap();
    assert!(status == 200 && counters["gets"].is_u64(), "{counters}");
    let request = Request::get("/_counters").header("host", "localhost").body(Full::new(Bytes::new())).unwrap();
    let elsewhere = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    assert_eq!(ingress.respond(request, &ingress.peer(elsewhere, None)).await.status(), 403);
}

#[tokio::test]
async fn what_fails_beside_the_tables_has_a_name_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let ingress = ingress(&folder, Options::default());
    let ingress = Arc::into_inner(ingress).unwrap().with_checkpoints(Path::new("/proc"));
    let ingress = Arc::new(ingress);
    let (status, body) = ask(&ingress, "POST", "/_checkpoint?name=copy", "").await;
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert!(status == 500 && body["requestId"].is_string(), "{status} {body}");
    assert_eq!(ask(&ingress, "HEAD", "/_nothing", "").await, (404, String::new()));
}

#[tokio::test]
async fn the_console_is_for_the_same_machine() {
    let folder = tempfile::tempdir().unwrap();
    let ingress = ingress(&folder, Options::default());
    let status = async |path: &str, from: IpAddr| {
        let request = Request::get(path).header("host", "localhost").header("accept", "text/html");
        let request = request.body(Full::new(Bytes::new())).unwrap();
        ingress.respond(request, &ingress.peer(from, None)).await.status().as_u16()
    };
    let elsewhere = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
    for path in ["/_console", "/_console/", "/_console/console.js"] {
        let statuses = (status(path, LOCAL).await, status(path, mapped).await, status(path, elsewhere).await);
        assert_eq!(statuses, (200, 200, 403), "{path}");
    }
    assert_eq!((status("/_console/no", LOCAL).await, status("/_console/no", elsewhere).await), (404, 403));
    assert_eq!((status("/", LOCAL).await, status("/", elsewhere).await), (307, 404));
}

/// The future of something that waits for a thread.
fn waiting(permit: Permit) -> tokio::task::JoinHandle<handlers::Result<()>> {
    tokio::spawn(permit.in_pool(|_| ()))
}

#[tokio::test]
async fn the_newest_of_the_greediest_gives_way() {
    let (folder, pool) = (tempfile::tempdir().unwrap(), tokio::runtime::Builder::new_current_thread());
    let pool = { pool }.max_blocking_threads(1).build().unwrap();
    let (release, released) = std::sync::mpsc::channel::<()>();
    pool.handle().spawn_blocking(move || released.recv());
    let schema = Schema::parse("type T @table @export { id: ID! @primaryKey }").unwrap();
    let database = Database::open(folder.path(), schema, &storage::Options::default()).unwrap();
    let options = Options { requests_in_flight: 4, ..Options::default() };
    let ingress = Ingress::new(database, handlers::Options::default(), options, pool.handle().clone()).unwrap();
    let peer = |last: u8| ingress.peer(Ipv4Addr::new(127, 0, 0, last).into(), None);
    let permit = |last: u8| Permit::take(&ingress.scheduler, &peer(last), Pool::Reading);
    let mut greedy: Vec<_> = (0..4).map(|_| waiting(permit(9).unwrap())).collect();
    tokio::task::yield_now().await;
    assert!(permit(9).is_none(), "it has all");
    let others: Vec<_> = (0..2).map(|_| waiting(permit(1).unwrap())).collect();
    assert!(permit(1).is_none() && permit(9).is_none(), "two and two");
    for newest in greedy.split_off(2) {
        assert!(matches!(newest.await.unwrap(), Err(Failure::Overloaded)));
    }
    release.send(()).unwrap();
    for served in greedy.into_iter().chain(others) {
        served.await.unwrap().unwrap();
    }
    assert_eq!(ingress.limits().used(Limited::Reads), 0);
    assert_eq!(ingress.limits().outcomes(Limited::Reads), Outcomes { refused: 3, given_up: 2 });
    pool.shutdown_background();
}
