//! Costs that the grammar library does not count: the size of its automata depends on numbers in the source.
//! `multipleOf: n` has n states, and nested repetitions multiply. Such sources are refused before they are
//! compiled, because the library cannot be interrupted.

use serde_json::{Deserializer, Map, Value as Json};

use crate::{Code, Failure};

/// Max states of all `multipleOf` together.
pub const MAX_REMAINDERS: u64 = 10_000;
/// Max product of the counts of nested repetitions, as in `(a{m}){n}`.
pub const MAX_REPEATS: u64 = 10_000;

/// The lowest bound of a whole number: the library negates bounds, and never ends at the lowest integer.
const LOWEST: f64 = i64::MIN as f64;

/// Max bytes of a repetition that are read.
const LONGEST: usize = 48;

fn limit(text: String) -> Failure {
    Failure::new(Code::Limit, text)
}

/// The multiples in a JSON schema.
#[derive(Default)]
struct Multiples {
    divisors: Vec<u64>, // one for each keyword
    shared: u64,        // places that use or combine other parts of the schema
    refers: bool,
    low_note: bool, // a number in an annotation is too low; refused if a reference leads there
}

/// Members whose keys are names of the client.
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

fn is_low(value: &Json) -> bool {
    match value {
        Json::Number(number) => number.as_f64().is_some_and(|number| number <= LOWEST),
        Json::Array(items) => items.iter().any(is_low),
        Json::Object(members) => members.values().any(is_low),
        _ => false,
    }
}

fn too_low() -> Failure {
    limit(format!("a number is at or below {LOWEST}, the lowest that can be written; use a higher one"))
}

