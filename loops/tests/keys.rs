//! Reader, schema and document know the same keys; and no text, however broken, makes the reader panic or
//! accept a key it does not know.

mod support;

use std::path::Path;

use proptest::prelude::*;
use ronde_loops::{Validators, config_schema, parse, parse_config, schema};
use serde_json::Value;
use support::{Outside, files};

/// Every key of a schema: the tables it is in, outermost first with how they are written, and its schema.
fn keys(schema: &Value, path: &[String], found: &mut Vec<(Vec<String>, String, Value)>) {
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    for (name, property) in properties {
        found.push((path.to_vec(), name.clone(), property.clone()));
        let mut below = path.to_vec();
        below.push(name.clone());
        keys(property, &below, found);
        keys(&property["items"], &below, found);
        if let Some(named) = property.get("additionalProperties") {
            below.push("anything".to_owned());
            keys(named, &below, found);
        }
    }
}

/// A value a schema allows, as TOML.
fn sample(schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        return words[0].to_string();
    }
    if let Some(examples) = schema["examples"].as_array() {
        return examples[0].to_string();
    }
    match schema["type"].as_str() {
        Some("string") => "\"x\"".to_owned(),
        Some("boolean") => "true".to_owned(),
        Some("integer") => "1".to_owned(),
        Some("array") => format!("[{}]", sample(&schema["items"])),
        Some("object") => "{}".to_owned(),
        other => panic!("a value of type {other:?}"),
    }
}

/// A text with one key, its tables as inline tables or lists of one, as the schema has them.
fn text_with(schema: &Value, path: &[String], name: &str, value: &str) -> String {
    let Some((first, rest)) = path.split_first() else {
        return format!("{name} = {value}");
    };
    let below = match schema["properties"].get(first) {
        Some(below) => below,
        None => &schema["additionalProperties"],
    };
    if below["type"] == "array" {
        format!(
            "{first} = [{{ {} }}]",
            text_with(&below["items"], rest, name, value)
        )
    } else {
        format!("{first} = {{ {} }}", text_with(below, rest, name, value))
    }
}

type Read = fn(&str) -> Vec<String>;

fn loop_messages(text: &str) -> Vec<String> {
    match parse(text.as_bytes(), Path::new("loop.toml"), &Outside) {
        Ok(_) => vec![],
        Err(errors) => errors.0.into_iter().map(|error| error.message).collect(),
    }
}

fn config_messages(text: &str) -> Vec<String> {
    match parse_config(text.as_bytes(), Path::new("config.toml")) {
        Ok(_) => vec![],
        Err(errors) => errors.0.into_iter().map(|error| error.message).collect(),
    }
}

