//! The streams of a server, over HTTP.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::{Client, Method, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use twox_hash::XxHash3_128;

use crate::failure::{Failure, Result, causes};

/// The events of one page at most; the server ends a page sooner by its bytes.
const PAGE_EVENTS: usize = 10_000;

/// The time within which the server answers.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A server.
#[derive(Clone, Debug)]
pub struct Server {
    client: Client,
    url: Url,
}

/// An event, borrowed from the page that it came in.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event<'a> {
    /// Its partition.
    pub partition: u32,
    /// Its offset there.
    pub offset: u64,
    /// The client's time, in milliseconds since 1970.
    pub timestamp_ms: u64,
    /// The time at which the server took it, in milliseconds since 1970.
    pub ingested_ms: u64,
    /// Its key.
    pub key: Option<String>,
    /// Its idempotency key.
    pub idempotency_key: Option<String>,
    /// Its payload, as it was sent.
    #[serde(borrow)]
    pub payload: &'a RawValue,
}

/// A page of events of one partition.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page<'a> {
    /// The events.
    #[serde(borrow)]
    pub records: Vec<Event<'a>>,
    /// The first offset that is kept.
    pub low_watermark: u64,
    /// The next offset.
    pub high_watermark: u64,
}

/// The answer to a read.
#[derive(Debug)]
pub enum Read {
    /// The body of a [`Page`].
    Page(Vec<u8>),
    /// The offset is not kept any more, or not there yet.
    Outside {
        /// The first offset that is kept.
        low: u64,
    },
}

#[derive(Deserialize)]
struct Problem {
    detail: Option<String>,
    #[serde(rename = "lowWatermark")]
    low: Option<u64>,
}

#[derive(Deserialize)]
struct Offset {
    partition: u32,
    offset: u64,
}

#[derive(Deserialize)]
struct Group {
    offsets: Vec<Offset>,
}

impl Event<'_> {
    /// Returns a hash of all of it but its place, in hexadecimal digits.
    pub fn hash(&self) -> String {
        let mut bytes = Vec::with_capacity(64 + self.payload.get().len());
        bytes.extend_from_slice(&self.timestamp_ms.to_le_bytes());
        bytes.extend_from_slice(&self.ingested_ms.to_le_bytes());
        for text in [self.key.as_deref(), self.idempotency_key.as_deref(), Some(self.payload.get())] {
            bytes.extend_from_slice(&text.map_or(u64::MAX, |text| text.len() as u64).to_le_bytes());
            bytes.extend_from_slice(text.unwrap_or_default().as_bytes());
        }
        format!("{:032x}", XxHash3_128::oneshot(&bytes))
    }
}

