//! The documents: what README.md and `docs/*.md` show is what a real server does, their links lead somewhere, and no option is left out.
//!
//! A document with examples has its schema in the first block of `graphql`. It gets a server of its own, on which its examples run in
//! their order. A block of `http` is a request as in `tests/golden/http`, a line `---`, and the response: the status, such headers as
//! matter, and the body. A block of `fiql T` has one query on the table `T` a line, `→`, and the ids of what it lists (`nothing`
//! without any), or `400 at BYTE: why`. Ids have their order if the query says `sort`. A block of `sh` is what a reader types whose server is
//! at `localhost:9996`; the block behind it is what that prints. Outside of texts, white space in JSON says nothing; `…` in a response
//! stands for any text.
//! Documents with blocks of `sh` need curl, so they are a test of their own, which a machine without curl leaves out by name.

#![expect(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::conformance::without_white_space;
use crate::http::client::{self, Response, start};
use crate::http::scripts;

/// A fenced block of a document.
struct Block<'d> {
    /// The line of its text in the document, from 1.
    line: usize,
    /// What stands behind the fence, in words: the language first.
    words: Vec<&'d str>,
    text: String,
}

fn blocks(document: &str) -> Vec<Block<'_>> {
    let (mut blocks, mut lines) = (Vec::new(), document.lines().zip(1..));
    while let Some((line, number)) = lines.next() {
        if let Some(words) = line.strip_prefix("```") {
            let text: Vec<_> =
                lines.by_ref().map(|(line, _)| line).take_while(|line| !line.starts_with("```")).collect();
            blocks.push(Block { line: number + 1, words: words.split_whitespace().collect(), text: text.join("\n") });
        }
    }
    blocks
}

/// What is wrong with the examples of a document, and how many there are.
fn run(document: &str) -> (String, usize) {
    let (mut wrong, mut examples) = (String::new(), 0);
    let blocks = blocks(document);
    let is_example = |block: &&Block<'_>| matches!(block.words.first(), Some(&("http" | "fiql" | "sh")));
    if !blocks.iter().any(|block| is_example(&block)) {
        return (wrong, 0);
    }
    let schema = blocks.iter().find(|block| block.words.first() == Some(&"graphql"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.graphql");
    fs::write(&path, &schema.expect("a document with examples has a schema").text).unwrap();
    let server = start(folder.path(), |config| config.schema = Some(path));
    for (position, block) in blocks.iter().enumerate().filter(|(_, block)| is_example(block)) {
        let complaints = match block.words[..] {
            ["sh"] => vec![(block.line, typed(server.url(), &block.text, &blocks[position + 1].text))],
            ["http"] => vec![(block.line, exchange(server.url(), &block.text))],
            ["fiql", table] => (block.line..)
                .zip(block.text.lines())
                .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
                .map(|(number, line)| (number, list(server.url(), table, line)))
                .collect(),
            _ => panic!("line {}: ```http, ```fiql TABLE or ```sh", block.line),
        };
        examples += complaints.len();
        for (line, complaint) in complaints.into_iter().filter(|(_, complaint)| !complaint.is_empty()) {
            writeln!(wrong, "line {line}: {complaint}").unwrap();
        }
    }
    server.stop().unwrap();
    (wrong, examples)
}

/// Sends a request, and says what is wrong with the response.
fn exchange(url: &str, text: &str) -> String {
    let (request, expected) = text.split_once("\n---\n").expect("an answer stands behind ---");
    let response = scripts::ask(url, request);
    let mut lines = expected.lines();
    let status = format!("{} {}", response.status, response.reason);
    if lines.next() != Some(&status) {
        return format!("{status}: {}", response.body);
    }
    for header in lines.by_ref().take_while(|line| !line.is_empty()) {
        let (name, value) = header.split_once(": ").expect("a header has a value");
        if !fits(value, response.header(name)) {
            return format!("{name}: {}", response.header(name));
        }
    }
    let body = without_white_space(&lines.collect::<Vec<_>>().join("\n"));
    if body.is_empty() || fits(&body, &without_white_space(&response.body)) { String::new() } else { response.body }
}

/// Has a shell do what a reader types, and says what is wrong with what it prints.
fn typed(url: &str, command: &str, expected: &str) -> String {
    let here = command.replace("localhost:9996", url.strip_prefix("http://").unwrap());
    let done = Command::new("sh").arg("-c").arg(here).output().unwrap();
    let printed = String::from_utf8(done.stdout).unwrap();
    match fits(&without_white_space(expected), &without_white_space(&printed)) {
        true => String::new(),
        false => format!("{printed}{}", String::from_utf8_lossy(&done.stderr)),
    }
}

/// Asks for a list, and says what is wrong with it.
fn list(url: &str, table: &str, line: &str) -> String {
    let (query, expected) = line.split_once('→').expect("what is listed stands behind →");
    let (query, expected) = (query.trim(), expected.trim());
    let found = listed(&client::ask(url, "GET", &format!("/{table}?{query}"), ""), query.contains("sort"));
    if fits(expected, &found) { String::new() } else { format!("{query} → {found}") }
}

/// What a response lists, as the documents write it; by id, but in its order if it is sorted.
fn listed(response: &Response, is_sorted: bool) -> String {
    let body: Value = serde_json::from_str(&response.body).unwrap();
    let Some(records) = body.as_array() else {
        let detail = body["detail"].as_str().unwrap();
        return format!("{} at {}: {detail}", response.status, body["position"]);
    };
    let mut ids: Vec<_> = records.iter().map(|record| record["id"].as_str().unwrap()).collect();
    if !is_sorted {
        ids.sort_unstable();
    }
    if ids.is_empty() { "nothing".to_owned() } else { ids.join(", ") }
}

/// Whether a text is what was expected, in which `…` stands for any text.
fn fits(expected: &str, text: &str) -> bool {
    let Some((start, rest)) = expected.split_once('…') else { return text == expected };
    let Some(text) = text.strip_prefix(start) else { return false };
    text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| fits(rest, &text[at..]))
}

/// README.md and its like, and all below `docs`.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["", "docs", "docs/performance"].map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let files = folders.into_iter().flatten().map(|file| file.unwrap().path());
    let mut documents: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    documents.sort();
    documents
}