fn schemas() -> [(&'static str, Value, Read); 2] {
    [
        ("loop", schema(), loop_messages as Read),
        ("config", config_schema(), config_messages as Read),
    ]
}

#[test]
fn the_reader_knows_each_key_of_the_schema_and_its_kind() {
    for (which, schema, read) in schemas() {
        let mut found = Vec::new();
        keys(&schema, &[], &mut found);
        assert!(found.len() > 5, "{which}: {}", found.len());
        for (path, name, property) in found {
            assert!(
                !property["description"]
                    .as_str()
                    .unwrap_or_default()
                    .is_empty(),
                "{name}"
            );
            let text = text_with(&schema, &path, &name, &sample(&property));
            for message in read(&text) {
                assert!(
                    !message.contains("unknown key")
                        && !message.contains("not built")
                        && !message.contains(&format!("`{name}` is ")),
                    "{text}: {message}"
                );
            }
            // The same key with another ending is in no table.
            let text = text_with(&schema, &path, &format!("{name}_"), "1");
            assert!(
                read(&text).iter().any(|m| m.contains("unknown key")),
                "{text}"
            );
        }
    }
}

#[test]
fn the_schema_has_no_key_that_is_not_built_and_the_reader_names_each() {
    let later = [
        "done = 'a or b'",
        "trigger = [{ watch = ['a'] }]",
        "trigger = [{ webhook = true }]",
        "trigger = [{ after = 'a' }]",
        "trigger = [{ queue = true }]",
        "worker = { fallback = [] }",
        "worker = { role = 'a' }",
        "check = [{ report = 'a' }]",
        "check = [{ guard = {} }]",
        "check = [{ list_empty = {} }]",
        "budget = { month = {} }",
    ];
    let mut found = Vec::new();
    keys(&schema(), &[], &mut found);
    for text in later {
        let messages = loop_messages(text);
        assert!(
            messages.iter().any(|m| m.contains("not built yet")),
            "{text}: {messages:?}"
        );
        let key = text
            .rsplit(['{', '['])
            .find_map(|part| part.split('=').next()?.split_whitespace().next());
        let key = if text.starts_with("done") {
            "done"
        } else {
            key.expect("a key")
        };
        assert!(
            !found
                .iter()
                .any(|(path, name, _)| name == key && text.contains(path.join("").as_str())),
            "{key} is in the schema"
        );
    }
}

#[test]
fn the_document_has_each_key() {
    let document = include_str!("../../docs/loop-file.md");
    for (_, schema, _) in schemas() {
        let mut found = Vec::new();
        keys(&schema, &[], &mut found);
        for (path, name, _) in found {
            assert!(
                document.contains(&format!("`{name}`"))
                    || document.contains(&format!("[{name}]"))
                    || document.contains(&format!(".{name}]")),
                "{path:?} {name} is in docs/loop-file.md"
            );
        }
    }
}

#[test]
fn the_schema_people_get() {
    insta::assert_json_snapshot!("schema", schema());
    insta::assert_json_snapshot!("config-schema", config_schema());
}

/// All keys a text can have, by path of tables.
fn known(path: &[&str], name: &str) -> bool {
    let mut found = Vec::new();
    keys(&schema(), &[], &mut found);
    found
        .iter()
        .any(|(p, n, _)| p.iter().map(String::as_str).eq(path.iter().copied()) && n == name)
}

fn valid() -> Vec<Vec<u8>> {
    files("samples/valid")
        .into_iter()
        .map(|(_, text)| text)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes, Path::new("l"), &Outside).map_err(|errors| errors.render(true));
        let _ = parse_config(&bytes, Path::new("c")).map_err(|errors| errors.render(true));
    }

    #[test]
    fn arbitrary_lines_do_not_panic(text in "([a-z_]{1,9}(\\.[a-z]{1,5})? ?= ?([0-9\"'\\[{a-z]{0,9}|\"[^\"]*\")[\"\\]}]{0,2}\r?\n|\\[{0,2}[a-z.]{0,9}\\]{0,2}\n){0,12}") {
        let _ = parse(text.as_bytes(), Path::new("l"), &Outside).map_err(|errors| errors.render(true));
        let _ = parse_config(text.as_bytes(), Path::new("c")).map_err(|errors| errors.render(true));
    }

    #[test]
    fn mutated_files_do_not_panic(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..4usize, prop::collection::vec(any::<u8>(), 0..3)), 1..6),
    ) {
        let mut text = which.get(&valid()).clone();
        for (place, cut, put) in edits {
            let start = place.index(text.len() + 1);
            let end = (start + cut).min(text.len());
            text.splice(start..end, put);
        }
        if let Err(errors) = parse(&text, Path::new("l"), &Outside) {
            prop_assert!(!errors.0.is_empty());
            let _ = (errors.render(false), errors.to_string());
        }
    }

    #[test]
    fn an_unknown_key_is_never_accepted(
        table in prop::sample::select(vec!["", "trigger", "workspace", "worker", "check", "budget", "handoff", "state"]),
        name in "[a-z_]{1,10}",
    ) {
        let path: Vec<&str> = if table.is_empty() { vec![] } else { vec![table] };
        prop_assume!(!known(&path, &name));
        let mut document: toml::Table = toml::from_str(include_str!("samples/valid/long.toml")).expect("TOML");
        let place = match document.get_mut(table) {
            Some(toml::Value::Array(tables)) => tables[0].as_table_mut().expect("a table"),
            Some(toml::Value::Table(table)) => table,
            _ => &mut document,
        };
        place.insert(name.clone(), toml::Value::Boolean(true));
        let text = toml::to_string(&document).expect("TOML");
        let messages = loop_messages(&text);
        prop_assert!(messages.iter().any(|m| m.contains(&name) || m.contains("not built yet")), "{text}\n{messages:?}");
    }
}

