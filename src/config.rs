//! All options, filled in once: flags over environment over a TOML file over defaults.
//!
//! Each layer owns its options and their defaults; here they are only laid over each other. Every flag has a variable
//! (`--data-dir`, `STRATA_DATA_DIR`) and a place in the file, which is the shape of [`Config`]: what the server needs stands at
//! the top, what a layer needs in the table of its name. A word that is not known is refused wherever it stands.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Place, Result};
use crate::{feed, handlers, ingress, multicast, observability, size, static_files, storage, tls};

const PREFIX: &str = "STRATA_";

/// Everything a server is started with. Times in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Address and port to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The file with the schema.
    pub schema: Option<PathBuf>,
    /// Where the data is.
    pub data_dir: PathBuf,
    /// Where checkpoints are made on request; without it there are none.
    pub checkpoint_dir: Option<PathBuf>,
    /// Whether the records of tables, and the values of attributes, that the schema does not name are deleted.
    pub migrate: bool,
    /// A file to write the server's URL to when it is ready.
    pub ready_file: Option<PathBuf>,
    /// Whether an address that others can reach is allowed without authentication.
    pub insecure: bool,
    /// Threads that answer requests.
    pub workers: usize,
    /// Threads for single reads that need I/O, and as many for writes.
    pub pool_threads: usize,
    /// Threads for lists and other CPU-bound work.
    pub scan_threads: usize,
    /// Threads for NDJSON lists, each as fast as its client reads.
    pub dump_threads: usize,
    /// The maximum number of connections; more are answered with 503 and closed.
    pub connections: usize,
    /// How long the head of a request may take from its first byte, and a TLS handshake.
    pub header_timeout_ms: u64,
    /// Timeout for an idle connection.
    pub idle_timeout_ms: u64,
    /// Timeout for a client to read 64 KiB of a response.
    pub send_timeout_ms: u64,
    /// The interval at which the log is synced, where it has grown; 0: never.
    pub sync_every_ms: u64,
    /// How long connections are still taken after the server was told to stop and says that it is not ready.
    pub drain_ms: u64,
    /// Timeout for the requests in flight after that.
    pub stop_timeout_ms: u64,
    /// Of the change feed.
    pub feed: feed::Options,
    /// Of the handlers.
    pub handlers: handlers::Options,
    /// Of the ingress.
    pub ingress: ingress::Options,
    /// Of multicasts.
    pub multicast: multicast::Options,
    /// Of the observability.
    pub observability: observability::Options,
    /// Of the static files.
    pub static_files: static_files::Options,
    /// Of the storage.
    pub storage: storage::Options,
    /// Of TLS.
    pub tls: tls::Options,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9996),
            schema: None,
            data_dir: PathBuf::from("data"),
            checkpoint_dir: None,
            migrate: false,
            ready_file: None,
            insecure: false,
            workers: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            pool_threads: 32,
            scan_threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            dump_threads: 8,
            connections: 10_000,
            header_timeout_ms: 10_000,
            idle_timeout_ms: 75_000,
            send_timeout_ms: 20_000,
            sync_every_ms: 1000,
            drain_ms: 0,
            stop_timeout_ms: 30_000,
            feed: feed::Options::default(),
            handlers: handlers::Options::default(),
            ingress: ingress::Options::default(),
            multicast: multicast::Options::default(),
            observability: observability::Options::default(),
            static_files: static_files::Options::default(),
            // A write that would have to wait for the engine would make all others of its thread wait, too.
            storage: storage::Options { refuse_stalls: true, feed_log_bytes: 256 << 20, ..storage::Options::default() },
            tls: tls::Options::default(),
        }
    }
}

