//! All options, filled in once: flags over environment over a TOML file over defaults.
//!
//! Each layer owns its options and their defaults; here they are only laid over each other. Every flag has a variable
//! (`--data-dir`, `STRATA_DATA_DIR`) and a place in the file, which is the shape of [`Config`]: what the server needs stands at
//! the top, what a layer needs in the table of its name. A word that is not known is refused wherever it stands.
//!
//! A field of [`Config`] has the key, the type and the default; its row in `OPTIONS` is what the command line adds: what it takes, and its
//! help. All that is given is a value for the file before it is one of the program, so that there is one way to read it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::builder::{
    BoolValueParser, EnumValueParser, PathBufValueParser, StringValueParser, TypedValueParser, ValueParser,
};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

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
#[derive(Args, Debug, Default)]
pub struct Flags {
    /// A TOML file with options
    #[arg(long, value_name = "FILE", env = "STRATA_CONFIG")]
    config: Option<PathBuf>,
    /// Print the effective configuration as JSON, and exit
    #[arg(long)]
    pub print_config: bool,
    #[command(flatten)]
    given: Given,
}

/// What flags and variables say, in the shape of the file.
#[derive(Debug, Default)]
struct Given(Table);

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        command.args(options())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let mut given = Table::new();
        for option in options() {
            let key = option.get_id().as_str();
            let values: Vec<_> = matches.get_many::<Value>(key).into_iter().flatten().cloned().collect();
            let value = match option.get_action() {
                ArgAction::Append if !values.is_empty() => Some(Value::Array(values)),
                _ => values.into_iter().next(),
            };
            lay_over(&mut given, value.map(|value| at(key, value)).unwrap_or_default());
        }
        Ok(Self(given))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The options that have a flag, in the order of the help: the key in the file, what the flag takes, what the option is for. The flag has
