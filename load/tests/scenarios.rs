//! Scenarios that are wrong are refused with file, key and reason, and those that the program carries are right.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use strata_load::command::{SCENARIOS, SCHEDULES, scenario, schedule};
use strata_load::scenario::Scenario;

const GOOD: &str = include_str!("../scenarios/rest-crud.toml");

/// The names of the TOML files in a folder of this package.
fn files(folder: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| Some(name.strip_suffix(".toml")?.to_owned())).collect()
}

#[test]
fn carried_scenarios_are_right_and_all_are_carried() {
    for (name, _) in SCENARIOS {
        let scenario = scenario(name).unwrap();
        assert_eq!(scenario.name, name);
        for variant in scenario.variants() {
            assert_eq!(variant.fault(), None, "{}", variant.name);
        }
    }
    for (name, _) in SCHEDULES {
        assert_eq!(schedule(name).unwrap().fault(), None, "{name}");
    }
    let names = |carried: &[(&str, &str)]| carried.iter().map(|(name, _)| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(names(&SCENARIOS), files("scenarios"));
    assert_eq!(names(&SCHEDULES), files("schedules"));
}

/// The operations of a scenario and their shares, in percent.
fn shares(scenario: &Scenario) -> Vec<(&str, f64)> {
    let sum: f64 = scenario.operations.iter().map(|operation| operation.weight).sum();
    let share = |weight: f64| (weight / sum * 10_000.0).round() / 100.0;
    scenario.operations.iter().map(|operation| (operation.name.as_str(), share(operation.weight))).collect()
}

#[test]
fn a_mix_shares_out_by_kind_and_leaves_nothing_that_never_runs() {
    let mixed = |mix: &str| {
        let text = GOOD.replacen("[[operations]]", &format!("[sweep]\nmixes = [\"{mix}\"]\n\n[[operations]]"), 1);
        Scenario::parse("file.toml", &text).map(|scenario| scenario.variants().remove(0))
    };
    let [half, thirds] = ["50/50", "60/35/5"].map(|mix| mixed(mix).unwrap());
    let writes = [("post", 15.0), ("put", 12.5), ("patch", 12.5), ("delete", 10.0)];
    assert_eq!(shares(&half), [("get one", 43.75), ("get list", 6.25)].into_iter().chain(writes).collect::<Vec<_>>());
    assert_eq!(shares(&thirds)[..2], [("get one", 60.0), ("get list", 35.0)]);
    assert_eq!(thirds.name, "rest-crud-60-35-5");
    let reading = mixed("100/0").unwrap();
    assert_eq!(shares(&reading), [("get one", 87.5), ("get list", 12.5)]);
    assert!(reading.effects.iter().all(|effect| effect.counter != "writes"), "nothing is promised of what never runs");
    for wrong in ["80/30", "100", "80/20/", "a/b", "120/-20"] {
        assert_eq!(mixed(wrong).unwrap_err().key, "sweep.mixes[0]", "{wrong}");
    }
    let lists_alone = GOOD.replacen("method = \"GET\"", "method = \"GET\"\nclass = \"list\"", 1).replacen(
        "[[operations]]",
        "[sweep]\nmixes = [\"60/35/5\"]\n\n[[operations]]",
        1,
    );
    assert_eq!(Scenario::parse("file.toml", &lists_alone).unwrap_err().key, "sweep.mixes");
}

#[test]
fn what_is_varied_is_combined_and_each_combination_has_a_name() {
    let sweep = "[sweep]\nmixes = [\"100/0\", \"0/100\"]\nconnections = [10, 20]\napart = true\n\n[[operations]]";
    let scenario = Scenario::parse("file.toml", &GOOD.replacen("[[operations]]", sweep, 1)).unwrap();
    let variants = scenario.variants();
    let names: BTreeSet<_> = variants.iter().map(|variant| variant.name.as_str()).collect();
    assert_eq!((variants.len(), names.len()), (12, 12));
    assert!(names.contains("rest-crud-100-0-get-list-20c"), "{names:?}");
    assert!(variants.iter().all(|variant| variant.operations.len() == 1 && variant.sweep.is_empty()));
}

#[test]
fn repeats_of_a_variant_have_its_other_variants_between_them() {
    let sweep = "[sweep]\nconnections = [10, 20]\nrepeats = 2\n\n[[operations]]";
    let scenario = Scenario::parse("file.toml", &GOOD.replacen("[[operations]]", sweep, 1)).unwrap();
    let variants = scenario.variants();
    let order: Vec<_> = variants.iter().map(|variant| (variant.name.as_str(), variant.repeat)).collect();
    let expected = [
        ("rest-crud-10c-repeat-1", Some(1)),
        ("rest-crud-20c-repeat-1", Some(1)),
        ("rest-crud-10c-repeat-2", Some(2)),
        ("rest-crud-20c-repeat-2", Some(2)),
    ];
    assert_eq!(order, expected);
}

#[test]
fn mistakes_are_refused_by_their_key() {
    for (from, to, key) in [
        ("name = \"rest-crud\"", "name = \"a/b\"", "name"),
        ("rows = 10000", "rows = 0", "data.rows"),
        ("rows = 10000", "rows = \"many\"", "data.rows"),
        ("spare = 2000", "spare = 0", "operations[5].row"),
        ("connections = 50", "connections = 0", "load.connections"),
        ("connections = 50", "connections = 50\nstreams = 4", "load.streams"),
        ("connections = 50", "connections = 50\nthread = 4", "load.thread"),
        ("connections = 50", "connections = 50\nseconds = 4.0", "load.schedule"),
        ("rate = 1000.0", "rate = -1.0", "load.schedule.rate"),
        ("weight = 70.0", "weight = 0.0", "operations[0].weight"),
        ("method = \"PUT\"", "method = \"P T\"", "operations[3].method"),
        ("path = \"/Product/p{n}\"", "path = \"Product\"", "operations[0].path"),
        ("path = \"/Product/p{n}\"", "path = \"/Product/p{m}\"", "operations[0].path"),
        ("expect = { status = 204, bytes = 0 }", "", "operations[5]"),
        ("expect = { status = 204, bytes = 0 }", "expect = { status = 204 }", "operations[5].expect"),
        (
            "expect = { status = 204, bytes = 0 }",
            "expect = { status = 204, bytes = 0 }\nrevalidate = true",
            "operations[5].revalidate",
        ),
        (
            "expect = { status = 204, bytes = 0 }",
            "expect = { status = 200, picture = { type = \"image/gif\", width = 1, height = 1 } }",
            "operations[5].expect.picture.type",
        ),
        ("name = \"put\"", "name = \"post\"", "operations[3].name"),
        ("operations = [\"get list\"]", "operations = [\"get\"]", "effects[1].operations"),
        ("each = 1.0", "each = 0.0", "effects[0].each"),
        ("[load]", "[sweep]\nconnections = [0]\n[load]", "sweep.connections"),
        ("[load]", "[sweep]\nrepeats = 0\n[load]", "sweep.repeats"),
        ("[data]", "[[objectives]]\noperation = \"x\"\nbound = { throughput_at_least = 1.0 }\n[data]", "objectives[0]"),
        (
            "[data]",
            "[[objectives]]\nbound = { response = { quantile = 0.99, at_most_ms = 5.0 } }\n[data]",
            "objectives[0]",
        ),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let refusal = Scenario::parse("file.toml", &GOOD.replacen(from, to, 1)).unwrap_err();
        assert_eq!((refusal.file.as_str(), refusal.key.as_str()), ("file.toml", key), "{to}: {}", refusal.reason);
    }
}

#[test]
fn a_file_that_is_wrong_ends_the_program_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.toml");
    std::fs::write(&file, GOOD.replacen("rows = 10000", "rows = 0", 1)).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_load")).arg("run").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("wrong.toml: data.rows: at least 1"), "{said}");
}

