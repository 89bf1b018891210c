//! Golden scripts against a real server on a real socket: `tests/golden/http/*`.
//!
//! A script is a row of steps between lines `===`, each a request, `---`, and its response; lines that begin with `#` explain. A
//! script begins with an empty store; a folder beside it with the ending `.files` is served as its static files. A request gets the
//! host `localhost`, and the type of JSON if it has a body, unless it says otherwise; a header without a value is left out. Bodies in
//! CBOR and MessagePack stand as hexadecimal digits. What
//! differs from run to run is masked (ids that the server makes, times, and then the ETag), what every response has (date, length,
//! `nosniff`) is left out. `UPDATE_GOLDEN=1` writes the responses anew.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::client::{Connection, Response, schema, start};

const STEP: &str = "\n===\n";
const RESPONSE: &str = "\n---\n";

#[test]
fn the_manual_is_right() {
    check(schema().parent().unwrap(), |script, files| {
        let folder = tempfile::tempdir().unwrap();
        let server = start(folder.path(), |config| {
            config.handlers.max_rows = 3;
            if script.contains("Origin:") {
                config.ingress.cors_origins = vec!["https://app.example.org".to_owned().try_into().unwrap()];
            }
            config.static_files.directory = files.is_dir().then(|| files.to_owned());
        });
        let actual = run(script, server.url());
        server.stop().unwrap();
        actual
    });
}

/// Compares each script of a folder with what it becomes when it is run, which is given its text and the folder beside it.
pub fn check(folder: &Path, run: impl Fn(&str, &Path) -> String) {
    let mut cases: Vec<_> = fs::read_dir(folder).unwrap().map(|case| case.unwrap().path()).collect();
    cases.retain(|case| case.extension().is_none());
    cases.sort();
    assert!(!cases.is_empty());
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = String::new();
    for case in cases {
        let script = fs::read_to_string(&case).unwrap();
        let actual = run(&script, &case.with_extension("files"));
        if update {
            fs::write(&case, actual).unwrap();
        } else if actual != script {
            writeln!(wrong, "{}\nexpected:\n{script}\nactual:\n{actual}", case.display()).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// The script with the responses that there are.
pub fn run(script: &str, url: &str) -> String {
    let steps = script.split(STEP).map(|step| {
        let request = step.split(RESPONSE).next().unwrap().trim_end();
        let response = ask(url, request);
        format!("{request}{RESPONSE}{}", show(&response).trim_end())
    });
    steps.collect::<Vec<_>>().join(STEP) + "\n"
}

/// Sends a request as it stands in a script, with what every request needs beside.
pub fn ask(url: &str, request: &str) -> Response {
    let mut lines = request.lines().skip_while(|line| line.starts_with('#') || line.is_empty());
    let first = lines.next().expect("a step has a request");
    let headers: Vec<_> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    let body = lines.collect::<Vec<_>>().join("\n");
    let is_binary = headers.iter().any(|header| header.starts_with("Content-Type:") && is_binary(header));
    let body = if is_binary { from_hexadecimal(&body) } else { body.into_bytes() };
    let is_given = |name: &str| headers.iter().any(|header| header.split(':').next() == Some(name));
    let mut text = format!("{first} HTTP/1.1\r\n");
    for header in headers.iter().filter(|header| !header.ends_with(':')) {
        write!(text, "{header}\r\n").unwrap();
    }
    let length = body.len().to_string();
    let with_body = [("Content-Type", "application/json"), ("Content-Length", &length)];
    let usual = [("Host", "localhost")].into_iter().chain(with_body.into_iter().filter(|_| !body.is_empty()));
    for (name, value) in usual.filter(|(name, _)| !is_given(name)) {
        write!(text, "{name}: {value}\r\n").unwrap();
    }
    let mut connection = Connection::open(url);
    connection.send_bytes(&[format!("{text}\r\n").into_bytes(), body].concat());
    connection.receive(first.starts_with("HEAD"))
}

/// Whether what is named is no text.
fn is_binary(media_type: &str) -> bool {
    media_type.ends_with("/cbor") || media_type.ends_with("/msgpack")
}

fn from_hexadecimal(digits: &str) -> Vec<u8> {
    let digits: Vec<_> =
        digits.split_whitespace().flat_map(str::chars).map(|digit| digit.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    let lines = bytes.chunks(40).map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    lines.collect::<Vec<_>>().join("\n")
}

fn show(response: &Response) -> String {
    let text = if is_binary(response.header("content-type")) { &hexadecimal(&response.bytes) } else { &response.body };
    let (body, masked) = mask(text);
    let mut text = format!("{} {}\n", response.status, response.reason);
    let mut headers = response.headers.clone();
    headers.sort();
    for (name, value) in headers {
        let (value, _) = mask(&value);
        match name.as_str() {
            "date" | "connection" | "x-content-type-options" => {}
            "content-length" if !response.body.is_empty() || response.status != 200 => {}
            "sunset" => writeln!(text, "sunset: (time)").unwrap(),
            "etag" if masked => writeln!(text, "etag: (etag)").unwrap(),
            _ => writeln!(text, "{name}: {value}").unwrap(),
        }
    }
    write!(text, "\n{body}").unwrap();
    text
}

/// The text with ids and times of the server masked, and whether there were any.
fn mask(text: &str) -> (String, bool) {
    let shapes = [
        ("xxxxxxxx-xxxx-7xxx-xxxx-xxxxxxxxxxxx", "(id)"),
        ("dddd-dd-ddTdd:dd:dd.dddZ", "(time)"),
        // Milliseconds since 1970; it stays JSON.
        (r#"Ms":1dddddddddddd"#, r#"Ms":1111111111111"#),
        // In a body.
        (r#"\"xxxxxxxxxxxxxxxx\""#, "(etag)"),
    ];
    let (mut out, mut rest, mut masked) = (String::new(), text, false);
    'next: while let Some(character) = rest.chars().next() {
        for (shape, name) in shapes {
            if fits(rest, shape) {
                out.push_str(name);
                rest = &rest[shape.len()..];
                masked = true;
                continue 'next;
            }
        }
        out.push(character);
        rest = &rest[character.len_utf8()..];
    }
    (out, masked)
}

/// Whether a text begins with a shape: `x` is a hexadecimal digit, `d` a decimal one, all else itself.
fn fits(text: &str, shape: &str) -> bool {
    let fits = |(byte, shape): (u8, u8)| match shape {
        b'x' => byte.is_ascii_hexdigit(),
        b'd' => byte.is_ascii_digit(),
        other => byte == other,
    };
    text.len() >= shape.len() && text.bytes().zip(shape.bytes()).all(fits)
}