/// Runs the examples of the documents that are typed into a shell, or of the others; returns how many there were.
fn run_all(are_typed: bool) -> usize {
    let (mut wrong, mut all) = (String::new(), 0);
    for path in documents() {
        let document = fs::read_to_string(&path).unwrap();
        if blocks(&document).iter().any(|block| block.words.first() == Some(&"sh")) != are_typed {
            continue;
        }
        let (complaints, examples) = run(&document);
        let name = path.file_name().unwrap().display();
        if examples > 0 {
            println!("{name}: {examples} examples");
        }
        complaints.lines().for_each(|complaint| writeln!(wrong, "{name}, {complaint}").unwrap());
        all += examples;
    }
    assert!(wrong.is_empty(), "{wrong}");
    all
}

#[test]
fn the_examples_of_the_documents_are_right() {
    assert!(run_all(false) > 120, "docs/queries.md alone has so many");
}

#[test]
#[ignore = "needs curl 7.82: `run-benches.py test` runs it where there is one"]
fn what_a_reader_types_is_right() {
    assert!(run_all(true) > 5, "docs/getting-started.md alone has so many");
}

/// The text of a document without its fenced blocks and what stands between backticks, line by line.
fn prose(document: &str) -> Vec<String> {
    let mut is_fenced = false;
    let lines = document.lines().map(|line| {
        let is_fence = line.starts_with("```");
        is_fenced ^= is_fence;
        if is_fenced || is_fence { String::new() } else { line.split('`').step_by(2).collect() }
    });
    lines.collect()
}

/// The targets of the links in a line: `](here)`, `src="here"` and `[name]: here`.
fn targets(line: &str) -> Vec<&str> {
    let within =
        |start: &'static str, end: char| line.split(start).skip(1).filter_map(move |rest| rest.split(end).next());
    let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target.trim());
    within("](", ')').chain(within("src=\"", '"')).chain(definition).collect()
}

