//! Runs every file of `samples/` and `config/`: the valid ones give the definition of the snapshot, the
//! invalid ones the errors of it.

mod support;

use std::path::Path;

use ronde_loops::{Errors, parse, parse_config};
use support::{Outside, files};

#[test]
fn valid_loop_files() {
    for (name, text) in files("samples/valid") {
        let file = format!("{name}.toml");
        let definition = parse(&text, Path::new(&file), &Outside)
            .unwrap_or_else(|errors| panic!("{file}:\n{errors}"));
        let json = serde_json::to_value(&definition).expect("plain values serialise");
        insta::assert_json_snapshot!(format!("valid-{name}"), json);
    }
}

#[test]
fn invalid_loop_files() {
    for (name, text) in files("samples/invalid") {
        let file = format!("{name}.toml");
        let errors = parse(&text, Path::new(&file), &Outside).expect_err(&file);
        agrees(&errors, &text);
        insta::assert_snapshot!(format!("invalid-{name}"), errors.render(false));
    }
}

#[test]
fn valid_settings() {
    for (name, text) in files("config/valid") {
        let config = parse_config(&text, Path::new("config.toml"))
            .unwrap_or_else(|errors| panic!("{name}:\n{errors}"));
        let json = serde_json::to_value(&config).expect("plain values serialise");
        insta::assert_json_snapshot!(format!("config-valid-{name}"), json);
    }
}

#[test]
fn invalid_settings() {
    for (name, text) in files("config/invalid") {
        let errors = parse_config(&text, Path::new("config.toml")).expect_err(&name);
        agrees(&errors, &text);
        insta::assert_snapshot!(format!("config-invalid-{name}"), errors.render(false));
    }
}

/// Line and column are those of the span, and the errors are in the file's order.
fn agrees(errors: &Errors, text: &[u8]) {
    let mut last = 0;
    for error in &errors.0 {
        let before = &text[..error.span.start];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        assert_eq!(error.line, line, "{error}");
        assert!(
            error.span.end <= text.len() && error.span.start >= last,
            "{error}"
        );
        assert!(error.column <= error.source.chars().count() + 1, "{error}");
        last = error.span.start;
    }
}

#[test]
fn one_error_as_people_and_programs_read_it() {
    let text =
        "name = \"a\"\ngoal = \"g\"\n[worker]\n\tagnet = \"claude\"\n[[check]]\nrun = \"true\"\n";
    let errors =
        parse(text.as_bytes(), Path::new("a/loop.toml"), &Outside).expect_err("a misspelt key");
    insta::assert_snapshot!("display", errors.to_string());
    insta::assert_json_snapshot!("json", errors);
    let coloured = errors.render(true);
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = after.split_once('m').expect("a colour code ends").1;
    }
    plain.push_str(rest);
    assert_ne!(coloured, plain);
    assert_eq!(plain, errors.render(false));
    assert!(!errors.to_string().contains('\u{1b}'));
}
