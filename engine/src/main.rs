//! `ronde`: runs loops of agent work that a machine can say are done. The verbs are in `cli`.

mod cli;
mod clock;
mod daemon;
mod event;
mod frozen;
mod handle;
mod home;
mod http;
#[cfg(test)]
mod machine;
mod ports;
mod project;
mod report;
mod run;
mod supervisor;
mod validators;
mod wiring;

fn main() -> std::process::ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|verb| verb == ronde_sandbox::keeper::ARG)
    {
        ronde_sandbox::keeper::main();
    }
    cli::main()
}
