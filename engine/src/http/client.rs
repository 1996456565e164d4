//! The client side of the API, over the home's Unix socket.

use std::{path::Path, time::Duration};

use futures_util::{Stream, StreamExt as _};
use ronde_protocol::{ItemNumber, RunId, Seq, handoff::Answer};
use serde::{Serialize, de::DeserializeOwned};

use super::{AnswerRequest, Begun, Health, ProjectReply, ProjectRequest, Refused, StartRequest};
use crate::{
    event::Event,
    handle::{Refusal, RefusalKind},
    home,
};

/// How often a process that stands by looks whether the owner lives.
const LOOK: Duration = Duration::from_secs(2);

/// A client of the process that owns a home.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    net: ronde_net::Client,
}

/// The owner is gone, or speaks nonsense.
#[derive(Debug)]
pub(crate) struct Gone(pub(crate) String);

impl Client {
    /// A client of the process that owns a home; none where nobody does. Who cannot read the home's
    /// token is nobody's client: a sandboxed program that knows the socket's path cannot.
    pub(crate) async fn connect(home: &Path) -> Option<Self> {
        let token = std::fs::read_to_string(home::token(home)).ok()?;
        let client = Self {
            net: ronde_net::Client::unix_as(&home::socket(home), Some(token.trim())).ok()?,
        };
        client.health().await.ok().map(|_| client)
    }

    /// Who answers.
    pub(crate) async fn health(&self) -> Result<Health, Refusal> {
        self.get("/v1/health").await
    }

    /// Resolves when nobody answers any more.
    pub(crate) async fn gone(&self) {
        while self.health().await.is_ok() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Starts a run.
    pub(crate) async fn start(&self, request: &StartRequest) -> Result<Begun, Refusal> {
        self.post("/v1/runs", request).await
    }

    /// Goes on with a run.
    pub(crate) async fn resume(&self, run: &RunId) -> Result<Begun, Refusal> {
        self.post(&format!("/v1/runs/{run}/continue"), &()).await
    }

    /// Ends a run.
    pub(crate) async fn stop(&self, run: &RunId) -> Result<Begun, Refusal> {
        self.post(&format!("/v1/runs/{run}/stop"), &()).await
    }

    /// Lets a run rest.
    pub(crate) async fn interrupt(&self, run: &RunId) -> Result<Begun, Refusal> {
        self.post(&format!("/v1/runs/{run}/interrupt"), &()).await
    }

    /// Answers an item.
    pub(crate) async fn answer(
        &self,
        number: ItemNumber,
        answer: Answer,
    ) -> Result<Begun, Refusal> {
        self.post(
            &format!("/v1/inbox/{number}/answer"),
            &AnswerRequest { answer },
        )
        .await
    }

    /// Serves a project.
    pub(crate) async fn open(&self, request: &ProjectRequest) -> Result<ProjectReply, Refusal> {
        self.post("/v1/projects", request).await
    }

    /// What happens in a run after a record.
    pub(crate) fn events(
        &self,
        run: &RunId,
        after: Seq,
    ) -> impl Stream<Item = Result<Event, Gone>> + Send + use<> {
        self.net
            .events(&format!("/v1/runs/{run}/events?after={after}"), None)
            .map(|sse| {
                let sse = sse.map_err(|error| Gone(error.to_string()))?;
                serde_json::from_str(&sse.data).map_err(|error| Gone(error.to_string()))
            })
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Refusal> {
        self.net.get_json(path).await.map_err(refusal)
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Refusal> {
        self.net.post_json(path, body).await.map_err(refusal)
    }
}

/// What the server said, or that it said nothing.
fn refusal(error: ronde_net::Error) -> Refusal {
    match error {
        ronde_net::Error::Status { body, .. } => match serde_json::from_slice::<Refused>(&body) {
            Ok(Refused {
                kind,
                message,
                hint,
            }) => Refusal {
                kind,
                message,
                hint,
            },
            Err(_) => Refusal::new(RefusalKind::Failed, String::from_utf8_lossy(&body)),
        },
        error => Refusal::new(RefusalKind::Failed, error.to_string()),
    }
}
