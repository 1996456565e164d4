//! From a frozen definition to what each part is started with. Paths and policies are put together
//! here and nowhere else.

use std::path::{Path, PathBuf};

use ronde_loops::{Agent, Deliver};
use ronde_protocol::{Digest, RunId, Timestamp, access::Level};
use ronde_sandbox::{Policy, doctor};
use ronde_state::event::{Scope, ScopeLimit};
use ronde_workspace::{Seed, Source, inspect};

use crate::{
    frozen::Frozen,
    handle::{Refusal, RefusalKind, Shared},
    run::next::Rules,
};

/// Folders and files of a person's home where keys are kept: nothing a loop starts may read them.
const SECRETS: [&str; 21] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".config/gh",
    ".config/gcloud",
    ".config/ronde",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".password-store",
    ".vault-token",
    ".terraform.d",
    ".m2/settings.xml",
    ".gem/credentials",
];

/// Where agents keep their keys and what they said, as far as ronde knows them: only the agent itself
/// may read its own. A variable that is set names the folder in the home's place.
const AGENTS: [(&str, &str, &str); 6] = [
    ("claude", "CLAUDE_CONFIG_DIR", ".claude"),
    ("claude", "", ".claude.json"),
    ("codex", "CODEX_HOME", ".codex"),
    ("opencode", "", ".local/share/opencode"),
    ("opencode", "", ".local/state/opencode"),
    ("opencode", "", ".config/opencode"),
];

/// The rules `next` goes by.
pub(crate) fn rules(frozen: &Frozen) -> Rules {
    let definition = &frozen.definition;
    let access = &definition.worker.access;
    Rules {
        worker: definition.worker.name.clone(),
        attempts: definition.limits.attempts,
        iterations: definition.limits.iterations,
        time: definition.limits.time,
        skip_if_green: definition.skip_if_green,
        deliver: definition.workspace.deliver == Deliver::Branch,
        asks: definition.handoff.on.iter().copied().collect(),
        contained: access.level != Level::Full && !access.network,
    }
}

/// Where a loop's files come from.
pub(crate) fn source(frozen: &Frozen, home: &Path) -> Source {
    let workspace = &frozen.definition.workspace;
    let repo = match &workspace.repo {
        Some(repo) => frozen.root.join(repo),
        None => frozen.root.clone(),
    };
    let seed = workspace.seed.as_ref().map(|folder| Seed {
        folder: frozen.file.with_file_name(folder),
        repo: seeded(frozen, home),
    });
    Source {
        repo,
        base: workspace.base.clone(),
        fetch: workspace.fetch,
        seed,
    }
}

/// The repository a loop's results go to.
pub(crate) fn repository(frozen: &Frozen, home: &Path) -> PathBuf {
    let source = source(frozen, home);
    source.seed.map_or(source.repo, |seed| seed.repo)
}

/// The repository a loop's seed is copied into: one for each loop file.
fn seeded(frozen: &Frozen, home: &Path) -> PathBuf {
    let id = Digest::of(frozen.file.to_string_lossy().as_bytes());
    home.join("seeds")
        .join(format!("{}-{}.git", frozen.definition.name, id.short()))
}

/// The folder of a run.
pub(crate) fn run_folder(home: &Path, run: &RunId) -> PathBuf {
    home.join("runs").join(run.as_str())
}

/// What nothing a loop starts may read: ronde's home, and where people and agents keep their keys.
pub(crate) fn hidden(home: &Path) -> Vec<PathBuf> {
    hidden_but(home, None)
}

/// The same for a worker, which may read what is its own.
pub(crate) fn hidden_from(home: &Path, agent: &Agent) -> Vec<PathBuf> {
    hidden_but(home, program_of(agent))
}

fn hidden_but(home: &Path, own: Option<&str>) -> Vec<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let mut hidden = vec![home.to_owned()];
    let user = set("HOME").map(PathBuf::from);
    // The other homes of the same person are as little a program's to speak for.
    hidden.extend(set("XDG_STATE_HOME").map(|state| PathBuf::from(state).join("ronde")));
    hidden.extend(user.as_ref().map(|user| user.join(".local/state/ronde")));
    let of_user = |path: &str| user.as_ref().map(|user| user.join(path));
    hidden.extend(SECRETS.iter().filter_map(|path| of_user(path)));
    for (agent, variable, path) in AGENTS {
        if own != Some(agent) {
            hidden.extend(of_user(path));
            hidden.extend(set(variable).map(PathBuf::from));
        }
    }
    if let Some(cargo) = set("CARGO_HOME").map(PathBuf::from) {
        hidden.extend(["credentials", "credentials.toml"].map(|file| cargo.join(file)));
    }
    hidden
}