/// The options of `strata serve`. What is not given is taken from the environment, the file, the defaults, in this order.
#[derive(Args, Debug, Default, Serialize)]
pub struct Flags {
    /// A TOML file with options
    #[arg(long, value_name = "FILE", env = "STRATA_CONFIG")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// Print the effective configuration as JSON, and exit
    #[arg(long)]
    #[serde(skip)]
    pub print_config: bool,
    /// The file with the schema (GraphQL SDL)
    #[arg(long, value_name = "FILE", env = "STRATA_SCHEMA")]
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<PathBuf>,
    /// The data directory [default: data]
    #[arg(long, value_name = "DIR", env = "STRATA_DATA_DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    data_dir: Option<PathBuf>,
    /// A directory in which POST /_checkpoint makes copies of the store; without it there is no such path
    #[arg(long, value_name = "DIR", env = "STRATA_CHECKPOINT_DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint_dir: Option<PathBuf>,
    /// Delete the records of tables, and the values of attributes, that the schema does not name
    #[arg(long, value_name = "BOOLEAN", env = "STRATA_MIGRATE", num_args = 0..=1, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    migrate: Option<bool>,
    /// Address and port; port 0 takes a free one [default: 127.0.0.1:9996]
    #[arg(long, value_name = "ADDRESS", env = "STRATA_LISTEN", value_parser = address)]
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<SocketAddr>,
    /// A file to write the server's URL to when it is ready
    #[arg(long, value_name = "FILE", env = "STRATA_READY_FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    ready_file: Option<PathBuf>,
    /// Allow an address that is not loopback, although clients are not authenticated
    #[arg(long, value_name = "BOOLEAN", env = "STRATA_INSECURE", num_args = 0..=1, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    insecure: Option<bool>,
    /// Threads that answer requests [default: one a core]
    #[arg(long, value_name = "NUMBER", env = "STRATA_WORKERS", value_parser = number::<usize>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    workers: Option<usize>,
    /// Threads for lists and other CPU-bound work [default: one a core; with --storage 12]
    #[arg(long, value_name = "NUMBER", env = "STRATA_SCAN_THREADS", value_parser = number::<usize>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    scan_threads: Option<usize>,
    /// Threads for NDJSON lists, each as fast as its client reads [default: 8]
    #[arg(long, value_name = "NUMBER", env = "STRATA_DUMP_THREADS", value_parser = number::<usize>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    dump_threads: Option<usize>,
    /// Threads for single reads that need I/O, and as many for writes [default: 32; with --storage 256]
    #[arg(long, value_name = "NUMBER", env = "STRATA_POOL_THREADS", value_parser = number::<usize>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pool_threads: Option<usize>,
    /// The maximum number of connections [default: 10000]
    #[arg(long, value_name = "NUMBER", env = "STRATA_CONNECTIONS", value_parser = number::<usize>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    connections: Option<usize>,
    /// Timeout for the head of a request, and for a TLS handshake [default: 10000]
    #[arg(long, value_name = "MS", env = "STRATA_HEADER_TIMEOUT_MS", value_parser = number::<u64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    header_timeout_ms: Option<u64>,
    /// Timeout for an idle connection [default: 75000]
    #[arg(long, value_name = "MS", env = "STRATA_IDLE_TIMEOUT_MS", value_parser = number::<u64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_timeout_ms: Option<u64>,
    /// Timeout for a client to read 64 KiB of a response [default: 20000]
    #[arg(long, value_name = "MS", env = "STRATA_SEND_TIMEOUT_MS", value_parser = number::<u64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    send_timeout_ms: Option<u64>,
    /// Interval at which the log is synced in the background; 0: never [default: 1000]
    #[arg(long, value_name = "MS", env = "STRATA_SYNC_EVERY_MS", value_parser = number::<u64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    sync_every_ms: Option<u64>,
    /// How long to accept connections after SIGTERM, while /_ready answers 503 [default: 0]
    #[arg(long, value_name = "MS", env = "STRATA_DRAIN_MS", value_parser = number::<u64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    drain_ms: Option<u64>,
    /// Timeout for the requests in flight after that [default: 30000]
    #[arg(long, value_name = "MS", env = "STRATA_STOP_TIMEOUT_MS", value_parser = number::<u64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_timeout_ms: Option<u64>,
    #[command(flatten)]
    feed: FeedFlags,
    #[command(flatten)]
    handlers: HandlersFlags,
    #[command(flatten)]
    ingress: IngressFlags,
    #[command(flatten)]
    multicast: MulticastFlags,
    #[command(flatten)]
    observability: ObservabilityFlags,
    #[command(flatten)]
    static_files: StaticFilesFlags,
    #[command(flatten)]
    storage: StorageFlags,
    #[command(flatten)]
    tls: TlsFlags,
}

#[derive(Args, Debug, Default, Serialize)]
struct FeedFlags {
    /// The maximum number of change feed subscribers [default: 10000; in the file feed.subscribers]
    #[arg(
        id = "feed_subscribers",
        long = "feed-subscribers",
        value_name = "NUMBER",
        env = "STRATA_FEED_SUBSCRIBERS",
        value_parser = number::<usize>
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    subscribers: Option<usize>,
    /// The maximum size of all queued changes [default: 64M; in the file feed.queued_bytes]
    #[arg(
        id = "feed_queued_bytes",
        long = "feed-queued-bytes",
        value_name = "SIZE",
        env = "STRATA_FEED_QUEUED_BYTES",
        value_parser = size::parse
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    queued_bytes: Option<usize>,
    /// Interval of keep-alives to an idle subscriber [default: 15000; in the file feed.keep_alive_ms]
    #[arg(
        id = "feed_keep_alive_ms",
        long = "feed-keep-alive-ms",
        value_name = "MS",
        env = "STRATA_FEED_KEEP_ALIVE_MS",
        value_parser = number::<u64>
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_alive_ms: Option<u64>,
}

