//! A model that answers from a file: for examples, trials and tests, without a key or a network. It is
//! chosen as `scripted/<file>` like any other model; `docs/scripted-model.md` describes the file.
//!
//! What it answers depends on the place of the call alone, so a run taken up again after a crash gets
//! the same answers. It holds itself to what a real model could do: no more input tokens than the
//! request has bytes for, no more output than it may write.

mod file;

use std::path::{Path, PathBuf};

use ronde_protocol::Usage;

pub use self::file::Error;
use self::file::{Entry, Script, Step};
use crate::{
    CallPlace, ErrorKind, Model, ModelError, Prices,
    estimate::{self, Reported},
    wire::{Block, Item, Request, Response, StopReason, render},
};

/// A script, checked.
#[derive(Debug, Clone)]
pub struct Scripted {
    path: PathBuf,
    script: Script,
}

impl Scripted {
    /// Reads and checks a script.
    ///
    /// # Errors
    /// [`Error`] names the file and everything that is wrong in it.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(path, &text)
    }

    /// Checks the text of a script; `path` is only for messages.
    ///
    /// # Errors
    /// As [`Scripted::load`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, Error> {
        Ok(Self {
            path: path.to_owned(),
            script: file::parse(path, text)?,
        })
    }

    fn step(&self, at: CallPlace) -> Result<&Step, ModelError> {
        let attempts = self.script.attempts.len();
        let index = |number: u32| usize::try_from(number).ok()?.checked_sub(1);
        let attempt = index(at.attempt).and_then(|index| self.script.attempts.get(index));
        let attempt = attempt
            .ok_or_else(|| self.fatal(at, &format!("the script ends after attempt {attempts}")))?;
        index(at.n)
            .and_then(|index| attempt.get(index))
            .ok_or_else(|| {
                self.fatal(
                    at,
                    &format!(
                        "the script ends after call {} of this attempt",
                        attempt.len()
                    ),
                )
            })
    }

    fn fatal(&self, at: CallPlace, what: &str) -> ModelError {
        let (path, CallPlace { attempt, n }) = (self.path.display(), at);
        ModelError::new(
            ErrorKind::Fatal,
            format!("{path}: attempt {attempt}, call {n}: {what}"),
        )
    }

    /// What the file says a call used, held against what it can have used; or a plain guess of four
    /// bytes a token where the file says nothing.
    fn usage(
        &self,
        request: &Request,
        at: CallPlace,
        entry: &Entry,
        blocks: &[Block],
    ) -> Result<Usage, ModelError> {
        let bytes = render(request).len() as u64;
        let Some(usage) = entry.usage else {
            let output: usize = blocks.iter().map(size).sum();
            return Ok(Usage {
                input: bytes.div_ceil(4),
                output: (output as u64).div_ceil(4).max(1),
                ..Usage::default()
            });
        };
        let most = estimate::input(bytes, self.before(request, at));
        let stated = Reported::of(bytes, &usage).input;
        if stated > most {
            return Err(self.fatal(
                at,
                &format!(
                    "`usage` says {stated} input tokens, but a request of {bytes} bytes after the \
                     call before can have at most {most}; lower it or leave `usage` out"
                ),
            ));
        }
        Ok(usage)
    }

    /// What was reported of the last call that was answered before this one, as the client knows it.
    fn before(&self, request: &Request, at: CallPlace) -> Option<Reported> {
        let answered = (1..at.n)
            .rev()
            .find_map(|n| match self.step(CallPlace { n, ..at }) {
                Ok(Step::Answer(entry)) => Some(entry),
                _ => None,
            })?;
        let last = request
            .items
            .iter()
            .rposition(|item| matches!(item, Item::Assistant { .. }))?;
        let items = request.items[..last].to_vec();
        let bytes = render(&Request {
            items,
            ..request.clone()
        })
        .len() as u64;
        Some(match &answered.usage {
            Some(usage) => Reported::of(bytes, usage),
            None => Reported {
                bytes,
                input: bytes.div_ceil(4),
            },
        })
    }
}

#[async_trait::async_trait]
impl Model for Scripted {
    async fn call(&self, request: &Request, at: CallPlace) -> Result<Response, ModelError> {
        let entry = match self.step(at)? {
            Step::Answer(entry) => entry,
            Step::Fail(failure) => {
                return Err(ModelError {
                    kind: failure.kind.into(),
                    message: failure.message.clone(),
                    retry_after: failure.retry_after_ms.map(std::time::Duration::from_millis),
                });
            }
        };
        let said = said(request);
        for part in &entry.expect {
            if !said.contains(part.as_str()) {
                return Err(self.fatal(
                    at,
                    &format!("expected the request to contain {part:?}, and it does not"),
                ));
            }
        }
        for part in &entry.expect_not {
            if said.contains(part.as_str()) {
                return Err(self.fatal(
                    at,
                    &format!("expected the request not to contain {part:?}, and it does"),
                ));
            }
        }
        let mut blocks = Vec::new();
        if !entry.text.is_empty() {
            blocks.push(Block::Text {
                text: entry.text.clone(),
            });
        }
        for (index, tool) in entry.tools.iter().enumerate() {
            blocks.push(Block::ToolUse {
                id: format!("call_{}_{}_{}", at.attempt, at.n, index + 1),
                name: tool.name.clone(),
                input: tool.input.clone(),
            });
        }
        let mut usage = self.usage(request, at, entry, &blocks)?;
        let mut stop = match (entry.stop, entry.tools.is_empty()) {
            (Some(stop), _) => stop,
            (None, true) => StopReason::EndTurn,
            (None, false) => StopReason::ToolUse,
        };
        let most = u64::from(request.max_output);
        if usage.output > most {
            // As a real model is cut: what was complete stays, and a tool call is not.
            usage.output = most;
            stop = StopReason::MaxTokens;
            blocks.retain(|block| matches!(block, Block::Text { .. }));
        }
        Ok(Response {
            blocks,
            stop,
            usage,
        })
    }

    fn prices(&self) -> Prices {
        self.script.price.unwrap_or(Prices::FREE)
    }
}

/// All that the harness and the tools said in a conversation, for `expect`.
fn said(request: &Request) -> String {
    let mut said = request.system.clone();
    for item in &request.items {
        match item {
            Item::User { text } => {
                said.push('\n');
                said.push_str(text);
            }
            Item::ToolResults { results } => {
                for result in results {
                    said.push('\n');
                    said.push_str(&result.content);
                }
            }
            Item::Assistant { .. } => {}
        }
    }
    said
}

fn size(block: &Block) -> usize {
    match block {
        Block::Text { text } => text.len(),
        Block::ToolUse { name, input, .. } => name.len() + input.to_string().len(),
        Block::Reasoning { raw } => raw.len(),
    }
}
