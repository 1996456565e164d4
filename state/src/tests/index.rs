//! The index is a cache: whatever happens to it, the answers are the same.

use std::{fs, path::Path, sync::Arc};

use super::local::{clock, open};
use crate::{
    conformance::firing,
    home::RunSummary,
    index::{Change, Index},
    local::LocalStore,
    memory::MemoryStore,
    store::Store,
};

type Wrong<'a> = Box<dyn Fn() + 'a>;

async fn answers(store: &LocalStore) -> Vec<RunSummary> {
    assert!(store.index_in_use().await, "the fold answered");
    let newest = store.newest(100).await;
    assert!(store.home().runs().rev().eq(&newest));
    newest
}

async fn fire(store: &dyn Store, nonce: &str) {
    store
        .fire_once(firing(nonce), Path::new("/p"), None)
        .await
        .unwrap();
}

#[tokio::test]
async fn whatever_is_wrong_it_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let index = dir.path().join("index");
    let store = open(dir.path());
    for n in 0..50 {
        fire(&store, &n.to_string()).await;
    }
    let before = answers(&store).await;
    drop(store);

    let truncate = |to: u64| {
        let index = index.clone();
        move || {
            for name in ["db", "conf"] {
                let file = fs::OpenOptions::new()
                    .write(true)
                    .open(index.join(name))
                    .unwrap();
                file.set_len(to.min(file.metadata().unwrap().len()))
                    .unwrap();
            }
        }
    };
    let rubbish = |seed: u8| {
        let index = index.clone();
        move || {
            for name in ["db", "conf"] {
                let length = fs::metadata(index.join(name)).unwrap().len();
                let bytes: Vec<_> = (0..length)
                    .map(|n| (n as u8).wrapping_mul(31).wrapping_add(seed))
                    .collect();
                fs::write(index.join(name), bytes).unwrap();
            }
        }
    };
    let flip = |place: usize| {
        let db = index.join("db");
        move || {
            let mut bytes = fs::read(&db).unwrap();
            let place = place % bytes.len();
            bytes[place] ^= 0x55;
            fs::write(&db, bytes).unwrap();
        }
    };
    let mut wrongs: Vec<(&str, Wrong<'_>)> = vec![
        ("nothing", Box::new(|| {})),
        ("deleted", Box::new(|| fs::remove_dir_all(&index).unwrap())),
        (
            "empty",
            Box::new(|| {
                fs::remove_dir_all(&index).unwrap();
                fs::create_dir(&index).unwrap();
            }),
        ),
        (
            "a file",
            Box::new(|| {
                fs::remove_dir_all(&index).unwrap();
                fs::write(&index, "not a folder").unwrap();
            }),
        ),
        (
            "a folder in place of its file",
            Box::new(|| {
                fs::remove_file(index.join("db")).unwrap();
                fs::create_dir(index.join("db")).unwrap();
            }),
        ),
        (
            "left half made",
            Box::new(|| {
                fs::rename(&index, dir.path().join("index.new")).unwrap();
            }),
        ),
    ];
    for to in [0, 1, 100, 5_000] {
        wrongs.push(("truncated", Box::new(truncate(to))));
    }
    for seed in 0..3 {
        wrongs.push(("rubbish", Box::new(rubbish(seed))));
    }
    for place in [0, 20, 300, 700, 3_000] {
        wrongs.push(("flipped", Box::new(flip(place))));
    }
    for (wrong, make) in wrongs {
        make();
        let store = open(dir.path());
        assert_eq!(answers(&store).await, before, "{wrong}");
    }
}

/// It may be behind, ahead or of another home: what it says is compared with the fold.
#[tokio::test]
async fn an_index_of_another_state_is_brought_to_this_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index");
    let other = MemoryStore::new(1, clock());
    for nonce in ["x", "y", "z"] {
        fire(&other, nonce).await;
    }
    let index = Index::start(path.clone(), other.home()).unwrap();
    assert!(index.reached(other.home().seq()).await);
    drop(index);

    let store = MemoryStore::new(1, clock());
    fire(&store, "y").await;
    let index = Index::start(path, store.home()).unwrap();
    assert!(index.reached(store.home().seq()).await);
    let rows = index.newest(10).await.unwrap();
    assert_eq!(
        rows,
        [(firing("y").run, store.home().run(&firing("y").run).cloned())]
    );
    // And changes come after it.
    fire(&store, "n").await;
    let run = store.home().run(&firing("n").run).unwrap().clone();
    let change = Change {
        seq: store.home().seq(),
        runs: vec![run],
    };
    index.changes().unwrap().send(change).unwrap();
    assert!(index.reached(store.home().seq()).await);
    let rows: Vec<_> = index
        .newest(10)
        .await
        .unwrap()
        .into_iter()
        .map(|(run, _)| run)
        .collect();
    assert_eq!(rows, [firing("n").run, firing("y").run]);
}

/// Another process has it open: nothing is set aside, and the fold answers.
#[tokio::test]
async fn one_that_is_locked_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    let index = dir.path().join("index");
    let held = sled::open(&index).unwrap();
    let store = open(dir.path());
    fire(&store, "a").await;
    assert!(!store.index_in_use().await);
    let newest = store.newest(10).await;
    assert!(store.home().runs().eq(&newest) && newest.len() == 1);
    drop(store);
    drop(held);
    assert!(!dir.path().join("index.damaged").exists());
    let store = Arc::new(open(dir.path()));
    answers(&store).await;
}
