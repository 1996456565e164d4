//! How much a call can use at most, before it is made (architecture, invariant 3). Pure arithmetic:
//! who holds the money decides by it, in `client`.

use ronde_protocol::{Amount, MicroUsd, Usage};

use crate::{Prices, price};

/// Tokens a provider may add to what it is sent: its own words about tools and roles, and the marks
/// between items.
pub const OVERHEAD: u64 = 1024;

/// Fewer output tokens than this are not worth a call.
pub const FLOOR: u64 = 256;

/// What the provider reported of the call before: the base of the next estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reported {
    /// Bytes the rendered request had.
    pub bytes: u64,
    /// Input tokens of all kinds.
    pub input: u64,
}

impl Reported {
    /// Of a request with so many rendered bytes.
    pub fn of(bytes: u64, usage: &Usage) -> Self {
        let input = usage
            .input
            .saturating_add(usage.cached)
            .saturating_add(usage.cache_write);
        Self { bytes, input }
    }
}

/// The most input tokens a request of `bytes` rendered bytes can have. A token is at least a byte, so
/// without `before` all bytes count; with it, only those that are new since then. `before` is given
/// only where its request is a prefix of this one.
pub fn input(bytes: u64, before: Option<Reported>) -> u64 {
    let (known, new) = match before {
        Some(before) => (before.input, bytes.saturating_sub(before.bytes)),
        None => (0, bytes),
    };
    known.saturating_add(new).saturating_add(OVERHEAD)
}

/// What a call with so much input and output comes to, each input token at the dearest rate that can
/// apply to it.
pub fn amount(input: u64, max_output: u64, prices: &Prices) -> Amount {
    Amount {
        tokens: input.saturating_add(max_output),
        cost: price::sum([(input, prices.dearest_input()), (max_output, prices.output)]),
    }
}

/// The largest number of output tokens, at most `wanted`, with which a call fits into what is left.
/// `None` where not even [`FLOOR`] (or `wanted`, if that is less) fits. A limit that does not exist is
/// given as the largest number.
pub fn fit(input: u64, wanted: u64, prices: &Prices, left: Amount) -> Option<u64> {
    let by_tokens = left.tokens.checked_sub(input)?;
    let cost = |output| amount(input, output, prices).cost;
    let mut most = wanted.min(by_tokens);
    if left.cost != MicroUsd(u64::MAX) && cost(most) > left.cost {
        // The cost only grows with the output: the largest that fits is found by halving.
        let (mut fits, mut too_much) = (0, most);
        if cost(0) > left.cost {
            return None;
        }
        while too_much - fits > 1 {
            let middle = fits + (too_much - fits) / 2;
            if cost(middle) > left.cost {
                too_much = middle;
            } else {
                fits = middle;
            }
        }
        most = fits;
    }
    (most >= FLOOR.min(wanted) && most > 0).then_some(most)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn prices() -> impl Strategy<Value = Prices> {
        (
            0..50_000_000u64,
            0..50_000_000u64,
            0..50_000_000u64,
            0..99_000_000u64,
        )
            .prop_map(|(input, cached, cache_write, output)| Prices {
                input: MicroUsd(input),
                cached: MicroUsd(cached),
                cache_write: MicroUsd(cache_write),
                output: MicroUsd(output),
            })
    }

    proptest! {
        #[test]
        fn no_usage_within_bytes_and_output_exceeds_it(
            prices in prices(),
            bytes in 0..1_000_000u64,
            max_output in 0..100_000u64,
            parts in prop::collection::vec(0.0..1.0f64, 3),
            output in 0.0..=1.0f64,
        ) {
            let most = input(bytes, None);
            // Any split of the input over the three kinds.
            let share = |part: f64, of: u64| ((of as f64) * part) as u64;
            let cached = share(parts[0], most);
            let cache_write = share(parts[1], most - cached);
            let usage = Usage {
                input: share(parts[2], most - cached - cache_write),
                cached,
                cache_write,
                output: share(output, max_output),
                cost: MicroUsd(0),
            };
            let reserved = amount(most, max_output, &prices);
            prop_assert!(usage.amount().tokens <= reserved.tokens);
            prop_assert!(prices.cost(&usage) <= reserved.cost);
        }

        #[test]
        fn what_fits_fits_and_one_more_would_not(
            prices in prices(),
            input in 0..1_000_000u64,
            wanted in 1..100_000u64,
            tokens in 0..2_000_000u64,
            cost in 0..60_000_000u64,
        ) {
            let left = Amount { tokens, cost: MicroUsd(cost) };
            let inside = |output| {
                let amount = amount(input, output, &prices);
                amount.tokens <= left.tokens && amount.cost <= left.cost
            };
            match fit(input, wanted, &prices, left) {
                Some(output) => {
                    prop_assert!(output <= wanted && inside(output));
                    prop_assert!(output == wanted || !inside(output + 1));
                    prop_assert!(output >= FLOOR.min(wanted));
                }
                None => prop_assert!(!inside(FLOOR.min(wanted))),
            }
        }
    }

    #[test]
    fn only_new_bytes_count_after_a_report() {
        let usage = Usage {
            input: 10,
            cached: 200,
            cache_write: 30,
            output: 99,
            cost: MicroUsd(0),
        };
        assert_eq!(input(5000, None), 5000 + OVERHEAD);
        assert_eq!(
            input(5000, Some(Reported::of(4000, &usage))),
            240 + 1000 + OVERHEAD
        );
    }
}
