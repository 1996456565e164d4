use super::*;

#[test]
fn words_are_joined_so_that_what_may_vanish_takes_its_spaces_along() {
    let table = [
        (vec!["git", "push"], "git push"),
        (vec!["git", "\0", "push"], "git\0push"),
        (vec!["\0", "git"], "\0git"),
        (vec!["a\0", "b"], "a\0 b"),
        (vec![], ""),
    ];
    for (words, want) in table {
        let words: Vec<Word> = words.into_iter().map(Word::known).collect();
        assert_eq!(join(&words), want);
    }
}

/// The plain simple commands of a text; `?` for one that is more than words, `!` at the end if
/// anything is opaque.
fn plainly(text: &str) -> String {
    let script = analyse(text);
    let mut parts: Vec<&str> = script
        .plain
        .iter()
        .map(|part| part.as_deref().unwrap_or("?"))
        .collect();
    if script.opaque.is_some() {
        parts.push("!");
    }
    parts.join(" / ").replace(UNSURE, "$")
}

#[test]
fn commands_are_split_as_a_shell_splits_them() {
    let table = [
        ("", ""),
        ("  ls   -l  ", "ls -l"),
        ("a && b || c; d | e & f\ng", "a / b / c / d / e / f / g"),
        ("a 'b && c' \"d; e\" f\\ g", "a b && c d; e f g"),
        ("a # b; c\nd", "a / d"),
        ("a#b", "a#b"),
        ("a \\\n b", "a b"),
        ("x=1 y=2", "?"),
        ("x=1 a", "?"),
        ("a >/dev/null 2>&1", "a"),
        ("a > f", "?"),
        ("a &> f b", "?"),
        ("2>f a", "?"),
        ("if a; then b; else c; fi", "a / b / c"),
        ("for x in 1 2; do a $x; done", "a$"),
        ("while ! a; do b; done", "a / b"),
        ("{ a; b; }", "a / b"),
        ("(a; (b))", "a / b"),
        ("a $(b c) d", "b c / a$d"),
        ("a `b c`", "b c / a$"),
        ("a \"x $(b \"c d\")\"", "b c d / a x $"),
        ("a $x ${y} $1 $@", "a$$$$"),
        ("a $((1 + $x))", "a$"),
        ("a *.rs", "a $.rs"),
        ("a {b,c}d", "a$"),
        ("a {} b", "a {} b"),
        ("cat <<E\nb; c\nE\nd", "? / d"),
        ("cat <<'E' | a\n$(b)`\nE", "? / a"),
        ("cat <<-E\n\tx\n\tE\na", "? / a"),
        ("a <(b)", "b / a$"),
        ("[ -f x ] && a", "[ -f x ] / a"),
        ("[[ -f x ]] && a", "[[ -f x ]] / a"),
        ("a [bc]d [\"e\"]f", "a$$"),
        ("a 'b", "a b / !"),
        ("a \"b", "a b / !"),
        ("a )", "a / !"),
        ("a[1<<2]=3\nb\n2]=3", "!"),
        ("a[ 1 <<2]=3\nb\n2]=3", "!"),
        ("declare a[ 1 <<2]=3\nb\n2]=3", "!"),
        ("cat<<E\nb\nE\na[1]=x b", "? / a$ b"),
        ("x$[ 1 <<2 ]\nb\n2", "!"),
        ("(a", "a / !"),
        ("a $(b", "b / a$ / !"),
        ("cat <<E\nb", "? / !"),
        ("cat <<E\n$(b)\nE", "? / !"),
        ("((x<<2))\na\n2", "x$ / !"),
        ("f() { a; }", "f / a / !"),
        ("a $((1<<2))", ""),
        ("a ${x:-$(b)}", "a$ / !"),
        ("case x in y) a;; esac", "case x in y / a / esac / !"),
    ];
    for (text, want) in table {
        // Of what is opaque only that it is so is promised.
        let got = plainly(text);
        if want.ends_with('!') || want.is_empty() && !text.is_empty() {
            assert!(got.ends_with('!'), "{text:?}: {got}");
        } else {
            assert_eq!(got, want, "{text:?}");
        }
    }
}
