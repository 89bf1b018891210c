//! Circles of files: files of `src` that import each other, be it by way of others, so that none of them can be read or changed alone.
//!
//! A file imports the file to which a path in it leads, as it is written: what is re-exported is taken from the file that re-exports
//! it. What a file takes from one in whose folder it lies does not count, nor do `mod` lines, nor tests.

use std::collections::{BTreeMap, BTreeSet};

use super::{File, branches, first_word, module_of, without_comments};

/// The files that each file imports, and the paths by which it names them.
type Imports<'f> = BTreeMap<&'f str, BTreeMap<&'f str, BTreeSet<String>>>;

/// Each circle: its files, and the imports that make it.
pub(super) fn circles(files: &[File]) -> Vec<String> {
    let imports = imports(files);
    let reached: BTreeMap<&str, _> = imports.keys().map(|file| (*file, reached_from(file, &imports))).collect();
    let (mut found, mut told) = (Vec::new(), BTreeSet::new());
    for (file, others) in reached.iter().filter(|(file, others)| others.contains(*file)) {
        if told.contains(file) {
            continue;
        }
        let circle: Vec<&str> = others.iter().copied().filter(|other| reached[other].contains(file)).collect();
        told.extend(circle.iter().copied());
        let arrows = circle.iter().flat_map(|from| imports[from].iter().map(move |(to, paths)| (from, to, paths)));
        let arrows = arrows.filter(|(_, to, _)| circle.contains(to)).map(|(from, to, paths)| {
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            format!("{from} imports {} of {to}", paths.join(" and "))
        });
        let arrows: Vec<_> = arrows.collect();
        found.push(format!("{} form a circle: {}", circle.join(", "), arrows.join("; ")));
    }
    found
}

/// The files to which imports lead from a file, also by way of others.
fn reached_from<'f>(file: &'f str, imports: &Imports<'f>) -> BTreeSet<&'f str> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![file]);
    while let Some(file) = next.pop() {
        next.extend(imports[file].keys().copied().filter(|other| reached.insert(*other)));
    }
    reached
}

/// The imports of the files of the library that are no tests.
pub(super) fn imports(files: &[File]) -> Imports<'_> {
    let tests: Vec<String> = files.iter().flat_map(|(path, text)| modules_of_tests(path, text)).collect();
    let is_test = |module: &str| tests.iter().any(|test| module == test || lies_in(module, test));
    let modules = files.iter().filter_map(|(path, text)| Some((module_of_file(path)?, (path.as_str(), text.as_str()))));
    let modules: BTreeMap<String, (&str, &str)> = modules.filter(|(module, _)| !is_test(module)).collect();
    let mut imports = Imports::new();
    for (own, (file, text)) in &modules {
        let imported = imports.entry(file).or_default();
        for path in paths(own, &without_comments(without_tests(text))) {
            let mut module = path.as_str();
            while !modules.contains_key(module) && !module.is_empty() {
                module = parent(module);
            }
            if module != own && !lies_in(own, module) {
                imported.entry(modules[module].0).or_default().insert(path);
            }
        }
    }
    imports
}

/// The path of a file's module from the root of the crate, which is empty; none for the binary and what is not in `src`.
fn module_of_file(path: &str) -> Option<String> {
    let name = path.strip_prefix("src/")?.strip_suffix(".rs")?;
    (name != "main").then(|| if name == "lib" { String::new() } else { name.replace('/', "::") })
}

/// The modules of a file that are files of tests.
fn modules_of_tests(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().zip(text.lines().skip(1)).filter(|(attribute, _)| *attribute == "#[cfg(test)]");
    let names = lines.filter_map(|(_, line)| module_of(line));
    module_of_file(path).map_or_else(Vec::new, |own| names.map(|name| below(&own, name)).collect())
}

/// The text without the module of tests in it, which is the last item of a file.
fn without_tests(text: &str) -> &str {
    text.find("mod tests {").map_or(text, |start| &text[..start])
}

/// Each path of a module's code, from the root of the crate: what it writes from `crate`, `super`, `self`, or from a module of its own.
fn paths(own: &str, code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for start in ["crate", "super", "self"].into_iter().chain(code.lines().filter_map(module_of)) {
        for (position, _) in code.match_indices(&format!("{start}::")) {
            let goes_on = code[..position].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            let base = if start == "crate" { "" } else { own };
            let rest = if start == "crate" { &code[position + "crate::".len()..] } else { &code[position..] };
            if !goes_on {
                follow(base, rest, &mut found);
            }
        }
    }
    found
}

