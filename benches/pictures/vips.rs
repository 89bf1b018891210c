//! vipsthumbnail, with one thread: CPU of four pictures less that of one.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use strata_harness::State;

use crate::Pictures;
use crate::similarity::similarity;

/// Pictures that count: four less one.
pub const COUNTED: u64 = 3;

/// Copies of a picture, and what vipsthumbnail has used so far, beside what the first of each four has.
pub struct Vips {
    pictures: Pictures,
    size: u32,
    /// CPU of the first picture, with the start of the program: the median of five.
    first: Duration,
    used: Mutex<Duration>,
}

/// Returns true if the program can be run.
pub fn is_there() -> bool {
    let ran = Command::new("vipsthumbnail").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    ran.is_ok_and(|status| status.success())
}

impl Vips {
    /// Makes the copies, and holds what vipsthumbnail makes of the first against what we do.
    ///
    /// # Panics
    /// If our file is more than 1.1 times as long, or its SSIM to an exact average is more than 0.0005 lower.
    pub fn beside(pictures: Pictures, size: u32) -> Self {
        for copy in 1..=COUNTED {
            fs::copy(&pictures.file, pictures.folder.path().join(format!("{copy}"))).expect("the folder takes files");
        }
        let mut vips = Self { pictures, size, first: Duration::ZERO, used: Mutex::default() };
        let mut firsts = [(); 5].map(|()| vips.run(1));
        firsts.sort_unstable();
        vips.first = firsts[2];
        let (ours, theirs) = (vips.pictures.make(size), vips.output());
        let length = |path: &Path| fs::metadata(path).expect("it was written").len() as f64;
        let longer = length(&ours) / length(&theirs);
        let [ours, theirs] = [&ours, &theirs].map(|made| similarity(&vips.pictures.file, made));
        eprintln!(
            "{}: {longer:.3} times as long as vipsthumbnail's, SSIM {ours:.4} to {theirs:.4}",
            vips.pictures.file.display()
        );
        assert!(longer <= 1.1 && ours >= theirs - 5e-4, "{longer} times as long, SSIM {ours} to {theirs}");
        vips
    }

    fn output(&self) -> std::path::PathBuf {
        let kind = self.pictures.file.extension().expect("it has one").to_str().expect("a word");
        self.pictures.folder.path().join(format!("theirs.{kind}"))
    }

    /// Makes so many pictures smaller; returns the CPU that took.
    fn run(&self, pictures: u64) -> Duration {
        let before = of_children();
        let size = format!("{0}x{0}", self.size);
        // JPEG has our quality. The last copies have no extension: the format is told by the bytes.
        let output = if self.output().extension().is_some_and(|kind| kind == "jpg") { "[Q=80]" } else { "" };
        let output = format!("{}{output}", self.output().display());
        let mut command = Command::new("vipsthumbnail");
        command.args(["--vips-concurrency=1", "--smartcrop", "centre", "--size", &size, "-o", &output]);
        command
            .arg(&self.pictures.file)
            .args((1..pictures).map(|copy| self.pictures.folder.path().join(format!("{copy}"))));
        assert!(command.status().expect("it was there").success());
        of_children() - before
    }

    /// Makes four pictures smaller.
    pub fn make(&self) -> u64 {
        let used = self.run(COUNTED + 1).saturating_sub(self.first);
        *self.used.lock().expect("no thread panics") += used;
        COUNTED
    }
}

impl State for Vips {
    fn cpu(&self) -> Option<Duration> {
        Some(*self.used.lock().expect("no thread panics"))
    }
}

/// CPU of all children that have ended, as `/proc/self/stat` says (proc(5): fields 16 and 17, in hundredths of a second).
fn of_children() -> Duration {
    let text = fs::read_to_string("/proc/self/stat").expect("Linux says it");
    let behind = text.rfind(')').expect("a name in brackets");
    let fields: Vec<_> = text[behind + 1..].split_whitespace().collect();
    let ticks: u64 = [13, 14].map(|field| fields[field].parse::<u64>().expect("a number")).iter().sum();
    Duration::from_millis(ticks * 10)
}
