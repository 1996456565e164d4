//! Brings a base up to date from its remote, into the engine's git folder. The one command that may
//! use the person's own configuration and credentials; of the repository's configuration it uses two
//! texts, the remote's address and the branch's name there.

use std::{collections::HashMap, path::Path};

use ronde_protocol::CommitId;

use crate::{
    Error, Git,
    git::Call,
    locate::Located,
    resolve::{Found, look},
};

/// The ref a fetched commit gets in the engine's git folder.
const FETCHED: &str = "refs/ronde/fetched";

/// The branch of a remote that a base follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Upstream {
    remote: String,
    url: String,
    branch: String,
}

/// What a base follows, by the repository's own configuration; nothing for a tag, a commit, or a
/// branch without an upstream.
pub(crate) async fn upstream(
    git: &Git,
    at: &Located,
    found: &Found,
) -> Result<Option<Upstream>, Error> {
    if found.branch.is_none() && found.remote.is_none() {
        return Ok(None);
    }
    let wanted = r"^(branch\..*\.(remote|merge)|remote\..*\.url)$";
    let output = git
        .run(Call::new(&at.git, ["config", "-z", "--get-regexp", wanted]))
        .await?;
    // Code 1: no such setting.
    let settings = if output.code == 1 {
        Vec::new()
    } else {
        output.ok()?
    };
    Ok(choose(&settings, found).map(|upstream| absolute(upstream, &at.repo)))
}

fn choose(settings: &[u8], found: &Found) -> Option<Upstream> {
    let text = String::from_utf8_lossy(settings);
    let mut values: HashMap<&str, &str> = HashMap::new();
    for setting in text.split('\0') {
        if let Some((key, value)) = setting.split_once('\n') {
            // Of several addresses git fetches from the first; of other settings the last counts.
            if key.ends_with(".url") {
                values.entry(key).or_insert(value);
            } else {
                values.insert(key, value);
            }
        }
    }
    let url = |remote: &str| values.get(format!("remote.{remote}.url").as_str()).copied();
    let (remote, branch) = if let Some(branch) = &found.branch {
        let remote = *values.get(format!("branch.{branch}.remote").as_str())?;
        let merge = *values.get(format!("branch.{branch}.merge").as_str())?;
        (remote, merge.strip_prefix("refs/heads/")?)
    } else {
        // A remote's name may hold a slash, so the longest that fits.
        let name = found.remote.as_deref()?;
        let splits = name.char_indices().rev().filter(|(_, c)| *c == '/');
        splits
            .map(|(at, _)| (&name[..at], &name[at + 1..]))
            .find(|(r, _)| url(r).is_some())?
    };
    Some(Upstream {
        remote: remote.into(),
        url: url(remote)?.into(),
        branch: branch.into(),
    })
}

/// An address that is a path is meant from the repository's folder.
fn absolute(upstream: Upstream, repo: &Path) -> Upstream {
    let local = !upstream.url.contains("://")
        && !upstream
            .url
            .split('/')
            .next()
            .unwrap_or_default()
            .contains(':');
    if !local {
        return upstream;
    }
    Upstream {
        url: repo.join(&upstream.url).display().to_string(),
        ..upstream
    }
}

