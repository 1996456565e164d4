//! The client: one exchange, or one stream of events. Each has its limits; none is tried again, and no
//! redirect is followed.

use std::{collections::VecDeque, os::fd::OwnedFd, path::Path, sync::Arc, time::Duration};

use futures_util::{Stream, stream};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Error, Sse,
    error::{failed, innermost, shown},
    short_socket,
    sse::{self, Parser},
};

/// The longest a connection may take.
const CONNECT: Duration = Duration::from_secs(2);
/// The longest a question may take, and the head of a stream.
const ASK: Duration = Duration::from_secs(30);
/// The longest a request for work may take.
const WORK: Duration = Duration::from_secs(5 * 60);
/// The largest answer, in bytes.
const LARGEST: usize = 16 * 1024 * 1024;

/// An HTTP client of one server. A clone shares its connections.
#[derive(Debug, Clone)]
pub struct Client {
    #[expect(clippy::disallowed_types, reason = "this is the one place for it")]
    http: reqwest::Client,
    /// The folder of a socket whose path is too long.
    _folder: Option<Arc<OwnedFd>>,
}

impl Client {
    /// A client of whoever answers at a Unix socket. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Error::Socket`] where its path is long and its folder cannot be opened.
    pub fn unix(socket: &Path) -> Result<Self, Error> {
        Self::unix_as(socket, None)
    }

    /// The same, with a token that every request carries (`authorization: Bearer`).
    ///
    /// # Errors
    /// As [`Client::unix`], and [`Error::Client`] where the token is no header's value.
    pub fn unix_as(socket: &Path, token: Option<&str>) -> Result<Self, Error> {
        let unusable = |reason: String| Error::Client { reason };
        let mut headers = reqwest::header::HeaderMap::new();
        if let Some(token) = token {
            let mut value = reqwest::header::HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| unusable("the token is no header's value".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(reqwest::header::AUTHORIZATION, value);
        }
        let (short, folder) = short_socket(socket).map_err(|source| Error::Socket {
            socket: socket.to_owned(),
            source,
        })?;
        #[expect(clippy::disallowed_types, reason = "this is the one place for it")]
        let http = reqwest::Client::builder()
            .unix_socket(short)
            .default_headers(headers)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .build()
            .map_err(|error| unusable(innermost(&error)))?;
        Ok(Self {
            http,
            _folder: folder.map(Arc::new),
        })
    }

    /// Asks for a JSON value: at most 30 s, at most 16 MiB. `path` begins with `/` and may have a query.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let request = self.http.get(url(path)?).timeout(ASK);
        json(path, &whole(path, request, ASK).await?)
    }

    /// Sends a JSON value and reads one: at most 5 minutes, at most 16 MiB. `path` as above.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn post_json<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        let body = serde_json::to_vec(body).map_err(|error| Error::Request {
            path: shown(path),
            reason: error.to_string(),
        })?;
        let request = self
            .http
            .post(url(path)?)
            .header("content-type", "application/json")
            .body(body)
            .timeout(WORK);
        json(path, &whole(path, request, WORK).await?)
    }

    /// Listens to a stream of events, as long as it lasts; `last_event_id` says which were seen. The
    /// stream ends after its first error. It ends without one only where the server ended it.
    pub fn events(
        &self,
        path: &str,
        last_event_id: Option<String>,
    ) -> impl Stream<Item = Result<Sse, Error>> + Send + use<> {
        let start = Listening::Start {
            client: self.clone(),
            last_event_id,
        };
        stream::unfold((path.to_owned(), start), |(path, listening)| async move {
            let (event, listening) = listening.next(&path).await?;
            Some((event, (path, listening)))
        })
    }
}

/// How far a stream of events has come.
enum Listening {
    Start {
        client: Client,
        last_event_id: Option<String>,
    },
    On(Box<Reading>),
    Ended,
}

struct Reading {
    /// Holds the folder of the socket.
    _client: Client,
    response: reqwest::Response,
    parser: Parser,
    ready: VecDeque<Sse>,
}