#[derive(Args, Debug, Default, Serialize)]
struct MulticastFlags {
    /// The maximum size of a message [default: 64K; in the file multicast.bytes]
    #[arg(
        id = "multicast_bytes",
        long = "multicast-bytes",
        value_name = "SIZE",
        env = "STRATA_MULTICAST_BYTES",
        value_parser = size::parse
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
    /// How long an idempotency key of a multicast is known, in seconds [default: 3600; in the file multicast.keep_s]
    #[arg(
        id = "multicast_keep_s",
        long = "multicast-keep-s",
        value_name = "SECONDS",
        env = "STRATA_MULTICAST_KEEP_S",
        value_parser = number::<u64>
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_s: Option<u64>,
    /// The maximum number of multicasts without a response [default: 64; in the file multicast.in_flight]
    #[arg(
        id = "multicasts_in_flight",
        long = "multicasts-in-flight",
        value_name = "NUMBER",
        env = "STRATA_MULTICASTS_IN_FLIGHT",
        value_parser = number::<usize>
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    in_flight: Option<usize>,
    /// Publish messages through these servers of NATS, too: host:port or URLs; repeatable [in the file multicast.nats_servers]
    #[arg(long, value_name = "ADDRESS", env = "STRATA_NATS_SERVERS", value_delimiter = ',', value_parser = address_of_broker)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nats_servers: Vec<String>,
    /// Delivered over NATS: somebody subscribed, or answered [default: interest; in the file multicast.nats_receipts]
    #[arg(long, value_name = "RECEIPTS", env = "STRATA_NATS_RECEIPTS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    nats_receipts: Option<multicast::Receipts>,
    /// Number of connections to NATS [default: 10; in the file multicast.nats_connections]
    #[arg(long, value_name = "NUMBER", env = "STRATA_NATS_CONNECTIONS", value_parser = number::<usize>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    nats_connections: Option<usize>,
    /// Publish to a stream of NATS, and keep messages until it has them [in the file multicast.jetstream]
    #[arg(long, value_name = "BOOLEAN", env = "STRATA_JETSTREAM", num_args = 0..=1, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    jetstream: Option<bool>,
    /// The maximum size of all messages kept for the stream [default: 1G; in the file multicast.outbox_bytes]
    #[arg(long, value_name = "SIZE", env = "STRATA_OUTBOX_BYTES", value_parser = size::parse)]
    #[serde(skip_serializing_if = "Option::is_none")]
    outbox_bytes: Option<usize>,
    /// The Redis of tables with registry: "redis": host:port or a URL [in the file multicast.redis_addr]
    #[arg(long, value_name = "ADDRESS", env = "STRATA_REDIS_ADDR", value_parser = address_of_broker)]
    #[serde(skip_serializing_if = "Option::is_none")]
    redis_addr: Option<String>,
}

#[derive(Args, Debug, Default, Serialize)]
struct HandlersFlags {
    /// The maximum number of records in one list [default: 10000; in the file handlers.max_rows]
    #[arg(long, value_name = "NUMBER", env = "STRATA_MAX_ROWS", value_parser = number::<usize>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    max_rows: Option<usize>,
    /// Size at which an answer with events of a stream ends [default: 1M; in the file handlers.stream_answer_bytes]
    #[arg(long, value_name = "SIZE", env = "STRATA_STREAM_ANSWER_BYTES", value_parser = size::parse)]
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_answer_bytes: Option<usize>,
    /// The maximum number of pixels of a picture of which a thumbnail is made [default: 50000000; in the file handlers.thumb_pixels]
    #[arg(long, value_name = "NUMBER", env = "STRATA_THUMB_PIXELS", value_parser = number::<u64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    thumb_pixels: Option<u64>,
    /// The maximum memory in which thumbnails are made [default: 256M; in the file handlers.thumb_memory]
    #[arg(long, value_name = "SIZE", env = "STRATA_THUMB_MEMORY", value_parser = size::parse)]
    #[serde(skip_serializing_if = "Option::is_none")]
    thumb_memory: Option<usize>,
    /// The maximum size of all thumbnails kept; with 0 each request makes its own [default: 64M; in the file handlers.thumb_cache_bytes]
    #[arg(long, value_name = "SIZE", env = "STRATA_THUMB_CACHE_BYTES", value_parser = size::parse)]
    #[serde(skip_serializing_if = "Option::is_none")]
    thumb_cache_bytes: Option<usize>,
    /// The maximum number of requests for which a thumbnail is made [default: 64; in the file handlers.thumbs_in_flight]
    #[arg(long, value_name = "NUMBER", env = "STRATA_THUMBS_IN_FLIGHT", value_parser = number::<usize>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    thumbs_in_flight: Option<usize>,
}

