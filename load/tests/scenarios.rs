//! Scenarios that are wrong are refused with file, key and reason, and those that the program carries are right.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use strata_load::command::{SCENARIOS, SCHEDULES, scenario, schedule};
use strata_load::scenario::Scenario;

const GOOD: &str = include_str!("../scenarios/rest-crud.toml");

/// The names of files in a folder of this package.
fn files(folder: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().path().file_stem().unwrap().to_owned();
    std::fs::read_dir(folder).unwrap().map(|entry| name(entry).into_string().unwrap()).collect()
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
    let plan = |words: &[&str]| {
        let done =
            Command::new(env!("CARGO_BIN_EXE_load")).args(["run", "quota-static", "--plan"]).args(words).output();
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
