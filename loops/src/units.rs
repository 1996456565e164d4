//! Durations, token counts and money as people write them. Pure; every refusal says what to write.

use std::time::Duration;

use ronde_protocol::MicroUsd;

use crate::validators::Refusal;

/// The longest duration: a year of 365 days.
const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// Reads `90s`, `15m`, `1h30m`, `12h`, `3d`, `2w`. From a millisecond to a year.
///
/// # Errors
/// No unit, months or years, nothing at all, or too much.
pub(crate) fn duration(text: &str) -> Result<Duration, Refusal> {
    let trimmed = text.trim();
    if let Some(number) = bare_number(trimmed) {
        if number {
            return Err(zero("a duration", "15m"));
        }
        return Err(Refusal::new(format!("duration `{trimmed}` has no unit"))
            .hint(format!("write `{trimmed}s`, `{trimmed}m` or `{trimmed}h`")));
    }
    let unit_words: Vec<&str> = trimmed
        .split(|c: char| !c.is_ascii_alphabetic())
        .filter(|word| !word.is_empty())
        .collect();
    if unit_words.contains(&"M") {
        return Err(
            Refusal::new(format!("duration `{trimmed}` is ambiguous: `M` is no unit"))
                .hint(format!("a minute is `m`: `{}`", trimmed.replace('M', "m"))),
        );
    }
    let long = ["month", "months", "y", "yr", "yrs", "year", "years"];
    if let Some(word) = unit_words.iter().find(|word| long.contains(word)) {
        return Err(Refusal::new(format!(
            "duration `{trimmed}` uses `{word}`, which has no one length"
        ))
        .hint("write days: `30d`"));
    }
    let parsed = humantime::parse_duration(trimmed).map_err(|_| {
        Refusal::new(format!("`{trimmed}` is no duration"))
            .hint("numbers with `ms`, `s`, `m`, `h`, `d` or `w`, for example `90s` or `1h30m`")
    })?;
    if parsed.is_zero() {
        return Err(zero("a duration", "15m"));
    }
    if parsed < Duration::from_millis(1) {
        return Err(Refusal::new(format!(
            "duration `{trimmed}` is shorter than a millisecond"
        ))
        .hint("the shortest is `1ms`"));
    }
    if parsed > YEAR {
        return Err(
            Refusal::new(format!("duration `{trimmed}` is longer than a year"))
                .hint("the longest is `365d`"),
        );
    }
    Ok(parsed)
}

/// Reads `200000`, `500k`, `2M`, `1.5M`, `1G`.
///
/// # Errors
/// Not such a number, or nothing at all, or more than fits.
pub(crate) fn tokens(text: &str) -> Result<u64, Refusal> {
    let trimmed = text.trim();
    let refuse = || {
        Refusal::new(format!("`{trimmed}` is no number of tokens"))
            .hint("a number with `k`, `M` or `G`, for example `500k` or `2M`")
    };
    let digits = trimmed.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &trimmed[digits.len()..] {
        "" => 0,
        "k" | "K" => 3,
        "M" => 6,
        "G" => 9,
        "m" => return Err(refuse().hint(format!("a million is `M`: `{digits}M`"))),
        "g" => return Err(refuse().hint(format!("a thousand million is `G`: `{digits}G`"))),
        _ => return Err(refuse()),
    };
    match decimal(digits.trim_end(), scale) {
        Some(0) => Err(zero("a number of tokens", "2M")),
        Some(tokens) => Ok(tokens),
        None => Err(refuse()),
    }
}

/// Reads `5 USD`, `0.50 USD`, `$5`: exact to a millionth.
///
/// # Errors
/// No currency or another one, not a number, nothing at all, or more than fits.
pub(crate) fn money(text: &str) -> Result<MicroUsd, Refusal> {
    let trimmed = text.trim();
    let refuse = |message: String| Refusal::new(message).hint("for example `5 USD` or `0.50 USD`");
    if let Some(number) = bare_number(trimmed) {
        if number {
            return Err(zero("an amount", "5 USD"));
        }
        return Err(Refusal::new(format!("amount `{trimmed}` has no currency"))
            .hint(format!("write `{trimmed} USD`")));
    }
    let number = if let Some(rest) = trimmed.strip_prefix('$') {
        rest
    } else {
        let digits = trimmed.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let currency = &trimmed[digits.len()..];
        if currency.is_empty() {
            return Err(refuse(format!("`{trimmed}` is no amount of money")));
        }
        if !currency.eq_ignore_ascii_case("usd") {
            return Err(refuse(format!(
                "currency `{currency}` is not known, only USD is"
            )));
        }
        digits
    };
    match decimal(number.trim(), 6) {
        Some(0) => Err(zero("an amount", "5 USD")),
        Some(micro) => Ok(MicroUsd(micro)),
        None => Err(refuse(format!("`{trimmed}` is no amount of money"))),
    }
}

