//! The operators of Jinja2, with Python's semantics for its values. They are filters because `program`
//! substitutes them for minijinja's operators.

use std::cmp::Ordering;

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value};

use crate::bounds::{extent, spend, spend_memory, too_deep, MAX_DEPTH};
use crate::groups::is_tuple;
use crate::{markup, printf, python};

/// A number in Python's sense; a bool is 0 or 1.
#[derive(Clone, Copy)]
pub enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    pub fn of(value: &Value) -> Option<Number> {
        match value.kind() {
            ValueKind::Bool => Some(Number::Int(i128::from(value.is_true()))),
            ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok().map(Number::Int),
            ValueKind::Number => f64::try_from(value.clone()).ok().map(Number::Float),
            _ => None,
        }
    }

    pub fn float(self) -> f64 {
        match self {
            Number::Int(i) => i as f64,
            Number::Float(x) => x,
        }
    }
}

fn int(value: i128) -> Value {
    i64::try_from(value).map_or_else(|_| Value::from(value), Value::from)
}

pub fn refuse(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.into())
}

pub fn undefined(value: &Value) -> Result<(), Error> {
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, "an operand is undefined"));
    }
    Ok(())
}

fn unsupported(op: &str, a: &Value, b: &Value) -> Error {
    undefined(a).and(undefined(b)).err().unwrap_or_else(|| {
        refuse(format!("unsupported operand types for {op}: {} and {}", a.kind(), b.kind()))
    })
}

/// A list or tuple; a lazy list counts too.
pub fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

pub fn items_of(value: &Value) -> Result<Vec<Value>, Error> {
    spend_memory(extent(value).saturating_mul(size_of::<Value>() as u64))?;
    Ok(value.try_iter()?.collect())
}

pub fn list_like(first: &Value, items: Vec<Value>) -> Value {
    if is_tuple(first) {
        Value::from(Tuple::from(items))
    } else {
        Value::from(items)
    }
}

/// Python's arithmetic of two numbers; None if an integer leaves 128 bits.
fn arithmetic(
    op: &str,
    a: &Value,
    b: &Value,
    ints: impl Fn(i128, i128) -> Option<i128>,
    floats: impl Fn(f64, f64) -> f64,
) -> Result<Value, Error> {
    match (Number::of(a), Number::of(b)) {
        (Some(Number::Int(a)), Some(Number::Int(b))) => {
            ints(a, b).map(int).ok_or_else(|| refuse(format!("{op}: the number is too large")))
        }
        (Some(a), Some(b)) => Ok(Value::from(floats(a.float(), b.float()))),
        _ => Err(unsupported(op, a, b)),
    }
}

fn add(a: &Value, b: &Value) -> Result<Value, Error> {
    if let (Some(x), Some(y)) = (a.as_str(), b.as_str()) {
        spend_memory((x.len() + y.len()) as u64)?;
        if a.is_safe() || b.is_safe() {
            return Ok(Value::from_safe_string(markup::as_markup(a)? + &markup::as_markup(b)?));
        }
        return Ok(Value::from([x, y].concat()));
    }
    if is_list(a) && is_list(b) && is_tuple(a) == is_tuple(b) {
        let mut items = items_of(a)?;
        items.extend(items_of(b)?);
        return Ok(list_like(a, items));
    }
    spend(0)?;
    arithmetic("+", a, b, i128::checked_add, |a, b| a + b)
}

fn sub(a: &Value, b: &Value) -> Result<Value, Error> {
    spend(0)?;
    arithmetic("-", a, b, i128::checked_sub, |a, b| a - b)
}