/// The names by which the headings of a document can be linked to, as GitHub makes them.
fn anchors(document: &str) -> Vec<String> {
    let mut is_fenced = false;
    let mut anchors: Vec<String> = Vec::new();
    for line in document.lines() {
        is_fenced ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        if is_fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().to_lowercase();
        let kept = kept.chars().filter(|sign| sign.is_alphanumeric() || matches!(sign, ' ' | '-' | '_'));
        let anchor: String = kept.map(|sign| if sign == ' ' { '-' } else { sign }).collect();
        let before = anchors.iter().filter(|known| **known == anchor).count();
        anchors.push(if before == 0 { anchor } else { format!("{anchor}-{before}") });
    }
    anchors
}

/// The links of a document to files of this repository that lead nowhere.
fn broken_links(path: &Path, document: &str) -> Vec<String> {
    let mut broken = Vec::new();
    for (line, number) in prose(document).iter().zip(1..) {
        for target in targets(line).into_iter().filter(|target| !target.contains("://")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let other = if file.is_empty() { path.to_owned() } else { path.parent().unwrap().join(file) };
            let is_right = match anchor {
                "" => other.exists(),
                _ if file.is_empty() => anchors(document).iter().any(|known| known == anchor),
                _ => fs::read_to_string(other).is_ok_and(|text| anchors(&text).iter().any(|known| known == anchor)),
            };
            if !is_right {
                broken.push(format!("{}:{number}: {target}", path.file_name().unwrap().display()));
            }
        }
    }
    broken
}

#[test]
fn links_lead_somewhere() {
    let broken = |path: PathBuf| broken_links(&path, &fs::read_to_string(&path).unwrap());
    assert_eq!(documents().into_iter().flat_map(broken).collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = "# A `b`, c\n## A b c\n[1](#a-b-c-1) [2](#a) [3](docs) [4](no.md) [5](docs/rest.md#requests)\n[6](docs/rest.md#no)\n\
                    `[7](no.md)`\n```\n[8](no.md)\n# No\n```\n[9](https://example.org/no) [10](#no)\n";
    let expected = ["3: #a", "3: no.md", "4: docs/rest.md#no", "10: #no"].map(|place| format!("new.md:{place}"));
    assert_eq!(broken_links(&root.join("new.md"), document), expected);
}

#[test]
fn every_option_stands_in_the_documents() {
    let documents: String = documents().iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let help = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_strata")).args(arguments).arg("--help").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let is_flag = |word: &&str| word.len() > 2 && word.starts_with("--");
    let mut missing = Vec::new();
    for command in ["serve", "check", "verify", "stats", "backup", "restore", "compact"] {
        let help = help(&[command]);
        let flags: Vec<_> =
            help.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '-').filter(is_flag).collect();
        assert!(flags.len() > 1, "{command}: {help}");
        let is_named = |flag: &str| {
            let mut behind = documents.split(flag).skip(1);
            flag == "--help"
                || behind.any(|rest| !rest.starts_with(|sign: char| sign.is_ascii_alphanumeric() || sign == '-'))
        };
        missing.extend(flags.into_iter().filter(|flag| !is_named(flag)).map(|flag| format!("{command} {flag}")));
    }
    missing.dedup();
    assert_eq!(missing, Vec::<String>::new());
}

/// The header fields that a document names between backticks, in lower case.
fn header_fields(document: &str) -> Vec<String> {
    const OF_ONE_WORD: [&str; 12] = [
        "Accept",
        "Allow",
        "ETag",
        "Expect",
        "Host",
        "Link",
        "Location",
        "Origin",
        "Prefer",
        "Range",
        "Vary",
        "traceparent",
    ];
    let is_part = |part: &str| {
        part.starts_with(|sign: char| sign.is_ascii_uppercase()) && part.chars().all(|sign| sign.is_ascii_alphabetic())
    };
    let is_field = |name: &&str| OF_ONE_WORD.contains(name) || (name.contains('-') && name.split('-').all(is_part));
    let quoted = document.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let names = quoted.filter_map(|text| text.split(':').next()).filter(is_field);
    names.map(str::to_lowercase).collect()
}

