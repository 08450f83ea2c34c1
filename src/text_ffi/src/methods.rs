//! The methods of texts, lists and maps that a chat template may call.

use minijinja::value::{from_args, Tuple, ValueKind};
use minijinja::{Error, State, Value};

use crate::arguments::Bound;
use crate::bounds::{extent, spend, spend_on, spend_on_all_of};
use crate::filters::{capitalized, check_widths, joined, padded, refuse, replaced, strip};
use crate::{python, texts};

/// Python's methods that pycompat lacks, implements differently, or does not bound.
fn text_method(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(Value::from(match name {
        "strip" | "lstrip" | "rstrip" => {
            let (chars,): (Option<String>,) = from_args(args)?;
            strip(text, chars.as_deref(), name)
        }
        "removeprefix" | "removesuffix" => {
            let (part,): (&str,) = from_args(args)?;
            let rest =
                if name == "removeprefix" { text.strip_prefix(part) } else { text.strip_suffix(part) };
            rest.unwrap_or(text).to_string()
        }
        "replace" => {
            let (old, new, count): (&str, &str, Option<i64>) = from_args(args)?;
            replaced(text, old, new, count)?
        }
        "join" => {
            let (items,): (&Value,) = from_args(args)?;
            joined(text, items, true)?
        }
        "center" | "ljust" | "rjust" | "zfill" => {
            let (width, fill): (i64, Option<char>) = from_args(args)?;
            let fill = fill.unwrap_or(if name == "zfill" { '0' } else { ' ' });
            padded(&Value::from(text), u64::try_from(width).unwrap_or(0), name, fill)?
        }
        "partition" | "rpartition" => {
            let (mark,): (&str,) = from_args(args)?;
            let cut = if name == "partition" { text.split_once(mark) } else { text.rsplit_once(mark) };
            let parts = match cut {
                Some((before, after)) => [before, mark, after],
                None if name == "partition" => [text, "", ""],
                None => ["", "", text],
            };
            return Ok(Some(Value::from(Tuple::from(parts.map(Value::from)))));
        }
        "rsplit" => return rsplit(text, args).map(Some),
        "split" => return split(text, args).map(Some),
        "expandtabs" => texts::expandtabs(text, args)?,
        "title" => {
            let mut inside = false;
            let mut out = String::new();
            for c in text.chars() {
                if inside {
                    out.extend(c.to_lowercase());
                } else {
                    out.extend(c.to_uppercase());
                }
                inside = c.is_lowercase() || c.is_uppercase();
            }
            out
        }
        "capitalize" => capitalized(text),
        "splitlines" => return splitlines(text, args).map(Some),
        "swapcase" => text
            .chars()
            .flat_map(|c| {
                let swapped: Vec<char> =
                    if c.is_uppercase() { c.to_lowercase().collect() } else { c.to_uppercase().collect() };
                swapped
            })
            .collect(),
        "casefold" => text.to_lowercase().replace('\u{df}', "ss"),
        "isdecimal" => {
            return Ok(Some(Value::from(!text.is_empty() && text.chars().all(char::is_numeric))))
        }
        "format" => {
            check_widths(&Value::from(text))?;
            args.iter().try_for_each(spend_on_all_of)?;
            return Ok(None);
        }
        _ => return Ok(None),
    })))
}

/// Methods that search for a part of a text, between two positions if given. Positions count
/// characters.
fn search(state: &mut State, text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let (part, from, to): (&Value, Option<i64>, Option<i64>) = from_args(args)?;
    let length = text.chars().count() as i64;
    let placed = |at: i64| (if at < 0 { at + length } else { at }).clamp(0, length) as usize;
    let (start, end) = (placed(from.unwrap_or(0)), placed(to.unwrap_or(length)));
    let byte = |place: usize| text.char_indices().nth(place).map_or(text.len(), |(at, _)| at);
    let window = if start <= end { &text[byte(start)..byte(end)] } else { "" };
    let base = if matches!(name, "index" | "rindex") { &name.replace("index", "find") } else { name };
    let value = Value::from(window);
    let found = minijinja_contrib::pycompat::unknown_method_callback(
        state,
        &value,
        base,
        std::slice::from_ref(part),
    )?;
    if !base.ends_with("find") {
        return Ok(found);
    }
    // pycompat counts bytes.
    match found.as_usize() {
        Some(at) => Ok(Value::from(start + window[..at.min(window.len())].chars().count())),
        None if base != name => Err(refuse(format!("{name}: the text does not hold this part"))),
        None => Ok(found),
    }
}

