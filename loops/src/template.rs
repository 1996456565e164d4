//! Loop files to begin with.

/// What a template is filled with.
#[derive(Debug, Clone)]
pub struct Context {
    /// The name of the loop.
    pub name: String,
    /// The command line of its check.
    pub check: String,
}

const TEMPLATES: [(&str, &str, &str); 3] = [
    (
        "minimal",
        "one worker, one check, started by hand",
        include_str!("templates/minimal.toml"),
    ),
    (
        "nightly-green",
        "every night the tests become green, or a person hears why not",
        include_str!("templates/nightly-green.toml"),
    ),
    (
        "todo",
        "works through a list until no unchecked box is left",
        include_str!("templates/todo.toml"),
    ),
];

/// Each template with what it is for, in one line.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    TEMPLATES.iter().map(|(name, about, _)| (*name, *about))
}

/// The text of a template; `None` where there is none of this name. The texts of the context are written
/// as TOML strings, so that no quote in them breaks the file.
pub fn render(name: &str, context: &Context) -> Option<String> {
    let (_, _, text) = TEMPLATES.iter().find(|(known, _, _)| *known == name)?;
    Some(
        text.replace("\"%NAME%\"", &quote(&context.name))
            .replace("\"%CHECK%\"", &quote(&context.check)),
    )
}

fn quote(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