/// The states of the automaton: 5 for 0.05, which is 5 hundredths. None: an unsupported number.
fn divisor_of(number: f64) -> Option<u64> {
    let mut whole = number;
    for _ in 0..20 {
        if whole.fract() == 0.0 {
            return (whole.abs() < 1e15).then_some(whole.abs() as u64);
        }
        whole *= 10.0;
    }
    None
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

impl Multiples {
    /// The library may combine any two divisors of a schema that shares its parts.
    fn states(&self) -> u64 {
        let sum = self.divisors.iter().fold(0u64, |sum, &d| sum.saturating_add(d));
        if self.shared == 0 {
            return sum;
        }
        let lcm = self
            .divisors
            .iter()
            .filter(|&&d| d > 1)
            .fold(1u64, |lcm, &d| (lcm / gcd(lcm, d)).saturating_mul(d));
        if lcm == 1 {
            return sum;
        }
        sum.max(lcm.saturating_mul(self.shared.min(self.divisors.len() as u64 + 1)))
    }
}

/// `names`: the keys are names, not keywords.
fn visit_object(object: &Map<String, Json>, names: bool, found: &mut Multiples) -> Result<(), Failure> {
    for (key, value) in object {
        match key.as_str() {
            _ if names => {}
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "const" | "enum"
                if is_low(value) =>
            {
                return Err(too_low());
            }
            "default" | "examples" | "example" => found.low_note |= is_low(value),
            _ => {}
        }
        match (key.as_str(), value) {
            ("multipleOf", Json::Number(number)) => {
                let states = number.as_f64().and_then(divisor_of).unwrap_or(u64::MAX);
                found.divisors.push(states);
            }
            ("pattern", Json::String(pattern)) => check_regex(pattern)?,
            ("patternProperties", Json::Object(patterns)) => {
                patterns.keys().try_for_each(|pattern| check_regex(pattern))?;
            }
            ("$ref" | "$dynamicRef", Json::String(_)) | ("allOf" | "anyOf" | "oneOf", Json::Array(_)) => {
                found.shared += 1;
            }
            _ => {}
        }
        found.refers |= matches!(key.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef");
        visit(value, !names && NAMED.contains(&key.as_str()), found)?;
    }
    Ok(())
}

fn visit(value: &Json, names: bool, found: &mut Multiples) -> Result<(), Failure> {
    match value {
        Json::Object(object) => visit_object(object, names, found),
        Json::Array(items) => items.iter().try_for_each(|item| visit(item, false, found)),
        _ => Ok(()),
    }
}

fn check_states(states: u64) -> Result<(), Failure> {
    if states > MAX_REMAINDERS {
        return Err(limit(format!(
            "multipleOf makes {states} states, more than the limit of {MAX_REMAINDERS}; use smaller \
             numbers, or fewer of them"
        )));
    }
    Ok(())
}

fn multiples_of(schema: &Json) -> Result<Multiples, Failure> {
    let mut found = Multiples::default();
    visit(schema, false, &mut found)?;
    if found.low_note && found.refers {
        return Err(too_low());
    }
    Ok(found)
}

pub fn check_schema(schema: &Json) -> Result<(), Failure> {
    check_states(multiples_of(schema)?.states())
}

/// Schemas and expressions inside a Lark grammar.
pub fn check_lark(source: &str) -> Result<(), Failure> {
    let mut states = 0u64;
    for (at, mark) in source.match_indices("%json") {
        let rest = &source[at + mark.len()..];
        if let Some(Ok(schema)) = Deserializer::from_str(rest).into_iter::<Json>().next() {
            states = states.saturating_add(multiples_of(&schema)?.states());
        }
    }
    check_states(states)?;
    // Rules repeat as expressions do; quoted text that looks like a repetition counts as one.
    source.lines().filter(|line| !line.contains("%json")).try_for_each(check_regex)
}

/// The count of a repetition at the start of `text`: `{m}`, `{m,}`, `{m,n}`, or Lark's `~m..n`.
fn repetition(text: &str) -> Option<u64> {
    let body = match text.strip_prefix('{') {
        Some(rest) => &rest[..rest.bytes().take(LONGEST).position(|b| b == b'}')?],
        None => text.strip_prefix('~')?.split(|c: char| !c.is_ascii_digit() && c != '.').next()?,
    };
    let good = !body.is_empty() && body.chars().all(|c| c.is_ascii_digit() || ",. ".contains(c));
    let numbers = body.split([',', '.']).filter(|part| !part.trim().is_empty());
    let most = numbers.map(|part| part.trim().parse::<u64>().unwrap_or(u64::MAX)).max();
    most.filter(|_| good)
}

pub fn check_regex(source: &str) -> Result<(), Failure> {
    let mut open: Vec<u64> = vec![1]; // the largest product inside of each open group
    let mut last = 1; // of the element before this place
    let mut in_class = false;
    let mut chars = source.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                chars.next();
                last = 1;
            }
            '[' => (in_class, last) = (true, 1),
            ']' => in_class = false,
            _ if in_class => {}
            '(' => {
                open.push(1);
                last = 1;
            }
            ')' => {
                last = if open.len() > 1 { open.pop().unwrap_or(1) } else { 1 };
                if let Some(outer) = open.last_mut() {
                    *outer = last.max(*outer);
                }
            }
            '{' | '~' => {
                let Some(count) = repetition(&source[at..]) else { continue };
                let nested = last > 1;
                last = last.saturating_mul(count.max(1));
                if nested && last > MAX_REPEATS {
                    return Err(limit(format!(
                        "repetitions inside each other make {last} copies, more than the limit of \
                         {MAX_REPEATS}; use smaller counts"
                    )));
                }
                if let Some(outer) = open.last_mut() {
                    *outer = last.max(*outer);
                }
            }
            '}' | '?' | '*' | '+' => {}
            c if c.is_ascii_digit() || c == ',' || c == '.' || c == ' ' => {
                // Also the inside of a repetition: what it repeats is still the last element.
                let near = at.saturating_sub(LONGEST);
                let start = source.as_bytes()[near..at].iter().rposition(|b| matches!(b, b'{' | b'~'));
                let inside = start.is_some_and(|back| {
                    let start = near + back;
                    repetition(&source[start..]).is_some() && !source[start..at].contains('}')
                });
                if !inside {
                    last = 1;
                }
            }
            _ => last = 1,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(text: &str) -> bool {
        check_schema(&serde_json::from_str(text).unwrap()).is_ok()
    }

    #[test]
    fn multiples_are_counted_alone_together_and_combined() {
        assert!(schema(r#"{"multipleOf": 10000}"#));
        assert!(schema(r#"{"multipleOf": 0.01}"#));
        assert!(!schema(r#"{"type": "integer", "multipleOf": 9999991}"#));
        assert!(!schema(r#"{"multipleOf": 1e300}"#));
        assert!(!schema(r#"{"multipleOf": 0.1234567}"#));
        assert!(!schema(r#"{"properties": {"a": {"multipleOf": 6000}, "b": {"multipleOf": 5000}}}"#));
        assert!(!schema(r#"{"allOf": [{"multipleOf": 997}, {"multipleOf": 991}]}"#));
        assert!(!schema(
            r##"{"$defs": {"a": {"multipleOf": 997}}, "items": {"$ref": "#/$defs/a", "multipleOf": 991}}"##
        ));
        assert!(schema(r#"{"anyOf": [{"multipleOf": 5}, {"multipleOf": 100}, {"type": "null"}]}"#));
    }

    #[test]
    fn the_lowest_number_is_refused_where_the_library_writes_it() {
        let low = "-9223372036854775808";
        for bad in [
            format!(r#"{{"const": {low}}}"#),
            format!(r#"{{"items": {{"enum": [1, [{low}]]}}}}"#),
            format!(r#"{{"properties": {{"default": {{"const": {low}}}}}}}"#),
            r#"{"type": "integer", "minimum": -1e30, "maximum": -1e29}"#.into(),
            format!(r##"{{"default": {{"const": {low}}}, "$ref": "#/default"}}"##),
        ] {
            assert!(!schema(&bad), "{bad}");
            assert!(check_lark(&format!("start: %json {bad}\n")).is_err(), "{bad}");
        }
        for good in [
            r#"{"const": -9223372036854774784, "minimum": -9e18}"#.into(),
            format!(r#"{{"type": "integer", "default": {low}}}"#),
            format!(r#"{{"properties": {{"default": {{"default": {low}}}}}}}"#),
        ] {
            assert!(schema(&good), "{good}");
        }
    }

    #[test]
    fn repetitions_multiply_only_inside_each_other() {
        for good in [
            "a{1000}b{1000}",
            "[0-9]{1,100000}",
            "(a{100}){100}",
            "(ab{3}|c{1000}){9}",
            r"\(a{1000}\){1000}",
            "[(]a{1000}[)]{1000}",
            "x{}y{a}",
        ] {
            assert!(check_regex(good).is_ok(), "{good}");
        }
        for bad in [
            "(a{1000}){1000}",
            "((a{200}b){200}c){3}",
            "(?:a{2,500}|b){1,500}",
            "(x(a{1000})y){11,}",
            "a{200}{200}",
        ] {
            assert!(check_regex(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_grammar_is_as_its_parts() {
        assert!(check_lark("start: %json {\"multipleOf\": 7}\n").is_ok());
        assert!(check_lark("start: %json {\"multipleOf\": 99999999}\n").is_err());
        assert!(check_lark("start: A B\nA: %json {\"multipleOf\": 6000}\nB: %json {\"multipleOf\": 5000}")
            .is_err());
        assert!(check_lark("start: (\"a\"{1000}){1000}\n").is_err());
        assert!(check_lark("start: /(a{1000}){1000}/\n").is_err());
    }
}
