//! JSON Schema of the files, for editors: made from the table of keys, so it knows what the reader knows.
//! Keys and words that are not built yet are not in it.

use serde_json::{Map, Value, json};

use crate::keys::{CONFIG, Kind, LOOP, Need, Table, Word};

/// JSON Schema (draft 2020-12) of the loop file.
pub fn schema() -> Value {
    root(
        &LOOP,
        "ronde loop",
        "A loop of ronde: what starts it, who works, and what says that it is done.",
    )
}

/// JSON Schema (draft 2020-12) of `.ronde/config.toml`.
pub fn config_schema() -> Value {
    root(
        &CONFIG,
        "ronde project settings",
        "Settings of a project of ronde.",
    )
}

fn root(spec: &Table, title: &str, description: &str) -> Value {
    let mut schema = Map::new();
    schema.insert(
        "$schema".to_owned(),
        json!("https://json-schema.org/draft/2020-12/schema"),
    );
    schema.insert("title".to_owned(), json!(title));
    schema.insert("description".to_owned(), json!(description));
    schema.append(&mut table(spec));
    Value::Object(schema)
}

fn table(spec: &Table) -> Map<String, Value> {
    let built = || {
        spec.keys
            .iter()
            .filter(|key| !matches!(key.need, Need::Later { .. }))
    };
    let properties: Map<String, Value> = built()
        .map(|key| {
            let mut schema = kind(&key.kind);
            schema.insert("description".to_owned(), json!(key.doc));
            (key.name.to_owned(), Value::Object(schema))
        })
        .collect();
    let required: Vec<&str> = built()
        .filter(|key| key.need == Need::Required)
        .map(|key| key.name)
        .collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema.insert("additionalProperties".to_owned(), json!(false));
    schema
}

fn kind(kind: &Kind) -> Map<String, Value> {
    let value = match kind {
        Kind::Text => json!({"type": "string", "minLength": 1}),
        Kind::Texts => json!({"type": "array", "items": {"type": "string", "minLength": 1}}),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Count => json!({"type": "integer", "minimum": 1, "maximum": u32::MAX}),
        Kind::Duration => json!({
            "type": "string",
            "pattern": r"^\s*([0-9]+(\.[0-9]+)?\s*[a-z]+\s*)+$",
            "examples": ["90s", "15m", "1h30m", "3d"],
        }),
        Kind::Tokens => json!({
            "type": ["string", "integer"],
            "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*[kKMG]?\s*$",
            "minimum": 1,
            "examples": ["500k", "2M"],
        }),
        Kind::Money => json!({
            "type": "string",
            "pattern": r"^\s*(\$\s*[0-9]+(\.[0-9]+)?|[0-9]+(\.[0-9]+)?\s*[uU][sS][dD])\s*$",
            "examples": ["5 USD", "0.50 USD"],
        }),
        Kind::Choice(words) => json!({"enum": built(words)}),
        Kind::Choices(words) => json!({"type": "array", "items": {"enum": built(words)}}),
        Kind::Table(spec) | Kind::TableOrTables(spec) => return table(spec),
        Kind::Tables(spec) => json!({"type": "array", "items": table(spec)}),
        Kind::Named(spec) => json!({"type": "object", "additionalProperties": table(spec)}),
        Kind::Any => json!({}),
    };
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn built(words: &[Word]) -> Vec<&str> {
    words
        .iter()
        .filter(|word| word.instead.is_none())
        .map(|word| word.word)
        .collect()
}
