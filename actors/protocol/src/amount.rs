//! What work costs: tokens and money, as whole numbers, with checked sums.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Millionths of a US dollar.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct MicroUsd(pub u64);

impl fmt::Display for MicroUsd {
    /// `0.42 USD`: two digits after the point, or six where two would hide something.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1_000_000, self.0 % 1_000_000);
        if part % 10_000 == 0 {
            write!(f, "{whole}.{:02} USD", part / 10_000)
        } else {
            write!(f, "{whole}.{part:06} USD")
        }
    }
}

/// An amount of both currencies a budget counts in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Tokens, all kinds added.
    #[serde(default)]
    pub tokens: u64,
    /// Money.
    #[serde(default)]
    pub cost: MicroUsd,
}

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self {
        tokens: 0,
        cost: MicroUsd(0),
    };

    /// The sum, at most the largest number there is.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            cost: MicroUsd(self.cost.0.saturating_add(other.cost.0)),
        }
    }

    /// The difference, at least nothing.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            cost: MicroUsd(self.cost.0.saturating_sub(other.cost.0)),
        }
    }
}

/// What model calls used, as providers report it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens neither read from nor written to a cache.
    #[serde(default)]
    pub input: u64,
    /// Input tokens read from the provider's cache.
    #[serde(default)]
    pub cached: u64,
    /// Input tokens written to the provider's cache.
    #[serde(default)]
    pub cache_write: u64,
    /// Output tokens, reasoning among them.
    #[serde(default)]
    pub output: u64,
    /// Their price.
    #[serde(default)]
    pub cost: MicroUsd,
}

impl Usage {
    /// All tokens, with their price.
    pub fn amount(&self) -> Amount {
        let tokens = self
            .input
            .saturating_add(self.cached)
            .saturating_add(self.cache_write)
            .saturating_add(self.output);
        Amount {
            tokens,
            cost: self.cost,
        }
    }

    /// The sum, kind by kind.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cached: self.cached.saturating_add(other.cached),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            output: self.output.saturating_add(other.output),
            cost: MicroUsd(self.cost.0.saturating_add(other.cost.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MicroUsd;

    #[test]
    fn money_as_people_read_it() {
        assert_eq!(MicroUsd(5_000_000).to_string(), "5.00 USD");
        assert_eq!(MicroUsd(420_000).to_string(), "0.42 USD");
        assert_eq!(MicroUsd(1).to_string(), "0.000001 USD");
    }
}