#[test]
fn a_plan_names_every_run_and_what_cannot_be_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("quotas.toml");
    let not_run = "[not_run]\n\"from disk\" = \"too slow\"\n\"from afar\" = \"too far\"\n\n[[operations]]";
    std::fs::write(&file, include_str!("../scenarios/quota-static.toml").replacen("[[operations]]", not_run, 1))
        .unwrap();
    let plan = |words: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_load")).arg("run").arg(&file).arg("--plan").args(words).output();
        let done = done.unwrap();
        (done.status.code(), String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap())
    };
    let (code, printed, _) = plan(&["--server-cpus", "0.5,1", "--test-duration-secs", "3"]);
    let planned: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let names: Vec<_> = planned["run"].as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap()).collect();
    assert_eq!((code, names.len()), (Some(0), 2), "{names:?}");
    assert_eq!((&planned["run"][0]["seconds"], planned["not_run"].as_object().unwrap().len()), (&3.0.into(), 2));
    let (code, _, error) = plan(&["--concurrent-tasks", "0"]);
    assert_eq!((code, error.contains("load.connections")), (Some(2), true), "{error}");
}

/// A scenario with every number that one can have, in an open loop.
const NUMBERS: &str = r#"
name = "numbers"
about = "each number that a scenario has"
repeat = 1
effects = [{ counter = "gets", operations = ["get"], each = 1.0 }]

