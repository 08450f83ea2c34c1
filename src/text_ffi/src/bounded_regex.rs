//! Bounded regular expressions for tokenizer files. The engine is Oniguruma, as in the Python wheels, and it
//! backtracks: a pattern may take exponential time, or one stack entry per step. So each search has limits of
//! retries and of stack entries, and all searches of a text share a limit of processor time, which is checked
//! between searches.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use onig::{MatchParam, Regex, Region, SearchOptions};
use tokenizers::pattern::Pattern;
use tokenizers::Offsets;

use crate::{Code, Failure};

/// Max bytes of a pattern. The longest pattern of a public model has 1,200.
const MAX_PATTERN: usize = 16 << 10;
/// Max depth of nested groups, which the engine parses recursively.
const MAX_DEPTH: u32 = 128;
/// Max retries of one search, plus some per byte of text: a run of blanks takes one per byte.
const RETRIES: u64 = 4_000_000;
const RETRIES_A_BYTE: u64 = 8;
/// Max stack entries of one search; a run of letters takes one per letter.
const STACK: usize = 64 << 10;
const STACK_A_BYTE: usize = 4;
/// Max processor time of all searches of a text. Patterns of public models take about 0.1 us per byte.
const TIME_NS: u64 = 500_000_000;
const TIME_NS_A_BYTE: u64 = 4_000;
/// Searches between two readings of the clock.
const SEARCHES: u32 = 64;

/// Nanoseconds for which this thread has had a processor.
fn thread_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The remaining budget of one text's searches. Belongs to one thread.
pub struct Work {
    size: usize, // bytes of the text
    end_ns: u64,
    searches: AtomicU32,
}

impl Work {
    pub fn on(size: usize) -> Work {
        let time = TIME_NS.saturating_add(TIME_NS_A_BYTE.saturating_mul(size as u64));
        Work { size, end_ns: thread_ns().saturating_add(time), searches: AtomicU32::new(0) }
    }

    fn exceeded(&self) -> Failure {
        let text = format!(
            "a pattern of the model's tokenizer takes more work on this text of {} bytes than the limit; \
             send another text, or use a tokenizer whose patterns do not repeat repetitions",
            self.size
        );
        Failure::new(Code::Limit, text)
    }

    fn spend_search(&self) -> Result<(), Failure> {
        let searches = self.searches.fetch_add(1, Relaxed);
        if searches % SEARCHES == SEARCHES - 1 && thread_ns() > self.end_ns {
            return Err(self.exceeded());
        }
        Ok(())
    }
}

/// The pattern of a search.
pub enum BoundedPattern {
    Text(String),
    Regex(Regex),
}

/// A piece of a text: a match, or the text between two matches.
pub struct Found(pub Vec<(Offsets, bool)>);

impl Pattern for Found {
    fn find_matches(&self, _inside: &str) -> tokenizers::Result<Vec<(Offsets, bool)>> {
        Ok(self.0.clone())
    }
}

/// The matches and the pieces between them; together they cover the text.
fn cover(text: &str, matches: impl Iterator<Item = Offsets>) -> Found {
    let mut found = Vec::new();
    let mut end = 0;
    for (start, stop) in matches {
        if end != start {
            found.push(((end, start), false));
        }
        found.push(((start, stop), true));
        end = stop;
    }
    if end != text.len() {
        found.push(((end, text.len()), false));
    }
    Found(found)
}

impl BoundedPattern {
    pub fn regex(pattern: &str) -> Result<BoundedPattern, Failure> {
        let corrupt = |what: String| Failure::new(Code::Corrupt, what);
        if pattern.len() > MAX_PATTERN {
            let size = pattern.len();
            return Err(corrupt(format!(
                "a pattern has {size} bytes, more than the limit of {MAX_PATTERN}"
            )));
        }
        // SAFETY: sets a number that each compilation reads.
        unsafe { onig_sys::onig_set_parse_depth_limit(MAX_DEPTH) };
        let regex = Regex::new(pattern).map_err(|e| corrupt(format!("the pattern {pattern:?}: {e}")))?;
        Ok(BoundedPattern::Regex(regex))
    }

    /// The pieces of `text` in order, as the search of the tokenizers crate returns them.
    pub fn find(&self, text: &str, work: &Work) -> Result<Found, Failure> {
        if text.is_empty() {
            return Ok(Found(vec![((0, 0), false)]));
        }
        let regex = match self {
            BoundedPattern::Regex(regex) => regex,
            BoundedPattern::Text(wanted) => {
                return Ok(cover(text, text.match_indices(wanted).map(|(at, part)| (at, at + part.len()))));
            }
        };
        let mut matches = Vec::new();
        let mut region = Region::new();
        let mut from = 0;
        let mut last = None; // end of the last match
        while from <= text.len() && search(regex, text, from, &mut region, work)? {
            let Some((start, stop)) = region.pos(0) else { break };
            // Skips an empty match right after another match; otherwise the search would not end.
            if start == stop && last == Some(stop) {
                from += text[from..].chars().next().map_or(1, char::len_utf8);
                continue;
            }
            matches.push((start, stop));
            (from, last) = (stop, Some(stop));
        }
        Ok(cover(text, matches.into_iter()))
    }
}

/// One search from byte `from` on; `region` gets the match.
fn search(
    regex: &Regex,
    text: &str,
    from: usize,
    region: &mut Region,
    work: &Work,
) -> Result<bool, Failure> {
    work.spend_search()?;
    let rest = text.len() - from;
    let retries = RETRIES.saturating_add(RETRIES_A_BYTE.saturating_mul(rest as u64));
    let stack = STACK.saturating_add(STACK_A_BYTE.saturating_mul(rest));
    let mut limits = MatchParam::default();
    limits.set_match_stack_limit(u32::try_from(stack).unwrap_or(u32::MAX));
    limits.set_retry_limit_in_match(u32::try_from(retries).unwrap_or(u32::MAX));
    // SAFETY: `limits` owns the pointer that it returns.
    unsafe {
        onig_sys::onig_set_retry_limit_in_search_of_match_param(
            limits.as_raw(),
            retries as std::os::raw::c_ulong,
        );
    }
    region.clear();
    let options = SearchOptions::SEARCH_OPTION_NONE;
    match regex.search_with_param(text, from, text.len(), options, Some(region), limits) {
        Ok(at) => Ok(at.is_some()),
        Err(e) => match e.code() {
            onig_sys::ONIGERR_RETRY_LIMIT_IN_MATCH_OVER
            | onig_sys::ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER
            | onig_sys::ONIGERR_MATCH_STACK_LIMIT_OVER => Err(work.exceeded()),
            onig_sys::ONIGERR_MEMORY => Err(Failure::new(
                Code::Exhausted,
                "the system has no memory for a pattern of the tokenizer; try again when less is in use",
            )),
            _ => Err(Failure::new(Code::Invalid, format!("a pattern of the tokenizer fails: {e}"))),
        },
    }
}