/// Fetches into `dir`, which has the base's own commit already, and gives the newer of both.
pub(crate) async fn fetch(
    git: &Git,
    dir: &Path,
    at: &Located,
    upstream: &Upstream,
    found: Found,
) -> Result<Found, Error> {
    let failed = |said: &str| Error::Fetch {
        repo: at.repo.clone(),
        remote: upstream.remote.clone(),
        url: without_credentials(&upstream.url),
        branch: upstream.branch.clone(),
        detail: without_credentials(said.trim()),
    };
    let spec = format!("+refs/heads/{}:{FETCHED}", upstream.branch);
    let options = [
        "fetch",
        "--quiet",
        "--no-tags",
        "--no-write-fetch-head",
        "--no-auto-maintenance",
        "--no-recurse-submodules",
        "--end-of-options",
    ];
    let call = Call::new(dir, options)
        .arg(&upstream.url)
        .arg(&spec)
        .fetch();
    let output = git.run(call).await?;
    if output.code != 0 {
        return Err(failed(&output.stderr));
    }
    let ours = Located {
        repo: at.repo.clone(),
        git: dir.to_owned(),
        common: dir.to_owned(),
    };
    let query = format!("{FETCHED}^{{commit}}");
    let theirs = look(git, &ours, &[&query]).await?.remove(0);
    let theirs = theirs.ok_or_else(|| failed("the remote sent nothing"))?;
    let newer = Found {
        branch: found.branch.clone(),
        remote: found.remote.clone(),
        ..theirs
    };
    if newer.commit == found.commit || found.branch.is_none() {
        return Ok(newer);
    }
    if is_ancestor(git, dir, &found.commit, &newer.commit).await? {
        return Ok(newer);
    }
    if is_ancestor(git, dir, &newer.commit, &found.commit).await? {
        return Ok(found);
    }
    Err(Error::Diverged {
        repo: at.repo.clone(),
        branch: found.branch.unwrap_or_default(),
        upstream: format!("{}/{}", upstream.remote, upstream.branch),
        ours: CommitId::new(found.commit),
        theirs: CommitId::new(newer.commit),
    })
}

async fn is_ancestor(git: &Git, dir: &Path, old: &str, new: &str) -> Result<bool, Error> {
    let output = git
        .run(Call::new(dir, ["merge-base", "--is-ancestor", old, new]))
        .await?;
    match output.code {
        0 => Ok(true),
        1 => Ok(false),
        _ => Err(output.error()),
    }
}

/// A text without the user names and passwords of addresses in it.
fn without_credentials(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = after
            .find(|c: char| c == '/' || c.is_whitespace() || matches!(c, '\'' | '"'))
            .unwrap_or(after.len());
        let host = after[..end].rfind('@').map_or(0, |at| at + 1);
        rest = &after[host..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(branch: Option<&str>, remote: Option<&str>) -> Found {
        Found {
            commit: String::new(),
            tree: String::new(),
            time: 0,
            branch: branch.map(str::to_owned),
            remote: remote.map(str::to_owned),
        }
    }

    #[test]
    fn which_remote_a_base_follows() {
        let settings = b"branch.main.remote\norigin\0branch.main.merge\nrefs/heads/trunk\0\
            branch.local.remote\n.\0branch.local.merge\nrefs/heads/main\0\
            remote.origin.url\nhttps://h/a\0remote.origin.url\nhttps://h/b\0remote.a/b.url\n../x\0";
        let up = |remote: &str, url: &str, branch: &str| {
            Some(Upstream {
                remote: remote.into(),
                url: url.into(),
                branch: branch.into(),
            })
        };
        let table = [
            (
                found(Some("main"), None),
                up("origin", "https://h/a", "trunk"),
            ),
            (found(Some("local"), None), None),
            (found(Some("other"), None), None),
            (
                found(None, Some("origin/x/y")),
                up("origin", "https://h/a", "x/y"),
            ),
            (found(None, Some("a/b/c")), up("a/b", "../x", "c")),
            (found(None, Some("gone/c")), None),
        ];
        for (found, want) in table {
            assert_eq!(choose(settings, &found), want, "{found:?}");
        }
        let local = absolute(up("o", "../x", "c").expect("some"), Path::new("/r"));
        assert_eq!(local.url, "/r/../x");
        for url in ["git@h:x", "ssh://h/x", "h:x/y"] {
            let kept = absolute(up("o", url, "c").expect("some"), Path::new("/r"));
            assert_eq!(kept.url, url);
        }
    }

    #[test]
    fn credentials_are_left_out() {
        let table = [
            ("https://u:p@h/x", "https://h/x"),
            (
                "cannot reach 'https://tok@h/': no",
                "cannot reach 'https://h/': no",
            ),
            ("https://h/a@b", "https://h/a@b"),
            ("https://u:p@s@h", "https://h"),
            ("git@h:x", "git@h:x"),
            ("a ssh://u@h b http://v:w@i", "a ssh://h b http://i"),
        ];
        for (text, want) in table {
            assert_eq!(without_credentials(text), want);
        }
    }
}
