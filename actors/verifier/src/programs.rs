//! Which files of the repository checks run as programs: they are the base's, whatever a tree brings.
//! Pure.

use std::collections::BTreeSet;

use ronde_protocol::verdict::Check;
use ronde_workspace::programs_in;

/// Whether any check names something that could be a file of a repository.
pub(crate) fn are_named(checks: &[Check]) -> bool {
    checks
        .iter()
        .any(|check| !programs_in(&check.run, |_| true).is_empty())
}

/// The programs of checks: what each names of the base, and what was `added` to it that would run in the
/// place of one of those. A `GNUmakefile` beside the base's `Makefile` is one; a file that a check
/// names and the base does not have is none, for it may be what the worker was asked to make.
pub(crate) fn of(checks: &[Check], base: &[String], added: impl Fn(&str) -> bool) -> Vec<String> {
    let base: BTreeSet<&str> = base.iter().map(String::as_str).collect();
    let mut all = BTreeSet::new();
    for check in checks {
        let own = programs_in(&check.run, |path| base.contains(path));
        let now = programs_in(&check.run, |path| base.contains(path) || added(path));
        let gave_way = !own.iter().all(|path| now.contains(path));
        let instead = |path: &String| {
            !own.contains(path)
                && (gave_way || own.iter().any(|module| is_package_of(path, module)))
        };
        all.extend(now.into_iter().filter(instead));
        all.extend(own);
    }
    all.into_iter().collect()
}

/// Whether `python -m x` would run the package `x/__main__.py` and no longer the module `x.py`.
fn is_package_of(path: &str, module: &str) -> bool {
    let package = path.strip_suffix("/__main__.py");
    package.is_some() && package == module.strip_suffix(".py")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(runs: &[&str]) -> Vec<Check> {
        let check = |run: &&str| Check {
            name: "c".into(),
            run: (*run).to_owned(),
            env: vec![],
            timeout_ms: 1,
            repeat: ronde_protocol::verdict::Repeat::default(),
        };
        runs.iter().map(check).collect()
    }

    #[test]
    fn what_the_base_has_and_what_would_run_instead() {
        type Row<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a str], &'a [&'a str]);
        let table: [Row<'_>; 9] = [
            (&["cargo test"], &["a.sh"], &["a.sh"], &[]),
            (
                &["sh a.sh", "./b.sh"],
                &["b.sh", "a.sh"],
                &["a.sh"],
                &["a.sh", "b.sh"],
            ),
            // What the worker was asked to make.
            (&["python3 main.py"], &["a.sh"], &["a.sh", "main.py"], &[]),
            (
                &["sh a.sh && python3 main.py"],
                &["a.sh"],
                &["a.sh", "main.py"],
                &["a.sh"],
            ),
            (&["make"], &["Makefile"], &["Makefile"], &["Makefile"]),
            (
                &["make"],
                &["Makefile"],
                &["GNUmakefile", "Makefile"],
                &["GNUmakefile", "Makefile"],
            ),
            (
                &["make"],
                &["Makefile"],
                &["GNUmakefile"],
                &["GNUmakefile", "Makefile"],
            ),
            (&["make"], &[], &["Makefile"], &[]),
            (
                &["python3 -m t.x"],
                &["t/x.py"],
                &["t/x.py", "t/x/__init__.py", "t/x/__main__.py"],
                &["t/x.py", "t/x/__main__.py"],
            ),
        ];
        let own = |paths: &[&str]| -> Vec<String> { paths.iter().map(|&p| p.into()).collect() };
        for (runs, base, tree, want) in table {
            let checks = checks(runs);
            let added = |path: &str| tree.contains(&path);
            assert_eq!(
                of(&checks, &own(base), added),
                want,
                "{runs:?} {base:?} {tree:?}"
            );
            assert!(want.is_empty() || are_named(&checks), "{runs:?}");
        }
        assert!(!are_named(&checks(&["cargo test --workspace", "true"])));
    }
}
