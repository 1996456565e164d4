//! Turns the name of a base into a commit, with one git process that reads objects and refs alone.

use crate::{
    Error, Git,
    git::{Call, is_id},
    locate::{Head, Located, head},
};

/// A base that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// The commit.
    pub(crate) commit: String,
    /// Its tree.
    pub(crate) tree: String,
    /// When it was committed, in seconds since 1970.
    pub(crate) time: i64,
    /// The local branch it is, if it is one.
    pub(crate) branch: Option<String>,
    /// The remote's branch it is (`origin/main`), if it is one and no local branch has that name.
    pub(crate) remote: Option<String>,
}

/// Finds the commit of a base: a branch, a remote's branch, a tag or a commit, in this order; without
/// a name, of what is checked out.
pub(crate) async fn resolve(git: &Git, at: &Located, base: Option<&str>) -> Result<Found, Error> {
    let checked_out = checked_out(git, at).await?;
    let Some(base) = base else {
        let found = look(git, at, &["HEAD^{commit}"]).await?.remove(0);
        let branch = checked_out
            .as_deref()
            .and_then(branch_of)
            .map(str::to_owned);
        return match (found, branch, checked_out) {
            (Some(found), branch, _) => Ok(Found { branch, ..found }),
            (None, Some(branch), _) => Err(Error::Unborn {
                repo: at.repo.clone(),
                branch,
            }),
            (None, None, head) => Err(Error::NoBase {
                repo: at.repo.clone(),
                base: head.unwrap_or_else(|| "HEAD".into()),
                likely: None,
            }),
        };
    };
    let missing = |likely| Error::NoBase {
        repo: at.repo.clone(),
        base: base.to_owned(),
        likely,
    };
    if base.is_empty() || base.contains(['\n', '\0']) {
        return Err(missing(None));
    }
    let name = branch_of(base).unwrap_or(base);
    let queries = [
        format!("refs/heads/{name}^{{commit}}"),
        format!("refs/remotes/{name}^{{commit}}"),
        format!("refs/tags/{name}^{{commit}}"),
        format!("{base}^{{commit}}"),
        format!("refs/remotes/origin/{name}^{{commit}}"),
    ];
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    let mut found = look(git, at, &queries).await?;
    let near = found.pop().flatten().map(|_| format!("origin/{name}"));
    match found.iter().position(Option::is_some) {
        Some(place) => {
            let branch = (place == 0).then(|| name.to_owned());
            let remote = (place == 1).then(|| name.to_owned());
            let found = found.swap_remove(place).ok_or_else(|| missing(None))?;
            Ok(Found {
                branch,
                remote,
                ..found
            })
        }
        None if checked_out.as_deref().and_then(branch_of) == Some(name) => Err(Error::Unborn {
            repo: at.repo.clone(),
            branch: name.to_owned(),
        }),
        None => Err(missing(near)),
    }
}

fn branch_of(full: &str) -> Option<&str> {
    full.strip_prefix("refs/heads/")
}

async fn checked_out(git: &Git, at: &Located) -> Result<Option<String>, Error> {
    match head(&at.git)? {
        Head::Ref(name) => Ok(Some(name)),
        Head::Detached => Ok(None),
        Head::AskGit => {
            let output = git
                .run(Call::new(&at.git, ["symbolic-ref", "-q", "HEAD"]))
                .await?;
            let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            Ok((output.code == 0 && !name.is_empty()).then_some(name))
        }
    }
}

/// Looks up commits by expressions, one for each, in one process.
pub(crate) async fn look(
    git: &Git,
    at: &Located,
    queries: &[&str],
) -> Result<Vec<Option<Found>>, Error> {
    let lines: String = queries.iter().flat_map(|query| [*query, "\n"]).collect();
    let output = git
        .run(Call::new(&at.git, ["cat-file", "--batch"]).stdin(lines))
        .await?;
    let failure = output.error();
    let failed = |detail: &str| match &failure {
        Error::Git { command, path, .. } => Error::Git {
            command: command.clone(),
            path: path.clone(),
            detail: detail.to_owned(),
        },
        _ => Error::NoGit {
            detail: detail.to_owned(),
        },
    };
    let bytes = output.ok()?;
    let mut rest = bytes.as_slice();
    let mut found = Vec::with_capacity(queries.len());
    for query in queries {
        found.push(take(&mut rest, query).map_err(failed)?);
    }
    Ok(found)
}

/// Takes the answer to one query off the output of `cat-file --batch`.
fn take(rest: &mut &[u8], query: &str) -> Result<Option<Found>, &'static str> {
    let end = rest
        .iter()
        .position(|&byte| byte == b'\n')
        .ok_or("the answer ends early")?;
    let (line, after) = (&rest[..end], &rest[end + 1..]);
    *rest = after;
    let line = String::from_utf8_lossy(line);
    if let Some(said) = line.strip_prefix(query)
        && (said == " missing" || said == " ambiguous")
    {
        return Ok(None);
    }
    let mut words = line.split(' ');
    let (Some(commit), Some("commit"), Some(size)) = (words.next(), words.next(), words.next())
    else {
        return Err("the answer is not a commit");
    };
    let size: usize = size.parse().map_err(|_| "the answer has no size")?;
    let body = after.get(..size).ok_or("the answer ends early")?;
    *rest = after.get(size + 1..).ok_or("the answer ends early")?;
    let (tree, time) = header(body).ok_or("the commit has no tree or no date")?;
    Ok(Some(Found {
        commit: commit.to_owned(),
        tree,
        time,
        branch: None,
        remote: None,
    }))
}

/// The tree and the committer's time of a commit.
fn header(body: &[u8]) -> Option<(String, i64)> {
    let mut tree = None;
    for line in body
        .split(|&byte| byte == b'\n')
        .take_while(|line| !line.is_empty())
    {
        if let Some(id) = line.strip_prefix(b"tree ") {
            tree = Some(String::from_utf8_lossy(id).into_owned()).filter(|id| is_id(id));
        } else if let Some(who) = line.strip_prefix(b"committer ") {
            let text = String::from_utf8_lossy(who);
            // `Name <mail> 1700000000 +0100`
            let time = text
                .rsplit(' ')
                .nth(1)
                .and_then(|time| time.parse().ok())
                .unwrap_or(0);
            return tree.map(|tree| (tree, time));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_cat_file() {
        let tree = "a".repeat(40);
        let body = format!("tree {tree}\nauthor A <a> 1 +0000\ncommitter A B <a> 17 +0100\n\nx\n");
        let bytes = format!(
            "x^{{commit}} missing\n{} commit {}\n{body}\ny ambiguous\n",
            "b".repeat(40),
            body.len()
        );
        let mut rest = bytes.as_bytes();
        assert_eq!(take(&mut rest, "x^{commit}"), Ok(None));
        let found = take(&mut rest, "HEAD").expect("parsed").expect("found");
        assert_eq!(
            (found.commit, found.tree, found.time),
            ("b".repeat(40), tree, 17)
        );
        assert_eq!(take(&mut rest, "y"), Ok(None));
        assert!(rest.is_empty());
        assert!(take(&mut rest, "z").is_err());
        let mut blob = b"bbbb blob 3\nabc\n".as_slice();
        assert!(take(&mut blob, "z").is_err());
    }
}
