//! What a call can cost at most, and how much output fits into what is left. Whole numbers, rounded up;
//! no ledger, no clock.

use ronde_protocol::{Amount, MicroUsd};

/// What tokens cost, each in millionths of a US dollar for a million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rates {
    /// Of an input token, the dearest that can apply.
    pub input: MicroUsd,
    /// Of an output token.
    pub output: MicroUsd,
}

/// The most that so many tokens can come to, rounded up once, at most the largest number there is.
pub fn amount(input: u64, output: u64, rates: Rates) -> Amount {
    let cost = cost(input, output, rates).div_ceil(1_000_000);
    Amount {
        tokens: input.saturating_add(output),
        cost: MicroUsd(u64::try_from(cost).unwrap_or(u64::MAX)),
    }
}

/// The most output tokens, at most `max_output`, with which a call fits into `left`; a currency without
/// a limit is left as the largest number. `None` where no output fits, or less than `floor` of a call
/// that could use as much.
pub fn fit(input: u64, max_output: u64, floor: u64, rates: Rates, left: Amount) -> Option<u64> {
    let mut most = max_output.min(left.tokens.checked_sub(input)?);
    if left.cost != MicroUsd(u64::MAX) {
        // What `left` buys, before the rounding: the cost rounds up to `left` or less exactly then.
        let whole = u128::from(left.cost.0) * 1_000_000;
        let rest = whole.checked_sub(cost(input, 0, rates))?;
        if let Some(bought) = rest.checked_div(u128::from(rates.output.0)) {
            most = most.min(u64::try_from(bought).unwrap_or(u64::MAX));
        }
    }
    (most > 0 && most >= floor.min(max_output)).then_some(most)
}

/// In millionths of [`MicroUsd`]. Two products of 64 bits stay below the largest of 128, but their sum
/// need not.
fn cost(input: u64, output: u64, rates: Rates) -> u128 {
    let input = u128::from(input) * u128::from(rates.input.0);
    input.saturating_add(u128::from(output) * u128::from(rates.output.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RATES: Rates = Rates {
        input: MicroUsd(3_000_000),
        output: MicroUsd(15_000_000),
    };

    fn left(tokens: u64, cost: u64) -> Amount {
        Amount {
            tokens,
            cost: MicroUsd(cost),
        }
    }

    #[test]
    fn amounts_round_up_and_never_wrap() {
        let odd = Rates {
            input: MicroUsd(1),
            output: MicroUsd(2),
        };
        let dear = Rates {
            input: MicroUsd(u64::MAX),
            output: MicroUsd(u64::MAX),
        };
        let table = [
            (0, 0, RATES, left(0, 0)),
            (1, 0, RATES, left(1, 3)),
            (1000, 100, RATES, left(1100, 4500)),
            (1, 0, odd, left(1, 1)),
            (500_000, 250_000, odd, left(750_000, 1)),
            (500_000, 250_001, odd, left(750_001, 2)),
            (7, 9, Rates::default(), left(16, 0)),
            (u64::MAX, u64::MAX, RATES, left(u64::MAX, u64::MAX)),
            (u64::MAX, u64::MAX, dear, left(u64::MAX, u64::MAX)),
        ];
        for (input, output, rates, want) in table {
            assert_eq!(
                amount(input, output, rates),
                want,
                "{input} {output} {rates:?}"
            );
        }
    }

    #[test]
    fn the_output_shrinks_to_what_is_left() {
        let all = u64::MAX;
        let table = [
            ("no limit", 1000, 4096, 256, left(all, all), Some(4096)),
            (
                "tokens just so",
                1000,
                4096,
                256,
                left(5096, all),
                Some(4096),
            ),
            (
                "tokens one short",
                1000,
                4096,
                256,
                left(5095, all),
                Some(4095),
            ),
            (
                "tokens at the floor",
                1000,
                4096,
                256,
                left(1256, all),
                Some(256),
            ),
            ("tokens below it", 1000, 4096, 256, left(1255, all), None),
            ("not even the input", 1000, 4096, 0, left(999, all), None),
            (
                "the input and no more",
                1000,
                4096,
                0,
                left(1000, all),
                None,
            ),
            (
                "money just so",
                1000,
                4096,
                256,
                left(all, 64_440),
                Some(4096),
            ),
            (
                "money one short",
                1000,
                4096,
                256,
                left(all, 64_439),
                Some(4095),
            ),
            (
                "money below the floor",
                1000,
                4096,
                256,
                left(all, 6839),
                None,
            ),
            (
                "money at the floor",
                1000,
                4096,
                256,
                left(all, 6840),
                Some(256),
            ),
            (
                "money not for the input",
                1000,
                4096,
                0,
                left(all, 2999),
                None,
            ),
            (
                "a call below the floor",
                1000,
                10,
                256,
                left(1010, all),
                Some(10),
            ),
            ("and no less", 1000, 10, 256, left(1009, all), None),
            ("no output wanted", 1000, 0, 0, left(all, all), None),
        ];
        for (name, input, max_output, floor, left, want) in table {
            assert_eq!(fit(input, max_output, floor, RATES, left), want, "{name}");
        }
        let free = Rates::default();
        assert_eq!(
            fit(10, 20, 5, free, left(25, 0)),
            Some(15),
            "free of charge"
        );
    }

    /// Small numbers meet borders; large ones meet overflows.
    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![0..100u64, 0..5_000_000u64, any::<u64>()]
    }

    proptest! {
        #[test]
        fn what_fits_is_the_most_that_fits(
            (input, max_output, floor) in (number(), number(), number()),
            rates in (number(), number()),
            tokens in number(),
            cost in number(),
        ) {
            let rates = Rates { input: MicroUsd(rates.0), output: MicroUsd(rates.1) };
            let left = left(tokens, cost);
            let inside = |output: u64| {
                let amount = amount(input, output, rates);
                // A sum that is cut at the largest number says nothing of what it would be.
                input.checked_add(output).is_some() && amount.tokens <= left.tokens && amount.cost <= left.cost
            };
            match fit(input, max_output, floor, rates, left) {
                Some(output) => {
                    prop_assert!(output > 0 && output <= max_output && inside(output));
                    prop_assert!(output >= floor.min(max_output));
                    prop_assert!(output == max_output || !inside(output + 1));
                }
                None => prop_assert!(max_output == 0 || !inside(floor.min(max_output).max(1))),
            }
        }

        #[test]
        fn more_left_never_fits_less(
            (input, max_output, floor) in (0..10_000u64, 0..10_000u64, 0..500u64),
            rates in (0..90_000_000u64, 0..90_000_000u64),
            (tokens, cost) in (0..20_000u64, 0..1_000_000u64),
            (more_tokens, more_cost) in (0..2_000u64, 0..100_000u64),
        ) {
            let rates = Rates { input: MicroUsd(rates.0), output: MicroUsd(rates.1) };
            let less = fit(input, max_output, floor, rates, left(tokens, cost));
            let more = fit(input, max_output, floor, rates, left(tokens + more_tokens, cost + more_cost));
            prop_assert!(less.unwrap_or(0) <= more.unwrap_or(0), "{less:?} then {more:?}");
        }
    }
}
