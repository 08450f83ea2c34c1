//! Patterns of JSON schemas: JavaScript's syntax without look-around; a match may be anywhere in the text.

use llguidance::derivre::RegexBuilder;
use llguidance::regex_to_lark;

use crate::{Code, Failure};

const MAX_PATTERN: usize = 4096; // bytes
const WORK: u64 = 20_000; // of building one automaton; the same again for a match

/// The pattern in Lark's syntax, whether `text` has a match, and the work of finding out.
pub fn search(pattern: &str, text: &str) -> Result<(String, bool, u64), Failure> {
    let wrong = |e: String| Failure::new(Code::Invalid, e.lines().next().unwrap_or("").to_string());
    if pattern.len() > MAX_PATTERN {
        return Err(wrong(format!("it has {} bytes, more than the limit of {MAX_PATTERN}", pattern.len())));
    }
    let lark = regex_to_lark(pattern, "dw");
    let mut builder = RegexBuilder::new();
    let expression = builder.mk_regex_for_serach(&lark).map_err(|e| wrong(e.to_string()))?;
    let mut regex = builder.to_regex_limited(expression, WORK).map_err(|e| wrong(e.to_string()))?;
    let limit = regex.cost().saturating_add(WORK);
    let mut state = regex.initial_state();
    for byte in text.bytes() {
        state = regex.transition(state, byte);
        if state.is_dead() {
            return Ok((lark, false, regex.cost()));
        }
        if regex.cost() > limit {
            return Err(wrong(format!("its match takes more work than the limit of {WORK}")));
        }
    }
    let found = regex.lookahead_len_for_state(state).is_some();
    Ok((lark, found, regex.cost()))
}
