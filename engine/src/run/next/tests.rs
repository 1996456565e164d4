//! `next` against a world made of values: whatever the world answers, and wherever the journal is cut,
//! the run ends as it would have.

use std::collections::BTreeSet;

use proptest::prelude::*;
use ronde_protocol::{
    ArtefactId, Digest, LoopName, ProjectId, RunId, SlotId, Timestamp, Usage,
    firing::{Cause, Firing},
    outcome::Exit,
    verdict::{CheckResult, Verdict},
    work::AttemptEnd,
};
use ronde_state::{
    event::{RunEvent, WakeReason},
    journal::Record,
};

use super::*;

/// What the world answers: by attempt, and by question.
#[derive(Debug, Clone)]
struct World {
    baseline: Finding,
    attempts: Vec<(Ended, u8, Finding)>,
    answers: Vec<Answer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Finished,
    Failed,
    Question,
    Approval,
    Limit,
    Unknown,
    Unstartable,
}

fn finding() -> impl Strategy<Value = Finding> {
    prop_oneof![4 => Just(Finding::Fail), 2 => Just(Finding::Pass), 1 => Just(Finding::Unknown)]
}

fn world() -> impl Strategy<Value = World> {
    let ended = prop_oneof![
        8 => Just(Ended::Finished),
        1 => Just(Ended::Failed),
        2 => Just(Ended::Question),
        1 => Just(Ended::Approval),
        1 => Just(Ended::Limit),
        1 => Just(Ended::Unknown),
        1 => Just(Ended::Unstartable),
    ];
    let answer = prop_oneof![
        4 => Just(Answer::Text { text: "go on".to_owned() }),
        2 => Just(Answer::Approve),
        1 => Just(Answer::Deny),
        1 => Just(Answer::Close),
        1 => Just(Answer::Expired),
    ];
    (
        finding(),
        prop::collection::vec((ended, 0_u8..4, finding()), 1..12),
        prop::collection::vec(answer, 0..4),
    )
        .prop_map(|(baseline, attempts, answers)| World {
            baseline,
            attempts,
            answers,
        })
}

fn rules() -> impl Strategy<Value = Rules> {
    (
        1_u32..4,
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        prop::sample::subsequence(Reason::ALL.to_vec(), 0..=6),
    )
        .prop_map(
            |(attempts, skip_if_green, deliver, contained, asks)| Rules {
                worker: WorkerName::main(),
                attempts,
                iterations: 100,
                time: Duration::from_secs(3600),
                skip_if_green,
                deliver,
                asks: asks.into_iter().collect(),
                contained,
            },
        )
}

impl World {
    fn attempt(&self, number: u32) -> (Ended, u8, Finding) {
        let index = usize::try_from(number - 1).expect("a small number");
        // A world that has said all it knows goes on failing on ever new trees.
        let tree = 10 + u8::try_from(number % 200).expect("below 200");
        self.attempts
            .get(index)
            .copied()
            .unwrap_or((Ended::Finished, tree, Finding::Fail))
    }

    fn tree(&self, number: u32) -> String {
        format!("tree{}", self.attempt(number).1)
    }

    /// What a step leaves in the journal. The same step always leaves the same.
    fn take(&self, step: &Step) -> RunEvent {
        match step {
            Step::Prepare => RunEvent::Prepared {
                base: "base".into(),
                tree: "tree0".into(),
                branch: None,
            },
            Step::Attempt { attempt, worker } => RunEvent::AttemptEnded {
                attempt: *attempt,
                worker: worker.clone(),
                end: AttemptEnd {
                    reason: match self.attempt(*attempt).0 {
                        Ended::Finished => EndReason::Finished,
                        Ended::Failed => EndReason::Failed { error: "e".into() },
                        Ended::Question => EndReason::Question { text: "q".into() },
                        Ended::Approval => EndReason::Approval {
                            action: Digest::of("a"),
                            text: "a".into(),
                        },
                        Ended::Limit => EndReason::Limit {
                            limit: Limit::Tokens,
                        },
                        Ended::Unknown => EndReason::Unknown { error: "u".into() },
                        Ended::Unstartable => EndReason::Unstartable { error: "n".into() },
                    },
                    claim: "all is well".into(),
                    iterations: 1,
                    usage: Usage::default(),
                    metered: false,
                    exit: None,
                    output: None,
                },
            },
            Step::Snapshot { attempt, worker } => RunEvent::Snapshot {
                attempt: *attempt,
                worker: worker.clone(),
                tree: self.tree(*attempt).into(),
                changed: vec![],
            },
            Step::Verify { attempt } => {
                let (finding, tree) = match attempt {
                    0 => (self.baseline, "tree0".to_owned()),
                    _ => (self.attempt(*attempt).2, self.tree(*attempt)),
                };
                RunEvent::VerdictGiven {
                    attempt: *attempt,
                    verdict: verdict(finding, &tree),
                }
            }
            Step::Deliver => RunEvent::Delivered {
                branch: Some("b".into()),
                commit: Some("c".into()),
            },
            Step::Ask {
                question,
                reason: Reason::Budget,
            } => RunEvent::Noticed {
                item: u64::from(*question),
                reason: Reason::Budget,
                branch: None,
            },
            Step::Ask { question, reason } => RunEvent::Waiting {
                item: u64::from(*question),
                reason: *reason,
                branch: None,
            },
        }
    }
}

