//! The filters of a chat template: those of Jinja2 and of transformers. Each pays for the values that it
//! reads and for those that it makes.

use minijinja::value::{from_args, Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{filters, Environment, Error, ErrorKind, State, Value};

use crate::arguments::Bound;
use crate::bounds::{spend, spend_memory, spend_on, spend_on_all_of};
use crate::groups;
use crate::numbers;
use crate::python::{self, str_of};

/// The price of a native filter.
#[derive(Clone, Copy)]
enum Price {
    /// The texts and lists themselves.
    Size,
    /// All their contents: it compares or adds their items.
    Leaves,
}

pub fn refuse(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.into())
}

/// Jinja2's parameters after the value, of filters that minijinja takes by name only.
const PARAMETERS: [(&str, &[&str]); 8] = [
    ("dictsort", &["case_sensitive", "by", "reverse"]),
    ("groupby", &["attribute", "default", "case_sensitive"]),
    ("max", &["case_sensitive", "attribute"]),
    ("min", &["case_sensitive", "attribute"]),
    ("round", &["precision", "method"]),
    ("sort", &["reverse", "case_sensitive", "attribute"]),
    ("sum", &["attribute", "start"]),
    ("unique", &["case_sensitive", "attribute"]),
];

/// The arguments as minijinja's filter takes them.
fn native_arguments(name: &str, mut args: Vec<Value>) -> Result<Vec<Value>, Error> {
    let Some(first) = args.first_mut() else { return Ok(args) };
    if matches!(name, "last" | "reverse") && first.kind() == ValueKind::Map {
        *first = first.try_iter()?.collect();
    }
    let Some((_, parameters)) = PARAMETERS.iter().find(|(known, _)| *known == name) else {
        return Ok(args);
    };
    let mut given = Bound::of(name, parameters, &args[1..])?;
    if let Some(attribute) = given.get("attribute").filter(|value| value.is_integer()) {
        let path = attribute.to_string();
        given.set("attribute", Value::from(path));
    }
    let number = args[0].clone();
    // Rounding up or down makes a float of an integer; the usual rounding keeps it.
    if name == "round"
        && number.is_integer()
        && given.get("method").is_some_and(|m| m.as_str() != Some("common"))
    {
        return Ok(vec![Value::from(f64::try_from(number)?), given.into_named()]);
    }
    Ok(vec![number, given.into_named()])
}

fn add_paid(env: &mut Environment, name: &'static str, price: Price, native: Value) {
    env.add_filter(name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
        let args = args.into_values();
        match price {
            Price::Size => spend_on(&args)?,
            Price::Leaves => args.iter().try_for_each(spend_on_all_of)?,
        }
        match args.first() {
            // Jinja2 only checks whether the value can be iterated.
            Some(first) if LAZY.contains(&name) && !first.is_true() => {
                return Ok(Value::from(Vec::<Value>::new()))
            }
            Some(first) if first.is_none() => return Err(refuse(format!("{name} of none"))),
            Some(first) if first.is_undefined() => match name {
                "length" | "count" => return Ok(Value::from(0)),
                "first" | "last" => return Ok(Value::UNDEFINED),
                "items" => return Ok(Value::from(Vec::<Value>::new())),
                _ => {}
            },
            _ => {}
        }
        let found = native.call(state, &native_arguments(name, args)?)?;
        if name == "groupby" {
            groups::of(&found)
        } else {
            Ok(found)
        }
    });
}

const LAZY: [&str; 5] = ["select", "reject", "map", "selectattr", "rejectattr"];

macro_rules! native {
    ($env:ident, $price:ident: $($name:ident)*) => {
        $(add_paid($env, stringify!($name), Price::$price, Value::from_function(filters::$name));)*
    };
}