fn mul(a: &Value, b: &Value) -> Result<Value, Error> {
    let (many, count) = if a.as_str().is_some() || is_list(a) { (a, b) } else { (b, a) };
    let repeated = many.as_str().is_some() || is_list(many);
    let Some(Number::Int(count)) = Number::of(count).filter(|_| repeated) else {
        spend(0)?;
        return arithmetic("*", a, b, i128::checked_mul, |a, b| a * b);
    };
    let count = u64::try_from(count.max(0)).unwrap_or(u64::MAX);
    let each = if many.as_str().is_some() { 1 } else { size_of::<Value>() as u64 };
    spend_memory(extent(many).saturating_mul(each).saturating_mul(count))?;
    if let Some(text) = many.as_str() {
        return Ok(Value::from(text.repeat(count as usize)));
    }
    let items = items_of(many)?;
    let all = items.iter().cycle().take(items.len() * count as usize).cloned().collect();
    Ok(list_like(many, all))
}

fn zero(op: &str, b: &Value) -> Result<(), Error> {
    match Number::of(b) {
        Some(number) if number.float() == 0.0 => Err(refuse(format!("{op}: division by zero"))),
        _ => Ok(()),
    }
}

fn div(a: &Value, b: &Value) -> Result<Value, Error> {
    spend(0)?;
    match (Number::of(a), Number::of(b)) {
        (Some(x), Some(y)) => zero("/", b).map(|()| Value::from(x.float() / y.float())),
        _ => Err(unsupported("/", a, b)),
    }
}

/// Rounds towards minus infinity; `checked_div_euclid` does so only for positive divisors.
fn floor_div(a: i128, b: i128) -> Option<i128> {
    let quotient = a.checked_div(b)?;
    if (a % b != 0) && ((a < 0) != (b < 0)) {
        quotient.checked_sub(1)
    } else {
        Some(quotient)
    }
}

fn float_rem(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) {
        rest + b
    } else if rest == 0.0 {
        0f64.copysign(b)
    } else {
        rest
    }
}

fn int_div(a: &Value, b: &Value) -> Result<Value, Error> {
    spend(0)?;
    zero("//", b)?;
    arithmetic("//", a, b, floor_div, |a, b| ((a - float_rem(a, b)) / b).round())
}

/// The remainder, or a format string with its arguments filled in.
fn rem(a: &Value, b: &Value) -> Result<Value, Error> {
    if a.as_str().is_some() {
        let arguments = if is_tuple(b) { items_of(b)? } else { vec![b.clone()] };
        return printf::operator(a.as_str().unwrap_or_default(), b, &arguments).map(Value::from);
    }
    spend(0)?;
    zero("%", b)?;
    arithmetic("%", a, b, |a, b| floor_div(a, b).and_then(|q| a.checked_sub(q.checked_mul(b)?)), float_rem)
}

fn pow(a: &Value, b: &Value) -> Result<Value, Error> {
    spend(0)?;
    let (Some(x), Some(y)) = (Number::of(a), Number::of(b)) else { return Err(unsupported("**", a, b)) };
    match (x, y) {
        (Number::Int(x), Number::Int(y)) if y >= 0 => u32::try_from(y)
            .ok()
            .and_then(|y| x.checked_pow(y))
            .map(int)
            .ok_or_else(|| refuse("**: the number is too large")),
        _ if x.float() == 0.0 && y.float() < 0.0 => Err(refuse("**: division by zero")),
        _ => Ok(Value::from(x.float().powf(y.float()))),
    }
}

fn neg(a: &Value) -> Result<Value, Error> {
    match Number::of(a) {
        Some(Number::Int(a)) => {
            a.checked_neg().map(int).ok_or_else(|| refuse("-: the number is too large"))
        }
        Some(Number::Float(a)) => Ok(Value::from(-a)),
        None => Err(unsupported("-", a, a)),
    }
}

/// a == b, where True == 1 == 1.0 and a tuple is not a list.
pub fn equal(a: &Value, b: &Value) -> Result<bool, Error> {
    equal_at(a, b, 0)
}