fn verdict(finding: Finding, tree: &str) -> Verdict {
    Verdict {
        finding,
        tree: tree.into(),
        base: "base".into(),
        definition: Digest::of("d"),
        environment: Digest::of("e"),
        checks: vec![CheckResult {
            name: "c".into(),
            run: "c".into(),
            finding,
            exit: Exit::Code { code: 1 },
            duration_ms: 1,
            tail: String::new(),
            output: None,
            passes: None,
        }],
        protected: vec![],
    }
}

/// A run with its journal, second by second.
struct Journal {
    records: Vec<Record<RunEvent>>,
    state: RunState,
    epoch: u64,
}

impl Journal {
    fn begin() -> Self {
        let name = LoopName::new("l").expect("a name");
        let project = ProjectId::of("/p");
        let slot = SlotId::manual(&project, &name, "n");
        let firing = Firing {
            run: RunId::of(&name, &slot),
            slot,
            project,
            loop_name: name,
            cause: Cause::Person,
            due: Timestamp::UNIX_EPOCH,
            definition: ArtefactId::of("d"),
        };
        let fired = RunEvent::Fired {
            firing,
            root: "/p".into(),
        };
        let record = Record::new(1, 1, Timestamp::UNIX_EPOCH, fired);
        let state = RunState::begin(&record).expect("a first record");
        Self {
            records: vec![record],
            state,
            epoch: 1,
        }
    }

    fn append(&mut self, event: RunEvent) {
        let seq = self.state.seq + 1;
        let at = Timestamp::UNIX_EPOCH
            + jiff::SignedDuration::from_secs(i64::try_from(seq).expect("a small number"));
        let record = Record::new(seq, self.epoch, at, event);
        self.state
            .apply(&record)
            .expect("what `next` asks for is legal");
        self.records.push(record);
    }

    /// Cuts the journal after `keep` records and takes it up again as another process would.
    fn crash(&mut self, keep: usize) {
        self.records.truncate(keep.max(1));
        self.state = RunState::fold(&self.records)
            .expect("a legal prefix")
            .expect("not empty");
        self.epoch += 1;
        if self.state.outcome().is_none() {
            let epoch = self.epoch;
            self.append(RunEvent::Woken {
                epoch,
                reason: WakeReason::Recovered,
            });
        }
    }

    /// Lets the world go on until the run ends, or waits and nobody answers.
    fn run(&mut self, rules: &Rules, world: &World) {
        for _ in 0..500 {
            if self.state.ended.is_some() {
                assert_eq!(
                    next(rules, &self.state),
                    vec![],
                    "an ended run does nothing"
                );
                return;
            }
            if let Some(waiting) = self.state.waiting.clone() {
                assert_eq!(
                    next(rules, &self.state),
                    vec![],
                    "a waiting run does nothing"
                );
                let Some(answer) = world.answers.get(self.state.answers.len()) else {
                    return;
                };
                self.append(RunEvent::Answered {
                    item: waiting.item,
                    answer: answer.clone(),
                });
                continue;
            }
            let actions = next(rules, &self.state);
            assert_eq!(
                actions,
                next(rules, &self.state),
                "equal states, equal actions"
            );
            let mut went_on = false;
            for action in actions {
                match action {
                    Action::Take(step) => {
                        self.append(RunEvent::Started { step: step.clone() });
                        self.append(world.take(&step));
                        went_on = true;
                    }
                    Action::End {
                        outcome,
                        changed,
                        reason,
                    } => {
                        self.append(RunEvent::Ended {
                            outcome,
                            changed,
                            reason,
                        });
                        went_on = true;
                    }
                    Action::Deadline(_) | Action::StopWork => {}
                }
            }
            assert!(went_on, "a run that is at work has something to do");
        }
        panic!("the run goes round for ever");
    }