/// What the manual describes, pages of an allowed origin may send and read, unless browsers see to it themselves.
#[test]
fn pages_may_use_every_header_field_of_the_documents() {
    /// And proxies.
    const OF_BROWSERS: [&str; 14] = [
        "host",
        "origin",
        "sec-fetch-site",
        "sec-fetch-mode",
        "sec-fetch-dest",
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-real-ip",
        "expect",
        "transfer-encoding",
        "cache-control",
        "last-modified",
        "content-security-policy",
        "x-content-type-options",
    ];
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| {
        config.ingress.cors_origins = vec!["https://app.example.org".to_owned().try_into().unwrap()];
    });
    let listed = |request: &str, name: &str| {
        let response = scripts::ask(server.url(), &format!("{request}\nOrigin: https://app.example.org"));
        let names: Vec<_> = response.header(name).split(", ").map(str::to_owned).collect();
        assert!(names.len() > 5, "{name}: {names:?}");
        (names, response.body)
    };
    let (sent, _) = listed("OPTIONS /Product/1\nAccess-Control-Request-Method: PUT", "access-control-allow-headers");
    let (read, described) = listed("GET /_openapi.json", "access-control-expose-headers");
    for name in ["rest", "queries", "graphql", "observing", "static-files", "console"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/{name}.md"));
        let mut missing = header_fields(&fs::read_to_string(path).unwrap());
        missing.retain(|field| !sent.contains(field) && !read.contains(field) && !OF_BROWSERS.contains(&&**field));
        assert_eq!(missing, Vec::<String>::new(), "{name}");
    }
    let described: Value = serde_json::from_str(&described).unwrap();
    let parameters = described["components"]["parameters"].as_object().unwrap().values();
    for name in parameters.filter(|parameter| parameter["in"] == "header").map(|parameter| &parameter["name"]) {
        assert!(sent.contains(&name.as_str().unwrap().to_lowercase()), "{name}");
    }
    for name in described["components"]["headers"].as_object().unwrap().keys() {
        assert!(read.contains(&name.to_lowercase()), "{name}");
    }
    server.stop().unwrap();
}

#[test]
fn an_example_that_is_wrong_is_found() {
    let schema = "```graphql\ntype T @table @export { id: ID @primaryKey }\n```\n";
    let create = "```http\nPOST /T\n\n[{\"id\": \"a\"}, {\"id\": \"b\"}]\n---\n201 Created\n```\n";
    let wrong = |example: &str| run(&format!("{schema}\n{create}\n{example}")).0;
    assert_eq!(wrong("```fiql T\n# all\nid → a, b\nsort=-id → b, a\nid==c → nothing\n```"), "");
    assert_eq!(wrong("```http\nGET /T/a\n---\n200 OK\ncontent-type: application/json\n\n{ \"id\": \"…\" }\n```"), "");
    assert!(wrong("```fiql T\nid → a\n```").contains("id → a, b"));
    assert!(wrong("```fiql T\nid==a → a\nsort=-id → a, b\n```").starts_with("line 15: sort=-id → b, a"));
    assert!(wrong("```fiql T\nno → 400 at 1: …\n```").contains("400 at 0: table T has no attribute"));
    assert!(wrong("```http\nGET /T/a\n---\n404 Not Found\n```").contains("200 OK"));
    assert_eq!(
        wrong("```sh\nprintf '{\"id\": \"%s\"}' localhost:9996\n```\n```json\n{\"id\":\"127.0.0.1:…\"}\n```"),
        ""
    );
    assert_eq!(wrong("```sh\necho a\n```\n```\nb\n```"), "line 14: a\n\n");
    assert!(
        wrong("```http\nGET /T/a\n---\n200 OK\ncontent-type: text/plain\n```")
            .contains("content-type: application/json")
    );
    assert!(wrong("```http\nGET /T/a\n---\n200 OK\n\n{\"id\": \"b\"}\n```").contains("{\"id\":\"a\"}"));
}