#[test]
fn templates_are_loops() {
    use ronde_loops::template::{Context, names, render};
    let context = Context {
        name: "my-loop".to_owned(),
        check: "echo \"a\" 'b' \\ && true".to_owned(),
    };
    let names: Vec<&str> = names().map(|(name, _)| name).collect();
    assert_eq!(names, ["minimal", "nightly-green", "todo"]);
    for name in names {
        let text = render(name, &context).expect("a template");
        let definition = parse(text.as_bytes(), Path::new(name), &Outside)
            .unwrap_or_else(|errors| panic!("{text}\n{errors}"));
        assert_eq!(definition.name.as_str(), "my-loop");
        assert!(
            definition
                .checks
                .iter()
                .any(|check| check.run == context.check),
            "{name}"
        );
        assert_eq!(definition.skip_if_green, name == "nightly-green");
    }
    assert_eq!(render("other", &context), None);
}

#[test]
fn what_identifies_a_trigger_is_when_it_comes_due() {
    let text = |triggers: &str| {
        format!(
            "name = \"a\"\ngoal = \"g\"\nworker = {{ agent = \"claude\" }}\n{triggers}\n[[check]]\nrun = \"true\"\n"
        )
    };
    let read = |triggers: &str| {
        let text = text(triggers);
        parse(text.as_bytes(), Path::new("l"), &Outside).unwrap_or_else(|errors| panic!("{errors}"))
    };
    let one = read("[[trigger]]\ncron = \"0 2 * * *\"\n[[trigger]]\nevery = \"60m\"");
    let two = read(
        "[[trigger]]\nevery = \"1h\"\njitter = \"1m\"\n[[trigger]]\ncron = \" 0  2 * * *\"\ncatch_up = \"1h\"",
    );
    assert_eq!(one.triggers[0].hash, two.triggers[1].hash);
    assert_eq!(one.triggers[1].hash, two.triggers[0].hash);
    assert_ne!(one.triggers[0].hash, one.triggers[1].hash);
    assert_ne!(one.digest(), two.digest());
    let zoned = read("[[trigger]]\ncron = \"0 2 * * *\"\ntimezone = \"Europe/Paris\"");
    assert_ne!(zoned.triggers[0].hash, one.triggers[0].hash);
    let spelt =
        read("# a comment\n[[trigger]]\ncron = '0 2 * * *'\n[[trigger]]\nevery = \"3600s\"");
    assert_eq!(spelt.digest(), one.digest());
}

#[test]
fn defaults_of_a_short_file() {
    let text = include_str!("samples/valid/short.toml");
    let read = |text: &str| {
        parse(text.as_bytes(), Path::new("l"), &Outside).unwrap_or_else(|errors| panic!("{errors}"))
    };
    let claude = read(text);
    assert!(claude.worker.access.network);
    assert_eq!(claude.limits.tokens, None);
    let built_in = read(&text.replace("\"claude\"", "\"ronde\"\nmodel = \"scripted/s\""));
    assert!(!built_in.worker.access.network);
    assert_eq!(built_in.limits.tokens, Some(2_000_000));
    let command = read(&text.replace("agent = \"claude\"", "command = [\"a\"]"));
    assert!(!command.worker.access.network);
    assert_eq!(
        (command.limits.attempts, command.limits.iterations),
        (5, 100)
    );
    assert!(Outside.notify("slack").is_ok());
}