impl Listening {
    async fn next(self, path: &str) -> Option<(Result<Sse, Error>, Self)> {
        let reading = match self {
            Self::Start {
                client,
                last_event_id,
            } => client.listen(path, last_event_id).await,
            Self::On(reading) => Ok(reading),
            Self::Ended => return None,
        };
        let read = match reading {
            Ok(mut reading) => reading
                .next(path)
                .await
                .map(|event| event.map(|event| (event, reading))),
            Err(error) => Err(error),
        };
        match read {
            Ok(Some((event, reading))) => Some((Ok(event), Self::On(reading))),
            Ok(None) => None,
            Err(error) => Some((Err(error), Self::Ended)),
        }
    }
}

impl Reading {
    async fn next(&mut self, path: &str) -> Result<Option<Sse>, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if self.parser.too_large() {
                return Err(Error::TooLarge {
                    path: shown(path),
                    limit: sse::LARGEST,
                });
            }
            let chunk = self.response.chunk().await;
            match chunk.map_err(|error| failed(path, error, ASK, true))? {
                Some(chunk) => self.ready.extend(self.parser.push(&chunk)),
                None => return Ok(None),
            }
        }
    }
}

impl Client {
    async fn listen(
        self,
        path: &str,
        last_event_id: Option<String>,
    ) -> Result<Box<Reading>, Error> {
        let mut request = self
            .http
            .get(url(path)?)
            .header("accept", "text/event-stream");
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        // No limit on the whole, hence one on the head.
        let response = tokio::time::timeout(ASK, request.send())
            .await
            .map_err(|_| Error::TimedOut {
                path: shown(path),
                limit: ASK,
            })?
            .map_err(|error| failed(path, error, ASK, false))?;
        let response = good(path, response).await?;
        let kind = response.headers().get("content-type");
        if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
            return Err(Error::Body {
                path: shown(path),
                reason: "it is no stream of events".to_owned(),
            });
        }
        Ok(Box::new(Reading {
            _client: self,
            response,
            parser: Parser::default(),
            ready: VecDeque::new(),
        }))
    }
}

/// The host is a word: the socket says who answers.
fn url(path: &str) -> Result<String, Error> {
    if path.starts_with('/') {
        Ok(format!("http://localhost{path}"))
    } else {
        Err(Error::Request {
            path: shown(path),
            reason: "a path begins with `/`".to_owned(),
        })
    }
}

/// The whole answer to a request.
async fn whole(
    path: &str,
    request: reqwest::RequestBuilder,
    limit: Duration,
) -> Result<Vec<u8>, Error> {
    let response = request
        .send()
        .await
        .map_err(|error| failed(path, error, limit, false))?;
    let mut response = good(path, response).await?;
    match read(path, &mut response, limit).await? {
        (body, true) => Ok(body),
        (_, false) => Err(Error::TooLarge {
            path: shown(path),
            limit: LARGEST,
        }),
    }
}

/// An answer that says yes.
async fn good(path: &str, mut response: reqwest::Response) -> Result<reqwest::Response, Error> {
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status().as_u16();
    // The status is worth more than why its words cannot be read.
    let read = tokio::time::timeout(ASK, read(path, &mut response, ASK)).await;
    let body = match read {
        Ok(Ok((body, _))) => body,
        Ok(Err(_)) | Err(_) => Vec::new(),
    };
    Err(Error::Status {
        path: shown(path),
        status,
        body,
    })
}

/// A body, as far as it may go, and whether that is all of it.
async fn read(
    path: &str,
    response: &mut reqwest::Response,
    limit: Duration,
) -> Result<(Vec<u8>, bool), Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| failed(path, error, limit, true))?
    {
        let room = LARGEST - body.len();
        if chunk.len() > room {
            body.extend_from_slice(&chunk[..room]);
            return Ok((body, false));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((body, true))
}

fn json<T: DeserializeOwned>(path: &str, body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| Error::Body {
        path: shown(path),
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests;