fn equal_at(a: &Value, b: &Value, depth: usize) -> Result<bool, Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        spend(a.len().min(b.len()) as u64)?;
        return Ok(a == b);
    }
    spend(0)?;
    match (Number::of(a), Number::of(b)) {
        (Some(Number::Int(a)), Some(Number::Int(b))) => return Ok(a == b),
        (Some(a), Some(b)) => return Ok(a.float() == b.float()),
        _ => {}
    }
    if is_list(a) && is_list(b) {
        if is_tuple(a) != is_tuple(b) || a.len() != b.len() {
            return Ok(false);
        }
        for (a, b) in items_of(a)?.iter().zip(items_of(b)?.iter()) {
            if !equal_at(a, b, depth + 1)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    if a.kind() == ValueKind::Map && b.kind() == ValueKind::Map {
        if a.len() != b.len() {
            return Ok(false);
        }
        for key in a.try_iter()? {
            let (a, b) = (a.get_item(&key)?, b.get_item(&key)?);
            if b.is_undefined() || !equal_at(&a, &b, depth + 1)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    let alone = |v: &Value| matches!(v.kind(), ValueKind::Undefined | ValueKind::None);
    Ok(a.kind() == b.kind() && (alone(a) || (!is_list(a) && a == b)))
}

/// None if one of them is NaN.
fn order(op: &str, a: &Value, b: &Value, depth: usize) -> Result<Option<Ordering>, Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        spend(a.len().min(b.len()) as u64)?;
        return Ok(Some(a.cmp(b)));
    }
    spend(0)?;
    match (Number::of(a), Number::of(b)) {
        (Some(Number::Int(a)), Some(Number::Int(b))) => return Ok(Some(a.cmp(&b))),
        (Some(a), Some(b)) => return Ok(a.float().partial_cmp(&b.float())),
        _ => {}
    }
    if !is_list(a) || !is_list(b) || is_tuple(a) != is_tuple(b) {
        return Err(unsupported(op, a, b));
    }
    let (a, b) = (items_of(a)?, items_of(b)?);
    for (a, b) in a.iter().zip(&b) {
        if !equal_at(a, b, depth + 1)? {
            return order(op, a, b, depth + 1);
        }
    }
    Ok(Some(a.len().cmp(&b.len())))
}

fn concat(a: &Value, b: &Value) -> Result<Value, Error> {
    let (a, b) = (python::str_of(a)?, python::str_of(b)?);
    spend_memory((a.len() + b.len()) as u64)?;
    Ok(Value::from(a + &b))
}

type Order = (&'static str, [&'static str; 3], fn(Ordering) -> bool);
const ORDERS: [Order; 4] = [
    ("<", ["<", "lt", "lessthan"], Ordering::is_lt),
    (">", [">", "gt", "greaterthan"], Ordering::is_gt),
    ("<=", ["<=", "le", "le"], Ordering::is_le),
    (">=", [">=", "ge", "ge"], Ordering::is_ge),
];

pub fn add_to(env: &mut Environment) {
    env.add_filter("+", add);
    env.add_filter("-", sub);
    env.add_filter("*", mul);
    env.add_filter("/", div);
    env.add_filter("//", int_div);
    env.add_filter("%", rem);
    env.add_filter("**", pow);
    env.add_filter("-x", neg);
    env.add_filter("~", concat);
    env.add_filter("==", equal);
    env.add_filter("!=", |a: &Value, b: &Value| equal(a, b).map(|same| !same));
    for (op, names, holds) in ORDERS {
        env.add_filter(op, move |a: &Value, b: &Value| order(op, a, b, 0).map(|o| o.is_some_and(holds)));
        for name in names {
            env.add_test(name, move |a: &Value, b: &Value| {
                order(op, a, b, 0).map(|o| o.is_some_and(holds))
            });
        }
    }
    for (name, test) in [("eq", true), ("equalto", true), ("==", true), ("ne", false), ("!=", false)] {
        env.add_test(name, move |a: &Value, b: &Value| equal(a, b).map(|same| same == test));
    }
}
