//! Filters that make numbers, by Python's rules.

use minijinja::value::{from_args, Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, Value};

use crate::bounds::{extent, spend};

/// Digits with single underscores between them, as Python's int() and float() read.
fn without_underscores(text: &str) -> Option<String> {
    let text = text.trim_matches(crate::python::is_space);
    let good = !text.starts_with('_') && !text.ends_with('_') && !text.contains("__");
    good.then(|| text.replace('_', ""))
}

fn parsed_float(text: &str) -> Option<f64> {
    without_underscores(text)?.parse().ok()
}

fn parsed_int(text: &str, base: u32) -> Option<i128> {
    let text = without_underscores(text)?;
    let (sign, digits) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (&text[..1], rest),
        None => ("", text.as_str()),
    };
    let lower = digits.to_lowercase();
    let digits = match (base, lower.get(..2)) {
        (16, Some("0x")) | (8, Some("0o")) | (2, Some("0b")) => &lower[2..],
        _ => &lower,
    };
    if digits.starts_with(['-', '+']) {
        return None;
    }
    i128::from_str_radix(&format!("{sign}{digits}"), base).ok()
}

fn whole(x: f64) -> Option<i128> {
    (x.is_finite() && x.abs() < 1e38).then_some(x.trunc() as i128)
}

/// int(value, default=0, base=10): the default if `value` is not a number.
fn int(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    spend(extent(value))?;
    let args = args.into_values();
    let (default, base, options): (Option<Value>, Option<u32>, Kwargs) = from_args(&args)?;
    let default = default.or(options.get::<Option<Value>>("default")?).unwrap_or_else(|| Value::from(0));
    let base = base.or(options.get::<Option<u32>>("base")?).unwrap_or(10).clamp(2, 36);
    options.assert_all_used()?;
    let found = match value.as_str() {
        Some(text) => parsed_int(text, base).or_else(|| parsed_float(text).and_then(whole)),
        None if value.kind() == ValueKind::Bool => Some(i128::from(value.is_true())),
        None if value.is_integer() => i128::try_from(value.clone()).ok(),
        None if value.kind() == ValueKind::Number => f64::try_from(value.clone()).ok().and_then(whole),
        None => None,
    };
    Ok(found.map_or(default, |i| i64::try_from(i).map_or_else(|_| Value::from(i), Value::from)))
}

/// float(value, default=0.0).
fn float(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    spend(extent(value))?;
    let args = args.into_values();
    let (default, options): (Option<Value>, Kwargs) = from_args(&args)?;
    let default = default.or(options.get::<Option<Value>>("default")?).unwrap_or_else(|| Value::from(0.0));
    options.assert_all_used()?;
    let found = match value.as_str() {
        Some(text) => parsed_float(text),
        None if value.kind() == ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        None if value.kind() == ValueKind::Number => f64::try_from(value.clone()).ok(),
        None => None,
    };
    Ok(found.map_or(default, Value::from))
}

pub fn add_to(env: &mut Environment) {
    env.add_filter("int", int);
    env.add_filter("float", float);
}
