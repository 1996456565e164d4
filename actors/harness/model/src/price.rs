//! What tokens cost. Whole numbers, rounded up: a price shown is never less than the price paid.

use ronde_protocol::{MicroUsd, Usage};
use serde::{Deserialize, Serialize};

/// Prices of a model, each in millionths of a US dollar for a million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Of input tokens neither read from nor written to a cache.
    pub input: MicroUsd,
    /// Of input tokens read from a cache.
    #[serde(default)]
    pub cached: MicroUsd,
    /// Of input tokens written to a cache.
    #[serde(default)]
    pub cache_write: MicroUsd,
    /// Of output tokens.
    pub output: MicroUsd,
}

impl Prices {
    /// A model that costs nothing.
    pub const FREE: Self = Self {
        input: MicroUsd(0),
        cached: MicroUsd(0),
        cache_write: MicroUsd(0),
        output: MicroUsd(0),
    };

    /// The dearest price an input token can have.
    pub fn dearest_input(&self) -> MicroUsd {
        self.input.max(self.cached).max(self.cache_write)
    }

    /// What these tokens cost; `usage.cost` is not looked at.
    pub fn cost(&self, usage: &Usage) -> MicroUsd {
        sum([
            (usage.input, self.input),
            (usage.cached, self.cached),
            (usage.cache_write, self.cache_write),
            (usage.output, self.output),
        ])
    }
}

/// The sum of tokens times prices, rounded up once, at most the largest number there is.
pub(crate) fn sum(parts: impl IntoIterator<Item = (u64, MicroUsd)>) -> MicroUsd {
    let total = parts
        .into_iter()
        .map(|(tokens, price)| u128::from(tokens) * u128::from(price.0))
        .fold(0u128, u128::saturating_add);
    MicroUsd(u64::try_from(total.div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_up_once() {
        let prices = Prices {
            input: MicroUsd(3_000_000),
            cached: MicroUsd(300_000),
            cache_write: MicroUsd(3_750_000),
            output: MicroUsd(15_000_000),
        };
        let usage = |input, cached, cache_write, output| Usage {
            input,
            cached,
            cache_write,
            output,
            cost: MicroUsd(9),
        };
        let table = [
            (usage(0, 0, 0, 0), 0),
            (usage(1, 0, 0, 0), 3),
            (usage(0, 1, 0, 0), 1),
            (usage(0, 1, 1, 1), 20),
            (usage(1_000_000, 0, 0, 1_000_000), 18_000_000),
            (usage(u64::MAX, 0, 0, u64::MAX), u64::MAX),
        ];
        for (usage, want) in table {
            assert_eq!(prices.cost(&usage), MicroUsd(want), "{usage:?}");
        }
        assert_eq!(prices.dearest_input(), MicroUsd(3_750_000));
    }
}
