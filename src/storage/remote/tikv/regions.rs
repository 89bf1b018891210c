//! Where the regions of TiKV begin and end.
//!
//! The client sends a scan with its whole limit to every region of its range at once. So a range is cut where its first region ends, which
//! PD is asked for: a unary call with three messages of `pdpb.proto`. What it said is kept for some seconds as a hint. A stale one costs
//! requests, never an answer.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::{Duration, Instant};

use futures_util::future::select_ok;
use parking_lot::Mutex;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};

use super::super::scan::Range;

/// How long what PD has said is believed.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// PD is asked no longer than that; without its answer the range is not cut.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// The most regions that are known at a time.
const KNOWN: usize = 100_000;

/// Where regions are known to begin and end.
#[derive(Default)]
pub struct Regions {
    endpoints: Vec<String>,
    pd: Mutex<Option<Pd>>,
    /// By their first keys, as TiKV encodes them.
    known: Mutex<BTreeMap<Vec<u8>, Known>>,
}

struct Known {
    /// Empty at the end of all keys.
    end: Vec<u8>,
    since: Instant,
}

/// The leader of PD.
#[derive(Clone)]
pub struct Pd {
    channel: Channel,
    cluster: u64,
}

impl Regions {
    pub fn new(endpoints: &[String]) -> Self {
        Self { endpoints: endpoints.to_vec(), ..Self::default() }
    }

    /// Returns the part of a range that lies in its first region, in its direction, and whether PD was asked.
    pub async fn cut(&self, range: &Range) -> (Range, bool) {
        if let Some(cut) = self.cut_as_known(range) {
            return (cut, false);
        }
        let found = tokio::time::timeout(ANSWERED_WITHIN, self.ask(range)).await;
        match found {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => *self.pd.lock() = None,
        }
        (self.cut_as_known(range).unwrap_or_else(|| range.clone()), true)
    }

    /// Returns nothing if the first region is not known.
    fn cut_as_known(&self, range: &Range) -> Option<Range> {
        let (lower, upper) = (encoded(&range.lower), encoded(&range.upper));
        let known = self.known.lock();
        let first = match range.backwards {
            true => (Bound::Unbounded, Bound::Excluded(&upper)),
            false => (Bound::Unbounded, Bound::Included(&lower)),
        };
        let (start, region) = known.range::<Vec<u8>, _>(first).next_back()?;
        let is_in = match range.backwards {
            true => region.end.is_empty() || upper <= region.end,
            false => region.end.is_empty() || lower < region.end,
        };
        if !is_in || region.since.elapsed() > KEPT_FOR {
            return None;
        }
        let mut cut = range.clone();
        // A border that is no key of a transaction lies within no range of keys that a scan would cross.
        match range.backwards {
            true if *start > lower => cut.lower = decoded(start).unwrap_or(cut.lower),
            false if !region.end.is_empty() && region.end < upper => {
                cut.upper = decoded(&region.end).unwrap_or(cut.upper)
            }
            _ => {}
        }
        Some(cut)
    }

    async fn ask(&self, range: &Range) -> Result<(), tonic::Status> {
        let pd = self.leader().await?;
        let key = encoded(if range.backwards { &range.upper } else { &range.lower });
        let region = pd.region("/pdpb.PD/GetRegion", &key).await?;
        // The end of a range is not in it.
        let is_behind = range.backwards && region.start_key == key;
        self.keep(region);
        if is_behind {
            self.keep(pd.region("/pdpb.PD/GetPrevRegion", &key).await?);
        }
        Ok(())
    }

    fn keep(&self, region: Region) {
        let mut known = self.known.lock();
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert(region.start_key, Known { end: region.end_key, since: Instant::now() });
    }

    async fn leader(&self) -> Result<Pd, tonic::Status> {
        let known = self.pd.lock().clone();
        if let Some(pd) = known {
            return Ok(pd);
        }
        let (pd, _) = select_ok(self.endpoints.iter().map(|endpoint| Box::pin(Pd::connect(endpoint)))).await?;
        *self.pd.lock() = Some(pd.clone());
        Ok(pd)
    }
}

impl Pd {
    /// Connects to the leader that an endpoint names.
    ///
    /// # Errors
    /// It does not answer within a second.
    pub async fn connect(endpoint: &str) -> Result<Self, tonic::Status> {
        match tokio::time::timeout(ANSWERED_WITHIN, Self::find(endpoint)).await {
            Ok(found) => found,
            Err(_) => Err(tonic::Status::unavailable("no answer")),
        }
    }

    async fn find(endpoint: &str) -> Result<Self, tonic::Status> {
        let open = async |url: String| {
            let endpoint = Endpoint::from_shared(url).map_err(|error| tonic::Status::internal(error.to_string()))?;
            let channel = endpoint.connect_timeout(ANSWERED_WITHIN).connect().await;
            channel.map_err(|error| tonic::Status::unavailable(error.to_string()))
        };
        let channel = open(format!("http://{endpoint}")).await?;
        let members: Members = call(&channel, "/pdpb.PD/GetMembers", Asked::default()).await?;
        let urls = members.leader.map(|leader| leader.client_urls).unwrap_or_default();
        let leader = urls.into_iter().next().ok_or_else(|| tonic::Status::unavailable("PD has no leader"))?;
        Ok(Self { channel: open(leader).await?, cluster: members.header.unwrap_or_default().cluster })
    }