/// The refusal of a zero.
pub(crate) fn zero(what: &str, example: &str) -> Refusal {
    Refusal::new(format!("{what} must be more than 0")).hint(format!(
        "leave the key out for the default, or write for example `{example}`"
    ))
}

/// `Some(is zero)` for a text of digits with at most one point.
fn bare_number(text: &str) -> Option<bool> {
    let mut parts = text.splitn(2, '.');
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !parts.all(digits) {
        return None;
    }
    Some(text.bytes().all(|byte| matches!(byte, b'0' | b'.')))
}

/// `text` times ten to the power of `scale`, exact; `None` where it is no such number or does not fit.
fn decimal(text: &str, scale: usize) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || text.ends_with('.') {
        return None;
    }
    let part = part.trim_end_matches('0');
    if part.len() > scale {
        return None;
    }
    format!("{whole}{part:0<scale$}").parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in [
            ("90s", 90),
            ("15m", 900),
            ("1h30m", 5400),
            ("1h 30m", 5400),
            ("2h", 7200),
            ("3d", 259_200),
            ("2w", 1_209_600),
            ("365d", 31_536_000),
            (" 5min ", 300),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for (text, word) in [
            ("90", "write `90s`"),
            ("1.5", "write `1.5s`"),
            ("0", "default"),
            ("0s", "default"),
            ("0.0", "default"),
            ("1M", "a minute is `m`: `1m`"),
            ("1h 5M", "a minute is `m`"),
            ("1month", "30d"),
            ("1y", "30d"),
            ("366d", "365d"),
            ("9w9w9w9w9w9w9w9w", "365d"),
            ("1us", "1ms"),
            ("", "1h30m"),
            ("soon", "1h30m"),
            ("-5m", "1h30m"),
            ("99999999999999999999d", "1h30m"),
        ] {
            let hint = duration(text).expect_err(text).hint.expect("a hint");
            assert!(hint.contains(word), "{text}: {hint}");
        }
    }

    #[test]
    fn counts_of_tokens() {
        for (text, count) in [
            ("1", 1),
            ("200000", 200_000),
            ("500k", 500_000),
            ("2M", 2_000_000),
            ("1.5M", 1_500_000),
            ("1 G", 1_000_000_000),
        ] {
            assert_eq!(tokens(text), Ok(count), "{text}");
        }
        for (text, word) in [
            ("0", "default"),
            ("0M", "default"),
            ("2m", "`2M`"),
            ("1.0001k", "500k"),
            ("2X", "500k"),
            ("", "500k"),
            ("-1k", "500k"),
            ("99999999999999999999", "500k"),
            ("99999999999999G", "500k"),
            ("1e6", "500k"),
        ] {
            let hint = tokens(text).expect_err(text).hint.expect("a hint");
            assert!(hint.contains(word), "{text}: {hint}");
        }
    }

    #[test]
    fn amounts_of_money() {
        for (text, micro) in [
            ("5 USD", 5_000_000),
            ("5USD", 5_000_000),
            ("0.50 USD", 500_000),
            ("$5", 5_000_000),
            ("$0.000001", 1),
            ("1.2500000 usd", 1_250_000),
        ] {
            assert_eq!(money(text), Ok(MicroUsd(micro)), "{text}");
        }
        for (text, word) in [
            ("5", "`5 USD`"),
            ("0.5", "`0.5 USD`"),
            ("0 USD", "default"),
            ("0", "default"),
            ("5 EUR", "USD"),
            ("5.0000001 USD", "USD"),
            ("five USD", "USD"),
            ("$", "USD"),
            ("", "USD"),
            ("5. USD", "USD"),
            ("99999999999999999 USD", "USD"),
        ] {
            let hint = money(text).expect_err(text).hint.expect("a hint");
            assert!(hint.contains(word), "{text}: {hint}");
        }
    }

    proptest! {
        #[test]
        fn money_reads_back_what_it_shows(micro in 1..u64::MAX) {
            prop_assert_eq!(money(&MicroUsd(micro).to_string()), Ok(MicroUsd(micro)));
        }

        #[test]
        fn nothing_panics(text in ".*") {
            let _ = (duration(&text), tokens(&text), money(&text));
        }

        #[test]
        fn an_accepted_duration_is_never_zero(text in "[0-9.]{0,4}[smhdwMy ]{0,2}") {
            if let Ok(read) = duration(&text) {
                prop_assert!(!read.is_zero() && read <= YEAR);
            }
        }
    }
}