/// the name of the field, unless another stands before what it takes.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("schema", "FILE", "The file with the schema (GraphQL SDL)"),
    ("data_dir", "DIR", "The data directory"),
    (
        "checkpoint_dir",
        "DIR",
        "A directory in which POST /_checkpoint makes copies of the store; without it there is no such path",
    ),
    ("migrate", "BOOLEAN", "Delete the records of tables, and the values of attributes, that the schema does not name"),
    ("listen", "ADDRESS", "Address and port; port 0 takes a free one"),
    ("ready_file", "FILE", "A file to write the server's URL to when it is ready"),
    ("insecure", "BOOLEAN", "Allow an address that is not loopback, although clients are not authenticated"),
    ("workers", "NUMBER", "Threads that answer requests"),
    ("scan_threads", "NUMBER", "Threads for lists and other CPU-bound work"),
    ("dump_threads", "NUMBER", "Threads for NDJSON lists, each as fast as its client reads"),
    ("pool_threads", "NUMBER", "Threads for single reads that need I/O, and as many for writes"),
    ("connections", "NUMBER", "The maximum number of connections"),
    ("header_timeout_ms", "MS", "Timeout for the head of a request, and for a TLS handshake"),
    ("idle_timeout_ms", "MS", "Timeout for an idle connection"),
    ("send_timeout_ms", "MS", "Timeout for a client to read 64 KiB of a response"),
    ("sync_every_ms", "MS", "Interval at which the log is synced in the background; 0: never"),
    ("drain_ms", "MS", "How long to accept connections after SIGTERM, while /_ready answers 503"),
    ("stop_timeout_ms", "MS", "Timeout for the requests in flight after that"),
    ("feed.subscribers", "--feed-subscribers NUMBER", "The maximum number of change feed subscribers"),
    ("feed.queued_bytes", "--feed-queued-bytes SIZE", "The maximum size of all queued changes"),
    ("feed.keep_alive_ms", "--feed-keep-alive-ms MS", "Interval of keep-alives to an idle subscriber"),
    ("handlers.max_rows", "NUMBER", "The maximum number of records in one list"),
    ("handlers.stream_answer_bytes", "SIZE", "Size at which an answer with events of a stream ends"),
    ("handlers.thumb_pixels", "NUMBER", "The maximum number of pixels of a picture of which a thumbnail is made"),
    ("handlers.thumb_memory", "SIZE", "The maximum memory in which thumbnails are made"),
    (
        "handlers.thumb_cache_bytes",
        "SIZE",
        "The maximum size of all thumbnails kept; with 0 each request makes its own",
    ),
    ("handlers.thumbs_in_flight", "NUMBER", "The maximum number of requests for which a thumbnail is made"),
    ("ingress.body_bytes", "SIZE", "The maximum size of a body"),
    ("ingress.blob_bytes", "SIZE", "The maximum size of a blob"),
    ("ingress.body_timeout_ms", "MS", "Timeout for a body, and for each 64 KiB of a blob"),
    ("ingress.bodies_in_flight", "NUMBER", "The maximum number of bodies in flight"),
    ("ingress.all_bodies_bytes", "SIZE", "The maximum memory of all bodies in flight"),
    ("ingress.all_responses_bytes", "SIZE", "The maximum memory of all unsent responses"),
    ("ingress.request_timeout_ms", "MS", "Timeout to the first byte of a response"),
    ("ingress.requests_in_flight", "NUMBER", "The maximum number of requests of a kind in its queue"),
    ("ingress.appends_in_flight", "NUMBER", "The maximum number of appends to streams in flight"),
    ("ingress.append_bytes_in_flight", "SIZE", "The maximum memory of appends to streams in flight"),
    (
        "ingress.allowed_hosts",
        "--allowed-host NAME",
        "A host name to accept beside localhost and IP addresses; repeatable",
    ),
    ("ingress.cors_origins", "--cors-origin ORIGIN", "An origin whose pages may read and write (CORS); repeatable"),
    (
        "ingress.trusted_proxies",
        "--trusted-proxy CIDR",
        "A proxy whose Forwarded or X-Forwarded-For says who asks; repeatable",
    ),
    ("multicast.bytes", "--multicast-bytes SIZE", "The maximum size of a message"),
    (
        "multicast.keep_s",
        "--multicast-keep-s SECONDS",
        "How long an idempotency key of a multicast is known, in seconds",
    ),
    ("multicast.in_flight", "--multicasts-in-flight NUMBER", "The maximum number of multicasts without a response"),
    (
        "multicast.nats_servers",
        "ADDRESS",
        "Publish messages through these servers of NATS, too: host:port or URLs; repeatable",
    ),
    ("multicast.nats_receipts", "RECEIPTS", "Delivered over NATS: somebody subscribed, or answered"),
    ("multicast.nats_connections", "NUMBER", "Number of connections to NATS"),
    ("multicast.jetstream", "BOOLEAN", "Publish to a stream of NATS, and keep messages until it has them"),
    ("multicast.outbox_bytes", "SIZE", "The maximum size of all messages kept for the stream"),
    ("multicast.redis_addr", "ADDRESS", "The Redis of tables with registry: \"redis\": host:port or a URL"),
    ("observability.access_log", "FILE", "Write a line of JSON for each request to a file, - for standard error"),
    ("observability.access_log_lines", "NUMBER", "The maximum number of queued lines"),
    ("observability.timings", "BOOLEAN", "Time all requests for /_metrics; always on with an access log"),
    ("static_files.directory", "--static DIR", "Serve the files of a folder beside the tables"),
    ("static_files.memory_bytes", "--static-memory-bytes SIZE", "Memory for the cached static files"),
    ("static_files.cache_control", "--static-cache-control TEXT", "Cache-Control of the static files"),
    ("storage.cache_bytes", "SIZE", "Size of the block cache (uncompressed); 0: none"),
    ("storage.blob_cache_bytes", "SIZE", "Size of the blob cache; 0: none"),
    ("storage.write_buffer_bytes", "SIZE", "Size at which a memtable is flushed"),
    ("storage.feed_log_bytes", "SIZE", "How much of the WAL is kept for change feeds to resume from"),
    ("storage.open_files", "NUMBER", "How many files the store keeps open"),
    (
        "storage.url",
        "--storage URL",
        "Keep the store in a database instead of a directory: postgres://user@host/database?table=NAME or tikv://host:port",
    ),
    (
        "storage.password_file",
        "--storage-password-file FILE",
        "A file with the password for the database; else PGPASSWORD",
    ),
    ("storage.reserve_bytes", "SIZE", "Free space below which writes that add are refused; 0: none"),
    (
        "storage.accept_lost_log",
        "BOOLEAN",
        "Start although synced writes are missing in the log, without them; damaged files are kept",
    ),
    ("tls.mode", "--tls MODE", "Serve HTTPS with a self-signed certificate for localhost"),
    ("tls.certificate", "--tls-cert FILE", "Serve HTTPS with the certificate chain in a PEM file"),
    ("tls.key", "--tls-key FILE", "The private key of the certificate, in a PEM file"),
];

fn options() -> impl Iterator<Item = Arg> {
    let defaults = Value::try_from(Config::default()).expect("the defaults can stand in a file");
    OPTIONS.iter().map(move |(key, takes, help)| {
        let default = key.split('.').try_fold(&defaults, |value, name| value.get(name));
        option(key, takes, help, default)
    })
}

