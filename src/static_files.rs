//! Static files from a folder: media types, validators, ranges, precompressed siblings.
//!
//! The folder is read once, at startup: names, types, content hashes, and the bytes of as many files as fit into a budget, the shortest
//! first. A request looks up its path among the names found, so no path can lead out of the folder, and a response from memory consists of
//! headers and a reference to the bytes. Files beyond the budget are read from disk piece by piece, on a thread that may block
//! ([`Extent`]).
//!
//! Names that begin with a dot are ignored, and so are links that lead out of the folder, links to folders, and special files.
//!
//! Non-goals: detecting changes of files (restart the server); listing folders; which paths are files' and which are tables' (`ingress`).

mod content;
mod headers;

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, LOCATION, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::handlers::{
    self, Failure,
    coding::{AcceptEncoding, Coding, compressed},
    ranges::{RangeSpec, is_known, is_stale, range},
};
use content::Stored;
pub use content::{Content, Extent};
pub use headers::accepts_html;

/// What is served, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The folder; `None` = no files are served.
    pub directory: Option<PathBuf>,
    /// The maximum bytes of files kept in memory.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub memory_bytes: usize,
    /// The value of `Cache-Control` for every file.
    pub cache_control: String,
}

impl Default for Options {
    fn default() -> Self {
        // The client caches the file but revalidates it: correct for every file, and the response is short.
        Self { directory: None, memory_bytes: 64 << 20, cache_control: "no-cache".to_owned() }
    }
}

/// A complete response whose body is in memory or on disk.
pub type Response<B = Content> = http::Response<B>;

/// The files of a folder.
pub struct Site {
    /// Keyed by decoded path without the leading `/`.
    places: HashMap<Box<str>, Place>,
    cache_control: HeaderValue,
}

/// The target of a path.
enum Place {
    File(File),
    /// A folder with an index, requested without the trailing `/`; redirected, because relative links in the index would break.
    Folder,
}

/// A file in its uncompressed and compressed representations.
struct File {
    media_type: HeaderValue,
    plain: Representation,
    /// The precompressed siblings, shortest first.
    coded: Vec<(Coding, Representation)>,
}

/// The bytes of a file with their strong validator.
#[derive(Clone)]
struct Representation {
    stored: Stored,
    etag: HeaderValue,
}

/// The file name of the index of a folder.
const INDEX: &str = "index.html";

const ALLOW: &str = "GET, HEAD, OPTIONS";

/// The characters to encode in a `Location`: those that would terminate or break the path.
const ENCODED: AsciiSet = CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>').add(b'?').add(b'%').add(b'\\');

impl Site {
    /// Reads a folder.
    ///
    /// # Errors
    /// `Storage` if something in it cannot be read; `Invalid` if `cache_control` is not a valid header value.
    pub fn load(directory: &Path, options: &Options) -> Result<Self> {
        let cache_control = HeaderValue::from_str(&options.cache_control);
        let cache_control =
            cache_control.map_err(|_| Error::invalid("static_files.cache_control is not a valid header value"))?;
        Ok(Self::of(&content::read_folder(directory, options.memory_bytes)?, cache_control))
    }