#[derive(Args, Debug, Default, Serialize)]
struct IngressFlags {
    /// The maximum size of a body [default: 1M; in the file ingress.body_bytes]
    #[arg(long, value_name = "SIZE", env = "STRATA_BODY_BYTES", value_parser = size::parse)]
    #[serde(skip_serializing_if = "Option::is_none")]
    body_bytes: Option<usize>,
    /// The maximum size of a blob [default: 5G; in the file ingress.blob_bytes]
    #[arg(long, value_name = "SIZE", env = "STRATA_BLOB_BYTES", value_parser = size::parse)]
    #[serde(skip_serializing_if = "Option::is_none")]
    blob_bytes: Option<usize>,
    /// Timeout for a body, and for each 64 KiB of a blob [default: 30000; in the file ingress.body_timeout_ms]
    #[arg(long, value_name = "MS", env = "STRATA_BODY_TIMEOUT_MS", value_parser = number::<u64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    body_timeout_ms: Option<u64>,
    /// The maximum number of bodies in flight [default: 8192; in the file ingress.bodies_in_flight]
    #[arg(long, value_name = "NUMBER", env = "STRATA_BODIES_IN_FLIGHT", value_parser = number::<usize>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    bodies_in_flight: Option<usize>,
    /// The maximum memory of all bodies in flight [default: 256M; in the file ingress.all_bodies_bytes]
    #[arg(long, value_name = "SIZE", env = "STRATA_ALL_BODIES_BYTES", value_parser = size::parse)]
    #[serde(skip_serializing_if = "Option::is_none")]
    all_bodies_bytes: Option<usize>,
    /// The maximum memory of all unsent responses [default: 256M; in the file ingress.all_responses_bytes]
    #[arg(long, value_name = "SIZE", env = "STRATA_ALL_RESPONSES_BYTES", value_parser = size::parse)]
    #[serde(skip_serializing_if = "Option::is_none")]
    all_responses_bytes: Option<usize>,
    /// Timeout to the first byte of a response [default: 30000, with --storage 60000; in the file ingress.request_timeout_ms]
    #[arg(long, value_name = "MS", env = "STRATA_REQUEST_TIMEOUT_MS", value_parser = number::<u64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    request_timeout_ms: Option<u64>,
    /// The maximum number of requests of a kind in its queue [default: 1024; in the file ingress.requests_in_flight]
    #[arg(long, value_name = "NUMBER", env = "STRATA_REQUESTS_IN_FLIGHT", value_parser = number::<usize>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_in_flight: Option<usize>,
    /// The maximum number of appends to streams in flight [default: 10000; in the file ingress.appends_in_flight]
    #[arg(long, value_name = "NUMBER", env = "STRATA_APPENDS_IN_FLIGHT", value_parser = number::<usize>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    appends_in_flight: Option<usize>,
    /// The maximum memory of appends to streams in flight [default: 64M; in the file ingress.append_bytes_in_flight]
    #[arg(long, value_name = "SIZE", env = "STRATA_APPEND_BYTES_IN_FLIGHT", value_parser = size::parse)]
    #[serde(skip_serializing_if = "Option::is_none")]
    append_bytes_in_flight: Option<usize>,
    /// A host name to accept beside localhost and IP addresses; repeatable [in the file ingress.allowed_hosts]
    #[arg(long = "allowed-host", value_name = "NAME", env = "STRATA_ALLOWED_HOSTS", value_delimiter = ',', value_parser = parsed::<ingress::HostName>)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allowed_hosts: Vec<ingress::HostName>,
    /// An origin whose pages may read and write (CORS); repeatable [in the file ingress.cors_origins]
    #[arg(long = "cors-origin", value_name = "ORIGIN", env = "STRATA_CORS_ORIGINS", value_delimiter = ',', value_parser = parsed::<ingress::Origin>)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cors_origins: Vec<ingress::Origin>,
    /// A proxy whose Forwarded or X-Forwarded-For says who asks; repeatable [in the file ingress.trusted_proxies]
    #[arg(long = "trusted-proxy", value_name = "CIDR", env = "STRATA_TRUSTED_PROXIES", value_delimiter = ',', value_parser = parsed::<ingress::Network>)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    trusted_proxies: Vec<ingress::Network>,
}