fn option(key: &'static str, takes: &'static str, help: &str, default: Option<&Value>) -> Arg {
    let name = key.rsplit_once('.').map_or(key, |(_, name)| name);
    let (flag, takes) = match takes.strip_prefix("--").and_then(|takes| takes.split_once(' ')) {
        Some((flag, takes)) => (flag.to_owned(), takes),
        None => (name.replace('_', "-"), takes),
    };
    // The flag of a list names one of it, the variable all.
    let variable = if matches!(default, Some(Value::Array(_))) { name } else { &flag };
    let variable = format!("{PREFIX}{}", variable.replace('-', "_").to_ascii_uppercase());
    let help = format!("{help}{}", note(key, takes, default));
    let option = Arg::new(key).long(flag).env(variable).value_name(takes).value_parser(parser(key, takes)).help(help);
    // A URL may have a password.
    let option = option.hide_env_values(takes == "URL");
    match default {
        Some(Value::Boolean(_)) => option.num_args(0..=1).default_missing_value("true"),
        Some(Value::Array(_)) => option.value_delimiter(',').action(ArgAction::Append),
        _ => option,
    }
}

/// What stands behind the help of an option: its default, and its key if that is in a table.
fn note(key: &str, takes: &str, default: Option<&Value>) -> String {
    let default = match (key, default) {
        ("workers" | "scan_threads", _) => Some("one a core".to_owned()),
        ("storage.open_files", _) => Some("a quarter of the limit, or what connections leave".to_owned()),
        (_, Some(Value::Integer(bytes))) if takes == "SIZE" => Some(size::text(*bytes)),
        (_, Some(Value::Integer(number))) => Some(number.to_string()),
        (_, Some(Value::String(text))) => Some(text.clone()),
        _ => None,
    };
    let (place, sign) = if key.contains('.') { (Some(format!("in the file {key}")), ',') } else { (None, ';') };
    let remote = REMOTE.iter().find(|(other, _)| *other == key);
    let remote = remote.map(|(_, value)| format!("{sign} with --storage {value}")).unwrap_or_default();
    let default = default.map(|default| format!("default: {default}{remote}"));
    let parts: Vec<_> = default.into_iter().chain(place).collect();
    if parts.is_empty() { String::new() } else { format!(" [{}]", parts.join("; ")) }
}

/// Returns the parser that makes a value for the file of what an option takes.
fn parser(key: &str, takes: &str) -> ValueParser {
    match takes {
        "NUMBER" | "MS" | "SECONDS" => ValueParser::new(number),
        "SIZE" => ValueParser::new(number_of_bytes),
        "BOOLEAN" => ValueParser::new(BoolValueParser::new().map(Value::from)),
        "FILE" | "DIR" => ValueParser::new(PathBufValueParser::new().try_map(Value::try_from)),
        "ADDRESS" if key == "listen" => ValueParser::new(address),
        "ADDRESS" => ValueParser::new(address_of_broker),
        "NAME" => ValueParser::new(parsed::<ingress::HostName>),
        "ORIGIN" => ValueParser::new(parsed::<ingress::Origin>),
        "CIDR" => ValueParser::new(parsed::<ingress::Network>),
        "RECEIPTS" => ValueParser::new(EnumValueParser::<multicast::Receipts>::new().try_map(Value::try_from)),
        "MODE" => ValueParser::new(EnumValueParser::<tls::Mode>::new().try_map(Value::try_from)),
        // A URL is checked later: the parser of the command line would print what it refuses, with the password.
        "TEXT" | "URL" => ValueParser::new(StringValueParser::new().map(Value::from)),
        _ => unreachable!("{key} takes {takes}, which has no parser"),
    }
}

/// The other defaults where the store is in a database.
const REMOTE: [(&str, i64); 3] = [
    // Each request waits for the database on a thread.
    ("pool_threads", 256),
    // Lists wait, too, and with dumps they have less than all connections.
    ("scan_threads", 12),
    // Longer than it takes to find out what became of a commit whose answer is lost.
    ("ingress.request_timeout_ms", 60_000),
];

