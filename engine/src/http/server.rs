//! The API's server side: thin functions from requests to the door.

use std::convert::Infallible;

use axum::{
    Json, Router,
    extract::{Path, Query, Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::Next,
    response::{
        IntoResponse, Response, Sse,
        sse::{Event as SseEvent, KeepAlive},
    },
    routing::{get, post},
};
use futures_util::{Stream, StreamExt as _};
use ronde_protocol::{Digest, ItemNumber, RunId, Seq};
use serde::Deserialize;
use tokio::net::UnixListener;

use super::{AnswerRequest, Begun, Health, ProjectReply, ProjectRequest, Refused, StartRequest};
use crate::{
    handle::{Handle, Refusal, RefusalKind},
    project,
};

#[derive(Clone)]
struct Door {
    handle: Handle,
    health: Health,
    token: Digest,
}

/// Answers at a socket until `shutdown` resolves. Streams that are open then are cut.
///
/// # Errors
/// Where the socket breaks.
pub(crate) async fn serve(
    listener: UnixListener,
    handle: Handle,
    health: Health,
    token: String,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let token = Digest::of(format!("Bearer {token}"));
    let door = Door {
        handle,
        health,
        token,
    };
    let router = Router::new()
        .route(
            "/v1/health",
            get(async |State(door): State<Door>| Json(door.health)),
        )
        .route("/v1/runs", post(start))
        .route("/v1/runs/{run}/continue", post(resume))
        .route("/v1/runs/{run}/stop", post(stop))
        .route("/v1/runs/{run}/interrupt", post(interrupt))
        .route("/v1/runs/{run}/events", get(events))
        .route("/v1/inbox/{number}/answer", post(answer))
        .route("/v1/projects", post(open))
        .fallback(async || {
            Refusal::new(RefusalKind::Missing, "there is no such part of the API").into_response()
        })
        .with_state(door.clone())
        .layer(axum::middleware::from_fn_with_state(door, admit));
    let (cut, mut is_cut) = tokio::sync::watch::channel(());
    let serving = axum::serve(listener, router).with_graceful_shutdown(async move {
        shutdown.await;
        drop(cut);
    });
    tokio::select! {
        served = async { serving.await } => served,
        // The sender is dropped, which is an error here and the signal meant.
        _ = async { let _cut = is_cut.changed().await; tokio::time::sleep(GRACE).await } => Ok(()),
    }
}

/// Lets in who carries the token. Hashes are compared, so that time tells nothing of it.
async fn admit(State(door): State<Door>, request: Request, next: Next) -> Response {
    let carried = request.headers().get(header::AUTHORIZATION);
    if carried.is_some_and(|carried| Digest::of(carried.as_bytes()) == door.token) {
        return next.run(request).await;
    }
    let body = Refused {
        kind: RefusalKind::Invalid,
        message: "a request carries the token of the home".to_owned(),
        hint: Some(
            "`authorization: Bearer` and the content of the file `token` in the home".to_owned(),
        ),
    };
    (StatusCode::UNAUTHORIZED, Json(body)).into_response()
}

/// How long open connections may finish at a shutdown; event streams never end by themselves.
const GRACE: std::time::Duration = std::time::Duration::from_millis(200);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self.kind {
            RefusalKind::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            RefusalKind::Missing => StatusCode::NOT_FOUND,
            RefusalKind::Conflict => StatusCode::CONFLICT,
            RefusalKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let body = Refused {
            kind: self.kind,
            message: self.message,
            hint: self.hint,
        };
        (status, Json(body)).into_response()
    }
}

async fn start(
    State(door): State<Door>,
    Json(request): Json<StartRequest>,
) -> Result<Json<Begun>, Refusal> {
    let run = door.handle.start(&request.file, &request.nonce).await?;
    Ok(Json(Begun {
        run,
        cursor: Some(0),
    }))
}

async fn resume(State(door): State<Door>, Path(run): Path<RunId>) -> Result<Json<Begun>, Refusal> {
    let cursor = Some(door.handle.resume(&run).await?);
    Ok(Json(Begun { run, cursor }))
}

async fn stop(State(door): State<Door>, Path(run): Path<RunId>) -> Result<Json<Begun>, Refusal> {
    let cursor = Some(door.handle.stop(&run).await?);
    Ok(Json(Begun { run, cursor }))
}

async fn interrupt(
    State(door): State<Door>,
    Path(run): Path<RunId>,
) -> Result<Json<Begun>, Refusal> {
    door.handle.interrupt(&run).await?;
    Ok(Json(Begun { run, cursor: None }))
}

async fn answer(
    State(door): State<Door>,
    Path(number): Path<ItemNumber>,
    Json(request): Json<AnswerRequest>,
) -> Result<Json<Begun>, Refusal> {
    let (run, cursor) = door.handle.answer(number, request.answer).await?;
    Ok(Json(Begun { run, cursor }))
}

async fn open(
    State(door): State<Door>,
    Json(request): Json<ProjectRequest>,
) -> Result<Json<ProjectReply>, Refusal> {
    Ok(Json(project::open(&door.handle, &request.root).await?))
}

#[derive(Deserialize)]
struct After {
    #[serde(default)]
    after: Seq,
}

async fn events(
    State(door): State<Door>,
    Path(run): Path<RunId>,
    Query(After { after }): Query<After>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<SseEvent, Infallible>>>, Refusal> {
    // A client that reconnects names the last record it saw, as the standard has it.
    let last = headers
        .get("last-event-id")
        .and_then(|id| id.to_str().ok()?.parse().ok());
    if door.handle.shared().store.home().run(&run).is_none() {
        return Err(Refusal::new(
            RefusalKind::Missing,
            format!("there is no run {run}"),
        ));
    }
    let stream = door
        .handle
        .events(&run, last.unwrap_or(after))
        .map(|event| {
            let sse = SseEvent::default().data(serde_json::to_string(&event).unwrap_or_default());
            Ok(match event.cursor {
                Some(cursor) => sse.id(cursor.to_string()),
                None => sse,
            })
        });
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()))
}