[data]
schema = ""
table = "Row"
rows = 10
spare = 10
row = "{n}"
related = [{ table = "Other", rows = 10, row = "{n}" }]

[load]
connections = 4
streams = 1
threads = 2
queue = 10
warm_up_requests = 10
timeout_seconds = 1.0
drain_seconds = 1.0
server_cpus = 1.0
seed = 7
END

[[operations]]
name = "get"
weight = 1.0
method = "GET"
path = "/Row/{n}"
expect = { status = 200, rows = 1, bytes = 1 }

[[objectives]]
bound = { throughput_at_least = 1.0 }
[[objectives]]
bound = { failures_at_most = 0.5 }
[[objectives]]
bound = { growth = { of = "memory", at_most = 0.5 } }
OBJECTIVE

[sweep]
connections = [2]
server_cpus = [0.5]
repeats = 2
"#;

/// The keys of all numbers in a value, from its root.
fn numbers(value: &toml::Value, key: &str, found: &mut Vec<String>) {
    match value {
        toml::Value::Integer(_) | toml::Value::Float(_) => found.push(key.to_owned()),
        toml::Value::Array(list) => {
            list.iter().enumerate().for_each(|(at, value)| numbers(value, &format!("{key}.{at}"), found));
        }
        toml::Value::Table(table) => {
            table.iter().for_each(|(name, value)| numbers(value, &format!("{key}.{name}"), found))
        }
        _ => {}
    }
}

