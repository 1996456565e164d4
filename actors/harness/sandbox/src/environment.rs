//! The environment a program gets: by allow list, from ronde's own.

use std::ffi::OsString;

/// Words in a name that make a variable look like a secret.
const SECRET: [&str; 9] = [
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "CREDENTIAL",
    "AUTH",
    "COOKIE",
    "PRIVATE",
];

/// The variables of ronde's own environment that `names` allows, and `extra`, which wins.
///
/// A name ending in `*` allows every variable that begins so, except `GIT_*` and what looks like a
/// secret (`…KEY…`, `…TOKEN…` and the like): those pass only under their full name. A variable that
/// is not set is left out. Each name appears once.
pub fn env_allow(names: &[String], extra: &[(String, String)]) -> Vec<(OsString, OsString)> {
    select(std::env::vars_os(), names, extra)
}

fn select(
    own: impl Iterator<Item = (OsString, OsString)>,
    names: &[String],
    extra: &[(String, String)],
) -> Vec<(OsString, OsString)> {
    let mut chosen: Vec<(OsString, OsString)> = own
        .filter(|(name, _)| name.to_str().is_some_and(|name| allowed(name, names)))
        .filter(|(name, _)| !extra.iter().any(|(other, _)| name == other.as_str()))
        .collect();
    for (index, (name, value)) in extra.iter().enumerate() {
        if !extra.iter().skip(index + 1).any(|(later, _)| later == name) {
            chosen.push((name.into(), value.into()));
        }
    }
    chosen.sort();
    chosen
}

fn allowed(name: &str, names: &[String]) -> bool {
    names.iter().any(|allow| match allow.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix) && !sensitive(name),
        None => name == allow,
    })
}

fn sensitive(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    upper.starts_with("GIT_") || SECRET.iter().any(|word| upper.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[&str], extra: &[(&str, &str)]) -> Vec<String> {
        let own = [
            "PATH",
            "LANG",
            "LC_ALL",
            "GIT_DIR",
            "GIT_X",
            "MY_API_KEY",
            "MY_MODE",
            "SSH_AUTH_SOCK",
        ]
        .map(|name| (OsString::from(name), OsString::from("own")));
        let of: Vec<String> = of.iter().map(|&name| name.to_owned()).collect();
        let extra: Vec<_> = extra
            .iter()
            .map(|&(n, v)| (n.to_owned(), v.to_owned()))
            .collect();
        select(own.into_iter(), &of, &extra)
            .into_iter()
            .map(|(n, v)| format!("{}={}", n.display(), v.display()))
            .collect()
    }

    #[test]
    fn only_what_is_allowed_passes() {
        type Row<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a [&'a str]);
        let table: [Row<'_>; 8] = [
            (&[], &[], &[]),
            (&["PATH", "NOT_SET"], &[], &["PATH=own"]),
            (&["L*"], &[], &["LANG=own", "LC_ALL=own"]),
            (&["GIT_*"], &[], &[]),
            (&["MY_*", "SSH_*"], &[], &["MY_MODE=own"]),
            (
                &["*"],
                &[],
                &["LANG=own", "LC_ALL=own", "MY_MODE=own", "PATH=own"],
            ),
            (
                &["GIT_DIR", "MY_API_KEY"],
                &[],
                &["GIT_DIR=own", "MY_API_KEY=own"],
            ),
            (
                &["PATH"],
                &[("PATH", "a"), ("X", "1"), ("PATH", "b")],
                &["PATH=b", "X=1"],
            ),
        ];
        for (of, extra, want) in table {
            assert_eq!(names(of, extra), want, "{of:?} {extra:?}");
        }
    }
}
