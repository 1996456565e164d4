//! An item in words, for a terminal. What it quotes was written by a worker or a check, so no control
//! character of it reaches the screen.

use std::fmt::Write as _;

use ronde_protocol::{
    Timestamp,
    handoff::{Answer, Entry},
};

use crate::takes;

/// The text of `ronde inbox show`: what is asked, what is known, and which commands answer it.
pub fn render(entry: &Entry) -> String {
    let Entry {
        number,
        item,
        answer,
        answered,
    } = entry;
    let mut text = format!("Item {number}: {}\n\n", one_line(&item.title));
    let mut line = |name: &str, value: &str| {
        // Writing to a string cannot fail.
        let _written = writeln!(text, "{name:<9}{}", one_line(value));
    };
    line("reason", &item.reason.to_string());
    line("loop", item.loop_name.as_str());
    line("run", item.run.as_str());
    line("project", item.project.as_str());
    line("opened", &minute(item.opened));
    if let Some(expires) = item.expires {
        line("expires", &minute(expires));
    }
    if let Some(answer) = answer {
        let when = answered.map_or(String::new(), |at| format!(", {}", minute(at)));
        line("answer", &format!("{}{when}", said(answer)));
    }
    if let Some(branch) = &item.branch {
        line("branch", branch);
        line("", &format!("git diff HEAD...{branch}"));
    }
    if !item.evidence.trim().is_empty() {
        let _written = write!(text, "\nWhat was seen:\n{}", indented(&item.evidence));
    }
    if !item.tried.is_empty() {
        text.push_str("\nWhat was tried:\n");
        for tried in &item.tried {
            let _written = writeln!(text, "  {}", one_line(tried));
        }
    }
    if answer.is_none() {
        text.push_str("\nTo answer:\n");
        for (answer, verb, meaning) in commands(entry) {
            if takes(item, &answer).is_ok() {
                let _written = writeln!(text, "  {verb:<24}{meaning}");
            }
        }
    }
    text
}

/// What an answer says, in few words.
pub(crate) fn said(answer: &Answer) -> String {
    match answer {
        Answer::Text { text } => format!("\"{}\"", one_line(text)),
        Answer::Approve => "approved".into(),
        Answer::Deny => "denied".into(),
        Answer::Close => "closed".into(),
        Answer::Expired => "expired".into(),
    }
}

/// An instant to the second, in UTC.
pub(crate) fn minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Every answer a person can give, its command, and what follows from it.
fn commands(entry: &Entry) -> [(Answer, String, &'static str); 4] {
    use ronde_protocol::handoff::Reason::{Approval, CheckBroken};
    let (number, item) = (entry.number, &entry.item);
    let words = Answer::Text {
        text: String::new(),
    };
    let yes = match item.reason {
        Approval => "the action may be taken",
        CheckBroken => "the checks are tried again",
        _ => "it may be done again",
    };
    let no = match item.reason {
        Approval => "the action is refused, and the run goes on knowing so",
        _ => "the run ends as cancelled",
    };
    let close = if item.blocks {
        "nothing more is wanted: the run ends as cancelled"
    } else {
        "it is read; the run has ended before"
    };
    [
        (
            words,
            format!("ronde answer {number} \"…\""),
            "the run goes on with your words",
        ),
        (Answer::Approve, format!("ronde approve {number}"), yes),
        (Answer::Deny, format!("ronde deny {number}"), no),
        (Answer::Close, format!("ronde close {number}"), close),
    ]
}

fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_control() || c.is_whitespace());
    words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn indented(text: &str) -> String {
    let mut out = String::new();
    for line in text.trim_end().lines() {
        let line: String = line
            .chars()
            .filter(|c| !c.is_control() || *c == '\t')
            .collect();
        out.push_str(format!("  {line}").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use ronde_protocol::handoff::{Item, Reason};

    use super::*;
    use crate::actor::tests::{at, entry};

    #[test]
    fn an_open_item() {
        let mut shown = entry(7, Reason::Stuck, Some(30));
        shown.item = Item {
            title: "the tests fail\nthe same way".into(),
            evidence:
                "check `tests`: exit code 101\n\n\tpanicked at \u{1b}[31mred\u{1b}[0m\u{7}\n\n"
                    .into(),
            branch: Some("ronde/wip/green-0badcafe-1".into()),
            tried: vec![
                "attempt 1: changed a.rs".into(),
                "attempt 2: nothing".into(),
            ],
            ..shown.item
        };
        assert_eq!(
            render(&shown),
            "\
Item 7: the tests fail the same way

reason   stuck
loop     green
run      green-0badcafe
project  0123456789ab
opened   2026-12-01 00:00:00 UTC
expires  2026-12-01 00:30:00 UTC
branch   ronde/wip/green-0badcafe-1
         git diff HEAD...ronde/wip/green-0badcafe-1

What was seen:
  check `tests`: exit code 101

  \tpanicked at [31mred[0m

What was tried:
  attempt 1: changed a.rs
  attempt 2: nothing

To answer:
  ronde answer 7 \"…\"      the run goes on with your words
  ronde deny 7            the run ends as cancelled
  ronde close 7           nothing more is wanted: the run ends as cancelled
"
        );
    }

    #[test]
    fn an_answered_item_says_what_and_when() {
        let answer = Answer::Text {
            text: "use\nthe \u{1b}other".into(),
        };
        let shown = Entry {
            answer: Some(answer),
            answered: Some(at(5)),
            ..entry(1, Reason::Question, None)
        };
        let text = render(&shown);
        assert!(
            text.contains("answer   \"use the other\", 2026-12-01 00:05:00 UTC\n"),
            "{text}"
        );
        assert!(!text.contains("To answer"), "{text}");
    }

    #[test]
    fn the_commands_are_those_the_item_takes() {
        let listed = |entry: &Entry| -> Vec<String> {
            let text = render(entry);
            let verbs = ["answer", "approve", "deny", "close"];
            verbs
                .into_iter()
                .filter(|verb| text.contains(&format!("  ronde {verb} 1")))
                .map(String::from)
                .collect()
        };
        assert_eq!(
            listed(&entry(1, Reason::Approval, None)),
            ["approve", "deny", "close"]
        );
        assert_eq!(
            listed(&entry(1, Reason::UnknownEffect, None)),
            ["answer", "approve", "deny", "close"]
        );
        assert_eq!(
            listed(&entry(1, Reason::Question, None)),
            ["answer", "deny", "close"]
        );
        let mut notice = entry(1, Reason::Budget, None);
        notice.item.blocks = false;
        assert_eq!(listed(&notice), ["close"]);
    }
}
