//! Filters of texts that minijinja lacks.

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, Value};

use crate::arguments::Bound;
use crate::bounds::{extent, spend, spend_memory};
use crate::filters::refuse;
use crate::operators::items_of;
use crate::python::str_of;

/// truncate(length=255, killwords=false, end='...', leeway=5). A text that is a little too long stays.
fn truncate(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    const WHAT: &str = "truncate";
    spend(extent(value))?;
    let given = Bound::of(WHAT, &["length", "killwords", "end", "leeway"], &args.into_values())?;
    let length = given.int(WHAT, "length")?.unwrap_or(255);
    let end = given.text(WHAT, "end")?.unwrap_or_else(|| "...".into());
    let leeway = given.int(WHAT, "leeway")?.unwrap_or(5);
    let kept = length.saturating_sub(end.chars().count() as i64);
    if kept < 0 || leeway < 0 {
        return Err(refuse("truncate: the length is less than that of end, or leeway is negative"));
    }
    let size = value.as_str().map(|text| text.chars().count()).or_else(|| value.len());
    let Some(size) = size else { return Err(refuse(format!("truncate of a {}", value.kind()))) };
    if size as i64 <= length.saturating_add(leeway) {
        return Ok(value.clone());
    }
    let Some(text) = value.as_str() else { return Err(refuse("truncate shortens only texts")) };
    let start: String = text.chars().take(kept as usize).collect();
    let words = if given.is_true("killwords") {
        start.as_str()
    } else {
        start.rsplit_once(' ').map_or(start.as_str(), |(words, _)| words)
    };
    Ok(Value::from(words.to_string() + &end))
}

/// Percent escapes of all bytes but those of Python's quote(); in a query, blanks are + and / is escaped.
fn quoted(value: &Value, query: bool) -> Result<String, Error> {
    let text = str_of(value)?;
    spend_memory(text.len().saturating_mul(3) as u64)?;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'.' | b'-' | b'~' => out.push(byte as char),
            b'/' if !query => out.push('/'),
            b' ' if query => out.push('+'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(out)
}

fn urlencode(value: &Value) -> Result<String, Error> {
    let pairs: Vec<(Value, Value)> = match value.kind() {
        ValueKind::Map => {
            let keys: Vec<Value> = value.try_iter()?.collect();
            keys.into_iter().map(|key| value.get_item(&key).map(|v| (key, v))).collect::<Result<_, _>>()?
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let pair = |item: Value| match items_of(&item)?.as_slice() {
                [key, value] => Ok((key.clone(), value.clone())),
                _ => Err(refuse("urlencode: an item is not a pair")),
            };
            items_of(value)?.into_iter().map(pair).collect::<Result<_, Error>>()?
        }
        _ => return quoted(value, false),
    };
    let parts: Result<Vec<String>, Error> =
        pairs.iter().map(|(key, value)| Ok(quoted(key, true)? + "=" + &quoted(value, true)?)).collect();
    Ok(parts?.join("&"))
}

/// str.expandtabs(tabsize=8): a tab ends at the next column that is a multiple of it.
pub fn expandtabs(text: &str, args: &[Value]) -> Result<String, Error> {
    let given = Bound::of("expandtabs", &["tabsize"], args)?;
    let size = given.int("expandtabs", "tabsize")?.unwrap_or(8).clamp(0, 1000) as usize;
    spend_memory((text.matches('\t').count() as u64).saturating_mul(size as u64))?;
    let mut out = String::with_capacity(text.len());
    let mut column = 0;
    for c in text.chars() {
        match c {
            '\t' if size > 0 => {
                let blanks = size - column % size;
                out.push_str(&" ".repeat(blanks));
                column += blanks;
            }
            '\t' => {}
            _ => {
                out.push(c);
                column = if c == '\n' || c == '\r' { 0 } else { column + 1 };
            }
        }
    }
    Ok(out)
}

pub fn add_to(env: &mut Environment) {
    env.add_filter("truncate", truncate);
    env.add_filter("urlencode", urlencode);
}