#[test]
fn numbers_that_cannot_be_meant_are_refused() {
    let response = "[[objectives]]\noperation = \"get\"\nbound = { response = { quantile = 0.99, at_most_ms = 1.0 } }";
    let burst = "shape = \"burst\", rate = 10.0, base = 1.0, burst_seconds = 1.0, period_seconds = 2.0, seconds = 10.0";
    let mut zeros = BTreeSet::new();
    for (end, objective) in [
        ("seconds = 1.0".to_owned(), ""),
        ("requests = 10".to_owned(), ""),
        ("schedule = { shape = \"constant\", rate = 10.0, seconds = 1.0 }".to_owned(), response),
        ("schedule = { shape = \"ramp\", rates = [10.0, 10.0], seconds = 1.0 }".to_owned(), response),
        ("schedule = { shape = \"step\", rates = [10.0, 10.0], seconds = 1.0 }".to_owned(), response),
        (format!("schedule = {{ {burst} }}"), response),
    ] {
        let text = NUMBERS.replace("END", &end).replace("OBJECTIVE", objective);
        let whole: toml::Value = toml::from_str(&text).unwrap();
        let parse = |value: &toml::Value| Scenario::parse("file.toml", &toml::to_string(value).unwrap());
        assert!(parse(&whole).is_ok(), "{:?}", parse(&whole));
        let mut keys = Vec::new();
        numbers(&whole, "", &mut keys);
        assert!(keys.len() > 20, "{keys:?}");
        for key in keys {
            let with = |number: f64, whole_number: Option<i64>| {
                let mut changed = whole.clone();
                let mut place = &mut changed;
                for name in key.split('.').skip(1) {
                    place = match place {
                        toml::Value::Array(list) => &mut list[name.parse::<usize>().unwrap()],
                        table => table.get_mut(name).unwrap(),
                    };
                }
                *place = match (&*place, whole_number) {
                    (toml::Value::Integer(_), Some(whole)) => toml::Value::Integer(whole),
                    _ => toml::Value::Float(number),
                };
                parse(&changed)
            };
            for (number, whole_number) in
                [(-1.0, Some(-1)), (f64::NAN, None), (f64::INFINITY, None), (1e18, Some(1_000_000_000_000_000_000))]
            {
                let found = with(number, whole_number);
                // Any bits are a seed.
                let is_seed = key == ".load.seed" && number == 1e18;
                assert_eq!(found.is_err(), !is_seed, "{key} = {number}");
            }
            zeros.extend(with(0.0, Some(0)).is_ok().then_some(key));
        }
    }
    let meant = [
        ".data.related.0.rows",
        ".data.spare",
        ".load.queue",
        ".load.schedule.base",
        // Of a burst, which is then a pause.
        ".load.schedule.rate",
        ".load.schedule.rates.0",
        ".load.schedule.rates.1",
        ".load.seed",
        ".load.warm_up_requests",
        ".objectives.1.bound.failures_at_most",
        ".objectives.2.bound.growth.at_most",
        ".operations.0.expect.bytes",
        ".operations.0.expect.rows",
    ];
    assert_eq!(zeros.iter().map(String::as_str).collect::<Vec<_>>(), meant);
}

#[test]
fn numbers_beyond_their_range_are_refused() {
    for (from, to) in [
        ("failures_at_most = 0.5", "failures_at_most = 2.0"),
        ("failures_at_most = 0.5", "failures_at_most = 1.001"),
        ("status = 200", "status = 99"),
        ("status = 200", "status = 1000"),
        ("repeats = 2", "repeats = 4294967295"),
        ("connections = [2]", "connections = [9999999]"),
        ("{n}", "{filler:99999999999}"),
    ] {
        let text = NUMBERS.replace("END", "seconds = 1.0").replace("OBJECTIVE", "").replacen(from, to, 1);
        assert!(Scenario::parse("file.toml", &text).is_err(), "{to}");
    }
}

/// The exit code of the program and what it says on standard error.
fn said(words: &[&str]) -> (Option<i32>, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_load")).args(words).output().unwrap();
    (done.status.code(), String::from_utf8(done.stderr).unwrap())
}

#[test]
fn flags_are_as_strict_as_files() {
    let flags = [
        "--rate",
        "--test-duration-secs",
        "--requests",
        "--concurrent-tasks",
        "--repeats",
        "--warmup-requests",
        "--seed-record-count",
        "--server-cpus",
        "--target-read-throughput",
        "--target-write-throughput",
    ];
    for flag in flags {
        for wrong in ["-1", "nan", "inf", "1e18", "1000000000000000000", ""] {
            // Reading alone: a target for writes is looked at, too.
            let (code, said) = said(&["run", "throughput-read", "--plan", &format!("{flag}={wrong}")]);
            assert_eq!(code, Some(2), "{flag}={wrong}: {said}");
        }
        let zero = said(&["run", "throughput-read", "--plan", &format!("{flag}=0")]).0;
        assert_eq!(zero, Some(if flag == "--warmup-requests" { 0 } else { 2 }), "{flag}=0");
    }
    for flag in ["--first", "--p99-at-most-ms"] {
        for wrong in ["-1", "0", "nan", "inf", "1e18"] {
            let (code, said) = said(&["capacity", "rest-crud", "--server", "/nowhere", &format!("{flag}={wrong}")]);
            assert!(code == Some(2) && said.contains(flag), "{flag}={wrong}: {said}");
        }
    }
    for wrong in ["0", "-1", "4294967295", "inf"] {
        let windows = format!("--windows={wrong}");
        assert_eq!(
            said(&["pair", "throughput-read", &windows, "--server", "/nowhere", "--", "throughput-read"]).0,
            Some(2)
        );
    }
}

