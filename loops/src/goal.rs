//! Placeholders of a goal: `{state.NAME}`, `{evidence}`, `{trigger.kind}`, `{trigger.due}`.
//!
//! Any other braces are left as they are, so that a goal can speak of code. What is filled in comes from
//! the caller, and is never looked through for placeholders again.

use std::ops::Range;

use crate::{
    read::{likely, listed, quoted},
    validators::Refusal,
};

/// A place of a goal that is filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placeholder {
    /// The content of a state file, by the name the file is listed with.
    State(String),
    /// What the checks of the last verdict said; empty in a first attempt.
    Evidence,
    /// What started the run: `person`, `cron` or `every`.
    TriggerKind,
    /// The instant the run was due, in RFC 3339.
    TriggerDue,
}

/// Checks the placeholders of a goal against the names of the state files. The span of a refusal is that
/// of the placeholder.
pub fn check(goal: &str, state_files: &[String]) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    for (span, word) in braces(goal) {
        if let Err(mut refusal) = read(word, state_files) {
            refusal.span = Some(span);
            refusals.push(refusal);
        }
    }
    refusals
}

/// The goal with each placeholder replaced by what `fill` says. What is no placeholder stays.
pub fn fill(
    goal: &str,
    state_files: &[String],
    mut fill: impl FnMut(&Placeholder) -> String,
) -> String {
    let mut filled = String::with_capacity(goal.len());
    let mut copied = 0;
    for (span, word) in braces(goal) {
        if let Ok(Some(placeholder)) = read(word, state_files) {
            filled.push_str(&goal[copied..span.start]);
            filled.push_str(&fill(&placeholder));
            copied = span.end;
        }
    }
    filled.push_str(&goal[copied..]);
    filled
}

/// What a word in braces stands for; `None` where it is no placeholder.
fn read(word: &str, state_files: &[String]) -> Result<Option<Placeholder>, Refusal> {
    if word == "evidence" {
        return Ok(Some(Placeholder::Evidence));
    }
    if let Some(field) = word.strip_prefix("trigger.") {
        return match field {
            "kind" => Ok(Some(Placeholder::TriggerKind)),
            "due" => Ok(Some(Placeholder::TriggerDue)),
            _ => Err(
                Refusal::new(format!("placeholder `{{{word}}}` is not built yet"))
                    .hint("`{trigger.kind}` and `{trigger.due}` can be used"),
            ),
        };
    }
    let Some(name) = word.strip_prefix("state.") else {
        return Ok(None);
    };
    if let Some(file) = state_files.iter().find(|file| *file == name) {
        return Ok(Some(Placeholder::State(file.clone())));
    }
    let mut named = state_files.iter().filter(|file| stem(file) == name);
    match (named.next(), named.next()) {
        (Some(file), None) => Ok(Some(Placeholder::State(file.clone()))),
        (Some(_), Some(other)) => Err(Refusal::new(format!(
            "placeholder `{{{word}}}` could be several state files"
        ))
        .hint(format!("write the whole name: `{{state.{other}}}`"))),
        (None, _) => {
            let stems: Vec<&str> = state_files.iter().map(|file| stem(file)).collect();
            let hint = match likely(name, stems.iter().copied()) {
                Some(likely) => format!("did you mean `{{state.{likely}}}`?"),
                None if stems.is_empty() => {
                    format!("list the file: `[state] files = [\"{name}.md\"]`")
                }
                None => format!("the state files are {}", listed(&stems)),
            };
            Err(Refusal::new(format!("no state file {}", quoted(name))).hint(hint))
        }
    }
}

fn stem(file: &str) -> &str {
    match file.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => file,
    }
}

/// Each `{word}` of letters, digits, `.`, `_` and `-`, with the place of its braces.
fn braces(text: &str) -> Vec<(Range<usize>, &str)> {
    let mut found = Vec::new();
    for (open, _) in text.match_indices('{') {
        let rest = &text[open + 1..];
        let end = rest
            .find(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '_' | '-')))
            .unwrap_or(rest.len());
        if end > 0 && rest[end..].starts_with('}') {
            found.push((open..open + 1 + end + 1, &rest[..end]));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn files(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn placeholders_are_filled_once() {
        let state = files(&["NOTES.md", "plan.json", "plan.md"]);
        let goal =
            "a {state.NOTES} {state.plan.md} {evidence} {trigger.kind} {x} {a.b} {} {{evidence}}";
        assert_eq!(check(goal, &state), vec![]);
        let filled = fill(goal, &state, |placeholder| match placeholder {
            Placeholder::State(name) => format!("<{name} {{evidence}}>"),
            other => format!("<{other:?}>"),
        });
        assert_eq!(
            filled,
            "a <NOTES.md {evidence}> <plan.md {evidence}> <Evidence> <TriggerKind> {x} {a.b} {} {<Evidence>}"
        );
    }

    #[test]
    fn what_is_no_placeholder_of_this_loop() {
        for (goal, state, word) in [
            ("é {state.NOTE}", &["NOTES.md"][..], "`{state.NOTES}`"),
            ("é {state.NOTES}", &[], "[state]"),
            ("é {state.other}", &["NOTES.md"], "`NOTES`"),
            (
                "é {state.plan}",
                &["plan.md", "plan.json"],
                "`{state.plan.json}`",
            ),
            ("é {trigger.body}", &[], "{trigger.kind}"),
        ] {
            let refusals = check(goal, &files(state));
            assert_eq!(refusals.len(), 1, "{goal}");
            let hint = refusals[0].hint.clone().expect("a hint");
            assert!(hint.contains(word), "{goal}: {hint}");
            assert_eq!(refusals[0].span, Some(3..goal.len()));
        }
    }

    proptest! {
        #[test]
        fn a_goal_without_placeholders_stays(goal in "[a-z{}. \n]*") {
            prop_assume!(!goal.contains("{evidence}") && !goal.contains("state.") && !goal.contains("trigger."));
            prop_assert_eq!(fill(&goal, &[], |_| "X".to_owned()), goal);
        }
    }
}
