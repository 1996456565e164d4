//! The client against a server at a real socket.

use std::path::PathBuf;

use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderMap, StatusCode},
    response::IntoResponse,
    routing::{get, post},
};
use futures_util::StreamExt as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixListener,
    time::Instant,
};

use super::*;

/// A folder with a socket in it, and a server behind it as long as the runtime lasts.
fn serve(router: Router) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("sock");
    let listener = UnixListener::bind(&socket).expect("a listener");
    tokio::spawn(async move { axum::serve(listener, router).await });
    (folder, socket)
}

/// A server that reads the head of one request, writes these bytes and hangs up.
fn serve_bytes(answer: Vec<u8>) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("sock");
    let listener = UnixListener::bind(&socket).expect("a listener");
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a request"));
        }
        stream
            .write_all(&answer)
            .await
            .expect("a client that listens");
    });
    (folder, socket)
}

fn client(socket: &Path) -> Client {
    Client::unix(socket).expect("a client")
}

async fn all(client: &Client, path: &str, last: Option<&str>) -> Vec<Result<Sse, Error>> {
    client.events(path, last.map(str::to_owned)).collect().await
}

#[tokio::test]
async fn values_go_there_and_come_back() {
    let echo = |headers: HeaderMap, body: Bytes| async move {
        assert_eq!(headers["content-type"], "application/json");
        body
    };
    let query =
        |uri: axum::http::Uri| async move { format!("{:?}", uri.query().unwrap_or_default()) };
    let (_folder, socket) = serve(
        Router::new()
            .route("/echo", post(echo))
            .route("/query", get(query)),
    );
    let client = client(&socket);
    let sent = vec!["é".to_owned(), "b".to_owned()];
    let got: Vec<String> = client.post_json("/echo", &sent).await.expect("an answer");
    assert_eq!(got, sent);
    let got: String = client
        .clone()
        .get_json("/query?after=7")
        .await
        .expect("an answer");
    assert_eq!(got, "after=7");
}

#[tokio::test]
async fn a_long_path_is_reached_after_the_caller_forgot_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let deep = folder.path().join("d".repeat(120));
    std::fs::create_dir(&deep).expect("a folder");
    let socket = deep.join("sock");
    let (short, _held) = short_socket(&socket).expect("a path");
    let listener = UnixListener::bind(short).expect("a listener");
    let router = Router::new().route("/", get(|| async { "7" })).route(
        "/events",
        get(|| async { ([("content-type", "text/event-stream")], "data: a\n\n") }),
    );
    tokio::spawn(async move { axum::serve(listener, router).await });
    let client = client(&socket);
    assert_eq!(client.get_json::<u8>("/").await.expect("an answer"), 7);
    // The stream alone holds the way to the socket.
    let events = client.events("/events", None);
    drop(client);
    let events: Vec<_> = events.collect().await;
    assert_eq!(
        events
            .into_iter()
            .collect::<Result<Vec<_>, _>>()
            .expect("no error")
            .len(),
        1
    );
}