#[derive(Args, Debug, Default, Serialize)]
struct ObservabilityFlags {
    /// Write a line of JSON for each request to a file, - for standard error [in the file observability.access_log]
    #[arg(long, value_name = "FILE", env = "STRATA_ACCESS_LOG")]
    #[serde(skip_serializing_if = "Option::is_none")]
    access_log: Option<PathBuf>,
    /// The maximum number of queued lines [default: 8192; in the file observability.access_log_lines]
    #[arg(long, value_name = "NUMBER", env = "STRATA_ACCESS_LOG_LINES", value_parser = number::<usize>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    access_log_lines: Option<usize>,
    /// Time all requests for /_metrics; always on with an access log [in the file observability.timings]
    #[arg(long, value_name = "BOOLEAN", env = "STRATA_TIMINGS", num_args = 0..=1, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<bool>,
}

#[derive(Args, Debug, Default, Serialize)]
struct StaticFilesFlags {
    /// Serve the files of a folder beside the tables [in the file static_files.directory]
    #[arg(id = "static", long = "static", value_name = "DIR", env = "STRATA_STATIC")]
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<PathBuf>,
    /// Memory for the cached static files [default: 64M; in the file static_files.memory_bytes]
    #[arg(
        id = "static_memory_bytes",
        long = "static-memory-bytes",
        value_name = "SIZE",
        env = "STRATA_STATIC_MEMORY_BYTES",
        value_parser = size::parse
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<usize>,
    /// Cache-Control of the static files [default: no-cache; in the file static_files.cache_control]
    #[arg(
        id = "static_cache_control",
        long = "static-cache-control",
        value_name = "TEXT",
        env = "STRATA_STATIC_CACHE_CONTROL"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<String>,
}

#[derive(Args, Debug, Default, Serialize)]
struct StorageFlags {
    /// Size of the block cache (uncompressed); 0: none [default: 128M; in the file storage.cache_bytes]
    #[arg(long, value_name = "SIZE", env = "STRATA_CACHE_BYTES", value_parser = size::parse)]
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_bytes: Option<usize>,
    /// Size of the blob cache; 0: none [default: 32M; in the file storage.blob_cache_bytes]
    #[arg(long, value_name = "SIZE", env = "STRATA_BLOB_CACHE_BYTES", value_parser = size::parse)]
    #[serde(skip_serializing_if = "Option::is_none")]
    blob_cache_bytes: Option<usize>,
    /// Size at which a memtable is flushed [default: 64M; in the file storage.write_buffer_bytes]
    #[arg(long, value_name = "SIZE", env = "STRATA_WRITE_BUFFER_BYTES", value_parser = size::parse)]
    #[serde(skip_serializing_if = "Option::is_none")]
    write_buffer_bytes: Option<usize>,
    /// How much of the WAL is kept for change feeds to resume from [default: 256M; in the file storage.feed_log_bytes]
    #[arg(long, value_name = "SIZE", env = "STRATA_FEED_LOG_BYTES", value_parser = size::parse)]
    #[serde(skip_serializing_if = "Option::is_none")]
    feed_log_bytes: Option<usize>,
    /// How many files the store keeps open [default: a quarter of the limit, or what connections leave; in the file storage.open_files]
    #[arg(long, value_name = "NUMBER", env = "STRATA_OPEN_FILES", value_parser = number::<usize>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    open_files: Option<usize>,
    /// Keep the store in a database instead of a directory: postgres://user@host/database?table=NAME or tikv://host:port [in the file storage.url]
    // Checked later: the parser of the command line would print what it refuses, with the password.
    #[arg(id = "storage", long = "storage", value_name = "URL", env = "STRATA_STORAGE", hide_env_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// A file with the password for the database; else PGPASSWORD [in the file storage.password_file]
    #[arg(
        id = "storage_password_file",
        long = "storage-password-file",
        value_name = "FILE",
        env = "STRATA_STORAGE_PASSWORD_FILE"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    password_file: Option<PathBuf>,
    /// Free space below which writes that add are refused; 0: none [default: 64M; in the file storage.reserve_bytes]
    #[arg(long, value_name = "SIZE", env = "STRATA_RESERVE_BYTES", value_parser = size::parse)]
    #[serde(skip_serializing_if = "Option::is_none")]
    reserve_bytes: Option<usize>,
    /// Start although synced writes are missing in the log, without them; damaged files are kept [in the file storage.accept_lost_log]
    #[arg(long, value_name = "BOOLEAN", env = "STRATA_ACCEPT_LOST_LOG", num_args = 0..=1, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    accept_lost_log: Option<bool>,
}

