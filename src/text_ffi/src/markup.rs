//! Jinja2's filters of markup and layout: escape, safe, striptags, xmlattr, wordwrap, filesizeformat. A text
//! that is marked as safe is escaped by none of them again.

use minijinja::value::{Rest, ValueOrKwargs};
use minijinja::{Environment, Error, Value};

use crate::arguments::Bound;
use crate::bounds::{extent, spend, spend_memory};
use crate::filters::refuse;
use crate::operators::Number;
use crate::python::{self, is_space, str_of};

/// The entities that markup of a prompt has; of the others of HTML, none is needed.
const ENTITIES: [(&str, &str); 12] = [
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("apos;", "'"),
    ("nbsp", "\u{a0}"),
    ("copy", "©"),
    ("reg", "®"),
    ("hellip;", "…"),
    ("mdash;", "—"),
    ("ndash;", "–"),
    ("euro;", "€"),
];

pub fn escaped(value: &Value) -> Result<String, Error> {
    let text = str_of(value)?;
    spend_memory(text.len().saturating_mul(5) as u64)?;
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    Ok(text.replace('"', "&#34;").replace('\'', "&#39;"))
}

/// The escaped text, or the safe text as it is.
pub fn as_markup(value: &Value) -> Result<String, Error> {
    if value.is_safe() {
        return str_of(value);
    }
    escaped(value)
}

/// A character reference after its `&`, and its length in bytes.
fn entity(text: &str) -> Result<Option<(String, usize)>, Error> {
    if let Some(number) = text.strip_prefix('#') {
        let hexadecimal = number.starts_with(['x', 'X']);
        let digits = &number[usize::from(hexadecimal)..];
        let is_digit = |c: char| if hexadecimal { c.is_ascii_hexdigit() } else { c.is_ascii_digit() };
        let count = digits.find(|c| !is_digit(c)).unwrap_or(digits.len());
        if count == 0 {
            return Ok(None);
        }
        let code =
            u32::from_str_radix(&digits[..count], if hexadecimal { 16 } else { 10 }).unwrap_or(u32::MAX);
        let found = char::from_u32(code).filter(|c| *c != '\0').unwrap_or('\u{fffd}');
        let length = 1 + usize::from(hexadecimal) + count;
        return Ok(Some((found.to_string(), length + usize::from(text[length..].starts_with(';')))));
    }
    for (name, found) in ENTITIES {
        if let Some(rest) = text.strip_prefix(name) {
            let more = usize::from(rest.starts_with(';'));
            return Ok(Some((found.to_string(), name.len() + more)));
        }
    }
    let name = text.len() - text.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).len();
    if (1..32).contains(&name) && text[name..].starts_with(';') {
        return Err(refuse(format!("striptags: the entity &{}; is not known", &text[..name])));
    }
    Ok(None)
}