#[tokio::test]
async fn what_the_server_refuses_is_told_with_its_words() {
    let no = || async { (StatusCode::CONFLICT, "not so") };
    let away = || async { (StatusCode::FOUND, [("location", "/elsewhere")]) };
    let (_folder, socket) = serve(
        Router::new()
            .route("/no", get(no).post(no))
            .route("/away", get(away))
            .route("/elsewhere", get(|| async { "7" })),
    );
    let client = client(&socket);
    let refused = [
        client
            .get_json::<u8>("/no?token=secret")
            .await
            .expect_err("a refusal"),
        client
            .post_json::<u8>("/no?token=secret", &1)
            .await
            .expect_err("a refusal"),
        all(&client, "/no?token=secret", None)
            .await
            .remove(0)
            .expect_err("a refusal"),
    ];
    for error in refused {
        assert_eq!(error.to_string(), "the server answers /no with status 409");
        assert!(
            matches!(error, Error::Status { status: 409, ref body, .. } if body == b"not so"),
            "{error:?}"
        );
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
    // Nobody is sent elsewhere.
    let error = client
        .get_json::<u8>("/away")
        .await
        .expect_err("a redirect");
    assert!(
        matches!(error, Error::Status { status: 302, .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn nobody_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = client(&folder.path().join("sock"));
    let left = folder.path().join("left");
    drop(UnixListener::bind(&left).expect("a listener"));
    for client in [missing, client(&left)] {
        let errors = [
            client
                .get_json::<u8>("/a?token=secret")
                .await
                .expect_err("nobody"),
            client
                .post_json::<u8>("/a?token=secret", &1)
                .await
                .expect_err("nobody"),
            all(&client, "/a?token=secret", None)
                .await
                .remove(0)
                .expect_err("nobody"),
        ];
        for error in errors {
            assert!(
                matches!(&error, Error::Unreachable { path, .. } if path == "/a"),
                "{error:?}"
            );
            assert!(error.to_string().contains("os error"), "{error}");
            assert!(
                !format!("{error:?} {error}").contains("secret"),
                "{error:?}"
            );
        }
    }
    let nowhere = Client::unix(&folder.path().join("d".repeat(120)).join("sock"));
    assert!(matches!(nowhere, Err(Error::Socket { .. })), "{nowhere:?}");
}

#[tokio::test]
async fn what_cannot_be_used() {
    let much = || async { vec![b' '; LARGEST + 1] };
    let (_folder, socket) = serve(
        Router::new()
            .route("/words", get(|| async { "words" }))
            .route(
                "/most",
                get(|| async { [vec![b' '; LARGEST - 1], vec![b'7']].concat() }),
            )
            .route("/much", get(much))
            .route(
                "/much-refused",
                get(move || async move { (StatusCode::BAD_GATEWAY, much().await) }),
            ),
    );
    let client = client(&socket);
    let error = client
        .get_json::<u8>("/words?q=1")
        .await
        .expect_err("no JSON");
    assert!(
        matches!(&error, Error::Body { path, .. } if path == "/words"),
        "{error:?}"
    );
    assert_eq!(client.get_json::<u8>("/most").await.expect("an answer"), 7);
    let error = client.get_json::<u8>("/much").await.expect_err("too much");
    assert!(
        matches!(error, Error::TooLarge { limit: LARGEST, .. }),
        "{error:?}"
    );
    let error = client
        .get_json::<u8>("/much-refused")
        .await
        .expect_err("a refusal");
    assert!(matches!(&error, Error::Status { status: 502, body, .. } if body.len() == LARGEST));
    let error = client.get_json::<u8>("words").await.expect_err("no path");
    assert!(matches!(error, Error::Request { .. }), "{error:?}");
    let error = all(&client, "/words", None)
        .await
        .remove(0)
        .expect_err("no stream");
    assert_eq!(
        error.to_string(),
        "the answer to /words cannot be used: it is no stream of events"
    );
    let error = all(&client, "/words", Some("a\nb"))
        .await
        .remove(0)
        .expect_err("no header");
    assert!(matches!(error, Error::Request { .. }), "{error:?}");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error() {
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n7".to_vec();
    let (_folder, socket) = serve_bytes(answer);
    let error = client(&socket)
        .get_json::<u8>("/a?token=secret")
        .await
        .expect_err("half an answer");
    assert!(
        matches!(&error, Error::Body { path, .. } if path == "/a"),
        "{error:?}"
    );
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
}

#[tokio::test]
async fn a_stream_gives_its_events_and_says_where_to_go_on() {
    let stream = |headers: HeaderMap| async move {
        assert_eq!(headers["accept"], "text/event-stream");
        let last = headers
            .get("last-event-id")
            .map(|id| id.to_str().expect("a text").to_owned());
        let chunks = [
            format!("data: {last:?}\n"),
            "\nid: 8\neve".to_owned(),
            "nt: e\ndata: b\n\ndata: half".to_owned(),
        ];
        let chunks = stream::iter(chunks.map(Ok::<_, std::io::Error>));
        (
            [("content-type", "text/event-stream")],
            Body::from_stream(chunks),
        )
            .into_response()
    };
    let (_folder, socket) = serve(Router::new().route("/events", get(stream)));
    let events = all(&client(&socket), "/events?after=1", Some("7")).await;
    let events = events
        .into_iter()
        .collect::<Result<Vec<_>, _>>()
        .expect("no error");
    let first = Sse {
        id: None,
        event: None,
        data: "Some(\"7\")".into(),
    };
    let second = Sse {
        id: Some("8".into()),
        event: Some("e".into()),
        data: "b".into(),
    };
    assert_eq!(events, [first, second]);
}

#[tokio::test]
async fn a_stream_that_is_cut_off_ends_with_an_error() {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let (_folder, socket) = serve_bytes(format!("{head}9\r\ndata: a\n\n\r\n").into_bytes());
    let events = all(&client(&socket), "/events?token=secret", None).await;
    let [Ok(event), Err(error)] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(event.data, "a");
    assert!(
        matches!(error, Error::Body { path, .. } if path == "/events"),
        "{error:?}"
    );
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
}

#[tokio::test]
async fn an_event_without_end_ends_the_stream() {
    let endless = || async {
        let chunks = stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b'x'; 1024 * 1024]));
        (
            [("content-type", "text/event-stream")],
            Body::from_stream(chunks),
        )
            .into_response()
    };
    let (_folder, socket) = serve(Router::new().route("/events", get(endless)));
    let mut events = all(&client(&socket), "/events", None).await;
    let error = events.pop().expect("an end").expect_err("too much");
    assert!(
        matches!(
            error,
            Error::TooLarge {
                limit: sse::LARGEST,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(events.is_empty());
}

#[tokio::test(start_paused = true)]
async fn each_wait_has_its_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("sock");
    // Connections are taken by the system; nobody answers.
    let _listener = UnixListener::bind(&socket).expect("a listener");
    let client = client(&socket);
    let began = Instant::now();
    let asked = client.get_json::<u8>("/a").await.expect_err("no answer");
    assert_eq!(asked.to_string(), "no answer to /a within 30 s");
    assert_eq!(began.elapsed().as_secs(), 30);
    let began = Instant::now();
    let asked = client
        .post_json::<u8>("/a", &1)
        .await
        .expect_err("no answer");
    assert_eq!(asked.to_string(), "no answer to /a within 300 s");
    assert_eq!(began.elapsed().as_secs(), 300);
    let began = Instant::now();
    let asked = all(&client, "/a", None)
        .await
        .remove(0)
        .expect_err("no answer");
    assert_eq!(asked.to_string(), "no answer to /a within 30 s");
    assert_eq!(began.elapsed().as_secs(), 30);
}
