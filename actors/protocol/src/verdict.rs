//! What the verifier is asked and what it says. The request carries no word of the worker's.

use serde::{Deserialize, Serialize};

use crate::{ArtefactId, CheckName, CommitId, Digest, TreeId, outcome::Exit};

/// One check of a loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its name, unique in the loop.
    pub name: CheckName,
    /// A command line, run by `bash -c` (else `sh -c`) in the checkout.
    pub run: String,
    /// Names of environment variables passed through to it.
    #[serde(default)]
    pub env: Vec<String>,
    /// Its time limit in milliseconds.
    pub timeout_ms: u64,
    /// How often it runs, and how often it must pass.
    #[serde(default)]
    pub repeat: Repeat,
}

/// A guard against chance: run `times`, pass `pass` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    /// Runs, at least 1.
    pub times: u32,
    /// Passes needed, 1 to `times`.
    pub pass: u32,
}

impl Default for Repeat {
    fn default() -> Self {
        Self { times: 1, pass: 1 }
    }
}

/// The three things a check or a verdict can say. `Unknown` is never a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// It holds.
    Pass,
    /// It does not hold, and there is evidence.
    Fail,
    /// The check itself broke: it could not start, ran out of time or was killed.
    Unknown,
}

/// What one check said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The check.
    pub name: CheckName,
    /// The command line that ran.
    pub run: String,
    /// What it says.
    pub finding: Finding,
    /// How its (last) process ended.
    pub exit: Exit,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// The useful end of its output, at most a few kilobytes, lossy UTF-8.
    pub tail: String,
    /// Its whole output, stdout and stderr as they came.
    pub output: Option<ArtefactId>,
    /// Passes and runs, where it ran more than once: a mixed result is flaky.
    #[serde(default)]
    pub passes: Option<(u32, u32)>,
}

/// What the verifier says of one tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// `Fail` where a check fails or a protected path changed; else `Unknown` where a check is
    /// unknown; else `Pass`. An empty list of checks is `Unknown`.
    pub finding: Finding,
    /// The tree that was judged.
    pub tree: TreeId,
    /// The commit whose rules judged it.
    pub base: CommitId,
    /// The definition whose checks judged it.
    pub definition: Digest,
    /// The environment it was judged in: names and values of the allow list, hashed.
    pub environment: Digest,
    /// Each check, in the file's order.
    pub checks: Vec<CheckResult>,
    /// Protected paths the tree changed; not empty means `Fail`.
    #[serde(default)]
    pub protected: Vec<String>,
}

impl Verdict {
    /// Decides the finding of a verdict from its parts.
    pub fn decide(checks: &[CheckResult], protected: &[String]) -> Finding {
        if !protected.is_empty() || checks.iter().any(|check| check.finding == Finding::Fail) {
            Finding::Fail
        } else if checks.is_empty() || checks.iter().any(|check| check.finding == Finding::Unknown)
        {
            Finding::Unknown
        } else {
            Finding::Pass
        }
    }

    /// What makes two verdicts the same for the stuck rule: the tree, and per check its finding and
    /// how it ended. Output may differ by a time stamp and is not looked at.
    pub fn same_as(&self, other: &Self) -> bool {
        fn key(verdict: &Verdict) -> Vec<(&CheckName, Finding, &Exit)> {
            verdict
                .checks
                .iter()
                .map(|c| (&c.name, c.finding, &c.exit))
                .collect()
        }
        self.tree == other.tree && self.protected == other.protected && key(self) == key(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(finding: Finding) -> CheckResult {
        CheckResult {
            name: "c".into(),
            run: "true".into(),
            finding,
            exit: Exit::Code { code: 0 },
            duration_ms: 1,
            tail: String::new(),
            output: None,
            passes: None,
        }
    }

    #[test]
    fn unknown_and_empty_are_never_a_pass() {
        use Finding::{Fail, Pass, Unknown};
        let table: [(&[Finding], bool, Finding); 7] = [
            (&[Pass], false, Pass),
            (&[Pass, Pass], false, Pass),
            (&[], false, Unknown),
            (&[Pass, Unknown], false, Unknown),
            (&[Unknown, Fail], false, Fail),
            (&[Pass], true, Fail),
            (&[Pass, Fail], false, Fail),
        ];
        for (findings, protected, want) in table {
            let checks: Vec<_> = findings.iter().copied().map(check).collect();
            let protected = if protected {
                vec!["tests/a".to_owned()]
            } else {
                vec![]
            };
            assert_eq!(
                Verdict::decide(&checks, &protected),
                want,
                "{findings:?} {protected:?}"
            );
        }
    }
}
