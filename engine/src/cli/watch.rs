//! Looking on while a run goes: events come in, lines go out, Ctrl-C lets the run rest.

use std::{path::Path, process::ExitCode, time::Duration};

use futures_util::StreamExt as _;
use ronde_protocol::{RunId, outcome::Outcome};
use tokio::signal::unix::{SignalKind, signal};

use super::{connect::Door, screen::Screen};
use crate::{
    event::What,
    handle::{Refusal, RefusalKind},
    http::{Begun, Client, Gone},
    report,
};

/// How a run is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// One JSON object a line instead of words.
    pub(crate) json: bool,
    /// Whether Ctrl-C lets the run rest; else it only ends the looking.
    pub(crate) interrupts: bool,
}

/// Shows a run until it ends or rests, and gives its exit code.
pub(crate) async fn watch(
    client: &Client,
    home: &Path,
    begun: &Begun,
    look: Look,
) -> Result<ExitCode, Refusal> {
    let run = &begun.run;
    let mut screen = Screen::new(look.json);
    screen.limits(report::limits_of(home, run));
    let failed = |error: std::io::Error| Refusal::new(RefusalKind::Failed, error.to_string());
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    let mut asked = false;
    let mut events = std::pin::pin!(client.events(run, begun.cursor.unwrap_or(0)));
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => {
                    screen.show(&event);
                    if let What::RunEnded { outcome, .. } = event.what {
                        screen.clear();
                        if !look.json {
                            match report::of_run(home, run) {
                                Ok(report) => anstream::print!("{report}"),
                                Err(refusal) => anstream::eprintln!("no report: {refusal}"),
                            }
                        }
                        if look.json && outcome == Outcome::Interrupted {
                            anstream::eprintln!("go on with `ronde continue {run}`");
                        }
                        return Ok(ExitCode::from(outcome.exit_code()));
                    }
                }
                Some(Err(Gone(reason))) => {
                    screen.clear();
                    return Err(gone(run, &reason));
                }
                None => {
                    screen.clear();
                    return Err(gone(run, "the stream ended"));
                }
            },
            _ = tick.tick() => screen.tick(),
            Some(()) = async { tokio::select! {
                signal = interrupt.recv() => signal,
                signal = terminate.recv() => signal,
                signal = hangup.recv() => signal,
            } } => {
                if asked || !look.interrupts {
                    screen.clear();
                    if look.interrupts {
                        anstream::eprintln!("left at once; go on with `ronde continue {run}`");
                    }
                    return Ok(ExitCode::from(Outcome::Interrupted.exit_code()));
                }
                asked = true;
                screen.note("letting the run rest (once more to leave at once)");
                let (client, run) = (client.clone(), run.clone());
                tokio::spawn(async move {
                    if let Err(refusal) = client.interrupt(&run).await {
                        anstream::eprintln!("the run could not be put to rest: {refusal}");
                    }
                });
            }
        }
    }
}

fn gone(run: &RunId, reason: &str) -> Refusal {
    Refusal::new(
        RefusalKind::Failed,
        format!("the process that ran {run} is gone: {reason}"),
    )
    .hint(format!(
        "nothing is lost; go on with `ronde continue {run}`"
    ))
}

/// Shows a run until it ends or rests, then leaves.
pub(crate) async fn to_the_end(door: Door, begun: &Begun, json: bool) -> Result<ExitCode, Refusal> {
    let look = Look {
        json,
        interrupts: true,
    };
    let ending = watch(&door.client, &door.home, begun, look).await;
    let rested =
        matches!(&ending, Ok(code) if *code != ExitCode::from(Outcome::Interrupted.exit_code()));
    if rested {
        door.leave(true).await;
        return ending;
    }
    tokio::select! {
        () = door.leave(false) => {}
        // At once: the keepers kill what is still alive, and the journal knows where to go on.
        _ = tokio::signal::ctrl_c() => {}
    }
    ending
}
