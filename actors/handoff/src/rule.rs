//! Which answers an item takes, and when items run out. Pure.

use ronde_protocol::{
    ItemNumber, Timestamp,
    handoff::{Answer, Entry, Item, Reason},
};

/// Whether an answer can be meant for a question of this kind.
///
/// # Errors
/// What to do instead, as a hint.
pub fn fits(reason: Reason, answer: &Answer) -> Result<(), &'static str> {
    use Reason::{Approval, Budget, CheckBroken, Question, Stuck, UnknownEffect};
    match (answer, reason) {
        (Answer::Close | Answer::Expired, _) => Ok(()),
        (Answer::Text { .. }, Approval) => {
            Err("it needs a yes or a no: use `ronde approve` or `ronde deny`")
        }
        (Answer::Text { .. }, _) => Ok(()),
        (Answer::Approve, Approval | UnknownEffect | CheckBroken) => Ok(()),
        (Answer::Approve, Stuck | Question | Budget) => {
            Err("it needs words: use `ronde answer`, or `ronde close` to leave it")
        }
        (Answer::Deny, Budget) => Err("nothing is asked that could be denied: use `ronde close`"),
        (Answer::Deny, _) => Ok(()),
    }
}

/// Whether an item takes an answer: [`fits`], and a notice about a run that has ended is only closed.
///
/// # Errors
/// What to do instead, as a hint.
pub fn takes(item: &Item, answer: &Answer) -> Result<(), &'static str> {
    if item.blocks || matches!(answer, Answer::Close | Answer::Expired) {
        return fits(item.reason, answer);
    }
    Err("no run waits for it: use `ronde close`")
}

/// The open items that have run out, and when the next one will.
pub(crate) fn expiry(entries: &[Entry], now: Timestamp) -> (Vec<ItemNumber>, Option<Timestamp>) {
    let open = entries.iter().filter(|entry| entry.answer.is_none());
    let ends = open.filter_map(|entry| Some((entry.number, entry.item.expires?)));
    let (over, ahead): (Vec<_>, Vec<_>) = ends.partition(|(_, at)| *at <= now);
    let over = over.into_iter().map(|(number, _)| number).collect();
    (over, ahead.into_iter().map(|(_, at)| at).min())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::tests::{at, entry};

    fn text() -> Answer {
        Answer::Text {
            text: "go on".into(),
        }
    }

    #[test]
    fn which_answer_fits_which_question() {
        use Reason::{Approval, Budget, CheckBroken, Question, Stuck, UnknownEffect};
        // The columns: text, approve, deny. Closing and running out fit everywhere.
        let table = [
            (Stuck, [true, false, true]),
            (Budget, [true, false, false]),
            (Question, [true, false, true]),
            (Approval, [false, true, true]),
            (UnknownEffect, [true, true, true]),
            (CheckBroken, [true, true, true]),
        ];
        assert_eq!(table.map(|(reason, _)| reason), Reason::ALL);
        for (reason, want) in table {
            let got =
                [text(), Answer::Approve, Answer::Deny].map(|answer| fits(reason, &answer).is_ok());
            assert_eq!(got, want, "{reason}");
            for answer in [Answer::Close, Answer::Expired] {
                assert_eq!(fits(reason, &answer), Ok(()), "{reason}");
            }
        }
    }

    #[test]
    fn a_notice_is_only_closed() {
        for reason in Reason::ALL {
            let asked = entry(1, reason, None).item;
            let notice = Item {
                blocks: false,
                ..asked.clone()
            };
            for answer in [text(), Answer::Approve, Answer::Deny] {
                assert!(takes(&notice, &answer).is_err(), "{reason} {answer:?}");
                assert_eq!(
                    takes(&asked, &answer),
                    fits(reason, &answer),
                    "{reason} {answer:?}"
                );
            }
            for answer in [Answer::Close, Answer::Expired] {
                assert_eq!(takes(&notice, &answer), Ok(()), "{reason} {answer:?}");
            }
        }
    }

    #[test]
    fn what_has_run_out_and_what_is_next() {
        let answered = |number, minute| Entry {
            answer: Some(Answer::Close),
            ..entry(number, Reason::Stuck, Some(minute))
        };
        let open = |number, minute| entry(number, Reason::Stuck, minute);
        let table = [
            (vec![], vec![], None),
            (vec![open(1, None)], vec![], None),
            (vec![open(1, Some(11)), open(2, Some(12))], vec![], Some(11)),
            (vec![open(1, Some(12)), open(2, Some(11))], vec![], Some(11)),
            (
                vec![open(1, Some(10)), open(2, Some(9)), open(3, Some(11))],
                vec![1, 2],
                Some(11),
            ),
            (
                vec![answered(1, 9), answered(2, 11), open(3, Some(12))],
                vec![],
                Some(12),
            ),
        ];
        for (entries, over, next) in table {
            assert_eq!(
                expiry(&entries, at(10)),
                (over, next.map(at)),
                "{entries:?}"
            );
        }
    }
}
