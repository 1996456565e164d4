//! `ronde answer`, `approve`, `deny` and `close`

use std::process::ExitCode;

use ronde_protocol::{ItemNumber, handoff::Answer};

use super::{Ending, connect::Door, watch};
use crate::{
    daemon::Leftovers,
    handle::{Refusal, RefusalKind},
};

/// How the run goes on.
#[derive(Debug, clap::Args)]
struct Go {
    /// Only answer: the run goes on under a `ronde serve` that runs, or with `ronde continue RUN`
    #[arg(long)]
    detach: bool,
    /// Print one JSON object a line (docs/events.md); the last one is `run_ended`
    #[arg(long)]
    json: bool,
}

/// Answer an item of the inbox; its run goes on where it was, with the answer in its prompt
#[derive(Debug, clap::Args)]
pub(crate) struct AnswerArgs {
    /// The item's number (`ronde inbox`)
    number: ItemNumber,
    /// What the worker is told
    text: String,
    #[command(flatten)]
    go: Go,
}

/// Say yes to an item: the action may be taken, the unknown effect repeated, the check tried again
///
/// A run goes by the loop file it began with: where that is to change, close the item and start anew.
#[derive(Debug, clap::Args)]
pub(crate) struct ApproveArgs {
    /// The item's number (`ronde inbox`)
    number: ItemNumber,
    #[command(flatten)]
    go: Go,
}

/// Say no to an item: a refused action is told to the worker; any other run ends as cancelled
#[derive(Debug, clap::Args)]
pub(crate) struct DenyArgs {
    /// The item's number (`ronde inbox`)
    number: ItemNumber,
    #[command(flatten)]
    go: Go,
}

/// Close an item: nothing more is wanted, and a run that waits for it ends as cancelled
#[derive(Debug, clap::Args)]
pub(crate) struct CloseArgs {
    /// The item's number (`ronde inbox`)
    number: ItemNumber,
    #[command(flatten)]
    go: Go,
}

pub(crate) async fn answer(args: AnswerArgs) -> Ending {
    if args.text.trim().is_empty() {
        return Err(Refusal::new(RefusalKind::Invalid, "the answer is empty")
            .hint("say what the worker should know, or use `ronde approve`, `deny` or `close`"));
    }
    send(args.number, Answer::Text { text: args.text }, &args.go).await
}

pub(crate) async fn approve(args: ApproveArgs) -> Ending {
    send(args.number, Answer::Approve, &args.go).await
}

pub(crate) async fn deny(args: DenyArgs) -> Ending {
    send(args.number, Answer::Deny, &args.go).await
}

pub(crate) async fn close(args: CloseArgs) -> Ending {
    send(args.number, Answer::Close, &args.go).await
}

async fn send(number: ItemNumber, answer: Answer, go: &Go) -> Ending {
    let door = Door::open("answer", Leftovers::Park).await?;
    let begun = match door.client.answer(number, answer).await {
        Ok(begun) => begun,
        Err(refusal) => {
            // What others have started here in the meantime goes on to its end.
            door.leave(true).await;
            return Err(refusal);
        }
    };
    let run = &begun.run;
    let here = door.own.is_some();
    if begun.cursor.is_none() || go.detach {
        // The run would have to be carried by this process: it rests, and is not lost.
        door.leave(false).await;
        let goes_on = begun.cursor.is_some() && !here;
        if go.json {
            let line = serde_json::json!({"item": number, "run": run, "goes_on": goes_on});
            say!("{line}");
        } else if begun.cursor.is_none() {
            say!("Item {number} is closed; run {run} had ended before.");
        } else if goes_on {
            say!("Item {number} is answered; run {run} goes on.");
        } else {
            say!("Item {number} is answered. Go on with `ronde continue {run}`, or `ronde serve`.");
        }
        return Ok(ExitCode::SUCCESS);
    }
    watch::to_the_end(door, &begun, go.json).await
}