impl Server {
    /// Makes a client of the server at a URL, which perhaps has a certificate that this one has signed.
    ///
    /// # Errors
    /// `Refused` if the URL is none of HTTP, or the file none of certificates.
    pub fn new(url: &Url, ca: Option<&std::path::Path>) -> Result<Self> {
        if !matches!(url.scheme(), "http" | "https") || url.cannot_be_a_base() {
            return Err(Failure::Refused("--url is http://HOST:PORT or https://HOST:PORT".to_owned()));
        }
        let mut client = Client::builder().timeout(TIMEOUT);
        if let Some(file) = ca {
            let refused = |detail: String| Failure::Refused(format!("--ca {}: {detail}", file.display()));
            let pem = std::fs::read(file).map_err(|error| refused(error.to_string()))?;
            let certificates = reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| refused(causes(&error)))?;
            if certificates.is_empty() {
                return Err(refused("there is no certificate in it".to_owned()));
            }
            for certificate in certificates {
                client = client.add_root_certificate(certificate);
            }
        }
        let client = client.build().map_err(|error| Failure::Refused(causes(&error)))?;
        Ok(Self { client, url: url.clone() })
    }

    /// Reads a page of a partition; `None` if the stream has no such partition.
    ///
    /// # Errors
    /// `Refused` if there is no such stream, or the request is refused otherwise; `Away`.
    pub async fn read(&self, stream: &str, partition: u32, from: Option<u64>, is_empty: bool) -> Result<Option<Read>> {
        let mut url = self.path(&[stream])?;
        {
            let mut query = url.query_pairs_mut();
            query.append_pair("partition", &partition.to_string());
            query.append_pair("limit", &if is_empty { 0 } else { PAGE_EVENTS }.to_string());
            if let Some(from) = from {
                query.append_pair("from", &from.to_string());
            }
        }
        let (status, body) = self.send(Method::GET, url, None).await?;
        match status {
            StatusCode::OK => Ok(Some(Read::Page(body))),
            StatusCode::GONE | StatusCode::RANGE_NOT_SATISFIABLE => match parse::<Problem>(&body)? {
                Problem { low: Some(low), .. } => Ok(Some(Read::Outside { low })),
                _ => Err(Failure::Refused(format!("{} does not answer as a stream does", self.shown()))),
            },
            StatusCode::BAD_REQUEST if partition > 0 => Ok(None),
            _ => Err(self.refused(status, &body, &format!("reading partition {partition} of {stream}"))),
        }
    }

    /// Returns the offsets of a consumer group by partition, none if it never committed.
    ///
    /// # Errors
    /// As [`Server::read`].
    pub async fn group(&self, stream: &str, group: &str) -> Result<BTreeMap<u32, u64>> {
        let (status, body) = self.send(Method::GET, self.path(&[stream, "consumers", group])?, None).await?;
        match status {
            StatusCode::OK => {
                let group: Group = parse(&body)?;
                Ok(group.offsets.into_iter().map(|Offset { partition, offset }| (partition, offset)).collect())
            }
            StatusCode::NOT_FOUND => Ok(BTreeMap::new()),
            _ => Err(self.refused(status, &body, &format!("reading the consumer group {group} of {stream}"))),
        }
    }

    /// Sets offsets of a consumer group.
    ///
    /// # Errors
    /// As [`Server::read`].
    pub async fn commit(&self, stream: &str, group: &str, offsets: &BTreeMap<u32, u64>) -> Result<()> {
        let offsets: Vec<_> = offsets
            .iter()
            .map(|(partition, offset)| serde_json::json!({"partition": partition, "offset": offset}))
            .collect();
        let body = serde_json::json!({"offsets": offsets}).to_string();
        let url = self.path(&[stream, "consumers", group])?;
        let (status, body) = self.send(Method::PUT, url, Some(body)).await?;
        match status {
            StatusCode::OK => Ok(()),
            _ => Err(self.refused(status, &body, &format!("moving the consumer group {group} of {stream}"))),
        }
    }

    fn path(&self, segments: &[&str]) -> Result<Url> {
        let mut url = self.url.clone();
        let refused = |()| Failure::Refused(format!("{} is no URL of a server", self.shown()));
        url.path_segments_mut().map_err(refused)?.pop_if_empty().extend(segments);
        Ok(url)
    }

    async fn send(&self, method: Method, url: Url, body: Option<String>) -> Result<(StatusCode, Vec<u8>)> {
        let mut request = self.client.request(method, url).header("accept", "application/json");
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let away = |error: reqwest::Error| {
            Failure::Away(format!("the server at {} does not answer: {}", self.shown(), causes(&error.without_url())))
        };
        let answer = request.send().await.map_err(away)?;
        let status = answer.status();
        Ok((status, answer.bytes().await.map_err(away)?.to_vec()))
    }

    fn refused(&self, status: StatusCode, body: &[u8], doing: &str) -> Failure {
        let detail = parse::<Problem>(body).ok().and_then(|problem| problem.detail).unwrap_or_default();
        let detail = format!("the server at {} answers {status} to {doing}: {detail}", self.shown());
        let is_passing = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        if is_passing { Failure::Away(detail) } else { Failure::Refused(detail) }
    }

    /// Returns the URL without what it may have of a password.
    fn shown(&self) -> String {
        let mut url = self.url.clone();
        if url.set_username("").and_then(|()| url.set_password(None)).is_err() {
            return "its URL".to_owned();
        }
        url.to_string()
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| Failure::Away(format!("an answer of the server is cut: {error}")))
}

impl<'a> Page<'a> {
    /// Parses the body of a page.
    ///
    /// # Errors
    /// `Away` if it is none.
    pub fn parse(body: &'a [u8]) -> Result<Self> {
        serde_json::from_slice(body).map_err(|error| Failure::Away(format!("an answer of the server is cut: {error}")))
    }
}