#[test]
fn files_are_below_their_folder() {
    let files = include_str!("../scenarios/static-files.toml");
    let with = |name: &str| {
        let escaped = name.replace('\0', "\\u0000").replace('\n', "\\n");
        let named = files.replacen("\"index.html\" = ", &format!("\"{escaped}\" = "), 1);
        Scenario::parse("file.toml", &named)
    };
    let (long, deep) = ("x".repeat(256), "x/".repeat(600) + "x");
    for wrong in [
        "../../evil.txt",
        "..",
        ".",
        "",
        "/tmp/evil.txt",
        "a/../../b",
        "a/..",
        "./a",
        "a/./b",
        "a//b",
        "a/",
        "/",
        "a\0b",
        "a\nb",
        "style.css/below",
        &long,
        &deep,
    ] {
        let refusal = with(wrong).unwrap_err();
        assert!(refusal.file == "file.toml" && refusal.key.starts_with("data.files."), "{wrong:?}: {refusal}");
        assert!(!refusal.to_string().contains(['\0', '\n']), "{refusal:?}");
    }
    for right in ["a.txt", "a/b/c.txt", "..a", "a..b/c", ".well-known/x", "ä b.txt"] {
        assert!(with(right).is_ok(), "{right}");
    }
    for option in ["--access-log", "--data-dir", "--ready-file", "--config"] {
        for options in [format!("\"{option}\", \"/tmp/evil\""), format!("\"{option}=../evil\"")] {
            let text = GOOD.replacen("spare = 2000", &format!("spare = 2000\nserver_options = [{options}]"), 1);
            assert_eq!(Scenario::parse("file.toml", &text).unwrap_err().key, "data.server_options[0]", "{options}");
        }
    }
    for wrong in ["", "a/b", "../a", "a.b", "a b", "a\\nb", "a\\u0000b", &long] {
        let text = GOOD.replacen("name = \"rest-crud\"", &format!("name = \"{wrong}\""), 1);
        assert_eq!(Scenario::parse("file.toml", &text).unwrap_err().key, "name", "{wrong}");
    }
}

#[test]
fn a_blob_is_a_text_or_a_file_beside_the_scenario() {
    let text = include_str!("../scenarios/quota-image.toml");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("logo-2000.png"), "of its own").unwrap();
    std::fs::write(folder.path().join("photograph-12mp.jpg"), "too").unwrap();
    let place = folder.path().join("mine.toml");
    let parse = |text: &str| Scenario::parse(place.to_str().unwrap(), text);
    let contents = |scenario: &Scenario| scenario.data.blobs.iter().map(|blob| blob.of(0)).collect::<Vec<_>>();
    assert_eq!(contents(&parse(text).unwrap()), ["of its own", "too"]);
    let built_in = scenario("quota-image").unwrap();
    assert_eq!(contents(&built_in)[0].len(), include_bytes!("../scenarios/logo-2000.png").len());
    let one = text.find("blobs = [").unwrap()..text.find("server_options").unwrap();
    let with = |blob: &str| parse(&[&text[..one.start], &format!("blob = {blob}\n"), &text[one.end..]].concat());
    assert_eq!(contents(&with("{ path = \"/Photo/p{n}/logo\", content = \"{filler:3}\" }").unwrap())[0].len(), 3);
    for (wrong, key) in [
        ("{ path = \"/Photo/p{n}/logo\" }", ""),
        ("{ path = \"/Photo/p{n}/logo\", content = \"x\", file = \"logo-2000.png\" }", ""),
        ("{ path = \"/Photo/p{n}/logo\", file = \"../logo-2000.png\" }", ".file"),
        ("{ path = \"/Photo/p{n}/logo\", file = \"nowhere.png\" }", ".file"),
        ("{ path = \"/Photo/p{n}/logo\", content = \"x\", type = \"a\\nb\" }", ".type"),
    ] {
        let refusal = with(wrong).unwrap_err();
        assert!(refusal.key.starts_with("data.blobs[0]") && refusal.key.ends_with(key), "{wrong}: {refusal}");
    }
}