#[derive(Args, Debug, Default, Serialize)]
struct TlsFlags {
    /// Serve HTTPS with a self-signed certificate for localhost [in the file tls.mode]
    #[arg(id = "tls", long = "tls", value_name = "MODE", env = "STRATA_TLS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<tls::Mode>,
    /// Serve HTTPS with the certificate chain in a PEM file [in the file tls.certificate]
    #[arg(id = "tls_cert", long = "tls-cert", value_name = "FILE", env = "STRATA_TLS_CERT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<PathBuf>,
    /// The private key of the certificate, in a PEM file [in the file tls.key]
    #[arg(id = "tls_key", long = "tls-key", value_name = "FILE", env = "STRATA_TLS_KEY")]
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<PathBuf>,
}

/// The default of `pool_threads` where the store is in a database.
const REMOTE_POOL_THREADS: i64 = 256;

/// The default of `request_timeout_ms` there.
const REMOTE_TIMEOUT_MS: i64 = 60_000;

/// The default of `scan_threads` there: lists wait, too, and with dumps they have less than all connections.
const REMOTE_SCAN_THREADS: i64 = 12;

impl Flags {
    /// Lays the flags over the file that they name, if they do, and both over the defaults.
    ///
    /// # Errors
    /// `Storage` if the file cannot be read; `Invalid` if something in it is not known, with line and column.
    pub fn config(&self) -> Result<Config> {
        let (mut whole, mut given) = (table(&Config::default())?, toml::Table::new());
        if let Some(path) = &self.config {
            let text = read(path, "the options")?;
            // First by itself, because then a mistake has a line and a column.
            let place = |error: toml::de::Error| located(path, &text, &error);
            toml::from_str::<Config>(&text).map_err(place)?;
            given = text.parse().map_err(place)?;
        }
        lay_over(&mut given, table(self)?);
        if given.get("storage").is_some_and(|storage| storage.get("url").is_some()) {
            if given.contains_key("data_dir") {
                return Err(two_places());
            }
            // Each request waits for the database on a thread.
            given.entry("pool_threads").or_insert(toml::Value::Integer(REMOTE_POOL_THREADS));
            given.entry("scan_threads").or_insert(toml::Value::Integer(REMOTE_SCAN_THREADS));
            let ingress = given.entry("ingress").or_insert(toml::Value::Table(toml::Table::new()));
            if let toml::Value::Table(ingress) = ingress {
                // Longer than it takes to find out what became of a commit whose answer is lost.
                ingress.entry("request_timeout_ms").or_insert(toml::Value::Integer(REMOTE_TIMEOUT_MS));
            }
        }
        lay_over(&mut whole, given);
        let config: Config = whole.try_into().map_err(|error: toml::de::Error| Error::invalid(error.message()))?;
        config.check()?;
        Ok(config)
    }
}

impl Config {
    /// What the file with the schema says.
    ///
    /// # Errors
    /// `Invalid` if there is no such option; `Storage` if the file cannot be read.
    pub fn read_schema(&self) -> Result<(&Path, String)> {
        let path = self.schema.as_deref().ok_or_else(|| Error::invalid("no schema: give one with --schema FILE"))?;
        read(path, "the schema").map(|text| (path, text))
    }

    fn check(&self) -> Result<()> {
        let at_least_one = [
            ("workers", self.workers as u64),
            ("pool_threads", self.pool_threads as u64),
            ("scan_threads", self.scan_threads as u64),
            ("dump_threads", self.dump_threads as u64),
            ("connections", self.connections as u64),
            ("header_timeout_ms", self.header_timeout_ms),
            ("idle_timeout_ms", self.idle_timeout_ms),
            ("send_timeout_ms", self.send_timeout_ms),
            ("feed.keep_alive_ms", self.feed.keep_alive_ms),
            ("handlers.max_rows", self.handlers.max_rows as u64),
            ("handlers.thumb_pixels", self.handlers.thumb_pixels),
            ("handlers.thumb_memory", self.handlers.thumb_memory as u64),
            ("handlers.thumbs_in_flight", self.handlers.thumbs_in_flight as u64),
            ("ingress.body_bytes", self.ingress.body_bytes as u64),
            ("ingress.blob_bytes", self.ingress.blob_bytes as u64),
            ("ingress.body_timeout_ms", self.ingress.body_timeout_ms),
            ("ingress.bodies_in_flight", self.ingress.bodies_in_flight as u64),
            ("ingress.requests_in_flight", self.ingress.requests_in_flight as u64),
            ("ingress.appends_in_flight", self.ingress.appends_in_flight as u64),
            ("ingress.append_bytes_in_flight", self.ingress.append_bytes_in_flight as u64),
            ("ingress.request_timeout_ms", self.ingress.request_timeout_ms),
            ("multicast.bytes", self.multicast.bytes as u64),
            ("multicast.in_flight", self.multicast.in_flight as u64),
            ("multicast.nats_connections", self.multicast.nats_connections as u64),
            ("multicast.outbox_bytes", self.multicast.outbox_bytes as u64),
            ("observability.access_log_lines", self.observability.access_log_lines as u64),
        ];
        match at_least_one.iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(Error::invalid(format!("the option {name} must be at least 1"))),
            None => self.multicast.check(),
        }
    }
}