/// Follows a path from a module on, along each branch of its groups.
fn follow(base: &str, rest: &str, found: &mut Vec<String>) {
    for branch in branches(rest) {
        let word = first_word(branch);
        let path = match word {
            "super" => parent(base).to_owned(),
            "self" | "" => base.to_owned(),
            name => below(base, name),
        };
        match branch[word.len()..].strip_prefix("::") {
            Some(rest) => follow(&path, rest, found),
            None => found.push(path),
        }
    }
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

fn below(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

/// Whether a module lies in another one, be it deep.
fn lies_in(module: &str, other: &str) -> bool {
    other.is_empty() || module.strip_prefix(other).is_some_and(|rest| rest.starts_with("::"))
}

#[test]
fn a_circle_is_found() {
    let around = [
        ("src/lib.rs", "//! L.\nmod storage;\nmod query;\n"),
        ("src/storage.rs", "//! S.\nmod scan;\nmod file;\npub use scan::Scan;\n"),
        ("src/query.rs", "//! Q.\npub(super) mod parse;\nmod tree;\n#[cfg(test)]\nmod fuzz;\n"),
        ("src/query/tree.rs", "//! T.\nuse super::{Options, parse::{self, Text}};\n"),
    ];
    let circles_of = |more: &[(&str, &str)]| {
        let files = around.iter().chain(more).map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        circles(&files.collect::<Vec<File>>())
    };
    let (parse, words) = ("src/query/parse.rs", "src/query/parse/words.rs");
    let (scan, file) = ("src/storage/scan.rs", "src/storage/file.rs");
    let planted: [(&[(&str, &str)], &str); 7] = [
        (
            &[(parse, "//! P.\nuse super::tree::Tree;\n")],
            "src/query/parse.rs, src/query/tree.rs form a circle: src/query/parse.rs imports query::tree::Tree of src/query/tree.rs; \
             src/query/tree.rs imports query::parse and query::parse::Text of src/query/parse.rs",
        ),
        (&[(parse, "//! P.\nuse crate::{error, query::{run,\n tree}};\n")], "imports query::tree of src/query/tree.rs"),
        (&[(parse, "//! P.\nfn f() -> crate::query::tree::Tree {}\n")], "imports query::tree::Tree of"),
        (
            &[
                (parse, "//! P.\nmod words;\nuse words::Word;\n"),
                (words, "//! W.\nuse super::Parser;\nuse super::super::tree::Tree;\n"),
            ],
            "src/query/parse.rs, src/query/parse/words.rs, src/query/tree.rs form a circle",
        ),
        (
            &[(parse, "//! P.\nuse self::words::Word;\n"), (words, "//! W.\nuse crate::query::tree::Tree;\n")],
            "src/query/parse.rs imports query::parse::words::Word of src/query/parse/words.rs",
        ),
        (
            // It is taken from the file that re-exports it.
            &[(parse, "//! P.\nuse crate::storage::Scan;\n"), (scan, "//! S.\nuse crate::query::tree::Tree;\n")],
            "src/query/parse.rs imports storage::Scan of src/storage.rs",
        ),
        (
            &[(scan, "//! S.\nuse super::file::File;\n"), (file, "//! F.\nuse super::scan::Scan;\n")],
            "src/storage/file.rs, src/storage/scan.rs form a circle",
        ),
    ];
    for (files, expected) in planted {
        let found = circles_of(files);
        assert!(found.len() == 1 && found[0].contains(expected), "{expected}: {found:?}");
    }
    let right = [
        (
            parse,
            "//! P.\nuse super::Options; // not super::tree::Tree\n#[cfg(test)]\nmod tests {\n    use super::super::tree;\n}\n",
        ),
        ("src/query/fuzz.rs", "//! F.\nuse super::tree::Tree;\n"),
        (scan, "//! S.\nuse super::{Options, file::File};\nuse crate::storage::Store;\n"),
        (file, "//! F.\nuse crate::Database;\n"),
        ("src/main.rs", "//! M.\nuse crate::query;\n"),
    ];
    assert_eq!(circles_of(&right), Vec::<String>::new());
}
