//! Who does the work, and what it may do.

use ronde_protocol::{
    WorkerName,
    access::{Access, Level, OnAsk, Rules},
    handoff::Reason,
};

use super::{Checker, strings};
use crate::{
    definition::{Agent, HandoffSpec, WorkerSpec},
    read::{Raw, quoted},
};

/// The folder of recorded sessions, as the provider part of a model.
const SCRIPTED: &str = "scripted/";

impl Checker<'_> {
    pub(super) fn worker(&mut self, raw: &Raw) -> Option<WorkerSpec> {
        let tables = raw.tables("worker");
        if let (Some(span), []) = (raw.mention("worker"), tables) {
            if raw.is_list("worker") {
                let span = span.clone();
                let hint = "add `[worker]` with `agent = \"claude\"` or a `command`".to_owned();
                self.error(&span, "the loop has no worker", hint);
            }
            return None;
        }
        for extra in tables.iter().skip(1) {
            let hint = "use one `[worker]`".to_owned();
            self.error(&extra.span, "several workers are not built yet", hint);
        }
        let table = tables.first()?;
        let agent = self.agent(table);
        let access = self.access(table, agent.as_ref());
        Some(WorkerSpec {
            name: WorkerName::main(),
            agent: agent?,
            access,
        })
    }

    fn agent(&mut self, raw: &Raw) -> Option<Agent> {
        match (raw.mention("agent"), raw.mention("command")) {
            (Some(_), Some(command)) => {
                let command = command.clone();
                let message = "`agent` and `command` exclude each other";
                self.error(&command, message, "keep one".to_owned());
                return None;
            }
            (None, None) => {
                let hint = "add `agent = \"claude\"` or `command = [\"my-agent\"]`".to_owned();
                self.error(
                    &raw.span,
                    "the worker says neither `agent` nor `command`",
                    hint,
                );
                return None;
            }
            (None, Some(_)) => return self.command(raw),
            (Some(_), None) => {}
        }
        let model = raw.text("model");
        let passed = || model.clone().map(|model| model.value);
        match raw.word("agent")?.value {
            "claude" => Some(Agent::Claude { model: passed() }),
            "codex" => Some(Agent::Codex { model: passed() }),
            "opencode" => Some(Agent::OpenCode { model: passed() }),
            _ => self.built_in(raw),
        }
    }

    fn command(&mut self, raw: &Raw) -> Option<Agent> {
        if let Some(model) = raw.mention("model") {
            let model = model.clone();
            let hint = "give it to the program as an argument of `command`".to_owned();
            self.error(&model, "`model` has no meaning with `command`", hint);
        }
        let argv = raw.texts("command")?;
        if argv.value.is_empty() {
            let hint =
                "the program and its arguments: `command = [\"my-agent\", \"{prompt_file}\"]`";
            self.error(&argv.span, "`command` is empty", hint.to_owned());
            return None;
        }
        Some(Agent::Command {
            argv: argv.value.into_iter().map(|word| word.value).collect(),
        })
    }

    fn built_in(&mut self, raw: &Raw) -> Option<Agent> {
        let way = "use `model = \"scripted/FILE\"`, a recorded session, or an agent CLI such as `agent = \"claude\"`";
        if raw.mention("model").is_none() {
            let hint = format!("add it: {way}");
            self.error(&raw.span, "`agent = \"ronde\"` needs a `model`", hint);
            return None;
        }
        let model = raw.text("model")?;
        if let Some(file) = model.value.strip_prefix(SCRIPTED) {
            if file.starts_with('/') || file.is_empty() {
                let hint =
                    "a file relative to the folder of the loop file: `scripted/session.toml`";
                self.error(
                    &model.span,
                    "a scripted model names its file",
                    hint.to_owned(),
                );
                return None;
            }
            return Some(Agent::Ronde { model: model.value });
        }
        let message = match model.value.split_once('/') {
            Some((provider, _)) => format!("model provider {} is not built yet", quoted(provider)),
            None => format!(
                "{} is no model: a model is `provider/name`",
                quoted(&model.value)
            ),
        };
        self.error(&model.span, message, way.to_owned());
        None
    }

    fn access(&mut self, raw: &Raw, agent: Option<&Agent>) -> Access {
        let built_in = agent.is_none_or(|agent| matches!(agent, Agent::Ronde { .. }));
        for key in ["permissions", "on_ask"] {
            if let (false, Some(span)) = (built_in, raw.mention(key)) {
                let span = span.clone();
                let message =
                    format!("`{key}` cannot be held: ronde does not see what this worker does");
                let hint = "use `sandbox`, `network` and `env` instead, or `agent = \"ronde\"`";
                self.error(&span, message, hint.to_owned());
            }
        }
        // The model of these is behind the network.
        let online = matches!(
            agent,
            Some(Agent::Claude { .. } | Agent::Codex { .. } | Agent::OpenCode { .. })
        );
        let level = match raw.word("sandbox").map(|word| word.value) {
            Some("read-only") => Level::ReadOnly,
            Some("full") => Level::Full,
            _ => Level::WorkspaceWrite,
        };
        let wait = raw.word("on_ask").is_some_and(|word| word.value == "wait");
        Access {
            level,
            network: raw.flag("network").map_or(online, |flag| flag.value),
            env: self.variables(raw, "env"),
            rules: raw
                .table("permissions")
                .map(|raw| self.rules(raw))
                .unwrap_or_default(),
            on_ask: if wait { OnAsk::Wait } else { OnAsk::Refuse },
        }
    }

    fn rules(&mut self, raw: &Raw) -> Rules {
        for key in ["deny", "ask", "allow"] {
            for pattern in raw.texts(key).map(|list| list.value).unwrap_or_default() {
                if let Err(refusal) = self.validators.rule(&pattern.value) {
                    self.refuse(&pattern, refusal);
                }
            }
        }
        Rules {
            deny: strings(raw, "deny"),
            ask: strings(raw, "ask"),
            allow: strings(raw, "allow"),
        }
    }

    /// Refuses a worker that waits for an approval nobody is asked for.
    pub(super) fn waits_for_somebody(
        &mut self,
        raw: &Raw,
        worker: &WorkerSpec,
        handoff: &HandoffSpec,
    ) {
        if worker.access.on_ask == OnAsk::Wait
            && !handoff.on.contains(&Reason::Approval)
            && let Some(on_ask) = raw.table("worker").and_then(|raw| raw.word("on_ask"))
        {
            let hint = "add `approval` to `on` in `[handoff]`, or use `on_ask = \"refuse\"`";
            let message =
                "`on_ask = \"wait\"` would wait for ever: `[handoff]` asks nobody for approvals";
            self.error(&on_ask.span, message, hint.to_owned());
        }
    }
}