/// Returns the refusal where both a directory and a database are named.
pub fn two_places() -> Error {
    Error::invalid(
        "--data-dir (STRATA_DATA_DIR) and --storage (STRATA_STORAGE) are two places for one store: choose one",
    )
}

/// Returns the variables of the environment that have a name close to one of the options (`STRATA_MAXROWS`), with that one. Others that begin
/// so are not ours: Kubernetes sets `STRATA_PORT` where a service is named strata.
pub fn misspelt_variables<'n>(set: impl IntoIterator<Item = &'n str>) -> Vec<(&'n str, String)> {
    let command = Flags::augment_args(clap::Command::new("serve"));
    let known: Vec<_> = command.get_arguments().filter_map(|option| option.get_env()?.to_str()).collect();
    let misspelt =
        set.into_iter().filter(|name| name.starts_with(PREFIX) && !known.contains(name)).filter_map(|name| {
            let plain = |name: &str| name[PREFIX.len()..].replace('_', "").to_ascii_uppercase();
            let distance = |other: &str| strsim::damerau_levenshtein(&plain(name), &plain(other));
            let nearest = known.iter().min_by_key(|other| distance(other))?;
            (distance(nearest) <= (plain(nearest).len() / 4).max(1)).then(|| (name, (*nearest).to_owned()))
        });
    misspelt.collect()
}

fn address(text: &str) -> std::result::Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "expected an IP address and a port, such as 127.0.0.1:9996 or [::1]:9996")
}

/// Parses a number; TOML has none above `i64::MAX`.
fn number<T: TryFrom<i64>>(text: &str) -> std::result::Result<T, String> {
    let number = text.parse::<i64>().ok().and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| format!("expected a number from 0 to {}", i64::MAX))
}

fn parsed<T: TryFrom<String, Error = String>>(text: &str) -> std::result::Result<T, String> {
    text.to_owned().try_into()
}

/// Checks an address of a broker. The text is kept, because an address hides its credentials where it is printed.
fn address_of_broker(text: &str) -> std::result::Result<String, String> {
    parsed::<multicast::Address>(text).map(|address| address.as_str().to_owned())
}

/// A text file, which is `what`.
///
/// # Errors
/// `Storage`.
pub fn read(path: &Path, what: &str) -> Result<String> {
    std::fs::read_to_string(path)
        .map_err(|error| Error::storage(format!("cannot read {what} in {}", path.display()), error))
}

fn table(options: &impl Serialize) -> Result<toml::Table> {
    toml::Table::try_from(options).map_err(|error| Error::storage("cannot print the configuration", error))
}

/// Puts what the upper table has in place of what the lower one has, table by table.
fn lay_over(lower: &mut toml::Table, upper: toml::Table) {
    for (name, value) in upper {
        match (lower.get_mut(&name), value) {
            (Some(toml::Value::Table(lower)), toml::Value::Table(upper)) => lay_over(lower, upper),
            (_, value) => {
                lower.insert(name, value);
            }
        }
    }
}

