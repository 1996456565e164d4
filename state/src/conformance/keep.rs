//! Blobs and state files.

use std::sync::Arc;

use ronde_protocol::ArtefactId;

use super::{illegal, missing, project};
use crate::store::{Error, Store};

pub(super) async fn artefacts(store: Arc<dyn Store>) {
    let large: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    for bytes in [&b""[..], b"words", &large] {
        for _ in 0..2 {
            let id = store.put_artefact(bytes).await.expect("stored");
            assert_eq!(id, ArtefactId::of(bytes));
            assert_eq!(store.get_artefact(&id).await.expect("it is there"), bytes);
        }
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("f");
    std::fs::write(&file, [&large[..], b"more"].concat()).expect("written");
    for _ in 0..2 {
        let id = store.put_artefact_file(&file).await.expect("stored");
        assert_eq!(id, ArtefactId::of([&large[..], b"more"].concat()));
        assert_eq!(
            store.get_artefact(&id).await.expect("it is there").len(),
            large.len() + 4
        );
    }
    let gone = store.put_artefact_file(&dir.path().join("g")).await;
    assert!(matches!(gone, Err(Error::Io { .. })), "{gone:?}");
    missing(store.get_artefact(&ArtefactId::of("never stored")).await);
    for bad in [
        "",
        "ab",
        "../../../../etc/passwd",
        &"A".repeat(64),
        &"é".repeat(32),
    ] {
        missing(store.get_artefact(&ArtefactId::from(bad)).await);
    }
}

pub(super) async fn state_files(store: Arc<dyn Store>) {
    let project = project();
    let get = async |name: &str| store.state_file(&project, "nightly", name).await;
    let set = async |name: &str, bytes: &[u8]| {
        store.set_state_file(&project, "nightly", name, bytes).await
    };
    assert_eq!(get("NOTES.md").await.expect("a decision"), None);
    set("NOTES.md", b"one").await.expect("written");
    set("NOTES.md", b"two").await.expect("replaced");
    set("empty", b"").await.expect("written");
    assert_eq!(
        get("NOTES.md").await.expect("it is there").as_deref(),
        Some(&b"two"[..])
    );
    assert_eq!(
        get("empty").await.expect("it is there").as_deref(),
        Some(&b""[..])
    );
    let other = store.state_file(&project, "daily", "NOTES.md").await;
    assert_eq!(other.expect("a decision"), None);
    for bad in [
        "",
        ".",
        "..",
        "a/b",
        "/etc/passwd",
        "a\0b",
        &"x".repeat(256),
    ] {
        illegal(get(bad).await);
        illegal(set(bad, b"x").await);
        illegal(store.set_state_file(&project, bad, "f", b"x").await);
    }
}