fn splitlines(text: &str, args: &[Value]) -> Result<Value, Error> {
    let keep = Bound::of("splitlines", &["keepends"], args)?.is_true("keepends");
    let mut at = 0;
    Ok(python::lines(text)
        .map(|line| {
            let end = at + line.len();
            let after = &text[end..];
            let mark =
                if after.starts_with("\r\n") { 2 } else { after.chars().next().map_or(0, char::len_utf8) };
            let start = std::mem::replace(&mut at, end + mark);
            Value::from(if keep { &text[start..end + mark] } else { line })
        })
        .collect())
}

/// The separator and the largest number of parts of split() and rsplit().
fn separator(name: &str, args: &[Value]) -> Result<(Option<String>, usize), Error> {
    let given = Bound::of(name, &["sep", "maxsplit"], args)?;
    let mark = given.text(name, "sep")?;
    if mark.as_deref() == Some("") {
        return Err(refuse(format!("{name}: the separator is empty")));
    }
    let most = given.int(name, "maxsplit")?.and_then(|n| usize::try_from(n).ok());
    Ok((mark, most.map_or(usize::MAX, |n| n.saturating_add(1))))
}

fn split(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (mark, most) = separator("split", args)?;
    let Some(mark) = mark else {
        let mut parts = Vec::new();
        let mut rest = text.trim_start_matches(python::is_space);
        while !rest.is_empty() {
            let cut = rest.find(python::is_space).filter(|_| parts.len() + 1 < most);
            let (word, after) = rest.split_at(cut.unwrap_or(rest.len()));
            parts.push(Value::from(word));
            rest = after.trim_start_matches(python::is_space);
        }
        return Ok(Value::from(parts));
    };
    Ok(text.splitn(most, mark.as_str()).map(Value::from).collect())
}

fn rsplit(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (mark, most) = separator("rsplit", args)?;
    let mut parts: Vec<&str> = match mark.as_deref() {
        Some(mark) => text.rsplitn(most, mark).collect(),
        None => {
            let mut parts = Vec::new();
            let mut rest = text.trim_end_matches(python::is_space);
            while !rest.is_empty() {
                let cut = rest.rfind(python::is_space).filter(|_| parts.len() + 1 < most);
                let Some(at) = cut else {
                    parts.push(rest.trim_start_matches(python::is_space));
                    break;
                };
                let word = rest[at..].trim_start_matches(python::is_space);
                parts.push(word);
                rest = rest[..at].trim_end_matches(python::is_space);
            }
            parts
        }
    };
    parts.reverse();
    Ok(parts.into_iter().map(Value::from).collect())
}

pub fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    spend(extent(value))?;
    spend_on(args)?;
    if let Some(text) = value.as_str() {
        if matches!(name, "find" | "rfind" | "index" | "rindex" | "count" | "startswith" | "endswith") {
            return search(state, text, name, args);
        }
        if let Some(result) = text_method(text, name, args)? {
            return Ok(result);
        }
    }
    match (value.kind(), name) {
        (ValueKind::Seq | ValueKind::Iterable, "count" | "index") => return list_method(value, name, args),
        (ValueKind::Seq | ValueKind::Map, "copy") => return Ok(value.clone()), // values do not change
        _ => {}
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args)
}

fn list_method(value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let (wanted, from): (&Value, Option<i64>) = from_args(args)?;
    let length = value.len().unwrap_or(0) as i64;
    let from = from.map_or(0, |at| (if at < 0 { at + length } else { at }).max(0)) as usize;
    let mut count = 0;
    for (at, item) in value.try_iter()?.enumerate().skip(from) {
        if crate::operators::equal(&item, wanted)? {
            if name == "index" {
                return Ok(Value::from(at));
            }
            count += 1;
        }
    }
    if name == "index" {
        return Err(refuse("index: the list does not hold this value"));
    }
    Ok(Value::from(count))
}
