//! Finds numbers that a double cannot hold. JavaScript has only doubles, so data with such a number must not pass through
//! it unnoticed: 12345678901234567890 would come out as 12345678901234567000.

use super::string_length;

/// Returns the first number in `json` that JavaScript would change by reading and writing it.
pub fn first_inexact_number(json: &[u8]) -> Option<&str> {
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => at += string_length(&json[at + 1..]) + 2,
            b'-' | b'0'..=b'9' => {
                let is_part = |b: &u8| b.is_ascii_digit() || b"+-.eE".contains(b);
                let length = json[at..].iter().take_while(|b| is_part(b)).count();
                let literal = std::str::from_utf8(&json[at..at + length]).ok()?;
                if !is_exact(literal) {
                    return Some(literal);
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    None
}

fn is_exact(literal: &str) -> bool {
    // Up to 15 significant digits always come back, and so few letters leave no room for an exponent that matters.
    if literal.len() <= 15 && !literal.contains(['e', 'E']) {
        return true;
    }
    let Some(given) = Decimal::read(literal) else { return false };
    if given.digits.is_empty() {
        return true;
    }
    // The shortest digits that read back as the same double; of two equally near ones the even, as in JavaScript.
    // Rust's own formatting takes the larger.
    let written = literal.parse().ok().and_then(serde_json::Number::from_f64);
    written.and_then(|written| Decimal::read(&written.to_string())).is_some_and(|kept| kept == given)
}

/// A number without its sign: digits that neither begin nor end with a zero, and the power of ten that the last stands at.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    digits: String,
    exponent: i64,
}

impl Decimal {
    fn read(text: &str) -> Option<Self> {
        let text = text.strip_prefix('-').unwrap_or(text);
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = [whole, fraction].concat();
        let digits = all.trim_start_matches('0').trim_end_matches('0');
        if digits.is_empty() {
            return Some(Self { digits: String::new(), exponent: 0 });
        }
        let dropped = all.len() - all.trim_end_matches('0').len();
        let exponent: i64 = exponent.parse().ok()?;
        let exponent = exponent.checked_add(dropped as i64)?.checked_sub(fraction.len() as i64)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| Self { digits: digits.to_owned(), exponent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_that_a_double_holds_pass_in_any_spelling() {
        for fine in [
            "0",
            "-0",
            "0e999999999999999999999",
            "-0.00E-5",
            "1.0",
            "1e5",
            "1E+5",
            "0.1",
            "-12.50",
            "100000000000000000000",
            "9007199254740992",
            "5e-324",
            "1.7976931348623157e308",
            "0.30000000000000004",
            "127493656552458.62",
            "1.10000000000000000000",
        ] {
            assert_eq!(first_inexact_number(fine.as_bytes()), None, "{fine}");
        }
    }

    #[test]
    fn numbers_that_a_double_would_change_are_found() {
        for lost in [
            "12345678901234567890",
            "9007199254740993",
            "-9007199254740993",
            "0.1000000000000000055",
            "1e400",
            "1e-400",
            "1e99999999999999999999",
            "3.141592653589793238",
            "127493656552458.63",
        ] {
            assert_eq!(first_inexact_number(lost.as_bytes()), Some(lost));
            let inside = format!(r#"{{"a":[1,"99999999999999999999\"",{lost} ],"b":1e999}}"#);
            assert_eq!(first_inexact_number(inside.as_bytes()), Some(lost));
        }
        assert_eq!(
            first_inexact_number(br#"{"12345678901234567890":"12345678901234567890","t":true}"#),
            None
        );
    }

    proptest! {
        #[test]
        fn every_double_survives_as_it_is_written(double in proptest::num::f64::NORMAL) {
            let written = serde_json::Value::from(double).to_string();
            prop_assert!(first_inexact_number(written.as_bytes()).is_none(), "{}", written);
        }

        #[test]
        fn an_amount_of_up_to_fifteen_digits_survives(whole in 0u64..1_000_000_000_000, cents in 0u8..100) {
            let amount = format!("[-{whole}.{cents:02}]");
            prop_assert!(first_inexact_number(amount.as_bytes()).is_none());
        }

        #[test]
        fn every_whole_number_that_a_double_counts_to_survives(number in -(1i64 << 53)..=1i64 << 53) {
            prop_assert!(first_inexact_number(number.to_string().as_bytes()).is_none());
        }

        #[test]
        fn nothing_makes_it_panic(bytes: Vec<u8>) {
            let _ = first_inexact_number(&bytes);
        }
    }
}