fn unescaped(text: &str) -> Result<String, Error> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        match entity(rest)? {
            Some((found, length)) => {
                out.push_str(&found);
                rest = &rest[length..];
            }
            None => out.push('&'),
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn without(mut text: String, open: &str, close: &str) -> Result<String, Error> {
    while let Some(start) = text.find(open) {
        spend(text.len() as u64)?;
        let Some(length) = text[start..].find(close) else { break };
        text.replace_range(start..start + length + close.len(), "");
    }
    Ok(text)
}

fn striptags(value: &Value) -> Result<String, Error> {
    let text = str_of(value)?;
    spend_memory(text.len() as u64)?;
    let text = without(without(text, "<!--", "-->")?, "<", ">")?;
    let words: Vec<&str> = text.split(is_space).filter(|word| !word.is_empty()).collect();
    unescaped(&words.join(" "))
}

fn xmlattr(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let given = Bound::of("xmlattr", &["autospace"], &args.into_values())?;
    spend(extent(value))?;
    let mut out = String::new();
    for key in value.try_iter()? {
        let item = value.get_item(&key)?;
        if item.is_none() || item.is_undefined() {
            continue;
        }
        if str_of(&key)?.contains(|c: char| is_space(c) || matches!(c, '/' | '>' | '=')) {
            return Err(refuse(format!("xmlattr: {key} cannot be the name of an attribute")));
        }
        out.push_str(if out.is_empty() { "" } else { " " });
        out.push_str(&format!("{}=\"{}\"", as_markup(&key)?, as_markup(&item)?));
    }
    if !out.is_empty() && given.given("autospace").is_none_or(Value::is_true) {
        out.insert(0, ' ');
    }
    Ok(Value::from_safe_string(out))
}

fn filesizeformat(value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    const PREFIXES: [char; 8] = ['k', 'M', 'G', 'T', 'P', 'E', 'Z', 'Y'];
    let binary = Bound::of("filesizeformat", &["binary"], &args.into_values())?.is_true("binary");
    let size = match (Number::of(value), value.as_str()) {
        (Some(number), _) => Some(number.float()),
        (None, Some(text)) => text.trim().parse().ok(),
        _ => None,
    };
    let Some(size) = size.filter(|size: &f64| size.is_finite()) else {
        return Err(refuse(format!("filesizeformat: {value} is not a number")));
    };
    let base: f64 = if binary { 1024.0 } else { 1000.0 };
    if size == 1.0 {
        return Ok("1 Byte".into());
    }
    if size < base {
        return Ok(format!("{} Bytes", size.trunc() as i128));
    }
    let last = PREFIXES.len() - 1;
    let step = (0..last).find(|i| size < base.powi(*i as i32 + 2)).unwrap_or(last);
    let prefix = if binary { PREFIXES[step].to_ascii_uppercase() } else { PREFIXES[step] };
    let shown = base * size / base.powi(step as i32 + 2);
    Ok(format!("{shown:.1} {prefix}{}", if binary { "iB" } else { "B" }))
}

const fn is_blank(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\u{b}' | '\u{c}' | '\r' | ' ')
}

/// The length of the chunk of textwrap that begins at `at`.
fn chunk(text: &[char], at: usize, hyphens: bool) -> usize {
    let get = |place: usize| text.get(place).copied();
    let word = |place: usize| get(place).is_some_and(|c| c.is_alphanumeric() || c == '_');
    let letter = |place: usize| word(place) && !get(place).is_some_and(char::is_numeric);
    let punctuated = |place: usize| word(place) || get(place).is_some_and(|c| "!\"'&.,?".contains(c));
    let dash = |place: usize| {
        let count = (place..text.len()).take_while(|i| text[*i] == '-').count();
        (count >= 2 && word(place + count)).then_some(count)
    };
    if is_blank(text[at]) {
        return (at..text.len()).take_while(|i| is_blank(text[*i])).count();
    }
    if hyphens && at > 0 && punctuated(at - 1) {
        if let Some(count) = dash(at) {
            return count;
        }
    }
    for end in at + 1..=text.len() {
        if end == text.len() || is_blank(text[end]) {
            return end - at;
        }
        if !hyphens {
            continue;
        }
        let before = end >= 2
            && letter(end - 1)
            && (letter(end - 2) || (end >= 3 && text[end - 2] == '-' && letter(end - 3)));
        let after = letter(end + 1) && (letter(end + 2) || (get(end + 2) == Some('-') && letter(end + 3)));
        if text[end] == '-' && before && after {
            return end + 1 - at;
        }
        if punctuated(end - 1) && dash(end).is_some() {
            return end - at;
        }
    }
    text.len() - at
}

/// textwrap.wrap() of one line.
fn wrapped(line: &str, width: usize, long_words: bool, hyphens: bool) -> Vec<String> {
    let text: Vec<char> = line.chars().collect();
    let mut chunks: std::collections::VecDeque<&[char]> = std::collections::VecDeque::new();
    let mut at = 0;
    while at < text.len() {
        let length = chunk(&text, at, hyphens);
        chunks.push_back(&text[at..at + length]);
        at += length;
    }
    let blank = |chunk: &[char]| chunk.iter().all(|c| is_space(*c));
    let mut lines: Vec<String> = Vec::new();
    while !chunks.is_empty() {
        let (mut row, mut size): (Vec<&[char]>, usize) = (Vec::new(), 0);
        if !lines.is_empty() && chunks.front().is_some_and(|first| blank(first)) {
            chunks.pop_front();
        }
        while let Some(next) = chunks.front().copied().filter(|next| size + next.len() <= width) {
            size += next.len();
            row.push(next);
            chunks.pop_front();
        }
        if let Some(long) = chunks.front().copied().filter(|long| long.len() > width) {
            if long_words {
                let room = width - size;
                let cut = long[..room]
                    .iter()
                    .rposition(|c| *c == '-')
                    .filter(|hyphen| hyphens && *hyphen > 0 && long[..*hyphen].iter().any(|c| *c != '-'));
                let end = cut.map_or(room, |hyphen| hyphen + 1);
                row.push(&long[..end]);
                chunks[0] = &long[end..];
            } else if row.is_empty() {
                row.push(long);
                chunks.pop_front();
            }
        }
        if row.last().is_some_and(|last| blank(last)) {
            row.pop();
        }
        if !row.is_empty() {
            lines.push(row.concat().into_iter().collect());
        }
    }
    lines
}

fn wordwrap(value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    const NAMES: &[&str] = &["width", "break_long_words", "wrapstring", "break_on_hyphens"];
    let given = Bound::of("wordwrap", NAMES, &args.into_values())?;
    let width = usize::try_from(given.int("wordwrap", "width")?.unwrap_or(79)).unwrap_or(0);
    if width == 0 {
        return Err(refuse("wordwrap: the width must be above 0"));
    }
    let long_words = given.given("break_long_words").is_none_or(Value::is_true);
    let hyphens = given.given("break_on_hyphens").is_none_or(Value::is_true);
    let mark = given.text("wordwrap", "wrapstring")?.unwrap_or_else(|| "\n".into());
    let text = str_of(value)?;
    spend_memory((text.len() as u64).saturating_mul(16 + mark.len() as u64))?;
    let lines: Vec<String> =
        python::lines(&text).map(|line| wrapped(line, width, long_words, hyphens).join(&mark)).collect();
    Ok(lines.join(&mark))
}

pub fn add_to(env: &mut Environment) {
    for name in ["escape", "e"] {
        env.add_filter(name, |value: &Value| as_markup(value).map(Value::from_safe_string));
    }
    env.add_filter("forceescape", |value: &Value| escaped(value).map(Value::from_safe_string));
    env.add_filter("safe", |value: &Value| str_of(value).map(Value::from_safe_string));
    env.add_test("escaped", |value: &Value| value.is_safe());
    env.add_filter("striptags", striptags);
    env.add_filter("xmlattr", xmlattr);
    env.add_filter("filesizeformat", filesizeformat);
    env.add_filter("wordwrap", wordwrap);
}