    fn end(&self) -> (Option<Outcome>, Option<bool>, usize) {
        let changed = self.state.ended.as_ref().map(|end| end.changed);
        (self.state.outcome(), changed, self.state.attempts.len())
    }
}

proptest! {
    #[test]
    fn every_world_comes_to_an_end(rules in rules(), world in world()) {
        let mut journal = Journal::begin();
        journal.run(&rules, &world);
        let judged = journal.state.attempts.iter().filter(|attempt| attempt.verdict.is_some());
        let most = usize::try_from(rules.attempts).expect("a small number")
            * (journal.state.answers.len() + 1);
        prop_assert!(judged.count() <= most);
        if let Some(end) = &journal.state.ended && end.outcome == Outcome::Done {
            let last = journal.state.attempt().and_then(|attempt| attempt.verdict.as_ref());
            let verdict = last.or(journal.state.baseline.as_ref()).expect("done has a verdict");
            prop_assert_eq!(verdict.finding, Finding::Pass, "done means a machine said so");
            prop_assert!(!end.changed || !rules.deliver || journal.state.delivered.is_some());
        }
    }

    /// Invariant 1: cut the journal anywhere, recover, and the end is the same. A worker that is not
    /// contained is the exception it should be: nobody saw how it ended, so a person is asked.
    #[test]
    fn cut_anywhere_the_end_is_the_same(mut rules in rules(), world in world(), cut in 1_usize..60, again in 1_usize..60) {
        rules.contained = true;
        let mut whole = Journal::begin();
        whole.run(&rules, &world);
        let mut cut_one = Journal::begin();
        cut_one.run(&rules, &world);
        for keep in [cut, again] {
            let keep = 1 + keep % cut_one.records.len();
            cut_one.crash(keep);
            cut_one.run(&rules, &world);
        }
        prop_assert_eq!(whole.end(), cut_one.end());
    }

    #[test]
    fn what_nobody_saw_is_never_done_again_unasked(mut rules in rules(), world in world()) {
        rules.contained = false;
        let mut journal = Journal::begin();
        journal.run(&rules, &world);
        let begun = journal.records.iter().position(|record| {
            matches!(record.event, RunEvent::Started { step: Step::Attempt { .. } })
        });
        if let Some(begun) = begun {
            journal.crash(begun + 1);
            let actions = next(&rules, &journal.state);
            prop_assert!(
                !actions.iter().any(|action| matches!(action, Action::Take(Step::Attempt { .. }))),
                "{:?}", actions
            );
        }
    }
}

fn plain() -> Rules {
    Rules {
        worker: WorkerName::main(),
        attempts: 2,
        iterations: 100,
        time: Duration::from_secs(60),
        skip_if_green: false,
        deliver: true,
        asks: BTreeSet::from(Reason::ALL),
        contained: true,
    }
}

fn ending(rules: &Rules, attempts: &[(Ended, u8, Finding)]) -> (Option<Outcome>, Option<Reason>) {
    let world = World {
        baseline: Finding::Fail,
        attempts: attempts.to_vec(),
        answers: Vec::new(),
    };
    let mut journal = Journal::begin();
    journal.run(rules, &world);
    let waiting = journal.state.waiting.as_ref().map(|waiting| waiting.reason);
    let noticed = journal.state.notices.last().map(|(_, reason)| *reason);
    (journal.state.outcome(), waiting.or(noticed))
}

#[test]
fn how_runs_end() {
    use Ended::{Failed, Finished, Limit, Question, Unstartable};
    use Finding::{Fail, Pass, Unknown};
    type Case<'a> = (&'a str, &'a [(Ended, u8, Finding)], Outcome, Option<Reason>);
    let table: &[Case] = &[
        (
            "the first attempt passes",
            &[(Finished, 1, Pass)],
            Outcome::Done,
            None,
        ),
        (
            "reached on the last allowed attempt",
            &[(Finished, 1, Fail), (Finished, 2, Pass)],
            Outcome::Done,
            None,
        ),
        (
            "reached by a worker that says it failed",
            &[(Failed, 1, Pass)],
            Outcome::Done,
            None,
        ),
        (
            "reached as the tokens ran out",
            &[(Limit, 1, Pass)],
            Outcome::Done,
            None,
        ),
        (
            "attempts used up",
            &[(Finished, 1, Fail), (Finished, 2, Fail)],
            Outcome::HandedOff,
            Some(Reason::Stuck),
        ),
        (
            "the same tree twice",
            &[(Finished, 1, Fail), (Finished, 1, Fail)],
            Outcome::HandedOff,
            Some(Reason::Stuck),
        ),
        (
            "a broken check",
            &[(Finished, 1, Unknown)],
            Outcome::HandedOff,
            Some(Reason::CheckBroken),
        ),
        (
            "tokens ran out",
            &[(Limit, 1, Fail)],
            Outcome::Stopped,
            Some(Reason::Budget),
        ),
        (
            "a question, though the checks would pass",
            &[(Question, 1, Pass)],
            Outcome::HandedOff,
            Some(Reason::Question),
        ),
        (
            "no such program",
            &[(Unstartable, 1, Fail)],
            Outcome::Failed,
            None,
        ),
    ];
    for (name, attempts, outcome, reason) in table {
        assert_eq!(
            ending(&plain(), attempts),
            (Some(*outcome), *reason),
            "{name}"
        );
    }
}

