//! What the loop file's checker asks others: cron texts and zones of the trigger, patterns of the
//! gate and of the workspace.

use ronde_loops::{Refusal, Validators};

/// The validators of this program.
pub(crate) static VALIDATORS: Known = Known;

/// Knows what this program can do.
pub(crate) struct Known;

impl Validators for Known {
    fn cron(&self, text: &str) -> Result<(), Refusal> {
        ronde_trigger::Cron::parse(text)
            .map(drop)
            .map_err(|error| Refusal {
                message: error.message,
                hint: error.hint,
                span: Some(error.span),
            })
    }

    fn zone(&self, name: &str) -> Result<(), Refusal> {
        ronde_trigger::zone(name)
            .map(drop)
            .map_err(|error| Refusal {
                message: error.message,
                hint: error.hint,
                span: None,
            })
    }

    fn rule(&self, pattern: &str) -> Result<(), Refusal> {
        ronde_sandbox::gate::check_pattern(pattern).map_err(Refusal::new)
    }

    fn glob(&self, pattern: &str) -> Result<(), Refusal> {
        ronde_workspace::check_pattern(pattern).map_err(|detail| {
            Refusal::new(format!("`{pattern}` is no pattern of paths: {detail}"))
                .hint("as in a `.gitignore` file: `tests/**`, `*.snap`, `/Cargo.toml`")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protect_pattern_is_judged_as_the_workspace_will_use_it() {
        for pattern in ["a[", "x{"] {
            let refusal = VALIDATORS.glob(pattern).expect_err(pattern);
            assert!(refusal.message.contains(pattern), "{refusal:?}");
        }
        assert_eq!(VALIDATORS.glob("tests/**"), Ok(()));
    }
}