    /// Creates a site from the files embedded in the binary, by path without the leading `/`. Compresses them, which may take a tenth of a
    /// second.
    pub fn embedded(files: &[(&str, &'static [u8])]) -> Self {
        let mut found = HashMap::new();
        for (path, bytes) in files {
            found.insert((*path).to_owned(), content::in_memory(Bytes::from_static(bytes)));
            for coding in Coding::ALL {
                let sibling = format!("{path}.{}", extension(coding));
                found.insert(sibling, content::in_memory(compressed(bytes, coding)));
            }
        }
        Self::of(&found, HeaderValue::from_static("no-cache"))
    }

    fn of(found: &HashMap<String, Representation>, cache_control: HeaderValue) -> Self {
        let mut places = HashMap::with_capacity(found.len());
        for (path, representation) in found {
            let file = File::of(path, representation, found);
            if let Some(folder) = path.strip_suffix(INDEX).filter(|folder| folder.is_empty() || folder.ends_with('/')) {
                places.insert(folder.into(), Place::File(File::of(path, representation, found)));
                if let Some(name) = folder.strip_suffix('/') {
                    places.insert(name.into(), Place::Folder);
                }
            }
            places.insert(path.as_str().into(), Place::File(file));
        }
        Self { places, cache_control }
    }

    /// Answers with the file at this path, without the leading `/` and without a fallback; the empty path is the index.
    ///
    /// # Errors
    /// As [`Site::respond`].
    pub fn file_at(&self, path: &str, method: &Method, headers: &HeaderMap) -> Option<handlers::Result<Response>> {
        match self.places.get(path) {
            Some(Place::File(file)) => Some(settled(method, || self.file(file, method, headers))),
            _ => None,
        }
    }

    /// Answers a request; `None` if its path is not a file's.
    ///
    /// A path of one segment that begins with `_` is never a file's. A missing page is answered with the index at the root if the client
    /// accepts HTML explicitly, so that a single-page application can have paths of its own; not below a `_` path.
    ///
    /// # Errors
    /// 405; 406 if no available representation is acceptable; 416 for an unsatisfiable range.
    pub fn respond(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<handlers::Result<Response>> {
        let path = uri.path().strip_prefix('/')?;
        let path = match path.contains('%') {
            true => {
                // The maximum length, reserved once.
                let mut decoded = Vec::with_capacity(path.len());
                decoded.extend(percent_decode_str(path));
                Cow::Owned(String::from_utf8(decoded).ok()?)
            }
            false => Cow::Borrowed(path),
        };
        let internal = path.starts_with('_');
        if internal && !path.contains('/') {
            return None;
        }
        let file = match self.places.get(&*path) {
            Some(Place::File(file)) => file,
            Some(Place::Folder) => return Some(settled(method, || Ok(redirection(&path, uri.query())))),
            None if internal || !headers::accepts_html(headers) => return None,
            None => return self.fallback(method, headers),
        };
        Some(settled(method, || self.file(file, method, headers)))
    }

    /// Returns whether a path that is not a file's is answered with the index for clients that accept HTML. Other responses to it then need
    /// a `Vary`.
    pub fn has_page(&self, method: &Method, uri: &Uri) -> bool {
        matches!(*method, Method::GET | Method::HEAD) && !uri.path().starts_with("/_") && self.index().is_some()
    }

    /// Returns the index at the root.
    fn index(&self) -> Option<&File> {
        match self.places.get("") {
            Some(Place::File(index)) => Some(index),
            _ => None,
        }
    }

    /// Answers with the index at the root in place of a missing page.
    fn fallback(&self, method: &Method, headers: &HeaderMap) -> Option<handlers::Result<Response>> {
        let index = self.index().filter(|_| matches!(*method, Method::GET | Method::HEAD))?;
        let response = self.file(index, method, headers).map(|mut response| {
            response.headers_mut().append(VARY, HeaderValue::from_static("accept"));
            response
        });
        Some(response)
    }

    fn file(&self, file: &File, method: &Method, headers: &HeaderMap) -> handlers::Result<Response> {
        let Some((coding, chosen)) = file.choose(headers) else {
            return Err(Failure::NotAcceptable {
                available: "the file is not available in an accepted content coding",
            });
        };
        if is_stale(headers, &chosen.etag) {
            return Err(Error::Stale.into());
        }
        let length_bytes = chosen.stored.length_bytes();
        let mut response = Response::new(Content::EMPTY);
        let head = response.headers_mut();
        head.reserve(6);
        head.insert(ETAG, chosen.etag.clone());
        head.insert(CACHE_CONTROL, self.cache_control.clone());
        if !file.coded.is_empty() {
            head.insert(VARY, HeaderValue::from_static("accept-encoding"));
        }
        if is_known(headers, &chosen.etag) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return Ok(response);
        }
        head.insert(CONTENT_TYPE, file.media_type.clone());
        head.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if let Some(coding) = coding {
            head.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
        }
        if *method == Method::HEAD {
            head.insert(CONTENT_LENGTH, HeaderValue::from(length_bytes));
            return Ok(response);
        }
        *response.body_mut() = match range(headers, length_bytes, &chosen.etag) {
            RangeSpec::All => chosen.stored.part(0..length_bytes),
            RangeSpec::Part(range) => {
                let of = format!("bytes {}-{}/{length_bytes}", range.start, range.end - 1);
                head.insert(CONTENT_RANGE, HeaderValue::try_from(of).expect("digits and signs"));
                *response.status_mut() = StatusCode::PARTIAL_CONTENT;
                chosen.stored.part(range)
            }
            RangeSpec::Nothing => return Err(Failure::Range { length_bytes }),
        };
        Ok(response)
    }
}

impl File {
    fn of(path: &str, plain: &Representation, found: &HashMap<String, Representation>) -> Self {
        let sibling = |coding: Coding| {
            let sibling = found.get(&format!("{path}.{}", extension(coding)))?;
            Some((coding, sibling.clone()))
        };
        let mut coded: Vec<_> = Coding::ALL.into_iter().filter_map(sibling).collect();
        coded.sort_by_key(|(_, representation)| representation.stored.length_bytes());
        let mut media_type = media_type(path);
        if plain.stored.is_text() && media_type.as_bytes().starts_with(b"text/") {
            let with_charset = [media_type.as_bytes(), b"; charset=utf-8"].concat();
            media_type = HeaderValue::from_maybe_shared(Bytes::from(with_charset)).expect("a type and a parameter");
        }
        Self { media_type, plain: plain.clone(), coded }
    }

    /// Returns the representation that the client prefers; among equals, the shortest; `None` if none is acceptable.
    fn choose(&self, headers: &HeaderMap) -> Option<(Option<Coding>, &Representation)> {
        let client = AcceptEncoding::of(headers);
        let coded = self.coded.iter().map(|(coding, chosen)| (client.quality(*coding), Some(*coding), chosen));
        // The uncompressed one comes last, since it is the longest.
        let plain = (client.plain().unwrap_or(0), None, &self.plain);
        let best = coded.chain([plain]).reduce(|best, next| if next.0 > best.0 { next } else { best });
        match best {
            Some((1.., coding, chosen)) => Some((coding, chosen)),
            _ => client.plain().is_none().then_some((None, &self.plain)),
        }
    }
}

/// Returns the file name extension of a coding.
fn extension(coding: Coding) -> &'static str {
    match coding {
        Coding::Brotli => "br",
        Coding::Zstandard => "zst",
        Coding::Gzip => "gz",
    }
}

/// Answers a method on a file: files are read-only.
fn settled(method: &Method, read: impl FnOnce() -> handlers::Result<Response>) -> handlers::Result<Response> {
    match *method {
        Method::GET | Method::HEAD => read(),
        Method::OPTIONS => Ok(handlers::options(ALLOW).map(Content::Memory)),
        _ => Err(Failure::Method { allow: ALLOW }),
    }
}

fn redirection(path: &str, query: Option<&str>) -> Response {
    let mut location = format!("/{}/", utf8_percent_encode(path, &ENCODED));
    if let Some(query) = query {
        location.push('?');
        location.push_str(query);
    }
    let mut response = Response::new(Content::EMPTY);
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    response.headers_mut().insert(LOCATION, HeaderValue::try_from(location).expect("a path that is percent-encoded"));
    response
}

/// Returns the media type of a file by its extension; `application/octet-stream` if it is unknown.
pub fn media_type(path: &str) -> HeaderValue {
    let known = mime_guess::from_path(path).first_raw();
    HeaderValue::from_static(known.unwrap_or("application/octet-stream"))
}

#[cfg(test)]
mod tests;
