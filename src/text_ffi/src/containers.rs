//! Jinja2's operations on lists, texts and maps, as filters that `program` substitutes for minijinja's
//! operators.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Rest, ValueKind};
use minijinja::{Environment, Error, State, Value};

use crate::bounds::{extent, spend, spend_memory, spend_on_all_of};
use crate::groups::is_tuple;
use crate::operators::{equal, is_list, items_of, list_like, refuse, undefined, Number};

/// Methods that a template may read without calling them, and the filters that replace `.name`. In `d.items`,
/// Python finds the method before an item of that name; in `d["items"]`, it finds the item first.
macro_rules! methods {
    ($($constant:ident: $($name:ident)*;)*) => {
        $(const $constant: &[(&str, &str)] = &[$((stringify!($name), concat!(".", stringify!($name)))),*];)*
    };
}
methods! {
    OF_DICTS: items keys values get copy fromkeys;
    OF_LISTS: copy count index;
    OF_TUPLES: count index;
    OF_TEXTS: capitalize casefold center count encode endswith expandtabs find format format_map index isalnum
        isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper
        join ljust lower lstrip maketrans partition removeprefix removesuffix replace rfind rindex rjust
        rpartition rsplit rstrip split splitlines startswith strip swapcase title translate upper zfill;
}

fn all_methods() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    [OF_DICTS, OF_LISTS, OF_TEXTS].into_iter().flatten()
}

/// The method of a value that has this name.
fn method_of(value: &Value, name: &str) -> Option<&'static str> {
    let methods = match value.kind() {
        ValueKind::String => OF_TEXTS,
        ValueKind::Seq if is_tuple(value) => OF_TUPLES,
        ValueKind::Seq => OF_LISTS,
        _ if is_dict(value) => OF_DICTS,
        _ => return None,
    };
    methods.iter().find(|(known, _)| *known == name).map(|(known, _)| *known)
}

/// The filter that replaces `.name`.
pub fn attribute_filter(name: &str) -> Option<&'static str> {
    all_methods().find(|(known, _)| *known == name).map(|(_, filter)| *filter)
}

/// A method that was read but not called.
#[derive(Debug)]
struct BoundMethod {
    of: Value,
    name: &'static str,
}

impl Object for BoundMethod {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        self.of.call_method(state, self.name, args)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.of.kind() {
            ValueKind::String => "str",
            ValueKind::Map => "dict",
            _ if is_tuple(&self.of) => "tuple",
            _ => "list",
        };
        write!(f, "<built-in method {} of {kind} object>", self.name)
    }
}

fn bound(of: &Value, name: &'static str) -> Value {
    Value::from_object(BoundMethod { of: of.clone(), name })
}

/// A map that is not a namespace or another object of the virtual machine.
fn is_dict(value: &Value) -> bool {
    let own = |name: &str| ["Namespace", "Loop", "Macro", "Module"].iter().any(|own| name.ends_with(own));
    value.kind() == ValueKind::Map && !value.as_object().is_some_and(|object| own(object.type_name()))
}

fn attribute(value: &Value, name: &'static str) -> Result<Value, Error> {
    match method_of(value, name) {
        Some(name) => Ok(bound(value, name)),
        None => value.get_attr(name),
    }
}

/// The filter `attr`: an attribute, never an item.
fn attr(value: &Value, name: &str) -> Result<Value, Error> {
    match method_of(value, name) {
        Some(name) => Ok(bound(value, name)),
        None if is_dict(value) || is_list(value) || value.as_str().is_some() => Ok(Value::UNDEFINED),
        None => value.get_attr(name),
    }
}

