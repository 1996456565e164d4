//! The one table of keys: what a file may hold, of what kind, and what is not built yet.
//!
//! The reader, the JSON Schema and the tests all go by it, so they cannot drift apart. It says nothing of
//! how keys depend on each other: that is `check.rs` and `config.rs`.

/// A table of a file and its keys.
pub(crate) struct Table {
    /// How messages name it: `[worker]`; empty for the top of the file.
    pub(crate) name: &'static str,
    pub(crate) keys: &'static [Key],
}

/// One key.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) need: Need,
    /// For editors: what it means and its default.
    pub(crate) doc: &'static str,
}

/// Whether a key is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// It must be.
    Required,
    /// It may be.
    Optional,
    /// It is known, but what it asks for is not built yet.
    Later {
        /// The part, as the subject of "… not built yet".
        part: &'static str,
        /// What to do instead.
        instead: &'static str,
    },
}

/// What a value is.
pub(crate) enum Kind {
    Text,
    Texts,
    Flag,
    /// A whole number, at least 1.
    Count,
    Duration,
    Tokens,
    Money,
    /// One of these words.
    Choice(&'static [Word]),
    /// Several of these words.
    Choices(&'static [Word]),
    Table(&'static Table),
    /// `[[name]]`, any number.
    Tables(&'static Table),
    /// `[name]`, or `[[name]]` any number.
    TableOrTables(&'static Table),
    /// `[name.ANY]`, any number.
    Named(&'static Table),
    /// Anything: only for keys not built yet.
    Any,
}

/// A word of a choice.
pub(crate) struct Word {
    pub(crate) word: &'static str,
    /// For one that is not built yet: what to do instead.
    pub(crate) instead: Option<&'static str>,
}

const fn word(word: &'static str) -> Word {
    Word {
        word,
        instead: None,
    }
}

const fn later(word: &'static str, instead: &'static str) -> Word {
    Word {
        word,
        instead: Some(instead),
    }
}

const fn key(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key {
        name,
        kind,
        need: Need::Optional,
        doc,
    }
}

const fn required(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key {
        name,
        kind,
        need: Need::Required,
        doc,
    }
}

const fn unbuilt(name: &'static str, part: &'static str, instead: &'static str) -> Key {
    Key {
        name,
        kind: Kind::Any,
        need: Need::Later { part, instead },
        doc: "",
    }
}

/// The loop file.
pub(crate) static LOOP: Table = Table {
    name: "",
    keys: &[
        required(
            "name",
            Kind::Text,
            "Name of the loop: 1 to 64 letters, digits, `.`, `_`, `-`. It becomes part of branch names.",
        ),
        key("description", Kind::Text, "What the loop is for, in words."),
        key(
            "goal",
            Kind::Text,
            "What the worker is asked to reach. {state.NAME}, {evidence}, {trigger.kind} and {trigger.due} are filled in.",
        ),
        key(
            "goal_file",
            Kind::Text,
            "A file that holds the goal, relative to the folder of the loop file. Instead of `goal`.",
        ),
        key(
            "enabled",
            Kind::Flag,
            "Whether triggers start runs. Default: true.",
        ),
        key(
            "overlap",
            Kind::Choice(&[
                word("skip"),
                later("queue-one", OVERLAP),
                later("queue-all", OVERLAP),
                later("cancel-running", OVERLAP),
                later("allow", OVERLAP),
            ]),
            "What happens when a trigger comes due while a run is at work. Default: skip.",
        ),
        key(
            "skip_if_green",
            Kind::Flag,
            "Try the checks on the base first; where they hold, the run is done without a worker. Default: false.",
        ),
        key(
            "trigger",
            Kind::Tables(&TRIGGER),
            "What starts a run. None: the loop is started by hand.",
        ),
        key(
            "workspace",
            Kind::Table(&WORKSPACE),
            "Where the work happens.",
        ),
        required("worker", Kind::TableOrTables(&WORKER), "Who does the work."),
        required(
            "check",
            Kind::Tables(&CHECK),
            "The stop condition: every check must pass.",
        ),
        unbuilt(
            "done",
            "expressions over checks are",
            "leave `done` out: every check must pass",
        ),
        key("budget", Kind::Table(&BUDGET), "Where a run stops."),
        key(
            "handoff",
            Kind::Table(&HANDOFF),
            "What comes to a person, and how.",
        ),
        key("state", Kind::Table(&STATE), "Files kept between runs."),
    ],
};

const OVERLAP: &str = "use `overlap = \"skip\"`: a slot that comes due during a run is skipped";
const TIMER: &str = "use `cron` or `every`";

static TRIGGER: Table = Table {
    name: "[[trigger]]",
    keys: &[
        key(
            "cron",
            Kind::Text,
            "When, as in crontab(5): minute hour day-of-month month weekday; a second first; or @daily and the like.",
        ),
        key(
            "timezone",
            Kind::Text,
            "IANA name of the zone of `cron`. Default: the machine's.",
        ),
        key(
            "every",
            Kind::Duration,
            "An interval, at least a second, counted from the loop's registration.",
        ),
        key(
            "catch_up",
            Kind::Duration,
            "A slot missed by at most this still starts, once. Default: 12h.",
        ),
        key(
            "jitter",
            Kind::Duration,
            "Starts are put off by up to this: always the same for one trigger. Default: none.",
        ),
        unbuilt("watch", "`watch` triggers are", TIMER),
        unbuilt("settle", "`settle`, a part of `watch` triggers, is", TIMER),
        unbuilt(
            "webhook",
            "`webhook` triggers are",
            "use `cron` or `every`, or start the loop with `ronde run`",
        ),
        unbuilt(
            "secret",
            "`secret`, a part of `webhook` triggers, is",
            TIMER,
        ),
        unbuilt("when", "`when`, a part of `webhook` triggers, is", TIMER),
        unbuilt("after", "`after` triggers are", TIMER),
        unbuilt(
            "outcome",
            "`outcome`, a part of `after` triggers, is",
            TIMER,
        ),
        unbuilt(
            "queue",
            "`queue` triggers are",
            "use `cron` or `every`, or start the loop with `ronde run`",
        ),
    ],
};

static WORKSPACE: Table = Table {
    name: "[workspace]",
    keys: &[
        key(
            "repo",
            Kind::Text,
            "The repository, relative to the project's root. Default: the root.",
        ),
        key(
            "base",
            Kind::Text,
            "The branch the work starts from. Default: the one checked out in the repository.",
        ),
        key(
            "fetch",
            Kind::Flag,
            "Bring the base up to date from its remote first, where there is one. Default: false.",
        ),
        key(
            "setup",
            Kind::Text,
            "A command line, run in each fresh checkout, with network, before worker and checks.",
        ),
        key(
            "seed",
            Kind::Text,
            "A folder, relative to the loop file's, that is copied into a small repository of its own first.",
        ),
        key(
            "isolation",
            Kind::Choice(&[
                word("clone"),
                later("copy", "use `isolation = \"clone\"`"),
                later("in-place", "use `isolation = \"clone\"`"),
            ]),
            "How the worker's folder is kept apart. Default: clone.",
        ),
        key(
            "deliver",
            Kind::Choice(&[
                word("branch"),
                word("none"),
                later(
                    "pull-request",
                    "use `deliver = \"branch\"` and open the pull request from it",
                ),
                later("patch", "use `deliver = \"branch\"` and `git format-patch`"),
                later("merge", "use `deliver = \"branch\"` and merge it by hand"),
            ]),
            "What becomes of a verified tree. Default: branch.",
        ),
        key(
            "protect",
            Kind::Texts,
            "Gitignore-style patterns; a change there fails the attempt.",
        ),
    ],
};

static WORKER: Table = Table {
    name: "[worker]",
    keys: &[
        key(
            "agent",
            Kind::Choice(&[
                word("ronde"),
                word("claude"),
                word("codex"),
                word("opencode"),
            ]),
            "The built-in agent, or an agent CLI with the right flags. Or use `command`.",
        ),
        key(
            "command",
            Kind::Texts,
            "Program and arguments. The prompt comes on stdin, and as a file where an argument holds {prompt_file}.",
        ),
        key(
            "model",
            Kind::Text,
            "For `ronde`: `scripted/FILE`. For an agent CLI: passed to it.",
        ),
        unbuilt(
            "fallback",
            "fallback models are",
            "name one model in `model`",
        ),
        unbuilt("role", "roles of several workers are", "use one `[worker]`"),
        key(
            "sandbox",
            Kind::Choice(&[word("read-only"), word("workspace-write"), word("full")]),
            "How far writes reach. Default: workspace-write.",
        ),
        key(
            "network",
            Kind::Flag,
            "Whether sockets other than Unix ones may be opened. Default: false; true for claude, codex and opencode, whose model is behind it.",
        ),
        key(
            "env",
            Kind::Texts,
            "Names of environment variables passed through; everything else is withheld.",
        ),
        key(
            "on_ask",
            Kind::Choice(&[word("wait"), word("refuse")]),
            "What happens where a rule says `ask`: a person decides, or the model reads the refusal. Only for `ronde`. Default: refuse.",
        ),
        key(
            "permissions",
            Kind::Table(&PERMISSIONS),
            "Rules of the gate: deny beats ask beats allow. Only for `ronde`.",
        ),
    ],
};

static PERMISSIONS: Table = Table {
    name: "[worker.permissions]",
    keys: &[
        key(
            "deny",
            Kind::Texts,
            "Never: patterns such as `shell(git push *)`.",
        ),
        key("ask", Kind::Texts, "Only after a person said yes."),
        key("allow", Kind::Texts, "Without a question."),
    ],
};

const RUN: &str = "write a command that checks it and exits with 0: `run = \"…\"`";

static CHECK: Table = Table {
    name: "[[check]]",
    keys: &[
        key(
            "name",
            Kind::Text,
            "Its name, unique in the loop. Default: check-1, check-2 and so on by its place.",
        ),
        key(
            "run",
            Kind::Text,
            "A command line, run by bash (else sh) in a fresh checkout; it passes with exit code 0.",
        ),
        key(
            "env",
            Kind::Texts,
            "Names of environment variables passed through to it.",
        ),
        key(
            "timeout",
            Kind::Duration,
            "Past this the check is killed and its finding is unknown. Default: 15m.",
        ),
        key(
            "repeat",
            Kind::Table(&REPEAT),
            "A guard against chance: run several times.",
        ),
        unbuilt(
            "report",
            "test reports are",
            "leave `report` out: the exit code of `run` decides",
        ),
        unbuilt("guard", "`guard` checks are", RUN),
        unbuilt(
            "list_empty",
            "`list_empty` checks are",
            "use a command, for example `run = \"! grep -q '\\\\[ \\\\]' TODO.md\"`",
        ),
        unbuilt("judge", "`judge` checks are", RUN),
        unbuilt("quote", "`quote` checks are", RUN),
    ],
};

static REPEAT: Table = Table {
    name: "repeat",
    keys: &[
        required("times", Kind::Count, "How often it runs, 1 to 100."),
        key(
            "pass",
            Kind::Count,
            "How often it must pass. Default: every time.",
        ),
    ],
};

static BUDGET: Table = Table {
    name: "[budget]",
    keys: &[
        key("attempts", Kind::Count, "Attempts of a run. Default: 5."),
        key(
            "iterations",
            Kind::Count,
            "Model calls of a run; an attempt of an external agent counts as one at least. Default: 100.",
        ),
        key(
            "tokens",
            Kind::Tokens,
            "Tokens of a run, all kinds added, such as 2M. Only for `ronde`. Default: 2M.",
        ),
        key(
            "cost",
            Kind::Money,
            "Money of a run, such as 5 USD. Only for `ronde`. Default: no limit.",
        ),
        key(
            "time",
            Kind::Duration,
            "Time of a run, waiting for people not counted. Default: 2h.",
        ),
        key("day", Kind::Table(&DAY), "All runs of the loop in one day."),
        unbuilt("month", "budgets of a month are", "use `[budget.day]`"),
    ],
};

static DAY: Table = Table {
    name: "[budget.day]",
    keys: &[
        key("tokens", Kind::Tokens, "Tokens of a day, all kinds added."),
        key("cost", Kind::Money, "Money of a day."),
    ],
};

static HANDOFF: Table = Table {
    name: "[handoff]",
    keys: &[
        key(
            "on",
            Kind::Choices(&[
                word("stuck"),
                word("budget"),
                word("question"),
                word("approval"),
                word("unknown-effect"),
                word("check-broken"),
            ]),
            "The reasons that open an item in the inbox. Default: all.",
        ),
        key(
            "notify",
            Kind::Texts,
            "Names of notifications from .ronde/config.toml.",
        ),
        key(
            "timeout",
            Kind::Duration,
            "After this an unanswered item expires. Default: never.",
        ),
        key(
            "then",
            Kind::Choice(&[word("expire"), later("escalate", "use `then = \"expire\"`")]),
            "What happens after `timeout`. Default: expire.",
        ),
    ],
};

static STATE: Table = Table {
    name: "[state]",
    keys: &[key(
        "files",
        Kind::Texts,
        "Names of files kept between runs, shown to the worker.",
    )],
};

/// The project's settings, `.ronde/config.toml`.
pub(crate) static CONFIG: Table = Table {
    name: "",
    keys: &[
        key(
            "notify",
            Kind::Named(&NOTIFY),
            "Ways to tell a person, by name.",
        ),
        key(
            "budget",
            Kind::Table(&CONFIG_BUDGET),
            "Limits over all loops of the project.",
        ),
        unbuilt(
            "provider",
            "model providers are",
            "use `agent = \"ronde\"` with a `scripted/FILE` model, or an agent CLI",
        ),
        unbuilt("prices", "prices of models are", "leave `prices` out"),
        unbuilt(
            "retention",
            "retention is",
            "leave `retention` out: everything is kept",
        ),
    ],
};

static NOTIFY: Table = Table {
    name: "[notify.NAME]",
    keys: &[
        required(
            "command",
            Kind::Texts,
            "Program and arguments; the item comes as JSON on stdin.",
        ),
        unbuilt(
            "webhook",
            "notifications by webhook are",
            "use `command`, for example with curl",
        ),
    ],
};

static CONFIG_BUDGET: Table = Table {
    name: "[budget]",
    keys: &[
        key(
            "day",
            Kind::Table(&DAY),
            "All runs of the project in one day.",
        ),
        unbuilt("month", "budgets of a month are", "use `[budget.day]`"),
    ],
};

impl Table {
    /// The key of this name.
    pub(crate) fn key(&self, name: &str) -> Option<&'static Key>
    where
        Self: 'static,
    {
        self.keys.iter().find(|key| key.name == name)
    }
}

impl Kind {
    /// The tables below.
    pub(crate) fn table(&self) -> Option<&'static Table> {
        match self {
            Self::Table(table)
            | Self::Tables(table)
            | Self::TableOrTables(table)
            | Self::Named(table) => Some(table),
            _ => None,
        }
    }
}