pub fn add_to(env: &mut Environment) {
    native!(env, Size: dictsort items reverse split lines round abs first last list select reject map
            selectattr rejectattr chain zip length);
    native!(env, Leaves: min max sort sum unique groupby);
    add_paid(env, "count", Price::Size, Value::from_function(filters::length));
    env.add_filter("replace", replace);
    env.add_filter("join", join);
    env.add_filter("indent", indent);
    numbers::add_to(env);
    env.add_filter("capitalize", |value: &Value| str_of(value).map(|text| capitalized(&text)));
    env.add_filter("title", title);
    env.add_filter("wordcount", |value: &Value| {
        Ok::<_, Error>(
            str_of(value)?
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .filter(|w| !w.is_empty())
                .count(),
        )
    });
    env.add_filter("center", |text: &Value, args: Rest<ValueOrKwargs>| {
        let given = Bound::of("center", &["width"], &args.into_values())?;
        let width = given.int("center", "width")?.unwrap_or(80);
        padded(text, u64::try_from(width).unwrap_or(0), "center", ' ')
    });
    for name in ["default", "d"] {
        env.add_filter(name, default);
    }
    for (name, native) in
        [("batch", Value::from_function(filters::batch)), ("slice", Value::from_function(filters::slice))]
    {
        env.add_filter(name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            spend_on(&args)?;
            if args.first().is_some_and(Value::is_none) {
                return Err(refuse(format!("{name} of none")));
            }
            let count = args.get(1).and_then(Value::as_usize).unwrap_or(0) as u64;
            spend_memory(count.saturating_mul(size_of::<Value>() as u64))?;
            native.call(state, &args)
        });
    }
    env.add_filter("tojson", tojson);
    env.add_filter("string", str_of);
    env.add_filter("pprint", |value: &Value| python::repr_of(value));
    env.add_filter("trim", |value: &Value, args: Rest<ValueOrKwargs>| {
        let given = Bound::of("trim", &["chars"], &args.into_values())?;
        Ok::<_, Error>(strip(&str_of(value)?, given.text("trim", "chars")?.as_deref(), "strip"))
    });
    env.add_filter("upper", |value: &Value| str_of(value).map(|text| text.to_uppercase()));
    env.add_filter("lower", |value: &Value| str_of(value).map(|text| text.to_lowercase()));
    for name in ["chained", "changed"] {
        // A compared value may be large, so the filter pays for all of it.
        env.add_filter(name, move |state: &mut State, args: Rest<Value>| {
            spend_on_all_of(args.last().unwrap_or(&Value::UNDEFINED))?;
            if name == "chained" {
                return Ok(args[0].clone());
            }
            args[0].call_method(state, "changed", &args[1..])
        });
    }
}

pub fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars.as_str().to_lowercase().chars()).collect()
    })
}

/// Jinja2's filter: words begin after blanks and opening brackets. Python's method differs.
fn title(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    let mut starts = true;
    for c in str_of(value)?.chars() {
        if starts {
            out.extend(c.to_uppercase());
        } else {
            out.extend(c.to_lowercase());
        }
        starts = c == '-' || python::is_space(c) || matches!(c, '(' | '{' | '[' | '<');
    }
    Ok(out)
}

fn default(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let given = Bound::of("default", &["default_value", "boolean"], &args.into_values())?;
    if value.is_undefined() || (given.is_true("boolean") && !value.is_true()) {
        return Ok(given.given("default_value").cloned().unwrap_or_else(|| Value::from("")));
    }
    Ok(value.clone())
}

fn replace(text: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let given = Bound::of("replace", &["old", "new", "count"], &args.into_values())?;
    let (Some(old), Some(new)) = (given.given("old"), given.given("new")) else {
        return Err(refuse("replace needs an old and a new text"));
    };
    replaced(&str_of(text)?, &str_of(old)?, &str_of(new)?, given.int("replace", "count")?)
}

/// Cost of a match that is found and replaced, in the bytes that are copied in the same time.
const MATCH: u64 = 24;

/// str.replace(old, new, count); without a count or with a negative one: all.
pub fn replaced(text: &str, old: &str, new: &str, count: Option<i64>) -> Result<String, Error> {
    let most = count.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    spend(text.len() as u64)?;
    let found = text.matches(old).take(most).count() as u64;
    spend(found.saturating_mul(MATCH))?;
    spend_memory(found.saturating_mul(new.len() as u64).saturating_add(text.len() as u64))?;
    Ok(text.replacen(old, new, most))
}

fn join(state: &mut State, value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = args.into_values();
    let (joiner, attribute, options): (Option<&Value>, Option<Value>, Kwargs) = from_args(&args)?;
    let joiner = joiner.cloned().or(options.get::<Option<Value>>("d")?).unwrap_or_default();
    let attribute = attribute.or(options.get::<Option<Value>>("attribute")?);
    options.assert_all_used()?;
    let mut value = value.clone();
    if let Some(attribute) = attribute {
        let kwargs = Kwargs::from_iter([("attribute", attribute)]);
        value = state.apply_filter("map", &[value, Value::from(kwargs)])?;
    }
    if value.is_undefined() {
        return Ok(String::new());
    }
    if value.is_none() {
        return Err(refuse("join of none"));
    }
    joined(&str_of(&joiner)?, &value, false)
}

