//! Every example ends as it says, offline and without a key, and leaves its folder as it was.

use std::path::{Path, PathBuf};

use ronde_tests::git;

use crate::bench;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../examples")
        .join(name)
        .join("loop.toml")
}

fn branch_of(home: &Path, seed: &str) -> PathBuf {
    let seeds = std::fs::read_dir(home.join("seeds")).expect("a seeded repository");
    seeds
        .map(|entry| entry.expect("an entry").path())
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(seed))
        })
        .expect("the repository of the seed")
}

#[test]
fn nightly_green_ends_done_on_a_branch() {
    let bench = bench();
    let before = std::fs::read(example("nightly-green").with_file_name("project/src/lib.rs"))
        .expect("the example's code");
    let ended = bench.ronde([
        Path::new("run"),
        &example("nightly-green"),
        Path::new("--json"),
    ]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let last = ended.run_ended();
    assert_eq!(
        (&last["outcome"], &last["changed"]),
        (&"done".into(), &true.into())
    );
    assert_eq!(
        (&last["attempts"], &last["iterations"]),
        (&2.into(), &5.into())
    );
    let verdicts: Vec<_> = ended
        .json()
        .into_iter()
        .filter(|event| event["event"] == "verdict")
        .map(|event| event["finding"].as_str().expect("a finding").to_owned())
        .collect();
    assert_eq!(
        verdicts,
        ["fail", "fail", "pass"],
        "the base, the wrong fix, the right one"
    );
    let repo = branch_of(&bench.home(), "nightly-green");
    let branch = last["branch"].as_str().expect("a branch");
    assert!(git(&repo, &["show", &format!("{branch}:src/lib.rs")]).contains("/ 2.0"));
    let after = std::fs::read(example("nightly-green").with_file_name("project/src/lib.rs"))
        .expect("the example's code");
    assert_eq!(before, after, "the example's folder is as it was");
}

#[test]
fn needs_human_rests_and_goes_on_with_the_answer() {
    let bench = bench();
    let ended = bench.ronde([
        Path::new("run"),
        &example("needs-human"),
        Path::new("--json"),
    ]);
    assert_eq!(ended.code, Some(20), "{ended:?}");
    let last = ended.run_ended();
    assert_eq!(
        (&last["outcome"], &last["item"]),
        (&"handed_off".into(), &1.into())
    );
    let inbox = bench.lines(["inbox", "--json"]);
    assert_eq!(inbox[0]["reason"], "question");
    assert_eq!(inbox[0]["outcome"], "handed_off");
    let ended = bench.ronde(["answer", "1", "it is port 8443", "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let last = ended.run_ended();
    assert_eq!(
        (&last["outcome"], &last["changed"]),
        (&"done".into(), &true.into())
    );
    let repo = branch_of(&bench.home(), "needs-human");
    let branch = last["branch"].as_str().expect("a branch");
    assert!(git(&repo, &["show", &format!("{branch}:config.ini")]).contains("port = 8443"));
    assert!(bench.lines(["inbox", "--json"]).is_empty());
}