    async fn region(&self, method: &'static str, key: &[u8]) -> Result<Region, tonic::Status> {
        let asked = Asked { header: Some(Header { cluster: self.cluster }), key: key.to_vec() };
        let found: Found = call(&self.channel, method, asked).await?;
        found.region.ok_or_else(|| tonic::Status::not_found("no region"))
    }
}

async fn call<R: prost::Message + Default + 'static>(
    channel: &Channel,
    method: &'static str,
    asked: Asked,
) -> Result<R, tonic::Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
    let codec = tonic::codec::ProstCodec::default();
    let answer = client.unary(tonic::Request::new(asked), PathAndQuery::from_static(method), codec).await?;
    Ok(answer.into_inner())
}

/// `RequestHeader` and `ResponseHeader`.
#[derive(Clone, PartialEq, prost::Message)]
struct Header {
    #[prost(uint64, tag = "1")]
    cluster: u64,
}

/// `GetMembersRequest` and `GetRegionRequest`.
#[derive(Clone, PartialEq, prost::Message)]
struct Asked {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

/// `GetMembersResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct Members {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(message, optional, tag = "3")]
    leader: Option<Member>,
}

/// `Member`.
#[derive(Clone, PartialEq, prost::Message)]
struct Member {
    #[prost(string, repeated, tag = "4")]
    client_urls: Vec<String>,
}

/// `GetRegionResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct Found {
    #[prost(message, optional, tag = "2")]
    region: Option<Region>,
}

/// `metapb.Region`.
#[derive(Clone, PartialEq, prost::Message)]
struct Region {
    #[prost(bytes = "vec", tag = "2")]
    start_key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    end_key: Vec<u8>,
}

/// Bytes of a group of an encoded key, without the one that says how many of them there are.
const GROUP: usize = 8;

/// Returns a key as TiKV orders it: groups of eight bytes, each followed by 255 less the number of bytes that are missing in it.
fn encoded(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity((key.len() / GROUP + 1) * (GROUP + 1));
    for begin in (0..=key.len()).step_by(GROUP) {
        let group = &key[begin..key.len().min(begin + GROUP)];
        out.extend_from_slice(group);
        out.resize(out.len() + GROUP - group.len(), 0);
        out.push(u8::MAX - (GROUP - group.len()) as u8);
    }
    out
}

/// Returns the key of such an encoding; nothing if it is none.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut groups = text.chunks_exact(GROUP + 1);
    for group in &mut groups {
        let missing = usize::from(u8::MAX - group[GROUP]);
        out.extend_from_slice(&group[..GROUP.checked_sub(missing)?]);
        if missing > 0 {
            let is_last = groups.next().is_none() && groups.remainder().is_empty();
            return Some(out).filter(|out| is_last && encoded(out) == text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_keys_are_decoded_and_keep_their_order() {
        let keys = [&b""[..], b"\0", b"a", b"a\0", b"abcdefg", b"abcdefgh", b"abcdefgh\0", b"abcdefghi", b"b"];
        for pair in keys.windows(2) {
            assert!(encoded(pair[0]) < encoded(pair[1]), "{pair:?}");
        }
        for key in keys {
            assert_eq!(decoded(&encoded(key)).as_deref(), Some(key));
        }
        assert_eq!(encoded(b"abc"), b"abc\0\0\0\0\0\xFA");
        for wrong in [&b""[..], b"abc", b"abcdefgh\xFF", b"abcdefgh\x00", b"abc\0\0\0\0\0\xFAx", b"abc\0\0\0\0x\xFA"] {
            assert_eq!(decoded(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_range_is_cut_at_the_border_of_its_first_region() {
        let regions = Regions::default();
        let keep = |start: &[u8], end: &[u8]| {
            let of = |key: &[u8]| if key.is_empty() { Vec::new() } else { encoded(key) };
            regions.keep(Region { start_key: of(start), end_key: of(end) });
        };
        let cut = |lower: &[u8], upper: &[u8], backwards| {
            let range = Range { lower: lower.to_vec(), upper: upper.to_vec(), backwards };
            regions.cut_as_known(&range).map(|range| (range.lower, range.upper))
        };
        let is = |lower: &[u8], upper: &[u8]| Some((lower.to_vec(), upper.to_vec()));
        assert_eq!(cut(b"a", b"z", false), None);
        keep(b"", b"f");
        keep(b"f", b"m");
        keep(b"t", b"");
        assert_eq!(cut(b"a", b"z", false), is(b"a", b"f"));
        assert_eq!(cut(b"a", b"f", false), is(b"a", b"f"));
        assert_eq!(cut(b"f", b"z", false), is(b"f", b"m"));
        assert_eq!(cut(b"m", b"z", false), None);
        assert_eq!(cut(b"u", b"z", false), is(b"u", b"z"));
        assert_eq!(cut(b"a", b"z", true), is(b"t", b"z"));
        assert_eq!(cut(b"a", b"t", true), None);
        assert_eq!(cut(b"a", b"m", true), is(b"f", b"m"));
        assert_eq!(cut(b"a", b"f", true), is(b"a", b"f"));
        assert_eq!(cut(b"g", b"h", true), is(b"g", b"h"));
    }
}