fn contains(container: &Value, item: &Value) -> Result<bool, Error> {
    if let Some(text) = container.as_str() {
        let part = item.as_str().ok_or_else(|| {
            undefined(item).err().unwrap_or_else(|| {
                refuse(format!("in a text, `in` needs a text on its left, found {}", item.kind()))
            })
        })?;
        spend(text.len() as u64)?;
        return Ok(text.contains(part));
    }
    match container.kind() {
        ValueKind::Undefined => Ok(false),
        ValueKind::Map => {
            spend(extent(item))?;
            Ok(is_key(item) && !container.get_item(item)?.is_undefined())
        }
        ValueKind::Seq | ValueKind::Iterable => {
            for one in items_of(container)? {
                if equal(&one, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        kind => Err(refuse(format!("a value of kind {kind} contains nothing"))),
    }
}

/// A value that Python can hash. Lists cannot be keys of a map, and reading a large one as a key is slow.
fn is_key(value: &Value) -> bool {
    !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) || is_tuple(value)
}

/// container[key]; undefined if there is no such item.
fn item(container: &Value, key: &Value) -> Result<Value, Error> {
    if container.as_str().is_some() {
        spend(extent(container))?;
    } else {
        spend(extent(key))?;
    }
    if !is_key(key) && !container.is_undefined() {
        return Ok(Value::UNDEFINED);
    }
    spend_on_all_of(key)?;
    let found = container.get_item(key)?;
    match key.as_str().and_then(|name| method_of(container, name)) {
        Some(name) if found.is_undefined() => Ok(bound(container, name)),
        _ => Ok(found),
    }
}

/// The bounds of Python's slice.indices().
fn slice(value: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value, Error> {
    let bound = |v: &Value| match Number::of(v) {
        Some(Number::Int(i)) => Ok(Some(i.clamp(i64::MIN.into(), i64::MAX.into()))),
        None if v.is_none() => Ok(None),
        _ => Err(undefined(v).err().unwrap_or_else(|| refuse("the bounds of a slice must be integers"))),
    };
    let (start, stop, step) = (bound(start)?, bound(stop)?, bound(step)?.unwrap_or(1));
    undefined(value)?;
    if step == 0 {
        return Err(refuse("the step of a slice cannot be zero"));
    }
    if value.as_str().is_none() && !is_list(value) {
        return Ok(Value::UNDEFINED);
    }
    spend_memory(extent(value).saturating_mul(4))?;
    let chars: Vec<char> = value.as_str().unwrap_or_default().chars().collect();
    let items = if value.as_str().is_none() { items_of(value)? } else { Vec::new() };
    let length = (chars.len() + items.len()) as i128;
    let (low, high) = if step < 0 { (-1, length - 1) } else { (0, length) };
    let placed = |at: i128| (if at < 0 { at + length } else { at }).clamp(low, high);
    let first = start.map_or(if step < 0 { high } else { low }, placed);
    let end = stop.map_or(if step < 0 { low } else { high }, placed);
    let mut places = Vec::new();
    let mut at = first;
    while (step > 0 && at < end) || (step < 0 && at > end) {
        places.push(at as usize);
        at += step;
    }
    if value.as_str().is_some() {
        return Ok(Value::from(places.into_iter().map(|at| chars[at]).collect::<String>()));
    }
    Ok(list_like(value, places.into_iter().map(|at| items[at].clone()).collect()))
}

fn map_of(pairs: Rest<Value>) -> Result<Value, Error> {
    spend(pairs.len() as u64)?;
    for pair in pairs.chunks(2) {
        if !is_key(&pair[0]) {
            return Err(refuse(format!("a value of kind {} cannot be a key", pair[0].kind())));
        }
        spend_on_all_of(&pair[0])?;
    }
    Ok(Value::from_pairs(pairs.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone()))))
}

/// The items of a loop. A text becomes a list of its characters.
fn iterated(value: &Value) -> Result<Value, Error> {
    let each = if value.as_str().is_some() { size_of::<Value>() as u64 } else { 1 };
    spend_memory(extent(value).saturating_mul(each))?;
    if value.is_none() {
        return Err(refuse("none is not iterable"));
    }
    Ok(value.clone())
}

fn captured(value: &Value) -> Result<Value, Error> {
    spend(extent(value))?;
    Ok(value.clone())
}

pub fn add_to(env: &mut Environment) {
    env.add_filter("attr", attr);
    env.add_filter("in", |item: &Value, container: &Value| contains(container, item));
    env.add_test("in", |item: &Value, container: &Value| contains(container, item));
    env.add_filter("[]", item);
    env.add_filter("[:]", slice);
    env.add_filter("{}", map_of);
    env.add_filter("for", iterated);
    env.add_filter("captured", captured);
    for (name, filter) in all_methods() {
        env.add_filter(*filter, move |value: &Value| attribute(value, name));
    }
}