impl Flags {
    /// Lays the flags over the file that they name, if they do, and both over the defaults.
    ///
    /// # Errors
    /// `Storage` if the file cannot be read; `Invalid` if something in it is not known, with line and column.
    pub fn config(&self) -> Result<Config> {
        let (mut whole, mut given) = (table(&Config::default())?, Table::new());
        if let Some(path) = &self.config {
            let text = read(path, "the options")?;
            // First by itself, because then a mistake has a line and a column.
            let place = |error: toml::de::Error| located(path, &text, &error);
            toml::from_str::<Config>(&text).map_err(place)?;
            given = text.parse().map_err(place)?;
        }
        lay_over(&mut given, self.given.0.clone());
        if given.get("storage").is_some_and(|storage| storage.get("url").is_some()) {
            if given.contains_key("data_dir") {
                return Err(two_places());
            }
            REMOTE.into_iter().for_each(|(key, value)| lay_over(&mut whole, at(key, value.into())));
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
    let command = Flags::augment_args(Command::new("serve"));
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

fn address(text: &str) -> std::result::Result<Value, &'static str> {
    let address = text.parse::<SocketAddr>();
    address
        .map(|address| address.to_string().into())
        .map_err(|_| "expected an IP address and a port, such as 127.0.0.1:9996 or [::1]:9996")
}

/// Parses a number; TOML has none above `i64::MAX`.
fn number(text: &str) -> std::result::Result<Value, String> {
    let number = text.parse::<i64>().ok().filter(|number| *number >= 0);
    number.map(Value::Integer).ok_or_else(|| format!("expected a number from 0 to {}", i64::MAX))
}

fn number_of_bytes(text: &str) -> std::result::Result<Value, String> {
    size::parse(text).and_then(|bytes| Value::try_from(bytes).map_err(|error| error.to_string()))
}

fn parsed<T: TryFrom<String, Error = String> + Into<String>>(text: &str) -> std::result::Result<Value, String> {
    T::try_from(text.to_owned()).map(|value| Value::String(value.into()))
}

/// Checks an address of a broker. The text is kept, because an address hides its credentials where it is printed.
fn address_of_broker(text: &str) -> std::result::Result<Value, String> {
    multicast::Address::try_from(text.to_owned()).map(|address| address.as_str().into())
}

/// A text file, which is `what`.
///
/// # Errors
/// `Storage`.
pub fn read(path: &Path, what: &str) -> Result<String> {
    std::fs::read_to_string(path)
        .map_err(|error| Error::storage(format!("cannot read {what} in {}", path.display()), error))
}

fn table(options: &impl Serialize) -> Result<Table> {
    Table::try_from(options).map_err(|error| Error::storage("cannot print the configuration", error))
}

/// Returns a table with one value, at a key such as `storage.url`.
fn at(key: &str, value: Value) -> Table {
    let (name, value) = match key.split_once('.') {
        Some((table, name)) => (table, Value::Table(at(name, value))),
        None => (key, value),
    };
    Table::from_iter([(name.to_owned(), value)])
}

/// Puts what the upper table has in place of what the lower one has, table by table.
fn lay_over(lower: &mut Table, upper: Table) {
    for (name, value) in upper {
        match (lower.get_mut(&name), value) {
            (Some(Value::Table(lower)), Value::Table(upper)) => lay_over(lower, upper),
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
    use clap::Parser;

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
    fn every_option_has_a_flag_a_variable_and_a_place_in_the_file() {
        let mut keys = Vec::new();
        // JSON has what has no value, too.
        for (name, value) in serde_json::to_value(Config::default()).unwrap().as_object().unwrap() {
            match value.as_object() {
                Some(table) => keys.extend(table.keys().map(|key| format!("{name}.{key}"))),
                None => keys.push(name.clone()),
            }
        }
        keys.retain(|key| !["storage.automatic_compactions", "storage.refuse_stalls"].contains(&&**key));
        let mut declared: Vec<_> = options().map(|option| option.get_id().to_string()).collect();
        keys.sort_unstable();
        declared.sort_unstable();
        assert_eq!(declared, keys);
    }

    #[test]
    fn an_option_is_named_after_its_key_and_its_help_says_the_default() {
        let all: Vec<_> = options().collect();
        for (flag, variable, note) in [
            ("schema", "STRATA_SCHEMA", "(GraphQL SDL)"),
            ("listen", "STRATA_LISTEN", " [default: 127.0.0.1:9996]"),
            ("scan-threads", "STRATA_SCAN_THREADS", " [default: one a core; with --storage 12]"),
            ("feed-queued-bytes", "STRATA_FEED_QUEUED_BYTES", " [default: 64M; in the file feed.queued_bytes]"),
            ("thumb-pixels", "STRATA_THUMB_PIXELS", " [default: 50000000; in the file handlers.thumb_pixels]"),
            (
                "request-timeout-ms",
                "STRATA_REQUEST_TIMEOUT_MS",
                " [default: 30000, with --storage 60000; in the file ingress.request_timeout_ms]",
            ),
            ("allowed-host", "STRATA_ALLOWED_HOSTS", "repeatable [in the file ingress.allowed_hosts]"),
            ("nats-servers", "STRATA_NATS_SERVERS", "repeatable [in the file multicast.nats_servers]"),
            ("nats-receipts", "STRATA_NATS_RECEIPTS", " [default: interest; in the file multicast.nats_receipts]"),
            ("tls", "STRATA_TLS", " [in the file tls.mode]"),
        ] {
            let option = all.iter().find(|option| option.get_long() == Some(flag)).unwrap();
            assert_eq!(option.get_env().unwrap(), variable);
            let help = option.get_help().unwrap().to_string();
            assert!(help.ends_with(note), "{help}");
        }
    }
}