/// The budgets a run's model calls are paid from.
pub(crate) fn scopes(frozen: &Frozen, run: &RunId, now: Timestamp) -> Vec<ScopeLimit> {
    let limits = &frozen.definition.limits;
    let day = now.strftime("%Y-%m-%d").to_string();
    let (project, loop_name) = (frozen.project(), frozen.definition.name.clone());
    vec![
        ScopeLimit {
            scope: Scope::Run { run: run.clone() },
            tokens: limits.tokens,
            cost: limits.cost,
        },
        ScopeLimit {
            scope: Scope::LoopDay {
                project: project.clone(),
                loop_name,
                day: day.clone(),
            },
            tokens: limits.day.tokens,
            cost: limits.day.cost,
        },
        ScopeLimit {
            scope: Scope::ProjectDay { project, day },
            tokens: frozen.config.day.tokens,
            cost: frozen.config.day.cost,
        },
    ]
}

/// The variables a program gets whatever its loop names.
pub(crate) fn base_env() -> Vec<String> {
    [
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "TZ",
        "CARGO_HOME",
        "RUSTUP_HOME",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Looks whether this machine and this repository hold what a loop asks for. Changes nothing.
pub(crate) async fn preflight(frozen: &Frozen, shared: &Shared) -> Result<(), Refusal> {
    let source = source(frozen, &shared.home);
    inspect(&shared.git, &source).await.map_err(|error| {
        let refusal = Refusal::new(RefusalKind::Invalid, error.to_string());
        match error.hint() {
            Some(hint) => refusal.hint(hint),
            None => refusal,
        }
    })?;
    if std::env::var_os("HOME").is_none_or(|home| home.is_empty()) {
        return Err(Refusal::new(
            RefusalKind::Failed,
            "HOME is not set, so nobody knows which keys are to be kept from what is started",
        )
        .hint("set HOME to the folder of the user ronde runs as"));
    }
    let access = &frozen.definition.worker.access;
    let asked = [
        ("the worker", access.level, access.network),
        ("the checks", Level::WorkspaceWrite, false),
    ];
    for (who, level, network) in asked {
        let policy = Policy {
            level,
            network,
            hidden: hidden(&shared.home),
            ..Policy::unconfined()
        };
        doctor::can_hold(&policy).map_err(|reason| {
            Refusal::new(
                RefusalKind::Failed,
                format!("this machine cannot hold the sandbox {who} asks for: {reason}"),
            )
            .hint("`ronde doctor` shows what it can hold")
        })?;
    }
    program(&frozen.definition.worker.agent)
}

/// The program of a worker, as it was named; none for the built-in agent.
fn program_of(agent: &Agent) -> Option<&str> {
    match agent {
        Agent::Ronde { .. } => None,
        Agent::Claude { .. } => Some("claude"),
        Agent::Codex { .. } => Some("codex"),
        Agent::OpenCode { .. } => Some("opencode"),
        Agent::Command { argv } => argv.first().map(String::as_str),
    }
}

/// Looks whether a worker's program is there. A path is relative to the workspace, which does not stand
/// yet.
fn program(agent: &Agent) -> Result<(), Refusal> {
    let Some(name) = program_of(agent).filter(|name| !name.contains('/')) else {
        return Ok(());
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    if found {
        return Ok(());
    }
    Err(Refusal::new(
        RefusalKind::Failed,
        format!("the worker's program `{name}` is not on the PATH"),
    )
    .hint("install it, or name it with its path in `[worker] command`"))
}

/// The names of a run's branches.
pub(crate) mod branch {
    use ronde_protocol::RunId;

    /// The verified result.
    pub(crate) fn result(run: &RunId) -> String {
        format!("ronde/{run}")
    }

    /// The work so far, unverified, as question `n` shows it.
    pub(crate) fn so_far(run: &RunId, n: u32) -> String {
        format!("ronde/wip/{run}-{n}")
    }
}