#[test]
fn a_run_nobody_is_asked_about_ends_by_itself() {
    let rules = Rules {
        asks: BTreeSet::new(),
        ..plain()
    };
    let stuck = [
        (Ended::Finished, 1, Finding::Fail),
        (Ended::Finished, 2, Finding::Fail),
    ];
    assert_eq!(ending(&rules, &stuck), (Some(Outcome::Stopped), None));
    let broken = [(Ended::Finished, 1, Finding::Unknown)];
    assert_eq!(ending(&rules, &broken), (Some(Outcome::Failed), None));
}

#[test]
fn rests_do_not_count_as_time() {
    let rules = plain();
    let mut journal = Journal::begin();
    journal.append(RunEvent::Interrupted);
    // It was at work for one second, then rested for a day.
    let at = Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(24);
    let woken = RunEvent::Woken {
        epoch: 2,
        reason: WakeReason::Continued,
    };
    let record = Record::new(journal.state.seq + 1, 2, at, woken);
    journal.state.apply(&record).expect("a legal record");
    let left = jiff::SignedDuration::from_secs(60 - 2);
    assert!(next(&rules, &journal.state).contains(&Action::Deadline(at + left)));
}

#[test]
fn time_up_stops_the_worker_but_not_the_verdict() {
    let rules = plain();
    let mut journal = Journal::begin();
    let world = World {
        baseline: Finding::Fail,
        attempts: vec![(Ended::Finished, 1, Finding::Pass)],
        answers: vec![],
    };
    for step in [
        Step::Prepare,
        Step::Attempt {
            attempt: 1,
            worker: WorkerName::main(),
        },
    ] {
        journal.append(RunEvent::Started { step: step.clone() });
        if step == Step::Prepare {
            journal.append(world.take(&step));
        }
    }
    journal.append(RunEvent::TimeUp);
    assert_eq!(next(&rules, &journal.state), vec![Action::StopWork]);
    journal.append(world.take(&Step::Attempt {
        attempt: 1,
        worker: WorkerName::main(),
    }));
    journal.run(&rules, &world);
    assert_eq!(
        journal.state.outcome(),
        Some(Outcome::Done),
        "the goal was reached"
    );
}

#[test]
fn a_stop_waits_for_what_is_under_way() {
    let rules = plain();
    let mut journal = Journal::begin();
    journal.append(RunEvent::Started {
        step: Step::Prepare,
    });
    journal.append(RunEvent::StopRequested);
    assert_eq!(next(&rules, &journal.state), vec![Action::StopWork]);
    journal.append(RunEvent::StepFailed {
        step: Step::Prepare,
        error: "stopped".into(),
    });
    let [
        Action::End {
            outcome: Outcome::Cancelled,
            ..
        },
    ] = next(&rules, &journal.state)[..]
    else {
        panic!("{:?}", next(&rules, &journal.state));
    };
}

/// Another attempt would cost and change nothing: the same tree and verdict twice is enough.
#[test]
fn a_worker_that_goes_nowhere_is_stuck_before_its_attempts_are_used_up() {
    let rules = Rules {
        attempts: 5,
        ..plain()
    };
    let world = World {
        baseline: Finding::Fail,
        attempts: vec![
            (Ended::Finished, 1, Finding::Fail),
            (Ended::Finished, 2, Finding::Fail),
            (Ended::Finished, 2, Finding::Fail),
        ],
        answers: Vec::new(),
    };
    let mut journal = Journal::begin();
    journal.run(&rules, &world);
    assert_eq!(journal.state.attempts.len(), 3);
    assert_eq!(
        journal.state.waiting.map(|waiting| waiting.reason),
        Some(Reason::Stuck)
    );
}
