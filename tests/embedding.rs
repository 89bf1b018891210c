//! The library in a program of one's own, as docs/embedding.md tells it: the program runs, and what the documents show stands in it.

use std::fs;
use std::path::Path;

#[path = "../examples/embedded.rs"]
#[expect(dead_code, reason = "its main reads arguments, which are the test runner's here")]
mod embedded;

/// The lines of a text without the white space around them: in a document a piece is not indented as in the program.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

#[test]
fn the_program_of_the_document_runs() {
    let folder = tempfile::tempdir().unwrap();
    embedded::tour(&folder.path().join("data")).unwrap();
}

#[test]
fn what_the_documents_show_stands_in_the_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = fs::read_to_string(root.join("examples/embedded.rs")).unwrap();
    let program = lines(&program);
    for (name, least) in [("docs/embedding.md", 10), ("README.md", 1)] {
        let document = fs::read_to_string(root.join(name)).unwrap();
        let pieces = document.split("\n```rust\n").skip(1).map(|rest| rest.split("\n```").next().unwrap());
        let pieces: Vec<_> = pieces.collect();
        assert!(pieces.len() >= least, "{name}");
        for piece in pieces {
            let piece_lines = lines(piece);
            assert!(program.windows(piece_lines.len()).any(|part| part == piece_lines), "{name}:\n{piece}");
        }
    }
}