/// `strict`: as str.join, which takes texts only.
pub fn joined(joiner: &str, items: &Value, strict: bool) -> Result<String, Error> {
    let mut out = String::new();
    for (i, item) in items.try_iter()?.enumerate() {
        if strict && item.as_str().is_none() {
            return Err(refuse(format!("join: item {i} is not a text but of kind {}", item.kind())));
        }
        let text = str_of(&item)?;
        spend_memory((joiner.len() + text.len()) as u64)?;
        if i > 0 {
            out.push_str(joiner);
        }
        out.push_str(&text);
    }
    Ok(out)
}

fn indent(text: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = args.into_values();
    let (width, first, blank, options): (Option<Value>, Option<bool>, Option<bool>, Kwargs) =
        from_args(&args)?;
    let width = width.or(options.get::<Option<Value>>("width")?);
    let first = first.or(options.get::<Option<bool>>("first")?).unwrap_or(false);
    let blank = blank.or(options.get::<Option<bool>>("blank")?).unwrap_or(false);
    options.assert_all_used()?;
    let text = str_of(text)? + "\n";
    let lines: Vec<&str> = python::lines(&text).collect();
    let indention = match width {
        Some(given) if given.as_str().is_some() => given.as_str().unwrap_or_default().to_string(),
        Some(given) => {
            let count = given.as_usize().unwrap_or(0);
            spend_memory(count as u64)?;
            " ".repeat(count)
        }
        None => " ".repeat(4),
    };
    spend_memory((lines.len() as u64).saturating_mul(indention.len() as u64) + text.len() as u64)?;
    let mut out = String::new();
    for (i, line) in lines.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if (i == 0 && first) || (i > 0 && (blank || !line.is_empty())) {
            out.push_str(&indention);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// str.center, ljust, rjust or zfill.
pub fn padded(text: &Value, width: u64, how: &str, fill: char) -> Result<String, Error> {
    let text = str_of(text)?;
    let missing = width.saturating_sub(text.chars().count() as u64);
    spend_memory(missing.saturating_mul(4))?;
    let missing = missing as usize;
    let blanks = |count: usize| fill.to_string().repeat(count);
    Ok(match how {
        "ljust" => text + &blanks(missing),
        "rjust" => blanks(missing) + &text,
        "zfill" => {
            let sign = usize::from(text.starts_with(['+', '-']));
            format!("{}{}{}", &text[..sign], blanks(missing), &text[sign..])
        }
        _ => {
            let left = missing / 2 + (missing & width as usize & 1);
            format!("{}{text}{}", blanks(left), blanks(missing - left))
        }
    })
}

/// A width or precision of many digits in a format makes a text of that size.
pub fn check_widths(format: &Value) -> Result<(), Error> {
    const MAX_DIGITS: usize = 4;
    let text = format.as_str().unwrap_or_default();
    spend(text.len() as u64)?;
    if text.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > MAX_DIGITS)
        || text.contains('*')
    {
        return Err(refuse(format!("a width in a format has more than {MAX_DIGITS} digits, or is *")));
    }
    Ok(())
}

fn tojson(value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    const NAMES: &[&str] = &["ensure_ascii", "indent", "separators", "sort_keys"];
    let given = Bound::of("tojson", NAMES, &args.into_values())?;
    let indent = given.get("indent").map(|width| match width.as_str() {
        Some(text) => text.to_string(),
        None => " ".repeat(width.as_usize().unwrap_or(usize::from(width.is_true())).min(64)),
    });
    let separators = match given.get("separators").map(|pair| pair.try_iter()).transpose()? {
        Some(pair) => match pair.map(|part| str_of(&part)).collect::<Result<Vec<_>, _>>()?.as_slice() {
            [item, key] => (item.clone(), key.clone()),
            _ => return Err(refuse("tojson: separators must be two strings")),
        },
        None => (if indent.is_some() { "," } else { ", " }.to_string(), ": ".to_string()),
    };
    let (ensure_ascii, sort_keys) = (given.is_true("ensure_ascii"), given.is_true("sort_keys"));
    python::to_json(value, &python::JsonStyle { ensure_ascii, indent, separators, sort_keys })
}

pub fn strip(text: &str, chars: Option<&str>, which: &str) -> String {
    let set: Option<Vec<char>> = chars.map(|c| c.chars().collect());
    let gone = |c: char| set.as_ref().map_or_else(|| python::is_space(c), |set| set.contains(&c));
    match which {
        "lstrip" => text.trim_start_matches(gone),
        "rstrip" => text.trim_end_matches(gone),
        _ => text.trim_matches(gone),
    }
    .to_string()
}
