//! Python's treatment of values that a template can observe: str(), repr(), json.dumps(), whitespace.

use std::fmt::Write;

use minijinja::value::{ValueIter, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use crate::bounds::{extent, spend, too_deep, MAX_DEPTH};
use crate::groups::is_tuple;

/// str.isspace() of one character: Unicode White_Space and the four ASCII separators.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// repr(float): the shortest digits that round-trip, scientific below 1e-4 and from 1e16 on.
pub fn float_repr(x: f64) -> String {
    if x.is_nan() {
        return "nan".into();
    }
    if x.is_infinite() {
        return if x < 0.0 { "-inf" } else { "inf" }.into();
    }
    let scientific = format!("{x:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{x}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn number_text(value: &Value, float: impl Fn(f64) -> String) -> String {
    match f64::try_from(value.clone()) {
        Ok(x) if !value.is_integer() => float(x),
        _ => value.to_string(),
    }
}

/// str(value). Undefined prints as an empty text, as in Jinja.
pub fn str_of(value: &Value) -> Result<String, Error> {
    spend(extent(value))?;
    Ok(match value.kind() {
        ValueKind::String => value.as_str().unwrap_or_default().to_string(),
        ValueKind::Number => number_text(value, float_repr),
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
            let mut out = String::new();
            write_repr(&mut out, value, 0)?;
            out
        }
        _ => str_of_leaf(value),
    })
}

/// repr(value).
pub fn repr_of(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    write_repr(&mut out, value, 0)?;
    Ok(out)
}

/// str.splitlines().
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    const ENDS: [char; 10] =
        ['\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.find(ENDS).unwrap_or(rest.len());
        let (line, after) = rest.split_at(end);
        let length = after.chars().next().map_or(0, char::len_utf8);
        rest = after.strip_prefix("\r\n").unwrap_or(&after[length..]);
        Some(line)
    })
}

fn write_repr(out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    spend(extent(value))?;
    match value.kind() {
        ValueKind::String => write_string_repr(out, value.as_str().unwrap_or_default()),
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::Seq | ValueKind::Iterable => {
            let (open, close) = if is_tuple(value) { ('(', ')') } else { ('[', ']') };
            out.push(open);
            let mut count = 0;
            for item in items(value) {
                if count > 0 {
                    out.push_str(", ");
                }
                write_repr(out, &item, depth + 1)?;
                count += 1;
            }
            if is_tuple(value) && count == 1 {
                out.push(',');
            }
            out.push(close);
        }
        ValueKind::Map if value.as_object().is_some_and(|o| o.enumerator_len().is_some()) => {
            out.push('{');
            for (i, key) in items(value).enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_repr(out, &key, depth + 1)?;
                out.push_str(": ");
                write_repr(out, &value.get_item(&key).unwrap_or_default(), depth + 1)?;
            }
            out.push('}');
        }
        _ => out.push_str(&str_of_leaf(value)),
    }
    Ok(())
}

fn str_of_leaf(value: &Value) -> String {
    match value.kind() {
        ValueKind::Number => number_text(value, float_repr),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.into(),
        ValueKind::None => "None".into(),
        _ => value.to_string(),
    }
}

fn items(value: &Value) -> impl Iterator<Item = Value> {
    let items: Option<ValueIter> = value.try_iter().ok();
    items.into_iter().flatten()
}

/// True for characters that repr() escapes. The rare unassigned code points count as printable.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{e000}'..='\u{f8ff}' | '\u{fff9}'..='\u{fffb}')
}

fn write_string_repr(out: &mut String, s: &str) {
    let quote = if s.contains('\'') && !s.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in s.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_unprintable(c) => {
                let n = c as u32;
                let _ = match n {
                    0..=0xff => write!(out, "\\x{n:02x}"),
                    0x100..=0xffff => write!(out, "\\u{n:04x}"),
                    _ => write!(out, "\\U{n:08x}"),
                };
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// The arguments of json.dumps that transformers' tojson passes on.
pub struct JsonStyle {
    pub ensure_ascii: bool,
    pub indent: Option<String>, // text of one level
    pub separators: (String, String),
    pub sort_keys: bool,
}

/// json.dumps(value, ...): insertion order, floats by repr, no HTML escaping.
pub fn to_json(value: &Value, style: &JsonStyle) -> Result<String, Error> {
    let mut out = String::new();
    write_json(&mut out, value, style, 0)?;
    Ok(out)
}

fn write_json(out: &mut String, value: &Value, style: &JsonStyle, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    spend(extent(value))?;
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&number_text(value, json_float)),
        ValueKind::String => write_json_string(out, value.as_str().unwrap_or_default(), style.ensure_ascii),
        ValueKind::Seq | ValueKind::Iterable => {
            let children: Vec<Value> = items(value).collect();
            write_container(out, ('[', ']'), &children, style, depth, |out, child| {
                write_json(out, child, style, depth + 1)
            })?;
        }
        ValueKind::Map => {
            let mut keys: Vec<Value> = items(value).collect();
            if style.sort_keys {
                keys.sort();
            }
            write_container(out, ('{', '}'), &keys, style, depth, |out, key| {
                let name = match key.kind() {
                    ValueKind::Bool => if key.is_true() { "true" } else { "false" }.to_string(),
                    ValueKind::None => "null".to_string(),
                    _ => str_of(key)?,
                };
                write_json_string(out, &name, style.ensure_ascii);
                out.push_str(&style.separators.1);
                write_json(out, &value.get_item(key)?, style, depth + 1)
            })?;
        }
        kind => {
            return Err(Error::new(
                ErrorKind::BadSerialization,
                format!("tojson: a value of kind {kind} is not JSON serializable"),
            ))
        }
    }
    Ok(())
}

fn write_container(
    out: &mut String,
    (open, close): (char, char),
    children: &[Value],
    style: &JsonStyle,
    depth: usize,
    mut write_child: impl FnMut(&mut String, &Value) -> Result<(), Error>,
) -> Result<(), Error> {
    out.push(open);
    for (i, child) in children.iter().enumerate() {
        if i > 0 {
            out.push_str(&style.separators.0);
        }
        new_line(out, style, depth + 1);
        write_child(out, child)?;
    }
    if !children.is_empty() {
        new_line(out, style, depth);
    }
    out.push(close);
    Ok(())
}

fn new_line(out: &mut String, style: &JsonStyle, depth: usize) {
    if let Some(indent) = &style.indent {
        out.push('\n');
        for _ in 0..depth {
            out.push_str(indent);
        }
    }
}

fn json_float(x: f64) -> String {
    match float_repr(x).as_str() {
        "nan" => "NaN".into(),
        "inf" => "Infinity".into(),
        "-inf" => "-Infinity".into(),
        finite => finite.into(),
    }
}

fn write_json_string(out: &mut String, s: &str, ensure_ascii: bool) {
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || (ensure_ascii && (c as u32) > 0x7e && c != '\u{7f}') => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
