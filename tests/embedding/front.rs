//! The list of the Rust API: every item at the root of the crate, with its signatures. A change of it is a line of the diff of
//! tests/embedding/front.txt, and one under "Rust API" in CHANGELOG.md. `UPDATE_GOLDEN=1` writes it anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::ROOT;

/// The text of every file below a folder of `src`, by path, without comments.
fn sources(folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&entry).unwrap();
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
            found.insert(entry.strip_prefix(ROOT).unwrap().to_str().unwrap().to_owned(), code);
        }
    }
}

/// The names in the braces behind a text.
fn names<'t>(text: &'t str, start: &str) -> Vec<&'t str> {
    let list = &text[text.find(start).unwrap() + start.len()..];
    list[..list.find('}').unwrap()].split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// The path and the name behind which each re-exported name stands.
fn origins(front: &str) -> BTreeMap<&str, (&str, &str)> {
    let mut origins = BTreeMap::new();
    for line in front.split("pub use ").skip(1).map(|line| &line[..line.find(';').unwrap()]) {
        let (path, last) = line.rsplit_once("::").unwrap();
        for name in last.trim_matches(['{', '}', '\n', ' ']).split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let (name, alias) = name.split_once(" as ").unwrap_or((name, name));
            origins.insert(alias, (path, name));
        }
    }
    origins
}

/// One line of it, without what follows the signature.
fn on_one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace("(mut self", "(self")
        .replace("( ", "(")
        .replace(", )", ")")
        .replace(" )", ")")
        .replace(", >", ">")
        .replace("< ", "<")
}

/// What a block has at its own depth, each up to its body or its end.
fn members(block: &str) -> Vec<String> {
    let (mut members, mut member, mut braces, mut others) = (Vec::new(), String::new(), 0, 0);
    for character in block.chars() {
        match character {
            '{' => braces += 1,
            '}' => braces -= 1,
            // Within a body they compare.
            '(' | '[' | '<' if braces == 0 => others += 1,
            ')' | ']' if braces == 0 => others -= 1,
            '>' if braces == 0 && !member.ends_with('-') => others -= 1,
            _ => {}
        }
        member.push(character);
        if (braces, others) == (0, 0) && matches!(character, '}' | ',' | ';') {
            members.push(std::mem::take(&mut member).trim().trim_end_matches([',', ';']).to_owned());
        }
    }
    members.push(member.trim().to_owned());
    members
}

/// The text within the braces that open at a place.
fn braced(text: &str, open: usize) -> &str {
    let mut depth = 0;
    let end = text[open..].char_indices().find(|(_, character)| {
        depth += i32::from(*character == '{') - i32::from(*character == '}');
        depth == 0
    });
    &text[open + 1..open + end.unwrap().0]
}

/// Adds the definition of a type, if a file has it.
fn define(code: &str, name: &str, out: &mut Vec<String>) {
    let is_word_end = |at: usize| !code[at..].starts_with(|next: char| next.is_alphanumeric() || next == '_');
    for kind in ["struct", "enum", "trait"] {
        let start = format!("pub {kind} {name}");
        let Some(at) = code.find(&start).filter(|at| is_word_end(at + start.len())) else { continue };
        let end = at + code[at..].find(['{', ';']).unwrap();
        let head = on_one_line(&code[at..end]);
        // Without the fields of a tuple that nobody can name.
        let head = if head.contains("(pub ") { head.as_str() } else { head.split('(').next().unwrap() };
        let is_open = code[..at].trim_end().ends_with("#[non_exhaustive]");
        out.push(format!("{head}{}", if is_open { ", non-exhaustive" } else { "" }));
        if code[end..].starts_with('{') {
            let of = members(braced(code, end));
            let shown = of.iter().filter(|member| !member.is_empty() && (kind == "enum" || member.contains("pub ")));
            out.extend(shown.map(|member| format!("    {}", on_one_line(member))));
        }
    }
}

/// Adds the methods and the traits of a type that a file has.
fn implement(code: &str, name: &str, out: &mut Vec<String>) {
    for (at, _) in code.match_indices("\nimpl") {
        let head_end = at + code[at..].find('{').unwrap();
        let head = on_one_line(&code[at..head_end]);
        let of = head.rsplit_once(" for ").map_or(head.as_str(), |(_, of)| of);
        let of = if of.starts_with("impl<") {
            of.split_once("> ").map_or(of, |(_, of)| of)
        } else {
            of.trim_start_matches("impl ")
        };
        if of.split(['<', ' ']).next() != Some(name) {
            continue;
        }
        if head.contains(" for ") {
            let is_sealed = ["sealed::", "Debug", "Drop"].iter().any(|word| head.contains(word));
            out.extend((!is_sealed).then_some(head));
            continue;
        }
        let of = members(braced(code, head_end));
        let public = of.iter().filter_map(|member| Some(&member[member.find("pub fn ")?..]));
        out.extend(
            public.map(|member| format!("    {}", on_one_line(&member[..member.find('{').unwrap_or(member.len())]))),
        );
    }
}

#[test]
fn the_list_is_what_stands_in_the_sources() {
    let mut files = BTreeMap::new();
    sources(&Path::new(ROOT).join("src"), &mut files);
    let front = &files["src/embedding.rs"];
    let (origins, mut list) = (origins(front), Vec::new());
    for name in names(&files["src/lib.rs"], "pub use embedding::{") {
        let (path, named) = origins.get(name).unwrap_or_else(|| panic!("{name} is not public in src/embedding.rs"));
        let layer = path.trim_start_matches("crate::").split("::").next().unwrap();
        let below = if path.starts_with("crate::") { format!("src/{layer}") } else { format!("src/embedding/{layer}") };
        let before = list.len();
        if *named != name {
            list.push(format!("{name}:"));
        }
        let is_there = |file: &str| file == format!("{below}.rs") || file.starts_with(&format!("{below}/"));
        if name == "Result" {
            list.push("pub type Result<T> = std::result::Result<T, Error>".to_owned());
        }
        let codes = || files.iter().filter(|(file, _)| is_there(file)).map(|(_, code)| code);
        codes().for_each(|code| define(code, named, &mut list));
        codes().for_each(|code| implement(code, named, &mut list));
        assert!(list.len() > before, "nothing is known of {name} below {below}");
        list.push(String::new());
    }
    let (path, list) = (Path::new(ROOT).join("tests/embedding/front.txt"), list.join("\n"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &list).unwrap();
    }
    assert_eq!(
        list,
        fs::read_to_string(path).unwrap_or_default(),
        "UPDATE_GOLDEN=1 writes it anew; tell of it in CHANGELOG.md"
    );
}