fn located(path: &Path, text: &str, error: &toml::de::Error) -> Error {
    let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or("");
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
    let at = Error::Invalid { detail: error.message().to_owned(), place: Place::Line { line, column } };
    Error::invalid(format!("{}:{at}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, CommandFactory, Parser};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }

    fn flags(line: &[&str]) -> Flags {
        Line::try_parse_from([&["strata"], line].concat()).unwrap().flags
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("strata.toml");
        std::fs::write(&file, "workers = 3\nconnections = 5\n[ingress]\nbody_bytes = 7\n").unwrap();
        let config =
            flags(&["--config", file.to_str().unwrap(), "--workers", "4", "--max-rows", "9"]).config().unwrap();
        assert_eq!((config.workers, config.connections), (4, 5));
        assert_eq!((config.ingress.body_bytes, config.handlers.max_rows), (7, 9));
        assert_eq!(config.ingress.requests_in_flight, ingress::Options::default().requests_in_flight);
        assert!(config.storage.refuse_stalls);
    }

    #[test]
    fn sizes_may_be_written_as_people_do() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("strata.toml");
        std::fs::write(&file, "[storage]\ncache_bytes = \"1G\"\nwrite_buffer_bytes = 4096\n").unwrap();
        let config = flags(&["--config", file.to_str().unwrap(), "--body-bytes", "64K"]).config().unwrap();
        assert_eq!((config.storage.cache_bytes, config.storage.write_buffer_bytes), (1 << 30, 4096));
        assert_eq!(config.ingress.body_bytes, 64 << 10);
        assert!(Line::try_parse_from(["strata", "--cache-bytes", "much"]).is_err());
        std::fs::write(&file, "[storage]\ncache_bytes = \"much\"\n").unwrap();
        let error = flags(&["--config", file.to_str().unwrap()]).config().unwrap_err().to_string();
        assert!(error.contains("strata.toml:2:") && error.contains("64K"), "{error}");
    }

    #[test]
    fn a_variable_with_a_name_close_to_an_option_is_misspelt() {
        for (set, meant) in [
            ("STRATA_MAXROWS", "STRATA_MAX_ROWS"),
            ("STRATA_DATADIR", "STRATA_DATA_DIR"),
            ("STRATA_ALLOWED_HOST", "STRATA_ALLOWED_HOSTS"),
            ("STRATA_SHCEMA", "STRATA_SCHEMA"),
            ("STRATA_TLSCERT", "STRATA_TLS_CERT"),
            ("STRATA_LISTN", "STRATA_LISTEN"),
            ("STRATA_data_dir", "STRATA_DATA_DIR"),
        ] {
            assert_eq!(misspelt_variables([set]), [(set, meant.to_owned())]);
        }
        let foreign = [
            "STRATA_SERVICE_HOST",
            "STRATA_SERVICE_PORT",
            "STRATA_PORT",
            "STRATA_PORT_9996_TCP_ADDR",
            "STRATA_BENCH_DIR",
        ];
        let right = ["STRATA_MAX_ROWS", "STRATA_TLS", "MAXROWS", "STRATA", "STRATA_"];
        assert_eq!(misspelt_variables(foreign.into_iter().chain(right)), []);
    }

    #[test]
    fn without_anything_there_are_defaults() {
        assert_eq!(Flags::default().config().unwrap(), Config::default());
    }

    #[test]
    fn a_slip_of_the_pen_is_refused_at_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("strata.toml");
        for (text, place) in
            [("x = 1\n", "1:1: "), ("workers = 1\n\n[ingress]\nbody = 7\n", "4:1: "), ("\n workers = [\n", "")]
        {
            std::fs::write(&file, text).unwrap();
            let error = flags(&["--config", file.to_str().unwrap()]).config().unwrap_err().to_string();
            assert!(error.contains(&format!("strata.toml:{place}")) && !error.contains('\n'), "{error}");
        }
        assert!(flags(&["--workers", "0"]).config().unwrap_err().to_string().contains("workers"));
        assert!(Line::try_parse_from(["strata", "--listen", "nowhere"]).is_err());
    }

    #[test]
    fn every_flag_has_a_variable_and_a_place_in_the_file() {
        let command: Command = Line::command();
        let defaults = table(&Config::default()).unwrap();
        for argument in
            command.get_arguments().filter(|argument| !["print_config", "config"].contains(&argument.get_id().as_str()))
        {
            let name = argument.get_id().as_str();
            let variable = argument.get_env().unwrap().to_str().unwrap();
            assert_eq!(variable, format!("STRATA_{}", name.to_uppercase()));
            let tables = defaults.values().filter_map(toml::Value::as_table);
            let optional = [
                "schema",
                "checkpoint_dir",
                "ready_file",
                "access_log",
                "static",
                "tls",
                "tls_cert",
                "tls_key",
                "open_files",
                "redis_addr",
                "storage",
                "storage_password_file",
            ]
            .contains(&name);
            // In the file, the name of the table may say what they are about.
            let prefixes = ["static_", "feed_", "multicast_", "multicasts_"];
            let short = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
            let known = |table: &toml::Table| table.contains_key(name) || table.contains_key(short);
            assert!(optional || defaults.contains_key(name) || tables.into_iter().any(known), "{name}");
        }
    }
}
