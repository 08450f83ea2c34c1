//! Patterns of JSON schemas: JavaScript's syntax without look-around; a match may be anywhere in the text.

use llguidance::derivre::RegexBuilder;
use llguidance::regex_to_lark;

use crate::{Code, Failure};

const MAX_PATTERN: usize = 4096; // bytes
const WORK: u64 = 20_000; // of building one automaton

/// The pattern in Lark's syntax, and whether `text` has a match.
pub fn search(pattern: &str, text: &str) -> Result<(String, bool), Failure> {
    let wrong = |e: String| Failure::new(Code::Invalid, e.lines().next().unwrap_or("").to_string());
    if pattern.len() > MAX_PATTERN {
        return Err(wrong(format!("it has {} bytes, more than the limit of {MAX_PATTERN}", pattern.len())));
    }
    let lark = regex_to_lark(pattern, "dw");
    let mut builder = RegexBuilder::new();
    let expression = builder.mk_regex_for_serach(&lark).map_err(|e| wrong(e.to_string()))?;
    let mut regex = builder.to_regex_limited(expression, WORK).map_err(|e| wrong(e.to_string()))?;
    Ok((lark, regex.is_match(text)))
}
